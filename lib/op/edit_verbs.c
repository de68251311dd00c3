/* edit_verbs.c - the verbs of `ckpt edit` that move elements: each result is a list of boxes, which are
 * strided views of the operands. The sizes of an operand and their products fit 64 bits, as the table has
 * checked; those that a rule gives are checked here. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/convert.h"
#include "core/mean_source.h"
#include "core/pieces.h"
#include "core/row_source.h"
#include "op/edit.h"
#include "op/element_text.h"

static const uint64_t origin[EDIT_MAX_DIMS + 1], one = 1;

/* A view of the elements of a source: dimension K has SIZE[K] indexes, STRIDE[K] elements apart, from element
 * FIRST on. */
struct strided {
    struct edit_shape shape;
    uint64_t stride[EDIT_MAX_DIMS];
    uint64_t first;
};

/* How a tensor that a rule has made is read. */
struct edit_view {
    source *base; /* what it is a view of, which its storage keeps; NULL: it has several pieces */
    uint64_t at;  /* byte of BASE where its first element is */
    uint32_t depth, base_depth; /* how many sources read each other, from its own or from BASE on */
    uint64_t stride[];          /* in elements of BASE */
};

/* A tensor as a verb finds it. */
struct operand {
    uint32_t row;
    uint32_t width; /* bytes of an element */
    ckpt_tensor tensor;
    struct strided view; /* all of the tensor, as elements of SRC from byte AT on */
    source *src;         /* owned */
    uint64_t at;
    uint32_t depth; /* of SRC, as in struct edit_view */
};

/* view_all - makes the view of OPERAND all of its tensor; STRIDE: NULL is row-major. */
static void view_all(struct operand *operand, const uint64_t *stride)
{
    uint64_t run = 1;
    operand->view.shape.ndim = operand->tensor.ndim;
    for (uint32_t k = operand->tensor.ndim; COUNT_DOWN(k);) {
        uint64_t size = operand->tensor.shape[k];
        operand->view.shape.size[k] = size;
        operand->view.stride[k] = stride ? stride[k] : run;
        run = size ? run * size : run;
    }
}

static const struct edit_view *find_view(const struct editor *editor, uint32_t storage)
{
    uint32_t number = map_get_num(editor->p->view_of, storage);
    return number == MAP_NONE ? NULL : editor->p->views.list[number];
}

/* own_depth - returns how many sources reading the elements of OPERAND in row-major order takes. */
static uint32_t own_depth(const struct editor *editor, const struct operand *operand)
{
    const struct edit_view *made = find_view(editor, operand->tensor.storage);
    return made ? made->depth : 0;
}

/* operand_open_in - opens tensor ROW of F as an operand that errors call OUT->row, of the plan's file. What a
 * rule made a view is opened as such: a view of it is one of what it is a view of. The caller calls
 * source_unref for OUT->src, also after an error. */
static ckpt_status operand_open_in(const struct editor *editor, ckpt_file *f, uint32_t row,
                                   struct operand *out, ckpt_error *err)
{
    out->tensor = table_tensor(&f->table, row);
    CKPT_TRY(place_if_failed(row_source_check(f, row, err), editor->rule->place, err));
    if (out->tensor.ndim > EDIT_MAX_DIMS)
        return edit_fail(editor, out->row, err, "has more than {=%u dimensions}", EDIT_MAX_DIMS);
    if (dtype_info(plan_dtype(editor->p, out->row))->block_elems != 1)
        return edit_fail(editor, out->row, err, "was cast to %s\ncast it when it has its shape",
                         ckpt_dtype_name(plan_dtype(editor->p, out->row)));
    const struct edit_view *made = f == editor->p->file ? find_view(editor, out->tensor.storage) : NULL;
    bool is_view = made && made->base;
    out->width = dtype_info((ckpt_dtype)out->tensor.dtype)->block_bytes;
    out->depth = is_view ? made->base_depth : made ? made->depth : 0;
    out->at = is_view ? made->at : 0;
    out->src = is_view ? source_ref(made->base) : row_elements(f, row, &out->at);
    view_all(out, is_view ? made->stride : out->tensor.stride);
    return out->src ? CKPT_OK : fail_memory(err);
}

/* operand_open - does operand_open_in for ROW of the plan's file. */
static ckpt_status operand_open(const struct editor *editor, uint32_t row, struct operand *out,
                                ckpt_error *err)
{
    *out = (struct operand){.row = row};
    return operand_open_in(editor, editor->p->file, row, out, err);
}

/* find_dim - sets *OUT to dimension DIM of NDIM; as in Python, negative ones count from the end. */
static ckpt_status find_dim(const struct editor *editor, uint32_t row, int64_t dim, uint32_t ndim,
                            uint32_t *out, ckpt_error *err)
{
    int64_t index = dim < 0 ? dim + (int64_t)ndim : dim;
    if (index < 0 || index >= (int64_t)ndim)
        return edit_fail(editor, row, err, "has no {dimension %" PRId64 "}", dim);
    *out = (uint32_t)index;
    return CKPT_OK;
}

/* ----------------------------------------------------------------------------- results */

/* What a row becomes. */
struct result {
    ckpt_dtype dtype;
    const struct edit_shape *shape;
    struct piece *pieces;
    size_t npieces;
    const void *fill; /* the element where no piece is; NULL: the pieces cover all */
    uint32_t depth;   /* the largest of the operands */
};

#define DEPTH_MAX 64u /* each source reads the one before it by a call */

