/*
 * sanitize.c - `ckpt sanitize`: makes a new value graph of tensors and plain data from that of the plan.
 * Each value on the left becomes what is on the right:
 *
 *   constant, list, tuple, dict, set     the same
 *   OrderedDict, Counter                 the same; an OrderedDict keeps _metadata
 *   tensor made by calls of torch        the same
 *   tensor made by other calls           a new description, if the table has its bytes
 *   composite tensor made by other calls dict of its components, by the names that ls shows
 *   nn.Module, ScriptModule              its state dict
 *   numpy array                          tensor
 *   numpy scalar                         number or text
 *   str of Python 2                      text; bytes if it is not UTF-8
 *   frozenset                            set
 *   other class like a dict or list      dict or list
 *   named tuple with tensors in it       tuple
 *   pathlib path                         text
 *   Namespace, object with tensors       dict of its attributes
 *   anything else                        left out; None in a list or tuple, to keep the indices
 *
 * The conversion does not recurse: it has a stack of frames. The result of a container is recorded before
 * its entries are converted, so that it may contain itself. What is left out or changed is reported.
 *
 * For formats of dense tensors by name, sanitize_flat leaves out and reports other tensors; the writer
 * reports the values that are not tensors.
 */
#include "op/sanitize.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "core/graph_visit.h"
#include "core/view.h"
#include "op/plain.h"
#include "op/weights_only.h"

/* A container whose entries are being converted: those of its view, or the components of a row. */
struct frame {
    const ckpt_value *v;
    struct view view;
    size_t next;             /* index of the next entry of the view, or of the next row */
    uint32_t composite;      /* the row whose components are converted, or CKPT_NO_TENSOR */
    const ckpt_value *state; /* attributes of an OrderedDict, not converted yet */
    ckpt_value *out;         /* the container to which converted entries are added */
    ckpt_path_elem elem;     /* its path element */
    bool has_elem;
};

struct sanitize {
    ckpt_plan *p;
    struct plain_checker checker;
    map *row_of;           /* node -> its row */
    map *has_tensor_below; /* nodes on the path to a tensor */
    map *done;             /* node -> index in results */
    ckpt_value **results;
    size_t nresults, cap_results;
    struct frame *frames;
    size_t nframes, cap_frames;
    const ckpt_value *offender; /* the node because of which the current value is refused, or NULL */
    ckpt_value *none;
    ckpt_error *err;
};

/* The conversion of one value. */
struct value_job {
    const ckpt_value *v;
    const ckpt_path_elem *elem; /* the path element of V; NULL: V has the path of the frame */
    ckpt_value *result;         /* NULL: V is left out */
};

/* ----------------------------------------------------------------- reports */

/* locate_value - returns VALUE as a leaf. Its path is that of the innermost frame, then ELEM, then the
 * attribute name ATTR; either may be NULL. name.ptr NULL: out of memory. */
static ckpt_leaf locate_value(struct sanitize *sanitize, const ckpt_path_elem *elem, const char *attr,
                              const ckpt_value *value)
{
    size_t max = sanitize->p->root_depth + sanitize->nframes + 2, n = 0;
    ckpt_path_elem *path = max <= UINT32_MAX ? arena_array(sanitize->p->a, max, sizeof *path) : NULL;
    if (!path)
        return (ckpt_leaf){.value = value};
    for (; n < sanitize->p->root_depth; n++)
        path[n] = sanitize->p->root_path[n];
    for (size_t i = 0; i < sanitize->nframes; i++)
        if (sanitize->frames[i].has_elem)
            path[n++] = sanitize->frames[i].elem;
    if (elem)
        path[n++] = *elem;
    if (attr)
        path[n++] = (ckpt_path_elem){.str = str_c(attr)};
    return (ckpt_leaf){.name = path_join(sanitize->p->a, path, (uint32_t)n),
                       .path = path,
                       .npath = (uint32_t)n,
                       .value = value};
}

/* name_callable - returns the name of the callable or class of VALUE, or "". .ptr NULL: out of memory. */
static ckpt_str name_callable(arena *a, const ckpt_value *value)
{
    char text[256];
    const ckpt_value *class = value->type == CKPT_V_CALL ? view_class(value) : value;
    if (class->type == CKPT_V_GLOBAL)
        return ARENA_CONCAT(a, value_module(class), STR_LIT("."), value_name(class));
    if (value->type != CKPT_V_CALL)
        return STR_LIT("");
    return arena_str(a, str_c(ckpt_value_type_name(class, text, sizeof text)));
}

/* What happened to a value that is reported. */
enum { CHANGED = false, LOST = true };

