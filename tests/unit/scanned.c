/* scanned.c - writes the bytes to a temporary file, because ckpt_scan takes a path. */
#include "scanned.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int record_finding(void *user, const ckpt_scan_record *r)
{
    struct scan_results *s = user;
    s->members += r->what == CKPT_SCAN_MEMBER && r->sha256;
    if (!r->rule)
        return 0;
    struct scanned_finding f = {.offset = r->offset};
    snprintf(f.rule, sizeof f.rule, "%s", r->rule->name);
    snprintf(f.where, sizeof f.where, "%.*s", (int)r->where.len, r->where.ptr);
    snprintf(f.text, sizeof f.text, "%.*s", (int)r->text.len, r->text.ptr);
    if (s->findings == 0)
        s->first_finding = f;
    if (s->findings < MAX_FINDINGS)
        s->all[s->findings] = f;
    return ++s->findings == s->stop_at;
}

static void keep_copy(ckpt_str bytes)
{
    static unsigned n;
    char path[1024];
    const char *folder = getenv("KEEP_SCANNED");
    if (!folder || bytes.len > 20000)
        return;
    snprintf(path, sizeof path, "%s/%04u", folder, n++);
    FILE *f = fopen(path, "wb");
    CU_ASSERT_FATAL(f && fwrite(bytes.ptr, 1, bytes.len, f) == bytes.len && fclose(f) == 0);
}

struct scan_results scan_buffer_as(ckpt_str bytes, const char *suffix, const ckpt_scan_options *opts,
                                   size_t stop_at)
{
    char path[64];
    struct scan_results s = {.stop_at = stop_at, .result = CKPT_INIT(ckpt_scan_result)};
    snprintf(path, sizeof path, "/tmp/ckpt-scan-XXXXXX%s", suffix ? suffix : "");
    int fd = mkstemps(path, suffix ? (int)strlen(suffix) : 0);
    CU_ASSERT_FATAL(fd >= 0 && write(fd, bytes.ptr, bytes.len) == (ssize_t)bytes.len);
    close(fd);
    s.status = ckpt_scan(path, opts, record_finding, &s, &s.result, &s.err);
    CU_ASSERT(s.status == CKPT_OK || (s.err.status == s.status && s.err.what[0]));
    unlink(path);
    keep_copy(bytes);
    return s;
}

struct scan_results scan_buffer(const void *data, size_t size, size_t stop_at)
{
    return scan_buffer_as(str_of(data, size), NULL, NULL, stop_at);
}

bool scan_has_finding(const struct scan_results *s, size_t n, const char *rule, uint64_t offset,
                      const char *text, int line)
{
    bool found = false;
    for (size_t i = 0; i < s->findings && i < MAX_FINDINGS; i++)
        found = found || (strcmp(s->all[i].rule, rule) == 0 && s->all[i].offset == offset &&
                          strstr(s->all[i].text, text));
    if (s->status == CKPT_OK && s->findings == n && found)
        return true;
    printf("\n    line %d: %s %s: %zu findings", line, ckpt_status_name(s->status), s->err.what, s->findings);
    for (size_t i = 0; i < s->findings && i < MAX_FINDINGS; i++)
        printf("\n        %s %s %llu: %s", s->all[i].rule, s->all[i].where,
               (unsigned long long)s->all[i].offset, s->all[i].text);
    return false;
}
