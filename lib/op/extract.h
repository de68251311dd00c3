/* extract.h - `ckpt lora --extract`: the adapter of LoRA that is the difference of two models. */
#pragma once

#include "base/map.h"
#include "core/plan.h"
#include "op/extract_pairs.h"

/* A tensor of the adapter. */
struct extract_tensor {
    ckpt_str name;
    ckpt_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape;
    source *src; /* its bytes; owned */
};

/* A tensor that one of the models has. */
struct extract_item {
    ckpt_extracted report; /* `why` is set from the beginning unless a pair can express the tensor */
    ckpt_str module;       /* the name up to its last dot; .ptr NULL: it has none */
    struct extract_pair pair;
    uint32_t tie_of;      /* index of the item that it is tied to in both models; MAP_NONE: none */
    uint32_t bias;        /* of a matrix: index of the bias of its module; MAP_NONE: it has none */
    uint32_t weight;      /* of such a bias: index of its matrix; MAP_NONE: it is none */
    bool is_in_both;      /* with the same shape */
    bool is_matrix;       /* a pair can express the difference */
    bool is_transposed;   /* the rows of the matrix are what goes in */
    bool has_other_order; /* the length of its bias shows that is_transposed is wrong */
    bool differs;
};

struct ckpt_extraction {
    arena *a;
    ckpt_plan *base, *tuned;
    const ckpt_extract_options *opts;
    struct extract_item *items;
    size_t nitems, cap_items;
    const struct extract_item **list; /* those that differ, for the report */
    size_t nlist, cap_list;
    map *item_of;    /* name -> index */
    map *saved;      /* modules that are saved -> 0 */
    bool has_biases; /* each pair has a bias */
    struct extract_tensor *tensors;
    size_t ntensors, cap_tensors;
    ckpt_str config;
    ckpt_file *adapter; /* of TENSORS, and its plan: made by the caller of extract_lora */
    ckpt_plan *p;
};

/* extract_lora - fills in EXTRACTION, which has A, BASE, TUNED and OPTS, which need not exist any longer
 * after it, as ckpt_extract_lora describes. */
ckpt_status extract_lora(struct ckpt_extraction *extraction, ckpt_error *err);
/* extract_free - frees what is not in extraction->a. */
void extract_free(struct ckpt_extraction *extraction);
/* extract_config - sets extraction->config, the text of peft's adapter_config.json. */
ckpt_status extract_config(struct ckpt_extraction *extraction, ckpt_error *err);
/* extract_saved_module - returns MODULE or the outermost module around it that is saved; .ptr NULL: none
 * is. */
ckpt_str extract_saved_module(const struct ckpt_extraction *extraction, ckpt_str module);
