/* Streams: the elements of any strided view, byte order, conj and neg bits, and checksums. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32.h"
#include "core/dtype.h"
#include "core/elements.h"
#include "core/stream.h"
#include "unit.h"

static uint32_t seed = 1;

static uint32_t random_below(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

#define STORAGE_OFFSET 64 /* the offset of the storage in its source */

/* A table of one tensor. DATA are the bytes of its storage, and an unmapped page follows them. */
static struct row row;
static struct storage *storage; /* that of the table */
static struct table table;
static unsigned char *guarded, *data;
static size_t guarded_size;

/* put_row - puts ROW into the table. */
static void put_row(void) { CU_ASSERT_FATAL(table_replace_row(&table, 0, &row)); }

/* make_tensor - makes a tensor of DT whose storage has SIZE random bytes; set_shape() must follow. */
static void make_tensor(ckpt_dtype dt, size_t size)
{
    guarded_size = STORAGE_OFFSET + size;
    unsigned char *random_bytes = malloc(guarded_size);
    for (size_t i = 0; i < guarded_size; i++)
        random_bytes[i] = (unsigned char)random_below(256);
    guarded = unit_guard(random_bytes, guarded_size);
    data = guarded + STORAGE_OFFSET;
    free(random_bytes);
    row = (struct row){.t = {.name = STR_LIT("w"), .dtype = CKPT_DT_U8}};
    table = (struct table){.a = arena_new(UINT64_MAX), .max_rows = 1};
    struct storage s = {.src = source_mem(guarded, guarded_size, 0), .off = STORAGE_OFFSET};
    s.nbytes = size;
    s.key = STR_LIT("key");
    CU_ASSERT_FATAL(table_add_storage(&table, &s, &row.t.storage, &(ckpt_error){0}) == CKPT_OK);
    CU_ASSERT_FATAL(table_add_row(&table, &row, NULL, &(ckpt_error){0}) == CKPT_OK);
    row.t.dtype = (uint16_t)dt;
    row.t.has_shape = row.t.has_data = true;
    storage = table.storages;
}

static void free_tensor(void)
{
    table_close(&table);
    arena_free(table.a);
    unit_guard_free(guarded, guarded_size);
}

/* set_shape - sets the shape of the tensor to SIZE; STRIDE and OFFSET count elements. */
static void set_shape(uint32_t ndim, const uint64_t *size, const uint64_t *stride, uint64_t offset)
{
    row.t.ndim = ndim;
    row.t.shape = size;
    row.t.stride = stride;
    row.t.storage_offset = offset;
    row.t.elements = 1;
    for (uint32_t k = 0; k < ndim; k++)
        row.t.elements *= size[k];
    dtype_bytes((ckpt_dtype)row.t.dtype, row.t.elements, &row.t.nbytes);
    put_row();
}

/* element_at - returns element I of the tensor, by the definition of a strided view. */
static const unsigned char *element_at(uint64_t i, size_t width)
{
    uint64_t at = row.t.storage_offset;
    for (uint32_t k = row.t.ndim; k-- > 0; i /= row.t.shape[k])
        at += i % row.t.shape[k] * row.t.stride[k];
    return data + at * width;
}

/* streams_as_defined - returns whether streaming the tensor gives the elements that element_at() finds. */
static bool streams_as_defined(size_t width)
{
    size_t size = (size_t)row.t.elements * width, done = 0, got;
    size_t max_chunk = 16 + random_below(3) * random_below(300000);
    unsigned char *out = malloc(size + max_chunk);
    stream *s = NULL;
    ckpt_error err;
    bool ok = stream_open(&table, 0, NULL, &s, &err) == CKPT_OK;
    do {
        ok = ok && stream_next(s, out + done, max_chunk, &got, &err) == CKPT_OK && got % width == 0 &&
             done + got <= size;
        done += ok ? got : 0;
    } while (ok && got);
    stream_close(s);
    ok = ok && done == size;
    for (uint64_t i = 0; ok && i < row.t.elements; i++)
        ok = memcmp(out + i * width, element_at(i, width), width) == 0;
    free(out);
    return ok;
}

/* reads_as_defined - returns whether reading a random range gives the elements that element_at() finds. */
static bool reads_as_defined(size_t width)
{
    uint64_t first = random_below((uint32_t)row.t.elements + 1), count = row.t.elements - first;
    count = count ? random_below((uint32_t)count + 1) : 0;
    unsigned char *out = malloc((size_t)count * width + 1);
    bool ok = stream_read(&table, 0, first, count, out, NULL) == CKPT_OK;
    for (uint64_t i = 0; ok && i < count; i++)
        ok = memcmp(out + i * width, element_at(first + i, width), width) == 0;
    free(out);
    return ok;
}

