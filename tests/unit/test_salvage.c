/* Files that are truncated or changed at any byte are salvaged. Exactly the tensors whose storage is damaged
 * must be lost; each other tensor must keep its digest. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/file.h"
#include "format/registry.h"
#include "pickled.h"
#include "small_files.h"
#include "unit.h"

static ckpt_status salvage_source(const char *path, source *src, ckpt_file **out, ckpt_error *err)
{
    return format_open(&(struct opening){.path = path, .src = src, .how = OPEN_SALVAGE}, out, err);
}

/* An undamaged file: its bytes, and the digests of its tensors. */
struct original {
    ckpt_file *file;
    unsigned char *bytes;
    size_t size;
    uint8_t *digests;
};

static void load_original(struct original *o, const char *corpus_file)
{
    FILE *in = fopen(unit_corpus_path(corpus_file), "rb");
    o->file = open_corpus_file(corpus_file);
    o->size = (size_t)ckpt_file_bytes(o->file);
    o->bytes = malloc(o->size);
    o->digests = calloc(ckpt_tensor_count(o->file), CKPT_DIGEST_MAX);
    CU_ASSERT(in && o->bytes && fread(o->bytes, 1, o->size, in) == o->size);
    if (in)
        fclose(in);
    CU_ASSERT_EQUAL(ckpt_file_locate(o->file, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_tensors(o->file, CKPT_XXH3, NULL, o->digests, NULL), CKPT_OK);
}

static void free_original(struct original *o)
{
    free(o->bytes);
    free(o->digests);
    close_open_files();
}

/* has_original_digest - returns whether tensor ROW of F has the digest that the tensor of its name has
 * in O. */
static bool has_original_digest(const struct original *o, ckpt_file *f, uint32_t row)
{
    uint8_t d[CKPT_DIGEST_MAX];
    uint32_t original_row = ckpt_tensor_find(o->file, ckpt_tensor_name(f, row));
    return original_row != CKPT_NO_TENSOR && ckpt_digest_tensor(f, row, CKPT_XXH3, d, NULL) == CKPT_OK &&
           memcmp(d, o->digests + (size_t)original_row * CKPT_DIGEST_MAX, 16) == 0;
}

/* is_damaged - returns whether the storage of tensor ROW contains byte AT or, if TRUNCATED, a byte from AT
 * on. */
static bool is_damaged(const struct original *o, uint32_t row, uint64_t at, bool truncated)
{
    const ckpt_tensor tensor = tensor_at(o->file, row);
    const ckpt_storage storage = storage_at(o->file, tensor.storage);
    uint64_t end = storage.file_offset + storage.nbytes;
    bool contains_byte = at >= storage.file_offset && at < end;
    return tensor.has_data && storage.nbytes && (truncated ? end > at : contains_byte);
}

/* lacks_descriptor - returns whether the file, an archive truncated to SIZE bytes, has the storage of tensor
 * ROW, but not all of the data descriptor after it, which has at most 24 bytes. */
static bool lacks_descriptor(const struct original *o, uint32_t row, uint64_t size)
{
    const ckpt_tensor tensor = tensor_at(o->file, row);
    const ckpt_storage storage = storage_at(o->file, tensor.storage);
    uint64_t end = storage.file_offset + storage.nbytes;
    bool is_archive = strcmp(ckpt_file_format(o->file), "torch-zip") == 0;
    return is_archive && tensor.has_data && size >= end && size < end + 24;
}

/* check_damage - salvages the first SIZE bytes of O. If TRUNCATED, AT is SIZE; else the caller has changed
 * byte AT (UINT64_MAX: a byte that no tensor needs). Checks which tensors are lost, and returns their number,
 * or -1 if nothing can be salvaged. */
static int check_damage(const struct original *o, size_t size, uint64_t at, bool truncated)
{
    ckpt_error ignored;
    ckpt_file *f = NULL;
    unsigned char *guarded = unit_guard(o->bytes, size);
    ckpt_status st = salvage_source("damaged.pt", source_mem(guarded, size, 0), &f, &ignored);
    if (st != CKPT_OK) {
        unit_guard_free(guarded, size);
        return -1;
    }
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), ckpt_tensor_count(o->file));
    int lost = 0;
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        bool is_lost = f->losses.of_row[i];
        lost += is_lost;
        bool either = is_lost && truncated && lacks_descriptor(o, i, at);
        if (!either && is_lost != is_damaged(o, i, at, truncated)) {
            printf("\n    at byte %llu: tensor %u\n", (unsigned long long)at, i);
            CU_FAIL("a tensor is lost but not damaged, or damaged but not lost");
        }
        CU_ASSERT(is_lost || !tensor_at(f, i).has_data || has_original_digest(o, f, i));
    }
    CU_ASSERT_EQUAL((size_t)lost, ckpt_lost_count(f));
    ckpt_close(f);
    unit_guard_free(guarded, size);
    return lost;
}

