/* pickle_text.c - see pickle_text.h. Refuses numbers about which CPython's own unpicklers disagree: octal
 * 010, and more digits than int() accepts. */
#include "codec/pickle_text.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "codec/pickle_line.h"

#define MAX_DECIMAL 4300u /* sys.int_info.default_max_str_digits */
#define MAX_LIMBS   (MAX_DECIMAL / 9 + 2)

static bool is_space(char character) { return character == ' ' || (character >= '\t' && character <= '\r'); }

ckpt_str pickle_text_trim(ckpt_str text)
{
    while (text.len && is_space(text.ptr[0]))
        text = str_skip(text, 1);
    while (text.len && is_space(text.ptr[text.len - 1]))
        text.len--;
    return text;
}

static bool are_digits(ckpt_str text, unsigned base)
{
    for (size_t i = 0; i < text.len; i++)
        if (str_digit(text.ptr[i]) >= base)
            return false;
    return text.len > 0;
}

struct text_number {
    bool negative;
    unsigned base, bits; /* base: 10, 16, 8 or 2; bits of a digit, 0 in base 10 */
    ckpt_str digits;
};

/* split_number - sets *NUMBER to the number in LINE; false: LINE is no number that all unpicklers read
 * alike. */
static bool split_number(ckpt_str line, struct text_number *number)
{
    ckpt_str s = pickle_text_trim(line);
    *number = (struct text_number){.negative = s.len && s.ptr[0] == '-', .base = 10};
    if (s.len && (s.ptr[0] == '-' || s.ptr[0] == '+'))
        s = str_skip(s, 1);
    char letter = s.len > 2 && s.ptr[0] == '0' ? (char)(s.ptr[1] | 0x20) : 0;
    number->bits = letter == 'x' ? 4 : letter == 'o' ? 3 : letter == 'b' ? 1 : 0;
    if (number->bits) {
        number->base = 1u << number->bits;
        s = str_skip(s, 2);
    }
    bool has_leading_zero = s.len && s.ptr[0] == '0';
    while (s.len > 1 && s.ptr[0] == '0')
        s = str_skip(s, 1);
    bool is_zero = s.len == 1 && s.ptr[0] == '0';
    if (has_leading_zero && number->base == 10 && !is_zero) /* octal in Python 2 */
        return false;
    number->digits = s;
    return are_digits(s, number->base);
}

bool pickle_text_int(ckpt_str line, int64_t *out)
{
    struct text_number n;
    int64_t v = 0;
    if (!split_number(line, &n))
        return false;
    for (size_t i = 0; i < n.digits.len; i++) {
        int64_t d = str_digit(n.digits.ptr[i]);
        d = n.negative ? -d : d;
        if (__builtin_mul_overflow(v, (int64_t)n.base, &v) || __builtin_add_overflow(v, d, &v))
            return false;
    }
    *out = v;
    return true;
}

/* parse_decimal - writes the value of decimal DIGITS to OUT, little-endian, unsigned; returns the number of
 * bytes. */
