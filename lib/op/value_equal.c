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

/* latin1_argument - returns the text in the arguments of V: _codecs.encode(text, "latin1") or, from Python 2,
 * text, "latin1". NULL: they are something else. */
static const ckpt_value *latin1_argument(const ckpt_value *v)
{
    ckpt_str codec;
    if (value_nargs(v) == 1)
        return latin1_text(value_arg(v, 0));
    bool named = value_nargs(v) == 2 && value_text(value_arg(v, 1), &codec) && is_latin1(codec);
    const ckpt_value *text = named ? value_arg(v, 0) : NULL;
    return text && (text->type == CKPT_V_STR || text->type == CKPT_V_STR8) ? text : NULL;
}

/* Bytes or text, in any of the forms that they have in pickles. */
struct octets {
    const ckpt_value *node; /* the node with the bytes; NULL: empty */
    bool latin1;            /* NODE is text; each code point stands for one byte */
};

/* read_called_bytes - sets *OUT to the bytes that the call V makes; false: it makes something else. */
static bool read_called_bytes(const ckpt_value *v, struct octets *out)
{
    const ckpt_value *callable = v->u.call.callable, *arg = value_arg(v, 0);
    bool is_bytearray = is_builtin(callable, "bytearray"),
         has_no_extra = value_extra_of(v) == &value_no_extra;
    *out = (struct octets){latin1_text(v), true};
    if (out->node || !has_no_extra)
        return out->node != NULL;
    if (value_nargs(v) == 0)
        return is_bytearray || is_builtin(callable, "bytes");
    if (!is_bytearray)
        return false;
    out->node = latin1_argument(v);
    if (!out->node && value_nargs(v) == 1 && arg->type == CKPT_V_BYTES)
        *out = (struct octets){arg, false};
    return out->node != NULL;
}

static enum form form_of(const ckpt_value *v)
{
    struct octets unused;
    struct reference reference;
    if (reference_of(v, &reference))
        return FORM_REFERENCE;
    switch (ckpt_value_get_type(v)) {
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
        if (!read_called_bytes(v, &unused))
            return FORM_OBJECT;
        return is_builtin(v->u.call.callable, "bytearray") ? FORM_BYTEARRAY : FORM_BYTES;
    default: return FORM_OBJECT;
    }
}

/* ------------------------------------------------------------ single values */

/* trim_integer - returns the little-endian bytes of the int V without those that only repeat its sign. */
static ckpt_str trim_integer(const ckpt_value *v, char small[8])
{
    for (unsigned i = 0; v->type == CKPT_V_INT && i < 8; i++)
        small[i] = (char)((uint64_t)v->u.i >> (8 * i));
    ckpt_str s = v->type == CKPT_V_INT ? str_of(small, 8) : v->u.str;
    while (s.len > 1) {
        unsigned char last = (unsigned char)s.ptr[s.len - 1], before = (unsigned char)s.ptr[s.len - 2];
        if (!(last == 0 && before < 0x80) && !(last == 0xff && before >= 0x80))
            break;
        s.len--;
    }
    return s.len == 1 && s.ptr[0] == 0 ? str_of("", 0) : s; /* LONG1 writes 0 with no bytes */
}

static bool same_integer(const ckpt_value *a, const ckpt_value *b)
{
    char in_a[8], in_b[8];
    return str_eq(trim_integer(a, in_a), trim_integer(b, in_b));
}