static const ckpt_dtype dtype_of_each_width[] = {CKPT_DT_U8, CKPT_DT_BF16, CKPT_DT_F32, CKPT_DT_F64,
                                                 CKPT_DT_C128};

/* set_random_view - makes a random view of up to 6 dimensions, and a storage that ends with the last element
 * of the view. Dimensions may be repeated, permuted, overlapping or with gaps. */
static void set_random_view(uint64_t size[6], uint64_t stride[6])
{
    ckpt_dtype dt = dtype_of_each_width[random_below(5)];
    uint32_t ndim = random_below(7);
    uint64_t run = 1, offset = random_below(2) * random_below(50);
    uint64_t last = offset; /* of the last element of the view, counted in elements */
    for (uint32_t k = 0; k < ndim; k++) {
        size[k] = random_below(20) == 0 ? 0 : 1 + random_below(random_below(4) ? 6 : 30);
        switch (random_below(6)) {
        case 0: stride[k] = 0; break;
        case 1: stride[k] = random_below(700); break;
        default:
            stride[k] = run;
            run *= size[k] ? size[k] : 1;
            run += random_below(5) == 0 ? random_below(3000) : 0;
        }
    }
    for (uint32_t k = 0; k + 1 < ndim; k++) { /* shuffles the dimensions */
        uint32_t j = k + random_below(ndim - k);
        uint64_t n = size[k], s = stride[k];
        size[k] = size[j], stride[k] = stride[j];
        size[j] = n, stride[j] = s;
    }
    bool empty = false;
    for (uint32_t k = 0; k < ndim; k++) {
        empty = empty || size[k] == 0;
        last += size[k] ? (size[k] - 1) * stride[k] : 0;
    }
    if (last > 20000000) { /* the storage would be too large */
        size[0] = 0;
        empty = true;
        ndim = 1;
    }
    make_tensor(dt, empty ? 0 : (size_t)(last + 1) * dtype_info(dt)->block_bytes);
    set_shape(ndim, size, stride, offset);
}

static void random_views_are_read_as_defined(void)
{
    for (int i = 0; i < 1500; i++) {
        uint64_t size[6], stride[6];
        set_random_view(size, stride);
        size_t width = dtype_info((ckpt_dtype)row.t.dtype)->block_bytes;
        if (row.t.elements < 2000000) {
            CU_ASSERT(streams_as_defined(width));
            CU_ASSERT(reads_as_defined(width));
        }
        free_tensor();
    }
}

/* The views are larger than the blocks and windows in which they are read. */
static void large_views_are_read_as_defined(void)
{
    static const struct {
        uint64_t size[3], stride[3];
    } views[] = {
        {{1, 700, 1500}, {0, 1, 700}},    /* transposed */
        {{1, 3, 300001}, {0, 1, 3}},      /* transposed: a few long columns */
        {{1, 300001, 3}, {0, 1, 300001}}, /* transposed: many short columns */
        {{500, 2, 999}, {1, 500, 1000}},  /* permuted, with gaps */
        {{2, 1000, 1000}, {0, 1, 1001}},  /* repeated */
        {{3, 200000, 1}, {200100, 1, 7}}, /* long runs with gaps */
        {{1, 50, 40000}, {0, 1, 50}},     /* transposed */
        {{1000, 1000, 1}, {1, 1, 1}},     /* overlapping windows */
    };
    for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
        uint64_t last = 0;
        for (int k = 0; k < 3; k++)
            last += (views[v].size[k] - 1) * views[v].stride[k];
        make_tensor(v % 2 ? CKPT_DT_F32 : CKPT_DT_F16, (size_t)(last + 1) * (v % 2 ? 4 : 2));
        set_shape(3, views[v].size, views[v].stride, 0);
        CU_ASSERT(streams_as_defined(v % 2 ? 4 : 2));
        CU_ASSERT(reads_as_defined(v % 2 ? 4 : 2));
        free_tensor();
    }
}

