/* value_equal.c - compares two nodes as values of Python. Graphs, with or without loops, are compared by the
 * algorithm of Hopcroft and Karp (1971) for the equivalence of automata: nodes that must be equal are put
 * into one set, and a pair that is in one set already is not compared again. Each union leaves one set
 * fewer, so there are fewer unions than nodes.
 *
 * What one comparison finds is kept for the next ones. If it fails, the pairs that contain the difference
 * differ. A pair is proven to be equal when its contents are, under no assumption but on itself: as the
 * strongly connected components of Tarjan (1972), pairs that depend on each other are proven together. */
#include "op/value_equal.h"

#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "core/numpy.h"
#include "core/reference.h"
#include "core/view.h"

#define MAX_WORK     (UINT64_C(1) << 26) /* pairs of nodes */
#define KEY_TEXT_MAX 160u                /* bytes by which keys are sorted that are not text or int */

/* What a node is compared as. */
/* clang-format off */
enum form { FORM_NONE, FORM_BOOL, FORM_INT, FORM_FLOAT, FORM_TEXT, FORM_BYTES, FORM_BYTEARRAY, FORM_REFERENCE,
            FORM_PERSID, FORM_OBJECT };
/* clang-format on */

/* latin1_argument - returns the text in the arguments of VALUE: _codecs.encode(text, "latin1") or, from
 * Python 2, text, "latin1". NULL: they are something else. */
static const ckpt_value *latin1_argument(const ckpt_value *value)
{
    ckpt_str codec;
    if (value_nargs(value) == 1)
        return latin1_text(value_arg(value, 0));
    bool named = value_nargs(value) == 2 && value_text(value_arg(value, 1), &codec) && is_latin1(codec);
    const ckpt_value *text = named ? value_arg(value, 0) : NULL;
    return text && (text->type == CKPT_V_STR || text->type == CKPT_V_STR8) ? text : NULL;
}

/* Bytes or text, in any of the forms that they have in pickles. */
struct octets {
    const ckpt_value *node; /* the node with the bytes; NULL: empty */
    bool latin1;            /* NODE is text; each code point stands for one byte */
};

/* read_called_bytes - sets *OUT to the bytes that the call VALUE makes; false: it makes something else. */
static bool read_called_bytes(const ckpt_value *value, struct octets *out)
{
    const ckpt_value *callable = value->u.call.callable, *arg = value_arg(value, 0);
    bool is_bytearray = is_builtin(callable, "bytearray"),
         has_no_extra = value_extra_of(value) == &value_no_extra;
    *out = (struct octets){latin1_text(value), true};
    if (out->node || !has_no_extra)
        return out->node != NULL;
    if (value_nargs(value) == 0)
        return is_bytearray || is_builtin(callable, "bytes");
    if (!is_bytearray)
        return false;
    out->node = latin1_argument(value);
    if (!out->node && value_nargs(value) == 1 && arg->type == CKPT_V_BYTES)
        *out = (struct octets){arg, false};
    return out->node != NULL;
}

static enum form form_of(const ckpt_value *value)
{
    struct octets unused;
    struct reference reference;
    if (reference_of(value, &reference))
        return FORM_REFERENCE;
    switch (ckpt_value_get_type(value)) {
    case CKPT_V_NONE: return FORM_NONE;
    case CKPT_V_BOOL: return FORM_BOOL;
    case CKPT_V_INT:
    case CKPT_V_BIGINT: return FORM_INT;
    case CKPT_V_FLOAT: return FORM_FLOAT;
    case CKPT_V_STR:
    case CKPT_V_STR8: return FORM_TEXT;
    case CKPT_V_BYTES: return FORM_BYTES;
    case CKPT_V_BYTEARRAY: return FORM_BYTEARRAY;
    case CKPT_V_PERSID: return FORM_PERSID;
    case CKPT_V_CALL:
        if (!read_called_bytes(value, &unused))
            return FORM_OBJECT;
        return is_builtin(value->u.call.callable, "bytearray") ? FORM_BYTEARRAY : FORM_BYTES;
    default: return FORM_OBJECT;
    }
}

/* ------------------------------------------------------------ single values */

