/* Values of two files are compared by what they mean, not by the opcodes that build them. */
#include <stdio.h>

#include "pickled.h"

static ckpt_diff_value_totals totals = CKPT_INIT(ckpt_diff_value_totals);
/* "~name;" is a changed value, "-name;" a value of A only, "+name;" of B only, "?name;" was not compared */
static char events[4096];

static int record_value_event(void *user, const ckpt_diff_value *e)
{
    size_t n = strlen(events);
    char sign = e->what == CKPT_DIFF_ONLY_A         ? '-'
                : e->what == CKPT_DIFF_ONLY_B       ? '+'
                : e->what == CKPT_DIFF_NOT_COMPARED ? '?'
                                                    : '~';
    (void)user;
    CU_ASSERT((e->a != NULL) == (sign != '+') && (e->b != NULL) == (sign != '-'));
    snprintf(events + n, sizeof events - n, "%c%.*s;", sign, (int)e->name.len, e->name.ptr);
    return 0;
}

static ckpt_status compare_files(struct test_file *a, struct test_file *b, const ckpt_diff_options *o)
{
    ckpt_status st = CKPT_EUNKNOWN;
    events[0] = '\0';
    CU_ASSERT_PTR_NOT_NULL_FATAL(a->file);
    CU_ASSERT_PTR_NOT_NULL_FATAL(b->file);
    st = ckpt_diff_values(a->file, b->file, o, record_value_event, NULL, &totals, NULL);
    close_file(a);
    close_file(b);
    return st;
}

/* check_events - comparing the pickles A and B must give the events WANT. Comparing A with itself must give
 * none. */
static void check_events(const char *a, const char *b, const char *want)
{
    struct test_file in_a = make_pickle(a), in_b = make_pickle(b);
    CU_ASSERT_EQUAL(compare_files(&in_a, &in_b, NULL), CKPT_OK);
    bool as_expected = strcmp(events, want) == 0 && totals.compared;
    CU_ASSERT(as_expected);
    if (!as_expected)
        printf("  %s\n  %s\n    the events are %s, not %s\n", a, b, events, want);
    in_a = make_pickle(a);
    in_b = make_pickle(a);
    CU_ASSERT(compare_files(&in_a, &in_b, NULL) == CKPT_OK && !events[0]);
}

static void check_same(const char *a, const char *b) { check_events(a, b, ""); }

static void different_values_are_never_equal(void)
{
    static const char *const distinct[] = {"None", "True", "False", "1",      "2",      "-1",     "1.0",
                                           "1.5",  "'a'",  "'A'",   "''",     "b'a'",   "[]",     "()",
                                           "{}",   "a.b",  "a.c",   "a.b(1)", "a.b(2)", "a.c(1)", "a.b()"};
    char a[64], b[64];
    for (size_t i = 0; i < sizeof distinct / sizeof *distinct; i++)
        for (size_t k = 0; k < sizeof distinct / sizeof *distinct; k++) {
            snprintf(a, sizeof a, "{'v':%s,'w':1}", distinct[i]);
            snprintf(b, sizeof b, "{'v':%s,'w':1}", distinct[k]);
            check_events(a, b, i == k ? "" : "~v;");
        }
}

static void numbers_are_compared_by_value(void)
{
    check_same("{'v':5,'n':1}", "{'n':1,'v':%5}"); /* other opcodes, and another order */
    check_same("{'v':0.0}", "{'v':-0.0}");
    check_same("{'v':123456789012345678901234567890}", "{'v':123456789012345678901234567890}");
    check_events("{'v':123456789012345678901234567890}", "{'v':123456789012345678901234567891}", "~v;");
    check_events("{'v':123456789012345678901234567890}", "{'v':-123456789012345678901234567890}", "~v;");
    check_events("{'v':True}", "{'v':1}", "~v;");
}

/* -7 is a LONG1 of nine bytes here, although one byte is enough. */
static void padded_integers_are_compared_by_value(void)
{
    static const char padded[] = "\x80\2}X\1\0\0\0v\x8a\x09\xf9\xff\xff\xff\xff\xff\xff\xff\xffs.";
    const char *others[] = {"{'v':-7}", "{'v':249}"}; /* f9 with and without sign */
    for (int i = 0; i < 2; i++) {
        struct test_file a = open_bytes(padded, sizeof padded - 1, NULL), b = make_pickle(others[i]);
        CU_ASSERT_EQUAL(compare_files(&a, &b, NULL), CKPT_OK);
        CU_ASSERT(totals.same + totals.changed == 1 && totals.changed == (uint64_t)i);
    }
}

