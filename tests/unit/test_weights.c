/* The weights of a file and averaged copies of them are found: in files of real training programs, and in
 * structures that such programs write. The pickles are in the notation of put_pickle in pickled.h. */
#include <stdio.h>
#include <stdlib.h>

#include "pickled.h"
#include "small_files.h"

/* list_weights - returns "name:tensors" of each mapping of weights, separated by commas; the name of an
 * averaged copy ends in "*". */
static const char *list_weights(ckpt_file *f)
{
    static char text[1024];
    ckpt_info info = CKPT_INIT(ckpt_info);
    size_t len = 0;
    CU_ASSERT_EQUAL(ckpt_inspect(f, &info, NULL), CKPT_OK);
    text[0] = '\0';
    const ckpt_weights *w;
    for (size_t i = 0; (w = ckpt_weights_at(f, i)); i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s%s:%d", i ? "," : "", w->name.ptr,
                                w->averaged ? "*" : "", (int)w->tensors);
    return text;
}

static void check_text(const char *got, const char *want, const char *source)
{
    CU_ASSERT_STRING_EQUAL(got, want);
    if (strcmp(got, want) != 0)
        fprintf(stderr, "%s\n  has weights %s\n     expected %s\n", source, got, want);
}

static void check_weights(const char *text, const char *want)
{
    struct test_file made = make_torch_zip(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(made.file);
    check_text(list_weights(made.file), want, text);
    close_file(&made);
}

static void check_corpus_weights(const char *file, const char *want)
{
    check_text(list_weights(open_corpus_file(file)), want, file);
    close_open_files();
}

static void weights_of_real_checkpoints_are_found(void)
{
    check_corpus_weights("torch/t26/state_dict.pt", ":9");
    check_corpus_weights("torch/t26/general_checkpoint.tar", "model_state_dict:9");
    check_corpus_weights("torch/t10/general_checkpoint.pth.tar", "state_dict:9");
    check_corpus_weights("torch/t215/eco/lightning_2.6.6.ckpt", "state_dict:5");
    check_corpus_weights("torch/t215/eco/timm_last.pth.tar", "state_dict:7,state_dict_ema*:7");
    check_corpus_weights("torch/t215/eco/fabric.ckpt", "model:4");
    check_corpus_weights("torch/t215/many_models.pt", "netG:4,netD:9");
    check_corpus_weights("torch/t215/list_of_state_dicts.pt", "0:4,1:4");
    check_corpus_weights("torch/t26/whole_model.pt", ":2");
    check_corpus_weights("torch/t26/swa.pt", ":10");
    check_corpus_weights("torch/t26/opt_sgd.pt", "");
    check_corpus_weights("torch/t26/generator.pt", "");
}

#define FLOAT_SCALAR TENSOR_V2(FLOAT_STORAGE, 0, "()", "()")
#define FC_WEIGHTS   "{'fc.weight':" FLOAT_TENSOR ",'fc.bias':" FLOAT_TENSOR "}"
#define OPTIMIZER                                                                                            \
    "{'state':{0:{'step':" FLOAT_SCALAR ",'exp_avg':" FLOAT_TENSOR                                           \
    "}},'param_groups':[{'lr':1.5,'params':[0]}]}"

static void weights_next_to_other_values_are_found(void)
{
    check_weights("{'w':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR "}", ":2");
    check_weights(
        "{'w':" FLOAT_TENSOR ",'epoch':1,'lr':1.5,'args':None,'best':2.5,'optimizer':" OPTIMIZER "}", ":1");
    check_weights("{'fc.weight':" FLOAT_TENSOR ",'fc.bias':" FLOAT_TENSOR
                  ",'epoch':1,'lr':1.5,'a':1,'metrics':{'loss':" FLOAT_SCALAR ",'acc':" FLOAT_SCALAR
                  "},'optimizer':" OPTIMIZER "}",
                  ":2");
    check_weights("{'fc.weight':" FLOAT_TENSOR ",'_extra_state':{'a':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR "}}",
                  ":1");
    check_weights("{'fc.weight':" FLOAT_TENSOR ",'fc._extra_state':{'a.b':" FLOAT_TENSOR
                  "},'ema._extra_state':{'a.b':" FLOAT_TENSOR "}}",
                  ":1");
}

