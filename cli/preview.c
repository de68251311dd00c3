#include "preview.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "out.h"

/* A slice of more than MAX_FULL_ELEMENTS is shown by its edges: the first and last EDGE_INDEXES of the last
 * two dimensions, and the first and last index of the others. WINDOW_ELEMENTS are read at a time. */
enum { MAX_FULL_ELEMENTS = 200, EDGE_INDEXES = 3, WINDOW_ELEMENTS = 4096 };

/* The format of all numbers of one preview, so that their decimal points line up. */
struct number_format {
    enum { DECIMAL, INTEGERS, SCIENTIFIC, EXACT } form;
    bool all_integers;                   /* all finite numbers are integers below 1e8 */
    double min_magnitude, max_magnitude; /* of the finite numbers other than 0 */
    size_t width;                        /* bytes of the longest text of a number */
};

struct preview_walk {
    const struct preview *preview;
    ckpt_dtype dtype;                    /* of the elements as they are read */
    size_t element_size;                 /* bytes of an element */
    uint64_t nelements;                  /* elements of the tensor */
    uint32_t naxes;                      /* axes of the slice, also those that drop their dimension */
    uint64_t *stride;                    /* of each axis, in elements */
    uint64_t *index;                     /* current index along each axis, in steps of the slice */
    uint64_t *edge;                      /* how many indexes are shown at each end of each axis; 0: all */
    uint8_t *window;                     /* the block of elements that was read last */
    uint64_t window_first, window_count; /* index of the window's first element; elements in the window */
    struct number_format format;
    ckpt_error *err;
};

const uint64_t *preview_shape(const ckpt_tensor *tensor, uint32_t *ndim)
{
    static uint64_t bytes;
    if (!number_is_packed((ckpt_dtype)tensor->dtype)) {
        *ndim = tensor->ndim;
        return tensor->shape;
    }
    bytes = tensor->nbytes;
    *ndim = 1;
    return &bytes;
}

/* read_element - reads element INDEX. Windows begin at multiples of WINDOW_ELEMENTS, so that reading back and
 * forth hits the same one. */
static ckpt_status read_element(struct preview_walk *walk, uint64_t index, struct number *out)
{
    if (index < walk->window_first || index - walk->window_first >= walk->window_count) {
        uint64_t first = index / WINDOW_ELEMENTS * WINDOW_ELEMENTS, left = walk->nelements - first;
        walk->window_first = first;
        walk->window_count = left < WINDOW_ELEMENTS ? left : WINDOW_ELEMENTS;
        ckpt_status s = number_read(walk->preview->f, walk->preview->row, first, walk->window_count,
                                    walk->window, walk->err);
        if (s != CKPT_OK) {
            walk->window_count = 0;
            return s;
        }
    }
    *out = number_decode(walk->dtype, walk->window + (index - walk->window_first) * walk->element_size);
    return CKPT_OK;
}

static ckpt_status read_current(struct preview_walk *walk, struct number *out)
{
    uint64_t index = 0;
    for (uint32_t i = 0; i < walk->naxes; i++) {
        const struct axis *a = &walk->preview->slice->axes[i];
        uint64_t along = a->step < 0 ? a->start - walk->index[i] * (0 - (uint64_t)a->step)
                                     : a->start + walk->index[i] * (uint64_t)a->step;
        index += along * walk->stride[i];
    }
    return read_element(walk, index, out);
}

/* is_at_gap - returns true if the index along AXIS is the first of those that are not shown. */
static bool is_at_gap(const struct preview_walk *walk, uint32_t axis)
{
    return walk->edge[axis] && walk->index[axis] == walk->edge[axis];
}

/* advance_axis - moves along AXIS to the next index that is shown, or to the gap. After the last index, moves
 * back to 0 and returns false. */
static bool advance_axis(struct preview_walk *walk, uint32_t axis)
{
    uint64_t n = walk->preview->slice->axes[axis].count;
    walk->index[axis] = is_at_gap(walk, axis) ? n - walk->edge[axis] : walk->index[axis] + 1;
    if (walk->index[axis] < n)
        return true;
    walk->index[axis] = 0;
    return false;
}

/* ----------------------------------------------------------------- formats */

static void note_magnitude(struct number_format *format, double number)
{
    double m = fabs(number);
    if (!isfinite(number))
        return;
    format->all_integers = format->all_integers && number == trunc(number) && m < 1e8;
    if (m > 0 && (m < format->min_magnitude || format->min_magnitude == 0))
        format->min_magnitude = m;
    if (m > format->max_magnitude)
        format->max_magnitude = m;
}

