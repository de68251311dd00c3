/* outcome.c - two tables, compared fact by fact; the bytes of pickles that decide what they mean. */
#include "outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

/* How one row differs: field by field what was and what is, whatever the row. */
struct differs {
    uint64_t moved; /* what bytes put in move the offsets after them */
    uint64_t how; /* a hash of that */
    bool any;
    char text[256]; /* the first of them */
};

static ckpt_str words(const char *s) { return (ckpt_str){s, strlen(s)}; }

static void mix(struct differs *d, ckpt_str s)
{
    for (size_t i = 0; i < s.len; i++)
        d->how = (d->how ^ (unsigned char)s.ptr[i]) * 0x100000001b3u;
    d->how = (d->how ^ s.len) * 0x100000001b3u;
}

static void differ(struct differs *d, const char *field, ckpt_str was, ckpt_str is)
{
    char a[80], b[80];
    if (was.len == is.len && (was.len == 0 || memcmp(was.ptr, is.ptr, was.len) == 0))
        return;
    mix(d, words(field));
    mix(d, was);
    mix(d, is);
    if (!d->any) {
        ckpt_text_escape(was, a, sizeof a);
        ckpt_text_escape(is, b, sizeof b);
        snprintf(d->text, sizeof d->text, "%s \"%s\" instead of \"%s\"", field, b, a);
    }
    d->any = true;
}

static void differ_number(struct differs *d, const char *field, uint64_t was, uint64_t is)
{
    char a[24], b[24];
    if (was == is)
        return;
    snprintf(a, sizeof a, "%" PRIu64, was);
    snprintf(b, sizeof b, "%" PRIu64, is);
    differ(d, field, words(a), words(b));
}

static void differ_place(struct differs *d, const char *field, uint64_t was, uint64_t is)
{
    if (is - was != d->moved || was == CKPT_NO_OFFSET)
        differ_number(d, field, was, is);
}

static ckpt_str step(ckpt_path_elem e, char buf[24])
{
    if (!e.is_int)
        return e.str;
    snprintf(buf, 24, "%" PRId64, e.num);
    return words(buf);
}

static void differ_path(struct differs *d, const ckpt_tensor *was, const ckpt_tensor *is)
{
    char a[24], b[24];
    if (was->npath != is->npath)
        differ(d, "path", was->name, is->name);
    for (uint32_t i = 0; was->npath == is->npath && i < was->npath; i++)
        differ(d, "key", step(was->path[i], a), step(is->path[i], b));
}

static void differ_shape(struct differs *d, const ckpt_tensor *was, const ckpt_tensor *is)
{
    differ_number(d, "dimensions", was->ndim, is->ndim);
    differ_number(d, "has a shape", was->has_shape, is->has_shape);
    if (was->ndim != is->ndim || was->has_shape != is->has_shape || !was->has_shape)
        return;
    for (uint32_t i = 0; i < was->ndim; i++) {
        differ_number(d, "size", was->shape[i], is->shape[i]);
        if (was->stride && is->stride)
            differ_number(d, "stride", was->stride[i], is->stride[i]);
    }
}

static void differ_storage(struct differs *d, const ckpt_storage *was, const ckpt_storage *is)
{
    differ_number(d, "has a storage", was != NULL, is != NULL);
    if (!was || !is)
        return;
    differ(d, "storage", was->key, is->key);
    differ(d, "storage's location", was->location, is->location);
    differ(d, "storage's file", was->file, is->file);
    differ_number(d, "storage's bytes", was->nbytes, is->nbytes);
    differ_place(d, "storage's place", was->file_offset, is->file_offset);
    if (was->has_crc) /* where all are 0 there are none: one that is not speaks for the others */
        differ_number(d, "storage's checksum", was->has_crc, is->has_crc);
}

