/* slice.c - parses the text of a slice, as preview.h describes it. */
#include "preview.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct slice_parser {
    const char *pos; /* the next character to parse */
    char *why;       /* the caller's buffer for the reason why the slice is refused */
    size_t cap;      /* bytes of that buffer */
};

static void skip_blanks(struct slice_parser *parser)
{
    while (*parser->pos == ' ')
        parser->pos++;
}

/* parse_number - parses a number, which may have a sign; sets *GIVEN to false if there is no number here.
 * Returns false if the number is too large. */
static bool parse_number(struct slice_parser *parser, int64_t *out, bool *given)
{
    skip_blanks(parser);
    const char *digits = parser->pos + (*parser->pos == '-' || *parser->pos == '+');
    *given = isdigit((unsigned char)*digits) != 0;
    if (!*given)
        return true;
    char *end;
    errno = 0;
    *out = strtoll(parser->pos, &end, 10);
    parser->pos = end;
    skip_blanks(parser);
    if (errno)
        snprintf(parser->why, parser->cap, "a number in the slice is too large");
    return !errno;
}

/* clamp_bound - clamps BOUND to the COUNT items of a dimension, as Python's slice.indices() does. */
static int64_t clamp_bound(int64_t bound, int64_t count, int64_t step)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
    if (bound < 0)
        bound += count;
    return bound < low ? low : bound > high ? high : bound;
}

enum { START, STOP, STEP, NNUMBERS }; /* the numbers of "start:stop:step" */

/* set_range - sets A to the range NUMBERS of COUNT items. A number that is not GIVEN has Python's default. */
static void set_range(struct axis *axis, int64_t count, const int64_t numbers[NNUMBERS],
                      const bool given[NNUMBERS])
{
    int64_t step = given[STEP] ? numbers[STEP] : 1;
    int64_t default_start = step < 0 ? count - 1 : 0, default_stop = step < 0 ? -1 : count;
    int64_t start = given[START] ? clamp_bound(numbers[START], count, step) : default_start;
    int64_t stop = given[STOP] ? clamp_bound(numbers[STOP], count, step) : default_stop;
    uint64_t span = step > 0 ? (stop > start ? (uint64_t)(stop - start) : 0)
                             : (start > stop ? (uint64_t)(start - stop) : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    axis->start = start < 0 ? 0 : (uint64_t)start;
    axis->count = span ? (span - 1) / stride + 1 : 0;
    axis->step = step;
}

/* parse_axis - parses an index or a range for dimension DIM, which has SIZE items, and sets A to it. */
static bool parse_axis(struct slice_parser *parser, struct axis *axis, uint64_t size, uint32_t dim)
{
    int64_t numbers[NNUMBERS] = {0}, n = size > INT64_MAX ? INT64_MAX : (int64_t)size;
    bool given[NNUMBERS] = {false}, colon = false;
    for (int i = START; i < NNUMBERS; i++) {
        if (!parse_number(parser, &numbers[i], &given[i]))
            return false;
        if (i == STEP || *parser->pos != ':')
            break;
        colon = true;
        parser->pos++;
    }
    if (!colon && !given[START]) {
        snprintf(parser->why, parser->cap, "dimension %u of the slice is not an index or start:stop:step",
                 dim);
        return false;
    }
    if (given[STEP] && numbers[STEP] == 0) {
        snprintf(parser->why, parser->cap, "dimension %u of the slice: the step is 0", dim);
        return false;
    }
    if (colon) {
        set_range(axis, n, numbers, given);
        return true;
    }
    int64_t index = numbers[START];
    if (index >= n || index < -n) {
        snprintf(parser->why, parser->cap, "index %lld is out of range for dimension %u with size %llu",
                 (long long)index, dim, (unsigned long long)size);
        return false;
    }
    *axis = (struct axis){
        .start = (uint64_t)(index < 0 ? index + n : index), .count = 1, .step = 1, .drops_dimension = true};
    return true;
}

static bool parse_axes(struct slice_parser *parser, const uint64_t *shape, uint32_t ndim, struct slice *out)
{
    for (uint32_t i = 0;; i++) {
        skip_blanks(parser);
        if (!*parser->pos)
            return true; /* the text is empty or ends with a comma */
        if (i == ndim) {
            snprintf(parser->why, parser->cap, "too many indexes: the shape has %u dimension%s", ndim,
                     ndim == 1 ? "" : "s");
            return false;
        }
        if (!parse_axis(parser, &out->axes[i], shape[i], i))
            return false;
        if (!*parser->pos)
            return true;
        if (*parser->pos++ != ',') {
            snprintf(parser->why, parser->cap, "the slice is malformed at '%.20s'", parser->pos - 1);
            return false;
        }
    }
}

bool slice_parse(const char *text, const uint64_t *shape, uint32_t ndim, struct slice *out, char *why,
                 size_t cap)
{
    struct slice_parser s = {text ? text : "", why, cap};
    *out = (struct slice){.axes = mem_new(ndim, sizeof *out->axes),
                          .naxes = ndim,
                          .shape = mem_new(ndim, sizeof *out->shape),
                          .elements = 1};
    for (uint32_t i = 0; i < ndim; i++)
        out->axes[i] = (struct axis){.count = shape[i], .step = 1};
    if (!parse_axes(&s, shape, ndim, out)) {
        slice_free(out);
        return false;
    }
    for (uint32_t i = 0; i < ndim; i++) {
        out->elements *= out->axes[i].count;
        if (!out->axes[i].drops_dimension)
            out->shape[out->ndim++] = out->axes[i].count;
    }
    return true;
}

void slice_free(struct slice *slice)
{
    free(slice->axes);
    free(slice->shape);
    *slice = (struct slice){0};
}
