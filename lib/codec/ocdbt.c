/*
 * ocdbt.c - OCDBT, TensorStore's "optionally-cooperative distributed B+tree"
 * (tensorstore/kvstore/ocdbt/format and its documentation), as Orbax writes it.
 *
 *   manifest.ocdbt          kind 0: configuration and newest versions; kind 1: the configuration only
 *   manifest.<16 digits>    for kind 1: the same as in kind 0; the file with the greatest number counts
 *   d/<32 digits>           nodes of the tree, and values that are not in a node
 *   ocdbt.process_N/…       the database of each process that wrote; the manifest refers to its files
 *
 * The manifest and each node of the tree are a record:
 *   0   4   0c db 3a 2a: manifest, 0c db 20 de: node, 0c db 12 34: node of the tree of versions
 *   4   8   length of the record
 *   12  v   version: 0
 *       v   compression: 0 none, 1 zstd
 *       …   content
 *   -4  4   CRC-32C of all bytes before
 *
 * Numbers are varints (v), and stored in columns: the first numbers of all entries, then the second numbers.
 * Texts are two columns of lengths (how many bytes a text shares with the start of the text before it, and
 * how many more it has), then the bytes of all texts that are not shared.
 *   manifest   uuid[16], v kind, v largest value that is in a node, v size of nodes, u8 arity, v compression,
 *              for zstd i32 level; files; versions; nodes of older versions
 *     versions, the newest last: v count, v generation, u8 height, locations, statistics, u64 time
 *     nodes of older versions: v count, v generation, locations, v number of generations, u8 height, u64 time
 *   files      v count, paths; a third column of lengths divides each into a base folder and a name in it
 *   locations  v file, v offset, v length; an empty tree is at 2^64 - 1
 *   node       u8 height, files, v count, keys
 *     leaf     v length, u8 kind (1: the value is in a file); for kind 1: v file, v offset; then the bytes of
 *              all values of kind 0
 *     inner    the keys have a third column of lengths: how many bytes of the key are the prefix of all keys
 *              in the child, which does not store them; then locations, statistics
 *
 * Heights fall by one from parent to child, keys ascend. Refused: another order, wrong checksums, locations
 * beyond the end of their file, bytes after the last entry of a record, nodes that take more than max_decoded
 * bytes of memory in all.
 */
#include "codec/ocdbt.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "codec/unpack_archive.h"

#define MANIFEST   0x0cdb3a2au
#define NODE       0x0cdb20deu
#define VERSIONS   0x0cdb1234u
#define HEAD       12u                 /* bytes of a record before its version */
#define CHECKSUM   4u                  /* bytes of the CRC-32C at the end of a record */
#define MAX_RECORD ((uint64_t)1 << 28) /* most bytes of a record */
#define NOWHERE    UINT64_MAX          /* the offset of an empty tree */
#define MAX_NODES  1000000u

/* Where a record or value is. */
struct ocdbt_location {
    uint32_t file;  /* index into ocdbt.files */
    uint64_t at, n; /* offset and size in bytes */
};

/* A subtree that is not read yet. */
struct ocdbt_child {
    ckpt_str prefix; /* start of all keys in the subtree, which does not store it */
    struct ocdbt_location location;
};

/* The children of a node on the path from the root. */
struct ocdbt_level {
    struct ocdbt_child *children;
    size_t n, next; /* number of children; index of the next one to read */
};

/* A node or manifest that is being read. */
struct ocdbt_record {
    struct ocdbt *o;
    cursor c;
    uint64_t pos;                 /* position of the record in its file, for errors */
    const uint32_t *file_indexes; /* the files that the record lists, as indexes into ocdbt.files */
    size_t nfiles;
    ckpt_error *err;
};

static ckpt_status fail_record(const struct ocdbt_record *r, const char *what, const char *must)
{
    return fail(r->err, CKPT_EFORMAT, r->pos, "{%s}, where {=%s} is expected", what, must);
}

