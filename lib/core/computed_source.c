/* computed_source.c - see computed_source.h. */
#include "core/computed_source.h"

#include <stdlib.h>

#include "base/store.h"
#include "core/convert.h"
#include "core/number.h"

struct computed_source {
    source as_source;
    struct computed how;
    size_t width; /* bytes of a number */
    source *inputs[];
};

/* The memory of one read. */
struct workspace {
    double *numbers;
    void *scratch;
    struct conversion rounding; /* not in the source, because it is large, and files have many tensors */
};

static ckpt_dtype number_dtype(ckpt_dtype dt) { return (ckpt_dtype)dtype_info(dt)->number; }

bool computed_has_dtype(ckpt_dtype dt)
{
    struct conversion ignored;
    char klass = dtype_info(dt)->klass;
    return (klass == 'f' || klass == 'c') && conversion_init_once(&ignored, number_dtype(dt));
}

bool computed_count(ckpt_dtype dt, uint64_t elements, uint64_t *numbers)
{
    return checked_mul(elements, numbers_per_element(dt), numbers);
}

/* to_little_endian - makes the COUNT doubles at IN what convert_run takes. */
static void to_little_endian(double *in, size_t count)
{
    for (size_t i = 0; i < count && !is_little_endian(); i++) {
        uint64_t bits;
        memcpy(&bits, &in[i], sizeof bits);
        store_u64le((unsigned char *)&in[i], bits);
    }
}

bool computed_round(const struct conversion *rounding, double *numbers, size_t count, unsigned char *out)
{
    struct convert_tally tally = {0};
    to_little_endian(numbers, count);
    rounding->kernels->unify_nan((unsigned char *)numbers, count);
    convert_run(rounding, numbers, count, out, &tally);
    return tally.overflowed != 0;
}

/* compute_block - computes COUNT numbers from FIRST on, at most as many as one call of compute does, to OUT.
 * */
static ckpt_status compute_block(const struct computed_source *src, const struct workspace *space,
                                 uint64_t first, size_t count, unsigned char *out, ckpt_error *err)
{
    const struct computed *how = &src->how;
    if (how->store)
        return how->store(how, first, count, out, err);
    CKPT_TRY(how->compute(how, first, count, space->numbers, space->scratch, err));
    if (computed_round(&space->rounding, space->numbers, count, out) && how->is_overflow)
        atomic_store_explicit(how->is_overflow, true, memory_order_relaxed);
    return CKPT_OK;
}

/* compute_part - computes number FIRST, of which OUT gets the COUNT bytes at SKIP. */
static ckpt_status compute_part(const struct computed_source *src, const struct workspace *space,
                                uint64_t first, size_t skip, size_t count, unsigned char *out,
                                ckpt_error *err)
{
    unsigned char number[sizeof(double)];
    CKPT_TRY(compute_block(src, space, first, 1, number, err));
    memcpy(out, number + skip, count);
    return CKPT_OK;
}

/* compute_range - computes the NBYTES bytes at OFF of SRC. */
static ckpt_status compute_range(const struct computed_source *src, const struct workspace *space,
                                 uint64_t off, unsigned char *out, size_t nbytes, ckpt_error *err)
{
    size_t width = src->width, done;
    for (; nbytes; nbytes -= done, off += done, out += done) {
        uint64_t first = off / width;
        size_t skip = (size_t)(off % width), room = src->how.at_once - (size_t)(first % src->how.at_once);
        if (skip || nbytes < width) {
            done = nbytes < width - skip ? nbytes : width - skip;
            CKPT_TRY(compute_part(src, space, first, skip, done, out, err));
        } else {
            size_t count = nbytes / width < room ? nbytes / width : room;
            done = count * width;
            CKPT_TRY(compute_block(src, space, first, count, out, err));
        }
    }
    return CKPT_OK;
}

static ckpt_status read_computed(source *from, uint64_t off, void *to, size_t nbytes, ckpt_error *err)
{
    const struct computed_source *src = (const struct computed_source *)(const void *)from;
    struct workspace space = {.numbers = malloc((src->how.store ? 1 : src->how.at_once) * sizeof(double)),
                              .scratch = malloc(src->how.scratch + 1)};
    (void)conversion_init_once(&space.rounding,
                               number_dtype(src->how.dtype)); /* computed_has_dtype is true */
    ckpt_status st = space.numbers && space.scratch ? compute_range(src, &space, off, to, nbytes, err)
                                                    : fail_memory(err);
    free(space.numbers);
    free(space.scratch);
    return st;
}

/* release - drops what HOW refers to. */
static void release(const struct computed *how)
{
    for (size_t i = 0; i < how->ninputs; i++)
        source_unref(how->inputs[i]);
    if (how->close)
        how->close(how->user);
}

static void close_computed(source *from)
{
    struct computed_source *src = (struct computed_source *)(void *)from;
    release(&src->how);
    free(src);
}

source *computed_source(const struct computed *how)
{
    static const struct source_ops ops = {.read_at = read_computed, .close = close_computed};
    struct computed_source *src = calloc(1, sizeof *src + how->ninputs * sizeof(source *));
    if (!src) {
        release(how);
        return NULL;
    }
    src->how = *how;
    src->width = dtype_info(number_dtype(how->dtype))->block_bytes;
    src->as_source = (source){
        .ops = &ops, .size = how->numbers * src->width, .position = CKPT_NO_OFFSET, .refs = 1};
    for (size_t i = 0; i < how->ninputs; i++) {
        src->inputs[i] = how->inputs[i];
        src->as_source.serializes_reads |= how->inputs[i]->serializes_reads;
        src->as_source.is_remote |= how->inputs[i]->is_remote;
    }
    src->how.inputs = src->inputs;
    return &src->as_source;
}

ckpt_status read_numbers(source *src, ckpt_dtype dt, uint64_t first, size_t count, double *out,
                         ckpt_error *err)
{
    const ckpt_dtype number = number_dtype(dt);
    const size_t width = dtype_info(number)->block_bytes;
    /* The stored numbers are read to the end of OUT, so that each double is written where none is left to
     * read. */
    unsigned char *stored = (unsigned char *)(out + count) - count * width;
    CKPT_TRY(source_read(src, first * width, stored, count * width, err));
    number_decode(number, stored, count, out);
    return CKPT_OK;
}
