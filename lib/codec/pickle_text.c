/* pickle_text.c - see pickle_text.h. What CPython's own unpicklers disagree on
 * (octal 010, more digits than int() takes) is refused here. */
#include "codec/pickle_text.h"

#include <locale.h>
#include <stdlib.h>

#include "base/utf8.h"

#define MAX_DECIMAL 4300u /* sys.int_info.default_max_str_digits */
#define MAX_LIMBS   (MAX_DECIMAL / 9 + 2)

static bool space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static ckpt_str trim(ckpt_str s)
{
    while (s.len && space(s.ptr[0]))
        s = str_skip(s, 1);
    while (s.len && space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static unsigned digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 99;
}

static bool all_digits(ckpt_str s, unsigned base)
{
    for (size_t i = 0; i < s.len; i++)
        if (digit(s.ptr[i]) >= base)
            return false;
    return s.len > 0;
}

/* A number taken apart; base 10, 16, 8 or 2 (then BITS is 4, 3 or 1). */
struct number {
    bool negative;
    unsigned base, bits;
    ckpt_str digits;
};

static bool number_split(ckpt_str line, struct number *n)
{
    ckpt_str s = trim(line);
    *n = (struct number){.negative = s.len && s.ptr[0] == '-', .base = 10};
    if (s.len && (s.ptr[0] == '-' || s.ptr[0] == '+'))
        s = str_skip(s, 1);
    char mark = s.len > 2 && s.ptr[0] == '0' ? (char)(s.ptr[1] | 0x20) : 0;
    n->bits = mark == 'x' ? 4 : mark == 'o' ? 3 : mark == 'b' ? 1 : 0;
    if (n->bits) {
        n->base = 1u << n->bits;
        s = str_skip(s, 2);
    }
    bool zero = s.len && s.ptr[0] == '0';
    while (s.len > 1 && s.ptr[0] == '0')
        s = str_skip(s, 1);
    if (zero && n->base == 10 && !(s.len == 1 && s.ptr[0] == '0'))
        return false;
    n->digits = s;
    return all_digits(s, n->base);
}

bool text_int(ckpt_str line, int64_t *out)
{
    struct number n;
    int64_t v = 0;
    if (!number_split(line, &n))
        return false;
    for (size_t i = 0; i < n.digits.len; i++) {
        int64_t d = digit(n.digits.ptr[i]);
        d = n.negative ? -d : d;
        if (__builtin_mul_overflow(v, (int64_t)n.base, &v) || __builtin_add_overflow(v, d, &v))
            return false;
    }
    *out = v;
    return true;
}

/* decimal_bytes - DIGITS into OUT, little-endian, unsigned: how many bytes. */
static size_t decimal_bytes(ckpt_str digits, unsigned char *out)
{
    uint32_t limbs[MAX_LIMBS] = {0};
    size_t used = 0;
    for (size_t i = 0; i < digits.len;) {
        uint64_t scale = 1, carry = 0;
        for (; i < digits.len && scale < 1000000000u; i++, scale *= 10)
            carry = carry * 10 + digit(digits.ptr[i]);
        for (size_t k = 0; k < used; k++, carry >>= 32) {
            carry += limbs[k] * scale;
            limbs[k] = (uint32_t)carry;
        }
        if (carry)
            limbs[used++] = (uint32_t)carry;
    }
    for (size_t k = 0; k < used * 4; k++)
        out[k] = (unsigned char)(limbs[k / 4] >> k % 4 * 8);
    return used * 4;
}

/* binary_bytes - the same for digits of BITS bits. */
static size_t binary_bytes(ckpt_str digits, unsigned bits, unsigned char *out)
{
    size_t at = 0, n = digits.len * bits / 8 + 1; /* bounded: digits are in a line, bits <= 4 */
    memset(out, 0, n);
    for (size_t i = digits.len; i-- > 0;) {
        unsigned d = digit(digits.ptr[i]);
        for (unsigned b = 0; b < bits; b++, at++)
            out[at / 8] = (unsigned char)(out[at / 8] | (d >> b & 1u) << at % 8); /* bounded: below 8 */
    }
    return n;
}

size_t text_bigint(ckpt_str line, unsigned char *out)
{
    struct number n;
    if (!number_split(line, &n) || (n.base == 10 && n.digits.len > MAX_DECIMAL))
        return TEXT_BAD;
    size_t used = n.base == 10 ? decimal_bytes(n.digits, out) : binary_bytes(n.digits, n.bits, out);
    out[used++] = 0; /* the sign */
    unsigned carry = 1;
    for (size_t i = 0; n.negative && i < used; i++, carry >>= 8) {
        carry += out[i] ^ 0xffu;
        out[i] = (unsigned char)carry;
    }
    return integer_trim(out, used);
}

size_t integer_trim(const unsigned char *at, size_t n)
{
    while (n > 1 && ((at[n - 1] == 0 && at[n - 2] < 0x80) || (at[n - 1] == 0xff && at[n - 2] >= 0x80)))
        n--;
    return n;
}

int64_t integer_small(const unsigned char *at, size_t n)
{
    uint64_t v = n && at[n - 1] >= 0x80 ? UINT64_MAX : 0;
    while (n-- > 0)
        v = v << 8 | at[n];
    return (int64_t)v;
}

/* float_grammar - what float() takes: no hexadecimal, which strtod would read. */
static bool float_grammar(ckpt_str s)
{
    size_t i = 0, digits = 0;
    for (; i < s.len && digit(s.ptr[i]) < 10; i++)
        digits++;
    if (i < s.len && s.ptr[i] == '.')
        for (i++; i < s.len && digit(s.ptr[i]) < 10; i++)
            digits++;
    if (digits == 0 || i == s.len)
        return digits > 0;
    if ((s.ptr[i] | 0x20) != 'e')
        return false;
    s = str_skip(s, i + 1);
    if (s.len && (s.ptr[0] == '+' || s.ptr[0] == '-'))
        s = str_skip(s, 1);
    return all_digits(s, 10);
}

static bool same_word(ckpt_str s, const char *word)
{
    size_t i = 0;
    while (i < s.len && word[i] && (s.ptr[i] | 0x20) == word[i])
        i++;
    return i == s.len && !word[i];
}

bool text_float(ckpt_str line, double *out)
{
    ckpt_str s = trim(line), bare = s;
    if (bare.len && (bare.ptr[0] == '+' || bare.ptr[0] == '-'))
        bare = str_skip(bare, 1);
    bool word = same_word(bare, "inf") || same_word(bare, "infinity") || same_word(bare, "nan");
    if (!word && !float_grammar(bare))
        return false;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *z = malloc(s.len + 1); /* bounded: a line in memory */
    bool ok = z && plain != (locale_t)0;
    if (ok) {
        memcpy(z, s.ptr, s.len);
        z[s.len] = 0;
        *out = strtod_l(z, NULL, plain);
    }
    free(z);
    if (plain != (locale_t)0)
        freelocale(plain);
    return ok;
}

/* escape - the byte that the escape at S[*POS] (behind its backslash) means, *POS
 * moved behind it; -1: the backslash stands for itself; -2: malformed. */
static int escape(ckpt_str s, size_t *pos)
{
    static const char names[] = "\\'\"abfnrtv", bytes[] = "\\'\"\a\b\f\n\r\t\v";
    char c = s.ptr[*pos];
    const char *at = c ? strchr(names, c) : NULL;
    if (at) {
        (*pos)++;
        return bytes[at - names];
    }
    if (c == 'x') {
        unsigned high = *pos + 1 < s.len ? digit(s.ptr[*pos + 1]) : 99;
        unsigned low = *pos + 2 < s.len ? digit(s.ptr[*pos + 2]) : 99;
        *pos += 3;
        return high > 15 || low > 15 ? -2 : (int)(high << 4 | low);
    }
    unsigned v = 0, n = 0;
    for (; n < 3 && *pos < s.len && digit(s.ptr[*pos]) < 8; n++)
        v = v << 3 | digit(s.ptr[(*pos)++]);
    return n ? (int)(v & 0xff) : -1;
}

size_t text_string(ckpt_str line, char *out)
{
    ckpt_str s = trim(line);
    if (s.len < 2 || s.ptr[0] != s.ptr[s.len - 1] || (s.ptr[0] != '\'' && s.ptr[0] != '"'))
        return TEXT_BAD;
    s = str_of(s.ptr + 1, s.len - 2);
    size_t n = 0;
    for (size_t pos = 0; pos < s.len; n++) {
        int c = (unsigned char)s.ptr[pos++];
        if (c == '\\') {
            int e = pos < s.len ? escape(s, &pos) : -2;
            if (e == -2)
                return TEXT_BAD;
            c = e == -1 ? '\\' : e;
        }
        if (out)
            out[n] = (char)c;
    }
    return n;
}

/* unicode_escape - the code point after \u (4 digits) or \U (8), or UTF8_BAD. */
static uint32_t unicode_escape(ckpt_str s, size_t *pos)
{
    size_t n = s.ptr[*pos] == 'u' ? 4 : 8;
    uint32_t v = 0;
    if (s.len - *pos <= n)
        return UTF8_BAD;
    for (size_t i = 1; i <= n; i++) {
        unsigned d = digit(s.ptr[*pos + i]);
        if (d > 15)
            return UTF8_BAD;
        v = v << 4 | d;
    }
    *pos += n + 1;
    return v <= 0x10ffff ? v : UTF8_BAD;
}

size_t text_unicode(ckpt_str line, char *out)
{
    size_t n = 0;
    for (size_t pos = 0; pos < line.len;) {
        uint32_t cp = (unsigned char)line.ptr[pos++];
        char one[4];
        if (cp == '\\' && pos < line.len) {
            if (line.ptr[pos] == 'u' || line.ptr[pos] == 'U') {
                cp = unicode_escape(line, &pos);
                if (cp == UTF8_BAD)
                    return TEXT_BAD;
            } else if (line.ptr[pos] == '\\') { /* a pair stands for both and hides a following u */
                if (out)
                    out[n] = '\\';
                n++;
                pos++;
            }
        }
        size_t k = utf8_put(cp, one);
        if (out)
            memcpy(out + n, one, k);
        n += k;
    }
    return n;
}