static ckpt_status fail_crc(ckpt_error *err, uint64_t pos, uint32_t crc, uint32_t stored)
{
    return fail(err, CKPT_ECHECKSUM, pos,
                "a record has the CRC-32C {%08" PRIx32 "}, it stores {=%08" PRIx32 "}", crc, stored);
}

/* check_record - fails unless the N bytes at P are a record with this MAGIC, its length and its checksum. */
static ckpt_status check_record(const struct ocdbt_record *r, uint32_t magic, const unsigned char *p,
                                size_t n)
{
    uint32_t found = (uint32_t)load_number(p, 4, true);
    if (found != magic)
        return fail(r->err, CKPT_EFORMAT, r->pos,
                    "a record begins with {%08" PRIx32 "}, not {=%08" PRIx32 "}", found, magic);
    if (load_u64le(p + 4) != n)
        return fail(r->err, load_u64le(p + 4) > n ? CKPT_ETRUNCATED : CKPT_EFORMAT, r->pos,
                    "a record of {=%" PRIu64 " bytes}, but there are {%zu}", load_u64le(p + 4), n);
    uint32_t stored = load_u32le(p + n - CHECKSUM), crc = crc_update(CRC_32C, 0, p, n - CHECKSUM);
    return stored == crc ? CKPT_OK : fail_crc(r->err, r->pos, crc, stored);
}

/* take_content - copies the N bytes at AT of SRC to the arena, and sets r->c to read them. */
static ckpt_status take_content(struct ocdbt_record *r, source *src, uint64_t at, uint64_t n)
{
    unsigned char *bytes = n <= r->o->max_decoded ? arena_alloc(r->o->a, (size_t)n) : NULL;
    if (n > r->o->max_decoded)
        return fail(r->err, CKPT_ELIMIT, r->pos,
                    "nodes of {more} than the {=%" PRIu64 " bytes} that may still be read",
                    r->o->max_decoded);
    CKPT_TRY_ALLOC(bytes, r->err);
    CKPT_TRY(source_read(src, at, bytes, (size_t)n, r->err));
    r->o->max_decoded -= n;
    r->c = cursor_of(bytes, (size_t)n, r->pos);
    return CKPT_OK;
}

/* unpack_content - decompresses the N bytes at P to the arena, and sets r->c to read the result. */
static ckpt_status unpack_content(struct ocdbt_record *r, const unsigned char *p, size_t n)
{
    uint64_t max_bytes = r->o->max_decoded < MAX_RECORD ? r->o->max_decoded : MAX_RECORD;
    source *compressed = source_mem(p, n, CKPT_NO_OFFSET), *out = NULL;
    spool *to = compressed ? spool_new(max_bytes) : NULL;
    ckpt_status st = to ? unpack_zstd(compressed, to, r->err) : fail_memory(r->err);
    if (st == CKPT_ELIMIT)
        st = fail(r->err, st, r->pos, "a node decompresses to {more} than {=%" PRIu64 " bytes}", max_bytes);
    if (to)
        out = spool_source(to);
    if (st == CKPT_OK)
        st = take_content(r, out, 0, out->size);
    error_add_position(st == CKPT_OK ? NULL : r->err, r->pos, STR_LIT("OCDBT record"));
    source_unref(out);
    source_unref(compressed);
    return st;
}

/* open_record - checks the record with MAGIC in the N bytes at P, which were read at AT of SRC, and sets r->c
 * to read its content. */
static ckpt_status open_record(struct ocdbt_record *r, uint32_t magic, const unsigned char *p, size_t n,
                               source *src, uint64_t at)
{
    CKPT_TRY(check_record(r, magic, p, n));
    cursor c = cursor_of(p + HEAD, n - HEAD - CHECKSUM, r->pos);
    uint64_t version = cursor_varint(&c), compression = cursor_varint(&c);
    if (c.bad || version != 0 || compression > 1)
        return fail(r->err, CKPT_EUNSUPPORTED, r->pos,
                    "a record of {version %" PRIu64 ", compression %" PRIu64
                    "}; {=version 0, none or zstd} is read",
                    version, compression);
    return compression ? unpack_content(r, c.p, c.left)
                       : take_content(r, src, at + (n - CHECKSUM - c.left), c.left);
}

