/*
 * names.c - names CKPT: runs every command with hostile names of tensors, values, imports, files and options:
 * names that would control a terminal or a shell, or deceive a reader. What ckpt prints, as text, as JSON and
 * in errors, must be UTF-8 without control characters (except newlines), without characters that change the
 * direction of text, and without invisible ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_OUTPUT ((size_t)1 << 20)

/* Names that are UTF-8, and some that are not. \1 is written as NUL where the format permits NUL in a
 * name. */
static const char *const names[] = {
    "\033[2J\033[H",
    "\033[31mred",
    "\033]0;title\a",
    "\033]8;;http://x/\033\\link\033]8;;\033\\",
    "\033]52;c;cm0gLXJm\a",
    "\033P+q\033\\",
    "\033c",
    "a\bb\b\b",
    "good\rbad",
    "two\nlines",
    "\ttab",
    "bell\a",
    "del\177",
    "nul\1here",
    "c1 \302\2332J",
    "nel\302\205next",
    "shy\302\255",
    "rlo \342\200\256txet",
    "lri \342\201\246x\342\201\251",
    "rlm\342\200\217x",
    "alm\330\234x",
    "zero\342\200\213width",
    "join\342\200\215er",
    "bom\357\273\277",
    "line\342\200\250sep",
    "para\342\200\251sep",
    "tag\363\240\200\201",
    "mvs\341\240\216x",
    "anchor\357\277\271x",
    "bad\377byte",
    "over\300\257long",
    "half\303",
    "lone\355\240\200surrogate",
    "%s%n%p",
    "$(id)`id`;id|id&",
    "'quo\"tes\\",
    "-rf",
    "--help",
    "../../etc/passwd",
    "/dev/null",
    "*?[a]{b}",
    " ",
    "",
    "e\314\201\314\201\314\201\314\201\314\201",
    "\360\237\230\200",
    "\357\277\277",
};
#define NNAMES (sizeof names / sizeof *names)

/* The arguments of ckpt. In them, NAME stands for the hostile name, FILE for a file that contains the name,
 * OTHER for a file that does not. */
#define MAX_ARGUMENTS 8
static const char *const commands[][MAX_ARGUMENTS] = {
    {"ls", "FILE"},
    {"ls", "--json", "FILE"},
    {"ls", "--json", "--values", "FILE"},
    {"info", "FILE"},
    {"info", "--json", "FILE"},
    {"show", "FILE"},
    {"show", "FILE", "NAME"},
    {"show", "--json", "FILE", "NAME"},
    {"show", "OTHER", "NAME"},
    {"show", "--json", "OTHER", "NAME"},
    {"stat", "FILE"},
    {"stat", "--json", "FILE"},
    {"hash", "FILE"},
    {"hash", "--json", "FILE"},
    {"diff", "FILE", "OTHER"},
    {"diff", "--json", "OTHER", "FILE"},
    {"scan", "--all", "FILE"},
    {"scan", "--json", "--all", "FILE"},
    {"scan", "--sarif", "FILE"},
    {"strip", "--auto", "--dry-run", "FILE"},
    {"strip", "NAME", "--check", "FILE"},
    {"add", "NAME", "--dry-run", "FILE"},
    {"add", "NAME", "--dry-run", "--json", "FILE"},
    {"rename", "-s", "NAME=>x", "--dry-run", "FILE"},
    {"rename", "-s", "^.*$=>NAME", "--dry-run", "FILE"},
    {"rename", "-m", "NAME", "--dry-run", "--json", "FILE"},
    {"convert", "FILE", "-n", "-o", "/tmp/x.safetensors"},
    {"convert", "FILE", "-n", "--json", "-o", "/tmp/x.pt"},
    {"convert", "FILE", "-n", "--keep", "NAME", "-o", "/tmp/x.pt"},
    {"convert", "FILE", "-n", "--root", "NAME", "-o", "/tmp/x.pt"},
    {"convert", "FILE", "-n", "-o", "/nowhere/NAME"},
    {"convert", "FILE", "-n", "--to", "NAME", "-o", "x"},
    {"convert", "FILE", "-n", "--cast", "NAME=float16", "-o", "/tmp/x.safetensors"},
    {"verify", "FILE"},
    {"verify", "--json", "FILE"},
    {"verify", "--manifest", "NAME", "FILE"},
    {"doctor", "FILE"},
    {"doctor", "--json", "FILE"},
    {"salvage", "FILE", "-n", "-o", "/tmp/x.pt"},
    {"sanitize", "FILE", "-n", "-o", "/tmp/x.pt"},
    {"sanitize", "--json", "FILE", "-n", "-o", "/tmp/x.pt"},
    {"NAME", "FILE"},
    {"ls", "NAME"},
    {"ls", "--json", "NAME"},
    {"help", "NAME"},
    {"ls", "--NAME", "FILE"},
    {"completion", "NAME"},
};
#define NCOMMANDS (sizeof commands / sizeof *commands)

