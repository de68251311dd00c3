/* check.h - what is wrong with a file, told one by one: a file that is opened with
 * a check goes on behind whatever fault it can, and says so here. */
#ifndef CORE_CHECK_H
#define CORE_CHECK_H

#include "core/file.h"

enum check_rule {
#define RULE(id, name, text) CHECK_##id,
#include "core/check_rules.def"
#undef RULE
    CHECK_RULES
};

/* Bytes with a CRC-32 of their own, all of which are to be read. */
struct record {
    ckpt_str name;
    const char *path; /* of the file it lies in */
    source *src;      /* the whole record */
    uint64_t at;      /* of its first byte in that file, CKPT_NO_OFFSET where it is packed */
    uint32_t crc;
};

struct check {
    const ckpt_verify_options *opts;
    int (*tell)(void *user, const ckpt_finding *finding);
    void *user;
    ckpt_verify_result *result;
    bool cancelled;
    arena *a;
    map *told; /* texts of findings: the same fault may be met twice */
    struct record *records;
    size_t nrecords, cap_records;
    source **watched; /* every file that was opened */
    size_t nwatched, cap_watched;
    void **kept; /* by the format, until all is read */
    size_t nkept, cap_kept;
    void (*drop)(void *kept);
};

/* check_init - a check that hands out to TELL; ends with check_free. */
ckpt_status check_init(struct check *c, const ckpt_verify_options *opts, ckpt_verify_result *result,
                       ckpt_error *err);
void check_free(struct check *c);
/* check_rule_by_name - of the id of a finding. */
enum check_rule check_rule_by_name(const char *id);
/* check_is_fault - does ST say that the file is not as it should be, rather than
 * that we could not tell? */
bool check_is_fault(ckpt_status st);
/* check_tell - a finding about FILE (NULL: E says which) in the words of E. */
ckpt_status check_tell(struct check *c, enum check_rule rule, const char *file, const ckpt_error *e,
                       ckpt_error *err);
/* check_fault - the same, by the rule that the status of E stands for. */
ckpt_status check_fault(struct check *c, const char *file, const ckpt_error *e, ckpt_error *err);
/* check_finding - hands out F, whose error is whole. */
ckpt_status check_finding(struct check *c, enum check_rule rule, ckpt_finding *f, ckpt_error *err);
ckpt_status check_record(struct check *c, const struct record *r, ckpt_error *err);
/* check_watch - takes over SRC, a file that is checked. */
ckpt_status check_watch(struct check *c, source *src, ckpt_error *err);
/* check_unchanged - were all of them left alone, and no read of them failed? What was found
 * says nothing of the files otherwise. */
ckpt_status check_unchanged(const struct check *c, ckpt_error *err);
/* check_keep - KEPT goes to c->drop at the end. */
ckpt_status check_keep(struct check *c, void *kept, ckpt_error *err);

/* file_fault - ST, unless it is a fault of a file that is being checked: then ERR is
 * told and reading goes on. */
ckpt_status file_fault(ckpt_file *f, ckpt_status st, ckpt_error *err);
/* file_fault_as - the same, under a rule that the status does not tell. */
ckpt_status file_fault_as(ckpt_file *f, enum check_rule rule, ckpt_status st, ckpt_error *err);
/* file_row - table_row; a row that looks beyond its storage loses its data when F is
 * being checked. */
ckpt_status file_row(ckpt_file *f, const struct row *r, uint32_t *index, ckpt_error *err);

#endif
