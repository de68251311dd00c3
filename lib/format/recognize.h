/* recognize.h - what a file is by its first bytes: the one place that knows, for the registry, for `ckpt
 * scan`, for `ckpt doctor` and for the answers to what is no checkpoint. */
#ifndef FORMAT_RECOGNIZE_H
#define FORMAT_RECOGNIZE_H

#include "format/format.h"

#define READS "this version reads PyTorch and safetensors files"


enum signature_kind {
    SIGN_SAFETENSORS,
    SIGN_ZIP,
    SIGN_LEGACY, /* torch.save before 1.6 */
    SIGN_TAR,
    SIGN_GGUF,
    SIGN_NPY,
    SIGN_HDF5,
    SIGN_JOBLIB,
    SIGN_PACKED,  /* compressed, or an archive that has to be unpacked first */
    SIGN_ZLIB,    /* the same, to be trusted less: two bytes, and data that can be inflated */
    SIGN_POINTER, /* to a file that is kept elsewhere */
    SIGN_FOLDER,
    SIGN_OTHER
};

struct signature {
    enum signature_kind kind;
    const char *id; /* of PACKED and ZLIB: the compression; else ckpt doctor's, or NULL */
    size_t offset;
    const char *magic; /* NULL: TEST; of a folder: a file that is in it */
    size_t nmagic;
    bool (*test)(const struct probe *p);
    ckpt_status status;
    const char *what, *hint;
    uint32_t fix; /* ckpt_fix_action, or 0 */
};

/* recognize - the row of signatures.def that P is; NULL: none. */
const struct signature *recognize(const struct probe *p);
/* recognize_folder - the same of the folder PATH. */
const struct signature *recognize_folder(const char *path);
/* recognize_safetensors - a header length, and JSON after it, which may begin with white space. */
bool recognize_safetensors(const struct probe *p);
/* recognize_legacy - does P begin with the magic number that torch.save wrote before 1.6? A tar may, too,
 * which torch.load opens first. */
bool recognize_legacy(const struct probe *p);
/* recognize_archive - does P begin as a zip archive, or end with the end record of one? */
bool recognize_archive(const struct probe *p);
/* recognize_as - does a row of KIND hold for P, whichever comes first? */
bool recognize_as(const struct probe *p, enum signature_kind kind);
/* recognize_pickle - does P begin as a pickle of protocol 2 to 5? */
bool recognize_pickle(const struct probe *p);
/* recognize_json - is the first character of P that of an object or array of JSON, or not in its head? */
bool recognize_json(const struct probe *p);
/* recognize_zlib - does P begin as zlib's wrapper may? Two bytes: text may, too. */
bool recognize_zlib(const struct probe *p);
/* recognize_refuse - the answer for what S is, which is no checkpoint. */
ckpt_status recognize_refuse(const struct signature *s, ckpt_error *err);
/* recognize_joblib - the row of joblib's dumps, for who finds only later that it has one. */
const struct signature *recognize_joblib(void);
/* recognize_fill - SRC as a probe; PATH as there. */
ckpt_status recognize_fill(struct probe *p, const char *path, source *src, ckpt_error *err);

#endif
