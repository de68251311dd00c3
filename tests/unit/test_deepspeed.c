/* Folders of DeepSpeed: partitions are merged, those that do not match the parameters of the model file are
 * refused, and damaged files are read safely. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pickled.h"
#include "unit.h"

#define SIZE(s) "torch.Size((" s "))"
/* MODEL - the pickle of a model file. ZERO2, ZERO3 - the pickle of an optimizer file of ZeRO stage 2 or 3.
 * FLATS are the partitions of one rank, one per group; COUNT is the number of ranks. */
#define MODEL(module, shapes, extra)                                                                         \
    "{'module':{" module "},'buffer_names':[],'param_shapes':[" shapes "],'shared_params':{}" extra "}"
/* FLAT - a partition that holds the numbers 1 2 3 4. PARTITION - one that holds the first N of them. */
#define FLAT         TENSOR_V2(FLOAT_STORAGE, 0, "(4,)", "(1,)")
#define PARTITION(n) TENSOR_V2(FLOAT_STORAGE, 0, "(" #n ",)", "(1,)")
#define ZERO2(count, flats, state)                                                                           \
    "{'optimizer_state_dict':{'partition_count':" count ",'single_partition_of_fp32_groups':[" flats         \
    "],'base_optimizer_state':{'state':{0:{" state "}},'param_groups':[{'lr':1.5,'params':[0]}]}}}"
#define ZERO3(count, flats)                                                                                  \
    "{'optimizer_state_dict':{'partition_count':" count ",'fp32_flat_groups':[" flats "]}}"

static char dir[64];

