/* recognize.c - see recognize.h. Most formats begin with a magic number, listed in signatures.def. The tests
 * here are for the others:
 *   safetensors  64 bits of header length (safetensors/read.c), of which the upper 32 are 0, then JSON
 *   zlib, LZMA   a header of 2 or 13 bytes without a magic number (RFC 1950; the LZMA SDK's lzma.txt)
 *   protobuf     the fields of the message are walked to the last byte of the file, and must all be fields of
 *                ONNX's ModelProto (onnx.proto), Core ML's Model (Model.proto) or TensorFlow's SavedModel
 *                (saved_model.proto) */
#include "format/recognize.h"

#include <stdio.h>

#include "base/text.h"
#include "codec/hdf5.h"
#include "codec/inflate.h"
#include "codec/json_scan.h"
#include "codec/protobuf.h"
#include "format/files/checkpoint_names.h"
#include "format/files/folder.h"
#include "format/safetensors/safetensors.h"

#define MAX_FIELDS      65536u
#define PATH_TEXT_MAX   4096u
#define TFJS_HEAD       65536u /* bytes in which a TensorFlow.js model names its network or weights */
#define ENOUGH_INFLATED 65536u /* random data do not inflate to so many bytes */

ckpt_status recognize_fill(struct probe *probe, const char *path, source *src, ckpt_error *err)
{
    probe->path = path;
    probe->src = src;
    probe->size = src->size;
    probe->nhead = probe->size < PROBE_HEAD ? (size_t)probe->size : PROBE_HEAD;
    return source_read(src, 0, probe->head, probe->nhead, err);
}

/* ---------------------------------------------------------------- safetensors */

/* get_first_characters - sets TWO to the first two characters, other than white space, of the header, which
 * ends at END. Returns how many there are. */
static size_t get_first_characters(const struct probe *probe, uint64_t end, unsigned char two[2])
{
    ckpt_error ignored;
    reader r;
    size_t n = 0, i;
    if (reader_init(&r, probe->src, 8, end, &ignored) != CKPT_OK)
        return 0;
    while (n < 2 && reader_left(&r)) {
        size_t chunk_size = reader_left(&r) < READER_WINDOW ? (size_t)reader_left(&r) : READER_WINDOW;
        const unsigned char *c = reader_take(&r, chunk_size);
        for (i = 0; c && i < chunk_size && n < 2; i++)
            if (!json_is_space(c[i]))
                two[n++] = c[i];
        if (!c)
            break;
    }
    reader_free(&r);
    return n;
}

/* A length beyond the file is a truncated download, which the reader reports. Tried before pickle and zip:
 * the length 640 has the first bytes of a protocol 2 pickle, the length 67324752 those of a zip. */
bool recognize_safetensors(const struct probe *probe)
{
    unsigned char two[2];
    uint64_t length = probe->is_folder || probe->nhead < 10 ? 0 : load_u64le(probe->head);
    if (length < 2 || length > UINT32_MAX)
        return false;
    if (probe->nhead > 11 && memcmp(probe->head + 8, "\xef\xbb\xbf{", 4) == 0)
        return true;
    size_t i = 8, n = 0;
    for (; i < probe->nhead && n < 2; i++)
        if (!json_is_space(probe->head[i]))
            two[n++] = probe->head[i];
    bool fits_file = length <= probe->size - 8;
    if (n < 2 && i < probe->size && fits_file && probe->src && length <= SAFETENSORS_MAX_HEADER)
        n = get_first_characters(probe, 8 + length, two);
    return n && two[0] == '{' && (n < 2 || two[1] == '"' || two[1] == '}' || fits_file);
}

bool recognize_safetensors_at(source *src, uint64_t at)
{
    ckpt_error ignored;
    source *rest;
    struct probe p = {.size = 0};
    uint64_t n = at < src->size ? src->size - at : 0;
    if (!n || source_slice(src, at, n, &rest, &ignored) != CKPT_OK)
        return false;
    bool is_safetensors = recognize_fill(&p, "", rest, &ignored) == CKPT_OK && recognize_safetensors(&p);
    source_unref(rest);
    return is_safetensors;
}

/* ------------------------------------------------------- archives, compression */

