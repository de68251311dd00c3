/* loading.c - diagnoses for `ckpt doctor`: why torch.load, load_state_dict or a loader that chooses
 * the format by the suffix refuses an intact file. */
#include <stdio.h>

#include "base/text.h"
#include "codec/pickle_ops.h"
#include "core/python2.h"
#include "doctor/doctor.h"
#include "format/registry.h"
#include "op/weights_only.h"

static const ckpt_fix sanitize = {.action = CKPT_FIX_SANITIZE}, convert = {.action = CKPT_FIX_CONVERT};

/* find_import - returns the first imported module that begins with PREFIX, and sets *NAME; empty: none. */
static ckpt_str find_import(const ckpt_file *f, const char *prefix, ckpt_str *name)
{
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->nglobals; k++) {
            const ckpt_value *g = f->pickles[i]->globals[k];
            if (str_starts(value_module(g), str_c(prefix))) {
                *name = value_name(g);
                return value_module(g);
            }
        }
    return str_of("", 0);
}

static ckpt_status check_numpy(struct doctor *doctor, ckpt_error *err)
{
    struct diagnosis diagnosis = {.id = "numpy-names", .fix = sanitize};
    ckpt_str name, module = find_import(doctor->f, "numpy._core", &name);
    if (module.len)
        return doctor_report(
            doctor, &diagnosis, err,
            "saved with numpy 2: numpy 1 fails with No module named 'numpy._core' (imported: "
            "%.*s.%.*s)",
            STR_ARG(module), STR_ARG(name));
    module = find_import(doctor->f, "numpy.core", &name);
    if (!module.len)
        return CKPT_OK;
    diagnosis.is_note = true;
    return doctor_report(doctor, &diagnosis, err,
                         "saved with numpy 1 (%.*s.%.*s): numpy 2 warns that this name is deprecated",
                         STR_ARG(module), STR_ARG(name));
}

/* has_only_allowed_imports - returns true if weights_only allows all imports of F. */
static bool has_only_allowed_imports(const ckpt_file *f)
{
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->nglobals; k++) {
            const ckpt_value *g = f->pickles[i]->globals[k];
            if (!weights_only_allows(value_module(g), value_name(g)))
                return false;
        }
    return true;
}

/* check_folder - reports a folder of torch.distributed.checkpoint, which torch.load does not read. */
static ckpt_status check_folder(struct doctor *doctor, ckpt_error *err)
{
    const struct diagnosis diagnosis = {
        .id = "dcp-folder", .fix = {.action = CKPT_FIX_CONVERT, .suffix = ".pt"}, .is_note = true};
    if (!doctor->f->format->is_folder)
        return CKPT_OK;
    return doctor_report(doctor, &diagnosis, err,
                         "torch.distributed.checkpoint loads %s folder, torch.load does not",
                         doctor->f->archive ? "the unpacked" : "this");
}

/* check_index - notes that a set of shards, which the folder shows, has no index. */
static ckpt_status check_index(struct doctor *doctor, ckpt_error *err)
{
    char word[SHELL_WORD_MAX], hint[SHELL_WORD_MAX + 64];
    if (doctor->f->format != format_by_name("hf-shards") || doctor->f->archive ||
        !source_is_folder(doctor->f->path))
        return CKPT_OK; /* with an index, that is the path */
    (void)snprintf(hint, sizeof hint, "ckpt convert %s -o DIR copies the set and writes an index",
                   doctor_path_word(doctor, word));
    const struct diagnosis diagnosis = {.id = "no-index", .hint = hint, .is_note = true};
    return doctor_report(doctor, &diagnosis, err,
                         "these shards have no index, without which transformers does not load them");
}

/* has_wide_integer - returns true if F has an integer of more than 255 bytes, which only LONG4 pushes. */
static bool has_wide_integer(const ckpt_file *f)
{
    for (size_t i = 0; i < f->npickles; i++)
        if (f->pickles[i]->first_use[PICKLE_LONG4] != UINT64_MAX)
            return true;
    return false;
}

