/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's RPC for workspaces: who sees what, the fence of generations, and grants. */
#include "rpc-world.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"

static struct peer host;
static const struct as one = {"one", 1, NULL};
static const struct as two = {"two", 1, NULL};
static const struct as one_later = {"one", 2, NULL};

/* The name that the runtime has for a session; until the next call. */
static const char *physical(const struct as *as, const char *logical)
{
    static char *name;
    struct error err = ERROR_INIT;
    struct tenant_context who = {WORLD_INSTANCE, as->workspace, as->generation};
    free(name);
    name = tenant_session_name(&who, logical, &err);
    return name;
}

static int open_host(void **state)
{
    (void)state;
    world_open(NULL);
    peer_open(&host, WORLD_INSTANCE);
    return 0;
}

static int close_host(void **state)
{
    (void)state;
    if (host.conn)
        peer_close(&host);
    world_close(false);
    return 0;
}

/* --- who sees what --- */

static void test_workspaces_do_not_see_each_other(void **state)
{
    static const char *const naming[] = {"box_get_session", "box_delete_session",
                                         "box_get_managed_process", "box_stop_managed_process",
                                         "box_start_managed_process"};
    (void)state;
    assert_text(ask(&host, &one, "box_create_session", "{'session_id':' my session! '}"),
                "session_id", "my-session");
    json_t *process = ask(&host, &one, "box_start_managed_process",
                          "{'session_id':'my session','spec':{'command':'cat'}}");
    assert_text(process, "session_id", "my-session");
    for (size_t i = 0; i < ARRAY_SIZE(naming); i++) {
        const char *message = ask_error(&host, &two, naming[i],
                                        "{'session_id':'my-session','spec':{'command':'cat'}}",
                                        "BoxSessionNotFoundError", "'my-session'");
        assert_null(strstr(message, "ws-"));
        /* Nor by the name that the runtime has for it. */
        cleanup_free char *data =
            xasprintf("{'session_id':'%s','spec':{'command':'cat'}}", physical(&one, "my-session"));
        ask_error(&host, &two, naming[i], data, "BoxSessionNotFoundError", NULL);
    }
    assert_int_equal(
        json_array_size(json_object_get(ask(&host, &two, "box_get_sessions", "{}"), "sessions")),
        0);
    json_t *status = ask(&host, &two, "box_status", "{}");
    assert_number(status, "active_sessions", 0);
    assert_number(status, "managed_processes", 0);
    status = ask(&host, &one, "box_status", "{}");
    assert_number(status, "active_sessions", 1);
    assert_number(status, "managed_processes", 1);
    /* The same name is another session. */
    ask(&host, &two, "box_exec", "{'session_id':'my-session','cmd':'echo x'}");
    assert_text(ask(&host, &two, "box_delete_session", "{'session_id':'my-session'}"), "deleted",
                "my-session");
    json_t *info = ask(&host, &one, "box_get_session", "{'session_id':'my-session'}");
    assert_text(info, "session_id", "my-session");
    assert_text(json_object_get(info, "managed_process"), "session_id", "my-session");
    json_t *list = json_object_get(ask(&host, &one, "box_get_sessions", "{}"), "sessions");
    assert_int_equal(json_array_size(list), 1);
    assert_text(json_array_get(list, 0), "session_id", "my-session");
    assert_text(ask(&host, &one, "box_exec", "{'session_id':'my-session','cmd':'echo x'}"),
                "session_id", "my-session");
}

/* As LangBot's directories are laid out. */
static void with_directories(struct api_config *api, struct runtime_config *runtime)
{
    (void)runtime;
    api->rpc.default_workspace = xasprintf("%s/w", world.directory);
    api->rpc.skills_root = xasprintf("%s/skills", world.directory);
}

/* Names `path` below the world's directory, in each of the fields that can. */
static void refuse_host_path(struct peer *peer, const struct as *as, const char *path,
                             const char *words)
{
    cleanup_free char *own =
        xasprintf("{'session_id':'s','cmd':'true','host_path':'%s/%s'}", world.directory, path);
    cleanup_free char *extra = xasprintf("{'session_id':'s','cmd':'true','extra_mounts':"
                                         "[{'host_path':'%s/%s','mount_path':'/x','mode':'ro'}]}",
                                         world.directory, path);
    ask_error(peer, as, "box_exec", own, "BoxValidationError", words);
    ask_error(peer, as, "box_exec", extra, "BoxValidationError", words);
    ask_error(peer, as, "box_create_session", own, "BoxValidationError", words);
    assert_false(world_has(as ? physical(as, "s") : "s"));
}

