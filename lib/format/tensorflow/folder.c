/*
 * folder.c - finds the checkpoint in a folder of TensorFlow: the variables of a SavedModel, or the latest
 * checkpoint that the state file names (tensorflow/python/checkpoint/checkpoint_management.py,
 * checkpoint_state.proto):
 *
 *   saved_model.pb   and variables/variables.index
 *   checkpoint       protobuf as text: model_checkpoint_path: "PREFIX", the latest; and for all checkpoints
 *                    that were kept, oldest first, all_model_checkpoint_paths and
 *                    all_model_checkpoint_timestamps (seconds since 1970)
 *   *.index          the only one, in a folder without the two files above
 *
 * Paths are relative to the folder. Of an absolute path, only the last part is used, because the folder may
 * have moved since. Refused: names that lead out of the folder.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "codec/sstable.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/parts/part_files.h"
#include "format/recognize.h"

#define STATE_NAME "checkpoint"
#define STATE_MAX  (1u << 20) /* bytes of the state file */
#define MAX_LISTED 8u         /* checkpoints in a notice */

static bool is_index(ckpt_str name) { return str_ends(name, STR_LIT(".index")) && name.len <= 255; }

/* count_indexes - counts the *.index files in PROBE that are tables, and sets *NAME to the first of them. */
static unsigned count_indexes(const struct probe *probe, const char **name)
{
    unsigned n = 0;
    for (size_t i = 0; i < probe->nnames; i++) {
        source *src = is_index(probe->names[i]) ? probe_open(probe, probe->names[i].ptr) : NULL;
        if (src && sstable_has_magic(src) && n++ == 0)
            *name = probe->names[i].ptr;
        source_unref(src);
    }
    return n;
}

struct state {
    arena *a;
    ckpt_str latest;
    ckpt_str *paths; /* all_model_checkpoint_paths */
    double *times;   /* all_model_checkpoint_timestamps: as many as PATHS, or fewer */
    size_t npaths, cap_paths, ntimes, cap_times;
};

/* read_octal - returns the value of the octal digits, at most three, that TEXT begins with; *COUNT: how
 * many. */
static unsigned char read_octal(ckpt_str text, size_t *count)
{
    unsigned v = 0;
    for (*count = 0; *count < 3 && *count < text.len && text.ptr[*count] >= '0' && text.ptr[*count] <= '7';
         ++*count)
        v = v * 8 + (unsigned)(text.ptr[*count] - '0');
    return (unsigned char)v;
}

/* unquote - returns the quoted text that TEXT begins with. .ptr NULL: TEXT has no such text, or memory ran
 * out. */
static ckpt_str unquote(arena *a, ckpt_str text)
{
    ckpt_str none = {NULL, 0};
    char *out = text.len ? arena_alloc(a, text.len) : NULL;
    size_t n = 0, i = 1, digits;
    char quote = text.len ? text.ptr[0] : 0;
    if (!out || (quote != '"' && quote != '\''))
        return none;
    while (i < text.len && text.ptr[i] != quote) {
        if (text.ptr[i] != '\\' || i + 1 >= text.len) {
            out[n++] = text.ptr[i++];
            continue;
        }
        unsigned char code = read_octal(str_skip(text, i + 1), &digits);
        char c = text.ptr[i + 1];
        out[n++] = digits ? (char)code : c == 'n' ? '\n' : c == 't' ? '\t' : c;
        i += digits ? 1 + digits : 2;
    }
    return i < text.len ? str_of(out, n) : none;
}

static bool add_time(struct state *state, ckpt_str number)
{
    char text[64];
    size_t n = number.len < sizeof text - 1 ? number.len : sizeof text - 1;
    memcpy(text, number.ptr, n);
    text[n] = 0;
    double seconds = strtod(text, NULL);
    return ARENA_PUSH(state->a, state, times, &seconds);
}

