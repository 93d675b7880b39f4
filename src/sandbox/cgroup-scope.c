/* SPDX-License-Identifier: Apache-2.0 */
/* A scope of the systemd user manager around this process, as `systemd-run --user --scope` makes
   one.

   libsystemd is loaded only here, when it is needed: most runs of `box` have no use for it. The
   manager is spoken to on its private socket, which is there also where no D-Bus daemon is; the
   user's bus is the second choice. The manager answers with a job; this process is in the scope
   when JobRemoved says so. */
#include "core/clock.h"
#include "sandbox/cgroup-internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#define JOB_WAIT_MS 5000

#define MANAGER   "org.freedesktop.systemd1"
#define OBJECT    "/org/freedesktop/systemd1"
#define INTERFACE "org.freedesktop.systemd1.Manager"

#define FUNCTIONS(X)                  \
    X(sd_bus_new)                     \
    X(sd_bus_set_address)             \
    X(sd_bus_start)                   \
    X(sd_bus_open_user)               \
    X(sd_bus_flush_close_unref)       \
    X(sd_bus_unref)                   \
    X(sd_bus_match_signal)            \
    X(sd_bus_slot_unref)              \
    X(sd_bus_message_new_method_call) \
    X(sd_bus_message_append)          \
    X(sd_bus_message_read)            \
    X(sd_bus_message_unref)           \
    X(sd_bus_call)                    \
    X(sd_bus_process)                 \
    X(sd_bus_wait)                    \
    X(sd_bus_error_free)

struct library {
    void *handle;
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
};

struct job {
    struct library *lib;
    const char *path; /* NULL until the manager has told it */
    char ended[128];  /* the last job that ended, and how */
    char result[32];
};

static int library_open(struct library *lib, struct error *err)
{
    lib->handle = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle) {
        error_set(err, ERROR_UNSUPPORTED, "libsystemd is needed to ask for a control group: %s",
                  dlerror());
        return error_hint(err, "apt install libsystemd0");
    }
#define X(name)                                                   \
    lib->name = (__typeof__(lib->name))dlsym(lib->handle, #name); \
    if (!lib->name)                                               \
        return error_set(err, ERROR_UNSUPPORTED, "libsystemd is too old: no " #name);
    FUNCTIONS(X)
#undef X
    return 0;
}

static void runtime_path(char ret[PATH_MAX], const char *name)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    if (dir && dir[0] == '/')
        snprintf(ret, PATH_MAX, "%s/%s", dir, name);
    else
        snprintf(ret, PATH_MAX, "/run/user/%u/%s", (unsigned)geteuid(), name);
}

bool cgroup_scope_possible(void)
{
    char path[PATH_MAX];
    runtime_path(path, "systemd/private");
    if (access(path, R_OK | W_OK) == 0)
        return true;
    runtime_path(path, "bus");
    return access(path, R_OK | W_OK) == 0;
}

static int connect_private(struct library *lib, sd_bus **ret)
{
    char path[PATH_MAX];
    char address[PATH_MAX + 16];
    runtime_path(path, "systemd/private");
    /* An address has its own escapes, and paths that would need them are not worth any. */
    if (path[strcspn(path, "%,;=\\ ")] != '\0')
        return -EINVAL;
    snprintf(address, sizeof address, "unix:path=%s", path);
    sd_bus *bus = NULL;
    int result = lib->sd_bus_new(&bus);
    if (result >= 0)
        result = lib->sd_bus_set_address(bus, address);
    if (result >= 0)
        result = lib->sd_bus_start(bus);
    if (result < 0)
        lib->sd_bus_unref(bus);
    else
        *ret = bus;
    return result;
}

static int on_job_removed(sd_bus_message *message, void *data, sd_bus_error *error)
{
    struct job *job = data;
    uint32_t id;
    const char *path;
    const char *unit;
    const char *result;
    (void)error;
    if (job->lib->sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) < 0)
        return 0;
    if (job->path && strcmp(path, job->path) != 0)
        return 0;
    snprintf(job->ended, sizeof job->ended, "%s", path);
    snprintf(job->result, sizeof job->result, "%s", result);
    return 0;
}

