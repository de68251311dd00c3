#include "number.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "out.h"

/* How the bytes of an element are decoded. */
struct layout {
    enum number_kind kind;
    uint8_t exponent_bits; /* of a float in IEEE's form */
    uint8_t value_bits;    /* of a float: bits of the mantissa; of an integer: its bits */
    uint8_t nbytes;        /* of a number, or of each half of a complex one; 0: not known */
};

/* get_layout - returns the layout of DTYPE by its name; NUM_REAL without a size: it is read as float32. */
static struct layout get_layout(ckpt_dtype dtype)
{
    static const struct {
        const char *glob;
        struct layout layout;
    } known[] = {
        {"float64", {NUM_REAL, 11, 52, 0}},
        {"float32", {NUM_REAL, 8, 23, 0}},
        {"complex128", {NUM_COMPLEX, 11, 52, 0}},
        {"complex64", {NUM_COMPLEX, 8, 23, 0}},
        {"complex32", {NUM_COMPLEX, 5, 10, 0}},
        {"bcomplex32", {NUM_COMPLEX, 8, 7, 0}},
        {"int*", {.kind = NUM_INT}},
        {"qint*", {.kind = NUM_INT}},
        {"uint*", {.kind = NUM_UINT}},
        {"quint8", {.kind = NUM_UINT}},
        {"bool", {.kind = NUM_BOOL}},
        /* several elements in a byte, or one in two bytes: the bytes are shown */
        {"quint?x?", {.kind = NUM_BITS}},
        {"bits*", {.kind = NUM_BITS}},
        {"float4*_x2", {.kind = NUM_BITS}},
        {"float6_e?m?", {.kind = NUM_BITS}},
        {"numpy", {.kind = NUM_BITS}},
    };
    static ckpt_dtype last_dtype;
    static struct layout last;
    if (dtype == last_dtype) /* as for each element of a tensor but the first */
        return last;
    const char *name = ckpt_dtype_name(dtype);
    ckpt_str text = {name, strlen(name)};
    last = (struct layout){.kind = NUM_REAL};
    last_dtype = dtype;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (ckpt_glob_match((ckpt_str){known[i].glob, strlen(known[i].glob)}, text)) {
            last = known[i].layout;
            last.nbytes = (uint8_t)((ckpt_dtype_bits(dtype) + 7) / (last.kind == NUM_COMPLEX ? 16 : 8));
        }
    if (last.kind == NUM_INT || last.kind == NUM_UINT)
        last.value_bits = (uint8_t)strtoul(name + strcspn(name, "0123456789"), NULL, 10);
    return last;
}

static bool is_read_as_float(ckpt_dtype dtype)
{
    struct layout l = get_layout(dtype);
    return dtype != CKPT_DT_NONE && l.kind == NUM_REAL && !l.nbytes;
}

bool number_has_fraction(ckpt_dtype dtype)
{
    enum number_kind kind = get_layout(dtype).kind;
    return kind == NUM_REAL || kind == NUM_COMPLEX || strncmp(ckpt_dtype_name(dtype), "float", 5) == 0;
}

ckpt_dtype number_shown_dtype(ckpt_dtype dtype) { return is_read_as_float(dtype) ? CKPT_DT_F32 : dtype; }

size_t number_bytes(ckpt_dtype dtype)
{
    struct layout l = get_layout(number_shown_dtype(dtype));
    return l.kind == NUM_COMPLEX ? 2u * l.nbytes : l.nbytes;
}

bool number_is_packed(ckpt_dtype dtype) { return ckpt_dtype_bits(number_shown_dtype(dtype)) % 8 != 0; }

ckpt_status number_read(ckpt_file *f, uint32_t row, uint64_t first, uint64_t count, void *out,
                        ckpt_error *err)
{
    ckpt_dtype dtype = (ckpt_dtype)tensor_at(f, row).dtype;
    return is_read_as_float(dtype) ? ckpt_tensor_read_as(f, row, CKPT_DT_F32, first, count, out, err)
                                   : ckpt_tensor_read(f, row, first, count, out, err);
}

static uint64_t load_le(const uint8_t *bytes, unsigned nbytes)
{
    uint64_t v = 0;
    while (nbytes--)
        v = v << 8 | bytes[nbytes];
    return v;
}

static double decode_real(uint64_t bits, const struct layout *layout)
{
    const uint64_t implicit_bit = UINT64_C(1) << layout->value_bits;
    const uint64_t max_exponent = (UINT64_C(1) << layout->exponent_bits) - 1;
    uint64_t mantissa = bits & (implicit_bit - 1), exponent = bits >> layout->value_bits & max_exponent;
    bool negative = bits >> (layout->value_bits + layout->exponent_bits) & 1;
    int min_scale = 1 - (int)(max_exponent / 2) - layout->value_bits; /* for exponents 0 (subnormal) and 1 */
    double v = ldexp((double)mantissa, min_scale);
    if (exponent == max_exponent)
        v = mantissa ? (double)NAN : (double)INFINITY;
    else if (exponent)
        v = ldexp((double)(mantissa | implicit_bit), min_scale + (int)exponent - 1);
    return negative ? -v : v;
}