/* trim_integer - returns the little-endian bytes of the int VALUE without those that only repeat its sign. */
static ckpt_str trim_integer(const ckpt_value *value, char small[8])
{
    for (unsigned i = 0; value->type == CKPT_V_INT && i < 8; i++)
        small[i] = (char)((uint64_t)value->u.i >> (8 * i));
    ckpt_str s = value->type == CKPT_V_INT ? str_of(small, 8) : value->u.str;
    while (s.len > 1) {
        unsigned char last = (unsigned char)s.ptr[s.len - 1], before = (unsigned char)s.ptr[s.len - 2];
        if (!(last == 0 && before < 0x80) && !(last == 0xff && before >= 0x80))
            break;
        s.len--;
    }
    return s.len == 1 && s.ptr[0] == 0 ? str_of("", 0) : s; /* LONG1 writes 0 with no bytes */
}

static bool same_integer(const ckpt_value *left, const ckpt_value *right)
{
    char in_a[8], in_b[8];
    return str_eq(trim_integer(left, in_a), trim_integer(right, in_b));
}

static bool same_real(double left, double right) { return left == right || (isnan(left) && isnan(right)); }

/* Reads the bytes of one of the two nodes in pieces. */
struct octet_reader {
    struct octets octets;
    uint64_t off, size; /* OFF of the SIZE stored bytes were read */
    size_t pos, len;    /* buf[pos..len) is not compared yet */
    bool malformed;     /* a code point is above U+00FF */
    char buf[4096];
};

static void octets_open(struct octet_reader *reader, const ckpt_value *value)
{
    *reader = (struct octet_reader){.octets = {value, false}};
    if (value->type == CKPT_V_CALL)
        (void)read_called_bytes(value, &reader->octets);
    const ckpt_value *node = reader->octets.node;
    if (node)
        reader->size = node->flags & VALUE_SPAN ? node->u.span->nbytes : node->u.str.len;
}

static ckpt_status read_node_bytes(const ckpt_value *value, uint64_t off, void *out, size_t nbytes,
                                   ckpt_error *err)
{
    if (value->flags & VALUE_SPAN)
        return source_read(value->u.span->src, value->u.span->off + off, out, nbytes, err);
    memcpy(out, value->u.str.ptr + off, nbytes);
    return CKPT_OK;
}

/* decode_latin1 - decodes the COUNT bytes of text in READER's buffer in place; returns how many bytes
 * of text it used: all except for a last code point that is incomplete. */
static size_t decode_latin1(struct octet_reader *reader, size_t count)
{
    size_t pos = 0;
    ckpt_str text = str_of(
        reader->buf, reader->off + count == reader->size ? count : utf8_complete_length(reader->buf, count));
    for (reader->len = 0; pos < text.len && !reader->malformed; reader->len++) {
        uint32_t cp = utf8_next(text, &pos, false);
        reader->malformed = cp > 0xff;
        reader->buf[reader->len] = (char)cp;
    }
    return pos;
}

/* octets_fill - fills the buffer of READER if all of its content was compared and stored bytes are
 * left. */
static ckpt_status octets_fill(struct octet_reader *reader, ckpt_error *err)
{
    uint64_t left = reader->size - reader->off;
    size_t n = left < sizeof reader->buf ? (size_t)left : sizeof reader->buf;
    if (reader->pos < reader->len || n == 0)
        return CKPT_OK;
    CKPT_TRY(read_node_bytes(reader->octets.node, reader->off, reader->buf, n, err));
    reader->pos = 0;
    reader->len = n;
    reader->off += reader->octets.latin1 ? decode_latin1(reader, n) : n;
    return CKPT_OK;
}

static ckpt_status compare_octets(const ckpt_value *left, const ckpt_value *right, bool *same,
                                  ckpt_error *err)
{
    struct octet_reader in_a, in_b;
    octets_open(&in_a, left);
    octets_open(&in_b, right);
    if (in_a.octets.latin1 && in_b.octets.latin1) /* both are texts: their UTF-8 is compared */
        in_a.octets.latin1 = in_b.octets.latin1 = false;
    *same = in_a.size == in_b.size || in_a.octets.latin1 || in_b.octets.latin1;
    while (*same) {
        CKPT_TRY(octets_fill(&in_a, err));
        CKPT_TRY(octets_fill(&in_b, err));
        size_t left_a = in_a.len - in_a.pos, left_b = in_b.len - in_b.pos,
               n = left_a < left_b ? left_a : left_b;
        *same = n ? memcmp(in_a.buf + in_a.pos, in_b.buf + in_b.pos, n) == 0 : left_a == left_b;
        *same = *same && !in_a.malformed && !in_b.malformed;
        in_a.pos += n;
        in_b.pos += n;
        if (n == 0)
            break;
    }
    return CKPT_OK;
}

