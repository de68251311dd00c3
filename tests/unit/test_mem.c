/* Tests mem on small networks, complete and with one change, and compares sums with those computed by
 * hand. */
#include <stdio.h>

#include "unit.h"

static ckpt_error err;

/* How a test changes the network that it builds. */
struct network_change {
    const char *omit;      /* leaves out the tensors with this suffix */
    const char *from, *to; /* replaces FROM in names by TO */
    const char *integer;   /* makes the tensors with this suffix int8 */
    const char *extra;     /* adds a tensor [8, 8] of this name */
    uint64_t kernel;       /* height and width of the kernel of conv1 of a ResNet; 0: 7 */
    bool head_first;       /* lm_head comes before the embedding */
    bool tied;             /* lm_head is tied to the embedding */
};

/* A network that is being built. */
struct network {
    ckpt_builder *builder;
    const struct network_change *change;
};

static bool ends_with(const char *name, const char *end)
{
    return end && strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* put_tensor - adds the float32 tensor NAME of the shape [A, B, C, D], which ends before the first 0. If
 * n->change applies to NAME, omits the tensor, renames it or makes it int8. */
static void put_tensor(struct network *n, const char *name, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    const uint64_t shape[] = {a, b, c, d};
    char changed_name[256];
    const char *match = n->change->from ? strstr(name, n->change->from) : NULL;
    ckpt_callbacks source = {.struct_size = sizeof source, .read_at = tensor_read_nothing};
    ckpt_builder_tensor t = CKPT_INIT(ckpt_builder_tensor);
    if (ends_with(name, n->change->omit))
        return;
    if (match)
        snprintf(changed_name, sizeof changed_name, "%.*s%s%s", (int)(match - name), name, n->change->to,
                 match + strlen(n->change->from));
    t.dtype = ends_with(name, n->change->integer) ? CKPT_DT_I8 : CKPT_DT_F32;
    t.shape = shape;
    source.size = t.dtype == CKPT_DT_I8 ? 1 : 4;
    for (; t.ndim < 4 && shape[t.ndim]; t.ndim++)
        source.size *= shape[t.ndim];
    t.callbacks = &source;
    CU_ASSERT_EQUAL(ckpt_builder_add_tensor(n->builder, match ? changed_name : name, &t, &err), CKPT_OK);
}

static struct network begin_network(const struct network_change *c)
{
    static const struct network_change no_change;
    struct network n = {.change = c ? c : &no_change};
    CU_ASSERT_EQUAL_FATAL(ckpt_builder_new("made", &n.builder, &err), CKPT_OK);
    if (n.change->extra)
        put_tensor(&n, n.change->extra, 8, 8, 0, 0);
    return n;
}

static ckpt_status finish_network(struct network *n, const ckpt_mem_options *o, ckpt_mem **out)
{
    ckpt_file *f;
    CU_ASSERT_EQUAL_FATAL(ckpt_builder_finish(n->builder, &f, &err), CKPT_OK);
    ckpt_status st = ckpt_mem_new(f, o, out, &err);
    ckpt_close(f);
    return st;
}

/* put_block - adds block I of a LLaMA: hidden size 32, 4 heads, 2 key-value heads, MLP size 64. */
static void put_block(struct network *n, unsigned i)
{
    static const struct {
        const char *name;
        uint64_t size[2]; /* a second size of 0: the tensor has one dimension */
    } tensors[] = {
        {"input_layernorm", {32, 0}},   {"self_attn.q_proj", {32, 32}}, {"self_attn.k_proj", {16, 32}},
        {"self_attn.v_proj", {16, 32}}, {"self_attn.o_proj", {32, 32}}, {"post_attention_layernorm", {32, 0}},
        {"mlp.gate_proj", {64, 32}},    {"mlp.up_proj", {64, 32}},      {"mlp.down_proj", {32, 64}}};
    char name[256];
    for (size_t k = 0; k < sizeof tensors / sizeof *tensors; k++) {
        snprintf(name, sizeof name, "model.layers.%u.%s.weight", i, tensors[k].name);
        put_tensor(n, name, tensors[k].size[0], tensors[k].size[1], 0, 0);
    }
}
/* the numbers of elements of a block, of the embedding (50 tokens), and of the final norm */
#define LLAMA_BLOCK     (2 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32)
#define LLAMA_EMBEDDING (50 * 32)
#define LLAMA_NORM      32

static ckpt_status make_llama(const struct network_change *c, unsigned blocks, const ckpt_mem_options *o,
                              ckpt_mem **out)
{
    struct network n = begin_network(c);
    const char *embedding = "model.embed_tokens.weight", *head = "lm_head.weight";
    const char *first = n.change->head_first ? head : embedding,
               *last = n.change->head_first ? embedding : head;
    put_tensor(&n, first, 50, 32, 0, 0);
    for (unsigned i = 0; i < blocks; i++)
        put_block(&n, i);
    put_tensor(&n, "model.norm.weight", 32, 0, 0, 0);
    if (!n.change->tied)
        put_tensor(&n, last, 50, 32, 0, 0);
    else if (ckpt_builder_add_tie(n.builder, last, first, &err) != CKPT_OK)
        CU_FAIL("the tie cannot be added");
    return finish_network(&n, o, out);
}

/* put_norm - adds the four tensors of the BatchNorm NAME. */
static void put_norm(struct network *n, const char *name, uint64_t width)
{
    static const char *const tensors[] = {"weight", "bias", "running_mean", "running_var"};
    char full_name[256 + sizeof ".running_mean"];
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        snprintf(full_name, sizeof full_name, "%s.%s", name, tensors[i]);
        put_tensor(n, full_name, width, 0, 0, 0);
    }
}

