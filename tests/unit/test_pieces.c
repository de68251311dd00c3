/* A tensor in pieces has the bytes that its pieces have, put together element by element; pieces that make no
 * tensor are refused by name. */
#include <stdio.h>
#include <stdlib.h>

#include "core/file.h"
#include "core/pieces.h"
#include "flat.h"
#include "io/pool.h"
#include "io/window.h"
#include "unit.h"

#define DIMS  6u
#define MOST  400u /* pieces of a random tensor */
#define FILES 3u

static uint32_t seed = 1;

static uint32_t random_below(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

/* A tensor with its pieces, in memory. */
struct sample {
    uint64_t shape[DIMS], offset[MOST][DIMS], size[MOST][DIMS], stride[MOST][DIMS];
    struct piece piece[MOST];
    struct pieces p;
    uint64_t nbytes;
    unsigned char *want, *bytes[FILES];
    source *file[FILES];
    arena *a;
    source *src;
    uint64_t at;
};

static struct sample x;

static uint64_t elements_of(const uint64_t *size)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < x.p.ndim; k++)
        n *= size[k];
    return n;
}

static void add(const uint64_t *offset, const uint64_t *size)
{
    size_t i = x.p.n++;
    CU_ASSERT_FATAL(i < MOST);
    memcpy(x.offset[i], offset, sizeof x.offset[i]);
    memcpy(x.size[i], size, sizeof x.size[i]);
    x.piece[i] = (struct piece){.offset = x.offset[i], .size = x.size[i]};
}

/* cut - the box into pieces, each by a plane anywhere, until they are about N. */
static void cut(const uint64_t *offset, const uint64_t *size, uint32_t n)
{
    uint32_t k = x.p.ndim ? random_below(x.p.ndim) : 0;
    if (n <= 1 || x.p.ndim == 0 || size[k] < 2) {
        add(offset, size);
        return;
    }
    uint64_t from[DIMS], part[DIMS], at = 1 + random_below((uint32_t)size[k] - 1);
    memcpy(from, offset, sizeof from);
    memcpy(part, size, sizeof part);
    part[k] = at;
    cut(from, part, n / 2);
    from[k] = offset[k] + at;
    part[k] = size[k] - at;
    cut(from, part, n - n / 2);
}

/* cut_grid - uneven, the same in all of a dimension; empty steps are among them. */
static void cut_grid(void)
{
    uint64_t lines[DIMS][4] = {{0}}, index[DIMS] = {0};
    uint32_t n[DIMS], k = 0;
    for (uint32_t j = 0; j < x.p.ndim; j++) {
        n[j] = 1 + random_below(3);
        lines[j][n[j]] = x.shape[j];
        for (uint32_t i = 1; i < n[j]; i++)
            lines[j][i] = lines[j][i - 1] + random_below((uint32_t)(x.shape[j] - lines[j][i - 1]) + 1);
    }
    while (k < x.p.ndim || x.p.n == 0) {
        uint64_t from[DIMS] = {0}, size[DIMS] = {0};
        for (uint32_t j = 0; j < x.p.ndim; j++) {
            from[j] = lines[j][index[j]];
            size[j] = lines[j][index[j] + 1] - from[j];
        }
        add(from, size);
        for (k = 0; k < x.p.ndim && ++index[k] == n[k]; k++)
            index[k] = 0;
    }
}

/* lay_strided - strides of piece I: its dimensions in any order, with gaps; the elements that it spans. */
static uint64_t lay_strided(size_t i)
{
    uint32_t order[DIMS], n = x.p.ndim;
    uint64_t run = 1 + random_below(3), span = 1;
    const uint64_t *size = x.piece[i].size;
    for (uint32_t k = 0; k < n; k++)
        order[k] = k;
    for (uint32_t k = n; k > 1; k--) {
        uint32_t j = random_below(k), was = order[k - 1];
        order[k - 1] = order[j];
        order[j] = was;
    }
    for (uint32_t k = 0; k < n; k++) {
        x.stride[i][order[k]] = run;
        span += (size[order[k]] - 1) * run;
        run = run * size[order[k]] + (random_below(3) == 0);
    }
    x.piece[i].stride = x.stride[i];
    return span;
}

