/* average_ties.c - TIES merging (Yadav et al., "TIES-Merging: Resolving Interference When Merging Models",
 * 2023), as mergekit 0.1.5 defines it: of the differences of each file from the base, the share DENSITY with
 * the largest magnitudes is kept. For each element the sign of the weighted sum of these is elected, and
 * those of that sign are summed up.
 *
 * The smallest magnitude that is kept is found by reading the tensor several times: a histogram of the first
 * bits of the magnitudes shows in which of its bins it is, the next one divides this bin, until its elements
 * fit memory. Bits of doubles without sign have the order of their magnitudes, NaN after all. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "op/average.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* gcc does not fuse under -std=c11 */
#endif

#define MAGNITUDE_BITS 63u
#define BIN_BITS       16u
#define BINS           ((size_t)1 << BIN_BITS)

size_t mean_ties_scratch(const struct mean *mean) { return (mean->n + 1) * MEAN_AT_ONCE * sizeof(double); }

static uint64_t magnitude_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits & ~(UINT64_C(1) << MAGNITUDE_BITS);
}

/* read_differences - sets OUT to COUNT differences of input INDEX from BASE. */
static ckpt_status read_differences(const struct mean *mean, const struct computed *how, size_t index,
                                    uint64_t first, size_t count, const double *base, double *out,
                                    ckpt_error *err)
{
    CKPT_TRY(mean_read(mean, how, index, first, count, out, err));
    for (size_t i = 0; i < count; i++)
        out[i] -= base[i];
    return CKPT_OK;
}

/* --------------------------------------------------------------------------- selection */

/* The search for the magnitude that is number RANK, from 1, of those that begin with the bits PREFIX, the
 * largest first. They are NCANDIDATES. */
struct selection {
    uint64_t rank, ncandidates, prefix;
    unsigned shift;  /* bits after PREFIX */
    unsigned width;  /* bits of a bin, which follow PREFIX; 0: WORDS are the magnitudes */
    uint64_t *words; /* BINS of them: how many there are, by bin; or the magnitudes themselves */
    size_t n;        /* magnitudes in WORDS */
    bool is_changed; /* there are more magnitudes than when they were counted */
};

static void add_magnitude(struct selection *selection, uint64_t magnitude)
{
    if (selection->shift < MAGNITUDE_BITS && magnitude >> selection->shift != selection->prefix)
        return;
    if (selection->width)
        selection
            ->words[magnitude >> (selection->shift - selection->width) & ((1u << selection->width) - 1)]++;
    else if (selection->n < BINS)
        selection->words[selection->n++] = magnitude;
    else
        selection->is_changed = true;
}

/* add_all - passes the magnitudes of all differences of input INDEX to add_magnitude. */
static ckpt_status add_all(const struct mean *mean, const struct computed *how, size_t index,
                           struct selection *selection, double *scratch, ckpt_error *err)
{
    double *base = scratch, *differences = scratch + MEAN_AT_ONCE;
    for (uint64_t first = 0; first < how->numbers; first += MEAN_AT_ONCE) {
        uint64_t left = how->numbers - first;
        size_t count = left < MEAN_AT_ONCE ? (size_t)left : MEAN_AT_ONCE;
        CKPT_TRY(mean_read(mean, how, mean->n, first, count, base, err));
        CKPT_TRY(read_differences(mean, how, index, first, count, base, differences, err));
        for (size_t i = 0; i < count; i++)
            add_magnitude(selection, magnitude_of(differences[i]));
    }
    return CKPT_OK;
}

/* choose_bin - makes the bin that has the magnitude sought the candidates; false: no bin has. */
static bool choose_bin(struct selection *selection)
{
    uint64_t larger = 0;
    for (size_t bin = (size_t)1 << selection->width; COUNT_DOWN(bin);) {
        uint64_t in_bin = selection->words[bin];
        if (in_bin < selection->rank - larger) {
            larger += in_bin;
            continue;
        }
        selection->rank -= larger;
        selection->ncandidates = in_bin;
        selection->prefix = selection->prefix << selection->width | bin;
        selection->shift -= selection->width;
        return true;
    }
    return false;
}

static int compare_falling(const void *left, const void *right)
{
    uint64_t a, b;
    memcpy(&a, left, sizeof a);
    memcpy(&b, right, sizeof b);
    return (a < b) - (a > b);
}

/* is_found - returns true if the search is over, and sets *OUT: all candidates are kept, or all are the same.
 * */
static bool is_found(const struct selection *selection, uint64_t *out)
{
    *out = selection->prefix << selection->shift;
    return selection->ncandidates == selection->rank || selection->shift == 0;
}

