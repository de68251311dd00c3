/* pickle_emit.c - see pickle_emit.h. */
#include "codec/pickle_emit.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/cursor.h"
#include "base/store.h"
#include "codec/pickle_text.h"
#include "core/python2.h"

#define CHUNK 8192u

/* get_site_offset - returns the offset of SITE. Its high bits follow from first_sites. */
static size_t get_site_offset(const pickle_writer *w, size_t site)
{
    size_t high = 0; /* stays 0 unless the pickle has more than 2 GiB */
    while (high < w->nfirst_sites && w->first_sites[high] <= site)
        high++;
    return high << 31 | w->put_sites[site].low31;
}

/* take_two_lines - returns the first two lines of S, with their line breaks. */
static ckpt_str take_two_lines(ckpt_str s)
{
    size_t first = str_find(s, STR_LIT("\n"), 0);
    return str_of(s.ptr, str_find(s, STR_LIT("\n"), first + 1) + 1);
}

/* get_site_content - returns the content of the text at SITE, or both lines of the global. */
static ckpt_str get_site_content(const void *user, uint32_t site)
{
    const pickle_writer *w = user;
    ckpt_str s = str_skip(buf_view(w->out), get_site_offset(w, site));
    const unsigned char *p = (const unsigned char *)s.ptr;
    switch (p[0]) { /* the writer has written the opcode and all of its argument */
    case PICKLE_GLOBAL: return take_two_lines(str_skip(s, 1));
    case PICKLE_SHORT_BINSTRING: return str_of(s.ptr + 2, p[1]);
    default: return str_of(s.ptr + 5, load_u32le(p + 1)); /* BINUNICODE or BINSTRING */
    }
}

/* get_site_end - returns the offset after the value at SITE. */
static size_t get_site_end(const pickle_writer *w, uint32_t site)
{
    if (w->put_sites[site].is_end)
        return get_site_offset(w, site);
    ckpt_str text = get_site_content(w, site);
    return (size_t)(text.ptr - (const char *)w->out->data) + text.len;
}

static void init_contents(pickle_writer *w, struct put_contents *c, size_t expected)
{
    c->sites = map_new_index(expected, get_site_content, w);
    memset(c->recent, 0xff, sizeof c->recent); /* MAP_NONE */
    if (!c->sites)
        pickle_writer_fail_memory(w);
}

bool pickle_writer_init(pickle_writer *w)
{
    w->nodes = map_new(64);
    w->begin_counts = map_new(16);
    init_contents(w, &w->texts, 256);
    init_contents(w, &w->bytes, 16);
    init_contents(w, &w->globals, 16);
    buf_init(&w->name, SIZE_MAX);
    if (!w->nodes || !w->begin_counts)
        pickle_writer_fail_memory(w);
    return w->status == CKPT_OK;
}

void pickle_writer_free(pickle_writer *w)
{
    map_free(w->nodes);
    map_free(w->begin_counts);
    map_free(w->texts.sites);
    map_free(w->bytes.sites);
    map_free(w->globals.sites);
    buf_free(&w->name);
    free(w->put_sites);
    free(w->first_sites);
    free(w->frames);
}

void pickle_writer_fail_memory(pickle_writer *w)
{
    if (w->status == CKPT_OK)
        w->status = fail_memory(w->err);
}

void pickle_put_op(pickle_writer *w, enum pickle_opcode op) { buf_byte(w->out, (unsigned char)op); }

/* put_op_and_number - writes the opcode SMALL and N in one byte. If N does not fit, writes LARGE and N in
 * four bytes. */
static void put_op_and_number(pickle_writer *w, enum pickle_opcode small, enum pickle_opcode large,
                              uint32_t n)
{
    pickle_put_op(w, n < 256 ? small : large);
    if (n < 256)
        buf_byte(w->out, (unsigned char)n);
    else
        buf_u32le(w->out, n);
}

/* extend_first_sites - updates first_sites for the next site, which has OFFSET. False: out of memory. */
static bool extend_first_sites(pickle_writer *w, size_t offset)
{
    while (w->nfirst_sites < offset >> 31) {
        size_t *grown = realloc(w->first_sites, (w->nfirst_sites + 1) * sizeof *grown);
        if (!grown)
            return false;
        w->first_sites = grown;
        grown[w->nfirst_sites++] = w->nput_sites;
    }
    return true;
}

