/*
 * opaque_formats.c - in files that `ckpt scan` does not take apart, searches for the bytes of dangerous
 * features, and reports each with its offset. Such a file is INCOMPLETE all the same. The features:
 *   HDF5     Keras keeps the description of a model in an attribute, as JSON in one piece: a Lambda layer
 *            holds bytecode, and .h5 is loaded without safe mode (CVE-2025-9905)
 *   ONNX     (only if codec/onnx cannot read it) a tensor's "location" (onnx.proto,
 *            TensorProto.external_data, a pair of key and value) names the file of its values; see onnx.c
 *   SavedModel of TensorFlow: operations (node_def.proto, field 2 of a node) that read or write files or
 *            call Python
 * ONNX and SavedModel are protobuf without a magic number: both begin with the version, field 1.
 */
#include "io/reader.h"
#include "scan/scan.h"

#define PATTERN_MAX  32u
#define FINDINGS_MAX 100u
#define LOCATION_MAX 255u /* bytes of a location that are examined */

struct pattern {
    const char *bytes;
    const char *what; /* what the operation does, for the report; NULL: it is no operation */
    enum { KERAS_CLASS, EXTERNAL_LOCATION, OPERATION } kind;
};

static const struct pattern hdf5_patterns[] = {{"\"class_name\"", NULL, KERAS_CLASS}};

/* Field number and wire type, length, text. \013 is octal, because \x0bE would be one number. */
static const struct pattern protobuf_patterns[] = {
    {"\x0a\x08location\x12", NULL, EXTERNAL_LOCATION},
    {"\x12\x08ReadFile", "reads a file of its choice", OPERATION},
    {"\x12\x09WriteFile", "writes a file of its choice", OPERATION},
    {"\x12\x06PyFunc", "calls Python", OPERATION},
    {"\x12\013EagerPyFunc", "calls Python", OPERATION},
};

struct search {
    const struct scanned *in;
    unsigned nfound;
};

/* read_bytes_at - reads at most NBYTES bytes at AT into TO, and returns them. */
static ckpt_str read_bytes_at(const struct search *search, uint64_t at, char *to, size_t nbytes)
{
    uint64_t left = at < search->in->src->size ? search->in->src->size - at : 0;
    nbytes = nbytes < left ? nbytes : (size_t)left;
    return str_of(to, scan_read(search->in->x->scan, search->in->src, at, to, nbytes) ? nbytes : 0);
}

/* check_keras_class - reports the class name at AFTER if that class holds code. AT: the key "class_name". */
static ckpt_status check_keras_class(struct search *search, uint64_t at, uint64_t after)
{
    char text[128];
    ckpt_str rest = str_trim_start(read_bytes_at(search, after, text, sizeof text), " \t\r\n:");
    size_t end = rest.len && rest.ptr[0] == '"' ? str_find(rest, STR_LIT("\""), 1) : SIZE_MAX;
    const char *what = end != SIZE_MAX ? keras_describe_code(str_of(rest.ptr + 1, end - 1)) : NULL;
    if (what) {
        search->nfound++;
        return SCAN_FOUND(search->in, SCAN_KERAS_CODE, at, "%s", what);
    }
    return CKPT_OK;
}

bool scan_path_leaves_folder(ckpt_str path)
{
    if (path.len && (path.ptr[0] == '/' || path.ptr[0] == '\\' || (path.len > 1 && path.ptr[1] == ':')))
        return true;
    if (str_has(path, STR_LIT("://")))
        return true;
    for (size_t i = 0; i + 1 < path.len; i++)
        if (path.ptr[i] == '.' && path.ptr[i + 1] == '.' && (i == 0 || strchr("/\\", path.ptr[i - 1])) &&
            (i + 2 == path.len || strchr("/\\", path.ptr[i + 2])))
            return true;
    return false;
}

/* check_external_location - reports a path that leads out of the model's folder. The key "location" is at AT;
 * at AFTER follow the length of the path in one or two bytes, and the path. */
