/* write.c - writes a plan as .npz, or its only tensor as .npy, as numpy.savez and numpy.save do:
 *
 *   .npy   a header of version 1.0 (codec/npy.c) with keys in alphabetical order, spaces in case the first
 *          size grows, and spaces to a multiple of 64 bytes; then the elements, row-major, little-endian
 *   .npz   a stored zip member KEY.npy for each tensor, in the order of the plan; dated 1980-01-01
 *
 * A compressed archive has the same members, deflated, as numpy.savez_compressed writes them. It is made from
 * a temporary file in the form above.
 *
 * A tensor without a name is called arr_0, as by numpy.savez. Tensors that share a storage are written one by
 * one.
 *
 * Refused: dtypes that numpy does not have, tensors without bytes, two tensors of one name, and for .npy more
 * than one tensor. */
#include <stdio.h>

#include "base/text.h"
#include "codec/inflate.h"
#include "format/flat_write.h"
#include "format/numpy/numpy.h"

#define HEADER_ALIGN  64u
#define HEADER_OFFSET 10u    /* offset of the header: after magic, version and header length (16 bits) */
#define HEADER_MAX    65535u /* bytes before the elements */
#define SIZE_DIGITS   21u    /* digits that the first size has room for */
#define MAX_KEY_BYTES 60000u /* bytes; a name of zip has at most 65535 */
#define SUFFIX_LEN    4u     /* of ".npy" */

struct numpy_output {
    bool archive;
    uint64_t directory_size; /* of what follows the items of an archive */
};

static bool writes_npz(const struct flat_writer *writer)
{
    const struct numpy_output *o = writer->user;
    return o->archive;
}

/* get_header_offset - returns the offset of the headers of item INDEX: the end of the item before it. */
static uint64_t get_header_offset(const struct flat_writer *writer, size_t index)
{
    return index ? writer->items[index - 1].begin + flat_item_nbytes(writer, &writer->items[index - 1]) : 0;
}

/* ---------------------------------------------------------------------- headers */

/* put_ml_dtype - writes the code by which numpy saves NAME, a type of ml_dtypes. False: it is none. */
static bool put_ml_dtype(ckpt_str name, buf *out)
{
    const struct dtype_info *info = dtype_info(dtype_by_name(name));
    bool is_byte = info->block_elems == 1 && info->block_bytes == 1 && strchr("fiu", info->klass);
    if (!str_is(name, "bfloat16") && !is_byte)
        return false;
    buf_put_cstr(out, !is_byte ? "<V2" : str_is(name, "float8_e5m2") ? "<f1" : "<V1");
    return true;
}

/* put_descr - writes numpy's code for the dtype NAME. False: numpy does not have it. FROM_NUMPY: the array
 * was read from a file of numpy, whose types of ml_dtypes are written as they were. */
static bool put_descr(ckpt_str name, bool from_numpy, buf *out)
{
    struct numpy_dtype d;
    if (str_starts(name, STR_LIT("datetime64")) || str_starts(name, STR_LIT("timedelta64"))) {
        bool is_date = name.ptr[0] == 'd';
        ckpt_str unit = str_skip(name, is_date ? strlen("datetime64") : strlen("timedelta64"));
        buf_put_cstr(out, is_date ? "<M8" : "<m8");
        buf_put_str(out, unit);
        return true;
    }
    if (str_is(name, "float128") || str_is(name, "complex256")) {
        buf_put_cstr(out, name.ptr[0] == 'f' ? "<f16" : "<c32");
        return true;
    }
    if (!numpy_dtype_parse(name, &d) || d.extended)
        return from_numpy && put_ml_dtype(name, out);
    if (d.kind == 'O')
        return false;
    bool no_order = d.bytes == 1 || d.kind == 'S' || d.kind == 'V';
    buf_printf(out, "%c%c%u", no_order ? '|' : '<', d.kind, d.kind == 'U' ? d.bytes / 4 : d.bytes);
    return true;
}

static bool has_dtype(ckpt_str name, bool from_numpy)
{
    buf b;
    buf_init(&b, HEADER_MAX);
    bool writable = put_descr(name, from_numpy, &b);
    buf_free(&b);
    return writable;
}

bool numpy_has_dtype(const ckpt_tensor *tensor)
{
    return has_dtype(str_c(ckpt_tensor_dtype_name(tensor)), false);
}

