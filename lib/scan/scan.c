/*
 * scan.c - `ckpt scan`: recognizes bytes by their content alone and passes them to the scanner of their
 * format.
 *
 * Names and suffixes do not matter, because a pickle called model.txt is loaded all the same. A file that is
 * not recognized is INCOMPLETE, not clean. Only torch's storages are expected to hold bytes of no format.
 */
#include "scan/scan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/sized.h"
#include "base/text.h"
#include "base/utf8.h"
#include "codec/hdf5.h"
#include "codec/json_scan.h"
#include "codec/ocdbt.h"
#include "codec/sstable.h"
#include "codec/tar.h"
#include "core/check.h"
#include "format/container.h"
#include "format/files/members.h"
#include "format/recognize.h"
#include "format/registry.h"
#include "op/digest.h"
#include "scan/judge.h"

#define CHUNK     65536u /* bytes read at a time */
#define HEADER_AT 8u     /* where the header of a safetensors file begins, after its length */

ckpt_status scan_join_names(const struct scanned *in, ckpt_str name, ckpt_str *out, ckpt_error *err)
{
    CKPT_TRY_ALLOC(name.ptr, err);
    *out = in->where.len
               ? ARENA_CONCAT(in->x->a, str_first(in->where, 4096), STR_LIT("!"), str_first(name, 4096))
               : arena_str(in->x->a, name);
    return out->ptr ? CKPT_OK : fail_memory(err);
}

ckpt_status scan_join_offset(const struct scanned *in, const char *kind, uint64_t at, ckpt_str *out,
                             ckpt_error *err)
{
    return scan_join_names(in, arena_printf(in->x->a, "%s@0x%" PRIx64, kind, at), out, err);
}

ckpt_status scan_check_member_name(const struct scanned *in, uint64_t at, ckpt_str name)
{
    const char *fault = text_find_path_fault(name);
    return fault ? SCAN_FOUND(in, SCAN_ZIP_STRUCTURE, at, "%s", fault) : CKPT_OK;
}

ckpt_status scan_check_tensor_name(const struct scanned *in, uint64_t at, ckpt_str name)
{
    uint32_t control;
    return utf8_find_control(name, &control)
               ? SCAN_FOUND(in, SCAN_CONTROL_CHARACTER, at, "the name of a tensor has {U+%04" PRIX32 "}",
                            control)
               : CKPT_OK;
}

void scan_count_bytes(const source *src, uint64_t *count, uint64_t number)
{
    if (source_pos(src, 0) != CKPT_NO_OFFSET && !checked_add(*count, number, count))
        *count = UINT64_MAX;
}

bool target_list_has(const struct target_list *lists, size_t count, ckpt_str module, ckpt_str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_is(module, lists[i].module) && str_matches_word(name, lists[i].names, str_eq))
            return true;
    return false;
}

ckpt_status scan_report_member(struct scanner *scanner, ckpt_str where, unsigned readers,
                               struct scan_extent at, const uint8_t *sum)
{
    ckpt_scan_record r = {.what = CKPT_SCAN_MEMBER,
                          .where = where,
                          .offset = CKPT_NO_OFFSET,
                          .file_offset = at.offset,
                          .error_offset = CKPT_NO_OFFSET,
                          .weights_only = -1,
                          .bytes = at.size,
                          .sha256 = sum,
                          .readers = readers};
    return scan_report_record(scanner->scan, &r) ? CKPT_OK : CKPT_ECANCELLED;
}

ckpt_status scan_hash_member(const struct scanned *in, unsigned readers, uint8_t *kept, ckpt_error *err)
{
    uint8_t sum[CKPT_DIGEST_MAX];
    if (!in->x->scan->opts->sha256)
        return CKPT_OK;
    CKPT_TRY(digest_source(in->src, sum, err));
    if (kept)
        memcpy(kept, sum, sizeof sum);
    struct scan_extent at = {source_pos(in->src, 0), in->src->size};
    return scan_report_member(in->x, in->where, readers, at, sum);
}

/* find_storages_end - returns the end of the storage that ends last in F. */
static uint64_t find_storages_end(const ckpt_file *f)
{
    uint64_t last = 0;
    for (size_t i = 0; i < f->table.nstorages; i++) {
        const struct storage *s = &f->table.storages[i];
        uint64_t end = s->off + s->nbytes; /* the reader checked that it is inside the file */
        last = end > last ? end : last;
    }
    return last;
}