/* put_conv - adds the convolution CONV of block 0 of STAGE, and the BatchNorm NORM. SHAPE: output channels,
 * input channels, and size of the kernel in both directions. */
static void put_conv(struct network *n, unsigned stage, const char *conv, const char *norm, uint64_t shape[3])
{
    char name[256];
    snprintf(name, sizeof name, "layer%u.0.%s.weight", stage, conv);
    put_tensor(n, name, shape[0], shape[1], shape[2], shape[2]);
    snprintf(name, sizeof name, "layer%u.0.%s", stage, norm);
    put_norm(n, name, shape[0]);
}

/* make_resnet - builds a ResNet with one block in each stage, of 8 to 64 channels. */
static ckpt_status make_resnet(const struct network_change *c, ckpt_mem **out)
{
    struct network n = begin_network(c);
    uint64_t kernel = n.change->kernel ? n.change->kernel : 7;
    put_tensor(&n, "conv1.weight", 8, 3, kernel, kernel);
    put_norm(&n, "bn1", 8);
    for (unsigned stage = 1; stage <= 4; stage++) {
        uint64_t width = 4u << stage, input_width = stage > 1 ? width / 2 : width;
        put_conv(&n, stage, "conv1", "bn1", (uint64_t[]){width, input_width, 3});
        put_conv(&n, stage, "conv2", "bn2", (uint64_t[]){width, width, 3});
        if (stage > 1)
            put_conv(&n, stage, "downsample.0", "downsample.1", (uint64_t[]){width, input_width, 1});
    }
    put_tensor(&n, "fc.weight", 10, 64, 0, 0);
    put_tensor(&n, "fc.bias", 10, 0, 0, 0);
    return finish_network(&n, NULL, out);
}

static const ckpt_mem_run llama_run = {.struct_size = sizeof llama_run, .batch = 2, .seq = 16, .heads = 4};
static const ckpt_mem_run resnet_run = {
    .struct_size = sizeof resnet_run, .batch = 2, .height = 64, .width = 64};

/* total_of - returns the total bytes of training M with RUN, or 0 after an error. */
static uint64_t total_of(ckpt_mem *m, const ckpt_mem_run *run)
{
    ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
    return ckpt_mem_estimate(m, run, &r, &err) == CKPT_OK ? r.total.bytes : 0;
}

/* ---- refusals */

static bool is_refused(ckpt_mem *m, const ckpt_mem_run *run) { return total_of(m, run) == 0; }

/* check_refused - checks that a network is refused with REASON in the message. ST is the result of making M.
 * If it is CKPT_OK, estimating the training of M with RUN must fail. Frees M. */
