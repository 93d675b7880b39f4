/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a peer sends in chunks, for an action that comes later. Each is a file without a name
   in the state directory: whatever happens, nothing of it is left. A chunk is small enough to be
   written from the loop. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "api/rpc-internal.h"
#include "core/base64.h"
#include "core/fd.h"

#define KEY_MAX   255
#define TOTAL_MAX (4 * RPC_UPLOADS_MAX) /* of all connections: each holds a descriptor */

uint64_t rpc_upload_bytes_max = UINT64_C(1) << 30;

struct rpc_upload {
    LIST_ENTRY(rpc_upload) link;
    char *key;
    int fd;
    uint64_t size;
    int64_t next; /* index of the chunk that is to come */
    int64_t amount;
};

struct chunk {
    const char *key;
    int64_t index;
    int64_t amount;
    char *bytes;
    size_t size;
};

/* --- files --- */

static struct rpc_upload *find(struct rpc_conn *conn, const char *key)
{
    struct rpc_upload *upload;
    LIST_FOREACH(upload, &conn->uploads, link)
    if (strcmp(upload->key, key) == 0)
        return upload;
    return NULL;
}

static void forget(struct rpc_conn *conn, struct rpc_upload *upload)
{
    LIST_REMOVE(upload, link);
    conn->rpc->uploads--;
    conn->rpc->upload_bytes -= upload->size;
    fd_clear(&upload->fd);
    free(upload->key);
    free(upload);
}

void rpc_uploads_release(struct rpc_conn *conn)
{
    struct rpc_upload *next;
    for (struct rpc_upload *upload = LIST_FIRST(&conn->uploads); upload; upload = next) {
        next = LIST_NEXT(upload, link);
        forget(conn, upload);
    }
}

static struct rpc_upload *add(struct rpc_conn *conn, const char *key, struct error *err)
{
    const char *directory = runtime_config(conn->api->runtime)->state_dir;
    unsigned count = 0;
    struct rpc_upload *upload;
    LIST_FOREACH(upload, &conn->uploads, link)
    count++;
    if (count >= RPC_UPLOADS_MAX || conn->rpc->uploads >= TOTAL_MAX) {
        error_set(err, ERROR_CAPACITY, "%u files have been sent, and none of them used", count);
        return NULL;
    }
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        error_errno(err, errno, "make a file in '%.200s'", directory);
        return NULL;
    }
    upload = xcalloc(1, sizeof *upload);
    upload->key = xstrdup(key);
    upload->fd = fd;
    LIST_INSERT_HEAD(&conn->uploads, upload, link);
    conn->rpc->uploads++;
    return upload;
}

int rpc_upload_take(struct rpc_call *call, const char *key, int *ret_fd, uint64_t *ret_size,
                    struct error *err)
{
    struct rpc_upload *upload = find(call->conn, key);
    if (!upload)
        return error_set(err, ERROR_NOT_FOUND, "no file '%.255s' has been sent", key);
    if (upload->next != upload->amount)
        return error_set(err, ERROR_INVALID, "of the file '%.200s' %lld of %lld chunks have come",
                         key, (long long)upload->next, (long long)upload->amount);
    if (lseek(upload->fd, 0, SEEK_SET) < 0)
        return error_errno(err, errno, "rewind the file");
    *ret_fd = steal_fd(&upload->fd);
    *ret_size = upload->size;
    forget(call->conn, upload);
    return 0;
}

/* --- chunks --- */

static bool key_valid(const char *key)
{
    size_t size = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return size > 0 && size <= KEY_MAX && !key[size] && !strchr("._-", key[0]) &&
           !strstr(key, "..");
}

static int read_chunk(const char *base64, size_t size, struct chunk *chunk, struct error *err)
{
    if (size > base64_size(RPC_CHUNK_BYTES))
        return error_set(err, ERROR_INVALID, "a chunk has at most %u bytes", RPC_CHUNK_BYTES);
    if (base64_decode(base64, size, &chunk->bytes, &chunk->size, err) < 0)
        return error_wrap(err, "chunk_base64");
    if (chunk->size > RPC_CHUNK_BYTES)
        return error_set(err, ERROR_INVALID, "a chunk has at most %u bytes", RPC_CHUNK_BYTES);
    return 0;
}