static size_t parse_decimal(ckpt_str digits, unsigned char *out)
{
    uint32_t limbs[MAX_LIMBS] = {0};
    size_t used = 0;
    for (size_t i = 0; i < digits.len;) {
        uint64_t scale = 1, carry = 0;
        for (; i < digits.len && scale < 1000000000u; i++, scale *= 10)
            carry = carry * 10 + str_digit(digits.ptr[i]);
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

/* parse_binary - writes the value of DIGITS, each of BITS bits, to OUT, as parse_decimal does. */
static size_t parse_binary(ckpt_str digits, unsigned bits, unsigned char *out)
{
    size_t bit = 0, n = digits.len * bits / 8 + 1;
    memset(out, 0, n);
    for (size_t i = digits.len; COUNT_DOWN(i);) {
        unsigned d = str_digit(digits.ptr[i]);
        for (unsigned b = 0; b < bits; b++, bit++)
            out[bit / 8] = (unsigned char)(out[bit / 8] | (d >> b & 1u) << bit % 8);
    }
    return n;
}

size_t pickle_text_bigint(ckpt_str line, unsigned char *out)
{
    struct text_number n;
    if (!split_number(line, &n) || (n.base == 10 && n.digits.len > MAX_DECIMAL))
        return PICKLE_TEXT_BAD;
    size_t used = n.base == 10 ? parse_decimal(n.digits, out) : parse_binary(n.digits, n.bits, out);
    out[used++] = 0; /* the sign */
    unsigned carry = 1;
    for (size_t i = 0; n.negative && i < used; i++, carry >>= 8) {
        carry += out[i] ^ 0xffu;
        out[i] = (unsigned char)carry;
    }
    return integer_trimmed_size(out, used);
}

size_t integer_trimmed_size(const unsigned char *at, size_t nbytes)
{
    while (nbytes > 1 && ((at[nbytes - 1] == 0 && at[nbytes - 2] < 0x80) ||
                          (at[nbytes - 1] == 0xff && at[nbytes - 2] >= 0x80)))
        nbytes--;
    return nbytes;
}

int64_t integer_load(const unsigned char *at, size_t nbytes)
{
    uint64_t v = nbytes && at[nbytes - 1] >= 0x80 ? UINT64_MAX : 0;
    while (COUNT_DOWN(nbytes))
        v = v << 8 | at[nbytes];
    return (int64_t)v;
}

/* is_decimal_float - returns true if TEXT is a number that Python's float() accepts; not hexadecimal, which
 * strtod accepts. */
static bool is_decimal_float(ckpt_str text)
{
    size_t i = 0, digits = 0;
    for (; i < text.len && str_digit(text.ptr[i]) < 10; i++)
        digits++;
    if (i < text.len && text.ptr[i] == '.')
        for (i++; i < text.len && str_digit(text.ptr[i]) < 10; i++)
            digits++;
    if (digits == 0 || i == text.len)
        return digits > 0;
    if ((text.ptr[i] | 0x20) != 'e')
        return false;
    text = str_skip(text, i + 1);
    if (text.len && (text.ptr[0] == '+' || text.ptr[0] == '-'))
        text = str_skip(text, 1);
    return are_digits(text, 10);
}

static bool equals_any_case(ckpt_str text, ckpt_str word)
{
    return text.len == word.len && str_ends_any_case(text, word);
}

bool pickle_text_is_float(ckpt_str line)
{
    ckpt_str text = pickle_text_trim(line);
    if (text.len && (text.ptr[0] == '+' || text.ptr[0] == '-'))
        text = str_skip(text, 1);
    return str_matches_word(text, "inf infinity nan", equals_any_case) || is_decimal_float(text);
}

bool pickle_text_float(ckpt_str line, double *out)
{
    ckpt_str s = pickle_text_trim(line);
    if (!pickle_text_is_float(line))
        return false;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *copy = malloc(s.len + 1);
    bool ok = copy && c_locale != (locale_t)0;
    if (ok) {
        memcpy(copy, s.ptr, s.len);
        copy[s.len] = 0;
        double number = strtod_l(copy, NULL, c_locale);
        *out = isnan(number) ? copysign(number, copy[0] == '-' ? -1 : 1) : number; /* not in musl */
    }
    free(copy);
    if (c_locale != (locale_t)0)
        freelocale(c_locale);
    return ok;
}

size_t pickle_text_decode(ckpt_str line, bool unicode, char *out)
{
    struct pickle_line l = {.unicode = unicode};
    ckpt_str s = unicode ? line : pickle_text_trim(line);
    if (!unicode && (s.len < 2 || s.ptr[0] != s.ptr[s.len - 1] || (s.ptr[0] != '\'' && s.ptr[0] != '"')))
        return PICKLE_TEXT_BAD;
    s = unicode ? s : str_of(s.ptr + 1, s.len - 2);
    size_t n = 0;
    for (size_t i = 0; i <= s.len; i++) {
        uint32_t cp[2];
        int ncps = i < s.len ? pickle_line_next(&l, (unsigned char)s.ptr[i], cp) : pickle_line_end(&l, cp);
        if (ncps < 0)
            return PICKLE_TEXT_BAD;
        for (int k = 0; k < ncps; k++) {
            char character[4] = {(char)cp[k]};
            size_t size = unicode ? utf8_put(cp[k], character) : 1;
            if (out)
                memcpy(out + n, character, size);
            n += size;
        }
    }
    return n;
}
