/*
 * write.c - writes a plan as Flax's .msgpack, as flax.serialization.msgpack_serialize does: maps of maps, and
 * in them an extension for each array (codec/flax.c). Numbers, lengths and counts have their shortest form.
 *
 * If the input is a .msgpack, all its values, tensors or not, are written in their order, with the edits of
 * the plan. From any other input, only the tensors are written: a path of several elements makes nested maps,
 * whose keys are texts, like those of Flax's to_state_dict; a name that is one element stays one key, even
 * with dots in it. A single tensor without a name, as in a .npy, is written as an array without a map.
 *
 * Everything but the elements is first made in memory.
 *
 * Refused: a dtype that Flax cannot read; an array of more than 2^30 bytes, which Flax would write in chunks;
 * a name that would be both a tensor and a map; text among keys that are numbers; more than FLAX_MAX_DEPTH
 * nested containers; output that would not be recognized when read, such as an empty map in a file that is
 * not called .msgpack.
 */
#include <stdlib.h>

#include "format/flat_write.h"
#include "format/flax/flax.h"
#include "format/nested.h"

#define MAX_ARRAY_BYTES   (UINT64_C(1) << 30) /* bytes of an array that Flax does not write in chunks */
#define MAX_ELEMENT_BYTES 32u                 /* of an element: complex256 */

struct flax_frame {
    const ckpt_value *node;
    const struct edit *edit; /* or NULL */
    uint32_t next;           /* the entry to write next */
};

struct flax_output {
    bool keeps_graph;  /* the graph of the input is written; else a tree made of the paths of the items */
    uint32_t *item_of; /* by row; MAP_NONE: it is not written */
    const ckpt_value *root;
    buf skeleton;       /* all of the output but elements */
    size_t *item_order; /* the indexes of the items, in the order of the output */
    size_t nitems;
    struct flax_frame stack[FLAX_MAX_DEPTH];
    uint32_t depth;
};

/* ------------------------------------------------------------------------ tensors */

static const char *find_dtype(const struct flat_writer *writer, const struct flat_item *item)
{
    const ckpt_tensor t = flat_get_tensor(writer, item);
    return flax_dtype_name(&t, plan_dtype(writer->p, item->row));
}

static const char *find_unfit_reason(const struct flat_writer *writer, const struct flat_item *item)
{
    uint64_t nbytes;
    const ckpt_tensor t = flat_get_tensor(writer, item);
    if (t.ndim > NPY_DIMENSIONS)
        return "has more dimensions than numpy allows";
    if (!find_dtype(writer, item))
        return "has a type that flax lacks";
    if (!flax_size(t.shape, t.ndim, MAX_ELEMENT_BYTES, &nbytes))
        return "has a larger size than numpy allows";
    return plan_nbytes(writer->p, item->row, &nbytes) && nbytes <= MAX_ARRAY_BYTES
               ? NULL
               : "has more than 2^30 bytes";
}

static uint32_t find_item(const struct flax_output *output, const ckpt_value *value)
{
    return value->type == CKPT_V_TENSOR ? output->item_of[value_row(value)] : MAP_NONE;
}

static ckpt_status put_array(struct flat_writer *writer, const ckpt_value *value, ckpt_error *err)
{
    struct flax_output *output = writer->user;
    uint32_t i = find_item(output, value);
    struct flat_item *x = &writer->items[i];
    const ckpt_tensor t = flat_get_tensor(writer, x);
    bool is_scalar = output->keeps_graph && flax_is_scalar(writer->p->file, value);
    flax_put_array(&output->skeleton, &t, find_dtype(writer, x), flat_item_nbytes(writer, x), is_scalar);
    CKPT_TRY(flat_lay_out_item(writer, x, 1, err));
    output->item_order[output->nitems++] = i;
    return checked_add(x->begin, output->skeleton.len, &x->begin) ? CKPT_OK : flat_fail_too_large(err);
}

/* ----------------------------------------------------------------------- the tree */

/* add_item - adds ITEM at its path in NESTED, whose keys are texts. An item without a path is the root, and
 * the only item: a second one would have the same name, which is empty. */