static bool is_same_reference(const ckpt_value *left, const ckpt_value *right)
{
    struct reference in_a, in_b;
    return reference_of(left, &in_a) && reference_of(right, &in_b) && reference_equal(&in_a, &in_b);
}

/* ------------------------------------------------------------ array.array */

/* An array of Python's module array: array.array(code, list) in protocols 0 to 2, and later
 * array._array_reconstructor(array.array, code, number of a format, bytes). */
enum array_kind { ARRAY_UNSIGNED, ARRAY_SIGNED, ARRAY_FLOAT };

struct py_array {
    ckpt_str code;           /* "i", "d" …; not "u", whose elements are text */
    const ckpt_value *items; /* the list, or NULL */
    const ckpt_value *bytes; /* the bytes, or NULL */
    unsigned size;           /* of an element in BYTES */
    enum array_kind kind;
    bool big_endian;
};

/* set_array_format - sets how the elements of OUT are stored, by a number of Modules/arraymodule.c; false: it
 * is none of numbers. */
static bool set_array_format(struct py_array *out, const ckpt_value *number)
{
    static const struct {
        uint8_t size;
        enum array_kind kind;
    } formats[] = {{1, ARRAY_UNSIGNED}, {1, ARRAY_SIGNED}, /* then two each: little-endian, big-endian */
                   {2, ARRAY_UNSIGNED}, {2, ARRAY_UNSIGNED}, {2, ARRAY_SIGNED}, {2, ARRAY_SIGNED},
                   {4, ARRAY_UNSIGNED}, {4, ARRAY_UNSIGNED}, {4, ARRAY_SIGNED}, {4, ARRAY_SIGNED},
                   {8, ARRAY_UNSIGNED}, {8, ARRAY_UNSIGNED}, {8, ARRAY_SIGNED}, {8, ARRAY_SIGNED},
                   {4, ARRAY_FLOAT},    {4, ARRAY_FLOAT},    {8, ARRAY_FLOAT},  {8, ARRAY_FLOAT}};
    int64_t n;
    if (!value_integer(number, &n) || n < 0 || n >= (int64_t)(sizeof formats / sizeof *formats))
        return false;
    out->kind = formats[n].kind;
    out->size = formats[n].size;
    out->big_endian = n > 1 && n % 2;
    return true;
}

/* read_array - sets *OUT to the array that VALUE makes; false: it makes something else, or has attributes. */
static bool read_array(const ckpt_value *value, struct py_array *out)
{
    *out = (struct py_array){.size = 0};
    if (value->type != CKPT_V_CALL || value_extra_of(value) != &value_no_extra)
        return false;
    bool is_rebuilt = value_is_global(value->u.call.callable, "array", "_array_reconstructor") &&
                      value_nargs(value) == 4 && value_is_global(value_arg(value, 0), "array", "array");
    bool is_list = value_is_global(value->u.call.callable, "array", "array") && value_nargs(value) == 2;
    const ckpt_value *code = value_arg(value, is_rebuilt), *data = value_arg(value, is_rebuilt ? 3 : 1);
    if ((!is_rebuilt && !is_list) || !value_text(code, &out->code) || str_is(out->code, "u"))
        return false;
    out->items = is_list && data->type == CKPT_V_LIST ? data : NULL;
    out->bytes = is_rebuilt && form_of(data) == FORM_BYTES ? data : NULL;
    return out->items || (out->bytes && set_array_format(out, value_arg(value, 2)));
}

/* The elements of one of two arrays, read one after the other. */
struct array_reader {
    struct py_array array;
    struct octet_reader octets;
    uint32_t next;     /* index in array.items */
    ckpt_value number; /* the last element in array.bytes */
    bool incomplete;   /* the bytes end in an element */
    char big[9];       /* its bytes, if it is above INT64_MAX */
};

static void set_array_number(struct array_reader *array_reader, uint64_t raw)
{
    unsigned unused = 64 - 8 * array_reader->array.size;
    array_reader->number = (ckpt_value){.type = CKPT_V_INT};
    if (array_reader->array.kind == ARRAY_FLOAT) {
        uint32_t single = (uint32_t)raw;
        float f;
        memcpy(&f, &single, sizeof f);
        memcpy(&array_reader->number.u.f, &raw, sizeof raw);
        array_reader->number.u.f = array_reader->array.size == 4 ? (double)f : array_reader->number.u.f;
        array_reader->number.type = CKPT_V_FLOAT;
    } else if (array_reader->array.kind == ARRAY_SIGNED && raw >> (63 - unused)) {
        array_reader->number.u.i = (int64_t)(raw | (unused ? UINT64_MAX << (64 - unused) : 0));
    } else if (raw <= INT64_MAX) {
        array_reader->number.u.i = (int64_t)raw;
    } else {
        for (unsigned i = 0; i < 8; i++)
            array_reader->big[i] = (char)(raw >> 8 * i);
        array_reader->number.type = CKPT_V_BIGINT;
        array_reader->number.u.str = str_of(array_reader->big, sizeof array_reader->big);
    }
}

