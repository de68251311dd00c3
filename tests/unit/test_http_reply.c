/* What the head of a server's reply says, and which replies are refused. */
#include "base/str.h"
#include "io/http_reply.h"
#include "unit.h"

static const struct http_span first_kib = {.count = 1024};
static const struct http_span middle = {.from = 100, .count = 50};
static const struct http_span last_kib = {.count = 1024, .is_suffix = true};

/* read_head - reads the lines of HEAD, which '\n' ends, to REPLY. */
static void read_head(struct http_reply *reply, const char *head)
{
    http_reply_clear(reply);
    for (ckpt_str text = str_c(head); text.len;)
        CU_ASSERT(http_reply_add(reply, str_take_until(&text, '\n')));
}

/* check - returns the status of HEAD as the reply to ASKED; sets BODY. */
static ckpt_status check(const char *head, const struct http_span *asked, struct http_identity *known,
                         struct http_span *body)
{
    ckpt_error err;
    struct http_reply reply = {.location = NULL};
    read_head(&reply, head);
    ckpt_status st = http_reply_check(&reply, asked, known, body, &err);
    http_reply_clear(&reply);
    return st;
}

/* check_first - does the same for a file of which nothing is known. */
static ckpt_status check_first(const char *head, const struct http_span *asked)
{
    struct http_identity known = {.size = HTTP_UNKNOWN};
    struct http_span body;
    return check(head, asked, &known, &body);
}

#define RANGE(range) "HTTP/1.1 206 Partial Content\nContent-Range: " range "\n"

static void a_range_is_what_was_asked_for(void)
{
    struct http_identity known = {.size = HTTP_UNKNOWN};
    struct http_span body;
    CU_ASSERT_EQUAL(check(RANGE("bytes 0-1023/5000") "ETag: \"a\"\n", &first_kib, &known, &body), CKPT_OK);
    CU_ASSERT(body.from == 0 && body.count == 1024 && known.size == 5000);
    CU_ASSERT_STRING_EQUAL(known.etag, "\"a\"");
    CU_ASSERT_EQUAL(check(RANGE("bytes 100-149/5000"), &middle, &known, &body), CKPT_OK);
    CU_ASSERT(body.from == 100 && body.count == 50);
    CU_ASSERT_EQUAL(check(RANGE("bytes 100-119/5000"), &middle, &known, &body),
                    CKPT_OK); /* fewer: it is asked again */
    CU_ASSERT(body.count == 20);
    CU_ASSERT_EQUAL(check(RANGE("bytes 3976-4999/5000"), &last_kib, &known, &body), CKPT_OK);
    CU_ASSERT(body.from == 3976 && body.count == 1024);
    CU_ASSERT_EQUAL(check_first(RANGE("bytes 0-9/10"), &first_kib), CKPT_OK); /* the file ends */
    CU_ASSERT_EQUAL(check_first(RANGE("bytes 0-9/10"), &last_kib), CKPT_OK);
}

static void another_range_is_refused(void)
{
    static const char *const ranges[] = {
        RANGE("bytes 101-149/5000"),
        RANGE("bytes 0-49/5000"),
        RANGE("bytes 100-150/5000"),
        RANGE("bytes 100-149/*"),
        RANGE("bytes */5000"),
        RANGE("bytes 100-149/120"),
        RANGE("bytes 149-100/5000"),
        RANGE("octets 100-149/5000"),
        RANGE("bytes 100-149"),
        RANGE("bytes 100-149/99999999999999999999"),
        RANGE("bytes -100-149/5000"),
        RANGE(""),
        "HTTP/1.1 206 Partial Content\n",
        RANGE("bytes 100-149/9223372036854775808"),
        RANGE("bytes 100-149/5000") "Content-Range: bytes 100-149/6000\n",
        RANGE("bytes 100-149/5000") "Content-Length: 50\nContent-Length: 51\n"};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (check_first(ranges[i], &middle) != CKPT_EFORMAT) {
            fprintf(stderr, "\n%s", ranges[i]);
            CU_FAIL("a reply with another range is accepted");
        }
    CU_ASSERT_EQUAL(check_first(RANGE("bytes 0-1023/5000"), &last_kib), CKPT_EFORMAT);
    CU_ASSERT_EQUAL(check_first(RANGE("bytes 3976-4998/5000"), &last_kib), CKPT_EFORMAT);
}

