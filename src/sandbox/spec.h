/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller wants of a sandbox: a plain value that crosses from the caller to the spawner. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/wire.h"
#include "sandbox/seccomp.h"

#define SPEC_MOUNTS_MAX 32
#define SPEC_PATHS_MAX  32
#define SPEC_ALLOW_MAX  64
#define SPEC_WIRE_MAX   (256 * 1024)
#define SPEC_KEY_MAX    17

#define NETWORK_MODES(X) \
    X(OFF, "off")        \
    X(ON, "on")

enum network_mode {
#define X(name, text) NETWORK_##name,
    NETWORK_MODES(X)
#undef X
        NETWORK_MODE_MAX,
    NETWORK_MODE_INVALID = -1,
};

const char *network_mode_name(enum network_mode mode);
enum network_mode network_mode_from_name(const char *name);

struct spec_mount {
    char *source;
    char *target;
    bool writable;
    bool make; /* the source is a directory below an allowed root, made where it is missing; a link
                  on the way to it is not followed */
};

/* Limits the caller named itself: one of these that cannot be enforced is an error, where a default
   merely becomes a note. */
enum spec_asked {
    SPEC_ASKED_MEMORY = 1 << 0,
    SPEC_ASKED_CPU = 1 << 1,
    SPEC_ASKED_PIDS = 1 << 2,
};

struct sandbox_spec {
    char *image; /* "host" */
    enum network_mode network;
    struct strings allow_net;
    struct spec_mount mounts[SPEC_MOUNTS_MAX];
    size_t mount_count;
    struct strings ro_paths;
    bool writable_root;
    uint64_t memory_bytes;
    uint32_t cpu_milli;
    uint32_t pids;
    uint32_t asked;         /* enum spec_asked */
    uint64_t scratch_bytes; /* /tmp, /dev/shm, /home/box and a workspace in memory, together */
    uint64_t scratch_inodes;
    char *workspace;      /* where its own directory is, unless something is mounted there */
    uint64_t quota_bytes; /* hard limit on that; 0: none asked for */
    uint64_t quota_inodes;
    enum seccomp_profile seccomp;
    bool strict;            /* refuse every weaker rung */
    char key[SPEC_KEY_MAX]; /* names the socket by which a later caller may reach its init: 16 hex
                               digits; "": none, it ends with its caller */
    bool single;            /* one command, then the end: init need not outlive a killed command */
};

#define SPEC_WORKSPACE "/workspace"

/* The defaults of `box run`. */
void sandbox_spec_init(struct sandbox_spec *spec);
void sandbox_spec_release(struct sandbox_spec *spec);
int sandbox_spec_add_mount(struct sandbox_spec *spec, const char *source, const char *target,
                           bool writable, struct error *err);
/* Instead of SPEC_WORKSPACE. */
int sandbox_spec_set_workspace(struct sandbox_spec *spec, const char *path, struct error *err);
int sandbox_spec_add_ro_path(struct sandbox_spec *spec, const char *path, struct error *err);

/* Ranges, forms and contradictions; touches no file. */
int sandbox_spec_check(const struct sandbox_spec *spec, struct error *err);

/* The places inside that have a limit of their own, to look at when a command failed. */
void sandbox_spec_bounded(const struct sandbox_spec *spec, struct strings *ret);

void sandbox_spec_encode(const struct sandbox_spec *spec, struct wire_writer *w);
/* Anything that does not decode and pass sandbox_spec_check() is an error; `ret` is then untouched.
 */
int sandbox_spec_decode(struct wire_reader *r, struct sandbox_spec *ret, struct error *err);
