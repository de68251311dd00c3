/*
 * parts.c - fuzz targets for single readers, in memory; FUZZ_TARGET names the one to run. Each checks that a
 * reader either refuses the bytes with a reason or gives a valid result: members are inside the file, escaped
 * text has no control characters, and what was written is unchanged when it is read back.
 */
#include "parts.h"

#include <math.h>

#include "../tablecrc.h"
#include "../zipcrc.h"

#include "base/regexp.h"
#include "base/utf8.h"
#include "codec/json_scan.h"
#include "codec/ocdbt.h"
#include "codec/pickle_read.h"
#include "codec/pickle_trace.h"
#include "codec/pickle_write.h"
#include "codec/snappy.h"
#include "codec/tar.h"
#include "codec/xml_scan.h"
#include "codec/yaml_scan.h"
#include "codec/zarr.h"
#include "codec/zip.h"
#include "codec/zip_patch.h"
#include "codec/zip_write.h"
#include "core/repr.h"
#include "format/distributed/dcp_metadata.h"
#include "format/foreign.h"
#include "format/format.h"
#include "format/registry.h"
#include "scan/judge.h"
#include "scan/scan.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max) __attribute__((weak)); /* libFuzzer's */

#define ARENA_MAX ((uint64_t)64 << 20) /* bytes of memory that a reader may use */

void check_reason(ckpt_status st, const ckpt_error *err)
{
    if (st != CKPT_OK)
        exercise_check_error(st, err);
}

/* source_of_bytes - returns a source of the bytes, or NULL if there is no memory for it. (each_call.c makes
 * allocations fail.) */
static source *source_of_bytes(const uint8_t *data, size_t size) { return source_mem(data, size, 0); }

bool is_environment_error(const ckpt_error *err)
{
    return err->status == CKPT_ENOMEM || err->status == CKPT_EIO;
}

/* ------------------------------------------------------------------- text */

/* fuzz_text - escapes the bytes, which must give UTF-8 without control characters. Also calls the matcher of
 * globs, without checking its result. */
