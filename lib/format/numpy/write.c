/*
 * write.c - a plan as a .npz, or its one tensor as a .npy, as numpy.save and numpy.savez write them:
 *
 *   .npy   the header of version 1.0 (codec/npy.c), keys in alphabetical order, blanks for a growing first
 *          size, then up to a multiple of 64; the elements by rows, little-endian
 *   .npz   a stored zip member KEY.npy for each tensor, in the order of the plan; dated 1980-01-01
 *
 * A tensor without a name is arr_0, as numpy.savez calls it. Of tensors that share storage each is written.
 *
 * Refused: dtypes that numpy lacks, tensors without bytes of their own, two of one name; in a .npy more than
 * one tensor.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "base/map.h"
#include "base/text.h"
#include "codec/zip_header.h"
#include "core/copy_pool.h"
#include "format/format.h"
#include "format/numpy/numpy.h"
#include "io/sink.h"

#define ALIGN       64u
#define GROWTH      21u /* digits that the first size has room for */
#define LONGEST_KEY 60000u
#define SUFFIX_LEN  4u /* of ".npy" */

struct numpy_item {
    ckpt_str name;
    uint32_t row;
    uint64_t header_offset, data_offset, nbytes; /* in the output */
};

struct numpy_writer {
    ckpt_plan *p;
    const struct write_job *job;
    struct numpy_item *items;
    size_t n;
    uint32_t *crcs;
    struct convert_tally *tallies; /* NULL where nothing is cast */
    uint64_t end;                  /* of the last item … */
    uint64_t directory;            /* … and the size of what follows in an archive */
    bool archive;
};

static const ckpt_tensor *tensor_of(const struct numpy_writer *w, uint32_t row)
{
    return &w->p->file->table.rows[row].t;
}

/* ---------------------------------------------------------------------- headers */

/* put_descr - numpy's code of X as it is written. False: it has none. */
static bool put_descr(const struct numpy_writer *w, const struct numpy_item *x, buf *b)
{
    const ckpt_tensor *t = tensor_of(w, x->row);
    ckpt_str name = str_c(t->dtype == CKPT_DT_NP ? ckpt_tensor_dtype_name(t)
                                                 : ckpt_dtype_name(plan_dtype(w->p, x->row)));
    struct numpy_dtype d;
    if (str_starts(name, STR_LIT("datetime64")) || str_starts(name, STR_LIT("timedelta64"))) {
        bool date = name.ptr[0] == 'd';
        name = str_skip(name, date ? 10 : 11);
        buf_printf(b, "<%c8%.*s", date ? 'M' : 'm', STR_ARG(name));
        return true;
    }
    if (str_is(name, "float128") || str_is(name, "complex256")) {
        buf_text(b, name.ptr[0] == 'f' ? "<f16" : "<c32");
        return true;
    }
    if (!numpy_dtype_parse(name, &d) || d.extended || d.kind == 'O')
        return false;
    bool no_order = d.bytes == 1 || d.kind == 'S' || d.kind == 'V';
    buf_printf(b, "%c%c%u", no_order ? '|' : '<', d.kind, d.kind == 'U' ? d.bytes / 4 : d.bytes);
    return true;
}

/* put_header - of X, to its last byte. False: numpy has no such dtype. */
static bool put_header(const struct numpy_writer *w, const struct numpy_item *x, buf *b)
{
    const ckpt_tensor *t = tensor_of(w, x->row);
    char first[GROWTH + 1] = "";
    size_t start = b->len;
    buf_put(b, "\x93NUMPY\1\0\0\0{'descr': '", 21);
    if (!put_descr(w, x, b))
        return false;
    buf_text(b, "', 'fortran_order': False, 'shape': (");
    for (uint32_t k = 0; k < t->ndim; k++)
        buf_printf(b, k ? ", %llu" : "%llu", (unsigned long long)t->shape[k]);
    buf_text(b, t->ndim == 1 ? ",), }" : "), }");
    if (t->ndim)
        (void)snprintf(first, sizeof first, "%llu", (unsigned long long)t->shape[0]);
    for (size_t n = strlen(first); t->ndim && n < GROWTH; n++)
        buf_byte(b, ' ');
    size_t pad = ALIGN - (b->len - start + 1) % ALIGN; /* bounded: it is in memory */
    for (size_t i = 0; i < pad; i++)
        buf_byte(b, ' ');
    buf_byte(b, '\n');
    if (buf_ok(b)) {
        size_t n = b->len - start - 10; /* bounded: those were put first */
        b->data[start + 8] = (unsigned char)n;
        b->data[start + 9] = (unsigned char)(n >> 8);
    }
    return true;
}