/* read_record - sets r->c to read the content of the record with MAGIC in the N bytes at AT of SRC. */
static ckpt_status read_record(struct ocdbt_record *r, uint32_t magic, source *src, uint64_t at, uint64_t n)
{
    r->pos = source_pos(src, at);
    if (!range_within(at, n, src->size))
        return fail(r->err, CKPT_ETRUNCATED, r->pos,
                    "a record of {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", n,
                    at < src->size ? src->size - at : 0);
    if (n < HEAD + 2 + CHECKSUM || n > MAX_RECORD)
        return fail(r->err, n > MAX_RECORD ? CKPT_ELIMIT : CKPT_ETRUNCATED, r->pos,
                    "a record of {%" PRIu64 " bytes}; {=%u to %" PRIu64 "} are read", n, HEAD + 2 + CHECKSUM,
                    MAX_RECORD);
    unsigned char *bytes = malloc((size_t)n);
    CKPT_TRY_ALLOC(bytes, r->err);
    r->o->stored_bytes += n;
    if (r->o->callbacks->on_record_read)
        r->o->callbacks->on_record_read(r->o->callbacks->user, r->o->stored_bytes);
    ckpt_status st = source_read(src, at, bytes, (size_t)n, r->err);
    if (st == CKPT_OK)
        st = open_record(r, magic, bytes, (size_t)n, src, at);
    free(bytes);
    return st;
}

bool ocdbt_has_magic(source *src)
{
    ckpt_error ignored;
    unsigned char head[4];
    if (src->size < sizeof head || source_read(src, 0, head, sizeof head, &ignored) != CKPT_OK)
        return false;
    uint32_t magic = (uint32_t)load_number(head, 4, true);
    return magic == MANIFEST || magic == NODE || magic == VERSIONS;
}

ckpt_status ocdbt_measure_record(source *src, uint64_t at, uint64_t *n, ckpt_error *err)
{
    unsigned char head[HEAD] = {0}, stored[CHECKSUM];
    uint32_t crc = 0;
    uint64_t left = src->size - at;
    CKPT_TRY(source_read(src, at, head, left < HEAD ? (size_t)left : HEAD, err));
    uint32_t magic = (uint32_t)load_number(head, 4, true);
    *n = load_u64le(head + 4);
    if ((magic != MANIFEST && magic != NODE && magic != VERSIONS) || *n < HEAD + CHECKSUM || *n > left)
        return fail(err, CKPT_EFORMAT, source_pos(src, at), "{%" PRIu64 " bytes} that are in {=no record}",
                    left);
    uint64_t size = *n - CHECKSUM;
    CKPT_TRY(source_crc(src, at, size, CRC_32C, &crc, err));
    CKPT_TRY(source_read(src, at + size, stored, sizeof stored, err));
    return crc == load_u32le(stored) ? CKPT_OK : fail_crc(err, source_pos(src, at), crc, load_u32le(stored));
}

/* take_numbers - sets *OUT to a column of N numbers, in the arena. */
static ckpt_status take_numbers(struct ocdbt_record *r, size_t n, uint64_t **out)
{
    bool fits = n <= r->c.left;
    *out = fits ? arena_array(r->o->a, n, sizeof **out) : NULL;
    for (size_t i = 0; *out && i < n; i++)
        (*out)[i] = cursor_varint(&r->c);
    if (!fits || r->c.bad)
        return fail_record(r, "a column that is cut off", "a number for each entry");
    return *out ? CKPT_OK : fail_memory(r->err);
}

/* take_count - reads the number of entries, and refuses more than there are bytes left. */
static ckpt_status take_count(struct ocdbt_record *r, size_t *n)
{
    uint64_t count = cursor_varint(&r->c);
    *n = (size_t)count;
    return !r->c.bad && count <= r->c.left ? CKPT_OK
                                           : fail_record(r, "more entries than fit", "a number that fits");
}

