/* store.c - see store.h. A file is opened when a value in it is read, and must be inside the folder
 * (parts/part_files). Links to folders are not followed. */
#include "format/zarr/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/check.h"
#include "format/files/folder.h"
#include "format/files/members.h"
#include "format/files/server.h"
#include "format/files/path.h"
#include "format/kit.h"
#include "format/parts/part_files.h"

#define MAX_DEPTH 64u /* of folders */

static ckpt_status add_part(struct store *store, ckpt_str name, ckpt_file **part)
{
    ckpt_str path = ARENA_CONCAT(store->f->a, store->folder, name);
    CKPT_TRY_ALLOC(path.ptr, store->err);
    return part_file_add(store->f, store->trusted, path, part, store->err);
}

/* open_file - the `open` of ocdbt_callbacks. A missing file makes the database truncated. */
static ckpt_status open_file(void *user, struct ocdbt_file *file, ckpt_error *err)
{
    struct store *s = user;
    ckpt_file *part;
    ckpt_status st = add_part(s, file->path, &part);
    if (st == CKPT_OK) {
        file->src = part->src;
        file->shown = part->path;
    }
    if (st != CKPT_ENOTFOUND)
        return st;
    return fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                "{=the file %s%.*s} is {missing}\nput all files of the checkpoint into the folder",
                s->folder.ptr, STR_ARG(file->path));
}

static ckpt_status report_fault(void *user, ckpt_status st, ckpt_error *err)
{
    const struct store *s = user;
    if (!s->f->salvage || !check_is_fault(st))
        return file_report_fault(s->f, st, err);
    file_note_loss(s->f, "a part of the database is lost: %s", err->what);
    return CKPT_OK;
}

static void raise_budget(void *user, uint64_t nbytes)
{
    file_raise_budget(((struct store *)user)->f, nbytes);
}

static bool is_numbered_manifest(ckpt_str name)
{
    ckpt_str prefix = STR_LIT(OCDBT_NUMBERED);
    bool ok = str_starts(name, prefix) && str_skip(name, prefix.len).len == 16;
    for (size_t i = prefix.len; ok && i < name.len; i++)
        ok = (name.ptr[i] >= '0' && name.ptr[i] <= '9') || (name.ptr[i] >= 'a' && name.ptr[i] <= 'f');
    return ok;
}

/* join_path - returns the path of NAME in the folder of STORE. The caller frees the path. NULL: no memory. */
static char *join_path(const struct store *store, ckpt_str name)
{
    char *folder = path_make(str_c(store->f->folder), store->folder);
    char *path = folder ? path_make(str_c(folder), name) : NULL;
    free(folder);
    return path;
}

/* list_names - lists the names that MATCH (NULL: all) in SUBFOLDER of the folder of STORE. */
static ckpt_status list_names(struct store *store, ckpt_str subfolder, bool (*match)(ckpt_str name),
                              ckpt_str **names, size_t *count)
{
    char *path = join_path(store, subfolder);
    CKPT_TRY_ALLOC(path, store->err);
    ckpt_status st = match ? folder_list(store->f, path, match, names, count, store->err)
                           : folder_list_all(store->f, path, names, count, store->err);
    free(path);
    return st;
}

/* find_newest_manifest - sets *NEWEST to the name with the greatest number: the last in the order of bytes,
 * because every name has 16 digits. */
static ckpt_status find_newest_manifest(void *user, ckpt_str *newest, ckpt_error *err)
{
    struct store *s = user;
    ckpt_str *names;
    size_t n = 0;
    (void)err;
    CKPT_TRY(list_names(s, STR_LIT(""), is_numbered_manifest, &names, &n));
    for (size_t i = 0; i < n; i++)
        *newest = str_compare(*newest, names[i]) < 0 ? names[i] : *newest;
    return CKPT_OK;
}

static bool add_entry(struct store *store, ckpt_str name)
{
    struct ocdbt *db = &store->db;
    const struct ocdbt_file file = {.path = name};
    const struct ocdbt_entry entry = {.key = name, .file = (uint32_t)db->nfiles, .n = STORE_WHOLE_FILE};
    return ARENA_PUSH(store->f->a, db, files, &file) &&
           arena_push(store->f->a, &db->entries, &db->n, &db->cap, &entry, sizeof entry);
}

/* The folders that must still be listed, as paths from the folder of the store. */
struct folder_walk {
    ckpt_str *names;
    size_t n, cap;
};

static ckpt_status add_folder(struct store *store, struct folder_walk *walk, ckpt_str name)
{
    size_t depth = 0;
    for (size_t i = 0; i < name.len; i++)
        depth += name.ptr[i] == '/';
    if (depth > MAX_DEPTH)
        return fail(store->err, CKPT_ELIMIT, CKPT_NO_OFFSET, "folders in folders, {more} than {=%u}",
                    MAX_DEPTH);
    return arena_push(store->f->a, &walk->names, &walk->n, &walk->cap, &name, sizeof name)
               ? CKPT_OK
               : fail_memory(store->err);
}

