/* foreign.c - errors for files that are not checkpoints: "Git LFS pointer, run git lfs pull" helps a user,
 * "invalid header length 2336927755350992246" does not. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/files/path.h"
#include "format/foreign.h"
#include "format/recognize.h"

static ckpt_status refuse_as(ckpt_error *err, const char *what)
{
    struct signature s = {.status = CKPT_EUNSUPPORTED, .what = what, .hint = READS};
    return recognize_refuse(&s, "", err);
}

/* get_pointer_value - returns the text from after KEY, such as "\noid ", to the end of the line; or empty. */
static ckpt_str get_pointer_value(ckpt_str text, const char *key)
{
    size_t at = str_find(text, str_c(key), 0);
    if (at == SIZE_MAX)
        return str_of("", 0);
    ckpt_str v = str_skip(text, at + strlen(key));
    size_t end = str_find(v, STR_LIT("\n"), 0);
    v.len = end < v.len ? end : v.len;
    v.len -= str_ends(v, STR_LIT("\r")); /* git on Windows may have changed the ends of lines */
    return v;
}

static ckpt_status refuse_lfs_pointer(const struct probe *probe, ckpt_error *err)
{
    ckpt_str oid = get_pointer_value(probe_head(probe), "\noid "),
             size = get_pointer_value(probe_head(probe), "\nsize ");
    if (oid.len && size.len)
        (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                   "{Git LFS pointer}, not {=a checkpoint} (the real file has %.*s bytes, %.*s)",
                   STR_ARG(size), STR_ARG(oid));
    else
        (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                   "{Git LFS pointer} without its %s line, not {=a checkpoint}", oid.len ? "size" : "oid");
    char word[SHELL_WORD_MAX]; /* "FILE" if the path has wildcards: --include takes patterns */
    error_add_hint(err, "git lfs pull --include %s",
                   shell_word(str_c(probe->path), "*?[]!\\,", "FILE", word));
    return CKPT_EUNKNOWN;
}

/* refuse_zip - refuses PROBE, a zip archive that no format recognizes; the error names what PROBE may be. */
static ckpt_status refuse_zip(const struct probe *probe, ckpt_error *err)
{
    size_t npy = 0;
    bool has_saved_model = false, has_serialization_id = false;
    for (size_t i = 0; i < probe->zip->n; i++) {
        ckpt_str n = probe->zip->entries[i].name;
        npy += str_ends(n, STR_LIT(".npy"));
        has_saved_model |= str_ends(n, STR_LIT("saved_model.pb"));
        has_serialization_id |= str_ends(n, STR_LIT("/.data/serialization_id"));
    }
    if (probe->zip->n && npy == probe->zip->n) /* numpy/npz.c reads archives at offset 0 */
        return refuse_as(err, "numpy archive (.npz) after other bytes, which numpy takes for a pickle");
    if (has_saved_model)
        return refuse_as(err, "zipped TensorFlow SavedModel");
    if (has_serialization_id) {
        ckpt_status st = fail(err, CKPT_ETRUNCATED, source_pos(probe->src, probe->zip->directory_at),
                              "torch archive of {%zu records} without {=data.pkl}: from a torch.save that "
                              "failed\nthe tensors were never written; look for an earlier checkpoint",
                              probe->zip->n);
        return prefix_where_if_failed(st, STR_LIT("central directory"), err);
    }
    return fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                "zip archive of {%zu member%s} without a torch checkpoint (no {=data.pkl})\n"
                "`unzip -l` lists its members; FILE!MEMBER reads one of them",
                probe->zip->n, probe->zip->n == 1 ? "" : "s");
}

static ckpt_status refuse_link(const struct probe *probe, const struct signature *signature, ckpt_error *err)
{
    return fail(err, signature->status, CKPT_NO_OFFSET,
                "{%s}, not {=a checkpoint}: it points to %.*s\n"
                "name that file, or copy or check out again with links",
                signature->what, STR_ARG(recognize_get_link(probe)));
}

