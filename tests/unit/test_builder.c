/* ckpt_builder: files that were built are written like opened ones, and invalid values are refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "small_files.h"
#include "unit.h"

static ckpt_error err;

static ckpt_builder *new_builder(void)
{
    ckpt_builder *b = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_builder_new("scratch", &b, &err), CKPT_OK);
    return b;
}

static ckpt_file *finish_file(ckpt_builder *b)
{
    ckpt_file *f = NULL;
    char text[1024];
    if (ckpt_builder_finish(b, &f, &err) != CKPT_OK)
        fprintf(stderr, "%s\n", ckpt_error_text(&err, text, sizeof text));
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    return f;
}

/* add_tensor - adds a tensor of DTYPE and SHAPE over the N bytes of DATA. */
static ckpt_status add_tensor(ckpt_builder *b, const char *name, ckpt_dtype dtype, uint32_t ndim,
                              const uint64_t *shape, const void *data, size_t n)
{
    const ckpt_builder_tensor t = {
        .struct_size = sizeof t, .dtype = dtype, .ndim = ndim, .shape = shape, .data = data, .nbytes = n};
    return ckpt_builder_add_tensor(b, name, &t, &err);
}

/* add_bytes - adds the N bytes of DATA as a tensor of uint8. */
static ckpt_status add_bytes(ckpt_builder *b, const char *name, const void *data, size_t n)
{
    const uint64_t shape[] = {n};
    return add_tensor(b, name, CKPT_DT_U8, 1, shape, data, n);
}

static ckpt_status write_to_memory(ckpt_file *f, const char *format, void **bytes, size_t *n)
{
    const ckpt_write_options o = {.struct_size = sizeof o, .format = format};
    ckpt_plan *p = plan_of(f);
    ckpt_status st = ckpt_plan_write_memory(p, &o, bytes, n, NULL, &err);
    ckpt_plan_free(p);
    return st;
}

/* reopen - writes F as FORMAT and opens the result; the caller closes it, then frees BYTES. */
static ckpt_file *reopen(ckpt_file *f, const char *format, void **bytes)
{
    ckpt_file *g = NULL;
    size_t n;
    CU_ASSERT_EQUAL_FATAL(write_to_memory(f, format, bytes, &n), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(*bytes, n, "reopened", NULL, &g, &err), CKPT_OK);
    return g;
}

/* ----------------------------------------------------- files are written as by convert */

static unsigned char *buffers[64];
static size_t nbuffers;

static void free_buffers(void)
{
    while (nbuffers)
        free(buffers[--nbuffers]);
}

static void add_copy(ckpt_builder *b, ckpt_file *f, uint32_t i)
{
    const ckpt_tensor t = tensor_at(f, i);
    if (t.alias_of != CKPT_NO_TENSOR) {
        CU_ASSERT_EQUAL(ckpt_builder_add_tie(b, t.name.ptr, tensor_at(f, t.alias_of).name.ptr, &err),
                        CKPT_OK);
        return;
    }
    unsigned char *data = malloc((size_t)t.nbytes + 1);
    CU_ASSERT_FATAL(data && nbuffers < 64);
    buffers[nbuffers++] = data;
    CU_ASSERT_EQUAL(ckpt_tensor_read(f, i, 0, t.elements, data, &err), CKPT_OK);
    CU_ASSERT_EQUAL(add_tensor(b, t.name.ptr, (ckpt_dtype)t.dtype, t.ndim, t.shape, data, (size_t)t.nbytes),
                    CKPT_OK);
}

/* Builds a file with the tensors and metadata of F. */
static ckpt_file *build_copy(ckpt_file *f)
{
    ckpt_builder *b = new_builder();
    ckpt_pair pair;
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++)
        add_copy(b, f, i);
    for (size_t i = 0; ckpt_metadata_at(f, i, &pair); i++)
        if (!ckpt_metadata_is_tie(f, i))
            CU_ASSERT_EQUAL(ckpt_builder_add_metadata(b, pair.key.ptr, pair.text.ptr, &err), CKPT_OK);
    return finish_file(b);
}

