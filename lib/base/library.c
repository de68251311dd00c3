/* library.c - see library.h. Only this file loads code. */
#include "base/library.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef void (*function)(void);

/* fail_library - fails with WHY, the reason of the first failure. */
static ckpt_status fail_library(const struct library *lib, const char *why, ckpt_error *err)
{
    (void)fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "{=%s}, which %s, cannot be loaded: {%s}",
               lib->sonames[0], lib->purpose, why);
    if (err)
        err->sys_errno = ENOSYS;
    return CKPT_EUNSUPPORTED;
}

/* fail_first - fails with the reason that the C library has for the last call, and keeps it: after a process
 * gave up its rights, the reason would be another. */
static ckpt_status fail_first(struct library *lib, ckpt_error *err)
{
    const char *why = dlerror();
    char *known = NULL, *kept = strdup(why ? why : "unknown error");
    CKPT_TRY_ALLOC(kept, err);
    if (atomic_compare_exchange_strong(&lib->failure, &known, kept))
        return fail_library(lib, kept, err);
    free(kept);
    return fail_library(lib, known, err); /* another thread was faster */
}

/* open_library - returns the library, opened by the first of its names that works, or NULL. */
static void *open_library(const struct library *lib)
{
    void *opened = NULL;
    for (size_t i = 0; !opened && lib->sonames[i]; i++)
        opened = dlopen(lib->sonames[i], RTLD_NOW | RTLD_LOCAL);
    return opened ? opened : dlopen(lib->sonames[0], RTLD_NOW | RTLD_LOCAL); /* for its reason */
}

static ckpt_status find_functions(struct library *lib, function *out, size_t count, ckpt_error *err)
{
    void *opened = open_library(lib);
    if (!opened)
        return fail_first(lib, err);
    for (size_t i = 0; i < count; i++) {
        void *at = dlsym(opened, lib->names[i]);
        if (!at)
            return fail_first(lib, err);
        memcpy(&out[i], &at, sizeof at); /* ISO C has no conversion from objects to functions */
    }
    return CKPT_OK;
}

ckpt_status library_load(struct library *lib, const void **out, ckpt_error *err)
{
    function *known = lib->functions;
    size_t n = 0;
    const char *why = lib->failure;
    *out = known;
    if (known)
        return CKPT_OK;
    if (why)
        return fail_library(lib, why, err);
    while (lib->names[n])
        n++;
    function *found = calloc(n, sizeof *found);
    ckpt_status st = found ? find_functions(lib, found, n, err) : fail_memory(err);
    if (st == CKPT_OK && atomic_compare_exchange_strong(&lib->functions, &known, found)) {
        *out = found;
        return CKPT_OK;
    }
    free(found);
    *out = known; /* another thread was faster, or NULL after a failure */
    return st;
}
