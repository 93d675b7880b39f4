/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the benchmark: each starts what it needs, measures, prints, and ends it again. */
#pragma once

void part_warm(void);     /* a command in a live session: engine, HTTP */
void part_cold(void);     /* a session for one command: engine, HTTP */
void part_one_shot(void); /* programs that make a sandbox for one command */
void part_docker(void);   /* docker exec and run, podman run */
void part_load(void);     /* many clients at once */
void part_start(void);    /* until boxd is ready, and what it weighs */
void part_many(void);     /* with 2,000 sessions alive, and what one weighs */
void part_relay(void);    /* a line through a process and back */
void part_mcp(void);      /* a call of an MCP server's tool */
void part_output(void);   /* a lot of output */
void part_langbot(void);  /* a command as LangBot asks for it */
void part_skills(void);   /* lists of 1,000 skills */
