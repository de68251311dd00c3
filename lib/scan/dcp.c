/*
 * dcp.c - scans the values of a distributed checkpoint of torch. Its .metadata is a pickle that lists them:
 * file, offset and length (format/distributed/dcp_metadata.h). dcp.load unpickles these bytes, wherever they
 * are; to the scan of that file they may be numbers of a tensor. (Tensors are loaded with weights_only.) In
 * an archive, such as NeMo's .nemo, the files are members in one folder.
 */
#include <inttypes.h>
#include <sys/stat.h>

#include "format/distributed/dcp_metadata.h"
#include "format/files/folder.h"
#include "format/files/members.h"
#include "scan/scan.h"

#define METADATA_MEMORY ((uint64_t)512 << 20) /* bytes, for what .metadata lists */
#define REREAD_MAX      16u                   /* how often the bytes of files may be scanned as values */

struct dcp_scan {
    const struct scanned *in; /* .metadata */
    const struct scan_siblings *siblings;
    struct dcp_metadata meta;
    map *tensors, *values;  /* names with an entry of a tensor, of anything else */
    uint64_t left, nvalues; /* bytes that may still be scanned; values that were scanned */
    ckpt_error *err;
};

bool scan_has_siblings(ckpt_str path) { return str_ends(path, STR_LIT(".metadata")); }

source *scan_open_sibling(source *archive, const char *path)
{
    ckpt_error ignored;
    struct stat st;
    source *file = NULL;
    if (!archive && (stat(path, &st) != 0 || !S_ISREG(st.st_mode)))
        return NULL;
    return source_open_in(archive, path, &file, &ignored) == CKPT_OK ? file : NULL;
}

static bool is_any_name(ckpt_str name) { return name.len > 0; }

ckpt_status scan_siblings_open(arena *a, source *archive, const char *folder, uint64_t max_files,
                               struct scan_siblings *out, ckpt_error *err)
{
    ckpt_status st = archive ? members_list(archive, folder, a, is_any_name, &out->names, &out->n, err)
                             : folder_list_on_disk(a, folder, NULL, &out->names, &out->n, err);
    if (st != CKPT_OK)
        out->n = 0; /* its values are then not found */
    if (st == CKPT_ENOMEM)
        return st;
    ckpt_str path = str_c(folder);
    bool has_end = str_ends(path, STR_LIT("/")) || str_ends(path, STR_LIT("!"));
    out->files = arena_array(a, out->n, sizeof(source *));
    CKPT_TRY_ALLOC(out->files, err);
    for (size_t i = 0; i < out->n; i++) {
        ckpt_str file = ARENA_CONCAT(a, path, str_c(has_end ? "" : "/"), out->names[i]);
        CKPT_TRY_ALLOC(file.ptr, err);
        out->files[i] = max_files ? scan_open_sibling(archive, file.ptr) : NULL;
        max_files -= out->files[i] != NULL;
    }
    return CKPT_OK;
}

void scan_siblings_close(struct scan_siblings *siblings)
{
    for (size_t i = 0; siblings->files && i < siblings->n; i++)
        source_unref(siblings->files[i]);
}

static source *find_file(const struct dcp_scan *scan, ckpt_str name)
{
    for (size_t i = 0; i < scan->siblings->n; i++)
        if (str_eq(scan->siblings->names[i], name))
            return scan->siblings->files[i];
    return NULL;
}

static ckpt_status report_not_opened(struct dcp_scan *scan, ckpt_str name, const char *why)
{
    return SCAN_FOUND(scan->in, SCAN_NOT_OPENED, 0, "the value \"%.*s\": %s", STR_ARG(name), why);
}

/* scan_value - scans the NBYTES bytes at OFFSET of FILE, called FILE_NAME, which are the value NAME. */
static ckpt_status scan_value(struct dcp_scan *scan, ckpt_str name, source *file, ckpt_str file_name,
                              uint64_t offset, uint64_t nbytes)
{
    struct scanner *x = scan->in->x;
    uint64_t known_bytes = 0, end;
    struct scanned bytes = {.x = x}, all = {x, file, ARENA_CONCAT(x->a, scan->siblings->folder, file_name)};
    if (!checked_add(offset, nbytes, &end) || end > file->size)
        return SCAN_FOUND(scan->in, SCAN_MALFORMED, 0,
                          "the value \"%.*s\" is outside of its file: {%" PRIu64 " bytes at %" PRIu64
                          "} of {=%" PRIu64 "}",
                          STR_ARG(name), nbytes, offset, file->size);
    if (nbytes > scan->left)
        return report_not_opened(scan, name, "the values overlap, and take too long to scan");
    scan->left -= nbytes;
    CKPT_TRY(scan_join_offset(&all, "bytes", offset, &bytes.where, scan->err));
    CKPT_TRY(source_slice(file, offset, nbytes, &bytes.src, scan->err));
    ckpt_status st = scan_bytes(&bytes, SCAN_MEMBER, &known_bytes, scan->err);
    if (st == CKPT_OK && known_bytes < nbytes)
        st = report_not_opened(scan, name, "the purpose of some of its bytes is unknown");
    source_unref(bytes.src);
    return st;
}

