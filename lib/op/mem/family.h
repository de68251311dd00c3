/* family.h - what a family of networks is: one table, which families.def lists. A table has the
 * names and shapes by which its networks are recognized, and what each operation of them keeps until the
 * backward pass.
 *
 * Sizes are products of letters (product.h), in bytes where they are sizes of what is kept: B S T
 * batch, sequence length (images: patches and class token), tokens B·S U          S rounded up to 32 c r
 * e      bytes of an operand of a matrix product, of the residual stream, of a parameter V h f L
 * vocabulary, hidden size, width of the MLP, blocks A K G      width of all queries, of all keys; of the
 * keys as the kernel takes them (repeated for each query) a k d      heads, heads of keys and values,
 * width of a head n p C      positions, side of a patch, classes H W        height and width of the
 * images P I        probabilities of one attention B·a·S·S; elements of the batch of images
 * */
#ifndef OP_MEM_FAMILY_H
#define OP_MEM_FAMILY_H

#include "op/mem/product.h"

/* When a row of a table counts: for each group of which WHEN has a bit, the run has one of these bits. */
enum {
    ANY = 0,
    FP32 = 1 << 0, MIXED = 1 << 1, HALF = 1 << 2,         /* precision */
    SDPA = 1 << 3, EAGER = 1 << 4,                        /* how attention is computed */
    ATTENTION_DROP = 1 << 5, NO_ATTENTION_DROP = 1 << 6,  /* is a dropout's probability above 0? */
    DROP = 1 << 7, NO_DROP = 1 << 8,                      /* … of those of the residual stream */
    EMBEDDING_DROP = 1 << 9, NO_EMBEDDING_DROP = 1 << 10,
    GELU_WRITTEN_OUT = 1 << 11, GELU_FUSED = 1 << 12,
    ONE_SEQUENCE = 1 << 13, SEQUENCES = 1 << 14,          /* is B 1? */
    CHECKPOINTED = 1 << 15, NOT_CHECKPOINTED = 1 << 16,   /* is any segment recomputed? */
    QK_NORM = 1 << 17, NO_QK_NORM = 1 << 18,              /* tensors that only some of a family have */
    QKV_BIAS = 1 << 19, NO_QKV_BIAS = 1 << 20,
    OUT_BIAS = 1 << 21, NO_OUT_BIAS = 1 << 22,
    MLP_BIAS = 1 << 23, NO_MLP_BIAS = 1 << 24,
    UNTIED = 1 << 25, TIED = 1 << 26,                     /* has the head a weight of its own? */
    MAY_BE_THERE = 1 << 27                                /* of a tensor: it may be missing */
};
#define OPTIONAL_TENSORS (QK_NORM | QKV_BIAS | OUT_BIAS | MLP_BIAS | UNTIED)

/* Where a tensor belongs, and until when something is kept: the backward pass ends with the loss, then
 * the head, then goes through the blocks. */
enum mem_part {
    INPUT,         /* embeddings and what is kept until the very end */
    ATTENTION,     /* in each block: needed until the softmax's gradient is known */
    AFTER_SOFTMAX, /* in each block, free by then: output projection and MLP */
    HEAD,          /* after the blocks, free before the last block's gradient */
    LOSS,          /* free before the head's gradient */
    MEM_PARTS
};

enum mem_tensor_kind {
    VECTOR,
    TABLE, /* looked up, not multiplied */
    MATRIX,
    CONV1D, /* a MATRIX [in, out] */
    BUFFER
};

/* A tensor by name, `#` being the number of a block, and shape: "V,3h". */
struct mem_tensor_rule {
    uint8_t part, kind; /* enum mem_part, mem_tensor_kind */
    uint32_t when;      /* ANY: in each network of this family */
    const char *name, *shape;
};

/* What is kept in PART, in bytes. */
struct mem_saved {
    uint8_t part;
    uint32_t when;
    const char *bytes, *what;
};

/* When a peak may be, and what is alive then in addition to what is kept. */
enum mem_moment {
    HELD,            /* from begin to end, by the training loop */
    FORWARD_END,
    LOSS_BACKWARD,
    HEAD_BACKWARD,   /* what LOSS kept is free */
    HEAD_CAST,       /* the head's gradient is cast to its parameter's dtype */
    BLOCK_BACKWARD,
    SOFTMAX_BACKWARD, /* what AFTER_SOFTMAX kept is free, its gradients are there */
    BACKWARD_END,
    MEM_MOMENTS
};

struct mem_alive {
    uint8_t moment;
    uint32_t when;
    const char *bytes, *what;
};

/* Keys of config.json. */
enum mem_config_kind {
    CONFIG_SIZE,       /* the number LETTER */
    CONFIG_ATTENTION_DROP, CONFIG_DROP, CONFIG_EMBEDDING_DROP, /* a probability: 0.1 where nothing is given */
    CONFIG_ACTIVATION, /* VALUE: another one is not in this table; sets BITS */
    CONFIG_BIT,        /* true sets BITS */
    CONFIG_NONE,       /* refused unless it is absent, null, false or 0 */
    CONFIG_WINDOW      /* longer sequences are refused */
};
struct mem_config_rule {
    uint8_t kind; /* enum mem_config_kind */
    char letter;
    uint32_t bits;
    const char *keys;  /* "hidden_size|n_embd": the first that is there */
    const char *value;
};

/* A convolution of a residual network, in order; its padding is that of its kernel. */
enum mem_conv_role { CONV_STEM, CONV_MAIN, CONV_SHORTCUT };
struct mem_conv {
    uint8_t role;   /* enum mem_conv_role */
    uint8_t stride; /* 0: that of its stage */
    const char *name; /* of a block's: what follows "layer1.0." */
};

struct mem_family {
    const char *name, *title;
    const char *sign;    /* a name that no other family has, without `base` */
    const char *base;    /* the module whose tensors may be saved without the head: "transformer." */
    const char *blocks;  /* the blocks of it in Python: "transformer.h" */
    const char *setup;   /* what has to be set for training in Python, or NULL */
    const char *types;   /* model_type of its config.json: "llama|mistral" */
    bool images;         /* --image, not --seq */
    bool convolutions;   /* residual stages (convnet.c), not equal blocks (transformer.c) */
    bool tied;           /* without a weight of the head, the head uses the embedding */
    bool dropout;        /* it has dropout where nothing says otherwise */
    uint32_t bits;       /* that are always set */
    const struct mem_tensor_rule *tensors; /* each list ends with an empty row */
    const struct mem_saved *saved;
    const struct mem_alive *alive;
    const struct mem_config_rule *config;
    const struct mem_conv *convs;
    const uint8_t *stage_strides; /* of the first block of each stage, 0 at the end */
};

const struct mem_family *mem_family_at(size_t i); /* NULL past the end */

/* Why names that no family has cannot be counted. */
struct mem_refusal {
    const char *glob;
    bool always; /* not even parameters and optimizer */
    const char *why;
};
extern const struct mem_refusal mem_refusals[]; /* ends with an empty one */

/* is_when - does a row with WHEN count in a run with the bits STATE? */
bool is_when(uint32_t when, uint32_t state);

#endif
