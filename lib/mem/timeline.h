/* timeline.h - one training step as a sequence of moments: what each block keeps, and what exists at each
 * moment in addition. The peak for any choice of segments is computed from it. */
#pragma once

#include "mem/model.h"

struct mem_block {
    uint64_t kept_bytes;     /* all that it keeps, with its input and the cast copies of its weights */
    uint64_t input_bytes;    /* its input alone: all that is kept of a recomputed segment that begins here */
    uint64_t output_bytes;   /* its output, which a reentrant segment keeps */
    uint64_t copy_bytes;     /* cast copies of weights, which autocast caches until the forward pass ends */
    uint64_t gradient_bytes; /* of its parameters */
    uint64_t backward_bytes; /* the most that its backward pass needs beyond what it keeps */
    uint64_t multiply_adds;  /* of its forward pass */
    uint64_t matmul_bytes;   /* results of its matrix products and attention, for selective checkpointing */
};

struct mem_timeline {
    struct mem_block *blocks;
    uint32_t n;
    uint64_t input_bytes, head_bytes, loss_bytes; /* kept by INPUT, HEAD and LOSS */
    uint64_t checkpoint_bytes; /* kept in addition if a segment is recomputed: the loss, positions, masks */
    uint64_t moment_bytes[MEM_MOMENTS]; /* existing besides; HELD counts only if no segment is recomputed */
    uint64_t head_gradient, gradients;  /* bytes for the parameters of the head; for all parameters */
    uint64_t end_bytes;     /* the most that exists besides GRADIENTS at the end of the backward pass */
    uint64_t multiply_adds; /* of a forward pass */
};

/* The peak, and the moment at which it is. */
struct mem_peak {
    uint64_t bytes;
    enum mem_moment moment;
    uint32_t block;
};

/* How the blocks are cut into segments, and how these are recomputed. */
struct mem_segments {
    const ckpt_mem_segment *list;
    size_t n;
    bool reentrant, selective;
};

/* transformer_timeline, convnet_timeline - set *OUT to the timeline of MEM with the sizes DIMS and the
 * conditions STATE of a run. The blocks are allocated in A. */
ckpt_status transformer_timeline(const ckpt_mem *mem, const struct letters *dims, uint32_t state,
                                 uint32_t precision, struct mem_timeline *out, arena *a, ckpt_error *err);
ckpt_status convnet_timeline(ckpt_mem *mem, const struct letters *dims, uint32_t state, uint32_t precision,
                             struct mem_timeline *out, arena *a, ckpt_error *err);
/* usage_sum - returns the bytes of the rows of LIST for one part or moment. */
uint64_t usage_sum(const struct mem_usage *list, unsigned part_or_moment, const struct letters *dims,
                   uint32_t state);
/* fill_outside - sets in *TIMELINE what family FAMILY keeps outside of blocks and has at each moment. */
void fill_outside(const struct mem_family *family, const struct letters *dims, uint32_t state,
                  struct mem_timeline *timeline);
/* timeline_kept_bytes - returns the bytes that are kept for the backward pass. */
uint64_t timeline_kept_bytes(const struct mem_timeline *timeline, const struct mem_segments *segments);
/* timeline_peak - returns the peak over all moments, with gradients. */
struct mem_peak timeline_peak(const struct mem_timeline *timeline, const struct mem_segments *segments);
/* timeline_extra_work - returns the multiply-adds that recomputing does again. */
uint64_t timeline_extra_work(const struct mem_timeline *timeline, const struct mem_segments *segments);