static uint64_t first_storage_offset(const struct original *o)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < ckpt_storage_count(o->file); i++)
        if (storage_at(o->file, i).nbytes && storage_at(o->file, i).file_offset < first)
            first = storage_at(o->file, i).file_offset;
    return first;
}

/* check_every_length - salvages a corpus file truncated to 0 bytes, STEP bytes, 2 * STEP bytes and so on. */
static void check_every_length(const char *corpus_file, size_t step)
{
    struct original o;
    load_original(&o, corpus_file);
    uint64_t first_offset = first_storage_offset(&o);
    /* Below the offset of the first storage, the step is 37, because nothing can be salvaged. */
    for (size_t n = 0; n <= o.size; n += n + 40 < first_offset ? 37 : step)
        CU_ASSERT(check_damage(&o, n, n, true) >= 0 || n < first_offset);
    CU_ASSERT_EQUAL(check_damage(&o, o.size, o.size, true), 0);
    free_original(&o);
}

static void truncated_files_lose_only_truncated_tensors(void)
{
    check_every_length("torch/t26/state_dict.pt", 1);
    check_every_length("torch/t215/list_of_state_dicts.pt", 3);
    check_every_length("torch/t16/dp_state_dict.pt", 3);
    check_every_length("torch/t26/state_dict_legacy.pt", 1);
    check_every_length("torch/t10/state_dict.pt", 3);
    check_every_length("torch/legexp/t_tar.pt", 1);
    check_every_length("torch/legexp/t_tar_nosysinfo.pt", 1);
    check_every_length("torch/legexp/t_tar_strid.pt", 1);
}

/* A deflated tensor is salvaged if the file has all of its compressed bytes. */
static void truncated_deflated_files_lose_only_truncated_tensors(void)
{
    ckpt_error ignored;
    static const char *const files[] = {"torch/exp/06_deflate_all.pt", "torch/exp/32_infozip_r.pt"};
    for (size_t i = 0; i < 2; i++) {
        struct original o;
        zip *z = NULL;
        load_original(&o, files[i]);
        source *src = source_mem(o.bytes, o.size, 0);
        arena *a = arena_new(1 << 24);
        CU_ASSERT_EQUAL_FATAL(zip_open(src, a, &z, NULL), CKPT_OK);
        zip_locate_all(z);
        uint32_t salvaged = 0; /* number of tensors salvaged at the previous length */
        for (size_t n = 0; n <= o.size; n++) {
            ckpt_file *f = NULL;
            if (salvage_source("damaged.pt", source_mem(o.bytes, n, 0), &f, &ignored) != CKPT_OK) {
                CU_ASSERT_EQUAL(salvaged, 0);
                continue;
            }
            salvaged = 0;
            for (uint32_t k = 0; k < ckpt_tensor_count(f); k++) {
                char name[40];
                snprintf(name, sizeof name, "archive/data/%u", k);
                const struct zip_entry *e = &z->entries[zip_find(z, str_c(name))];
                CU_ASSERT_EQUAL(f->losses.of_row[k], e->data_offset + e->csize > n);
                CU_ASSERT(f->losses.of_row[k] || has_original_digest(&o, f, k));
                salvaged += !f->losses.of_row[k];
            }
            ckpt_close(f);
        }
        zip_close(z);
        source_unref(src);
        arena_free(a);
        free_original(&o);
    }
}