static void check_refused(ckpt_status st, ckpt_mem *m, const ckpt_mem_run *run, const char *reason)
{
    uint64_t total = st == CKPT_OK ? total_of(m, run) : 0;
    bool ok = !total && strstr(err.what, reason);
    if (!ok)
        printf("\n  expected: %s\n  found: %s\n", reason, total ? "a total" : err.what);
    CU_ASSERT(ok);
    ckpt_mem_free(m);
}

static void networks_that_resemble_a_llama_are_refused(void)
{
    static const struct {
        struct network_change change;
        const char *reason;
    } cases[] = {
        {{.omit = "layers.1.mlp.up_proj.weight"}, "mlp.up_proj.weight is there 1 times, not 2"},
        {{.omit = "model.norm.weight"}, "model.norm.weight is missing"},
        {{.from = "layers.1.", .to = "layers.2."}, "is there 2 times, not 3"},
        {{.from = "layers.1.", .to = "layers.01."},
         "model.layers.01.input_layernorm.weight is not part of the LLaMA"},
        {{.from = "layers.1.", .to = "layers.2000."}, "2001 blocks, at most 2000"},
        {{.from = "k_proj", .to = "m_proj"}, "m_proj.weight is not part of the LLaMA"},
        {{.integer = "layers.0.self_attn.q_proj.weight"}, "is int8: not trained"},
        {{.extra = "model.layers.0.mlp.experts.0.w1"}, "a mixture of experts"},
        {{.extra = "model.layers.0.self_attn.q_proj.lora_A.weight"}, "LoRA adapters"},
        {{.extra = "model.layers.0.self_attn.q_proj.qweight"}, "quantized by GPTQ"},
        {{.extra = "model.layers.0.extra"}, "model.layers.0.extra is not part of the LLaMA"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ckpt_mem *m;
        ckpt_status st = make_llama(&cases[i].change, 2, NULL, &m);
        check_refused(st, m, &llama_run, cases[i].reason);
    }
}

static void networks_that_resemble_a_resnet_are_refused(void)
{
    static const struct {
        struct network_change change;
        const char *reason;
    } cases[] = {
        {{.kernel = 3}, "conv1.weight does not have the shape"},   /* a ResNet for CIFAR */
        {{.omit = "running_mean"}, "bn1.running_mean is missing"}, /* a ResNet with GroupNorm */
        {{.omit = "layer2.0.bn1.running_var"}, "bn1.running_var is there 3 times, not 4"},
        {{.omit = "fc.weight"}, "fc.weight is missing"},
        {{.from = "layer4.", .to = "layer5."}, "4 blocks, of which 3 are in the stages of ResNet"},
        {{.from = "layer3.0.", .to = "layer3.1."}, "4 blocks, of which 3 are in the stages of ResNet"},
        {{.from = "layer4.0.downsample", .to = "layer4.0.shortcut"},
         "shortcut.0.weight is not part of the ResNet"},
        {{.extra = "layer1.0.se.fc1.weight"}, "layer1.0.se.fc1.weight is not part of the ResNet"},
    };
    ckpt_mem *m;
    CU_ASSERT_EQUAL(make_resnet(NULL, &m), CKPT_OK);
    CU_ASSERT(total_of(m, &resnet_run) > 0);
    ckpt_mem_free(m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ckpt_status st = make_resnet(&cases[i].change, &m);
        check_refused(st, m, &resnet_run, cases[i].reason);
    }
}

/* check_adapters - checks that a network of only the tensors A and B is refused as adapters. */
static void check_adapters(const char *a, const char *b)
{
    struct network n = begin_network(NULL);
    ckpt_mem *m;
    put_tensor(&n, a, 8, 32, 0, 0);
    put_tensor(&n, b, 32, 8, 0, 0);
    CU_ASSERT_EQUAL(finish_network(&n, NULL, &m), CKPT_EUNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "adapters alone"));
}

static void adapters_without_their_model_are_refused(void)
{
    check_adapters("q_proj.lora_A.weight", "q_proj.lora_B.weight");
    check_adapters("q_proj.lora_A.weight", "q_proj.lora_magnitude_vector");
    check_adapters("lora_unet_mid.lora_down.weight", "lora_unet_mid.lora_up.weight");
    struct network n = begin_network(NULL);
    ckpt_mem *m;
    put_tensor(&n, "q_proj.base_layer.weight", 32, 32, 0, 0);
    put_tensor(&n, "q_proj.lora_A.weight", 8, 32, 0, 0);
    put_tensor(&n, "q_proj.lora_B.weight", 32, 8, 0, 0);
    CU_ASSERT_EQUAL(finish_network(&n, NULL, &m), CKPT_OK);
    ckpt_mem_free(m);
}

