/* simd.c - see simd.h. cpuid is executed once: in a virtual machine it takes 30 us. */
#include "core/simd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>

static bool detect_avx(void)
{
    unsigned a, b, c = 0, d; /* clang 14's __builtin_cpu_supports has no "f16c" */
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

bool simd_avx(void)
{
    static _Atomic unsigned char
        known; /* 0: not detected yet, 1: no, 2: yes; any thread stores the same value */
    unsigned char k = atomic_load_explicit(&known, memory_order_relaxed);
    if (!k) {
        k = detect_avx() ? 2 : 1;
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return k == 2;
}

#else
typedef int simd_none; /* ISO C requires a declaration */
#endif
