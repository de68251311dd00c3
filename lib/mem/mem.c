/* mem.c - implements ckpt_mem_… of ckpt.h: estimates the memory that training a network takes, and finds a
 * plan of activation checkpointing for a given amount of memory. */
#include <math.h>
#include <stdlib.h>

#include "base/sized.h"
#include "core/file.h"
#include "mem/plan.h"
#include "mem/states.h"

#define ARENA_MAX (1u << 30) /* bytes */

void ckpt_mem_free(ckpt_mem *mem)
{
    if (!mem)
        return;
    arena_free(mem->notes);
    arena_free(mem->a);
    free(mem);
}

/* freeze - freezes the parameters that match GLOB. Refuses a GLOB that matches none. */
static ckpt_status freeze(ckpt_mem *mem, const char *glob, ckpt_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < mem->ntensors; i++) {
        struct mem_tensor *t = &mem->tensors[i];
        if (t->is_buffer || !ckpt_glob_match(str_c(glob), t->name))
            continue;
        (t->tied_to ? t->tied_to : t)->frozen = true;
        n++;
    }
    return n ? CKPT_OK : fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no parameter matches {%s}", glob);
}

/* name_blocks - sets the names that the blocks of a known family have in Python. */
static ckpt_status name_blocks(ckpt_mem *mem, ckpt_error *err)
{
    if (!mem->family || mem->family->is_convnet || mem->refusal.len)
        return CKPT_OK;
    mem->block_names = arena_array(mem->a, mem->nblocks, sizeof *mem->block_names);
    for (uint32_t i = 0; mem->block_names && i < mem->nblocks; i++) {
        mem->block_names[i] = arena_printf(mem->a, "%s[%u]", mem->family->blocks, i).ptr;
        CKPT_TRY_ALLOC(mem->block_names[i], err);
    }
    return mem->block_names ? CKPT_OK : fail_memory(err);
}

static ckpt_status fill_model(ckpt_mem *mem, ckpt_file *file, const ckpt_mem_options *opts, ckpt_error *err)
{
    if (opts->config) {
        ckpt_str path = arena_str(mem->a, str_c(opts->config));
        CKPT_TRY_ALLOC(path.ptr, err);
        ckpt_status st = config_read(&mem->config, path.ptr, mem->a, err);
        if (st != CKPT_OK && file)
            error_add_hint(err, MEM_CONFIG_HINT);
        CKPT_TRY(st);
    }
    if (file) {
        CKPT_TRY(mem_collect(mem, file, opts->root, err));
        CKPT_TRY(mem_recognize(mem, err));
    } else {
        CKPT_TRY(mem_from_config(mem, err));
    }
    for (size_t i = 0; i < opts->nfrozen; i++)
        CKPT_TRY(freeze(mem, opts->frozen[i], err));
    return name_blocks(mem, err);
}

ckpt_status ckpt_mem_new(ckpt_file *file, const ckpt_mem_options *opts, ckpt_mem **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_mem_options o;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, (file || o.config) && has_no_null(o.frozen, o.nfrozen));
    ckpt_mem *m = calloc(1, sizeof *m);
    CKPT_TRY_ALLOC(m, err);
    m->a = arena_new(ARENA_MAX);
    m->notes = arena_new(ARENA_MAX);
    ckpt_status st = m->a && m->notes ? fill_model(m, file, &o, err) : fail_memory(err);
    if (st == CKPT_OK)
        *out = m;
    else
        ckpt_mem_free(m);
    return file ? name_file_if_failed(st, file->path, err) : st;
}

const char *ckpt_mem_assumed_at(const ckpt_mem *mem, size_t index)
{
    return mem ? notices_at(&mem->assumed, index) : NULL;
}
const char *ckpt_mem_unknown_at(const ckpt_mem *mem, size_t index)
{
    return mem ? notices_at(&mem->unknown, index) : NULL;
}
const char *ckpt_mem_block_name(const ckpt_mem *mem, uint32_t index)
{
    return mem && mem->block_names && index < mem->nblocks ? mem->block_names[index] : NULL;
}
bool ckpt_mem_group_at(const ckpt_mem *mem, size_t index, ckpt_mem_group *out)
{
    bool exists = mem && out && index < mem->file_optimizer.ngroups;
    if (out)
        *out = exists ? mem->file_optimizer.groups[index] : (ckpt_mem_group){0};
    return exists;
}