static void other_dicts_of_tensors_are_no_weights(void)
{
#define OTHER_VALUES                                                                                         \
    ",'metrics':{'loss':" FLOAT_SCALAR ",'acc':" FLOAT_SCALAR "},'scaler':{'scale':" FLOAT_TENSOR            \
    ",'growth':" FLOAT_TENSOR "},"                                                                           \
    "'hyper_parameters':{'pos.weight':" FLOAT_TENSOR "},'rng_state':{'cpu':" FLOAT_TENSOR                    \
    "},'optimizer':" OPTIMIZER
    check_weights("{'state_dict':" FC_WEIGHTS OTHER_VALUES "}", "state_dict:2");
    check_weights("{'my_thing':" FC_WEIGHTS OTHER_VALUES "}", "my_thing:2");
    check_weights("{'netG':" FC_WEIGHTS ",'netD':{'weight':" FLOAT_TENSOR "}" OTHER_VALUES "}",
                  "netG:2,netD:1");
    check_weights("{'rng':" FLOAT_TENSOR ",'cuda_rng':" FLOAT_TENSOR ",'state_dict':{'weight':" FLOAT_TENSOR
                  "}}",
                  "state_dict:1");
    check_weights("{'hyper_parameters':{'mean':" FLOAT_TENSOR ",'std':" FLOAT_TENSOR
                  "},'epoch':3,'params':{'w':" FLOAT_TENSOR "}}",
                  "params:1");
    check_weights("{'metrics':{'loss':" FLOAT_SCALAR ",'acc':" FLOAT_SCALAR
                  "},'epoch':3,'ema':{'w':" FLOAT_TENSOR "}}",
                  "ema:1");
    check_weights("{'optimizer':" OPTIMIZER "}", "");
}

static void all_networks_are_found(void)
{
    check_weights("{'student':" FC_WEIGHTS ",'teacher':" FC_WEIGHTS ",'dino_loss':{'center':" FLOAT_TENSOR
                  "}}",
                  "student:2,teacher:2");
    check_weights("{'models':{'G':" FC_WEIGHTS ",'D':" FC_WEIGHTS "},'opts':[" OPTIMIZER "]}",
                  "models.G:2,models.D:2");
    check_weights("{'generator':{'w':" FLOAT_TENSOR "},'discriminator':{'w':" FLOAT_TENSOR "},'iteration':7}",
                  "generator:1,discriminator:1");
    check_weights("{'a':{'w':" FLOAT_TENSOR "},'b':{'w':" FLOAT_TENSOR "}}",
                  "a:1,b:1"); /* there are no other candidates */
    check_weights("{'model':{'up':{'w':" FLOAT_TENSOR "},'down':{'w':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR
                  "}}}",
                  "model.up:1,model.down:2");
    check_weights("{'params':{'scale':" FLOAT_TENSOR ",'layers':{'w':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR
                  "}}}",
                  "params:1,params.layers:2");
    check_weights("[" FLOAT_TENSOR "," FLOAT_TENSOR "]", ":2");
}

