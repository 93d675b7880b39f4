/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies and queries about skills: the tables that decode and describe them. */
#include "api/decode.h"
#include "api/skills.h"

#define ASK(member) .offset = offsetof(struct skill_ask, member)
#define NAME_BYTES  (SKILL_NAME_MAX * 4)
#define PATH_BYTES  4095
#define QUERY_BYTES 1024 /* so that it fits into a request, percent-encoded; forms take more */

static const struct field name_field[] = {
    {.name = "name",
     .kind = FIELD_TEXT,
     ASK(name),
     .min = 1,
     .max = NAME_BYTES,
     .flags = FIELD_REQUIRED,
     .about = "Letters, digits, '-' and '_', at most 64."},
    {.name = "display_name", .kind = FIELD_TEXT, ASK(display_name), .flags = FIELD_NULLABLE},
    {.name = "description", .kind = FIELD_TEXT, ASK(description), .flags = FIELD_NULLABLE},
    {.name = "instructions",
     .kind = FIELD_TEXT,
     ASK(instructions),
     .flags = FIELD_NULLABLE,
     .max = SKILL_TEXT_MAX,
     .about = "What stands in SKILL.md behind the front matter."},
    {.name = "package_root",
     .kind = FIELD_TEXT,
     ASK(package_root),
     .flags = FIELD_NULLABLE | FIELD_ABSOLUTE,
     .min = 1,
     .max = PATH_BYTES,
     .about = "A directory of the host: copied into the store, or adopted if it is there."},
};

static const struct field edit_fields[] = {
    {.name = "display_name", .kind = FIELD_TEXT, ASK(display_name), .flags = FIELD_NULLABLE},
    {.name = "description", .kind = FIELD_TEXT, ASK(description), .flags = FIELD_NULLABLE},
    {.name = "instructions",
     .kind = FIELD_TEXT,
     ASK(instructions),
     .flags = FIELD_NULLABLE,
     .max = SKILL_TEXT_MAX},
};

const struct route_body body_skill = {"NewSkill", {{name_field, ARRAY_SIZE(name_field)}}};
const struct route_body body_skill_edit = {"SkillEdit", {{edit_fields, ARRAY_SIZE(edit_fields)}}};

const struct field query_skill_files[3] = {
    {.name = "path",
     .kind = FIELD_TEXT,
     .min = 1,
     .max = QUERY_BYTES,
     .offset = offsetof(struct skill_files_query, path),
     .about = "A directory in the package."},
    {.name = "include_hidden",
     .kind = FIELD_FLAG,
     .offset = offsetof(struct skill_files_query, include_hidden)},
    {.name = "max_entries",
     .kind = FIELD_U32,
     .min = 1,
     .max = SKILL_FILES_MAX,
     .offset = offsetof(struct skill_files_query, max_entries)},
};

const struct field query_skill_zip[4] = {
    {.name = "filename",
     .kind = FIELD_TEXT,
     .max = 255,
     .offset = offsetof(struct skill_zip_query, filename),
     .about = "The directories are named after it."},
    {.name = "source_path",
     .kind = FIELD_TEXT,
     .max = QUERY_BYTES,
     .offset = offsetof(struct skill_zip_query, source_path),
     .about = "Which one, if there are several in it."},
    {.name = "source_subdir",
     .kind = FIELD_TEXT,
     .max = QUERY_BYTES,
     .offset = offsetof(struct skill_zip_query, source_subdir),
     .about = "Where in it to look."},
    {.name = "target_suffix",
     .kind = FIELD_TEXT,
     .max = 64,
     .offset = offsetof(struct skill_zip_query, target_suffix)},
};
