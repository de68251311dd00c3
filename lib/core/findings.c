/* findings.c - see core/findings.h. */
#include "core/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const ckpt_scan_rule rules[] = {
#define RULE(constant, id, level, verdict, name, text)                                                       \
    {#id, name, text, CKPT_SCAN_##level, CKPT_SCAN_##verdict},
#include "core/finding_rules.def"
#undef RULE
};

const ckpt_scan_rule *scan_rule(enum scan_rule rule) { return &rules[rule]; }

bool scan_note_system_failure(struct scan *s, ckpt_status st, const ckpt_error *why)
{
    if (st != CKPT_ENOMEM && st != CKPT_EIO)
        return false;
    if (s->failure.status == CKPT_OK && why)
        s->failure = *why;
    else if (s->failure.status == CKPT_OK)
        (void)fail_memory(&s->failure);
    return true;
}

bool scan_read(struct scan *s, source *src, uint64_t off, void *to, size_t n)
{
    ckpt_error why;
    ckpt_status st = source_read(src, off, to, n, &why);
    if (st != CKPT_OK && s->failure.status == CKPT_OK)
        s->failure = why;
    return st == CKPT_OK;
}

const ckpt_scan_rule *ckpt_scan_rule_at(size_t i)
{
    return i < sizeof rules / sizeof *rules ? &rules[i] : NULL;
}

const char *ckpt_scan_verdict_name(ckpt_scan_verdict v)
{
    static const char *const names[] = {"DATA-ONLY", "ALLOW-LISTED", "UNKNOWN-CALLABLE", "UNRESOLVED",
                                        "KNOWN-EXEC"};
    return (unsigned)v < sizeof names / sizeof *names ? names[v] : "";
}

const char *ckpt_scan_level_name(ckpt_scan_level l)
{
    static const char *const names[] = {"none", "note", "incomplete", "warning", "error"};
    return (unsigned)l < sizeof names / sizeof *names ? names[l] : "";
}

bool scan_report_record(struct scan *s, ckpt_scan_record *r)
{
    ckpt_scan_result *out = s->result;
    r->result_used = r->what == CKPT_SCAN_CALL ? r->result_used : -1;
    if (r->rule) {
        r->level = r->rule->level;
        r->verdict = r->verdict > r->rule->verdict ? r->verdict : r->rule->verdict;
        out->found[r->level]++;
    }
    if (r->verdict > out->verdict)
        out->verdict = r->verdict;
    if (!s->cancelled && s->report && s->report(s->user, r) != 0)
        s->cancelled = true;
    return !s->cancelled;
}

static ckpt_status report_finding(struct scan *s, enum scan_rule rule, ckpt_str where, struct scan_place at,
                                  const struct message_buffers *message)
{
    bool has_position = at.src && at.offset != CKPT_NO_OFFSET;
    ckpt_scan_record r = {.what = CKPT_SCAN_FINDING,
                          .rule = &rules[rule],
                          .where = where,
                          .offset = at.offset,
                          .file_offset = has_position ? source_pos(at.src, at.offset) : CKPT_NO_OFFSET,
                          .error_offset = CKPT_NO_OFFSET,
                          .weights_only = -1,
                          .text = str_c(message->what),
                          .found = str_c(message->found),
                          .allowed = str_c(message->allowed)};
    return scan_report_record(s, &r) ? CKPT_OK : CKPT_ECANCELLED;
}

ckpt_status scan_found(struct scan *s, enum scan_rule rule, ckpt_str where, const source *src,
                       uint64_t offset, const char *fmt, ...)
{
    char what[1024], found[96] = "", allowed[96] = "";
    const struct message_buffers message = {what, found, allowed, NULL, sizeof what, sizeof found, 0};
    va_list ap;
    va_start(ap, fmt);
    message_format(&message, fmt, ap);
    va_end(ap);
    return report_finding(s, rule, where, (struct scan_place){src, offset}, &message);
}

ckpt_status scan_found_error(struct scan *s, enum scan_rule rule, ckpt_str where, struct scan_place at,
                             ckpt_error *e)
{
    char what[1024];
    (void)snprintf(what, sizeof what, "%s%s%s", e->where, e->where[0] ? ": " : "", e->what);
    return report_finding(s, rule, where, at,
                          &(struct message_buffers){what, e->found, e->allowed, NULL, 0, 0, 0});
}
