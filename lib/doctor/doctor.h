/* doctor.h - why a file does not load, in the order in which it matters, and what fixes it. Private to
 * lib/doctor. */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "core/check.h"

/* Findings of one rule: the first, and how many there are. */
struct symptom {
    uint64_t n;
    ckpt_error first;
};

struct doctor {
    const char *path;
    bool folder;  /* PATH is one */
    source *src;  /* the first file that was opened; NULL: none was */
    ckpt_file *f; /* NULL: it cannot be read as a checkpoint */
    struct check check;
    struct symptom symptoms[CHECK_RULES];
    int (*tell)(void *user, const ckpt_diagnosis *d);
    void *user;
    ckpt_doctor_result *result;
    bool salvage_tried; /* SALVAGE_ERROR has what became of it */
    ckpt_error salvage_error;
    bool cancelled;
};

/* A diagnosis without its text. */
struct verdict {
    const char *id;
    ckpt_fix fix; /* action 0: there is none */
    const char *hint; /* where no fix helps; may be NULL */
    bool note;        /* no problem: only worth knowing */
};

/* doctor_tell - passes on V, its text made by FMT. A fix of ours that would end in trouble is left out. */
ckpt_status doctor_tell(struct doctor *d, const struct verdict *v, ckpt_error *err, const char *fmt, ...)
    CKPT_PRINTF(4, 5);
/* doctor_tell_error - the same in the words of E, whose hint it has. */
ckpt_status doctor_tell_error(struct doctor *d, const struct verdict *v, const ckpt_error *e,
                              ckpt_error *err);
/* doctor_drop_file - takes the name of the doctor's own file out of E: the line begins with it. */
void doctor_drop_file(const struct doctor *d, ckpt_error *e);

/* doctor_foreign - the file is no checkpoint, for the reason E. */
ckpt_status doctor_foreign(struct doctor *d, const ckpt_error *e, ckpt_error *err);
/* doctor_damage - what verifying found. */
ckpt_status doctor_damage(struct doctor *d, ckpt_error *err);
/* doctor_loading - what torch.load and load_state_dict will refuse in a file that is sound. */
ckpt_status doctor_loading(struct doctor *d, ckpt_error *err);

#endif
