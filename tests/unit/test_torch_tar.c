/* The tar archives of torch 0.1: what their members must hold, and what is said of them otherwise. */
#include <stdio.h>

#include "tarball.h"
#include "unit.h"

#define TEXT(s) str_of(s, sizeof(s) - 1)

/* pickle n; (key 7, "cpu", torch.FloatStorage); 4 elements; no views */
#define COUNT    "\x80\x02K\x01."
#define STORAGE  "\x80\x02K\x07X\x03\0\0\0cpuctorch\nFloatStorage\n\x87."
#define FOUR     "\x04\0\0\0\0\0\0\0"
#define DATA     "0123456789abcdef"
#define STORED   COUNT STORAGE FOUR DATA
#define NO_VIEWS "\x80\x02]."
/* pickle n; (key 8, storage 7, class); 2 sizes, strides, an offset */
#define TENSOR                                                                                               \
    "\x80\x02K\x08K\x07"                                                                                     \
    "ctorch\nFloatTensor\n\x87."
#define SHAPE                                                                                                \
    "\x02\0\0\0\0\0\0\0"                                                                                     \
    "\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"                                                                   \
    "\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"
#define START  "\0\0\0\0\0\0\0\0"
#define OBJECT "\x80\x02}U\x01wK\x08Qs."

#define CONSTANT(s)                                                                                          \
    {                                                                                                        \
        s, sizeof(s) - 1                                                                                     \
    }
static const ckpt_str sound[] = {CONSTANT(COUNT STORAGE FOUR DATA NO_VIEWS),
                                 CONSTANT(COUNT TENSOR SHAPE START), CONSTANT(OBJECT)};

/* The archive whose member AT is IS, opened. */
static ckpt_status open_with(int at, ckpt_str is, ckpt_file **file, ckpt_error *err)
{
    static const char *const names[] = {"storages", "tensors", "pickle"};
    static buf b;
    buf_free(&b);
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 3; i++) {
        ckpt_str member = i == at ? is : sound[i];
        char size[13];
        snprintf(size, sizeof size, "%011zo", member.len);
        tar_put(&b, names[i], "", '0', size, member);
    }
    for (int i = 0; i < 1024; i++)
        buf_byte(&b, 0);
    *file = NULL;
    ckpt_status status = ckpt_open_memory(b.data, b.len, "0.1.tar", NULL, file, err);
    if (status != CKPT_OK)
        buf_free(&b);
    return status;
}

