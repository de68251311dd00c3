/* http_reply.h - the head of a web server's reply, and whether it answers what was asked. */
#pragma once

#include "base/error.h"

#define HTTP_UNKNOWN UINT64_MAX /* a size or a time that no header gives */

/* What a file on a server is recognized by; empty or HTTP_UNKNOWN: it is not known. */
struct http_identity {
    uint64_t size;
    char etag[128];    /* a strong one, with its quotes */
    char modified[48]; /* Last-Modified */
    uint32_t tag;      /* a checksum of the ETag, strong or weak; 0: there is none */
};

/* The bytes that were asked for: COUNT from FROM on; the last COUNT; or a document that is made for the
 * request, such as a list, of at most COUNT bytes. */
struct http_span {
    uint64_t from, count;
    bool is_suffix, is_document;
};

struct http_reply {
    unsigned code;              /* 0: none yet */
    bool has_range;             /* it has Content-Range, and these are its numbers: */
    uint64_t first, end, total; /* bytes [first, end) of TOTAL; FIRST is HTTP_UNKNOWN for `*` */
    uint64_t length;            /* Content-Length, or HTTP_UNKNOWN */
    uint64_t retry_after;       /* seconds, or HTTP_UNKNOWN */
    bool is_encoded;            /* it has a Content-Encoding other than identity */
    bool is_malformed;          /* a header above is given twice, or is not as RFC 9110 has it */
    struct http_identity identity;
    char commit[64]; /* X-Repo-Commit of the Hub */
    char why[32];    /* X-Error-Code of the Hub: EntryNotFound, RevisionNotFound, … */
    char *location;  /* owned */
    bool has_next;   /* a Link leads to the next page of a document */
};

/* http_reply_clear - empties REPLY, and releases what it owns. */
void http_reply_clear(struct http_reply *reply);
/* http_reply_add - reads LINE, a line of the head with or without its line end. A status line begins another
 * reply. False: out of memory, or a line that is too long to be kept. */
bool http_reply_add(struct http_reply *reply, ckpt_str line);
/* http_reply_check - compares REPLY, whose code is 200, 206 or 416, with what was ASKED of the file KNOWN.
 * Sets *BODY to the bytes that the body has, which are at most those asked for, and the size in KNOWN, if
 * it was not known, and the texts. CKPT_EUNSUPPORTED: the server has no ranges. CKPT_ECHANGED: it is
 * another file. CKPT_EFORMAT: these are not the bytes asked for. */
ckpt_status http_reply_check(const struct http_reply *reply, const struct http_span *asked,
                             struct http_identity *known, struct http_span *body, ckpt_error *err);
/* http_reply_is_transient - returns true if the same request may succeed a little later. */
bool http_reply_is_transient(const struct http_reply *reply);
