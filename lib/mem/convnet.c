/* convnet.c - computes the timeline of a residual network of convolutions. The size of each image follows
 * from that of the image before it. In the backward pass, each operation first allocates gradients and then
 * frees what it used.
 *
 * Conv keeps its input; BatchNorm its input, and mean and 1/std in fp32; ReLU (in place) its output, which is
 * the next Conv's input; MaxPool 8-byte indices. Padding is half of the kernel. The stride of
 * a stage is applied in its first block, by the first convolution there whose kernel is wider than 1. */
#include "mem/states.h"
#include "mem/timeline.h"

#define CONVS_MAX 8
/* The most that a block may keep, so that sums fit into int64_t. A network that keeps more is TOO_LARGE. */
#define PASS_MAX (INT64_MAX / 16)

struct image {
    uint64_t channels, height, width;
};

/* One convolution with the BatchNorm after it. */
struct conv {
    uint64_t nweights, out_bytes;
    uint64_t kept_bytes; /* for BatchNorm: its input and statistics; for the convolution: the cast weight */
    uint64_t multiply_adds;
};

struct convnet {
    ckpt_mem *m;
    uint64_t batch;
    uint64_t activation_bytes, parameter_bytes; /* of one element */
    bool mixed;
    uint32_t precision;
};

/* is_conv - returns true if TENSOR is the convolution NAME of a block, or of the STEM. */
static bool is_conv(const struct mem_tensor *tensor, const char *name, bool stem)
{
    const char *number = strrchr(tensor->rule->name, '#');
    return stem ? !number && strcmp(tensor->rule->name, name) == 0 : number && strcmp(number + 2, name) == 0;
}

/* find_conv - returns the weight NAME of block BLOCK in stage STAGE (0: of the stem), or NULL. */
static const struct mem_tensor *find_conv(const ckpt_mem *mem, const char *name, uint32_t stage,
                                          uint32_t block)
{
    for (size_t i = 0; i < mem->ntensors; i++)
        if (mem->tensors[i].stage == stage && mem->tensors[i].block == block &&
            is_conv(&mem->tensors[i], name, !stage))
            return &mem->tensors[i];
    return NULL;
}

/* convolve - applies the convolution TENSOR with STRIDE to *IMAGE. False: TENSOR does not fit the image. */
static bool convolve(const struct convnet *net, const struct mem_tensor *tensor, uint64_t stride,
                     struct image *image, struct conv *out)
{
    if (tensor->ndim != 4 || tensor->shape[2] != tensor->shape[3] || tensor->shape[2] % 2 == 0 ||
        !tensor->shape[1] || image->channels % tensor->shape[1])
        return false;
    uint64_t inputs_per_output = tensor->elements / tensor->shape[0];
    image->channels = tensor->shape[0];
    image->height = (image->height - 1) / stride + 1; /* padded by half of the kernel, which is odd */
    image->width = (image->width - 1) / stride + 1;
    uint64_t pixels = size_mul(size_mul(net->batch, image->channels), size_mul(image->height, image->width));
    *out = (struct conv){.nweights = tensor->elements,
                         .out_bytes = size_mul(pixels, net->activation_bytes),
                         .multiply_adds = size_mul(pixels, inputs_per_output)};
    out->kept_bytes = size_add(size_add(out->out_bytes, size_mul(8, image->channels)),
                               net->mixed ? size_mul(2, tensor->elements) : 0);
    return true;
}

/* The memory during the backward pass of a block, relative to that before the pass. */
struct pass_memory {
    int64_t live, peak; /* now; at any time so far */
};

/* simulate_op - simulates an operation that allocates ADD bytes and then frees FREE. */
static void simulate_op(struct pass_memory *memory, uint64_t add, uint64_t free)
{
    int64_t with_added = memory->live + (int64_t)add; /* the sum over a block is at most PASS_MAX */
    memory->peak = with_added > memory->peak ? with_added : memory->peak;
    memory->live = with_added - (int64_t)free;
}

/* simulate_conv_backward - simulates the backward pass of convolution CONV, which computes the gradients of
 * its weight and of its input of INPUT bytes. */
