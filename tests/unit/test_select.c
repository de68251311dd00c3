/* Roots and globs: which tensors a plan keeps, and under which names. */
#include <stdio.h>
#include <stdlib.h>

#include "core/plan.h"
#include "pickled.h"
#include "small_files.h"

/* check_found_root - checks that `--root auto` finds ROOT in FILE, and adds a notice only if HAS_NOTICE. */
static void check_found_root(const char *file, const char *root, bool has_notice)
{
    ckpt_plan *p = plan_of(open_corpus_file(file));
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "auto", NULL), CKPT_OK);
    CU_ASSERT(p->root_name.len == strlen(root) &&
              memcmp(p->root_name.ptr ? p->root_name.ptr : "", root, strlen(root)) == 0);
    CU_ASSERT_EQUAL(p->report.notices.n != 0, has_notice);
    CU_ASSERT(ckpt_plan_tensor_count(p) > 0);
    close_plan(p);
}

/* In checkpoints of real trainers, the root is the key that their loaders use. */
static void auto_finds_the_weights(void)
{
    check_found_root("torch/t26/state_dict.pt", "", false);
    check_found_root("torch/t26/general_checkpoint.tar", "model_state_dict", true);
    check_found_root("torch/t10/general_checkpoint.pth.tar", "state_dict", true);
    check_found_root("torch/t215/eco/lightning_2.6.6.ckpt", "state_dict", true);
    check_found_root("torch/t215/eco/timm_last.pth.tar", "state_dict", true);
    check_found_root("torch/t215/eco/fabric.ckpt", "model", true);
    check_found_root("torch/t26/opt_sgd.pt", "", true); /* without weights: the whole file */
    check_found_root("torch/t26/whole_model.pt", "", false);
}

#define FC_WEIGHTS "{'fc.weight':" FLOAT_TENSOR ",'fc.bias':" FLOAT_TENSOR "}"
#define OPTIMIZER  "{'state':{0:{'exp_avg':" FLOAT_TENSOR "}},'param_groups':[{'lr':1.5,'params':[0]}]}"

/* check_root_auto - checks `--root auto` on a file with the pickle TEXT: a plan and a narrowed file must have
 * the tensors WANT, and the narrowed file must have LEAVES values that are not tensors. */
static void check_root_auto(const char *text, const char *want, size_t leaves)
{
    struct test_file made = make_torch_zip(text);
    char narrowed_names[256] = "";
    CU_ASSERT_PTR_NOT_NULL_FATAL(made.file);
    ckpt_plan *p = plan_of(made.file);
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "auto", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), want);
    ckpt_plan_free(p);
    CU_ASSERT_EQUAL(ckpt_file_narrow(made.file, "auto", NULL, 0, NULL), CKPT_OK);
    for (uint32_t i = 0; i < ckpt_tensor_count(made.file); i++)
        snprintf(narrowed_names + strlen(narrowed_names), sizeof narrowed_names - strlen(narrowed_names),
                 "%s%.*s", i ? "," : "", STR_ARG(ckpt_tensor_name(made.file, i)));
    CU_ASSERT_STRING_EQUAL(narrowed_names, want);
    CU_ASSERT_EQUAL(ckpt_leaf_count(made.file), leaves);
    close_file(&made);
}

/* An optimizer next to or among the weights is dropped. With several networks, the root is the file. */
static void auto_is_the_same_for_plans_and_files(void)
{
    check_root_auto("{'fc.weight':" FLOAT_TENSOR ",'fc.bias':" FLOAT_TENSOR
                    ",'epoch':1,'optimizer':" OPTIMIZER "}",
                    "fc.weight,fc.bias", 0);
    check_root_auto("{'epoch':1,'model':{'w':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR
                    ",'step':2,'optimizer':" OPTIMIZER "}}",
                    "w,b", 0);
    check_root_auto("{'netG':" FC_WEIGHTS ",'netD':" FC_WEIGHTS ",'optG':" OPTIMIZER "}",
                    "netG.fc.weight,netG.fc.bias,netD.fc.weight,netD.fc.bias,optG.state.0.exp_avg", 2);
}

static void names_are_relative_to_the_root(void)
{
    ckpt_plan *p = plan_of(open_corpus_file("torch/t26/general_checkpoint.tar"));
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "model_state_dict", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p),
                           "conv.weight,conv.bias,bn.weight,bn.bias,bn.running_mean,bn.running_var,"
                           "bn.num_batches_tracked,fc.weight,fc.bias");
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "optimizer_state_dict.state.0", NULL), CKPT_OK); /* 0 is an int */
    CU_ASSERT_STRING_EQUAL(names_of(p), "step,exp_avg,exp_avg_sq");
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "", NULL), CKPT_OK);
    CU_ASSERT(strstr(names_of(p), "model_state_dict.fc.bias") != NULL);
    close_plan(p);
}

