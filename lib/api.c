/* api.c - implements the functions of ckpt.h that need several floors of the library. */
#include <math.h>
#include <stdlib.h>

#include "base/sized.h"
#include "codec/unpack_archive.h"
#include "codec/zip_inflate.h"
#include "core/computed_source.h"
#include "format/builder.h"
#include "format/files/own_files.h"
#include "format/files/path.h"
#include "format/hub/listed_names.h"
#include "format/hub/merge.h"
#include "format/hub/write.h"
#include "format/peft/write.h"
#include "format/salvage.h"
#include "format/verify.h"
#include "op/cast.h"
#include "op/average.h"
#include "op/edit.h"
#include "op/extract.h"
#include "op/lora.h"
#include "op/match.h"
#include "op/part_record.h"
#include "op/parts.h"
#include "op/root.h"
#include "op/rule_recipes.h"
#include "op/sanitize.h"
#include "op/table_json.h"
#include "op/verify.h"
#include "op/weights_only.h"

const char *ckpt_version(void) { return CKPT_VERSION; }

/* open_bytes - opens the source of OPENING. With NAMES, the source may also be a text of tensor names. */
static ckpt_status open_bytes(const struct opening *opening, bool names, ckpt_file **out, ckpt_error *err)
{
    return names ? format_open_or_names(opening, out, err) : format_open(opening, out, err);
}

static ckpt_status open_callbacks(struct opening *opening, const ckpt_open_options *opts, ckpt_file **out,
                                  ckpt_error *err)
{
    source *src;
    CKPT_TRY(source_callbacks(opts->callbacks, &src, err));
    opening->src = source_ref(src);
    ckpt_status st = open_bytes(opening, opts->names, out, err);
    ckpt_status settled = source_finish_opening(src, st, opts->salvage, err);
    if (settled != CKPT_OK)
        error_add_file(err, opening->path);
    if (settled != st && st == CKPT_OK) {
        file_free(*out);
        *out = NULL;
    }
    source_unref(src);
    return settled;
}

static ckpt_status open_path(const struct opening *opening, bool names, ckpt_file **out, ckpt_error *err)
{
    ckpt_status st = format_open_path(opening, names, out, err);
    if (!part_folder_has(opening->path))
        return st;
    if (st == CKPT_OK)
        file_notice(*out, "is part of an output that is not complete; ckpt merge-parts completes it");
    else
        error_replace_hint(err,
                           "it is part of an output that is not complete; ckpt merge-parts completes it");
    return st;
}

/* open_by_options - does what ckpt_open_with does. OPTS have the size of this version. */
static ckpt_status open_by_options(const char *path, const ckpt_open_options *opts, ckpt_file **out,
                                   ckpt_error *err)
{
    CKPT_REQUIRE(err, out);
    *out = NULL;
    struct source_watch watch = {.progress = opts->progress, .user = opts->user, .reads_all = opts->salvage};
    struct opening o = {.path = path,
                        .limits = opts->limits,
                        .watch = opts->progress ? &watch : NULL,
                        .wanted = opts->wanted,
                        .nwanted = opts->nwanted,
                        .how = opts->salvage ? OPEN_SALVAGE : OPEN_WHOLE};
    CKPT_REQUIRE(err, path && !(opts->data && opts->callbacks) && !(opts->salvage && opts->names) &&
                          has_no_null(opts->wanted, opts->nwanted));
    if (opts->callbacks)
        return open_callbacks(&o, opts, out, err);
    if (!opts->data)
        return open_path(&o, opts->names, out, err);
    o.src = source_mem(opts->data, opts->size, 0);
    return o.src ? open_bytes(&o, opts->names, out, err) : fail_memory(err);
}

ckpt_status ckpt_open_with(const char *path, const ckpt_open_options *opts, ckpt_file **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_open_options o;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    return open_by_options(path, &o, out, err);
}

ckpt_status ckpt_open(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    return open_by_options(path, &(ckpt_open_options){.limits = limits}, out, err);
}

/* find_merged_part - finds the weights of F, or what ROOT names; as struct merging has it. */
static ckpt_status find_merged_part(ckpt_file *f, const char *root, struct merged_part *out, ckpt_error *err)
{
    struct root found;
    CKPT_TRY(root_find(f, root, &found, err));
    if (*root && strcmp(root, "auto") != 0 && !found.name.len)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "nothing is below \"%s\"\n`ckpt info` shows what there is", root);
    if (found.containers_len != found.name.len || (found.depth && !found.node))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "{\"%.*s\"} is a common prefix; files are merged by {=a container}\n"
                    "ckpt convert --root PREFIX IN -o OUT writes what is below a prefix",
                    STR_ARG(found.name));
    *out = (struct merged_part){.node = found.depth ? found.node : f->root,
                                .path = found.path,
                                .depth = found.depth,
                                .only_own_tensors = found.only_own_tensors};
    return CKPT_OK;
}

