#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "find.h"
#include "number.h"
#include "records.h"

static const struct opt options[] = {
    FILES_RECURSIVE_OPTION,
    FILES_NAME_OPTIONS,
    UI_READER_OPTIONS,
    RECORDS_OPTIONS("a line for each file"),
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

/* clang-format off */
const struct cmd cmd_info = {
    "info", "FILE…", "describe a checkpoint: weights, wrappers, optimizer, dtypes", options, 1,
    NO_LIMIT, run_info};
/* clang-format on */

enum {
    LABEL_WIDTH = 13,      /* columns of the label that a line begins with */
    MAX_VALUE_DEPTH = 2,   /* keys that lead to a value; what is deeper is only counted */
    MAX_VALUES = 8,        /* values on a line; more are only counted */
    MAX_VALUE_BYTES = 80,  /* bytes of a value; more are cut off */
    MAX_VALUE_NODES = 6,   /* nodes of a value; more become "…" */
    DTYPES = 256,          /* more than ckpt_dtype has */
    MAX_NAMED_DTYPES = 16, /* dtypes that have a name of their own ("S4"); more are CKPT_DT_NAMED */
    DTYPE_SLOTS = DTYPES + MAX_NAMED_DTYPES,
    STATES = CKPT_STATE_CHECKPOINT + 1
};

struct facts {
    ckpt_file *f;
    ckpt_info info;
    struct totals all, weights;
    struct totals by_dtype[DTYPE_SLOTS]; /* by dtype, then by the name in dtype_names */
    const char *dtype_names[MAX_NAMED_DTYPES];
    uint64_t states[STATES];  /* tensors that are no weights by their names alone */
    uint32_t nscalars;        /* see is_scalar */
    char named_optimizer[64]; /* what info.optimizer is then */
};

static bool is_below(ckpt_str name, ckpt_str root)
{
    return !root.len || (name.len > root.len && str_begins(name, root) && name.ptr[root.len] == '.');
}

/* is_main_weights - returns true if WEIGHTS are the weights of the file or a network inside them, but not an
 * averaged copy. */
static bool is_main_weights(const struct facts *facts, const ckpt_weights *weights)
{
    return facts->info.has_weights && !weights->averaged &&
           (is_below(weights->name, facts->info.weights_root) ||
            str_is_equal(weights->name, facts->info.weights_root));
}

/* is_below_optimizer_or_copy - returns true if NAME is below the optimizer's state or an averaged copy.
 * Either may be below the weights. */
static bool is_below_optimizer_or_copy(const struct facts *facts, ckpt_str name)
{
    bool is_below_any = facts->info.optimizer_path.len && is_below(name, facts->info.optimizer_path);
    for (size_t i = 0; i < facts->info.nweights && !is_below_any; i++) {
        const ckpt_weights *weights = ckpt_weights_at(facts->f, i);
        is_below_any = weights->averaged && weights->name.len && is_below(name, weights->name);
    }
    return is_below_any;
}

/* find_dtype_slot - returns the index in by_dtype of TENSOR's dtype; DTYPE_SLOTS: it is none that is
 * known. */
static size_t find_dtype_slot(struct facts *facts, const ckpt_tensor *tensor)
{
    if (tensor->dtype >= DTYPES)
        return DTYPE_SLOTS;
    for (size_t i = 0; tensor->dtype_name && i < MAX_NAMED_DTYPES; i++) {
        if (!facts->dtype_names[i])
            facts->dtype_names[i] = tensor->dtype_name;
        if (strcmp(facts->dtype_names[i], tensor->dtype_name) == 0)
            return DTYPES + i;
    }
    return tensor->dtype;
}

static const char *get_dtype_name(const struct facts *facts, size_t slot)
{
    return slot < DTYPES ? ckpt_dtype_name((ckpt_dtype)slot) : facts->dtype_names[slot - DTYPES];
}

/* is_scalar - returns true if TENSOR is a numpy scalar near the top of the file, such as the best score that
 * training scripts save. */
static bool is_scalar(const ckpt_tensor *tensor)
{
    return tensor->kind == CKPT_NDARRAY && !tensor->ndim && tensor->has_data && tensor->npath <= 1;
}

static void count_tensors(struct facts *facts)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    for (uint32_t i = 0; ckpt_tensor_at(facts->f, i, &t); i++) {
        ckpt_state state = ckpt_tensor_state(&t);
        size_t slot = find_dtype_slot(facts, &t);
        totals_add(&facts->all, &t);
        facts->states[state] += t.part_of == CKPT_NO_TENSOR;
        facts->nscalars += is_scalar(&t);
        if (slot < DTYPE_SLOTS)
            totals_add(&facts->by_dtype[slot], &t);
        if (facts->info.has_weights && is_below(t.name, facts->info.weights_root) &&
            !is_below_optimizer_or_copy(facts, t.name) && state == CKPT_STATE_NONE)
            totals_add(&facts->weights, &t);
    }
    uint64_t of_optimizer = facts->states[CKPT_STATE_OPTIMIZER];
    if (facts->info.optimizer.len || !of_optimizer)
        return;
    int n = snprintf(facts->named_optimizer, sizeof facts->named_optimizer,
                     "%" PRIu64 " tensor%s, by the names", of_optimizer, of_optimizer == 1 ? "" : "s");
    facts->info.optimizer = (ckpt_str){facts->named_optimizer, (size_t)n};
}