static void fuzz_text(const uint8_t *data, size_t size)
{
    char shown[1024];
    ckpt_text_escape(str_of((const char *)data, size), shown, sizeof shown);
    for (const char *p = shown; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            exercise_abort("the escaped text has a control character");
    if (!utf8_check(str_of(shown, strlen(shown)), false, NULL))
        exercise_abort("the escaped text is not UTF-8");
    if (size) { /* the first byte is the length of the pattern; the name follows the pattern */
        size_t length = data[0] % size;
        const char *pattern = (const char *)data + 1;
        (void)ckpt_glob_match(str_of(pattern, length), str_of(pattern + length, size - 1 - length));
    }
}

/* fuzz_number - checks that the text of a float reads back as the same float. */
static void fuzz_number(const uint8_t *data, size_t size)
{
    char out[REPR_FLOAT_ROOM], big[REPR_BIG_ROOM];
    for (size_t at = 0; at + sizeof(double) <= size && at < 64; at += sizeof(double)) {
        double d;
        float f;
        memcpy(&d, data + at, sizeof d);
        memcpy(&f, data + at, sizeof f);
        (void)repr_float(d, REPR_DOUBLE, out);
        if (!isnan(d) && strtod(out, NULL) != d)
            exercise_abort("a double reads back as a different one");
        (void)repr_float((double)f, REPR_SINGLE, out);
        if (!isnan(f) && strtof(out, NULL) != f)
            exercise_abort("a float reads back as a different one");
    }
    (void)repr_big(str_of((const char *)data, size < 256 ? size : 256), big);
}

static void fuzz_json(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    arena *a = arena_new(ARENA_MAX);
    json_scan j;
    enum json_event event;
    size_t nevents = 0;
    if (!a)
        return;
    json_init(&j, str_of((const char *)data, size), 0, a, &err);
    while ((event = json_next(&j)) != JSON_END && event != JSON_ERROR)
        if (++nevents > size + 1 || j.event_at > size)
            exercise_abort("there are more JSON events than bytes, or an event is beyond the text");
    if (event == JSON_ERROR)
        exercise_check_error(err.status, &err);
    arena_free(a);
}

static void fuzz_xml(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    arena *a = arena_new(ARENA_MAX);
    xml_scan x;
    enum xml_event event;
    size_t nevents = 0;
    if (!a)
        return;
    xml_init(&x, str_of((const char *)data, size), a, &err);
    while ((event = xml_next(&x)) != XML_END && event != XML_ERROR)
        if (++nevents > size || x.event_at > size || x.depth > XML_DEPTH)
            exercise_abort("there are more XML events than bytes, or an event is beyond the text");
    if (event == XML_ERROR)
        exercise_check_error(err.status, &err);
    arena_free(a);
}

/* ---------------------------------------------------------------- pickles */

/* read_pickle - reads the pickle at the beginning of SRC and returns its root, or NULL on an error. */
static ckpt_value *read_pickle(arena *a, source *src, ckpt_error *err)
{
    ckpt_value *root = NULL;
    uint64_t end = 0;
    if (!a || !src)
        return NULL;
    ckpt_status st = pickle_read(a, src, 0, src->size, NULL, &root, &end, err);
    check_reason(st, err);
    if (st == CKPT_OK && (!root || end > src->size))
        exercise_abort("a pickle has no root, or ends beyond the file");
    return st == CKPT_OK ? root : NULL;
}

static void fuzz_pickle(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    char shown[256];
    arena *a = arena_new(ARENA_MAX);
    source *src = source_of_bytes(data, size);
    ckpt_value *root = read_pickle(a, src, &err);
    if (root) {
        ckpt_value_text(root, 50, shown, sizeof shown);
        ckpt_value_type_name(root, shown, sizeof shown);
    }
    source_unref(src);
    arena_free(a);
}

/* fuzz_pickle_back - checks that a graph, once written and read back, is written as the same bytes again. */
static void fuzz_pickle_back(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    buf once, twice;
    arena *a = arena_new(ARENA_MAX);
    source *src = source_of_bytes(data, size), *again = NULL;
    ckpt_value *root = read_pickle(a, src, &err);
    buf_init(&once, (size_t)16 << 20);
    buf_init(&twice, (size_t)16 << 20);
    ckpt_status st = root ? pickle_write(root, NULL, &once, &err) : CKPT_EFORMAT;
    if (root)
        check_reason(st, &err);
    if (st == CKPT_OK) {
        again = source_of_bytes(once.data, once.len);
        root = read_pickle(a, again, &err);
        if (!root && again && !is_environment_error(&err))
            exercise_abort("a written pickle cannot be read");
        st = root ? pickle_write(root, NULL, &twice, &err) : CKPT_ENOMEM;
        bool failed = st != CKPT_OK && root && !is_environment_error(&err);
        if (failed || (st == CKPT_OK && !str_eq(buf_view(&once), buf_view(&twice))))
            exercise_abort("a pickle changes when it is written again");
    }
    source_unref(again);
    buf_free(&once);
    buf_free(&twice);
    source_unref(src);
    arena_free(a);
}

/* check_step - builds the value that a step of a trace is about; aborts if that fails without a reason. */
static bool check_step(void *user, const struct trace_step *step)
{
    arena *a = user;
    ckpt_error err = {0};
    bool has_memory = arena_used(a) < ARENA_MAX / 2;
    if (step->subject && has_memory && !step->t->value(step->t, step->subject, a, 16, &err))
        exercise_check_error(err.status, &err);
    return true;
}

static void fuzz_trace(const uint8_t *data, size_t size)
{
    source *src = source_of_bytes(data, size);
    for (int buffered = 0; buffered < 2; buffered++) {
        ckpt_error err = {0};
        arena *a = arena_new(ARENA_MAX);
        struct trace_options o = {
            .buffer_frames = buffered, .reports_payloads = !buffered, .step = check_step, .user = a};
        struct trace_end end;
        ckpt_status st = a && src ? pickle_trace(src, 0, size, &o, &end, &err) : fail_memory(&err);
        check_reason(st, &err);
        if (a && src && (end.next_offset > size || end.opcodes > size))
            exercise_abort("a trace ends beyond the bytes, or has more opcodes than bytes");
        arena_free(a);
    }
    source_unref(src);
}

/* --------------------------------------------------------------- archives */

static void fuzz_zip(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    arena *a = arena_new(ARENA_MAX);
    source *src = source_of_bytes(data, size);
    zip *z = NULL;
    ckpt_status st = a && src ? zip_open(src, a, &z, &err) : fail_memory(&err);
    check_reason(st, &err);
    for (size_t i = 0; st == CKPT_OK && i < z->n && i < 32; i++) {
        ckpt_str bytes;
        if (zip_find(z, z->entries[i].name) < 0)
            exercise_abort("a member cannot be found by its name");
        check_reason(zip_locate_payload(z, i, &err), &err);
        check_reason(zip_load_member(z, i, 1 << 16, &bytes, &err), &err);
    }
    if (st == CKPT_OK)
        zip_close(z);
    source_unref(src);
    arena_free(a);
}

/* fuzz_dcp - reads every name and shape in the metadata of a distributed checkpoint. */
static void fuzz_dcp(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    struct dcp_metadata m;
    arena *a = arena_new(ARENA_MAX);
    source *src = source_of_bytes(data, size);
    ckpt_status st = a && src ? dcp_metadata_read(a, src, ARENA_MAX, &m, &err) : fail_memory(&err);
    check_reason(st, &err);
    for (unsigned i = 0; st == CKPT_OK && i < METADATA_FIELDS; i++) {
        size_t n;
        ckpt_str text;
        uint32_t ndim;
        const dcp_word *items = dcp_elements(&m, dcp_field(&m, m.root, DCP_METADATA, i), &n);
        for (size_t k = 0; k < n; k++) {
            if (dcp_text(&m, items[k], &text) && !utf8_check(text, true, NULL))
                exercise_abort("a name is not UTF-8");
            (void)dcp_sizes(&m, items[k], &ndim);
        }
    }
    if (st == CKPT_OK)
        dcp_metadata_free(&m);
    source_unref(src);
    arena_free(a);
}

static void fuzz_tar(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    arena *a = arena_new(ARENA_MAX);
    source *src = source_of_bytes(data, size);
    struct tar_entry *entries;
    size_t n;
    ckpt_status st = a && src ? tar_list(src, a, false, &entries, &n, &err) : fail_memory(&err);
    check_reason(st, &err);
    for (size_t i = 0; st == CKPT_OK && i < n; i++)
        if (entries[i].data > size || entries[i].size > size - entries[i].data)
            exercise_abort("a member of a tar exceeds the file");
    source_unref(src);
    arena_free(a);
}

/* fuzz_salvage - reads all that salvage finds: members of a zip archive, then rows of any format. */
static void fuzz_salvage(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    arena *a = arena_new(ARENA_MAX);
    source *src = source_of_bytes(data, size), *member;
    ckpt_file *f = NULL;
    zip *z = NULL;
    ckpt_status st = a && src ? zip_salvage(src, a, &z, &err) : fail_memory(&err);
    check_reason(st, &err);
    for (size_t i = 0; st == CKPT_OK && i < z->n && i < 32; i++) {
        member = NULL;
        check_reason(zip_open_member(z, i, &member, &err), &err);
        source_unref(member);
    }
    zip_close(st == CKPT_OK ? z : NULL);
    if (src) {
        const struct opening o = {.path = "fuzz", .src = source_ref(src), .how = OPEN_SALVAGE};
        st = format_open(&o, &f, &err);
        check_reason(st, &err);
        for (uint32_t i = 0; st == CKPT_OK && i < ckpt_tensor_count(f) && i < 64; i++)
            exercise_read_row(f, i);
        file_free(st == CKPT_OK ? f : NULL);
    }
    source_unref(src);
    arena_free(a);
}

static const struct patches no_patches;
static const uint8_t zeros[60000];

/* fuzz_zip_patch - for each of the first members, computes the patches that replace its payload in place, and
 * the patches that append an entry with another payload. */
static void fuzz_zip_patch(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    arena *a = arena_new(ARENA_MAX);
    source *src = source_of_bytes(data, size);
    zip *z = NULL;
    ckpt_status st = a && src ? zip_open(src, a, &z, &err) : fail_memory(&err);
    check_reason(st, &err);
    for (size_t i = 0; st == CKPT_OK && i < z->n && i < 8; i++) {
        struct patches replacing = no_patches, appending = no_patches;
        ckpt_str name = z->entries[i].name, bytes;
        if (zip_load_member(z, i, 1 << 16, &bytes, &err) == CKPT_OK) {
            ckpt_status done = zip_patch_replace(z, i, bytes, &replacing, &err);
            check_reason(done, &err);
        }
        check_reason(zip_patch_append(z, i, name, STR_LIT("more bytes"), &appending, &err), &err);
    }
    zip_close(st == CKPT_OK ? z : NULL);
    source_unref(src);
    arena_free(a);
}

/* get_reserved_member - sets *MEMBER to USER, the only member that write_members() reserves. */
static void get_reserved_member(const void *user, size_t i, struct zip_output_member *member)
{
    (void)i;
    *member = *(const struct zip_output_member *)user;
}

/* write_members - writes an archive of three members. The first holds the bytes, the second holds zeros,
 * and the third is only reserved space. */
static ckpt_status write_members(zip_writer *w, const uint8_t *data, size_t size, ckpt_error *err)
{
    ckpt_str bytes = str_of((const char *)data, size);
    struct zip_output_member member = {.name = "reserved", .size = size, .source_offset = 100, .crc = 1};
    buf header;
    CKPT_TRY(zip_writer_write_member(w, "member", bytes, err));
    CKPT_TRY(zip_writer_write_member(w, "large", str_of((const char *)zeros, sizeof zeros), err));
    CKPT_TRY(zip_writer_reserve_member(w, &member, err));
    buf_init(&header, 1 << 17);
    ckpt_status st = zip_put_output_header(w, &member, &header, err);
    buf_free(&header);
    CKPT_TRY(st);
    return zip_writer_finish(w, get_reserved_member, &member, err);
}

/* fuzz_zip_write - writes an archive with the bytes as a member and reads it back. */
static void fuzz_zip_write(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    sink *out = NULL;
    zip_writer *w = NULL;
    arena *a = arena_new(ARENA_MAX);
    zip *z = NULL;
    ckpt_str got;
    ckpt_status st = a ? sink_mem((size_t)4 << 20, NULL, &out, &err) : fail_memory(&err);
    if (st == CKPT_OK)
        st = zip_writer_new(out, "top", &w, &err);
    if (st == CKPT_OK)
        st = write_members(w, data, size, &err);
    check_reason(st, &err);
    zip_writer_free(w);
    ckpt_str all = st == CKPT_OK ? sink_mem_view(out) : str_of("", 0);
    source *src = st == CKPT_OK ? source_of_bytes((const uint8_t *)all.ptr, all.len) : NULL;
    if (src) {
        st = zip_open(src, a, &z, &err);
        if (st == CKPT_OK)
            st = zip_load_member(z, 0, ARENA_MAX, &got, &err);
        bool failed = st != CKPT_OK && !is_environment_error(&err);
        if (failed || (st == CKPT_OK && (z->n != 3 || !str_eq(got, str_of((const char *)data, size)))))
            exercise_abort("a written archive does not hold its member");
        zip_close(z);
    }
    source_unref(src);
    sink_abort(out);
    arena_free(a);
}

static void fuzz_snappy(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    size_t n = 0;
    cursor c = cursor_of(data, size, 0);
    ckpt_status st = snappy_read_size(c, &n, &err);
    unsigned char *out = st == CKPT_OK ? malloc(n + 1) : NULL;
    if (out)
        st = snappy_decode(c, out, n, &err);
    check_reason(st, &err);
    free(out);
}

/* ------------------------------------------------------- databases, arrays */

/* fix_ocdbt_crcs - corrects the CRC-32C of every record of OCDBT, because the reader does not parse a record
 * with a wrong CRC. A record begins with the bytes 0c db. Its length is at offset 4, in 8 bytes; its last 4
 * bytes are the CRC. */
static void fix_ocdbt_crcs(uint8_t *data, size_t size)
{
    for (size_t at = 0; at + 16 <= size; at++) {
        uint64_t length = 0;
        for (size_t i = 8; i-- > 0;)
            length = length << 8 | data[at + 4 + i];
        if (data[at] != 0x0c || data[at + 1] != 0xdb || length < 16 || length > size - at)
            continue;
        uint32_t crc = tablecrc_of(data + at, (size_t)length - 4);
        for (size_t i = 0; i < 4; i++)
            data[at + length - 4 + i] = (uint8_t)(crc >> (8 * i));
    }
}

/* open_any_data_file - sets f->src to the source USER, whichever data file the manifest names. */
static ckpt_status open_any_data_file(void *user, struct ocdbt_file *f, ckpt_error *err)
{
    (void)err;
    f->src = user;
    return CKPT_OK;
}

/* fuzz_ocdbt - reads the bytes as a manifest followed by a data file. All data files that the manifest names
 * are this one. The length of the manifest is in its header. */
static void fuzz_ocdbt(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    uint8_t *copy = malloc(size + 1);
    arena *a = arena_new(ARENA_MAX);
    uint64_t manifest_size = size > 12 ? data[4] | (uint64_t)data[5] << 8 : 0;
    source *all = copy ? source_of_bytes(copy, size) : NULL, *manifest = NULL, *file = NULL;
    if (copy && size)
        memcpy(copy, data, size);
    if (copy)
        fix_ocdbt_crcs(copy, size);
    manifest_size = manifest_size < size ? manifest_size : size;
    if (all && a && source_slice(all, 0, manifest_size, &manifest, &err) == CKPT_OK &&
        source_slice(all, manifest_size, size - manifest_size, &file, &err) == CKPT_OK) {
        const struct ocdbt_callbacks callbacks = {.open_file = open_any_data_file, .user = file};
        struct ocdbt o = {.a = a, .callbacks = &callbacks, .max_decoded = ARENA_MAX / 4};
        check_reason(ocdbt_read(&o, manifest, &err), &err);
        for (size_t i = 1; i < o.n; i++)
            if (str_compare(o.entries[i - 1].key, o.entries[i].key) >= 0)
                exercise_abort("keys are not in ascending order");
        ocdbt_free(&o);
    }
    source_unref(file);
    source_unref(manifest);
    source_unref(all);
    arena_free(a);
    free(copy);
}

/* decode_chunk - decodes SRC, a chunk or shard of the array Z. If it is a shard, reads its index first. */
static void decode_chunk(const struct zarr_array *z, source *src, arena *a)
{
    ckpt_error err = {0};
    struct zarr_stored_chunk *chunks;
    if (z->is_sharded)
        check_reason(zarr_read_index(z, src, 0, src->size, a, &chunks, &err), &err);
    spool *decoded = z->encoding.ncodecs && z->encoding.decoded_bytes <= ARENA_MAX / 16
                         ? spool_new(z->encoding.decoded_bytes)
                         : NULL;
    if (decoded)
        check_reason(zarr_decode(&z->encoding, src, decoded, &err), &err);
    spool_free(decoded);
}

/* fuzz_zarr - reads the bytes before the first NUL as the metadata of an array, and those after it twice: as
 * a chunk, and as the name of a chunk. */
static void fuzz_zarr(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    struct zarr_array z;
    uint64_t origin[ZARR_DIMS];
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t text_length = nul ? (size_t)(nul - data) : size, after_nul = nul ? text_length + 1 : text_length;
    ckpt_str text = str_of((const char *)data, text_length);
    arena *a = arena_new(ARENA_MAX);
    source *src = source_of_bytes(data + after_nul, size - after_nul);
    bool v3 = str_find(text, STR_LIT("node_type"), 0) != SIZE_MAX;
    ckpt_status st = a && src ? zarr_read(text, v3, a, &z, &err) : fail_memory(&err);
    check_reason(st, &err);
    if (st == CKPT_OK) {
        if (zarr_is_chunk_key(&z, str_of((const char *)data + after_nul, size - after_nul), origin))
            for (uint32_t dim = 0; dim < z.ndim; dim++)
                if (origin[dim] >= z.shape[dim])
                    exercise_abort("a chunk is outside of its array");
        decode_chunk(&z, src, a);
    }
    source_unref(src);
    arena_free(a);
}

/* ---------------------------------------------------------------- formats */

/* open_as - opens the bytes under the name PATH as format ONLY (NULL: any) and reads its rows. */
static void open_as(const char *path, const uint8_t *data, size_t size, const char *only)
{
    ckpt_error err = {0};
    ckpt_file *f = NULL;
    source *src = source_of_bytes(data, size);
    if (!src)
        return;
    const struct opening o = {.path = path, .src = src, .only = only ? format_by_name(only) : NULL};
    ckpt_status st = format_open(&o, &f, &err);
    check_reason(st, &err);
    for (uint32_t i = 0; st == CKPT_OK && i < ckpt_tensor_count(f) && i < 64; i++)
        exercise_read_row(f, i);
    if (st == CKPT_OK)
        file_free(f);
}

static void fuzz_format(const uint8_t *data, size_t size, const char *only)
{
    open_as("fuzz", data, size, only);
}

/* fuzz_salvage_as - salvages the bytes as the only file that is left of a checkpoint of format ONLY. */
static void fuzz_salvage_as(const uint8_t *data, size_t size, const char *only)
{
    ckpt_error err = {0};
    ckpt_file *f = NULL;
    source *src = source_of_bytes(data, size);
    if (!src)
        return;
    const struct opening o = {.path = "fuzz", .src = src, .only = format_by_name(only), .how = OPEN_SALVAGE};
    ckpt_status st = format_open(&o, &f, &err);
    check_reason(st, &err);
    if (st == CKPT_OK)
        file_free(f);
}

static void fuzz_any(const uint8_t *data, size_t size) { fuzz_format(data, size, NULL); }
static void fuzz_torch_zip(const uint8_t *data, size_t size) { fuzz_format(data, size, "torch-zip"); }
static void fuzz_torch_legacy(const uint8_t *data, size_t size) { fuzz_format(data, size, "torch-legacy"); }
static void fuzz_torch_mobile(const uint8_t *data, size_t size)
{
    fuzz_format(data, size, "torchscript-flatbuffer");
}
/* fuzz_paddle_pickle - opens the bytes under a name with the suffix .pdparams: any pickle with this suffix is
 * read as a file of paddle.save. */
static void fuzz_paddle_pickle(const uint8_t *data, size_t size)
{
    open_as("fuzz.pdparams", data, size, "pickle");
}

static void fuzz_sstable(const uint8_t *data, size_t size) { fuzz_format(data, size, "tf-v1"); }
static void fuzz_tf_bundle(const uint8_t *data, size_t size) { fuzz_salvage_as(data, size, "tf-v2"); }
static void fuzz_torch_tar(const uint8_t *data, size_t size) { fuzz_format(data, size, "torch-tar"); }

/* fuzz_foreign - checks that the error for a file of no known format has a reason. */
static void fuzz_foreign(const uint8_t *data, size_t size)
{
    struct probe p = {.path = "fuzz", .src = source_of_bytes(data, size), .size = size};
    ckpt_error err = {0};
    p.nhead = size < sizeof p.head ? size : sizeof p.head;
    memcpy(p.head, data, p.nhead);
    if (p.src)
        exercise_check_error(format_fail_unrecognized(&p, &err), &err);
    source_unref(p.src);
}

/* check_location_length - stops the scan if the text that locates a record is longer than 1 MiB. */
static int check_location_length(void *user, const ckpt_scan_record *record)
{
    (void)user;
    return record->where.len > ((size_t)1 << 20);
}

/* scan_as - scans the bytes as a file called NAME. */
static void scan_as(const char *name, const uint8_t *data, size_t size)
{
    ckpt_scan_options o = {
        .struct_size = sizeof o, .max_depth = 3, .max_unpacked = 1 << 20, .all_calls = true, .sha256 = true};
    ckpt_scan_result result = CKPT_INIT(ckpt_scan_result);
    struct scan s = {.opts = &o, .report = check_location_length, .result = &result};
    struct judge *judge = NULL;
    ckpt_error err = {0};
    source *src = source_of_bytes(data, size);
    ckpt_status st = src ? judge_new(&s, &judge, &err) : CKPT_OK;
    if (src && st == CKPT_OK)
        st = scan_source(name, src, NULL, &s, &err);
    if (s.failure.status != CKPT_OK) /* takes precedence, as in ckpt_scan */
        check_reason(s.failure.status, &s.failure);
    else
        check_reason(st, &err);
    if (result.accounted > result.bytes)
        exercise_abort("more bytes are accounted for than the file has");
    judge_free(judge);
    source_unref(src);
}

static void fuzz_scan(const uint8_t *data, size_t size) { scan_as("fuzz", data, size); }

/* scan_with_magic - scans a copy of the bytes, with the N bytes of MAGIC at OFFSET, so that every input gets
 * to the scanner of one format. */
static void scan_with_magic(const uint8_t *data, size_t size, size_t offset, const char *magic, size_t n)
{
    uint8_t *copy = size >= offset + n ? malloc(size) : NULL;
    if (!copy)
        return;
    memcpy(copy, data, size);
    memcpy(copy + offset, magic, n);
    fuzz_scan(copy, size);
    free(copy);
}

#define SCAN_AS(offset, magic) scan_with_magic(data, size, offset, magic, sizeof(magic) - 1)
static void fuzz_scan_gguf(const uint8_t *data, size_t size) { SCAN_AS(0, "GGUF"); }
static void fuzz_scan_msgpack(const uint8_t *data, size_t size) { SCAN_AS(0, "\x82\xa1"); }
static void fuzz_scan_npy(const uint8_t *data, size_t size) { SCAN_AS(0, "\x93NUMPY\1\0"); }
static void fuzz_scan_tar(const uint8_t *data, size_t size) { SCAN_AS(257, "ustar"); }
static void fuzz_scan_zip(const uint8_t *data, size_t size) { SCAN_AS(0, "PK\3\4"); }

/* fuzz_regexp - compiles the first line as an expression and finds all its matches in the rest. */
static void fuzz_regexp(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    char pattern[REGEXP_MAX_PATTERN + 1];
    size_t n = newline ? (size_t)(newline - data) : 0;
    regexp *re;
    ckpt_error err = {0};
    if (!n || n > REGEXP_MAX_PATTERN)
        return;
    memcpy(pattern, data, n);
    pattern[n] = '\0';
    ckpt_status st = regexp_compile(pattern, &re, &err);
    check_reason(st, &err);
    if (st != CKPT_OK)
        return;
    ckpt_str text = str_of((const char *)newline + 1, size - n - 1);
    struct regexp_group groups[REGEXP_GROUPS] = {{0, 0}};
    regexp_begin(re, text);
    for (size_t at = 0; st == CKPT_OK && at <= text.len && groups[0].start != REGEXP_NO_MATCH; at++) {
        st = regexp_find(re, text, at, groups, &err);
        if (st != CKPT_OK || groups[0].start == REGEXP_NO_MATCH)
            break;
        if (groups[0].start < at || groups[0].end < groups[0].start || groups[0].end > text.len)
            exercise_abort("a match is outside of the text");
        at = groups[0].end;
    }
    check_reason(st, &err);
    regexp_free(re);
}

/* reverses_rename - returns whether R reverses one of the first N renames of the plan P. */
static bool reverses_rename(const ckpt_plan *p, size_t n, const ckpt_rename *r)
{
    for (size_t i = 0; i < n; i++) {
        const ckpt_rename *earlier = ckpt_plan_rename_at(p, i); /* NULL: out of memory */
        if (!earlier || (str_eq(earlier->from, r->to) && str_eq(earlier->to, r->from)))
            return true;
    }
    return false;
}

/* fuzz_names - adds a prefix to all names and strips it again; every name must then be the original one. */
static void fuzz_names(const uint8_t *data, size_t size)
{
    ckpt_file *f = NULL;
    ckpt_plan *p = NULL;
    ckpt_error err = {0};
    size_t added = 0;
    if (ckpt_open_memory(data, size, "fuzz", NULL, &f, NULL) != CKPT_OK)
        return;
    ckpt_status st = ckpt_plan_new(f, &p, &err);
    if (st == CKPT_OK && (st = ckpt_plan_add(p, "fuzz.", &err)) == CKPT_OK) {
        added = ckpt_plan_rename_count(p);
        st = ckpt_plan_strip(p, "fuzz.", false, &err);
    }
    check_reason(st, &err);
    for (size_t i = added; st == CKPT_OK && i < ckpt_plan_rename_count(p) && i < added + 32; i++) {
        const ckpt_rename *r = ckpt_plan_rename_at(p, i);
        if (r && !r->metadata && !reverses_rename(p, added, r))
            exercise_abort("adding and stripping a prefix changes a name");
    }
    ckpt_plan_free(p);
    ckpt_close(f);
}

/* fuzz_printed - reads the bytes as a text of names, and compares the names with themselves. */
static void fuzz_printed(const uint8_t *data, size_t size)
{
    ckpt_open_options o = {.struct_size = sizeof o, .names = 1, .data = data, .size = size};
    ckpt_diff_options keys = {.struct_size = sizeof keys, .keys_only = true};
    ckpt_diff_totals totals = CKPT_INIT(ckpt_diff_totals);
    ckpt_error err = {0};
    ckpt_file *f = NULL;
    ckpt_status st = ckpt_open_with("fuzz", &o, &f, &err);
    check_reason(st, &err);
    if (st != CKPT_OK)
        return;
    st = ckpt_diff(f, f, &keys, NULL, NULL, &totals, &err);
    check_reason(st, &err);
    if (st == CKPT_OK && (totals.same != ckpt_tensor_count(f) || totals.only_a || totals.only_b))
        exercise_abort("names differ from themselves");
    ckpt_close(f);
}

/* ------------------------------------------------------- text in checkpoints */

/* fuzz_yaml - checks that the tokens of the bytes are in order and inside, and scans the bytes as YAML. */
static void fuzz_yaml(const uint8_t *data, size_t size)
{
    ckpt_error err = {0};
    yaml_scan *y = malloc(sizeof *y);
    enum yaml_token token;
    size_t ntokens = 0, before = 0;
    if (!y)
        return;
    yaml_init(y, str_of((const char *)data, size), &err);
    while ((token = yaml_next(y)) != YAML_END && token != YAML_ERROR) {
        if (y->token_at < before || y->pos <= y->token_at || y->pos > size || ++ntokens > size)
            exercise_abort("a token of YAML is out of order or empty");
        before = y->token_at;
    }
    if (token == YAML_ERROR)
        exercise_check_error(err.status, &err);
    free(y);
    scan_as("fuzz.yaml", data, size);
}

static void fuzz_expression(const uint8_t *data, size_t size)
{
    for (int is_guard = 0; is_guard < 2; is_guard++) {
        size_t failed_at = 0;
        bool ok = expression_is_arithmetic(str_of((const char *)data, size), is_guard, &failed_at);
        if (failed_at > size || (ok && failed_at != size))
            exercise_abort("an expression ends at a wrong offset");
    }
}

/* ------------------------------------------------------------------ choice */

static const struct {
    const char *name;
    void (*run)(const uint8_t *data, size_t size);
} targets[] = {
    /* value of FUZZ_TARGET, function */
    {"any", fuzz_any},
    {"cast", fuzz_cast},
    {"dequantize", fuzz_dequantize},
    {"dcp", fuzz_dcp},
    {"doctor", fuzz_doctor},
    {"expression", fuzz_expression},
    {"foreign", fuzz_foreign},
    {"in_place", fuzz_in_place},
    {"index", fuzz_index},
    {"journal", fuzz_journal},
    {"json", fuzz_json},
    {"manifest", fuzz_manifest},
    {"map", fuzz_map},
    {"match", fuzz_match},
    {"mem", fuzz_mem},
    {"names", fuzz_names},
    {"number", fuzz_number},
    {"printed", fuzz_printed},
    {"ocdbt", fuzz_ocdbt},
    {"packed", fuzz_scan},
    {"paddle_pickle", fuzz_paddle_pickle},
    {"pickle", fuzz_pickle},
    {"pickle_back", fuzz_pickle_back},
    {"ranks", fuzz_ranks},
    {"regexp", fuzz_regexp},
    {"round_trip", fuzz_round_trip},
    {"rules", fuzz_rules},
    {"lora", fuzz_lora},
    {"salvage", fuzz_salvage},
    {"sanitize", fuzz_sanitize},
    {"scan", fuzz_scan},
    {"scan_gguf", fuzz_scan_gguf},
    {"scan_msgpack", fuzz_scan_msgpack},
    {"scan_npy", fuzz_scan_npy},
    {"scan_tar", fuzz_scan_tar},
    {"scan_zip", fuzz_scan_zip},
    {"snappy", fuzz_snappy},
    {"sstable", fuzz_sstable},
    {"tar", fuzz_tar},
    {"text", fuzz_text},
    {"tf_bundle", fuzz_tf_bundle},
    {"torch_legacy", fuzz_torch_legacy},
    {"torch_mobile", fuzz_torch_mobile},
    {"torch_tar", fuzz_torch_tar},
    {"torch_zip", fuzz_torch_zip},
    {"trace", fuzz_trace},
    {"verify", fuzz_verify},
    {"xml", fuzz_xml},
    {"yaml", fuzz_yaml},
    {"zarr", fuzz_zarr},
    {"zip", fuzz_zip},
    {"zip_patch", fuzz_zip_patch},
    {"zip_write", fuzz_zip_write},
};
#define NTARGETS (sizeof targets / sizeof *targets)

static size_t chosen_target = NTARGETS;
static const char *only_format; /* set if FUZZ_TARGET is the name of a format */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("FUZZ_TARGET");
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < NTARGETS; i++)
        if (name && strcmp(name, targets[i].name) == 0)
            chosen_target = i;
    if (chosen_target == NTARGETS && name && format_by_name(name))
        only_format = name;
    if (chosen_target < NTARGETS || only_format) {
        (void)ckpt_scan_preload();
        make_target_files();
        return 0;
    }
    fputs("FUZZ_TARGET is the name of a format or one of:", stderr);
    for (size_t i = 0; i < NTARGETS; i++)
        fprintf(stderr, " %s", targets[i].name);
    fputc('\n', stderr);
    exit(2);
}