/* add_put_site - adds a put site for the value just written, and returns its number. OFFSET is the end of the
 * value if IS_END, else the offset of the opcode of a text or global. */
static uint32_t add_put_site(pickle_writer *w, size_t offset, bool is_end)
{
    struct put_site s = {.low31 = offset & 0x7FFFFFFF, .is_end = is_end, .memo = MAP_NONE};
    if (w->nput_sites < MAP_NONE && extend_first_sites(w, offset) && ARENA_PUSH(NULL, w, put_sites, &s))
        return (uint32_t)(w->nput_sites - 1);
    pickle_writer_fail_memory(w);
    return 0;
}

/* emit_get - writes GET for the value at SITE, and gives SITE a memo index if it has none. */
static void emit_get(pickle_writer *w, uint32_t site)
{
    if (w->status != CKPT_OK)
        return;
    struct put_site *s = &w->put_sites[site];
    if (s->memo == MAP_NONE)
        s->memo = w->nmemo++;
    put_op_and_number(w, PICKLE_BINGET, PICKLE_LONG_BINGET, s->memo);
}

void add_put_site_after(pickle_writer *w, const ckpt_value *v)
{
    if (!map_set_num(w->nodes, ptr_key(v), add_put_site(w, w->out->len, true)))
        pickle_writer_fail_memory(w);
}

bool emit_get_if_known(pickle_writer *w, const ckpt_value *v)
{
    uint32_t site = map_get_num(w->nodes, ptr_key(v));
    if (site != MAP_NONE)
        emit_get(w, site);
    return site != MAP_NONE;
}

static uint32_t *get_recent_site(struct put_contents *c, size_t length)
{
    return &c->recent[length % (sizeof c->recent / sizeof *c->recent)];
}

/* emit_get_if_known_content - if the text or global KEY was written before, writes GET for it and returns
 * true. Else the caller must write it next and call add_put_site. */
static bool emit_get_if_known_content(pickle_writer *w, struct put_contents *c, ckpt_str key)
{
    uint32_t *recent = get_recent_site(c, key.len), site = *recent;
    if (w->status != CKPT_OK || !buf_ok(w->out))
        return true; /* keys cannot be compared with the output: it may be incomplete */
    if (site == MAP_NONE || !str_eq(get_site_content(w, site), key)) {
        if (!map_put(c->sites, key, (uint32_t)w->nput_sites, &site))
            pickle_writer_fail_memory(w);
        if (site == MAP_NONE)
            return false;
        *recent = site;
    }
    emit_get(w, site);
    return true;
}

/* get_put_size - returns the size of a PUT with memo INDEX; 0 if INDEX is MAP_NONE: no PUT. */
static size_t get_put_size(uint32_t index) { return index == MAP_NONE ? 0 : index < 256 ? 2 : 5; }

static void store_put(unsigned char *bytes, uint32_t index)
{
    bool is_small = index < 256;
    bytes[0] = is_small ? PICKLE_BINPUT : PICKLE_LONG_BINPUT;
    for (size_t i = 0; i < (is_small ? 1u : 4u); i++, index >>= 8)
        bytes[1 + i] = (unsigned char)index;
}

void pickle_writer_finish(pickle_writer *w)
{
    static const unsigned char zeros[CHUNK];
    size_t puts_size = 0, end;
    pickle_put_op(w, PICKLE_STOP);
    end = w->out->len;
    for (size_t i = 0; i < w->nput_sites; i++)
        puts_size += get_put_size(w->put_sites[i].memo);
    for (size_t left = puts_size; left;) {
        size_t chunk_len = left < CHUNK ? left : CHUNK;
        buf_put(w->out, zeros, chunk_len);
        left -= chunk_len;
    }
    if (!buf_ok(w->out))
        return;
    /* From the last site to the first: the bytes after a site move once, by the size of all PUTs before
     * them. */
    for (size_t i = w->nput_sites; puts_size && COUNT_DOWN(i);) {
        uint32_t index = w->put_sites[i].memo;
        if (index == MAP_NONE)
            continue;
        size_t site_end = get_site_end(w, (uint32_t)i);
        memmove(w->out->data + site_end + puts_size, w->out->data + site_end, end - site_end);
        puts_size -= get_put_size(index);
        store_put(w->out->data + site_end + puts_size, index);
        end = site_end;
    }
}