/* add_report - reports that LEAF became INSTEAD or, if LOST, is left out; then INSTEAD is what takes its
 * place, or "". REASON: the node whose callable is reported; NULL: the value of LEAF. */
static ckpt_status add_report(struct sanitize *sanitize, const ckpt_leaf *leaf, const ckpt_value *reason,
                              const char *instead, bool lost)
{
    char type[256];
    ckpt_sanitized sanitized = {.name = leaf->name,
                                .path = leaf->path,
                                .npath = leaf->npath,
                                .type = str_c(ckpt_value_type_name(leaf->value, type, sizeof type)),
                                .callable = name_callable(sanitize->p->a, reason ? reason : leaf->value),
                                .instead = str_c(instead),
                                .lost = lost};
    return plan_note_sanitized(sanitize->p, sanitized, sanitize->err);
}

/* report - reports that the value of JOB became INSTEAD or, if LOST, is left out. */
static ckpt_status report(struct sanitize *sanitize, const struct value_job *job, const char *instead,
                          bool lost)
{
    const ckpt_leaf leaf = locate_value(sanitize, job->elem, NULL, job->v);
    return add_report(sanitize, &leaf, sanitize->offender, instead, lost);
}

/* ------------------------------------------------------------------- nodes */

/* keep_node - returns VALUE as a result that is not changed. */
static ckpt_value *keep_node(const ckpt_value *value) { return (ckpt_value *)(uintptr_t)value; }

/* set_result - sets the result of JOB, also for other references to its value. MADE NULL: it is left out. */
static ckpt_status set_result(struct sanitize *sanitize, struct value_job *job, ckpt_value *made)
{
    bool ok = sanitize->nresults < MAP_NONE &&
              map_set_num(sanitize->done, ptr_key(job->v), (uint32_t)sanitize->nresults) &&
              ARENA_PUSH(sanitize->p->a, sanitize, results, &made);
    job->result = made;
    return ok ? CKPT_OK : fail_memory(sanitize->err);
}

static ckpt_status omit_value(struct sanitize *sanitize, struct value_job *job)
{
    return set_result(sanitize, job, NULL);
}

static ckpt_value *new_node(struct sanitize *sanitize, ckpt_value_type type, const ckpt_value *from)
{
    ckpt_value *v = value_new(sanitize->p->a, type, value_offset(from));
    if (v)
        v->flags = from->flags & VALUE_SHARED;
    return v;
}

/* push_container - sets the result of JOB to MADE, and pushes FRAME, whose entries are to be converted and
 * added to OUT: MADE itself, or the dict in the call MADE. */
static ckpt_status push_container(struct sanitize *sanitize, struct value_job *job, ckpt_value *made,
                                  ckpt_value *out, struct frame frame)
{
    CKPT_TRY_ALLOC(made && out, sanitize->err);
    frame.v = job->v;
    frame.out = out;
    frame.has_elem = job->elem != NULL;
    if (job->elem)
        frame.elem = *job->elem;
    CKPT_TRY(set_result(sanitize, job, made));
    bool pushed = ARENA_PUSH(NULL, sanitize, frames, &frame);
    return pushed ? CKPT_OK : fail_memory(sanitize->err);
}

static ckpt_status push_container_as(struct sanitize *sanitize, struct value_job *job, ckpt_value_type type)
{
    struct frame f = {.view = view_of(job->v), .composite = CKPT_NO_TENSOR};
    ckpt_value *out = new_node(sanitize, type, job->v);
    return push_container(sanitize, job, out, out, f);
}

/* ----------------------------------------------------------------- tensors */

static uint32_t row_of(const struct sanitize *sanitize, const ckpt_value *value)
{
    uint32_t i = map_get_num(sanitize->row_of, ptr_key(value));
    return i == MAP_NONE ? CKPT_NO_TENSOR : i;
}

static ckpt_tensor row_tensor(const struct sanitize *sanitize, uint32_t row)
{
    return table_tensor(&sanitize->p->file->table, row);
}

static bool has_components(const struct sanitize *sanitize, uint32_t row)
{
    const struct table *t = &sanitize->p->file->table;
    return row + 1 < t->nrows && table_part_of(t, row + 1) == row;
}

/* rebuild_tensor - describes the tensor of ROW anew, as its node is not plain data. A composite becomes a
 * dict of its components; any other tensor without bytes is left out. */
