/* registry.c - detects the format of a file by its content, and opens it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "format/container.h"
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/files/members.h"
#include "format/files/own_files.h"
#include "format/files/path.h"
#include "format/files/server.h"
#include "format/foreign.h"
#include "format/hub/listed_names.h"
#include "format/hub/merge.h"
#include "format/in_place.h"
#include "format/names.h"
#include "format/parts/part_files.h"
#include "format/recognize.h"
#include "format/registry.h"
#include "format/salvage.h"
#include "format/verify.h"
#include "io/address.h"

static const struct format *const formats[] = {
#define FORMAT(id) &format_##id,
#include "format/formats.def"
#undef FORMAT
};

#define NFORMATS (sizeof formats / sizeof *formats)

const struct format *format_recognize(const struct probe *probe)
{
    for (size_t i = 0; i < NFORMATS; i++)
        if (formats[i]->probe(probe))
            return formats[i];
    return NULL;
}

/* detect_format - sets *OUT to the format of PROBE. Tries the format ONLY; NULL: tries all. */
static ckpt_status detect_format(const struct probe *probe, const struct format *only,
                                 const struct format **out, ckpt_error *err)
{
    const struct format *found = !only ? format_recognize(probe) : only->probe(probe) ? only : NULL;
    if (*probe->no_memory)
        return fail_memory(err);
    *out = found;
    return found ? CKPT_OK : format_fail_unrecognized(probe, err);
}

const struct format *format_by_name(const char *name)
{
    for (size_t i = 0; i < NFORMATS; i++)
        if (strcmp(formats[i]->name, name) == 0 ||
            (formats[i]->other_name && strcmp(formats[i]->other_name, name) == 0))
            return formats[i];
    return NULL;
}

const struct format *format_by_suffix(const char *path)
{
    const ckpt_str index_of_bin = STR_LIT(".bin" INDEX_SUFFIX);
    ckpt_str name = str_c(path);
    if (str_ends(name, index_of_bin))
        return format_by_name("torch-zip");
    if (str_ends(name, STR_LIT(INDEX_SUFFIX)))
        name.len -= strlen(INDEX_SUFFIX);
    for (size_t i = 0; i < NFORMATS; i++)
        if (formats[i]->write && formats[i]->suffixes &&
            str_matches_word(name, formats[i]->suffixes, str_ends_any_case))
            return formats[i];
    return NULL;
}

const char *format_written_at(size_t index)
{
    for (size_t k = 0; k < NFORMATS; k++)
        if (formats[k]->write && formats[k]->suffixes && !COUNT_DOWN(index))
            return formats[k]->other_name ? formats[k]->other_name : formats[k]->name;
    return NULL;
}

static void hint_writable_formats(ckpt_error *err)
{
    char names[sizeof err->hint] = "";
    const char *name;
    size_t n = 0;
    for (size_t i = 0; (name = format_written_at(i)) && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", name);
    error_add_hint(err, "formats that can be written: %s", names);
}

void format_hint_leave_out(const ckpt_file *f, const ckpt_tensor *tensor, ckpt_str name, const char *more,
                           ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    const char *dtype = tensor->dtype == CKPT_DT_NAMED ? ckpt_tensor_dtype_name(tensor) : "";
    bool is_byte = strcmp(dtype, "V1") == 0, is_of_numpy = strncmp(f->format->name, "np", 2) == 0;
    if (is_of_numpy && (is_byte || strcmp(dtype, "V2") == 0))
        error_add_hint(err, "--as %s=DTYPE, such as %s, names its type", dtype,
                       is_byte ? "float8_e4m3fn" : "bfloat16");
    else if (name.len)
        error_add_hint(err, "--drop %s leaves it out%s", shell_glob(name, word), more);
}

/* check_block_casts - refuses casts of P to block-quantized types of ggml unless TO is GGUF. */
static ckpt_status check_block_casts(const ckpt_plan *p, const struct format *to, ckpt_error *err)
{
    if (!p->casts.to || str_is(str_c(to->name), "gguf"))
        return CKPT_OK;
    for (uint32_t i = 0; i < p->file->table.nrows; i++) {
        if (!p->keep[i] || dtype_info((ckpt_dtype)p->casts.to[i])->klass != 'k')
            continue;
        return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "\"%.*s\" cannot become {%s}, which {=a GGUF} alone holds\n"
                    "give the output a name that ends in .gguf",
                    STR_ARG(table_name(&p->file->table, i)), ckpt_dtype_name((ckpt_dtype)p->casts.to[i]));
    }
    return CKPT_OK;
}

