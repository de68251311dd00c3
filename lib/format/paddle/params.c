/*
 * params.c - reads parameters as Paddle's executor keeps them: .pdiparams of paddle.jit.save, and of fluid
 * __params__ and files with one variable each (paddle/phi/core/framework/dense_tensor_serialize.cc). Tensors
 * follow one after the other, each with
 *
 *   SIZE DESCRIPTION
 *   4    version: 0
 *   8    number of levels of its LoD; for each level its length in bytes (8), then that many bytes of offsets
 *   4    version of what follows: 0
 *   4    length of its description
 *   …    its description, a protobuf (framework.proto, TensorDesc): field 1 data type, field 2 sizes
 *   …    its values, row-major
 *
 * Numbers are little-endian. There are no names: the tensors are in the order of the sorted names of the
 * program's parameters (program.c). The program is next to the file: NAME.json, NAME.pdmodel or __model__.
 * One tensor without a program has the name of its file, as fluid writes it, unless that is NAME.pdiparams.
 *
 * A folder of fluid has __model__, and __params__ or for each parameter a file of the same name. Without
 * __model__, as fluid.io.save_persistables writes it, each file of the folder must be a variable.
 *
 * Refused: other versions and data types, a program with another number of parameters, several tensors
 * without a program (in salvage, their names are numbers).
 */
#include <inttypes.h>

#include "codec/protobuf.h"
#include "core/check.h"
#include "format/files/folder.h"
#include "format/kit.h"
#include "format/paddle/program.h"
#include "format/parts/part_files.h"

#define MODEL_NAME  "__model__"
#define PARAMS_NAME "__params__"

#define MAX_RANK   32u
#define MAX_LEVELS 64u
#define MAX_DESC   1024u /* bytes of a description: more than MAX_RANK sizes take */

struct params {
    ckpt_file *f;
    ckpt_error *err;
    reader reader;
    struct paddle_program names;
    const char *program; /* the file of the program, which has the names; NULL: there is none */
    const char *trusted; /* in a folder: the file that the user meant, part_file_add */
};

static ckpt_dtype find_dtype(uint64_t number)
{
    static const struct {
        uint8_t number;
        ckpt_dtype dtype;
    } types[] = {{0, CKPT_DT_BOOL},     {1, CKPT_DT_I16},     {2, CKPT_DT_I32},  {3, CKPT_DT_I64},
                 {4, CKPT_DT_F16},      {5, CKPT_DT_F32},     {6, CKPT_DT_F64},  {20, CKPT_DT_U8},
                 {21, CKPT_DT_I8},      {22, CKPT_DT_BF16},   {23, CKPT_DT_C64}, {24, CKPT_DT_C128},
                 {32, CKPT_DT_F8_E4M3}, {33, CKPT_DT_F8_E5M2}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number)
            return types[i].dtype;
    return CKPT_DT_NONE;
}

/* -------------------------------------------------------------------------- tensors */

/* read_desc - reads dtype and shape of TENSOR from DESC. SHAPE has room for MAX_RANK sizes. */
static ckpt_status read_desc(cursor desc, ckpt_tensor *tensor, uint64_t *shape, ckpt_error *err)
{
    struct proto_field field;
    uint64_t at = desc.pos, dtype = UINT64_MAX;
    *tensor = (ckpt_tensor){.shape = shape};
    while (proto_next(&desc, &field)) {
        bool packed = proto_is(&field, 2, PROTO_BYTES), single = proto_is(&field, 2, PROTO_VARINT);
        if (proto_is(&field, 1, PROTO_VARINT))
            dtype = field.value;
        else if (!packed && !single)
            desc.bad = true;
        /* one turn for each packed size, or one for an unpacked size */
        for (cursor sizes = field.bytes; !desc.bad && (single || (packed && sizes.left)); single = false) {
            uint64_t n = packed ? cursor_varint(&sizes) : field.value;
            if (sizes.bad || n > INT64_MAX || tensor->ndim == MAX_RANK)
                desc.bad = true;
            else
                shape[tensor->ndim++] = n;
        }
    }
    if (desc.bad || dtype == UINT64_MAX)
        return fail(err, CKPT_EFORMAT, at,
                    "a {malformed} description of a tensor; {=up to %u sizes} are allowed", MAX_RANK);
    tensor->dtype = (uint16_t)find_dtype(dtype);
    return tensor->dtype != CKPT_DT_NONE
               ? CKPT_OK
               : fail(err, CKPT_EUNSUPPORTED, at,
                      "the data type {%" PRIu64 "}; {=0 to 6, 20 to 24, 32, 33} are read", dtype);
}

