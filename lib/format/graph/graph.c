/* graph.c - what the files that read a graph share: errors at a node, and tuples of sizes. */
#include "format/graph/graph.h"

#include <stdarg.h>

uint64_t graph_offset(const struct graph *graph, const ckpt_value *value)
{
    uint64_t at = graph->input->pickle ? source_pos(graph->input->pickle, value_offset(value))
                                       : CKPT_NO_OFFSET;
    return at == CKPT_NO_OFFSET && graph->input->pickle_offset ? graph->input->pickle_offset : at;
}

ckpt_status graph_fail(struct graph *graph, const ckpt_value *value, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(graph->err, CKPT_EFORMAT, graph_offset(graph, value), fmt, args);
    va_end(args);
    return CKPT_EFORMAT;
}

ckpt_status graph_fail_expected(struct graph *graph, const ckpt_value *value, const char *must_be,
                                const char *expected, const ckpt_value *found)
{
    char text[96] = "nothing";
    if (found)
        value_text_or_type(found, 8, text, sizeof text);
    return graph_fail(graph, value, "%s {=%s}, found {%s}", must_be, expected, text);
}

ckpt_status graph_read_new_sizes(struct graph *graph, const ckpt_value *value, const char *what,
                                 const uint64_t **out)
{
    char shown[64];
    uint32_t n = value ? value_count(value) : 0;
    if (value && value->type != CKPT_V_TUPLE && value->type != CKPT_V_LIST)
        return graph_fail(graph, value, "%s is {a %s}, it must be {=a tuple of integers}", what,
                          ckpt_value_type_name(value, shown, sizeof shown));
    uint64_t *sizes = arena_array(graph->f->a, n, sizeof *sizes);
    if (!sizes)
        return fail_memory(graph->err);
    for (uint32_t i = 0; i < n; i++)
        if (!value_size(value_item(value, i), &sizes[i])) {
            value_text_or_type(value_item(value, i), 4, shown, sizeof shown);
            return graph_fail(graph, value, "%s[%u] is {%s}, it must be {=an integer >= 0}", what, i, shown);
        }
    *out = sizes;
    return CKPT_OK;
}
