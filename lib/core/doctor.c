/* doctor.c - see doctor.h. */
#include "core/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

/* only_what_helps - takes the command out of X if it would do nothing, and says why. */
static ckpt_status only_what_helps(struct doctor *d, ckpt_diagnosis *x, ckpt_error *why, ckpt_error *err)
{
    why->status = CKPT_OK;
    if (!d->rehearse || !x->fix || strncmp(x->fix, "ckpt ", 5) != 0)
        return CKPT_OK;
    const char *command = x->fix + 5;
    CKPT_TRY(d->rehearse(d->with, command, x->suffix, why, err));
    if (why->status == CKPT_OK)
        return CKPT_OK;
    x->fix = NULL;
    if (x->hint[0])
        return CKPT_OK;
    why->hint[0] = 0;
    if (strncmp(command, "salvage ", 8) == 0)
        fail_hint(why, "ckpt salvage finds nothing intact in it: get the file again");
    else
        fail_hint(why, "ckpt %.*s does not help: %s", (int)strcspn(command, " "), command, why->what);
    x->hint = why->hint;
    return CKPT_OK;
}

static ckpt_status hand_out(struct doctor *d, ckpt_diagnosis *x, ckpt_error *err)
{
    ckpt_error why;
    CKPT_TRY(only_what_helps(d, x, &why, err));
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
