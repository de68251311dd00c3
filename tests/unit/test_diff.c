/* ckpt_diff() counts differing elements, measures their distances, applies tolerances, and finds renamed
 * tensors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pickled.h"
#include "small_files.h"
#include "unit.h"

static ckpt_diff_event events[64];
static size_t nevents;
static ckpt_diff_totals totals = CKPT_INIT(ckpt_diff_totals);

static int record_event(void *user, const ckpt_diff_event *e)
{
    (void)user;
    if (nevents < 64)
        events[nevents++] = *e;
    return 0;
}

static ckpt_status compare_files(ckpt_file *a, ckpt_file *b, const ckpt_diff_options *o)
{
    nevents = 0;
    return ckpt_diff(a, b, o, record_event, NULL, &totals, NULL);
}

static int event_is(size_t i, ckpt_diff_what what, const char *name)
{
    return i < nevents && events[i].what == what && events[i].name.len == strlen(name) &&
           memcmp(events[i].name.ptr, name, strlen(name)) == 0;
}

/* open_tensor - opens a file of one tensor "w" of N elements of DTYPE, which are SIZE bytes at DATA. */
static ckpt_file *open_tensor(const char *dtype, size_t n, const void *data, size_t size)
{
    return open_one_tensor("w", dtype, n, data, size);
}

/* diff_tensors - compares N elements of A_DTYPE, which are A_SIZE bytes at A, with N elements of B_DTYPE,
 * which are B_SIZE bytes at B. Returns the only event. */
static const ckpt_diff_event *diff_tensors(const char *a_dtype, const void *a, size_t a_size,
                                           const char *b_dtype, const void *b, size_t b_size, size_t n,
                                           const ckpt_diff_options *o)
{
    CU_ASSERT_EQUAL(compare_files(open_tensor(a_dtype, n, a, a_size), open_tensor(b_dtype, n, b, b_size), o),
                    CKPT_OK);
    CU_ASSERT_EQUAL(nevents, 1);
    close_open_files();
    return &events[0];
}

static const ckpt_diff_event *diff_floats(const float *a, const float *b, size_t n,
                                          const ckpt_diff_options *o)
{
    return diff_tensors("F32", a, 4 * n, "F32", b, 4 * n, n, o);
}

static void differing_elements_are_counted_and_measured(void)
{
    const float a[] = {1, 2, 3, 4}, b[] = {1, 2.5f, 3, 2};
    const ckpt_diff_event *e = diff_floats(a, b, 4, NULL);
    CU_ASSERT_EQUAL(e->what, CKPT_DIFF_CHANGED);
    CU_ASSERT(e->values_differ && e->compared && !e->dtype_differs && !e->shape_differs);
    CU_ASSERT_EQUAL(e->differing, 2);
    CU_ASSERT_EQUAL(e->elements, 4);
    CU_ASSERT_EQUAL(e->max_abs, 2);
    CU_ASSERT_EQUAL(e->max_rel, 1);
    CU_ASSERT_EQUAL(e->mean_abs, 2.5 / 4);
    e = diff_floats(a, a, 4, NULL);
    CU_ASSERT(e->what == CKPT_DIFF_SAME && !e->within_tolerance && e->differing == 0);
}

static void tolerance_is_that_of_numpy_allclose(void)
{
    const float a[] = {1.1f, 0.05f}, b[] = {1, 0};
    ckpt_diff_options o = {.struct_size = sizeof o, .atol = 0.06};
    CU_ASSERT_EQUAL(diff_floats(a, b, 2, &o)->differing, 1);
    o.rtol = 0.05; /* the tolerance is 0.06 + 0.05 * 1 */
    const ckpt_diff_event *e = diff_floats(a, b, 2, &o);
    CU_ASSERT(e->what == CKPT_DIFF_SAME && e->within_tolerance && e->differing == 0 && e->max_abs > 0.09);
    CU_ASSERT(isinf(e->max_rel)); /* because 0.05 is compared with 0 */
}

