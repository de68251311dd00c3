/*
 * export.c - torch.export's .pt2: a traced graph, and its weights.
 *
 * Up to 2.7, a zip of torch.save archives, without a folder:
 *   serialized_state_dict.pt, serialized_constants.pt,
 *   serialized_exported_program.json, serialized_example_inputs.pt, version
 * 2.8:
 *   <top>/archive_format                "pt2"
 *   <top>/data/weights/model.pt         torch.save archive of the state dict
 *   <top>/data/constants/model.pt       torch.save archive of the constants
 * From 2.9 on:
 *   <top>/archive_format                "pt2"
 *   <top>/data/weights/weight_<n>       one storage each
 *   <top>/data/weights/model_weights_config.json
 *   <top>/data/constants/tensor_<n>, model_constants_config.json
 * where a config has, for each name, {"path_name", "is_param", "use_pickle",
 * "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 2}], "strides", "storage_offset",
 * "requires_grad", "device"}}; if use_pickle is true, the record is a torch.save archive.
 * Source: torch/export/pt2_archive/_package.py, torch/_export/serde/schema.py.
 *
 * The tensors are listed below "state_dict" and "constants". The graph (models/model.json) is not
 * read, and no compiled code is loaded: an AOTInductor package, which has data/aotinductor/<model>/… and no
 * such config, is refused.
 */
#include "codec/json_scan.h"
#include "core/check.h"
#include "format/torch/archive.h"

#define OLD_STATE_DICT "serialized_state_dict.pt" /* up to 2.7 */
#define INDUCTOR       "data/aotinductor/"

/* The state dict or the constants, while they are read. */
struct section {
    struct torch_archive *ta;
    const char *name;   /* "state_dict" */
    const char *folder; /* "data/weights/" */
    struct kit *root;   /* adds NAME to the root */
    struct kit k;       /* adds the tensors to NAME */
    json_scan j;
    ckpt_error *err;
};

/* One tensor in a config. */
struct weight {
    ckpt_tensor t;
    ckpt_str record;
    uint32_t nsizes, nstrides;
    const uint64_t *strides;
    bool is_pickled, has_meta;
};

#define NMARKS 6u

/* is_mark - returns true if NAME, a record without its folder, is the WHICH-th of those that show a .pt2. */
static bool is_mark(ckpt_str name, size_t which)
{
    static const char *const folders[NMARKS] = {"data/weights/", "data/constants/", "data/sample_inputs/",
                                                "models/",       INDUCTOR,          NULL};
    return folders[which] ? str_starts(name, str_c(folders[which])) : str_is(name, "archive_format");
}

/* is_top_folder - returns true if the folder of entry INDEX has archive_format and one more mark, or three
 * other marks: if one is lost, the file is not taken for something else. Sets *TOP to the folder. */
static bool is_top_folder(const zip *archive, size_t index, ckpt_str *top)
{
    size_t slash = str_find(archive->entries[index].name, STR_LIT("/"), 0), weight = 0;
    bool found[NMARKS] = {false};
    if (slash == SIZE_MAX)
        return false;
    *top = str_of(archive->entries[index].name.ptr, slash + 1);
    for (size_t e = 0; e < archive->n; e++) {
        ckpt_str name = str_skip(archive->entries[e].name, top->len);
        /* most names are data/0, data/1 … */
        bool is_storage = name.len > 5 && name.ptr[4] == '/' && str_digit(name.ptr[5]) < 10;
        for (size_t k = 0; k < NMARKS && !is_storage && str_starts(archive->entries[e].name, *top); k++)
            found[k] = found[k] || is_mark(name, k);
    }
    for (size_t k = 0; k < NMARKS; k++)
        weight += found[k] ? (k + 1 == NMARKS ? 2 : 1) : 0;
    return weight >= 3;
}

/* find_top_folder - sets *TOP to the folder of a .pt2; false: ARCHIVE is none. If the first name is damaged,
 * the last one still has the folder. */
static bool find_top_folder(const zip *archive, ckpt_str *top)
{
    *top = str_of("", 0);
    if (!archive->n || is_top_folder(archive, 0, top))
        return archive->n > 0;
    bool same_folder = top->len && str_starts(archive->entries[archive->n - 1].name, *top);
    return !same_folder && is_top_folder(archive, archive->n - 1, top);
}