static ckpt_status rebuild_tensor(struct sanitize *sanitize, struct value_job *job, uint32_t row)
{
    const ckpt_tensor t = row_tensor(sanitize, row);
    bool is_single = (t.kind == CKPT_DENSE || t.kind == CKPT_NDARRAY || t.kind == CKPT_STORAGE) &&
                     t.has_data && t.has_shape && !dtype_is_foreign((ckpt_dtype)t.dtype) &&
                     t.dtype != CKPT_DT_NONE;
    if (!is_single && !has_components(sanitize, row))
        return omit_value(sanitize, job);
    ckpt_value *out = new_node(sanitize, is_single ? CKPT_V_TENSOR : CKPT_V_DICT, job->v);
    CKPT_TRY_ALLOC(out, sanitize->err);
    if (is_single) {
        value_set_row(out, row);
        out->flags |= VALUE_ROW;
        CKPT_TRY(set_result(sanitize, job, out));
        return report(sanitize, job, t.parameter ? "parameter" : "tensor", CHANGED);
    }
    CKPT_TRY(report(sanitize, job, "dict", CHANGED));
    return push_container(sanitize, job, out, out, (struct frame){.composite = row, .next = (size_t)row + 1});
}

static ckpt_status convert_tensor(struct sanitize *sanitize, struct value_job *job, uint32_t row)
{
    ckpt_value *number;
    CKPT_TRY_ALLOC(plain_from_scalar(sanitize->p->a, job->v, &number), sanitize->err);
    if (number) {
        char type[32];
        CKPT_TRY(set_result(sanitize, job, number));
        (void)ckpt_value_type_name(number, type, sizeof type);
        ckpt_str to = arena_str(sanitize->p->a, str_c(type));
        return to.ptr ? report(sanitize, job, to.ptr, CHANGED) : fail_memory(sanitize->err);
    }
    if (row_tensor(sanitize, row).kind == CKPT_NDARRAY)
        return rebuild_tensor(sanitize, job, row);
    CKPT_TRY(check_plain(&sanitize->checker, job->v, &sanitize->offender, sanitize->err));
    return sanitize->offender ? rebuild_tensor(sanitize, job, row)
                              : set_result(sanitize, job, keep_node(job->v));
}

/* ------------------------------------------------------------------ objects */

/* report_attributes - reports that the attributes of JOB, of a class like a list or dict, are left out. */
static ckpt_status report_attributes(struct sanitize *sanitize, const struct value_job *job)
{
    const ckpt_value *state = value_state(job->v);
    if (!state)
        return CKPT_OK;
    const ckpt_leaf leaf = locate_value(sanitize, job->elem, "__dict__", state);
    return add_report(sanitize, &leaf, NULL, "", LOST);
}

/* convert_mapping - converts a mapping to a dict; an OrderedDict or Counter keeps its class. */
static ckpt_status convert_mapping(struct sanitize *sanitize, struct value_job *job)
{
    arena *a = sanitize->p->a;
    const ckpt_value *klass = view_class(job->v), *state = value_state(job->v);
    struct frame f = {.view = view_of(job->v), .composite = CKPT_NO_TENSOR};
    ckpt_value *out = new_node(sanitize, CKPT_V_DICT, job->v), *made = out;
    if (value_is_global(klass, "collections", "OrderedDict")) {
        made = out = value_ordered_dict(a);
        f.state = state;
    } else if (value_is_global(klass, "collections", "Counter") && out) {
        ckpt_value *name = value_global(a, STR_LIT("collections"), STR_LIT("Counter"), 0);
        ckpt_value *args = value_tuple(a, 1, &out);
        out->flags = 0;
        made = name && args ? value_call(a, CALL_REDUCE, name, args, value_offset(job->v)) : NULL;
        CKPT_TRY(report_attributes(sanitize, job));
    } else {
        CKPT_TRY(report(sanitize, job, "dict", CHANGED));
        CKPT_TRY(report_attributes(sanitize, job));
    }
    if (made)
        made->flags = job->v->flags & VALUE_SHARED;
    return push_container(sanitize, job, made, out, f);
}

static bool state_holds_tensor(const struct sanitize *sanitize, const ckpt_value *value)
{
    const ckpt_value *state = value_state(value);
    bool holds = state && map_get_num(sanitize->has_tensor_below, ptr_key(state)) != MAP_NONE;
    for (uint32_t i = 0; !holds && state && state->type == CKPT_V_TUPLE && i < value_count(state); i++)
        holds = map_get_num(sanitize->has_tensor_below, ptr_key(value_item(state, i))) != MAP_NONE;
    return holds;
}

/* convert_sequence - converts a call that makes what is like a list, set or tuple. If ARGUMENTS, the items
 * are the arguments of the call, as in a named tuple: it is left out unless there are tensors in them or the
 * protocol records that its class is a tuple. */
