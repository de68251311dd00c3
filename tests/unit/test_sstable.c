/* Sorted string tables (LevelDB): the entries of their blocks, and malformed tables. */
#include <stdio.h>

#include "../tablecrc.h"
#include "codec/sstable.h"
#include "string_table.h"
#include "unit.h"

/* list_entries - writes "key=value " for each entry of the table BYTES to OUT. */
static ckpt_status list_entries(ckpt_str bytes, char out[400], ckpt_error *err)
{
    struct sstable t;
    struct sstable_block b;
    ckpt_str key;
    cursor value;
    bool more = true;
    arena *a = arena_new(1 << 20);
    source *src = source_mem(bytes.ptr, bytes.len, 0);
    ckpt_status st = sstable_open(src, a, &t, err);
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; st == CKPT_OK && i < t.nblocks; i++) {
        st = sstable_load(&t, i, &b, err);
        for (more = true; st == CKPT_OK && more;)
            if ((st = sstable_next(&b, &key, &value, &more, err)) == CKPT_OK && more)
                n += (size_t)snprintf(out + n, 400 - n, "%.*s=%.*s ", (int)key.len, key.ptr, (int)value.left,
                                      (const char *)value.p);
        sstable_unload(&b);
    }
    source_unref(src);
    arena_free(a);
    return st;
}

