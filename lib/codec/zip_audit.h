/* zip_audit.h - an archive as every reader might see it: what the directory says, what
 * the local headers say, what neither accounts for. zip_layout.c refuses an archive that
 * contradicts itself; here each contradiction is told and reading goes on. */
#ifndef CODEC_ZIP_AUDIT_H
#define CODEC_ZIP_AUDIT_H

#include "base/arena.h"
#include "io/source.h"

/* A member, by one of its headers. */
struct zip_view {
    ckpt_str name;
    uint64_t at;   /* of the local header */
    uint64_t from; /* of the header that tells of it: a directory entry or the local header itself */
    uint64_t data, csize, usize;
    uint32_t crc, time;
    uint16_t method, flags;
    bool listed;    /* in the directory */
    bool reachable; /* its bytes lie in the file */
    bool disputed;  /* another view of the same local header reads other bytes */
};

/* What two places, or two readers, disagree on. */
struct zip_flaw {
    ckpt_str name;      /* of the member; empty: of the archive */
    const char *what;   /* "the method" */
    uint64_t at, other; /* where the two values stand; CKPT_NO_OFFSET: there is one place only */
    uint64_t value, other_value;
    const char *text; /* said instead of the values, or NULL */
    uint64_t from, n; /* bytes that belong to nothing, worth a look of their own; n 0: none */
    bool bits;        /* the values are no numbers: shown in base 16 */
};

struct zip_audit {
    source *src;
    arena *a;
    void (*flaw)(void *user, const struct zip_flaw *f);
    void *user;
    struct zip_view *views; /* directory order, then those that no directory lists */
    size_t n, cap;
    uint64_t first, directory, end; /* first member; directory; first byte after the end record */
    uint64_t record;                /* the end record; 0: none */
};

/* zip_audit - fills in the views. CKPT_OK even if nothing fits anything: then there
 * are flaws, and whatever members could still be found. */
ckpt_status zip_audit(struct zip_audit *z, ckpt_error *err);

#endif