static void a_changed_byte_loses_only_the_tensors_of_its_storage(void)
{
    static const char *const files[] = {"torch/t26/state_dict.pt", "torch/t215/list_of_state_dicts.pt",
                                        "torch/t16/dp_state_dict.pt", "torch/t215/tied.pt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct original o;
        load_original(&o, files[i]);
        for (size_t at = (size_t)first_storage_offset(&o); at < o.size; at += 3) {
            bool is_in_storage = false;
            for (uint32_t k = 0; k < ckpt_tensor_count(o.file); k++)
                is_in_storage = is_in_storage || is_damaged(&o, k, at, false);
            o.bytes[at] ^= 0x10;
            if (is_in_storage)
                CU_ASSERT(check_damage(&o, o.size, at, false) > 0);
            o.bytes[at] ^= 0x10;
        }
        free_original(&o);
    }
}

/* If a component of a composite tensor is lost, the tensor and all of its other components are lost, too. */
static void composite_tensors_are_lost_completely(void)
{
    ckpt_error ignored;
    static const char *const files[] = {"torch/t26/sparse_coo.pt",
                                        "torch/t26/sparse_csr.pt",
                                        "torch/t26/nested_jagged.pt",
                                        "torch/t26/tensor_alone.pt",
                                        "torch/t26/quant_per_channel.pt",
                                        "torch/t26/wrapper_subclass_twotensor.pt",
                                        "torch/t26/meta.pt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct original o;
        load_original(&o, files[i]);
        CU_ASSERT_EQUAL(check_damage(&o, o.size, o.size, true), 0);
        for (size_t at = (size_t)first_storage_offset(&o); at < o.size; at += 5) {
            ckpt_file *f = NULL;
            o.bytes[at] ^= 0x10;
            CU_ASSERT_EQUAL(salvage_source("damaged.pt", source_mem(o.bytes, o.size, 0), &f, &ignored),
                            CKPT_OK);
            o.bytes[at] ^= 0x10;
            for (uint32_t k = 0; f && k < ckpt_tensor_count(f); k++) {
                uint32_t composite = tensor_at(f, k).part_of;
                CU_ASSERT(composite == CKPT_NO_TENSOR || f->losses.of_row[k] == f->losses.of_row[composite]);
                CU_ASSERT(f->losses.of_row[k] || !is_damaged(&o, k, at, false));
            }
            ckpt_close(f);
        }
        free_original(&o);
    }
}

static void the_central_directory_is_not_needed(void)
{
    struct original o;
    load_original(&o, "torch/t26/state_dict.pt");
    /* finds the name in the central header before the last one, "version", and changes each byte from that
     * name on */
    size_t at = o.size;
    while (at > 4 && memcmp(o.bytes + at - 4, "PK\1\2", 4) != 0)
        at--;
    while (at > 4 && memcmp(o.bytes + at - 4, "version", 4) != 0)
        at--;
    for (at = at > 4 ? at : 0; at < o.size; at++) {
        o.bytes[at] ^= 0x10;
        CU_ASSERT(check_damage(&o, o.size, at, false) >= 0);
        o.bytes[at] ^= 0x10;
    }
    free_original(&o);
}

/* is_payload_byte - returns whether byte AT is in the payload of a pickle, a JSON file or a storage. */
static bool is_payload_byte(zip *z, uint64_t at)
{
    for (size_t i = 0; i < z->n; i++) {
        const struct zip_entry *e = &z->entries[i];
        if (zip_locate_payload(z, i, NULL) == CKPT_OK && at >= e->data_offset &&
            at - e->data_offset < e->csize &&
            (str_ends(e->name, STR_LIT(".pkl")) || str_ends(e->name, STR_LIT(".json")) ||
             str_find(e->name, STR_LIT("/data/"), 0) != SIZE_MAX ||
             str_find(e->name, STR_LIT("/tensors/"), 0) != SIZE_MAX))
            return true;
    }
    return false;
}

/* check_unneeded_bytes - changes each STEP-th byte, except bytes that tensors need. Those that remain are in
 * headers, descriptors, padding, the central directory and other members. No tensor may be lost. */
