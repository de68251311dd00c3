/* Tensors that are stored as pieces, as in distributed checkpoints: their bytes are assembled, and pieces
 * that leave holes, overlap or reach outside of the tensor are refused. */
#include <stdio.h>
#include <stdlib.h>

#include "core/file.h"
#include "core/pieces.h"
#include "io/pool.h"
#include "io/window.h"
#include "small_files.h"
#include "unit.h"

#define MAX_DIMS   6u
#define MAX_PIECES 400u
#define FILES      3u

static uint32_t seed = 1;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % limit;
}

/* A tensor with its pieces, and the files that hold them. */
struct sample {
    uint64_t shape[MAX_DIMS];
    uint64_t piece_offset[MAX_PIECES][MAX_DIMS], piece_size[MAX_PIECES][MAX_DIMS],
        piece_stride[MAX_PIECES][MAX_DIMS];
    struct piece piece[MAX_PIECES]; /* they point into the arrays above */
    struct pieces pieces;
    uint64_t nbytes;
    unsigned char *expected; /* bytes of the tensor */
    unsigned char *file_bytes[FILES];
    source *file[FILES];
    arena *arena;
    source *assembled; /* holds the tensor's bytes from ASSEMBLED_AT on */
    uint64_t assembled_at;
};

static struct sample sample;

static uint64_t elements_of(const uint64_t *size)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < sample.pieces.ndim; k++)
        n *= size[k];
    return n;
}

static void add_piece(const uint64_t *offset, const uint64_t *size)
{
    size_t i = sample.pieces.n++;
    CU_ASSERT_FATAL(i < MAX_PIECES);
    memcpy(sample.piece_offset[i], offset, sizeof sample.piece_offset[i]);
    memcpy(sample.piece_size[i], size, sizeof sample.piece_size[i]);
    sample.piece[i] = (struct piece){.offset = sample.piece_offset[i], .size = sample.piece_size[i]};
}

/* cut_box - cuts the box of SIZE at OFFSET into about N pieces: along a random plane into two boxes, which
 * are cut further. */
static void cut_box(const uint64_t *offset, const uint64_t *size, uint32_t n)
{
    uint32_t dim = sample.pieces.ndim ? random_below(sample.pieces.ndim) : 0;
    if (n <= 1 || sample.pieces.ndim == 0 || size[dim] < 2) {
        add_piece(offset, size);
        return;
    }
    uint64_t half_offset[MAX_DIMS], half_size[MAX_DIMS],
        first_half_size = 1 + random_below((uint32_t)size[dim] - 1);
    memcpy(half_offset, offset, sizeof half_offset);
    memcpy(half_size, size, sizeof half_size);
    half_size[dim] = first_half_size;
    cut_box(half_offset, half_size, n / 2);
    half_offset[dim] = offset[dim] + first_half_size;
    half_size[dim] = size[dim] - first_half_size;
    cut_box(half_offset, half_size, n - n / 2);
}

/* cut_grid - cuts the tensor into an uneven grid, in which cells may be empty. */
static void cut_grid(void)
{
    uint64_t lines[MAX_DIMS][4] = {{0}}; /* where the cells begin and end in each dimension */
    uint64_t index[MAX_DIMS] = {0};      /* of the current cell */
    uint32_t n[MAX_DIMS], k = 0;         /* n: number of cells in each dimension */
    for (uint32_t j = 0; j < sample.pieces.ndim; j++) {
        n[j] = 1 + random_below(3);
        lines[j][n[j]] = sample.shape[j];
        for (uint32_t i = 1; i < n[j]; i++)
            lines[j][i] = lines[j][i - 1] + random_below((uint32_t)(sample.shape[j] - lines[j][i - 1]) + 1);
    }
    while (k < sample.pieces.ndim || sample.pieces.n == 0) {
        uint64_t offset[MAX_DIMS] = {0}, size[MAX_DIMS] = {0};
        for (uint32_t j = 0; j < sample.pieces.ndim; j++) {
            offset[j] = lines[j][index[j]];
            size[j] = lines[j][index[j] + 1] - offset[j];
        }
        add_piece(offset, size);
        for (k = 0; k < sample.pieces.ndim && ++index[k] == n[k]; k++)
            index[k] = 0;
    }
}

