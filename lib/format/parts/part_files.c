/* part_files.c - finds, checks and opens the files that a checkpoint names. */
#include "format/parts/part_files.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/check.h"
#include "format/files/folder.h"
#include "format/files/members.h"
#include "format/files/path.h"
#include "format/registry.h"

#define MAX_OPEN 10000u /* parts, where more files may be open */

/* ------------------------------------------------------------------------------- paths */

bool part_file_set_folder(ckpt_file *f)
{
    ckpt_str folder = folder_of(f);
    if (folder.len > 1 && str_ends(folder, STR_LIT("/")))
        folder.len--;
    f->folder = folder.len ? arena_str(f->a, folder).ptr : ".";
    return f->folder != NULL;
}

bool part_name_skip(ckpt_str *name, const char *text, uint64_t *number)
{
    ckpt_str digits = str_skip(*name, strlen(text)), after = digits;
    while (after.len && after.ptr[0] >= '0' && after.ptr[0] <= '9')
        after = str_skip(after, 1);
    digits.len -= after.len;
    bool found = str_starts(*name, str_c(text)) && str_uint(digits, number);
    *name = found ? after : *name;
    return found;
}

/* is_below - returns true if REAL is in FOLDER or in a folder below it. Both paths are without links. */
static bool is_below(const char *real, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(real, folder, n) == 0 && (real[n] == '/' || (n && folder[n - 1] == '/'));
}

/* is_in_same_folder - returns true if the paths LEFT and RIGHT differ in the name of the file alone. */
static bool is_in_same_folder(const char *left, const char *right)
{
    const char *x = strrchr(left, '/'), *y = strrchr(right, '/');
    return x && y && x - left == y - right && strncmp(left, right, (size_t)(x - left)) == 0;
}

/* is_inside_or_trusted - returns true if PATH, after links are followed, is below FOLDER or in the same
 * folder as FOLDER/TRUSTED. */
static bool is_inside_or_trusted(const char *folder, const char *trusted, const char *path)
{
    char *real_folder = realpath(folder, NULL), *real = realpath(path, NULL);
    char *trusted_path = trusted ? path_make(str_c(folder), str_c(trusted)) : NULL;
    char *real_trusted = trusted_path ? realpath(trusted_path, NULL) : NULL;
    bool inside = real_folder && real &&
                  (is_below(real, real_folder) || (real_trusted && is_in_same_folder(real, real_trusted)));
    free(real_folder);
    free(real);
    free(trusted_path);
    free(real_trusted);
    return inside;
}

/* find_path - sets *PATH, which the caller frees, to the path of NAME in the folder of F; the file need not
 * exist. TRUSTED is as described in part_files.h. */
static ckpt_status find_path(const ckpt_file *f, const char *trusted, ckpt_str name, char **path,
                             ckpt_error *err)
{
    *path = NULL;
    if (path_is_unsafe(name))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "names {a file outside of} {=the folder}: \"%.*s\"",
                    STR_ARG(name));
    CKPT_TRY_ALLOC(*path = path_make(str_c(f->folder), name), err);
    if (f->archive || access(*path, F_OK) != 0 || is_inside_or_trusted(f->folder, trusted, *path))
        return CKPT_OK;
    (void)fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
               "a link to {a file outside of} {=the folder}\n"
               "if you trust it, copy the folder with `cp -rL`");
    return name_file_if_failed(CKPT_EFORMAT, *path, err);
}

/* open_file - finds the path of NAME as find_path does, and opens the file as *OUT. The caller frees *PATH
 * even on failure. */
static ckpt_status open_file(const ckpt_file *f, const char *trusted, ckpt_str name, source **out,
                             char **path, ckpt_error *err)
{
    CKPT_TRY(find_path(f, trusted, name, path, err));
    ckpt_status st = f->archive ? CKPT_OK : path_check_regular(*path, err);
    return name_file_if_failed(st == CKPT_OK ? source_open_in(f->archive, *path, out, err) : st, *path, err);
}

static ckpt_str trim_white_space(ckpt_str text)
{
    while (text.len && (unsigned char)text.ptr[0] <= ' ')
        text = str_skip(text, 1);
    while (text.len && (unsigned char)text.ptr[text.len - 1] <= ' ')
        text.len--;
    return text;
}

