/* library.h - functions of shared libraries that are loaded when they are first needed. To link these
 * libraries would double the time that every command takes to start. */
#pragma once

#include <errno.h>
#include <stdbool.h>

#include "base/error.h"

struct library {
    const char *const *sonames;       /* such as "libx.so.1", tried in this order; the last is NULL */
    const char *const *names;         /* of the functions; the last is NULL */
    const char *purpose;              /* for errors: what the library does */
    void (**_Atomic functions)(void); /* in the order of NAMES; NULL: not loaded yet */
    char *_Atomic failure;            /* why it cannot be loaded; NULL: that is not known */
};

/* library_load - sets *OUT to the functions of LIB, in the order of their names: an array that is valid until
 * the process ends. Any thread may call it. After a failure *OUT is NULL; CKPT_EUNSUPPORTED with ENOSYS: the
 * library or one of the functions is missing, for the reason of the first attempt, which is the only one. */
ckpt_status library_load(struct library *lib, const void **out, ckpt_error *err);
/* library_is_missing - returns true if ERR is that of a library that cannot be loaded. */
static inline bool library_is_missing(const ckpt_error *err)
{
    return err->status == CKPT_EUNSUPPORTED && err->sys_errno == ENOSYS;
}

/* A file that uses a library lists the functions in a macro FUNCTIONS(X), as X(name) for each, has
 *     struct NAME {FUNCTIONS(LIBRARY_POINTER)};
 * and then LIBRARY_LOADED or LIBRARY_LINKED. Each defines a function load_NAME, with which the file sets a
 * pointer to a struct of this type. */
#define LIBRARY_POINTER(function) __typeof__(function) *function;
#define LIBRARY_NAME(function)    #function,
#define LIBRARY_ADDRESS(function) .function = function,

#define LIBRARY_LOADED(name, functions, purpose, ...)                                                        \
    static ckpt_status load_##name(const struct name **out, ckpt_error *err)                                 \
    {                                                                                                        \
        static const char *const sonames[] = {__VA_ARGS__, NULL};                                            \
        static const char *const names[] = {functions(LIBRARY_NAME) NULL};                                   \
        static struct library lib = {sonames, names, purpose, NULL, NULL};                                   \
        const void *loaded;                                                                                  \
        ckpt_status st = library_load(&lib, &loaded, err);                                                   \
        *out = loaded;                                                                                       \
        return st;                                                                                           \
    }
#define LIBRARY_LINKED(name, functions)                                                                      \
    static ckpt_status load_##name(const struct name **out, ckpt_error *err)                                 \
    {                                                                                                        \
        static const struct name linked = {functions(LIBRARY_ADDRESS)};                                      \
        (void)err;                                                                                           \
        *out = &linked;                                                                                      \
        return CKPT_OK;                                                                                      \
    }

/* LIBRARY_NOTE - puts a note into the program, by which tools of distributions find what it depends on, as
 * they find linked libraries: https://uapi-group.org/specifications/specs/elf_dlopen_metadata */
#ifdef __ELF__
#define LIBRARY_NOTE(name, soname, priority)                                                                 \
    static const struct {                                                                                    \
        uint32_t owner_size, text_size, type;                                                                \
        char owner[4], text[sizeof LIBRARY_NOTE_TEXT(soname, priority)];                                     \
    } name##_note __attribute__((used, aligned(4), section(".note.dlopen"))) = {                             \
        4, sizeof LIBRARY_NOTE_TEXT(soname, priority), 0x407c0c0a, "FDO",                                    \
        LIBRARY_NOTE_TEXT(soname, priority)};
#define LIBRARY_NOTE_TEXT(soname, priority) "[{\"soname\":[\"" soname "\"],\"priority\":\"" priority "\"}]"
#else
#define LIBRARY_NOTE(name, soname, priority)
#endif
