/* Folders of torch.distributed.checkpoint: tensors are assembled as .metadata describes them, and a .metadata
 * that does not match the files is refused with the name of the tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pickled.h"
#include "unit.h"

/* Pickles of .metadata, as texts for put_pickle. STORED - an entry of storage_data: LENGTH bytes, from byte
 * AT of FILE on, hold the chunk of the tensor NAME that begins at the indices OFFSET. If OFFSET is "None",
 * they hold the value NAME. */
#define META    "torch.distributed.checkpoint.metadata."
#define SIZE(s) "torch.Size((" s "))"
#define METADATA(tensors, paths, items)                                                                      \
    "new " META "Metadata()!{'state_dict_metadata':{" tensors "},'planner_data':{" paths                     \
    "},'storage_data':{" items "}}"
#define TENSOR_OF(dtype, name, size, chunks)                                                                 \
    "'" name "':new " META "TensorStorageMetadata()!{'properties':new " META "TensorProperties()!(" dtype    \
    ",None),'size':" SIZE(size) ",'chunks':[" chunks "]}"
#define TENSOR(name, size, chunks) TENSOR_OF("torch.float32", name, size, chunks)
#define BYTES_ENTRY(name)          "'" name "':new " META "BytesStorageMetadata()"
#define CHUNK(offset, size)                                                                                  \
    "new " META "ChunkStorageMetadata()!{'offsets':" SIZE(offset) ",'sizes':" SIZE(size) "}"
#define STORED(name, offset, file, at, length)                                                               \
    "new " META "MetadataIndex()!{'fqn':'" name "','index':None,'offset':" offset                            \
    "}:new torch.distributed.checkpoint.filesystem._StorageInfo()!{'relative_path':'" file "','offset':" at  \
    ",'length':" length "}"
/* ITEM - an entry of storage_data: item N of FILE, a tensor of the numbers 1 2 3 4, holds the chunk of NAME
 * that begins at OFFSET. All items have the same length. put_metadata replaces $1 by this length, and $N by N
 * times the length, which is the offset of item N in FILE. */
#define ITEM(name, offset, file, n) STORED(name, SIZE(offset), file, "$" #n, "$1")

static char dir[64];

