/* The unit test program: `unit [SUITE…]` runs the named suites, or all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../sanitized.h"
#include "unit.h"

#define SUITE(name) void suite_##name(void);
#include "suites.def"
#undef SUITE

static const struct {
    const char *name;
    void (*add)(void);
} suites[] = {
#define SUITE(name) {#name, suite_##name},
#include "suites.def"
#undef SUITE
    {NULL, NULL},
};

static CU_pSuite current_suite;

void unit_add(const char *name, void (*test)(void))
{
    if (!CU_add_test(current_suite, name, test))
        abort();
}

static size_t round_to_pages(size_t size, size_t page) { return (size + page - 1) / page * page; }

unsigned char *unit_guard(const void *data, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), span = round_to_pages(size, page);
    unsigned char *at = mmap(NULL, span + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + span, page, PROT_NONE) != 0)
        abort();
    at += span - size;
    if (size)
        memcpy(at, data, size);
    return at;
}

void unit_guard_free(unsigned char *at, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), span = round_to_pages(size, page);
    munmap(at + size - span, span + page);
}

void unit_to_host_order(void *at, size_t n, size_t width)
{
    const uint16_t one = 1;
    const bool big_endian = *(const unsigned char *)&one == 0;
    unsigned char *p = at;
    for (size_t i = 0; big_endian && i < n; i++, p += width)
        for (size_t k = 0; k < width / 2; k++) {
            unsigned char b = p[k];
            p[k] = p[width - 1 - k];
            p[width - 1 - k] = b;
        }
}

bool unit_measures_memory(void)
{
#ifdef SANITIZED
    return false;
#else
    const char *preload = getenv("LD_PRELOAD");
    return !preload || !strstr(preload, "vgpreload");
#endif
}

const char *unit_corpus_path(const char *name)
{
    static char path[1024];
    const char *folder = getenv("CKPT_CORPUS");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/corpus", name);
    return path;
}

static int is_selected(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return argc < 2;
}

int main(int argc, char **argv)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 2;
    for (size_t i = 0; suites[i].name; i++) {
        if (!is_selected(suites[i].name, argc, argv))
            continue;
        current_suite = CU_add_suite(suites[i].name, NULL, NULL);
        suites[i].add();
    }
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned nfailed = CU_get_number_of_tests_failed();
    unsigned nrun = CU_get_number_of_tests_run();
    printf("unit: %u passed, %u failed\n", nrun - nfailed, nfailed);
    CU_cleanup_registry();
    return nfailed != 0;
}