static ckpt_status convert_sequence(struct sanitize *sanitize, struct value_job *job, bool arguments)
{
    const ckpt_value *klass = view_class(job->v), *args = job->v->u.call.args;
    bool set = is_builtin(klass, "set") || is_builtin(klass, "frozenset");
    bool is_tuple = is_builtin(creation_of(job->v).base, "tuple");
    if (arguments && !is_tuple && map_get_num(sanitize->has_tensor_below, ptr_key(args)) == MAP_NONE)
        return omit_value(sanitize, job);
    bool tuple = arguments || is_builtin(klass, "tuple");
    if (!is_builtin(klass, "set"))
        CKPT_TRY(report(sanitize, job, set ? "set" : tuple ? "tuple" : "list", CHANGED));
    CKPT_TRY(report_attributes(sanitize, job));
    return push_container_as(sanitize, job, set ? CKPT_V_SET : tuple ? CKPT_V_TUPLE : CKPT_V_LIST);
}

/* is_empty_bytes - returns true if VALUE is the call bytes(), which Python 3 pickles for b'' in protocol
 * 2. */
static bool is_empty_bytes(const ckpt_value *value)
{
    return value->u.call.args->type == CKPT_V_TUPLE && !value_nargs(value) &&
           is_builtin(value->u.call.callable, "bytes");
}

static ckpt_status convert_object(struct sanitize *sanitize, struct value_job *job)
{
    ckpt_value *path;
    struct view view = view_of(job->v);
    if (is_empty_bytes(job->v)) {
        ckpt_value *made = new_node(sanitize, CKPT_V_BYTES, job->v);
        return made ? set_result(sanitize, job, made) : fail_memory(sanitize->err);
    }
    if (is_plain_value_call(job->v)) {
        CKPT_TRY(check_plain(&sanitize->checker, job->v, &sanitize->offender, sanitize->err));
        return sanitize->offender ? omit_value(sanitize, job) : set_result(sanitize, job, keep_node(job->v));
    }
    CKPT_TRY_ALLOC(plain_from_path(sanitize->p->a, job->v, &path), sanitize->err);
    if (path) {
        CKPT_TRY(set_result(sanitize, job, path));
        return report(sanitize, job, "str", CHANGED);
    }
    if (view.kind == VIEW_PAIRS || value_is_global(view_class(job->v), "collections", "OrderedDict"))
        return convert_mapping(sanitize, job);
    if (view.kind == VIEW_ITEMS || is_builtin(view_class(job->v), "set") ||
        is_builtin(view_class(job->v), "list"))
        return convert_sequence(sanitize, job, view.are_arguments);
    bool is_namespace = plain_kind_of(view_class(job->v)) == PLAIN_NAMESPACE;
    if (view.kind != VIEW_ATTRS || (!is_namespace && !state_holds_tensor(sanitize, job->v)))
        return omit_value(sanitize, job);
    CKPT_TRY(report(sanitize, job, "dict", CHANGED));
    return push_container_as(sanitize, job, CKPT_V_DICT);
}

/* ------------------------------------------------------------------- values */

/* convert_python2_str - converts a str of Python 2 to text if it is UTF-8 in memory, else to bytes. */
static ckpt_status convert_python2_str(struct sanitize *sanitize, struct value_job *job)
{
    const ckpt_value *v = job->v;
    bool text = !(v->flags & VALUE_SPAN) && utf8_check(v->u.str, false, NULL);
    ckpt_value *made = new_node(sanitize, text ? CKPT_V_STR : CKPT_V_BYTES, v);
    CKPT_TRY_ALLOC(made, sanitize->err);
    made->u = v->u;
    made->flags = v->flags & (VALUE_SHARED | VALUE_SPAN);
    CKPT_TRY(set_result(sanitize, job, made));
    return text ? CKPT_OK : report(sanitize, job, "bytes", CHANGED);
}

static ckpt_status convert_value(struct sanitize *sanitize, struct value_job *job);

/* get_content_type - returns the type of the value in WRAPPER, a call with the flag VALUE_WRAPS. */
static const char *get_content_type(const ckpt_value *wrapper)
{
    switch (ckpt_value_get_type(view_content(wrapper))) {
    case CKPT_V_LIST: return "list";
    case CKPT_V_DICT: return "dict";
    default: return "value";
    }
}