/* fix_tar_checksums - corrects the checksum in every header of a tar. A header has 512 bytes; the 8 bytes at
 * offset 148 in it are the checksum: the sum of the 512 bytes, in which these 8 count as blanks. */
static void fix_tar_checksums(uint8_t *data, size_t size)
{
    for (size_t at = 0; at + 512 <= size; at += 512) {
        unsigned sum = 8 * ' ';
        if (memcmp(data + at + 257, "ustar", 5) != 0)
            continue;
        for (size_t i = 0; i < 512; i++)
            sum += i < 148 || i >= 156 ? data[at + i] : 0;
        snprintf((char *)data + at + 148, 8, "%06o", sum);
        data[at + 155] = ' ';
    }
}

/* Mutates the bytes. In three of four mutations, also corrects their checksums: a reader does not parse bytes
 * that have a wrong checksum. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    static const char sstable_magic[] = "\x57\xfb\x80\x8b\x24\x75\x47\xdb"; /* ends an sstable */
    size = LLVMFuzzerMutate(data, size, max);
    if (seed % 4 && size > 2 && data[0] == 'P' && data[1] == 'K')
        (void)zipcrc_fix(data, size);
    else if (seed % 4 && size >= 64 && memcmp(data + size - 8, sstable_magic, 8) == 0)
        tablecrc_fix(data, size);
    else if (seed % 4 && size >= 512)
        fix_tar_checksums(data, size);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (only_format)
        fuzz_format(data, size, only_format);
    else
        targets[chosen_target].run(data, size);
    return 0;
}