/* set_strides - gives piece I random strides with gaps, and returns how many elements the piece spans. */
static uint64_t set_strides(size_t i)
{
    uint32_t order[MAX_DIMS], n = sample.pieces.ndim;
    uint64_t stride = 1 + random_below(3), span = 1;
    const uint64_t *size = sample.piece[i].size;
    for (uint32_t k = 0; k < n; k++)
        order[k] = k;
    for (uint32_t k = n; k > 1; k--) {
        uint32_t j = random_below(k), swapped = order[k - 1];
        order[k - 1] = order[j];
        order[j] = swapped;
    }
    for (uint32_t k = 0; k < n; k++) {
        sample.piece_stride[i][order[k]] = stride;
        span += (size[order[k]] - 1) * stride;
        stride = stride * size[order[k]] + (random_below(3) == 0);
    }
    sample.piece[i].stride = sample.piece_stride[i];
    return span;
}

/* find_element - returns a pointer to element E of piece I in the bytes of a file, and sets *IN_TENSOR to the
 * index of this element in the tensor. */
static unsigned char *find_element(size_t i, uint64_t e, uint64_t *in_tensor)
{
    const struct piece *piece = &sample.piece[i];
    uint64_t in_piece = 0, piece_stride = 1, tensor_stride = 1;
    *in_tensor = 0;
    for (uint32_t k = sample.pieces.ndim; k-- > 0;) {
        uint64_t index = e % piece->size[k];
        e /= piece->size[k];
        in_piece += index * (piece->stride ? piece->stride[k] : piece_stride);
        *in_tensor += (piece->offset[k] + index) * tensor_stride;
        piece_stride *= piece->size[k];
        tensor_stride *= sample.shape[k];
    }
    for (uint32_t f = 0; f < FILES; f++)
        if (sample.file[f] == piece->src)
            return sample.file_bytes[f] + piece->at + in_piece * sample.pieces.width;
    return NULL;
}

/* fill_files - fills the files with random bytes, and sets the expected bytes of the tensor. Where pieces
 * overlap, the first piece gives the expected bytes. If STRIDED, the pieces get random strides. */
static void fill_files(bool strided)
{
    uint64_t end[FILES] = {0}, file_of[MAX_PIECES], at[MAX_PIECES];
    for (size_t i = 0; i < sample.pieces.n; i++) {
        uint64_t span = strided && elements_of(sample.piece[i].size) ? set_strides(i)
                                                                     : elements_of(sample.piece[i].size);
        uint32_t f = random_below(FILES);
        end[f] += random_below(3) == 0 ? random_below(9) : 0;
        file_of[i] = f;
        at[i] = end[f];
        end[f] += span * sample.pieces.width;
    }
    for (uint32_t f = 0; f < FILES; f++) {
        sample.file_bytes[f] = malloc((size_t)end[f] + 1);
        for (uint64_t i = 0; i < end[f]; i++)
            sample.file_bytes[f][i] = (unsigned char)random_below(256);
        sample.file[f] = source_mem(sample.file_bytes[f], (size_t)end[f], CKPT_NO_OFFSET);
    }
    sample.nbytes = elements_of(sample.shape) * sample.pieces.width;
    sample.expected = malloc((size_t)sample.nbytes + 1);
    for (uint64_t b = 0; b < sample.nbytes && sample.pieces.fill; b++)
        sample.expected[b] = ((const unsigned char *)sample.pieces.fill)[b % sample.pieces.width];
    for (size_t i = sample.pieces.n; i-- > 0;) {
        sample.piece[i].src = sample.file[file_of[i]];
        sample.piece[i].at = at[i];
        for (uint64_t e = 0, to; e < elements_of(sample.piece[i].size); e++) {
            const unsigned char *from = find_element(i, e, &to);
            memcpy(sample.expected + to * sample.pieces.width, from, sample.pieces.width);
        }
    }
}

/* begin_sample - begins a sample of NDIM dimensions, each of a random size of at most MAX_SIZE, without
 * pieces. */
static void begin_sample(uint32_t ndim, uint32_t max_size)
{
    static const uint32_t widths[] = {1, 2, 4, 8, 16, 3, 18};
    sample = (struct sample){
        .pieces = {
            .shape = sample.shape, .ndim = ndim, .width = widths[random_below(7)], .piece = sample.piece}};
    for (uint32_t k = 0; k < ndim; k++)
        sample.shape[k] = random_below(40) == 0 ? 0 : 1 + random_below(max_size);
    sample.arena = arena_new(UINT64_C(1) << 30);
}

static void end_sample(void)
{
    source_unref(sample.assembled);
    for (uint32_t f = 0; f < FILES; f++) {
        CU_ASSERT(!sample.file[f] || sample.file[f]->refs == 1);
        source_unref(sample.file[f]);
        free(sample.file_bytes[f]);
    }
    free(sample.expected);
    arena_free(sample.arena);
}

