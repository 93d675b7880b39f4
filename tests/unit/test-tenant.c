/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: their names, and the fence over sessions of the backend that runs nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "runtime/tenant.h"
#include "null-backend.h"

#define TURNS_MAX 4000 /* of at most 5 ms each */

/* --- names ------------------------------------------------------------------------------------ */

static struct tenant_context context_of(const char *workspace, uint64_t generation)
{
    return (struct tenant_context){"instance-1", workspace, generation};
}

/* Computed by hashlib. */
static void test_namespace(void **state)
{
    (void)state;
    char x[129] = "", w[257] = "", space[TENANT_NAMESPACE_SIZE];
    memset(x, 'x', sizeof x - 1);
    memset(w, 'w', sizeof w - 1);
    const struct {
        const char *instance, *workspace, *space;
    } cases[] = {
        {"instance-1", "workspace-1", "ws-5ce0f0acfb461b5b873000e7"},
        {"a", "b", "ws-59b271ae1bbcb1d31d419298"},
        {"ab", "", "ws-969caaeb3626c0d5695eefa6"},
        {"a", "é漢😀", "ws-7aac56c79db193b77ccbae33"},
        {x, w, "ws-31ff5a74372f41ba5d1d23f4"},
        {"i\tn", " spaced ", "ws-446e49db3e655ea1b8877b94"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        tenant_namespace(cases[i].instance, cases[i].workspace, space);
        assert_string_equal(space, cases[i].space);
    }
}

/* As Python's re.sub and str.strip have it; NULL: nothing is left. */
static void test_session_name(void **state)
{
    (void)state;
    static const struct {
        const char *logical, *plain;
    } cases[] = {
        {"x", "x"},
        {"  x ", "x"},
        {"a/b c", "a-b-c"},
        {"a//b", "a-b"},
        {"-a-", "a"},
        {"aéb", "a-b"},
        {"a -b", "a--b"},
        {"a- -b", "a---b"},
        {"\u3000x\u2003", "x"},
        {"..", ".."},
        {"_", "_"},
        {"a\tb\n", "a-b"},
        {"x.", "x."},
        {"😀a😀b😀", "a-b"},
        {"-_-", "_"},
        {"\u200bx", "x"},
        {"1", "1"},
        {"A--B", "A--B"},
        {"azAZ09_.-", "azAZ09_."},
        {"a@[`{/:b", "a-b"}, /* neighbours of the letters and digits */
        {"ws-59b271ae1bbcb1d31d419298-g1-x", "ws-59b271ae1bbcb1d31d419298-g1-x"},
        {"", NULL},
        {" \u00a0", NULL},
        {"--", NULL},
        {"- / -", NULL},
        {"é", NULL},
    };
    struct tenant_context context = {"a", "b", 7};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err = ERROR_INIT;
        cleanup_free char *name = tenant_session_name(&context, cases[i].logical, &err);
        if (!cases[i].plain) {
            assert_null(name);
            assert_int_equal(err.code, ERROR_INVALID);
            continue;
        }
        cleanup_free char *expected =
            xasprintf("ws-59b271ae1bbcb1d31d419298-g7-%s", cases[i].plain);
        assert_non_null(name);
        assert_string_equal(name, expected);
    }
}

static void test_session_name_length(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    char logical[SESSION_NAME_MAX + 1];
    size_t prefix = strlen("ws-59b271ae1bbcb1d31d419298-g18446744073709551615-");
    struct tenant_context context = {"a", "b", UINT64_MAX};
    memset(logical, 'x', sizeof logical);
    logical[SESSION_NAME_MAX - prefix] = '\0';
    cleanup_free char *longest = tenant_session_name(&context, logical, &err);
    assert_non_null(longest);
    assert_int_equal(strlen(longest), SESSION_NAME_MAX);
    assert_true(tenant_owns(&context, longest));
    logical[SESSION_NAME_MAX - prefix] = 'x';
    logical[SESSION_NAME_MAX - prefix + 1] = '\0';
    assert_null(tenant_session_name(&context, logical, &err));
    assert_int_equal(err.code, ERROR_INVALID);
    assert_non_null(strstr(err.message, "205 bytes"));
    /* What goes away does not count. */
    memset(logical, '-', SESSION_NAME_MAX);
    logical[SESSION_NAME_MAX] = '\0';
    logical[100] = 'y';
    cleanup_free char *shorter = tenant_session_name(&context, logical, &err);
    assert_non_null(shorter);
    assert_string_equal(shorter + prefix, "y");
}

#define SPACE "ws-0123456789abcdef01234567"

