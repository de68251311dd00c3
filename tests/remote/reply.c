/* reply.c - replies of the server: files and ranges of them, as a good server sends them or with a fault. */
#include "server.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES   65536u
#define ENDLESS_BYTES ((int64_t)80 << 30)

void add_header(struct reply *reply, const char *format, ...)
{
    char line[1536];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t len = strlen(reply->headers);
    if (len + strlen(line) + 3 <= sizeof reply->headers)
        snprintf(reply->headers + len, sizeof reply->headers - len, "%s\r\n", line);
}

bool send_bytes(int fd, const void *bytes, size_t n)
{
    const char *next = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, next, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        next += sent;
        n -= (size_t)sent;
    }
    return true;
}

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {{200, "OK"},
                 {206, "Partial Content"},
                 {302, "Found"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {412, "Precondition Failed"},
                 {416, "Range Not Satisfiable"},
                 {429, "Too Many Requests"},
                 {500, "Internal Server Error"},
                 {503, "Service Unavailable"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Other";
}

/* The bytes FROM to FROM + COUNT - 1 of a file of SIZE bytes; ranged if the request had a range. */
struct span {
    int64_t from, count, size;
    bool ranged;
};

/* parse_range - sets *SPAN to what the value RANGE of a header means; returns 206, 416 or, if it is none that
 * this server knows, 400. */
static int parse_range(const char *range, struct span *span)
{
    if (strncmp(range, "bytes=", 6) != 0 || strchr(range, ','))
        return 400;
    const char *text = range + 6;
    bool is_suffix = *text == '-';
    if (!isdigit((unsigned char)text[is_suffix]))
        return 400;
    char *after;
    int64_t first = strtoll(text + is_suffix, &after, 10), last = span->size - 1;
    if (is_suffix) {
        first = first < span->size ? span->size - first : 0;
    } else {
        if (*after != '-')
            return 400;
        if (isdigit((unsigned char)after[1]))
            last = strtoll(after + 1, &after, 10);
    }
    if (first >= span->size || last < first)
        return 416;
    last = last < span->size - 1 ? last : span->size - 1;
    *span = (struct span){first, last - first + 1, span->size, true};
    return 206;
}

/* add_validators - adds ETag and Last-Modified; returns false if REQUEST has an If-Match of another ETag. */
static bool add_validators(const struct request *request, struct reply *reply, const struct stat *status)
{
    long serial = reply->flags & (NEW_ETAG | NEW_DATE) ? count_up("serial") : 0;
    char etag[96], date[64];
    snprintf(etag, sizeof etag, "%s\"%s%jx-%jx.%lx\"", reply->flags & WEAK ? "W/" : "",
             reply->flags & ESCAPES ? "\033[2J\033]0;title\a" : "", (uintmax_t)status->st_size,
             (uintmax_t)status->st_mtim.tv_sec, reply->flags & NEW_ETAG ? serial : 0);
    time_t changed = status->st_mtim.tv_sec - (reply->flags & NEW_DATE ? serial : 0);
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&changed, &utc));
    add_header(reply, "ETag: %s", etag);
    add_header(reply, "Last-Modified: %s", date);
    const char *wanted = find_header(request, "if-match");
    return !wanted || reply->flags & IGNORE_IF_MATCH || strcmp(wanted, etag) == 0;
}

/* add_content_range - adds the header for SPAN, or what the flags of REPLY make of it. */
static void add_content_range(struct reply *reply, const struct span *span)
{
    int64_t from = span->from + (reply->flags & ELSEWHERE ? 512 : 0), last = from + span->count - 1;
    int64_t total = span->size + (reply->flags & NEW_TOTAL ? 4096 : 0);
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, total);
    const char *shown = reply->flags & NO_TOTAL     ? "*"
                        : reply->flags & HUGE_TOTAL ? "9223372036854775809"
                                                    : text;
    if (reply->flags & MULTIPART)
        add_header(reply, "Content-Type: multipart/byteranges; boundary=b");
    else if (!(reply->flags & NO_CONTENT_RANGE))
        add_header(reply, "Content-Range: bytes %" PRId64 "-%" PRId64 "/%s", from, last, shown);
}

/* send_block - sends N bytes of the body as the flags of REPLY demand, and counts them. */
static bool send_block(int fd, struct reply *reply, const char *block, size_t n)
{
    char size[24];
    bool sent = true;
    if (reply->flags & SLOW) {
        for (size_t i = 0; i < n && sent; i++) {
            sent = send_bytes(fd, block + i, 1);
            reply->body_bytes += sent;
            sleep_ms(100);
        }
        return sent;
    }
    if (reply->flags & CHUNKED) {
        snprintf(size, sizeof size, "%zx\r\n", n);
        sent = send_bytes(fd, size, strlen(size));
    }
    sent = sent && send_bytes(fd, block, n);
    reply->body_bytes += sent ? (int64_t)n : 0;
    return sent && (!(reply->flags & CHUNKED) || send_bytes(fd, "\r\n", 2));
}

