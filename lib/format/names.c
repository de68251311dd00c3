/*
 * names.c - reads a text of tensor names, which is no checkpoint: what a program prints of a model, or what
 * `ckpt ls` prints. The format is not in formats.def, because nearly every text would match it.
 *
 *   LINE   [INDEX] NAME [TAB or two spaces, and anything] [CR] LF
 *          [INDEX] NAME [':'] [WORD …] [SHAPE [and anything]] [CR] LF
 *          [INDEX] NAME [':'] TENSOR [and anything] [CR] LF
 *   INDEX  0 ' ', 1 ' ', … or from 1 on: what enumerate() counts
 *   WORD   a dtype, a number (of elements), True, False
 *   or     a Python list, tuple, set or dict, or its keys() or items(), over any number of lines:
 *          ['NAME', …] odict_keys(['NAME', …]) {'NAME': SHAPE, …} [('NAME', SHAPE), …] 'NAME', …
 *          with TENSOR in place of SHAPE, too
 *   SHAPE  torch.Size([2, 3])   (2, 3)   [2, 3]
 *   TENSOR tensor(…)   "Parameter containing:" LF tensor(…)   over any number of lines; its elements tell
 *          no shape, "size=SHAPE" in it does
 *   or     the error of load_state_dict (torch/nn/modules/module.py), among any other text:
 *          Missing key(s) in state_dict: "NAME", …
 *          Unexpected key(s) in state_dict: "NAME", …
 *          size mismatch for NAME: copying a param with shape SHAPE from checkpoint, the shape in current
 *          model is SHAPE
 *   or     what it returns if strict=False:
 *          _IncompatibleKeys(missing_keys=['NAME', …], unexpected_keys=['NAME', …])
 *   or     a model as torch prints it: see model_text.h
 *
 * Empty lines are skipped. Refused: text that is not UTF-8, other control characters, a single blank inside
 * a name without quotes (such a text is prose, or a Git LFS pointer), a number before a word that is none of
 * those above, unless all lines are counted, and other lines that begin as JSON, Python or HTML do. The
 * functions take_… read what a text begins with, and skip it.
 */
#include "base/utf8.h"
#include "codec/npy.h"
#include "core/check.h"
#include "format/format.h"
#include "format/kit.h"
#include "format/model_text.h"
#include "format/names.h"

static const struct format format_names = {.name = "names", .title = "list of names"};

enum { MAX_BRACKETS = 8 };

static bool take_text(ckpt_str *name, const char *text)
{
    if (!str_starts(*name, str_c(text)))
        return false;
    *name = str_skip(*name, strlen(text));
    return true;
}

/* take_blanks - skips spaces and tabs; with LINES also the ends of lines. */
static void take_blanks(ckpt_str *text, bool lines)
{
    while (text->len && text->ptr[0] && strchr(lines ? " \t\r\n" : " \t", text->ptr[0]))
        *text = str_skip(*text, 1);
}

/* take_word - skips a word such as "torch.float32"; false: there is none. */
static bool take_word(ckpt_str *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.0123456789";
    size_t n = 0;
    while (n < text->len && text->ptr[n] && strchr(letters, text->ptr[n]))
        n++;
    *text = str_skip(*text, n);
    return n > 0;
}

static bool take_number(ckpt_str *text, uint64_t *count)
{
    size_t digits = 0;
    for (*count = 0; digits < text->len && str_digit(text->ptr[digits]) < 10; digits++)
        if (!checked_mul(*count, 10, count) || !checked_add(*count, str_digit(text->ptr[digits]), count))
            return false;
    *text = str_skip(*text, digits);
    return digits > 0;
}

static char closing_bracket(char opening)
{
    return opening == '(' ? ')' : opening == '[' ? ']' : opening == '{' ? '}' : '\0';
}

