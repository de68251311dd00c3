/* cli/relay.h passes the bytes of a file to a process that may be hostile, and nothing else. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../cli/relay.h"
#include "unit.h"

#define SIZE (RELAY_MAX + 1000)

/* A file of SIZE bytes that is served. */
struct served {
    unsigned char *bytes;
    uint64_t fail_from; /* a read that ends after this fails */
    unsigned nreads;
    uint64_t announced; /* bytes */
    ckpt_callbacks callbacks;
    int ends[2]; /* of the socket: of the one who serves, and of the other one */
    bool result; /* of relay_serve */
};

static int64_t read_served(void *user, uint64_t offset, void *buf, size_t n)
{
    struct served *s = user;
    CU_ASSERT_FATAL(n > 0 && n <= SIZE && offset <= SIZE - n);
    s->nreads++;
    if (offset + n > s->fail_from)
        return -EIO;
    memcpy(buf, s->bytes + offset, n);
    return (int64_t)n;
}

static void note_announced(void *user, uint64_t offset, uint64_t nbytes)
{
    struct served *s = user;
    CU_ASSERT_FATAL(nbytes > 0 && nbytes <= SIZE && offset <= SIZE - nbytes);
    s->announced += nbytes;
}

static void begin(struct served *served)
{
    *served = (struct served){
        .bytes = malloc(SIZE), .fail_from = SIZE, .callbacks = CKPT_INIT(ckpt_callbacks)};
    CU_ASSERT_FATAL(served->bytes && socketpair(AF_UNIX, SOCK_STREAM, 0, served->ends) == 0);
    for (size_t i = 0; i < SIZE; i++)
        served->bytes[i] = (unsigned char)(i * 7 + i / 256);
    served->callbacks.size = SIZE;
    served->callbacks.read_at = read_served;
    served->callbacks.user = served;
    served->callbacks.will_read = note_announced;
}

static void end(struct served *served)
{
    close(served->ends[0]);
    close(served->ends[1]);
    free(served->bytes);
}

static void *serve(void *user)
{
    struct served *s = user;
    s->result = relay_serve(s->ends[0], &s->callbacks);
    shutdown(s->ends[0], SHUT_RDWR);
    return NULL;
}

static void bytes_and_failures_are_passed(void)
{
    struct served s;
    struct relay relay;
    pthread_t thread = pthread_self();
    ckpt_error err;
    ckpt_callbacks read;
    unsigned char *got = malloc(SIZE);
    begin(&s);
    CU_ASSERT_FATAL(got && pthread_create(&thread, NULL, serve, &s) == 0);
    relay_begin(&relay, s.ends[1]);
    CU_ASSERT_EQUAL_FATAL(relay_open(&relay, &read, &err), CKPT_OK);
    CU_ASSERT_EQUAL(read.size, SIZE);
    for (int i = 0; i < 50000; i++) /* more than the socket has room for */
        read.will_read(read.user, 1, SIZE - 1);
    CU_ASSERT_EQUAL(read.read_at(read.user, SIZE - 3, got, 3), 3);
    CU_ASSERT(memcmp(got, s.bytes + SIZE - 3, 3) == 0);
    CU_ASSERT_EQUAL(read.read_at(read.user, 0, got, SIZE), (int64_t)RELAY_MAX); /* and no more at a time */
    CU_ASSERT(memcmp(got, s.bytes, RELAY_MAX) == 0);
    s.fail_from = 100;
    CU_ASSERT(read.read_at(read.user, 90, got, 10) == 10);
    CU_ASSERT(read.read_at(read.user, 91, got, 10) < 0);
    CU_ASSERT(relay_open(&relay, &read, &err) != CKPT_OK && err.what[0]);
    CU_ASSERT(read.read_at(read.user, 0, got, 10) < 0); /* what failed once stays so */
    CU_ASSERT_EQUAL(s.nreads, 4);
    CU_ASSERT_EQUAL(s.announced, UINT64_C(50000) * (SIZE - 1));
    shutdown(s.ends[1], SHUT_RDWR);
    pthread_join(thread, NULL);
    CU_ASSERT(s.result);
    free(got);
    end(&s);
}

static void a_failure_is_passed_in_place_of_the_size(void)
{
    struct served s;
    struct relay relay;
    ckpt_callbacks read;
    ckpt_error err, sent = {.status = CKPT_ENOTFOUND, .what = "no such file"};
    begin(&s);
    relay_fail(s.ends[0], &sent);
    relay_begin(&relay, s.ends[1]);
    CU_ASSERT_EQUAL(relay_open(&relay, &read, &err), CKPT_ENOTFOUND);
    CU_ASSERT(relay.size == 0 && err.status == CKPT_ENOTFOUND);
    CU_ASSERT_STRING_EQUAL(err.what, "no such file");
    end(&s);
}

