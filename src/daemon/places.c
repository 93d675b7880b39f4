/* SPDX-License-Identifier: Apache-2.0 */
/* boxd's directories and the lock on them.

     run_dir            what sessions listen on, the lock; as root, the ranges of ids (idrange.c)
     run_dir/sessions   the front's records of live sessions
     state_dir          the front's audit log and kept output

   Where the front becomes another user, run_dir stays root's, and others can do no more than look
   at it: the spawner trusts what is in it. The other two are the front's, and the spawner
   never looks there. run_dir's group stays root's too, because a RuntimeDirectory= whose owner or
   group is not the service's is taken back by systemd with everything in it.

   The lock is one of fcntl(2), not of flock(2): the spawner is forked with a copy of every
   descriptor, and for a moment outlives a front that was killed. A lock that it shared would make
   the next boxd fail to start in just the case in which it is needed most. */
#include "daemon/places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fd.h"

#define DEFAULT_USER "boxd"

int account_find(const struct config *config, struct account *ret, struct error *err)
{
    bool named = config->user[0] != '\0';
    const char *name = named ? config->user : DEFAULT_USER;
    *ret = (struct account){.uid = geteuid(), .gid = getegid()};
    const struct passwd *entry;
    if (geteuid() != 0) {
        entry = named ? getpwnam(name) : NULL;
        if (!named || (entry && entry->pw_uid == geteuid()))
            return 0;
        return error_set(err, ERROR_DENIED, "only root can become the user '%s'", name);
    }
    errno = 0;
    entry = getpwnam(name);
    if (!entry && named) {
        error_set(err, ERROR_NOT_FOUND, "there is no user '%s'", name);
        return error_hint(err,
                          "useradd --system --no-create-home --shell /usr/sbin/nologin %s, or "
                          "user: root in the configuration",
                          name);
    }
    if (entry && entry->pw_uid != 0)
        *ret = (struct account){.change = true, .uid = entry->pw_uid, .gid = entry->pw_gid};
    return 0;
}

/* --- directories --- */

/* Parents too, for an ordinary user's ~/.local/state and the like. */
static int make_directory(const char *path, mode_t parents, mode_t mode, struct error *err)
{
    cleanup_free char *part = xstrdup(path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, parents) < 0 && errno != EEXIST)
            return error_errno(err, errno, "cannot make the directory %s", part);
        *slash = '/';
    }
    if (mkdir(part, mode) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make the directory %s", part);
    return 0;
}

struct place {
    const char *path;
    uid_t uid; /* what it is to be */
    gid_t gid;
    mode_t mode;
    uid_t former; /* an owner that it may have had, and that is as good */
};

static int check_place(const struct place *place, const struct stat *st, struct error *err)
{
    if (st->st_uid != place->uid && st->st_uid != place->former) {
        error_set(err, ERROR_DENIED, "%s belongs to the user %u, not to %u", place->path,
                  (unsigned)st->st_uid, (unsigned)place->uid);
        return error_hint(err, "chown %u %s, or choose another directory", (unsigned)place->uid,
                          place->path);
    }
    if (st->st_mode & (S_IWGRP | S_IRWXO) & ~place->mode) {
        error_set(err, ERROR_DENIED, "%s is open to other users (mode %03o)", place->path,
                  (unsigned)st->st_mode & 0777);
        return error_hint(err, "chmod %03o %s", (unsigned)place->mode, place->path);
    }
    return 0;
}

/* By its descriptor from the first look on, so that nobody swaps it in between. */
static int settle_place(const struct place *place, int *ret_fd, struct error *err)
{
    struct stat st;
    if (make_directory(place->path, geteuid() == 0 ? 0755 : 0700, 0700, err) < 0)
        return -1;
    cleanup_close int fd = open(place->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open the directory %s", place->path);
    if (check_place(place, &st, err) < 0)
        return -1;
    if ((st.st_uid != place->uid || st.st_gid != place->gid) && geteuid() == 0 &&
        fchown(fd, place->uid, place->gid) < 0)
        return error_errno(err, errno, "cannot give %s to its user", place->path);
    if ((st.st_mode & 0777) != place->mode && fchmod(fd, place->mode) < 0)
        return error_errno(err, errno, "cannot set the mode of %s", place->path);
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* What an earlier boxd left there under another account. Not what has several names: one of them
   may be somewhere else. */
static void give_files(int dir, const struct account *account)
{
    int copy = dup(dir);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    struct stat st;
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        cleanup_close int fd = openat(dir, entry->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
            st.st_uid != account->uid)
            (void)!fchownat(fd, "", account->uid, account->gid, AT_EMPTY_PATH);
    }
    if (list)
        closedir(list);
}

int places_prepare(const struct config *config, const struct account *account, struct error *err)
{
    cleanup_free char *records = xasprintf("%s/sessions", config->run_dir);
    uid_t self = geteuid();
    const struct place places[] = {
        {config->run_dir, self, getegid(), account->change ? 0755 : 0700, self},
        {records, account->uid, account->gid, 0700, self},
        {config->state_dir, account->uid, account->gid, 0700, self},
    };
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        cleanup_close int fd = -1;
        if (settle_place(&places[i], &fd, err) < 0)
            return -1;
        if (places[i].uid != self)
            give_files(fd, account);
    }
    return 0;
}

int places_workspace(const struct config *config, struct error *err)
{
    return *config->default_workspace ? make_directory(config->default_workspace, 0777, 0777, err)
                                      : 0;
}

/* One that is there stays whose it is. */
int places_skills(const struct config *config, const struct account *account, struct error *err)
{
    struct stat st;
    if (stat(config->skills_root, &st) == 0)
        return 0;
    if (make_directory(config->skills_root, 0755, 0755, err) < 0)
        return -1;
    if (account->change && chown(config->skills_root, account->uid, account->gid) < 0)
        return error_errno(err, errno, "cannot give %s to its user", config->skills_root);
    return 0;
}

int places_reach(const struct config *config, struct error *err)
{
    const char *const directories[] = {config->run_dir, config->state_dir};
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        if (access(directories[i], X_OK) < 0) {
            error_errno(err, errno, "boxd's own account (user id %d) cannot enter %s",
                        (int)geteuid(), directories[i]);
            return error_hint(err, "chmod o+x the directories above it, or choose other ones");
        }
    }
    return 0;
}

/* --- the lock --- */

static int lock_held(int fd, const char *directory, struct error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0)
        error_set(err, ERROR_UNAVAILABLE, "another boxd, process %d, uses %s", (int)lock.l_pid,
                  directory);
    else
        error_set(err, ERROR_UNAVAILABLE, "another boxd uses %s", directory);
    return error_hint(err, "stop it, or give this one its own --run-dir and --state-dir");
}

static int lock_directory(const char *directory, struct error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    cleanup_free char *path = xasprintf("%s/lock", directory);
    cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, errno, "cannot open %s", path);
    if (fcntl(fd, F_SETLK, &lock) < 0)
        return errno == EAGAIN || errno == EACCES ? lock_held(fd, directory, err)
                                                  : error_errno(err, errno, "cannot lock %s", path);
    steal_fd(&fd); /* closing any descriptor of the file would let go of the lock */
    return 0;
}

int places_lock(const struct config *config, struct error *err)
{
    if (lock_directory(config->run_dir, err) < 0)
        return -1;
    return strcmp(config->run_dir, config->state_dir) == 0 ? 0
                                                           : lock_directory(config->state_dir, err);
}