/* put_file - writes the N bytes of BYTES, TIMES times, to the file NAME of the folder. */
static void put_file(const char *name, const void *bytes, size_t n, int times)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    for (int i = 0; i < times; i++)
        CU_ASSERT_EQUAL(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void remove_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

/* put_metadata - writes the pickle of TEXT to the file NAME. In TEXT, $ and a digit stand for the product of
 * the digit and LENGTH. */
static void put_metadata(const char *name, const char *text, size_t length)
{
    buf b, expanded;
    buf_init(&expanded, 1 << 20);
    buf_init(&b, 1 << 20);
    for (; *text; text++)
        if (*text == '$')
            buf_printf(&expanded, "%zu", (size_t)(*++text - '0') * length);
        else
            buf_byte(&expanded, (unsigned char)*text);
    buf_byte(&expanded, 0);
    put_pickle(&b, (const char *)expanded.data);
    put_file(name, b.data, b.len, 1);
    buf_free(&b);
    buf_free(&expanded);
}

/* The tensor in each item of the .distcp files. */
#define ITEM_TENSOR TENSOR_V2(FLOAT_STORAGE, 0, "(4,)", "(1,)")

/* make_folder - makes a folder of three files: a.distcp has four items, b.distcp has two, and .metadata has
 * the pickle of TEXT. */
static void make_folder(const char *text)
{
    struct test_file item = make_torch_zip(ITEM_TENSOR);
    snprintf(dir, sizeof dir, "/tmp/ckpt-unit-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    put_file("a.distcp", item.bytes, item.size, 4);
    put_file("b.distcp", item.bytes, item.size, 2);
    put_metadata(".metadata", text, item.size);
    close_file(&item);
}

static void remove_folder(void)
{
    static const char *const names[] = {".metadata",    ".metadata.tmp", "a.distcp", "b.distcp",
                                        "__0.metadata", "__1.metadata",  "out"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove_file(names[i]);
    CU_ASSERT_EQUAL(rmdir(dir), 0);
}

/* check_read - checks that a folder with the .metadata TEXT opens and that the tensor NAME has the numbers
 * WANT. */
static void check_read(const char *text, const char *name, const char *want)
{
    ckpt_file *f;
    ckpt_error err = {0};
    make_folder(text);
    ckpt_status st = ckpt_open(dir, NULL, &f, &err);
    CU_ASSERT_EQUAL(st, CKPT_OK);
    if (st != CKPT_OK)
        printf("\n    %s: %s\n", err.where, err.what);
    else
        check_numbers(f, name, want);
    ckpt_close(f);
    remove_folder();
}

/* check_open_fails - checks that opening a folder with the .metadata TEXT returns WANT, with an error about
 * WHERE whose message contains WORDS. */
static void check_open_fails(const char *text, ckpt_status want, const char *where, const char *words)
{
    ckpt_file *f;
    ckpt_error err = {0};
    make_folder(text);
    ckpt_status st = ckpt_open(dir, NULL, &f, &err);
    CU_ASSERT_EQUAL(st, want);
    bool as_expected = st == want && strstr(err.what, words) && strcmp(err.where, where) == 0;
    CU_ASSERT(as_expected);
    if (!as_expected)
        printf("\n    status %d, %s: %s; expected status %d, %s: %s\n", st, err.where, err.what, want, where,
               words);
    ckpt_close(f);
    remove_folder();
}

static void chunks_are_assembled(void)
{
    check_read(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "a.distcp", 0)), "w",
               "1 2 3 4 ");
    check_read(METADATA(TENSOR("w", "8,", CHUNK("4,", "4,") "," CHUNK("0,", "4,")), "",
                        ITEM("w", "0,", "a.distcp", 2) "," ITEM("w", "4,", "b.distcp", 1)),
               "w", "1 2 3 4 1 2 3 4 ");
    /* A rank without rows writes an empty chunk at the end. */
    check_read(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,") "," CHUNK("4,", "0,")), "",
                        ITEM("w", "0,", "a.distcp", 0) "," ITEM("w", "4,", "b.distcp", 0)),
               "w", "1 2 3 4 ");
    /* The first chunk may be listed twice. */
    check_read(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,") "," CHUNK("0,", "4,")), "",
                        ITEM("w", "0,", "a.distcp", 0)),
               "w", "1 2 3 4 ");
}

static void names_are_those_of_planner_data(void)
{
    check_read(METADATA(TENSOR("a.0.w", "4,", CHUNK("0,", "4,")), "'a.0.w':('a',0,'w')",
                        ITEM("a.0.w", "0,", "a.distcp", 0)),
               "a.0.w", "1 2 3 4 ");
    check_open_fails(METADATA(TENSOR("v", "4,", CHUNK("0,", "4,")) "," TENSOR("w", "4,", CHUNK("0,", "4,")),
                              "'v':('a',),'w':('a','b')",
                              ITEM("v", "0,", "a.distcp", 0) "," ITEM("w", "0,", "a.distcp", 1)),
                     CKPT_EFORMAT, "w", "to or through a value");
    check_open_fails(
        METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "'w':('a',999999999)", ITEM("w", "0,", "a.distcp", 0)),
        CKPT_EFORMAT, "w", "item 999999999 of a list");
}

