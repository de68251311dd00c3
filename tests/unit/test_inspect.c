/* ckpt_inspect finds the facts that `ckpt info` prints, in files of real programs. */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "core/file.h"
#include "pickled.h"
#include "small_files.h"
#include "unit.h"

static const ckpt_file *inspected_file;

/* inspect - returns the result of ckpt_inspect() for F, and lets find_wrapper() search F. */
static ckpt_info inspect(ckpt_file *f)
{
    inspected_file = f;
    ckpt_info info = CKPT_INIT(ckpt_info);
    CU_ASSERT_EQUAL(ckpt_inspect(f, &info, NULL), CKPT_OK);
    return info;
}

static const ckpt_wrapper *find_wrapper(const char *prefix)
{
    const ckpt_wrapper *w;
    for (size_t i = 0; (w = ckpt_wrapper_at(inspected_file, i)) && !str_is(w->prefix, prefix); i++)
        ;
    return w;
}

static void wrappers_are_counted(void)
{
    ckpt_info info = inspect(open_corpus_file("torch/t26/dp_state_dict.pt"));
    const ckpt_wrapper *w = find_wrapper("module.");
    CU_ASSERT(info.nwrappers == 1 && w && w->tensors == 9 && w->of == 9 && !w->anywhere && w->certain);
    info = inspect(open_corpus_file("torch/t26/swa.pt"));
    w = find_wrapper("module.");
    CU_ASSERT(w && w->tensors == 9 && w->of == 9 && w->certain);
    info = inspect(open_corpus_file("torch/t26/midkey_dataparallel.pt"));
    w = find_wrapper("module.");
    CU_ASSERT(w && w->tensors == 2 && w->of == 4 && w->anywhere && !w->certain);
    info = inspect(open_corpus_file("torch/t215/compiled_in_dp.pt"));
    CU_ASSERT(info.nwrappers == 2 && find_wrapper("_orig_mod.")->certain && find_wrapper("module.")->certain);
    info = inspect(open_corpus_file("torch/t215/dp_twice.pt"));
    CU_ASSERT(info.nwrappers == 1 && !find_wrapper("module.")->anywhere && find_wrapper("module.")->certain);
    info = inspect(open_corpus_file("torch/t26/state_dict.pt"));
    CU_ASSERT_EQUAL(info.nwrappers, 0);
    close_open_files();
}

static void inspecting_again_takes_no_more_memory(void)
{
    ckpt_file *f = open_corpus_file("torch/t26/general_checkpoint.tar");
    uint64_t used_before = arena_used(f->a), used_after_first;
    (void)inspect(f);
    used_after_first = arena_used(f->inspected.a);
    for (int i = 0; i < 100; i++)
        (void)inspect(f);
    CU_ASSERT(used_after_first > 0 && arena_used(f->inspected.a) == used_after_first &&
              arena_used(f->a) == used_before);
    close_open_files();
}

static void weights_and_optimizer_are_found(void)
{
    ckpt_info info = inspect(open_corpus_file("torch/t26/general_checkpoint.tar"));
    CU_ASSERT(info.has_weights && str_is(info.weights_root, "model_state_dict") && info.weights_why.len);
    CU_ASSERT(str_is(info.optimizer, "Adam-like, 6 states") &&
              str_is(info.optimizer_path, "optimizer_state_dict"));
    CU_ASSERT_EQUAL(info.weights_only, 1);
    info = inspect(open_corpus_file("torch/t26/opt_sgd.pt"));
    CU_ASSERT(!info.has_weights && str_is(info.optimizer, "SGD with momentum, 6 states") &&
              info.optimizer_path.len == 0);
    info = inspect(open_corpus_file("torch/t26/whole_model.pt"));
    CU_ASSERT(info.has_weights && info.weights_only == 0);
    info = inspect(open_safetensors("{}", "", 0));
    CU_ASSERT(!info.has_weights && info.weights_only == -1 && info.elements == 0 && info.nbytes == 0);
    close_open_files();
}

static void optimizers_are_named_by_their_state(void)
{
    static const struct {
        const char *file, *optimizer;
    } cases[] = {
        {"torch/t215/opt_adafactor.pt", "Adafactor, 6 states"},
        {"torch/t215/opt_muon.pt", "Muon, 1 state"},
        {"torch/t215/opt_adamw.pt", "Adam-like, 6 states"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ckpt_info info = inspect(open_corpus_file(cases[i].file));
        CU_ASSERT(str_is(info.optimizer, cases[i].optimizer));
    }
    close_open_files();
    /* transformers' Adafactor of a vector, with beta1 */
    struct test_file made = make_pickle("{'state':{0:{'step':1,'exp_avg':[],'exp_avg_sq':[],'RMS':0.5}},"
                                        "'param_groups':[{'params':[0]}]}");
    CU_ASSERT(str_is(inspect(made.file).optimizer, "Adafactor, 1 state"));
    close_file(&made);
}

static void bytes_are_counted_once(void)
{
    ckpt_info info = inspect(open_corpus_file("torch/t26/tied.pt"));
    ckpt_info info_of_view = inspect(open_corpus_file("torch/t26/view_of_big.pt"));
    CU_ASSERT(info.aliases > 0 && info.unreferenced == 0);
    CU_ASSERT_EQUAL(info_of_view.unreferenced + info_of_view.nbytes, 4000);
    info = inspect(
        open_safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "12345678", 8));
    CU_ASSERT(info.elements == 2 && info.nbytes == 8 && info.unreferenced == 0);
    close_open_files();
}

static void overlapping_views_are_counted_once(void)
{
    ckpt_info info = inspect(open_corpus_file("torch/badexp/07_overlap.pt"));
    CU_ASSERT(info.unreferenced < info.nbytes);
    info = inspect(open_corpus_file("torch/t26/expanded.pt")); /* the view is larger than the storage */
    CU_ASSERT_EQUAL(info.unreferenced, 0);
    close_open_files();
}

void suite_inspect(void)
{
    UNIT(wrappers_are_counted);
    UNIT(inspecting_again_takes_no_more_memory);
    UNIT(weights_and_optimizer_are_found);
    UNIT(optimizers_are_named_by_their_state);
    UNIT(bytes_are_counted_once);
    UNIT(overlapping_views_are_counted_once);
}
