/*
 * archive.c - records, pickles and storages in torch's archives.
 *
 *   <top>/data.pkl          one pickle (torch.save, TorchScript)
 *   <top>/data/<key>        the whole of one storage, nothing else
 *   <top>/tensors/<key>     the same, torch 1.4
 *   <top>/byteorder         "little" or "big"; absent before 2.1: little
 *
 * Refused: a storage that has no record, two records of one name (readers
 * disagree on which one counts), a byte order that is neither. A record that is
 * longer than its persistent id states keeps to what the id states, as torch's
 * reader did up to 2.9; a shorter one is refused by whoever asked for it.
 */
#include "format/torch/archive.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "codec/pickle_read.h"
#include "core/check.h"
#include "core/dtype.h"

#define CHUNK (256u * 1024u)

static ckpt_str folder_of(ckpt_str name)
{
    while (name.len && name.ptr[name.len - 1] != '/')
        name.len--;
    return name;
}

static bool same_letters(ckpt_str s, const char *lower)
{
    size_t n = strlen(lower);
    for (size_t i = 0; s.len == n && i < n; i++)
        if ((s.ptr[i] >= 'A' && s.ptr[i] <= 'Z' ? s.ptr[i] - 'A' + 'a' : s.ptr[i]) != lower[i])
            return false;
    return s.len == n;
}

bool torch_archive_top(const zip *z, ckpt_str *top, bool *many)
{
    ckpt_str first = z->n ? z->entries[0].name : str_of("", 0);
    size_t slash = str_find(first, STR_LIT("/"), 0), found = 0;
    first.len = slash == SIZE_MAX ? 0 : slash + 1;
    *many = false;
    for (size_t i = 0; i < z->n; i++) {
        ckpt_str name = z->entries[i].name, folder = folder_of(name);
        if (!same_letters(str_skip(name, folder.len), "data.pkl"))
            continue;
        if (str_eq(folder, first)) {
            *top = folder;
            *many = false;
            return true;
        }
        *many = *many || (found && !str_eq(folder, *top));
        if (found++ == 0)
            *top = folder;
    }
    return found > 0;
}

static void archive_free(void *user)
{
    struct torch_archive *ta = user;
    for (size_t i = 0; i < ta->nkept; i++)
        source_unref(ta->kept[i]);
    zip_close(ta->z);
    buf_free(&ta->name);
    free(ta);
}

/* An archive whose storages all say CRC 0 was written without
 * (torch.serialization.set_crc32_options). */
static bool storages_say_zero(const struct torch_archive *ta)
{
    ckpt_str folder = buf_view(&ta->name);
    bool any = false;
    for (size_t i = 0; i < ta->z->n; i++) {
        const struct zip_entry *e = &ta->z->entries[i];
        if (!str_starts(e->name, folder))
            continue;
        if (e->crc)
            return false;
        any |= e->usize > 0;
    }
    return any;
}

static void start_name(struct torch_archive *ta, const char *name)
{
    ta->name.len = 0;
    buf_str(&ta->name, ta->top);
    buf_text(&ta->name, name);
}

static bool has_folder(struct torch_archive *ta, const char *folder)
{
    start_name(ta, folder);
    for (size_t i = 0; i < ta->z->n; i++)
        if (str_starts(ta->z->entries[i].name, buf_view(&ta->name)))
            return true;
    return false;
}

ckpt_status torch_archive_new(ckpt_file *f, ckpt_str top, struct torch_archive **out, ckpt_error *err)
{
    struct torch_archive *ta = calloc(1, sizeof *ta);
    if (!ta)
        return fail_memory(err);
    ta->f = f;
    ta->z = f->probe->z;
    ta->top = top;
    ta->suffix = "";
    buf_init(&ta->name, 1u << 20);
    f->container = ta;
    f->container_free = archive_free;
    ta->used = arena_array(f->a, ta->z->n, sizeof *ta->used);
    if (!ta->used)
        return fail_memory(err);
    CKPT_TRY(zip_fold(ta->z, err));
    ta->storage = has_folder(ta, "data/") || !has_folder(ta, "tensors/") ? "data/" : "tensors/";
    start_name(ta, ta->storage);
    if (!buf_ok(&ta->name)) /* nothing was told then by the folders' names */
        return fail_memory(err);
    ta->crc_none = storages_say_zero(ta);
    if (ta->crc_none)
        file_notice(f, "its tensors were written without checksums; damage to them cannot be seen");
    *out = ta;
    return CKPT_OK;
}

/* ------------------------------------------------------------------ records */

int64_t torch_archive_find(struct torch_archive *ta, const char *name)
{
    return zip_find_fold(ta->z, ta->top, str_c(name));
}

