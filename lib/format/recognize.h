/* recognize.h - recognizes files by their first bytes, for the registry, `ckpt scan`, `ckpt doctor` and the
 * messages about files that are no checkpoints. */
#ifndef FORMAT_RECOGNIZE_H
#define FORMAT_RECOGNIZE_H

#include "format/format.h"

#define READS "`ckpt help formats` describes what this version reads"

enum signature_kind {
    SIGN_SAFETENSORS,
    SIGN_ZIP,
    SIGN_LEGACY, /* torch.save before 1.6 */
    SIGN_TAR,
    SIGN_GGUF,
    SIGN_NPY,
    SIGN_HDF5,
    SIGN_ONNX,
    SIGN_JOBLIB,
    SIGN_COMPRESSED, /* compressed, or an archive that must be unpacked first */
    SIGN_ZLIB,       /* the same, less certain: two bytes, and data that can be inflated */
    SIGN_POINTER,    /* to a file that is kept elsewhere */
    SIGN_FOLDER,
    SIGN_OTHER
};

struct signature {
    enum signature_kind kind;
    const char *id; /* of COMPRESSED and ZLIB: the compression; else the id in ckpt doctor, or NULL */
    size_t offset;
    const char *magic; /* NULL: TEST is called; of a folder: a file in it */
    size_t nmagic;
    bool (*test)(const struct probe *p);
    ckpt_status status;
    const char *what, *hint;
    uint32_t fix; /* ckpt_fix_action, or 0 */
};

/* recognize - the first row of signatures.def that matches P; NULL: none. */
const struct signature *recognize(const struct probe *p);
/* recognize_folder - the same for the folder PATH. */
const struct signature *recognize_folder(const char *path);
/* recognize_safetensors - a header length, and JSON after it, which may begin with white space. */
bool recognize_safetensors(const struct probe *p);
/* recognize_legacy - does P begin with the magic number that torch.save wrote before 1.6? A tar may do so,
 * too; torch.load tries tar first. */
bool recognize_legacy(const struct probe *p);
/* recognize_archive - does P begin as a zip archive, or end with the end record of one? */
bool recognize_archive(const struct probe *p);
/* recognize_as - does any row of KIND match P? */
bool recognize_as(const struct probe *p, enum signature_kind kind);
/* recognize_pickle - does P begin as a pickle of protocol 2 to 5? */
bool recognize_pickle(const struct probe *p);
/* recognize_json - is the first character of P that of an object or array of JSON, or not in its head? */
bool recognize_json(const struct probe *p);
/* recognize_zlib - does P begin with a valid zlib header? It has two bytes: a text may, too. */
bool recognize_zlib(const struct probe *p);
/* recognize_refuse - the error for S, which is no checkpoint. */
ckpt_status recognize_refuse(const struct signature *s, ckpt_error *err);
/* recognize_fill - sets P from SRC; PATH is for messages. */
ckpt_status recognize_fill(struct probe *p, const char *path, source *src, ckpt_error *err);

#endif
