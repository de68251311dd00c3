/* server.c - see server.h. The files of a folder are known only to the Hub, which lists them by its tree
 * API (GET ENDPOINT/api/models/ORG/REPO/tree/REVISION: a list of {"type": "file", "path": "dir/name", …}).
 * Whether another server has a file shows when its first bytes are requested; they are kept for when it is
 * read. The first reply of the Hub with a file has the commit of the revision, by which all later files and
 * lists are requested. */
#include "format/files/server.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/sized.h"
#include "codec/json_scan.h"
#include "format/files/path.h"
#include "io/http.h"

#define MAX_LIST    (UINT64_C(4) << 20)  /* bytes of a list of files */
#define MAX_MEMORY  (UINT64_C(64) << 20) /* of all names, and for reading a list */
#define MAX_COMMIT  64u
#define MAX_ENTRIES 131072u /* of all lists, and requests: a hostile Hub has folders without end */
#define MAX_AT_ONCE 64u     /* files whose first bytes are requested in one go */

/* A file that was requested. */
struct opened {
    char *path;    /* owned */
    source *bytes; /* owned reference; NULL: there is no such file */
};

/* A folder that was listed. */
struct listed {
    char *path; /* owned; without '/' at its end */
    ckpt_str *names;
    bool *is_folder;
    size_t n;
};

struct server {
    source as_source; /* must be first */
    http_client *client;
    ckpt_remote remote;
    arena *a;
    char *folder;            /* of the URL that was typed, with '/' at its end */
    bool is_hub, is_folder;  /* what was typed is of the Hub; is a folder */
    char commit[MAX_COMMIT]; /* of the Hub's repository, or empty */
    struct opened *files;
    size_t nfiles, cap_files;
    struct listed *lists;
    size_t nlists, cap_lists;
    uint64_t nentries; /* see MAX_ENTRIES */
    bool has_failed;
    ckpt_error failure; /* if has_failed */
};

/* ----------------------------------------------------------------------- addresses */

/* get_address - sets *OUT to the address of PATH: what was typed, or a file in its folder. The name of that
 * may come from a file: it has yet to be checked and encoded. */
static ckpt_status get_address(const struct server *server, const char *path, bool was_typed,
                               struct address *out, ckpt_error *err)
{
    char *joined = NULL;
    ckpt_str name = str_c(path);
    if (!was_typed && !str_take(&name, str_c(server->folder)))
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "{a path} that is not in {=the folder on the server}");
    if (!was_typed)
        CKPT_TRY(url_join(str_c(server->folder), name, &joined, err));
    ckpt_status st = address_resolve(joined ? joined : path, server->commit, &server->remote, out, err);
    free(joined);
    if (st != CKPT_OK)
        return st;
    out->shown = path_to_show(path);
    if (out->shown)
        return CKPT_OK;
    address_free(out);
    return fail_memory(err);
}

/* ------------------------------------------------------------- what a server may do */

/* count_entries - counts COUNT more entries of lists or requests. CKPT_ELIMIT: there were too many. */
static ckpt_status count_entries(struct server *server, uint64_t count, ckpt_error *err)
{
    server->nentries += count; /* each at most MAX_LIST */
    if (server->nentries <= MAX_ENTRIES)
        return CKPT_OK;
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "the server has {more} files and folders than {=%u}, the most that are looked at\n"
                "name a folder in it, or the file",
                MAX_ENTRIES);
}

/* check_commit - keeps COMMIT, which a reply of the Hub has (empty: none), or compares it with that of the
 * replies before. */
static ckpt_status check_commit(struct server *server, const char *commit, ckpt_error *err)
{
    if (!server->commit[0])
        memcpy(server->commit, commit, sizeof server->commit);
    if (!commit[0] || strcmp(server->commit, commit) == 0)
        return CKPT_OK;
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "the repository changed while it was read: it is at commit {%s}, {=%s} before\n"
                "read it again, or name the commit: hf://ORG/REPO@COMMIT",
                commit, server->commit);
}

/* ---------------------------------------------------------------------------- files */

static const struct opened *find_opened(const struct server *server, const char *path)
{
    for (size_t i = 0; i < server->nfiles; i++)
        if (strcmp(server->files[i].path, path) == 0)
            return &server->files[i];
    return NULL;
}

