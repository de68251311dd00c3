/* Scanning joblib dumps: the bytes of an array are skipped if its pickle has dtype and shape as constants. */
#include "base/buf.h"
#include "scanned.h"

/* The components of a dump, as opcodes: "U" is SHORT_BINSTRING, with its length, "K" BININT1, "J" BININT, "N"
 * NONE, "\x89" NEWFALSE and "\x88" NEWTRUE. DTYPE - a call of numpy.dtype with ARGS; its result gets STATE by
 * BUILD. NAME_ARGS - the arguments (name, False, True). DTYPE_STATE - the state (3, '<', None, None, None,
 * size, -1, flags). DUMP - a NumpyArrayWrapper with the attributes PAIRS. */
#define WRAPPER                                                                                              \
    "\x80\x03"                                                                                               \
    "cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81"
#define KEY(length, name) "U" length name
#define SUBCLASS_KEY      KEY("\x08", "subclass")
#define CLASS_NDARRAY     SUBCLASS_KEY "cnumpy\nndarray\n"
#define SHAPE_KEY         KEY("\x05", "shape")
#define SHAPE_2X3         SHAPE_KEY "K\x02K\x03\x86" /* 2 x 3: 24 bytes of f4 */
#define ORDER                                                                                                \
    KEY("\x05", "order")                                                                                     \
    "U\x01"                                                                                                  \
    "C"
#define MMAP                     KEY("\x0a", "allow_mmap") "\x88"
#define PADDING_KEY              KEY("\x1b", "numpy_array_alignment_bytes")
#define DTYPE_CLASS              KEY("\x05", "dtype") "cnumpy\ndtype\n"
#define DTYPE(args, state)       DTYPE_CLASS args "R(" state "tb"
#define NAME_ARGS(length, name)  "U" length name "\x89\x88\x87"
#define DTYPE_STATE(size, flags) "K\x03U\x01<NNN" size "J\xff\xff\xff\xff" flags
#define DTYPE_F4                 DTYPE(NAME_ARGS("\x02", "f4"), DTYPE_STATE("J\xff\xff\xff\xff", "K\0"))
#define DUMP(pairs)              WRAPPER "}(" pairs "ub"
#define DATA                                                                                                 \
    "\xff\xfe\xfd\xfc"                                                                                       \
    "56789abcdefghijklmno"
#define VALID_DUMP DUMP(CLASS_NDARRAY SHAPE_2X3 ORDER DTYPE_F4 MMAP) DATA "."

static struct scan_results scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

static void bytes_of_arrays_are_skipped(void)
{
    static const struct {
        ckpt_str bytes;
        uint64_t in_tensors; /* the number of bytes in arrays and in the padding before them */
    } valid[] = {
#define SKIPPED(bytes, in_tensors) {{bytes, sizeof(bytes) - 1}, in_tensors}
        SKIPPED(VALID_DUMP, 24),
        SKIPPED(DUMP(SUBCLASS_KEY "cnumpy\nmemmap\n" SHAPE_2X3 DTYPE_F4) DATA ".", 24),
        SKIPPED(DUMP(SUBCLASS_KEY "cnumpy\nmatrix\n" SHAPE_2X3 DTYPE_F4) DATA ".", 24),
        SKIPPED(DUMP(SUBCLASS_KEY "cnumpy.matrixlib.defmatrix\nmatrix\n" SHAPE_2X3 DTYPE_F4) DATA ".", 24),
        SKIPPED(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 PADDING_KEY "N") DATA ".", 24),
        SKIPPED(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 PADDING_KEY "K\x10") "\x03\xff\xff\xff" DATA ".", 28),
        SKIPPED(DUMP(CLASS_NDARRAY SHAPE_KEY ")" DTYPE_F4) "\xff\xff\xff\xff.", 4),
        SKIPPED(DUMP(CLASS_NDARRAY SHAPE_KEY "K\0\x85" DTYPE_F4) ".", 0),
        SKIPPED(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "S4"), DTYPE_STATE("K\x04", "K\0"))) DATA
                ".",
                24),
        SKIPPED(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "U1"), DTYPE_STATE("K\x04", "K\0"))) DATA
                ".",
                24),
        SKIPPED(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "V4"), "K\x03U\x01|N)}K\x04K\x01K\0"))
                    DATA ".",
                24),
    };
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) {
        struct scan_results s = scan(valid[i].bytes);
        bool is_followed = s.status == CKPT_OK && s.result.found[CKPT_SCAN_INCOMPLETE] == 0;
        CU_ASSERT(is_followed && s.findings == 0);
        CU_ASSERT_EQUAL(s.result.in_tensors, valid[i].in_tensors);
        CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
        CU_ASSERT_STRING_EQUAL(s.result.format, "joblib");
    }
}

