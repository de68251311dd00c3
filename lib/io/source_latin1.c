/* source_latin1.c - bytes that a pickle keeps as text: each byte 0x80..0xFF was
 * written as the two UTF-8 bytes of U+0080..U+00FF (CPython's pickle module,
 * save_bytes below protocol 3: codecs.encode(text, 'latin1')). */
#include <pthread.h>
#include <stdlib.h>

#include "io/source.h"

#define SEEK_POINT_EVERY 65536u /* decoded bytes between seek points */
#define WINDOW           32768u

struct latin1_source {
    source source;
    pthread_mutex_t lock; /* protects the fields below except TEXT */
    source *text;
    uint64_t decoded_pos;  /* offset of the next decoded byte … */
    uint64_t text_pos;     /* … and of its code point in text */
    uint64_t *seek_points; /* [i]: offset in text of decoded byte i * SEEK_POINT_EVERY */
    uint64_t nseek_points; /* those known so far, at least one */
    uint64_t win_pos;      /* window: win_len bytes of text at win_pos */
    size_t win_len;
    unsigned char win[WINDOW];
};

static ckpt_status fail_changed_text(ckpt_error *err)
{
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET, "text that encodes bytes changed since it was read");
}

/* fill_window - sets *FROM to the next *N bytes of text: at least two, unless the text ends. */
static ckpt_status fill_window(struct latin1_source *l, const unsigned char **from, size_t *n,
                               ckpt_error *err)
{
    uint64_t win_offset = l->text_pos < l->win_pos ? WINDOW : l->text_pos - l->win_pos;
    if (win_offset + 2 > l->win_len) {
        uint64_t left = l->text->size - l->text_pos;
        l->win_pos = l->text_pos;
        l->win_len = left < WINDOW ? (size_t)left : WINDOW;
        win_offset = 0;
        ckpt_status st = source_read(l->text, l->text_pos, l->win, l->win_len, err);
        if (st != CKPT_OK) {
            l->win_len = 0;
            return st;
        }
    }
    *from = l->win + win_offset;
    *n = l->win_len - (size_t)win_offset;
    return CKPT_OK;
}

/* decode_latin1 - decodes at most WANT code points of the N bytes at P to OUT (NULL: only
 * counts them) and returns how many; *USED is set to the bytes they take. */
static size_t decode_latin1(const unsigned char *p, size_t n, unsigned char *out, size_t want, size_t *used)
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

/* decode_forward - decodes the next N bytes to OUT (NULL: skips them). */
static ckpt_status decode_forward(struct latin1_source *l, unsigned char *out, uint64_t n, ckpt_error *err)
{
    while (n) {
        const unsigned char *p;
        size_t available, used;
        CKPT_TRY(fill_window(l, &p, &available, err));
        uint64_t to_point = SEEK_POINT_EVERY - l->decoded_pos % SEEK_POINT_EVERY;
        size_t want = (size_t)(n < to_point ? n : to_point);
        size_t done = decode_latin1(p, available, out, want, &used);
        if (!done)
            return fail_changed_text(err);
        l->decoded_pos += done;
        l->text_pos += used;
        n -= done;
        if (out)
            out += done;
        if (l->decoded_pos % SEEK_POINT_EVERY == 0 && l->decoded_pos / SEEK_POINT_EVERY == l->nseek_points)
            l->seek_points[l->nseek_points++] = l->text_pos;
    }
    return CKPT_OK;
}

/* decode_range - does what latin1_read does, under the lock. */
static ckpt_status decode_range(struct latin1_source *l, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    uint64_t point = off / SEEK_POINT_EVERY;
    if (point >= l->nseek_points)
        point = l->nseek_points - 1;
    if (off < l->decoded_pos || point * SEEK_POINT_EVERY > l->decoded_pos) {
        l->decoded_pos = point * SEEK_POINT_EVERY;
        l->text_pos = l->seek_points[point];
    }
    CKPT_TRY(decode_forward(l, NULL, off - l->decoded_pos, err));
    return decode_forward(l, out, n, err);
}

static ckpt_status latin1_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    struct latin1_source *l = (struct latin1_source *)s;
    pthread_mutex_lock(&l->lock);
    ckpt_status st = decode_range(l, off, out, n, err);
    pthread_mutex_unlock(&l->lock);
    return st;
}

static void latin1_close(source *s)
{
    struct latin1_source *l = (struct latin1_source *)s;
    pthread_mutex_destroy(&l->lock);
    source_unref(l->text);
    free(l->seek_points);
    free(l);
}

static void latin1_advise(source *s) { source_advise_sequential(((struct latin1_source *)s)->text); }

static const struct source_ops latin1_ops = {
    .read_at = latin1_read, .close = latin1_close, .advise_sequential = latin1_advise};

ckpt_status source_latin1(source *parent, uint64_t off, uint64_t size, uint64_t count, source **out,
                          ckpt_error *err)
{
    if (count > size || size - count > count)
        return fail(err, CKPT_EFORMAT, source_pos(parent, off), "text of {%llu bytes} cannot encode {=%llu}",
                    (unsigned long long)size, (unsigned long long)count);
    source *text;
    CKPT_TRY(source_slice(parent, off, size, &text, err));
    struct latin1_source *l = calloc(1, sizeof *l);
    /* One seek point for each 64 KiB that are in the parent: a false count cannot make this large. */
    uint64_t *seek_points = calloc((size_t)(count / SEEK_POINT_EVERY) + 1, sizeof *seek_points);
    if (!l || !seek_points) {
        free(l);
        free(seek_points);
        source_unref(text);
        return fail_memory(err);
    }
    l->source = (source){
        .ops = &latin1_ops, .size = count, .position = CKPT_NO_OFFSET, .refs = 1, .serializes_reads = true};
    pthread_mutex_init(&l->lock, NULL);
    l->text = text;
    l->seek_points = seek_points;
    l->nseek_points = 1;
    *out = &l->source;
    return CKPT_OK;
}
