/* crc32.c - CRC-32 and CRC-32C by eight table look-ups for eight bytes. Where the CPU can, CRC-32 uses
 * carry-less multiplication (2.3 times as fast as zlib; 4 and 8 times with 256- and 512-bit registers), by
 * Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009, and
 * CRC-32C uses the instruction that SSE4.2 has for it. */
#include "base/crc32.h"

#include "base/cursor.h"

/* TABLE - makes a CRC table from entries 1, 2, 4 … 128: entry I is the XOR of those for the bits of I. */
#define IF_SET(i, bit, entry) ((i) & (bit) ? (entry) : 0u)
#define ENTRY(i, a, b, c, d, e, f, g, h)                                                                     \
    IF_SET(i, 1, a) ^ IF_SET(i, 2, b) ^ IF_SET(i, 4, c) ^ IF_SET(i, 8, d) ^ IF_SET(i, 16, e) ^               \
        IF_SET(i, 32, f) ^ IF_SET(i, 64, g) ^ IF_SET(i, 128, h)
#define ENTRIES_4(i, ...)                                                                                    \
    ENTRY(i, __VA_ARGS__), ENTRY(i + 1, __VA_ARGS__), ENTRY(i + 2, __VA_ARGS__), ENTRY(i + 3, __VA_ARGS__)
#define ENTRIES_16(i, ...)                                                                                   \
    ENTRIES_4(i, __VA_ARGS__), ENTRIES_4(i + 4, __VA_ARGS__), ENTRIES_4(i + 8, __VA_ARGS__),                 \
        ENTRIES_4(i + 12, __VA_ARGS__)
#define ENTRIES_64(i, ...)                                                                                   \
    ENTRIES_16(i, __VA_ARGS__), ENTRIES_16(i + 16, __VA_ARGS__), ENTRIES_16(i + 32, __VA_ARGS__),            \
        ENTRIES_16(i + 48, __VA_ARGS__)
#define TABLE(...)                                                                                           \
    {ENTRIES_64(0, __VA_ARGS__), ENTRIES_64(64, __VA_ARGS__), ENTRIES_64(128, __VA_ARGS__),                  \
     ENTRIES_64(192, __VA_ARGS__)}

/* crc32_tables[k][i]: the CRC register after byte i and k zero bytes. */
static const uint32_t crc32_tables[8][256] = {
    TABLE(0x77073096, 0xEE0E612C, 0x076DC419, 0x0EDB8832, 0x1DB71064, 0x3B6E20C8, 0x76DC4190, 0xEDB88320),
    TABLE(0x191B3141, 0x32366282, 0x646CC504, 0xC8D98A08, 0x4AC21251, 0x958424A2, 0xF0794F05, 0x3B83984B),
    TABLE(0x01C26A37, 0x0384D46E, 0x0709A8DC, 0x0E1351B8, 0x1C26A370, 0x384D46E0, 0x709A8DC0, 0xE1351B80),
    TABLE(0xB8BC6765, 0xAA09C88B, 0x8F629757, 0xC5B428EF, 0x5019579F, 0xA032AF3E, 0x9B14583D, 0xED59B63B),
    TABLE(0x3D6029B0, 0x7AC05360, 0xF580A6C0, 0x30704BC1, 0x60E09782, 0xC1C12F04, 0x58F35849, 0xB1E6B092),
    TABLE(0xCB5CD3A5, 0x4DC8A10B, 0x9B914216, 0xEC53826D, 0x03D6029B, 0x07AC0536, 0x0F580A6C, 0x1EB014D8),
    TABLE(0xA6770BB4, 0x979F1129, 0xF44F2413, 0x33EF4E67, 0x67DE9CCE, 0xCFBD399C, 0x440B7579, 0x8816EAF2),
    TABLE(0xCCAA009E, 0x4225077D, 0x844A0EFA, 0xD3E51BB5, 0x7CBB312B, 0xF9766256, 0x299DC2ED, 0x533B85DA),
};

