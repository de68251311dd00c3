/* check.h - reports what is wrong with a file, for `ckpt verify` and `ckpt doctor`. The reader of a file
 * that is opened with a check reports here each fault that it can step over, and reads on. */
#pragma once

#include "core/file.h"

enum check_rule {
#define RULE(id, name, text) CHECK_##id,
#include "core/check_rules.def"
#undef RULE
    CHECK_RULES
};

/* A record that has its own CRC; verify reads all of its bytes. */
struct check_record {
    ckpt_str name;
    const char *path;     /* path of the file that contains it */
    source *src;          /* all bytes of the record */
    uint64_t file_offset; /* offset of its first byte in that file; CKPT_NO_OFFSET: it is compressed */
    uint32_t crc;
    bool is_crc32c;          /* CRC is a CRC-32C */
    const char *recorded_in; /* where CRC is stored, for the error; NULL: the "central directory" of a zip */
};

struct check {
    const ckpt_verify_options *opts;
    int (*report)(void *user, const ckpt_finding *finding);
    void *user;
    ckpt_verify_result *result;
    bool cancelled;
    arena *a;
    map *reported; /* texts of findings, so that the same fault is reported once */
    struct check_record *records;
    size_t nrecords, cap_records;
    source **watched; /* every file that was opened */
    size_t nwatched, cap_watched;
    void **objects; /* what check_keep_object keeps for the format */
    size_t nobjects, cap_objects;
    void (*free_object)(void *object);
    const char *hint; /* the hint of all findings, instead of their own; NULL: none */
};

/* check_init - makes CHECK a check without findings, and clears RESULT. The caller calls check_free. */
ckpt_status check_init(struct check *check, const ckpt_verify_options *opts, ckpt_verify_result *result,
                       ckpt_error *err);
void check_free(struct check *check);
/* check_set_hint - makes HINT, unless it is empty, the hint of every finding from now on. */
ckpt_status check_set_hint(struct check *check, const char *hint, ckpt_error *err);
/* find_check_rule - returns the rule whose id is ID, or CHECK_MALFORMED. */
enum check_rule find_check_rule(const char *id);
/* check_is_fault - returns true if ST means that the file is faulty, not that it could not be checked. */
bool check_is_fault(ckpt_status st);
/* check_report - reports a finding under RULE with the message of ERROR, about FILE (NULL: the file in
 * ERROR). */
ckpt_status check_report(struct check *check, enum check_rule rule, const char *file, const ckpt_error *error,
                         ckpt_error *err);
/* check_report_fault - reports a finding as check_report does, under the rule for the status of ERROR. */
ckpt_status check_report_fault(struct check *check, const char *file, const ckpt_error *error,
                               ckpt_error *err);
/* check_report_finding - reports FINDING under RULE. A hint of check_set_hint replaces the one in FINDING's
 * error. */
ckpt_status check_report_finding(struct check *check, enum check_rule rule, ckpt_finding *finding,
                                 ckpt_error *err);
/* check_add_record - adds RECORD to the records to be read. Copies RECORD's texts, because the file in which
 * RECORD was found may be refused and freed before RECORD is read. Takes over RECORD's source. */
ckpt_status check_add_record(struct check *check, const struct check_record *record, ckpt_error *err);
/* check_count - adds COUNT checksums, which were compared while the file was opened, and the BYTES that they
 * cover to the result of CHECK, which may be NULL. */
void check_count(struct check *check, uint64_t count, uint64_t bytes);
/* check_add_slice - adds RECORD, whose bytes are the NBYTES at OFFSET of SRC, unless CHECK is NULL or SRC
 * lacks them. */
ckpt_status check_add_slice(struct check *check, struct check_record record, source *src, uint64_t offset,
                            uint64_t nbytes, ckpt_error *err);
/* check_watch_source - takes over SRC, a file that is being checked. */
ckpt_status check_watch_source(struct check *check, source *src, ckpt_error *err);
/* check_unchanged - fails if a watched file changed or could not be read, so that findings mean nothing. */
ckpt_status check_unchanged(const struct check *check, ckpt_error *err);
/* check_keep_object - keeps OBJECT until check_free, which passes it to check->free_object. */
ckpt_status check_keep_object(struct check *check, void *object, ckpt_error *err);

/* file_report_fault_as - if F is being checked and ST is a fault, reports ERR under RULE and returns CKPT_OK;
 * else ST. */
ckpt_status file_report_fault_as(ckpt_file *f, enum check_rule rule, ckpt_status st, ckpt_error *err);
static inline enum check_rule check_rule_of_status(ckpt_status st)
{
    return st == CKPT_ETRUNCATED ? CHECK_TRUNCATED : st == CKPT_ECHECKSUM ? CHECK_CHECKSUM : CHECK_MALFORMED;
}
/* file_report_fault - does what file_report_fault_as does, under the rule for the status. */
static inline ckpt_status file_report_fault(ckpt_file *f, ckpt_status st, ckpt_error *err)
{
    return st == CKPT_OK ? st : file_report_fault_as(f, check_rule_of_status(st), st, err);
}
/* file_report_lost - does what file_report_fault does, unless F is salvaged and ST is a fault: then it adds a
 * notice that WHAT is lost, and returns CKPT_OK. */
ckpt_status file_report_lost(ckpt_file *f, ckpt_status st, ckpt_str what, ckpt_error *err);
/* file_add_row - does what table_add_row does, but if F is being checked, a tensor that exceeds its storage
 * is reported and added without data. */
ckpt_status file_add_row(ckpt_file *f, struct row *row, uint32_t *index, ckpt_error *err);