/* check_tensor_names - reports how many names of tensors of F have control characters. */
static ckpt_status check_tensor_names(const struct scanned *in, const ckpt_file *f)
{
    uint32_t found, control = 0;
    size_t n = 0;
    for (size_t i = 0; i < f->table.nrows; i++)
        if (utf8_find_control(table_name(&f->table, i), &found) && n++ == 0)
            control = found;
    return n ? SCAN_FOUND(in, SCAN_CONTROL_CHARACTER, 0,
                          "%zu tensor %s control characters, the first {U+%04" PRIX32 "}", n,
                          n == 1 ? "name has" : "names have", control)
             : CKPT_OK;
}

ckpt_status scan_report_read_error(const struct scanned *in, uint64_t at, ckpt_error *why, ckpt_error *err)
{
    ckpt_status st = why->status;
    if (check_is_fault(st) || st == CKPT_EUNSUPPORTED)
        return scan_found_error(in->x->scan,
                                st == CKPT_EUNSUPPORTED ? SCAN_FORMAT_NOT_SCANNED : SCAN_MALFORMED, in->where,
                                (struct scan_place){in->src, at}, why);
    *err = *why;
    return st;
}

ckpt_status scan_check_format(const struct scanned *in, const char *format, uint64_t *end, ckpt_error *err)
{
    struct scanner *x = in->x;
    ckpt_file *f;
    ckpt_error why;
    const struct format *only = format ? format_by_name(format) : NULL, *recognized = NULL;
    const struct opening o = {
        .path = x->path, .src = source_ref(in->src), .only = only, .recognized = &recognized};
    ckpt_status st = format_open(&o, &f, &why);
    if (st == CKPT_OK) {
        if (end)
            *end = f->table.nstorages ? find_storages_end(f) : 1;
        bool is_folder = f->archive && !f->src; /* in an archive, whose other members are not of its format */
        if (!x->format || (x->depth == 0 && !is_folder))
            x->format = f->format->name;
        st = check_tensor_names(in, f);
        file_free(f);
        return st;
    }
    if (st == CKPT_ENOMEM || st == CKPT_EIO) {
        *err = why;
        return st;
    }
    if (st == CKPT_EUNSUPPORTED && recognized && x->depth == 0)
        x->format = recognized->name;
    if (st != CKPT_EFORMAT && st != CKPT_ETRUNCATED && st != CKPT_ECHECKSUM)
        return CKPT_OK; /* not a fault of the file: its reader does not support it */
    if (end)
        *end = 0;
    uint64_t base = source_pos(in->src, 0);
    bool has_offset = base != CKPT_NO_OFFSET && why.offset != CKPT_NO_OFFSET && why.offset >= base &&
                      why.offset - base <= in->src->size;
    return scan_found_error(x->scan, SCAN_MALFORMED, in->where,
                            (struct scan_place){in->src, has_offset ? why.offset - base : CKPT_NO_OFFSET},
                            &why);
}

/* ------------------------------------------------------------ recognition */

/* is_text_source - returns true if all of SRC is UTF-8 without unusual control characters. */
static bool is_text_source(struct scan *scan, source *src)
{
    char *chunk = malloc(CHUNK);
    bool ok = chunk != NULL;
    uint64_t at = 0;
    if (!ok)
        (void)scan_note_system_failure(scan, CKPT_ENOMEM, NULL);
    while (ok && at < src->size) {
        size_t n = src->size - at < CHUNK ? (size_t)(src->size - at) : CHUNK;
        size_t cut = 0; /* bytes of a character that continues in the next chunk */
        ok = scan_read(scan, src, at, chunk, n);
        if (ok && at + n < src->size) {
            while (cut < 3 && ((unsigned char)chunk[n - cut - 1] & 0xc0) == 0x80)
                cut++;
            cut += (unsigned char)chunk[n - cut - 1] >= 0xc0;
        }
        ok = ok && utf8_check(str_of(chunk, n - cut), false, NULL);
        for (size_t i = 0; ok && i < n; i++)
            ok = (unsigned char)chunk[i] >= 32 || (chunk[i] && strchr("\t\n\r\f\x1b", chunk[i]));
        at += n - cut;
    }
    free(chunk);
    return ok;
}

/* count_all_as_known - adds the size of SRC to *KNOWN_BYTES; sets the format of the file if it is unknown. */
static ckpt_status count_all_as_known(struct scanner *scanner, source *src, const char *format,
                                      uint64_t *known_bytes)
{
    *known_bytes += src->size; /* the caller's sum is at most the size of its source */
    if (scanner->depth == 0 && !scanner->format)
        scanner->format = format;
    return CKPT_OK;
}

/* read_data_end - sets *END to the offset in SRC of the end of the data, by the largest data_offsets of a
 * safetensors header of up to 16 MiB; 0: the header cannot be read, or the data fill the file. */
