/* SPDX-License-Identifier: Apache-2.0 */
/* The user's editor. What was written there is never thrown away: where it cannot be used, the file
   stays. */
#include "cli/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/skill.h"
#include "core/fd.h"
#include "core/mem.h"

static void editing_free(struct editing *editing)
{
    free(editing->directory);
    free(editing->path);
    *editing = (struct editing){NULL, NULL};
}

void editing_end(struct editing *editing)
{
    if (editing->path)
        unlink(editing->path);
    /* Fails if the editor left something of its own there: that is its business. */
    if (editing->directory)
        rmdir(editing->directory);
    editing_free(editing);
}

int editing_keep(struct editing *editing, struct error *err)
{
    char *kept = steal_ptr(editing->path);
    editing_free(editing);
    error_hint(err, "what you wrote is in %.300s", kept);
    free(kept);
    return -1;
}

int editing_begin(struct editing *ret, const char *name, const char *text, size_t size,
                  struct error *err)
{
    const char *place = getenv("TMPDIR");
    struct editing editing = {
        .directory = xasprintf("%s/box-skill-XXXXXX", place && place[0] == '/' ? place : "/tmp")};
    if (!mkdtemp(editing.directory)) {
        error_errno(err, errno, "cannot make '%.200s'", editing.directory);
        editing_free(&editing);
        return -1;
    }
    editing.path = xasprintf("%s/%s", editing.directory, name);
    cleanup_close int fd = open(editing.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -errno : fd_write_all(fd, text, size);
    if (rc < 0) {
        error_errno(err, -rc, "cannot write '%.200s'", editing.path);
        editing_end(&editing);
        return -1;
    }
    *ret = editing;
    return 0;
}

/* --- the editor ---------------------------------------------------------------------------------
 */

static const char *choose_editor(void)
{
    static const char *const names[] = {"VISUAL", "EDITOR"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *value = getenv(names[i]);
        if (value && value[strspn(value, " \t")])
            return value;
    }
    return "vi";
}

/* It may have options, so the shell takes it apart, but never the path. */
_Noreturn static void become_editor(const char *editor, const char *path)
{
    cleanup_free char *line = xasprintf("%s \"$@\"", editor);
    execl("/bin/sh", "sh", "-c", line, editor, path, NULL);
    _exit(127);
}

/* Keys that interrupt are meant for the editor meanwhile. */
static int wait_for(pid_t pid)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old[2];
    int status;
    sigaction(SIGINT, &ignore, &old[0]);
    sigaction(SIGQUIT, &ignore, &old[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGQUIT, &old[1], NULL);
    return status;
}

int editing_run(const struct editing *editing, struct error *err)
{
    const char *editor = choose_editor();
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, errno, "cannot start an editor");
    if (pid == 0)
        become_editor(editor, editing->path);
    int status = wait_for(pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        error_set(err, ERROR_NOT_FOUND, "cannot run the editor '%.100s'", editor);
        return error_hint(err, "put one that is installed into VISUAL or EDITOR");
    }
    return error_set(err, ERROR_SYSTEM, "the editor '%.100s' failed: nothing is changed", editor);
}

int editing_read(const struct editing *editing, size_t max, char **ret, size_t *ret_size,
                 struct error *err)
{
    return skill_read_input(editing->path, max, ret, ret_size, err);
}
