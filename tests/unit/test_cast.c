/* Which tensors a plan casts, and what is told of it. Values are held against torch in tests/oracle. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/plan.h"
#include "flat.h"
#include "pickled.h"

#define HEADER                                                                                               \
    "{\"n\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]},"                                       \
    "\"a.w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]},"                                     \
    "\"a.s\":{\"dtype\":\"F8_E8M0\",\"shape\":[2],\"data_offsets\":[12,14]},"                                \
    "\"a.h\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[14,16]},"                                    \
    "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[16,24]}}"

/* 1 -2; 65520 and 1 + 2^-11; 1 and 2; 1.5; 0 */
static const unsigned char data[24] = {1,    0,    0xfe, 0xff, 0x00, 0xf0, 0x7f, 0x47,
                                       0x00, 0x10, 0x80, 0x3f, 0x7f, 0x80, 0x00, 0x3e};

static char dir[64];

/* out - path of NAME in a folder of this suite, in one of two static buffers. */
static const char *out(const char *name)
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
    CU_ASSERT_EQUAL(rmdir(dir), 0); /* nothing is left in it */
    dir[0] = '\0';
}

static ckpt_plan *plan_of(ckpt_file *f)
{
    ckpt_plan *p = NULL;
    CU_ASSERT_EQUAL(ckpt_plan_new(f, &p, NULL), CKPT_OK);
    return p;
}

static ckpt_plan *plan(void) { return plan_of(flat_open(HEADER, data, sizeof data)); }

static void done(ckpt_plan *p)
{
    ckpt_plan_free(p);
    flat_close();
}

/* What the tensor called NAME is written as. */
static ckpt_dtype becomes(ckpt_plan *p, const char *name)
{
    CU_ASSERT_EQUAL(plan_update_entries(p, NULL), CKPT_OK);
    for (size_t i = 0; i < p->nentries; i++)
        if (str_is(p->entries[i].name, name))
            return plan_dtype(p, p->entries[i].row);
    return CKPT_DT_NONE;
}

static void all_floats_and_nothing_else(void)
{
    ckpt_plan *p = plan();
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_BF16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(becomes(p, "a.w"), CKPT_DT_BF16);
    CU_ASSERT_EQUAL(becomes(p, "a.h"), CKPT_DT_BF16);
    CU_ASSERT_EQUAL(becomes(p, "n"), CKPT_DT_I16);
    CU_ASSERT_EQUAL(becomes(p, "a.s"), CKPT_DT_F8_E8M0);
    CU_ASSERT_EQUAL(becomes(p, "c"), CKPT_DT_C64);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "*", CKPT_DT_F64, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(becomes(p, "n"), CKPT_DT_I16);
    CU_ASSERT_EQUAL(becomes(p, "a.w"), CKPT_DT_F64);
    done(p);
}

static void the_last_that_matches_counts(void)
{
    ckpt_plan *p = plan();
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.w", CKPT_DT_F16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.?", CKPT_DT_F8_E5M2, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "*h", CKPT_DT_F16, NULL), CKPT_OK); /* its own again */
    CU_ASSERT_EQUAL(becomes(p, "a.w"), CKPT_DT_F8_E5M2);
    CU_ASSERT_EQUAL(becomes(p, "a.h"), CKPT_DT_F16);
    done(p);
}

static void names_mean_integers_too(void)
{
    ckpt_plan *p = plan();
    ckpt_error err;
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "n", CKPT_DT_F16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.s", CKPT_DT_F32, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(becomes(p, "n"), CKPT_DT_F16);
    CU_ASSERT_EQUAL(becomes(p, "a.s"), CKPT_DT_F32);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "c", CKPT_DT_F16, &err), CKPT_ELOSSY);
    CU_ASSERT(strstr(err.what, "\"c\" (dense, complex64) cannot become float16") != NULL);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "d", CKPT_DT_F16, &err), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "d*", CKPT_DT_F16, &err), CKPT_ENOTFOUND);
    done(p);
}

static void floats_and_q8_0_are_targets(void)
{
    ckpt_plan *p = plan();
    for (uint32_t dt = 0; dt < DTYPE_COUNT; dt++) {
        bool target = (dt >= CKPT_DT_F64 && dt <= CKPT_DT_F8_E5M2FNUZ) || dt == CKPT_DT_Q8_0;
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, (ckpt_dtype)dt, NULL), target ? CKPT_OK : CKPT_EUSAGE);
    }
    done(p);
}

