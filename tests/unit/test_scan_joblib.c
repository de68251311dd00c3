/* Scanning joblib dumps: the bytes of an array are skipped if its pickle has dtype and shape as constants. */
#include "base/buf.h"
#include "scanned.h"

/* The parts of a dump. KEY is a dict key of N bytes, DTYPE a numpy.dtype with the arguments ARGS and the
 * STATE that BUILD sets, and DUMP a NumpyArrayWrapper with the attributes PAIRS. */
#define WRAPPER                                                                                              \
    "\x80\x03"                                                                                               \
    "cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81"
#define KEY(n, name) "U" n name
#define SUBCLASS     KEY("\x08", "subclass")
#define NDARRAY      SUBCLASS "cnumpy\nndarray\n"
#define SHAPE        KEY("\x05", "shape")
#define SHAPE_2X3    SHAPE "K\x02K\x03\x86" /* 2 x 3: 24 bytes of f4 */
#define ORDER                                                                                                \
    KEY("\x05", "order")                                                                                     \
    "U\x01"                                                                                                  \
    "C"
#define MMAP               KEY("\x0a", "allow_mmap") "\x88"
#define PADDED             KEY("\x1b", "numpy_array_alignment_bytes")
#define CALLED             KEY("\x05", "dtype") "cnumpy\ndtype\n"
#define DTYPE(args, state) CALLED args "R(" state "tb"
#define ARGS(n, spelled)   "U" n spelled "\x89\x88\x87"
#define STATE(size, flags) "K\x03U\x01<NNN" size "J\xff\xff\xff\xff" flags
#define F4                 DTYPE(ARGS("\x02", "f4"), STATE("J\xff\xff\xff\xff", "K\0"))
#define DUMP(pairs)        WRAPPER "}(" pairs "ub"
#define DATA                                                                                                 \
    "\xff\xfe\xfd\xfc"                                                                                       \
    "56789abcdefghijklmno"
#define VALID_DUMP DUMP(NDARRAY SHAPE_2X3 ORDER F4 MMAP) DATA "."

static struct scanned scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

static void bytes_of_arrays_are_skipped(void)
{
    static const struct {
        ckpt_str bytes;
        uint64_t numbers;
    } valid[] = {
#define SKIPPED(bytes, n) {{bytes, sizeof(bytes) - 1}, n}
        SKIPPED(VALID_DUMP, 24),
        SKIPPED(DUMP(SUBCLASS "cnumpy\nmemmap\n" SHAPE_2X3 F4) DATA ".", 24),
        SKIPPED(DUMP(SUBCLASS "cnumpy\nmatrix\n" SHAPE_2X3 F4) DATA ".", 24),
        SKIPPED(DUMP(SUBCLASS "cnumpy.matrixlib.defmatrix\nmatrix\n" SHAPE_2X3 F4) DATA ".", 24),
        SKIPPED(DUMP(NDARRAY SHAPE_2X3 F4 PADDED "N") DATA ".", 24),
        SKIPPED(DUMP(NDARRAY SHAPE_2X3 F4 PADDED "K\x10") "\x03\xff\xff\xff" DATA ".", 28),
        SKIPPED(DUMP(NDARRAY SHAPE ")" F4) "\xff\xff\xff\xff.", 4),
        SKIPPED(DUMP(NDARRAY SHAPE "K\0\x85" F4) ".", 0),
        SKIPPED(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "S4"), STATE("K\x04", "K\0"))) DATA ".", 24),
        SKIPPED(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "U1"), STATE("K\x04", "K\0"))) DATA ".", 24),
        SKIPPED(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "V4"), "K\x03U\x01|N)}K\x04K\x01K\0")) DATA ".",
                24),
    };
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) {
        struct scanned s = scan(valid[i].bytes);
        bool known = s.status == CKPT_OK && s.result.found[CKPT_SCAN_INCOMPLETE] == 0 &&
                     s.findings == s.result.found[CKPT_SCAN_WARNING]; /* a name is on no list */
        CU_ASSERT(known && s.findings == (i > 0 && i < 4));           /* memmap, and matrix twice */
        CU_ASSERT_EQUAL(s.result.in_tensors, valid[i].numbers);
        CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
        CU_ASSERT_STRING_EQUAL(s.result.format, "joblib");
    }
}

