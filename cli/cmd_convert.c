#include <string.h>
#include <strings.h>

#include "edit.h"

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
    {0, "ties", "drop|copy|error", OPT_CHOICE, &writing.ties,
     "tensors that share bytes, if OUT cannot tie them (default: drop)"},
    {0, "max-shard-size", "SIZE", OPT_SIZE, &writing.max_shard,
     "files of at most SIZE (5GB, 2GiB) and an index"},
    {0, "architecture", "NAME", OPT_TEXT, &writing.architecture,
     "general.architecture of a GGUF, if IN has none"},
    {0, "compress", NULL, OPT_FLAG, &writing.compress, "deflate the members of a .npz"},
    {0, "shards", "N", OPT_COUNT, &writing.shards, "N files in the folder of --to=dcp"},
    {0, "strict", NULL, OPT_FLAG, &writing.strict, "fail if anything is left out or overflows"},
    WRITE_OPTIONS,
    UI_WORK_OPTIONS,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_convert = {"convert", "IN… OUT",  "write a checkpoint in another format", options, 1,
                                NO_LIMIT,  run_convert};

/* parse_cast_dtype - returns the dtype in TEXT, "GLOB=DTYPE" or "DTYPE"; CKPT_DT_NONE if that is none. */
static ckpt_dtype parse_cast_dtype(const char *text)
{
    const char *equals = strrchr(text, '=');
    return ckpt_dtype_parse(str_of(equals ? equals + 1 : text));
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
    json *list = json_add_array(parent, "cast");
    const ckpt_cast *c;
    for (size_t i = 0; (c = ckpt_plan_cast_at(p, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "name", c->name);
        json_text(item, "from", ckpt_dtype_name((ckpt_dtype)c->from));
        json_text(item, "to", ckpt_dtype_name((ckpt_dtype)c->to));
        json_u64(item, "elements", c->elements);
        json_u64(item, "overflowed", c->overflowed);
    }
}

static void print_overflows(const ckpt_plan *p, const char *input)
{
    enum { MAX_SHOWN = 20 };
    size_t n = 0;
    const ckpt_cast *c;
    for (size_t i = 0; (c = ckpt_plan_cast_at(p, i)); i++) {
        if (!c->overflowed || (n++ >= MAX_SHOWN && ui.err_tty))
            continue;
        print_notice(input, "%s: %llu of %llu values overflow %s (%s %s)", escape_name(c->name),
                     (unsigned long long)c->overflowed, (unsigned long long)c->elements,
                     ckpt_dtype_name((ckpt_dtype)c->to), writing.dry_run ? "would become" : "became",
                     c->became);
    }
    if (n > MAX_SHOWN && ui.err_tty)
        print_notice(input, "and %zu more tensors with values that overflow; --json lists all",
                     n - MAX_SHOWN);
}

/* writes_folder - returns true if --to or the suffix of OUT selects a format that is a folder. */
static bool writes_folder(void)
{
    return ckpt_write_format_is_folder(writing.format ? ckpt_write_format(writing.format)
                                                      : edit_path_format(writing.output));
}

/* is_output_folder - returns true if OUT is a folder in which the output gets the name of the input. Shards
 * have names of their own. */
static bool is_output_folder(void)
{
    return !writing.max_shard && !writes_folder() && edit_is_folder_path(writing.output);
}

/* length_without_suffix - returns the length of NAME (N bytes) without SUFFIX, in upper or lower case; N if
 * NAME does not end in SUFFIX, or is only that. */
static size_t length_without_suffix(const char *name, size_t n, const char *suffix)
{
    size_t len = strlen(suffix);
    return n > len && strncasecmp(name + n - len, suffix, len) == 0 ? n - len : n;
}

/* stem_length - returns the length of NAME without a suffix that selects a format. */
static size_t stem_length(const char *name, size_t n)
{
    size_t len_without_tar = length_without_suffix(name, n, ".tar");
    const char *dot = strrchr(name, '.');
    if (!edit_path_format(name) || !dot || dot == name)
        return n;
    return len_without_tar < n ? length_without_suffix(name, len_without_tar, ".pth") : (size_t)(dot - name);
}

/* output_suffix - returns the suffix of the format by --to, else by NAME, else of F's own format. */
static const char *output_suffix(const ckpt_file *f, const char *name)
{
    const char *format = writing.format ? ckpt_write_format(writing.format) : edit_path_format(name);
    if (!format)
        format = ckpt_write_format(ckpt_file_format(f));
    if (ckpt_write_format_is_flat(format))
        return ckpt_write_format_suffixes(format); /* flat formats have exactly one */
    return !format && strcmp(ckpt_file_format(f), "hf-shards") == 0 ? ".safetensors" : ".pt";
}

/* make_output_name - sets OUT to the path in the output folder: the name of INPUT with the suffix of the
 * format. */
static void make_output_name(const ckpt_file *f, const char *input, struct text *out)
{
    struct text name = {0};
    size_t n;
    const char *last = edit_last_component(input, &n);
    n = length_without_suffix(last, n, ".index.json");
    text_bytes(&name, last, n);
    if (strcmp(name.ptr, "-") == 0 || strcmp(name.ptr, ".") == 0 || strcmp(name.ptr, "..") == 0) {
        text_clear(&name);
        text_add(&name, "model");
    }
    const char *suffix = output_suffix(f, name.ptr), *format = edit_path_format(name.ptr);
    size_t stem = stem_length(name.ptr, name.len);
    text_add(out, writing.output);
    if (out->ptr[out->len - 1] != '/')
        text_add(out, "/");
    bool keeps_suffix = format &&
                        strcmp(format, ckpt_write_format(suffix)) == 0; /* .pth stays .pth, not .pt */
    text_bytes(out, name.ptr, keeps_suffix ? name.len : stem);
    text_add(out, keeps_suffix ? "" : suffix);
    text_free(&name);
}

/* is_format_known - returns false if OUT is a file whose suffix selects no format, and there is no --to: it
 * might be a .onnx that is not ONNX. */
static bool is_format_known(void)
{
    return writing.format || is_output_folder() || writing.max_shard || strcmp(writing.output, "-") == 0 ||
           edit_path_format(writing.output);
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
        print_overflows(p, input);
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
    const char *name = escape_name(str_of(writing.output));
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
    writing.keep_shards = !is_merged && edit_names_set(f);
    if (!is_format_known() && !keeps_format(f))
        return fail_format_unknown();
    if (is_output_folder() && !writing.keep_shards) {
        make_output_name(f, input, &path);
        writing.output = path.ptr;
    }
    int status = convert_file(f, p, input);
    writing.output = given_output;
    text_free(&path);
    return status;
}

/* convert_inputs - converts INPUTS to OUT: each on its own if N is 1, else merged. */
static int convert_inputs(int n, char **inputs)
{
    ckpt_file *f;
    ckpt_plan *p;
    if (!edit_open_merged_plan(n, inputs, writing.root, &f, &p))
        return EXIT_TROUBLE;
    int status = convert_opened(f, p, inputs[0], n > 1);
    ckpt_plan_free(p);
    close_input(f);
    return status;
}

/* convert_each - converts each of INPUTS to a file of its own in the folder OUT. */
static int convert_each(int n, char **inputs)
{
    int status = EXIT_OK;
    if (!edit_check_names(n, inputs))
        return EXIT_TROUBLE;
    for (int i = 0; i < n; i++) {
        int code = convert_inputs(1, &inputs[i]);
        status = code > status ? code : status;
    }
    return status;
}

int run_convert(int n, char **operand)
{
    if (n == 2 && !writing.output)
        writing.output = operand[--n];
    if (n > 1 && !writing.output)
        return usage_error(
            "convert",
            "%d files, and no -o OUT: a file gets the tensors of all of them, a folder (DIR/) an "
            "output for each",
            n);
    if (!writing.output || !*writing.output)
        return usage_error("convert", "no output given: ckpt convert IN OUT, or -o OUT");
    const char *slash = strrchr(writing.output, '/');
    if (!is_format_known() && strchr(slash ? slash + 1 : writing.output, '.'))
        return fail_format_unknown();
    if (writing.max_shard && writes_folder())
        return usage_error("convert",
                           "--max-shard-size is for sets with an index; --shards N divides a distributed "
                           "checkpoint");
    if (writing.shards && !writes_folder())
        return usage_error("convert",
                           "--shards is for --to=dcp; --max-shard-size SIZE divides other formats");
    if (!check_casts())
        return EXIT_TROUBLE;
    return n > 1 && is_output_folder() ? convert_each(n, operand) : convert_inputs(n, operand);
}