/* convert_wrapper - converts the value in the call of JOB (VALUE_WRAPS), which is not such a call itself. */
static ckpt_status convert_wrapper(struct sanitize *sanitize, struct value_job *job)
{
    struct value_job content = {.v = view_content(job->v), .elem = job->elem};
    CKPT_TRY(report(sanitize, job, get_content_type(job->v), CHANGED));
    CKPT_TRY(convert_value(sanitize, &content));
    return set_result(sanitize, job, content.result);
}

static ckpt_status convert_call(struct sanitize *sanitize, struct value_job *job)
{
    if (job->v->flags & VALUE_WRAPS)
        return convert_wrapper(sanitize, job);
    const ckpt_value *state_dict = file_replacement_of(sanitize->p->file, job->v);
    if (state_dict != job->v) {
        struct value_job instead = {.v = state_dict, .elem = job->elem};
        CKPT_TRY(report(sanitize, job, "state dict", CHANGED));
        CKPT_TRY(convert_mapping(sanitize, &instead));
        return set_result(sanitize, job, instead.result);
    }
    uint32_t row = row_of(sanitize, job->v);
    if (row != CKPT_NO_TENSOR)
        return convert_tensor(sanitize, job, row);
    return job->v->type == CKPT_V_CALL ? convert_object(sanitize, job) : omit_value(sanitize, job);
}

/* convert_value - sets the result of JOB, and pushes a frame if there are entries to convert. */
static ckpt_status convert_value(struct sanitize *sanitize, struct value_job *job)
{
    const ckpt_value *v = job->v;
    uint32_t result_index = v->type >= CKPT_V_STR8 ? map_get_num(sanitize->done, ptr_key(v)) : MAP_NONE;
    sanitize->offender = NULL;
    job->result = result_index != MAP_NONE ? sanitize->results[result_index] : NULL;
    if (result_index != MAP_NONE || (v->flags & VALUE_NOT_REWRITABLE))
        return CKPT_OK;
    job->result = keep_node(v);
    switch ((ckpt_value_type)v->type) {
    case CKPT_V_BIGINT: job->result = v->u.str.len <= 255 ? job->result : NULL; return CKPT_OK;
    case CKPT_V_STR8: return convert_python2_str(sanitize, job);
    case CKPT_V_LIST:
    case CKPT_V_TUPLE:
    case CKPT_V_DICT:
    case CKPT_V_SET: return push_container_as(sanitize, job, (ckpt_value_type)v->type);
    case CKPT_V_FROZENSET:
        CKPT_TRY(report(sanitize, job, "set", CHANGED));
        return push_container_as(sanitize, job, CKPT_V_SET);
    case CKPT_V_GLOBAL: job->result = is_torch_constant(v) ? job->result : NULL; return CKPT_OK;
    case CKPT_V_TENSOR: return set_result(sanitize, job, job->result);
    case CKPT_V_CALL:
    case CKPT_V_PERSID: job->result = NULL; return convert_call(sanitize, job);
    default: return CKPT_OK;
    }
}

/* convert_key - sets *OUT to the result of VALUE, a key of a dict or an item of a set; NULL: it is left out,
 * because it is not plain data, or what it becomes is not hashable. */
static ckpt_status convert_key(struct sanitize *sanitize, const ckpt_value *value, const ckpt_path_elem *elem,
                               ckpt_value **out)
{
    struct value_job job = {.v = value, .elem = elem};
    *out = NULL;
    if (value->type == CKPT_V_TUPLE) {
        CKPT_TRY(check_plain(&sanitize->checker, value, &sanitize->offender, sanitize->err));
        *out = sanitize->offender ? NULL : keep_node(value);
        return CKPT_OK;
    }
    if (value_is_sequence(value) || value->type == CKPT_V_DICT ||
        (value->type == CKPT_V_CALL && !is_plain_value_call(value) &&
         row_of(sanitize, value) == CKPT_NO_TENSOR))
        return CKPT_OK;
    CKPT_TRY(convert_value(sanitize, &job));
    if (job.result && job.result->type != CKPT_V_TENSOR && job.result->type != CKPT_V_DICT &&
        (job.result->type != CKPT_V_CALL || is_plain_value_call(job.result)))
        *out = job.result;
    return CKPT_OK;
}

/* ------------------------------------------------------------------ entries */

static ckpt_status convert_pair(struct sanitize *sanitize, ckpt_value *out, const ckpt_value *key,
                                const ckpt_value *val)
{
    ckpt_path_elem elem;
    ckpt_value *new_key;
    CKPT_TRY(path_elem_from_key(sanitize->p->a, key, &elem, sanitize->err));
    struct value_job job = {.v = val, .elem = &elem};
    CKPT_TRY(convert_key(sanitize, key, &elem, &new_key));
    if (!new_key)
        return report(sanitize, &job, "", LOST);
    CKPT_TRY(convert_value(sanitize, &job));
    if (!job.result)
        return report(sanitize, &job, "", LOST);
    return value_put(sanitize->p->a, out, new_key, job.result) ? CKPT_OK : fail_memory(sanitize->err);
}

