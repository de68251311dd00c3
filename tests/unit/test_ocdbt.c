/* The entries of OCDBT databases are read, and malformed trees are refused. */
#include <stdio.h>

#include "../tablecrc.h"
#include "base/buf.h"
#include "bytes.h"
#include "codec/ocdbt.h"
#include "unit.h"

#define NO_FILES TEXT("\0")      /* an empty list of files */
#define ONE_FILE TEXT("\1\1\0f") /* a list of one file: "f" in the folder of the database */

/* A database: its manifest, and its file "f" with the nodes. */
struct database {
    buf manifest, nodes;
    uint64_t max_decoded;
};

/* put_record - appends to B a record with the signature MAGIC and this CONTENT. */
static void put_record(buf *b, const char *magic, ckpt_str content)
{
    size_t at = b->len;
    buf_put(b, magic, 4);
    buf_u64le(b, 12 + 2 + content.len + 4); /* the length of the record, from MAGIC to its CRC-32C */
    buf_put(b, "\0\0", 2);                  /* version 0, no compression */
    buf_put_str(b, content);
    buf_u32le(b, tablecrc_of(b->data + at, b->len - at));
}

/* the signatures of records */
#define NODE              "\x0c\xdb\x20\xde"
#define MANIFEST          "\x0c\xdb\x3a\x2a"
#define EMPTY_RECORD_SIZE 18 /* bytes of a record without content */

/* put_node - appends a node, encoded as CONTENT, to the file. */
static void put_node(struct database *db, ckpt_str content) { put_record(&db->nodes, NODE, content); }

/* put_manifest - writes a manifest of one version with the list FILES of files. The root node of that version
 * has HEIGHT, and is stored in LENGTH bytes at offset AT of the first file. */
static void put_manifest(struct database *db, ckpt_str files, unsigned height, unsigned at, unsigned length)
{
    buf b;
    buf_init(&b, 4096);
    /* the uuid; kind 0 (single); max_inline_value_bytes, max_decoded_node_bytes, arity; no compression */
    buf_put(&b, "0123456789abcdef\0\144\144\4\0", 21);
    buf_put_str(&b, files);
    buf_put(&b, "\1\1", 2); /* one version, generation 1 */
    buf_byte(&b, (unsigned char)height);
    buf_byte(&b, 0); /* the first file */
    buf_byte(&b, (unsigned char)at);
    buf_byte(&b, (unsigned char)length);
    buf_put(&b, "\1\1\1\0\0\0\0\0\0\0\0\0", 12); /* statistics, the time, no nodes of older versions */
    put_record(&db->manifest, MANIFEST, buf_view(&b));
    buf_free(&b);
}

static void begin_database(struct database *db)
{
    buf_init(&db->manifest, 1 << 16);
    buf_init(&db->nodes, 1 << 16);
    db->max_decoded = 1 << 16;
}

static ckpt_status open_file(void *user, struct ocdbt_file *f, ckpt_error *err)
{
    f->src = user;
    return str_is(f->path, "f") ? CKPT_OK : fail(err, CKPT_EFORMAT, 0, "no file \"%.*s\"", STR_ARG(f->path));
}

/* list_entries - writes "key=bytes " for all entries of DB to OUT. */
static ckpt_status list_entries(const struct database *db, char out[400], ckpt_error *err)
{
    source *manifest = source_mem(db->manifest.data, db->manifest.len, 0),
           *nodes = source_mem(db->nodes.data, db->nodes.len, 0);
    const struct ocdbt_callbacks callbacks = {.open_file = open_file, .user = nodes};
    struct ocdbt o = {.a = arena_new(1 << 20), .callbacks = &callbacks, .max_decoded = db->max_decoded};
    ckpt_status st = ocdbt_read(&o, manifest, err);
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < o.n; i++)
        n += (size_t)snprintf(out + n, 400 - n, "%.*s=%.*s ", (int)o.entries[i].key.len, o.entries[i].key.ptr,
                              o.entries[i].bytes ? (int)o.entries[i].n : 0, (const char *)o.entries[i].bytes);
    ocdbt_free(&o);
    source_unref(manifest);
    source_unref(nodes);
    arena_free(o.a);
    return st;
}

