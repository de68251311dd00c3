/* registry.c - which format a file is, by its content alone, and opening it. */
#include <stdlib.h>

#include "codec/zip_salvage.h"
#include "core/check.h"
#include "format/names.h"
#include "format/recognize.h"
#include "format/salvage.h"
#include "format/verify.h"

#define FORMAT(id) extern const struct format format_##id;
#include "format/formats.def"
#undef FORMAT

static const struct format *const formats[] = {
#define FORMAT(id) &format_##id,
#include "format/formats.def"
#undef FORMAT
};

#define NFORMATS (sizeof formats / sizeof *formats)

/* detect - the format of what P shows, ONLY or none unless that is NULL. */
static ckpt_status detect(const struct probe *p, const struct format *only, const struct format **out,
                          ckpt_error *err)
{
    for (size_t i = 0; i < NFORMATS; i++)
        if ((!only || only == formats[i]) && formats[i]->probe(p)) {
            *out = formats[i];
            return CKPT_OK;
        }
    return foreign_detect(p, err);
}

const struct format *format_by_name(const char *name)
{
    for (size_t i = 0; i < NFORMATS; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

/* has_suffix - is one of the space-separated SUFFIXES the end of PATH, in capitals or not? */
static bool has_suffix(const char *path, const char *suffixes)
{
    ckpt_str rest = str_c(suffixes ? suffixes : "");
    for (ckpt_str one = str_take_word(&rest); one.len; one = str_take_word(&rest))
        if (str_ends_any_case(str_c(path), one))
            return true;
    return false;
}

const struct format *format_by_suffix(const char *path)
{
    for (size_t i = 0; i < NFORMATS; i++)
        if (formats[i]->write && has_suffix(path, formats[i]->suffixes))
            return formats[i];
    return NULL;
}

ckpt_status format_target(const ckpt_plan *p, const char *path, const char *asked, const struct format **out,
                          ckpt_error *err)
{
    const struct format *f = asked ? format_by_name(asked) : format_by_suffix(path);
    if (asked && (!f || !f->write)) {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "cannot write format \"%s\"", asked);
        fail_hint(err, "torch-zip and safetensors can be written");
        return CKPT_EUSAGE;
    }
    if (!f && p->file->format->write)
        f = p->file->format;
    *out = f ? f : format_by_name("torch-zip");
    return CKPT_OK;
}

static void free_zip(void *z) { zip_close(z); }

static ckpt_status probe_fill(ckpt_file *f, struct probe *p, ckpt_error *err)
{
    p->path = f->path;
    p->directory = f->src == NULL;
    p->salvage = f->salvage;
    if (p->directory)
        return CKPT_OK;
    CKPT_TRY(recognize_fill(p, f->path, f->src, err));
    if (recognize_archive(p)) {
        ckpt_status st = f->salvage ? zip_salvage(f->src, f->a, &p->z, &p->zip_err)
                                    : zip_open(f->src, f->a, &p->z, &p->zip_err);
        if (st != CKPT_OK)
            p->z = NULL;
        f->container = p->z;
        f->container_free = free_zip;
    }
    return CKPT_OK;
}

static ckpt_status read_file(ckpt_file *f, struct probe *p, const struct format *only, ckpt_error *err)
{
    CKPT_TRY(probe_fill(f, p, err));
    CKPT_TRY(detect(p, only, &f->format, err));
    f->probe = p;
    ckpt_status st = f->format->read(f, err);
    f->probe = NULL;
    CKPT_TRY(st);
    arena_trim(f->a);
    CKPT_TRY(table_finish(&f->table, err));
    file_limit_views(f); /* of a folder all sizes are known now */
    return f->salvage ? salvage_rows(f, err) : CKPT_OK;
}

/* settled - ST, what came of reading F, or CKPT_ECHANGED where it was being edited: then that is why. */
static ckpt_status settled(const ckpt_file *f, ckpt_status st, ckpt_error *err)
{
    ckpt_error own;
    if (!f->src || st == CKPT_ENOMEM || journal_settled(f->path, f->src, &own) == CKPT_OK)
        return st;
    *err = own;
    return own.status;
}

enum how { WHOLE, SALVAGE, SALVAGE_PART };

/* open_as - format_open; faults go to C, or (SALVAGE) make tensors lost. */
static ckpt_status open_as(const char *path, source *src, const ckpt_limits *limits,
                           const struct format *only, struct check *c, enum how how, ckpt_file **out,
                           ckpt_error *err)
{
    ckpt_file *f;
    struct probe *p = calloc(1, sizeof *p);
    if (!p) {
        source_unref(src);
        return fail_memory(err);
    }
    ckpt_status st = file_new(path, src, limits, &f, err);
    if (st == CKPT_OK) {
        f->check = c;
        f->salvage = how == SALVAGE || how == SALVAGE_PART;
        st = settled(f, file_explained(f, read_file(f, p, only, err), err), err);
        f->check = NULL;
        if (st != CKPT_OK && how == SALVAGE && p->z)
            salvage_raw(p->z, err);
        if (st == CKPT_OK && how == SALVAGE)
            salvage_blind(f);
        if (st == CKPT_OK)
            *out = f;
        else
            file_free(f);
    }
    free(p);
    fail_file(st == CKPT_OK ? NULL : err, path);
    return st;
}

ckpt_status format_open(const char *path, source *src, const ckpt_limits *limits, const struct format *only,
                        ckpt_file **out, ckpt_error *err)
{
    ckpt_error own;
    return open_as(path, src, limits, only, NULL, WHOLE, out, err ? err : &own);
}

ckpt_status format_open_source(const char *path, struct journal_note *note, source **out, ckpt_error *err)
{
    *out = NULL;
    ckpt_status st = source_is_folder(path) ? CKPT_OK : journal_open(path, note, out, err);
    fail_file(st == CKPT_OK ? NULL : err, path);
    return st;
}

/* replace_hint - HINT in the place of what ERR has. */
static void replace_hint(ckpt_error *err, const char *hint)
{
    if (err)
        err->hint[0] = '\0';
    fail_hint(err, "%s", hint);
}

/* open_names - SRC (taken over), which did not open because of ERR, as a list of names; ERR stays where it is
 * none. */
static ckpt_status open_names(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out,
                              const ckpt_error *err)
{
    ckpt_status why = err->status;
    bool may_be = why == CKPT_EUNKNOWN || why == CKPT_EFORMAT || why == CKPT_ETRUNCATED;
    if (may_be && names_open(path, source_ref(src), limits, out, NULL) == CKPT_OK)
        why = CKPT_OK;
    source_unref(src);
    return why;
}

ckpt_status format_open_path(const char *path, bool names, const ckpt_limits *limits, ckpt_file **out,
                             ckpt_error *err)
{
    source *src;
    struct journal_note note = {.judge = format_judge(path)};
    CKPT_TRY(format_open_source(path, &note, &src, err));
    source *again = names && src ? source_ref(src) : NULL;
    ckpt_status st = format_open(path, src, limits, NULL, out, err);
    if (again && st != CKPT_OK)
        st = open_names(path, again, limits, out, err);
    else
        source_unref(again);
    if (note.text[0] && st == CKPT_OK)
        file_notice(*out, "%s", note.text);
    else if (note.text[0] && check_is_fault(st)) /* which may be what that journal would undo */
        replace_hint(err, note.text);
    return st;
}

/* is_verdict - ST is about what the file holds: said of one that is damaged already, it
 * is one more sign of that. */
static bool is_verdict(ckpt_status st)
{
    return st == CKPT_EUNKNOWN || st == CKPT_EUNSUPPORTED || st == CKPT_ELIMIT || st == CKPT_ELOSSY;
}

ckpt_status format_check(const char *path, source *src, const ckpt_limits *limits, struct check *c,
                         ckpt_file **out, ckpt_error *err)
{
    ckpt_error own, told;
    err = err ? err : &own;
    *out = NULL;
    source *again = c ? src : NULL;
    uint64_t before = c ? c->result->findings : 0;
    ckpt_status st = again ? check_watch_source(c, source_ref(again), err) : CKPT_OK;
    if (st != CKPT_OK) {
        source_unref(src);
        return st;
    }
    st = open_as(path, src, limits, NULL, c, WHOLE, out, err);
    if (c && (check_is_fault(st) || (c->result->findings && is_verdict(st)))) {
        fail_file(err, path);
        told = *err;
        st = check_report_fault(c, path, &told, err);
    }
    if (again && st == CKPT_OK)
        st = verify_records(path, again, before, c, err);
    if (st != CKPT_OK) {
        file_free(*out);
        *out = NULL;
        fail_file(err, path);
    }
    return st;
}

ckpt_status format_part(ckpt_file *f, const char *path, source *src, ckpt_file **out, ckpt_error *err)
{
    return f->salvage ? open_as(path, src, &f->limits, NULL, NULL, SALVAGE_PART, out, err)
                      : format_check(path, src, &f->limits, f->check, out, err);
}

ckpt_status format_salvage(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out,
                           ckpt_error *err)
{
    ckpt_error own;
    return open_as(path, src, limits, NULL, NULL, SALVAGE, out, err ? err : &own);
}