/* -------------------------------------------------------------------- text */

static void begin_label(struct text *out, const char *word)
{
    text_clear(out);
    size_t n = text_columns(word, strlen(word));
    text_addf(out, "%s%s%s%*s", style_on(DIM), word, style_off(DIM),
              (int)(n < LABEL_WIDTH ? LABEL_WIDTH - n : 2), "");
}

/* print_labelled - prints a line with the label WORD. */
static void CKPT_PRINTF(3, 4) print_labelled(struct text *out, const char *word, const char *fmt, ...)
{
    va_list ap;
    begin_label(out, word);
    va_start(ap, fmt);
    text_addv(out, fmt, ap);
    va_end(ap);
    line_put(out);
}

/* add_name_and_gap - adds NAME and three blanks, or nothing if NAME is empty. */
static void add_name_and_gap(struct text *out, ckpt_str name)
{
    if (name.len)
        text_addf(out, "%s   ", escape_name(name));
}

static void print_title(const struct facts *facts, struct text *out)
{
    text_clear(out);
    if (!ui.prefix[0])
        text_addf(out, "%s%s%s   ", style_on(BOLD), escape_name(str_c(ckpt_file_path(facts->f))),
                  style_off(BOLD));
    text_addf(out, "%s, ", ckpt_file_title(facts->f));
    if (facts->info.producer.len)
        text_addf(out, "written by %s, ", escape_name(facts->info.producer));
    text_size(out, ckpt_file_bytes(facts->f));
    line_put(out);
}

/* A kind of parallelism: its name, its key in JSON, and among how many ranks it divided the work. */
struct parallel_axis {
    const char *name, *key;
    uint64_t ranks;
};

/* parallel_axes - fills OUT with the kinds of parallelism known from RANKS, and returns their number. */
static size_t parallel_axes(const ckpt_ranks *ranks, struct parallel_axis out[3])
{
    const struct parallel_axis all[3] = {{"data", "data_parallel", ranks->data_parallel},
                                         {"tensor", "tensor_parallel", ranks->tensor_parallel},
                                         {"pipeline", "pipeline_parallel", ranks->pipeline_parallel}};
    size_t n = 0;
    for (size_t i = 0; i < 3; i++)
        if (all[i].ranks)
            out[n++] = all[i];
    return n;
}

static void print_ranks(const struct facts *facts, struct text *out)
{
    const ckpt_ranks *ranks = facts->info.ranks;
    struct parallel_axis axis[3];
    size_t n = ranks ? parallel_axes(ranks, axis) : 0;
    if (ranks && ranks->ranks) {
        begin_label(out, "ranks");
        text_count(out, ranks->ranks);
        for (size_t i = 0; i < n; i++)
            text_addf(out, "%s%s parallel %s", i ? ", " : ": ", axis[i].name, show_count(axis[i].ranks));
        line_put(out);
    }
    if (ranks && ranks->has_step)
        print_labelled(out, "step", "%" PRIu64, ranks->step);
}

static void print_weights(const struct facts *facts, struct text *out)
{
    bool has_only_states = !facts->weights.tensors && facts->all.tensors;
    if (facts->info.has_weights && !has_only_states) {
        begin_label(out, "weights");
        add_name_and_gap(out, facts->info.weights_root);
        text_totals(out, &facts->weights, ", ");
        line_put(out);
    }
    if (!facts->info.has_weights || facts->all.tensors != facts->weights.tensors) {
        begin_label(out, "all");
        text_totals(out, &facts->all, ", ");
        line_put(out);
    }
}