/* note_view - notes how ROW is read, which was made as RESULT; if that has one piece, as a view of it. */
static ckpt_status note_view(struct editor *editor, uint32_t row, const struct result *result,
                             ckpt_error *err)
{
    const struct piece *piece = result->pieces;
    bool is_view = result->npieces == 1 && !result->fill && piece->stride &&
                   table_elements_of(&editor->p->file->table, row);
    uint32_t ndim = is_view ? result->shape->ndim : 0;
    struct edit_view *made = arena_alloc(editor->scratch, sizeof *made + ndim * sizeof *made->stride);
    CKPT_TRY_ALLOC(made, err);
    *made = (struct edit_view){.depth = result->depth + 1, .base_depth = result->depth};
    if (is_view) {
        made->base = piece->src;
        made->at = piece->at;
        memcpy(made->stride, piece->stride, ndim * sizeof *made->stride);
    }
    bool ok = ARENA_PUSH(editor->scratch, &editor->p->views, list, &made) &&
              map_set_num(editor->p->view_of, table_storage_of(&editor->p->file->table, row),
                          (uint32_t)editor->p->views.nlist - 1);
    return ok ? CKPT_OK : fail_memory(err);
}

/* result_put - makes ROW what RESULT describes. */
static ckpt_status result_put(struct editor *editor, uint32_t row, const struct result *result,
                              ckpt_error *err)
{
    uint32_t ndim = result->shape->ndim;
    uint64_t *shape = arena_array(editor->a, ndim + 1u, sizeof *shape);
    CKPT_TRY_ALLOC(shape, err);
    memcpy(shape, result->shape->size, ndim * sizeof *shape);
    struct new_tensor new = {.dtype = result->dtype, .ndim = ndim, .shape = shape};
    if (!checked_product(shape, ndim, &new.elements) ||
        !dtype_bytes(result->dtype, new.elements, &new.nbytes))
        return edit_fail(editor, row, err, "would get more than {=2^64 bytes}");
    const struct pieces all = {.shape = ndim ? shape : &one, /* without dimensions, it is one element */
                               .ndim = ndim ? ndim : 1,
                               .width = dtype_info(result->dtype)->block_bytes,
                               .piece = result->pieces,
                               .n = result->npieces,
                               .fill = result->fill};
    if (result->depth == DEPTH_MAX)
        return edit_fail(
            editor, row, err,
            "was joined, padded or reshaped by more than {=%u rules}\nwrite what the rules so far make, and "
            "apply the others to that",
            DEPTH_MAX);
    CKPT_TRY(pieces_source(editor->a, &all, &new.src, &new.at, err));
    CKPT_TRY(place_if_failed(row_replace(editor->p->file, row, &new, err), editor->rule->place, err));
    return note_view(editor, row, result, err);
}

/* put_view - makes ROW the view VIEW of the source of OPERAND. */
static ckpt_status put_view(struct editor *editor, uint32_t row, const struct operand *operand,
                            const struct strided *view, ckpt_error *err)
{
    bool is_scalar = !view->shape.ndim;
    struct piece piece = {.offset = origin,
                          .size = is_scalar ? &one : view->shape.size,
                          .stride = is_scalar ? &one : view->stride,
                          .src = operand->src,
                          .at = operand->at + view->first * operand->width};
    const struct result result = {.dtype = (ckpt_dtype)operand->tensor.dtype,
                                  .shape = &view->shape,
                                  .pieces = &piece,
                                  .npieces = 1,
                                  .depth = operand->depth};
    return result_put(editor, row, &result, err);
}

typedef ckpt_status view_function(const struct editor *editor, const struct operand *from,
                                  struct strided *view, ckpt_error *err);

/* replace_by_view - makes the tensor of STEP what MAKE_VIEW makes of a view of all of it. */
static ckpt_status replace_by_view(struct editor *editor, const struct edit_step *step,
                                   view_function *make_view, ckpt_error *err)
{
    struct operand operand;
    ckpt_status st = operand_open(editor, step->rows[0], &operand, err);
    if (st == CKPT_OK) {
        struct strided view = operand.view;
        st = make_view(editor, &operand, &view, err);
        CKPT_THEN(st, put_view(editor, operand.row, &operand, &view, err));
    }
    source_unref(operand.src);
    CKPT_THEN(st, edit_finish(editor, step, 0, str_of("", 0), operand.row, err));
    return st;
}

static ckpt_status view_untied(const struct editor *editor, const struct operand *from, struct strided *view,
                               ckpt_error *err)
{
    (void)editor, (void)from, (void)view, (void)err;
    return CKPT_OK;
}

ckpt_status edit_untie(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return replace_by_view(editor, step, view_untied, err);
}

/* ------------------------------------------------------------------ transpose, permute */

static void permute_view(struct strided *view, const uint32_t *order)
{
    const struct strided old = *view;
    for (uint32_t k = 0; k < view->shape.ndim; k++) {
        view->shape.size[k] = old.shape.size[order[k]];
        view->stride[k] = old.stride[order[k]];
    }
}

static ckpt_status view_transposed(const struct editor *editor, const struct operand *from,
                                   struct strided *view, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    uint32_t order[EDIT_MAX_DIMS], left = 0, right = 1, ndim = view->shape.ndim;
    if (!(rule->given & ARGUMENT_DIMS) && ndim != 2)
        return edit_fail(editor, from->row, err,
                         "has {%" PRIu32
                         " dimension%s}, not {=2}\n`dims A B` names the two that are transposed",
                         ndim, ndim == 1 ? "" : "s");
    if (rule->given & ARGUMENT_DIMS) {
        if (rule->nnumbers != 2)
            return rule_fail(rule->place, err, "`dims` has {%zu}, not {=2 numbers}", rule->nnumbers);
        CKPT_TRY(find_dim(editor, from->row, rule->numbers[0], ndim, &left, err));
        CKPT_TRY(find_dim(editor, from->row, rule->numbers[1], ndim, &right, err));
    }
    for (uint32_t k = 0; k < ndim; k++)
        order[k] = k == left ? right : k == right ? left : k;
    permute_view(view, order);
    return CKPT_OK;
}

