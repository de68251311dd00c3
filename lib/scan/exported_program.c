/*
 * exported_program.c - judges the texts in the JSON of torch's exported programs (models/NAME.json in a .pt2,
 * serialized_exported_program.json up to torch 2.7), below "graph_module". torch.export.load, module() and
 * unflatten() write many of them into Python code, which they run:
 *
 *   name         of an input, value, node or keyword: a variable or a parameter of the code
 *   path         of a weight or module: self.a.b, or getattr(self.a, "0") if a component is no identifier
 *   constant     a text among the inputs: == 'text' in a guard, and once more in its message, in double
 *                quotes. A number may be a text, too: torch does not check it
 *   function     is not written, but looked up in the module torch, math or operator, and called
 *
 * Other texts are written as Python's repr(), or not at all. The example inputs (data/sample_inputs/NAME.pt,
 * serialized_example_inputs.pt) are a file of torch.save; the keys of its mappings are in the messages, too.
 * Source: torch/_export/serde/serialize.py, torch/fx/graph.py, torch/export/_unlift.py, unflatten.py.
 */
#include "core/graph_visit.h"
#include "format/registry.h"
#include "scan/scan.h"

/* Names that the torch.export of any version writes, and that compute or set a mode. Others may be looked up,
 * too, but import modules or open files. */
static const struct target_list known_functions[] = {
    {"_operator",
     "abs add and_ eq floordiv ge getitem gt index inv invert le lshift lt matmul mod mul ne neg not_ or_ "
     "pos pow rshift sub truediv xor"},
    {"math",
     "acos acosh asin asinh atan atan2 atanh ceil cos cosh erf exp fabs floor fmod isinf isnan log log10 "
     "log2 pow sin sinh sqrt tan tanh trunc"},
    {"torch",
     "_sym_acos _sym_asin _sym_atan _sym_cos _sym_cosh _sym_log2 _sym_sin _sym_sinh _sym_sqrt _sym_tan "
     "_sym_tanh sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum"},
    {"torch._C", "_set_grad_enabled"},
    {"torch._functorch.predispatch",
     "_add_batch_dim _enter_dual_level _exit_dual_level _jvp_decrement_nesting _jvp_increment_nesting "
     "_make_dual _remove_batch_dim _unpack_dual _unwrap_for_grad _vmap_decrement_nesting "
     "_vmap_increment_nesting lazy_load_decompositions"},
    {"torch.amp.autocast_mode", "_enter_autocast _exit_autocast"},
    {"torch.autograd.grad_mode", "set_grad_enabled"},
    {"torch.fx.experimental.symbolic_shapes", "cast_symbool_to_symint_guardless"},
    {"torch.ops", "cond map map_impl out_dtype run_with_rng_state while_loop"}, /* up to torch 2.2 */
};

/* Operations that read or write a file of their choice. */
static const struct target_list file_operations[] = {
    {"torch.ops.aten", "from_file save"},
    {"torch.ops.debugprims", "load_tensor"},
};

/* is_name_char - returns true if CHARACTER may be in an identifier. No byte beyond ASCII ends one: in Python,
 * such characters are letters or a syntax error. */
static bool is_name_char(char character, bool is_first)
{
    unsigned char u = (unsigned char)character;
    bool is_letter = u >= 0x80 || u == '_' || ((u | 0x20) >= 'a' && (u | 0x20) <= 'z');
    return is_letter || (!is_first && u >= '0' && u <= '9');
}

bool exported_is_name(ckpt_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_name_char(text.ptr[i], i == 0))
            return false;
    return true; /* no name, if it is empty */
}

static bool is_in_quotes(ckpt_str text, const char *quotes)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == '\\' || strchr(quotes, text.ptr[i]))
            return false;
    return true;
}

static bool is_path(ckpt_str text) { return is_in_quotes(text, "\""); }
bool exported_is_constant(ckpt_str text) { return is_in_quotes(text, "\"'"); }
static bool is_never(ckpt_str text) { return text.len == 0; }

/* is_function_name - returns true if TEXT is NAME.NAME…, as torch writes functions; or #EXTENSION:NAME. */
static bool is_function_name(ckpt_str text)
{
    ckpt_str rest = str_starts(text, STR_LIT("#")) ? str_skip(text, 1) : text;
    size_t colon = rest.len < text.len ? str_find(rest, STR_LIT(":"), 0) : SIZE_MAX;
    if (colon != SIZE_MAX && !exported_is_name(str_of(rest.ptr, colon)))
        return false;
    rest = colon == SIZE_MAX ? rest : str_skip(rest, colon + 1);
    while (rest.len)
        if (!exported_is_name(str_take_until(&rest, '.')))
            return false;
    return true;
}

/* What a text under one of KEYS must be; the key of an array is that of its texts. */
static const struct text_kind {
    const char *keys;
    bool (*is_allowed)(ckpt_str text);
    const char *what;
} text_kinds[] = {
    {"name as_name user_input_name forward_arg_names", exported_is_name, "an identifier"},
    {"parameter_name buffer_name tensor_constant_name custom_obj_name fqn nn_module_stack", is_path,
     "a path without quotes and line ends"},
    {"target as_operator", is_function_name, "a function's name"},
};
static const struct text_kind constant_kind = {"", exported_is_constant,
                                               "a text without quotes and line ends"};