static void check_same_bytes(ckpt_file *f, ckpt_file *g, const char *format)
{
    void *f_bytes = NULL, *g_bytes = NULL;
    size_t n = 0, m = 1;
    CU_ASSERT_EQUAL(write_to_memory(f, format, &f_bytes, &n), CKPT_OK);
    CU_ASSERT_EQUAL(write_to_memory(g, format, &g_bytes, &m), CKPT_OK);
    CU_ASSERT(n == m && memcmp(f_bytes, g_bytes, n) == 0);
    ckpt_free(f_bytes);
    ckpt_free(g_bytes);
}

static void check_copy(ckpt_file *f)
{
    ckpt_file *g = build_copy(f);
    check_same_bytes(f, g, "torch-zip");
    check_same_bytes(f, g, "safetensors");
    ckpt_close(g);
    free_buffers();
}

static void a_copy_is_written_as_convert_writes_the_original(void)
{
    void *bytes;
    ckpt_file *f = reopen(open_corpus_file("torch/t26/dp_state_dict.pt"), "safetensors", &bytes);
    check_copy(f);
    ckpt_close(f);
    ckpt_free(bytes);
    check_copy(open_safetensors(quoted("{'__metadata__':{'format':'pt','author':'me'},'w':['F32',[2],[0,8]],"
                                       "'none':['F16',[3,0],[8,8]],'one':['BF16',[],[8,10]],"
                                       "'f':['BOOL',[1,1,2],[10,12]],'u':['U8',[0],[12,12]]}"),
                                "abcdefghij\1\0", 12));
    close_open_files();
}

/* Ties are written the same way whether they come from a torch file or from safetensors metadata. */
static void ties_are_written_as_convert_writes_them(void)
{
    void *bytes;
    ckpt_file *f = open_safetensors(
        quoted("{'__metadata__':{'tied':'w'},'v':['U8',[1],[8,9]],'w':['F32',[2],[0,8]]}"), "abcdefghi", 9);
    ckpt_file *g = reopen(f, "torch-zip", &bytes);
    ckpt_file *copy = build_copy(g);
    check_same_bytes(f, copy, "torch-zip");
    check_same_bytes(g, copy, "safetensors");
    ckpt_close(copy);
    free_buffers();
    ckpt_close(g);
    ckpt_free(bytes);
    close_open_files();
}

static void each_dtype_is_written_and_read_back(void)
{
    static const unsigned char data[64];
    for (int dt = CKPT_DT_F64; dt < CKPT_DT_NAMED; dt++) {
        const uint64_t shape[] = {4, 1};
        size_t n = 4 * ckpt_dtype_bits((ckpt_dtype)dt) / 8;
        bool is_quantized = dt >= CKPT_DT_QI8 && dt <= CKPT_DT_QU2X4,
             is_f6 = dt == CKPT_DT_F6_E2M3 || dt == CKPT_DT_F6_E3M2;
        void *bytes;
        ckpt_builder *b = new_builder();
        ckpt_status st = add_tensor(b, "t", (ckpt_dtype)dt, 2, shape, data, n);
        if (is_quantized || dt == CKPT_DT_BC32) {
            CU_ASSERT_EQUAL(st, CKPT_EUSAGE);
            ckpt_builder_free(b);
            continue;
        }
        CU_ASSERT_EQUAL(st, CKPT_OK);
        ckpt_file *f = finish_file(b), *g = reopen(f, is_f6 ? "safetensors" : "torch-zip", &bytes);
        CU_ASSERT(tensor_at(g, 0).dtype == dt && tensor_at(g, 0).nbytes == n && tensor_at(g, 0).ndim == 2);
        ckpt_close(g);
        ckpt_close(f);
        ckpt_free(bytes);
    }
}

