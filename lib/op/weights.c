/*
 * weights.c - where trainers keep the weights: a known name first (the table
 * below), else the only mapping that holds tensors, else everything. Averaged
 * copies are taken only when there is nothing else, optimizer state never.
 */
#include "op/weights.h"

/* Best first. From the checkpoints of PyTorch's tutorials and examples,
 * Lightning, timm, torchvision, mmengine, fairseq, DeepSpeed, Megatron-LM,
 * Opacus, BasicSR, DINO. */
static const char *const names[] = {
    "state_dict", "model_state_dict",  "model_state",   "model_states", "model",
    "module",     "module_state_dict", "net",           "network",      "net_state_dict",
    "params",     "weights",           "model_weights", "model0",       "teacher",
    "student",
};

#define NNAMES (sizeof names / sizeof *names)

static unsigned rank(const ckpt_path_elem *e)
{
    for (unsigned i = 0; !e->is_int && i < NNAMES; i++)
        if (str_is(e->str, names[i]))
            return i;
    return NNAMES;
}

static bool word_end(ckpt_str s, size_t i)
{
    return i >= s.len || s.ptr[i] == '_' || s.ptr[i] == '.' || s.ptr[i] == '-';
}

static bool has_word(ckpt_str s, ckpt_str word)
{
    for (size_t at = str_find(s, word, 0); at != SIZE_MAX; at = str_find(s, word, at + 1))
        if ((at == 0 || word_end(s, at - 1)) && word_end(s, at + word.len))
            return true;
    return false;
}

static bool averaged(const ckpt_path_elem *e)
{
    return !e->is_int && (has_word(e->str, STR_LIT("ema")) || has_word(e->str, STR_LIT("swa")) ||
                          has_word(e->str, STR_LIT("averaging")) || has_word(e->str, STR_LIT("averaged")) ||
                          has_word(e->str, STR_LIT("shadow")));
}

static bool candidate(const struct place *p) { return p->below && !p->in_optimizer && !p->optimizer; }

/* The child with the best known name, or NO_PLACE. */
static uint32_t known_child(const struct walk *w, uint32_t at)
{
    const struct place *up = &w->places[at];
    uint32_t best = NO_PLACE;
    unsigned best_rank = NNAMES;
    for (uint32_t i = up->first; i < up->first + up->nchildren; i++) {
        const struct place *p = &w->places[i];
        unsigned r = candidate(p) && p->mapping ? rank(&p->elem) : NNAMES;
        if (r < best_rank) {
            best = i;
            best_rank = r;
        }
    }
    return best;
}

/* The only child with tensors; an averaged one only where there is no other. */
static uint32_t only_child(const struct walk *w, uint32_t at)
{
    const struct place *up = &w->places[at];
    uint32_t plain = NO_PLACE, mean = NO_PLACE, nplain = 0, nmean = 0;
    for (uint32_t i = up->first; i < up->first + up->nchildren; i++) {
        const struct place *p = &w->places[i];
        if (!candidate(p))
            continue;
        bool avg = averaged(&p->elem);
        *(avg ? &mean : &plain) = i;
        (*(avg ? &nmean : &nplain))++;
    }
    if (nplain)
        return nplain == 1 ? plain : NO_PLACE;
    return nmean == 1 ? mean : NO_PLACE;
}

static bool settled(const struct place *p) { return p->state_dict && p->tensors >= p->below - p->tensors; }

/* explain - why place AT: HOW is what led there, NULL at the top level. */
static ckpt_status explain(const struct walk *w, uint32_t at, const char *how, struct weights *out,
                           ckpt_error *err)
{
    const struct place *p = &w->places[at];
    if (!how)
        how = p->state_dict ? "the top level is a state dict"
                            : "tensors in several places, none under a usual name";
    ckpt_str why = arena_printf(w->a, "%s; %llu tensor%s", how, (unsigned long long)p->below,
                                p->below == 1 ? "" : "s");
    out->place = at;
    out->why = why.ptr;
    return why.ptr ? CKPT_OK : fail_memory(err);
}

ckpt_status weights_find(const struct walk *w, struct weights *out, ckpt_error *err)
{
    *out = (struct weights){.place = NO_PLACE, .why = "no mapping of tensors"};
    if (!w->n || !candidate(&w->places[0])) {
        for (size_t i = 0; i < w->n; i++)
            if (w->places[i].optimizer)
                out->why = "no tensors besides optimizer state";
        return CKPT_OK;
    }
    const char *how = NULL;
    bool known = false;
    uint32_t at = 0, next;
    while (!settled(&w->places[at])) {
        if ((next = known_child(w, at)) != NO_PLACE) {
            how = "a common name for weights";
            known = true;
        } else if (!known && (next = only_child(w, at)) != NO_PLACE &&
                   (w->places[next].state_dict || known_child(w, next) != NO_PLACE)) {
            how = averaged(&w->places[next].elem)
                      ? "averaged weights, the only tensors besides optimizer state"
                      : "the only mapping with tensors besides optimizer state";
        } else {
            break;
        }
        at = next;
    }
    return explain(w, at, how, out, err);
}
