/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of a skill store while another process changes it: when it stops, the next list is right,
   whether it was answered from the watch or by a search. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "skills-help.h"
#include "skills/store.h"

#define ROUNDS   300
#define CHANGES  8 /* few: what counts is the last of them */
#define PACKAGES 24
#define LISTERS  3

static void make(const struct world *world, unsigned number, unsigned text)
{
    char path[64];
    char content[64];
    snprintf(path, sizeof path, "%s%u/SKILL.md", number % 3 ? "p" : "category/p", number);
    snprintf(content, sizeof content, "---\nname: p%u\n---\n%u", number, text);
    put_file(world, path, content);
}

/* One of the ways in which directories change, by chance. */
static void change(const struct world *world, unsigned *seed)
{
    unsigned number = (unsigned)rand_r(seed) % PACKAGES;
    unsigned way = (unsigned)rand_r(seed) % 6;
    cleanup_free char *dir =
        xasprintf("%s/%s%u", world->root, number % 3 ? "p" : "category/p", number);
    cleanup_free char *other = xasprintf("%s/q%u", world->root, number);
    cleanup_free char *outside = xasprintf("%s-outside/%u", world->root, number);
    cleanup_free char *file = xasprintf("%s/SKILL.md", dir);
    switch (way) {
    case 0:
        remove_tree(dir);
        break;
    case 1:
        rename(dir, other);
        break;
    case 2:
        rename(other, dir);
        break;
    case 3:
        rename(dir, outside);
        break;
    case 4:
        if (rename(outside, dir) < 0)
            unlink(file);
        break;
    default:
        make(world, number, (unsigned)rand_r(seed));
    }
}

static void change_much(const struct world *world, unsigned seed)
{
    for (int i = 0; i < CHANGES; i++)
        change(world, &seed);
}

struct lister {
    const struct world *world;
    atomic_bool *done;
    unsigned lists;
    bool failed;
};

static void *list(void *data)
{
    struct lister *lister = data;
    do {
        struct skill_list all = {NULL, 0};
        struct error err = ERROR_INIT;
        if (skill_list(lister->world->scope, &all, &err) < 0)
            lister->failed = true;
        skill_list_release(&all);
        lister->lists++;
    } while (!atomic_load(lister->done));
    return NULL;
}

static char *describe(struct skill_scope *scope)
{
    struct skill_list all = {NULL, 0};
    struct error err = ERROR_INIT;
    cleanup_buf struct buf out = BUF_INIT(1 << 20);
    assert_int_equal(skill_list(scope, &all, &err), 0);
    for (size_t i = 0; i < all.count; i++) {
        const struct skill *skill = all.items[i];
        cleanup_free char *line =
            xasprintf("%s %s %s\n", skill->package_root, skill->instructions, skill->updated_at);
        buf_append(&out, line, strlen(line));
    }
    buf_append(&out, "", 1);
    skill_list_release(&all);
    return steal_ptr(out.data);
}

/* What a store has that never looked before. */
static char *describe_anew(const struct world *world)
{
    struct world fresh = *world;
    world_open(&fresh);
    char *right = describe(fresh.scope);
    world_close(&fresh);
    return right;
}

static void check_same(const char *ours, const char *right, int round)
{
    if (strcmp(ours, right) != 0)
        fail_msg("round %d:\n%sinstead of\n%s", round, ours, right);
}

static void run_round(const struct world *world, int round)
{
    struct lister listers[LISTERS];
    pthread_t threads[LISTERS];
    atomic_bool done = false;
    int status;
    pid_t pid = fork();
    assert_return_code(pid, errno);
    if (pid == 0) {
        change_much(world, (unsigned)round);
        _exit(0);
    }
    for (size_t i = 0; i < LISTERS; i++) {
        listers[i] = (struct lister){.world = world, .done = &done};
        assert_int_equal(pthread_create(&threads[i], NULL, list, &listers[i]), 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    /* While the others still list, and when they are done. */
    cleanup_free char *at_once = describe(world->scope);
    atomic_store(&done, true);
    for (size_t i = 0; i < LISTERS; i++)
        pthread_join(threads[i], NULL);
    cleanup_free char *later = describe(world->scope);
    cleanup_free char *right = describe_anew(world);
    assert_int_equal(status, 0);
    check_same(at_once, right, round);
    check_same(later, right, round);
    for (size_t i = 0; i < LISTERS; i++)
        assert_true(!listers[i].failed && listers[i].lists > 0);
}

static void racing(void **state)
{
    struct world *world = *state;
    cleanup_free char *outside = xasprintf("%s-outside", world->root);
    unsigned quiet = 0;
    assert_int_equal(mkdir(outside, 0755), 0);
    for (unsigned i = 0; i < PACKAGES + WATCH_FROM; i++)
        make(world, i, i);
    for (int round = 0; round < ROUNDS; round++) {
        run_round(world, round);
        for (int i = 0; i < 3; i++) {
            uint64_t before = world->scope->tickets;
            free(names_of(world->scope));
            quiet += world->scope->tickets == before;
        }
        cleanup_free char *ours = describe(world->scope);
        cleanup_free char *right = describe_anew(world);
        check_same(ours, right, round);
    }
    /* Otherwise nothing of this was about the watch. */
    assert_true(quiet > 0);
    remove_tree(outside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(racing, world_setup, world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