/* The same for CRC-32C, of the polynomial 0x82F63B78. */
static const uint32_t crc32c_tables[8][256] = {
    TABLE(0xF26B8303, 0xE13B70F7, 0xC79A971F, 0x8AD958CF, 0x105EC76F, 0x20BD8EDE, 0x417B1DBC, 0x82F63B78),
    TABLE(0x13A29877, 0x274530EE, 0x4E8A61DC, 0x9D14C3B8, 0x3FC5F181, 0x7F8BE302, 0xFF17C604, 0xFBC3FAF9),
    TABLE(0xA541927E, 0x4F6F520D, 0x9EDEA41A, 0x38513EC5, 0x70A27D8A, 0xE144FB14, 0xC76580D9, 0x8B277743),
    TABLE(0xDD45AAB8, 0xBF672381, 0x7B2231F3, 0xF64463E6, 0xE964B13D, 0xD725148B, 0xABA65FE7, 0x52A0C93F),
    TABLE(0x38116FAC, 0x7022DF58, 0xE045BEB0, 0xC5670B91, 0x8F2261D3, 0x1BA8B557, 0x37516AAE, 0x6EA2D55C),
    TABLE(0xEF306B19, 0xDB8CA0C3, 0xB2F53777, 0x6006181F, 0xC00C303E, 0x85F4168D, 0x0E045BEB, 0x1C08B7D6),
    TABLE(0x68032CC8, 0xD0065990, 0xA5E0C5D1, 0x4E2DFD53, 0x9C5BFAA6, 0x3D5B83BD, 0x7AB7077A, 0xF56E0EF4),
    TABLE(0x493C7D27, 0x9278FA4E, 0x211D826D, 0x423B04DA, 0x847609B4, 0x0D006599, 0x1A00CB32, 0x34019664),
};

/* update_by_tables - returns the CRC register (not yet inverted) after NBYTES bytes. */
static uint32_t update_by_tables(const uint32_t numbers[8][256], uint32_t reg, const unsigned char *bytes,
                                 size_t nbytes)
{
    for (; nbytes >= 8; bytes += 8, nbytes -= 8) {
        uint32_t a = reg ^ load_u32le(bytes), b = load_u32le(bytes + 4);
        reg = numbers[7][a & 255] ^ numbers[6][a >> 8 & 255] ^ numbers[5][a >> 16 & 255] ^
              numbers[4][a >> 24] ^ numbers[3][b & 255] ^ numbers[2][b >> 8 & 255] ^
              numbers[1][b >> 16 & 255] ^ numbers[0][b >> 24];
    }
    for (; nbytes; bytes++, nbytes--)
        reg = numbers[0][(reg ^ *bytes) & 255] ^ reg >> 8;
    return reg;
}

static uint32_t update_crc32_by_tables(uint32_t reg, const unsigned char *bytes, size_t nbytes)
{
    return update_by_tables(crc32_tables, reg, bytes, nbytes);
}

#define POLY_32  0xEDB88320u
#define POLY_32C 0x82F63B78u

/* multiply_mod_poly - returns LEFT * RIGHT modulo POLY. The polynomials are reflected: bit 31 is x^0. */
static uint32_t multiply_mod_poly(uint32_t poly, uint32_t left, uint32_t right)
{
    uint32_t product = 0;
    for (; left; left <<= 1) {
        if (left & 0x80000000u)
            product ^= right;
        right = right >> 1 ^ (right & 1 ? poly : 0);
    }
    return product;
}

/* power_of_bytes - returns x^(8 * COUNT) modulo POLY, the factor by which COUNT zero bytes appended to a text
 * change its CRC register. */
static uint32_t power_of_bytes(uint32_t poly, uint64_t count)
{
    uint32_t power = 0x80000000u, square = 0x00800000u; /* x^0; x^8, then x^16, x^32 … */
    for (; count; count >>= 1) {
        if (count & 1)
            power = multiply_mod_poly(poly, square, power);
        square = multiply_mod_poly(poly, square, square);
    }
    return power;
}

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

#define CLMUL __attribute__((target("sse2,pclmul")))