/* piece_element - element E of piece I in its file. */
static unsigned char *piece_element(size_t i, uint64_t e, uint64_t *in_tensor)
{
    const struct piece *c = &x.piece[i];
    uint64_t at = 0, to = 0, run = 1, row = 1;
    for (uint32_t k = x.p.ndim; k-- > 0;) {
        uint64_t index = e % c->size[k];
        e /= c->size[k];
        at += index * (c->stride ? c->stride[k] : run);
        to += (c->offset[k] + index) * row;
        run *= c->size[k];
        row *= x.shape[k];
    }
    *in_tensor = to;
    for (uint32_t f = 0; f < FILES; f++)
        if (x.file[f] == c->src)
            return x.bytes[f] + c->at + at * x.p.width;
    return NULL;
}

/* fill_files - any bytes as the pieces in their files, and what they make of the tensor: the first wins. */
static void fill_files(bool strided)
{
    uint64_t end[FILES] = {0}, in[MOST], at[MOST];
    for (size_t i = 0; i < x.p.n; i++) {
        uint64_t span = strided && elements_of(x.piece[i].size) ? lay_strided(i)
                                                                : elements_of(x.piece[i].size);
        uint32_t f = random_below(FILES);
        end[f] += random_below(3) == 0 ? random_below(9) : 0;
        in[i] = f;
        at[i] = end[f];
        end[f] += span * x.p.width;
    }
    for (uint32_t f = 0; f < FILES; f++) {
        x.bytes[f] = malloc((size_t)end[f] + 1);
        for (uint64_t i = 0; i < end[f]; i++)
            x.bytes[f][i] = (unsigned char)random_below(256);
        x.file[f] = source_mem(x.bytes[f], (size_t)end[f], CKPT_NO_OFFSET);
    }
    x.nbytes = elements_of(x.shape) * x.p.width;
    x.want = malloc((size_t)x.nbytes + 1);
    for (uint64_t b = 0; b < x.nbytes && x.p.fill; b++)
        x.want[b] = ((const unsigned char *)x.p.fill)[b % x.p.width];
    for (size_t i = x.p.n; i-- > 0;) {
        x.piece[i].src = x.file[in[i]];
        x.piece[i].at = at[i];
        for (uint64_t e = 0, to; e < elements_of(x.piece[i].size); e++) {
            const unsigned char *from = piece_element(i, e, &to);
            memcpy(x.want + to * x.p.width, from, x.p.width);
        }
    }
}

static void begin(uint32_t ndim, uint32_t most)
{
    static const uint32_t widths[] = {1, 2, 4, 8, 16, 3, 18};
    x = (struct sample){
        .p = {.shape = x.shape, .ndim = ndim, .width = widths[random_below(7)], .piece = x.piece}};
    for (uint32_t k = 0; k < ndim; k++)
        x.shape[k] = random_below(40) == 0 ? 0 : 1 + random_below(most);
    x.a = arena_new(UINT64_C(1) << 30);
}

static void finish(void)
{
    source_unref(x.src);
    for (uint32_t f = 0; f < FILES; f++) {
        CU_ASSERT(!x.file[f] || x.file[f]->refs == 1);
        source_unref(x.file[f]);
        free(x.bytes[f]);
    }
    free(x.want);
    arena_free(x.a);
}

static ckpt_status assemble(ckpt_error *err) { return pieces_source(x.a, &x.p, &x.src, &x.at, err); }

/* reads_right - all at once, any ranges, and front to back by a window. */
static bool reads_right(void)
{
    unsigned char *got = malloc((size_t)x.nbytes + 1);
    struct window w = {.bytes = NULL};
    size_t nbytes = (size_t)x.nbytes;
    bool ok = source_read(x.src, x.at, got, nbytes, NULL) == CKPT_OK && memcmp(got, x.want, nbytes) == 0;
    for (int turn = 0; turn < 8 && x.nbytes; turn++) {
        size_t from = random_below((uint32_t)x.nbytes), n = random_below((uint32_t)(x.nbytes - from) + 1);
        ok = ok && source_read(x.src, x.at + from, got, n, NULL) == CKPT_OK;
        ok = ok && memcmp(got, x.want + from, n) == 0;
    }
    for (size_t at = 0, n; ok && at < x.nbytes; at += n) {
        n = 1 + random_below(64);
        n = n < x.nbytes - at ? n : (size_t)x.nbytes - at;
        ok = window_read(&w, x.src, x.at + at, got, n, NULL) == CKPT_OK && memcmp(got, x.want + at, n) == 0;
    }
    window_close(&w);
    free(got);
    return ok;
}

