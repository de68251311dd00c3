#include <string.h>
#include <unistd.h>

#include "outputs.h"
#include "remote.h"

static struct {
    struct list casts;
    bool dequantize;
} opts;

static const struct opt options[] = {
    {'o', "output", "OUT", OPT_TEXT, &writing.output, "the same as the second operand"},
    TO_OPTION,
    ROOT_OPTION,
    SELECT_OPTIONS,
    UI_NONE_OPTION,
    {0, "cast", "[GLOB=]DTYPE", OPT_LIST, &opts.casts,
     "write floats, or what matches, as f32, bf16, …; repeatable, the last one wins"},
    {0, "dequantize", NULL, OPT_FLAG, &opts.dequantize,
     "write quantized weights as the floats that they stand for"},
    OUTPUT_FORM_OPTIONS,
    {0, "architecture", "NAME", OPT_TEXT, &writing.architecture,
     "general.architecture of a GGUF, if IN has none"},
    {0, "compress", NULL, OPT_FLAG, &writing.compress, "deflate the members of a .npz"},
    {0, "shards", "N", OPT_COUNT, &writing.shards, "N files in the folder of --to=dcp"},
    COMPUTE_OPTIONS,
    {0},
};

const struct cmd cmd_convert = {
    "convert",  "IN OUT | IN… -o OUT", "write a checkpoint in another format", options, 1, NO_LIMIT,
    run_convert};

/* parse_cast_dtype - returns the dtype in TEXT, "GLOB=DTYPE" or "DTYPE"; CKPT_DT_NONE if that is none. */
static ckpt_dtype parse_cast_dtype(const char *text)
{
    const char *equals = strrchr(text, '=');
    return ckpt_dtype_parse(str_c(equals ? equals + 1 : text));
}

static bool check_casts(void)
{
    for (size_t i = 0; i < opts.casts.n; i++) {
        if (parse_cast_dtype(opts.casts.items[i]) != CKPT_DT_NONE)
            continue;
        opt_bad_value("cast", opts.casts.items[i], "DTYPE or GLOB=DTYPE, like bf16 or '*.norm.*=f32'");
        return false;
    }
    return true;
}

static ckpt_status cast_tensors(ckpt_plan *p, ckpt_error *err)
{
    ckpt_status s = CKPT_OK;
    struct text glob = {0};
    for (size_t i = 0; s == CKPT_OK && i < opts.casts.n; i++) {
        const char *equals = strrchr(opts.casts.items[i], '=');
        text_clear(&glob);
        text_bytes(&glob, opts.casts.items[i], equals ? (size_t)(equals - opts.casts.items[i]) : 0);
        text_byte(&glob, 0);
        s = ckpt_plan_cast(p, equals ? glob.ptr : NULL, parse_cast_dtype(opts.casts.items[i]), err);
    }
    text_free(&glob);
    return s;
}

static void dequantized_json(const ckpt_plan *p, json *parent)
{
    json *list = json_add_array(parent, "dequantized");
    const ckpt_dequantized *d;
    for (size_t i = 0; (d = ckpt_plan_dequantized_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "name", d->name);
        json_str(item, "scheme", d->scheme);
        json_text(item, "dtype", ckpt_dtype_name((ckpt_dtype)d->dtype));
    }
}

static void add_convert_json(const ckpt_plan *p, json *parent)
{
    edit_losses_json(p, parent);
    if (opts.dequantize)
        dequantized_json(p, parent);
    edit_casts_json(p, parent);
}

/* is_format_known - returns false if OUT is a file whose suffix selects no format, and there is no --to: it
 * might be a .onnx that is not ONNX. */
static bool is_format_known(void)
{
    return writing.format || output_is_folder(NULL) || writing.max_shard ||
           strcmp(writing.output, "-") == 0 || output_path_format(writing.output);
}

static int convert_file(ckpt_file *f, ckpt_plan *p, const char *input)
{
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_error err;
    ckpt_status s = edit_narrow_if_flat(f, p, &err);
    if (s == CKPT_OK)
        s = edit_select(p, &err);
    if (s == CKPT_OK && opts.dequantize)
        s = ckpt_plan_dequantize(p, &err);
    if (s == CKPT_OK)
        s = cast_tensors(p, &err);
    if (s != CKPT_OK) {
        print_plan_notices(p, input);
        return report_error(&err, input);
    }
    int status = edit_write(p, input, &r);
    if (status != EXIT_OK)
        return status;
    if (!ui.json) /* the JSON report lists the overflows itself */
        edit_print_overflows(p, input);
    edit_print_result("ckpt.convert.v1", input, p, &r, add_convert_json);
    return EXIT_OK;
}