/* differ_row - what a file says of row I, and what follows from that only where nothing else differs. */
static struct differs differ_row(const ckpt_file *whole, const ckpt_file *damaged, uint32_t i)
{
    uint64_t moved = ckpt_file_bytes(damaged) - ckpt_file_bytes(whole);
    const ckpt_tensor before = tensor_at(whole, i), after = tensor_at(damaged, i);
    const ckpt_tensor *was = &before, *is = &after;
    ckpt_storage old = CKPT_INIT(ckpt_storage), new = CKPT_INIT(ckpt_storage);
    bool had = ckpt_storage_at(whole, was->storage, &old), has = ckpt_storage_at(damaged, is->storage, &new);
    struct differs d = {.moved = moved, .how = 0xcbf29ce484222325u};
    differ_path(&d, was, is);
    differ(&d, "dtype", words(ckpt_dtype_name((ckpt_dtype)was->dtype)),
           words(ckpt_dtype_name((ckpt_dtype)is->dtype)));
    differ(&d, "kind", words(ckpt_kind_name((ckpt_kind)was->kind)),
           words(ckpt_kind_name((ckpt_kind)is->kind)));
    differ_shape(&d, was, is);
    differ_number(&d, "storage offset", was->storage_offset, is->storage_offset);
    differ_number(&d, "conj", was->conj, is->conj);
    differ_number(&d, "neg", was->neg, is->neg);
    differ_number(&d, "requires_grad", was->requires_grad, is->requires_grad);
    differ_number(&d, "parameter", was->parameter, is->parameter);
    differ(&d, "class", was->klass, is->klass);
    differ(&d, "location", was->location, is->location);
    differ(&d, "note", was->note, is->note);
    differ_storage(&d, had ? &old : NULL, has ? &new : NULL);
    if (d.any)
        return d;
    differ_number(&d, "has data", was->has_data, is->has_data);
    differ_number(&d, "bytes", was->nbytes, is->nbytes);
    differ_place(&d, "place", was->file_offset, is->file_offset);
    return d;
}

/* The row that I is a part of, however deep. */
static uint32_t unit(const ckpt_file *f, uint32_t i)
{
    while (tensor_at(f, i).part_of != CKPT_NO_TENSOR)
        i = tensor_at(f, i).part_of;
    return i;
}

/* stem_of - how much of the name of row I is that of the array whose part it is: MXNet keeps the parts of a
 * sparse array under one name. 0: it is no such part. */
static size_t stem_of(const ckpt_file *f, uint32_t i)
{
    ckpt_str name = tensor_at(f, i).name;
    static const char *const parts[] = {".data", ".indices", ".indptr"};
    for (size_t k = 0; strcmp(ckpt_file_format(f), "mxnet") == 0 && k < sizeof parts / sizeof *parts; k++) {
        size_t n = strlen(parts[k]);
        if (name.len > n && memcmp(name.ptr + name.len - n, parts[k], n) == 0)
            return name.len - n;
    }
    return 0;
}

static bool are_of_one_array(const ckpt_file *f, uint32_t i, uint32_t k)
{
    size_t n = stem_of(f, i);
    return unit(f, i) == unit(f, k) ||
           (n && n == stem_of(f, k) && memcmp(tensor_at(f, i).name.ptr, tensor_at(f, k).name.ptr, n) == 0);
}

enum outcome outcome_of(const ckpt_file *whole, const ckpt_file *damaged)
{
    uint32_t n = ckpt_tensor_count(whole), first = CKPT_NO_TENSOR;
    uint64_t how = 0;
    bool unit_alone = true, alike = true, storage_alone = true;
    if (n != ckpt_tensor_count(damaged))
        return OUTCOME_SENSE;
    for (uint32_t i = 0; i < n; i++) {
        struct differs d = differ_row(whole, damaged, i);
        if (!d.any)
            continue;
        if (first == CKPT_NO_TENSOR) {
            first = i;
            how = d.how;
        }
        alike = alike && d.how == how;
        unit_alone = unit_alone && are_of_one_array(whole, i, first);
        storage_alone =
            storage_alone && tensor_at(whole, i).storage == tensor_at(whole, first).storage;
    }
    if (first == CKPT_NO_TENSOR)
        return OUTCOME_SAME;
    return unit_alone || alike || storage_alone ? OUTCOME_FACT : OUTCOME_SENSE;
}

void outcome_explain(const ckpt_file *whole, const ckpt_file *damaged, char *out, size_t cap)
{
    uint32_t n = ckpt_tensor_count(whole), m = ckpt_tensor_count(damaged), shown = 0;
    size_t at = 0;
    out[0] = '\0';
    if (n != m)
        snprintf(out, cap, "%u tensors, %u before", m, n);
    for (uint32_t i = 0; n == m && i < n && shown < 3 && at < cap; i++) {
        struct differs d = differ_row(whole, damaged, i);
        if (d.any && ++shown)
            at += (size_t)snprintf(out + at, cap - at, "%stensor %u: %s", shown > 1 ? "; " : "", i, d.text);
    }
}