static ckpt_status check_weights_only(struct doctor *doctor, ckpt_error *err)
{
    ckpt_file *f = doctor->f;
    struct weights_only loading;
    CKPT_TRY(weights_only_check(f, f->a, &loading, err));
    if (loading.verdict != 0)
        return CKPT_OK;
    char word[SHELL_WORD_MAX], hint[256];
    (void)snprintf(hint, sizeof hint,
                   "weights_only=False runs whatever the file holds; `ckpt scan %s` lists that",
                   doctor_path_word(doctor, word));
    struct diagnosis diagnosis = {.fix = convert, .hint = hint};
    const char *what = "torch.load(weights_only=True) refuses it";
    if (f->loading.refusal.len) {
        diagnosis.is_note = f->executes_code;
        diagnosis.id = diagnosis.is_note ? "torchscript" : "torch-refuses";
        what = diagnosis.is_note ? "torch.load does not read it" : "torch.load refuses it";
    } else if (loading.is_opcode) {
        diagnosis.id = "protocol";
        diagnosis.fix = has_only_allowed_imports(f) ? convert : sanitize;
        if (has_wide_integer(f)) /* it would be written by the same opcode */
            diagnosis.fix = (ckpt_fix){.action = 0};
        what = "torch.load(weights_only=True) refuses its pickle";
    } else {
        diagnosis.id = "weights-only";
        diagnosis.fix = sanitize;
    }
    return doctor_report(doctor, &diagnosis, err, "%s: %.*s", what, STR_ARG(loading.why));
}

static ckpt_status check_wrappers(struct doctor *doctor, ckpt_error *err)
{
    ckpt_info info = CKPT_INIT(ckpt_info);
    const struct diagnosis prefix_diagnosis = {.id = "prefix", .fix = {.action = CKPT_FIX_STRIP}};
    const struct diagnosis nested_diagnosis = {
        .id = "nested-weights", .fix = {.action = CKPT_FIX_CONVERT, .root = "auto"}, .is_note = true};
    const struct diagnosis adapter_diagnosis = {
        .id = "lora-adapter", .hint = "load it by the library that made it, such as peft", .is_note = true};
    CKPT_TRY(ckpt_inspect(doctor->f, &info, err));
    for (size_t i = 0; i < info.nwrappers; i++) {
        const ckpt_wrapper *w = ckpt_wrapper_at(doctor->f, i);
        if (!w->certain)
            continue;
        CKPT_TRY(doctor_report(
            doctor, &prefix_diagnosis, err,
            "%llu of %llu keys%s%.*s contain \"%.*s\", left by a wrapper: the bare model has no such keys",
            (unsigned long long)w->tensors, (unsigned long long)w->of, w->where.len ? " of " : "",
            STR_ARG(w->where), STR_ARG(w->prefix)));
        break;
    }
    if (info.adapter)
        CKPT_TRY(doctor_report(doctor, &adapter_diagnosis, err,
                               "LoRA weights for %llu module%s: the base model has no such keys",
                               (unsigned long long)info.adapter->modules,
                               info.adapter->modules == 1 ? "" : "s"));
    if (info.has_weights && info.weights_root.len)
        return doctor_report(doctor, &nested_diagnosis, err,
                             "the weights are below \"%.*s\": load_state_dict takes only that mapping",
                             STR_ARG(info.weights_root));
    return CKPT_OK;
}

/* get_storage_key - sets *KEY to the number in the name of RECORD, if RECORD is a storage. False: it is
 * none. */
static bool get_storage_key(const struct check_record *record, uint64_t *key)
{
    size_t at = str_find(record->name, STR_LIT("/data/"), 0);
    return at != SIZE_MAX && str_uint(str_skip(record->name, at + strlen("/data/")), key);
}

/* read_storage_alignment - returns the number in the record .storage_alignment; 0: there is none. */
static uint64_t read_storage_alignment(const struct check *check)
{
    ckpt_error ignored;
    char text[16] = "";
    uint64_t n = 0;
    for (size_t i = 0; i < check->nrecords; i++)
        if (str_ends(check->records[i].name, STR_LIT("/.storage_alignment")) &&
            check->records[i].src->size < sizeof text &&
            source_read(check->records[i].src, 0, text, (size_t)check->records[i].src->size, &ignored) ==
                CKPT_OK)
            return str_uint(str_c(text), &n) ? n : 0;
    return 0;
}

/* predict_offset - returns the offset at which torch expects the next storage (getRecordOffsetNoRead of
 * caffe2/serialize/inline_container.cc): after END, the end of a storage, come its data descriptor, a
 * local header, a name of NAME_LEN bytes and an extra field that aligns the data to ALIGN. 0: unknown,
 * because END is beyond 4 GiB, where other rules apply. */
static uint64_t predict_offset(uint64_t end, uint64_t name_len, uint64_t align)
{
    if (end > UINT32_MAX)
        return 0;
    uint64_t at = end + ZIP_DESCRIPTOR_SIZE + ZIP_LOCAL_SIZE + name_len + ZIP_PAD_FIELD;
    return at % align ? at + align - at % align : at;
}