static ckpt_status read_data_end(struct scanner *scanner, source *src, uint64_t *end, ckpt_error *err)
{
    unsigned char head[HEADER_AT];
    json_scan json;
    ckpt_error why = {.status = CKPT_OK};
    uint64_t last = 0, offset, length;
    bool in_data_offsets = false;
    *end = 0;
    CKPT_TRY(source_read(src, 0, head, sizeof head, err));
    length = load_u64le(head);
    if (length > (uint64_t)16 << 20 || length > src->size - HEADER_AT)
        return CKPT_OK;
    char *text = arena_alloc(scanner->a, (size_t)length + 1);
    CKPT_TRY_ALLOC(text, err);
    CKPT_TRY(source_read(src, HEADER_AT, text, (size_t)length, err));
    json_init(&json, str_of(text, (size_t)length), HEADER_AT, scanner->a, &why);
    for (enum json_event e = json_next(&json); e != JSON_ERROR && e != JSON_END; e = json_next(&json)) {
        if (e == JSON_KEY)
            in_data_offsets = str_is(json.str, "data_offsets");
        else if (e == JSON_NUMBER && in_data_offsets && json_get_uint(&json, &offset) && offset > last)
            last = offset;
    }
    if (last && checked_add(last, length + HEADER_AT, &last) && last < src->size)
        *end = last;
    return CKPT_OK;
}

/* begins_python_mapping - returns true if TEXT begins a mapping of Python with a text for its first key. */
static bool begins_python_mapping(ckpt_str text)
{
    return str_starts(str_trim_start(text, " \t\r\n"), STR_LIT("{'"));
}

/* scan_metadata_text - scans TEXT, a value of the metadata that ends at AT: it may be JSON, a mapping of
 * Python or YAML, of which programs make objects by _target_, or a pickle in base64. */
static ckpt_status scan_metadata_text(const struct scanned *in, ckpt_str text, uint64_t at, ckpt_error *err)
{
    uint64_t known_bytes = 0;
    struct scanned inner = {.x = in->x};
    if (!text.len)
        return CKPT_OK;
    CKPT_TRY(scan_base64(in, (struct scan_text_value){.text = text, .at = (size_t)at}, err));
    CKPT_TRY(scan_join_offset(in, "text", at, &inner.where, err));
    if (begins_python_mapping(text) && str_has(text, STR_LIT("\\")))
        return scan_found(in->x->scan, SCAN_NOT_OPENED, inner.where, in->src, at,
                          "a mapping of Python with {escapes}; {=JSON} and mappings without are read");
    inner.src = source_mem(text.ptr, text.len, CKPT_NO_OFFSET);
    in->x->depth++;
    ckpt_status st = inner.src ? scan_text(&inner, &known_bytes, err) : fail_memory(err);
    in->x->depth--;
    source_unref(inner.src);
    return st;
}

/* scan_header_texts - scans the texts in the __metadata__ of HEADER, the JSON of the safetensors file IN. */
static ckpt_status scan_header_texts(const struct scanned *in, ckpt_str header, arena *a, ckpt_error *err)
{
    json_scan json;
    ckpt_error why = {.status = CKPT_OK};
    bool is_metadata = false;
    json_init(&json, header, HEADER_AT, a, &why);
    for (enum json_event e = json_next(&json); e != JSON_ERROR && e != JSON_END; e = json_next(&json)) {
        if (is_metadata && e == JSON_OBJECT_END)
            break;
        if (e == JSON_KEY && json.depth == 1)
            is_metadata = str_is(json.str, "__metadata__");
        else if (is_metadata && e == JSON_STRING)
            CKPT_TRY(scan_metadata_text(in, json.str, json.event_at + HEADER_AT, err));
    }
    return CKPT_OK;
}

/* scan_metadata - scans the texts in the __metadata__ of IN, whose header is valid. Adds the bytes after the
 * header to those of tensors. */
static ckpt_status scan_metadata(const struct scanned *in, ckpt_error *err)
{
    unsigned char length[HEADER_AT];
    CKPT_TRY(source_read(in->src, 0, length, sizeof length, err));
    size_t n = (size_t)load_u64le(length);
    scan_count_bytes(in->src, &in->x->scan->result->in_tensors, in->src->size - HEADER_AT - n);
    char *text = malloc(n + 1);
    arena *a = arena_new(2 * (uint64_t)n + 65536);
    ckpt_status st = text && a ? source_read(in->src, HEADER_AT, text, n, err) : fail_memory(err);
    ckpt_str header = str_of(text, n);
    if (st == CKPT_OK && str_has(header, STR_LIT("__metadata__")))
        st = scan_header_texts(in, header, a, err);
    arena_free(a);
    free(text);
    return st;
}

