/* Salvage: files cut and changed everywhere. A tensor is lost exactly when the fault is
 * in its storage's bytes, and what is kept has the digest that it had. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/file.h"
#include "flat.h"
#include "format/format.h"
#include "pickled.h"
#include "unit.h"

static ckpt_status salvage(const char *path, source *src, ckpt_file **out, ckpt_error *err)
{
    return format_open(&(struct opening){.path = path, .src = src, .how = OPEN_SALVAGE}, out, err);
}

struct original {
    ckpt_file *f;
    unsigned char *bytes;
    size_t size;
    uint8_t *digests;
};

static void load(struct original *o, const char *below)
{
    FILE *in = fopen(unit_corpus(below), "rb");
    o->f = corpus_open(below);
    o->size = (size_t)ckpt_file_bytes(o->f);
    o->bytes = malloc(o->size);
    o->digests = calloc(ckpt_tensor_count(o->f), CKPT_DIGEST_MAX);
    CU_ASSERT(in && o->bytes && fread(o->bytes, 1, o->size, in) == o->size);
    if (in)
        fclose(in);
    CU_ASSERT_EQUAL(ckpt_file_locate(o->f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_tensors(o->f, CKPT_XXH3, NULL, o->digests, NULL), CKPT_OK);
}

static void unload(struct original *o)
{
    free(o->bytes);
    free(o->digests);
    flat_close();
}

/* kept_is_same - row ROW of F against the original's of that name. */
static bool kept_is_same(const struct original *o, ckpt_file *f, uint32_t row)
{
    uint8_t d[CKPT_DIGEST_MAX];
    uint32_t was = ckpt_tensor_find(o->f, ckpt_tensor_name(f, row));
    return was != CKPT_NO_TENSOR && ckpt_digest_tensor(f, row, CKPT_XXH3, d, NULL) == CKPT_OK &&
           memcmp(d, o->digests + (size_t)was * CKPT_DIGEST_MAX, 16) == 0;
}

/* touched - are bytes from AT (CUT: on, else that one) in the storage of row ROW? */
static bool touched(const struct original *o, uint32_t row, uint64_t at, bool cut)
{
    const ckpt_tensor it = tensor_at(o->f, row), *t = &it;
    const ckpt_storage of = storage_at(o->f, t->storage), *s = &of;
    uint64_t end = s->file_offset + s->nbytes;
    return t->has_data && s->nbytes && (cut ? end > at : at >= s->file_offset && at < end);
}

/* check - the fault at AT. The number of tensors lost, or -1: nothing could be had. */
static int check(const struct original *o, size_t size, uint64_t at, bool cut)
{
    ckpt_file *f = NULL;
    unsigned char *guarded = unit_guard(o->bytes, size);
    ckpt_status st = salvage("hurt.pt", source_mem(guarded, size, 0), &f, NULL);
    if (st != CKPT_OK) {
        unit_guard_free(guarded, size);
        return -1;
    }
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), ckpt_tensor_count(o->f));
    int lost = 0;
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        bool is = f->lost_row[i];
        lost += is;
        if (is != touched(o, i, at, cut)) {
            printf("byte %llu: tensor %u\n", (unsigned long long)at, i);
            CU_FAIL("lost, and not touched, or the other way round");
        }
        CU_ASSERT(is || !tensor_at(f, i).has_data || kept_is_same(o, f, i));
    }
    CU_ASSERT_EQUAL((size_t)lost, ckpt_lost_count(f));
    ckpt_close(f);
    unit_guard_free(guarded, size);
    return lost;
}

/* first_storage - nothing before it can be missed. */
static uint64_t first_storage(const struct original *o)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < ckpt_storage_count(o->f); i++)
        if (storage_at(o->f, i).nbytes && storage_at(o->f, i).file_offset < first)
            first = storage_at(o->f, i).file_offset;
    return first;
}