static void nan_and_infinity_are_compared(void)
{
    const uint32_t other_nan_bits = 0x7fc00001u; /* a NaN with a different payload */
    float other_nan;
    memcpy(&other_nan, &other_nan_bits, 4);
    const float a[] = {NAN, NAN, INFINITY, INFINITY, -0.0f}, b[] = {NAN, other_nan, INFINITY, 1, 0};
    ckpt_diff_options o = {.struct_size = sizeof o, .rtol = 1, .atol = 1};
    const ckpt_diff_event *e = diff_floats(a, b, 5, NULL);
    CU_ASSERT_EQUAL(e->differing, 2); /* the NaNs of different bits, and the pair of infinity and 1 */
    CU_ASSERT(isnan(e->max_abs) && isnan(e->max_rel) && e->mean_abs == 0);
    o.equal_nan = true;
    CU_ASSERT(diff_floats(a, b, 5, &o)->differing == 1 && isinf(events[0].max_abs));
    CU_ASSERT_EQUAL(diff_floats(b, a, 5, &o)->differing, 1); /* no tolerance reaches infinity */
}

static void integers_of_64_bits_are_exact(void)
{
    const int64_t a[] = {INT64_MAX, INT64_MIN, 5}, b[] = {INT64_MAX - 1, INT64_MAX, 5};
    const ckpt_diff_event *e = diff_tensors("I64", a, 24, "I64", b, 24, 3, NULL);
    CU_ASSERT_EQUAL(e->differing, 2); /* the first pair is equal as doubles */
    CU_ASSERT_EQUAL(e->max_abs, 0x1p64);
    const uint64_t c[] = {UINT64_MAX}, d[] = {0};
    CU_ASSERT_EQUAL(diff_tensors("U64", c, 8, "U64", d, 8, 1, NULL)->max_abs, 0x1p64);
}

/* Each pair is equal as doubles; no rounding may hide that it differs. */
static void integers_are_exact_next_to_other_dtypes(void)
{
    const int64_t i[] = {(INT64_C(1) << 53) + 1, INT64_MAX, (INT64_C(1) << 62) + 1, -1, 7};
    const double f[] = {0x1p53, 0x1p63, 0x1p62, -1, 7};
    const uint64_t u[] = {(UINT64_C(1) << 53) + 2, INT64_MAX, UINT64_C(1) << 62, UINT64_MAX, 7};
    const uint64_t v[] = {UINT64_MAX, (UINT64_C(1) << 53) + 1, 7};
    const double w[] = {0x1p64, 0x1p53, 7};
    float c[10] = {0};
    ckpt_diff_options o = {.struct_size = sizeof o, .ignore_dtype = true, .norms = true};
    for (size_t k = 0; k < 5; k++)
        c[2 * k] = (float)f[k];
    const ckpt_diff_event *e = diff_tensors("I64", i, 40, "F64", f, 40, 5, &o);
    CU_ASSERT(e->what == CKPT_DIFF_CHANGED && e->differing == 3 && e->max_abs == 1 && e->rel_l2 > 0);
    e = diff_tensors("F64", f, 40, "I64", i, 40, 5, &o);
    CU_ASSERT(e->differing == 3 && e->max_abs == 1 && e->mean_abs == 3.0 / 5 && e->rel_l2 > 0);
    e = diff_tensors("I64", i, 40, "U64", u, 40, 5, &o);
    CU_ASSERT(e->differing == 3 && e->max_abs == 0x1p64); /* INT64_MAX and 7 are the same */
    e = diff_tensors("U64", v, 24, "F64", w, 24, 3, &o);
    CU_ASSERT(e->differing == 2 && e->max_abs == 1 && e->rel_l2 > 0);
    e = diff_tensors("I64", i, 40, "C64", c, 40, 5, &o);
    CU_ASSERT(e->differing == 3 && e->max_abs == 1 && e->rel_l2 > 0);
    o.atol = 1;
    e = diff_tensors("I64", i, 40, "F64", f, 40, 5, &o);
    CU_ASSERT(e->what == CKPT_DIFF_SAME && e->differing == 0 && e->max_abs == 1);
}

