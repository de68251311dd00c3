/* pour.c - see pour.h. */
#include "core/pour.h"

#include <stdlib.h>

#include "io/fd.h"
#include "io/pool.h"

ckpt_status pour_open(struct pour *p, sink *to, unsigned threads, ckpt_error *err)
{
    *p = (struct pour){.to = to, .n = pool_threads(threads)};
    p->hands = calloc(p->n, sizeof *p->hands);
    return p->hands ? CKPT_OK : fail_memory(err);
}

void pour_close(struct pour *p)
{
    for (unsigned i = 0; p->hands && i < p->n; i++) {
        outlet_close(&p->hands[i].out);
        free(p->hands[i].in);
        window_close(&p->hands[i].window);
        buf_free(&p->hands[i].text);
    }
    free(p->hands);
    p->hands = NULL;
}

/* make - a hand, once its thread is at work: few files need all that may be. */
static ckpt_status make(struct hand *h, sink *to, ckpt_error *err)
{
    buf_init(&h->text, SIZE_MAX / 2);
    return outlet_open(&h->out, to, err);
}

ckpt_status hand_in(struct hand *h, ckpt_error *err)
{
    if (!h->in)
        h->in = aligned_alloc(64, FD_CHUNK);
    return h->in ? CKPT_OK : fail_memory(err);
}

struct window *pour_window(struct pour *p, const struct sweep_run *run)
{
    return &p->hands[sweep_worker(run)].window;
}

ckpt_status pour_hand(struct pour *p, const struct sweep_run *run, uint64_t at, struct hand **out,
                      ckpt_error *err)
{
    struct hand *h = &p->hands[sweep_worker(run)];
    if (!h->out.block)
        CKPT_TRY(make(h, p->to, err));
    *out = h;
    return outlet_seek(&h->out, at, err);
}

ckpt_status pour_room(struct hand *h, const struct conversion *c, unsigned char **space, size_t *n,
                      ckpt_error *err)
{
    CKPT_TRY(outlet_space(&h->out, space, n, err));
    if (c) {
        CKPT_TRY(hand_in(h, err));
        size_t elements = *n / c->out_width, most = FD_CHUNK / c->in_width;
        *n = (elements < most ? elements : most) * c->in_width; /* bounded: FD_CHUNK */
    }
    return CKPT_OK;
}

int pour_progress(void *pour, uint64_t done, uint64_t total)
{
    const struct pour *p = pour;
    if (!p->progress)
        return 0;
    if (total != p->total) /* what is read is more, or less, than what is written */
        done = total ? (uint64_t)((double)done / (double)total * (double)p->total) : 0;
    return p->progress(p->user, done < p->total ? done : p->total, p->total);
}

ckpt_status pour_flush(struct pour *p, ckpt_error *err)
{
    for (unsigned i = 0; i < p->n; i++)
        if (p->hands[i].out.block)
            CKPT_TRY(outlet_flush(&p->hands[i].out, err));
    return CKPT_OK;
}
