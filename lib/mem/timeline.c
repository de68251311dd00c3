/* timeline.c - computes what one training step keeps, and its peak, for a network cut into segments. The
 * backward pass goes from the last block to the first. Of a segment that is recomputed, only the input was
 * kept: the backward pass recomputes all that its blocks keep, then frees it block by block, from the last of
 * the segment to the first. */
#include "mem/timeline.h"

#include "base/checked.h"

uint64_t usage_sum(const struct mem_usage *list, unsigned part_or_moment, const struct letters *dims,
                   uint32_t state)
{
    uint64_t sum = 0, bytes;
    for (const struct mem_usage *row = list; row->bytes; row++)
        if (row->part_or_moment == part_or_moment && conditions_hold(row->conditions, state))
            sum = size_add(sum, product_value(str_c(row->bytes), dims, &bytes) ? bytes : TOO_LARGE);
    return sum;
}

void fill_outside(const struct mem_family *f, const struct letters *dims, uint32_t state,
                  struct mem_timeline *t)
{
    uint32_t not_checkpointed = (state & ~(uint32_t)CHECKPOINTED) | NOT_CHECKPOINTED;
    t->input_bytes = usage_sum(f->usage_by_part, INPUT, dims, not_checkpointed);
    t->head_bytes = usage_sum(f->usage_by_part, HEAD, dims, not_checkpointed);
    t->loss_bytes = usage_sum(f->usage_by_part, LOSS, dims, not_checkpointed);
    t->checkpoint_bytes = usage_sum(f->usage_by_part, INPUT, dims, state | CHECKPOINTED) -
                          usage_sum(f->usage_by_part, INPUT, dims, state & ~(uint32_t)CHECKPOINTED);
    for (unsigned i = 0; i < MEM_MOMENTS; i++)
        t->moment_bytes[i] = usage_sum(f->usage_by_moment, i, dims, state);
}

/* sum_stored - returns the bytes that SEGMENT keeps until its backward pass. */
static uint64_t sum_stored(const struct mem_timeline *t, const struct mem_segments *s,
                           const ckpt_mem_segment *segment)
{
    uint64_t sum = segment->recomputed ? t->blocks[segment->first].input_bytes : 0;
    for (uint32_t i = segment->first; i < segment->first + segment->blocks; i++)
        sum = size_add(sum, !segment->recomputed ? t->blocks[i].kept_bytes
                            : s->selective       ? t->blocks[i].matmul_bytes
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

uint64_t timeline_kept_bytes(const struct mem_timeline *t, const struct mem_segments *s)
{
    uint64_t sum = size_add(size_add(t->input_bytes, t->head_bytes), t->loss_bytes);
    for (size_t i = 0; i < s->n; i++)
        sum = size_add(sum, sum_stored(t, s, &s->list[i]));
    return size_add(sum, any_recomputed(s) ? t->checkpoint_bytes : 0);
}

static void raise_peak(struct mem_peak *peak, uint64_t bytes, enum mem_moment moment, uint32_t block)
{
    if (bytes > peak->bytes)
        *peak = (struct mem_peak){bytes, moment, block};
}

/* raise_peak_by_segment - raises *PEAK to what the backward pass of SEGMENT takes, and adds the gradients of
 * its parameters to *GRADIENTS. LIVE: what exists besides, now that the later segments are freed. */
static void raise_peak_by_segment(const struct mem_timeline *t, const struct mem_segments *s,
                                  const ckpt_mem_segment *segment, uint64_t live, uint64_t *gradients,
                                  struct mem_peak *peak)
{
    uint64_t kept = 0;
    for (uint32_t i = segment->first; i < segment->first + segment->blocks; i++)
        kept = size_add(kept, t->blocks[i].kept_bytes);
    for (uint32_t i = segment->first + segment->blocks; i > segment->first && COUNT_DOWN(i);) {
        const struct mem_block *b = &t->blocks[i];
        uint64_t held_output = segment->recomputed && s->reentrant ? b->output_bytes : 0;
        uint64_t own = size_add(*gradients, size_add(b->backward_bytes, held_output));
        raise_peak(peak, size_add(size_add(live, kept), own), BLOCK_BACKWARD, i);
        *gradients = size_add(*gradients, b->gradient_bytes);
        kept -= kept == TOO_LARGE ? 0 : b->kept_bytes;
    }
}

struct mem_peak timeline_peak(const struct mem_timeline *t, const struct mem_segments *s)
{
    struct mem_peak peak = {0};
    bool recomputes = any_recomputed(s);
    uint64_t extra_bytes = recomputes ? t->checkpoint_bytes : t->moment_bytes[HELD];
    uint64_t copies = 0, gradients = t->head_gradient;
    uint64_t base = size_add(timeline_kept_bytes(t, s), recomputes ? 0 : t->moment_bytes[HELD]);
    for (size_t i = 0; i < s->n; i++)
        for (uint32_t b = s->list[i].first; s->list[i].recomputed && b < s->list[i].first + s->list[i].blocks;
             b++)
            copies = size_add(copies, t->blocks[b].copy_bytes);
    if (base == TOO_LARGE)
        return (struct mem_peak){.bytes = TOO_LARGE};
    raise_peak(&peak, size_add(size_add(base, copies), t->moment_bytes[FORWARD_END]), FORWARD_END, 0);
    raise_peak(&peak, size_add(base, t->moment_bytes[LOSS_BACKWARD]), LOSS_BACKWARD, 0);
    raise_peak(&peak, size_add(base - t->loss_bytes, t->moment_bytes[HEAD_BACKWARD]), HEAD_BACKWARD, 0);
    raise_peak(&peak, size_add(base - t->loss_bytes, t->moment_bytes[HEAD_CAST]), HEAD_BACKWARD, 0);
    uint64_t live = base - t->loss_bytes - t->head_bytes;
    for (size_t i = s->n; COUNT_DOWN(i);) {
        live -= sum_stored(t, s, &s->list[i]);
        raise_peak_by_segment(t, s, &s->list[i], live, &gradients, &peak);
    }
    /* the output of the first reentrant segment exists until the backward pass reaches the network's input */
    uint64_t first_output = recomputes && s->reentrant ? t->blocks[0].output_bytes : 0;
    uint64_t end_bytes = size_add(size_add(t->end_bytes, first_output), extra_bytes);
    raise_peak(&peak, size_add(t->gradients, end_bytes), BACKWARD_END, 0);
    return peak;
}

uint64_t timeline_extra_work(const struct mem_timeline *t, const struct mem_segments *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n; i++)
        for (uint32_t b = s->list[i].first; s->list[i].recomputed && b < s->list[i].first + s->list[i].blocks;
             b++)
            sum = size_add(sum, s->selective ? 0 : t->blocks[b].multiply_adds);
    return sum;
}
