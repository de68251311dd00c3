/* Rewriting torch files, with and without casts: which storages change, and what is refused. */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/file.h"
#include "io/sink.h"
#include "pickled.h"

#define UNTYPED_STORAGE(numel) "@('storage',torch.storage.UntypedStorage,'0','cpu'," #numel ")"
#define TENSOR_V2_WITH_META(storage, grad, meta)                                                             \
    "torch._utils._rebuild_tensor_v2(" storage ",0,(2,),(1,)," grad "," ORDERED_DICT "," meta ")"
#define TENSOR_V3(storage, dtype)                                                                            \
    "torch._utils._rebuild_tensor_v3(" storage ",0,(2,),(1,),False," ORDERED_DICT "," dtype ")"
#define TENSOR_V3_WITH_META(storage, dtype, meta)                                                            \
    "torch._utils._rebuild_tensor_v3(" storage ",0,(2,),(1,),False," ORDERED_DICT "," dtype "," meta ")"
#define NUMPY_ARRAY                                                                                          \
    "numpy.core.multiarray._reconstruct(numpy.ndarray,(0,),b'b')!(1,(2,),numpy.dtype('f4',False,"            \
    "True)!(3,'<',None,None,None,-1,-1,0),False,b'\\00\\00\\80\\3f\\00\\00\\00\\40')"

/* The options of ckpt_plan_write, and the changes to the plan. */
struct rewrite {
    ckpt_dtype to;                  /* the dtype of the cast; CKPT_DT_NONE: no cast */
    const char *glob, *root, *drop; /* the tensors to cast, the root, the tensors to drop */
    bool strict, sanitize, cancel;
    bool safetensors; /* writes safetensors instead of torch's zip format */
    ckpt_ties ties;
};

static int stop_at_once(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return 1;
}

/* write_plan - writes F to PATH with OPTS; checks that a notice contains NOTICE, unless it is NULL. */
static ckpt_status write_plan(ckpt_file *f, const char *path, struct rewrite opts, const char *notice,
                              ckpt_error *err)
{
    ckpt_plan *p = NULL;
    ckpt_write_options o = {.struct_size = sizeof o,
                            .format = opts.safetensors ? "safetensors" : "torch-zip",
                            .force = true,
                            .no_sync = true,
                            .threads = 1,
                            .strict = opts.strict,
                            .ties = opts.ties,
                            .progress = opts.cancel ? stop_at_once : NULL};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    bool found = !notice;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, err), CKPT_OK);
    if (opts.root)
        CU_ASSERT_EQUAL(ckpt_plan_root(p, opts.root, err), CKPT_OK);
    if (opts.drop)
        CU_ASSERT_EQUAL(ckpt_plan_drop(p, opts.drop, err), CKPT_OK);
    if (opts.sanitize)
        CU_ASSERT_EQUAL(ckpt_plan_sanitize(p, "torch-zip", err), CKPT_OK);
    if (opts.to)
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, opts.glob, opts.to, err), CKPT_OK);
    ckpt_status st = ckpt_plan_write(p, path, &o, &r, err);
    for (size_t i = 0; ckpt_plan_notice_at(p, i); i++)
        found |= notice && strstr(ckpt_plan_notice_at(p, i), notice);
    CU_ASSERT(found);
    ckpt_plan_free(p);
    return st;
}

/* rewrite_file - writes MADE with OPTS, checks that a notice contains NOTICE, and closes MADE. Returns the
 * opened output; its file is NULL if writing is refused. */
static struct test_file rewrite_file(struct test_file *made, struct rewrite opts, const char *notice)
{
    char path[] = "/tmp/ckpt-unit-XXXXXX";
    static char bytes[65536];
    struct test_file rewritten = {.file = NULL};
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0 && made->file);
    close(fd);
    rewritten.status = write_plan(made->file, path, opts, notice, &rewritten.err);
    FILE *f = rewritten.status == CKPT_OK ? fopen(path, "rb") : NULL;
    if (f) {
        rewritten = open_bytes(bytes, fread(bytes, 1, sizeof bytes, f), NULL);
        (void)fclose(f);
    }
    unlink(path);
    close_file(made);
    return rewritten;
}

/* check_rewrite - rewrites a file with the pickle TEXT, in the notation of put_pickle in pickled.h. Checks
 * that the output has the tensors WANT. check_status and check_lossy check that writing fails with WORDS in
 * the message. */
static void check_rewrite(const char *text, struct rewrite opts, const char *want, const char *notice)
{
    struct test_file made = make_torch_zip(text), rewritten = rewrite_file(&made, opts, notice);
    check_tensors(&rewritten, want);
    close_file(&rewritten);
}

static void check_status(const char *text, struct rewrite opts, ckpt_status status, const char *words)
{
    struct test_file made = make_torch_zip(text), rewritten = rewrite_file(&made, opts, NULL);
    CU_ASSERT_EQUAL(rewritten.status, status);
    CU_ASSERT_PTR_NOT_NULL(strstr(rewritten.err.what, words));
    if (!strstr(rewritten.err.what, words))
        printf("  of %s\n  found: %s\n", text, rewritten.err.what);
    close_file(&rewritten);
}