/* A root may also be a common prefix of keys. */
static void a_root_may_be_a_prefix(void)
{
    ckpt_plan *p = plan_of(
        open_safetensors("{\"enc.a.w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                         "\"encoder.w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                         "xy", 2));
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "enc", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "a.w");
    close_plan(p);
    p = plan_of(open_corpus_file("torch/t26/general_checkpoint.tar"));
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "model_state_dict.bn", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "weight,bias,running_mean,running_var,num_batches_tracked");
    close_plan(p);
}

/* check_root - checks that a plan and a narrowed file have the names WANT below ROOT, if the pickle is
 * GRAPH. */
static void check_root(const char *graph, const char *root, const char *want)
{
    char text[256] = "";
    size_t len = 0;
    struct test_file made = make_torch_zip(graph);
    ckpt_plan *p = plan_of(made.file);
    CU_ASSERT_EQUAL(ckpt_plan_root(p, root, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), want);
    ckpt_plan_free(p);
    CU_ASSERT_EQUAL(ckpt_file_narrow(made.file, root, NULL, 0, NULL), CKPT_OK);
    for (uint32_t i = 0; i < ckpt_tensor_count(made.file); i++) {
        ckpt_str name = tensor_at(made.file, i).name;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", i ? "," : "", (int)name.len,
                                name.ptr);
    }
    CU_ASSERT_STRING_EQUAL(text, want);
    close_file(&made);
}

/* A root may be the path of a container and also a common prefix of keys; then it is the container. In the
 * pickles, #1={…} is a dict, and #1 the same dict again. */
static void containers_come_before_prefixes(void)
{
    static const char both[] = "{'a':{'x':" FLOAT_TENSOR "},'a.y':" FLOAT_TENSOR ",'e':{},'e.z':" FLOAT_TENSOR
                               "}",
                      split[] = "{'a':{'b.c':{'x':" FLOAT_TENSOR "},'b':{'q':" FLOAT_TENSOR
                                "}},'a.b':{'d':" FLOAT_TENSOR ",'c':{'z':" FLOAT_TENSOR "}}}",
                      two_names[] = "{'a':#1={'x':" FLOAT_TENSOR "},'b':#1,'b.y':" FLOAT_TENSOR "}";
    check_root(both, "a", "x");
    check_root(both, "e", "z"); /* the container is empty, so the prefix is used */
    check_root(split, "a", "b.c.x,b.q");
    check_root(split, "a.b", "d,c.z"); /* of two containers, the one whose path has fewer keys is used */
    check_root(split, "a.b.c", "x");
    check_root("{'a':{'b.c':" FLOAT_TENSOR "},'a.b.c':" FLOAT_TENSOR ",'a.b':{'c.d':" FLOAT_TENSOR
               ",'e':" FLOAT_TENSOR "}}",
               "a.b", "c.d,e");
    check_root("{'a':{'b.c.x':" FLOAT_TENSOR "},'a.b.c.y':" FLOAT_TENSOR "}", "a.b.c",
               "x");                 /* of two prefixes, the one in the container a is used */
    check_root(two_names, "b", "x"); /* a and b are one dict */
}

static void globs_match_containers(void)
{
    ckpt_error err;
    ckpt_plan *p = plan_of(open_corpus_file("torch/t26/general_checkpoint.tar"));
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, "optimizer_state_dict", NULL), CKPT_OK);
    CU_ASSERT(ckpt_plan_tensor_count(p) == 10 && p->report.notices.n == 0);
    /* a leaf is dropped only by its exact name */
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, "ep?ch", &err), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, "epoch", NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, "model_state_dict.*", NULL), CKPT_OK);
    const struct notices *notices = &p->report.notices;
    CU_ASSERT(notices->n == 1 && strstr(notices->text[0], "\"model_state_dict\" is left empty"));
    close_plan(p);
}

static void a_file_may_be_narrowed(void)
{
    static const char *const globs[] = {"*weight", "!fc*"};
    ckpt_plan *p;
    ckpt_file *f = open_corpus_file("torch/t26/general_checkpoint.tar");
    CU_ASSERT_EQUAL(ckpt_file_narrow(f, "nowhere", NULL, 0, NULL), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_file_narrow(f, "auto", globs, 2, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 2);
    CU_ASSERT(str_is(tensor_at(f, 0).name, "conv.weight") && tensor_at(f, 0).npath == 1);
    CU_ASSERT(ckpt_leaf_count(f) == 0 && ckpt_tensor_find(f, STR_LIT("bn.weight")) == 1);
    CU_ASSERT_EQUAL(ckpt_plan_new(f, &p, NULL), CKPT_EUSAGE);
    close_open_files();
}

static void a_wrong_root_is_explained(void)
{
    ckpt_error err;
    ckpt_plan *p = plan_of(open_corpus_file("torch/t26/general_checkpoint.tar"));
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "modl", &err), CKPT_ENOTFOUND);
    CU_ASSERT(strstr(err.what, "\"modl\"") && strstr(err.hint, "model_state_dict"));
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "model_state_dict.fc.bias", &err), CKPT_EUSAGE);
    CU_ASSERT(strstr(err.what, "is a tensor") != NULL);
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "odel_state_dict", NULL), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_plan_root(p, ".model_state_dict", NULL), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_plan_root(p, "optimizer_state_dict.", NULL), CKPT_ENOTFOUND);
    CU_ASSERT(ckpt_plan_tensor_count(p) > 9); /* the root is unchanged */
    close_plan(p);
}