static void random_pieces(void)
{
    static const unsigned char element[18] = "filled with this.";
    for (int turn = 0; turn < 3000; turn++) {
        uint64_t zero[DIMS] = {0};
        ckpt_error err;
        begin(random_below(DIMS), turn % 10 ? 7 : 23);
        bool overlap = turn % 3 == 0;
        x.p.may_overlap = overlap;
        x.p.fill = turn % 7 == 0 ? element : NULL;
        if (random_below(2))
            cut_grid();
        else
            cut(zero, x.shape, 1 + random_below(60));
        for (uint32_t more = overlap ? random_below(8) : 0; more && x.p.ndim; more--) {
            uint64_t from[DIMS], size[DIMS];
            for (uint32_t k = 0; k < x.p.ndim; k++) {
                from[k] = random_below((uint32_t)x.shape[k] + 1);
                size[k] = random_below((uint32_t)(x.shape[k] - from[k]) + 1);
            }
            add(from, size);
        }
        for (size_t i = x.p.n; i > 1; i--) { /* in any order */
            size_t j = random_below((uint32_t)i);
            struct piece was = x.piece[i - 1];
            x.piece[i - 1] = x.piece[j];
            x.piece[j] = was;
        }
        if (x.p.fill && x.p.n > 1)
            x.p.n -= 1;
        fill_files(turn % 4 == 1);
        ckpt_status st = assemble(&err);
        CU_ASSERT_EQUAL_FATAL(st, CKPT_OK);
        CU_ASSERT_FATAL(reads_right());
        finish();
    }
}

/* Tall and narrow: columns of one element or a few, which begin in the same rows or in any. */
static void narrow_columns(void)
{
    for (uint32_t turn = 0; turn < 14; turn++) {
        begin(2, 1);
        x.p.width = turn < 6 ? 1u << turn / 2 : x.p.width;
        x.shape[0] = 9000 + random_below(20000);
        x.shape[1] = 41;
        for (uint64_t column = 0, wide; column < 41; column += wide) {
            uint64_t middle = turn % 2 ? x.shape[0] / 3 : 1 + random_below(8000);
            wide = turn < 8 || column > 30 ? 1 : 1 + random_below(3);
            add((uint64_t[DIMS]){0, column}, (uint64_t[DIMS]){middle, wide});
            add((uint64_t[DIMS]){middle, column}, (uint64_t[DIMS]){x.shape[0] - middle, wide});
        }
        fill_files(turn == 9);
        CU_ASSERT_EQUAL_FATAL(assemble(NULL), CKPT_OK);
        CU_ASSERT_FATAL(reads_right());
        finish();
    }
}

static bool fails(ckpt_status st, const char *what)
{
    ckpt_error err;
    bool ok = assemble(&err) == st && strstr(err.what, what) != NULL;
    if (!ok)
        printf("\n%s\n", err.what);
    x.src = NULL;
    return ok;
}

/* begin_matrix - 6 x 8 bytes in four pieces of 3 x 4. */
static void begin_matrix(void)
{
    begin(2, 1);
    x.p.width = 1;
    x.shape[0] = 6;
    x.shape[1] = 8;
    for (uint64_t i = 0; i < 4; i++)
        add((uint64_t[DIMS]){i / 2 * 3, i % 2 * 4}, (uint64_t[DIMS]){3, 4});
    fill_files(false);
}