/* read_element - sets *OUT to the next element of ARRAY_READER; NULL: there are no more complete ones. */
static ckpt_status read_element(struct array_reader *array_reader, const ckpt_value **out, ckpt_error *err)
{
    uint64_t raw = 0;
    *out = array_reader->array.items ? value_item(array_reader->array.items, array_reader->next++) : NULL;
    if (array_reader->array.items)
        return CKPT_OK;
    for (unsigned i = 0; i < array_reader->array.size; i++) {
        CKPT_TRY(octets_fill(&array_reader->octets, err));
        array_reader->incomplete = i > 0;
        if (array_reader->octets.pos == array_reader->octets.len)
            return CKPT_OK;
        uint64_t byte = (unsigned char)array_reader->octets.buf[array_reader->octets.pos++];
        raw = array_reader->array.big_endian ? raw << 8 | byte : raw | byte << 8 * i;
    }
    array_reader->incomplete = false;
    set_array_number(array_reader, raw);
    *out = &array_reader->number;
    return CKPT_OK;
}

static bool same_number(const ckpt_value *left, const ckpt_value *right)
{
    enum form form = form_of(left);
    if (form != form_of(right))
        return false;
    return form == FORM_INT ? same_integer(left, right)
                            : form == FORM_FLOAT && same_real(left->u.f, right->u.f);
}

/* compare_arrays - sets *SAME to whether LEFT and RIGHT have the same type code and elements. */
static ckpt_status compare_arrays(const struct py_array *left, const struct py_array *right, bool *same,
                                  ckpt_error *err)
{
    struct array_reader in_a = {.array = *left}, in_b = {.array = *right};
    const ckpt_value *of_a, *of_b;
    if (left->bytes)
        octets_open(&in_a.octets, left->bytes);
    if (right->bytes)
        octets_open(&in_b.octets, right->bytes);
    *same = str_eq(left->code, right->code);
    while (*same) {
        CKPT_TRY(read_element(&in_a, &of_a, err));
        CKPT_TRY(read_element(&in_b, &of_b, err));
        if (!of_a && !of_b)
            break;
        *same = of_a && of_b && same_number(of_a, of_b);
    }
    *same = *same && !in_a.incomplete && !in_b.incomplete && !in_a.octets.malformed && !in_b.octets.malformed;
    return CKPT_OK;
}

/* ------------------------------------------- what is known of pairs of objects */

enum equal_sets { PROVEN, ASSUMED };
enum knowledge { UNKNOWN, KNOWN_SAME, KNOWN_DIFFERENT };

#define NOTHING UINT32_MAX

static uint32_t smaller(uint32_t left, uint32_t right) { return left < right ? left : right; }

/* get_node_number - sets *OUT to the index of VALUE in comparison->nodes, and makes it a set of its own there
 * if the current comparison has not reached VALUE yet. */
static ckpt_status get_node_number(struct value_equal *job, const ckpt_value *value, uint32_t *out,
                                   ckpt_error *err)
{
    CKPT_TRY_ALLOC(job->numbers || (job->numbers = map_new(0)), err);
    *out = map_get_num(job->numbers, ptr_key(value));
    if (*out == MAP_NONE) {
        *out = (uint32_t)job->nnodes;
        const struct equal_node node = {.parent = {*out, *out}};
        CKPT_TRY_ALLOC(ARENA_PUSH(NULL, job, nodes, &node) &&
                           map_put_num(job->numbers, ptr_key(value), *out, NULL),
                       err);
    }
    struct equal_node *node = &job->nodes[*out];
    if (node->comparison != job->comparison) {
        node->comparison = job->comparison;
        node->parent[ASSUMED] = *out;
        node->oldest = NOTHING;
    }
    return CKPT_OK;
}

