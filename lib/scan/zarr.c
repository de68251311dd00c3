/*
 * zarr.c - finds the chunks of Zarr arrays among the files of an archive or folder. A chunk is numbers, also
 * compressed, whose first bytes may be anything. A file counts as one if the metadata of an array, in a
 * folder around it, can be read and have a chunk of its name.
 */
#include "codec/zarr.h"
#include "format/files/members.h"
#include "scan/scan.h"

#define METADATA_MEMORY ((uint64_t)256 << 20) /* bytes, for all arrays */
#define METADATA_MAX    ((uint64_t)1 << 20)   /* bytes of the metadata of an array */
#define LEVELS_MAX      (ZARR_DIMS + 1)       /* of folders from an array to a chunk */

/* A FOLDER is the path of its files up to the name, with the '/' or, at the top of an archive, the '!' before
 * the name: "dir/sub/", "!dir/sub/", "!"; "" is the folder that is scanned. */
struct scan_chunks {
    source *archive;    /* NULL: on disk */
    const char *prefix; /* of the paths of its files: "" or "!" */
    arena *a;
    map *folders;               /* folder -> index in ARRAYS */
    struct zarr_array **arrays; /* NULL: no array is in this folder */
    size_t n, cap;
};

bool scan_is_array_metadata(ckpt_str path)
{
    ckpt_str name = str_after_last(path, '/');
    return str_is(name, ZARR_V2) || str_is(name, ZARR_V3);
}

ckpt_status scan_chunks_new(source *archive, struct scan_chunks **out, ckpt_error *err)
{
    arena *a = arena_new(METADATA_MEMORY);
    struct scan_chunks *c = a ? arena_alloc(a, sizeof *c) : NULL;
    *out = c;
    if (c)
        *c = (struct scan_chunks){.archive = archive, .prefix = "", .a = a, .folders = map_new(16)};
    if (c && c->folders)
        return CKPT_OK;
    arena_free(a);
    *out = NULL;
    return fail_memory(err);
}

ckpt_status scan_chunks_open(struct scanner *scanner, source *src, struct scan_chunks **out, ckpt_error *err)
{
    source *archive;
    ckpt_error why;
    *out = NULL;
    ckpt_status st = members_open(src, "", scan_max_unpacked(scanner, src->size), &archive, &why);
    if (st != CKPT_OK) /* scanning the archive finds why */
        return scan_note_system_failure(scanner->scan, st, &why) ? fail(err, st, why.offset, "%s", why.what)
                                                                 : CKPT_OK;
    st = scan_chunks_new(archive, out, err);
    if (st == CKPT_OK)
        (*out)->prefix = "!";
    else
        source_unref(archive);
    return st;
}

void scan_chunks_close(struct scan_chunks *chunks, struct scanner *scanner)
{
    if (!chunks)
        return;
    if (scanner) { /* else the archive is the caller's, see scan.h */
        scanner->unpacked += members_unpacked(chunks->archive);
        source_unref(chunks->archive);
    }
    map_free(chunks->folders);
    arena_free(chunks->a);
}

/* read_array - sets *OUT to the array that the file NAME in FOLDER describes; NULL: there is none that can be
 * read, or the arrays have reached METADATA_MEMORY. Fails only if the system has no more memory. */
static ckpt_status read_array(struct scan_chunks *chunks, ckpt_str folder, const char *name,
                              struct zarr_array **out, ckpt_error *err)
{
    ckpt_error ignored;
    ckpt_str path = ARENA_CONCAT(chunks->a, str_c(chunks->prefix), folder, str_c(name));
    source *src = path.ptr ? scan_open_sibling(chunks->archive, path.ptr) : NULL;
    ckpt_status read_status = path.ptr ? CKPT_OK : CKPT_ENOMEM;
    *out = NULL;
    if (src && src->size <= METADATA_MAX) {
        size_t n = (size_t)src->size;
        struct zarr_array *array = arena_alloc(chunks->a, sizeof *array);
        char *text = arena_alloc(chunks->a, n + 1);
        read_status = array && text ? source_read(src, 0, text, n, &ignored) : CKPT_ENOMEM;
        if (read_status == CKPT_OK)
            read_status = zarr_read(str_of(text, n), strcmp(name, ZARR_V3) == 0, chunks->a, array, &ignored);
        *out = read_status == CKPT_OK ? array : NULL;
    }
    source_unref(src);
    return read_status != CKPT_ENOMEM || arena_full(chunks->a) ? CKPT_OK : fail_memory(err);
}

/* find_array - sets *OUT to the array in FOLDER; NULL: there is none. */
static ckpt_status find_array(struct scan_chunks *chunks, ckpt_str folder, struct zarr_array **out,
                              ckpt_error *err)
{
    uint32_t known = map_get(chunks->folders, folder);
    *out = known == MAP_NONE ? NULL : chunks->arrays[known];
    if (known != MAP_NONE)
        return CKPT_OK;
    CKPT_TRY(read_array(chunks, folder, ZARR_V2, out, err));
    if (!*out)
        CKPT_TRY(read_array(chunks, folder, ZARR_V3, out, err));
    ckpt_str kept = arena_str(chunks->a, folder);
    uint32_t index = (uint32_t)chunks->n;
    if (kept.ptr && arena_push(chunks->a, &chunks->arrays, &chunks->n, &chunks->cap, out, sizeof *out))
        return map_put(chunks->folders, kept, index, NULL) ? CKPT_OK : fail_memory(err);
    return arena_full(chunks->a) ? CKPT_OK : fail_memory(err);
}

/* find_outer_folder - returns the folder that has PATH, a file or folder. .ptr NULL: the name of PATH has
 * characters that no key of a chunk has ("0.1", "c/0/1"), so no folder further out is its array's. */
static ckpt_str find_outer_folder(ckpt_str path)
{
    size_t n = path.len;
    n -= n && path.ptr[n - 1] == '/';
    size_t end = n;
    while (n && path.ptr[n - 1] != '/' && path.ptr[n - 1] != '!')
        if (!strchr("0123456789.c", path.ptr[--n]))
            return (ckpt_str){NULL, 0};
    return n < end ? str_of(path.ptr, n) : (ckpt_str){NULL, 0};
}

ckpt_status scan_is_chunk(struct scan_chunks *chunks, ckpt_str path, bool *is_chunk, ckpt_error *err)
{
    uint64_t first[ZARR_DIMS];
    ckpt_str folder = path;
    *is_chunk = false;
    for (size_t i = 0; !*is_chunk && i < LEVELS_MAX; i++) {
        struct zarr_array *array;
        folder = find_outer_folder(folder);
        if (!folder.ptr)
            break;
        CKPT_TRY(find_array(chunks, folder, &array, err));
        *is_chunk = array && zarr_is_chunk_key(array, str_skip(path, folder.len), first);
    }
    return CKPT_OK;
}