ckpt_status format_target(const ckpt_plan *p, const char *path, const char *asked, const struct format **out,
                          ckpt_error *err)
{
    const struct format *f = asked ? format_by_name(asked) : path ? format_by_suffix(path) : NULL;
    if (asked && (!f || !f->write)) {
        (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "cannot write format \"%s\"", asked);
        hint_writable_formats(err);
        return CKPT_EUSAGE;
    }
    if (!f && p->file->format->write)
        f = p->file->format;
    if (!path && !f)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "no format given, and that of the input (%s) cannot be kept\n"
                    "set format to torch-zip or safetensors",
                    p->file->format->name);
    *out = f ? f : format_by_name("torch-zip");
    return check_block_casts(p, *out, err);
}

ckpt_status format_check_lays_out(const struct format *format, ckpt_error *err)
{
    if (format->lays_out)
        return CKPT_OK;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "the output would be {%s}; of an output in parts it must be {=safetensors}\n"
                "call it OUT.safetensors, or leave out --part",
                format->name);
}

static void close_zip(void *data) { zip_close(data); }

static ckpt_status fill_probe(ckpt_file *f, ckpt_error *err)
{
    struct probe *p = f->opening->probe;
    p->path = f->path;
    p->archive = f->archive;
    p->is_folder = f->src == NULL;
    p->salvage = f->salvage;
    if (p->is_folder)
        return folder_list_all(f, f->path, &p->names, &p->nnames, err);
    CKPT_TRY(recognize_fill(p, f->path, f->src, err));
    if (!recognize_safetensors(p) &&
        recognize_archive(p)) { /* the end of a safetensors file is not looked at */
        ckpt_status st = f->salvage ? zip_salvage(f->src, f->a, &p->zip, &p->zip_err)
                                    : zip_open(f->src, f->a, &p->zip, &p->zip_err);
        if (st != CKPT_OK)
            p->zip = NULL;
        f->losses.zip = f->salvage ? p->zip : NULL;
        f->container = p->zip;
        f->container_free = close_zip;
    }
    return CKPT_OK;
}

void format_set_container(ckpt_file *f, void *container, void (*release)(void *container))
{
    close_zip(f->opening->probe->zip);
    f->opening->probe->zip = NULL;
    f->losses.zip = NULL;
    f->container = container;
    f->container_free = release;
}

/* finish_table - ends the reading of F. */
static ckpt_status finish_table(ckpt_file *f, ckpt_error *err)
{
    arena_trim(f->a);
    CKPT_TRY(table_finish(&f->table, err));
    if (f->archive)
        table_check_first(&f->table, f->archive);
    if (f->table.unchecked && (f->check || f->salvage || table_has_checksums(&f->table)))
        table_check_nothing(&f->table);
    if (f->root_is_table && !(f->root_pairs = table_root_pairs(&f->table, f->root)))
        return fail_memory(err);
    f->has_unique_names = f->root_is_table;
    f->root_is_table = false;
    file_set_view_limit(f); /* now that the sizes of all files in a folder are known */
    return CKPT_OK;
}

/* check_member - compares F, which is a member of ARCHIVE, with its checksum there. */
static ckpt_status check_member(ckpt_file *f, source *archive, ckpt_error *err)
{
    ckpt_status st = source_check(archive, err);
    f->whole_checksum |= members_have_checksums(archive);
    if (st != CKPT_ECHECKSUM || !f->salvage)
        return file_report_fault(f, st, err);
    file_note_loss(f,
                   "%s does not have the checksum that the archive records: any tensor without a checksum "
                   "of its own may be damaged",
                   err->where);
    return CKPT_OK;
}

static ckpt_status read_file(ckpt_file *f, ckpt_error *err)
{
    source *archive = f->archive;
    bool no_memory = false;
    f->opening->probe->no_memory = &no_memory;
    CKPT_TRY(fill_probe(f, err));
    CKPT_TRY(detect_format(f->opening->probe, f->opening->only, &f->format, err));
    CKPT_TRY(f->format->read(f, err));
    CKPT_TRY(finish_table(f, err));
    if (archive && (f->check || f->salvage))
        CKPT_TRY(check_member(f, archive, err));
    return f->salvage ? salvage_rows(f, err) : CKPT_OK;
}

/* check_server - returns ST, the result of reading F, or why the server did not answer whether it has a
 * file. */
static ckpt_status check_server(const ckpt_file *f, ckpt_status st, ckpt_error *err)
{
    const ckpt_error *failure = server_failure(f->archive);
    if (st != CKPT_OK && f->archive && !f->src && !server_lists_folders(f->archive))
        error_replace_hint(err,
                           "a web server does not list its files, as the Hub does: name a file in it, or "
                           "download the folder");
    if (!failure)
        return st;
    *err = *failure;
    return err->status;
}

