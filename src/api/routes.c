/* SPDX-License-Identifier: Apache-2.0 */
/* Every path that is served, by whom, and what it says about itself in /openapi.json. */
#include "api/decode.h"
#include "api/internal.h"

#define S            "/v1/sessions/{id}"
#define P            S "/processes/{pid}"
#define QUERY(table) .query = table, .query_count = ARRAY_SIZE(table)
#define BYTES        "application/octet-stream"
#define EVENTS       "text/event-stream"

const struct route api_routes[] = {
    /* The warmest first: routes are tried in order. */
    {"POST", S "/exec", rest_exec, .flags = ROUTE_JSON, .body = &body_exec,
     .replies = {{200, NULL, "ExecResult"}, {200, EVENTS, NULL}},
     .summary = "Run a command in a session and wait for its result"},
    {"POST", "/v1/exec", rest_exec_flat, .flags = ROUTE_JSON, .body = &body_exec_flat,
     .replies = {{200, NULL, "ExecResult"}, {200, EVENTS, NULL}},
     .summary = "Run a command in a session, which is made if it is not there"},
    {"POST", "/v1/sessions", rest_create_session, .flags = ROUTE_JSON, .body = &body_session,
     .replies = {{201, NULL, "Session"}, {200, NULL, "Session"}},
     .summary = "Make a session, or find it if it is there"},
    {"GET", "/v1/sessions", rest_list_sessions, QUERY(query_list),
     .replies = {{200, NULL, "SessionList"}}, .summary = "List sessions, oldest first"},
    {"GET", S, rest_get_session, .replies = {{200, NULL, "SessionDetail"}},
     .summary = "Look at a session"},
    {"DELETE", S, rest_delete_session, .replies = {{200, NULL, "Deleted"}},
     .summary = "End a session, and wait until nothing of it is left"},
    {"GET", S "/usage", rest_session_usage, .replies = {{200, NULL, "Usage"}},
     .summary = "What a session uses"},
    {"GET", "/v1/usage", rest_usage, .replies = {{200, NULL, "UsageList"}},
     .summary = "What all sessions use"},
    {"GET", S "/execs/{number}/log", rest_exec_log, .query = query_log,
     .query_count = ARRAY_SIZE(query_log) - 1, .replies = {{200, BYTES, NULL}},
     .summary = "Output of a past command, from an offset"},

    {"POST", S "/processes", rest_start_process, .flags = ROUTE_JSON, .body = &body_process,
     .replies = {{201, NULL, "Process"}}, .summary = "Start a managed process"},
    {"GET", S "/processes", rest_list_processes, .replies = {{200, NULL, "ProcessList"}},
     .summary = "List the managed processes of a session"},
    {"GET", P, rest_get_process, .replies = {{200, NULL, "Process"}},
     .summary = "Look at a managed process"},
    {"DELETE", P, rest_stop_process, .replies = {{200, NULL, "Stopped"}},
     .summary = "Stop a managed process, and wait until it is over"},
    {"POST", P "/signal", rest_signal_process, .flags = ROUTE_JSON, .body = &body_signal,
     .replies = {{200, NULL, "Signalled"}}, .summary = "Send a signal to a managed process"},
    {"GET", P "/log", rest_process_log, QUERY(query_log), .replies = {{200, BYTES, NULL}},
     .summary = "Output of a managed process, from an offset"},
    {"GET", S "/managed-process/ws", relay_open_default, .flags = ROUTE_SOCKET, QUERY(query_relay),
     .replies = {{101, NULL, NULL}},
     .summary = "The relay of the process named default: a WebSocket, a text frame a line"},
    {"GET", S "/managed-process/{pid}/ws", relay_open, .flags = ROUTE_SOCKET, QUERY(query_relay),
     .replies = {{101, NULL, NULL}},
     .summary = "The relay of a managed process: a WebSocket, a text frame a line"},
    {"GET", S "/pty/ws", pty_open, .flags = ROUTE_SOCKET, QUERY(query_pty),
     .replies = {{101, NULL, NULL}}, .summary = "A terminal: a WebSocket"},

    {"GET", S "/files/{path...}", rest_get_file, QUERY(query_get_file),
     .replies = {{200, BYTES, NULL}, {206, BYTES, NULL}, {200, NULL, "FileAnswer"}},
     .summary = "The bytes of a file; what is in a directory; what something is"},
    {"HEAD", S "/files/{path...}", rest_head_file, .replies = {{200, BYTES, NULL}},
     .summary = "How long a file is"},
    {"PUT", S "/files/{path...}", rest_put_file, .flags = ROUTE_UPLOAD, QUERY(query_put_file),
     .replies = {{201, NULL, "FileWritten"}, {200, NULL, "FileWritten"}},
     .summary = "Write a file, whole or not at all"},
    {"DELETE", S "/files/{path...}", rest_delete_file, QUERY(query_delete_file),
     .replies = {{200, NULL, "Deleted"}}, .summary = "Remove a file or directory"},
    {"POST", S "/files/{path...}", rest_post_file, QUERY(query_post_file),
     .replies = {{201, NULL, "FileMade"}, {200, NULL, "FileMoved"}},
     .summary = "Make a directory, or move something"},

    {"GET", "/v1/status", rest_status, .replies = {{200, NULL, "Status"}},
     .summary = "How boxd is"},
    {"GET", "/v1/capabilities", rest_capabilities, .replies = {{200, NULL, "Capabilities"}},
     .summary = "What sessions are isolated by"},
    {"GET", "/v1/events", rest_events, QUERY(query_events), .replies = {{200, EVENTS, NULL}},
     .summary = "What is going on, as it happens"},
    {"GET", "/healthz", rest_healthz, .flags = ROUTE_OPEN | ROUTE_HEALTHY,
     .replies = {{200, NULL, "Health"}}, .summary = "Whether boxd is alive"},
    {"GET", "/readyz", rest_readyz, .flags = ROUTE_HEALTHY,
     .replies = {{200, NULL, "Readiness"}, {503, NULL, "Readiness"}},
     .summary = "Whether boxd can make sessions"},
    {"GET", "/metrics", rest_metrics, .flags = ROUTE_HEALTHY,
     .replies = {{200, "text/plain", NULL}}, .summary = "Prometheus metrics"},
    {"GET", "/openapi.json", rest_openapi, .replies = {{200, NULL, "Document"}},
     .summary = "This description"},
};
const size_t api_route_count = ARRAY_SIZE(api_routes);
