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
#include "format/folder.h"
#include "format/recognize.h"

static ckpt_str head_of(const struct probe *p) { return str_of((const char *)p->head, p->nhead); }

static ckpt_status refuse(ckpt_error *err, const char *what)
{
    struct signature s = {.status = CKPT_EUNSUPPORTED, .what = what, .hint = READS};
    return recognize_refuse(&s, err);
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
        return refuse(err, "numpy archive (.npz)");
    if (config && weights)
        return refuse(err, "Keras archive (.keras)");
    if (saved)
        return refuse(err, "zipped TensorFlow SavedModel");
    if (id) {
        (void)fail(
            err, CKPT_ETRUNCATED, source_pos(p->src, p->z->directory),
            "torch archive of {%zu records} without {=data.pkl}: from a torch.save that failed",
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
        {"Data/com.apple.CoreML", "Core ML package (.mlpackage)"},
        {"coremldata.bin", "compiled Core ML model (.mlmodelc)"},
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
    folder_hint(p->path, err);
    return CKPT_EUNKNOWN;
}

static ckpt_status unknown(const struct probe *p, ckpt_error *err)
{
    char hex[RECOGNIZE_HEX];
    recognize_hex(p, hex);
    (void)fail(err, CKPT_EUNKNOWN, 0, "not {=a recognized checkpoint format}; it begins with {%s}", hex);
    fail_hint(err, "`man ckpt-formats` lists what is read");
    return CKPT_EUNKNOWN;
}

ckpt_status foreign_detect(const struct probe *p, ckpt_error *err)
{
    if (p->directory)
        return directory(p, err);
    const struct signature *s = recognize(p);
    if (s && s->kind == SIGN_POINTER)
        return lfs_pointer(p, err);
    if (p->z)
        return other_zip(p, err);
    if (p->zip_err.status != CKPT_OK) {
        *err = p->zip_err;
        return p->zip_err.status;
    }
    return s ? recognize_refuse(s, err) : unknown(p, err);
}
