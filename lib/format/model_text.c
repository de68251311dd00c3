/* model_text.c - see model_text.h.
 *
 * MODULE  KIND(ARGUMENTS)
 * KIND( LF CHILD… )          lines in it that are neither a child nor ")" are skipped
 * CHILD   (NAME): MODULE
 * (FIRST-LAST): COUNT x MODULE
 * (NAME): Parameter containing: [DTYPE of size 2x3]
 *
 * The parameters of a KIND in module_kinds.def, and their shapes, follow from the arguments. Others are not
 * in the text, and a notice reports that. */
#include "format/model_text.h"

#include <stdio.h>

#include "base/checked.h"
#include "base/utf8.h"

enum { MAX_LEVELS = 64, MAX_ARGUMENTS = 32 };

enum module_kind {
#define MODULE_KIND(id, names) MODULE_##id,
#include "format/module_kinds.def"
#undef MODULE_KIND
    MODULE_UNKNOWN
};

/* One module that is open, or the innermost one. */
struct level {
    ckpt_str name;        /* of the child in its parent; .len 0: the root, or a range */
    uint64_t first, last; /* of a range */
    uint64_t at;          /* the number in it whose names are being added */
    bool is_range;
    enum module_kind kind;
};

struct model_text {
    ckpt_file *f;
    struct level levels[MAX_LEVELS];
    size_t nlevels;
    ckpt_str arguments; /* of the innermost module */
    ckpt_str unknown;   /* the first kind that is not known and has no children */
    uint64_t nunknown;
    bool has_own; /* a module with children is of a class that may have parameters of its own */
    ckpt_status st;
};

/* -------------------------------------------------------------------------------- kinds */

static bool is_word(char character)
{
    return is_ascii_alnum(character) || character == '_' || character == '.';
}

/* matches_kind - returns true if NAME is PATTERN, which may begin or end with a star. */
static bool matches_kind(ckpt_str name, ckpt_str pattern)
{
    if (pattern.ptr[0] == '*')
        return name.len > pattern.len && str_ends(name, str_skip(pattern, 1));
    if (pattern.ptr[pattern.len - 1] == '*')
        return str_starts(name, str_first(pattern, pattern.len - 1));
    return str_eq(name, pattern);
}

static enum module_kind find_kind(ckpt_str name)
{
    static const char *const kinds[] = {
#define MODULE_KIND(id, names) names,
#include "format/module_kinds.def"
#undef MODULE_KIND
    };
    ckpt_str last = str_after_last(name, '.');
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_matches_word(last, kinds[i], str_eq))
            return (enum module_kind)i;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_matches_word(last, kinds[i], matches_kind))
            return (enum module_kind)i;
    return MODULE_UNKNOWN;
}

/* ---------------------------------------------------------------------------- arguments */

/* take_argument - removes the next argument from *REST; false: there is none. */
static bool take_argument(ckpt_str *rest, ckpt_str *argument)
{
    size_t n = 0, depth = 0;
    *rest = str_trim_start(*rest, " ");
    for (; n < rest->len && (depth || rest->ptr[n] != ','); n++) {
        depth += rest->ptr[n] == '(' || rest->ptr[n] == '[';
        depth -= depth && (rest->ptr[n] == ')' || rest->ptr[n] == ']');
    }
    *argument = str_trim_end(str_first(*rest, n), " ");
    *rest = str_skip(*rest, n + 1);
    return argument->len != 0;
}

/* find_argument - sets *OUT to the argument called NAME or, if that is not given, positional argument
 * INDEX. */
static bool find_argument(const struct model_text *text, size_t index, const char *name, ckpt_str *out)
{
    ckpt_str rest = text->arguments, argument;
    bool found = false;
    for (size_t i = 0; i < MAX_ARGUMENTS && take_argument(&rest, &argument); i++) {
        ckpt_str key = str_before(argument, '=');
        if (key.len == argument.len && i == index && !found) {
            *out = argument;
            found = true;
        } else if (key.len < argument.len && str_is(key, name)) {
            *out = str_skip(argument, key.len + 1);
            found = true;
        }
    }
    return found;
}