static struct zip_header member_header(const struct numpy_item *x, uint64_t npy_header, uint32_t crc)
{
    uint64_t size = npy_header + x->nbytes; /* bounded: assign_offsets() */
    return (struct zip_header){.signature = ZIP_LOCAL,
                               .flags = ZIP_FLAG_UTF8,
                               .method = ZIP_STORED,
                               .time = ZIP_1980,
                               .crc = crc,
                               .csize = size,
                               .usize = size,
                               .offset = x->header_offset};
}

/* put_start - what comes before the elements of X: in an archive the local header, with CRC, then numpy's. */
static ckpt_status put_start(const struct numpy_writer *w, const struct numpy_item *x, uint32_t crc, buf *b,
                             struct zip_header *h, ckpt_error *err)
{
    buf npy;
    buf_init(&npy, 65535);
    (void)put_header(w, x, &npy);
    if (buf_ok(&npy) && w->archive) {
        ckpt_str header = buf_view(&npy), name;
        uint32_t all = crc32_combine(crc32_update(0, header.ptr, header.len), crc, x->nbytes);
        name = arena_printf(w->p->a, "%.*s.npy", STR_ARG(x->name));
        *h = member_header(x, header.len, all);
        if (name.ptr)
            zip_put_local(b, h, name, 0);
        else
            b->failed = true;
    }
    if (buf_ok(&npy))
        buf_str(b, buf_view(&npy));
    bool ok = buf_ok(&npy) && buf_ok(b);
    buf_free(&npy);
    return ok ? CKPT_OK : fail_memory(err);
}

/* ------------------------------------------------------------------ what is written */

static const char *find_unfit_reason(const struct numpy_writer *w, const struct numpy_item *x)
{
    const ckpt_tensor *t = tensor_of(w, x->row);
    buf b;
    if ((t->kind != CKPT_DENSE && t->kind != CKPT_NDARRAY) || t->part_of != CKPT_NO_TENSOR)
        return "is not a plain tensor";
    if (!t->has_data || !t->has_shape)
        return "has no bytes";
    if (t->ndim > NPY_DIMENSIONS)
        return "has more dimensions than numpy allows";
    if (x->name.len > LONGEST_KEY)
        return "has a name longer than a member's";
    buf_init(&b, 65535);
    bool has = put_descr(w, x, &b);
    buf_free(&b);
    return has ? NULL : "has a type that numpy lacks";
}

static ckpt_status refuse(const struct numpy_writer *w, const struct numpy_item *x, const char *why,
                          ckpt_error *err)
{
    const ckpt_tensor *t = tensor_of(w, x->row);
    char word[SHELL_WORD_MAX];
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "numpy cannot hold \"%.*s\" (%s, %s): it %s",
               STR_ARG(x->name), ckpt_kind_name((ckpt_kind)t->kind),
               t->dtype ? ckpt_tensor_dtype_name(t) : "no dtype", why);
    if (dtype_info((ckpt_dtype)t->dtype)->klass == 'f')
        fail_hint(err, "--cast '*=float32' makes it a type that numpy has");
    else
        fail_hint(err, "--drop %s leaves it out", shell_glob(x->name, word));
    return CKPT_ELOSSY;
}

static ckpt_status collect_items(struct numpy_writer *w, ckpt_error *err)
{
    const ckpt_plan *p = w->p;
    map *seen = map_new(p->nentries);
    ckpt_status st = seen ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        struct numpy_item x = {.name = e->name, .row = e->row};
        uint32_t other;
        if (e->name.len == 0 && tensor_of(w, e->row)->npath == 0)
            x.name = STR_LIT("arr_0");
        const char *why = find_unfit_reason(w, &x);
        if (why)
            st = refuse(w, &x, why, err);
        else if (!map_put(seen, x.name, (uint32_t)i, &other))
            st = fail_memory(err);
        else if (other != MAP_NONE && w->archive)
            st = fail(err, CKPT_EEXIST, CKPT_NO_OFFSET, "two tensors would both be called \"%.*s\"",
                      STR_ARG(x.name));
        w->items[w->n++] = x;
    }
    map_free(seen);
    return st;
}