static void a_complete_file_is_taken_if_it_is_small(void)
{
    static const char small[] = "HTTP/1.1 200 OK\ncontent-length: 1024\n";
    static const char large[] = "HTTP/1.1 200 OK\ncontent-length: 1025\n";
    CU_ASSERT_EQUAL(check_first(small, &first_kib), CKPT_OK);
    CU_ASSERT_EQUAL(check_first(small, &last_kib), CKPT_OK);
    CU_ASSERT_EQUAL(check_first(small, &middle), CKPT_EUNSUPPORTED);
    CU_ASSERT_EQUAL(check_first(large, &first_kib), CKPT_EUNSUPPORTED);
    CU_ASSERT_EQUAL(check_first("HTTP/1.1 200 OK\n", &first_kib), CKPT_EUNSUPPORTED); /* of any length */
    CU_ASSERT_EQUAL(check_first("HTTP/1.1 416 x\nContent-Range: bytes */0\n", &first_kib),
                    CKPT_OK); /* empty */
    CU_ASSERT_EQUAL(check_first("HTTP/1.1 416 x\nContent-Range: bytes */9\n", &first_kib), CKPT_ECHANGED);
    CU_ASSERT_EQUAL(check_first(RANGE("bytes 0-1023/5000") "Content-Encoding: gzip\n", &first_kib),
                    CKPT_EUNSUPPORTED);
    CU_ASSERT_EQUAL(check_first(RANGE("bytes 0-1023/5000") "Content-Encoding: identity\n", &first_kib),
                    CKPT_OK);
}

static void another_file_is_refused(void)
{
    struct http_identity known = {.size = 5000, .etag = "\"a\"", .modified = "Mon"};
    struct http_span body;
    CU_ASSERT_EQUAL(
        check(RANGE("bytes 100-149/5000") "ETag: \"a\"\nLast-Modified: Mon\n", &middle, &known, &body),
        CKPT_OK);
    CU_ASSERT_EQUAL(check(RANGE("bytes 100-149/5000"), &middle, &known, &body),
                    CKPT_OK); /* no names it again */
    CU_ASSERT_EQUAL(check(RANGE("bytes 100-149/5001"), &middle, &known, &body), CKPT_ECHANGED);
    CU_ASSERT_EQUAL(check(RANGE("bytes 100-149/5000") "ETag: \"b\"\n", &middle, &known, &body),
                    CKPT_ECHANGED);
    CU_ASSERT_EQUAL(check(RANGE("bytes 100-149/5000") "Last-Modified: Tue\n", &middle, &known, &body),
                    CKPT_ECHANGED);
    CU_ASSERT_EQUAL(check(RANGE("bytes 100-149/5000") "ETag: W/\"b\"\n", &middle, &known, &body),
                    CKPT_ECHANGED); /* weak */
}

static void lines_are_read(void)
{
    struct http_reply reply = {.location = NULL};
    read_head(&reply,
              "HTTP/1.1 302 Found\r\nLOCATION:  https://b/x \r\nRetry-After: 7\r\nx-repo-commit: 0a\r\n");
    CU_ASSERT_EQUAL(reply.code, 302);
    CU_ASSERT_STRING_EQUAL(reply.location, "https://b/x");
    CU_ASSERT_STRING_EQUAL(reply.commit, "0a");
    CU_ASSERT_EQUAL(reply.retry_after, 7);
    read_head(&reply, "HTTP/2 503\nRetry-After: Mon, 30 Nov 2026\nLink: <https://h/p2>; rel=\"next\"\n");
    CU_ASSERT(reply.code == 503 && !reply.location && reply.retry_after == HTTP_UNKNOWN && reply.has_next);
    CU_ASSERT(http_reply_is_transient(&reply));
    CU_ASSERT(http_reply_add(&reply, STR_LIT("HTTP/1.1 404 x"))); /* the head of the next reply */
    CU_ASSERT(reply.code == 404 && !reply.has_next && !http_reply_is_transient(&reply));
    read_head(&reply, "HTTP/1.1 3x2 Found\nLocation: a\nLocation: b\n");
    CU_ASSERT(reply.is_malformed);
    http_reply_clear(&reply);
}

void suite_http_reply(void)
{
    UNIT(a_range_is_what_was_asked_for);
    UNIT(another_range_is_refused);
    UNIT(a_complete_file_is_taken_if_it_is_small);
    UNIT(another_file_is_refused);
    UNIT(lines_are_read);
}