static uint32_t find_set_root(struct value_equal *job, enum equal_sets sets, uint32_t index)
{
    for (uint32_t *parent; *(parent = &job->nodes[index].parent[sets]) != index; index = *parent)
        *parent = job->nodes[*parent].parent[sets];
    return index;
}

static uint64_t pair_key(struct equal_pair pair) { return (uint64_t)pair.a << 32 | pair.b; }

static void note_unread(struct value_equal *job)
{
    job->has_unread = true;
    if (job->nopen)
        job->open[job->nopen - 1].has_unread = true;
}

/* find_pair - returns what is known of PAIR. */
static enum knowledge find_pair(struct value_equal *job, struct equal_pair pair)
{
    uint32_t root = find_set_root(job, PROVEN, pair.a);
    if (root == find_set_root(job, PROVEN, pair.b)) {
        if (job->nodes[root].has_unread)
            note_unread(job);
        return KNOWN_SAME;
    }
    if (job->differing && map_get_num(job->differing, pair_key(pair)) != MAP_NONE)
        return KNOWN_DIFFERENT;
    root = find_set_root(job, ASSUMED, pair.a);
    if (root != find_set_root(job, ASSUMED, pair.b))
        return UNKNOWN;
    if (job->has_unread)
        note_unread(job);
    if (job->nopen)
        job->open[job->nopen - 1].lowest = smaller(job->open[job->nopen - 1].lowest, job->nodes[root].oldest);
    return KNOWN_SAME;
}

/* begin_pair - assumes that PAIR is equal until its contents are compared. */
static ckpt_status begin_pair(struct value_equal *job, struct equal_pair pair, ckpt_error *err)
{
    uint32_t index = (uint32_t)job->nunproven, root_a = find_set_root(job, ASSUMED, pair.a),
             root_b = find_set_root(job, ASSUMED, pair.b);
    const struct open_pair opened = {.index = index, .lowest = index};
    job->nodes[root_b].parent[ASSUMED] = root_a;
    job->nodes[root_a].oldest = smaller(index, smaller(job->nodes[root_a].oldest, job->nodes[root_b].oldest));
    bool ok = ARENA_PUSH(NULL, job, unproven, &pair) && ARENA_PUSH(NULL, job, open, &opened);
    return ok ? CKPT_OK : fail_memory(err);
}

/* prove_pair - puts both nodes of PAIR, which is one of those from index FIRST on, into one set. */
static void prove_pair(struct value_equal *job, struct equal_pair pair, uint32_t first, bool has_unread)
{
    uint32_t root_a = find_set_root(job, PROVEN, pair.a), root_b = find_set_root(job, PROVEN, pair.b);
    job->nodes[root_b].parent[PROVEN] = root_a;
    job->nodes[root_a].has_unread |= job->nodes[root_b].has_unread || has_unread;
    struct equal_node *assumed = &job->nodes[find_set_root(job, ASSUMED, pair.a)];
    if (assumed->oldest >= first)
        assumed->oldest = NOTHING;
}

/* end_pair - ends the innermost open pair, whose contents are equal. It is proven to be equal, with all
 * pairs after it, unless that depends on a pair that contains it. */
static void end_pair(struct value_equal *job)
{
    struct open_pair closed = job->open[--job->nopen],
                     *outer = job->nopen ? &job->open[job->nopen - 1] : NULL;
    if (outer)
        outer->has_unread |= closed.has_unread;
    if (outer && closed.lowest < closed.index) {
        outer->lowest = smaller(outer->lowest, closed.lowest);
        return;
    }
    for (size_t i = closed.index; i < job->nunproven; i++)
        prove_pair(job, job->unproven[i], closed.index, closed.has_unread);
    job->nunproven = closed.index;
}

/* mark_differing - notes that the open pairs differ. */
static ckpt_status mark_differing(struct value_equal *job, ckpt_error *err)
{
    CKPT_TRY_ALLOC(job->differing || (job->differing = map_new(0)), err);
    for (size_t i = 0; i < job->nopen; i++)
        CKPT_TRY_ALLOC(map_put_num(job->differing, pair_key(job->unproven[job->open[i].index]), 0, NULL),
                       err);
    return CKPT_OK;
}

/* ---------------------------------------------------------------- work list */

static ckpt_status push_nodes(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                              ckpt_error *err)
{
    bool pushed = arena_push(NULL, &job->waiting, &job->n, &job->cap, &(struct node_pair){left, right},
                             sizeof *job->waiting);
    return pushed ? CKPT_OK : fail_memory(err);
}