static ckpt_status scan_safetensors(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    uint64_t end = UINT64_MAX;
    x->format = x->depth ? x->format : "safetensors";
    CKPT_TRY(scan_check_format(in, "safetensors", &end, err));
    if (end) {
        CKPT_TRY(scan_metadata(in, err));
        return count_all_as_known(x, in->src, "safetensors", known_bytes);
    }
    CKPT_TRY(read_data_end(x, in->src, &end, err));
    return end && x->depth < x->scan->opts->max_depth ? scan_stray_bytes(in, end, in->src->size, err)
                                                      : CKPT_OK;
}

/* scan_unrecognized - scans the attributes of PROBE, if it is HDF5, or searches its bytes; reports that
 * nothing else was scanned, and what PROBE is, if a signature or a format recognizes it. */
static ckpt_status scan_unrecognized(const struct scanned *in, const struct probe *probe, ckpt_error *err)
{
    struct scanner *x = in->x;
    char found[TEXT_BYTES_SIZE];
    const struct signature *signature = recognize(probe);
    bool is_hdf5 = recognize_as(probe, SIGN_HDF5), all_read = false;
    if (is_hdf5)
        CKPT_TRY(scan_hdf5(in, &all_read, err));
    if (!all_read)
        CKPT_TRY(scan_byte_patterns(in, is_hdf5, err));
    if (signature)
        return SCAN_FOUND(
            in, signature->status == CKPT_EUNSUPPORTED ? SCAN_FORMAT_NOT_SCANNED : SCAN_UNKNOWN_FORMAT, 0,
            "%s: %s looked into", signature->what,
            all_read ? "nothing but its attributes was" : "no part of it was");
    const struct format *format = x->depth == 0 ? format_recognize(probe) : NULL;
    if (format)
        return SCAN_FOUND(in, SCAN_FORMAT_NOT_SCANNED, 0, "%s: no part of it was looked into", format->title);
    return SCAN_FOUND(in, SCAN_UNKNOWN_FORMAT, 0,
                      "not {=a recognized checkpoint format}; it begins with {%s}",
                      text_describe_bytes(probe->head, probe->nhead, found));
}

/* has_tar_header - returns true if torch.load or tarfile would open PROBE as tar: they need no signature. */
static bool has_tar_header(const struct probe *probe)
{
    return probe->nhead >= TAR_BLOCK && tar_is_header(probe->head);
}

/* find_container_scanner - returns the function that scans PROBE; NULL: its signature is not certain. */
static scan_function *find_container_scanner(const struct probe *probe, const struct signature *signature,
                                             enum scan_role role)
{
    if (role == SCAN_FILE && recognize_archive(probe)) /* other data may precede the archive */
        return scan_zip;
    if (role == SCAN_FILE && sstable_has_magic(probe->src))
        return scan_sstable;
    if (role == SCAN_FILE && ocdbt_has_magic(probe->src))
        return scan_ocdbt;
    switch (signature ? signature->kind : SIGN_OTHER) {
    case SIGN_ZIP: return scan_zip;
    case SIGN_TAR: return scan_tar;
    case SIGN_GGUF: return scan_gguf;
    case SIGN_NPY: return probe->size >= 12 ? scan_npy : NULL; /* magic, version, length of the header */
    case SIGN_ONNX: return !probe->is_storage ? scan_onnx : NULL;
    case SIGN_SAFETENSORS: return !probe->is_storage ? scan_safetensors : NULL;
    default: return !signature && has_tar_header(probe) ? scan_tar : NULL;
    }
}

/* scan_as_pickle_too - scans the container PROBE as a pickle, too, if it can be loaded as one: the length of
 * a header, a name in a tar or a number in GGUF can be opcodes. Reports nothing if the pickle ends or fails
 * before its first call or import. A zip archive needs no such scan: "PK" begins with the opcode PERSID,
 * which pickle.load refuses, and bytes before or between its members are scanned on their own. */
static ckpt_status scan_as_pickle_too(const struct scanned *in, const struct probe *probe, ckpt_error *err)
{
    uint64_t known_bytes = 0;
    struct scan_trial trial = {.imports_module = false};
    if (!recognize_legacy(probe) && !scan_try_pickle(in->x, in->src, 0, in->src->size, false, &trial) &&
        !trial.imports_module)
        return CKPT_OK;
    CKPT_TRY(SCAN_FOUND(in, SCAN_TWO_FORMATS, 0, "polyglot: also a valid pickle"));
    return scan_pickles(in, &known_bytes, err);
}