/* refuse_icloud_stub - refuses PROBE, .NAME.icloud, which stands for NAME. */
static ckpt_status refuse_icloud_stub(const struct probe *probe, const struct signature *signature,
                                      ckpt_error *err)
{
    char word[SHELL_WORD_MAX], path[4096];
    ckpt_str name = str_after_last(str_c(probe->path), '/');
    size_t folder = strlen(probe->path) - name.len;
    ckpt_str original = str_of(name.ptr + 1, name.len - strlen(".icloud") - 1);
    int n = snprintf(path, sizeof path, "%.*s%.*s", (int)folder, probe->path, (int)original.len,
                     original.ptr);
    (void)fail(err, signature->status, CKPT_NO_OFFSET, "{%s}, not {=a checkpoint}", signature->what);
    error_add_hint(err, "`brctl download %s` fetches it",
                   (size_t)n < sizeof path ? shell_path(path, word) : "FILE");
    return signature->status;
}

/* find_new_archive - writes to OUT a name, such as NAME and SUFFIX, for an archive in the folder PARENT; zip
 * would change an archive that exists. */
static const char *find_new_archive(ckpt_str parent, ckpt_str name, const char *suffix,
                                    char out[SHELL_WORD_MAX])
{
    char path[4096], number[16] = "";
    for (unsigned i = 2; i < 100; i++) {
        int n = snprintf(path, sizeof path, "%.*s%.*s%s%s", (int)parent.len, parent.ptr, (int)name.len,
                         name.ptr, number, suffix);
        if ((size_t)n < sizeof path && access(path, F_OK) != 0)
            return shell_word(str_skip(str_c(path), parent.len), "", "NAME.pt", out);
        (void)snprintf(number, sizeof number, "-%u", i);
    }
    return "NAME.pt";
}

/* refuse_unpacked - refuses PROBE, the folder of the members of a torch archive. torch reads archives whose
 * members are in one folder; to torch.export, an entry for the folder `models` itself would be a model. */
static ckpt_status refuse_unpacked(const struct probe *probe, const struct signature *signature,
                                   ckpt_error *err)
{
    char folder[SHELL_WORD_MAX], word[SHELL_WORD_MAX], archive[SHELL_WORD_MAX];
    ckpt_str path = str_c(probe->path);
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    ckpt_str last = str_after_last(path, '/'), parent = str_of(path.ptr, path.len - last.len);
    const char *name = shell_word(last, "", "NAME", word);
    const char *out = find_new_archive(parent, last, signature->hint, archive);
    (void)fail(err, signature->status, CKPT_NO_OFFSET, "{%s}, not {=the archive}", signature->what);
    if (parent.len)
        error_add_hint(err, "zip it again: (cd %s && zip -0Dqr %s %s)",
                       shell_word(parent, "", "FOLDER", folder), out, name);
    else
        error_add_hint(err, "zip it again: zip -0Dqr %s %s", out, name);
    return signature->status;
}

/* refuse_hub_cache - refuses PROBE, models--NAME of the Hub's cache; names the revision that `main` refers
 * to. */
static ckpt_status refuse_hub_cache(const struct probe *probe, const struct signature *signature,
                                    ckpt_error *err)
{
    ckpt_error ignored;
    char word[SHELL_WORD_MAX], path[4096], revision[64];
    int n = snprintf(path, sizeof path, "%s/refs/main", probe->path);
    source *src = NULL;
    size_t length = 0;
    if ((size_t)n < sizeof path && source_open_in(probe->archive, path, &src, &ignored) == CKPT_OK &&
        src->size <= sizeof revision && source_read(src, 0, revision, (size_t)src->size, &ignored) == CKPT_OK)
        length = (size_t)src->size;
    source_unref(src);
    n = snprintf(path, sizeof path, "%s/snapshots/%.*s", probe->path, (int)length, revision);
    (void)fail(err, signature->status, CKPT_NO_OFFSET, "{%s}, not {=the folder of a revision}",
               signature->what);
    bool found = length && (size_t)n < sizeof path && path_is_folder(probe->archive, path);
    error_add_hint(err, found ? "name its revision: %s" : "name a folder in %s/snapshots",
                   shell_path(found ? path : probe->path, word));
    return signature->status;
}