/* keeps_format - returns true if OUT, whose name selects no format, has that of F: F is a folder of files,
 * and OUT has no suffix. */
static bool keeps_format(const ckpt_file *f)
{
    const char *slash = strrchr(writing.output, '/');
    return !strchr(slash ? slash + 1 : writing.output, '.') &&
           (writing.keep_shards || ckpt_write_format_is_folder(ckpt_write_format(ckpt_file_format(f))));
}

static int fail_format_unknown(void)
{
    const char *name = escape_name(str_c(writing.output));
    if (ckpt_write_format(writing.output))
        return usage_error("convert",
                           "'%.200s' is the name of a format, not of a file: use --to=%.200s and -o OUT",
                           name, name);
    return usage_error("convert",
                       "cannot tell a format from '%.200s': end the name in .safetensors or .pt, or use --to",
                       name);
}

/* convert_opened - converts F, whose plan is P. INPUT is its name; IS_MERGED: that of the first of several.
 * */
static int convert_opened(ckpt_file *f, ckpt_plan *p, const char *input, bool is_merged)
{
    const char *given_output = writing.output;
    struct text path = {0};
    writing.keep_shards = !is_merged && output_names_set(f);
    if (!is_format_known() && !keeps_format(f))
        return fail_format_unknown();
    output_place(f, input, NULL, &path);
    int status = convert_file(f, p, input);
    writing.output = given_output;
    text_free(&path);
    return status;
}

/* convert_inputs - converts INPUTS to OUT: each on its own if COUNT is 1, else merged. */
static int convert_inputs(int count, char **inputs)
{
    ckpt_file *f;
    ckpt_plan *p;
    if (!edit_open_merged_plan(count, inputs, writing.root, &f, &p))
        return EXIT_TROUBLE;
    int status = convert_opened(f, p, inputs[0], count > 1);
    ckpt_plan_free(p);
    close_input(f);
    return status;
}

/* convert_each - converts each of INPUTS to a file of its own in the folder OUT. */
static int convert_each(int count, char **inputs)
{
    int status = EXIT_OK;
    if (!output_check_each(count, inputs, false))
        return EXIT_TROUBLE;
    for (int i = 0; i < count; i++) {
        int code = convert_inputs(1, &inputs[i]);
        status = code > status ? code : status;
    }
    return status;
}

/* fail_many_files - refuses COUNT operands without -o: the last may be an output, or an input to be
 * replaced. */
static int fail_many_files(int count, char **operand)
{
    struct text hint = {0};
    text_add(&hint, "ckpt convert");
    for (int i = 0; i < count; i++) {
        text_add(&hint, i == count - 1 ? " -o " : " ");
        text_operand(&hint, operand[i]);
    }
    bool fits = hint.len < 400 && !remote_may_exist(operand[count - 1]);
    for (int i = 0; i < count - 1; i++)
        fits = fits && remote_may_exist(operand[i]);
    int status = usage_error_suggest(fits ? hint.ptr : "ckpt convert --help",
                                     "%d files, and no -o OUT: a file gets the tensors of all of them, a "
                                     "folder (DIR/) an output for each",
                                     count);
    text_free(&hint);
    return status;
}

int run_convert(int count, char **operand)
{
    if (count == 2 && !writing.output)
        writing.output = operand[--count];
    if (count > 1 && !writing.output)
        return fail_many_files(count, operand);
    if (writing.output && remote_is_url(writing.output))
        return remote_fail_output(writing.output);
    if (!writing.output || !*writing.output)
        return usage_error("convert", "no output given: ckpt convert IN OUT, or -o OUT");
    const char *slash = strrchr(writing.output, '/');
    if (!is_format_known() && strchr(slash ? slash + 1 : writing.output, '.'))
        return fail_format_unknown();
    if (writing.max_shard && ckpt_write_format_is_folder(output_given_format()))
        return usage_error("convert",
                           "--max-shard-size is for sets with an index; --shards N divides a distributed "
                           "checkpoint");
    if (writing.shards && !ckpt_write_format_is_folder(output_given_format()))
        return usage_error("convert",
                           "--shards is for --to=dcp; --max-shard-size SIZE divides other formats");
    if (!check_casts())
        return EXIT_TROUBLE;
    if (edit_check_part("convert", count == 1 || !output_is_folder(NULL)) != EXIT_OK)
        return EXIT_TROUBLE;
    return count > 1 && output_is_folder(NULL) ? convert_each(count, operand)
                                               : convert_inputs(count, operand);
}