/* send_file - sends the bytes of SPAN; those after the end of the file are zero. */
static void send_file(int fd, struct reply *reply, int file, struct span span)
{
    char block[BLOCK_BYTES];
    bool sent = true;
    if (reply->flags & HALF)
        span.count /= 2;
    while (span.count > 0 && sent) {
        size_t n = span.count < (int64_t)sizeof block ? (size_t)span.count : sizeof block;
        ssize_t got = file < 0 ? 0 : pread(file, block, n, (off_t)span.from);
        size_t have = got > 0 ? (size_t)got : 0;
        memset(block + have, 0, n - have);
        sent = send_block(fd, reply, block, n);
        span.from += (int64_t)n;
        span.count -= (int64_t)n;
    }
    if (reply->flags & CHUNKED)
        sent = sent && send_bytes(fd, "0\r\n\r\n", 5);
    if (!sent || reply->flags & HALF)
        reply->close = true;
}

/* send_head - sends the status line and the headers, with BODY_BYTES as Content-Length. */
static bool send_head(const struct request *request, struct reply *reply, int64_t body_bytes)
{
    char head[4096], length[48] = "";
    if (!request->keep_alive)
        reply->close = true;
    if (!(reply->flags & CHUNKED))
        snprintf(length, sizeof length, "Content-Length: %" PRId64 "\r\n", body_bytes);
    snprintf(head, sizeof head, "HTTP/1.1 %d %s%s\r\n%s%s%s%s\r\n", reply->status, status_text(reply->status),
             reply->flags & ESCAPES ? "\033[31m" : "", length,
             reply->flags & CHUNKED ? "Transfer-Encoding: chunked\r\n" : "",
             reply->close ? "Connection: close\r\n" : "", reply->headers);
    return send_bytes(request->fd, head, strlen(head));
}

static void send_text(const struct request *request, struct reply *reply)
{
    const char *text = reply->text ? reply->text : "<html>this is no checkpoint</html>\n";
    if (send_head(request, reply, (int64_t)strlen(text)))
        send_block(request->fd, reply, text, strlen(text));
}

int open_file(const char *name, struct stat *status)
{
    char path[MAX_PATH * 2];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && (fstat(file, status) != 0 || !S_ISREG(status->st_mode))) {
        close(file);
        file = -1;
    }
    return file;
}

/* choose_span - sets the status of REPLY and, by the range of REQUEST, *SPAN, which holds the file's size. */
static void choose_span(const struct request *request, struct reply *reply, struct span *span)
{
    const char *range = find_header(request, "range");
    if (range &&
        (reply->flags & NO_RANGES || (reply->flags & NO_SUFFIX && strncmp(range, "bytes=-", 7) == 0)))
        range = NULL;
    reply->status = range ? parse_range(range, span) : 200;
    if (reply->status == 416)
        add_header(reply, "Content-Range: bytes */%" PRId64, span->size);
}

/* serve_file - replies with the file of REQUEST, or the range of it that was asked for. */
static void serve_file(const struct request *request, struct reply *reply)
{
    struct stat status;
    int file = open_file(request->file, &status);
    if (file < 0) {
        reply->status = 404;
        send_text(request, reply);
        return;
    }
    struct span span = {0, status.st_size, status.st_size, false};
    bool matches = add_validators(request, reply, &status);
    choose_span(request, reply, &span);
    if (!matches)
        reply->status = 412;
    if (reply->flags & GZIP)
        add_header(reply, "Content-Encoding: gzip");
    if (!(reply->flags & NO_RANGES))
        add_header(reply, "Accept-Ranges: bytes");
    if (reply->status == 206 && reply->flags & CRUMBS)
        span.count = 1;
    if (reply->status == 206)
        add_content_range(reply, &span);
    if (reply->flags & EMPTY)
        span.count = 0;
    if (reply->flags & LONG_BODY)
        span.count += 4096;
    if (reply->status >= 400)
        send_text(request, reply);
    else if (send_head(request, reply, span.count))
        send_file(request->fd, reply, file, span);
    close(file);
}

/* send_endless_headers - sends headers until the client closes the connection, at most 16 MiB. They are
 * counted as a body. */
static void send_endless_headers(int fd, struct reply *reply)
{
    static const char start[] = "HTTP/1.1 206 Partial Content\r\n",
                      line[] = "X-Filler: 0123456789012345678901\r\n";
    bool sent = send_bytes(fd, start, strlen(start));
    while (sent && reply->body_bytes < 16 << 20) {
        sent = send_bytes(fd, line, strlen(line));
        reply->body_bytes += (int64_t)strlen(line);
    }
}

/* reset_connection - lets close() send RST. */
static void reset_connection(int fd)
{
    struct linger linger = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

void send_reply(const struct request *request, struct reply *reply)
{
    char byte;
    if (reply->flags & (RESET | GARBAGE | ENDLESS_HEADERS | HANG))
        reply->close = true;
    if (reply->flags & LATE)
        sleep_ms(100);
    if (reply->flags & RESET)
        reset_connection(request->fd);
    else if (reply->flags & HANG)
        (void)!recv(request->fd, &byte, 1, 0);
    else if (reply->flags & GARBAGE)
        send_bytes(request->fd, "SSH-2.0-Other\r\n\001\002\003\r\n\r\n", 22);
    else if (reply->flags & ENDLESS_HEADERS)
        send_endless_headers(request->fd, reply);
    else if (reply->flags & ENDLESS_BODY && send_head(request, reply, ENDLESS_BYTES))
        send_file(request->fd, reply, -1, (struct span){0, ENDLESS_BYTES, ENDLESS_BYTES, false});
    else if (reply->status)
        send_text(request, reply);
    else
        serve_file(request, reply);
}
