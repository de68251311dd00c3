/*
 * keras.c - reads what Keras 3 saves as NAME.keras: a zip archive, or a folder, of
 *
 *   metadata.json      {"keras_version": "3.15.1", "date_saved": …}
 *   config.json        the layers
 *   model.weights.h5   the tensors, which hdf5.c reads
 *   model.weights.npz  instead of the .h5, if saved to an npz: pickled dicts, which are refused
 *   assets/            files of layers
 *
 * The two JSON files are values under their names. Keras does not compress the members; a deflated member is
 * unpacked into memory or a temporary file, within the limit of --max-expanded.
 */
#include <stdlib.h>

#include "codec/json_scan.h"
#include "core/check.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/keras/keras.h"
#include "format/parts/part_files.h"
#include "io/spool.h"

#define WEIGHTS STR_LIT("model.weights.h5")
#define NPZ     STR_LIT("model.weights.npz")

static bool probe(const struct probe *p)
{
    if (p->is_folder)
        return probe_has(p, "metadata.json") && probe_has(p, "config.json") &&
               probe_has(p, "model.weights.h5");
    return p->zip && zip_find(p->zip, STR_LIT("config.json")) >= 0 &&
           (zip_find(p->zip, WEIGHTS) >= 0 || zip_find(p->zip, NPZ) >= 0);
}

/* set_producer - sets the producer of F to the version of Keras in METADATA, the text of metadata.json. */
static void set_producer(ckpt_file *f, ckpt_str metadata)
{
    ckpt_value *all;
    ckpt_str version;
    ckpt_error ignored; /* without its metadata, the version of Keras is not known */
    if (json_read_value(metadata, 0, f->a, &all, &ignored) == CKPT_OK && all->type == CKPT_V_DICT &&
        value_text(value_get(all, "keras_version"), &version))
        f->producer = ARENA_CONCAT(f->a, STR_LIT("Keras "), version);
}

static ckpt_status add_text_value(struct kit *k, const char *name, ckpt_str text)
{
    if (strcmp(name, "metadata.json") == 0)
        set_producer(k->f, text);
    return kit_add_value(k, str_c(name), value_str(k->f->a, text));
}

static ckpt_status add_member(struct kit *k, zip *z, const char *name)
{
    int64_t i = zip_find(z, str_c(name));
    ckpt_str text;
    if (i < 0)
        return CKPT_OK;
    ckpt_status st = zip_load_member(z, (size_t)i, k->f->limits.max_header, &text, k->err);
    if (st == CKPT_OK)
        return add_text_value(k, name, text);
    error_add_position(k->err, z->entries[i].header_offset, str_c(name));
    return file_report_lost(k->f, st, str_c(name), k->err);
}

/* unpack - replaces *MEMBER, which inflates entry E while it is read, by a source of the inflated bytes. */
static ckpt_status unpack(ckpt_file *f, const struct zip_entry *e, source **member, ckpt_error *err)
{
    uint64_t max_size = file_max_unpacked(f, e->csize);
    uint32_t crc = 0;
    if (e->usize > max_size)
        return fail(err, CKPT_ELIMIT, e->header_offset,
                    "unpacks to {%llu bytes}; the limit is {=%llu}\n"
                    "raise it with --max-expanded (max_expanded in ckpt_limits)",
                    (unsigned long long)e->usize, (unsigned long long)max_size);
    spool *to = spool_new(e->usize);
    CKPT_TRY_ALLOC(to, err);
    ckpt_status st = spool_copy(to, *member, 0, (*member)->size, err);
    source *unpacked = spool_source(to);
    source_unref(*member);
    *member = unpacked;
    if (st == CKPT_OK)
        st = source_crc(unpacked, 0, unpacked->size, CRC_32, &crc, err);
    if (st == CKPT_OK && crc != e->crc && !e->crc_unknown)
        st = fail(err, CKPT_ECHECKSUM, e->header_offset,
                  "its bytes have the CRC-32 {%08x}, the archive records {=%08x}", crc, e->crc);
    return st;
}

static ckpt_status read_weights(struct kit *k, zip *z, size_t i)
{
    source *member = NULL;
    ckpt_status st = zip_open_member(z, i, &member, k->err);
    if (st == CKPT_OK)
        st = source_locate(member, k->err);
    if (st == CKPT_OK && z->entries[i].method != ZIP_STORED)
        st = unpack(k->f, &z->entries[i], &member, k->err);
    if (st == CKPT_OK)
        st = keras_read_hdf5(k, member);
    if (st == CKPT_OK && z->entries[i].method == ZIP_STORED)
        table_check_first(&k->f->table, member);
    source_unref(member);
    if (st != CKPT_OK)
        error_add_position(k->err, z->entries[i].header_offset, z->entries[i].name);
    return file_report_fault(k->f, st, k->err);
}

static ckpt_status read_archive(struct kit *k, zip *z)
{
    int64_t weights = zip_find(z, WEIGHTS);
    if (weights < 0)
        return fail(k->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "its weights are {model.weights.npz}: dicts in pickles, which Keras would run; "
                    "{=model.weights.h5} is read\n"
                    "save the model again with Keras' own store: model.save(\"NAME.keras\")");
    k->f->whole_checksum = z->entries[weights].crc != 0 && !z->entries[weights].crc_unknown;
    CKPT_TRY(add_member(k, z, "metadata.json"));
    CKPT_TRY(add_member(k, z, "config.json"));
    return read_weights(k, z, (size_t)weights);
}

static ckpt_status open_file_of_folder(struct kit *k, const char *name, source **out)
{
    ckpt_file *f = k->f;
    struct journal_note note;
    char *path = path_make(str_c(f->path), str_c(name));
    CKPT_TRY_ALLOC(path, k->err);
    ckpt_status st = part_file_open(f, path, &note, out, k->err);
    if (st != CKPT_OK)
        error_add_file(k->err, path);
    free(path);
    return st;
}

static ckpt_status add_file(struct kit *k, const char *name)
{
    source *src;
    ckpt_str text;
    CKPT_TRY(open_file_of_folder(k, name, &src));
    ckpt_status st = kit_read_metadata(k->f, src, 0, src->size, &text, k->err);
    source_unref(src);
    if (st == CKPT_OK)
        return add_text_value(k, name, text);
    error_add_position(k->err, 0, str_c(name));
    return st;
}

static ckpt_status read_folder(struct kit *k)
{
    source *src;
    CKPT_TRY(add_file(k, "metadata.json"));
    CKPT_TRY(add_file(k, "config.json"));
    CKPT_TRY(open_file_of_folder(k, "model.weights.h5", &src));
    file_raise_budget(k->f, src->size);
    k->f->nbytes = src->size;
    ckpt_status st = keras_read_hdf5(k, src);
    if (st == CKPT_OK)
        st = source_check_unchanged(src, k->err);
    else
        error_add_position(k->err, 0, WEIGHTS);
    source_unref(src);
    return st;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct kit k;
    if (f->src)
        file_raise_budget(f, f->src->size);
    CKPT_TRY(kit_begin(&k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    return kit_end(&k, f->src ? read_archive(&k, f->container) : read_folder(&k));
}

const struct format format_keras = {
    .name = "keras", .title = "Keras archive", .flat = true, .probe = probe, .read = read};
