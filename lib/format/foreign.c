/* foreign.c - errors for files that are not checkpoints: "Git LFS pointer, run git lfs pull" helps a user,
 * "invalid header length 2336927755350992246" does not. */
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "format/folder.h"
#include "format/recognize.h"

static ckpt_status refuse_as(ckpt_error *err, const char *what)
{
    struct signature s = {.status = CKPT_EUNSUPPORTED, .what = what, .hint = READS};
    return recognize_refuse(&s, err);
}

/* get_pointer_value - returns the text from after KEY, such as "\noid ", to the end of the line; or empty. */
static ckpt_str get_pointer_value(ckpt_str text, const char *key)
{
    size_t at = str_find(text, str_c(key), 0);
    if (at == SIZE_MAX)
        return str_of("", 0);
    ckpt_str v = str_skip(text, at + strlen(key)); /* bounded: the key was found there */
    size_t end = str_find(v, STR_LIT("\n"), 0);
    return str_of(v.ptr, end < v.len ? end : v.len);
}

static ckpt_status refuse_lfs_pointer(const struct probe *p, ckpt_error *err)
{
    ckpt_str oid = get_pointer_value(probe_head(p), "\noid "),
             size = get_pointer_value(probe_head(p), "\nsize ");
    if (oid.len && size.len)
        (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                   "{Git LFS pointer}, not {=a checkpoint} (the real file has %.*s bytes, %.*s)",
                   STR_ARG(size), STR_ARG(oid));
    else
        (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                   "{Git LFS pointer} without its %s line, not {=a checkpoint}", oid.len ? "size" : "oid");
    char word[SHELL_WORD_MAX]; /* "FILE" if the path has wildcards: --include takes patterns */
    error_add_hint(err, "git lfs pull --include %s", shell_word(str_c(p->path), "*?[]!\\,", "FILE", word));
    return CKPT_EUNKNOWN;
}

/* refuse_zip - refuses P, a zip archive that no format recognizes; the error names what P may be. */
static ckpt_status refuse_zip(const struct probe *p, ckpt_error *err)
{
    size_t npy = 0;
    bool has_saved_model = false, has_serialization_id = false;
    for (size_t i = 0; i < p->zip->n; i++) {
        ckpt_str n = p->zip->entries[i].name;
        npy += str_ends(n, STR_LIT(".npy"));
        has_saved_model |= str_ends(n, STR_LIT("saved_model.pb"));
        has_serialization_id |= str_ends(n, STR_LIT("/.data/serialization_id"));
    }
    if (p->zip->n && npy == p->zip->n) /* numpy/npz.c reads archives at offset 0 */
        return refuse_as(err, "numpy archive (.npz) after other bytes, which numpy takes for a pickle");
    if (has_saved_model)
        return refuse_as(err, "zipped TensorFlow SavedModel");
    if (has_serialization_id) {
        ckpt_status st = fail(err, CKPT_ETRUNCATED, source_pos(p->src, p->zip->directory_at),
                              "torch archive of {%zu records} without {=data.pkl}: from a torch.save that "
                              "failed\nthe tensors were never written; look for an earlier checkpoint",
                              p->zip->n);
        return prefix_where_if_failed(st, STR_LIT("central directory"), err);
    }
    return fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                "zip archive of {%zu member%s} without a torch checkpoint (no {=data.pkl})\n"
                "`unzip -l` shows what is in it",
                p->zip->n, p->zip->n == 1 ? "" : "s");
}

static ckpt_status refuse_folder(const struct probe *p, ckpt_error *err)
{
    const struct signature *s = recognize_folder(p->path);
    if (s)
        return fail(err, s->status, CKPT_NO_OFFSET, "%s, which this version does not read\n" READS, s->what);
    struct folder d;
    folder_scan(p->names, p->nnames, &d);
    if (d.nothers || d.nsteps)
        return folder_fail_ambiguous(p->path, d.nlisted, folder_is_checkpoint, err);
    (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET, "directory without a recognized checkpoint");
    folder_hint(p->path, folder_is_checkpoint, err);
    return CKPT_EUNKNOWN;
}

/* quote_beginning - returns the first N bytes of PATH, followed by END, as shell_path quotes them. */
static const char *quote_beginning(const char *path, size_t n, const char *end, char word[SHELL_WORD_MAX])
{
    char text[4096];
    int length = snprintf(text, sizeof text, "%.*s%s", (int)n, path, end);
    return (size_t)length < sizeof text ? shell_path(text, word) : "FILE";
}

/* hint_index - hints at NAME.index if PATH is called NAME.data-00000-of-00001, as TensorFlow's data are. */
static bool hint_index(const char *path, ckpt_error *err)
{
    struct shard_name s;
    char word[SHELL_WORD_MAX];
    ckpt_str name = str_after_last(str_c(path), '/'), data = STR_LIT(".data");
    if (!shard_name_parse(name, &s) || !str_ends(s.stem, data))
        return false;
    size_t n = strlen(path) - name.len + s.stem.len - data.len; /* bounded: STEM is a part of PATH */
    error_add_hint(err, "TensorFlow reads its data by their index: name %s",
                   quote_beginning(path, n, ".index", word));
    return true;
}

static ckpt_status refuse_unknown(const struct probe *p, ckpt_error *err)
{
    char found[TEXT_BYTES_SIZE];
    (void)fail(err, CKPT_EUNKNOWN, 0, "not {=a recognized checkpoint format}; it begins with {%s}",
               text_describe_bytes(p->head, p->nhead, found));
    if (!hint_index(p->path, err))
        error_add_hint(err, "`man ckpt-formats` lists what is read");
    return CKPT_EUNKNOWN;
}

/* refuse_data_file - refuses P, a single .distcp file: the offset of each item of a Distributed Checkpoint is
 * in .metadata next to it. */
static ckpt_status refuse_data_file(const struct probe *p, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    size_t n = strlen(p->path) - str_after_last(str_c(p->path), '/').len; /* bounded: the name ends PATH */
    return fail(err, CKPT_EUNKNOWN, 0,
                "{a data file} of a Distributed Checkpoint, not {=its folder}\n"
                "name the folder: %s",
                quote_beginning(p->path, n, n ? "" : ".", word));
}

ckpt_status format_fail_unrecognized(const struct probe *p, ckpt_error *err)
{
    if (p->is_folder)
        return refuse_folder(p, err);
    const struct signature *s = recognize(p);
    if (s && s->kind == SIGN_POINTER)
        return refuse_lfs_pointer(p, err);
    if (p->zip)
        return refuse_zip(p, err);
    if (p->zip_err.status != CKPT_OK && str_ends(str_c(p->path), STR_LIT(".distcp")))
        return refuse_data_file(p, err);
    if (p->zip_err.status != CKPT_OK) {
        *err = p->zip_err;
        return p->zip_err.status;
    }
    return s ? recognize_refuse(s, err) : refuse_unknown(p, err);
}
