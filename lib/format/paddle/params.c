/*
 * params.c - reads parameters as Paddle's executor keeps them: .pdiparams of paddle.jit.save, __params__ and
 * the files of one variable of fluid (paddle/phi/core/framework/dense_tensor_serialize.cc). Tensors one after
 * the other, each
 *
 *   4  version: 0
 *   8  number of levels of its LoD, and of each 8 bytes of length and so many of offsets
 *   4  version of what follows: 0
 *   4  length of its description, a protobuf (framework.proto, TensorDesc): 1 data type, 2 sizes
 *   …  its values, row-major
 *
 * Numbers are little-endian. There are no names: the tensors are in the order of the sorted names of the
 * program's parameters. The program is next to the file: NAME.json of Paddle 3, where an operation "p" is
 * one, or a protobuf (ProgramDesc), NAME.pdmodel or __model__: 1 blocks, 3 variables, 1 name, 2 type (1
 * kind), 3 whether it persists. One tensor without a program is the root.
 *
 * Refused: other versions and data types, a program with another number of parameters, several tensors
 * without a program (where they are salvaged, they have numbers).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "codec/json_scan.h"
#include "codec/protobuf.h"
#include "core/dtype.h"
#include "format/format.h"
#include "format/kit.h"
#include "io/reader.h"

#define MAX_RANK   32u
#define MAX_LEVELS 64u
#define MAX_DESC   1024u /* bytes of a description: more than MAX_RANK sizes take */

