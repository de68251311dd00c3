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

static ckpt_status fail_record(const struct ocdbt_record *record, const char *what, const char *must)
{
    return fail(record->err, CKPT_EFORMAT, record->pos, "{%s}, where {=%s} is expected", what, must);
}

static ckpt_status fail_crc(ckpt_error *err, uint64_t pos, uint32_t crc, uint32_t stored)
{
    return fail(err, CKPT_ECHECKSUM, pos,
                "a record has the CRC-32C {%08" PRIx32 "}, it stores {=%08" PRIx32 "}", crc, stored);
}

/* check_record - fails unless the NBYTES bytes at BYTES are a record with this MAGIC, its length and its
 * checksum. */
static ckpt_status check_record(const struct ocdbt_record *record, uint32_t magic, const unsigned char *bytes,
                                size_t nbytes)
{
    uint32_t found = (uint32_t)load_number(bytes, 4, true);
    if (found != magic)
        return fail(record->err, CKPT_EFORMAT, record->pos,
                    "a record begins with {%08" PRIx32 "}, not {=%08" PRIx32 "}", found, magic);
    if (load_u64le(bytes + 4) != nbytes)
        return fail(record->err, load_u64le(bytes + 4) > nbytes ? CKPT_ETRUNCATED : CKPT_EFORMAT, record->pos,
                    "a record of {=%" PRIu64 " bytes}, but there are {%zu}", load_u64le(bytes + 4), nbytes);
    uint32_t stored = load_u32le(bytes + nbytes - CHECKSUM),
             crc = crc_update(CRC_32C, 0, bytes, nbytes - CHECKSUM);
    return stored == crc ? CKPT_OK : fail_crc(record->err, record->pos, crc, stored);
}

/* take_content - copies the NBYTES bytes at AT of SRC to the arena, and sets record->c to read them. */
static ckpt_status take_content(struct ocdbt_record *record, source *src, uint64_t at, uint64_t nbytes)
{
    unsigned char *bytes = nbytes <= record->o->max_decoded ? arena_alloc(record->o->a, (size_t)nbytes)
                                                            : NULL;
    if (nbytes > record->o->max_decoded)
        return fail(record->err, CKPT_ELIMIT, record->pos,
                    "nodes of {more} than the {=%" PRIu64 " bytes} that may still be read",
                    record->o->max_decoded);
    CKPT_TRY_ALLOC(bytes, record->err);
    CKPT_TRY(source_read(src, at, bytes, (size_t)nbytes, record->err));
    record->o->max_decoded -= nbytes;
    record->c = cursor_of(bytes, (size_t)nbytes, record->pos);
    return CKPT_OK;
}

/* unpack_content - decompresses the NBYTES bytes at BYTES to the arena, and sets record->c to read the
 * result. */
static ckpt_status unpack_content(struct ocdbt_record *record, const unsigned char *bytes, size_t nbytes)
{
    uint64_t max_bytes = record->o->max_decoded < MAX_RECORD ? record->o->max_decoded : MAX_RECORD;
    source *compressed = source_mem(bytes, nbytes, CKPT_NO_OFFSET), *out = NULL;
    spool *to = compressed ? spool_new(max_bytes) : NULL;
    ckpt_status st = to ? unpack_zstd(compressed, to, record->err) : fail_memory(record->err);
    if (st == CKPT_ELIMIT)
        st = fail(record->err, st, record->pos, "a node decompresses to {more} than {=%" PRIu64 " bytes}",
                  max_bytes);
    if (to)
        out = spool_source(to);
    CKPT_THEN(st, take_content(record, out, 0, out->size));
    error_add_position(st == CKPT_OK ? NULL : record->err, record->pos, STR_LIT("OCDBT record"));
    source_unref(out);
    source_unref(compressed);
    return st;
}

/* open_record - checks the record with MAGIC in the NBYTES bytes at BYTES, which were read at AT of SRC, and
 * sets record->c to read its content. */