/* scan_item - scans the item INFO of the entry KEY, unless it is of a tensor. */
static ckpt_status scan_item(struct dcp_scan *scan, dcp_word key, dcp_word info)
{
    ckpt_str name = {0}, path;
    uint64_t offset, n;
    if (dcp_text(&scan->meta, dcp_field(&scan->meta, key, DCP_INDEX, INDEX_FQN), &name) &&
        map_get(scan->tensors, name) != MAP_NONE && map_get(scan->values, name) == MAP_NONE)
        return CKPT_OK;
    if (!dcp_text(&scan->meta, dcp_field(&scan->meta, info, DCP_STORAGE_INFO, INFO_PATH), &path) ||
        !dcp_int(dcp_field(&scan->meta, info, DCP_STORAGE_INFO, INFO_OFFSET), &offset) ||
        !dcp_int(dcp_field(&scan->meta, info, DCP_STORAGE_INFO, INFO_LENGTH), &n))
        return report_not_opened(scan, name, "its file, offset or length is not in the file");
    if (scan_path_leaves_folder(path))
        return SCAN_FOUND(scan->in, SCAN_EXTERNAL_PATH, 0,
                          "the value \"%.*s\" is in \"%.*s\", outside of the folder", STR_ARG(name),
                          STR_ARG(path));
    source *file = find_file(scan, path);
    return file ? scan_value(scan, name, file, path, offset, n)
                : report_not_opened(scan, name, "its file is not in the folder, or cannot be opened");
}

/* sort_names - puts the names of all entries into scan->tensors or scan->values. */
static ckpt_status sort_names(struct dcp_scan *scan)
{
    size_t n;
    const dcp_word *entries = dcp_elements(
        &scan->meta, dcp_field(&scan->meta, scan->meta.root, DCP_METADATA, METADATA_TENSORS), &n);
    for (size_t i = 0; i + 1 < n; i += 2) {
        ckpt_str name;
        map *names = dcp_is_instance(entries[i + 1], DCP_TENSOR) ? scan->tensors : scan->values;
        if (dcp_text(&scan->meta, entries[i], &name) && !map_put(names, name, 1, NULL))
            return fail_memory(scan->err);
    }
    return CKPT_OK;
}

static ckpt_status scan_items(struct dcp_scan *scan)
{
    size_t n;
    dcp_word tensors = dcp_field(&scan->meta, scan->meta.root, DCP_METADATA, METADATA_TENSORS),
             infos = dcp_field(&scan->meta, scan->meta.root, DCP_METADATA, METADATA_STORAGE_DATA);
    if (dcp_type(tensors) != DCP_DICT || dcp_type(infos) != DCP_DICT)
        return report_not_opened(scan, STR_LIT("*"), "no dicts of names and values were found in the file");
    CKPT_TRY(sort_names(scan));
    const dcp_word *items = dcp_elements(&scan->meta, infos, &n);
    for (size_t i = 0; i + 1 < n; i += 2)
        CKPT_TRY(scan_item(scan, items[i], items[i + 1]));
    return CKPT_OK;
}

/* get_budget - returns how many bytes of files of SIZE bytes in all may be scanned as values. */
static uint64_t get_budget(uint64_t size)
{
    uint64_t n;
    return checked_add(size, (uint64_t)64 << 20, &n) && checked_mul(n, REREAD_MAX, &n) ? n : UINT64_MAX;
}

/* get_total - returns the size of all files of SIBLINGS that are open. */
static uint64_t get_total(const struct scan_siblings *siblings)
{
    uint64_t total = 0;
    for (size_t i = 0; i < siblings->n; i++)
        total = siblings->files[i] ? size_add(total, siblings->files[i]->size) : total;
    return total;
}

