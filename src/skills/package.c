/* SPDX-License-Identifier: Apache-2.0 */
/* One package: its SKILL.md and what lies beside it. */
#include "skills/package.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/fd.h"
#include "core/utf8.h"
#include "skills/beneath.h"
#include "skills/front.h"
#include "skills/glance.h"

/* Kernels before 6.13 stamp files with the time of the last tick, at most 10 ms ago; what changes
   twice within one looks unchanged the second time. */
#define SETTLING_US 50000

enum text_index {
    TEXT_NAME,
    TEXT_DISPLAY_NAME,
    TEXT_DESCRIPTION,
    TEXT_INSTRUCTIONS,
    TEXT_PACKAGE_ROOT,
    TEXT_ENTRY_FILE,
    TEXT_SOURCE_PATH,
};

struct package *package_ref(struct package *package)
{
    atomic_fetch_add(&package->refs, 1);
    return package;
}

void package_unref(struct package *package)
{
    if (!package || atomic_fetch_sub(&package->refs, 1) > 1)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(package->texts); i++)
        free(package->texts[i]);
    free(package->path);
    free(package->entry_path);
    free(package);
}

const struct skill *skill_ref(const struct skill *skill)
{
    package_ref((struct package *)skill);
    return skill;
}

void skill_unref(const struct skill *skill)
{
    package_unref((struct package *)skill);
}

void skill_list_release(struct skill_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        skill_unref(list->items[i]);
    free(list->items);
    *list = (struct skill_list){NULL, 0};
}

/* As Python's datetime rounds the float that its os.stat() has for a time. */
static int64_t time_us(struct timespec time)
{
    double whole;
    double value = (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
    double part = modf(value, &whole);
    return (int64_t)whole * 1000000 + (int64_t)rint(part * 1e6);
}

static void time_text(int64_t us, char ret[SKILL_TIME_SIZE])
{
    _Static_assert(SKILL_TIME_SIZE >= CLOCK_TEXT_SIZE, "room for it");
    clock_text(us, ret);
    char *fraction = strchr(ret, '.');
    if (us % 1000000 == 0 && fraction)
        memmove(fraction, fraction + 7, strlen(fraction + 7) + 1);
}

static void settle(struct package *package)
{
    const struct timespec *changes[] = {&package->dir.st_ctim, &package->entry.st_ctim};
    int64_t now = clock_now_us();
    package->settled = true;
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        int64_t then = (int64_t)changes[i]->tv_sec * 1000000 + changes[i]->tv_nsec / 1000;
        if (then > now - SETTLING_US)
            package->settled = false;
    }
}

/* Lets `skill` point to the texts. */
static void publish_texts(struct package *package)
{
    struct skill *skill = &package->skill;
    skill->name = package->texts[TEXT_NAME];
    skill->display_name = package->texts[TEXT_DISPLAY_NAME];
    skill->description = package->texts[TEXT_DESCRIPTION];
    skill->instructions = package->texts[TEXT_INSTRUCTIONS];
    skill->package_root = package->texts[TEXT_PACKAGE_ROOT];
    skill->entry_file = package->texts[TEXT_ENTRY_FILE];
    skill->source_path = package->texts[TEXT_SOURCE_PATH];
    package->text_bytes =
        skill->instructions_size + strlen(skill->created_at) + strlen(skill->updated_at);
    for (size_t i = 0; i < TEXT_SOURCE_PATH; i++) {
        if (i != TEXT_INSTRUCTIONS)
            package->text_bytes += strlen(package->texts[i]);
    }
}