/* A dump of an array and a mapping by which hydra calls a function. */
static void targets_next_to_arrays_are_judged(void)
{
    CHECK_ONLY_FINDING(scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 ORDER DTYPE_F4 MMAP) DATA
                                 "}" KEY("\x08", "_target_") KEY("\x09", "os.system") "s\x86.")),
                       "config-exec", 193, "it names os.system");
}

/* The scanner follows a dump only as long as it knows the size of each array. */
static void arrays_of_unknown_size_end_the_scan(void)
{
    static const ckpt_str unknown_size[] = {
        CONSTANT(WRAPPER "Nb."), /* the state is not a dict */
        CONSTANT(WRAPPER "]b."),
        CONSTANT(WRAPPER "}b}b."), /* two states */
        CONSTANT(WRAPPER "}}}\x87"
                         "b."),
        CONSTANT(WRAPPER "NN\x86"
                         "b."),
        /* no shape, a shape that is not a tuple of sizes, or one of more than 2^64 elements or bytes */
        CONSTANT(DUMP(CLASS_NDARRAY DTYPE_F4) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_KEY "N" DTYPE_F4) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_KEY "}" DTYPE_F4) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_KEY ")\x85" DTYPE_F4) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_KEY "N\x85" DTYPE_F4) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_KEY "J\xff\xff\xff\xff\x85" DTYPE_F4) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_KEY "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x04\x86" DTYPE_F4) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_KEY "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85" DTYPE_F4) "."),
        /* no dtype, a dtype that is not called with a valid name, or one without a valid state */
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_CLASS) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_CLASS NAME_ARGS("\x02", "f4") "R") "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(")", DTYPE_STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_CLASS
                      "cnumpy\nfloat32\nR(" DTYPE_STATE("K\x04", "K\0") "tb") "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_CLASS NAME_ARGS("\x02", "f4") "RNb") "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f4"), "K\x03")) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE("N\x85", DTYPE_STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x00", ""), DTYPE_STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x20", "f4444444444444444444444444444444"),
                                                    DTYPE_STATE("K\x04", "K\0"))) "."),
        /* a state with a wrong subarray, size, flags (three times), names or fields */
        CONSTANT(DUMP(
            CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f4"), "K\x03U\x01<K\x01NNK\x04K\0K\0")) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f4"), DTYPE_STATE("N", "K\0"))) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f4"), DTYPE_STATE("K\x04", "N"))) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f4"), DTYPE_STATE("K\x04", ")"))) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f4"), DTYPE_STATE("K\x04", "K\x01"))) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f4"), "K\x03U\x01<N)NK\x04K\0K\0")) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f4"), "K\x03U\x01<NN)K\x04K\0K\0")) "."),
        /* a name without a size, a name whose size is no number or too large, a name of an unknown kind */
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x01", "f"), DTYPE_STATE("K\x04", "K\0"))) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "fx"), DTYPE_STATE("K\x04", "K\0"))) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "f "), DTYPE_STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x16", "f999999999999999999999"),
                                                    DTYPE_STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x15", "f18446744073709551616"),
                                                    DTYPE_STATE("K\x04", "K\0"))) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "x4"), DTYPE_STATE("K\x04", "K\0"))) "."),
        /* texts (S4) with a wrong size, flags or names; objects (O8) with wrong flags or names */
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "S4"),
                                                    DTYPE_STATE("J\xff\xff\xff\xff", "K\0"))) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "S4"), DTYPE_STATE("K\x04", "K\x01"))) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "S4"), "K\x03U\x01<N)NK\x04K\0K\0")) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "O8"), DTYPE_STATE("K\x08", "K\0"))) "."),
        CONSTANT(
            DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "O8"), "K\x03U\x01<N)NK\x08K\0K\x3f")) "."),
        /* an attribute that joblib does not write, and a key that is no text */
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 KEY("\x05", "other") "N") "."),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 "NN") "."),
    };
    for (size_t i = 0; i < sizeof unknown_size / sizeof *unknown_size; i++) {
        struct scan_results s = scan(unknown_size[i]);
        bool reported = s.status == CKPT_OK && s.findings && s.result.found[CKPT_SCAN_INCOMPLETE] == 1 &&
                        s.result.verdict >= CKPT_SCAN_UNKNOWN_CALLABLE;
        for (size_t k = 0; reported && k < s.findings && strcmp(s.all[k].rule, "pickle-not-followed") != 0;
             k++)
            reported = k + 1 < s.findings;
        if (!reported)
            scan_has_finding(&s, 0, "pickle-not-followed", 0, "", (int)i);
        CU_ASSERT(reported);
    }
}

