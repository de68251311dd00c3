/* scan.h - takes a file apart for `ckpt scan`, down to each pickle and to bytes that can only be data.
 * Private to lib/scan. ERR may not be NULL. */
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

/* A zip archive, identified by what readers of zip go by; offsets in ROOT, see source_root. */
struct opened_zip {
    const source *root;
    uint64_t end_record, directory; /* UINT64_MAX: still being scanned, or there is none */
    bool is_stray;                  /* found in bytes that belong to nothing else in ROOT */
};

/* Where the bytes of a member are. */
struct scan_extent {
    uint64_t offset, size; /* in the file; CKPT_NO_OFFSET: it is compressed */
};

struct scanner {
    struct scan *s;
    arena *a;          /* names, archives */
    const char *path;  /* of the file, for messages of format's readers */
    uint32_t depth;    /* archives and values around the current bytes */
    uint64_t unpacked; /* bytes decompressed so far */
    uint64_t file_size;
    uint64_t member_bytes;     /* of all members of zip archives scanned so far */
    const char *format;        /* of the file; NULL: not recognized yet */
    struct opened_zip *opened; /* archives in sources that are still being scanned */
    size_t nopened, cap_opened;
    bool in_stray_bytes; /* the current bytes belong to nothing in the file around them */
    bool pickle_name;    /* the current file or member is named as pickles are */
};

/* Each of these takes SRC apart, reports what it finds at WHERE, and adds to *ACCOUNTED how many of its bytes
 * have a known purpose. A status other than CKPT_OK means that scanning itself failed (memory, disk,
 * cancelled); it is not a finding. */
ckpt_status scan_bytes(struct scanner *x, source *src, ckpt_str where, enum scan_role role,
                       uint64_t *accounted, ckpt_error *err);
ckpt_status scan_pickles(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted,
                         ckpt_error *err);
ckpt_status scan_legacy(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err);
ckpt_status scan_tar(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err);
ckpt_status scan_npy(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err);
ckpt_status scan_sstable(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted,
                         ckpt_error *err);
ckpt_status scan_ocdbt(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err);
ckpt_status scan_gguf(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err);
ckpt_status scan_onnx(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err);
ckpt_status scan_text(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err);
/* scan_msgpack - *IS: SRC is MessagePack from the first byte to the last. */
ckpt_status scan_msgpack(struct scanner *x, source *src, ckpt_str where, bool *is, uint64_t *accounted,
                         ckpt_error *err);
/* scan_hdf5 - scans the attributes of SRC, HDF5; *ALL_READ: there is nothing in it that cannot be read. */
ckpt_status scan_hdf5(struct scanner *x, source *src, ckpt_str where, bool *all_read, ckpt_error *err);
/* scan_leaves_folder - does PATH lead out of the folder of the file that holds it? */
bool scan_leaves_folder(ckpt_str path);
/* scan_byte_patterns - searches SRC, of a format that is not taken apart, for the bytes of dangerous
 * features. */
ckpt_status scan_byte_patterns(struct scanner *x, source *src, ckpt_str where, bool hdf5, ckpt_error *err);
/* scan_compressed - unpacks and scans SRC. KIND: "gzip", "zlib", "bzip2" … */
ckpt_status scan_compressed(struct scanner *x, source *src, ckpt_str where, const char *kind,
                            uint64_t *accounted, ckpt_error *err);
/* scan_is_compressed - does SRC decompress as KIND, to its last byte? */
bool scan_is_compressed(struct scanner *x, source *src, const char *kind);
/* scan_max_unpacked - how many bytes SIZE compressed ones may still unpack to. */
uint64_t scan_max_unpacked(const struct scanner *x, uint64_t size);
/* scan_is_zlib - does SRC, whose first two bytes may be a zlib header, unpack to anything, or if it is TEXT,
 * to a pickle? */
bool scan_is_zlib(struct scanner *x, source *src, bool text);
/* scan_one_pickle - scans the pickle at *POS as each kind of loader reads it, and moves *POS past its end.
 * *STOPPED: it ended with STOP. */
ckpt_status scan_one_pickle(struct scanner *x, source *src, ckpt_str where, uint64_t *pos, bool *stopped,
                            ckpt_error *err);
ckpt_status scan_zip(struct scanner *x, source *src, ckpt_str where, uint64_t *accounted, ckpt_error *err);
/* scan_archive_at_end - readers of zip go by the record at the end of a file: scans the archive that they
 * would open in SRC, which is scanned as something else. */
ckpt_status scan_archive_at_end(struct scanner *x, source *src, ckpt_str where, ckpt_error *err);

/* How far bytes could be followed as a pickle that were not taken for one. */
struct scan_trial {
    uint64_t opcodes; /* that were followed */
    uint64_t failed_at;
    ckpt_error why;
};

/* scan_try_pickle - as scan_is_pickle, to the end of SRC; if false, *TRIAL is how far the first pickle went,
 * or 0 opcodes if it reached STOP. */
bool scan_try_pickle(const struct scanner *x, source *src, uint64_t pos, bool head, struct scan_trial *trial);
/* scan_is_pickle - do the bytes from POS on run as a pickle, and not merely by chance? If HEAD, PROTO and a
 * protocol number are enough, which would be too little where numbers are stored. */
bool scan_is_pickle(const struct scanner *x, source *src, uint64_t pos, uint64_t end, bool head);
/* scan_is_pickle_name - does PATH have a suffix that is usual for pickles? */
bool scan_is_pickle_name(ckpt_str path);
/* scan_check_suffix - compares the suffix of the file with its content. */
ckpt_status scan_check_suffix(struct scanner *x);
/* scan_count_bytes - adds N bytes of SRC to *COUNT, a counter of the result, if they are stored in the file
 * uncompressed. */
void scan_count_bytes(const source *src, uint64_t *count, uint64_t n);
/* scan_hash_member - reports the member SRC with its sha256, if those are asked for, and copies that to KEPT
 * if it is not NULL. */
ckpt_status scan_hash_member(struct scanner *x, source *src, ckpt_str where, unsigned readers, uint8_t *kept,
                             ckpt_error *err);
/* scan_report_member - reports a member at AT whose sha256 is known. */
ckpt_status scan_report_member(struct scanner *x, ckpt_str where, unsigned readers, struct scan_extent at,
                               const uint8_t *sum);
/* scan_join_names - "OUTER!NAME" in the arena; .ptr NULL: out of memory. */
ckpt_str scan_join_names(struct scanner *x, ckpt_str outer, ckpt_str name);
/* scan_stray_bytes - scans [FROM, TO) of SRC, which belongs to nothing in it and may be a file of its own
 * that some readers open instead. */
ckpt_status scan_stray_bytes(struct scanner *x, source *src, ckpt_str outer, uint64_t from, uint64_t to,
                             ckpt_error *err);
/* scan_report_reader - WHY the reader of a format failed, at AT: a finding, unless scanning itself failed. */
ckpt_status scan_report_reader(struct scanner *x, struct scan_place at, ckpt_str where, ckpt_error *why,
                               ckpt_error *err);
/* scan_check_format - opens SRC with the reader of FORMAT (NULL: any); its error is a finding. *END (may be
 * NULL) becomes the end of the last storage, at least 1, and is unchanged after an error. */
ckpt_status scan_check_format(struct scanner *x, source *src, ckpt_str where, const char *format,
                              uint64_t *end, ckpt_error *err);

/* scan_source - ckpt_scan of SRC, whose name is PATH. */
ckpt_status scan_source(const char *path, source *src, struct scan *s, ckpt_error *err);

#endif