#define NO_INDEX SIZE_MAX

static bool find_number(const struct model_text *text, size_t index, const char *name, uint64_t *out)
{
    ckpt_str argument;
    return find_argument(text, index, name, &argument) && str_uint(argument, out);
}

/* number_or - returns the argument called NAME, or OTHERWISE. */
static uint64_t number_or(const struct model_text *text, const char *name, uint64_t otherwise)
{
    uint64_t number;
    return find_number(text, NO_INDEX, name, &number) ? number : otherwise;
}

static bool is_true(const struct model_text *text, const char *name, bool otherwise)
{
    ckpt_str argument;
    return find_argument(text, NO_INDEX, name, &argument) ? str_is(argument, "True") : otherwise;
}

/* find_sizes - sets SHAPE to a tuple such as "(3, 3)", or a number; *NDIM is their number. */
static bool find_sizes(const struct model_text *text, size_t index, const char *name, uint64_t *shape,
                       uint32_t max, uint32_t *ndim)
{
    ckpt_str argument, size;
    *ndim = 0;
    if (!find_argument(text, index, name, &argument))
        return false;
    argument = str_trim_end(str_trim_start(argument, "(["), ")]");
    while (take_argument(&argument, &size))
        if (*ndim == max || !str_uint(size, &shape[(*ndim)++]))
            return false;
    return *ndim > 0;
}

/* -------------------------------------------------------------------------------- names */

/* add_one - adds a tensor with the numbers that the ranges have now. DEPTH: how many levels are in its
 * name. */
static ckpt_status add_one(struct model_text *text, size_t depth, const struct named_shape *tensor)
{
    struct named_shape named = *tensor;
    ckpt_str parts[2 * MAX_LEVELS + 1];
    char numbers[MAX_LEVELS][STR_NUMBER_MAX];
    size_t n = 0;
    for (size_t i = 1; i < depth; i++) {
        const struct level *level = &text->levels[i];
        parts[n++] = level->is_range ? format_number(level->at, numbers[i]) : level->name;
        parts[n++] = STR_LIT(".");
    }
    parts[n++] = tensor->name;
    named.name = arena_join(text->f->a, parts, tensor->name.len ? n : n - 2);
    return named.name.ptr ? names_add(text->f, &named) : CKPT_ENOMEM;
}

/* next_numbers - sets the ranges to the next numbers; false: there are no more, and they are the first
 * again. */
static bool next_numbers(struct model_text *text, size_t depth)
{
    for (size_t i = depth; i-- > 1;) {
        struct level *level = &text->levels[i];
        if (level->is_range && level->at < level->last) {
            level->at++;
            return true;
        }
        level->at = level->first;
    }
    return false;
}

/* add_at - adds the tensor called NAME of the module that is DEPTH levels deep, once for each number of the
 * ranges. SHAPE NULL: it is not known. */
static void add_at(struct model_text *text, size_t depth, const char *name, const uint64_t *shape,
                   uint32_t ndim)
{
    struct named_shape tensor = {.name = str_c(name), .has_shape = shape != NULL, .ndim = shape ? ndim : 0};
    if (shape && ndim)
        memcpy(tensor.shape, shape, ndim * sizeof *shape);
    do {
        if (text->st == CKPT_OK)
            text->st = add_one(text, depth, &tensor);
    } while (next_numbers(text, depth) && text->st == CKPT_OK);
}

static void add(struct model_text *text, const char *name, const uint64_t *shape, uint32_t ndim)
{
    add_at(text, text->nlevels, name, shape, ndim);
}

static void add_vector(struct model_text *text, const char *name, bool is_known, uint64_t size)
{
    add(text, name, is_known ? &size : NULL, 1);
}

