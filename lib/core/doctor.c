/* doctor.c - see doctor.h. */
#include "core/doctor.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

int doctor_note(void *user, const ckpt_finding *f)
{
    struct doctor *d = user;
    struct symptom *s = &d->symptoms[check_rule_by_name(f->id)];
    if (s->n++ == 0)
        s->first = *f->error;
    return 0;
}

void doctor_unnamed(const struct doctor *d, ckpt_error *e)
{
    char shown[sizeof e->file];
    text_fit(str_c(d->path), shown, sizeof shown);
    if (strcmp(e->file, shown) == 0)
        e->file[0] = 0;
}

static ckpt_status hand_out(struct doctor *d, const ckpt_diagnosis *x, ckpt_error *err)
{
    ++*(x->problem ? &d->result->problems : &d->result->notes);
    d->hint = NULL;
    if (!d->cancelled && d->tell)
        d->cancelled = d->tell(d->user, x) != 0;
    return d->cancelled ? fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request") : CKPT_OK;
}

ckpt_status doctor_tell(struct doctor *d, const char *id, bool problem, const char *fix, const char *suffix,
                        ckpt_error *err, const char *fmt, ...)
{
    char raw[1024], safe[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    text_fit(str_c(raw), safe, sizeof safe);
    ckpt_diagnosis x = {.id = id,
                        .text = safe,
                        .problem = problem,
                        .fix = fix,
                        .suffix = suffix ? suffix : d->suffix,
                        .hint = d->hint ? d->hint : ""};
    return hand_out(d, &x, err);
}

ckpt_status doctor_says(struct doctor *d, const char *id, const char *fix, const ckpt_error *e,
                        ckpt_error *err)
{
    char text[2048];
    ckpt_error own = *e;
    doctor_unnamed(d, &own);
    (void)ckpt_error_text(&own, text, sizeof text);
    ckpt_diagnosis x = {
        .id = id, .text = text, .problem = true, .fix = fix, .suffix = d->suffix, .hint = own.hint};
    return hand_out(d, &x, err);
}