/* push_optional - pushes LEFT and RIGHT if neither is NULL; *SAME becomes false if only one is NULL. */
static ckpt_status push_optional(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                                 bool *same, ckpt_error *err)
{
    if (!left || !right)
        *same = *same && left == right;
    else
        CKPT_TRY(push_nodes(job, left, right, err));
    return CKPT_OK;
}

static ckpt_status push_ordered(struct value_equal *job, const struct view *left, const struct view *right,
                                ckpt_error *err)
{
    const ckpt_value *key, *in_a, *in_b;
    for (size_t i = 0; view_item(left, i, &key, &in_a) && view_item(right, i, &key, &in_b); i++)
        CKPT_TRY(push_nodes(job, in_a, in_b, err));
    return CKPT_OK;
}

/* ------------------------------------------------------ contents in any order */

struct keyed_child {
    const ckpt_value *key, *val; /* of a set: the item and NULL */
    size_t index;
};

static int compare_key_text(const ckpt_value *left, const ckpt_value *right)
{
    char in_a[KEY_TEXT_MAX], in_b[KEY_TEXT_MAX];
    value_text_or_type(left, 16, in_a, sizeof in_a);
    value_text_or_type(right, 16, in_b, sizeof in_b);
    return strcmp(in_a, in_b);
}

/* key_group - returns the first criterion by which keys are sorted: texts, then ints, then other forms. */
static int key_group(const ckpt_value *key)
{
    ckpt_str text;
    int64_t i;
    return value_text(key, &text) ? -2 : value_integer(key, &i) ? -1 : (int)form_of(key);
}

static int compare_child_keys(const void *left, const void *right)
{
    const struct keyed_child *a = left, *b = right;
    int group_a = key_group(a->key), group_b = key_group(b->key), order = group_a - group_b;
    ckpt_str text_a, text_b;
    int64_t int_a, int_b;
    if (order == 0 && value_text(a->key, &text_a) && value_text(b->key, &text_b))
        order = str_compare(text_a, text_b);
    else if (order == 0 && value_integer(a->key, &int_a) && value_integer(b->key, &int_b))
        order = (int_a > int_b) - (int_a < int_b);
    else if (order == 0)
        order = compare_key_text(a->key, b->key);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static struct keyed_child *sort_children(const struct view *view)
{
    struct keyed_child *list = calloc(view->n + 1, sizeof *list);
    for (size_t i = 0; list && i < view->n && view_item(view, i, &list[i].key, &list[i].val); i++) {
        list[i].index = i;
        if (view->kind == VIEW_ITEMS) {
            list[i].key = list[i].val;
            list[i].val = NULL;
        }
    }
    if (list)
        qsort(list, view->n, sizeof *list, compare_child_keys);
    return list;
}

static ckpt_status push_unordered(struct value_equal *job, const struct view *left, const struct view *right,
                                  ckpt_error *err)
{
    struct keyed_child *in_a = sort_children(left), *in_b = sort_children(right);
    ckpt_status st = in_a && in_b ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < left->n; i++) {
        st = push_nodes(job, in_a[i].key, in_b[i].key, err);
        if (st == CKPT_OK && in_a[i].val)
            st = push_nodes(job, in_a[i].val, in_b[i].val, err);
    }
    free(in_a);
    free(in_b);
    return st;
}

/* ------------------------------------------------------------------ objects */

static bool is_set(const ckpt_value *value)
{
    const ckpt_value *k = view_class(value);
    return value->type == CKPT_V_SET || value->type == CKPT_V_FROZENSET || is_builtin(k, "set") ||
           is_builtin(k, "frozenset");
}

/* has_contents_as_arguments - returns true if the arguments of VALUE are its contents, as in dict(…). */
static bool has_contents_as_arguments(const ckpt_value *value)
{
    const ckpt_value *k = view_class(value);
    return is_set(value) || value_is_global(k, "collections", "OrderedDict") ||
           value_is_global(k, "collections", "Counter") || is_builtin(k, "dict") || is_builtin(k, "list") ||
           is_builtin(k, "tuple");
}

/* push_arguments - pushes the arguments of two calls, unless these are the contents. If one call lacks them
 * because of its protocol, the states of the objects decide. */
