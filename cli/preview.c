#include "preview.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "out.h"

/* Of more than LIMIT elements, the last two dimensions show EDGE at both ends, the others one. Elements are
 * read in blocks of WINDOW. */
enum { LIMIT = 200, EDGE = 3, WINDOW = 4096 };

/* The format of all numbers of one preview, so that their decimal points line up. */
struct number_format {
    enum { DECIMAL, WHOLE, SCIENTIFIC, EXACT } form;
    bool all_whole;
    double least, most; /* smallest and largest finite magnitude, zeros aside */
    size_t width;
};

struct preview_walk {
    const struct preview *p;
    ckpt_dtype dtype; /* of the elements as they are read */
    size_t size;      /* bytes of an element */
    uint64_t total;   /* elements of the tensor */
    uint32_t ndim;    /* axes of the slice */
    uint64_t *stride; /* of each axis, in elements */
    uint64_t *at;     /* current index along each axis, in steps of the slice */
    uint64_t *edge;   /* how many indexes each axis shows at both ends; 0: all */
    uint8_t *window;
    uint64_t first, count; /* elements in the window */
    struct number_format format;
    ckpt_error *err;
};

const uint64_t *preview_shape(const ckpt_tensor *t, uint32_t *ndim)
{
    static uint64_t bytes;
    if (!number_is_packed((ckpt_dtype)t->dtype)) {
        *ndim = t->ndim;
        return t->shape;
    }
    bytes = t->nbytes;
    *ndim = 1;
    return &bytes;
}

/* read_element - reads element INDEX. Blocks begin at multiples of WINDOW, so that reading back and forth
 * hits the same block. */
static ckpt_status read_element(struct preview_walk *w, uint64_t index, struct number *out)
{
    if (index < w->first || index - w->first >= w->count) {
        w->first = index / WINDOW * WINDOW;
        w->count = w->total - w->first < WINDOW ? w->total - w->first : WINDOW;
        ckpt_status s = number_read(w->p->f, w->p->row, w->first, w->count, w->window, w->err);
        if (s != CKPT_OK) {
            w->count = 0;
            return s;
        }
    }
    *out = number_decode(w->dtype, w->window + (index - w->first) * w->size);
    return CKPT_OK;
}

static ckpt_status read_current(struct preview_walk *w, struct number *out)
{
    uint64_t index = 0;
    for (uint32_t i = 0; i < w->ndim; i++) {
        const struct axis *a = &w->p->slice->axes[i];
        uint64_t along = a->step < 0 ? a->start - w->at[i] * (0 - (uint64_t)a->step)
                                     : a->start + w->at[i] * (uint64_t)a->step;
        index += along * w->stride[i];
    }
    return read_element(w, index, out);
}

static bool is_at_gap(const struct preview_walk *w, uint32_t axis)
{
    return w->edge[axis] && w->at[axis] == w->edge[axis];
}

/* advance_axis - moves to the next index along AXIS; at the end, back to 0 and returns false. */
static bool advance_axis(struct preview_walk *w, uint32_t axis)
{
    uint64_t n = w->p->slice->axes[axis].count;
    w->at[axis] = is_at_gap(w, axis) ? n - w->edge[axis] : w->at[axis] + 1;
    if (w->at[axis] < n)
        return true;
    w->at[axis] = 0;
    return false;
}

/* ----------------------------------------------------------------- formats */

static void note_magnitude(struct number_format *k, double d)
{
    double m = fabs(d);
    if (!isfinite(d))
        return;
    k->all_whole = k->all_whole && d == trunc(d) && m < 1e8;
    if (m > 0 && (m < k->least || k->least == 0))
        k->least = m;
    if (m > k->most)
        k->most = m;
}

static void choose_form(struct number_format *k, bool exact)
{
    if (exact)
        k->form = EXACT;
    else if (k->all_whole)
        k->form = WHOLE;
    else if (k->most >= 1e8 || k->least < 1e-4 || k->most / k->least > 1e5)
        k->form = SCIENTIFIC;
    else
        k->form = DECIMAL;
}