static void check_lossy(const char *text, struct rewrite opts, const char *words)
{
    check_status(text, opts, CKPT_ELOSSY, words);
}

static const struct rewrite to_f16 = {.to = CKPT_DT_F16}, unchanged = {0}, to_f8 = {.to = CKPT_DT_F8_E5M2},
                            to_f16_strict = {.to = CKPT_DT_F16, .strict = true},
                            to_f8_strict = {.to = CKPT_DT_F8_E5M2, .strict = true},
                            sanitized = {.sanitize = true};

/* -------------------------------------------------------------------- casts */

static void all_views_of_a_storage_are_cast_together(void)
{
    check_rewrite("{'a':" FLOAT_TENSOR ",'b':" TENSOR_V2(FLOAT_STORAGE, 1, "(2,)", "(1,)") "}", to_f16,
                  "a dense float16[4]@0+0;b dense float16[2]@0+1;", NULL);
    check_rewrite("{'a':" FLOAT_TENSOR ",'b':" TENSOR_V2(STORAGE("Long", "1", 2), 0, "(2,)", "(1,)") "}",
                  to_f16, "a dense float16[4]@0+0;b dense int64[2]@1+0;", NULL);
    check_rewrite("{'a':torch._utils._rebuild_tensor(" FLOAT_STORAGE ",0,(4,),(1,))}", to_f8,
                  "a dense float8_e5m2[4]@0+0;", NULL);
    check_rewrite("{'a':torch._utils._rebuild_tensor(" FLOAT_STORAGE ",0,(4,),(1,))}", to_f16,
                  "a dense float16[4]@0+0;", NULL);
    check_rewrite("{'a':" TENSOR_V3(UNTYPED_STORAGE(16), "torch.float32") "}", to_f16,
                  "a dense float16[2]@0+0;", NULL);
    check_rewrite("{'a':" TENSOR_V3_WITH_META(UNTYPED_STORAGE(16), "torch.float32", "{'neg':True}") "}",
                  to_f16, "a dense float16[2]@0+0 neg;", NULL);
    check_rewrite("{'a':" TENSOR_V3(UNTYPED_STORAGE(16), "torch.float32") "}", to_f8,
                  "a dense float8_e5m2[2]@0+0;", NULL);
    check_rewrite("{'a':" TENSOR_V2_WITH_META(FLOAT_STORAGE, "False", "{'neg':True}") "}", to_f16,
                  "a dense float16[2]@0+0 neg;", NULL);
}

static void impossible_casts_are_refused(void)
{
    static const char two_views[] = "{'a':" FLOAT_TENSOR
                                    ",'b':" TENSOR_V2(FLOAT_STORAGE, 1, "(2,)", "(1,)") "}";
    check_lossy(two_views, (struct rewrite){.to = CKPT_DT_F16, .glob = "a"}, "\"");
    check_lossy(two_views, (struct rewrite){.to = CKPT_DT_F16, .glob = "b"}, "\"");
    check_lossy("{'a':" TENSOR_V3(UNTYPED_STORAGE(16), "torch.float32") ",'b':" TENSOR_V3(
                    UNTYPED_STORAGE(16), "torch.float64") "}",
                to_f16, "\"");
    check_lossy("{'a':" TENSOR_V2_WITH_META(FLOAT_STORAGE, "False", "{'neg':True}") "}", to_f8,
                "\"a\" is a negated view, which torch does not support for");
    check_lossy("{'a':" TENSOR_V3(UNTYPED_STORAGE(15), "torch.float32") "}", to_f16,
                "\"a\" cannot become float16: the size of its storage, 15 bytes, does not allow it");
    check_lossy("{'a':" FLOAT_TENSOR ",'s':" FLOAT_STORAGE "}", to_f16, "");
}

static void numpy_arrays_are_not_cast(void)
{
    check_rewrite("{'w':" FLOAT_TENSOR ",'n':" NUMPY_ARRAY ",'m':" NUMPY_ARRAY "}", to_f16,
                  "w dense float16[4]@0+0;n ndarray float32[2]@1+0;m ndarray float32[2]@2+0;",
                  "the dtype of \"n\" stays float32: it is a numpy array (2 of them)");
    check_lossy("{'w':" FLOAT_TENSOR ",'n':" NUMPY_ARRAY "}", to_f16_strict,
                "\"n\" is a numpy array, whose dtype stays float32");
}

static void float8_tensors_lose_requires_grad(void)
{
    static const char with_grad[] = "{'a':" TENSOR_V2_WITH_META(
        FLOAT_STORAGE, "True", "{}") ",'b':" TENSOR_V2_WITH_META(STORAGE("Float", "1", 4), "True", "{}") "}";
    check_rewrite(
        with_grad, to_f8, "a dense float8_e5m2[2]@0+0;b dense float8_e5m2[2]@1+0;",
        "\"a\" no longer requires a gradient: torch cannot read tensors of float8_e5m2 that do (2 of them)");
    check_rewrite(with_grad, to_f16, "a dense float16[2]@0+0 grad;b dense float16[2]@1+0 grad;", NULL);
    check_lossy(with_grad, to_f8_strict, "\"a\" requires a gradient; torch cannot read tensors of");
    check_rewrite("{'a':torch._utils._rebuild_parameter(" TENSOR_V2_WITH_META(
                      FLOAT_STORAGE, "True", "{}") ",True," ORDERED_DICT ")}",
                  to_f8, "a dense float8_e5m2[2]@0+0 parameter grad;", NULL);
}

