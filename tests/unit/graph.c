/* graph.c - see graph.h. The functions may recurse, because the values in tests are not deeply nested. */
#include "graph.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/zip.h"
#include "unit.h"

void graph_read_limited(struct graph *g, const void *bytes, size_t size, uint64_t max, uint64_t fail_at)
{
    *g = (struct graph){.size = size, .bytes = unit_guard(bytes, size), .a = arena_new(max)};
    g->src = source_mem(g->bytes, size, 1000);
    if (!g->a || !g->src)
        abort();
    arena_fail_at(g->a, fail_at);
    g->status = pickle_read(g->a, g->src, 0, size, &g->facts, &g->root, &g->next, &g->err);
    arena_fail_at(g->a, 0);
}

void graph_read(struct graph *g, const void *bytes, size_t size)
{
    graph_read_limited(g, bytes, size, UINT64_MAX, 0);
}

void graph_free(struct graph *g)
{
    source_unref(g->src);
    arena_free(g->a);
    unit_guard_free(g->bytes, g->size);
}

/* A graph that is being written as text. PATH has the nodes from the root to the current node. */
struct printer {
    buf out;
    const ckpt_value *path[64];
    unsigned depth;
};

static void append_node(struct printer *s, const ckpt_value *v);

static void append_items(struct printer *s, ckpt_value *const *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        buf_put_cstr(&s->out, i ? "," : "");
        append_node(s, items[i]);
    }
}

static void append_pairs(struct printer *s, const value_pair *pairs, uint32_t n)
{
    buf_put_cstr(&s->out, "{");
    for (uint32_t i = 0; i < n; i++) {
        buf_put_cstr(&s->out, i ? "," : "");
        append_node(s, pairs[i].key);
        buf_put_cstr(&s->out, ":");
        append_node(s, pairs[i].val);
    }
    buf_put_cstr(&s->out, "}");
}

static void append_string(struct printer *s, const ckpt_value *v)
{
    static const char *const prefixes[] = {"", "s", "b", "a"};
    if (v->flags & VALUE_SPAN) {
        buf_printf(&s->out, "~%u:%" PRIu64 ":%" PRIu64, v->type - CKPT_V_STR, v->u.span->nbytes,
                   v->u.span->count);
        return;
    }
    buf_printf(&s->out, "%s'", prefixes[v->type - CKPT_V_STR]);
    buf_put_str(&s->out, v->u.str);
    buf_put_cstr(&s->out, "'");
}

static void append_call(struct printer *s, const ckpt_value *v)
{
    const struct value_extra *extra = value_extra_of(v);
    buf_byte(&s->out, (unsigned char)"RNXOI"[value_call_kind_of(v)]); /* the letters of graph_text() */
    append_node(s, v->u.call.callable);
    append_node(s, v->u.call.args);
    if (extra->kwargs)
        append_node(s, extra->kwargs);
    if (extra->nitems) {
        buf_put_cstr(&s->out, "+[");
        append_items(s, extra->items, extra->nitems);
        buf_put_cstr(&s->out, "]");
    }
    if (extra->npairs) {
        buf_put_cstr(&s->out, "+");
        append_pairs(s, extra->pairs, extra->npairs);
    }
    for (uint32_t i = 0; i < extra->nstates; i++) {
        buf_put_cstr(&s->out, "!");
        append_node(s, extra->states[i]);
    }
}

static void append_bigint(struct printer *s, ckpt_str bytes)
{
    buf_put_cstr(&s->out, "0x");
    for (size_t i = bytes.len; i-- > 0;)
        buf_printf(&s->out, "%02x", (unsigned char)bytes.ptr[i]);
}

static void append_sequence(struct printer *s, const ckpt_value *v)
{
    static const char *const prefixes[] = {"[", "(", "", "set(", "frozenset("};
    unsigned kind = v->type - CKPT_V_LIST;
    buf_put_cstr(&s->out, prefixes[kind]);
    append_items(s, v->u.seq.items, v->u.seq.n);
    buf_put_cstr(&s->out, kind == 0 ? "]" : ")");
}

static void append_by_type(struct printer *s, const ckpt_value *v)
{
    switch (v->type) {
    case CKPT_V_NONE: buf_put_cstr(&s->out, "N"); break;
    case CKPT_V_BOOL: buf_put_cstr(&s->out, v->u.b ? "T" : "F"); break;
    case CKPT_V_INT: buf_printf(&s->out, "%" PRId64, v->u.i); break;
    case CKPT_V_BIGINT: append_bigint(s, v->u.str); break;
    case CKPT_V_FLOAT: buf_printf(&s->out, "%g", v->u.f); break;
    case CKPT_V_STR:
    case CKPT_V_STR8:
    case CKPT_V_BYTES:
    case CKPT_V_BYTEARRAY: append_string(s, v); break;
    case CKPT_V_DICT: append_pairs(s, v->u.dict.pairs, v->u.dict.n); break;
    case CKPT_V_GLOBAL:
        buf_put_cstr(&s->out, "<");
        buf_put_str(&s->out, value_module(v));
        buf_put_cstr(&s->out, " ");
        buf_put_str(&s->out, value_name(v));
        buf_put_cstr(&s->out, ">");
        break;
    case CKPT_V_CALL: append_call(s, v); break;
    case CKPT_V_PERSID:
        buf_put_cstr(&s->out, "@");
        append_node(s, v->u.pid);
        break;
    default: append_sequence(s, v); break;
    }
}

static void append_node(struct printer *s, const ckpt_value *v)
{
    for (unsigned i = 0; i < s->depth; i++)
        if (s->path[i] == v) {
            buf_put_cstr(&s->out, "^");
            return;
        }
    if (s->depth == 64) {
        buf_put_cstr(&s->out, "...");
        return;
    }
    s->path[s->depth++] = v;
    append_by_type(s, v);
    s->depth--;
}

const char *graph_text(const ckpt_value *v)
{
    static char text[4096];
    struct printer s = {.depth = 0};
    buf_init(&s.out, sizeof text - 1);
    append_node(&s, v);
    ckpt_str all = buf_view(&s.out);
    if (all.len)
        memcpy(text, all.ptr, all.len);
    text[all.len] = 0;
    buf_free(&s.out);
    return text;
}

static void (*pickle_callback)(const char *path, ckpt_str bytes);

/* visit_archive - calls pickle_callback for each .pkl member of the archive at PATH; returns 0 for nftw(). */
static int visit_archive(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    source *src = NULL;
    arena *a = arena_new(64 << 20);
    zip *z = NULL;
    (void)st;
    (void)where;
    if (flag == FTW_F && source_file_open(path, &src, NULL) == CKPT_OK &&
        zip_open(src, a, &z, NULL) == CKPT_OK)
        for (size_t i = 0; i < z->n; i++) {
            ckpt_str bytes;
            if (str_ends(z->entries[i].name, STR_LIT(".pkl")) &&
                zip_load_member(z, i, 16 << 20, &bytes, NULL) == CKPT_OK)
                pickle_callback(path, bytes);
        }
    zip_close(z);
    arena_free(a);
    source_unref(src);
    return 0;
}

void for_each_corpus_pickle(void (*on_pickle)(const char *path, ckpt_str bytes))
{
    pickle_callback = on_pickle;
    CU_ASSERT_EQUAL_FATAL(nftw(unit_corpus_path("torch"), visit_archive, 16, FTW_PHYS), 0);
}
