/* scan.h - the three reports of `ckpt scan`: as text, JSON and SARIF. The functions of each are called at the
 * beginning of a file, for its records and at its end. */
#ifndef CLI_SCAN_H
#define CLI_SCAN_H

#include "text.h"

struct scan_report {
    void (*start)(void); /* may be NULL */
    void (*begin)(const char *path);
    void (*record)(const ckpt_scan_record *r);
    /* file - what came of it; CODE is its exit code, ERR NULL or why it could not be scanned. */
    void (*file)(const char *path, const ckpt_scan_result *r, const ckpt_error *err, int code);
    /* finish - may be NULL; CODE is what the program exits with, WHOLE: every file was scanned to its end. */
    void (*finish)(int code, bool whole);
    bool calls; /* it needs every call, not only findings */
};

extern const struct scan_report scan_text, scan_json, scan_sarif;

/* scan_callable - "os.system" as Python 3 imports it, harmless to a terminal; "" when
 * there is none. */
void scan_callable(struct text *t, const ckpt_scan_record *r);
/* scan_message - the sentence of a finding. */
void scan_message(struct text *t, const ckpt_scan_record *r);
/* scan_verdict - the verdict of a whole file: a ckpt_scan_verdict, or what follows where its pickles alone
 * are fine. */
enum { SCAN_STRUCTURE = CKPT_SCAN_KNOWN_EXEC + 1, SCAN_INCOMPLETE, SCAN_VERDICTS };
int scan_verdict(const ckpt_scan_result *r, int code);
const char *scan_verdict_name(int verdict);
/* scan_print_summary - prints the summary of a run with so many FILES of each verdict: their number, and
 * what to do about those that are not fine. */
void scan_print_summary(const uint64_t files[SCAN_VERDICTS]);
extern bool scan_sha256; /* --sha256 */
/* scan_show_all_calls - makes the text report print allow-listed calls, too. */
void scan_show_all_calls(void);

#endif