bool recognize_archive(const struct probe *probe)
{
    const struct signature *s = recognize(probe);
    return (s && s->kind == SIGN_ZIP) || (probe->size >= ZIP_END_SIZE &&
                                          zip_has_signature(probe->src, probe->size - ZIP_END_SIZE, ZIP_END));
}

static bool is_hdf5(const struct probe *probe)
{
    ckpt_error ignored;
    uint64_t base;
    return probe->src && !probe->is_storage && hdf5_find(probe->src, &base, &ignored) == CKPT_OK;
}

bool recognize_zlib(const struct probe *probe)
{
    return probe->nhead > 2 && (probe->head[0] & 0x8f) == 8 &&
           (probe->head[0] * 256u + probe->head[1]) % 31 == 0;
}

/* is_zlib - returns true if PROBE begins as zlib and can be inflated to the end, or to ENOUGH_INFLATED
 * bytes. */
static bool is_zlib(const struct probe *probe)
{
    ckpt_error ignored;
    uint64_t used;
    if (!recognize_zlib(probe) || !probe->src)
        return false;
    spool *inflated = spool_new(ENOUGH_INFLATED);
    ckpt_status st = inflated
                         ? inflate_into(probe->src, 0, probe->size, INFLATE_ZLIB, inflated, &used, &ignored)
                         : CKPT_ENOMEM;
    bool any = inflated && spool_size(inflated) > 0;
    spool_free(inflated);
    return any && (st == CKPT_OK || st == CKPT_ELIMIT);
}

/* is_lzma - returns true if PROBE begins with properties 5d, a dictionary size that is a multiple of 64 KiB,
 * and an unpacked size of less than a tebibyte, or of 64 set bits if that size is unknown. */
static bool is_lzma(const struct probe *probe)
{
    return str_starts(probe_head(probe), STR_LIT("\x5d\0\0")) && probe->nhead > 13 &&
           (load_u64le(probe->head + 5) == UINT64_MAX || load_u64le(probe->head + 5) >> 40 == 0);
}

/* -------------------------------------------------------------------- pickles */