static void test_directories_of_others(void **state)
{
    static const struct {
        const char *above, *below;
    } shapes[] = {
        {"w/tenants/", ""},      {"w/tenants/", "/"},           {"w/tenants/", "//"},
        {"w/tenants/", "/a/b"},  {"w//tenants///", ""},         {"w/./tenants/", "/."},
        {"skills/tenants/", ""}, {"skills/tenants/", "/greet"},
    };
    char mine[TENANT_NAMESPACE_SIZE];
    char theirs[TENANT_NAMESPACE_SIZE];
    struct peer plain;
    (void)state;
    world_reconfigure(with_directories);
    peer_open(&plain, NULL);
    tenant_namespace(WORLD_INSTANCE, one.workspace, mine);
    tenant_namespace(WORLD_INSTANCE, two.workspace, theirs);
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
        cleanup_free char *path = xasprintf("%s%s%s", shapes[i].above, theirs, shapes[i].below);
        refuse_host_path(&host, &one, path, "other workspaces");
        refuse_host_path(&plain, NULL, path, "other workspaces");
    }
    refuse_host_path(&host, &one, "w/tenants", "other workspaces");
    refuse_host_path(&host, &one, "skills/tenants/", "other workspaces");
    /* What holds all of them is nobody's. */
    refuse_host_path(&host, &one, "w", "other workspaces");
    refuse_host_path(&host, &one, "skills", "other workspaces");
    refuse_host_path(&host, &one, ".", "other workspaces");
    /* A name that begins like one's own is not one's own; and nobody goes up. */
    cleanup_free char *longer = xasprintf("w/tenants/%s0", mine);
    cleanup_free char *up = xasprintf("w/tenants/%s/../%s", mine, theirs);
    refuse_host_path(&host, &one, longer, "other workspaces");
    refuse_host_path(&host, &one, up, NULL);
    cleanup_free char *own = xasprintf("{'session_id':'s','cmd':'echo x','host_path':"
                                       "'%s/w/tenants/%s/a'}",
                                       world.directory, mine);
    ask(&host, &one, "box_exec", own);
    ask_error(&host, &two, "box_exec", own, "BoxValidationError", "other workspaces");
    peer_close(&plain);
}

static void test_errors_have_their_names(void **state)
{
    (void)state;
    ask(&host, &one, "box_create_session", "{'session_id':'x'}");
    const char *message =
        ask_error(&host, &one, "box_create_session", "{'session_id':'x','network':'on'}",
                  "BoxSessionConflictError", "session 'x' exists with network = off");
    assert_null(strstr(message, "ws-"));
    ask_error(&host, &one, "box_create_session", "{'session_id':'!!!'}", "ValueError",
              "session_id");
    ask_error(&host, &one, "box_get_session", "{'session_id':''}", "ValueError", "session_id");
    ask_error(&host, &one, "box_get_session", "{}", "KeyError", "'session_id'");
}

static void test_contexts(void **state)
{
    const struct as other = {"one", 1, "instance-2"};
    (void)state;
    ask_error(&host, NULL, "box_status", "{}", "PermissionError", "context");
    ask_error(&host, NULL, "box_exec", "{'session_id':'x','cmd':'echo x'}", "PermissionError",
              NULL);
    ask_error(&host, &other, "box_status", "{}", "PermissionError", "instance");
    ask_error(&host, &other, "__ping", "{}", "PermissionError", "instance");
    ask(&host, &one, "__ping", "{}");
    ask(&host, NULL, "box_health", "{}");
    assert_string_equal(world.api->rpc->instance, WORLD_INSTANCE);
}

static void test_shutdown_ends_tenants_only(void **state)
{
    struct peer plain;
    (void)state;
    peer_open(&plain, NULL);
    ask(&plain, NULL, "box_create_session", "{'session_id':'mine'}");
    ask(&host, &one, "box_create_session", "{'session_id':'x'}");
    ask(&host, &two, "box_create_session", "{'session_id':'x'}");
    ask(&host, NULL, "box_shutdown", "{}");
    assert_true(world_has("mine"));
    assert_false(world_has(physical(&one, "x")) || world_has(physical(&two, "x")));
    peer_close(&plain);
}

/* --- the fence --- */