/* scan_as_hdf5_too - scans the attributes of PROBE if it is HDF5, too: its readers skip any bytes that
 * precede it up to byte 512, 1024, 2048 … So a tar whose first member is HDF5 is HDF5, too: that is no
 * polyglot. */
static ckpt_status scan_as_hdf5_too(const struct scanned *in, const struct probe *probe, ckpt_error *err)
{
    ckpt_error ignored;
    uint64_t base;
    bool all_read;
    if (hdf5_find(in->src, &base, &ignored) != CKPT_OK)
        return CKPT_OK;
    if (!recognize_as(probe, SIGN_TAR))
        CKPT_TRY(SCAN_FOUND(in, SCAN_TWO_FORMATS, base, "polyglot: also HDF5"));
    CKPT_TRY(scan_hdf5(in, &all_read, err));
    return all_read ? CKPT_OK : scan_byte_patterns(in, true, err);
}

/* scan_as_tar_too - scans PROBE as tar, too, if it can be opened as one: the first 512 bytes of any format
 * can have the checksum of a tar header, and torch.load tries tar before anything but zip. */
static ckpt_status scan_as_tar_too(const struct scanned *in, const struct probe *probe, ckpt_error *err)
{
    uint64_t known_bytes = 0;
    if (!has_tar_header(probe))
        return CKPT_OK;
    CKPT_TRY(SCAN_FOUND(in, SCAN_TWO_FORMATS, 0, "polyglot: also a tar archive"));
    return scan_tar(in, &known_bytes, err);
}

/* scan_as_compressed_too - unpacks and scans the container PROBE, too, if it begins like compressed data: the
 * length of a safetensors header or a name in a tar can be the signature of gzip. */
static ckpt_status scan_as_compressed_too(const struct scanned *in, const struct probe *probe,
                                          ckpt_error *err)
{
    uint64_t known_bytes = 0;
    const struct signature *compression = recognize_kind(probe, SIGN_COMPRESSED);
    const char *kind = compression ? compression->id : NULL;
    if (!kind && recognize_zlib(probe) && scan_is_zlib(in->x, in->src, true))
        kind = "zlib";
    if (!kind)
        return CKPT_OK;
    CKPT_TRY(SCAN_FOUND(in, SCAN_TWO_FORMATS, 0, "polyglot: also %s data", kind));
    return scan_compressed(in, kind, &known_bytes, err);
}

/* find_compression - returns the kind of compression of PROBE, by its SIGNATURE or, if it may begin with a
 * zlib header, by inflating it; NULL: none. A text may begin with the two bytes of such a header: it is zlib
 * data only if it inflates to a pickle. A value may begin like zlib or lzma data by chance: see
 * scan_find_packed_file. */
static const char *find_compression(struct scanner *scanner, const struct probe *probe,
                                    const struct signature *signature, enum scan_role role)
{
    bool compressed = signature && signature->kind == SIGN_COMPRESSED;
    /* LZMA has no magic number, so that a value may begin like it by chance */
    bool is_ambiguous = compressed && strcmp(signature->id, "lzma") == 0 && role == SCAN_VALUE;
    if (compressed && !is_ambiguous)
        return signature->id;
    if (role == SCAN_VALUE)
        return scan_find_packed_file(scanner, probe->src);
    if (!recognize_zlib(probe))
        return NULL;
    bool is_zlib = (signature && signature->kind == SIGN_ZLIB) ||
                   scan_is_zlib(scanner, probe->src, is_text_source(scanner->scan, probe->src));
    return is_zlib ? "zlib" : NULL;
}

/* find_storage_compression - returns the kind of compression of PROBE, a storage; NULL: none. Numbers may
 * begin like compressed data by chance, so these must decompress to their end. */
static const char *find_storage_compression(struct scanner *scanner, const struct probe *probe,
                                            const struct signature *signature)
{
    const char *compression = recognize_zlib(probe) ? "zlib" : NULL;
    if (signature && signature->kind == SIGN_COMPRESSED)
        compression = signature->id;
    return compression && scan_is_compressed(scanner, probe->src, compression) ? compression : NULL;
}

/* report_failed_trial - reports text that begins like a pickle, if its name is that of one or if a loader
 * imports a module before it fails: users will load it, and a loader may run on after the opcode at which
 * ckpt fails. A list of words can begin so, too ("cat", "dog": the name dog of the module at): with a name of
 * text, the import is only noted. */
