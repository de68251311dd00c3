/* share.h - an operation that several processes share: each reads its part of the tensors, and all results
 * come together in each process, or in one, by the `exchange` of ckpt_work.
 *
 * Which part reads a tensor is a pure function of the tables and of the number of parts. The bytes of all
 * tensors in their order, B in all, are one line: of N parts, number I has the tensors that begin at B*I/N
 * or after it, up to those of number I + 1. Tensors of a storage with a checksum stay together, because the
 * first of them reads all of it.
 *
 * What a part has found is a record:
 *
 *   OFFSET  SIZE  DESCRIPTION
 *   0       8     "CKPTPART"
 *   8       4     version, 1
 *   12      4     number of the part
 *   16      4     number of parts
 *   20      4     0
 *   24      8     bytes of the results
 *   32      32    id in hexadecimal digits: of the input, and of the options on which results depend
 *   64            the results, list by list:
 *                   8  number of results of the list that follow, in ascending order
 *                      4  index in the list   4  bytes of the result   the result, as the operation writes it
 *           16    XXH3-128 of all bytes before
 *
 * All numbers are unsigned and little-endian. Refused: a record of another form, id or number of parts; a
 * part twice or not at all; a result that is not of its part, twice, or not at all. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"
#include "core/parallel_rows.h"
#include "op/digest.h"

#define SHARE_ID_TEXT 33 /* bytes of an id, with its NUL */

struct stat;

struct share {
    ckpt_work work; /* parts 0: nothing is shared */
    char id[SHARE_ID_TEXT];
    const void *all; /* the records of all parts; NULL: this process has still to read its own */
    size_t all_bytes;
};

/* The results of one kind: number I is computed by part owners[I]. */
struct share_list {
    size_t count;
    uint32_t *owners; /* of share_deal; freed by the caller */
    /* put - writes result INDEX; take - reads it. False: it is malformed, or has values that cannot be. */
    void (*put)(void *user, size_t index, buf *out);
    bool (*take)(void *user, size_t index, cursor *in);
    void *user;
};

/* share_start - begins OPERATION, which is shared as WORK describes. DESCRIBE, which is called with USER if
 * anything is shared, puts all that the results depend on into the digest FACTS. CKPT_ECANCELLED: `exchange`
 * stopped the operation. */
ckpt_status share_start(struct share *share, const ckpt_work *work, const char *operation,
                        ckpt_status (*describe)(void *user, struct hash *facts, ckpt_error *err), void *user,
                        ckpt_error *err);
/* share_describe_file - puts F into FACTS: sizes and times of its files, tensors and storages. */
ckpt_status share_describe_file(const ckpt_file *f, struct hash *facts, ckpt_error *err);
/* share_describe_source - puts the size and time of the file of SRC, if it is from one, into FACTS. */
void share_describe_source(const source *src, struct hash *facts);
/* share_input_facts - sets FACTS to what identifies the content of the file ST: its size and time. False: it
 * is a folder, whose time changes with any file in it. */
bool share_input_facts(const struct stat *st, uint64_t facts[3]);
/* share_find_cut - returns where part NUMBER of PARTS begins in a line of TOTAL bytes; NUMBER may be PARTS,
 * which is at most PART_MAX. */
uint64_t share_find_cut(uint64_t total, uint32_t number, uint32_t parts);
static inline bool share_is_on(const struct share *share) { return share->work.parts != 0; }
/* share_deal - deals the COUNT ITEMS of LIST to the parts. Does nothing unless SHARE is on. */
ckpt_status share_deal(const struct share *share, const struct parallel_item *items, size_t count,
                       struct share_list *list, ckpt_error *err);
/* share_has - returns true if this process has to compute result INDEX of LIST: of its part, or any. */
bool share_has(const struct share *share, const struct share_list *list, size_t index);
/* share_run - does what parallel_run does for the items of JOB that this process has to read. If SHARE is
 * on, none is reported. */
ckpt_status share_run(const struct share *share, const struct share_list *list,
                      const struct parallel_job *job, ckpt_error *err);
/* share_exchange - passes the results of this part in the COUNT lists at LISTS on, and takes those of all
 * parts. Does nothing unless SHARE is on. CKPT_ECANCELLED: `exchange` stopped the operation. CKPT_EFORMAT:
 * the records of the parts are malformed, of another plan, or not all there. */
ckpt_status share_exchange(struct share *share, const struct share_list *lists, size_t count,
                           ckpt_error *err);
/* share_put_real, share_take_real - write and read the bits of a double, for put and take. */
void share_put_real(double number, buf *out);
double share_take_real(cursor *in);
/* share_check_record - checks that BYTES is the record of part PART of PARTS with the id ID. */
ckpt_status share_check_record(ckpt_str bytes, const char *id, uint32_t part, uint32_t parts,
                               ckpt_error *err);
