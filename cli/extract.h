/* extract.h - `ckpt lora --extract`. */
#pragma once

#include "edit.h"

/* The values of the options below. */
struct extracting {
    uint64_t rank;
    const char *cast;
    bool fan_in_fan_out;
    int others;
    struct list embeddings;
};
extern struct extracting extracting;

/* clang-format off */
#define EXTRACT_OPTIONS \
    {0, "rank", "N", OPT_COUNT, &extracting.rank, "extract: the largest rank of a pair of matrices"}, \
    {0, "cast", "DTYPE", OPT_TEXT, &extracting.cast, "extract: the dtype of the pairs (default: float32)"}, \
    {0, "others", "error|drop|save", OPT_CHOICE, &extracting.others, \
     "extract: what becomes of other tensors that differ (default: error)"}, \
    {0, "fan-in-fan-out", NULL, OPT_FLAG, &extracting.fan_in_fan_out, \
     "extract: matrices are [in, out], as those of GPT-2"}, \
    {0, "embedding", "GLOB", OPT_LIST, &extracting.embeddings, \
     "extract: weights that match are embeddings, as well as the usual names; repeatable"}
/* clang-format on */

/* extract_option_given - returns the name of one of these options that was given, or NULL. */
const char *extract_option_given(void);
/* extract_adapter - extracts the adapter from the COUNT models, which must be two, and writes it. ONLY has
 * the values of --only. Returns the exit code. */
int extract_adapter(int count, char **models, const struct list *only);
