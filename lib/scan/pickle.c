/*
 * pickle.c - scans streams of pickles. Each pickle is followed once to find how it ends and whether there is
 * anything to report. If there is, it is followed again to report that, so that the report of a call can
 * include where a later error would stop the loader.
 *
 * A file may hold several pickles, one after the other; a loader that is called again reads the next one.
 * Bytes after the last one are reported.
 */
#include <inttypes.h>

#include "base/utf8.h"
#include "codec/pickle_line.h"
#include "codec/pickle_trace.h"
#include "io/reader.h"
#include "scan/scan.h"

#define PICKLES_MAX 65536u /* in one stream */

struct pickle_scan {
    struct scanner *x;
    struct trace_payload *payloads;
    size_t npayloads, cap_payloads;
    bool reporting, too_many_payloads;
};

static bool handle_step(void *user, const struct trace_step *step)
{
    struct pickle_scan *ps = user;
    struct scan *scan = ps->x->scan;
    bool is_new_payload = step->what == TRACE_STEP_PAYLOAD && !ps->reporting;
    if (is_new_payload && !ARENA_PUSH(ps->x->a, ps, payloads, step->payload)) {
        ps->too_many_payloads = true;
        return arena_full(ps->x->a) || !scan_note_system_failure(scan, CKPT_ENOMEM, NULL);
    }
    return scan->judge_step(scan->judge, step);
}

/* report_broken_pickle - reports WHY a pickle could not be followed further, or returns a system failure. */
static ckpt_status report_broken_pickle(struct scanner *scanner, const struct scan_pickle *pickle,
                                        const struct trace_end *end, const ckpt_error *why)
{
    if (why->status == CKPT_EIO || why->status == CKPT_ENOMEM || why->status == CKPT_ECANCELLED)
        return why->status;
    enum scan_rule rule = why->status == CKPT_ELIMIT ? SCAN_PICKLE_NOT_FOLLOWED : SCAN_BROKEN_PICKLE;
    return scan_found(scanner->scan, rule, pickle->where, pickle->src, end->next_offset, "%s", why->what);
}

/* follow_pickle - follows PICKLE as the kind of loader that its flags choose, and judges it. If there is
 * anything to report, follows PICKLE a second time. */
static ckpt_status follow_pickle(struct pickle_scan *ps, const struct scan_pickle *pickle,
                                 struct trace_end *end, ckpt_error *err)
{
    struct scan *s = ps->x->scan;
    struct trace_options o = {.buffer_frames = pickle->by_frame,
                              .joblib_arrays_as_opcodes = pickle->arrays_as_opcodes,
                              .reports_payloads = !pickle->by_frame && !pickle->arrays_as_opcodes,
                              .sought_texts = scan_sought_texts,
                              .opcodes_left = &s->opcodes_left,
                              .step = handle_step,
                              .user = ps};
    ckpt_error why;
    ckpt_status st = s->judge_begin(s->judge, pickle, false, CKPT_NO_OFFSET);
    if (st != CKPT_OK)
        return fail_memory(err);
    ps->reporting = false;
    why.status = pickle_trace(pickle->src, pickle->pos, pickle->src->size, &o, end, &why);
    ckpt_error first_error = why;
    if (s->judge_end(s->judge, end)) {
        struct trace_end second_end;
        uint64_t error_offset = first_error.status == CKPT_OK ? CKPT_NO_OFFSET : end->next_offset;
        (void)s->judge_begin(s->judge, pickle, true, error_offset);
        ps->reporting = true;
        st = pickle_trace(pickle->src, pickle->pos, pickle->src->size, &o, &second_end, &why);
        if (st == CKPT_ECANCELLED || st == CKPT_ENOMEM || st == CKPT_EIO) {
            *err = why;
            return st;
        }
        (void)s->judge_end(s->judge, &second_end);
    }
    if (first_error.status == CKPT_OK || pickle->by_frame || pickle->arrays_as_opcodes)
        return CKPT_OK;
    st = report_broken_pickle(ps->x, pickle, end, &first_error);
    if (st != CKPT_OK)
        *err = first_error;
    return st;
}

