/* keys.h - renames keys for strip, add and rename: gathers each key that names a parameter, computes its new
 * name, refuses collisions, and only then edits the plan. */
#pragma once

#include "core/plan.h"
#include "op/containers.h"
#include "op/prefix.h"

/* A key of a state dict, its _metadata or an optimizer's `state`, or an item of a list in param_groups. */
struct slot {
    ckpt_str old_name, new_name;
    uint32_t domain; /* number of its container; two slots of one domain may not get the same name */
    uint32_t index;  /* of its entry in the container */
    bool dropped;    /* only in _metadata: a different entry overwrites it */
    bool keeps_name; /* it does not name a parameter; no other key may get its name */
    bool has_tensor; /* its value is or contains a tensor; false in a list of names */
};

struct slots {
    struct slot *list;
    size_t n, cap;
};

/* The names in one state dict or in one optimizer. */
struct group {
    ckpt_str where;         /* joined name of the mapping, or of the optimizer */
    uint32_t container;     /* the index of that container */
    const ckpt_value *node; /* the node of that container */
    bool is_optimizer, is_averaged;
    struct slots keys;
    struct slots modules; /* the keys of _metadata, which are the paths of modules */
};

struct rename_rule {
    ckpt_plan *plan;
    /* rename_key - sets *OUT to the new name of KEY, or to KEY. */
    ckpt_status (*rename_key)(struct rename_rule *rule, ckpt_str key, ckpt_str *out, ckpt_error *err);
    /* begin_group - is called before the keys of a group are renamed; may be NULL. */
    ckpt_status (*begin_group)(struct rename_rule *rule, const struct group *g, ckpt_error *err);
    /* end_group - is called after the keys of a group were renamed; may be NULL. */
    void (*end_group)(struct rename_rule *rule, const struct group *g);
    bool modules_follow_keys; /* module paths are renamed as their keys were, not by rename_key() */
    bool renames_root_module; /* rename_key() also renames the root module, whose path is "" */
    ckpt_str stripped_prefix; /* the prefix that rename_key() removes; empty: it does something else */
    bool dry_run;             /* compute names, change nothing */
    size_t nchanged;          /* result: number of renamed keys, keys of _metadata included */
    void *user;
};

/* keys_rename - renames all keys by RULE; after an error the plan has no new names, unless memory ran out. */
ckpt_status keys_rename(struct rename_rule *rule, ckpt_error *err);
/* rename_module_paths - renames GROUP's module paths as its keys were renamed: if a.b.w became x.b.w, the
 * module a.b becomes x.b and a becomes x. Modules below them without keys of their own move with them. */
ckpt_status rename_module_paths(arena *a, struct group *group, ckpt_error *err);
/* is_edited_out - returns true if an edit of P leaves out the entry or item AT. */
bool is_edited_out(const ckpt_plan *p, const struct edit_target *at);
/* plan_no_key_matches - calls plan_no_match with `no key VERB "PATTERN"` and the prefixes in SEEN. VERB:
 * "begins with", "contains" … */
ckpt_status plan_no_key_matches(ckpt_plan *plan, const char *verb, ckpt_str pattern,
                                const struct prefixes *seen, ckpt_error *err);
