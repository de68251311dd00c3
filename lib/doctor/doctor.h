/* doctor.h - `ckpt doctor`: why a file does not load, and what fixes it. Private to lib/doctor. */
#pragma once

#include "base/text.h"
#include "core/check.h"

/* What verifying found under one rule: the first finding, and how many there are. */
struct symptom {
    uint64_t n;
    ckpt_error first;
};

struct doctor {
    const char *path, *typed; /* as it may be shown; as it was given: a URL with its query */
    bool is_folder;           /* PATH is a folder */
    source *src;              /* the first file that was opened; NULL: none */
    ckpt_file *f;             /* NULL: it cannot be read as a checkpoint */
    struct check check;
    struct symptom symptoms[CHECK_RULES];
    int (*report)(void *user, const ckpt_diagnosis *d);
    void *user;
    ckpt_doctor_result *result;
    bool salvage_tried; /* salvage was rehearsed, with the outcome salvage_error */
    ckpt_error salvage_error;
    const char *salvage_suffix; /* of its output; NULL: that of PATH */
    bool cancelled;
};

/* A diagnosis without its text. */
struct diagnosis {
    const char *id;
    ckpt_fix fix;      /* its action is 0: there is none */
    const char *hint;  /* what to do if there is no fix, or NULL */
    const char *first; /* what to try before the fix, or NULL */
    bool is_note;      /* not a problem, only worth knowing */
};

/* doctor_report - reports DIAGNOSIS with the text FMT. A fix that ckpt would fail to apply is left out. */
ckpt_status doctor_report(struct doctor *doctor, const struct diagnosis *diagnosis, ckpt_error *err,
                          const char *fmt, ...) CKPT_PRINTF(4, 5);
/* doctor_report_error - reports DIAGNOSIS with the text and the hint of ERROR. */
ckpt_status doctor_report_error(struct doctor *doctor, const struct diagnosis *diagnosis,
                                const ckpt_error *error, ckpt_error *err);
/* doctor_path_word - returns the path as a word of a command, as shell_path does; "?QUERY" is at the end of a
 * URL whose query is not shown. */
const char *doctor_path_word(const struct doctor *doctor, char out[SHELL_WORD_MAX]);
/* doctor_drop_file_name - removes the name of the diagnosed file from ERROR: it is above each diagnosis. */
void doctor_drop_file_name(const struct doctor *doctor, ckpt_error *error);

/* doctor_report_foreign - reports that the file is not a checkpoint, for the reason ERROR. */
ckpt_status doctor_report_foreign(struct doctor *doctor, const ckpt_error *error, ckpt_error *err);
/* doctor_report_data_file - reports that the file is one of the data files of a Distributed Checkpoint. */
ckpt_status doctor_report_data_file(struct doctor *doctor, ckpt_error *err);
/* doctor_report_compressed - reports a checkpoint that is compressed, which torch.load does not unpack. */
ckpt_status doctor_report_compressed(struct doctor *doctor, ckpt_error *err);
/* doctor_report_damage - reports what verifying found. */
ckpt_status doctor_report_damage(struct doctor *doctor, ckpt_error *err);
/* doctor_report_unread - notes how many tensors cannot be read, so that their data were not checked. */
ckpt_status doctor_report_unread(struct doctor *doctor, ckpt_error *err);
/* doctor_report_refusals - reports what torch.load and load_state_dict will refuse in an intact file. */
ckpt_status doctor_report_refusals(struct doctor *doctor, ckpt_error *err);
