/* trace_payload.c - see tracer.h. A value is reported if it begins like a compressed file, a program, or a
 * pickle of protocol 2 to 5 (some of these also in base64 or hexadecimal). It is also reported if its first
 * byte can begin a pickle and a newline or STACK_GLOBAL follows, because every import has one of them, or if
 * it is too long to be searched for these. It is also reported if it may be zlib or lzma data, and bytes are
 * if they may end in a zip archive. On the way it looks for a text of the caller's. */
#include "codec/tracer.h"

#include "codec/pickle_line.h"
#include "codec/pickle_ops.h"
#include "codec/zip_header.h"
#include "core/numpy.h"

#define FILE_MIN     16u                 /* bytes of the smallest value that is reported as a file */
#define PICKLE_MIN   8u                  /* likewise, as a pickle */
#define SOUGHT_MIN   3u                  /* of the smallest text that the caller looks for */
#define SEARCHED     4096u               /* bytes searched for a newline or STACK_GLOBAL */
#define ZIP_SEARCHED (READER_WINDOW / 4) /* bytes of the largest value searched for a zip archive */

static bool has_magic(const unsigned char *bytes, size_t nbytes)
{
    static const char *const magic[] = {ZIP_LOCAL_BYTES,
                                        "\x1f\x8b\x08",
                                        "BZh",
                                        "7z\xbc\xaf",
                                        "\xfd"
                                        "7zX",
                                        "\x28\xb5\x2f\xfd",
                                        "\x7f"
                                        "ELF"};
    for (size_t i = 0; nbytes >= 5 && i < sizeof magic / sizeof *magic; i++)
        if (memcmp(bytes, magic[i], strlen(magic[i])) == 0)
            return true;
    return nbytes >= 5 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5;
}

/* may_be_compressed - returns true if BYTES may begin zlib data (RFC 1950 and 1951): method 8, the check of
 * the header, no dictionary, and a block that is no reserved type and, if it is stored, whose two lengths
 * match; or lzma data: properties 5d and a dictionary size that is a multiple of 64 KiB. */
static bool may_be_compressed(const unsigned char *bytes, size_t nbytes)
{
    if (nbytes < FILE_MIN)
        return false;
    unsigned block_type = bytes[2] >> 1 & 3;
    bool is_zlib_header = (bytes[0] & 0x8f) == 8 && (bytes[0] * 256u + bytes[1]) % 31 == 0 &&
                          !(bytes[1] & 0x20);
    bool is_block = block_type == 0 ? (bytes[3] ^ bytes[5]) == 0xff && (bytes[4] ^ bytes[6]) == 0xff
                                    : block_type != 3;
    return (is_zlib_header && is_block) || memcmp(bytes, "\x5d\0\0", 3) == 0;
}

/* looks_encoded - returns true if BYTES begins like a pickle of protocol 2 to 5 in hexadecimal or base64, or
 * like ZIP_LOCAL_BYTES or 1f 8b 08 in base64. */
static bool looks_encoded(const unsigned char *bytes, size_t nbytes)
{
    return nbytes >= 5 && ((memcmp(bytes, "800", 3) == 0 && bytes[3] >= '2' && bytes[3] <= '5') ||
                           (bytes[0] == 'g' && bytes[1] == 'A' && bytes[2] >= 'I' && bytes[2] <= 'X') ||
                           memcmp(bytes, "UEsDB", 5) == 0 || memcmp(bytes, "H4sI", 4) == 0);
}

enum { MAY_BE_FILE = 1, MAY_BE_PICKLE = 2 };

/* get_possible_kinds - returns what can begin with the byte BITS, as bits of the enum. A pickle cannot begin
 * with an opcode that needs items on the stack or in the memo. */
static unsigned get_possible_kinds(unsigned char bits)
{
    static const unsigned char first[256] = {
        ['P'] = 3,  [0x1f] = 1, ['B'] = 3,  ['7'] = 1,  [0xfd] = 1, ['('] = 3,  [0x7f] = 1, ['g'] = 1,
        ['8'] = 1,  ['U'] = 3,  ['H'] = 1,  [0x80] = 3, ['F'] = 2,  ['I'] = 2,  ['J'] = 2,  ['K'] = 2,
        ['L'] = 2,  ['M'] = 2,  ['N'] = 2,  ['S'] = 2,  ['T'] = 2,  ['V'] = 2,  ['X'] = 2,  ['c'] = 2,
        ['}'] = 2,  [']'] = 2,  [')'] = 2,  ['G'] = 2,  ['C'] = 2,  [0x88] = 2, [0x89] = 2, [0x8a] = 2,
        [0x8b] = 2, [0x8c] = 2, [0x8d] = 2, [0x8e] = 2, [0x8f] = 2, [0x95] = 2, [0x96] = 2};
    bool may_be_zlib = (bits & 0x8f) == 8;
    return first[bits] | (may_be_zlib || bits == 0x5d ? MAY_BE_FILE : 0);
}