static void arrays_of_unclear_size_end_the_scan(void)
{
    static const ckpt_str unclear[] = {
        CONSTANT(WRAPPER "Nb."), /* the state is not a dict */
        CONSTANT(WRAPPER "]b."),
        CONSTANT(WRAPPER "}b}b."),        /* two states */
        CONSTANT(DUMP(SHAPE_2X3 F4) "."), /* no array class, or an unknown one */
        CONSTANT(DUMP(SUBCLASS "N" SHAPE_2X3 F4) "."),
        CONSTANT(DUMP(SUBCLASS "cnumpy\nrecarray\n" SHAPE_2X3 F4) "."),
        CONSTANT(DUMP(SUBCLASS "cnot\nndarray\n" SHAPE_2X3 F4) "."),
        CONSTANT(DUMP(NDARRAY F4) "."), /* no shape */
        CONSTANT(DUMP(NDARRAY SHAPE "N" F4) "."),
        CONSTANT(DUMP(NDARRAY SHAPE "]" F4) "."),
        CONSTANT(DUMP(NDARRAY SHAPE ")\x85" F4) "."),
        CONSTANT(DUMP(NDARRAY SHAPE "N\x85" F4) "."),
        CONSTANT(DUMP(NDARRAY SHAPE "J\xff\xff\xff\xff\x85" F4) "."),
        CONSTANT(DUMP(NDARRAY SHAPE "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x04\x86" F4) "."),
        CONSTANT(DUMP(NDARRAY SHAPE "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85" F4) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3) "."), /* no dtype */
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 CALLED) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 CALLED ARGS("\x02", "f4") "R") "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(")", STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 CALLED "cnumpy\nfloat32\nR(" STATE("K\x04", "K\0") "tb") "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 CALLED ARGS("\x02", "f4") "RNb") "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f4"), "K\x03")) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE("N\x85", STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x00", ""), STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x20", "f4444444444444444444444444444444"),
                                              STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f4"), "K\x03U\x01<K\x01NNK\x04K\0K\0")) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f4"), STATE("N", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f4"), STATE("K\x04", "N"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f4"), STATE("K\x04", ")"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f4"), STATE("K\x04", "K\x01"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f4"), "K\x03U\x01<N)NK\x04K\0K\0")) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f4"), "K\x03U\x01<NN)K\x04K\0K\0")) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x01", "f"), STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "fx"), STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "f "), STATE("K\x04", "K\0"))) "."),
        CONSTANT(
            DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x16", "f999999999999999999999"), STATE("K\x04", "K\0"))) "."),
        CONSTANT(
            DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x15", "f18446744073709551616"), STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "x4"), STATE("K\x04", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "S4"), STATE("J\xff\xff\xff\xff", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "S4"), STATE("K\x04", "K\x01"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "S4"), "K\x03U\x01<N)NK\x04K\0K\0")) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "O8"), STATE("K\x08", "K\0"))) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "O8"), "K\x03U\x01<N)NK\x08K\0K\x3f")) "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 F4 KEY("\x05", "other") "N") "."),
        CONSTANT(DUMP(NDARRAY SHAPE_2X3 F4 "NN") "."),
    };
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++) {
        struct scanned s = scan(unclear[i]);
        bool reported = s.status == CKPT_OK && s.findings && s.result.found[CKPT_SCAN_INCOMPLETE] == 1;
        for (size_t k = 0; reported && k < s.findings && strcmp(s.all[k].rule, "pickle-not-followed") != 0;
             k++)
            reported = k + 1 < s.findings;
        if (!reported)
            scan_has_finding(&s, 0, "pickle-not-followed", 0, "", (int)i);
        CU_ASSERT(reported);
    }
}