static void cut_everywhere(const char *below, size_t step)
{
    struct original o;
    load(&o, below);
    uint64_t first = first_storage(&o);
    for (size_t n = 0; n <= o.size; n += n + 40 < first ? 37 : step)
        CU_ASSERT(check(&o, n, n, true) >= 0 || n < first);
    CU_ASSERT_EQUAL(check(&o, o.size, o.size, true), 0);
    unload(&o);
}

static void every_length(void)
{
    cut_everywhere("torch/t26/state_dict.pt", 1);
    cut_everywhere("torch/t215/list_of_state_dicts.pt", 3);
    cut_everywhere("torch/t16/dp_state_dict.pt", 3);
    cut_everywhere("torch/t26/state_dict_legacy.pt", 1);
    cut_everywhere("torch/t10/state_dict.pt", 3);
    cut_everywhere("torch/legexp/t_tar.pt", 1);
    cut_everywhere("torch/legexp/t_tar_nosysinfo.pt", 1);
    cut_everywhere("torch/legexp/t_tar_strid.pt", 1);
}

/* Deflated records, cut everywhere: a tensor is there as soon as all of its bytes are. */
static void every_length_of_deflated(void)
{
    static const char *const files[] = {"torch/exp/06_deflate_all.pt", "torch/exp/32_infozip_r.pt"};
    for (size_t i = 0; i < 2; i++) {
        struct original o;
        zip *z = NULL;
        load(&o, files[i]);
        source *src = source_mem(o.bytes, o.size, 0);
        arena *a = arena_new(1 << 24);
        CU_ASSERT_EQUAL_FATAL(zip_open(src, a, &z, NULL), CKPT_OK);
        zip_locate_all(z);
        uint32_t most = 0;
        for (size_t n = 0; n <= o.size; n++) {
            ckpt_file *f = NULL;
            if (salvage("hurt.pt", source_mem(o.bytes, n, 0), &f, NULL) != CKPT_OK) {
                CU_ASSERT_EQUAL(most, 0);
                continue;
            }
            most = 0;
            for (uint32_t k = 0; k < ckpt_tensor_count(f); k++) {
                char name[40];
                snprintf(name, sizeof name, "archive/data/%u", k);
                const struct zip_entry *e = &z->entries[zip_find(z, str_c(name))];
                CU_ASSERT_EQUAL(f->lost_row[k], e->data + e->csize > n);
                CU_ASSERT(f->lost_row[k] || kept_is_same(&o, f, k));
                most += !f->lost_row[k];
            }
            ckpt_close(f);
        }
        zip_close(z);
        source_unref(src);
        arena_free(a);
        unload(&o);
    }
}

/* A byte of each storage changed: it is lost, nothing else; behind them, nothing is. */
static void every_storage(void)
{
    static const char *const files[] = {"torch/t26/state_dict.pt", "torch/t215/list_of_state_dicts.pt",
                                        "torch/t16/dp_state_dict.pt", "torch/t215/tied.pt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct original o;
        load(&o, files[i]);
        for (size_t at = (size_t)first_storage(&o); at < o.size; at += 3) {
            bool inside = false;
            for (uint32_t k = 0; k < ckpt_tensor_count(o.f); k++)
                inside = inside || touched(&o, k, at, false);
            o.bytes[at] ^= 0x10;
            if (inside)
                CU_ASSERT(check(&o, o.size, at, false) > 0);
            o.bytes[at] ^= 0x10;
        }
        unload(&o);
    }
}

