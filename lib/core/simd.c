/* simd.c - what the processor can do, asked once: a virtual machine takes 30 us to
 * answer cpuid. */
#include "core/simd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>

static bool ask(void)
{
    unsigned a, b, c = 0, d; /* clang 14 knows no "f16c" to ask for */
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

bool simd_avx(void)
{
    static _Atomic unsigned char known; /* 0: not asked yet, 1: no, 2: yes; by any thread, always the same */
    unsigned char k = atomic_load_explicit(&known, memory_order_relaxed);
    if (!k) {
        k = ask() ? 2 : 1;
        atomic_store_explicit(&known, k, memory_order_relaxed);
    }
    return k == 2;
}

#else
typedef int simd_none; /* a file has to declare something */
#endif