static void holes(void)
{
    begin_matrix();
    x.piece[2] = x.piece[--x.p.n];
    CU_ASSERT(fails(CKPT_EFORMAT, "no piece has [3:6, 0:4] of [6, 8]"));
    x.p.n = 0;
    CU_ASSERT(fails(CKPT_EFORMAT, "no piece has [:, :] of [6, 8]"));
    finish();
    begin_matrix();
    x.size[3][1] = 3;
    CU_ASSERT(fails(CKPT_EFORMAT, "no piece has [3:6, 7:8] of [6, 8]"));
    x.p.may_overlap = true; /* where volumes say nothing */
    x.piece[x.p.n] = x.piece[0];
    x.piece[x.p.n++].size = (const uint64_t[]){1, 1};
    CU_ASSERT(fails(CKPT_EFORMAT, "no piece has [3:6, 7:8] of [6, 8]"));
    finish();
    begin(3, 1);
    x.shape[0] = 4;
    x.shape[2] = 10;
    for (uint64_t i = 0; i < 4; i++)
        if (i != 2)
            add((uint64_t[DIMS]){i}, (uint64_t[DIMS]){1, 1, 10});
    fill_files(false);
    CU_ASSERT(fails(CKPT_EFORMAT, "no piece has [2:3, :, :] of [4, 1, 10]"));
    finish();
}

static void overlaps(void)
{
    begin_matrix();
    x.offset[3][1] = 3;
    CU_ASSERT(
        fails(CKPT_EFORMAT, "piece 3 [3:6, 3:7] overlaps piece 2 [3:6, 0:4], each element is in one piece"));
    x.offset[3][1] = 4;
    x.piece[x.p.n++] = x.piece[0];
    CU_ASSERT(fails(CKPT_EFORMAT, "piece 4 [0:3, 0:4] overlaps piece 0 [0:3, 0:4]"));
    x.p.may_overlap = true;
    CU_ASSERT_EQUAL(assemble(NULL), CKPT_OK);
    finish();
}

static void outside(void)
{
    begin_matrix();
    x.offset[1][1] = 5;
    CU_ASSERT(fails(CKPT_EFORMAT, "piece 1 [0:3, 5:9] is not inside of the tensor [6, 8]"));
    x.offset[1][1] = UINT64_MAX;
    CU_ASSERT(fails(CKPT_EFORMAT, "is not inside of the tensor [6, 8]"));
    x.offset[1][1] = 4;
    x.piece[1].at = x.piece[1].src->size - 11;
    CU_ASSERT(fails(CKPT_ETRUNCATED, "piece 1 [0:3, 4:8] needs 12 bytes, 11 are left"));
    x.piece[1].at = 0;
    x.piece[1].stride = (const uint64_t[]){UINT64_MAX / 2, 1};
    CU_ASSERT(fails(CKPT_EFORMAT, "reach"));
    x.piece[1].stride = (const uint64_t[]){UINT64_MAX / 2 + 2, 1};
    CU_ASSERT(fails(CKPT_EFORMAT, "the strides of piece 1 [0:3, 4:8] reach beyond 2^64 bytes"));
    x.p.width = 2;
    x.shape[0] = UINT64_MAX / 8;
    CU_ASSERT(fails(CKPT_EFORMAT, "does not fit 64 bits"));
    x.p.ndim = 64;
    CU_ASSERT(fails(CKPT_ELIMIT, "64 dimensions"));
    x.p.ndim = 2;
    finish();
}

/* One piece that is all of the tensor needs no source of its own, nor do runs that follow each other. */
static void one_piece(void)
{
    begin(3, 7);
    cut((const uint64_t[DIMS]){0}, x.shape, 1);
    fill_files(false);
    CU_ASSERT_EQUAL(assemble(NULL), CKPT_OK);
    CU_ASSERT(x.nbytes == 0 || (x.src == x.piece[0].src && x.at == x.piece[0].at));
    finish();
    begin_matrix();
    for (uint64_t i = 0; i < 3; i++) {
        x.offset[i][0] = 2 * i;
        x.offset[i][1] = 0;
        x.size[i][0] = 2;
        x.size[i][1] = 8;
        x.piece[i].src = x.file[0];
        x.piece[i].at = 16 * i;
    }
    x.p.n = 3;
    source_unref(x.file[0]);
    x.file[0] = source_mem(x.bytes[0], 48, 0);
    for (size_t i = 0; i < 3; i++)
        x.piece[i].src = x.file[0];
    CU_ASSERT_EQUAL(assemble(NULL), CKPT_OK);
    CU_ASSERT(x.src == x.file[0] && x.at == 0);
    finish();
}

