/* archive.h - what torch.save, TorchScript and torch.package have in
 * common: records below one folder of a zip, pickles and storages among them. */
#ifndef FORMAT_TORCH_ARCHIVE_H
#define FORMAT_TORCH_ARCHIVE_H

#include "base/buf.h"
#include "format/format.h"
#include "format/kit.h"
#include "format/torch/graph.h"

struct torch_archive {
    ckpt_file *f;
    zip *z;
    ckpt_str top;        /* "archive/": in front of every record; may be empty */
    const char *storage; /* record of storage KEY: top, this, KEY … */
    const char *suffix;  /* … and this */
    bool big_endian;
    bool crc_none; /* no storage record has a CRC-32 */
    bool *used;    /* by entry: a storage was read from it */
    size_t next;   /* entry behind the storage found last, likely the next one wanted */
    buf name;      /* the record looked up last */
    source **kept; /* pickles whose nodes hold spans of them */
    size_t nkept, cap_kept;
    const struct zip_entry *pickle; /* the last of them */
};

/* torch_archive_top - the folder whose data.pkl is the checkpoint: that of the
 * first entry, which is the only one torch looks at, else the only one there
 * is. False when there is none; *MANY when several would do. */
bool torch_archive_top(const zip *z, ckpt_str *top, bool *many);
/* torch_archive_new - over the zip that F's probe opened; F owns it. TOP must
 * live as long as the zip. */
ckpt_status torch_archive_new(ckpt_file *f, ckpt_str top, struct torch_archive **out, ckpt_error *err);
/* torch_archive_find - index of record NAME (without top), letters of either
 * case, or -1. */
int64_t torch_archive_find(struct torch_archive *ta, const char *name);
/* torch_archive_need - the same where the file promises that record: CKPT_ETRUNCATED when it is missing. */
ckpt_status torch_archive_need(struct torch_archive *ta, const char *name, size_t *i, ckpt_error *err);
/* torch_archive_refused - WHY torch.load refuses this file; the first one told counts. */
void torch_archive_refused(struct torch_archive *ta, ckpt_str why);
bool torch_archive_has(struct torch_archive *ta, const char *name);
/* torch_archive_member - entry I as a source, if no other has its name. */
ckpt_status torch_archive_member(struct torch_archive *ta, size_t i, source **out, ckpt_error *err);
/* torch_archive_base - where the bytes of entry I, which was read, begin; CKPT_NO_OFFSET: they are
 * compressed. */
uint64_t torch_archive_base(const struct torch_archive *ta, size_t i);
/* torch_archive_in - the error is about entry I: its name, and where it lies if no offset is known. */
void torch_archive_in(const struct torch_archive *ta, size_t i, ckpt_error *err);
/* torch_archive_text - a whole record of at most MAX bytes; .ptr NULL when
 * there is none, and when it is longer. */
ckpt_status torch_archive_text(struct torch_archive *ta, const char *name, uint64_t max, ckpt_str *out,
                               ckpt_error *err);
/* torch_archive_byteorder - reads the record of that name, if any. */
ckpt_status torch_archive_byteorder(struct torch_archive *ta, ckpt_error *err);
/* torch_archive_pickle - runs the pickle in entry I. */
ckpt_status torch_archive_pickle(struct torch_archive *ta, size_t i, ckpt_value **root, ckpt_error *err);
/* torch_archive_add_tensor - kit_add_tensor for NAME, which is T (dtype, shape, stride …), in record RECORD
 * (without top), all of which is its storage. */
ckpt_status torch_archive_add_tensor(struct torch_archive *ta, struct kit *k, ckpt_str name,
                                     const char *record, const ckpt_tensor *t);
/* torch_archive_storages - for torch_graph. */
struct torch_storages torch_archive_storages(struct torch_archive *ta);
/* torch_archive_account - counts the bytes of storage records nobody used, and
 * lets a rewrite find those that only opaque objects use. */
void torch_archive_account(struct torch_archive *ta);

#endif