/* check_refused - checks that the COUNT bytes at OFFSET, which are not those of any request that may be
 * sent, get no reply, not even if a good request follows. */
static void check_refused(uint64_t offset, uint64_t count)
{
    struct served s;
    const uint64_t requests[4] = {offset, count, 0, 1};
    int64_t size;
    char byte;
    begin(&s);
    CU_ASSERT_EQUAL(write(s.ends[1], requests, sizeof requests), (ssize_t)sizeof requests);
    CU_ASSERT(!relay_serve(s.ends[0], &s.callbacks));
    CU_ASSERT_EQUAL(s.nreads, 0);
    CU_ASSERT(recv(s.ends[1], &size, sizeof size, MSG_DONTWAIT) == (ssize_t)sizeof size && size == SIZE);
    CU_ASSERT(recv(s.ends[1], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    end(&s);
}

static void what_is_not_in_the_file_is_not_read(void)
{
    check_refused(SIZE, 1);
    check_refused(SIZE - 1, 2);
    check_refused(0, 0);
    check_refused(5, 0);
    check_refused(0, RELAY_MAX + 1);
    check_refused(0, SIZE + 1);
    check_refused(UINT64_MAX, 1);
    check_refused(2, UINT64_C(1) << 63 | (SIZE - 1)); /* announcements, too */
    check_refused(0, UINT64_C(1) << 63);
    check_refused(UINT64_MAX, 2);
    check_refused(1, UINT64_MAX);
    check_refused(UINT64_MAX, UINT64_MAX);
    check_refused(1 - (uint64_t)RELAY_MAX, RELAY_MAX);
}

/* check_cut - checks that a request that ends after NBYTES bytes gets no reply. */
static void check_cut(size_t nbytes)
{
    struct served s;
    static const uint64_t request[2] = {0, 1};
    begin(&s);
    CU_ASSERT_EQUAL(write(s.ends[1], request, nbytes), (ssize_t)nbytes);
    shutdown(s.ends[1], SHUT_WR);
    CU_ASSERT(relay_serve(s.ends[0], &s.callbacks));
    CU_ASSERT_EQUAL(s.nreads, nbytes == sizeof request);
    end(&s);
}

static void requests_are_read_completely(void)
{
    for (size_t n = 0; n <= 16; n++)
        check_cut(n);
}

static void a_process_that_is_gone_is_no_signal(void)
{
    struct served s;
    begin(&s);
    shutdown(s.ends[1], SHUT_RDWR);
    CU_ASSERT(relay_serve(s.ends[0], &s.callbacks));
    end(&s);
}

/* check_reply - checks that a read of 8 bytes fails if the reply begins with COUNT and has NBYTES bytes. */
static void check_reply(int64_t count, size_t nbytes)
{
    static const ckpt_error zeros;
    struct served s;
    struct relay relay;
    ckpt_error err;
    ckpt_callbacks read;
    const int64_t numbers[] = {SIZE, count};
    unsigned char got[24];
    memset(got, 0xaa, sizeof got);
    begin(&s);
    CU_ASSERT_EQUAL(write(s.ends[0], numbers, sizeof numbers), (ssize_t)sizeof numbers);
    CU_ASSERT_EQUAL(write(s.ends[0], &zeros, nbytes), (ssize_t)nbytes);
    shutdown(s.ends[0], SHUT_WR);
    relay_begin(&relay, s.ends[1]);
    CU_ASSERT_EQUAL_FATAL(relay_open(&relay, &read, &err), CKPT_OK);
    CU_ASSERT(read.read_at(read.user, 0, got, 8) < 0);
    CU_ASSERT(got[8] == 0xaa && got[23] == 0xaa);
    CU_ASSERT_EQUAL(relay_open(&relay, &read, &err), CKPT_EIO);
    CU_ASSERT(strstr(err.what, "has ended") != NULL);
    end(&s);
}

static void replies_that_are_cut_are_failures(void)
{
    check_reply(8, 7);
    check_reply(9, 9);
    check_reply(INT64_MAX, 16);
    check_reply(0, 8);
    check_reply(-1, 8);
    check_reply(-1, sizeof(ckpt_error)); /* with a status of 0 */
}

void suite_cli_relay(void)
{
    UNIT(bytes_and_failures_are_passed);
    UNIT(a_failure_is_passed_in_place_of_the_size);
    UNIT(what_is_not_in_the_file_is_not_read);
    UNIT(requests_are_read_completely);
    UNIT(a_process_that_is_gone_is_no_signal);
    UNIT(replies_that_are_cut_are_failures);
}
