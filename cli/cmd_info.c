#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "json.h"
#include "find.h"
#include "number.h"

static const struct opt options[] = {
    FILES_RECURSIVE_OPTION, FILES_NAME_OPTIONS, UI_READER_OPTIONS, UI_JSON_OPTION, UI_QUIET_OPTION, {0},
};

const struct cmd cmd_info = {"info",  "FILE…", "what a checkpoint is: weights, wrappers, optimizer, dtypes",
                             options, 1,       NO_LIMIT,
                             run_info};

enum { LABEL = 13, MANY_VALUES = 8, VALUE_WIDTH = 80, DTYPES = CKPT_DT_Q2_0 + 1 };

struct facts {
    ckpt_file *f;
    ckpt_info info;
    struct totals all, weights, by_dtype[DTYPES];
};

static bool is_below(ckpt_str name, ckpt_str root)
{
    return !root.len || (name.len > root.len && str_begins(name, root) && name.ptr[root.len] == '.');
}

/* is_main_weights - returns true if W is the weights, or a network inside them, and not an averaged copy. */
static bool is_main_weights(const struct facts *x, const ckpt_weights *w)
{
    return x->info.has_weights && !w->averaged &&
           (is_below(w->name, x->info.weights_root) || str_is_equal(w->name, x->info.weights_root));
}

/* is_below_other_weights - returns true if NAME is below the optimizer's state or an averaged copy, either of
 * which may be below the weights. */
static bool is_below_other_weights(const struct facts *x, ckpt_str name)
{
    bool other = x->info.optimizer_path.len && is_below(name, x->info.optimizer_path);
    for (size_t i = 0; i < x->info.nweights && !other; i++) {
        const ckpt_weights *w = ckpt_weights_at(x->f, i);
        other = w->averaged && w->name.len && is_below(name, w->name);
    }
    return other;
}

static void count_tensors(struct facts *x)
{
    ckpt_tensor it = CKPT_INIT(ckpt_tensor), *t = &it;
    for (uint32_t i = 0; ckpt_tensor_at(x->f, i, &it); i++) {
        totals_add(&x->all, t);
        if (t->dtype < DTYPES)
            totals_add(&x->by_dtype[t->dtype], t);
        if (x->info.has_weights && is_below(t->name, x->info.weights_root) &&
            !is_below_other_weights(x, t->name))
            totals_add(&x->weights, t);
    }
}

/* -------------------------------------------------------------------- text */

static void begin_label(struct text *out, const char *word)
{
    text_clear(out);
    size_t n = text_columns(word, strlen(word));
    text_add(out, style_on(DIM));
    text_add(out, word);
    text_add(out, style_off(DIM));
    text_addf(out, "%*s", (int)(n < LABEL ? LABEL - n : 2), "");
}

/* add_name_and_gap - adds NAME and three blanks, or nothing if NAME is empty. */
static void add_name_and_gap(struct text *out, ckpt_str name)
{
    if (!name.len)
        return;
    text_name(out, name);
    text_add(out, "   ");
}

static void print_title(const struct facts *x, struct text *out)
{
    text_clear(out);
    if (!ui.prefix[0]) {
        text_add(out, style_on(BOLD));
        text_name(out, str_of(ckpt_file_path(x->f)));
        text_addf(out, "%s   ", style_off(BOLD));
    }
    text_addf(out, "%s, ", ckpt_file_title(x->f));
    if (x->info.producer.len) {
        text_add(out, "written by ");
        text_name(out, x->info.producer);
        text_add(out, ", ");
    }
    text_size(out, ckpt_file_bytes(x->f));
    line_put(out);
}

/* A kind of parallelism, and over how many ranks a folder was written with it. */
struct way {
    const char *name, *key;
    uint64_t n;
};

/* parallel_axes - fills OUT with the kinds of parallelism that R names, and returns how many. */
static size_t parallel_axes(const ckpt_ranks *r, struct way out[3])
{
    const struct way all[3] = {{"data", "data_parallel", r->data_parallel},
                               {"tensor", "tensor_parallel", r->tensor_parallel},
                               {"pipeline", "pipeline_parallel", r->pipeline_parallel}};
    size_t n = 0;
    for (size_t i = 0; i < 3; i++)
        if (all[i].n)
            out[n++] = all[i];
    return n;
}

