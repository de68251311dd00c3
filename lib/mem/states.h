/* states.h - the bytes of parameters, gradients and optimizer states, and those that step() adds. */
#pragma once

#include "mem/model.h"

/* Bytes for each element of a parameter. */
struct mem_bytes {
    uint32_t parameter, gradient, master, state;
};

/* Bytes of all parameters, before ZeRO divides them. */
struct mem_states {
    uint64_t trained_elements, frozen_elements, trained_tensors; /* counts, not bytes */
    uint64_t parameters, master, buffers, gradients, optimizer;
    uint64_t transient; /* what step() allocates, and frees again */
    bool transient_known, transient_exact, optimizer_exact;
    uint64_t largest_parameter;
};

/* mem_bytes_of - returns the bytes for each element of TENSOR in PRECISION. */
struct mem_bytes mem_bytes_of(const struct mem_tensor *tensor, uint32_t precision);
/* mem_states_sum - sets *OUT to the sums of MEM for RUN. CKPT_EUSAGE: the optimizer is not known. */
ckpt_status mem_states_sum(ckpt_mem *mem, const ckpt_mem_run *run, struct mem_states *out, ckpt_error *err);