void pickle_put_bool(pickle_writer *w, bool b) { pickle_put_op(w, b ? PICKLE_NEWTRUE : PICKLE_NEWFALSE); }

static void emit_long(pickle_writer *w, const void *bytes, size_t n)
{
    put_op_and_number(w, PICKLE_LONG1, PICKLE_LONG4, (uint32_t)n);
    buf_put(w->out, bytes, n);
}

/* emit_wide - writes as LONG1 the integer that has the low bytes U and the high byte SIGN (0 or ff). */
static void emit_wide(pickle_writer *w, uint64_t u, unsigned char sign)
{
    unsigned char bytes[9];
    store_u64le(bytes, u);
    bytes[8] = sign;
    emit_long(w, bytes, integer_trimmed_size(bytes, sizeof bytes));
}

void pickle_put_int(pickle_writer *w, int64_t i)
{
    if (i >= 0 && i < 256 && !w->widens_next_int) {
        pickle_put_op(w, PICKLE_BININT1);
        buf_byte(w->out, (unsigned char)i);
    } else if (i >= 0 && i < 65536) {
        pickle_put_op(w, PICKLE_BININT2);
        buf_u16le(w->out, (uint16_t)i);
        w->widens_next_int = w->widens_next_int && i >= 256;
    } else if (i >= INT32_MIN && i <= INT32_MAX) {
        pickle_put_op(w, PICKLE_BININT);
        buf_u32le(w->out, (uint32_t)(int32_t)i);
    } else {
        emit_wide(w, (uint64_t)i, i < 0 ? 0xff : 0);
    }
}

void pickle_put_uint(pickle_writer *w, uint64_t u)
{
    if (u <= INT64_MAX)
        pickle_put_int(w, (int64_t)u);
    else
        emit_wide(w, u, 0);
}

void emit_float(pickle_writer *w, double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    pickle_put_op(w, PICKLE_BINFLOAT);
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_byte(w->out, (unsigned char)(bits >> shift));
}

void emit_bigint(pickle_writer *w, ckpt_str s)
{
    if (s.len > INT32_MAX)
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET, "an int of %zu bytes does not fit a pickle",
                         s.len);
    else
        emit_long(w, s.ptr, integer_trimmed_size((const unsigned char *)s.ptr, s.len));
}

/* emit_text_header - writes OP and the length N; false: N does not fit OP. */
static bool emit_text_header(pickle_writer *w, enum pickle_opcode op, uint64_t n)
{
    bool is_unicode = op == PICKLE_BINUNICODE;
    if (n > (is_unicode ? UINT32_MAX : INT32_MAX)) {
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                         "text of %llu bytes does not fit a pickle of protocol 2", (unsigned long long)n);
        return false;
    }
    if (!is_unicode) {
        put_op_and_number(w, PICKLE_SHORT_BINSTRING, op, (uint32_t)n);
        return true;
    }
    pickle_put_op(w, op);
    buf_u32le(w->out, (uint32_t)n);
    return true;
}

void emit_text(pickle_writer *w, enum pickle_opcode op, ckpt_str s)
{
    struct put_contents *contents = op == PICKLE_BINUNICODE ? &w->texts : &w->bytes;
    size_t opcode_at = w->out->len;
    if (emit_get_if_known_content(w, contents, s) || !emit_text_header(w, op, s.len))
        return;
    buf_put_str(w->out, s);
    (void)add_put_site(w, opcode_at, false);
}

void pickle_put_text(pickle_writer *w, ckpt_str s) { emit_text(w, PICKLE_BINUNICODE, s); }

/* translate_name - translates *MODULE and *NAME to the names that the pickle to be written must have.
 * IS_PYTHON3: they are names of Python 3, from a pickle of protocol 3 or later; else of Python 2. */
static void translate_name(pickle_writer *w, ckpt_str *module, ckpt_str *name, bool is_python3)
{
    ckpt_str new_module = *module, new_name = *name;
    if (w->hooks->has_literal_names == is_python3 || !python2_translate(&new_module, &new_name))
        return;
    if (is_python3)
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                         "protocol 2 cannot name '%.*s' of module '%.*s': it would be '%.*s' of '%.*s'",
                         STR_ARG(*name), STR_ARG(*module), STR_ARG(new_name), STR_ARG(new_module));
    *module = new_module;
    *name = new_name;
}