/* count_latin1 - counts the characters in the NBYTES bytes of UTF-8 at START. False: one is above U+00FF. */
static bool count_latin1(struct scan *scan, source *src, uint64_t start, uint64_t nbytes, uint64_t *count)
{
    reader r;
    ckpt_error why;
    bool ok = reader_init(&r, src, start, start + nbytes, &why) == CKPT_OK;
    unsigned char lead = 0;
    *count = 0;
    while (ok && reader_left(&r)) {
        size_t chunk = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        const unsigned char *b = reader_take(&r, chunk);
        ok = b != NULL;
        for (size_t i = 0; ok && i < chunk; i++) {
            bool is_continuation = (b[i] & 0xc0) == 0x80;
            bool is_latin1_lead = b[i] == 0xc2 || b[i] == 0xc3; /* of U+0080 to U+00FF */
            ok = is_continuation == (lead != 0) && (is_continuation || b[i] < 0x80 || is_latin1_lead);
            lead = b[i] >= 0xc0 ? b[i] : 0;
            *count += lead == 0;
        }
    }
    (void)scan_note_system_failure(scan, r.status, &why);
    reader_free(&r);
    return ok && lead == 0;
}

/* open_payload_source - sets *OUT to the decoded bytes of PAYLOAD; NULL: malformed, or a character above
 * U+00FF. */
static ckpt_status open_payload_source(struct scan *scan, source *src, const struct trace_payload *payload,
                                       source **out, ckpt_error *err)
{
    uint64_t count;
    *out = NULL;
    if (payload->encoding == TRACE_ENC_UNICODE || payload->encoding == TRACE_ENC_STRING)
        return pickle_line_spool(payload, src, out, err);
    if (payload->encoding == TRACE_ENC_BYTES)
        return source_slice(src, payload->start, payload->size, out, err);
    return count_latin1(scan, src, payload->start, payload->size, &count)
               ? source_latin1(src, payload->start, payload->size, count, out, err)
               : CKPT_OK;
}

static ckpt_status open_payload(struct pickle_scan *ps, const struct scan_pickle *scan_pickle,
                                const struct trace_payload *payload, ckpt_error *err)
{
    struct scanner *x = ps->x;
    const struct scanned pickle = {x, scan_pickle->src, scan_pickle->where};
    struct scanned value = {.x = x};
    uint64_t known_bytes = 0;
    CKPT_TRY(scan_join_offset(&pickle, "value", payload->start, &value.where, err));
    if (x->depth >= x->scan->opts->max_depth)
        return scan_found(x->scan, SCAN_NOT_OPENED, value.where, scan_pickle->src, payload->start,
                          "is nested too deep to be opened");
    CKPT_TRY(open_payload_source(x->scan, scan_pickle->src, payload, &value.src, err));
    source *bytes = value.src;
    if (!bytes)
        return CKPT_OK;
    bool is_scanned = payload->may_be_file ||
                      (payload->may_be_pickle && scan_is_pickle(x, bytes, 0, bytes->size, false)) ||
                      (payload->may_be_compressed && scan_find_packed_file(x, bytes));
    /* what looks like base64 is also scanned as it is: the "U" of "UEsDB" is the opcode SHORT_BINSTRING */
    ckpt_status st = CKPT_OK;
    if (payload->may_be_file && payload->looks_encoded)
        st = SCAN_FOUND(&pickle, SCAN_EMBEDDED_FILE, payload->start,
                        "text that looks like a pickle or archive in base64 or hexadecimal digits");
    if (st == CKPT_OK && is_scanned)
        st = scan_bytes(&value, SCAN_VALUE, &known_bytes, err);
    else if (st == CKPT_OK && payload->may_end_in_zip) {
        x->depth++;
        st = scan_archive_at_end(&value, err);
        x->depth--;
    }
    source_unref(bytes);
    return st;
}

