/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests, from hostile bytes. The first byte picks the decoder. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/decode.h"
#include "core/json-out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct exec_limits limits = {30000, 3600000};

static void check_failure(int rc, const struct error *err)
{
    assert(rc == 0 || (err->code == ERROR_INVALID && err->message[0]));
}

static void check_order(const struct exec_order *order)
{
    struct exec_request request;
    exec_order_request(order, &request);
    assert(!request.command != !request.argv);
    assert(request.timeout_ms > 0 && request.timeout_ms <= limits.maximum_ms);
    assert(request.input || request.input_size == 0);
}

static void fuzz_session(const json_t *body, const struct session_spec *defaults)
{
    cleanup_session_spec struct session_spec spec = {0};
    struct error err = ERROR_INIT;
    int rc = decode_session(body, defaults, &spec, &err);
    check_failure(rc, &err);
    assert(rc < 0 || (spec.name && spec.memory_mb >= 32 && spec.cpus > 0));
}

static void fuzz_exec(const json_t *body, const struct session_spec *defaults, bool flat)
{
    cleanup_session_spec struct session_spec spec = {0};
    cleanup_exec_order struct exec_order order = {0};
    struct error err = ERROR_INIT;
    bool has_spec = flat;
    int rc = flat ? decode_exec_flat(body, defaults, &limits, &order, &spec, &err)
                  : decode_exec(body, "name", defaults, &limits, &order, &spec, &has_spec, &err);
    check_failure(rc, &err);
    if (rc < 0)
        return;
    assert(!has_spec || spec.name);
    check_order(&order);
}

static void fuzz_process(const json_t *body)
{
    cleanup_process_spec struct process_spec spec = {0};
    struct error err = ERROR_INIT;
    int rc = decode_process(body, &spec, &err);
    check_failure(rc, &err);
    assert(rc < 0 || (spec.id && spec.command && spec.cwd));
}

static void fuzz_small(const json_t *body)
{
    struct terminal_size terminal;
    struct error err = ERROR_INIT;
    int number;
    int rc = decode_signal(body, &number, &err);
    check_failure(rc, &err);
    assert(rc < 0 || (number > 0 && number <= 64));
    rc = decode_resize(body, &terminal, &err);
    check_failure(rc, &err);
    assert(rc < 0 || (terminal.rows > 0 && terminal.columns > 0));
}

/* Whatever bytes, what is written of them is JSON. */
static void fuzz_out(const uint8_t *data, size_t size)
{
    struct json_out out = JSON_OUT_INIT;
    out_bytes(&out, NULL, (const char *)data, size);
    json_t *value = json_loadb(out.buf.data, out.buf.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert(value);
    json_decref(value);
    json_out_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct session_spec defaults;
    struct error err = ERROR_INIT;
    cleanup_json json_t *body = NULL;
    if (size < 1)
        return 0;
    if (!defaults.image)
        session_spec_init(&defaults);
    fuzz_out(data + 1, size - 1);
    int rc = json_parse((const char *)data + 1, size - 1, &body, &err);
    check_failure(rc, &err);
    if (rc < 0)
        return 0;
    switch (data[0] % 5) {
    case 0:
        fuzz_session(body, &defaults);
        break;
    case 1:
        fuzz_exec(body, &defaults, false);
        break;
    case 2:
        fuzz_exec(body, &defaults, true);
        break;
    case 3:
        fuzz_process(body);
        break;
    case 4:
        fuzz_small(body);
        break;
    }
    return 0;
}
