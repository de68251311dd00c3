/* block_cache.c - see block_cache.h.
 *
 * A tensor that is cut into columns is read a band of rows at a time, and each band needs a little of every
 * block that has some of its rows. If each band decoded its blocks again, a block would be decoded a hundred
 * times. So a block that leaves memory before all of it was read is moved to a temporary file, which is a
 * ring: a new block replaces the oldest ones. A fully read block leaves memory first, and is freed.
 *
 * A block is BUSY while one thread makes or moves it, and has PINS while it is read; threads make, move and
 * read without the lock. A thread that waits has pinned nothing, and a thread that makes a block waits only
 * for threads that read or move other blocks: no two threads can wait for each other. */
#include "io/block_cache.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/fd.h"

struct cached_block {
    struct cached_block *prev, *next;
    struct cached_block **slot; /* the pointer to this block, which is cleared when the block is dropped */
    source *decoded;            /* the decoded bytes in a spool; NULL: not decoded yet */
    uint64_t size;
    uint64_t unread; /* decoded bytes that were not read yet, if each is read once */
    uint64_t file_offset;
    unsigned pins;
    bool busy, in_file;
};

struct block_cache {
    int refs;                      /* changed without the lock, but never by two threads at the same time */
    pthread_mutex_t lock;          /* protects the fields below */
    pthread_cond_t block_released; /* signalled when a block is no longer busy or pinned */
    uint64_t max_memory_bytes, max_file_bytes;
    struct cached_block memory_list; /* head of the blocks in memory; the block after it leaves next */
    struct cached_block file_list;   /* head of the blocks in the file, the oldest block first */
    uint64_t memory_used;            /* bytes */
    int fd;                          /* -1: no file yet */
    uint64_t next_offset;            /* offset in the file for the next block */
};

static void list_init(struct cached_block *head) { head->prev = head->next = head; }

static void list_remove(struct cached_block *b)
{
    b->prev->next = b->next;
    b->next->prev = b->prev;
}

/* list_add - inserts B after AFTER, which may be the head of a list. */
static void list_add(struct cached_block *after, struct cached_block *b)
{
    b->prev = after;
    b->next = after->next;
    after->next->prev = b;
    after->next = b;
}

block_cache *block_cache_new(uint64_t max_memory, uint64_t max_file)
{
    block_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->block_released, NULL);
    list_init(&c->memory_list);
    list_init(&c->file_list);
    c->refs = 1;
    c->max_memory_bytes = max_memory;
    c->max_file_bytes = max_file;
    c->fd = -1;
    return c;
}

void block_cache_ref(block_cache *c) { c->refs++; }

void block_cache_unref(block_cache *c)
{
    if (!c || --c->refs)
        return;
    if (c->fd >= 0)
        close(c->fd);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->block_released);
    free(c);
}

/* --------------------------------------------------------------------------- room */

static bool is_free(const struct cached_block *b) { return !b->busy && !b->pins; }

static void drop_block(block_cache *c, struct cached_block *b)
{
    list_remove(b);
    if (!b->in_file)
        c->memory_used -= b->size;
    *b->slot = NULL;
    source_unref(b->decoded);
    free(b);
}

/* reserve_in_file - reserves room in the file for B, which is in no list; false: errno. */
static bool reserve_in_file(block_cache *c, struct cached_block *b)
{
    if (c->fd < 0 && (c->fd = fd_temp(NULL)) < 0)
        return false;
    for (;;) {
        struct cached_block *oldest = c->file_list.next;
        /* If B does not fit before the end of the ring, drop the blocks up to there and go on at offset 0. */
        bool wraps = c->next_offset &&
                     (c->next_offset > c->max_file_bytes || b->size > c->max_file_bytes - c->next_offset);
        if (oldest != &c->file_list && oldest->file_offset >= c->next_offset &&
            (wraps || oldest->file_offset - c->next_offset < b->size)) {
            if (is_free(oldest))
                drop_block(c, oldest);
            else
                pthread_cond_wait(&c->block_released, &c->lock);
        } else if (wraps) {
            c->next_offset = 0;
        } else {
            break;
        }
    }
    b->in_file = true;
    b->file_offset = c->next_offset;
    c->next_offset += b->size;
    list_add(c->file_list.prev, b);
    return true;
}

/* move_to_file - moves B from memory to the file; false: B could not be written. */
static bool move_to_file(block_cache *c, struct cached_block *b)
{
    b->busy = true;
    list_remove(b);
    bool ok = reserve_in_file(c, b);
    if (ok) {
        pthread_mutex_unlock(&c->lock);
        ok = spool_move(b->decoded, c->fd, b->file_offset);
        pthread_mutex_lock(&c->lock);
        c->memory_used -= b->size;
    } else {
        list_add(&c->memory_list, b);
    }
    b->busy = false;
    pthread_cond_broadcast(&c->block_released);
    return ok;
}

/* reserve_in_memory - makes room for B, which is in no list. */
static void reserve_in_memory(block_cache *c, struct cached_block *b)
{
    while (c->memory_used + b->size > c->max_memory_bytes) {
        struct cached_block *leaving = c->memory_list.next;
        while (leaving != &c->memory_list && !is_free(leaving))
            leaving = leaving->next;
        if (leaving == &c->memory_list)
            pthread_cond_wait(&c->block_released, &c->lock);
        else if (leaving->unread == 0 || !move_to_file(c, leaving))
            drop_block(c, leaving);
    }
    c->memory_used += b->size;
    list_add(c->memory_list.prev, b);
}

