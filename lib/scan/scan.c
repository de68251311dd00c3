/*
 * scan.c - what a stretch of bytes is, by its content alone, and what scans it.
 *
 * Names and suffixes decide nothing: a pickle called model.txt is loaded just as
 * well. What is not recognized is not clean, it is INCOMPLETE; only the folders in
 * which torch keeps numbers may hold whatever they like.
 */
#include "scan/scan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/json_scan.h"
#include "format/recognize.h"
#include "io/journal.h"
#include "op/digest.h"
#include "scan/judge.h"

#define CHUNK 65536u

ckpt_str scan_join(struct scanner *x, ckpt_str outer, ckpt_str name)
{
    if (!name.ptr)
        return name;
    if (!outer.len)
        return arena_str(x->a, name);
    return arena_printf(x->a, "%.*s!%.*s", (int)(outer.len > 4096 ? 4096 : outer.len), outer.ptr,
                        (int)(name.len > 4096 ? 4096 : name.len), name.ptr);
}

void scan_known(const source *src, uint64_t *kind, uint64_t n)
{
    if (source_pos(src, 0) != CKPT_NO_OFFSET && !checked_add(*kind, n, kind))
        *kind = UINT64_MAX;
}

bool scan_sum_tell(struct scanner *x, ckpt_str where, unsigned readers, struct scan_extent at,
                   const uint8_t *sum)
{
    ckpt_scan_record r = {.what = CKPT_SCAN_MEMBER,
                          .where = where,
                          .offset = CKPT_NO_OFFSET,
                          .file_offset = at.offset,
                          .error_offset = CKPT_NO_OFFSET,
                          .weights_only = -1,
                          .bytes = at.size,
                          .sha256 = sum,
                          .readers = readers};
    return scan_record(x->s, &r);
}

ckpt_status scan_sum(struct scanner *x, source *src, ckpt_str where, unsigned readers, uint8_t *kept,
                     ckpt_error *err)
{
    uint8_t sum[CKPT_DIGEST_MAX];
    if (!x->s->opts->sha256)
        return CKPT_OK;
    CKPT_TRY(digest_source(src, sum, err));
    if (kept)
        memcpy(kept, sum, sizeof sum);
    struct scan_extent at = {source_pos(src, 0), src->size};
    return scan_sum_tell(x, where, readers, at, sum) ? CKPT_OK : CKPT_ECANCELLED;
}

static ckpt_status told(bool go) { return go ? CKPT_OK : CKPT_ECANCELLED; }

/* behind_last - the first byte behind all storages of F. */
static uint64_t behind_last(const ckpt_file *f)
{
    uint64_t last = 0;
    for (size_t i = 0; i < f->table.nstorages; i++) {
        const struct storage *s = &f->table.storages[i];
        uint64_t end = s->off + s->s.nbytes; /* bounded: whoever read it saw that it lies in the file */
        last = end > last ? end : last;
    }
    return last;
}

ckpt_status scan_strict(struct scanner *x, source *src, ckpt_str where, const char *format, uint64_t *end,
                        ckpt_error *err)
{
    ckpt_file *f;
    ckpt_error why;
    const struct format *only = format ? format_by_name(format) : NULL;
    ckpt_status st = format_open(x->path, source_ref(src), NULL, only, &f, &why);
    if (st == CKPT_OK) {
        if (end)
            *end = behind_last(f) | !f->table.nstorages;
        if (!x->format || x->depth == 0)
            x->format = f->format->name;
        file_free(f);
        return CKPT_OK;
    }
    if (st == CKPT_ENOMEM || st == CKPT_EIO) {
        *err = why;
        return st;
    }
    if (st != CKPT_EFORMAT && st != CKPT_ETRUNCATED && st != CKPT_ECHECKSUM)
        return CKPT_OK; /* nothing to object to: it is only not ours to read */
    uint64_t base = source_pos(src, 0);
    bool placed = base != CKPT_NO_OFFSET && why.offset != CKPT_NO_OFFSET && why.offset >= base &&
                  why.offset - base <= src->size; /* bounded: not before */
    return told(scan_found_error(x->s, SCAN_FMT002, where,
                                 (struct scan_place){src, placed ? why.offset - base : CKPT_NO_OFFSET},
                                 &why));
}

