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

const struct megatron_rule *megatron_rules_find(const struct megatron_rules *rules, ckpt_str name)
{
    for (size_t i = 0; i < rules->nuser_rules; i++)
        if (ckpt_glob_match(rules->user_rules[i].glob, name))
            return &rules->user_rules[i];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (ckpt_glob_match(known[i].glob, name))
            return &known[i];
    return NULL;
}

/* read_number - sets *OUT to the number of event EVENT. Refuses numbers below LEAST or above MOST. */
static ckpt_status read_number(json_scan *scan, enum json_event event, uint32_t least, uint32_t most,
                               uint32_t *out)
{
    uint64_t n = 0;
    if (event != JSON_NUMBER)
        return json_unexpected(scan, event, "a rule", "a dimension, null or [dimension, parts]");
    if (!json_get_uint(scan, &n) || n < least || n > most)
        return json_fail(scan, "{%.*s}, {=%u to %u} are possible", STR_ARG(scan->str), least, most);
    *out = (uint32_t)n;
    return CKPT_OK;
}

/* read_rule - reads the value of a glob into RULE. A null leaves RULE as it is: MEGATRON_COPIED. */
static ckpt_status read_rule(json_scan *scan, struct megatron_rule *rule)
{
    enum json_event e = json_next(scan);
    if (e == JSON_NULL)
        return CKPT_OK;
    rule->how = MEGATRON_CUT;
    if (e != JSON_ARRAY)
        return read_number(scan, e, 0, MAX_DIM, &rule->dim);
    CKPT_TRY(read_number(scan, json_next(scan), 0, MAX_DIM, &rule->dim));
    CKPT_TRY(read_number(scan, json_next(scan), 1, MAX_PARTS, &rule->parts));
    return json_expect(scan, JSON_ARRAY_END, "a rule", "[dimension, parts]");
}

static ckpt_status read_rules(arena *a, json_scan *scan, struct megatron_rules *rules, ckpt_error *err)
{
    enum json_event e;
    CKPT_TRY(json_expect(scan, JSON_OBJECT, "the file", "an object of globs"));
    while ((e = json_next(scan)) == JSON_KEY) {
        struct megatron_rule rule = {.glob = arena_str(a, scan->str), .parts = 1};
        CKPT_TRY(rule.glob.ptr ? read_rule(scan, &rule) : fail_memory(err));
        CKPT_TRY_ALLOC(
            arena_push(a, &rules->user_rules, &rules->nuser_rules, &rules->cap, &rule, sizeof rule), err);
    }
    if (e != JSON_OBJECT_END)
        return json_unexpected(scan, e, "the file", "an object of globs");
    return json_expect(scan, JSON_END, "what follows", "the end");
}

ckpt_status megatron_rules_read(arena *a, const char *path, struct megatron_rules *rules, ckpt_error *err)
{
    ckpt_str text;
    json_scan j;
    *rules = (struct megatron_rules){.nuser_rules = 0};
    CKPT_TRY(source_read_whole_file(path, MAX_FILE, a, &text, err));
    json_init(&j, text, 0, a, err);
    return name_file_if_failed(read_rules(a, &j, rules, err), path, err);
}