ckpt_status torch_archive_need(struct torch_archive *ta, const char *name, size_t *i, ckpt_error *err)
{
    int64_t at = torch_archive_find(ta, name);
    *i = (size_t)at;
    return at >= 0 ? CKPT_OK
                   : fail(err, CKPT_ETRUNCATED, source_pos(ta->z->src, ta->z->directory),
                          "{=the record \"%s\"} is {missing}", name);
}

bool torch_archive_has(struct torch_archive *ta, const char *name)
{
    return torch_archive_find(ta, name) >= 0;
}

static ckpt_status unambiguous(const struct torch_archive *ta, size_t i, ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[i];
    if (!e->duplicate)
        return CKPT_OK;
    (void)fail(err, CKPT_EFORMAT, source_pos(ta->z->src, e->header),
               "{2 records} have this name, {=1} may; readers disagree on which one counts");
    fail_where(err, "%.*s", STR_ARG(e->name));
    return CKPT_EFORMAT;
}

ckpt_status torch_archive_member(struct torch_archive *ta, size_t i, source **out, ckpt_error *err)
{
    CKPT_TRY(unambiguous(ta, i, err));
    ta->used[i] = true;
    return zip_member(ta->z, i, out, err);
}

ckpt_status torch_archive_text(struct torch_archive *ta, const char *name, uint64_t max, ckpt_str *out,
                               ckpt_error *err)
{
    int64_t i = torch_archive_find(ta, name);
    *out = str_of(NULL, 0);
    if (i < 0 || ta->z->entries[i].usize > max || (ta->f->salvage && ta->z->entries[i].fault))
        return CKPT_OK;
    CKPT_TRY(unambiguous(ta, (size_t)i, err));
    return zip_load(ta->z, (size_t)i, max, out, err);
}

ckpt_status torch_archive_byteorder(struct torch_archive *ta, ckpt_error *err)
{
    ckpt_str s;
    int64_t i = torch_archive_find(ta, "byteorder");
    CKPT_TRY(torch_archive_text(ta, "byteorder", 16, &s, err));
    uint64_t length = i >= 0 ? ta->z->entries[i].usize : 0;
    if (ta->f->salvage && (length == 6 || length == 3) && !str_is(s, "little") && !str_is(s, "big")) {
        ta->big_endian = length == 3;
        file_notice(ta->f, "the record byteorder is damaged; by its length it said %s",
                    ta->big_endian ? "big" : "little");
        return CKPT_OK;
    }
    ckpt_str word = s;
    while (word.len && (word.ptr[word.len - 1] == '\n' || word.ptr[word.len - 1] == '\r' ||
                        word.ptr[word.len - 1] == ' '))
        word.len--;
    if (i < 0 || str_is(word, "little")) {
        if (i >= 0 && word.len != s.len)
            ta->f->torch_load_why = STR_LIT("the record byteorder ends in a line break");
        return CKPT_OK;
    }
    ta->big_endian = str_is(word, "big");
    if (ta->big_endian)
        return CKPT_OK;
    (void)fail(err, CKPT_EFORMAT, source_pos(ta->z->src, ta->z->entries[i].header),
               "the byte order is {\"%.*s\"}, neither {=little nor big}", STR_ARG(word));
    fail_where(err, "%.*sbyteorder", STR_ARG(ta->top));
    return CKPT_EFORMAT;
}

/* ------------------------------------------------------------------ pickles */

/* check_crc - a pickle is read whole, so its checksum must hold. */
static ckpt_status check_crc(const zip *z, const struct zip_entry *e, source *s, ckpt_error *err)
{
    uint32_t crc = 0;
    if (z->crc_none || e->crc_unknown)
        return CKPT_OK;
    unsigned char *chunk = malloc(s->size < CHUNK ? (size_t)s->size + 1 : CHUNK); /* bounded: it is less */
    ckpt_status st = chunk ? CKPT_OK : fail_memory(err);
    /* bounded: n is what is left, at most */
    for (uint64_t at = 0, n; st == CKPT_OK && at < s->size; at += n) {
        n = s->size - at < CHUNK ? s->size - at : CHUNK;
        st = source_read(s, at, chunk, (size_t)n, err);
        if (st == CKPT_OK)
            crc = crc32_update(crc, chunk, (size_t)n);
    }
    free(chunk);
    if (st != CKPT_OK || crc == e->crc)
        return st;
    (void)fail(err, CKPT_ECHECKSUM, source_pos(z->src, e->data),
               "its CRC-32 is {%08x}, the directory says {=%08x}", crc, e->crc);
    fail_hint(err, "the file is damaged; fetch it again");
    return CKPT_ECHECKSUM;
}

static ckpt_status keep(struct torch_archive *ta, source *s, ckpt_error *err)
{
    source **grown = arena_grow(ta->f->a, ta->kept, ta->nkept, &ta->cap_kept, ta->nkept + 1, sizeof *grown);
    if (!grown) {
        source_unref(s);
        return fail_memory(err);
    }
    ta->kept = grown;
    grown[ta->nkept++] = s;
    return CKPT_OK;
}

