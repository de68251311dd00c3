/* renameat2.h - renameat2(2) for C libraries without it, such as musl before 1.2.5. */
#pragma once

#include <stdio.h>

#ifndef RENAME_NOREPLACE
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}
#endif
