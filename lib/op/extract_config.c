/* extract_config.c - the text of peft's adapter_config.json for an adapter that was extracted. The scale is
 * 1, because alpha is the rank. Modules are named completely, because peft compares the ends of names; an
 * expression of rank_pattern begins with "^" for the same reason. */
#include "base/buf.h"
#include "codec/json_scan.h"
#include "op/extract.h"

static bool is_pair(const struct extract_item *item) { return item->report.kind == CKPT_EXTRACTED_PAIR; }

static uint64_t rank_of(const struct extract_item *item) { return item->pair.rank ? item->pair.rank : 1; }

/* largest_rank - returns the rank that the config gives to modules without a rank of their own. */
static uint64_t largest_rank(const struct ckpt_extraction *extraction)
{
    uint64_t largest = 1;
    for (size_t i = 0; i < extraction->nitems; i++)
        if (is_pair(&extraction->items[i]) && rank_of(&extraction->items[i]) > largest)
            largest = rank_of(&extraction->items[i]);
    return largest;
}

/* put_expression - writes the expression that matches NAME only. Allocates from A. */
static ckpt_status put_expression(arena *a, buf *out, ckpt_str name, ckpt_error *err)
{
    size_t used = 0;
    char *text = arena_alloc_text(a, 2 * name.len + 1); /* names are much shorter than the memory */
    CKPT_TRY_ALLOC(text, err);
    text[used++] = '^';
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] && strchr(".^$*+?{}[]()|\\", name.ptr[i]))
            text[used++] = '\\';
        text[used++] = name.ptr[i];
    }
    json_quote_ascii(out, str_of(text, used));
    return CKPT_OK;
}

/* put_pattern - writes the mapping KEY, with the ranks of the pairs that have less than RANK. */
static ckpt_status put_pattern(const struct ckpt_extraction *extraction, const char *key, uint64_t rank,
                               buf *out, ckpt_error *err)
{
    size_t count = 0;
    buf_printf(out, ",\n  \"%s\": {", key);
    for (size_t i = 0; i < extraction->nitems; i++) {
        const struct extract_item *item = &extraction->items[i];
        if (!is_pair(item) || rank_of(item) == rank)
            continue;
        buf_put_cstr(out, count++ ? ",\n    " : "\n    ");
        CKPT_TRY(put_expression(extraction->a, out, item->module, err));
        buf_printf(out, ": %llu", (unsigned long long)rank_of(item));
    }
    buf_put_cstr(out, count ? "\n  }" : "}");
    return CKPT_OK;
}

/* put_name - writes NAME as entry *COUNT of a list. */
static void put_name(buf *out, ckpt_str name, size_t *count)
{
    buf_put_cstr(out, (*count)++ ? ",\n    " : "\n    ");
    json_quote_ascii(out, name);
}

static void put_targets(const struct ckpt_extraction *extraction, buf *out)
{
    size_t count = 0;
    buf_put_cstr(out, ",\n  \"target_modules\": [");
    for (size_t i = 0; i < extraction->nitems; i++)
        if (is_pair(&extraction->items[i]))
            put_name(out, extraction->items[i].module, &count);
    buf_put_cstr(out, "\n  ]");
}

/* put_saved - writes the modules that are saved, but not those in other ones. */
static ckpt_status put_saved(const struct ckpt_extraction *extraction, buf *out, ckpt_error *err)
{
    map *listed = map_new(16);
    size_t count = 0;
    bool ok = listed != NULL;
    buf_put_cstr(out, ",\n  \"modules_to_save\": ");
    for (size_t i = 0; ok && i < extraction->nitems; i++) {
        const struct extract_item *item = &extraction->items[i];
        uint32_t old;
        if (item->report.kind != CKPT_EXTRACTED_SAVED)
            continue;
        const ckpt_str module = extract_saved_module(extraction, item->module);
        ok = map_put(listed, module, 0, &old);
        if (!ok || old != MAP_NONE)
            continue;
        buf_put_cstr(out, count ? "" : "[");
        put_name(out, module, &count);
    }
    buf_put_cstr(out, count ? "\n  ]" : "null");
    map_free(listed);
    return ok ? CKPT_OK : fail_memory(err);
}

static ckpt_status put_config(const struct ckpt_extraction *extraction, buf *out, ckpt_error *err)
{
    const uint64_t rank = largest_rank(extraction);
    const char *fan_in_fan_out = extraction->opts->fan_in_fan_out ? "true" : "false";
    buf_put_cstr(
        out, "{\n  \"peft_type\": \"LORA\",\n  \"base_model_name_or_path\": null,\n  \"task_type\": null,\n"
             "  \"inference_mode\": true,\n  \"init_lora_weights\": true");
    buf_printf(out, ",\n  \"r\": %llu,\n  \"lora_alpha\": %llu", (unsigned long long)rank,
               (unsigned long long)rank);
    buf_put_cstr(out, ",\n  \"lora_dropout\": 0.0,\n  \"use_rslora\": false,\n"
                      "  \"use_dora\": false,\n  \"bias\": \"none\"");
    buf_printf(out, ",\n  \"lora_bias\": %s", extraction->has_biases ? "true" : "false");
    buf_printf(out, ",\n  \"fan_in_fan_out\": %s", fan_in_fan_out);
    CKPT_TRY(put_pattern(extraction, "rank_pattern", rank, out, err));
    CKPT_TRY(put_pattern(extraction, "alpha_pattern", rank, out, err));
    put_targets(extraction, out);
    CKPT_TRY(put_saved(extraction, out, err));
    buf_put_cstr(out, "\n}\n");
    return CKPT_OK;
}

ckpt_status extract_config(struct ckpt_extraction *extraction, ckpt_error *err)
{
    buf text;
    buf_init(&text, SIZE_MAX / 2);
    ckpt_status st = put_config(extraction, &text, err);
    if (st == CKPT_OK && buf_ok(&text))
        extraction->config = arena_str(extraction->a, buf_view(&text));
    if (st == CKPT_OK && !extraction->config.ptr)
        st = fail_memory(err);
    buf_free(&text);
    return st;
}