static ckpt_status report_failed_trial(const struct scanned *in, const struct scan_trial *trial)
{
    if (in->x->has_pickle_name && (trial->opcodes >= 2 || trial->imports_module))
        return SCAN_FOUND(in, SCAN_PICKLE_NOT_FOLLOWED, trial->failed_at,
                          "text that has a pickle's file name and begins like a pickle: %s", trial->why.what);
    enum scan_rule rule = in->x->has_text_name ? SCAN_EMBEDDED_FILE : SCAN_PICKLE_NOT_FOLLOWED;
    return trial->imports_module
               ? SCAN_FOUND(in, rule, trial->failed_at, "text that begins like a pickle, with an import: %s",
                            trial->why.what)
               : CKPT_OK;
}

/* scan_by_trial - tries the formats without a certain signature, and scans PROBE as the first that fits. Sets
 * *FOUND to false if none does. */
static ckpt_status scan_by_trial(const struct scanned *in, const struct probe *probe, enum scan_role role,
                                 bool *found, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    const struct signature *signature = recognize(probe);
    if (signature && signature->kind == SIGN_LEGACY) {
        x->format = x->depth ? x->format : "torch-legacy";
        return scan_legacy(in, known_bytes, err);
    }
    struct scan_trial trial;
    if (scan_try_pickle(x, in->src, 0, in->src->size, role == SCAN_FILE || role == SCAN_MEMBER, &trial)) {
        x->format = x->depth ? x->format : "pickle";
        return scan_pickles(in, known_bytes, err);
    }
    if (probe->is_storage) {
        const char *compression = find_storage_compression(x, probe, signature);
        if (compression)
            return scan_compressed(in, compression, known_bytes, err);
        scan_count_bytes(in->src, &x->scan->result->in_tensors, in->src->size);
        return count_all_as_known(x, in->src, x->in_chunk ? "zarr" : NULL, known_bytes);
    }
    const char *kind = find_compression(x, probe, signature, role);
    if (kind)
        return scan_compressed(in, kind, known_bytes, err);
    if (is_text_source(x->scan, in->src)) {
        if (role != SCAN_VALUE)
            CKPT_TRY(report_failed_trial(in, &trial));
        x->format = x->depth || x->format ? x->format : "text";
        return scan_text(in, known_bytes, err);
    }
    if (role == SCAN_VALUE)
        return count_all_as_known(x, in->src, NULL, known_bytes);
    CKPT_TRY(scan_arrays_after_line(in, found, known_bytes, err));
    if (!*found)
        CKPT_TRY(scan_sentencepiece(x, in->src, found, known_bytes, err));
    if (*found)
        return CKPT_OK;
    return scan_msgpack(in, found, known_bytes, err);
}

/* scan_as_others_too - scans IN, which SCAN_CONTAINER (NULL: none) has scanned, as the other formats that its
 * loaders may take it for. */
static ckpt_status scan_as_others_too(const struct scanned *in, const struct probe *probe,
                                      enum scan_role role, scan_function *scan_container, ckpt_error *err)
{
    if (scan_container == scan_zip)
        return CKPT_OK;
    if (scan_container)
        CKPT_TRY(scan_as_pickle_too(in, probe, err));
    if (scan_container && role != SCAN_STORAGE)
        CKPT_TRY(scan_as_compressed_too(in, probe, err));
    if (scan_container != scan_tar && role != SCAN_STORAGE)
        CKPT_TRY(scan_as_tar_too(in, probe, err));
    return role == SCAN_STORAGE ? CKPT_OK : scan_archive_at_end(in, err);
}

static ckpt_status scan_content(const struct scanned *in, enum scan_role role, uint64_t *known_bytes,
                                ckpt_error *err)
{
    struct scanner *x = in->x;
    struct probe p = {.is_storage = role == SCAN_STORAGE || x->in_chunk};
    if (in->src->size == 0)
        return role == SCAN_FILE ? scan_found(x->scan, SCAN_UNKNOWN_FORMAT, in->where, NULL, CKPT_NO_OFFSET,
                                              "an empty file")
                                 : CKPT_OK;
    CKPT_TRY(recognize_fill(&p, x->path, in->src, err));
    bool found = true;
    scan_function *scan_container = find_container_scanner(&p, recognize(&p), role);
    CKPT_TRY(scan_container ? scan_container(in, known_bytes, err)
                            : scan_by_trial(in, &p, role, &found, known_bytes, err));
    if (!found)
        CKPT_TRY(scan_unrecognized(in, &p, err));
    else if (role == SCAN_FILE)
        CKPT_TRY(scan_as_hdf5_too(in, &p, err));
    const char *format = x->format; /* the other scans may change it */
    ckpt_status st = scan_as_others_too(in, &p, role, scan_container, err);
    x->format = format;
    return st;
}

