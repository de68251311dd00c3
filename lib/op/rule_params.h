/* rule_params.h - the numbers that $NAME stands for in rules: those that the caller gives and, of those that
 * `param` defines, the others: they come from the config.json next to the checkpoint. */
#pragma once

#include "op/config.h"
#include "op/rule_place.h"

struct rule_param {
    ckpt_str name;
    int64_t value;
    ckpt_str key; /* of the config, which has it; empty: the caller gave it, or it is computed */
    bool is_given;
    bool is_defined; /* by `param`; false: a rule has a number that the caller gave */
};

struct rule_params {
    const ckpt_parameter *given;
    size_t ngiven;
    /* find_config - reads the config next to the checkpoint to *OUT; its path stays NULL if there is none. */
    ckpt_status (*find_config)(void *user, struct model_config *out, ckpt_error *err);
    void *user;
    struct model_config config;
    bool has_searched; /* find_config was called */
    struct rule_param *list;
    size_t nlist, cap_list; /* those that `param` has defined so far, and others that rules have */
};

/* One alternative of a `param`: LEFT, or LEFT OPERATOR RIGHT, if the key CONDITION is true. */
struct rule_term {
    ckpt_str left, right; /* a key, a number, or $NAME */
    char operator;        /* '*' or '/'; '\0': there is no RIGHT */
    ckpt_str condition;   /* empty: always */
    struct rule_place place;
};

/* rule_params_find - sets *OUT to the value of the parameter NAME. False: there is none. */
bool rule_params_find(const struct rule_params *params, ckpt_str name, int64_t *out);
/* rule_param_compute - sets PARAM to what TERM is. *FOUND: it is something, because the config has its keys.
 * CKPT_EUSAGE: it is no number of the allowed range. */
ckpt_status rule_param_compute(struct rule_params *params, const struct rule_term *term,
                               struct rule_param *param, bool *found, ckpt_error *err);