/* print_more_weights - prints averaged copies and other networks. The commands strip and add, and the
 * option --cast, change these, too. */
static void print_more_weights(const struct facts *facts, struct text *out)
{
    for (size_t i = 0; i < facts->info.nweights; i++) {
        const ckpt_weights *weights = ckpt_weights_at(facts->f, i);
        if (is_main_weights(facts, weights))
            continue;
        begin_label(out, weights->averaged ? "averaged" : "");
        add_name_and_gap(out, weights->name);
        text_totals(out, &(struct totals){weights->tensors, weights->elements, weights->bytes}, ", ");
        line_put(out);
    }
}

/* get_output_suffix - returns the suffix for the output of a fix, if that merges shards into one file or is
 * written in a different format than the input. NULL: the output keeps the suffix. */
static const char *get_output_suffix(const struct facts *facts)
{
    const char *format = ckpt_file_format(facts->f);
    bool for_torch_load = facts->info.weights_only >= 0;
    if (strcmp(format, "hf-shards") == 0)
        return for_torch_load ? ".pt" : ".safetensors";
    return for_torch_load || ckpt_write_format(format) ? NULL : ".pt";
}

/* add_fix - adds the command that removes the prefix of WRAPPER. One --auto removes all certain prefixes;
 * any other prefix may be the real name of a submodule. */
static void add_fix(const struct facts *facts, const ckpt_wrapper *wrapper, bool *auto_printed,
                    struct text *out)
{
    if (wrapper->certain && *auto_printed)
        return;
    if (wrapper->certain) {
        text_add(out, "   fix: ckpt strip --auto ");
        *auto_printed = true;
    } else {
        text_addf(out, "   if a wrapper left it: ckpt strip %s%s ", wrapper->anywhere ? "--anywhere " : "",
                  escape_name(wrapper->prefix));
    }
    text_operand(out, ckpt_file_path(facts->f));
    text_add(out, " -o ");
    text_new_name(out, "fixed", ckpt_file_path(facts->f), get_output_suffix(facts));
}

/* add_prefix - adds PREFIX, which COUNT of ALL tensors have, and WHERE, the name of their mapping or
 * empty. */
static void add_prefix(struct text *out, ckpt_str prefix, uint64_t count, uint64_t all, ckpt_str where)
{
    text_addf(out, "%s   on %s%s", escape_name(prefix), count == all ? "all " : "", show_count(count));
    if (count != all)
        text_addf(out, " of %s", show_count(all));
    if (where.len)
        text_addf(out, " of %s", escape_name(where));
}

static void print_wrappers(const struct facts *facts, struct text *out)
{
    bool auto_printed = false;
    for (size_t i = 0; i < facts->info.nwrappers; i++) {
        const ckpt_wrapper *wrapper = ckpt_wrapper_at(facts->f, i);
        begin_label(out, i ? "" : "prefix");
        add_prefix(out, wrapper->prefix, wrapper->tensors, wrapper->of, wrapper->where);
        add_fix(facts, wrapper, &auto_printed, out);
        line_put(out);
    }
}

/* take - removes PREFIX from the beginning of *TEXT; false: *TEXT begins otherwise. */
static bool take(ckpt_str *text, ckpt_str prefix)
{
    bool begins = str_begins(*text, prefix);
    if (begins)
        *text = (ckpt_str){text->ptr + prefix.len, text->len - prefix.len};
    return begins;
}

/* is_name_taken - returns true if a tensor has the name that another gets without the prefix of WEIGHTS. Few
 * names have to be looked for: those that would not begin with the prefix, with it, and those that begin with
 * it twice, without one of the two. */
static bool is_name_taken(const struct facts *facts, const ckpt_weights *weights)
{
    struct text name = {0};
    bool is_taken = false;
    text_bytes(&name, weights->name.ptr, weights->name.len);
    text_add(&name, weights->name.len ? "." : "");
    size_t root = name.len, after = root + weights->prefix.len;
    text_bytes(&name, weights->prefix.ptr, weights->prefix.len);
    for (uint32_t i = 0, count = ckpt_tensor_count(facts->f); !is_taken && i < count; i++) {
        ckpt_str left = ckpt_tensor_name(facts->f, i);
        if (left.len <= root || !take(&left, (ckpt_str){name.ptr, root}) ||
            (take(&left, weights->prefix) && !take(&left, weights->prefix)))
            continue;
        text_cut(&name, after);
        text_bytes(&name, left.ptr, left.len);
        is_taken = ckpt_tensor_find(facts->f, (ckpt_str){name.ptr, name.len}) != CKPT_NO_TENSOR;
    }
    text_free(&name);
    return is_taken;
}