/* ---- a run */

struct estimate {
    ckpt_mem *m;
    ckpt_mem_run run;
    struct mem_states states;
    struct letters dims;
    uint32_t state; /* the conditions of family.h that hold for the run */
    struct mem_timeline t;
    uint64_t gathered_bytes; /* bytes of the parameters that ZeRO 3 has gathered at one time */
    ckpt_mem_result *out;
};

/* stored_item_bytes - returns the bytes of an element of all parameters, or 0 if they differ. */
static uint32_t stored_item_bytes(const ckpt_mem *mem)
{
    uint32_t item_bytes = 0;
    for (size_t i = 0; i < mem->ntensors; i++) {
        const struct mem_tensor *t = &mem->tensors[i];
        if (t->is_buffer || t->tied_to)
            continue;
        if (item_bytes && item_bytes != t->item_bytes)
            return 0;
        item_bytes = t->item_bytes;
    }
    return item_bytes;
}

/* fail_with_option - fails with the message WHAT and the hint to use OPTION. */
static ckpt_status fail_with_option(ckpt_error *err, const char *option, const char *what)
{
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%s\nuse %s", what, option);
}

/* set_precision - sets the conditions and sizes that follow from the precision of the run. */
static ckpt_status set_precision(struct estimate *est, ckpt_error *err)
{
    uint32_t precision = est->run.precision,
             item_bytes = precision == CKPT_MEM_AS_STORED ? stored_item_bytes(est->m) : 4;
    if (item_bytes != 2 && item_bytes != 4)
        return fail_with_option(
            err, "--precision fp32, bf16, bf16-mixed or fp16-master",
            "the parameters are not all of 2 or all of 4 bytes: a precision has to be given");
    bool half = precision == CKPT_MEM_BF16 || precision == CKPT_MEM_FP16_MASTER || item_bytes == 2,
         mixed = precision == CKPT_MEM_BF16_MIXED;
    est->state |= mixed ? MIXED : half ? HALF : FP32;
    letter_set(&est->dims, 'c', mixed || half ? 2 : 4);
    letter_set(&est->dims, 'r', half ? 2 : 4);
    letter_set(&est->dims, 'e', half ? 2 : 4);
    return CKPT_OK;
}

/* set_image_size - sets the size of an image: that of the run, or a square with a position for each patch. */
static ckpt_status set_image_size(struct estimate *est, ckpt_error *err)
{
    struct letters *letters = &est->dims;
    uint64_t h = est->run.height, w = est->run.width, p = letter_get(letters, 'p'),
             n = letter_get(letters, 'n');
    if (!h && n > 1) {
        uint64_t side = (uint64_t)sqrt((double)(n - 1));
        if (side * side != n - 1)
            return fail_with_option(
                err, "--image HEIGHTxWIDTH",
                "the position embedding is not of a square image: an image size has to be given");
        h = w = size_mul(side, p);
        notices_add(&est->m->assumed, "images of %llux%llu: from the position embedding",
                    (unsigned long long)h, (unsigned long long)w);
    }
    if (!h || !w)
        return fail_with_option(err, "--image HEIGHTxWIDTH",
                                "the size of the images is in no file: it has to be given");
    letter_set(letters, 'H', h);
    letter_set(letters, 'W', w);
    letter_set(letters, 'I', size_mul(size_mul(3, est->run.batch), size_mul(h, w)));
    if (est->m->family->is_convnet)
        return CKPT_OK;
    uint64_t s = size_add(size_mul(p ? h / p : 0, p ? w / p : 0), 1);
    letter_set(letters, 'S', s);
    if (p && (h % p || w % p))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "images of %llux%llu cannot be divided into patches of %llux%llu", (unsigned long long)h,
                    (unsigned long long)w, (unsigned long long)p, (unsigned long long)p);
    if (s != n)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "images of %llux%llu need {%llu} positions, one for each patch and one for the "
                    "class token; the position embedding has {=%llu}",
                    (unsigned long long)h, (unsigned long long)w, (unsigned long long)s,
                    (unsigned long long)n);
    return CKPT_OK;
}

