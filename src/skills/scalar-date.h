/* SPDX-License-Identifier: Apache-2.0 */
/* Dates and times among plain scalars. */
#pragma once

#include "skills/scalar.h"

bool scalar_is_date(const char *text);
int scalar_build_date(const char *text, struct scalar *ret, struct error *err);