static void check_unneeded_bytes(const char *corpus_file, size_t step)
{
    static const unsigned char masks[] = {0x01, 0x10, 0x80, 0xff};
    struct original o;
    zip *z = NULL;
    load_original(&o, corpus_file);
    source *src = source_mem(o.bytes, o.size, 0);
    arena *a = arena_new(1 << 24);
    CU_ASSERT_EQUAL_FATAL(zip_open(src, a, &z, NULL), CKPT_OK);
    zip_locate_all(z);
    bool has_crc = o.file->table.storages[0].has_crc;
    for (size_t at = 0, turn = 0; at < o.size; at += step)
        for (size_t i = 0; i < (step == 1 ? 4 : 1) && !is_payload_byte(z, at); i++) {
            unsigned char mask = masks[turn++ % 4];
            if (mask == 0xff && !has_crc)
                continue; /* without CRC-32s, some changed offsets lead to other bytes */
            o.bytes[at] ^= mask;
            int lost = check_damage(&o, o.size, UINT64_MAX, false);
            if (lost)
                printf("\n    %s: byte %zu ^ %02x: %d lost", corpus_file, at, mask, lost);
            CU_ASSERT_EQUAL(lost, 0);
            o.bytes[at] ^= mask;
        }
    zip_close(z);
    source_unref(src);
    arena_free(a);
    free_original(&o);
}

static void bytes_that_no_tensor_needs_lose_nothing(void)
{
    check_unneeded_bytes("torch/t26/state_dict.pt", 1);
    check_unneeded_bytes("torch/t215/nocrc.pt", 1);
    check_unneeded_bytes("torch/exp/43_no_crc.pt", 1);
    check_unneeded_bytes("torch/exp/06_deflate_all.pt", 1);
    check_unneeded_bytes("torch/exp/32_infozip_r.pt", 3);
    check_unneeded_bytes("torch/exp/41_no_dd.pt", 3);
    check_unneeded_bytes("torch/exp/44_no_eocd64.pt", 3);
    check_unneeded_bytes("torch/t215/tied.pt", 5);
    check_unneeded_bytes("torch/t16/dp_state_dict.pt", 11);
    check_unneeded_bytes("torch/t10/torchscript_trace.pt", 11);
}

static void most_fields_of_tar_headers_are_not_needed(void)
{
    static const unsigned char masks[] = {0x01, 0x10, 0x80, 0xff};
    enum { AFTER_NAME = 100, TYPE_FLAG = 156, MAGIC = 257, PREFIX = 345 }; /* offsets in a header */
    struct original o;
    load_original(&o, "torch/legexp/t_tar.pt");
    for (size_t header = 512; header + 512 <= o.size; header += 512)
        for (size_t i = AFTER_NAME; i < PREFIX && memcmp(o.bytes + header + MAGIC, "ustar", 5) == 0; i++)
            for (size_t k = 0; k < 4 && i != TYPE_FLAG; k++) {
                o.bytes[header + i] ^= masks[k];
                int lost = check_damage(&o, o.size, UINT64_MAX, false);
                if (lost)
                    printf("\n    byte %zu ^ %02x: %d lost", header + i, masks[k], lost);
                CU_ASSERT_EQUAL(lost, 0);
                o.bytes[header + i] ^= masks[k];
            }
    free_original(&o);
}

static void a_damaged_pickle_is_refused(void)
{
    struct original o;
    ckpt_file *f = NULL;
    ckpt_error err;
    load_original(&o, "torch/t26/state_dict.pt");
    o.bytes[300] ^= 1; /* in data.pkl */
    CU_ASSERT_EQUAL(salvage_source("x.pt", source_mem(o.bytes, o.size, 0), &f, &err), CKPT_ECHECKSUM);
    CU_ASSERT(strstr(err.where, "data.pkl") != NULL &&
              strstr(err.hint, "no tensor has a name; 12 other records (") != NULL);
    free_original(&o);
}

/* ------------------------------------------------------------------ objects */

#define DAMAGED_STORAGE STORAGE("Float", "1", 4) /* data/1 */

