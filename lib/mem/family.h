/* family.h - describes a family of networks as one table; families.def lists the tables. A table has the
 * names and shapes by which its networks are recognized, and what each operation keeps until the backward
 * pass.
 *
 * Sizes are products of letters, as a paper writes them: "2Thr" is 2·T·h·r. They are computed with
 * size_add and size_mul, so that a size which 64 bits do not hold is TOO_LARGE. Sizes of what is kept are in
 * bytes.
 *   B S T    batch; sequence length (of images: patches and class token); tokens, B times S
 *   U        S rounded up to a multiple of 32
 *   c r e    bytes of an element: of an operand of a matrix product, of the residual stream, of a parameter
 *   V h f L  vocabulary, hidden size, width of the MLP, number of blocks
 *   A K G    width of all query heads; of all key heads; G is A if the kernel repeats the keys, else K
 *   a k d i  query heads, heads of keys and values, width of a head, half of that width
 *   n p C    positions, side of a patch, classes
 *   t w      token types, channels after the first convolution
 *   H W      height and width of the images
 *   P I      probabilities of one attention, B a S S; elements of the batch of images */
#pragma once

#include "base/checked.h"
#include "base/str.h"

#define TOO_LARGE UINT64_MAX

struct letters {
    uint64_t value[128];
    bool known[128];
};

static inline void letter_set(struct letters *letters, char name, uint64_t value)
{
    letters->value[(unsigned char)name & 127] = value;
    letters->known[(unsigned char)name & 127] = true;
}
static inline bool letter_known(const struct letters *letters, char name)
{
    return letters->known[(unsigned char)name & 127];
}
static inline uint64_t letter_get(const struct letters *letters, char name)
{
    return letter_known(letters, name) ? letters->value[(unsigned char)name & 127] : 0;
}
/* product_value - sets *OUT to the product TEXT: digits, then letters. False: a letter is not known. */
bool product_value(ckpt_str text, const struct letters *letters, uint64_t *out);

/* Conditions under which a row of a table counts. They come in groups (precision, attention …). For each
 * group of which `conditions` has a bit, the run must have one of these bits. */
/* clang-format off */
enum {
    ANY = 0,
    FP32 = 1 << 0, MIXED = 1 << 1, HALF = 1 << 2,              /* precision */
    SDPA = 1 << 3, EAGER = 1 << 4,                             /* the implementation of attention */
    ATTENTION_DROPOUT = 1 << 5, NO_ATTENTION_DROPOUT = 1 << 6, /* is the probability above 0? */
    RESIDUAL_DROPOUT = 1 << 7, NO_RESIDUAL_DROPOUT = 1 << 8,   /* the same of the residual stream */
    EMBEDDING_DROPOUT = 1 << 9, NO_EMBEDDING_DROPOUT = 1 << 10,
    GELU_WRITTEN_OUT = 1 << 11, GELU_FUSED = 1 << 12,
    ONE_SEQUENCE = 1 << 13, SEQUENCES = 1 << 14,          /* is B 1? */
    CHECKPOINTED = 1 << 15, NOT_CHECKPOINTED = 1 << 16,   /* is any segment recomputed? */
    QK_NORM = 1 << 17, NO_QK_NORM = 1 << 18,              /* tensors that only some networks have */
    QKV_BIAS = 1 << 19, NO_QKV_BIAS = 1 << 20,
    OUT_BIAS = 1 << 21, NO_OUT_BIAS = 1 << 22,
    MLP_BIAS = 1 << 23, NO_MLP_BIAS = 1 << 24,
    UNTIED = 1 << 25, TIED = 1 << 26,                     /* has the head a weight of its own? */
    MAY_BE_MISSING = 1 << 27,                             /* a tensor that some networks lack */
    SECOND_NAME = 1 << 28 | MAY_BE_MISSING                /* repeats the parameter of the row before */
};
/* clang-format on */
#define OPTIONAL_TENSORS (QK_NORM | QKV_BIAS | OUT_BIAS | MLP_BIAS | UNTIED)

/* The part of the network that a tensor belongs to, or that keeps something for the backward pass. That pass
 * goes through the loss, the head, the blocks from the last to the first, and the input, and frees what each
 * of them kept. */
enum mem_part {
    INPUT,                  /* the embeddings; also what is kept to the end of the backward pass */
    ATTENTION,              /* of each block: freed when the gradient of the softmax is computed */
    CONV_BLOCK = ATTENTION, /* of a convnet: all of each block */
    MLP,                    /* of each block, with all that follows the softmax: freed before ATTENTION */
    HEAD,                   /* after the blocks: freed before the backward pass of the last block */
    LOSS,                   /* freed before the backward pass of the head */
    MEM_PARTS
};