/* ------------------------------------------------------------ what it may be */

/* is_text - UTF-8 without characters that text has no use for. */
static bool is_text(struct scan *s, source *src)
{
    char *chunk = malloc(CHUNK);
    bool ok = chunk != NULL;
    uint64_t at = 0;
    if (!ok)
        (void)scan_failed(s, CKPT_ENOMEM, NULL);
    while (ok && at < src->size) {
        size_t n = src->size - at < CHUNK ? (size_t)(src->size - at) : CHUNK, cut = 0;
        ok = scan_read(s, src, at, chunk, n);
        if (ok && at + n < src->size) { /* bounded: n is what is left, at most */
            while (cut < 3 && ((unsigned char)chunk[n - cut - 1] & 0xc0) == 0x80)
                cut++;
            cut += (unsigned char)chunk[n - cut - 1] >= 0xc0;
        }
        ok = ok && utf8_check(str_of(chunk, n - cut), false, NULL);
        for (size_t i = 0; ok && i < n; i++)
            ok = (unsigned char)chunk[i] >= 32 || strchr("\t\n\r\f\x1b", chunk[i]);
        for (size_t i = 0; ok && i < n; i++)
            ok = chunk[i] != '\0';
        at += n - cut; /* bounded: inside the source */
    }
    free(chunk);
    return ok;
}

static ckpt_status all_of(struct scanner *x, source *src, const char *format, uint64_t *known)
{
    *known += src->size; /* bounded: counted once */
    if (x->depth == 0 && !x->format)
        x->format = format;
    return CKPT_OK;
}

/* data_end - behind the last byte that a tensor of a safetensors header lays claim to, for headers of up to
 * 16 MiB; 0: the header does not tell. */
static ckpt_status data_end(struct scanner *x, source *src, uint64_t *end, ckpt_error *err)
{
    unsigned char head[8];
    json_scan j;
    ckpt_error why = {.status = CKPT_OK};
    uint64_t last = 0, v, n;
    bool of_place = false;
    *end = 0;
    CKPT_TRY(source_read(src, 0, head, sizeof head, err));
    if ((n = load_u64le(head)) > ((uint64_t)16 << 20) || n > src->size - 8) /* bounded: it has them */
        return CKPT_OK;
    char *text = arena_alloc(x->a, (size_t)n + 1); /* bounded: 16 MiB */
    if (!text)
        return fail_memory(err);
    CKPT_TRY(source_read(src, 8, text, (size_t)n, err));
    json_init(&j, str_of(text, (size_t)n), 8, x->a, &why);
    for (enum json_event e = json_next(&j); e != JSON_ERROR && e != JSON_END; e = json_next(&j)) {
        if (e == JSON_KEY)
            of_place = str_is(j.str, "data_offsets");
        else if (e == JSON_NUMBER && of_place && json_uint(&j, &v) && v > last)
            last = v;
    }
    if (last && checked_add(last, n + 8, &last) && last < src->size) /* bounded: both inside the file */
        *end = last;
    return CKPT_OK;
}

static ckpt_status safetensors(struct scanner *x, source *src, ckpt_str where, uint64_t *known,
                               ckpt_error *err)
{
    uint64_t before = x->s->result->found[CKPT_SCAN_WARNING];
    x->format = x->depth ? x->format : "safetensors";
    CKPT_TRY(scan_strict(x, src, where, "safetensors", NULL, err));
    if (x->s->result->found[CKPT_SCAN_WARNING] == before) {
        unsigned char head[8];
        if (scan_read(x->s, src, 0, head, sizeof head))
            scan_known(src, &x->s->result->in_tensors,
                       src->size - 8 - load_u64le(head)); /* bounded: checked */
        return all_of(x, src, "safetensors", known);
    }
    uint64_t end;
    CKPT_TRY(data_end(x, src, &end, err));
    return end && x->depth < x->s->opts->max_depth ? scan_stray(x, src, where, end, src->size, err) : CKPT_OK;
}