static const char *ckpt;
static char dir[64];
static long passed, failed, runs;
static bool is_available[NCOMMANDS]; /* `ckpt COMMAND --help` succeeds */

static void die(const char *what)
{
    fprintf(stderr, "names: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---------------------------------------------------------- files with names */

struct content {
    unsigned char data[8192];
    size_t size;
};

static void put_bytes(struct content *content, const void *bytes, size_t n)
{
    if (n > sizeof content->data - content->size)
        die("a name is too long");
    memcpy(content->data + content->size, bytes, n);
    content->size += n;
}

static void put_string(struct content *content, const char *s) { put_bytes(content, s, strlen(s)); }

static void put_byte(struct content *content, unsigned value)
{
    unsigned char byte = (unsigned char)value;
    put_bytes(content, &byte, 1);
}

/* put_json - writes the name escaped as a JSON string. */
static void put_json(struct content *content, const char *name)
{
    char escaped[8];
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        unsigned c = *p == 1 ? 0 : *p;
        snprintf(escaped, sizeof escaped, "\\u%04x", c);
        if (c < 0x20 || c == '"' || c == '\\')
            put_string(content, escaped);
        else
            put_byte(content, c);
    }
}

static void make_safetensors(struct content *content, const char *name)
{
    content->size = 8; /* the length of the header is written last */
    put_string(content, "{\"__metadata__\":{\"");
    put_json(content, name);
    put_string(content, "\":\"");
    put_json(content, name);
    put_string(content, "\"},\"");
    put_json(content, name);
    put_string(content, "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"module.");
    put_json(content, name);
    put_string(content, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}");
    uint64_t header_length = content->size - 8;
    for (size_t i = 0; i < 8; i++)
        content->data[i] = (unsigned char)(header_length >> 8 * i);
    put_string(content, "data");
}

/* put_pickle_text - writes NAME with the opcode BINUNICODE, or as Python 2's str, which need not be UTF-8. */
static void put_pickle_text(struct content *content, const char *name, bool python2)
{
    size_t n = strlen(name);
    put_byte(content, python2 ? 'T' : 'X'); /* T: BINSTRING */
    for (size_t i = 0; i < 4; i++)
        put_byte(content, (unsigned)(n >> 8 * i) & 255);
    for (size_t i = 0; i < n; i++)
        put_byte(content, (unsigned char)(name[i] == 1 ? 0 : name[i]));
}

/* make_pickle - writes a pickle of {NAME: NAME, 'f': NAME.NAME()}, or of {NAME: NAME, 'f': None} if NAME
 * contains a newline, which GLOBAL cannot hold. If PYTHON2, the key and value NAME are Python 2's str. */
static void make_pickle(struct content *content, const char *name, bool python2)
{
    content->size = 0;
    put_string(content, "\x80\x02}(");
    put_pickle_text(content, name, python2);
    put_pickle_text(content, name, python2);
    put_string(content, "X");
    put_bytes(content, "\1\0\0\0f", 5);
    if (strchr(name, '\n')) {
        put_string(content, "N");
    } else {
        put_string(content, "c"); /* GLOBAL */
        put_string(content, name);
        put_string(content, "\n");
        put_string(content, name);
        put_string(content, "\n)R"); /* EMPTY_TUPLE, REDUCE */
    }
    put_string(content, "u."); /* SETITEMS, STOP */
}

static void write_file(const char *path, const void *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd) != 0)
        die(path);
}

