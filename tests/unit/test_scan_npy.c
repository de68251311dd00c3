/* Scanning numpy's .npy files: only headers of a simple form are trusted, and the elements that they declare
 * must fill the file. */
#include <stdio.h>
#include <stdlib.h>

#include "scanned.h"
#include "tarball.h"

/* scan - scans a .npy file of VERSION with HEADER, followed by DATA. */
static struct scan_results scan(unsigned version, const char *header, ckpt_str data, size_t stop_at)
{
    buf b;
    size_t n = strlen(header);
    buf_init(&b, 1 << 20);
    buf_put(&b, "\x93NUMPY", 6);
    buf_byte(&b, (unsigned char)version);
    buf_byte(&b, 0);
    for (unsigned i = 0; i < (version < 2 ? 2 : 4); i++)
        buf_byte(&b, (unsigned char)(n >> 8 * i));
    buf_put_cstr(&b, header);
    buf_put_str(&b, data);
    struct scan_results s = scan_buffer(b.data, b.len, stop_at);
    CU_ASSERT(s.status == CKPT_ECANCELLED || (s.result.format && strcmp(s.result.format, "npy") == 0));
    buf_free(&b);
    return s;
}

/* Headers that declare 16 bytes of elements. */
static const char *const simple_headers[] = {
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }\n",
    "{'descr': '>f8', 'fortran_order': True, 'shape': (2,)}\n",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 8), }      \n",
    "{'descr': '=i2', 'fortran_order': False, 'shape': (2, 2, 2), }\n",
    "{'descr': 'f4', 'fortran_order': False, 'shape': (4,), }\n",
    "{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }\n",
    "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2,), }\n",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (), }\n",
};

static void elements_that_fill_the_file_are_data(void)
{
    for (size_t i = 0; i < sizeof simple_headers / sizeof *simple_headers; i++)
        for (unsigned version = 1; version <= 2; version++) {
            struct scan_results s = scan(version, simple_headers[i], TEXT("0123456789abcdef"), 0);
            CU_ASSERT_EQUAL(s.status, CKPT_OK);
            CU_ASSERT_EQUAL(s.findings, 0);
            CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
            CU_ASSERT_EQUAL(s.result.pickles, 0);
        }
}

static void missing_elements_are_reported(void)
{
    for (size_t i = 0; i < sizeof simple_headers / sizeof *simple_headers; i++) {
        struct scan_results s = scan(1, simple_headers[i], TEXT("0123456789"), 0);
        CU_ASSERT_EQUAL(s.status, CKPT_OK);
        CU_ASSERT_EQUAL(s.findings, 1);
        CU_ASSERT_STRING_EQUAL(s.first_finding.rule, "malformed");
        CU_ASSERT_STRING_EQUAL(s.first_finding.text, "the elements need 16 bytes, the file has 10");
        CU_ASSERT_EQUAL(s.first_finding.offset, 10 + strlen(simple_headers[i]));
    }
}

static void bytes_after_the_elements_are_scanned(void)
{
    struct scan_results s = scan(1, simple_headers[0], TEXT("0123456789abcdef" CALL_OS_SYSTEM), 0);
    CU_ASSERT_EQUAL(s.status, CKPT_OK);
    CU_ASSERT_STRING_EQUAL(s.first_finding.rule, "malformed");
    CU_ASSERT_STRING_EQUAL(s.first_finding.text, "20 bytes follow the elements");
    CU_ASSERT_EQUAL(s.first_finding.offset, 10 + strlen(simple_headers[0]) + 16);
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_EQUAL(scan(1, simple_headers[0], TEXT("0123456789abcdef more"), 1).status, CKPT_ECANCELLED);
}

#define ARRAY_OF(header, data) "\x93NUMPY\x01\0" header data
#define HEADER_OF_4_FLOATS     "\x3a\0{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }\n"
#define FLOATS_4               ARRAY_OF(HEADER_OF_4_FLOATS, "0123456789abcdef")
#define RECORD                                                                                               \
    ARRAY_OF("\x48\0{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }     \n",              \
             "0123456789abcdef")

/* numpy.load of an open file reads one array after the other; Equinox writes a line of JSON before them. */
static void arrays_in_a_row_are_data(void)
{
    static const ckpt_str rows[] = {
        CONSTANT(FLOATS_4 FLOATS_4),
        CONSTANT(FLOATS_4 RECORD FLOATS_4),
        CONSTANT("{\"depth\": 2}\n" FLOATS_4 FLOATS_4),
        CONSTANT("{}\n" FLOATS_4),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scan_results s = scan_buffer(rows[i].ptr, rows[i].len, 0);
        CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
        CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
        CU_ASSERT_STRING_EQUAL(s.result.format, "npy");
    }
}

static void what_follows_arrays_in_a_row_is_scanned(void)
{
    struct scan_results s = scan_buffer(FLOATS_4 FLOATS_4 CALL_OS_SYSTEM,
                                        sizeof(FLOATS_4 FLOATS_4 CALL_OS_SYSTEM) - 1, 0);
    CHECK_FINDING(s, 2, "malformed", 2 * (sizeof(FLOATS_4) - 1), "20 bytes follow the elements");
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    /* the second array is a pickle */
    s = scan_buffer(FLOATS_4 "\x93NUMPY\x01\0\x02\0{}" CALL_OS_SYSTEM,
                    sizeof(FLOATS_4) + 11 + sizeof(CALL_OS_SYSTEM) - 1, 0);
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
    /* the line describes a Lambda layer */
    s = scan_buffer("{\"class_name\": \"Lambda\"}\n" FLOATS_4, 25 + sizeof(FLOATS_4) - 1 + 0, 0);
    CHECK_ONLY_FINDING(s, "keras-code", 23, "");
    /* no array follows the line */
    s = scan_buffer("{}\n\x93NUMPX\x01\0\x02\0{}", 15, 0);
    CHECK_ONLY_FINDING(s, "unknown-format", 0, "");
    CU_ASSERT_EQUAL(scan_buffer(FLOATS_4 FLOATS_4 "more", 2 * sizeof(FLOATS_4) + 2, 1).status,
                    CKPT_ECANCELLED);
}

