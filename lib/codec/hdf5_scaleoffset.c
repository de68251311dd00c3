/*
 * hdf5_scaleoffset.c - undoes the filter scaleoffset of HDF5 (HDFGroup/hdf5 H5Zscaleoffset.c), which stores
 * each number minus the least of its chunk in as few bits as the chunk needs. A chunk, by offset and size:
 *
 *   0   4  number of bits W, at most those of an element
 *   4   1  size of the least number, at most 8
 *   5   …  the least number, or the bits of that float
 *   21  …  the numbers, W bits each, the highest bit first; elements as they are, if W is their size
 *
 * Parameters: scale type (0: floats, by decimal digits; 2: integers), decimal digits D, elements in a chunk,
 * class (0 integer, 1 float), bytes of an element, signed, byte order (1: big-endian), 1 if there is a fill
 * value, the fill value (4 bytes in each parameter). If there is one, the number of W bits that are all 1
 * stands for it. A float is number / 10^D + the least, in the arithmetic of the dtype.
 */
#include <math.h>

#include "codec/bit_reader.h"
#include "codec/hdf5_filter.h"

#define HEADER_SIZE 21u
#define BAND        512u /* elements that are written at a time */

enum { SCALE_DIGITS = 0, SCALE_INTEGERS = 2 };

struct scaleoffset {
    uint32_t nbits, width; /* bits of a stored number, bytes of an element */
    uint64_t least, fill;
    bool is_float, big_endian, has_fill;
    int digits;
};

/* get_float - returns the bits of NUMBER, of which 4 or 8 bytes count as a signed number, as a float. */
static uint64_t get_float(const struct scaleoffset *scaleoffset, uint64_t number)
{
    uint64_t bits = 0;
    if (scaleoffset->width == 4) {
        uint32_t least_bits = (uint32_t)scaleoffset->least;
        float least, value;
        memcpy(&least, &least_bits, 4);
        /* each step is rounded to float, also where the machine computes in wider types */
        float scale = powf(10.0f, (float)scaleoffset->digits),
              quotient = (float)(int32_t)(uint32_t)number / scale;
        value = quotient + least;
        memcpy(&least_bits, &value, 4);
        bits = least_bits;
    } else {
        double least, value;
        memcpy(&least, &scaleoffset->least, 8);
        double quotient = (double)(int64_t)number / pow(10.0, scaleoffset->digits);
        value = quotient + least;
        memcpy(&bits, &value, 8);
    }
    return bits;
}

/* get_element - returns the bits of the element that is stored as NUMBER. */
MODULO static uint64_t get_element(const struct scaleoffset *scaleoffset, uint64_t number)
{
    if (scaleoffset->nbits == 8 * scaleoffset->width)
        return number;
    if (scaleoffset->has_fill && number == (UINT64_C(1) << scaleoffset->nbits) - 1)
        return scaleoffset->fill;
    return scaleoffset->is_float ? get_float(scaleoffset, number)
                                 : number + scaleoffset->least; /* modulo the size of an element */
}

static ckpt_status write_elements(const struct scaleoffset *scaleoffset, const struct hdf5_input *in,
                                  cursor input, uint64_t number, spool *to, ckpt_error *err)
{
    unsigned char bytes[BAND * 8];
    struct bit_reader b = {.c = input};
    bool is_raw = scaleoffset->nbits == 8 * scaleoffset->width;
    while (number) {
        size_t count = number < BAND ? (size_t)number : BAND, used = 0;
        for (size_t i = 0; i < count; i++) {
            uint64_t element = is_raw ? cursor_number(&b.c, scaleoffset->width)
                                      : get_element(scaleoffset, bits_take(&b, scaleoffset->nbits));
            for (uint32_t k = 0; k < scaleoffset->width; k++)
                bytes[used++] = (unsigned char)(element >> 8 * (scaleoffset->big_endian
                                                                    ? scaleoffset->width - 1 - k
                                                                    : k));
        }
        if (b.c.bad)
            return hdf5_fail_chunk(in, err, "numbers of scaleoffset that end early");
        CKPT_TRY(spool_write(to, bytes, used, err));
        number -= count;
    }
    return CKPT_OK;
}

ckpt_status hdf5_undo_scaleoffset(const struct hdf5_filter *filter, const struct hdf5_input *in, cursor input,
                                  spool *to, ckpt_error *err)
{
    const uint32_t *v = filter->values;
    struct scaleoffset s = {.width = v[4],
                            .is_float = v[3] == 1,
                            .big_endian = v[6] == 1,
                            .has_fill = v[7] == 1,
                            .fill = v[8] | (uint64_t)v[9] << 32,
                            .digits = (int)(int32_t)v[1]};
    cursor head = cursor_sub(&input, HEADER_SIZE);
    s.nbits = cursor_u32(&head);
    uint32_t least_size = cursor_u8(&head);
    s.least = least_size <= 8 ? cursor_number(&head, least_size) : 0;
    bool is_valid_width = s.width == 8 || s.width == 4 || (!s.is_float && (s.width == 1 || s.width == 2));
    bool is_valid_scale = v[0] == (s.is_float ? SCALE_DIGITS : SCALE_INTEGERS);
    if (head.bad || least_size > 8 || !is_valid_width || !is_valid_scale || s.nbits > 8 * s.width)
        return hdf5_fail_chunk(in, err, "a header that scaleoffset does not write");
    return write_elements(&s, in, input, v[2], to, err);
}
