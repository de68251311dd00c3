/*
 * foreign.c - naming what is not a checkpoint we read. A user who learns
 * "Git LFS pointer, run git lfs pull" is done; one who learns "invalid header
 * length 2336927755350992246" opens an issue somewhere.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "format/format.h"

#define READS "this version reads PyTorch and safetensors files"

static ckpt_str head_of(const struct probe *p) { return str_of((const char *)p->head, p->nhead); }

/* Case-insensitive for the ASCII that markup is written in. */
static bool starts_nocase(ckpt_str s, const char *z)
{
    for (size_t i = 0; z[i]; i++)
        if (i >= s.len || (s.ptr[i] | 0x20) != (z[i] | 0x20))
            return false;
    return true;
}

static ckpt_str skip_space(ckpt_str s)
{
    if (str_starts(s, STR_LIT("\xef\xbb\xbf")))
        s = str_skip(s, 3);
    while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t' || s.ptr[0] == '\r' || s.ptr[0] == '\n'))
        s = str_skip(s, 1);
    return s;
}

static ckpt_status refuse(ckpt_error *err, ckpt_status st, const char *what, const char *hint)
{
    (void)fail(err, st, CKPT_NO_OFFSET, "{%s}, not {=a checkpoint}", what);
    fail_hint(err, "%s", hint[0] ? hint : "`man ckpt-formats` lists what is read");
    return st;
}

/* The value of a "KEY VALUE\n" line of an LFS pointer. */
static ckpt_str pointer_line(ckpt_str text, const char *key)
{
    size_t at = str_find(text, str_c(key), 0);
    if (at == SIZE_MAX)
        return str_of("", 0);
    ckpt_str v = str_skip(text, at + strlen(key)); /* bounded: the key was found there */
    size_t end = str_find(v, STR_LIT("\n"), 0);
    return str_of(v.ptr, end < v.len ? end : v.len);
}

static ckpt_status lfs_pointer(const struct probe *p, ckpt_error *err)
{
    ckpt_str oid = pointer_line(head_of(p), "\noid "), size = pointer_line(head_of(p), "\nsize ");
    if (oid.len && size.len)
        (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                   "{Git LFS pointer}, not {=a checkpoint} (the real file has %.*s bytes, %.*s)",
                   STR_ARG(size), STR_ARG(oid));
    else
        (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
                   "{Git LFS pointer} without its %s line, not {=a checkpoint}", oid.len ? "size" : "oid");
    char word[SHELL_MOST]; /* --include takes patterns */
    fail_hint(err, "git lfs pull --include %s", shell_word(str_c(p->path), "*?[]!\\,", "FILE", word));
    return CKPT_EUNKNOWN;
}

static bool all_zero(const struct probe *p)
{
    for (size_t i = 0; i < p->nhead; i++)
        if (p->head[i])
            return false;
    return true;
}

/* Failed downloads: what the server said instead of the file. */
static ckpt_status answer_page(const struct probe *p, ckpt_error *err)
{
    static const char *const bodies[] = {"entry not found",  "invalid username or password", "access denied",
                                         "not found",        "repository not found",         "unauthorized",
                                         "too many requests"};
    ckpt_str s = skip_space(head_of(p));
    const char *again = "the download failed: fetch the file again, with a login if its server asks for one";
    if (starts_nocase(s, "<!doctype") || starts_nocase(s, "<html") || starts_nocase(s, "<head") ||
        starts_nocase(s, "<script"))
        return refuse(err, CKPT_EUNKNOWN, "HTML page", again);
    if (starts_nocase(s, "<?xml") || starts_nocase(s, "<error"))
        return refuse(err, CKPT_EUNKNOWN, "XML document (usually a storage server's error)", again);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (p->size < 512 && starts_nocase(s, bodies[i]))
            return refuse(err, CKPT_EUNKNOWN, "error message of a download server", again);
    return CKPT_OK;
}

static ckpt_status text_file(const struct probe *p, ckpt_error *err)
{
    ckpt_str s = skip_space(head_of(p));
    if (starts_nocase(s, "model_checkpoint_path:"))
        return refuse(err, CKPT_EUNSUPPORTED, "TensorFlow checkpoint state file",
                      "it only names checkpoint files");
    if (s.len && (s.ptr[0] == '{' || s.ptr[0] == '[')) {
        if (starts_nocase(s, "{\"error\"") || starts_nocase(s, "{\"message\""))
            return refuse(err, CKPT_EUNKNOWN, "JSON error of a download server", "fetch the file again");
        return refuse(err, CKPT_EUNKNOWN, "JSON text without a weight_map",
                      "for a sharded checkpoint name its *.index.json or its folder");
    }
    return CKPT_OK;
}