static void print_ranks(const struct facts *x, struct text *out)
{
    const ckpt_ranks *r = x->info.ranks;
    struct way way[3];
    size_t n = r ? parallel_axes(r, way) : 0;
    if (r && r->ranks) {
        begin_label(out, "ranks");
        text_count(out, r->ranks);
        for (size_t i = 0; i < n; i++) {
            text_addf(out, "%s%s parallel ", i ? ", " : ": ", way[i].name);
            text_count(out, way[i].n);
        }
        line_put(out);
    }
    if (r && r->has_step) {
        begin_label(out, "step");
        text_addf(out, "%" PRIu64, r->step);
        line_put(out);
    }
}

static void print_weights(const struct facts *x, struct text *out)
{
    if (x->info.has_weights) {
        begin_label(out, "weights");
        add_name_and_gap(out, x->info.weights_root);
        text_totals(out, &x->weights, ", ");
        line_put(out);
    }
    if (!x->info.has_weights || x->all.tensors != x->weights.tensors) {
        begin_label(out, "all");
        text_totals(out, &x->all, ", ");
        line_put(out);
    }
}

/* print_more_weights - prints averaged copies and other networks, which strip, add and --cast also change. */
static void print_more_weights(const struct facts *x, struct text *out)
{
    for (size_t i = 0; i < x->info.nweights; i++) {
        const ckpt_weights *w = ckpt_weights_at(x->f, i);
        if (is_main_weights(x, w))
            continue;
        begin_label(out, w->averaged ? "averaged" : "");
        add_name_and_gap(out, w->name);
        text_totals(out, &(struct totals){w->tensors, w->elements, w->bytes}, ", ");
        line_put(out);
    }
}

/* suffix_of - returns the suffix for a file with all shards of X in it, or NULL if X is one file, which
 * keeps its suffix. */
static const char *suffix_of(const struct facts *x)
{
    if (strcmp(ckpt_file_format(x->f), "hf-shards") != 0)
        return NULL;
    return x->info.weights_only >= 0 ? ".pt" : ".safetensors";
}

/* print_fix - adds the command that removes the prefix of W. Prefixes that are certain are removed by one
 * --auto; others may be the real name of a submodule. */
static void print_fix(const struct facts *x, const ckpt_wrapper *w, bool *auto_printed, struct text *out)
{
    if (w->certain && *auto_printed)
        return;
    if (w->certain) {
        text_add(out, "   fix: ckpt strip --auto ");
        *auto_printed = true;
    } else {
        text_add(out, "   if a wrapper left it: ckpt strip ");
        text_add(out, w->anywhere ? "--anywhere " : "");
        text_name(out, w->prefix);
        text_add(out, " ");
    }
    text_operand(out, ckpt_file_path(x->f));
    text_add(out, " -o ");
    text_fixed_name(out, ckpt_file_path(x->f), suffix_of(x));
}

/* add_prefix - adds PREFIX, which N of ALL tensors have, and WHERE, the name of their mapping, if it has
 * one. */
static void add_prefix(struct text *out, ckpt_str prefix, uint64_t n, uint64_t all, ckpt_str where)
{
    text_name(out, prefix);
    text_add(out, n == all ? "   on all " : "   on ");
    text_count(out, n);
    if (n != all) {
        text_add(out, " of ");
        text_count(out, all);
    }
    if (where.len) {
        text_add(out, " of ");
        text_name(out, where);
    }
}

static void print_wrappers(const struct facts *x, struct text *out)
{
    bool auto_printed = false;
    for (size_t i = 0; i < x->info.nwrappers; i++) {
        const ckpt_wrapper *w = ckpt_wrapper_at(x->f, i);
        begin_label(out, i ? "" : "prefix");
        add_prefix(out, w->prefix, w->tensors, w->of, w->where);
        print_fix(x, w, &auto_printed, out);
        line_put(out);
    }
}

/* print_prefix_command - adds the command that removes the prefix of W or, if it belongs to an averaged copy
 * alone, selects the copy. */
static void print_prefix_command(const struct facts *x, const ckpt_weights *w, struct text *out)
{
    bool copy = w->prefixed < w->tensors - w->tensors / 4;
    struct text word = {0};
    if (copy && w->name.len) {
        text_bytes(&word, w->name.ptr, w->name.len);
        text_add(&word, ".");
    }
    text_bytes(&word, w->prefix.ptr, w->prefix.len - copy); /* a root has no dot */
    text_add(out, copy ? "   alone: ckpt convert --root " : "   without it: ckpt strip ");
    text_shell(out, word.ptr);
    text_add(out, " ");
    text_operand(out, ckpt_file_path(x->f));
    text_add(out, copy ? " " : " -o ");
    text_fixed_name(out, ckpt_file_path(x->f), suffix_of(x));
    text_free(&word);
}

