/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the skill store, and what it answers, as values. */
#include <string.h>

#include "api/skills.h"
#include "core/fd.h"

void skill_ask_init(struct skill_ask *ask, enum skill_verb verb)
{
    *ask = (struct skill_ask){.verb = verb, .archive = -1};
}

/* The texts that a client can make long; the content may have NULs in it. */
size_t skill_ask_bytes(const struct skill_ask *ask)
{
    const char *const texts[] = {ask->display_name, ask->description, ask->instructions};
    size_t size = ask->content_size;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        size += texts[i] ? strlen(texts[i]) : 0;
    return size;
}

void skill_ask_release(struct skill_ask *ask)
{
    char *texts[] = {ask->tenant,      ask->name,          ask->path,         ask->display_name,
                     ask->description, ask->instructions,  ask->package_root, ask->content,
                     ask->filename,    ask->source_subdir, ask->target_suffix};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    fd_clear(&ask->archive);
    strings_release(&ask->source_paths);
    strings_release(&ask->names);
    strings_release(&ask->condition.match.digests);
    strings_release(&ask->condition.none_match.digests);
    strings_release(&ask->roots);
    skill_ask_init(ask, ask->verb);
}

void skill_answer_release(struct skill_answer *answer)
{
    json_out_release(&answer->out);
    fd_clear(&answer->fd);
    free(answer->bytes);
    strings_release(&answer->names);
    strings_release(&answer->paths);
    strings_release(&answer->warnings);
}
