/* graph.c - what the files that read a graph share: errors at a node, and tuples of sizes. */
#include "format/graph/graph.h"

#include <stdarg.h>

uint64_t graph_offset(const struct graph *g, const ckpt_value *v)
{
    uint64_t at = g->input->pickle ? source_pos(g->input->pickle, value_offset(v)) : CKPT_NO_OFFSET;
    return at == CKPT_NO_OFFSET && g->input->pickle_offset ? g->input->pickle_offset : at;
}

ckpt_status graph_fail(struct graph *g, const ckpt_value *v, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fail_v(g->err, CKPT_EFORMAT, graph_offset(g, v), fmt, args);
    va_end(args);
    return CKPT_EFORMAT;
}

ckpt_status graph_fail_expected(struct graph *g, const ckpt_value *v, const char *must_be,
                                const char *expected, const ckpt_value *found)
{
    char text[96] = "nothing";
    if (found)
        value_text_or_type(found, 8, text, sizeof text);
    return graph_fail(g, v, "%s {=%s}, found {%s}", must_be, expected, text);
}

ckpt_status graph_read_sizes(struct graph *g, const ckpt_value *v, const char *what, uint32_t *n,
                             const uint64_t **out)
{
    char shown[64];
    if (v && v->type == CKPT_V_CALL && value_nargs(v) == 1) /* torch.Size((…)) */
        v = value_arg(v, 0);
    if (v && v->type != CKPT_V_TUPLE && v->type != CKPT_V_LIST)
        return graph_fail(g, v, "%s is {a %s}, it must be {=a tuple of integers}", what,
                          ckpt_value_type_name(v, shown, sizeof shown));
    size_t ncached = sizeof g->cached_sizes / sizeof *g->cached_sizes;
    struct cached_sizes *cached = &g->cached_sizes[ptr_key(v) / sizeof *v % ncached];
    *n = v ? value_count(v) : 0;
    *out = cached->sizes;
    if (v && cached->tuple == v)
        return CKPT_OK;
    uint64_t *sizes = arena_array(g->f->a, *n, sizeof *sizes);
    if (!sizes)
        return fail_memory(g->err);
    for (uint32_t i = 0; i < *n; i++)
        if (!value_size(value_item(v, i), &sizes[i])) {
            value_text_or_type(value_item(v, i), 4, shown, sizeof shown);
            return graph_fail(g, v, "%s[%u] is {%s}, it must be {=an integer >= 0}", what, i, shown);
        }
    *cached = (struct cached_sizes){v, sizes};
    *out = sizes;
    return CKPT_OK;
}