static void chunks_must_cover_the_tensor(void)
{
    check_open_fails(METADATA(TENSOR("w", "12,", CHUNK("0,", "4,") "," CHUNK("8,", "4,")), "",
                              ITEM("w", "0,", "a.distcp", 0) "," ITEM("w", "8,", "a.distcp", 1)),
                     CKPT_EFORMAT, "w", "[4:8]");
    check_open_fails(METADATA(TENSOR("w", "6,", CHUNK("0,", "4,") "," CHUNK("2,", "4,")), "",
                              ITEM("w", "0,", "a.distcp", 0) "," ITEM("w", "2,", "a.distcp", 1)),
                     CKPT_EFORMAT, "w", "overlap");
    check_open_fails(METADATA(TENSOR("w", "6,", CHUNK("0,", "4,") "," CHUNK("0,", "6,")), "",
                              ITEM("w", "0,", "a.distcp", 0)),
                     CKPT_EFORMAT, "w", "another shape than its chunk");
    check_open_fails(METADATA(TENSOR("w", "6,", CHUNK("0,", "4,") "," CHUNK("4,", "4,")), "",
                              ITEM("w", "0,", "a.distcp", 0) "," ITEM("w", "4,", "a.distcp", 1)),
                     CKPT_EFORMAT, "w", "not inside of the tensor");
    check_open_fails(METADATA(TENSOR("w", "4,4", CHUNK("0,", "4,")), "", ITEM("w", "0,", "a.distcp", 0)),
                     CKPT_EFORMAT, "w", "no offsets and sizes of 2 dimensions");
    check_open_fails(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", ITEM("v", "0,", "a.distcp", 0)),
                     CKPT_EFORMAT, "w", "chunk [0:4] has no item");
    check_open_fails(METADATA(TENSOR("w", "288230376151711744,", CHUNK("0,", "288230376151711744,")), "",
                              ITEM("w", "0,", "a.distcp", 0)),
                     CKPT_EFORMAT, "w", "its chunk takes");
    check_open_fails(METADATA(TENSOR("w", "288230376151711744,288230376151711744",
                                     CHUNK("0,0", "288230376151711744,288230376151711744")),
                              "", ITEM("w", "0,0", "a.distcp", 0)),
                     CKPT_EFORMAT, "w", "2^63");
    check_open_fails(METADATA(TENSOR_OF("torch.nonsense", "w", "4,", CHUNK("0,", "4,")), "",
                              ITEM("w", "0,", "a.distcp", 0)),
                     CKPT_EFORMAT, "w", "element type");
}

/* 21 tensors share a list of 52 chunks. The first three of them have 156 chunks, more than .metadata has
 * values. */
static void shared_lists_of_chunks_are_refused(void)
{
#define FIVE_TIMES(item) item "," item "," item "," item "," item ","
#define FIVE_ALIASES(n)  "'" n "0':#2,'" n "1':#2,'" n "2':#2,'" n "3':#2,'" n "4':#2,"
    check_open_fails(
        METADATA("'w':#2=new " META "TensorStorageMetadata()!{'properties':new " META
                 "TensorProperties()!(torch.float32,None),'size':" SIZE("4,") ",'chunks':[#1=" CHUNK(
                     "0,", "4,") "," FIVE_TIMES("#1,#1,#1,#1,#1,#1,#1,#1,#1,#1") "#1]}," FIVE_ALIASES("1")
                     FIVE_ALIASES("2") FIVE_ALIASES("3") FIVE_ALIASES("4"),
                 "", ITEM("w", "0,", "a.distcp", 0)),
        CKPT_EFORMAT, "11", "156 chunks up to this tensor, in metadata of");
}

/* BINGET, of two bytes, puts the same chunk into the list ten million times. The memory for chunks is limited
 * by the size of .metadata. */
static void ten_million_chunks_are_refused(void)
{
    /* the opcodes of the text 'here', at which the chunks are inserted instead */
    static const char pickled_here[] = "X\4\0\0\0here";
    ckpt_file *f;
    ckpt_error err = {0};
    char path[256], chunks[20000];
    buf b;
    buf_init(&b, 1 << 20);
    put_pickle(&b, METADATA(TENSOR("w", "4,", "#1=" CHUNK("0,", "4,") ",'here'"), "",
                            STORED("w", SIZE("0,"), "a.distcp", "0", "100")));
    size_t at = str_find(buf_view(&b), str_of(pickled_here, sizeof pickled_here - 1), 0),
           after = at + sizeof pickled_here - 1;
    CU_ASSERT_FATAL(at != SIZE_MAX);
    for (size_t i = 0; i < sizeof chunks; i += 2)
        memcpy(chunks + i, "h\1", 2);
    make_folder("{}");
    snprintf(path, sizeof path, "%s/.metadata", dir);
    FILE *out = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    fwrite(b.data, 1, at, out);
    for (int i = 0; i < 1000; i++)
        fwrite(chunks, 1, sizeof chunks, out);
    fwrite(b.data + after, 1, b.len - after, out);
    CU_ASSERT_EQUAL(fclose(out), 0);
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_ELIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "more memory than is allowed"));
    buf_free(&b);
    remove_folder();
}