static ckpt_status view_permuted(const struct editor *editor, const struct operand *from,
                                 struct strided *view, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    uint32_t order[EDIT_MAX_DIMS], ndim = view->shape.ndim;
    bool has_dim[EDIT_MAX_DIMS] = {false};
    if (rule->nnumbers != ndim)
        return edit_fail(editor, from->row, err, "has {=%" PRIu32 " dimensions}, `permute` names {%zu}", ndim,
                         rule->nnumbers);
    for (uint32_t k = 0; k < ndim; k++) {
        CKPT_TRY(find_dim(editor, from->row, rule->numbers[k], ndim, &order[k], err));
        if (has_dim[order[k]])
            return rule_fail(rule->place, err, "`permute` names dimension %" PRIu32 " twice", order[k]);
        has_dim[order[k]] = true;
    }
    permute_view(view, order);
    return CKPT_OK;
}

ckpt_status edit_transpose(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return replace_by_view(editor, step, view_transposed, err);
}

ckpt_status edit_permute(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return replace_by_view(editor, step, view_permuted, err);
}

/* --------------------------------------------------------- reshape, unflatten, flatten */

/* read_sizes - sets SHAPE to the sizes in the brackets of the rule; a size of -1 is what is left of COUNT, as
 * in NumPy. *FITS: their product is COUNT. */
static ckpt_status read_sizes(const struct editor *editor, uint64_t count, struct edit_shape *shape,
                              bool *fits, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    size_t unknown = SIZE_MAX;
    uint64_t elements;
    if (rule->nslices > EDIT_MAX_DIMS)
        return rule_fail(rule->place, err, "a shape of {%zu sizes}; {=%u} are allowed", rule->nslices,
                         EDIT_MAX_DIMS);
    *shape = (struct edit_shape){.ndim = (uint32_t)rule->nslices};
    for (size_t k = 0; k < rule->nslices; k++) {
        const struct rule_slice *size = &rule->slices[k];
        bool is_unknown = size->start == -1 && unknown == SIZE_MAX;
        if (!size->is_index || size->is_ellipsis || (size->start < 0 && !is_unknown))
            return rule_fail(rule->place, err, "a shape has numbers, at most one of them -1, as [2, -1]");
        unknown = is_unknown ? k : unknown;
        shape->size[k] = is_unknown ? 1 : (uint64_t)size->start;
    }
    *fits = checked_product(shape->size, shape->ndim, &elements);
    if (*fits && unknown != SIZE_MAX && elements && count % elements == 0) {
        shape->size[unknown] = count / elements;
        elements = count;
    }
    *fits = *fits && elements == count;
    return CKPT_OK;
}

/* split_dims - sets the strides of the dimensions of TO before *END, as many as have COUNT elements, STRIDE
 * elements apart; *END becomes the first of them. False: no dimensions have just COUNT. */
static bool split_dims(struct strided *to, uint32_t *end, uint64_t count, uint64_t stride)
{
    uint64_t have = 1;
    while (*end && (have < count || to->shape.size[*end - 1] == 1)) {
        to->stride[--*end] = stride * have;
        have *= to->shape.size[*end];
    }
    return have == count;
}

/* reshape_view - sets the strides of TO, whose shape has as many elements as FROM, to those of the elements
 * of FROM in row-major order. False: no strides do that. */
static bool reshape_view(const struct strided *from, struct strided *to)
{
    uint32_t end = to->shape.ndim;
    uint64_t count = 1, stride = 1; /* of the dimensions of FROM that are one run so far */
    to->first = from->first;
    for (uint32_t k = from->shape.ndim; COUNT_DOWN(k);) {
        uint64_t size = from->shape.size[k];
        if (size == 1)
            continue;
        if (count > 1 && from->stride[k] != stride * count) {
            if (!split_dims(to, &end, count, stride))
                return false;
            count = 1;
        }
        stride = count == 1 ? from->stride[k] : stride;
        count *= size;
    }
    return split_dims(to, &end, count, stride) && end == 0;
}

/* put_reshaped - gives the elements of OPERAND, in row-major order, the shape SHAPE. If that is no view of
 * its source, it is one of the source that reads them in this order. */
static ckpt_status put_reshaped(struct editor *editor, const struct operand *operand,
                                const struct edit_shape *shape, ckpt_error *err)
{
    struct operand ordered;
    struct strided view = {.shape = *shape};
    uint32_t row = operand->row;
    if (!operand->tensor.elements || reshape_view(&operand->view, &view))
        return put_view(editor, row, operand, &view, err);
    if (!find_view(editor, operand->tensor.storage))
        CKPT_TRY(put_view(editor, row, operand, &operand->view, err));
    ordered = *operand;
    ordered.depth = find_view(editor, table_storage_of(&editor->p->file->table, row))->depth;
    ordered.src = row_elements(editor->p->file, row, &ordered.at);
    CKPT_TRY_ALLOC(ordered.src, err);
    view_all(&ordered, NULL);
    (void)reshape_view(&ordered.view, &view); /* which is one run */
    ckpt_status st = put_view(editor, row, &ordered, &view, err);
    source_unref(ordered.src);
    return st;
}

typedef ckpt_status shape_function(const struct editor *editor, const struct operand *from,
                                   struct edit_shape *shape, ckpt_error *err);

/* give_shape - gives the elements of STEP's tensor, in row-major order, the shape that MAKE_SHAPE makes. */
static ckpt_status give_shape(struct editor *editor, const struct edit_step *step, shape_function *make_shape,
                              ckpt_error *err)
{
    struct operand operand;
    struct edit_shape shape;
    ckpt_status st = operand_open(editor, step->rows[0], &operand, err);
    CKPT_THEN(st, make_shape(editor, &operand, &shape, err));
    CKPT_THEN(st, put_reshaped(editor, &operand, &shape, err));
    source_unref(operand.src);
    CKPT_THEN(st, edit_finish(editor, step, 0, str_of("", 0), operand.row, err));
    return st;
}

