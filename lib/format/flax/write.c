/*
 * write.c - a plan as Flax's .msgpack, as flax.serialization.msgpack_serialize writes it: maps of maps, and
 * in them an extension for each array (read.c). Numbers, lengths and counts have their shortest form.
 *
 * Of a .msgpack everything is written again in its order, with the edits of the plan; values that are no
 * tensors stay. Of any other input the tensors are: a path of several elements makes nested maps, whose keys
 * are texts as flax's to_state_dict makes them; a name that is one element stays one key, dots in it or not.
 * Without a name the only tensor is the array itself.
 *
 * Everything but the elements is made in memory first, with cuts where elements go.
 *
 * Refused: dtypes that flax cannot read, arrays above 2^30 bytes, which flax cuts into chunks, names that are
 * a tensor and a map of others, text among keys that are numbers, more than FLAX_DEPTH containers in each
 * other, and what would not be recognized, such as an empty map that is not called .msgpack.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/map.h"
#include "codec/msgpack.h"
#include "core/numpy.h"
#include "format/flat_write.h"
#include "format/flax/flax.h"

#define LARGEST       (UINT64_C(1) << 30) /* of flax's arrays that are no chunks */
#define LARGEST_WIDTH 32u                 /* of an element: complex256 */

struct flax_frame {
    const ckpt_value *node;
    const struct edit *edit; /* or NULL */
    uint32_t next;           /* its entry that is visited next */
};

struct flax_output {
    bool keeps_graph;  /* the graph of the input is written; else a tree of the items' paths */
    uint32_t *item_of; /* by row; MAP_NONE: it is not written */
    const ckpt_value *root;
    buf text;      /* all of the output but elements */
    size_t *cuts;  /* by item in the order of the output: what of TEXT is before its elements */
    size_t *order; /* the items in that order */
    size_t n;
    struct flax_frame stack[FLAX_DEPTH];
    uint32_t depth;
};

/* ------------------------------------------------------------------------ tensors */

/* get_dtype_name - the dtype in which X is written; NULL: flax has no such dtype. */
static const char *get_dtype_name(const struct flat_writer *w, const struct flat_item *x)
{
    struct numpy_dtype d;
    const ckpt_tensor *t = flat_tensor(w, x);
    ckpt_dtype dtype = plan_dtype(w->p, x->row);
    const struct dtype_info *known = dtype_info(dtype);
    if (dtype != CKPT_DT_NP) {
        bool is_half_complex = dtype == CKPT_DT_C32 || dtype == CKPT_DT_BC32;
        bool has = known->block_elems == 1 && strchr("fiubc", known->klass) && !is_half_complex;
        return has ? known->name : NULL;
    }
    const char *name = ckpt_tensor_dtype_name(t);
    bool is_date = str_starts(str_c(name), STR_LIT("datetime64[")) ||
                   str_starts(str_c(name), STR_LIT("timedelta64["));
    return is_date || (numpy_dtype_parse(str_c(name), &d) && strchr("fiubc", d.kind)) ? name : NULL;
}

static const char *find_unfit_reason(const struct flat_writer *w, const struct flat_item *x)
{
    uint64_t nbytes;
    const ckpt_tensor *t = flat_tensor(w, x);
    if (t->ndim > NPY_DIMENSIONS)
        return "has more dimensions than numpy allows";
    if (!get_dtype_name(w, x))
        return "has a type that flax lacks";
    if (!flax_size(t->shape, t->ndim, LARGEST_WIDTH, &nbytes))
        return "has a larger size than numpy allows";
    return plan_nbytes(w->p, x->row, &nbytes) && nbytes <= LARGEST ? NULL : "has more than 2^30 bytes";
}

/* put_array - item I, V in the graph, up to its elements. */
static ckpt_status put_array(struct flat_writer *w, const ckpt_value *v, uint32_t i, ckpt_error *err)
{
    struct flax_output *o = w->user;
    struct flat_item *x = &w->items[i];
    const ckpt_tensor *t = flat_tensor(w, x);
    uint64_t nbytes = flat_nbytes(w, x);
    buf head;
    buf_init(&head, SIZE_MAX / 2);
    msgpack_put_array(&head, 3);
    msgpack_put_array(&head, t->ndim);
    for (uint32_t k = 0; k < t->ndim; k++)
        msgpack_put_uint(&head, t->shape[k]);
    msgpack_put_text(&head, str_c(get_dtype_name(w, x)));
    msgpack_put_bytes(&head, nbytes);
    bool is_scalar = o->keeps_graph && flax_is_scalar(w->p->file, v);
    msgpack_put_ext(&o->text, is_scalar ? FLAX_SCALAR : FLAX_ARRAY,
                    head.len + nbytes); /* bounded: by LARGEST */
    buf_str(&o->text, buf_view(&head));
    bool ok = buf_ok(&head) && buf_ok(&o->text);
    buf_free(&head);
    if (!ok)
        return fail_memory(err);
    CKPT_TRY(flat_place(w, x, 1, err));
    o->cuts[o->n] = o->text.len;
    o->order[o->n++] = i;
    return checked_add(x->begin, o->text.len, &x->begin) ? CKPT_OK : flat_fail_size(err);
}