/* In the first file, the shape has more items than the scanner keeps; in the second file, the dict of the
 * attributes has. */
static void arrays_without_constant_attributes_are_not_followed(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    for (int many_pairs = 0; many_pairs < 2; many_pairs++) {
        b.len = 0;
        buf_put(&b, WRAPPER "}(" CLASS_NDARRAY DTYPE_F4, sizeof(WRAPPER "}(" CLASS_NDARRAY DTYPE_F4) - 1);
        if (!many_pairs)
            buf_put(&b, SHAPE_KEY "(", sizeof(SHAPE_KEY "(") - 1);
        for (int i = 0; i < 300; i++)
            buf_put(&b, many_pairs ? ORDER "" : "K\x01", many_pairs ? sizeof(ORDER) - 1 : 2);
        buf_put(&b, many_pairs ? "ub." : "tub.", many_pairs ? 3 : 4);
        struct scan_results s = scan_buffer(b.data, b.len, 0);
        CU_ASSERT_EQUAL(s.result.found[CKPT_SCAN_INCOMPLETE], 1);
    }
    buf_free(&b);
    struct scan_results s = scan(TEXT("\x80\x03"
                                      "NNb.")); /* not a joblib dump */
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
}

/* joblib.load reads the array of any wrapper whose attributes it needs, and goes on with what follows. */
static void wrappers_that_joblib_does_not_write_are_followed(void)
{
#define SYSTEM "0cos\nsystem\nU\x02id\x85R."
    static const ckpt_str dumps[] = {
        CONSTANT(DUMP(SHAPE_2X3 DTYPE_F4) DATA SYSTEM), /* no array class, or an unknown one */
        CONSTANT(DUMP(SUBCLASS_KEY "N" SHAPE_2X3 DTYPE_F4) DATA SYSTEM),
        CONSTANT(DUMP(SUBCLASS_KEY "cnumpy\nrecarray\n" SHAPE_2X3 DTYPE_F4) DATA SYSTEM),
        CONSTANT(DUMP(SUBCLASS_KEY "cnot\nndarray\n" SHAPE_2X3 DTYPE_F4) DATA SYSTEM),
        CONSTANT(DUMP(SUBCLASS_KEY "cx\ny\n)RU\x07ndarray\x93" SHAPE_2X3 DTYPE_F4) DATA SYSTEM),
        CONSTANT(DUMP(CLASS_NDARRAY SHAPE_KEY "](K\x06"
                                              "e" DTYPE_F4) DATA SYSTEM),
        /* attributes in both dicts of a pair */
        CONSTANT(WRAPPER "}(" CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 "uN\x86"
                         "b" DATA SYSTEM),
        CONSTANT(WRAPPER "N}(" CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 "u\x86"
                         "b" DATA SYSTEM),
        CONSTANT(WRAPPER "}(" CLASS_NDARRAY SHAPE_2X3 "u}(" DTYPE_F4 "u\x86"
                         "b" DATA SYSTEM),
    };
    for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++) {
        struct scan_results s = scan(dumps[i]);
        bool is_followed = s.status == CKPT_OK && s.result.verdict == CKPT_SCAN_KNOWN_EXEC &&
                           s.result.found[CKPT_SCAN_INCOMPLETE] == 0 && s.result.in_tensors == 24;
        CU_ASSERT(is_followed);
        if (!is_followed)
            scan_has_finding(&s, 0, "", 0, "", (int)i);
    }
}

