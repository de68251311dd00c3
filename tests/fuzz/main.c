/*
 * main.c - runs a fuzz target without libFuzzer: once with each input, then for SECONDS with mutated copies.
 * It is linked into each PROGRAM of this folder: open, parts, scan and write.
 *
 *   PROGRAM [-t SECONDS] [-s SEED] [-o FOLDER] FILE|DIR|PACK…
 *   PROGRAM -p PACK FILE|DIR|PACK…      writes the inputs to the file PACK, and runs nothing
 *   PROGRAM -u FOLDER FILE|DIR|PACK…    writes each input to a file in FOLDER, and runs nothing
 *
 * A PACK is a file of many small inputs. Before each is its length in four bytes, little-endian.
 *
 * The target runs in a child process. An input that crashes the child, or takes longer than 20 s, is saved as
 * crash-N in the FOLDER of -o (default: .), and another child continues with the next input. The same seed
 * and files give the same inputs. To run the target with libFuzzer instead:
 *   clang -fsanitize=fuzzer,address -Ilib tests/fuzz/open.c build/asan/libckpt.a -lzip -lcrypto -lm
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../zipcrc.h"

#define INPUT_MAX    65536u
#define CASE_SECONDS 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

struct input {
    uint8_t *data;
    size_t size;
};

/* The state of the child, which the parent reads after a crash. */
struct shared {
    uint64_t runs, random;   /* random: the state of random_below() */
    size_t next_input;       /* index in `inputs` */
    size_t size;             /* of the current input */
    uint8_t data[INPUT_MAX]; /* the current input */
};

static struct shared *shared;
static struct input *inputs;
static size_t ninputs;
static uint64_t seconds, seed = 1;
static const char *folder = ".";

#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "hard_rss_limit_mb=1024:max_allocation_size_mb=512:allocator_may_return_null=1:detect_leaks=0";
}
#endif

static void die(const char *what)
{
    fprintf(stderr, "fuzz: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void add_input(uint8_t *data, size_t size)
{
    inputs = realloc(inputs, (ninputs + 1) * sizeof *inputs);
    if (!inputs)
        die("inputs");
    inputs[ninputs++] = (struct input){data, size};
}

static void add_pack(uint8_t *data, size_t size)
{
    for (size_t offset = 0; size - offset >= 4;) {
        size_t n = data[offset] | (size_t)data[offset + 1] << 8 | (size_t)data[offset + 2] << 16;
        offset += 4;
        if (n > size - offset || n > INPUT_MAX)
            die("a damaged pack");
        add_input(data + offset, n);
        offset += n;
    }
}

static void add_file(const char *path, size_t size)
{
    const char *dot = strrchr(path, '.');
    bool is_pack = dot && strcmp(dot, ".pack") == 0;
    if (size > INPUT_MAX && !is_pack)
        return;
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    if (!f || !data || fread(data, 1, size, f) != size)
        die(path);
    fclose(f);
    if (is_pack)
        add_pack(data, size);
    else
        add_input(data, size);
}

static int write_pack(const char *pack)
{
    FILE *f = fopen(pack, "wb");
    for (size_t i = 0; f && i < ninputs; i++) {
        size_t n = inputs[i].size;
        uint8_t length[4] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), 0};
        if (fwrite(length, 1, 4, f) != 4 || fwrite(inputs[i].data, 1, n, f) != n)
            die(pack);
    }
    if (!f || fclose(f) != 0)
        die(pack);
    return 0;
}

/* unpack - writes each input to a file in the folder TO. */
static int unpack(const char *to)
{
    char path[1024];
    for (size_t i = 0; i < ninputs; i++) {
        snprintf(path, sizeof path, "%s/%05zu", to, i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(inputs[i].data, 1, inputs[i].size, f) != inputs[i].size || fclose(f) != 0)
            die(path);
    }
    return 0;
}