struct params {
    ckpt_file *f;
    ckpt_error *err;
    reader r;
    ckpt_str *name; /* the program's, sorted */
    size_t nnames, cap;
    const char *program; /* its file; NULL: there is none */
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

/* read_desc - DESC as the dtype and shape of T, which has room for MAX_RANK sizes. */
static ckpt_status read_desc(cursor desc, ckpt_tensor *t, uint64_t *shape, ckpt_error *err)
{
    struct proto_field field;
    uint64_t at = desc.pos, dtype = UINT64_MAX;
    *t = (ckpt_tensor){.shape = shape};
    while (proto_next(&desc, &field)) {
        bool packed = proto_is(&field, 2, PROTO_BYTES);
        cursor sizes = field.bytes;
        if (proto_is(&field, 1, PROTO_VARINT))
            dtype = field.value;
        else if (!packed && !proto_is(&field, 2, PROTO_VARINT))
            desc.bad = true;
        while (!desc.bad && field.number == 2 && (!packed || sizes.left)) {
            uint64_t n = packed ? cursor_varint(&sizes) : field.value;
            if (sizes.bad || n > INT64_MAX || t->ndim == MAX_RANK)
                desc.bad = true;
            else
                shape[t->ndim++] = n;
            if (!packed)
                break;
        }
    }
    if (desc.bad || dtype == UINT64_MAX)
        return fail(err, CKPT_EFORMAT, at, "{no} {=description of a tensor with up to %u sizes}", MAX_RANK);
    t->dtype = (uint16_t)find_dtype(dtype);
    return t->dtype != CKPT_DT_NONE
               ? CKPT_OK
               : fail(err, CKPT_EUNSUPPORTED, at,
                      "the data type {%" PRIu64 "}; {=0 to 6, 20 to 24, 32, 33} are read", dtype);
}

/* read_header - the tensor at P's place, whose values follow. */
static ckpt_status read_header(struct params *p, struct kit_tensor *t, uint64_t *shape)
{
    uint64_t at = p->r.pos;
    uint32_t version = reader_u32(&p->r);
    uint64_t levels = reader_u64(&p->r);
    for (uint64_t i = 0; levels <= MAX_LEVELS && i < levels; i++)
        (void)reader_skip(&p->r, reader_u64(&p->r));
    uint32_t inner = reader_u32(&p->r), n = reader_u32(&p->r);
    CKPT_TRY(p->r.status);
    if (version || inner || levels > MAX_LEVELS || n > MAX_DESC)
        return fail(p->err, CKPT_EFORMAT, at,
                    "a tensor of {version %" PRIu32 " and %" PRIu32 ", %" PRIu64 " levels, %" PRIu32
                    " bytes of description}; {=0, 0, up to %u, up to %u} are allowed",
                    version, inner, levels, n, MAX_LEVELS, MAX_DESC);
    uint64_t desc = p->r.pos;
    const unsigned char *bytes = reader_take(&p->r, n);
    CKPT_TRY(p->r.status);
    *t = (struct kit_tensor){.entry = at, .src = p->f->src, .nbytes = KIT_AS_NEEDED};
    CKPT_TRY(read_desc(cursor_of(bytes, n, desc), &t->t, shape, p->err));
    t->at = p->r.pos;
    if (levels && !(t->t.note = arena_printf(p->f->a, "LoD of %" PRIu64 " levels", levels)).ptr)
        return fail_memory(p->err);
    return CKPT_OK;
}

/* values_size - the bytes of the values of T; UINT64_MAX: more than any file has. */
static uint64_t values_size(const ckpt_tensor *t)
{
    uint64_t n = 1, bytes;
    for (uint32_t i = 0; i < t->ndim; i++)
        if (!checked_mul(n, t->shape[i], &n))
            return UINT64_MAX;
    return dtype_bytes((ckpt_dtype)t->dtype, n, &bytes) ? bytes : UINT64_MAX;
}

/* refuse_nameless - without a program nothing shows whether all tensors are there. */
static ckpt_status refuse_nameless(struct params *p)
{
    (void)fail(p->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
               "{several tensors without names}: these are in {=a program next to the file}");
    fail_hint(p->err, "put NAME.json or NAME.pdmodel next to NAME.pdiparams, __model__ next to __params__; "
                      "`ckpt salvage` numbers the tensors");
    return CKPT_EFORMAT;
}

static ckpt_status read_tensors(struct params *p, struct kit *k)
{
    uint64_t shape[MAX_RANK], n = 0;
    for (; reader_left(&p->r); n++) {
        struct kit_tensor t;
        ckpt_status st = read_header(p, &t, shape);
        if (st != CKPT_OK)
            fail_where(p->err, "tensor %" PRIu64, n);
        CKPT_TRY(st);
        uint64_t size = values_size(&t.t);
        bool alone = n == 0 && !p->program && size == reader_left(&p->r);
        if (!alone && !p->program && !p->f->salvage)
            return refuse_nameless(p);
        if (n == 0)
            CKPT_TRY(kit_begin(k, p->f, value_new(p->f->a, alone ? CKPT_V_TENSOR : CKPT_V_DICT, 0), p->err));
        t.name = n < p->nnames ? p->name[n] : alone ? STR_LIT("") : arena_printf(p->f->a, "%" PRIu64, n);
        if (!t.name.ptr)
            return fail_memory(p->err);
        CKPT_TRY(kit_add_tensor(k, &t));
        if (size > reader_left(&p->r)) /* kit_add_tensor reported it */
            return CKPT_OK;
        (void)reader_skip(&p->r, size);
    }
    if (p->program && n != p->nnames)
        return fail(p->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "{%" PRIu64 "} tensors, the program in \"%s\" has {=%zu}", n, p->program, p->nnames);
    return p->r.status;
}

/* -------------------------------------------------------------------------- program */

static ckpt_status add_name(struct params *p, ckpt_str name)
{
    ckpt_str *grown = arena_grow(p->f->a, p->name, p->nnames, &p->cap, p->nnames + 1, sizeof *grown);
    if (!grown)
        return fail_memory(p->err);
    p->name = grown;
    grown[p->nnames++] = name;
    return CKPT_OK;
}

/* read_json - the names in operations {"#": "p", "A": [_, _, _, name], …}. */
static ckpt_status read_json(struct params *p, ckpt_str text)
{
    json_scan j;
    bool is_parameter = false;
    json_init(&j, text, 0, p->f->a, p->err);
    for (enum json_event e; (e = json_next(&j)) != JSON_END;) {
        if (e == JSON_ERROR)
            return p->err->status;
        if (e != JSON_KEY)
            continue;
        ckpt_str key = j.str;
        e = json_next(&j);
        if (str_is(key, "#")) {
            is_parameter = e == JSON_STRING && str_is(j.str, "p");
        } else if (str_is(key, "A") && is_parameter && e == JSON_ARRAY) {
            for (int i = 0; i < 3; i++)
                (void)json_next(&j);
            e = json_next(&j);
            if (e != JSON_STRING)
                return json_unexpected(&j, e, "the name of a parameter", "a text");
            CKPT_TRY(add_name(p, j.str));
            is_parameter = false;
        }
    }
    return CKPT_OK;
}

/* read_variable - adds the name of VAR if it is a tensor that persists. */
static ckpt_status read_variable(struct params *p, cursor var)
{
    enum { FEED = 9, FETCH = 10, READER = 15, RAW = 17 };
    struct proto_field field, inner;
    ckpt_str name = STR_LIT("");
    uint64_t kind = 0, persists = 0;
    while (proto_next(&var, &field)) {
        if (proto_is(&field, 1, PROTO_BYTES))
            name = proto_text(&field);
        else if (proto_is(&field, 3, PROTO_VARINT))
            persists = field.value;
        for (cursor type = field.bytes; proto_is(&field, 2, PROTO_BYTES) && proto_next(&type, &inner);)
            kind = proto_is(&inner, 1, PROTO_VARINT) ? inner.value : kind;
    }
    bool other = kind == FEED || kind == FETCH || kind == READER || kind == RAW;
    return persists && !other ? add_name(p, name) : CKPT_OK;
}

static ckpt_status read_program(struct params *p, ckpt_str text)
{
    cursor c = cursor_of(text.ptr, text.len, 0);
    struct proto_field block, var;
    if (text.len && text.ptr[0] == '{')
        return read_json(p, text);
    while (proto_next(&c, &block))
        for (cursor vars = block.bytes; proto_is(&block, 1, PROTO_BYTES) && proto_next(&vars, &var);)
            if (proto_is(&var, 3, PROTO_BYTES))
                CKPT_TRY(read_variable(p, var.bytes));
    return !c.bad ? CKPT_OK
                  : fail(p->err, CKPT_EFORMAT, c.pos, "{no} {=program of Paddle}: a field is cut off");
}

static int compare_names(const void *a, const void *b)
{
    return str_compare(*(const ckpt_str *)a, *(const ckpt_str *)b);
}

/* take_program - the names of the program in SRC. */
static ckpt_status take_program(struct params *p, source *src)
{
    if (src->size > p->f->limits.max_header)
        return fail(p->err, CKPT_ELIMIT, 0, "a program of {%" PRIu64 " bytes}; the limit is {=%" PRIu64 "}",
                    src->size, p->f->limits.max_header);
    char *text = arena_alloc(p->f->a, (size_t)src->size);
    if (!text)
        return fail_memory(p->err);
    CKPT_TRY(source_read(src, 0, text, (size_t)src->size, p->err));
    CKPT_TRY(read_program(p, str_of(text, (size_t)src->size)));
    if (p->nnames)
        qsort(p->name, p->nnames, sizeof *p->name, compare_names);
    return CKPT_OK;
}

/* find_program - reads the program next to the file, if there is one. */
static ckpt_status find_program(struct params *p)
{
    static const char *const names[][2] = {
        {".pdiparams", ".json"}, {".pdiparams", ".pdmodel"}, {"__params__", "__model__"}};
    ckpt_str path = str_c(p->f->path);
    for (size_t i = 0; !p->program && i < sizeof names / sizeof *names; i++) {
        source *src = NULL;
        if (!str_ends(path, str_c(names[i][0])))
            continue;
        ckpt_str at = arena_printf(p->f->a, "%.*s%s", (int)(path.len - strlen(names[i][0])), path.ptr,
                                   names[i][1]);
        if (!at.ptr)
            return fail_memory(p->err);
        if (source_file_open(at.ptr, &src, NULL) != CKPT_OK)
            continue;
        p->program = at.ptr;
        ckpt_status st = take_program(p, src);
        source_unref(src);
        if (st != CKPT_OK) {
            fail_file(p->err, at.ptr);
            fail_add_place(p->err, 0, STR_LIT("program"));
        }
        CKPT_TRY(st);
    }
    return CKPT_OK;
}

/* ------------------------------------------------------------------------------ all */

static bool probe(const struct probe *p)
{
    uint64_t shape[MAX_RANK];
    ckpt_tensor t;
    cursor c = cursor_of(p->head, p->nhead, 0);
    if (p->directory || cursor_u32(&c) != 0)
        return false;
    uint64_t levels = cursor_u64(&c);
    for (uint64_t i = 0; i < levels && !c.bad; i++) {
        uint64_t n = cursor_u64(&c);
        (void)cursor_sub(&c, n <= c.left ? (size_t)n : SIZE_MAX);
    }
    uint32_t version = cursor_u32(&c), n = cursor_u32(&c);
    cursor desc = cursor_sub(&c, n);
    return !c.bad && version == 0 && n && n <= MAX_DESC && read_desc(desc, &t, shape, NULL) == CKPT_OK;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    struct params p = {.f = f, .err = err};
    struct kit k = {.f = NULL};
    file_budget(f, f->src->size);
    CKPT_TRY(find_program(&p));
    CKPT_TRY(reader_init(&p.r, f->src, 0, f->src->size, err));
    ckpt_status st = read_tensors(&p, &k);
    if (k.f)
        st = kit_end(&k, st);
    reader_free(&p.r);
    f->producer = STR_LIT("paddle");
    if (st != CKPT_OK)
        fail_add_place(err, 0, STR_LIT("tensors"));
    return st;
}

const struct format format_paddle = {
    .name = "paddle", .title = "Paddle parameters", .flat = true, .probe = probe, .read = read};