static void scalars_and_a_hundred_dimensions_are_read(void)
{
    uint64_t size[100], stride[100];
    make_tensor(CKPT_DT_I16, 24);
    set_shape(0, NULL, NULL, 3);
    unsigned char out[24];
    CU_ASSERT(stream_read(&table, 0, 0, 1, out, NULL) == CKPT_OK && memcmp(out, data + 6, 2) == 0);
    CU_ASSERT(stream_read(&table, 0, 0, 2, out, NULL) == CKPT_EUSAGE);
    CU_ASSERT(stream_read(&table, 0, UINT64_MAX, 2, out, NULL) == CKPT_EUSAGE);
    CU_ASSERT(stream_read(&table, 1, 0, 0, out, NULL) == CKPT_EUSAGE);
    for (int k = 0; k < 100; k++) {
        size[k] = k == 40 ? 3 : k == 70 ? 2 : 1;
        stride[k] = k == 40 ? 1 : k == 70 ? 4 : UINT64_MAX;
    }
    set_shape(100, size, stride, 1);
    CU_ASSERT(streams_as_defined(2));
    size[40] = 0;
    set_shape(100, size, stride, UINT64_MAX);
    size_t got = 1;
    stream *s = NULL;
    CU_ASSERT(stream_open(&table, 0, NULL, &s, NULL) == CKPT_OK);
    CU_ASSERT(stream_next(s, out, 16, &got, NULL) == CKPT_OK && got == 0);
    stream_close(s);
    free_tensor();
}

static size_t nreads;

static ckpt_status read_and_count(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    (void)s;
    (void)err;
    nreads++;
    memcpy(out, guarded + off, n);
    return CKPT_OK;
}

/* The expanded dimensions have the stride 0: they repeat the same elements. */
static void expanded_views_are_read_with_at_most_4_reads(void)
{
    static const struct source_ops ops = {.read_at = read_and_count};
    static const uint64_t size[][3] = {{3000017, 1, 1}, {1000003, 3, 2}, {2, 700001, 3}, {70001, 2, 30}};
    static const uint64_t stride[][3] = {{0, 0, 0}, {0, 2, 1}, {0, 0, 1}, {0, 0, 2}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        make_tensor(CKPT_DT_F32, 4 * 64);
        set_shape(3, size[i], stride[i], 1);
        source counting = {.ops = &ops, .size = guarded_size, .refs = 1};
        source *original = storage->src;
        storage->src = &counting;
        table.max_expanded = UINT64_MAX;
        nreads = 0;
        CU_ASSERT(streams_as_defined(4));
        CU_ASSERT(nreads <= 4);
        storage->src = original;
        free_tensor();
    }
}

static void views_beyond_the_storage_are_refused(void)
{
    static const struct {
        uint64_t size[2], stride[2], offset;
    } views[] = {
        /* sizes, strides and offset; the storage has 24 elements */
        {{5, 5}, {5, 1}, 0},
        {{4, 6}, {6, 1}, 1},
        {{6, 4}, {1, 7}, 0},
        {{2, 2}, {UINT64_MAX, 1}, 0},
        {{2, 2}, {1, UINT64_MAX / 4}, 0},
        {{1, 1}, {1, 1}, UINT64_MAX},
        {{1, 1}, {1, 1}, 24},
        {{2, 2}, {3, 1}, UINT64_MAX / 4},
    };
    ckpt_error err;
    unsigned char out[128];
    make_tensor(CKPT_DT_F32, 24 * 4);
    for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
        set_shape(2, views[v].size, views[v].stride, views[v].offset);
        CU_ASSERT(stream_read(&table, 0, 0, 1, out, &err) != CKPT_OK);
        CU_ASSERT(err.status == CKPT_EFORMAT || err.status == CKPT_EUNSUPPORTED);
    }
    row.t.has_data = false;
    put_row();
    CU_ASSERT(stream_read(&table, 0, 0, 1, out, &err) == CKPT_ELOSSY);
    free_tensor();
}

static void packed_types_are_counted_in_bytes(void)
{
    unsigned char out[16];
    static const uint64_t sizes[] = {4, 4}, transposed[] = {1, 4};
    make_tensor(CKPT_DT_QU4X2, 16); /* two elements in a byte */
    set_shape(1, (uint64_t[]){12}, (uint64_t[]){1}, 4);
    CU_ASSERT(row.t.nbytes == 6);
    CU_ASSERT(stream_read(&table, 0, 0, 6, out, NULL) == CKPT_OK && memcmp(out, data + 2, 6) == 0);
    CU_ASSERT(stream_read(&table, 0, 4, 2, out, NULL) == CKPT_OK && memcmp(out, data + 6, 2) == 0);
    CU_ASSERT(stream_read(&table, 0, 4, 3, out, NULL) == CKPT_EUSAGE);
    row.t.storage_offset = 3; /* in the middle of a byte */
    put_row();
    CU_ASSERT(stream_read(&table, 0, 0, 6, out, NULL) == CKPT_EUNSUPPORTED);
    set_shape(2, sizes, transposed, 0);
    CU_ASSERT(stream_read(&table, 0, 0, 1, out, NULL) == CKPT_EUNSUPPORTED);
    free_tensor();
}

