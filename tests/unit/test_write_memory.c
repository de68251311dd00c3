/* Writing plans to memory and to file descriptors gives the bytes of ckpt_plan_write, or none on failure. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pickled.h"
#include "small_files.h"
#include "unit.h"

#define TWO_TENSORS "{'a':['U8',[3],[0,3]],'b':['U8',[2],[3,5]]}"

static ckpt_error err;
static char path[] = "/tmp/unit-write-XXXXXX";

static ckpt_write_options options_for(const char *format)
{
    return (ckpt_write_options){
        .struct_size = sizeof(ckpt_write_options), .format = format, .force = 1, .no_sync = 1};
}

/* make_file - creates an empty file, stores its name in path, and opens it for reading and writing. */
static int make_file(void)
{
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    return fd;
}

static size_t read_file(int fd, void *out, size_t cap)
{
    ssize_t n = pread(fd, out, cap, 0);
    CU_ASSERT_FATAL(n >= 0);
    return (size_t)n;
}

/* write_to_file - returns the bytes that ckpt_plan_write writes for P as FORMAT; the caller frees them. */
static unsigned char *write_to_file(ckpt_plan *p, const char *format, size_t *n)
{
    const ckpt_write_options o = options_for(format);
    unsigned char *bytes = malloc(1 << 20);
    int fd = make_file();
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_write(p, path, &o, NULL, &err), CKPT_OK);
    close(fd);
    CU_ASSERT_FATAL(bytes && (fd = open(path, O_RDONLY)) >= 0);
    *n = read_file(fd, bytes, 1 << 20);
    CU_ASSERT(*n < 1 << 20);
    close(fd);
    unlink(path);
    return bytes;
}

static void memory_gets_the_same_bytes_as_a_file(void)
{
    static const char *const inputs[] = {"torch/t26/general_checkpoint.tar", "torch/t26/dp_state_dict.pt"};
    static const char *const formats[] = {"torch-zip", "safetensors"};
    for (size_t i = 0; i < 4; i++) {
        const ckpt_write_options o = options_for(formats[i % 2]);
        ckpt_plan *p = plan_of(open_corpus_file(inputs[i / 2]));
        ckpt_write_result r = CKPT_INIT(ckpt_write_result);
        size_t n, expected_size;
        void *bytes;
        CU_ASSERT_EQUAL(ckpt_plan_root(p, "auto", NULL), CKPT_OK);
        unsigned char *expected = write_to_file(p, formats[i % 2], &expected_size);
        CU_ASSERT_EQUAL_FATAL(ckpt_plan_write_memory(p, &o, &bytes, &n, &r, &err), CKPT_OK);
        CU_ASSERT(n == expected_size && memcmp(bytes, expected, n) == 0);
        CU_ASSERT(r.bytes == n && r.noutputs == 0 && r.tensors == ckpt_plan_tensor_count(p));
        CU_ASSERT_STRING_EQUAL(r.format, formats[i % 2]);
        ckpt_free(bytes);
        free(expected);
        close_plan(p);
    }
}

static void the_default_format_is_that_of_the_input(void)
{
    ckpt_write_options o = options_for(NULL);
    ckpt_plan *p = plan_of(open_safetensors(quoted(TWO_TENSORS), "abcde", 5));
    void *bytes;
    size_t n;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_write_memory(p, NULL, &bytes, &n, NULL, &err), CKPT_OK);
    CU_ASSERT(n > 8 + 5 &&
              memcmp((char *)bytes + n - 5, "abcde", 5) == 0); /* there is a header before the data */
    ckpt_free(bytes);
    o.max_shard = 3; /* memory cannot hold several files */
    CU_ASSERT_EQUAL(ckpt_plan_write_memory(p, &o, &bytes, &n, NULL, &err), CKPT_EUSAGE);
    CU_ASSERT(!bytes && n == 0);
    close_plan(p);
    p = plan_of(open_corpus_file("torch/t26/dtype_float32_legacy.pt")); /* a format that is not written */
    CU_ASSERT_EQUAL(ckpt_plan_write_memory(p, NULL, &bytes, &n, NULL, &err), CKPT_EUSAGE);
    CU_ASSERT(strstr(err.hint, "safetensors") != NULL);
    close_plan(p);
}