/* unknown - what it is instead, as far as someone knows. */
static ckpt_status unknown(struct scanner *x, const struct probe *p, const struct signature *s,
                           ckpt_str where, ckpt_error *err)
{
    char found[BYTES_SHOWN];
    CKPT_TRY(scan_marks(x, p->src, where, s && s->kind == SIGN_HDF5, err));
    if (s)
        return told(scan_found(x->s, s->status == CKPT_EUNSUPPORTED ? SCAN_FMT003 : SCAN_FMT001, where,
                               p->src, 0, "%s: no part of it was looked into", s->what));
    return told(scan_found(x->s, SCAN_FMT001, where, p->src, 0,
                           "not {=a recognized checkpoint format}; it begins with {%s}",
                           text_bytes_found(p->head, p->nhead, found)));
}

typedef ckpt_status scan_part(struct scanner *x, source *src, ckpt_str where, uint64_t *known,
                              ckpt_error *err);

/* container_of - what scans P and nothing else: its first bytes leave no doubt. */
static scan_part *container_of(const struct probe *p, const struct signature *s, enum scan_role role)
{
    if (role == SCAN_FILE && recognize_archive(p)) /* it may have a beginning of its own */
        return scan_zip;
    switch (s ? s->kind : SIGN_OTHER) {
    case SIGN_ZIP: return scan_zip;
    case SIGN_TAR: return scan_tar;
    case SIGN_GGUF: return scan_gguf;
    case SIGN_NPY: return p->size >= 12 ? scan_npy : NULL;
    case SIGN_SAFETENSORS: return role != SCAN_STORAGE ? safetensors : NULL;
    default: return NULL;
    }
}

/* also_pickle - the length of a header, a name in a tar, a number in GGUF can be opcodes, and what is loaded
 * as a pickle is one, whatever else it is. Nothing is reported that comes to its end, or fails, before it
 * calls. Not so an archive: "PK" asks a loader for a persistent object first, which pickle.load refuses, and
 * what stands before or between its members is scanned by itself. */
static ckpt_status also_pickle(struct scanner *x, const struct probe *p, ckpt_str where, ckpt_error *err)
{
    source *src = p->src;
    uint64_t known = 0;
    if (!recognize_legacy(p) && !scan_is_pickle(x, src, 0, src->size, false))
        return CKPT_OK;
    const char *format = x->format; /* stays what it was */
    CKPT_TRY(told(scan_found(x->s, SCAN_FMT004, where, src, 0, "polyglot: also a valid pickle")));
    ckpt_status st = scan_pickles(x, src, where, &known, err);
    x->format = format;
    return st;
}

/* is_packed - compressed, as S says or, of what zlib's two bytes begin, as inflating it shows: of text, where
 * they are letters, only if a loader has something to run, wherever the stream breaks off. */
static const char *is_packed(struct scanner *x, const struct probe *p, const struct signature *s,
                             enum scan_role role)
{
    bool lzma = s && s->kind == SIGN_PACKED && strcmp(s->id, "lzma") == 0;
    if (s && s->kind == SIGN_PACKED && !(lzma && role == SCAN_VALUE))
        return s->id;
    if (role == SCAN_VALUE || !recognize_zlib(p))
        return NULL;
    return (s && s->kind == SIGN_ZLIB) || scan_is_zlib(x, p->src, is_text(x->s, p->src)) ? "zlib" : NULL;
}

/* packing_of_storage - numbers may begin like compressed data: only what unpacks to its last byte is that. */
static const char *packing_of_storage(struct scanner *x, const struct probe *p, const struct signature *s)
{
    const char *packing = s && s->kind == SIGN_PACKED ? s->id : recognize_zlib(p) ? "zlib" : NULL;
    return packing && scan_unpacks(x, p->src, packing) ? packing : NULL;
}