/* take_texts - sets *OUT to N texts, with PREFIX before each. R has two columns: how many bytes each text
 * shares with the text before it, and how many more it has. If THIRD is not NULL, a third column follows, to
 * which *THIRD is set. Then come the bytes that are not shared. */
static ckpt_status take_texts(struct ocdbt_record *r, size_t n, ckpt_str prefix, ckpt_str **out,
                              uint64_t **third)
{
    uint64_t *shared_lens, *added_lens;
    ckpt_str *texts = arena_array(r->o->a, n, sizeof *texts);
    CKPT_TRY(take_numbers(r, n ? n - 1 : 0, &shared_lens));
    CKPT_TRY(take_numbers(r, n, &added_lens));
    if (third)
        CKPT_TRY(take_numbers(r, n, third));
    for (size_t i = 0; texts && i < n; i++) {
        ckpt_str previous = i ? str_skip(texts[i - 1], prefix.len) : str_of("", 0);
        uint64_t shared_len = i ? shared_lens[i - 1] : 0;
        if (shared_len > previous.len || added_lens[i] > r->c.left)
            return fail_record(r, "a text that is cut off", "all of it");
        size_t added_len = (size_t)added_lens[i], start_len = prefix.len + (size_t)shared_len;
        char *bytes = arena_alloc(r->o->a, start_len + added_len + 1);
        CKPT_TRY_ALLOC(bytes, r->err);
        memcpy(bytes, i ? texts[i - 1].ptr : prefix.ptr, start_len);
        memcpy(bytes + start_len, cursor_take(&r->c, added_len), added_len);
        texts[i] = str_of(bytes, start_len + added_len);
    }
    *out = texts;
    return texts ? CKPT_OK : fail_memory(r->err);
}

/* add_file - sets *INDEX to the index of the file PATH in ocdbt.files, and adds the file if it is not there.
 * For BASE_LEN, see ocdbt_file. */
static ckpt_status add_file(const struct ocdbt_record *r, ckpt_str path, size_t base_len, uint32_t *index)
{
    struct ocdbt *o = r->o;
    const struct ocdbt_file f = {.path = path, .base_len = base_len};
    uint32_t known_index = map_get(o->paths, path);
    *index = known_index == MAP_NONE ? (uint32_t)o->nfiles : known_index;
    if (known_index != MAP_NONE)
        return o->files[known_index].base_len == base_len ? CKPT_OK
                                                          : fail_record(r, "a file with two bases", "one");
    bool ok = map_put(o->paths, path, *index, NULL) && ARENA_PUSH(o->a, o, files, &f);
    return ok ? CKPT_OK : fail_memory(r->err);
}

/* take_files - reads the list of files that R refers to. Their paths are relative to FOLDER, the base folder
 * of the file in which R is. */
static ckpt_status take_files(struct ocdbt_record *r, ckpt_str folder)
{
    ckpt_str *paths = NULL;
    uint64_t *base_lens = NULL;
    CKPT_TRY(take_count(r, &r->nfiles));
    if (r->nfiles)
        CKPT_TRY(take_texts(r, r->nfiles, folder, &paths, &base_lens));
    uint32_t *indexes = arena_array(r->o->a, r->nfiles, sizeof *indexes);
    for (size_t i = 0; indexes && i < r->nfiles; i++) {
        if (base_lens[i] > paths[i].len - folder.len)
            return fail_record(r, "a base longer than its path", "the first bytes of the path");
        size_t base_len = folder.len + (size_t)base_lens[i];
        CKPT_TRY(add_file(r, paths[i], base_len, &indexes[i]));
    }
    r->file_indexes = indexes;
    return indexes ? CKPT_OK : fail_memory(r->err);
}

ckpt_status ocdbt_open_file(struct ocdbt *o, uint32_t file, source **out, ckpt_error *err)
{
    struct ocdbt_file *f = &o->files[file];
    if (!f->src)
        CKPT_TRY(o->callbacks->open_file(o->callbacks->user, f, err));
    *out = f->src;
    return CKPT_OK;
}

