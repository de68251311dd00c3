/* findings.h - where findings go: formats take files apart and hand over the pickles,
 * scan/judge.c judges what those do, both report here. */
#ifndef CORE_FINDINGS_H
#define CORE_FINDINGS_H

#include "core/trace.h"

enum scan_rule {
#define RULE(id, level, verdict, name, text) SCAN_##id,
#include "core/finding_rules.def"
#undef RULE
    SCAN_RULES
};

/* One pickle that is about to be followed, and where it stands. */
struct scan_pickle {
    ckpt_str where; /* member of the archive; empty: the file itself */
    source *src;
    uint64_t pos;
    bool framed; /* the second of two readings */
    bool plain;  /* another one: arrays of joblib are not passed over */
};

struct scan {
    const ckpt_scan_options *opts;
    int (*tell)(void *user, const ckpt_scan_record *record);
    void *user;
    bool cancelled;
    uint64_t opcodes_left; /* that may still be followed in the file, in all readings */
    bool gave_up;      /* bytes were not tried to their end as a pickle, for want of those, or of memory */
    ckpt_error failed; /* the first lack of memory or disk; then nothing that was found, or not, counts */
    ckpt_scan_result *result;
    /* Of scan/judge.c: begin a pickle, which then takes steps. WEIGH only finds out how it
     * ends; then TELL goes over it again, knowing that. */
    bool (*step)(void *judge, const struct trace_step *step);
    ckpt_status (*begin)(void *judge, const struct scan_pickle *p, bool tell, uint64_t error_offset);
    /* end - is there something to tell? */
    bool (*end)(void *judge, const struct trace_end *end);
    /* suspect - a name that is known to run code: enough to take odd bytes for a pickle. */
    bool (*suspect)(const struct trace_global *g);
    void *judge;
};

/* scan_failed - is ST a lack of memory or disk, rather than a fault of the file? Kept, for who can
 * go no other way than to take the answer for a no. */
bool scan_failed(struct scan *s, ckpt_status st, const ckpt_error *why);
/* scan_read - N bytes at OFF, which SRC has; false: it cannot be read, which is kept. */
bool scan_read(struct scan *s, source *src, uint64_t off, void *to, size_t n);
/* scan_torch_stream - do these N bytes begin as torch.save wrote before 1.6: a pickle of its magic number? */
bool scan_torch_stream(const unsigned char *head, size_t n);
/* scan_rule - what is known of a rule. */
const ckpt_scan_rule *scan_rule(enum scan_rule rule);
/* scan_record - hands RECORD out and counts it; of a finding, level and verdict
 * are the rule's unless they are set. False: the caller wants no more. */
bool scan_record(struct scan *s, ckpt_scan_record *record);
/* scan_found - a finding at OFFSET of SRC (may be NULL), in words. Braces mark what is found and what is
 * allowed, as in fail(). */
bool scan_found(struct scan *s, enum scan_rule rule, ckpt_str where, const source *src, uint64_t offset,
                const char *fmt, ...) CKPT_PRINTF(6, 7);
/* scan_found_error - one in the words of E. */
struct scan_place {
    const source *src; /* may be NULL */
    uint64_t offset;   /* in it, or CKPT_NO_OFFSET */
};
bool scan_found_error(struct scan *s, enum scan_rule rule, ckpt_str where, struct scan_place at,
                      ckpt_error *e);

#endif
