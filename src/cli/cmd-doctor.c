/* SPDX-License-Identifier: Apache-2.0 */
/* `box doctor`: what this machine can do for sandboxes, and what would help where it can't. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/plan-json.h"
#include "cli/run-report.h"

#define CHECKS_MAX 32

struct examination {
    struct finding findings[CHECKS_MAX];
    size_t count;
    bool works; /* a default session */
    struct sandbox_spec spec;
    struct plan plan;
};

static const char *const state_names[] = {
    [CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_FAIL] = "FAIL"};
static const char *const state_codes[] = {
    [CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail"};

/* Whether a session works is what the last check, a session, says. */
static int examine(struct examination *ret, struct error *err)
{
    struct machine machine;
    if (machine_open(&machine, err) < 0)
        return -1;
    for (; doctor_checks[ret->count].name; ret->count++)
        doctor_checks[ret->count].look(&machine, &ret->findings[ret->count]);
    ret->works = ret->findings[ret->count - 1].state == CHECK_OK;
    machine_close(&machine);
    return machine_plan(&ret->spec, &ret->plan, err);
}

/* --- for people ------------------------------------------------------------------------------- */

static void print_findings(const struct examination *examination)
{
    for (size_t i = 0; i < examination->count; i++) {
        const struct finding *finding = &examination->findings[i];
        printf("%-5s %-33s %s\n", state_names[finding->state], doctor_checks[i].name,
               finding->found);
        if (finding->fix[0])
            printf("%40sfix: %s\n", "", finding->fix);
    }
}

static void print_limit(const char *what, const struct plan *plan, enum limit_means means)
{
    if (means == LIMIT_BY_CGROUP)
        printf("%s (cgroup %s)", what, cgroup_version_name(plan->cgroup));
    else
        printf("%s (%s)", what, means == LIMIT_NONE ? "not enforced" : limit_means_name(means));
}

static void print_session(const struct examination *examination)
{
    const struct sandbox_spec *spec = &examination->spec;
    const struct plan *plan = &examination->plan;
    json_t *isolation = isolation_to_json(plan, spec);
    const json_t *names = json_object_get(isolation, "namespaces");
    char text[64];
    printf("\nA session here gets:\n  namespaces  ");
    for (size_t i = 0; i < json_array_size(names); i++)
        printf("%s%s", i ? ", " : "", json_string_value(json_array_get(names, i)));
    json_decref(isolation);
    printf("\n  ids         %s\n", id_scheme_name(plan->ids));
    printf("  privileges  no capability, no new privileges, seccomp profile %s\n",
           seccomp_profile_name(plan->seccomp));
    format_size(spec->memory_bytes, text, sizeof text);
    printf("  limits      memory ");
    print_limit(text, plan, plan->memory_by);
    snprintf(text, sizeof text, ", %g CPU", spec->cpu_milli / 1000.0);
    print_limit(text, plan, plan->cpu_by);
    snprintf(text, sizeof text, ", %u processes", spec->pids);
    print_limit(text, plan, plan->pids_by);
    format_size(spec->scratch_bytes, text, sizeof text);
    printf("\n  files       read-only root; /workspace, /tmp and home of %s together\n", text);
    printf("  network     %s\n", network_mode_name(plan->network));
    for (size_t i = 0; i < plan->notes.count; i++)
        printf("  note        %s\n", plan->notes.items[i]);
}

/* --- for programs ----------------------------------------------------------------------------- */

static void print_json(const struct examination *examination)
{
    json_t *checks = json_array();
    for (size_t i = 0; i < examination->count; i++) {
        const struct finding *finding = &examination->findings[i];
        json_t *check = json_pack("{s:s,s:s,s:o}", "name", doctor_checks[i].name, "state",
                                  state_codes[finding->state], "found",
                                  json_text(finding->found, strlen(finding->found)));
        if (finding->fix[0])
            json_object_set_new(check, "fix", json_text(finding->fix, strlen(finding->fix)));
        json_array_append_new(checks, check);
    }
    json_t *session = examination->works ? isolation_to_json(&examination->plan, &examination->spec)
                                         : json_null();
    run_print_json(
        json_pack("{s:b,s:o,s:o}", "ok", examination->works, "checks", checks, "session", session),
        JSON_INDENT(2));
}

/* --- the verb --------------------------------------------------------------------------------- */

struct doctor_options {
    bool json;
};

static int apply_json(void *target, const char *value, struct error *err)
{
    (void)value;
    (void)err;
    ((struct doctor_options *)target)->json = true;
    return 0;
}

static const struct option doctor_options[] = {
    {"json", 0, NULL, "print one JSON object", apply_json},
    {0},
};

static int doctor_main(const struct verb *verb, int argc, char **argv)
{
    struct doctor_options options = {0};
    struct examination examination = {0};
    struct error err = ERROR_INIT;
    int rest = argc;
    int rc = options_parse(verb, argc, argv, &options, &rest, &err);
    if (rc == OPTIONS_HELP) {
        options_help(verb, stdout);
        return 0;
    }
    if (rc == 0 && rest < argc)
        rc = error_set(&err, ERROR_INVALID, "takes no argument: '%.64s'", argv[rest]);
    if (rc < 0)
        return cli_fail(verb->name, &err);
    sandbox_spec_init(&examination.spec);
    rc = examine(&examination, &err);
    if (rc < 0) {
        cli_fail(verb->name, &err);
    } else if (options.json) {
        print_json(&examination);
    } else {
        print_findings(&examination);
        if (examination.works)
            print_session(&examination);
        else
            puts("\nNo session can be made here; the lines marked FAIL say why.");
    }
    plan_release(&examination.plan);
    sandbox_spec_release(&examination.spec);
    if (rc < 0)
        return EXIT_BOXD;
    return examination.works ? 0 : 1;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .arguments = "[--json]",
    .help = "Say what this machine can do for sandboxes, and how to fix what it can't.",
    .options = doctor_options,
    .run = doctor_main,
};
