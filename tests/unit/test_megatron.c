/* Folders of Megatron-LM: the tensors of ranks and stages are merged, layers are numbered, copies of the
 * embedding are dropped, and inconsistent ranks are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pickled.h"
#include "unit.h"

/* All tensors are views of the numbers 1 2 3 4. FLOATS_AT - N numbers from OFFSET on. TWO_ROWS - all of them,
 * as [2, 2]. ROW_AT - two numbers from OFFSET on, as [1, 2]. */
#define FLOATS_AT(offset, n) TENSOR_V2(FLOAT_STORAGE, offset, "(" #n ",)", "(1,)")
#define TWO_ROWS             TENSOR_V2(FLOAT_STORAGE, 0, "(2,2)", "(2,1)")
#define ROW_AT(offset)       TENSOR_V2(FLOAT_STORAGE, offset, "(1,2)", "(2,1)")
#define ARGS_WITH(text)      "'args':new argparse.Namespace()!{" text "}"

static char dir[64];
static char rank_folders[4][128]; /* the folders of ranks in it */
static size_t nrank_folders;

/* put_rank - writes the pickle TEXT to the file of a rank. STAGE is -1 if folders have no stage. */
static void put_rank(int tensor_rank, int stage, const char *text)
{
    char path[160], *folder = rank_folders[nrank_folders++];
    int n = snprintf(folder, sizeof rank_folders[0], "%s/mp_rank_%02d", dir, tensor_rank);
    if (stage >= 0)
        snprintf(folder + n, sizeof rank_folders[0] - (size_t)n, "_%03d", stage);
    snprintf(path, sizeof path, "%s/model_optim_rng.pt", folder);
    struct test_file made = make_torch_zip(text);
    CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
    FILE *f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(made.bytes, 1, made.size, f), made.size);
    fclose(f);
    close_file(&made);
}