static void add_matrix(struct model_text *text, const char *name, bool is_known, uint64_t rows,
                       uint64_t columns)
{
    const uint64_t shape[] = {rows, columns};
    add(text, name, is_known ? shape : NULL, 2);
}

/* --------------------------------------------------------------------------- parameters */

/* add_attention - adds the joined matrix of a MultiheadAttention, whose out_proj is the current module. */
static void add_attention(struct model_text *text, uint64_t size, bool has_bias)
{
    const uint64_t shape[] = {3 * size, size};
    const struct level *level = &text->levels[text->nlevels - 1];
    if (text->nlevels < 2 || text->levels[text->nlevels - 2].kind != MODULE_CONTAINER ||
        !str_is(level->name, "out_proj") || size > UINT32_MAX)
        return;
    add_at(text, text->nlevels - 1, "in_proj_weight", shape, 2);
    if (has_bias)
        add_at(text, text->nlevels - 1, "in_proj_bias", shape, 1);
}

static void add_linear(struct model_text *text, ckpt_str kind)
{
    uint64_t in = 0, out = 0;
    bool is_known = find_number(text, 0, "in_features", &in) && find_number(text, 1, "out_features", &out);
    bool has_bias = is_true(text, "bias", true);
    if (is_known && str_is(kind, "NonDynamicallyQuantizableLinear"))
        add_attention(text, in, has_bias);
    add_matrix(text, "weight", is_known, out, in);
    if (has_bias)
        add_vector(text, "bias", is_known, out);
}

static void add_bilinear(struct model_text *text)
{
    uint64_t shape[3] = {0};
    bool is_known = find_number(text, 0, "in1_features", &shape[1]) &&
                    find_number(text, 1, "in2_features", &shape[2]) &&
                    find_number(text, 2, "out_features", &shape[0]);
    add(text, "weight", is_known ? shape : NULL, 3);
    if (is_true(text, "bias", true))
        add_vector(text, "bias", is_known, shape[0]);
}

/* add_gpt2 - adds the parameters of Conv1D of transformers, a linear layer whose matrix is transposed. */
static void add_gpt2(struct model_text *text)
{
    uint64_t out = 0, in = 0;
    bool is_known = find_number(text, NO_INDEX, "nf", &out) && find_number(text, NO_INDEX, "nx", &in);
    add_matrix(text, "weight", is_known, in, out);
    add_vector(text, "bias", is_known, out);
}

static void add_embedding(struct model_text *text)
{
    uint64_t count = 0, size = 0;
    bool is_known = find_number(text, 0, "num_embeddings", &count) &&
                    find_number(text, 1, "embedding_dim", &size);
    add_matrix(text, "weight", is_known, count, size);
}

static void add_convolution(struct model_text *text, bool is_transposed)
{
    uint64_t shape[5] = {0}, in = 0, out = 0, ngroups = number_or(text, "groups", 1);
    uint32_t ndim = 0;
    bool is_known = find_number(text, 0, "in_channels", &in) && find_number(text, 1, "out_channels", &out) &&
                    find_sizes(text, NO_INDEX, "kernel_size", shape + 2, 3, &ndim) && ngroups;
    if (is_known) {
        shape[0] = is_transposed ? in : out;
        shape[1] = (is_transposed ? out : in) / ngroups;
    }
    add(text, "weight", is_known ? shape : NULL, ndim + 2);
    if (is_true(text, "bias", true))
        add_vector(text, "bias", is_known, out);
}

/* add_norm - adds scale and shift of COUNT channels, the first positional argument, and what is tracked. */
static void add_norm(struct model_text *text, bool has_scale, bool is_tracked)
{
    uint64_t count = 0;
    bool is_known = find_number(text, 0, "num_features", &count);
    if (is_true(text, "affine", has_scale)) {
        add_vector(text, "weight", is_known, count);
        if (is_true(text, "bias", true))
            add_vector(text, "bias", is_known, count);
    }
    if (is_true(text, "track_running_stats", is_tracked)) {
        add_vector(text, "running_mean", is_known, count);
        add_vector(text, "running_var", is_known, count);
        add(text, "num_batches_tracked", &count, 0);
    }
}

