/* recognize.h - recognizes files by their first bytes, for the registry, `ckpt scan`, `ckpt doctor` and
 * errors about files that are not checkpoints. */
#pragma once

#include "format/format.h"

#define READS "`ckpt help formats` describes what this version reads"

enum signature_kind {
    SIGN_SAFETENSORS,
    SIGN_ZIP,
    SIGN_LEGACY, /* torch.save before 1.6 */
    SIGN_TAR,
    SIGN_MOBILE, /* TorchScript as a FlatBuffer */
    SIGN_GGUF,
    SIGN_NPY,
    SIGN_HDF5,
    SIGN_ONNX,
    SIGN_JOBLIB,
    SIGN_COMPRESSED, /* compressed, or an archive to unpack first */
    SIGN_ZLIB,       /* zlib, which is less certain: a header of two bytes and data that can be inflated */
    SIGN_POINTER,    /* a Git LFS pointer */
    SIGN_ICLOUD,
    SIGN_LINK,
    SIGN_OPENVINO,
    SIGN_MINDSPORE,
    SIGN_TENSORIZER,
    SIGN_THINC,
    SIGN_OTHER,
    SIGN_FOLDER,   /* this and the following: folders */
    SIGN_UNPACKED, /* a folder: the members of a torch archive */
    SIGN_HUB_CACHE /* a folder with a folder for each revision of a repository */
};

struct signature {
    enum signature_kind kind;
    const char *id; /* of COMPRESSED and ZLIB: the compression; else the id in `ckpt doctor`, or NULL */
    size_t offset;
    const char *magic; /* the bytes at OFFSET, or a file in the folder; NULL: TEST is called */
    size_t nmagic;
    const char *content; /* a text in that file of the folder, or NULL */
    bool (*test)(const struct probe *p);
    ckpt_status status;
    const char *what, *hint;
    uint32_t fix; /* ckpt_fix_action, or 0 */
};

/* probe_head - returns the first bytes of PROBE. */
static inline ckpt_str probe_head(const struct probe *probe)
{
    return str_of((const char *)probe->head, probe->nhead);
}
/* recognize - returns the first row of signatures.def that matches PROBE, or NULL. */
const struct signature *recognize(const struct probe *probe);
/* recognize_folder - returns the first row that matches the folder PATH in ARCHIVE (NULL: on disk), or
 * NULL. */
const struct signature *recognize_folder(source *archive, const char *path);
/* recognize_safetensors - returns true if PROBE begins with a header length and JSON, with or without white
 * space. */
bool recognize_safetensors(const struct probe *probe);
/* recognize_safetensors_at - returns true if a safetensors file begins at byte AT of SRC. */
bool recognize_safetensors_at(source *src, uint64_t at);
/* recognize_legacy - returns true if PROBE begins with the magic number that torch.save wrote before 1.6. A
 * tar may begin with it, too, and torch.load tries tar first. */
bool recognize_legacy(const struct probe *probe);
/* recognize_magic_number - returns true if HEAD is that number, pickled in protocol 2 or later. */
bool recognize_magic_number(ckpt_str head);
/* recognize_archive - returns true if PROBE begins as a zip archive or ends with an end record. */
bool recognize_archive(const struct probe *probe);
/* recognize_kind - returns the first row of KIND that matches PROBE, or NULL; recognize_as - whether there is
 * one. */
const struct signature *recognize_kind(const struct probe *probe, enum signature_kind kind);
bool recognize_as(const struct probe *probe, enum signature_kind kind);
/* recognize_pickle - returns true if PROBE begins as a pickle of protocol 2 to 5. */
bool recognize_pickle(const struct probe *probe);
/* recognize_joblib - returns true if BYTES begin as a file of joblib.dump: a pickle that names the module of
 * joblib's class for arrays in its first JOBLIB_HEAD bytes. */
#define JOBLIB_HEAD 65536u
bool recognize_joblib(source *bytes);
/* recognize_json - returns true if the first character of PROBE begins a JSON object or array, or if the head
 * has only white space and is not the entire file. */
bool recognize_json(const struct probe *probe);
/* recognize_tfjs - returns true if PROBE is a model.json of TensorFlow.js: a JSON object that describes a
 * network or names files of weights. The weights come after the network, which may be large. */
bool recognize_tfjs(const struct probe *probe);
/* recognize_skip_space - returns TEXT without the byte order mark and the white space that it begins with. */
ckpt_str recognize_skip_space(ckpt_str text);
/* recognize_tensorflow_state - returns true if HEAD begins a state file of TensorFlow, which names the latest
 * checkpoint. */
bool recognize_tensorflow_state(ckpt_str head);
/* recognize_zlib - returns true if PROBE begins with a zlib header. Text may begin with the same two
 * bytes. */
bool recognize_zlib(const struct probe *probe);
/* recognize_get_link - returns the target of the symbolic link that PROBE has as text, or an empty text. */
ckpt_str recognize_get_link(const struct probe *probe);
/* recognize_add_hint - sets the hint of ERR to that of SIGNATURE, in which FILE becomes PATH, unless there is
 * one already. */
void recognize_add_hint(const struct signature *signature, const char *path, ckpt_error *err);
/* recognize_refuse - fails because PATH, a file as SIGNATURE describes, is not a checkpoint. */
ckpt_status recognize_refuse(const struct signature *signature, const char *path, ckpt_error *err);
/* recognize_fill - sets PROBE from SRC. PATH is its name in messages. */
ckpt_status recognize_fill(struct probe *probe, const char *path, source *src, ckpt_error *err);