static void choose_form(struct number_format *format, bool exact)
{
    if (exact)
        format->form = EXACT;
    else if (format->all_integers)
        format->form = INTEGERS;
    else if (format->max_magnitude >= 1e8 || format->min_magnitude < 1e-4 ||
             format->max_magnitude / format->min_magnitude > 1e5)
        format->form = SCIENTIFIC;
    else
        format->form = DECIMAL;
}

static void format_real(const struct number_format *format, double number, bool single,
                        char out[NUMBER_TEXT_SIZE])
{
    if (format->form == EXACT || !isfinite(number))
        real_text(number, single, out);
    else if (format->form == INTEGERS)
        snprintf(out, NUMBER_TEXT_SIZE, "%.0f.",
                 number); /* with a point at the end, as torch prints floats */
    else
        snprintf(out, NUMBER_TEXT_SIZE, format->form == SCIENTIFIC ? "%.4e" : "%.4f", number);
}

static void format_number(const struct number_format *format, const struct number *number,
                          char out[NUMBER_TEXT_SIZE])
{
    char re[NUMBER_TEXT_SIZE], im[NUMBER_TEXT_SIZE];
    if (number->kind == NUM_REAL) {
        format_real(format, number->re, number->single, out);
    } else if (number->kind == NUM_COMPLEX) {
        format_real(format, number->re, number->single, re);
        format_real(format, number->im, number->single, im);
        snprintf(out, NUMBER_TEXT_SIZE, "%.40s%s%.40sj", re, *im == '-' ? "" : "+", im);
    } else {
        number_text(number, out);
    }
}

/* measure_elements - reads all elements to be shown, and computes the maximum width of their texts if WIDTHS,
 * or else their smallest and largest magnitude. */
static ckpt_status measure_elements(struct preview_walk *walk, bool widths)
{
    char text[NUMBER_TEXT_SIZE];
    struct number number;
    for (;;) {
        bool at_gap = false;
        uint32_t axis = walk->naxes;
        for (uint32_t i = 0; i < walk->naxes; i++)
            at_gap = at_gap || is_at_gap(walk, i);
        if (!at_gap) {
            ckpt_status s = read_current(walk, &number);
            if (s != CKPT_OK)
                return s;
            if (widths) {
                format_number(&walk->format, &number, text);
                walk->format.width = strlen(text) > walk->format.width ? strlen(text) : walk->format.width;
            } else if (number.kind == NUM_REAL || number.kind == NUM_COMPLEX) {
                note_magnitude(&walk->format, number.re);
                note_magnitude(&walk->format, number.im);
            }
        }
        while (axis-- > 0 && !advance_axis(walk, axis))
            ;
        if (axis == UINT32_MAX) /* no axis could be advanced */
            return CKPT_OK;
    }
}

/* ---------------------------------------------------------------- printing */

/* print_line - prints the elements along AXIS, the innermost, as a line; UINT32_MAX: there is no axis. */
static ckpt_status print_line(struct preview_walk *walk, uint32_t axis)
{
    char text[NUMBER_TEXT_SIZE];
    size_t column = 0;
    do {
        struct number number;
        if (axis != UINT32_MAX && is_at_gap(walk, axis)) {
            put_text(stdout, "  …");
            column += 3;
            continue;
        }
        ckpt_status s = read_current(walk, &number);
        if (s != CKPT_OK)
            return s;
        format_number(&walk->format, &number, text);
        if (column && column + walk->format.width + 2 > ui.width) {
            put_text(stdout, "\n");
            column = 0;
        }
        print_text(stdout, "  %*s", (int)walk->format.width, text);
        column += walk->format.width + 2;
    } while (axis != UINT32_MAX && advance_axis(walk, axis));
    put_text(stdout, "\n");
    return CKPT_OK;
}

/* print_indexes - prints "[1, 0, :, :]" above each matrix of a tensor with more than two dimensions. */
static void print_indexes(const struct preview_walk *walk, const uint32_t *range_axes, uint32_t nranges)
{
    put_text(stdout, "[");
    for (uint32_t i = 0; i + 2 < nranges; i++)
        print_text(stdout, "%llu, ", (unsigned long long)walk->index[range_axes[i]]);
    put_line(":, :]");
}

