/* SPDX-License-Identifier: Apache-2.0 */
/* make bench: boxd beside what a user would pick instead, all in one run, as ratios.

   What is compared is measured in turns, so that whatever else the machine does falls on all of it
   alike. Nothing here fails for being slow: it prints, people judge. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "core/mem.h"
#include "goals.h"
#include "guard.h"
#include "parts.h"

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"warm", part_warm},     {"cold", part_cold},       {"one-shot", part_one_shot},
    {"docker", part_docker}, {"load", part_load},       {"start", part_start},
    {"many", part_many},     {"relay", part_relay},     {"mcp", part_mcp},
    {"output", part_output}, {"langbot", part_langbot}, {"skills", part_skills},
};

static int usage(void)
{
    fputs("usage: bench [--box PATH] [--rounds N] [PART…]\nparts:", stderr);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        fprintf(stderr, " %s", parts[i].name);
    fputc('\n', stderr);
    return 2;
}

static bool is_wanted(const char *name, char **wanted)
{
    bool all = !*wanted;
    for (; *wanted; wanted++)
        all = all || strcmp(*wanted, name) == 0;
    return all;
}

static bool are_known(char **wanted)
{
    for (; *wanted; wanted++) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
            known = known || strcmp(*wanted, parts[i].name) == 0;
        if (!known)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"box", required_argument, NULL, 'b'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {NULL, 0, NULL, 0}};
    int option;
    bench = (struct bench){.box = "build/box", .rounds = 400};
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'b')
            bench.box = optarg;
        else if (option == 'r')
            bench.rounds = atoi(optarg);
        else
            return usage();
    }
    if (bench.rounds < 1 || !are_known(argv + optind))
        return usage();
    /* Absolute, and with their directory: boxd looks for box-init beside itself. */
    cleanup_free char *box = realpath(bench.box, NULL);
    if (!box)
        bench_fail("%s: %s", bench.box, strerror(errno));
    cleanup_free char *boxd = xasprintf("%sd", box);
    bench.box = box;
    bench.boxd = access(boxd, X_OK) == 0 ? boxd : NULL;
    guard_start();
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (is_wanted(parts[i].name, argv + optind))
            parts[i].run();
    goals_print();
    return 0;
}
