/* SPDX-License-Identifier: Apache-2.0 */
/* Every message that crosses between caller, spawner, init and launcher, from hostile bytes. The
   first byte picks the receiver. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "init/messages.h"
#include "sandbox/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A spec that decodes must survive a round trip unchanged. */
static void fuzz_spec(const uint8_t *data, size_t size)
{
    static unsigned char first[SPEC_WIRE_MAX];
    static unsigned char second[SPEC_WIRE_MAX];
    struct wire_reader reader = {.data = data, .left = size};
    struct sandbox_spec spec;
    struct error err = ERROR_INIT;
    if (sandbox_spec_decode(&reader, &spec, &err) < 0) {
        assert(err.code != ERROR_NONE && err.message[0]);
        return;
    }
    struct wire_writer writer = {.data = first, .capacity = sizeof first};
    sandbox_spec_encode(&spec, &writer);
    sandbox_spec_release(&spec);
    if (writer.overflow)
        return;
    struct wire_reader again = {.data = first, .left = writer.size};
    assert(sandbox_spec_decode(&again, &spec, &err) == 0);
    struct wire_writer rewriter = {.data = second, .capacity = sizeof second};
    sandbox_spec_encode(&spec, &rewriter);
    sandbox_spec_release(&spec);
    assert(rewriter.size == writer.size && memcmp(first, second, writer.size) == 0);
}

/* One or two absolute paths that end where the message does, and an operation that is one. */
static void check_file(const struct init_file *head, const char *paths, size_t size)
{
    assert(paths[0] == '/' && strnlen(paths, size) + 1 == head->path_size);
    assert(head->request.op < FILE_OP_MAX);
    assert((head->request.flags & ~(uint32_t)FILE_FLAGS_ALL) == 0);
    const char *to = paths + head->path_size;
    if (head->request.op == FILE_MOVE)
        assert(to[0] == '/' && strnlen(to, size - head->path_size) + 1 == head->to_size);
    assert((size_t)head->path_size + head->to_size == size);
}

static void fuzz_init(const uint8_t *data, size_t size)
{
    static union init_request request;
    if (size > sizeof request)
        return;
    memset(&request, 'x', sizeof request); /* no NUL behind the end by chance */
    memcpy(&request, data, size);
    if (!init_request_valid(&request, size))
        return;
    switch (request.type) {
    case INIT_OPEN:
    case INIT_STATFS:
        assert(request.open.path[0] == '/' &&
               strlen(request.open.path) + 1 == request.open.head.path_size);
        break;
    case INIT_LANE:
        assert(request.lane.lane < LANE_MAX);
        break;
    case INIT_KEEP:
        assert(size == sizeof request.keep && request.keep.id != 0 && request.keep.lane < LANE_MAX);
        break;
    case INIT_OUTLIVE:
        assert(size == sizeof request.outlive);
        break;
    case INIT_FILE:
        check_file(&request.file.head, request.file.paths, size - sizeof request.file.head);
        break;
    default:
        assert(request.type == INIT_SIGNAL && size == sizeof request.signal);
    }
}

static void fuzz_lane(const uint8_t *data, size_t size)
{
    struct lane_exec head;
    const char *cwd;
    char **envp;
    if (size < sizeof head)
        return;
    memcpy(&head, data, sizeof head);
    if ((head.flags & LANE_IN_MEMFD) ||
        !lane_exec_valid(&head, size, head.flags & LANE_PTY ? 0 : 3))
        return;
    /* Exactly as large as they say, so that a read past the end is seen. */
    char *strings = malloc(head.size);
    char **vector = malloc((head.argc + head.envc + 2) * sizeof *vector);
    memcpy(strings, data + sizeof head, head.size);
    if (lane_exec_split(strings, &head, vector, &cwd, &envp) == 0) {
        assert(cwd == strings && envp == vector + head.argc + 1);
        assert(vector[head.argc] == NULL && envp[head.envc] == NULL);
        for (uint32_t i = 0; i < head.argc; i++)
            assert(vector[i] > strings && vector[i] < strings + head.size);
    }
    free(vector);
    free(strings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    switch (data[0] % 3) {
    case 0:
        fuzz_spec(data + 1, size - 1);
        break;
    case 1:
        fuzz_init(data + 1, size - 1);
        break;
    default:
        fuzz_lane(data + 1, size - 1);
        break;
    }
    return 0;
}