CLMUL static inline __m128i load_128(const unsigned char *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* fold128 - returns LANES shifted by as many bits as BY encodes, XORed with NEXT. */
CLMUL static inline __m128i fold128(__m128i lanes, __m128i by, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(lanes, by, 0x00), high = _mm_clmulepi64_si128(lanes, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* update_by_clmul - returns the register after NBYTES >= 64 bytes: four lanes of 128 bits, each folded by 512
 * bits at a time, then folded into one: from register 0, its 16 bytes lead to the same register as all bytes
 * so far. */
CLMUL static uint32_t update_by_clmul(uint32_t reg, const unsigned char *bytes, size_t nbytes)
{
    /* x^(512-32) and x^(512+32), x^(128-32) and x^(128+32), modulo the polynomial, reflected */
    const __m128i by512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i a = _mm_xor_si128(load_128(bytes), _mm_cvtsi32_si128((int)reg));
    __m128i b = load_128(bytes + 16), c = load_128(bytes + 32), d = load_128(bytes + 48);
    for (bytes += 64, nbytes -= 64; nbytes >= 64; bytes += 64, nbytes -= 64) {
        a = fold128(a, by512, load_128(bytes));
        b = fold128(b, by512, load_128(bytes + 16));
        c = fold128(c, by512, load_128(bytes + 32));
        d = fold128(d, by512, load_128(bytes + 48));
    }
    a = fold128(fold128(fold128(a, by128, b), by128, c), by128, d);
    for (; nbytes >= 16; bytes += 16, nbytes -= 16)
        a = fold128(a, by128, load_128(bytes));
    unsigned char folded[16];
    _mm_storeu_si128((__m128i *)(void *)folded, a);
    return update_crc32_by_tables(update_crc32_by_tables(0, folded, sizeof folded), bytes, nbytes);
}

CLMUL static uint32_t update_128(uint32_t reg, const unsigned char *bytes, size_t nbytes)
{
    return nbytes >= 64 ? update_by_clmul(reg, bytes, nbytes) : update_crc32_by_tables(reg, bytes, nbytes);
}

/* The wide kernels fold like update_by_clmul, but by 1024 or 2048 bits a step, and leave the last lanes to
 * it. They clear the upper halves of the registers: otherwise SSE code elsewhere (OpenSSL's SHA-256) runs a
 * quarter slower. */
#define WIDE256 __attribute__((target("avx2,pclmul,vpclmulqdq")))
#define WIDE512 __attribute__((target("avx512f,pclmul,vpclmulqdq")))

WIDE256 static inline __m256i load_256(const unsigned char *bytes)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)bytes);
}

WIDE256 static inline __m256i fold_256(__m256i lanes, __m256i by, __m256i next)
{
    __m256i low = _mm256_clmulepi64_epi128(lanes, by, 0x00), high = _mm256_clmulepi64_epi128(lanes, by, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

WIDE256 static uint32_t update_256(uint32_t reg, const unsigned char *bytes, size_t nbytes)
{
    if (nbytes < 256)
        return update_128(reg, bytes, nbytes);
    const __m256i by1024 = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x14a7fe880, 0x1e88ef372));
    __m256i a = _mm256_xor_si256(load_256(bytes), _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)reg));
    __m256i b = load_256(bytes + 32), c = load_256(bytes + 64), d = load_256(bytes + 96);
    for (bytes += 128, nbytes -= 128; nbytes >= 128; bytes += 128, nbytes -= 128) {
        a = fold_256(a, by1024, load_256(bytes));
        b = fold_256(b, by1024, load_256(bytes + 32));
        c = fold_256(c, by1024, load_256(bytes + 64));
        d = fold_256(d, by1024, load_256(bytes + 96));
    }
    __m256i lanes[4] = {a, b, c, d};
    _mm256_zeroupper();
    return update_128(update_by_clmul(0, (const unsigned char *)lanes, sizeof lanes), bytes, nbytes);
}

WIDE512 static inline __m512i load_512(const unsigned char *bytes) { return _mm512_loadu_si512(bytes); }

/* fold_512 - as fold128. 0x96 is the truth table of the XOR of three bits. */
WIDE512 static inline __m512i fold_512(__m512i lanes, __m512i by, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(lanes, by, 0x00), high = _mm512_clmulepi64_epi128(lanes, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96);
}

WIDE512 static uint32_t update_512(uint32_t reg, const unsigned char *bytes, size_t nbytes)
{
    if (nbytes < 512)
        return update_128(reg, bytes, nbytes);
    const __m512i by2048 = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1322d1430, 0x11542778a));
    __m512i a = _mm512_xor_si512(load_512(bytes), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)reg)));
    __m512i b = load_512(bytes + 64), c = load_512(bytes + 128), d = load_512(bytes + 192);
    for (bytes += 256, nbytes -= 256; nbytes >= 256; bytes += 256, nbytes -= 256) {
        a = fold_512(a, by2048, load_512(bytes));
        b = fold_512(b, by2048, load_512(bytes + 64));
        c = fold_512(c, by2048, load_512(bytes + 128));
        d = fold_512(d, by2048, load_512(bytes + 192));
    }
    __m512i lanes[4] = {a, b, c, d};
    _mm256_zeroupper();
    return update_128(update_by_clmul(0, (const unsigned char *)lanes, sizeof lanes), bytes, nbytes);
}

#ifdef __x86_64__
#if defined(__clang__) && __clang_major__ >= 14 /* which can have SSE 4.2 without its CRC */
#define SSE42 __attribute__((target("sse4.2,crc32")))
#else
#define SSE42 __attribute__((target("sse4.2")))
#endif

SSE42 static uint64_t crc32c_8(uint64_t reg, const unsigned char *bytes)
{
    return _mm_crc32_u64(reg, load_u64le(bytes));
}

/* update_crc32c_fast - computes three independent lanes of LANE bytes at a time, because the instruction
 * takes three cycles, and a new one can begin in each cycle. */