enum mem_tensor_kind {
    ELEMENTWISE, /* added, or multiplied element by element: biases, norms, positions */
    TABLE,       /* rows are looked up */
    MATRIX,      /* operand of a matrix product, [out, in …] */
    CONV1D,      /* operand of a matrix product, [in, out] */
    BUFFER
};

/* A tensor of a family: its name, in which `#` is the number of a block, and its shape, "V,3h". */
struct mem_tensor_rule {
    uint8_t part, kind;  /* enum mem_part, mem_tensor_kind */
    uint32_t conditions; /* ANY: in each network of this family */
    const char *name, *shape;
};

/* Memory that the network uses if the CONDITIONS hold: what an operation of a part keeps for the
 * backward pass, or what exists at a moment in addition. */
struct mem_usage {
    uint8_t part_or_moment; /* enum mem_part in usage_by_part, enum mem_moment in usage_by_moment */
    uint32_t conditions;
    const char *bytes; /* a product of sizes: "4TV" is 4 * T * V */
    const char *what;  /* a description for readers of the table */
};

/* Moments at which the memory may be at its peak. */
enum mem_moment {
    HELD, /* what the training loop holds during the whole step */
    FORWARD_END,
    LOSS_BACKWARD,
    HEAD_BACKWARD, /* what LOSS kept is freed by then */
    HEAD_CAST,     /* the head's gradient is cast to its parameter's dtype */
    BLOCK_BACKWARD,
    SOFTMAX_BACKWARD, /* what MLP kept is freed by then; the gradients of its parameters exist */
    BACKWARD_END,
    MEM_MOMENTS
};

/* What the value of a key of config.json sets. */
enum mem_config_kind {
    CONFIG_SIZE,              /* the size that LETTER stands for */
    CONFIG_ATTENTION_DROPOUT, /* each dropout: a probability, taken to be above 0 if the key is missing */
    CONFIG_RESIDUAL_DROPOUT,
    CONFIG_EMBEDDING_DROPOUT,
    CONFIG_ACTIVATION, /* CONDITIONS if it is VALUE; each value that is not refused has a row */
    CONFIG_BIT,        /* CONDITIONS if it is VALUE, or, without a VALUE, if it is true */
    CONFIG_NONE,       /* nothing: the key must be absent, null, false or 0 */
    CONFIG_WINDOW      /* a window of attention: longer sequences are refused */
};
struct mem_config_rule {
    uint8_t kind; /* enum mem_config_kind */
    char letter;
    uint32_t conditions;
    const char *keys;  /* "hidden_size|n_embd": of those in config.json, the first is used */
    const char *value; /* see mem_config_kind; of CONFIG_SIZE: the default, such as "4h", or NULL */
};

/* A convolution of a residual network, listed in running order. Padding is half of the kernel. */
enum mem_conv_role { CONV_STEM, CONV_MAIN, CONV_SHORTCUT };
enum { STRIDE_OF_STAGE = 0 };
struct mem_conv {
    uint8_t role;     /* enum mem_conv_role */
    uint8_t stride;   /* or STRIDE_OF_STAGE, which counts in the first block of a stage */
    const char *name; /* in a block: without "layer1.0." */
};

struct mem_family {
    const char *name, *title;
    const char *recognized_by; /* a tensor name that no other family has, without base_prefix */
    const char *base_prefix;   /* "transformer."; names lack it if the model was saved without its head */
    const char *blocks;        /* the list of blocks in Python: "transformer.h" */
    const char *setup;         /* what a user must set in Python for training, or NULL */
    const char *model_types;   /* values of model_type in config.json: "llama|mistral" */
    bool takes_images;         /* --image, not --seq */
    bool is_convnet;           /* residual stages (convnet.c), not equal blocks (transformer.c) */
    bool head_may_be_tied;     /* a head without a weight uses the embedding */
    bool has_dropout;          /* it has dropout unless the config turns it off */
    uint32_t conditions;       /* those that hold for all networks of the family */
    const struct mem_tensor_rule *tensors;   /* each list ends with an empty row */
    const struct mem_usage *usage_by_part;   /* by part */
    const struct mem_usage *usage_by_moment; /* by moment, in addition to what the parts keep */
    const struct mem_config_rule *config;
    const struct mem_conv *convs;
    const uint8_t *stage_strides; /* of the first block of each stage, 0 at the end */
};

const struct mem_family *mem_family_at(size_t index); /* NULL past the end */

/* Names of tensors of networks that no family describes, and why these cannot be estimated. */
struct mem_refusal {
    const char *glob;
    bool refuses_all; /* refuse to count parameters and optimizer states, too */
    const char *why;
};
extern const struct mem_refusal mem_refusals[]; /* ends with an empty row */
/* The why of networks that are of no family, although their blocks may have the names of one. */
#define ENCODER_DECODER "an encoder and a decoder"

/* conditions_hold - returns true if a row with CONDITIONS counts in a run with the conditions RUN. */
bool conditions_hold(uint32_t conditions, uint32_t run);