static void test_name_parse(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t generation; /* 0: it is none */
        const char *logical;
    } cases[] = {
        {SPACE "-g1-x", 1, "x"},
        {SPACE "-g10-a-b", 10, "a-b"},
        {SPACE "-g18446744073709551615-x", UINT64_MAX, "x"},
        {SPACE "-g1--", 1, "-"},
        {SPACE "-g1-2-x", 1, "2-x"},
        {SPACE "-g1-é b", 1, "é b"},
        {SPACE "-g18446744073709551616-x", 0, NULL},
        {SPACE "-g99999999999999999999999-x", 0, NULL},
        {SPACE "-g0-x", 0, NULL},
        {SPACE "-g01-x", 0, NULL},
        {SPACE "-g+1-x", 0, NULL},
        {SPACE "-g-1-x", 0, NULL},
        {SPACE "-g 1-x", 0, NULL},
        {SPACE "-g1 -x", 0, NULL},
        {SPACE "-g1x-x", 0, NULL},
        {SPACE "-g-x", 0, NULL},
        {SPACE "-g1-", 0, NULL},
        {SPACE "-g1", 0, NULL},
        {SPACE "-g", 0, NULL},
        {SPACE "-", 0, NULL},
        {SPACE, 0, NULL},
        {SPACE "_g1-x", 0, NULL},
        {SPACE "-G1-x", 0, NULL},
        {"ws-0123456789ABCDEF01234567-g1-x", 0, NULL},
        {"ws-0123456789abcdef0123456-g1-x", 0, NULL},
        {"ws-0123456789abcdef012345678-g1-x", 0, NULL},
        {"ws-0123456789abcdef0123456g-g1-x", 0, NULL},
        {"Ws-0123456789abcdef01234567-g1-x", 0, NULL},
        {" " SPACE "-g1-x", 0, NULL},
        {"ws-", 0, NULL},
        {"w", 0, NULL},
        {"", 0, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct tenant_name parts = {.generation = 77};
        bool is = cases[i].generation > 0;
        if (tenant_name_parse(cases[i].name, &parts) != is)
            fail_msg("'%s' is read wrongly", cases[i].name);
        assert_int_equal(tenant_name_parse(cases[i].name, NULL), is);
        assert_int_equal(parts.generation, is ? cases[i].generation : 77);
        if (!is)
            continue;
        assert_string_equal(parts.space, SPACE);
        assert_string_equal(parts.logical, cases[i].logical);
    }
}

static void test_owns(void **state)
{
    (void)state;
    struct tenant_context mine = context_of("w", 3);
    cleanup_free char *name = tenant_session_name(&mine, "x", NULL);
    assert_true(tenant_owns(&mine, name));
    struct tenant_context others[] = {
        {"instance-1", "w", 2},  {"instance-1", "w", 4}, {"instance-1", "w", 33},
        {"instance-1", "w2", 3}, {"instance-2", "w", 3},
    };
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_false(tenant_owns(&others[i], name));
    assert_false(tenant_owns(&mine, "x"));
    assert_false(tenant_owns(&mine, ""));
}

/* Said once more, in another way: character by character, with a state. */
static char *plain_model(const char *text)
{
    char *out = xcalloc(1, strlen(text) + 1);
    bool gap = false;
    for (; *text; text++) {
        bool good = *text > 0 && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                        "0123456789_.-",
                                        *text);
        if (good && gap)
            strcat(out, "-");
        if (good)
            out[strlen(out)] = *text;
        gap = !good;
    }
    if (gap)
        strcat(out, "-");
    while (out[0] && out[strlen(out) - 1] == '-')
        out[strlen(out) - 1] = '\0';
    while (out[0] == '-')
        memmove(out, out + 1, strlen(out));
    return out;
}

static void test_session_name_random(void **state)
{
    (void)state;
    static const char *const pieces[] = {"a", "Z", "0",  "_", ".",  "-",      " ",
                                         "/", "é", "漢", "😀", "\t", "\u3000", "--"};
    srandom(4);
    for (int round = 0; round < 20000; round++) {
        char logical[128] = "";
        for (long left = random() % 12; left > 0; left--)
            strcat(logical, pieces[(size_t)random() % ARRAY_SIZE(pieces)]);
        struct tenant_context context = context_of("w", 1 + (uint64_t)random() % 20);
        struct tenant_name parts;
        cleanup_free char *model = plain_model(logical);
        cleanup_free char *name = tenant_session_name(&context, logical, NULL);
        assert_int_equal(name != NULL, model[0] != '\0');
        if (!name)
            continue;
        assert_true(tenant_name_parse(name, &parts));
        assert_string_equal(parts.logical, model);
        assert_int_equal(parts.generation, context.generation);
        assert_true(tenant_owns(&context, name));
        /* A name that was made is not changed by being made again. */
        cleanup_free char *again = tenant_session_name(&context, parts.logical, NULL);
        assert_string_equal(again, name);
    }
}

