/*
 * zip.c - reads the archives of torch.save since 1.6, and the opt-in form of 1.4 and 1.5.
 *
 *   <top>/data.pkl                one pickle; protocol 2 unless the caller chose another
 *   <top>/.format_version         "1", from 2.7 on
 *   <top>/.storage_alignment      "64", from 2.7 on
 *   <top>/byteorder               "little" or "big", from 2.1 on
 *   <top>/data/<key>              one storage each; 1.4: tensors/<key>
 *   <top>/version                 "3\n"
 *   <top>/.data/serialization_id  40 digits, from 2.1 on
 *
 * <top> is the name of the file when it was saved, or "archive". Source:
 * torch/serialization.py _save, caffe2/serialize/inline_container.cc.
 *
 * torch.load requires that all records are in the folder of the first one, and that the version is 1 to 10.
 * Archives that were unpacked and packed again often violate this although the checkpoint is intact. They are
 * read here, and `info` shows why torch.load refuses them.
 */
#include "format/torch/zip.h"

#include "format/graph/placements.h"
#include "format/salvage.h"
#include "format/torch/archive.h"

static bool probe_zip(const struct probe *probe)
{
    ckpt_str top;
    bool ambiguous;
    return probe->zip && (torch_archive_find_top(probe->zip, &top, &ambiguous) ||
                          torch_archive_lacks_pickle(probe->zip, &top));
}

/* check_version - if the version of the archive is not 1 to 10, notes that torch refuses it. */
static ckpt_status check_version(struct torch_archive *ta, ckpt_error *err)
{
    ckpt_str s;
    const char *name = torch_archive_has(ta, ".data/version") ? ".data/version" : "version";
    if (!torch_archive_has(ta, name)) {
        torch_archive_note_refusal(ta, STR_LIT("there is no record \"version\""));
        return CKPT_OK;
    }
    CKPT_TRY(torch_archive_read_text(ta, name, 64, &s, err));
    uint32_t version = 0;
    size_t i = 0;
    for (; s.ptr && i < s.len && i < 4 && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++)
        version = version * 10 + (uint32_t)(s.ptr[i] - '0');
    if (i == 0)
        torch_archive_note_refusal(ta, STR_LIT("the record \"version\" does not hold a number"));
    else if (version < 1 || version > 10)
        torch_archive_note_refusal(
            ta, arena_printf(ta->f->a, "the record \"version\" holds %u, torch reads 1 to 10", version));
    return CKPT_OK;
}

#define TORCH_END_SEARCH_BYTES 65536u /* how many last bytes torch's miniz searches for the end record */

/* check_layout - notes that torch refuses the archive if torch does not expect the name of a record, or bytes
 * before or after the archive. Also adds a notice if the archive is big-endian. */
static void check_layout(struct torch_archive *ta)
{
    if (ta->z->prefix_size)
        torch_archive_note_refusal(ta, arena_printf(ta->f->a, "the archive begins at byte %llu of the file",
                                                    (unsigned long long)ta->z->prefix_size));
    if (ta->top.len == 0)
        torch_archive_note_refusal(ta, STR_LIT("the records are not in a folder"));
    else if (str_find(ta->top, STR_LIT("/"), 0) + 1 != ta->top.len)
        torch_archive_note_refusal(ta, STR_LIT("the records are more than one folder deep"));
    if (strcmp(ta->storage_folder, "tensors/") == 0)
        torch_archive_note_refusal(ta, STR_LIT("the storages are in tensors/, as only torch 1.4 put them"));
    if (ta->z->src->size - ta->z->archive_end > TORCH_END_SEARCH_BYTES)
        torch_archive_note_refusal(ta, STR_LIT("more than 64 KiB follow the archive"));
    for (size_t i = 0; ta->top.len && i < ta->z->n; i++)
        if (!str_starts(ta->z->entries[i].name, ta->top)) {
            torch_archive_note_refusal(ta, ARENA_CONCAT(ta->f->a, STR_LIT("\""), ta->z->entries[i].name,
                                                        STR_LIT("\" is outside the folder "), ta->top));
            break;
        }
    if (torch_archive_has(ta, "constants.pkl"))
        torch_archive_note_refusal(
            ta, STR_LIT("a record called constants.pkl makes torch take it for TorchScript"));
    if (!torch_archive_has(ta, "byteorder") || !ta->big_endian)
        return;
    file_notice(ta->f, "saved on a big-endian machine; torch before 2.1 would misread every number");
}

/* has_pointer_keys - returns true if the keys of storages are addresses in memory, which have many digits. */
static bool has_pointer_keys(const struct torch_archive *ta)
{
    const ckpt_file *f = ta->f;
    return f->table.nstorages && f->table.storages[0].key.len >= 8;
}

