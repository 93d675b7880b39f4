/* SPDX-License-Identifier: Apache-2.0 */
/* A form from hostile bytes: a Content-Type on the first line, then the body. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/multipart.h"
#include "core/mem.h"
#include "core/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_part(const struct multipart_part *part, const char *body, size_t size)
{
    assert(part->data >= body && part->size <= size && part->data + part->size <= body + size);
    assert(strlen(part->name) < sizeof part->name);
    assert(strlen(part->filename) < sizeof part->filename);
    assert(utf8_valid(part->name, strlen(part->name)));
    assert(utf8_valid(part->filename, strlen(part->filename)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    size_t head = newline ? (size_t)(newline - data) : size;
    cleanup_free char *type = xstrndup((const char *)data, head);
    cleanup_free char *boundary = NULL;
    if (multipart_boundary(type, &boundary, &err) < 0) {
        assert(err.code == ERROR_INVALID && err.message[0]);
        return 0;
    }
    assert(boundary[0] && strlen(boundary) <= MULTIPART_BOUNDARY_MAX);
    size -= newline ? head + 1 : head;
    /* Of its own size, so that a read past the end is seen. */
    cleanup_free char *body = xmalloc(size + 1);
    if (size > 0)
        memcpy(body, newline + 1, size);
    cleanup_free char *exact = size ? xreallocarray(steal_ptr(body), size, 1) : NULL;
    const char *at = exact ? exact : "";
    struct multipart form;
    struct multipart_part part;
    unsigned count = 0;
    int more = multipart_begin(&form, boundary, at, size, &err);
    while (more >= 0 && (more = multipart_next(&form, &part, &err)) > 0) {
        check_part(&part, at, size);
        assert(++count <= MULTIPART_PARTS_MAX);
    }
    assert(more == 0 || (err.code == ERROR_INVALID && err.message[0]));
    return 0;
}
