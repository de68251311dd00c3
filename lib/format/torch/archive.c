/*
 * archive.c - finds records, runs pickles and locates storages in torch's archives.
 *
 *   <top>/data.pkl          one pickle (torch.save, TorchScript)
 *   <top>/data/<key>        the bytes of one storage, nothing else
 *   <top>/tensors/<key>     the same, in archives of torch 1.4
 *   <top>/byteorder         "little" or "big"; absent before 2.1: little
 *
 * Refused: a storage without a record, two records of one name (readers disagree on which one counts), an
 * unknown byte order. If a record is longer than its persistent id states, only the stated bytes are used, as
 * torch did up to 2.9. persistent_id.c refuses a record that is shorter.
 */
#include "format/torch/archive.h"

#include <stdlib.h>

#include "codec/pickle_read.h"
#include "core/check.h"
#include "format/graph/persistent_id.h"

bool torch_archive_find_top(const zip *archive, ckpt_str *top, bool *ambiguous)
{
    ckpt_str first_folder = archive->n ? archive->entries[0].name : str_of("", 0);
    size_t slash = str_find(first_folder, STR_LIT("/"), 0), nfound = 0;
    first_folder.len = slash == SIZE_MAX ? 0 : slash + 1;
    *ambiguous = false;
    for (size_t i = 0; i < archive->n; i++) {
        ckpt_str name = archive->entries[i].name, folder = str_folder(name), file = STR_LIT("data.pkl");
        if (name.len - folder.len != file.len || !str_ends_any_case(name, file))
            continue;
        if (str_eq(folder, first_folder)) {
            *top = folder;
            *ambiguous = false;
            return true;
        }
        *ambiguous = *ambiguous || (nfound && !str_eq(folder, *top));
        if (nfound++ == 0)
            *top = folder;
    }
    return nfound > 0;
}

/* holds_content - returns true if REST, an entry's name in a top folder, is a storage or program text. */
static bool holds_content(ckpt_str rest)
{
    uint64_t key;
    if (str_starts(rest, STR_LIT("code/__torch__")))
        return true;
    ckpt_str folder = str_folder(rest);
    return (str_is(folder, "data/") || str_is(folder, "tensors/")) &&
           str_uint(str_skip(rest, folder.len), &key);
}

/* is_archive_of_torch - returns true if what is below TOP has storages or program text, and a record that
 * torch puts next to them. */
static bool is_archive_of_torch(const zip *archive, ckpt_str top)
{
    bool has_content = false, has_mark = false;
    for (size_t i = 0; i < archive->n && !(has_content && has_mark); i++) {
        if (!str_starts(archive->entries[i].name, top))
            continue;
        ckpt_str rest = str_skip(archive->entries[i].name, top.len);
        has_content = has_content || holds_content(rest);
        has_mark = has_mark ||
                   str_matches_word(rest, "version byteorder .format_version constants.pkl", str_eq);
    }
    return has_content && has_mark;
}

bool torch_archive_lacks_pickle(const zip *archive, ckpt_str *top)
{
    bool ambiguous;
    size_t slash = archive->n ? str_find(archive->entries[0].name, STR_LIT("/"), 0) : SIZE_MAX;
    if (torch_archive_find_top(archive, top, &ambiguous))
        return false;
    *top = slash == SIZE_MAX ? str_of("", 0) : str_of(archive->entries[0].name.ptr, slash + 1);
    if (is_archive_of_torch(archive, *top))
        return true;
    *top = str_of("", 0); /* packed again without the folder */
    return is_archive_of_torch(archive, *top);
}

static void archive_free(void *user)
{
    struct torch_archive *ta = user;
    for (size_t i = 0; i < ta->npickle_sources; i++)
        source_unref(ta->pickle_sources[i]);
    zip_close(ta->z);
    buf_free(&ta->record_name);
    free(ta);
}

/* has_no_storage_crcs - returns true if the CRCs of all storages are 0: then torch computed none
 * (torch.serialization.set_crc32_options). */