static void text_and_bytes_differ(void)
{
    check_same("{'v':s'text'}", "{'v':'text'}");
    check_same("{s'v':1}", "{'v':1}");
    check_events("{'v':s'text'}", "{'v':b'text'}", "~v;");
    check_same("{'v':_codecs.encode('a\\c3\\a9','latin1')}", "{'v':b'a\\e9'}");
    check_events("{'v':_codecs.encode('a\\c3\\a9','latin1')}", "{'v':b'a\\e8'}", "~v;");
    check_events("{'v':_codecs.encode('a','latin1')}", "{'v':b'ab'}", "~v;");
    check_events("{'v':_codecs.encode('ab','latin1')}", "{'v':b'a'}", "~v;");
    check_same("{'v':__builtin__.bytes()}", "{'v':b''}");
}

static void items_of_lists_and_mappings_are_compared(void)
{
    check_same("{'a':{'x':1,'y':2}}", "{'a':{'y':2,'x':1}}");
    check_events("{'a':[1,2,3]}", "{'a':[1,3,2]}", "~a.1;~a.2;");
    check_events("{'a':[1,2]}", "{'a':[1,2,3]}", "+a.2;");
    check_events("{'a':1,'b':2}", "{'b':2,'c':1}", "-a;+c;");
    check_events("{'a':{}}", "{'a':collections.OrderedDict()}", "~a;");
    check_same("{'a':collections.OrderedDict()}",
               "{'a':collections.OrderedDict([])}"); /* the form of Python 2 */
}

/* Each protocol creates the objects of some classes in its own way. A pickle of protocol 4 is made of the
 * same opcodes as one of protocol 2 here: only the names with dots matter. */
