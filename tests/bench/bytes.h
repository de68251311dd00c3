/* bytes.h - bytes that a generator collects in memory, and objects of a pickle of protocol 2. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that are collected in memory. */
struct text {
    char *bytes;
    size_t len, cap;
};

static inline void die(const char *what)
{
    perror(what);
    exit(2);
}

static inline void append(struct text *t, const void *bytes, size_t n)
{
    if (t->len + n > t->cap) {
        t->cap = (t->len + n) * 2;
        t->bytes = realloc(t->bytes, t->cap);
        if (!t->bytes)
            die("memory");
    }
    memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
}

static inline void append_str(struct text *t, const char *s) { append(t, s, strlen(s)); }

/* append_le - appends NUMBER as N bytes, little-endian. */
static inline void append_le(struct text *t, uint64_t number, int n)
{
    for (int i = 0; i < n; i++, number >>= 8) {
        unsigned char byte = (unsigned char)(number & 0xff);
        append(t, &byte, 1);
    }
}

static inline void append_pickle_int(struct text *p, uint64_t number)
{
    if (number < 256) {
        append_str(p, "K"); /* BININT1 */
        append_le(p, number, 1);
    } else if (number < 65536) {
        append_str(p, "M"); /* BININT2 */
        append_le(p, number, 2);
    } else if (number < 0x80000000u) {
        append_str(p, "J"); /* BININT */
        append_le(p, number, 4);
    } else {
        append(p, "\x8a\x08", 2); /* LONG1, of 8 bytes */
        append_le(p, number, 8);
    }
}

/* The next index in the memo. All objects except small scalars are memoized, as by CPython's pickler. */
static uint32_t next_memo;

/* append_pickle_put - appends BINPUT or LONG_BINPUT of the next index. */
static inline void append_pickle_put(struct text *p)
{
    append_str(p, next_memo < 256 ? "q" : "r");
    append_le(p, next_memo, next_memo < 256 ? 1 : 4);
    next_memo++;
}

static inline void append_pickle_str(struct text *p, const char *s)
{
    append_str(p, "X");
    append_le(p, strlen(s), 4);
    append_str(p, s);
    append_pickle_put(p);
}

/* append_pickle_get - appends BINGET or LONG_BINGET of MEMO_INDEX. */
static inline void append_pickle_get(struct text *p, uint32_t memo_index)
{
    append_str(p, memo_index < 256 ? "h" : "j");
    append_le(p, memo_index, memo_index < 256 ? 1 : 4);
}

/* append_pickle_shared - appends S, which all tensors use: the first time a text or, if GLOBAL, the opcode
 * GLOBAL; later only its memo index. */
static inline void append_pickle_shared(struct text *p, const char *s, bool global)
{
    static struct {
        const char *s;
        uint32_t memo_index;
    } known[32];
    int i = 0;
    while (known[i].s && strcmp(known[i].s, s) != 0)
        i++;
    if (known[i].s) {
        append_pickle_get(p, known[i].memo_index);
        return;
    }
    known[i].s = s;
    known[i].memo_index = next_memo;
    if (!global) {
        append_pickle_str(p, s);
        return;
    }
    append_str(p, "c");
    append_str(p, s);
    append_pickle_put(p);
}
