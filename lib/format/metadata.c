/* metadata.c - lists the text metadata of a file; replaces it, in a copy or in place, as the format does. */
#include "format/metadata.h"

#include <stdio.h>

#include "base/sized.h"
#include "base/utf8.h"
#include "format/files/own_files.h"
#include "format/format.h"
#include "format/in_place.h"

size_t ckpt_metadata_count(const ckpt_file *file) { return value_count(file_or_empty(file)->metadata); }

bool ckpt_metadata_at(const ckpt_file *file, size_t index, ckpt_pair *out)
{
    uint32_t n = 0;
    const ckpt_value *all = file_or_empty(file)->metadata;
    const value_pair *pairs = all ? value_pairs(all, &n) : NULL;
    if (!out)
        return false;
    *out = (ckpt_pair){0};
    return index < n && value_text(pairs[index].key, &out->key) && value_text(pairs[index].val, &out->text);
}

bool ckpt_metadata_is_tie(const ckpt_file *file, size_t index)
{
    ckpt_pair pair;
    uint32_t row = file_or_empty(file)->nties && ckpt_metadata_at(file, index, &pair)
                       ? file_find_tensor((ckpt_file *)(uintptr_t)file, pair.key)
                       : CKPT_NO_TENSOR;
    return row != CKPT_NO_TENSOR && file_row_is_tie(file, row);
}

ckpt_status metadata_check_text(const ckpt_pair *pair, ckpt_error *err)
{
    if (utf8_check(pair->key, false, NULL) && utf8_check(pair->text, false, NULL))
        return CKPT_OK;
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" or its text is not UTF-8; metadata must be UTF-8",
                STR_ARG(pair->key));
}

static ckpt_status check_keys(const ckpt_pair *pairs, size_t count, ckpt_error *err)
{
    map *seen = map_new(count);
    ckpt_status st = seen ? CKPT_OK : fail_memory(err);
    for (size_t i = 0; st == CKPT_OK && i < count; i++) {
        uint32_t before = MAP_NONE;
        if (!map_put(seen, pairs[i].key, (uint32_t)i, &before))
            st = fail_memory(err);
        else if (before != MAP_NONE)
            st = fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "\"%.*s\" is given twice", STR_ARG(pairs[i].key));
    }
    map_free(seen);
    return st;
}

static ckpt_status write_in_place(ckpt_file *f, const struct metadata_job *job, ckpt_error *err)
{
    const struct journal_options o = format_journal_options(job->opts, f);
    struct patches patches = {.old_size = f->src->size, .new_size = f->src->size};
    CKPT_TRY_ALLOC(patches_add(&patches, job->at, buf_view(&job->header)), err);
    return journal_apply(f->path, &patches, &o, err);
}

static ckpt_status refuse_metadata_edit(const ckpt_file *f, ckpt_error *err)
{
    bool is_sharded = f->nparts != 0;
    (void)fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
               is_sharded ? "a set of shards has metadata in its index and in each of its files"
                          : "the metadata of a %s file cannot be edited, only that of safetensors and GGUF",
               f->format->title);
    error_add_hint(err, is_sharded ? "name one of its .safetensors files; the index is JSON, for any editor"
                                   : "convert it first: `ckpt convert FILE OUT.safetensors`");
    return CKPT_EUNSUPPORTED;
}

ckpt_status ckpt_metadata_write(ckpt_file *file, const ckpt_pair *pairs, size_t count, const char *path,
                                const ckpt_write_options *opts, uint64_t *bytes, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_write_options o;
    struct metadata_job job = {.pairs = pairs, .n = count, .path = path, .opts = &o};
    if (bytes)
        *bytes = 0;
    CKPT_REQUIRE(err, file && (pairs || !count));
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    ckpt_status st = file->format->write_metadata && file->src ? check_keys(pairs, count, err)
                                                               : refuse_metadata_edit(file, err);
    if (st == CKPT_OK && path)
        st = own_files_check_output(file, path, true, err);
    if (st == CKPT_OK && !path)
        st = format_check_own_file(file, err);
    CKPT_THEN(st, file->format->write_metadata(file, &job, err));
    if (st == CKPT_OK && !path)
        st = write_in_place(file, &job, err);
    if (bytes && st == CKPT_OK)
        *bytes = job.length;
    buf_free(&job.header);
    if (st != CKPT_OK)
        error_add_file(err, file->path);
    return st;
}

ckpt_status metadata_drop(ckpt_plan *p, bool strict, ckpt_error *err)
{
    struct plan_pair *pairs;
    size_t n, ndropped_before = p->report.ndropped;
    CKPT_TRY(plan_metadata(p, &pairs, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (pairs[i].tie || str_is(pairs[i].key, "format"))
            continue;
        const ckpt_path_elem path[] = {{.str = STR_LIT("__metadata__")}, {.str = pairs[i].key}};
        ckpt_str name = ARENA_CONCAT(p->a, STR_LIT("__metadata__."), pairs[i].key);
        CKPT_TRY(name.ptr ? CKPT_OK : fail_memory(err));
        ckpt_leaf leaf = {.path = path, .npath = 2, .name = name, .value = pairs[i].value};
        CKPT_TRY(plan_note_dropped(p, &leaf, "metadata: a torch file has no place for it", err));
    }
    if (p->report.ndropped == ndropped_before || !strict)
        return CKPT_OK;
    char more[48] = "";
    if (p->report.ndropped - ndropped_before > 1)
        (void)snprintf(more, sizeof more, " and %zu more", p->report.ndropped - ndropped_before - 1);
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "a torch file has no place for metadata: \"%.*s\"%s\n"
                "without --strict they are left out and listed",
                STR_ARG(p->report.dropped[ndropped_before].name), more);
}
