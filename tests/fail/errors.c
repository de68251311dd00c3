/* errors.c - see errors.h. */
#include "errors.h"

#include <errno.h>
#include <sys/syscall.h>

const int *errors_of_call(const struct trace_call *c)
{
    static const int reading[] = {EIO, EINTR, ERRORS_SHORT, ERRORS_EOF, ERRORS_END},
                     writing[] = {ENOSPC, EIO, EDQUOT, EINTR, ERRORS_SHORT, ERRORS_END},
                     copying[] = {EIO, ENOSPC, EDQUOT, EXDEV, EINVAL, EINTR, ERRORS_SHORT, ERRORS_END},
                     syncing[] = {EIO, ENOSPC, EDQUOT, ERRORS_END},
                     naming[] = {EIO, ENOSPC, EDQUOT, EACCES, ERRORS_END},
                     sizing[] = {EIO, ENOSPC, EDQUOT, EFBIG, ERRORS_END},
                     reserving[] = {ENOSPC, EDQUOT, EIO, EINTR, EOPNOTSUPP, ERRORS_END},
                     opening[] = {EACCES, EMFILE, EIO, ENOSPC, ERRORS_END},
                     other[] = {EIO, EPERM, ERRORS_END}, memory[] = {ENOMEM, ERRORS_END},
                     none[] = {ERRORS_END};
    switch (c->number) {
    case SYS_read:
    case SYS_pread64: return reading;
    case SYS_write: return c->arg[0] == 2 ? none : writing; /* 2: standard error */
    case SYS_pwrite64: return writing;
    case SYS_copy_file_range: return copying;
    case SYS_fsync:
    case SYS_fdatasync: return syncing;
    case SYS_rename:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_linkat: return naming;
    case SYS_ftruncate: return sizing;
    case SYS_fallocate: return reserving;
    case SYS_openat: return opening;
    case SYS_newfstatat:
    case SYS_fstat:
    case SYS_statfs:
    case SYS_fstatfs:
    case SYS_lseek:
    case SYS_flock:
    case SYS_close:
    case SYS_ioctl:
    case SYS_fcntl:
    case SYS_getdents64:
    case SYS_fadvise64:
    case SYS_readlink:
    case SYS_fchmod:
    case SYS_fchown:
    case SYS_fsetxattr:
    case SYS_listxattr:
    case SYS_getxattr: return other;
    case SYS_mmap: return memory;
    default: return none;
    }
}

bool errors_uses_input(const struct trace_call *c)
{
    return c->number == SYS_pread64 || c->number == SYS_read || c->number == SYS_copy_file_range ||
           c->number == SYS_mmap || c->number == SYS_newfstatat || c->number == SYS_fstat ||
           c->number == SYS_fallocate || c->number == SYS_fsync;
}

bool errors_loses_attributes(const struct trace_call *c)
{
    switch (c->number) {
    case SYS_fchown:
    case SYS_fchmod:
    case SYS_fsetxattr:
    case SYS_getxattr:
    case SYS_listxattr:
    case SYS_mmap: return true;
    default: return false;
    }
}