static ckpt_status convert_item(struct sanitize *sanitize, ckpt_value *out, size_t index,
                                const ckpt_value *value)
{
    ckpt_path_elem elem = {.is_int = true, .num = (int64_t)index};
    struct value_job job = {.v = value, .elem = &elem};
    if (out->type == CKPT_V_SET)
        CKPT_TRY(convert_key(sanitize, value, &elem, &job.result));
    else
        CKPT_TRY(convert_value(sanitize, &job));
    if (!job.result) {
        CKPT_TRY(report(sanitize, &job, out->type == CKPT_V_SET ? "" : "None", LOST));
        job.result = out->type == CKPT_V_SET ? NULL : sanitize->none;
    }
    return !job.result || value_append(sanitize->p->a, out, job.result) ? CKPT_OK
                                                                        : fail_memory(sanitize->err);
}

/* convert_next_component - converts the next component of FRAME's composite; *HAD_NEXT: there was one. */
static ckpt_status convert_next_component(struct sanitize *sanitize, struct frame *frame, bool *had_next)
{
    const struct table *t = &sanitize->p->file->table;
    const ckpt_tensor composite = table_tensor(t, frame->composite);
    while (frame->next < t->nrows && table_npath_of(t, frame->next) > composite.npath &&
           table_part_of(t, frame->next) != frame->composite)
        frame->next++;
    *had_next = frame->next < t->nrows && table_part_of(t, frame->next) == frame->composite;
    if (!*had_next)
        return CKPT_OK;
    const ckpt_tensor component = table_tensor(t, frame->next++);
    /* the path of a &component begins with that of its &composite */
    ckpt_str name_below = path_join(sanitize->p->a, component.path + composite.npath,
                                    component.npath - composite.npath);
    ckpt_path_elem elem = {.str = name_below};
    struct value_job job = {.v = component.value, .elem = &elem};
    ckpt_value *key = name_below.ptr ? value_str(sanitize->p->a, name_below) : NULL, *out = frame->out;
    CKPT_TRY_ALLOC(key, sanitize->err);
    if (!job.v)
        return CKPT_OK;
    CKPT_TRY(convert_value(sanitize, &job));
    if (!job.result)
        return report(sanitize, &job, "", LOST);
    return value_put(sanitize->p->a, out, key, job.result) ? CKPT_OK : fail_memory(sanitize->err);
}

/* convert_state - converts the attributes of an OrderedDict, such as _metadata. */
static ckpt_status convert_state(struct sanitize *sanitize, struct frame *frame)
{
    ckpt_value *out = frame->out;
    struct value_job job = {.v = frame->state};
    frame->state = NULL;
    if (job.v->type == CKPT_V_DICT)
        CKPT_TRY(convert_value(sanitize, &job));
    if (!job.result)
        return report(sanitize, &job, "", LOST);
    return value_add_state(sanitize->p->a, out, job.result) ? CKPT_OK : fail_memory(sanitize->err);
}

/* convert_next_entry - converts the next entry of the innermost frame, or pops the frame if there is none. */
static ckpt_status convert_next_entry(struct sanitize *sanitize)
{
    struct frame *f = &sanitize->frames[sanitize->nframes - 1];
    const ckpt_value *key, *val;
    bool had_next = false;
    if (f->composite != CKPT_NO_TENSOR) {
        CKPT_TRY(convert_next_component(sanitize, f, &had_next));
    } else if (view_item(&f->view, f->next, &key, &val)) {
        size_t i = f->next++;
        if (value_is_sequence(f->out))
            return convert_item(sanitize, f->out, i, val);
        if (!key) /* an item of the list in OrderedDict([…]) that is not a pair */
            return CKPT_OK;
        return convert_pair(sanitize, f->out, key, val);
    } else if (f->state) {
        return convert_state(sanitize, f);
    }
    if (!had_next)
        sanitize->nframes--;
    return CKPT_OK;
}

/* -------------------------------------------------------------- whole graph */

