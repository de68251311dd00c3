/* scan.h - takes a file apart for `ckpt scan`: down to every pickle, and to bytes
 * that are nothing else than data. Private to lib/scan. ERR may not be NULL. */
#ifndef SCAN_SCAN_H
#define SCAN_SCAN_H

#include "core/findings.h"
#include "format/format.h"

enum scan_role {
    SCAN_FILE,    /* what the caller named */
    SCAN_MEMBER,  /* of an archive */
    SCAN_STORAGE, /* where an archive of torch keeps the numbers of a tensor */
    SCAN_VALUE    /* a text or bytes value of a pickle */
};

/* A zip archive by what readers go by: offsets in ROOT, see source_root. */
struct opened_zip {
    const source *root;
    uint64_t record, directory; /* UINT64_MAX: it is being scanned, or has none */
    bool stray;                 /* in bytes that belong to nothing in ROOT */
};

/* Where a member lies. */
struct scan_extent {
    uint64_t offset, size; /* in the file; CKPT_NO_OFFSET: it is packed */
};

struct scanner {
    struct scan *s;
    arena *a;          /* names, archives */
    const char *path;  /* of the file, for the readers that are asked too */
    uint32_t depth;    /* archives around what is scanned now */
    uint64_t unpacked; /* bytes that archives gave so far */
    uint64_t file_size;
    uint64_t member_bytes; /* of members of zip archives that were scanned */
    const char *format;
    struct opened_zip *opened; /* those scanned in sources that are still being scanned */
    size_t nopened, cap_opened;
    bool stray;    /* what is scanned now belongs to nothing in the file around it */
    bool promised; /* the name of the file or member at hand says that it is loaded as a pickle */
};

/* Each takes SRC apart, tells what it finds at WHERE, and adds to *KNOWN how many of
 * its bytes it knows the purpose of. A status other than CKPT_OK means that
 * scanning itself failed (memory, disk, cancelled); it is no finding. */
ckpt_status scan_bytes(struct scanner *x, source *src, ckpt_str where, enum scan_role role, uint64_t *known,
                       ckpt_error *err);
ckpt_status scan_pickles(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err);
ckpt_status scan_legacy(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err);
ckpt_status scan_tar(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err);
ckpt_status scan_npy(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err);
ckpt_status scan_gguf(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err);
ckpt_status scan_text(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err);
/* scan_msgpack - *IS: it is that, from the first byte to the last. */
ckpt_status scan_msgpack(struct scanner *x, source *src, ckpt_str where, bool *is, uint64_t *known,
                         ckpt_error *err);
/* scan_marks - what can be told by its letters of a format that is not taken apart. */
ckpt_status scan_marks(struct scanner *x, source *src, ckpt_str where, bool hdf5, ckpt_error *err);
/* scan_packed - KIND: "gzip", "zlib", "bzip2" … */
ckpt_status scan_packed(struct scanner *x, source *src, ckpt_str where, const char *kind, uint64_t *known,
                        ckpt_error *err);
/* scan_unpacks - is SRC such data, to its last byte? */
bool scan_unpacks(struct scanner *x, source *src, const char *kind);
/* scan_allowed - how many bytes SIZE packed ones may become. */
uint64_t scan_allowed(const struct scanner *x, uint64_t size);
/* scan_is_zlib - does SRC, which begins as zlib's wrapper may, unpack to anything, or if it is TEXT, to a
 * pickle? */
bool scan_is_zlib(struct scanner *x, source *src, bool text);
/* scan_one_pickle - the one at *POS in all its readings; *POS moves behind it. */
ckpt_status scan_one_pickle(struct scanner *x, source *src, ckpt_str where, uint64_t *pos, bool *stopped,
                            ckpt_error *err);
ckpt_status scan_zip(struct scanner *x, source *src, ckpt_str where, uint64_t *known, ckpt_error *err);
/* scan_end_archive - readers of zip go by the record at the end of a file: SRC, which is scanned as something
 * else, as the archive that they open. */
ckpt_status scan_end_archive(struct scanner *x, source *src, ckpt_str where, ckpt_error *err);

/* How far bytes went as a pickle that were not taken for one. */
struct scan_trial {
    uint64_t opcodes, at; /* that were followed, and where it broke off */
    ckpt_error why;
};

/* scan_try_pickle - scan_is_pickle; where it says no, *TRIAL is how far the first pickle went, unless that
 * came to its STOP: then there are 0 opcodes. */
bool scan_try_pickle(const struct scanner *x, source *src, uint64_t pos, bool head, struct scan_trial *trial);
/* scan_is_pickle - do the bytes from POS on run as a pickle, as far as that is no chance? By
 * HEAD, two bytes of a protocol are enough: too little where numbers are kept. */
bool scan_is_pickle(const struct scanner *x, source *src, uint64_t pos, uint64_t end, bool head);
/* scan_promised - does PATH end as the names of pickles do? */
bool scan_promised(ckpt_str path);
/* scan_suffix - holds the name of the file against what it turned out to be. False: stop. */
bool scan_suffix(struct scanner *x);
/* scan_known - N more bytes of SRC are of the kind that *KIND of the result counts, if they lie in the file
 * as they are. */
void scan_known(const source *src, uint64_t *kind, uint64_t n);
/* scan_sum - tells the member SRC with its sum, if sums are wanted, and copies it to KEPT, if that is not
 * NULL. */
ckpt_status scan_sum(struct scanner *x, source *src, ckpt_str where, unsigned readers, uint8_t *kept,
                     ckpt_error *err);
/* scan_sum_tell - the same of N bytes at OFFSET of the file whose sum is known. False: stop. */
bool scan_sum_tell(struct scanner *x, ckpt_str where, unsigned readers, struct scan_extent at,
                   const uint8_t *sum);
/* scan_join - "OUTER!name" in the arena; .ptr NULL: no memory. */
ckpt_str scan_join(struct scanner *x, ckpt_str outer, ckpt_str name);
/* scan_stray - [FROM, TO) of SRC belongs to nothing that stands there, and may be a file of its own, which
 * some readers open instead. */
ckpt_status scan_stray(struct scanner *x, source *src, ckpt_str outer, uint64_t from, uint64_t to,
                       ckpt_error *err);
/* scan_strict - what the strict reader of FORMAT (NULL: any) says of SRC: a finding if
 * it refuses. *END, may be NULL, is the first byte behind the last storage it knows, at
 * least 1; untouched if it refuses. */
ckpt_status scan_strict(struct scanner *x, source *src, ckpt_str where, const char *format, uint64_t *end,
                        ckpt_error *err);

/* scan_source - SRC, which is called PATH, for ckpt_scan. */
ckpt_status scan_source(const char *path, source *src, struct scan *s, ckpt_error *err);

#endif