/* Scans arrays whose shape has more items than the scanner keeps, or whose class has a computed name. */
static void values_that_are_not_constant_are_unclear(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    for (int dict = 0; dict < 2; dict++) {
        b.len = 0;
        buf_put(&b, WRAPPER "}(" NDARRAY F4, sizeof(WRAPPER "}(" NDARRAY F4) - 1);
        if (!dict)
            buf_put(&b, SHAPE "(", sizeof(SHAPE "(") - 1);
        for (int i = 0; i < 300; i++)
            buf_put(&b, dict ? ORDER "" : "K\x01", dict ? sizeof(ORDER) - 1 : 2);
        buf_put(&b, dict ? "ub." : "tub.", dict ? 3 : 4);
        struct scanned s = scan_buffer(b.data, b.len, 0);
        CU_ASSERT_EQUAL(s.result.found[CKPT_SCAN_INCOMPLETE], 1);
    }
    buf_free(&b);
    struct scanned s = scan(TEXT(DUMP(SUBCLASS "cx\ny\n)RU\x07ndarray\x93" SHAPE_2X3 F4) "."));
    CU_ASSERT_EQUAL(s.result.found[CKPT_SCAN_INCOMPLETE], 1);
    s = scan(TEXT("\x80\x03"
                  "NNb.")); /* not a joblib dump */
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
}

/* pickle.load executes the bytes of an array as opcodes, so harmful ones are reported. */
static void arrays_that_pickle_load_executes_are_reported(void)
{
    struct scanned s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 F4) "cos\nsystem\nU\x05"
                                                            "true \x85R0N0N"
                                                            "."));
    enum { ARRAY = sizeof(DUMP(NDARRAY SHAPE_2X3 F4)) - 1 };
    CHECK_FINDING(s, 3, "two-formats", ARRAY,
                  "what joblib.load takes for an array, pickle.load takes for opcodes");
    CHECK_FINDING(s, 3, "known-exec", ARRAY + 19, "");
    CHECK_FINDING(s, 3, "known-exec", 19, ""); /* as a pickle of an object array */
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_EQUAL(s.result.in_tensors, 24);
    s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 F4) "cnumpy\nmeans\n0N0N0N0N0N0"
                                             ".")); /* only an import */
    CHECK_FINDING(s, 2, "two-formats", ARRAY, "");
    s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 F4) "cnum py\nme\n0N0N0N0N0N0N0"
                                             ".")); /* probably random bytes */
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
}

/* These opcodes run on an empty stack and memo, but not after those before the array. */
static void arrays_that_are_pickles_of_their_own_are_reported(void)
{
    struct scanned s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 F4) "]p000\ncos\nsystem\n(K\1tR0."
                                                            "."));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 F4 PADDED "K\x10") "\x01x"
                                                            "]p000\ncos\nsystem\n(K\1tR0."
                                                            "."));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
}

#define OBJECTS DTYPE(ARGS("\x02", "O8"), STATE("K\x08", "K\x3f"))

