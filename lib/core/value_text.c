/* value_text.c - writes a node as one short line that looks like Python. Uses its own stack: depth, number of
 * nodes and length of each text are limited, and a container that is being shown is not entered again. */
#include <stdio.h>

#include "core/value_leaf.h"
#include "core/view.h"

#define MAX_DEPTH 48
#define MAX_NODES 100000 /* shown as a tree, a graph of shared nodes can be exponentially large */

struct text_frame {
    const ckpt_value *node;
    struct view view;
    const char *close;
    size_t i;
    bool at_value; /* the key of child I has been written */
};

struct text_writer {
    struct text_sink out;
    size_t nodes_left;  /* nodes that may still be shown */
    size_t total_items; /* of the outermost container, if some are left out; else 0 */
    size_t depth;
    struct text_frame stack[MAX_DEPTH];
};

static struct view view_to_show(const ckpt_value *v)
{
    struct view view = view_of(v);
    return view.kind == VIEW_LEAF ? view_arguments(v) : view;
}

/* open_builtin - writes what comes before the children; returns what comes after them. */
static const char *open_builtin(struct text_writer *w, const ckpt_value *v, size_t n)
{
    switch ((ckpt_value_type)v->type) {
    case CKPT_V_LIST: text_put_literal(&w->out, "["); return "]";
    case CKPT_V_TUPLE: text_put_literal(&w->out, "("); return n == 1 ? ",)" : ")";
    case CKPT_V_SET: text_put_literal(&w->out, n ? "{" : "set("); return n ? "}" : ")";
    case CKPT_V_FROZENSET: text_put_literal(&w->out, n ? "frozenset({" : "frozenset("); return n ? "})" : ")";
    default: text_put_literal(&w->out, "{"); return "}";
    }
}

static const char *open_call(struct text_writer *w, const ckpt_value *v, const struct view *view)
{
    if (is_builtin(view_class(v), "set") && view->n) {
        text_put_literal(&w->out, "{");
        return "}";
    }
    leaf_class(&w->out, v);
    if (view->n == 0 || view->kind == VIEW_ATTRS || view->arguments) {
        text_put_literal(&w->out, "(");
        return ")";
    }
    bool brackets = view->kind == VIEW_ITEMS && !is_builtin(view_class(v), "frozenset");
    text_put_literal(&w->out, brackets ? "([" : "({");
    return brackets ? "])" : "})";
}

static bool is_on_stack(const struct text_writer *w, const ckpt_value *v)
{
    for (size_t i = 0; i < w->depth; i++)
        if (w->stack[i].node == v)
            return true;
    return false;
}

static void show_node(struct text_writer *w, const ckpt_value *v)
{
    if (w->nodes_left == 0) {
        text_put_literal(&w->out, ELLIPSIS);
        return;
    }
    w->nodes_left--;
    if (leaf_text(&w->out, v))
        return;
    struct view view = view_to_show(v);
    const char *close = v->type == CKPT_V_CALL ? open_call(w, v, &view) : open_builtin(w, v, view.n);
    if (view.n == 0) {
        text_put_literal(&w->out, close);
    } else if (w->depth == MAX_DEPTH || is_on_stack(w, v)) {
        text_put_literal(&w->out, ELLIPSIS);
        text_put_literal(&w->out, close);
    } else {
        w->stack[w->depth++] = (struct text_frame){v, view, close, 0, false};
    }
}

/* is_identifier - returns true if S can be written before `=`. */
static bool is_identifier(ckpt_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return s.len > 0 && s.len <= 200;
}

static void show_key(struct text_writer *w, const struct text_frame *f, const ckpt_value *key)
{
    ckpt_str name;
    if (f->view.kind == VIEW_ATTRS && value_text(key, &name) && is_identifier(name))
        text_put(&w->out, name.ptr, name.len);
    else
        show_node(w, key);
}

static void show_next(struct text_writer *w)
{
    struct text_frame *f = &w->stack[w->depth - 1];
    const ckpt_value *key = NULL, *val = NULL;
    bool has_item = view_item(&f->view, f->i, &key, &val);
    if (f->at_value) {
        f->at_value = false;
        f->i++;
        text_put_literal(&w->out, f->view.kind == VIEW_ATTRS ? "=" : ": ");
        show_node(w, val);
        return;
    }
    if (has_item && f->i)
        text_put_literal(&w->out, ", ");
    if (has_item && w->nodes_left) {
        f->at_value = key != NULL;
        f->i += key == NULL;
        if (key)
            show_key(w, f, key);
        else
            show_node(w, val);
        return;
    }
    if (has_item)
        text_put_literal(&w->out, ELLIPSIS);
    text_put_literal(&w->out, f->close);
    w->depth--;
    if (has_item && w->depth == 0)
        w->total_items = f->view.n;
}

size_t ckpt_value_text(const ckpt_value *v, size_t nodes, char *buf, size_t cap)
{
    struct text_writer w = {.out = {buf, buf ? cap : 0, 0, 0},
                            .nodes_left = nodes < MAX_NODES ? nodes : MAX_NODES};
    w.nodes_left += w.nodes_left == 0;
    show_node(&w, v);
    while (w.depth)
        show_next(&w);
    if (w.total_items) {
        char count[32];
        text_put(&w.out, count, (size_t)snprintf(count, sizeof count, " %zu items", w.total_items));
    }
    return text_end(&w.out);
}

void value_show(const ckpt_value *v, size_t nodes, char *buf, size_t cap)
{
    if (ckpt_value_text(v, nodes, buf, cap) >= cap && !buf[0])
        (void)ckpt_value_type_name(v, buf, cap);
}