/* add_opened - keeps BYTES, which it takes over, as the file PATH. */
static ckpt_status add_opened(struct server *server, const char *path, source *bytes, ckpt_error *err)
{
    struct opened o = {strdup(path), bytes};
    if (o.path && arena_append(NULL, &server->files, &server->nfiles, &server->cap_files, sizeof o)) {
        server->files[server->nfiles - 1] = o;
        return CKPT_OK;
    }
    free(o.path);
    source_unref(bytes);
    return fail_memory(err);
}

/* What is requested of a server, and how. */
struct request {
    const char *const *paths;
    size_t n;           /* at most MAX_AT_ONCE */
    bool was_typed;     /* the path is what was typed */
    bool may_be_absent; /* some may not be there */
};

/* request - requests the first bytes of files, which are kept. */
static ckpt_status request(struct server *server, const struct request *asked, ckpt_error *err)
{
    struct address addresses[MAX_AT_ONCE] = {0};
    source *sources[MAX_AT_ONCE];
    const struct http_opening how = {server->client, server->is_hub, asked->may_be_absent};
    ckpt_status st = count_entries(server, asked->n, err);
    for (size_t i = 0; i < asked->n; i++)
        CKPT_THEN(st, get_address(server, asked->paths[i], asked->was_typed, &addresses[i], err));
    CKPT_THEN(st, http_sources_open(&how, addresses, asked->n, sources, err));
    for (size_t i = 0; i < asked->n; i++)
        address_free(&addresses[i]);
    CKPT_TRY(st);
    for (size_t i = 0; i < asked->n; i++) {
        if (sources[i])
            CKPT_THEN(st, check_commit(server, http_source_file(sources[i])->commit, err));
        if (st == CKPT_OK)
            st = add_opened(server, asked->paths[i], sources[i], err);
        else
            source_unref(sources[i]);
    }
    return st;
}

static ckpt_status open_bytes(struct server *server, const char *path, bool was_typed, source **out,
                              ckpt_error *err)
{
    ckpt_error ignored;
    const struct opened *known = find_opened(server, path);
    const struct request asked = {.paths = &path, .n = 1, .was_typed = was_typed};
    if (!known) {
        ckpt_status st = request(server, &asked, err);
        if (st == CKPT_ENOTFOUND)
            (void)add_opened(server, path, NULL, &ignored);
        CKPT_TRY(st);
        known = &server->files[server->nfiles - 1];
    }
    if (!known->bytes)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "the server has no such file");
    *out = source_ref(known->bytes);
    return CKPT_OK;
}

static ckpt_status server_open_file(source *archive, const char *path, source **out, ckpt_error *err)
{
    source *bytes;
    *out = NULL;
    CKPT_TRY(open_bytes((struct server *)archive, path, false, &bytes, err));
    return members_wrap(archive, bytes, out, err);
}

/* prefetch - requests those of the COUNT files PATHS that were not requested yet. */
static ckpt_status prefetch(struct server *server, const char *const *paths, size_t count, ckpt_error *err)
{
    const char *missing[MAX_AT_ONCE];
    struct request asked = {.paths = missing, .may_be_absent = true};
    for (size_t i = 0; i < count; i++) {
        if (!find_opened(server, paths[i]))
            missing[asked.n++] = paths[i];
        if (asked.n == MAX_AT_ONCE || (asked.n && i + 1 == count)) {
            CKPT_TRY(request(server, &asked, err));
            asked.n = 0;
        }
    }
    return CKPT_OK;
}

static void server_prefetch(source *archive, const char *const *paths, size_t count)
{
    ckpt_error ignored; /* a file that cannot be read is requested again, and then reported */
    (void)prefetch((struct server *)archive, paths, count, &ignored);
}

/* --------------------------------------------------------------------------- folders */

static bool add_name(struct server *server, struct listed *list, ckpt_str path, bool is_folder)
{
    size_t n = list->n + 1;
    ckpt_str name = arena_str(server->a, str_after_last(path, '/'));
    ckpt_str *names = realloc(list->names, n * sizeof *names);
    list->names = names ? names : list->names;
    bool *flags = names ? realloc(list->is_folder, n * sizeof *flags) : NULL;
    list->is_folder = flags ? flags : list->is_folder;
    if (!name.ptr || !flags)
        return false;
    list->names[list->n] = name;
    list->is_folder[list->n++] = is_folder;
    return true;
}