static void test_a_newer_generation(void **state)
{
    (void)state;
    ask(&host, &one, "box_create_session", "{'session_id':'x'}");
    ask(&host, &one, "box_create_session", "{'session_id':'z'}");
    ask(&host, &two, "box_create_session", "{'session_id':'x'}");
    long hangs = peer_ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'hang'}");
    long made = peer_ask(&host, &one, "box_create_session", "{'session_id':'y','image':'slow'}");
    long replaced = peer_ask(&host, &one, "box_create_session",
                             "{'session_id':'z','extra_mounts':[{'host_path':'/tmp',"
                             "'mount_path':'/m'}]}");
    json_t *status = ask(&host, &one_later, "box_status", "{}");
    /* When that is answered, nothing of the old one is left. */
    assert_number(status, "active_sessions", 0);
    assert_false(world_has(physical(&one, "x")) || world_has(physical(&one, "y")));
    assert_error(peer_answer(&host, hangs), "PermissionError", "generation");
    assert_error(peer_answer(&host, made), "PermissionError", NULL);
    assert_error(peer_answer(&host, replaced), "PermissionError", NULL);
    ask_error(&host, &one, "box_status", "{}", "PermissionError", "generation");
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}", "PermissionError",
              NULL);
    world_turn();
    assert_false(world_has(physical(&one, "x")) || world_has(physical(&one, "y")) ||
                 world_has(physical(&one, "z")));
    assert_true(world_has(physical(&two, "x")));
    ask(&host, &one_later, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    assert_int_equal(world.api->rpc->inflight, 0);
}

static void test_leaving_while_the_fence_moves(void **state)
{
    (void)state;
    ask(&host, &one, "box_create_session", "{'session_id':'x'}");
    peer_ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'hang'}");
    peer_ask(&host, &one_later, "box_exec", "{'session_id':'x','cmd':'hang'}");
    peer_ask(&host, &one_later, "box_status", "{}");
    peer_close(&host);
    world_wait_gone(physical(&one, "x"));
    world_turn();
    assert_false(world_has(physical(&one_later, "x")));
}

static void with_two_records(struct api_config *api, struct runtime_config *runtime)
{
    (void)runtime;
    api->rpc.max_records = 2;
}

static void test_many_workspaces(void **state)
{
    const struct as three = {"three", 1, NULL};
    (void)state;
    world_reconfigure(with_two_records);
    ask(&host, &one, "box_status", "{}");
    ask(&host, &two, "box_status", "{}");
    ask_error(&host, &three, "box_status", "{}", "PermissionError", "workspaces");
    ask(&host, &one_later, "box_status", "{}");
}

/* --- grants --- */

static void with_admission(struct api_config *api, struct runtime_config *runtime)
{
    (void)runtime;
    api->rpc.default_workspace = xasprintf("%s/w", world.directory);
    api->rpc.admission.required = true;
}

static int open_admission(void **state)
{
    (void)state;
    world_open(with_admission);
    peer_open(&host, WORLD_INSTANCE);
    return 0;
}

static char *grant(const struct as *as, int revision, int64_t milliseconds, int sessions)
{
    char when[CLOCK_TEXT_SIZE];
    clock_text(clock_now_us() + milliseconds * 1000, when);
    return xasprintf("{'instance_uuid':'%s','workspace_uuid':'%s','execution_generation':%llu,"
                     "'entitlement_revision':%d,'expires_at':'%s','max_sessions':%d,"
                     "'max_managed_processes':0}",
                     as->instance ? as->instance : WORLD_INSTANCE, as->workspace,
                     (unsigned long long)as->generation, revision, when, sessions);
}

#define UPSERT "box_upsert_sandbox_admission_grant"
#define REVOKE "box_revoke_sandbox_admission_grant"

static json_t *give(const struct as *as, int revision, int64_t milliseconds)
{
    cleanup_free char *data = grant(as, revision, milliseconds, 1);
    return ask(&host, NULL, UPSERT, data);
}

static void refuse_grant(struct peer *peer, const struct as *as, int revision, int64_t milliseconds,
                         const char *class)
{
    cleanup_free char *data = grant(as, revision, milliseconds, 1);
    ask_error(peer, NULL, UPSERT, data, class, NULL);
}

