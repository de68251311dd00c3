/* source_http.c - a file on a web server as a source, see http.h. Keeps up to CACHE_BYTES of what was read,
 * so that headers and neighbours are fetched once. What is read in order is fetched ahead: twice as much
 * each time, up to as many requests as may be sent at a time. What was announced is fetched at once when
 * the first of it is read. */
#include <pthread.h>
#include <stdlib.h>

#include "base/str.h"
#include "io/http.h"

#define CACHE_BYTES   (UINT64_C(64) << 20) /* that a file keeps */
#define ALL_BYTES     (UINT64_C(64) << 20) /* that all other files of a server keep together */
#define FIRST_AHEAD   (UINT64_C(256) << 10)
#define BATCH_BYTES   (UINT64_C(48) << 20) /* of what was announced that are fetched at once */
#define MOST_AHEAD    (UINT64_C(32) << 20)
#define MAX_ANNOUNCED 65536u
#define NEAR          (UINT64_C(256) << 10) /* bytes between two ranges that are fetched with them */
#define BLOCK (UINT64_C(64) << 10) /* requests begin and end at multiples of it where nothing is kept */

/* Bytes of the file that are kept. */
struct segment {
    uint64_t from, count;
    unsigned char *bytes; /* owned */
    uint64_t used;        /* when it was last read: a count of reads */
};

/* Bytes [begin, end) of the file. */
struct span {
    uint64_t begin, end;
};

struct http_source {
    source as_source; /* must be first */
    http_client *client;
    struct http_source
        *next_source;            /* of the client; this and `before` are protected by the lock of its cache */
    struct http_source **before; /* what points to this one */
    struct http_file file;
    pthread_mutex_t lock;     /* protects the fields below */
    struct segment *segments; /* sorted, without overlaps */
    size_t n, cap;
    uint64_t kept; /* bytes in all segments */
    uint64_t reads;
    uint64_t next;          /* where the last read ended */
    uint64_t ahead;         /* bytes to fetch after those that are asked for */
    struct span *announced; /* what will be read, see source_will_read */
    size_t nannounced, cap_announced;
    struct source_watch *watch;
};

/* ---------------------------------------------------------------------------- cache */

/* find_after - returns the index of the first segment that ends after OFF. */
static size_t find_after(const struct http_source *from, uint64_t off)
{
    size_t low = 0, high = from->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (from->segments[middle].from + from->segments[middle].count <= off)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* drop_oldest - frees the segments that were not read for longest, until COUNT more bytes may be kept. */
static void drop_oldest(struct http_source *from, uint64_t count)
{
    while (from->n && from->kept + count > CACHE_BYTES) {
        size_t oldest = 0;
        for (size_t i = 1; i < from->n; i++)
            if (from->segments[i].used < from->segments[oldest].used)
                oldest = i;
        from->kept -= from->segments[oldest].count;
        free(from->segments[oldest].bytes);
        memmove(from->segments + oldest, from->segments + oldest + 1,
                (--from->n - oldest) * sizeof *from->segments);
    }
}

/* drop_others - lets the other sources of the client of FROM drop what they keep, if all together keep more
 * than ALL_BYTES. Sources that are being read are left out. */
static void drop_others(struct http_source *from)
{
    struct http_cache *cache = http_client_cache(from->client);
    uint64_t kept = 0;
    pthread_mutex_lock(&cache->lock);
    for (struct http_source *s = cache->first; s; s = s->next_source) {
        if (s == from || pthread_mutex_trylock(&s->lock) != 0)
            continue;
        kept += s->kept; /* each at most CACHE_BYTES */
        if (kept > ALL_BYTES) {
            kept -= s->kept;
            drop_oldest(s, CACHE_BYTES);
        }
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&cache->lock);
}

/* keep - keeps the bytes of RANGE, which it takes over, as far as they are not kept. False: no memory. */
static bool keep(struct http_source *from, struct http_range *range)
{
    size_t at = find_after(from, range->from);
    uint64_t begin = range->from, end = begin + range->count; /* at most the size of the file */
    if (at < from->n && from->segments[at].from <= begin) {
        begin = from->segments[at].from + from->segments[at].count;
        at++;
    }
    if (at < from->n && from->segments[at].from > begin && end > from->segments[at].from)
        end = from->segments[at].from;
    if (begin >= end) {
        free(range->bytes);
        return true;
    }
    if (begin > range->from)
        memmove(range->bytes, range->bytes + (begin - range->from), end - begin);
    drop_oldest(from, end - begin);
    if (from->n == from->cap) {
        struct segment *grown = realloc(from->segments, (2 * from->cap + 8) * sizeof *grown);
        if (!grown) {
            free(range->bytes);
            return false;
        }
        from->segments = grown;
        from->cap = 2 * from->cap + 8;
    }
    at = find_after(from, begin);
    memmove(from->segments + at + 1, from->segments + at, (from->n++ - at) * sizeof *from->segments);
    from->segments[at] = (struct segment){begin, end - begin, range->bytes, ++from->reads};
    from->kept += end - begin;
    return true;
}

/* ---------------------------------------------------------------------------- fetch */

/* The requests of one fetch. */
struct batch {
    struct http_range *ranges;
    size_t n, cap;
};

static void free_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        free(batch->ranges[i].bytes);
    free(batch->ranges);
}