/* --------------------------------------------------------- files of training are built */

#define ONE 0, 0, 0x80, 0x3f /* 1.0 as a little-endian float */
static const unsigned char ones[] = {ONE, ONE, ONE, ONE, ONE, ONE};

/* Builds a checkpoint of training: a model with two tied tensors, and other values. */
static ckpt_file *build_training_checkpoint(void)
{
    const uint64_t shape[] = {2, 3};
    ckpt_builder *b = new_builder();
    CU_ASSERT_EQUAL(ckpt_builder_begin_dict(b, "model", &err), CKPT_OK);
    CU_ASSERT_EQUAL(add_tensor(b, "head.weight", CKPT_DT_F32, 2, shape, ones, sizeof ones), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_add_tie(b, "emb.weight", "model.head.weight", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_end_dict(b, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_begin_dict(b, "hyper", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_add_float(b, "lr", 0.1, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_add_text(b, "name", "adam", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_begin_dict(b, "empty", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_end_dict(b, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_end_dict(b, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_add_int(b, "epoch", -3, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_add_bool(b, "done", true, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_add_none(b, "best", &err), CKPT_OK);
    return finish_file(b);
}

/* list_leaves - returns the values of F as "name=text", separated by spaces. */
static const char *list_leaves(const ckpt_file *f)
{
    static char out[512];
    char text[64];
    out[0] = '\0';
    for (size_t i = 0; i < ckpt_leaf_count(f); i++) {
        size_t n = strlen(out);
        ckpt_value_text(ckpt_leaf_at(f, i)->value, 4, text, sizeof text);
        snprintf(out + n, sizeof out - n, "%s%s=%s", n ? " " : "", ckpt_leaf_at(f, i)->name.ptr, text);
    }
    return out;
}

static void torch_files_hold_values_and_ties(void)
{
    static const char want[] = "hyper.lr=0.1 hyper.name='adam' hyper.empty={} epoch=-3 done=True best=None";
    void *bytes;
    ckpt_file *f = build_training_checkpoint(), *g = reopen(f, "torch-zip", &bytes);
    CU_ASSERT_STRING_EQUAL(list_leaves(f), want);
    CU_ASSERT_STRING_EQUAL(list_leaves(g), want);
    CU_ASSERT(ckpt_tensor_count(g) == 2 && ckpt_storage_count(g) == 1);
    CU_ASSERT_STRING_EQUAL(tensor_at(g, 1).name.ptr, "model.emb.weight");
    CU_ASSERT_EQUAL(tensor_at(g, 1).alias_of, 0);
    CU_ASSERT(tensor_at(g, 0).npath == 2 && str_is(tensor_at(g, 0).path[1].str, "head.weight"));
    ckpt_close(g);
    ckpt_close(f);
    ckpt_free(bytes);
}

static void safetensors_files_leave_values_out(void)
{
    const ckpt_write_options o = {.struct_size = sizeof o, .format = "safetensors"};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_file *f = build_training_checkpoint();
    ckpt_plan *p = plan_of(f);
    void *bytes;
    size_t n;
    ckpt_close(f); /* the plan keeps the file open */
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_write_memory(p, &o, &bytes, &n, &r, &err), CKPT_OK);
    CU_ASSERT(r.ndropped == 6 && r.naliases == 1 && r.tensors == 2);
    CU_ASSERT_STRING_EQUAL(ckpt_plan_alias_at(p, 0)->name.ptr, "model.head.weight");
    ckpt_free(bytes);
    ckpt_plan_free(p);
}

static void other_functions_accept_a_built_file(void)
{
    ckpt_info info = CKPT_INIT(ckpt_info);
    ckpt_diff_totals totals = CKPT_INIT(ckpt_diff_totals);
    ckpt_stats stats = CKPT_INIT(ckpt_stats);
    const uint32_t row = 0;
    uint8_t a[CKPT_DIGEST_MAX], b[CKPT_DIGEST_MAX];
    void *bytes;
    ckpt_file *f = build_training_checkpoint(), *g = reopen(f, "torch-zip", &bytes);
    CU_ASSERT_EQUAL(ckpt_diff(f, g, NULL, NULL, NULL, &totals, &err), CKPT_OK);
    CU_ASSERT(totals.same == 2 && totals.changed + totals.only_a + totals.only_b == 0);
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, 0, CKPT_SHA256, a, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_tensor(g, 0, CKPT_SHA256, b, &err), CKPT_OK);
    CU_ASSERT(memcmp(a, b, sizeof a) == 0);
    CU_ASSERT_EQUAL(ckpt_digest_payload(f, CKPT_SHA256, NULL, a, &err), CKPT_EUNSUPPORTED);
    CU_ASSERT_EQUAL(ckpt_stat(f, &row, 1, NULL, &stats, &err), CKPT_OK);
    CU_ASSERT(stats.numeric && stats.mean == 1);
    CU_ASSERT_EQUAL(ckpt_inspect(f, &info, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(info.weights_root.ptr, "model");
    CU_ASSERT_EQUAL(ckpt_file_locate(f, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(ckpt_file_path(f), "scratch");
    CU_ASSERT_STRING_EQUAL(ckpt_file_format(f), "memory");
    CU_ASSERT(ckpt_file_bytes(f) == sizeof ones && tensor_at(f, 0).file_offset == CKPT_NO_OFFSET);
    ckpt_close(g);
    ckpt_close(f);
    ckpt_free(bytes);
}

static void plans_edit_a_built_file(void)
{
    ckpt_file *f = build_training_checkpoint();
    ckpt_plan *p = plan_of(f);
    void *bytes;
    size_t n;
    const ckpt_write_options o = {.struct_size = sizeof o, .format = "torch-zip"};
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "auto", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "net.", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_BF16, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write_in_place(p, NULL, NULL, &err), CKPT_EUNSUPPORTED);
    CU_ASSERT_EQUAL(ckpt_plan_write_memory(p, NULL, &bytes, &n, NULL, &err),
                    CKPT_EUSAGE); /* no format: there are no options, and a built file has none */
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_write_memory(p, &o, &bytes, &n, NULL, &err), CKPT_OK);
    ckpt_plan_free(p);
    ckpt_close(f);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(bytes, n, "edited", NULL, &f, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(tensor_at(f, 0).name.ptr, "net.head.weight");
    CU_ASSERT_EQUAL(tensor_at(f, 0).dtype, CKPT_DT_BF16);
    ckpt_close(f);
    ckpt_free(bytes);
}

static void a_set_of_shards_is_written(void)
{
    static const unsigned char data[3000];
    char dir[] = "/tmp/unit-builder-XXXXXX", path[64];
    const ckpt_write_options o = {.struct_size = sizeof o, .max_shard = 1000, .no_sync = 1};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_builder *b = new_builder();
    CU_ASSERT_FATAL(mkdtemp(dir) != NULL);
    for (char name[] = "a"; *name < 'd'; ++*name)
        CU_ASSERT_EQUAL(add_bytes(b, name, data, 1000), CKPT_OK);
    ckpt_file *f = finish_file(b), *g = NULL;
    ckpt_plan *p = plan_of(f);
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_write(p, path, &o, &r, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(r.noutputs, 3 + 1); /* the shards, then their index */
    CU_ASSERT_EQUAL_FATAL(ckpt_open(r.outputs[3], NULL, &g, &err), CKPT_OK);
    CU_ASSERT(ckpt_tensor_count(g) == 3);
    ckpt_close(g);
    for (size_t i = 0; i < r.noutputs; i++)
        CU_ASSERT(unlink(r.outputs[i]) == 0);
    CU_ASSERT(rmdir(dir) == 0);
    ckpt_plan_free(p);
    ckpt_close(f);
}

static void a_built_file_may_be_empty(void)
{
    void *bytes;
    ckpt_file *f = finish_file(new_builder()), *g = reopen(f, "safetensors", &bytes);
    CU_ASSERT(ckpt_tensor_count(g) == 0 && ckpt_metadata_count(g) == 1); /* "format": "pt" */
    ckpt_close(g);
    ckpt_free(bytes);
    g = reopen(f, "torch-zip", &bytes);
    CU_ASSERT(ckpt_tensor_count(g) == 0);
    ckpt_close(g);
    ckpt_close(f);
    ckpt_free(bytes);
}

/* ----------------------------------------------------------------------- callbacks */

/* The argument USER of the callbacks below, which compute the bytes that they return. */
struct numbers {
    uint64_t fail_at; /* reads beyond this offset fail */
    int nclosed;      /* number of calls of close */
};

static int64_t make_numbers(void *user, uint64_t offset, void *buf, size_t n)
{
    const struct numbers *x = user;
    if (offset + n > x->fail_at)
        return -ENODEV;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buf)[i] = (unsigned char)((offset + i) * 31);
    return (int64_t)n;
}

static void count_close(void *user) { ((struct numbers *)user)->nclosed++; }

/* add_numbers - adds a tensor of N bytes. They come from callbacks, which offer SIZE bytes. */
static ckpt_status add_numbers(ckpt_builder *b, struct numbers *x, uint64_t n, uint64_t size)
{
    const ckpt_callbacks callbacks = {.struct_size = sizeof callbacks,
                                      .size = size,
                                      .read_at = make_numbers,
                                      .close = count_close,
                                      .user = x};
    const ckpt_builder_tensor t = {
        .struct_size = sizeof t, .dtype = CKPT_DT_U8, .ndim = 1, .shape = &n, .callbacks = &callbacks};
    return ckpt_builder_add_tensor(b, "numbers", &t, &err);
}

static void bytes_may_come_from_callbacks(void)
{
    enum { N = 700000 };
    static unsigned char data[N];
    struct numbers x = {.fail_at = UINT64_MAX};
    (void)make_numbers(&x, 0, data, N);
    ckpt_builder *b = new_builder(), *c = new_builder();
    CU_ASSERT_EQUAL(add_numbers(b, &x, N, N), CKPT_OK);
    CU_ASSERT_EQUAL(add_bytes(c, "numbers", data, N), CKPT_OK);
    ckpt_file *f = finish_file(b), *g = finish_file(c);
    check_same_bytes(f, g, "torch-zip");
    check_same_bytes(f, g, "safetensors");
    CU_ASSERT_EQUAL(x.nclosed, 0);
    ckpt_close(f);
    ckpt_close(g);
    CU_ASSERT_EQUAL(x.nclosed, 1);
}

static void a_failing_callback_leaves_no_file(void)
{
    char path[] = "/tmp/unit-builder-XXXXXX";
    struct numbers x = {.fail_at = 300000};
    ckpt_builder *b = new_builder();
    CU_ASSERT_EQUAL(add_numbers(b, &x, 600000, 600000), CKPT_OK);
    ckpt_file *f = finish_file(b);
    ckpt_plan *p = plan_of(f);
    CU_ASSERT_FATAL(mkdtemp(path) != NULL && rmdir(path) == 0);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, path, NULL, NULL, &err), CKPT_EIO);
    CU_ASSERT(err.sys_errno == ENODEV && access(path, F_OK) != 0);
    CU_ASSERT_STRING_EQUAL(err.file, "scratch");
    CU_ASSERT(strstr(err.where, "numbers") != NULL);
    ckpt_plan_free(p);
    ckpt_close(f);
}

static void callbacks_are_closed_once_if_they_were_accepted(void)
{
    struct numbers x = {.fail_at = UINT64_MAX};
    ckpt_builder *b = new_builder();
    CU_ASSERT_EQUAL(add_numbers(b, &x, 5, 6), CKPT_EUSAGE);
    ckpt_builder_free(b);
    CU_ASSERT_EQUAL(x.nclosed, 0);
    b = new_builder();
    CU_ASSERT_EQUAL(add_numbers(b, &x, 5, 5), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_add_tie(b, "again", "numbers", &err), CKPT_OK);
    ckpt_builder_free(b);
    CU_ASSERT_EQUAL(x.nclosed, 1);
}

/* ------------------------------------------------------------------------ refusals */

/* make_invalid_call - makes call I of a list of invalid calls. Returns CKPT_OK after the end of the list. */
static ckpt_status make_invalid_call(ckpt_builder *b, int i)
{
    /* the shapes of the tensors */
    static const uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 40}, two[] = {2}, three[] = {3},
                          most[] = {UINT64_MAX / 2};
    const ckpt_callbacks callbacks = {.struct_size = sizeof callbacks, .size = 2, .read_at = make_numbers};
    const ckpt_builder_tensor data_and_callbacks = {.struct_size = sizeof data_and_callbacks,
                                                    .dtype = CKPT_DT_U8,
                                                    .ndim = 1,
                                                    .shape = two,
                                                    .data = "ab",
                                                    .nbytes = 2,
                                                    .callbacks = &callbacks},
                              no_struct_size = {.dtype = CKPT_DT_U8};
    switch (i) {
    case 0: return add_tensor(b, "t", CKPT_DT_F32, 2, huge, "", 1); /* 2^82 bytes */
    case 1: return add_tensor(b, "t", CKPT_DT_U8, 1, two, "abc", 3);
    case 2: return add_tensor(b, "t", CKPT_DT_U8, 1, two, NULL, 2); /* 2 bytes at NULL */
    case 3: return add_tensor(b, "t", CKPT_DT_U8, 1, two, NULL, 0); /* no bytes for 2 elements */
    case 4: return add_tensor(b, "t", CKPT_DT_QI8, 1, two, "ab", 2);
    case 5: return add_tensor(b, "t", CKPT_DT_NAMED, 1, two, "ab", 2);
    case 6: return add_tensor(b, "t", CKPT_DT_NONE, 1, two, "ab", 2);
    case 7: return add_tensor(b, "t", (ckpt_dtype)1234, 1, two, "ab", 2);
    case 8:
        return add_tensor(b, "t", CKPT_DT_F6_E2M3, 1, three, "ab",
                          2); /* 3 elements of 6 bits end within a byte */
    case 9: return add_tensor(b, "t", CKPT_DT_U8, 1, NULL, "ab", 2); /* one dimension, but no shape */
    case 10: return ckpt_builder_add_tensor(b, "t", &data_and_callbacks, &err);
    case 11: return ckpt_builder_add_tensor(b, "t", &no_struct_size, &err);
    case 12: return add_tensor(b, "\xff", CKPT_DT_U8, 1, two, "ab", 2);
    case 13: return ckpt_builder_add_text(b, "t", "\xff", &err);
    case 14: return ckpt_builder_end_dict(b, &err);
    case 15: return add_tensor(b, "t", CKPT_DT_U64, 1, most, "ab", 2); /* 2^66 bytes */
    case 16: return ckpt_builder_add_metadata(b, "\xc0", "", &err);
    default: return CKPT_OK;
    }
}

static void invalid_values_are_refused(void)
{
    ckpt_file *f;
    int i = 0;
    for (;; i++) {
        ckpt_builder *b = new_builder();
        ckpt_status st = make_invalid_call(b, i);
        if (st == CKPT_OK) {
            ckpt_builder_free(b);
            break;
        }
        if (st != CKPT_EUSAGE)
            fprintf(stderr, "case %d: %s\n", i, ckpt_status_name(st));
        CU_ASSERT_EQUAL(st, CKPT_EUSAGE);
        CU_ASSERT(err.what[0] && strcmp(err.file, "scratch") == 0);
        CU_ASSERT_EQUAL(ckpt_builder_finish(b, &f, NULL), CKPT_EUSAGE);
        CU_ASSERT_PTR_NULL(f);
    }
    CU_ASSERT_EQUAL(i, 17);
}

static void duplicate_names_are_refused(void)
{
    for (int which = 0; which < 5; which++) {
        ckpt_builder *b = new_builder();
        CU_ASSERT_EQUAL(add_bytes(b, "t", "ab", 2), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_builder_begin_dict(b, "d", &err), CKPT_OK);
        CU_ASSERT_EQUAL(add_bytes(b, "t", "ab", 2), CKPT_OK); /* in another dict */
        CU_ASSERT_EQUAL(ckpt_builder_end_dict(b, &err), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_builder_add_metadata(b, "t", "", &err), CKPT_OK);
        ckpt_status st = which == 0   ? add_bytes(b, "t", "ab", 2)
                         : which == 1 ? ckpt_builder_add_none(b, "t", &err)
                         : which == 2 ? ckpt_builder_add_tie(b, "d", "d.t", &err)
                         : which == 3 ? ckpt_builder_begin_dict(b, "d", &err)
                                      : ckpt_builder_add_metadata(b, "t", "", &err);
        CU_ASSERT_EQUAL(st, CKPT_EEXIST);
        CU_ASSERT(strstr(err.what, which == 2 || which == 3 ? "\"d\"" : "\"t\"") != NULL);
        ckpt_builder_free(b);
    }
}

/* Each call after a failure returns the first error. */
static void the_first_error_is_kept(void)
{
    ckpt_builder *b = new_builder();
    ckpt_file *f;
    CU_ASSERT_EQUAL(ckpt_builder_add_tie(b, "t", "nobody", &err), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(add_bytes(b, "t", "ab", 2), CKPT_ENOTFOUND);
    CU_ASSERT(strstr(err.what, "\"nobody\"") != NULL);
    memset(&err, 0, sizeof err);
    CU_ASSERT_EQUAL(ckpt_builder_begin_dict(b, "d", &err), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_builder_end_dict(b, NULL), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_builder_add_metadata(b, "d", "", &err), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_builder_finish(b, &f, &err), CKPT_ENOTFOUND);
    CU_ASSERT(!f && strstr(err.what, "\"nobody\"") != NULL);
}

static void open_dicts_and_deep_dicts_are_refused(void)
{
    ckpt_builder *b = new_builder();
    ckpt_file *f;
    ckpt_status st = CKPT_OK;
    int depth = 0;
    CU_ASSERT_EQUAL(ckpt_builder_begin_dict(b, "d", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_finish(b, &f, &err), CKPT_EUSAGE);
    CU_ASSERT_PTR_NULL(f);
    for (b = new_builder(); st == CKPT_OK && depth < 2000; depth++)
        st = ckpt_builder_begin_dict(b, "d", &err);
    CU_ASSERT(st == CKPT_ELIMIT && depth == 1000); /* the default of max_depth */
    ckpt_builder_free(b);
}

void suite_builder(void)
{
    UNIT(a_copy_is_written_as_convert_writes_the_original);
    UNIT(ties_are_written_as_convert_writes_them);
    UNIT(each_dtype_is_written_and_read_back);
    UNIT(torch_files_hold_values_and_ties);
    UNIT(safetensors_files_leave_values_out);
    UNIT(other_functions_accept_a_built_file);
    UNIT(plans_edit_a_built_file);
    UNIT(a_set_of_shards_is_written);
    UNIT(a_built_file_may_be_empty);
    UNIT(bytes_may_come_from_callbacks);
    UNIT(a_failing_callback_leaves_no_file);
    UNIT(callbacks_are_closed_once_if_they_were_accepted);
    UNIT(invalid_values_are_refused);
    UNIT(duplicate_names_are_refused);
    UNIT(the_first_error_is_kept);
    UNIT(open_dicts_and_deep_dicts_are_refused);
}