static const struct text_kind number_kind = {"as_bool as_bools as_int as_int_lists as_ints", is_never,
                                             "a number"};

static const struct text_kind *find_kind(const struct exported_text *text)
{
    for (size_t i = 0; i < sizeof text_kinds / sizeof *text_kinds; i++)
        if (str_matches_word(text->key, text_kinds[i].keys, str_eq))
            return &text_kinds[i];
    if (str_matches_word(text->key, number_kind.keys, str_eq))
        return &number_kind;
    return text->is_input ? &constant_kind : NULL;
}

/* is_known_function - returns true if NAME is not looked up in a module, is an operation, or is known. */
static bool is_known_function(ckpt_str name)
{
    ckpt_str rest = name, last = str_after_last(name, '.');
    size_t ncomponents = 0;
    while (rest.len) {
        (void)str_take_until(&rest, '.');
        ncomponents++;
    }
    if (!str_starts(name, STR_LIT("torch")) && !str_starts(name, STR_LIT("math")) &&
        !str_starts(name, STR_LIT("_operator")))
        return true;
    if (str_starts(name, STR_LIT("torch.ops.")) && (ncomponents == 4 || ncomponents == 5))
        return true; /* torch.ops.NAMESPACE.OPERATION, or its .OVERLOAD */
    if (last.len == name.len)
        return false;
    ckpt_str module = str_of(name.ptr, name.len - last.len - 1);
    return target_list_has(known_functions, sizeof known_functions / sizeof *known_functions, module, last);
}

/* is_file_operation - returns true if NAME is one of file_operations, or an overload of one. */
static bool is_file_operation(ckpt_str name)
{
    ckpt_str rest = name;
    for (size_t i = 0; i < 3; i++)
        (void)str_take_until(&rest, '.');
    ckpt_str module = str_of(name.ptr, rest.len < name.len ? name.len - rest.len - 1 : 0);
    return target_list_has(file_operations, sizeof file_operations / sizeof *file_operations, module,
                           str_take_until(&rest, '.'));
}

ckpt_status exported_judge_text(const struct scanned *in, const struct exported_text *text)
{
    const struct text_kind *kind = find_kind(text);
    if (!kind)
        return CKPT_OK;
    if (!kind->is_allowed(text->text))
        return SCAN_FOUND(in, SCAN_EVALUATED_TEXT, text->at,
                          "the \"%.*s\" {%.*s} is not {=%s}, and torch writes it into Python code",
                          STR_ARG(text->key), STR_ARG(text->text), kind->what);
    if (kind->is_allowed != is_function_name)
        return CKPT_OK;
    if (is_file_operation(text->text))
        return SCAN_FOUND(in, SCAN_GRAPH_CODE, text->at,
                          "the operation %.*s reads or writes a file of its choice", STR_ARG(text->text));
    return is_known_function(text->text)
               ? CKPT_OK
               : SCAN_FOUND(in, SCAN_CONFIG_TARGET, text->at, "a graph calls %.*s", STR_ARG(text->text));
}

/* ----------------------------------------------------------- example inputs */

struct example_inputs {
    const struct scanned *in;
    ckpt_status st; /* of reporting */
};

/* judge_value - for graph_visit_children: reports VALUE if it is a text or bytes that cannot be in quotes. */
static bool judge_value(void *user, const ckpt_value *value)
{
    struct example_inputs *e = user;
    bool is_text = value &&
                   (value->type == CKPT_V_STR || value->type == CKPT_V_STR8 || value->type == CKPT_V_BYTES);
    if (!is_text || (!(value->flags & VALUE_SPAN) && exported_is_constant(value->u.str)))
        return true;
    ckpt_str shown = value->flags & VALUE_SPAN ? STR_LIT("a long text") : value->u.str;
    e->st = SCAN_FOUND(e->in, SCAN_EVALUATED_TEXT, CKPT_NO_OFFSET,
                       "{%.*s} in the example inputs is not {=%s}, and torch writes keys into Python code",
                       STR_ARG(shown), constant_kind.what);
    return e->st == CKPT_OK;
}

static ckpt_status judge_values(struct example_inputs *inputs, const ckpt_value *root, ckpt_error *err)
{
    struct graph_visit visit = {.seen = map_new(16)};
    const ckpt_value *v;
    bool ok = visit.seen && graph_visit_add(&visit, root);
    while (ok && inputs->st == CKPT_OK && (v = graph_visit_next(&visit, &ok)))
        (void)graph_visit_children(v, judge_value, inputs);
    graph_visit_free(&visit);
    return ok ? inputs->st : fail_memory(err);
}

ckpt_status exported_judge_example_inputs(const struct scanned *in, ckpt_error *err)
{
    ckpt_file *f;
    ckpt_error why;
    struct example_inputs e = {.in = in, .st = CKPT_OK};
    const struct opening o = {.path = in->x->path, .src = source_ref(in->src)};
    ckpt_status st = format_open(&o, &f, &why);
    if (st == CKPT_ENOMEM || st == CKPT_EIO || st == CKPT_ECANCELLED) {
        *err = why;
        return st;
    }
    if (st != CKPT_OK)
        return SCAN_FOUND(in, SCAN_NOT_OPENED, CKPT_NO_OFFSET,
                          "keys in the example inputs, which torch writes into Python code, were not read: "
                          "%s",
                          why.what);
    st = judge_values(&e, f->root, err);
    file_free(f);
    return st;
}