static ckpt_status add_item(struct flat_writer *writer, struct nested *nested, const struct flat_item *item,
                            ckpt_error *err)
{
    struct flax_output *output = writer->user;
    const struct table *table = &writer->p->file->table;
    uint32_t n = table_npath_of(table, item->row) - writer->p->root_depth;
    ckpt_path_elem *path = arena_array(nested->a, n, sizeof *path);
    ckpt_value *v = value_new(nested->a, CKPT_V_TENSOR, 0);
    bool changed;
    CKPT_TRY_ALLOC(path && v, err);
    (void)plan_edit_path(writer->p, item->row, path, &changed);
    value_set_row(v, item->row);
    for (uint32_t k = 0; k < n; k++)
        if (path[k].is_int) {
            path[k] = (ckpt_path_elem){.str = arena_printf(nested->a, "%lld", (long long)path[k].num)};
            CKPT_TRY_ALLOC(path[k].str.ptr, err);
        }
    if (n == 0)
        output->root = v;
    ckpt_status st = n ? nested_put(nested, path, n, v, err) : CKPT_OK;
    return st != CKPT_EFORMAT
               ? st
               : fail(err, CKPT_EEXIST, CKPT_NO_OFFSET,
                      "\"%.*s\" would be {above or below another tensor}; a name is {=a map or "
                      "a tensor}",
                      STR_ARG(item->name));
}

/* make_tree - sets the root of the output to maps of tensors, which it makes from the paths of the items. */
static ckpt_status make_tree(struct flat_writer *writer, ckpt_error *err)
{
    struct flax_output *output = writer->user;
    struct nested t;
    ckpt_status st = nested_begin(&t, writer->p->a, 0) ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < writer->n; i++)
        st = add_item(writer, &t, &writer->items[i], err);
    if (st == CKPT_OK && !output->root)
        output->root = nested_root(&t);
    nested_end(&t);
    return st;
}

/* ---------------------------------------------------------------------- entries */

/* is_left_out - returns true if VALUE, entry INDEX of the container FRAME, is not written. */
static bool is_left_out(const struct flax_output *output, const struct flax_frame *frame, uint32_t index,
                        const ckpt_value *value)
{
    bool dropped = frame->edit && index < frame->edit->n && frame->edit->dropped[index];
    return dropped || (value->type == CKPT_V_TENSOR && find_item(output, value) == MAP_NONE);
}

/* get_entry - returns entry INDEX of FRAME, or NULL after the last, and sets *KEY to its key (NULL in a
 * list). */
static const ckpt_value *get_entry(const struct flax_frame *frame, uint32_t index, const ckpt_value **key)
{
    uint32_t n;
    const value_pair *pairs = value_pairs(frame->node, &n);
    *key = index < n ? pairs[index].key : NULL;
    return index < n                          ? pairs[index].val
           : frame->node->type == CKPT_V_LIST ? value_item(frame->node, index)
                                              : NULL;
}

/* get_new_name - returns the new key of entry INDEX of the container FRAME or, in a list, the text that
 * replaces the entry. .ptr NULL: it is unchanged. */
static ckpt_str get_new_name(const struct flax_frame *frame, uint32_t index)
{
    return frame->edit && index < frame->edit->n ? frame->edit->names[index] : str_of(NULL, 0);
}

static ckpt_status enter_container(struct flat_writer *writer, const ckpt_value *value, ckpt_error *err)
{
    struct flax_output *output = writer->user;
    struct flax_frame f = {.node = value,
                           .edit = output->keeps_graph ? plan_find_edit(writer->p, value) : NULL};
    const ckpt_value *key, *entry;
    uint32_t n = 0, texts = 0;
    if (output->depth == FLAX_MAX_DEPTH)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "{more} than {=%u} nested containers", FLAX_MAX_DEPTH);
    for (uint32_t i = 0; (entry = get_entry(&f, i, &key)); i++)
        if (!is_left_out(output, &f, i, entry)) {
            n++;
            texts += key && (key->type == CKPT_V_STR || get_new_name(&f, i).ptr);
        }
    if (value->type == CKPT_V_LIST)
        msgpack_put_array(&output->skeleton, n);
    else
        msgpack_put_map(&output->skeleton, n);
    if (texts && texts != n)
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "a map would have keys of {text and of numbers}; {=one kind} is allowed");
    output->stack[output->depth++] = f;
    return CKPT_OK;
}

/* put_value - appends VALUE or, if VALUE is a container, its beginning. */
static ckpt_status put_value(struct flat_writer *writer, const ckpt_value *value, ckpt_error *err)
{
    struct flax_output *output = writer->user;
    if (value->type == CKPT_V_DICT || value->type == CKPT_V_LIST)
        return enter_container(writer, value, err);
    if (value->type == CKPT_V_TENSOR)
        return put_array(writer, value, err);
    flax_put_value(&output->skeleton, value);
    return CKPT_OK;
}

