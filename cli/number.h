/* number.h - decodes the bytes of an element into a number, and formats numbers. */
#pragma once

#include "ckpt.h"

enum number_kind { NUM_REAL, NUM_INT, NUM_UINT, NUM_BOOL, NUM_COMPLEX, NUM_BITS };

struct number {
    enum number_kind kind;
    bool single;     /* re and im are exact as floats, which need fewer digits */
    double re, im;   /* NUM_REAL, NUM_COMPLEX */
    int64_t i;       /* NUM_INT */
    uint64_t u;      /* NUM_UINT, NUM_BOOL, NUM_BITS */
    unsigned nbytes; /* NUM_BITS: how many bytes of u to show in hexadecimal */
};

/* number_shown_dtype - returns the dtype in which elements of DTYPE are read and shown: float32 for smaller
 * floats and for ggml's blocks, else DTYPE. */
ckpt_dtype number_shown_dtype(ckpt_dtype dtype);
/* number_has_fraction - returns true for floats, complex numbers and ggml's blocks. */
bool number_has_fraction(ckpt_dtype dtype);
/* number_bytes - returns the size of an element as number_read delivers it, 1 for packed elements;
 * 0: not known (numpy strings and records). */
size_t number_bytes(ckpt_dtype dtype);
/* number_is_packed - returns true if an element does not fill whole bytes; its bytes are shown then. */
bool number_is_packed(ckpt_dtype dtype);
/* number_read - reads COUNT elements of ROW from FIRST on, in the dtype in which they are shown. */
ckpt_status number_read(ckpt_file *f, uint32_t row, uint64_t first, uint64_t count, void *out,
                        ckpt_error *err);
struct number number_decode(ckpt_dtype dtype, const uint8_t *bytes);

#define NUMBER_TEXT_SIZE 96
/* number_text - writes the shortest text that reads back as NUMBER ("0.1", "-inf", "True", "1.0-2.0j",
 * "0x1f"). Returns OUT. */
const char *number_text(const struct number *number, char out[NUMBER_TEXT_SIZE]);
/* number_json - writes NUMBER as JSON: NaN and infinities as strings, complex numbers as [re, im]. */
const char *number_json(const struct number *number, char out[NUMBER_TEXT_SIZE]);
/* real_text, real_json - write the shortest text that reads back as NUMBER, or as (float)NUMBER if SINGLE. */
const char *real_text(double number, bool single, char out[NUMBER_TEXT_SIZE]);
const char *real_json(double number, bool single, char out[NUMBER_TEXT_SIZE]);
