/* edit.h - what the commands that write have in common: open, plan, write, report. */
#pragma once

#include "cmd.h"
#include "json.h"

/* The values of the options below. */
struct writing {
    const char *output, *format, *root, *architecture;
    bool force, strict, dry_run, check, no_sync, ignore_crc, in_place, follow_links, compress;
    bool keep_shards; /* the output is a set with the shards of the input */
    int ties;
    uint64_t max_shard, shards;
    const char *part;            /* --part as given; NULL: none */
    uint32_t part_number, parts; /* set from it by edit_check_part */
    int part_unit;
    struct list keep, drop;
};
extern struct writing writing;

/* clang-format off */
#define OVERWRITE_OPTIONS \
    {'f', "force", NULL, OPT_FLAG, &writing.force, "replace an existing output"}, \
    {'n', "dry-run", NULL, OPT_FLAG, &writing.dry_run, "do everything except write"}, \
    {0, "no-sync", NULL, OPT_FLAG, &writing.no_sync, "do not wait until the data is on the disk"}

#define WRITE_OPTIONS \
    OVERWRITE_OPTIONS, \
    {0, "ignore-crc", NULL, OPT_FLAG, &writing.ignore_crc, "go on despite wrong checksums in the input"}

/* For commands whose output several processes can write. */
#define PART_OPTIONS \
    {0, "part", "i/n", OPT_TEXT, &writing.part, \
     "write only part i of n, from 0; ckpt merge-parts completes the output"}, \
    {0, "part-unit", "range|file", OPT_CHOICE, &writing.part_unit, \
     "what a part has: ranges of bytes (default), or files of a set"}

#define TO_OPTION \
    {0, "to", "FORMAT", OPT_TEXT, &writing.format, "{formats}, whatever OUT is called"}

#define OUTPUT_FORM_OPTIONS \
    {0, "ties", "drop|copy|error", OPT_CHOICE, &writing.ties, \
     "tensors that share bytes, if OUT cannot tie them (default: drop)"}, \
    {0, "max-shard-size", "SIZE", OPT_SIZE, &writing.max_shard, \
     "files of at most SIZE (5GB, 2GiB) and an index"}

#define ROOT_OPTION \
    {0, "root", "PATH", OPT_TEXT, &writing.root, "write only what is at PATH; auto: the weights"}

#define STRICT_OPTION \
    {0, "strict", NULL, OPT_FLAG, &writing.strict, "fail if anything is left out or overflows"}

/* The last options of commands that compute tensors. */
#define COMPUTE_OPTIONS \
    STRICT_OPTION, \
    PART_OPTIONS, \
    WRITE_OPTIONS, \
    UI_WORK_OPTIONS, \
    UI_QUIET_OPTION

#define OUTPUT_OPTION {'o', "output", "OUT", OPT_TEXT, &writing.output, "write to OUT; - is standard output"}

#define SELECT_OPTIONS \
    {0, "keep", "GLOB", OPT_LIST, &writing.keep, "only tensors that match; repeatable"}, \
    {0, "drop", "GLOB", OPT_LIST, &writing.drop, "leave out tensors and containers that match; repeatable"}

#define EDIT_OPTIONS \
    SELECT_OPTIONS, \
    UI_NONE_OPTION, \
    OUTPUT_OPTION, \
    {'i', "in-place", NULL, OPT_FLAG, &writing.in_place, "change the names in FILE itself"}, \
    {0, "follow-links", NULL, OPT_FLAG, &writing.follow_links, "with --in-place: edit a linked file too"}, \
    TO_OPTION, \
    ROOT_OPTION, \
    {0, "check", NULL, OPT_FLAG, &writing.check, "write nothing; exit 1 if something would change"}, \
    {0, "strict", NULL, OPT_FLAG, &writing.strict, "fail if nothing changes or something is left out"}, \
    PART_OPTIONS, \
    WRITE_OPTIONS
/* clang-format on */

/* edit_write_options - returns those options above that ckpt_write_options has, without --to. */
ckpt_write_options edit_write_options(void);
/* edit_open_plan - opens INPUT and makes a plan for the part of it at ROOT (NULL: all). Returns false after
 * printing the error. */