ckpt_status ckpt_open_merged(const char *const *paths, size_t count, const char *root,
                             const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, count && has_no_null(paths, count));
    const struct merging m = {paths, count, root ? root : "auto", find_merged_part};
    return format_open_merged(&m, limits, out, err);
}

ckpt_status ckpt_open_names(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    return open_by_options(path, &(ckpt_open_options){.limits = limits, .names = 1}, out, err);
}

ckpt_status ckpt_salvage(const char *path, const ckpt_limits *limits, ckpt_file **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    return open_by_options(path, &(ckpt_open_options){.limits = limits, .salvage = 1}, out, err);
}

ckpt_status ckpt_open_memory(const void *data, size_t size, const char *name, const ckpt_limits *limits,
                             ckpt_file **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, data || !size);
    const ckpt_open_options o = {.limits = limits, .data = data ? data : "", .size = size};
    return open_by_options(name, &o, out, err);
}

ckpt_status ckpt_open_callbacks(const ckpt_callbacks *callbacks, const char *name, const ckpt_limits *limits,
                                ckpt_file **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_REQUIRE(err, callbacks);
    return open_by_options(name, &(ckpt_open_options){.limits = limits, .callbacks = callbacks}, out, err);
}

uint64_t ckpt_lost_parts(const ckpt_file *file) { return file_or_empty(file)->losses.parts; }
size_t ckpt_lost_count(const ckpt_file *file) { return file_or_empty(file)->losses.n; }
const ckpt_lost *ckpt_lost_at(const ckpt_file *file, size_t index)
{
    return index < ckpt_lost_count(file) ? &file->losses.items[index] : NULL;
}

void ckpt_close(ckpt_file *file) { file_release(file); }
void ckpt_emergency_cleanup(void) { temp_emergency(); }

const char *ckpt_file_path(const ckpt_file *file) { return file ? file->path : ""; }
const char *ckpt_file_format(const ckpt_file *file) { return file ? file->format->name : ""; }
const char *ckpt_file_title(const ckpt_file *file) { return file ? file->format->title : ""; }
bool ckpt_file_contains_path(const ckpt_file *file, const char *path)
{
    return file && path && own_files_contain_path(file, path);
}
uint64_t ckpt_file_bytes(const ckpt_file *file) { return file_or_empty(file)->nbytes; }
uint32_t ckpt_tensor_count(const ckpt_file *file) { return (uint32_t)file_or_empty(file)->table.nrows; }
bool ckpt_tensor_at(const ckpt_file *file, uint32_t index, ckpt_tensor *out)
{
    ckpt_error ignored;
    const struct table *table = &file_or_empty(file)->table;
    bool exists = index < table->nrows;
    if (exists && out && out->struct_size == sizeof *out) { /* of this version, so that no copy is needed */
        table_read_tensor(table, index, out);
        out->struct_size = sizeof *out;
        return true;
    }
    if (sized_struct_clear(out, &ignored) != CKPT_OK || !exists)
        return false;
    const ckpt_tensor t = table_tensor(table, index);
    sized_struct_copy_out(out, &t, sizeof t);
    return true;
}
ckpt_str ckpt_tensor_name(const ckpt_file *file, uint32_t index)
{
    return table_name(&file_or_empty(file)->table, index);
}
uint32_t ckpt_tensor_names(const ckpt_file *file, uint32_t first, uint32_t count, ckpt_str *out)
{
    const struct table *table = &file_or_empty(file)->table;
    size_t left = out && first < table->nrows ? table->nrows - first : 0;
    uint32_t n = count < left ? count : (uint32_t)left;
    for (uint32_t i = 0; i < n; i++)
        out[i] = table_name(table, first + i);
    return n;
}
uint32_t ckpt_storage_count(const ckpt_file *file) { return (uint32_t)file_or_empty(file)->table.nstorages; }
bool ckpt_storage_at(const ckpt_file *file, uint32_t index, ckpt_storage *out)
{
    ckpt_error ignored;
    ckpt_storage s;
    if (sized_struct_check(out, &ignored) != CKPT_OK)
        return false;
    bool exists = table_copy_storage(&file_or_empty(file)->table, index, &s);
    sized_struct_copy_out(out, &s, sizeof s);
    return exists;
}
const ckpt_value *ckpt_file_root(const ckpt_file *file) { return file_or_empty(file)->root; }
size_t ckpt_leaf_count(const ckpt_file *file) { return file_or_empty(file)->nleaves; }
const ckpt_leaf *ckpt_leaf_at(const ckpt_file *file, size_t index)
{
    return index < ckpt_leaf_count(file) ? &file->leaves[index] : NULL;
}
ckpt_status ckpt_file_locate(ckpt_file *file, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, file);
    return name_file_if_failed(table_locate(&file->table, err), file->path, err);
}