static bool has_no_storage_crcs(const struct torch_archive *ta)
{
    bool has_bytes = false;
    for (size_t i = 0; i < ta->z->n; i++) {
        const struct zip_entry *e = &ta->z->entries[i];
        if (!str_starts(e->name, ta->storage_prefix))
            continue;
        if (e->crc)
            return false;
        has_bytes |= e->usize > 0;
    }
    return has_bytes;
}

bool torch_archive_set_storage_names(struct torch_archive *ta, const char *folder, const char *suffix)
{
    ta->storage_folder = folder;
    ta->storage_prefix = ARENA_CONCAT(ta->f->a, ta->top, str_c(folder));
    ta->storage_suffix = str_c(suffix);
    return ta->storage_prefix.ptr != NULL;
}

bool torch_has_folder(const zip *archive, ckpt_str top, const char *folder)
{
    for (size_t i = 0; i < archive->n; i++)
        if (str_starts(str_skip(archive->entries[i].name, top.len), str_c(folder)) && /* few do */
            str_starts(archive->entries[i].name, top))
            return true;
    return false;
}

ckpt_status torch_archive_new(ckpt_file *f, ckpt_str top, struct torch_archive **out, ckpt_error *err)
{
    struct torch_archive *ta = calloc(1, sizeof *ta);
    CKPT_TRY_ALLOC(ta, err);
    ta->f = f;
    ta->z = f->opening->probe->zip;
    ta->top = top;
    buf_init(&ta->record_name, 1u << 20);
    f->container = ta;
    f->container_free = archive_free;
    ta->used_entries = arena_array(f->a, ta->z->n, sizeof *ta->used_entries);
    CKPT_TRY_ALLOC(ta->used_entries, err);
    CKPT_TRY(zip_index_case_folded(ta->z, err));
    bool in_tensors = !torch_has_folder(ta->z, top, "data/") && torch_has_folder(ta->z, top, "tensors/");
    CKPT_TRY_ALLOC(torch_archive_set_storage_names(ta, in_tensors ? "tensors/" : "data/", ""), err);
    ta->no_storage_crcs = has_no_storage_crcs(ta);
    if (ta->no_storage_crcs)
        file_notice(f, "its tensors were written without checksums; damage to them cannot be seen");
    *out = ta;
    return CKPT_OK;
}

/* ------------------------------------------------------------------ records */

int64_t torch_archive_find(struct torch_archive *ta, const char *name)
{
    return zip_find_case_folded(ta->z, ta->top, str_c(name));
}

ckpt_status torch_archive_require(struct torch_archive *ta, const char *name, size_t *index, ckpt_error *err)
{
    int64_t entry = torch_archive_find(ta, name);
    *index = (size_t)entry;
    return entry >= 0
               ? CKPT_OK
               : fail(err, CKPT_ETRUNCATED, source_pos(ta->z->src, ta->z->directory_at),
                      "{=the record \"%s\"} is {missing}\nthe archive is damaged: get the file again", name);
}

bool torch_archive_has(struct torch_archive *ta, const char *name)
{
    return torch_archive_find(ta, name) >= 0;
}

static ckpt_status require_unique_name(const struct torch_archive *ta, size_t index, ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[index];
    if (!e->duplicate)
        return CKPT_OK;
    return prefix_where_if_failed(
        fail(err, CKPT_EFORMAT, source_pos(ta->z->src, e->header_offset),
             "{2 records} have this name, {=one} is allowed; readers disagree on which one counts"),
        e->name, err);
}

ckpt_status torch_archive_open_record(struct torch_archive *ta, size_t index, source **out, ckpt_error *err)
{
    CKPT_TRY(require_unique_name(ta, index, err));
    ta->used_entries[index] = true;
    return zip_open_member(ta->z, index, out, err);
}

ckpt_status torch_archive_read_text(struct torch_archive *ta, const char *name, uint64_t max, ckpt_str *out,
                                    ckpt_error *err)
{
    int64_t i = torch_archive_find(ta, name);
    *out = str_of(NULL, 0);
    if (i < 0 || ta->z->entries[i].usize > max || (ta->f->salvage && ta->z->entries[i].fault))
        return CKPT_OK;
    CKPT_TRY(require_unique_name(ta, (size_t)i, err));
    return zip_load_member(ta->z, (size_t)i, max, out, err);
}