/* In protocols 0 and 1, _reconstructor makes objects, the wrapper among them. */
#define RECONSTRUCTED(class, base) "ccopy_reg\n_reconstructor\n(" class base "NtR"
#define RECONSTRUCTED_WRAPPER                                                                                \
    RECONSTRUCTED("cjoblib.numpy_pickle\nNumpyArrayWrapper\n", "c__builtin__\nobject\n")

static void wrappers_of_old_protocols_are_known(void)
{
    struct scan_results s = scan(
        TEXT("(V\n" RECONSTRUCTED_WRAPPER "}(" CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 "ub" DATA "t."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.in_tensors == 24);
    CU_ASSERT_STRING_EQUAL(s.result.format, "joblib");
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_ALLOW_LISTED);
    s = scan(TEXT(RECONSTRUCTED("cargparse\nNamespace\n", "c__builtin__\nobject\n") "}b."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
    s = scan(TEXT(RECONSTRUCTED("cmine\nThing\n", "c__builtin__\nobject\n") "."));
    CU_ASSERT(s.findings == 2 && s.result.verdict == CKPT_SCAN_UNKNOWN_CALLABLE);
    static const ckpt_str others[] = {
        CONSTANT(RECONSTRUCTED("cnumpy\nmemmap\n", "c__builtin__\nobject\n") "."),
        CONSTANT(RECONSTRUCTED("cjoblib.numpy_pickle\nNumpyArrayWrapper\n", "c__builtin__\ndict\n") "."),
        CONSTANT(RECONSTRUCTED("cjoblib.numpy_pickle\nNumpyArrayWrapper\n", "N") "."),
        CONSTANT(RECONSTRUCTED("", "") "."),
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        s = scan(others[i]);
        CU_ASSERT(s.findings == 1 && strcmp(s.all[0].rule, "unusual-arguments") == 0);
    }
}

/* pickle.load executes the bytes of an array as opcodes, so harmful opcodes in them are reported. */
static void arrays_that_pickle_load_executes_are_reported(void)
{
    struct scan_results s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4) "cos\nsystem\nU\x05"
                                                                             "true \x85R0N0N"
                                                                             "."));
    enum { ARRAY_OFFSET = sizeof(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4)) - 1 };
    CHECK_FINDING(s, 3, "two-formats", ARRAY_OFFSET,
                  "what joblib.load takes for an array, pickle.load takes for opcodes");
    CHECK_FINDING(s, 3, "known-exec", ARRAY_OFFSET + 19, ""); /* 19: the offset of REDUCE in the array */
    /* the array is also scanned as a pickle, in which offsets count from the beginning of the array */
    CHECK_FINDING(s, 3, "known-exec", 19, "");
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_EQUAL(s.result.in_tensors, 24);
    s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4) "cnumpy\nmeans\n0N0N0N0N0N0"
                                                         ".")); /* the opcodes only import */
    CHECK_FINDING(s, 2, "two-formats", ARRAY_OFFSET, "");
    s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4) "cnum py\nme\n0N0N0N0N0N0N0"
                                                         ".")); /* no valid name, so probably random bytes */
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
}

/* The bytes of the array are a pickle of its own, which a loader runs if it expects an array of objects. In
 * the second file, pickle.load does not get that far: it fails at the padding. */
static void arrays_that_are_pickles_of_their_own_are_reported(void)
{
    struct scan_results s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4) "]p000\ncos\nsystem\n(K\1tR0."
                                                                             "."));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 PADDING_KEY "K\x10") "\x01x"
                                                                             "]p000\ncos\nsystem\n(K\1tR0."
                                                                             "."));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

#define DTYPE_OBJECTS DTYPE(NAME_ARGS("\x02", "O8"), DTYPE_STATE("K\x08", "K\x3f"))