static void infinity_and_nan_next_to_integers_are_left_out_of_norms(void)
{
    const int64_t i[] = {3, 3, 4};
    const double f[] = {INFINITY, NAN, 4};
    ckpt_diff_options o = {.struct_size = sizeof o, .ignore_dtype = true, .norms = true};
    const ckpt_diff_event *e = diff_tensors("I64", i, 24, "F64", f, 24, 3, &o);
    CU_ASSERT(e->differing == 2 && isnan(e->max_abs) && isnan(e->rel_l2) && e->cosine == 1);
}

static void complex_numbers_are_measured_by_modulus(void)
{
    const float a[] = {3, 4, 1, 1}, b[] = {0, 0, 1, 1};
    const ckpt_diff_event *e = diff_tensors("C64", a, 16, "C64", b, 16, 2, NULL);
    CU_ASSERT(e->differing == 1 && e->max_abs == 5 && e->mean_abs == 2.5);
}

static void errors_of_a_cast_are_measured(void)
{
    const float a[] = {1, 1.00390625f};
    const uint16_t b[] = {0x3f80, 0x3f80}; /* 1 and 1 as bfloat16 */
    const ckpt_diff_event *e = diff_tensors("F32", a, 8, "BF16", b, 4, 2, NULL);
    CU_ASSERT(e->what == CKPT_DIFF_CHANGED && e->dtype_differs && e->compared);
    CU_ASSERT(e->differing == 1 && e->max_abs == 0.00390625);
    const ckpt_diff_event *s = diff_tensors("F32", a, 4, "BF16", b, 2, 1, NULL);
    CU_ASSERT(s->what == CKPT_DIFF_CHANGED && s->differing == 0 && !s->values_differ);
    CU_ASSERT(!diff_tensors("U8", "a", 1, "F8_E8M0", "\x7f", 1, 1, NULL)->shape_differs);
}

/* The tensors are longer than a chunk, and differ in their last element. */
static void the_last_chunk_is_compared(void)
{
    size_t n = 200003;
    double *a = calloc(n, 8);
    float *b = calloc(n, 4);
    a[n - 1] = 3;
    a[7] = b[7] = -2;
    const ckpt_diff_event *e = diff_tensors("F64", a, 8 * n, "F32", b, 4 * n, n, NULL);
    CU_ASSERT(e->differing == 1 && e->max_abs == 3 && e->elements == n);
    double *c = malloc(8 * n);
    memcpy(c, a, 8 * n);
    c[n - 1] = 4;
    e = diff_tensors("F64", a, 8 * n, "F64", c, 8 * n, n, NULL);
    CU_ASSERT(e->differing == 1 && e->max_abs == 1 && e->mean_abs == 1.0 / (double)n);
    free(a);
    free(b);
    free(c);
}

static void names_are_merged_in_natural_order(void)
{
    const char *a = "{\"l.10\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                    "\"l.2\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
                    "\"only.a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}";
    const char *b = "{\"m.l.2\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                    "\"m.l.10\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[1,2]},"
                    "\"m.z\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[2,4]}}";
    ckpt_diff_options o = {.struct_size = sizeof o, .ignore_prefix = "m."};
    CU_ASSERT_EQUAL(compare_files(open_safetensors(a, "abcd", 4), open_safetensors(b, "bacd", 4), &o),
                    CKPT_OK);
    CU_ASSERT(nevents == 4 && event_is(0, CKPT_DIFF_SAME, "l.2") && event_is(1, CKPT_DIFF_CHANGED, "l.10"));
    CU_ASSERT(event_is(2, CKPT_DIFF_ONLY_A, "only.a") && event_is(3, CKPT_DIFF_ONLY_B, "z"));
    CU_ASSERT(events[1].shape_differs && !events[1].compared && events[1].differing == 0);
    CU_ASSERT(totals.same == 1 && totals.changed == 1 && totals.only_a == 1 && totals.only_b == 1 &&
              totals.renamed == 0);
    const char *globs[] = {"l.*"};
    o.globs = globs;
    o.nglobs = 1;
    CU_ASSERT_EQUAL(compare_files(open_safetensors(a, "abcd", 4), open_safetensors(b, "bacd", 4), &o),
                    CKPT_OK);
    CU_ASSERT_EQUAL(nevents, 2);
    close_open_files();
}