/* damage_data_1 - changes a byte of the member data/1 of MADE, so that its CRC-32 does not match. */
static void damage_data_1(struct test_file *made)
{
    zip *z = NULL;
    source *src = source_mem(made->bytes, made->size, 0);
    arena *a = arena_new(1 << 24);
    CU_ASSERT_EQUAL_FATAL(zip_open(src, a, &z, NULL), CKPT_OK);
    int64_t i = zip_find(z, STR_LIT("archive/data/1"));
    CU_ASSERT_FATAL(i >= 0 && zip_locate_payload(z, (size_t)i, NULL) == CKPT_OK);
    made->bytes[z->entries[i].data_offset] ^= 1;
    zip_close(z);
    source_unref(src);
    arena_free(a);
}

/* check_salvaged - salvages a file with the pickle TEXT, whose storage data/1 is damaged. Checks that the
 * LOST_NAMES ("a;b;") are lost, and that the salvaged file, written and read back, has the TENSORS and the
 * VALUES ("1;2;"). */
static void check_salvaged(const char *text, const char *lost_names, const char *tensors, const char *values)
{
    struct test_file made = make_torch_zip(text), reopened;
    char path[] = "/tmp/ckpt-unit-XXXXXX";
    buf got;
    ckpt_error err = {0};
    ckpt_file *f = NULL;
    ckpt_plan *p = NULL;
    int fd = mkstemp(path);
    buf_init(&got, 1 << 12);
    if (made.status != CKPT_OK)
        printf("\n    %s: %s", text, made.err.what);
    CU_ASSERT_FATAL(made.status == CKPT_OK && fd >= 0);
    damage_data_1(&made);
    CU_ASSERT_EQUAL_FATAL(salvage_source("damaged.pt", source_mem(made.bytes, made.size, 0), &f, &err),
                          CKPT_OK);
    for (size_t i = 0; i < ckpt_lost_count(f); i++) {
        const ckpt_lost *l = ckpt_lost_at(f, i);
        buf_printf(&got, "%s;", ckpt_tensor_name(f, l->row).ptr);
        CU_ASSERT(str_find(l->why, STR_LIT("have the checksum"), 0) != SIZE_MAX ||
                  str_is(l->why, "a part of it is lost"));
    }
    CU_ASSERT(str_is(buf_view(&got), lost_names));
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, &err), CKPT_OK);
    ckpt_write_options o = {.struct_size = sizeof o, .force = true, .no_sync = true};
    ckpt_status st = ckpt_plan_write(p, path, &o, NULL, &err);
    if (st != CKPT_OK)
        printf("\n    %s: %s", text, err.what);
    CU_ASSERT_EQUAL_FATAL(st, CKPT_OK);
    ckpt_plan_free(p);
    ckpt_close(f);
    close_file(&made);
    reopened = (struct test_file){.file = NULL};
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &reopened.file, &err), CKPT_OK);
    check_tensors(&reopened, tensors);
    got.len = 0;
    for (size_t i = 0; ckpt_leaf_at(reopened.file, i); i++) {
        char value[200];
        (void)ckpt_value_text(ckpt_leaf_at(reopened.file, i)->value, 8, value, sizeof value);
        buf_printf(&got, "%s;", value);
    }
    if (!str_is(buf_view(&got), values))
        printf("\n    %s: %.*s", text, STR_ARG(buf_view(&got)));
    CU_ASSERT(str_is(buf_view(&got), values));
    buf_free(&got);
    ckpt_close(reopened.file);
    close(fd);
    unlink(path);
}

#define SALVAGED_W "w dense float32[4]@0+0;"

/* If an object refers to a lost storage, as little of the object as possible is lost. In the pickles, x!state
 * is BUILD; #1=x is a value x, #1 the same value again, and #1~x a value x that may contain #1. */