static void meta_tensors_stay_without_bytes(void)
{
    check_rewrite("{'w':" FLOAT_TENSOR
                  ",'m':torch._utils._rebuild_meta_tensor_no_storage(torch.float32,(2,),(1,),True)}",
                  to_f16, "w dense float16[4]@0+0;m meta float32[2] grad;", NULL);
    check_rewrite(
        "{'w':" FLOAT_TENSOR ",'m':" TENSOR_V2(
            "@('storage',torch.FloatStorage,'7','meta',4)", 0, "(4,)",
            "(1,)") ",'n':torch._utils._rebuild_tensor(@('storage',torch.FloatStorage,'7','meta',4),0,"
                    "(4,),(1,))}",
        unchanged, "w dense float32[4]@0+0;m meta float32[4];n meta float32[4];", NULL);
}

/* ------------------------------------------------------------ without casts */

static void storages_of_classes_that_torch_lacks_become_untyped(void)
{
    check_rewrite("{'a':" TENSOR_V2(STORAGE("Float8_e5m2", "0", 16), 0, "(2,)",
                                    "(1,)") ",'b':torch._utils._rebuild_tensor(" STORAGE("Float8_e5m2", "1",
                                                                                         16) ",0,(2,),(1,))}",
                  unchanged, "a dense float8_e5m2[2]@0+0;b dense float8_e5m2[2]@1+0;", NULL);
    check_rewrite("{'a':" TENSOR_V2_WITH_META(STORAGE("Float8_e5m2", "0", 16), "False", "{'neg':True}") "}",
                  unchanged, "a dense float8_e5m2[2]@0+0 neg;", NULL);
    check_rewrite(
        "{'a':" FLOAT_STORAGE
        ",'b':@('storage',torch.QUInt4x2Storage,'1','cpu',16),'c':@('storage',torch._UntypedStorage,"
        "'2',"
        "'',16)}",
        unchanged, "a storage float32[4]@0+0;b storage uint8[16]@1+0;c storage uint8[16]@2+0;", NULL);
}

static void objects_keep_the_tensors_they_hold(void)
{
    check_rewrite("{'w':" FLOAT_TENSOR ",'o':my.Thing(" STORAGE(
                      "Float", "1", 4) ",[@('module',my.Net,'net.py','x'),@(my.Net,'x')])!{'v':" FLOAT_TENSOR
                                       "}}",
                  unchanged, "w dense float32[4]@0+0;o.v dense float32[4]@0+0;", NULL);
    check_rewrite(
        "{'w':torch._tensor._rebuild_from_type_v2(torch._utils._rebuild_tensor_v2,my.Tensor,(" FLOAT_STORAGE
        ",0,(4,),(1,),False," ORDERED_DICT "),{'a':1})!{'b':2}}",
        to_f16, "w dense float16[4]@0+0 <my.Tensor>;", NULL);
    check_rewrite(
        "{'w':torch._tensor._rebuild_from_type(torch._utils._rebuild_tensor_v2,my.Tensor,(" FLOAT_STORAGE
        ",0,(4,),(1,),False," ORDERED_DICT "),{'a':1})!{'b':2}}",
        to_f16, "w dense float16[4]@0+0 <my.Tensor>;", NULL);
    check_rewrite(
        "{'w':torch.tensor._rebuild_from_type(torch._utils._rebuild_tensor,my.Tensor,(" FLOAT_STORAGE
        ",0,(4,),(1,)),{})}",
        to_f16, "w dense float16[4]@0+0 <my.Tensor>;", NULL);
    check_lossy("{'w':" FLOAT_TENSOR ",'o':@5}", unchanged,
                "a persistent id that names no storage of the file cannot be written");
    check_lossy("{'w':" FLOAT_TENSOR ",'o':@'text'}", unchanged, "a persistent id that names no storage");
    check_lossy("{'w':" FLOAT_TENSOR ",'o':my.Thing(@('storage',torch.FloatStorage,'7','meta',4))}",
                unchanged, "an object that is not a tensor needs storage \"7\", which is on the meta device");
    check_lossy("{'w':" FLOAT_TENSOR ",'o':my.Thing(" FLOAT_STORAGE ")}", to_f16, "");
    check_lossy("{'w':" FLOAT_TENSOR ",'o':my.Thing|@('module',my.Net,'net.py','x')}", unchanged,
                "a persistent id in the place of the arguments of a call");
    check_rewrite("{'w':" FLOAT_TENSOR ",'o':my.Thing|" FLOAT_STORAGE "}", unchanged,
                  "w dense float32[4]@0+0;", NULL);
    check_rewrite(
        "{'w':" FLOAT_TENSOR
        ",'o':my.Thing(torch._utils._rebuild_tensor(),torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE
        ",1,2,3,4,5,6,7,8),torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE "))}",
        unchanged, "w dense float32[4]@0+0;", NULL);
}