/* scan_failed_trial - text that is called as pickles are and goes some way as one: a loader is given it, and
 * whether all loaders fail where this does is not known. */
static bool scan_failed_trial(struct scanner *x, source *src, ckpt_str where, const struct scan_trial *t)
{
    return !x->promised || t->opcodes < 2 ||
           scan_found(x->s, SCAN_PKL013, where, src, t->at,
                      "text, called as a pickle is and beginning as one: %s", t->why.what);
}

/* by_rest - what no first bytes tell for certain. */
static ckpt_status by_rest(struct scanner *x, const struct probe *p, ckpt_str where, enum scan_role role,
                           uint64_t *known, ckpt_error *err)
{
    source *src = p->src;
    const struct signature *s = recognize(p);
    if (s && s->kind == SIGN_LEGACY) {
        x->format = x->depth ? x->format : "torch-legacy";
        return scan_legacy(x, src, where, known, err);
    }
    struct scan_trial trial;
    if (scan_try_pickle(x, src, 0, role == SCAN_FILE || role == SCAN_MEMBER, &trial)) {
        x->format = x->depth ? x->format : "pickle";
        return scan_pickles(x, src, where, known, err);
    }
    if (role == SCAN_STORAGE) {
        const char *packing = packing_of_storage(x, p, s);
        if (packing)
            return scan_packed(x, src, where, packing, known, err);
        scan_known(src, &x->s->result->in_tensors, src->size);
        return all_of(x, src, NULL, known);
    }
    const char *kind = is_packed(x, p, s, role);
    if (kind)
        return scan_packed(x, src, where, kind, known, err);
    if (is_text(x->s, src)) {
        CKPT_TRY(told(scan_failed_trial(x, src, where, &trial)));
        x->format = x->depth || x->format ? x->format : "text";
        return scan_text(x, src, where, known, err);
    }
    if (role == SCAN_VALUE)
        return all_of(x, src, NULL, known);
    bool msgpack;
    CKPT_TRY(scan_msgpack(x, src, where, &msgpack, known, err));
    return msgpack ? CKPT_OK : unknown(x, p, s, where, err);
}

static ckpt_status by_content(struct scanner *x, source *src, ckpt_str where, enum scan_role role,
                              uint64_t *known, ckpt_error *err)
{
    struct probe p = {.size = 0};
    if (src->size == 0)
        return role == SCAN_FILE
                   ? told(scan_found(x->s, SCAN_FMT001, where, NULL, CKPT_NO_OFFSET, "an empty file"))
                   : CKPT_OK;
    CKPT_TRY(recognize_fill(&p, x->path, src, err));
    scan_part *container = container_of(&p, recognize(&p), role);
    CKPT_TRY(container ? container(x, src, where, known, err) : by_rest(x, &p, where, role, known, err));
    if (container == scan_zip)
        return CKPT_OK;
    if (container)
        CKPT_TRY(also_pickle(x, &p, where, err));
    return role == SCAN_STORAGE ? CKPT_OK : scan_end_archive(x, src, where, err);
}

ckpt_status scan_bytes(struct scanner *x, source *src, ckpt_str where, enum scan_role role, uint64_t *known,
                       ckpt_error *err)
{
    uint64_t off;
    size_t opened = x->nopened;
    bool outer = x->promised, unpacked = str_is(str_after_last(where, '!'), "contents");
    if (role != SCAN_FILE && !(role == SCAN_MEMBER && unpacked)) /* which is called as what held it */
        x->promised = role == SCAN_MEMBER && scan_promised(where);
    ckpt_status st = by_content(x, src, where, role, known, err);
    x->promised = outer;
    if (source_root(src, &off) == src) /* nothing else shares its bytes */
        x->nopened = opened;
    return st;
}