/* apply_flags - transforms the N bytes of elements at BYTES: reverses each unit of SWAP bytes (0: none), and
 * conjugates (CONJ) and negates (NEG) the elements. Before and after, they are in host byte order, but with
 * SWAP or for C32 as in a storage. */
static void apply_flags(ckpt_dtype dt, uint8_t swap, bool conj, bool neg, void *bytes, size_t n)
{
    struct element_transform e;
    const size_t block = dtype_info(dt)->block_bytes;
    const bool raw = dt == CKPT_DT_C32 || swap;
    const size_t width = raw ? 1 : dt == CKPT_DT_C64 || dt == CKPT_DT_C128 ? block / 2 : block;
    unit_to_host_order(bytes, n / width, width);
    CU_ASSERT_EQUAL_FATAL(element_transform_init(&e, dt, dtype_info(dt)->block_bytes, swap, conj, neg, NULL),
                          CKPT_OK);
    element_transform_apply(&e, bytes, n);
    unit_to_host_order(bytes, n / width, width);
}

static void conj_neg_and_byte_order_are_applied(void)
{
    float c64[] = {1, 2, -3, -4}, f32[] = {1, -2};
    double c128[] = {1, -2};
    int32_t i32[] = {1, -2, 0, INT32_MIN};
    int8_t i8[] = {1, -2, 0, INT8_MIN};
    unsigned char c32[] = {0, 0x3C, 0, 0xBC}; /* 1 - 1j */
    /* 0, NaN in place of -0, the least positive number, its negative */
    unsigned char f8_fnuz[] = {0x00, 0x80, 0x01, 0x81};
    unsigned char bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    apply_flags(CKPT_DT_C64, 0, true, false, c64, sizeof c64);
    CU_ASSERT(c64[0] == 1 && c64[1] == -2 && c64[2] == -3 && c64[3] == 4);
    apply_flags(CKPT_DT_C64, 0, true, true, c64, sizeof c64);
    CU_ASSERT(c64[0] == -1 && c64[1] == -2 && c64[2] == 3 && c64[3] == 4);
    apply_flags(CKPT_DT_C64, 0, false, true, c64, sizeof c64);
    CU_ASSERT(c64[0] == 1 && c64[1] == 2 && c64[2] == -3 && c64[3] == -4);
    apply_flags(CKPT_DT_F32, 0, true, true, f32, sizeof f32);
    CU_ASSERT(f32[0] == -1 && f32[1] == 2);
    apply_flags(CKPT_DT_C128, 0, true, false, c128, sizeof c128);
    CU_ASSERT(c128[0] == 1 && c128[1] == 2);
    apply_flags(CKPT_DT_C32, 0, true, false, c32, sizeof c32);
    CU_ASSERT(c32[1] == 0x3C && c32[3] == 0x3C);
    apply_flags(CKPT_DT_I32, 0, true, true, i32, sizeof i32);
    CU_ASSERT(i32[0] == -1 && i32[1] == 2 && i32[2] == 0 && i32[3] == INT32_MIN);
    apply_flags(CKPT_DT_I8, 0, false, true, i8, sizeof i8);
    CU_ASSERT(i8[0] == -1 && i8[1] == 2 && i8[2] == 0 && i8[3] == INT8_MIN);
    apply_flags(CKPT_DT_F8_E5M2FNUZ, 0, false, true, f8_fnuz, sizeof f8_fnuz);
    CU_ASSERT(memcmp(f8_fnuz, "\x00\x80\x81\x01", 4) == 0);
    apply_flags(CKPT_DT_C64, 4, false, false, bytes, 8);
    CU_ASSERT(memcmp(bytes, "\4\3\2\1\10\7\6\5", 8) == 0);
    apply_flags(CKPT_DT_I64, 8, false, false, bytes, 8);
    CU_ASSERT(memcmp(bytes, "\5\6\7\10\1\2\3\4", 8) == 0);
    apply_flags(CKPT_DT_F16, 2, false, true, bytes, 8);
    CU_ASSERT(memcmp(bytes, "\6\205\10\207\2\201\4\203", 8) == 0);
    struct element_transform e;
    CU_ASSERT(element_transform_init(&e, CKPT_DT_BOOL, 1, 0, true, true, NULL) == CKPT_EUNSUPPORTED);
    CU_ASSERT(element_transform_init(&e, CKPT_DT_BOOL, 1, 0, true, false, NULL) == CKPT_OK);
    CU_ASSERT(element_transform_init(&e, CKPT_DT_U8, 1, 4, false, false, NULL) == CKPT_EUNSUPPORTED);
}