/* check_journal - returns ST, the result of reading F, or a failure if F was edited meanwhile. */
static ckpt_status check_journal(const ckpt_file *f, ckpt_status st, ckpt_error *err)
{
    ckpt_error own;
    if (!f->src || st == CKPT_ENOMEM || journal_check_after_read(f->path, f->src, &own) == CKPT_OK)
        return st;
    *err = own;
    return own.status;
}

/* end_watch - stops watching WATCHED (may be NULL), and gives it up. Returns ST, the result of reading F, or
 * CKPT_ECANCELLED if the program stopped it. */
static ckpt_status end_watch(ckpt_file *f, source *watched, ckpt_status st, ckpt_error *err)
{
    struct source_watch *watch = f->opening->watch;
    bool stopped = watch && watch->stopped;
    source_watch(watched, NULL);
    source_unref(watched);
    f->opening->watch = NULL;
    return stopped && st != CKPT_ECANCELLED ? fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request")
                                            : st;
}

static ckpt_status read_open_source(ckpt_file *f, struct opening *opening, ckpt_error *err)
{
    bool salvages_outermost = opening->how == OPEN_SALVAGE;
    struct shard_name name;
    f->opening = opening;
    f->check = opening->check;
    f->salvage = opening->how != OPEN_WHOLE;
    /* kept until the end, because an archive of shards is no longer f->src then */
    source *watched = opening->watch && f->src ? source_ref(f->src) : NULL;
    source_watch(watched, opening->watch);
    ckpt_status st = check_server(f, read_file(f, err), err);
    st = check_journal(f, file_explain_full_arena(f, st, err), err);
    st = end_watch(f, watched, st, err);
    if (opening->recognized)
        *opening->recognized = f->format;
    if (f->src && shard_name_parse(str_after_last(str_c(f->path), '/'), &name))
        f->files_in_set = name.count;
    f->list_siblings = f->src ? shards_list_siblings : NULL;
    f->visit_files = own_files_visit;
    f->check = NULL;
    if (st != CKPT_OK && st != CKPT_ECANCELLED && salvages_outermost && opening->probe->zip)
        salvage_hint_raw_bytes(opening->probe->zip, err);
    if (st == CKPT_OK && salvages_outermost)
        salvage_note_no_checksums(f);
    return st;
}

ckpt_status format_open(const struct opening *opening, ckpt_file **out, ckpt_error *err)
{
    ckpt_file *f;
    struct opening own = *opening;
    own.probe = calloc(1, sizeof *own.probe);
    if (!own.probe) {
        source_unref(opening->src);
        return fail_memory(err);
    }
    source *archive = members_archive_of(opening->src) ? source_ref(members_archive_of(opening->src)) : NULL;
    source *src = members_is_archive(opening->src) ? NULL : opening->src;
    if (opening->src != src)
        source_unref(opening->src);
    ckpt_status st = file_new(opening->path, src, opening->limits, &f, err);
    if (st != CKPT_OK)
        source_unref(archive);
    if (st == CKPT_OK) {
        f->archive = archive;
        st = archive && src && !part_file_set_folder(f) ? fail_memory(err) : read_open_source(f, &own, err);
        if (st == CKPT_OK) {
            *out = file_move_home(f);
        } else {
            file_free(f);
            file_free(own.taken_from);
        }
    }
    free(own.probe);
    return name_file_if_failed(st, opening->path, err);
}

ckpt_status format_open_merged(const struct merging *merging, const ckpt_limits *limits, ckpt_file **out,
                               ckpt_error *err)
{
    ckpt_error own;
    ckpt_file *f;
    err = err ? err : &own;
    CKPT_TRY(file_new(merging->paths[0], NULL, limits, &f, err));
    f->format = format_by_name("hf-shards");
    struct opening no_options = {0};
    f->opening = &no_options;
    ckpt_status st = file_explain_full_arena(f, shards_merge_files(f, merging, err), err);
    f->opening = NULL;
    CKPT_THEN(st, finish_table(f, err));
    CKPT_THEN(st, shards_check_names(f, err));
    if (st == CKPT_OK)
        *out = f;
    else
        file_free(f);
    return st;
}

ckpt_status format_open_source(const char *path, const ckpt_limits *limits, struct journal_note *note,
                               source **out, ckpt_error *err)
{
    ckpt_error of_member;
    *out = NULL;
    *note = (struct journal_note){.judge = format_journal_judge(path)};
    if (address_is_url(path)) {
        char *shown = path_to_show(path);
        ckpt_status st = server_open(path, limits ? limits->remote : NULL, out, err);
        (void)name_file_if_failed(st, shown ? shown : "URL", err);
        free(shown);
        return st;
    }
    ckpt_status st = source_is_folder(path) ? CKPT_OK : journal_open(path, note, out, err);
    char *file = st == CKPT_ENOTFOUND ? path_find_prefix(NULL, path) : NULL;
    if (file)
        st = journal_open(file, note, out, err);
    free(file);
    if (st == CKPT_ENOTFOUND && strchr(path, '!')) {
        ckpt_status found = container_open_path(path, out, &of_member);
        if (found != CKPT_ENOTFOUND) {
            *err = of_member;
            return found;
        }
    }
    if (st == CKPT_ENOTFOUND)
        format_hint_missing(path, err);
    return name_file_if_failed(st, path, err);
}