/* drop_leaves - numpy has no place for values that are no tensors. */
static ckpt_status drop_leaves(struct numpy_writer *w, ckpt_error *err)
{
    ckpt_plan *p = w->p;
    size_t before = p->ndropped;
    for (size_t i = 0; i < p->file->nleaves; i++) {
        const ckpt_leaf *leaf = &p->file->leaves[i];
        if (leaf->npath > p->root_depth && plan_below_root(p, leaf->path, leaf->npath))
            CKPT_TRY(plan_note_dropped(p, leaf, "not a tensor", err));
    }
    if (p->ndropped == before || !w->job->opts->strict)
        return CKPT_OK;
    const ckpt_dropped *d = &p->dropped[before];
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
               "\"%.*s\" (%.*s) is not a tensor, nor are %zu others; numpy's files hold arrays only",
               STR_ARG(d->name), STR_ARG(d->type), p->ndropped - before - 1); /* bounded: there is one */
    fail_hint(err, "without --strict they are left out and listed");
    return CKPT_ELOSSY;
}

static ckpt_status check_count(const struct numpy_writer *w, ckpt_error *err)
{
    char word[SHELL_WORD_MAX];
    if (w->n == 0 && (!w->archive || w->p->file->table.nrows))
        return plan_fail_no_tensors(err);
    if (w->archive || w->n == 1)
        return CKPT_OK;
    (void)fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET, "a .npy holds {=one array}, there are {%zu tensors}", w->n);
    fail_hint(err, "pick one, --keep %s, or write a .npz", shell_glob(w->items[0].name, word));
    return CKPT_ELOSSY;
}

static ckpt_status assign_offsets(struct numpy_writer *w, ckpt_error *err)
{
    struct zip_header h;
    buf b;
    bool ok = true;
    for (size_t i = 0; ok && i < w->n; i++) {
        struct numpy_item *x = &w->items[i];
        x->header_offset = w->end;
        ok = plan_nbytes(w->p, x->row, &x->nbytes) && x->nbytes < UINT64_MAX - 65535;
        buf_init(&b, SIZE_MAX / 2);
        ckpt_status st = ok ? put_start(w, x, 0, &b, &h, err) : CKPT_OK;
        ok = ok && checked_add(w->end, b.len, &x->data_offset) &&
             checked_add(x->data_offset, x->nbytes, &w->end);
        if (ok && w->archive) /* bounded: each is below 2^17 */
            w->directory += ZIP_CENTRAL_SIZE + x->name.len + SUFFIX_LEN + zip64_length(&h);
        buf_free(&b);
        CKPT_TRY(st);
    }
    if (w->archive)
        w->directory += w->n ? ZIP_ENDS_SIZE : ZIP_END_SIZE;
    return ok ? CKPT_OK
              : fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                     "the tensors together have {more} than {=2^64 bytes}");
}

/* ------------------------------------------------------------------------ bytes */

static struct copy_item get_copy_item(const void *user, size_t i)
{
    const struct numpy_writer *w = user;
    const struct numpy_item *x = &w->items[i];
    return (struct copy_item){.row = x->row,
                              .from = (ckpt_dtype)tensor_of(w, x->row)->dtype,
                              .to = plan_dtype(w->p, x->row),
                              .offset = x->data_offset,
                              .name = x->name};
}

/* copy_tensors - to OUT; NULL: they are read, no more. */
static ckpt_status copy_tensors(const struct numpy_writer *w, sink *out, ckpt_error *err)
{
    struct copy_job job = {.file = w->p->file,
                           .reading = plan_stream_options(w->p),
                           .out = out,
                           .n = w->n,
                           .item = get_copy_item,
                           .user = w,
                           .crcs = w->crcs,
                           .tallies = w->tallies,
                           .options = w->job->opts};
    for (size_t i = 0; i < w->n; i++)
        job.nbytes += w->items[i].nbytes; /* bounded: assign_offsets() */
    return copy_items(&job, err);
}

/* put_end - what follows the SIZE bytes of the directory. numpy.load recognizes an empty archive only
 * where it is nothing but an end record. */
static void put_end(const struct numpy_writer *w, uint64_t size, buf *b)
{
    static const unsigned char nothing[ZIP_END_SIZE - 4];
    struct zip_end_record r = {.entries = w->n, .size = size, .offset = w->end};
    if (w->n) {
        zip_put_ends(b, &r, w->end + size); /* bounded: they are in memory */
        return;
    }
    buf_u32le(b, ZIP_END);
    buf_put(b, nothing, sizeof nothing);
}

