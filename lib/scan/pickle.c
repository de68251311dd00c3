/*
 * pickle.c - streams of pickles, each followed twice: once to see how it
 * ends and whether there is something to tell, and again to tell it, so that
 * each call can be said to run before an error that comes later.
 *
 * A file may hold several pickles, one behind the other, and a loader that is
 * called again reads the next one. What follows the last is told.
 */
#include <inttypes.h>

#include "base/utf8.h"
#include "codec/pickle_line.h"
#include "codec/pickle_trace.h"
#include "io/reader.h"
#include "scan/scan.h"

#define PICKLES 65536u /* in one stream */

struct follow {
    struct scanner *x;
    struct trace_payload *payloads;
    size_t npayloads, cap_payloads;
    bool telling, full;
};

static bool take_step(void *user, const struct trace_step *s)
{
    struct follow *f = user;
    struct scan *to = f->x->s;
    if (s->what == TRACE_STEP_PAYLOAD && !f->telling) {
        struct trace_payload *grown = arena_grow(f->x->a, f->payloads, f->npayloads, &f->cap_payloads,
                                                 f->npayloads + 1, sizeof *grown);
        f->full = f->full || !grown;
        if (f->full)
            return arena_full(f->x->a) || !scan_failed(to, CKPT_ENOMEM, NULL);
        f->payloads = grown;
        grown[f->npayloads++] = *s->payload;
    }
    return to->step(to->judge, s);
}

/* explain - a finding for how a pickle broke off; other failures are passed on. */
static ckpt_status explain(struct scanner *x, const struct scan_pickle *p, const struct trace_end *end,
                           const ckpt_error *why)
{
    if (why->status == CKPT_EIO || why->status == CKPT_ENOMEM || why->status == CKPT_ECANCELLED)
        return why->status;
    enum scan_rule rule = why->status == CKPT_ELIMIT ? SCAN_PKL013 : SCAN_PKL006;
    return scan_found(x->s, rule, p->where, p->src, end->next, "%s", why->what) ? CKPT_OK : CKPT_ECANCELLED;
}

/* once - one reading of the pickle P: weighed, then told. */
static ckpt_status once(struct follow *f, const struct scan_pickle *p, struct trace_end *end, ckpt_error *err)
{
    struct scan *s = f->x->s;
    struct trace_options o = {.framed = p->framed,
                              .plain = p->plain,
                              .payloads = !p->framed && !p->plain,
                              .left = &s->opcodes_left,
                              .step = take_step,
                              .user = f};
    ckpt_error why;
    ckpt_status st = s->begin(s->judge, p, false, CKPT_NO_OFFSET);
    if (st != CKPT_OK)
        return fail_memory(err);
    f->telling = false;
    why.status = pickle_trace(p->src, p->pos, p->src->size, &o, end, &why);
    ckpt_error first = why;
    if (s->end(s->judge, end)) {
        struct trace_end again;
        uint64_t broken = first.status == CKPT_OK ? CKPT_NO_OFFSET : end->next;
        (void)s->begin(s->judge, p, true, broken);
        f->telling = true;
        st = pickle_trace(p->src, p->pos, p->src->size, &o, &again, &why);
        if (st == CKPT_ECANCELLED || st == CKPT_ENOMEM || st == CKPT_EIO) {
            *err = why;
            return st;
        }
        (void)s->end(s->judge, &again);
    }
    if (first.status == CKPT_OK || p->framed || p->plain)
        return CKPT_OK;
    st = explain(f->x, p, end, &first);
    if (st != CKPT_OK)
        *err = first;
    return st;
}

/* latin1_count - how many bytes the N bytes of text at START stand for, each up to U+00FF. */
static bool latin1_count(struct scan *s, source *src, uint64_t start, uint64_t n, uint64_t *count)
{
    reader r;
    ckpt_error why;
    bool ok = reader_init(&r, src, start, start + n, &why) == CKPT_OK; /* bounded: the value lies there */
    unsigned char lead = 0;
    *count = 0;
    while (ok && reader_left(&r)) {
        size_t part = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        const unsigned char *b = reader_take(&r, part);
        ok = b != NULL;
        for (size_t i = 0; ok && i < part; i++) {
            bool tail = (b[i] & 0xc0) == 0x80;
            ok = tail == (lead != 0) && (tail || b[i] < 0x80 || b[i] == 0xc2 || b[i] == 0xc3);
            lead = b[i] >= 0xc0 ? b[i] : 0;
            *count += lead == 0; /* bounded: no more than bytes */
        }
    }
    (void)scan_failed(s, r.status, &why);
    reader_free(&r);
    return ok && lead == 0;
}