/* take_shape - reads a shape to OUT; false: *TEXT begins with none, and is unchanged. */
static bool take_shape(ckpt_str *text, struct named_shape *out)
{
    ckpt_str rest = *text;
    char closing[2] = {0};
    uint64_t size;
    bool has_call = take_text(&rest, "torch.Size(") || take_text(&rest, "TensorShape(");
    if (rest.len && (rest.ptr[0] == '(' || rest.ptr[0] == '['))
        closing[0] = closing_bracket(rest.ptr[0]);
    rest = str_skip(rest, 1);
    for (out->ndim = 0; closing[0] && take_number(&rest, &size); take_blanks(&rest, false)) {
        if (out->ndim == NAMES_MAX_SIZES)
            return false;
        out->shape[out->ndim++] = size;
        (void)take_text(&rest, ",");
    }
    out->has_shape = closing[0] && take_text(&rest, closing) && (!has_call || take_text(&rest, ")"));
    if (out->has_shape)
        *text = rest;
    return out->has_shape;
}

/* quoted_length - returns the length of the quoted text with which TEXT begins; 0: it does not end in its
 * line. */
static size_t quoted_length(ckpt_str text)
{
    size_t end = 1;
    while (end < text.len && text.ptr[end] != text.ptr[0] && text.ptr[end] != '\n')
        end += text.ptr[end] == '\\' ? 2 : 1;
    return end < text.len && text.ptr[end] == text.ptr[0] ? end + 1 : 0;
}

/* take_brackets - skips the bracket with which *TEXT begins, and all up to the one that closes it. */
static bool take_brackets(ckpt_str *text)
{
    size_t depth = 0, n;
    do {
        char c = text->len ? text->ptr[0] : '\0';
        n = c == '\'' || c == '"' ? quoted_length(*text) : text->len ? 1 : 0;
        if (closing_bracket(c))
            depth++;
        else if (c == ')' || c == ']' || c == '}')
            depth--;
        *text = str_skip(*text, n);
    } while (depth && n);
    return depth == 0;
}

/* take_tensor - skips a tensor as Python prints it, and reads its shape to OUT if that is printed; false:
 * *TEXT begins with none, and is unchanged. */
static bool take_tensor(ckpt_str *text, struct named_shape *out)
{
    static const char *const calls[] = {"tensor", "Parameter", "DTensor", "FakeTensor", "array", "Array"};
    ckpt_str rest = *text, printed;
    if (take_text(&rest, "Parameter containing:"))
        take_blanks(&rest, true);
    bool found = take_text(&rest, "<UninitializedParameter>");
    for (size_t i = 0; !found && i < sizeof calls / sizeof *calls; i++) {
        ckpt_str call = rest;
        found = take_text(&call, calls[i]) && call.len && call.ptr[0] == '(';
        if (found && !take_brackets(&call))
            return false;
        if (found)
            rest = call;
    }
    if (!found)
        return false;
    printed = str_first(*text, text->len - rest.len);
    *text = rest;
    size_t size = str_find(printed, STR_LIT(" size=("), 0);
    if (size != SIZE_MAX) {
        printed = str_skip(printed, size + strlen(" size="));
        (void)take_shape(&printed, out);
    }
    return true;
}

ckpt_status names_add(ckpt_file *f, const struct named_shape *named)
{
    ckpt_error ignored;
    ckpt_path_elem *path = ARENA_NEW(f->a, ckpt_path_elem);
    uint64_t *shape = arena_array(f->a, named->ndim, sizeof *shape);
    if (!path || !shape)
        return CKPT_ENOMEM;
    memcpy(shape, named->shape, named->ndim * sizeof *shape);
    path->str = named->name;
    struct row row = {.t = {.path = path,
                            .npath = 1,
                            .kind = CKPT_META,
                            .has_shape = named->has_shape,
                            .ndim = named->ndim,
                            .shape = shape,
                            .storage = CKPT_NO_STORAGE,
                            .file_offset = CKPT_NO_OFFSET,
                            .alias_of = CKPT_NO_TENSOR,
                            .part_of = CKPT_NO_TENSOR}};
    return file_add_row(f, &row, NULL, &ignored);
}

static bool is_text_safe(ckpt_str name)
{
    size_t pos = 0;
    while (pos < name.len) {
        uint32_t cp = utf8_next(name, &pos, false);
        if (cp == UTF8_BAD || utf8_unsafe(cp))
            return false;
    }
    return name.len > 0;
}

/* ---------------------------------------------------------------- containers */

/* begins_container - returns true if TEXT begins with a bracket, a quote, or a call that Python prints around
 * a container; *SKIP is the length of the call's name. */
