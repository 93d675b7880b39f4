/* SPDX-License-Identifier: Apache-2.0 */
/* Every action that is served. */
#include <string.h>

#include "api/rpc-internal.h"

#define USES  (RPC_TENANT | RPC_SANDBOX)
#define MAKES (USES | RPC_MAKES)

const struct rpc_action rpc_actions[] = {
    /* The warmest first: they are tried in order. */
    {"box_exec", MAKES, rpc_exec},
    {"__ping", 0, rpc_ping},
    {"__file_chunk", 0, rpc_file_chunk},

    {"box_create_session", MAKES, rpc_create_session},
    {"box_get_session", USES, rpc_get_session},
    {"box_get_sessions", USES, rpc_list_sessions},
    {"box_delete_session", USES, rpc_delete_session},
    {"box_start_managed_process", USES, rpc_start_process},
    {"box_get_managed_process", USES, rpc_get_process},
    {"box_stop_managed_process", USES, rpc_stop_process},
    {"box_status", RPC_TENANT, rpc_status},

    {"box_list_skills", RPC_TENANT, rpc_list_skills},
    {"box_get_skill", RPC_TENANT, rpc_get_skill},
    {"box_create_skill", RPC_TENANT, rpc_create_skill},
    {"box_update_skill", RPC_TENANT, rpc_update_skill},
    {"box_delete_skill", RPC_TENANT, rpc_delete_skill},
    {"box_scan_skill_directory", RPC_TENANT, rpc_scan_skill},
    {"box_list_skill_files", RPC_TENANT, rpc_list_skill_files},
    {"box_read_skill_file", RPC_TENANT, rpc_read_skill_file},
    {"box_write_skill_file", RPC_TENANT, rpc_write_skill_file},
    {"box_preview_skill_zip", RPC_TENANT, rpc_preview_skill_zip},
    {"box_install_skill_zip", RPC_TENANT, rpc_install_skill_zip},

    {"box_health", 0, rpc_health},
    {"box_get_backend_info", 0, rpc_backend_info},
    {"box_init", 0, rpc_init},
    {"box_upsert_sandbox_admission_grant", 0, rpc_upsert_grant},
    {"box_revoke_sandbox_admission_grant", 0, rpc_revoke_grant},
    {"box_verify_shared_workspace", 0, rpc_verify_workspace},
    {"box_shutdown", 0, rpc_shutdown},
};
const size_t rpc_action_count = ARRAY_SIZE(rpc_actions);

const struct rpc_action *rpc_action_find(const char *name)
{
    for (size_t i = 0; i < rpc_action_count; i++)
        if (strcmp(rpc_actions[i].name, name) == 0)
            return &rpc_actions[i];
    return NULL;
}
