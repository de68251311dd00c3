/* Texts of pickles made shorter where they stand: these bytes; nothing where that is not possible; and the
 * same graph as when the pickle is written again, for every pickle of the corpus. */
#include <stdlib.h>

#include "codec/pickle_shorten.h"
#include "codec/pickle_write.h"
#include "graph.h"
#include "unit.h"

#define B(s)  "" s, sizeof(s) - 1

struct change {
    uint64_t at;
    const char *old, *text; /* NULL: a pair goes */
};

#define GONE(at, n) ((uint64_t)(n) << 32 | (at)) /* at: a pair of N bytes */

#define FIRST "(X\0\0\0\0}X\1\0\0\0vq\1K\1s" /* 18 bytes */
#define MODULE "X\6\0\0\0module"

static const struct {
    const char *in;
    size_t nin;
    const char *out;
    size_t nout; /* 0: it cannot be */
    struct change changes[3];
} exact[] = {
    {B("X\2\0\0\0abN."), B("X\0\0\0\0Nq\0."), {{0, "ab", ""}}},
    {B("X\5\0\0\0m.abcN."), B("X\3\0\0\0abcNq\0."), {{0, "m.abc", "abc"}}},
    {B("U\5m.abcN."), B("U\3abcNq\0."), {{0, "m.abc", "abc"}}},
    {B("\x8c\5m.abcN."), B("\x8c\3abcNq\0."), {{0, "m.abc", "abc"}}},
    {B("T\7\0\0\0m.n.abcN."), B("T\2\0\0\0bcNr\0\0\0\0."), {{0, "m.n.abc", "bc"}}},
    {B("X\4\0\0\0m.ab0N."), B("X\4\0\0\0m.cd0N."), {{0, "m.ab", "m.cd"}}},
    {B("(X\3\0\0\0m.aq\1X\3\0\0\0m.bq\2t."), B("(X\1\0\0\0aq\1X\1\0\0\0bq\2tq\0q\0."),
     {{1, "m.a", "a"}, {11, "m.b", "b"}}},
    {B("(X\3\0\0\0m.aq\1X\3\0\0\0m.bq\2t."), B("(X\1\0\0\0aq\1X\1\0\0\0bq\2tq\0q\0."),
     {{11, "m.b", "b"}, {1, "m.a", "a"}}},
    {B("X\x0b\0\0\0abcdefghijkN."), B("X\0\0\0\0Nr\0\0\0\0q\0q\0q\0."), {{0, "abcdefghijk", ""}}},
    {B("X\x0c\0\0\0abcdefghijklN."), B("X\0\0\0\0Nr\0\0\0\0r\0\0\0\0q\0."), {{0, "abcdefghijkl", ""}}},
    /* a pair that goes */
    {B("}" FIRST MODULE "}h\1K\1su."), B("}" FIRST "ur\0\0\0\0r\0\0\0\0r\0\0\0\0q\0."),
     {{GONE(19, 17), "module", NULL}}},
    {B("}" FIRST MODULE "q\2}r\3\0\0\0j\1\0\0\0M\1\0sX\1\0\0\0bNu."),
     B("}" FIRST "X\1\0\0\0bNur\0\0\0\0r\0\0\0\0r\0\0\0\0r\0\0\0\0q\0q\0q\0q\0."),
     {{GONE(19, 28), "module", NULL}}},
    {B("}" FIRST MODULE "}h\1J\1\0\0\0sX\3\0\0\0m.bNu."),
     B("}" FIRST "X\1\0\0\0bNur\0\0\0\0r\0\0\0\0r\0\0\0\0r\0\0\0\0q\0."),
     {{GONE(19, 20), "module", NULL}, {39, "m.b", "b"}}},
    /* what takes two from the stack, or could uncover them; PUTs that are counted */
    {B("}" FIRST "u" MODULE "}h\1K\1ss."), B(""), {{20, "module", NULL}}},
    {B("}" FIRST MODULE "}h\1K\1sNN0u."), B(""), {{19, "module", NULL}}},
    {B("}" FIRST MODULE "}h\1K\1sX\0\0\0\0N0Nu."), B(""), {{19, "module", NULL}}},
    {B("}" FIRST MODULE "}h\1K\1sX\0\0\0\0(1Nu."), B(""), {{19, "module", NULL}}},
    {B("}" FIRST MODULE "}h\1K\1sX\0\0\0\0X\1\0\0\0b2Nu."), B(""), {{19, "module", NULL}}},
    {B("}" FIRST MODULE "}h\1K\1sX\0\0\0\0N\x94u."), B(""), {{19, "module", NULL}}},
    /* other values, and other texts */
    {B("}" FIRST MODULE "}X\1\0\0\0wK\1su."), B(""), {{19, "module", NULL}}},
    {B("}" FIRST MODULE "}h\1Nsu."), B(""), {{19, "module", NULL}}},
    {B("}" FIRST MODULE "}u."), B(""), {{19, "module", NULL}}},
    {B("}" FIRST MODULE "Nu."), B(""), {{19, "module", NULL}}},
    {B("}" FIRST MODULE "}h\1K\1su."), B(""), {{19, "modulo", NULL}}},
    {B("}" FIRST MODULE "}h\1K\1su."), B(""), {{18, "module", NULL}}},
    {B(MODULE "}h"), B(""), {{0, "module", NULL}}},
    {B(MODULE), B(""), {{0, "module", NULL}}},
    /* no PUTs of 1 or 3 bytes */
    {B("X\2\0\0\0abN."), B(""), {{0, "ab", "a"}}},
    {B("X\3\0\0\0abcN."), B(""), {{0, "abc", ""}}},
    /* longer; twice in one place; no text there, another, none of this length */
    {B("X\2\0\0\0abN."), B(""), {{0, "ab", "abc"}}},
    {B("X\4\0\0\0abcdN."), B(""), {{0, "abcd", "ab"}, {0, "abcd", "ab"}}},
    {B("X\4\0\0\0abcdN."), B(""), {{1, "abcd", "ab"}}},
    {B("X\4\0\0\0abcdN."), B(""), {{0, "abce", "ab"}}},
    {B("X\4\0\0\0abcdN."), B(""), {{0, "abc", "a"}}},
    {B("X\4\0\0\0abcdN."), B(""), {{10, "", ""}}},
    {B("X\4\0\0\0abcdN."), B(""), {{1u << 20, "abcd", "ab"}}},
    {B("V1234\nN."), B(""), {{0, "1234", "12"}}},
    /* something behind STOP; frames */
    {B("X\2\0\0\0abN.."), B(""), {{0, "ab", ""}}},
    {B("\x95\x0a\0\0\0\0\0\0\0X\3\0\0\0abcN."), B(""), {{9, "abc", "a"}}},
};