bool recognize_magic_number(ckpt_str head)
{
    const ckpt_str magic = STR_LIT("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
    const size_t proto = 2, proto_frame = 11; /* bytes of PROTO; of PROTO and FRAME, from protocol 4 on */
    return str_starts(head, STR_LIT("\x80")) &&
           (str_starts(str_skip(head, proto), magic) || str_starts(str_skip(head, proto_frame), magic));
}

bool recognize_legacy(const struct probe *probe)
{
    return str_starts(probe_head(probe), STR_LIT("L119547037146038801333356L\n.")) /* protocols 0 and 1 */ ||
           recognize_magic_number(probe_head(probe));
}

/* Protocols 2 to 5 begin with a PROTO opcode. Older pickles do not: text may begin with the same bytes. */
bool recognize_pickle(const struct probe *probe)
{
    return probe->nhead >= 2 && probe->head[0] == 0x80 && probe->head[1] >= 2 && probe->head[1] <= 5;
}

/* begins_like_joblib - returns true if BITS, the first byte of a file, can begin a pickle of joblib.dump:
 * PROTO, or in protocols 0 and 1 the opcode of a container, tuple or class. */
static bool begins_like_joblib(unsigned char bits) { return bits == 0x80 || (bits && strchr("(])}c", bits)); }

bool recognize_joblib(source *bytes)
{
    ckpt_error ignored;
    char head[JOBLIB_HEAD];
    size_t n = bytes->size < sizeof head ? (size_t)bytes->size : sizeof head;
    if (n <= 2 || source_read(bytes, 0, head, n, &ignored) != CKPT_OK ||
        !begins_like_joblib((unsigned char)head[0]))
        return false;
    /* text may begin like protocol 0, and mention the module */
    ckpt_str name = head[0] == (char)0x80 ? STR_LIT("joblib.numpy_pickle")
                                          : STR_LIT("cjoblib.numpy_pickle\nNumpyArrayWrapper\n");
    return str_find(str_of(head, n), name, 0) != SIZE_MAX;
}

static bool is_joblib_head(const struct probe *probe)
{
    return probe->src && probe->nhead && begins_like_joblib(probe->head[0]) && recognize_joblib(probe->src);
}

/* ------------------------------------------------------------------- protobuf */

/* The fields of a protobuf message, by number and wire type; texts and submessages are PROTO_BYTES. */
struct message {
    uint64_t max_version; /* the largest value of field 1 */
    bool (*is_allowed)(uint64_t number, unsigned wire);
    bool (*is_required)(uint64_t number);
    /* can_begin - returns true if field NUMBER may be the first one inside the required field. A file with
     * such a field there matches even if the rest is truncated or damaged. NULL: only intact files match. */
    bool (*can_begin)(uint64_t number);
};

/* begins_inside - returns true if the required field of MESSAGE at IN begins with an allowed field. */
static bool begins_inside(reader *in, const struct message *message)
{
    const unsigned char *tag = message->can_begin && reader_left(in) ? reader_peek(in, 1) : NULL;
    return tag && *tag < 0x80 && (*tag & 7) == PROTO_BYTES && message->can_begin(*tag >> 3);
}

/* is_message - returns true if PROBE consists of fields of MESSAGE, the version first. */
static bool is_message(const struct probe *probe, const struct message *message)
{
    ckpt_error ignored;
    reader r;
    struct proto_field f;
    bool ok = true, has_required = false, certain = false;
    bool has_version = probe->nhead >= 4 && probe->head[0] == (1 << 3 | PROTO_VARINT) &&
                       probe->head[1] <= message->max_version;
    if (!has_version || !probe->src || reader_init(&r, probe->src, 0, probe->size, &ignored) != CKPT_OK)
        return false;
    for (unsigned i = 0; ok && !certain && reader_left(&r) && i < MAX_FIELDS; i++) {
        ok = proto_read(&r, &f) == CKPT_OK && message->is_allowed(f.number, f.wire);
        certain = ok && message->is_required(f.number) && begins_inside(&r, message);
        ok = ok && (f.wire == PROTO_VARINT || reader_skip(&r, f.value));
        has_required = has_required || message->is_required(f.number);
    }
    ok = certain || (ok && has_required && !reader_left(&r));
    reader_free(&r);
    return ok;
}

/* ModelProto: 1 ir_version, 2 producer_name, 3 producer_version, 4 domain, 5 model_version, 6 doc_string,
 * 7 graph, 8 opset_import, 14 metadata_props, 20 training_info, 25 functions, 26 configuration. */
static bool is_onnx_field(uint64_t count, unsigned wire)
{
    bool is_varint = count == 1 || count == 5;
    return wire == (is_varint ? PROTO_VARINT : PROTO_BYTES) &&
           ((count >= 1 && count <= 8) || count == 14 || count == 20 || count == 25 || count == 26);
}

static bool is_onnx_graph(uint64_t count) { return count == 7; }

/* GraphProto: 1 node, 2 name, 5 initializer, 10 doc_string, 11 input, 12 output, 13 value_info,
 * 14 quantization_annotation, 15 sparse_initializer. */
static bool is_in_onnx_graph(uint64_t count)
{
    return count == 1 || count == 2 || count == 5 || (count >= 10 && count <= 15);
}

static bool is_onnx(const struct probe *probe)
{
    return is_message(probe, &(struct message){64, is_onnx_field, is_onnx_graph, is_in_onnx_graph});
}

/* Model: 1 specificationVersion, 2 description, 3 functions, 4 defaultFunctionName, 10 isUpdatable; from 200
 * on, a field for each kind of model, of which one is set. */
static bool is_core_ml_field(uint64_t count, unsigned wire)
{
    return count == 1 || count == 10
               ? wire == PROTO_VARINT
               : wire == PROTO_BYTES && ((count >= 2 && count <= 4) || (count >= 200 && count <= 3000));
}

static bool is_core_ml_kind(uint64_t count) { return count >= 200; }

static bool is_core_ml(const struct probe *probe)
{
    return is_message(probe, &(struct message){64, is_core_ml_field, is_core_ml_kind, NULL});
}

/* SavedModel: 1 saved_model_schema_version, 2 meta_graphs. */
static bool is_saved_model_field(uint64_t count, unsigned wire)
{
    return count == 1 ? wire == PROTO_VARINT : count == 2 && wire == PROTO_BYTES;
}

static bool is_meta_graph(uint64_t count) { return count == 2; }

static bool is_saved_model(const struct probe *probe)
{
    return is_message(probe, &(struct message){1, is_saved_model_field, is_meta_graph, NULL});
}

/* ----------------------------------------------------- text, failed downloads */

ckpt_str recognize_skip_space(ckpt_str text)
{
    if (str_starts(text, STR_LIT("\xef\xbb\xbf")))
        text = str_skip(text, 3);
    while (text.len && json_is_space((unsigned char)text.ptr[0]))
        text = str_skip(text, 1);
    return text;
}

static ckpt_str get_text(const struct probe *probe) { return recognize_skip_space(probe_head(probe)); }
static bool is_empty(const struct probe *probe) { return probe->size == 0; }

static bool is_all_zero(const struct probe *probe)
{
    for (size_t i = 0; i < probe->nhead; i++)
        if (probe->head[i])
            return false;
    return true;
}

/* begins_with - returns true if the text of PROBE begins with a line of BEGINNINGS, in upper or lower
 * case. */
static bool begins_with(const struct probe *probe, const char *beginnings)
{
    ckpt_str text = get_text(probe);
    for (const char *line = beginnings; *line;) {
        size_t n = strcspn(line, "\n");
        if (text.len >= n && str_ends_any_case(str_of(text.ptr, n), str_of(line, n)))
            return true;
        line += n + 1;
    }
    return false;
}

static bool is_html(const struct probe *probe)
{
    return begins_with(probe, "<!doctype\n<html\n<head\n<script\n");
}

/* get_root_element - returns the text of PROBE from the root element of an XML document on. */
static ckpt_str get_root_element(const struct probe *probe)
{
    ckpt_str text = get_text(probe), declaration = STR_LIT("<?");
    if (!str_starts(text, declaration))
        return text;
    size_t end = str_find(text, STR_LIT("?>"), declaration.len);
    text = str_skip(text, end == SIZE_MAX ? text.len : end + 2);
    return recognize_skip_space(text);
}

static bool is_openvino(const struct probe *probe)
{
    ckpt_str text = get_root_element(probe);
    return str_starts(text, STR_LIT("<net ")) && str_find(text, STR_LIT("version="), 0) != SIZE_MAX;
}

/* is_storage_error - returns true if PROBE is an error of S3, Google Cloud Storage or Azure: all begin
 * alike. */
static bool is_storage_error(const struct probe *probe)
{
    ckpt_str text = get_root_element(probe);
    return (str_starts(text, STR_LIT("<Error>")) || str_starts(text, STR_LIT("<Error "))) &&
           str_find(text, STR_LIT("<Code>"), 0) != SIZE_MAX;
}

static bool is_xml(const struct probe *probe) { return begins_with(probe, "<?xml\n"); }
static bool is_server_error(const struct probe *probe)
{
    return probe->size < 512 &&
           begins_with(probe, "entry not found\ninvalid username or password\naccess denied\n"
                              "not found\nrepository not found\nunauthorized\n"
                              "too many requests\n");
}
static bool is_gated_answer(const struct probe *probe)
{
    return probe->size < 1024 &&
           begins_with(probe, "access to model \naccess to dataset \nyour request to access \n"
                              "cannot access gated repo\n{\"error\":\"access to \n"
                              "{\"error\": \"access to \n{\"error\":\"your request to \n"
                              "{\"error\": \"your request to \n");
}

bool recognize_tensorflow_state(ckpt_str head)
{
    return str_starts(recognize_skip_space(head), STR_LIT("model_checkpoint_path:"));
}
static bool is_tensorflow_state(const struct probe *probe)
{
    return recognize_tensorflow_state(probe_head(probe));
}
static bool is_json_error(const struct probe *probe)
{
    return begins_with(probe, "{\"error\"\n{\"message\"\n");
}

bool recognize_json(const struct probe *probe)
{
    ckpt_str s = get_text(probe);
    return s.len ? s.ptr[0] == '{' || s.ptr[0] == '[' : probe->nhead < probe->size;
}

bool recognize_tfjs(const struct probe *probe)
{
    ckpt_error ignored;
    char bytes[TFJS_HEAD];
    size_t n = probe->size < sizeof bytes ? (size_t)probe->size : sizeof bytes;
    ckpt_str text = str_of(bytes, n);
    return probe->src && get_text(probe).len && get_text(probe).ptr[0] == '{' &&
           source_read(probe->src, 0, bytes, n, &ignored) == CKPT_OK &&
           (str_find(text, STR_LIT("\"weightsManifest\""), 0) != SIZE_MAX ||
            str_find(text, STR_LIT("\"modelTopology\""), 0) != SIZE_MAX);
}

/* is_json - returns true if PROBE is an object or array of JSON, after whose bracket a value can stand. */
static bool is_json(const struct probe *probe)
{
    static const char after_array[] = "\"{[]-0123456789";
    ckpt_str text = get_text(probe), inside = recognize_skip_space(str_skip(text, 1));
    if (!text.len || !recognize_json(probe) || !inside.len)
        return text.len && recognize_json(probe);
    if (text.ptr[0] == '{')
        return inside.ptr[0] == '"' || inside.ptr[0] == '}';
    return strchr(after_array, inside.ptr[0]) || str_starts(inside, STR_LIT("true")) ||
           str_starts(inside, STR_LIT("false")) || str_starts(inside, STR_LIT("null")) ||
           str_starts(inside, STR_LIT("NaN")) || str_starts(inside, STR_LIT("Infinity"));
}

/* is_ubjson - returns true if PROBE begins an object of UBJSON: the type of the number that is the length of
 * the first key, and a length that is no text. */
static bool is_ubjson(const struct probe *probe)
{
    return probe->nhead > 2 && probe->head[0] == '{' && strchr("iUIlL", probe->head[1]) && probe->head[1] &&
           probe->head[2] < ' ';
}

/* ------------------------------------------------------- notes instead of a file */

static bool is_dvc_pointer(const struct probe *probe)
{
    return str_ends(str_c(probe->path), STR_LIT(".dvc")) &&
           (begins_with(probe, "outs:\nmd5:\nwdir:\ndeps:\n") ||
            str_find(probe_head(probe), STR_LIT("\nouts:"), 0) != SIZE_MAX);
}

/* iCloud replaces NAME by .NAME.icloud, a property list, when the disk is full. */
static bool is_icloud_stub(const struct probe *probe)
{
    return str_starts(probe_head(probe), STR_LIT("bplist00")) &&
           str_ends(str_c(probe->path), STR_LIT(".icloud"));
}

/* has_only_path - returns true if TEXT is one path: without control characters and, unless it begins as a
 * path, without blanks. */
static bool has_only_path(ckpt_str text)
{
    bool has_blank = false;
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f)
            return false;
        has_blank = has_blank || text.ptr[i] == ' ';
    }
    return str_starts(text, STR_LIT("../")) || str_starts(text, STR_LIT("./")) ||
           (!has_blank && (str_starts(text, STR_LIT("/")) || folder_is_checkpoint(text)));
}