/* read_line - reads LINE into STATE; false: no memory, or a path without quotes. */
static bool read_line(struct state *state, ckpt_str line)
{
    line = recognize_skip_space(line);
    size_t colon = str_find(line, STR_LIT(":"), 0);
    ckpt_str key = str_of(line.ptr, colon < line.len ? colon : 0),
             value = recognize_skip_space(str_skip(line, key.len + 1));
    if (str_is(key, "all_model_checkpoint_timestamps"))
        return add_time(state, value);
    bool latest = str_is(key, "model_checkpoint_path");
    if (!latest && !str_is(key, "all_model_checkpoint_paths"))
        return true;
    ckpt_str path = unquote(state->a, value);
    if (latest)
        state->latest = path;
    return path.ptr && (latest || ARENA_PUSH(state->a, state, paths, &path));
}

static ckpt_status read_state(source *src, struct state *state, ckpt_error *err)
{
    size_t n = (size_t)src->size;
    char *text = src->size <= STATE_MAX ? arena_alloc(state->a, n) : NULL;
    if (src->size > STATE_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "a state file of {%" PRIu64 " bytes}; {=%u} are allowed", src->size, STATE_MAX);
    CKPT_TRY_ALLOC(text, err);
    CKPT_TRY(source_read(src, 0, text, n, err));
    ckpt_str left = str_of(text, n);
    while (left.len) {
        size_t end = str_find(left, STR_LIT("\n"), 0);
        ckpt_str line = str_of(left.ptr, end < left.len ? end : left.len);
        if (!read_line(state, line))
            return fail(err, CKPT_EFORMAT, (uint64_t)(line.ptr - text),
                        "{a line} that does not have the form {=name: \"value\"}");
        left = str_skip(left, line.len + 1);
    }
    return state->latest.len
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{no} {=model_checkpoint_path} in the state file");
}

/* format_time - sets OUT to " (2024-05-06 07:08:09 UTC)", or to "" if SECONDS is out of range. */
static void format_time(double seconds, char out[64])
{
    time_t at = seconds >= 0 && seconds < 1e11 ? (time_t)seconds : 0;
    struct tm tm;
    out[0] = 0;
    if (at && gmtime_r(&at, &tm))
        (void)strftime(out, 64, " (%Y-%m-%d %H:%M:%S UTC)", &tm);
}

/* notice_checkpoints - lists the checkpoints in the state file, the latest first, if there are several. */
static void notice_checkpoints(ckpt_file *f, const struct state *state)
{
    buf b;
    char time_text[64] = "";
    size_t shown = 0;
    buf_init(&b, 65536);
    for (size_t i = state->npaths; COUNT_DOWN(i) && shown < MAX_LISTED;) {
        format_time(i < state->ntimes ? state->times[i] : -1, time_text);
        buf_put_cstr(&b, shown++ ? ", " : "");
        buf_put_str(&b, state->paths[i]);
        buf_put_cstr(&b, time_text);
    }
    if (state->npaths > shown)
        buf_printf(&b, " and %zu more", state->npaths - shown);
    if (state->npaths > 1 && buf_ok(&b))
        file_notice(f, "%zu checkpoints, the latest first, which is read: %.*s", state->npaths, (int)b.len,
                    (const char *)b.data);
    buf_free(&b);
}

static ckpt_status open_latest(ckpt_file *f, ckpt_str folder, const struct state *state, ckpt_error *err)
{
    ckpt_str name = state->latest;
    if (name.ptr[0] == '/')
        name = str_after_last(name, '/');
    if (path_is_unsafe(name))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "the state file names {\"%.*s\"}, which is not {=in its folder}", STR_ARG(state->latest));
    ckpt_status st = part_file_replace_folder(f, folder, name, err);
    if (st != CKPT_ENOTFOUND)
        return st;
    (void)fail(err, st, CKPT_NO_OFFSET,
               "{no file} of the checkpoint {=%.*s} that the state file names\n"
               "name another checkpoint of the folder, such as PREFIX.index",
               STR_ARG(state->latest));
    error_add_where(err, "model_checkpoint_path");
    return st;
}

