/* states.c - sums up parameters, gradients and optimizer states. */
#include "mem/states.h"

enum state_kind {
    STATE_LIKE_PARAMETER, /* the parameter's shape and dtype */
    STATE_OF_MUON,        /* the same for a matrix; other parameters are trained by AdamW, with two states */
    STATE_FACTORED,       /* for a matrix one number for each row and one for each column */
    STATE_8_BITS          /* bytes, with an fp32 scale for each 256; below 4096 elements, fp32 instead */
};

enum step_kind {
    STEP_UNKNOWN,
    STEP_NO_TEMPORARY,
    STEP_FOREACH,       /* a copy of all gradients */
    STEP_ONE_TEMPORARY, /* one tensor after the other; a temporary lives until the next one replaces it */
    STEP_TWO_TEMPORARIES
};

static const struct optimizer {
    const char *name;
    uint32_t states;
    enum state_kind kind;
    bool has_device_step; /* its `step` is on the device, 4 bytes a tensor */
    enum step_kind step;
} optimizers[] = {
#define OPTIMIZER(name, states, kind, device_step, step) {name, states, kind, device_step, step},
#include "mem/optimizers.def"
#undef OPTIMIZER
};

const char *ckpt_mem_optimizer_at(size_t index)
{
    return index < sizeof optimizers / sizeof *optimizers ? optimizers[index].name : NULL;
}

static const struct optimizer *find_optimizer(const char *name)
{
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (strcmp(optimizers[i].name, name) == 0)
            return &optimizers[i];
    return NULL;
}

struct mem_bytes mem_bytes_of(const struct mem_tensor *tensor, uint32_t precision)
{
    switch (precision) { /* parameter, gradient, master copy, optimizer state */
    case CKPT_MEM_FP32:
    case CKPT_MEM_BF16_MIXED: return (struct mem_bytes){4, 4, 0, 4};
    case CKPT_MEM_BF16: return (struct mem_bytes){2, 2, 0, 2};
    case CKPT_MEM_FP16_MASTER: return (struct mem_bytes){2, 2, 4, 4};
    default: return (struct mem_bytes){tensor->item_bytes, tensor->item_bytes, 0, tensor->item_bytes};
    }
}

/* state_bytes - returns the bytes of the states that OPTIMIZER keeps for TENSOR: ITEM_BYTES for each
 * number. */
static uint64_t state_bytes(const struct optimizer *optimizer, const struct mem_tensor *tensor,
                            uint32_t item_bytes)
{
    uint64_t n = tensor->elements, step_bytes = optimizer->has_device_step ? 4 : 0;
    if (optimizer->kind == STATE_FACTORED && tensor->ndim > 1) {
        uint64_t columns = tensor->shape[tensor->ndim - 1], rows = tensor->shape[tensor->ndim - 2];
        n = size_add(columns ? n / columns : 0, rows ? n / rows : 0);
    }
    if (optimizer->kind == STATE_OF_MUON && tensor->ndim != 2)
        n = size_mul(2, n);
    if (optimizer->kind == STATE_8_BITS)
        return n < 4096 ? size_mul(4 * optimizer->states, n)
                        : size_mul(optimizer->states, size_add(n, size_mul(4, n / 256 + (n % 256 != 0))));
    return size_add(size_mul(size_mul(optimizer->states, item_bytes), n), step_bytes);
}

/* step_temporaries - returns the bytes of the temporaries while step() updates a tensor: each has BYTES, and
 * one of the tensor before it, of BEFORE bytes, is not freed yet. */
static uint64_t step_temporaries(enum step_kind step, uint64_t bytes, uint64_t before)
{
    if (step == STEP_TWO_TEMPORARIES)
        return size_add(size_mul(2, bytes), before);
    return step == STEP_ONE_TEMPORARY ? size_add(bytes, before) : 0;
}

/* add_parameter - adds TENSOR. *BYTES_BEFORE: the temporary of the previous trained tensor; becomes that of
 * TENSOR. */
static void add_parameter(const struct mem_tensor *tensor, const struct optimizer *optimizer,
                          uint32_t precision, struct mem_states *states, uint64_t *bytes_before)
{
    struct mem_bytes bytes = mem_bytes_of(tensor, precision);
    uint64_t parameter_bytes = size_mul(bytes.parameter, tensor->elements);
    uint64_t temporary_bytes = size_mul(bytes.state, tensor->elements);
    states->parameters = size_add(states->parameters, parameter_bytes);
    states->largest_parameter = parameter_bytes > states->largest_parameter ? parameter_bytes
                                                                            : states->largest_parameter;
    if (tensor->frozen) {
        states->frozen_elements = size_add(states->frozen_elements, tensor->elements);
        return;
    }
    states->trained_elements = size_add(states->trained_elements, tensor->elements);
    states->trained_tensors++;
    states->master = size_add(states->master, size_mul(bytes.master, tensor->elements));
    states->gradients = size_add(states->gradients, size_mul(bytes.gradient, tensor->elements));
    if (!optimizer)
        return;
    states->optimizer = size_add(states->optimizer, state_bytes(optimizer, tensor, bytes.state));
    uint64_t live_bytes = step_temporaries(optimizer->step, temporary_bytes, *bytes_before);
    states->transient = optimizer->step == STEP_FOREACH  ? size_add(states->transient, temporary_bytes)
                        : live_bytes > states->transient ? live_bytes
                                                         : states->transient;
    *bytes_before = temporary_bytes;
}

/* add_buffer - adds TENSOR as Module.to(dtype) converts it: integers keep their dtype. */
static void add_buffer(const struct mem_tensor *tensor, uint32_t precision, struct mem_states *states)
{
    uint32_t item_bytes = tensor->is_integer ? tensor->item_bytes : mem_bytes_of(tensor, precision).parameter;
    states->buffers = size_add(states->buffers, size_mul(item_bytes, tensor->elements));
}

ckpt_status mem_states_sum(ckpt_mem *mem, const ckpt_mem_run *run, struct mem_states *out, ckpt_error *err)
{
    bool uses_file_optimizer = !run->optimizer && mem->file_optimizer.title.len;
    const char *name = run->optimizer ? run->optimizer : "adamw-foreach";
    const struct optimizer *optimizer = find_optimizer(name);
    uint64_t bytes_before = 0;
    *out = (struct mem_states){0};
    if (!optimizer)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "no optimizer is called {%s}", name);
    for (size_t i = 0; i < mem->ntensors; i++) {
        const struct mem_tensor *t = &mem->tensors[i];
        if (t->tied_to)
            continue;
        if (t->is_buffer)
            add_buffer(t, run->precision, out);
        else
            add_parameter(t, uses_file_optimizer ? NULL : optimizer, run->precision, out, &bytes_before);
    }
    bool by_tensor = !uses_file_optimizer &&
                     (optimizer->step == STEP_ONE_TEMPORARY || optimizer->step == STEP_TWO_TEMPORARIES);
    out->optimizer = uses_file_optimizer ? mem->file_optimizer.bytes : out->optimizer;
    out->optimizer_exact = uses_file_optimizer
                               ? run->precision == CKPT_MEM_AS_STORED && !out->frozen_elements
                               : optimizer->kind != STATE_8_BITS && optimizer->kind != STATE_OF_MUON;
    out->transient_known = !uses_file_optimizer && optimizer->step != STEP_UNKNOWN;
    out->transient_exact = out->transient_known && (mem->in_parameter_order || !by_tensor);
    return CKPT_OK;
}