/* is_old_archive - returns true if ARCHIVE has two of the records of torch up to 2.7. */
static bool is_old_archive(const zip *archive)
{
    static const char *const names[] = {OLD_STATE_DICT, "serialized_constants.pt",
                                        "serialized_exported_program.json", "serialized_example_inputs.pt"};
    size_t nfound = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        nfound += zip_find(archive, str_c(names[i])) >= 0;
    return nfound >= 2;
}

static bool probe_export(const struct probe *probe)
{
    ckpt_str top;
    return probe->zip && (is_old_archive(probe->zip) || find_top_folder(probe->zip, &top));
}

/* ------------------------------------------------------------------- config */

/* get_dtype_by_code - returns the dtype of CODE, a ScalarType of torch/_export/serde/schema.py. */
static ckpt_dtype get_dtype_by_code(uint64_t code)
{
    static const uint8_t dtypes[] = {
        [1] = CKPT_DT_U8,       [2] = CKPT_DT_I8,           [3] = CKPT_DT_I16,
        [4] = CKPT_DT_I32,      [5] = CKPT_DT_I64,          [6] = CKPT_DT_F16,
        [7] = CKPT_DT_F32,      [8] = CKPT_DT_F64,          [9] = CKPT_DT_C32,
        [10] = CKPT_DT_C64,     [11] = CKPT_DT_C128,        [12] = CKPT_DT_BOOL,
        [13] = CKPT_DT_BF16,    [28] = CKPT_DT_U16,         [29] = CKPT_DT_F8_E4M3,
        [30] = CKPT_DT_F8_E5M2, [31] = CKPT_DT_F8_E4M3FNUZ, [32] = CKPT_DT_F8_E5M2FNUZ,
        [33] = CKPT_DT_F8_E8M0, [34] = CKPT_DT_U32,         [35] = CKPT_DT_U64};
    return code < sizeof dtypes ? (ckpt_dtype)dtypes[code] : CKPT_DT_NONE;
}

/* read_int - reads n or {"as_int": n}. A symbolic size is refused: stored tensors have none. */
static ckpt_status read_int(json_scan *scan, enum json_event event, uint64_t *out)
{
    bool has_int = false;
    if (event == JSON_NUMBER && json_get_uint(scan, out))
        return CKPT_OK;
    if (event != JSON_OBJECT)
        return json_unexpected(scan, event, "a size, stride or offset", "{\"as_int\": n}");
    while ((event = json_next(scan)) == JSON_KEY) {
        bool as_int = str_is(scan->str, "as_int");
        event = json_next(scan);
        if (as_int && (event != JSON_NUMBER || !json_get_uint(scan, out)))
            return json_unexpected(scan, event, "a size, stride or offset", "a number >= 0");
        has_int = has_int || as_int;
        if (!as_int)
            CKPT_TRY(json_skip(scan, event));
    }
    CKPT_TRY(json_check_end(scan, event, JSON_OBJECT_END));
    return has_int ? CKPT_OK
                   : json_fail(scan, "a size, stride or offset must have {=\"as_int\"}, which it {lacks}");
}

static ckpt_status read_meta_key(struct section *section, struct weight *weight)
{
    uint64_t code = 0;
    ckpt_str key = section->j.str;
    if (str_is(key, "sizes"))
        return json_read_list(&section->j, "sizes and strides", read_int, &weight->nsizes, &weight->t.shape);
    if (str_is(key, "strides"))
        return json_read_list(&section->j, "sizes and strides", read_int, &weight->nstrides,
                              &weight->strides);
    if (str_is(key, "device"))
        return json_read_member(&section->j, "device", "type", &weight->t.location);
    enum json_event e = json_next(&section->j);
    if (str_is(key, "storage_offset"))
        return read_int(&section->j, e, &weight->t.storage_offset);
    if (str_is(key, "requires_grad"))
        weight->t.requires_grad = e == JSON_TRUE;
    if (str_is(key, "dtype")) {
        bool is_code = e == JSON_NUMBER && json_get_uint(&section->j, &code);
        weight->t.dtype = is_code ? (uint16_t)get_dtype_by_code(code) : CKPT_DT_NONE;
        if (weight->t.dtype == CKPT_DT_NONE)
            return json_unexpected(&section->j, e, "dtype", "the number of a known torch.ScalarType");
        return CKPT_OK;
    }
    return json_skip(&section->j, e);
}

