/* numpy arrays in pickles: each form of their bytes, and malformed arrays. The pickles are written as texts
 * in the notation of put_pickle in pickled.h. */
#include <stdio.h>

#include "core/file.h"
#include "format/graph/walk.h"
#include "pickled.h"

#define DTYPE(code, byte_order)                                                                              \
    "numpy.dtype('" code "',False,True)!(3,'" byte_order "',None,None,None,-1,-1,0)"
#define NEW_ARRAY                         "numpy.core.multiarray._reconstruct(numpy.ndarray,(0,),b'b')"
#define ARRAY(shape, type, fortran, data) NEW_ARRAY "!(1," shape "," type "," fortran "," data ")"
#define DTYPE_F4                          DTYPE("f4", "<")
#define EIGHT_BYTES                       "b'\\00\\00\\80\\3f\\00\\00\\00\\40'" /* the floats 1 and 2 */

static void arrays_are_read(void)
{
    check_opens(ARRAY("(2,1)", DTYPE_F4, "False", EIGHT_BYTES), " ndarray float32[2,1]@0+0;");
    check_opens("numpy._core.multiarray._reconstruct(numpy.ndarray,(0,),b'b')!(1,(2,)," DTYPE_F4
                ",True," EIGHT_BYTES ")",
                " ndarray float32[2]@0+0;");
    check_opens("{'a':#1=" ARRAY("(2,)", DTYPE_F4, "None", EIGHT_BYTES) ",'b':#1}",
                "a ndarray float32[2]@0+0;b ndarray float32[2]@0+0;");
    check_opens("numpy._core.numeric._frombuffer(" EIGHT_BYTES "," DTYPE_F4 ",(1,2),'F')",
                " ndarray float32[1,2]@0+0;");
    check_opens("numpy.core.numeric._frombuffer(" EIGHT_BYTES "," DTYPE_F4 ",(1,2),'C')",
                " ndarray float32[1,2]@0+0;");
    check_opens("numpy.core.numeric._frombuffer(" EIGHT_BYTES "," DTYPE_F4 ",(1,2),None)",
                " ndarray float32[1,2]@0+0;");
    check_opens("numpy.core.multiarray.scalar(" DTYPE("f8", "<") "," EIGHT_BYTES ")",
                " ndarray float64[]@0+0;");
    check_opens(ARRAY("(1,)", DTYPE("U2", "<"), "False", EIGHT_BYTES), " ndarray U2[1]@0+0;");
}

static void incomplete_arrays_are_not_listed(void)
{
    check_opens(NEW_ARRAY, "");
    check_opens(NEW_ARRAY "!5", "");
    check_opens(NEW_ARRAY "!(1,(2,)," DTYPE_F4 ",False)", "");
    check_opens("numpy.core.numeric._frombuffer(" EIGHT_BYTES "," DTYPE_F4 ",(2,))", "");
    check_opens("numpy.core.multiarray.scalar(" DTYPE_F4 ")", "");
}

static void fortran_order_is_read(void)
{
    float v[4];
    struct test_file made = make_torch_zip(ARRAY(
        "(2,2)", DTYPE_F4, "True", "b'\\00\\00\\80\\3f\\00\\00\\00\\40\\00\\00\\40\\40\\00\\00\\80\\40'"));
    CU_ASSERT_EQUAL_FATAL(made.status, CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 0, 0, 4, v, NULL), CKPT_OK);
    unit_to_host_order(v, 4, 4);
    CU_ASSERT(v[0] == 1 && v[1] == 3 && v[2] == 2 && v[3] == 4);
    close_file(&made);
}

#define FROM_BUFFER(shape, order_and_axes)                                                                   \
    "numpy._core.numeric._frombuffer(b'abcdef'," DTYPE("u1", "|") "," shape "," order_and_axes ")"

/* numpy 2.3 and later pickle an array with transposed dimensions in the order of its bytes, with the axes. */
static void transposed_dimensions_are_read(void)
{
    char s[6];
    struct test_file made = make_torch_zip("[" FROM_BUFFER("(1,2,3)", "'K',(2,0,1)") "," FROM_BUFFER(
        "(3,2)", "'K',(1,0)") "," FROM_BUFFER("(6,)", "'K',(0,)") "]");
    check_tensors(&made, "0 ndarray uint8[3,1,2]@0+0;1 ndarray uint8[2,3]@1+0;2 ndarray uint8[6]@2+0;");
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 0, 0, 6, s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(s, "adbecf", 6), 0);
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 1, 0, 6, s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(s, "acebdf", 6), 0);
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 2, 0, 6, s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(s, "abcdef", 6), 0);
    close_file(&made);
    check_opens("numpy._core.numeric._frombuffer(b''," DTYPE("u1", "|") ",(0,2),'K',(1,0))",
                " ndarray uint8[2,0]@0+0;");
}

