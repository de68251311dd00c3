/* Scanning HDF5, ONNX and SavedModel files: they are not parsed, but searched for dangerous texts. Each file
 * has a finding of the level INCOMPLETE, too. */
#include "base/buf.h"
#include "scanned.h"

#define HDF5     "\x89HDF\r\n\x1a\n"       /* the signature, 8 bytes */
#define ONNX     "\x08\x08\x12\x07pytorch" /* ir_version and producer_name, 11 bytes */
#define LOCATION "\x0a\x08location\x12"    /* the key; the length and the text of a path follow */

static struct scan_results scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

/* check_incomplete - checks that the finding of the level INCOMPLETE is the only one of BYTES, and that the
 * format is unknown or some of the bytes are not accounted for. */
static void check_incomplete(ckpt_str bytes)
{
    struct scan_results s = scan(bytes);
    CU_ASSERT_EQUAL(s.status, CKPT_OK);
    CU_ASSERT_EQUAL(s.findings, 1);
    CU_ASSERT(s.result.format == NULL || s.result.accounted < bytes.len);
}

static void classes_of_keras_are_found(void)
{
    CHECK_FINDING(scan(TEXT(HDF5 "\"class_name\"\t: \r\n\"Lambda\"")), 2, "keras-code", 8, "a Lambda layer");
    CHECK_FINDING(scan(TEXT(HDF5 "\"class_name\":\"TorchModuleWrapper\"")), 2, "keras-code", 8,
                  "a torch module");
    check_incomplete(TEXT(HDF5 "\"class_name\""));
    check_incomplete(TEXT(HDF5 "\"class_name\": "));
    check_incomplete(TEXT(HDF5 "\"class_name\"\0\"Lambda\""));
    check_incomplete(TEXT(HDF5 "\"class_name\":\"Lambda"));
    check_incomplete(TEXT(HDF5 "\"class_nam\":\"Lambda\""));
}

static void locations_outside_of_the_folder_are_found(void)
{
    CHECK_FINDING(scan(TEXT(ONNX LOCATION "\x02\\a")), 2, "external-path", 11, "\\a");
    CHECK_FINDING(scan(TEXT(ONNX LOCATION "\x02..")), 2, "external-path", 11,
                  "\"..\", outside of the model's folder");
    CHECK_FINDING(scan(TEXT(ONNX LOCATION "\x04/tmp and more")), 2, "external-path", 11, "\"/tmp\", outside");
    CHECK_FINDING(scan(TEXT(ONNX LOCATION "\x01/")), 2, "external-path", 11, "\"/\"");
    check_incomplete(TEXT(ONNX LOCATION));
    check_incomplete(TEXT(ONNX LOCATION "\x05"));
    check_incomplete(TEXT(ONNX LOCATION "\0/etc"));
    check_incomplete(TEXT(ONNX LOCATION "\x01z:"));
    check_incomplete(TEXT(ONNX LOCATION "\x03...")); /* "..." is an ordinary name */
    /* not the beginning of an ONNX file: ir_version 33 or 0, or a producer_name that is a number */
    check_incomplete(TEXT("\x08\x21\x12\x07pytorch" LOCATION "\x02.."));
    check_incomplete(TEXT("\x08\0\x12\x07pytorch" LOCATION "\x02.."));
    check_incomplete(TEXT("\x08\x08\x10\x07pytorch" LOCATION "\x02.."));
}

/* The length of a path of 128 bytes or more takes two bytes. */
static void long_locations_are_found(void)
{
    buf b;
    buf_init(&b, 1024);
    buf_put(&b, ONNX LOCATION "\x82\x01", sizeof ONNX LOCATION + 1);
    for (size_t i = 0; i < 127; i++)
        buf_byte(&b, 'd');
    buf_put_cstr(&b, "/..");
    CHECK_FINDING(scan(str_of((const char *)b.data, b.len)), 2, "external-path", 11, "ddd");
    b.data[sizeof ONNX LOCATION - 1] = 0xff; /* 127, in two bytes: the path ends before "/.." */
    b.data[sizeof ONNX LOCATION] = 0;
    check_incomplete(str_of((const char *)b.data, b.len));
    buf_free(&b);
}

static void operations_are_found(void)
{
/* In protobuf, \x12 is the tag of field 2; its length and its text follow. */
#define OPERATIONS                                                                                           \
    "\x08\x01\x12\x1b\x12\x06PyFunc\x12\x08ReadFile\x12\x09WriteFile\x12\x0b"                                \
    "EagerPyFunc"
    struct scan_results s = scan(TEXT(OPERATIONS));
    CHECK_FINDING(s, 5, "graph-code", 4, "the operation PyFunc calls Python");
    CHECK_FINDING(s, 5, "graph-code", 12, "the operation ReadFile reads");
    CHECK_FINDING(s, 5, "graph-code", 22, "the operation WriteFile writes");
    CHECK_FINDING(s, 5, "graph-code", 33, "the operation EagerPyFunc calls Python");
    s = scan_buffer(OPERATIONS, sizeof OPERATIONS - 1, 2); /* the callback stops after two findings */
    CU_ASSERT_EQUAL(s.status, CKPT_ECANCELLED);
    CU_ASSERT_EQUAL(s.findings, 2);
}

/* Only the first hundred operations are reported. The other finding is that the format is not recognized. */
static void findings_are_limited(void)
{
    buf b;
    buf_init(&b, 4096);
    buf_put_cstr(&b, "\x08\x01");
    for (size_t i = 0; i < 150; i++)
        buf_put_cstr(&b, "\x12\x06PyFunc");
    struct scan_results s = scan(str_of((const char *)b.data, b.len));
    CU_ASSERT_EQUAL(s.status, CKPT_OK);
    CU_ASSERT_EQUAL(s.findings, 100 + 1);
    buf_free(&b);
}

/* A piece of sentencepiece with the text "<unk>" and the byte TYPE, and the message of the trainer. */
#define PIECE(type) "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18" type
#define TRAINER     "\x12\x02\x18\x01"

static void models_of_sentencepiece_are_data(void)
{
    struct scan_results s = scan(TEXT(PIECE("\x02") "\x0a\x03\x0a\x01z" TRAINER "\x1a\0\x2a\0"));
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes &&
              strcmp(s.result.format, "sentencepiece") == 0);
    check_incomplete(TEXT(PIECE("\x02")));                    /* without a trainer */
    check_incomplete(TEXT(TRAINER "\x1a\0"));                 /* without a piece */
    check_incomplete(TEXT(PIECE("\x07") TRAINER));            /* of an unknown type */
    check_incomplete(TEXT(TRAINER PIECE("\x02")));            /* in another order */
    check_incomplete(TEXT(PIECE("\x02") TRAINER "\x32\0"));   /* an unknown field */
    check_incomplete(TEXT(PIECE("\x02") TRAINER "\x1a\x01")); /* cut off */
    check_incomplete(TEXT(PIECE("\x02") TRAINER "\x18\x01")); /* a number */
    check_incomplete(TEXT("\x0a\x03\x0a\x01\xff" TRAINER));   /* a text that is no UTF-8 */
    check_incomplete(TEXT("\x0a\x05\x15\0\0\0\0" TRAINER));   /* a piece without a text */
}

void suite_scan_opaque_formats(void)
{
    UNIT(classes_of_keras_are_found);
    UNIT(locations_outside_of_the_folder_are_found);
    UNIT(long_locations_are_found);
    UNIT(operations_are_found);
    UNIT(findings_are_limited);
    UNIT(models_of_sentencepiece_are_data);
}