static ckpt_status assemble(ckpt_error *err)
{
    return pieces_source(sample.arena, &sample.pieces, &sample.assembled, &sample.assembled_at, err);
}

/* is_read_correctly - returns true if the tensor is read as expected: at once, in random ranges, and by a
 * window. */
static bool is_read_correctly(void)
{
    unsigned char *got = malloc((size_t)sample.nbytes + 1);
    struct window w = {.bytes = NULL};
    size_t nbytes = (size_t)sample.nbytes;
    bool ok = source_read(sample.assembled, sample.assembled_at, got, nbytes, NULL) == CKPT_OK &&
              memcmp(got, sample.expected, nbytes) == 0;
    for (int turn = 0; turn < 8 && sample.nbytes; turn++) {
        size_t from = random_below((uint32_t)sample.nbytes),
               n = random_below((uint32_t)(sample.nbytes - from) + 1);
        ok = ok && source_read(sample.assembled, sample.assembled_at + from, got, n, NULL) == CKPT_OK;
        ok = ok && memcmp(got, sample.expected + from, n) == 0;
    }
    for (size_t at = 0, n; ok && at < sample.nbytes; at += n) {
        n = 1 + random_below(64);
        n = n < sample.nbytes - at ? n : (size_t)sample.nbytes - at;
        ok = window_read(&w, sample.assembled, sample.assembled_at + at, got, n, NULL) == CKPT_OK &&
             memcmp(got, sample.expected + at, n) == 0;
    }
    window_close(&w);
    free(got);
    return ok;
}

static void random_pieces_are_assembled(void)
{
    static const unsigned char element[18] = "this fills holes.";
    for (int turn = 0; turn < 3000; turn++) {
        uint64_t zero[MAX_DIMS] = {0};
        ckpt_error err;
        begin_sample(random_below(MAX_DIMS), turn % 10 ? 7 : 23);
        bool may_overlap = turn % 3 == 0;
        sample.pieces.may_overlap = may_overlap;
        sample.pieces.fill = turn % 7 == 0 ? element : NULL;
        if (random_below(2))
            cut_grid();
        else
            cut_box(zero, sample.shape, 1 + random_below(60));
        uint32_t extra_pieces = may_overlap ? random_below(8) : 0;
        for (; extra_pieces && sample.pieces.ndim; extra_pieces--) {
            uint64_t offset[MAX_DIMS], size[MAX_DIMS];
            for (uint32_t k = 0; k < sample.pieces.ndim; k++) {
                offset[k] = random_below((uint32_t)sample.shape[k] + 1);
                size[k] = random_below((uint32_t)(sample.shape[k] - offset[k]) + 1);
            }
            add_piece(offset, size);
        }
        for (size_t i = sample.pieces.n; i > 1; i--) { /* the pieces are shuffled */
            size_t j = random_below((uint32_t)i);
            struct piece swapped = sample.piece[i - 1];
            sample.piece[i - 1] = sample.piece[j];
            sample.piece[j] = swapped;
        }
        if (sample.pieces.fill && sample.pieces.n > 1)
            sample.pieces.n -= 1; /* the hole where the last piece was gets pieces.fill */
        fill_files(turn % 4 == 1);
        ckpt_status st = assemble(&err);
        CU_ASSERT_EQUAL_FATAL(st, CKPT_OK);
        CU_ASSERT_FATAL(is_read_correctly());
        end_sample();
    }
}

/* The pieces are one to three elements wide. In each column there are two, an upper and a lower one, which
 * meet at a fixed or a random row. */
static void narrow_pieces_are_assembled(void)
{
    for (uint32_t turn = 0; turn < 14; turn++) {
        begin_sample(2, 1);
        sample.pieces.width = turn < 6 ? 1u << turn / 2 : sample.pieces.width;
        sample.shape[0] = 9000 + random_below(20000);
        sample.shape[1] = 41;
        for (uint64_t column = 0, width; column < 41; column += width) {
            uint64_t middle = turn % 2 ? sample.shape[0] / 3 : 1 + random_below(8000);
            width = turn < 8 || column > 30 ? 1 : 1 + random_below(3);
            add_piece((uint64_t[MAX_DIMS]){0, column}, (uint64_t[MAX_DIMS]){middle, width});
            add_piece((uint64_t[MAX_DIMS]){middle, column},
                      (uint64_t[MAX_DIMS]){sample.shape[0] - middle, width});
        }
        fill_files(turn == 9);
        CU_ASSERT_EQUAL_FATAL(assemble(NULL), CKPT_OK);
        CU_ASSERT_FATAL(is_read_correctly());
        end_sample();
    }
}