/* check_window - refuses a sequence longer than the sliding window: attention needs a different kernel. */
static ckpt_status check_window(const ckpt_mem *mem, uint64_t number, ckpt_error *err)
{
    uint64_t window;
    for (const struct mem_config_rule *r = mem->family->config; r && r->keys; r++) {
        const struct model_config_entry *e = r->kind == CONFIG_WINDOW ? config_get(&mem->config, r->keys)
                                                                      : NULL;
        const struct model_config_entry *use = config_get(&mem->config, "use_sliding_window");
        if (e && str_uint(e->text, &window) && number > window && !(use && use->type == CONFIG_FALSE))
            return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                        "a sequence of {%llu} is longer than the sliding window ({=%llu}): the memory of "
                        "attention with its mask is not known",
                        (unsigned long long)number, (unsigned long long)window);
    }
    return CKPT_OK;
}

static ckpt_status set_sequence(struct estimate *est, ckpt_error *err)
{
    uint64_t s = est->run.seq, n = letter_get(&est->dims, 'n');
    if (!s)
        return fail_with_option(err, "--seq N", "a sequence length has to be given with a batch");
    if (letter_known(&est->dims, 'n') && s > n)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "a sequence of {%llu} is longer than the {=%llu} positions of the network",
                    (unsigned long long)s, (unsigned long long)n);
    letter_set(&est->dims, 'S', s);
    return check_window(est->m, s, err);
}

/* usual_head_width - returns the usual width of a head: 128 in large networks and in those with grouped
 * queries, if it divides the width of all keys, else 64. */
static uint64_t usual_head_width(const struct letters *letters)
{
    bool grouped = letter_get(letters, 'A') != letter_get(letters, 'K'),
         large = letter_get(letters, 'h') >= 4096;
    return (grouped || large) && letter_get(letters, 'K') % 128 == 0 ? 128 : 64;
}

/* choose_heads - sets the number of heads: the one that the user gave, or the usual one. Only with eager
 * attention does the memory depend much on that number. */
static ckpt_status choose_heads(struct estimate *est, ckpt_error *err)
{
    struct letters *letters = &est->dims;
    uint64_t a = letter_get(letters, 'A'), heads = est->run.heads,
             d = heads ? a / heads : usual_head_width(letters);
    bool fits = d && a % d == 0 && letter_get(letters, 'K') % d == 0 && (!heads || a / d == heads);
    if (heads && !fits)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "queries of width %llu cannot be split into {%llu} heads", (unsigned long long)a,
                    (unsigned long long)heads);
    if (!heads && (!fits || est->run.attention == CKPT_MEM_EAGER))
        return fail_with_option(err, "--heads N, or a config.json",
                                fits ? "the number of heads is in no file, and eager attention needs it"
                                     : "the number of heads is in no file: it has to be given");
    letter_set(letters, 'd', d);
    letter_set(letters, 'a', a / d);
    letter_set(letters, 'k', letter_get(letters, 'K') / d);
    if (!heads)
        notices_add(&est->m->assumed, "heads of %llu: not in the file; matters for less than 0.5 %% here",
                    (unsigned long long)d);
    return CKPT_OK;
}

/* set_heads - sets the number of heads, and the width of the keys as the kernel takes them. */
static ckpt_status set_heads(struct estimate *est, ckpt_error *err)
{
    uint64_t known_heads = letter_get(&est->dims, 'a');
    if (est->run.heads && known_heads && est->run.heads != known_heads)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "{%llu} heads are given, the file or its config has {=%llu}",
                    (unsigned long long)est->run.heads, (unsigned long long)known_heads);
    if (!known_heads)
        CKPT_TRY(choose_heads(est, err));
    bool repeats_keys = est->run.attention == CKPT_MEM_EAGER || (est->state & FP32);
    letter_set(&est->dims, 'G', letter_get(&est->dims, repeats_keys ? 'A' : 'K'));
    return CKPT_OK;
}