static void check_entries(struct string_table *t, const char *want)
{
    char got[400];
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(list_entries(string_table_end(t), got, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(got, want);
    string_table_free(t);
}

static void check_refused(struct string_table *t, ckpt_status status, const char *what)
{
    char got[400];
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(list_entries(string_table_end(t), got, &err), status);
    CU_ASSERT(strstr(err.what, what) != NULL);
    if (!strstr(err.what, what))
        printf("  %s\n", err.what);
    string_table_free(t);
}

static void entries_are_read(void)
{
    struct string_table t;
    string_table_begin(&t);
    string_table_add(&t, STR_LIT(""), STR_LIT("head"));
    string_table_add(&t, STR_LIT("abc"), STR_LIT("1"));
    buf_put(&t.block, "\2\2\1dex", 6); /* the key "ab" (from the previous key) + "de", the value "x" */
    string_table_end_block(&t, STR_LIT("b"));
    string_table_add(&t, STR_LIT("bb"), STR_LIT(""));
    string_table_end_block(&t, STR_LIT("bb"));
    check_entries(&t, "=head abc=1 abde=x bb= ");
}

static void compressed_blocks_are_read(void)
{
    struct string_table t;
    string_table_begin(&t);
    /* type 1 is Snappy, here a literal of 13 bytes; type 2 is unknown */
    string_table_add_block(&t, STR_LIT("z"), STR_LIT("\15\60\0\1\1ay\0\0\0\0\1\0\0\0"), 1);
    check_entries(&t, "a=y ");
    string_table_begin(&t); /* the literal lacks its last byte */
    string_table_add_block(&t, STR_LIT("z"), STR_LIT("\15\60\0\1\1ay\0\0\0\0\1\0\0"), 1);
    check_refused(&t, CKPT_EFORMAT, "Snappy");
    string_table_begin(&t);
    string_table_add_block(&t, STR_LIT("z"), STR_LIT("\0\1\1ay\0\0\0\0\1\0\0\0"), 2);
    check_refused(&t, CKPT_EUNSUPPORTED, "compression 2");
}

static void keys_must_ascend(void)
{
    struct string_table t;
    string_table_begin(&t);
    string_table_add(&t, STR_LIT("b"), STR_LIT("1"));
    string_table_add(&t, STR_LIT("a"), STR_LIT("2"));
    string_table_end_block(&t, STR_LIT("c"));
    check_refused(&t, CKPT_EFORMAT, "do not ascend at \"a\"");
    string_table_begin(&t); /* the same key twice */
    string_table_add(&t, STR_LIT("a"), STR_LIT("1"));
    buf_put(&t.block, "\1\0\0", 3);
    string_table_end_block(&t, STR_LIT("c"));
    check_refused(&t, CKPT_EFORMAT, "do not ascend");
    string_table_begin(&t); /* a key after the key that the index has for its block */
    string_table_add(&t, STR_LIT("d"), STR_LIT("1"));
    string_table_end_block(&t, STR_LIT("c"));
    check_refused(&t, CKPT_EFORMAT, "do not ascend");
    string_table_begin(&t); /* a key not after the key that the index has for the previous block */
    string_table_add(&t, STR_LIT("a"), STR_LIT("1"));
    string_table_end_block(&t, STR_LIT("m"));
    string_table_add(&t, STR_LIT("b"), STR_LIT("1"));
    string_table_end_block(&t, STR_LIT("z"));
    check_refused(&t, CKPT_EFORMAT, "do not ascend");
}

static void lengths_must_fit(void)
{
    /* Each block is an entry of three sizes (key bytes shared with the previous key, other key bytes, value
     * bytes), one restart offset, which is 0, and the number of restarts. */
    static const ckpt_str bad[] = {
        {"\1\0\0\0\0\0\0\1\0\0\0", 11},  /* shares a byte with a previous key: there is none */
        {"\0\11\0\0\0\0\0\1\0\0\0", 11}, /* a key longer than the block */
        {"\0\0\11\0\0\0\0\1\0\0\0", 11}, /* a value longer than the block */
        {"\0\0\377\377\377\377\377\377\377\377\377\1\0\0\0\0\1\0\0\0", 20}, /* a value of 2^64 - 1 bytes */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct string_table t;
        string_table_begin(&t);
        string_table_add_block(&t, STR_LIT("z"), bad[i], 0);
        check_refused(&t, CKPT_EFORMAT, "beyond the end");
    }
    static const ckpt_str restarts[] = {
        {"\0\0\0\0\2\0\0\0", 8}, /* one restart, but their number is 2 */
        {"\0\0\0", 3},           /* a number of restarts with only 3 bytes */
        {"\377\377\377\377", 4}, /* 2^32 - 1 restarts */
    };
    for (size_t i = 0; i < sizeof restarts / sizeof *restarts; i++) {
        struct string_table t;
        string_table_begin(&t);
        string_table_add_block(&t, STR_LIT("z"), restarts[i], 0);
        check_refused(&t, CKPT_EFORMAT, "restarts");
    }
}

/* add_index_entry - adds an entry to the index: KEY, and HANDLE, the offset and size of a block as varints.
 * HANDLE may be invalid. */
static void add_index_entry(struct string_table *t, const char *key, ckpt_str handle)
{
    buf_byte(&t->index, 0);
    buf_byte(&t->index, (unsigned char)strlen(key));
    buf_byte(&t->index, (unsigned char)handle.len);
    buf_put_cstr(&t->index, key);
    buf_put_str(&t->index, handle);
}

static void block_handles_must_be_valid(void)
{
    struct string_table t;
    string_table_begin(&t);
    string_table_add(&t, STR_LIT("a"), STR_LIT("1"));
    string_table_end_block(&t, STR_LIT("b"));
    add_index_entry(&t, "c", STR_LIT("\0\14")); /* overlaps the block that "b" has */
    check_refused(&t, CKPT_EFORMAT, "a block at 0");
    string_table_begin(&t);
    add_index_entry(&t, "c", STR_LIT("\0\377\377\3")); /* a block larger than the file */
    check_refused(&t, CKPT_EFORMAT, "a block at 0 of 65535");
    string_table_begin(&t);
    /* offset + size overflows */
    add_index_entry(&t, "c", STR_LIT("\377\377\377\377\377\377\377\377\377\1\1"));
    check_refused(&t, CKPT_EFORMAT, "a block at 18446744073709551615");
    string_table_begin(&t);
    add_index_entry(&t, "c", STR_LIT("\0"));
    check_refused(&t, CKPT_EFORMAT, "two numbers");
}

/* make_table - returns a table with the entry a=1; the caller frees T with string_table_free(). */
static ckpt_str make_table(struct string_table *t)
{
    string_table_begin(t);
    string_table_add(t, STR_LIT("a"), STR_LIT("1"));
    string_table_end_block(t, STR_LIT("b"));
    return string_table_end(t);
}

static void checksums_are_checked(void)
{
    char got[400];
    ckpt_error err = {0};
    struct string_table t;
    ckpt_str table = make_table(&t);
    for (size_t i = 0; i < 18; i++) { /* 13 bytes of the block, 1 of its type, 4 of its CRC */
        t.file.data[i] ^= 1;
        CU_ASSERT_EQUAL(list_entries(table, got, &err), CKPT_ECHECKSUM);
        t.file.data[i] ^= 1;
    }
    t.file.data[4] ^= 1;
    tablecrc_fix(t.file.data, t.file.len);
    CU_ASSERT_EQUAL(list_entries(table, got, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(got, "a=0 ");
    string_table_free(&t);
    CU_ASSERT_EQUAL(sstable_unmask(0xa282ead8u), 0); /* LevelDB's kMaskDelta is the masked CRC of 0 */
}

static void truncated_tables_are_refused(void)
{
    char got[400];
    ckpt_error err = {0};
    struct string_table t;
    ckpt_str table = make_table(&t);
    for (size_t n = 0; n < table.len; n++)
        CU_ASSERT_NOT_EQUAL(list_entries(str_of(table.ptr, n), got, &err), CKPT_OK);
    string_table_free(&t);
}

void suite_sstable(void)
{
    UNIT(entries_are_read);
    UNIT(compressed_blocks_are_read);
    UNIT(keys_must_ascend);
    UNIT(lengths_must_fit);
    UNIT(block_handles_must_be_valid);
    UNIT(checksums_are_checked);
    UNIT(truncated_tables_are_refused);
}