/* Views of a few MB, above and below what is read at a time, of elements of each width; some are in several
 * pieces. */
static void large_views_are_assembled(void)
{
    static const uint64_t shapes[][4] = {
        {1501, 1203, 1, 1}, {2, 70001, 5, 1}, {97, 130, 71, 1}, {33, 9, 41, 50}};
    static const uint32_t widths[] = {1, 2, 4, 8, 16, 3};
    for (uint32_t turn = 0; turn < 24; turn++) {
        uint64_t zero[MAX_DIMS] = {0};
        begin_sample(4, 1);
        memcpy(sample.shape, shapes[turn % 4], sizeof shapes[0]);
        sample.pieces.width = widths[turn / 4];
        cut_box(zero, sample.shape, 1 + turn % 3);
        fill_files(true);
        CU_ASSERT_EQUAL_FATAL(assemble(NULL), CKPT_OK);
        CU_ASSERT_FATAL(is_read_correctly());
        end_sample();
    }
}

/* assembly_fails_with - returns whether assembling the pieces fails with the status ST and WHAT in the
 * message. */
static bool assembly_fails_with(ckpt_status st, const char *what)
{
    ckpt_error err;
    bool ok = assemble(&err) == st && strstr(err.what, what) != NULL;
    if (!ok)
        printf("\n%s\n", err.what);
    sample.assembled = NULL;
    return ok;
}

/* begin_matrix - begins a sample of 6 x 8 bytes in four pieces of 3 x 4. */
static void begin_matrix(void)
{
    begin_sample(2, 1);
    sample.pieces.width = 1;
    sample.shape[0] = 6;
    sample.shape[1] = 8;
    for (uint64_t i = 0; i < 4; i++)
        add_piece((uint64_t[MAX_DIMS]){i / 2 * 3, i % 2 * 4}, (uint64_t[MAX_DIMS]){3, 4});
    fill_files(false);
}

static void holes_are_refused(void)
{
    begin_matrix();
    sample.piece[2] = sample.piece[--sample.pieces.n]; /* removes piece 2 */
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "no piece has [3:6, 0:4] of [6, 8]"));
    sample.pieces.n = 0;
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "no piece has [:, :] of [6, 8]"));
    end_sample();
    begin_matrix();
    sample.piece_size[3][1] = 3;
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "no piece has [3:6, 7:8] of [6, 8]"));
    /* the number of elements in all pieces does not show the hole if pieces may overlap */
    sample.pieces.may_overlap = true;
    sample.piece[sample.pieces.n] = sample.piece[0];
    sample.piece[sample.pieces.n++].size = (const uint64_t[]){1, 1};
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "no piece has [3:6, 7:8] of [6, 8]"));
    end_sample();
    begin_sample(3, 1);
    sample.shape[0] = 4;
    sample.shape[2] = 10;
    for (uint64_t i = 0; i < 4; i++)
        if (i != 2)
            add_piece((uint64_t[MAX_DIMS]){i}, (uint64_t[MAX_DIMS]){1, 1, 10});
    fill_files(false);
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "no piece has [2:3, :, :] of [4, 1, 10]"));
    end_sample();
}

static void overlaps_are_refused(void)
{
    begin_matrix();
    sample.piece_offset[3][1] = 3;
    CU_ASSERT(assembly_fails_with(
        CKPT_EFORMAT,
        "piece 3 [3:6, 3:7] overlaps piece 2 [3:6, 0:4], but each element must be in one piece"));
    sample.piece_offset[3][1] = 4;
    sample.piece[sample.pieces.n++] = sample.piece[0];
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "piece 4 [0:3, 0:4] overlaps piece 0 [0:3, 0:4]"));
    sample.pieces.may_overlap = true;
    CU_ASSERT_EQUAL(assemble(NULL), CKPT_OK);
    end_sample();
}

static void pieces_that_reach_outside_are_refused(void)
{
    begin_matrix();
    sample.piece_offset[1][1] = 5;
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "piece 1 [0:3, 5:9] is not inside of the tensor [6, 8]"));
    sample.piece_offset[1][1] = UINT64_MAX;
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "is not inside of the tensor [6, 8]"));
    sample.piece_offset[1][1] = 4;
    sample.piece[1].at = sample.piece[1].src->size - 11;
    CU_ASSERT(assembly_fails_with(CKPT_ETRUNCATED, "piece 1 [0:3, 4:8] needs 12 bytes, 11 are left"));
    sample.piece[1].at = 0;
    sample.piece[1].stride = (const uint64_t[]){UINT64_MAX / 2, 1};
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "reach"));
    sample.piece[1].stride = (const uint64_t[]){UINT64_MAX / 2 + 2, 1};
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "the strides of piece 1 [0:3, 4:8] reach beyond 2^64 bytes"));
    sample.pieces.width = 2;
    sample.shape[0] = UINT64_MAX / 8;
    CU_ASSERT(assembly_fails_with(CKPT_EFORMAT, "does not fit 64 bits"));
    sample.pieces.ndim = 64;
    CU_ASSERT(assembly_fails_with(CKPT_ELIMIT, "64 dimensions"));
    sample.pieces.ndim = 2;
    end_sample();
}

