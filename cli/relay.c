/* relay.c - see relay.h. A request is a struct request. An announcement, to which there is no reply, is one
 * with ANNOUNCES in its count. The reply to another, and the first message, is an
 * int64_t: the number of bytes that follow (in the first message the size of the file, and none follow),
 * or -1, and a ckpt_error follows. */
#include "relay.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct request {
    uint64_t offset, count;
};

#define ANNOUNCES (UINT64_C(1) << 63)

/* ------------------------------------------------------------- the one that reads */

static bool send_all(int socket, const void *bytes, size_t nbytes)
{
    const char *next = bytes;
    while (nbytes) {
        ssize_t n = send(socket, next, nbytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        next += n;
        nbytes -= (size_t)n;
    }
    return true;
}

static bool send_number(int socket, int64_t number) { return send_all(socket, &number, sizeof number); }

void relay_fail(int socket, const ckpt_error *err)
{
    if (send_number(socket, -1))
        (void)send_all(socket, err, sizeof *err);
}

/* read_all - reads NBYTES bytes. False: the other end was closed before them. */
static bool read_all(int socket, void *bytes, size_t nbytes)
{
    char *next = bytes;
    while (nbytes) {
        ssize_t n = read(socket, next, nbytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        next += n;
        nbytes -= (size_t)n;
    }
    return true;
}

/* is_within - returns true if REQUEST is one that the other end may send for a file of SIZE bytes: for at
 * most MAX of them. */
static bool is_within(const struct request *request, uint64_t max, uint64_t size)
{
    return request->count > 0 && request->count <= max && request->count <= size &&
           request->offset <= size - request->count;
}

/* reply - reads what REQUEST, which was checked, asks for, and sends it. False: the other end was closed. */
static bool reply(int socket, const ckpt_callbacks *from, const struct request *request)
{
    static unsigned char bytes[RELAY_MAX];
    int64_t n = from->read_at(from->user, request->offset, bytes, (size_t)request->count);
    if (n > 0 && (uint64_t)n <= request->count)
        return send_number(socket, n) && send_all(socket, bytes, (size_t)n);
    ckpt_error err;
    (void)ckpt_remote_failure(from, &err);
    relay_fail(socket, &err);
    return true;
}

bool relay_serve(int socket, const ckpt_callbacks *from)
{
    struct request asked;
    bool goes_on = send_number(socket, (int64_t)from->size); /* at most INT64_MAX, like that of any file */
    while (goes_on && read_all(socket, &asked, sizeof asked)) {
        bool announces = asked.count & ANNOUNCES;
        asked.count &= ~ANNOUNCES;
        if (!is_within(&asked, announces ? UINT64_MAX : RELAY_MAX, from->size))
            return false;
        if (!announces)
            goes_on = reply(socket, from, &asked);
        else if (from->will_read)
            from->will_read(from->user, asked.offset, asked.count);
    }
    return true;
}

/* ------------------------------------------------------------- the one that gets the bytes */

/* set_failure - notes that the other end is not there, or sent what it may not. */
static void set_failure(struct relay *relay)
{
    relay->failure = (ckpt_error){.status = CKPT_EIO,
                                  .offset = CKPT_NO_OFFSET,
                                  .what = "the process that reads it from the server has ended"};
}

/* read_count - reads the number that begins a message, at most MAX; -1, after noting the failure, if there
 * is none. */
static int64_t read_count(struct relay *relay, uint64_t max)
{
    int64_t n;
    if (!read_all(relay->socket, &n, sizeof n) || (n >= 0 && (uint64_t)n > max))
        set_failure(relay);
    else if (n >= 0)
        return n;
    else if (!read_all(relay->socket, &relay->failure, sizeof relay->failure) || !relay->failure.status)
        set_failure(relay);
    return -1;
}

void relay_begin(struct relay *relay, int socket)
{
    *relay = (struct relay){.socket = socket};
    int64_t size = read_count(relay, INT64_MAX);
    relay->size = size < 0 ? 0 : (uint64_t)size;
}

static bool write_request(int socket, const struct request *request)
{
    ssize_t n;
    do
        n = write(socket, request, sizeof *request); /* all of it: a socket that is full makes it wait */
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *request;
}

static int64_t relay_read_at(void *user, uint64_t offset, void *buf, size_t nbytes)
{
    struct relay *r = user;
    const struct request wanted = {offset, nbytes < RELAY_MAX ? nbytes : RELAY_MAX};
    if (r->failure.status)
        return -EIO;
    if (!write_request(r->socket, &wanted)) {
        set_failure(r);
        return -EIO;
    }
    int64_t count = read_count(r, wanted.count);
    if (count > 0 && read_all(r->socket, buf, (size_t)count))
        return count;
    if (!r->failure.status)
        set_failure(r);
    return -EIO;
}

static void relay_will_read(void *user, uint64_t offset, uint64_t nbytes)
{
    struct relay *r = user;
    const struct request announced = {offset, nbytes | ANNOUNCES};
    if (!r->failure.status && !write_request(r->socket, &announced))
        set_failure(r);
}

ckpt_status relay_open(struct relay *relay, ckpt_callbacks *out, ckpt_error *err)
{
    if (relay->failure.status)
        *err = relay->failure;
    else
        *out = (ckpt_callbacks){.struct_size = sizeof *out,
                                .serialize = 1,
                                .size = relay->size,
                                .read_at = relay_read_at,
                                .user = relay,
                                .will_read = relay_will_read};
    return (ckpt_status)relay->failure.status;
}