static ckpt_status run_pickle(struct torch_archive *ta, const struct zip_entry *e, source *s,
                              ckpt_value **root, ckpt_error *err)
{
    uint64_t next;
    struct pickle_facts *facts = file_pickle(ta->f, e->name);
    if (!facts)
        return fail_memory(err);
    ckpt_status st = check_crc(ta->z, e, s, err);
    if (st == CKPT_ECHECKSUM)
        fail_where(err, "%.*s", STR_ARG(e->name));
    CKPT_TRY(file_report_fault(ta->f, st, err));
    CKPT_TRY(pickle_read(ta->f->a, s, 0, s->size, facts, root, &next, err));
    if (next < s->size)
        file_notice(ta->f, "%.*s: %llu bytes after the end of the pickle are ignored", STR_ARG(e->name),
                    (unsigned long long)(s->size - next));
    return CKPT_OK;
}

/* check_inflation - what parsing may take is counted from the pickle's length. A
 * long one packs 50-fold, where nothing in it is memoized; beyond 200-fold a
 * small file is there to fill memory. */
static ckpt_status check_inflation(const zip *z, const struct zip_entry *e, ckpt_error *err)
{
    if (e->usize <= (16u << 20) || e->usize / 200 <= e->csize)
        return CKPT_OK;
    (void)fail(err, CKPT_ELIMIT, source_pos(z->src, e->header),
               "%llu bytes inflate to {%llu}; no pickle of tensors packs more than {=200-fold}",
               (unsigned long long)e->csize, (unsigned long long)e->usize);
    fail_hint(err, "the archive is made to fill memory; if you trust it, unpack it and pack it again stored");
    fail_where(err, "%.*s", STR_ARG(e->name));
    return CKPT_ELIMIT;
}

ckpt_status torch_archive_pickle(struct torch_archive *ta, size_t i, ckpt_value **root, ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[i];
    source *s;
    CKPT_TRY(check_inflation(ta->z, e, err));
    file_budget(ta->f, e->usize);
    CKPT_TRY(unambiguous(ta, i, err));
    CKPT_TRY(zip_data(ta->z, i, err));
    CKPT_TRY(zip_member(ta->z, i, &s, err));
    CKPT_TRY(keep(ta, s, err));
    ta->pickle = e;
    ckpt_status st = run_pickle(ta, e, s, root, err);
    if (st == CKPT_OK)
        return st;
    torch_archive_in(ta, i, err);
    return st;
}

uint64_t torch_archive_base(const struct torch_archive *ta, size_t i)
{
    const struct zip_entry *e = &ta->z->entries[i];
    return e->method == ZIP_STORED && e->data_known ? source_pos(ta->z->src, e->data) : CKPT_NO_OFFSET;
}

void torch_archive_in(const struct torch_archive *ta, size_t i, ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[i];
    fail_where(err, "%.*s", STR_ARG(e->name));
    fail_default_place(err, source_pos(ta->z->src, e->data_known ? e->data : e->header), e->name);
}

/* ----------------------------------------------------------------- storages */

/* stated_bytes - what the persistent id says; packed quantised classes count bytes. */
static bool stated_bytes(const struct torch_pid *pid, uint64_t *out)
{
    if (dtype_info(pid->dtype)->block_elems == 1)
        return dtype_bytes(pid->dtype, pid->numel, out);
    *out = pid->numel;
    return true;
}

void torch_archive_refused(struct torch_archive *ta, ckpt_str why)
{
    if (!ta->f->torch_load_why.len && why.ptr)
        ta->f->torch_load_why = why;
}

static ckpt_status no_record(struct torch_archive *ta, const struct torch_pid *pid, struct storage *s,
                             ckpt_error *err)
{
    if (pid->numel == 0) { /* TorchScript writes none for an empty storage */
        torch_archive_refused(ta, STR_LIT("an empty storage has no record"));
        s->src = source_mem("", 0, CKPT_NO_OFFSET);
        return s->src ? CKPT_OK : fail_memory(err);
    }
    /* The directory does not list it; of a cut archive that is where it ends. */
    (void)fail(err, CKPT_ETRUNCATED, source_pos(ta->z->src, ta->z->directory),
               "{=the record of a storage of %llu elements} is {missing}", (unsigned long long)pid->numel);
    fail_where(err, "%.*s", STR_ARG(buf_view(&ta->name)));
    fail_hint(err, "the archive was cut or packed again without it; `unzip -l` shows what it has");
    return file_report_fault(ta->f, CKPT_ETRUNCATED, err);
}