static void object_arrays_are_followed_by_a_pickle(void)
{
    enum { PICKLE_OFFSET = sizeof(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_OBJECTS)) - 1 };
    struct scan_results s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_OBJECTS) "\x80\x03](K\1e.."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
    CU_ASSERT_STRING_EQUAL(s.result.format, "joblib");
    s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_OBJECTS) "\x80\x03"
                                                              "cos\nsystem\nU\x02id\x85R.."));
    CHECK_FINDING(s, 2, "known-exec", PICKLE_OFFSET + REDUCE_OFFSET, "");
    s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_OBJECTS) "\x80\x03](K\1"));
    CHECK_ONLY_FINDING(s, "broken-pickle", PICKLE_OFFSET + 6, "the pickle ends without STOP");
    s = scan(TEXT(
        DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(NAME_ARGS("\x02", "V8"), "K\x03U\x01|NU\x01"
                                                                    "a\x85}U\x01"
                                                                    "acnumpy\ndtype\nU\x02O8\x85RK\0\x86s"
                                                                    "K\x08K\x01K\x1b")) "\x80\x03].."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
}

/* pickle.load goes on with the memo of the dump, in which the pickle of the objects finds the wrapper instead
 * of a text: STACK_GLOBAL (\x93) then fails. If it finds a text, it imports what joblib.load does not. */
static void memo_entries_that_are_no_text_are_no_names(void)
{
#define PUT_WRAPPER                                                                                          \
    "\x80\x04"                                                                                               \
    "cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81"
#define OBJECTS_AFTER(memo) PUT_WRAPPER memo "}(" CLASS_NDARRAY SHAPE_2X3 DTYPE_OBJECTS "ub"
    struct scan_results s = scan(TEXT(OBJECTS_AFTER("q\0") "\x80\x04U\x05numpyq\0"
                                                           "0h\0U\x05"
                                                           "dtype\x93.."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
    s = scan(TEXT(PUT_WRAPPER "U\x02osq\0"
                              "0}(" CLASS_NDARRAY SHAPE_2X3 DTYPE_OBJECTS "ub"
                              "\x80\x04h\0U\x06system\x93.."));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

static void arrays_of_ml_dtypes_are_skipped(void)
{
    struct scan_results s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE(
        "cml_dtypes\nbfloat16\n\x89\x88\x87", DTYPE_STATE("K\x02", "K\0"))) "0123456789ab."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.in_tensors == 12);
    s = scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE("cml_dtypes\nfloat8_e5m2\n\x89\x88\x87",
                                                     DTYPE_STATE("K\x01", "K\0"))) "012345."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.in_tensors == 6);
}

/* NUMPY_ARRAY - an array of one element as numpy pickles it; DATA are eight bytes or a list. FIELD_A - the
 * names and fields of a struct of one field "a". STRUCT_DTYPE - a struct of 8 bytes. Flags: "K\x3f" objects,
 * "K\x10" a struct, "K\x1b" a struct with objects. */
#define EIGHT_BYTES KEY("\x08", "AAAAAAAA")
#define NUMPY_ARRAY(dtype, data)                                                                             \
    "\x80\x02"                                                                                               \
    "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\x01"                                   \
    "btR(K\x01K\x01\x85" dtype "\x89" data "tb."
#define DTYPE_WITH_STATE(args, state) "cnumpy\ndtype\n" args "R(" state "tb"
#define FIELD_A(dtype, at)                                                                                   \
    "U\x01"                                                                                                  \
    "a\x85}U\x01"                                                                                            \
    "a" dtype at "\x86s"
#define DTYPE_WITHOUT_STATE(length, name) "cnumpy\ndtype\n" NAME_ARGS(length, name) "R"
#define STRUCT_DTYPE(fields, flags)                                                                          \
    DTYPE_WITH_STATE(NAME_ARGS("\x02", "V8"), "K\x03U\x01|N" fields "K\x08K\x01" flags)