#define TENSOR_SUBCLASS(storage, meta)                                                                       \
    "torch._tensor._rebuild_from_type_v2(torch._utils._rebuild_tensor_v2,my.Tensor,(" storage                \
    ",0,(2,),(1,),True," ORDERED_DICT "," meta "),{'a':1})"

/* --sanitize replaces a tensor subclass or a numpy array by a builtin tensor, which keeps conj and neg. */
static void sanitized_tensors_are_builtin(void)
{
    check_rewrite("{'w':" TENSOR_SUBCLASS(FLOAT_STORAGE,
                                          "{'neg':True}") ",'p':" TENSOR_SUBCLASS(FLOAT_STORAGE, "{}") "}",
                  sanitized, "w dense float32[2]@0+0 grad neg;p dense float32[2]@0+0 grad;", NULL);
    check_rewrite("{'w':" TENSOR_SUBCLASS(
                      STORAGE("ComplexFloat", "0", 2),
                      "{'conj':True,'neg':True}") ",'c':" TENSOR_SUBCLASS(STORAGE("ComplexFloat", "1", 2),
                                                                          "{'conj':True}") "}",
                  sanitized, "w dense complex64[2]@0+0 grad conj neg;c dense complex64[2]@1+0 grad conj;",
                  NULL);
    check_rewrite("{'w':" TENSOR_SUBCLASS(STORAGE("Float8_e5m2", "0", 16), "{'neg':True}") "}", sanitized,
                  "w dense float8_e5m2[2]@0+0 grad neg;", NULL);
    check_rewrite("{'n':" NUMPY_ARRAY ",'w':" FLOAT_TENSOR "}", sanitized,
                  "n dense float32[2]@0+0;w dense float32[4]@1+0;", NULL);
    check_rewrite("{'w':" TENSOR_SUBCLASS(FLOAT_STORAGE, "{'neg':True}") "}",
                  (struct rewrite){.to = CKPT_DT_F16, .sanitize = true}, "w dense float16[2]@0+0 grad neg;",
                  NULL);
    check_rewrite("{'p':torch._utils._rebuild_parameter(" TENSOR_SUBCLASS(STORAGE("Float", "1", 4),
                                                                          "{}") ",True," ORDERED_DICT ")}",
                  sanitized, "p dense float32[2]@0+0 parameter grad;", NULL);
    check_rewrite("{'w':torch._tensor._rebuild_from_type_v2(torch._utils._rebuild_tensor_v3,my.Tensor,"
                  "(" UNTYPED_STORAGE(15) ",0,(2,),(1,),False," ORDERED_DICT ",torch.float32),{'a':1})}",
                  sanitized, "w dense float32[2]@0+0;", NULL);
}

static void dropped_tensors_take_their_entries_with_them(void)
{
    check_rewrite("{'a':" FLOAT_TENSOR ",'b':[1," FLOAT_TENSOR "],'o':my.List()+[" FLOAT_TENSOR
                  ",2],'d':my.Dict()+{'x':" FLOAT_TENSOR "}+[1]}",
                  (struct rewrite){.drop = "*.?"}, "a dense float32[4]@0+0;", NULL);
    /* a list that is also called b keeps its entry, which is dropped only as a.0 */
    check_rewrite("{'a':#1=[" FLOAT_TENSOR
                  "],'b':#1,'c':" TENSOR_V2(STORAGE("Float", "1", 4), 0, "(4,)", "(1,)") "}",
                  (struct rewrite){.drop = "a.0"},
                  "a.0 dense float32[4]@0+0;b.0 dense float32[4]@0+0;c dense float32[4]@1+0;", NULL);
}

static void malformed_calls_are_kept_and_unknown_persistent_ids_refused(void)
{
    check_lossy("{'w':" FLOAT_TENSOR ",'o':@('other',my.Net)}", unchanged,
                "a persistent id that names no storage");
    check_lossy("{'w':" FLOAT_TENSOR ",'o':@('module',5,'x','y')}", unchanged,
                "a persistent id that names no storage");
    check_rewrite("{'w':" FLOAT_TENSOR ",'o':my.Thing(torch._utils._rebuild_tensor_v2|my.f(),"
                  "torch._utils._rebuild_tensor_v2(1,2,3,4,5,6,7,8,9),torch._utils._other(1),"
                  "torch._utils._rebuild_tensor_v3(" UNTYPED_STORAGE(16) ",0,(2,),(1,),False," ORDERED_DICT
                                                                         "))}",
                  unchanged, "w dense float32[4]@0+0;", NULL);
}

static void writing_stops_on_request(void)
{
    check_status("{'w':" FLOAT_TENSOR "}", (struct rewrite){.cancel = true}, CKPT_ECANCELLED,
                 "stopped on request");
    check_status("{'w':" FLOAT_TENSOR "}", (struct rewrite){.cancel = true, .safetensors = true},
                 CKPT_ECANCELLED, "stopped on request");
}

