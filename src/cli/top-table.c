/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions use, from one look at boxd's counters to the next. */
#include "cli/top-table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/run-report.h"

static const json_t *find(const json_t *sessions, const char *name)
{
    for (size_t i = 0; i < json_array_size(sessions); i++) {
        const json_t *session = json_array_get(sessions, i);
        if (strcmp(client_text(session, "session_id"), name) == 0)
            return session;
    }
    return NULL;
}

/* A session that was not there before, or was made anew under its name and counts from nothing,
   has used what it has used in this time. */
static double percent_of(const json_t *before, const json_t *now, uint64_t passed_us)
{
    uint64_t used = client_number(now, "cpu_us");
    uint64_t earlier = before ? client_number(before, "cpu_us") : 0;
    if (passed_us == 0)
        return 0;
    return 100.0 * (double)(used >= earlier ? used - earlier : used) / (double)passed_us;
}

static int by_cpu(const void *a, const void *b)
{
    const json_t *left = *(json_t *const *)a;
    const json_t *right = *(json_t *const *)b;
    double difference = json_real_value(json_object_get(right, "cpu_percent")) -
                        json_real_value(json_object_get(left, "cpu_percent"));
    if (difference != 0)
        return difference > 0 ? 1 : -1;
    return strcmp(client_text(left, "session_id"), client_text(right, "session_id"));
}

json_t *top_rank(const json_t *before, const json_t *now, uint64_t passed_us)
{
    size_t count = json_array_size(now);
    json_t **rows = xcalloc(count + 1, sizeof *rows);
    json_t *ranked = json_array();
    for (size_t i = 0; i < count; i++) {
        const json_t *session = json_array_get(now, i);
        const json_t *earlier = find(before, client_text(session, "session_id"));
        bool known = json_is_integer(json_object_get(session, "cpu_us"));
        rows[i] = json_copy((json_t *)session);
        json_object_set_new(rows[i], "cpu_percent",
                            known ? json_real(percent_of(earlier, session, passed_us))
                                  : json_null());
    }
    qsort(rows, count, sizeof(json_t *), by_cpu);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(ranked, rows[i]);
    free(rows);
    return ranked;
}

void top_table(const json_t *ranked, struct table *ret)
{
    static const char *const headings[] = {"SESSION", "STATE", ">CPU%",      ">MEMORY",
                                           ">LIMIT",  ">MEM%", ">PROCESSES", NULL};
    table_init(ret, headings);
    for (size_t i = 0; i < json_array_size(ranked); i++) {
        const json_t *session = json_array_get(ranked, i);
        uint64_t memory = client_number(session, "memory_bytes");
        uint64_t limit = client_number(session, "memory_limit_bytes");
        char text[32];
        table_add(ret, client_text(session, "session_id"));
        table_add(ret, client_text(session, "state"));
        const json_t *percent = json_object_get(session, "cpu_percent");
        snprintf(text, sizeof text, "%.1f", json_real_value(percent));
        table_add(ret, json_is_real(percent) ? text : "-");
        if (json_is_null(json_object_get(session, "memory_bytes"))) {
            table_add(ret, "-");
            table_add_size(ret, limit);
            table_add(ret, "-");
            table_add(ret, "-");
            continue;
        }
        table_add_size(ret, memory);
        table_add_size(ret, limit);
        snprintf(text, sizeof text, "%.0f", limit ? 100.0 * (double)memory / (double)limit : 0.0);
        table_add(ret, text);
        table_add_number(ret, client_number(session, "processes"));
    }
}