void ckpt_file_ignore_crc(ckpt_file *file, bool ignore)
{
    ckpt_error err;
    if (!file)
        return;
    file->ignore_crc = ignore;
    if (!ignore || table_check_source(&file->table, &err) != CKPT_ECHECKSUM)
        return;
    file_notice(file, "%s: %s; ignored", err.where, err.what);
    table_check_nothing(&file->table);
}

void ckpt_file_ignore_case(ckpt_file *file, bool ignore)
{
    if (file)
        file->ignore_case = ignore;
}

const ckpt_value *ckpt_file_metadata(const ckpt_file *file)
{
    const ckpt_value *typed = file_or_empty(file)->metadata_values;
    return typed ? typed : file_or_empty(file)->metadata;
}

uint32_t ckpt_tensor_find(const ckpt_file *file, ckpt_str name)
{
    /* not const, because the index of names is made on first use */
    return file ? file_find_tensor((ckpt_file *)(uintptr_t)file, name) : CKPT_NO_TENSOR;
}

ckpt_status ckpt_plan_sanitize(ckpt_plan *plan, const char *format, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    const struct format *f = format ? format_by_name(format) : NULL;
    CKPT_REQUIRE(err, plan && (f || !format));
    return name_file_if_failed(sanitize_plan(plan, f && f->flat, f ? f->holds_dtype : NULL, err),
                               plan->file->path, err);
}

/* open_for_plan - opens PATH, of which tensors of P are made, as *OUT; the file of P closes it. */
static ckpt_status open_for_plan(ckpt_plan *p, const char *path, ckpt_file **out, ckpt_error *err)
{
    CKPT_TRY(ckpt_open(path, &p->file->limits, out, err));
    (*out)->ignore_crc = p->file->ignore_crc;
    if (!ARENA_PUSH(p->file->a, p->file, others, out)) {
        ckpt_close(*out);
        return fail_memory(err);
    }
    return CKPT_OK;
}

/* read_config - reads the file NAME next to the file of P, unless there is none. */
static ckpt_status read_config(ckpt_plan *p, const char *name, struct model_config *out, ckpt_error *err)
{
    const ckpt_file *f = p->file;
    struct journal_note note = {0};
    source *src = NULL;
    ckpt_str text, folder = path_is_folder(NULL, f->path) ? ARENA_CONCAT(p->a, str_c(f->path), STR_LIT("/"))
                                                          : folder_of(f);
    ckpt_str path = ARENA_CONCAT(p->a, folder, str_c(name));
    CKPT_TRY_ALLOC(path.ptr, err);
    ckpt_status st = format_open_source(path.ptr, &f->limits, &note, &src, err);
    if (st == CKPT_ENOTFOUND || (st == CKPT_OK && !src))
        return CKPT_OK;
    CKPT_TRY(st);
    CKPT_TRY(name_file_if_failed(source_read_whole(src, CONFIG_MAX, p->a, &text, err), path.ptr, err));
    return config_parse(out, text, path.ptr, p->a, err);
}

/* find_config - reads the config.json or, if there is none, Meta's params.json next to the file of the plan
 * USER. */
static ckpt_status find_config(void *user, struct model_config *out, ckpt_error *err)
{
    ckpt_plan *p = user;
    if (!has_folder(p->file) && !path_is_folder(NULL, p->file->path))
        return CKPT_OK;
    CKPT_TRY(read_config(p, "config.json", out, err));
    return out->path ? CKPT_OK : read_config(p, "params.json", out, err);
}

