/* damage.c - diagnoses for `ckpt doctor`: what a file is if it is not a checkpoint, where a truncated file
 * ends, and the other findings of verifying. */
#include <stdio.h>

#include "base/text.h"
#include "doctor/doctor.h"
#include "format/files/checkpoint_names.h"
#include "format/foreign.h"
#include "format/safetensors/safetensors.h"
#include "format/unpack.h"

#define PACKED_HEAD 65536u /* bytes of a compressed file that are unpacked to recognize it */

static const ckpt_fix salvage = {.action = CKPT_FIX_SALVAGE}, convert = {.action = CKPT_FIX_CONVERT};

static const struct signature *recognize_file(const struct doctor *doctor)
{
    ckpt_error ignored;
    struct probe p = {.size = 0};
    if (!doctor->src)
        return doctor->is_folder ? recognize_folder(NULL, doctor->path) : NULL;
    return recognize_fill(&p, doctor->path, doctor->src, &ignored) == CKPT_OK ? recognize(&p) : NULL;
}

/* get_diagnosis_id - returns the id of the diagnosis for a file with the signature SIGNATURE, which may be
 * NULL. */
static const char *get_diagnosis_id(const struct signature *signature)
{
    if (signature && (signature->kind == SIGN_COMPRESSED || signature->kind == SIGN_ZLIB))
        return "compressed";
    return signature && signature->id ? signature->id : "foreign";
}

/* recognize_packed - sets *SIGNATURE to what the file, which is compressed as PACKED describes, unpacks to,
 * or NULL. Returns false if it cannot be unpacked here. */
static bool recognize_packed(const struct doctor *doctor, const struct signature *packed,
                             const struct signature **signature)
{
    struct probe p = {.size = 0};
    source *head = NULL;
    uint64_t used;
    ckpt_error ignored;
    ckpt_status st = unpack_head(doctor->src, packed, PACKED_HEAD, &head, &used, &ignored);
    bool is_unpacked = head && (st == CKPT_OK || st == CKPT_ELIMIT);
    *signature = is_unpacked && recognize_fill(&p, doctor->path, head, &ignored) == CKPT_OK ? recognize(&p)
                                                                                            : NULL;
    source_unref(head);
    return is_unpacked;
}

/* report_packed - reports that what the compressed file unpacks to, which SIGNATURE describes, is not read,
 * for the reason ERROR. Unpacking it helps only if that is an archive or is compressed again. */
static ckpt_status report_packed(struct doctor *doctor, const struct signature *signature, ckpt_fix unpack,
                                 const ckpt_error *error, ckpt_error *err)
{
    struct diagnosis diagnosis = {.id = get_diagnosis_id(signature)};
    ckpt_error why = *error;
    why.hint[0] = '\0';
    if (signature &&
        (signature->kind == SIGN_COMPRESSED || signature->kind == SIGN_ZIP || signature->kind == SIGN_TAR))
        diagnosis.fix = unpack;
    else if (signature && signature->fix == CKPT_FIX_DOWNLOAD)
        diagnosis.fix.action = signature->fix;
    if (signature)
        recognize_add_hint(signature, "FILE", &why);
    else
        error_add_hint(&why, "it is not a checkpoint when it is unpacked, either");
    return doctor_report_error(doctor, &diagnosis, &why, err);
}

/* is_document - returns true if PATH has the suffix of a document, which may be what it is meant to be: no
 * download replaces it. */
static bool is_document(const char *path)
{
    return str_matches_word(str_c(path), ".html .htm .xml .json .txt", str_ends_any_case);
}

/* is_about_member - returns true if ERROR is about a member of the archive that is compressed: unpacking
 * would not help, as the member was reached. */
static bool is_about_member(const struct doctor *doctor, const ckpt_error *error)
{
    ckpt_error member = *error;
    doctor_drop_file_name(doctor, &member);
    return member.file[0] != '\0';
}