/* ------------------------------------------------------------------------- reading */

/* A source of the stored bytes of a block. It takes no reference to b->src and is on the stack of the thread
 * that decodes the block, because several threads must not count references at the same time. */
struct stored_source {
    source source;
    const struct block *b;
};

static ckpt_status stored_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    const struct block *b = ((struct stored_source *)s)->b;
    return source_read(b->src, b->offset + off, out, n, err);
}

static void stored_close(source *s) { (void)s; }

static const struct source_ops stored_ops = {.read_at = stored_read, .close = stored_close};

/* decode_block - decodes B by D to TO. */
static ckpt_status decode_block(const struct block *b, const struct block_decoder *d, spool *to,
                                ckpt_error *err)
{
    uint64_t pos = source_pos(b->src, b->offset);
    struct stored_source stored = {{.ops = &stored_ops, .size = b->stored, .position = pos, .refs = 1}, b};
    ckpt_status st = d->decode(d->user, &stored.source, to, err);
    if (spool_is_full(to))
        return fail(err, CKPT_EFORMAT, pos, "a block (%s) decodes to {more} than {=%" PRIu64 " bytes}",
                    d->name, b->size);
    CKPT_TRY(st);
    return spool_size(to) == b->size
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, pos,
                      "a block (%s) decodes to {%" PRIu64 "} bytes, it must have {=%" PRIu64 "}", d->name,
                      spool_size(to), b->size);
}

/* fill_block - decodes B by D into CACHED, which is busy and has room in memory or in the file. */
static ckpt_status fill_block(block_cache *c, struct cached_block *cached, const struct block *b,
                              const struct block_decoder *d, ckpt_error *err)
{
    spool *to = cached->in_file ? spool_new_at(c->fd, cached->file_offset, b->size)
                                : spool_new_in_memory(b->size);
    CKPT_TRY_ALLOC(to, err);
    ckpt_status st = decode_block(b, d, to, err);
    cached->decoded = spool_source(to);
    return b->file ? name_file_if_failed(st, b->file, err) : st;
}

/* make_block - makes a cached block of B for SLOT, which has none. */
static ckpt_status make_block(block_cache *c, struct cached_block **slot, const struct block *b,
                              const struct block_decoder *d, ckpt_error *err)
{
    struct cached_block *made = calloc(1, sizeof *made);
    CKPT_TRY_ALLOC(made, err);
    *made = (struct cached_block){.slot = slot, .size = b->size, .unread = b->size, .busy = true};
    *slot = made;
    if (b->size <= c->max_memory_bytes / 2) {
        reserve_in_memory(c, made);
    } else if (!reserve_in_file(c, made)) {
        *slot = NULL;
        free(made);
        return fail_errno(err, CKPT_NO_OFFSET,
                          "cannot spool unpacked bytes\nset TMPDIR to a folder with room for them");
    }
    pthread_mutex_unlock(&c->lock);
    ckpt_status st = fill_block(c, made, b, d, err);
    pthread_mutex_lock(&c->lock);
    made->busy = false;
    if (st != CKPT_OK)
        drop_block(c, made);
    pthread_cond_broadcast(&c->block_released);
    return st;
}

/* pin_block - sets *OUT to the block of SLOT, which is made if needed, and pins it. */
static ckpt_status pin_block(block_cache *c, struct cached_block **slot, const struct block *b,
                             const struct block_decoder *d, struct cached_block **out, ckpt_error *err)
{
    while (!*slot || (*slot)->busy) {
        if (*slot)
            pthread_cond_wait(&c->block_released, &c->lock);
        else
            CKPT_TRY(make_block(c, slot, b, d, err));
    }
    *out = *slot;
    (*out)->pins++;
    return CKPT_OK;
}

/* unpin_block - unpins a block after N bytes of it were read. */
static void unpin_block(block_cache *c, struct cached_block *b, size_t n)
{
    b->pins--;
    b->unread -= n < b->unread ? n : b->unread;
    if (!b->in_file) {
        list_remove(b);
        list_add(b->unread ? c->memory_list.prev : &c->memory_list, b);
    }
    pthread_cond_broadcast(&c->block_released);
}

ckpt_status block_cache_read(block_cache *c, struct cached_block **slot, const struct block *b,
                             const struct block_decoder *d, uint64_t off, void *out, size_t n,
                             ckpt_error *err)
{
    struct cached_block *pinned;
    pthread_mutex_lock(&c->lock);
    ckpt_status st = pin_block(c, slot, b, d, &pinned, err);
    pthread_mutex_unlock(&c->lock);
    CKPT_TRY(st);
    st = source_read(pinned->decoded, off, out, n, err);
    pthread_mutex_lock(&c->lock);
    unpin_block(c, pinned, n);
    pthread_mutex_unlock(&c->lock);
    return st;
}

void block_cache_drop(block_cache *c, struct cached_block **slot)
{
    pthread_mutex_lock(&c->lock);
    while (*slot && !is_free(*slot))
        pthread_cond_wait(&c->block_released, &c->lock);
    if (*slot)
        drop_block(c, *slot);
    pthread_mutex_unlock(&c->lock);
}
