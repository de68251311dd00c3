/* ckpt_plan_cast() casts the selected tensors and reports overflow. tests/oracle compares the values with
 * those of torch. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/plan.h"
#include "pickled.h"
#include "small_files.h"

#define HEADER                                                                                               \
    "{\"n\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]},"                                       \
    "\"a.w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]},"                                     \
    "\"a.s\":{\"dtype\":\"F8_E8M0\",\"shape\":[2],\"data_offsets\":[12,14]},"                                \
    "\"a.h\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[14,16]},"                                    \
    "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[16,24]}}"

/* The elements of the tensors:
 *   n: 1, -2    a.w: 65520, 1 + 2^-11    a.s: 1, 2    a.h: 1.5    c: 0 */
static const unsigned char data[24] = {1,    0,    0xfe, 0xff, 0x00, 0xf0, 0x7f, 0x47,
                                       0x00, 0x10, 0x80, 0x3f, 0x7f, 0x80, 0x00, 0x3e};

static char dir[64];

/* out_path - returns the path of NAME in a temporary folder, in one of two static buffers. */
static const char *out_path(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    if (!dir[0]) {
        snprintf(dir, sizeof dir, "/tmp/ckpt-unit-XXXXXX");
        CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    }
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void remove_folder(void)
{
    CU_ASSERT_EQUAL(rmdir(dir), 0); /* fails if the folder holds files */
    dir[0] = '\0';
}

static ckpt_plan *open_plan(void) { return plan_of(open_safetensors(HEADER, data, sizeof data)); }

/* Returns the dtype that the tensor NAME is written as. */
static ckpt_dtype dtype_of(ckpt_plan *p, const char *name)
{
    CU_ASSERT_EQUAL(plan_update_entries(p, NULL), CKPT_OK);
    for (size_t i = 0; i < p->nentries; i++)
        if (str_is(p->entries[i].name, name))
            return plan_dtype(p, p->entries[i].row);
    return CKPT_DT_NONE;
}

static void a_wildcard_casts_only_floats(void)
{
    ckpt_plan *p = open_plan();
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_BF16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(dtype_of(p, "a.w"), CKPT_DT_BF16);
    CU_ASSERT_EQUAL(dtype_of(p, "a.h"), CKPT_DT_BF16);
    CU_ASSERT_EQUAL(dtype_of(p, "n"), CKPT_DT_I16);
    CU_ASSERT_EQUAL(dtype_of(p, "a.s"), CKPT_DT_F8_E8M0);
    CU_ASSERT_EQUAL(dtype_of(p, "c"), CKPT_DT_C64);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "*", CKPT_DT_F64, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(dtype_of(p, "n"), CKPT_DT_I16);
    CU_ASSERT_EQUAL(dtype_of(p, "a.w"), CKPT_DT_F64);
    close_plan(p);
}

static void the_last_matching_cast_is_used(void)
{
    ckpt_plan *p = open_plan();
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.w", CKPT_DT_F16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.?", CKPT_DT_F8_E5M2, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "*h", CKPT_DT_F16, NULL), CKPT_OK); /* a.h is float16 already */
    CU_ASSERT_EQUAL(dtype_of(p, "a.w"), CKPT_DT_F8_E5M2);
    CU_ASSERT_EQUAL(dtype_of(p, "a.h"), CKPT_DT_F16);
    close_plan(p);
}

static void a_full_name_also_casts_integers(void)
{
    ckpt_plan *p = open_plan();
    ckpt_error err;
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "n", CKPT_DT_F16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.s", CKPT_DT_F32, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(dtype_of(p, "n"), CKPT_DT_F16);
    CU_ASSERT_EQUAL(dtype_of(p, "a.s"), CKPT_DT_F32);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "c", CKPT_DT_F16, &err), CKPT_ELOSSY);
    CU_ASSERT(strstr(err.what, "\"c\" (dense, complex64) cannot become float16") != NULL);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "d", CKPT_DT_F16, &err), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "d*", CKPT_DT_F16, &err), CKPT_ENOTFOUND);
    close_plan(p);
}

static void only_floats_and_q8_0_are_targets(void)
{
    ckpt_plan *p = open_plan();
    for (uint32_t dt = 0; dt < DTYPE_COUNT; dt++) {
        bool is_target = (dt >= CKPT_DT_F64 && dt <= CKPT_DT_F8_E5M2FNUZ) || dt == CKPT_DT_Q8_0;
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, (ckpt_dtype)dt, NULL), is_target ? CKPT_OK : CKPT_EUSAGE);
    }
    close_plan(p);
}

static const ckpt_cast *find_cast(const ckpt_plan *p, const char *name)
{
    const ckpt_cast *c;
    for (size_t i = 0; (c = ckpt_plan_cast_at(p, i)) && !str_is(c->name, name); i++)
        ;
    return c;
}