static ckpt_status push_arguments(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                                  bool *same, ckpt_error *err)
{
    const struct creation by_a = creation_of(left), by_b = creation_of(right);
    bool have_states = value_state(left) && value_state(right);
    if ((!by_a.args || !by_b.args) && have_states)
        return CKPT_OK;
    CKPT_TRY(push_optional(job, by_a.kwargs, by_b.kwargs, same, err));
    if (has_contents_as_arguments(left) || has_contents_as_arguments(right))
        return CKPT_OK;
    struct view in_a = view_arguments(left), in_b = view_arguments(right);
    *same = *same && in_a.n == in_b.n;
    return push_ordered(job, &in_a, &in_b, err);
}

/* push_call_parts - pushes the classes and arguments of two calls, and their attributes if ATTRIBUTES. */
static ckpt_status push_call_parts(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                                   bool attributes, bool *same, ckpt_error *err)
{
    CKPT_TRY(push_optional(job, view_class(left), view_class(right), same, err));
    CKPT_TRY(push_arguments(job, left, right, same, err));
    return attributes ? push_optional(job, value_state(left), value_state(right), same, err) : CKPT_OK;
}

/* compare_contents - compares type and class of two objects, and pushes what is in them. */
static ckpt_status compare_contents(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                                    bool no_attributes, bool *same, ckpt_error *err)
{
    char type_a[256], type_b[256];
    struct view in_a = view_of(left), in_b = view_of(right);
    struct py_array array_a, array_b;
    if (read_array(left, &array_a) && read_array(right, &array_b))
        return compare_arrays(&array_a, &array_b, same, err);
    (void)ckpt_value_type_name(left, type_a, sizeof type_a);
    (void)ckpt_value_type_name(right, type_b, sizeof type_b);
    bool skips_view = in_a.kind == VIEW_ATTRS && no_attributes;
    *same = strcmp(type_a, type_b) == 0 && in_a.kind == in_b.kind && (skips_view || in_a.n == in_b.n);
    if (!*same)
        return CKPT_OK;
    if (left->type == CKPT_V_CALL && right->type == CKPT_V_CALL) {
        bool ordered_dict = value_is_global(view_class(left), "collections",
                                            "OrderedDict"); /* skip _metadata */
        bool attributes = in_a.kind != VIEW_ATTRS && !ordered_dict && !no_attributes;
        CKPT_TRY(push_call_parts(job, left, right, attributes, same, err));
    }
    if (skips_view)
        return CKPT_OK;
    if (in_a.kind == VIEW_ITEMS && !is_set(left))
        return push_ordered(job, &in_a, &in_b, err);
    return push_unordered(job, &in_a, &in_b, err);
}

static ckpt_status compare_objects(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                                   bool *same, ckpt_error *err)
{
    struct equal_pair pair;
    bool no_attributes = job->in_outermost &&
                         job->no_attributes; /* then nothing is found out about the pair */
    job->in_outermost = false;
    if (no_attributes)
        return compare_contents(job, left, right, true, same, err);
    CKPT_TRY(get_node_number(job, left, &pair.a, err));
    CKPT_TRY(get_node_number(job, right, &pair.b, err));
    enum knowledge known = find_pair(job, pair);
    *same = known != KNOWN_DIFFERENT;
    if (known != UNKNOWN)
        return CKPT_OK;
    CKPT_TRY(begin_pair(job, pair, err));
    CKPT_TRY(push_nodes(job, NULL, NULL, err)); /* below its contents: ends the pair */
    return compare_contents(job, left, right, false, same, err);
}

/* compare_persids - compares persistent ids: of ('storage', type, key, location, size) only type and size. */
static ckpt_status compare_persids(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                                   bool *same, ckpt_error *err)
{
    const ckpt_value *in_a = left->u.pid, *in_b = right->u.pid;
    ckpt_str what;
    bool storage = value_text(value_item(in_a, 0), &what) && str_is(what, "storage");
    *same = value_is_sequence(in_a) == value_is_sequence(in_b) && value_count(in_a) == value_count(in_b);
    if (!*same || !storage)
        return *same ? push_nodes(job, in_a, in_b, err) : CKPT_OK;
    note_unread(job);
    CKPT_TRY(push_optional(job, value_item(in_a, 0), value_item(in_b, 0), same, err));
    CKPT_TRY(push_optional(job, value_item(in_a, 1), value_item(in_b, 1), same, err));
    return push_optional(job, value_item(in_a, 4), value_item(in_b, 4), same, err);
}

