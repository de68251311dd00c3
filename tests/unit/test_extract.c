/* ckpt_extract_lora as a program calls it: the list of reasons, the plan and the config, and a callback
 * that stops it. Without LAPACK, the tests are skipped; test_svd.c checks that this is an error. */
#include <stdio.h>

#include "unit.h"

static const float ones[6] = {1, 1, 1, 1, 1, 1}, twos[6] = {2, 2, 2, 2, 2, 2};
static ckpt_file *base, *tuned;
static ckpt_plan *base_plan, *tuned_plan;

/* make_model - makes a model whose matrix fc.weight and norm.weight have the numbers MATRIX and NORM. */
static void make_model(const float *matrix, const float *norm, ckpt_file **f, ckpt_plan **p)
{
    static const uint64_t shape[2] = {2, 3};
    ckpt_builder *builder;
    ckpt_builder_tensor weight = CKPT_INIT(ckpt_builder_tensor), vector = CKPT_INIT(ckpt_builder_tensor);
    weight.dtype = vector.dtype = CKPT_DT_F32;
    weight.shape = vector.shape = shape;
    weight.ndim = 2;
    vector.ndim = 1;
    weight.data = matrix;
    weight.nbytes = 6 * sizeof *matrix;
    vector.data = norm;
    vector.nbytes = 2 * sizeof *norm;
    CU_ASSERT_FATAL(ckpt_builder_new("model", &builder, NULL) == CKPT_OK);
    (void)ckpt_builder_add_tensor(builder, "fc.weight", &weight, NULL);
    (void)ckpt_builder_add_tensor(builder, "norm.weight", &vector, NULL);
    CU_ASSERT_FATAL(ckpt_builder_finish(builder, f, NULL) == CKPT_OK);
    CU_ASSERT_FATAL(ckpt_plan_new(*f, p, NULL) == CKPT_OK);
}

static void open_models(const float *matrix, const float *norm)
{
    make_model(ones, ones, &base, &base_plan);
    make_model(matrix, norm, &tuned, &tuned_plan);
}

static void close_models(void)
{
    ckpt_plan_free(base_plan);
    ckpt_plan_free(tuned_plan);
    ckpt_close(base);
    ckpt_close(tuned);
}

/* extract - calls ckpt_extract_lora with OPTS; *SKIPPED: there is no LAPACK. */
static ckpt_status extract(ckpt_extract_options opts, ckpt_extraction **out, bool *skipped)
{
    ckpt_error err;
    opts.struct_size = sizeof opts;
    opts.rank = 2;
    ckpt_status status = ckpt_extract_lora(base_plan, tuned_plan, &opts, out, &err);
    *skipped = status == CKPT_EUNSUPPORTED && err.sys_errno;
    if (*skipped)
        printf("extract skipped: %s\n", err.what);
    return status;
}

static void a_pair_is_made(void)
{
    ckpt_extraction *extraction;
    bool skipped;
    open_models(twos, ones);
    ckpt_status status = extract((ckpt_extract_options){0}, &extraction, &skipped);
    if (!skipped) {
        CU_ASSERT_EQUAL_FATAL(status, CKPT_OK);
        const ckpt_extracted *pair = ckpt_extracted_at(extraction, 0);
        CU_ASSERT(pair && pair->kind == CKPT_EXTRACTED_PAIR && pair->rank == 1 && pair->kept > 0.999);
        CU_ASSERT(!ckpt_extracted_at(extraction, 1) && ckpt_extraction_unchanged(extraction) == 1);
        CU_ASSERT_EQUAL(ckpt_plan_tensor_count(ckpt_extraction_plan(extraction)), 2);
        CU_ASSERT(strstr(ckpt_extraction_config(extraction).ptr, "\"r\": 1,") != NULL);
    }
    ckpt_extraction_free(extraction);
    close_models();
}

static void reasons_are_all_that_is_left(void)
{
    ckpt_extraction *extraction;
    bool skipped;
    open_models(twos, twos);
    ckpt_status status = extract((ckpt_extract_options){0}, &extraction, &skipped);
    if (!skipped) {
        CU_ASSERT_EQUAL_FATAL(status, CKPT_ELOSSY);
        const ckpt_extracted *norm = ckpt_extracted_at(extraction, 1);
        CU_ASSERT(norm && norm->kind == CKPT_EXTRACTED_NONE && norm->why != NULL);
        CU_ASSERT(!ckpt_extraction_plan(extraction) && ckpt_extraction_config(extraction).len == 0);
        CU_ASSERT_EQUAL(ckpt_extraction_write(extraction, "/nonexistent/a", NULL, NULL, NULL), CKPT_EUSAGE);
    }
    ckpt_extraction_free(extraction);
    close_models();
}

static int stop(void *user, uint64_t done, uint64_t total)
{
    int *calls = user;
    CU_ASSERT(done <= total);
    return ++*calls >= 3; /* two tensors are compared, then one is computed */
}

static void a_callback_stops_it(void)
{
    ckpt_extraction *extraction;
    bool skipped;
    int calls = 0;
    open_models(twos, ones);
    const ckpt_extract_options opts = {.progress = stop, .user = &calls, .threads = 1};
    ckpt_status status = extract(opts, &extraction, &skipped);
    CU_ASSERT(skipped || (status == CKPT_ECANCELLED && calls == 3));
    CU_ASSERT_PTR_NULL(extraction);
    close_models();
}

void suite_extract(void)
{
    UNIT(a_pair_is_made);
    UNIT(reasons_are_all_that_is_left);
    UNIT(a_callback_stops_it);
}