static void free_database(struct database *db)
{
    buf_free(&db->manifest);
    buf_free(&db->nodes);
}

/* check_entries - checks that DB has the entries WANT, as list_entries writes them, and frees DB. */
static void check_entries(struct database *db, const char *want)
{
    char got[400];
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(list_entries(db, got, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(err.what, "");
    CU_ASSERT_STRING_EQUAL(got, want);
    free_database(db);
}

/* check_refused - checks that reading DB fails with WANT, and WORDS in the message, and frees DB. */
static void check_refused(struct database *db, ckpt_status want, const char *words)
{
    char got[400];
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(list_entries(db, got, &err), want);
    CU_ASSERT(strstr(err.what, words) != NULL);
    if (!strstr(err.what, words))
        printf("  the message \"%s\" does not contain \"%s\"\n", err.what, words);
    free_database(db);
}

/* A leaf with "k1" = "A" and "k2" = "BC":
 *   0 0 2   height, number of files, number of entries
 *   1       how many bytes the second key shares with the first
 *   2 1     how many other bytes each key has
 *   k12     these other bytes
 *   1 2     the lengths of the values
 *   0 0     the kinds of the values (0: in this node)
 *   ABC     the bytes of the values */
#define LEAF        "\0\0\2\1\2\1k12\1\2\0\0ABC"
#define LEAF_LENGTH (EMPTY_RECORD_SIZE + (unsigned)sizeof LEAF - 1)

static void keys_of_a_leaf_share_bytes(void)
{
    struct database db;
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    put_manifest(&db, ONE_FILE, 0, 0, LEAF_LENGTH);
    check_entries(&db, "k1=A k2=BC ");
}

static void keys_of_children_omit_the_common_prefix(void)
{
    struct database db;
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    /* height 1; the file "f"; 2 children with the keys "a" and "b". Both are the leaf at offset 0, which has
     * 042 bytes. The full key of an entry is the key of the child and the key in the leaf. */
    put_node(&db, TEXT("\1\1\1\0f\2\0\1\1\1\1ab\0\0\0\0\042\042\2\2\1\1\0\0"));
    put_manifest(&db, ONE_FILE, 1, LEAF_LENGTH, (unsigned)db.nodes.len - LEAF_LENGTH);
    CU_ASSERT_EQUAL(LEAF_LENGTH, 042);
    check_entries(&db, "ak1=A ak2=BC bk1=A bk2=BC ");
}

static void a_node_may_not_be_its_own_child(void)
{
    struct database db;
    begin_database(&db);
    /* height 2, and the only child is the node at offset 0 */
    put_node(&db, TEXT("\2\1\1\0f\1\1\0a\0\0\041\2\1\0"));
    put_manifest(&db, ONE_FILE, 2, 0, (unsigned)db.nodes.len);
    check_refused(&db, CKPT_EFORMAT, "a node of another height");
}

static void keys_must_ascend(void)
{
    struct database db;
    begin_database(&db);
    /* LEAF, but the second key is also "k1" */
    put_node(&db, TEXT("\0\0\2\1\2\1k11\1\2\0\0ABC"));
    put_manifest(&db, ONE_FILE, 0, 0, (unsigned)db.nodes.len);
    check_refused(&db, CKPT_EFORMAT, "the keys do not ascend at \"k1\"");
}

static void counts_and_lengths_must_fit_the_node(void)
{
    struct database db;
    begin_database(&db);
    /* 2^35 - 1 entries */
    put_node(&db, TEXT("\0\0\xff\xff\xff\xff\x7f\1\2\1k12"));
    put_manifest(&db, ONE_FILE, 0, 0, (unsigned)db.nodes.len);
    check_refused(&db, CKPT_EFORMAT, "more entries than fit");
    begin_database(&db);
    put_node(&db, TEXT("\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")); /* a length of more than 64 bits */
    put_manifest(&db, ONE_FILE, 0, 0, (unsigned)db.nodes.len);
    check_refused(&db, CKPT_EFORMAT, "a column that is cut off");
    begin_database(&db);
    /* LEAF, but the second key shares 3 bytes with the first, which has 2 */
    put_node(&db, TEXT("\0\0\2\3\2\1k12\1\2\0\0ABC"));
    put_manifest(&db, ONE_FILE, 0, 0, (unsigned)db.nodes.len);
    check_refused(&db, CKPT_EFORMAT, "a text that is cut off");
    begin_database(&db);
    /* LEAF, but the length of the second value is 127 */
    put_node(&db, TEXT("\0\0\2\1\2\1k12\1\x7f\0\0ABC"));
    put_manifest(&db, ONE_FILE, 0, 0, (unsigned)db.nodes.len);
    check_refused(&db, CKPT_EFORMAT, "a value that is cut off");
    begin_database(&db);
    put_node(&db, TEXT(LEAF "D"));
    put_manifest(&db, ONE_FILE, 0, 0, (unsigned)db.nodes.len);
    check_refused(&db, CKPT_EFORMAT, "bytes after its last entry");
}

static void offsets_and_file_numbers_must_exist(void)
{
    struct database db;
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    put_manifest(&db, ONE_FILE, 0, 1, LEAF_LENGTH);
    check_refused(&db, CKPT_ETRUNCATED, "the file has 33 there");
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    put_manifest(&db, NO_FILES, 0, 0, LEAF_LENGTH);
    check_refused(&db, CKPT_EFORMAT, "a file that is not listed");
    begin_database(&db);
    /* a leaf that lists no files, but whose only value is in its first file */
    put_node(&db, TEXT("\0\0\1\2k1\1\1\0\0"));
    put_manifest(&db, ONE_FILE, 0, 0, (unsigned)db.nodes.len);
    check_refused(&db, CKPT_EFORMAT, "a file that is not listed");
}

static void file_names_are_passed_to_the_callback(void)
{
    struct database db;
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    put_manifest(&db, TEXT("\1\4\0../f"), 0, 0, LEAF_LENGTH);
    check_refused(&db, CKPT_EFORMAT, "no file \"../f\"");
}

static void checksums_and_lengths_are_checked(void)
{
    struct database db;
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    put_manifest(&db, ONE_FILE, 0, 0, LEAF_LENGTH);
    db.nodes.data[20] ^= 1;
    check_refused(&db, CKPT_ECHECKSUM, "CRC-32C");
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    put_manifest(&db, ONE_FILE, 0, 0, LEAF_LENGTH - 1);
    check_refused(&db, CKPT_ETRUNCATED, "a record of 34 bytes, but there are 33");
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    put_manifest(&db, ONE_FILE, 0, 0, 4);
    check_refused(&db, CKPT_ETRUNCATED, "18 to 268435456 are read");
}

static void memory_of_nodes_is_limited(void)
{
    struct database db;
    begin_database(&db);
    put_node(&db, TEXT(LEAF));
    put_manifest(&db, ONE_FILE, 0, 0, LEAF_LENGTH);
    db.max_decoded = 50;
    check_refused(&db, CKPT_ELIMIT, "that may still be read");
}

static void the_numbered_manifest_must_exist(void)
{
    struct database db;
    begin_database(&db);
    put_record(&db.manifest, MANIFEST, TEXT("0123456789abcdef\1\144\144\4\0"));
    check_refused(&db, CKPT_ETRUNCATED, "no numbered manifest");
}

void suite_ocdbt(void)
{
    UNIT(keys_of_a_leaf_share_bytes);
    UNIT(keys_of_children_omit_the_common_prefix);
    UNIT(a_node_may_not_be_its_own_child);
    UNIT(keys_must_ascend);
    UNIT(counts_and_lengths_must_fit_the_node);
    UNIT(offsets_and_file_numbers_must_exist);
    UNIT(file_names_are_passed_to_the_callback);
    UNIT(checksums_and_lengths_are_checked);
    UNIT(memory_of_nodes_is_limited);
    UNIT(the_numbered_manifest_must_exist);
}