/* Programs without symbolic links store them as files: git (core.symlinks=false) writes the target alone,
 * Cygwin puts "!<symlink>" before it, and CIFS "XSym", its length and its MD5 on lines of their own. */
ckpt_str recognize_get_link(const struct probe *probe)
{
    static const char cygwin[] = "!<symlink>", cifs[] = "XSym\n";
    const size_t before_target = 5 + 5 + 33; /* lines of CIFS */
    ckpt_str text = probe_head(probe), none = str_of("", 0);
    if (probe->size > PATH_TEXT_MAX || text.len != probe->size)
        return none;
    if (str_starts(text, str_c(cygwin))) {
        text = str_skip(text, sizeof cygwin - 1);
        size_t end = str_find(text, str_of("", 1), 0);
        text.len = end < text.len ? end : text.len;
        return str_starts(text, STR_LIT("\xff\xfe")) ? none : text; /* UTF-16 is not shown */
    }
    if (str_starts(text, str_c(cifs)))
        text = str_skip(text, before_target);
    size_t end = str_find(text, STR_LIT("\n"), 0);
    bool ends_line = end < text.len && recognize_skip_space(str_skip(text, end)).len == 0;
    text = ends_line ? str_of(text.ptr, end) : text;
    if (str_ends(text, STR_LIT("\r")))
        text.len--;
    return text.len && has_only_path(text) ? text : none;
}