#define THREE_TENSORS                                                                                        \
    "{\"a.w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"                                      \
    "\"a.b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"                                       \
    "\"c.w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}"

static void globs_keep_and_drop_tensors(void)
{
    ckpt_error err;
    ckpt_plan *p = plan_of(open_safetensors(THREE_TENSORS, "xyz", 3));
    CU_ASSERT_EQUAL(ckpt_plan_keep(p, "a.w", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "a.w");
    CU_ASSERT_EQUAL(ckpt_plan_keep(p, "c.*", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "a.w,c.w");
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, "a.*", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "c.w");
    CU_ASSERT_EQUAL(ckpt_plan_keep(p, "nothing*", &err), CKPT_ENOTFOUND);
    CU_ASSERT(strstr(err.what, "\"nothing*\"") != NULL);
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, "a.*", NULL), CKPT_ENOTFOUND); /* already dropped */
    CU_ASSERT_STRING_EQUAL(names_of(p), "c.w");
    close_plan(p);
}

static void globs_match_the_new_names(void)
{
    ckpt_plan *p = plan_of(open_safetensors(THREE_TENSORS, "xyz", 3));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "a.", false, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_keep(p, "b", NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_keep(p, "w", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "w,b");
    close_plan(p);
}

/* A tensor may have two keys, share its storage, or be in a mapping with two names. Each key that is kept is
 * renamed, and no other, which could collide with it: "w" of the third file is left out. */
static void kept_names_of_shared_tensors_are_renamed(void)
{
    static const struct {
        const char *pickle, *keep, *names;
    } cases[] = {
        {"{'a.w':#1=" FLOAT_TENSOR ",'b.w':#1,'b.v':" FLOAT_TENSOR "}", "b.*", "w,v"},
        {"{'a.w':#1=" FLOAT_TENSOR ",'b.w':#1,'b.v':" FLOAT_TENSOR "}", "a.*", "a.w"},
        {"{'b.w':#1=" FLOAT_TENSOR ",'w':#1,'b.v':" FLOAT_TENSOR "}", "b.*", "w,v"},
        {"{'a.w':" FLOAT_TENSOR ",'b.w':" FLOAT_TENSOR "}", "b.*", "w"},
        {"{'b.w':{'b.x':#1=" FLOAT_TENSOR ",'b.y':#1},'c':{'b.x':#1,'b.z':#1}}", "c.b.z", "c.z"},
        {"{'m':#1={'b.x':" FLOAT_TENSOR "},'ema':#1}", "ema.*", "ema.x"},
        {"collections.OrderedDict([('a.w',#1=" FLOAT_TENSOR "),('b.w',#1)])", "b.*", "w"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_file made = make_torch_zip(cases[i].pickle);
        ckpt_plan *p = plan_of(made.file);
        CU_ASSERT_EQUAL(ckpt_plan_keep(p, cases[i].keep, NULL), CKPT_OK);
        ckpt_plan_allow_none(p, true);
        CU_ASSERT_EQUAL(ckpt_plan_strip(p, "b.", false, NULL), CKPT_OK);
        CU_ASSERT_STRING_EQUAL(names_of(p), cases[i].names);
        ckpt_plan_free(p);
        close_file(&made);
    }
}

static void components_are_dropped_with_their_composite(void)
{
    ckpt_file *f = open_corpus_file("torch/t26/sparse_coo.pt");
    ckpt_plan *p = plan_of(f);
    uint64_t ntensors = ckpt_plan_tensor_count(p), ncomponents = 0;
    const ckpt_tensor t = tensor_at(f, 0);
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++)
        ncomponents += tensor_at(f, i).part_of == 0;
    CU_ASSERT(t.kind == CKPT_SPARSE_COO && ncomponents == 2); /* indices and values */
    CU_ASSERT_EQUAL(ckpt_plan_drop(p, t.name.len ? t.name.ptr : "*", NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_tensor_count(p), ntensors - (1 + ncomponents));
    close_plan(p);
}

void suite_select(void)
{
    UNIT(auto_finds_the_weights);
    UNIT(auto_is_the_same_for_plans_and_files);
    UNIT(names_are_relative_to_the_root);
    UNIT(a_root_may_be_a_prefix);
    UNIT(containers_come_before_prefixes);
    UNIT(globs_match_containers);
    UNIT(a_file_may_be_narrowed);
    UNIT(a_wrong_root_is_explained);
    UNIT(globs_keep_and_drop_tensors);
    UNIT(globs_match_the_new_names);
    UNIT(kept_names_of_shared_tensors_are_renamed);
    UNIT(components_are_dropped_with_their_composite);
}
