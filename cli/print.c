#include "print.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct print print;

/* is_utf8_locale - returns true if LOCALE, "de_DE.UTF-8@euro" or "C.utf8", has the charset UTF-8. On macOS,
 * LC_CTYPE may be only "UTF-8". */
static bool is_utf8_locale(const char *locale)
{
    const char *dot = strchr(locale, '.'), *charset = dot ? dot + 1 : locale;
    size_t n = strcspn(charset, "@");
    return (n == 5 && strncasecmp(charset, "utf-8", n) == 0) ||
           (n == 4 && strncasecmp(charset, "utf8", n) == 0);
}

void print_init(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !(locale && *locale); i++)
        locale = getenv(names[i]);
    print.ascii = !locale || !is_utf8_locale(locale);
}

static const struct {
    const char *character, *ascii;
} glyph_list[] = {
#define GLYPH(character, ascii) {character, ascii},
#include "ascii.def"
#undef GLYPH
};

/* add_ascii_glyph - adds what stands for CHARACTER if that is one of the first COUNT of ascii.def, else
 * returns false. */
static bool add_ascii_glyph(struct text *text, ckpt_str character, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_is_equal(character, str_c(glyph_list[i].character))) {
            text_add(text, glyph_list[i].ascii);
            return true;
        }
    return false;
}

void text_make_ascii(struct text *text, size_t from, enum glyphs glyphs)
{
    static const size_t nglyphs[] = {[GLYPHS_LIBRARY] = 1,
                                     [GLYPHS_ALL] = sizeof glyph_list / sizeof *glyph_list};
    struct text old = {0};
    if (!print.ascii || text->len <= from || text_is_ascii(text->ptr + from, text->len - from))
        return;
    text_bytes(&old, text->ptr + from, text->len - from);
    text_cut(text, from);
    const ckpt_str s = {old.ptr, old.len};
    bool is_unsafe;
    for (size_t pos = 0, begin = 0; pos < s.len; begin = pos) {
        uint32_t c = ckpt_text_next(s, &pos, &is_unsafe);
        const ckpt_str character = {s.ptr + begin, pos - begin};
        if (c < 0x80)
            text_byte(text, (char)c);
        else if (c == UINT32_MAX)
            text_addf(text, "\\x%02x", (unsigned)(unsigned char)*character.ptr);
        else if (!add_ascii_glyph(text, character, nglyphs[glyphs]))
            text_addf(text, "\\u{%x}", (unsigned)c);
    }
    text_free(&old);
}

static bool is_exact(const FILE *stream) { return !print.ascii || (print.for_programs && stream == stdout); }

void put_bytes(FILE *stream, const char *text, size_t nbytes)
{
    struct text t = {0};
    if (is_exact(stream) || text_is_ascii(text, nbytes)) {
        fwrite(text, 1, nbytes, stream);
        return;
    }
    text_bytes(&t, text, nbytes);
    text_make_ascii(&t, 0, GLYPHS_ALL);
    fwrite(t.ptr, 1, t.len, stream);
    text_free(&t);
}

void put_text(FILE *stream, const char *text) { put_bytes(stream, text, strlen(text)); }

void print_text(FILE *stream, const char *fmt, ...)
{
    struct text t = {0};
    va_list ap;
    va_start(ap, fmt);
    if (is_exact(stream)) {
        vfprintf(stream, fmt, ap);
    } else {
        text_addv(&t, fmt, ap);
        put_bytes(stream, t.ptr ? t.ptr : "", t.len);
        text_free(&t);
    }
    va_end(ap);
}

void put_line(const char *text)
{
    put_text(stdout, text);
    put_text(stdout, "\n");
}
