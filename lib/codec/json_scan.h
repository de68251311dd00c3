/* json_scan.h - a strict pull scanner for untrusted JSON (RFC 8259, UTF-8): returns events, builds no
 * tree, does not recurse, keeps integers exact. It does not check for duplicate keys. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum json_event {
    JSON_ERROR,
    JSON_END, /* the document is complete and only white space follows */
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
};

#define JSON_DEPTH 128

typedef struct {
    const unsigned char *text;
    size_t len, pos;
    uint64_t text_offset;     /* offset of the text in the file, for errors */
    arena *a;                 /* for strings with escapes, which are decoded; the others stay in text */
    uint8_t open[JSON_DEPTH]; /* the open objects ('{') and arrays ('['), the outermost first */
    unsigned depth;
    uint8_t state;
    uint8_t state_before; /* the state before json_fail */
    bool may_resync;      /* json_fail was called, and json_resync may continue */
    ckpt_str str;         /* decoded text of a KEY or STRING, may contain NUL; text of a NUMBER */
    size_t event_at;      /* offset of the event's first byte in text */
    ckpt_error *err;
} json_scan;

/* json_init - starts to scan TEXT, which must live as long as the strings of the events. */
void json_init(json_scan *scan, ckpt_str text, uint64_t text_offset, arena *a, ckpt_error *err);
/* json_offset - returns the offset in the file of byte POS of the text, or CKPT_NO_OFFSET. */
uint64_t json_offset(const json_scan *scan, size_t pos);
/* json_next - returns the next event; after JSON_ERROR (err is set) always JSON_ERROR. */
enum json_event json_next(json_scan *scan);
/* json_value_text - returns the text from the next value on, if one must follow; else an empty text. A caller
 * that knows its usual form parses it there, and calls json_pass_value with the length of the value. */
ckpt_str json_value_text(json_scan *scan);
void json_pass_value(json_scan *scan, size_t len);
/* json_skip - if EVENT began an object or array, skips to its end. Fails if EVENT is JSON_ERROR or the JSON
 * is invalid. */
ckpt_status json_skip(json_scan *scan, enum json_event event);
ckpt_status json_fail(json_scan *scan, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* json_unexpected - fails with "WHAT must be MUST_BE, found …", because WHAT ("a size") is event EVENT and
 * not MUST_BE ("a number"). If EVENT is JSON_ERROR, returns the status of that error. */
ckpt_status json_unexpected(json_scan *scan, enum json_event event, const char *what, const char *must_be);
/* json_check_end - returns CKPT_OK if EVENT, the event that ended a loop over entries, is END; else fails as
 * json_unexpected does. */
ckpt_status json_check_end(json_scan *scan, enum json_event event, enum json_event end);
/* json_expect - returns CKPT_OK if the next event is EXPECTED; else fails as json_unexpected does. */
ckpt_status json_expect(json_scan *scan, enum json_event expected, const char *what, const char *must_be);
/* json_read_member - reads an object, called WHAT in errors, and sets *OUT to the string that is the value of
 * KEY. *OUT stays unchanged if there is none. */
ckpt_status json_read_member(json_scan *scan, const char *what, const char *key, ckpt_str *out);
/* json_read_list - reads an array, called WHAT in errors, to an array of *COUNT numbers in the arena of SCAN.
 * READ reads the number that begins with event E. */
ckpt_status json_read_list(json_scan *scan, const char *what,
                           ckpt_status (*read)(json_scan *j, enum json_event e, uint64_t *out),
                           uint32_t *count, const uint64_t **out);
/* json_resync - lets json_next continue after the event that json_fail was called for. False: it cannot,
 * because the JSON is invalid. */
bool json_resync(json_scan *scan);
/* json_get_uint - sets *OUT to the current NUMBER; false: it is negative, has a fraction or exponent, or does
 * not fit. */
static inline bool json_get_uint(const json_scan *scan, uint64_t *out) { return str_uint(scan->str, out); }
static inline bool json_is_space(unsigned char character)
{
    return character == ' ' || character == '\t' || character == '\n' || character == '\r';
}
/* json_quote - appends TEXT as a JSON string, escaped as by Rust's serde_json and Python's
 * ensure_ascii=False: \" \\ \b \f \n \r \t, \u00xx for other control characters. */
void json_quote(buf *out, ckpt_str text);
/* json_quote_ascii - appends NAME as json.dumps does by default: ASCII only, with UTF-16 escapes. */
void json_quote_ascii(buf *out, ckpt_str name);

/* json_read_value - sets *OUT to the value graph of TEXT, in A: dicts, lists, texts, numbers, True, False,
 * None. TEXT must live as long as A. The offset of a node is TEXT_OFFSET plus its position in TEXT. Equal
 * keys of one object are all kept. Refuses what json_scan refuses. */
ckpt_status json_read_value(ckpt_str text, uint64_t text_offset, arena *a, ckpt_value **out, ckpt_error *err);
