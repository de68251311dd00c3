/* verify.c - checks the zip container of a file beyond what reading its tensors needs. */
#include <stdlib.h>

#include "codec/zip_audit.h"
#include "format/files/path.h"
#include "format/recognize.h"
#include "format/registry.h"
#include "format/verify.h"

static void close_zip(void *data) { zip_close(data); }

/* report_fault - if ST is a fault, reports ERR. Otherwise returns ST. */
static ckpt_status report_fault(struct check *check, const char *path, ckpt_status st, ckpt_error *err)
{
    ckpt_error e;
    if (!check_is_fault(st))
        return st;
    e = *err;
    return check_report_fault(check, path, &e, err);
}

/* check_surroundings - reports bytes before and after the archive. */
static ckpt_status check_surroundings(const zip *archive, const char *path, struct check *check,
                                      ckpt_error *err)
{
    ckpt_error e = {0};
    if (archive->prefix_size) {
        (void)fail(&e, CKPT_EFORMAT, source_pos(archive->src, 0),
                   "{%llu unreferenced bytes} before {=the archive}",
                   (unsigned long long)archive->prefix_size);
        error_add_hint(&e, "torch.load refuses such a file");
        CKPT_TRY(check_report(check, CHECK_STRAY, path, &e, err));
    }
    if (archive->archive_end == archive->src->size)
        return CKPT_OK;
    (void)fail(&e, CKPT_EFORMAT, source_pos(archive->src, archive->archive_end),
               "{%llu unreferenced bytes} after {=the archive}",
               (unsigned long long)(archive->src->size - archive->archive_end));
    return check_report(check, CHECK_STRAY, path, &e, err);
}

static ckpt_status check_duplicates(const zip *archive, const char *path, struct check *check,
                                    ckpt_error *err)
{
    ckpt_error e = {0};
    for (size_t i = 0; i < archive->n; i++) {
        const struct zip_entry *x = &archive->entries[i];
        if (!x->duplicate || zip_find(archive, x->name) == (int64_t)i)
            continue;
        (void)fail(
            &e, CKPT_EFORMAT, source_pos(archive->src, x->header_offset),
            "{a second record} of this name, {=the first} is at %llu; readers disagree on which counts",
            (unsigned long long)archive->entries[zip_find(archive, x->name)].header_offset);
        error_add_where(&e, "%.*s", STR_ARG(x->name));
        CKPT_TRY(check_report(check, CHECK_DUPLICATE, path, &e, err));
    }
    return CKPT_OK;
}

/* find_folders_with_crc - returns the folders in which some record has a CRC-32 that is not 0. The CRC-32s
 * are all 0 if torch was set to compute none. NULL: no memory. */
static map *find_folders_with_crc(const zip *archive)
{
    map *folders = map_new(16);
    for (size_t i = 0; folders && i < archive->n; i++)
        if (archive->entries[i].crc && !map_put(folders, str_folder(archive->entries[i].name), 1, NULL)) {
            map_free(folders);
            folders = NULL;
        }
    return folders;
}

/* add_record - checks the headers of entry INDEX. If its folder has CRC-32s, adds it to CHECK, to be read. */
static ckpt_status add_record(zip *archive, size_t index, const map *crc_folders, const char *path,
                              struct check *check, ckpt_error *err)
{
    const struct zip_entry *entry = &archive->entries[index];
    struct check_record r = {.name = entry->name, .path = path, .crc = entry->crc};
    ckpt_status st = zip_locate_payload(archive, index, err);
    CKPT_THEN(st, zip_open_member(archive, index, &r.src, err));
    if (st != CKPT_OK)
        return report_fault(check, path, st, err);
    if (map_get(crc_folders, str_folder(entry->name)) == MAP_NONE) {
        source_unref(r.src);
        return CKPT_OK;
    }
    r.file_offset = source_pos(r.src, 0);
    return check_add_record(check, &r, err);
}

/* The state of the callback of zip_audit. */
struct zip_report {
    struct check *c;
    const char *path;
    ckpt_error *err;
    ckpt_status status;
};

