/* transformer.c - makes the timeline of a network of equal blocks from the table of its family. */
#include "op/mem/states.h"
#include "op/mem/timeline.h"

/* Sums over the tensors of one part of a network, or of one block. */
struct weights_sum {
    uint64_t gradient; /* bytes */
    uint64_t matrices; /* elements of the matrices, which autocast casts */
    uint64_t results;  /* widths of the results of these matrices for one token */
};

/* Sums of each part of each block; those of the parts outside of blocks are with block 0. */
struct weights {
    struct weights_sum (*block)[MEM_PARTS];
};

/* add_weight - adds T to SUM. */
static void add_weight(struct weights_sum *sum, const struct mem_tensor *t, uint32_t precision)
{
    bool matrix = t->rule->kind == MATRIX || t->rule->kind == CONV1D;
    if (!t->tied_to && !t->frozen)
        sum->gradient = size_add(sum->gradient, size_mul(mem_bytes_of(t, precision).gradient, t->elements));
    if (!matrix || (t->tied_to && (t->rule->when & UNTIED)))
        return; /* a tied head is counted with the embedding */
    sum->matrices = size_add(sum->matrices, t->elements);
    sum->results = size_add(sum->results, t->shape[t->rule->kind == CONV1D ? t->ndim - 1 : 0]);
}

/* sum_weights - sums up the parameters of M by block and part. */
static ckpt_status sum_weights(const ckpt_mem *m, uint32_t precision, arena *a, struct weights *out,
                               ckpt_error *err)
{
    out->block = arena_array(a, m->nblocks, sizeof *out->block);
    if (!out->block)
        return fail_memory(err);
    for (size_t i = 0; i < m->ntensors; i++)
        if (!m->tensors[i].buffer)
            add_weight(&out->block[m->tensors[i].block][m->tensors[i].rule->part], &m->tensors[i], precision);
    return CKPT_OK;
}

static uint64_t sum_alive(const struct mem_family *f, enum mem_moment moment, const struct letters *dims,
                          uint32_t state)
{
    uint64_t sum = 0, bytes;
    for (const struct mem_alive *r = f->alive; r->bytes; r++)
        if (r->moment == moment && is_when(r->when, state))
            sum = size_add(sum, product_value(str_c(r->bytes), dims, &bytes) ? bytes : TOO_LARGE);
    return sum;
}

/* copies_of - returns the bytes of autocast's copies of W's matrices. */
static uint64_t copies_of(const struct weights_sum *w, uint32_t state)
{
    return state & MIXED ? size_mul(2, w->matrices) : 0;
}

static uint64_t product(const char *text, const struct letters *dims)
{
    uint64_t n;
    return product_value(str_c(text), dims, &n) ? n : TOO_LARGE;
}

/* attention_rest - what selective checkpointing keeps of attention beyond its output: log-sum-exp and
 * seed, or the products of queries and keys. */
static uint64_t attention_rest(const struct letters *dims, uint32_t state)
{
    if (state & EAGER)
        return product("Pc", dims);
    return state & FP32 ? size_add(product("4BaU", dims), 16) : size_add(product("4BaS", dims), 24);
}

/* fill_block - fills in block B, whose parameters have the sums W. */
static void fill_block(const struct mem_family *f, const struct letters *dims, uint32_t state,
                       const struct weights_sum *w, struct mem_block *b)
{
    struct weights_sum attention = w[ATTENTION], after = w[MLP];
    uint64_t after_kept = size_add(timeline_saved(f, MLP, dims, state), copies_of(&after, state));
    b->copies = size_add(copies_of(&attention, state), copies_of(&after, state));
    b->kept = size_add(size_add(timeline_saved(f, ATTENTION, dims, state), copies_of(&attention, state)),
                       after_kept);
    b->input = b->output = product("Thr", dims);
    b->gradient = size_add(attention.gradient, after.gradient);
    b->work = sum_alive(f, BLOCK_BACKWARD, dims, state);
    uint64_t softmax = size_add(sum_alive(f, SOFTMAX_BACKWARD, dims, state), after.gradient);
    if ((state & EAGER) && softmax > after_kept && softmax - after_kept > b->work)
        b->work = softmax - after_kept;
    uint64_t tokens = letter_get(dims, 'T');
    b->forward = size_add(size_mul(tokens, size_add(attention.matrices, after.matrices)),
                          product("2TSA", dims));
    b->matmuls = size_add(
        size_mul(size_mul(tokens, letter_get(dims, 'c')), size_add(attention.results, after.results)),
        size_add(product("TAc", dims), attention_rest(dims, state)));
}

/* tied_head - returns the elements of the embedding if the head uses it as its matrix, else 0. */
static uint64_t tied_head(const ckpt_mem *m, const struct letters *dims)
{
    return m->conditions & TIED ? product("Vh", dims) : 0;
}

ckpt_status transformer_timeline(const ckpt_mem *m, const struct letters *dims, uint32_t state,
                                 uint32_t precision, struct mem_timeline *t, arena *a, ckpt_error *err)
{
    const struct mem_family *f = m->family;
    struct weights w;
    CKPT_TRY(sum_weights(m, precision, a, &w, err));
    struct weights_sum input = w.block[0][INPUT], head = w.block[0][HEAD];
    uint32_t kept = (state & ~(uint32_t)CHECKPOINTED) | NOT_CHECKPOINTED;
    *t = (struct mem_timeline){.n = m->nblocks};
    t->blocks = arena_array(a, m->nblocks, sizeof *t->blocks);
    if (!t->blocks)
        return fail_memory(err);
    head.matrices = size_add(head.matrices, tied_head(m, dims));
    t->input = size_add(timeline_saved(f, INPUT, dims, kept), copies_of(&input, state));
    t->head = size_add(timeline_saved(f, HEAD, dims, kept), copies_of(&head, state));
    t->loss = timeline_saved(f, LOSS, dims, kept);
    t->checkpointed = timeline_saved(f, INPUT, dims, state | CHECKPOINTED) -
                      timeline_saved(f, INPUT, dims, state & ~(uint32_t)CHECKPOINTED);
    for (int i = 0; i < MEM_MOMENTS; i++)
        t->moment[i] = sum_alive(f, (enum mem_moment)i, dims, state);
    t->held = t->moment[HELD];
    t->end = t->moment[BACKWARD_END];
    t->gradients = size_add(input.gradient, head.gradient);
    t->head_gradient = size_add(head.gradient, m->conditions & TIED ? product("Vhe", dims) : 0);
    t->forward = size_mul(letter_get(dims, f->images ? 'B' : 'T'), head.matrices);
    for (uint32_t i = 0; i < m->nblocks; i++) {
        fill_block(f, dims, state, w.block[i], &t->blocks[i]);
        t->gradients = size_add(t->gradients, t->blocks[i].gradient);
        t->forward = size_add(t->forward, t->blocks[i].forward);
    }
    return CKPT_OK;
}
