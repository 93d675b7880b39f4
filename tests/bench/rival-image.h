/* SPDX-License-Identifier: Apache-2.0 */
/* The root file system that container engines run: a shell, and nothing else. */
#pragma once

/* A tar archive of it; NULL if there is no static shell to be had. */
const char *rival_image(void);
