/* renameat2.h - renameat2(2) for C libraries without it: musl before 1.2.5, and glibc before 2.28, even if
 * the headers are of a later one. */
#pragma once

#include <stdio.h>

#ifndef RENAME_NOREPLACE
#include <linux/fs.h>
#define NEEDS_RENAMEAT2
#elif defined __GLIBC__ && defined __GLIBC_PREREQ
#if !__GLIBC_PREREQ(2, 28)
#define NEEDS_RENAMEAT2
#endif
#endif

#ifdef NEEDS_RENAMEAT2
#include <sys/syscall.h>
#include <unistd.h>

static inline int renameat2_by_number(int from_dir, const char *from, int to_dir, const char *to,
                                      unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}
#define renameat2 renameat2_by_number
#endif
