/* number.h - decodes the bytes of an element into a number, and prints numbers. */
#ifndef CLI_NUMBER_H
#define CLI_NUMBER_H

#include "ckpt.h"

enum number_kind { NUM_REAL, NUM_INT, NUM_UINT, NUM_BOOL, NUM_COMPLEX, NUM_BITS };

struct number {
    enum number_kind kind;
    bool single; /* it fits a float: fewer digits are enough */
    double re, im;
    int64_t i;
    uint64_t u;
    unsigned nbytes; /* NUM_BITS: that many bytes of u, for hexadecimal */
};

/* number_shown_dtype - the dtype that elements of DTYPE are read as, to be shown: float32 for ggml's blocks.
 * */
ckpt_dtype number_shown_dtype(ckpt_dtype dtype);
/* number_bytes - bytes of one element as ckpt_tensor_read delivers it; packed
 * types come as bytes. 0: not known (numpy strings and records). */
size_t number_bytes(ckpt_dtype dtype);
/* number_is_packed - more than one element per byte: shown byte by byte. */
bool number_is_packed(ckpt_dtype dtype);
struct number number_decode(ckpt_dtype dtype, const uint8_t *p);

#define NUMBER_TEXT 96
/* number_text - the shortest text that reads back as the same number ("0.1",
 * "-inf", "True", "(1-2j)", "0x1f"). Returns OUT. */
const char *number_text(const struct number *x, char out[NUMBER_TEXT]);
/* number_json - the same as JSON: NaN and infinities are strings, complex
 * numbers [re, im]. */
const char *number_json(const struct number *x, char out[NUMBER_TEXT]);
/* real_text - shortest round trip of D, as a float when SINGLE. */
const char *real_text(double d, bool single, char out[NUMBER_TEXT]);
const char *real_json(double d, bool single, char out[NUMBER_TEXT]);

#endif