static ckpt_status shape_reshaped(const struct editor *editor, const struct operand *from,
                                  struct edit_shape *shape, ckpt_error *err)
{
    bool fits;
    CKPT_TRY(read_sizes(editor, from->tensor.elements, shape, &fits, err));
    return fits
               ? CKPT_OK
               : edit_fail(editor, from->row, err, "has {=%" PRIu64 " elements}, which the new shape has not",
                           from->tensor.elements);
}

ckpt_status edit_reshape(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return give_shape(editor, step, shape_reshaped, err);
}

/* replace_dims - sets SHAPE to that of FROM with SIZES in place of its dimensions FIRST to LAST. */
static ckpt_status replace_dims(const struct editor *editor, const struct operand *from, uint32_t first,
                                uint32_t last, const struct edit_shape *sizes, struct edit_shape *shape,
                                ckpt_error *err)
{
    const ckpt_tensor *t = &from->tensor;
    uint32_t nafter = t->ndim - last - 1;
    if (first + sizes->ndim + nafter > EDIT_MAX_DIMS)
        return edit_fail(editor, from->row, err, "would get more than {=%u dimensions}", EDIT_MAX_DIMS);
    shape->ndim = first + sizes->ndim + nafter;
    for (uint32_t k = 0; k < first; k++)
        shape->size[k] = t->shape[k];
    for (uint32_t k = 0; k < sizes->ndim; k++)
        shape->size[first + k] = sizes->size[k];
    for (uint32_t k = 0; k < nafter; k++)
        shape->size[first + sizes->ndim + k] = t->shape[last + 1 + k];
    return CKPT_OK;
}

static ckpt_status shape_unflattened(const struct editor *editor, const struct operand *from,
                                     struct edit_shape *shape, ckpt_error *err)
{
    struct edit_shape sizes;
    uint32_t dim = 0;
    bool fits;
    CKPT_TRY(find_dim(editor, from->row, editor->rule->dim, from->tensor.ndim, &dim, err));
    CKPT_TRY(read_sizes(editor, from->tensor.shape[dim], &sizes, &fits, err));
    if (!fits)
        return edit_fail(editor, from->row, err,
                         "has {=%" PRIu64 " indexes} in dimension %" PRIu32
                         ", which is not the product of the sizes",
                         from->tensor.shape[dim], dim);
    return replace_dims(editor, from, dim, dim, &sizes, shape, err);
}

ckpt_status edit_unflatten(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return give_shape(editor, step, shape_unflattened, err);
}

static ckpt_status shape_flattened(const struct editor *editor, const struct operand *from,
                                   struct edit_shape *shape, ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    uint32_t first = 0, last = 0;
    struct edit_shape sizes = {.ndim = 1, .size = {1}};
    if (rule->given & ARGUMENT_DIMS && rule->nnumbers != 2)
        return rule_fail(rule->place, err, "`dims` has {%zu}, not {=2 numbers}", rule->nnumbers);
    if (!from->tensor.ndim && !(rule->given & ARGUMENT_DIMS)) {
        *shape = sizes;
        return CKPT_OK;
    }
    bool has_dims = rule->given & ARGUMENT_DIMS;
    CKPT_TRY(find_dim(editor, from->row, has_dims ? rule->numbers[0] : 0, from->tensor.ndim, &first, err));
    CKPT_TRY(find_dim(editor, from->row, has_dims ? rule->numbers[1] : -1, from->tensor.ndim, &last, err));
    if (first > last)
        return rule_fail(rule->place, err, "`dims` has the last dimension first");
    if (!checked_product(from->tensor.shape + first, last - first + 1, &sizes.size[0]))
        return edit_fail(editor, from->row, err, "would get more than {=2^64} indexes in one dimension");
    return replace_dims(editor, from, first, last, &sizes, shape, err);
}

ckpt_status edit_flatten(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return give_shape(editor, step, shape_flattened, err);
}

/* ------------------------------------------------------------------------------- slice */

/* clamp - returns INDEX, which counts from the end of SIZE if it is negative, within [0, SIZE]. */
static uint64_t clamp(int64_t index, uint64_t size)
{
    uint64_t from_end = index < 0 ? (uint64_t)-(index + 1) + 1 : 0;
    if (index < 0)
        return from_end < size ? size - from_end : 0;
    return (uint64_t)index < size ? (uint64_t)index : size;
}

/* slice_dim - takes SLICE of dimension DIM of FROM, which becomes the next dimension of VIEW. */
static ckpt_status slice_dim(const struct editor *editor, const struct operand *from, uint32_t dim,
                             const struct rule_slice *slice, struct strided *view, ckpt_error *err)
{
    uint64_t size = from->tensor.shape[dim], stride = from->view.stride[dim], step = (uint64_t)slice->step;
    uint64_t start = slice->has_start || slice->is_index ? clamp(slice->start, size) : 0;
    uint64_t stop = slice->has_stop ? clamp(slice->stop, size) : size;
    uint64_t count = start < stop ? (stop - start - 1) / step + 1 : 0;
    bool is_inside = slice->start < 0 ? (uint64_t)-(slice->start + 1) < size : (uint64_t)slice->start < size;
    if (slice->is_index && !is_inside)
        return edit_fail(editor, from->row, err,
                         "has {=%" PRIu64 " indexes} in dimension %" PRIu32 ", not {%" PRId64 "}", size, dim,
                         slice->start);
    view->first += count || slice->is_index ? start * stride : 0;
    if (slice->is_index)
        return CKPT_OK;
    view->shape.size[view->shape.ndim] = count;
    /* a step beyond the dimension is never taken, and its product with the stride might not fit */
    view->stride[view->shape.ndim++] = count > 1 ? step * stride : stride;
    return CKPT_OK;
}

