/* element_text.c - see element_text.h. */
#include "op/element_text.h"

#include <math.h>

#include "base/str.h"
#include "codec/pickle_text.h"
#include "core/convert.h"

/* count_value_bits - returns how many bits an integer of INFO has. */
static unsigned count_value_bits(const struct dtype_info *info)
{
    return info->klass == 'b' ? 1u : info->is_small ? info->value_bits : 8u * info->block_bytes;
}

/* set_integer - stores the integer TEXT in two's complement; a small one fills its byte. */
static bool set_integer(ckpt_str text, const struct dtype_info *info, unsigned char *out)
{
    bool is_negative = str_take(&text, STR_LIT("-"));
    uint64_t number, most = UINT64_MAX >> (64 - count_value_bits(info));
    if (info->klass == 'i')
        most = most / 2 + is_negative;
    if (!str_uint(text, &number) || number > most || (is_negative && info->klass != 'i'))
        return false;
    uint64_t stored = is_negative && number ? ~(number - 1) : number;
    for (uint32_t i = 0; i < info->block_bytes; i++)
        out[i] = (unsigned char)(stored >> 8 * i);
    return true;
}

/* set_exact - stores NUMBER as the byte of DTYPE that stands for it, if there is one. */
static bool set_exact(double number, ckpt_dtype dtype, unsigned char *out)
{
    for (uint32_t code = 0; code < 256; code++) {
        double value = (double)float_of_bits(f32_bits_of_byte(dtype, code));
        bool is_it = isnan(number) ? isnan(value) : value == number && signbit(value) == signbit(number);
        if (is_it) {
            *out = (unsigned char)code;
            return true;
        }
    }
    return false;
}

/* holds_inf, holds_nan - return true if DTYPE, a float, has such values. */
static bool holds_inf(const struct dtype_info *info) { return !info->is_small || info->nan == NAN_IEEE; }
static bool holds_nan(const struct dtype_info *info) { return !info->is_small || info->nan != NAN_NEVER; }

/* set_float - stores NUMBER, rounded. Types to which there is no conversion hold it exactly, or not at
 * all. */
static bool set_float(double number, ckpt_dtype dtype, unsigned char *out)
{
    const struct dtype_info *info = dtype_info(dtype);
    struct conversion conversion;
    struct convert_tally tally = {0};
    if ((isinf(number) && !holds_inf(info)) || (isnan(number) && !holds_nan(info)))
        return false;
    if (!conversion_init(&conversion, CKPT_DT_F64, dtype))
        return info->is_small && set_exact(number, dtype, out);
    convert_run(&conversion, &number, 1, out, &tally);
    return !tally.overflowed;
}

bool element_is_number(ckpt_str text)
{
    return pickle_text_is_float(text) || str_is(text, "true") || str_is(text, "false");
}

ckpt_status element_of_text(ckpt_str text, ckpt_dtype dtype, unsigned char out[ELEMENT_MAX], bool *holds,
                            ckpt_error *err)
{
    const struct dtype_info *info = dtype_info(dtype);
    bool is_float = info->klass == 'f' || info->klass == 'c', is_word = str_is(text, "true");
    double number;
    memset(out, 0, ELEMENT_MAX);
    *holds = true;
    if (info->klass == 'b' && (is_word || str_is(text, "false"))) {
        *out = is_word;
    } else if (is_float && (*holds = pickle_text_is_float(text))) {
        CKPT_TRY_ALLOC(pickle_text_float(text, &number), err);
        *holds = set_float(number, (ckpt_dtype)info->number, out);
    } else if (!is_float) { /* packed bits, and bytes that are no numbers, have only 0 */
        *holds = strchr("biu", info->klass) ? set_integer(text, info, out) : str_is(text, "0");
    }
    return CKPT_OK;
}