static void object_arrays_are_followed_by_a_pickle(void)
{
    enum { INNER = sizeof(DUMP(NDARRAY SHAPE_2X3 OBJECTS)) - 1 };
    struct scanned s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 OBJECTS) "\x80\x03](K\1e.."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
    CU_ASSERT_STRING_EQUAL(s.result.format, "joblib");
    s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 OBJECTS) "\x80\x03"
                                                  "cos\nsystem\nU\x02id\x85R.."));
    CHECK_FINDING(s, 2, "known-exec", INNER + 18, "");
    s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 OBJECTS) "\x80\x03](K\1"));
    CHECK_ONLY_FINDING(s, "broken-pickle", INNER + 6, "the pickle ends without STOP");
    s = scan(TEXT(DUMP(NDARRAY SHAPE_2X3 DTYPE(ARGS("\x02", "V8"), "K\x03U\x01|NU\x01"
                                                                   "a\x85}U\x01"
                                                                   "acnumpy\ndtype\nU\x02O8\x85RK\0\x86s"
                                                                   "K\x08K\x01K\x1b")) "\x80\x03].."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
}

/* An array pickled by numpy, with eight bytes or a list as its data. */
#define BYTES8 KEY("\x08", "AAAAAAAA")
#define ARRAY(dtype, data)                                                                                   \
    "\x80\x02"                                                                                               \
    "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\x01"                                   \
    "btR(K\x01K\x01\x85" dtype "\x89" data "tb."
/* BUILT is a dtype with BUILD, UNBUILT one without it. */
#define BUILT(args, state) "cnumpy\ndtype\n" args "R(" state "tb"
#define FIELD(dtype, at)                                                                                     \
    "U\x01"                                                                                                  \
    "a\x85}U\x01"                                                                                            \
    "a" dtype at "\x86s"
#define UNBUILT(n, spelled)   "cnumpy\ndtype\n" ARGS(n, spelled) "R"
#define STRUCT(fields, flags) BUILT(ARGS("\x02", "V8"), "K\x03U\x01|N" fields "K\x08K\x01" flags)

static void inconsistent_dtypes_are_reported(void)
{
    static const ckpt_str inconsistent[] = {
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "O8"), STATE("K\x08", "K\0")), BYTES8)),
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "O8"), STATE("K\x08", "K\x01")), BYTES8)),
        CONSTANT(
            ARRAY(BUILT(ARGS("\x02", "O8"), STATE("K\x08", "K\x3f")), BYTES8)), /* the data are not a list */
        CONSTANT(ARRAY(UNBUILT("\x02", "O8"), BYTES8)),
        CONSTANT(ARRAY(UNBUILT("\x04", "O,f4"), BYTES8)),
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "f8"), STATE("K\x08", "K\x01")), BYTES8)),
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "f8"), "K\x02U\x01<NNNK\x08K\x08K\x10"), BYTES8)),
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "f8"), "K\x05U\x01<NNNK\x08K\x08K\0"), BYTES8)),
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "f8"), "K\x03U\x01<NNNK\x08K\x08"), BYTES8)),
        CONSTANT(ARRAY("cnumpy\ndtype\n" ARGS("\x02", "f8") "RNb", BYTES8)),
        CONSTANT(ARRAY(STRUCT(FIELD(UNBUILT("\x02", "O8"), "K\0"), "K\0"), BYTES8)),
        CONSTANT(ARRAY(STRUCT(FIELD(UNBUILT("\x02", "f8"), "K\0"), "K\x1b"), BYTES8)),
        CONSTANT(ARRAY(STRUCT(FIELD(UNBUILT("\x02", "f8"), "K\x01"), "K\x10"),
                       BYTES8)), /* the field reaches beyond the element */
        CONSTANT(
            ARRAY(STRUCT(FIELD(STRUCT(FIELD(UNBUILT("\x02", "O8"), "K\0"), "K\0"), "K\0"), "K\0"), BYTES8)),
        CONSTANT(ARRAY(STRUCT(FIELD("N", "K\0"), "K\x10"), BYTES8)),
        CONSTANT(ARRAY(STRUCT("N}K\1K\1s", "K\x10"), BYTES8)),
        CONSTANT(
            ARRAY(BUILT(ARGS("\x02", "V8"), "K\x03U\x01|" UNBUILT("\x02", "O8") "K\1\x85\x86NNK\x08K\x01K\0"),
                  BYTES8)), /* a subarray of objects */
    };
    static const ckpt_str consistent[] = {
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "f8"), STATE("K\x08", "K\0")), BYTES8)),
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "U2"), STATE("K\x08", "K\x08")), BYTES8)),
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "M8"), "K\x04U\x01<NNNK\x08K\x08K\0}"), BYTES8)),
        CONSTANT(ARRAY(BUILT(ARGS("\x02", "O8"), STATE("K\x08", "K\x3f")), "]")),
        CONSTANT(ARRAY(UNBUILT("\x02", "f8"), BYTES8)),
        CONSTANT(ARRAY(BUILT("cml_dtypes\nbfloat16\n\x89\x88\x87", STATE("K\x08", "K\x70")), BYTES8)),
        CONSTANT(ARRAY(STRUCT(FIELD(UNBUILT("\x02", "f8"), "K\0"), "K\x10"), BYTES8)),
        CONSTANT(ARRAY(STRUCT(FIELD(UNBUILT("\x02", "O8"), "K\0"), "K\x1b"), "]")),
        CONSTANT(ARRAY(
            BUILT(ARGS("\x02", "V8"), "K\x03U\x01|" UNBUILT("\x02", "f8") "K\1\x85\x86NNK\x08K\x01K\x10"),
            BYTES8)),
    };
    for (size_t i = 0; i < sizeof inconsistent / sizeof *inconsistent; i++) {
        struct scanned s = scan(inconsistent[i]);
        CU_ASSERT(s.findings > 0 && strcmp(s.first.rule, "numpy-objects") == 0);
        if (s.findings == 0 || strcmp(s.first.rule, "numpy-objects") != 0)
            scan_has_finding(&s, 0, "", 0, "", (int)i);
    }
    for (size_t i = 0; i < sizeof consistent / sizeof *consistent; i++) {
        struct scanned s = scan(consistent[i]);
        if (s.findings)
            scan_has_finding(&s, 0, "", 0, "", (int)(100 + i));
        CU_ASSERT_EQUAL(s.findings, 0);
    }
}