/* Reads a column of a conjugated big-endian matrix. */
static void gathered_elements_are_conjugated_and_swapped(void)
{
    unsigned char out[32], want[32];
    make_tensor(CKPT_DT_C64, 64);
    storage->swap_width = 4; /* bytes of a real or imaginary number */
    row.t.conj = true;
    put_row();
    set_shape(1, (uint64_t[]){4}, (uint64_t[]){2}, 1);
    /* In each 4 bytes of the big-endian storage, byte b ^ 3 becomes byte b. The sign of the imaginary number
     * is in the last byte. */
    for (int i = 0; i < 4; i++)
        for (int b = 0; b < 8; b++)
            want[8 * i + b] = (unsigned char)(data[8 + 16 * i + (b ^ 3)] ^ (b == 7 ? 0x80 : 0));
    CU_ASSERT(stream_read(&table, 0, 0, 4, out, NULL) == CKPT_OK && memcmp(out, want, 32) == 0);
    free_tensor();
}

static int notices;

static void count_notice(void *user, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    CU_ASSERT(user == &notices && strstr(text, "\"key\"") && strstr(text, "deadbeef"));
    notices++;
}

/* stream_all - streams the tensor to its end; returns the last status. */
static ckpt_status stream_all(const struct stream_options *o, ckpt_error *err)
{
    stream *s = NULL;
    unsigned char out[4096];
    size_t got = 1;
    ckpt_status st = stream_open(&table, 0, o, &s, err);
    while (st == CKPT_OK && got)
        st = stream_next(s, out, sizeof out, &got, err);
    stream_close(s);
    return st;
}

static void bytes_of_any_width_are_swapped(void)
{
    for (size_t width = 1; width <= 16; width++)
        for (size_t n = 0; n <= 80; n++) {
            unsigned char bytes[96], want[96];
            for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = want[i] = (unsigned char)(i * 37 + n);
            size_t at = n % 9, swapped = n - n % width;
            for (size_t i = 0; i < swapped; i++)
                want[at + i] = bytes[at + i / width * width + (width - 1 - i % width)];
            swap_bytes(bytes + at, n, width);
            CU_ASSERT_EQUAL(memcmp(bytes, want, sizeof bytes), 0);
        }
}

/* While a tensor of all bytes of a storage is streamed, the CRC-32 of the storage is checked. For a tensor of
 * some or none of its bytes, the CRC-32 is checked before. */
static void checksums_are_checked(void)
{
    static const uint64_t all[] = {25000}, first_elements[] = {5000}, none[] = {0}, contiguous[] = {1};
    const uint64_t *const sizes[] = {all, first_elements, none};
    struct stream_options ignore_crc = {.ignore_crc = true, .notice = count_notice, .user = &notices};
    ckpt_error err;
    for (size_t i = 0; i < 3; i++) {
        make_tensor(CKPT_DT_F32, 100000);
        set_shape(1, sizes[i], contiguous, 0);
        storage->has_crc = true;
        storage->crc = crc32_update(0, data, 100000);
        storage->swap_width = 4;
        CU_ASSERT(stream_all(NULL, &err) == CKPT_OK && storage->crc_checked);
        storage->crc_checked = false;
        storage->crc = 0xDEADBEEF;
        CU_ASSERT(stream_all(NULL, &err) == CKPT_ECHECKSUM && !storage->crc_checked);
        CU_ASSERT(strstr(err.what, "\"key\"") && strstr(err.what, "deadbeef") &&
                  strstr(err.hint, "--ignore-crc"));
        CU_ASSERT(storage_check_crc(&table, 0, NULL, &err) == CKPT_ECHECKSUM);
        notices = 0;
        CU_ASSERT(stream_all(&ignore_crc, &err) == CKPT_OK && notices == 1);
        CU_ASSERT(stream_all(&ignore_crc, &err) == CKPT_OK && notices == 1);
        CU_ASSERT(storage_check_crc(&table, 1, NULL, &err) == CKPT_EUSAGE);
        free_tensor();
    }
}

void suite_stream(void)
{
    UNIT(random_views_are_read_as_defined);
    UNIT(large_views_are_read_as_defined);
    UNIT(scalars_and_a_hundred_dimensions_are_read);
    UNIT(expanded_views_are_read_with_at_most_4_reads);
    UNIT(views_beyond_the_storage_are_refused);
    UNIT(packed_types_are_counted_in_bytes);
    UNIT(conj_neg_and_byte_order_are_applied);
    UNIT(gathered_elements_are_conjugated_and_swapped);
    UNIT(bytes_of_any_width_are_swapped);
    UNIT(checksums_are_checked);
}