/* find_rank - sets *OUT to the least magnitude that has to be kept, of the differences of input INDEX, so
 * that the RANK largest are. */
static ckpt_status find_rank(const struct mean *mean, const struct computed *how, size_t index, uint64_t rank,
                             uint64_t *words, double *scratch, uint64_t *out, ckpt_error *err)
{
    struct selection selection = {
        .rank = rank, .ncandidates = how->numbers, .shift = MAGNITUDE_BITS, .words = words};
    bool is_changed = false;
    while (!is_found(&selection, out) && !is_changed) {
        bool fits = selection.ncandidates <= BINS;
        selection.width = fits ? 0 : selection.shift < BIN_BITS ? selection.shift : BIN_BITS;
        selection.n = 0;
        memset(words, 0, BINS * sizeof *words);
        CKPT_TRY(add_all(mean, how, index, &selection, scratch, err));
        if (!fits) {
            is_changed = !choose_bin(&selection);
            continue;
        }
        is_changed = selection.is_changed || selection.n < selection.rank;
        qsort(words, selection.n, sizeof *words, compare_falling);
        *out = is_changed ? 0 : words[selection.rank - 1];
        break;
    }
    return is_changed ? fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "a file changed while it was read")
                      : CKPT_OK;
}

/* count_kept - returns how many of COUNT elements DENSITY keeps: at least one, unless it is 0. */
static uint64_t count_kept(uint64_t count, double density)
{
    double kept = density * (double)count;
    return kept < 1 ? 1 : kept >= (double)count ? count : (uint64_t)kept;
}

/* find_thresholds - finds, by input, the least magnitude that is kept; 0: all are. */
static ckpt_status find_thresholds(struct mean_tensor *tensor, const struct computed *how, double *scratch,
                                   ckpt_error *err)
{
    const struct mean *mean = tensor->mean;
    uint64_t *words = malloc(BINS * sizeof *words);
    ckpt_status st = words ? CKPT_OK : fail_memory(err);
    for (size_t k = 0; st == CKPT_OK && k < mean->n; k++) {
        uint64_t least = 0;
        double density = mean->densities[k];
        if (density > 0 && density < 1 && how->numbers)
            st = find_rank(mean, how, k, count_kept(how->numbers, density), words, scratch, &least, err);
        memcpy(&tensor->known[k], &least, sizeof least);
    }
    free(words);
    return st;
}

/* ------------------------------------------------------------------------------- merge */

/* keep_largest - sets to 0 each of the COUNT numbers at IN whose magnitude is less than LEAST, and multiplies
 * the others by WEIGHT. */
static void keep_largest(double *in, size_t count, double least, double density, double weight)
{
    uint64_t bits = magnitude_of(least);
    for (size_t i = 0; i < count; i++)
        in[i] = density <= 0 || magnitude_of(in[i]) < bits ? 0 : in[i] * weight;
}

/* merge_element - returns the sum of those of the differences at IN, one of each input, that have the elected
 * sign. */
static double merge_element(const struct mean *mean, const double *in)
{
    double all = 0, sum = 0, divisor = 0;
    for (size_t k = 0; k < mean->n; k++)
        all += in[k * MEAN_AT_ONCE];
    if (isnan(all))
        return all;
    for (size_t k = 0; k < mean->n; k++) {
        double number = in[k * MEAN_AT_ONCE];
        if (all >= 0 ? number > 0 : number < 0) {
            sum += number;
            divisor += mean->weights[k];
        }
    }
    return mean->normalizes && divisor != 0 ? sum / divisor : sum;
}

ckpt_status mean_ties(const struct computed *how, uint64_t first, size_t count, double *out, void *scratch,
                      ckpt_error *err)
{
    struct mean_tensor *tensor = how->user;
    const struct mean *mean = tensor->mean;
    double *base = scratch, *differences = base + MEAN_AT_ONCE;
    CKPT_TRY(mean_know(tensor, how, find_thresholds, scratch, err));
    CKPT_TRY(mean_read(mean, how, mean->n, first, count, base, err));
    for (size_t k = 0; k < mean->n; k++) {
        double *in = differences + k * MEAN_AT_ONCE;
        CKPT_TRY(read_differences(mean, how, k, first, count, base, in, err));
        keep_largest(in, count, tensor->known[k], mean->densities[k], mean->weights[k]);
    }
    for (size_t i = 0; i < count; i++)
        out[i] = base[i] + merge_element(mean, differences + i) * mean->lambda;
    return CKPT_OK;
}
