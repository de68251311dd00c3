/* flat_write.h - writes a plan in a format of named tensors: chooses and refuses tensors, copies their bytes,
 * fills the report. The format adds its headers. */
#pragma once

#include "core/copy_pool.h"
#include "core/plan.h"

struct flat_item {
    ckpt_str name;
    uint32_t row;
    uint64_t begin; /* offset of its bytes from w->data_start; set by lay_out */
};

struct flat_writer {
    ckpt_plan *p;
    const struct write_job *job;
    const struct flat_rules *rules;
    void *user; /* state of the format, for the functions of RULES */
    struct flat_item *items;
    size_t n;
    size_t first_alias;            /* p->report.naliases before this output */
    uint64_t data_start, nbytes;   /* the range of all items in the output */
    uint64_t size;                 /* bytes of the output */
    uint32_t *crcs;                /* by item: CRC-32 of its bytes; NULL: not needed */
    struct convert_tally *tallies; /* by item: what its cast changed; NULL: no cast */
};

/* What differs between formats. */
struct flat_rules {
    const char *format_name;   /* the format in errors: "safetensors" */
    const char *contents_rule; /* "safetensors holds tensors only" */
    const char *float_dtype;   /* what to cast unsupported floats to; NULL: all are supported */
    bool records_ties;         /* a tie is written once, and its other names are recorded */
    bool needs_crcs;
    bool size_unknown; /* w->size is set only by put_contents, so no disk space is reserved */
    /* keeps_values - returns true if the output can hold values that are not tensors, and equal names at
     * different paths. NULL: it cannot. */
    bool (*keeps_values)(const struct flat_writer *w);
    /* find_unfit_reason - returns why X cannot be written ("has no dtype"), or NULL. X has bytes and is not a
     * composite. */
    const char *(*find_unfit_reason)(const struct flat_writer *w, const struct flat_item *x);
    /* lay_out - checks names; sets begin of each item, data_start, nbytes and size. */
    ckpt_status (*lay_out)(struct flat_writer *w, ckpt_error *err);
    /* put_contents - writes the output; calls flat_copy_items. */
    ckpt_status (*put_contents)(struct flat_writer *w, sink *out, ckpt_error *err);
    /* describe - sets *HEADER, or *IS_COPY, for a format that lays_out; after lay_out, which left no gaps
     * between items. */
    void (*describe)(const struct flat_writer *w, ckpt_str *header, bool *is_copy);
};

/* flat_write - writes the plan of WRITER as the `write` of a format does. The caller sets p, job, rules and
 * user of WRITER. The report of the plan lists what was left out. */
ckpt_status flat_write(struct flat_writer *writer, ckpt_error *err);
ckpt_tensor flat_get_tensor(const struct flat_writer *writer, const struct flat_item *item);
/* flat_item_nbytes - returns the bytes of ITEM in the output. lay_out has checked the sum over all items. */
uint64_t flat_item_nbytes(const struct flat_writer *writer, const struct flat_item *item);
/* flat_lay_out_item - sets item->begin to writer->nbytes aligned up to ALIGN, and writer->nbytes to the end
 * of ITEM. */
ckpt_status flat_lay_out_item(struct flat_writer *writer, struct flat_item *item, uint64_t align,
                              ckpt_error *err);
ckpt_status flat_fail_too_large(ckpt_error *err);
/* flat_copy_items - copies all items to OUT, where the caller has skipped their ranges. */
ckpt_status flat_copy_items(const struct flat_writer *writer, sink *out, ckpt_error *err);