/* report_if_payload - reports PAYLOAD if it begins like a file, or if it begins like a pickle and
 * MAY_IMPORT. */
static bool report_if_payload(struct tracer *tracer, struct trace_payload *payload, bool may_import)
{
    unsigned kinds = payload->nhead ? get_possible_kinds(payload->head[0]) : 0;
    payload->looks_encoded = looks_encoded(payload->head, payload->nhead);
    bool is_file = kinds & MAY_BE_FILE && payload->size >= FILE_MIN &&
                   (payload->looks_encoded || has_magic(payload->head, payload->nhead));
    struct trace_step s = {
        .what = TRACE_STEP_PAYLOAD, .subject = tracer_constant_ref(tracer), .payload = payload};
    payload->may_be_file = is_file;
    payload->may_be_compressed = !is_file && kinds & MAY_BE_FILE &&
                                 may_be_compressed(payload->head, payload->nhead);
    payload->may_be_pickle = !is_file && kinds & MAY_BE_PICKLE && may_import;
    return !(is_file || payload->may_be_compressed || payload->may_be_pickle || payload->may_end_in_zip) ||
           tracer_report(tracer, &s);
}

/* check_end_of_zip - sets *MAY_END_IN_ZIP to whether the next COUNT bytes have the signature of a zip
 * archive's end record, or are too many to be searched. */
static bool check_end_of_zip(struct tracer *tracer, size_t count, bool *may_end_in_zip)
{
    *may_end_in_zip = count > ZIP_SEARCHED;
    if (count < ZIP_LOCAL_SIZE + ZIP_CENTRAL_SIZE + ZIP_END_SIZE ||
        *may_end_in_zip) /* no room for a member */
        return true;
    if ((size_t)(tracer->u.lim - tracer->u.p) < count && !unpickler_fill(&tracer->u, count))
        return false;
    *may_end_in_zip = str_find(str_of((const char *)tracer->u.p, count), STR_LIT(ZIP_END_BYTES), 0) !=
                      SIZE_MAX;
    return true;
}

/* could_import - returns true if BYTES has a newline or STACK_GLOBAL, as every import has. */
static bool could_import(const unsigned char *bytes, size_t nbytes)
{
    return memchr(bytes, '\n', nbytes) || memchr(bytes, 0x93, nbytes);
}

/* decode_latin1_head - sets the head of PAYLOAD to the first NBYTES bytes of UTF-8 text, at BYTES, encoded in
 * Latin-1. */
static void decode_latin1_head(struct trace_payload *payload, const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes && payload->nhead < sizeof payload->head; i++) {
        bool is_pair = (bytes[i] == 0xc2 || bytes[i] == 0xc3) && i + 1 < nbytes;
        payload->head[payload->nhead++] = is_pair
                                              ? (unsigned char)((bytes[i] & 3) << 6 | (bytes[i + 1] & 0x3f))
                                              : bytes[i];
        i += is_pair;
    }
}

/* look_for_texts - notes whether the NBYTES bytes at BYTES, a text or its first bytes, are a text that the
 * caller looks for. */
static void look_for_texts(struct tracer *tracer, const unsigned char *bytes, size_t nbytes)
{
    const char *const *sought = tracer->options->sought_texts;
    for (uint32_t i = 0; sought && sought[i]; i++)
        if (str_eq(str_of((const char *)bytes, nbytes), str_c(sought[i])) ||
            numpy_is_text(bytes, nbytes, str_c(sought[i])))
            tracer->result->sought_texts |= UINT32_C(1) << i;
}

/* may_be_sought - returns true if a text that the caller looks for begins with the byte CHARACTER, or may do
 * so as a text of numpy. */