static void add_layer_norm(struct model_text *text, bool has_bias)
{
    uint64_t shape[8];
    uint32_t ndim;
    bool is_known = find_sizes(text, 0, "normalized_shape", shape, 8, &ndim);
    if (!is_true(text, "elementwise_affine", true))
        return;
    add(text, "weight", is_known ? shape : NULL, ndim);
    if (has_bias && is_true(text, "bias", true))
        add(text, "bias", is_known ? shape : NULL, ndim);
}

static void add_group_norm(struct model_text *text)
{
    uint64_t count = 0;
    bool is_known = find_number(text, 1, "num_channels", &count);
    if (is_true(text, "affine", true)) {
        add_vector(text, "weight", is_known, count);
        if (is_true(text, "bias", true))
            add_vector(text, "bias", is_known, count);
    }
}

/* add_recurrent_layer - adds the parameters of one direction of a layer, whose names end in SUFFIX. */
static void add_recurrent_layer(struct model_text *text, const uint64_t *sizes, uint64_t in,
                                const char *suffix)
{
    uint64_t ngates = sizes[0], hidden = sizes[1], projected = sizes[2], out = projected ? projected : hidden,
             rows = 0;
    char name[64];
    bool is_known = checked_mul(ngates, hidden, &rows);
    static const char *const words[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    for (size_t i = 0; i < 4; i++) {
        if (i >= 2 && !is_true(text, "bias", true))
            break;
        (void)snprintf(name, sizeof name, "%s%s", words[i], suffix);
        if (i < 2)
            add_matrix(text, name, is_known, rows, i ? out : in);
        else
            add_vector(text, name, is_known, rows);
    }
    (void)snprintf(name, sizeof name, "weight_hr%s", suffix);
    if (projected)
        add_matrix(text, name, true, projected, hidden);
}

static void add_recurrent(struct model_text *text, uint64_t ngates, bool is_cell)
{
    uint64_t in = 0, sizes[3] = {ngates, 0, number_or(text, "proj_size", 0)};
    uint64_t nlayers = number_or(text, "num_layers", 1);
    unsigned ndirections = is_true(text, "bidirectional", false) ? 2 : 1;
    bool is_known = find_number(text, 0, "input_size", &in) && find_number(text, 1, "hidden_size", &sizes[1]);
    if (!is_known || nlayers > 4096) {
        text->st = CKPT_EUNKNOWN;
        return;
    }
    if (is_cell) {
        add_recurrent_layer(text, sizes, in, "");
        return;
    }
    for (uint64_t i = 0; i < nlayers && text->st == CKPT_OK; i++)
        for (unsigned k = 0; k < ndirections; k++) {
            char suffix[40];
            uint64_t out = sizes[2] ? sizes[2] : sizes[1], from = in;
            bool fits = !i || checked_mul(out, ndirections, &from);
            (void)snprintf(suffix, sizeof suffix, "_l%u%s", (unsigned)i, k ? "_reverse" : "");
            if (fits)
                add_recurrent_layer(text, sizes, from, suffix);
        }
}

static void add_prelu(struct model_text *text)
{
    uint64_t count = 0;
    bool is_known = find_number(text, 0, "num_parameters", &count);
    add_vector(text, "weight", is_known, count);
}

/* add_module - adds the parameters of the innermost module, which is of KIND and has no children. */
static void add_module(struct model_text *text, ckpt_str kind)
{
    switch (text->levels[text->nlevels - 1].kind) {
    case MODULE_LINEAR: add_linear(text, kind); break;
    case MODULE_BILINEAR: add_bilinear(text); break;
    case MODULE_CONV1D_GPT2: add_gpt2(text); break;
    case MODULE_EMBEDDING: add_embedding(text); break;
    case MODULE_CONV: add_convolution(text, false); break;
    case MODULE_CONV_TRANSPOSE: add_convolution(text, true); break;
    case MODULE_BATCH_NORM: add_norm(text, true, true); break;
    case MODULE_INSTANCE_NORM: add_norm(text, false, false); break;
    case MODULE_LAYER_NORM: add_layer_norm(text, true); break;
    case MODULE_RMS_NORM: add_layer_norm(text, false); break;
    case MODULE_GROUP_NORM: add_group_norm(text); break;
    case MODULE_PRELU: add_prelu(text); break;
    case MODULE_LSTM: add_recurrent(text, 4, false); break;
    case MODULE_GRU: add_recurrent(text, 3, false); break;
    case MODULE_RNN: add_recurrent(text, 1, false); break;
    case MODULE_LSTM_CELL: add_recurrent(text, 4, true); break;
    case MODULE_GRU_CELL: add_recurrent(text, 3, true); break;
    case MODULE_RNN_CELL: add_recurrent(text, 1, true); break;
    case MODULE_UNKNOWN:
        text->unknown = text->unknown.len ? text->unknown : kind;
        text->nunknown++;
        break;
    case MODULE_NOTHING:
    case MODULE_CONTAINER: break;
    }
}

/* -------------------------------------------------------------------------------- lines */

static ckpt_str take_text_line(ckpt_str *rest)
{
    return str_trim_start(str_trim_end(str_take_until(rest, '\n'), " \t\r"), " \t");
}

/* take_kind - removes "KIND(" from *LINE, and sets *KIND. */
static bool take_kind(ckpt_str *line, ckpt_str *kind)
{
    size_t n = 0;
    while (n < line->len && is_word(line->ptr[n]))
        n++;
    *kind = str_first(*line, n);
    if (!n || n == line->len || line->ptr[n] != '(' || (line->ptr[0] >= '0' && line->ptr[0] <= '9'))
        return false;
    *line = str_skip(*line, n + 1);
    return true;
}

/* take_child_name - removes "(NAME): " from *LINE, and makes that the innermost level. */
static bool take_child_name(struct model_text *text, ckpt_str *line)
{
    size_t end = str_find(*line, STR_LIT("): "), 0);
    if (end == SIZE_MAX || end < 2 || text->nlevels == MAX_LEVELS)
        return false;
    struct level *level = &text->levels[text->nlevels++];
    *level = (struct level){.name = str_of(line->ptr + 1, end - 1)};
    for (size_t pos = 0; pos < level->name.len;) {
        uint32_t cp = utf8_next(level->name, &pos, false);
        if (cp == UTF8_BAD || utf8_unsafe(cp) || cp == ' ')
            return false;
    }
    *line = str_skip(*line, end + strlen("): "));
    return true;
}

/* take_parameter - reads "Parameter containing: [torch.float32 of size 2x3]", the innermost child. */
static bool take_parameter(struct model_text *text, ckpt_str line)
{
    uint64_t shape[8];
    uint32_t ndim = 0;
    size_t at = str_find(line, STR_LIT(" of size "), 0);
    if (at == SIZE_MAX || !str_ends(line, STR_LIT("]")))
        return false;
    line = str_before(str_before(str_skip(line, at + strlen(" of size ")), ']'), ' ');
    while (line.len)
        if (ndim == 8 || !str_uint(str_take_until(&line, 'x'), &shape[ndim++]))
            return false;
    add(text, "", shape, ndim);
    text->nlevels--;
    return true;
}

/* take_module - reads LINE, which has a module, as the innermost one. */
static bool take_module(struct model_text *text, ckpt_str line)
{
    ckpt_str kind;
    struct level *level = &text->levels[text->nlevels - 1];
    if (!take_kind(&line, &kind))
        return false;
    level->kind = find_kind(kind);
    if (!line.len) {
        bool is_layer = level->kind != MODULE_CONTAINER;
        text->has_own |= is_layer;
        level->kind = is_layer ? MODULE_UNKNOWN : level->kind;
        return true;
    }
    if (line.ptr[line.len - 1] != ')')
        return false;
    text->arguments = str_first(line, line.len - 1);
    ckpt_str only_child = str_trim_start(text->arguments, " "); /* of a ParameterDict */
    if (level->kind == MODULE_CONTAINER && str_starts(only_child, STR_LIT("("))) {
        if (!take_child_name(text, &only_child) || !take_parameter(text, only_child))
            return false;
    }
    add_module(text, kind);
    text->nlevels--;
    return true;
}

/* take_range - if NAME is "0-11" and *LINE begins with "12 x ", makes LEVEL that range. */
static bool take_range(ckpt_str name, ckpt_str *line, struct level *level)
{
    uint64_t count;
    ckpt_str first = str_before(name, '-'), last = str_skip(name, first.len + 1),
             digits = str_before(*line, ' ');
    ckpt_str rest = str_skip(*line, digits.len);
    if (!str_uint(first, &level->first) || !str_uint(last, &level->last) || !str_uint(digits, &count) ||
        !str_take(&rest, STR_LIT(" x ")) || level->last < level->first ||
        level->last - level->first + 1 != count)
        return false;
    level->is_range = true;
    level->at = level->first;
    *line = rest;
    return true;
}

/* take_child - reads LINE, "(NAME): …". */
static bool take_child(struct model_text *text, ckpt_str line)
{
    if (!take_child_name(text, &line))
        return false;
    struct level *level = &text->levels[text->nlevels - 1];
    (void)take_range(level->name, &line, level);
    if (str_starts(line, STR_LIT("Parameter containing: ")) || str_starts(line, STR_LIT("Object of type: ")))
        return take_parameter(text, line);
    if (str_is(line, "None")) {
        text->nlevels--;
        return true;
    }
    return take_module(text, line);
}

static bool take_lines(struct model_text *text, ckpt_str rest)
{
    ckpt_str line = take_text_line(&rest);
    while (!line.len && rest.len)
        line = take_text_line(&rest);
    text->nlevels = 1;
    if (!take_module(text, line))
        return false;
    while (rest.len && text->st == CKPT_OK) {
        line = take_text_line(&rest);
        if (!line.len)
            continue;
        if (!text->nlevels)
            return false; /* more after the model */
        if (str_is(line, ")"))
            text->nlevels--;
        else if (line.ptr[0] == '(' && !take_child(text, line))
            return false;
    }
    return text->nlevels == 0;
}

bool model_text_begins(ckpt_str text)
{
    ckpt_str kind, line = take_text_line(&text);
    while (!line.len && text.len)
        line = take_text_line(&text);
    if (!take_kind(&line, &kind))
        return false;
    bool has_child = text.len && (str_trim_start(text, " \t\r\n").len != 0);
    enum module_kind known = find_kind(kind);
    return line.len ? !has_child && line.ptr[line.len - 1] == ')' && known < MODULE_NOTHING : has_child;
}

ckpt_status model_text_read(ckpt_file *f, ckpt_str text)
{
    struct model_text reading = {.f = f};
    bool is_model = take_lines(&reading, text);
    CKPT_TRY(reading.st);
    if (!is_model)
        return CKPT_EUNKNOWN;
    f->name_list.is_incomplete = reading.nunknown || reading.has_own;
    if (reading.nunknown)
        file_notice(
            f, "%llu module%s of unknown kinds, such as %.*s: their parameters, if any, are not known",
            (unsigned long long)reading.nunknown, reading.nunknown == 1 ? "" : "s", STR_ARG(reading.unknown));
    if (reading.has_own)
        file_notice(f, "a printed model does not show parameters that its modules hold themselves");
    return CKPT_OK;
}