/* ------------------------------------------------------------- what is printed */

/* decode_character - decodes the UTF-8 at P to C and returns its length; 0: it is malformed. */
static size_t decode_character(const unsigned char *p, size_t left, uint32_t *c)
{
    size_t n = *p < 0x80                 ? 1
               : *p >= 0xc2 && *p < 0xe0 ? 2
               : *p >= 0xe0 && *p < 0xf0 ? 3
               : *p >= 0xf0 && *p < 0xf5 ? 4
                                         : 0;
    *c = n == 1 ? *p : n ? *p & (0x7fu >> n) : 0;
    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (p[i] & 0x3f);
    }
    return (n == 3 && *c < 0x800) || (n == 4 && *c < 0x10000) || (*c >= 0xd800 && *c < 0xe000) ? 0 : n;
}

/* is_harmless - returns whether character C neither controls a terminal nor changes the direction of text nor
 * is invisible. */
static bool is_harmless(uint32_t c)
{
    return c == '\n' ||
           (c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0) && c != 0x61c && c != 0x180e && c != 0xfeff &&
            !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2060 && c <= 0x206f) &&
            !(c >= 0xfff9 && c <= 0xfffb) && !(c >= 0xe0000 && c < 0xe1000));
}

/* find_forbidden - returns the offset of the first character that must not be printed; -1: there is none. */
static long find_forbidden(const unsigned char *text, size_t n)
{
    uint32_t c;
    for (size_t offset = 0; offset < n;) {
        size_t len = decode_character(text + offset, n - offset, &c);
        if (len == 0 || !is_harmless(c))
            return (long)offset;
        offset += len;
    }
    return -1;
}

/* run_ckpt - runs ckpt, whose output and errors replace the content of the file FD. Returns the exit status,
 * or the negative number of the signal that ended it. */