ckpt_status scan_dcp_values(const struct scanned *in, const struct scan_siblings *siblings, ckpt_error *err)
{
    ckpt_error why;
    struct dcp_scan d = {.in = in, .siblings = siblings, .err = err};
    arena *a = arena_new(METADATA_MEMORY);
    d.tensors = map_new(0);
    d.values = map_new(0);
    d.left = siblings->left ? *siblings->left : get_budget(get_total(siblings));
    ckpt_status st = a && d.tensors && d.values ? CKPT_OK : fail_memory(err);
    ckpt_status read = st == CKPT_OK ? dcp_metadata_read(a, in->src, METADATA_MEMORY, &d.meta, &why) : st;
    if (st == CKPT_OK && scan_note_system_failure(in->x->scan, read, &why)) {
        *err = why;
        st = read;
    } else if (st == CKPT_OK) {
        st = read == CKPT_OK ? scan_items(&d) : report_not_opened(&d, STR_LIT("*"), why.what);
    }
    if (siblings->left)
        *siblings->left = d.left;
    dcp_metadata_free(&d.meta);
    map_free(d.tensors);
    map_free(d.values);
    arena_free(a);
    return st;
}

/* ------------------------------------------------------------------------ archives */

/* An archive with .metadata. */
struct dcp_archive {
    const struct scanned *in;
    source *members;
    arena *a;
    uint64_t left;       /* as in scan_siblings */
    uint64_t files_left; /* how many files may still be opened */
    ckpt_error *err;
};

/* scan_metadata - scans the values that IN, the member NAME, lists. */
static ckpt_status scan_metadata(struct dcp_archive *archive, const struct scanned *in, ckpt_str name)
{
    struct scan_siblings siblings = {.left = &archive->left};
    size_t nopened = in->x->nopened_zips;
    ckpt_str folder = ARENA_CONCAT(archive->a, STR_LIT("!"), str_folder(name));
    CKPT_TRY(scan_join_names(archive->in, str_folder(name), &siblings.folder, archive->err));
    ckpt_status st = folder.ptr ? scan_siblings_open(archive->a, archive->members, folder.ptr,
                                                     archive->files_left, &siblings, archive->err)
                                : fail_memory(archive->err);
    archive->files_left -= siblings.n < archive->files_left ? siblings.n : archive->files_left;
    CKPT_THEN(st, scan_dcp_values(in, &siblings, archive->err));
    in->x->nopened_zips = nopened; /* those that were added are in files that are closed now */
    scan_siblings_close(&siblings);
    return st;
}

/* open_and_scan_metadata - does that, if the member NAME is a pickle. */
static ckpt_status open_and_scan_metadata(struct dcp_archive *archive, ckpt_str name)
{
    struct scanned in = {.x = archive->in->x};
    ckpt_error why;
    ckpt_str path = ARENA_CONCAT(archive->a, STR_LIT("!"), name);
    CKPT_TRY(scan_join_names(archive->in, name, &in.where, archive->err));
    CKPT_TRY_ALLOC(path.ptr, archive->err);
    ckpt_status st = members_open_file(archive->members, path.ptr, &in.src, &why);
    if (scan_note_system_failure(in.x->scan, st, &why)) {
        *archive->err = why;
        return st;
    }
    if (!in.src)
        return scan_found(in.x->scan, SCAN_NOT_OPENED, in.where, NULL, CKPT_NO_OFFSET,
                          "the values that it lists: %s", why.what);
    if (scan_is_pickle(in.x, in.src, 0, in.src->size, true))
        st = scan_metadata(archive, &in, name);
    source_unref(in.src);
    return st;
}

ckpt_status scan_dcp_in_archive(const struct scanned *in, ckpt_error *err)
{
    struct scanner *x = in->x;
    ckpt_error why;
    struct dcp_archive d = {
        .in = in, .a = arena_new(METADATA_MEMORY), .left = get_budget(in->src->size), .err = err};
    ckpt_status st = d.a ? CKPT_OK : fail_memory(err);
    ckpt_status opened =
        st == CKPT_OK ? members_open(in->src, "", scan_max_unpacked(x, in->src->size), &d.members, &why) : st;
    if (st == CKPT_OK && scan_note_system_failure(x->scan, opened, &why)) {
        *err = why;
        st = opened;
    } else if (st == CKPT_OK && opened != CKPT_OK) {
        st = scan_found(x->scan, SCAN_NOT_OPENED, in->where, NULL, CKPT_NO_OFFSET,
                        "the values of the distributed checkpoint in it: %s", why.what);
    }
    size_t n = opened == CKPT_OK ? members_count(d.members) : 0;
    d.files_left = size_mul(size_add(n, 64), REREAD_MAX); /* every .metadata lists its folder again */
    for (size_t i = 0; st == CKPT_OK && i < n; i++)
        if (scan_has_siblings(members_name(d.members, i)))
            st = open_and_scan_metadata(&d, members_name(d.members, i));
    if (d.members)
        x->unpacked += members_unpacked(d.members);
    source_unref(d.members);
    arena_free(d.a);
    return st;
}
