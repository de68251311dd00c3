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

static void list_remove(struct cached_block *block)
{
    block->prev->next = block->next;
    block->next->prev = block->prev;
}

/* list_add - inserts BLOCK after AFTER, which may be the head of a list. */
static void list_add(struct cached_block *after, struct cached_block *block)
{
    block->prev = after;
    block->next = after->next;
    after->next->prev = block;
    after->next = block;
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

void block_cache_ref(block_cache *cache) { cache->refs++; }

void block_cache_unref(block_cache *cache)
{
    if (!cache || --cache->refs)
        return;
    if (cache->fd >= 0)
        close(cache->fd);
    pthread_mutex_destroy(&cache->lock);
    pthread_cond_destroy(&cache->block_released);
    free(cache);
}

/* --------------------------------------------------------------------------- room */

static bool is_free(const struct cached_block *block) { return !block->busy && !block->pins; }

static void drop_block(block_cache *cache, struct cached_block *block)
{
    list_remove(block);
    if (!block->in_file)
        cache->memory_used -= block->size;
    *block->slot = NULL;
    source_unref(block->decoded);
    free(block);
}

/* reserve_in_file - reserves room in the file for BLOCK, which is in no list; false: errno. */
static bool reserve_in_file(block_cache *cache, struct cached_block *block)
{
    if (cache->fd < 0 && (cache->fd = fd_temp(NULL)) < 0)
        return false;
    for (;;) {
        struct cached_block *oldest = cache->file_list.next;
        /* If BLOCK does not fit before the end of the ring, drop the blocks up to there and go on at offset
         * 0. */
        bool wraps = cache->next_offset && (cache->next_offset > cache->max_file_bytes ||
                                            block->size > cache->max_file_bytes - cache->next_offset);
        if (oldest != &cache->file_list && oldest->file_offset >= cache->next_offset &&
            (wraps || oldest->file_offset - cache->next_offset < block->size)) {
            if (is_free(oldest))
                drop_block(cache, oldest);
            else
                pthread_cond_wait(&cache->block_released, &cache->lock);
        } else if (wraps) {
            cache->next_offset = 0;
        } else {
            break;
        }
    }
    block->in_file = true;
    block->file_offset = cache->next_offset;
    cache->next_offset += block->size;
    list_add(cache->file_list.prev, block);
    return true;
}

/* move_to_file - moves BLOCK from memory to the file; false: BLOCK could not be written. */
static bool move_to_file(block_cache *cache, struct cached_block *block)
{
    block->busy = true;
    list_remove(block);
    bool ok = reserve_in_file(cache, block);
    if (ok) {
        pthread_mutex_unlock(&cache->lock);
        ok = spool_move(block->decoded, cache->fd, block->file_offset);
        pthread_mutex_lock(&cache->lock);
        cache->memory_used -= block->size;
    } else {
        list_add(&cache->memory_list, block);
    }
    block->busy = false;
    pthread_cond_broadcast(&cache->block_released);
    return ok;
}

/* reserve_in_memory - makes room for BLOCK, which is in no list. */
static void reserve_in_memory(block_cache *cache, struct cached_block *block)
{
    while (cache->memory_used + block->size > cache->max_memory_bytes) {
        struct cached_block *leaving = cache->memory_list.next;
        while (leaving != &cache->memory_list && !is_free(leaving))
            leaving = leaving->next;
        if (leaving == &cache->memory_list)
            pthread_cond_wait(&cache->block_released, &cache->lock);
        else if (leaving->unread == 0 || !move_to_file(cache, leaving))
            drop_block(cache, leaving);
    }
    cache->memory_used += block->size;
    list_add(cache->memory_list.prev, block);
}

/* ------------------------------------------------------------------------- reading */

/* A source of the stored bytes of a block. It takes no reference to b->src and is on the stack of the thread
 * that decodes the block, because several threads must not count references at the same time. */
struct stored_source {
    source source;
    const struct block *b;
};

static ckpt_status stored_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    const struct block *b = ((struct stored_source *)src)->b;
    return source_read(b->src, b->offset + off, out, nbytes, err);
}

static void stored_close(source *src) { (void)src; }

static const struct source_ops stored_ops = {.read_at = stored_read, .close = stored_close};