/* ------------------------------------------------------------ shared blocks */

/* __wrap_ioctl - replaces ioctl(). If can_clone, it copies the bytes that are to be cloned, because most
 * file systems cannot clone. */
CKPT_API int __wrap_ioctl(int fd, unsigned request, struct file_clone_range *r); /* ld exports it */
static bool can_clone;
static uint64_t cloned_bytes;

int __wrap_ioctl(int fd, unsigned request, struct file_clone_range *r)
{
    errno = EOPNOTSUPP;
    if (!can_clone || request != (unsigned)FICLONERANGE)
        return -1;
    size_t n = (size_t)r->src_length;
    char *bytes = malloc(n);
    bool ok = bytes && pread((int)r->src_fd, bytes, n, (off_t)r->src_offset) == (ssize_t)n &&
              pwrite(fd, bytes, n, (off_t)r->dest_offset) == (ssize_t)n;
    CU_ASSERT(ok && r->dest_offset % SINK_PAGE == 0 && r->src_offset % SINK_PAGE == 0 && n % SINK_PAGE == 0);
    free(bytes);
    cloned_bytes += n;
    return ok ? 0 : -1;
}

static int stop_after_one_page(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return done > SINK_PAGE && done <= total;
}

#define LARGE_ELEMENTS 600000

static ckpt_file *open_path(const char *path)
{
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &f, NULL), CKPT_OK);
    return f;
}

/* write_large_archive - writes a tensor of LARGE_ELEMENTS numbers to PATH, and its numbers to NUMBERS. */
static void write_large_archive(const char *path, float *numbers)
{
    buf b;
    buf_init(&b, 1 << 16);
    put_pickle(&b, "{'w':" TENSOR_V2(STORAGE("Float", "0", 600000), 0, "(600000,)", "(1,)") "}");
    for (size_t i = 0; i < LARGE_ELEMENTS; i++)
        numbers[i] = (float)i;
    struct record r[] = {{"data.pkl", (char *)b.data, b.len},
                         {"data/0", (char *)numbers, LARGE_ELEMENTS * sizeof *numbers},
                         {"version", "3\n", 2}};
    struct test_file made = make_archive(r, 3, NULL);
    FILE *f = fopen(path, "wb");
    CU_ASSERT_FATAL(f && fwrite(made.bytes, 1, made.size, f) == made.size && fclose(f) == 0);
    close_file(&made);
    buf_free(&b);
}

static void unchanged_storages_are_cloned(void)
{
    char in[] = "/tmp/ckpt-unit-XXXXXX", out[] = "/tmp/ckpt-unit-XXXXXX";
    float *numbers = calloc(2 * LARGE_ELEMENTS, sizeof *numbers), *rewritten = numbers + LARGE_ELEMENTS;
    ckpt_plan *p = NULL;
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_error err;
    int fds[] = {mkstemp(in), mkstemp(out)};
    CU_ASSERT_FATAL(numbers && fds[0] >= 0 && fds[1] >= 0);
    write_large_archive(in, numbers);
    ckpt_file *f = open_path(in);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "m.", &err), CKPT_OK);
    ckpt_write_options o = {
        .struct_size = sizeof o, .format = "torch-zip", .force = true, .no_sync = true, .threads = 1};
    can_clone = true;
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out, &o, &r, &err), CKPT_OK);
    CU_ASSERT(cloned_bytes > 2000000 && cloned_bytes <= LARGE_ELEMENTS * sizeof *numbers);
    ckpt_file *g = open_path(out);
    CU_ASSERT_EQUAL(ckpt_tensor_read(g, 0, 0, LARGE_ELEMENTS, rewritten, &err), CKPT_OK);
    CU_ASSERT(memcmp(numbers, rewritten, LARGE_ELEMENTS * sizeof *numbers) == 0);
    ckpt_close(g);
    o.progress = stop_after_one_page;
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out, &o, &r, &err), CKPT_ECANCELLED);
    can_clone = false;
    ckpt_plan_free(p);
    ckpt_close(f);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    unlink(in);
    unlink(out);
    free(numbers);
}

/* ------------------------------------------------------------- as safetensors */

#define STORAGE_1 STORAGE("Float", "1", 4)
#define OVERLAP                                                                                              \
    "{'b':" TENSOR_V2(FLOAT_STORAGE, 2, "(2,)", "(1,)") ",'o':" TENSOR_V2(                                   \
        STORAGE_1, 0, "(4,)", "(1,)") ",'a':" TENSOR_V2(FLOAT_STORAGE, 0, "(3,)",                            \
                                                        "(1,)") ",'e':" TENSOR_V2(FLOAT_STORAGE, 1, "(0,)",  \
                                                                                  "(1,)") "}"