static void globs_that_match_nothing_are_an_error(void)
{
    const float x = 1;
    const char *globs[] = {"no.such*", "!*"};
    ckpt_diff_options o = {.struct_size = sizeof o, .globs = globs, .nglobs = 1};
    CU_ASSERT_EQUAL(compare_files(open_tensor("F32", 1, &x, 4), open_tensor("F32", 1, &x, 4), &o),
                    CKPT_ENOTFOUND);
    o.nglobs = 2;
    CU_ASSERT_EQUAL(compare_files(open_tensor("F32", 1, &x, 4), open_tensor("F32", 1, &x, 4), &o),
                    CKPT_ENOTFOUND);
    close_open_files();
}

static void renames_are_found_by_their_bytes(void)
{
    const char *a = "{\"x.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                    "\"x.v\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}";
    const char *b = "{\"y.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},"
                    "\"y.v\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    CU_ASSERT_EQUAL(compare_files(open_safetensors(a, "abcd", 4), open_safetensors(b, "cdab", 4), NULL),
                    CKPT_OK);
    CU_ASSERT_EQUAL(totals.renamed, 2);
    CU_ASSERT(event_is(0, CKPT_DIFF_ONLY_A, "x.v") && event_is(1, CKPT_DIFF_RENAMED, "x.v") &&
              events[1].other.ptr[2] == 'v');
    CU_ASSERT(event_is(3, CKPT_DIFF_RENAMED, "x.w") && events[3].other.ptr[2] == 'w');
    ckpt_diff_options o = {.struct_size = sizeof o, .keys_only = true};
    CU_ASSERT_EQUAL(compare_files(open_safetensors(a, "abcd", 4), open_safetensors(b, "cdab", 4), &o),
                    CKPT_OK);
    CU_ASSERT_EQUAL(totals.renamed, 0);
    close_open_files();
}

/* Both tensors of B have the bytes of x.bias in A, but the name of neither ends in "bias". */
static void equal_bytes_alone_are_no_rename(void)
{
    const char *a = "{\"x.bias\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    const char *b = "{\"y.scale\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                    "\"y.zero\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    CU_ASSERT_EQUAL(compare_files(open_safetensors(a, "\0", 1), open_safetensors(b, "\0\0", 2), NULL),
                    CKPT_OK);
    CU_ASSERT_EQUAL(totals.renamed, 0);
    close_open_files();
}

static int stop_at_event(void *user, const ckpt_diff_event *e)
{
    (void)user;
    (void)e;
    return 1;
}

static int return_user(void *user, uint64_t done, uint64_t total)
{
    CU_ASSERT(done <= total && total == 8);
    return *(int *)user;
}

static void the_caller_can_stop(void)
{
    const float x = 1;
    int stop = 1, go_on = 0;
    ckpt_diff_options o = {.struct_size = sizeof o, .progress = return_user, .user = &stop};
    ckpt_file *a = open_tensor("F32", 1, &x, 4), *b = open_tensor("F32", 1, &x, 4);
    CU_ASSERT_EQUAL(ckpt_diff(a, b, NULL, stop_at_event, NULL, NULL, NULL), CKPT_ECANCELLED);
    CU_ASSERT_EQUAL(ckpt_diff(a, b, &o, NULL, NULL, NULL, NULL), CKPT_ECANCELLED);
    o.user = &go_on;
    CU_ASSERT_EQUAL(ckpt_diff(a, b, &o, NULL, NULL, NULL, NULL), CKPT_OK);
    close_open_files();
}

static int record_total(void *user, uint64_t done, uint64_t total)
{
    (void)done;
    *(uint64_t *)user = total;
    return 0;
}

