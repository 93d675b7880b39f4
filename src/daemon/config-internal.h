/* SPDX-License-Identifier: Apache-2.0 */
/* How the values of the table's keys lie in struct config. */
#pragma once

#include "daemon/config.h"

enum storage {
    STORED_TEXT,   /* char * */
    STORED_LIST,   /* struct strings */
    STORED_BOOL,   /* bool */
    STORED_NUMBER, /* uint64_t */
};

static inline enum storage storage_of(enum config_type type)
{
    switch (type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
    case CONFIG_CHOICE:
        return STORED_TEXT;
    case CONFIG_LIST:
    case CONFIG_PATHS:
    case CONFIG_RANGES:
    case CONFIG_SOCKETS:
        return STORED_LIST;
    case CONFIG_BOOL:
        return STORED_BOOL;
    default:
        return STORED_NUMBER;
    }
}

/* The path from `base` on ("": from where we are), in normal form. NULL with a problem if there is
   none. The caller frees. */
char *config_absolute(const char *key, const char *path, const char *base,
                      struct config_problems *problems);
/* What a value of the type looks like, for messages. */
const char *config_wanted(enum config_type type);

/* Not of one whose offset is CONFIG_NOWHERE. */
static inline void *slot(const struct config *config, const struct config_key *key)
{
    return (char *)config + key->offset;
}

/* Of several names for one place, not the first. */
static inline bool is_other_name(const struct config_key *key)
{
    for (const struct config_key *at = config_keys; at < key; at++)
        if (at->offset == key->offset)
            return true;
    return false;
}