/* set_dropout - sets the conditions of dropout from the run, the config, or the default of the family. */
static void set_dropout(struct estimate *est)
{
    uint32_t on = ATTENTION_DROPOUT | RESIDUAL_DROPOUT | EMBEDDING_DROPOUT;
    if (!est->m->family->has_dropout)
        return;
    if (est->run.dropout != CKPT_MEM_DROPOUT_CONFIG) {
        est->state &= ~(on | on << 1); /* NO_…_DROPOUT is the bit after …_DROPOUT */
        est->state |= est->run.dropout == CKPT_MEM_DROPOUT_ON ? on : on << 1;
    } else if (!est->m->config.path) {
        notices_add(&est->m->assumed, "dropout above 0: not in the file; usual for %s",
                    est->m->family->title);
    }
}

/* set_activation - chooses gelu_new if the family has two activations and the config gives none. */
static void set_activation(struct estimate *est)
{
    if (est->state & (GELU_WRITTEN_OUT | GELU_FUSED))
        return;
    est->state |= GELU_WRITTEN_OUT;
    if (!est->m->family->is_convnet)
        notices_add(&est->m->assumed, "activation gelu_new: not in the file; usual for %s",
                    est->m->family->title);
}

static ckpt_status check_options(const struct mem_family *family, const ckpt_mem_run *run, ckpt_error *err)
{
    if (family->takes_images && run->seq)
        return fail_with_option(err, "--image HEIGHTxWIDTH", "the network takes images, not sequences");
    if (!family->takes_images && (run->height || run->width))
        return fail_with_option(err, "--seq N", "the network takes sequences, not images");
    if (family->is_convnet && (run->heads || run->attention == CKPT_MEM_EAGER))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "%s has no attention", family->title);
    if (!family->has_dropout && run->dropout == CKPT_MEM_DROPOUT_ON)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s is not estimated with dropout",
                    family->title);
    return CKPT_OK;
}

static ckpt_status apply_run(struct estimate *est, ckpt_error *err)
{
    struct letters *letters = &est->dims;
    est->dims = est->m->dims;
    est->state = est->m->conditions | NOT_CHECKPOINTED;
    CKPT_TRY(check_options(est->m->family, &est->run, err));
    CKPT_TRY(set_precision(est, err));
    letter_set(letters, 'B', est->run.batch);
    letter_set(letters, 'S', 1);
    CKPT_TRY(est->m->family->takes_images ? set_image_size(est, err) : set_sequence(est, err));
    uint64_t s = letter_get(letters, 'S');
    letter_set(letters, 'T', size_mul(est->run.batch, s));
    letter_set(letters, 'U', s > UINT32_MAX ? TOO_LARGE : (s + 31) / 32 * 32);
    est->state |= est->run.batch == 1 ? ONE_SEQUENCE : SEQUENCES;
    est->state |= est->run.attention == CKPT_MEM_EAGER ? EAGER : SDPA;
    set_dropout(est);
    set_activation(est);
    if (est->m->family->is_convnet)
        return CKPT_OK;
    CKPT_TRY(set_heads(est, err));
    letter_set(letters, 'P', size_mul(size_mul(est->run.batch, letter_get(letters, 'a')), size_mul(s, s)));
    return CKPT_OK;
}

/* ---- segments */

/* cut_blocks - cuts COUNT blocks into INDEX segments as checkpoint_sequential does. Returns INDEX. */
static size_t cut_blocks(ckpt_mem_segment *list, uint32_t count, uint32_t index, bool keep_last)
{
    for (uint32_t i = 0; i < index; i++) {
        uint32_t first = i * (count / index), end = i + 1 == index ? count : first + count / index;
        list[i] = (ckpt_mem_segment){
            .first = first, .blocks = end - first, .recomputed = !(keep_last && i + 1 == index)};
    }
    return index;
}

