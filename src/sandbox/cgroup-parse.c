/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel writes about control groups, and the names of our own: bytes in, values out, no
 * I/O. */
#include "sandbox/cgroup-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* One decimal number at the start; returns how many bytes it took, 0 if there is none that fits. */
static size_t take_number(const char *text, size_t size, uint64_t *ret)
{
    uint64_t value = 0;
    size_t used = 0;
    for (; used < size && is_digit(text[used]); used++) {
        unsigned digit = (unsigned)(text[used] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    if (used > 0)
        *ret = value;
    return used;
}

int cgroup_parse_number(const char *text, size_t size, uint64_t *ret)
{
    uint64_t value;
    size_t used = take_number(text, size, &value);
    if (used == 0 || (used < size && text[used] != '\n'))
        return -EINVAL;
    *ret = value;
    return 0;
}

/* The next piece up to one of `stops`; false at the end. Empty pieces are given too. */
static bool next_piece(const char **at, const char *end, const char *stops, const char **ret,
                       size_t *ret_size)
{
    if (*at >= end)
        return false;
    const char *start = *at;
    const char *p = start;
    while (p < end && !(*p != '\0' && strchr(stops, *p)))
        p++;
    *ret = start;
    *ret_size = (size_t)(p - start);
    *at = p < end ? p + 1 : end;
    return true;
}

static bool piece_is(const char *piece, size_t size, const char *word)
{
    return size == strlen(word) && memcmp(piece, word, size) == 0;
}

int cgroup_parse_keyed(const char *text, size_t size, const char *key, uint64_t *ret)
{
    const char *line;
    size_t length;
    size_t key_length = strlen(key);
    for (const char *at = text; next_piece(&at, text + size, "\n", &line, &length);)
        if (length > key_length && memcmp(line, key, key_length) == 0 && line[key_length] == ' ')
            return cgroup_parse_number(line + key_length + 1, length - key_length - 1, ret);
    return -ENOENT;
}

unsigned cgroup_parse_controllers(const char *text, size_t size)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {
        {"memory", CGROUP_HAS_MEMORY},
        {"pids", CGROUP_HAS_PIDS},
        {"cpu", CGROUP_HAS_CPU},
        {"cpuacct", CGROUP_HAS_CPUACCT},
    };
    unsigned found = 0;
    const char *word;
    size_t length;
    for (const char *at = text; next_piece(&at, text + size, " ,\n", &word, &length);)
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            if (piece_is(word, length, names[i].name))
                found |= names[i].bit;
    return found;
}

/* hierarchy:controllers:path, with 0 and nothing for v2. */
bool cgroup_parse_self(const char **at, const char *end, struct cgroup_self *ret)
{
    const char *line;
    size_t length;
    while (next_piece(at, end, "\n", &line, &length)) {
        const char *first = memchr(line, ':', length);
        if (!first)
            continue;
        const char *list = first + 1;
        const char *second = memchr(list, ':', (size_t)(line + length - list));
        if (!second)
            continue;
        const char *path = second + 1;
        size_t path_length = (size_t)(line + length - path);
        unsigned controllers = cgroup_parse_controllers(list, (size_t)(second - list));
        bool v2 = piece_is(line, (size_t)(first - line), "0") && second == list;
        if ((!v2 && controllers == 0) || path_length == 0 || path[0] != '/' ||
            path_length >= sizeof ret->path || memchr(path, '\0', path_length))
            continue;
        ret->v2 = v2;
        ret->controllers = controllers;
        memcpy(ret->path, path, path_length);
        ret->path[path_length] = '\0';
        return true;
    }
    return false;
}

/* mountinfo writes blank, tab, newline and backslash as \ooo. */
static int unescape(const char *text, size_t size, char *ret, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '\\' && size - i > 3 && text[i + 1] >= '0' && text[i + 1] <= '3' &&
            text[i + 2] >= '0' && text[i + 2] <= '7' && text[i + 3] >= '0' && text[i + 3] <= '7') {
            c = (char)((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        }
        if (c == '\0' || used + 1 >= room)
            return -EINVAL;
        ret[used++] = c;
    }
    ret[used] = '\0';
    return 0;
}

struct mount_line {
    const char *root, *point, *type, *options;
    size_t root_size, point_size, type_size, options_size;
};

/* id parent major:minor root point options [optional…] - type source super-options */
static bool split_mount(const char *line, size_t length, struct mount_line *ret)
{
    const char *at = line;
    const char *end = line + length;
    const char *piece;
    size_t size;
    for (int i = 0; i < 6; i++) {
        if (!next_piece(&at, end, " ", &piece, &size))
            return false;
        if (i == 3) {
            ret->root = piece;
            ret->root_size = size;
        } else if (i == 4) {
            ret->point = piece;
            ret->point_size = size;
        }
    }
    do {
        if (!next_piece(&at, end, " ", &piece, &size))
            return false;
    } while (!piece_is(piece, size, "-"));
    return next_piece(&at, end, " ", &ret->type, &ret->type_size) &&
           next_piece(&at, end, " ", &piece, &size) &&
           next_piece(&at, end, " ", &ret->options, &ret->options_size);
}

/* A mount may show only a part of the hierarchy (a container's), and then not ours. */
static int join_mount(const struct mount_line *line, const char *group, char ret[PATH_MAX],
                      size_t *ret_top)
{
    char root[PATH_MAX];
    char dir[PATH_MAX];
    if (unescape(line->root, line->root_size, root, sizeof root) < 0 ||
        unescape(line->point, line->point_size, dir, sizeof dir) < 0 || root[0] != '/' ||
        dir[0] != '/')
        return -EINVAL;
    size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(group, root, skip) != 0 || (group[skip] != '/' && group[skip] != '\0'))
        return -ENOENT;
    if (strncmp(group + skip, "/..", 3) == 0 && (group[skip + 3] == '/' || !group[skip + 3]))
        return -ENOENT; /* outside this cgroup namespace */
    const char *rest = strcmp(group + skip, "/") == 0 ? "" : group + skip;
    size_t top = strlen(dir);
    if (top + strlen(rest) >= PATH_MAX)
        return -EINVAL;
    memcpy(ret, dir, top);
    memcpy(ret + top, rest, strlen(rest) + 1);
    *ret_top = top;
    return 0;
}