static bool is_link_text(const struct probe *probe) { return recognize_get_link(probe).len > 0; }

/* ------------------------------------------------------------- other programs */

/* whisper.cpp writes its hyperparameters after the magic number: n_vocab, n_audio_ctx, which is 1500 for
 * every model, n_audio_state, n_audio_head, n_audio_layer, and n_text_ctx, which is 448. */
static bool is_whisper(const struct probe *probe)
{
    return str_starts(probe_head(probe), STR_LIT("lmgg")) && probe->nhead >= 28 &&
           load_u32le(probe->head + 8) == 1500 && load_u32le(probe->head + 24) == 448;
}

/* is_session_key - returns true if the packet BODY of OpenPGP has a session key for a public KEY (RFC 9580,
 * 5.1: version 3, key id, algorithm) or for a passphrase (5.3: version 4, cipher, how the passphrase is
 * hashed). */
static bool is_session_key(ckpt_str body, bool for_public_key)
{
    const unsigned char *b = (const unsigned char *)body.ptr;
    if (for_public_key)
        return body.len > 9 && b[0] == 3 && (b[9] <= 2 || b[9] == 16 || b[9] == 18 || b[9] == 25);
    return body.len > 3 && b[0] == 4 && b[1] >= 1 && b[1] <= 13 && b[2] <= 3;
}