static void test_without_a_grant(void **state)
{
    static const char data[] = "{'session_id':'global','cmd':'echo x','spec':{'command':'cat'}}";
    struct peer plain;
    (void)state;
    peer_open(&plain, NULL);
    for (size_t i = 0; i < rpc_action_count; i++) {
        if (!(rpc_actions[i].flags & RPC_SANDBOX))
            continue;
        ask_error(&host, &one, rpc_actions[i].name, data, "BoxAdmissionError", "grant");
        ask_error(&plain, NULL, rpc_actions[i].name, data, "BoxAdmissionError", NULL);
    }
    json_t *status = ask(&host, &one, "box_status", "{}");
    assert_true(json_is_true(json_object_get(
        json_object_get(json_object_get(status, "backend"), "readiness"), "ready")));
    refuse_grant(&plain, &one, 1, 60000, "PermissionError");
    assert_false(world_has(physical(&one, "global")));
    peer_close(&plain);
}

static void test_a_grant(void **state)
{
    (void)state;
    json_t *given = give(&one, 3, 60000);
    assert_true(json_is_true(json_object_get(given, "installed")));
    assert_text(given, "workspace_uuid", "one");
    assert_number(given, "execution_generation", 1);
    assert_number(given, "entitlement_revision", 3);
    assert_number(given, "max_sessions", 1);
    assert_number(given, "max_managed_processes", 0);
    json_t *result = ask(&host, &one, "box_exec", "{'session_id':'anything','cmd':'echo x'}");
    assert_text(result, "session_id", "global");
    json_t *info = ask(&host, &one, "box_get_session", "{'session_id':' global '}");
    assert_true(json_is_true(json_object_get(info, "persistent")));
    assert_non_null(
        strstr(json_string_value(json_object_get(info, "host_path")), "/w/tenants/ws-"));
    ask_error(&host, &one, "box_get_session", "{'session_id':'anything'}", "BoxAdmissionError",
              "global");
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x','network':'on'}",
              "BoxAdmissionError", "network");
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x','skill_name':'s'}",
              "BoxAdmissionError", "skill");
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':' '}", "BoxValidationError", "cmd");
    ask_error(&host, &one, "box_start_managed_process",
              "{'session_id':'global','spec':{'command':'cat'}}", "BoxAdmissionError", "processes");
    ask_error(&host, &two, "box_exec", "{'session_id':'x','cmd':'echo x'}", "BoxAdmissionError",
              NULL);
    /* Renewed, it keeps its session. */
    give(&one, 3, 90000);
    assert_true(world_has(physical(&one, "global")));
    /* A shorter one is no other. */
    assert_string_not_equal(json_string_value(json_object_get(give(&one, 3, 30000), "expires_at")),
                            "");
    assert_true(world_has(physical(&one, "global")));
    assert_number(give(&one, 4, 60000), "entitlement_revision", 4);
    assert_true(world_has(physical(&one, "global")));
    refuse_grant(&host, &one, 3, 60000, "BoxAdmissionError");
    refuse_grant(&host, &one, 5, -1000, "BoxAdmissionError");
    refuse_grant(&host, &one, 5, 99 * 3600000, "BoxAdmissionError");
    refuse_grant(&host, &(struct as){"one", 1, "instance-2"}, 5, 60000, "PermissionError");
}

static void test_times_as_python_prints_them(void **state)
{
    char when[CLOCK_TEXT_SIZE];
    (void)state;
    int64_t us = clock_now_us() / 1000000 * 1000000 + 60000000;
    clock_text(us, when);
    cleanup_free char *data =
        xasprintf("{'instance_uuid':'%s','workspace_uuid':'one','execution_generation':1,"
                  "'entitlement_revision':1,'expires_at':'%s','max_sessions':1,"
                  "'max_managed_processes':0}",
                  WORLD_INSTANCE, when);
    const char *told =
        json_string_value(json_object_get(ask(&host, NULL, UPSERT, data), "expires_at"));
    assert_int_equal(strlen(told), strlen("2026-11-15T23:25:57+00:00"));
    assert_memory_equal(told, when, 19);
    assert_string_equal(told + 19, "+00:00");
    strcpy(strchr(when, '.'), ".500000+00:00");
    free(steal_ptr(data));
    data = xasprintf("{'instance_uuid':'%s','workspace_uuid':'two','execution_generation':1,"
                     "'entitlement_revision':1,'expires_at':'%s','max_sessions':1,"
                     "'max_managed_processes':0}",
                     WORLD_INSTANCE, when);
    assert_text(ask(&host, NULL, UPSERT, data), "expires_at", when);
}