static void shared_bytes_are_reported(void)
{
    static const struct rewrite to_safetensors = {.safetensors = true},
                                refusing_ties = {.safetensors = true, .ties = CKPT_TIES_ERROR};
    check_rewrite(OVERLAP, to_safetensors,
                  "a dense float32[3]@0+0;b dense float32[2]@1+0;e dense float32[0]@2+0;"
                  "o dense float32[4]@3+0;",
                  "\"b\" and \"a\" share bytes but are different views; each is written in full "
                  "(1 of 4 tensors)");
    check_lossy(OVERLAP, refusing_ties, "share bytes");
    check_lossy("{'a':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR "}", refusing_ties, "are one tensor");
    check_rewrite("{'e':" FLOAT_TENSOR ",'format':" FLOAT_TENSOR "}", to_safetensors,
                  "e dense float32[4]@0+0;format dense float32[4]@1+0;",
                  NULL); /* no tie is recorded: the key "format" of the metadata is reserved */
    check_rewrite("{'w':" FLOAT_TENSOR ",'v':" FLOAT_TENSOR "}", to_safetensors,
                  "v dense float32[4]@0+0;w dense float32[4]@0+0;", NULL);
    check_lossy("{'e':" FLOAT_TENSOR ",'format':" FLOAT_TENSOR "}", refusing_ties, "are one tensor");
    check_status("{'a':[" FLOAT_TENSOR "],'a.0':" FLOAT_TENSOR "}", to_safetensors, CKPT_EEXIST,
                 "two tensors would both be called \"a.0\": [\"a\"][0] and [\"a.0\"]");
}

static void packed_values_need_a_dimension(void)
{
    check_lossy("{'w':torch._utils._rebuild_tensor_v3(" UNTYPED_STORAGE(16) ",0,(),(),False," ORDERED_DICT
                                                                            ",torch.float4_e2m1fn_x2)}",
                (struct rewrite){.safetensors = true}, "has no dimension to count its packed values in");
    check_rewrite("{'w':torch._utils._rebuild_tensor_v3(" UNTYPED_STORAGE(
                      16) ",0,(2,),(1,),False," ORDERED_DICT ",torch.float4_e2m1fn_x2)}",
                  (struct rewrite){.safetensors = true}, "w dense float4_e2m1fn_x2[2]@0+0;", NULL);
}

/* ------------------------------------------------------- views, and streams in bytes */

#define STORAGE_VIEW(offset) "@('storage',torch.FloatStorage,'0','cpu',4,('v'," #offset ",2))"

static struct test_file make_legacy_floats(const char *text)
{
    static const float four[] = {1, 2, 3, 4};
    unsigned char storage[24] = {4};
    memcpy(storage + 8, four, 16);
    return make_torch_legacy(text, "['0']", storage, sizeof storage);
}

/* A tensor at OFFSET of a storage view that begins at VIEW_OFFSET of the storage. */
#define VIEW_TENSOR(view_offset, offset)                                                                     \
    "torch._utils._rebuild_tensor(" STORAGE_VIEW(view_offset) "," offset ",(1,),(1,))"

static void storage_views_become_offsets(void)
{
    float v[2];
    struct test_file made = make_legacy_floats(
        /* clang-format off */
        "{'a':" VIEW_TENSOR(1, "1") ",'b':" TENSOR_V2(STORAGE_VIEW(2), 0, "(2,)",
                                                      "(1,)") ",'q':my.Opaque(" VIEW_TENSOR(1, "'x'") ","
        VIEW_TENSOR(1, "-1") "," VIEW_TENSOR(1, "9223372036854775807") ")}");
    /* clang-format on */
    struct test_file rewritten = rewrite_file(&made, unchanged, NULL);
    check_tensors(&rewritten, "a dense float32[1]@0+2;b dense float32[2]@0+2;");
    CU_ASSERT_EQUAL_FATAL(rewritten.status, CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_read(rewritten.file, 1, 0, 2, v, NULL), CKPT_OK);
    CU_ASSERT(v[0] == 3 && v[1] == 4);
    close_file(&rewritten);
    made = make_legacy_floats("{'a':" VIEW_TENSOR(1, "1") "}");
    rewritten = rewrite_file(&made, to_f16, NULL);
    check_tensors(&rewritten, "a dense float16[1]@0+2;");
    close_file(&rewritten);
}

/* In the file, only an object of an unknown class refers to the storage. */
static void legacy_storages_that_no_tensor_uses_are_written(void)
{
    struct test_file made = make_legacy_floats("{'g':my.Opaque(" FLOAT_TENSOR ")}"),
                     rewritten = rewrite_file(&made, unchanged, NULL);
    CU_ASSERT_EQUAL_FATAL(rewritten.status, CKPT_OK);
    check_tensors(&rewritten, "");
    close_file(&rewritten);
}

#define TENSOR_WITH_TENSOR                                                                                   \
    "{'q':torch._tensor._rebuild_from_type_v2(torch._utils._rebuild_tensor_v2,torch.Tensor,(" FLOAT_STORAGE  \
    ",0,(2,),(1,),False," ORDERED_DICT "),{'t':" FLOAT_TENSOR ",'n':1})}"