/* --- the bench -------------------------------------------------------------------------------- */

struct fixture {
    uv_loop_t loop;
    uv_timer_t tick; /* so that a turn of the loop ends */
    char dir[64];
    struct runtime_config config;
    struct backend *backend;
    struct runtime *runtime;
    struct tenants *tenants;
};

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void start(struct fixture *f)
{
    struct error err = ERROR_INIT;
    f->backend = backend_null_new(&f->loop);
    if (runtime_new(&f->loop, &f->config, f->backend, &f->runtime, &err) < 0)
        fail_msg("%s", err.message);
    f->tenants = tenants_new(f->runtime, 1000);
}

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->tick);
    uv_timer_start(&f->tick, on_tick, 5, 5);
    snprintf(f->dir, sizeof f->dir, "/tmp/boxd-tenant-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    runtime_config_init(&f->config);
    f->config.run_dir = xasprintf("%s/run", f->dir);
    f->config.state_dir = xasprintf("%s/state", f->dir);
    start(f);
    *state = f;
    return 0;
}

#define spin_until(f, condition)                         \
    do {                                                 \
        int turns_ = 0;                                  \
        while (!(condition) && turns_++ < TURNS_MAX)     \
            uv_run(&(f)->loop, UV_RUN_ONCE);             \
        if (!(condition))                                \
            fail_msg("this never came: %s", #condition); \
    } while (0)

static void ignore(void *data, const struct error *err)
{
    (void)data;
    (void)err;
}

static void set_flag(void *data)
{
    *(bool *)data = true;
}

static void stop(struct fixture *f, bool keep)
{
    bool stopped = false;
    runtime_stop(f->runtime, keep, set_flag, &stopped);
    spin_until(f, stopped);
    tenants_free(f->tenants);
    runtime_free(f->runtime);
    f->runtime = NULL;
    f->backend->ops->close(f->backend);
    uv_run(&f->loop, UV_RUN_ONCE);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[128];
    if (f->runtime)
        stop(f, false);
    uv_close((uv_handle_t *)&f->tick, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
    free((char *)f->config.run_dir);
    free((char *)f->config.state_dir);
    free(f);
    return 0;
}

struct opened {
    unsigned count;
    bool good;
    enum error_code code;
};

static void on_opened(void *data, struct session *session, bool created, const struct error *err)
{
    (void)created;
    struct opened *opened = data;
    opened->count++;
    opened->good = session;
    opened->code = err ? err->code : ERROR_NONE;
}

static char *physical(const char *workspace, uint64_t generation, const char *logical)
{
    struct tenant_context context = context_of(workspace, generation);
    return tenant_session_name(&context, logical, NULL);
}

static void begin_open(struct fixture *f, const char *name, const char *image, bool persistent,
                       struct opened *opened)
{
    struct session_spec spec;
    session_spec_init(&spec);
    spec.name = xstrdup(name);
    spec.persistent = persistent;
    if (image) {
        free(spec.image);
        spec.image = xstrdup(image);
    }
    runtime_open_session(f->runtime, &spec, on_opened, opened);
    session_spec_release(&spec);
}

static enum error_code open_session(struct fixture *f, const char *name)
{
    struct opened opened = {0};
    begin_open(f, name, NULL, false, &opened);
    spin_until(f, opened.count == 1);
    return opened.code;
}

static enum error_code open_tenant(struct fixture *f, const char *workspace, uint64_t generation,
                                   const char *logical)
{
    cleanup_free char *name = physical(workspace, generation, logical);
    return open_session(f, name);
}

static bool is_there(struct fixture *f, const char *workspace, uint64_t generation,
                     const char *logical)
{
    cleanup_free char *name = physical(workspace, generation, logical);
    return runtime_find_session(f->runtime, name);
}

/* A lease and what it was told. */
struct holder {
    struct tenant_lease lease;
    unsigned entered, revoked;
    enum error_code code;
    void (*also)(struct holder *holder); /* done in the callback */
    struct fixture *f;
    struct holder *other;
};

static void on_entered(struct tenant_lease *lease, const struct error *err)
{
    struct holder *holder = list_entry(lease, struct holder, lease);
    holder->entered++;
    holder->code = err ? err->code : ERROR_NONE;
    assert_int_equal(lease->tenant != NULL, !err);
    if (holder->also)
        holder->also(holder);
}

static void on_revoked(struct tenant_lease *lease)
{
    struct holder *holder = list_entry(lease, struct holder, lease);
    holder->revoked++;
    assert_null(lease->tenant);
    if (holder->also)
        holder->also(holder);
}

static void enter(struct fixture *f, const char *workspace, uint64_t generation,
                  struct holder *holder)
{
    struct tenant_context context = context_of(workspace, generation);
    holder->f = f;
    holder->lease.revoked = on_revoked;
    holder->entered = holder->revoked = 0;
    tenant_enter(f->tenants, &context, &holder->lease, on_entered);
}

static int join(struct fixture *f, const char *workspace, uint64_t generation,
                struct holder *holder, struct error *err)
{
    struct tenant_context context = context_of(workspace, generation);
    holder->lease.revoked = on_revoked;
    return tenant_join(f->tenants, &context, &holder->lease, err);
}

static enum error_code observe(struct fixture *f, const char *workspace, uint64_t generation)
{
    struct tenant_context context = context_of(workspace, generation);
    struct error err = ERROR_INIT;
    int result = tenant_observe(f->tenants, &context, &err);
    assert_int_equal(result, err.code == ERROR_NONE ? 0 : -1);
    return err.code;
}

/* --- the fence -------------------------------------------------------------------------------- */

static void test_generations(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    struct holder first = {0}, second = {0}, old = {0}, relay = {0}, other = {0}, next = {0};
    /* Before anybody came there is nothing to join. */
    assert_int_equal(join(f, "w", 5, &relay, &err), -1);
    assert_int_equal(err.code, ERROR_FORBIDDEN);
    assert_null(relay.lease.tenant);
    enter(f, "w", 5, &first);
    assert_int_equal(first.entered, 1); /* at once */
    assert_int_equal(first.code, ERROR_NONE);
    enter(f, "w", 5, &second);
    assert_int_equal(second.code, ERROR_NONE);
    enter(f, "other", 1, &other);
    assert_int_equal(other.code, ERROR_NONE);
    enter(f, "w", 4, &old);
    assert_int_equal(old.entered, 1);
    assert_int_equal(old.code, ERROR_FORBIDDEN);
    assert_int_equal(join(f, "w", 5, &relay, &err), 0);
    tenant_release(&relay.lease);
    assert_int_equal(join(f, "w", 5, &relay, &err), 0);
    assert_int_equal(join(f, "w", 6, &old, &err), -1); /* and does not move it */
    assert_int_equal(join(f, "w", 4, &old, &err), -1);
    tenant_release(&second.lease);
    enter(f, "w", UINT64_MAX, &next);
    assert_int_equal(next.code, ERROR_NONE);
    assert_int_equal(first.revoked, 1);
    assert_int_equal(relay.revoked, 1);
    assert_int_equal(second.revoked, 0); /* it was not held */
    assert_int_equal(other.revoked, 0);
    tenant_release(&first.lease); /* no matter */
    tenant_release(&first.lease);
    enter(f, "w", 5, &first);
    assert_int_equal(first.code, ERROR_FORBIDDEN);
    tenant_release(&next.lease);
    tenant_release(&other.lease);
}

static void test_max(void **state)
{
    struct fixture *f = *state;
    struct holder holder = {0};
    tenants_set_max(f->tenants, 2);
    assert_int_equal(observe(f, "a", 1), ERROR_NONE);
    assert_int_equal(observe(f, "b", 1), ERROR_NONE);
    assert_int_equal(observe(f, "c", 1), ERROR_FORBIDDEN);
    enter(f, "c", 1, &holder);
    assert_int_equal(holder.code, ERROR_FORBIDDEN);
    /* Those that are known go on. */
    assert_int_equal(observe(f, "a", 2), ERROR_NONE);
    assert_int_equal(observe(f, "a", 2), ERROR_NONE);
    assert_int_equal(observe(f, "a", 1), ERROR_FORBIDDEN);
    tenants_set_max(f->tenants, 1);
    assert_int_equal(observe(f, "b", 3), ERROR_NONE);
    assert_int_equal(observe(f, "c", 1), ERROR_FORBIDDEN);
    tenants_set_max(f->tenants, 3);
    assert_int_equal(observe(f, "c", 1), ERROR_NONE);
    assert_int_equal(observe(f, "d", 1), ERROR_FORBIDDEN);
}

/* What ends is what is old, and nothing else. */
static void test_retire(void **state)
{
    struct fixture *f = *state;
    struct holder old = {0}, next = {0}, same = {0};
    enter(f, "w", 1, &old);
    assert_int_equal(observe(f, "w2", 1), ERROR_NONE);
    assert_int_equal(open_tenant(f, "w", 1, "a"), ERROR_NONE);
    assert_int_equal(open_tenant(f, "w", 1, "b"), ERROR_NONE);
    assert_int_equal(open_tenant(f, "w2", 1, "a"), ERROR_NONE);
    assert_int_equal(open_session(f, "plain"), ERROR_NONE);
    assert_int_equal(open_session(f, "ws-x-g1-y"), ERROR_NONE);
    enter(f, "w", 1, &same);
    assert_int_equal(same.entered, 1);
    tenant_release(&same.lease);
    enter(f, "w", 2, &next);
    assert_int_equal(old.revoked, 1); /* at once */
    assert_int_equal(next.entered, 0);
    assert_false(is_there(f, "w", 1, "a"));
    enter(f, "w", 2, &same); /* waits as well */
    assert_int_equal(same.entered, 0);
    spin_until(f, next.entered == 1);
    assert_int_equal(next.code, ERROR_NONE);
    assert_int_equal(same.entered, 1);
    assert_int_equal(same.code, ERROR_NONE);
    assert_int_equal(f->runtime->table.count, 3);
    assert_true(is_there(f, "w2", 1, "a"));
    assert_non_null(runtime_find_session(f->runtime, "plain"));
    assert_non_null(runtime_find_session(f->runtime, "ws-x-g1-y"));
    assert_int_equal(open_tenant(f, "w", 2, "a"), ERROR_NONE);
    assert_int_equal(open_tenant(f, "w", 1, "a"), ERROR_FORBIDDEN);
    assert_int_equal(open_tenant(f, "w", 3, "a"), ERROR_FORBIDDEN);
    assert_int_equal(open_tenant(f, "nobody", 1, "a"), ERROR_FORBIDDEN);
    tenant_release(&next.lease);
    tenant_release(&same.lease);
}

static void test_stale_while_waiting(void **state)
{
    struct fixture *f = *state;
    struct holder second = {0}, gone = {0}, third = {0};
    struct error err;
    struct holder relay = {0};
    observe(f, "w", 1);
    open_tenant(f, "w", 1, "a");
    enter(f, "w", 2, &second);
    enter(f, "w", 2, &gone);
    assert_int_equal(join(f, "w", 2, &relay, &err), 0); /* the fence has moved already */
    tenant_release(&gone.lease);                        /* called off */
    assert_int_equal(second.entered, 0);
    enter(f, "w", 3, &third);
    assert_int_equal(second.entered, 1);
    assert_int_equal(second.code, ERROR_FORBIDDEN);
    assert_int_equal(second.revoked, 0);
    assert_int_equal(relay.revoked, 1);
    assert_int_equal(third.entered, 0); /* the first one's session is still ending */
    spin_until(f, third.entered == 1);
    assert_int_equal(third.code, ERROR_NONE);
    assert_int_equal(f->runtime->table.count, 0);
    assert_int_equal(gone.entered, 0);
    assert_int_equal(second.entered, 1);
    tenant_release(&third.lease);
}

/* An earlier retirement is over before the one that has replaced it, which still has to wait. */
static void test_two_retirements(void **state)
{
    struct fixture *f = *state;
    struct opened making = {0};
    struct holder second = {0}, third = {0}, late = {0};
    cleanup_free char *stuck = physical("w", 2, "x");
    observe(f, "w", 1);
    open_tenant(f, "w", 1, "a");
    enter(f, "w", 2, &second);
    begin_open(f, stuck, "stuck", false, &making);
    enter(f, "w", 3, &third);
    assert_int_equal(second.code, ERROR_FORBIDDEN);
    spin_until(f, f->runtime->table.count == 1);
    uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(third.entered, 0);
    enter(f, "w", 3, &late);
    assert_int_equal(late.entered, 0);
    stop(f, false); /* which ends it */
    assert_int_equal(making.count, 1);
    assert_int_equal(third.entered, 1);
    assert_int_equal(late.entered, 1);
}

/* Sessions that are being made, and those that would be made anew by requests that wait. */
static void test_nothing_slips_through(void **state)
{
    struct fixture *f = *state;
    struct opened making = {0}, live = {0}, again = {0}, race = {0};
    struct holder next = {0};
    cleanup_free char *a = physical("w", 1, "a");
    cleanup_free char *b = physical("w", 1, "b");
    cleanup_free char *c = physical("w", 1, "c");
    observe(f, "w", 1);
    begin_open(f, b, NULL, false, &live);
    spin_until(f, live.count == 1);
    begin_open(f, c, NULL, false, &live);
    spin_until(f, live.count == 2);
    begin_open(f, a, "slow", false, &making);
    /* It waits until the one that is there is gone, and would make a new one. */
    runtime_delete_session(f->runtime, b, ignore, NULL);
    begin_open(f, b, NULL, false, &again);
    /* It was given the one that is there, and would ask again, since that ends. */
    begin_open(f, c, NULL, false, &race);
    enter(f, "w", 2, &next);
    assert_int_equal(next.entered, 0);
    spin_until(f, next.entered == 1);
    assert_int_equal(making.count, 1); /* it was waited for */
    assert_int_equal(f->runtime->table.count, 0);
    spin_until(f, again.count == 1 && race.count == 1);
    assert_int_equal(again.code, ERROR_GONE);
    assert_int_equal(race.code, ERROR_FORBIDDEN);
    for (int i = 0; i < 20; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->runtime->table.count, 0);
    tenant_release(&next.lease);
}

static void test_observe(void **state)
{
    struct fixture *f = *state;
    struct holder held = {0}, next = {0};
    enter(f, "w", 1, &held);
    open_tenant(f, "w", 1, "a");
    assert_int_equal(observe(f, "w", 1), ERROR_NONE);
    assert_int_equal(held.revoked, 0);
    assert_int_equal(observe(f, "w", 2), ERROR_NONE);
    assert_int_equal(held.revoked, 1);
    assert_false(is_there(f, "w", 1, "a"));
    enter(f, "w", 2, &next);
    assert_int_equal(next.entered, 0);
    spin_until(f, next.entered == 1);
    assert_int_equal(f->runtime->table.count, 0);
    tenant_release(&next.lease);
}

/* The fence is empty then, and what is adopted may be of any generation. */
static void test_restart(void **state)
{
    struct fixture *f = *state;
    struct holder holder = {0};
    bool recovered = false;
    observe(f, "w", 7);
    observe(f, "v", 7);
    open_tenant(f, "w", 7, "a");
    open_tenant(f, "v", 7, "a");
    stop(f, true);
    start(f);
    runtime_recover(f->runtime, true, set_flag, &recovered);
    /* While they are being taken over, and of a generation that is older than theirs. */
    enter(f, "w", 3, &holder);
    assert_int_equal(holder.entered, 0);
    spin_until(f, holder.entered == 1 && recovered);
    assert_int_equal(holder.code, ERROR_NONE);
    assert_int_equal(f->runtime->table.count, 1);
    assert_true(is_there(f, "v", 7, "a"));
    tenant_release(&holder.lease);
    /* The same generation keeps what it had. */
    enter(f, "v", 7, &holder);
    assert_int_equal(holder.entered, 1);
    assert_int_equal(open_tenant(f, "v", 7, "a"), ERROR_NONE);
    assert_int_equal(f->runtime->stats.sessions_created, 0);
    tenant_release(&holder.lease);
}

/* --- callbacks that act ----------------------------------------------------------------------- */

static void release_other(struct holder *holder)
{
    tenant_release(&holder->other->lease);
}

static void release_and_free(struct holder *holder)
{
    tenant_release(&holder->other->lease);
    assert_int_equal(holder->other->entered, 0);
    free(holder->other);
    holder->other = NULL;
}

static void enter_next(struct holder *holder)
{
    holder->also = NULL;
    enter(holder->f, "w", 9, holder->other);
}

static void test_revoked_releases(void **state)
{
    struct fixture *f = *state;
    struct holder a = {.also = NULL}, b = {0}, c = {0};
    a.other = &b;
    enter(f, "w", 1, &a);
    enter(f, "w", 1, &b);
    enter(f, "w", 1, &c);
    a.also = release_other;
    assert_int_equal(observe(f, "w", 2), ERROR_NONE);
    assert_int_equal(a.revoked, 1);
    assert_int_equal(b.revoked, 0);
    assert_int_equal(c.revoked, 1);
}

static void test_revoked_enters(void **state)
{
    struct fixture *f = *state;
    struct holder a = {0}, b = {0}, later = {0}, mover = {0};
    enter(f, "w", 1, &a);
    enter(f, "w", 1, &b);
    a.other = &later;
    a.also = enter_next; /* of generation 9 */
    enter(f, "w", 2, &mover);
    assert_int_equal(mover.code, ERROR_FORBIDDEN);
    assert_int_equal(a.revoked, 1);
    assert_int_equal(b.revoked, 1);
    assert_int_equal(later.code, ERROR_NONE);
    assert_int_equal(later.revoked, 0);
    tenant_release(&later.lease);
}

/* As when the connection of both breaks by what one of them is told. */
static void test_revoked_releases_who_enters(void **state)
{
    struct fixture *f = *state;
    struct holder *mover = xcalloc(1, sizeof *mover);
    struct holder old = {.other = mover}, next = {0};
    enter(f, "w", 1, &old);
    old.also = release_and_free;
    enter(f, "w", 2, mover);
    assert_int_equal(old.revoked, 1);
    assert_null(old.other);
    /* The fence has moved all the same. */
    enter(f, "w", 1, &next);
    assert_int_equal(next.code, ERROR_FORBIDDEN);
    enter(f, "w", 2, &next);
    assert_int_equal(next.code, ERROR_NONE);
    tenant_release(&next.lease);
}

static void test_admitted_moves(void **state)
{
    struct fixture *f = *state;
    struct holder a = {0}, b = {0}, later = {0};
    observe(f, "w", 1);
    open_tenant(f, "w", 1, "x");
    enter(f, "w", 2, &a);
    enter(f, "w", 2, &b);
    a.other = &later;
    a.also = enter_next;
    spin_until(f, a.entered == 1);
    assert_int_equal(a.code, ERROR_NONE);
    assert_int_equal(a.revoked, 1);
    assert_int_equal(b.entered, 1);
    assert_int_equal(b.code, ERROR_FORBIDDEN);
    spin_until(f, later.entered == 1);
    assert_int_equal(later.code, ERROR_NONE);
    tenant_release(&later.lease);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void test_free_while_retiring(void **state)
{
    struct fixture *f = *state;
    struct holder waiting = {0}, held = {0};
    enter(f, "v", 1, &held);
    observe(f, "w", 1);
    open_tenant(f, "w", 1, "x");
    enter(f, "w", 2, &waiting);
    tenants_free(f->tenants);
    assert_null(waiting.lease.tenant);
    assert_null(held.lease.tenant);
    spin_until(f, f->runtime->table.count == 0);
    assert_int_equal(waiting.entered, 0);
    assert_int_equal(held.revoked, 0);
    f->tenants = tenants_new(f->runtime, 10);
}

static void test_stop_while_retiring(void **state)
{
    struct fixture *f = *state;
    struct holder waiting = {0}, late = {0};
    bool stopped = false;
    observe(f, "w", 1);
    open_tenant(f, "w", 1, "x");
    enter(f, "w", 2, &waiting);
    runtime_stop(f->runtime, false, set_flag, &stopped);
    enter(f, "w", 3, &late); /* its sessions cannot be ended by us any more */
    spin_until(f, stopped);
    assert_int_equal(waiting.entered, 1);
    assert_int_equal(waiting.code, ERROR_FORBIDDEN);
    assert_int_equal(late.entered, 1);
    assert_int_equal(late.code, ERROR_UNAVAILABLE);
    tenants_free(f->tenants);
    runtime_free(f->runtime);
    f->runtime = NULL;
    f->backend->ops->close(f->backend);
}

/* --- against a model -------------------------------------------------------------------------- */

#define WORKSPACES  6
#define HOLDERS     24
#define GENERATIONS 12

/* Each holder is of a workspace and a generation; the model knows which generation holds. */
struct model {
    uint64_t current[WORKSPACES];
    struct holder holders[HOLDERS];
    int workspace[HOLDERS];
    uint64_t generation[HOLDERS]; /* 0: idle */
};

static const char *const workspace_names[WORKSPACES] = {"a", "b", "c", "d", "e", "f"};

static void check_model(struct fixture *f, const struct model *m, bool settled)
{
    for (int i = 0; i < HOLDERS; i++) {
        const struct holder *holder = &m->holders[i];
        if (m->generation[i] == 0)
            continue;
        bool holds = m->generation[i] == m->current[m->workspace[i]];
        bool waits = holder->entered == 0;
        /* Told once at most; of an old generation it is told in any case, and does not hold. */
        assert_true(holder->entered <= 1 && holder->revoked <= 1);
        assert_int_equal(holder->lease.tenant != NULL, holds);
        if (!holds)
            assert_int_equal(holder->revoked + (holder->code == ERROR_FORBIDDEN), 1);
        if (settled)
            assert_false(waits);
    }
    list_each(at, &f->runtime->sessions)
    {
        struct tenant_name parts;
        char space[TENANT_NAMESPACE_SIZE];
        assert_true(tenant_name_parse(list_entry(at, struct session, link)->spec.name, &parts));
        for (int w = 0; w < WORKSPACES; w++) {
            tenant_namespace("instance-1", workspace_names[w], space);
            if (settled && strcmp(space, parts.space) == 0)
                assert_int_equal(parts.generation, m->current[w]);
        }
    }
}

static void step(struct fixture *f, struct model *m, struct opened *opened)
{
    int i = (int)(random() % HOLDERS), w = (int)(random() % WORKSPACES);
    uint64_t generation = m->current[w] + (uint64_t)(random() % 3);
    if (random() % 8 != 0 && generation > m->current[w] && m->current[w] > 0)
        generation = m->current[w];
    if (generation == 0 || generation > GENERATIONS)
        generation = 1;
    char logical[2] = {(char)('p' + random() % 3)};
    cleanup_free char *name = physical(workspace_names[w], generation, logical);
    switch (random() % 6) {
    case 0:
        begin_open(f, name, random() % 2 ? "slow" : "fast", false, opened);
        return;
    case 1:
        begin_open(f, name, "fast", false, opened);
        return;
    case 2:
        tenant_release(&m->holders[i].lease);
        m->generation[i] = 0;
        return;
    case 3:
        uv_run(&f->loop, UV_RUN_ONCE);
        return;
    case 4:
        assert_int_equal(observe(f, workspace_names[w], generation),
                         generation >= m->current[w] ? ERROR_NONE : ERROR_FORBIDDEN);
        break;
    default:
        tenant_release(&m->holders[i].lease);
        m->workspace[i] = w;
        m->generation[i] = generation;
        enter(f, workspace_names[w], generation, &m->holders[i]);
    }
    if (generation > m->current[w])
        m->current[w] = generation;
}

static void test_random(void **state)
{
    struct fixture *f = *state;
    struct opened opened = {0};
    struct model *m = xcalloc(1, sizeof *m);
    srandom(42);
    for (int round = 0; round < 3000; round++) {
        step(f, m, &opened);
        check_model(f, m, false);
        if (round % 100 != 99)
            continue;
        for (int i = 0; i < HOLDERS; i++)
            spin_until(f, m->generation[i] == 0 || m->holders[i].entered == 1);
        for (int w = 0; w < WORKSPACES; w++) {
            struct holder holder = {0};
            if (m->current[w] == 0)
                continue;
            enter(f, workspace_names[w], m->current[w], &holder);
            spin_until(f, holder.entered == 1);
            tenant_release(&holder.lease);
        }
        check_model(f, m, true);
    }
    assert_true(f->runtime->stats.sessions_created > 100);
    for (int i = 0; i < HOLDERS; i++)
        tenant_release(&m->holders[i].lease);
    /* What still waits tells into `opened`, which is here. */
    stop(f, false);
    free(m);
}

/* --- many ------------------------------------------------------------------------------------- */

static void test_many(void **state)
{
    struct fixture *f = *state;
    size_t count = 100000;
    char workspace[32];
    tenants_set_max(f->tenants, count);
    struct mallinfo2 before = mallinfo2();
    for (size_t i = 0; i < count; i++) {
        snprintf(workspace, sizeof workspace, "workspace-%zu", i);
        assert_int_equal(observe(f, workspace, i + 1), ERROR_NONE);
    }
    struct mallinfo2 after = mallinfo2();
    size_t bytes = (after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / count;
    print_message("%zu bytes a workspace\n", bytes);
    assert_true(bytes <= 96); /* 0 where the allocator is a checker's */
    assert_int_equal(observe(f, "one more", 1), ERROR_FORBIDDEN);
    for (size_t i = 0; i < count; i++) {
        snprintf(workspace, sizeof workspace, "workspace-%zu", i);
        struct tenant_context context = context_of(workspace, i + 1);
        struct tenant_lease lease = {0};
        assert_int_equal(tenant_join(f->tenants, &context, &lease, NULL), 0);
        tenant_release(&lease);
    }
}

int main(void)
{
    const struct CMUnitTest names[] = {
        cmocka_unit_test(test_namespace),
        cmocka_unit_test(test_session_name),
        cmocka_unit_test(test_session_name_length),
        cmocka_unit_test(test_name_parse),
        cmocka_unit_test(test_owns),
        cmocka_unit_test(test_session_name_random),
    };
#define with_runtime(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest fence[] = {
        with_runtime(test_generations),
        with_runtime(test_max),
        with_runtime(test_retire),
        with_runtime(test_stale_while_waiting),
        with_runtime(test_two_retirements),
        with_runtime(test_nothing_slips_through),
        with_runtime(test_observe),
        with_runtime(test_restart),
        with_runtime(test_revoked_releases),
        with_runtime(test_revoked_enters),
        with_runtime(test_revoked_releases_who_enters),
        with_runtime(test_admitted_moves),
        with_runtime(test_free_while_retiring),
        with_runtime(test_stop_while_retiring),
        with_runtime(test_random),
        with_runtime(test_many),
    };
    int failed = cmocka_run_group_tests_name("names", names, NULL, NULL);
    return failed + cmocka_run_group_tests_name("fence", fence, NULL, NULL);
}
