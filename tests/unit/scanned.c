/* scanned.c - ckpt_scan takes a path: the bytes are put where one is. */
#include "scanned.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int tell(void *user, const ckpt_scan_record *r)
{
    struct scanned *s = user;
    if (!r->rule)
        return 0;
    if (s->findings++ == 0) {
        snprintf(s->first.id, sizeof s->first.id, "%s", r->rule->id);
        snprintf(s->first.where, sizeof s->first.where, "%.*s", (int)r->where.len, r->where.ptr);
        snprintf(s->first.text, sizeof s->first.text, "%.*s", (int)r->text.len, r->text.ptr);
        s->first.offset = r->offset;
    }
    return s->findings == s->stop_at;
}

struct scanned scan_these(const void *data, size_t size, size_t stop_at)
{
    char path[] = "/tmp/ckpt-scan-XXXXXX";
    struct scanned s = {.stop_at = stop_at};
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    s.status = ckpt_scan(path, NULL, tell, &s, &s.result, &s.err);
    unlink(path);
    return s;
}