/* is_openpgp - returns true if PROBE begins with a packet of OpenPGP for a session key. Its tag is 1 or 3, in
 * the upper six bits if the packet has the old form, in which the lower two are the size of its length. */
static bool is_openpgp(const struct probe *probe)
{
    unsigned first = probe->nhead ? probe->head[0] : 0, is_new = first & 0x40;
    unsigned tag = is_new ? first & 0x3f : first >> 2 & 0xf;
    size_t length_size = is_new || (first & 3) == 0 ? 1 : 2;
    bool is_packet = first & 0x80 && (is_new || (first & 3) < 2) && (tag == 1 || tag == 3);
    return is_packet && is_session_key(str_skip(probe_head(probe), 1 + length_size), tag == 1);
}

/* is_openpgp_signature - returns true if PROBE begins with a signature packet of the old form, as a detached
 * signature does: tag 2, its length, version 4, whether it signs bytes or text, the algorithms of the key and
 * of the hash (RFC 9580, 5.2.3). */
static bool is_openpgp_signature(const struct probe *probe)
{
    static const unsigned char algorithms[] = {1, 3, 17, 19, 22, 27, 28};
    bool is_packet = probe->nhead && probe->head[0] >> 2 == 0x22 &&
                     (probe->head[0] & 3) < 2; /* 10, tag 0010 */
    const unsigned char *body = probe->head + 2 + (probe->head[0] & 1);
    return is_packet && probe->nhead > 7 && body[0] == 4 && body[1] <= 1 &&
           memchr(algorithms, body[2], sizeof algorithms) && body[3] <= 14;
}

/* is_burn - returns true if PROBE is MessagePack of two items, of which the first names a module of burn: a
 * map, or an array if the recorder is not a named one. */
static bool is_burn(const struct probe *probe)
{
    bool is_pair = str_starts(probe_head(probe), STR_LIT("\x82\xa8metadata")) ||
                   (probe->nhead && probe->head[0] == 0x92);
    return is_pair && (str_find(probe_head(probe), STR_LIT("burn_core::record"), 0) != SIZE_MAX ||
                       str_find(probe_head(probe), STR_LIT("burn::record"), 0) != SIZE_MAX);
}

static bool is_thinc(const struct probe *probe)
{
    return str_starts(probe_head(probe), STR_LIT("\x84\xa5nodes"));
}

/* is_mindspore - returns true if PROBE begins with a value of MindSpore's message Checkpoint
 * (checkpoint.proto): 1 tag, 2 tensor: 1 dims, 2 tensor_type, such as "Float32". */