ckpt_status torch_archive_read_byteorder(struct torch_archive *ta, ckpt_error *err)
{
    ckpt_str s;
    int64_t i = torch_archive_find(ta, "byteorder"), pickle = torch_archive_find(ta, "data.pkl");
    if (i >= 0)
        zip_will_read(ta->z, (size_t)i);
    if (pickle >= 0) /* next to it */
        zip_will_read(ta->z, (size_t)pickle);
    CKPT_TRY(torch_archive_read_text(ta, "byteorder", 16, &s, err));
    uint64_t length = i >= 0 ? ta->z->entries[i].usize : 0;
    if (ta->f->salvage && (length == 6 || length == 3) && !str_is(s, "little") && !str_is(s, "big")) {
        ta->big_endian = length == 3;
        file_notice(ta->f, "the record byteorder is damaged; it is taken for \"%s\", which has its length",
                    ta->big_endian ? "big" : "little");
        return CKPT_OK;
    }
    ckpt_str word = s;
    while (word.len && (word.ptr[word.len - 1] == '\n' || word.ptr[word.len - 1] == '\r' ||
                        word.ptr[word.len - 1] == ' '))
        word.len--;
    if (i < 0 || str_is(word, "little")) {
        if (i >= 0 && word.len != s.len)
            ta->f->loading.refusal = STR_LIT("the record byteorder ends in a line break");
        return CKPT_OK;
    }
    ta->big_endian = str_is(word, "big");
    if (ta->big_endian)
        return CKPT_OK;
    ckpt_status st = fail(err, CKPT_EFORMAT, source_pos(ta->z->src, ta->z->entries[i].header_offset),
                          "the byte order is {\"%.*s\"}, it must be {=little or big}", STR_ARG(word));
    return prefix_where_if_failed(st, ta->z->entries[i].name, err);
}

/* ------------------------------------------------------------------ pickles */

static ckpt_status check_crc(const zip *archive, const struct zip_entry *entry, source *src, ckpt_error *err)
{
    uint32_t crc = 0;
    if (archive->crc_none || entry->crc_unknown)
        return CKPT_OK;
    ckpt_status st = source_crc(src, 0, src->size, CRC_32, &crc, err);
    if (st != CKPT_OK || crc == entry->crc)
        return st;
    return fail(err, CKPT_ECHECKSUM, source_pos(archive->src, entry->data_offset),
                "its CRC-32 is {%08x}, the central directory records {=%08x}\n"
                "the file is damaged; fetch it again",
                crc, entry->crc);
}

static ckpt_status keep_pickle_source(struct torch_archive *ta, source *src, ckpt_error *err)
{
    if (ARENA_PUSH(ta->f->a, ta, pickle_sources, &src))
        return CKPT_OK;
    source_unref(src);
    return fail_memory(err);
}

static ckpt_status run_pickle(struct torch_archive *ta, const struct zip_entry *entry, source *src,
                              ckpt_value **root, ckpt_error *err)
{
    uint64_t next;
    struct pickle_facts *facts = file_add_pickle(ta->f, entry->name);
    CKPT_TRY_ALLOC(facts, err);
    ckpt_status st = check_crc(ta->z, entry, src, err);
    if (st == CKPT_ECHECKSUM && ta->f->check) /* file_report_fault reports it before a caller adds the name */
        error_add_where(err, "%.*s", STR_ARG(entry->name));
    CKPT_TRY(file_report_fault(ta->f, st, err));
    CKPT_TRY(pickle_read(ta->f->a, src, 0, src->size, facts, root, &next, err));
    if (next < src->size)
        file_notice(ta->f, "%.*s: %llu bytes after the end of the pickle are ignored", STR_ARG(entry->name),
                    (unsigned long long)(src->size - next));
    return CKPT_OK;
}

/* check_inflation - refuses a pickle of more than 16 MiB that is compressed over 200-fold, because parsing
 * takes memory in proportion to its length. A real pickle in which nothing is memoized reaches 50-fold. */
