/* ckpt_verify(): NaN and Inf, changed and truncated files, and any number of threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "codec/zip_header.h"
#include "core/check.h"
#include "core/finite.h"
#include "core/number.h"
#include "unit.h"

/* ------------------------------------------------------------------- finite */

static const ckpt_dtype floats[] = {CKPT_DT_F64,     CKPT_DT_F32,     CKPT_DT_F16,         CKPT_DT_BF16,
                                    CKPT_DT_F8_E4M3, CKPT_DT_F8_E5M2, CKPT_DT_F8_E4M3FNUZ, CKPT_DT_F8_E8M0,
                                    CKPT_DT_C32,     CKPT_DT_C64,     CKPT_DT_C128};

/* count_one_by_one - counts NaN and Inf by decoding one element after the other. */
static struct finite count_one_by_one(ckpt_dtype dt, const unsigned char *p, size_t elements)
{
    struct finite f = {.seen = elements, .first_index = UINT64_MAX};
    unsigned width = ckpt_dtype_bits(dt) / 8;
    for (size_t i = 0; i < elements; i++) {
        double x[2] = {0, 0};
        number_decode(dt, p + i * width, 1, x);
        bool nan = isnan(x[0]) || isnan(x[1]), inf = !nan && (isinf(x[0]) || isinf(x[1]));
        f.nan += nan;
        f.inf += inf;
        if ((nan || inf) && f.first_index == UINT64_MAX)
            f.first_index = i;
    }
    return f;
}

/* check_counts - checks that finite_add(), called with two pieces of the BYTES bytes P, counts as
 * count_one_by_one() does. */
static void check_counts(ckpt_dtype dt, const unsigned char *p, size_t bytes)
{
    size_t width = ckpt_dtype_bits(dt) / 8, first_piece = bytes / width / 3 * width;
    struct finite want = count_one_by_one(dt, p, bytes / width), got = {0};
    finite_add(&got, dt, p, first_piece);
    finite_add(&got, dt, p + first_piece, bytes - first_piece);
    CU_ASSERT_EQUAL(got.seen, want.seen);
    CU_ASSERT_EQUAL(got.nan, want.nan);
    CU_ASSERT_EQUAL(got.inf, want.inf);
    CU_ASSERT_EQUAL(got.first_index, want.first_index);
}

static void nan_and_inf_are_counted(void)
{
    static unsigned char b[65536 * 2];
    uint32_t x = 1;
    for (size_t k = 0; k < sizeof floats / sizeof *floats; k++) {
        CU_ASSERT(finite_applies_to(floats[k]));
        for (size_t i = 0; i < sizeof b; i++) { /* random; a quarter are 0x7f or 0xff, for NaN and Inf */
            x = x * 1664525 + 1013904223;
            b[i] = x >> 30 ? (unsigned char)(x >> 16) : (unsigned char)(0x7f | x >> 8);
        }
        for (size_t n = 0; n < 4096; n = n * 3 / 2 + 16)
            check_counts(floats[k], b + n, n);
        check_counts(floats[k], b, sizeof b);
        memset(b, 0x3b, sizeof b); /* only finite numbers */
        check_counts(floats[k], b, sizeof b);
    }
    for (size_t i = 0; i < 65536; i++) { /* every value of the 16-bit types */
        b[2 * i] = (unsigned char)i;
        b[2 * i + 1] = (unsigned char)(i >> 8);
    }
    check_counts(CKPT_DT_F16, b, sizeof b);
    check_counts(CKPT_DT_BF16, b, sizeof b);
    CU_ASSERT(!finite_applies_to(CKPT_DT_I32));
    CU_ASSERT(!finite_applies_to(CKPT_DT_QI8));
    CU_ASSERT(!finite_applies_to(CKPT_DT_F4));
}

/* -------------------------------------------------------------------- files */

/* The number of findings, and the first of them. */
struct findings {
    size_t count;
    char id[32], where[256], what[384];
    uint64_t offset;
    size_t stop_at; /* the number of findings after which verifying is cancelled; 0: never */
};

