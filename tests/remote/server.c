/*
 * server.c - server FOLDER LOG SECONDS: serves the files of FOLDER by HTTP/1.1 on two ports of 127.0.0.1,
 * which are two origins. The first component of a path chooses how the server behaves, and misbehaves; what
 * follows is the file:
 *
 *   /plain/FILE           as a server should: ranges, ETag, Last-Modified, If-Match
 *   /fail-503-2/FILE      fails twice with 503, then as /plain; 429 has a Retry-After of a second
 *   /redirect-other/FILE  redirects to the second origin
 *   /hub/ORG/REPO/...     a Hub of models
 *   /s3-bucket/FILE       a store that checks signatures
 *
 * The table in behaviours.c has them all. What follows a '.' in the component is ignored, except that each
 * spelling has its own count of requests: /fail-503-2.a/FILE fails twice, and so does /fail-503-2.b/FILE.
 *
 * Prints four ports: the two, and two that were free. For each line on stdin, it prints "settled" as soon as
 * no connection is open, or "busy" if that takes seconds. Ends after SECONDS, with SIGTERM, or when stdin
 * ends. LOG gets a line for each request, of fields between tabs: port, method, target, status, bytes of the
 * body that were sent, milliseconds since the start, and headers as "name: value", the name in lower case.
 */
#include "server.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNECTIONS 64
#define MAX_COUNTERS    512
#define SEND_BUFFER     65536 /* small: what the client does not read is not counted as sent */
#define RECEIVE_SECONDS 30
#define SETTLE_MS       5000

const char *folder;
int ports[4];
static int log_fd;
static struct timespec begun;
static atomic_int nconnections;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* milliseconds - returns the time since the start. */
static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)(now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000;
}

void sleep_ms(long ms)
{
    struct timespec duration = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&duration, NULL);
}

/* Counts by key. They are never removed. */
static struct {
    char key[192];
    long count;
} counters[MAX_COUNTERS];
static pthread_mutex_t counters_lock = PTHREAD_MUTEX_INITIALIZER;

long count_up(const char *key)
{
    long before = 1 << 20;
    pthread_mutex_lock(&counters_lock);
    for (size_t i = 0; i < MAX_COUNTERS; i++) {
        if (!counters[i].key[0])
            snprintf(counters[i].key, sizeof counters[i].key, "%s", key);
        if (strncmp(counters[i].key, key, sizeof counters[i].key - 1) == 0) {
            before = counters[i].count++;
            break;
        }
    }
    pthread_mutex_unlock(&counters_lock);
    return before;
}

const char *find_header(const struct request *request, const char *name)
{
    for (int i = 0; i < request->nheaders; i++)
        if (strcmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}

/* ---------------------------------------------------------------- requests */

/* decode - writes TEXT of N bytes to OUT of CAP bytes without %XX; returns false if that is malformed, too
 * long or has a NUL. */
static bool decode(const char *text, size_t n, char *out, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        char byte = text[i];
        if (byte == '%') {
            if (i + 2 >= n || !isxdigit((unsigned char)text[i + 1]) || !isxdigit((unsigned char)text[i + 2]))
                return false;
            char digits[3] = {text[i + 1], text[i + 2], 0};
            byte = (char)strtol(digits, NULL, 16);
            i += 2;
        }
        if (!byte || len + 1 >= cap)
            return false;
        out[len++] = byte;
    }
    out[len] = 0;
    return true;
}

/* has_dots - returns true if a component of PATH is "..". */
static bool has_dots(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '/' || !at[2]))
            return true;
    return false;
}

/* split_target - sets behaviour, tag, path, file and query of REQUEST; returns false if one is malformed. */
static bool split_target(struct request *request)
{
    const char *target = request->target;
    if (strncmp(target, "http://", 7) == 0) /* as to a proxy */
        target += 7 + strcspn(target + 7, "/");
    size_t len = strcspn(target, "?");
    request->query = target[len] ? target + len + 1 : "";
    if (target[0] != '/' || !decode(target, len, request->path, sizeof request->path) ||
        has_dots(request->path))
        return false;
    const char *first = request->path + 1;
    size_t first_len = strcspn(first, "/"), name_len = strcspn(first, "/.");
    if (name_len >= sizeof request->behaviour || first_len - name_len >= sizeof request->tag)
        return false;
    snprintf(request->behaviour, sizeof request->behaviour, "%.*s", (int)name_len, first);
    snprintf(request->tag, sizeof request->tag, "%.*s", (int)(first_len - name_len), first + name_len);
    request->file = first + first_len + (first[first_len] == '/');
    return true;
}

/* parse_line - parses the header LINE, which it cuts into name and value. */
static void parse_line(struct request *request, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon || request->nheaders == MAX_HEADERS)
        return;
    *colon = 0;
    for (char *at = line; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    char *value = colon + 1 + strspn(colon + 1, " \t");
    for (size_t n = strlen(value); n > 0 && strchr(" \t\r", value[n - 1]); n--)
        value[n - 1] = 0;
    request->headers[request->nheaders++] = (struct header){line, value};
}

/* parse_head - parses the head of a request, whose end is already replaced by NUL. */
static bool parse_head(struct request *request)
{
    char *line = request->bytes, *end = strstr(line, "\r\n");
    if (end)
        *end = 0;
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return false;
    *target = *version = 0;
    request->method = line;
    request->target = target + 1;
    request->keep_alive = strcmp(version + 1, "HTTP/1.1") == 0;
    request->nheaders = 0;
    while (end) {
        line = end + 2;
        end = strstr(line, "\r\n");
        if (end)
            *end = 0;
        parse_line(request, line);
    }
    const char *connection = find_header(request, "connection");
    if (connection && strcasecmp(connection, "close") == 0)
        request->keep_alive = false;
    return split_target(request);
}

