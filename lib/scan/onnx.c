/*
 * onnx.c - scans ONNX, as codec/onnx reads it. Nothing in it runs when it is loaded; but some operators of
 * ONNX Runtime call Python, and the values of a tensor can be in another file, whose path may be absolute or
 * have "..", and so lead to any file of the user (CVE-2022-25882, CVE-2024-27318). If it is
 * the path by which ONNX Runtime refers to values in its own memory, their offset is an address, from which
 * some loaders read. An EPContext has a model that an execution provider compiled, or the path of one.
 */
#include "codec/onnx.h"

#include "scan/scan.h"

#define MEMORY_PATH "*/_ORT_MEM_ADDR_/*" /* the path itself; its stars are no pattern */

struct onnx_visit {
    const struct scanned *in;
    uint64_t tensor_bytes;
};

static ckpt_status visit_tensor(void *user, const struct onnx_tensor *tensor, ckpt_error *err)
{
    struct onnx_visit *v = user;
    (void)err;
    v->tensor_bytes += tensor->bytes; /* each is in the file */
    CKPT_TRY(scan_check_tensor_name(v->in, tensor->at, tensor->name));
    if (tensor->is_external && str_is(tensor->location, MEMORY_PATH))
        return SCAN_FOUND(v->in, SCAN_EXTERNAL_PATH, tensor->external_at,
                          "a tensor's values are at an address in the loader's memory: \"%.*s\"",
                          STR_ARG(tensor->location));
    if (!tensor->is_external || !scan_path_leaves_folder(tensor->location))
        return CKPT_OK;
    return SCAN_FOUND(v->in, SCAN_EXTERNAL_PATH, tensor->external_at,
                      "a tensor's values are in \"%.*s\", outside of the model's folder",
                      STR_ARG(tensor->location));
}

static ckpt_status visit_node(void *user, ckpt_str domain, ckpt_str op_type, uint64_t at, ckpt_error *err)
{
    static const char *const python_operators[] = {"PyOp", "PythonOp", "PythonOpGrad"};
    const struct onnx_visit *v = user;
    (void)err;
    bool is_standard = domain.len == 0; /* the domain of ONNX's own operators, of which none calls Python */
    for (size_t i = 0; !is_standard && i < sizeof python_operators / sizeof *python_operators; i++)
        if (str_is(op_type, python_operators[i]))
            return SCAN_FOUND(v->in, SCAN_GRAPH_CODE, at, "the operation %s calls Python",
                              python_operators[i]);
    return CKPT_OK;
}

/* visit_attribute - reports the path of a compiled model outside of the folder. If the
 * model itself is in the attribute, that is no path, because it is longer than any. */
static ckpt_status visit_attribute(void *user, ckpt_str name, ckpt_str text, uint64_t at, ckpt_error *err)
{
    const struct onnx_visit *v = user;
    (void)err;
    if (!str_is(name, "ep_cache_context") || !scan_path_leaves_folder(text))
        return CKPT_OK;
    return SCAN_FOUND(v->in, SCAN_EXTERNAL_PATH, at,
                      "the compiled model of an EPContext is in \"%.*s\", outside of the model's folder",
                      STR_ARG(text));
}

ckpt_status scan_onnx(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    struct onnx_visit v = {.in = in};
    arena *a = arena_new((uint64_t)1 << 30);
    struct onnx o = {.src = in->src,
                     .a = a,
                     .on_tensor = visit_tensor,
                     .on_node = visit_node,
                     .on_attribute = visit_attribute,
                     .user = &v};
    ckpt_error why;
    x->format = x->depth ? x->format : "onnx";
    ckpt_status st = a ? onnx_read(&o, &why) : fail_memory(&why);
    arena_free(a);
    if (st != CKPT_OK) {
        CKPT_TRY(scan_byte_patterns(in, false, err));
        return scan_report_read_error(in, o.error_offset, &why, err);
    }
    scan_count_bytes(in->src, &x->scan->result->in_tensors, v.tensor_bytes);
    *known_bytes += in->src->size; /* the sum is at most the size of the file */
    return CKPT_OK;
}
