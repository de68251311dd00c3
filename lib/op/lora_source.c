/* lora_source.c - see lora_source.h.
 *
 * The matrices of a weight are read when its first number is, and stay in memory until those of other
 * weights need the room: a writer reads a weight in many parts, and few weights at a time. The norms that
 * DoRA needs are computed in one pass over the weight before, and stay. */
#include "op/lora_source.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/computed_source.h"
#include "core/low_rank.h"
#include "core/number.h"
#include "core/row_source.h"

enum {
    GROUP = 32768,      /* numbers computed at a time, about … */
    MAX_GROUP = 1 << 18 /* … and at most, to have complete groups of rows */
};
#define MEMORY_MAX (UINT64_C(256) << 20) /* of the matrices of weights that nobody reads */

/* A term and its matrices. */
struct loaded_term {
    struct lora_term t;
    struct low_rank product; /* the product has the orientation of the weight */
    double *magnitude;       /* NULL: there is none */
    double *norms;           /* as many; NULL: not computed yet */
};

struct weight {
    struct lora_weight w;
    struct lora_memory *memory;
    ckpt_dtype base_dtype;
    bool is_narrow;       /* there is one term, which is added in floats */
    pthread_mutex_t lock; /* of the loading */
    bool is_loaded;
    uint64_t bytes;               /* of the matrices */
    unsigned readers;             /* threads that use the matrices */
    struct weight *older, *newer; /* by last use, of those that are loaded; under the lock of MEMORY */
    struct loaded_term terms[];
};

struct lora_memory {
    pthread_mutex_t lock;
    int refs; /* counted by one thread, as those of sources */
    uint64_t bytes;
    struct weight *oldest, *newest;
};

/* ------------------------------------------------------------------------------ memory */

struct lora_memory *lora_memory_new(void)
{
    struct lora_memory *memory = calloc(1, sizeof *memory);
    if (memory) {
        pthread_mutex_init(&memory->lock, NULL);
        memory->refs = 1;
    }
    return memory;
}