/* read_list - reads TEXT, the reply of the tree API, to LIST, with values in SCRATCH. */
static ckpt_status read_list(struct server *server, ckpt_str text, arena *scratch, struct listed *list,
                             ckpt_error *err)
{
    ckpt_value *entries;
    ckpt_str path, type;
    CKPT_TRY(json_read_value(text, CKPT_NO_OFFSET, scratch, &entries, err));
    CKPT_TRY(count_entries(server, value_is_sequence(entries) ? value_count(entries) : 0, err));
    for (uint32_t i = 0; value_is_sequence(entries) && i < value_count(entries); i++) {
        const ckpt_value *entry = value_item(entries, i);
        if (!value_text(value_get(entry, "path"), &path) || !value_text(value_get(entry, "type"), &type) ||
            path_is_unsafe(path))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "its list of files has {an entry} without {=path and type}");
        CKPT_TRY_ALLOC(add_name(server, list, path, str_is(type, "directory")), err);
    }
    return CKPT_OK;
}

static ckpt_status fetch_list(struct server *server, char *url, struct listed *list, ckpt_error *err)
{
    enum credentials credentials = server->remote.hub_token ? CREDENTIALS_HUB : CREDENTIALS_NONE;
    struct http_file file = {.address = {url, credentials, strdup(list->path)},
                             .identity = {.size = HTTP_UNKNOWN},
                             .is_of_hub = true};
    struct http_range range = {.file = &file, .asked = {.count = MAX_LIST, .is_document = true}};
    arena *scratch = arena_new(MAX_MEMORY);
    range.bytes = scratch ? (unsigned char *)arena_alloc_text(scratch, MAX_LIST) : NULL;
    ckpt_status st = range.bytes ? http_fetch(server->client, &range, 1, err) : fail_memory(err);
    if (st == CKPT_OK && range.has_next)
        st = fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                  "the folder has {more files} than the Hub lists at once\nname the index or the file in it");
    CKPT_THEN(st,
              read_list(server, str_of((const char *)range.bytes, (size_t)range.count), scratch, list, err));
    CKPT_THEN(st, check_commit(server, file.commit, err));
    arena_free(scratch);
    http_file_free(&file);
    return st;
}

/* probe_names - adds to LIST those of the files by which formats recognize a folder that are in the folder of
 * LIST, for a server that lists no folders. */
static ckpt_status probe_names(struct server *server, struct listed *list, ckpt_error *err)
{
    static const char *const known[] = {
        /* clang-format off */
        "model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json",
        "pytorch_model.bin",
        ".metadata", ".snapshot_metadata", "checkpoint", "saved_model.pb", "model.json", "_METADATA",
        "manifest.ocdbt", "zarr.json", ".zgroup", "latest", "latest_checkpointed_iteration.txt"
        /* clang-format on */
    };
    enum { COUNT = sizeof known / sizeof *known };
    char *paths[COUNT] = {0};
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; i < COUNT; i++)
        if (!(paths[i] = path_make(str_c(list->path), str_c(known[i]))))
            st = fail_memory(err);
    CKPT_THEN(st, prefetch(server, (const char *const *)paths, COUNT, err));
    for (size_t i = 0; i < COUNT; i++) {
        if (st == CKPT_OK && find_opened(server, paths[i])->bytes &&
            !add_name(server, list, str_c(known[i]), false))
            st = fail_memory(err);
        free(paths[i]);
    }
    return st;
}

/* get_list - sets *OUT to the list of the folder PATH, which is requested once. */
static ckpt_status get_list(struct server *server, const char *path, const struct listed **out,
                            ckpt_error *err)
{
    ckpt_str folder = str_trim_end(str_c(path), "/");
    struct listed list = {.path = strndup(path, folder.len)};
    char *url = NULL;
    for (size_t i = server->nlists; list.path && i > 0; i--) /* mostly, the last one is looked for */
        if (strcmp(server->lists[i - 1].path, list.path) == 0) {
            free(list.path);
            *out = &server->lists[i - 1];
            return CKPT_OK;
        }
    ckpt_status st = list.path ? count_entries(server, 1, err) : fail_memory(err);
    if (st == CKPT_OK && !server->is_hub && !server->is_folder)
        st = fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "only the Hub lists the files of {a folder}");
    if (server->is_hub) {
        CKPT_THEN(st, address_tree(list.path, server->commit, &server->remote, &url, err));
        CKPT_THEN(st, fetch_list(server, url, &list, err));
    } else {
        CKPT_THEN(st, probe_names(server, &list, err));
    }
    if (st == CKPT_OK &&
        !arena_append(NULL, &server->lists, &server->nlists, &server->cap_lists, sizeof list))
        st = fail_memory(err);
    if (st == CKPT_OK) {
        server->lists[server->nlists - 1] = list;
        *out = &server->lists[server->nlists - 1];
        return CKPT_OK;
    }
    free(list.path);
    free(list.names);
    free(list.is_folder);
    return st;
}

