/* Ties (names of the same tensor) that the metadata of safetensors record: they are listed as tensors, and
 * the size of their copies is limited. */
#include <stdio.h>

#include "small_files.h"
#include "unit.h"

static ckpt_error err;

/* put_file - writes a safetensors file of HEADER and SIZE zero bytes of data to the memory at AT; returns the
 * size of the file. HEADER has at most 127 bytes, and apostrophes for quotation marks. */
static size_t put_file(char *at, const char *header, size_t size)
{
    size_t n = strlen(header);
    memset(at, 0, 8 + n + size);
    at[0] = (char)n;
    memcpy(at + 8, quoted(header), n);
    return 8 + n + size;
}

static ckpt_status dry_run(ckpt_plan *plan, ckpt_ties ties)
{
    const ckpt_write_options o = {
        .struct_size = sizeof o, .format = "safetensors", .ties = ties, .dry_run = true};
    return ckpt_plan_write(plan, "/tmp/ckpt-ties-nonexistent.safetensors", &o, NULL, &err);
}

/* check_ties - makes a file with METADATA and the tensors "e", "f" and "z" (which is empty), and checks that
 * its list of tensors is WANT: each is " NAME", or " NAME=TARGET" if it is a tie. */
static void check_ties(const char *metadata, const char *want)
{
    char header[512], got[256] = "";
    snprintf(header, sizeof header,
             "{'__metadata__':%s,'f':['U8',[1],[1,2]],'e':['U8',[1],[0,1]],'z':['F32',[0],[2,2]]}", metadata);
    ckpt_file *f = open_safetensors(quoted(header), "ab", 2);
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        const ckpt_tensor t = tensor_at(f, i);
        size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, " %s%s%s", t.name.ptr, t.alias_of == CKPT_NO_TENSOR ? "" : "=",
                 t.alias_of == CKPT_NO_TENSOR ? "" : tensor_at(f, t.alias_of).name.ptr);
        CU_ASSERT(t.alias_of == CKPT_NO_TENSOR || t.storage == tensor_at(f, t.alias_of).storage);
    }
    CU_ASSERT_STRING_EQUAL(got, want);
    close_open_files();
}

static void recorded_ties_are_listed(void)
{
    check_ties("{'g':'e','format':'e','a':'f','h':'e'}", " e f z g=e a=f h=e");
    check_ties("{'y':'z'}", " e f z y=z");         /* an empty tensor has a tie too */
    check_ties("{'b':'c','c':'e'}", " e f z c=e"); /* the target must be a tensor of the file */
    check_ties("{'c':'e','b':'c'}", " e f z c=e");
    check_ties("{'f':'e','e':'e','__metadata__':'e'}", " e f z");
    check_ties("{'g':'none','g':'e'}", " e f z g=e"); /* of duplicate keys, the last one is used */
    check_ties("{'':'e'}", " e f z =e");
    check_ties("null", " e f z");
}

static void max_tensors_counts_recorded_ties(void)
{
    char bytes[512];
    ckpt_file *f = NULL;
    size_t n = put_file(bytes, "{'__metadata__':{'b':'a','c':'a'},'a':['U8',[1],[0,1]]}", 1);
    const ckpt_limits two_tensors = {.struct_size = sizeof two_tensors, .max_tensors = 2},
                      three_tensors = {.struct_size = sizeof three_tensors, .max_tensors = 3};
    CU_ASSERT_EQUAL(ckpt_open_memory(bytes, n, "f", &two_tensors, &f, &err), CKPT_ELIMIT);
    CU_ASSERT_EQUAL(ckpt_open_memory(bytes, n, "f", &three_tensors, &f, &err), CKPT_OK);
    ckpt_close(f);
}

/* Many names of one tensor take few bytes in a file, but the copies that are written for them may take many:
 * max_expanded limits their bytes. */
static void copies_of_ties_are_limited(void)
{
    char bytes[1024];
    ckpt_file *f = NULL;
    ckpt_plan *plan = NULL;
    /* the copies for the names "b" and "c" would have 800 bytes */
    size_t n = put_file(bytes, "{'__metadata__':{'b':'a','c':'a'},'a':['U8',[400],[0,400]]}", 400);
    for (uint64_t max_expanded = 799; max_expanded <= 800; max_expanded++) {
        const ckpt_limits limits = {.struct_size = sizeof limits, .max_expanded = max_expanded};
        CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(bytes, n, "f", &limits, &f, &err), CKPT_OK);
        CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
        CU_ASSERT_EQUAL(dry_run(plan, CKPT_TIES_DROP), CKPT_OK);
        CU_ASSERT_EQUAL(dry_run(plan, CKPT_TIES_COPY), max_expanded == 800 ? CKPT_OK : CKPT_ELIMIT);
        ckpt_plan_free(plan);
        ckpt_close(f);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "800 bytes more than are stored, the limit is 799"));
}

/* If a tensor is dropped, a metadata text whose key is its name may later be read as a tie; a notice reports
 * that. */
static void texts_that_become_ties_are_reported(void)
{
    ckpt_plan *plan = NULL;
    ckpt_file *f = open_safetensors(
        quoted("{'__metadata__':{'a':'b'},'a':['U8',[1],[0,1]],'b':['U8',[1],[1,2]]}"), "ab", 2);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(f, &plan, &err), CKPT_OK);
    CU_ASSERT_EQUAL(dry_run(plan, CKPT_TIES_DROP), CKPT_OK);
    CU_ASSERT_PTR_NULL(ckpt_plan_notice_at(plan, 0));
    CU_ASSERT_EQUAL(ckpt_plan_drop(plan, "a", &err), CKPT_OK);
    CU_ASSERT_EQUAL(dry_run(plan, CKPT_TIES_DROP), CKPT_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ckpt_plan_notice_at(plan, 0));
    CU_ASSERT_STRING_EQUAL(ckpt_plan_notice_at(plan, 0),
                           "the text \"a\" of the metadata now reads as a second name of \"b\"");
    ckpt_plan_free(plan);
    close_open_files();
}

void suite_ties(void)
{
    UNIT(recorded_ties_are_listed);
    UNIT(max_tensors_counts_recorded_ties);
    UNIT(copies_of_ties_are_limited);
    UNIT(texts_that_become_ties_are_reported);
}