void lora_memory_release(struct lora_memory *memory)
{
    if (!memory || --memory->refs)
        return;
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

static void unload(struct weight *weight)
{
    for (size_t i = 0; i < weight->w.nterms; i++) {
        struct loaded_term *term = &weight->terms[i];
        low_rank_free(&term->product);
        free(term->magnitude);
        term->magnitude = NULL;
    }
    weight->is_loaded = false;
}

/* remove_used, add_used - take WEIGHT out of the list of those that are loaded; make it the newest. */
static void remove_used(struct weight *weight)
{
    struct lora_memory *memory = weight->memory;
    *(weight->older ? &weight->older->newer : &memory->oldest) = weight->newer;
    *(weight->newer ? &weight->newer->older : &memory->newest) = weight->older;
    weight->older = weight->newer = NULL;
    memory->bytes -= weight->bytes;
}

static void add_used(struct weight *weight)
{
    struct lora_memory *memory = weight->memory;
    weight->older = memory->newest;
    *(memory->newest ? &memory->newest->newer : &memory->oldest) = weight;
    memory->newest = weight;
    memory->bytes += weight->bytes;
}

/* make_room - unloads weights that nobody reads, the oldest first. */
static void make_room(struct lora_memory *memory)
{
    for (struct weight *weight = memory->oldest, *next; weight && memory->bytes > MEMORY_MAX; weight = next) {
        next = weight->newer;
        if (weight->readers)
            continue;
        remove_used(weight);
        unload(weight);
    }
}

/* ----------------------------------------------------------------------------- loading */

static ckpt_dtype dtype_of(const struct lora_tensor *tensor)
{
    return (ckpt_dtype)table_dtype_of(&tensor->file->table, tensor->row);
}

/* is_of_floats - returns true if TENSOR is absent, or a float has each of its numbers. */
static bool is_of_floats(const struct lora_tensor *tensor)
{
    const struct dtype_info *info = tensor->file ? dtype_info(dtype_of(tensor)) : NULL;
    return !info || (info->klass == 'f' && info->block_bytes <= 4);
}

static bool are_floats(const struct lora_term *term)
{
    return is_of_floats(&term->down) && is_of_floats(&term->up);
}

/* read_tensor - reads the COUNT numbers of TENSOR to *OUT, which the caller frees. */
static ckpt_status read_tensor(const struct lora_tensor *tensor, size_t count, double **out, ckpt_error *err)
{
    source *src = row_source(tensor->file, tensor->row);
    *out = malloc(count * sizeof **out + 1);
    ckpt_status st = src && *out ? read_numbers(src, dtype_of(tensor), 0, count, *out, err)
                                 : fail_memory(err);
    source_unref(src);
    return st;
}

/* put_left, put_right - make the matrix NUMBERS, [FIRST, SECOND] and perhaps to be TRANSPOSED, the left or
 * right one of PRODUCT. */
static bool put_left(struct low_rank *product, const double *numbers, bool is_transposed)
{
    const size_t rows = (size_t)product->rows, rank = product->rank;
    product->left = malloc(rows * rank * sizeof(double) + 1);
    for (size_t i = 0; product->left && i < rows; i++)
        for (size_t k = 0; k < rank; k++)
            product->left[i * rank + k] = numbers[is_transposed ? k * rows + i : i * rank + k];
    return product->left != NULL;
}

static bool put_right(struct low_rank *product, const double *numbers, bool is_transposed)
{
    uint64_t count = 0;
    const size_t cols = (size_t)product->cols, rank = product->rank;
    (void)low_rank_right_count(cols, rank, &count); /* lora_term_bytes has checked it */
    product->right = calloc((size_t)count + 1, sizeof(double));
    for (size_t j = 0; product->right && j < cols; j++)
        for (size_t k = 0; k < rank; k++)
            product->right[low_rank_index(rank, k, j)] = numbers[is_transposed ? j * rank + k : k * cols + j];
    return product->right != NULL;
}

/* load_matrices - reads the matrices of TERM, of a weight of ROWS and COLS. */
static ckpt_status load_matrices(struct loaded_term *term, uint64_t rows, uint64_t cols, ckpt_error *err)
{
    const struct lora_term *t = &term->t;
    const uint64_t in = t->is_transposed ? rows : cols, out = t->is_transposed ? cols : rows;
    double *down = NULL, *up = NULL;
    static const double one = 1; /* of an absent matrix */
    term->product = (struct low_rank){
        .rows = rows, .cols = cols, .rank = (size_t)t->rank, .are_floats = are_floats(t)};
    ckpt_status st = CKPT_OK;
    if (t->down.file)
        st = read_tensor(&t->down, (size_t)(t->rank * in), &down, err);
    CKPT_THEN(st, read_tensor(&t->up, (size_t)(out * t->rank), &up, err));
    const double *narrow = t->down.file ? down : &one;
    if (st == CKPT_OK) {
        bool ok = t->is_transposed
                      ? put_left(&term->product, narrow, true) && put_right(&term->product, up, true)
                      : put_left(&term->product, up, false) && put_right(&term->product, narrow, false);
        st = ok ? CKPT_OK : fail_memory(err);
    }
    free(down);
    free(up);
    return st;
}

/* ----------------------------------------------------------------------------- numbers */

/* set_magnitudes - multiplies the COUNT numbers from FIRST on by magnitude / norm, of their row, or of
 * their column if the weight is transposed. */
static void set_magnitudes(const struct loaded_term *term, uint64_t cols, uint64_t first, size_t count,
                           double *out)
{
    uint64_t row = first / cols, col = first % cols;
    for (size_t i = 0; i < count; i++) {
        const uint64_t k = term->t.is_transposed ? col : row;
        out[i] *= term->magnitude[k] / term->norms[k];
        if (++col == cols) {
            col = 0;
            row++;
        }
    }
}

/* add_terms - sets OUT to the COUNT numbers from FIRST on, with the terms before number END; of the last
 * of these only the product if NO_MAGNITUDE. */
static ckpt_status add_terms(const struct weight *weight, source *base, size_t end, bool no_magnitude,
                             uint64_t first, size_t count, double *out, ckpt_error *err)
{
    CKPT_TRY(read_numbers(base, weight->base_dtype, first, count, out, err));
    for (size_t i = 0; i < end; i++) {
        const struct loaded_term *term = &weight->terms[i];
        low_rank_add(&term->product, term->t.scale, first, count, out);
        if (term->magnitude && !(no_magnitude && i + 1 == end))
            set_magnitudes(term, weight->w.cols, first, count, out);
    }
    return CKPT_OK;
}

/* add_squares - adds the squares of the COUNT numbers from FIRST on to the sums of their rows or columns. */
static void add_squares(const struct loaded_term *term, uint64_t cols, uint64_t first, size_t count,
                        const double *numbers, double *sums)
{
    uint64_t row = first / cols, col = first % cols;
    for (size_t i = 0; i < count; i++) {
        sums[term->t.is_transposed ? col : row] += numbers[i] * numbers[i];
        if (++col == cols) {
            col = 0;
            row++;
        }
    }
}

/* compute_norms - sets the norms of term NUMBER, in one pass over the weight. */
static ckpt_status compute_norms(struct weight *weight, size_t number, source *base, ckpt_error *err)
{
    struct loaded_term *term = &weight->terms[number];
    const uint64_t cols = weight->w.cols, all = weight->w.rows * cols;
    const size_t n = (size_t)(term->t.is_transposed ? cols : weight->w.rows);
    double *sums = calloc(n + 1, sizeof *sums), *numbers = malloc(GROUP * sizeof *numbers);
    ckpt_status st = sums && numbers ? CKPT_OK : fail_memory(err);
    for (uint64_t first = 0; st == CKPT_OK && first < all; first += GROUP) {
        size_t count = all - first < GROUP ? (size_t)(all - first) : GROUP;
        st = add_terms(weight, base, number + 1, true, first, count, numbers, err);
        if (st == CKPT_OK)
            add_squares(term, cols, first, count, numbers, sums);
    }
    free(numbers);
    for (size_t i = 0; st == CKPT_OK && i < n; i++)
        sums[i] = sqrt(sums[i]);
    if (st == CKPT_OK)
        term->norms = sums;
    else
        free(sums);
    return st;
}

static ckpt_status load(struct weight *weight, source *base, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < weight->w.nterms; i++) {
        struct loaded_term *term = &weight->terms[i];
        const size_t out = (size_t)(term->t.is_transposed ? weight->w.cols : weight->w.rows);
        st = load_matrices(term, weight->w.rows, weight->w.cols, err);
        if (weight->is_narrow && st == CKPT_OK && !low_rank_make_narrow(&term->product))
            st = fail_memory(err);
        if (term->t.magnitude.file)
            CKPT_THEN(st, read_tensor(&term->t.magnitude, out, &term->magnitude, err));
        if (term->t.magnitude.file && !term->norms)
            CKPT_THEN(st, compute_norms(weight, i, base, err));
    }
    if (st != CKPT_OK)
        unload(weight);
    return st;
}

