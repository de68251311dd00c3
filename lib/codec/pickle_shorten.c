/* pickle_shorten.c - see pickle_shorten.h. What is replaced, and by what, is one of
 *
 *   OFFSET  SIZE  DESCRIPTION
 *   0       1     'X' BINUNICODE, 'T' BINSTRING      55 SHORT_BINSTRING, 8C SHORT_BINUNICODE
 *   1       4, 1  its length
 *   5, 2          the text
 *
 * and before STOP, where nothing reads the memo any more, stand PUTs to its index 0,
 * which take up the bytes that are free then.
 *
 * Not done: longer texts; pickles with frames, which tell their lengths; with anything
 * behind STOP; where 1 or 3 bytes would be left, as no PUTs are as long. */
#include "codec/pickle_shorten.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/utf8.h"
#include "codec/pickle_ops.h"
#include "codec/pickle_write.h"

static int by_place(const void *a, const void *b)
{
    const struct pickle_text *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void sort(struct pickle_text *list, size_t n)
{
    size_t i = 1;
    while (i < n && list[i - 1].at < list[i].at)
        i++;
    if (i < n) /* mostly they are in order */
        qsort(list, n, sizeof *list, by_place);
}

/* head_of - the bytes before the text of the opcode at BYTES, which holds X->old; 0: it does not. */
static size_t head_of(const unsigned char *bytes, size_t left, const struct pickle_text *x)
{
    bool wide = bytes[0] == PICKLE_BINUNICODE || bytes[0] == PICKLE_BINSTRING;
    bool brief = bytes[0] == PICKLE_SHORT_BINUNICODE || bytes[0] == PICKLE_SHORT_BINSTRING;
    size_t head = wide ? 5 : 2;
    if (!(wide || brief) || left < head || left - head < x->old.len) /* bounded: looked at in turn */
        return 0;
    size_t n = wide ? load_u32le(bytes + 1) : bytes[1]; /* bounded: HEAD bytes are there */
    return n == x->old.len && memcmp(bytes + head, x->old.ptr, n) == 0 ? head : 0; /* bounded: likewise */
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
        if (x->at < from || x->at >= size - 1 || x->text.len > x->old.len)
            return false;
        size_t at = (size_t)x->at, head = head_of(bytes + at, size - at, x); /* bounded: at < size */
        if (!head)
            return false;
        memmove(to, bytes + from, at - from); /* bounded: from <= at */
        to = put(to + (at - from), bytes + at, head, x);
        from = at + head + x->old.len; /* bounded: head_of saw that much */
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

bool pickle_is_shortened(const unsigned char *now, const unsigned char *old, size_t size,
                         const struct pickle_text *list, size_t n)
{
    size_t from = 0, at = 0; /* in OLD and in NOW, which is behind it */
    for (size_t i = 0; i < n; i++) {
        const struct pickle_text *x = &list[i], y = {.old = x->text};
        if (x->at < from || x->at >= size)
            return false;
        size_t same = (size_t)x->at - from; /* bounded: the one is behind the other */
        if (memcmp(now + at, old + from, same) != 0)
            return false;
        from += same; /* bounded: below SIZE, and AT is not beyond it */
        at += same;
        size_t head = head_of(old + from, size - from, x); /* bounded: below SIZE */
        bool text = old[from] == PICKLE_BINUNICODE || old[from] == PICKLE_SHORT_BINUNICODE;
        if (!head || now[at] != old[from] || head_of(now + at, size - at, &y) != head || /* bounded: as OLD */
            x->text.len > x->old.len || (text && !utf8_check(x->text, true, NULL)))
            return false;
        from += head + x->old.len; /* bounded: head_of saw as much */
        at += head + x->text.len; /* bounded: likewise */
    }
    size_t rest = from < size ? size - 1 - from : 0; /* bounded: FROM < SIZE */
    if (from >= size || memcmp(now + at, old + from, rest) != 0) /* bounded: below SIZE, both */
        return false;
    at += rest; /* bounded: likewise */
    return old[size - 1] == PICKLE_STOP && only_puts(now + at, size - at); /* bounded: FROM < SIZE */
}
