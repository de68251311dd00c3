/* transformer.c - computes the timeline of a network of equal blocks from the table of its family. */
#include "mem/states.h"
#include "mem/timeline.h"

/* Sums over the tensors of one part, outside of the blocks or in one block. */
struct weights_sum {
    uint64_t gradient_bytes;
    uint64_t matrix_elements; /* of the matrices, which autocast casts */
    uint64_t out_features;    /* of the Linears with these matrices */
};

/* The sums of one block by part. Those of block 0 include the parts outside of blocks. */
typedef struct weights_sum part_sums[MEM_PARTS];

static void add_weight(struct weights_sum *sum, const struct mem_tensor *tensor, uint32_t precision)
{
    bool matrix = tensor->rule->kind == MATRIX || tensor->rule->kind == CONV1D;
    uint64_t gradient_bytes = size_mul(mem_bytes_of(tensor, precision).gradient, tensor->elements);
    if (!tensor->tied_to && !tensor->frozen)
        sum->gradient_bytes = size_add(sum->gradient_bytes, gradient_bytes);
    if (!matrix || (tensor->tied_to && (tensor->rule->conditions & UNTIED)))
        return; /* a tied head is added by transformer_timeline */
    sum->matrix_elements = size_add(sum->matrix_elements, tensor->elements);
    sum->out_features = size_add(sum->out_features,
                                 tensor->shape[tensor->rule->kind == CONV1D ? tensor->ndim - 1 : 0]);
}

/* sum_weights - returns the sums over the parameters of MEM by block, in A; NULL: out of memory. */
static part_sums *sum_weights(const ckpt_mem *mem, uint32_t precision, arena *a)
{
    part_sums *sums = arena_array(a, mem->nblocks, sizeof *sums);
    for (size_t i = 0; sums && i < mem->ntensors; i++)
        if (!mem->tensors[i].is_buffer)
            add_weight(&sums[mem->tensors[i].block][mem->tensors[i].rule->part], &mem->tensors[i], precision);
    return sums;
}

/* cast_copy_bytes - returns the bytes of autocast's copies of the matrices of SUMS. */
static uint64_t cast_copy_bytes(const struct weights_sum *sums, uint32_t state)
{
    return state & MIXED ? size_mul(2, sums->matrix_elements) : 0;
}

/* product - returns the value of TEXT, a product of letters (family.h); TOO_LARGE: one is not known. */
static uint64_t product(const char *text, const struct letters *dims)
{
    uint64_t n;
    return product_value(str_c(text), dims, &n) ? n : TOO_LARGE;
}

/* attention_extra_bytes - returns the bytes that selective checkpointing keeps of attention beyond its
 * output: log-sum-exp and seed, or the products of queries and keys. */
static uint64_t attention_extra_bytes(const struct letters *dims, uint32_t state)
{
    if (state & EAGER)
        return product("Pc", dims);
    /* as in ATTENTION_SDPA: log-sum-exp, then seed and offset */
    return state & FP32 ? size_add(product("4BaU", dims), 16) : size_add(product("4BaS", dims), 24);
}

/* fill_block - sets all fields of *BLOCK, a block whose parameters have the SUMS by part. */
static void fill_block(const struct mem_family *family, const struct letters *dims, uint32_t state,
                       const struct weights_sum *sums, struct mem_block *block)
{
    struct weights_sum attention = sums[ATTENTION], mlp = sums[MLP];
    uint64_t attention_copies = cast_copy_bytes(&attention, state), mlp_copies = cast_copy_bytes(&mlp, state);
    uint64_t mlp_kept = size_add(usage_sum(family->usage_by_part, MLP, dims, state), mlp_copies);
    uint64_t attention_kept = size_add(usage_sum(family->usage_by_part, ATTENTION, dims, state),
                                       attention_copies);
    block->copy_bytes = size_add(attention_copies, mlp_copies);
    block->kept_bytes = size_add(attention_kept, mlp_kept);
    block->input_bytes = block->output_bytes = product("Thr", dims);
    block->gradient_bytes = size_add(attention.gradient_bytes, mlp.gradient_bytes);
    block->backward_bytes = usage_sum(family->usage_by_moment, BLOCK_BACKWARD, dims, state);
    uint64_t softmax_bytes = usage_sum(family->usage_by_moment, SOFTMAX_BACKWARD, dims, state);
    softmax_bytes = size_add(softmax_bytes, mlp.gradient_bytes);
    if ((state & EAGER) && softmax_bytes > mlp_kept && softmax_bytes - mlp_kept > block->backward_bytes)
        block->backward_bytes = softmax_bytes - mlp_kept;
    uint64_t tokens = letter_get(dims, 'T');
    block->multiply_adds = size_add(
        size_mul(tokens, size_add(attention.matrix_elements, mlp.matrix_elements)), product("2TSA", dims));
    uint64_t out_features = size_add(attention.out_features, mlp.out_features);
    block->matmul_bytes = size_add(size_mul(size_mul(tokens, letter_get(dims, 'c')), out_features),
                                   size_add(product("TAc", dims), attention_extra_bytes(dims, state)));
}

ckpt_status transformer_timeline(const ckpt_mem *mem, const struct letters *dims, uint32_t state,
                                 uint32_t precision, struct mem_timeline *out, arena *a, ckpt_error *err)
{
    const struct mem_family *f = mem->family;
    bool tied = mem->conditions & TIED;
    part_sums *sums = sum_weights(mem, precision, a);
    *out = (struct mem_timeline){.n = mem->nblocks};
    out->blocks = arena_array(a, mem->nblocks, sizeof *out->blocks);
    CKPT_TRY_ALLOC(sums && out->blocks, err);
    struct weights_sum input = sums[0][INPUT], head = sums[0][HEAD];
    if (tied) /* the head uses the embedding as its matrix */
        head.matrix_elements = size_add(head.matrix_elements, product("Vh", dims));
    fill_outside(f, dims, state, out);
    out->input_bytes = size_add(out->input_bytes, cast_copy_bytes(&input, state));
    out->head_bytes = size_add(out->head_bytes, cast_copy_bytes(&head, state));
    out->end_bytes = out->moment_bytes[BACKWARD_END];
    out->gradients = size_add(input.gradient_bytes, head.gradient_bytes);
    out->head_gradient = size_add(head.gradient_bytes, tied ? product("Vhe", dims) : 0);
    out->multiply_adds = size_mul(letter_get(dims, f->takes_images ? 'B' : 'T'), head.matrix_elements);
    for (uint32_t i = 0; i < mem->nblocks; i++) {
        fill_block(f, dims, state, sums[i], &out->blocks[i]);
        out->gradients = size_add(out->gradients, out->blocks[i].gradient_bytes);
        out->multiply_adds = size_add(out->multiply_adds, out->blocks[i].multiply_adds);
    }
    return CKPT_OK;
}