/* A tensor made of tensors is lost with any of them, and takes them along; nothing else goes. */
static void parts_are_lost_with_their_whole(void)
{
    static const char *const files[] = {"torch/t26/sparse_coo.pt",
                                        "torch/t26/sparse_csr.pt",
                                        "torch/t26/nested_jagged.pt",
                                        "torch/t26/tensor_alone.pt",
                                        "torch/t26/quant_per_channel.pt",
                                        "torch/t26/wrapper_subclass_twotensor.pt",
                                        "torch/t26/meta.pt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct original o;
        load(&o, files[i]);
        CU_ASSERT_EQUAL(check(&o, o.size, o.size, true), 0);
        for (size_t at = (size_t)first_storage(&o); at < o.size; at += 5) {
            ckpt_file *f = NULL;
            o.bytes[at] ^= 0x10;
            CU_ASSERT_EQUAL(salvage("hurt.pt", source_mem(o.bytes, o.size, 0), &f, NULL), CKPT_OK);
            o.bytes[at] ^= 0x10;
            for (uint32_t k = 0; f && k < ckpt_tensor_count(f); k++) {
                uint32_t of = tensor_at(f, k).part_of;
                CU_ASSERT(of == CKPT_NO_TENSOR || f->lost_row[k] == f->lost_row[of]);
                CU_ASSERT(f->lost_row[k] || !touched(&o, k, at, false));
            }
            ckpt_close(f);
        }
        unload(&o);
    }
}

/* The directory is not needed: any byte of it may be wrong. */
static void every_byte_of_the_directory(void)
{
    struct original o;
    load(&o, "torch/t26/state_dict.pt");
    size_t at = o.size;
    while (at > 4 && memcmp(o.bytes + at - 4, "PK\1\2", 4) != 0)
        at--;
    while (at > 4 && memcmp(o.bytes + at - 4, "version", 4) != 0)
        at--;
    for (at = at > 4 ? at : 0; at < o.size; at++) {
        o.bytes[at] ^= 0x10;
        CU_ASSERT(check(&o, o.size, at, false) >= 0);
        o.bytes[at] ^= 0x10;
    }
    unload(&o);
}

/* needed - is byte AT in the payload of data.pkl or of a storage? */
static bool needed(zip *z, uint64_t at)
{
    for (size_t i = 0; i < z->n; i++) {
        const struct zip_entry *e = &z->entries[i];
        if (zip_locate_payload(z, i, NULL) == CKPT_OK && at >= e->data && at - e->data < e->csize &&
            (str_ends(e->name, STR_LIT(".pkl")) || str_ends(e->name, STR_LIT(".json")) ||
             str_find(e->name, STR_LIT("/data/"), 0) != SIZE_MAX ||
             str_find(e->name, STR_LIT("/tensors/"), 0) != SIZE_MAX))
            return true;
    }
    return false;
}

/* Nothing is lost, and nothing is other than it was, whatever byte is wrong of a header, a descriptor, the
 * padding, the directory, a record that no tensor needs. */
static void any_other_byte(const char *below, size_t step)
{
    static const unsigned char flips[] = {0x01, 0x10, 0x80, 0xff};
    struct original o;
    zip *z = NULL;
    load(&o, below);
    source *src = source_mem(o.bytes, o.size, 0);
    arena *a = arena_new(1 << 24);
    CU_ASSERT_EQUAL_FATAL(zip_open(src, a, &z, NULL), CKPT_OK);
    zip_locate_all(z);
    for (size_t at = 0, turn = 0; at < o.size; at += step)
        for (size_t i = 0; i < (step == 1 ? 4 : 1) && !needed(z, at); i++) {
            unsigned char flip = flips[(turn++ + i) % 4];
            o.bytes[at] ^= flip;
            int lost = check(&o, o.size, UINT64_MAX, false);
            if (lost)
                printf("\n    %s: byte %zu ^ %02x: %d lost", below, at, flip, lost);
            CU_ASSERT_EQUAL(lost, 0);
            o.bytes[at] ^= flip;
        }
    zip_close(z);
    source_unref(src);
    arena_free(a);
    unload(&o);
}

static void every_other_byte(void)
{
    any_other_byte("torch/t26/state_dict.pt", 1);
    any_other_byte("torch/t215/nocrc.pt", 1);
    any_other_byte("torch/exp/43_no_crc.pt", 1);
    any_other_byte("torch/exp/06_deflate_all.pt", 1);
    any_other_byte("torch/exp/32_infozip_r.pt", 3);
    any_other_byte("torch/exp/41_no_dd.pt", 3);
    any_other_byte("torch/exp/44_no_eocd64.pt", 3);
    any_other_byte("torch/t215/tied.pt", 5);
    any_other_byte("torch/t16/dp_state_dict.pt", 11);
    any_other_byte("torch/t10/torchscript_trace.pt", 11);
}