/* add_prefix_command - adds the command that removes the prefix of WEIGHTS. A prefix that less than three
 * quarters of the keys have is the name of an averaged copy; the command then converts only that copy. */
static void add_prefix_command(const struct facts *facts, const ckpt_weights *weights, struct text *out)
{
    bool is_copy = weights->prefixed < weights->tensors - weights->tensors / 4;
    struct text path = {0};
    if (!is_copy && is_name_taken(facts, weights))
        return; /* no command removes it from all keys */
    if (is_copy && weights->name.len) {
        text_bytes(&path, weights->name.ptr, weights->name.len);
        text_add(&path, ".");
    }
    size_t dot_len = is_copy ? 1 : 0; /* a root has no dot at its end */
    text_bytes(&path, weights->prefix.ptr, weights->prefix.len - dot_len);
    text_add(out, is_copy ? "   alone: ckpt convert --root "
                          : "   common prefix (often a real module); to remove it: ckpt strip ");
    bool is_dashed = !is_copy && path.ptr[0] == '-'; /* without -- it would be an option */
    struct text output = {0};
    text_new_name(&output, "fixed", ckpt_file_path(facts->f), get_output_suffix(facts));
    if (is_dashed)
        text_addf(out, "-o %s -- ", output.ptr);
    text_shell(out, path.ptr);
    text_add(out, " ");
    text_operand(out, ckpt_file_path(facts->f));
    if (!is_dashed)
        text_addf(out, "%s%s", is_copy ? " " : " -o ", output.ptr);
    text_free(&output);
    text_free(&path);
}

static void print_prefixes(const struct facts *facts, struct text *out)
{
    bool is_first = !facts->info.nwrappers;
    for (size_t i = 0; i < facts->info.nweights; i++) {
        const ckpt_weights *weights = ckpt_weights_at(facts->f, i);
        if (!weights->prefix.len)
            continue;
        begin_label(out, is_first ? "prefix" : "");
        is_first = false;
        add_prefix(out, weights->prefix, weights->prefixed, weights->tensors, weights->name);
        add_prefix_command(facts, weights, out);
        line_put(out);
    }
}

static void print_optimizer(const struct facts *facts, struct text *out)
{
    if (!facts->info.optimizer.len)
        return;
    begin_label(out, "optimizer");
    add_name_and_gap(out, facts->info.optimizer_path);
    text_name(out, facts->info.optimizer);
    line_put(out);
}

/* States other than that of the optimizer: their label, their key in JSON, the text after their number. */
static const struct state_title {
    ckpt_state state;
    const char *label, *key, *after;
} state_titles[] = {{CKPT_STATE_METRIC, "metrics", "metrics", ", by the names"},
                    {CKPT_STATE_CHECKPOINT, "checkpoint", "checkpoint", " of tf.train.Checkpoint itself"}};

enum { STATE_TITLES = sizeof state_titles / sizeof *state_titles };

static void print_states(const struct facts *facts, struct text *out)
{
    for (size_t i = 0; i < STATE_TITLES; i++) {
        uint64_t n = facts->states[state_titles[i].state];
        if (!n)
            continue;
        print_labelled(out, state_titles[i].label, "%" PRIu64 " tensor%s%s", n, n == 1 ? "" : "s",
                       state_titles[i].after);
    }
}

/* add_scalar - adds ROW if it is a scalar whose number is known; else returns false. */
static bool add_scalar(const struct facts *facts, uint32_t row, struct text *out)
{
    const ckpt_tensor t = tensor_at(facts->f, row);
    uint8_t bytes[32];
    char shown[NUMBER_TEXT_SIZE];
    if (!is_scalar(&t) || t.nbytes > sizeof bytes)
        return false;
    if (!number_bytes((ckpt_dtype)t.dtype) || number_read(facts->f, row, 0, 1, bytes, NULL) != CKPT_OK)
        return false;
    struct number v = number_decode(number_shown_dtype((ckpt_dtype)t.dtype), bytes);
    text_name(out, t.name);
    text_addf(out, " = numpy %s %s", ckpt_dtype_name((ckpt_dtype)t.dtype), number_text(&v, shown));
    return true;
}

/* A line of at most MAX_VALUES values. */
struct value_list {
    struct text *out;
    size_t nshown, ncounted; /* how many values are shown, and how many are only counted */
};

