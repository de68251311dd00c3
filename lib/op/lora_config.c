/* lora_config.c - see lora_config.h. */
#include "op/lora_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/map.h"
#include "base/regexp.h"
#include "codec/json_scan.h"
#include "codec/pickle_text.h"

enum {
    MAX_PATTERNS = 10000,  /* of a config … */
    MAX_EXPRESSIONS = 200, /* … and of these, expressions: each is tried for each module */
    MAX_RANK = 1 << 20
};

enum use { READ, IGNORED, REFUSED };

static const struct key {
    const char *name;
    enum use use;
    const char *kind;
} keys[] = {
#define LORA_KEY(name, use, kind) {name, use, kind},
#include "op/lora_keys.def"
#undef LORA_KEY
};

struct reader {
    json_scan json;
    arena *a;
    struct lora_config *out;
    ckpt_str key;
    size_t nexpressions;
};

/* ------------------------------------------------------------------------------ values */

/* refuse_kind - fails with CKPT_EUNSUPPORTED because the adapter is of KIND. */
static ckpt_status refuse_kind(struct reader *reader, const char *kind)
{
    return fail(reader->json.err, CKPT_EUNSUPPORTED, json_offset(&reader->json, reader->json.event_at),
                "the adapter is {%s} and cannot be merged", kind);
}

static ckpt_status read_bool(struct reader *reader, enum json_event event, bool *out)
{
    *out = event == JSON_TRUE;
    return event == JSON_TRUE || event == JSON_FALSE || event == JSON_NULL
               ? CKPT_OK
               : json_unexpected(&reader->json, event, reader->key.ptr, "true or false");
}

/* read_number - reads a finite number. */
static ckpt_status read_number(struct reader *reader, enum json_event event, double *out)
{
    if (event != JSON_NUMBER)
        return json_unexpected(&reader->json, event, reader->key.ptr, "a number");
    /* each number of JSON is one of Python's floats, so only memory can be lacking */
    CKPT_TRY_ALLOC(pickle_text_float(reader->json.str, out), reader->json.err);
    if (!isfinite(*out))
        return json_fail(&reader->json, "%s is {%.*s}, not {=a finite number}", reader->key.ptr,
                         STR_ARG(reader->json.str));
    return CKPT_OK;
}

static ckpt_status read_rank(struct reader *reader, enum json_event event, double *out)
{
    uint64_t rank;
    if (event != JSON_NUMBER)
        return json_unexpected(&reader->json, event, reader->key.ptr, "a number");
    if (!json_get_uint(&reader->json, &rank) || !rank || rank > MAX_RANK)
        return json_fail(&reader->json, "%s is {%.*s}, not {=1 to %d}", reader->key.ptr,
                         STR_ARG(reader->json.str), MAX_RANK);
    *out = (double)rank;
    return CKPT_OK;
}

/* is_name - returns true if KEY has no characters that mean something else in an expression, but for dots. */
static bool is_name(ckpt_str key)
{
    for (size_t i = 0; i < key.len; i++)
        if (!is_ascii_alnum(key.ptr[i]) && !memchr("._-", key.ptr[i], 3))
            return false;
    return true;
}

/* compile_key - compiles the expression KEY of a pattern. */
static ckpt_status compile_key(struct reader *reader, ckpt_str key, struct regexp **out)
{
    if (memchr(key.ptr, '\0', key.len))
        return json_fail(&reader->json, "a key of %s has a zero byte", reader->key.ptr);
    if (++reader->nexpressions > MAX_EXPRESSIONS)
        return json_fail(&reader->json, "the patterns have {%zu} expressions, {=%d} are allowed",
                         reader->nexpressions, MAX_EXPRESSIONS);
    ckpt_str text = ARENA_CONCAT(reader->a, STR_LIT("^(.*\\.)?("), key, STR_LIT(")$"));
    CKPT_TRY_ALLOC(text.ptr, reader->json.err);
    ckpt_status st = regexp_compile(text.ptr, out, reader->json.err);
    if (st != CKPT_OK)
        error_add_where(reader->json.err, "%s: %.*s", reader->key.ptr, STR_ARG(key));
    return st;
}

