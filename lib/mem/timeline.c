/* timeline.c - computes what one training step keeps, and its peak, for a network cut into segments. The
 * backward pass goes from the last block to the first. Of a segment that is recomputed, only the input was
 * kept: the backward pass recomputes all that its blocks keep, then frees it block by block, from the last of
 * the segment to the first. */
#include "mem/timeline.h"

uint64_t usage_sum(const struct mem_usage *list, unsigned part_or_moment, const struct letters *dims,
                   uint32_t state)
{
    uint64_t sum = 0, bytes;
    for (const struct mem_usage *row = list; row->bytes; row++)
        if (row->part_or_moment == part_or_moment && conditions_hold(row->conditions, state))
            sum = size_add(sum, product_value(str_c(row->bytes), dims, &bytes) ? bytes : TOO_LARGE);
    return sum;
}

void fill_outside(const struct mem_family *family, const struct letters *dims, uint32_t state,
                  struct mem_timeline *timeline)
{
    uint32_t not_checkpointed = (state & ~(uint32_t)CHECKPOINTED) | NOT_CHECKPOINTED;
    timeline->input_bytes = usage_sum(family->usage_by_part, INPUT, dims, not_checkpointed);
    timeline->head_bytes = usage_sum(family->usage_by_part, HEAD, dims, not_checkpointed);
    timeline->loss_bytes = usage_sum(family->usage_by_part, LOSS, dims, not_checkpointed);
    timeline->checkpoint_bytes = usage_sum(family->usage_by_part, INPUT, dims, state | CHECKPOINTED) -
                                 usage_sum(family->usage_by_part, INPUT, dims,
                                           state & ~(uint32_t)CHECKPOINTED);
    for (unsigned i = 0; i < MEM_MOMENTS; i++)
        timeline->moment_bytes[i] = usage_sum(family->usage_by_moment, i, dims, state);
}

/* sum_stored - returns the bytes that SEGMENT keeps until its backward pass. */
static uint64_t sum_stored(const struct mem_timeline *timeline, const struct mem_segments *segments,
                           const ckpt_mem_segment *segment)
{
    uint64_t sum = segment->recomputed ? timeline->blocks[segment->first].input_bytes : 0;
    for (uint32_t i = segment->first; i < segment->first + segment->blocks; i++)
        sum = size_add(sum, !segment->recomputed  ? timeline->blocks[i].kept_bytes
                            : segments->selective ? timeline->blocks[i].matmul_bytes
                                                  : 0);
    return sum;
}

static bool any_recomputed(const struct mem_segments *segments)
{
    for (size_t i = 0; i < segments->n; i++)
        if (segments->list[i].recomputed)
            return true;
    return false;
}

uint64_t timeline_kept_bytes(const struct mem_timeline *timeline, const struct mem_segments *segments)
{
    uint64_t sum = size_add(size_add(timeline->input_bytes, timeline->head_bytes), timeline->loss_bytes);
    for (size_t i = 0; i < segments->n; i++)
        sum = size_add(sum, sum_stored(timeline, segments, &segments->list[i]));
    return size_add(sum, any_recomputed(segments) ? timeline->checkpoint_bytes : 0);
}

static void raise_peak(struct mem_peak *peak, uint64_t bytes, enum mem_moment moment, uint32_t block)
{
    if (bytes > peak->bytes)
        *peak = (struct mem_peak){bytes, moment, block};
}

/* raise_peak_by_segment - raises *PEAK to what the backward pass of SEGMENT takes, and adds the gradients of
 * its parameters to *GRADIENTS. LIVE: what exists besides, now that the later segments are freed. */
static void raise_peak_by_segment(const struct mem_timeline *timeline, const struct mem_segments *segments,
                                  const ckpt_mem_segment *segment, uint64_t live, uint64_t *gradients,
                                  struct mem_peak *peak)
{
    uint64_t kept = 0;
    for (uint32_t i = segment->first; i < segment->first + segment->blocks; i++)
        kept = size_add(kept, timeline->blocks[i].kept_bytes);
    for (uint32_t i = segment->first + segment->blocks; i > segment->first && COUNT_DOWN(i);) {
        const struct mem_block *b = &timeline->blocks[i];
        uint64_t held_output = segment->recomputed && segments->reentrant ? b->output_bytes : 0;
        uint64_t own = size_add(*gradients, size_add(b->backward_bytes, held_output));
        raise_peak(peak, size_add(size_add(live, kept), own), BLOCK_BACKWARD, i);
        *gradients = size_add(*gradients, b->gradient_bytes);
        kept -= kept == TOO_LARGE ? 0 : b->kept_bytes;
    }
}

struct mem_peak timeline_peak(const struct mem_timeline *timeline, const struct mem_segments *segments)
{
    struct mem_peak peak = {0};
    bool recomputes = any_recomputed(segments);
    uint64_t extra_bytes = recomputes ? timeline->checkpoint_bytes : timeline->moment_bytes[HELD];
    uint64_t copies = 0, gradients = timeline->head_gradient;
    uint64_t base = size_add(timeline_kept_bytes(timeline, segments),
                             recomputes ? 0 : timeline->moment_bytes[HELD]);
    for (size_t i = 0; i < segments->n; i++)
        for (uint32_t b = segments->list[i].first;
             segments->list[i].recomputed && b < segments->list[i].first + segments->list[i].blocks; b++)
            copies = size_add(copies, timeline->blocks[b].copy_bytes);
    if (base == TOO_LARGE)
        return (struct mem_peak){.bytes = TOO_LARGE};
    raise_peak(&peak, size_add(size_add(base, copies), timeline->moment_bytes[FORWARD_END]), FORWARD_END, 0);
    raise_peak(&peak, size_add(base, timeline->moment_bytes[LOSS_BACKWARD]), LOSS_BACKWARD, 0);
    raise_peak(&peak, size_add(base - timeline->loss_bytes, timeline->moment_bytes[HEAD_BACKWARD]),
               HEAD_BACKWARD, 0);
    raise_peak(&peak, size_add(base - timeline->loss_bytes, timeline->moment_bytes[HEAD_CAST]), HEAD_BACKWARD,
               0);
    uint64_t live = base - timeline->loss_bytes - timeline->head_bytes;
    for (size_t i = segments->n; COUNT_DOWN(i);) {
        live -= sum_stored(timeline, segments, &segments->list[i]);
        raise_peak_by_segment(timeline, segments, &segments->list[i], live, &gradients, &peak);
    }
    /* the output of the first reentrant segment exists until the backward pass reaches the network's input */
    uint64_t first_output = recomputes && segments->reentrant ? timeline->blocks[0].output_bytes : 0;
    uint64_t end_bytes = size_add(size_add(timeline->end_bytes, first_output), extra_bytes);
    raise_peak(&peak, size_add(timeline->gradients, end_bytes), BACKWARD_END, 0);
    return peak;
}

uint64_t timeline_extra_work(const struct mem_timeline *timeline, const struct mem_segments *segments)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < segments->n; i++)
        for (uint32_t b = segments->list[i].first;
             segments->list[i].recomputed && b < segments->list[i].first + segments->list[i].blocks; b++)
            sum = size_add(sum, segments->selective ? 0 : timeline->blocks[b].multiply_adds);
    return sum;
}