static void make_folder(void)
{
    snprintf(dir, sizeof dir, "/tmp/ckpt-unit-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

static void remove_folder(void)
{
    while (nrank_folders) {
        char path[160], *folder = rank_folders[--nrank_folders];
        snprintf(path, sizeof path, "%s/model_optim_rng.pt", folder);
        unlink(path);
        rmdir(folder);
    }
    CU_ASSERT_EQUAL(rmdir(dir), 0);
}

/* describe - writes each tensor of F to OUT as "name numbers; ". */
static void describe(ckpt_file *f, char *out, size_t cap)
{
    ckpt_error err = {0};
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        float numbers[16] = {0};
        const ckpt_tensor t = tensor_at(f, i);
        size_t n = (size_t)t.elements;
        CU_ASSERT_FATAL(n <= 16);
        CU_ASSERT_EQUAL(ckpt_tensor_read(f, i, 0, n, numbers, &err), CKPT_OK);
        unit_to_host_order(numbers, n, 4);
        used += (size_t)snprintf(out + used, cap - used, "%s", t.name.ptr);
        for (size_t k = 0; k < n; k++)
            used += (size_t)snprintf(out + used, cap - used, " %g", (double)numbers[k]);
        used += (size_t)snprintf(out + used, cap - used, "; ");
    }
}

/* check_folder - checks that the folder is described as WANT, or that it is refused with WANT in the
 * message. Removes the folder. */
static void check_folder(const char *want)
{
    char got[1024];
    ckpt_file *f = NULL;
    ckpt_error err = {0};
    bool opened = ckpt_open(dir, NULL, &f, &err) == CKPT_OK;
    if (opened)
        describe(f, got, sizeof got);
    bool as_expected = opened ? strcmp(got, want) == 0 : strstr(err.what, want) != NULL;
    CU_ASSERT(as_expected);
    if (!as_expected)
        printf("\n    found: %s\n    expected: %s\n", opened ? got : err.what, want);
    ckpt_close(f);
    remove_folder();
}

/* check_ranks - checks a folder of two tensor-parallel ranks with the pickles FIRST and LAST. */
static void check_ranks(const char *first, const char *last, const char *want)
{
    make_folder();
    put_rank(0, -1, first);
    put_rank(1, -1, last);
    check_folder(want);
}

/* check_stages - checks a folder of two pipeline stages with the pickles FIRST and LAST. */
static void check_stages(const char *first, const char *last, const char *want)
{
    make_folder();
    put_rank(0, 0, first);
    put_rank(0, 1, last);
    check_folder(want);
}

static void tensors_of_ranks_are_merged(void)
{
    check_ranks("{'model':{'x.linear_qkv.bias':" FLOATS_AT(0, 2) "}}",
                "{'model':{'x.linear_qkv.bias':" FLOATS_AT(2, 2) "}}", "x.linear_qkv.bias 1 2 3 4; ");
    check_ranks("{'model':{'x.linear_proj.weight':" TWO_ROWS "}}",
                "{'model':{'x.linear_proj.weight':" TWO_ROWS "}}", "x.linear_proj.weight 1 2 1 2 3 4 3 4; ");
    check_ranks("{'model':{'x.linear_proj.bias':" FLOATS_AT(0, 2) "}}",
                "{'model':{'x.linear_proj.bias':" FLOATS_AT(0, 2) "}}", "x.linear_proj.bias 1 2; ");
}

#define QKV_BIAS(offset, version)                                                                            \
    "{'model':{'x.attention.query_key_value.bias':" FLOATS_AT(offset, 3) "}" version "}"

/* Before checkpoint_version 1, a rank stores its queries, then its keys, then its values. A file without a
 * checkpoint_version has version 0. */
static void qkv_is_reordered_by_version(void)
{
    check_ranks(QKV_BIAS(0, ",'checkpoint_version':0"), QKV_BIAS(1, ""),
                "x.attention.query_key_value.bias 1 2 2 3 3 4; ");
    check_ranks(QKV_BIAS(0, ""), QKV_BIAS(1, ""), "x.attention.query_key_value.bias 1 2 2 3 3 4; ");
    check_ranks(QKV_BIAS(0, ",'checkpoint_version':1.0"), QKV_BIAS(1, ""),
                "x.attention.query_key_value.bias 1 2 3 2 3 4; ");
}

#define MLP_OF(fc1_bias, fc2_weight)                                                                         \
    "{'model':{'m.linear_fc1.bias':" fc1_bias ",'m.linear_fc2.weight':" fc2_weight "}}"

static void gated_mlps_are_recognized_by_the_next_layer(void)
{
    check_ranks(MLP_OF(FLOATS_AT(0, 4), TWO_ROWS), MLP_OF(FLOATS_AT(0, 4), TWO_ROWS),
                "m.linear_fc1.bias 1 2 1 2 3 4 3 4; m.linear_fc2.weight 1 2 1 2 3 4 3 4; ");
    check_ranks(MLP_OF(FLOATS_AT(0, 2), TWO_ROWS), MLP_OF(FLOATS_AT(2, 2), TWO_ROWS),
                "m.linear_fc1.bias 1 2 3 4; m.linear_fc2.weight 1 2 1 2 3 4 3 4; ");
    check_ranks(MLP_OF(FLOATS_AT(0, 3), TWO_ROWS), MLP_OF(FLOATS_AT(0, 3), TWO_ROWS),
                "it is not clear whether it is gated");
    check_ranks("{'model':{'m.linear_fc1.bias':" FLOATS_AT(0, 2) "}}", "{'model':{}}",
                "it is not clear whether it is gated");
}

#define NORM_OF_LAYER(layer, offset)                                                                         \
    "'decoder.layers." #layer ".input_layernorm.weight':" FLOATS_AT(offset, 1)

static void layers_are_numbered_across_stages(void)
{
    check_stages("{'model':{" NORM_OF_LAYER(0, 0) "," NORM_OF_LAYER(1, 1) "}}",
                 "{'model':{" NORM_OF_LAYER(0, 2) "}}",
                 "decoder.layers.0.input_layernorm.weight 1; decoder.layers.1.input_layernorm.weight 2; "
                 "decoder.layers.2.input_layernorm.weight 3; ");
    /* interleaved stages: the layers of model0 in all stages come before those of model1 */
    check_stages("{'model0':{" NORM_OF_LAYER(0, 0) "},'model1':{" NORM_OF_LAYER(0, 2) "}}",
                 "{'model0':{" NORM_OF_LAYER(0, 1) "},'model1':{" NORM_OF_LAYER(0, 3) "}}",
                 "decoder.layers.0.input_layernorm.weight 1; decoder.layers.1.input_layernorm.weight 2; "
                 "decoder.layers.2.input_layernorm.weight 3; decoder.layers.3.input_layernorm.weight 4; ");
    check_stages("{'model':{" NORM_OF_LAYER(0, 0) "}," ARGS_WITH("'num_layers':3") "}",
                 "{'model':{" NORM_OF_LAYER(0, 1) "}}", "2 layers in 2 stages; args has num_layers 3");
    check_stages("{'model':{" NORM_OF_LAYER(0, 0) "}}",
                 "{'model':{" NORM_OF_LAYER(99999999999999999999, 1) "}}", "more than 2^32 layers");
}

#define EMBEDDING "'embedding.word_embeddings.weight':" ROW_AT(0)

static void copies_of_the_embedding_are_dropped(void)
{
    check_stages("{'model':{" EMBEDDING "}}", "{'model':{'output_layer.weight':" ROW_AT(0) "}}",
                 "embedding.word_embeddings.weight 1 2; ");
    check_stages("{'model':{" EMBEDDING "}," ARGS_WITH("'untie_embeddings_and_output_weights':True") "}",
                 "{'model':{'output_layer.weight':" ROW_AT(2) "}}",
                 "embedding.word_embeddings.weight 1 2; output_layer.weight 3 4; ");
    check_stages("{'model':{" EMBEDDING "}}", "{'model':{" EMBEDDING "}}",
                 "embedding.word_embeddings.weight 1 2; ");
}

static void inconsistent_ranks_are_refused(void)
{
    check_stages("{'model':{'a.weight':" ROW_AT(0) "}}", "{'model':{'a.weight':" ROW_AT(0) "}}",
                 "both in stage 0 and in stage 1");
    check_ranks("{'model':{'x.linear_qkv.bias':" FLOATS_AT(0, 2) "}}",
                "{'model':{'x.linear_qkv.bias':" FLOATS_AT(0, 3) "}}", "another element type or shape");
    check_ranks("{'model':{'x.linear_qkv.bias':" FLOATS_AT(0, 2) "}}", "{'model':{}}",
                "no piece has [2:4] of [4]");
    check_ranks("{'model':{'x.linear_proj.weight':" FLOATS_AT(0, 2) "}}", "{'model':{}}",
                "a tensor of 1 dimension does not fit its rule");
    check_ranks("{'model':{'x.mixer.in_proj.weight':" TWO_ROWS "}}", "{'model':{}}",
                "1 tensor without a rule for how 2 ranks divide it: x.mixer.in_proj.weight [2, 2]");
    check_ranks("{'weights':{'a':" TWO_ROWS "}}", "{'weights':{'a':" TWO_ROWS "}}", "no tensor below");
    check_ranks(
        "{'model':{'x.linear_qkv.bias':" FLOATS_AT(0, 2) "}," ARGS_WITH("'tensor_model_parallel_size':4") "}",
        "{'model':{'x.linear_qkv.bias':" FLOATS_AT(2, 2) "}}", "2 tensor-parallel ranks, of 4 that args has");
    check_ranks("{'model':{'x.linear_qkv.bias':" FLOATS_AT(0, 2) "}," ARGS_WITH(
                    "'tensor_model_parallel_size':2,'expert_tensor_parallel_size':1") "}",
                "{'model':{'x.linear_qkv.bias':" FLOATS_AT(2, 2) "}}",
                "expert_tensor_parallel_size 1 and tensor_model_parallel_size 2");
}

/* The smallest number of rows whose triple is 2 modulo 2^64. There are no bytes, because the tensor has no
 * columns. */
#define HUGE_EMBEDDING                                                                                       \
    "'embedding.word_embeddings.weight':" TENSOR_V2(FLOAT_STORAGE, 0, "(6148914691236517206,0)", "(1,1)")

static void a_product_that_wraps_is_not_the_vocabulary(void)
{
    make_folder();
    for (int rank = 0; rank < 3; rank++)
        put_rank(rank, -1, "{'model':{" HUGE_EMBEDDING "}," ARGS_WITH("'padded_vocab_size':2") "}");
    check_folder("3 tensor-parallel ranks have 6148914691236517206 rows each of the embedding, which has 2");
}

/* Chunk 65535 of stage 65535 of 65536. Only salvage reads the folder, because the stages between are
 * missing. */
static void numbers_of_stages_are_limited(void)
{
    ckpt_file *f = NULL;
    ckpt_error err = {0};
    make_folder();
    put_rank(0, 0, "{'model':{" EMBEDDING "}}");
    put_rank(0, 65535, "{'model65535':{" NORM_OF_LAYER(0, 0) "}}");
    CU_ASSERT_EQUAL(ckpt_salvage(dir, NULL, &f, &err), CKPT_ELIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "virtual stage 4294967295; 4294967295 are allowed"));
    ckpt_close(f);
    remove_folder();
}

void suite_megatron(void)
{
    UNIT(tensors_of_ranks_are_merged);
    UNIT(qkv_is_reordered_by_version);
    UNIT(gated_mlps_are_recognized_by_the_next_layer);
    UNIT(layers_are_numbered_across_stages);
    UNIT(copies_of_the_embedding_are_dropped);
    UNIT(inconsistent_ranks_are_refused);
    UNIT(a_product_that_wraps_is_not_the_vocabulary);
    UNIT(numbers_of_stages_are_limited);
}