/* emit_get_if_recent_name - if the global of that length that was found last is MODULE NAME, neither of which
 * has a newline, writes GET for it and returns true. */
static bool emit_get_if_recent_name(pickle_writer *w, ckpt_str module, ckpt_str name)
{
    size_t length = module.len + name.len + 2;
    uint32_t site = *get_recent_site(&w->globals, length);
    if (site == MAP_NONE || w->status != CKPT_OK || !buf_ok(w->out))
        return false;
    size_t at = get_site_offset(w, site) + 1;
    ckpt_str found = str_skip(buf_view(w->out), at);
    if (found.len < length || !str_starts(found, module) || found.ptr[module.len] != '\n')
        return false;
    ckpt_str second = str_skip(found, module.len + 1);
    if (!str_starts(second, name) || second.ptr[name.len] != '\n')
        return false;
    emit_get(w, site);
    return true;
}

/* emit_name - writes GLOBAL MODULE NAME, or a GET if it was written before. */
static void emit_name(pickle_writer *w, ckpt_str module, ckpt_str name, bool is_python3)
{
    translate_name(w, &module, &name, is_python3);
    bool has_newline = memchr(module.ptr, '\n', module.len) || memchr(name.ptr, '\n', name.len);
    if (has_newline || module.len == 0 || name.len == 0) {
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                         "protocol 2 cannot name '%.*s' of module '%.*s': %s", STR_ARG(name), STR_ARG(module),
                         has_newline ? "a newline is in it" : "one of the two is empty");
        return;
    }
    if (emit_get_if_recent_name(w, module, name))
        return;
    w->name.len = 0;
    buf_put_str(&w->name, module);
    buf_byte(&w->name, '\n');
    buf_put_str(&w->name, name);
    buf_byte(&w->name, '\n');
    if (!buf_ok(&w->name)) {
        pickle_writer_fail_memory(w);
    } else if (!emit_get_if_known_content(w, &w->globals, buf_view(&w->name))) {
        size_t opcode_at = w->out->len;
        pickle_put_op(w, PICKLE_GLOBAL);
        buf_put_str(w->out, buf_view(&w->name));
        (void)add_put_site(w, opcode_at, false);
    }
}

void pickle_put_global(pickle_writer *w, ckpt_str module, ckpt_str name)
{
    emit_name(w, module, name, false);
}

/* Protocol 2 cannot look up dotted names: A.B.C is written as getattr(getattr(A, 'B'), 'C'), as by
 * CPython. */
void pickle_put_name(pickle_writer *w, const ckpt_value *v)
{
    ckpt_str module = value_module(v), name = value_name(v);
    bool is_python3 = v->flags & VALUE_PYTHON3_NAME;
    size_t dot = v->flags & VALUE_DOTTED ? str_find(name, STR_LIT("."), 0) : SIZE_MAX;
    if (dot == SIZE_MAX) {
        emit_name(w, module, name, is_python3);
        return;
    }
    for (size_t i = dot; i != SIZE_MAX; i = str_find(name, STR_LIT("."), i + 1))
        emit_name(w, STR_LIT("__builtin__"), STR_LIT("getattr"), false);
    emit_name(w, module, str_of(name.ptr, dot), is_python3);
    while (dot != SIZE_MAX) {
        ckpt_str after_dot = str_skip(name, dot + 1);
        size_t next = str_find(after_dot, STR_LIT("."), 0);
        emit_text(w, PICKLE_BINUNICODE, next == SIZE_MAX ? after_dot : str_of(after_dot.ptr, next));
        pickle_put_op(w, PICKLE_TUPLE2);
        pickle_put_op(w, PICKLE_REDUCE);
        name = after_dot;
        dot = next;
    }
}

static void emit_chars(pickle_writer *w, const unsigned char *bytes, size_t n) { buf_put(w->out, bytes, n); }