static void other_orders_are_refused(void)
{
    check_refused("^" FROM_BUFFER("(2,3)", "'K'"), CKPT_EFORMAT, "no axes");
    check_refused("^" FROM_BUFFER("(2,3)", "'K',None"), CKPT_EFORMAT, "no axes");
    check_refused("^" FROM_BUFFER("(2,3)", "'K',(0,)"), CKPT_EFORMAT, "has 1 axes, it must have 2");
    check_refused("^" FROM_BUFFER("(2,3)", "'K',(0,0)"), CKPT_EFORMAT, "must be 0 to 1, each once");
    check_refused("^" FROM_BUFFER("(2,3)", "'K',(0,2)"), CKPT_EFORMAT, "must be 0 to 1, each once");
    check_refused("^" FROM_BUFFER("(2,3)", "'A'"), CKPT_EFORMAT, "must be C, F or K");
    check_refused("^" FROM_BUFFER("(2,3)", "1"), CKPT_EFORMAT, "must be C, F or K");
}

/* jax pickles an array as the call that would make numpy's, its arguments and its state. */
#define JAX(function, callable, state)                                                                       \
    function "(" callable ",(numpy.ndarray,(0,),b'b')," state ",{'weak_type':False})"
#define JAX_STATE "(1,(2,1)," DTYPE_F4 ",False," EIGHT_BYTES ")"
#define NUMPY_NEW "numpy._core.multiarray._reconstruct"

static void arrays_of_jax_are_read(void)
{
    static const char want[] = " ndarray float32[2,1]@0+0;";
    check_opens(JAX("jax._src.array._reconstruct_array", NUMPY_NEW, JAX_STATE), want);
    check_opens(JAX("jax._src.device_array.reconstruct_device_array", NUMPY_NEW, JAX_STATE), want);
    check_opens(JAX("jax.interpreters.xla.reconstruct_device_array", NUMPY_NEW, JAX_STATE), want);
    check_opens(JAX("jax._src.array._reconstruct_array", "os.system", JAX_STATE), "");
    check_opens(JAX("jax._src.array._reconstruct_array", NUMPY_NEW, "None"), "");
    check_opens("jax._src.array._reconstruct_array(" NUMPY_NEW ",(),5)", "");
    check_refused("^" JAX("jax._src.array._reconstruct_array", NUMPY_NEW, "(1,(3,)," DTYPE_F4 ",False,b'')"),
                  CKPT_EFORMAT, "has 0 bytes");
}

#define FOUR_BIG_ENDIAN "b'\\00\\00\\00a\\00\\00\\00b\\00\\00\\00c\\00\\00\\00d'"

/* Elements of text may have any width, and their characters have a byte order. */
static void text_is_read_like_numbers(void)
{
    char s[6], v[16];
    struct test_file made = make_torch_zip(
        "[" ARRAY("(2,)", DTYPE("U2", ">"), "False", FOUR_BIG_ENDIAN) "," ARRAY(
            "(2,1,1)", DTYPE("S3", "|"), "True", "b'abcdef'") "," ARRAY("(2,2)", DTYPE("S1", "|"), "True",
                                                                        "b'abcd'") "]");
    check_tensors(&made, "0 ndarray U2[2]@0+0;1 ndarray S3[2,1,1]@1+0;2 ndarray S1[2,2]@2+0;");
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 0, 0, 4, v, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(v, "a\0\0\0b\0\0\0c\0\0\0d\0\0\0", 16), 0);
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 1, 0, 6, s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(s, "abcdef", 6), 0);
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 2, 0, 4, s, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(s, "acbd", 4), 0);
    close_file(&made);
}

static void big_endian_arrays_are_swapped(void)
{
    float v[2];
    struct test_file made = make_torch_zip(
        "[" ARRAY("(2,)", DTYPE("f4", ">"), "False", "b'\\3f\\80\\00\\00\\40\\00\\00\\00'") "," ARRAY(
            "(8,)", DTYPE("i1", ">"), "False", EIGHT_BYTES) "]");
    check_tensors(&made, "0 ndarray float32[2]@0+0;1 ndarray int8[8]@1+0;");
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 0, 0, 2, v, NULL), CKPT_OK);
    unit_to_host_order(v, 2, 4);
    CU_ASSERT(v[0] == 1 && v[1] == 2);
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 1, 2, 2, v, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(v, "\x80\x3f", 2), 0);
    close_file(&made);
}

/* If one size of an array is 0, the product of the others may overflow: numpy writes such arrays. */
static void empty_arrays_may_have_any_other_sizes(void)
{
    check_opens(ARRAY("(0,4611686018427387904,4611686018427387904)", DTYPE_F4, "False", "b''"),
                " ndarray float32[0,4611686018427387904,4611686018427387904]@0+0;");
    check_opens(ARRAY("(0,3)", DTYPE_F4, "True", "b''"), " ndarray float32[0,3]@0+0;");
}