SSE42 static uint32_t update_crc32c_fast(uint32_t reg, const unsigned char *bytes, size_t nbytes)
{
    enum { LANE = 16384 };
    uint64_t a = reg;
    uint32_t lane_power = nbytes >= 3 * LANE ? power_of_bytes(POLY_32C, LANE) : 0;
    for (; nbytes >= 3 * LANE; bytes += 3 * LANE, nbytes -= 3 * LANE) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            a = crc32c_8(a, bytes + i);
            b = crc32c_8(b, bytes + i + LANE);
            c = crc32c_8(c, bytes + i + 2 * LANE);
        }
        b ^= multiply_mod_poly(POLY_32C, lane_power, (uint32_t)a);
        a = c ^ multiply_mod_poly(POLY_32C, lane_power, (uint32_t)b);
    }
    for (; nbytes >= 8; bytes += 8, nbytes -= 8)
        a = crc32c_8(a, bytes);
    for (; nbytes; bytes++, nbytes--)
        a = _mm_crc32_u8((uint32_t)a, *bytes);
    return (uint32_t)a;
}

static bool cpu_has_crc32c(void) { return __builtin_cpu_supports("sse4.2"); }
#endif

static bool cpu_has_kernel(enum crc32_kernel kernel)
{
    bool clmul = __builtin_cpu_supports("pclmul"), vclmul = clmul && __builtin_cpu_supports("vpclmulqdq");
    switch (kernel) {
    case CRC32_TABLE: return true;
    case CRC32_CLMUL: return clmul;
    case CRC32_CLMUL_256: return vclmul && __builtin_cpu_supports("avx2");
    default: return vclmul && __builtin_cpu_supports("avx512f");
    }
}

static uint32_t update_by_kernel(enum crc32_kernel kernel, uint32_t reg, const unsigned char *bytes,
                                 size_t nbytes)
{
    switch (kernel) {
    case CRC32_TABLE: return update_crc32_by_tables(reg, bytes, nbytes);
    case CRC32_CLMUL: return update_128(reg, bytes, nbytes);
    case CRC32_CLMUL_256: return update_256(reg, bytes, nbytes);
    default: return update_512(reg, bytes, nbytes);
    }
}
#else
static bool cpu_has_kernel(enum crc32_kernel kernel) { return kernel == CRC32_TABLE; }

static uint32_t update_by_kernel(enum crc32_kernel kernel, uint32_t reg, const unsigned char *bytes,
                                 size_t nbytes)
{
    (void)kernel;
    return update_crc32_by_tables(reg, bytes, nbytes);
}
#endif

bool crc32_update_by(enum crc32_kernel kernel, uint32_t *crc, const void *bytes, size_t nbytes)
{
    if (kernel >= CRC32_KERNELS || !cpu_has_kernel(kernel))
        return false;
    *crc = ~update_by_kernel(kernel, ~*crc, bytes, nbytes);
    return true;
}

uint32_t crc32_update(uint32_t crc, const void *bytes, size_t nbytes)
{
    enum crc32_kernel k = nbytes < 64 ? CRC32_TABLE : CRC32_CLMUL_512;
    while (!cpu_has_kernel(k))
        k = (enum crc32_kernel)(k - 1);
    return ~update_by_kernel(k, ~crc, bytes, nbytes);
}

#ifndef __x86_64__
static bool cpu_has_crc32c(void) { return false; }

static uint32_t update_crc32c_fast(uint32_t reg, const unsigned char *bytes, size_t nbytes)
{
    return update_by_tables(crc32c_tables, reg, bytes, nbytes);
}
#endif

uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t nbytes)
{
    return ~update_by_tables(crc32c_tables, ~crc, bytes, nbytes);
}

uint32_t crc_update(enum crc_kind kind, uint32_t crc, const void *bytes, size_t nbytes)
{
    if (kind == CRC_32)
        return crc32_update(crc, bytes, nbytes);
    return cpu_has_crc32c() ? ~update_crc32c_fast(~crc, bytes, nbytes) : crc32c_by_table(crc, bytes, nbytes);
}

const char *crc_name(enum crc_kind kind) { return kind == CRC_32 ? "CRC-32" : "CRC-32C"; }

/* CRCs can be combined as registers are: their inversions at the start and the end cancel out. */
uint32_t crc_combine(enum crc_kind kind, uint32_t first_crc, uint32_t second_crc, uint64_t second_size)
{
    uint32_t poly = kind == CRC_32 ? POLY_32 : POLY_32C;
    return first_crc ? multiply_mod_poly(poly, power_of_bytes(poly, second_size), first_crc) ^ second_crc
                     : second_crc;
}