/* emit_span_by - passes the bytes of S to EMIT, in chunks. */
static void emit_span_by(pickle_writer *w, const struct value_span *s,
                         void (*emit)(pickle_writer *w, const unsigned char *bytes, size_t n))
{
    unsigned char chunk[CHUNK];
    for (uint64_t done = 0; done < s->nbytes && w->status == CKPT_OK && buf_ok(w->out);) {
        size_t chunk_len = s->nbytes - done < CHUNK ? (size_t)(s->nbytes - done) : CHUNK;
        w->status = source_read(s->src, s->off + done, chunk, chunk_len, w->err);
        if (w->status == CKPT_OK)
            emit(w, chunk, chunk_len);
        done += chunk_len;
    }
}

void emit_span(pickle_writer *w, enum pickle_opcode op, const struct value_span *s)
{
    if (emit_text_header(w, op, s->nbytes))
        emit_span_by(w, s, emit_chars);
}

/* emit_latin1_chars - writes the N BYTES as UTF-8 text of code points U+0000..U+00FF. */
static void emit_latin1_chars(pickle_writer *w, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t run = i;
        while (run < n && bytes[run] < 0x80)
            run++;
        buf_put(w->out, bytes + i, run - i);
        i = run;
        if (i < n) {
            buf_byte(w->out, (unsigned char)(0xc0 | bytes[i] >> 6));
            buf_byte(w->out, (unsigned char)(0x80 | (bytes[i] & 0x3f)));
        }
    }
}

/* replace_text_by_get - if the text just written is equal to an earlier text, puts a GET in its place. The
 * opcode of the text is at OPCODE_AT, its content at BEGIN. */
static void replace_text_by_get(pickle_writer *w, size_t opcode_at, size_t begin)
{
    if (w->status != CKPT_OK || !buf_ok(w->out))
        return;
    ckpt_str text = str_of((const char *)w->out->data + begin, w->out->len - begin);
    uint32_t site = map_get(w->texts.sites, text);
    if (site != MAP_NONE) {
        w->out->len = opcode_at;
        emit_get(w, site);
    } else if (!map_put(w->texts.sites, text, add_put_site(w, opcode_at, false), NULL)) {
        pickle_writer_fail_memory(w);
    }
}

/* emit_latin1_text - writes the bytes of V as a text of code points U+0000..U+00FF. */
static void emit_latin1_text(pickle_writer *w, const ckpt_value *v)
{
    const struct value_span *s = v->flags & VALUE_SPAN ? v->u.span : NULL;
    size_t opcode_at = w->out->len;
    (void)emit_text_header(w, PICKLE_BINUNICODE, 0); /* the length is set at the end */
    size_t begin = w->out->len;
    if (s)
        emit_span_by(w, s, emit_latin1_chars);
    else
        emit_latin1_chars(w, (const unsigned char *)v->u.str.ptr, v->u.str.len);
    uint64_t n = w->out->len - begin;
    if (w->status != CKPT_OK || !buf_ok(w->out))
        return;
    if (n > UINT32_MAX)
        w->status = fail(w->err, CKPT_ELOSSY, CKPT_NO_OFFSET, "%llu bytes do not fit a pickle of protocol 2",
                         (unsigned long long)n);
    else
        store_u32le(w->out->data + begin - 4, (uint32_t)n);
    if (!s)
        replace_text_by_get(w, opcode_at, begin);
}

/* emit_bytes - writes the call _codecs.encode(text, 'latin1'), and bytearray() around it if V is one. CPython
 * writes empty bytes as builtins.bytes(), but torch's weights_only unpickler refuses that. */
void emit_bytes(pickle_writer *w, const ckpt_value *v)
{
    bool is_bytearray = v->type == CKPT_V_BYTEARRAY;
    bool is_empty = !(v->flags & VALUE_SPAN) && v->u.str.len == 0;
    if (is_bytearray)
        emit_name(w, STR_LIT("__builtin__"), STR_LIT("bytearray"), false);
    if (is_bytearray && is_empty) {
        pickle_put_op(w, PICKLE_EMPTY_TUPLE);
    } else {
        emit_name(w, STR_LIT("_codecs"), STR_LIT("encode"), false);
        emit_latin1_text(w, v);
        emit_text(w, PICKLE_BINUNICODE, STR_LIT("latin1"));
        pickle_put_op(w, PICKLE_TUPLE2);
    }
    if (is_bytearray && !is_empty) {
        pickle_put_op(w, PICKLE_REDUCE);
        pickle_put_op(w, PICKLE_TUPLE1);
    }
    pickle_put_op(w, PICKLE_REDUCE);
}