static uint64_t count_bytes(const struct batch *batch)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < batch->n; i++)
        bytes += batch->ranges[i].asked.count;
    return bytes;
}

/* add_requests - adds the requests for [BEGIN, END). False: no memory. */
static bool add_requests(struct http_source *from, uint64_t begin, uint64_t end, struct batch *batch)
{
    while (begin < end) {
        uint64_t count = end - begin < HTTP_REQUEST_BYTES ? end - begin : HTTP_REQUEST_BYTES;
        struct http_range r = {.file = &from->file, .asked = {.from = begin, .count = count}};
        r.bytes = malloc((size_t)count);
        if (!r.bytes || !arena_push(NULL, &batch->ranges, &batch->n, &batch->cap, &r, sizeof r)) {
            free(r.bytes);
            return false;
        }
        begin += count;
    }
    return true;
}

/* add_holes - adds the requests for the bytes of [BEGIN, END) that are not kept. False: no memory. */
static bool add_holes(struct http_source *from, uint64_t begin, uint64_t end, struct batch *batch)
{
    bool ok = true;
    for (size_t i = find_after(from, begin); ok && begin < end; i++) {
        uint64_t hole_end = i < from->n && from->segments[i].from < end ? from->segments[i].from : end;
        if (hole_end > begin)
            ok = add_requests(from, begin, hole_end, batch);
        begin = i < from->n ? from->segments[i].from + from->segments[i].count : end;
    }
    return ok;
}