static ckpt_status open_payloads(struct pickle_scan *ps, const struct scan_pickle *pickle, ckpt_error *err)
{
    for (size_t i = 0; i < ps->npayloads; i++)
        CKPT_TRY(open_payload(ps, pickle, &ps->payloads[i], err));
    return !ps->too_many_payloads
               ? CKPT_OK
               : scan_found(ps->x->scan, SCAN_PICKLE_NOT_FOLLOWED, pickle->where, NULL, CKPT_NO_OFFSET,
                            "too many values begin like files: not all were looked into");
}

/* ------------------------------------------------------- is it a pickle? */

/* What some bytes would do if they were a pickle: the result of following them on trial. */
struct trial {
    const struct scan *scan;
    uint64_t counts_from; /* opcodes before this offset do not count */
    uint64_t imports, calls;
    bool runs_code;      /* imports a name that is known to run code */
    bool has_odd_name;   /* imports a name that is not an identifier: rare in pickles, common in prose */
    bool imports_module; /* imports a module whose name is an identifier, perhaps with hyphens */
};

/* is_odd_name - returns true if NAME has other characters than an identifier, dots and those in ALLOWED. */
static bool is_odd_name(ckpt_str name, const char *allowed)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if ((unsigned char)c < 0x80 && c != '_' && c != '.' && !is_ascii_alnum(c) &&
            (!c || !strchr(allowed, c)))
            return true;
    }
    return name.len == 0;
}

/* is_impossible_name - returns true if Python cannot import GLOBAL, so that the bytes are not a pickle. */
static bool is_impossible_name(const struct trace_global *global)
{
    return global->module.len == 0 || !utf8_check(global->module, false, NULL) ||
           !utf8_check(global->name, false, NULL);
}

/* try_step - counts what the pickle does, and ends the trial at an impossible name. An odd name does not end
 * it, because Python imports files of any name, and modules such as torch.ops have attributes of any name. */
static bool try_step(void *user, const struct trace_step *step)
{
    struct trial *t = user;
    const struct trace_global *g = trace_global(step->subject);
    if (step->offset < t->counts_from)
        return true;
    if (step->what == TRACE_STEP_IMPORT && g->has_constant_name && is_impossible_name(g))
        return false;
    bool has_name = step->what == TRACE_STEP_IMPORT && g->has_constant_name;
    bool has_odd_name = has_name && (is_odd_name(g->module, "") || is_odd_name(g->name, ""));
    t->has_odd_name = t->has_odd_name || has_odd_name;
    t->imports_module = t->imports_module || (has_name && !is_odd_name(g->module, "-"));
    t->imports += step->what == TRACE_STEP_IMPORT;
    t->runs_code = t->runs_code || (step->what == TRACE_STEP_IMPORT && t->scan->is_known_exec(t->scan, g));
    t->calls += step->what == TRACE_STEP_CALL;
    return true;
}

/* -------------------------------------------------------------- one pickle */

/* scan_arrays_as_opcodes - scans PICKLE again as pickle.load runs it, which reads the bytes of arrays as
 * opcodes; joblib.load skips them. Does nothing if there is an array of numbers, the first at FIRST_ARRAY,
 * and no opcode from there on imports or calls anything. */
static ckpt_status scan_arrays_as_opcodes(struct pickle_scan *ps, struct scan_pickle *pickle,
                                          uint64_t first_array, ckpt_error *err)
{
    struct scanner *x = ps->x;
    struct trial t = {.scan = x->scan, .counts_from = first_array};
    struct trace_options o = {.joblib_arrays_as_opcodes = true,
                              .opcodes_left = &x->scan->opcodes_left,
                              .step = try_step,
                              .user = &t};
    struct trace_end end;
    ckpt_error why;
    if (scan_note_system_failure(
            x->scan, pickle_trace(pickle->src, pickle->pos, pickle->src->size, &o, &end, &why), &why))
        return CKPT_OK; /* ckpt_scan returns the failure */
    bool acts = t.calls || t.runs_code || (t.imports && !t.has_odd_name);
    if (first_array != UINT64_MAX && !acts)
        return CKPT_OK;
    if (first_array != UINT64_MAX)
        CKPT_TRY(scan_found(x->scan, SCAN_TWO_FORMATS, pickle->where, pickle->src, first_array,
                            "what joblib.load takes for an array, pickle.load takes for opcodes"));
    pickle->arrays_as_opcodes = true;
    return follow_pickle(ps, pickle, &end, err);
}