ckpt_status doctor_report_foreign(struct doctor *doctor, const ckpt_error *error, ckpt_error *err)
{
    const struct signature *s = recognize_file(doctor), *packed;
    struct diagnosis diagnosis = {.id = get_diagnosis_id(s)};
    if (s && s->kind == SIGN_COMPRESSED && folder_is_data_file(str_c(doctor->path)))
        return doctor_report_data_file(doctor, err);
    if (!doctor->src && !s) { /* no file could be opened: that is an error, not a diagnosis */
        *err = *error;
        return err->status;
    }
    bool may_replace = s && (s->fix != CKPT_FIX_DOWNLOAD || !is_document(doctor->path));
    if (may_replace && !doctor->is_folder) /* the commands would name the folder, not the file in it */
        diagnosis.fix = (ckpt_fix){.action = s->fix, .packing = s->fix == CKPT_FIX_UNPACK ? s->id : NULL};
    bool is_read = doctor->f || error->status == CKPT_ELIMIT; /* only its compression is the problem */
    if (s && s->kind == SIGN_COMPRESSED && is_about_member(doctor, error))
        return doctor_report_error(doctor, &(struct diagnosis){.id = "foreign"}, error, err);
    if (s && s->kind == SIGN_COMPRESSED && !is_read && recognize_packed(doctor, s, &packed))
        return report_packed(doctor, packed, diagnosis.fix, error, err);
    return doctor_report_error(doctor, &diagnosis, error, err);
}

ckpt_status doctor_report_data_file(struct doctor *doctor, ckpt_error *err)
{
    ckpt_error e = {.offset = CKPT_NO_OFFSET};
    (void)format_refuse_data_file(doctor->path, &e);
    doctor->symptoms[CHECK_STRAY].n = 0; /* they are the other items of the file */
    if (!doctor->f)                      /* with several items it is no archive */
        memset(doctor->symptoms, 0, sizeof doctor->symptoms);
    return doctor_report_error(doctor, &(struct diagnosis){.id = "foreign"}, &e, err);
}

ckpt_status doctor_report_compressed(struct doctor *doctor, ckpt_error *err)
{
    bool has_sources = doctor->f && doctor->src && doctor->f->src;
    bool unpacked = has_sources &&
                    source_pos(doctor->f->src, 0) == CKPT_NO_OFFSET /* its bytes are not in a file */
                    && source_pos(doctor->src, 0) != CKPT_NO_OFFSET;
    const struct signature *s = unpacked ? recognize_file(doctor) : NULL;
    if (!s || s->kind == SIGN_TAR || s->kind == SIGN_ZIP) /* doctor_report_refusals reports it */
        return CKPT_OK;
    return doctor_report(
        doctor,
        &(struct diagnosis){.id = "compressed",
                            .fix = {.action = s->fix, .packing = s->fix == CKPT_FIX_UNPACK ? s->id : NULL},
                            .hint = "ckpt reads it as it is"},
        err, "%s: ckpt reads it, torch.load and other loaders do not", s->what);
}

/* is_cut_off - returns true if the end of ENTRY was not found in a file of SIZE bytes. */
static bool is_cut_off(const struct zip_entry *entry, uint64_t size)
{
    return (entry->crc_unknown && entry->next_at == size) ||
           (entry->fault && entry->next_at == entry->data_offset);
}

/* report_end_of_records - reports which record of ARCHIVE is cut off, or after which record the file ends. */
static ckpt_status report_end_of_records(struct doctor *doctor, const struct diagnosis *diagnosis,
                                         const zip *archive, ckpt_error *err)
{
    size_t i = 0;
    while (i < archive->n && !is_cut_off(&archive->entries[i], archive->src->size))
        i++;
    const struct zip_entry *e = &archive->entries[i < archive->n ? i : archive->n - 1];
    if (i < archive->n)
        return doctor_report(
            doctor, diagnosis, err,
            "cut off inside record %.*s, which begins at byte %llu; intact records before it: %zu",
            STR_ARG(e->name), (unsigned long long)e->header_offset, i);
    return doctor_report(doctor, diagnosis, err,
                         "cut off at byte %llu, after its last intact record, number %zu (%.*s)",
                         (unsigned long long)archive->src->size, archive->n, STR_ARG(e->name));
}