static void more_than_63_dimensions_are_refused(void)
{
#define SIXTEEN_ONES "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"
    check_open_fails(
        METADATA(TENSOR("w", SIXTEEN_ONES "," SIXTEEN_ONES "," SIXTEEN_ONES "," SIXTEEN_ONES, ""), "", ""),
        CKPT_EFORMAT, "w", "64 dimensions; 63 are allowed");
}

static void items_must_be_inside_of_their_files(void)
{
    check_open_fails(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "b.distcp", 2)),
                     CKPT_ETRUNCATED, "w", "the file has 0 there");
    check_open_fails(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "c.distcp", 0)),
                     CKPT_ENOTFOUND, "w", "the file c.distcp is missing");
    check_open_fails(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "../a.distcp", 0)),
                     CKPT_EFORMAT, "w", "outside of the folder");
    check_open_fails(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "/etc/passwd", 0)),
                     CKPT_EFORMAT, "w", "outside of the folder");
    check_open_fails(
        METADATA(TENSOR("v", "4,", CHUNK("0,", "4,")) "," TENSOR("w", "4,", CHUNK("0,", "4,")), "",
                 ITEM("v", "0,", "a.distcp", 0) "," STORED("w", SIZE("0,"), "a.distcp", "16", "$1")),
        CKPT_EFORMAT, "w", "overlaps that of \"v\"");
}

/* An item is compared with the metadata only when it is read. */
static void items_must_match_the_metadata(void)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {METADATA(TENSOR("w", "2,2", CHUNK("0,0", "2,2")), "", ITEM("w", "0,0", "a.distcp", 0)),
         "another shape"},
        {METADATA(TENSOR_OF("torch.int32", "w", "4,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "a.distcp", 0)),
         "an item of float32; .metadata has int32"},
        {METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", STORED("w", SIZE("0,"), "a.distcp", "1", "300")),
         ""}, /* no item begins at byte 1: any message */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t sum[CKPT_DIGEST_MAX];
        ckpt_file *f;
        ckpt_error err = {0};
        make_folder(cases[i].text);
        CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
        CU_ASSERT_NOT_EQUAL(ckpt_digest_tensor(f, 0, CKPT_SHA256, sum, &err), CKPT_OK);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, cases[i].words));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.file, "a.distcp"));
        ckpt_close(f);
        remove_folder();
    }
}

/* The item is a zstd frame of 100 RLE blocks. Each block takes four bytes and repeats a byte 131,072
 * times. */
static void zstd_items_may_not_exceed_their_chunk(void)
{
    /* the magic number and frame header, an RLE block, and an RLE block marked as the last */
    static const char frame[] = "\x28\xb5\x2f\xfd\0\x38", block[] = "\2\0\x10", last[] = "\3\0\x10";
    char bytes[6 + 4 * 100];
    uint8_t sum[CKPT_DIGEST_MAX];
    ckpt_file *f;
    ckpt_error err = {0};
    memcpy(bytes, frame, 6);
    for (size_t i = 0; i < 100; i++)
        memcpy(bytes + 6 + 4 * i, i < 99 ? block : last, 4);
    make_folder(
        METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "",
                 STORED("w", SIZE("0,"), "b.distcp", "0", "406,'transform_descriptors':['stream.zstd/1']")));
    put_file("b.distcp", bytes, sizeof bytes, 1);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
    ckpt_status st = ckpt_digest_tensor(f, 0, CKPT_SHA256, sum, &err);
    if (st != CKPT_EUNSUPPORTED) { /* there is a libarchive */
        CU_ASSERT_EQUAL(st, CKPT_EFORMAT);
        CU_ASSERT_STRING_EQUAL(err.what, "unpacks to more than the 1048592 bytes allowed"); /* 2^20 + 4 * 4 */
        CU_ASSERT_EQUAL(err.where[0], 'w');
        CU_ASSERT_PTR_NOT_NULL(strstr(err.file, "b.distcp"));
    }
    ckpt_close(f);
    remove_folder();
}

