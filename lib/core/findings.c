/* findings.c - see core/findings.h. */
#include "core/findings.h"

#include <stdio.h>

static const ckpt_scan_rule rules[] = {
#define RULE(constant, id, level, verdict, name, text)                                                       \
    {#id, name, text, CKPT_SCAN_##level, CKPT_SCAN_##verdict},
#include "core/finding_rules.def"
#undef RULE
};

const ckpt_scan_rule *scan_rule(enum scan_rule rule) { return &rules[rule]; }

bool scan_note_system_failure(struct scan *scan, ckpt_status st, const ckpt_error *why)
{
    if (st != CKPT_ENOMEM && st != CKPT_EIO)
        return false;
    if (scan->failure.status == CKPT_OK && why)
        scan->failure = *why;
    else if (scan->failure.status == CKPT_OK)
        (void)fail_memory(&scan->failure);
    return true;
}

bool scan_read(struct scan *scan, source *src, uint64_t off, void *to, size_t nbytes)
{
    ckpt_error why;
    ckpt_status st = source_read(src, off, to, nbytes, &why);
    if (st != CKPT_OK && scan->failure.status == CKPT_OK)
        scan->failure = why;
    return st == CKPT_OK;
}

const ckpt_scan_rule *ckpt_scan_rule_at(size_t index)
{
    return index < sizeof rules / sizeof *rules ? &rules[index] : NULL;
}

const char *ckpt_scan_verdict_name(ckpt_scan_verdict verdict)
{
    static const char *const names[] = {"DATA-ONLY", "ALLOW-LISTED", "UNKNOWN-CALLABLE", "UNRESOLVED",
                                        "KNOWN-EXEC"};
    return (unsigned)verdict < sizeof names / sizeof *names ? names[verdict] : "";
}

const char *ckpt_scan_level_name(ckpt_scan_level level)
{
    static const char *const names[] = {"none", "note", "incomplete", "warning", "error"};
    return (unsigned)level < sizeof names / sizeof *names ? names[level] : "";
}

bool scan_report_record(struct scan *scan, ckpt_scan_record *record)
{
    ckpt_scan_result *out = scan->result;
    record->result_used = record->what == CKPT_SCAN_CALL ? record->result_used : -1;
    if (record->rule) {
        record->level = record->rule->level;
        record->verdict = record->verdict > record->rule->verdict ? record->verdict : record->rule->verdict;
        out->found[record->level]++;
    }
    if (record->verdict > out->verdict)
        out->verdict = record->verdict;
    if (!scan->cancelled && scan->report && scan->report(scan->user, record) != 0)
        scan->cancelled = true;
    return !scan->cancelled;
}

static ckpt_status report_finding(struct scan *scan, enum scan_rule rule, ckpt_str where,
                                  struct scan_place at, const struct message_buffers *message)
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
    return scan_report_record(scan, &r) ? CKPT_OK : CKPT_ECANCELLED;
}

ckpt_status scan_found(struct scan *scan, enum scan_rule rule, ckpt_str where, const source *src,
                       uint64_t offset, const char *fmt, ...)
{
    char what[1024], found[96] = "", allowed[96] = "";
    const struct message_buffers message = {what, found, allowed, NULL, sizeof what, sizeof found, 0};
    va_list ap;
    va_start(ap, fmt);
    message_format(&message, fmt, ap);
    va_end(ap);
    return report_finding(scan, rule, where, (struct scan_place){src, offset}, &message);
}

ckpt_status scan_found_error(struct scan *scan, enum scan_rule rule, ckpt_str where, struct scan_place at,
                             ckpt_error *error)
{
    char what[1024];
    (void)snprintf(what, sizeof what, "%s%s%s", error->where, error->where[0] ? ": " : "", error->what);
    return report_finding(scan, rule, where, at,
                          &(struct message_buffers){what, error->found, error->allowed, NULL, 0, 0, 0});
}
