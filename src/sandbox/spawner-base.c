/* SPDX-License-Identifier: Apache-2.0 */
/* The bases of root file systems: each built once, for all the sessions that are alike in it. */
#include <string.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/fd.h"
#include "sandbox/mounts.h"
#include "sandbox/spawner-internal.h"

#define KEY_MAX (256u * 1024)

/* All that a base is made from, as bytes: its steps, and which file each source is now, so that one
   that was replaced on the host (ld.so.cache after an update) makes a new base. */
static void base_key(const struct plan *plan, struct buf *key)
{
    for (size_t i = 0; i < plan->base_count; i++) {
        const struct step *step = &plan->steps[i];
        struct stat st = {0};
        if (step->source)
            stat(step->source, &st);
        const uint64_t numbers[] = {step->kind, st.st_dev, st.st_ino};
        buf_append(key, numbers, sizeof numbers);
        buf_append(key, step->target, strlen(step->target) + 1);
        if (step->text)
            buf_append(key, step->text, strlen(step->text) + 1);
    }
}

static int find_base(const struct spawner *spawner, const struct buf *key)
{
    for (size_t i = 0; i < BASES_MAX; i++) {
        const struct buf *other = &spawner->bases[i].key;
        if (other->size == key->size && memcmp(other->data, key->data, key->size) == 0)
            return spawner->bases[i].namespace;
    }
    return -1;
}

/* Takes over the key. */
static void keep_base(struct spawner *spawner, struct buf *key, int namespace)
{
    struct base *base = &spawner->bases[spawner->next_base++ % BASES_MAX];
    if (base->key.size > 0) {
        buf_release(&base->key);
        close(base->namespace);
    }
    *base = (struct base){.key = *key, .namespace = namespace};
    *key = (struct buf){0};
}

int spawner_base(struct spawner *spawner, const struct plan *plan, int *ret_namespace,
                 struct error *err)
{
    *ret_namespace = -1;
    if (spawner->config->ready == 0 || plan->ids != ID_RANGE || !plan_base_suffices(plan))
        return 0;
    cleanup_buf struct buf key = BUF_INIT(KEY_MAX);
    base_key(plan, &key);
    if (key.size == KEY_MAX)
        return 0; /* cut short: it would not tell everything */
    int namespace = find_base(spawner, &key);
    if (namespace < 0) {
        if (mounts_make_base(plan, &spawner->config->policy, &namespace, err) < 0)
            return -1;
        keep_base(spawner, &key, namespace);
    }
    *ret_namespace = namespace;
    return 0;
}
