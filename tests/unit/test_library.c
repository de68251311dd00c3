/* Libraries are loaded when they are needed; what is missing is an error. */
#include "base/library.h"
#include "unit.h"

#define FUNCTIONS(X) X(strlen) X(strcmp)
#define LACKING(X)   X(strlen) X(fails_to_exist)

size_t fails_to_exist(void); /* is nowhere defined */

struct text {
    FUNCTIONS(LIBRARY_POINTER)
};
struct lacking {
    LACKING(LIBRARY_POINTER)
};
struct missing {
    FUNCTIONS(LIBRARY_POINTER)
};
struct linked {
    FUNCTIONS(LIBRARY_POINTER)
};

/* The second name is that of glibc, the third that of musl. */
LIBRARY_LOADED(text, FUNCTIONS, "counts", "libckpt-none.so.0", "libc.so.6", "libc.so")
LIBRARY_LOADED(lacking, LACKING, "counts", "libckpt-none.so.0", "libc.so.6", "libc.so")
LIBRARY_LOADED(missing, FUNCTIONS, "counts", "libckpt-none.so.0")
LIBRARY_LINKED(linked, FUNCTIONS)

static void the_first_library_that_exists_is_loaded_once(void)
{
    ckpt_error err;
    const struct text *first, *second;
    CU_ASSERT_FATAL(load_text(&first, &err) == CKPT_OK);
    CU_ASSERT(first->strlen("four") == 4 && first->strcmp("a", "a") == 0);
    CU_ASSERT(load_text(&second, NULL) == CKPT_OK);
    CU_ASSERT_PTR_EQUAL(first, second);
}

static void a_missing_library_is_an_error(void)
{
    ckpt_error err;
    const struct missing *lib;
    CU_ASSERT_EQUAL(load_missing(&lib, &err), CKPT_EUNSUPPORTED);
    CU_ASSERT_PTR_NULL(lib);
    CU_ASSERT(strstr(err.what, "libckpt-none.so.0, which counts, cannot be loaded: ") == err.what);
    CU_ASSERT_STRING_EQUAL(err.allowed, "libckpt-none.so.0");
    CU_ASSERT(err.found[0] && strstr(err.what, err.found) && library_is_missing(&err));
    CU_ASSERT_EQUAL(load_missing(&lib, NULL), CKPT_EUNSUPPORTED);
}

static void the_first_reason_is_kept(void)
{
    static const char *sonames[] = {"libckpt-none.so.0", NULL}, *names[] = {"strlen", NULL};
    static struct library lib = {sonames, names, "counts", NULL, NULL};
    ckpt_error first, second;
    const void *loaded;
    CU_ASSERT_EQUAL(library_load(&lib, &loaded, &first), CKPT_EUNSUPPORTED);
    sonames[0] = "/"; /* the reason of this name is another */
    CU_ASSERT_EQUAL(library_load(&lib, &loaded, &second), CKPT_EUNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(first.found, second.found);
}

static void a_library_without_a_function_is_an_error(void)
{
    ckpt_error err;
    const struct lacking *lib;
    CU_ASSERT_EQUAL(load_lacking(&lib, &err), CKPT_EUNSUPPORTED);
    CU_ASSERT_PTR_NULL(lib);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.what, "fails_to_exist"));
}

static void a_linked_library_is_always_there(void)
{
    const struct linked *lib;
    CU_ASSERT_FATAL(load_linked(&lib, NULL) == CKPT_OK);
    CU_ASSERT_EQUAL(lib->strlen("four"), 4);
}

void suite_library(void)
{
    UNIT(the_first_library_that_exists_is_loaded_once);
    UNIT(a_missing_library_is_an_error);
    UNIT(the_first_reason_is_kept);
    UNIT(a_library_without_a_function_is_an_error);
    UNIT(a_linked_library_is_always_there);
}