static void objects_of_any_protocol_are_compared(void)
{
#define GETATTR(object, name) "__builtin__.getattr(" object ",'" name "')"
    static const char *const same[][3] = {
        {"m.A(1)", GETATTR("m.A", "B") "(1)", NULL}, /* the row for a difference */
        {"m.A", GETATTR("m.A", "B"), NULL},
        {"copy_reg._reconstructor(m.D,__builtin__.dict,{'a':1})!{'x':1}", "new m.D()+{'a':1}!{'x':1}",
         "copyreg.__newobj__(m.D)+{'a':1}!{'x':1}"},
        {"copy_reg._reconstructor(m.L,__builtin__.list,[1,2])", "new m.L()+[1,2]", NULL},
        {"copy_reg._reconstructor(m.P,__builtin__.tuple,(1,[2]))", "new m.P(1,[2])",
         "copyreg.__newobj__(m.P,1,[2])"},
        {"copy_reg._reconstructor(m.S,__builtin__.str,'a')", "new m.S('a')", NULL},
        {"copy_reg._reconstructor(m.Z,__builtin__.complex,__builtin__.complex(1.0,2.0))", "new m.Z(1.0,2.0)",
         NULL},
        {"copy_reg._reconstructor(m.C,__builtin__.object,None)!{'k':7}",
         "copyreg.__newobj_ex__(m.C,(1,),{'k':7})!{'k':7}",
         "functools.partial(" GETATTR("m.C", "__new__") ")!(" GETATTR(
             "m.C", "__new__") ",(m.C,1),{'k':7},{})()!{'k':7}"},
        {"copyreg.__newobj_ex__(m.C,(1,),{'k':7})",
         "functools.partial(m.f.__new__)!(" GETATTR("m.C", "__new__") ",(m.C,1),{'k':7},{})()", NULL},
        {"copyreg.__newobj_ex__(m.C,(1,),{})", "new m.C(1)", NULL},
        {GETATTR(GETATTR("m.A", "B"), "C"), GETATTR(GETATTR("m.A", "B"), "C"), NULL},
        {"exceptions.ValueError('x')", "builtins.ValueError('x')", NULL},
        {"Queue.Queue", "queue.Queue", NULL},
        {GETATTR("torch._utils.torch", "channels_last"), GETATTR("train.torch", "channels_last"),
         "torch.channels_last"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        for (int k = 1; k < 3 && same[i][k]; k++) {
            char a[256], b[256];
            snprintf(a, sizeof a, "{'v':%s,'w':1}", same[i][0]);
            snprintf(b, sizeof b, "{'v':%s,'w':1}", same[i][k]);
            check_events(a, b, i < 2 ? "~v;" : "");
        }
    check_events("{'v':copyreg.__newobj_ex__(m.C,(1,),{'k':7})}",
                 "{'v':copyreg.__newobj_ex__(m.C,(1,),{'k':8})}", "~v;");
    check_events("{'v':m.f(copyreg._reconstructor(m.C,builtins.object,None))}", "{'v':m.f(new m.C(1))}",
                 "~v;");
    check_events("{'v':m.f(copyreg._reconstructor(m.C,builtins.object,None)!{'k':7})}",
                 "{'v':m.f(new m.C(1)!{'k':7})}", "");
    check_events("{'v':copyreg._reconstructor(m.C,builtins.object,None)!{'k':7}}",
                 "{'v':copyreg.__newobj_ex__(m.C,(1,),{'k':7})!{'k':8}}", "~v.k;");
    check_events("{'v':" GETATTR("m.A", "b") "}", "{'v':" GETATTR("m.A", "c") "}", "~v;");
}

/* The keys 1 and '1' have the same name. */
static void keys_are_compared_with_their_type(void)
{
    check_events("{'m':{1:5}}", "{'m':{'1':5}}", "~m.1;");
    check_events("{'m':{2:{'x':1}}}", "{'m':{'2':{'x':1}}}", "~m.2.x;");
    check_events("{'m':{1:5}}", "{'m':{'1':6}}", "~m.1;");
    check_same("{'m':{1:5,'2':6}}", "{'m':{'2':6,1:5}}");
    check_events("{'m':[5]}", "{'m':{'0':5}}", "~m;");
    ckpt_diff_options o = {.struct_size = sizeof o, .root_a = "a.b", .root_b = "b"};
    struct test_file a = make_pickle("{'a':{'b':{1:5}}}"), b = make_pickle("{'b':{'1':5}}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, &o), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(events, "~1;");
}

static void sets_and_objects_are_compared_as_one_value(void)
{
    check_same("{'v':__builtin__.set([1,2,'x'])}", "{'v':builtins.set(['x',2,1])}");
    check_events("{'v':builtins.set([1,2])}", "{'v':builtins.set([1,3])}", "~v;");
    check_events("{'v':builtins.set([1,2])}", "{'v':builtins.frozenset([1,2])}", "~v;");
    check_same("{'v':builtins.set([('a',1),('b',2)])}", "{'v':builtins.set([('b',2),('a',1)])}");
    check_same("{'v':m.C({'x':1,'y':[2]})}", "{'v':m.C({'y':[2],'x':1})}");
    check_events("{'v':m.C({'x':1,'y':[2]})}", "{'v':m.C({'x':1,'y':[3]})}", "~v;");
    check_events("{'v':m.C({'x':1})}", "{'v':m.C({'z':1})}", "~v;");
    check_events("{'v':collections.deque([],5)}", "{'v':collections.deque([],6)}", "~v;");
    check_events("{'v':collections.defaultdict(m.a)}", "{'v':collections.defaultdict(m.b)}", "~v;");
}

/* A container whose type differs is reported once, before the containers in it. It is not reported if it
 * holds only tensors. */
static void types_of_containers_are_compared(void)
{
    check_events("{'v':(1,2)}", "{'v':[1,2]}", "~v;");
    check_events("(1,[2])", "[1,(2,)]", "~;~1;");
    check_events("{'v':[(1,2),[3,3]]}", "{'v':([1,2],[3,3])}", "~v;~v.0;");
    check_events("{'v':{'a':1},'w':1}", "{'v':collections.OrderedDict()+{'a':1},'w':1}", "~v;");
    check_events("{'v':new m.P(1,2)}", "{'v':(1,2)}", "~v;");
    check_events("{'v':[5]}", "{'v':{0:5}}", "~v;");
    check_events("{'v-1':1,'v':(1,2),'v-2':2}", "{'v-1':1,'v':[1,2],'v-2':3}", "~v-2;~v;");
    check_same("{'v':collections.OrderedDict()+{'a':1}}", "{'v':collections.OrderedDict([['a',1]])}");
    struct test_file a = make_torch_zip("{'e':1,'l':(" FLOAT_TENSOR ",),'d':{'w':" FLOAT_TENSOR "}}"),
                     b = make_torch_zip("{'e':1,'l':[" FLOAT_TENSOR
                                        "],'d':collections.OrderedDict()+{'w':" FLOAT_TENSOR "}}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, NULL), CKPT_OK);
    CU_ASSERT(!events[0] && totals.compared);
    ckpt_diff_options o = {.struct_size = sizeof o, .root_a = "a", .root_b = "b.b"};
    a = make_pickle("{'a':[(1,)]}");
    b = make_pickle("{'b':{'b':((1,),)}}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, &o), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(events, "~;");
    const char *globs[] = {"v.*"};
    o = (ckpt_diff_options){.struct_size = sizeof o, .globs = globs, .nglobs = 1};
    a = make_pickle("{'v':[(1,)]}");
    b = make_pickle("{'v':([1],)}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, &o), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(events, "~v.0;");
}

/* array.array has a list in protocols 0 to 2, then bytes in one of the machine's formats. */
static void arrays_are_compared_across_protocols(void)
{
#define LIST(code, items) "{'v':array.array('" code "'," items ")}"
#define BYTES(code, format, bytes)                                                                           \
    "{'v':array._array_reconstructor(array.array,'" code "'," format "," bytes ")}"
    check_same(LIST("i", "[1,-2]"), BYTES("i", "8", "b'\\01\\00\\00\\00\\fe\\ff\\ff\\ff'"));
    check_same(LIST("i", "[1,-2]"), BYTES("i", "9", "b'\\00\\00\\00\\01\\ff\\ff\\ff\\fe'"));
    check_same(LIST("l", "[-1]"), BYTES("l", "12", "b'\\ff\\ff\\ff\\ff\\ff\\ff\\ff\\ff'"));
    check_same(BYTES("l", "8", "b'\\ff\\ff\\ff\\ff'"),
               BYTES("l", "12", "b'\\ff\\ff\\ff\\ff\\ff\\ff\\ff\\ff'"));
    check_same(LIST("B", "[255]"), BYTES("B", "0", "b'\\ff'"));
    check_same(LIST("b", "[-1]"), BYTES("b", "1", "b'\\ff'"));
    check_same(LIST("H", "[65535]"), BYTES("H", "2", "b'\\ff\\ff'"));
    check_same(LIST("h", "[-2]"), BYTES("h", "5", "b'\\ff\\fe'"));
    check_same(LIST("d", "[1.5]"), BYTES("d", "16", "b'\\00\\00\\00\\00\\00\\00\\f8\\3f'"));
    check_same(LIST("f", "[-2.0]"), BYTES("f", "15", "b'\\c0\\00\\00\\00'"));
    check_same(LIST("f", "[]"), BYTES("f", "14", "b''"));
    check_same(LIST("B", "[255]"), BYTES("B", "0", "_codecs.encode('\\c3\\bf','latin1')"));
    check_events(LIST("i", "[1,-2]"), BYTES("i", "8", "b'\\01\\00\\00\\00\\fe\\ff\\ff\\fe'"), "~v;");
    check_events(LIST("i", "[1]"), BYTES("i", "8", "b'\\01\\00\\00\\00\\fe\\ff\\ff\\ff'"), "~v;");
    check_events(LIST("i", "[1]"), BYTES("i", "8", "b'\\01\\00\\00\\00\\fe'"), "~v;");
    check_events(LIST("i", "[1]"), BYTES("l", "8", "b'\\01\\00\\00\\00'"), "~v;");
    check_events(LIST("i", "[1.0]"), BYTES("i", "8", "b'\\01\\00\\00\\00'"), "~v;");
    check_same(LIST("Q", "[18446744073709551615]"), BYTES("Q", "10", "b'\\ff\\ff\\ff\\ff\\ff\\ff\\ff\\ff'"));
    check_events(LIST("Q", "[-1]"), BYTES("Q", "10", "b'\\ff\\ff\\ff\\ff\\ff\\ff\\ff\\ff'"), "~v;");
    check_events(LIST("i", "[1]"), BYTES("i", "22", "b'\\01\\00\\00\\00'"), "~v;");
#undef LIST
#undef BYTES
}

/* Each protocol writes bytes and bytearray in its own way. */
static void bytes_of_any_protocol_are_compared(void)
{
    static const char *const forms[] = {"builtins.bytearray(b'a\\ff')",
                                        "builtins.bytearray(_codecs.encode('a\\c3\\bf','latin1'))",
                                        "__builtin__.bytearray('a\\c3\\bf','latin-1')"};
    char a[96], b[96];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            snprintf(a, sizeof a, "{'v':%s,'w':1}", forms[i]);
            snprintf(b, sizeof b, "{'v':%s,'w':1}", forms[k]);
            check_same(a, b);
        }
    check_same("{'v':builtins.bytearray()}", "{'v':builtins.bytearray(b'')}");
    check_events("{'v':builtins.bytearray(b'a')}", "{'v':b'a'}", "~v;");
    check_events("{'v':builtins.bytearray(b'a')}", "{'v':builtins.bytearray(b'a')+[98]}", "-v;+v.0;");
    check_events("{'v':builtins.bytearray(b'a')}", "{'v':builtins.bytearray(5)}", "~v;");
    check_events("{'v':_codecs.encode('\\c4\\80','latin1')}", "{'v':b'a'}", "~v;");
}

enum { LONG = 100000 }; /* so many bytes are not loaded when the file is opened */

static void put_size(buf *b, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        buf_byte(b, (unsigned char)(n >> (8 * i)));
}

/* open_long_bytes - opens the pickle of {'v': LONG bytes that end in LAST}, as protocol 3 writes it, or
 * protocol 2 if LATIN1. */
static struct test_file open_long_bytes(bool latin1, unsigned char last)
{
    buf b;
    buf_init(&b, 1u << 20);
    buf_put_str(&b, STR_LIT("\200\003}U\001v"));
    if (latin1)
        buf_put_str(&b, STR_LIT("c_codecs\nencode\n"));
    buf_byte(&b, latin1 ? 'X' : 'B');
    put_size(&b, latin1 ? 2 * LONG : LONG);
    for (uint32_t i = 0; i < LONG; i++) {
        unsigned char c = i + 1 < LONG ? (unsigned char)(0x80 | (i & 0x3f)) : last;
        if (latin1)
            buf_byte(&b, 0xc2);
        buf_byte(&b, c);
    }
    buf_put_str(&b, latin1 ? STR_LIT("U\006latin1\206Rs.") : STR_LIT("s."));
    struct test_file made = open_bytes(b.data, b.len, NULL);
    buf_free(&b);
    return made;
}

static void long_bytes_of_any_protocol_are_compared(void)
{
    for (int i = 0; i < 8; i++) {
        struct test_file a = open_long_bytes(i & 1, 0x81),
                         b = open_long_bytes((i & 2) != 0, i & 4 ? 0x82 : 0x81);
        CU_ASSERT_EQUAL(compare_files(&a, &b, NULL), CKPT_OK);
        CU_ASSERT_STRING_EQUAL(events, i & 4 ? "~v;" : "");
    }
}

/* A legacy file stores the source code of a class next to its name. */
static void the_source_of_a_class_is_ignored(void)
{
    check_same("{'v':m.C}", "{'v':@('module',m.C,'m.py','class C')}");
    check_events("{'v':m.C}", "{'v':@('module',m.D,'m.py','class C')}", "~v;");
}

/* The values of a pickled {} are compared. Those of a safetensors file are not, because it cannot hold
 * values. */
static void an_empty_dict_is_compared_but_not_an_empty_safetensors_file(void)
{
    struct test_file a = open_bytes("\2\0\0\0\0\0\0\0{}", 10, NULL), b = make_pickle("{'x':1}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, NULL), CKPT_OK);
    CU_ASSERT(!totals.compared && totals.in_a == 0 && totals.in_b == 1 && !events[0]);
    check_events("{}", "{'x':1}", "+x;");
}

/* A changed attribute is reported under its own name, not again as a change of the object. */
static void attributes_are_reported_once(void)
{
    check_events("{'v':m.C(1)!{'x':1,'y':2}}", "{'v':m.C(1)!{'x':1,'y':3}}", "~v.y;");
    check_events("{'v':m.C(1)!{'x':1}}", "{'v':m.C(2)!{'x':1}}", "~v;");
    check_events("{'v':m.C(1)!{'x':1}}", "{'v':m.D(1)!{'x':1}}", "~v;");
    check_events("{'v':m.C(1)!{'x':1}}", "{'v':m.C(1)!{'x':1,'z':1}}", "+v.z;");
}

/* The comparison terminates for graphs with cycles, and soon for graphs that would be huge as trees.
 * "#1~[]" puts an empty list into the memo as 1, "+[…]" appends to it, "#1" is that list again. */
static void graphs_with_cycles_and_shared_nodes_are_compared(void)
{
    check_same("{'v':m.f(#1~[]+[#1])}", "{'v':m.f(#1~[]+[#1])}");
    check_same("{'v':m.f(#1~[]+[#1])}", "{'v':m.f(#1~[]+[[#1]])}"); /* equal when unrolled */
    check_events("{'v':m.f(#1~[]+[#1])}", "{'v':m.f(#1~[]+[#1,1])}", "~v;");
    char deep[2][2048];
    for (int i = 0; i < 2; i++) {
        int n = snprintf(deep[i], sizeof deep[i], "{'v':m.f(#1=[%d]", i);
        for (int k = 2; k < 60; k++)
            n += snprintf(deep[i] + n, sizeof deep[i] - (size_t)n, ",#%d=[#%d,#%d]", k, k - 1, k - 1);
        snprintf(deep[i] + n, sizeof deep[i] - (size_t)n, ")}");
    }
    check_same(deep[0], deep[0]);
    check_events(deep[0], deep[1], "~v;");
}

enum { MANY = 9000 };

/* open_many - opens {'shared': m.f(#1), 'v0': m.f(LEAF), 'v1': m.f(LEAF) …}. #1 is a list of itself, FIRST
 * and MANY numbers; there are MANY LEAFs, in which %d is DIFFERENCE or, if that is 0, the number of the leaf.
 */
static struct test_file open_many(const char *first, const char *leaf, int difference)
{
    buf text;
    buf_init(&text, SIZE_MAX);
    buf_printf(&text, "{'shared':m.f(#1~[]+[#1,%s", first);
    for (int i = 0; i < MANY; i++)
        buf_printf(&text, ",%d", i % 10);
    buf_put_cstr(&text, "])");
    for (int i = 0; i < MANY; i++) {
        char number[16];
        const char *hole = strstr(leaf, "%d");
        snprintf(number, sizeof number, "%d", difference ? difference : i);
        buf_printf(&text, ",'v%d':m.f(%.*s%s%s)", i, hole ? (int)(hole - leaf) : (int)strlen(leaf), leaf,
                   hole ? number : "", hole ? hole + 2 : "");
    }
    buf_put(&text, "}", 2); /* and the NUL */
    CU_ASSERT_FATAL(buf_ok(&text));
    struct test_file made = make_torch_zip((const char *)text.data);
    buf_free(&text);
    return made;
}

static int count_only(void *user, const ckpt_diff_value *e)
{
    (void)user;
    (void)e;
    return 0;
}

/* check_many - compares files of open_many. The comparison of MANY times MANY nodes would be refused. */
static void check_many(const char *first_a, const char *first_b, const char *leaf, int difference,
                       uint64_t same, uint64_t changed, uint64_t not_compared)
{
    struct test_file a = open_many(first_a, leaf, 0), b = open_many(first_b, leaf, difference);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a.file);
    CU_ASSERT_PTR_NOT_NULL_FATAL(b.file);
    CU_ASSERT_EQUAL(ckpt_diff_values(a.file, b.file, NULL, count_only, NULL, &totals, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(totals.same, same);
    CU_ASSERT_EQUAL(totals.changed, changed);
    CU_ASSERT_EQUAL(totals.not_compared, not_compared);
    close_file(&a);
    close_file(&b);
}

/* Values that are in many others are compared once, whether they are the same, differ (in the item that is
 * compared last), are the same next to a difference, or are not fully read. */
static void shared_values_are_compared_once(void)
{
    check_many("1", "1", "#1", 0, MANY + 1, 0, 0);
    check_many("1", "2", "#1", 0, 0, MANY + 1, 0);
    check_many("1", "1", "[[%d]],#1", -1, 1, MANY, 0);
    check_many("1", "1", "[[%d,#1],#1]", -1, 1, MANY, 0);
    check_many(FLOAT_TENSOR, FLOAT_TENSOR, "#1", 0, 0, 0, MANY + 1);
}

/* What one comparison assumed of a cycle is not kept for the next one if it was wrong. */
static void cycles_are_compared_again_after_a_difference(void)
{
    check_events("{'v':m.f(#1~[]+[1,#2=[#1]]),'w':m.f(#2)}", "{'v':m.f(#1~[]+[2,#2=[#1]]),'w':m.f(#2)}",
                 "~v;~w;");
    check_events("{'v':m.f(#1~[]+[1,#2=[#1]]),'w':m.f(#2),'x':m.f([#1,#2])}",
                 "{'v':m.f(#1~[]+[1,#2=[#1]]),'w':m.f(#2),'x':m.f([#2,#1])}", "~x;");
    check_events("{'v':m.f(#1=[#2~[]+[#2],1]),'w':m.f(#2),'x':m.f(#1)}",
                 "{'v':m.f(#1=[#2~[]+[#2],2]),'w':m.f(#2),'x':m.f(#1)}", "~v;~x;");
    static const char cycle[] = "{'v':m.f(#1~[]+[" FLOAT_TENSOR ",#2=[#1],3]),'w':m.f(#2),'x':m.f(#1)}";
    struct test_file a = make_torch_zip(cycle), b = make_torch_zip(cycle);
    CU_ASSERT_EQUAL(compare_files(&a, &b, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(events, "?v;?w;?x;");
}

/* If a name is a tensor in A and a value in B, the value is reported as one that only B has. An object that
 * contains a tensor which is no row is not compared. */
static void tensors_are_not_compared_as_values(void)
{
    struct test_file a = make_torch_zip("{'w':" FLOAT_TENSOR ",'epoch':1,'o':m.C(" FLOAT_TENSOR ")}"),
                     b = make_torch_zip("{'w':2,'epoch':1,'o':m.C(" TENSOR_V2(STORAGE("Float", "1", 4), 0,
                                                                              "(4,)", "(1,)") ")}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(events, "?o;+w;");
    CU_ASSERT(totals.same == 1 && totals.not_compared == 1 && totals.changed == 0);
}

/* An empty dict is not reported if the other file has a dict of tensors in its place. */
static void dicts_without_their_tensors_are_not_reported(void)
{
    struct test_file a = make_torch_zip("{'o':{0:{'m':" FLOAT_TENSOR "},1:{}},'o-1':3,'x':1}"),
                     b = make_torch_zip("{'o':{0:{},1:{},2:{}},'o-1':3,'x':{}}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(events, "+o.2;~x;");
}

static void a_file_without_values_is_not_compared(void)
{
    struct test_file a = make_torch_zip("{'w':" FLOAT_TENSOR "}"),
                     b = make_torch_zip("{'w':" FLOAT_TENSOR ",'epoch':1}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, NULL), CKPT_OK);
    CU_ASSERT(!totals.compared && totals.in_a == 0 && totals.in_b == 1 && !events[0]);
}

static void roots_prefixes_and_globs_select_values(void)
{
    const char *globs[] = {"*r", "!mo*"};
    ckpt_diff_options o = {.struct_size = sizeof o, .root_a = "opt.g", .root_b = "g"};
    struct test_file a = make_pickle("{'opt':{'g':[{'lr':1,'momentum':2}],'x':1},'y':1}"),
                     b = make_pickle("{'g':[{'lr':2,'momentum':2}]}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, &o), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(events, "~0.lr;");
    o = (ckpt_diff_options){
        .struct_size = sizeof(ckpt_diff_options), .ignore_prefix = "a.", .globs = globs, .nglobs = 2};
    /* "*r" matches 'momentur', but "!mo*" excludes it */
    a = make_pickle("{'a':{'lr':1,'momentur':1,'x':1}}");
    b = make_pickle("{'lr':2,'momentur':2,'x':2}");
    CU_ASSERT_EQUAL(compare_files(&a, &b, &o), CKPT_OK);
    CU_ASSERT(strcmp(events, "~lr;") == 0 && totals.same == 0 && totals.changed == 1);
}

#define ARRAY(type, data)                                                                                    \
    "{'v':numpy._core.multiarray._reconstruct(numpy.ndarray,(0,),b'b')!(1,(1,)," type ",False," data ")}"
#define FROMBUFFER(type, data)  "{'v':numpy.core.numeric._frombuffer(" data "," type ",(1,),'C')}"
#define SCALAR(type, data)      "{'v':numpy.core.multiarray.scalar(" type "," data ")}"
#define TYPE(code, order, more) "numpy.dtype('" code "',False,True)!(3,'" order "'," more ")"
#define TEXT_TYPE               TYPE("U1", "<", "None,None,None,4,4,8")
#define OBJECTS                 TYPE("O8", "|", "None,None,None,-1,-1,63")
#define RECORD(field)                                                                                        \
    TYPE("V4", "|",                                                                                          \
         "None,('" field "',),{'" field "':(" TYPE("i4", "<", "None,None,None,-1,-1,0") ",0)},4,1,16")

/* Arrays of numpy's text and time types are compared by their bytes. Arrays of objects and arrays of records
 * are compared by their pickles. */
static void numpy_arrays_without_numbers_are_compared(void)
{
    static const char *const files[] = {
        ARRAY(TEXT_TYPE, "b'a\\00\\00\\00'"),
        FROMBUFFER(TEXT_TYPE, "b'a\\00\\00\\00'"), /* the same text */
        ARRAY(TEXT_TYPE, "b'b\\00\\00\\00'"),
        FROMBUFFER(TEXT_TYPE, "b'c\\00\\00\\00'"),
        ARRAY(OBJECTS, "[1]"),
        ARRAY(OBJECTS, "[2]"),
        ARRAY(OBJECTS, "[{'a':1.0}]"),
        ARRAY(RECORD("x"), "b'aaaa'"),
        ARRAY(RECORD("x"), "b'aaab'"),
        ARRAY(RECORD("y"), "b'aaaa'"),
        ARRAY(TYPE("M8", "<", "None,None,None,-1,-1,0"), "b'\\01\\00\\00\\00\\00\\00\\00\\00'"),
        ARRAY(TYPE("M8", "<", "None,None,None,-1,-1,0"), "b'\\02\\00\\00\\00\\00\\00\\00\\00'")};
    ckpt_diff_totals t = CKPT_INIT(ckpt_diff_totals);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
            struct test_file a = make_pickle(files[i]), b = make_pickle(files[k]);
            CU_ASSERT_PTR_NOT_NULL_FATAL(a.file);
            CU_ASSERT_PTR_NOT_NULL_FATAL(b.file);
            CU_ASSERT_EQUAL(ckpt_diff(a.file, b.file, NULL, NULL, NULL, &t, NULL), CKPT_OK);
            CU_ASSERT(t.same + t.changed == 1 && t.same == (i == k || (i < 2 && k < 2)));
            close_file(&a);
            close_file(&b);
        }
    struct test_file a = make_pickle(SCALAR(TEXT_TYPE, "b'a\\00\\00\\00'")),
                     b = make_pickle(SCALAR(TEXT_TYPE, "b'b\\00\\00\\00'"));
    CU_ASSERT(ckpt_diff(a.file, b.file, NULL, NULL, NULL, &t, NULL) == CKPT_OK && t.changed == 1);
    close_file(&a);
    close_file(&b);
}

static int stop_at_once(void *user, const ckpt_diff_value *e)
{
    (void)user;
    (void)e;
    return 1;
}

static void the_caller_can_stop(void)
{
    struct test_file a = make_pickle("{'a':1}"), b = make_pickle("{'a':2}");
    CU_ASSERT_EQUAL(ckpt_diff_values(a.file, b.file, NULL, stop_at_once, NULL, NULL, NULL), CKPT_ECANCELLED);
    CU_ASSERT_EQUAL(ckpt_diff_values(a.file, b.file, NULL, NULL, NULL, NULL, NULL), CKPT_OK);
    close_file(&a);
    close_file(&b);
}

void suite_diff_values(void)
{
    UNIT(different_values_are_never_equal);
    UNIT(numbers_are_compared_by_value);
    UNIT(padded_integers_are_compared_by_value);
    UNIT(arrays_are_compared_across_protocols);
    UNIT(text_and_bytes_differ);
    UNIT(items_of_lists_and_mappings_are_compared);
    UNIT(objects_of_any_protocol_are_compared);
    UNIT(keys_are_compared_with_their_type);
    UNIT(sets_and_objects_are_compared_as_one_value);
    UNIT(attributes_are_reported_once);
    UNIT(graphs_with_cycles_and_shared_nodes_are_compared);
    UNIT(types_of_containers_are_compared);
    UNIT(bytes_of_any_protocol_are_compared);
    UNIT(long_bytes_of_any_protocol_are_compared);
    UNIT(the_source_of_a_class_is_ignored);
    UNIT(an_empty_dict_is_compared_but_not_an_empty_safetensors_file);
    UNIT(shared_values_are_compared_once);
    UNIT(cycles_are_compared_again_after_a_difference);
    UNIT(tensors_are_not_compared_as_values);
    UNIT(dicts_without_their_tensors_are_not_reported);
    UNIT(a_file_without_values_is_not_compared);
    UNIT(roots_prefixes_and_globs_select_values);
    UNIT(numpy_arrays_without_numbers_are_compared);
    UNIT(the_caller_can_stop);
}