static int is_not_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static void add_path(const char *path)
{
    struct dirent **entries;
    struct stat st;
    if (stat(path, &st) != 0)
        die(path);
    if (S_ISREG(st.st_mode))
        add_file(path, (size_t)st.st_size);
    if (!S_ISDIR(st.st_mode))
        return;
    int n = scandir(path, &entries, is_not_dots, alphasort);
    for (int i = 0; i < n; i++) {
        char name[2048];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        add_path(name);
        free(entries[i]);
    }
    free(entries);
}

/* ---------------------------------------------------------------- mutation */

/* random_below - returns a random number below LIMIT; 0 if LIMIT is 0. The generator is xorshift64. */
static uint64_t random_below(uint64_t limit)
{
    uint64_t *state = &shared->random;
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return limit ? (*state >> 11) % limit : 0;
}

#define TOKEN(s) {s, sizeof(s) - 1}
static const struct {
    const char *bytes;
    size_t n;
} tokens[] = {
    /* signatures of zip, pickle opcodes and arguments, numbers, JSON of safetensors */
    TOKEN("PK\3\4"),
    TOKEN("PK\1\2"),
    TOKEN("PK\5\6"),
    TOKEN("\x80\x02"),
    TOKEN("\x80\x04\x95"),
    TOKEN("("),
    TOKEN("t"),
    TOKEN("R"),
    TOKEN("b"),
    TOKEN("."),
    TOKEN("Q"),
    TOKEN("}"),
    TOKEN("]"),
    TOKEN("s"),
    TOKEN("u"),
    TOKEN("e"),
    TOKEN("h\0"),
    TOKEN("q\0"),
    TOKEN("j\xff\xff\xff\xff"),
    TOKEN("\x85"),
    TOKEN("\x86"),
    TOKEN("\x81"),
    TOKEN("\x93"),
    TOKEN("2"),
    TOKEN("0"),
    TOKEN("1"),
    TOKEN("X\xff\xff\xff\x7f"),
    TOKEN("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
    TOKEN("ccollections\nOrderedDict\n"),
    TOKEN("ctorch._utils\n_rebuild_tensor_v2\n"),
    TOKEN("ctorch\nFloatStorage\n"),
    TOKEN("J\xff\xff\xff\xff"),
    TOKEN("\xff\xff\xff\xff\xff\xff\xff\xff"),
    TOKEN("\0\0\0\0\0\0\0\0"),
    TOKEN("18446744073709551615"),
    TOKEN("4294967296"),
    TOKEN("-1"),
    TOKEN("\"dtype\":\"F32\""),
    TOKEN("\"shape\":[]"),
    TOKEN("\"data_offsets\":[0,0]"),
    TOKEN("\\u0000"),
    TOKEN("\xed\xa0\x80"),
};

/* replace_bytes - replaces OLD_LENGTH bytes of the input at OFFSET by the N bytes at BYTES, unless the input
 * would get too long. */
static void replace_bytes(size_t offset, size_t old_length, const void *bytes, size_t n)
{
    size_t size = shared->size;
    if (offset > size || old_length > size - offset || size - old_length + n > INPUT_MAX)
        return;
    memmove(shared->data + offset + n, shared->data + offset + old_length, size - offset - old_length);
    memcpy(shared->data + offset, bytes, n);
    shared->size = size - old_length + n;
}

static void mutate_once(void)
{
    uint8_t copied[256];
    size_t size = shared->size, offset = random_below(size), n;
    const struct input *other = &inputs[random_below(ninputs)];
    switch (random_below(8)) {
    case 0: shared->data[offset] ^= (uint8_t)(1u << random_below(8)); break;
    case 1: shared->data[offset] = (uint8_t)random_below(256); break;
    case 2: shared->data[offset] = (uint8_t)(shared->data[offset] + random_below(9) - 4); break;
    case 3: /* overwrites bytes with a token, or inserts it */
        n = random_below(sizeof tokens / sizeof *tokens);
        replace_bytes(offset, random_below(2) ? tokens[n].n : 0, tokens[n].bytes, tokens[n].n);
        break;
    case 4: replace_bytes(offset, random_below(16) + 1, "", 0); break; /* deletes bytes */
    case 5: /* copies some bytes to a different offset */
        n = random_below(sizeof copied) + 1;
        n = n > size - offset ? size - offset : n;
        memcpy(copied, shared->data + offset, n);
        replace_bytes(random_below(size), random_below(2) ? n : 0, copied, n);
        break;
    case 6: /* copies some bytes of a different input */
        n = random_below(sizeof copied) + 1;
        if (other->size > n)
            replace_bytes(offset, random_below(2) ? n : 0, other->data + random_below(other->size - n), n);
        break;
    default:                      /* truncates the input */
        if (random_below(8) == 0) /* not often */
            shared->size = offset;
    }
}

/* mutate - makes the current input: a copy of one of `inputs` with one to six mutations. */
static void mutate(void)
{
    const struct input *original = &inputs[random_below(ninputs)];
    memcpy(shared->data, original->data, original->size);
    shared->size = original->size;
    for (uint64_t n = random_below(6) + 1; n && shared->size; n--)
        mutate_once();
    if (random_below(4)) /* not always, so that wrong CRCs are also tested */
        zipcrc_fix(shared->data, shared->size);
}

/* --------------------------------------------------------------------- run */

static void run_input(void)
{
    uint8_t *copy = malloc(shared->size ? shared->size : 1); /* so that ASan finds reads beyond the end */
    if (!copy)
        die("memory");
    memcpy(copy, shared->data, shared->size);
    alarm(CASE_SECONDS);
    LLVMFuzzerTestOneInput(copy, shared->size);
    free(copy);
    shared->runs++;
}

/* run_child - runs the inputs that have not been run yet, then mutated ones until the time UNTIL. */
static void run_child(time_t until)
{
    while (shared->next_input < ninputs) {
        const struct input *in = &inputs[shared->next_input++];
        memcpy(shared->data, in->data, in->size);
        shared->size = in->size;
        run_input();
    }
    while (time(NULL) < until) {
        mutate();
        run_input();
    }
    _exit(0);
}

static void save_crash(unsigned n, int status)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/crash-%u", folder, n);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(shared->data, 1, shared->size, f) != shared->size || fclose(f) != 0)
        die(path);
    printf("FAIL %s after %llu runs: %s %d\n", path, (unsigned long long)shared->runs,
           WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    unsigned crashes = 0;
    const char *pack_path = NULL, *unpack_folder = NULL;
    int opt, status;
    while ((opt = getopt(argc, argv, "t:s:o:p:u:")) != -1) {
        if (opt == 't')
            seconds = strtoull(optarg, NULL, 10);
        else if (opt == 's')
            seed = strtoull(optarg, NULL, 10);
        else if (opt == 'o')
            folder = optarg;
        else if (opt == 'p')
            pack_path = optarg;
        else if (opt == 'u')
            unpack_folder = optarg;
    }
    for (int i = optind; i < argc; i++)
        add_path(argv[i]);
    if (pack_path || unpack_folder)
        return pack_path ? write_pack(pack_path) : unpack(unpack_folder);
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !ninputs)
        die("nothing to run");
    shared->random = (seed + 1) * 0x9e3779b97f4a7c15u; /* not 0, and different for near seeds */
    time_t until = time(NULL) + (time_t)seconds;
    for (bool done = false; !done && crashes < 20;) {
        pid_t pid = fork();
        if (pid == 0)
            run_child(until);
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            die("child");
        done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!done)
            save_crash(++crashes, status);
    }
    printf("%zu files, %llu runs, %u crashes\n", ninputs, (unsigned long long)shared->runs, crashes);
    return crashes != 0;
}
