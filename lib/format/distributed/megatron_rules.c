/* megatron_rules.c - finds the rule for a tensor, and reads rules of the user from a JSON file. */
#include "format/distributed/megatron_rules.h"

#include "codec/json_scan.h"
#include "io/source.h"

#define MAX_FILE  (1u << 20)
#define MAX_DIM   64u
#define MAX_PARTS (1u << 20)

static const struct megatron_rule known[] = {
#define CUT(glob, dim)          {{glob, sizeof(glob) - 1}, MEGATRON_CUT, dim, 1},
#define GATED(glob)             {{glob, sizeof(glob) - 1}, MEGATRON_GATED, 0, 2},
#define FUSED(glob, dim, parts) {{glob, sizeof(glob) - 1}, MEGATRON_FUSED, dim, parts},
#define COPIED(glob)            {{glob, sizeof(glob) - 1}, MEGATRON_COPIED, 0, 1},
#include "format/distributed/megatron_rules.def"
#undef CUT
#undef GATED
#undef FUSED
#undef COPIED
};

const struct megatron_rule *megatron_rules_find(const struct megatron_rules *r, ckpt_str name)
{
    for (size_t i = 0; i < r->nuser_rules; i++)
        if (ckpt_glob_match(r->user_rules[i].glob, name))
            return &r->user_rules[i];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (ckpt_glob_match(known[i].glob, name))
            return &known[i];
    return NULL;
}

/* read_number - sets *OUT to the number of event E. Refuses numbers below LEAST or above MOST. */
static ckpt_status read_number(json_scan *j, enum json_event e, uint32_t least, uint32_t most, uint32_t *out)
{
    uint64_t n = 0;
    if (e != JSON_NUMBER)
        return json_unexpected(j, e, "a rule", "a dimension, null or [dimension, parts]");
    if (!json_get_uint(j, &n) || n < least || n > most)
        return json_fail(j, "{%.*s}, {=%u to %u} are possible", STR_ARG(j->str), least, most);
    *out = (uint32_t)n;
    return CKPT_OK;
}

/* read_rule - reads the value of a glob into RULE. A null leaves RULE as it is: MEGATRON_COPIED. */
static ckpt_status read_rule(json_scan *j, struct megatron_rule *rule)
{
    enum json_event e = json_next(j);
    if (e == JSON_NULL)
        return CKPT_OK;
    rule->how = MEGATRON_CUT;
    if (e != JSON_ARRAY)
        return read_number(j, e, 0, MAX_DIM, &rule->dim);
    CKPT_TRY(read_number(j, json_next(j), 0, MAX_DIM, &rule->dim));
    CKPT_TRY(read_number(j, json_next(j), 1, MAX_PARTS, &rule->parts));
    return json_expect(j, JSON_ARRAY_END, "a rule", "[dimension, parts]");
}

static ckpt_status read_rules(arena *a, json_scan *j, struct megatron_rules *r, ckpt_error *err)
{
    enum json_event e;
    CKPT_TRY(json_expect(j, JSON_OBJECT, "the file", "an object of globs"));
    while ((e = json_next(j)) == JSON_KEY) {
        struct megatron_rule rule = {.glob = arena_str(a, j->str), .parts = 1};
        CKPT_TRY(rule.glob.ptr ? read_rule(j, &rule) : fail_memory(err));
        CKPT_TRY_ALLOC(arena_push(a, &r->user_rules, &r->nuser_rules, &r->cap, &rule, sizeof rule), err);
    }
    if (e != JSON_OBJECT_END)
        return json_unexpected(j, e, "the file", "an object of globs");
    return json_expect(j, JSON_END, "what follows", "the end");
}

ckpt_status megatron_rules_read(arena *a, const char *path, struct megatron_rules *r, ckpt_error *err)
{
    ckpt_str text;
    json_scan j;
    *r = (struct megatron_rules){.nuser_rules = 0};
    CKPT_TRY(source_read_whole_file(path, MAX_FILE, a, &text, err));
    json_init(&j, text, 0, a, err);
    return name_file_if_failed(read_rules(a, &j, r, err), path, err);
}