static void format_real(const struct number_format *k, double d, bool single, char out[NUMBER_TEXT])
{
    if (k->form == EXACT || !isfinite(d))
        real_text(d, single, out);
    else if (k->form == WHOLE)
        snprintf(out, NUMBER_TEXT, "%.0f.", d);
    else
        snprintf(out, NUMBER_TEXT, k->form == SCIENTIFIC ? "%.4e" : "%.4f", d);
}

static void format_number(const struct number_format *k, const struct number *x, char out[NUMBER_TEXT])
{
    char re[NUMBER_TEXT], im[NUMBER_TEXT];
    if (x->kind == NUM_REAL) {
        format_real(k, x->re, x->single, out);
    } else if (x->kind == NUM_COMPLEX) {
        format_real(k, x->re, x->single, re);
        format_real(k, x->im, x->single, im);
        snprintf(out, NUMBER_TEXT, "%.40s%s%.40sj", re, *im == '-' ? "" : "+", im);
    } else {
        number_text(x, out);
    }
}

/* scan_shown_elements - visits all elements to be shown: measures their magnitudes or, if WIDTHS, their
 * texts. */
static ckpt_status scan_shown_elements(struct preview_walk *w, bool widths)
{
    char text[NUMBER_TEXT];
    struct number x;
    for (uint32_t axis = 0;;) {
        bool gap = false;
        for (uint32_t i = 0; i < w->ndim; i++)
            gap = gap || is_at_gap(w, i);
        if (!gap) {
            ckpt_status s = read_current(w, &x);
            if (s != CKPT_OK)
                return s;
            if (widths) {
                format_number(&w->format, &x, text);
                w->format.width = strlen(text) > w->format.width ? strlen(text) : w->format.width;
            } else if (x.kind == NUM_REAL || x.kind == NUM_COMPLEX) {
                note_magnitude(&w->format, x.re);
                note_magnitude(&w->format, x.im);
            }
        }
        for (axis = w->ndim; axis-- > 0;)
            if (advance_axis(w, axis))
                break;
        if (axis == UINT32_MAX)
            return CKPT_OK;
    }
}

/* ---------------------------------------------------------------- printing */

/* print_line - prints the elements along AXIS, the innermost, as a line, wrapped on a terminal. */
static ckpt_status print_line(struct preview_walk *w, uint32_t axis)
{
    char text[NUMBER_TEXT];
    size_t column = 0;
    do {
        struct number x;
        if (axis != UINT32_MAX && is_at_gap(w, axis)) {
            fputs("  …", stdout);
            column += 3;
            continue;
        }
        ckpt_status s = read_current(w, &x);
        if (s != CKPT_OK)
            return s;
        format_number(&w->format, &x, text);
        if (column && column + w->format.width + 2 > ui.width) {
            fputs("\n", stdout);
            column = 0;
        }
        printf("  %*s", (int)w->format.width, text);
        column += w->format.width + 2;
    } while (axis != UINT32_MAX && advance_axis(w, axis));
    putchar('\n');
    return CKPT_OK;
}

/* print_indexes - prints "[1, 0, :, :]" above each matrix of a tensor with more than two dimensions. */
static void print_indexes(const struct preview_walk *w, const uint32_t *shown, uint32_t nshown)
{
    putchar('[');
    for (uint32_t i = 0; i + 2 < nshown; i++)
        printf("%llu, ", (unsigned long long)w->at[shown[i]]);
    puts(":, :]");
}