/* --------------------------------------------------------------------- the tree */

/* A tree of the paths of all items. */
struct flax_tree {
    arena *a;
    map *children; /* number of the parent and text of the key -> number */
    ckpt_value **nodes;
    size_t n, cap;
    buf key;
    ckpt_error *err;
};

static ckpt_status add_node(struct flax_tree *t, ckpt_value_type type, uint32_t row)
{
    ckpt_value **grown = arena_grow(t->a, t->nodes, t->n, &t->cap, t->n + 1, sizeof(ckpt_value *));
    ckpt_value *v = value_new(t->a, type, 0);
    if (!grown || !v)
        return fail_memory(t->err);
    v->row = row;
    t->nodes = grown;
    grown[t->n++] = v;
    return CKPT_OK;
}

/* add_child - *AT, a map of T, becomes its child of the name E: a new one if there is none. ROW: it is that
 * tensor; CKPT_NO_TENSOR: a map. */
static ckpt_status add_child(struct flax_tree *t, uint32_t *at, const ckpt_path_elem *e, uint32_t row)
{
    bool is_map = row == CKPT_NO_TENSOR;
    uint32_t old;
    t->key.len = 0;
    buf_u32le(&t->key, *at);
    if (e->is_int)
        buf_printf(&t->key, "%lld", (long long)e->num);
    else
        buf_str(&t->key, e->str);
    ckpt_str key = arena_str(t->a, buf_view(&t->key)), name = str_skip(key, 4);
    if (!buf_ok(&t->key) || !key.ptr || !map_put(t->children, key, (uint32_t)t->n, &old))
        return fail_memory(t->err);
    if (old != MAP_NONE && (!is_map || t->nodes[old]->type != CKPT_V_DICT))
        return fail(t->err, CKPT_EEXIST, CKPT_NO_OFFSET,
                    "\"%.*s\" would be {a tensor and a map}, where {=one of them} is possible",
                    STR_ARG(name));
    if (old == MAP_NONE) {
        ckpt_value *parent = t->nodes[*at], *text = value_str(t->a, name);
        old = (uint32_t)t->n;
        CKPT_TRY(add_node(t, is_map ? CKPT_V_DICT : CKPT_V_TENSOR, row));
        if (!text || !value_put(t->a, parent, text, t->nodes[old]))
            return fail_memory(t->err);
    }
    *at = old;
    return CKPT_OK;
}

static ckpt_status add_path(struct flax_tree *t, const ckpt_path_elem *path, uint32_t n, uint32_t row)
{
    uint32_t at = 0;
    if (t->n == 0)
        CKPT_TRY(add_node(t, n ? CKPT_V_DICT : CKPT_V_TENSOR, n ? CKPT_NO_TENSOR : row));
    for (uint32_t k = 0; k < n; k++)
        CKPT_TRY(add_child(t, &at, &path[k], k + 1 < n ? CKPT_NO_TENSOR : row));
    return CKPT_OK;
}

/* make_tree - sets the root of W to a tree of maps and tensors. An item without a path is the only one:
 * another would have its name, which is empty. */
static ckpt_status make_tree(struct flat_writer *w, ckpt_error *err)
{
    struct flax_output *o = w->user;
    struct flax_tree t = {.a = w->p->a, .children = map_new(w->n), .err = err};
    size_t room = 0, cap = 0;
    ckpt_path_elem *path = NULL;
    bool changed;
    buf_init(&t.key, SIZE_MAX / 2);
    ckpt_status st = t.children ? CKPT_OK : fail_memory(err);
    if (st == CKPT_OK && w->n == 0)
        st = add_node(&t, CKPT_V_DICT, CKPT_NO_TENSOR);
    for (size_t i = 0; st == CKPT_OK && i < w->n; i++) {
        const struct row *row = &w->p->file->table.rows[w->items[i].row];
        uint32_t n = row->t.npath - w->p->root_depth; /* bounded: an entry is below the root */
        path = arena_grow(w->p->a, path, room, &cap, n + 1, sizeof *path);
        room = cap;
        if (!path)
            st = fail_memory(err);
        else if (plan_edited_path(w->p, row, path, &changed))
            st = add_path(&t, path, n, w->items[i].row);
    }
    map_free(t.children);
    buf_free(&t.key);
    o->root = st == CKPT_OK ? t.nodes[0] : NULL;
    return st;
}

