/*
 * base64.c - scans texts of JSON that may be bytes in base64. Stable-Baselines3 writes pickles so, under the
 * key ":serialized:", and loads what Python's base64.b64decode makes of the text. That function reads any
 * text: it skips each character that is no digit of base64. A pad ("=") that completes four characters ends
 * what older Pythons decode; newer ones go on, so that they see the same bytes and more.
 *   standard reading   digits A-Z a-z 0-9 + /; skips "-" and "_"
 *   URL-safe reading   "-" and "_" are the digits + and /, as by urlsafe_b64decode
 */
#include <stdlib.h>

#include "base/text.h"
#include "scan/scan.h"

#define TEXT_MIN   8u  /* characters; a pickle that imports something has 6 bytes at least */
#define PREFIX_MAX 64u /* characters of a text in which base64 is announced */
#define BASE64_MIN 16u /* characters of a text of only base64 that is scanned as a file of any format */

/* The bytes of a text, decoded in one reading. */
struct decoded {
    unsigned char *bytes; /* room for as many as the text has characters */
    size_t n;
    bool skipped; /* characters other than digits, pads and line breaks */
};

/* is_worth_scanning - returns true if DECODED, decoded from TEXT, may be a file. Prose can be decoded as
 * well: what skips characters, or is short, counts only if it runs as a pickle, which needs a line or
 * STACK_GLOBAL. */
static bool is_worth_scanning(const struct scanner *scanner, ckpt_str text, const struct decoded *decoded,
                              source *src, bool is_serialized)
{
    if (is_serialized)
        return scan_is_pickle(scanner, src, 0, decoded->n, true);
    if (!decoded->skipped && text.len >= BASE64_MIN && scanner->depth < scanner->scan->opts->max_depth)
        return true;
    return (memchr(decoded->bytes, '\n', decoded->n) || memchr(decoded->bytes, 0x93, decoded->n)) &&
           scan_is_pickle(scanner, src, 0, decoded->n, false);
}

/* scan_decoded - scans DECODED, decoded from TEXT at AT, if it may be a file; then sets *FOUND to true. */
static ckpt_status scan_decoded(const struct scanned *in, struct scan_text_value value,
                                const struct decoded *decoded, bool *found, ckpt_error *err)
{
    struct scanner *x = in->x;
    uint64_t known_bytes = 0;
    if (!decoded->n)
        return CKPT_OK;
    struct scanned inner = {x, source_mem(decoded->bytes, decoded->n, CKPT_NO_OFFSET), STR_LIT("")};
    ckpt_status st = CKPT_OK;
    CKPT_TRY_ALLOC(inner.src, err);
    if (is_worth_scanning(x, value.text, decoded, inner.src, value.is_serialized)) {
        *found = true;
        st = scan_join_offset(in, "text", value.at, &inner.where, err);
        if (st == CKPT_OK && x->depth >= x->scan->opts->max_depth)
            st = scan_found(x->scan, SCAN_NOT_OPENED, inner.where, in->src, value.at,
                            "is nested too deep to be opened");
        else if (st == CKPT_OK)
            st = scan_bytes(&inner, SCAN_VALUE, &known_bytes, err);
    }
    source_unref(inner.src);
    return st;
}

/* skip_prefix - returns TEXT without what precedes base64 in it: "data:…;base64," in a URL, "base64:" in
 * the references of kerchunk. */
static ckpt_str skip_prefix(ckpt_str text)
{
    static const char word[] = "base64";
    size_t at = str_find(str_first(text, PREFIX_MAX), str_c(word), 0);
    ckpt_str rest = at == SIZE_MAX ? STR_LIT("") : str_skip(text, at + sizeof word - 1);
    return rest.len && strchr(":,", *rest.ptr) && *rest.ptr ? str_skip(rest, 1) : text;
}

ckpt_status scan_base64(const struct scanned *in, struct scan_text_value value, ckpt_error *err)
{
    bool found = false;
    value.text = value.is_serialized ? value.text : skip_prefix(value.text);
    ckpt_str text = value.text;
    if (text.len < TEXT_MIN && !value.is_serialized)
        return CKPT_OK;
    struct decoded d = {.bytes = malloc(text.len + 1)};
    CKPT_TRY_ALLOC(d.bytes, err);
    d.skipped = !text_decode_base64(text, false, d.bytes, &d.n);
    ckpt_status st = scan_decoded(in, value, &d, &found, err);
    if (st == CKPT_OK && text.len && (memchr(text.ptr, '-', text.len) || memchr(text.ptr, '_', text.len))) {
        d.skipped = !text_decode_base64(text, true, d.bytes, &d.n);
        st = scan_decoded(in, value, &d, &found, err);
    }
    free(d.bytes);
    return st != CKPT_OK || found || !value.is_serialized
               ? st
               : SCAN_FOUND(in, SCAN_NOT_OPENED, value.at,
                            "the value of \":serialized:\" is not a {=pickle in base64}");
}
