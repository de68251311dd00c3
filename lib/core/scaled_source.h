/* scaled_source.h - a source of the floats that the codes and scales of a quantized weight stand for. The
 * codes and scales are tensors of a file; they are read as the floats are, so that memory does not depend on
 * the size of the weight. Any number of threads may read the source. */
#pragma once

#include "core/file.h"

/* A tensor of the file as a matrix of its elements. */
struct scaled_matrix {
    uint32_t row;        /* of the table; CKPT_NO_TENSOR: absent */
    uint64_t rows, cols; /* their product is the number of its elements */
    bool transposed;     /* the tensor is stored as [cols, rows] */
    /* The tensor is padded to tiles of 128 rows and 4 columns, stored one after the other, as cuBLAS reads
     * scales; element (r, c) of a tile is at r % 32 * 16 + r / 32 * 4 + c. */
    bool tiled;
    ckpt_dtype dtype; /* what its elements are read as, of the same size; NONE: their own dtype */
    /* DTYPE may be of another size; ROWS and COLS count elements of it, and the tensor is contiguous. */
    bool is_view;
};

/* How codes are packed. */
enum scaled_packing {
    PACKED_NOT,  /* each element is a code, a number of its dtype */
    PACKED_COLS, /* the codes of a row follow each other, from the lowest bit of its first byte on */
    PACKED_ROWS, /* each column is so packed: code i of it begins at its bit i * bits */
    /* The rows of codes are divided into stripes of as many rows as the tensor has: stripe i is at bit
     * i * bits of each element, of 8 or 32 bits. */
    PACKED_STRIPES
};

struct scaled_codes {
    struct scaled_matrix m;
    enum scaled_packing packing;
    unsigned bits;       /* of a code, 1 to 8, if packed */
    int offset;          /* added to the code, if packed and LOOKUP is NULL */
    const float *lookup; /* the number of each code, if packed; NULL: the code itself */
    /* PACKED_COLS, 4 bits: the first code of a byte is in its high bits. PACKED_STRIPES: the last stripe
     * that fits is in the low bits. */
    bool high_first;
    const uint8_t *order; /* PACKED_ROWS, 4 bits: code i of eight is at nibble order[i]; NULL: at i */
};

/* number = ((code - zero) * scale [+ bias]) * factor, each step rounded to float32. */
struct scaled_recipe {
    uint64_t rows, cols;             /* of the weight, with all outer dimensions among the rows */
    uint64_t matrix_rows;            /* rows of each of several matrices; scales begin anew with each */
    uint64_t block_rows, block_cols; /* rows and columns that share a scale */
    struct scaled_codes codes;
    struct scaled_codes zero; /* a matrix like the scales; m.row CKPT_NO_TENSOR: CONSTANT_ZERO instead */
    float constant_zero;
    struct scaled_matrix scale, bias, group; /* group: one row, the column of scales of each column */
    /* scale = (nested_lookup[scale] * nested scale) + nested_offset, if NESTED is present */
    struct scaled_matrix nested; /* one row: the scale of each nested_block scales */
    uint64_t nested_block;
    const float *nested_lookup;
    float nested_offset;
    float multiplier;    /* of all scales, after the above; 1: none. The scale itself, if SCALE is absent */
    bool divides;        /* the scale is divided by MULTIPLIER instead */
    bool rounds_scale;   /* MULTIPLIER and its product with the scale are rounded to DTYPE */
    float factor;        /* 1: none */
    ckpt_dtype dtype;    /* of the numbers: float32, float16 or bfloat16 */
    bool truncates_zero; /* a zero that is no integer loses its fraction */
    bool rounds_difference; /* code - zero is rounded to DTYPE before it is multiplied */
    bool subtracts_bias;    /* - bias instead of + bias */
    bool rounds_product;    /* (code - zero) * scale is rounded to DTYPE before BIAS is added */
    bool has_wide_scale;    /* the scales are float64, only the product is rounded; no NESTED, MULTIPLIER */
    /* The codes are int32, not packed, and CONSTANT_ZERO is subtracted before they are rounded. */
    bool subtracts_integers;
};

/* scaled_source - sets *OUT to the source of the numbers of RECIPE, whose tables outlive it. Fails with
 * CKPT_EFORMAT if a tensor is not of the size that RECIPE gives it, with CKPT_EUNSUPPORTED if it is strided
 * or of a wrong dtype. FILE must outlive *OUT. */
ckpt_status scaled_source(ckpt_file *file, const struct scaled_recipe *recipe, source **out, ckpt_error *err);