static ckpt_status index_rows(struct sanitize *sanitize)
{
    const struct table *t = &sanitize->p->file->table;
    for (size_t i = 0; i < t->nrows; i++) {
        const struct row r = table_row(t, i);
        if (r.t.value && !map_put_num(sanitize->row_of, ptr_key(r.t.value), (uint32_t)i, NULL))
            return fail_memory(sanitize->err);
        for (uint32_t k = 0; r.steps && k < r.t.npath; k++)
            if (r.steps[k].node &&
                !map_put_num(sanitize->has_tensor_below, ptr_key(r.steps[k].node), 0, NULL))
                return fail_memory(sanitize->err);
    }
    return CKPT_OK;
}

/* is_attribute_row - returns true if ROW is in an attribute of TENSOR: ROW's path begins with TENSOR's. */
static bool is_attribute_row(const struct row *row, const struct row *tensor)
{
    for (uint32_t k = 0; k < tensor->t.npath && k < row->t.npath; k++)
        if (row->steps[k].node != tensor->steps[k].node || row->steps[k].index != tensor->steps[k].index)
            return false;
    return row->t.npath > tensor->t.npath;
}

/* keep_rows - keeps the rows that are tensors in the new graph, with the components of composites and the
 * attributes of tensors that are not rebuilt. */
static void keep_rows(struct sanitize *sanitize)
{
    const struct table *t = &sanitize->p->file->table;
    struct row unchanged = {0}; /* the last tensor that is not rebuilt: its attributes follow it */
    for (size_t i = 0; i < t->nrows; i++) {
        const struct row row = table_row(t, i);
        const ckpt_tensor *r = &row.t;
        uint32_t result_index = r->value ? map_get_num(sanitize->done, ptr_key(r->value)) : MAP_NONE;
        bool visited = result_index != MAP_NONE;
        const ckpt_value *result = visited ? sanitize->results[result_index] : NULL;
        if (result)
            sanitize->p->keep[i] = result->type == CKPT_V_TENSOR || result == r->value;
        else
            sanitize->p->keep[i] = !visited && r->part_of != CKPT_NO_TENSOR && sanitize->p->keep[r->part_of];
        if (result && result == r->value && row.steps)
            unchanged = row;
        else if (!visited && unchanged.steps && row.steps && is_attribute_row(&row, &unchanged))
            sanitize->p->keep[i] = true;
    }
    sanitize->p->entries_stale = true;
}

static ckpt_status convert_root(struct sanitize *sanitize)
{
    ckpt_plan *p = sanitize->p;
    struct value_job job = {.v = p->root};
    if (!p->root_depth && p->root != p->file->root) {
        const ckpt_leaf root = {
            .name = STR_LIT(""), .path = path_copy(p->a, NULL, 0), .value = p->file->root};
        const char *instead = plan_root_is_module(p) ? "state dict" : get_content_type(root.value);
        CKPT_TRY(add_report(sanitize, &root, NULL, instead, CHANGED));
    }
    CKPT_TRY(convert_value(sanitize, &job));
    if (!job.result) {
        char type[256];
        return fail(sanitize->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                    "the whole file is one %s, which is not plain data\n"
                    "`ckpt scan` lists what loading it would run",
                    ckpt_value_type_name(p->root, type, sizeof type));
    }
    while (sanitize->nframes)
        CKPT_TRY(convert_next_entry(sanitize));
    keep_rows(sanitize);
    p->root = job.result;
    return CKPT_OK;
}

/* ------------------------------------------------------------ unused calls */

/* report_calls_not_in - reports the calls in F's pickles that are not in VISITED and that torch refuses. */
static ckpt_status report_calls_not_in(const struct graph_visit *visited, struct sanitize *sanitize,
                                       const ckpt_file *f)
{
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->ncalls; k++) {
            const ckpt_value *v = f->pickles[i]->calls[k], *fn = v->u.call.callable;
            if (map_get_num(visited->seen, ptr_key(v)) == MAP_NONE &&
                (fn->type != CKPT_V_GLOBAL || !weights_only_allows(value_module(fn), value_name(fn))))
                CKPT_TRY(add_report(sanitize, &(ckpt_leaf){.name = STR_LIT(""), .value = v}, NULL, "", LOST));
        }
    return CKPT_OK;
}

/* report_unused_calls - reports calls that loading would run, but whose results nothing uses. */
static ckpt_status report_unused_calls(struct sanitize *sanitize)
{
    const ckpt_file *f = sanitize->p->file;
    struct graph_visit visited = {.seen = map_new(0)};
    bool ok = visited.seen && graph_visit_add(&visited, f->root);
    for (size_t i = 0; ok && i < f->nparts; i++)
        ok = graph_visit_add(&visited, f->parts[i]->root);
    for (const ckpt_value *v = f->root; ok && v;)
        v = graph_visit_next(&visited, &ok);
    ckpt_status st = ok ? report_calls_not_in(&visited, sanitize, f) : fail_memory(sanitize->err);
    for (size_t i = 0; st == CKPT_OK && i < f->nparts; i++)
        st = report_calls_not_in(&visited, sanitize, f->parts[i]);
    graph_visit_free(&visited);
    return st;
}