/* Processes stay killable by their session, and the unit goes when it is empty, also after a
 * failure. */
static int send_request(struct library *lib, sd_bus *bus, const char *unit, sd_bus_message **ret,
                        sd_bus_error *failure)
{
    sd_bus_message *message = NULL;
    int result = lib->sd_bus_message_new_method_call(bus, &message, MANAGER, OBJECT, INTERFACE,
                                                     "StartTransientUnit");
    if (result >= 0)
        result = lib->sd_bus_message_append(message, "ssa(sv)a(sa(sv))", unit, "fail", 4,
                                            "Description", "s", "boxd sandboxes", "PIDs", "au", 1,
                                            (uint32_t)getpid(), "Delegate", "b", 1, "CollectMode",
                                            "s", "inactive-or-failed", 0);
    if (result >= 0)
        result = lib->sd_bus_call(bus, message, (uint64_t)JOB_WAIT_MS * 1000, failure, ret);
    lib->sd_bus_message_unref(message);
    return result;
}

static int wait_for_job(struct library *lib, sd_bus *bus, struct job *job)
{
    uint64_t deadline = clock_monotonic_ms() + JOB_WAIT_MS;
    while (strcmp(job->ended, job->path) != 0) {
        int result = lib->sd_bus_process(bus, NULL);
        if (result < 0)
            return result;
        if (result > 0)
            continue;
        uint64_t now = clock_monotonic_ms();
        if (now >= deadline)
            return -ETIMEDOUT;
        result = lib->sd_bus_wait(bus, (deadline - now) * 1000);
        if (result < 0 && result != -EINTR)
            return result;
    }
    return 0;
}

static int start_scope(struct library *lib, sd_bus *bus, struct error *err)
{
    struct job job = {.lib = lib};
    sd_bus_error failure = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;
    sd_bus_slot *slot = NULL;
    char unit[64];
    snprintf(unit, sizeof unit, "box-%d.scope", (int)getpid());
    /* Before the request, so that the end of a quick job is not missed. */
    int result = lib->sd_bus_match_signal(bus, &slot, NULL, OBJECT, INTERFACE, "JobRemoved",
                                          on_job_removed, &job);
    if (result >= 0)
        result = send_request(lib, bus, unit, &reply, &failure);
    if (result >= 0)
        result = lib->sd_bus_message_read(reply, "o", &job.path);
    if (result >= 0)
        result = wait_for_job(lib, bus, &job);
    if (result < 0)
        error_errno(err, -result, "the systemd user manager made no scope%s%s",
                    failure.message ? ": " : "", failure.message ? failure.message : "");
    else if (strcmp(job.result, "done") != 0)
        result = error_set(err, ERROR_SYSTEM, "the systemd user manager made no scope: job %s",
                           job.result);
    lib->sd_bus_error_free(&failure);
    lib->sd_bus_message_unref(reply);
    lib->sd_bus_slot_unref(slot);
    return result < 0 ? -1 : 0;
}

int cgroup_scope_enter(struct error *err)
{
    struct library lib = {0};
    sd_bus *bus = NULL;
    int result = library_open(&lib, err);
    if (result == 0) {
        int connected = connect_private(&lib, &bus);
        if (connected < 0)
            connected = lib.sd_bus_open_user(&bus);
        if (connected < 0)
            result = error_errno(err, -connected, "the systemd user manager cannot be reached");
        else
            result = start_scope(&lib, bus, err);
    }
    if (result < 0 && err && err->hint[0] == '\0')
        error_hint(err, "sudo loginctl enable-linger $USER; systemctl --user status");
    if (bus)
        lib.sd_bus_flush_close_unref(bus);
    /* Not unloaded: sd-bus keeps thread-local state with destructors in the library. */
    return result;
}