/* begin_list_item - begins the next value of LIST; if the line is full, only counts it and returns false. */
static bool begin_list_item(struct value_list *list)
{
    if (list->nshown == MAX_VALUES) {
        list->ncounted++;
        return false;
    }
    text_add(list->out, list->nshown++ ? ", " : "");
    return true;
}

/* How interesting a value is: hyper-parameters come first, the state of schedulers and the like last. */
enum interest { HYPER_PARAMETER, OTHER, INTERNAL };

static enum interest interest_of(const ckpt_leaf *leaf)
{
    static const char *const hyper[] = {"hyper_parameters", "hparams", "args",   "config",   "cfg", "opt",
                                        "options",          "params",  "kwargs", "training", "meta"};
    static const char *const internal[] = {"schedul", "loops", "callbacks", "scaler", "rng", "random"};
    struct text first = {0};
    enum interest found = OTHER;
    if (leaf->npath < 2 || leaf->path[0].is_int)
        return OTHER;
    text_name(&first, leaf->path[0].str);
    for (size_t i = 0; i < sizeof hyper / sizeof *hyper; i++)
        found = strcmp(first.ptr, hyper[i]) == 0 ? HYPER_PARAMETER : found;
    for (size_t i = 0; i < sizeof internal / sizeof *internal; i++)
        found = strstr(first.ptr, internal[i]) ? INTERNAL : found;
    text_free(&first);
    return found;
}

/* add_value - adds VALUE, cut if it is long; `ckpt show` prints all of it. */
static void add_value(struct text *out, const ckpt_value *value)
{
    size_t begin = out->len, end = begin + MAX_VALUE_BYTES;
    text_value(out, value, MAX_VALUE_NODES);
    if (out->len <= end)
        return;
    while (end > begin && (out->ptr[end] & 0xc0) == 0x80) /* within a UTF-8 sequence */
        end--;
    text_cut(out, end);
    text_add(out, "...");
}

static bool is_in_optimizer(const struct facts *facts, const ckpt_leaf *leaf)
{
    return facts->info.optimizer_path.len && is_below(leaf->name, facts->info.optimizer_path);
}

/* count_deep_leaves - returns how many values are too deep to be listed, without those of the optimizer. */
static size_t count_deep_leaves(const struct facts *facts)
{
    const ckpt_leaf *leaf;
    size_t n = 0;
    for (size_t i = 0; (leaf = ckpt_leaf_at(facts->f, i)); i++)
        n += leaf->npath > MAX_VALUE_DEPTH && !is_in_optimizer(facts, leaf);
    return n;
}

static void add_leaves(const struct facts *facts, struct value_list *list, uint32_t level,
                       enum interest interest)
{
    const ckpt_leaf *leaf;
    for (size_t i = 0; (leaf = ckpt_leaf_at(facts->f, i)); i++) {
        if (leaf->npath != level || interest_of(leaf) != interest || is_in_optimizer(facts, leaf))
            continue;
        if (!begin_list_item(list))
            continue;
        text_addf(list->out, "%s = ", escape_name(leaf->name));
        add_value(list->out, leaf->value);
    }
}

static void print_info_values(const struct facts *facts, struct text *out)
{
    struct value_list list = {.out = out};
    struct text scalar = {0};
    begin_label(out, "values");
    add_leaves(facts, &list, 1, OTHER);
    for (uint32_t i = 0; facts->nscalars && i < ckpt_tensor_count(facts->f); i++) {
        text_clear(&scalar);
        if (add_scalar(facts, i, &scalar) && begin_list_item(&list))
            text_add(out, scalar.ptr);
    }
    text_free(&scalar);
    for (enum interest i = HYPER_PARAMETER; i <= INTERNAL; i++)
        add_leaves(facts, &list, MAX_VALUE_DEPTH, i);
    list.ncounted += count_deep_leaves(facts);
    if (list.ncounted)
        text_addf(out, "%s%zu%s: ckpt ls --values", list.nshown ? " and " : "", list.ncounted,
                  list.nshown ? " more" : "");
    if (list.nshown || list.ncounted)
        line_put(out);
}

static void print_info_metadata(const struct facts *facts, struct text *out)
{
    struct value_list list = {.out = out};
    ckpt_leaf pair;
    begin_label(out, "metadata");
    for (size_t i = 0; metadata_next(facts->f, &i, &pair);) {
        if (!begin_list_item(&list))
            continue;
        text_addf(out, "%s = ", escape_name(pair.path[1].str));
        add_value(out, pair.value);
    }
    if (list.ncounted)
        text_addf(out, " and %zu more: ckpt meta", list.ncounted);
    if (list.nshown)
        line_put(out);
}