/* put_headers - those of all items, whose CRCs are known now, and an archive's directory. */
static ckpt_status put_headers(const struct numpy_writer *w, sink *out, ckpt_error *err)
{
    buf b, directory;
    ckpt_status st = CKPT_OK;
    buf_init(&directory, SIZE_MAX / 2);
    for (size_t i = 0; st == CKPT_OK && i < w->n; i++) {
        const struct numpy_item *x = &w->items[i];
        struct zip_header h;
        buf_init(&b, SIZE_MAX / 2);
        st = put_start(w, x, w->crcs[i], &b, &h, err);
        if (st == CKPT_OK)
            st = sink_patch(out, x->header_offset, b.data, b.len, err);
        buf_free(&b);
        h.signature = ZIP_CENTRAL;
        h.attributes = 0x01800000; /* a file that its owner reads and writes */
        h.made_by = 0x0314;
        ckpt_str name = arena_printf(w->p->a, "%.*s.npy", STR_ARG(x->name));
        if (st == CKPT_OK && w->archive && name.ptr)
            zip_put_central(&directory, &h, name);
    }
    if (st == CKPT_OK && w->archive) {
        put_end(w, directory.len, &directory);
        st = buf_ok(&directory) ? sink_write(out, directory.data, directory.len, err) : fail_memory(err);
    }
    buf_free(&directory);
    return st;
}

static ckpt_status record_casts(const struct numpy_writer *w, ckpt_error *err)
{
    size_t before = w->p->ncasts;
    for (size_t i = 0; i < w->n; i++) {
        const struct numpy_item *x = &w->items[i];
        const ckpt_tensor *t = tensor_of(w, x->row);
        if (t->dtype != plan_dtype(w->p, x->row))
            CKPT_TRY(plan_note_cast(w->p, x->name, x->row, t->elements, w->tallies[i].overflowed, err));
    }
    return w->job->opts->strict ? plan_check_lossless(w->p, before, err) : CKPT_OK;
}

static ckpt_status write_contents(const struct numpy_writer *w, sink *out, ckpt_error *err)
{
    CKPT_TRY(sink_reserve(out, w->end + w->directory, err)); /* bounded: a file of that size */
    CKPT_TRY(sink_skip(out, w->end, err));
    CKPT_TRY(copy_tensors(w, out, err));
    CKPT_TRY(put_headers(w, out, err));
    CKPT_TRY(record_casts(w, err));
    return file_unchanged(w->p->file, err);
}

static ckpt_status write_output(const struct numpy_writer *w, ckpt_error *err)
{
    sink *out;
    if (w->job->opts->dry_run) {
        CKPT_TRY(copy_tensors(w, NULL, err));
        return record_casts(w, err);
    }
    CKPT_TRY(plan_open_sink(w->p, w->job, &out, err));
    return sink_end(out, write_contents(w, out, err), err);
}

static ckpt_status prepare(struct numpy_writer *w, ckpt_error *err)
{
    ckpt_plan *p = w->p;
    w->items = calloc(p->nentries + 1, sizeof *w->items);
    w->crcs = calloc(p->nentries + 1, sizeof *w->crcs);
    w->tallies = p->cast ? calloc(p->nentries + 1, sizeof *w->tallies) : NULL;
    if (!w->items || !w->crcs || (p->cast && !w->tallies))
        return fail_memory(err);
    CKPT_TRY(collect_items(w, err));
    CKPT_TRY(check_count(w, err));
    CKPT_TRY(drop_leaves(w, err));
    return assign_offsets(w, err);
}

static ckpt_status write_numpy(struct numpy_writer w, ckpt_error *err)
{
    CKPT_TRY(plan_update_entries(w.p, err));
    ckpt_status st = prepare(&w, err);
    if (st == CKPT_OK && !w.job->layout_only)
        st = write_output(&w, err);
    if (st == CKPT_OK && w.job->path)
        st = plan_note_output(w.p, w.job->path, err);
    if (st == CKPT_OK) {
        w.job->result->tensors += w.n;
        w.job->result->bytes += w.end + w.directory; /* bounded: they were written */
    }
    free(w.items);
    free(w.crcs);
    free(w.tallies);
    return st;
}

ckpt_status npy_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    return write_numpy((struct numpy_writer){.p = p, .job = job}, err);
}

ckpt_status npz_write(ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    return write_numpy((struct numpy_writer){.p = p, .job = job, .archive = true}, err);
}
