/* npz.c - reads numpy's .npz: a zip archive with a member KEY.npy for each array (codec/npy.h). A key may be
 * any text, even empty or with slashes. numpy.load also reads a member without that suffix as an array if it
 * begins as one, and any other member as bytes.
 *
 * An array of objects is listed without data. Refused: two members of one key, a member KEY.npy that is not
 * an array, encryption, members that unpack to more than file_max_unpacked allows. Other members that are not
 * arrays are reported. */
#include <inttypes.h>

#include "base/text.h"
#include "codec/zip_lzma.h"
#include "core/check.h"
#include "format/numpy/numpy.h"
#include "format/numpy/skops.h"

#define SUFFIX STR_LIT(".npy")

/* Members that are not read as tensors, and the names of skops for those that are. */
struct members {
    size_t others, objects;
    struct skops skops;
};

static bool probe(const struct probe *this_probe)
{
    if (!this_probe->zip)
        return false;
    bool found = !this_probe->salvage &&
                 zip_has_signature(this_probe->src, 0, ZIP_END); /* what numpy writes for no arrays */
    if (!found && !zip_has_signature(this_probe->src, 0, ZIP_LOCAL))
        return false;
    for (size_t i = 0; i < this_probe->zip->n && !found; i++)
        found = str_ends(this_probe->zip->entries[i].name, SUFFIX);
    return found;
}

static ckpt_status check_expansion(const ckpt_file *f, const zip *archive, ckpt_error *err)
{
    uint64_t packed = 0, total = 0;
    for (size_t i = 0; i < archive->n; i++)
        if (archive->entries[i].method != ZIP_STORED) {
            packed += archive->entries[i].csize;
            total = checked_add(total, archive->entries[i].usize, &total) ? total : UINT64_MAX;
        }
    uint64_t max = file_max_unpacked(f, packed);
    if (total <= max)
        return CKPT_OK;
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                "its members unpack to {%" PRIu64 " bytes} from %" PRIu64 "; the limit is {=%" PRIu64 "}\n"
                "raise it with --max-expanded (max_expanded in ckpt_limits)",
                total, packed, max);
}

/* set_crc - sets *CRC to the CRC-32 of the bytes of TENSOR. CRC-32 is linear, so it can be calculated from
 * the CRC-32 of the member, which ENTRY has, and that of the header before the elements. */
static ckpt_status set_crc(source *member, const struct zip_entry *entry, struct kit_tensor *tensor,
                           uint32_t *crc, ckpt_error *err)
{
    uint32_t of_header = 0;
    CKPT_TRY(source_crc(member, 0, tensor->src_offset, CRC_32, &of_header, err));
    *crc = crc_combine(CRC_32, of_header, 0, tensor->nbytes) ^ entry->crc;
    tensor->crc = crc;
    return CKPT_OK;
}

/* check_key_free - refuses a member ENTRY that is not an array if there is an array with that key, because
 * numpy.load then returns the bytes of ENTRY. */
static ckpt_status check_key_free(struct kit *kit, const zip *archive, const struct zip_entry *entry)
{
    ckpt_str name = ARENA_CONCAT(kit->f->a, entry->name, STR_LIT(".npy"));
    CKPT_TRY_ALLOC(name.ptr, kit->err);
    if (zip_find(archive, name) < 0)
        return CKPT_OK;
    return fail(kit->err, CKPT_EFORMAT, entry->header_offset,
                "two members have the key {\"%.*s\"}, {=one} can have it", STR_ARG(entry->name));
}

/* add_each_name - adds TENSOR, the array in member FILE, under each of its names of skops. Those of one
 * object share its storage. */
static ckpt_status add_each_name(struct kit *kit, struct kit_tensor *tensor, const struct skops *skops,
                                 ckpt_str file)
{
    const ckpt_str key = tensor->key;
    uint32_t i = skops_find_name(skops, file);
    if (i == MAP_NONE)
        return kit_add_tensor(kit, tensor);
    for (; i != MAP_NONE; i = skops->names[i].next) {
        tensor->name = skops->names[i].text;
        tensor->key = skops->names[i].is_first_object ? key : str_of("", 0);
        CKPT_TRY(kit_add_tensor(kit, tensor));
    }
    return CKPT_OK;
}

/* add_objects - adds TENSOR, an array of objects in member FILE, without its elements; in salvage it is
 * lost. */
static ckpt_status add_objects(struct kit *kit, struct kit_tensor *tensor, const struct skops *skops,
                               ckpt_str file)
{
    const ckpt_error why = *kit->err;
    tensor->src = NULL;
    tensor->nbytes = 0;
    tensor->lost = kit->f->salvage ? &why : NULL;
    tensor->t.kind = CKPT_OPAQUE;
    tensor->t.note = STR_LIT("Python objects: a pickle, which numpy would run");
    return add_each_name(kit, tensor, skops, file);
}

/* add_member - adds entry INDEX of ARCHIVE, opened as MEMBER, if it is an array; else counts it in
 * MEMBERS. */