static void report_zip_flaw(void *user, const struct zip_flaw *flaw)
{
    struct zip_report *t = user;
    ckpt_error e = {0};
    if (t->status != CKPT_OK)
        return;
    if (flaw->message && flaw->value)
        (void)fail(&e, CKPT_EFORMAT, flaw->at, "%s %llu", flaw->message, (unsigned long long)flaw->value);
    else if (flaw->message)
        (void)fail(&e, CKPT_EFORMAT, flaw->at, "%s", flaw->message);
    else
        (void)fail(&e, CKPT_EFORMAT, flaw->at,
                   "%s: {%llu} here, {=%llu} in the central directory at byte %llu", flaw->what,
                   (unsigned long long)flaw->value, (unsigned long long)flaw->other_value,
                   (unsigned long long)flaw->other_at);
    error_add_where(&e, "%.*s", STR_ARG(flaw->name));
    t->status = check_report(t->c, CHECK_MALFORMED, t->path, &e, t->err);
}

/* audit_zip - reports contradictions that do not affect reading: descriptors, times, flags, members that are
 * not in the central directory. NAMES_ARE_KEYS: as in struct format. OPEN_REPORTED: zip_open failed, and its
 * error was reported. Call it only if no other fault was reported. */
static ckpt_status audit_zip(source *src, struct zip_report *report, bool names_are_keys, bool open_reported)
{
    struct zip_audit z = {.src = src,
                          .a = report->c->a,
                          .flaw = report_zip_flaw,
                          .user = report,
                          .names_are_keys = names_are_keys,
                          .open_reported = open_reported};
    ckpt_status st = zip_audit(&z, report->err);
    return report->status != CKPT_OK ? report->status : check_is_fault(st) ? CKPT_OK : st;
}

static bool is_archive(const char *path, source *src)
{
    ckpt_error ignored;
    struct probe p = {.size = 0};
    return recognize_fill(&p, path, src, &ignored) == CKPT_OK && recognize_archive(&p);
}

ckpt_status verify_records(const char *path, source *src, bool names_are_keys, uint64_t findings_before,
                           struct check *check, ckpt_error *err)
{
    zip *z;
    if (!is_archive(path, src))
        return CKPT_OK;
    const char *path_copy = arena_str(check->a, str_c(path)).ptr;
    CKPT_TRY_ALLOC(path_copy, err);
    ckpt_status st = zip_open(src, check->a, &z, err);
    if (st == CKPT_EFORMAT) { /* opening the file reported this fault; the audit finds the others */
        return audit_zip(src, &(struct zip_report){.c = check, .path = path_copy, .err = err}, false, true);
    }
    if (st != CKPT_OK) /* opening the file reported any other */
        return st == CKPT_ENOMEM ? st : CKPT_OK;
    check->free_object = close_zip;
    CKPT_TRY(check_keep_object(check, z, err));
    zip_locate_all(z);
    CKPT_TRY(check_surroundings(z, path_copy, check, err));
    CKPT_TRY(check_duplicates(z, path_copy, check, err));
    map *crc_folders = find_folders_with_crc(z);
    st = crc_folders ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < z->n; i++)
        st = add_record(z, i, crc_folders, path_copy, check, err);
    map_free(crc_folders);
    if (st != CKPT_OK || check->result->findings != findings_before) /* the audit could repeat a finding */
        return st;
    return audit_zip(src, &(struct zip_report){.c = check, .path = path_copy, .err = err}, names_are_keys,
                     false);
}

ckpt_status format_verify(const char *path, struct check *check, ckpt_file **out, ckpt_error *err)
{
    struct journal_note note;
    source *src;
    *out = NULL;
    CKPT_TRY(format_open_source(path, check->opts->limits, &note, &src, err));
    check->result->bytes = src ? src->size : 0;
    ckpt_status st = check_set_hint(check, note.text, err);
    if (st != CKPT_OK) {
        source_unref(src);
        return st;
    }
    char *shown = path_to_show(path);
    if (!shown)
        source_unref(src);
    const struct opening o = {.path = shown, .src = src, .limits = check->opts->limits, .check = check};
    st = shown ? format_check(&o, out, err) : fail_memory(err);
    free(shown);
    CKPT_TRY(st);
    if (*out) {
        check->result->format = (*out)->format->name;
        check->result->tensors = (*out)->table.nrows;
        check->result->bytes = (*out)->nbytes;
    }
    return CKPT_OK;
}