static void objects_lose_only_what_needs_a_lost_storage(void)
{
    check_salvaged("{'w':" FLOAT_TENSOR ",'o':my.C(" DAMAGED_STORAGE "),'n':5}", "o;", SALVAGED_W, "5;");
    check_salvaged("{'w':" FLOAT_TENSOR ",'l':[1,my.C(" DAMAGED_STORAGE "),2]}", "l.1;", SALVAGED_W,
                   "1;None;2;");
    check_salvaged("{'w':" FLOAT_TENSOR ",'t':(1,my.C((2,[" DAMAGED_STORAGE "])))}", "t.1;", SALVAGED_W,
                   "1;None;");
    /* an unknown object loses only the attribute; an object of torch, and one whose state is not a dict, are
     * lost completely */
    check_salvaged("{'w':" FLOAT_TENSOR ",'o':new my.C()!{'a':1,'b':my.D(" DAMAGED_STORAGE ")}}", "o.b;",
                   SALVAGED_W, "C(a=1);1;");
    check_salvaged("{'w':" FLOAT_TENSOR ",'o':new torch.C()!{'a':1,'b':my.D(" DAMAGED_STORAGE ")}}", "o;",
                   SALVAGED_W, "");
    check_salvaged("{'w':" FLOAT_TENSOR ",'o':my.C()!(1,None," DAMAGED_STORAGE ")}", "o;", SALVAGED_W, "");
    /* an object with two names */
    check_salvaged("{'w':" FLOAT_TENSOR ",'a':#1=my.C(" DAMAGED_STORAGE "),'l':[#1]}", "a;l.0;", SALVAGED_W,
                   "None;");
    check_salvaged("{'w':" FLOAT_TENSOR ",'a':#1=my.C(" DAMAGED_STORAGE
                   "),'b':{'c':#1},'d':my.C(" FLOAT_STORAGE ")}",
                   "a;b.c;", SALVAGED_W, "{};C(<storage>);");
    /* objects that contain themselves */
    check_salvaged("{'w':" FLOAT_TENSOR ",'o':#1~my.C(" DAMAGED_STORAGE
                   ")!{'me':#1},'n':#2~my.C()!{'me':#2}}",
                   "o;", SALVAGED_W, "C(me=my.C);my.C;");
    /* a tensor in the lost storage, and objects that refer to the tensor */
    check_salvaged("{'w':" FLOAT_TENSOR ",'v':#1=" TENSOR_V2(DAMAGED_STORAGE, 0, "(4,)",
                                                             "(1,)") ",'o':my.C(#1),'p':new my.C()!{'v':#1}}",
                   "v;p.v;o;", SALVAGED_W, "C();");
}

/* ---------------------------------------------------------------------- shards */

static char folder[64]; /* path of a folder with symbolic links to the shards in the corpus */

static void link_into_folder(const char *path)
{
    char from[700], to[600];
    char *real = realpath(path, NULL);
    snprintf(from, sizeof from, "%s", real ? real : "");
    free(real);
    snprintf(to, sizeof to, "%s%s", folder, strrchr(from, '/'));
    CU_ASSERT_EQUAL(symlink(from, to), 0);
}

/* copy_first_bytes - writes the first SIZE bytes of the file FROM to the file TO. */
static void copy_first_bytes(const char *from, const char *to, uint64_t size)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CU_ASSERT_FATAL(in && out);
    for (int c; size && (c = getc(in)) != EOF; size--)
        putc(c, out);
    fclose(in);
    fclose(out);
}

/* check_truncated_shard - truncates SHARD, a file of SET, to SIZE bytes or, if MISSING, removes it. Salvages
 * the set, and checks that exactly the tensors of the shard are lost, or exactly those of them that end after
 * SIZE; the latter is allowed only if the shard is not missing. Then restores the shard. */
