/* http_reply.c - see http_reply.h. Sources: RFC 9110, sections 8.6, 8.8, 10.2.3, 14.4 and 15; what servers
 * do is in the notes of tests/remote. */
#include "io/http_reply.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/crc32.h"
#include "base/str.h"

#define MAX_LOCATION 8192u

void http_reply_clear(struct http_reply *reply)
{
    free(reply->location);
    *reply = (struct http_reply){.length = HTTP_UNKNOWN,
                                 .retry_after = HTTP_UNKNOWN,
                                 .total = HTTP_UNKNOWN,
                                 .identity = {.size = HTTP_UNKNOWN}};
}

/* keep_text - copies VALUE to OUT; a text that does not fit is left out, because it can only be compared. */
static void keep_text(ckpt_str value, char *out, size_t size)
{
    size_t n = value.len < size ? value.len : 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)value.ptr[i] < 0x20)
            n = 0;
    memcpy(out, value.ptr, n);
    out[n] = '\0';
}

static ckpt_str trim(ckpt_str text) { return str_trim_end(str_trim_start(text, " \t"), " \t\r\n"); }

/* is_header - returns true if LINE is the header NAME, which is in lower case, and sets *VALUE to its
 * value. */
static bool is_header(ckpt_str line, const char *name, ckpt_str *value)
{
    size_t n = strlen(name);
    if (line.len <= n || line.ptr[n] != ':' || !str_ends_any_case(str_first(line, n), str_c(name)))
        return false;
    *value = trim(str_skip(line, n + 1));
    return true;
}

/* set_number - sets *NUMBER to VALUE, if it is HTTP_UNKNOWN so far. False: it is another number, or VALUE is
 * none. */
static bool set_number(ckpt_str value, uint64_t *number)
{
    uint64_t parsed, before = *number;
    bool valid = str_uint(value, &parsed) && parsed <= INT64_MAX &&
                 (before == HTTP_UNKNOWN || before == parsed);
    if (valid)
        *number = parsed;
    return valid;
}

/* read_range - reads VALUE, "bytes 0-99/1234", "bytes 0-99/" followed by `*`, or "bytes" and a star with a
 * size. */
static bool read_range(ckpt_str value, struct http_reply *reply)
{
    uint64_t last;
    reply->first = reply->end = reply->total = HTTP_UNKNOWN;
    if (!str_take(&value, STR_LIT("bytes ")))
        return false;
    ckpt_str span = str_before(value, '/'), total = str_skip(value, span.len + 1);
    if (!str_is(total, "*") && !set_number(total, &reply->total))
        return false;
    if (str_is(span, "*"))
        return true;
    ckpt_str first = str_before(span, '-');
    if (!set_number(first, &reply->first) || !str_uint(str_skip(span, first.len + 1), &last) ||
        last < reply->first || last >= reply->total || !checked_add(last, 1, &reply->end))
        return false;
    return true;
}

static bool add_location(struct http_reply *reply, ckpt_str value)
{
    if (reply->location || value.len > MAX_LOCATION) {
        reply->is_malformed = true;
        return true;
    }
    return (reply->location = strndup(value.ptr, value.len)) != NULL;
}

static bool begin_reply(struct http_reply *reply, ckpt_str line)
{
    uint64_t code;
    http_reply_clear(reply);
    (void)str_take_until(&line, ' ');
    reply->is_malformed = !str_uint(str_first(line, 3), &code) || code > 599;
    reply->code = reply->is_malformed ? 0 : (unsigned)code;
    return true;
}

bool http_reply_add(struct http_reply *reply, ckpt_str line)
{
    ckpt_str value;
    bool valid = true;
    line = trim(line);
    if (str_starts(line, STR_LIT("HTTP/")))
        return begin_reply(reply, line);
    if (is_header(line, "location", &value))
        return add_location(reply, value);
    if (is_header(line, "content-length", &value)) {
        valid = set_number(value, &reply->length);
    } else if (is_header(line, "content-range", &value)) {
        valid = !reply->has_range && read_range(value, reply);
        reply->has_range = true;
    } else if (is_header(line, "content-encoding", &value)) {
        reply->is_encoded = reply->is_encoded || !str_is(value, "identity");
    } else if (is_header(line, "etag", &value)) {
        reply->identity.tag = crc_update(CRC_32C, 0, value.ptr, value.len);
        if (str_starts(value, STR_LIT("\""))) /* a weak one is no promise that the bytes are the same */
            keep_text(value, reply->identity.etag, sizeof reply->identity.etag);
    } else if (is_header(line, "last-modified", &value)) {
        keep_text(value, reply->identity.modified, sizeof reply->identity.modified);
    } else if (is_header(line, "link", &value)) {
        reply->has_next = reply->has_next || str_has(value, STR_LIT("rel=\"next\""));
    } else if (is_header(line, "x-repo-commit", &value)) {
        keep_text(value, reply->commit, sizeof reply->commit);
    } else if (is_header(line, "x-error-code", &value)) {
        keep_text(value, reply->why, sizeof reply->why);
    } else if (is_header(line, "retry-after", &value)) {
        (void)set_number(value, &reply->retry_after); /* it may be a date, too */
    }
    reply->is_malformed = reply->is_malformed || !valid;
    return true;
}

