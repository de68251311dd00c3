/* edit.h - `ckpt edit`: applies rules (op/rules.h) to the tensors of a plan, one after the other. Nothing is
 * computed before it is written: a tensor becomes a source of views and pieces of others (core/pieces.h). */
#pragma once

#include "op/name_pattern.h"
#include "op/row_change.h"
#include "op/rules.h"

#define EDIT_MAX_DIMS 62u /* core/pieces.h takes one more */

/* A tensor that a rule is about, and what the pattern matched in its name. There may be 100,000. */
struct edit_operand {
    ckpt_str name;
    uint32_t row;
    uint32_t mapping_len; /* of its mapping's name, with the dot, in NAME; UINT32_MAX: it is in no mapping */
    struct name_match match; /* in EDITOR->matches */
};

struct edit_operands {
    struct edit_operand *list; /* freed by free() */
    size_t nlist, cap_list;
};

/* One application of a rule: the tensors ROWS become others, the first of them the first result. */
struct edit_step {
    const struct edit_operand *first; /* the tensor that the pattern matched, which is ROWS[0] */
    const uint32_t *rows;
    size_t nrows;
};

/* The files that rules are about besides the one of the plan. */
struct edit_files {
    /* open - opens the file PATH as *OUT, which the file of P then owns. */
    ckpt_status (*open)(ckpt_plan *p, const char *path, ckpt_file **out, ckpt_error *err);
    /* find_config - as in op/rule_params.h; USER is the plan. */
    ckpt_status (*find_config)(void *user, struct model_config *out, ckpt_error *err);
};

struct editor {
    ckpt_plan *p;
    arena *a;       /* of the file, because its rows refer to what is made */
    arena *scratch; /* of the plan, for what only the rules need */
    const struct rule *rule;
    struct name_pattern *pattern;  /* of this rule, or of the one that it continues */
    struct name_template *targets; /* as many as the rule has */
    map *row_of;                   /* name -> row, before this rule; NULL if the rule looks for none */
    ckpt_str *name_of;             /* row -> name, before this rule; .ptr NULL: left out; freed by free() */
    size_t nnames;                 /* room in NAME_OF */
    map *taken;                    /* names of containers and values, which no tensor can get; or NULL */
    uint32_t tied_to;              /* the tensor that share_with_tie shares */
    const void *job;               /* what the verb needs besides the step: see op/edit_set.c */
    bool made_nothing;             /* the rule before was optional, and matched nothing */
    uint32_t napplied;             /* how often the rule was applied so far */
    uint32_t nvalues;              /* that are not tensors, and that the rule has set so far */
    struct edit_operands operands; /* the tensors that the rule is about */
    struct edit_operands made;     /* what it has made so far */
    arena *matches;                /* what the variables of the pattern matched in the names of both */
    const struct edit_files *files;
    ckpt_file **shards; /* the further files, which have the same names */
    size_t nshards, cap_shards;
    bool *is_joined; /* by row of the plan's file: a rule has joined it with those of the shards */
    size_t nrows;    /* of the plan's file, before the first rule */
};

/* edit_rules - applies the rules in TEXT to P, and notes in P what each did. */
ckpt_status edit_rules(ckpt_plan *p, ckpt_str text, const ckpt_edit_options *opts,
                       const struct edit_files *files, ckpt_error *err);

struct edit_shape {
    uint32_t ndim;
    uint64_t size[EDIT_MAX_DIMS];
};

/* edit_transpose … - apply a verb to STEP, and add what it makes to EDITOR->made. */
typedef ckpt_status edit_verb(struct editor *editor, const struct edit_step *step, ckpt_error *err);
edit_verb edit_transpose, edit_permute, edit_reshape, edit_unflatten, edit_flatten, edit_slice, edit_pad,
    edit_split, edit_concat, edit_stack, edit_unstack, edit_untie, edit_fill;

/* edit_join - applies `join` to STEP: joins its tensor with those of the same name in the shards. */
edit_verb edit_join;
/* edit_open_shards - opens the COUNT files PATHS as the shards of EDITOR. CKPT_EUSAGE: one of them has a name
 * that the plan's file lacks, or lacks one. */
ckpt_status edit_open_shards(struct editor *editor, const char *const *paths, size_t count, ckpt_error *err);
/* edit_check_joined - fails if there are shards, and a tensor of EDITOR's plan was not joined with theirs. */
ckpt_status edit_check_joined(const struct editor *editor, ckpt_error *err);
/* edit_concat_files - makes ROW itself and tensor ROWS[I] of each of the COUNT FILES, along dimension DIM. */
ckpt_status edit_concat_files(struct editor *editor, const struct edit_step *step, ckpt_file *const *files,
                              const uint32_t *rows, size_t count, ckpt_error *err);