/* find_rules - sets *TEXT to the rules that OPTS name, and *CALLED to what errors call them. */
static ckpt_status find_rules(ckpt_plan *p, const ckpt_edit_options *opts, ckpt_str *text,
                              const char **called, ckpt_error *err)
{
    if (!opts->recipe)
        return source_read_whole_file(opts->file, RULES_TEXT_MAX, p->a, text, err);
    *text = rule_recipe_text(opts->recipe);
    *called = ARENA_CONCAT(p->a, STR_LIT("recipe "), str_c(opts->recipe)).ptr;
    CKPT_TRY_ALLOC(*called, err);
    return text->ptr ? CKPT_OK
                     : fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "there is no recipe \"%s\"", opts->recipe);
}

ckpt_status ckpt_plan_edit(ckpt_plan *plan, const char *rules, const ckpt_edit_options *opts, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    static const struct edit_files files = {open_for_plan, find_config};
    ckpt_edit_options o;
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, plan && (rules || o.file || o.recipe) && (o.parameters || !o.nparameters) &&
                          has_no_null(o.shards, o.nshards));
    ckpt_str text = rules ? str_c(rules) : str_of(NULL, 0);
    const char *called = o.file;
    if (!rules)
        CKPT_TRY(find_rules(plan, &o, &text, &called, err));
    ckpt_status st = edit_rules(plan, text, &o, &files, err);
    if (st == CKPT_ENOTFOUND && o.recipe)
        error_replace_hint(err,
                           "these are not the names that the recipe is for; --show-recipe prints its rules");
    if (st != CKPT_OK && called)
        error_add_file(err, strcmp(called, "-") == 0 ? "standard input" : called);
    return name_file_if_failed(st, plan->file->path, err);
}

/* read_beside - see struct lora_files. */
static ckpt_status read_beside(ckpt_file *adapter, const char *name, uint64_t max, ckpt_str *out,
                               ckpt_error *err)
{
    source *src;
    *out = str_of(NULL, 0);
    if (!has_folder(adapter))
        return CKPT_OK;
    ckpt_str path = ARENA_CONCAT(adapter->a, folder_of(adapter), str_c(name));
    CKPT_TRY_ALLOC(path.ptr, err);
    if (!path_exists(adapter->archive, path.ptr))
        return CKPT_OK;
    ckpt_status st = adapter->archive ? CKPT_OK : path_check_regular(path.ptr, err);
    CKPT_THEN(st, source_open_in(adapter->archive, path.ptr, &src, err));
    CKPT_THEN(st, source_read_whole(src, max, adapter->a, out, err));
    return name_file_if_failed(st, path.ptr, err);
}

ckpt_status ckpt_plan_lora(ckpt_plan *plan, const ckpt_lora_adapter *adapters, size_t count,
                           const ckpt_lora_options *opts, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    static const struct lora_files files = {open_for_plan, read_beside};
    ckpt_lora_options o;
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, plan && adapters && count && count <= UINT32_MAX && (o.only || !o.nonly));
    for (size_t i = 0; i < count; i++)
        CKPT_REQUIRE(err, adapters[i].path && isfinite(adapters[i].scale));
    return name_file_if_failed(lora_merge(plan, adapters, count, &o, &files, err), plan->file->path, err);
}

const ckpt_lora_match *ckpt_plan_lora_match_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.nlora ? &plan->report.lora[index] : NULL;
}

const ckpt_edit_parameter *ckpt_plan_edit_parameter_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.nedit_parameters ? &plan->report.edit_parameters[index] : NULL;
}

bool ckpt_recipe_at(size_t index, ckpt_recipe *out)
{
    ckpt_error ignored;
    ckpt_recipe recipe = {0};
    if (sized_struct_check(out, &ignored) != CKPT_OK)
        return false;
    bool exists = rule_recipe_describe(index, &recipe);
    sized_struct_copy_out(out, &recipe, sizeof recipe);
    return exists;
}

bool ckpt_recipe_parameter_at(ckpt_str text, size_t index, ckpt_recipe_parameter *out)
{
    return out && rule_recipe_parameter(text, index, out);
}

const ckpt_edit_step *ckpt_plan_edit_step_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.nedit_steps ? &plan->report.edit_steps[index] : NULL;
}

const ckpt_edited *ckpt_plan_edited_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.nedited ? &plan->report.edited[index] : NULL;
}

ckpt_status ckpt_plan_average(ckpt_plan *plan, const ckpt_average_options *opts, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_average_options o;
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, plan && o.paths && has_no_null(o.paths, o.npaths));
    CKPT_REQUIRE(err, o.method <= CKPT_AVERAGE_SLERP && o.normalize <= CKPT_NORMALIZE_NO);
    CKPT_TRY(mean_check_options(&o, err));
    return name_file_if_failed(plan_average(plan, &o, open_for_plan, err), plan->file->path, err);
}

