/* timeline.c - computes what one training step keeps, and its peak, for a network cut into segments. The
 * backward pass goes from the last block to the first. Of a segment that is recomputed, only the input was
 * kept: the backward pass recomputes all that its blocks keep, and frees that of one block after the other
 * from its end. */
#include "op/mem/timeline.h"

uint64_t usage_sum(const struct mem_usage *list, unsigned part_or_moment, const struct letters *dims,
                   uint32_t state)
{
    uint64_t sum = 0, bytes;
    for (const struct mem_usage *row = list; row->bytes; row++)
        if (row->part_or_moment == part_or_moment && conditions_hold(row->when, state))
            sum = size_add(sum, product_value(str_c(row->bytes), dims, &bytes) ? bytes : TOO_LARGE);
    return sum;
}

void fill_outside(const struct mem_family *f, const struct letters *dims, uint32_t state,
                  struct mem_timeline *t)
{
    uint32_t not_checkpointed = (state & ~(uint32_t)CHECKPOINTED) | NOT_CHECKPOINTED;
    t->input = usage_sum(f->saved, INPUT, dims, not_checkpointed);
    t->head = usage_sum(f->saved, HEAD, dims, not_checkpointed);
    t->loss = usage_sum(f->saved, LOSS, dims, not_checkpointed);
    t->checkpointed = usage_sum(f->saved, INPUT, dims, state | CHECKPOINTED) -
                      usage_sum(f->saved, INPUT, dims, state & ~(uint32_t)CHECKPOINTED);
    for (unsigned i = 0; i < MEM_MOMENTS; i++)
        t->moment[i] = usage_sum(f->alive, i, dims, state);
}

/* sum_stored - returns the bytes that SEGMENT keeps until its backward pass. */
static uint64_t sum_stored(const struct mem_timeline *t, const struct mem_segments *s,
                           const ckpt_mem_segment *segment)
{
    uint64_t sum = segment->recomputed ? t->blocks[segment->first].input : 0;
    for (uint32_t i = segment->first; i < segment->first + segment->blocks; i++)
        sum = size_add(sum, !segment->recomputed ? t->blocks[i].kept
                            : s->selective       ? t->blocks[i].matmuls
                                                 : 0);
    return sum;
}

static bool any_recomputed(const struct mem_segments *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->list[i].recomputed)
            return true;
    return false;
}

uint64_t timeline_kept(const struct mem_timeline *t, const struct mem_segments *s)
{
    uint64_t sum = size_add(size_add(t->input, t->head), t->loss);
    for (size_t i = 0; i < s->n; i++)
        sum = size_add(sum, sum_stored(t, s, &s->list[i]));
    return size_add(sum, any_recomputed(s) ? t->checkpointed : 0);
}

static void raise_peak(struct mem_peak *peak, uint64_t bytes, enum mem_moment moment, uint32_t block)
{
    if (bytes > peak->bytes)
        *peak = (struct mem_peak){bytes, moment, block};
}

/* raise_by_segment - raises *PEAK to what the backward pass of SEGMENT takes. LIVE: the bytes that exist then
 * besides those of SEGMENT, after the later blocks were freed. */
static void raise_by_segment(const struct mem_timeline *t, const struct mem_segments *s,
                             const ckpt_mem_segment *segment, uint64_t live, uint64_t *gradients,
                             struct mem_peak *peak)
{
    uint64_t kept = 0;
    for (uint32_t i = segment->first; i < segment->first + segment->blocks; i++)
        kept = size_add(kept, t->blocks[i].kept);
    for (uint32_t i = segment->first + segment->blocks; i-- > segment->first;) {
        const struct mem_block *b = &t->blocks[i];
        uint64_t held = segment->recomputed && s->reentrant ? b->output : 0;
        uint64_t sum = size_add(size_add(live, kept), size_add(*gradients, size_add(b->work, held)));
        raise_peak(peak, sum, BLOCK_BACKWARD, i);
        *gradients = size_add(*gradients, b->gradient);
        kept -= kept == TOO_LARGE ? 0 : b->kept;
    }
}

struct mem_peak timeline_peak(const struct mem_timeline *t, const struct mem_segments *s)
{
    struct mem_peak peak = {0};
    bool recomputes = any_recomputed(s);
    uint64_t extra = recomputes ? t->checkpointed : t->moment[HELD], copies = 0, gradients = t->head_gradient;
    uint64_t base = size_add(timeline_kept(t, s), recomputes ? 0 : t->moment[HELD]);
    for (size_t i = 0; i < s->n; i++)
        for (uint32_t b = s->list[i].first; s->list[i].recomputed && b < s->list[i].first + s->list[i].blocks;
             b++)
            copies = size_add(copies, t->blocks[b].copies);
    if (base == TOO_LARGE)
        return (struct mem_peak){.bytes = TOO_LARGE};
    raise_peak(&peak, size_add(size_add(base, copies), t->moment[FORWARD_END]), FORWARD_END, 0);
    raise_peak(&peak, size_add(base, t->moment[LOSS_BACKWARD]), LOSS_BACKWARD, 0);
    raise_peak(&peak, size_add(base - t->loss, t->moment[HEAD_BACKWARD]), HEAD_BACKWARD, 0);
    raise_peak(&peak, size_add(base - t->loss, t->moment[HEAD_CAST]), HEAD_BACKWARD, 0);
    uint64_t live = base - t->loss - t->head;
    for (size_t i = s->n; i-- > 0;) {
        live -= sum_stored(t, s, &s->list[i]);
        raise_by_segment(t, s, &s->list[i], live, &gradients, &peak);
    }
    /* the output of the first reentrant segment exists until the backward pass reaches the network's input */
    uint64_t first_output = recomputes && s->reentrant ? t->blocks[0].output : 0;
    raise_peak(&peak, size_add(t->gradients, size_add(size_add(t->end, first_output), extra)), BACKWARD_END,
               0);
    return peak;
}

uint64_t timeline_again(const struct mem_timeline *t, const struct mem_segments *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n; i++)
        for (uint32_t b = s->list[i].first; s->list[i].recomputed && b < s->list[i].first + s->list[i].blocks;
             b++)
            sum = size_add(sum, s->selective ? 0 : t->blocks[b].forward);
    return sum;
}
