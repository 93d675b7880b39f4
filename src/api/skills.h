/* SPDX-License-Identifier: Apache-2.0 */
/* The skill store behind RPC and REST. It blocks on the disk, so what is asked of it is done in the
   thread pool, a few at a time, and of one scope one writer after the other: who waits for its turn
   waits here, not in a thread that others need.

   What is asked and what is answered are the same for both interfaces: docs/skills.md. */
#pragma once

#include "api/etag.h"
#include "backend/spec.h"
#include "core/json-out.h"
#include "skills/skills.h"

struct api;
struct backend;

#define SKILLS_WAITING_MAX 64

enum skill_verb {
    SKILL_VERB_LIST,
    SKILL_VERB_GET,
    SKILL_VERB_CREATE,
    SKILL_VERB_UPDATE,
    SKILL_VERB_DELETE,
    SKILL_VERB_SCAN,
    SKILL_VERB_FILES,
    SKILL_VERB_READ, /* as text, in JSON */
    SKILL_VERB_OPEN, /* as bytes: answer->bytes, or answer->fd of a large one */
    SKILL_VERB_WRITE,
    SKILL_VERB_REMOVE, /* a file */
    SKILL_VERB_PREVIEW,
    SKILL_VERB_INSTALL,
    SKILL_VERB_EXPORT, /* answer->fd */
    SKILL_VERB_VALIDATE,
    SKILL_VERB_RESOLVE, /* `names`, to be mounted: answer->paths */
    SKILL_VERB_MAX,
};

/* What is asked; its texts are its own. */
struct skill_ask {
    enum skill_verb verb;
    char *tenant; /* namespace; NULL: none */
    char *name;
    char *path; /* of a file, or of a directory to scan */
    char *display_name, *description, *instructions, *package_root; /* NULL: not given */
    bool include_hidden;
    size_t max_entries; /* 0: 200 */
    char *content;      /* of WRITE; or a zip file */
    size_t content_size;
    int archive; /* a zip file; -1: it is the content */
    char *filename, *source_subdir, *target_suffix;
    struct strings source_paths;
    struct strings names;
    struct strings roots;             /* whence packages may be imported; skills_ask() knows */
    struct skill_condition condition; /* of WRITE and REMOVE */
    bool absent_is_null;              /* GET: one that is not there is {"skill":null} */
    bool skip_missing; /* RESOLVE: those that are not there are left out, with a warning */
};

void skill_ask_init(struct skill_ask *ask, enum skill_verb verb);
void skill_ask_release(struct skill_ask *ask);
size_t skill_ask_bytes(const struct skill_ask *ask); /* of memory, of what can be much */

struct skill_answer {
    struct json_out out; /* one object */
    int fd;              /* of OPEN and EXPORT, at its beginning; the callee may take it */
    char *bytes;         /* of OPEN */
    uint64_t size;
    char etag[ETAG_SIZE];        /* of `bytes`, and of what WRITE wrote; "": none */
    struct strings names, paths; /* of RESOLVE, in pairs; the callee may take them */
    struct strings warnings;     /* of RESOLVE, likewise */
};

/* Taken over: `ask` is empty afterwards. `done` in any case, once, perhaps before this returns: the
   answer (NULL if there is an error) is its until it returns. */
void skills_ask(struct api *api, struct skill_ask *ask,
                void (*done)(void *data, struct skill_answer *answer, const struct error *err),
                void *data);

/* Whether skills_ask() would take it now; else ERROR_CAPACITY or ERROR_UNAVAILABLE. For who would
   use something up by asking. */
int skills_may_ask(const struct api *api, const struct skill_ask *ask, struct error *err);

/* Packages that were found become mounts of the spec. */
int skills_mount(const struct api *api, const struct strings *names, const struct strings *paths,
                 struct session_spec *spec, struct error *err);

/* A directory of the host as a client gave it: where it really is. ERROR_DENIED if that is not a
   place whence packages may come. (skill-source.c) */
int skill_source_find(const struct skill_ask *ask, const char *given, char **ret,
                      struct error *err);

/* One verb, here and now. What a thread of the pool does. */
int skill_run(struct skill_store *store, const struct skill_ask *ask, const char *scratch_dir,
              struct skill_answer *ret, struct error *err);
void skill_answer_release(struct skill_answer *answer);

/* The store as the configuration has it now; `skills` in struct api. */
struct skills;
/* `storage` sets limits on stores: see api_new(). */
struct skills *skills_new(struct api *api, struct backend *storage);
/* How its quota holds: "hard", by the file system; "counted", by boxd alone; "none", there is none;
   NULL: nobody knows before the first change. */
const char *skills_quota(const struct skills *skills);
/* Jobs under way finish on the store they began with. */
void skills_configure(struct skills *skills, const char *root, uint64_t quota_bytes);
/* boxd stops: those that wait are told so; those that run finish. */
void skills_stop(struct skills *skills);
/* When connections and requests are gone. Its memory goes when the last job has ended. */
void skills_free(struct skills *skills);
