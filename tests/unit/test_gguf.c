/* GGUF files that are no longer, or not only, that. */
#include "bytes.h"
#include "unit.h"
#include "zipped.h"

#define N4(n) n "\0\0\0"
#define N8(n) n "\0\0\0\0\0\0\0"
#define EMPTY "GGUF" N4("\x03") N8("\0") N8("\0") "\0\0\0\0\0\0\0\0" /* no tensors, no pairs */

/* open_bytes - opens B as a file; the status. */
static ckpt_status open_bytes(ckpt_str b, ckpt_file **f, ckpt_error *err)
{
    unsigned char *copy = unit_guard(b.ptr, b.len);
    ckpt_status st = ckpt_open_memory(copy, b.len, "test", NULL, f, err);
    if (st == CKPT_OK)
        ckpt_close(*f);
    unit_guard_free(copy, b.len);
    return st;
}

/* The archive is closed, and neither taken for what the GGUF keeps nor left open. */
static void an_archive_may_follow(void)
{
    const struct member one = {.name = "member", .bytes = TEXT("bytes")};
    ckpt_error err;
    ckpt_file *f;
    buf b;
    buf_init(&b, 4096);
    buf_put(&b, EMPTY, sizeof EMPTY - 1);
    zip_put(&b, &one, 1, b.len);
    CU_ASSERT_EQUAL(open_bytes(buf_view(&b), &f, &err), CKPT_EFORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "after a header without tensors"));
    buf_free(&b);
}

void suite_gguf(void) { UNIT(an_archive_may_follow); }