/* The item of a value must be a pickle, and so must meta.pt. Here, one of the two is a safetensors file. */
static void values_must_be_pickles(void)
{
    static const char safetensors[] = "\x69\0\0\0\0\0\0\0" /* the length of the header */
                                      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                      "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}12";
    ckpt_file *f = NULL;
    for (int in_meta = 0; in_meta < 2; in_meta++) {
        ckpt_error err = {0};
        make_folder(in_meta
                        ? METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "a.distcp", 0))
                        : METADATA(BYTES_ENTRY("v"), "", STORED("v", "None", "b.distcp", "0", "115")));
        put_file(in_meta ? "meta.pt" : "b.distcp", safetensors, sizeof safetensors - 1, 1);
        CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_EFORMAT);
        CU_ASSERT_STRING_EQUAL(err.what, "a file in the form safetensors, where a pickle belongs");
        CU_ASSERT_PTR_NOT_NULL(strstr(err.file, in_meta ? "meta.pt" : "b.distcp"));
        ckpt_close(f);
        remove_file("meta.pt");
        remove_folder();
    }
}

/* make_folder_of_stream - makes a folder with one value, v, which is an io.BytesIO of the N bytes of
 * BYTES. */
static void make_folder_of_stream(const char *bytes, size_t n)
{
    char text[1024];
    buf stream;
    buf_init(&stream, 1 << 20);
    buf_put_cstr(&stream, "new _io.BytesIO()!(b'");
    for (size_t i = 0; i < n; i++)
        buf_printf(&stream, "\\%02x", (unsigned char)bytes[i]);
    buf_put_cstr(&stream, "',0,None)");
    buf_byte(&stream, 0);
    struct test_file item = make_torch_zip((const char *)stream.data);
    snprintf(text, sizeof text, METADATA(BYTES_ENTRY("v"), "", STORED("v", "None", "b.distcp", "0", "%zu")),
             item.size);
    make_folder(text);
    put_file("b.distcp", item.bytes, item.size, 1);
    close_file(&item);
    buf_free(&stream);
}

static void torch_files_in_a_bytesio_are_read(void)
{
    ckpt_file *f;
    struct test_file inner = make_torch_zip("[" ITEM_TENSOR "]");
    make_folder_of_stream(inner.bytes, inner.size);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, NULL), CKPT_OK);
    check_numbers(f, "v.0", "1 2 3 4 ");
    ckpt_close(f);
    remove_folder();
    make_folder_of_stream(inner.bytes, inner.size - 1); /* a truncated torch file stays a value */
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 0);
    ckpt_close(f);
    remove_folder();
    close_file(&inner);
}

static void links_may_not_leave_the_folder(void)
{
    ckpt_file *f;
    ckpt_error err = {0};
    char link[256];
    make_folder(METADATA(TENSOR("w", "4,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "b.distcp", 0)));
    remove_file("b.distcp");
    snprintf(link, sizeof link, "%s/b.distcp", dir);
    CU_ASSERT_EQUAL(symlink("/etc/passwd", link), 0);
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "a link to a file outside of the folder"));
    CU_ASSERT_EQUAL(unlink(link), 0);
    CU_ASSERT_EQUAL(mkfifo(link, 0600), 0); /* ckpt_open must not wait for a writer */
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "no regular file"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.hint, "put the file itself in its place"));
    CU_ASSERT_EQUAL(unlink(link), 0);
    CU_ASSERT_EQUAL(symlink("a.distcp", link), 0);
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
    check_numbers(f, "w", "1 2 3 4 ");
    ckpt_close(f);
    remove_folder();
}