/* ------------------------------------------------------------ bytes of pickles */

/* What follows an opcode (Python's pickletools): '0' to '9' so many bytes of a number, 'm' with a number
 * in front: a place in the memo, 'c' with one: a count and so many bytes, 'l' one line, 'L' two. */
static const char *argument(unsigned char op)
{
    static const struct {
        const char *ops, *argument;
    } known[] = {
        {"(.012NRQ]})ablstdeou\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98", "0"},
        {"K\x80\x82", "1"},
        {"M\x83", "2"},
        {"J\x84", "4"},
        {"G\x95", "8"},
        {"hq", "m1"},
        {"jr", "m4"},
        {"CU\x8a\x8c", "c1"},
        {"BTX\x8b", "c4"},
        {"\x8d\x8e\x96", "c8"},
        {"FILSVPgp", "l"},
        {"ci", "L"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strchr(known[i].ops, op))
            return known[i].argument;
    return NULL;
}

/* past_lines - the byte after N lines at AT; 0: they do not end. */
static size_t past_lines(const unsigned char *data, size_t size, size_t at, int n)
{
    for (; n; n--) {
        const unsigned char *end = memchr(data + at, '\n', size - at);
        if (!end)
            return 0;
        at = (size_t)(end - data) + 1;
    }
    return at;
}

/* past - the byte after the argument of the opcode before AT; 0: there is none such. *NUMBER: it is no more
 * than a number. */
static size_t past(const unsigned char *data, size_t size, size_t at, bool *number)
{
    const char *is = data[at - 1] ? argument(data[at - 1]) : NULL;
    *number = false;
    if (!is)
        return 0;
    if (is[0] == 'l' || is[0] == 'L')
        return past_lines(data, size, at, is[0] == 'l' ? 1 : 2);
    size_t width = (size_t)(is[is[0] >= 'c'] - '0'), count = 0;
    if (width > size - at)
        return 0;
    for (size_t i = width; is[0] == 'c' && i; i--)
        count = count << 8 | data[at + i - 1];
    *number = is[0] < 'c' || data[at - 1] == 0x8a || data[at - 1] == 0x8b;
    return count <= size - at - width ? at + width + count : 0;
}

/* find_pickle - records the pickle at AT, if there is one up to its STOP; returns the byte after it, or
 * AT. */
static size_t find_pickle(const unsigned char *data, size_t size, size_t at, bool *senses)
{
    size_t end = at;
    bool number;
    while (end < size && (end = past(data, size, end + 1, &number)) && end < size && data[end] != '.')
        ;
    if (end == 0 || end >= size)
        return at;
    for (size_t next; at < end; at = next) {
        next = past(data, size, at + 1, &number);
        senses[at] = true;
        memset(senses + at + 1, !number, next - at - 1);
    }
    senses[end] = true;
    return end + 1;
}

static size_t two(const unsigned char *at) { return at[0] | (size_t)at[1] << 8; }

/* member - the byte after the local header or directory entry at AT, whose name is a word; AT: none. */
static size_t member(const unsigned char *data, size_t size, size_t at, bool *senses)
{
    bool local = size - at >= 30 && memcmp(data + at, "PK\3\4", 4) == 0;
    if (!local && (size - at < 46 || memcmp(data + at, "PK\1\2", 4) != 0))
        return at;
    size_t head = local ? 30 : 46, name = two(data + at + head - (local ? 4 : 18));
    size_t extra = two(data + at + head - (local ? 2 : 16));
    if (name + extra > size - at - head)
        return at;
    memset(senses + at + head, 1, name);
    return at + head + name + extra;
}

bool *outcome_senses(const unsigned char *data, size_t size)
{
    bool *senses = calloc(size + 4, sizeof *senses);
    size_t at = 0, next = 0; /* where a pickle without a mark may begin: first, after a header or pickle */
    while (senses && at < size) {
        bool begins = at == next || (data[at] == 0x80 && at + 1 < size && data[at + 1] <= 5);
        size_t end = member(data, size, at, senses);
        if (end == at && begins)
            end = find_pickle(data, size, at, senses);
        next = end > at ? end : next;
        at = end > at ? end : at + 1;
    }
    if (senses)
        memset(senses, 1, 4);
    return senses;
}
