/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation with a file worker: a process inside the sandbox that does one thing to one
   path, with the sandbox's rights and view, over a stream socket of its own. The front never
   touches a sandbox's files itself.

   The worker's first word is a struct file_reply. What follows depends on what was asked for:

     STAT, MKDIR, MOVE, REMOVE   nothing; the end of the stream
     READ                        `length` bytes of the file (fewer: it failed in the middle)
     LIST                        struct file_entry and its name, again and again; one with an empty
                                 name is the last
     WRITE                       now the asker sends: a uint32_t length and so many bytes, again and
                                 again; a length of 0 ends the file, and a second struct file_reply
                                 says how that went. The end of the stream before that leaves
                                 everything as it was. */
#pragma once

#include <stdint.h>

enum file_op {
    FILE_STAT,
    FILE_READ,   /* a regular file, from `offset`, at most `length` bytes */
    FILE_WRITE,  /* into a new file, which takes the name at the end; `mode` for one that is new */
    FILE_LIST,   /* a directory, unsorted */
    FILE_MKDIR,  /* with its parents; EEXIST only if it is no directory */
    FILE_MOVE,   /* to `to`; the parents of `to` are made */
    FILE_REMOVE, /* with FILE_RECURSIVE a directory and all in it */
    FILE_OP_MAX,
};

enum file_flags {
    FILE_RECURSIVE = 1 << 0,
    FILE_NO_REPLACE = 1 << 1, /* WRITE, MOVE: EEXIST if there is something */
    FILE_PARENTS = 1 << 2,    /* WRITE: make the directories above it */
    FILE_NO_FOLLOW = 1 << 3,  /* STAT: of a link itself */
    FILE_FLAGS_ALL = (1 << 4) - 1,
};

#define FILE_LENGTH_ALL UINT64_MAX
#define FILE_CHUNK_MAX  (256u * 1024) /* of a WRITE */
#define FILE_NAME_SIZE  256

struct file_request {
    uint32_t op;
    uint32_t flags;
    uint32_t mode;
    uint32_t unused;
    uint64_t offset;
    uint64_t length;
};

struct file_reply {
    int32_t errnum; /* 0: done, or go on */
    uint32_t mode; /* type and permissions, as stat(2) has them; of WRITE's first what is there now,
                      0: nothing */
    uint64_t size;
    uint64_t length; /* READ: bytes that follow */
    int64_t mtime_ns;
};

struct file_entry {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t mode;
    uint32_t name_size; /* bytes, without a NUL; 0: there are no more */
};
