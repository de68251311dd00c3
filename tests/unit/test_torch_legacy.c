/* torch's legacy format: a damaged magic number is reported, and errors name the part of the file. */
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

/* open_changed - opens a corpus file whose byte AT is changed to NEW_BYTE. */
static ckpt_status open_changed(size_t at, unsigned char new_byte, ckpt_error *err)
{
    unsigned char bytes[4096];
    ckpt_file *file = NULL;
    FILE *f = fopen(unit_corpus_path("torch/t26/tied_legacy.pt"), "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    (void)fclose(f);
    CU_ASSERT_FATAL(at < n && n < sizeof bytes);
    bytes[at] = new_byte;
    ckpt_status status = ckpt_open_memory(bytes, n, "legacy", NULL, &file, err);
    ckpt_close(file);
    return status;
}

/* If the number were not checked, the file would be read as a pickle of an int, without tensors. */
static void a_stream_without_its_magic_number_is_refused(void)
{
    ckpt_error err = {0};
    for (size_t at = 4; at < 14; at++) { /* the ten bytes of the number, after PROTO 2 and LONG1 10 */
        CU_ASSERT_EQUAL(open_changed(at, 0x77, &err), CKPT_EFORMAT);
        CU_ASSERT_EQUAL(err.offset, 0);
        CU_ASSERT_STRING_EQUAL(err.where, "magic number");
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "the file is a pickle of one int"));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "begins with the int 0x1950a86a20f9469cfc6c"));
        CU_ASSERT_STRING_NOT_EQUAL(err.hint, "");
    }
}

static void other_versions_are_refused(void)
{
    ckpt_error err = {0};
    CU_ASSERT_EQUAL(open_changed(18, 0xea, &err), CKPT_EFORMAT); /* the low byte of 1001, 0x3e9 */
    CU_ASSERT_STRING_EQUAL(err.where, "protocol version");
    CU_ASSERT_STRING_EQUAL(err.what, "it is 1002, torch writes 1001");
    CU_ASSERT_EQUAL(err.offset, 17);
}

void suite_torch_legacy(void)
{
    UNIT(a_stream_without_its_magic_number_is_refused);
    UNIT(other_versions_are_refused);
}