static ckpt_status open_record(struct ocdbt_record *record, uint32_t magic, const unsigned char *bytes,
                               size_t nbytes, source *src, uint64_t at)
{
    CKPT_TRY(check_record(record, magic, bytes, nbytes));
    cursor c = cursor_of(bytes + HEAD, nbytes - HEAD - CHECKSUM, record->pos);
    uint64_t version = cursor_varint(&c), compression = cursor_varint(&c);
    if (c.bad || version != 0 || compression > 1)
        return fail(record->err, CKPT_EUNSUPPORTED, record->pos,
                    "a record of {version %" PRIu64 ", compression %" PRIu64
                    "}; {=version 0, none or zstd} is read",
                    version, compression);
    return compression ? unpack_content(record, c.p, c.left)
                       : take_content(record, src, at + (nbytes - CHECKSUM - c.left), c.left);
}

/* read_record - sets record->c to read the content of the record with MAGIC in the NBYTES bytes at AT of
 * SRC. */
static ckpt_status read_record(struct ocdbt_record *record, uint32_t magic, source *src, uint64_t at,
                               uint64_t nbytes)
{
    record->pos = source_pos(src, at);
    if (!range_within(at, nbytes, src->size))
        return fail(record->err, CKPT_ETRUNCATED, record->pos,
                    "a record of {=%" PRIu64 " bytes}, the file has {%" PRIu64 "} there", nbytes,
                    at < src->size ? src->size - at : 0);
    if (nbytes < HEAD + 2 + CHECKSUM || nbytes > MAX_RECORD)
        return fail(record->err, nbytes > MAX_RECORD ? CKPT_ELIMIT : CKPT_ETRUNCATED, record->pos,
                    "a record of {%" PRIu64 " bytes}; {=%u to %" PRIu64 "} are read", nbytes,
                    HEAD + 2 + CHECKSUM, MAX_RECORD);
    unsigned char *bytes = malloc((size_t)nbytes);
    CKPT_TRY_ALLOC(bytes, record->err);
    record->o->stored_bytes += nbytes;
    if (record->o->callbacks->on_record_read)
        record->o->callbacks->on_record_read(record->o->callbacks->user, record->o->stored_bytes);
    ckpt_status st = source_read(src, at, bytes, (size_t)nbytes, record->err);
    CKPT_THEN(st, open_record(record, magic, bytes, (size_t)nbytes, src, at));
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

ckpt_status ocdbt_measure_record(source *src, uint64_t at, uint64_t *count, ckpt_error *err)
{
    unsigned char head[HEAD] = {0}, stored[CHECKSUM];
    uint32_t crc = 0;
    uint64_t left = src->size - at;
    CKPT_TRY(source_read(src, at, head, left < HEAD ? (size_t)left : HEAD, err));
    uint32_t magic = (uint32_t)load_number(head, 4, true);
    *count = load_u64le(head + 4);
    if ((magic != MANIFEST && magic != NODE && magic != VERSIONS) || *count < HEAD + CHECKSUM ||
        *count > left)
        return fail(err, CKPT_EFORMAT, source_pos(src, at), "{%" PRIu64 " bytes} that are in {=no record}",
                    left);
    uint64_t size = *count - CHECKSUM;
    CKPT_TRY(source_crc(src, at, size, CRC_32C, &crc, err));
    CKPT_TRY(source_read(src, at + size, stored, sizeof stored, err));
    return crc == load_u32le(stored) ? CKPT_OK : fail_crc(err, source_pos(src, at), crc, load_u32le(stored));
}

/* take_numbers - sets *OUT to a column of COUNT numbers, in the arena. */
static ckpt_status take_numbers(struct ocdbt_record *record, size_t count, uint64_t **out)
{
    bool fits = count <= record->c.left;
    *out = fits ? arena_array(record->o->a, count, sizeof **out) : NULL;
    for (size_t i = 0; *out && i < count; i++)
        (*out)[i] = cursor_varint(&record->c);
    if (!fits || record->c.bad)
        return fail_record(record, "a column that is cut off", "a number for each entry");
    return *out ? CKPT_OK : fail_memory(record->err);
}

/* take_count - reads the number of entries, and refuses more than there are bytes left. */
static ckpt_status take_count(struct ocdbt_record *record, size_t *number)
{
    uint64_t count = cursor_varint(&record->c);
    *number = (size_t)count;
    return !record->c.bad && count <= record->c.left
               ? CKPT_OK
               : fail_record(record, "more entries than fit", "a number that fits");
}

/* take_texts - sets *OUT to COUNT texts, with PREFIX before each. RECORD has two columns: how many bytes each
 * text shares with the text before it, and how many more it has. If THIRD is not NULL, a third column
 * follows, to which *THIRD is set. Then come the bytes that are not shared. */
static ckpt_status take_texts(struct ocdbt_record *record, size_t count, ckpt_str prefix, ckpt_str **out,
                              uint64_t **third)
{
    uint64_t *shared_lens, *added_lens;
    ckpt_str *texts = arena_array(record->o->a, count, sizeof *texts);
    CKPT_TRY(take_numbers(record, count ? count - 1 : 0, &shared_lens));
    CKPT_TRY(take_numbers(record, count, &added_lens));
    if (third)
        CKPT_TRY(take_numbers(record, count, third));
    for (size_t i = 0; texts && i < count; i++) {
        ckpt_str previous = i ? str_skip(texts[i - 1], prefix.len) : str_of("", 0);
        uint64_t shared_len = i ? shared_lens[i - 1] : 0;
        if (shared_len > previous.len || added_lens[i] > record->c.left)
            return fail_record(record, "a text that is cut off", "all of it");
        size_t added_len = (size_t)added_lens[i], start_len = prefix.len + (size_t)shared_len;
        char *bytes = arena_alloc(record->o->a, start_len + added_len + 1);
        CKPT_TRY_ALLOC(bytes, record->err);
        memcpy(bytes, i ? texts[i - 1].ptr : prefix.ptr, start_len);
        memcpy(bytes + start_len, cursor_take(&record->c, added_len), added_len);
        texts[i] = str_of(bytes, start_len + added_len);
    }
    *out = texts;
    return texts ? CKPT_OK : fail_memory(record->err);
}

/* add_file - sets *INDEX to the index of the file PATH in ocdbt.files, and adds the file if it is not there.
 * For BASE_LEN, see ocdbt_file. */
static ckpt_status add_file(const struct ocdbt_record *record, ckpt_str path, size_t base_len,
                            uint32_t *index)
{
    struct ocdbt *o = record->o;
    const struct ocdbt_file f = {.path = path, .base_len = base_len};
    uint32_t known_index = map_get(o->paths, path);
    *index = known_index == MAP_NONE ? (uint32_t)o->nfiles : known_index;
    if (known_index != MAP_NONE)
        return o->files[known_index].base_len == base_len
                   ? CKPT_OK
                   : fail_record(record, "a file with two bases", "one");
    bool ok = map_put(o->paths, path, *index, NULL) && ARENA_PUSH(o->a, o, files, &f);
    return ok ? CKPT_OK : fail_memory(record->err);
}

/* take_files - reads the list of files that RECORD refers to. Their paths are relative to FOLDER, the base
 * folder of the file in which RECORD is. */
static ckpt_status take_files(struct ocdbt_record *record, ckpt_str folder)
{
    ckpt_str *paths = NULL;
    uint64_t *base_lens = NULL;
    CKPT_TRY(take_count(record, &record->nfiles));
    if (record->nfiles)
        CKPT_TRY(take_texts(record, record->nfiles, folder, &paths, &base_lens));
    uint32_t *indexes = arena_array(record->o->a, record->nfiles, sizeof *indexes);
    for (size_t i = 0; indexes && i < record->nfiles; i++) {
        if (base_lens[i] > paths[i].len - folder.len)
            return fail_record(record, "a base longer than its path", "the first bytes of the path");
        size_t base_len = folder.len + (size_t)base_lens[i];
        CKPT_TRY(add_file(record, paths[i], base_len, &indexes[i]));
    }
    record->file_indexes = indexes;
    return indexes ? CKPT_OK : fail_memory(record->err);
}

ckpt_status ocdbt_open_file(struct ocdbt *ocdbt, uint32_t file, source **out, ckpt_error *err)
{
    struct ocdbt_file *f = &ocdbt->files[file];
    if (!f->src)
        CKPT_TRY(ocdbt->callbacks->open_file(ocdbt->callbacks->user, f, err));
    *out = f->src;
    return CKPT_OK;
}

/* take_locations - sets *OUT to COUNT locations: columns of files, offsets and lengths. */
static ckpt_status take_locations(struct ocdbt_record *record, size_t count, struct ocdbt_location **out)
{
    uint64_t *files, *offsets, *lengths;
    CKPT_TRY(take_numbers(record, count, &files));
    CKPT_TRY(take_numbers(record, count, &offsets));
    CKPT_TRY(take_numbers(record, count, &lengths));
    struct ocdbt_location *p = *out = arena_array(record->o->a, count, sizeof *p);
    for (size_t i = 0; p && i < count; i++) {
        if (files[i] >= record->nfiles)
            return fail_record(record, "a location in a file that is not listed", "one of its files");
        p[i] = (struct ocdbt_location){record->file_indexes[files[i]], offsets[i], lengths[i]};
    }
    return p ? CKPT_OK : fail_memory(record->err);
}

/* skip_statistics - skips three columns of COUNT numbers: keys, bytes of nodes, bytes of values. */
static void skip_statistics(struct ocdbt_record *record, size_t count)
{
    for (size_t i = 0; i < count && !record->c.bad; i++)
        for (unsigned k = 0; k < 3; k++)
            (void)cursor_varint(&record->c);
}

/* check_end - fails unless RECORD was read to its end, and not beyond. */
static ckpt_status check_end(const struct ocdbt_record *record)
{
    return !record->c.bad && !record->c.left
               ? CKPT_OK
               : fail_record(record,
                             record->c.bad ? "a record that is cut off" : "bytes after its last entry",
                             "a record of the length of its entries");
}

/* add_entry - adds ENTRY. Fails unless its key is greater than that of the entry before. */
static ckpt_status add_entry(const struct ocdbt_record *record, const struct ocdbt_entry *entry)
{
    struct ocdbt *o = record->o;
    if (o->n && str_compare(o->entries[o->n - 1].key, entry->key) >= 0)
        return fail(record->err, CKPT_EFORMAT, record->pos,
                    "the keys {do not ascend} at \"%.*s\", as {=they must}", STR_ARG(entry->key));
    return arena_push(o->a, &o->entries, &o->n, &o->cap, entry, sizeof *entry) ? CKPT_OK
                                                                               : fail_memory(record->err);
}

/* take_leaf - adds the COUNT entries of the leaf RECORD, whose keys are KEYS. */
static ckpt_status take_leaf(struct ocdbt_record *record, const ckpt_str *keys, size_t count)
{
    uint64_t *lengths, *files, *offsets;
    size_t nexternal = 0, next_external = 0; /* number of values in files; number of those that were added */
    CKPT_TRY(take_numbers(record, count, &lengths));
    const unsigned char *kinds = cursor_take(&record->c, count);
    for (size_t i = 0; kinds && i < count; i++) {
        if (kinds[i] > 1)
            return fail(record->err, CKPT_EUNSUPPORTED, record->pos,
                        "a value of kind {%u}; {=0 and 1} are read", kinds[i]);
        nexternal += kinds[i];
    }
    CKPT_TRY(take_numbers(record, nexternal, &files));
    CKPT_TRY(take_numbers(record, nexternal, &offsets));
    for (size_t i = 0; kinds && i < count; i++) {
        struct ocdbt_entry e = {.key = keys[i], .n = lengths[i]};
        if (!kinds[i] &&
            (lengths[i] > record->c.left || !(e.bytes = cursor_take(&record->c, (size_t)lengths[i]))))
            return fail_record(record, "a value that is cut off", "all of it");
        if (kinds[i] && files[next_external] >= record->nfiles)
            return fail_record(record, "a value in a file that is not listed", "one of its files");
        if (kinds[i]) {
            e.file = record->file_indexes[files[next_external]];
            e.at = offsets[next_external++];
        }
        CKPT_TRY(add_entry(record, &e));
    }
    return check_end(record);
}

/* take_children - sets the children of LEVEL to those in RECORD. All keys in child I begin with the first
 * PREFIX_LEN + COMMON_LENS[I] bytes of KEYS[I]. */
static ckpt_status take_children(struct ocdbt_record *record, const ckpt_str *keys,
                                 const uint64_t *common_lens, size_t prefix_len, struct ocdbt_level *level)
{
    struct ocdbt_location *locations;
    CKPT_TRY(take_locations(record, level->n, &locations));
    skip_statistics(record, level->n);
    CKPT_TRY(check_end(record));
    level->children = arena_array(record->o->a, level->n, sizeof *level->children);
    for (size_t i = 0; level->children && i < level->n; i++) {
        if (common_lens[i] > keys[i].len - prefix_len)
            return fail_record(record, "a child whose keys share more than its key has",
                               "the first bytes of the key");
        ckpt_str prefix = str_of(keys[i].ptr, prefix_len + (size_t)common_lens[i]);
        level->children[i] = (struct ocdbt_child){prefix, locations[i]};
    }
    return level->children ? CKPT_OK : fail_memory(record->err);
}

/* read_node - reads the node CHILD, which is HEIGHT above the leaves: adds its entries, or sets LEVEL to its
 * children. */
static ckpt_status read_node(struct ocdbt *ocdbt, const struct ocdbt_child *child, unsigned height,
                             struct ocdbt_level *level, ckpt_error *err)
{
    struct ocdbt_record r = {.o = ocdbt, .err = err};
    source *src;
    ckpt_str *keys;
    uint64_t *common_lens = NULL;
    CKPT_TRY(ocdbt_open_file(ocdbt, child->location.file, &src, err));
    if (++ocdbt->nodes_read > MAX_NODES)
        return fail(err, CKPT_ELIMIT, child->location.at, "{more} than {=%u nodes}", MAX_NODES);
    CKPT_TRY(read_record(&r, NODE, src, child->location.at, child->location.n));
    const unsigned char *stored_height = cursor_take(&r.c, 1);
    if (!stored_height || *stored_height != height)
        return fail_record(&r, "a node of another height", "one less than its parent's");
    const struct ocdbt_file *file = &ocdbt->files[child->location.file];
    CKPT_TRY(take_files(&r, str_of(file->path.ptr, file->base_len)));
    CKPT_TRY(take_count(&r, &level->n));
    if (!level->n)
        return fail_record(&r, "a node without entries", "one or more");
    CKPT_TRY(take_texts(&r, level->n, child->prefix, &keys, height ? &common_lens : NULL));
    return height ? take_children(&r, keys, common_lens, child->prefix.len, level)
                  : take_leaf(&r, keys, level->n);
}

/* read_tree - adds all entries below ROOT, which is HEIGHT above the leaves. */
static ckpt_status read_tree(struct ocdbt *ocdbt, struct ocdbt_child *root, unsigned height, ckpt_error *err)
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
        ckpt_status st = read_node(ocdbt, c, height - depth, &levels[depth + 1], err);
        if (st != CKPT_OK) {
            if (ocdbt->files[c->location.file].shown)
                error_add_file(err, ocdbt->files[c->location.file].shown);
            error_add_position(err, CKPT_NO_OFFSET, STR_LIT("OCDBT node"));
            CKPT_TRY(ocdbt->callbacks->on_fault ? ocdbt->callbacks->on_fault(ocdbt->callbacks->user, st, err)
                                                : st);
        } else if (depth < height) {
            depth++;
        }
    }
}