static ckpt_status make_segments(struct estimate *est, struct mem_segments *out, ckpt_error *err)
{
    uint32_t n = est->t.n, k = est->run.segments, how = est->run.checkpoint;
    ckpt_mem_segment *list = arena_array(est->m->notes, (uint64_t)n + 1, sizeof *list);
    CKPT_TRY_ALLOC(list, err);
    *out = (struct mem_segments){
        .list = list, .reentrant = how == CKPT_MEM_BLOCK_REENTRANT, .selective = how == CKPT_MEM_SELECTIVE};
    if (how == CKPT_MEM_PLAN) {
        CKPT_REQUIRE(err, est->m->plan.list); /* ckpt_mem_plan must have been called */
        out->list = est->m->plan.list;
        out->n = est->m->plan.n;
        return CKPT_OK;
    }
    if (how == CKPT_MEM_KEEP_ALL) {
        list[0].blocks = n;
        out->n = 1;
        return CKPT_OK;
    }
    if (how == CKPT_MEM_SQRT)
        k = (uint32_t)(sqrt((double)n) + 0.5);
    if (how == CKPT_MEM_BLOCK || how == CKPT_MEM_BLOCK_REENTRANT || how == CKPT_MEM_SELECTIVE)
        k = n;
    if (!k || k > n)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "{%u} segments cannot be made of {=%u} blocks", k, n);
    out->n = cut_blocks(list, n, k, how == CKPT_MEM_SEQUENTIAL);
    return CKPT_OK;
}

/* ---- results */

/* divide - returns the bytes of one of RANKS ranks. */
static uint64_t divide(uint64_t bytes, uint32_t ranks) { return bytes / ranks + (bytes % ranks != 0); }

static void set_amount(ckpt_mem_amount *out, uint64_t bytes, bool exact)
{
    *out = (ckpt_mem_amount){.bytes = bytes, .known = 1, .exact = exact};
}

/* fill_states - fills in parameters, gradients and optimizer states, divided as ZeRO divides them. */
static void fill_states(struct estimate *est)
{
    static const char *const precisions[] = {"as stored", "fp32", "bf16", "bf16-mixed", "fp16-master"};
    const struct mem_states *s = &est->states;
    ckpt_mem_result *r = est->out;
    uint32_t n = est->run.ranks ? est->run.ranks : 1, stage = est->run.zero;
    bool exact = !stage || n == 1;
    uint64_t parameters = stage == 3 ? divide(s->parameters, n) : s->parameters;
    set_amount(&r->parameters, size_add(parameters, stage ? divide(s->master, n) : s->master),
               exact || (stage < 3 && !s->master));
    set_amount(&r->buffers, s->buffers, true);
    set_amount(&r->gradients, stage >= 2 ? divide(s->gradients, n) : s->gradients, exact || stage < 2);
    set_amount(&r->optimizer_states, stage ? divide(s->optimizer, n) : s->optimizer,
               exact && s->optimizer_exact);
    if (s->transient_known)
        set_amount(&r->step_transient, stage ? divide(s->transient, n) : s->transient,
                   exact && s->transient_exact);
    r->trained = s->trained_elements;
    r->frozen = s->frozen_elements;
    r->tensors = s->trained_tensors;
    bool uses_file_optimizer = !est->run.optimizer && est->m->file_optimizer.title.len;
    r->optimizer = uses_file_optimizer  ? est->m->file_optimizer.title.ptr
                   : est->run.optimizer ? est->run.optimizer
                                        : "adamw-foreach";
    r->precision = precisions[est->run.precision];
}

/* is_type_assumed - returns true if the family has model_types, but no config gives one. */
static bool is_type_assumed(const ckpt_mem *mem)
{
    return mem->family && mem->family->model_types[0] && !mem->has_model_type;
}