static void test_a_grant_that_expires(void **state)
{
    (void)state;
    give(&one, 1, 1500);
    give(&two, 1, 60000);
    ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    ask(&host, &two, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    long hangs = peer_ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'hang'}");
    assert_error(peer_answer(&host, hangs), "BoxAdmissionError", "grant");
    world_wait_gone(physical(&one, "global"));
    assert_true(world_has(physical(&two, "global")));
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}", "BoxAdmissionError",
              "grant");
    give(&one, 1, 60000);
    ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
}

static void test_revocation(void **state)
{
    static const char data[] =
        "{'instance_uuid':'" WORLD_INSTANCE "','workspace_uuid':'one','entitlement_revision':2}";
    (void)state;
    give(&one, 2, 60000);
    ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    long hangs = peer_ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'hang'}");
    world_turn();
    ask_error(&host, NULL, REVOKE,
              "{'instance_uuid':'instance-2','workspace_uuid':'one','entitlement_revision':2}",
              "PermissionError", NULL);
    ask_error(&host, NULL, REVOKE, "{}", "BoxValidationError", NULL);
    json_t *told = ask(&host, NULL, REVOKE, data);
    assert_true(json_is_true(json_object_get(told, "revoked")));
    assert_text(told, "workspace_uuid", "one");
    assert_number(told, "entitlement_revision", 2);
    assert_false(world_has(physical(&one, "global"))); /* when it is told, it is so */
    assert_error(peer_answer(&host, hangs), "BoxAdmissionError", NULL);
    refuse_grant(&host, &one, 2, 60000, "BoxAdmissionError");
    ask_error(&host, NULL, REVOKE,
              "{'instance_uuid':'" WORLD_INSTANCE
              "','workspace_uuid':'one','entitlement_revision':1}",
              "BoxAdmissionError", NULL);
    give(&one, 3, 60000);
    ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
}

static void test_a_grant_of_a_newer_generation(void **state)
{
    (void)state;
    give(&one, 1, 60000);
    ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    give(&one_later, 1, 60000);
    world_wait_gone(physical(&one, "global"));
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}", "BoxAdmissionError",
              "generation");
    ask_error(&host, &one, "box_status", "{}", "PermissionError", "generation");
    ask(&host, &one_later, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    refuse_grant(&host, &one, 1, 60000, "BoxAdmissionError");
}

static void test_a_grant_of_no_session(void **state)
{
    (void)state;
    give(&one, 1, 60000);
    ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    cleanup_free char *data = grant(&one, 2, 60000, 0);
    ask(&host, NULL, UPSERT, data);
    assert_false(world_has(physical(&one, "global")));
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}", "BoxAdmissionError",
              NULL);
}

static void test_not_ready(void **state)
{
    (void)state;
    give(&one, 1, 60000);
    world.ready = false;
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}", "BoxReadinessError",
              "inode_quota");
    ask_error(&host, NULL, "box_health", "{}", "BoxReadinessError", "inode_quota");
    json_t *info = ask(&host, NULL, "box_get_backend_info", "{}");
    assert_true(json_is_false(json_object_get(info, "available")));
    json_t *readiness = json_object_get(info, "readiness");
    assert_text(readiness, "mode", "grant_enforced");
    assert_true(
        json_is_false(json_object_get(json_object_get(readiness, "checks"), "inode_quota")));
    assert_text(json_object_get(readiness, "reasons"), "inode_quota", "none here");
    world.ready = true;
    json_t *health = ask(&host, NULL, "box_health", "{}");
    assert_true(json_is_true(json_object_get(health, "ready")));
    assert_int_equal(json_object_size(json_object_get(health, "checks")), READINESS_MAX);
}

/* A host renews its grants all the time. */
static void test_renewing_disturbs_nobody(void **state)
{
    (void)state;
    give(&one, 1, 60000);
    world.ready_later = true;
    long waits = peer_ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    give(&one, 1, 90000);
    world.ready_later = false;
    world_tell_readiness();
    assert_number(peer_answer(&host, waits), "code", 0);
    long hangs = peer_ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'hang'}");
    give(&one, 2, 90000);
    world_turn();
    assert_int_equal(world.api->rpc->inflight, 1);
    ask(&host, &one, "box_delete_session", "{'session_id':'global'}");
    assert_error(peer_answer(&host, hangs), "BoxSessionNotFoundError", NULL);
}