static ckpt_status report_truncated_zip(struct doctor *doctor, const struct diagnosis *diagnosis,
                                        ckpt_error *err)
{
    zip *z = NULL;
    arena *a = arena_new(UINT64_MAX);
    ckpt_status st = a ? zip_salvage(doctor->src, a, &z, err) : fail_memory(err);
    if (st == CKPT_OK)
        st = z->n ? report_end_of_records(doctor, diagnosis, z, err)
                  : doctor_report_error(doctor, diagnosis, &doctor->symptoms[CHECK_TRUNCATED].first, err);
    zip_close(z);
    arena_free(a);
    return st;
}

static ckpt_status report_truncated(struct doctor *doctor, ckpt_error *err)
{
    const struct symptom *s = &doctor->symptoms[CHECK_TRUNCATED];
    const struct signature *signature = recognize_file(doctor);
    struct diagnosis diagnosis = {
        .id = "truncated", .fix = salvage, .first = "get the file again, if it is complete elsewhere"};
    if (!doctor->f && signature && signature->kind == SIGN_ZIP && s->first.offset != CKPT_NO_OFFSET)
        return report_truncated_zip(doctor, &diagnosis, err);
    diagnosis.hint = s->first.hint;
    if (doctor->f && doctor->f->dots_are_literal && doctor->f->src)
        return doctor_report(doctor, &diagnosis, err, "cut off: %llu of %llu tensors are lost; %s",
                             (unsigned long long)s->n, (unsigned long long)(s->n + doctor->f->table.nrows),
                             s->first.what);
    return doctor_report_error(doctor, &diagnosis, &s->first, err);
}

/* find_oversized_header - returns the length of the header if safetensors forbids one so long, else 0. */
static uint64_t find_oversized_header(const struct doctor *doctor)
{
    ckpt_error ignored;
    struct probe p = {.size = 0};
    if (!doctor->src || recognize_fill(&p, "", doctor->src, &ignored) != CKPT_OK ||
        !recognize_safetensors(&p))
        return 0;
    uint64_t length = load_u64le(p.head);
    return length > SAFETENSORS_MAX_HEADER ? length : 0;
}

static ckpt_status report_oversized_header(struct doctor *doctor, uint64_t length, ckpt_error *err)
{
    const struct diagnosis diagnosis = {.id = "header-too-large"};
    if (length < doctor->src->size)
        return doctor_report(doctor, &diagnosis, err,
                             "the header has %llu bytes, safetensors allows 100000000: save in shards",
                             (unsigned long long)length);
    return doctor_report(doctor, &diagnosis, err,
                         "the header has %llu bytes, the file %llu, and safetensors allows 100000000: "
                         "overwritten or cut off, get the file again",
                         (unsigned long long)length, (unsigned long long)doctor->src->size);
}

static bool has_record(const struct check *check, const char *end)
{
    for (size_t i = 0; i < check->nrecords; i++)
        if (str_ends(check->records[i].name, str_c(end)))
            return true;
    return false;
}

/* is_failed_save - returns true if the archive has the last record of torch.save, but not the first. */
static bool is_failed_save(const struct doctor *doctor)
{
    return !doctor->f && has_record(&doctor->check, "/.data/serialization_id") &&
           !has_record(&doctor->check, "/data.pkl");
}

/* report_rule - reports the first finding of RULE, and how many there are. The hint for values that are NaN
 * or infinite is the command that lists them, because no command restores them. */
