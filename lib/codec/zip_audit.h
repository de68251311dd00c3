/* zip_audit.h - lists the members of an archive as any reader might see them: by the central directory, by
 * the local headers, and headers that the central directory does not list. zip_layout.c refuses an archive
 * that contradicts itself; here each contradiction is reported and reading continues. */
#pragma once

#include "io/source.h"

/* A member as one of its headers describes it. */
struct zip_view {
    ckpt_str name;
    uint64_t local_header_at;
    uint64_t described_at; /* offset of the header, central or local, that the other fields are from */
    uint64_t data_offset, csize, usize;
    uint32_t crc, time;
    uint16_t method, flags;
    bool listed;    /* in the central directory */
    bool reachable; /* its payload is within the file */
    bool disputed;  /* a second view of the same local header has other bytes as its payload */
};

/* A contradiction between two headers, or between readers. */
struct zip_flaw {
    ckpt_str name;         /* of the member; empty: it concerns the archive */
    const char *what;      /* what the two values are: "the method" */
    uint64_t at, other_at; /* offsets of the two headers; CKPT_NO_OFFSET: there is only one */
    uint64_t value, other_value;
    const char *message; /* instead of WHAT; VALUE, unless 0, is shown after it. NULL: there are two values */
    uint64_t from, n;    /* bytes in no member (also a comment) that are to be scanned; n 0: none */
    bool hexadecimal;    /* how to show the values */
};

struct zip_audit {
    source *src;
    arena *a;
    void (*flaw)(void *user, const struct zip_flaw *f);
    void *user;
    bool names_are_keys;    /* as in .npz, not paths: only equal names are a flaw */
    bool open_reported;     /* zip_open failed, and its error is reported already */
    struct zip_view *views; /* in the order of their entries, then those not in the central directory */
    size_t n, cap;
    /* Offsets; archive_end is that of the first byte after the end record, end_record_at is 0 if there is no
     * end record. */
    uint64_t first_member_at, directory_at, archive_end, end_record_at;
};

/* zip_audit - fills in the views, and calls flaw for each contradiction. Returns CKPT_OK even if the archive
 * is unusable: then the views are the members that could be found. */
ckpt_status zip_audit(struct zip_audit *audit, ckpt_error *err);