const ckpt_averaged *ckpt_plan_averaged(const ckpt_plan *plan) { return plan ? plan->report.averaged : NULL; }

const ckpt_mismatch *ckpt_plan_mismatch_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.nmismatches ? &plan->report.mismatches[index] : NULL;
}

const ckpt_str *ckpt_plan_overflow_at(const ckpt_plan *plan, size_t index)
{
    return plan && index < plan->report.noverflowed ? &plan->report.overflowed[index] : NULL;
}

ckpt_status ckpt_match_apply(ckpt_match *match, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, match && !match->is_applied);
    ckpt_match_counts after = {0};
    ckpt_str rules;
    CKPT_TRY(match_join_rules(match, &rules, err));
    CKPT_TRY(ckpt_plan_edit(match->p, rules.ptr, NULL, err));
    CKPT_TRY(match_list_differences(match, &after, err));
    match->after = after;
    match->is_applied = true;
    return CKPT_OK;
}

/* build_adapter - makes extraction->adapter, the file of the tensors, and its plan. */
static ckpt_status build_adapter(ckpt_extraction *extraction, ckpt_error *err)
{
    ckpt_builder *builder;
    CKPT_TRY(ckpt_builder_new("the adapter", &builder, err));
    ckpt_status st = ckpt_builder_add_metadata(builder, "format", "pt", err);
    for (size_t i = 0; st == CKPT_OK && i < extraction->ntensors; i++) {
        const struct extract_tensor *made = &extraction->tensors[i];
        const ckpt_builder_tensor tensor = {
            .struct_size = sizeof tensor, .dtype = made->dtype, .shape = made->shape, .ndim = made->ndim};
        st = strlen(made->name.ptr) == made->name.len
                 ? builder_add_source(builder, made->name.ptr, &tensor, made->src, err)
                 : fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "the name \"%.*s\" has a byte 0",
                        STR_ARG(made->name));
    }
    if (st == CKPT_OK)
        st = ckpt_builder_finish(builder, &extraction->adapter, err);
    else
        ckpt_builder_free(builder);
    CKPT_THEN(st, ckpt_plan_new(extraction->adapter, &extraction->p, err));
    return st;
}

ckpt_status ckpt_extract_lora(ckpt_plan *base, ckpt_plan *tuned, const ckpt_extract_options *opts,
                              ckpt_extraction **out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_extract_options o;
    CKPT_REQUIRE(err, out);
    *out = NULL;
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    o.dtype = o.dtype ? o.dtype : CKPT_DT_F32;
    CKPT_REQUIRE(err, base && tuned && o.rank && o.others <= CKPT_OTHERS_SAVE);
    CKPT_REQUIRE(err, o.dtype < DTYPE_COUNT && dtype_info((ckpt_dtype)o.dtype)->klass == 'f' &&
                          computed_has_dtype((ckpt_dtype)o.dtype));
    CKPT_REQUIRE(err, has_no_null(o.only, o.nonly) && has_no_null(o.embeddings, o.nembeddings));
    arena *a = arena_new(UINT64_MAX);
    ckpt_extraction *made = a ? ARENA_NEW(a, ckpt_extraction) : NULL;
    if (!made) {
        arena_free(a);
        return fail_memory(err);
    }
    *made = (ckpt_extraction){.a = a, .base = base, .tuned = tuned, .opts = &o};
    ckpt_status st = extract_lora(made, err);
    CKPT_THEN(st, build_adapter(made, err));
    made->opts = NULL;
    if (st == CKPT_OK || (st == CKPT_ELOSSY && made->nlist))
        *out = made;
    else
        ckpt_extraction_free(made);
    return name_file_if_failed(st, tuned->file->path, err);
}

void ckpt_extraction_free(ckpt_extraction *extraction)
{
    if (!extraction)
        return;
    ckpt_plan_free(extraction->p);
    ckpt_close(extraction->adapter);
    extract_free(extraction);
    arena_free(extraction->a);
}

const ckpt_extracted *ckpt_extracted_at(const ckpt_extraction *extraction, size_t index)
{
    return extraction && index < extraction->nlist ? &extraction->list[index]->report : NULL;
}

uint64_t ckpt_extraction_unchanged(const ckpt_extraction *extraction)
{
    uint64_t unchanged = 0;
    for (size_t i = 0; extraction && i < extraction->nitems; i++)
        unchanged += !extraction->items[i].differs;
    return unchanged;
}