/* If two names are tied in both files, the bytes are read once. */
static void tied_weights_are_compared_once(void)
{
    static const char *const files[] = {"torch/t26/tied.pt", "torch/t26/tied_legacy.pt"};
    uint64_t untied_bytes = 0, all_bytes = 0, total = 0;
    ckpt_diff_options o = {.struct_size = sizeof o, .progress = record_total, .user = &total};
    ckpt_file *a = open_corpus_file(files[0]), *b = open_corpus_file(files[1]);
    for (uint32_t i = 0; i < ckpt_tensor_count(a); i++) {
        const ckpt_tensor t = tensor_at(a, i);
        all_bytes += t.nbytes;
        untied_bytes += t.alias_of == CKPT_NO_TENSOR ? t.nbytes : 0;
    }
    CU_ASSERT(untied_bytes < all_bytes);
    CU_ASSERT_EQUAL(compare_files(a, b, &o), CKPT_OK);
    CU_ASSERT(total == 2 * untied_bytes && totals.same == ckpt_tensor_count(a) && nevents == totals.same);
    close_open_files();
}

/* The files have composite tensors. */
static void a_file_equals_itself(void)
{
    static const char *const files[] = {"torch/t26/sparse_coo.pt", "torch/t26/quant_per_channel.pt",
                                        "torch/t26/conj.pt", "torch/t26/nested_jagged.pt",
                                        "torch/t26/wrapper_subclass_ao.pt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ckpt_file *a = open_corpus_file(files[i]), *b = open_corpus_file(files[i]);
        CU_ASSERT_EQUAL(compare_files(a, b, NULL), CKPT_OK);
        CU_ASSERT(nevents > 0 && totals.same == nevents && totals.changed == 0);
        close_open_files();
    }
}

/* A tensor is not the same as itself if its contents cannot be read. */
static void unread_tensors_are_not_compared(void)
{
    static const struct {
        const char *file;
        uint64_t not_compared;
    } files[] = {{"torch/t26/meta.pt", 1},
                 {"torch/t26/lazy.pt", 2},
                 {"tensorflow/v2/variant.index", 1},
                 {"keras/hdf5/types.h5", 0},
                 {"torch/t26/numpy.pt", 0}};
    const ckpt_diff_options keys_only = {.struct_size = sizeof keys_only, .keys_only = 1};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ckpt_file *a = open_corpus_file(files[i].file), *b = open_corpus_file(files[i].file);
        CU_ASSERT_EQUAL(compare_files(a, b, NULL), CKPT_OK);
        CU_ASSERT(totals.same == nevents - files[i].not_compared && totals.changed == 0);
        CU_ASSERT_EQUAL(totals.not_compared, files[i].not_compared);
        CU_ASSERT_EQUAL(ckpt_file_count_unread(a, NULL), files[i].not_compared);
        CU_ASSERT_EQUAL(compare_files(a, b, &keys_only), CKPT_OK);
        CU_ASSERT_EQUAL(totals.not_compared, 0);
        close_open_files();
    }
}

#define WRAPPER(scale)                                                                                       \
    "{'t':torch._tensor._rebuild_from_type_v2(torch._utils._rebuild_wrapper_subclass,m.W,"                   \
    "(m.W,torch.float32,(4,),(1,),0,torch.serialization._get_layout('torch.strided'),"                       \
    "torch.device('cpu'),False),{'data':" FLOAT_TENSOR ",'scale':" scale "})}"

/* An attribute of a wrapper subclass that is no tensor changes the values as its components do. */
static void attributes_of_wrappers_are_compared(void)
{
    struct test_file a = make_torch_zip(WRAPPER("0.5")), b = make_torch_zip(WRAPPER("0.25"));
    CU_ASSERT_EQUAL(compare_files(a.file, a.file, NULL), CKPT_OK);
    CU_ASSERT(totals.same == 2 && totals.changed == 0);
    CU_ASSERT_EQUAL(compare_files(a.file, b.file, NULL), CKPT_OK);
    CU_ASSERT(totals.same == 1 && totals.changed == 1 && event_is(0, CKPT_DIFF_CHANGED, "t"));
    close_file(&a);
    close_file(&b);
}

