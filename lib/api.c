/*
 * api.c - joins the two halves of the library behind ckpt.h: formats make a ckpt_file, operations work on it.
 * What one floor can do by itself is offered there.
 */
#include "base/sized.h"
#include "codec/unpack_archive.h"
#include "format/format.h"
#include "format/hub/shards.h"
#include "format/verify.h"
#include "io/sink.h"
#include "op/known_names.h"
#include "op/sanitize.h"
#include "op/select.h"
#include "op/verify.h"

const char *ckpt_version(void) { return CKPT_VERSION; }

ckpt_status ckpt_open(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, path);
    return format_open_path(path, false, limits, out, err);
}

ckpt_status ckpt_open_names(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    ckpt_error own;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, path);
    return format_open_path(path, true, limits, out, err ? err : &own);
}

ckpt_status ckpt_open_memory(const void *data, size_t size, const char *name, const ckpt_limits *limits,
                             ckpt_file **out, ckpt_error *err)
{
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, (data || !size) && name);
    source *src = source_mem(data, size, 0);
    return src ? format_open(name, src, limits, NULL, out, err) : fail_memory(err);
}

ckpt_status ckpt_salvage(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    source *src;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, path);
    CKPT_TRY(format_open_source(path, NULL, &src, err));
    return format_salvage(path, src, limits, out, err);
}

size_t ckpt_lost_count(const ckpt_file *f) { return file_or_empty(f)->nlost; }
const ckpt_lost *ckpt_lost_at(const ckpt_file *f, size_t i)
{
    return i < ckpt_lost_count(f) ? &f->lost[i] : NULL;
}

void ckpt_close(ckpt_file *file) { file_release(file); }
void ckpt_emergency_cleanup(void) { sink_emergency(); }

const char *ckpt_file_path(const ckpt_file *f) { return f ? f->path : ""; }
const char *ckpt_file_format(const ckpt_file *f) { return f ? f->format->name : ""; }
const char *ckpt_file_title(const ckpt_file *f) { return f ? f->format->title : ""; }
uint64_t ckpt_file_bytes(const ckpt_file *f) { return file_or_empty(f)->nbytes; }
uint32_t ckpt_tensor_count(const ckpt_file *f) { return (uint32_t)file_or_empty(f)->table.nrows; }
bool ckpt_tensor_at(const ckpt_file *f, uint32_t i, ckpt_tensor *out)
{
    ckpt_tensor t;
    if (sized_check(out, NULL) != CKPT_OK)
        return false;
    bool there = table_show(&file_or_empty(f)->table, i, &t);
    sized_give(out, &t, sizeof t);
    return there;
}
ckpt_str ckpt_tensor_name(const ckpt_file *f, uint32_t i) { return table_name(&file_or_empty(f)->table, i); }
uint32_t ckpt_storage_count(const ckpt_file *f) { return (uint32_t)file_or_empty(f)->table.nstorages; }
bool ckpt_storage_at(const ckpt_file *f, uint32_t i, ckpt_storage *out)
{
    ckpt_storage s;
    if (sized_check(out, NULL) != CKPT_OK)
        return false;
    bool there = table_show_storage(&file_or_empty(f)->table, i, &s);
    sized_give(out, &s, sizeof s);
    return there;
}
const ckpt_value *ckpt_file_root(const ckpt_file *f) { return file_or_empty(f)->root; }
size_t ckpt_leaf_count(const ckpt_file *f) { return file_or_empty(f)->nleaves; }
const ckpt_leaf *ckpt_leaf_at(const ckpt_file *f, size_t i)
{
    return i < ckpt_leaf_count(f) ? &f->leaves[i] : NULL;
}
const char *ckpt_notice_at(const ckpt_file *f, size_t i) { return notices_at(&file_or_empty(f)->notices, i); }
ckpt_status ckpt_file_locate(ckpt_file *f, ckpt_error *err)
{
    CKPT_REQUIRE(err, f);
    ckpt_status st = table_locate(&f->table, err);
    fail_file(st == CKPT_OK ? NULL : err, f->path);
    return st;
}

void ckpt_file_ignore_crc(ckpt_file *f, bool ignore)
{
    if (f)
        f->ignore_crc = ignore;
}

void ckpt_file_ignore_case(ckpt_file *f, bool ignore)
{
    if (f)
        f->ignore_case = ignore;
}

const ckpt_value *ckpt_file_metadata(const ckpt_file *f) { return file_or_empty(f)->metadata; }

uint32_t ckpt_tensor_find(const ckpt_file *f, ckpt_str name)
{
    return f ? file_find((ckpt_file *)(uintptr_t)f, name) : CKPT_NO_TENSOR; /* the name index is a cache */
}