/* edit_find_scales - finds the quantized weights of EDITOR's file, if one of RULES could move them, and no
 * rules were applied before. */
ckpt_status edit_find_scales(struct editor *editor, const struct rules *rules, ckpt_error *err);
/* edit_note_moved - notes that the rule has moved the elements of STEP's tensors. */
void edit_note_moved(struct editor *editor, const struct edit_step *step);
/* edit_check_scales - fails if rules have moved a quantized weight of P, but not what belongs to it, as its
 * scales. */
ckpt_status edit_check_scales(const ckpt_plan *p, ckpt_error *err);

/* edit_tie, edit_set - apply the rule, which brings tensors of other names or files to names, or sets
 * values. */
ckpt_status edit_tie(struct editor *editor, ckpt_error *err);
ckpt_status edit_set(struct editor *editor, ckpt_error *err);
/* edit_cast - casts the SELECTED operands, an array by tensor, which it changes. */
ckpt_status edit_cast(struct editor *editor, bool *selected, ckpt_error *err);
/* edit_replace_values - sets the values that are not tensors and that EDITOR->pattern matches to that of the
 * rule. CKPT_EUSAGE: one is a container, or in an object that has several names. */
ckpt_status edit_replace_values(struct editor *editor, ckpt_error *err);
/* edit_index_taken - makes EDITOR->taken. */
ckpt_status edit_index_taken(struct editor *editor, ckpt_error *err);
/* edit_add_value - adds the value of the rule to the dict in which its name is. CKPT_EUSAGE: there is
 * none. */
ckpt_status edit_add_value(struct editor *editor, ckpt_error *err);

/* edit_select - adds the tensors that EDITOR->pattern matches to the operands. */
ckpt_status edit_select(struct editor *editor, ckpt_error *err);
/* edit_each - applies VERB to each operand. Tensors that are tied stay tied, if each becomes one tensor. */
ckpt_status edit_each(struct editor *editor, edit_verb *verb, ckpt_error *err);
/* edit_is_pattern - returns true if PATTERN may match several names. */
bool edit_is_pattern(const struct name_pattern *pattern);
/* edit_apply - applies VERB to STEP, and adds its tensors, before and after, to the report. */
ckpt_status edit_apply(struct editor *editor, edit_verb *verb, const struct edit_step *step, ckpt_error *err);
/* edit_note_made - adds ROW, called NAME, which STEP has made, to EDITOR->made. */
ckpt_status edit_note_made(struct editor *editor, const struct edit_step *step, uint32_t row, ckpt_str name,
                           ckpt_error *err);
/* edit_finish - gives ROW, which STEP has made, the name that target INDEX of the rule makes, with EXTRA for
 * the name in braces that the pattern lacks; no target: its name stays. Adds it to EDITOR->made. */
ckpt_status edit_finish(struct editor *editor, const struct edit_step *step, size_t index, ckpt_str extra,
                        uint32_t row, ckpt_error *err);
/* edit_add - adds a tensor for target INDEX as row *ROW. It shares the elements of STEP's first one; the verb
 * gives it its own. */
ckpt_status edit_add(struct editor *editor, const struct edit_step *step, size_t index, ckpt_str extra,
                     uint32_t *row, ckpt_error *err);
/* edit_forget_operands - empties EDITOR->operands and EDITOR->made, which may be one list. */
void edit_forget_operands(struct editor *editor);
/* edit_index_names - makes EDITOR->row_of; CKPT_EEXIST: two tensors have one name. */
ckpt_status edit_index_names(struct editor *editor, ckpt_error *err);
/* edit_compile_templates - makes *OUT, COUNT templates of NAMES for matches of EDITOR->pattern. */
ckpt_status edit_compile_templates(struct editor *editor, const struct rule_name *names, size_t count,
                                   struct name_template **out, ckpt_error *err);
/* edit_make_key - sets *OUT to the key that NAME is in the mapping of OPERAND. */
ckpt_status edit_make_key(struct editor *editor, const struct edit_operand *operand, ckpt_str name,
                          ckpt_str *out, ckpt_error *err);
/* edit_name - returns the name that ROW has before this rule or, if it is new, that of the table. */
ckpt_str edit_name(const struct editor *editor, uint32_t row);
/* edit_fail - fails as fail() does with CKPT_EUSAGE, at the rule, because of tensor ROW, whose name and shape
 * come first. */
ckpt_status edit_fail(const struct editor *editor, uint32_t row, ckpt_error *err, const char *fmt, ...)
    CKPT_PRINTF(4, 5);