static ckpt_status server_list(const source *archive, const char *path, arena *a,
                               bool (*match)(ckpt_str name), ckpt_str **out, size_t *count, ckpt_error *err)
{
    size_t cap = 0;
    const struct listed *list;
    *out = NULL;
    *count = 0;
    CKPT_TRY(get_list((struct server *)(uintptr_t)archive, path, &list, err));
    for (size_t i = 0; i < list->n; i++) {
        if (!match(list->names[i]))
            continue;
        ckpt_str name = arena_str(a, list->names[i]);
        CKPT_TRY_ALLOC(name.ptr && arena_push(a, out, count, &cap, &name, sizeof name), err);
    }
    return CKPT_OK;
}

/* keep_failure - keeps the first failure other than that a file is absent. */
static void keep_failure(struct server *server, ckpt_status st, const ckpt_error *err)
{
    if (st == CKPT_OK || st == CKPT_ENOTFOUND || server->has_failed)
        return;
    server->has_failed = true;
    server->failure = *err;
}

/* find_listed - returns what PATH is by the list of its folder. */
static enum member_kind find_listed(struct server *server, const char *path)
{
    ckpt_error err;
    const struct listed *list;
    ckpt_str trimmed = str_trim_end(str_c(path), "/"), folder = str_folder(trimmed);
    ckpt_str name = str_skip(trimmed, folder.len);
    char *parent = strndup(folder.ptr, folder.len);
    ckpt_status st = parent ? get_list(server, parent, &list, &err) : fail_memory(&err);
    free(parent);
    keep_failure(server, st, &err);
    for (size_t i = 0; st == CKPT_OK && i < list->n; i++)
        if (str_eq(list->names[i], name))
            return list->is_folder[i] ? MEMBER_FOLDER : MEMBER_FILE;
    return MEMBER_NONE;
}

static enum member_kind server_find(const source *archive, const char *path)
{
    ckpt_error err;
    source *bytes;
    struct server *s = (struct server *)(uintptr_t)archive;
    const struct opened *known = find_opened(s, path);
    if (known)
        return known->bytes ? MEMBER_FILE : MEMBER_NONE;
    if (address_is_folder(path))
        return MEMBER_FOLDER;
    if (s->is_hub)
        return find_listed(s, path);
    ckpt_status st = open_bytes(s, path, false, &bytes, &err);
    keep_failure(s, st, &err);
    if (st == CKPT_OK)
        source_unref(bytes);
    return st == CKPT_OK ? MEMBER_FILE : MEMBER_NONE;
}

/* -------------------------------------------------------------------------- the server */

static void server_close(source *src)
{
    struct server *s = (struct server *)src;
    for (size_t i = 0; i < s->nfiles; i++) {
        free(s->files[i].path);
        source_unref(s->files[i].bytes);
    }
    for (size_t i = 0; i < s->nlists; i++) {
        free(s->lists[i].path);
        free(s->lists[i].names);
        free(s->lists[i].is_folder);
    }
    free(s->files);
    free(s->lists);
    free(s->folder);
    http_client_free(s->client);
    arena_free(s->a);
    free(s);
}

static const struct source_ops server_ops = {.close = server_close,
                                             .open_file = server_open_file,
                                             .find = server_find,
                                             .list = server_list,
                                             .prefetch = server_prefetch};

bool server_lists_folders(const source *archive)
{
    return archive->ops != &server_ops || ((const struct server *)archive)->is_hub;
}

