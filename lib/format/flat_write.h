/* flat_write.h - writing a plan as tensors by name, for formats that hold little else: which tensors are
 * written and which are refused, the copying of their bytes, the report. The format adds its headers. */
#ifndef FORMAT_FLAT_WRITE_H
#define FORMAT_FLAT_WRITE_H

#include "core/copy_pool.h"
#include "core/plan.h"

struct flat_item {
    ckpt_str name;
    uint32_t row;
    uint64_t begin; /* of its bytes, after w->data_start; set by lay_out */
};

struct flat_writer {
    ckpt_plan *p;
    const struct write_job *job;
    const struct flat_rules *rules;
    void *user; /* the format's own */
    struct flat_item *items;
    size_t n;
    size_t aliases;                /* in the plan before this file */
    uint64_t data_start, nbytes;   /* of the bytes of all items, in the output */
    uint64_t size;                 /* of the output */
    uint32_t *crcs;                /* by item, CRC-32 of its bytes as copied; NULL: not needed */
    struct convert_tally *tallies; /* by item; NULL where nothing is cast */
};

/* What distinguishes a format. */
struct flat_rules {
    const char *holder;      /* "safetensors", in errors */
    const char *holds;       /* "safetensors holds tensors only" */
    const char *float_dtype; /* that floats it lacks may be cast to; NULL: it lacks none */
    bool records_ties;       /* a tensor is written once, and its other names are recorded */
    bool needs_crcs;
    bool size_unknown; /* before put_contents, which sets w->size: no room is reserved */
    /* keeps_values - has the format a place for the values of the input that are no tensors, and for equal
     * names at different paths? NULL: it has none. */
    bool (*keeps_values)(const struct flat_writer *w);
    /* find_unfit_reason - why X cannot be written, "has a …"; NULL: it can. Views and tensors without bytes
     * were refused before. */
    const char *(*find_unfit_reason)(const struct flat_writer *w, const struct flat_item *x);
    /* lay_out - checks names; sets begin of each item, data_start, nbytes and size. */
    ckpt_status (*lay_out)(struct flat_writer *w, ckpt_error *err);
    /* put_contents - writes all of the output; calls flat_copy. */
    ckpt_status (*put_contents)(struct flat_writer *w, sink *out, ckpt_error *err);
};

/* flat_write - writes the plan of W, whose p, job, rules and user are set, as a format's write does; the
 * plan's report lists what was left out. */
ckpt_status flat_write(struct flat_writer *w, ckpt_error *err);
/* flat_tensor - the tensor that X is of. */
const ckpt_tensor *flat_tensor(const struct flat_writer *w, const struct flat_item *x);
/* flat_nbytes - the size of X as it is written; lay_out must have found that all fit 64 bits. */
uint64_t flat_nbytes(const struct flat_writer *w, const struct flat_item *x);
/* flat_place - lays out X, at the next multiple of ALIGN after all before it: begin, and w->nbytes. */
ckpt_status flat_place(struct flat_writer *w, struct flat_item *x, uint64_t align, ckpt_error *err);
/* flat_fail_size - the error of an output whose size exceeds 64 bits. */
ckpt_status flat_fail_size(ckpt_error *err);
/* flat_copy - copies all items to OUT, whose ranges were skipped. */
ckpt_status flat_copy(const struct flat_writer *w, sink *out, ckpt_error *err);

#endif
