/* byte_histogram.h - counts how often each value of a dtype of at most eight bits occurs; all statistics of
 * the tensor follow from the counts. */
#pragma once

#include "core/moments.h"

struct byte_histogram {
    uint64_t count[256]; /* by byte, which may hold several elements; float6: by its six bits */
};

/* byte_histogram_supports - returns true if DT is a numeric type of at most eight bits. */
bool byte_histogram_supports(ckpt_dtype dt);
/* byte_histogram_add - counts the COUNT elements at BYTES, which are complete blocks of DT (dtype.def). */
void byte_histogram_add(struct byte_histogram *histogram, ckpt_dtype dt, const unsigned char *bytes,
                        size_t count);
void byte_histogram_merge(struct byte_histogram *histogram, const struct byte_histogram *added);
struct moments byte_histogram_moments(const struct byte_histogram *histogram, ckpt_dtype dt);
/* byte_histogram_fill_bins - counts each finite number in BINS[BIN_OF(USER, number)]. */
void byte_histogram_fill_bins(const struct byte_histogram *histogram, ckpt_dtype dt, uint64_t *bins,
                              size_t (*bin_of)(const void *user, double x), const void *user);
