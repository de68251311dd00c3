/* extract.c - see extract.h. */
#include "extract.h"

#include <string.h>

#include "progress.h"

struct extracting extracting;

/* The two models. */
struct models {
    const char *base_path, *tuned_path;
    ckpt_file *base, *tuned;
    ckpt_plan *base_plan, *tuned_plan;
};

/* ------------------------------------------------------------------------------- options */

const char *extract_option_given(void)
{
    return extracting.rank             ? "rank"
           : extracting.cast           ? "cast"
           : extracting.others         ? "others"
           : extracting.fan_in_fan_out ? "fan-in-fan-out"
           : extracting.embeddings.n   ? "embedding"
                                       : NULL;
}

/* unusable_option - returns the name of a given option that is only for merging, or NULL. */
static const char *unusable_option(void)
{
    return writing.format      ? "to"
           : writing.ties      ? "ties"
           : writing.max_shard ? "max-shard-size"
           : writing.part      ? "part"
                               : NULL;
}

/* parse_dtype - sets *OUT to the dtype of --cast. */
static bool parse_dtype(uint32_t *out)
{
    static const char *const names[] = {"float32", "float16", "bfloat16", "float64"};
    *out = extracting.cast ? ckpt_dtype_parse((ckpt_str){extracting.cast, strlen(extracting.cast)})
                           : CKPT_DT_F32;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(ckpt_dtype_name((ckpt_dtype)*out), names[i]) == 0)
            return true;
    opt_bad_value("cast", extracting.cast, "float32, float16, bfloat16 or float64");
    return false;
}

static int check_options(int count)
{
    if (count != 2)
        return usage_error("lora", "--extract takes two models, a base and one that was made from it");
    if (!extracting.rank || extracting.rank > UINT32_MAX)
        return usage_error("lora", "--extract needs --rank N, from 1 on");
    if (unusable_option())
        return usage_error("lora", "--%s is not for --extract", unusable_option());
    if (!writing.dry_run && (!writing.output || !*writing.output))
        return usage_error("lora", "no output given: use -o FOLDER; --dry-run writes nothing");
    return EXIT_OK;
}

/* -------------------------------------------------------------------------------- report */

static const char *kind_word(uint32_t kind)
{
    static const char *const words[] = {[CKPT_EXTRACTED_PAIR] = "pair",
                                        [CKPT_EXTRACTED_BIAS] = "bias",
                                        [CKPT_EXTRACTED_SAVED] = "saved",
                                        [CKPT_EXTRACTED_TIED] = "tied",
                                        [CKPT_EXTRACTED_NONE] = "dropped"};
    return kind < sizeof words / sizeof *words ? words[kind] : "other";
}

/* report_reasons - prints why tensors cannot be extracted: on a terminal, of the first ones. */
static void report_reasons(const ckpt_extraction *extraction, const char *path)
{
    enum { MAX_SHOWN = 20 };
    const ckpt_extracted *tensor;
    size_t n = 0;
    for (size_t i = 0; (tensor = ckpt_extracted_at(extraction, i)); i++)
        if (tensor->kind == CKPT_EXTRACTED_NONE && (n++ < MAX_SHOWN || !ui.err_tty))
            report_failure(CKPT_ELOSSY, path, NULL, "%s: %s", escape_name(tensor->name), tensor->why);
    if (n > MAX_SHOWN && ui.err_tty)
        report_failure(CKPT_ELOSSY, NULL, NULL, "and %zu more tensors; redirect this to see all",
                       n - MAX_SHOWN);
}

/* has_reason - returns true if TENSOR is not what was wanted. */
static bool has_reason(const ckpt_extracted *tensor)
{
    return tensor->why && (tensor->kind == CKPT_EXTRACTED_SAVED || tensor->kind == CKPT_EXTRACTED_NONE);
}

/* print_tensor - prints a line for TENSOR, which differs. */
static void print_tensor(FILE *out, const ckpt_extracted *tensor)
{
    struct text line = {0};
    text_add(&line, "  ");
    text_name(&line, tensor->name);
    if (tensor->kind == CKPT_EXTRACTED_PAIR && !tensor->rank)
        text_add(&line, "   rank 0: only the bias differs");
    else if (tensor->kind == CKPT_EXTRACTED_PAIR)
        text_addf(&line, "   %srank %llu, keeps %.6g %% of the difference",
                  tensor->is_embedding ? "embedding, " : "", (unsigned long long)tensor->rank,
                  100 * tensor->kept);
    else
        text_addf(&line, "   %s%s%s", kind_word(tensor->kind), has_reason(tensor) ? ": " : "",
                  has_reason(tensor) ? tensor->why : "");
    print_text(out, "%s\n", line.ptr);
    text_free(&line);
}

/* print_report - prints what became of each tensor and, unless RESULT is NULL, what was written. */
static void print_report(const ckpt_extraction *extraction, const ckpt_write_result *result)
{
    const ckpt_extracted *tensor;
    struct text line = {0};
    for (size_t i = 0; (tensor = ckpt_extracted_at(extraction, i)); i++)
        print_tensor(stdout, tensor);
    if (result) {
        text_add(&line, writing.dry_run ? "would write " : "");
        text_name(&line, (ckpt_str){writing.output, strlen(writing.output)});
        text_addf(&line, "   %s, %s", show_noun(result->tensors, "tensor", "tensors"),
                  show_size(result->bytes));
    } else {
        text_add(&line, "nothing written");
    }
    text_addf(&line, "; %s", show_noun(ckpt_extraction_unchanged(extraction), "tensor is", "tensors are"));
    text_add(&line, " the same in both models");
    print_text(stdout, "%s\n", line.ptr);
    text_free(&line);
}