ckpt_status tracker_file_read(ckpt_file *f, const struct tracker_file *tracker, ckpt_str *out,
                              ckpt_error *err)
{
    char text[TRACKER_FILE_MAX], *path;
    source *src;
    ckpt_status st = open_file(f, tracker->name, str_c(tracker->name), &src, &path, err);
    size_t n = st == CKPT_OK && src->size <= sizeof text ? (size_t)src->size : 0;
    if (st == CKPT_OK) {
        st = file_note_read(f, path) ? source_read(src, 0, text, n, err) : fail_memory(err);
        source_unref(src);
    }
    ckpt_str found = st == CKPT_OK ? trim_white_space(str_of(text, n)) : str_of("", 0);
    if (st == CKPT_OK && !(found.len && (!tracker->accept || tracker->accept(found)))) {
        st = fail(err, CKPT_EFORMAT, 0, "{no} {=%s}", tracker->expected);
        error_add_where(err, "text");
    } else if (st == CKPT_OK && !(*out = arena_str(f->a, found)).ptr) {
        st = fail_memory(err);
    }
    error_add_file(st == CKPT_OK ? NULL : err, path ? path : "");
    free(path);
    return st;
}

ckpt_status part_file_enter(ckpt_file *f, ckpt_str name, ckpt_error *err)
{
    char *path;
    ckpt_status st = find_path(f, NULL, name, &path, err);
    const char *kept = st == CKPT_OK ? arena_str(f->a, str_c(path)).ptr : NULL;
    free(path);
    CKPT_TRY(st);
    CKPT_TRY_ALLOC(kept, err);
    if (!path_is_folder(f->archive, kept))
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "{no} {=folder %.*s}", STR_ARG(name));
    f->folder = kept;
    return CKPT_OK;
}

ckpt_status tracker_file_enter(ckpt_file *f, const struct tracker_file *tracker, ckpt_str name,
                               ckpt_error *err)
{
    ckpt_status st = part_file_enter(f, name, err);
    if (st != CKPT_ENOTFOUND)
        return st;
    (void)fail(err, st, CKPT_NO_OFFSET, "%s names {=%.*s}, and there is {no such folder}", tracker->name,
               STR_ARG(name));
    if (probe_matches(f->opening->probe, tracker->is_save))
        folder_hint(f->archive, f->folder, tracker->is_save, err);
    else
        error_add_hint(err, "that save was deleted, or not copied");
    return st;
}

void part_file_set_step(ckpt_file *f, const char *prefix)
{
    for (ckpt_str left = str_c(f->folder); left.len;) {
        size_t n = str_find(left, STR_LIT("/"), 0);
        ckpt_str name = str_of(left.ptr, n < left.len ? n : left.len);
        left = str_skip(left, name.len + 1);
        if (str_starts(name, str_c(prefix)) && str_uint(str_skip(name, strlen(prefix)), &f->ranks.step))
            f->ranks.has_step = true;
    }
}

/* open_member - opens the file of ARCHIVE that PATH, or a prefix PATH, names. */
static ckpt_status open_member(source *archive, const char *path, source **out, ckpt_error *err)
{
    char *found = path_exists(archive, path) ? NULL : path_find_prefix(archive, path);
    ckpt_status st = members_open_file(archive, found ? found : path, out, err);
    free(found);
    return st;
}

ckpt_status part_file_open(const ckpt_file *f, const char *path, struct journal_note *note, source **out,
                           ckpt_error *err)
{
    const char *file_path = strcmp(path, "-") == 0 ? "./-" : path;
    *note = (struct journal_note){.text = ""};
    if (f->archive)
        return open_member(f->archive, path, out, err);
    CKPT_TRY(path_check_regular(file_path, err));
    CKPT_TRY(format_open_source(file_path, &f->limits, note, out, err));
    if (members_is_archive(*out)) {
        source_unref(*out);
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{a folder} in an archive; {=a file} was expected");
    }
    ckpt_status st = f->check ? check_set_hint(f->check, note->text, err) : CKPT_OK;
    if (st != CKPT_OK)
        source_unref(*out);
    return st;
}

size_t part_files_max_open(void)
{
    struct rlimit max;
    bool known = getrlimit(RLIMIT_NOFILE, &max) == 0;
    return known && max.rlim_cur / 4 < MAX_OPEN ? (size_t)(max.rlim_cur / 4) : MAX_OPEN;
}