static bool may_be_sought(const struct tracer *tracer, unsigned char character)
{
    const char *const *sought = tracer->options->sought_texts;
    bool may_be = sought && character == '\0';
    for (; sought && *sought; sought++)
        may_be |= character == (unsigned char)**sought;
    return may_be;
}

bool payload_report_bytes(struct tracer *tracer, uint64_t count)
{
    bool is_text = pickle_pushes(tracer->u.op, CKPT_V_STR, CKPT_V_STR);
    size_t searched = count < SEARCHED ? (size_t)count : SEARCHED;
    bool is_number = pickle_pushes(tracer->u.op, CKPT_V_BIGINT, CKPT_V_BIGINT);
    if (count < SOUGHT_MIN || count > unpickler_bytes_left(&tracer->u) || is_number)
        return true;
    if (tracer->u.p == tracer->u.lim && !unpickler_fill(&tracer->u, 1))
        return false;
    enum trace_encoding encoding = is_text ? TRACE_ENC_LATIN1 : TRACE_ENC_BYTES;
    struct trace_payload v = {.start = unpickler_offset(&tracer->u), .size = count, .encoding = encoding};
    if (may_be_sought(tracer, *tracer->u.p)) {
        size_t start = count < sizeof v.head ? (size_t)count : sizeof v.head;
        if ((size_t)(tracer->u.lim - tracer->u.p) < start && !unpickler_fill(&tracer->u, start))
            return false;
        look_for_texts(tracer, tracer->u.p, start);
    }
    if (count < PICKLE_MIN)
        return true;
    if (!is_text && !check_end_of_zip(tracer, count < SIZE_MAX ? (size_t)count : SIZE_MAX, &v.may_end_in_zip))
        return false;
    if (!v.may_end_in_zip && !get_possible_kinds(*tracer->u.p) &&
        !(is_text && (*tracer->u.p == 0xc2 || *tracer->u.p == 0xc3)))
        return true;
    if ((size_t)(tracer->u.lim - tracer->u.p) < searched && !unpickler_fill(&tracer->u, searched))
        return false;
    if (is_text) {
        decode_latin1_head(&v, tracer->u.p, searched);
    } else {
        v.nhead = searched < sizeof v.head ? searched : sizeof v.head;
        memcpy(v.head, tracer->u.p, v.nhead);
    }
    return report_if_payload(tracer, &v, count > SEARCHED || could_import(tracer->u.p, searched));
}

/* decode_line_head - sets the head of PAYLOAD from the line whose first NBYTES bytes are at BYTES. Returns
 * true if they can be decoded, and the line could import; if it IS_LONGER, what follows could. */
static bool decode_line_head(struct trace_payload *payload, const unsigned char *bytes, size_t nbytes,
                             bool is_longer)
{
    struct pickle_line l = {.unicode = payload->encoding == TRACE_ENC_UNICODE};
    bool may_import = is_longer;
    for (size_t i = 0; i < nbytes; i++) {
        uint32_t cp[2];
        int ncps = pickle_line_next(&l, bytes[i], cp);
        for (int k = 0; k < ncps; k++) {
            may_import = may_import || cp[k] == '\n' || cp[k] == 0x93;
            if (cp[k] > 0xff)
                return false;
            if (payload->nhead < sizeof payload->head)
                payload->head[payload->nhead++] = (unsigned char)cp[k];
        }
        if (ncps < 0)
            return false;
    }
    return may_import;
}

bool payload_report_line(struct tracer *tracer)
{
    char line[LONGEST_NAME];
    size_t n, quotes = tracer->u.op == PICKLE_STRING;
    uint64_t start = unpickler_offset(&tracer->u);
    if (!tracer_read_line(tracer, line, &n))
        return false;
    uint64_t size = unpickler_offset(&tracer->u) - start - 1;
    if (n < quotes || size < SOUGHT_MIN + 2 * quotes)
        return true;
    struct trace_payload v = {.start = start + quotes,
                              .size = size - 2 * quotes,
                              .encoding = quotes ? TRACE_ENC_STRING : TRACE_ENC_UNICODE};
    n -= quotes;
    bool may_import = decode_line_head(&v, (const unsigned char *)line + quotes,
                                       n < v.size ? n : (size_t)v.size, n < v.size);
    look_for_texts(tracer, v.head, v.nhead);
    return v.size < PICKLE_MIN || report_if_payload(tracer, &v, may_import);
}
