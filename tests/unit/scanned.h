/* scanned.h - scans bytes with ckpt_scan and records the findings. */
#ifndef SCANNED_H
#define SCANNED_H

#include "bytes.h"
#include "unit.h"

/* A pickle that calls os.system("id"), and the offset of its REDUCE, where "known-exec" is reported. */
#define CALL_OS_SYSTEM                                                                                       \
    "\x80\x02"                                                                                               \
    "cos\nsystem\nU\x02id\x85R."

#define REDUCE_OFFSET 18u

#define MAX_FINDINGS 12

/* The result of a scan, with its first MAX_FINDINGS findings. */
struct scan_results {
    ckpt_status status;
    ckpt_error err;
    ckpt_scan_result result;
    size_t findings; /* number of findings, of which ALL has the first MAX_FINDINGS */
    size_t members;  /* number of members that were reported with their SHA-256 */
    struct scanned_finding {
        char rule[32]; /* name of the rule, such as "malformed" */
        char where[64], text[256];
        uint64_t offset;
    } first_finding, all[MAX_FINDINGS];
    size_t stop_at; /* the number of findings after which the callback stops the scan; 0: never */
};

/* scan_buffer - scans a file of the SIZE bytes at DATA, and stops after STOP_AT findings (0: never). If the
 * variable KEEP_SCANNED names a folder, it gets a copy of the file, unless that has more than 20,000 bytes.
 * scan_buffer_as - scans a file whose name ends in SUFFIX, with the options OPTS; either may be NULL. */
struct scan_results scan_buffer(const void *data, size_t size, size_t stop_at);
struct scan_results scan_buffer_as(ckpt_str bytes, const char *suffix, const ckpt_scan_options *opts,
                                   size_t stop_at);

/* scan_has_finding - returns true if S has N findings in all, and one of them has the name RULE, is at OFFSET
 * and has TEXT in its message; otherwise prints the findings. CHECK_FINDING asserts that it returns true.
 * CHECK_ONLY_FINDING also asserts that there is no other finding. */
bool scan_has_finding(const struct scan_results *s, size_t n, const char *rule, uint64_t offset,
                      const char *text, int line);
#define CHECK_FINDING(s, n, rule, offset, text)                                                              \
    do {                                                                                                     \
        struct scan_results s_ = s;                                                                          \
        CU_ASSERT(scan_has_finding(&s_, n, rule, offset, text, __LINE__));                                   \
    } while (0)
#define CHECK_ONLY_FINDING(s, rule, offset, text) CHECK_FINDING(s, 1, rule, offset, text)

#endif