ckpt_status scan_bytes(const struct scanned *in, enum scan_role role, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    uint64_t off;
    size_t nopened = x->nopened_zips;
    bool outer_has_pickle_name = x->has_pickle_name, outer_has_text_name = x->has_text_name;
    bool nested = role != SCAN_FILE;
    bool is_unpacked_file = role == SCAN_MEMBER && str_is(str_after_last(in->where, '!'), "contents");
    if (nested && !is_unpacked_file) { /* unpacked data keep the name of the compressed file */
        x->has_pickle_name = role == SCAN_MEMBER && scan_is_pickle_name(in->where);
        x->has_text_name = role == SCAN_MEMBER && scan_is_text_name(in->where);
    }
    bool outer_in_chunk = x->in_chunk;
    x->in_chunk = role == SCAN_CHUNK || (role == SCAN_FILE && x->scan->file_is_chunk);
    x->depth += nested;
    /* a chunk can be any other file at the same time, like all members */
    ckpt_status st = scan_content(in, role == SCAN_CHUNK ? SCAN_MEMBER : role, known_bytes, err);
    x->depth -= nested;
    x->in_chunk = outer_in_chunk;
    x->has_pickle_name = outer_has_pickle_name;
    x->has_text_name = outer_has_text_name;
    if (source_root(in->src, &off) == in->src) /* no slice: later sources are not inside its archives */
        x->nopened_zips = nopened;
    return st;
}

ckpt_status scan_stray_bytes(const struct scanned *in, uint64_t from, uint64_t to, ckpt_error *err)
{
    struct scanner *x = in->x;
    struct scanned part = {.x = x};
    uint64_t known_bytes = 0;
    if (from >= to)
        return CKPT_OK;
    CKPT_TRY(scan_join_offset(in, "bytes", from, &part.where, err));
    CKPT_TRY(source_slice(in->src, from, to - from, &part.src, err));
    bool outer_stray = x->in_stray_bytes;
    const char *format = x->format; /* scan_bytes may change it to that of the stray bytes */
    x->in_stray_bytes = true;
    ckpt_status st = scan_bytes(&part, SCAN_VALUE, &known_bytes, err);
    x->in_stray_bytes = outer_stray;
    x->format = format;
    source_unref(part.src);
    return st;
}

/* get_opcode_budget - returns how many opcodes may be followed in a file of SIZE bytes. A pickle has at most
 * one for each byte, and is followed a few times; the constant allows for what archives unpack to, and for
 * bytes that are tried as pickles from several offsets. */
static uint64_t get_opcode_budget(uint64_t size)
{
    uint64_t n;
    return checked_mul(size, 16, &n) && checked_add(n, (uint64_t)64 << 20, &n) ? n : UINT64_MAX;
}

ckpt_status scan_source(const char *path, source *src, const struct scan_siblings *siblings,
                        struct scan *scan, ckpt_error *err)
{
    struct scanner x = {.scan = scan,
                        .path = path,
                        .file_size = src->size,
                        .a = arena_new((uint64_t)256 << 20),
                        .has_pickle_name = scan_is_pickle_name(str_c(path)),
                        .has_text_name = scan_is_text_name(str_c(path))};
    uint64_t known_bytes = 0;
    scan->opcodes_left = get_opcode_budget(src->size);
    const struct scanned file = {&x, src, STR_LIT("")};
    ckpt_status st = x.a ? scan_bytes(&file, SCAN_FILE, &known_bytes, err) : fail_memory(err);
    if (st == CKPT_OK && siblings && x.format && strcmp(x.format, "pickle") == 0)
        st = scan_dcp_values(&file, siblings, err);
    CKPT_THEN(st, scan_check_suffix(&x));
    if (st == CKPT_OK && scan->gave_up && !scan->result->found[CKPT_SCAN_INCOMPLETE])
        st = scan_found(scan, SCAN_PICKLE_NOT_FOLLOWED, str_of("", 0), NULL, CKPT_NO_OFFSET,
                        "bytes that may be a pickle take more opcodes or memory to follow than a file of its "
                        "size may take");
    if (scan->cancelled)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped");
    scan->result->format = x.format;
    scan->result->bytes = src->size;
    scan->result->accounted = known_bytes < src->size ? known_bytes : src->size;
    arena_free(x.a);
    return st;
}

/* open_siblings - opens the files in the folder of PATH, a file in ARCHIVE or, if that is NULL, on disk. */
static ckpt_status open_siblings(arena *a, const char *path, source *archive, struct scan_siblings *out,
                                 ckpt_error *err)
{
    ckpt_str folder = archive ? members_folder_of(archive, path) : str_folder(str_c(path));
    ckpt_str kept = folder.len ? arena_str(a, folder) : STR_LIT(".");
    return kept.ptr
               ? scan_siblings_open(a, archive, kept.ptr, archive ? UINT64_MAX : SCAN_SIBLINGS_MAX, out, err)
               : fail_memory(err);
}

