/* library.c - see library.h. Only this file loads code. */
#include "base/library.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef void (*function)(void);

/* fail_library - fails with the reason that the C library has for the last call. */
static ckpt_status fail_library(const struct library *lib, ckpt_error *err)
{
    const char *why = dlerror();
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "{%s}, which {=%s}, cannot be loaded: %s",
                lib->sonames[0], lib->purpose, why ? why : "unknown error");
}

static ckpt_status open_library(const struct library *lib, void **out, ckpt_error *err)
{
    *out = dlopen(lib->sonames[0], RTLD_NOW | RTLD_LOCAL); /* it stays loaded */
    ckpt_status st = *out ? CKPT_OK : fail_library(lib, err);
    for (size_t i = 1; !*out && lib->sonames[i]; i++)
        *out = dlopen(lib->sonames[i], RTLD_NOW | RTLD_LOCAL);
    return *out ? CKPT_OK : st;
}

static ckpt_status find_functions(const struct library *lib, function *out, size_t n, ckpt_error *err)
{
    void *opened;
    CKPT_TRY(open_library(lib, &opened, err));
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(opened, lib->names[i]);
        if (!at)
            return fail_library(lib, err);
        memcpy(&out[i], &at, sizeof at); /* ISO C has no conversion from objects to functions */
    }
    return CKPT_OK;
}

ckpt_status library_load(struct library *lib, const void **out, ckpt_error *err)
{
    function *known = lib->functions;
    size_t n = 0;
    *out = known;
    if (known)
        return CKPT_OK;
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