bool edit_open_plan(const char *input, const char *root, ckpt_file **file, ckpt_plan **plan);
/* edit_open_merged_plan - does so for the COUNT INPUTS as one checkpoint. */
bool edit_open_merged_plan(int count, char **inputs, const char *root, ckpt_file **file, ckpt_plan **plan);
/* edit_select - applies --keep and --drop to P. */
ckpt_status edit_select(ckpt_plan *p, ckpt_error *err);
/* edit_check_options - refuses options of CMD that exclude each other, and a missing output. Returns EXIT_OK,
 * or EXIT_TROUBLE after printing a usage error. */
int edit_check_options(const char *cmd, const char *input);
/* edit_check_part - parses --part of CMD, which has one output if IS_ONE. Returns EXIT_OK, or EXIT_TROUBLE
 * after printing a usage error. */
int edit_check_part(const char *cmd, bool is_one);
/* edit_suggest - adds to OUT a command line as opt_command_line() does, with a new output named after the
 * first of the COUNT files if none was given. */
void edit_suggest(struct text *out, const char *word, int count, char *const *files);
/* edit_run - runs CMD (strip, add or rename) on each of the COUNT INPUTS: APPLY edits the plan. PREFIX is
 * named in the report; NULL if the names change in different ways. Returns the exit code. */
int edit_run(const char *cmd, int count, char **inputs, ckpt_status (*apply)(ckpt_plan *p, ckpt_error *err),
             const char *prefix);
/* edit_recover - if an edit of INPUT by --in-place was interrupted, completes or undoes it. Sets *WHAT to
 * what was done. Returns false after printing the error. */
bool edit_recover(const char *input, ckpt_recovered *what);
/* edit_narrow_if_flat - narrows P to the weights if --root is not given and the output holds one mapping of
 * tensors only: a flat format, or a set of shards with an index. */
ckpt_status edit_narrow_if_flat(const ckpt_file *f, ckpt_plan *p, ckpt_error *err);
/* edit_narrows_if_flat - returns true if it narrows a plan of F. */
bool edit_narrows_if_flat(const ckpt_file *f);
/* edit_write - writes P to --output and reports what was dropped, aliased or noticed. The caller sets
 * result->struct_size. Returns EXIT_OK or EXIT_TROUBLE. */
int edit_write(ckpt_plan *p, const char *input, ckpt_write_result *result);
/* edit_print_result - prints what was written: the JSON document SCHEMA, to which ADD adds its own members,
 * or a line of text. RESULT NULL: nothing was. */
void edit_print_result(const char *schema, const char *input, const ckpt_plan *p,
                       const ckpt_write_result *result, void (*add)(const ckpt_plan *p, json *parent));
/* edit_write_planned - writes P, unless there is no --output, and prints what became of it: what REPORT
 * prints, notices, and the result as edit_print_result does. Returns an exit code. */
int edit_write_planned(ckpt_plan *p, const char *input, const char *schema,
                       void (*report)(const ckpt_plan *p), void (*add)(const ckpt_plan *p, json *parent));
/* edit_losses_json - adds the dropped values to PARENT, as "dropped", and the ties, as "aliases". */
void edit_losses_json(const ckpt_plan *p, json *parent);
/* edit_dropped_json - adds the dropped values to LIST. */
void edit_dropped_json(const ckpt_plan *p, json *list);
/* edit_aliases_json - adds the ties to PARENT, as "aliases". */
void edit_aliases_json(const ckpt_plan *p, json *parent);

/* edit_casts_json - adds the casts to PARENT, as "cast". */
void edit_casts_json(const ckpt_plan *p, json *parent);
/* edit_print_overflows - prints a notice for each tensor with values that overflowed in a cast. */
void edit_print_overflows(const ckpt_plan *p, const char *input);

/* renames_print - prints "module. -> (nothing)   161 of 161 tensors, 53 _metadata entries", a line for each
 * kind of change in P. PREFIX: the prefix that P adds or removes; NULL if it changes names otherwise. */
void renames_print(const ckpt_plan *p, const char *prefix, FILE *stream);
