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

/* fill_window - sets *FROM to the next *NBYTES bytes of text: at least two, unless the text ends. */
static ckpt_status fill_window(struct latin1_source *latin1_source, const unsigned char **from,
                               size_t *nbytes, ckpt_error *err)
{
    uint64_t win_offset = latin1_source->text_pos < latin1_source->win_pos
                              ? WINDOW
                              : latin1_source->text_pos - latin1_source->win_pos;
    if (win_offset + 2 > latin1_source->win_len) {
        uint64_t left = latin1_source->text->size - latin1_source->text_pos;
        latin1_source->win_pos = latin1_source->text_pos;
        latin1_source->win_len = left < WINDOW ? (size_t)left : WINDOW;
        win_offset = 0;
        ckpt_status st = source_read(latin1_source->text, latin1_source->text_pos, latin1_source->win,
                                     latin1_source->win_len, err);
        if (st != CKPT_OK) {
            latin1_source->win_len = 0;
            return st;
        }
    }
    *from = latin1_source->win + win_offset;
    *nbytes = latin1_source->win_len - (size_t)win_offset;
    return CKPT_OK;
}

/* decode_latin1 - decodes at most WANT code points of the NBYTES bytes at BYTES to OUT (NULL: only
 * counts them) and returns how many; *USED is set to the bytes they take. */
static size_t decode_latin1(const unsigned char *bytes, size_t nbytes, unsigned char *out, size_t want,
                            size_t *used)
{
    size_t i = 0, done = 0;
    while (done < want && i < nbytes) {
        unsigned char c = bytes[i];
        if (c < 0x80) {
            i++;
        } else if ((c == 0xC2 || c == 0xC3) && nbytes - i >= 2 && (bytes[i + 1] & 0xC0) == 0x80) {
            c = (unsigned char)(c << 6 | (bytes[i + 1] & 0x3F));
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

/* decode_forward - decodes the next NBYTES bytes to OUT (NULL: skips them). */
static ckpt_status decode_forward(struct latin1_source *latin1_source, unsigned char *out, uint64_t nbytes,
                                  ckpt_error *err)
{
    while (nbytes) {
        const unsigned char *p;
        size_t available, used;
        CKPT_TRY(fill_window(latin1_source, &p, &available, err));
        uint64_t to_point = SEEK_POINT_EVERY - latin1_source->decoded_pos % SEEK_POINT_EVERY;
        size_t want = (size_t)(nbytes < to_point ? nbytes : to_point);
        size_t done = decode_latin1(p, available, out, want, &used);
        if (!done)
            return fail_changed_text(err);
        latin1_source->decoded_pos += done;
        latin1_source->text_pos += used;
        nbytes -= done;
        if (out)
            out += done;
        if (latin1_source->decoded_pos % SEEK_POINT_EVERY == 0 &&
            latin1_source->decoded_pos / SEEK_POINT_EVERY == latin1_source->nseek_points)
            latin1_source->seek_points[latin1_source->nseek_points++] = latin1_source->text_pos;
    }
    return CKPT_OK;
}

/* decode_range - does what latin1_read does, under the lock. */
static ckpt_status decode_range(struct latin1_source *latin1_source, uint64_t off, void *out, size_t nbytes,
                                ckpt_error *err)
{
    uint64_t point = off / SEEK_POINT_EVERY;
    if (point >= latin1_source->nseek_points)
        point = latin1_source->nseek_points - 1;
    if (off < latin1_source->decoded_pos || point * SEEK_POINT_EVERY > latin1_source->decoded_pos) {
        latin1_source->decoded_pos = point * SEEK_POINT_EVERY;
        latin1_source->text_pos = latin1_source->seek_points[point];
    }
    CKPT_TRY(decode_forward(latin1_source, NULL, off - latin1_source->decoded_pos, err));
    return decode_forward(latin1_source, out, nbytes, err);
}

static ckpt_status latin1_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    struct latin1_source *l = (struct latin1_source *)src;
    pthread_mutex_lock(&l->lock);
    ckpt_status st = decode_range(l, off, out, nbytes, err);
    pthread_mutex_unlock(&l->lock);
    return st;
}

static void latin1_close(source *src)
{
    struct latin1_source *l = (struct latin1_source *)src;
    pthread_mutex_destroy(&l->lock);
    source_unref(l->text);
    free(l->seek_points);
    free(l);
}

static void latin1_advise(source *src) { source_advise_sequential(((struct latin1_source *)src)->text); }

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