static int record_verify_finding(void *user, const ckpt_finding *f)
{
    struct findings *found = user;
    CU_ASSERT_PTR_NOT_NULL(ckpt_finding_text(f->id));
    CU_ASSERT(f->error->what[0] != 0);
    if (found->count++ == 0) {
        (void)snprintf(found->id, sizeof found->id, "%s", f->id);
        (void)snprintf(found->where, sizeof found->where, "%s", f->error->where);
        (void)snprintf(found->what, sizeof found->what, "%s", f->error->what);
        found->offset = f->error->offset;
    }
    return found->count == found->stop_at;
}

static char path[64];

static void write_file(const unsigned char *bytes, size_t n)
{
    FILE *to = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(to);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, to), n);
    CU_ASSERT_EQUAL(fclose(to), 0);
}

static unsigned char *read_corpus_file(const char *name, size_t *n)
{
    FILE *from = fopen(unit_corpus_path(name), "rb");
    unsigned char *bytes = malloc(1 << 20);
    CU_ASSERT_PTR_NOT_NULL_FATAL(from);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    *n = fread(bytes, 1, 1 << 20, from);
    (void)fclose(from);
    return bytes;
}

static ckpt_status verify(const ckpt_verify_options *o, struct findings *found, ckpt_verify_result *r)
{
    size_t stop_at = found->stop_at;
    *found = (struct findings){.stop_at = stop_at};
    return ckpt_verify(path, o, record_verify_finding, found, r, NULL);
}

/* make_empty_file - creates the file that write_file then fills, and stores its name in path. */
static void make_empty_file(void)
{
    (void)snprintf(path, sizeof path, "/tmp/ckpt-verify-XXXXXX");
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    (void)close(fd);
}

static void each_changed_byte_of_a_record_is_found(void)
{
    size_t n, changed_bytes = 0;
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    struct findings found = {0};
    unsigned char *b = read_corpus_file("torch/t26/tied.pt", &n);
    make_empty_file();
    write_file(b, n);
    CU_ASSERT_EQUAL(verify(NULL, &found, &r), CKPT_OK);
    CU_ASSERT_EQUAL(r.findings, 0);
    CU_ASSERT_EQUAL(r.checksums, 1);
    for (size_t at = 0; at + ZIP_LOCAL_SIZE < n; at++) {
        if (memcmp(b + at, "PK\3\4", 4) != 0) /* not a local header */
            continue;
        size_t name_length = b[at + 26] + 256u * b[at + 27], extra_length = b[at + 28] + 256u * b[at + 29];
        size_t data = at + ZIP_LOCAL_SIZE + name_length + extra_length;
        for (size_t i = data; i < n && memcmp(b + i, "PK", 2) != 0; i++) {
            b[i] ^= 0x10;
            write_file(b, n);
            CU_ASSERT_EQUAL(verify(NULL, &found, &r), CKPT_OK);
            CU_ASSERT(r.findings >= 1);
            CU_ASSERT_EQUAL(r.findings, found.count);
            changed_bytes++;
            b[i] ^= 0x10;
        }
    }
    CU_ASSERT(changed_bytes > 100);
    free(b);
    (void)unlink(path);
}

static void truncated_files_are_found(void)
{
    static const char *const files[] = {"torch/t26/tied.pt", "torch/t26/tied_legacy.pt"};
    ckpt_verify_result r = CKPT_INIT(ckpt_verify_result);
    struct findings found = {0};
    make_empty_file();
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        size_t n;
        unsigned char *b = read_corpus_file(files[k], &n);
        for (size_t length = 1; length < n; length += 1 + n / 512) {
            write_file(b, length);
            CU_ASSERT(verify(NULL, &found, &r) != CKPT_OK || r.findings > 0);
        }
        free(b);
    }
    (void)unlink(path);
}

static const ckpt_work one_thread = {.struct_size = sizeof(ckpt_work), .threads = 1};