/* ------------------------------------------------------------------------- size */

/* Zeros without end, and how often they were read. */
struct zeros {
    source s;
    unsigned reads;
};

static ckpt_status zeros_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    (void)off;
    (void)err;
    ((struct zeros *)s)->reads++;
    memset(out, 0, n);
    return CKPT_OK;
}

static void zeros_close(source *s) { (void)s; }

static const struct source_ops zeros_ops = {.read_at = zeros_read, .close = zeros_close};

static struct zeros zeros = {.s = {.ops = &zeros_ops, .size = UINT64_MAX, .refs = 1}};

/* many - the pieces of a grid of ROWS x COLUMNS, of SIZE elements each way. */
static struct piece *many(uint64_t rows, uint64_t columns, uint64_t size, uint64_t *numbers)
{
    struct piece *list = calloc((size_t)(rows * columns), sizeof *list);
    for (uint64_t i = 0; i < rows * columns; i++) {
        uint64_t *offset = numbers + 2 + 2 * i;
        offset[0] = i / columns * size;
        offset[1] = i % columns * size;
        list[i] = (struct piece){
            .offset = offset, .size = numbers, .src = &zeros.s, .at = i * size * size * 4};
    }
    numbers[0] = numbers[1] = size;
    return list;
}

static void a_million(void)
{
    size_t n = 1000000;
    uint64_t *numbers = calloc(2 * n + 2, sizeof *numbers);
    struct piece *list = many(1000, 1000, 64, numbers);
    uint64_t shape[2] = {64000, 64000};
    struct pieces p = {.shape = shape, .ndim = 2, .width = 4, .piece = list, .n = n};
    arena *a = arena_new(100 * n);
    source *src;
    uint64_t at;
    ckpt_error err;
    unsigned char out[64];
    for (size_t i = 0; i < n; i += 2) { /* not in order */
        struct piece was = list[i];
        list[i] = list[n - 1 - i];
        list[n - 1 - i] = was;
    }
    CU_ASSERT_EQUAL_FATAL(pieces_source(a, &p, &src, &at, &err), CKPT_OK);
    zeros.reads = 0;
    for (uint64_t i = 0; i < 10000; i++)
        CU_ASSERT_EQUAL(source_read(src, i * 997 * 64 % src->size, out, sizeof out, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(zeros.reads, 10000);
    source_unref(src);
    list[777].size = (const uint64_t[]){64, 63};
    arena_free(a);
    list[777].size = (const uint64_t[]){64, 63};
    a = arena_new(100 * n);
    CU_ASSERT_EQUAL(pieces_source(a, &p, &src, &at, &err), CKPT_EFORMAT);
    CU_ASSERT(strncmp(err.what, "no piece has [", 14) == 0);
    arena_free(a);
    free(list);
    free(numbers);
}

/* Tall columns in any order, each of which begins a row below the one before it: all bounds are nearly as
 * wide as the matrix, and each search would look at most of them. */
static void made_to_be_slow(void)
{
    size_t n = 200000;
    uint64_t *numbers = calloc(2 * n + 2, sizeof *numbers);
    struct piece *list = many(1, n, 1, numbers);
    uint64_t shape[2] = {2 * n, n};
    struct pieces p = {.shape = shape, .ndim = 2, .width = 1, .piece = list, .n = n};
    ckpt_error err;
    source *src;
    uint64_t at;
    arena *a = arena_new(UINT64_C(1) << 30);
    numbers[0] = n;
    for (uint64_t i = 0; i < n; i++) {
        numbers[2 + 2 * i] = i;
        numbers[3 + 2 * i] = i * 7919 % n;
    }
    ckpt_status st = pieces_source(a, &p, &src, &at, &err);
    CU_ASSERT(st == CKPT_ELIMIT && strstr(err.what, "too irregularly"));
    arena_free(a);
    free(list);
    free(numbers);
}

/* A cut along the last dimension is read in pieces as large as many rows have. */
static void few_reads(void)
{
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
        list[i] = (struct piece){.offset = offset[i], .size = size, .src = &zeros.s, .at = i << 22};
    }
    CU_ASSERT_EQUAL_FATAL(pieces_source(a, &p, &src, &at, NULL), CKPT_OK);
    zeros.reads = 0;
    for (uint64_t done = 0; done < src->size; done += 256 * 1024)
        CU_ASSERT_EQUAL(window_read(&w, src, done, out, 256 * 1024, NULL), CKPT_OK);
    CU_ASSERT(zeros.reads <= 64 * (src->size >> 20));
    window_close(&w);
    source_unref(src);
    arena_free(a);
    free(out);
}

/* ---------------------------------------------------------------------- threads */

static ckpt_status read_some(void *user, struct pool *pool, size_t i, unsigned worker, ckpt_error *err)
{
    unsigned char got[512];
    size_t total = (size_t)x.nbytes, from = (size_t)(i * 37 % total);
    size_t n = total - from < sizeof got ? total - from : sizeof got;
    (void)user;
    (void)pool;
    (void)worker;
    ckpt_status st = source_read(x.src, x.at + from, got, n, err);
    return st == CKPT_OK && memcmp(got, x.want + from, n) != 0 ? CKPT_EFORMAT : st;
}

static void by_threads(void)
{
    static uint64_t weight[5000];
    struct pool_job job = {.n = 5000, .weight = weight, .threads = 4, .task = read_some};
    ckpt_error err;
    begin(3, 1);
    x.shape[0] = x.shape[1] = x.shape[2] = 30;
    x.p.may_overlap = true;
    cut((const uint64_t[DIMS]){0}, x.shape, 100);
    add((const uint64_t[DIMS]){3, 4, 5}, (const uint64_t[DIMS]){9, 20, 11});
    fill_files(true);
    CU_ASSERT_EQUAL_FATAL(assemble(NULL), CKPT_OK);
    for (size_t i = 0; i < 5000; i++)
        weight[i] = 1;
    CU_ASSERT_EQUAL(pool_run(&job, &err), CKPT_OK);
    finish();
}

/* ---------------------------------------------------------------- as a row of a file */

#define ROWS    4500u
#define COLUMNS 4096u
#define ACROSS  5u

/* What the tensors of a file are made of, until the end of the test. */
static struct {
    unsigned char *bytes[4];
    size_t n;
} kept;

/* put_in_pieces - the storage of tensor I of F, a matrix of floats, becomes ACROSS times two pieces. */
static void put_in_pieces(ckpt_file *f, uint32_t i, size_t rows, size_t columns)
{
    uint64_t offset[2 * ACROSS][2], size[2 * ACROSS][2], shape[2] = {rows, columns}, end = 0, at;
    struct piece list[2 * ACROSS];
    struct pieces p = {.shape = shape, .ndim = 2, .width = 4, .piece = list, .n = 2 * ACROSS};
    struct storage *st = &f->table.storages[f->table.rows[i].t.storage];
    unsigned char *bytes = kept.bytes[kept.n++] = malloc(rows * columns * 4);
    source *own, *made = NULL;
    memset(bytes, 0, rows * columns * 4);
    own = source_mem(bytes, rows * columns * 4, CKPT_NO_OFFSET);
    for (size_t k = 0; k < 2 * ACROSS; k++) {
        uint64_t from = k / 2 * columns / ACROSS, to = (k / 2 + 1) * columns / ACROSS, third = rows / 3;
        offset[k][0] = k % 2 ? third : 0;
        offset[k][1] = from;
        size[k][0] = k % 2 ? rows - third : third;
        size[k][1] = to - from;
        list[k] = (struct piece){.offset = offset[k], .size = size[k], .src = own, .at = end};
        for (uint64_t r = 0; r < size[k][0]; r++, end += size[k][1] * 4)
            CU_ASSERT_EQUAL(source_read(st->src, st->off + ((offset[k][0] + r) * columns + from) * 4,
                                        bytes + end, (size_t)size[k][1] * 4, NULL),
                            CKPT_OK);
    }
    CU_ASSERT_EQUAL_FATAL(pieces_source(f->a, &p, &made, &at, NULL), CKPT_OK);
    source_unref(own);
    source_unref(st->src);
    st->src = made;
    st->off = at;
    f->table.rows[i].t.file_offset = CKPT_NO_OFFSET;
}

static ckpt_file *matrices(const float *values)
{
    char header[256];
    uint64_t small = 70 * 41 * 4, large = (uint64_t)ROWS * COLUMNS * 4;
    snprintf(header, sizeof header,
             "{'small':{'dtype':'F32','shape':[70,41],'data_offsets':[0,%llu]},"
             "'large':{'dtype':'F32','shape':[%u,%u],'data_offsets':[%llu,%llu]}}",
             (unsigned long long)small, ROWS, COLUMNS, (unsigned long long)small,
             (unsigned long long)(small + large));
    return flat_open(quoted(header), values, (size_t)(small + large));
}

static int any_change(void *user, const ckpt_diff_event *e)
{
    *(unsigned *)user += e->what != CKPT_DIFF_SAME;
    return 0;
}

static void digest(ckpt_file *f, unsigned threads, uint8_t out[CKPT_DIGEST_MAX])
{
    uint8_t all[2 * CKPT_DIGEST_MAX];
    ckpt_work how = {.struct_size = sizeof how, .threads = threads};
    memset(out, 0, CKPT_DIGEST_MAX);
    CU_ASSERT_EQUAL(ckpt_digest_tensors(f, CKPT_XXH3, &how, all, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_file(f, CKPT_XXH3, all, out, NULL), CKPT_OK);
}

static void same_tensors(ckpt_file *a, ckpt_file *b)
{
    uint8_t one[CKPT_DIGEST_MAX], other[CKPT_DIGEST_MAX];
    unsigned changes = 0;
    ckpt_diff_options o = {.struct_size = sizeof o, .threads = 3};
    digest(a, 1, one);
    for (unsigned threads = 1; threads < 5; threads += 3) {
        digest(b, threads, other);
        CU_ASSERT_EQUAL(memcmp(one, other, sizeof one), 0);
    }
    CU_ASSERT_EQUAL(ckpt_diff(a, b, &o, any_change, &changes, NULL, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(changes, 0);
}

/* writes_same - converted by several threads, it is the same file again. */
static void writes_same(ckpt_file *f, ckpt_file *want, const char *path)
{
    ckpt_plan *p = NULL;
    ckpt_file *written = NULL;
    ckpt_write_options o = {.struct_size = sizeof o, .threads = 3};
    ckpt_error err;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, path, &o, NULL, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &written, &err), CKPT_OK);
    same_tensors(want, written);
    ckpt_close(written);
    ckpt_plan_free(p);
    remove(path);
}

static void like_any_other(void)
{
    size_t n = 70 * 41 + (size_t)ROWS * COLUMNS;
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(i * 2654435761u % 1000003) - 500000;
    ckpt_file *want = matrices(values), *f = matrices(values);
    ckpt_stats one[2] = {CKPT_INIT(ckpt_stats)}, other[2] = {CKPT_INIT(ckpt_stats)};
    put_in_pieces(f, ckpt_tensor_find(f, (ckpt_str){"small", 5}), 70, 41);
    put_in_pieces(f, ckpt_tensor_find(f, (ckpt_str){"large", 5}), ROWS, COLUMNS);
    same_tensors(want, f);
    CU_ASSERT_EQUAL(ckpt_stat(want, (const uint32_t[]){0, 1}, 2, NULL, one, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_stat(f, (const uint32_t[]){0, 1}, 2, NULL, other, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(one, other, sizeof one), 0);
    char path[64], folder[] = "/tmp/unit-pieces-XXXXXX";
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    writes_same(f, want, path);
    snprintf(path, sizeof path, "%s/a.pt", folder);
    writes_same(f, want, path);
    remove(folder);
    flat_close();
    free(values);
    while (kept.n)
        free(kept.bytes[--kept.n]);
}

void suite_pieces(void)
{
    UNIT(random_pieces);
    UNIT(narrow_columns);
    UNIT(holes);
    UNIT(overlaps);
    UNIT(outside);
    UNIT(one_piece);
    UNIT(a_million);
    UNIT(made_to_be_slow);
    UNIT(few_reads);
    UNIT(by_threads);
    UNIT(like_any_other);
}
