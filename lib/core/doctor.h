/* doctor.h - what is the matter with a file, in the order in which it matters. */
#ifndef CORE_DOCTOR_H
#define CORE_DOCTOR_H

#include "core/check.h"

/* Findings of one rule: the first, and how many there are. */
struct symptom {
    uint64_t n;
    ckpt_error first;
};

struct doctor {
    const char *path;
    struct symptom symptoms[CHECK_RULES];
    int (*tell)(void *user, const ckpt_diagnosis *d);
    void *user;
    ckpt_doctor_result *result;
    const char *hint;   /* for the next diagnosis; may be NULL */
    const char *suffix; /* of what is made of a file that has none of its own, such as a folder; or NULL */
    /* rehearse - would COMMAND of this program do anything? WHY is what stops it. NULL: not asked. */
    ckpt_status (*rehearse)(void *with, const char *command, const char *suffix, ckpt_error *why,
                            ckpt_error *err);
    void *with;
    bool cancelled;
};

/* doctor_note - for check.tell: USER is a struct doctor. */
int doctor_note(void *user, const ckpt_finding *f);
/* doctor_unnamed - takes the name of D's own file out of E: the line says it already. */
void doctor_unnamed(const struct doctor *d, ckpt_error *e);
/* doctor_tell - a diagnosis in words of ours; FIX as in ckpt_diagnosis. */
ckpt_status doctor_tell(struct doctor *d, const char *id, bool problem, const char *fix, const char *suffix,
                        ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(7, 8);
/* doctor_says - a diagnosis in the words of E, whose hint stands where there is no FIX. */
ckpt_status doctor_says(struct doctor *d, const char *id, const char *fix, const ckpt_error *e,
                        ckpt_error *err);

#endif