/* Two of twelve tensors of 1 MiB have NaN. */
static void any_number_of_threads_finds_the_same(void)
{
    enum { TENSORS = 12, TENSOR_BYTES = 1 << 20 };
    ckpt_verify_result one_thread_result = CKPT_INIT(ckpt_verify_result),
                       four_threads_result = CKPT_INIT(ckpt_verify_result);
    struct findings by_one_thread = {0}, by_four = {0};
    buf b;
    buf_init(&b, 32u << 20);
    buf_u64le(&b, 0);
    buf_byte(&b, '{');
    for (unsigned i = 0; i < TENSORS; i++)
        buf_printf(&b, "%s\"t%u\":{\"dtype\":\"F32\",\"shape\":[%u],\"data_offsets\":[%u,%u]}", i ? "," : "",
                   i, TENSOR_BYTES / 4, i * TENSOR_BYTES, (i + 1) * TENSOR_BYTES);
    buf_byte(&b, '}');
    size_t data = b.len;
    b.data[0] = (unsigned char)(data - 8);
    b.data[1] = (unsigned char)((data - 8) >> 8);
    for (unsigned i = 0; i < TENSORS * TENSOR_BYTES / 4; i++)
        buf_u32le(&b, 0x3f800000); /* 1.0 */
    CU_ASSERT_FATAL(buf_ok(&b));
    memset(b.data + data + 5 * TENSOR_BYTES + 400, 0xff, 8);
    memset(b.data + data + 9 * TENSOR_BYTES + 4, 0xff, 4);
    make_empty_file();
    write_file(b.data, b.len);
    ckpt_verify_options o = {.struct_size = sizeof o, .finite = true, .how = &one_thread};
    CU_ASSERT_EQUAL(verify(&o, &by_one_thread, &one_thread_result), CKPT_OK);
    o.how = &(const ckpt_work){.struct_size = sizeof(ckpt_work), .threads = 4};
    CU_ASSERT_EQUAL(verify(&o, &by_four, &four_threads_result), CKPT_OK);
    CU_ASSERT_EQUAL(one_thread_result.findings, 2);
    CU_ASSERT_EQUAL(one_thread_result.read, (uint64_t)TENSORS * TENSOR_BYTES);
    CU_ASSERT_EQUAL(memcmp(&one_thread_result, &four_threads_result, sizeof one_thread_result), 0);
    CU_ASSERT_STRING_EQUAL(by_one_thread.where, "t5");
    CU_ASSERT_STRING_EQUAL(by_four.where, "t5");
    CU_ASSERT_STRING_EQUAL(by_one_thread.id, "not-finite");
    CU_ASSERT_STRING_EQUAL(by_one_thread.what,
                           "2 NaN and 0 Inf among 262144 elements of float32; the first at [100]");
    by_four.stop_at = 1; /* the callback cancels */
    CU_ASSERT_EQUAL(verify(&o, &by_four, &four_threads_result), CKPT_ECANCELLED);
    CU_ASSERT(by_four.count == 1 && four_threads_result.findings == 0);
    buf_free(&b);
    (void)unlink(path);
}

static void only_ids_of_findings_have_texts(void)
{
    CU_ASSERT_PTR_NOT_NULL(ckpt_finding_text("checksum"));
    CU_ASSERT_PTR_NULL(ckpt_finding_text("nothing"));
}

/* report_twice - reports the same fault for the tensors FIRST and SECOND, in different contexts; returns the
 * number of findings. */
static uint64_t report_twice(const char *first, const char *second)
{
    struct check c;
    ckpt_verify_result r;
    ckpt_error e, err;
    CU_ASSERT_EQUAL(check_init(&c, NULL, &r, &err), CKPT_OK);
    for (int i = 0; i < 2; i++) {
        (void)fail(&e, CKPT_EFORMAT, 7, "malformed");
        error_add_where(&e, "%s", i ? second : first);
        error_add_where(&e, "context %d", i);
        CU_ASSERT_EQUAL(check_report_fault(&c, "file", &e, &err), CKPT_OK);
    }
    check_free(&c);
    return r.findings;
}

static void a_fault_of_one_tensor_is_reported_once(void)
{
    CU_ASSERT_EQUAL(report_twice("fc.weight", "fc.weight"), 1);
    CU_ASSERT_EQUAL(report_twice("fc.weight", "fc.bias"), 2);
    CU_ASSERT_EQUAL(report_twice("encoder: weight", "decoder: weight"), 2); /* a name may contain ": " */
}

void suite_verify(void)
{
    UNIT(nan_and_inf_are_counted);
    UNIT(each_changed_byte_of_a_record_is_found);
    UNIT(truncated_files_are_found);
    UNIT(any_number_of_threads_finds_the_same);
    UNIT(only_ids_of_findings_have_texts);
    UNIT(a_fault_of_one_tensor_is_reported_once);
}