/* find_unpacked - sets PATH to the only folder in PROBE if that is the folder of a torch archive: `unzip -d
 * PROBE` makes it. Returns its signature, or NULL. */
static const struct signature *find_unpacked(const struct probe *probe, char path[4096])
{
    if (probe->nnames != 1 || probe->names[0].len > 255)
        return NULL;
    int n = snprintf(path, 4096, "%s/%.*s", probe->path, (int)probe->names[0].len, probe->names[0].ptr);
    const struct signature *s = n < 4096 ? recognize_folder(probe->archive, path) : NULL;
    return s && s->kind == SIGN_UNPACKED ? s : NULL;
}

static ckpt_status refuse_folder(const struct probe *probe, ckpt_error *err)
{
    char inner_path[4096];
    const struct signature *s = recognize_folder(probe->archive, probe->path),
                           *inner = find_unpacked(probe, inner_path);
    if (!s && inner) {
        struct probe unpacked = *probe;
        unpacked.path = inner_path;
        return refuse_unpacked(&unpacked, inner, err);
    }
    if (s && s->kind == SIGN_UNPACKED)
        return refuse_unpacked(probe, s, err);
    if (s && s->kind == SIGN_HUB_CACHE)
        return refuse_hub_cache(probe, s, err);
    if (s) {
        (void)fail(err, s->status, CKPT_NO_OFFSET, "%s, which this version does not read", s->what);
        recognize_add_hint(s, probe->path, err);
        return s->status;
    }
    struct folder d;
    folder_scan(probe->names, probe->nnames, &d);
    if (d.nothers || d.nsteps)
        return folder_fail_ambiguous(probe->archive, probe->path, d.nlisted, folder_is_checkpoint, err);
    (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET, "directory without a recognized checkpoint");
    folder_hint(probe->archive, probe->path, folder_is_checkpoint, err);
    return CKPT_EUNKNOWN;
}

/* quote_beginning - returns the first NBYTES bytes of PATH, followed by END, as shell_path quotes them. */
static const char *quote_beginning(const char *path, size_t nbytes, const char *end,
                                   char word[SHELL_WORD_MAX])
{
    char text[4096];
    int length = snprintf(text, sizeof text, "%.*s%s", (int)nbytes, path, end);
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
    size_t n = strlen(path) - name.len + s.stem.len - data.len;
    error_add_hint(err, "TensorFlow reads its data by their index: name %s",
                   quote_beginning(path, n, ".index", word));
    return true;
}

/* hint_description - hints at the file that describes the tensors in PATH: NAME.xml of OpenVINO if PATH is
 * NAME.bin, or the folder if PATH is a file of weights of TensorFlow.js. */
static bool hint_description(const char *path, ckpt_error *err)
{
    char word[SHELL_WORD_MAX], sibling[4096];
    ckpt_str name = str_after_last(str_c(path), '/'), suffix = STR_LIT(".bin");
    size_t folder = strlen(path) - name.len;
    if (!str_ends(name, suffix))
        return false;
    int n = snprintf(sibling, sizeof sibling, "%.*s.xml", (int)(strlen(path) - suffix.len), path);
    if ((size_t)n < sizeof sibling && access(sibling, F_OK) == 0) {
        error_add_hint(err, "OpenVINO describes these weights in %s: name that", shell_path(sibling, word));
        return true;
    }
    n = snprintf(sibling, sizeof sibling, "%.*s", (int)folder, folder ? path : "");
    if (!str_starts(name, STR_LIT("group")) || (size_t)n >= sizeof sibling ||
        !folder_file_has(NULL, folder ? sibling : ".", "model.json", "weightsManifest"))
        return false;
    error_add_hint(err, "TensorFlow.js describes these weights in model.json: name the folder, %s",
                   quote_beginning(path, folder, folder ? "" : ".", word));
    return true;
}

