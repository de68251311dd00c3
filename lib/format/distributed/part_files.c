/* part_files.c - finds, checks and opens the files that a checkpoint names, and moves their pickles to it. */
#include "format/distributed/part_files.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "core/check.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/graph/persistent_id.h"
#include "format/hub/shards.h"

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
    digits.len -= after.len; /* bounded: AFTER is its end */
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

/* is_in_same_folder - returns true if the paths A and B differ in the name of the file alone. */
static bool is_in_same_folder(const char *a, const char *b)
{
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    return x && y && x - a == y - b && strncmp(a, b, (size_t)(x - a)) == 0;
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
    if (!(*path = path_make(str_c(f->folder), name)))
        return fail_memory(err);
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

static ckpt_str trim_white_space(ckpt_str s)
{
    while (s.len && (unsigned char)s.ptr[0] <= ' ')
        s = str_skip(s, 1);
    while (s.len && (unsigned char)s.ptr[s.len - 1] <= ' ')
        s.len--;
    return s;
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
    if (!kept)
        return fail_memory(err);
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
    if (probe_matches(f->probe, tracker->is_save))
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
        left = str_skip(left, name.len + 1); /* bounded: in the path */
        if (str_starts(name, str_c(prefix)) && str_uint(str_skip(name, strlen(prefix)), &f->ranks.step))
            f->ranks.has_step = true;
    }
}

ckpt_status part_file_keep(ckpt_file *f, ckpt_file *part, ckpt_error *err)
{
    if (!file_index_names(part) || !file_add_replacements_of(f, part) ||
        !arena_push(f->a, &f->parts, &f->nparts, &f->cap_parts, &part, sizeof(ckpt_file *))) {
        file_free(part);
        return fail_memory(err);
    }
    if (part->src && f->nparts > shards_max_open())
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
    if (st == CKPT_OK)
        st = file_new(path, src, &f->limits, out, err);
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
    if (st == CKPT_OK)
        st = shards_open(f, path, &note, &src, err);
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

/* ------------------------------------------------------------------------------ graphs */

/* rename_storages - puts "I/" in front of the storage keys in the pickles of PART, part I of F. */
static ckpt_status rename_storages(ckpt_file *f, const ckpt_file *part, size_t i, ckpt_error *err)
{
    for (size_t k = 0; k < part->npickles; k++)
        for (size_t n = 0; n < part->pickles[k]->npersids; n++) {
            char number[STR_NUMBER_MAX];
            struct torch_pid pid;
            ckpt_value *v = part->pickles[k]->persids[n], *item[6];
            if (!torch_pid_parse(v, &pid) || v->u.pid->type != CKPT_V_TUPLE || value_count(v->u.pid) > 6)
                continue;
            for (uint32_t t = 0; t < value_count(v->u.pid); t++)
                item[t] = value_item(v->u.pid, t);
            ckpt_str key = ARENA_CONCAT(f->a, format_number(i, number), STR_LIT("/"), pid.key);
            item[2] = key.ptr ? value_str(f->a, key) : NULL;
            v->u.pid = item[2] ? value_tuple(f->a, value_count(v->u.pid), item) : NULL;
            if (!v->u.pid)
                return fail_memory(err);
        }
    return CKPT_OK;
}

ckpt_status part_graph_take(ckpt_file *f, ckpt_file *part, ckpt_value **root, ckpt_error *err)
{
    size_t index = 0;
    while (index + 1 < f->nparts && f->parts[index] != part)
        index++;
    if (part->add_opaque_storages) /* before its storage keys change */
        CKPT_TRY(part->add_opaque_storages(part, err));
    part->add_opaque_storages = NULL;
    for (size_t i = 0; i < part->table.nrows; i++)
        if (table_value_of(&part->table, i))
            ((ckpt_value *)(uintptr_t)table_value_of(&part->table, i))->row = CKPT_NO_TENSOR;
    if (part->table.nstorages)
        CKPT_TRY(rename_storages(f, part, index, err));
    CKPT_TRY(file_add_pickles_of(f, part, err));
    *root = (ckpt_value *)(uintptr_t)file_replacement_of(part, part->root);
    return CKPT_OK;
}

/* copy_loss - makes S lost for the reason of LOSS, of part I of F. */
static ckpt_status copy_loss(ckpt_file *f, uint64_t i, const struct storage_extra *loss, struct storage *s,
                             ckpt_error *err)
{
    struct storage_extra *extra = ARENA_NEW(f->a, struct storage_extra);
    if (!extra)
        return fail_memory(err);
    *extra = *loss;
    if (!extra->file.len)
        extra->file = str_after_last(str_c(f->parts[i]->path), '/');
    s->extra = extra;
    return CKPT_OK;
}

ckpt_status part_graph_find_storage(void *user, const struct torch_pid *pid, struct storage *s,
                                    ckpt_error *err)
{
    ckpt_file *f = *(ckpt_file **)user;
    size_t slash = str_find(pid->key, STR_LIT("/"), 0);
    uint64_t i; /* index of the part */
    uint32_t at = CKPT_NO_STORAGE;
    if (slash == SIZE_MAX || !str_uint(str_of(pid->key.ptr, slash), &i) || i >= f->nparts)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "storage {%.*s} is not in {=one of the files}",
                    STR_ARG(pid->key));
    CKPT_TRY(file_storage_find(f->parts[i], str_skip(pid->key, slash + 1), &at, err)); /* bounded: found */
    if (at == CKPT_NO_STORAGE)
        return fail(err, CKPT_ETRUNCATED, CKPT_NO_OFFSET, "{=storage %.*s} is {missing}", STR_ARG(pid->key));
    const struct storage *from = &f->parts[i]->table.storages[at];
    s->src = from->src ? source_ref(from->src) : NULL;
    s->off = from->off;
    s->nbytes = from->nbytes;
    s->has_crc = from->has_crc;
    s->crc = from->crc;
    s->swap_width = from->swap_width;
    s->is_crc32c = from->is_crc32c;
    s->pieces_have_crcs = from->pieces_have_crcs;
    s->checks_itself = from->checks_itself;
    return storage_loss(from) ? copy_loss(f, i, from->extra, s, err) : CKPT_OK;
}

ckpt_status part_graph_add_unreferenced(ckpt_file *f, ckpt_error *err)
{
    struct graph_input input = {.user = &f, .find_storage = part_graph_find_storage};
    return graph_add_unreferenced_storages(f, &input, err);
}