static ckpt_status view_sliced(const struct editor *editor, const struct operand *from, struct strided *view,
                               ckpt_error *err)
{
    static const struct rule_slice all = {.step = 1};
    const struct rule *rule = editor->rule;
    uint32_t ndim = from->tensor.ndim, k = 0;
    size_t nellipses = 0;
    for (size_t i = 0; i < rule->nslices; i++)
        nellipses += rule->slices[i].is_ellipsis;
    if (nellipses > 1 || rule->nslices - nellipses > ndim)
        return edit_fail(editor, from->row, err, "has {=%" PRIu32 " dimensions}; the rule slices {%zu}", ndim,
                         rule->nslices);
    uint32_t nleft = ndim - (uint32_t)(rule->nslices - nellipses);
    view->shape.ndim = 0;
    for (size_t i = 0; i < rule->nslices; i++) {
        if (!rule->slices[i].is_ellipsis)
            CKPT_TRY(slice_dim(editor, from, k++, &rule->slices[i], view, err));
        for (; rule->slices[i].is_ellipsis && nleft; nleft--)
            CKPT_TRY(slice_dim(editor, from, k++, &all, view, err));
    }
    while (k < ndim)
        CKPT_TRY(slice_dim(editor, from, k++, &all, view, err));
    return CKPT_OK;
}

ckpt_status edit_slice(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return replace_by_view(editor, step, view_sliced, err);
}

/* --------------------------------------------------------------------------------- pad */

/* set_fill - sets FILL to the number NUMBER of the rule as an element of DTYPE, for tensor ROW. */
static ckpt_status set_fill(const struct editor *editor, uint32_t row, const struct rule_name *number,
                            ckpt_dtype dtype, unsigned char fill[ELEMENT_MAX], ckpt_error *err)
{
    bool holds;
    if (!element_is_number(number->text))
        return rule_fail(number->place, err, "{\"%.*s\"} is neither {=a number nor mean}",
                         STR_ARG(number->text));
    CKPT_TRY(element_of_text(number->text, dtype, fill, &holds, err));
    return holds ? CKPT_OK
                 : edit_fail(editor, row, err, "is {=%s}, which cannot hold {%.*s}", ckpt_dtype_name(dtype),
                             STR_ARG(number->text));
}

/* check_same_after_cast - refuses the number FILL of tensor ROW if a cast that a rule before has made would
 * round it again, to another number than that which the rule means. */
static ckpt_status check_same_after_cast(const struct editor *editor, const struct operand *from,
                                         const struct rule_name *number, const unsigned char *fill,
                                         ckpt_error *err)
{
    struct conversion conversion;
    struct convert_tally tally = {0};
    unsigned char cast[ELEMENT_MAX] = {0}, want[ELEMENT_MAX];
    ckpt_dtype dtype = plan_dtype(editor->p, from->row);
    if (dtype == from->tensor.dtype)
        return CKPT_OK;
    CKPT_TRY(set_fill(editor, from->row, number, dtype, want, err));
    if (conversion_init(&conversion, (ckpt_dtype)from->tensor.dtype, dtype))
        convert_run(&conversion, fill, 1, cast, &tally);
    return memcmp(cast, want, sizeof cast) == 0
               ? CKPT_OK
               : edit_fail(editor, from->row, err,
                           "was cast to %s before, which would round {%.*s} twice\n"
                           "pad it before it is cast",
                           ckpt_dtype_name(dtype), STR_ARG(number->text));
}

/* set_number_fill - sets FILL to the number with which the rule pads FROM. */
static ckpt_status set_number_fill(const struct editor *editor, const struct operand *from,
                                   unsigned char fill[ELEMENT_MAX], ckpt_error *err)
{
    static const struct rule_name zero = {.text = {"0", 1}};
    ckpt_dtype dtype = (ckpt_dtype)from->tensor.dtype;
    const struct rule_name *number = editor->rule->given & ARGUMENT_WITH ? &editor->rule->word : &zero;
    ckpt_status st = set_fill(editor, from->row, number, dtype, fill, err);
    if (number != &zero && dtype != plan_dtype(editor->p, from->row) && st == CKPT_EUSAGE)
        error_add_hint(err, "it is cast to %s when it is written; pad it in a second run",
                       ckpt_dtype_name(plan_dtype(editor->p, from->row)));
    CKPT_THEN(st, check_same_after_cast(editor, from, number, fill, err));
    return st;
}

/* describe_mean - sets *OUT to the mean of FROM along DIM. */
static ckpt_status describe_mean(const struct editor *editor, const struct operand *from, uint32_t dim,
                                 struct mean *out, ckpt_error *err)
{
    const ckpt_tensor *t = &from->tensor;
    ckpt_dtype dtype = (ckpt_dtype)t->dtype;
    *out = (struct mean){.dtype = dtype, .outer = 1, .size = t->shape[dim], .inner = 1};
    if (!dtype_is_float(dtype) || !computed_has_dtype(dtype))
        return edit_fail(editor, from->row, err, "is {%s}; only {=floats} are padded with their mean",
                         ckpt_tensor_dtype_name(t));
    if (plan_dtype(editor->p, from->row) != dtype)
        return edit_fail(editor, from->row, err, "was cast to %s by a rule before\npad it before it is cast",
                         ckpt_dtype_name(plan_dtype(editor->p, from->row)));
    if (!t->elements)
        return edit_fail(editor, from->row, err, "has no elements, of which a mean could be computed");
    for (uint32_t k = 0; k < t->ndim; k++)
        *(k < dim ? &out->outer : &out->inner) *= k == dim ? 1 : t->shape[k];
    if (out->outer * out->inner > MEAN_NUMBERS_MAX)
        return edit_fail(editor, from->row, err,
                         "has a mean of {%" PRIu64 " numbers}; {=%" PRIu64 "} are allowed",
                         out->outer * out->inner, MEAN_NUMBERS_MAX);
    return CKPT_OK;
}

