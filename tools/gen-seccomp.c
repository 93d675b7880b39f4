/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the system call policy to BPF, one program for each profile, and writes them as C.

   Usage: gen-seccomp [ARCHITECTURE] > seccomp-programs.inc
          gen-seccomp ARCHITECTURE front > seccomp-front.inc

   ARCHITECTURE is x86_64 or aarch64 (meson's host_machine.cpu_family()); the one it was built for
   if missing. With "front" it is the policy of boxd's own front instead of the sandboxes'.
   libseccomp is asked for the numbers of the calls, and only at build time. Its own compiler is not
   used: it cannot say "allowed unless the low 32 bits are one of these", which most of our argument
   rules are, and it spends an instruction or more on every call where this one spends two on every
   run of neighbours with the same rule.

   A program looks like this:

       load the architecture; another one → ENOSYS      (i386 on x86-64)
       load the number of the call
       a binary search over ranges of numbers           (seven comparisons deep)
       at each leaf: a verdict, or loads and comparisons of arguments, each ending in a verdict

   The last range has no end, so x32 calls (number | 0x40000000) fall into it: ENOSYS. Up to the
   leaves nothing but number and architecture is looked at, which is what the kernel needs to find
   the calls that are always allowed and to let them by without running the program. */
#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "daemon/confine-policy.h"
#include "sandbox/seccomp.h"
#include "sandbox/seccomp-policy.h"

#define CALL_MAX        1024 /* numbers of calls; the highest of any architecture are below 600 */
#define PROGRAM_MAX     BPF_MAXINSNS
#define COMMON_FIRST    424 /* from here on numbers are the same everywhere */
#define ARG_LOW_WORD(i) (offsetof(struct seccomp_data, args) + 8 * (i)) /* little-endian */

struct call {
    const char *name;                        /* NULL: no such call */
    const struct seccomp_rule *const *rules; /* by profile; NULL: not in the policy */
};

struct range {
    uint32_t first; /* up to the next range's first */
    const struct seccomp_rule *rule;
};

struct program {
    struct sock_filter code[PROGRAM_MAX];
    size_t count;
};

static bool may_kill; /* a sandbox's program never does */

_Static_assert(ARRAY_SIZE(seccomp_class_rules[0]) == SECCOMP_PROFILE_MAX,
               "SECCOMP_CLASSES needs a column for each profile");

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("gen-seccomp: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* ---- The calls of the architecture ---- */

/* The number of a call, or -1 if this architecture has no such call. */
static int call_number(uint32_t arch, const struct seccomp_call *call)
{
    int known = seccomp_syscall_resolve_name_arch(arch, call->name);
    if (known >= 0 && call->number >= 0 && known != call->number)
        die("%s is %d here, not %d", call->name, known, call->number);
    if (known >= 0)
        return known;
    /* Other negative numbers stand for calls that only other architectures have. */
    if (known == __NR_SCMP_ERROR && call->number < 0)
        die("no call is named %s; if it is new, write its number behind it", call->name);
    if (call->number < COMMON_FIRST && arch != SCMP_ARCH_X86_64)
        return -1;
    return call->number;
}

static void calls_add_known(struct call *calls, uint32_t arch)
{
    for (int i = 0; i < CALL_MAX; i++)
        calls[i].name = seccomp_syscall_resolve_num_arch(arch, i); /* kept until the end */
}

static void calls_add_group(struct call *calls, uint32_t arch, const char *names,
                            const struct seccomp_rule *const *rules)
{
    struct seccomp_call call;
    const char *rest = names;
    while ((rest = seccomp_call_next(rest, &call)) != NULL) {
        int number = call_number(arch, &call);
        if (number < 0)
            continue;
        if (number >= CALL_MAX)
            die("%s has the number %d, beyond CALL_MAX", call.name, number);
        if (calls[number].rules != NULL)
            die("%s is in the policy twice", call.name);
        calls[number].rules = rules;
        if (calls[number].name == NULL)
            calls[number].name = strdup(call.name);
    }
}

/* ---- Code ---- */

static void emit(struct program *p, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
    if (p->count == PROGRAM_MAX)
        die("program too long");
    p->code[p->count++] = (struct sock_filter){code, jt, jf, k};
}

static void emit_return(struct program *p, uint32_t verdict)
{
    uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;
    if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_ERRNO &&
        action != SECCOMP_RET_USER_NOTIF && !(may_kill && action == SECCOMP_RET_KILL_PROCESS))
        die("verdict %#x: only allow, notify and errno are meant to happen", verdict);
    emit(p, BPF_RET | BPF_K, 0, 0, verdict);
}

/* Comparisons, then the way out without a match, then (jumped to) the way out with one. NEXT as
   either way out falls through to the code behind. */
static void emit_test(struct program *p, const struct seccomp_test *test)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, ARG_LOW_WORD(test->arg));
    if (test->mask != ANY_BIT)
        emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, test->mask);

    bool out_other = test->otherwise != VERDICT_NEXT;
    bool out_match = test->match != VERDICT_NEXT;
    if (!out_other && !out_match)
        die("a test without consequence");
    for (size_t i = 0; i < test->count; i++) {
        size_t last = test->count - 1;
        /* Over the comparisons left, and over the "otherwise" verdict where there is one. */
        uint8_t matched = (uint8_t)(last - i + out_other);
        uint8_t failed = i == last && !out_other ? 1 : 0;
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, matched, failed, test->values[i]);
    }
    if (out_other)
        emit_return(p, test->otherwise);
    if (out_match)
        emit_return(p, test->match);
}