static ckpt_status compare_nodes(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                                 bool *same, ckpt_error *err)
{
    enum form form = form_of(left);
    bool is_tensor_a = value_row(left) != CKPT_NO_TENSOR || left->type == CKPT_V_TENSOR,
         is_tensor_b = value_row(right) != CKPT_NO_TENSOR || right->type == CKPT_V_TENSOR;
    *same = is_tensor_a == is_tensor_b && (is_tensor_a || form == form_of(right));
    if (is_tensor_a && (value_row(left) == CKPT_NO_TENSOR || value_row(right) == CKPT_NO_TENSOR))
        note_unread(job);
    if (!*same || is_tensor_a)
        return CKPT_OK;
    switch (form) {
    case FORM_NONE: return CKPT_OK;
    case FORM_BOOL: *same = left->u.b == right->u.b; return CKPT_OK;
    case FORM_INT: *same = same_integer(left, right); return CKPT_OK;
    case FORM_FLOAT: *same = same_real(left->u.f, right->u.f); return CKPT_OK;
    case FORM_TEXT:
    case FORM_BYTES:
    case FORM_BYTEARRAY: return compare_octets(left, right, same, err);
    case FORM_REFERENCE: *same = is_same_reference(left, right); return CKPT_OK;
    case FORM_PERSID: return compare_persids(job, left, right, same, err);
    default: return compare_objects(job, left, right, same, err);
    }
}

/* compare_waiting - compares all pairs that were pushed, and those below them. */
static ckpt_status compare_waiting(struct value_equal *job, bool *same, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    job->in_outermost = true;
    job->comparison++;
    job->nunproven = job->nopen = 0;
    while (st == CKPT_OK && *same && job->n) {
        struct node_pair next = job->waiting[--job->n];
        if (!next.a)
            end_pair(job);
        else if (++job->work > MAX_WORK)
            st = fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "comparing values takes {more} than {=%llu} steps",
                      (unsigned long long)MAX_WORK);
        else
            st = compare_nodes(job, next.a, next.b, same, err);
    }
    return st == CKPT_OK && !*same ? mark_differing(job, err) : st;
}

ckpt_status value_equal(struct value_equal *job, const ckpt_value *left, const ckpt_value *right, bool *same,
                        ckpt_error *err)
{
    *same = true;
    job->n = 0;
    job->has_unread = false;
    CKPT_TRY(push_optional(job, left, right, same, err));
    return compare_waiting(job, same, err);
}

/* push_dtypes - pushes code and state of two numpy dtypes; their other arguments do not matter. */
static ckpt_status push_dtypes(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                               bool *same, ckpt_error *err)
{
    struct numpy_dtype unused;
    if (!numpy_dtype_of(left, &unused) || !numpy_dtype_of(right, &unused))
        return push_optional(job, left, right, same, err);
    CKPT_TRY(push_optional(job, value_arg(left, 0), value_arg(right, 0), same, err));
    return push_optional(job, value_state(left), value_state(right), same, err);
}

/* is_bytes - returns true if VALUE is bytes or a bytearray, which protocol 5 has for writable arrays. */
static bool is_bytes(const ckpt_value *value)
{
    enum form form = value ? form_of(value) : FORM_OBJECT;
    return form == FORM_BYTES || form == FORM_BYTEARRAY;
}

static bool has_other_order(const struct numpy_array *array)
{
    return array->order != 'C' && array->order != 'F';
}

ckpt_status numpy_array_equal(struct value_equal *job, const ckpt_value *left, const ckpt_value *right,
                              bool *same, ckpt_error *err)
{
    struct numpy_array in_a, in_b;
    *same = true;
    job->n = 0;
    job->no_attributes = false;
    job->has_unread = !left || !right || !numpy_array_of(left, &in_a) || !numpy_array_of(right, &in_b) ||
                      has_other_order(&in_a) || has_other_order(&in_b);
    if (job->has_unread)
        return CKPT_OK;
    *same = in_a.order == in_b.order || value_count(in_a.shape) < 2;
    CKPT_TRY(push_dtypes(job, in_a.dtype, in_b.dtype, same, err));
    if (!is_bytes(in_a.data) || !is_bytes(in_b.data))
        CKPT_TRY(push_optional(job, in_a.data, in_b.data, same, err));
    CKPT_TRY(compare_waiting(job, same, err));
    if (*same && is_bytes(in_a.data) && is_bytes(in_b.data))
        return compare_octets(in_a.data, in_b.data, same, err);
    return CKPT_OK;
}

void value_equal_free(struct value_equal *job)
{
    free(job->waiting);
    free(job->nodes);
    free(job->unproven);
    free(job->open);
    map_free(job->numbers);
    map_free(job->differing);
}