static void options_that_do_not_fit_the_network_are_refused(void)
{
    ckpt_mem *llama, *resnet;
    CU_ASSERT_EQUAL(make_llama(NULL, 2, NULL, &llama), CKPT_OK);
    CU_ASSERT_EQUAL(make_resnet(NULL, &resnet), CKPT_OK);
    ckpt_mem_run run = llama_run;
    CU_ASSERT(total_of(llama, &run) > 0);
    run.height = run.width = 64; /* LLaMA takes no images */
    CU_ASSERT(is_refused(llama, &run));
    run = llama_run;
    run.dropout = CKPT_MEM_DROPOUT_ON; /* LLaMA is not estimated with dropout */
    CU_ASSERT(is_refused(llama, &run));
    run = llama_run;
    run.heads = 3; /* queries of width 32 cannot be split into 3 heads */
    CU_ASSERT(is_refused(llama, &run));
    run = llama_run;
    run.checkpoint = CKPT_MEM_PLAN; /* ckpt_mem_plan() was not called */
    CU_ASSERT(is_refused(llama, &run));
    run = resnet_run;
    run.seq = 8; /* ResNet takes no sequences */
    CU_ASSERT(is_refused(resnet, &run));
    run = resnet_run;
    run.attention = CKPT_MEM_EAGER; /* ResNet has no attention */
    CU_ASSERT(is_refused(resnet, &run));
    run = resnet_run;
    run.batch = run.height = run.width = UINT32_MAX;
    CU_ASSERT(is_refused(resnet, &run));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "64 bits"));
    ckpt_mem_free(llama);
    ckpt_mem_free(resnet);
}

/* ---- ties */

static void a_tied_head_is_counted_once(void)
{
    const uint64_t trained = LLAMA_EMBEDDING + 2 * LLAMA_BLOCK + LLAMA_NORM;
    static const struct network_change changes[3] = {
        {.tied = true}, {.tied = true, .head_first = true}, {.omit = "lm_head.weight"}};
    uint64_t totals[3];
    for (int i = 0; i < 3; i++) {
        ckpt_mem *m;
        ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
        CU_ASSERT_EQUAL(make_llama(&changes[i], 2, NULL, &m), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_mem_estimate(m, &llama_run, &r, &err), CKPT_OK);
        CU_ASSERT_EQUAL(r.trained, trained);
        totals[i] = r.total.bytes;
        ckpt_mem_free(m);
    }
    CU_ASSERT_EQUAL(totals[0], totals[1]);
    CU_ASSERT_EQUAL(totals[0], totals[2]);
}

/* The head is tied to the embedding: freezing the head freezes both. A buffer is not trained, and so cannot
 * be frozen. */
static void a_frozen_name_freezes_its_storage(void)
{
    static const char *const head[] = {"lm_head*"}, *const buffers[] = {"*running_mean"};
    const struct network_change tied = {.tied = true};
    ckpt_mem_options o = {.struct_size = sizeof o, .frozen = head, .nfrozen = 1};
    ckpt_mem_run run = CKPT_INIT(ckpt_mem_run);
    ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
    ckpt_mem *m;
    CU_ASSERT_EQUAL(make_llama(&tied, 2, &o, &m), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_mem_estimate(m, &run, &r, &err), CKPT_OK);
    CU_ASSERT_EQUAL(r.frozen, LLAMA_EMBEDDING);
    CU_ASSERT_EQUAL(r.trained, 2 * LLAMA_BLOCK + LLAMA_NORM);
    ckpt_mem_free(m);
    struct network n = begin_network(NULL);
    put_norm(&n, "bn", 8);
    o.frozen = buffers;
    CU_ASSERT_EQUAL(finish_network(&n, &o, &m), CKPT_ENOTFOUND);
}