ckpt_plan *ckpt_extraction_plan(ckpt_extraction *extraction) { return extraction ? extraction->p : NULL; }

ckpt_str ckpt_extraction_config(const ckpt_extraction *extraction)
{
    return extraction && extraction->config.ptr ? extraction->config : str_of("", 0);
}

static ckpt_status write_one_file(ckpt_plan *p, const struct format *format, const struct write_job *job,
                                  ckpt_error *err)
{
    if (job->path)
        CKPT_TRY(own_files_check_output(p->file, job->path, true, err));
    if (job->opts->dry_run && job->path)
        CKPT_TRY(sink_file_check(job->path, job->opts->force, err));
    if (job->path && job->opts->force && !p->file->salvage) {
        CKPT_TRY(plan_update_entries(p, err));
        CKPT_TRY(shards_check_index(p, job->path, err));
    }
    if (job->layout)
        CKPT_TRY(format_check_lays_out(format, err));
    CKPT_TRY(format->write(p, job, err));
    if (job->path)
        shards_warn_if_incomplete(p, job->path);
    if (p->report.noutputs == 1 && strcmp(job->path, "-") != 0)
        shards_warn_of_old_index(p, p->report.outputs[0]);
    return CKPT_OK;
}

/* write_plan - writes P in format FORMAT to the output of JOB. */
static ckpt_status write_plan(ckpt_plan *p, const struct format *format, const struct write_job *job,
                              ckpt_error *err)
{
    p->report.ndropped = p->report.naliases = p->report.noutputs = p->report.ncasts = 0;
    ckpt_status st = file_check_unchanged(p->file, err);
    if (plan_root_is_module(p))
        plan_note_module(p);
    cast_notice_skipped(p);
    if (st == CKPT_OK && job->opts->strict && p->file->leaves_out)
        st = fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                  "a part of the files was not read, which --strict refuses\n"
                  "a notice names it; without --strict the rest is written");
    if (st == CKPT_OK && job->opts->strict)
        st = sanitize_strict(p, err);
    if (st == CKPT_OK && job->opts->strict)
        st = cast_strict(p, err);
    CKPT_THEN(st, edit_check_scales(p, err));
    if (st == CKPT_OK && !format->flat)
        st = rows_note_lost_attributes(p, job->opts->strict, err);
    CKPT_THEN(st, plan_drop_description(p, job->opts->strict, err));
    CKPT_THEN(st, salvage_leave_out_unfit(p, format, err));
    if (st == CKPT_OK && shards_are_wanted(p, job))
        st = shards_write(p, format, job, err);
    else if (st == CKPT_OK)
        st = write_one_file(p, format, job, err);
    if (st != CKPT_OK)
        st = file_status_after_read(p->file, st, err);
    return name_file_if_failed(st, p->file->path, err);
}

/* check_part_options - refuses options that do not go with a part of an output. */
static ckpt_status check_part_options(const ckpt_plan *p, const struct write_job *job, ckpt_error *err)
{
    const ckpt_write_options *o = job->opts;
    CKPT_REQUIRE(err, o->part < o->parts && o->parts <= PART_MAX);
    if (!job->path || strcmp(job->path, "-") == 0)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a part is written to a path");
    if (o->force)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "a part cannot replace an output\nremove the output before, and leave out -f");
    if (p->file->src && !p->file->archive && !source_is_named_file(p->file->src))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "each part reads the input, which must be a file\nsave standard input to a file first");
    return CKPT_OK;
}

/* lay_out_parts - has the writer of FORMAT lay out the output of JOB for PLAN. */
static ckpt_status lay_out_parts(struct part_plan *plan, ckpt_plan *p, const struct format *format,
                                 const struct write_job *job, ckpt_error *err)
{
    ckpt_write_options o = *job->opts;
    struct write_job layout_job = *job;
    o.dry_run = 1;
    layout_job.opts = &o;
    layout_job.layout = part_plan_layout(plan);
    CKPT_TRY(write_plan(p, format, &layout_job, err));
    return own_files_visit(p->file, part_plan_add_input, plan, err);
}

/* write_part - writes one part of the output of JOB. */
static ckpt_status write_part(ckpt_plan *p, const struct format *format, const struct write_job *job,
                              ckpt_error *err)
{
    struct part_plan *plan = NULL;
    CKPT_TRY(check_part_options(p, job, err));
    ckpt_status st = part_plan_new(p, job->opts, &plan, err);
    CKPT_THEN(st, lay_out_parts(plan, p, format, job, err));
    if (st == CKPT_EEXIST && strcmp(err->hint, "use -f to replace it") == 0)
        error_replace_hint(err, "parts replace no output: remove it first");
    CKPT_THEN(st, part_plan_write(plan, job->result, err));
    part_plan_free(plan);
    if (st != CKPT_OK)
        st = file_status_after_read(p->file, st, err);
    return name_file_if_failed(st, p->file->path, err);
}