static void put_file(const char *name, const void *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void make_folder(void)
{
    snprintf(dir, sizeof dir, "/tmp/ckpt-unit-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

static void remove_folder(void)
{
    char path[512];
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    CU_ASSERT_EQUAL(rmdir(dir), 0);
}

static void put_torch_file(const char *name, const char *text)
{
    struct test_file made = make_torch_zip(text);
    put_file(name, made.bytes, made.size);
    close_file(&made);
}

/* put_checkpoint - writes an optimizer file OPTIM for each of two ranks, and a model file MODEL: one for each
 * rank if ZERO3, else one for both. */
static void put_checkpoint(bool zero3, const char *model, const char *optim)
{
    char name[80];
    for (int rank = 0; rank < 2; rank++) {
        snprintf(name, sizeof name,
                 zero3 ? "zero_pp_rank_%d_mp_rank_00_model_states.pt" : "mp_rank_%02d_model_states.pt", rank);
        if (zero3 || rank == 0)
            put_torch_file(name, model);
        snprintf(name, sizeof name, "bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt", rank);
        put_torch_file(name, optim);
    }
}

/* check_open - checks that opening the checkpoint of MODEL and OPTIM returns WANT, with WORDS in the
 * message. */
static void check_open(bool zero3, const char *model, const char *optim, ckpt_status want, const char *words)
{
    ckpt_file *f = NULL;
    ckpt_error err = {0};
    char line[1400];
    make_folder();
    put_checkpoint(zero3, model, optim);
    ckpt_status st = ckpt_open(dir, NULL, &f, &err);
    ckpt_error_text(&err, line, sizeof line);
    CU_ASSERT_EQUAL(st, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(line, words));
    if (st != want || !strstr(line, words))
        printf("\n    the message is: %s\n    it must contain: %s\n", line, words);
    ckpt_close(f);
    remove_folder();
}

/* check_merged - checks that the tensor NAME of the checkpoint of MODEL and OPTIM holds the numbers WANT. */
static void check_merged(const char *model, const char *optim, const char *name, const char *want)
{
    ckpt_file *f = NULL;
    ckpt_error err = {0};
    make_folder();
    put_checkpoint(false, model, optim);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
    check_numbers(f, name, want);
    ckpt_close(f);
    remove_folder();
}

static void partitions_are_merged_to_parameters(void)
{
    const char *model = MODEL("'a':" FLOAT_TENSOR ",'b':" TENSOR_V2(FLOAT_STORAGE, 1, "(3,)", "(1,)"),
                              "{'a':" SIZE("4,") ",'c':" SIZE("3,") "}", "");
    check_merged(model, ZERO2("[2]", FLAT, "'exp_avg':" FLAT), "c", "1 2 3 ");
    check_merged(model, ZERO2("2", FLAT, ""), "b",
                 "2 3 4 "); /* no group has b, so it is read from the model file */
    check_merged(model, ZERO2("[2]", FLAT, "'exp_avg':" FLAT), "optimizer.state.c.exp_avg", "1 2 3 ");
}

static void inconsistent_partitions_are_refused(void)
{
    const char *optim = ZERO2("[2]", FLAT, "");
    static const struct {
        const char *shapes, *words;
    } cases[] = {
        {"{'a':" SIZE("9,") "}", "the partitions have 8 elements, the parameters take 9"},
        {"{'a':" SIZE("2,") "}", "the partitions have 8 elements, the parameters take 2"},
        {"{'a':" SIZE("-4,") "}", "param_shapes has no name with a shape"},
        {"{'a':" SIZE("4294967296,4294967296") "}", "param_shapes has no name with a shape"},
        {"{'a':" SIZE("9223372036854775807,") ",'b':" SIZE("9223372036854775807,") ",'c':" SIZE("9,") "}",
         "2^64"},
        {"{'a':'4'}", "param_shapes has no name with a shape"},
        {"{4:" SIZE("4,") "}", "param_shapes has no name with a shape"},
        {"{'a':" SIZE("4,") ",'a':" SIZE("4,") "}", "a second parameter of that name"},
        {"{'a':" SIZE("8,") "},{'b':" SIZE("8,") "}", "partitions for 1 group, param_shapes has 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char model[600];
        snprintf(model, sizeof model, MODEL("", "%s", ""), cases[i].shapes);
        check_open(false, model, optim, CKPT_EFORMAT, cases[i].words);
    }
    const char *model = MODEL("", "{'a':" SIZE("8,") "}", "");
    check_open(false, model, ZERO2("[3]", FLAT, ""), CKPT_ENOTFOUND,
               "the optimizer file of rank 2 of 3 is missing");
    check_open(false, model, ZERO2("[1]", FLAT, ""), CKPT_EFORMAT,
               "partitions of 1 rank, and optimizer files of 2");
    check_open(false, model, ZERO2("1152921504606846976", FLAT, ""), CKPT_EFORMAT,
               "partitions of 1152921504606846976");
    check_open(false, model, ZERO2("[2]", "'a'", ""), CKPT_EFORMAT, "no tensor for each group");
    check_open(false, model, ZERO2("[2]", TENSOR_V2(FLOAT_STORAGE, 0, "(2,2)", "(2,1)"), ""),
               CKPT_EUNSUPPORTED, "no contiguous 1-d tensor");
    /* states of any name, and unknown keys in the optimizer file, are accepted */
    check_open(false, model, ZERO2("[2]", FLAT, "'exp_avg':" FLAT ",'b':" PARTITION(4)) "+{'x':1}", CKPT_OK,
               "");
    check_open(false, MODEL("'a':" FLOAT_TENSOR, "{'a':" SIZE("8,") "}", ""), optim, CKPT_EFORMAT,
               "another shape in the model's state");
    check_open(true, model, ZERO3("2", PARTITION(3)), CKPT_EFORMAT,
               "the partitions have 3 elements, the parameters take 4");
    check_open(true, MODEL("'p':" TENSOR_V2(FLOAT_STORAGE, 0, "(0,)", "(1,)"), "{'a':" SIZE("8,") "}", ""),
               ZERO3("2", FLAT), CKPT_EFORMAT,
               "a parameter that has no elements here and is not in a partition");
    check_open(true, MODEL("", "{'a':" SIZE("8,") "}", ",'frozen_param_shapes':{'f':" SIZE("4,") "}"),
               ZERO3("2", FLAT), CKPT_EFORMAT, "no tensor for each group");
}

/* ------------------------------------------------------------------ changed bytes */

/* read_all - opens the folder and reads its tensors. Returns the first failure, or CKPT_OK. */
static ckpt_status read_all(void)
{
    ckpt_file *f = NULL;
    ckpt_error err = {0};
    uint8_t sum[CKPT_DIGEST_MAX];
    ckpt_status st = ckpt_open(dir, NULL, &f, &err);
    for (uint32_t i = 0; st == CKPT_OK && i < ckpt_tensor_count(f); i++)
        if (tensor_at(f, i).has_data)
            st = ckpt_digest_tensor(f, i, CKPT_XXH3, sum, &err);
    CU_ASSERT(st == CKPT_OK || err.what[0]);
    ckpt_close(f);
    return st;
}

/* read_file - returns the N bytes of the file NAME in FOLDER, which the caller frees. */
static char *read_file(const char *folder, const char *name, size_t *n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 16);
    CU_ASSERT_FATAL(f && bytes);
    *n = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    return bytes;
}

/* check_damaged_file - for every 61st byte of the file NAME, reads the checkpoint twice: with that byte
 * changed, and with NAME cut before that byte. INTACT_FOLDER has the intact file. */
static void check_damaged_file(const char *intact_folder, const char *name)
{
    size_t n;
    char *bytes = read_file(intact_folder, name, &n);
    for (size_t i = 3; i < n; i += 61) {
        bytes[i] ^= 0x41;
        put_file(name, bytes, n);
        (void)read_all();
        bytes[i] ^= 0x41;
        put_file(name, bytes, i);
        CU_ASSERT_NOT_EQUAL(read_all(), CKPT_OK);
    }
    put_file(name, bytes, n);
    CU_ASSERT_EQUAL(read_all(), CKPT_OK);
    free(bytes);
}

static void damaged_files_are_read_safely(void)
{
    static const char *const saves[] = {"deepspeed/zero3_bf16/global_step2",
                                        "deepspeed/zero2_fp16/global_step2",
                                        "deepspeed/emulated/experts/global_step7"};
    for (size_t i = 0; i < sizeof saves / sizeof *saves; i++) {
        struct dirent **entries;
        char intact_folder[512];
        size_t size;
        snprintf(intact_folder, sizeof intact_folder, "%s", unit_corpus_path(saves[i]));
        int n = scandir(intact_folder, &entries, NULL, alphasort);
        CU_ASSERT_FATAL(n > 2);
        make_folder();
        for (int k = 0; k < n; k++)
            if (entries[k]->d_name[0] != '.') {
                char *bytes = read_file(intact_folder, entries[k]->d_name, &size);
                put_file(entries[k]->d_name, bytes, size);
                free(bytes);
            }
        for (int k = 0; k < n; k++) {
            if (entries[k]->d_name[0] != '.')
                check_damaged_file(intact_folder, entries[k]->d_name);
            free(entries[k]);
        }
        free(entries);
        remove_folder();
    }
}

void suite_deepspeed(void)
{
    UNIT(partitions_are_merged_to_parameters);
    UNIT(inconsistent_partitions_are_refused);
    UNIT(damaged_files_are_read_safely);
}