static void a_dry_run_returns_no_bytes(void)
{
    ckpt_write_options o = options_for("torch-zip");
    ckpt_plan *p = plan_of(open_safetensors(quoted(TWO_TENSORS), "abcde", 5));
    ckpt_write_result r = CKPT_INIT(ckpt_write_result);
    void *bytes = &o;
    size_t n = 9, written_size;
    o.dry_run = 1;
    CU_ASSERT_EQUAL(ckpt_plan_write_memory(p, &o, &bytes, &n, &r, &err), CKPT_OK);
    CU_ASSERT(!bytes && n == 0);
    o.dry_run = 0;
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_write_memory(p, &o, &bytes, &written_size, NULL, &err), CKPT_OK);
    CU_ASSERT_EQUAL(r.bytes, written_size);
    ckpt_free(bytes);
    close_plan(p);
}

/* Writing begins at the current offset of the descriptor. Afterwards the descriptor is still open, and its
 * offset is the end of the written bytes. */
static void writing_starts_at_the_current_offset(void)
{
    const ckpt_write_options o = options_for("safetensors");
    ckpt_plan *p = plan_of(open_safetensors(quoted(TWO_TENSORS), "abcde", 5));
    unsigned char got[1024];
    size_t expected_size;
    unsigned char *expected = write_to_file(p, "safetensors", &expected_size);
    int fd = make_file();
    CU_ASSERT(write(fd, "head", 4) == 4);
    CU_ASSERT_EQUAL(ckpt_plan_write_fd(p, fd, &o, NULL, &err), CKPT_OK);
    CU_ASSERT(write(fd, "tail", 4) == 4);
    CU_ASSERT_EQUAL(read_file(fd, got, sizeof got), strlen("head") + expected_size + strlen("tail"));
    CU_ASSERT(memcmp(got, "head", 4) == 0);
    CU_ASSERT(memcmp(got + 4, expected, expected_size) == 0 &&
              memcmp(got + 4 + expected_size, "tail", 4) == 0);
    close(fd);
    unlink(path);
    free(expected);
    close_plan(p);
}

static int cancel(void *user, uint64_t written_bytes, uint64_t total)
{
    (void)user;
    (void)written_bytes;
    (void)total;
    return 1;
}

static void a_failure_leaves_the_file_unchanged(void)
{
    ckpt_write_options o = options_for("torch-zip");
    ckpt_plan *p = plan_of(open_safetensors(quoted(TWO_TENSORS), "abcde", 5));
    int fd = make_file(), full = open("/dev/full", O_WRONLY), read_only = open("/dev/null", O_RDONLY);
    o.progress = cancel;
    CU_ASSERT_EQUAL(ckpt_plan_write_fd(p, fd, &o, NULL, &err), CKPT_ECANCELLED);
    CU_ASSERT(lseek(fd, 0, SEEK_CUR) == 0 && lseek(fd, 0, SEEK_END) == 0);
    o.progress = NULL;
    CU_ASSERT_EQUAL(ckpt_plan_write_fd(p, full, &o, NULL, &err), CKPT_EIO);
    CU_ASSERT(strstr(err.file, "descriptor ") == err.file && err.sys_errno != 0);
    CU_ASSERT_EQUAL(ckpt_plan_write_fd(p, read_only, &o, NULL, &err), CKPT_EUSAGE);
    close(read_only); /* from here on, READ_ONLY is not an open descriptor */
    CU_ASSERT_EQUAL(ckpt_plan_write_fd(p, read_only, &o, NULL, &err), CKPT_EUSAGE);
    close(fd);
    close(full);
    unlink(path);
    close_plan(p);
}

