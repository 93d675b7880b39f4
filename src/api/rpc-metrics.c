/* SPDX-License-Identifier: Apache-2.0 */
/* What /metrics tells of LangBot's RPC. */
#include "api/rpc-internal.h"

static const char *const outcome_names[RPC_OUTCOMES] = {
    [RPC_ANSWERED] = "answered", [RPC_FAILED] = "failed", [RPC_CALLED_OFF] = "called_off"};

void rpc_metrics(const struct api *api, struct buf *out)
{
    const struct rpc *rpc = api->rpc;
    size_t records;
    size_t grants;
    metric_single(out, "boxd_rpc_connections", "gauge", "Connections of LangBot's RPC.",
                  rpc->connections);
    metric_single(out, "boxd_rpc_connections_total", "counter", "Connections there have been.",
                  rpc->connections_total);
    metric_single(out, "boxd_rpc_requests_running", "gauge", "Requests under way.", rpc->inflight);
    metric_head(out, "boxd_rpc_requests_total", "counter", "Requests, by action and outcome.");
    for (size_t i = 0; i <= rpc_action_count; i++)
        for (int j = 0; j < RPC_OUTCOMES; j++)
            metric_line(out, "boxd_rpc_requests_total{action=\"%s\",outcome=\"%s\"} %llu",
                        i < rpc_action_count ? rpc_actions[i].name : "unknown", outcome_names[j],
                        (unsigned long long)rpc->counts[i][j]);
    admission_count(rpc->admission, &records, &grants);
    metric_single(out, "boxd_rpc_grants", "gauge", "Workspaces that have a grant.", grants);
    metric_single(out, "boxd_rpc_grant_records", "gauge", "Workspaces in the book of grants.",
                  records);
}