static bool input_is_numpy(const struct flat_writer *writer)
{
    return writer->p->file->format == &format_npz || writer->p->file->format == &format_npy;
}

static ckpt_str get_dtype_name(const struct flat_writer *writer, const struct flat_item *item)
{
    const ckpt_tensor t = flat_get_tensor(writer, item);
    return str_c(t.dtype == CKPT_DT_NAMED ? ckpt_tensor_dtype_name(&t)
                                          : ckpt_dtype_name(plan_dtype(writer->p, item->row)));
}

static bool put_header(const struct flat_writer *writer, const struct flat_item *item, buf *out)
{
    const ckpt_tensor t = flat_get_tensor(writer, item);
    char first_size[SIZE_DIGITS + 1] = "";
    size_t start = out->len;
    buf_put(out, "\x93NUMPY\1\0\0\0{'descr': '", 21);
    if (!put_descr(get_dtype_name(writer, item), input_is_numpy(writer), out))
        return false;
    buf_put_cstr(out, "', 'fortran_order': False, 'shape': (");
    for (uint32_t k = 0; k < t.ndim; k++)
        buf_printf(out, k ? ", %llu" : "%llu", (unsigned long long)t.shape[k]);
    buf_put_cstr(out, t.ndim == 1 ? ",), }" : "), }");
    if (t.ndim)
        (void)snprintf(first_size, sizeof first_size, "%llu", (unsigned long long)t.shape[0]);
    for (size_t n = strlen(first_size); t.ndim && n < SIZE_DIGITS; n++)
        buf_byte(out, ' '); /* as numpy: room for a larger first size, should rows be appended */
    size_t pad = HEADER_ALIGN - (out->len - start + 1) % HEADER_ALIGN;
    for (size_t i = 0; i < pad; i++)
        buf_byte(out, ' ');
    buf_byte(out, '\n');
    if (buf_ok(out)) {
        size_t n = out->len - start - HEADER_OFFSET;
        out->data[start + 8] = (unsigned char)n;
        out->data[start + 9] = (unsigned char)(n >> 8);
    }
    return true;
}

static ckpt_str get_member_name(const struct flat_writer *writer, const struct flat_item *item)
{
    return ARENA_CONCAT(writer->p->a, item->name, STR_LIT(".npy"));
}

/* make_item_headers - writes the headers before the elements of item INDEX to OUT: in an archive first the
 * local header, of which *ZIP_HEADER is a copy; then numpy's header. CRC is that of the elements. */
static ckpt_status make_item_headers(const struct flat_writer *writer, size_t index, uint32_t crc, buf *out,
                                     struct zip_header *zip_header, ckpt_error *err)
{
    const struct flat_item *x = &writer->items[index];
    uint64_t nbytes = flat_item_nbytes(writer, x);
    buf npy;
    buf_init(&npy, HEADER_MAX);
    (void)put_header(writer, x, &npy);
    if (buf_ok(&npy) && writes_npz(writer)) {
        ckpt_str header = buf_view(&npy), name = get_member_name(writer, x);
        uint32_t member_crc = crc_combine(CRC_32, crc32_update(0, header.ptr, header.len), crc, nbytes);
        uint64_t size = header.len + nbytes;
        *zip_header = zip_new_header(size, member_crc, get_header_offset(writer, index));
        zip_header->flags = ZIP_FLAG_UTF8;
        if (name.ptr)
            zip_put_local(out, zip_header, name, 0);
        else
            out->failed = true;
    }
    if (buf_ok(&npy))
        buf_put_str(out, buf_view(&npy));
    bool ok = buf_ok(&npy) && buf_ok(out);
    buf_free(&npy);
    return ok ? CKPT_OK : fail_memory(err);
}

/* ------------------------------------------------------------------- layout */

static const char *find_unfit_reason(const struct flat_writer *writer, const struct flat_item *item)
{
    if (flat_get_tensor(writer, item).ndim > NPY_DIMENSIONS)
        return "has more dimensions than numpy allows";
    if (item->name.len > MAX_KEY_BYTES)
        return "has a name too long for a zip member";
    if (writes_npz(writer) && memchr(item->name.ptr, 0, item->name.len))
        return "has a NUL in its name, where Python ends the name of a zip member";
    return has_dtype(get_dtype_name(writer, item), input_is_numpy(writer)) ? NULL
                                                                           : "has a type that numpy lacks";
}