static bool held(const unsigned char *now, const unsigned char *old, size_t size,
                 const struct pickle_text *list, size_t n)
{
    source *src = source_mem(old, size, 0);
    bool same = src && pickle_is_shortened(now, src, size, list, n);
    source_unref(src);
    return same;
}

/* free_byte - may byte I of the old pickle be any other: what goes with a pair, behind its key? */
static bool free_byte(size_t i, const struct change *c, const struct pickle_text *list, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (i >= list[k].v->offset + 5 + list[k].v->u.str.len &&
            i < list[k].v->offset + (c[k].at >> 32))
            return true;
    return false;
}

/* hold - NOW is IN shortened, and is it no longer with any other byte in one of them. */
static void hold(const char *in, unsigned char *now, size_t size, const struct change *c,
                 struct pickle_text *list, size_t n)
{
    unsigned char *old = unit_guard(in, size);
    CU_ASSERT(held(now, old, size, list, n));
    for (size_t i = 0; i < 2 * size; i++) {
        unsigned char *at = i < size ? old + i : now + (i - size);
        for (unsigned bit = 1; bit < 256 && !free_byte(i, c, list, n); bit <<= 1) {
            *at ^= (unsigned char)bit;
            CU_ASSERT_FALSE(held(now, old, size, list, n));
            *at ^= (unsigned char)bit;
        }
    }
    struct pickle_text bad = list[n - 1];
    ckpt_value other = *bad.v;
    list[n - 1].v = &other;
    other.offset++;
    CU_ASSERT_FALSE(held(now, old, size, list, n));
    other.offset = size;
    CU_ASSERT_FALSE(held(now, old, size, list, n));
    list[n - 1] = bad;
    CU_ASSERT_FALSE(bad.text.len < bad.v->u.str.len && held(now, old, size, list, n - 1));
    list[n - 1].text = str_of("0123456789012345678901234567890123456789", bad.v->u.str.len + 1);
    CU_ASSERT_FALSE(held(now, old, size, list, n));
    list[n - 1] = bad;
    if (n > 1) { /* in another order */
        list[n - 1] = list[0];
        list[0] = bad;
        CU_ASSERT_FALSE(held(now, old, size, list, n));
        list[0] = list[n - 1];
        list[n - 1] = bad;
    }
    for (size_t less = 0; less < size; less++)
        CU_ASSERT_FALSE(held(now, old, less, list, n));
    unit_guard_free(old, size);
}

static void these_bytes_and_no_others(void)
{
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        struct graph g;
        struct pickle_text list[3];
        ckpt_value texts[3];
        size_t n = 0;
        for (; n < 3 && exact[i].changes[n].old; n++) {
            const struct change *c = &exact[i].changes[n];
            ckpt_str text = c->text ? str_c(c->text) : str_of(NULL, 0);
            texts[n] = (ckpt_value){.type = CKPT_V_STR, .offset = c->at & UINT32_MAX, .u.str = str_c(c->old)};
            list[n] = (struct pickle_text){&texts[n], text};
        }
        graph_read(&g, exact[i].in, exact[i].nin);
        unsigned char *bytes = unit_guard(exact[i].in, exact[i].nin);
        bool done = pickle_shorten(bytes, exact[i].nin, &g.facts, list, n);
        bool same = done ? exact[i].nout == exact[i].nin && memcmp(bytes, exact[i].out, exact[i].nin) == 0
                         : exact[i].nout == 0;
        CU_ASSERT(same);
        if (done)
            hold(exact[i].in, bytes, exact[i].nin, exact[i].changes, list, n);
        if (!same)
            printf("\n    row %zu\n", i);
        unit_guard_free(bytes, exact[i].nin);
        graph_free(&g);
    }
}