static void simulate_conv_backward(struct pass_memory *memory, const struct convnet *net,
                                   const struct conv *conv, uint64_t input)
{
    if (net->mixed) {
        simulate_op(memory, input + 2 * conv->nweights, conv->out_bytes + 2 * conv->nweights);
        simulate_op(memory, 4 * conv->nweights,
                    2 * conv->nweights); /* casts the gradient of the weight to fp32 */
    } else {
        simulate_op(memory, input + net->parameter_bytes * conv->nweights, conv->out_bytes);
    }
}

/* block_backward_peak - returns the most that the backward pass of a block with the convolutions MAIN takes
 * beyond what the block keeps. The gradient of its output is included. */
static uint64_t block_backward_peak(const struct convnet *net, const struct conv *main, size_t nmain,
                                    const struct conv *shortcut, uint64_t input)
{
    struct pass_memory memory = {0};
    uint64_t output = main[nmain - 1].out_bytes;
    memory.live = memory.peak = (int64_t)output;
    simulate_op(&memory, output, 2 * output); /* ReLU frees its output and the gradient of it */
    if (shortcut) {
        simulate_op(&memory, shortcut->out_bytes, shortcut->out_bytes); /* BatchNorm frees its input */
        simulate_conv_backward(&memory, net, shortcut, input);
    }
    for (size_t i = nmain; COUNT_DOWN(i);) {
        /* without a convolution in the shortcut, the gradient of the output is still needed for the sum */
        bool keeps_gradient = i == nmain - 1 && !shortcut;
        simulate_op(&memory, main[i].out_bytes, keeps_gradient ? main[i].out_bytes : 2 * main[i].out_bytes);
        simulate_conv_backward(&memory, net, &main[i], i ? main[i - 1].out_bytes : input);
        if (i)
            simulate_op(&memory, main[i - 1].out_bytes, 2 * main[i - 1].out_bytes);
    }
    simulate_op(&memory, input, 2 * input); /* the sum of both branches */
    return (uint64_t)memory.peak;
}

/* gradient_bytes - returns the bytes of TENSOR's gradient; 0: it has none. */
static uint64_t gradient_bytes(const struct convnet *net, const struct mem_tensor *tensor)
{
    return tensor->is_buffer || tensor->frozen || tensor->tied_to
               ? 0
               : size_mul(mem_bytes_of(tensor, net->precision).gradient, tensor->elements);
}

static uint64_t sum_block_gradients(const struct convnet *net, uint32_t stage, uint32_t block)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < net->m->ntensors; i++) {
        const struct mem_tensor *t = &net->m->tensors[i];
        if (t->rule->part == CONV_BLOCK && t->stage == stage && t->block == block)
            sum = size_add(sum, gradient_bytes(net, t));
    }
    return sum;
}

static ckpt_status refuse_conv(const struct mem_tensor *tensor, ckpt_error *err)
{
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "{%.*s} does not have the shape that the convolution before it leads to",
                STR_ARG(tensor->name));
}

/* fill_block - sets *MEM_BLOCK to block BLOCK of STAGE. *IMAGE is its input image, and becomes its output
 * image. */