/* note_states - adds the notices about what was assumed, and about what is not known. */
static void note_states(struct estimate *est)
{
    ckpt_mem *m = est->m;
    bool uses_file_optimizer = !est->run.optimizer && m->file_optimizer.title.len;
    if (!est->run.optimizer && !uses_file_optimizer)
        notices_add(&m->assumed, "optimizer adamw-foreach: what torch.optim.AdamW does on a GPU");
    if (est->run.optimizer &&
        (strcmp(est->run.optimizer, "adamw") == 0 || strcmp(est->run.optimizer, "adam") == 0))
        notices_add(&m->assumed, "%s: tensor by tensor (foreach=False); the default on a GPU is %s-foreach",
                    est->run.optimizer, est->run.optimizer);
    if (uses_file_optimizer)
        notices_add(&m->assumed, "optimizer: %.*s, as the file holds it", STR_ARG(m->file_optimizer.title));
    if (m->config.path)
        notices_add(&m->assumed, "config: %s", m->config.path);
    if (m->tied_by_config)
        notices_add(&m->assumed, "the head is the embedding: tie_word_embeddings of the config");
    if (m->fp32_by_default && est->run.precision == CKPT_MEM_AS_STORED)
        notices_add(&m->assumed, "parameters in fp32: the config has no torch_dtype");
    if (est->run.batch && is_type_assumed(m))
        notices_add(&m->assumed, "it computes as %s does: no config gives a model_type", m->family->title);
    if (est->run.batch && m->family && m->family->setup)
        notices_add(&m->assumed, "%s: no keys and values are kept for generation", m->family->setup);
    if (est->states.frozen_elements && est->run.batch)
        notices_add(&m->assumed, "activations are counted as if nothing was frozen: an upper bound");
    if (est->run.zero)
        notices_add(&m->assumed, "ZeRO stage %u on %u ranks, without padding and buckets", est->run.zero,
                    est->run.ranks ? est->run.ranks : 1);
    if (!est->states.transient_known)
        notices_add(&m->unknown, "the transient of step(): not measured for this optimizer");
    if (!est->run.batch)
        notices_add(&m->unknown, "activations: not counted without a batch%s",
                    m->family && !m->family->takes_images ? " and a sequence length" : "");
}

/* describe_moment - returns the text for the moment of peak PEAK. */
static const char *describe_moment(const struct estimate *est, struct mem_peak peak)
{
    static const char *const names[MEM_MOMENTS] = {[FORWARD_END] = "end of the forward pass",
                                                   [LOSS_BACKWARD] = "backward of the loss",
                                                   [HEAD_BACKWARD] = "backward of the head",
                                                   [BACKWARD_END] = "end of the backward pass"};
    if (peak.moment != BLOCK_BACKWARD)
        return names[peak.moment];
    return arena_printf(est->m->notes, "backward of %s", ckpt_mem_block_name(est->m, peak.block)).ptr;
}

/* sum_states - returns the bytes that no plan changes. */
static uint64_t sum_states(const ckpt_mem_result *result)
{
    return size_add(size_add(result->parameters.bytes, result->buffers.bytes),
                    result->optimizer_states.bytes);
}

/* fill_total - sets the total: the states, and what the backward pass or step() adds, whichever is more. */
static void fill_total(struct estimate *est)
{
    ckpt_mem_result *r = est->out;
    uint64_t step = size_add(r->gradients.bytes, r->step_transient.bytes);
    uint64_t added = r->peak.known && r->peak.bytes > step ? r->peak.bytes : step;
    set_amount(&r->total, size_add(sum_states(r), added), false);
}

static ckpt_status check_total(const ckpt_mem_result *result, ckpt_error *err)
{
    return result->total.bytes == TOO_LARGE
               ? fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "the estimate has more bytes than 64 bits can count")
               : CKPT_OK;
}