/* A thread that reads FD to its end. */
struct receiver {
    int fd;
    size_t received;
    unsigned char *bytes;
};

static void *receive_all(void *user)
{
    struct receiver *t = user;
    ssize_t n;
    usleep(20000); /* time for the socket buffer to fill up */
    while ((n = read(t->fd, t->bytes + t->received, 4096)) > 0)
        t->received += (size_t)n;
    return NULL;
}

/* Writing to a non-blocking socket waits for room in its buffer. */
static void writing_waits_for_full_sockets(void)
{
    enum { SIZE = 600000 }; /* larger than the buffer of a socket */
    static unsigned char data[SIZE];
    char header[80];
    int pair[2];
    pthread_t thread;
    struct receiver t = {.bytes = malloc(1 << 20)};
    snprintf(header, sizeof header, "{'a':['U8',[%d],[0,%d]]}", SIZE, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 7);
    ckpt_plan *p = plan_of(open_safetensors(quoted(header), data, SIZE));
    size_t expected_size;
    unsigned char *expected = write_to_file(p, "safetensors", &expected_size);
    CU_ASSERT_FATAL(t.bytes && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    CU_ASSERT_FATAL(fcntl(pair[1], F_SETFL, 0) == 0);
    t.fd = pair[1];
    CU_ASSERT_FATAL(pthread_create(&thread, NULL, receive_all, &t) == 0);
    CU_ASSERT_EQUAL(ckpt_plan_write_fd(p, pair[0], NULL, NULL, &err), CKPT_OK);
    close(pair[0]);
    pthread_join(thread, NULL);
    close(pair[1]);
    CU_ASSERT(t.received == expected_size && memcmp(t.bytes, expected, expected_size) == 0);
    free(t.bytes);
    free(expected);
    close_plan(p);
}

static void shards_become_one_file(void)
{
    const ckpt_write_options o = options_for(NULL);
    ckpt_file *f = NULL;
    void *bytes;
    size_t n;
    ckpt_plan *p = plan_of(
        open_corpus_file("torch/t215/eco/hub_safetensors_sharded/model.safetensors.index.json"));
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_write_memory(p, &o, &bytes, &n, NULL, &err), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(bytes, n, "one", NULL, &f, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_count(f), (uint32_t)ckpt_plan_tensor_count(p));
    CU_ASSERT_STRING_EQUAL(ckpt_file_format(f), "safetensors");
    ckpt_close(f);
    ckpt_free(bytes);
    close_plan(p);
}

static void a_root_without_tensors_is_no_empty_file(void)
{
    static const char *const roots[] = {"5",     "'text'",        "None",
                                        "(1,2)", "torch.float32", "functools.partial(builtins.len)"};
    static const char *const formats[] = {"safetensors", "npz", "npy", "flax"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots * 4; i++) {
        const ckpt_write_options o = options_for(formats[i % 4]);
        struct test_file made = make_torch_zip(roots[i / 4]);
        ckpt_plan *p;
        void *bytes;
        size_t n;
        CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(made.file, &p, &err), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_plan_write_memory(p, &o, &bytes, &n, NULL, &err), CKPT_ENOTFOUND);
        CU_ASSERT_PTR_NULL(bytes);
        ckpt_plan_free(p);
        close_file(&made);
    }
}

void suite_write_memory(void)
{
    UNIT(a_root_without_tensors_is_no_empty_file);
    UNIT(memory_gets_the_same_bytes_as_a_file);
    UNIT(the_default_format_is_that_of_the_input);
    UNIT(a_dry_run_returns_no_bytes);
    UNIT(writing_starts_at_the_current_offset);
    UNIT(a_failure_leaves_the_file_unchanged);
    UNIT(writing_waits_for_full_sockets);
    UNIT(shards_become_one_file);
}