/* read_patterns - reads an object of numbers that READ reads. */
static ckpt_status read_patterns(struct reader *reader, enum json_event event, struct lora_patterns *out,
                                 ckpt_status (*read)(struct reader *reader, enum json_event event,
                                                     double *out))
{
    if (event == JSON_NULL)
        return CKPT_OK;
    if (event != JSON_OBJECT)
        return json_unexpected(&reader->json, event, reader->key.ptr, "an object");
    while ((event = json_next(&reader->json)) == JSON_KEY) {
        struct lora_pattern *pattern;
        const ckpt_str key = reader->json.str;
        if (out->nlist >= MAX_PATTERNS)
            return json_fail(&reader->json, "%s has more than {=%d} keys", reader->key.ptr, MAX_PATTERNS);
        pattern = arena_append(reader->a, &out->list, &out->nlist, &out->cap_list, sizeof *pattern);
        CKPT_TRY_ALLOC(pattern, reader->json.err);
        *pattern = (struct lora_pattern){.key = key};
        if (!is_name(key))
            CKPT_TRY(compile_key(reader, key, &pattern->expression));
        CKPT_TRY(read(reader, json_next(&reader->json), &pattern->number));
    }
    return json_check_end(&reader->json, event, JSON_OBJECT_END);
}

static ckpt_status read_names(struct reader *reader, enum json_event event)
{
    if (event == JSON_NULL)
        return CKPT_OK;
    if (event != JSON_ARRAY)
        return json_unexpected(&reader->json, event, reader->key.ptr, "a list of names");
    while ((event = json_next(&reader->json)) == JSON_STRING) {
        const ckpt_str name = reader->json.str;
        CKPT_TRY_ALLOC(ARENA_PUSH(reader->a, reader->out, saved, &name), reader->json.err);
    }
    return json_check_end(&reader->json, event, JSON_ARRAY_END);
}

static ckpt_status read_type(struct reader *reader, enum json_event event)
{
    if (event != JSON_STRING)
        return json_unexpected(&reader->json, event, "peft_type", "text");
    ckpt_str type = arena_str(reader->a, reader->json.str);
    CKPT_TRY_ALLOC(type.ptr, reader->json.err);
    return str_is(type, "LORA") ? CKPT_OK : refuse_kind(reader, type.ptr);
}

static ckpt_status read_bias(struct reader *reader, enum json_event event)
{
    if (event != JSON_STRING)
        return json_unexpected(&reader->json, event, "bias", "text");
    return str_is(reader->json.str, "none") ? CKPT_OK
           : str_is(reader->json.str, "all")
               ? refuse_kind(reader, "LoRA with bias=\"all\"")
               : refuse_kind(reader, "LoRA with biases of its own (bias is not \"none\")");
}

/* read_initialization - refuses an adapter that began with a part of the base model's weights, which peft
 * takes away from them when it loads the adapter. */