static void emit_rule(struct program *p, const struct seccomp_rule *rule)
{
    for (size_t i = 0; i < rule->test_count; i++)
        emit_test(p, &rule->tests[i]);
    const struct seccomp_test *last =
        rule->test_count > 0 ? &rule->tests[rule->test_count - 1] : NULL;
    if (last == NULL || last->match == VERDICT_NEXT || last->otherwise == VERDICT_NEXT)
        emit_return(p, rule->verdict);
}

/* Number in the accumulator; the lower half first, the upper half jumped to. */
static void emit_search(struct program *p, const struct range *ranges, size_t count)
{
    if (count == 1) {
        emit_rule(p, ranges[0].rule);
        return;
    }
    size_t middle = count / 2;
    size_t jump = p->count;
    emit(p, BPF_JMP | BPF_JGE | BPF_K, 0, 0, ranges[middle].first);
    emit_search(p, ranges, middle);
    size_t distance = p->count - jump - 1;
    if (distance > UINT8_MAX)
        die("a jump over %zu instructions: split the search", distance);
    p->code[jump].jt = (uint8_t)distance;
    emit_search(p, ranges + middle, count - middle);
}

/* `missing`: the rule of calls that the policy does not name. */
static size_t ranges_make(const struct call *calls, unsigned profile,
                          const struct seccomp_rule *missing, struct range *ret)
{
    size_t count = 0;
    for (uint32_t i = 0; i < CALL_MAX; i++) {
        const struct seccomp_rule *rule = calls[i].rules != NULL  ? calls[i].rules[profile]
                                          : calls[i].name != NULL ? missing
                                                                  : &rule_absent;
        if (count == 0 || ret[count - 1].rule != rule)
            ret[count++] = (struct range){i, rule};
    }
    if (ret[count - 1].rule != &rule_absent)
        die("the last number must not be in the policy: what follows it would share its rule");
    return count;
}

static void program_make(struct program *p, const struct call *calls, uint32_t arch,
                         unsigned profile, const struct seccomp_rule *missing)
{
    static struct range ranges[CALL_MAX];
    size_t count = ranges_make(calls, profile, missing, ranges);
    p->count = 0;
    emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, arch);
    emit_return(p, VERDICT_FAIL(ENOSYS));
    emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    emit_search(p, ranges, count);
}

/* ---- Output ---- */

static void write_program(const struct program *p, const struct call *calls, const char *profile)
{
    printf("\n/* %zu instructions */\nstatic const struct sock_filter program_%s[] = {\n", p->count,
           profile);
    for (size_t i = 0; i < p->count; i++) {
        const struct sock_filter *f = &p->code[i];
        printf("    {0x%02x, %u, %u, 0x%08x},", f->code, f->jt, f->jf, f->k);
        if (f->code == (BPF_JMP | BPF_JGE | BPF_K))
            printf(" /* from %u %s */", f->k, calls[f->k].name != NULL ? calls[f->k].name : "");
        fputc('\n', stdout);
    }
    puts("};");
}

/* Fixed width and no pointers: nothing to relocate when boxd starts. */
static void write_names(const struct call *calls)
{
    size_t width = 0;
    for (int i = 0; i < CALL_MAX; i++)
        if (calls[i].name != NULL && strlen(calls[i].name) >= width)
            width = strlen(calls[i].name) + 1;
    printf("\nstatic const char call_names[][%zu] = {\n", width);
    for (int i = 0; i < CALL_MAX; i++)
        if (calls[i].name != NULL)
            printf("    [%d] = \"%s\",\n", i, calls[i].name);
    puts("};");
}

static void write_head(const char *arch, const char *policy)
{
    printf("/* Made by tools/gen-seccomp.c from src/%s. */\n"
           "#ifndef __%s__\n#error \"these programs are for %s\"\n#endif\n",
           policy, arch, arch);
}

static void make_sandbox(struct call *calls, uint32_t arch)
{
    static struct program program;
    for (size_t i = 0; i < ARRAY_SIZE(seccomp_policy); i++)
        calls_add_group(calls, arch, seccomp_policy[i].calls,
                        seccomp_class_rules[seccomp_policy[i].class]);
#define X(id, text)                                                  \
    program_make(&program, calls, arch, SECCOMP_##id, &rule_absent); \
    write_program(&program, calls, #id);
    SECCOMP_PROFILES(X)
#undef X
    write_names(calls);
}

static void make_front(struct call *calls, uint32_t arch)
{
    static struct program program;
    may_kill = true;
    for (size_t i = 0; i < ARRAY_SIZE(front_policy); i++)
        calls_add_group(calls, arch, front_policy[i].calls, &front_policy[i].rule);
    program_make(&program, calls, arch, 0, &front_deny);
    write_program(&program, calls, "front");
}

int main(int argc, char **argv)
{
#ifdef __x86_64__
    const char *name = "x86_64";
#else
    const char *name = "aarch64";
#endif
    if (argc > 1)
        name = argv[1];
    bool front = argc == 3 && strcmp(argv[2], "front") == 0;
    if (argc > 2 + front || (strcmp(name, "x86_64") != 0 && strcmp(name, "aarch64") != 0))
        die("usage: gen-seccomp [x86_64|aarch64 [front]]");
    uint32_t arch = seccomp_arch_resolve_name(name);

    static struct call calls[CALL_MAX];
    calls_add_known(calls, arch);
    write_head(name, front ? "daemon/confine-policy.h" : "sandbox/seccomp-policy.h");
    if (front)
        make_front(calls, arch);
    else
        make_sandbox(calls, arch);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