/* acquire - makes the matrices of WEIGHT available until `release`. */
static ckpt_status acquire(struct weight *weight, source *base, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    pthread_mutex_lock(&weight->memory->lock);
    weight->readers++;
    pthread_mutex_unlock(&weight->memory->lock);
    pthread_mutex_lock(&weight->lock);
    if (!weight->is_loaded && (st = load(weight, base, err)) == CKPT_OK) {
        pthread_mutex_lock(&weight->memory->lock);
        weight->is_loaded = true;
        add_used(weight);
        make_room(weight->memory);
        pthread_mutex_unlock(&weight->memory->lock);
    }
    pthread_mutex_unlock(&weight->lock);
    return st;
}

static void release(struct weight *weight)
{
    pthread_mutex_lock(&weight->memory->lock);
    weight->readers--;
    pthread_mutex_unlock(&weight->memory->lock);
}

static ckpt_status compute(const struct computed *how, uint64_t first, size_t count, double *out,
                           void *scratch, ckpt_error *err)
{
    struct weight *weight = how->user;
    (void)scratch;
    ckpt_status st = acquire(weight, how->inputs[0], err);
    CKPT_THEN(st, add_terms(weight, how->inputs[0], weight->w.nterms, false, first, count, out, err));
    release(weight);
    return st;
}