/* part_of - the bytes that payload V stands for; NULL: it stands for none. */
static ckpt_status part_of(struct scan *s, source *src, const struct trace_payload *v, source **out,
                           ckpt_error *err)
{
    uint64_t count;
    *out = NULL;
    if (v->as == TRACE_AS_UNICODE || v->as == TRACE_AS_STRING)
        return pickle_line_spool(v, src, out, err);
    if (v->as == TRACE_AS_BYTES)
        return source_slice(src, v->start, v->size, out, err);
    return latin1_count(s, src, v->start, v->size, &count)
               ? source_latin1(src, v->start, v->size, count, out, err)
               : CKPT_OK;
}

/* encoded - does it begin with the letters that base64 or hex makes of a file's first bytes? */
static bool encoded(struct scan *s, source *part)
{
    static const char *const begins[] = {"8002", "8003", "8004", "8005", "UEsDB", "H4sI"};
    char head[5];
    if (!scan_read(s, part, 0, head, sizeof head)) /* payloads of less than 16 bytes are told by none */
        return false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (memcmp(head, begins[i], strlen(begins[i])) == 0)
            return true;
    return head[0] == 'g' && head[1] == 'A' && head[2] >= 'I' && head[2] <= 'X'; /* 80, 2 to 5 */
}

static ckpt_status open_payload(struct follow *f, const struct scan_pickle *p, const struct trace_payload *v,
                                ckpt_error *err)
{
    struct scanner *x = f->x;
    source *part;
    uint64_t known = 0;
    ckpt_str where = scan_join(x, p->where, arena_printf(x->a, "value@0x%" PRIx64, v->start));
    if (!where.ptr)
        return fail_memory(err);
    if (x->depth >= x->s->opts->max_depth)
        return scan_found(x->s, SCAN_ARC002, where, p->src, v->start, "is nested too deep to be opened")
                   ? CKPT_OK
                   : CKPT_ECANCELLED;
    CKPT_TRY(part_of(x->s, p->src, v, &part, err));
    if (!part || (v->pickle && !scan_is_pickle(x, part, 0, part->size, false))) {
        source_unref(part);
        return CKPT_OK;
    }
    /* "UEsDB" is base64 of an archive, and a SHORT_BINSTRING: what is told does not spare a look */
    bool go = !encoded(x->s, part) ||
              scan_found(x->s, SCAN_PKL011, p->where, p->src, v->start,
                         "text that looks like a pickle or archive in base64 or hexadecimal digits");
    x->depth++;
    ckpt_status st = go ? scan_bytes(x, part, where, SCAN_VALUE, &known, err) : CKPT_ECANCELLED;
    x->depth--;
    source_unref(part);
    return st;
}

static ckpt_status open_payloads(struct follow *f, const struct scan_pickle *p, ckpt_error *err)
{
    for (size_t i = 0; i < f->npayloads; i++)
        CKPT_TRY(open_payload(f, p, &f->payloads[i], err));
    if (f->full && !scan_found(f->x->s, SCAN_PKL013, p->where, NULL, CKPT_NO_OFFSET,
                               "too many values begin like files to look into all"))
        return CKPT_ECANCELLED;
    return CKPT_OK;
}

/* ------------------------------------------------------- is it one at all? */

struct trial {
    const struct scan *s;
    uint64_t from; /* opcodes before do not count */
    uint64_t imports, calls;
    bool suspect;
    bool odd; /* has imported a name that is no identifier: rare in pickles, common in prose */
};

