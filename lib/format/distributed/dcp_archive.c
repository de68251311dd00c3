/* dcp_archive.c - writes the torch.save archive that is one item of a Distributed Checkpoint:
 *
 *    archive/data.pkl     a call of _rebuild_tensor_v2 (or _v3, for dtypes without a storage class), or the
 *                         value
 *    archive/byteorder    "little"
 *    archive/data/0       the elements of the tensor, 64-byte aligned
 *    archive/version      "3\n"
 *    directory, zip64 end record and locator, end record, as torch_zip_write has them */
#include "format/distributed/dcp_write.h"

#include "codec/pickle_write.h"
#include "codec/zip_header.h"

#define PAYLOAD_ALIGN 64u
#define MAX_PICKLE    (SIZE_MAX / 2)

struct member {
    const char *name;
    uint64_t size, offset;
    uint32_t crc;
};

struct tensor_pickle {
    ckpt_tensor t;
    ckpt_dtype dtype;
    uint64_t nbytes;
};

static uint64_t get_row_major_stride(const ckpt_tensor *tensor, uint32_t index)
{
    uint64_t run = 1;
    for (uint32_t d = index + 1; d < tensor->ndim; d++)
        if (tensor->shape[d] && !checked_mul(run, tensor->shape[d], &run))
            return 0; /* overflow: another size is 0, so TENSOR has no elements and no stride matters */
    return run;
}

/* put_tuple - writes the sizes of TENSOR or, if STRIDES, its strides in row-major order. */
static void put_tuple(pickle_writer *writer, const ckpt_tensor *tensor, bool strides)
{
    pickle_put_op(writer, PICKLE_MARK);
    for (uint32_t k = 0; k < tensor->ndim; k++)
        pickle_put_uint(writer, strides ? get_row_major_stride(tensor, k) : tensor->shape[k]);
    pickle_put_op(writer, PICKLE_TUPLE);
}

static void put_storage(pickle_writer *writer, const struct tensor_pickle *tensor, bool typed)
{
    const struct dtype_info *d = dtype_info(tensor->dtype);
    pickle_put_op(writer, PICKLE_MARK);
    pickle_put_text(writer, STR_LIT("storage"));
    if (typed)
        pickle_put_global(writer, STR_LIT("torch"), str_c(d->storage));
    else
        pickle_put_global(writer, STR_LIT("torch.storage"), STR_LIT("UntypedStorage"));
    pickle_put_text(writer, STR_LIT("0"));
    pickle_put_text(writer, STR_LIT("cpu"));
    pickle_put_uint(writer, typed ? tensor->nbytes / d->block_bytes : tensor->nbytes);
    pickle_put_op(writer, PICKLE_TUPLE);
    pickle_put_op(writer, PICKLE_BINPERSID);
}

/* put_tensor - writes the tensor of USER; pickle_write calls it for the root node, as its `leaf` hook.
 * requires_grad is false, because torch.distributed.checkpoint saves detached tensors. */
static ckpt_status put_tensor(void *user, pickle_writer *writer, const ckpt_value *value, ckpt_error *err)
{
    const struct tensor_pickle *tensor = user;
    bool typed = dtype_info(tensor->dtype)->python_has_storage;
    (void)value;
    (void)err;
    pickle_put_global(writer, STR_LIT("torch._utils"),
                      typed ? STR_LIT("_rebuild_tensor_v2") : STR_LIT("_rebuild_tensor_v3"));
    pickle_put_op(writer, PICKLE_MARK);
    put_storage(writer, tensor, typed);
    pickle_put_uint(writer, 0);           /* storage_offset */
    put_tuple(writer, &tensor->t, false); /* size */
    put_tuple(writer, &tensor->t, true);  /* stride */
    pickle_put_bool(writer, false);       /* requires_grad */
    pickle_put_global(writer, STR_LIT("collections"), STR_LIT("OrderedDict"));
    pickle_put_op(writer, PICKLE_EMPTY_TUPLE);
    pickle_put_op(writer, PICKLE_REDUCE);
    if (!typed)
        pickle_put_global(writer, STR_LIT("torch"), str_c(dtype_info(tensor->dtype)->name));
    pickle_put_op(writer, PICKLE_TUPLE);
    pickle_put_op(writer, PICKLE_REDUCE);
    return CKPT_OK;
}

static struct zip_header make_header(const struct member *member)
{
    struct zip_header header = zip_new_header(member->size, member->crc, member->offset);
    header.made_by = ZIP_VERSION_ZIP64;
    return header;
}

/* put_local_header - appends the local header of MEMBER to OUT, padded so that the data after it are aligned.
 * OUT begins at offset BASE of the archive. */