static int compare_spans(const void *left, const void *right)
{
    const struct span *x = left, *y = right;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* join_announced - sorts what was announced; spans close to each other become one. */
static void join_announced(struct http_source *from)
{
    struct span *spans = from->announced;
    size_t n = 0;
    if (from->nannounced)
        qsort(spans, from->nannounced, sizeof *spans, compare_spans);
    for (size_t i = 0; i < from->nannounced; i++) {
        bool joins = n && (spans[i].begin < spans[n - 1].end || spans[i].begin - spans[n - 1].end < NEAR);
        if (!joins)
            spans[n++] = spans[i];
        else if (spans[i].end > spans[n - 1].end)
            spans[n - 1].end = spans[i].end;
    }
    from->nannounced = n;
}

/* add_announced - adds the requests for up to BATCH_BYTES that were announced, those at OFF first. What
 * follows them stays announced. False: no memory. */
static bool add_announced(struct http_source *from, uint64_t off, struct batch *batch)
{
    uint64_t room = BATCH_BYTES;
    size_t left = 0;
    bool ok = true;
    join_announced(from);
    for (size_t i = 0; ok && i < from->nannounced; i++) {
        struct span s = from->announced[i];
        if (s.begin < off && off < s.end && off - s.begin > BATCH_BYTES / 2)
            s.begin = off; /* what is before it was read */
        uint64_t count = s.end <= off ? 0 : s.end - s.begin < room ? s.end - s.begin : room;
        ok = add_holes(from, s.begin, s.begin + count, batch);
        room -= count;
        s.begin += count;
        if (s.begin < s.end)
            from->announced[left++] = s;
    }
    from->nannounced = left;
    return ok;
}

/* choose_span - returns what to fetch at OFF, which is not kept; up to NBYTES from there on are needed. */
static struct span choose_span(const struct http_source *from, uint64_t off, uint64_t nbytes)
{
    size_t after = find_after(from, off);
    uint64_t kept_before = after ? from->segments[after - 1].from + from->segments[after - 1].count : 0,
             kept_after = after < from->n ? from->segments[after].from : from->as_source.size;
    uint64_t wanted = nbytes > from->ahead ? nbytes : from->ahead;
    struct span s = {off - off % BLOCK, kept_after};
    if (wanted < kept_after - off && kept_after - off - wanted >= BLOCK)
        s.end = (off + wanted + BLOCK - 1) / BLOCK * BLOCK; /* at most kept_after */
    s.begin = s.begin < kept_before ? kept_before : s.begin;
    s.end = s.end - s.begin > MOST_AHEAD ? s.begin + MOST_AHEAD : s.end; /* OFF is in the first BLOCK */
    return s;
}

static bool is_announced(const struct http_source *from, uint64_t off)
{
    for (size_t i = 0; i < from->nannounced; i++)
        if (off >= from->announced[i].begin && off < from->announced[i].end)
            return true;
    return false;
}

/* keep_batch - keeps the bytes of BATCH, which were read with status ST. */
static ckpt_status keep_batch(struct http_source *from, struct batch *batch, ckpt_status st, ckpt_error *err)
{
    for (size_t i = 0; st == CKPT_OK && i < batch->n; i++) {
        struct http_range *r = &batch->ranges[i];
        if (r->count != r->asked.count)
            return fail(err, CKPT_ETRUNCATED, r->from, "the server has {fewer bytes} than {=its size}");
        st = keep(from, r) ? CKPT_OK : fail_memory(err);
        r->bytes = NULL;
    }
    return st;
}

/* fetch_missing - fetches and keeps the bytes at OFF, which are not kept, and others that were announced if
 * they were; up to NBYTES from OFF on are needed. */
static ckpt_status fetch_missing(struct http_source *from, uint64_t off, uint64_t nbytes, ckpt_error *err)
{
    struct batch batch = {0};
    bool ok;
    if (is_announced(from, off)) {
        from->ahead = 0;
        ok = add_announced(from, off, &batch);
    } else {
        struct span needed = choose_span(from, off, nbytes);
        ok = add_holes(from, needed.begin, needed.end, &batch);
    }
    drop_oldest(from, count_bytes(&batch)); /* before there is memory for both */
    drop_others(from);
    ckpt_status st = ok ? http_fetch(from->client, batch.ranges, batch.n, err) : fail_memory(err);
    st = keep_batch(from, &batch, st, err);
    free_batch(&batch);
    return st;
}

/* copy_kept - copies at most NBYTES bytes from OFF on that are kept; returns their number. */
static size_t copy_kept(struct http_source *from, uint64_t off, unsigned char *out, size_t nbytes)
{
    size_t at = find_after(from, off);
    if (at == from->n || from->segments[at].from > off)
        return 0;
    struct segment *s = &from->segments[at];
    uint64_t left = s->from + s->count - off;
    size_t count = left < nbytes ? (size_t)left : nbytes;
    memcpy(out, s->bytes + (off - s->from), count);
    s->used = ++from->reads;
    return count;
}

static ckpt_status read_locked(struct http_source *from, uint64_t off, unsigned char *out, size_t nbytes,
                               ckpt_error *err)
{
    bool in_order = off == from->next, was_extended = false;
    from->next = off + nbytes; /* source_read has checked it */
    while (nbytes) {
        size_t n = copy_kept(from, off, out, nbytes);
        if (n == 0) {
            if (!was_extended && in_order)
                from->ahead = from->ahead < MOST_AHEAD ? (from->ahead ? 2 * from->ahead : FIRST_AHEAD)
                                                       : MOST_AHEAD;
            else if (!was_extended)
                from->ahead = 0;
            was_extended = true;
            CKPT_TRY(fetch_missing(from, off, nbytes, err));
            continue;
        }
        off += n;
        out += n;
        nbytes -= n;
    }
    return CKPT_OK;
}

static ckpt_status http_read(source *src, uint64_t off, void *out, size_t nbytes, ckpt_error *err)
{
    struct http_source *s = (struct http_source *)src;
    pthread_mutex_lock(&s->lock);
    ckpt_status st = read_locked(s, off, out, nbytes, err);
    pthread_mutex_unlock(&s->lock);
    return st == CKPT_OK ? source_watch_read(s->watch, nbytes, err) : st;
}

static void http_close(source *src)
{
    struct http_source *s = (struct http_source *)src;
    struct http_cache *cache = http_client_cache(s->client);
    pthread_mutex_lock(&cache->lock);
    *s->before = s->next_source;
    if (s->next_source)
        s->next_source->before = s->before;
    pthread_mutex_unlock(&cache->lock);
    for (size_t i = 0; i < s->n; i++)
        free(s->segments[i].bytes);
    free(s->segments);
    free(s->announced);
    http_file_free(&s->file);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void http_will_read(source *src, uint64_t off, uint64_t nbytes)
{
    struct http_source *s = (struct http_source *)src;
    const struct span span = {off, off + nbytes}; /* source_will_read has checked it */
    pthread_mutex_lock(&s->lock);
    if (s->nannounced < MAX_ANNOUNCED) /* without memory, it is fetched when it is read */
        (void)arena_push(NULL, &s->announced, &s->nannounced, &s->cap_announced, &span, sizeof span);
    pthread_mutex_unlock(&s->lock);
}

static void http_watch(source *src, struct source_watch *watch)
{
    ((struct http_source *)src)->watch = watch;
}

static const struct source_ops http_ops = {
    .read_at = http_read, .close = http_close, .watch = http_watch, .will_read = http_will_read};

const struct http_file *http_source_file(const source *src)
{
    return &((const struct http_source *)src)->file;
}

/* ----------------------------------------------------------------------------- open */

/* is_archive_name - returns true if URL ends, before its query, as the names of zip archives do. */
static bool is_archive_name(const char *url)
{
    static const char *const suffixes[] = {".pt",    ".pth", ".ckpt",   ".bin", ".zip", ".npz",
                                           ".keras", ".pt2", ".distcp", ".mar", ".nemo"};
    ckpt_str shown = url_show(url);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (str_ends_any_case(shown, str_c(suffixes[i])))
            return true;
    return false;
}

static void add_to_cache(struct http_source *added, struct http_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    added->next_source = cache->first;
    added->before = &cache->first;
    if (cache->first)
        cache->first->before = &added->next_source;
    cache->first = added;
    pthread_mutex_unlock(&cache->lock);
}

static struct http_source *new_source(const struct http_opening *how, struct address *address)
{
    struct http_source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->as_source = (source){.ops = &http_ops, .refs = 1, .serializes_reads = 1, .is_remote = 1};
    s->client = how->client;
    s->file.address = *address;
    s->file.identity.size = HTTP_UNKNOWN;
    s->file.is_of_hub = how->is_of_hub;
    *address = (struct address){0};
    add_to_cache(s, http_client_cache(how->client));
    return s;
}

/* add_first_ranges - adds to BATCH the requests for the first bytes of FROM and, if it is an archive, the
 * last. */
static bool add_first_ranges(struct http_source *from, bool may_be_absent, struct batch *batch)
{
    bool ok = true, is_archive = is_archive_name(from->file.address.url);
    for (int is_suffix = 0; ok && is_suffix <= is_archive; is_suffix++) {
        struct http_range r = {.file = &from->file,
                               .asked = {.count = HTTP_FIRST_BYTES, .is_suffix = is_suffix != 0},
                               .bytes = malloc(HTTP_FIRST_BYTES),
                               .may_be_absent = may_be_absent};
        ok = r.bytes && arena_push(NULL, &batch->ranges, &batch->n, &batch->cap, &r, sizeof r);
        if (!ok)
            free(r.bytes);
    }
    return ok;
}

/* keep_first_ranges - keeps what was read of FROM, by the ranges of BATCH from number *NEXT on. Sets
 * *IS_ABSENT to whether there is no such file. */
static ckpt_status keep_first_ranges(struct http_source *from, struct batch *batch, size_t *next,
                                     bool *is_absent, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    from->as_source.size = from->file.identity.size;
    *is_absent = false;
    for (; *next < batch->n && batch->ranges[*next].file == &from->file; ++*next) {
        struct http_range *r = &batch->ranges[*next];
        *is_absent = *is_absent || r->is_absent;
        if (st != CKPT_OK || *is_absent)
            continue;
        st = keep(from, r) ? CKPT_OK : fail_memory(err);
        r->bytes = NULL;
    }
    return st;
}

/* open_all - reads the first bytes of the COUNT sources OUT; releases those that are absent. */
static ckpt_status open_all(const struct http_opening *how, source **out, size_t count, ckpt_error *err)
{
    struct batch batch = {0};
    size_t next = 0;
    bool ok = true, is_absent;
    for (size_t i = 0; i < count && ok; i++)
        ok = add_first_ranges((struct http_source *)out[i], how->may_be_absent, &batch);
    ckpt_status st = ok ? http_fetch(how->client, batch.ranges, batch.n, err) : fail_memory(err);
    for (size_t i = 0; i < count && st == CKPT_OK; i++) {
        st = keep_first_ranges((struct http_source *)out[i], &batch, &next, &is_absent, err);
        if (st == CKPT_OK && is_absent) {
            source_unref(out[i]);
            out[i] = NULL;
        }
    }
    free_batch(&batch);
    return st;
}

ckpt_status http_sources_open(const struct http_opening *how, struct address *addresses, size_t count,
                              source **out, ckpt_error *err)
{
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; i < count; i++) {
        struct http_source *s = new_source(how, &addresses[i]);
        out[i] = s ? &s->as_source : NULL;
        if (!s)
            st = fail_memory(err);
    }
    CKPT_THEN(st, open_all(how, out, count, err));
    for (size_t i = 0; i < count && st != CKPT_OK; i++) {
        source_unref(out[i]);
        out[i] = NULL;
    }
    return st;
}
