/* pickle_shorten.c - see pickle_shorten.h. What is replaced, and by what, is one of
 *
 *   OFFSET  SIZE  DESCRIPTION
 *   0       1     'X' BINUNICODE, 'T' BINSTRING      55 SHORT_BINSTRING, 8C SHORT_BINUNICODE
 *   1       4, 1  its length
 *   5, 2          the text
 *
 * and before STOP, where nothing reads the memo any more, stand PUTs to its index 0,
 * which take up the bytes that are free then. A pair that goes is, as torch.save writes it,
 *
 *   its key, as above; PUT or not
 *   '}' EMPTY_DICT; PUT or not; a GET; 'K', 'M' or 'J' a number; 's' SETITEM
 *
 * followed by another text, a GET or 'u' SETITEMS. Without POP and DUP in the pickle what
 * lies on the stack stays there until it is used, so whoever uses the pair takes all above
 * a mark: SETITEM, which takes two values, could not reach it below the next one. Nothing
 * reads its PUTs, or it would be somewhere else, too.
 *
 * Not done: longer texts; pickles with frames, which tell their lengths; with anything
 * behind STOP; where 1 or 3 bytes would be left, as no PUTs are as long; pairs out of a
 * pickle with MEMOIZE, which counts them. */
#include "codec/pickle_shorten.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/utf8.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_write.h"
#include "io/reader.h"

#define PAIR 32u    /* more than the opcodes of a pair behind its key's text, and of the key before it */
#define PART 65536u /* bytes compared at a time */

static int by_place(const void *a, const void *b)
{
    const struct pickle_text *x = a, *y = b;
    return (x->v->offset > y->v->offset) - (x->v->offset < y->v->offset);
}

static void sort(struct pickle_text *list, size_t n)
{
    size_t i = 1;
    while (i < n && list[i - 1].v->offset < list[i].v->offset)
        i++;
    if (i < n) /* mostly they are in order */
        qsort(list, n, sizeof *list, by_place);
}

/* head_of - the bytes before the text of the opcode at BYTES, which holds TEXT; 0: it does not. */
static size_t head_of(const unsigned char *bytes, size_t left, ckpt_str text)
{
    bool wide = bytes[0] == PICKLE_BINUNICODE || bytes[0] == PICKLE_BINSTRING;
    bool brief = bytes[0] == PICKLE_SHORT_BINUNICODE || bytes[0] == PICKLE_SHORT_BINSTRING;
    size_t head = wide ? 5 : 2;
    if (!(wide || brief) || left < head || left - head < text.len) /* bounded: looked at in turn */
        return 0;
    size_t n = wide ? load_u32le(bytes + 1) : bytes[1]; /* bounded: HEAD bytes are there */
    return n == text.len && memcmp(bytes + head, text.ptr, n) == 0 ? head : 0; /* bounded: likewise */
}

/* took - the opcode that C begins with, and its argument, if it is one of OPS. */
static bool took(cursor *c, const char *ops)
{
    static const uint8_t more[PICKLE_ARG_BI4 + 1] = {
        [PICKLE_ARG_U1] = 1, [PICKLE_ARG_U2] = 2, [PICKLE_ARG_U4] = 4, [PICKLE_ARG_I4] = 4};
    if (!c->left || !*c->p || !strchr(ops, *c->p))
        return false;
    return cursor_take(c, 1 + (size_t)more[pickle_op(*c->p)->argument]);
}

/* pair_size - of the pair at BYTES of which KEY is the key; 0: it is none that can go. */
static size_t pair_size(const unsigned char *bytes, size_t left, ckpt_str key)
{
    size_t head = head_of(bytes, left, key);
    cursor c = cursor_of(bytes, left, 0);
    if (!head || !cursor_take(&c, head + key.len)) /* bounded: head_of saw as much */
        return 0;
    (void)took(&c, "qr");
    bool dict = took(&c, "}");
    (void)took(&c, "qr");
    bool pair = dict && took(&c, "hj") && took(&c, "KMJ") && took(&c, "s");
    size_t n = (size_t)c.pos;
    return pair && c.left && *c.p && strchr("XTU\x8chju", *c.p) ? n : 0;
}

/* may_lose_pairs - is what FACTS tells of a pickle in which what is pushed is used? */
static bool may_lose_pairs(const struct pickle_facts *facts)
{
    static const uint8_t not_in_it[] = {PICKLE_POP, PICKLE_POP_MARK, PICKLE_DUP, PICKLE_MEMOIZE};
    for (size_t i = 0; i < sizeof not_in_it; i++)
        if (facts->first_use[not_in_it[i]] != UINT64_MAX)
            return false;
    return true;
}

/* put - the opcode of HEAD bytes before its text at FROM goes to TO, with the text of X; its end. */
static unsigned char *put(unsigned char *to, const unsigned char *from, size_t head,
                          const struct pickle_text *x)
{
    size_t n = x->text.len;
    *to++ = *from;
    for (size_t i = 1; i < head; i++, n >>= 8)
        *to++ = (unsigned char)n;
    memcpy(to, x->text.ptr, x->text.len);
    return to + x->text.len; /* bounded: no longer than what was there */
}