static bool is_mindspore(const struct probe *probe)
{
    static const char types[] = "Float Int UInt Bool BFloat Complex str";
    struct proto_field f;
    cursor c = cursor_of(probe->head, probe->nhead, 0);
    bool is_value = cursor_u8(&c) == (1 << 3 | PROTO_BYTES) && cursor_varint(&c) < probe->size;
    if (!is_value || !proto_next(&c, &f) || !proto_is(&f, 1, PROTO_BYTES) || !f.bytes.left)
        return false;
    if (cursor_u8(&c) != (2 << 3 | PROTO_BYTES) || cursor_varint(&c) >= probe->size)
        return false;
    while (proto_next(&c, &f) && f.number == 1)
        continue;
    return !c.bad && proto_is(&f, 2, PROTO_BYTES) && str_matches_word(proto_text(&f), types, str_starts);
}

/* ---------------------------------------------------------------------- signatures */

#define DOWNLOAD_HINT "the download failed: fetch the file again, with a login if its server asks for one"
#define GPG_HINT      "decrypt it first: `gpg -d FILE | ckpt ls -`"
#define AGE_HINT      "decrypt it first: `age -d FILE | ckpt ls -`"
#define BURN_HINT     "burn reads it: load it there, and save it by burn-store's SafetensorsStore"
#define RDS_HINT      "R reads it: `readRDS`; save its tensors by safetensors::safe_save_file"
#define RDATA_HINT    "R reads it: `load`; save its tensors by safetensors::safe_save_file"
#define N5_HINT       "copy it to Zarr: `zarr.copy_all` from a `zarr.N5Store`, which zarr-python 2 has"
#define JOBLIB_HINT   "joblib.load runs what the file names: run `ckpt scan FILE` first, which lists that"

enum { CKPT_FIX_NONE };

static const struct signature signatures[] = {
#define MAGIC(kind, id, offset, bytes, status, what, hint, fix)                                              \
    {SIGN_##kind, id, offset, bytes, sizeof(bytes) - 1, NULL, NULL, status, what, hint, CKPT_FIX_##fix},
#define TEST(kind, id, test, status, what, hint, fix)                                                        \
    {SIGN_##kind, id, 0, NULL, 0, NULL, test, status, what, hint, CKPT_FIX_##fix},
#define FOLDER(kind, file, content, what, hint)                                                              \
    {SIGN_##kind, NULL, 0, file, 0, content, NULL, CKPT_EUNSUPPORTED, what, hint, CKPT_FIX_NONE},
#include "format/signatures.def"
#undef MAGIC
#undef TEST
#undef FOLDER
};

static bool matches_signature(const struct signature *signature, const struct probe *probe)
{
    if (probe->is_folder || signature->kind >= SIGN_FOLDER)
        return false;
    return signature->magic ? str_starts(str_skip(probe_head(probe), signature->offset),
                                         str_of(signature->magic, signature->nmagic))
                            : signature->test(probe);
}

const struct signature *recognize(const struct probe *probe)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (matches_signature(&signatures[i], probe))
            return &signatures[i];
    return NULL;
}

const struct signature *recognize_kind(const struct probe *probe, enum signature_kind kind)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (signatures[i].kind == kind && matches_signature(&signatures[i], probe))
            return &signatures[i];
    return NULL;
}

bool recognize_as(const struct probe *probe, enum signature_kind kind)
{
    return recognize_kind(probe, kind) != NULL;
}

const struct signature *recognize_folder(source *archive, const char *path)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (signatures[i].kind >= SIGN_FOLDER && folder_has(archive, path, signatures[i].magic) &&
            (!signatures[i].content ||
             folder_file_has(archive, path, signatures[i].magic, signatures[i].content)))
            return &signatures[i];
    return NULL;
}

void recognize_add_hint(const struct signature *signature, const char *path, ckpt_error *err)
{
    static const char file_word[] = "FILE"; /* in a hint: the path */
    char word[SHELL_WORD_MAX];
    const char *found = strstr(signature->hint, file_word);
    if (!signature->hint[0])
        error_add_hint(err, "`man ckpt-formats` lists what is read");
    else if (found)
        error_add_hint(err, "%.*s%s%s", (int)(found - signature->hint), signature->hint,
                       shell_path(path, word), found + strlen(file_word));
    else
        error_add_hint(err, "%s", signature->hint);
}

ckpt_status recognize_refuse(const struct signature *signature, const char *path, ckpt_error *err)
{
    (void)fail(err, signature->status, CKPT_NO_OFFSET, "{%s}, not {=a checkpoint}", signature->what);
    recognize_add_hint(signature, path, err);
    return signature->status;
}