static void print_prefixes(const struct facts *x, struct text *out)
{
    bool first = !x->info.nwrappers;
    for (size_t i = 0; i < x->info.nweights; i++) {
        const ckpt_weights *w = ckpt_weights_at(x->f, i);
        if (!w->prefix.len)
            continue;
        begin_label(out, first ? "prefix" : "");
        first = false;
        add_prefix(out, w->prefix, w->prefixed, w->tensors, w->name);
        print_prefix_command(x, w, out);
        line_put(out);
    }
}

static void print_optimizer(const struct facts *x, struct text *out)
{
    if (!x->info.optimizer.len)
        return;
    begin_label(out, "optimizer");
    add_name_and_gap(out, x->info.optimizer_path);
    text_name(out, x->info.optimizer);
    line_put(out);
}

/* add_scalar - adds row ROW if it is a numpy scalar near the top, in which training scripts save their best
 * score; otherwise returns false. */
static bool add_scalar(const struct facts *x, uint32_t row, struct text *out)
{
    const ckpt_tensor it = tensor_at(x->f, row), *t = &it;
    uint8_t bytes[32];
    char shown[NUMBER_TEXT];
    if (t->kind != CKPT_NDARRAY || t->ndim || !t->has_data || t->npath > 1 || t->nbytes > sizeof bytes)
        return false;
    if (!number_bytes((ckpt_dtype)t->dtype) || number_read(x->f, row, 0, 1, bytes, NULL) != CKPT_OK)
        return false;
    struct number v = number_decode(number_shown_dtype((ckpt_dtype)t->dtype), bytes);
    text_name(out, t->name);
    text_addf(out, " = numpy %s %s", ckpt_dtype_name((ckpt_dtype)t->dtype), number_text(&v, shown));
    return true;
}

/* A line of values: the first are shown, the others counted. */
struct value_list {
    struct text *out;
    size_t shown, more;
};

static bool begin_list_item(struct value_list *s)
{
    if (s->shown == MANY_VALUES) {
        s->more++;
        return false;
    }
    text_add(s->out, s->shown++ ? ", " : "");
    return true;
}

/* How interesting a value is: hyper-parameters come first, the state of schedulers and the like last. */
enum interest { HYPER_PARAMETER, OTHER, INTERNAL };

static enum interest interest_of(const ckpt_leaf *leaf)
{
    static const char *const hyper[] = {"hyper_parameters", "hparams", "args",   "config",   "cfg", "opt",
                                        "options",          "params",  "kwargs", "training", "meta"};
    static const char *const inner[] = {"schedul", "loops", "callbacks", "scaler", "rng", "random"};
    struct text first = {0};
    enum interest found = OTHER;
    if (leaf->npath < 2 || leaf->path[0].is_int)
        return OTHER;
    text_name(&first, leaf->path[0].str);
    for (size_t i = 0; i < sizeof hyper / sizeof *hyper; i++)
        found = strcmp(first.ptr, hyper[i]) == 0 ? HYPER_PARAMETER : found;
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        found = strstr(first.ptr, inner[i]) ? INTERNAL : found;
    text_free(&first);
    return found;
}

/* add_value - adds V, cut if it is long; `ckpt show` prints all of it. */
static void add_value(struct text *out, const ckpt_value *v)
{
    size_t begin = out->len, end = begin + VALUE_WIDTH;
    text_value(out, v, 6);
    if (out->len <= end)
        return;
    while (end > begin && (out->ptr[end] & 0xc0) == 0x80) /* within a UTF-8 sequence */
        end--;
    text_cut(out, end);
    text_add(out, "...");
}

static void add_leaves(const struct facts *x, struct value_list *s, uint32_t level, enum interest interest)
{
    const ckpt_leaf *leaf;
    for (size_t i = 0; (leaf = ckpt_leaf_at(x->f, i)); i++) {
        if (leaf->npath != level || interest_of(leaf) != interest)
            continue;
        if (x->info.optimizer_path.len && is_below(leaf->name, x->info.optimizer_path))
            continue;
        if (!begin_list_item(s))
            continue;
        text_name(s->out, leaf->name);
        text_add(s->out, " = ");
        add_value(s->out, leaf->value);
    }
}

