/* SPDX-License-Identifier: Apache-2.0 */
/* A request of REST on its way through the skill store. */
#pragma once

#include "api/internal.h"
#include "api/skills.h"

/* Asks, and answers the request: with `status` and JSON if all went well, with the bytes of a file
   where that is what was asked for. `ask` is empty afterwards. */
void skill_call_ask(struct api *api, struct http_request *req, struct skill_ask *ask, int status);

/* A request whose body is yet to come, kept with it until it is there. */
struct skill_upload {
    struct api *api;
    struct skill_ask ask;
    char *boundary; /* of a form; NULL: the body is the archive */
};

struct skill_upload *skill_upload_new(struct call *call, enum skill_verb verb);
/* The content of what is asked; a copy. */
void skill_upload_take(struct skill_upload *upload, const char *data, size_t size);
/* The body is there: asks, or refuses. Both free it. */
void skill_upload_ask(struct http_request *req, struct skill_upload *upload, int status);
void skill_upload_refuse(struct http_request *req, struct skill_upload *upload,
                         const struct error *err);