/* read_header - reads the header at IN as the tensor *TENSOR of F; its values follow. SHAPE has room for
 * MAX_RANK sizes. */
static ckpt_status read_header(const ckpt_file *f, reader *in, struct kit_tensor *tensor, uint64_t *shape,
                               ckpt_error *err)
{
    uint64_t at = in->pos;
    uint32_t version = reader_u32(in);
    uint64_t levels = reader_u64(in);
    for (uint64_t i = 0; levels <= MAX_LEVELS && i < levels; i++)
        (void)reader_skip(in, reader_u64(in));
    uint32_t inner_version = reader_u32(in), n = reader_u32(in);
    CKPT_TRY(in->status);
    if (version || inner_version || levels > MAX_LEVELS || n > MAX_DESC)
        return fail(err, CKPT_EFORMAT, at,
                    "a tensor of {version %" PRIu32 " and %" PRIu32 ", %" PRIu64 " levels, %" PRIu32
                    " bytes of description}; {=0, 0, up to %u, up to %u} are allowed",
                    version, inner_version, levels, n, MAX_LEVELS, MAX_DESC);
    uint64_t desc = in->pos;
    const unsigned char *bytes = reader_take(in, n);
    CKPT_TRY(in->status);
    *tensor = (struct kit_tensor){.described_at = at, .src = in->src, .nbytes = KIT_AS_NEEDED};
    CKPT_TRY(read_desc(cursor_of(bytes, n, desc), &tensor->t, shape, err));
    tensor->src_offset = in->pos;
    if (levels && !(tensor->t.note = arena_printf(f->a, "LoD of %" PRIu64 " levels", levels)).ptr)
        return fail_memory(err);
    return CKPT_OK;
}

/* count_value_bytes - returns the bytes that the values of TENSOR take; UINT64_MAX: 2^64 or more. */
static uint64_t count_value_bytes(const ckpt_tensor *tensor)
{
    uint64_t n, bytes;
    bool fits = checked_product(tensor->shape, tensor->ndim, &n) &&
                dtype_bytes((ckpt_dtype)tensor->dtype, n, &bytes);
    return fits ? bytes : UINT64_MAX;
}

/* get_variable_name - returns the name of F's file; empty if that is not the name of a variable. */
static ckpt_str get_variable_name(const ckpt_file *f)
{
    ckpt_str path = str_c(f->path);
    ckpt_str name = str_skip(path, str_folder(path).len);
    bool is_other = str_is(name, "-") || str_ends(name, STR_LIT(".pdiparams")) || str_is(name, PARAMS_NAME);
    return is_other ? STR_LIT("") : name;
}

static ckpt_status read_tensors(struct params *params, struct kit *kit)
{
    ckpt_str own_name = get_variable_name(params->f);
    uint64_t shape[MAX_RANK], n = 0;
    for (; reader_left(&params->reader); n++) {
        struct kit_tensor t;
        ckpt_status st = read_header(params->f, &params->reader, &t, shape, params->err);
        if (st != CKPT_OK)
            error_add_where(params->err, "tensor %" PRIu64, n);
        CKPT_TRY(st);
        uint64_t size = count_value_bytes(&t.t);
        bool alone = n == 0 && !params->program && size == reader_left(&params->reader);
        if (!alone && !params->program && !params->f->salvage)
            return fail(params->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                        "{several tensors without names}: the names are in {=a program next to the file}\n"
                        "put NAME.json or NAME.pdmodel next to NAME.pdiparams, __model__ next to "
                        "__params__; `ckpt salvage` numbers the tensors");
        bool is_root = alone && !own_name.len;
        if (n == 0)
            CKPT_TRY(kit_begin(kit, params->f,
                               value_new(params->f->a, is_root ? CKPT_V_TENSOR : CKPT_V_DICT, 0),
                               params->err));
        t.name = n < params->names.nnames ? params->names.names[n]
                 : alone                  ? own_name
                                          : arena_printf(params->f->a, "%" PRIu64, n);
        CKPT_TRY_ALLOC(t.name.ptr, params->err);
        CKPT_TRY(kit_add_tensor(kit, &t));
        if (size > reader_left(&params->reader)) /* kit_add_tensor reported it */
            return CKPT_OK;
        (void)reader_skip(&params->reader, size);
    }
    if (params->program && n != params->names.nnames)
        return fail(params->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "{%" PRIu64 "} tensors, the program in \"%s\" has {=%zu}", n, params->program,
                    params->names.nnames);
    return params->reader.status;
}