static bool odd(ckpt_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < 0x80 && c != '_' && c != '.' && !(c >= '0' && c <= '9') &&
            !((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
            return true;
    }
    return name.len == 0;
}

/* never - names that no Python takes: chance, not a pickle. */
static bool never(const struct trace_global *g)
{
    return g->module.len == 0 || !utf8_check(g->module, false, NULL) || !utf8_check(g->name, false, NULL);
}

/* try_step - an odd name alone ends nothing: Python imports files of any name, and modules such as torch.ops
 * have attributes of any name. What follows tells prose from a pickle. */
static bool try_step(void *user, const struct trace_step *s)
{
    struct trial *t = user;
    const struct trace_global *g = trace_global(s->subject);
    if (s->offset < t->from)
        return true;
    if (s->what == TRACE_STEP_IMPORT && g->literal && never(g))
        return false;
    t->odd = t->odd || (s->what == TRACE_STEP_IMPORT && g->literal && (odd(g->module) || odd(g->name)));
    t->imports += s->what == TRACE_STEP_IMPORT;
    t->suspect = t->suspect || (s->what == TRACE_STEP_IMPORT && t->s->suspect(g));
    t->calls += s->what == TRACE_STEP_CALL;
    return true;
}

/* ----------------------------------------------------------------- readings */

/* as_pickle - pickle.load takes the bytes of joblib's arrays, the first at ARRAY, for opcodes; where they are
 * any, that is followed, too. */
static ckpt_status as_pickle(struct follow *f, struct scan_pickle *p, uint64_t array, ckpt_error *err)
{
    struct scanner *x = f->x;
    struct trial t = {.s = x->s, .from = array};
    struct trace_options o = {.plain = true, .left = &x->s->opcodes_left, .step = try_step, .user = &t};
    struct trace_end end;
    ckpt_error why;
    if (scan_failed(x->s, pickle_trace(p->src, p->pos, p->src->size, &o, &end, &why), &why))
        return CKPT_OK; /* told when all is done */
    bool opcodes = t.calls || t.suspect || (t.imports && !t.odd);
    if (array != UINT64_MAX && !opcodes)
        return CKPT_OK;
    if (array != UINT64_MAX &&
        !scan_found(x->s, SCAN_FMT004, p->where, p->src, array,
                    "what joblib.load takes for an array, pickle.load takes for opcodes"))
        return CKPT_ECANCELLED;
    p->plain = true;
    return once(f, p, &end, err);
}

ckpt_status scan_one_pickle(struct scanner *x, source *src, ckpt_str where, uint64_t *pos, bool *stopped,
                            ckpt_error *err)
{
    struct follow *f = arena_alloc(x->a, sizeof *f);
    struct scan_pickle p = {.where = where, .src = src, .pos = *pos};
    struct trace_end end, other;
    if (!f)
        return fail_memory(err);
    f->x = x;
    x->s->result->pickles++;
    ckpt_scan_record begins = {.what = CKPT_SCAN_PICKLE,
                               .where = where,
                               .offset = *pos,
                               .weights_only = -1,
                               .file_offset = source_pos(src, *pos),
                               .error_offset = CKPT_NO_OFFSET};
    if (!scan_record(x->s, &begins))
        return CKPT_ECANCELLED;
    CKPT_TRY(once(f, &p, &end, err));
    *stopped = end.stopped;
    if (end.framed_differs) {
        p.framed = true;
        CKPT_TRY(once(f, &p, &other, err));
    }
    if (end.arrays) {
        x->format = x->depth || strcmp(x->format, "pickle") != 0 ? x->format : "joblib";
        p.framed = false;
        CKPT_TRY(as_pickle(f, &p, end.array, err));
        p.plain = false;
    }
    scan_known(src, &x->s->result->in_tensors, end.array_bytes);
    scan_known(src, &x->s->result->in_pickles, end.next - *pos - end.array_bytes); /* bounded: part of it */
    *pos = end.next;
    return open_payloads(f, &p, err);
}

/* runs - one pickle at POS: what it does tells it from chance, and of the FIRST how it ends, too. */
static bool runs(const struct scanner *x, source *src, uint64_t pos, uint64_t end, bool first,
                 struct trace_end *e, ckpt_error *why)
{
    struct trial t = {.s = x->s};
    struct trace_options o = {.left = &x->s->opcodes_left, .step = try_step, .user = &t};
    unsigned char last = 0;
    ckpt_status st = pickle_trace(src, pos, end, &o, e, why);
    if (e->framed_differs && st != CKPT_ENOMEM && st != CKPT_EIO) {
        struct trace_end other; /* of a loader that reads other opcodes */
        ckpt_error ignored;
        o.framed = true;
        ckpt_status again = pickle_trace(src, pos, end, &o, &other, &ignored);
        (void)scan_failed(x->s, again, &ignored);
    }
    if (scan_failed(x->s, st, why))
        return false;
    bool acts = t.calls > 0 || t.suspect || (x->promised && t.imports && !t.odd);
    x->s->gave_up = x->s->gave_up || (!acts && st == CKPT_ELIMIT);
    if (acts || st == CKPT_ECANCELLED || !first || !e->stopped)
        return acts;
    if (e->next + 1 == end) /* bounded: before the end */
        (void)scan_read(x->s, src, e->next, &last, 1);
    return (t.imports && !t.odd) || e->next == end || last == '\n';
}

/* row - at *POS, one pickle after the other until one does something: it does, and *POS is where that
 * begins. Of more than are followed, the next one is taken for such a one. */
static bool row(const struct scanner *x, source *src, uint64_t *pos, uint64_t end, struct scan_trial *trial)
{
    bool stopped = true;
    *trial = (struct scan_trial){.why.status = CKPT_OK};
    for (uint32_t i = 0; stopped && *pos < end; i++) {
        struct trace_end e;
        ckpt_error why;
        if (i == PICKLES || runs(x, src, *pos, end, i == 0, &e, &why))
            return true;
        stopped = e.stopped;
        if (i == 0 && !stopped)
            *trial = (struct scan_trial){e.opcodes, e.next, why};
        *pos = e.next;
    }
    return false;
}

static bool has_protocol(const struct scanner *x, source *src, uint64_t pos, uint64_t end)
{
    unsigned char begin[2];
    return end - pos >= 2 && scan_read(x->s, src, pos, begin, 2) && begin[0] == 0x80 && begin[1] <= 5;
}

bool scan_try_pickle(const struct scanner *x, source *src, uint64_t pos, bool head, struct scan_trial *trial)
{
    *trial = (struct scan_trial){.why.status = CKPT_OK};
    if (src->size - pos < 2) /* bounded: inside the source */
        return false;
    return (head && has_protocol(x, src, pos, src->size)) || row(x, src, &pos, src->size, trial);
}

bool scan_is_pickle(const struct scanner *x, source *src, uint64_t pos, uint64_t end, bool head)
{
    struct scan_trial trial;
    if (end - pos < 2)
        return false;
    return (head && has_protocol(x, src, pos, end)) || row(x, src, &pos, end, &trial);
}

/* ------------------------------------------------------------------ streams */

/* behind - what follows the last pickle at POS. */
static ckpt_status behind(struct scanner *x, source *src, ckpt_str where, uint64_t pos, ckpt_error *err)
{
    uint64_t n = src->size - pos;
    if (!scan_found(x->s, SCAN_PKL010, where, src, pos, "{%" PRIu64 " byte%s} after {=STOP}", n,
                    n == 1 ? "" : "s"))
        return CKPT_ECANCELLED;
    return x->depth < x->s->opts->max_depth ? scan_stray(x, src, where, pos, src->size, err) : CKPT_OK;
}

ckpt_status scan_pickles(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err)
{
    uint64_t pos = 0, acts = 0; /* up to where one acts, all are pickles */
    struct scan_trial trial;
    bool stopped = true;
    for (uint32_t i = 0; i < PICKLES && stopped && pos < src->size; i++) {
        if (i && pos > acts && !has_protocol(x, src, pos, src->size)) {
            acts = pos;
            if (src->size - pos < 2 || !row(x, src, &acts, src->size, &trial)) /* bounded: inside */
                break;
        }
        CKPT_TRY(scan_one_pickle(x, src, where, &pos, &stopped, err));
    }
    *known += pos; /* bounded: inside the source */
    return stopped && pos < src->size ? behind(x, src, where, pos, err) : CKPT_OK;
}

/* scan_legacy - five pickles, then the storages: torch/serialization.py, _legacy_save. */
ckpt_status scan_legacy(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err)
{
    uint64_t pos = 0, end = 0;
    bool stopped = true;
    for (int i = 0; i < 5 && stopped && pos < src->size; i++)
        CKPT_TRY(scan_one_pickle(x, src, where, &pos, &stopped, err));
    *known += pos; /* bounded: inside the source */
    if (!stopped)
        return CKPT_OK;
    CKPT_TRY(scan_strict(x, src, where, "torch-legacy", &end, err));
    if (end == 0)
        return CKPT_OK;
    end = end < pos ? pos : end;
    scan_known(src, &x->s->result->in_tensors, end - pos); /* bounded: not before */
    *known += end - pos;                                   /* bounded: both inside the source */
    return end < src->size ? behind(x, src, where, end, err) : CKPT_OK;
}