/* Headers of a tar: all but the name may be wrong. */
static void headers_of_a_tar(void)
{
    static const unsigned char flips[] = {0x01, 0x10, 0x80, 0xff};
    struct original o;
    load(&o, "torch/legexp/t_tar.pt");
    for (size_t header = 512; header + 512 <= o.size; header += 512)
        for (size_t i = 100; i < 345 && memcmp(o.bytes + header + 257, "ustar", 5) == 0; i++)
            for (size_t k = 0; k < 4 && i != 156; k++) {
                o.bytes[header + i] ^= flips[k];
                int lost = check(&o, o.size, UINT64_MAX, false);
                if (lost)
                    printf("\n    byte %zu ^ %02x: %d lost", header + i, flips[k], lost);
                CU_ASSERT_EQUAL(lost, 0);
                o.bytes[header + i] ^= flips[k];
            }
    unload(&o);
}

static void what_cannot_be_named(void)
{
    struct original o;
    ckpt_file *f = NULL;
    ckpt_error err;
    load(&o, "torch/t26/state_dict.pt");
    o.bytes[300] ^= 1; /* in data.pkl */
    CU_ASSERT_EQUAL(salvage("x.pt", source_mem(o.bytes, o.size, 0), &f, &err), CKPT_ECHECKSUM);
    CU_ASSERT(strstr(err.where, "data.pkl") != NULL &&
              strstr(err.hint, "nothing can be named; 12 other") != NULL);
    unload(&o);
}

/* ------------------------------------------------------------------ objects */

#define LOST STORAGE("Float", "1", 4)

/* hurt - M's record data/1 has another byte than its checksum knows. */
static void hurt(struct test_file *m)
{
    zip *z = NULL;
    source *src = source_mem(m->bytes, m->size, 0);
    arena *a = arena_new(1 << 24);
    CU_ASSERT_EQUAL_FATAL(zip_open(src, a, &z, NULL), CKPT_OK);
    int64_t i = zip_find(z, STR_LIT("archive/data/1"));
    CU_ASSERT_FATAL(i >= 0 && zip_locate_payload(z, (size_t)i, NULL) == CKPT_OK);
    m->bytes[z->entries[i].data] ^= 1;
    zip_close(z);
    source_unref(src);
    arena_free(a);
}

/* saves - of the pickle TEXT, of whose storages the second is lost, LOST names "a;b;" are lost, and what is
 * written holds the values KEPT and the tensors of ROWS. */
static void saves(const char *text, const char *lost, const char *rows, const char *kept)
{
    struct test_file m = make_torch_zip(text), back;
    char path[] = "/tmp/ckpt-unit-XXXXXX";
    buf got;
    ckpt_error err = {0};
    ckpt_file *f = NULL;
    ckpt_plan *p = NULL;
    int fd = mkstemp(path);
    buf_init(&got, 1 << 12);
    if (m.status != CKPT_OK)
        printf("\n    %s: %s", text, m.err.what);
    CU_ASSERT_FATAL(m.status == CKPT_OK && fd >= 0);
    hurt(&m);
    CU_ASSERT_EQUAL_FATAL(salvage("hurt.pt", source_mem(m.bytes, m.size, 0), &f, &err), CKPT_OK);
    for (size_t i = 0; i < ckpt_lost_count(f); i++) {
        const ckpt_lost *l = ckpt_lost_at(f, i);
        buf_printf(&got, "%s;", ckpt_tensor_name(f, l->row).ptr);
        CU_ASSERT(str_find(l->why, STR_LIT("have the checksum"), 0) != SIZE_MAX ||
                  str_is(l->why, "a part of it is lost"));
    }
    CU_ASSERT(str_is(buf_view(&got), lost));
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &p, &err), CKPT_OK);
    ckpt_write_options o = {.struct_size = sizeof o, .force = true, .no_sync = true};
    ckpt_status st = ckpt_plan_write(p, path, &o, NULL, &err);
    if (st != CKPT_OK)
        printf("\n    %s: %s", text, err.what);
    CU_ASSERT_EQUAL_FATAL(st, CKPT_OK);
    ckpt_plan_free(p);
    ckpt_close(f);
    close_file(&m);
    back = (struct test_file){.f = NULL};
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path, NULL, &back.f, &err), CKPT_OK);
    check_rows(&back, rows);
    got.len = 0;
    for (size_t i = 0; ckpt_leaf_at(back.f, i); i++) {
        char value[200];
        (void)ckpt_value_text(ckpt_leaf_at(back.f, i)->value, 8, value, sizeof value);
        buf_printf(&got, "%s;", value);
    }
    if (!str_is(buf_view(&got), kept))
        printf("\n    %s: %.*s", text, STR_ARG(buf_view(&got)));
    CU_ASSERT(str_is(buf_view(&got), kept));
    buf_free(&got);
    ckpt_close(back.f);
    close(fd);
    unlink(path);
}