/* write_with_options - writes P to the output of JOB, with the options GIVEN. OUT is empty, or NULL. */
static ckpt_status write_with_options(ckpt_plan *p, const struct write_job *given_job,
                                      const ckpt_write_options *given, ckpt_write_result *out,
                                      ckpt_error *err)
{
    ckpt_write_options o;
    struct write_job own_job = *given_job, *job = &own_job;
    const struct format *f;
    ckpt_write_result result = {0};
    CKPT_TRY(sized_struct_copy_in(given, &o, sizeof o, err));
    CKPT_REQUIRE(err, p && o.ties <= CKPT_TIES_ERROR);
    if (o.max_shard && !job->path)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a set of shards is written to a path");
    CKPT_TRY(format_target(p, job->path, o.format, &f, err));
    if (o.compress && !f->compresses)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "{%s} is not written compressed, only {=npz} is",
                    f->name);
    job->opts = &o;
    job->result = &result;
    if (!o.parts && !o.force && job->path && strcmp(job->path, "-") != 0)
        CKPT_TRY(part_works_refuse(job->path, p->a, err));
    CKPT_TRY(o.parts ? write_part(p, f, job, err) : write_plan(p, f, job, err));
    plan_list_overflowed(p);
    result.format = f->name;
    result.outputs = p->report.outputs;
    result.noutputs = p->report.noutputs;
    result.ndropped = p->report.ndropped;
    result.naliases = p->report.naliases;
    result.ncasts = p->report.ncasts;
    if (out)
        sized_struct_copy_out(out, &result, sizeof result);
    return CKPT_OK;
}

ckpt_status ckpt_plan_write(ckpt_plan *plan, const char *path, const ckpt_write_options *opts,
                            ckpt_write_result *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct write_job job = {.path = path};
    CKPT_TRY(out ? sized_struct_clear(out, err) : CKPT_OK);
    CKPT_REQUIRE(err, path);
    return write_with_options(plan, &job, opts, out, err);
}

ckpt_status ckpt_plan_write_fd(ckpt_plan *plan, int fd, const ckpt_write_options *opts,
                               ckpt_write_result *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct write_job job = {.fd = fd};
    CKPT_TRY(out ? sized_struct_clear(out, err) : CKPT_OK);
    CKPT_REQUIRE(err, fd >= 0);
    return write_with_options(plan, &job, opts, out, err);
}

/* check_adapter_folder - refuses PATH for the folder of EXTRACTION if one of its models is in it. */
static ckpt_status check_adapter_folder(const ckpt_extraction *extraction, const char *path, ckpt_error *err)
{
    const char *name = ARENA_CONCAT(extraction->p->a, str_c(path), STR_LIT("/adapter_model.safetensors")).ptr;
    CKPT_TRY_ALLOC(name, err);
    CKPT_TRY(own_files_check_output(extraction->base->file, name, false, err));
    return own_files_check_output(extraction->tuned->file, name, false, err);
}

ckpt_status ckpt_extraction_write(ckpt_extraction *extraction, const char *path,
                                  const ckpt_write_options *opts, ckpt_write_result *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_write_options o;
    ckpt_write_result result = {0};
    CKPT_TRY(out ? sized_struct_clear(out, err) : CKPT_OK);
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, extraction && extraction->p && path);
    const struct write_job job = {.path = path, .opts = &o, .result = &result};
    struct plan_report *report = &extraction->p->report;
    report->ndropped = report->naliases = report->noutputs = report->ncasts = 0;
    CKPT_TRY(check_adapter_folder(extraction, path, err));
    const struct peft_adapter adapter = {extraction->p, extraction->config, extraction->tuned->file};
    CKPT_TRY(peft_write(&adapter, &job, err));
    result.format = "peft";
    result.outputs = report->outputs;
    result.noutputs = report->noutputs;
    if (out)
        sized_struct_copy_out(out, &result, sizeof result);
    return CKPT_OK;
}