/* find_out_if_chunk - sets *IS_CHUNK to whether PATH, a file in ARCHIVE or, if that is NULL, on disk, is a
 * chunk of a Zarr array. */
static ckpt_status find_out_if_chunk(const char *path, source *archive, bool *is_chunk, ckpt_error *err)
{
    struct scan_chunks *c;
    CKPT_TRY(scan_chunks_new(archive, &c, err));
    ckpt_status st = scan_is_chunk(c, str_c(path), is_chunk, err);
    scan_chunks_close(c, NULL);
    return st;
}

/* open_callbacks - sets *OUT to the source of the bytes that CALLBACKS, which are not closed with it,
 * read. */
static ckpt_status open_callbacks(const ckpt_callbacks *callbacks, source **out, ckpt_error *err)
{
    ckpt_callbacks own;
    CKPT_TRY(sized_struct_copy_in(callbacks, &own, sizeof own, err));
    own.close = NULL;
    return source_callbacks(&own, out, err);
}

/* open_file - sets *OUT to the file PATH on disk, or in an archive. */
static ckpt_status open_file(const char *path, source **out, ckpt_error *err)
{
    ckpt_error of_member;
    ckpt_status st = source_file_open(path, out, err);
    if (st == CKPT_ENOTFOUND && container_open_path(path, out, &of_member) == CKPT_OK)
        st = CKPT_OK;
    if (st == CKPT_OK && members_is_archive(*out))
        st = fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                  "{a folder} in an archive, not {=a file}\nscan the archive itself");
    return st;
}

/* open_around - finds out what the file PATH, opened as SRC, is by the files around it. SIBLINGS is filled
 * if NAMES, from which they are allocated, is not NULL. */
static ckpt_status open_around(const char *path, source *src, arena *names, struct scan_siblings *siblings,
                               bool *is_chunk, ckpt_error *err)
{
    source *archive = members_archive_of(src);
    if (names)
        CKPT_TRY(open_siblings(names, path, archive, siblings, err));
    return find_out_if_chunk(path, archive, is_chunk, err);
}

ckpt_status ckpt_scan(const char *path, const ckpt_scan_options *opts,
                      int (*report)(void *user, const ckpt_scan_record *), void *user,
                      ckpt_scan_result *result, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_scan_options o;
    ckpt_scan_result found = {0};
    struct scan s = {.opts = &o, .report = report, .user = user, .result = &found};
    struct judge *judge = NULL;
    source *src = NULL;
    struct scan_siblings siblings = {0};
    CKPT_TRY(sized_struct_clear(result, err));
    CKPT_REQUIRE(err, path);
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    o.max_depth = o.max_depth ? o.max_depth : 4;
    o.max_unpacked = o.max_unpacked ? o.max_unpacked : (uint64_t)4 << 30;
    ckpt_error edit_error;
    bool is_file = !o.callbacks;
    ckpt_status unfinished_edit = is_file ? journal_check(path, NULL, &edit_error) : CKPT_OK;
    bool has_siblings = scan_has_siblings(str_c(path)); /* of callbacks, none of them is there */
    arena *names = is_file && has_siblings ? arena_new((uint64_t)256 << 20) : NULL;
    ckpt_status st = is_file ? open_file(path, &src, err) : open_callbacks(o.callbacks, &src, err);
    if (st == CKPT_OK && is_file)
        st = has_siblings && !names ? fail_memory(err)
                                    : open_around(path, src, names, &siblings, &s.file_is_chunk, err);
    CKPT_THEN(st, judge_new(&s, &judge, err));
    if (st == CKPT_OK && o.opened && o.opened(user) != 0)
        st = fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped");
    CKPT_THEN(st, scan_source(path, src, has_siblings ? &siblings : NULL, &s, err));
    if (st == CKPT_OK && o.sha256)
        st = digest_source(src, found.sha256, err);
    CKPT_THEN(st, source_check_unchanged(src, err));
    if (st == CKPT_OK && unfinished_edit != CKPT_OK) { /* the findings are about the file as it is now */
        st = unfinished_edit;
        *err = edit_error;
    }
    if (s.failure.status != CKPT_OK) {
        st = s.failure.status;
        *err = s.failure;
    }
    if (src && !is_file &&
        st != CKPT_ENOMEM) /* a read that failed may have looked like the end of something */
        st = source_finish_opening(src, st, false, err);
    sized_struct_copy_out(result, &found, sizeof found);
    judge_free(judge);
    scan_siblings_close(&siblings);
    arena_free(names);
    source_unref(src);
    return name_file_if_failed(st, path, err);
}
