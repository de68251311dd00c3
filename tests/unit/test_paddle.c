/* Parameters of Paddle without a program are read, and malformed headers are refused. */
#include "bytes.h"
#include "format/registry.h"
#include "unit.h"

/* HEADER - what comes before the description of a tensor: the version, the number LEVELS of LoD levels, the
 * inner version, and the length N of the description. FLOAT32_2 - the description float32 [2]. */
#define HEADER(levels, n)                                                                                    \
    "\0\0\0\0" levels "\0\0\0\0\0\0\0"                                                                       \
    "\0\0\0\0" n "\0\0\0"
#define FLOAT32_2  "\x08\x05\x10\x02"
#define TWO_FLOATS "\0\0\x80\x3f\0\0\0\x40"

static ckpt_error err;

/* open_params - opens BYTES; returns NULL and sets err if they are refused. */
static ckpt_file *open_params(ckpt_str bytes)
{
    ckpt_file *f = NULL;
    return ckpt_open_memory(bytes.ptr, bytes.len, "-", NULL, &f, &err) == CKPT_OK ? f : NULL;
}

/* count_tensors - returns how many tensors BYTES have, or -1 if BYTES are refused; err has the error. */
static int count_tensors(ckpt_str bytes)
{
    ckpt_file *f = open_params(bytes);
    int n = f ? (int)ckpt_tensor_count(f) : -1;
    ckpt_close(f);
    return n;
}

/* count_salvaged - returns how many tensors of BYTES can be salvaged, or -1 if BYTES are refused; err has the
 * error. */
static int count_salvaged(ckpt_str bytes)
{
    ckpt_file *f = NULL;
    int n = -1;
    const struct opening o = {
        .path = "test", .src = source_mem(bytes.ptr, bytes.len, 0), .how = OPEN_SALVAGE};
    if (format_open(&o, &f, &err) == CKPT_OK)
        n = (int)ckpt_tensor_count(f);
    ckpt_close(f);
    return n;
}

/* One tensor has the name of its file; without one it is the root. Several are refused, except by salvage. */
static void several_tensors_need_names(void)
{
    ckpt_tensor t = CKPT_INIT(ckpt_tensor);
    ckpt_file *f = open_params(TEXT(HEADER("\0", "\x04") FLOAT32_2 TWO_FLOATS));
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), 1);
    CU_ASSERT_TRUE(ckpt_tensor_at(f, 0, &t));
    CU_ASSERT_EQUAL(t.npath, 0);
    ckpt_close(f);
    ckpt_str one = TEXT(HEADER("\0", "\x04") FLOAT32_2 TWO_FLOATS);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(one.ptr, one.len, "folder/fc_0.w_0", NULL, &f, &err), CKPT_OK);
    CU_ASSERT_NOT_EQUAL(ckpt_tensor_find(f, STR_LIT("fc_0.w_0")), CKPT_NO_TENSOR);
    ckpt_close(f);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(one.ptr, one.len, "net.pdiparams", NULL, &f, &err), CKPT_OK);
    CU_ASSERT_TRUE(ckpt_tensor_at(f, 0, &t));
    CU_ASSERT_EQUAL(t.npath, 0);
    ckpt_close(f);
    CU_ASSERT_EQUAL(count_tensors(TEXT(HEADER("\0", "\x04") FLOAT32_2 TWO_FLOATS HEADER("\0", "\x04")
                                           FLOAT32_2 TWO_FLOATS)),
                    -1);
    CU_ASSERT_STRING_EQUAL(err.found, "several tensors without names");
    CU_ASSERT_EQUAL(count_salvaged(TEXT(HEADER("\0", "\x04") FLOAT32_2 TWO_FLOATS HEADER("\0", "\x04")
                                            FLOAT32_2 TWO_FLOATS)),
                    2);
}

static void packed_sizes_and_lod_levels_are_read(void)
{
    CU_ASSERT_EQUAL(count_tensors(TEXT(HEADER("\0", "\x06") "\x08\x05\x12\x02\x01\x02" TWO_FLOATS)), 1);
    /* one LoD level, of 16 bytes */
    CU_ASSERT_EQUAL(count_tensors(TEXT("\0\0\0\0\1\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0"
                                       "0123456789abcdef"
                                       "\0\0\0\0\4\0\0\0" FLOAT32_2 TWO_FLOATS)),
                    1);
}

static void malformed_parameters_are_refused(void)
{
    /* version 1; a description without a data type */
    CU_ASSERT_EQUAL(count_tensors(TEXT("\1\0\0\0" HEADER("\0", "\x04") FLOAT32_2 TWO_FLOATS)), -1);
    CU_ASSERT_EQUAL(err.status, CKPT_EUNKNOWN);
    CU_ASSERT_EQUAL(count_tensors(TEXT(HEADER("\0", "\x02") "\x10\x02" TWO_FLOATS)), -1);
    CU_ASSERT_EQUAL(err.status, CKPT_EUNKNOWN);
    /* the second tensor has a truncated header; version 1; data type 7; a description without a data type */
    CU_ASSERT_EQUAL(count_salvaged(TEXT(HEADER("\0", "\x04") FLOAT32_2 TWO_FLOATS "\0\0\0\0")), -1);
    CU_ASSERT_STRING_EQUAL(err.where, "tensor 1");
    CU_ASSERT_EQUAL(
        count_salvaged(TEXT(HEADER("\0", "\x04") FLOAT32_2 TWO_FLOATS "\1\0\0\0" HEADER("\0", "\x04"))), -1);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.found, "version 1"));
    CU_ASSERT_EQUAL(count_salvaged(TEXT(HEADER("\0", "\x04")
                                            FLOAT32_2 TWO_FLOATS HEADER("\0", "\x04") "\x08\x07\x10\x02")),
                    -1);
    CU_ASSERT_EQUAL(err.status, CKPT_EUNSUPPORTED);
    CU_ASSERT_EQUAL(
        count_salvaged(TEXT(HEADER("\0", "\x04") FLOAT32_2 TWO_FLOATS HEADER("\0", "\x02") "\x10\x02")), -1);
    CU_ASSERT_STRING_EQUAL(err.found, "malformed");
}

void suite_paddle(void)
{
    UNIT(several_tensors_need_names);
    UNIT(packed_sizes_and_lod_levels_are_read);
    UNIT(malformed_parameters_are_refused);
}