static void attributes_that_are_tensors_are_written(void)
{
    static const char want[] = "q dense float32[2]@0+0;q.t dense float32[4]@0+0;";
    struct test_file made = make_legacy_floats(TENSOR_WITH_TENSOR),
                     rewritten = rewrite_file(&made, unchanged, NULL);
    check_tensors(&rewritten, want);
    CU_ASSERT_EQUAL(rewritten.file ? ckpt_leaf_count(rewritten.file) : 0, 1);
    close_file(&rewritten);
    check_rewrite(TENSOR_WITH_TENSOR, unchanged, want, NULL);
    check_rewrite(TENSOR_WITH_TENSOR, sanitized, want, NULL);
    check_rewrite(TENSOR_WITH_TENSOR, (struct rewrite){.drop = "q.t"}, "q dense float32[2]@0+0;", NULL);
    check_rewrite(TENSOR_WITH_TENSOR, (struct rewrite){.safetensors = true},
                  "q dense float32[2]@0+0;q.t dense float32[4]@1+0;", NULL);
    check_lossy(TENSOR_WITH_TENSOR, (struct rewrite){.safetensors = true, .strict = true},
                "\"q.n\" (int) is not a tensor");
}

/* A storage of two floats as torch.save writes it to a bytes object; see test_torch_pid.c. */
#define LEGACY_HEADER "\\80\\02\\8a\\0a\\6c\\fc\\9c\\46\\f9\\20\\6a\\a8\\50\\19.\\80\\02M\\e9\\03.\\80\\02}."
#define FLOATS_IN_BYTES                                                                                      \
    "torch.storage._load_from_bytes(b'" LEGACY_HEADER                                                        \
    "\\80\\02(X\\07\\00\\00\\00storagectorch\\0aFloatStorage\\0aX\\01\\00\\00\\000X\\03\\00\\00\\00"         \
    "cpuK\\02NtQ.\\80\\02(X\\01\\00\\00\\000l.\\02\\00\\00\\00\\00\\00\\00\\00"                              \
    "\\00\\00\\80\\3f\\00\\00\\00\\40')"
#define TENSOR_OF(storage) "torch._utils._rebuild_tensor_v2(" storage ",0,(2,),(1,),False," ORDERED_DICT ")"

/* torch.load with weights_only refuses _load_from_bytes. */
static void storages_pickled_as_bytes_become_records(void)
{
    static const char text[] = "{'a':" TENSOR_OF("#1=" FLOATS_IN_BYTES) ",'b':" TENSOR_OF(
        "#1") ",'c':" TENSOR_OF(FLOATS_IN_BYTES) ",'s':#1}";
    float v[2];
    struct test_file made = make_pickle(text), rewritten = rewrite_file(&made, unchanged, NULL);
    check_tensors(
        &rewritten,
        "a dense float32[2]@0+0;b dense float32[2]@0+0;c dense float32[2]@1+0;s storage float32[2]@0+0;");
    CU_ASSERT_EQUAL_FATAL(rewritten.status, CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_storage_count(rewritten.file), 2);
    for (size_t i = 0; i < rewritten.file->pickles[0]->nglobals; i++)
        CU_ASSERT(
            !value_is_global(rewritten.file->pickles[0]->globals[i], "torch.storage", "_load_from_bytes"));
    CU_ASSERT_EQUAL(ckpt_tensor_read(rewritten.file, 2, 0, 2, v, NULL), CKPT_OK);
    unit_to_host_order(v, 2, 4);
    CU_ASSERT(v[0] == 1 && v[1] == 2);
    close_file(&rewritten);
    made = make_pickle("{'a':" TENSOR_OF(FLOATS_IN_BYTES) ",'b':torch._utils._rebuild_tensor(" FLOATS_IN_BYTES
                                                          ",0,(2,),(1,))}");
    rewritten = rewrite_file(&made, to_f16, NULL);
    check_tensors(&rewritten, "a dense float16[2]@0+0;b dense float16[2]@1+0;");
    close_file(&rewritten);
    made = make_pickle("{'a':#1=" FLOATS_IN_BYTES ",'b':" TENSOR_OF("#1") "}");
    rewritten = rewrite_file(&made, to_f16, NULL);
    CU_ASSERT_EQUAL(rewritten.status, CKPT_ELOSSY);
    close_file(&rewritten);
}

/* ------------------------------------------------------ tensors of other files */

static struct test_file make_safetensors(const char *header, size_t data_size)
{
    char bytes[4096] = {0};
    size_t n = strlen(header);
    bytes[0] = (char)n;
    bytes[1] = (char)(n >> 8);
    memcpy(bytes + 8, header, n);
    return open_bytes(bytes, 8 + n + data_size, NULL);
}

