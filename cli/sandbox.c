/* sandbox.c - the sandbox by seccomp(2) of Linux: a filter program in the kernel checks the number and the
 * arguments of each system call. All but the listed ones fail with EPERM; so do all of other architectures.
 * open() may only make a temporary file without a name (O_TMPFILE), into which archives are unpacked. */
#include "sandbox.h"
#include "print.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field))
/* Loads the low half of argument I: both processors are little-endian. */
#define LOAD_ARG(i) LOAD(args[i])
#define RET(what)   BPF_STMT(BPF_RET | BPF_K, what)
#define REFUSE      RET(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), RET(SECCOMP_RET_ALLOW)
/* IF_NONE runs the next instruction only if the loaded argument has none of BITS; IF_ALL, if it has all. */
#define IF_NONE(bits) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0)
#define IF_ALL(bits)                                                                                         \
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1)
/* ALLOW_IF_NONE refuses the call NAME unless its argument I has none of BITS; ALLOW_IF_ALL, unless it has
 * all. For any other call, both skip their instructions. */
#define ALLOW_IF_NONE(name, i, bits)                                                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 4), LOAD_ARG(i), IF_NONE(bits),                       \
        RET(SECCOMP_RET_ALLOW), REFUSE
#define ALLOW_IF_ALL(name, i, bits)                                                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 5), LOAD_ARG(i), IF_ALL(bits),                        \
        RET(SECCOMP_RET_ALLOW), REFUSE

bool sandbox_enter(void)
{
    static struct sock_filter rules[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        REFUSE,
        LOAD(nr),
        ALLOW(read),
        ALLOW(pread64),
        ALLOW(write),
        ALLOW(writev),
        ALLOW(pwrite64),
        ALLOW(lseek),
        ALLOW(close),
        ALLOW(fstat),
        ALLOW(newfstatat),
#ifdef __x86_64__ /* system calls that musl makes on x86-64 */
        ALLOW(stat),
        ALLOW(lstat),
        ALLOW(readv),
#endif
        ALLOW(fadvise64),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(brk),
        ALLOW(futex),
        ALLOW(getrandom),
        ALLOW(clock_gettime),
        ALLOW(sysinfo),
        ALLOW(getpid),
        ALLOW(gettid),
        ALLOW(rt_sigprocmask),
        ALLOW(rt_sigreturn),
        ALLOW(sigaltstack),
        ALLOW(exit),
        ALLOW(exit_group),
        ALLOW_IF_NONE(mmap, 2, PROT_EXEC),
        ALLOW_IF_NONE(mprotect, 2, PROT_EXEC),
        ALLOW_IF_ALL(openat, 2, O_TMPFILE),
#ifdef __x86_64__ /* musl's open() on x86-64 */
        ALLOW_IF_ALL(open, 1, O_TMPFILE),
#endif
        REFUSE,
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static bool check_refused(const char *what, long result)
{
    bool refused = result < 0 && errno == EPERM;
    print_text(stdout, "%-18s %s\n", what,
               refused      ? "refused"
               : result < 0 ? strerror(errno)
                            : "NOT REFUSED");
    return refused;
}

bool sandbox_self_test(void)
{
    char *no_arguments[] = {NULL};
    bool all_refused = check_refused("open", open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    all_refused = check_refused("create", open("/tmp/ckpt", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) &&
                  all_refused;
    all_refused = check_refused("execve", execve("/bin/true", no_arguments, no_arguments)) && all_refused;
    all_refused = check_refused("fork", syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L)) && all_refused;
    all_refused = check_refused("socket", socket(AF_INET, SOCK_STREAM, 0)) && all_refused;
    all_refused = check_refused("unlink", unlink("/tmp/ckpt")) && all_refused;
    all_refused = check_refused("kill", syscall(SYS_kill, (long)getpid(), 0L)) && all_refused;
    all_refused = check_refused("ptrace", syscall(SYS_ptrace, 0L, 0L, 0L, 0L)) && all_refused;
    /* not mmap(), which reports this refusal as ENOMEM with musl */
    long code = syscall(SYS_mmap, NULL, 4096L, (long)(PROT_READ | PROT_EXEC),
                        (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
    return check_refused("executable memory", code) && all_refused;
}

#else

bool sandbox_enter(void) { return false; }
bool sandbox_self_test(void) { return false; }

#endif