#define SAVED "w dense float32[4]@0+0;"

/* What holds a lost storage and is no tensor goes, as small a part of the file as can go without it. */
static void objects_that_hold_what_is_lost(void)
{
    saves("{'w':" W ",'o':my.C(" LOST "),'n':5}", "o;", SAVED, "5;");
    saves("{'w':" W ",'l':[1,my.C(" LOST "),2]}", "l.1;", SAVED, "1;None;2;");
    saves("{'w':" W ",'t':(1,my.C((2,[" LOST "])))}", "t.1;", SAVED, "1;None;");
    /* an attribute of an object whose attributes are looked at, all of one of torch's own */
    saves("{'w':" W ",'o':new my.C()!{'a':1,'b':my.D(" LOST ")}}", "o.b;", SAVED, "C(a=1);1;");
    saves("{'w':" W ",'o':new torch.C()!{'a':1,'b':my.D(" LOST ")}}", "o;", SAVED, "");
    saves("{'w':" W ",'o':my.C()!(1,None," LOST ")}", "o;", SAVED, "");
    /* one that is there twice, a loop; what holds nothing of it stays */
    saves("{'w':" W ",'a':#1=my.C(" LOST "),'l':[#1]}", "a;l.0;", SAVED, "None;");
    saves("{'w':" W ",'a':#1=my.C(" LOST "),'b':{'c':#1},'d':my.C(" FLOATS ")}", "a;b.c;", SAVED,
          "{};C(<storage>);");
    saves("{'w':" W ",'o':#1~my.C(" LOST ")!{'me':#1},'n':#2~my.C()!{'me':#2}}", "o;", SAVED,
          "C(me=my.C);my.C;");
    /* the tensor of the storage is lost too, and an object with that tensor, which is looked into or not */
    saves("{'w':" W ",'v':#1=" V2(LOST, 0, "(4,)", "(1,)") ",'o':my.C(#1),'p':new my.C()!{'v':#1}}",
          "v;p.v;o;", SAVED, "C();");
}

/* ---------------------------------------------------------------------- sets */

static char folder[64]; /* links to the files of a set in the corpus */

static void link_to(const char *path)
{
    char from[700], to[600];
    char *real = realpath(path, NULL);
    snprintf(from, sizeof from, "%s", real ? real : "");
    free(real);
    snprintf(to, sizeof to, "%s%s", folder, strrchr(from, '/'));
    CU_ASSERT_EQUAL(symlink(from, to), 0);
}

/* first_bytes - SIZE of them, of the file FROM, are TO. */
static void first_bytes(const char *from, const char *to, uint64_t size)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CU_ASSERT_FATAL(in && out);
    for (int c; size && (c = getc(in)) != EOF; size--)
        putc(c, out);
    fclose(in);
    fclose(out);
}