ckpt_status part_file_keep(ckpt_file *f, ckpt_file *part, ckpt_error *err)
{
    if (!file_index_names(part) || !file_add_replacements_of(f, part) || !ARENA_PUSH(f->a, f, parts, &part)) {
        file_free(part);
        return fail_memory(err);
    }
    if (part->src && f->nparts > part_files_max_open())
        source_file_park(part->src);
    return CKPT_OK;
}

/* add_size - adds the bytes of PART to those of F. Frees PART if the sum overflows. */
static ckpt_status add_size(ckpt_file *f, ckpt_file *part, ckpt_error *err)
{
    if (checked_add(f->nbytes, part->nbytes, &f->nbytes))
        return CKPT_OK;
    file_free(part);
    return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "files of {more} than {=2^64 bytes}");
}

ckpt_status part_file_add(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out, ckpt_error *err)
{
    char *path;
    source *src;
    ckpt_status st = open_file(f, trusted, name, &src, &path, err);
    if (st == CKPT_OK && f->check && (st = check_watch_source(f->check, source_ref(src), err)) != CKPT_OK)
        source_unref(src);
    CKPT_THEN(st, file_new(path, src, &f->limits, out, err));
    free(path);
    CKPT_TRY(st);
    CKPT_TRY(add_size(f, *out, err));
    return part_file_keep(f, *out, err);
}

ckpt_status part_file_read(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out, ckpt_error *err)
{
    char *path;
    source *src;
    struct journal_note note; /* the file may have been edited in place */
    ckpt_status st = find_path(f, trusted, name, &path, err);
    CKPT_THEN(st, part_file_open(f, path, &note, &src, err));
    if (st == CKPT_OK) {
        st = format_open_part(f, path, src, out, err);
        st = format_note_journal(&note, *out, st, err);
    }
    if (st == CKPT_OK && *out)
        st = add_size(f, *out, err);
    error_add_file(st == CKPT_OK ? NULL : err, path ? path : "");
    free(path);
    return st == CKPT_OK && *out ? part_file_keep(f, *out, err) : st;
}

ckpt_status part_file_replace_folder(ckpt_file *f, ckpt_str folder, ckpt_str name, ckpt_error *err)
{
    ckpt_file *shard = NULL;
    struct journal_note note;
    source *src;
    char *path = path_make(folder, name);
    CKPT_TRY_ALLOC(path, err);
    ckpt_status st = part_file_open(f, path, &note, &src, err);
    if (st == CKPT_OK) {
        st = format_open_part(f, path, src, &shard, err);
        st = format_note_journal(&note, shard, st, err);
    }
    st = name_file_if_failed(st, path, err);
    free(path);
    CKPT_TRY(st);
    if (!shard) /* its fault was reported */
        return err->status;
    file_take_over(f, shard);
    return CKPT_OK;
}

ckpt_status part_file_explain_missing(ckpt_status st, ckpt_str name, const char *hint, ckpt_error *err)
{
    if (st != CKPT_ENOTFOUND)
        return st;
    return fail(err, st, CKPT_NO_OFFSET, "{no file} {=\"%.*s\"}, which is a part of it\n%s", STR_ARG(name),
                hint);
}

ckpt_status part_file_accept_missing(ckpt_file *f, ckpt_error *err)
{
    if (f->salvage)
        return CKPT_OK;
    return f->check ? file_report_fault_as(f, CHECK_MISSING_SHARD, CKPT_ETRUNCATED, err) : CKPT_ENOTFOUND;
}

ckpt_status part_file_check_pickle(const ckpt_file *part, ckpt_error *err)
{
    for (size_t i = 0; i < part->table.nrows; i++)
        if (table_value_of(&part->table, i) && table_value_of(&part->table, i)->type == CKPT_V_TENSOR)
            return fail(err, CKPT_EFORMAT, part->src ? source_pos(part->src, 0) : CKPT_NO_OFFSET,
                        "a file in the form {%s}, where {=a pickle} belongs", part->format->title);
    return CKPT_OK;
}

ckpt_status part_file_read_pickle(ckpt_file *f, const char *trusted, ckpt_str name, ckpt_file **out,
                                  ckpt_error *err)
{
    CKPT_TRY(part_file_read(f, trusted, name, out, err));
    ckpt_status st = *out ? part_file_check_pickle(*out, err) : CKPT_OK;
    return name_file_if_failed(st, *out ? (*out)->path : "", err);
}
