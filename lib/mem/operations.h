/* operations.h - what the operations of transformers keep for the backward pass, as rows of struct mem_usage.
 * Measured with torch 2.15 on CUDA's choice of kernels; each line is what torch.autograd saves.
 * Tensors that several operations share count once, in the first of them. */
#pragma once

/* The lists of a family. The structs in family.h describe their columns. */
#define TENSORS(...)                                                                                         \
    (const struct mem_tensor_rule[]) { __VA_ARGS__, {0} }
#define USAGE(...)                                                                                           \
    (const struct mem_usage[]) { __VA_ARGS__, {0} }
#define CONFIG(...)                                                                                          \
    (const struct mem_config_rule[]) { __VA_ARGS__, {0} }
#define CONVS(...)                                                                                           \
    (const struct mem_conv[]) { __VA_ARGS__, {0} }
#define STRIDES(...) (const uint8_t[]){__VA_ARGS__, 0}

/* The tensors of a BatchNorm. A GroupNorm is refused: it has no running mean, and keeps other tensors. */
#define BATCH_NORM(part, when, name)                                                                         \
    {part, ELEMENTWISE, when, name ".weight", ""}, {part, ELEMENTWISE, when, name ".bias", ""},              \
        {part, ELEMENTWISE, when, name ".running_mean", ""},                                                 \
        {part, ELEMENTWISE, when, name ".running_var", ""},                                                  \
        {part, BUFFER, MAY_BE_MISSING, name ".num_batches_tracked", ""}

/* A Linear keeps its input. Autocast casts an input in fp32 once for each Linear that takes it. */
#define LINEAR(part, elements) {part, ANY, elements "c", "input of a Linear"}
#define LINEARS_OF_ONE_INPUT(part, elements, times)                                                          \
    {part, FP32 | HALF, elements "c", "input of several Linears"},                                           \
        {part, MIXED, times elements "c", "the same, cast for each of them"}

#define LAYER_NORM(part)                                                                                     \
    {part, ANY, "Thr", "input of a LayerNorm"}, {part, ANY, "8T", "its mean and 1/std, fp32"}

/* RMSNorm of transformers, operation by operation: the normalized value, and the input in fp32, which is a
 * copy if the input has another dtype. */
#define RMS_NORM(part)                                                                                       \
    {part, FP32 | MIXED, "8Th", "RMSNorm: fp32 input, normalized value"},                                    \
        {part, HALF, "6Th", "RMSNorm: fp32 copy of the input, normalized value"},                            \
        {part, ANY, "4T", "its 1/rms, fp32"}

#define DROPOUT(part, when, elements) {part, when, elements, "mask of a dropout, 1 byte an element"}

#define GELU(part, when)                                                                                     \
    {part, when, "Tfc", "input of gelu"}, {part, when, "Tfc", "input of the second Linear"}
/* gelu_new in Python: five tensors, one of them the next Linear's input; autocast runs pow in fp32. */
#define GELU_IN_PYTHON(part)                                                                                 \
    {part, GELU_WRITTEN_OUT | FP32 | HALF, "5Tfc", "gelu_new written out, with the input of c_proj"},        \
        {part, GELU_WRITTEN_OUT | MIXED, "16Tf", "the same, partly in fp32"}
#define SWIGLU(part) {part, ANY, "4Tfc", "gate, silu(gate), up, their product"}

/* In half precision, the kernel is flash attention; in fp32, the memory-efficient one, which repeats keys. */
#define ATTENTION_SDPA                                                                                       \
    {ATTENTION, SDPA, "2TAc", "queries, and the output, which is the input of the projection"},              \
        {ATTENTION, SDPA, "2TGc", "keys and values"},                                                        \
        {ATTENTION, SDPA | FP32, "4BaU", "log-sum-exp of each row, padded to 32"},                           \
        {ATTENTION, SDPA | MIXED | HALF, "4BaS", "log-sum-exp of each row"},                                 \
        {ATTENTION, SDPA | FP32, "16", "seed and offset"},                                                   \
        {ATTENTION, SDPA | MIXED | HALF, "24", "seed and offset"}

/* Rows of attention with the part MLP come after the softmax; they are freed as early as those of the MLP. */
#define ATTENTION_EAGER                                                                                      \
    {ATTENTION, EAGER, "3TAc", "queries; keys and values, repeated for each query head"},                    \
        {MLP, EAGER, "TAc", "the output, which is the input of the projection"},                             \
        {MLP, EAGER | ATTENTION_DROPOUT, "P", "mask of the dropout of probabilities"},                       \
        {MLP, EAGER | ATTENTION_DROPOUT, "Pc", "probabilities as the operand of the product"}
/* Softmax in the dtype of its input, or in fp32 under autocast. */
#define SOFTMAX                                                                                              \
    {ATTENTION, EAGER | FP32 | HALF, "Pc", "output of the softmax"},                                         \
        {ATTENTION, EAGER | MIXED, "4P", "output of the softmax, fp32"},                                     \
        {MLP, EAGER | MIXED | NO_ATTENTION_DROPOUT, "Pc", "probabilities as the operand of the product"}
/* Softmax in fp32 whatever its input. */
#define SOFTMAX_IN_FP32                                                                                      \
    {ATTENTION, EAGER, "4P", "output of the softmax, fp32"},                                                 \
        {MLP, EAGER | MIXED | HALF | NO_ATTENTION_DROPOUT, "Pc", "probabilities as the operand"}