static ckpt_status fill_block(const struct convnet *net, uint32_t stage, uint32_t block, struct image *image,
                              struct mem_block *mem_block, ckpt_error *err)
{
    const struct mem_family *f = net->m->family;
    struct conv main[CONVS_MAX], shortcut = {0};
    struct image shortcut_image = *image;
    uint64_t stride = block ? 1 : f->stage_strides[stage - 1], nweights = 0;
    size_t nmain = 0;
    bool stride_done = false, has_shortcut = false;
    mem_block->input_bytes = size_mul(
        size_mul(size_mul(net->batch, image->channels), size_mul(image->height, image->width)),
        net->activation_bytes);
    mem_block->kept_bytes = mem_block->input_bytes;
    for (const struct mem_conv *r = f->convs; r->name; r++) {
        const struct mem_tensor *t = r->role == CONV_STEM ? NULL : find_conv(net->m, r->name, stage, block);
        if (!t)
            continue;
        bool has_stride = r->role == CONV_MAIN && !stride_done && t->ndim == 4 && t->shape[2] > 1;
        struct conv *c = r->role == CONV_MAIN ? &main[nmain] : &shortcut;
        struct image *branch_image = r->role == CONV_MAIN ? image : &shortcut_image;
        uint64_t conv_stride = has_stride || r->role == CONV_SHORTCUT ? stride : 1;
        if (nmain == CONVS_MAX || !convolve(net, t, conv_stride, branch_image, c))
            return refuse_conv(t, err);
        stride_done = stride_done || has_stride;
        has_shortcut = has_shortcut || r->role == CONV_SHORTCUT;
        nmain += r->role == CONV_MAIN;
        uint64_t relu_bytes = r->role == CONV_MAIN ? c->out_bytes : 0;
        mem_block->kept_bytes = size_add(mem_block->kept_bytes, size_add(c->kept_bytes, relu_bytes));
        mem_block->multiply_adds = size_add(mem_block->multiply_adds, c->multiply_adds);
        mem_block->matmul_bytes = size_add(mem_block->matmul_bytes, c->out_bytes);
        nweights = size_add(nweights, c->nweights);
        mem_block->copy_bytes = size_add(mem_block->copy_bytes, net->mixed ? size_mul(2, c->nweights) : 0);
    }
    if (!nmain || memcmp(&shortcut_image, image, sizeof *image) != 0)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "in block %u of stage %u the shortcut and what is added to it differ in size", block,
                    stage);
    mem_block->output_bytes = main[nmain - 1].out_bytes;
    mem_block->gradient_bytes = sum_block_gradients(net, stage, block);
    if (size_add(mem_block->kept_bytes, size_mul(16, nweights)) > PASS_MAX)
        mem_block->kept_bytes = TOO_LARGE;
    else
        mem_block->backward_bytes = block_backward_peak(net, main, nmain, has_shortcut ? &shortcut : NULL,
                                                        mem_block->input_bytes);
    return CKPT_OK;
}

/* fill_stem - adds the layers before the blocks to TIMELINE. *IMAGE becomes the output of the last,
 * MaxPool. */
static ckpt_status fill_stem(const struct convnet *net, struct image *image, struct mem_timeline *timeline,
                             ckpt_error *err)
{
    const struct mem_conv *r = net->m->family->convs;
    const struct mem_tensor *weight = find_conv(net->m, r->name, 0, 0);
    struct conv c;
    struct pass_memory memory = {0};
    if (!weight || !convolve(net, weight, r->stride, image, &c))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s is not the first convolution of %s", r->name,
                    net->m->family->title);
    image->height = (image->height - 1) / 2 + 1; /* MaxPool: kernel 3, stride 2, padding 1 */
    image->width = (image->width - 1) / 2 + 1;
    uint64_t pooled = size_mul(size_mul(net->batch, image->channels), size_mul(image->height, image->width));
    uint64_t indices = size_mul(8, pooled), output = size_mul(pooled, net->activation_bytes);
    timeline->input_bytes = size_add(timeline->input_bytes,
                                     size_add(size_add(c.kept_bytes, c.out_bytes), indices));
    timeline->multiply_adds = size_add(timeline->multiply_adds, c.multiply_adds);
    if (size_add(timeline->input_bytes, size_mul(16, c.nweights)) > PASS_MAX) {
        timeline->input_bytes = TOO_LARGE;
        return CKPT_OK;
    }
    memory.live = memory.peak = (int64_t)output; /* the gradient of MaxPool's output */
    simulate_op(&memory, c.out_bytes, output + indices);
    simulate_op(&memory, c.out_bytes, 2 * c.out_bytes); /* ReLU */
    simulate_op(&memory, c.out_bytes, 2 * c.out_bytes); /* BatchNorm */
    simulate_conv_backward(&memory, net, &c, 0);
    uint64_t gradient = size_mul(net->parameter_bytes, c.nweights); /* timeline->gradients has it already */
    uint64_t end_bytes = (uint64_t)memory.peak + timeline->input_bytes;
    timeline->end_bytes = end_bytes > gradient ? end_bytes - gradient : 0;
    return CKPT_OK;
}

/* count_blocks - returns how many blocks stage STAGE has, counted from block 0 without a gap. */
static uint32_t count_blocks(const ckpt_mem *mem, uint32_t stage)
{
    uint32_t n = 0;
    for (const struct mem_conv *r = mem->family->convs; r->name; r++)
        while (r->role == CONV_MAIN && find_conv(mem, r->name, stage, n))
            n++;
    return n;
}