static ckpt_status decode_block(const struct block *block, const struct block_decoder *decoder, spool *to,
                                ckpt_error *err)
{
    uint64_t pos = source_pos(block->src, block->offset);
    struct stored_source stored = {{.ops = &stored_ops, .size = block->stored, .position = pos, .refs = 1},
                                   block};
    ckpt_status st = decoder->decode(decoder->user, &stored.source, to, err);
    if (spool_is_full(to))
        return fail(err, CKPT_EFORMAT, pos, "a block (%s) decodes to {more} than {=%" PRIu64 " bytes}",
                    decoder->name, block->size);
    CKPT_TRY(st);
    return spool_size(to) == block->size
               ? CKPT_OK
               : fail(err, CKPT_EFORMAT, pos,
                      "a block (%s) decodes to {%" PRIu64 "} bytes, it must have {=%" PRIu64 "}",
                      decoder->name, spool_size(to), block->size);
}

/* fill_block - decodes BLOCK by DECODER into CACHED, which is busy and has room in memory or in the file. */
static ckpt_status fill_block(block_cache *cache, struct cached_block *cached, const struct block *block,
                              const struct block_decoder *decoder, ckpt_error *err)
{
    spool *to = cached->in_file ? spool_new_at(cache->fd, cached->file_offset, block->size)
                                : spool_new_in_memory(block->size);
    CKPT_TRY_ALLOC(to, err);
    ckpt_status st = decode_block(block, decoder, to, err);
    cached->decoded = spool_source(to);
    return block->file ? name_file_if_failed(st, block->file, err) : st;
}

/* make_block - makes a cached block of BLOCK for SLOT, which has none. */
static ckpt_status make_block(block_cache *cache, struct cached_block **slot, const struct block *block,
                              const struct block_decoder *decoder, ckpt_error *err)
{
    struct cached_block *made = calloc(1, sizeof *made);
    CKPT_TRY_ALLOC(made, err);
    *made = (struct cached_block){.slot = slot, .size = block->size, .unread = block->size, .busy = true};
    *slot = made;
    if (block->size <= cache->max_memory_bytes / 2) {
        reserve_in_memory(cache, made);
    } else if (!reserve_in_file(cache, made)) {
        *slot = NULL;
        free(made);
        return fail_errno(err, CKPT_NO_OFFSET,
                          "cannot spool unpacked bytes\nset TMPDIR to a folder with room for them");
    }
    pthread_mutex_unlock(&cache->lock);
    ckpt_status st = fill_block(cache, made, block, decoder, err);
    pthread_mutex_lock(&cache->lock);
    made->busy = false;
    if (st != CKPT_OK)
        drop_block(cache, made);
    pthread_cond_broadcast(&cache->block_released);
    return st;
}

/* pin_block - sets *OUT to the block of SLOT, which is made if needed, and pins it. */
static ckpt_status pin_block(block_cache *cache, struct cached_block **slot, const struct block *block,
                             const struct block_decoder *decoder, struct cached_block **out, ckpt_error *err)
{
    while (!*slot || (*slot)->busy) {
        if (*slot)
            pthread_cond_wait(&cache->block_released, &cache->lock);
        else
            CKPT_TRY(make_block(cache, slot, block, decoder, err));
    }
    *out = *slot;
    (*out)->pins++;
    return CKPT_OK;
}

/* unpin_block - unpins a block after COUNT bytes of it were read. */
static void unpin_block(block_cache *cache, struct cached_block *block, size_t count)
{
    block->pins--;
    block->unread -= count < block->unread ? count : block->unread;
    if (!block->in_file) {
        list_remove(block);
        list_add(block->unread ? cache->memory_list.prev : &cache->memory_list, block);
    }
    pthread_cond_broadcast(&cache->block_released);
}

ckpt_status block_cache_read(block_cache *cache, struct cached_block **slot, const struct block *block,
                             const struct block_decoder *decoder, uint64_t off, void *out, size_t nbytes,
                             ckpt_error *err)
{
    struct cached_block *pinned;
    pthread_mutex_lock(&cache->lock);
    ckpt_status st = pin_block(cache, slot, block, decoder, &pinned, err);
    pthread_mutex_unlock(&cache->lock);
    CKPT_TRY(st);
    st = source_read(pinned->decoded, off, out, nbytes, err);
    pthread_mutex_lock(&cache->lock);
    unpin_block(cache, pinned, nbytes);
    pthread_mutex_unlock(&cache->lock);
    return st;
}

void block_cache_drop(block_cache *cache, struct cached_block **slot)
{
    pthread_mutex_lock(&cache->lock);
    while (*slot && !is_free(*slot))
        pthread_cond_wait(&cache->block_released, &cache->lock);
    if (*slot)
        drop_block(cache, *slot);
    pthread_mutex_unlock(&cache->lock);
}
