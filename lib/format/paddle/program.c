/*
 * program.c - reads the names of a program's parameters and sorts them: the parameter file has that order.
 *   NAME.json                of Paddle 3; each operation {"#": "p", …} is a parameter
 *   NAME.pdmodel, __model__  protobuf (framework.proto): ProgramDesc {1 blocks {3 vars
 *                            {1 name, 2 type {1 kind}, 3 persistable}}}
 */
#include <stdlib.h>

#include "codec/json_scan.h"
#include "codec/protobuf.h"
#include "format/kit.h"
#include "format/paddle/program.h"

struct program {
    arena *a;
    struct paddle_program *out;
    ckpt_error *err;
};

static ckpt_status add_name(struct program *program, ckpt_str name)
{
    return arena_push(program->a, &program->out->names, &program->out->nnames, &program->out->cap, &name,
                      sizeof name)
               ? CKPT_OK
               : fail_memory(program->err);
}

/* read_json - adds the names in operations {"#": "p", "A": [_, _, _, name], …}. */
static ckpt_status read_json(struct program *program, ckpt_str text)
{
    json_scan j;
    bool is_parameter = false;
    json_init(&j, text, 0, program->a, program->err);
    for (enum json_event e; (e = json_next(&j)) != JSON_END;) {
        if (e == JSON_ERROR)
            return program->err->status;
        if (e != JSON_KEY)
            continue;
        ckpt_str key = j.str;
        e = json_next(&j);
        if (str_is(key, "#")) {
            is_parameter = e == JSON_STRING && str_is(j.str, "p");
        } else if (str_is(key, "A") && is_parameter && e == JSON_ARRAY) {
            for (int i = 0; i < 3; i++)
                (void)json_next(&j);
            CKPT_TRY(json_expect(&j, JSON_STRING, "the name of a parameter", "a text"));
            CKPT_TRY(add_name(program, j.str));
            is_parameter = false;
        }
    }
    return CKPT_OK;
}

/* read_variable - adds the name of VAR if it is a persistable tensor. */
static ckpt_status read_variable(struct program *program, cursor var)
{
    enum { FEED = 9, FETCH = 10, READER = 15, RAW = 17 }; /* kinds of variables that are not tensors */
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
    bool is_not_tensor = kind == FEED || kind == FETCH || kind == READER || kind == RAW;
    return persists && !is_not_tensor ? add_name(program, name) : CKPT_OK;
}

static ckpt_status read_program(struct program *program, ckpt_str text)
{
    cursor c = cursor_of(text.ptr, text.len, 0);
    struct proto_field block, var;
    if (text.len && text.ptr[0] == '{')
        return read_json(program, text);
    while (proto_next(&c, &block))
        for (cursor vars = block.bytes; proto_is(&block, 1, PROTO_BYTES) && proto_next(&vars, &var);)
            if (proto_is(&var, 3, PROTO_BYTES))
                CKPT_TRY(read_variable(program, var.bytes));
    return !c.bad
               ? CKPT_OK
               : fail(program->err, CKPT_EFORMAT, c.pos, "not {=a program of Paddle}: {a field is cut off}");
}

static int compare_names(const void *left, const void *right)
{
    return str_compare(*(const ckpt_str *)left, *(const ckpt_str *)right);
}

ckpt_status paddle_read_program(ckpt_file *f, source *src, struct paddle_program *out, ckpt_error *err)
{
    struct program p = {f->a, out, err};
    ckpt_str text;
    CKPT_TRY(kit_read_metadata(f, src, 0, src->size, &text, err));
    CKPT_TRY(read_program(&p, text));
    if (out->nnames)
        qsort(out->names, out->nnames, sizeof *out->names, compare_names);
    return CKPT_OK;
}