/* read_state_file - replaces F by the latest checkpoint that the state file SRC names. F is that file or its
 * FOLDER. */
static ckpt_status read_state_file(ckpt_file *f, ckpt_str folder, source *src, ckpt_error *err)
{
    struct state state = {.a = arena_new(STATE_MAX * UINT64_C(32))};
    char *kept = strndup(folder.ptr, folder.len); /* FOLDER may be a range of f->path, which is replaced */
    ckpt_status st = state.a && kept ? read_state(src, &state, err) : fail_memory(err);
    CKPT_THEN(st, open_latest(f, str_c(kept), &state, err));
    if (st == CKPT_OK)
        notice_checkpoints(f, &state);
    else if (!err->file[0])
        error_add_position(err, 0, STR_LIT("state file"));
    free(kept);
    arena_free(state.a);
    return st;
}

static bool has_state_file(const struct probe *probe)
{
    char head[PROBE_HEAD];
    return recognize_tensorflow_state(probe_read_head(probe, STATE_NAME, head, sizeof head));
}

static bool probe(const struct probe *this_probe)
{
    const char *name;
    if (!this_probe->is_folder)
        return recognize_tensorflow_state(probe_head(this_probe));
    return probe_has(this_probe, "saved_model.pb") || has_state_file(this_probe) ||
           count_indexes(this_probe, &name);
}

static ckpt_status read_folder_state(ckpt_file *f, ckpt_error *err)
{
    source *src;
    char *path = path_make(str_c(f->path), STR_LIT(STATE_NAME));
    ckpt_status st = path ? source_open_in(f->archive, path, &src, err) : fail_memory(err);
    if (st == CKPT_OK) {
        st = read_state_file(f, str_c(f->path), src, err);
        source_unref(src);
        if (st == CKPT_OK && !file_note_read(f, path)) /* F is the checkpoint now */
            st = fail_memory(err);
    }
    free(path);
    return st;
}

static ckpt_status read_saved_model(ckpt_file *f, ckpt_error *err)
{
    char *graph = path_make(str_c(f->path), STR_LIT("saved_model.pb"));
    ckpt_status st = part_file_replace_folder(f, str_c(f->path), STR_LIT("variables/variables.index"), err);
    if (st == CKPT_ENOTFOUND)
        error_add_hint(err,
                       "this SavedModel has no variables: its weights, if any, are constants of the graph");
    if (st == CKPT_OK && !(graph && file_note_read(f, graph))) /* F is the checkpoint now */
        st = fail_memory(err);
    free(graph);
    return st;
}

static ckpt_status read_folder(ckpt_file *f, ckpt_error *err)
{
    const char *name = NULL;
    if (probe_has(f->opening->probe, "saved_model.pb"))
        return read_saved_model(f, err);
    if (has_state_file(f->opening->probe))
        return read_folder_state(f, err);
    unsigned n = count_indexes(f->opening->probe, &name);
    if (!n)
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "the index was removed while it was read");
    if (n == 1)
        return part_file_replace_folder(f, str_c(f->path), str_c(name), err);
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "folder with {%u checkpoints}, and no file that names {=the latest}\n"
                "name one of them, such as %s",
                n, name);
}

static ckpt_status read_file(ckpt_file *f, ckpt_error *err)
{
    if (!f->src)
        return read_folder(f, err);
    ckpt_str folder = folder_of(f);
    source *src = source_ref(f->src);
    ckpt_status st = read_state_file(f, folder.len ? folder : STR_LIT("."), src, err);
    source_unref(src);
    return st;
}

const struct format format_tf_folder = {
    .name = "tf-folder", .title = "TensorFlow folder", .probe = probe, .read = read_file};