bool pickle_shorten(unsigned char *bytes, size_t size, const struct pickle_facts *facts,
                    struct pickle_text *list, size_t n)
{
    size_t from = 0;
    unsigned char *to = bytes;
    if (size == 0 || facts->first_use[PICKLE_STOP] != size - 1 ||
        facts->first_use[PICKLE_FRAME] != UINT64_MAX)
        return false;
    sort(list, n);
    for (size_t i = 0; i < n; i++) {
        const struct pickle_text *x = &list[i];
        ckpt_str old = x->v->u.str;
        bool goes = !x->text.ptr;
        if (x->v->offset < from || x->v->offset >= size - 1 || x->text.len > old.len ||
            (goes && !may_lose_pairs(facts)))
            return false;
        size_t at = (size_t)x->v->offset, head = head_of(bytes + at, size - at, old); /* bounded: at < size */
        size_t taken = goes ? pair_size(bytes + at, size - at, old) : head ? head + old.len : 0;
        if (!taken)
            return false;
        memmove(to, bytes + from, at - from); /* bounded: from <= at */
        to += at - from; /* bounded: likewise */
        to = goes ? to : put(to, bytes + at, head, x);
        from = at + taken; /* bounded: head_of or pair_size saw that much */
    }
    size_t rest = size - 1 - from; /* bounded: STOP is behind all of them */
    memmove(to, bytes + from, rest); /* bounded: likewise */
    to += rest;
    return pickle_fill(to, (size_t)(bytes + size - to)); /* bounded: no longer than it was */
}

/* only_puts - is there nothing but PUTs to index 0 and STOP? */
static bool only_puts(const unsigned char *bytes, size_t n)
{
    static const unsigned char zeros[4];
    while (n > 1) {
        size_t put = bytes[0] == PICKLE_BINPUT ? 2 : bytes[0] == PICKLE_LONG_BINPUT ? 5 : n;
        if (put >= n || memcmp(bytes + 1, zeros, put - 1) != 0) /* bounded: PUT is 2 at least */
            return false;
        bytes += put; /* bounded: looked at just now */
        n -= put;
    }
    return n == 1 && bytes[0] == PICKLE_STOP;
}

/* same_run - do the next N bytes of OLD stand at NOW? */
static bool same_run(reader *old, const unsigned char *now, uint64_t n)
{
    for (size_t part; n; n -= part, now += part) { /* bounded: PART is at most N */
        part = n < PART ? (size_t)n : PART;
        const unsigned char *was = reader_take(old, part);
        if (!was || memcmp(was, now, part) != 0)
            return false;
    }
    return true;
}

/* same_change - OLD goes on with what X changes, and NOW, of LEFT bytes, with the *N that come of it. */
static bool same_change(reader *old, const unsigned char *now, size_t left, const struct pickle_text *x,
                        size_t *n)
{
    ckpt_str before = x->v->u.str;
    uint64_t there = reader_left(old); /* bounded: HEAD bytes stand before the text */
    size_t most = before.len < READER_WINDOW - PAIR ? before.len + PAIR : 0; /* bounded: by the window */
    size_t has = most < there ? most : (size_t)there;
    const unsigned char *was = has ? reader_peek(old, has) : NULL;
    size_t head = was ? head_of(was, has, before) : 0;
    *n = 0;
    if (head && !x->text.ptr) {
        size_t gone = pair_size(was, has, before);
        return gone && reader_skip(old, gone);
    }
    bool text = head && (*was == PICKLE_BINUNICODE || *was == PICKLE_SHORT_BINUNICODE);
    if (!head || *now != *was || head_of(now, left, x->text) != head || x->text.len > before.len ||
        (text && !utf8_check(x->text, true, NULL)))
        return false;
    *n = head + x->text.len; /* bounded: head_of saw as much, of both */
    return reader_skip(old, head + before.len); /* bounded: likewise */
}

/* is_shortened - what pickle_is_shortened does; NOW is never further on than OLD. */
static bool is_shortened(const unsigned char *now, reader *old, size_t size, const struct pickle_text *list,
                         size_t n)
{
    size_t at = 0, went;
    for (size_t i = 0; i < n; i++) {
        const struct pickle_text *x = &list[i];
        if (x->v->offset < old->pos || x->v->offset >= size)
            return false;
        size_t same = (size_t)(x->v->offset - old->pos); /* bounded: looked at just now */
        if (!same_run(old, now + at, same)) /* bounded: AT is below SIZE, here and below */
            return false;
        at += same; /* bounded: likewise */
        if (!same_change(old, now + at, size - at, x, &went)) /* bounded: likewise */
            return false;
        at += went; /* bounded: likewise */
    }
    size_t rest = old->pos < size ? size - 1 - (size_t)old->pos : 0; /* bounded: below SIZE */
    if (old->pos >= size || !same_run(old, now + at, rest)) /* bounded: likewise */
        return false;
    at += rest; /* bounded: likewise */
    const unsigned char *last = reader_take(old, 1);
    return last && *last == PICKLE_STOP && only_puts(now + at, size - at); /* bounded: likewise */
}

bool pickle_is_shortened(const unsigned char *now, source *old, size_t size, const struct pickle_text *list,
                         size_t n)
{
    reader r;
    bool same = reader_init(&r, old, 0, size, NULL) == CKPT_OK && is_shortened(now, &r, size, list, n);
    reader_free(&r);
    return same;
}
