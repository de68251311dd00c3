/* pickle_emit.c - see pickle_emit.h. */
#include "codec/pickle_emit.h"

#include <stdlib.h>

#include "base/cursor.h"
#include "base/store.h"
#include "codec/pickle_text.h"
#include "core/python2.h"

#define CHUNK 8192u

/* get_site_offset - returns the offset of SITE. Its high bits follow from first_sites. */
static size_t get_site_offset(const pickle_writer *writer, size_t site)
{
    size_t high = 0; /* stays 0 unless the pickle has more than 2 GiB */
    while (high < writer->nfirst_sites && writer->first_sites[high] <= site)
        high++;
    return high << 31 | writer->put_sites[site].low31;
}

/* take_two_lines - returns the first two lines of TEXT, with their line breaks. */
static ckpt_str take_two_lines(ckpt_str text)
{
    size_t first = str_find(text, STR_LIT("\n"), 0);
    return str_of(text.ptr, str_find(text, STR_LIT("\n"), first + 1) + 1);
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
static size_t get_site_end(const pickle_writer *writer, uint32_t site)
{
    if (writer->put_sites[site].is_end)
        return get_site_offset(writer, site);
    ckpt_str text = get_site_content(writer, site);
    return (size_t)(text.ptr - (const char *)writer->out->data) + text.len;
}

static void init_contents(pickle_writer *writer, struct put_contents *contents, size_t expected)
{
    contents->sites = map_new_index(expected, get_site_content, writer);
    memset(contents->recent, 0xff, sizeof contents->recent); /* MAP_NONE */
    if (!contents->sites)
        pickle_writer_fail_memory(writer);
}

bool pickle_writer_init(pickle_writer *writer)
{
    writer->nodes = map_new(64);
    writer->begin_counts = map_new(16);
    init_contents(writer, &writer->texts, 256);
    init_contents(writer, &writer->bytes, 16);
    init_contents(writer, &writer->globals, 16);
    buf_init(&writer->name, SIZE_MAX);
    if (!writer->nodes || !writer->begin_counts)
        pickle_writer_fail_memory(writer);
    return writer->status == CKPT_OK;
}

void pickle_writer_free(pickle_writer *writer)
{
    map_free(writer->nodes);
    map_free(writer->begin_counts);
    map_free(writer->texts.sites);
    map_free(writer->bytes.sites);
    map_free(writer->globals.sites);
    buf_free(&writer->name);
    free(writer->put_sites);
    free(writer->first_sites);
    free(writer->frames);
}

void pickle_writer_fail_memory(pickle_writer *writer)
{
    if (writer->status == CKPT_OK)
        writer->status = fail_memory(writer->err);
}

void pickle_put_op(pickle_writer *writer, enum pickle_opcode op) { buf_byte(writer->out, (unsigned char)op); }

/* put_op_and_number - writes the opcode SMALL and COUNT in one byte. If COUNT does not fit, writes LARGE and
 * COUNT in four bytes. */
static void put_op_and_number(pickle_writer *writer, enum pickle_opcode small, enum pickle_opcode large,
                              uint32_t count)
{
    pickle_put_op(writer, count < 256 ? small : large);
    if (count < 256)
        buf_byte(writer->out, (unsigned char)count);
    else
        buf_u32le(writer->out, count);
}

/* extend_first_sites - updates first_sites for the next site, which has OFFSET. False: out of memory. */
static bool extend_first_sites(pickle_writer *writer, size_t offset)
{
    while (writer->nfirst_sites < offset >> 31) {
        size_t *grown = realloc(writer->first_sites, (writer->nfirst_sites + 1) * sizeof *grown);
        if (!grown)
            return false;
        writer->first_sites = grown;
        grown[writer->nfirst_sites++] = writer->nput_sites;
    }
    return true;
}

/* add_put_site - adds a put site for the value just written, and returns its number. OFFSET is the end of the
 * value if IS_END, else the offset of the opcode of a text or global. */
static uint32_t add_put_site(pickle_writer *writer, size_t offset, bool is_end)
{
    struct put_site s = {.low31 = offset & 0x7FFFFFFF, .is_end = is_end, .memo = MAP_NONE};
    if (writer->nput_sites < MAP_NONE && extend_first_sites(writer, offset) &&
        ARENA_PUSH(NULL, writer, put_sites, &s))
        return (uint32_t)(writer->nput_sites - 1);
    pickle_writer_fail_memory(writer);
    return 0;
}

/* emit_get - writes GET for the value at SITE, and gives SITE a memo index if it has none. */
static void emit_get(pickle_writer *writer, uint32_t site)
{
    if (writer->status != CKPT_OK)
        return;
    struct put_site *s = &writer->put_sites[site];
    if (s->memo == MAP_NONE)
        s->memo = writer->nmemo++;
    put_op_and_number(writer, PICKLE_BINGET, PICKLE_LONG_BINGET, s->memo);
}

void add_put_site_after(pickle_writer *writer, const ckpt_value *value)
{
    if (!map_set_num(writer->nodes, ptr_key(value), add_put_site(writer, writer->out->len, true)))
        pickle_writer_fail_memory(writer);
}

bool emit_get_if_known(pickle_writer *writer, const ckpt_value *value)
{
    uint32_t site = map_get_num(writer->nodes, ptr_key(value));
    if (site != MAP_NONE)
        emit_get(writer, site);
    return site != MAP_NONE;
}

static uint32_t *get_recent_site(struct put_contents *contents, size_t length)
{
    return &contents->recent[length % (sizeof contents->recent / sizeof *contents->recent)];
}

/* emit_get_if_known_content - if the text or global KEY was written before, writes GET for it and returns
 * true. Else the caller must write it next and call add_put_site. */
static bool emit_get_if_known_content(pickle_writer *writer, struct put_contents *contents, ckpt_str key)
{
    uint32_t *recent = get_recent_site(contents, key.len), site = *recent;
    if (writer->status != CKPT_OK || !buf_ok(writer->out))
        return true; /* keys cannot be compared with the output: it may be incomplete */
    if (site == MAP_NONE || !str_eq(get_site_content(writer, site), key)) {
        if (!map_put(contents->sites, key, (uint32_t)writer->nput_sites, &site))
            pickle_writer_fail_memory(writer);
        if (site == MAP_NONE)
            return false;
        *recent = site;
    }
    emit_get(writer, site);
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

void pickle_writer_finish(pickle_writer *writer)
{
    static const unsigned char zeros[CHUNK];
    size_t puts_size = 0, end;
    pickle_put_op(writer, PICKLE_STOP);
    end = writer->out->len;
    for (size_t i = 0; i < writer->nput_sites; i++)
        puts_size += get_put_size(writer->put_sites[i].memo);
    for (size_t left = puts_size; left;) {
        size_t chunk_len = left < CHUNK ? left : CHUNK;
        buf_put(writer->out, zeros, chunk_len);
        left -= chunk_len;
    }
    if (!buf_ok(writer->out))
        return;
    /* From the last site to the first: the bytes after a site move once, by the size of all PUTs before
     * them. */
    for (size_t i = writer->nput_sites; puts_size && COUNT_DOWN(i);) {
        uint32_t index = writer->put_sites[i].memo;
        if (index == MAP_NONE)
            continue;
        size_t site_end = get_site_end(writer, (uint32_t)i);
        memmove(writer->out->data + site_end + puts_size, writer->out->data + site_end, end - site_end);
        puts_size -= get_put_size(index);
        store_put(writer->out->data + site_end + puts_size, index);
        end = site_end;
    }
}

void pickle_put_bool(pickle_writer *writer, bool flag)
{
    pickle_put_op(writer, flag ? PICKLE_NEWTRUE : PICKLE_NEWFALSE);
}

static void emit_long(pickle_writer *writer, const void *bytes, size_t nbytes)
{
    put_op_and_number(writer, PICKLE_LONG1, PICKLE_LONG4, (uint32_t)nbytes);
    buf_put(writer->out, bytes, nbytes);
}

/* emit_wide - writes as LONG1 the integer that has the low bytes NUMBER and the high byte SIGN (0 or ff). */
static void emit_wide(pickle_writer *writer, uint64_t number, unsigned char sign)
{
    unsigned char bytes[9];
    store_u64le(bytes, number);
    bytes[8] = sign;
    emit_long(writer, bytes, integer_trimmed_size(bytes, sizeof bytes));
}

void pickle_put_int(pickle_writer *writer, int64_t index)
{
    if (index >= 0 && index < 256 && !writer->widens_next_int) {
        pickle_put_op(writer, PICKLE_BININT1);
        buf_byte(writer->out, (unsigned char)index);
    } else if (index >= 0 && index < 65536) {
        pickle_put_op(writer, PICKLE_BININT2);
        buf_u16le(writer->out, (uint16_t)index);
        writer->widens_next_int = writer->widens_next_int && index >= 256;
    } else if (index >= INT32_MIN && index <= INT32_MAX) {
        pickle_put_op(writer, PICKLE_BININT);
        buf_u32le(writer->out, (uint32_t)(int32_t)index);
    } else {
        emit_wide(writer, (uint64_t)index, index < 0 ? 0xff : 0);
    }
}

void pickle_put_uint(pickle_writer *writer, uint64_t number)
{
    if (number <= INT64_MAX)
        pickle_put_int(writer, (int64_t)number);
    else
        emit_wide(writer, number, 0);
}

void emit_float(pickle_writer *writer, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    pickle_put_op(writer, PICKLE_BINFLOAT);
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_byte(writer->out, (unsigned char)(bits >> shift));
}

void emit_bigint(pickle_writer *writer, ckpt_str twos_complement)
{
    if (twos_complement.len > INT32_MAX)
        writer->status = fail(writer->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                              "an int of %zu bytes does not fit a pickle", twos_complement.len);
    else
        emit_long(writer, twos_complement.ptr,
                  integer_trimmed_size((const unsigned char *)twos_complement.ptr, twos_complement.len));
}

/* emit_text_header - writes OP and the length COUNT; false: COUNT does not fit OP. */
static bool emit_text_header(pickle_writer *writer, enum pickle_opcode op, uint64_t count)
{
    bool is_unicode = op == PICKLE_BINUNICODE;
    if (count > (is_unicode ? UINT32_MAX : INT32_MAX)) {
        writer->status = fail(writer->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                              "text of %llu bytes does not fit a pickle of protocol 2",
                              (unsigned long long)count);
        return false;
    }
    if (!is_unicode) {
        put_op_and_number(writer, PICKLE_SHORT_BINSTRING, op, (uint32_t)count);
        return true;
    }
    pickle_put_op(writer, op);
    buf_u32le(writer->out, (uint32_t)count);
    return true;
}

void emit_text(pickle_writer *writer, enum pickle_opcode op, ckpt_str text)
{
    struct put_contents *contents = op == PICKLE_BINUNICODE ? &writer->texts : &writer->bytes;
    size_t opcode_at = writer->out->len;
    if (emit_get_if_known_content(writer, contents, text) || !emit_text_header(writer, op, text.len))
        return;
    buf_put_str(writer->out, text);
    (void)add_put_site(writer, opcode_at, false);
}

void pickle_put_text(pickle_writer *writer, ckpt_str text) { emit_text(writer, PICKLE_BINUNICODE, text); }

/* translate_name - translates *MODULE and *NAME to the names that the pickle to be written must have.
 * IS_PYTHON3: they are names of Python 3, from a pickle of protocol 3 or later; else of Python 2. */
static void translate_name(pickle_writer *writer, ckpt_str *module, ckpt_str *name, bool is_python3)
{
    ckpt_str new_module = *module, new_name = *name;
    if (writer->hooks->has_literal_names == is_python3 || !python2_translate(&new_module, &new_name))
        return;
    if (is_python3)
        writer->status = fail(writer->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                              "protocol 2 cannot name '%.*s' of module '%.*s': it would be '%.*s' of '%.*s'",
                              STR_ARG(*name), STR_ARG(*module), STR_ARG(new_name), STR_ARG(new_module));
    *module = new_module;
    *name = new_name;
}

/* emit_get_if_recent_name - if the global of that length that was found last is MODULE NAME, neither of which
 * has a newline, writes GET for it and returns true. */
static bool emit_get_if_recent_name(pickle_writer *writer, ckpt_str module, ckpt_str name)
{
    size_t length = module.len + name.len + 2;
    uint32_t site = *get_recent_site(&writer->globals, length);
    if (site == MAP_NONE || writer->status != CKPT_OK || !buf_ok(writer->out))
        return false;
    size_t at = get_site_offset(writer, site) + 1;
    ckpt_str found = str_skip(buf_view(writer->out), at);
    if (found.len < length || !str_starts(found, module) || found.ptr[module.len] != '\n')
        return false;
    ckpt_str second = str_skip(found, module.len + 1);
    if (!str_starts(second, name) || second.ptr[name.len] != '\n')
        return false;
    emit_get(writer, site);
    return true;
}

/* emit_name - writes GLOBAL MODULE NAME, or a GET if it was written before. */
static void emit_name(pickle_writer *writer, ckpt_str module, ckpt_str name, bool is_python3)
{
    translate_name(writer, &module, &name, is_python3);
    bool has_newline = memchr(module.ptr, '\n', module.len) || memchr(name.ptr, '\n', name.len);
    if (has_newline || module.len == 0 || name.len == 0) {
        writer->status = fail(
            writer->err, CKPT_ELOSSY, CKPT_NO_OFFSET, "protocol 2 cannot name '%.*s' of module '%.*s': %s",
            STR_ARG(name), STR_ARG(module), has_newline ? "a newline is in it" : "one of the two is empty");
        return;
    }
    if (emit_get_if_recent_name(writer, module, name))
        return;
    writer->name.len = 0;
    buf_put_str(&writer->name, module);
    buf_byte(&writer->name, '\n');
    buf_put_str(&writer->name, name);
    buf_byte(&writer->name, '\n');
    if (!buf_ok(&writer->name)) {
        pickle_writer_fail_memory(writer);
    } else if (!emit_get_if_known_content(writer, &writer->globals, buf_view(&writer->name))) {
        size_t opcode_at = writer->out->len;
        pickle_put_op(writer, PICKLE_GLOBAL);
        buf_put_str(writer->out, buf_view(&writer->name));
        (void)add_put_site(writer, opcode_at, false);
    }
}

void pickle_put_global(pickle_writer *writer, ckpt_str module, ckpt_str name)
{
    emit_name(writer, module, name, false);
}

/* Protocol 2 cannot look up dotted names: A.B.C is written as getattr(getattr(A, 'B'), 'C'), as by
 * CPython. */
void pickle_put_name(pickle_writer *writer, const ckpt_value *global)
{
    ckpt_str module = value_module(global), name = value_name(global);
    bool is_python3 = global->flags & VALUE_PYTHON3_NAME;
    size_t dot = global->flags & VALUE_DOTTED ? str_find(name, STR_LIT("."), 0) : SIZE_MAX;
    if (dot == SIZE_MAX) {
        emit_name(writer, module, name, is_python3);
        return;
    }
    for (size_t i = dot; i != SIZE_MAX; i = str_find(name, STR_LIT("."), i + 1))
        emit_name(writer, STR_LIT("__builtin__"), STR_LIT("getattr"), false);
    emit_name(writer, module, str_of(name.ptr, dot), is_python3);
    while (dot != SIZE_MAX) {
        ckpt_str after_dot = str_skip(name, dot + 1);
        size_t next = str_find(after_dot, STR_LIT("."), 0);
        emit_text(writer, PICKLE_BINUNICODE, next == SIZE_MAX ? after_dot : str_of(after_dot.ptr, next));
        pickle_put_op(writer, PICKLE_TUPLE2);
        pickle_put_op(writer, PICKLE_REDUCE);
        name = after_dot;
        dot = next;
    }
}

static void emit_chars(pickle_writer *writer, const unsigned char *bytes, size_t nbytes)
{
    buf_put(writer->out, bytes, nbytes);
}

/* emit_span_by - passes the bytes of SPAN to EMIT, in chunks. */
static void emit_span_by(pickle_writer *writer, const struct value_span *span,
                         void (*emit)(pickle_writer *writer, const unsigned char *bytes, size_t n))
{
    unsigned char chunk[CHUNK];
    for (uint64_t done = 0; done < span->nbytes && writer->status == CKPT_OK && buf_ok(writer->out);) {
        size_t chunk_len = span->nbytes - done < CHUNK ? (size_t)(span->nbytes - done) : CHUNK;
        writer->status = source_read(span->src, span->off + done, chunk, chunk_len, writer->err);
        if (writer->status == CKPT_OK)
            emit(writer, chunk, chunk_len);
        done += chunk_len;
    }
}

void emit_span(pickle_writer *writer, enum pickle_opcode op, const struct value_span *span)
{
    if (emit_text_header(writer, op, span->nbytes))
        emit_span_by(writer, span, emit_chars);
}

/* emit_latin1_chars - writes the NBYTES BYTES as UTF-8 text of code points U+0000..U+00FF. */
static void emit_latin1_chars(pickle_writer *writer, const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        size_t run = i;
        while (run < nbytes && bytes[run] < 0x80)
            run++;
        buf_put(writer->out, bytes + i, run - i);
        i = run;
        if (i < nbytes) {
            buf_byte(writer->out, (unsigned char)(0xc0 | bytes[i] >> 6));
            buf_byte(writer->out, (unsigned char)(0x80 | (bytes[i] & 0x3f)));
        }
    }
}

/* replace_text_by_get - if the text just written is equal to an earlier text, puts a GET in its place. The
 * opcode of the text is at OPCODE_AT, its content at BEGIN. */
static void replace_text_by_get(pickle_writer *writer, size_t opcode_at, size_t begin)
{
    if (writer->status != CKPT_OK || !buf_ok(writer->out))
        return;
    ckpt_str text = str_of((const char *)writer->out->data + begin, writer->out->len - begin);
    uint32_t site = map_get(writer->texts.sites, text);
    if (site != MAP_NONE) {
        writer->out->len = opcode_at;
        emit_get(writer, site);
    } else if (!map_put(writer->texts.sites, text, add_put_site(writer, opcode_at, false), NULL)) {
        pickle_writer_fail_memory(writer);
    }
}

/* emit_latin1_text - writes the bytes of VALUE as a text of code points U+0000..U+00FF. */
static void emit_latin1_text(pickle_writer *writer, const ckpt_value *value)
{
    const struct value_span *s = value->flags & VALUE_SPAN ? value->u.span : NULL;
    size_t opcode_at = writer->out->len;
    (void)emit_text_header(writer, PICKLE_BINUNICODE, 0); /* the length is set at the end */
    size_t begin = writer->out->len;
    if (s)
        emit_span_by(writer, s, emit_latin1_chars);
    else
        emit_latin1_chars(writer, (const unsigned char *)value->u.str.ptr, value->u.str.len);
    uint64_t n = writer->out->len - begin;
    if (writer->status != CKPT_OK || !buf_ok(writer->out))
        return;
    if (n > UINT32_MAX)
        writer->status = fail(writer->err, CKPT_ELOSSY, CKPT_NO_OFFSET,
                              "%llu bytes do not fit a pickle of protocol 2", (unsigned long long)n);
    else
        store_u32le(writer->out->data + begin - 4, (uint32_t)n);
    if (!s)
        replace_text_by_get(writer, opcode_at, begin);
}

/* emit_bytes - writes the call _codecs.encode(text, 'latin1'), and bytearray() around it if VALUE is one.
 * CPython writes empty bytes as builtins.bytes(), but torch's weights_only unpickler refuses that. */
void emit_bytes(pickle_writer *writer, const ckpt_value *value)
{
    bool is_bytearray = value->type == CKPT_V_BYTEARRAY;
    bool is_empty = !(value->flags & VALUE_SPAN) && value->u.str.len == 0;
    if (is_bytearray)
        emit_name(writer, STR_LIT("__builtin__"), STR_LIT("bytearray"), false);
    if (is_bytearray && is_empty) {
        pickle_put_op(writer, PICKLE_EMPTY_TUPLE);
    } else {
        emit_name(writer, STR_LIT("_codecs"), STR_LIT("encode"), false);
        emit_latin1_text(writer, value);
        emit_text(writer, PICKLE_BINUNICODE, STR_LIT("latin1"));
        pickle_put_op(writer, PICKLE_TUPLE2);
    }
    if (is_bytearray && !is_empty) {
        pickle_put_op(writer, PICKLE_REDUCE);
        pickle_put_op(writer, PICKLE_TUPLE1);
    }
    pickle_put_op(writer, PICKLE_REDUCE);
}