static bool begins_container(ckpt_str text, size_t *skip)
{
    static const char *const calls[] = {"odict_keys(",  "dict_keys(", "odict_items(",
                                        "dict_items(",  "KeysView(",  "ItemsView(",
                                        "OrderedDict(", "frozenset(", "set("};
    *skip = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (str_starts(text, str_c(calls[i])))
            *skip = strlen(calls[i]) - 1;
    return *skip || (text.len && text.ptr[0] && strchr("[({'\"", text.ptr[0]));
}

/* take_quoted - reads a quoted text, decoded in the arena of F. */
static bool take_quoted(ckpt_file *f, ckpt_str *name, ckpt_str *out)
{
    ckpt_error ignored;
    ckpt_value *text;
    ckpt_str quoted = str_first(*name, quoted_length(*name));
    if (!quoted.len)
        return false;
    *name = str_skip(*name, quoted.len);
    *out = str_of(quoted.ptr + 1, quoted.len - 2);
    if (!memchr(quoted.ptr, '\\', quoted.len))
        return true;
    return utf8_check(quoted, false, NULL) && literal_read(f->a, quoted, 0, &text, &ignored) == CKPT_OK &&
           value_text(text, out);
}

/* take_more_words - skips ", torch.float32, True" after a shape. */
static void take_more_words(ckpt_str *text)
{
    for (ckpt_str rest = *text; take_text(&rest, ","); *text = rest) {
        take_blanks(&rest, true);
        if (!take_word(&rest))
            return;
    }
}

/* take_item - reads a name in quotes, and a shape if one follows, and adds them to F. */
static ckpt_status take_item(ckpt_file *f, ckpt_str *text)
{
    struct named_shape named = {.has_shape = false};
    if (!take_quoted(f, text, &named.name) || !is_text_safe(named.name))
        return CKPT_EUNKNOWN;
    take_blanks(text, true);
    ckpt_str rest = *text;
    bool is_key = take_text(&rest, ":");
    if (is_key || take_text(&rest, ",")) {
        take_blanks(&rest, true);
        if (take_shape(&rest, &named)) {
            *text = rest;
            take_more_words(text);
        } else if (take_tensor(&rest, &named)) {
            *text = rest;
        } else if (is_key) {
            return CKPT_EUNKNOWN;
        }
    }
    return names_add(f, &named);
}

/* take_opening - reads what a container begins with; false: a name in quotes begins. CLOSING gets the bracket
 * that ends the container. */
static bool take_opening(ckpt_str *text, size_t skip, char closing[2])
{
    *text = str_skip(*text, skip);
    closing[0] = closing_bracket(text->ptr[0]);
    if (closing[0])
        *text = str_skip(*text, 1);
    return closing[0];
}

/* take_container - adds the names of the container with which *TEXT begins, or of one quoted name. */
static ckpt_status take_container(ckpt_file *f, ckpt_str *text)
{
    char closing[MAX_BRACKETS + 1][2] = {{0}};
    size_t depth = 0, skip;
    do {
        take_blanks(text, true);
        if (depth && take_text(text, closing[depth - 1]))
            depth--;
        else if (depth == MAX_BRACKETS || !begins_container(*text, &skip))
            return CKPT_EUNKNOWN;
        else if (take_opening(text, skip, closing[depth]))
            depth++;
        else
            CKPT_TRY(take_item(f, text));
        take_blanks(text, depth > 0);
        (void)take_text(text, ",");
    } while (depth);
    return CKPT_OK;
}

/* --------------------------------------------------------------------- lines */

static ckpt_str take_line(ckpt_str *text)
{
    size_t n = str_find(*text, STR_LIT("\n"), 0);
    ckpt_str line = n == SIZE_MAX ? *text : str_of(text->ptr, n);
    *text = str_skip(*text, line.len + 1);
    while (line.len && (line.ptr[line.len - 1] == '\r' || line.ptr[line.len - 1] == ' '))
        line.len--;
    return line;
}

/* first_word - returns what TEXT begins with up to a blank or the end of the line. */
static ckpt_str first_word(ckpt_str text)
{
    size_t n = 0;
    while (n < text.len && !(text.ptr[n] && strchr(" \t\r\n", text.ptr[n])))
        n++;
    return str_first(text, n);
}