/* A link is followed as long as it stays in the package. */
static int open_entry(const struct package_source *source)
{
    const struct glance *glance = source->glance;
    if (glance->by_link)
        return beneath_open(source->dir, glance->entry_file, O_RDONLY);
    int fd = openat(source->dir, glance->entry_file,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int read_entry(const struct package_source *source, struct stat *ret_stat, char **ret,
                      size_t *ret_size, struct error *err)
{
    const char *entry_file = source->glance->entry_file;
    cleanup_close int fd = open_entry(source);
    int rc = fd < 0 ? fd : beneath_read_fd(fd, SKILL_TEXT_MAX, ret_stat, ret, ret_size);
    if (rc == -EFBIG)
        return error_set(err, ERROR_LIMIT, "%s is larger than %u bytes", entry_file,
                         SKILL_TEXT_MAX);
    if (rc < 0)
        return error_errno(err, -rc, "cannot read %s", entry_file);
    if (!utf8_valid(*ret, *ret_size)) {
        free(steal_ptr(*ret));
        return error_set(err, ERROR_INVALID, "%s is not UTF-8", entry_file);
    }
    return 0;
}

static struct package *package_new(const struct package_source *source)
{
    struct package *package = xcalloc(1, sizeof *package);
    const char *path = source->path;
    package->refs = 1;
    package->path = xstrdup(path);
    package->entry_path = xasprintf("%s%s%s", path, *path ? "/" : "", source->glance->entry_file);
    package->by_link = source->glance->by_link;
    package->dir = *source->stamp;
    return package;
}

int package_read(const struct package_source *source, struct package **ret, struct error *err)
{
    cleanup_free char *text = NULL;
    cleanup_front struct front front = {.meta = NULL};
    const char *entry_file = source->glance->entry_file;
    struct stat entry;
    size_t size;
    if (read_entry(source, &entry, &text, &size, err) < 0)
        return -1;
    cleanup_free char *root =
        xasprintf("%s%s%s", source->base_path, *source->path ? "/" : "", source->path);
    if (front_read(text, size, strrchr(root, '/') + 1, &front, err) < 0)
        return error_wrap(err, "%s", entry_file);

    struct package *package = package_new(source);
    struct skill *skill = &package->skill;
    size_t from = front.parts.present ? front.parts.instructions : 0;
    package->entry = entry;
    package->texts[TEXT_NAME] = steal_ptr(front.name);
    package->texts[TEXT_DISPLAY_NAME] = steal_ptr(front.display_name);
    package->texts[TEXT_DESCRIPTION] = steal_ptr(front.description);
    memmove(text, text + from, size - from + 1);
    package->texts[TEXT_INSTRUCTIONS] = steal_ptr(text);
    package->texts[TEXT_PACKAGE_ROOT] = steal_ptr(root);
    package->texts[TEXT_ENTRY_FILE] = xstrdup(entry_file);
    skill->instructions_size = size - from;
    skill->python_project = source->glance->python;
    skill->created_us = time_us(entry.st_ctim);
    skill->updated_us = time_us(entry.st_mtim);
    time_text(skill->created_us, skill->created_at);
    time_text(skill->updated_us, skill->updated_at);
    publish_texts(package);
    settle(package);
    *ret = package;
    return 0;
}

struct package *package_broken(const struct package_source *source)
{
    struct package *package = package_new(source);
    package->broken = true;
    if (fstatat(source->dir, source->glance->entry_file, &package->entry, AT_SYMLINK_NOFOLLOW) == 0)
        settle(package);
    return package;
}

int package_load(int base, const char *base_path, const char *path, const char *entry_file,
                 struct package **ret, struct error *err)
{
    struct stat st;
    struct glance glance;
    cleanup_close int dir = beneath_open_plain(base, *path ? path : ".", O_RDONLY | O_DIRECTORY);
    if (dir < 0 || fstat(dir, &st) < 0)
        return error_errno(err, dir < 0 ? -dir : errno, "cannot open a skill's directory");
    int rc = glance_at(dir, &glance);
    if (rc < 0)
        return error_errno(err, -rc, "cannot read a skill's directory");
    if (!glance.entry_file || strcmp(glance.entry_file, entry_file) != 0) {
        glance.entry_file = entry_file;
        glance.by_link = true; /* for all we know */
    }
    const struct package_source source = {
        .dir = dir, .stamp = &st, .base_path = base_path, .path = path, .glance = &glance};
    return package_read(&source, ret, err);
}

static bool same_stamp(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool package_is_current(const struct package *package, const struct stat *dir,
                        const struct stat *entry)
{
    /* What a link leads to has stamps of its own, which nobody keeps. */
    return package->settled && !package->by_link && same_stamp(&package->dir, dir) &&
           same_stamp(&package->entry, entry);
}

struct package *package_moved(const struct package *package, const char *package_root,
                              const char *source_path)
{
    struct package *copy = xcalloc(1, sizeof *copy);
    copy->skill = package->skill;
    copy->refs = 1;
    copy->path = xstrdup(package->path);
    copy->entry_path = xstrdup(package->entry_path);
    for (size_t i = 0; i < TEXT_PACKAGE_ROOT; i++) {
        size_t size =
            i == TEXT_INSTRUCTIONS ? package->skill.instructions_size : strlen(package->texts[i]);
        copy->texts[i] = xmalloc(size + 1);
        memcpy(copy->texts[i], package->texts[i], size + 1);
    }
    copy->texts[TEXT_PACKAGE_ROOT] = xstrdup(package_root);
    copy->texts[TEXT_ENTRY_FILE] = xstrdup(package->skill.entry_file);
    copy->texts[TEXT_SOURCE_PATH] = source_path ? xstrdup(source_path) : NULL;
    publish_texts(copy);
    return copy;
}