static ckpt_status read_initialization(struct reader *reader, enum json_event event)
{
    static const char *const changing[] = {"pissa", "olora", "corda", "lora_ga", "loftq"};
    const ckpt_str name = event == JSON_STRING ? reader->json.str : str_of("", 0);
    if (event != JSON_STRING && event != JSON_TRUE && event != JSON_FALSE && event != JSON_NULL)
        return json_unexpected(&reader->json, event, "init_lora_weights", "text, true or false");
    for (size_t i = 0; i < sizeof changing / sizeof *changing; i++) {
        ckpt_str word = str_c(changing[i]);
        if (name.len < word.len || strncasecmp(name.ptr, word.ptr, word.len) != 0)
            continue;
        (void)refuse_kind(reader, word.ptr);
        error_add_hint(reader->json.err,
                       "it changes the base model too; save_pretrained of peft converts it to LoRA with "
                       "path_initial_model_for_weight_conversion");
        return CKPT_EUNSUPPORTED;
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------- keys */

/* skip_value - skips the value that begins with EVENT; *IS_SET: it is not null, false, 0 or empty. */
static ckpt_status skip_value(struct reader *reader, enum json_event event, bool *is_set)
{
    json_scan *json = &reader->json;
    const unsigned depth = json->depth;
    *is_set = event == JSON_TRUE || (event == JSON_STRING && json->str.len) ||
              (event == JSON_NUMBER && !str_is(json->str, "0"));
    if (event != JSON_OBJECT && event != JSON_ARRAY)
        return event == JSON_ERROR ? json_unexpected(json, event, "a value", "JSON") : CKPT_OK;
    event = json_next(json);
    *is_set = event != JSON_OBJECT_END && event != JSON_ARRAY_END;
    while (event != JSON_ERROR && json->depth >= depth)
        event = json_next(json);
    return event == JSON_ERROR ? json_unexpected(json, event, "a value", "JSON") : CKPT_OK;
}

/* read_value - reads the value of a key that lora_keys.def has as READ. */
static ckpt_status read_value(struct reader *reader, enum json_event event)
{
    struct lora_config *out = reader->out;
    const ckpt_str key = reader->key;
    double rank;
    if (str_is(key, "r")) {
        CKPT_TRY(read_rank(reader, event, &rank));
        out->rank = (uint64_t)rank;
        out->has_rank = true;
        return CKPT_OK;
    }
    if (str_is(key, "lora_alpha")) {
        out->has_alpha = true;
        return read_number(reader, event, &out->alpha);
    }
    return str_is(key, "use_rslora")        ? read_bool(reader, event, &out->use_rslora)
           : str_is(key, "fan_in_fan_out")  ? read_bool(reader, event, &out->fan_in_fan_out)
           : str_is(key, "use_dora")        ? read_bool(reader, event, &out->use_dora)
           : str_is(key, "lora_bias")       ? read_bool(reader, event, &out->lora_bias)
           : str_is(key, "rank_pattern")    ? read_patterns(reader, event, &out->ranks, read_rank)
           : str_is(key, "alpha_pattern")   ? read_patterns(reader, event, &out->alphas, read_number)
           : str_is(key, "modules_to_save") ? read_names(reader, event)
           : str_is(key, "peft_type")       ? read_type(reader, event)
           : str_is(key, "bias")            ? read_bias(reader, event)
                                            : read_initialization(reader, event);
}

static const struct key *find_key(ckpt_str name)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (str_is(name, keys[i].name))
            return &keys[i];
    return NULL;
}

static ckpt_status read_entry(struct reader *reader)
{
    const struct key *key = find_key(reader->key);
    const enum json_event event = json_next(&reader->json);
    bool is_set;
    if (key && key->use == READ)
        return read_value(reader, event);
    CKPT_TRY(skip_value(reader, event, &is_set));
    if (key && key->use == REFUSED && is_set)
        return refuse_kind(reader, key->kind);
    if (!key && is_set && !ARENA_PUSH(reader->a, reader->out, unknown, &reader->key))
        return fail_memory(reader->json.err);
    return CKPT_OK;
}

static ckpt_status read_entries(struct reader *reader, ckpt_str prefix, map *seen)
{
    json_scan *json = &reader->json;
    uint32_t old;
    bool ignored_value;
    CKPT_TRY(json_expect(json, JSON_OBJECT, "the config", "an object"));
    enum json_event event;
    while ((event = json_next(json)) == JSON_KEY) {
        ckpt_str key = json->str;
        CKPT_TRY_ALLOC(map_put(seen, key, 0, &old), json->err);
        if (old != MAP_NONE)
            return json_fail(json, "the key {%.*s} comes twice", STR_ARG(key));
        if (!str_take(&key, prefix)) {
            CKPT_TRY(skip_value(reader, json_next(json), &ignored_value));
            continue;
        }
        reader->key = arena_str(reader->a, key);
        CKPT_TRY_ALLOC(reader->key.ptr, json->err);
        CKPT_TRY(read_entry(reader));
    }
    CKPT_TRY(json_check_end(json, event, JSON_OBJECT_END));
    event = json_next(json);
    return event == JSON_END ? CKPT_OK : json_unexpected(json, event, "the config", "one object");
}

ckpt_status lora_config_read(ckpt_str text, ckpt_str prefix, arena *a, struct lora_config *out,
                             ckpt_error *err)
{
    struct reader reader = {.a = a, .out = out};
    *out = (struct lora_config){.rank = 0};
    map *seen = map_new(64);
    CKPT_TRY_ALLOC(seen, err);
    json_init(&reader.json, text, 0, a, err);
    ckpt_status st = read_entries(&reader, prefix, seen);
    map_free(seen);
    return st;
}

static void free_patterns(struct lora_patterns *patterns)
{
    for (size_t i = 0; i < patterns->nlist; i++)
        regexp_free(patterns->list[i].expression);
}

void lora_config_free(struct lora_config *config)
{
    free_patterns(&config->ranks);
    free_patterns(&config->alphas);
}

/* ------------------------------------------------------------------------------ modules */

/* matches_name - returns true if KEY, in which a dot stands for any character, is MODULE or the end of
 * MODULE after a dot. */
static bool matches_name(ckpt_str key, ckpt_str module)
{
    const size_t before = module.len >= key.len ? module.len - key.len : 0;
    if (module.len < key.len || (before && module.ptr[before - 1] != '.'))
        return false;
    for (size_t i = key.len; COUNT_DOWN(i);)
        if (key.ptr[i] != '.' && key.ptr[i] != module.ptr[before + i])
            return false;
    return true;
}

/* find_pattern - sets *OUT to the first of PATTERNS that matches MODULE, or NULL. */
static ckpt_status find_pattern(const struct lora_patterns *patterns, ckpt_str module,
                                const struct lora_pattern **out, ckpt_error *err)
{
    struct regexp_group groups[REGEXP_GROUPS];
    *out = NULL;
    for (size_t i = 0; i < patterns->nlist; i++) {
        const struct lora_pattern *pattern = &patterns->list[i];
        bool matches = !pattern->expression && matches_name(pattern->key, module);
        if (pattern->expression) {
            regexp_begin(pattern->expression, module);
            CKPT_TRY(regexp_find(pattern->expression, module, 0, groups, err));
            matches = groups[0].start != REGEXP_NO_MATCH;
        }
        if (matches) {
            *out = pattern;
            return CKPT_OK;
        }
    }
    return CKPT_OK;
}

ckpt_status lora_config_find(const struct lora_config *config, ckpt_str module, struct lora_setting *out,
                             ckpt_error *err)
{
    const struct lora_pattern *rank, *alpha;
    CKPT_TRY(find_pattern(&config->ranks, module, &rank, err));
    CKPT_TRY(find_pattern(&config->alphas, module, &alpha, err));
    if ((!rank && !config->has_rank) || (!alpha && !config->has_alpha))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "adapter_config.json has no {=\"%s\"}",
                    !rank && !config->has_rank ? "r" : "lora_alpha");
    out->rank = rank ? (uint64_t)rank->number : config->rank;
    out->alpha = alpha ? alpha->number : config->alpha;
    out->scale = out->alpha / (config->use_rslora ? sqrt((double)out->rank) : (double)out->rank);
    return CKPT_OK;
}

bool lora_config_saves(const struct lora_config *config, ckpt_str module)
{
    for (size_t i = 0; i < config->nsaved; i++)
        for (ckpt_str around = module; around.len;) {
            ckpt_str name = config->saved[i];
            bool ends = str_ends(around, name) &&
                        (around.len == name.len || around.ptr[around.len - name.len - 1] == '.');
            if (name.len && ends)
                return true;
            while (around.len && around.ptr[around.len - 1] != '.')
                around.len--;
            around.len -= around.len != 0;
        }
    return false;
}