/* hint_load_error - hints at the command that reads the error of load_state_dict, if PROBE is that text. */
static bool hint_load_error(const struct probe *probe, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    ckpt_str head = str_of((const char *)probe->head, probe->nhead);
    bool found = str_has(head, STR_LIT("key(s) in state_dict:")) ||
                 str_has(head, STR_LIT("size mismatch for "));
    if (found)
        error_add_hint(err,
                       "an error of load_state_dict: `ckpt match %s CHECKPOINT` finds rules that mend it",
                       shell_path(probe->path, word));
    return found;
}

static ckpt_status refuse_unknown(const struct probe *probe, ckpt_error *err)
{
    char found[TEXT_BYTES_SIZE];
    (void)fail(err, CKPT_EUNKNOWN, 0, "not {=a recognized checkpoint format}; it begins with {%s}",
               text_describe_bytes(probe->head, probe->nhead, found));
    if (!hint_index(probe->path, err) && !hint_description(probe->path, err) && !hint_load_error(probe, err))
        error_add_hint(err, "`man ckpt-formats` lists what is read");
    return CKPT_EUNKNOWN;
}

ckpt_status format_refuse_data_file(const char *path, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    size_t n = strlen(path) - str_after_last(str_c(path), '/').len;
    return fail(err, CKPT_EUNKNOWN, 0,
                "{a data file} of a Distributed Checkpoint, not {=its folder}\n"
                "name the folder: %s",
                quote_beginning(path, n, n ? "" : ".", word));
}

/* path_exists_beside - returns true if the folder of PATH has the file BEFORE + name of PATH + AFTER. Sets
 * OUT to its path. */
static bool path_exists_beside(const char *path, const char *before, const char *after, char out[4096])
{
    ckpt_str name = str_after_last(str_c(path), '/');
    size_t folder = strlen(path) - name.len;
    int n = snprintf(out, 4096, "%.*s%s%s%s", (int)folder, path, before, name.ptr, after);
    return (size_t)n < 4096 && access(out, F_OK) == 0;
}

/* hint_broken_link - reports where PATH, a symbolic link, points to. */
static void hint_broken_link(const char *path, ckpt_str target, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    (void)fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "a symbolic link to %.*s, which does not exist",
               STR_ARG(target));
    err->sys_errno = ENOENT;
    if (str_find(target, STR_LIT(".git/annex/objects/"), 0) != SIZE_MAX)
        error_add_hint(err, "`git annex get %s` fetches the file", shell_path(path, word));
    else if (str_find(target, STR_LIT("/blobs/"), 0) != SIZE_MAX)
        error_add_hint(err, "the Hugging Face cache has lost the file: download it again");
    else
        error_add_hint(err, "name the file itself, or make the link point to it");
}

void format_hint_missing(const char *path, ckpt_error *err)
{
    char other[4096], word[SHELL_WORD_MAX];
    ssize_t n = readlink(path, other, sizeof other);
    if (n > 0)
        hint_broken_link(path, str_of(other, (size_t)n), err);
    else if (path_exists_beside(path, "", ".dvc", other))
        error_add_hint(err, "`dvc pull %s` fetches it", shell_path(other, word));
    else if (path_exists_beside(path, ".", ".icloud", other))
        error_add_hint(err, "it is only in iCloud: `brctl download %s` fetches it", shell_path(path, word));
}

ckpt_status format_fail_unrecognized(const struct probe *probe, ckpt_error *err)
{
    if (probe->is_folder)
        return refuse_folder(probe, err);
    const struct signature *s = recognize(probe);
    if (s && s->kind == SIGN_POINTER)
        return refuse_lfs_pointer(probe, err);
    if (s && s->kind == SIGN_LINK)
        return refuse_link(probe, s, err);
    if (s && s->kind == SIGN_ICLOUD)
        return refuse_icloud_stub(probe, s, err);
    if (probe->zip)
        return refuse_zip(probe, err);
    if (probe->zip_err.status != CKPT_OK && folder_is_data_file(str_c(probe->path)))
        return format_refuse_data_file(probe->path, err);
    if (probe->zip_err.status != CKPT_OK) {
        *err = probe->zip_err;
        return probe->zip_err.status;
    }
    return s ? recognize_refuse(s, probe->path, err) : refuse_unknown(probe, err);
}