static void averaged_copies_are_recognised(void)
{
    check_weights("{'model':" FC_WEIGHTS ",'ema':" FC_WEIGHTS "}", "model:2,ema*:2");
    check_weights("{'model':" FC_WEIGHTS ",'ema':{'module':" FC_WEIGHTS ",'updates':3}}",
                  "model:2,ema.module*:2");
    check_weights("{'model':" FC_WEIGHTS ",'model_ema':{'module.fc.weight':" FLOAT_TENSOR
                  ",'n_averaged':" FLOAT_SCALAR "}}",
                  "model:2,model_ema*:2");
    check_weights("{'state_dict':" FC_WEIGHTS ",'ema_state_dict':{'w':" FLOAT_TENSOR "}}",
                  "state_dict:2,ema_state_dict*:1");
    check_weights("{'state_dict':" FC_WEIGHTS ",'state_dict_ema':" FC_WEIGHTS "}",
                  "state_dict:2,state_dict_ema*:2");
    check_weights("{'params':" FC_WEIGHTS ",'params_ema':" FC_WEIGHTS "}", "params:2,params_ema*:2");
    check_weights("{'params_ema':" FC_WEIGHTS "}", "params_ema:2"); /* there are no other weights */
    check_weights("{'model':" FC_WEIGHTS ",'ema':{'decay':0.5,'shadow_params':[" FLOAT_TENSOR "," FLOAT_TENSOR
                  "]}}",
                  "model:2,ema.shadow_params*:2");
    check_weights("{'fc.weight':" FLOAT_TENSOR ",'fc.bias':" FLOAT_TENSOR ",'ema':" FC_WEIGHTS "}",
                  ":2,ema*:2");
    check_weights("{'model':" FC_WEIGHTS ",'ema_loss':{'a':" FLOAT_SCALAR ",'b':" FLOAT_SCALAR "}}",
                  "model:2");
    check_weights("{'state_dict':" FC_WEIGHTS ",'callbacks':{'EMA':1},'extra_state':{'ema':" FC_WEIGHTS "}}",
                  "state_dict:2,extra_state.ema*:2");
}

/* Names as Keras 2.12 and 3, tf_keras, TensorFlow and Paddle write them. Layers of a Keras model may be
 * called or be of a class called metrics. */
static void states_are_told_by_their_names(void)
{
    static const struct {
        const char *name;
        ckpt_state state;
    } cases[] = {
        {"metrics/mean/vars/0", CKPT_STATE_METRIC},
        {"/metrics/mean_metric_wrapper/vars/1", CKPT_STATE_METRIC},
        {"layers/sequential/metrics/auc/vars/3", CKPT_STATE_METRIC},
        {"keras_api/metrics/0/total/.ATTRIBUTES/VARIABLE_VALUE", CKPT_STATE_METRIC},
        {"layer_with_weights-0/keras_api/metrics/0/count", CKPT_STATE_METRIC},
        {"_CHECKPOINTABLE_OBJECT_GRAPH", CKPT_STATE_CHECKPOINT},
        {"save_counter/.ATTRIBUTES/VARIABLE_VALUE", CKPT_STATE_CHECKPOINT},
        {"save_counter", CKPT_STATE_CHECKPOINT},
        {"optimizer/vars/0", CKPT_STATE_OPTIMIZER},
        {"layers/sequential/optimizer/vars/0", CKPT_STATE_OPTIMIZER},
        {"linear_0.w_0_moment1_0", CKPT_STATE_OPTIMIZER},
        {"layers/metrics/vars/0", CKPT_STATE_NONE},
        {"layers/metrics/dense/vars/0", CKPT_STATE_NONE},
        {"model_weights/metrics/metrics/kernel:0", CKPT_STATE_NONE},
        {"model/metrics/kernel/.ATTRIBUTES/VARIABLE_VALUE", CKPT_STATE_NONE},
        {"metrics/", CKPT_STATE_NONE},
        {"metrics", CKPT_STATE_NONE},
        {"metrics.mean", CKPT_STATE_NONE},
        {"model/optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE", CKPT_STATE_NONE},
        {"", CKPT_STATE_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ckpt_tensor t = {.name = {cases[i].name, strlen(cases[i].name)}};
        CU_ASSERT_EQUAL(ckpt_tensor_state(&t), cases[i].state);
        if (ckpt_tensor_state(&t) != cases[i].state)
            fprintf(stderr, "%s: state %d\n", cases[i].name, (int)ckpt_tensor_state(&t));
        CU_ASSERT_EQUAL(ckpt_tensor_is_optimizer_state(&t), cases[i].state == CKPT_STATE_OPTIMIZER);
    }
}

void suite_weights(void)
{
    UNIT(weights_of_real_checkpoints_are_found);
    UNIT(weights_next_to_other_values_are_found);
    UNIT(other_dicts_of_tensors_are_no_weights);
    UNIT(all_networks_are_found);
    UNIT(averaged_copies_are_recognised);
    UNIT(states_are_told_by_their_names);
}
