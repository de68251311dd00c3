/*
 * skops.c - judges the nodes in the schema.json of a skops archive. "__loader__" is how skops makes the
 * object of a node; "__module__" and "__class__" name a type or function that it imports for that
 * (skops/io/_general.py). It refuses a name that it does not know, unless the caller trusts it. A name that
 * is harmless for one loader is not for another: a type can be a value in one node, and be called in another.
 */
#include "scan/scan.h"

static const struct known_type {
    const char *loaders, *modules, *names;
} known_types[] = {
#define TARGETS(loaders, modules, names) {loaders, modules, names},
#include "scan/skops_types.def"
#undef TARGETS
};

/* The classes of numpy.random that may restore a generator. */
#define BIT_GENERATORS "MT19937 PCG64 PCG64DXSM Philox SFC64"
/* Nodes that skops makes without their names: of JSON and numbers alone, or another node again. */
#define NAMELESS_LOADERS "JsonNode SliceNode CachedNode"

static bool is_known(ckpt_str loader, ckpt_str module, ckpt_str name)
{
    for (size_t i = 0; i < sizeof known_types / sizeof *known_types; i++) {
        const struct known_type *t = &known_types[i];
        if (str_matches_word(loader, t->loaders, str_eq) && str_matches_word(module, t->modules, str_eq) &&
            str_matches_word(name, t->names, str_eq))
            return true;
    }
    return false;
}

static const char *const text_keys[SKOPS_TEXTS] = {
    [SKOPS_LOADER] = "__loader__", [SKOPS_MODULE] = "__module__",           [SKOPS_CLASS] = "__class__",
    [SKOPS_METHOD] = "func",       [SKOPS_FUNCTION_MODULE] = "module_path", [SKOPS_FUNCTION] = "function",
    [SKOPS_GENERATOR] = "content",
};

void skops_note_text(struct skops_node *node, ckpt_str key, ckpt_str text)
{
    for (size_t i = 0; i < SKOPS_TEXTS; i++)
        if (str_is(key, text_keys[i]))
            node->own[i] = text;
}

void skops_note_object(struct skops_node *node, ckpt_str key, const struct skops_node *member)
{
    bool is_content = str_is(key, "content");
    if (is_content)
        memcpy(node->content, member->own, sizeof node->content);
    if (is_content || str_is(key, "bit_generator"))
        node->own[SKOPS_GENERATOR] = member->own[SKOPS_GENERATOR];
}

/* A node that is judged, and where it ends. */
struct judged_node {
    const struct scanned *in;
    const struct skops_node *node;
    size_t at;
};

static ckpt_status judge_name(const struct judged_node *node, ckpt_str module, ckpt_str name)
{
    if (is_known(node->node->own[SKOPS_LOADER], module, name))
        return CKPT_OK;
    return SCAN_FOUND(node->in, SCAN_CONFIG_TARGET, node->at, "it names %.*s.%.*s", STR_ARG(module),
                      STR_ARG(name));
}

/* unquote - returns JSON without the quotes of a text. */
static ckpt_str unquote(ckpt_str json)
{
    return json.len >= 2 && json.ptr[0] == '"' ? str_of(json.ptr + 1, json.len - 2) : json;
}

/* judge_content - reports what the content of the node names. */
static ckpt_status judge_content(const struct judged_node *node)
{
    const ckpt_str *own = node->node->own, *content = node->node->content;
    ckpt_str loader = own[SKOPS_LOADER], generator = unquote(own[SKOPS_GENERATOR]);
    if (str_is(loader, "FunctionNode") && content[SKOPS_FUNCTION_MODULE].ptr && content[SKOPS_FUNCTION].ptr)
        return judge_name(node, content[SKOPS_FUNCTION_MODULE], content[SKOPS_FUNCTION]); /* protocol 0 */
    if (str_is(loader, "MethodNode"))
        return SCAN_FOUND(node->in, SCAN_CONFIG_TARGET, node->at, "it names the method %.*s.%.*s.%.*s",
                          STR_ARG(own[SKOPS_MODULE]), STR_ARG(own[SKOPS_CLASS]),
                          STR_ARG(content[SKOPS_METHOD]));
    if (!str_is(loader, "RandomGeneratorNode") || str_matches_word(generator, BIT_GENERATORS, str_eq))
        return CKPT_OK;
    if (!generator.len)
        return SCAN_FOUND(node->in, SCAN_CONFIG_TARGET, node->at,
                          "it does not name its bit generator where skops looks for it");
    return SCAN_FOUND(node->in, SCAN_CONFIG_TARGET, node->at,
                      "it names {numpy.random.%.*s}, which is {=no bit generator}", STR_ARG(generator));
}

ckpt_status skops_judge(const struct scanned *in, const struct skops_node *node, size_t at)
{
    const struct judged_node j = {in, node, at};
    const ckpt_str *own = node->own;
    ckpt_str loader = own[SKOPS_LOADER], module = own[SKOPS_MODULE], name = own[SKOPS_CLASS];
    bool is_node = loader.ptr && module.ptr && name.ptr;
    if (!is_node || str_matches_word(loader, NAMELESS_LOADERS, str_eq))
        return CKPT_OK;
    CKPT_TRY(judge_content(&j));
    return str_is(loader, "MethodNode") ? CKPT_OK : judge_name(&j, module, name);
}