ckpt_status format_note_journal(const struct journal_note *note, ckpt_file *f, ckpt_status st,
                                ckpt_error *err)
{
    if (note->text[0] && st == CKPT_OK && f)
        file_notice(f, "%s", note->text);
    else if (note->text[0] && check_is_fault(st)) /* the fault may be from the edit that the journal undoes */
        error_replace_hint(err, note->text);
    return st;
}

/* open_names - after OPENING failed to open with ERR: opens its source as a text file of names, and releases
 * the source. Returns the status of ERR if the source is not such a text. */
static ckpt_status open_names(const struct opening *opening, ckpt_file **out, ckpt_error *err)
{
    ckpt_status why = err->status, names = CKPT_EUNKNOWN;
    if (why == CKPT_EUNKNOWN || why == CKPT_EFORMAT || why == CKPT_ETRUNCATED)
        names = names_open(opening->path, source_ref(opening->src), opening->limits, out);
    source_unref(opening->src);
    return names == CKPT_OK ? CKPT_OK : names == CKPT_ENOMEM ? fail_memory(err) : why;
}

ckpt_status format_open_or_names(const struct opening *opening, ckpt_file **out, ckpt_error *err)
{
    if (!opening->src || members_is_archive(opening->src)) /* a folder */
        return format_open(opening, out, err);
    (void)source_ref(opening->src);
    ckpt_status st = format_open(opening, out, err);
    if (st != CKPT_OK)
        return open_names(opening, out, err);
    source_unref(opening->src);
    return st;
}

ckpt_status format_open_path(const struct opening *given, bool names, ckpt_file **out, ckpt_error *err)
{
    struct opening o = *given;
    struct journal_note note;
    CKPT_TRY(format_open_source(o.path, o.limits, &note, &o.src, err));
    char *shown = path_to_show(o.path);
    o.path = shown;
    ckpt_status st = !shown  ? fail_memory(err)
                     : names ? format_open_or_names(&o, out, err)
                             : format_open(&o, out, err);
    if (!shown)
        source_unref(o.src);
    free(shown);
    return format_note_journal(&note, *out, st, err);
}

/* is_about_content - returns true if ST is about the content of the file. A failure with such a status is
 * reported as a finding if there are other findings; without any, it is an error. */
static bool is_about_content(ckpt_status st)
{
    return st == CKPT_EUNKNOWN || st == CKPT_EUNSUPPORTED || st == CKPT_ELIMIT || st == CKPT_ELOSSY;
}

ckpt_status format_check(const struct opening *opening, ckpt_file **out, ckpt_error *err)
{
    const char *path = opening->path;
    struct check *check = opening->check;
    ckpt_error reported;
    *out = NULL;
    source *watched = check ? opening->src : NULL;
    uint64_t findings_before = check ? check->result->findings : 0;
    ckpt_status st = watched ? check_watch_source(check, source_ref(watched), err) : CKPT_OK;
    if (st != CKPT_OK) {
        source_unref(opening->src);
        return st;
    }
    st = format_open(opening, out, err);
    if (check && (check_is_fault(st) || (check->result->findings && is_about_content(st)))) {
        error_add_file(err, path);
        reported = *err;
        st = check_report_fault(check, path, &reported, err);
    }
    if (watched && st == CKPT_OK)
        st = verify_records(path, watched, *out && (*out)->format->names_are_keys, findings_before, check,
                            err);
    if (st != CKPT_OK) {
        file_free(*out);
        *out = NULL;
        error_add_file(err, path);
    }
    return st;
}

ckpt_status format_open_part(ckpt_file *f, const char *path, source *src, ckpt_file **out, ckpt_error *err)
{
    *out = NULL;
    const struct opening o = {.path = path,
                              .src = src,
                              .limits = &f->limits,
                              .check = f->check,
                              .watch = f->opening->watch,
                              .wanted = f->opening->wanted,
                              .nwanted = f->opening->nwanted,
                              .set = f->opening->set,
                              .find_name = f->opening->find_name,
                              .how = f->salvage ? OPEN_SALVAGE_PART : OPEN_WHOLE};
    return f->check ? format_check(&o, out, err) : format_open(&o, out, err);
}