static void a_sound_one_is_read(void)
{
    ckpt_file *file;
    ckpt_error err = {0};
    float out[4];
    CU_ASSERT_EQUAL_FATAL(open_with(-1, sound[0], &file, &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(ckpt_file_format(file), "torch-tar");
    CU_ASSERT_EQUAL_FATAL(ckpt_tensor_count(file), 1);
    const ckpt_tensor it = tensor_at(file, 0), *t = &it;
    CU_ASSERT_STRING_EQUAL(t->name.ptr, "w");
    CU_ASSERT(t->ndim == 2 && t->shape[0] == 2 && t->shape[1] == 2 && t->dtype == CKPT_DT_F32);
    CU_ASSERT_EQUAL(ckpt_tensor_read(file, 0, 0, 4, out, &err), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(out, DATA, 16), 0);
    ckpt_close(file);
}

/* A storage by itself, and a view of it: (key, root, offset, elements). */
static void storages_and_views_are_rows_too(void)
{
    ckpt_file *file;
    ckpt_error err = {0};
    CU_ASSERT_EQUAL_FATAL(open_with(2,
                                    TEXT("\x80\x02}(U\x01sK\x07QU\x01uU\x01"
                                         "7Qu."),
                                    &file, &err),
                          CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(file), 2);
    CU_ASSERT_EQUAL(tensor_at(file, 0).kind, CKPT_STORAGE);
    CU_ASSERT_EQUAL(tensor_at(file, 1).alias_of, 0);
    ckpt_close(file);
    CU_ASSERT_EQUAL_FATAL(open_with(0, TEXT(STORED "\x80\x02](K\x09K\x07K\x01K\x02tae."), &file, &err),
                          CKPT_EFORMAT); /* APPENDS without its mark */
    CU_ASSERT_EQUAL_FATAL(open_with(0, TEXT(STORED "\x80\x02](K\x09K\x07K\x01K\x02ta."), &file, &err),
                          CKPT_OK);
    ckpt_close(file);
}

static void refused(int at, ckpt_str is, ckpt_status want, const char *says, int line)
{
    ckpt_file *file;
    ckpt_error err = {0};
    static const char *const names[] = {"storages", "tensors", "pickle"};
    ckpt_status got = open_with(at, is, &file, &err);
    bool right = got == want && strstr(err.what, says) &&
                 strncmp(err.where, names[at], strlen(names[at])) == 0 && err.offset != CKPT_NO_OFFSET;
    if (!right)
        printf("\n    line %d: %s: byte %llu: %s: %s", line, ckpt_status_name(got),
               (unsigned long long)err.offset, err.where, err.what);
    CU_ASSERT(right);
    ckpt_close(file);
}
#define REFUSED(at, bytes, want, says) refused(at, TEXT(bytes), want, says, __LINE__)

static void storages_that_lie_are_refused(void)
{
    REFUSED(0, "\x80\x02U\x01x.", CKPT_EFORMAT, "begin with how many entries");
    REFUSED(0, "\x80\x02J\xff\xff\xff\xff.", CKPT_EFORMAT, "begin with how many entries");
    REFUSED(0, "\x80\x02J\xff\xff\xff\x7f.", CKPT_EFORMAT, "begin with how many entries");
    REFUSED(0, COUNT "\x80\x02K\x07.", CKPT_EFORMAT, "a storage must be (key, location, class)");
    REFUSED(0, COUNT "\x80\x02K\x07NN\x87.", CKPT_EFORMAT, "a storage must be (key, location, class)");
    REFUSED(0, COUNT "\x80\x02NNctorch\nFloatStorage\n\x87.", CKPT_EFORMAT,
            "found (None, None, torch.FloatStorage)");
    REFUSED(0, COUNT STORAGE "\x04\0\0", CKPT_ETRUNCATED, "needs 8 bytes");
    REFUSED(0, COUNT STORAGE FOUR "0123", CKPT_ETRUNCATED, "needs 4 elements, the member has 4 bytes left");
    REFUSED(0, COUNT STORAGE "\xff\xff\xff\xff\xff\xff\xff\xff" DATA, CKPT_ETRUNCATED,
            "18446744073709551615");
    REFUSED(0, "\x80\x02K\x02." STORAGE FOUR DATA STORAGE FOUR DATA NO_VIEWS, CKPT_EFORMAT,
            "key 7 comes twice");
    REFUSED(0, COUNT STORAGE FOUR DATA, CKPT_ETRUNCATED, "");
}

static void views_that_lie_are_refused(void)
{
    static const char says[] = "a storage view must be (key, root, offset, elements)";
    REFUSED(0, STORED "\x80\x02](NK\x07K\x01K\x02ta.", CKPT_EFORMAT, says);
    REFUSED(0, STORED "\x80\x02](K\x09K\x06K\x01K\x02ta.", CKPT_EFORMAT, says);
    REFUSED(0, STORED "\x80\x02](K\x09K\x07NK\x02ta.", CKPT_EFORMAT, says);
    REFUSED(0, STORED "\x80\x02](K\x09K\x07K\x01Nta.", CKPT_EFORMAT, says);
    REFUSED(0, STORED "\x80\x02](K\x09K\x07J\xff\xff\xff\xffK\x02ta.", CKPT_EFORMAT, says);
    REFUSED(0, STORED "\x80\x02](K\x09K\x07K\x01J\xff\xff\xff\xffta.", CKPT_EFORMAT, says);
    REFUSED(0, STORED "\x80\x02](K\x09K\x07K\x01K\x04ta.", CKPT_EFORMAT, says);
    REFUSED(0, STORED "\x80\x02](K\x07K\x07K\x01K\x02ta.", CKPT_EFORMAT, "key 7 comes twice");
}

static void tensors_that_lie_are_refused(void)
{
    REFUSED(1, "\x80\x02N.", CKPT_EFORMAT, "begin with how many entries");
    REFUSED(1,
            COUNT "\x80\x02K\x08K\x06"
                  "ctorch\nFloatTensor\n\x87." SHAPE START,
            CKPT_EFORMAT, "a tensor must be (key, storage key");
    REFUSED(1,
            COUNT "\x80\x02NK\x07"
                  "ctorch\nFloatTensor\n\x87." SHAPE START,
            CKPT_EFORMAT, "a tensor must be (key, storage key");
    REFUSED(1,
            COUNT "\x80\x02K\x07K\x07"
                  "ctorch\nFloatTensor\n\x87." SHAPE START,
            CKPT_EFORMAT, "key 7 comes twice");
    REFUSED(1, COUNT TENSOR "\xff\xff\xff\xff\0\0\0\0", CKPT_ETRUNCATED, "4294967295 sizes in 0 bytes");
    REFUSED(1,
            COUNT TENSOR "\x01\0\0\0\0\0\0\0"
                         "\0\0\0\0\0\0\0\x80" START START,
            CKPT_EFORMAT, "must be >= 0, found -");
    REFUSED(1, COUNT TENSOR SHAPE, CKPT_ETRUNCATED, "");
    REFUSED(2, "\x80\x02}U\x01wK\x05Qs.", CKPT_EFORMAT, "persistent id 5, which must be the key");
    REFUSED(2,
            "\x80\x02}U\x01w(U\x07storagectorch\nFloatStorage\nU\x01"
            "0U\x03"
            "cpuK\x04tQs.",
            CKPT_EFORMAT, "");
}

void suite_torch_tar(void)
{
    UNIT(a_sound_one_is_read);
    UNIT(storages_and_views_are_rows_too);
    UNIT(storages_that_lie_are_refused);
    UNIT(views_that_lie_are_refused);
    UNIT(tensors_that_lie_are_refused);
}