static int compare_elements(const void *left, const void *right)
{
    const struct totals *x = *(const struct totals *const *)left, *y = *(const struct totals *const *)right;
    if (x->elements != y->elements)
        return x->elements > y->elements ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void print_dtypes(const struct facts *facts, struct text *out)
{
    const struct totals *used[DTYPE_SLOTS];
    size_t n = 0;
    begin_label(out, "dtypes");
    for (size_t d = 1; d < DTYPE_SLOTS; d++)
        if (facts->by_dtype[d].elements || (facts->by_dtype[d].tensors && d < DTYPES && d != CKPT_DT_NAMED))
            used[n++] = &facts->by_dtype[d];
    qsort(used, n, sizeof *used, compare_elements);
    for (size_t i = 0; i < n; i++) {
        const char *name = get_dtype_name(facts, (size_t)(used[i] - facts->by_dtype));
        text_addf(out, "%s%s %s (%s)", i ? ", " : "", name, show_count(used[i]->elements),
                  show_size(used[i]->bytes));
    }
    if (n)
        line_put(out);
}

static void print_quantized(const struct facts *facts, struct text *out)
{
    const ckpt_quantized *q;
    begin_label(out, "quantized");
    for (size_t i = 0; (q = ckpt_quantized_at(facts->f, i)); i++)
        text_addf(out, "%s%s%s", i ? ", " : "", show_noun(q->weights, "weight by ", "weights by "),
                  escape_name(q->scheme));
    if (facts->info.nquantized)
        line_put(out);
}

static void print_adapter(const struct facts *facts, struct text *out)
{
    const ckpt_adapter *adapter = facts->info.adapter;
    if (!adapter)
        return;
    begin_label(out, "adapter");
    text_addf(out, "LoRA of rank %" PRIu64, adapter->rank_min);
    if (adapter->rank_max != adapter->rank_min)
        text_addf(out, " to %" PRIu64, adapter->rank_max);
    text_addf(out, " for %s", show_noun(adapter->modules, "module", "modules"));
    line_put(out);
}

static void print_info_remarks(const struct facts *facts, struct text *out)
{
    const ckpt_info *info = &facts->info;
    if (info->aliases)
        print_labelled(out, "ties", "%s the bytes of another tensor",
                       show_noun(info->aliases, "name shares", "names share"));
    if (info->unreferenced)
        print_labelled(out, "unused", "%s that no tensor uses", show_size(info->unreferenced));
    if (info->executes_code)
        print_labelled(out, "code", "loading the file runs code in it; ckpt does not run it");
    bool has_reason = !info->weights_only && info->weights_only_why.len;
    if (info->weights_only >= 0)
        print_labelled(out, "load", "torch.load(weights_only=True) %s%s%s",
                       info->weights_only ? "loads it" : "refuses it", has_reason ? ": " : "",
                       has_reason ? escape_name(info->weights_only_why) : "");
}

static void print_info_text(const struct facts *facts)
{
    struct text out = {0};
    print_title(facts, &out);
    print_ranks(facts, &out);
    print_weights(facts, &out);
    print_more_weights(facts, &out);
    print_wrappers(facts, &out);
    print_prefixes(facts, &out);
    print_optimizer(facts, &out);
    print_states(facts, &out);
    print_info_values(facts, &out);
    print_info_metadata(facts, &out);
    print_dtypes(facts, &out);
    print_quantized(facts, &out);
    print_adapter(facts, &out);
    print_info_remarks(facts, &out);
    text_free(&out);
}

static void wrappers_json(json *object, const struct facts *facts)
{
    json *list = json_add_array(object, "wrappers");
    for (size_t i = 0; i < facts->info.nwrappers; i++) {
        const ckpt_wrapper *wrapper = ckpt_wrapper_at(facts->f, i);
        json *item = json_add_object(list, NULL);
        json_str(item, "prefix", wrapper->prefix);
        json_str(item, "where", wrapper->where);
        json_u64(item, "tensors", wrapper->tensors);
        json_u64(item, "mapping_tensors", wrapper->of);
        json_bool(item, "anywhere", wrapper->anywhere);
        json_bool(item, "certain", wrapper->certain);
    }
}

/* mappings_json - adds all mappings that are weights, averaged ones too, with the prefix that their keys
 * share. */
static void mappings_json(json *object, const struct facts *facts)
{
    json *list = json_add_array(object, "mappings");
    for (size_t i = 0; i < facts->info.nweights; i++) {
        const ckpt_weights *weights = ckpt_weights_at(facts->f, i);
        json *item = json_add_object(list, NULL);
        json_str(item, "name", weights->name);
        json_bool(item, "averaged", weights->averaged);
        json_totals(item, "total", weights->tensors, weights->elements, weights->bytes);
        if (!weights->prefix.len) {
            json_null(item, "prefix");
            continue;
        }
        json *prefix = json_add_object(item, "prefix");
        json_str(prefix, "prefix", weights->prefix);
        json_u64(prefix, "tensors", weights->prefixed);
    }
}

static void weights_json(json *object, const struct facts *facts)
{
    if (!facts->info.has_weights) {
        json_null(object, "weights_root");
        return;
    }
    json_str(object, "weights_root", facts->info.weights_root);
    json_str(object, "weights_why", facts->info.weights_why);
    json_totals(object, "weights", facts->weights.tensors, facts->weights.elements, facts->weights.bytes);
}

static void aliases_json(json *object, const ckpt_file *f)
{
    json *list = json_add_array(object, "aliases");
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        const ckpt_tensor t = tensor_at(f, i);
        if (t.alias_of == CKPT_NO_TENSOR)
            continue;
        json_alias(list, t.name, ckpt_tensor_name(f, t.alias_of));
    }
}

