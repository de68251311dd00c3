/* part_record.h - the files of an output that several processes write.
 *
 *   OUT/.ckpt-ID/plan.json                   what is written, in how many parts; made by the first part
 *   OUT/.ckpt-ID/model-00001-of-00005.…      the output files, with their full size from the start
 *   OUT/.ckpt-ID/part-0003-of-0016.json      what a part has written; replaced after each step
 *   OUT/.ckpt-ID/failed-0003.json            why a part failed
 *   OUT/.ckpt-ID/failed                      its time is that of the last failure of any part; empty
 *   OUT/.ckpt-ID.closed                      the folder, once its files are being moved into place
 *
 * or what several processes have found out about a file:
 *
 *   WORK/.ckpt-ID/plan.json                  of what command the results are, and in how many parts
 *   WORK/.ckpt-ID/part-0003-of-0016.results  the results of a part, as share.h describes them
 *   WORK/.ckpt-ID/failed-0003.json           why a part failed
 *
 * ID is the plan id (part_plan.h), 32 hexadecimal digits. All of it is JSON:
 *
 *   plan.json    {"schema": "ckpt.part-plan.v1", "plan_id", "inputs", "parts", "unit": "range" or "file",
 *                 "target", "files": [[name, bytes], …], "part_bytes": [bytes, …]};
 *                 of results only plan_id, parts and "command", a word that is only shown
 *   part-….json  {"schema": "ckpt.part.v1", "plan_id", "part", "parts", "done", "overflowed",
 *                 "ranges": [[file, from, to, XXH3-128 of the bytes], …],
 *                 "checksums": [[tensor, from, bytes, CRC, kind, all bytes, recorded CRC, name], …]}
 *
 * INPUTS is a digest of the sizes and times of the input. FILE counts from 0 in the list of plan.json. A
 * range is listed only after fdatasync. CHECKSUMS has the stored bytes of tensors that a cut divides and
 * whose file has a checksum: merging joins the checksums of their pieces.
 *
 * Refused: JSON that is not of this form, numbers beyond 2^63, a file outside of the list. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

#define PART_INDEX_SUFFIX ".index.json"
#define PART_PLAN_NAME    "plan.json"
#define PART_FAILED_NAME  "failed"
#define PART_ID_TEXT      33 /* bytes of an id in text, with its NUL */
#define PART_DIGEST_BYTES 16
#define PART_MAX          65536u              /* parts */
#define PART_RESULTS_MAX  (UINT64_C(1) << 32) /* bytes: of the results of a part */
#define PART_RECORD_NAME  48                  /* bytes of the name of a record, with its NUL */

struct part_file {
    ckpt_str name;
    uint64_t size;
};

/* The content of plan.json. */
struct part_job {
    char id[PART_ID_TEXT], inputs[PART_ID_TEXT];
    uint32_t parts;
    bool by_file;     /* each part has files, not ranges of bytes */
    ckpt_str command; /* empty: parts of an output; else what results are recorded of, such as "hash" */
    ckpt_str target;  /* the file of the output; of a set, the one that its files are numbered after */
    struct part_file *files;
    size_t nfiles;
    uint64_t *part_bytes; /* by part */
};

/* Bytes [FROM, TO) of an output file. */
struct part_range {
    uint32_t file;
    uint64_t from, to;
    uint8_t digest[PART_DIGEST_BYTES];
};

/* The stored bytes [FROM, FROM + NBYTES) of a tensor, which has TOTAL, and their CRC. */
struct part_checksum {
    uint32_t row;
    ckpt_str name;
    uint64_t from, nbytes, total;
    uint32_t crc, recorded;
    bool is_crc32c;
};

/* The content of a part-….json. */
struct part_record {
    char id[PART_ID_TEXT];
    uint32_t part, parts;
    bool done;
    uint64_t overflowed; /* values beyond the largest of their new dtype */
    struct part_range *ranges;
    size_t nranges, cap_ranges;
    struct part_checksum *checksums;
    size_t nchecksums, cap_checksums;
};

void part_id_format(const uint8_t id[PART_DIGEST_BYTES], char out[PART_ID_TEXT]);
/* part_record_name - writes the name of the record of part PART of PARTS to OUT; part_failure_name - that
 * of the file with its failure. */
void part_record_name(uint32_t part, uint32_t parts, char out[PART_RECORD_NAME]);
void part_failure_name(uint32_t part, char out[PART_RECORD_NAME]);
/* part_job_record_name - writes the name of what part PART of JOB records to OUT: a record, or results. */
void part_job_record_name(const struct part_job *job, uint32_t part, char out[PART_RECORD_NAME]);
/* part_is_command - returns true if TEXT may be a `command`: up to 16 lower-case letters. */
bool part_is_command(ckpt_str text);
/* part_record_is_name - returns true if NAME is that of a record. */
bool part_record_is_name(ckpt_str name);
/* part_name_is_reserved - returns true if no file of an output can be called NAME, because a file of the work
 * folder can. */
bool part_name_is_reserved(ckpt_str name);

void part_job_put(buf *out, const struct part_job *job);
void part_record_put(buf *out, const struct part_record *record);
/* part_failure_put - writes that part PART failed with ERR. */
void part_failure_put(buf *out, const char *id, uint32_t part, const ckpt_error *err);

/* part_job_read, part_record_read, part_failure_read - read the file PATH. CKPT_ENOTFOUND: there is none;
 * CKPT_EFORMAT: it is malformed. Texts are in A. */
ckpt_status part_job_read(const char *path, arena *a, struct part_job *out, ckpt_error *err);
ckpt_status part_record_read(const char *path, const struct part_job *job, arena *a, struct part_record *out,
                             ckpt_error *err);
ckpt_status part_failure_read(const char *path, arena *a, ckpt_str *message, ckpt_error *err);