static void metadata_of_all_ranks_are_merged(void)
{
    ckpt_file *f;
    ckpt_error err = {0};
    struct test_file item = make_torch_zip(ITEM_TENSOR);
    make_folder("{}");
    remove_file(".metadata");
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_ENOTFOUND);
    put_metadata("__0.metadata",
                 METADATA(TENSOR("w", "8,", CHUNK("0,", "4,")), "", ITEM("w", "0,", "a.distcp", 0)),
                 item.size);
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_EFORMAT);
    put_metadata("__1.metadata",
                 METADATA(TENSOR("w", "8,", CHUNK("4,", "4,")), "", ITEM("w", "4,", "b.distcp", 0)),
                 item.size);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
    check_numbers(f, "w", "1 2 3 4 1 2 3 4 ");
    ckpt_close(f);
    put_metadata("__1.metadata",
                 METADATA(TENSOR("w", "9,", CHUNK("4,", "4,")), "", ITEM("w", "4,", "b.distcp", 0)),
                 item.size);
    CU_ASSERT_EQUAL(ckpt_open(dir, NULL, &f, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "that of the other ranks"));
    remove_folder();
    close_file(&item);
}

/* The tensor has two chunks, and the second chunk is damaged. */
static void checksums_of_items_are_checked(void)
{
    uint8_t sum[CKPT_DIGEST_MAX];
    float first_chunk[4];
    ckpt_file *f;
    ckpt_error err = {0};
    struct test_file item = make_torch_zip(ITEM_TENSOR);
    make_folder(METADATA(TENSOR("w", "8,", CHUNK("0,", "4,") "," CHUNK("4,", "4,")), "",
                         ITEM("w", "0,", "a.distcp", 0) "," ITEM("w", "4,", "b.distcp", 0)));
    for (size_t i = 0; i + 16 < item.size; i++)
        if (memcmp(item.bytes + i, "\0\0\x80\x3f\0\0\0\x40", 8) == 0) /* the floats 1 and 2 */
            item.bytes[i] = 1;
    put_file("b.distcp", item.bytes, item.size, 1);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(dir, NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_read(f, 0, 0, 4, first_chunk, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_tensor(f, 0, CKPT_SHA256, sum, &err), CKPT_ECHECKSUM);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.file, "b.distcp"));
    CU_ASSERT_STRING_EQUAL(err.where, "w"); /* the error names the tensor once */
    ckpt_close(f);
    ckpt_verify_result result = CKPT_INIT(ckpt_verify_result);
    CU_ASSERT_EQUAL(ckpt_verify(dir, NULL, NULL, NULL, &result, &err), CKPT_OK);
    CU_ASSERT(result.findings > 0);
    CU_ASSERT_EQUAL_FATAL(ckpt_salvage(dir, NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_lost_count(f), 1);
    ckpt_close(f);
    remove_folder();
    close_file(&item);
}

