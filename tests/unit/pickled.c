/* pickled.c - see pickled.h. Its functions may recurse, because the pickles in tests are not deeply
 * nested. */
#include "pickled.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/zip_write.h"

size_t caret_offset;

/* A text that is being compiled to a pickle. */
struct compiler {
    buf *out;
    size_t begin;   /* offset of the pickle in OUT */
    const char *at; /* next character of the text */
};

static void put_value(struct compiler *c);
static void put_operand(struct compiler *c);

/* accept - skips blanks and then, if WORD follows, WORD. Returns whether WORD followed. */
static bool accept(struct compiler *c, const char *word)
{
    size_t n = strlen(word);
    while (*c->at == ' ')
        c->at++;
    if (strncmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

static void expect(struct compiler *c, const char *word)
{
    if (accept(c, word))
        return;
    fprintf(stderr, "pickled: no %s at: %.40s\n", word, c->at);
    abort();
}

static unsigned hex_value(char digit) { return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

/* put_string - writes the opcode OP, then the length of the text up to the next apostrophe, in WIDTH bytes,
 * and that text. */
static void put_string(struct compiler *c, char op, size_t width)
{
    char text[4096];
    uint32_t n = 0;
    for (; *c->at != '\''; c->at++) {
        if (*c->at == '\\') {
            text[n++] = (char)(hex_value(c->at[1]) * 16 + hex_value(c->at[2]));
            c->at += 2;
        } else {
            text[n++] = *c->at;
        }
    }
    c->at++;
    buf_byte(c->out, (unsigned char)op);
    for (size_t i = 0; i < width; i++)
        buf_byte(c->out, (unsigned char)((uint64_t)n >> 8 * i));
    buf_put(c->out, text, n);
}

/* put_items - writes MARK, the items up to the bracket CLOSE, and the opcode OP. */
static void put_items(struct compiler *c, const char *close, char op)
{
    buf_byte(c->out, '(');
    while (!accept(c, close)) {
        put_value(c);
        if (accept(c, ":"))
            put_value(c);
        (void)accept(c, ",");
    }
    buf_byte(c->out, (unsigned char)op);
}

/* put_dict - writes EMPTY_DICT, the pairs up to '>', and SETITEMS, or SETITEM if there is only one pair. */
static void put_dict(struct compiler *c)
{
    size_t mark = c->out->len + 1, n = 0;
    buf_put_cstr(c->out, "}(");
    for (; !accept(c, ">"); n++) {
        put_value(c);
        expect(c, ":");
        put_value(c);
        (void)accept(c, ",");
    }
    if (n == 1) /* SETITEM takes no MARK */
        memmove(c->out->data + mark, c->out->data + mark + 1, --c->out->len - mark);
    buf_byte(c->out, n == 1 ? 's' : 'u');
}

static void put_number(struct compiler *c)
{
    size_t n = strspn(c->at, "-+.e0123456789");
    bool is_float = memchr(c->at, '.', n), is_long = n > 18;
    buf_printf(c->out, "%c%.*s%s\n", is_float ? 'F' : is_long ? 'L' : 'I', (int)n, c->at, is_long ? "L" : "");
    c->at += n;
}

static void put_global(struct compiler *c)
{
    size_t n = 0, dot = 0;
    for (; isalnum((unsigned char)c->at[n]) || c->at[n] == '_' || c->at[n] == '.'; n++)
        dot = c->at[n] == '.' ? n : dot;
    if (!dot) {
        fprintf(stderr, "pickled: no module.name at: %.40s\n", c->at);
        abort();
    }
    buf_printf(c->out, "c%.*s\n%.*s\n", (int)dot, c->at, (int)(n - dot - 1), c->at + dot + 1);
    c->at += n;
}

/* put_memo - writes #N as BINGET, and #N=x or #N~x as the value x and BINPUT. The calls, states and items
 * after x come before BINPUT in #N=x, and after BINPUT in #N~x. */
static void put_memo(struct compiler *c)
{
    unsigned char slot = (unsigned char)strtoul(c->at, (char **)(uintptr_t)&c->at, 10);
    bool assigned = accept(c, "="), unfilled = accept(c, "~");
    if (assigned)
        put_value(c);
    else if (unfilled)
        put_operand(c);
    buf_byte(c->out, assigned || unfilled ? 'q' : 'h');
    buf_byte(c->out, slot);
}

static void put_operand(struct compiler *c)
{
    if (accept(c, "None"))
        buf_byte(c->out, 'N');
    else if (accept(c, "True"))
        buf_byte(c->out, 0x88);
    else if (accept(c, "False"))
        buf_byte(c->out, 0x89);
    else if (accept(c, "s'"))
        put_string(c, 'U', 1);
    else if (accept(c, "b'"))
        put_string(c, 'B', 4);
    else if (accept(c, "'"))
        put_string(c, 'X', 4);
    else if (accept(c, "["))
        put_items(c, "]", 'l');
    else if (accept(c, "("))
        put_items(c, ")", 't');
    else if (accept(c, "{"))
        put_items(c, "}", 'd');
    else if (accept(c, "<"))
        put_dict(c);
    else if (accept(c, "%"))
        buf_printf(c->out, "K%c", (char)strtoul(c->at, (char **)(uintptr_t)&c->at, 10));
    else if (accept(c, "#"))
        put_memo(c);
    else if (isdigit((unsigned char)*c->at) || *c->at == '-')
        put_number(c);
    else
        put_global(c);
}

static void put_value(struct compiler *c)
{
    bool has_caret = accept(c, "^"), is_pid = accept(c, "@"), is_newobj = accept(c, "new "),
         is_obj = accept(c, "obj ");
    if (is_obj)
        buf_byte(c->out, '(');
    bool in_brackets = strchr("([{", *c->at);
    if (has_caret)
        caret_offset = c->out->len - c->begin;
    put_operand(c);
    if (has_caret && in_brackets) /* the offset of the opcode that ends the items */
        caret_offset = c->out->len - 1 - c->begin;
    if (is_obj) {
        expect(c, "(");
        while (!accept(c, ")")) {
            put_value(c);
            (void)accept(c, ",");
        }
        buf_byte(c->out, 'o');
    }
    for (;; is_newobj = false) {
        if (accept(c, "(")) {
            put_items(c, ")", 't');
            if (has_caret)
                caret_offset = c->out->len - c->begin;
            buf_byte(c->out, is_newobj ? 0x81 : 'R');
        } else if (accept(c, "|")) {
            put_value(c);
            if (has_caret)
                caret_offset = c->out->len - c->begin;
            buf_byte(c->out, 'R');
        } else if (accept(c, "!")) {
            put_operand(c);
            buf_byte(c->out, 'b');
        } else if (accept(c, "+[")) {
            put_items(c, "]", 'e');
        } else if (accept(c, "+{")) {
            put_items(c, "}", 'u');
        } else {
            break;
        }
    }
    if (!is_pid)
        return;
    if (has_caret)
        caret_offset = c->out->len - c->begin;
    buf_byte(c->out, 'Q');
}

void put_pickle(buf *b, const char *text)
{
    struct compiler c = {b, b->len, text};
    caret_offset = 0;
    buf_put_cstr(b, "\x80\x02");
    put_value(&c);
    (void)accept(&c, ""); /* skips blanks */
    if (*c.at) {
        fprintf(stderr, "pickled: syntax error at: %.40s\n", c.at);
        abort();
    }
    buf_byte(b, '.');
}

/* -------------------------------------------------------------------- files */

/* keep_file - writes the N bytes to a new file in the folder $KEEP_MADE, for tests/fail/each_call.sh. */
static void keep_file(const void *bytes, size_t n)
{
    static unsigned number;
    char path[300];
    snprintf(path, sizeof path, "%s/made-%04u", getenv("KEEP_MADE"), number++);
    FILE *f = fopen(path, "wb");
    CU_ASSERT_FATAL(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

struct test_file open_bytes(const void *bytes, size_t n, const ckpt_limits *limits)
{
    struct test_file made = {.bytes = malloc(n + 1), .size = n};
    if (!made.bytes)
        abort();
    memcpy(made.bytes, bytes, n);
    made.status = ckpt_open_memory(made.bytes, n, "made", limits, &made.file, &made.err);
    if (made.status != CKPT_OK)
        made.file = NULL;
    else if (getenv("KEEP_MADE"))
        keep_file(bytes, n);
    return made;
}

void replace_in_file(struct test_file *made, const char *from, const char *to)
{
    size_t n = strlen(from);
    ckpt_close(made->file);
    made->file = NULL;
    for (size_t at = 0; at + n <= made->size; at++)
        if (memcmp(made->bytes + at, from, n) == 0)
            memcpy(made->bytes + at, to, n);
    struct test_file reopened = open_bytes(made->bytes, made->size, NULL);
    close_file(made);
    *made = reopened;
}

void close_file(struct test_file *made)
{
    ckpt_close(made->file);
    free(made->bytes);
}

struct test_file make_archive(const struct record *r, size_t n, const ckpt_limits *limits)
{
    sink *out;
    zip_writer *w;
    CU_ASSERT_EQUAL_FATAL(sink_mem(1 << 24, NULL, &out, NULL), CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(zip_writer_new(out, "archive", &w, NULL), CKPT_OK);
    for (size_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(zip_writer_write_member(w, r[i].name, str_of(r[i].bytes, r[i].size), NULL), CKPT_OK);
    CU_ASSERT_EQUAL(zip_writer_finish(w, NULL, NULL, NULL), CKPT_OK);
    zip_writer_free(w);
    ckpt_str view = sink_mem_view(out);
    struct test_file made = open_bytes(view.ptr, view.len, limits);
    sink_abort(out);
    return made;
}

struct test_file make_torch_zip_of(const char *text, bool big_endian, const ckpt_limits *limits)
{
    float four[] = {1, 2, 3, 4};
    const char *data = (const char *)four;
    buf b;
    unit_to_host_order(four, 4, 4);
    buf_init(&b, 1 << 20);
    put_pickle(&b, text);
    struct record r[] = {{"data.pkl", (char *)b.data, b.len},
                         {"byteorder", big_endian ? "big" : "little", big_endian ? 3 : 6},
                         {"data/0", data, 16},
                         {"data/1", data, 16},
                         {"data/2", data, 16},
                         {"version", "3\n", 2}};
    struct test_file made = make_archive(r, sizeof r / sizeof *r, limits);
    buf_free(&b);
    return made;
}

struct test_file make_torch_zip(const char *text) { return make_torch_zip_of(text, false, NULL); }

struct test_file make_torch_legacy(const char *text, const char *keys, const void *storages, size_t n)
{
    buf b;
    buf_init(&b, 1 << 20);
    /* the pickles of torch's magic number and of its protocol version, 1001 */
    buf_put(&b, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.", 21);
    put_pickle(&b, "{'protocol_version':1001,'little_endian':True}");
    put_pickle(&b, text);
    put_pickle(&b, keys);
    buf_put(&b, storages, n);
    struct test_file made = open_bytes(b.data, b.len, NULL);
    buf_free(&b);
    return made;
}

struct test_file make_pickle(const char *text)
{
    buf b;
    buf_init(&b, 1 << 20);
    put_pickle(&b, text);
    struct test_file made = open_bytes(b.data, b.len, NULL);
    buf_free(&b);
    return made;
}

/* ------------------------------------------------------------------ tensors */

/* append_listing - appends T to B in the form that check_tensors compares. */
static void append_listing(buf *b, const ckpt_tensor *t)
{
    buf_printf(b, "%.*s %s %s", (int)t->name.len, t->name.ptr, ckpt_kind_name((ckpt_kind)t->kind),
               ckpt_tensor_dtype_name(t));
    for (uint32_t k = 0; t->has_shape && k < t->ndim; k++)
        buf_printf(b, "%s%llu", k ? "," : "[", (unsigned long long)t->shape[k]);
    buf_put_cstr(b, t->has_shape ? t->ndim ? "]" : "[]" : "");
    if (t->storage != CKPT_NO_STORAGE)
        buf_printf(b, "@%u+%llu", t->storage, (unsigned long long)t->storage_offset);
    buf_put_cstr(b, t->parameter ? " parameter" : "");
    buf_put_cstr(b, t->requires_grad ? " grad" : "");
    buf_put_cstr(b, t->conj ? " conj" : "");
    buf_put_cstr(b, t->neg ? " neg" : "");
    if (t->klass.len)
        buf_printf(b, " <%.*s>", (int)t->klass.len, t->klass.ptr);
    if (t->note.len)
        buf_printf(b, " (%.*s)", (int)t->note.len, t->note.ptr);
    buf_put_cstr(b, ";");
}

static void print_error(const struct test_file *made)
{
    char line[1600];
    if (!made->file)
        printf("  refused: %s\n", ckpt_error_text(&made->err, line, sizeof line));
}

void check_tensors(struct test_file *made, const char *want)
{
    buf b;
    print_error(made);
    CU_ASSERT_EQUAL(made->status, CKPT_OK);
    if (!made->file)
        return;
    buf_init(&b, 1 << 16);
    for (uint32_t i = 0; i < ckpt_tensor_count(made->file); i++) {
        ckpt_tensor t = CKPT_INIT(ckpt_tensor);
        CU_ASSERT_FATAL(ckpt_tensor_at(made->file, i, &t));
        append_listing(&b, &t);
    }
    buf_byte(&b, 0);
    CU_ASSERT_STRING_EQUAL((char *)b.data, want);
    if (strcmp((char *)b.data, want) != 0)
        printf("  tensors: %s\n", (char *)b.data);
    buf_free(&b);
}

void check_numbers(ckpt_file *f, const char *name, const char *want)
{
    float numbers[16];
    char text[256] = "";
    ckpt_error err = {0};
    uint32_t row = ckpt_tensor_find(f, (ckpt_str){name, strlen(name)});
    CU_ASSERT_NOT_EQUAL_FATAL(row, CKPT_NO_TENSOR);
    size_t n = (size_t)tensor_at(f, row).elements;
    CU_ASSERT_FATAL(n <= 16);
    CU_ASSERT_EQUAL(ckpt_tensor_read(f, row, 0, n, numbers, &err), CKPT_OK);
    unit_to_host_order(numbers, n, 4);
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), 16, "%g ", (double)numbers[i]);
    CU_ASSERT_STRING_EQUAL(text, want);
    if (strcmp(text, want) != 0)
        printf("\n    %s holds %s but must hold %s %s\n", name, text, want, err.what);
}

void check_opens(const char *text, const char *want)
{
    struct test_file made = make_torch_zip(text);
    check_tensors(&made, want);
    close_file(&made);
}

void check_refused(const char *text, ckpt_status want, const char *words)
{
    struct test_file made = make_torch_zip(text);
    const bool as_expected = made.status == want && strstr(made.err.what, words) &&
                             made.err.offset == PICKLE_OFFSET + caret_offset;
    CU_ASSERT(as_expected);
    if (!as_expected) {
        printf("  pickle %s\n  must be refused at %zu: ", text, PICKLE_OFFSET + caret_offset);
        print_error(&made);
        if (made.file)
            check_tensors(&made, words);
    }
    close_file(&made);
}

void check_damaged_json(const char *json, size_t size,
                        struct test_file (*make)(const char *text, const ckpt_limits *limits))
{
    char *damaged = malloc(size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(damaged);
    for (size_t n = 1; n + 1 < size; n++) {
        memcpy(damaged, json, size);
        damaged[n] = 0;
        struct test_file made = make(damaged, NULL);
        CU_ASSERT(made.status == CKPT_ETRUNCATED && made.err.where[0] && made.err.offset < made.size);
        close_file(&made);
        memcpy(damaged, json, size);
        damaged[n] = '!';
        made = make(damaged, NULL);
        CU_ASSERT(made.status == CKPT_OK || made.status == CKPT_EFORMAT || made.status == CKPT_ETRUNCATED);
        close_file(&made);
    }
    free(damaged);
}