static void optimizer_json(json *object, const ckpt_info *info)
{
    if (!info->optimizer.len) {
        json_null(object, "optimizer");
        return;
    }
    json *item = json_add_object(object, "optimizer");
    json_str(item, "where", info->optimizer_path);
    json_str(item, "summary", info->optimizer);
}

static void info_values_json(json *object, const struct facts *facts)
{
    json *list = json_add_array(object, "values");
    const ckpt_leaf *leaf;
    for (size_t i = 0; (leaf = ckpt_leaf_at(facts->f, i)); i++)
        if (leaf->npath <= MAX_VALUE_DEPTH && !is_in_optimizer(facts, leaf))
            json_leaf(json_add_object(list, NULL), leaf);
    json_u64(object, "values_left_out", count_deep_leaves(facts));
}

static void quantized_json(json *object, const ckpt_file *f)
{
    json *list = json_add_array(object, "quantized");
    const ckpt_quantized *q;
    for (size_t i = 0; (q = ckpt_quantized_at(f, i)); i++) {
        json *item = json_add_object(list, NULL);
        json_str(item, "scheme", q->scheme);
        json_u64(item, "weights", q->weights);
    }
}

static void adapter_json(json *object, const ckpt_adapter *adapter)
{
    if (!adapter)
        return;
    json *item = json_add_object(object, "adapter");
    json_text(item, "kind", "LoRA");
    json_u64(item, "modules", adapter->modules);
    json_u64(item, "rank_min", adapter->rank_min);
    json_u64(item, "rank_max", adapter->rank_max);
}

static void ranks_json(json *object, const ckpt_ranks *ranks)
{
    struct parallel_axis axis[3];
    if (!ranks)
        return;
    json *item = json_add_object(object, "ranks");
    if (ranks->ranks)
        json_u64(item, "count", ranks->ranks);
    for (size_t i = 0, n = parallel_axes(ranks, axis); i < n; i++)
        json_u64(item, axis[i].key, axis[i].ranks);
    if (ranks->has_step)
        json_u64(item, "step", ranks->step);
}