static ckpt_status print_all(struct preview_walk *walk, const uint32_t *range_axes, uint32_t nranges)
{
    bool print_index = nranges > 2, gap_printed = false;
    uint32_t last = nranges ? range_axes[nranges - 1] : UINT32_MAX;
    for (;;) {
        bool at_gap = false;
        for (uint32_t i = 0; i + 1 < nranges; i++)
            at_gap = at_gap || is_at_gap(walk, range_axes[i]);
        if (at_gap) {
            if (!gap_printed)
                put_line("  …");
        } else {
            if (print_index)
                print_indexes(walk, range_axes, nranges);
            ckpt_status s = print_line(walk, last);
            if (s != CKPT_OK)
                return s;
        }
        gap_printed = at_gap;
        uint32_t i = nranges ? nranges - 1 : 0;
        while (i-- > 0)
            if (advance_axis(walk, range_axes[i]))
                break;
        if (i == UINT32_MAX)
            return CKPT_OK;
        print_index = nranges > 2 && i + 2 < nranges;
    }
}

/* begin_preview - returns false if the slice has no elements. */
static bool begin_preview(struct preview_walk *walk, const struct preview *preview, bool shorten,
                          ckpt_error *err)
{
    const ckpt_tensor t = tensor_at(preview->f, preview->row);
    uint32_t ndim;
    const uint64_t *shape = preview_shape(&t, &ndim);
    *walk = (struct preview_walk){.preview = preview,
                                  .dtype = number_shown_dtype((ckpt_dtype)t.dtype),
                                  .element_size = number_bytes((ckpt_dtype)t.dtype),
                                  .naxes = ndim,
                                  .nelements = number_is_packed((ckpt_dtype)t.dtype) ? t.nbytes : t.elements,
                                  .err = err};
    walk->format.all_integers = true;
    walk->stride = mem_new(ndim, sizeof *walk->stride);
    walk->index = mem_new(ndim, sizeof *walk->index);
    walk->edge = mem_new(ndim, sizeof *walk->edge);
    walk->window = mem_new(WINDOW_ELEMENTS, walk->element_size);
    uint64_t step = 1;
    for (uint32_t i = ndim; i-- > 0; step *= shape[i])
        walk->stride[i] = step;
    uint32_t inner_axes = 0;
    for (uint32_t i = ndim; shorten && preview->slice->elements > MAX_FULL_ELEMENTS && i-- > 0;) {
        uint64_t edge = inner_axes < 2 ? EDGE_INDEXES : 1;
        walk->edge[i] = preview->slice->axes[i].count > 2 * edge + 1 ? edge : 0;
        inner_axes += !preview->slice->axes[i].drops_dimension;
    }
    return preview->slice->elements != 0;
}

static void end_preview(struct preview_walk *walk)
{
    free(walk->stride);
    free(walk->index);
    free(walk->edge);
    free(walk->window);
}

ckpt_status preview_text(const struct preview *preview, ckpt_error *err)
{
    struct preview_walk walk;
    ckpt_status s = CKPT_OK;
    if (begin_preview(&walk, preview, !preview->full, err)) {
        uint32_t *range_axes = mem_new(walk.naxes, sizeof *range_axes), nranges = 0;
        for (uint32_t i = 0; i < walk.naxes; i++)
            if (!preview->slice->axes[i].drops_dimension)
                range_axes[nranges++] = i;
        s = measure_elements(&walk, false);
        choose_form(&walk.format, preview->exact);
        if (s == CKPT_OK)
            s = measure_elements(&walk, true);
        if (s == CKPT_OK)
            s = print_all(&walk, range_axes, nranges);
        free(range_axes);
    }
    end_preview(&walk);
    return s;
}

ckpt_status preview_json(const struct preview *preview, ckpt_error *err)
{
    struct preview_walk walk;
    char text[NUMBER_TEXT_SIZE];
    struct number number;
    ckpt_status s = CKPT_OK;
    bool has_elements = begin_preview(&walk, preview, false, err);
    uint32_t open_brackets = 0, axis = 0;
    if (!has_elements)
        put_text(stdout, "[]");
    while (has_elements) {
        for (; open_brackets < preview->slice->ndim; open_brackets++)
            put_text(stdout, "[");
        if ((s = read_current(&walk, &number)) != CKPT_OK)
            break;
        put_text(stdout, number_json(&number, text));
        for (axis = walk.naxes; axis-- > 0;) {
            if (advance_axis(&walk, axis))
                break;
            if (preview->slice->axes[axis].drops_dimension)
                continue;
            put_text(stdout, "]");
            open_brackets--;
        }
        if (axis == UINT32_MAX)
            break;
        put_text(stdout, ",");
    }
    end_preview(&walk);
    return s;
}