/* Wherever .metadata is cut, it is refused. If one byte is changed, it is refused or read. */
static void damaged_metadata_are_refused(void)
{
    static char metadata[4096];
    char path[256];
    ckpt_error err;
    make_folder(METADATA(TENSOR("a.0.w", "8,", CHUNK("4,", "4,") "," CHUNK("0,", "4,")),
                         "'a.0.w':('a',0,'w')",
                         ITEM("a.0.w", "0,", "a.distcp", 2) "," ITEM("a.0.w", "4,", "b.distcp", 1)));
    snprintf(path, sizeof path, "%s/.metadata", dir);
    FILE *in = fopen(path, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(in);
    size_t n = fread(metadata, 1, sizeof metadata, in);
    fclose(in);
    for (size_t i = 0; i < 2 * n; i++) {
        ckpt_file *f = NULL;
        if (i >= n)
            metadata[i - n] = (char)(metadata[i - n] ^ 0x11);
        put_file(".metadata", metadata, i < n ? i : n, 1);
        ckpt_status st = ckpt_open(dir, NULL, &f, &err);
        CU_ASSERT(st == CKPT_OK ? i >= n : err.what[0] != 0);
        ckpt_close(f);
        if (i >= n)
            metadata[i - n] = (char)(metadata[i - n] ^ 0x11);
    }
    remove_folder();
}

/* check_write - writes a file of PICKLE as a folder. If REASON is NULL, the folder must be read back;
 * otherwise, writing must be refused with REASON in the message. */
static void check_write(const char *pickle, const char *reason)
{
    struct test_file in = make_torch_zip(pickle);
    ckpt_file *f, *reopened = NULL;
    ckpt_plan *p = NULL;
    ckpt_error err;
    char out[128];
    ckpt_write_options o = CKPT_INIT(ckpt_write_options);
    o.format = "dcp";
    o.no_sync = 1;
    snprintf(dir, sizeof dir, "/tmp/ckpt-unit-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    snprintf(out, sizeof out, "%s/out", dir);
    CU_ASSERT_FATAL(ckpt_open_memory(in.bytes, in.size, "in", NULL, &f, &err) == CKPT_OK);
    CU_ASSERT_FATAL(ckpt_plan_new(f, &p, &err) == CKPT_OK);
    ckpt_status st = ckpt_plan_write(p, out, &o, NULL, &err);
    CU_ASSERT_EQUAL(st == CKPT_OK, reason == NULL);
    if (reason && !strstr(err.what, reason))
        CU_FAIL(reason);
    if (!reason) {
        CU_ASSERT_FATAL(ckpt_open(out, NULL, &reopened, &err) == CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_tensor_count(reopened), ckpt_tensor_count(f));
        CU_ASSERT_EQUAL(ckpt_leaf_count(reopened), ckpt_leaf_count(f));
        ckpt_close(reopened);
    } else {
        CU_ASSERT(access(out, F_OK) != 0);
    }
    ckpt_plan_free(p);
    ckpt_close(f);
    close_file(&in);
    remove_file("out/.metadata");
    for (int i = 0; i < 4; i++) {
        snprintf(out, sizeof out, "out/__0_%d.distcp", i);
        remove_file(out);
    }
    remove_file("out");
    snprintf(out, sizeof out, "%s/out", dir);
    rmdir(out);
    CU_ASSERT_EQUAL(rmdir(dir), 0);
}

static void mappings_are_written_as_folders(void)
{
    check_write("{'a':" ITEM_TENSOR ",'b':{'c':1,'d':[" ITEM_TENSOR ",2]},'e':[1,[2]],'f':{},'g':[]}", NULL);
    check_write("{'pair':(" ITEM_TENSOR ",1),'n':{1:" ITEM_TENSOR "}}", NULL);
    check_write("[" ITEM_TENSOR "]", "no mapping");
    check_write("{(1,2):" ITEM_TENSOR "}", "no text or number");
    check_write("{'a.b':" ITEM_TENSOR ",'a':{'b':1}}", "both be called \"a.b\"");
    check_write("{'1':" ITEM_TENSOR ",1:2}", "both be called \"1\"");
    /* a view of 2^64 - 1 bytes, whose strides are 0 */
    check_write("{'a':" TENSOR_V2(STORAGE("Byte", "0", 16), 0, "(3,6148914691236517205)", "(0,0)") "}",
                "more than 2^63 bytes");
}

void suite_dcp(void)
{
    UNIT(chunks_are_assembled);
    UNIT(names_are_those_of_planner_data);
    UNIT(chunks_must_cover_the_tensor);
    UNIT(shared_lists_of_chunks_are_refused);
    UNIT(ten_million_chunks_are_refused);
    UNIT(more_than_63_dimensions_are_refused);
    UNIT(items_must_be_inside_of_their_files);
    UNIT(items_must_match_the_metadata);
    UNIT(zstd_items_may_not_exceed_their_chunk);
    UNIT(values_must_be_pickles);
    UNIT(torch_files_in_a_bytesio_are_read);
    UNIT(links_may_not_leave_the_folder);
    UNIT(metadata_of_all_ranks_are_merged);
    UNIT(checksums_of_items_are_checked);
    UNIT(damaged_metadata_are_refused);
    UNIT(mappings_are_written_as_folders);
}
