/* pour.h - tensors on their way into a sink, by several threads: each has a hand of
 * its own, with room for what it reads and what becomes of that. */
#ifndef CORE_POUR_H
#define CORE_POUR_H

#include "base/buf.h"
#include "core/convert.h"
#include "core/sweep.h"
#include "io/outlet.h"
#include "io/window.h"

struct hand {
    struct outlet out;
    unsigned char *in;    /* FD_CHUNK bytes, where elements are converted; by hand_in */
    struct window window; /* over what is read */
    buf text;          /* the caller's own */
};

struct pour {
    sink *to; /* NULL: a rehearsal, nothing is written */
    struct hand *hands;
    unsigned n;
    int (*progress)(void *user, uint64_t done, uint64_t total); /* of what is written; may be NULL */
    void *user;
    uint64_t total; /* bytes that will be written */
};

/* What was found in a part of an item. */
struct poured {
    struct convert_tally tally;
    uint32_t crc; /* of what was written, if anyone asked */
};

/* pour_open - for THREADS as in ckpt_work. */
ckpt_status pour_open(struct pour *p, sink *to, unsigned threads, ckpt_error *err);
/* pour_hand - of the thread that RUN is on, going on at AT of the sink. */
ckpt_status pour_hand(struct pour *p, const struct sweep_run *run, uint64_t at, struct hand **out,
                      ckpt_error *err);
/* hand_in - makes h->in, unless it is there. */
ckpt_status hand_in(struct hand *h, ckpt_error *err);
/* pour_window - that of RUN's thread. */
struct window *pour_window(struct pour *p, const struct sweep_run *run);
/* pour_room - where the next elements go: *SPACE, and at most *N bytes of input for it. By C
 * they are read to h->in first (NULL: straight to *SPACE). */
ckpt_status pour_room(struct hand *h, const struct conversion *c, unsigned char **space, size_t *n,
                      ckpt_error *err);
/* pour_progress - of a sweep, for p->progress. */
int pour_progress(void *pour, uint64_t done, uint64_t total);
/* pour_flush - what all hands still hold. */
ckpt_status pour_flush(struct pour *p, ckpt_error *err);
void pour_close(struct pour *p);

#endif