static void sizes_that_overflow_are_reported(void)
{
    static const char *const headers[] = {
        "{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 16), }\n",
        "{'descr': '<U4611686018427387903', 'fortran_order': False, 'shape': (16,), }\n",
    };
    for (size_t i = 0; i < 2; i++) {
        struct scan_results s = scan(1, headers[i], TEXT("0123456789abcdef"), 0);
        CU_ASSERT_EQUAL(s.findings, 1);
        CU_ASSERT_STRING_EQUAL(s.first_finding.text,
                               "the elements need 18446744073709551615 bytes, the file has 16");
    }
}

/* After a header of another form, the scanner looks for a pickle, whatever the header declares. */
static void pickles_after_unusual_headers_are_found(void)
{
    static const char *const headers[] = {
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
        "{'descr': 'object', 'fortran_order': False, 'shape': (1,), }\n",
        "{'descr': '', 'fortran_order': False, 'shape': (1,), }\n",
        "{'descr': '<f', 'fortran_order': False, 'shape': (1,), }\n",
        "{'descr': '<f4', 'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1, }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,) }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n ",
        "{'descr': '<f18446744073709551616', 'fortran_order': False, 'shape': (1,), }\n",
        "{'descr': '<f99999999999999999999', 'fortran_order': False, 'shape': (1,), }\n",
        "{'descr': '<U9223372036854775807', 'fortran_order': False, 'shape': (1,), }\n",
        "{'descr': '<M8[ns', 'fortran_order': False, 'shape': (99999999999999999999,), }\n",
        "{'descr': '<M8[ns",
        "[]",
        "",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct scan_results s = scan(1, headers[i], TEXT(CALL_OS_SYSTEM), 0);
        CU_ASSERT_EQUAL(s.status, CKPT_OK);
        CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
        CU_ASSERT_EQUAL(s.result.calls, 1);
        CU_ASSERT_EQUAL(s.result.accounted, s.result.bytes);
        CU_ASSERT_EQUAL(scan(1, headers[i], TEXT("no pickle, no elements"), 0).result.pickles, 0);
    }
}

static void pickles_after_truncated_headers_are_found(void)
{
    char header[80];
    for (size_t n = 0; n < strlen(simple_headers[1]); n++) {
        snprintf(header, sizeof header, "%.*s", (int)n, simple_headers[1]);
        struct scan_results s = scan(1, header, TEXT(CALL_OS_SYSTEM), 0);
        CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    }
    /* a header with a NUL byte, and a harmless pickle */
    struct scan_results s = scan_buffer("\x93NUMPY\x01\0\x0c\0{'descr': '\0\x80\x02]q\0.", 28, 0);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.pickles == 1);
}

static void a_tar_archive_of_an_array_is_reported_as_tar(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    tar_member(&b, "a.npy", '0', TEXT("\x93NUMPY\x01\0\x04\0none"));
    struct scan_results s = scan_buffer(b.data, b.len, 0);
    CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
    CU_ASSERT_STRING_EQUAL(s.result.format, "tar");
    buf_free(&b);
}

static void a_header_longer_than_the_file_is_reported(void)
{
    struct scan_results s = scan_buffer("\x93NUMPY\x01\x00\xff\x7f{}", 12, 0);
    CU_ASSERT_STRING_EQUAL(s.first_finding.rule, "malformed");
    CU_ASSERT_EQUAL(s.first_finding.offset, 8);
    CU_ASSERT_STRING_EQUAL(s.first_finding.text, "a header of 32767 bytes, but the file has 2 there");
    s = scan_buffer("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, 1);
    CU_ASSERT_EQUAL(s.status, CKPT_ECANCELLED);
    CU_ASSERT_STRING_EQUAL(s.first_finding.text, "a header of 4294967295 bytes, but the file has 0 there");
    unsigned char *large = calloc(1, 70000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    memcpy(large, "\x93NUMPY\x03\x00\x01\x00\x01\x00", 12);
    s = scan_buffer(large, 70000, 0);
    CU_ASSERT_STRING_EQUAL(s.first_finding.text,
                           "a header of 65537 bytes; at most 65536 are allowed, of which numpy reads 10000");
    free(large);
}

void suite_scan_npy(void)
{
    UNIT(elements_that_fill_the_file_are_data);
    UNIT(missing_elements_are_reported);
    UNIT(bytes_after_the_elements_are_scanned);
    UNIT(arrays_in_a_row_are_data);
    UNIT(what_follows_arrays_in_a_row_is_scanned);
    UNIT(sizes_that_overflow_are_reported);
    UNIT(pickles_after_unusual_headers_are_found);
    UNIT(pickles_after_truncated_headers_are_found);
    UNIT(a_tar_archive_of_an_array_is_reported_as_tar);
    UNIT(a_header_longer_than_the_file_is_reported);
}