/* from_record - storage S out of entry I, which may be longer than stated. */
static ckpt_status from_record(struct torch_archive *ta, const struct torch_pid *pid, size_t i,
                               struct storage *s, ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[i];
    uint64_t need;
    CKPT_TRY(torch_archive_member(ta, i, &s->src, err));
    s->s.nbytes = e->usize;
    s->has_crc = !ta->crc_none && !e->crc_unknown;
    s->crc = e->crc;
    s->s.file_offset = source_pos(s->src, 0);
    if (!stated_bytes(pid, &need) || need >= e->usize)
        return CKPT_OK;
    s->s.nbytes = need;
    s->has_crc = false; /* it is one of the whole record */
    if (e->crc_unknown) /* … which ends where the file was cut */
        return CKPT_OK;
    if (!checked_add(ta->f->unaccounted, e->usize - need, &ta->f->unaccounted))
        ta->f->unaccounted = UINT64_MAX;
    torch_archive_refused(ta, STR_LIT("a record is longer than the storage it holds"));
    file_notice(ta->f, "%.*s holds %llu bytes, %llu more than its storage; torch 2.10 and later refuse it",
                STR_ARG(e->name), (unsigned long long)e->usize, (unsigned long long)(e->usize - need));
    return CKPT_OK;
}

/* skips - takes WORD off the front of *S, if it is there. */
static bool skips(ckpt_str *s, ckpt_str word)
{
    bool there = str_starts(*s, word);
    if (there)
        *s = str_skip(*s, word.len);
    return there;
}

/* is_next - does the entry behind the last one hold storage KEY, as it mostly does? */
static bool is_next(const struct torch_archive *ta, ckpt_str key)
{
    if (ta->next >= ta->z->n)
        return false;
    ckpt_str s = ta->z->entries[ta->next].name;
    return skips(&s, ta->top) && skips(&s, str_c(ta->storage)) && skips(&s, key) && str_is(s, ta->suffix);
}

static ckpt_status find_storage(void *user, const struct torch_pid *pid, struct storage *s, ckpt_error *err)
{
    struct torch_archive *ta = user;
    if (str_is(pid->location, "meta"))
        return CKPT_OK;
    if (is_next(ta, pid->key))
        return from_record(ta, pid, ta->next++, s, err);
    start_name(ta, ta->storage);
    buf_str(&ta->name, pid->key);
    buf_text(&ta->name, ta->suffix);
    if (!buf_ok(&ta->name))
        return fail_memory(err);
    int64_t i = zip_find(ta->z, buf_view(&ta->name));
    if (i < 0 && pid->numel)
        i = zip_find_fold(ta->z, str_of("", 0), buf_view(&ta->name));
    if (i < 0)
        return no_record(ta, pid, s, err);
    ta->next = (size_t)i + 1;
    return from_record(ta, pid, (size_t)i, s, err);
}

ckpt_status torch_archive_add_tensor(struct torch_archive *ta, struct kit *k, ckpt_str name,
                                     const char *record, const ckpt_tensor *t)
{
    size_t i;
    struct kit_tensor x = {.name = name, .t = *t};
    ckpt_status st = torch_archive_need(ta, record, &i, k->err);
    if (st == CKPT_OK)
        st = torch_archive_member(ta, i, &x.src, k->err);
    if (st != CKPT_OK) {
        fail_where(k->err, "%.*s", STR_ARG(name));
        return st;
    }
    const struct zip_entry *e = &ta->z->entries[i];
    x.nbytes = e->usize;
    x.key = e->name;
    x.crc = ta->z->crc_none || e->crc_unknown ? NULL : &e->crc;
    st = kit_add_tensor(k, &x);
    source_unref(x.src);
    return st;
}

struct torch_storages torch_archive_storages(struct torch_archive *ta)
{
    struct torch_storages st = {.user = ta, .find = find_storage, .big_endian = ta->big_endian};
    if (ta->nkept == 1) { /* else who knows which one a node is of */
        st.stream = ta->kept[0];
        st.packed_at = source_pos(ta->z->src, ta->pickle->data);
        st.part = ta->pickle->name;
    }
    return st;
}

static ckpt_status resolve(ckpt_file *f, ckpt_error *err)
{
    struct torch_archive *ta = f->container;
    struct torch_storages st = torch_archive_storages(ta);
    CKPT_TRY(torch_graph_rest(f, &st, err));
    zip_free_names(ta->z); /* room for what is about to be written */
    return CKPT_OK;
}

void torch_archive_account(struct torch_archive *ta)
{
    ta->f->resolve = resolve;
    start_name(ta, ta->storage);
    for (size_t i = 0; i < ta->z->n; i++) {
        const struct zip_entry *e = &ta->z->entries[i];
        if (!ta->used[i] && str_starts(e->name, buf_view(&ta->name)) && str_ends(e->name, str_c(ta->suffix)))
            (void)checked_add(ta->f->unaccounted, e->usize, &ta->f->unaccounted);
    }
}