static ckpt_status add_member(struct kit *kit, zip *archive, size_t index, source *member,
                              struct members *members)
{
    struct zip_entry *e = &archive->entries[index];
    struct kit_tensor t;
    ckpt_str key = e->name;
    uint64_t end;
    uint32_t crc;
    char bytes[NPY_MAGIC_SIZE], found[TEXT_BYTES_SIZE];
    ckpt_str magic = str_of(bytes, member->size < sizeof bytes ? (size_t)member->size : sizeof bytes);
    CKPT_TRY(source_read(member, 0, bytes, magic.len, kit->err));
    bool has_suffix = str_ends(key, SUFFIX), is_array = str_eq(magic, STR_LIT(NPY_MAGIC));
    if (!has_suffix && !is_array) {
        members->others++;
        return check_key_free(kit, archive, e);
    }
    if (!is_array)
        return fail(kit->err, CKPT_EFORMAT, e->header_offset,
                    "it begins with {%s}; a numpy array begins with {=934e554d5059}",
                    magic.len ? text_describe_bytes(magic.ptr, magic.len, found) : "nothing");
    key.len -= has_suffix ? SUFFIX.len : 0;
    ckpt_status st = numpy_describe(kit->f, member, 0, &t, &end, kit->err);
    t.name = key;
    if (st == CKPT_EUNSUPPORTED) {
        members->objects++;
        return add_objects(kit, &t, &members->skops, e->name);
    }
    CKPT_TRY(st);
    if (end > member->size) /* the kit refuses it, or in salvage adds it as lost */
        return add_each_name(kit, &t, &members->skops, e->name);
    t.key = e->name;
    t.nbytes = member->size - t.src_offset;
    if (end < member->size)
        file_notice(kit->f, "%.*s: %" PRIu64 " bytes after the array are ignored", STR_ARG(e->name),
                    member->size - end);
    if (!archive->crc_none && !e->crc_unknown)
        CKPT_TRY(set_crc(member, e, &t, &crc, kit->err));
    return add_each_name(kit, &t, &members->skops, e->name);
}

static ckpt_status open_member(zip *archive, size_t index, source **out, ckpt_error *err)
{
    const struct zip_entry *e = &archive->entries[index];
    bool lzma = e->method == ZIP_LZMA && !e->fault && !(e->flags & ZIP_FLAGS_ENCRYPTED);
    return lzma ? zip_lzma_open_member(archive, index, out, err) : zip_open_member(archive, index, out, err);
}

/* add_faulty - handles ST, the failure to read entry ENTRY: a member KEY.npy was an array, others may have
 * been. */
static ckpt_status add_faulty(struct kit *kit, const struct zip_entry *entry, ckpt_status st)
{
    struct kit_tensor t = {.name = entry->name, .described_at = entry->header_offset, .has_no_shape = true};
    if (!str_ends(entry->name, SUFFIX)) {
        error_add_position(kit->err, entry->header_offset, entry->name);
        return file_report_lost(kit->f, st, entry->name, kit->err);
    }
    t.name.len -= SUFFIX.len;
    error_add_position(kit->err, entry->header_offset, entry->name);
    return kit_add_faulty(kit, &t, st);
}

/* check_name - in salvage, fails if the headers of entry INDEX of ARCHIVE have two names of arrays: nothing
 * shows which one is right. A name that is no array's is not: it is noted, and *SKIP is set. */
static ckpt_status check_name(struct kit *kit, const zip *archive, size_t index, bool *skip)
{
    const struct zip_entry *e = &archive->entries[index];
    *skip = e->other_name && !str_ends(e->name, SUFFIX);
    if (*skip)
        file_note_loss(kit->f,
                       "the name of a member is \"%.*s\" in one of its headers and \"%.*s\" in the other",
                       STR_ARG(e->name), STR_ARG(*e->other_name));
    if (!e->other_name || *skip || !str_ends(*e->other_name, SUFFIX))
        return CKPT_OK;
    return fail(kit->err, CKPT_EFORMAT, e->header_offset,
                "{its other header has the name \"%.*s\"}, {=both must have the same}",
                STR_ARG(*e->other_name));
}

/* read_members - adds each array of ARCHIVE. A faulty one is reported in `verify` and lost in salvage. */
static ckpt_status read_members(struct kit *kit, zip *archive, struct members *members)
{
    for (size_t i = 0; i < archive->n; i++) {
        source *member = NULL;
        bool skip;
        ckpt_status st = check_name(kit, archive, i, &skip);
        if (skip || (members->skops.is_skops && str_is(archive->entries[i].name, SKOPS_SCHEMA)))
            continue;
        CKPT_THEN(st, open_member(archive, i, &member, kit->err));
        CKPT_THEN(st, add_member(kit, archive, i, member, members));
        source_unref(member);
        if (st != CKPT_OK)
            CKPT_TRY(add_faulty(kit, &archive->entries[i], st));
    }
    if (archive->without_directory)
        file_note_loss(kit->f,
                       "the central directory is lost: there may have been more arrays than were found");
    if (members->others)
        file_notice(kit->f, "%zu member%s no array%s: left out", members->others,
                    members->others == 1 ? " is" : "s are", members->others == 1 ? "" : "s");
    if (members->objects)
        file_notice(kit->f,
                    "%zu array%s of Python objects, whose elements are not read: "
                    "`ckpt scan` shows them",
                    members->objects, members->objects == 1 ? "" : "s");
    return CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct kit k;
    zip *z = f->container;
    z->allows_other_methods = true;
    file_raise_budget(f, z->n * 64); /* each takes more than 64 bytes of the file */
    CKPT_TRY(check_expansion(f, z, err));
    struct members members = {.others = 0};
    ckpt_status st = skops_read(&members.skops, f, z, err);
    f->producer = members.skops.is_skops ? STR_LIT("skops") : STR_LIT("numpy.savez");
    CKPT_THEN(st, kit_begin(&k, f, value_new(f->a, CKPT_V_DICT, 0), err));
    CKPT_THEN(st, kit_end(&k, read_members(&k, z, &members)));
    skops_free(&members.skops);
    return st;
}

const struct format format_npz = {.name = "npz",
                                  .title = "numpy archive",
                                  .suffixes = ".npz",
                                  .compresses = true,
                                  .flat = true,
                                  .names_are_keys = true,
                                  .holds_dtype = numpy_has_dtype,
                                  .probe = probe,
                                  .read = read,
                                  .write = npz_write};
