/*
 * hdf5.c - scans HDF5 (codec/hdf5.h). Keras keeps the description of a model in an attribute of the root, as
 * JSON: every attribute that may be JSON is scanned as text, whatever its name. Links to files outside of the
 * folder are reported, because loaders follow them, and data sets whose elements are in other files.
 *
 * If anything cannot be read, the caller also searches the bytes of the file (opaque_formats.c).
 */
#include "codec/hdf5.h"
#include "scan/scan.h"

struct hdf5_scan {
    const struct scanned *in;
    bool all_read; /* no object and no attribute was left out */
};

static bool may_be_json(ckpt_str text)
{
    text = str_trim_start(text, " \t\r\n");
    return text.len && (text.ptr[0] == '{' || text.ptr[0] == '[');
}

/* scan_attribute - scans VALUE, attribute NAME of the object at PATH. NULL: it cannot be read, see WHY. */
static ckpt_status scan_attribute(void *user, ckpt_str path, ckpt_str name, ckpt_value *value,
                                  const char *why, ckpt_error *err)
{
    struct hdf5_scan *s = user;
    uint64_t known_bytes = 0;
    ckpt_str text;
    s->all_read &= !why;
    if (!value || !value_text(value, &text) || !may_be_json(text))
        return CKPT_OK;
    struct scanned inner = {.x = s->in->x};
    ckpt_str outer = s->in->where;
    inner.where = ARENA_CONCAT(inner.x->a, outer, str_c(outer.len ? ": " : ""), path, STR_LIT("@"), name);
    inner.src = inner.where.ptr ? source_mem(text.ptr, text.len, CKPT_NO_OFFSET) : NULL;
    CKPT_TRY_ALLOC(inner.src, err);
    ckpt_status st = scan_text(&inner, &known_bytes, err);
    source_unref(inner.src);
    return st;
}

static ckpt_status scan_link(void *user, ckpt_str path, const char *kind, ckpt_str target, ckpt_error *err)
{
    struct hdf5_scan *s = user;
    (void)err;
    if (strcmp(kind, "external link") != 0 || !scan_path_leaves_folder(target))
        return CKPT_OK;
    return SCAN_FOUND(s->in, SCAN_EXTERNAL_PATH, 0, "\"%.*s\" is a link out of the folder: %.*s",
                      STR_ARG(path), STR_ARG(target));
}

static ckpt_status check_name(void *user, const struct hdf5_dataset *dataset, ckpt_error *err)
{
    struct hdf5_scan *s = user;
    (void)err;
    return scan_check_tensor_name(s->in, 0, dataset->path);
}

static ckpt_status report_other_files(void *user, ckpt_str path, const char *kind, ckpt_error *err)
{
    struct hdf5_scan *s = user;
    (void)err;
    return SCAN_FOUND(s->in, SCAN_EXTERNAL_PATH, 0, "the elements of \"%.*s\" are in other files (%s)",
                      STR_ARG(path), kind);
}

static ckpt_status skip_fault(void *user, ckpt_str path, ckpt_status st, ckpt_error *err)
{
    struct hdf5_scan *s = user;
    (void)path;
    s->all_read = false;
    return scan_note_system_failure(s->in->x->scan, st, err) ? st : CKPT_OK;
}

ckpt_status scan_hdf5(const struct scanned *in, bool *all_read, ckpt_error *err)
{
    ckpt_error why;
    struct hdf5_scan s = {.in = in, .all_read = true};
    const struct hdf5_visitor visitor = {.user = &s,
                                         .on_dataset = check_name,
                                         .on_attribute = scan_attribute,
                                         .on_link = scan_link,
                                         .on_other_files = report_other_files,
                                         .on_fault = skip_fault};
    arena *a = arena_new((uint64_t)1 << 30);
    ckpt_status st = a ? hdf5_visit(in->src, a, &visitor, &why) : fail_memory(&why);
    arena_free(a);
    *all_read = s.all_read && st == CKPT_OK;
    if (st == CKPT_ECANCELLED || (st != CKPT_OK && scan_note_system_failure(in->x->scan, st, &why)))
        return fail(err, st, CKPT_NO_OFFSET, "%s", why.what);
    return CKPT_OK;
}