/* Each writer counts the values that overflow, with and without dry_run. */
static void overflow_is_counted(void)
{
    static const char *const names[] = {"cast.safetensors", "cast.pt"};
    for (int i = 0; i < 4; i++) {
        ckpt_plan *p = open_plan();
        ckpt_write_options o = {.struct_size = sizeof o, .dry_run = i & 1, .force = true, .no_sync = true};
        ckpt_write_result r = CKPT_INIT(ckpt_write_result);
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_F16, NULL), CKPT_OK);
        CU_ASSERT_EQUAL_FATAL(ckpt_plan_write(p, out_path(names[i / 2]), &o, &r, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(r.ncasts, 1);
        const ckpt_cast *c = find_cast(p, "a.w");
        CU_ASSERT_FATAL(c != NULL);
        CU_ASSERT_EQUAL(c->elements, 2);
        CU_ASSERT_EQUAL(c->overflowed, 1);
        CU_ASSERT_STRING_EQUAL(c->became, "inf");
        CU_ASSERT(c->from == CKPT_DT_F32 && c->to == CKPT_DT_F16);
        CU_ASSERT_EQUAL(access(out_path(names[i / 2]), F_OK) == 0, !(i & 1));
        (void)unlink(out_path(names[i / 2]));
        close_plan(p);
    }
}

static void strict_refuses_overflow(void)
{
    static const char *const names[] = {"cast.safetensors", "cast.pt"};
    for (int i = 0; i < 4; i++) {
        ckpt_plan *p = open_plan();
        ckpt_error err;
        ckpt_write_options o = {.struct_size = sizeof o, .dry_run = i & 1, .strict = true, .no_sync = true};
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_F16, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_plan_write(p, out_path(names[i / 2]), &o, NULL, &err), CKPT_ELOSSY);
        CU_ASSERT(strstr(err.what, "\"a.w\": 1 of 2 values overflow float16") != NULL);
        CU_ASSERT_NOT_EQUAL(access(out_path(names[i / 2]), F_OK), 0);
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.w", CKPT_DT_F64, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_plan_write(p, out_path(names[i / 2]), &o, NULL, NULL), CKPT_OK);
        (void)unlink(out_path(names[i / 2]));
        close_plan(p);
    }
}

/* check_shared - checks that the first two tensors of the file at PATH have DTYPE and share a storage. */
static void check_shared(const char *path, ckpt_dtype dtype)
{
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &f, NULL), CKPT_OK);
    const ckpt_tensor a = tensor_at(f, 0), b = tensor_at(f, 1);
    CU_ASSERT(a.storage == b.storage && a.dtype == dtype && b.dtype == dtype);
    ckpt_close(f);
}

static void tied_tensors_are_cast_together(void)
{
    ckpt_plan *p = plan_of(open_corpus_file("torch/t26/tied.pt"));
    ckpt_write_options o = {.struct_size = sizeof o, .force = true, .no_sync = true};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_error err;
    for (uint32_t dt = CKPT_DT_F64; dt <= CKPT_DT_F8_E5M2FNUZ; dt++) {
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, (ckpt_dtype)dt, NULL), CKPT_OK);
        CU_ASSERT_EQUAL_FATAL(ckpt_plan_write(p, out_path("tied.pt"), &o, &r, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(r.ncasts, dt != CKPT_DT_F32);
        check_shared(out_path("tied.pt"), (ckpt_dtype)dt);
    }
    (void)unlink(out_path("tied.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "b", CKPT_DT_F16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out_path("tied.pt"), &o, NULL, &err), CKPT_ELOSSY);
    CU_ASSERT(strstr(err.what, "\"a\" and \"b\" share bytes") != NULL);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out_path("tied.safetensors"), &o, NULL, &err), CKPT_ELOSSY);
    CU_ASSERT_EQUAL(ckpt_plan_write_in_place(p, &o, NULL, &err), CKPT_EUSAGE);
    close_plan(p);
}

static void shards_are_split_by_the_sizes_after_the_cast(void)
{
    ckpt_plan *p = open_plan();
    ckpt_write_options o = {.struct_size = sizeof o, .dry_run = true, .max_shard = 16};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, "c", NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out_path("shards.safetensors"), &o, &r, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(r.noutputs, 1); /* one shard of 4 + 8 + 2 + 2 bytes */
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.w", CKPT_DT_F64, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out_path("shards.safetensors"), &o, &r, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(r.noutputs, 4); /* shards of 4, 16 and 2 + 2 bytes, and the index */
    CU_ASSERT_EQUAL(r.ncasts, 1);
    close_plan(p);
}

/* ---- a cast without a glob casts only the weights */

#define SCALAR(key) TENSOR_V2(STORAGE("Float", key, 4), 0, "()", "()")
#define VECTOR(key) TENSOR_V2(STORAGE("Float", key, 4), 0, "(4,)", "(1,)")

