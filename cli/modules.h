/* modules.h - the modules of a model: the nodes of the tree of names, with sums of the tensors below each.
 * Siblings that differ only by a number in their names, and are the same below in names, dtypes and
 * shapes, are folded into one. */
#pragma once

#include "tree.h"

struct number_range {
    uint64_t first, last;
};

/* A module, a tensor, or both (a composite tensor and its components); or several that are folded into
 * one. */
struct module {
    /* The last components of the name of the first one: those below the module before it in which it is. A
     * module that is not a tensor, and has one module or tensor below it, has no item of its own unless
     * that is folded. */
    ckpt_str label;
    size_t nitems;    /* of the module and all below it, which follow it */
    uint32_t row;     /* the first tensor in it, whose name begins with that of the module */
    uint32_t min_row; /* of all tensors in it, in the order of the file */
    bool is_tensor;   /* ROW has the name of the module */
    uint64_t count;   /* how many modules of the file it stands for */
    uint64_t ntied;   /* tensors that have the same bytes as an earlier one */
    uint64_t dtypes;  /* bit i is set: one of its tensors has modules.dtypes[i] */
    struct totals sum;
    /* If RANGES is not NULL, the numbers that the folded ones have in place of the NUMBER_LEN digits at
     * NUMBER_AT in the label. */
    struct number_range *ranges;
    size_t nranges, number_at, number_len;
    /* of a tensor */
    const uint64_t *shape;
    const char *dtype_name;
    uint32_t ndim;
    uint16_t dtype, kind;
    bool has_shape;
};

#define MODULES_DTYPES 64

struct modules {
    struct module *items; /* parents before children; the first one is the root, without a label */
    size_t n;
    char separator; /* of the components of names */
    size_t ndtypes;
    struct {
        const char *name; /* "…": any other, if there are more than MODULES_DTYPES */
        uint64_t bytes;
    } dtypes[MODULES_DTYPES];
};

/* modules_read - sets MODULES to those of the COUNT ROWS of F, which it sorts. FOLD: fold identical ones.
 * Names are split at slashes if most of them have one, else at dots. F must stay open. */
void modules_read(struct modules *modules, const ckpt_file *f, uint32_t *rows, size_t count, bool fold);
/* modules_sort - sorts the modules in each module, which are in natural order. */
void modules_sort(struct modules *modules, enum row_order order);
/* module_add_label - adds the label of MODULE, with the numbers of folded ones as in "layers.{0-2,5}", of
 * which at most MAX_RANGES >= 2 are shown; escaped as by text_name unless it has to be EXACT. */
void module_add_label(struct text *text, const struct module *module, size_t max_ranges, bool exact);
void modules_free(struct modules *modules);