/* check_offsets - reports a repacked archive that still has .format_version: with it, torch computes the
 * offsets of storages as if they were in the order of their numbers and aligned. */
static ckpt_status check_offsets(struct doctor *doctor, ckpt_error *err)
{
    const struct check *c = &doctor->check;
    const struct diagnosis diagnosis = {.id = "stale-format-version", .fix = convert};
    uint64_t align = read_storage_alignment(c), end = 0, next_key = 0, key;
    bool has_version = false;
    for (size_t i = 0; i < c->nrecords; i++)
        has_version |= str_ends(c->records[i].name, STR_LIT("/.format_version"));
    if (!has_version || !align || align > 1u << 20)
        return CKPT_OK;
    for (size_t i = 0; i < c->nrecords; i++) {
        const struct check_record *r = &c->records[i];
        if (!get_storage_key(r, &key))
            continue;
        if (key != next_key++ || r->file_offset == CKPT_NO_OFFSET || r->src->size == 0)
            return CKPT_OK; /* torch does not compute offsets in such archives */
        uint64_t expected = end ? predict_offset(end, r->name.len, align) : r->file_offset;
        if (expected && expected != r->file_offset)
            return doctor_report(doctor, &diagnosis, err,
                                 "repacked, but .format_version is still there: torch may look for %.*s at "
                                 "byte %llu, it is at %llu",
                                 STR_ARG(r->name), (unsigned long long)expected,
                                 (unsigned long long)r->file_offset);
        end = r->file_offset + r->src->size;
    }
    return CKPT_OK;
}

/* check_imports - reports the first import that is known to run code. */
static ckpt_status check_imports(struct doctor *doctor, ckpt_error *err)
{
    const ckpt_file *f = doctor->f;
    char word[SHELL_WORD_MAX], hint[256];
    (void)snprintf(hint, sizeof hint, "do not load it; `ckpt scan %s` lists what it would do",
                   doctor_path_word(doctor, word));
    const struct diagnosis diagnosis = {.id = "runs-code", .fix = sanitize, .hint = hint, .first = hint};
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->nglobals; k++) {
            const ckpt_value *g = f->pickles[i]->globals[k];
            ckpt_str module = value_module(g), name = value_name(g), new_module = module, new_name = name;
            (void)python2_translate(&new_module, &new_name);
            if (name_verdict(new_module, new_name) == CKPT_SCAN_KNOWN_EXEC)
                return doctor_report(doctor, &diagnosis, err, "loading it runs code: it imports %.*s.%.*s",
                                     STR_ARG(module), STR_ARG(name));
        }
    return CKPT_OK;
}

/* check_suffix - reports a suffix that belongs to the format of a different loader. Some formats use the same
 * suffix as torch. */
static ckpt_status check_suffix(struct doctor *doctor, ckpt_error *err)
{
    const ckpt_file *f = doctor->f;
    struct diagnosis diagnosis = {.id = "wrong-extension", .fix = convert};
    const struct format *format_of_name = doctor->is_folder ? NULL : format_by_suffix(doctor->path);
    const char *usual = f->format->suffixes;
    if (!format_of_name || format_of_name->flat == f->format->flat ||
        (usual && str_matches_word(str_c(doctor->path), usual, str_ends_any_case)))
        return CKPT_OK;
    if (format_of_name->flat && f->loading.by) {
        diagnosis.fix.suffix = ".safetensors";
        return doctor_report(
            doctor, &diagnosis, err, "named %s, but it is a %s: loaders that go by the name refuse it",
            strrchr(doctor->path, '.'), f->format->title); /* format_by_suffix found a suffix */
    }
    diagnosis.fix.format = format_of_name->name;
    return f->format->flat ? doctor_report(doctor, &diagnosis, err,
                                           "named like a torch file, but it is %s: torch.load refuses it",
                                           f->format->title)
                           : CKPT_OK;
}

ckpt_status doctor_report_refusals(struct doctor *doctor, ckpt_error *err)
{
    CKPT_TRY(check_suffix(doctor, err));
    CKPT_TRY(check_imports(doctor, err));
    CKPT_TRY(check_folder(doctor, err));
    CKPT_TRY(check_index(doctor, err));
    CKPT_TRY(check_weights_only(doctor, err));
    CKPT_TRY(check_numpy(doctor, err));
    CKPT_TRY(check_offsets(doctor, err));
    return check_wrappers(doctor, err);
}