static const ckpt_cast *cast_of(const ckpt_plan *p, const char *name)
{
    const ckpt_cast *c;
    for (size_t i = 0; (c = ckpt_plan_cast_at(p, i)) && !str_is(c->name, name); i++)
        ;
    return c;
}

/* Each writer, dry and for good: the same is told. */
static void overflow_is_counted(void)
{
    static const char *const outs[] = {"cast.safetensors", "cast.pt"};
    for (int i = 0; i < 4; i++) {
        ckpt_plan *p = plan();
        ckpt_write_options o = {.struct_size = sizeof o, .dry_run = i & 1, .force = true, .no_sync = true};
        ckpt_write_result r = CKPT_INIT(ckpt_write_result);
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_F16, NULL), CKPT_OK);
        CU_ASSERT_EQUAL_FATAL(ckpt_plan_write(p, out(outs[i / 2]), &o, &r, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(r.ncasts, 1);
        const ckpt_cast *c = cast_of(p, "a.w");
        CU_ASSERT_FATAL(c != NULL);
        CU_ASSERT_EQUAL(c->elements, 2);
        CU_ASSERT_EQUAL(c->overflowed, 1);
        CU_ASSERT_STRING_EQUAL(c->became, "inf");
        CU_ASSERT(c->from == CKPT_DT_F32 && c->to == CKPT_DT_F16);
        CU_ASSERT_EQUAL(access(out(outs[i / 2]), F_OK) == 0, !(i & 1));
        (void)unlink(out(outs[i / 2]));
        done(p);
    }
}

static void strict_refuses_overflow(void)
{
    static const char *const outs[] = {"cast.safetensors", "cast.pt"};
    for (int i = 0; i < 4; i++) {
        ckpt_plan *p = plan();
        ckpt_error err;
        ckpt_write_options o = {.struct_size = sizeof o, .dry_run = i & 1, .strict = true, .no_sync = true};
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_F16, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_plan_write(p, out(outs[i / 2]), &o, NULL, &err), CKPT_ELOSSY);
        CU_ASSERT(strstr(err.what, "\"a.w\": 1 of 2 values overflow float16") != NULL);
        CU_ASSERT_NOT_EQUAL(access(out(outs[i / 2]), F_OK), 0);
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.w", CKPT_DT_F64, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_plan_write(p, out(outs[i / 2]), &o, NULL, NULL), CKPT_OK);
        (void)unlink(out(outs[i / 2]));
        done(p);
    }
}

/* PATH opened: are its first two rows of DTYPE on one storage? */
static void shared(const char *path, ckpt_dtype dtype)
{
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &f, NULL), CKPT_OK);
    const ckpt_tensor a = tensor_at(f, 0), b = tensor_at(f, 1);
    CU_ASSERT(a.storage == b.storage && a.dtype == dtype && b.dtype == dtype);
    ckpt_close(f);
}

static void shared_bytes_stay_shared(void)
{
    ckpt_plan *p = plan_of(corpus_open("torch/t26/tied.pt"));
    ckpt_write_options o = {.struct_size = sizeof o, .force = true, .no_sync = true};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    ckpt_error err;
    for (uint32_t dt = CKPT_DT_F64; dt <= CKPT_DT_F8_E5M2FNUZ; dt++) {
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, (ckpt_dtype)dt, NULL), CKPT_OK);
        CU_ASSERT_EQUAL_FATAL(ckpt_plan_write(p, out("tied.pt"), &o, &r, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(r.ncasts, dt != CKPT_DT_F32);
        shared(out("tied.pt"), (ckpt_dtype)dt);
    }
    (void)unlink(out("tied.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "b", CKPT_DT_F16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out("tied.pt"), &o, NULL, &err), CKPT_ELOSSY);
    CU_ASSERT(strstr(err.what, "\"a\" and \"b\" share bytes") != NULL);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out("tied.safetensors"), &o, NULL, &err), CKPT_ELOSSY);
    CU_ASSERT_EQUAL(ckpt_plan_write_in_place(p, &o, NULL, &err), CKPT_EUSAGE);
    done(p);
}

/* A plan goes on as it was: written as shards and as a whole, the sizes are those of the target. */
static void shards_count_the_new_sizes(void)
{
    ckpt_plan *p = plan();
    ckpt_write_options o = {.struct_size = sizeof o, .dry_run = true, .max_shard = 16};
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, "c", NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out("shards.safetensors"), &o, &r, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(r.noutputs, 1); /* 4 + 8 + 2 + 2 bytes */
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, "a.w", CKPT_DT_F64, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, out("shards.safetensors"), &o, &r, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(r.noutputs, 4); /* 4, 16, 2 + 2 bytes, the index */
    CU_ASSERT_EQUAL(r.ncasts, 1);
    done(p);
}

