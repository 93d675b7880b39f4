/* SPDX-License-Identifier: Apache-2.0 */
/* An archive to boxd, as a form: that is what can name several skills. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "cli/progress.h"
#include "cli/skill.h"
#include "core/buf.h"

#define FORM_MAX (64u << 20)

struct form {
    char boundary[48];
    struct buf body;
};

/* What is not sent yet. */
struct sending {
    const char *at;
    size_t left;
    struct progress progress;
};

/* --- the form -----------------------------------------------------------------------------------
 */

static int form_init(struct form *form, struct error *err)
{
    uint64_t random[2];
    /* What nobody can have put into an archive. */
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_errno(err, errno, "no random bytes");
    *form = (struct form){.body = BUF_INIT(FORM_MAX)};
    snprintf(form->boundary, sizeof form->boundary, "box-%016" PRIx64 "%016" PRIx64, random[0],
             random[1]);
    return 0;
}

static void form_add(struct form *form, const char *name, const char *more, const void *data,
                     size_t size)
{
    cleanup_free char *head =
        xasprintf("--%s\r\nContent-Disposition: form-data; name=\"%s\"%s\r\n\r\n", form->boundary,
                  name, more);
    buf_append(&form->body, head, strlen(head));
    buf_append(&form->body, data, size);
    buf_append(&form->body, "\r\n", 2);
}

static void form_add_text(struct form *form, const char *name, const char *text)
{
    form_add(form, name, "", text, strlen(text));
}

static void form_end(struct form *form)
{
    cleanup_free char *end = xasprintf("--%s--\r\n", form->boundary);
    buf_append(&form->body, end, strlen(end));
}

static void form_fill(struct form *form, const struct skill_upload *upload)
{
    form_add_text(form, "filename", upload->filename);
    /* Nobody else puts directories of that name there. */
    form_add_text(form, "target_suffix", "");
    if (upload->subdir)
        form_add_text(form, "source_subdir", upload->subdir);
    for (size_t i = 0; upload->paths && i < upload->paths->count; i++)
        form_add_text(form, "source_path", upload->paths->items[i]);
    form_add(form, "file", "; filename=\"skills.zip\"\r\nContent-Type: application/zip",
             upload->data, upload->size);
    form_end(form);
}

/* --- the request --------------------------------------------------------------------------------
 */

static ssize_t next_piece(char *buffer, size_t size, void *data)
{
    struct sending *sending = data;
    if (size > sending->left)
        size = sending->left;
    memcpy(buffer, sending->at, size);
    sending->at += size;
    sending->left -= size;
    progress_add(&sending->progress, size);
    return (ssize_t)size;
}

static int send_form(struct client *client, const struct form *form, const char *name,
                     const char *target, struct error *err)
{
    cleanup_free char *type = xasprintf("multipart/form-data; boundary=%s", form->boundary);
    struct sending sending = {.at = form->body.data, .left = form->body.size};
    const struct http_call call = {
        .method = "POST",
        .target = target,
        .type = type,
        .source = next_piece,
        .source_data = &sending,
        .source_length = form->body.size,
    };
    progress_start(&sending.progress, name, form->body.size);
    int rc = client_call(client, &call, err);
    progress_end(&sending.progress);
    return rc;
}

int client_skill_upload(struct client *client, const struct skill_upload *upload, bool install,
                        json_t **ret, struct error *err)
{
    struct form form;
    cleanup_json json_t *answer = NULL;
    if (form_init(&form, err) < 0)
        return -1;
    form_fill(&form, upload);
    int rc = send_form(client, &form, upload->filename,
                       install ? "/v1/skills/install" : "/v1/skills/preview", err);
    buf_release(&form.body);
    if (rc < 0 || client_answer(client, &answer, err) < 0)
        return -1;
    *ret = json_incref(json_object_get(answer, "skills"));
    return 0;
}