/* fill_activations - fills in what the segments SEGMENTS keep, and the peak. */
static void fill_activations(struct estimate *est, const struct mem_segments *segments)
{
    ckpt_mem_result *r = est->out;
    struct mem_peak peak = timeline_peak(&est->t, segments);
    bool heads_assumed = !letter_known(&est->m->dims, 'a') && !est->run.heads && !est->m->family->is_convnet;
    bool inexact = heads_assumed || segments->selective || est->states.frozen_elements ||
                   is_type_assumed(est->m) ||
                   (est->m->family->has_dropout && !est->m->config.path &&
                    est->run.dropout == CKPT_MEM_DROPOUT_CONFIG);
    set_amount(&r->activations_kept, timeline_kept_bytes(&est->t, segments), !inexact);
    set_amount(&r->peak, size_add(peak.bytes, est->gathered_bytes), false);
    r->peak_place = describe_moment(est, peak);
    r->segment = segments->list;
    r->nsegments = segments->n;
    r->blocks = est->t.n;
    r->seq = est->m->family->is_convnet ? 0 : letter_get(&est->dims, 'S');
    double work = (double)est->t.multiply_adds;
    r->extra_forward = work > 0 ? (double)timeline_extra_work(&est->t, segments) / work : 0;
}

static ckpt_status check_run(const ckpt_mem_run *run, ckpt_error *err)
{
    CKPT_REQUIRE(err, run->precision <= CKPT_MEM_FP16_MASTER && run->attention <= CKPT_MEM_EAGER);
    CKPT_REQUIRE(err,
                 run->checkpoint <= CKPT_MEM_PLAN && run->dropout <= CKPT_MEM_DROPOUT_OFF && run->zero <= 3);
    CKPT_REQUIRE(err, run->batch <= UINT32_MAX && run->seq <= UINT32_MAX && run->height <= UINT32_MAX);
    CKPT_REQUIRE(err, run->width <= UINT32_MAX && run->heads <= UINT32_MAX);
    return CKPT_OK;
}

/* divide_timeline - divides the gradients at the end among ZeRO's ranks; sets what ZeRO 3 gathers. */
static void divide_timeline(struct estimate *est)
{
    if (est->run.zero >= 2)
        est->t.gradients = divide(est->t.gradients, est->run.ranks ? est->run.ranks : 1);
    if (est->run.zero == 3)
        est->gathered_bytes = size_mul(2, est->states.largest_parameter);
}

/* begin_estimate - fills in the states of RUN, and its timeline if RUN has a batch. */
static ckpt_status begin_estimate(struct estimate *est, ckpt_mem *mem, const ckpt_mem_run *run,
                                  ckpt_mem_result *out, ckpt_error *err)
{
    *est = (struct estimate){.m = mem, .out = out};
    CKPT_TRY(sized_struct_copy_in(run, &est->run, sizeof est->run, err));
    CKPT_TRY(check_run(&est->run, err));
    *out = (ckpt_mem_result){0};
    arena_free(mem->notes);
    mem->notes = arena_new(ARENA_MAX);
    mem->assumed = mem->unknown = (struct notices){.a = mem->notes};
    CKPT_TRY_ALLOC(mem->notes, err);
    CKPT_TRY(mem_states_sum(mem, &est->run, &est->states, err));
    fill_states(est);
    note_states(est);
    out->family = mem->family ? mem->family->name : NULL;
    out->family_title = mem->family ? mem->family->title : mem->other_title;
    out->setup = mem->family ? mem->family->setup : NULL;
    out->recognized_by = out->family_title ? mem->recognized_by.ptr : NULL;
    if (!est->run.batch)
        return CKPT_OK;
    if (mem->refusal.len)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "activations cannot be counted: %.*s\n%s",
                    STR_ARG(mem->refusal),
                    mem->refused_by_config
                        ? MEM_CONFIG_HINT
                        : "without a batch, parameters, gradients and the optimizer are counted");
    CKPT_TRY(apply_run(est, err));
    CKPT_TRY(mem->family->is_convnet
                 ? convnet_timeline(mem, &est->dims, est->state, est->run.precision, &est->t, mem->notes, err)
                 : transformer_timeline(mem, &est->dims, est->state, est->run.precision, &est->t, mem->notes,
                                        err));
    divide_timeline(est);
    return CKPT_OK;
}

