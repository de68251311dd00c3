/* findings.h - passes the findings of `ckpt scan` to the caller. The scanners of lib/scan and its judge of
 * pickles report them here. */
#pragma once

#include "core/trace.h"

enum scan_rule {
#define RULE(constant, id, level, verdict, name, text) SCAN_##constant,
#include "core/finding_rules.def"
#undef RULE
    SCAN_RULES
};

/* A pickle whose opcodes will be followed. */
struct scan_pickle {
    ckpt_str where; /* member of the archive; empty: the file itself */
    source *src;
    uint64_t pos;
    bool by_frame;          /* read frame by frame, as some loaders do */
    bool arrays_as_opcodes; /* joblib's arrays are read as opcodes, as pickle.load does */
};

struct scan {
    const ckpt_scan_options *opts;
    int (*report)(void *user, const ckpt_scan_record *record); /* may be NULL; nonzero: stop */
    void *user;
    bool cancelled;
    bool file_is_chunk;    /* the file is a chunk of a Zarr array, by the files around it */
    bool archive_has_code; /* the archive whose members are scanned has code of TorchScript */
    uint64_t opcodes_left; /* opcodes that may still be followed, in the whole file */
    bool gave_up;          /* a possible pickle was not followed to its end: opcodes or memory ran out */
    ckpt_error failure;    /* the first failure of memory or disk, which makes the findings incomplete */
    ckpt_scan_result *result;
    /* scan/judge.c sets these: begin a pickle, pass a step of it, end it. Only the second pass over a pickle
     * is REPORTING. ERROR_AT is where the first one failed, or CKPT_NO_OFFSET. */
    ckpt_status (*judge_begin)(void *judge, const struct scan_pickle *p, bool reporting, uint64_t error_at);
    bool (*judge_step)(void *judge, const struct trace_step *step); /* false: stop */
    /* judge_end - ends a pass; the first one returns true if a second one is needed, to report. */
    bool (*judge_end)(void *judge, const struct trace_end *end);
    /* is_known_exec - returns true if G can run code: bytes that import it are taken for a pickle. */
    bool (*is_known_exec)(const struct scan *s, const struct trace_global *g);
    void *judge;
};

/* scan_note_system_failure - returns true if ST is a failure of memory or disk, not a fault of the file.
 * Keeps the failure in SCAN, so that callers that return a bool need not pass it on. */
bool scan_note_system_failure(struct scan *scan, ckpt_status st, const ckpt_error *why);
/* scan_read - reads NBYTES bytes at OFF, which are inside SRC. False: the read failed; SCAN keeps the
 * error. */
bool scan_read(struct scan *scan, source *src, uint64_t off, void *to, size_t nbytes);
const ckpt_scan_rule *scan_rule(enum scan_rule rule);
/* scan_report_record - counts RECORD and passes it to the caller's report(); a finding takes level and
 * verdict from its rule. False: stop. */
bool scan_report_record(struct scan *scan, ckpt_scan_record *record);
/* scan_found - reports a finding at OFFSET of SRC (may be NULL). Braces in FMT enclose what is found and what
 * is expected, as in fail(). CKPT_ECANCELLED: stop. */
ckpt_status scan_found(struct scan *scan, enum scan_rule rule, ckpt_str where, const source *src,
                       uint64_t offset, const char *fmt, ...) CKPT_PRINTF(6, 7);
struct scan_place {
    const source *src; /* may be NULL */
    uint64_t offset;   /* in SRC, or CKPT_NO_OFFSET */
};
/* scan_found_error - reports ERROR as a finding. */
ckpt_status scan_found_error(struct scan *scan, enum scan_rule rule, ckpt_str where, struct scan_place at,
                             ckpt_error *error);