static void inconsistent_dtypes_are_reported(void)
{
    static const ckpt_str inconsistent[] = {
        CONSTANT(
            NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "O8"), DTYPE_STATE("K\x08", "K\0")), EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "O8"), DTYPE_STATE("K\x08", "K\x01")),
                             EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "O8"), DTYPE_STATE("K\x08", "K\x3f")),
                             EIGHT_BYTES)), /* the data are not a list */
        CONSTANT(NUMPY_ARRAY(DTYPE_WITHOUT_STATE("\x02", "O8"), EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITHOUT_STATE("\x04", "O,f4"), EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "f8"), DTYPE_STATE("K\x08", "K\x01")),
                             EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "f8"), "K\x02U\x01<NNNK\x08K\x08K\x10"),
                             EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "f8"), "K\x05U\x01<NNNK\x08K\x08K\0"),
                             EIGHT_BYTES)),
        CONSTANT(
            NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "f8"), "K\x03U\x01<NNNK\x08K\x08"), EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY("cnumpy\ndtype\n" NAME_ARGS("\x02", "f8") "RNb", EIGHT_BYTES)),
        CONSTANT(
            NUMPY_ARRAY(STRUCT_DTYPE(FIELD_A(DTYPE_WITHOUT_STATE("\x02", "O8"), "K\0"), "K\0"), EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(STRUCT_DTYPE(FIELD_A(DTYPE_WITHOUT_STATE("\x02", "f8"), "K\0"), "K\x1b"),
                             EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(STRUCT_DTYPE(FIELD_A(DTYPE_WITHOUT_STATE("\x02", "f8"), "K\x01"), "K\x10"),
                             EIGHT_BYTES)), /* the field reaches beyond the element */
        CONSTANT(NUMPY_ARRAY(
            STRUCT_DTYPE(
                FIELD_A(STRUCT_DTYPE(FIELD_A(DTYPE_WITHOUT_STATE("\x02", "O8"), "K\0"), "K\0"), "K\0"),
                "K\0"),
            EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(STRUCT_DTYPE(FIELD_A("N", "K\0"), "K\x10"), EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(STRUCT_DTYPE("N}K\1K\1s", "K\x10"), EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(
            DTYPE_WITH_STATE(NAME_ARGS("\x02", "V8"),
                             "K\x03U\x01|" DTYPE_WITHOUT_STATE("\x02", "O8") "K\1\x85\x86NNK\x08K\x01K\0"),
            EIGHT_BYTES)), /* a subarray of objects */
    };
    static const ckpt_str consistent[] = {
        CONSTANT(
            NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "f8"), DTYPE_STATE("K\x08", "K\0")), EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "U2"), DTYPE_STATE("K\x08", "K\x08")),
                             EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "M8"), "K\x04U\x01<NNNK\x08K\x08K\0}"),
                             EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITH_STATE(NAME_ARGS("\x02", "O8"), DTYPE_STATE("K\x08", "K\x3f")), "]")),
        CONSTANT(NUMPY_ARRAY(DTYPE_WITHOUT_STATE("\x02", "f8"), EIGHT_BYTES)),
        CONSTANT(
            NUMPY_ARRAY(DTYPE_WITH_STATE("cml_dtypes\nbfloat16\n\x89\x88\x87", DTYPE_STATE("K\x08", "K\x70")),
                        EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(STRUCT_DTYPE(FIELD_A(DTYPE_WITHOUT_STATE("\x02", "f8"), "K\0"), "K\x10"),
                             EIGHT_BYTES)),
        CONSTANT(NUMPY_ARRAY(STRUCT_DTYPE(FIELD_A(DTYPE_WITHOUT_STATE("\x02", "O8"), "K\0"), "K\x1b"), "]")),
        CONSTANT(NUMPY_ARRAY(
            DTYPE_WITH_STATE(NAME_ARGS("\x02", "V8"),
                             "K\x03U\x01|" DTYPE_WITHOUT_STATE("\x02", "f8") "K\1\x85\x86NNK\x08K\x01K\x10"),
            EIGHT_BYTES)),
    };
    for (size_t i = 0; i < sizeof inconsistent / sizeof *inconsistent; i++) {
        struct scan_results s = scan(inconsistent[i]);
        CU_ASSERT(s.findings > 0 && strcmp(s.first_finding.rule, "numpy-objects") == 0);
        if (s.findings == 0 || strcmp(s.first_finding.rule, "numpy-objects") != 0)
            scan_has_finding(&s, 0, "", 0, "", (int)i);
    }
    for (size_t i = 0; i < sizeof consistent / sizeof *consistent; i++) {
        struct scan_results s = scan(consistent[i]);
        if (s.findings)
            scan_has_finding(&s, 0, "", 0, "", (int)(100 + i));
        CU_ASSERT_EQUAL(s.findings, 0);
    }
}