static void safetensors_files_are_written_as_torch(void)
{
    struct test_file made = make_safetensors(
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"e\":{\"dtype\":\"F8_E8M0\",\"shape\":[2],\"data_offsets\":[8,10]},"
        "\"z\":{\"dtype\":\"F32\",\"shape\":[0,4611686018427387904,4611686018427387904],"
        "\"data_offsets\":[10,10]}}",
        10);
    struct test_file rewritten = rewrite_file(&made, unchanged, NULL);
    check_tensors(&rewritten, "w dense float32[2]@0+0;e dense float8_e8m0fnu[2]@1+0;"
                              "z dense float32[0,4611686018427387904,4611686018427387904]@2+0;");
    close_file(&rewritten);
    made = make_safetensors("{\"w\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3);
    rewritten = rewrite_file(&made, unchanged, NULL);
    CU_ASSERT_EQUAL(rewritten.status, CKPT_ELOSSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(rewritten.err.what, "has a type that torch lacks;"
                                                      " a torch file cannot hold it"));
    close_file(&rewritten);
    made = make_safetensors(
        "{\"z\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775808],\"data_offsets\":[0,0]}}", 0);
    rewritten = rewrite_file(&made, unchanged, NULL);
    CU_ASSERT_EQUAL(rewritten.status, CKPT_ELOSSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(rewritten.err.what, "has a size or stride beyond 2^63"));
    close_file(&rewritten);
}

/* ------------------------------------------------------ embedded archives */

static void embedded_archives_are_cast_too(void)
{
    static const char config[] =
        "{\"config\":{\"a\":{\"path_name\":\"weight_0\",\"use_pickle\":true},"
        "\"b\":{\"path_name\":\"weight_1\",\"tensor_meta\":{\"dtype\":7,\"sizes\":[4],\"strides\":[1]}}}}";
    static const char data[16];
    struct test_file in = make_torch_zip("{'w':" FLOAT_TENSOR ",'v':" TENSOR_V2(
        FLOAT_STORAGE, 1, "(2,)", "(1,)") ",'l':" TENSOR_V2(STORAGE("Long", "1", 2), 0, "(2,)", "(1,)") "}");
    struct record r[] = {{"archive_format", "pt2", 3},
                         {"models/model.json", "{}", 2},
                         {"data/weights/weight_0", in.bytes, in.size},
                         {"data/weights/weight_1", data, 16},
                         {"data/weights/model_weights_config.json", config, sizeof config - 1}};
    struct test_file made = make_archive(r, 5, NULL), rewritten = rewrite_file(&made, to_f16, NULL);
    check_tensors(&rewritten, "state_dict.a.w dense float16[4]@0+0;state_dict.a.v dense float16[2]@0+1;"
                              "state_dict.a.l dense int64[2]@1+0;state_dict.b dense float16[4]@2+0;");
    close_file(&rewritten);
    close_file(&in);
}

#define TWO_NAMES "{'m':#1={'v':" FLOAT_TENSOR ",'w':" FLOAT_TENSOR "},'s':#1}"

/* A dict has two names, and an entry is dropped by one of them. Both names keep the entry, or both lose it,
 * and a notice reports which. Names outside of the root do not count. */
static void entries_of_a_dict_with_two_names_are_kept_or_dropped_in_both(void)
{
    check_rewrite(TWO_NAMES, (struct rewrite){.root = "m", .drop = "w"}, "v dense float32[4]@0+0;", NULL);
    check_rewrite(TWO_NAMES, (struct rewrite){.root = "m", .drop = "v"}, "w dense float32[4]@0+0;", NULL);
    check_rewrite(TWO_NAMES, (struct rewrite){.drop = "m.w"},
                  "m.v dense float32[4]@0+0;m.w dense float32[4]@0+0;s.v dense float32[4]@0+0;s.w dense "
                  "float32[4]@0+0;",
                  "1 tensor that was to be left out stays");
    check_rewrite("{'m':{'s':#1={'v':{'x':" FLOAT_TENSOR "}}},'n':{'s':#1},'w':" FLOAT_TENSOR "}",
                  (struct rewrite){.drop = "m.s.*"}, "w dense float32[4]@0+0;",
                  "1 tensor goes too, such as \"n.s.v.x\"");
}

void suite_torch_rewrite(void)
{
    UNIT(entries_of_a_dict_with_two_names_are_kept_or_dropped_in_both);
    UNIT(all_views_of_a_storage_are_cast_together);
    UNIT(impossible_casts_are_refused);
    UNIT(numpy_arrays_are_not_cast);
    UNIT(float8_tensors_lose_requires_grad);
    UNIT(meta_tensors_stay_without_bytes);
    UNIT(storages_of_classes_that_torch_lacks_become_untyped);
    UNIT(objects_keep_the_tensors_they_hold);
    UNIT(sanitized_tensors_are_builtin);
    UNIT(malformed_calls_are_kept_and_unknown_persistent_ids_refused);
    UNIT(writing_stops_on_request);
    UNIT(unchanged_storages_are_cloned);
    UNIT(shared_bytes_are_reported);
    UNIT(packed_values_need_a_dimension);
    UNIT(dropped_tensors_take_their_entries_with_them);
    UNIT(storage_views_become_offsets);
    UNIT(legacy_storages_that_no_tensor_uses_are_written);
    UNIT(attributes_that_are_tensors_are_written);
    UNIT(storages_pickled_as_bytes_become_records);
    UNIT(safetensors_files_are_written_as_torch);
    UNIT(embedded_archives_are_cast_too);
}