/* check_text - compares what is known of the file with LATEST, or keeps that if nothing is known. */
static bool check_text(char *known, const char *latest, size_t size)
{
    if (!known[0])
        memcpy(known, latest, size);
    return !latest[0] || strcmp(known, latest) == 0;
}

/* check_identity - fails if the file of SIZE bytes that REPLY is about is not KNOWN. */
static ckpt_status check_identity(const struct http_reply *reply, uint64_t size, struct http_identity *known,
                                  ckpt_error *err)
{
    if (known->size == HTTP_UNKNOWN)
        known->size = size;
    if (known->size != size)
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "it changed while it was read: it has {%" PRIu64 " bytes} now, {=%" PRIu64 "} before\n"
                    "read it again when no one writes to it",
                    size, known->size);
    if (!known->tag)
        known->tag = reply->identity.tag;
    bool has_tag = !reply->identity.tag || reply->identity.tag == known->tag;
    if (!has_tag || !check_text(known->etag, reply->identity.etag, sizeof known->etag) ||
        !check_text(known->modified, reply->identity.modified, sizeof known->modified))
        return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                    "it changed while it was read: its ETag or date is {another one}\n"
                    "read it again when no one writes to it");
    return CKPT_OK;
}

static ckpt_status fail_no_ranges(ckpt_error *err)
{
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "the server has no ranges: it answers with {the complete file}\n"
                "download the file, and read it from disk");
}

/* check_complete - checks a reply with the complete file, which may be all that was asked for. */
static ckpt_status check_complete(const struct http_reply *reply, const struct http_span *asked,
                                  struct http_identity *known, struct http_span *body, ckpt_error *err)
{
    if (reply->length > asked->count || (asked->from && !asked->is_suffix))
        return fail_no_ranges(err);
    *body = (struct http_span){.count = reply->length};
    return check_identity(reply, reply->length, known, err);
}

static ckpt_status check_document(const struct http_reply *reply, const struct http_span *asked,
                                  struct http_span *body, ckpt_error *err)
{
    if (reply->code != 200)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "the server answers with {status %u}, expected {=200}",
                    reply->code);
    if (reply->length != HTTP_UNKNOWN && reply->length > asked->count)
        return fail(err, CKPT_ELIMIT, CKPT_NO_OFFSET,
                    "the reply has {%" PRIu64 " bytes}; {=at most %" PRIu64 "} are read", reply->length,
                    asked->count);
    *body = (struct http_span){.count = asked->count};
    return CKPT_OK;
}

/* check_range - checks a reply with a range of the file. It may end before what was asked for ends. */
static ckpt_status check_range(const struct http_reply *reply, const struct http_span *asked,
                               struct http_identity *known, struct http_span *body, ckpt_error *err)
{
    if (!reply->has_range || reply->first == HTTP_UNKNOWN || reply->total == HTTP_UNKNOWN)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "the server's reply has {no Content-Range} with {=place and size}");
    uint64_t total = reply->total, from = asked->from, left = total - (from < total ? from : total);
    if (asked->is_suffix) {
        from = total - (asked->count < total ? asked->count : total);
        left = total - from;
    }
    uint64_t end = from + (asked->count < left ? asked->count : left); /* at most total */
    if (reply->first != from || reply->end > end || (asked->is_suffix && reply->end != end))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "the server sent {bytes %" PRIu64 " to %" PRIu64 "}, {=%" PRIu64 " to %" PRIu64
                    "} were asked for",
                    reply->first, reply->end, from, end);
    *body = (struct http_span){.from = from, .count = reply->end - from};
    return check_identity(reply, total, known, err);
}

static ckpt_status check_not_there(const struct http_reply *reply, const struct http_span *asked,
                                   struct http_identity *known, struct http_span *body, ckpt_error *err)
{
    *body = (struct http_span){0};
    if (reply->has_range && reply->total == 0 && (asked->is_suffix || !asked->from))
        return check_identity(reply, 0, known, err);
    return fail(err, CKPT_ECHANGED, CKPT_NO_OFFSET,
                "it changed while it was read: the server has {nothing} at {=byte %" PRIu64 "} (status 416)",
                asked->from);
}

ckpt_status http_reply_check(const struct http_reply *reply, const struct http_span *asked,
                             struct http_identity *known, struct http_span *body, ckpt_error *err)
{
    if (reply->is_encoded)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "the server's reply is {compressed (Content-Encoding)}; {=its bytes} were asked for\n"
                    "download the file, and read it from disk");
    if (reply->is_malformed)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "the head of the server's reply is {malformed}");
    if (asked->is_document)
        return check_document(reply, asked, body, err);
    return reply->code == 206   ? check_range(reply, asked, known, body, err)
           : reply->code == 200 ? check_complete(reply, asked, known, body, err)
                                : check_not_there(reply, asked, known, body, err);
}

bool http_reply_is_transient(const struct http_reply *reply)
{
    switch (reply->code) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return true;
    default: return false;
    }
}
