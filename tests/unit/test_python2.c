/* Python 3 translates names of Python 2 in pickles below protocol 3. ckpt translates them in pickles that it
 * rewrites. */
#include "codec/pickle_write.h"
#include "core/python2.h"
#include "graph.h"
#include "unit.h"

/* check_name - checks that MODULE.NAME becomes TO_MODULE.TO_NAME, or stays if TO_MODULE is NULL. */
static void check_name(const char *module, const char *name, const char *to_module, const char *to_name)
{
    ckpt_str m = str_c(module), n = str_c(name);
    CU_ASSERT_EQUAL(python2_translate(&m, &n), to_module != NULL);
    CU_ASSERT(str_is(m, to_module ? to_module : module));
    CU_ASSERT(str_is(n, to_name ? to_name : name));
}

/* Python looks up a name with its module first, and then the module alone. */
static void names_are_translated_as_by_python(void)
{
    check_name("commands", "getoutput", "subprocess", "getoutput");
    check_name("Queue", "Queue", "queue", "Queue");
    check_name("repr", "Repr", "reprlib", "Repr");
    check_name("UserDict", "UserDict", "collections", "UserDict");
    check_name("UserDict", "DictMixin", "collections", "DictMixin");
    check_name("__builtin__", "unicode", "builtins", "str");
    check_name("__builtin__", "set", "builtins", "set");
    check_name("itertools", "izip", "builtins", "zip");
    check_name("itertools", "chain", NULL, NULL);
    check_name("exceptions", "StandardError", "builtins", "Exception");
    check_name("exceptions", "nothing", NULL, NULL);
    check_name("commands.sub", "x", NULL, NULL);
    check_name("torch", "FloatStorage", NULL, NULL);
}

/* CPython (Lib/_compat_pickle.py) translates names only below protocol 3, so names must be translated when
 * protocol 2 is rewritten as protocol 3. */
static void rewritten_names_keep_their_meaning(void)
{
    static const struct {
        const char *in, *want;
        size_t nin, nwant;
    } cases[] = {
    /* opcodes: \x80 PROTO, c GLOBAL, \x8c SHORT_BINUNICODE, \x8f EMPTY_SET, \x93 STACK_GLOBAL */
#define CASE(in, want) {in, want, sizeof in - 1, sizeof want - 1}
        CASE("\x80\x03"
             "ccommands\nT\n.",
             "\x80\x03"
             "ccommands\nT\n."),
        CASE("\x80\x03"
             "cQueue\nQueue\n.",
             "\x80\x03"
             "cQueue\nQueue\n."),
        CASE("\x80\x02"
             "ccommands\nT\n.",
             "\x80\x03"
             "csubprocess\nT\n."),
        CASE("\x80\x02"
             "cUserDict\nUserDict\n.",
             "\x80\x03"
             "ccollections\nUserDict\n."),
        CASE("\x80\x02"
             "c__builtin__\nxrange\n.",
             "\x80\x03"
             "cbuiltins\nrange\n."),
        CASE("\x80\x03"
             "crepr\nRepr\n.",
             "\x80\x03"
             "crepr\nRepr\n."),
        CASE("\x80\x04\x8f.", "\x80\x03"
                              "cbuiltins\nset\n]\x85R."),
        CASE("\x80\x04\x8c\x01m\x8c\x03"
             "A.B\x93.",
             "\x80\x03"
             "cbuiltins\ngetattr\ncm\nA\nX\x01\x00\x00\x00"
             "B\x86R."),
#undef CASE
    };
    static const struct pickle_hooks protocol_3 = {.has_literal_names = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph g;
        ckpt_error err;
        buf out;
        graph_read(&g, cases[i].in, cases[i].nin);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        buf_init(&out, SIZE_MAX);
        CU_ASSERT_EQUAL(pickle_write(g.root, &protocol_3, &out, &err), CKPT_OK);
        CU_ASSERT(out.len == cases[i].nwant && memcmp(out.data, cases[i].want, out.len) == 0);
        buf_free(&out);
        graph_free(&g);
    }
}

void suite_python2(void)
{
    UNIT(names_are_translated_as_by_python);
    UNIT(rewritten_names_keep_their_meaning);
}