static void print_info_values(const struct facts *x, struct text *out)
{
    struct value_list s = {.out = out};
    struct text one = {0};
    begin_label(out, "values");
    add_leaves(x, &s, 1, OTHER);
    for (uint32_t i = 0; i < ckpt_tensor_count(x->f); i++) {
        text_clear(&one);
        if (add_scalar(x, i, &one) && begin_list_item(&s))
            text_add(out, one.ptr);
    }
    text_free(&one);
    for (enum interest i = HYPER_PARAMETER; i <= INTERNAL; i++)
        add_leaves(x, &s, 2, i);
    if (s.more)
        text_addf(out, " and %zu more: ckpt ls --values", s.more);
    if (s.shown)
        line_put(out);
}

static void print_info_metadata(const struct facts *x, struct text *out)
{
    struct value_list s = {.out = out};
    ckpt_leaf pair;
    begin_label(out, "metadata");
    for (size_t i = 0; metadata_next(x->f, &i, &pair);) {
        if (!begin_list_item(&s))
            continue;
        text_name(out, pair.path[1].str);
        text_add(out, " = ");
        add_value(out, pair.value);
    }
    if (s.more)
        text_addf(out, " and %zu more: ckpt meta", s.more);
    if (s.shown)
        line_put(out);
}

static int by_elements(const void *a, const void *b)
{
    const struct totals *x = *(const struct totals *const *)a, *y = *(const struct totals *const *)b;
    if (x->elements != y->elements)
        return x->elements > y->elements ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void print_dtypes(const struct facts *x, struct text *out)
{
    const struct totals *seen[DTYPES];
    size_t n = 0;
    begin_label(out, "dtypes");
    for (int d = 1; d < DTYPES; d++)
        if (x->by_dtype[d].elements || (x->by_dtype[d].tensors && d != CKPT_DT_NP))
            seen[n++] = &x->by_dtype[d];
    qsort(seen, n, sizeof *seen, by_elements);
    for (size_t i = 0; i < n; i++) {
        text_addf(out, "%s%s ", i ? ", " : "", ckpt_dtype_name((ckpt_dtype)(seen[i] - x->by_dtype)));
        text_count(out, seen[i]->elements);
    }
    if (n)
        line_put(out);
}

static void print_info_remarks(const struct facts *x, struct text *out)
{
    if (x->info.aliases) {
        begin_label(out, "ties");
        text_noun(out, x->info.aliases, "name shares", "names share");
        text_add(out, " the bytes of another tensor");
        line_put(out);
    }
    if (x->info.unreferenced) {
        begin_label(out, "unused");
        text_size(out, x->info.unreferenced);
        text_add(out, " that no tensor uses");
        line_put(out);
    }
    if (x->info.executes_code) {
        begin_label(out, "code");
        text_add(out, "loading the file runs code in it; ckpt does not run it");
        line_put(out);
    }
    if (x->info.weights_only >= 0) {
        begin_label(out, "load");
        text_addf(out, "torch.load(weights_only=True) %s", x->info.weights_only ? "loads it" : "refuses it");
        if (!x->info.weights_only && x->info.weights_only_why.len) {
            text_add(out, ": ");
            text_name(out, x->info.weights_only_why);
        }
        line_put(out);
    }
}

static void print_info_text(const struct facts *x)
{
    struct text out = {0};
    print_title(x, &out);
    print_ranks(x, &out);
    print_weights(x, &out);
    print_more_weights(x, &out);
    print_wrappers(x, &out);
    print_prefixes(x, &out);
    print_optimizer(x, &out);
    print_info_values(x, &out);
    print_info_metadata(x, &out);
    print_dtypes(x, &out);
    print_info_remarks(x, &out);
    text_free(&out);
}

/* -------------------------------------------------------------------- JSON */

static void wrappers_json(json *j, const struct facts *x)
{
    json *list = json_add_array(j, "wrappers");
    for (size_t i = 0; i < x->info.nwrappers; i++) {
        const ckpt_wrapper *w = ckpt_wrapper_at(x->f, i);
        json *one = json_add_object(list, NULL);
        json_str(one, "prefix", w->prefix);
        json_str(one, "where", w->where);
        json_u64(one, "tensors", w->tensors);
        json_u64(one, "mapping_tensors", w->of);
        json_bool(one, "anywhere", w->anywhere);
        json_bool(one, "certain", w->certain);
    }
}

/* mappings_json - adds all mappings that are weights, averaged ones too, with the prefix that their keys
 * share. */
static void mappings_json(json *j, const struct facts *x)
{
    json *list = json_add_array(j, "mappings");
    for (size_t i = 0; i < x->info.nweights; i++) {
        const ckpt_weights *w = ckpt_weights_at(x->f, i);
        json *one = json_add_object(list, NULL);
        json_str(one, "name", w->name);
        json_bool(one, "averaged", w->averaged);
        json_totals(one, "total", w->tensors, w->elements, w->bytes);
        if (!w->prefix.len) {
            json_null(one, "prefix");
            continue;
        }
        json *prefix = json_add_object(one, "prefix");
        json_str(prefix, "prefix", w->prefix);
        json_u64(prefix, "tensors", w->prefixed);
    }
}

static void weights_json(json *j, const struct facts *x)
{
    if (!x->info.has_weights) {
        json_null(j, "weights_root");
        return;
    }
    json_str(j, "weights_root", x->info.weights_root);
    json_str(j, "weights_why", x->info.weights_why);
    json_totals(j, "weights", x->weights.tensors, x->weights.elements, x->weights.bytes);
}

static void aliases_json(json *j, const ckpt_file *f)
{
    json *list = json_add_array(j, "aliases");
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        const ckpt_tensor t = tensor_at(f, i);
        if (t.alias_of == CKPT_NO_TENSOR)
            continue;
        json_alias(list, t.name, ckpt_tensor_name(f, t.alias_of));
    }
}