static void add_tensor_json(json *list, const ckpt_extracted *tensor)
{
    json *item = json_add_object(list, NULL);
    json_str(item, "name", tensor->name);
    json_text(item, "kind", kind_word(tensor->kind));
    if (tensor->kind != CKPT_EXTRACTED_PAIR) {
        if (has_reason(tensor))
            json_text(item, "why", tensor->why);
        return;
    }
    json_bool(item, "embedding", tensor->is_embedding);
    json_u64(item, "rank", tensor->rank);
    json_real(item, "norm", tensor->norm);
    json_real(item, "kept", tensor->kept);
}

static void print_json(const struct models *models, const ckpt_extraction *extraction,
                       const ckpt_write_result *result)
{
    const ckpt_extracted *tensor;
    json *document = json_schema("ckpt.extract.v1");
    json_text(document, "base", models->base_path);
    json_text(document, "tuned", models->tuned_path);
    json *list = json_add_array(document, "output");
    for (size_t i = 0; result && i < result->noutputs; i++)
        json_text(list, NULL, result->outputs[i]);
    if (writing.dry_run)
        json_bool(document, "dry_run", true);
    if (result) {
        json_u64(json_add_object(document, "total"), "tensors", result->tensors);
        json_u64(document, "bytes", result->bytes);
    }
    list = json_add_array(document, "tensors");
    for (size_t i = 0; (tensor = ckpt_extracted_at(extraction, i)); i++)
        add_tensor_json(list, tensor);
    json_u64(document, "unchanged", ckpt_extraction_unchanged(extraction));
    json_line(document, stdout);
}

/* --------------------------------------------------------------------------------- steps */

static ckpt_status write_adapter(ckpt_extraction *extraction, ckpt_write_result *result, ckpt_error *err)
{
    ckpt_write_options o = edit_write_options();
    o.threads = ui_jobs();
    o.progress = progress_step;
    progress_begin("writing");
    ckpt_status st = ckpt_extraction_write(extraction, writing.output, &o, result, err);
    progress_wipe();
    return st;
}

static int finish(const struct models *models, ckpt_extraction *extraction)
{
    ckpt_write_result result = CKPT_INIT(ckpt_write_result);
    ckpt_error err;
    ckpt_status st = writing.output ? write_adapter(extraction, &result, &err) : CKPT_OK;
    print_plan_notices(models->base_plan, models->base_path);
    print_plan_notices(models->tuned_plan, models->tuned_path);
    print_plan_notices(ckpt_extraction_plan(extraction), writing.output);
    if (st != CKPT_OK)
        return report_error(&err, writing.output);
    const ckpt_write_result *written = writing.output ? &result : NULL;
    if (ui.json)
        print_json(models, extraction, written);
    else if (!ui.quiet)
        print_report(extraction, written);
    return EXIT_OK;
}

static int extract(const struct models *models, const struct list *only, uint32_t dtype)
{
    ckpt_extraction *extraction = NULL;
    ckpt_error err;
    const ckpt_extract_options o = {.struct_size = sizeof o,
                                    .rank = (uint32_t)extracting.rank,
                                    .dtype = dtype,
                                    .others = (uint32_t)extracting.others,
                                    .fan_in_fan_out = extracting.fan_in_fan_out,
                                    .threads = ui_jobs(),
                                    .only = only->items,
                                    .nonly = only->n,
                                    .embeddings = extracting.embeddings.items,
                                    .nembeddings = extracting.embeddings.n,
                                    .progress = progress_step};
    ckpt_status st = writing.root ? CKPT_OK : ckpt_plan_root(models->base_plan, "auto", &err);
    if (st == CKPT_OK && !writing.root)
        st = ckpt_plan_root(models->tuned_plan, "auto", &err);
    progress_begin("extracting");
    if (st == CKPT_OK)
        st = ckpt_extract_lora(models->base_plan, models->tuned_plan, &o, &extraction, &err);
    progress_wipe();
    if (extraction && st != CKPT_OK)
        report_reasons(extraction, models->tuned_path);
    int status = st == CKPT_OK ? finish(models, extraction) : report_error(&err, models->tuned_path);
    ckpt_extraction_free(extraction);
    return status;
}

int extract_adapter(int count, char **models, const struct list *only)
{
    uint32_t dtype;
    if (check_options(count) != EXIT_OK || !parse_dtype(&dtype))
        return EXIT_TROUBLE;
    struct models m = {.base_path = models[0], .tuned_path = models[1]};
    if (!edit_open_plan(m.base_path, writing.root, &m.base, &m.base_plan))
        return EXIT_TROUBLE;
    int status = EXIT_TROUBLE;
    if (edit_open_plan(m.tuned_path, writing.root, &m.tuned, &m.tuned_plan)) {
        status = extract(&m, only, dtype);
        ckpt_plan_free(m.tuned_plan);
        close_input(m.tuned);
    }
    ckpt_plan_free(m.base_plan);
    close_input(m.base);
    return status;
}