/* A text that an opcode makes twice is one node, whose place is that of the first; two, where PUTs follow. */
static void texts_met_again_are_shared(void)
{
    struct graph g;
    graph_read(&g, B("(X\3\0\0\0m.aX\3\0\0\0m.aX\3\0\0\0m.bt."));
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    CU_ASSERT(value_item(g.root, 0)->flags & VALUE_SHARED);
    CU_ASSERT_EQUAL(value_item(g.root, 0), value_item(g.root, 1));
    CU_ASSERT_FALSE(value_item(g.root, 2)->flags & VALUE_SHARED);
    graph_free(&g);
    graph_read(&g, B("(X\3\0\0\0m.aq\0X\3\0\0\0m.ar\1\0\0\0X\3\0\0\0m.ah\0t."));
    CU_ASSERT_EQUAL_FATAL(g.status, CKPT_OK);
    CU_ASSERT(value_item(g.root, 0)->flags & VALUE_SHARED);
    CU_ASSERT_EQUAL(value_item(g.root, 0), value_item(g.root, 3));
    CU_ASSERT_FALSE(value_item(g.root, 1)->flags & VALUE_SHARED);
    CU_ASSERT_NOT_EQUAL(value_item(g.root, 0), value_item(g.root, 1));
    CU_ASSERT_NOT_EQUAL(value_item(g.root, 1), value_item(g.root, 2));
    graph_free(&g);
}

/* --------------------------------------------------------- all of the corpus */

static int shortened, differ;

/* shorter - what becomes of the key S: it ends where its last letters begin. */
static ckpt_str shorter(ckpt_str s)
{
    size_t n = s.len - s.len % 5;
    while (n && ((unsigned char)s.ptr[n - 1] & 0x80))
        n--;
    return str_of(s.ptr, n);
}

static bool entry(void *user, const ckpt_value *v, uint32_t i, ckpt_str *text)
{
    const struct graph *g = user;
    uint32_t n;
    const value_pair *pairs = value_pairs(v, &n);
    ckpt_str old;
    if (v == g->root && value_text(pairs[i].key, &old) && !(pairs[i].key->flags & VALUE_SHARED))
        *text = shorter(old);
    return true;
}

static size_t list_keys(const ckpt_value *root, struct pickle_text *list)
{
    uint32_t n;
    size_t count = 0;
    const value_pair *pairs = value_pairs(root, &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str old;
        if (value_text(pairs[i].key, &old) && !(pairs[i].key->flags & VALUE_SHARED))
            list[count++] = (struct pickle_text){pairs[i].key, shorter(old)};
    }
    return count;
}

static void check_pickle(const char *name, ckpt_str s)
{
    struct graph g, after;
    uint32_t n;
    buf want, got;
    struct pickle_hooks hooks = {.user = &g, .entry = entry};
    graph_read(&g, s.ptr, s.len);
    bool mapping = g.status == CKPT_OK && value_pairs(g.root, &n) && n;
    struct pickle_text *list = mapping ? calloc(n, sizeof *list) : NULL;
    unsigned char *bytes = unit_guard(s.ptr, s.len);
    if (list && pickle_shorten(bytes, s.len, &g.facts, list, list_keys(g.root, list))) {
        buf_init(&want, 64 << 20);
        buf_init(&got, 64 << 20);
        graph_read(&after, bytes, s.len);
        ckpt_status old = pickle_write(g.root, &hooks, &want, NULL);
        ckpt_status new = after.status ? after.status : pickle_write(after.root, NULL, &got, NULL);
        bool same = old == new && want.len == got.len && memcmp(want.data, got.data, got.len) == 0;
        shortened++;
        differ += !same;
        if (!same)
            printf("\n    %s differs\n", name);
        buf_free(&want);
        buf_free(&got);
        graph_free(&after);
    }
    unit_guard_free(bytes, s.len);
    free(list);
    graph_free(&g);
}

static void the_graph_is_that_of_one_written_again(void)
{
    shortened = differ = 0;
    graph_corpus(check_pickle);
    CU_ASSERT(shortened > 100);
    CU_ASSERT_EQUAL(differ, 0);
    if (differ || shortened <= 100)
        printf("\n    %d shortened, %d differ\n", shortened, differ);
}

void suite_pickle_shorten(void)
{
    UNIT(these_bytes_and_no_others);
    UNIT(texts_met_again_are_shared);
    UNIT(the_graph_is_that_of_one_written_again);
}