static ckpt_status check_count(const struct flat_writer *writer, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    if (writes_npz(writer) || writer->n == 1)
        return CKPT_OK;
    if (writer->n == 0)
        return plan_fail_no_tensors(writer->p, err);
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "a .npy holds {=one array}, there are {%zu tensors}\n"
                "pick one with --keep %s, or write a .npz",
                writer->n, shell_glob(writer->items[0].name, word));
}

/* lay_out_item - lays out item INDEX after the items before it, with room for its headers. */
static ckpt_status lay_out_item(struct flat_writer *writer, size_t index, ckpt_error *err)
{
    struct numpy_output *o = writer->user;
    struct flat_item *x = &writer->items[index];
    struct zip_header h = {0};
    uint64_t nbytes;
    buf b;
    if (!plan_nbytes(writer->p, x->row, &nbytes) || nbytes > UINT64_MAX - HEADER_MAX)
        return flat_fail_too_large(err);
    if (x->name.len == 0 && flat_get_tensor(writer, x).npath == 0)
        x->name = STR_LIT("arr_0");
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = make_item_headers(writer, index, 0, &b, &h, err);
    bool fits = checked_add(writer->nbytes, b.len, &writer->nbytes);
    buf_free(&b);
    if (o->archive)
        o->directory_size += ZIP_CENTRAL_SIZE + x->name.len + SUFFIX_LEN + zip64_length(&h);
    CKPT_TRY(st);
    return fits ? flat_lay_out_item(writer, x, 1, err) : flat_fail_too_large(err);
}

static ckpt_status lay_out(struct flat_writer *writer, ckpt_error *err)
{
    struct numpy_output *o = writer->user;
    CKPT_TRY(check_count(writer, err));
    for (size_t i = 0; i < writer->n; i++)
        CKPT_TRY(lay_out_item(writer, i, err));
    if (o->archive)
        o->directory_size += writer->n ? ZIP_ENDS_SIZE : ZIP_END_SIZE;
    return checked_add(writer->nbytes, o->directory_size, &writer->size) ? CKPT_OK : flat_fail_too_large(err);
}

/* ------------------------------------------------------------------------ bytes */

/* put_end_records - writes the end records after the SIZE bytes of the central directory. numpy.load
 * recognizes an empty archive only if it is nothing but an end record. */
static void put_end_records(const struct flat_writer *writer, uint64_t size, buf *out)
{
    struct zip_end_record r = {.entries = writer->n, .size = size, .offset = writer->nbytes};
    if (writer->n)
        zip_put_ends(out, &r, writer->nbytes + size);
    else
        zip_put_end(out, &r);
}

static void put_entry(buf *directory, struct zip_header *header, ckpt_str name)
{
    header->attributes = ZIP_UNIX_FILE;
    header->made_by = ZIP_UNIX_VERSION;
    zip_put_central(directory, header, name);
}

/* put_item_headers - writes the headers of item INDEX, whose CRC is known now. In an archive also appends the
 * central header to DIRECTORY. */
static ckpt_status put_item_headers(const struct flat_writer *writer, size_t index, buf *directory, sink *out,
                                    ckpt_error *err)
{
    struct zip_header h = {0};
    buf b;
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = make_item_headers(writer, index, writer->crcs[index], &b, &h, err);
    CKPT_THEN(st, sink_patch(out, get_header_offset(writer, index), b.data, b.len, err));
    buf_free(&b);
    CKPT_TRY(st);
    if (!writes_npz(writer))
        return CKPT_OK;
    ckpt_str name = get_member_name(writer, &writer->items[index]);
    CKPT_TRY_ALLOC(name.ptr, err);
    put_entry(directory, &h, name);
    return CKPT_OK;
}

static ckpt_status end_archive(const struct flat_writer *writer, buf *directory, sink *out, ckpt_error *err)
{
    put_end_records(writer, directory->len, directory);
    return buf_ok(directory) ? sink_write(out, directory->data, directory->len, err) : fail_memory(err);
}

/* put_contents - writes the elements first, because the headers before them have the CRC of the elements. */
static ckpt_status put_contents(struct flat_writer *writer, sink *out, ckpt_error *err)
{
    buf directory;
    CKPT_TRY(sink_skip(out, writer->nbytes, err));
    CKPT_TRY(flat_copy_items(writer, out, err));
    buf_init(&directory, SIZE_MAX / 2);
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < writer->n; i++)
        st = put_item_headers(writer, i, &directory, out, err);
    if (st == CKPT_OK && writes_npz(writer))
        st = end_archive(writer, &directory, out, err);
    buf_free(&directory);
    return st;
}