ckpt_status ckpt_plan_write_memory(ckpt_plan *plan, const ckpt_write_options *opts, void **bytes,
                                   size_t *nbytes, ckpt_write_result *out, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct sink_bytes made = {NULL, 0};
    struct write_job job = {.memory = &made};
    if (bytes)
        *bytes = NULL;
    if (nbytes)
        *nbytes = 0;
    CKPT_TRY(out ? sized_struct_clear(out, err) : CKPT_OK);
    CKPT_REQUIRE(err, bytes && nbytes);
    CKPT_TRY(write_with_options(plan, &job, opts, out, err));
    *bytes = made.data;
    *nbytes = made.n;
    return CKPT_OK;
}

void ckpt_free(void *bytes) { free(bytes); }

ckpt_status ckpt_table_json(const ckpt_file *file, const ckpt_table_json_options *opts, char **text,
                            size_t *len, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct table_json json = {.f = file};
    if (text)
        *text = NULL;
    if (len)
        *len = 0;
    CKPT_REQUIRE(err, file && text && len);
    CKPT_TRY(sized_struct_copy_in(opts, &json.o, sizeof json.o, err));
    CKPT_REQUIRE(err, json.o.rows || !json.o.nrows);
    json.format = file->format->name;
    return name_file_if_failed(table_json(&json, text, len, err), file->path, err);
}

/* find_write_format - returns the format NAME, which may be NULL, if it can be written; else NULL. */
static const struct format *find_write_format(const char *name)
{
    const struct format *f = name ? format_by_name(name) : NULL;
    return f && f->write ? f : NULL;
}

const char *ckpt_write_format(const char *path_or_name)
{
    const struct format *f = find_write_format(path_or_name);
    if (path_or_name && !f)
        f = format_by_suffix(path_or_name);
    return f ? f->name : NULL;
}

const char *ckpt_write_format_at(size_t index) { return format_written_at(index); }

const char *ckpt_write_format_suffixes(const char *name)
{
    const struct format *f = find_write_format(name);
    return f ? f->suffixes : NULL;
}

bool ckpt_write_format_is_flat(const char *name)
{
    const struct format *f = find_write_format(name);
    return f && f->flat;
}

bool ckpt_write_format_is_folder(const char *name)
{
    const struct format *f = find_write_format(name);
    return f && f->is_folder;
}

bool ckpt_scan_preload(void)
{
    ckpt_error ignored;
    uint8_t unused[CKPT_DIGEST_MAX]; /* the first digest loads parts of libcrypto */
    bool has_sha256 = names_sha256(unused, &ignored) == CKPT_OK, has_libzip = inflater_available();
    bool has_libarchive = unpack_archive_available();
    return has_sha256 && has_libzip && has_libarchive;
}

ckpt_status ckpt_scan_lists(uint8_t out[CKPT_DIGEST_MAX], ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    CKPT_REQUIRE(err, out);
    memset(out, 0, CKPT_DIGEST_MAX);
    return names_sha256(out, err);
}

ckpt_status ckpt_verify(const char *path, const ckpt_verify_options *opts,
                        int (*report)(void *user, const ckpt_finding *), void *user,
                        ckpt_verify_result *result, ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    struct check c;
    ckpt_file *f = NULL;
    ckpt_verify_options o;
    ckpt_work how;
    ckpt_verify_result found;
    CKPT_TRY(sized_struct_clear(result, err));
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_TRY(sized_struct_copy_in(o.how, &how, sizeof how, err));
    CKPT_REQUIRE(err, path && has_no_null(o.globs, o.nglobs) && o.algorithm <= CKPT_XXH3);
    o.how = &how;
    ckpt_status st = check_init(&c, &o, &found, err);
    c.report = report;
    c.user = user;
    CKPT_THEN(st, format_verify(path, &c, &f, err));
    if (st == CKPT_OK && f)
        f->ignore_case = o.ignore_case;
    if (st == CKPT_OK && f && (o.root || o.nglobs))
        st = ckpt_file_narrow(f, o.root, o.globs, o.nglobs, err);
    if (st == CKPT_OK && f && o.nglobs && !f->table.nrows && !o.allow_none)
        st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET, "no tensor matches");
    if (st == CKPT_OK && f)
        c.result->tensors = f->table.nrows;
    c.result->unread = ckpt_file_count_unread(f, NULL);
    if (st == CKPT_OK && f && o.write_manifest)
        st = own_files_check_output(f, o.write_manifest, false, err);
    CKPT_THEN(st, verify_data(&c, f, err));
    if (st == CKPT_OK)
        sized_struct_copy_out(result, &found, sizeof found);
    file_free(f);
    check_free(&c);
    return name_file_if_failed(st, path, err);
}
