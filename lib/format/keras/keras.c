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

static bool probe(const struct probe *this_probe)
{
    if (this_probe->is_folder)
        return probe_has(this_probe, "metadata.json") && probe_has(this_probe, "config.json") &&
               probe_has(this_probe, "model.weights.h5");
    return this_probe->zip && zip_find(this_probe->zip, STR_LIT("config.json")) >= 0 &&
           (zip_find(this_probe->zip, WEIGHTS) >= 0 || zip_find(this_probe->zip, NPZ) >= 0);
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

static ckpt_status add_text_value(struct kit *kit, const char *name, ckpt_str text)
{
    if (strcmp(name, "metadata.json") == 0)
        set_producer(kit->f, text);
    return kit_add_value(kit, str_c(name), value_str(kit->f->a, text));
}

static ckpt_status add_member(struct kit *kit, zip *archive, const char *name)
{
    int64_t i = zip_find(archive, str_c(name));
    ckpt_str text;
    if (i < 0)
        return CKPT_OK;
    ckpt_status st = zip_load_member(archive, (size_t)i, kit->f->limits.max_header, &text, kit->err);
    if (st == CKPT_OK)
        return add_text_value(kit, name, text);
    error_add_position(kit->err, archive->entries[i].header_offset, str_c(name));
    return file_report_lost(kit->f, st, str_c(name), kit->err);
}

/* unpack - replaces *MEMBER, which inflates entry ENTRY while it is read, by a source of the inflated
 * bytes. */
static ckpt_status unpack(ckpt_file *f, const struct zip_entry *entry, source **member, ckpt_error *err)
{
    uint64_t max_size = file_max_unpacked(f, entry->csize);
    uint32_t crc = 0;
    if (entry->usize > max_size)
        return fail(err, CKPT_ELIMIT, entry->header_offset,
                    "unpacks to {%llu bytes}; the limit is {=%llu}\n"
                    "raise it with --max-expanded (max_expanded in ckpt_limits)",
                    (unsigned long long)entry->usize, (unsigned long long)max_size);
    spool *to = spool_new(entry->usize);
    CKPT_TRY_ALLOC(to, err);
    ckpt_status st = spool_copy(to, *member, 0, (*member)->size, err);
    source *unpacked = spool_source(to);
    source_unref(*member);
    *member = unpacked;
    CKPT_THEN(st, source_crc(unpacked, 0, unpacked->size, CRC_32, &crc, err));
    if (st == CKPT_OK && crc != entry->crc && !entry->crc_unknown)
        st = fail(err, CKPT_ECHECKSUM, entry->header_offset,
                  "its bytes have the CRC-32 {%08x}, the archive records {=%08x}", crc, entry->crc);
    return st;
}

static ckpt_status read_weights(struct kit *kit, zip *archive, size_t index)
{
    source *member = NULL;
    ckpt_status st = zip_open_member(archive, index, &member, kit->err);
    CKPT_THEN(st, source_locate(member, kit->err));
    if (st == CKPT_OK && archive->entries[index].method != ZIP_STORED)
        st = unpack(kit->f, &archive->entries[index], &member, kit->err);
    CKPT_THEN(st, keras_read_hdf5(kit, member));
    if (st == CKPT_OK && archive->entries[index].method == ZIP_STORED)
        table_check_first(&kit->f->table, member);
    source_unref(member);
    if (st != CKPT_OK)
        error_add_position(kit->err, archive->entries[index].header_offset, archive->entries[index].name);
    return file_report_fault(kit->f, st, kit->err);
}

static ckpt_status read_archive(struct kit *kit, zip *archive)
{
    int64_t weights = zip_find(archive, WEIGHTS);
    if (weights < 0)
        return fail(kit->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "its weights are {model.weights.npz}: dicts in pickles, which Keras would run; "
                    "{=model.weights.h5} is read\n"
                    "save the model again with Keras' own store: model.save(\"NAME.keras\")");
    kit->f->whole_checksum = archive->entries[weights].crc != 0 && !archive->entries[weights].crc_unknown;
    CKPT_TRY(add_member(kit, archive, "metadata.json"));
    CKPT_TRY(add_member(kit, archive, "config.json"));
    return read_weights(kit, archive, (size_t)weights);
}

static ckpt_status open_file_of_folder(struct kit *kit, const char *name, source **out)
{
    ckpt_file *f = kit->f;
    struct journal_note note;
    char *path = path_make(str_c(f->path), str_c(name));
    CKPT_TRY_ALLOC(path, kit->err);
    ckpt_status st = part_file_open(f, path, &note, out, kit->err);
    if (st != CKPT_OK)
        error_add_file(kit->err, path);
    free(path);
    return st;
}

static ckpt_status add_file(struct kit *kit, const char *name)
{
    source *src;
    ckpt_str text;
    CKPT_TRY(open_file_of_folder(kit, name, &src));
    ckpt_status st = kit_read_metadata(kit->f, src, 0, src->size, &text, kit->err);
    source_unref(src);
    if (st == CKPT_OK)
        return add_text_value(kit, name, text);
    error_add_position(kit->err, 0, str_c(name));
    return st;
}

static ckpt_status read_folder(struct kit *kit)
{
    source *src;
    CKPT_TRY(add_file(kit, "metadata.json"));
    CKPT_TRY(add_file(kit, "config.json"));
    CKPT_TRY(open_file_of_folder(kit, "model.weights.h5", &src));
    file_raise_budget(kit->f, src->size);
    kit->f->nbytes = src->size;
    ckpt_status st = keras_read_hdf5(kit, src);
    if (st == CKPT_OK)
        st = source_check_unchanged(src, kit->err);
    else
        error_add_position(kit->err, 0, WEIGHTS);
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
