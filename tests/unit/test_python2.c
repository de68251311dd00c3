/* Names of Python 2 in pickles: what Python 3 imports below protocol 3, and what a rewrite makes of them. */
#include "codec/pickle_write.h"
#include "core/python2.h"
#include "graph.h"
#include "unit.h"

static void becomes(const char *module, const char *name, const char *to_module, const char *to_name)
{
    ckpt_str m = str_c(module), n = str_c(name);
    CU_ASSERT_EQUAL(python2_translate(&m, &n), to_module != NULL);
    CU_ASSERT(str_is(m, to_module ? to_module : module));
    CU_ASSERT(str_is(n, to_name ? to_name : name));
}

/* Names come before modules, and most are what they are. */
static void translates_as_python_does(void)
{
    becomes("commands", "getoutput", "subprocess", "getoutput");
    becomes("Queue", "Queue", "queue", "Queue");
    becomes("repr", "Repr", "reprlib", "Repr");
    becomes("UserDict", "UserDict", "collections", "UserDict");
    becomes("UserDict", "DictMixin", "collections", "DictMixin");
    becomes("__builtin__", "unicode", "builtins", "str");
    becomes("__builtin__", "set", "builtins", "set");
    becomes("itertools", "izip", "builtins", "zip");
    becomes("itertools", "chain", NULL, NULL);
    becomes("exceptions", "StandardError", "builtins", "Exception");
    becomes("exceptions", "nothing", NULL, NULL);
    becomes("commands.sub", "x", NULL, NULL);
    becomes("torch", "FloatStorage", NULL, NULL);
}

/* What CPython's Lib/_compat_pickle.py has for protocols below 3: a pickle of protocol 3 means the names
 * themselves, one of protocol 2 what they stand for. */
static void names_mean_what_they_meant(void)
{
    static const struct {
        const char *in, *want;
        size_t nin, nwant;
    } cases[] = {
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
    static const struct pickle_hooks literal = {.literal = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph g;
        ckpt_error err;
        buf out;
        graph_read(&g, cases[i].in, cases[i].nin);
        CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
        buf_init(&out, SIZE_MAX);
        CU_ASSERT_EQUAL(pickle_write(g.root, &literal, &out, &err), CKPT_OK);
        CU_ASSERT(out.len == cases[i].nwant && memcmp(out.data, cases[i].want, out.len) == 0);
        buf_free(&out);
        graph_free(&g);
    }
}

void suite_python2(void)
{
    UNIT(translates_as_python_does);
    UNIT(names_mean_what_they_meant);
}