/* take_locations - sets *OUT to N locations: columns of files, offsets and lengths. */
static ckpt_status take_locations(struct ocdbt_record *r, size_t n, struct ocdbt_location **out)
{
    uint64_t *files, *offsets, *lengths;
    CKPT_TRY(take_numbers(r, n, &files));
    CKPT_TRY(take_numbers(r, n, &offsets));
    CKPT_TRY(take_numbers(r, n, &lengths));
    struct ocdbt_location *p = *out = arena_array(r->o->a, n, sizeof *p);
    for (size_t i = 0; p && i < n; i++) {
        if (files[i] >= r->nfiles)
            return fail_record(r, "a location in a file that is not listed", "one of its files");
        p[i] = (struct ocdbt_location){r->file_indexes[files[i]], offsets[i], lengths[i]};
    }
    return p ? CKPT_OK : fail_memory(r->err);
}

/* skip_statistics - skips three columns of N numbers: keys, bytes of nodes, bytes of values. */
static void skip_statistics(struct ocdbt_record *r, size_t n)
{
    for (size_t i = 0; i < n && !r->c.bad; i++)
        for (unsigned k = 0; k < 3; k++)
            (void)cursor_varint(&r->c);
}

/* check_end - fails unless R was read to its end, and not beyond. */
static ckpt_status check_end(const struct ocdbt_record *r)
{
    return !r->c.bad && !r->c.left
               ? CKPT_OK
               : fail_record(r, r->c.bad ? "a record that is cut off" : "bytes after its last entry",
                             "a record of the length of its entries");
}

/* add_entry - adds E. Fails unless its key is greater than that of the entry before. */
static ckpt_status add_entry(const struct ocdbt_record *r, const struct ocdbt_entry *e)
{
    struct ocdbt *o = r->o;
    if (o->n && str_compare(o->entries[o->n - 1].key, e->key) >= 0)
        return fail(r->err, CKPT_EFORMAT, r->pos, "the keys {do not ascend} at \"%.*s\", as {=they must}",
                    STR_ARG(e->key));
    return arena_push(o->a, &o->entries, &o->n, &o->cap, e, sizeof *e) ? CKPT_OK : fail_memory(r->err);
}

/* take_leaf - adds the N entries of the leaf R, whose keys are KEYS. */
static ckpt_status take_leaf(struct ocdbt_record *r, const ckpt_str *keys, size_t n)
{
    uint64_t *lengths, *files, *offsets;
    size_t nexternal = 0, next_external = 0; /* number of values in files; number of those that were added */
    CKPT_TRY(take_numbers(r, n, &lengths));
    const unsigned char *kinds = cursor_take(&r->c, n);
    for (size_t i = 0; kinds && i < n; i++) {
        if (kinds[i] > 1)
            return fail(r->err, CKPT_EUNSUPPORTED, r->pos, "a value of kind {%u}; {=0 and 1} are read",
                        kinds[i]);
        nexternal += kinds[i];
    }
    CKPT_TRY(take_numbers(r, nexternal, &files));
    CKPT_TRY(take_numbers(r, nexternal, &offsets));
    for (size_t i = 0; kinds && i < n; i++) {
        struct ocdbt_entry e = {.key = keys[i], .n = lengths[i]};
        if (!kinds[i] && (lengths[i] > r->c.left || !(e.bytes = cursor_take(&r->c, (size_t)lengths[i]))))
            return fail_record(r, "a value that is cut off", "all of it");
        if (kinds[i] && files[next_external] >= r->nfiles)
            return fail_record(r, "a value in a file that is not listed", "one of its files");
        if (kinds[i]) {
            e.file = r->file_indexes[files[next_external]];
            e.at = offsets[next_external++];
        }
        CKPT_TRY(add_entry(r, &e));
    }
    return check_end(r);
}