/* What kind of archive a zip is that no torch format claimed. */
static ckpt_status other_zip(const struct probe *p, ckpt_error *err)
{
    size_t npy = 0;
    bool config = false, weights = false, saved = false, id = false;
    for (size_t i = 0; i < p->z->n; i++) {
        ckpt_str n = p->z->entries[i].name;
        npy += str_ends(n, STR_LIT(".npy"));
        config |= str_is(n, "config.json");
        weights |= str_ends(n, STR_LIT("model.weights.h5"));
        saved |= str_ends(n, STR_LIT("saved_model.pb"));
        id |= str_ends(n, STR_LIT("/.data/serialization_id"));
    }
    if (p->z->n && npy == p->z->n)
        return refuse(err, CKPT_EUNSUPPORTED, "numpy archive (.npz)", READS);
    if (config && weights)
        return refuse(err, CKPT_EUNSUPPORTED, "Keras archive (.keras)", READS);
    if (saved)
        return refuse(err, CKPT_EUNSUPPORTED, "zipped TensorFlow SavedModel", READS);
    if (id) {
        (void)fail(
            err, CKPT_ETRUNCATED, source_pos(p->src, p->z->directory),
            "torch archive of {%zu records} without {=data.pkl}: left behind by a torch.save that failed",
            p->z->n);
        fail_where(err, "zip directory");
        fail_hint(err, "the tensors were never written; look for an earlier checkpoint");
        return CKPT_ETRUNCATED;
    }
    (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET,
               "zip archive of {%zu member%s} without a torch checkpoint (no {=data.pkl})", p->z->n,
               p->z->n == 1 ? "" : "s");
    fail_hint(err, "`unzip -l` shows what is in it");
    return CKPT_EUNKNOWN;
}

static bool has_file(const char *dir, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return (size_t)n < sizeof path && access(path, F_OK) == 0;
}

/* has_shard_files - "shard-00001-model-00001-of-00002.safetensors": how torch's
 * HuggingFaceStorageWriter names the parts of each rank. */
static bool has_shard_files(const char *dir)
{
    bool found = false;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = str_starts(str_c(e->d_name), STR_LIT("shard-")) &&
                str_ends(str_c(e->d_name), STR_LIT(".safetensors"));
    if (d)
        (void)closedir(d);
    return found;
}

static ckpt_status unread_directory(const char *what, ckpt_error *err)
{
    (void)fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%s, which this version does not read", what);
    fail_hint(err, "this version reads PyTorch and safetensors files, and sharded sets with an *.index.json");
    return CKPT_EUNSUPPORTED;
}

static ckpt_status directory(const struct probe *p, ckpt_error *err)
{
    static const struct {
        const char *file, *what;
    } known[] = {
        {".metadata", "PyTorch Distributed Checkpoint (DCP) directory"},
        {"__0.metadata", "PyTorch Distributed Checkpoint (DCP) directory, saved without collectives"},
        {"latest", "DeepSpeed checkpoint directory"},
        {"latest_checkpointed_iteration.txt", "Megatron-LM checkpoint directory"},
        {"saved_model.pb", "TensorFlow SavedModel directory"},
        {"manifest.ocdbt", "Orbax checkpoint directory"},
        {"_METADATA", "Orbax checkpoint directory"},
        {"checkpoint", "TensorFlow checkpoint directory"},
        {"common.pt", "Megatron distributed checkpoint directory"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (has_file(p->path, known[i].file))
            return unread_directory(known[i].what, err);
    if (has_shard_files(p->path))
        return unread_directory("PyTorch Distributed Checkpoint (DCP) directory in Hugging Face form", err);
    (void)fail(err, CKPT_EUNKNOWN, CKPT_NO_OFFSET, "directory without a recognized checkpoint");
    fail_hint(err, "name a file in it, or a folder with an *.index.json or one model.safetensors");
    return CKPT_EUNKNOWN;
}

static ckpt_status by_magic(const struct probe *p, ckpt_error *err)
{
    static const struct {
        size_t offset;
        const char *magic;
        size_t nmagic;
        ckpt_status status;
        const char *what, *hint;
    } known[] = {
#define FOREIGN(offset, magic, status, what, hint) {offset, magic, sizeof(magic) - 1, status, what, hint},
#include "format/foreign.def"
#undef FOREIGN
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ckpt_str at = str_skip(head_of(p), known[i].offset);
        if (str_starts(at, str_of(known[i].magic, known[i].nmagic)))
            return refuse(err, known[i].status, known[i].what, known[i].hint);
    }
    return CKPT_OK;
}

static ckpt_status unknown(const struct probe *p, ckpt_error *err)
{
    char hex[3 * 16 + 1] = "";
    size_t n = p->nhead < 16 ? p->nhead : 16;
    for (size_t i = 0; i < n; i++)
        (void)snprintf(hex + 3 * i, 4, i + 1 < n ? "%02x " : "%02x", p->head[i]); /* bounded: 16 at most */
    (void)fail(err, CKPT_EUNKNOWN, 0, "not {=a recognized checkpoint format}; it begins with {%s}", hex);
    fail_hint(err, "`man ckpt-formats` lists what is read");
    return CKPT_EUNKNOWN;
}

ckpt_status foreign_detect(const struct probe *p, ckpt_error *err)
{
    ckpt_str head = head_of(p);
    if (p->directory)
        return directory(p, err);
    if (p->size == 0)
        return refuse(err, CKPT_EUNKNOWN, "empty file",
                      "the download or the save never wrote anything: get the file again");
    if (str_starts(head, STR_LIT("version https://git-lfs")) ||
        str_starts(head, STR_LIT("version https://hawser")))
        return lfs_pointer(p, err);
    if (p->z)
        return other_zip(p, err);
    if (p->zip_err.status != CKPT_OK) {
        *err = p->zip_err;
        return p->zip_err.status;
    }
    if (all_zero(p))
        return refuse(err, CKPT_EUNKNOWN, "file that begins with nothing but zeros",
                      "the disk was full or the download was interrupted: get the file again");
    CKPT_TRY(answer_page(p, err));
    CKPT_TRY(by_magic(p, err));
    CKPT_TRY(text_file(p, err));
    return unknown(p, err);
}
