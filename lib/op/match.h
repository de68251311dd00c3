/* match.h - `ckpt match`: which tensors a model would miss in a checkpoint, and the rules of ckpt-rules(5)
 * that would mend it.
 *
 * Names are compared in groups: those that differ only in components that are numbers, such as the weights
 * of one kind in all layers. In the text of a group each such component is "0". A rule is about groups;
 * there are few of them in a model, however many tensors it has. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map.h"
#include "core/plan.h"
#include "op/root.h"

#define MATCH_NONE        UINT32_MAX
#define MATCH_INDEXES     8u                  /* components that are numbers; more are text */
#define MATCH_MAX_RULES   64u                 /* certain renames; and how many numbers are moved by one */
#define MATCH_MAX_PAIRS   (UINT64_C(1) << 22) /* pairs of groups whose names are compared */
#define MATCH_MAX_GUESSES 64u                 /* replacements that become comments */
#define MATCH_MAX_LAYOUT  256u                /* rules; then no more are searched for */

struct match_tensor {
    ckpt_str name;
    const uint64_t *shape;
    uint32_t ndim;
    bool has_shape;
    bool can_move; /* rules may change its elements */
    uint32_t row;  /* of the file; of the other one, MATCH_NONE: it is known from the checkpoint alone */
    uint32_t group;
    uint64_t index[MATCH_INDEXES]; /* the components that are numbers */
};

struct match_group {
    ckpt_str text;                /* of the checkpoint: as the rules so far make it */
    struct match_tensor *tensors; /* sorted by index */
    size_t ntensors;
    uint32_t nindex;
    uint32_t partner; /* the group of the other side with this text, or MATCH_NONE */
    bool has_shapes;  /* of all tensors */
    bool is_plain;    /* its text can be written in a rule */
    bool is_used;     /* a rule about elements, or a guess, explains it */
    bool is_doubtful; /* it is not wanted, but may be what is missing */
    uint64_t places;  /* digest of the indexes, counted from the lowest of each component */
    uint64_t shapes;  /* digest of the shapes; SIZES is the same for transposed ones */
    uint64_t sizes;
};

struct match_side {
    struct match_tensor *tensors;
    size_t ntensors, cap_tensors;
    struct match_group *groups;
    size_t ngroups, cap_groups;
    map *group_of; /* text -> group */
};

struct ckpt_match {
    arena *a;
    ckpt_plan *p; /* of the file, at its root */
    struct root root;
    ckpt_str root_name; /* as ckpt_plan_root got it; .ptr NULL: all of the file */
    struct match_side wanted, have;
    ckpt_match_rule *rules;
    size_t nrules, cap_rules;
    uint64_t npairs;    /* compared so far */
    bool is_cut;        /* not all possibilities were tried */
    bool is_incomplete; /* more may be wanted than is known */
    ckpt_match_item *items;
    size_t nitems, cap_items;
    ckpt_match_counts before, after;
    bool is_applied;
};

/* How the shapes of two groups compare, tensor by tensor; of tensors with the same indexes only or, if all
 * numbers are moved by one amount, of those that correspond. */
struct match_shapes {
    uint64_t common, equal, transposed, resized, squeezed, other, unknown;
    bool is_moved; /* the numbers differ by an amount */
};

/* match_pair_groups - sets the partner of each group by the texts that they have now. */
ckpt_status match_pair_groups(ckpt_match *match, ckpt_error *err);
/* match_compare_shapes - compares two groups with the same number of indexes. */
struct match_shapes match_compare_shapes(const struct match_group *have, const struct match_group *wanted);
/* match_fits - returns true if neither a shape nor the numbers contradict that HAVE becomes WANTED: if not
 * all numbers are in both, the lowest is. */
bool match_fits(const struct match_group *have, const struct match_group *wanted);

/* match_spend - counts work for NPAIRS pairs of groups. Returns false, from then on, if that is too much. */
bool match_spend(ckpt_match *match, uint64_t npairs);
/* match_add_rule - adds a rule. The texts are in the arena of MATCH. */
ckpt_status match_add_rule(ckpt_match *match, const ckpt_match_rule *rule, ckpt_error *err);
/* match_join_rules - sets *OUT to the certain rules, as a text. */
ckpt_status match_join_rules(const ckpt_match *match, ckpt_str *out, ckpt_error *err);
/* match_put_word - adds TEXT to OUT as one word of a rule, quoted if it needs that. */
void match_put_word(buf *out, ckpt_str text);
/* match_can_be_word - returns true if match_put_word can write TEXT. */
bool match_can_be_word(ckpt_str text);

/* match_are_same_words - returns true if the last components of FROM and TO mean the same by
 * match_words.def. */
bool match_are_same_words(ckpt_str from, ckpt_str to);

/* match_find_renames - finds the rules that rename, and applies them to the groups of MATCH. */
ckpt_status match_find_renames(ckpt_match *match, ckpt_error *err);
/* match_find_guesses - adds what could be renamed as comments. */
ckpt_status match_find_guesses(ckpt_match *match, ckpt_error *err);
/* match_find_layout - finds the rules that change elements. */
ckpt_status match_find_layout(ckpt_match *match, ckpt_error *err);
/* match_put_pattern - adds to OUT the pattern of a rule for TEXT, in which the numbers are variables, and
 * ENDING, a pattern. */
void match_put_pattern(buf *out, ckpt_str text, const char *ending);
/* match_find_surplus_layers - finds layers of which nothing is wanted, in lists that both sides have. */
ckpt_status match_find_surplus_layers(ckpt_match *match, ckpt_error *err);
/* match_find_surplus - finds what else can be left out. */
ckpt_status match_find_surplus(ckpt_match *match, ckpt_error *err);
/* match_list_differences - sets *OUT, and the items of MATCH, to how the names of its plan differ from those
 * wanted. */
ckpt_status match_list_differences(ckpt_match *match, ckpt_match_counts *out, ckpt_error *err);