/* take_children - sets the children of L to those in R. All keys in child I begin with the first PREFIX_LEN +
 * COMMON_LENS[I] bytes of KEYS[I]. */
static ckpt_status take_children(struct ocdbt_record *r, const ckpt_str *keys, const uint64_t *common_lens,
                                 size_t prefix_len, struct ocdbt_level *l)
{
    struct ocdbt_location *locations;
    CKPT_TRY(take_locations(r, l->n, &locations));
    skip_statistics(r, l->n);
    CKPT_TRY(check_end(r));
    l->children = arena_array(r->o->a, l->n, sizeof *l->children);
    for (size_t i = 0; l->children && i < l->n; i++) {
        if (common_lens[i] > keys[i].len - prefix_len)
            return fail_record(r, "a child whose keys share more than its key has",
                               "the first bytes of the key");
        ckpt_str prefix = str_of(keys[i].ptr, prefix_len + (size_t)common_lens[i]);
        l->children[i] = (struct ocdbt_child){prefix, locations[i]};
    }
    return l->children ? CKPT_OK : fail_memory(r->err);
}

/* read_node - reads the node C, which is HEIGHT above the leaves: adds its entries, or sets L to its
 * children. */
static ckpt_status read_node(struct ocdbt *o, const struct ocdbt_child *c, unsigned height,
                             struct ocdbt_level *l, ckpt_error *err)
{
    struct ocdbt_record r = {.o = o, .err = err};
    source *src;
    ckpt_str *keys;
    uint64_t *common_lens = NULL;
    CKPT_TRY(ocdbt_open_file(o, c->location.file, &src, err));
    if (++o->nodes_read > MAX_NODES)
        return fail(err, CKPT_ELIMIT, c->location.at, "{more} than {=%u nodes}", MAX_NODES);
    CKPT_TRY(read_record(&r, NODE, src, c->location.at, c->location.n));
    const unsigned char *stored_height = cursor_take(&r.c, 1);
    if (!stored_height || *stored_height != height)
        return fail_record(&r, "a node of another height", "one less than its parent's");
    const struct ocdbt_file *file = &o->files[c->location.file];
    CKPT_TRY(take_files(&r, str_of(file->path.ptr, file->base_len)));
    CKPT_TRY(take_count(&r, &l->n));
    if (!l->n)
        return fail_record(&r, "a node without entries", "one or more");
    CKPT_TRY(take_texts(&r, l->n, c->prefix, &keys, height ? &common_lens : NULL));
    return height ? take_children(&r, keys, common_lens, c->prefix.len, l) : take_leaf(&r, keys, l->n);
}

/* read_tree - adds all entries below ROOT, which is HEIGHT above the leaves. */
static ckpt_status read_tree(struct ocdbt *o, struct ocdbt_child *root, unsigned height, ckpt_error *err)
{
    struct ocdbt_level levels[257] = {{.children = root, .n = 1}}; /* the root, and a level for each height */
    unsigned depth = 0; /* the next child of levels[depth] is read; its height is HEIGHT - DEPTH */
    for (;;) {
        struct ocdbt_level *l = &levels[depth];
        if (l->next == l->n && !COUNT_DOWN(depth))
            return CKPT_OK;
        if (l->next == l->n)
            continue;
        const struct ocdbt_child *c = &l->children[l->next++];
        levels[depth + 1] = (struct ocdbt_level){.n = 0};
        ckpt_status st = read_node(o, c, height - depth, &levels[depth + 1], err);
        if (st != CKPT_OK) {
            if (o->files[c->location.file].shown)
                error_add_file(err, o->files[c->location.file].shown);
            error_add_position(err, CKPT_NO_OFFSET, STR_LIT("OCDBT node"));
            CKPT_TRY(o->callbacks->on_fault ? o->callbacks->on_fault(o->callbacks->user, st, err) : st);
        } else if (depth < height) {
            depth++;
        }
    }
}

/* take_config - reads the configuration with which R begins. *IS_NUMBERED: the versions are in numbered
 * manifests. */