/* receive_head - receives bytes up to the empty line after the headers, which it cuts off; returns false at
 * the end of the connection or if there is no empty line in MAX_REQUEST bytes. */
static bool receive_head(struct request *request)
{
    for (;;) {
        request->bytes[request->len] = 0;
        char *end = strstr(request->bytes, "\r\n\r\n");
        if (end) {
            *end = 0;
            request->head_len = (size_t)(end - request->bytes) + 4;
            return true;
        }
        if (request->len + 1 >= sizeof request->bytes)
            return false;
        ssize_t got = recv(request->fd, request->bytes + request->len,
                           sizeof request->bytes - 1 - request->len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        request->len += (size_t)got;
    }
}

/* write_log - appends a line about REQUEST to the log, in one call. */
static void write_log(const struct request *request, const struct reply *reply)
{
    char line[MAX_REQUEST + 256];
    size_t len = (size_t)snprintf(line, sizeof line, "%d\t%s\t%s\t%d\t%" PRId64 "\t%" PRId64,
                                  ports[request->origin], request->method, request->target, reply->status,
                                  reply->body_bytes, milliseconds());
    for (int i = 0; i < request->nheaders && len < sizeof line; i++)
        len += (size_t)snprintf(line + len, sizeof line - len, "\t%s: %s", request->headers[i].name,
                                request->headers[i].value);
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    line[len] = '\n';
    if (write(log_fd, line, len + 1) < 0)
        die("log");
}

/* ------------------------------------------------------------- connections */

/* respond - replies to REQUEST and writes it to the log; returns false if the connection is to be closed. */
static bool respond(struct request *request)
{
    struct reply reply = {0};
    if (strcmp(request->method, "GET") == 0) {
        behave(request, &reply);
    } else {
        reply.status = 405;
        reply.close = true; /* a body may follow */
    }
    send_reply(request, &reply);
    write_log(request, &reply);
    free(reply.text);
    return !reply.close;
}

/* serve - replies to the requests of the connection ARGUMENT, a struct request with its fd and origin, and
 * frees it. */
static void *serve(void *argument)
{
    struct request *request = argument;
    while (receive_head(request)) {
        if (!parse_head(request)) {
            send_bytes(request->fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 47);
            break;
        }
        if (!respond(request))
            break;
        request->len -= request->head_len;
        memmove(request->bytes, request->bytes + request->head_len, request->len);
    }
    close(request->fd);
    free(request);
    atomic_fetch_sub(&nconnections, 1);
    return NULL;
}

/* accept_connection - starts a thread for a connection that waits at LISTENER. */
static void accept_connection(int listener, int origin)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return;
    struct timeval patience = {RECEIVE_SECONDS, 0};
    int buffer = SEND_BUFFER, yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    struct request *request = calloc(1, sizeof *request);
    pthread_t thread;
    if (!request)
        die("memory");
    request->fd = fd;
    request->origin = origin;
    atomic_fetch_add(&nconnections, 1);
    if (pthread_create(&thread, NULL, serve, request) != 0)
        die("thread");
    pthread_detach(thread);
}

/* listen_locally - returns a socket that listens at a free port of 127.0.0.1, which it stores in *PORT. */
static int listen_locally(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, MAX_CONNECTIONS) != 0 || getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        die("listen");
    *port = ntohs(address.sin_port);
    return fd;
}

/* read_stdin - returns the number of lines that can be read now, or -1 at the end. */
static int read_stdin(void)
{
    char bytes[256];
    ssize_t got = read(0, bytes, sizeof bytes);
    int nlines = 0;
    for (ssize_t i = 0; i < got; i++)
        nlines += bytes[i] == '\n';
    return got > 0 ? nlines : -1;
}

/* run - accepts connections at the two LISTENERS until stdin ends or SECONDS have passed. */
static void run(const int listeners[2], long seconds)
{
    int nwaiting = 0; /* lines of stdin without an answer */
    int64_t waiting_since = 0;
    while (milliseconds() < seconds * 1000) {
        bool is_full = atomic_load(&nconnections) >= MAX_CONNECTIONS;
        struct pollfd polled[3] = {{0, POLLIN, 0},
                                   {is_full ? -1 : listeners[0], POLLIN, 0},
                                   {is_full ? -1 : listeners[1], POLLIN, 0}};
        int nready = poll(polled, 3, nwaiting || is_full ? 2 : 200);
        for (int i = 0; i < 2; i++)
            if (polled[i + 1].revents)
                accept_connection(listeners[i], i);
        if (polled[0].revents) {
            int nlines = read_stdin();
            if (nlines < 0)
                return;
            nwaiting += nlines;
            waiting_since = milliseconds();
        } else if (nwaiting && ((nready == 0 && atomic_load(&nconnections) == 0) ||
                                milliseconds() - waiting_since > SETTLE_MS)) {
            for (; nwaiting; nwaiting--)
                puts(atomic_load(&nconnections) ? "busy" : "settled");
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: server FOLDER LOG SECONDS\n");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &begun);
    signal(SIGPIPE, SIG_IGN);
    folder = argv[1];
    log_fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_fd < 0)
        die(argv[2]);
    int listeners[4];
    for (int i = 0; i < 4; i++)
        listeners[i] = listen_locally(&ports[i]);
    close(listeners[2]);
    close(listeners[3]);
    printf("%d %d %d %d\n", ports[0], ports[1], ports[2], ports[3]);
    fflush(stdout);
    run(listeners, strtol(argv[3], NULL, 10));
    return 0;
}