/* ------------------------------------------------------------------------- walk */

static uint32_t find_item(const struct flax_output *o, const ckpt_value *v)
{
    return v->type == CKPT_V_TENSOR ? o->item_of[v->row] : MAP_NONE;
}

/* is_left_out - is entry I of the container F, V, not written? */
static bool is_left_out(const struct flax_output *o, const struct flax_frame *f, uint32_t i,
                        const ckpt_value *v)
{
    bool dropped = f->edit && i < f->edit->n && f->edit->dropped[i];
    return dropped || (v->type == CKPT_V_TENSOR && find_item(o, v) == MAP_NONE);
}

/* get_entry - entry I of the container F: its KEY is NULL in a list. NULL past the end. */
static const ckpt_value *get_entry(const struct flax_frame *f, uint32_t i, const ckpt_value **key)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(f->node, &n);
    *key = i < n ? pairs[i].key : NULL;
    return i < n ? pairs[i].val : f->node->type == CKPT_V_LIST ? value_item(f->node, i) : NULL;
}

/* get_new_name - the text that entry I of the container F becomes or is called; .ptr NULL: it stays. */
static ckpt_str get_new_name(const struct flax_frame *f, uint32_t i)
{
    return f->edit && i < f->edit->n ? f->edit->names[i] : str_of(NULL, 0);
}

static ckpt_status enter_container(struct flat_writer *w, const ckpt_value *v, ckpt_error *err)
{
    struct flax_output *o = w->user;
    struct flax_frame f = {.node = v, .edit = o->keeps_graph ? plan_edit_find(w->p, v) : NULL};
    const ckpt_value *key, *entry;
    uint32_t n = 0, texts = 0;
    if (o->depth == FLAX_DEPTH)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%u} containers in each other",
                    FLAX_DEPTH);
    for (uint32_t i = 0; (entry = get_entry(&f, i, &key)); i++)
        if (!is_left_out(o, &f, i, entry)) {
            n++;
            texts += key && (key->type == CKPT_V_STR || get_new_name(&f, i).ptr);
        }
    if (v->type == CKPT_V_LIST)
        msgpack_put_array(&o->text, n);
    else
        msgpack_put_map(&o->text, n);
    if (texts && texts != n)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "a map would have keys of {text and of numbers}; {=one kind} is allowed");
    o->stack[o->depth++] = f;
    return CKPT_OK;
}

/* put_complex - a call of complex() with its two parts. */
static void put_complex(const ckpt_value *v, buf *b)
{
    msgpack_put_ext(b, FLAX_COMPLEX, 19); /* an array, two numbers of 9 bytes */
    msgpack_put_array(b, 2);
    msgpack_put_float(b, value_arg(v, 0)->u.f);
    msgpack_put_float(b, value_arg(v, 1)->u.f);
}

/* put_extension - a pair of the type of an extension and its bytes. */
static void put_extension(const ckpt_value *v, buf *b)
{
    ckpt_str bytes = value_item(v, 1)->u.str;
    msgpack_put_ext(b, (int)value_item(v, 0)->u.i, bytes.len);
    buf_str(b, bytes);
}

/* put_large_uint - the least significant 8 bytes of V, a number above 2^63 - 1. */
static void put_large_uint(const ckpt_value *v, buf *b)
{
    uint64_t n = 0;
    for (size_t i = 8; i-- > 0;)
        n = n << 8 | (unsigned char)v->u.str.ptr[i];
    msgpack_put_uint(b, n);
}

/* put_value - V, as read.c or make_tree made it; enters a container. */
static ckpt_status put_value(struct flat_writer *w, const ckpt_value *v, ckpt_error *err)
{
    struct flax_output *o = w->user;
    buf *b = &o->text;
    switch (v->type) {
    case CKPT_V_DICT:
    case CKPT_V_LIST: return enter_container(w, v, err);
    case CKPT_V_TENSOR: return put_array(w, v, find_item(o, v), err);
    case CKPT_V_STR: msgpack_put_text(b, v->u.str); break;
    case CKPT_V_BYTES:
        msgpack_put_bytes(b, v->u.str.len);
        buf_str(b, v->u.str);
        break;
    case CKPT_V_BOOL: msgpack_put_bool(b, v->u.b); break;
    case CKPT_V_INT: msgpack_put_int(b, v->u.i); break;
    case CKPT_V_BIGINT: put_large_uint(v, b); break;
    case CKPT_V_FLOAT: msgpack_put_float(b, v->u.f); break;
    case CKPT_V_CALL: put_complex(v, b); break;
    case CKPT_V_TUPLE: put_extension(v, b); break;
    default: msgpack_put_nil(b); break;
    }
    return CKPT_OK;
}