/* check_cast - makes a file of the pickle CONTENT and a plan with N casts to float16, one for each of GLOBS.
 * Only the tensors WANT (names, separated by commas) must keep their dtype. Writing the plan must give NOTICE
 * (NULL: no notice). */
static void check_cast(const char *content, size_t n, const char *const *globs, const char *want,
                       const char *notice)
{
    char uncast[512] = "";
    size_t len = 0;
    bool has_notice = !notice;
    struct test_file made = make_torch_zip(content);
    CU_ASSERT_PTR_NOT_NULL_FATAL(made.file);
    ckpt_plan *p = plan_of(made.file);
    for (size_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, globs[i], CKPT_DT_F16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(plan_update_entries(p, NULL), CKPT_OK);
    for (size_t i = 0; i < p->nentries; i++)
        if (plan_dtype(p, p->entries[i].row) != CKPT_DT_F16)
            len += (size_t)snprintf(uncast + len, sizeof uncast - len, "%s%.*s", len ? "," : "",
                                    STR_ARG(p->entries[i].name));
    CU_ASSERT_STRING_EQUAL(uncast, want);
    CU_ASSERT_EQUAL(
        ckpt_plan_write(p, out_path("x.pt"),
                        &(ckpt_write_options){.struct_size = sizeof(ckpt_write_options), .dry_run = true},
                        &(ckpt_write_result)CKPT_INIT(ckpt_write_result), NULL),
        CKPT_OK);
    for (size_t i = 0; i < p->report.notices.n; i++)
        has_notice |= notice && strstr(p->report.notices.text[i], notice);
    CU_ASSERT(has_notice && (notice || p->report.notices.n == 0));
    ckpt_plan_free(p);
    close_file(&made);
    remove_folder();
}

static void weights_and_their_averages_are_cast(void)
{
    static const char all[] = "{'model':{'w':" VECTOR("0") "},'ema':{'w':" VECTOR(
        "0") "},'optimizer':{'state':{0:"
             "{'step':" SCALAR("2") ",'exp_avg':" VECTOR("1") "}},'param_groups':[{'params':[0]}]}}";
    /* the globs of the casts, in order; NULL casts the weights */
    static const char *const no_glob[] = {NULL}, *const weights_then_optimizer[] = {NULL, "optimizer"},
                             *const star_then_step[] = {"*", "optimizer.state.0.step"};
    check_cast(all, 1, no_glob, "optimizer.state.0.step,optimizer.state.0.exp_avg",
               "left 1 tensor outside the weights as it is: --cast optimizer=float16 casts it");
    check_cast(all, 2, weights_then_optimizer, "optimizer.state.0.step", "1 step counter was not cast");
    /* only "*" */
    check_cast(all, 1, star_then_step, "optimizer.state.0.step", "1 step counter was not cast");
    /* the step is cast by the second cast; the notice is that of the first */
    check_cast(all, 2, star_then_step, "", "1 step counter was not cast");
    check_cast("{'model':{'w':" VECTOR("0") "},'loss':" VECTOR("1") ",'last':{'x':" VECTOR(
                   "2") "},'optimizer':{'state':{},"
                        "'param_groups':[]}}",
               1, no_glob, "loss,last.x",
               "left 2 tensors outside the weights as they are: --cast loss=float16 --cast last=float16");
    check_cast("{'w':" VECTOR("0") ",'b':" VECTOR("1") "}", 1, no_glob, "", NULL);
    /* "best" is cast, too, because it shares a storage with the model. */
    check_cast("{'model':{'w':" VECTOR("0") "},'best':[" VECTOR("0") "],'args':{'w':" VECTOR("1") "}}", 1,
               no_glob, "args.w", "left 1 tensor outside the weights");
}

static void scales_are_kept_and_reported(void)
{
    ckpt_plan *p = open_plan();
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_F32, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(dtype_of(p, "a.s"), CKPT_DT_F8_E8M0);
    CU_ASSERT(p->report.notices.n == 1 &&
              strcmp(p->report.notices.text[0], "1 tensor of scales (float8_e8m0fnu) stays") == 0);
    close_plan(p);
}

void suite_cast(void)
{
    UNIT(a_wildcard_casts_only_floats);
    UNIT(the_last_matching_cast_is_used);
    UNIT(a_full_name_also_casts_integers);
    UNIT(only_floats_and_q8_0_are_targets);
    UNIT(overflow_is_counted);
    UNIT(strict_refuses_overflow);
    UNIT(tied_tensors_are_cast_together);
    UNIT(shards_are_split_by_the_sizes_after_the_cast);
    UNIT(remove_folder);
    UNIT(weights_and_their_averages_are_cast);
    UNIT(scales_are_kept_and_reported);
}