static ckpt_status print_all(struct preview_walk *w, const uint32_t *shown, uint32_t nshown)
{
    bool index_due = nshown > 2, gap_printed = false;
    uint32_t last = nshown ? shown[nshown - 1] : UINT32_MAX;
    for (;;) {
        bool gap = false;
        for (uint32_t i = 0; i + 1 < nshown; i++)
            gap = gap || is_at_gap(w, shown[i]);
        if (gap) {
            if (!gap_printed)
                puts("  …");
        } else {
            if (index_due)
                print_indexes(w, shown, nshown);
            ckpt_status s = print_line(w, last);
            if (s != CKPT_OK)
                return s;
        }
        gap_printed = gap;
        uint32_t i = nshown ? nshown - 1 : 0;
        while (i-- > 0)
            if (advance_axis(w, shown[i]))
                break;
        if (i == UINT32_MAX)
            return CKPT_OK;
        index_due = nshown > 2 && i + 2 < nshown;
    }
}

static bool begin_preview(struct preview_walk *w, const struct preview *p, bool shorten, ckpt_error *err)
{
    const ckpt_tensor it = tensor_at(p->f, p->row), *t = &it;
    uint32_t ndim;
    const uint64_t *shape = preview_shape(t, &ndim);
    *w = (struct preview_walk){.p = p,
                               .dtype = number_shown_dtype((ckpt_dtype)t->dtype),
                               .size = number_bytes((ckpt_dtype)t->dtype),
                               .ndim = ndim,
                               .total = number_is_packed((ckpt_dtype)t->dtype) ? t->nbytes : t->elements,
                               .err = err};
    w->format.all_whole = true;
    w->stride = mem_new(ndim, sizeof *w->stride);
    w->at = mem_new(ndim, sizeof *w->at);
    w->edge = mem_new(ndim, sizeof *w->edge);
    w->window = mem_new(WINDOW, w->size);
    uint64_t step = 1;
    for (uint32_t i = ndim; i-- > 0; step *= shape[i])
        w->stride[i] = step;
    uint32_t inner = 0;
    for (uint32_t i = ndim; shorten && p->slice->elements > LIMIT && i-- > 0;) {
        uint64_t edge = inner < 2 ? EDGE : 1;
        w->edge[i] = p->slice->axes[i].count > 2 * edge + 1 ? edge : 0;
        inner += !p->slice->axes[i].dropped;
    }
    return p->slice->elements != 0;
}

static void end_preview(struct preview_walk *w)
{
    free(w->stride);
    free(w->at);
    free(w->edge);
    free(w->window);
}

ckpt_status preview_text(const struct preview *p, ckpt_error *err)
{
    struct preview_walk w;
    ckpt_status s = CKPT_OK;
    if (begin_preview(&w, p, !p->full, err)) {
        uint32_t *shown = mem_new(w.ndim, sizeof *shown), n = 0;
        for (uint32_t i = 0; i < w.ndim; i++)
            if (!p->slice->axes[i].dropped)
                shown[n++] = i;
        s = scan_shown_elements(&w, false);
        choose_form(&w.format, p->exact);
        if (s == CKPT_OK)
            s = scan_shown_elements(&w, true);
        if (s == CKPT_OK)
            s = print_all(&w, shown, n);
        free(shown);
    }
    end_preview(&w);
    return s;
}

ckpt_status preview_json(const struct preview *p, ckpt_error *err)
{
    struct preview_walk w;
    char text[NUMBER_TEXT];
    struct number x;
    ckpt_status s = CKPT_OK;
    bool any = begin_preview(&w, p, false, err);
    uint32_t open = 0, axis = 0;
    if (!any)
        fputs("[]", stdout);
    while (any) {
        for (; open < p->slice->ndim; open++)
            putchar('[');
        if ((s = read_current(&w, &x)) != CKPT_OK)
            break;
        fputs(number_json(&x, text), stdout);
        for (axis = w.ndim; axis-- > 0;) {
            if (advance_axis(&w, axis))
                break;
            if (p->slice->axes[axis].dropped)
                continue;
            putchar(']');
            open--;
        }
        if (axis == UINT32_MAX)
            break;
        putchar(',');
    }
    end_preview(&w);
    return s;
}