/* take_config - reads the configuration with which RECORD begins. *IS_NUMBERED: the versions are in numbered
 * manifests. */
static ckpt_status take_config(struct ocdbt_record *record, bool *is_numbered)
{
    (void)cursor_take(&record->c, 16);
    uint64_t kind = cursor_varint(&record->c);
    (void)cursor_varint(&record->c);
    (void)cursor_varint(&record->c);
    (void)cursor_take(&record->c, 1);
    if (cursor_varint(&record->c) == 1)
        (void)cursor_take(&record->c, 4);
    *is_numbered = kind == 1;
    if (record->c.bad || kind > 1)
        return fail(record->err, record->c.bad ? CKPT_EFORMAT : CKPT_EUNSUPPORTED, record->pos,
                    "a manifest of kind {%" PRIu64 "}; {=0 and 1} are read", kind);
    return CKPT_OK;
}

/* take_versions - sets ROOT to the root of the newest version in RECORD, and *HEIGHT to its height. */
static ckpt_status take_versions(struct ocdbt_record *record, struct ocdbt_child *root, unsigned *height)
{
    uint64_t *generations, *numbers;
    struct ocdbt_location *locations;
    size_t n, nolder;
    CKPT_TRY(take_count(record, &n));
    if (!n)
        return fail_record(record, "no version", "the newest version");
    CKPT_TRY(take_numbers(record, n, &generations));
    const unsigned char *heights = cursor_take(&record->c, n);
    CKPT_TRY(take_locations(record, n, &locations));
    skip_statistics(record, n);
    (void)cursor_take(&record->c, 8 * n);
    CKPT_TRY(take_count(record, &nolder));
    root->location = locations[n - 1];
    *height = heights ? heights[n - 1] : 0;
    CKPT_TRY(take_numbers(record, nolder, &numbers));
    CKPT_TRY(take_locations(record, nolder, &locations));
    CKPT_TRY(take_numbers(record, nolder, &numbers));
    (void)cursor_take(&record->c, 9 * nolder);
    return check_end(record);
}