static int64_t extend_sign(uint64_t number, unsigned bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);
    int64_t s;
    number = (number ^ sign) - sign;
    memcpy(&s, &number, sizeof s);
    return s;
}

struct number number_decode(ckpt_dtype dtype, const uint8_t *bytes)
{
    const struct layout l = get_layout(dtype);
    struct number x = {.kind = l.kind, .nbytes = l.nbytes, .single = l.nbytes < 8};
    x.u = load_le(bytes, l.nbytes);
    if ((l.kind == NUM_INT || l.kind == NUM_UINT) && l.value_bits < 8)
        x.u &= (1u << l.value_bits) - 1;
    if (l.kind == NUM_INT)
        x.i = extend_sign(x.u, l.value_bits);
    if (l.kind == NUM_REAL || l.kind == NUM_COMPLEX)
        x.re = decode_real(x.u, &l);
    if (l.kind == NUM_COMPLEX)
        x.im = decode_real(load_le(bytes + l.nbytes, l.nbytes), &l);
    return x;
}

static bool parses_back(const char *text, double number, bool single)
{
    return single ? strtof(text, NULL) == (float)number : strtod(text, NULL) == number;
}

/* format_shortest - writes NUMBER with the fewest digits that read back as NUMBER, and without an exponent
 * where a person would write none. */
static void format_shortest(double number, bool single, char out[NUMBER_TEXT_SIZE])
{
    int digits = 0;
    do
        snprintf(out, NUMBER_TEXT_SIZE, "%.*e", digits, number);
    while (!parses_back(out, number, single) && ++digits < 17);
    long exponent = strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent > 15)
        snprintf(out, NUMBER_TEXT_SIZE, "%.*g", digits + 1, number);
    else
        snprintf(out, NUMBER_TEXT_SIZE, "%.*f", digits - exponent > 1 ? digits - (int)exponent : 1, number);
}

const char *real_text(double number, bool single, char out[NUMBER_TEXT_SIZE])
{
    if (isfinite(number))
        format_shortest(number, single, out);
    else
        snprintf(out, NUMBER_TEXT_SIZE, "%s", isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
    return out;
}

const char *real_json(double number, bool single, char out[NUMBER_TEXT_SIZE])
{
    if (isfinite(number))
        return real_text(number, single, out);
    snprintf(out, NUMBER_TEXT_SIZE, "\"%s\"", isnan(number) ? "NaN" : number < 0 ? "-Infinity" : "Infinity");
    return out;
}

static void complex_text(const struct number *number, char out[NUMBER_TEXT_SIZE])
{
    char re[NUMBER_TEXT_SIZE], im[NUMBER_TEXT_SIZE];
    real_text(number->re, number->single, re);
    real_text(number->im, number->single, im);
    snprintf(out, NUMBER_TEXT_SIZE, "%.40s%s%.40sj", re, *im == '-' ? "" : "+", im);
}

const char *number_text(const struct number *number, char out[NUMBER_TEXT_SIZE])
{
    switch (number->kind) {
    case NUM_REAL: return real_text(number->re, number->single, out);
    case NUM_INT: snprintf(out, NUMBER_TEXT_SIZE, "%" PRId64, number->i); break;
    case NUM_UINT: snprintf(out, NUMBER_TEXT_SIZE, "%" PRIu64, number->u); break;
    case NUM_BOOL: snprintf(out, NUMBER_TEXT_SIZE, "%s", number->u ? "True" : "False"); break;
    case NUM_BITS:
        snprintf(out, NUMBER_TEXT_SIZE, "0x%0*" PRIx64, (int)(2 * number->nbytes), number->u);
        break;
    case NUM_COMPLEX: complex_text(number, out); break;
    }
    return out;
}

const char *number_json(const struct number *number, char out[NUMBER_TEXT_SIZE])
{
    char re[NUMBER_TEXT_SIZE], im[NUMBER_TEXT_SIZE];
    switch (number->kind) {
    case NUM_REAL: return real_json(number->re, number->single, out);
    case NUM_BOOL: snprintf(out, NUMBER_TEXT_SIZE, "%s", number->u ? "true" : "false"); break;
    case NUM_BITS: snprintf(out, NUMBER_TEXT_SIZE, "%" PRIu64, number->u); break;
    case NUM_COMPLEX:
        snprintf(out, NUMBER_TEXT_SIZE, "[%.40s,%.40s]", real_json(number->re, number->single, re),
                 real_json(number->im, number->single, im));
        break;
    default: return number_text(number, out);
    }
    return out;
}
