/*
 * skops.c - judges the nodes in the schema.json of a skops archive. Each names a type or function by
 * "__module__" and "__class__" (skops/io/_general.py), which skops imports; it refuses one that it does not
 * know unless the caller trusts it by name.
 */
#include "scan/scan.h"

static const struct target_list known_types[] = {
#define TARGETS(module, names) {module, names},
#include "scan/skops_types.def"
#undef TARGETS
};

void skops_note_text(struct skops_node *node, ckpt_str key, ckpt_str text)
{
    if (str_is(key, "__module__"))
        node->module = text;
    else if (str_is(key, "__class__"))
        node->name = text;
    else if (str_is(key, "__loader__"))
        node->has_loader = true;
}

ckpt_status skops_judge(struct scanner *x, const struct skops_node *node, source *src, ckpt_str where,
                        size_t at)
{
    bool is_node = node->has_loader && node->module.ptr && node->name.ptr;
    if (!is_node || target_list_has(known_types, sizeof known_types / sizeof *known_types, node->module,
                                    node->name))
        return CKPT_OK;
    return scan_found(x->scan, SCAN_CONFIG_TARGET, where, src, at, "it names %.*s.%.*s",
                      STR_ARG(node->module), STR_ARG(node->name));
}