/* read_newest_manifest - sets ROOT and *HEIGHT as take_versions does, from MANIFEST or from the newest
 * numbered manifest. */
static ckpt_status read_newest_manifest(struct ocdbt *ocdbt, source *manifest, struct ocdbt_child *root,
                                        unsigned *height, ckpt_error *err)
{
    struct ocdbt_record r = {.o = ocdbt, .err = err};
    bool is_numbered;
    CKPT_TRY(read_record(&r, MANIFEST, manifest, 0, manifest->size));
    CKPT_TRY(take_config(&r, &is_numbered));
    if (is_numbered && !r.c.left) {
        ckpt_str name = {"", 0};
        if (ocdbt->callbacks->find_newest_manifest)
            CKPT_TRY(ocdbt->callbacks->find_newest_manifest(ocdbt->callbacks->user, &name, err));
        if (!name.len)
            return fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                        "there is {no} numbered {=manifest}, which would list the versions");
        struct ocdbt_file newest = {.path = name};
        CKPT_TRY(ocdbt->callbacks->open_file(ocdbt->callbacks->user, &newest, err));
        CKPT_TRY(read_record(&r, MANIFEST, newest.src, 0, newest.src->size));
        CKPT_TRY(take_config(&r, &is_numbered));
    }
    CKPT_TRY(take_files(&r, str_of("", 0)));
    return take_versions(&r, root, height);
}

ckpt_status ocdbt_read(struct ocdbt *ocdbt, source *manifest, ckpt_error *err)
{
    struct ocdbt_child root = {.prefix = {"", 0}};
    unsigned height = 0;
    CKPT_TRY_ALLOC(ocdbt->paths = map_new(64), err);
    ckpt_status st = read_newest_manifest(ocdbt, manifest, &root, &height, err);
    error_add_position(st == CKPT_OK ? NULL : err, 0, STR_LIT("OCDBT manifest"));
    CKPT_TRY(st);
    bool is_empty = root.location.at == NOWHERE && root.location.n == NOWHERE;
    return is_empty ? CKPT_OK : read_tree(ocdbt, &root, height, err);
}

void ocdbt_free(struct ocdbt *ocdbt) { map_free(ocdbt->paths); }