/* is_count_or_bool - returns true if WORD is a number, such as 1,728, or True or False. */
static bool is_count_or_bool(ckpt_str word)
{
    if (str_is(word, "True") || str_is(word, "False"))
        return true;
    for (size_t i = 0; i < word.len; i++)
        if (str_digit(word.ptr[i]) > 9 && (i == 0 || !strchr(",._", word.ptr[i])))
            return false;
    return word.len > 0;
}

/* is_property - returns true if WORD is what programs print after a name: its dtype, its number of elements,
 * whether it requires a gradient. */
static bool is_property(ckpt_str word)
{
    return ckpt_dtype_parse(word) != CKPT_DT_NONE || str_starts(word, STR_LIT("torch.")) ||
           is_count_or_bool(word);
}

/* take_properties - reads what follows a name in its line: properties, and a shape to OUT. Returns false if
 * there is anything else, and no shape before it. */
static bool take_properties(ckpt_str line, struct named_shape *out)
{
    take_blanks(&line, false);
    while (line.len && !take_shape(&line, out)) {
        ckpt_str word = first_word(line);
        if (!is_property(word))
            return false;
        line = str_skip(line, word.len);
        take_blanks(&line, false);
    }
    return true;
}

/* read_line - sets *OUT to the name at the start of LINE, and to its shape. */
static void read_line(ckpt_str line, struct named_shape *out)
{
    size_t tab = str_find(line, STR_LIT("\t"), 0), gap = str_find(line, STR_LIT("  "), 0);
    out->name = first_word(line);
    if (!take_properties(str_skip(line, out->name.len), out))
        out->name = str_first(line, tab < gap ? tab : gap);
}

/* take_tensor_line - reads a name that a tensor follows, and the line in which that ends; false: *TEXT begins
 * with none, and is unchanged. */
static bool take_tensor_line(ckpt_str *text, struct named_shape *out)
{
    ckpt_str name = first_word(*text), rest = str_skip(*text, name.len);
    take_blanks(&rest, false);
    if (!take_tensor(&rest, out))
        return false;
    out->name = name;
    (void)take_line(&rest);
    *text = rest;
    return true;
}

/* take_index - skips a number that enumerate() put before a name. It is not a name, because what follows is
 * no property of it. False: *TEXT begins with none, and is unchanged. */
static bool take_index(ckpt_str *text, uint64_t *index)
{
    struct named_shape ignored;
    ckpt_str rest = *text, shape;
    if (!take_number(&rest, index))
        return false;
    if (!take_text(&rest, ":") && !take_text(&rest, "."))
        (void)take_text(&rest, ")");
    if (!take_text(&rest, " ") && !take_text(&rest, "\t"))
        return false;
    take_blanks(&rest, false);
    shape = rest;
    ckpt_str word = first_word(rest);
    if (!word.len || take_shape(&shape, &ignored) || take_tensor(&shape, &ignored) ||
        (is_property(word) && !is_count_or_bool(word)))
        return false;
    *text = rest;
    return true;
}

static bool is_name(ckpt_str name)
{
    return is_text_safe(name) && !memchr("{}[]()<>\"'`", name.ptr[0], 11) &&
           !memchr(name.ptr, ' ', name.len) && !str_starts(name, STR_LIT("torch.Size("));
}

/* take_name - reads the line number NLINE, or more lines with a tensor, to OUT. *FIRST_INDEX is the index of
 * the first line; UINT64_MAX: lines have none. */
static bool take_name(ckpt_str *text, uint64_t nline, uint64_t *first_index, struct named_shape *out)
{
    uint64_t index;
    bool has_index = take_index(text, &index);
    if (nline == 0)
        *first_index = has_index ? index : UINT64_MAX;
    if (has_index != (*first_index <= 1) || (has_index && index - *first_index != nline))
        return false;
    if (!take_tensor_line(text, out))
        read_line(take_line(text), out);
    if (out->name.len && out->name.ptr[out->name.len - 1] == ':')
        out->name.len--;
    return is_name(out->name) && !(has_index && is_count_or_bool(out->name)); /* else it may be the name */
}

static ckpt_status read_lines(ckpt_file *f, ckpt_str text)
{
    uint64_t nlines = 0, first_index = UINT64_MAX;
    size_t skip;
    for (take_blanks(&text, true); text.len; take_blanks(&text, true)) {
        if (begins_container(text, &skip)) {
            CKPT_TRY(take_container(f, &text));
            continue;
        }
        struct named_shape named = {.has_shape = false};
        if (!take_name(&text, nlines++, &first_index, &named))
            return CKPT_EUNKNOWN;
        CKPT_TRY(names_add(f, &named));
    }
    return CKPT_OK;
}