#define WRAPPED_ARRAY                                                                                        \
    "cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(" CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 "ub" DATA

static void several_arrays_are_skipped(void)
{
    struct scan_results s = scan(TEXT("\x80\x03](" WRAPPED_ARRAY WRAPPED_ARRAY "e."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.in_tensors == 48);
    s = scan(TEXT("\x80\x03" WRAPPED_ARRAY "}b.")); /* a second BUILD of the same array */
    CHECK_FINDING(s, 3, "pickle-not-followed", sizeof("\x80\x03" WRAPPED_ARRAY), "cannot be determined");
    CHECK_FINDING(s, 3, "unresolved-callable", sizeof("\x80\x03" WRAPPED_ARRAY), "once more after BUILD");
    CHECK_FINDING(s, 3, "unusual-arguments", sizeof("\x80\x03" WRAPPED_ARRAY), "");
}

static void truncated_arrays_are_reported(void)
{
    enum { BUILD_OFFSET = sizeof(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 PADDING_KEY "K\x10")) - 2 };
    CHECK_ONLY_FINDING(scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4) "0123.")), "broken-pickle",
                       sizeof(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4)) - 2,
                       "BUILD needs 24 more bytes, 5 are left");
    CHECK_ONLY_FINDING(scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 PADDING_KEY "K\x10"))),
                       "broken-pickle", BUILD_OFFSET, "needs 1 more bytes, 0 are left");
    CHECK_ONLY_FINDING(scan(TEXT(DUMP(CLASS_NDARRAY SHAPE_2X3 DTYPE_F4 PADDING_KEY "K\x10") "\xc8" DATA ".")),
                       "broken-pickle", BUILD_OFFSET, "needs 200 more bytes, 25 are left");
}

/* The opcode FRAME with its size, a number below 256. joblib reads the bytes of an array between two frames.
 * In the files below, opcodes begin at 11, after PROTO and FRAME. */
#define FRAME(n) "\x95" n "\0\0\0\0\0\0\0"

static void frames_must_end_before_arrays(void)
{
    /* a frame of the 133 bytes of opcodes before the array */
    struct scan_results s = scan(TEXT("\x80\x04" FRAME("\x85") WRAPPED_ARRAY FRAME("\x01") "."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.in_tensors == 24);
    /* a frame of 154 bytes ends in the array, after BUILD at 143 */
    s = scan(TEXT("\x80\x04" FRAME("\x9a") WRAPPED_ARRAY FRAME("\x01") "."));
    CHECK_ONLY_FINDING(s, "frame-crossed", 143, "goes beyond the end of a frame");
    /* a frame of 32 bytes ends in its first opcode, GLOBAL at 11 */
    s = scan(TEXT("\x80\x04" FRAME("\x20") WRAPPED_ARRAY FRAME("\x01") "."));
    CHECK_FINDING(s, 2, "frame-crossed", 11, "goes beyond the end of a frame");
}

void suite_scan_joblib(void)
{
    UNIT(bytes_of_arrays_are_skipped);
    UNIT(targets_next_to_arrays_are_judged);
    UNIT(arrays_without_constant_attributes_are_not_followed);
    UNIT(arrays_that_pickle_load_executes_are_reported);
    UNIT(arrays_that_are_pickles_of_their_own_are_reported);
    UNIT(inconsistent_dtypes_are_reported);
    UNIT(object_arrays_are_followed_by_a_pickle);
    UNIT(memo_entries_that_are_no_text_are_no_names);
    UNIT(arrays_of_ml_dtypes_are_skipped);
    UNIT(several_arrays_are_skipped);
    UNIT(wrappers_that_joblib_does_not_write_are_followed);
    UNIT(wrappers_of_old_protocols_are_known);
    UNIT(truncated_arrays_are_reported);
    UNIT(frames_must_end_before_arrays);
    UNIT(arrays_of_unknown_size_end_the_scan);
}
