/* SPDX-License-Identifier: Apache-2.0 */
/* What the backend and its readiness look like in an answer. */
#include <string.h>

#include "api/rpc-internal.h"

/* What stands where there is none has a name, but not for LangBot. */
static const char *backend_name(const struct backend *backend)
{
    return strcmp(backend->ops->name, "none") == 0 ? NULL : backend->ops->name;
}

void out_readiness(struct json_out *out, const char *key, struct api *api,
                   const struct readiness_result *result)
{
    struct backend *backend = runtime_backend(api->runtime);
    out_open(out, key, '{');
    out_flag(out, "ready", result->ready);
    out_text(out, "mode", "grant_enforced");
    out_open(out, "backend", '{');
    out_text(out, "name", backend_name(backend));
    out_flag(out, "available", result->checks[READINESS_BACKEND_AVAILABLE].ok);
    out_close(out, '}');
    out_open(out, "checks", '{');
    for (int i = 0; i < READINESS_MAX; i++)
        out_flag(out, readiness_name((enum readiness_check)i), result->checks[i].ok);
    out_close(out, '}');
    out_open(out, "reasons", '{');
    for (int i = 0; i < READINESS_MAX; i++)
        if (!result->checks[i].ok)
            out_text(out, readiness_name((enum readiness_check)i), result->checks[i].reason);
    out_close(out, '}');
    out_close(out, '}');
}

void out_backend(struct json_out *out, const char *key, struct api *api,
                 const struct readiness_result *result)
{
    struct backend *backend = runtime_backend(api->runtime);
    out_open(out, key, '{');
    out_text(out, "name", backend_name(backend));
    out_flag(out, "available", result ? result->ready : !backend->ops->unavailable(backend));
    if (result)
        out_readiness(out, "readiness", api, result);
    out_close(out, '}');
}
