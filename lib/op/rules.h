/* rules.h - parses the rules of `ckpt edit`, of which man/ckpt-rules.5 has the grammar:
 *
 *   line  = [ rule { ";" rule } ] [ "#" comment ]       a "\" at its end continues it on the next line
 *   rule  = "param" NAME "=" term { "|" term }
 *   term  = value [ ( "*" | "/" ) value ] [ "if" KEY ]  a value is a KEY, a number or $NAME
 *   rule  = VERB [ "?" ] [ name { "," name } ] { argument } [ "->" name { "," name } ]
 *
 * A rule after ";" without a name is about the tensors that the one before it made. A name is a word, or any
 * text in quotes. op/rule_verbs.def lists the verbs and which arguments each takes. */
#pragma once

#include "op/rule_params.h"

#define RULES_TEXT_MAX (UINT64_C(16) << 20) /* bytes of a file with rules */

enum rule_verb {
#define RULE_VERB(id, word, form, operands, targets, required, allowed) RULE_##id,
#include "op/rule_verbs.def"
#undef RULE_VERB
    RULE_VERBS
};

enum rule_argument {
    ARGUMENT_DIM = 1,           /* dim N */
    ARGUMENT_DIMS = 2,          /* dims N N */
    ARGUMENT_SIZES = 4,         /* sizes N N … */
    ARGUMENT_NUMBERS = 8,       /* N N … */
    ARGUMENT_BRACKET = 16,      /* [ … ]: a shape, or slices */
    ARGUMENT_TO = 32,           /* to N */
    ARGUMENT_WITH = 64,         /* with WORD */
    ARGUMENT_WORD = 128,        /* WORD */
    ARGUMENT_REPLACEMENT = 256, /* EXPRESSION => [ TEXT ] */
    ARGUMENT_VALUE = 512        /* = VALUE, or = FILE:NAME */
};

struct rule_name {
    ckpt_str text;
    struct rule_place place;
};

/* What is between the brackets of `slice` for one dimension, as in Python. */
struct rule_slice {
    int64_t start, stop, step; /* STOP is not used by an index */
    bool has_start, has_stop, is_index, is_ellipsis;
};

/* What `=` is followed by. */
enum rule_value_kind {
    RULE_VALUE_FILE, /* a tensor of a file */
    RULE_VALUE_TEXT,
    RULE_VALUE_NONE,
    RULE_VALUE_BOOL,
    RULE_VALUE_INT,
    RULE_VALUE_FLOAT
};

struct rule_value {
    enum rule_value_kind kind;
    struct rule_name text; /* as it was written, without quotes; the number of a parameter */
    ckpt_str member;       /* FILE: the name of the tensor; .ptr NULL: TEXT may have it after a colon */
    bool is_true;          /* BOOL */
    double number;         /* FLOAT */
};

struct rule {
    enum rule_verb verb;
    bool is_optional; /* it may match nothing */
    bool continues;   /* it is about what the rule before it made */
    struct rule_place place;
    ckpt_str text; /* the rule as it was written */
    struct rule_name *names, *targets;
    size_t nnames, cap_names, ntargets, cap_targets;
    uint32_t given; /* its arguments, as bits of enum rule_argument */
    int64_t dim, to;
    int64_t *numbers; /* of `dims`, `sizes`, or without a word */
    size_t nnumbers, cap_numbers;
    struct rule_slice *slices; /* of the bracket; of a shape, indexes */
    size_t nslices, cap_slices;
    struct rule_name word; /* of `with`, or without one */
    struct rule_value value;
    ckpt_str replacement; /* "EXPRESSION=>TEXT" */
};

struct rules {
    struct rule *rules;
    size_t nrules, cap_rules;
};

/* rules_parse - parses TEXT, which outlives *OUT; arrays are in A. Adds the parameters that it defines to
 * PARAMS. CKPT_EUSAGE: it is malformed, or a parameter is not known; the error has the line and column. */
ckpt_status rules_parse(ckpt_str text, struct rule_params *params, arena *a, struct rules *out,
                        ckpt_error *err);
const char *rule_verb_name(enum rule_verb verb);
