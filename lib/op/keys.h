/* keys.h - renames keys for strip, add and rename: gathers each key that names a parameter, computes its new
 * name, refuses collisions, and only then edits the plan. */
#ifndef OP_KEYS_H
#define OP_KEYS_H

#include "core/plan.h"
#include "op/containers.h"
#include "op/prefix.h"

/* One key: of a state dict, of optimizer state by name, or a name in a list of param_groups. */
struct slot {
    ckpt_str old_name, new_name;
    uint32_t domain;    /* number of its container; two slots of one domain may not get the same name */
    uint32_t index;     /* of its entry in the container */
    bool dropped;       /* only in _metadata: a different entry overwrites it */
    bool keeps_name;    /* it does not name a parameter, and no other key may get its name */
    bool has_no_tensor; /* its entry has no tensor, or it is in a list of names */
};

struct slots {
    struct slot *at;
    size_t n, cap;
};

/* The names of one model: a state dict, or one optimizer's. */
struct group {
    ckpt_str where;         /* joined name of the mapping, or of the optimizer */
    uint32_t container;     /* the index of that container */
    const ckpt_value *node; /* the node of that container */
    bool optimizer, averaged;
    struct slots keys;
    struct slots modules; /* the keys of _metadata, which are the paths of modules */
};

/* A rule by which keys are renamed. */
struct naming {
    ckpt_plan *p;
    /* key - sets *OUT to the new name of S, or to S. */
    ckpt_status (*key)(struct naming *n, ckpt_str s, ckpt_str *out, ckpt_error *err);
    /* begin - is called for a group before its keys are named; may be NULL. */
    ckpt_status (*begin)(struct naming *n, const struct group *g, ckpt_error *err);
    /* end - is called for a group after its keys are named; may be NULL. */
    void (*end)(struct naming *n, const struct group *g);
    bool modules_follow; /* module paths are renamed as their keys were, not by key() */
    bool root_module;    /* key() also names the root module, whose path is "" */
    ckpt_str stripped;   /* the prefix, if key() only removes one; modules inside of it are renamed, too */
    bool dry_run;        /* compute names, change nothing */
    size_t changed;      /* result: number of renamed keys, keys of _metadata included */
    void *user;
};

/* keys_rename - renames all keys by N; after an error the plan is unchanged. */
ckpt_status keys_rename(struct naming *n, ckpt_error *err);
/* rename_module_paths - renames G's module paths as its keys were renamed: if a.b.w became x.b.w, the module
 * a.b becomes x.b and a becomes x, and so do modules below them that have no keys of their own. */
ckpt_status rename_module_paths(arena *a, struct group *g, ckpt_error *err);
/* is_edited_out - returns true if an edit of P leaves out the entry or item AT. */
bool is_edited_out(const ckpt_plan *p, const struct edit_target *at);
/* plan_notice_no_match - adds the notice that no key VERB WHAT ("begins with", "module."), with the prefixes
 * that were SEEN. */
void plan_notice_no_match(ckpt_plan *plan, const char *verb, ckpt_str what, const struct prefixes *seen);
/* concat_texts - returns X followed by Y, in A; .ptr NULL: out of memory. */
ckpt_str concat_texts(arena *a, ckpt_str x, ckpt_str y);

#endif