static int check_position(const json_t *index, const json_t *amount, struct chunk *chunk,
                          struct error *err)
{
    chunk->index = json_integer_value(index);
    chunk->amount = json_integer_value(amount);
    if (!json_is_integer(index) || !json_is_integer(amount) || chunk->index < 0 ||
        chunk->index >= chunk->amount)
        return error_set(err, ERROR_INVALID,
                         "chunk_index must be an integer from 0 to below chunk_amount");
    return 0;
}

/* The first begins anew, whatever was there. */
static int restart(struct rpc_conn *conn, struct rpc_upload *upload, int64_t amount,
                   struct error *err)
{
    conn->rpc->upload_bytes -= upload->size;
    upload->size = 0;
    upload->next = 0;
    upload->amount = amount;
    if (ftruncate(upload->fd, 0) < 0)
        return error_errno(err, errno, "empty the file");
    return 0;
}

static int append(struct rpc_conn *conn, const struct chunk *chunk, struct error *err)
{
    struct rpc_upload *upload = find(conn, chunk->key);
    uint64_t max = conn->api->config.rpc.max_file_bytes;
    if (!upload && chunk->index == 0)
        upload = add(conn, chunk->key, err);
    if (!upload)
        return chunk->index == 0 ? -1
                                 : error_set(err, ERROR_INVALID, "the file begins with chunk 0");
    if (chunk->index == 0 && restart(conn, upload, chunk->amount, err) < 0)
        return -1;
    if (chunk->index != upload->next || chunk->amount != upload->amount)
        return error_set(err, ERROR_INVALID, "chunk %lld of %lld does not follow %lld of %lld",
                         (long long)chunk->index, (long long)chunk->amount,
                         (long long)upload->next - 1, (long long)upload->amount);
    if (chunk->size > max || upload->size > max - chunk->size)
        return error_set(err, ERROR_INVALID, "a file has at most %llu bytes",
                         (unsigned long long)max);
    if (conn->rpc->upload_bytes + chunk->size > rpc_upload_bytes_max)
        return error_set(err, ERROR_CAPACITY, "files that were sent, and not used, take %llu bytes",
                         (unsigned long long)conn->rpc->upload_bytes);
    if (pwrite(upload->fd, chunk->bytes, chunk->size, (off_t)upload->size) !=
        (ssize_t)chunk->size) /* less than all is a disk that is full, too */
        return error_errno(err, errno ? errno : ENOSPC, "write the file");
    upload->size += chunk->size;
    conn->rpc->upload_bytes += chunk->size;
    upload->next++;
    return 0;
}

static const char *const needed[] = {"file_key", "chunk_base64", "chunk_index", "chunk_amount"};

void rpc_file_chunk(struct rpc_call *call)
{
    struct error err = ERROR_INIT;
    const json_t *given[ARRAY_SIZE(needed)];
    struct chunk chunk = {0};
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        given[i] = json_object_get(call->data, needed[i]);
        if (!given[i]) {
            rpc_fail_missing(call, needed[i]);
            return;
        }
    }
    chunk.key = rpc_text(call, "file_key", NULL);
    const char *base64 = chunk.key ? rpc_text(call, "chunk_base64", NULL) : NULL;
    if (!base64)
        return;
    errno = 0;
    if (!key_valid(chunk.key))
        error_set(&err, ERROR_INVALID, "file_key: not a name that a file can have");
    else if (check_position(given[2], given[3], &chunk, &err) == 0 &&
             read_chunk(base64, json_string_length(given[1]), &chunk, &err) == 0)
        append(call->conn, &chunk, &err);
    free(chunk.bytes);
    if (err.code == ERROR_INVALID || err.code == ERROR_CAPACITY) {
        rpc_fail_as(call, "ValueError", &err);
    } else if (err.code != ERROR_NONE) {
        rpc_fail(call, &err);
    } else {
        rpc_ping(call);
    }
}