/* The two pieces of a padded tensor: the old elements, and what is read for the new ones. */
struct padding {
    struct edit_shape shape;                                                    /* of the result */
    uint64_t offset[EDIT_MAX_DIMS], size[EDIT_MAX_DIMS], stride[EDIT_MAX_DIMS]; /* of the new elements */
    struct piece pieces[2];
    size_t npieces;
};

/* add_mean - makes the new elements of PADDING the mean of FROM along DIM. */
static ckpt_status add_mean(const struct editor *editor, const struct operand *from, uint32_t dim,
                            struct padding *padding, ckpt_error *err)
{
    struct mean mean;
    uint64_t stride = 1;
    CKPT_TRY(describe_mean(editor, from, dim, &mean, err));
    for (uint32_t k = padding->shape.ndim; COUNT_DOWN(k);) {
        padding->offset[k] = k == dim ? mean.size : 0;
        padding->size[k] = padding->shape.size[k] - padding->offset[k];
        padding->stride[k] = k == dim ? 0 : stride; /* each new index has the same mean */
        stride *= k == dim ? 1 : padding->size[k];
    }
    if (!padding->size[dim])
        return CKPT_OK;
    struct piece *piece = &padding->pieces[padding->npieces];
    *piece = (struct piece){.offset = padding->offset, .size = padding->size, .stride = padding->stride};
    mean.src = row_source(editor->p->file, from->row);
    piece->src = mean.src ? mean_source(editor->a, &mean) : NULL;
    source_unref(mean.src);
    padding->npieces += piece->src != NULL;
    return piece->src ? CKPT_OK : fail_memory(err);
}

/* pad_operand - makes dimension DIM of FROM larger. */
static ckpt_status pad_operand(struct editor *editor, const struct operand *from, uint32_t dim,
                               ckpt_error *err)
{
    bool is_mean = editor->rule->given & ARGUMENT_WITH && str_is(editor->rule->word.text, "mean");
    unsigned char fill[ELEMENT_MAX];
    const struct strided *old = &from->view;
    struct padding padding = {.shape = old->shape, .npieces = from->tensor.elements != 0};
    padding.pieces[0] = (struct piece){origin, old->shape.size, old->stride, from->src, from->at};
    if (editor->rule->to < 0 || (uint64_t)editor->rule->to < old->shape.size[dim])
        return edit_fail(editor, from->row, err, "is larger than {%" PRId64 "} in dimension %" PRIu32,
                         editor->rule->to, dim);
    padding.shape.size[dim] = (uint64_t)editor->rule->to;
    CKPT_TRY(is_mean ? add_mean(editor, from, dim, &padding, err) : set_number_fill(editor, from, fill, err));
    const struct result result = {.dtype = (ckpt_dtype)from->tensor.dtype,
                                  .shape = &padding.shape,
                                  .pieces = padding.pieces,
                                  .npieces = padding.npieces,
                                  .fill = is_mean ? NULL : fill,
                                  .depth = is_mean ? own_depth(editor, from) : from->depth};
    ckpt_status st = result_put(editor, from->row, &result, err);
    if (padding.npieces == 2)
        source_unref(padding.pieces[1].src);
    return st;
}

ckpt_status edit_pad(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    struct operand operand;
    uint32_t dim = 0;
    ckpt_status st = operand_open(editor, step->rows[0], &operand, err);
    CKPT_THEN(st, find_dim(editor, step->rows[0], editor->rule->dim, operand.tensor.ndim, &dim, err));
    CKPT_THEN(st, pad_operand(editor, &operand, dim, err));
    source_unref(operand.src);
    CKPT_THEN(st, edit_finish(editor, step, 0, str_of("", 0), step->rows[0], err));
    return st;
}

/* -------------------------------------------------------------------------------- fill */

ckpt_status edit_fill(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    struct operand operand;
    unsigned char fill[ELEMENT_MAX];
    ckpt_dtype dtype = plan_dtype(editor->p, step->rows[0]); /* to which it may have been cast */
    ckpt_status st = operand_open(editor, step->rows[0], &operand, err);
    CKPT_THEN(st, set_fill(editor, operand.row, &editor->rule->value.text, dtype, fill, err));
    if (st == CKPT_OK) {
        struct edit_shape shape = operand.view.shape;
        const struct result result = {.dtype = dtype, .shape = &shape, .fill = fill};
        if (editor->p->casts.to)
            editor->p->casts.to[operand.row] = 0;
        st = result_put(editor, operand.row, &result, err);
    }
    source_unref(operand.src);
    CKPT_THEN(st, edit_finish(editor, step, SIZE_MAX, str_of("", 0), step->rows[0], err));
    return st;
}

/* ---------------------------------------------------------------------- split, unstack */

/* find_sizes - sets SIZES[I] to how many indexes of SIZE target I gets. */
static ckpt_status find_sizes(const struct editor *editor, uint32_t row, uint64_t size, uint64_t *sizes,
                              ckpt_error *err)
{
    const struct rule *rule = editor->rule;
    uint64_t sum = 0;
    bool has_sizes = rule->given & ARGUMENT_SIZES;
    if (!rule->ntargets)
        return rule_fail(rule->place, err, "`split` needs names for what it makes, as -> a, b");
    if (has_sizes && rule->nnumbers != rule->ntargets)
        return rule_fail(rule->place, err, "{%zu} sizes for {=%zu} names", rule->nnumbers, rule->ntargets);
    if (!has_sizes && size % rule->ntargets != 0)
        return edit_fail(editor, row, err, "cannot be split into {%zu} equal parts\n`sizes` gives the sizes",
                         rule->ntargets);
    for (size_t i = 0; i < rule->ntargets; i++) {
        if (has_sizes && rule->numbers[i] < 0)
            return rule_fail(rule->place, err, "a size of %" PRId64, rule->numbers[i]);
        sizes[i] = has_sizes ? (uint64_t)rule->numbers[i] : size / rule->ntargets;
        sum = size_add(sum, sizes[i]);
    }
    return sum == size
               ? CKPT_OK
               : edit_fail(editor, row, err,
                           "has {=%" PRIu64 " indexes} there; the sizes add up to {%" PRIu64 "}", size, sum);
}