/* ---------------------------------------------------------------- interface */

/* check_output_loads - refuses to write a pickle that torch.load(weights_only=True) would refuse. */
static ckpt_status check_output_loads(ckpt_file *f, ckpt_error *err)
{
    struct weights_only loading;
    CKPT_TRY(weights_only_check(f, f->a, &loading, err));
    if (loading.verdict == 1)
        return CKPT_OK;
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "torch.load(weights_only=True) would refuse the output: %.*s\n"
                "a .safetensors output holds the tensors alone",
                STR_ARG(loading.why));
}

ckpt_status sanitize_plan(ckpt_plan *p, bool flat, has_dtype *holds, ckpt_error *err)
{
    struct sanitize s = {.p = p, .err = err, .checker = {.file = p->file}};
    if (flat)
        return sanitize_flat(p, holds, err);
    p->approve = check_output_loads;
    if (!p->root) /* names and tensors, nothing else */
        return CKPT_OK;
    s.checker.verdicts = map_new(0);
    s.row_of = map_new(p->file->table.nrows);
    s.has_tensor_below = map_new(0);
    s.done = map_new(0);
    s.none = value_new(p->a, CKPT_V_NONE, 0);
    bool ok = s.checker.verdicts && s.row_of && s.has_tensor_below && s.done && s.none;
    ckpt_status st = ok ? index_rows(&s) : fail_memory(err);
    CKPT_THEN(st, convert_root(&s));
    CKPT_THEN(st, report_unused_calls(&s));
    plain_checker_free(&s.checker);
    map_free(s.row_of);
    map_free(s.has_tensor_below);
    map_free(s.done);
    free(s.frames);
    return st;
}

ckpt_status sanitize_strict(const ckpt_plan *p, ckpt_error *err)
{
    const ckpt_sanitized *first = NULL;
    size_t lost = 0;
    char more[48] = "";
    for (size_t i = p->report.nsanitized; COUNT_DOWN(i);)
        if (p->report.sanitized[i].lost) {
            first = &p->report.sanitized[i];
            lost++;
        }
    if (!first)
        return CKPT_OK;
    if (lost > 1)
        (void)snprintf(more, sizeof more, ", and %zu more", lost - 1);
    return fail(err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                "\"%.*s\" (%.*s) would be left out%s\n"
                "without --strict they are left out and listed",
                STR_ARG(first->name), STR_ARG(first->type), more);
}

/* ------------------------------------------------------------ dense tensors */

static bool is_flat_tensor(const ckpt_tensor *tensor, has_dtype *holds)
{
    return (tensor->kind == CKPT_DENSE || tensor->kind == CKPT_NDARRAY) && tensor->has_data &&
           tensor->has_shape &&
           (dtype_info((ckpt_dtype)tensor->dtype)->safetensors[0] || (holds && holds(tensor)));
}

static ckpt_status leave_out(ckpt_plan *p, const struct plan_entry *entry, const ckpt_tensor *tensor,
                             ckpt_error *err)
{
    const ckpt_path_elem flat = {.str = entry->name};
    ckpt_sanitized sanitized = {
        .name = entry->name,
        .path = path_copy(p->a, &flat, 1),
        .npath = 1,
        .type = arena_printf(p->a, "%s tensor", ckpt_kind_name((ckpt_kind)tensor->kind)),
        .callable = STR_LIT(""),
        .lost = true};
    CKPT_TRY_ALLOC(sanitized.path, err);
    p->keep[entry->row] = false;
    return plan_note_sanitized(p, sanitized, err);
}

ckpt_status sanitize_flat(ckpt_plan *p, has_dtype *holds, ckpt_error *err)
{
    CKPT_TRY(plan_update_entries(p, err));
    for (size_t i = 0; i < p->nentries; i++) {
        const struct plan_entry *e = &p->entries[i];
        const ckpt_tensor t = table_tensor(&p->file->table, e->row);
        if (t.part_of != CKPT_NO_TENSOR)
            p->keep[e->row] = p->keep[t.part_of];
        else if (!is_flat_tensor(&t, holds))
            CKPT_TRY(leave_out(p, e, &t, err));
    }
    p->entries_stale = true;
    return CKPT_OK;
}