static int run_ckpt(char *const argv[], int fd)
{
    int status = 0;
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)
        die("output");
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY);
        if (chdir(dir) != 0 || dup2(null, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(125);
        execv(ckpt, argv);
        _exit(125);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        die("fork");
    runs++;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* report_failure - prints the command and the bytes of PRINTED near OFFSET, the first forbidden character
 * (-1: none). */
static void report_failure(char *const argv[], const unsigned char *printed, long offset, int code)
{
    failed++;
    printf("exit %d:", code);
    for (int i = 1; argv[i]; i++)
        printf(" %s", argv[i][0] && find_forbidden((const unsigned char *)argv[i], strlen(argv[i])) < 0
                          ? argv[i]
                          : "NAME");
    for (long i = offset < 16 ? 0 : offset - 16; offset >= 0 && printed[i] && i < offset + 8; i++)
        printf(" %02x", printed[i]);
    putchar('\n');
}

/* fill_in - returns a copy of ARGUMENT in which its "NAME", "FILE" or "OTHER" is replaced; the caller frees
 * the copy. */
static char *fill_in(const char *argument, const char *name, const char *file)
{
    size_t cap = strlen(argument) + strlen(name) + strlen(file) + 32;
    char *out = malloc(cap);
    const char *name_word = strstr(argument, "NAME");
    if (!out)
        die("memory");
    if (strcmp(argument, "FILE") == 0)
        snprintf(out, cap, "%s", file);
    else if (strcmp(argument, "OTHER") == 0)
        snprintf(out, cap, "other.safetensors");
    else if (name_word)
        snprintf(out, cap, "%.*s%s%s", (int)(name_word - argument), argument, name,
                 name_word + strlen("NAME"));
    else
        snprintf(out, cap, "%s", argument);
    return out;
}

/* try_commands - runs all commands with NAME and FILE and checks what they print: no forbidden character, and
 * an exit status of at most 2, with a message if it is 2. */
static void try_commands(const char *name, const char *file)
{
    static unsigned char printed[MAX_OUTPUT];
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("output", MFD_CLOEXEC);
    for (size_t k = 0; k < NCOMMANDS; k++) {
        char *argv[1 + MAX_ARGUMENTS + 1] = {(char *)(size_t)ckpt};
        int n = 1;
        if (!is_available[k])
            continue;
        for (int i = 0; i < MAX_ARGUMENTS && commands[k][i]; i++)
            argv[n++] = fill_in(commands[k][i], name, file);
        argv[n] = NULL;
        int code = run_ckpt(argv, fd);
        ssize_t len = pread(fd, printed, sizeof printed - 1, 0);
        printed[len < 0 ? 0 : len] = '\0';
        long offset = find_forbidden(printed, len < 0 ? 0 : (size_t)len);
        bool crashed = code < 0 || code > 2, silent = code == 2 && len == 0;
        if (offset >= 0 || crashed || silent)
            report_failure(argv, printed, offset, code);
        else
            passed++;
        while (--n > 0)
            free(argv[n]);
    }
}

/* ------------------------------------------------------------------- names */

/* find_commands - sets is_available for each command. */
static void find_commands(void)
{
    int fd = memfd_create("help", MFD_CLOEXEC);
    for (size_t k = 0; k < NCOMMANDS; k++) {
        char *argv[] = {(char *)(size_t)ckpt, (char *)(size_t)commands[k][0], (char *)(size_t)"--help", NULL};
        is_available[k] = strcmp(commands[k][0], "NAME") == 0 || run_ckpt(argv, fd) == 0;
    }
    close(fd);
}

/* try_as_file - runs the commands with two files whose names begin with NAME: a safetensors file with CONTENT
 * and a malformed pickle. Does nothing if NAME cannot begin the name of a file. */
static void try_as_file(const char *name, const struct content *content)
{
    char path[512];
    if (!*name || strchr(name, '/') || name[0] == '-' || strcmp(name, " ") == 0)
        return;
    snprintf(path, sizeof path, "%s.safetensors", name);
    write_file(path, content->data, content->size);
    try_commands(name, path);
    snprintf(path, sizeof path, "%s.pt", name);
    write_file(path, "\x80\x02}q", 4); /* a file that is refused */
    try_commands(name, path);
}

int main(int argc, char **argv)
{
    static struct content content;
    if (argc != 2 || !(ckpt = realpath(argv[1], NULL)))
        die("usage: names CKPT");
    snprintf(dir, sizeof dir, "%s/ckpt-names-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(dir) || chdir(dir) != 0)
        die(dir);
    find_commands();
    make_safetensors(&content, "other");
    write_file("other.safetensors", content.data, content.size);
    for (size_t i = 0; i < NNAMES; i++) {
        make_safetensors(&content, names[i]);
        write_file("f.safetensors", content.data, content.size);
        try_commands(names[i], "f.safetensors");
        try_as_file(names[i], &content);
        make_pickle(&content, names[i], false);
        write_file("f.pkl", content.data, content.size);
        try_commands(names[i], "f.pkl");
        make_pickle(&content, names[i], true);
        write_file("g.pkl", content.data, content.size);
        try_commands(names[i], "g.pkl");
    }
    char *rm[] = {(char *)(size_t)"rm", (char *)(size_t)"-rf", dir, NULL};
    printf("%zu names, %zu commands, %ld runs\n", NNAMES, NCOMMANDS, runs);
    printf("names: %ld passed, %ld failed\n", passed, failed);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(rm[0], rm);
        _exit(2);
    }
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        die(dir);
    return failed != 0;
}