ckpt_status scan_one_pickle(const struct scanned *in, uint64_t *pos, bool *stopped, ckpt_error *err)
{
    struct scanner *x = in->x;
    struct pickle_scan *ps = arena_alloc(x->a, sizeof *ps);
    struct scan_pickle p = {.where = in->where, .src = in->src, .pos = *pos};
    struct trace_end end, by_frame_end;
    CKPT_TRY_ALLOC(ps, err);
    ps->x = x;
    x->scan->result->pickles++;
    ckpt_scan_record record = {.what = CKPT_SCAN_PICKLE,
                               .where = in->where,
                               .offset = *pos,
                               .weights_only = -1,
                               .file_offset = source_pos(in->src, *pos),
                               .error_offset = CKPT_NO_OFFSET};
    if (!scan_report_record(x->scan, &record))
        return CKPT_ECANCELLED;
    CKPT_TRY(follow_pickle(ps, &p, &end, err));
    *stopped = end.reached_stop;
    if (end.by_frame_differs) {
        p.by_frame = true;
        CKPT_TRY(follow_pickle(ps, &p, &by_frame_end, err));
    }
    if (end.narrays) {
        x->format = x->depth || strcmp(x->format, "pickle") != 0 ? x->format : "joblib";
        p.by_frame = false;
        CKPT_TRY(scan_arrays_as_opcodes(ps, &p, end.first_array, err));
        p.arrays_as_opcodes = false;
    }
    if (end.reached_stop)
        CKPT_TRY(scan_pickle_texts(in, (struct scan_sought){*pos, end.sought_texts, end.narrays > 0}, err));
    scan_count_bytes(in->src, &x->scan->result->in_tensors, end.array_bytes);
    scan_count_bytes(in->src, &x->scan->result->in_pickles, end.next_offset - *pos - end.array_bytes);
    *pos = end.next_offset;
    return open_payloads(ps, &p, err);
}

/* runs_as_pickle - returns true if the bytes at POS run as a pickle, and not merely by chance: they call
 * something, import a name known to run code or, if IS_FIRST in a stream, import any name or end with it. */
static bool runs_as_pickle(const struct scanner *scanner, source *src, uint64_t pos, uint64_t end,
                           bool is_first, struct trace_end *trace_end, struct scan_trial *trial)
{
    struct trial t = {.scan = scanner->scan};
    struct trace_options o = {.opcodes_left = &scanner->scan->opcodes_left, .step = try_step, .user = &t};
    unsigned char last = 0;
    ckpt_error ignored;
    ckpt_status st = pickle_trace(src, pos, end, &o, trace_end, &trial->why);
    if (trace_end->by_frame_differs && st != CKPT_ENOMEM && st != CKPT_EIO) {
        struct trace_end ignored_end;
        o.buffer_frames = true; /* as a loader that reads frame by frame: T counts what it does, too */
        ckpt_status buffered_st = pickle_trace(src, pos, end, &o, &ignored_end, &ignored);
        (void)scan_note_system_failure(scanner->scan, buffered_st, &ignored);
    }
    trial->opcodes = trace_end->opcodes;
    trial->failed_at = trace_end->next_offset;
    trial->imports_module = t.imports_module;
    if (scan_note_system_failure(scanner->scan, st, &trial->why))
        return false;
    bool acts = t.calls > 0 || t.runs_code || (scanner->has_pickle_name && t.imports && !t.has_odd_name);
    scanner->scan->gave_up = scanner->scan->gave_up || (!acts && st == CKPT_ELIMIT);
    if (acts || st == CKPT_ECANCELLED || !is_first || !trace_end->reached_stop)
        return acts;
    if (trace_end->next_offset + 1 == end)
        (void)scan_read(scanner->scan, src, trace_end->next_offset, &last, 1);
    bool ends_stream = trace_end->next_offset == end || last == '\n'; /* an editor may have added a newline */
    return (t.imports && !t.has_odd_name) || ends_stream;
}