static ckpt_status check_inflation(const zip *archive, const struct zip_entry *entry, ckpt_error *err)
{
    bool is_small = entry->usize <= (16u << 20), is_plausible = entry->usize / 200 <= entry->csize;
    if (is_small || is_plausible)
        return CKPT_OK;
    ckpt_status st = fail(
        err, CKPT_ELIMIT, source_pos(archive->src, entry->header_offset),
        "%llu bytes inflate to {%llu}; a pickle of tensors is compressed at most {=200-fold}\n"
        "the archive was made to fill memory; if you trust it, unpack it and pack it again uncompressed",
        (unsigned long long)entry->csize, (unsigned long long)entry->usize);
    return prefix_where_if_failed(st, entry->name, err);
}

ckpt_status torch_archive_run_pickle(struct torch_archive *ta, size_t index, ckpt_value **root,
                                     ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[index];
    source *s;
    CKPT_TRY(check_inflation(ta->z, e, err));
    file_raise_budget(ta->f, e->usize);
    CKPT_TRY(require_unique_name(ta, index, err));
    CKPT_TRY(zip_locate_payload(ta->z, index, err));
    CKPT_TRY(zip_open_member(ta->z, index, &s, err));
    CKPT_TRY(keep_pickle_source(ta, s, err));
    ta->last_pickle = e;
    ckpt_status st = run_pickle(ta, e, s, root, err);
    if (st != CKPT_OK)
        torch_archive_add_context(ta, index, err);
    return st;
}

uint64_t torch_archive_payload_offset(const struct torch_archive *ta, size_t index)
{
    const struct zip_entry *e = &ta->z->entries[index];
    return e->method == ZIP_STORED && e->is_located ? source_pos(ta->z->src, e->data_offset) : CKPT_NO_OFFSET;
}

void torch_archive_add_context(const struct torch_archive *ta, size_t index, ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[index];
    error_add_where(err, "%.*s", STR_ARG(e->name));
    error_add_position(err, source_pos(ta->z->src, e->is_located ? e->data_offset : e->header_offset),
                       e->name);
}

/* ----------------------------------------------------------------- storages */

void torch_archive_note_refusal(struct torch_archive *ta, ckpt_str why)
{
    if (!ta->f->loading.refusal.len && why.ptr)
        ta->f->loading.refusal = why;
}

static ckpt_status handle_missing_record(struct torch_archive *ta, const struct torch_pid *pid,
                                         struct storage *storage, ckpt_error *err)
{
    if (pid->numel == 0) { /* TorchScript writes no record for an empty storage */
        torch_archive_note_refusal(ta, STR_LIT("an empty storage has no record"));
        storage->src = source_mem("", 0, CKPT_NO_OFFSET);
        return storage->src ? CKPT_OK : fail_memory(err);
    }
    /* A missing record has no offset, so the error gets that of the central directory. */
    (void)fail(err, CKPT_ETRUNCATED, source_pos(ta->z->src, ta->z->directory_at),
               "{=the record of a storage of %llu element%s} is {missing}\n"
               "the archive was cut, or packed again without this record; `unzip -l` lists its records",
               (unsigned long long)pid->numel, pid->numel == 1 ? "" : "s");
    error_add_where(err, "%.*s", STR_ARG(buf_view(&ta->record_name)));
    return file_report_fault(ta->f, CKPT_ETRUNCATED, err);
}

/* use_record - makes entry INDEX the bytes of storage STORAGE. The entry may be longer than PID states. */
static ckpt_status use_record(struct torch_archive *ta, const struct torch_pid *pid, size_t index,
                              struct storage *storage, ckpt_error *err)
{
    const struct zip_entry *e = &ta->z->entries[index];
    uint64_t need;
    CKPT_TRY(torch_archive_open_record(ta, index, &storage->src, err));
    storage->nbytes = e->usize;
    storage->has_crc = !ta->no_storage_crcs && !e->crc_unknown;
    storage->crc = e->crc;
    if (!torch_storage_bytes(pid->dtype, pid->numel, &need) || need >= e->usize)
        return CKPT_OK;
    storage->nbytes = need;
    storage->has_crc = false; /* the CRC is of the whole record */
    if (e->crc_unknown)       /* salvage may have taken the end of the file for that of the record */
        return CKPT_OK;
    if (!checked_add(ta->f->unaccounted, e->usize - need, &ta->f->unaccounted))
        ta->f->unaccounted = UINT64_MAX;
    torch_archive_note_refusal(ta, STR_LIT("a record is longer than the storage it holds"));
    file_notice(ta->f, "%.*s holds %llu bytes, %llu more than its storage; torch 2.10 and later refuse it",
                STR_ARG(e->name), (unsigned long long)e->usize, (unsigned long long)(e->usize - need));
    return CKPT_OK;
}