static void optimizer_json(json *j, const ckpt_info *info)
{
    if (!info->optimizer.len) {
        json_null(j, "optimizer");
        return;
    }
    json *one = json_add_object(j, "optimizer");
    json_str(one, "where", info->optimizer_path);
    json_str(one, "summary", info->optimizer);
}

static void info_values_json(json *j, const struct facts *x)
{
    json *list = json_add_array(j, "values");
    const ckpt_leaf *leaf;
    for (size_t i = 0; (leaf = ckpt_leaf_at(x->f, i)); i++)
        if (leaf->npath <= 2 && !(x->info.optimizer_path.len && is_below(leaf->name, x->info.optimizer_path)))
            json_leaf(json_add_object(list, NULL), leaf);
}

static void ranks_json(json *j, const ckpt_ranks *r)
{
    struct way way[3];
    if (!r)
        return;
    json *one = json_add_object(j, "ranks");
    if (r->ranks)
        json_u64(one, "count", r->ranks);
    for (size_t i = 0, n = parallel_axes(r, way); i < n; i++)
        json_u64(one, way[i].key, way[i].n);
    if (r->has_step)
        json_u64(one, "step", r->step);
}

static void print_info_json(const struct facts *x)
{
    const ckpt_info *info = &x->info;
    json *j = json_schema("ckpt.info.v1");
    json_text(j, "file", ckpt_file_path(x->f));
    json_text(j, "format", ckpt_file_format(x->f));
    json_u64(j, "bytes", ckpt_file_bytes(x->f));
    if (info->producer.len)
        json_str(j, "producer", info->producer);
    ranks_json(j, info->ranks);
    wrappers_json(j, x);
    weights_json(j, x);
    mappings_json(j, x);
    json *dtypes = json_add_object(j, "dtypes");
    for (int d = 1; d < DTYPES; d++)
        if (x->by_dtype[d].tensors)
            json_totals(dtypes, ckpt_dtype_name((ckpt_dtype)d), x->by_dtype[d].tensors,
                        x->by_dtype[d].elements, x->by_dtype[d].bytes);
    json_totals(j, "total", x->all.tensors, x->all.elements, x->all.bytes);
    optimizer_json(j, info);
    info_values_json(j, x);
    metadata_json(j, x->f);
    aliases_json(j, x->f);
    json_u64(j, "unreferenced_bytes", info->unreferenced);
    json_bool(j, "executes_code", info->executes_code);
    if (info->weights_only < 0) {
        json_null(j, "weights_only");
    } else {
        json *w = json_add_object(j, "weights_only");
        json_bool(w, "ok", info->weights_only != 0);
        json_str(w, "why", info->weights_only_why);
    }
    json_line(j, stdout);
}

static int print_info(const char *path)
{
    struct facts x = {.f = open_input(path, false), .info = CKPT_INIT(ckpt_info)};
    ckpt_error err;
    int status = EXIT_OK;
    if (!x.f)
        return EXIT_TROUBLE;
    if (ckpt_inspect(x.f, &x.info, &err) != CKPT_OK) {
        status = report_error(&err, path);
    } else {
        count_tensors(&x);
        if (ui.json)
            print_info_json(&x);
        else
            print_info_text(&x);
    }
    close_input(x.f);
    return status;
}

int run_info(int n, char **operand) { return files_each(n, operand, FILES_BLOCKS, print_info); }