/* The loss of causal language models in transformers. The shifted labels of one sequence are a view. */
#define CAUSAL_LM_LOSS                                                                                       \
    {LOSS, ANY, "4TV", "log-softmax of the logits, fp32"}, {INPUT, ANY, "8T", "shifted labels"},             \
        {INPUT, ONE_SEQUENCE, "8", "the label that a view of the labels leaves out"},                        \
        {INPUT, ANY, "4", "weight of the loss"}, {INPUT, CHECKPOINTED, "4", "the loss"},                     \
        {INPUT, CHECKPOINTED | EAGER, "BSSr", "causal mask"}
#define CAUSAL_LM_LOSS_ALIVE                                                                                 \
    {FORWARD_END, ANY, "4TV", "logits in fp32"}, {FORWARD_END, MIXED | HALF, "2TV", "logits"},               \
        {LOSS_BACKWARD, ANY, "8TV", "gradients of the loss, fp32"}

/* When autocast casts the gradient of the head's weight, the gradient of the logits is already freed. */
#define HEAD_ALIVE                                                                                           \
    {HEAD_BACKWARD, FP32 | HALF, "TVc", "gradient of the logits"},                                           \
        {HEAD_BACKWARD, FP32 | HALF, "Vhe", "gradient of the head"},                                         \
        {HEAD_BACKWARD, MIXED, "2TV", "gradient of the logits"},                                             \
        {HEAD_BACKWARD, MIXED, "2Vh", "gradient of the head"},                                               \
        {HEAD_CAST, MIXED, "4Vh", "gradient of the head, cast to fp32"}

#define TIED_ALIVE {BACKWARD_END, TIED, "2Vhe", "gradients of head and embedding, before they are added"}

#define SOFTMAX_ALIVE                                                                                        \
    {SOFTMAX_BACKWARD, EAGER | FP32 | HALF, "2Pc", "gradients of the probabilities"},                        \
        {SOFTMAX_BACKWARD, EAGER | MIXED, "8P", "gradients of the probabilities, fp32"},                     \
        {SOFTMAX_BACKWARD, EAGER, "Thr", "gradient of the residual stream"}
#define SOFTMAX_IN_FP32_ALIVE                                                                                \
    {SOFTMAX_BACKWARD, EAGER, "8P", "gradients of the probabilities, fp32"},                                 \
        {SOFTMAX_BACKWARD, EAGER, "Thr", "gradient of the residual stream"}

/* What each block's backward pass needs, whatever its MLP. */
#define RESIDUAL_ALIVE                                                                                       \
    {BLOCK_BACKWARD, ANY, "Thr", "gradient of the residual stream"},                                         \
        {BLOCK_BACKWARD, MIXED, "Thc", "the same, cast"}
#define MLP_WEIGHT_ALIVE                                                                                     \
    {BLOCK_BACKWARD, ANY, "Tfc", "gradient of the input of the second Linear"},                              \
        {BLOCK_BACKWARD, FP32 | HALF, "hfe", "gradient of the weight of that Linear"},                       \
        {BLOCK_BACKWARD, MIXED, "2hf", "gradient of the weight of that Linear"}

/* A classifier of images keeps the batch, and what cross entropy over C classes needs. */
#define IMAGE_LOSS                                                                                           \
    {INPUT, ANY, "Ic", "images"}, {INPUT, CHECKPOINTED | MIXED, "4I", "images as they came, fp32"},          \
        {INPUT, ANY, "8B", "labels"}, {LOSS, FP32 | HALF, "BCc", "log-softmax of the logits"},               \
        {LOSS, MIXED, "6BC", "logits and their log-softmax in fp32"},                                        \
        {INPUT, FP32 | HALF, "c", "weight of the loss"}, {INPUT, MIXED, "4", "weight of the loss"},          \
        {INPUT, CHECKPOINTED | FP32 | MIXED, "4", "the loss"}, {INPUT, CHECKPOINTED | HALF, "2", "the loss"}
#define IMAGE_LOSS_ALIVE                                                                                     \
    {HELD, NOT_CHECKPOINTED | MIXED, "4I", "images as they came, fp32"},                                     \
        {HEAD_BACKWARD, FP32 | HALF, "hCe", "gradient of the head"},                                         \
        {HEAD_BACKWARD, MIXED, "6hC", "gradient of the head, bf16 and fp32"}

/* What Vision Transformers have in common: they differ in names, and in the Linears of their attention. */
#define VIT_CONDITIONS                                                                                       \
    (NO_QK_NORM | NO_QKV_BIAS | NO_OUT_BIAS | NO_MLP_BIAS | GELU_FUSED | UNTIED | NO_ATTENTION_DROPOUT |     \
     NO_RESIDUAL_DROPOUT | NO_EMBEDDING_DROPOUT)
#define VIT_CONFIG                                                                                           \
    CONFIG({CONFIG_SIZE, 'h', 0, "hidden_size", 0}, {CONFIG_SIZE, 'L', 0, "num_hidden_layers", 0},           \
           {CONFIG_SIZE, 'a', 0, "num_attention_heads", 0}, {CONFIG_SIZE, 'f', 0, "intermediate_size", 0},   \
           {CONFIG_SIZE, 'p', 0, "patch_size", 0}, {CONFIG_ACTIVATION, 0, GELU_FUSED, "hidden_act", "gelu"}, \
           {CONFIG_NONE, 0, 0, "hidden_dropout_prob", 0},                                                    \
           {CONFIG_NONE, 0, 0, "attention_probs_dropout_prob", 0})
#define VIT_EMBEDDING IMAGE_LOSS
#define VIT_HEAD                                                                                             \
    LAYER_NORM(HEAD), {HEAD, FP32 | HALF, "Thc", "output of the norm: one row is the head's input"},         \
        {HEAD, MIXED, "2Bh", "input of the head"}
#define VIT_ALIVE USAGE(IMAGE_LOSS_ALIVE, RESIDUAL_ALIVE, MLP_WEIGHT_ALIVE, SOFTMAX_IN_FP32_ALIVE)