/* find_kind - returns MEMBER_FILE also for a link, which is followed or refused when it is opened. */
static enum member_kind find_kind(const struct store *store, const char *path)
{
    struct stat st;
    if (store->f->archive) {
        enum member_kind kind = members_find(store->f->archive, path);
        return kind == MEMBER_OTHER ? MEMBER_FILE : kind;
    }
    return lstat(path, &st) != 0                        ? MEMBER_NONE
           : S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? MEMBER_FILE
           : S_ISDIR(st.st_mode)                        ? MEMBER_FOLDER
                                                        : MEMBER_OTHER;
}

/* add_name - adds NAME of FOLDER: a folder to WALK; a regular file or a link as an entry of STORE. */
static ckpt_status add_name(struct store *store, struct folder_walk *walk, ckpt_str folder, ckpt_str name)
{
    ckpt_str key = ARENA_CONCAT(store->f->a, folder, name);
    char *path = key.ptr ? join_path(store, key) : NULL;
    CKPT_TRY_ALLOC(path, store->err);
    enum member_kind kind = find_kind(store, path);
    free(path);
    if (kind == MEMBER_FILE)
        return add_entry(store, key) ? CKPT_OK : fail_memory(store->err);
    if (kind != MEMBER_FOLDER)
        return CKPT_OK;
    ckpt_str inner = ARENA_CONCAT(store->f->a, key, STR_LIT("/"));
    return inner.ptr ? add_folder(store, walk, inner) : fail_memory(store->err);
}

static int compare_keys(const void *left, const void *right)
{
    return str_compare(((const struct ocdbt_entry *)left)->key, ((const struct ocdbt_entry *)right)->key);
}

static ckpt_status open_folder(struct store *store)
{
    struct folder_walk w = {.n = 0};
    if (store->f->archive && !server_lists_folders(store->f->archive))
        return fail(store->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "{a Zarr store} on a server that does not list its files, as {=the Hub} does\n"
                    "download the folder");
    CKPT_TRY(add_folder(store, &w, STR_LIT("")));
    while (w.n) {
        ckpt_str folder = w.names[--w.n], *names;
        size_t n = 0;
        CKPT_TRY(list_names(store, folder, NULL, &names, &n));
        for (size_t i = 0; i < n; i++)
            CKPT_TRY(add_name(store, &w, folder, names[i]));
    }
    if (store->db.n)
        qsort(store->db.entries, store->db.n, sizeof *store->db.entries, compare_keys);
    return CKPT_OK;
}

ckpt_status store_open(struct store *store, bool is_ocdbt)
{
    struct ocdbt_file manifest = {.path = STR_LIT(OCDBT_MANIFEST)};
    store->callbacks = (struct ocdbt_callbacks){open_file, raise_budget, find_newest_manifest, report_fault,
                                                store};
    store->db = (struct ocdbt){
        .a = store->f->a, .callbacks = &store->callbacks, .max_decoded = store->f->limits.max_header};
    store->f->owns_folder = true;
    if (!is_ocdbt)
        return open_folder(store);
    CKPT_TRY(open_file(store, &manifest, store->err));
    CKPT_TRY(ocdbt_read(&store->db, manifest.src, store->err));
    check_count(store->f->check, store->db.nodes_read + 1, store->db.stored_bytes);
    return CKPT_OK;
}

void store_close(struct store *store) { ocdbt_free(&store->db); }

size_t store_find(const struct store *store, ckpt_str key)
{
    size_t low = 0, high = store->db.n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (str_compare(store->db.entries[mid].key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

ckpt_status store_find_bytes(struct store *store, size_t index, source **src, uint64_t *at, uint64_t *count)
{
    const struct ocdbt_entry *e = &store->db.entries[index];
    source *file;
    *at = e->bytes ? 0 : e->at;
    *count = e->n;
    if (e->bytes) {
        *src = source_mem(e->bytes, (size_t)e->n, CKPT_NO_OFFSET);
        return *src ? CKPT_OK : fail_memory(store->err);
    }
    CKPT_TRY(ocdbt_open_file(&store->db, e->file, &file, store->err));
    if (e->n == STORE_WHOLE_FILE)
        *count = file->size;
    if (!range_within(*at, *count, file->size))
        return fail(store->err, CKPT_ETRUNCATED, *at,
                    "a value of {=%" PRIu64 " bytes}, the file %.*s has {%" PRIu64 "} there", *count,
                    STR_ARG(store->db.files[e->file].path), *at < file->size ? file->size - *at : 0);
    *src = source_ref(file);
    return CKPT_OK;
}

const char *store_file_path(const struct store *store, size_t index)
{
    const struct ocdbt_entry *e = &store->db.entries[index];
    return e->bytes ? NULL : store->db.files[e->file].shown;
}

ckpt_status store_read_text(struct store *store, size_t index, ckpt_str *text)
{
    source *src;
    uint64_t at, n;
    CKPT_TRY(store_find_bytes(store, index, &src, &at, &n));
    ckpt_status st = kit_read_metadata(store->f, src, at, n, text, store->err);
    source_unref(src);
    return st;
}

ckpt_status store_read_file(struct store *store, ckpt_str name, ckpt_str *text)
{
    ckpt_file *part;
    CKPT_TRY(add_part(store, name, &part));
    return kit_read_metadata(store->f, part->src, 0, part->src->size, text, store->err);
}