static ckpt_status report_rule(struct doctor *doctor, enum check_rule rule, const char *id, ckpt_fix fix,
                               ckpt_error *err)
{
    const struct symptom *s = &doctor->symptoms[rule];
    char more[64] = "", text[1024], word[SHELL_WORD_MAX];
    static const char shifted[] =
        "get the file again: its data may be shifted, as after a download that was resumed too early, and no "
        "checksum shows it";
    struct diagnosis diagnosis;
    bool not_finite = rule == CHECK_NOT_FINITE;
    ckpt_error e = s->first;
    if (!s->n)
        return CKPT_OK;
    doctor_drop_file_name(doctor, &e);
    if (s->n > 1)
        (void)snprintf(more, sizeof more, " (and %llu more: ckpt verify%s)", (unsigned long long)(s->n - 1),
                       not_finite ? " --finite" : "");
    (void)ckpt_error_text(&e, text, sizeof text);
    if (not_finite)
        error_add_hint(&e,
                       "no command restores the values: take an earlier checkpoint; all such tensors: "
                       "ckpt stat --fail-on nan,inf %s",
                       doctor_path_word(doctor, word));
    diagnosis = (struct diagnosis){.id = id, .fix = fix, .hint = e.hint};
    if (rule == CHECK_MISSING_SHARD)
        diagnosis.first = diagnosis.hint;
    if (rule == CHECK_STRAY && !doctor->check.result->checksums)
        diagnosis.first = diagnosis.hint = shifted;
    return doctor_report(doctor, &diagnosis, err, "%s%s", text, more);
}

static ckpt_status report_rules(struct doctor *doctor, ckpt_error *err)
{
    const struct {
        enum check_rule rule;
        const char *id;
        ckpt_fix fix;
    } rules[] = {
        {CHECK_MISSING_SHARD, "missing-shard", salvage},
        {CHECK_MISSING_TENSOR, "missing-tensor", {0}},
        {CHECK_EXTRA_TENSOR, "extra-tensor", {0}},
        {CHECK_TOTAL_SIZE, "total-size", {0}},
        {CHECK_MALFORMED, "malformed", salvage},
        {CHECK_CHECKSUM, "checksum", salvage},
        {CHECK_DUPLICATE, "duplicate", {0}},
        {CHECK_STRAY, "stray-bytes", doctor->f && doctor->f->loading.by ? convert : salvage},
        {CHECK_NOT_FINITE, "not-finite", {0}},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        CKPT_TRY(report_rule(doctor, rules[i].rule, rules[i].id, rules[i].fix, err));
    return CKPT_OK;
}

ckpt_status doctor_report_unread(struct doctor *doctor, ckpt_error *err)
{
    uint32_t first;
    uint64_t n = ckpt_file_count_unread(doctor->f, &first);
    if (!n)
        return CKPT_OK;
    const ckpt_tensor t = table_tensor(&doctor->f->table, first);
    const struct diagnosis diagnosis = {
        .id = "unread-data",
        .is_note = true,
        .hint = "whether these data are damaged is unknown; hash, diff and convert cannot use them"};
    return doctor_report(doctor, &diagnosis, err, "%llu tensor%s cannot be read, such as \"%.*s\": %s%s%.*s",
                         (unsigned long long)n, n == 1 ? "" : "s", STR_ARG(t.name),
                         ckpt_kind_name((ckpt_kind)t.kind), t.note.len ? ", " : "", STR_ARG(t.note));
}

ckpt_status doctor_report_damage(struct doctor *doctor, ckpt_error *err)
{
    uint64_t header = doctor->symptoms[CHECK_MALFORMED].n ? find_oversized_header(doctor) : 0;
    const ckpt_error *truncation = doctor->symptoms[CHECK_TRUNCATED].n
                                       ? &doctor->symptoms[CHECK_TRUNCATED].first
                                       : NULL;
    if (header)
        return report_oversized_header(doctor, header, err);
    if (truncation && is_failed_save(doctor))
        return doctor_report_error(doctor, &(struct diagnosis){.id = "failed-save"}, truncation, err);
    if (truncation)
        CKPT_TRY(report_truncated(doctor, err));
    return report_rules(doctor, err);
}