static bool same_real(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Reads the bytes of one of the two nodes in pieces. */
struct octet_reader {
    struct octets octets;
    uint64_t off, size; /* OFF of the SIZE stored bytes were read */
    size_t pos, len;    /* buf[pos..len) is not compared yet */
    bool malformed;     /* a code point is above U+00FF */
    char buf[4096];
};

static void octets_open(struct octet_reader *r, const ckpt_value *v)
{
    *r = (struct octet_reader){.octets = {v, false}};
    if (v->type == CKPT_V_CALL)
        (void)read_called_bytes(v, &r->octets);
    const ckpt_value *node = r->octets.node;
    if (node)
        r->size = node->flags & VALUE_SPAN ? node->u.span->nbytes : node->u.str.len;
}

static ckpt_status read_node_bytes(const ckpt_value *v, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    if (v->flags & VALUE_SPAN)
        return source_read(v->u.span->src, v->u.span->off + off, out, n, err);
    memcpy(out, v->u.str.ptr + off, n);
    return CKPT_OK;
}

/* decode_latin1 - decodes the N bytes of text in R's buffer in place; returns how many bytes of text it used:
 * all except for a last code point that is incomplete. */
static size_t decode_latin1(struct octet_reader *r, size_t n)
{
    size_t pos = 0;
    ckpt_str text = str_of(r->buf, r->off + n == r->size ? n : utf8_complete_length(r->buf, n));
    for (r->len = 0; pos < text.len && !r->malformed; r->len++) {
        uint32_t cp = utf8_next(text, &pos, false);
        r->malformed = cp > 0xff;
        r->buf[r->len] = (char)cp;
    }
    return pos;
}

/* octets_fill - fills the buffer of R if all of its content was compared and stored bytes are left. */
static ckpt_status octets_fill(struct octet_reader *r, ckpt_error *err)
{
    uint64_t left = r->size - r->off;
    size_t n = left < sizeof r->buf ? (size_t)left : sizeof r->buf;
    if (r->pos < r->len || n == 0)
        return CKPT_OK;
    CKPT_TRY(read_node_bytes(r->octets.node, r->off, r->buf, n, err));
    r->pos = 0;
    r->len = n;
    r->off += r->octets.latin1 ? decode_latin1(r, n) : n;
    return CKPT_OK;
}

static ckpt_status compare_octets(const ckpt_value *a, const ckpt_value *b, bool *same, ckpt_error *err)
{
    struct octet_reader in_a, in_b;
    octets_open(&in_a, a);
    octets_open(&in_b, b);
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

static bool is_same_reference(const ckpt_value *a, const ckpt_value *b)
{
    struct reference in_a, in_b;
    return reference_of(a, &in_a) && reference_of(b, &in_b) && reference_equal(&in_a, &in_b);
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

/* read_array - sets *OUT to the array that V makes; false: it makes something else, or has attributes. */
static bool read_array(const ckpt_value *v, struct py_array *out)
{
    *out = (struct py_array){.size = 0};
    if (v->type != CKPT_V_CALL || value_extra_of(v) != &value_no_extra)
        return false;
    bool is_rebuilt = value_is_global(v->u.call.callable, "array", "_array_reconstructor") &&
                      value_nargs(v) == 4 && value_is_global(value_arg(v, 0), "array", "array");
    bool is_list = value_is_global(v->u.call.callable, "array", "array") && value_nargs(v) == 2;
    const ckpt_value *code = value_arg(v, is_rebuilt), *data = value_arg(v, is_rebuilt ? 3 : 1);
    if ((!is_rebuilt && !is_list) || !value_text(code, &out->code) || str_is(out->code, "u"))
        return false;
    out->items = is_list && data->type == CKPT_V_LIST ? data : NULL;
    out->bytes = is_rebuilt && form_of(data) == FORM_BYTES ? data : NULL;
    return out->items || (out->bytes && set_array_format(out, value_arg(v, 2)));
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

static void set_array_number(struct array_reader *r, uint64_t raw)
{
    unsigned unused = 64 - 8 * r->array.size;
    r->number = (ckpt_value){.type = CKPT_V_INT};
    if (r->array.kind == ARRAY_FLOAT) {
        uint32_t single = (uint32_t)raw;
        float f;
        memcpy(&f, &single, sizeof f);
        memcpy(&r->number.u.f, &raw, sizeof raw);
        r->number.u.f = r->array.size == 4 ? (double)f : r->number.u.f;
        r->number.type = CKPT_V_FLOAT;
    } else if (r->array.kind == ARRAY_SIGNED && raw >> (63 - unused)) {
        r->number.u.i = (int64_t)(raw | (unused ? UINT64_MAX << (64 - unused) : 0));
    } else if (raw <= INT64_MAX) {
        r->number.u.i = (int64_t)raw;
    } else {
        for (unsigned i = 0; i < 8; i++)
            r->big[i] = (char)(raw >> 8 * i);
        r->number.type = CKPT_V_BIGINT;
        r->number.u.str = str_of(r->big, sizeof r->big);
    }
}

/* read_element - sets *OUT to the next element of R; NULL: there are no more complete ones. */
static ckpt_status read_element(struct array_reader *r, const ckpt_value **out, ckpt_error *err)
{
    uint64_t raw = 0;
    *out = r->array.items ? value_item(r->array.items, r->next++) : NULL;
    if (r->array.items)
        return CKPT_OK;
    for (unsigned i = 0; i < r->array.size; i++) {
        CKPT_TRY(octets_fill(&r->octets, err));
        r->incomplete = i > 0;
        if (r->octets.pos == r->octets.len)
            return CKPT_OK;
        uint64_t byte = (unsigned char)r->octets.buf[r->octets.pos++];
        raw = r->array.big_endian ? raw << 8 | byte : raw | byte << 8 * i;
    }
    r->incomplete = false;
    set_array_number(r, raw);
    *out = &r->number;
    return CKPT_OK;
}

static bool same_number(const ckpt_value *a, const ckpt_value *b)
{
    enum form form = form_of(a);
    if (form != form_of(b))
        return false;
    return form == FORM_INT ? same_integer(a, b) : form == FORM_FLOAT && same_real(a->u.f, b->u.f);
}

/* compare_arrays - sets *SAME to whether A and B have the same type code and elements. */
static ckpt_status compare_arrays(const struct py_array *a, const struct py_array *b, bool *same,
                                  ckpt_error *err)
{
    struct array_reader in_a = {.array = *a}, in_b = {.array = *b};
    const ckpt_value *of_a, *of_b;
    if (a->bytes)
        octets_open(&in_a.octets, a->bytes);
    if (b->bytes)
        octets_open(&in_b.octets, b->bytes);
    *same = str_eq(a->code, b->code);
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

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* get_node_number - sets *OUT to the index of V in e->nodes, and makes it a set of its own there if the
 * current comparison has not reached V yet. */
static ckpt_status get_node_number(struct value_equal *e, const ckpt_value *v, uint32_t *out, ckpt_error *err)
{
    if (!e->numbers && !(e->numbers = map_new(0)))
        return fail_memory(err);
    *out = map_get_num(e->numbers, ptr_key(v));
    if (*out == MAP_NONE) {
        *out = (uint32_t)e->nnodes;
        const struct equal_node node = {.parent = {*out, *out}};
        CKPT_TRY_ALLOC(arena_push(NULL, &e->nodes, &e->nnodes, &e->cap_nodes, &node, sizeof node) &&
                           map_put_num(e->numbers, ptr_key(v), *out, NULL),
                       err);
    }
    struct equal_node *node = &e->nodes[*out];
    if (node->comparison != e->comparison) {
        node->comparison = e->comparison;
        node->parent[ASSUMED] = *out;
        node->oldest = NOTHING;
    }
    return CKPT_OK;
}

static uint32_t find_set_root(struct value_equal *e, enum equal_sets sets, uint32_t i)
{
    for (uint32_t *parent; *(parent = &e->nodes[i].parent[sets]) != i; i = *parent)
        *parent = e->nodes[*parent].parent[sets];
    return i;
}

static uint64_t pair_key(struct equal_pair pair) { return (uint64_t)pair.a << 32 | pair.b; }

static void note_unread(struct value_equal *e)
{
    e->has_unread = true;
    if (e->nopen)
        e->open[e->nopen - 1].has_unread = true;
}

/* find_pair - returns what is known of PAIR. */
static enum knowledge find_pair(struct value_equal *e, struct equal_pair pair)
{
    uint32_t root = find_set_root(e, PROVEN, pair.a);
    if (root == find_set_root(e, PROVEN, pair.b)) {
        if (e->nodes[root].has_unread)
            note_unread(e);
        return KNOWN_SAME;
    }
    if (e->differing && map_get_num(e->differing, pair_key(pair)) != MAP_NONE)
        return KNOWN_DIFFERENT;
    root = find_set_root(e, ASSUMED, pair.a);
    if (root != find_set_root(e, ASSUMED, pair.b))
        return UNKNOWN;
    if (e->has_unread)
        note_unread(e);
    if (e->nopen)
        e->open[e->nopen - 1].lowest = smaller(e->open[e->nopen - 1].lowest, e->nodes[root].oldest);
    return KNOWN_SAME;
}

/* begin_pair - assumes that PAIR is equal until its contents are compared. */
static ckpt_status begin_pair(struct value_equal *e, struct equal_pair pair, ckpt_error *err)
{
    uint32_t index = (uint32_t)e->nunproven, root_a = find_set_root(e, ASSUMED, pair.a),
             root_b = find_set_root(e, ASSUMED, pair.b);
    const struct open_pair opened = {.index = index, .lowest = index};
    e->nodes[root_b].parent[ASSUMED] = root_a;
    e->nodes[root_a].oldest = smaller(index, smaller(e->nodes[root_a].oldest, e->nodes[root_b].oldest));
    bool ok = arena_push(NULL, &e->unproven, &e->nunproven, &e->cap_unproven, &pair, sizeof pair) &&
              arena_push(NULL, &e->open, &e->nopen, &e->cap_open, &opened, sizeof opened);
    return ok ? CKPT_OK : fail_memory(err);
}

/* prove_pair - puts both nodes of PAIR, which is one of those from index FIRST on, into one set. */
static void prove_pair(struct value_equal *e, struct equal_pair pair, uint32_t first, bool has_unread)
{
    uint32_t root_a = find_set_root(e, PROVEN, pair.a), root_b = find_set_root(e, PROVEN, pair.b);
    e->nodes[root_b].parent[PROVEN] = root_a;
    e->nodes[root_a].has_unread |= e->nodes[root_b].has_unread || has_unread;
    struct equal_node *assumed = &e->nodes[find_set_root(e, ASSUMED, pair.a)];
    if (assumed->oldest >= first)
        assumed->oldest = NOTHING;
}

/* end_pair - ends the innermost open pair, whose contents are equal. It is proven to be equal, with all
 * pairs after it, unless that depends on a pair that contains it. */
static void end_pair(struct value_equal *e)
{
    struct open_pair closed = e->open[--e->nopen], *outer = e->nopen ? &e->open[e->nopen - 1] : NULL;
    if (outer)
        outer->has_unread |= closed.has_unread;
    if (outer && closed.lowest < closed.index) {
        outer->lowest = smaller(outer->lowest, closed.lowest);
        return;
    }
    for (size_t i = closed.index; i < e->nunproven; i++)
        prove_pair(e, e->unproven[i], closed.index, closed.has_unread);
    e->nunproven = closed.index;
}

/* mark_differing - notes that the open pairs differ. */
static ckpt_status mark_differing(struct value_equal *e, ckpt_error *err)
{
    if (!e->differing && !(e->differing = map_new(0)))
        return fail_memory(err);
    for (size_t i = 0; i < e->nopen; i++)
        CKPT_TRY_ALLOC(map_put_num(e->differing, pair_key(e->unproven[e->open[i].index]), 0, NULL), err);
    return CKPT_OK;
}

/* ---------------------------------------------------------------- work list */

static ckpt_status push_nodes(struct value_equal *e, const ckpt_value *a, const ckpt_value *b,
                              ckpt_error *err)
{
    bool pushed = arena_push(NULL, &e->waiting, &e->n, &e->cap, &(struct node_pair){a, b},
                             sizeof *e->waiting);
    return pushed ? CKPT_OK : fail_memory(err);
}

/* push_optional - pushes A and B if neither is NULL; *SAME becomes false if only one is NULL. */
static ckpt_status push_optional(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                                 ckpt_error *err)
{
    if (!a || !b)
        *same = *same && a == b;
    else
        CKPT_TRY(push_nodes(e, a, b, err));
    return CKPT_OK;
}

static ckpt_status push_ordered(struct value_equal *e, const struct view *a, const struct view *b,
                                ckpt_error *err)
{
    const ckpt_value *key, *in_a, *in_b;
    for (size_t i = 0; view_item(a, i, &key, &in_a) && view_item(b, i, &key, &in_b); i++)
        CKPT_TRY(push_nodes(e, in_a, in_b, err));
    return CKPT_OK;
}

/* ------------------------------------------------------ contents in any order */

struct keyed_child {
    const ckpt_value *key, *val; /* of a set: the item and NULL */
    size_t index;
};

static int compare_key_text(const ckpt_value *a, const ckpt_value *b)
{
    char in_a[KEY_TEXT_MAX], in_b[KEY_TEXT_MAX];
    value_text_or_type(a, 16, in_a, sizeof in_a);
    value_text_or_type(b, 16, in_b, sizeof in_b);
    return strcmp(in_a, in_b);
}

/* key_group - returns the first criterion by which keys are sorted: texts, then ints, then other forms. */
static int key_group(const ckpt_value *key)
{
    ckpt_str text;
    int64_t i;
    return value_text(key, &text) ? -2 : value_integer(key, &i) ? -1 : (int)form_of(key);
}

static int compare_child_keys(const void *x, const void *y)
{
    const struct keyed_child *a = x, *b = y;
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

static ckpt_status push_unordered(struct value_equal *e, const struct view *a, const struct view *b,
                                  ckpt_error *err)
{
    struct keyed_child *in_a = sort_children(a), *in_b = sort_children(b);
    ckpt_status st = in_a && in_b ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < a->n; i++) {
        st = push_nodes(e, in_a[i].key, in_b[i].key, err);
        if (st == CKPT_OK && in_a[i].val)
            st = push_nodes(e, in_a[i].val, in_b[i].val, err);
    }
    free(in_a);
    free(in_b);
    return st;
}

/* ------------------------------------------------------------------ objects */

static bool is_set(const ckpt_value *v)
{
    const ckpt_value *k = view_class(v);
    return v->type == CKPT_V_SET || v->type == CKPT_V_FROZENSET || is_builtin(k, "set") ||
           is_builtin(k, "frozenset");
}

/* has_contents_as_arguments - returns true if the arguments of V are its contents, as in dict(…). */
static bool has_contents_as_arguments(const ckpt_value *v)
{
    const ckpt_value *k = view_class(v);
    return is_set(v) || value_is_global(k, "collections", "OrderedDict") ||
           value_is_global(k, "collections", "Counter") || is_builtin(k, "dict") || is_builtin(k, "list") ||
           is_builtin(k, "tuple");
}

/* push_arguments - pushes the arguments of two calls, unless these are the contents. If one call lacks them
 * because of its protocol, the states of the objects decide. */
static ckpt_status push_arguments(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                                  ckpt_error *err)
{
    const struct creation by_a = creation_of(a), by_b = creation_of(b);
    bool have_states = value_state(a) && value_state(b);
    if ((!by_a.args || !by_b.args) && have_states)
        return CKPT_OK;
    CKPT_TRY(push_optional(e, by_a.kwargs, by_b.kwargs, same, err));
    if (has_contents_as_arguments(a) || has_contents_as_arguments(b))
        return CKPT_OK;
    struct view in_a = view_arguments(a), in_b = view_arguments(b);
    *same = *same && in_a.n == in_b.n;
    return push_ordered(e, &in_a, &in_b, err);
}

/* push_call_parts - pushes the classes and arguments of two calls, and their attributes if ATTRIBUTES. */
static ckpt_status push_call_parts(struct value_equal *e, const ckpt_value *a, const ckpt_value *b,
                                   bool attributes, bool *same, ckpt_error *err)
{
    CKPT_TRY(push_optional(e, view_class(a), view_class(b), same, err));
    CKPT_TRY(push_arguments(e, a, b, same, err));
    return attributes ? push_optional(e, value_state(a), value_state(b), same, err) : CKPT_OK;
}

/* compare_contents - compares type and class of two objects, and pushes what is in them. */
static ckpt_status compare_contents(struct value_equal *e, const ckpt_value *a, const ckpt_value *b,
                                    bool no_attributes, bool *same, ckpt_error *err)
{
    char type_a[256], type_b[256];
    struct view in_a = view_of(a), in_b = view_of(b);
    struct py_array array_a, array_b;
    if (read_array(a, &array_a) && read_array(b, &array_b))
        return compare_arrays(&array_a, &array_b, same, err);
    (void)ckpt_value_type_name(a, type_a, sizeof type_a);
    (void)ckpt_value_type_name(b, type_b, sizeof type_b);
    bool skips_view = in_a.kind == VIEW_ATTRS && no_attributes;
    *same = strcmp(type_a, type_b) == 0 && in_a.kind == in_b.kind && (skips_view || in_a.n == in_b.n);
    if (!*same)
        return CKPT_OK;
    if (a->type == CKPT_V_CALL && b->type == CKPT_V_CALL) {
        bool ordered_dict = value_is_global(view_class(a), "collections", "OrderedDict"); /* skip _metadata */
        bool attributes = in_a.kind != VIEW_ATTRS && !ordered_dict && !no_attributes;
        CKPT_TRY(push_call_parts(e, a, b, attributes, same, err));
    }
    if (skips_view)
        return CKPT_OK;
    if (in_a.kind == VIEW_ITEMS && !is_set(a))
        return push_ordered(e, &in_a, &in_b, err);
    return push_unordered(e, &in_a, &in_b, err);
}

static ckpt_status compare_objects(struct value_equal *e, const ckpt_value *a, const ckpt_value *b,
                                   bool *same, ckpt_error *err)
{
    struct equal_pair pair;
    bool no_attributes = e->in_outermost && e->no_attributes; /* then nothing is found out about the pair */
    e->in_outermost = false;
    if (no_attributes)
        return compare_contents(e, a, b, true, same, err);
    CKPT_TRY(get_node_number(e, a, &pair.a, err));
    CKPT_TRY(get_node_number(e, b, &pair.b, err));
    enum knowledge known = find_pair(e, pair);
    *same = known != KNOWN_DIFFERENT;
    if (known != UNKNOWN)
        return CKPT_OK;
    CKPT_TRY(begin_pair(e, pair, err));
    CKPT_TRY(push_nodes(e, NULL, NULL, err)); /* below its contents: ends the pair */
    return compare_contents(e, a, b, false, same, err);
}

/* compare_persids - compares persistent ids: of ('storage', type, key, location, size) only type and size. */
static ckpt_status compare_persids(struct value_equal *e, const ckpt_value *a, const ckpt_value *b,
                                   bool *same, ckpt_error *err)
{
    const ckpt_value *in_a = a->u.pid, *in_b = b->u.pid;
    ckpt_str what;
    bool storage = value_text(value_item(in_a, 0), &what) && str_is(what, "storage");
    *same = value_is_sequence(in_a) == value_is_sequence(in_b) && value_count(in_a) == value_count(in_b);
    if (!*same || !storage)
        return *same ? push_nodes(e, in_a, in_b, err) : CKPT_OK;
    note_unread(e);
    CKPT_TRY(push_optional(e, value_item(in_a, 0), value_item(in_b, 0), same, err));
    CKPT_TRY(push_optional(e, value_item(in_a, 1), value_item(in_b, 1), same, err));
    return push_optional(e, value_item(in_a, 4), value_item(in_b, 4), same, err);
}

static ckpt_status compare_nodes(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                                 ckpt_error *err)
{
    enum form form = form_of(a);
    bool is_tensor_a = value_row(a) != CKPT_NO_TENSOR || a->type == CKPT_V_TENSOR,
         is_tensor_b = value_row(b) != CKPT_NO_TENSOR || b->type == CKPT_V_TENSOR;
    *same = is_tensor_a == is_tensor_b && (is_tensor_a || form == form_of(b));
    if (is_tensor_a && (value_row(a) == CKPT_NO_TENSOR || value_row(b) == CKPT_NO_TENSOR))
        note_unread(e);
    if (!*same || is_tensor_a)
        return CKPT_OK;
    switch (form) {
    case FORM_NONE: return CKPT_OK;
    case FORM_BOOL: *same = a->u.b == b->u.b; return CKPT_OK;
    case FORM_INT: *same = same_integer(a, b); return CKPT_OK;
    case FORM_FLOAT: *same = same_real(a->u.f, b->u.f); return CKPT_OK;
    case FORM_TEXT:
    case FORM_BYTES:
    case FORM_BYTEARRAY: return compare_octets(a, b, same, err);
    case FORM_REFERENCE: *same = is_same_reference(a, b); return CKPT_OK;
    case FORM_PERSID: return compare_persids(e, a, b, same, err);
    default: return compare_objects(e, a, b, same, err);
    }
}

/* compare_waiting - compares all pairs that were pushed, and those below them. */
static ckpt_status compare_waiting(struct value_equal *e, bool *same, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    e->in_outermost = true;
    e->comparison++;
    e->nunproven = e->nopen = 0;
    while (st == CKPT_OK && *same && e->n) {
        struct node_pair next = e->waiting[--e->n];
        if (!next.a)
            end_pair(e);
        else if (++e->work > MAX_WORK)
            st = fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "comparing values takes {more} than {=%llu} steps",
                      (unsigned long long)MAX_WORK);
        else
            st = compare_nodes(e, next.a, next.b, same, err);
    }
    return st == CKPT_OK && !*same ? mark_differing(e, err) : st;
}

ckpt_status value_equal(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                        ckpt_error *err)
{
    *same = true;
    e->n = 0;
    e->has_unread = false;
    CKPT_TRY(push_optional(e, a, b, same, err));
    return compare_waiting(e, same, err);
}

/* push_dtypes - pushes code and state of two numpy dtypes; their other arguments do not matter. */
static ckpt_status push_dtypes(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                               ckpt_error *err)
{
    struct numpy_dtype unused;
    if (!numpy_dtype_of(a, &unused) || !numpy_dtype_of(b, &unused))
        return push_optional(e, a, b, same, err);
    CKPT_TRY(push_optional(e, value_arg(a, 0), value_arg(b, 0), same, err));
    return push_optional(e, value_state(a), value_state(b), same, err);
}

/* is_bytes - returns true if V is bytes or a bytearray, which protocol 5 has for writable arrays. */
static bool is_bytes(const ckpt_value *v)
{
    enum form form = v ? form_of(v) : FORM_OBJECT;
    return form == FORM_BYTES || form == FORM_BYTEARRAY;
}

static bool has_other_order(const struct numpy_array *a) { return a->order != 'C' && a->order != 'F'; }

ckpt_status numpy_array_equal(struct value_equal *e, const ckpt_value *a, const ckpt_value *b, bool *same,
                              ckpt_error *err)
{
    struct numpy_array in_a, in_b;
    *same = true;
    e->n = 0;
    e->no_attributes = false;
    e->has_unread = !a || !b || !numpy_array_of(a, &in_a) || !numpy_array_of(b, &in_b) ||
                    has_other_order(&in_a) || has_other_order(&in_b);
    if (e->has_unread)
        return CKPT_OK;
    *same = in_a.order == in_b.order || value_count(in_a.shape) < 2;
    CKPT_TRY(push_dtypes(e, in_a.dtype, in_b.dtype, same, err));
    if (!is_bytes(in_a.data) || !is_bytes(in_b.data))
        CKPT_TRY(push_optional(e, in_a.data, in_b.data, same, err));
    CKPT_TRY(compare_waiting(e, same, err));
    if (*same && is_bytes(in_a.data) && is_bytes(in_b.data))
        return compare_octets(in_a.data, in_b.data, same, err);
    return CKPT_OK;
}

void value_equal_free(struct value_equal *e)
{
    free(e->waiting);
    free(e->nodes);
    free(e->unproven);
    free(e->open);
    map_free(e->numbers);
    map_free(e->differing);
}