/* is_next_entry - returns true if the entry at ta->next_entry is storage KEY. It usually is, because torch
 * writes storages in the order of the pickle. */
static bool is_next_entry(const struct torch_archive *ta, ckpt_str key)
{
    if (ta->next_entry >= ta->z->n)
        return false;
    ckpt_str name = ta->z->entries[ta->next_entry].name, prefix = ta->storage_prefix;
    return name.len == prefix.len + key.len + ta->storage_suffix.len && str_starts(name, prefix) &&
           str_starts(str_skip(name, prefix.len), key) && str_ends(name, ta->storage_suffix);
}

static ckpt_status find_storage(void *user, const struct torch_pid *pid, struct storage *storage,
                                ckpt_error *err)
{
    struct torch_archive *ta = user;
    if (str_is(pid->location, "meta"))
        return CKPT_OK;
    if (is_next_entry(ta, pid->key))
        return use_record(ta, pid, ta->next_entry++, storage, err);
    ta->record_name.len = 0;
    BUF_PUT_TEXTS(&ta->record_name, ta->storage_prefix, pid->key, ta->storage_suffix);
    if (!buf_ok(&ta->record_name))
        return fail_memory(err);
    int64_t i = zip_find(ta->z, buf_view(&ta->record_name));
    if (i < 0 && pid->numel)
        i = zip_find_case_folded(ta->z, str_of("", 0), buf_view(&ta->record_name));
    if (i < 0)
        return handle_missing_record(ta, pid, storage, err);
    ta->next_entry = (size_t)i + 1;
    return use_record(ta, pid, (size_t)i, storage, err);
}

ckpt_status torch_archive_add_tensor(struct torch_archive *ta, struct kit *kit, ckpt_str name,
                                     const char *record, const ckpt_tensor *tensor)
{
    size_t i;
    struct kit_tensor x = {.name = name, .t = *tensor};
    ckpt_status st = torch_archive_require(ta, record, &i, kit->err);
    if (st == CKPT_OK)
        st = torch_archive_open_record(ta, i, &x.src, kit->err);
    CKPT_TRY(prefix_where_if_failed(st, name, kit->err));
    const struct zip_entry *e = &ta->z->entries[i];
    x.nbytes = e->usize;
    x.key = e->name;
    x.crc = ta->z->crc_none || e->crc_unknown ? NULL : &e->crc;
    st = kit_add_tensor(kit, &x);
    source_unref(x.src);
    return st;
}

struct graph_input torch_archive_get_graph_input(struct torch_archive *ta)
{
    struct graph_input input = {.user = ta, .find_storage = find_storage, .big_endian = ta->big_endian};
    if (ta->npickle_sources == 1) { /* if there are several, the pickle of a node is unknown */
        input.pickle = ta->pickle_sources[0];
        input.pickle_offset = source_pos(ta->z->src, ta->last_pickle->data_offset);
        input.pickle_name = ta->last_pickle->name;
    }
    return input;
}

static ckpt_status add_opaque_archive_storages(ckpt_file *f, ckpt_error *err)
{
    struct torch_archive *ta = f->container;
    struct graph_input input = torch_archive_get_graph_input(ta);
    CKPT_TRY(graph_add_unreferenced_storages(f, &input, err));
    zip_free_names(ta->z); /* leaves more memory to the writer */
    return CKPT_OK;
}

void torch_archive_count_unused(struct torch_archive *ta)
{
    ta->f->add_opaque_storages = add_opaque_archive_storages;
    for (size_t i = 0; i < ta->z->n; i++) {
        const struct zip_entry *e = &ta->z->entries[i];
        if (!ta->used_entries[i] && str_starts(e->name, ta->storage_prefix) &&
            str_ends(e->name, ta->storage_suffix))
            (void)checked_add(ta->f->unaccounted, e->usize, &ta->f->unaccounted);
    }
}
