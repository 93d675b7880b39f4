/* SPDX-License-Identifier: Apache-2.0 */
/* What a user would pick instead, as one-shot commands with isolation like ours. */
#include "rivals.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

const char *rival_find(const char *name)
{
    static const char *const dirs[] = {"/usr/bin", "/usr/sbin", "/usr/local/bin", "/bin", "/sbin"};
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        char *path = xasprintf("%s/%s", dirs[i], name);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

static void fill(char **argv, const char *program, const char *const *rest)
{
    size_t count = 0;
    argv[count++] = (char *)program;
    for (; *rest && count < RIVAL_ARGS - 1; rest++)
        argv[count++] = (char *)*rest;
    argv[count] = NULL;
}

bool rival_bwrap(char **argv)
{
    static const char *const rest[] = {"--unshare-all",
                                       "--die-with-parent",
                                       "--new-session",
                                       "--cap-drop",
                                       "ALL",
                                       "--ro-bind",
                                       "/usr",
                                       "/usr",
                                       "--symlink",
                                       "usr/bin",
                                       "/bin",
                                       "--symlink",
                                       "usr/lib",
                                       "/lib",
                                       "--symlink",
                                       "usr/lib64",
                                       "/lib64",
                                       "--symlink",
                                       "usr/sbin",
                                       "/sbin",
                                       "--ro-bind",
                                       "/etc/alternatives",
                                       "/etc/alternatives",
                                       "--ro-bind",
                                       "/etc/ld.so.cache",
                                       "/etc/ld.so.cache",
                                       "--ro-bind",
                                       "/etc/ssl",
                                       "/etc/ssl",
                                       "--proc",
                                       "/proc",
                                       "--dev",
                                       "/dev",
                                       "--tmpfs",
                                       "/tmp",
                                       "--tmpfs",
                                       "/home",
                                       "--tmpfs",
                                       "/workspace",
                                       "--chdir",
                                       "/workspace",
                                       "--",
                                       "true",
                                       NULL};
    const char *program = rival_find("bwrap");
    if (program)
        fill(argv, program, rest);
    return program != NULL;
}

bool rival_nsjail(char **argv)
{
    static const char *const rest[] = {"-Mo",   "-Q",
                                       "-R",    "/usr",
                                       "-s",    "usr/bin:/bin",
                                       "-s",    "usr/lib:/lib",
                                       "-s",    "usr/lib64:/lib64",
                                       "-R",    "/etc/ld.so.cache",
                                       "-T",    "/tmp",
                                       "-T",    "/workspace",
                                       "--cwd", "/workspace",
                                       "--",    "/usr/bin/true",
                                       NULL};
    const char *program = rival_find("nsjail");
    if (program)
        fill(argv, program, rest);
    return program != NULL;
}

static json_t *runc_mount(const char *type, const char *source, const char *target,
                          const char *option)
{
    return json_pack("{s:s,s:s,s:s,s:[s,s]}", "destination", target, "type", type, "source", source,
                     "options", "nosuid", option);
}

static json_t *runc_config(void)
{
    json_t *mounts = json_array();
    json_array_append_new(mounts, runc_mount("proc", "proc", "/proc", "noexec"));
    json_array_append_new(mounts, runc_mount("tmpfs", "tmpfs", "/dev", "strictatime"));
    json_array_append_new(mounts, runc_mount("devpts", "devpts", "/dev/pts", "newinstance"));
    json_array_append_new(mounts, runc_mount("bind", "/usr", "/usr", "rbind"));
    json_array_append_new(mounts, runc_mount("tmpfs", "tmpfs", "/tmp", "nodev"));
    json_array_append_new(mounts, runc_mount("tmpfs", "tmpfs", "/workspace", "nodev"));
    json_t *namespaces = json_pack("[{s:s},{s:s},{s:s},{s:s},{s:s}]", "type", "pid", "type",
                                   "network", "type", "ipc", "type", "uts", "type", "mount");
    return json_pack("{s:s, s:{s:b,s:{s:i,s:i},s:[s],s:[s],s:s,s:b}, s:{s:s,s:b}, s:o, "
                     "s:{s:o,s:{s:{s:I},s:{s:I}}}}",
                     "ociVersion", "1.0.2", "process", "terminal", 0, "user", "uid", 1000, "gid",
                     1000, "args", "/usr/bin/true", "env", "PATH=/usr/bin", "cwd", "/workspace",
                     "noNewPrivileges", 1, "root", "path", "rootfs", "readonly", 1, "mounts",
                     mounts, "linux", "namespaces", namespaces, "resources", "memory", "limit",
                     (json_int_t)1 << 30, "pids", "limit", (json_int_t)256);
}

bool rival_runc(const char *directory, char **argv)
{
    static const char *const dirs[] = {"proc", "dev", "usr", "tmp", "workspace", "etc"};
    static const char *const links[][2] = {
        {"usr/bin", "bin"}, {"usr/lib", "lib"}, {"usr/lib64", "lib64"}, {"usr/sbin", "sbin"}};
    const char *program = rival_find("runc");
    if (!program || geteuid() != 0)
        return false;
    cleanup_free char *root = xasprintf("%s/rootfs", directory);
    mkdir(directory, 0755);
    mkdir(root, 0755);
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        cleanup_free char *path = xasprintf("%s/%s", root, dirs[i]);
        mkdir(path, 0755);
    }
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        cleanup_free char *path = xasprintf("%s/%s", root, links[i][1]);
        if (symlink(links[i][0], path) < 0)
            return false;
    }
    cleanup_free char *file = xasprintf("%s/config.json", directory);
    json_t *config = runc_config();
    int rc = config ? json_dump_file(config, file, 0) : -1;
    json_decref(config);
    char *name = xasprintf("box-bench-%d", (int)getpid());
    const char *rest[] = {"run", "--bundle", xstrdup(directory), name, NULL};
    fill(argv, program, rest);
    return rc == 0;
}
