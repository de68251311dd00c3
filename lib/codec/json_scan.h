/* json_scan.h - a strict pull scanner for untrusted JSON (RFC 8259, UTF-8, no
 * duplicates checked here): events, no tree, no recursion, integers exact. */
#ifndef CODEC_JSON_SCAN_H
#define CODEC_JSON_SCAN_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum json_event {
    JSON_ERROR, JSON_END, /* JSON_END: the document is over and only white space is left */
    JSON_OBJECT, JSON_OBJECT_END, JSON_ARRAY, JSON_ARRAY_END,
    JSON_KEY, JSON_STRING, JSON_NUMBER, JSON_TRUE, JSON_FALSE, JSON_NULL
};

#define JSON_DEPTH 128

typedef struct {
    const unsigned char *text;
    size_t len, pos;
    uint64_t base;   /* absolute offset of text[0], for errors */
    arena *a;        /* strings with escapes are decoded into it; the others stay in text */
    uint8_t stack[JSON_DEPTH]; /* 'o' or 'a' */
    unsigned depth;
    uint8_t state;
    uint8_t before; /* state when json_fail was called */
    bool complained;
    ckpt_str str;    /* of KEY and STRING: unescaped, may hold NUL; of NUMBER: its text */
    size_t at;       /* offset of the event's first byte in text */
    ckpt_error *err;
} json_scan;

/* json_init - scans TEXT, which must outlive the strings. */
void json_init(json_scan *j, ckpt_str text, uint64_t base, arena *a, ckpt_error *err);
/* json_next - the next event; after JSON_ERROR (err is filled) always that. */
enum json_event json_next(json_scan *j);
/* json_skip - after an event that opens something: up to its end; else nothing. */
bool json_skip(json_scan *j, enum json_event e);
/* json_fail - a complaint about the event at hand. */
ckpt_status json_fail(json_scan *j, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* json_unexpected - event E is not what WHAT ("a size") MUST be ("a number"); what is found is said. After
 * JSON_ERROR: its status. */
ckpt_status json_unexpected(json_scan *j, enum json_event e, const char *what, const char *must);
/* json_forgive - the scan goes on behind the event complained about; false: the text
 * itself is broken. */
bool json_forgive(json_scan *j);
/* json_uint - is the NUMBER at hand a plain non-negative integer that fits? */
static inline bool json_uint(const json_scan *j, uint64_t *out) { return str_uint(j->str, out); }
static inline bool json_space(unsigned char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
/* json_quote - S as a JSON string, escaped as Rust's serde_json and Python's
 * ensure_ascii=False do: \" \\ \b \f \n \r \t, \u00xx for other controls. */
void json_quote(buf *out, ckpt_str s);
/* json_quote_ascii - the same as json.dumps writes it: ASCII only, UTF-16 escapes. */
void json_quote_ascii(buf *b, ckpt_str s);

#endif