/* A glob that selects a composite tensor selects its components, which hold its values. */
static void components_are_selected_with_their_composite(void)
{
    const char *globs[] = {"s"};
    const ckpt_diff_options o = {.struct_size = sizeof o, .globs = globs, .nglobs = 1};
    ckpt_file *a = open_corpus_file("torch/t26/sparse_coo.pt"),
              *b = open_corpus_file("torch/t26/sparse_coo.pt");
    CU_ASSERT_EQUAL(compare_files(a, b, &o), CKPT_OK);
    CU_ASSERT_EQUAL(totals.same, 3);
    close_open_files();
}

/* The tensors are long enough for vector code. */
static void differences_of_long_tensors_are_exact(void)
{
    enum { N = 70001 };
    float *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    double *d = malloc(N * sizeof *d);
    uint64_t differing = 0;
    double sum = 0, max_abs = 0, max_rel = 0;
    for (size_t i = 0; i < N; i++) {
        a[i] = (float)(i * 2654435761u % 1000003u) / 1000.0f - 500;
        b[i] = i % 7 ? a[i] : a[i] * 1.25f + 0.5f;
        d[i] = (double)b[i];
        double distance = fabs((double)a[i] - d[i]);
        differing += a[i] != b[i];
        sum += distance;
        max_abs = fmax(max_abs, distance);
        if (distance > 0)
            max_rel = fmax(max_rel, distance / fabs(d[i]));
    }
    for (int cast = 0; cast < 2; cast++) {
        const ckpt_diff_event *e = cast ? diff_tensors("F32", a, 4 * N, "F64", d, 8 * N, N, NULL)
                                        : diff_floats(a, b, N, NULL);
        CU_ASSERT(e->differing == differing && e->max_abs == max_abs && e->max_rel == max_rel);
        CU_ASSERT(fabs(e->mean_abs - sum / N) < 1e-12 * sum / N);
    }
    a[30000] = b[30000] = (float)NAN; /* equal, because their bytes are equal */
    b[30007] = (float)INFINITY;
    const ckpt_diff_event *e = diff_floats(a, b, N, NULL);
    CU_ASSERT_EQUAL(e->differing, differing + (30007 % 7 != 0) - (30000 % 7 == 0));
    CU_ASSERT(isinf(e->max_abs) && isfinite(e->mean_abs));
    free(a);
    free(b);
    free(d);
}

