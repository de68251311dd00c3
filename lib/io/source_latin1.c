/* source_latin1.c - bytes that a pickle keeps as text: each byte 0x80..0xFF was
 * written as the two UTF-8 bytes of U+0080..U+00FF (CPython's pickle module,
 * save_bytes below protocol 3: codecs.encode(text, 'latin1')). */
#include <stdlib.h>

#include "base/checked.h"
#include "io/source.h"

#define MARK_EVERY 65536u /* decoded bytes between remembered places */
#define WINDOW     32768u

struct latin1_source {
    source s;
    source *text;
    uint64_t pos, at; /* next decoded byte, and where its code point begins in text */
    uint64_t *marks;  /* marks[i]: where decoded byte i * MARK_EVERY begins */
    uint64_t nmarks;  /* known so far; marks[0] always */
    uint64_t win_at;  /* window: win_len bytes of text at win_at */
    size_t win_len;
    unsigned char win[WINDOW];
};

static ckpt_status broken(ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "text that stands for bytes no longer is what it was");
}

/* window - bytes of text from l->at, at least two unless the text ends. */
static ckpt_status window(struct latin1_source *l, const unsigned char **from, size_t *n, ckpt_error *err)
{
    uint64_t into = l->at - l->win_at;
    if (l->at < l->win_at || into + 2 > l->win_len) {
        uint64_t left = l->text->size - l->at;
        l->win_at = l->at;
        l->win_len = left < WINDOW ? (size_t)left : WINDOW;
        into = 0;
        ckpt_status st = source_read(l->text, l->at, l->win, l->win_len, err);
        if (st != CKPT_OK) {
            l->win_len = 0;
            return st;
        }
    }
    *from = l->win + into;
    *n = l->win_len - (size_t)into;
    return CKPT_OK;
}

/* decode - at most WANT code points of N bytes at P into OUT (NULL: counted
 * only); *USED gets the bytes behind them. */
static size_t decode(const unsigned char *p, size_t n, unsigned char *out, size_t want, size_t *used)
{
    size_t i = 0, done = 0;
    while (done < want && i < n) {
        unsigned char c = p[i];
        if (c < 0x80) {
            i++;
        } else if ((c == 0xC2 || c == 0xC3) && n - i >= 2 && (p[i + 1] & 0xC0) == 0x80) {
            c = (unsigned char)(c << 6 | (p[i + 1] & 0x3F));
            i += 2;
        } else {
            break;
        }
        if (out)
            out[done] = c;
        done++;
    }
    *used = i;
    return done;
}

/* forward - the next N decoded bytes to OUT (NULL: passed over). */
static ckpt_status forward(struct latin1_source *l, unsigned char *out, uint64_t n, ckpt_error *err)
{
    while (n) {
        const unsigned char *p;
        size_t have, used;
        CKPT_TRY(window(l, &p, &have, err));
        uint64_t to_mark = MARK_EVERY - l->pos % MARK_EVERY;
        size_t want = (size_t)(n < to_mark ? n : to_mark);
        size_t done = decode(p, have, out, want, &used);
        if (!done)
            return broken(err);
        l->pos += done;
        l->at += used;
        n -= done;
        if (out)
            out += done;
        if (l->pos % MARK_EVERY == 0 && l->pos / MARK_EVERY == l->nmarks)
            l->marks[l->nmarks++] = l->at;
    }
    return CKPT_OK;
}

static ckpt_status latin1_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    struct latin1_source *l = (struct latin1_source *)s;
    uint64_t mark = off / MARK_EVERY;
    if (mark >= l->nmarks)
        mark = l->nmarks - 1;
    if (off < l->pos || mark * MARK_EVERY > l->pos) {
        l->pos = mark * MARK_EVERY;
        l->at = l->marks[mark];
    }
    CKPT_TRY(forward(l, NULL, off - l->pos, err));
    return forward(l, out, n, err);
}

static void latin1_close(source *s)
{
    struct latin1_source *l = (struct latin1_source *)s;
    source_unref(l->text);
    free(l->marks);
    free(l);
}

static void latin1_sequential(source *s) { source_sequential(((struct latin1_source *)s)->text); }

static const struct source_ops latin1_ops = {
    .read_at = latin1_read, .close = latin1_close, .sequential = latin1_sequential};

ckpt_status source_latin1(source *parent, uint64_t off, uint64_t size, uint64_t count, source **out,
                          ckpt_error *err)
{
    if (count > size || size - count > count)
        return fail(err, CKPT_EFORMAT, source_pos(parent, off),
                    "text of {%llu bytes} cannot stand for {=%llu}", (unsigned long long)size,
                    (unsigned long long)count);
    source *text;
    CKPT_TRY(source_slice(parent, off, size, &text, err));
    struct latin1_source *l = calloc(1, sizeof *l);
    /* One mark for every 64 KiB that really are in the parent: cannot be inflated. */
    uint64_t *marks = calloc((size_t)(count / MARK_EVERY) + 1, sizeof *marks);
    if (!l || !marks) {
        free(l);
        free(marks);
        source_unref(text);
        return fail_memory(err);
    }
    l->s = (source){.ops = &latin1_ops, .size = count, .base = CKPT_NO_OFFSET, .refs = 1, .serial = true};
    l->text = text;
    l->marks = marks;
    l->nmarks = 1;
    *out = &l->s;
    return CKPT_OK;
}