/* A single piece, or pieces that follow each other in a file, need no source but the file. */
static void contiguous_pieces_need_no_source(void)
{
    begin_sample(3, 7);
    cut_box((const uint64_t[MAX_DIMS]){0}, sample.shape, 1);
    fill_files(false);
    CU_ASSERT_EQUAL(assemble(NULL), CKPT_OK);
    CU_ASSERT(sample.nbytes == 0 ||
              (sample.assembled == sample.piece[0].src && sample.assembled_at == sample.piece[0].at));
    end_sample();
    begin_matrix();
    for (uint64_t i = 0; i < 3; i++) {
        sample.piece_offset[i][0] = 2 * i;
        sample.piece_offset[i][1] = 0;
        sample.piece_size[i][0] = 2;
        sample.piece_size[i][1] = 8;
        sample.piece[i].src = sample.file[0];
        sample.piece[i].at = 16 * i;
    }
    sample.pieces.n = 3;
    source_unref(sample.file[0]);
    sample.file[0] = source_mem(sample.file_bytes[0], 48, 0);
    for (size_t i = 0; i < 3; i++)
        sample.piece[i].src = sample.file[0];
    CU_ASSERT_EQUAL(assemble(NULL), CKPT_OK);
    CU_ASSERT(sample.assembled == sample.file[0] && sample.assembled_at == 0);
    end_sample();
}

/* ----------------------------------------------------------------- many pieces */

/* An endless source of zeros, which counts its reads. */
struct zeros {
    source base;
    unsigned nreads;
    uint64_t nbytes;
};

static ckpt_status zeros_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    (void)off;
    (void)err;
    ((struct zeros *)s)->nreads++;
    ((struct zeros *)s)->nbytes += n;
    memset(out, 0, n);
    return CKPT_OK;
}

static void zeros_close(source *s) { (void)s; }

static const struct source_ops zeros_ops = {.read_at = zeros_read, .close = zeros_close};

static struct zeros zeros = {.base = {.ops = &zeros_ops, .size = UINT64_MAX, .refs = 1}};

/* make_grid - returns ROWS x COLUMNS pieces of SIZE x SIZE elements. The pieces point into NUMBERS, which
 * gets the size that all pieces have, then the offset of each piece. */
static struct piece *make_grid(uint64_t rows, uint64_t columns, uint64_t size, uint64_t *numbers)
{
    struct piece *list = calloc((size_t)(rows * columns), sizeof *list);
    for (uint64_t i = 0; i < rows * columns; i++) {
        uint64_t *offset = numbers + 2 + 2 * i;
        offset[0] = i / columns * size;
        offset[1] = i % columns * size;
        list[i] = (struct piece){
            .offset = offset, .size = numbers, .src = &zeros.base, .at = i * size * size * 4};
    }
    numbers[0] = numbers[1] = size;
    return list;
}