/* is_pickle_save - returns true if a pickle of F calls a function that only LibTorch's pickler uses. */
static bool is_pickle_save(const ckpt_file *f)
{
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->nglobals; k++)
            if (str_is(value_module(f->pickles[i]->globals[k]), "torch.jit._pickle"))
                return true;
    return false;
}

/* guess_producer - sets the producer to the versions of torch that write these records; leaves it unset if
 * torch did not write the archive. */
static void guess_producer(struct torch_archive *ta, const struct zip_entry *pickle)
{
    ckpt_str *out = &ta->f->producer;
    if (!(pickle->flags & ZIP_FLAG_DESCRIPTOR) || pickle->method != ZIP_STORED)
        return;
    if (is_pickle_save(ta->f))
        *out = STR_LIT("torch::pickle_save of a C++ program");
    else if (strcmp(ta->storage_folder, "tensors/") == 0)
        *out = STR_LIT("torch 1.4");
    else if (torch_archive_has(ta, ".format_version"))
        *out = STR_LIT("torch >= 2.7");
    else if (torch_archive_has(ta, ".data/serialization_id"))
        *out = STR_LIT("torch 2.1 to 2.6");
    else if (str_ends(ta->z->entries[0].name, STR_LIT("/version")))
        *out = STR_LIT("torch 1.5");
    else if (has_pointer_keys(ta))
        *out = STR_LIT("torch 1.6 to 1.8");
    else if (str_is(ta->top, "archive/"))
        *out = STR_LIT("torch 1.9 to 2.0");
    else
        *out = STR_LIT("torch 1.13 to 2.0");
}

static ckpt_status fail_two_checkpoints(const zip *archive, ckpt_error *err)
{
    ckpt_status st = fail(
        err, CKPT_EFORMAT, source_pos(archive->src, archive->entries[0].header_offset),
        "the folder of the first entry has {no} {=\"data.pkl\"}, but several other folders have one\n"
        "leave one of them in a copy: zip -d COPY 'FOLDER/*' removes another");
    return prefix_where_if_failed(st, archive->entries[0].name, err);
}

/* fail_no_pickle - fails because the record is missing that describes the others: model.json in TorchScript
 * of torch 1.0 to 1.3, data.pkl in all other archives. */
static ckpt_status fail_no_pickle(struct torch_archive *ta, ckpt_error *err)
{
    bool is_json = torch_has_folder(ta->z, ta->top, "tensors/") && torch_has_folder(ta->z, ta->top, "code/");
    ckpt_status st = fail(err, CKPT_EFORMAT, source_pos(ta->z->src, ta->z->directory_at),
                          "{=the record \"%s\"}, which describes the others, is {missing}\n"
                          "the archive is damaged: get the file again",
                          is_json ? "model.json" : "data.pkl");
    if (ta->f->salvage)
        salvage_hint_raw_bytes(ta->z, err);
    return prefix_where_if_failed(st, ta->top.len ? ta->top : STR_LIT("the archive"), err);
}

static ckpt_status read_zip(ckpt_file *f, ckpt_error *err)
{
    ckpt_str top = {0};
    bool ambiguous, lacks_pickle = torch_archive_lacks_pickle(f->opening->probe->zip, &top);
    struct torch_archive *ta;
    if (lacks_pickle) {
        CKPT_TRY(torch_archive_new(f, top, &ta, err));
        return fail_no_pickle(ta, err);
    }
    (void)torch_archive_find_top(f->opening->probe->zip, &top, &ambiguous);
    if (ambiguous)
        return fail_two_checkpoints(f->opening->probe->zip, err);
    f->loading.by = "torch.load";
    CKPT_TRY(torch_archive_new(f, top, &ta, err));
    CKPT_TRY(torch_archive_read_byteorder(ta, err));
    CKPT_TRY(check_version(ta, err));
    check_layout(ta);
    size_t pickle;
    CKPT_TRY(torch_archive_require(ta, "data.pkl", &pickle, err));
    CKPT_TRY(torch_archive_run_pickle(ta, pickle, &f->root, err));
    arena_trim(f->a); /* rows and storages, which come next, are not in it */
    struct graph_input input = torch_archive_get_graph_input(ta);
    CKPT_TRY(graph_walk(f, f->root, &input, err));
    torch_note_missing_ranks(f);
    torch_archive_count_unused(ta);
    guess_producer(ta, &ta->z->entries[pickle]);
    return CKPT_OK;
}

const struct format format_torch_zip = {
    .name = "torch-zip",
    .title = "torch zip",
    .suffixes = ".pt .pth .pth.tar .bin .ckpt .pkl .model .th",
    .probe = probe_zip,
    .read = read_zip,
    .write = torch_zip_write,
    .in_place = torch_zip_in_place,
    .undoes = torch_zip_undoes,
};
