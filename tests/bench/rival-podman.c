/* SPDX-License-Identifier: Apache-2.0 */
/* podman, where it is installed: storage of the benchmark's own, no daemon. */
#include <stdio.h>
#include <unistd.h>

#include "common.h"
#include "core/mem.h"
#include "rival-image.h"
#include "rivals.h"

#define IMAGE "localhost/box-bench"

char *rival_podman_run[RIVAL_ARGS];

static bool use_driver(const char *program, const char *driver, const char *image, const char *log)
{
    const char *at = bench.directory;
    char *common[] = {(char *)program,
                      (char *)"--root",
                      xasprintf("%s/podman-%s", at, driver),
                      (char *)"--runroot",
                      xasprintf("%s/podman-run-%s", at, driver),
                      (char *)"--tmpdir",
                      xasprintf("%s/podman-tmp-%s", at, driver),
                      (char *)"--storage-driver",
                      (char *)driver,
                      (char *)"--cgroup-manager=cgroupfs"};
    const char *const words[2][8] = {
        {"import", "--quiet", image, IMAGE},
        {"run", "--rm", "--network=none", IMAGE, "sh", "-c", "true"},
    };
    for (int i = 0; i < 2; i++) {
        size_t count = 0;
        for (; count < ARRAY_SIZE(common); count++)
            rival_podman_run[count] = common[count];
        for (size_t k = 0; k < ARRAY_SIZE(words[i]) && words[i][k]; k++)
            rival_podman_run[count++] = (char *)words[i][k];
        rival_podman_run[count] = NULL;
        if (!spawn_logged(rival_podman_run, log))
            return false;
    }
    return true;
}

const char *rival_podman_start(void)
{
    static char text[640];
    const char *program = rival_find("podman");
    const char *image = program ? rival_image() : NULL;
    if (!program)
        return "not installed";
    if (geteuid() != 0)
        return "needs root";
    if (!image)
        return "busybox-static is not installed";
    cleanup_free char *log = xasprintf("%s/podman.log", bench.directory);
    if (use_driver(program, "overlay", image, log) || use_driver(program, "vfs", image, log))
        return NULL;
    snprintf(text, sizeof text, "podman does not run here: %.512s", last_line(log));
    return text;
}