static void a_million_pieces_are_assembled(void)
{
    size_t n = 1000000;
    uint64_t *numbers = calloc(2 * n + 2, sizeof *numbers);
    struct piece *list = make_grid(1000, 1000, 64, numbers);
    uint64_t shape[2] = {64000, 64000};
    struct pieces p = {.shape = shape, .ndim = 2, .width = 4, .piece = list, .n = n};
    arena *a = arena_new(100 * n);
    source *src;
    uint64_t at;
    ckpt_error err;
    unsigned char out[64];
    for (size_t i = 0; i < n; i += 2) { /* every other piece changes places */
        struct piece swapped = list[i];
        list[i] = list[n - 1 - i];
        list[n - 1 - i] = swapped;
    }
    CU_ASSERT_EQUAL_FATAL(pieces_source(a, &p, &src, &at, &err), CKPT_OK);
    zeros.nreads = 0;
    for (uint64_t i = 0; i < 10000; i++)
        CU_ASSERT_EQUAL(source_read(src, i * 997 * 64 % src->size, out, sizeof out, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(zeros.nreads, 10000);
    source_unref(src);
    arena_free(a);
    list[777].size = (const uint64_t[]){64, 63};
    a = arena_new(100 * n);
    CU_ASSERT_EQUAL(pieces_source(a, &p, &src, &at, &err), CKPT_EFORMAT);
    CU_ASSERT(strncmp(err.what, "no piece has [", 14) == 0);
    arena_free(a);
    free(list);
    free(numbers);
}

/* The pieces are columns of half the height of the tensor. Each begins one row below the previous piece in
 * the list, but in a distant column, so that a search for the piece of an element would visit most pieces. */
static void pieces_that_are_slow_to_search_are_refused(void)
{
    size_t n = 200000;
    uint64_t *numbers = calloc(2 * n + 2, sizeof *numbers);
    struct piece *list = make_grid(1, n, 1, numbers);
    uint64_t shape[2] = {2 * n, n};
    struct pieces p = {.shape = shape, .ndim = 2, .width = 1, .piece = list, .n = n};
    ckpt_error err;
    source *src;
    uint64_t at;
    arena *a = arena_new(UINT64_C(1) << 30);
    numbers[0] = n; /* the height of each column */
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *offset = numbers + 2 + 2 * i;
        offset[0] = i;            /* row */
        offset[1] = i * 7919 % n; /* column; each occurs once, because 7919 is prime */
    }
    ckpt_status st = pieces_source(a, &p, &src, &at, &err);
    CU_ASSERT(st == CKPT_ELIMIT && strstr(err.what, "too irregularly"));
    arena_free(a);
    free(list);
    free(numbers);
}

/* The matrix is cut into 64 pieces along its last dimension. At most one read of each piece is needed for
 * each MiB of the matrix. */
static void many_rows_are_read_at_a_time(void)
{
    enum { PIECE_BYTES = 16384 * 64 * 4 };
    uint64_t shape[2] = {16384, 4096}, size[2] = {16384, 64}, offset[64][2];
    struct piece list[64];
    struct pieces p = {.shape = shape, .ndim = 2, .width = 4, .piece = list, .n = 64};
    struct window w = {.bytes = NULL};
    arena *a = arena_new(1u << 20);
    unsigned char *out = malloc(256 * 1024);
    source *src;
    uint64_t at;
    for (uint64_t i = 0; i < 64; i++) {
        offset[i][0] = 0;
        offset[i][1] = 64 * i;
        list[i] = (struct piece){
            .offset = offset[i], .size = size, .src = &zeros.base, .at = i * PIECE_BYTES};
    }
    CU_ASSERT_EQUAL_FATAL(pieces_source(a, &p, &src, &at, NULL), CKPT_OK);
    zeros.nreads = 0;
    for (uint64_t done = 0; done < src->size; done += 256 * 1024)
        CU_ASSERT_EQUAL(window_read(&w, src, done, out, 256 * 1024, NULL), CKPT_OK);
    CU_ASSERT(zeros.nreads <= 64 * (src->size >> 20));
    window_close(&w);
    source_unref(src);
    arena_free(a);
    free(out);
}

/* Of 2,048 columns of a matrix that is transposed, each byte is read once, at least 512 at a time. */
static void a_transposed_matrix_is_read_in_few_reads(void)
{
    uint64_t shape[2] = {2048, 16384}, stride[2] = {1, 16384}, offset[2] = {0};
    struct piece piece = {.offset = offset, .size = shape, .stride = stride, .src = &zeros.base};
    struct pieces p = {.shape = shape, .ndim = 2, .width = 4, .piece = &piece, .n = 1};
    struct window w = {.max_block = 8u << 20};
    arena *a = arena_new(1u << 20);
    unsigned char *out = malloc(256 * 1024);
    source *src;
    uint64_t at;
    CU_ASSERT_EQUAL_FATAL(pieces_source(a, &p, &src, &at, NULL), CKPT_OK);
    zeros.nreads = 0;
    zeros.nbytes = 0;
    for (uint64_t done = 0; done < src->size; done += 256 * 1024)
        CU_ASSERT_EQUAL(window_read(&w, src, done, out, 256 * 1024, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(zeros.nbytes, src->size);
    CU_ASSERT(zeros.nreads <= src->size / 512);
    window_close(&w);
    source_unref(src);
    arena_free(a);
    free(out);
}

/* ---------------------------------------------------------------------- threads */

/* check_range - a task of a pool: compares up to 512 bytes of the assembled tensor with the expected
 * bytes. */
static ckpt_status check_range(void *user, struct pool *pool, size_t i, unsigned worker, ckpt_error *err)
{
    unsigned char got[512];
    size_t total = (size_t)sample.nbytes, from = (size_t)(i * 37 % total);
    size_t n = total - from < sizeof got ? total - from : sizeof got;
    (void)user;
    (void)pool;
    (void)worker;
    ckpt_status st = source_read(sample.assembled, sample.assembled_at + from, got, n, err);
    return st == CKPT_OK && memcmp(got, sample.expected + from, n) != 0 ? CKPT_EFORMAT : st;
}

static uint64_t equal_weight(void *user, size_t i)
{
    (void)user;
    (void)i;
    return 1;
}

static void threads_read_pieces(void)
{
    struct pool_job job = {.n = 5000, .weigh = equal_weight, .threads = 4, .task = check_range};
    ckpt_error err;
    begin_sample(3, 1);
    sample.shape[0] = sample.shape[1] = sample.shape[2] = 30;
    sample.pieces.may_overlap = true;
    cut_box((const uint64_t[MAX_DIMS]){0}, sample.shape, 100);
    add_piece((const uint64_t[MAX_DIMS]){3, 4, 5}, (const uint64_t[MAX_DIMS]){9, 20, 11});
    fill_files(true);
    CU_ASSERT_EQUAL_FATAL(assemble(NULL), CKPT_OK);
    CU_ASSERT_EQUAL(pool_run(&job, &err), CKPT_OK);
    end_sample();
}

/* ---------------------------------------------------------------- tensors in pieces */

/* ROWS, COLUMNS - the shape of the tensor "large". The tensor "small" has 70 rows of 41 columns. */
#define ROWS              4500u
#define COLUMNS           4096u
#define PIECES_IN_ONE_ROW 5u

/* The bytes of the pieces, freed at the end of the test. */
static struct {
    unsigned char *bytes[4];
    size_t n;
} piece_bytes;

/* put_in_pieces - stores tensor I of F, a matrix of floats, as two rows of pieces. The upper pieces have a
 * third of the rows of the matrix. */
static void put_in_pieces(ckpt_file *f, uint32_t i, size_t rows, size_t columns)
{
    uint64_t offset[2 * PIECES_IN_ONE_ROW][2], size[2 * PIECES_IN_ONE_ROW][2], shape[2] = {rows, columns},
                                                                               end = 0, at;
    struct piece list[2 * PIECES_IN_ONE_ROW];
    struct pieces p = {.shape = shape, .ndim = 2, .width = 4, .piece = list, .n = 2 * PIECES_IN_ONE_ROW};
    struct storage *storage = &f->table.storages[table_storage_of(&f->table, i)];
    unsigned char *bytes = piece_bytes.bytes[piece_bytes.n++] = malloc(rows * columns * 4);
    source *piece_source, *assembled = NULL;
    memset(bytes, 0, rows * columns * 4);
    piece_source = source_mem(bytes, rows * columns * 4, CKPT_NO_OFFSET);
    for (size_t k = 0; k < 2 * PIECES_IN_ONE_ROW; k++) {
        uint64_t from = k / 2 * columns / PIECES_IN_ONE_ROW, to = (k / 2 + 1) * columns / PIECES_IN_ONE_ROW,
                 third = rows / 3;
        offset[k][0] = k % 2 ? third : 0;
        offset[k][1] = from;
        size[k][0] = k % 2 ? rows - third : third;
        size[k][1] = to - from;
        list[k] = (struct piece){.offset = offset[k], .size = size[k], .src = piece_source, .at = end};
        for (uint64_t r = 0; r < size[k][0]; r++, end += size[k][1] * 4)
            CU_ASSERT_EQUAL(source_read(storage->src,
                                        storage->off + ((offset[k][0] + r) * columns + from) * 4, bytes + end,
                                        (size_t)size[k][1] * 4, NULL),
                            CKPT_OK);
    }
    CU_ASSERT_EQUAL_FATAL(pieces_source(f->a, &p, &assembled, &at, NULL), CKPT_OK);
    source_unref(piece_source);
    source_unref(storage->src);
    storage->src = assembled;
    storage->off = at;
}

static ckpt_file *open_matrices(const float *values)
{
    char header[256];
    uint64_t small_bytes = 70 * 41 * 4, large_bytes = (uint64_t)ROWS * COLUMNS * 4;
    snprintf(header, sizeof header,
             "{'small':{'dtype':'F32','shape':[70,41],'data_offsets':[0,%llu]},"
             "'large':{'dtype':'F32','shape':[%u,%u],'data_offsets':[%llu,%llu]}}",
             (unsigned long long)small_bytes, ROWS, COLUMNS, (unsigned long long)small_bytes,
             (unsigned long long)(small_bytes + large_bytes));
    return open_safetensors(quoted(header), values, (size_t)(small_bytes + large_bytes));
}

static int count_changes(void *user, const ckpt_diff_event *e)
{
    *(unsigned *)user += e->what != CKPT_DIFF_SAME;
    return 0;
}

static void compute_digest(ckpt_file *f, unsigned threads, uint8_t out[CKPT_DIGEST_MAX])
{
    uint8_t tensor_digests[2 * CKPT_DIGEST_MAX];
    ckpt_work how = {.struct_size = sizeof how, .threads = threads};
    memset(out, 0, CKPT_DIGEST_MAX);
    CU_ASSERT_EQUAL(ckpt_digest_tensors(f, CKPT_XXH3, &how, tensor_digests, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_file(f, CKPT_XXH3, tensor_digests, out, NULL), CKPT_OK);
}

static void check_same_tensors(ckpt_file *a, ckpt_file *b)
{
    uint8_t digest_a[CKPT_DIGEST_MAX], digest_b[CKPT_DIGEST_MAX];
    unsigned changes = 0;
    ckpt_diff_options o = {.struct_size = sizeof o, .threads = 3};
    compute_digest(a, 1, digest_a);
    for (unsigned threads = 1; threads < 5; threads += 3) {
        compute_digest(b, threads, digest_b);
        CU_ASSERT_EQUAL(memcmp(digest_a, digest_b, sizeof digest_a), 0);
    }
    CU_ASSERT_EQUAL(ckpt_diff(a, b, &o, count_changes, &changes, NULL, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(changes, 0);
}

/* check_convert - checks that F, written to PATH by several threads, holds the tensors of WANT. */
static void check_convert(ckpt_file *f, ckpt_file *want, const char *path)
{
    ckpt_plan *p = NULL;
    ckpt_file *written = NULL;
    ckpt_write_options o = {.struct_size = sizeof o, .threads = 3};
    ckpt_error err;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, path, &o, NULL, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &written, &err), CKPT_OK);
    check_same_tensors(want, written);
    ckpt_close(written);
    ckpt_plan_free(p);
    remove(path);
}

static void files_with_and_without_pieces_give_the_same_results(void)
{
    size_t n = 70 * 41 + (size_t)ROWS * COLUMNS; /* number of elements of "small" and "large" */
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(i * 2654435761u % 1000003) - 500000;
    ckpt_file *without_pieces = open_matrices(values), *in_pieces = open_matrices(values);
    ckpt_stats want_stats[2] = {CKPT_INIT(ckpt_stats)}, got_stats[2] = {CKPT_INIT(ckpt_stats)};
    put_in_pieces(in_pieces, ckpt_tensor_find(in_pieces, (ckpt_str){"small", 5}), 70, 41);
    put_in_pieces(in_pieces, ckpt_tensor_find(in_pieces, (ckpt_str){"large", 5}), ROWS, COLUMNS);
    check_same_tensors(without_pieces, in_pieces);
    CU_ASSERT_EQUAL(ckpt_stat(without_pieces, (const uint32_t[]){0, 1}, 2, NULL, want_stats, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_stat(in_pieces, (const uint32_t[]){0, 1}, 2, NULL, got_stats, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(want_stats, got_stats, sizeof want_stats), 0);
    char path[64], folder[] = "/tmp/unit-pieces-XXXXXX";
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    check_convert(in_pieces, without_pieces, path);
    snprintf(path, sizeof path, "%s/a.pt", folder);
    check_convert(in_pieces, without_pieces, path);
    remove(folder);
    close_open_files();
    free(values);
    while (piece_bytes.n)
        free(piece_bytes.bytes[--piece_bytes.n]);
}

void suite_pieces(void)
{
    UNIT(random_pieces_are_assembled);
    UNIT(narrow_pieces_are_assembled);
    UNIT(large_views_are_assembled);
    UNIT(holes_are_refused);
    UNIT(overlaps_are_refused);
    UNIT(pieces_that_reach_outside_are_refused);
    UNIT(contiguous_pieces_need_no_source);
    UNIT(a_million_pieces_are_assembled);
    UNIT(pieces_that_are_slow_to_search_are_refused);
    UNIT(many_rows_are_read_at_a_time);
    UNIT(a_transposed_matrix_is_read_in_few_reads);
    UNIT(threads_read_pieces);
    UNIT(files_with_and_without_pieces_give_the_same_results);
}