static ckpt_status take_config(struct ocdbt_record *r, bool *is_numbered)
{
    (void)cursor_take(&r->c, 16);
    uint64_t kind = cursor_varint(&r->c);
    (void)cursor_varint(&r->c);
    (void)cursor_varint(&r->c);
    (void)cursor_take(&r->c, 1);
    if (cursor_varint(&r->c) == 1)
        (void)cursor_take(&r->c, 4);
    *is_numbered = kind == 1;
    if (r->c.bad || kind > 1)
        return fail(r->err, r->c.bad ? CKPT_EFORMAT : CKPT_EUNSUPPORTED, r->pos,
                    "a manifest of kind {%" PRIu64 "}; {=0 and 1} are read", kind);
    return CKPT_OK;
}

/* take_versions - sets ROOT to the root of the newest version in R, and *HEIGHT to its height. */
static ckpt_status take_versions(struct ocdbt_record *r, struct ocdbt_child *root, unsigned *height)
{
    uint64_t *generations, *numbers;
    struct ocdbt_location *locations;
    size_t n, nolder;
    CKPT_TRY(take_count(r, &n));
    if (!n)
        return fail_record(r, "no version", "the newest version");
    CKPT_TRY(take_numbers(r, n, &generations));
    const unsigned char *heights = cursor_take(&r->c, n);
    CKPT_TRY(take_locations(r, n, &locations));
    skip_statistics(r, n);
    (void)cursor_take(&r->c, 8 * n);
    CKPT_TRY(take_count(r, &nolder));
    root->location = locations[n - 1];
    *height = heights ? heights[n - 1] : 0;
    CKPT_TRY(take_numbers(r, nolder, &numbers));
    CKPT_TRY(take_locations(r, nolder, &locations));
    CKPT_TRY(take_numbers(r, nolder, &numbers));
    (void)cursor_take(&r->c, 9 * nolder);
    return check_end(r);
}

/* read_newest_manifest - sets ROOT and *HEIGHT as take_versions does, from MANIFEST or from the newest
 * numbered manifest. */
static ckpt_status read_newest_manifest(struct ocdbt *o, source *manifest, struct ocdbt_child *root,
                                        unsigned *height, ckpt_error *err)
{
    struct ocdbt_record r = {.o = o, .err = err};
    bool is_numbered;
    CKPT_TRY(read_record(&r, MANIFEST, manifest, 0, manifest->size));
    CKPT_TRY(take_config(&r, &is_numbered));
    if (is_numbered && !r.c.left) {
        ckpt_str name = {"", 0};
        if (o->callbacks->find_newest_manifest)
            CKPT_TRY(o->callbacks->find_newest_manifest(o->callbacks->user, &name, err));
        if (!name.len)
            return fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                        "there is {no} numbered {=manifest}, which would list the versions");
        struct ocdbt_file newest = {.path = name};
        CKPT_TRY(o->callbacks->open_file(o->callbacks->user, &newest, err));
        CKPT_TRY(read_record(&r, MANIFEST, newest.src, 0, newest.src->size));
        CKPT_TRY(take_config(&r, &is_numbered));
    }
    CKPT_TRY(take_files(&r, str_of("", 0)));
    return take_versions(&r, root, height);
}

ckpt_status ocdbt_read(struct ocdbt *o, source *manifest, ckpt_error *err)
{
    struct ocdbt_child root = {.prefix = {"", 0}};
    unsigned height = 0;
    CKPT_TRY_ALLOC(o->paths = map_new(64), err);
    ckpt_status st = read_newest_manifest(o, manifest, &root, &height, err);
    error_add_position(st == CKPT_OK ? NULL : err, 0, STR_LIT("OCDBT manifest"));
    CKPT_TRY(st);
    bool is_empty = root.location.at == NOWHERE && root.location.n == NOWHERE;
    return is_empty ? CKPT_OK : read_tree(o, &root, height, err);
}

void ocdbt_free(struct ocdbt *o) { map_free(o->paths); }