static ckpt_status check_external_location(struct search *search, uint64_t at, uint64_t after)
{
    char text[LOCATION_MAX + 2];
    ckpt_str rest = read_bytes_at(search, after, text, sizeof text);
    if (rest.len < 2)
        return CKPT_OK;
    /* the length is a varint: 7 bits in a byte, low bits first; bit 7 of a byte: one more byte follows */
    size_t path_len = (unsigned char)rest.ptr[0] & 0x7f,
           varint_size = (unsigned char)rest.ptr[0] & 0x80 ? 2 : 1;
    path_len += varint_size == 2 ? (size_t)(unsigned char)rest.ptr[1] << 7 : 0;
    rest = str_skip(rest, varint_size);
    rest.len = path_len < rest.len ? path_len : rest.len;
    if (!scan_path_leaves_folder(rest))
        return CKPT_OK;
    search->nfound++;
    return SCAN_FOUND(search->in, SCAN_EXTERNAL_PATH, at,
                      "a tensor's values are in \"%.*s\", outside of the model's folder", STR_ARG(rest));
}

static ckpt_status report_match(struct search *search, const struct pattern *pattern, uint64_t at)
{
    uint64_t after = at + strlen(pattern->bytes);
    if (search->nfound >= FINDINGS_MAX)
        return CKPT_OK;
    if (pattern->kind == KERAS_CLASS)
        return check_keras_class(search, at, after);
    if (pattern->kind == EXTERNAL_LOCATION)
        return check_external_location(search, at, after);
    search->nfound++;
    const char *name = pattern->bytes + 2; /* the pattern begins with tag and length */
    return SCAN_FOUND(search->in, SCAN_GRAPH_CODE, at, "the operation %s %s", name, pattern->what);
}

static ckpt_status search_patterns(struct search *search, const struct pattern *patterns, size_t count,
                                   ckpt_error *err)
{
    reader r;
    ckpt_status st = CKPT_OK;
    CKPT_TRY(reader_init(&r, search->in->src, 0, search->in->src->size, err));
    while (st == CKPT_OK && reader_left(&r)) {
        size_t window_size = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        /* the window is full; matches that begin in its last bytes are found in the next window */
        size_t step = window_size == reader_left(&r) ? window_size : window_size - PATTERN_MAX;
        const unsigned char *window = reader_peek(&r, window_size), *match;
        for (size_t i = 0; window && st == CKPT_OK && i < count; i++)
            for (size_t from = 0; st == CKPT_OK && from < step; from = (size_t)(match - window) + 1) {
                match = memmem(window + from, window_size - from, patterns[i].bytes,
                               strlen(patterns[i].bytes));
                if (!match || (size_t)(match - window) >= step)
                    break;
                st = report_match(search, &patterns[i], r.pos + (uint64_t)(match - window));
            }
        if (!window || !reader_skip(&r, step))
            break;
    }
    reader_free(&r);
    return r.status != CKPT_OK ? r.status : st;
}

ckpt_status scan_byte_patterns(const struct scanned *in, bool is_hdf5, ckpt_error *err)
{
    struct search s = {.in = in};
    char text[8];
    ckpt_str head = read_bytes_at(&s, 0, text, sizeof text);
    /* field 1, a varint: the version, at most 32; then a field of wire type 2, a text or message */
    bool is_protobuf = head.len == sizeof text && head.ptr[0] == 8 && head.ptr[1] > 0 && head.ptr[1] <= 32 &&
                       (head.ptr[2] & 7) == 2;
    if (is_hdf5)
        return search_patterns(&s, hdf5_patterns, sizeof hdf5_patterns / sizeof *hdf5_patterns, err);
    return is_protobuf ? search_patterns(&s, protobuf_patterns,
                                         sizeof protobuf_patterns / sizeof *protobuf_patterns, err)
                       : CKPT_OK;
}