ckpt_status scan_stray(struct scanner *x, source *src, ckpt_str outer, uint64_t from, uint64_t to,
                       ckpt_error *err)
{
    source *part = NULL;
    uint64_t known = 0;
    if (from >= to)
        return CKPT_OK;
    ckpt_str where = scan_join(x, outer, arena_printf(x->a, "bytes@0x%" PRIx64, from));
    if (!where.ptr)
        return fail_memory(err);
    bool outer_stray = x->stray;
    const char *format = x->format; /* that of the file, whatever else is in it */
    ckpt_status st = source_slice(src, from, to - from, &part, err);
    x->depth++;
    x->stray = true;
    if (st == CKPT_OK)
        st = scan_bytes(x, part, where, SCAN_VALUE, &known, err);
    x->stray = outer_stray;
    x->depth--;
    x->format = format;
    source_unref(part);
    return st;
}

/* opcodes_for - how many opcodes are followed in a file of SIZE bytes. A pickle has no more of them than
 * bytes, and is followed a few times; what archives unpack to, and what is read again in many places, has to
 * come from the second term. */
static uint64_t opcodes_for(uint64_t size)
{
    uint64_t n;
    return checked_mul(size, 16, &n) && checked_add(n, (uint64_t)64 << 20, &n) ? n : UINT64_MAX;
}

ckpt_status scan_source(const char *path, source *src, struct scan *s, ckpt_error *err)
{
    struct scanner x = {.s = s,
                        .path = path,
                        .file_size = src->size,
                        .a = arena_new((uint64_t)256 << 20),
                        .promised = scan_promised(str_c(path))};
    uint64_t known = 0;
    s->opcodes_left = opcodes_for(src->size);
    ckpt_status st = x.a ? scan_bytes(&x, src, str_of("", 0), SCAN_FILE, &known, err) : fail_memory(err);
    if (st == CKPT_OK && !scan_suffix(&x))
        st = CKPT_ECANCELLED;
    if (st == CKPT_OK && s->gave_up && !s->result->found[CKPT_SCAN_INCOMPLETE])
        st = told(
            scan_found(s, SCAN_PKL013, str_of("", 0), NULL, CKPT_NO_OFFSET,
                       "bytes that may be a pickle take more opcodes or memory to follow than a file of its "
                       "size may take"));
    if (s->cancelled)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped");
    s->result->format = x.format;
    s->result->bytes = src->size;
    s->result->accounted = known < src->size ? known : src->size;
    arena_free(x.a);
    return st;
}

ckpt_status ckpt_scan(const char *path, const ckpt_scan_options *opts,
                      int (*tell)(void *user, const ckpt_scan_record *), void *user, ckpt_scan_result *result,
                      ckpt_error *err)
{
    ckpt_scan_options o;
    ckpt_scan_result found = {0};
    struct scan s = {.opts = &o, .tell = tell, .user = user, .result = &found};
    struct judge *judge = NULL;
    source *src = NULL;
    ckpt_error own;
    err = err ? err : &own;
    CKPT_TRY(sized_clear(result, err));
    CKPT_REQUIRE(err, path);
    CKPT_TRY(sized_take(opts, &o, sizeof o, err));
    o.max_depth = o.max_depth ? o.max_depth : 4;
    o.max_unpacked = o.max_unpacked ? o.max_unpacked : (uint64_t)4 << 30;
    ckpt_error torn;
    ckpt_status half = journal_check(path, NULL, &torn);
    ckpt_status st = source_file_open(path, &src, err);
    if (st == CKPT_OK)
        st = judge_new(&s, &judge, err);
    if (st == CKPT_OK && o.opened && o.opened(user) != 0)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped");
    if (st == CKPT_OK)
        st = scan_source(path, src, &s, err);
    if (st == CKPT_OK && o.sha256)
        st = digest_source(src, found.sha256, err);
    if (st == CKPT_OK)
        st = source_file_changed(src, err);
    if (st == CKPT_OK && half != CKPT_OK) { /* what was told holds for the file as it stands */
        st = half;
        *err = torn;
    }
    if (s.failed.status != CKPT_OK) {
        st = s.failed.status;
        *err = s.failed;
    }
    sized_give(result, &found, sizeof found);
    judge_free(judge);
    source_unref(src);
    fail_file(st == CKPT_OK ? NULL : err, path);
    return st;
}