/* put_slice - makes ROW indexes [START, START + COUNT) of dimension DIM of OPERAND; without that dimension if
 * DROPS_DIM. */
static ckpt_status put_slice(struct editor *editor, uint32_t row, const struct operand *operand, uint32_t dim,
                             uint64_t start, uint64_t count, bool drops_dim, ckpt_error *err)
{
    struct strided view = operand->view;
    view.first = count && operand->tensor.elements ? start * view.stride[dim] : 0;
    view.shape.size[dim] = count;
    if (drops_dim) {
        view.shape.ndim--;
        for (uint32_t k = dim; k < view.shape.ndim; k++) {
            view.shape.size[k] = view.shape.size[k + 1];
            view.stride[k] = view.stride[k + 1];
        }
    }
    return put_view(editor, row, operand, &view, err);
}

static ckpt_status split_operand(struct editor *editor, const struct edit_step *step,
                                 const struct operand *operand, const uint64_t *sizes, uint32_t dim,
                                 ckpt_error *err)
{
    uint64_t start = 0;
    const ckpt_str none = str_of("", 0);
    for (size_t i = 0; i < editor->rule->ntargets; i++) {
        uint32_t row = operand->row;
        if (i)
            CKPT_TRY(edit_add(editor, step, i, none, &row, err));
        CKPT_TRY(put_slice(editor, row, operand, dim, start, sizes[i], false, err));
        if (!i)
            CKPT_TRY(edit_finish(editor, step, i, none, row, err));
        start += sizes[i];
    }
    return CKPT_OK;
}

ckpt_status edit_split(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    struct operand operand;
    uint32_t dim = 0;
    uint64_t *sizes = calloc(editor->rule->ntargets + 1, sizeof *sizes);
    ckpt_status st = operand_open(editor, step->rows[0], &operand, err);
    if (st == CKPT_OK && !sizes)
        st = fail_memory(err);
    CKPT_THEN(st, find_dim(editor, step->rows[0], editor->rule->dim, operand.tensor.ndim, &dim, err));
    CKPT_THEN(st, find_sizes(editor, step->rows[0], operand.tensor.shape[dim], sizes, err));
    CKPT_THEN(st, split_operand(editor, step, &operand, sizes, dim, err));
    source_unref(operand.src);
    free(sizes);
    return st;
}

static ckpt_status unstack_operand(struct editor *editor, const struct edit_step *step,
                                   const struct operand *operand, uint32_t dim, ckpt_error *err)
{
    char digits[STR_NUMBER_MAX];
    for (uint64_t i = 0; i < operand->tensor.shape[dim]; i++) {
        uint32_t row = operand->row;
        const ckpt_str number = format_number(i, digits);
        if (i)
            CKPT_TRY(edit_add(editor, step, 0, number, &row, err));
        CKPT_TRY(put_slice(editor, row, operand, dim, i, 1, true, err));
        if (!i)
            CKPT_TRY(edit_finish(editor, step, 0, number, row, err));
    }
    return CKPT_OK;
}

ckpt_status edit_unstack(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    struct operand operand;
    uint32_t dim = 0, row = step->rows[0];
    if (!editor->rule->ntargets)
        return rule_fail(editor->rule->place, err,
                         "`unstack` needs a name with a variable in braces, after ->");
    ckpt_status st = operand_open(editor, row, &operand, err);
    CKPT_THEN(st, find_dim(editor, row, editor->rule->dim, operand.tensor.ndim, &dim, err));
    if (st == CKPT_OK && !operand.tensor.shape[dim])
        st = edit_fail(editor, row, err, "has nothing in dimension %" PRIu32, dim);
    if (st == CKPT_OK && operand.tensor.shape[dim] > editor->p->file->table.max_rows)
        st = edit_fail(editor, row, err, "would become {%" PRIu64 " tensors}; {=%" PRIu64 "} are allowed",
                       operand.tensor.shape[dim], editor->p->file->table.max_rows);
    CKPT_THEN(st, unstack_operand(editor, step, &operand, dim, err));
    source_unref(operand.src);
    return st;
}

/* ----------------------------------------------------------------------- concat, stack */

/* What is joined: operands along dimension DIM, which is a new one of size 1 in each if IS_NEW. */
struct joining {
    struct editor *editor;
    struct operand *operands;
    size_t n;
    uint32_t dim;
    bool is_new;
    struct edit_shape shape; /* of the result */
    struct piece *pieces;
    uint64_t *places; /* offsets, sizes and strides of the pieces */
    uint32_t depth;   /* the largest of the operands */
};

static bool is_same_cast(const ckpt_plan *p, uint32_t left, uint32_t right)
{
    return !p->casts.to || p->casts.to[left] == p->casts.to[right];
}

/* check_alike - checks that operand INDEX has the dtype and, but for the dimension of a concatenation, the
 * shape of the first one. */
static ckpt_status check_alike(const struct joining *joining, size_t index, ckpt_error *err)
{
    const ckpt_tensor *first = &joining->operands[0].tensor, *t = &joining->operands[index].tensor;
    const struct editor *editor = joining->editor;
    const uint32_t row = joining->operands[index].row, other = joining->operands[0].row;
    bool is_alike = first->ndim == t->ndim;
    for (uint32_t k = 0; is_alike && k < t->ndim; k++)
        is_alike = t->shape[k] == first->shape[k] || (k == joining->dim && !joining->is_new);
    if (!is_alike)
        return edit_fail(editor, row, err, "does not have the shape of \"%.*s\"",
                         STR_ARG(edit_name(editor, other)));
    if (t->dtype != first->dtype)
        return edit_fail(editor, row, err, "is {%s}, \"%.*s\" {=%s}\nonly tensors of one dtype are joined",
                         ckpt_tensor_dtype_name(t), STR_ARG(edit_name(editor, other)),
                         ckpt_tensor_dtype_name(first));
    return is_same_cast(editor->p, row, other)
               ? CKPT_OK
               : edit_fail(editor, row, err,
                           "is written as {%s}, \"%.*s\" as {=%s}\ncast them alike, or when they are joined",
                           ckpt_dtype_name(plan_dtype(editor->p, row)), STR_ARG(edit_name(editor, other)),
                           ckpt_dtype_name(plan_dtype(editor->p, other)));
}