/* without - a set of which the shard PART of WHOLE has its first SIZE bytes, or (MISSING) is not there. Lost
 * is what lay behind them, and all of the shard where nothing in it has a name. */
static void without(const struct original *whole, const ckpt_file *part, uint64_t size, bool missing)
{
    char path[600];
    ckpt_error err;
    ckpt_file *f = NULL;
    bool all = true, exact = true;
    ckpt_str name = str_after_last(str_c(part->path), '/');
    snprintf(path, sizeof path, "%s/%s", folder, name.ptr);
    CU_ASSERT_EQUAL(unlink(path), 0);
    if (!missing)
        first_bytes(part->path, path, size);
    CU_ASSERT_EQUAL_FATAL(ckpt_salvage(folder, NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), ckpt_tensor_count(whole->f));
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        uint32_t was = ckpt_tensor_find(whole->f, ckpt_tensor_name(f, i));
        CU_ASSERT_FATAL(was != CKPT_NO_TENSOR);
        ckpt_storage s = storage_at(whole->f, tensor_at(whole->f, was).storage);
        bool here = str_eq(s.file, name);
        all = all && f->lost_row[i] == here;
        exact = exact && f->lost_row[i] == (here && s.nbytes && s.file_offset + s.nbytes > size);
        CU_ASSERT(f->lost_row[i] || kept_is_same(whole, f, i));
    }
    for (size_t i = 0; i < ckpt_lost_count(f); i++)
        CU_ASSERT(str_eq(ckpt_lost_at(f, i)->shard, name) && ckpt_lost_at(f, i)->why.len);
    if (!all && !exact)
        printf("\n    %s at %llu", path, (unsigned long long)size);
    CU_ASSERT(all || (exact && !missing));
    ckpt_close(f);
    (void)unlink(path);
    link_to(part->path);
}

static void every_shard_of(const char *below, const char *index)
{
    char path[700];
    struct original o = {.f = corpus_open(below)};
    snprintf(folder, sizeof folder, "/tmp/ckpt-unit-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    o.digests = calloc(ckpt_tensor_count(o.f), CKPT_DIGEST_MAX);
    CU_ASSERT_EQUAL(ckpt_file_locate(o.f, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_digest_tensors(o.f, CKPT_XXH3, NULL, o.digests, NULL), CKPT_OK);
    for (size_t k = 0; k < o.f->nparts; k++)
        link_to(o.f->parts[k]->path);
    snprintf(path, sizeof path, "%s/%s", unit_corpus(below), index);
    link_to(path);
    for (size_t k = 0; k < o.f->nparts; k++) {
        without(&o, o.f->parts[k], 0, true);
        for (uint64_t n = 0; n <= o.f->parts[k]->nbytes; n += 97)
            without(&o, o.f->parts[k], n, false);
    }
    for (size_t k = 0; k <= o.f->nparts; k++) {
        const char *name = k < o.f->nparts ? strrchr(o.f->parts[k]->path, '/') + 1 : index;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        CU_ASSERT_EQUAL(unlink(path), 0);
    }
    CU_ASSERT_EQUAL(rmdir(folder), 0);
    unload(&o);
}

static void sets_without_a_shard_or_a_part_of_one(void)
{
    every_shard_of("torch/t215/eco/hub_bin_sharded", "pytorch_model.bin.index.json");
    every_shard_of("torch/t215/eco/hub_safetensors_sharded", "model.safetensors.index.json");
    every_shard_of("torch/t215/eco/hf_gpt2_sharded", "model.safetensors.index.json");
}

void suite_salvage(void)
{
    UNIT(every_length);
    UNIT(every_length_of_deflated);
    UNIT(every_storage);
    UNIT(parts_are_lost_with_their_whole);
    UNIT(every_byte_of_the_directory);
    UNIT(every_other_byte);
    UNIT(headers_of_a_tar);
    UNIT(what_cannot_be_named);
    UNIT(objects_that_hold_what_is_lost);
    UNIT(sets_without_a_shard_or_a_part_of_one);
}