int cgroup_parse_mount(const char *text, size_t size, const struct cgroup_self *self,
                       char ret_dir[PATH_MAX], size_t *ret_top)
{
    const char *type = self->v2 ? "cgroup2" : "cgroup";
    const char *line;
    size_t length;
    for (const char *at = text; next_piece(&at, text + size, "\n", &line, &length);) {
        struct mount_line mount;
        if (!split_mount(line, length, &mount) || !piece_is(mount.type, mount.type_size, type))
            continue;
        unsigned has = cgroup_parse_controllers(mount.options, mount.options_size);
        if (!self->v2 && (has & self->controllers) != self->controllers)
            continue;
        if (join_mount(&mount, self->path, ret_dir, ret_top) == 0)
            return 0;
    }
    return -ENOENT;
}

int cgroup_parse_stat(const char *text, size_t size, char *ret_state, uint64_t *ret_start)
{
    /* The command name is the second field, may hold anything, and ends at the last ')'. */
    const char *at = memrchr(text, ')', size);
    const char *end = text + size;
    const char *piece;
    size_t length;
    char state = '\0';
    if (!at || end - at < 2 || at[1] != ' ')
        return -EINVAL;
    at += 2;
    for (int field = 3; next_piece(&at, end, " \n", &piece, &length); field++) {
        if (field == 3)
            state = length == 1 ? *piece : '\0';
        if (field < 22)
            continue;
        uint64_t start;
        if (state == '\0' || length == 0 || take_number(piece, length, &start) != length)
            return -EINVAL;
        *ret_state = state;
        *ret_start = start;
        return 0;
    }
    return -EINVAL;
}

bool cgroup_parse_pid(struct cgroup_pid_reader *reader, char c, pid_t *ret)
{
    if (is_digit(c)) {
        reader->value = reader->value * 10 + (unsigned)(c - '0');
        reader->digits = true;
        if (reader->value > INT_MAX) {
            reader->bad = true;
            reader->value = 0;
        }
        return false;
    }
    bool whole = c == '\n' && reader->digits && !reader->bad && reader->value > 0;
    if (whole)
        *ret = (pid_t)reader->value;
    *reader = (struct cgroup_pid_reader){.bad = c != '\n'};
    return whole;
}

bool cgroup_name_valid(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.");
    return length > 0 && length < CGROUP_NAME_MAX && name[length] == '\0' && name[0] != '.';
}

void cgroup_name_format(const struct cgroup_owner *owner, unsigned number, char *ret, size_t size)
{
    snprintf(ret, size, "box.%" PRIu64 ".%" PRIu64 ".%" PRIu64 ".%u", owner->pid_namespace,
             owner->pid, owner->start, number);
}

int cgroup_name_parse(const char *name, struct cgroup_owner *ret_owner, unsigned *ret_number)
{
    uint64_t values[4];
    char again[CGROUP_NAME_MAX];
    const char *at = name;
    if (strncmp(name, "box", 3) != 0)
        return -EINVAL;
    at += 3;
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        size_t used = *at == '.' ? take_number(at + 1, strlen(at + 1), &values[i]) : 0;
        if (used == 0)
            return -EINVAL;
        at += 1 + used;
    }
    if (*at != '\0' || values[1] == 0 || values[1] > INT_MAX || values[3] > UINT_MAX)
        return -EINVAL;
    struct cgroup_owner owner = {values[0], values[1], values[2]};
    /* One spelling only: what we would not have written is not ours. */
    cgroup_name_format(&owner, (unsigned)values[3], again, sizeof again);
    if (strcmp(again, name) != 0)
        return -EINVAL;
    *ret_owner = owner;
    *ret_number = (unsigned)values[3];
    return 0;
}

bool cgroup_is_scope(const char *unit)
{
    uint64_t pid;
    if (strncmp(unit, "box-", 4) != 0)
        return false;
    size_t used = take_number(unit + 4, strlen(unit + 4), &pid);
    return used > 0 && strcmp(unit + 4 + used, ".scope") == 0;
}