/* check_stages - refuses a network that has more blocks than the COUNT that count_blocks found. */
static ckpt_status check_stages(const ckpt_mem *mem, uint32_t count, ckpt_error *err)
{
    uint32_t all = 0;
    const char *first_conv = mem->family->convs[1].name; /* of each block, after the stem's */
    for (size_t i = 0; i < mem->ntensors; i++)
        all += is_conv(&mem->tensors[i], first_conv, false);
    if (all == count && count <= BLOCKS_MAX)
        return CKPT_OK;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "{%u} blocks, of which {=%u} are in the stages of %s, from 0 on", all, count,
                mem->family->title);
}

/* name_block - names block INDEX of the network, which is block BLOCK of stage STAGE, as Python does. */
static bool name_block(ckpt_mem *mem, uint32_t index, uint32_t stage, uint32_t block)
{
    mem->block_names[index] = arena_printf(mem->a, "layer%u[%u]", stage, block).ptr;
    return mem->block_names[index] != NULL;
}

/* add_head - adds the head to TIMELINE, and sums up the gradients of all parameters. */
static void add_head(const struct convnet *net, const struct letters *dims, struct mem_timeline *timeline)
{
    uint64_t head = size_mul(letter_get(dims, 'h'), letter_get(dims, 'C'));
    timeline->head_bytes = size_add(timeline->head_bytes, net->mixed ? size_mul(2, head) : 0);
    timeline->multiply_adds = size_mul(net->batch, head);
    for (size_t i = 0; i < net->m->ntensors; i++) {
        const struct mem_tensor *tensor = &net->m->tensors[i];
        uint64_t gradient = gradient_bytes(net, tensor);
        timeline->gradients = size_add(timeline->gradients, gradient);
        timeline->head_gradient = size_add(timeline->head_gradient,
                                           tensor->rule->part == HEAD ? gradient : 0);
    }
}

ckpt_status convnet_timeline(ckpt_mem *mem, const struct letters *dims, uint32_t state, uint32_t precision,
                             struct mem_timeline *out, arena *a, ckpt_error *err)
{
    struct convnet net = {.m = mem,
                          .batch = letter_get(dims, 'B'),
                          .activation_bytes = letter_get(dims, 'c'),
                          .parameter_bytes = letter_get(dims, 'e'),
                          .mixed = state & MIXED,
                          .precision = precision};
    struct image image = {3, letter_get(dims, 'H'), letter_get(dims, 'W')};
    uint32_t stages = 0, i = 0;
    *out = (struct mem_timeline){0};
    fill_outside(mem->family, dims, state, out);
    add_head(&net, dims, out);
    CKPT_TRY(fill_stem(&net, &image, out, err));
    while (mem->family->stage_strides[stages])
        out->n += count_blocks(mem, ++stages);
    CKPT_TRY(check_stages(mem, out->n, err));
    out->blocks = arena_array(a, out->n, sizeof *out->blocks);
    bool named = mem->block_names != NULL;
    mem->block_names = named ? mem->block_names : arena_array(mem->a, out->n, sizeof *mem->block_names);
    CKPT_TRY_ALLOC(out->blocks && mem->block_names, err);
    for (uint32_t s = 1; s <= stages; s++)
        for (uint32_t b = 0, end = count_blocks(mem, s); b < end; b++, i++) {
            CKPT_TRY(fill_block(&net, s, b, &image, &out->blocks[i], err));
            if (!named && !name_block(mem, i, s, b))
                return fail_memory(err);
            out->multiply_adds = size_add(out->multiply_adds, out->blocks[i].multiply_adds);
        }
    for (i = 0; i < out->n; i++) {
        if (out->blocks[i].kept_bytes == TOO_LARGE)
            out->input_bytes = TOO_LARGE;
        if (i + 1 == out->n)
            break;
        /* the output is counted as input of the next block, and still exists in this block's backward pass */
        out->blocks[i].kept_bytes -= out->blocks[i].output_bytes;
        out->blocks[i].backward_bytes += out->blocks[i].output_bytes;
    }
    mem->nblocks = out->n;
    if (image.channels != letter_get(dims, 'h'))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the last block has {%llu} channels, the head takes {=%llu}",
                    (unsigned long long)image.channels, (unsigned long long)letter_get(dims, 'h'));
    return CKPT_OK;
}