/* set_joined_shape - computes the shape of the result without the size of DIM, which is 0. */
static void set_joined_shape(struct joining *joining)
{
    const ckpt_tensor *first = &joining->operands[0].tensor;
    struct edit_shape *shape = &joining->shape;
    for (uint32_t k = 0; k < first->ndim; k++)
        shape->size[k + (joining->is_new && k >= joining->dim)] = first->shape[k];
    shape->ndim = first->ndim + joining->is_new;
    shape->size[joining->dim] = 0;
}

/* add_piece - adds operand INDEX to the pieces of the result. */
static ckpt_status add_piece(struct joining *joining, size_t index, ckpt_error *err)
{
    uint32_t ndim = joining->shape.ndim;
    const struct operand *operand = &joining->operands[index];
    uint64_t *offset = joining->places + index * 3 * ndim, *size = offset + ndim, *stride = size + ndim;
    uint64_t *length = &joining->shape.size[joining->dim];
    memcpy(size, joining->shape.size, ndim * sizeof *size);
    offset[joining->dim] = *length;
    size[joining->dim] = joining->is_new ? 1 : operand->tensor.shape[joining->dim];
    if (!checked_add(*length, size[joining->dim], length))
        return edit_fail(joining->editor, operand->row, err, "makes the sum of the sizes exceed {=2^64}");
    for (uint32_t k = 0; k < operand->tensor.ndim; k++) /* that of a new dimension is 0 */
        stride[k + (joining->is_new && k >= joining->dim)] = operand->view.stride[k];
    joining->pieces[index] = (struct piece){offset, size, stride, operand->src, operand->at};
    joining->depth = operand->depth > joining->depth ? operand->depth : joining->depth;
    return CKPT_OK;
}

static ckpt_status join_opened(struct joining *joining, ckpt_error *err)
{
    uint32_t ndim = joining->operands[0].tensor.ndim + joining->is_new;
    CKPT_TRY(find_dim(joining->editor, joining->operands[0].row, joining->editor->rule->dim, ndim,
                      &joining->dim, err));
    if (ndim > EDIT_MAX_DIMS)
        return edit_fail(joining->editor, joining->operands[0].row, err, "has too many dimensions");
    set_joined_shape(joining);
    joining->places = calloc(joining->n, 3u * ndim * sizeof *joining->places);
    joining->pieces = calloc(joining->n, sizeof *joining->pieces);
    CKPT_TRY_ALLOC(joining->places && joining->pieces, err);
    for (size_t i = 0; i < joining->n; i++) {
        CKPT_TRY(check_alike(joining, i, err));
        CKPT_TRY(add_piece(joining, i, err));
    }
    const struct result result = {.dtype = (ckpt_dtype)joining->operands[0].tensor.dtype,
                                  .shape = &joining->shape,
                                  .pieces = joining->pieces,
                                  .npieces = joining->n,
                                  .depth = joining->depth};
    return result_put(joining->editor, joining->operands[0].row, &result, err);
}

/* join_all - joins the operands of JOINING, if ST, the result of opening them, is CKPT_OK. Frees what JOINING
 * has. */
static ckpt_status join_all(struct joining *joining, ckpt_status st, ckpt_error *err)
{
    CKPT_THEN(st, join_opened(joining, err));
    for (size_t i = 0; i < joining->n; i++)
        source_unref(joining->operands[i].src);
    free(joining->operands);
    free(joining->places);
    free(joining->pieces);
    return st;
}

/* join - makes the first tensor of STEP all of them, along a new dimension if IS_NEW; the others are left
 * out. */
static ckpt_status join(struct editor *editor, const struct edit_step *step, bool is_new, ckpt_error *err)
{
    struct joining joining = {.editor = editor, .n = step->nrows, .is_new = is_new};
    ckpt_status st = CKPT_OK;
    joining.operands = calloc(step->nrows, sizeof *joining.operands);
    if (!joining.operands)
        return fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < step->nrows; i++)
        st = operand_open(editor, step->rows[i], &joining.operands[i], err);
    st = join_all(&joining, st, err);
    for (size_t i = 1; i < step->nrows; i++)
        if (step->rows[i] != step->rows[0]) /* a tensor may be joined with itself */
            editor->p->keep[step->rows[i]] = false;
    CKPT_THEN(st, edit_finish(editor, step, 0, str_of("", 0), step->rows[0], err));
    return st;
}

ckpt_status edit_concat_files(struct editor *editor, const struct edit_step *step, ckpt_file *const *files,
                              const uint32_t *rows, size_t count, ckpt_error *err)
{
    struct joining joining = {.editor = editor, .n = count + 1};
    joining.operands = calloc(joining.n, sizeof *joining.operands);
    if (!joining.operands)
        return fail_memory(err);
    ckpt_status st = operand_open(editor, step->rows[0], &joining.operands[0], err);
    for (size_t i = 0; st == CKPT_OK && i < count; i++) {
        joining.operands[i + 1].row = step->rows[0];
        st = operand_open_in(editor, files[i], rows[i], &joining.operands[i + 1], err);
    }
    return join_all(&joining, st, err);
}

ckpt_status edit_concat(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return join(editor, step, false, err);
}

ckpt_status edit_stack(struct editor *editor, const struct edit_step *step, ckpt_error *err)
{
    return join(editor, step, true, err);
}