/* step - the next entry of the innermost container, or its end. */
static ckpt_status step(struct flat_writer *w, ckpt_error *err)
{
    struct flax_output *o = w->user;
    struct flax_frame *f = &o->stack[o->depth - 1];
    uint32_t i = f->next++;
    const ckpt_value *key, *v = get_entry(f, i, &key);
    o->depth -= v == NULL;
    if (!v || is_left_out(o, f, i, v))
        return CKPT_OK;
    ckpt_str name = get_new_name(f, i);
    if (name.ptr)
        msgpack_put_text(&o->text, name);
    else if (key)
        CKPT_TRY(put_value(w, key, err));
    return key || !name.ptr ? put_value(w, v, err) : CKPT_OK; /* an item that was a text is that name */
}

/* check_beginning - what is left of the graph must be something that is read again. */
static ckpt_status check_beginning(const struct flat_writer *w, ckpt_error *err)
{
    const struct flax_output *o = w->user;
    const char *path = w->job->path;
    if (flax_is_recognized(path ? path : "", o->text.data, o->text.len))
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "what is left begins with {neither} {=a key nor an array}, and would not be recognized");
}

static ckpt_status lay_out(struct flat_writer *w, ckpt_error *err)
{
    struct flax_output *o = w->user;
    size_t nrows = w->p->file->table.nrows;
    o->item_of = arena_array(w->p->a, nrows, sizeof *o->item_of);
    o->cuts = arena_array(w->p->a, w->n, sizeof *o->cuts);
    o->order = arena_array(w->p->a, w->n, sizeof *o->order);
    if (!o->item_of || !o->cuts || !o->order)
        return fail_memory(err);
    for (size_t i = 0; i < nrows; i++)
        o->item_of[i] = MAP_NONE;
    for (size_t i = 0; i < w->n; i++)
        o->item_of[w->items[i].row] = (uint32_t)i;
    if (o->keeps_graph)
        o->root = w->p->root;
    else
        CKPT_TRY(make_tree(w, err));
    CKPT_TRY(put_value(w, o->root, err));
    while (o->depth)
        CKPT_TRY(step(w, err));
    if (!buf_ok(&o->text))
        return fail_memory(err);
    CKPT_TRY(check_beginning(w, err));
    return checked_add(w->nbytes, o->text.len, &w->size) ? CKPT_OK : flat_fail_size(err);
}

/* ------------------------------------------------------------------------ bytes */

static ckpt_status put_contents(struct flat_writer *w, sink *out, ckpt_error *err)
{
    const struct flax_output *o = w->user;
    size_t at = 0;
    for (size_t i = 0; i < o->n; i++) {
        CKPT_TRY(sink_write(out, o->text.data + at, o->cuts[i] - at, err)); /* bounded: cuts ascend */
        CKPT_TRY(sink_skip(out, flat_nbytes(w, &w->items[o->order[i]]), err));
        at = o->cuts[i];
    }
    if (at < o->text.len)
        CKPT_TRY(sink_write(out, o->text.data + at, o->text.len - at, err)); /* bounded: checked */
    return flat_copy(w, out, err);
}

static bool keeps_graph(const struct flat_writer *w)
{
    const struct flax_output *o = w->user;
    return o->keeps_graph;
}

ckpt_status flax_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    static const struct flat_rules rules = {.holder = "flax",
                                            .holds = "only tensors are taken over from other formats",
                                            .keeps_values = keeps_graph,
                                            .find_unfit_reason = find_unfit_reason,
                                            .lay_out = lay_out,
                                            .put_contents = put_contents};
    struct flax_output *o = calloc(1, sizeof *o);
    struct flat_writer w = {.p = p, .job = job, .rules = &rules, .user = o};
    if (!o)
        return fail_memory(err);
    o->keeps_graph = p->file->format == &format_flax && p->root && !p->tensors_alone;
    buf_init(&o->text, SIZE_MAX / 2);
    ckpt_status st = flat_write(&w, err);
    buf_free(&o->text);
    free(o);
    return st;
}
