/* scan.h - the three reports of `ckpt scan`: text, JSON and SARIF. */
#pragma once

#include "cmd.h"

struct folder_walk;
struct scan_report {
    void (*begin_report)(void);                /* called before the first file; may be NULL */
    void (*begin_file)(const char *path);      /* called before each file */
    void (*record)(const ckpt_scan_record *r); /* called for each record of the file */
    /* end_file - is called after each file. CODE is its exit code. ERR is the reason why it could not be
     * scanned, or NULL. */
    void (*end_file)(const char *path, const ckpt_scan_result *r, const ckpt_error *err, int code);
    /* end_folder - is called after the operand PATH, of which WALK skipped some files. It may be NULL. */
    void (*end_folder)(const char *path, const struct folder_walk *walk);
    /* end_report - is called after the last file; may be NULL. CODE is the exit code of the program. COMPLETE
     * is true if every file was scanned to its end. */
    void (*end_report)(int code, bool complete);
    bool calls; /* the report has every call, not only findings */
};

extern const struct scan_report scan_text, scan_json, scan_sarif;

/* scan_callable - adds the escaped Python 3 name of the callable or import in RECORD ("os.system"), if
 * any. */
void scan_callable(struct text *text, const ckpt_scan_record *record);
/* scan_shows_verdict - returns true if RECORD has a verdict of its own: it is a call, or a step of a
 * pickle. */
bool scan_shows_verdict(const ckpt_scan_record *record);
/* scan_message - adds the sentence that describes the finding RECORD. */
void scan_message(struct text *text, const ckpt_scan_record *record);
/* scan_verdict - returns the verdict of a file: the ckpt_scan_verdict of its pickles, or SCAN_STRUCTURE or
 * SCAN_INCOMPLETE if only something else in the file is wrong. CODE is the exit code for the file. */
enum { SCAN_STRUCTURE = CKPT_SCAN_KNOWN_EXEC + 1, SCAN_INCOMPLETE, SCAN_VERDICTS };
int scan_verdict(const ckpt_scan_result *result, int code);
const char *scan_verdict_name(int verdict);
/* scan_print_summary - prints how many FILES have each verdict, and advice for those not harmless. NMISSING
 * of those that could not be inspected do not exist. */
void scan_print_summary(const uint64_t files[SCAN_VERDICTS], uint64_t nmissing);
extern bool scan_sha256;    /* the option --sha256 */
extern bool scan_all_calls; /* the option --all: the text report has calls to harmless names, too */
