/* A window returns the bytes of the file in any order of reads, and reduces the number of reads. */
#include "io/window.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

#define FILE_SIZE  3000000u /* bytes of the file */
#define PIECE_SIZE 4000u    /* bytes of a read */
#define PIECES     700u     /* the number of reads in each order below */

/* A source that counts the reads of its file. */
struct counting_source {
    source base;
    int fd;
    unsigned reads;
};

static ckpt_status counting_read(source *s, uint64_t off, void *out, size_t n, ckpt_error *err)
{
    struct counting_source *c = (struct counting_source *)s;
    c->reads++;
    (void)err;
    return pread(c->fd, out, n, (off_t)off) == (ssize_t)n ? CKPT_OK : CKPT_EIO;
}

static void counting_close(source *s) { (void)s; }

static bool counting_extent(source *s, uint64_t off, int *fd, uint64_t *at)
{
    *fd = ((struct counting_source *)s)->fd;
    *at = off;
    return true;
}

static const struct source_ops counting_ops = {
    .read_at = counting_read, .close = counting_close, .extent = counting_extent};

static unsigned char byte_at(uint64_t i) { return (unsigned char)(i * 2654435761u >> 13); }

static struct counting_source open_counting_source(void)
{
    char path[] = "/tmp/unit-window-XXXXXX";
    int fd = mkstemp(path);
    unsigned char *file_bytes = malloc(FILE_SIZE);
    CU_ASSERT_FATAL(fd >= 0 && file_bytes != NULL);
    for (size_t i = 0; i < FILE_SIZE; i++)
        file_bytes[i] = byte_at(i);
    CU_ASSERT_EQUAL_FATAL(write(fd, file_bytes, FILE_SIZE), FILE_SIZE);
    unlink(path);
    free(file_bytes);
    return (struct counting_source){.base = {.ops = &counting_ops, .size = FILE_SIZE, .refs = 1}, .fd = fd};
}

/* check_piece - returns whether window W reads the right N bytes at offset AT. */
static bool check_piece(struct window *w, struct counting_source *c, uint64_t at, size_t n)
{
    static unsigned char out[FILE_SIZE];
    if (window_read(w, &c->base, at, out, n, NULL) != CKPT_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        if (out[i] != byte_at(at + i))
            return false;
    return true;
}

/* read_in_order - reads PIECES pieces in the given ORDER; returns how often the source was read. */
static unsigned read_in_order(unsigned (*order)(unsigned))
{
    struct counting_source c = open_counting_source();
    struct window w = {0};
    for (unsigned i = 0; i < PIECES; i++)
        CU_ASSERT(check_piece(&w, &c, (uint64_t)order(i) * PIECE_SIZE, PIECE_SIZE));
    window_close(&w);
    close(c.fd);
    return c.reads;
}

/* Orders of reading: each function returns which piece is the I-th to be read. */
static unsigned ascending(unsigned i) { return i; }
static unsigned backwards(unsigned i) { return PIECES - 1 - i; }
static unsigned shuffled_by_nines(unsigned i)
{
    unsigned piece = i / 9 * 9 + i * 4 % 9;
    return piece < PIECES ? piece : i;
}
static unsigned scattered(unsigned i) { return i * 389 % PIECES; }
static unsigned each_twelfth(unsigned i) { return i * 12 % PIECES; }

/* Without a window, the source would be read 700 times in each order. */
static void close_pieces_are_read_together(void)
{
    CU_ASSERT_EQUAL(read_in_order(ascending), 1);
    CU_ASSERT(read_in_order(backwards) < 200);
    CU_ASSERT(read_in_order(shuffled_by_nines) < 30);
}

static void distant_pieces_are_read_alone(void)
{
    CU_ASSERT_EQUAL(read_in_order(scattered), PIECES);
    CU_ASSERT(read_in_order(each_twelfth) > 600);
}

/* The ranges have random sizes, some larger than a window, and offsets up to the end of the file. */
static void ranges_of_any_size_are_read(void)
{
    struct counting_source c = open_counting_source();
    struct window w = {0};
    uint64_t seed = 1, at = 0;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t n = (size_t)(seed >> 40) % (i % 50 ? 5000 : 300000);
        at = i % 20 ? at + (seed >> 20) % 9000 : (seed >> 20) % FILE_SIZE;
        at = at < FILE_SIZE ? at : 0;
        n = n < FILE_SIZE - at ? n : (size_t)(FILE_SIZE - at);
        CU_ASSERT(check_piece(&w, &c, at, n));
    }
    CU_ASSERT(check_piece(&w, &c, FILE_SIZE - 100, 50) && check_piece(&w, &c, FILE_SIZE - 50, 50));
    window_close(&w);
    close(c.fd);
}

static void reads_beyond_the_source_fail(void)
{
    struct counting_source c = open_counting_source();
    struct window w = {0};
    char out[200];
    c.base.size = FILE_SIZE - 1000; /* the source is shorter than the file */
    CU_ASSERT(check_piece(&w, &c, FILE_SIZE - 1200, 100) && check_piece(&w, &c, FILE_SIZE - 1100, 100));
    CU_ASSERT_EQUAL(window_read(&w, &c.base, FILE_SIZE - 1050, out, 100, NULL), CKPT_ETRUNCATED);
    CU_ASSERT_EQUAL(window_read(&w, &c.base, UINT64_MAX - 10, out, 100, NULL), CKPT_ETRUNCATED);
    CU_ASSERT(ftruncate(c.fd, FILE_SIZE / 2) == 0);
    CU_ASSERT_EQUAL(window_read(&w, &c.base, FILE_SIZE / 2 - 50, out, 100, NULL), CKPT_EIO);
    window_close(&w);
    close(c.fd);
}

/* In each file, every thousandth byte, from byte 0 on, is the number of the file. */
static void several_files_are_read_through_one_window(void)
{
    struct counting_source c[3];
    struct window w = {0};
    for (int i = 0; i < 3; i++) {
        unsigned char number = (unsigned char)i;
        c[i] = open_counting_source();
        for (unsigned at = 0; at < 300; at++)
            CU_ASSERT_EQUAL_FATAL(pwrite(c[i].fd, &number, 1, at * 1000), 1);
    }
    for (unsigned at = 0; at < 300; at++) {
        for (unsigned k = 0; k < 1 + at % 4; k++) {
            unsigned file = (at / 7 + k * k) % 3;
            unsigned char got[2] = {9, 9};
            CU_ASSERT_EQUAL(window_read(&w, &c[file].base, at * 1000, got, 2, NULL), CKPT_OK);
            CU_ASSERT(got[0] == file && got[1] == byte_at(at * 1000 + 1));
        }
    }
    window_close(&w);
    for (int i = 0; i < 3; i++)
        close(c[i].fd);
}

void suite_window(void)
{
    UNIT(close_pieces_are_read_together);
    UNIT(distant_pieces_are_read_alone);
    UNIT(ranges_of_any_size_are_read);
    UNIT(reads_beyond_the_source_fail);
    UNIT(several_files_are_read_through_one_window);
}