/* A call of `store`. */
struct storing {
    atomic_bool *is_overflow;
    struct conversion rounding; /* to the dtype of the result */
};

static void round_numbers(void *user, double *numbers, size_t count, unsigned char *out)
{
    const struct storing *storing = user;
    if (computed_round(&storing->rounding, numbers, count, out) && storing->is_overflow)
        atomic_store_explicit(storing->is_overflow, true, memory_order_relaxed);
}

static ckpt_status store(const struct computed *how, uint64_t first, size_t count, unsigned char *out,
                         ckpt_error *err)
{
    struct weight *weight = how->user;
    const size_t width = dtype_info(how->dtype)->block_bytes;
    struct storing storing = {.is_overflow = how->is_overflow};
    const struct low_rank_rounding rounding = {round_numbers, &storing};
    (void)conversion_init_once(&storing.rounding, how->dtype); /* computed_has_dtype is true */
    CKPT_TRY(source_read(how->inputs[0], first * width, out, count * width, err));
    ckpt_status st = acquire(weight, how->inputs[0], err);
    if (st == CKPT_OK)
        low_rank_add_stored(&weight->terms[0].product, how->dtype, weight->terms[0].t.scale, first, count,
                            out, &rounding);
    release(weight);
    return st;
}

/* ------------------------------------------------------------------------------ source */

static void close_weight(void *user)
{
    struct weight *weight = user;
    if (weight->is_loaded)
        remove_used(weight);
    unload(weight);
    for (size_t i = 0; i < weight->w.nterms; i++)
        free(weight->terms[i].norms);
    lora_memory_release(weight->memory);
    pthread_mutex_destroy(&weight->lock);
    free(weight);
}

uint64_t lora_term_bytes(const struct lora_term *term, uint64_t rows, uint64_t cols)
{
    uint64_t right;
    if (!low_rank_right_count(cols, term->rank, &right))
        return UINT64_MAX;
    return size_mul(size_add(size_mul(rows, term->rank), right), sizeof(double) + sizeof(float));
}

/* count_at_once - returns how many numbers are computed at a time: complete groups of rows, if they are
 * not too long. */
static uint32_t count_at_once(uint64_t cols)
{
    const uint64_t group = size_mul(cols, LOW_RANK_ROWS);
    return !group || group > MAX_GROUP ? GROUP : (uint32_t)(group > GROUP ? group : GROUP / group * group);
}

static struct weight *make_weight(const struct lora_weight *from, struct lora_memory *memory)
{
    struct weight *weight = calloc(1, sizeof *weight + from->nterms * sizeof *weight->terms);
    if (!weight)
        return NULL;
    weight->w = *from;
    weight->base_dtype = dtype_of(&from->base);
    weight->memory = memory;
    memory->refs++;
    pthread_mutex_init(&weight->lock, NULL);
    for (size_t i = 0; i < from->nterms; i++) {
        weight->terms[i].t = from->terms[i];
        weight->bytes = size_add(weight->bytes, lora_term_bytes(&from->terms[i], from->rows, from->cols));
    }
    weight->w.terms = NULL; /* those of the caller */
    weight->is_narrow = from->nterms == 1 && !from->terms[0].magnitude.file &&
                        from->dtype == weight->base_dtype && are_floats(&from->terms[0]) &&
                        low_rank_has_narrow(from->dtype, from->terms[0].rank);
    return weight;
}

source *lora_source(const struct lora_weight *from, struct lora_memory *memory, atomic_bool *is_overflow)
{
    struct weight *weight = make_weight(from, memory);
    source *base = weight ? row_source(from->base.file, from->base.row) : NULL;
    if (!base) {
        if (weight)
            close_weight(weight);
        return NULL;
    }
    const struct computed how = {.dtype = from->dtype,
                                 .numbers = from->rows * from->cols, /* of a tensor of the file */
                                 .at_once = count_at_once(from->cols),
                                 .compute = compute,
                                 .store = weight->is_narrow ? store : NULL,
                                 .user = weight,
                                 .close = close_weight,
                                 .inputs = &base,
                                 .ninputs = 1,
                                 .is_overflow = is_overflow};
    return computed_source(&how);
}