ckpt_status ckpt_mem_estimate(ckpt_mem *mem, const ckpt_mem_run *run, ckpt_mem_result *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct estimate est;
    struct mem_segments s;
    ckpt_mem_result local_result;
    CKPT_TRY(sized_struct_clear(out, err));
    CKPT_REQUIRE(err, mem);
    CKPT_TRY(begin_estimate(&est, mem, run, &local_result, err));
    if (est.run.batch) {
        CKPT_TRY(make_segments(&est, &s, err));
        fill_activations(&est, &s);
    }
    fill_total(&est);
    CKPT_TRY(check_total(&local_result, err));
    sized_struct_copy_out(out, &local_result, sizeof local_result);
    return CKPT_OK;
}

/* find_plan - finds the cheapest segments whose total is at most LIMIT, or those with the lowest peak if
 * there are none or LIMIT is 0. Sets *FITS to true if the total is at most LIMIT or LIMIT is 0. */
static ckpt_status find_plan(struct estimate *est, uint64_t limit, bool *fits, ckpt_error *err)
{
    ckpt_mem *m = est->m;
    uint64_t other_bytes = size_add(sum_states(est->out), est->gathered_bytes);
    struct mem_plan plan = {0};
    *fits = true;
    if (limit && limit >= other_bytes)
        CKPT_TRY(plan_cheapest(&est->t, limit - other_bytes, m->a, &plan, err));
    if (!plan.list) {
        *fits = !limit;
        CKPT_TRY(plan_lowest_peak(&est->t, m->a, &plan, err));
    }
    m->plan = plan;
    struct mem_segments s = {.list = plan.list, .n = plan.n};
    fill_activations(est, &s);
    est->out->plan_proven = plan.proven;
    fill_total(est);
    *fits = *fits && (!limit || est->out->total.bytes <= limit);
    return check_total(est->out, err);
}

ckpt_status ckpt_mem_plan(ckpt_mem *mem, const ckpt_mem_run *run, uint64_t limit, ckpt_mem_result *out,
                          ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct estimate est;
    ckpt_mem_result local_result;
    bool fits = true;
    CKPT_TRY(sized_struct_clear(out, err));
    CKPT_REQUIRE(err, mem);
    CKPT_TRY(begin_estimate(&est, mem, run, &local_result, err));
    if (!est.run.batch)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a plan needs a batch");
    CKPT_TRY(find_plan(&est, limit, &fits, err));
    sized_struct_copy_out(out, &local_result, sizeof local_result);
    if (!fits)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no plan fits into {=%llu} bytes",
                    (unsigned long long)limit);
    return CKPT_OK;
}

/* estimate_total - sets the total of *OUT to that of RUN; if RUN has a plan, to that of the lowest peak. */
static ckpt_status estimate_total(ckpt_mem *mem, const ckpt_mem_run *run, ckpt_mem_result *out,
                                  ckpt_error *err)
{
    struct estimate est;
    struct mem_segments s;
    uint64_t lowest;
    CKPT_TRY(begin_estimate(&est, mem, run, out, err));
    if (est.run.checkpoint == CKPT_MEM_PLAN) {
        CKPT_TRY(find_lowest_peak(&est.t, mem->notes, &lowest, err));
        set_amount(&out->peak, size_add(lowest, est.gathered_bytes), false);
    } else {
        CKPT_TRY(make_segments(&est, &s, err));
        fill_activations(&est, &s);
    }
    fill_total(&est);
    return CKPT_OK;
}

ckpt_status ckpt_mem_largest_batch(ckpt_mem *mem, const ckpt_mem_run *run, uint64_t limit, uint64_t *batch,
                                   ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_mem_run r;
    ckpt_mem_result result;
    uint64_t low = 0, high = (uint64_t)1 << 24;
    CKPT_REQUIRE(err, batch);
    *batch = 0;
    CKPT_REQUIRE(err, mem);
    CKPT_TRY(sized_struct_copy_in(run, &r, sizeof r, err));
    while (low < high) { /* a larger batch never takes less memory */
        r.struct_size = sizeof r;
        r.batch = low + (high - low + 1) / 2;
        CKPT_TRY(estimate_total(mem, &r, &result, err));
        if (result.total.bytes <= limit && result.total.bytes != TOO_LARGE)
            low = r.batch;
        else
            high = r.batch - 1;
    }
    *batch = low;
    return CKPT_OK;
}