static void check_truncated_shard(const struct original *set, const ckpt_file *shard, uint64_t size,
                                  bool missing)
{
    char path[600];
    ckpt_error err;
    ckpt_file *f = NULL;
    bool lost_all = true;       /* exactly the tensors of the shard are lost */
    bool lost_truncated = true; /* exactly the truncated tensors of the shard are lost */
    ckpt_str name = str_after_last(str_c(shard->path), '/');
    snprintf(path, sizeof path, "%s/%s", folder, name.ptr);
    CU_ASSERT_EQUAL(unlink(path), 0);
    if (!missing)
        copy_first_bytes(shard->path, path, size);
    CU_ASSERT_EQUAL_FATAL(ckpt_salvage(folder, NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), ckpt_tensor_count(set->file));
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        uint32_t original_row = ckpt_tensor_find(set->file, ckpt_tensor_name(f, i));
        CU_ASSERT_FATAL(original_row != CKPT_NO_TENSOR);
        ckpt_storage s = storage_at(set->file, tensor_at(set->file, original_row).storage);
        bool in_this_shard = str_eq(s.file, name);
        bool is_truncated = s.nbytes && s.file_offset + s.nbytes > size;
        lost_all = lost_all && f->losses.of_row[i] == in_this_shard;
        lost_truncated = lost_truncated && f->losses.of_row[i] == (in_this_shard && is_truncated);
        CU_ASSERT(f->losses.of_row[i] || has_original_digest(set, f, i));
    }
    for (size_t i = 0; i < ckpt_lost_count(f); i++)
        CU_ASSERT(str_eq(ckpt_lost_at(f, i)->shard, name) && ckpt_lost_at(f, i)->why.len);
    if (!lost_all && !lost_truncated)
        printf("\n    %s at %llu", path, (unsigned long long)size);
    CU_ASSERT(lost_all || (lost_truncated && !missing));
    ckpt_close(f);
    (void)unlink(path);
    link_into_folder(shard->path);
}

/* check_damage_of_every_shard - calls check_truncated_shard() for each shard of the set in CORPUS_FOLDER:
 * first the shard is missing, then it is truncated to every multiple of 97 bytes. INDEX is the
 * name of the index file of the set. */
static void check_damage_of_every_shard(const char *corpus_folder, const char *index)
{
    char path[700];
    struct original o = {.file = open_corpus_file(corpus_folder)};
    snprintf(folder, sizeof folder, "/tmp/ckpt-unit-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    o.digests = calloc(ckpt_tensor_count(o.file), CKPT_DIGEST_MAX);
    CU_ASSERT_EQUAL(ckpt_file_locate(o.file, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_tensors(o.file, CKPT_XXH3, NULL, o.digests, NULL), CKPT_OK);
    for (size_t k = 0; k < o.file->nparts; k++)
        link_into_folder(o.file->parts[k]->path);
    snprintf(path, sizeof path, "%s/%s", unit_corpus_path(corpus_folder), index);
    link_into_folder(path);
    for (size_t k = 0; k < o.file->nparts; k++) {
        check_truncated_shard(&o, o.file->parts[k], 0, true);
        for (uint64_t n = 0; n <= o.file->parts[k]->nbytes; n += 97)
            check_truncated_shard(&o, o.file->parts[k], n, false);
    }
    for (size_t k = 0; k <= o.file->nparts; k++) {
        const char *name = k < o.file->nparts ? strrchr(o.file->parts[k]->path, '/') + 1 : index;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        CU_ASSERT_EQUAL(unlink(path), 0);
    }
    CU_ASSERT_EQUAL(rmdir(folder), 0);
    free_original(&o);
}

static void sets_with_a_truncated_or_missing_shard_are_salvaged(void)
{
    check_damage_of_every_shard("torch/t215/eco/hub_bin_sharded", "pytorch_model.bin.index.json");
    check_damage_of_every_shard("torch/t215/eco/hub_safetensors_sharded", "model.safetensors.index.json");
    check_damage_of_every_shard("torch/t215/eco/hf_gpt2_sharded", "model.safetensors.index.json");
}

void suite_salvage(void)
{
    UNIT(truncated_files_lose_only_truncated_tensors);
    UNIT(truncated_deflated_files_lose_only_truncated_tensors);
    UNIT(a_changed_byte_loses_only_the_tensors_of_its_storage);
    UNIT(composite_tensors_are_lost_completely);
    UNIT(the_central_directory_is_not_needed);
    UNIT(bytes_that_no_tensor_needs_lose_nothing);
    UNIT(most_fields_of_tar_headers_are_not_needed);
    UNIT(a_damaged_pickle_is_refused);
    UNIT(objects_lose_only_what_needs_a_lost_storage);
    UNIT(sets_with_a_truncated_or_missing_shard_are_salvaged);
}