/* write_next - writes the next entry of the innermost container, or leaves it after its last entry. */
static ckpt_status write_next(struct flat_writer *writer, ckpt_error *err)
{
    struct flax_output *output = writer->user;
    struct flax_frame *f = &output->stack[output->depth - 1];
    uint32_t i = f->next++;
    const ckpt_value *key, *v = get_entry(f, i, &key);
    output->depth -= v == NULL;
    if (!v || is_left_out(output, f, i, v))
        return CKPT_OK;
    ckpt_str name = get_new_name(f, i);
    if (name.ptr)
        msgpack_put_text(&output->skeleton, name);
    else if (key)
        CKPT_TRY(put_value(writer, key, err));
    return key || !name.ptr ? put_value(writer, v, err) : CKPT_OK; /* in a list, NAME replaces V */
}

/* check_beginning - fails unless a reader would recognize the output, whose beginning may have been
 * dropped. */
static ckpt_status check_beginning(const struct flat_writer *writer, ckpt_error *err)
{
    const struct flax_output *output = writer->user;
    const char *path = writer->job->path;
    if (flax_is_recognized(path ? path : "", output->skeleton.data, output->skeleton.len))
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "what is left begins with {neither} {=a key nor an array}, and would not be recognized");
}

static ckpt_status lay_out(struct flat_writer *writer, ckpt_error *err)
{
    struct flax_output *output = writer->user;
    size_t nrows = writer->p->file->table.nrows;
    output->item_of = arena_array(writer->p->a, nrows, sizeof *output->item_of);
    output->item_order = arena_array(writer->p->a, writer->n, sizeof *output->item_order);
    CKPT_TRY_ALLOC(output->item_of && output->item_order, err);
    for (size_t i = 0; i < nrows; i++)
        output->item_of[i] = MAP_NONE;
    for (size_t i = 0; i < writer->n; i++)
        output->item_of[writer->items[i].row] = (uint32_t)i;
    if (output->keeps_graph)
        output->root = writer->p->root;
    else
        CKPT_TRY(make_tree(writer, err));
    CKPT_TRY(put_value(writer, output->root, err));
    while (output->depth)
        CKPT_TRY(write_next(writer, err));
    CKPT_TRY_ALLOC(buf_ok(&output->skeleton), err);
    CKPT_TRY(check_beginning(writer, err));
    return checked_add(writer->nbytes, output->skeleton.len, &writer->size) ? CKPT_OK
                                                                            : flat_fail_too_large(err);
}

/* ------------------------------------------------------------------------ bytes */

static ckpt_status put_contents(struct flat_writer *writer, sink *out, ckpt_error *err)
{
    const struct flax_output *output = writer->user;
    uint64_t elements = 0; /* bytes of elements that are skipped so far */
    size_t at = 0;         /* bytes of SKELETON that are written so far */
    for (size_t i = 0; i < output->nitems; i++) {
        const struct flat_item *x = &writer->items[output->item_order[i]];
        size_t end = (size_t)(x->begin - elements);
        CKPT_TRY(sink_write(out, output->skeleton.data + at, end - at, err));
        CKPT_TRY(sink_skip(out, flat_item_nbytes(writer, x), err));
        elements += flat_item_nbytes(writer, x);
        at = end;
    }
    size_t left = output->skeleton.len - at;
    CKPT_TRY(sink_write(out, output->skeleton.data + at, left, err));
    return flat_copy_items(writer, out, err);
}

static bool keeps_graph(const struct flat_writer *writer)
{
    const struct flax_output *output = writer->user;
    return output->keeps_graph;
}

ckpt_status flax_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    static const struct flat_rules rules = {.format_name = "flax",
                                            .contents_rule = "only tensors are taken over from other formats",
                                            .keeps_values = keeps_graph,
                                            .find_unfit_reason = find_unfit_reason,
                                            .lay_out = lay_out,
                                            .put_contents = put_contents};
    struct flax_output *output = calloc(1, sizeof *output);
    struct flat_writer w = {.p = p, .job = job, .rules = &rules, .user = output};
    CKPT_TRY_ALLOC(output, err);
    output->keeps_graph = p->file->format == &format_flax && p->root && !p->omits_values;
    buf_init(&output->skeleton, SIZE_MAX / 2);
    ckpt_status st = flat_write(&w, err);
    buf_free(&output->skeleton);
    free(output);
    return st;
}
