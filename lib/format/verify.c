/* verify.c - a file held against the rules of its container: what reading it for its
 * tensors passes over. */
#include "format/verify.h"

#include "codec/zip_audit.h"
#include "format/recognize.h"

/* ------------------------------------------------------------------ archives */

static void drop_zip(void *z) { zip_close(z); }

/* told - ST, unless it is a fault: then it is told. */
static ckpt_status told(struct check *c, const char *path, ckpt_status st, ckpt_error *err)
{
    ckpt_error e;
    if (!check_is_fault(st))
        return st;
    e = *err;
    return check_report_fault(c, path, &e, err);
}

/* around - bytes in front of the archive and behind it. */
static ckpt_status around(const zip *z, const char *path, struct check *c, ckpt_error *err)
{
    ckpt_error e = {0};
    if (z->shift) {
        (void)fail(&e, CKPT_EFORMAT, source_pos(z->src, 0),
                   "{%llu bytes} in front of {=the archive} belong to nothing", (unsigned long long)z->shift);
        fail_hint(&e, "torch.load refuses the file like that");
        CKPT_TRY(check_report(c, CHECK_STRAY, path, &e, err));
    }
    if (z->end == z->src->size)
        return CKPT_OK;
    (void)fail(&e, CKPT_EFORMAT, source_pos(z->src, z->end),
               "{%llu unreferenced bytes} after {=the archive}",
               (unsigned long long)(z->src->size - z->end));
    return check_report(c, CHECK_STRAY, path, &e, err);
}

static ckpt_status duplicates(const zip *z, const char *path, struct check *c, ckpt_error *err)
{
    ckpt_error e = {0};
    for (size_t i = 0; i < z->n; i++) {
        const struct zip_entry *x = &z->entries[i];
        if (!x->duplicate || zip_find(z, x->name) == (int64_t)i)
            continue;
        (void)fail(
            &e, CKPT_EFORMAT, source_pos(z->src, x->header),
            "{a second record} of this name, {=the first} is at %llu; readers disagree on which counts",
            (unsigned long long)z->entries[zip_find(z, x->name)].header);
        fail_where(&e, "%.*s", STR_ARG(x->name));
        CKPT_TRY(check_report(c, CHECK_DUPLICATE, path, &e, err));
    }
    return CKPT_OK;
}

static ckpt_str folder_of(ckpt_str name)
{
    while (name.len && name.ptr[name.len - 1] != '/')
        name.len--;
    return name;
}

/* with_checksums - folders of which some record has a CRC-32: torch can be told to write
 * none, and then those of all storages are 0. NULL: no memory. */
static map *with_checksums(const zip *z)
{
    map *folders = map_new(16);
    bool ok = folders != NULL;
    for (size_t i = 0; ok && i < z->n; i++)
        if (z->entries[i].crc)
            ok = map_put(folders, folder_of(z->entries[i].name), 1, NULL);
    if (ok)
        return folders;
    map_free(folders);
    return NULL;
}

/* entry - its headers agree; what it holds is listed to be read if it has a CRC-32. */
static ckpt_status entry(zip *z, size_t i, const map *crcs, const char *path, struct check *c,
                         ckpt_error *err)
{
    const struct zip_entry *x = &z->entries[i];
    struct check_record r = {.name = x->name, .path = path, .crc = x->crc};
    ckpt_status st = zip_data(z, i, err);
    if (st == CKPT_OK)
        st = zip_member(z, i, &r.src, err);
    if (st != CKPT_OK)
        return told(c, path, st, err);
    if (map_get(crcs, folder_of(x->name)) == MAP_NONE) {
        source_unref(r.src);
        return CKPT_OK;
    }
    r.file_offset = source_pos(r.src, 0);
    return check_add_record(c, &r, err);
}

/* What an audit tells goes through here. */
struct audited {
    struct check *c;
    const char *path;
    ckpt_error *err;
    ckpt_status status;
};

static void flaw(void *user, const struct zip_flaw *f)
{
    struct audited *t = user;
    ckpt_error e = {0};
    if (t->status != CKPT_OK)
        return;
    if (f->text && f->value)
        (void)fail(&e, CKPT_EFORMAT, f->at, "%s %llu", f->text, (unsigned long long)f->value);
    else if (f->text)
        (void)fail(&e, CKPT_EFORMAT, f->at, "%s", f->text);
    else
        (void)fail(&e, CKPT_EFORMAT, f->at, "%s: {%llu} here, {=%llu} in the directory at byte %llu", f->what,
                   (unsigned long long)f->value, (unsigned long long)f->other_value,
                   (unsigned long long)f->other);
    fail_where(&e, "%.*s", STR_ARG(f->name));
    t->status = check_report(t->c, CHECK_MALFORMED, t->path, &e, t->err);
}

/* audit - what no reading needs and yet is said twice: descriptors, times, flags, members
 * that no directory lists. Of an archive that was found wrong already it says nothing new. */
static ckpt_status audit(source *src, const char *path, struct check *c, ckpt_error *err)
{
    struct audited t = {.c = c, .path = path, .err = err};
    struct zip_audit z = {.src = src, .a = c->a, .flaw = flaw, .user = &t};
    ckpt_status st = zip_audit(&z, err);
    return t.status != CKPT_OK ? t.status : check_is_fault(st) ? CKPT_OK : st;
}

static bool like_archive(const char *path, source *src)
{
    struct probe p = {.size = 0};
    return recognize_fill(&p, path, src, NULL) == CKPT_OK && recognize_archive(&p);
}

ckpt_status verify_records(const char *path, source *src, uint64_t before, struct check *c, ckpt_error *err)
{
    zip *z;
    if (!like_archive(path, src))
        return CKPT_OK;
    ckpt_status st = zip_open(src, c->a, &z, err);
    const char *kept = arena_str(c->a, str_c(path)).ptr;
    if (st == CKPT_EFORMAT && kept) /* told by whoever read it as a checkpoint; not so the rest */
        return audit(src, kept, c, err);
    if (st != CKPT_OK)
        return st == CKPT_ENOMEM ? st : CKPT_OK;
    c->drop = drop_zip;
    CKPT_TRY(check_keep_object(c, z, err));
    if (!kept)
        return fail_memory(err);
    zip_locate(z);
    CKPT_TRY(around(z, kept, c, err));
    CKPT_TRY(duplicates(z, kept, c, err));
    map *crcs = with_checksums(z);
    st = crcs ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < z->n; i++)
        st = entry(z, i, crcs, kept, c, err);
    map_free(crcs);
    return st == CKPT_OK && c->result->findings == before ? audit(src, kept, c, err) : st;
}

/* ---------------------------------------------------------------------- all */

ckpt_status format_verify(const char *path, struct check *c, ckpt_file **out, ckpt_error *err)
{
    source *src;
    *out = NULL;
    CKPT_TRY(format_open_source(path, NULL, &src, err));
    c->result->bytes = src ? src->size : 0;
    CKPT_TRY(format_check(path, src, c->opts->limits, c, out, err));
    if (*out) {
        c->result->format = (*out)->format->name;
        c->result->tensors = (*out)->table.nrows;
        c->result->bytes = (*out)->nbytes;
    }
    return CKPT_OK;
}