static void malformed_arrays_are_refused(void)
{
    check_refused("^" ARRAY("(2,)", "7", "False", EIGHT_BYTES), CKPT_EFORMAT,
                  "the dtype of a numpy array must be one of numpy's");
    check_refused(ARRAY("^7", DTYPE_F4, "False", EIGHT_BYTES), CKPT_EFORMAT,
                  "shape is a int, it must be a tuple of integers");
    check_refused("^" ARRAY("(2,)", DTYPE_F4, "False", "[1,2]"), CKPT_EFORMAT,
                  "the data of a numpy array must be bytes");
    check_refused("^" ARRAY("(3,)", DTYPE_F4, "False", EIGHT_BYTES), CKPT_EFORMAT,
                  "a numpy array of 3 elements of float32 has 8 bytes");
    check_refused("^" ARRAY("(4611686018427387904,)", DTYPE_F4, "False", EIGHT_BYTES), CKPT_EFORMAT,
                  "the number of bytes of a numpy array does not fit 64 bits");
    check_refused("^" ARRAY("(4611686018427387904,4)", DTYPE_F4, "False", EIGHT_BYTES), CKPT_EFORMAT,
                  "the number of elements of a numpy array does not fit 64 bits");
}

/* Protocol 2 has no opcode for bytes, so Python 3 writes a call that creates them. */
static void bytes_in_other_forms_are_read(void)
{
    static const char *const forms[] = {
        "_codecs.encode('\\00\\00\\c2\\80\\3f\\00\\00\\00\\40','latin1')",
        "builtins.bytes(" EIGHT_BYTES ")",
        "__builtin__.bytearray(builtins.bytearray(__builtin__.bytes(" EIGHT_BYTES ")))",
        "s'\\00\\00\\80\\3f\\00\\00\\00\\40'",
    };
    char text[512];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        float v[2] = {0};
        snprintf(text, sizeof text, ARRAY("(2,)", DTYPE_F4, "False", "%s"), forms[i]);
        struct test_file made = make_torch_zip(text);
        check_tensors(&made, " ndarray float32[2]@0+0;");
        CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 0, 0, 2, v, NULL), CKPT_OK);
        unit_to_host_order(v, 2, 4);
        CU_ASSERT(v[0] == 1 && v[1] == 2);
        close_file(&made);
    }
    check_opens(ARRAY("(0,)", DTYPE_F4, "False", "builtins.bytes()"), " ndarray float32[0]@0+0;");
    check_refused("^" ARRAY("(2,)", DTYPE_F4, "False",
                            "builtins.bytes(builtins.bytes(builtins.bytes(builtins.bytes(" EIGHT_BYTES
                            "))))"),
                  CKPT_EFORMAT, "the data of a numpy array must be bytes");
    check_refused("^" ARRAY("(2,)", DTYPE_F4, "False", "_codecs.encode(5,'latin1')"), CKPT_EFORMAT,
                  "the data of a numpy array must be bytes");
    check_refused(ARRAY("(2,)", DTYPE_F4, "False", "_codecs.encode(^'\\c4\\80','latin1')"), CKPT_EFORMAT,
                  "a latin-1 text has a code point above U+00FF");
}

static void a_failing_allocation_is_an_error(void)
{
    static const struct graph_input no_storages = {.user = NULL};
    struct test_file made = make_torch_zip(ARRAY("(2,)", DTYPE_F4, "False", EIGHT_BYTES));
    CU_ASSERT_PTR_NOT_NULL_FATAL(made.file);
    ckpt_status st = CKPT_ENOMEM;
    for (uint64_t failing = 1; st != CKPT_OK; failing++) { /* the number of the allocation that fails */
        map_free(made.file->storages.by_node);             /* so that the array is added again */
        made.file->storages.by_node = NULL;
        arena_fail_at(made.file->a, failing);
        st = graph_walk(made.file, made.file->root, &no_storages, &made.err);
        CU_ASSERT(st == CKPT_OK || st == CKPT_ENOMEM);
    }
    arena_fail_at(made.file->a, 0);
    CU_ASSERT(str_starts(made.file->table.storages[made.file->table.nstorages - 1].key, STR_LIT("numpy@")));
    close_file(&made);
}

void suite_torch_numpy(void)
{
    UNIT(arrays_are_read);
    UNIT(incomplete_arrays_are_not_listed);
    UNIT(fortran_order_is_read);
    UNIT(transposed_dimensions_are_read);
    UNIT(other_orders_are_refused);
    UNIT(arrays_of_jax_are_read);
    UNIT(text_is_read_like_numbers);
    UNIT(big_endian_arrays_are_swapped);
    UNIT(empty_arrays_may_have_any_other_sizes);
    UNIT(malformed_arrays_are_refused);
    UNIT(bytes_in_other_forms_are_read);
    UNIT(a_failing_allocation_is_an_error);
}