/* ------------------------------------------------------------------- compression */

/* deflate_item - deflates item INDEX of the archive STORED to the end of OUT and sets *HEADER to its header.
 * First skips room for a local header with a full zip64 field, and writes the header there once the deflated
 * size is known. HEADERS is for the bytes of headers. */
static ckpt_status deflate_item(const struct flat_writer *writer, size_t index, ckpt_str name, sink *stored,
                                sink *out, buf *headers, struct zip_header *header, ckpt_error *err)
{
    const struct zip_header widest = {.csize = UINT32_MAX, .usize = UINT32_MAX};
    size_t room = zip_output_local_size(&widest, name.len);
    uint64_t header_offset = sink_tell(out);
    CKPT_TRY(make_item_headers(writer, index, writer->crcs[index], headers, header, err));
    CKPT_TRY(sink_skip(out, room, err));
    uint64_t data_offset = get_header_offset(writer, index) + zip_output_local_size(header, name.len);
    CKPT_TRY(deflate_written(stored, data_offset, header->usize, out, err));
    header->method = ZIP_DEFLATED;
    header->csize = sink_tell(out) - header_offset - room;
    header->offset = header_offset;
    headers->len = 0;
    zip_put_local(headers, header, name, (uint16_t)(room - zip_output_local_size(header, name.len)));
    return buf_ok(headers) ? sink_patch(out, header_offset, headers->data, headers->len, err)
                           : fail_memory(err);
}

/* deflate_member - deflates item INDEX as deflate_item() and appends its central header to DIRECTORY. */
static ckpt_status deflate_member(const struct flat_writer *writer, size_t index, sink *stored, sink *out,
                                  buf *directory, ckpt_error *err)
{
    ckpt_str name = get_member_name(writer, &writer->items[index]);
    struct zip_header h = {0};
    buf b;
    CKPT_TRY_ALLOC(name.ptr, err);
    buf_init(&b, SIZE_MAX / 2);
    ckpt_status st = deflate_item(writer, index, name, stored, out, &b, &h, err);
    buf_free(&b);
    if (st == CKPT_OK)
        put_entry(directory, &h, name);
    return st;
}

/* put_deflated - writes the archive STORED, which is not compressed, to OUT with its members deflated. */
static ckpt_status put_deflated(struct flat_writer *writer, sink *stored, sink *out, ckpt_error *err)
{
    buf directory;
    ckpt_status st = CKPT_OK;
    buf_init(&directory, SIZE_MAX / 2);
    for (size_t i = 0; st == CKPT_OK && i < writer->n; i++)
        st = deflate_member(writer, i, stored, out, &directory, err);
    writer->nbytes = sink_tell(out);
    CKPT_THEN(st, end_archive(writer, &directory, out, err));
    writer->size = sink_tell(out);
    buf_free(&directory);
    return st;
}

/* put_compressed - writes the archive to a temporary file first, and from there to OUT. */
static ckpt_status put_compressed(struct flat_writer *writer, sink *out, ckpt_error *err)
{
    const struct sink_options unsynced = {.no_sync = true};
    sink *stored;
    CKPT_TRY(sink_file("-", &unsynced, &stored, err)); /* a file without a name, as it is not committed */
    ckpt_status st = put_contents(writer, stored, err);
    CKPT_THEN(st, put_deflated(writer, stored, out, err));
    sink_abort(stored);
    return st;
}

static ckpt_status write_numpy(ckpt_plan *p, const struct write_job *job, bool archive, ckpt_error *err)
{
    const struct flat_rules rules = {.format_name = "numpy",
                                     .contents_rule = "numpy's files hold arrays only",
                                     .float_dtype = "float32",
                                     .needs_crcs = true,
                                     .size_unknown = job->opts->compress,
                                     .find_unfit_reason = find_unfit_reason,
                                     .lay_out = lay_out,
                                     .put_contents = job->opts->compress ? put_compressed : put_contents};
    struct numpy_output o = {.archive = archive};
    struct flat_writer w = {.p = p, .job = job, .rules = &rules, .user = &o};
    return flat_write(&w, err);
}

ckpt_status npy_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    return write_numpy(p, job, false, err);
}

ckpt_status npz_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    return write_numpy(p, job, true, err);
}