/* ------------------------------------------------- the error of load_state_dict */

static const char missing[] = "Missing key(s) in state_dict:",
                  unexpected[] = "Unexpected key(s) in state_dict:", mismatch[] = "size mismatch for ",
                  missing_keys[] = "_IncompatibleKeys(missing_keys=[",
                  unexpected_keys[] = "], unexpected_keys=[";

/* skip_past - skips *NAME up to and including TEXT; false: *NAME does not contain it, and is unchanged. */
static bool skip_past(ckpt_str *name, const char *text)
{
    size_t at = str_find(*name, str_c(text), 0);
    if (at == SIZE_MAX)
        return false;
    *name = str_skip(*name, at + strlen(text));
    return true;
}

/* add_listed - adds the names in quotes after each TITLE in TEXT, which in a list may be none. */
static ckpt_status add_listed(ckpt_file *f, ckpt_str text, const char *title)
{
    while (skip_past(&text, title)) {
        if (title[strlen(title) - 1] == '[' && text.len && text.ptr[0] == ']')
            continue;
        do {
            struct named_shape named = {.has_shape = false};
            take_blanks(&text, true);
            bool is_quoted = text.len && (text.ptr[0] == '"' || text.ptr[0] == '\'');
            if (!is_quoted || !take_quoted(f, &text, &named.name) || !is_text_safe(named.name))
                return CKPT_EUNKNOWN;
            CKPT_TRY(names_add(f, &named));
        } while (take_text(&text, ","));
    }
    return CKPT_OK;
}

/* add_mismatches - adds the names in TEXT whose shapes differ, with their shapes in the model. */
static ckpt_status add_mismatches(ckpt_file *f, ckpt_str text)
{
    while (skip_past(&text, mismatch)) {
        struct named_shape named = {.name = text};
        ckpt_str line = take_line(&text);
        size_t end = str_find(line, STR_LIT(": copying a param "), 0);
        bool has_shape = skip_past(&line, "the shape in current model is ") ||
                         skip_past(&line, "where the shape is "); /* torch 0.4 */
        named.name = str_first(named.name, end);
        if (end == SIZE_MAX || !has_shape || !take_shape(&line, &named) || !is_text_safe(named.name))
            return CKPT_EUNKNOWN;
        CKPT_TRY(names_add(f, &named));
    }
    return CKPT_OK;
}

static ckpt_status read_load_error(ckpt_file *f, ckpt_str text)
{
    f->name_list.is_load_error = true;
    CKPT_TRY(add_listed(f, text, missing));
    CKPT_TRY(add_listed(f, text, missing_keys));
    CKPT_TRY(add_mismatches(f, text));
    f->name_list.first_absent = (uint32_t)f->table.nrows;
    CKPT_TRY(add_listed(f, text, unexpected));
    return add_listed(f, text, unexpected_keys);
}

static ckpt_status read_names(ckpt_file *f)
{
    ckpt_error ignored;
    ckpt_str text;
    CKPT_TRY(kit_read_metadata(f, f->src, 0, f->src->size, &text, &ignored));
    bool is_load_error = str_find(text, str_c(missing), 0) != SIZE_MAX ||
                         str_find(text, str_c(unexpected), 0) != SIZE_MAX ||
                         str_find(text, str_c(mismatch), 0) != SIZE_MAX ||
                         str_find(text, str_c(missing_keys), 0) != SIZE_MAX;
    if (!is_load_error && model_text_begins(text))
        CKPT_TRY(model_text_read(f, text));
    else
        CKPT_TRY(is_load_error ? read_load_error(f, text) : read_lines(f, text));
    return f->table.nrows ? CKPT_OK : CKPT_EUNKNOWN;
}

ckpt_status names_open(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out)
{
    ckpt_error ignored;
    ckpt_file *f;
    CKPT_TRY(file_new(path, src, limits, &f, &ignored));
    f->format = &format_names;
    f->name_list.is_one = true;
    ckpt_status st = read_names(f);
    if (st == CKPT_OK)
        *out = f;
    else
        file_free(f);
    return st;
}