/* Two dicts have the same tensors, and the root is the second dict. */
static void tensors_shared_with_an_earlier_dict_are_counted(void)
{
    struct network n = begin_network(NULL);
    ckpt_mem_options o = {.struct_size = sizeof o, .root = "net"};
    ckpt_mem_run run = CKPT_INIT(ckpt_mem_run);
    ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
    ckpt_mem *m;
    CU_ASSERT_EQUAL(ckpt_builder_begin_dict(n.builder, "ema", &err), CKPT_OK);
    put_tensor(&n, "weight", 8, 8, 0, 0);
    CU_ASSERT_EQUAL(ckpt_builder_end_dict(n.builder, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_begin_dict(n.builder, "net", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_add_tie(n.builder, "weight", "ema.weight", &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_builder_end_dict(n.builder, &err), CKPT_OK);
    CU_ASSERT_EQUAL(finish_network(&n, &o, &m), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_mem_estimate(m, &run, &r, &err), CKPT_OK);
    CU_ASSERT_EQUAL(r.trained, 8 * 8);
    ckpt_mem_free(m);
}

/* ---- sums */

static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* ZeRO: the ranks divide the optimizer states from stage 1 on, the gradients from stage 2 on, and the
 * parameters in stage 3. */
static void zero_divides_bytes_by_the_number_of_ranks(void)
{
    const uint64_t n = 2 * LLAMA_EMBEDDING + 2 * LLAMA_BLOCK + LLAMA_NORM;
    ckpt_mem *m;
    CU_ASSERT_EQUAL(make_llama(NULL, 2, NULL, &m), CKPT_OK);
    for (uint32_t stage = 0; stage <= 3; stage++)
        for (uint32_t ranks = 1; ranks <= 7; ranks += 3) {
            ckpt_mem_run run = {.struct_size = sizeof run, .precision = CKPT_MEM_FP16_MASTER, .zero = stage};
            ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
            run.ranks = ranks;
            run.optimizer = "adamw";
            uint64_t state_ranks = stage >= 1 ? ranks : 1, gradient_ranks = stage >= 2 ? ranks : 1,
                     parameter_ranks = stage == 3 ? ranks : 1;
            CU_ASSERT_EQUAL(ckpt_mem_estimate(m, &run, &r, &err), CKPT_OK);
            /* AdamW has two states of 4 bytes; parameters have 2 bytes, and 4 in their master copy */
            CU_ASSERT_EQUAL(r.optimizer_states.bytes, divide_up(8 * n, state_ranks));
            CU_ASSERT_EQUAL(r.gradients.bytes, divide_up(2 * n, gradient_ranks));
            CU_ASSERT_EQUAL(r.parameters.bytes,
                            divide_up(2 * n, parameter_ranks) + divide_up(4 * n, state_ranks));
            CU_ASSERT_EQUAL(r.gradients.exact, gradient_ranks == 1);
        }
    ckpt_mem_free(m);
}

static void a_plan_is_found_if_its_peak_fits_the_limit(void)
{
    ckpt_mem *m;
    CU_ASSERT_EQUAL(make_llama(NULL, 6, NULL, &m), CKPT_OK);
    for (uint32_t stage = 0; stage <= 3; stage++) {
        ckpt_mem_run run = llama_run;
        ckpt_mem_result lowest = CKPT_INIT(ckpt_mem_result), r = CKPT_INIT(ckpt_mem_result);
        run.zero = stage;
        run.ranks = 3;
        run.batch = 64;
        CU_ASSERT_EQUAL(ckpt_mem_plan(m, &run, 0, &lowest, &err), CKPT_OK);
        CU_ASSERT(lowest.plan_proven && lowest.total.bytes < total_of(m, &run));
        CU_ASSERT_EQUAL(ckpt_mem_plan(m, &run, lowest.total.bytes, &r, &err), CKPT_OK);
        CU_ASSERT_EQUAL(r.total.bytes, lowest.total.bytes);
        CU_ASSERT_EQUAL(ckpt_mem_plan(m, &run, lowest.total.bytes - 1, &r, &err), CKPT_ENOTFOUND);
    }
    ckpt_mem_free(m);
}

static void the_largest_batch_fits_and_the_next_does_not(void)
{
    enum { LIMIT = 20 << 20 }; /* bytes */
    ckpt_mem *m;
    CU_ASSERT_EQUAL(make_llama(NULL, 6, NULL, &m), CKPT_OK);
    static const uint32_t checkpoints[] = {CKPT_MEM_KEEP_ALL, CKPT_MEM_PLAN};
    for (size_t i = 0; i < 2; i++) {
        const uint32_t checkpoint = checkpoints[i];
        ckpt_mem_run run = llama_run;
        uint64_t largest;
        run.checkpoint = checkpoint;
        CU_ASSERT_EQUAL(ckpt_mem_largest_batch(m, &run, LIMIT, &largest, &err), CKPT_OK);
        CU_ASSERT(largest > 1);
        for (run.batch = largest; run.batch <= largest + 1; run.batch++) {
            ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
            ckpt_status st = checkpoint == CKPT_MEM_PLAN ? ckpt_mem_plan(m, &run, 0, &r, &err)
                                                         : ckpt_mem_estimate(m, &run, &r, &err);
            CU_ASSERT_EQUAL(st, CKPT_OK);
            CU_ASSERT_EQUAL(r.total.bytes <= LIMIT, run.batch == largest);
        }
        run.attention = CKPT_MEM_EAGER;
        run.seq = UINT32_MAX; /* a total beyond 64 bits does not fit the limit */
        CU_ASSERT_EQUAL(ckpt_mem_largest_batch(m, &run, LIMIT, &largest, &err), CKPT_OK);
        CU_ASSERT_EQUAL(largest, 0);
    }
    ckpt_mem_free(m);
}

static void optimizer_states_match_sums_by_hand(void)
{
    static const struct {
        const char *optimizer;
        /* bytes for float32 tensors [16, 8] and [8], which have 512 and 32 bytes */
        uint64_t states;
        uint64_t transient; /* bytes that are allocated and freed during a step */
        bool transient_is_known;
    } cases[] = {
        {"sgd", 0, 0, true},
        {"sgd-momentum", 544, 0, true},
        {"adam", 1088, 1024, true}, /* transient: 2 * 512 for [16, 8], which is updated alone */
        {"adamw-foreach", 1088, 544, true},
        {"adamw-fused", 1096, 0, true}, /* states: 1088, and for each tensor its step in 4 bytes */
        {"adamw-amsgrad", 1632, 1024, true},
        {"rmsprop", 552, 544, true}, /* states: 544 and two steps; transient: 512 + 32 */
        {"adafactor", 4 * (16 + 8 + 8), 0, false},
        {"muon", 512 + 2 * 32, 0, false}, /* the bias is trained by AdamW */
        {"adamw8bit", 1088, 0, false},    /* states of tensors below 4096 elements are float32 */
    };
    struct network n = begin_network(NULL);
    ckpt_mem *m;
    put_tensor(&n, "weight", 16, 8, 0, 0);
    put_tensor(&n, "bias", 8, 0, 0, 0);
    CU_ASSERT_EQUAL(finish_network(&n, NULL, &m), CKPT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ckpt_mem_run run = {.struct_size = sizeof run, .optimizer = cases[i].optimizer};
        ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
        CU_ASSERT_EQUAL(ckpt_mem_estimate(m, &run, &r, &err), CKPT_OK);
        CU_ASSERT_EQUAL(r.parameters.bytes, 512 + 32);
        CU_ASSERT_EQUAL(r.optimizer_states.bytes, cases[i].states);
        CU_ASSERT_EQUAL(r.step_transient.known, cases[i].transient_is_known);
        CU_ASSERT_EQUAL(r.step_transient.bytes, cases[i].transient);
    }
    ckpt_mem_free(m);
}

void suite_mem(void);
void suite_mem(void)
{
    UNIT(networks_that_resemble_a_llama_are_refused);
    UNIT(networks_that_resemble_a_resnet_are_refused);
    UNIT(adapters_without_their_model_are_refused);
    UNIT(options_that_do_not_fit_the_network_are_refused);
    UNIT(a_tied_head_is_counted_once);
    UNIT(a_frozen_name_freezes_its_storage);
    UNIT(tensors_shared_with_an_earlier_dict_are_counted);
    UNIT(zero_divides_bytes_by_the_number_of_ranks);
    UNIT(a_plan_is_found_if_its_peak_fits_the_limit);
    UNIT(the_largest_batch_fits_and_the_next_does_not);
    UNIT(optimizer_states_match_sums_by_hand);
}