/* ---- a cast without a glob is for the weights */

#define S(key) V2(STORAGE("Float", key, 4), 0, "()", "()")
#define T(key) V2(STORAGE("Float", key, 4), 0, "(4,)", "(1,)")

/* cast_leaves - which names of the file CONTENT stay as they are where CASTS (GLOB or NULL) make the others
 * float16; NOTICE is part of what is said when it is written, NULL: nothing is. */
static void cast_leaves(const char *content, size_t n, const char *const *casts, const char *want,
                        const char *notice)
{
    char stay[512] = "";
    size_t len = 0;
    bool heard = !notice;
    struct test_file m = make_torch_zip(content);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m.f);
    ckpt_plan *p = plan_of(m.f);
    for (size_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(ckpt_plan_cast(p, casts[i], CKPT_DT_F16, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(plan_update_entries(p, NULL), CKPT_OK);
    for (size_t i = 0; i < p->nentries; i++)
        if (plan_dtype(p, p->entries[i].row) != CKPT_DT_F16)
            len += (size_t)snprintf(stay + len, sizeof stay - len, "%s%.*s", len ? "," : "",
                                    STR_ARG(p->entries[i].name));
    CU_ASSERT_STRING_EQUAL(stay, want);
    CU_ASSERT_EQUAL(
        ckpt_plan_write(p, out("x.pt"),
                        &(ckpt_write_options){.struct_size = sizeof(ckpt_write_options), .dry_run = true},
                        &(ckpt_write_result)CKPT_INIT(ckpt_write_result), NULL),
        CKPT_OK);
    for (size_t i = 0; i < p->notices.n; i++)
        heard |= notice && strstr(p->notices.text[i], notice);
    CU_ASSERT(heard && (notice || p->notices.n == 0));
    ckpt_plan_free(p);
    close_file(&m);
    remove_folder();
}

static void weights_and_averaged_copies_alone(void)
{
    static const char all[] = "{'model':{'w':" T("0") "},'ema':{'w':" T(
        "0") "},'optimizer':{'state':{0:"
             "{'step':" S("2") ",'exp_avg':" T("1") "}},'param_groups':[{'params':[0]}]}}";
    static const char *const none[] = {NULL}, *const two[] = {NULL, "optimizer"},
                             *const step[] = {"*", "optimizer.state.0.step"};
    cast_leaves(all, 1, none, "optimizer.state.0.step,optimizer.state.0.exp_avg",
                "left 1 tensor outside the weights as it is: --cast optimizer=float16 casts it");
    cast_leaves(all, 2, two, "optimizer.state.0.step", "1 step counter was not cast");
    cast_leaves(all, 1, step, "optimizer.state.0.step", "1 step counter was not cast");
    cast_leaves(all, 2, step, "", "1 step counter was not cast"); /* of the first; the second names it */
    cast_leaves("{'model':{'w':" T("0") "},'loss':" T("1") ",'last':{'x':" T("2") "},'optimizer':{'state':{},"
                                                                                  "'param_groups':[]}}",
                1, none, "loss,last.x",
                "left 2 tensors outside the weights as they are: --cast loss=float16 --cast last=float16");
    cast_leaves("{'w':" T("0") ",'b':" T("1") "}", 1, none, "", NULL);
    /* The same bytes cannot be two types. */
    cast_leaves("{'model':{'w':" T("0") "},'best':[" T("0") "],'args':{'w':" T("1") "}}", 1, none, "args.w",
                "left 1 tensor outside the weights");
}

static void scales_stay_and_it_is_said(void)
{
    ckpt_plan *p = plan();
    CU_ASSERT_EQUAL(ckpt_plan_cast(p, NULL, CKPT_DT_F32, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(becomes(p, "a.s"), CKPT_DT_F8_E8M0);
    CU_ASSERT(p->notices.n == 1 &&
              strcmp(p->notices.text[0], "1 tensor of scales (float8_e8m0fnu) stays") == 0);
    done(p);
}

void suite_cast(void)
{
    UNIT(all_floats_and_nothing_else);
    UNIT(the_last_that_matches_counts);
    UNIT(names_mean_integers_too);
    UNIT(floats_and_q8_0_are_targets);
    UNIT(overflow_is_counted);
    UNIT(strict_refuses_overflow);
    UNIT(shared_bytes_stay_shared);
    UNIT(shards_count_the_new_sizes);
    UNIT(remove_folder);
    UNIT(weights_and_averaged_copies_alone);
    UNIT(scales_stay_and_it_is_said);
}