/* What happens while the trial goes on. */
static void test_waiting_for_readiness(void **state)
{
    struct peer other;
    (void)state;
    peer_open(&other, WORLD_INSTANCE);
    give(&one, 1, 60000);
    world.ready_later = true;
    long asked = peer_ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    long health = peer_ask(&host, NULL, "box_health", "{}");
    peer_ask(&other, &one, "box_exec", "{'session_id':'x','cmd':'hang'}");
    peer_ask(&other, NULL, "box_get_backend_info", "{}");
    peer_close(&other); /* readiness_cancel() fails the test if it is not waited for */
    world_turn();
    assert_int_equal(json_array_size(host.answers), 1);
    world.ready_later = false;
    world_tell_readiness();
    assert_number(peer_answer(&host, asked), "code", 0);
    assert_number(peer_answer(&host, health), "code", 0);
    /* A grant that ends meanwhile. */
    world.ready_later = true;
    asked = peer_ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
    ask(&host, NULL, REVOKE,
        "{'instance_uuid':'" WORLD_INSTANCE "','workspace_uuid':'one','entitlement_revision':1}");
    assert_error(peer_answer(&host, asked), "BoxAdmissionError", NULL);
    world_tell_readiness();
}

static void test_admission_from_now_on(void **state)
{
    struct peer plain;
    (void)state;
    peer_open(&plain, NULL);
    ask_error(&host, NULL, UPSERT, "{}", "BoxValidationError", NULL);
    refuse_grant(&host, &one, 1, 60000, "BoxAdmissionError");
    ask(&host, &one, "box_create_session", "{'session_id':'x'}");
    ask(&plain, NULL, "box_create_session", "{'session_id':'mine'}");
    long hangs = peer_ask(&plain, NULL, "box_exec", "{'session_id':'mine','cmd':'hang'}");
    world_turn();
    world_reconfigure(with_admission);
    assert_error(peer_answer(&plain, hangs), "BoxAdmissionError", NULL);
    world_wait_gone(physical(&one, "x"));
    world_wait_gone("mine");
    /* There is no way back. */
    world_reconfigure(NULL);
    ask_error(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}", "BoxReadinessError",
              NULL);
    peer_close(&plain);
}

/* Sessions of an earlier boxd: its grants are not ours. */
static void test_adopted_sessions(void **state)
{
    (void)state;
    struct peer plain;
    close_host(state);
    world_open(NULL);
    peer_open(&host, WORLD_INSTANCE);
    peer_open(&plain, NULL);
    ask(&host, &one, "box_create_session", "{'session_id':'global'}");
    ask(&plain, NULL, "box_create_session", "{'session_id':'mine'}");
    peer_close(&plain);
    peer_close(&host);
    world_close(true);
    world_open(NULL);
    assert_true(world_has(physical(&one, "global")) && world_has("mine"));
    world_close(true);
    world_open(with_admission);
    world_wait_gone(physical(&one, "global"));
    world_wait_gone("mine");
    peer_open(&host, WORLD_INSTANCE);
    give(&one, 1, 60000);
    ask(&host, &one, "box_exec", "{'session_id':'x','cmd':'echo x'}");
}

int main(void)
{
#define TENANTS(name)   cmocka_unit_test_setup_teardown(name, open_host, close_host)
#define ADMISSION(name) cmocka_unit_test_setup_teardown(name, open_admission, close_host)
    const struct CMUnitTest tests[] = {
        TENANTS(test_workspaces_do_not_see_each_other),
        TENANTS(test_directories_of_others),
        TENANTS(test_errors_have_their_names),
        TENANTS(test_contexts),
        TENANTS(test_shutdown_ends_tenants_only),
        TENANTS(test_a_newer_generation),
        TENANTS(test_leaving_while_the_fence_moves),
        TENANTS(test_many_workspaces),
        ADMISSION(test_without_a_grant),
        ADMISSION(test_a_grant),
        ADMISSION(test_times_as_python_prints_them),
        ADMISSION(test_a_grant_that_expires),
        ADMISSION(test_revocation),
        ADMISSION(test_a_grant_of_a_newer_generation),
        ADMISSION(test_a_grant_of_no_session),
        ADMISSION(test_not_ready),
        ADMISSION(test_renewing_disturbs_nobody),
        ADMISSION(test_waiting_for_readiness),
        TENANTS(test_admission_from_now_on),
        ADMISSION(test_adopted_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
