/* parts.h - an output that several processes write, each a part of its bytes, for api.c. The files of this
 * work are described in part_record.h. */
#pragma once

#include "core/plan.h"

struct part_plan;
struct stat;

/* part_plan_new - makes the plan of an output of P, of which OPTS->part is written. The caller passes
 * part_plan_layout to the writer of the format, then adds the files of the input. */
ckpt_status part_plan_new(ckpt_plan *p, const ckpt_write_options *opts, struct part_plan **out,
                          ckpt_error *err);
struct output_layout *part_plan_layout(struct part_plan *plan);
/* part_plan_add_input - adds a file of the input to PLAN, a struct part_plan; all processes add the same
 * ones in the same order. */
ckpt_status part_plan_add_input(void *plan, const struct stat *st, ckpt_error *err);
/* part_plan_write - writes the part, unless `dry_run` is set, and describes it in RESULT. */
ckpt_status part_plan_write(struct part_plan *plan, ckpt_write_result *result, ckpt_error *err);
/* part_works_refuse - refuses to write all of the output PATH at once if parts of it were begun. */
ckpt_status part_works_refuse(const char *path, arena *a, ckpt_error *err);
/* part_folder_has - returns true if PATH is a folder in which parts write, or in one. */
bool part_folder_has(const char *path);
void part_plan_free(struct part_plan *plan); /* NULL is allowed */