static ckpt_status read_meta(struct section *section, struct weight *weight, enum json_event event)
{
    if (event == JSON_NULL)
        return CKPT_OK;
    if (event != JSON_OBJECT)
        return json_unexpected(&section->j, event, "tensor_meta", "an object");
    while ((event = json_next(&section->j)) == JSON_KEY)
        CKPT_TRY(read_meta_key(section, weight));
    CKPT_TRY(json_check_end(&section->j, event, JSON_OBJECT_END));
    weight->has_meta = weight->t.shape && weight->strides && weight->nsizes == weight->nstrides &&
                       weight->t.dtype;
    weight->t.ndim = weight->nsizes;
    weight->t.stride = weight->strides;
    return weight->has_meta
               ? CKPT_OK
               : json_fail(
                     &section->j,
                     "tensor_meta has {%u sizes, %u strides}; it needs {=a dtype, as many strides as sizes}",
                     weight->nsizes, weight->nstrides);
}

static ckpt_status read_weight_key(struct section *section, struct weight *weight)
{
    ckpt_str key = section->j.str;
    enum json_event e = json_next(&section->j);
    if (str_is(key, "tensor_meta"))
        return read_meta(section, weight, e);
    if (str_is(key, "path_name") && e == JSON_STRING)
        weight->record = section->j.str;
    if (str_is(key, "is_param"))
        weight->t.parameter = e == JSON_TRUE;
    if (str_is(key, "use_pickle"))
        weight->is_pickled = e == JSON_TRUE;
    return json_skip(&section->j, e);
}

static ckpt_status read_weight(struct section *section, ckpt_str name)
{
    enum json_event e;
    struct weight w = {.record = {NULL, 0}};
    CKPT_TRY(json_expect(&section->j, JSON_OBJECT, "a weight", "an object"));
    while ((e = json_next(&section->j)) == JSON_KEY)
        CKPT_TRY(read_weight_key(section, &w));
    CKPT_TRY(json_check_end(&section->j, e, JSON_OBJECT_END));
    if (!w.record.ptr || !(w.has_meta || w.is_pickled))
        return json_fail(&section->j, "\"%.*s\" {lacks} {=path_name or tensor_meta}", STR_ARG(name));
    ckpt_str record = ARENA_CONCAT(section->ta->f->a, str_c(section->folder), w.record);
    CKPT_TRY_ALLOC(record.ptr, section->err);
    if (w.is_pickled)
        return torch_embed_archive(section->ta, record.ptr, section->k.mapping, section->k.path,
                                   section->k.steps, 1, name, section->err);
    return torch_archive_add_tensor(section->ta, &section->k, name, record.ptr, &w.t);
}

static ckpt_status read_config(struct section *section)
{
    enum json_event e;
    CKPT_TRY(json_expect(&section->j, JSON_OBJECT, "the text", "an object"));
    while ((e = json_next(&section->j)) == JSON_KEY) {
        if (!str_is(section->j.str, "config")) {
            CKPT_TRY(json_skip(&section->j, json_next(&section->j)));
            continue;
        }
        CKPT_TRY(json_expect(&section->j, JSON_OBJECT, "config", "an object"));
        while ((e = json_next(&section->j)) == JSON_KEY)
            CKPT_TRY(read_weight(section, section->j.str));
        CKPT_TRY(json_check_end(&section->j, e, JSON_OBJECT_END));
    }
    CKPT_TRY(json_check_end(&section->j, e, JSON_OBJECT_END));
    return json_check_end(&section->j, json_next(&section->j), JSON_END);
}

static int64_t find_config(const struct section *section)
{
    for (size_t i = 0; i < section->ta->z->n; i++) {
        ckpt_str name = section->ta->z->entries[i].name;
        if (str_starts(name, section->ta->top) &&
            str_starts(str_skip(name, section->ta->top.len), str_c(section->folder)) &&
            str_ends(name, STR_LIT("_config.json")))
            return (int64_t)i;
    }
    return -1;
}

static ckpt_status read_section_config(struct section *section, size_t index)
{
    ckpt_str text;
    ckpt_file *f = section->ta->f;
    file_raise_budget(f, section->ta->z->entries[index].usize);
    CKPT_TRY(zip_load_member(section->ta->z, index, f->limits.max_header, &text, section->err));
    CKPT_TRY(kit_begin_mapping(&section->k, section->root, str_c(section->name)));
    json_init(&section->j, text, torch_archive_payload_offset(section->ta, index), f->a, section->err);
    ckpt_status st = kit_end(&section->k, read_config(section));
    if (st != CKPT_OK)
        torch_archive_add_context(section->ta, index, section->err);
    return st;
}