/* find_acting_pickle - follows the pickles from *POS on, and moves *POS to the first for which runs_as_pickle
 * is true, or to the first one that is not followed because PICKLES_MAX others were. False: there is none. */
static bool find_acting_pickle(const struct scanner *scanner, source *src, uint64_t *pos, uint64_t end,
                               struct scan_trial *trial)
{
    bool stopped = true;
    for (uint32_t i = 0; stopped && *pos < end; i++) {
        struct trace_end e;
        struct scan_trial tried = {.why.status = CKPT_OK};
        if (i == PICKLES_MAX || runs_as_pickle(scanner, src, *pos, end, i == 0, &e, &tried))
            return true;
        stopped = e.reached_stop;
        if (!stopped && (i == 0 || tried.imports_module))
            *trial = tried;
        *pos = e.next_offset;
    }
    return false;
}

static bool has_protocol(const struct scanner *scanner, source *src, uint64_t pos, uint64_t end)
{
    unsigned char begin[2];
    return end - pos >= 2 && scan_read(scanner->scan, src, pos, begin, 2) && begin[0] == 0x80 &&
           begin[1] <= 5;
}

bool scan_try_pickle(const struct scanner *scanner, source *src, uint64_t pos, uint64_t end, bool head,
                     struct scan_trial *trial)
{
    *trial = (struct scan_trial){.why.status = CKPT_OK};
    return end - pos >= 2 && ((head && has_protocol(scanner, src, pos, end)) ||
                              find_acting_pickle(scanner, src, &pos, end, trial));
}

bool scan_is_pickle(const struct scanner *scanner, source *src, uint64_t pos, uint64_t end, bool head)
{
    struct scan_trial unused;
    return scan_try_pickle(scanner, src, pos, end, head, &unused);
}

/* ------------------------------------------------------------------ streams */

/* scan_after_last_pickle - reports and scans the bytes at POS, after the last pickle. */
static ckpt_status scan_after_last_pickle(const struct scanned *in, uint64_t pos, ckpt_error *err)
{
    uint64_t n = in->src->size - pos;
    CKPT_TRY(SCAN_FOUND(in, SCAN_BYTES_AFTER_STOP, pos, "{%" PRIu64 " byte%s} after {=STOP}", n,
                        n == 1 ? "" : "s"));
    return in->x->depth < in->x->scan->opts->max_depth ? scan_stray_bytes(in, pos, in->src->size, err)
                                                       : CKPT_OK;
}

ckpt_status scan_pickles(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    uint64_t pos = 0;
    uint64_t acting_at = 0; /* of the next pickle that imports or calls; those before it are scanned, too */
    struct scan_trial trial;
    bool stopped = true;
    for (uint32_t i = 0; i < PICKLES_MAX && stopped && pos < in->src->size; i++) {
        if (i && pos > acting_at && !has_protocol(in->x, in->src, pos, in->src->size)) {
            acting_at = pos;
            if (in->src->size - pos < 2 ||
                !find_acting_pickle(in->x, in->src, &acting_at, in->src->size, &trial))
                break;
        }
        CKPT_TRY(scan_one_pickle(in, &pos, &stopped, err));
    }
    *known_bytes += pos;
    return stopped && pos < in->src->size ? scan_after_last_pickle(in, pos, err) : CKPT_OK;
}

/* scan_legacy - scans a legacy stream: five pickles, then the storages (_legacy_save of torch). */
ckpt_status scan_legacy(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    uint64_t pos = 0, end = 0;
    bool stopped = true;
    for (int i = 0; i < 5 && stopped && pos < in->src->size; i++)
        CKPT_TRY(scan_one_pickle(in, &pos, &stopped, err));
    *known_bytes += pos;
    if (!stopped)
        return CKPT_OK;
    CKPT_TRY(scan_check_format(in, "torch-legacy", &end, err));
    if (end == 0)
        return CKPT_OK;
    end = end < pos ? pos : end;
    scan_count_bytes(in->src, &in->x->scan->result->in_tensors, end - pos);
    *known_bytes += end - pos;
    return end < in->src->size ? scan_after_last_pickle(in, end, err) : CKPT_OK;
}