/* -------------------------------------------------------------------------- program */

static ckpt_status read_adjacent_program(struct params *params)
{
    ckpt_error ignored;
    static const char *const endings[][2] = {
        {".pdiparams", ".json"}, {".pdiparams", ".pdmodel"}, {PARAMS_NAME, MODEL_NAME}};
    ckpt_str path = str_c(params->f->path);
    for (size_t i = 0; !params->program && i < sizeof endings / sizeof *endings; i++) {
        source *src = NULL;
        if (!str_ends(path, str_c(endings[i][0])))
            continue;
        ckpt_str program = ARENA_CONCAT(params->f->a, str_of(path.ptr, path.len - strlen(endings[i][0])),
                                        str_c(endings[i][1]));
        CKPT_TRY_ALLOC(program.ptr, params->err);
        if (source_open_in(params->f->archive, program.ptr, &src, &ignored) != CKPT_OK)
            continue;
        params->program = program.ptr;
        ckpt_status st = file_note_read(params->f, program.ptr)
                             ? paddle_read_program(params->f, src, &params->names, params->err)
                             : fail_memory(params->err);
        source_unref(src);
        if (st != CKPT_OK) {
            error_add_file(params->err, program.ptr);
            error_add_position(params->err, 0, STR_LIT("program"));
        }
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ all */

/* begins_with_variable - returns true if HEAD, the first bytes of a file, has the header of a tensor. */
static bool begins_with_variable(ckpt_str head)
{
    ckpt_error ignored;
    uint64_t shape[MAX_RANK];
    ckpt_tensor t;
    cursor c = cursor_of(head.ptr, head.len, 0);
    if (cursor_u32(&c) != 0)
        return false;
    uint64_t levels = cursor_u64(&c);
    for (uint64_t i = 0; i < levels && !c.bad; i++) {
        uint64_t n = cursor_u64(&c);
        (void)cursor_sub(&c, n <= c.left ? (size_t)n : SIZE_MAX); /* SIZE_MAX: fails, and sets c.bad */
    }
    uint32_t version = cursor_u32(&c), n = cursor_u32(&c);
    cursor desc = cursor_sub(&c, n);
    return !c.bad && version == 0 && n && n <= MAX_DESC && read_desc(desc, &t, shape, &ignored) == CKPT_OK;
}

static bool probe(const struct probe *this_probe)
{
    return !this_probe->is_folder &&
           begins_with_variable(str_of((const char *)this_probe->head, this_probe->nhead));
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct params p = {.f = f, .err = err};
    struct kit k = {.f = NULL};
    file_raise_budget(f, f->src->size);
    CKPT_TRY(read_adjacent_program(&p));
    CKPT_TRY(reader_init(&p.reader, f->src, 0, f->src->size, err));
    ckpt_status st = read_tensors(&p, &k);
    if (k.f) /* read_tensors has called kit_begin */
        st = kit_end(&k, st);
    reader_free(&p.reader);
    f->producer = STR_LIT("paddle");
    return position_if_failed(st, 0, STR_LIT("tensors"), err);
}

/* --------------------------------------------------------------------------- folder */

static bool is_variable_name(ckpt_str name) { return name.len && name.ptr[0] != '.'; }

/* has_only_variables - returns true if each file of the folder is a variable. */
static bool has_only_variables(const struct probe *probe)
{
    char head[PROBE_HEAD];
    size_t n = 0;
    for (size_t i = 0; i < probe->nnames; i++) {
        if (!is_variable_name(probe->names[i]))
            continue;
        if (!begins_with_variable(probe_read_head(probe, probe->names[i].ptr, head, sizeof head)))
            return false;
        n++;
    }
    return n > 0;
}

static bool probe_folder(const struct probe *probe)
{
    return probe->is_folder && (probe_has(probe, MODEL_NAME) || has_only_variables(probe));
}

static ckpt_status open_variable(struct params *params, ckpt_str name, ckpt_file **out)
{
    ckpt_status st = part_file_add(params->f, params->trusted, name, out, params->err);
    if (st != CKPT_ENOTFOUND)
        return st;
    return fail(params->err, CKPT_ETRUNCATED, CKPT_NO_OFFSET,
                "{no file} of {=the parameter} that __model__ names\n"
                "`ckpt salvage` writes what the other files hold");
}

/* read_variable - adds the tensor NAME, the only content of the file of that name. */
static ckpt_status read_variable(struct params *params, struct kit *kit, ckpt_str name)
{
    uint64_t shape[MAX_RANK];
    struct kit_tensor t;
    struct storage_extra *in = ARENA_NEW(params->f->a, struct storage_extra);
    ckpt_file *file = NULL;
    CKPT_TRY_ALLOC(in, params->err);
    CKPT_TRY(open_variable(params, name, &file));
    CKPT_TRY(reader_init(&params->reader, file->src, 0, file->src->size, params->err));
    ckpt_status st = read_header(params->f, &params->reader, &t, shape, params->err);
    uint64_t left = reader_left(&params->reader), need = st == CKPT_OK ? count_value_bytes(&t.t) : left;
    reader_free(&params->reader);
    if (left != need)
        st = fail(params->err, CKPT_EFORMAT, t.src_offset,
                  "{%" PRIu64 "} bytes of values; the description takes {=%" PRIu64 "}", left, need);
    if (st != CKPT_OK)
        error_add_file(params->err, file->path);
    CKPT_TRY(st);
    in->file = t.name = name;
    t.src_file = in;
    return kit_add_tensor(kit, &t);
}

static ckpt_status read_variables(struct params *params)
{
    struct kit k;
    ckpt_status st = CKPT_OK;
    CKPT_TRY(kit_begin(&k, params->f, value_new(params->f->a, CKPT_V_DICT, 0), params->err));
    for (size_t i = 0; st == CKPT_OK && i < params->names.nnames; i++) {
        st = read_variable(params, &k, params->names.names[i]);
        if (st == CKPT_OK)
            continue;
        error_add_position(params->err, 0, params->names.names[i]);
        st = file_report_lost(params->f, st, params->names.names[i], params->err);
    }
    return kit_end(&k, st);
}

static ckpt_status read_folder(ckpt_file *f, ckpt_error *err)
{
    struct params p = {.f = f, .err = err, .trusted = MODEL_NAME};
    ckpt_file *model;
    if (probe_has(f->opening->probe, PARAMS_NAME))
        return part_file_replace_folder(f, str_c(f->path), STR_LIT(PARAMS_NAME), err);
    f->folder = f->path;
    f->producer = STR_LIT("paddle");
    if (!probe_has(f->opening->probe, MODEL_NAME)) {
        CKPT_TRY(folder_list(f, f->path, is_variable_name, &p.names.names, &p.names.nnames, err));
        p.trusted = p.names.names[0].ptr; /* probe_folder found one */
        return read_variables(&p);
    }
    CKPT_TRY(part_file_add(f, MODEL_NAME, STR_LIT(MODEL_NAME), &model, err));
    ckpt_status st = paddle_read_program(f, model->src, &p.names, err);
    if (st != CKPT_OK) {
        error_add_file(err, model->path);
        error_add_position(err, 0, STR_LIT("program"));
        return st;
    }
    return read_variables(&p);
}

const struct format format_paddle_folder = {.name = "paddle-folder",
                                            .title = "Paddle folder",
                                            .flat = true,
                                            .probe = probe_folder,
                                            .read = read_folder};

const struct format format_paddle = {
    .name = "paddle", .title = "Paddle parameters", .flat = true, .probe = probe, .read = read};