static void print_info_json(const struct facts *facts)
{
    const ckpt_info *info = &facts->info;
    json *j = json_schema("ckpt.info.v1");
    json_text(j, "file", ckpt_file_path(facts->f));
    json_text(j, "format", ckpt_file_format(facts->f));
    json_u64(j, "bytes", ckpt_file_bytes(facts->f));
    if (info->producer.len)
        json_str(j, "producer", info->producer);
    ranks_json(j, info->ranks);
    wrappers_json(j, facts);
    weights_json(j, facts);
    mappings_json(j, facts);
    json *dtypes = json_add_object(j, "dtypes");
    for (size_t d = 1; d < DTYPE_SLOTS; d++)
        if (facts->by_dtype[d].tensors)
            json_totals(dtypes, get_dtype_name(facts, d), facts->by_dtype[d].tensors,
                        facts->by_dtype[d].elements, facts->by_dtype[d].bytes);
    json_totals(j, "total", facts->all.tensors, facts->all.elements, facts->all.bytes);
    quantized_json(j, facts->f);
    adapter_json(j, info->adapter);
    optimizer_json(j, info);
    for (size_t i = 0; i < STATE_TITLES; i++)
        if (facts->states[state_titles[i].state])
            json_u64(j, state_titles[i].key, facts->states[state_titles[i].state]);
    info_values_json(j, facts);
    metadata_json(j, facts->f);
    aliases_json(j, facts->f);
    json_u64(j, "unreferenced_bytes", info->unreferenced);
    json_bool(j, "executes_code", info->executes_code);
    if (info->weights_only < 0) {
        json_null(j, "weights_only");
    } else {
        json *weights_only = json_add_object(j, "weights_only");
        json_bool(weights_only, "ok", info->weights_only != 0);
        json_str(weights_only, "why", info->weights_only_why);
    }
    json_line(j, stdout);
}

/* ----------------------------------------------------------------- records */

static void add_totals_fields(struct record *record, const struct totals *sum)
{
    record_field_uint(record, sum->tensors);
    record_field_uint(record, sum->elements);
    record_field_uint(record, sum->bytes);
}

/* add_dtypes_field - adds a field such as "float32:11028 int64:2", by the number of elements. */
static void add_dtypes_field(struct record *record, const struct facts *facts)
{
    const char *gap = "";
    for (size_t d = 1; d < DTYPE_SLOTS; d++) {
        if (!facts->by_dtype[d].tensors)
            continue;
        text_addf(&record->text, "%s%s:%" PRIu64, gap, get_dtype_name(facts, d), facts->by_dtype[d].elements);
        gap = " ";
    }
    record_field(record);
}

/* add_prefix_field - adds a field with the prefixes that certainly come from a wrapper. */
static void add_prefix_field(struct record *record, const struct facts *facts)
{
    const char *gap = "";
    for (size_t i = 0; i < facts->info.nwrappers; i++) {
        const ckpt_wrapper *wrapper = ckpt_wrapper_at(facts->f, i);
        if (!wrapper->certain)
            continue;
        text_add(&record->text, gap);
        text_name(&record->text, wrapper->prefix);
        gap = " ";
    }
    record_field(record);
}

static void print_info_record(const struct facts *facts)
{
    static const char *const titles[] = {"format",        "producer",        "size",
                                         "tensors",       "elements",        "bytes",
                                         "weights_root",  "weights_tensors", "weights_elements",
                                         "weights_bytes", "dtypes",          "prefix",
                                         "optimizer",     "weights_only"};
    static const char *const weights_only[] = {"", "refuses", "loads"};
    struct record r = {0};
    records_header(titles, sizeof titles / sizeof *titles);
    record_field_name(&r, str_c(ckpt_file_format(facts->f)));
    record_field_name(&r, facts->info.producer);
    record_field_uint(&r, ckpt_file_bytes(facts->f));
    add_totals_fields(&r, &facts->all);
    record_field_name(&r, facts->info.weights_root);
    add_totals_fields(&r, &facts->weights);
    add_dtypes_field(&r, facts);
    add_prefix_field(&r, facts);
    record_field_name(&r, facts->info.optimizer);
    record_field_text(&r, weights_only[facts->info.weights_only < 0 ? 0 : facts->info.weights_only ? 2 : 1]);
    record_put(&r);
    record_free(&r);
}

static int print_info(const char *path)
{
    struct facts facts = {.f = open_input(path, false), .info = CKPT_INIT(ckpt_info)};
    ckpt_error err;
    int status = EXIT_OK;
    if (!facts.f)
        return EXIT_TROUBLE;
    if (ckpt_inspect(facts.f, &facts.info, &err) != CKPT_OK) {
        status = report_error(&err, path);
    } else {
        count_tensors(&facts);
        if (ui.json)
            print_info_json(&facts);
        else if (records_option())
            print_info_record(&facts);
        else
            print_info_text(&facts);
    }
    close_input(facts.f);
    return status;
}

int run_info(int count, char **operand)
{
    int status = records_check("info");
    if (status == EXIT_OK && records.header && !records_option())
        status = usage_error("info", "--header is for --tsv and --csv");
    if (status != EXIT_OK)
        return status;
    return files_each(count, operand, records_option() ? FILES_COLUMN : FILES_BLOCKS, print_info);
}