#define AGAIN "cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(" NDARRAY SHAPE_2X3 F4 "ub" DATA

static void several_arrays_are_skipped(void)
{
    struct scanned s = scan(TEXT("\x80\x03](" AGAIN AGAIN "e."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.in_tensors == 48);
    s = scan(TEXT("\x80\x03" AGAIN "}b.")); /* BUILD again on the same array */
    CHECK_FINDING(s, 2, "pickle-not-followed", sizeof("\x80\x03" AGAIN), "cannot be determined");
    CHECK_FINDING(s, 2, "unresolved-callable", sizeof("\x80\x03" AGAIN), "once more after BUILD");
}

static void truncated_arrays_are_reported(void)
{
    enum { PAD = sizeof(DUMP(NDARRAY SHAPE_2X3 F4 PADDED "K\x10")) - 2 };
    CHECK_ONLY_FINDING(scan(TEXT(DUMP(NDARRAY SHAPE_2X3 F4) "0123.")), "broken-pickle",
                       sizeof(DUMP(NDARRAY SHAPE_2X3 F4)) - 2, "BUILD needs 24 more bytes, 5 are left");
    CHECK_ONLY_FINDING(scan(TEXT(DUMP(NDARRAY SHAPE_2X3 F4 PADDED "K\x10"))), "broken-pickle", PAD,
                       "needs 1 more bytes, 0 are left");
    CHECK_ONLY_FINDING(scan(TEXT(DUMP(NDARRAY SHAPE_2X3 F4 PADDED "K\x10") "\xc8" DATA ".")), "broken-pickle",
                       PAD, "needs 200 more bytes, 25 are left");
}

/* joblib reads the bytes of an array between two frames. */
#define FRAME(n) "\x95" n "\0\0\0\0\0\0\0"

static void frames_must_end_before_arrays(void)
{
    struct scanned s = scan(TEXT("\x80\x04" FRAME("\x85") AGAIN FRAME("\x01") "."));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.in_tensors == 24);
    s = scan(TEXT("\x80\x04" FRAME("\x9a") AGAIN FRAME("\x01") "."));
    CHECK_ONLY_FINDING(s, "frame-crossed", 143, "goes beyond the end of a frame");
    s = scan(TEXT("\x80\x04" FRAME("\x20") AGAIN FRAME("\x01") ".")); /* the frame ends before the array */
    CHECK_FINDING(s, 2, "frame-crossed", 11, "goes beyond the end of a frame");
}

void suite_scan_joblib(void)
{
    UNIT(bytes_of_arrays_are_skipped);
    UNIT(values_that_are_not_constant_are_unclear);
    UNIT(arrays_that_pickle_load_executes_are_reported);
    UNIT(arrays_that_are_pickles_of_their_own_are_reported);
    UNIT(inconsistent_dtypes_are_reported);
    UNIT(object_arrays_are_followed_by_a_pickle);
    UNIT(several_arrays_are_skipped);
    UNIT(truncated_arrays_are_reported);
    UNIT(frames_must_end_before_arrays);
    UNIT(arrays_of_unclear_size_end_the_scan);
}