bool server_stat(const source *archive, struct stat *out)
{
    const struct server *s = (const struct server *)archive;
    uint32_t sums[2] = {0, 0};
    *out = (struct stat){0};
    if (archive->ops != &server_ops)
        return false;
    for (size_t i = 0; i < s->nfiles; i++) {
        const source *bytes = s->files[i].bytes;
        const struct http_identity none = {.size = 0},
                                   *known = bytes ? &http_source_file(bytes)->identity : &none;
        const ckpt_str texts[] = {url_show(s->files[i].path), str_c(known->modified),
                                  str_of((const char *)&known->tag, sizeof known->tag)};
        out->st_size = (off_t)(size_add((uint64_t)out->st_size, known->size) & INT64_MAX);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            sums[0] = crc_update(CRC_32, sums[0], texts[k].ptr, texts[k].len);
            sums[1] = crc_update(CRC_32C, sums[1], texts[k].ptr, texts[k].len);
        }
    }
    out->st_mtim.tv_sec = (time_t)sums[0];
    out->st_mtim.tv_nsec = (long)sums[1];
    return true;
}

const ckpt_error *server_failure(const source *archive)
{
    const struct server *s = archive && archive->ops == &server_ops ? (const struct server *)archive : NULL;
    return s && s->has_failed ? &s->failure : NULL;
}

/* copy_folder - returns the folder that the URL TYPED is in, or is, with '/' at its end. NULL: no memory. */
static char *copy_folder(const char *typed)
{
    ckpt_str shown = url_show(typed);
    return path_make(address_is_folder(typed) ? shown : str_folder(shown), STR_LIT(""));
}

static ckpt_status new_server(const char *typed, const ckpt_remote *remote, struct server **out,
                              ckpt_error *err)
{
    struct server *s = calloc(1, sizeof *s);
    CKPT_TRY_ALLOC(s, err);
    s->as_source = (source){.ops = &server_ops, .refs = 1};
    s->remote = *remote;
    s->is_hub = (typed[0] | 0x20) == 'h' && (typed[1] | 0x20) == 'f';
    s->a = arena_new(MAX_MEMORY);
    s->is_folder = address_is_folder(typed);
    s->folder = copy_folder(typed);
    ckpt_status st = s->a && s->folder ? http_client_new(&s->remote, &s->client, err) : fail_memory(err);
    if (st == CKPT_OK)
        *out = s;
    else
        server_close(&s->as_source);
    return st;
}

/* read_options - copies REMOTE to OWN. Fails if REMOTE is NULL or offline. */
static ckpt_status read_options(const ckpt_remote *remote, ckpt_remote *own, ckpt_error *err)
{
    if (!remote)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a URL, which this program does not read");
    CKPT_TRY(sized_struct_copy_in(remote, own, sizeof *own, err));
    return own->offline ? fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                               "a URL is not read offline\n"
                               "leave out --offline, and unset CKPT_OFFLINE and HF_HUB_OFFLINE")
                        : CKPT_OK;
}

/* check_typed - refuses a URL that is malformed. */
static ckpt_status check_typed(const char *typed, const ckpt_remote *remote, ckpt_error *err)
{
    struct address address;
    char *tree = NULL;
    ckpt_status st = address_is_folder(typed) ? address_tree(typed, NULL, remote, &tree, err) : CKPT_OK;
    if (st == CKPT_OK && !tree) {
        st = address_resolve(typed, NULL, remote, &address, err);
        address_free(&address);
    }
    free(tree);
    return st;
}

/* find_folder - finds out whether TYPED, which is no file of the Hub, is a folder. */
static bool find_folder(struct server *server, const char *typed)
{
    ckpt_error ignored;
    const struct listed *list;
    if (get_list(server, typed, &list, &ignored) != CKPT_OK || !list->n)
        return false;
    char *folder = path_make(str_c(typed), STR_LIT(""));
    if (!folder)
        return false;
    free(server->folder);
    server->folder = folder;
    server->is_folder = true;
    return true;
}

ckpt_status server_open(const char *typed, const ckpt_remote *remote, source **out, ckpt_error *err)
{
    struct server *s = NULL;
    ckpt_remote own;
    source *bytes;
    *out = NULL;
    CKPT_TRY(read_options(remote, &own, err));
    CKPT_TRY(check_typed(typed, &own, err));
    CKPT_TRY(new_server(typed, &own, &s, err));
    ckpt_status st = s->is_folder ? CKPT_OK : open_bytes(s, typed, true, &bytes, err);
    if (st == CKPT_ENOTFOUND && s->is_hub && find_folder(s, typed))
        st = CKPT_OK;
    if (st == CKPT_OK && s->is_folder) {
        *out = &s->as_source;
        return CKPT_OK;
    }
    CKPT_THEN(st, members_wrap(&s->as_source, bytes, out, err));
    source_unref(&s->as_source);
    return st;
}
