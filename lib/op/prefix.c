/* prefix.c - prefixes that wrappers of modules add to parameter names, and how to remove them. */
#include "op/prefix.h"

#include <stdio.h>

/* From torch/nn/parallel/data_parallel.py, torch/_dynamo/eval_frame.py,
 * torch/distributed/fsdp/_common_utils.py, torch 1.13's fsdp/flatten_params_wrapper.py and fairscale,
 * torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py, Lightning's _FabricModule, Opacus'
 * GradSampleModule. */
#define PREFIX(text) {text, sizeof(text) - 1}
const struct wrapper_name wrapper_names[WRAPPER_NAMES] = {
    {PREFIX("module."), false},
    {PREFIX("_orig_mod."), true},
    {PREFIX("_fsdp_wrapped_module."), true},
    {PREFIX("_fpw_module."), true},
    {PREFIX("_checkpoint_wrapped_module."), true},
    {PREFIX("_forward_module."), true},
    {PREFIX("_module."), false},
};

/* component_length - returns the length of the component at FROM, with its dot. */
static size_t component_length(ckpt_str text, size_t from)
{
    const char *dot = from < text.len ? memchr(text.ptr + from, '.', text.len - from) : NULL;
    return dot ? (size_t)(dot - text.ptr) + 1 - from : text.len - from;
}

bool contains_prefix(ckpt_str text, ckpt_str prefix)
{
    for (size_t i = 0; i < text.len; i += component_length(text, i))
        if (str_starts(str_skip(text, i), prefix))
            return true;
    return false;
}

/* strip_components - copies TEXT to OUT without PREFIX, which ends in a dot; returns the length. Whenever the
 * copy ends in PREFIX, this PREFIX is cut off again. So one pass also finds a prefix that forms when a prefix
 * inside it is removed. */
static size_t strip_components(ckpt_str text, ckpt_str prefix, char *out)
{
    size_t len = 0;
    for (size_t i = 0, n; i < text.len; i += n) {
        n = component_length(text, i);
        memcpy(out + len, text.ptr + i, n);
        len += n;
        size_t start = len < prefix.len ? 0 : len - prefix.len;
        if (len >= prefix.len && memcmp(out + start, prefix.ptr, prefix.len) == 0 &&
            (start == 0 || out[start - 1] == '.'))
            len = start;
    }
    return len;
}

/* strip_partial - copies TEXT to OUT without PREFIX, which does not end in a dot, at starts of components. */
static size_t strip_partial(ckpt_str text, ckpt_str prefix, char *out)
{
    size_t len = 0;
    for (size_t i = 0, n; i < text.len; i += n) {
        if (str_starts(str_skip(text, i), prefix))
            i += prefix.len;
        n = component_length(text, i);
        memcpy(out + len, text.ptr + i, n);
        len += n;
    }
    return len;
}

ckpt_str prefix_strip(arena *a, ckpt_str text, ckpt_str prefix, bool anywhere)
{
    if (!prefix.len)
        return text;
    if (!anywhere)
        return str_starts(text, prefix) ? str_skip(text, prefix.len) : text;
    if (!contains_prefix(text, prefix))
        return text;
    char *out = arena_alloc(a, text.len + 1);
    if (!out)
        return str_of(NULL, 0);
    return str_of(out, prefix.ptr[prefix.len - 1] == '.' ? strip_components(text, prefix, out)
                                                         : strip_partial(text, prefix, out));
}

const struct wrapper_name *find_wrapper(ckpt_str prefix)
{
    for (size_t i = 0; i < WRAPPER_NAMES; i++)
        if (str_eq(prefix, wrapper_names[i].prefix))
            return &wrapper_names[i];
    return NULL;
}

static bool is_certain_wrapper(ckpt_str text)
{
    const struct wrapper_name *w = find_wrapper(text);
    return w && w->certain;
}

/* may_be_wrapper - returns false if PREFIX begins or ends as none of wrapper_names. */
static bool may_be_wrapper(ckpt_str prefix)
{
    return prefix.len > 2 && (prefix.ptr[0] == 'm' || prefix.ptr[0] == '_') &&
           (prefix.ptr[prefix.len - 2] == 'e' || prefix.ptr[prefix.len - 2] == 'd');
}

bool contains_wrapper(ckpt_str text, bool certain)
{
    for (size_t i = 0, n; i < text.len; i += n) {
        n = component_length(text, i);
        ckpt_str component = str_of(text.ptr + i, n);
        const struct wrapper_name *w = may_be_wrapper(component) ? find_wrapper(component) : NULL;
        if (w && (w->certain || !certain))
            return true;
    }
    return false;
}

ckpt_str prefix_strip_certain(arena *a, ckpt_str text)
{
    size_t len = 0;
    if (!contains_wrapper(text, true))
        return text;
    char *out = arena_alloc(a, text.len + 1);
    if (!out)
        return str_of(NULL, 0);
    for (size_t i = 0, n; i < text.len; i += n) {
        n = component_length(text, i);
        if (is_certain_wrapper(str_of(text.ptr + i, n)))
            continue;
        memcpy(out + len, text.ptr + i, n);
        len += n;
    }
    return str_of(out, len);
}

void prefixes_add(struct prefixes *seen, ckpt_str name)
{
    size_t n = component_length(name, 0), i = 0;
    if (n == name.len)
        return;
    while (i < seen->n && !str_eq(seen->component[i], str_of(name.ptr, n)))
        i++;
    if (i == PREFIXES_MAX)
        return;
    seen->n += i == seen->n;
    seen->component[i] = str_of(name.ptr, n);
    seen->count[i]++;
}

const char *prefixes_text(const struct prefixes *seen, char *out, size_t cap)
{
    enum { MAX_SHOWN = 3 };
    bool shown[PREFIXES_MAX] = {false};
    size_t len = 0;
    out[0] = '\0';
    for (int k = 0; k < MAX_SHOWN; k++) {
        size_t best = PREFIXES_MAX;
        for (size_t i = 0; i < seen->n; i++)
            if (!shown[i] && (best == PREFIXES_MAX || seen->count[i] > seen->count[best]))
                best = i;
        if (best == PREFIXES_MAX || len >= cap)
            break;
        shown[best] = true;
        len += (size_t)snprintf(out + len, cap - len, "%s\"%.*s\"", k ? ", " : "",
                                seen->component[best].len < 80 ? (int)seen->component[best].len : 80,
                                seen->component[best].ptr);
    }
    return out;
}
