/* TorchScript for mobile devices, which is a FlatBuffer: a file that torch wrote, and errors in each table of
 * that file. */
#include <stdio.h>
#include <stdlib.h>

#include "pickled.h"
#include "unit.h"

#define SAMPLE "tests/corpus/torch/t215/mobile_flatbuffer.ptl"

static char sample[4096];
static size_t size;

static void load_sample(void)
{
    FILE *f = fopen(SAMPLE, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    size = fread(sample, 1, sizeof sample, f);
    CU_ASSERT(size == 2656);
    fclose(f);
}

/* check_changed_byte - sets the byte AT of the sample to BYTE; checks that it is refused with WANT in the
 * message or, if WANT is empty, that it is read. In the tests below, AT is a byte of the field that WANT is
 * about. */
static void check_changed_byte(size_t at, int byte, const char *want)
{
    load_sample();
    sample[at] = (char)byte;
    struct test_file made = open_bytes(sample, size, NULL);
    bool right = want[0] ? !made.file && strstr(made.err.what, want) : made.file != NULL;
    CU_ASSERT(right);
    if (!right)
        printf("\n    %zx: \"%s\", must be \"%s\"\n", at, made.file ? "" : made.err.what, want);
    close_file(&made);
}

static void tensors_of_a_module_are_read(void)
{
    load_sample();
    struct test_file made = open_bytes(sample, size, NULL);
    check_tensors(
        &made, "0.weight dense float32[2,2]@0+0 parameter grad;0.bias dense float32[2]@1+0 parameter grad;");
    close_file(&made);
}

static void offsets_stay_in_the_file(void)
{
    check_changed_byte(0x1, 0xff, "an offset of 65340 to a place outside of the file");
    check_changed_byte(0x3c, 0xff, "a table whose vtable is outside of the file");
    check_changed_byte(0x22, 0x08, "field 3 at 16 is not inside its table of 8 bytes");
    check_changed_byte(0x50, 0xff, "1634493184 elements of 4 bytes; the file ends at 2656");
    check_changed_byte(0x3c, 0x3c, "bytes, a vtable of");
}

static void values_are_in_their_lists(void)
{
    check_changed_byte(0x4c, 0, "the module has no state");
    check_changed_byte(0x4c, 9, "element 9 of a vector that has 9");
    check_changed_byte(0x614, 8, "element 20 of a vector that has 2");
    check_changed_byte(0x504, 8, "an object has 4 attributes, its class has 3");
    check_changed_byte(0x532, 8, "element 112 of a vector that has 2");
}

static void tensors_fit_their_storages(void)
{
    check_changed_byte(0xac, 8, "the view reaches byte 16 of storage \"0\", which has 8");
    check_changed_byte(0x616, 8, "a tensor of scalar type 20 cannot be read");
    check_changed_byte(0x5d0, 0x90, "a quantized tensor of scalar type 6");
    check_changed_byte(0x637, 0xff, "a size or stride is -16777214, it must be 0 or more");
    check_changed_byte(0x628, 0x94, "a tensor at element 0 of its storage has 2 strides for 1 sizes");
}

static void cyclic_values_are_refused(void)
{
    check_changed_byte(0x50c, 8, "values contain each other without end");
}

/* A truncated file is refused with a reason, unless only bytes of its tensors are missing. */
static void truncated_files_are_refused(void)
{
    load_sample();
    for (size_t n = 0; n < size; n++) {
        struct test_file made = open_bytes(sample, n, NULL);
        CU_ASSERT(made.file || made.err.what[0]);
        CU_ASSERT(!made.file || n > 0xa5c);
        close_file(&made);
    }
}

void suite_torch_mobile(void)
{
    UNIT(tensors_of_a_module_are_read);
    UNIT(offsets_stay_in_the_file);
    UNIT(values_are_in_their_lists);
    UNIT(tensors_fit_their_storages);
    UNIT(cyclic_values_are_refused);
    UNIT(truncated_files_are_refused);
}
