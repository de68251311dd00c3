/* source_blocks.c - a source of the bytes that compressed blocks decode to, such as the chunks of HDF5 and
 * Zarr. See block_cache.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/search.h"
#include "io/block_cache.h"

struct blocks_source {
    source source;
    block_cache *cache;
    struct block *block;
    size_t n;
    const struct block_decoder *decoder;
    struct cached_block **slot; /* one for each block */
};

/* find_block - returns the block that has the decoded byte OFF, which exists. */
static size_t find_block(const struct blocks_source *blocks_source, uint64_t off)
{
    return find_begin(blocks_source->block, blocks_source->n, sizeof *blocks_source->block,
                      offsetof(struct block, start), off);
}

static ckpt_status blocks_read(source *src, uint64_t off, void *to, size_t nbytes, ckpt_error *err)
{
    const struct blocks_source *s = (const struct blocks_source *)src;
    unsigned char *out = to;
    for (size_t i = find_block(s, off); nbytes; i++) {
        const struct block *b = &s->block[i];
        uint64_t left = b->start + b->size - off;
        size_t count = left < nbytes ? (size_t)left : nbytes;
        if (count)
            CKPT_TRY(block_cache_read(s->cache, &s->slot[i], b, s->decoder, off - b->start, out, count, err));
        out += count;
        off += count;
        nbytes -= count;
    }
    return CKPT_OK;
}

static void blocks_advise(source *src)
{
    const struct blocks_source *s = (const struct blocks_source *)src;
    for (size_t i = 0; i < s->n; i++)
        if (i == 0 || s->block[i].src != s->block[i - 1].src)
            source_advise_sequential(s->block[i].src);
}

static void blocks_close(source *src)
{
    struct blocks_source *s = (struct blocks_source *)src;
    for (size_t i = 0; i < s->n; i++) {
        block_cache_drop(s->cache, &s->slot[i]);
        source_unref(s->block[i].src);
    }
    block_cache_unref(s->cache);
    free(s->slot);
    free(s);
}

static const struct source_ops blocks_ops = {
    .read_at = blocks_read, .close = blocks_close, .advise_sequential = blocks_advise};

/* check_blocks - checks that the sources have the stored bytes; sets the START of each block, and *SIZE. */
static ckpt_status check_blocks(struct block *block, size_t count, uint64_t *size, ckpt_error *err)
{
    *size = 0;
    for (size_t i = 0; i < count; i++) {
        struct block *b = &block[i];
        if (!range_within(b->offset, b->stored, b->src->size))
            return fail(err, CKPT_ETRUNCATED, source_pos(b->src, b->offset),
                        "block %zu needs {=%" PRIu64 " bytes}, {%" PRIu64 "} are left", i, b->stored,
                        b->offset < b->src->size ? b->src->size - b->offset : 0);
        b->start = *size;
        if (!checked_add(*size, b->size, size) || *size > INT64_MAX)
            return fail(err, CKPT_EFORMAT, source_pos(b->src, b->offset),
                        "%zu blocks decode to {more} than {=2^63 bytes}", count);
    }
    return CKPT_OK;
}

ckpt_status source_blocks(block_cache *cache, struct block *block, size_t count,
                          const struct block_decoder *decoder, source **out, ckpt_error *err)
{
    uint64_t size;
    CKPT_TRY(check_blocks(block, count, &size, err));
    struct blocks_source *s = calloc(1, sizeof *s);
    struct cached_block **slot = calloc(count + 1, sizeof *slot);
    if (!s || !slot) {
        free(s);
        free(slot);
        return fail_memory(err);
    }
    *s = (struct blocks_source){
        .source = {.ops = &blocks_ops, .size = size, .position = CKPT_NO_OFFSET, .refs = 1},
        .cache = cache,
        .block = block,
        .n = count,
        .decoder = decoder,
        .slot = slot};
    block_cache_ref(cache);
    for (size_t i = 0; i < count; i++) {
        (void)source_ref(block[i].src);
        s->source.serializes_reads = s->source.serializes_reads || block[i].src->serializes_reads;
    }
    *out = &s->source;
    return CKPT_OK;
}