static void put_local_header(buf *out, uint64_t base, struct member *member)
{
    member->offset = base + out->len; /* 2^63 bytes of a tensor, and bytes in memory */
    struct zip_header h = make_header(member);
    ckpt_str name = str_c(member->name);
    uint64_t data = member->offset + zip_output_local_size(&h, name.len);
    zip_put_local(out, &h, name, (uint16_t)((PAYLOAD_ALIGN - data % PAYLOAD_ALIGN) % PAYLOAD_ALIGN));
}

static struct member make_member(const char *name, ckpt_str bytes)
{
    return (struct member){.name = name, .size = bytes.len, .crc = crc32_update(0, bytes.ptr, bytes.len)};
}

/* put_zip_end - appends the last of the COUNT members, "version", and the central directory to OUT, which
 * begins at offset BASE of the archive. */
static void put_zip_end(buf *out, uint64_t base, struct member *members, uint32_t count)
{
    ckpt_str version = STR_LIT("3\n");
    members[count - 1] = make_member("archive/version", version);
    put_local_header(out, base, &members[count - 1]);
    buf_put_str(out, version);
    uint64_t dir = base + out->len;
    for (uint32_t i = 0; i < count; i++) {
        struct zip_header h = make_header(&members[i]);
        zip_put_central(out, &h, str_c(members[i].name));
    }
    uint64_t end = base + out->len;
    zip_put_ends(out, &(struct zip_end_record){.entries = count, .size = end - dir, .offset = dir}, end);
}

static void begin_archive(struct dcp_archive *archive, ckpt_str pickle, struct member *members)
{
    ckpt_str order = STR_LIT("little");
    buf_init(&archive->prefix, MAX_PICKLE);
    buf_init(&archive->suffix, MAX_PICKLE);
    members[0] = make_member("archive/data.pkl", pickle);
    put_local_header(&archive->prefix, 0, &members[0]);
    buf_put_str(&archive->prefix, pickle);
    members[1] = make_member("archive/byteorder", order);
    put_local_header(&archive->prefix, 0, &members[1]);
    buf_put_str(&archive->prefix, order);
}

void dcp_archive_free(struct dcp_archive *archive)
{
    buf_free(&archive->prefix);
    buf_free(&archive->suffix);
}

/* end_archive - frees PICKLE. Returns ST, or a failure if a buffer of ARCHIVE is incomplete. Frees ARCHIVE if
 * it returns a failure. */
static ckpt_status end_archive(struct dcp_archive *archive, buf *pickle, ckpt_status st, ckpt_error *err)
{
    buf_free(pickle);
    if (st == CKPT_OK && (!buf_ok(&archive->prefix) || !buf_ok(&archive->suffix)))
        st = fail_memory(err);
    if (st != CKPT_OK)
        dcp_archive_free(archive);
    return st;
}

ckpt_status dcp_archive_tensor(struct dcp_archive *archive, const ckpt_plan *p, uint32_t row, uint32_t crc,
                               ckpt_error *err)
{
    struct member members[4];
    struct tensor_pickle t = {.t = table_tensor(&p->file->table, row), .dtype = plan_dtype(p, row)};
    const struct pickle_hooks hooks = {.user = &t, .write_leaf = put_tensor};
    const ckpt_value tensor = {.type = CKPT_V_TENSOR, .u.listed.row = CKPT_NO_TENSOR};
    buf pickle;
    *archive = (struct dcp_archive){0};
    if (!plan_nbytes(p, row, &t.nbytes) || t.nbytes > INT64_MAX)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET, "a tensor of {more} than {=2^63 bytes}");
    buf_init(&pickle, MAX_PICKLE);
    ckpt_status st = pickle_write(&tensor, &hooks, &pickle, err);
    if (st == CKPT_OK) {
        begin_archive(archive, buf_view(&pickle), members);
        members[2] = (struct member){.name = "archive/data/0", .size = t.nbytes, .crc = crc};
        put_local_header(&archive->prefix, 0, &members[2]);
        archive->crc_offset = members[2].offset + ZIP_LOCAL_CRC;
        uint64_t suffix_at = archive->prefix.len + t.nbytes;
        put_zip_end(&archive->suffix, suffix_at, members, 4);
    }
    return end_archive(archive, &pickle, st, err);
}

ckpt_status dcp_archive_value(struct dcp_archive *archive, const ckpt_plan *p, const ckpt_value *value,
                              ckpt_error *err)
{
    struct member members[3];
    const struct pickle_hooks hooks = {.user = (void *)(uintptr_t)p,
                                       .keep_entry = plan_edit_entry,
                                       .has_literal_names = file_needs_protocol_3(p->file)};
    buf pickle;
    *archive = (struct dcp_archive){0};
    buf_init(&pickle, MAX_PICKLE);
    ckpt_status st = pickle_write(value, &hooks, &pickle, err);
    if (st == CKPT_OK) {
        begin_archive(archive, buf_view(&pickle), members);
        put_zip_end(&archive->prefix, 0, members, 3);
    }
    return end_archive(archive, &pickle, st, err);
}