/* require_record - fails, or in salvage notes as lost, if record NAME is missing. */
static ckpt_status require_record(struct torch_archive *ta, const char *name, const char *what,
                                  ckpt_error *err)
{
    size_t unused;
    ckpt_status st = torch_archive_require(ta, name, &unused, err);
    return file_report_lost(ta->f, prefix_where_if_failed(st, str_c(what), err), str_c(what), err);
}

/* report_lost_section - fails if SECTION must be there: up to 2.7 the state dict, later what has records. */
static ckpt_status report_lost_section(struct section *section, const char *record)
{
    bool is_old_state = strcmp(record, OLD_STATE_DICT) == 0;
    if (!is_old_state && !torch_has_folder(section->ta->z, section->ta->top, section->folder))
        return CKPT_OK;
    ckpt_str config = ARENA_CONCAT(section->ta->f->a, str_c(section->folder), STR_LIT("NAME_config.json"));
    CKPT_TRY_ALLOC(config.ptr, section->err);
    return require_record(section->ta, is_old_state ? record : config.ptr, section->name, section->err);
}

static ckpt_status read_section(struct torch_archive *ta, struct kit *root, const char *name,
                                const char *folder, const char *record)
{
    struct section s = {.ta = ta, .root = root, .name = name, .folder = folder, .err = root->err};
    int64_t config_entry = find_config(&s);
    if (config_entry >= 0)
        return read_section_config(&s, (size_t)config_entry);
    if (!torch_archive_has(ta, record))
        return report_lost_section(&s, record);
    return torch_embed_archive(ta, record, root->mapping, NULL, NULL, 0, str_c(name), root->err);
}

/* require_records - fails if a record is missing without which torch.export.load refuses the archive. */
static ckpt_status require_records(struct torch_archive *ta, bool is_old, ckpt_error *err)
{
    if (is_old)
        return require_record(ta, "serialized_exported_program.json", "the graph", err);
    CKPT_TRY(require_record(ta, "archive_format", "archive_format", err));
    if (torch_has_folder(ta->z, ta->top, "models/") || torch_has_folder(ta->z, ta->top, INDUCTOR))
        return CKPT_OK;
    return require_record(ta, "models/NAME.json", "the graph", err);
}

static ckpt_status read_sections(struct torch_archive *ta, struct kit *root, bool is_old)
{
    CKPT_TRY(read_section(ta, root, "state_dict", "data/weights/",
                          is_old ? OLD_STATE_DICT : "data/weights/model.pt"));
    CKPT_TRY(read_section(ta, root, "constants", "data/constants/",
                          is_old ? "serialized_constants.pt" : "data/constants/model.pt"));
    if (value_count(root->mapping))
        return CKPT_OK;
    if (torch_has_folder(ta->z, ta->top, INDUCTOR))
        return fail(root->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "an AOTInductor package: compiled code, and weights that only it reads\n"
                    "read the checkpoint that the model was made from; `ckpt scan` lists the code");
    return fail(root->err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "this torch.export archive holds no weights\n"
                "read the checkpoint that the program gets them from; `ckpt scan` reads the program");
}

static ckpt_status read_export(ckpt_file *f, ckpt_error *err)
{
    ckpt_str top = {"", 0};
    struct torch_archive *ta;
    struct kit root;
    bool is_old = is_old_archive(f->opening->probe->zip);
    if (!is_old)
        (void)find_top_folder(f->opening->probe->zip, &top);
    CKPT_TRY(torch_archive_new(f, top, &ta, err));
    CKPT_TRY(torch_archive_read_byteorder(ta, err));
    f->producer = is_old ? STR_LIT("torch.export, to 2.7") : STR_LIT("torch.export >= 2.8");
    CKPT_TRY(kit_begin(&root, f, value_new(f->a, CKPT_V_DICT, 0), err));
    ckpt_status st = require_records(ta, is_old, err);
    return kit_end(&root, st == CKPT_OK ? read_sections(ta, &root, is_old) : st);
}

const struct format format_torch_export = {
    .name = "torch-export",
    .title = "torch export",
    .probe = probe_export,
    .read = read_export,
};