/* The relative distance and the cosine must not depend on the number of threads. */
static void norms_do_not_depend_on_threads(void)
{
    enum { N = 3000001 }; /* several chunks of work */
    ckpt_diff_options o = {.struct_size = sizeof o, .norms = true, .threads = 1};
    float *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    double bb = 0, ab = 0, aa = 0, dd = 0; /* sums of products; dd is that of (a - b)^2 */
    for (size_t i = 0; i < N; i++) {
        a[i] = (float)(i * 2654435761u % 1000003u) / 1000.0f - 500;
        b[i] = i / 4096 % 2 ? a[i] : a[i] + 3;
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
        ab += (double)a[i] * (double)b[i];
        dd += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    ckpt_diff_event one_thread = *diff_floats(a, b, N, &o);
    CU_ASSERT(fabs(one_thread.rel_l2 - sqrt(dd / bb)) < 1e-9);
    CU_ASSERT(fabs(one_thread.cosine - ab / sqrt(aa * bb)) < 1e-9);
    o.threads = 4;
    const ckpt_diff_event *e = diff_floats(a, b, N, &o);
    CU_ASSERT(e->rel_l2 == one_thread.rel_l2 && e->cosine == one_thread.cosine);
    o.norms = false;
    e = diff_floats(a, b, N, &o);
    CU_ASSERT(isnan(e->rel_l2) && isnan(e->cosine));
    o.norms = true;
    b[5] = (float)INFINITY;
    CU_ASSERT(isinf(diff_floats(a, b, N, &o)->rel_l2));
    free(a);
    free(b);
    const float complex_a[] = {3, 4, 0, 0}, complex_b[] = {0, 5, 0, 0};
    e = diff_tensors("C64", complex_a, 16, "C64", complex_b, 16, 2, &o);
    CU_ASSERT(e->rel_l2 == sqrt(10) / 5 && e->cosine == 0.8);
    const int64_t int_a[] = {3, 4}, int_b[] = {3, 5};
    e = diff_tensors("I64", int_a, 16, "I64", int_b, 16, 2, &o);
    CU_ASSERT(e->rel_l2 == 1 / sqrt(34) && e->cosine == 29 / (5 * sqrt(34)));
    e = diff_tensors("U8", "\3\4", 2, "U8", "\3\5", 2, 2, &o);
    CU_ASSERT(e->rel_l2 == 1 / sqrt(34) && e->cosine == 29 / (5 * sqrt(34)));
}

static void a_different_dtype_may_be_ignored(void)
{
    const float a[] = {1, 1.00390625f};
    const uint16_t b[] = {0x3f80, 0x3f80}; /* 1 and 1 as bfloat16 */
    ckpt_diff_options o = {.struct_size = sizeof o, .ignore_dtype = true};
    const ckpt_diff_event *e = diff_tensors("F32", a, 4, "BF16", b, 2, 1, &o);
    CU_ASSERT(e->what == CKPT_DIFF_SAME && e->dtype_differs && !e->within_tolerance);
    e = diff_tensors("F32", a, 8, "BF16", b, 4, 2, &o);
    CU_ASSERT(e->what == CKPT_DIFF_CHANGED && e->differing == 1);
    o.rtol = 0.01;
    e = diff_tensors("F32", a, 8, "BF16", b, 4, 2, &o);
    CU_ASSERT(e->what == CKPT_DIFF_SAME && e->within_tolerance);
    CU_ASSERT_EQUAL(diff_tensors("U8", "a", 1, "BOOL", "\1", 1, 1, &o)->what, CKPT_DIFF_CHANGED);
}

static void a_wrong_crc_is_reported(void)
{
    ckpt_file *a = open_corpus_file("torch/exp/26_bad_crc_data.pt"),
              *b = open_corpus_file("torch/exp/01_pyzip_stored.pt");
    ckpt_error err;
    CU_ASSERT_EQUAL(compare_files(a, b, NULL), CKPT_ECHECKSUM);
    for (int i = 0; i < 2; i++) { /* 0: only one of the files has a wrong CRC; 1: both have it */
        CU_ASSERT_EQUAL(ckpt_diff(i ? a : b, a, NULL, record_event, NULL, NULL, &err), CKPT_ECHECKSUM);
        CU_ASSERT(strstr(err.file, "26_bad_crc_data") != NULL);
    }
    ckpt_file_ignore_crc(a, true);
    CU_ASSERT_EQUAL(compare_files(a, b, NULL), CKPT_OK);
    close_open_files();
}

void suite_diff(void)
{
    UNIT(differing_elements_are_counted_and_measured);
    UNIT(tolerance_is_that_of_numpy_allclose);
    UNIT(nan_and_infinity_are_compared);
    UNIT(integers_of_64_bits_are_exact);
    UNIT(integers_are_exact_next_to_other_dtypes);
    UNIT(infinity_and_nan_next_to_integers_are_left_out_of_norms);
    UNIT(complex_numbers_are_measured_by_modulus);
    UNIT(errors_of_a_cast_are_measured);
    UNIT(the_last_chunk_is_compared);
    UNIT(names_are_merged_in_natural_order);
    UNIT(globs_that_match_nothing_are_an_error);
    UNIT(renames_are_found_by_their_bytes);
    UNIT(equal_bytes_alone_are_no_rename);
    UNIT(the_caller_can_stop);
    UNIT(tied_weights_are_compared_once);
    UNIT(a_file_equals_itself);
    UNIT(unread_tensors_are_not_compared);
    UNIT(attributes_of_wrappers_are_compared);
    UNIT(components_are_selected_with_their_composite);
    UNIT(differences_of_long_tensors_are_exact);
    UNIT(norms_do_not_depend_on_threads);
    UNIT(a_different_dtype_may_be_ignored);
    UNIT(a_wrong_crc_is_reported);
}