ckpt_status ckpt_plan_sanitize(ckpt_plan *p, const char *format, ckpt_error *err)
{
    CKPT_REQUIRE(err, p);
    const struct format *f = format ? format_by_name(format) : NULL;
    ckpt_status st = sanitize_plan(p, f && f->flat, err);
    fail_file(st == CKPT_OK ? NULL : err, p->file->path);
    return st;
}

static ckpt_status write_one(ckpt_plan *p, const struct format *f, const struct write_job *job,
                             ckpt_error *err)
{
    CKPT_TRY(shards_guard(p->file, job->path, true, err));
    CKPT_TRY(f->write(p, job, err));
    if (p->noutputs == 1 && strcmp(job->path, "-") != 0)
        shards_beside(p, p->outputs[0]);
    return CKPT_OK;
}

ckpt_status ckpt_plan_write(ckpt_plan *p, const char *path, const ckpt_write_options *opts,
                            ckpt_write_result *out, ckpt_error *err)
{
    ckpt_write_options o;
    const struct format *f;
    ckpt_write_result result = {0};
    struct write_job job = {.path = path, .opts = &o, .result = &result};
    CKPT_TRY(out ? sized_clear(out, err) : CKPT_OK);
    CKPT_REQUIRE(err, p && path);
    CKPT_TRY(sized_take(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, o.ties <= CKPT_TIES_ERROR);
    CKPT_TRY(format_target(p, path, o.format, &f, err));
    p->ndropped = p->naliases = p->noutputs = p->ncasts = 0;
    ckpt_status st = file_unchanged(p->file, err);
    if (plan_root_is_module(p))
        plan_module_notice(p);
    cast_note_rest(p);
    if (st == CKPT_OK && job.opts->strict)
        st = sanitize_strict(p, err);
    if (st == CKPT_OK && job.opts->max_shard)
        st = shards_write(p, f, &job, err);
    else if (st == CKPT_OK)
        st = write_one(p, f, &job, err);
    if (st != CKPT_OK)
        st = file_settled(p->file, st, err);
    if (st != CKPT_OK) {
        fail_file(err, p->file->path);
        return st;
    }
    result.format = f->name;
    result.outputs = p->outputs;
    result.noutputs = p->noutputs;
    result.ndropped = p->ndropped;
    result.naliases = p->naliases;
    result.ncasts = p->ncasts;
    if (out)
        sized_give(out, &result, sizeof result);
    return CKPT_OK;
}

const char *ckpt_write_format(const char *path_or_name)
{
    const struct format *f = path_or_name ? format_by_name(path_or_name) : NULL;
    if (path_or_name && (!f || !f->write))
        f = format_by_suffix(path_or_name);
    return f ? f->name : NULL;
}

bool ckpt_scan_ready(void)
{
    uint8_t sum[CKPT_DIGEST_MAX];
    bool lists = names_sha256(sum, NULL) == CKPT_OK, archives = unpack_archive_ready();
    return lists && archives;
}

ckpt_status ckpt_scan_lists(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    CKPT_REQUIRE(err, out);
    memset(out, 0, CKPT_DIGEST_MAX);
    return names_sha256(out, err);
}

ckpt_status ckpt_verify(const char *path, const ckpt_verify_options *opts,
                        int (*tell)(void *user, const ckpt_finding *), void *user, ckpt_verify_result *result,
                        ckpt_error *err)
{
    struct check c;
    ckpt_file *f = NULL;
    ckpt_error own;
    ckpt_verify_options o;
    ckpt_work how;
    ckpt_verify_result found;
    err = err ? err : &own;
    CKPT_TRY(sized_clear(result, err));
    CKPT_TRY(sized_take(opts, &o, sizeof o, err));
    CKPT_TRY(sized_take(o.how, &how, sizeof how, err));
    CKPT_REQUIRE(err, path && (o.globs || !o.nglobs) && o.algorithm <= CKPT_XXH3);
    o.how = &how;
    ckpt_status st = check_init(&c, &o, &found, err);
    c.tell = tell;
    c.user = user;
    if (st == CKPT_OK)
        st = format_verify(path, &c, &f, err);
    if (st == CKPT_OK && f)
        f->ignore_case = o.ignore_case;
    if (st == CKPT_OK && f && (o.root || o.nglobs))
        st = ckpt_file_narrow(f, o.root, o.globs, o.nglobs, err);
    if (st == CKPT_OK && f && o.nglobs && !f->table.nrows)
        st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor matches");
    if (st == CKPT_OK && f)
        c.result->tensors = f->table.nrows;
    if (st == CKPT_OK)
        st = verify_data(&c, f, err);
    sized_give(result, &found, sizeof found);
    file_free(f);
    check_free(&c);
    fail_file(st == CKPT_OK ? NULL : err, path);
    return st;
}
