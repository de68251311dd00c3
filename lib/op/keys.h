/* keys.h - the engine under rename.c: gathers every key that names a parameter,
 * asks for its new name, refuses collisions, and only then edits the plan. */
#ifndef OP_KEYS_H
#define OP_KEYS_H

#include "core/plan.h"
#include "op/walk.h"

/* One key: of a state dict, of name-keyed optimizer state, or a name in a
 * param_groups list. */
struct slot {
    ckpt_str now, then;
    uint32_t domain; /* slots of one domain, which is one container, may not share a name */
    uint32_t index;  /* of its entry there */
    bool drop;  /* _metadata only: overwritten by another entry */
    bool fixed; /* names no parameter: keeps its name, and nothing else may get it */
    bool value; /* its entry holds no tensor, or it is in a list of names */
};

/* The names of one model: a state dict, or one optimizer's. */
struct group {
    ckpt_str where; /* joined name of the mapping, or of the optimizer */
    uint32_t place; /* in the walk */
    bool optimizer, averaged;
    struct slot *slots;
    size_t n, cap;
    struct slot *meta; /* entries of _metadata: module paths */
    size_t nmeta, cap_meta;
};

/* A way to rename. */
struct naming {
    ckpt_plan *p;
    /* key - the new name of S in *OUT (S itself mostly). */
    ckpt_status (*key)(struct naming *n, ckpt_str s, ckpt_str *out, ckpt_error *err);
    /* begin - looks at a group before its keys are asked for; may be NULL. */
    ckpt_status (*begin)(struct naming *n, const struct group *g, ckpt_error *err);
    /* end - looks at a group whose new names are known; may be NULL. */
    void (*end)(struct naming *n, const struct group *g);
    bool modules_follow; /* module paths go where their keys went, instead of through key() */
    bool root_module;    /* key() also names the root module, whose path is "" */
    ckpt_str stripped;   /* what key() takes off, if it does just that; modules on the way to it go, too */
    bool dry;            /* only ask */
    size_t changed;      /* out: keys renamed, _metadata included */
    void *user;
};

/* keys_rename - renames through N; on failure the plan is unchanged. */
ckpt_status keys_rename(struct naming *n, ckpt_error *err);
/* follow_modules - fills META's new names from where the keys went: a.b.w ->
 * x.b.w moves a.b to x.b, a to x, and with them what has no keys of its own. */
ckpt_status follow_modules(arena *a, struct group *g, ckpt_error *err);
/* keys_join - A and B as one text, in the arena of the plan. */
ckpt_str keys_join(arena *a, ckpt_str x, ckpt_str y);

#endif
