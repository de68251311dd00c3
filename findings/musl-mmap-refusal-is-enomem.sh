#!/bin/sh
# musl (as zig 0.17.1 links it): mmap of anonymous memory at an address of the kernel's choice sets errno to ENOMEM
# when the kernel's answer is EPERM. A program whose sandbox refuses executable memory is told that memory is out, and
# a test of the sandbox that expects EPERM fails. glibc gives EPERM, and so does musl for the same call by syscall(),
# at an address of the program's choice (MAP_FIXED), and for mprotect.
#
# Output seen:
#   glibc, mmap: EPERM
#   glibc, mmap at an address: EPERM
#   glibc, syscall: EPERM
#   glibc, mprotect: EPERM
#   musl, mmap: ENOMEM
#   musl, mmap at an address: EPERM
#   musl, syscall: EPERM
#   musl, mprotect: EPERM
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: ziglang==0.17.1
export ZIG_GLOBAL_CACHE_DIR="$folder/cache" ZIG_LOCAL_CACHE_DIR="$folder/cache"
cat >"$folder/map.c" <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Both calls have the protection as their third argument. */
static struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static void show(const char *libc, const char *call, int succeeds)
{
    printf("%s, %s: %s\n", libc, call,
           succeeds ? "succeeds" : errno == EPERM ? "EPERM" : errno == ENOMEM ? "ENOMEM" : "another error");
}

int main(int argc, char **argv)
{
    const struct sock_fprog filter = {sizeof code / sizeof *code, code};
    const char *libc = argc > 1 ? argv[1] : "";
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS, allowed = PROT_READ | PROT_EXEC;
    void *page = mmap(NULL, 4096, PROT_READ, kind, -1, 0);
    if (page == MAP_FAILED || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 1;
    show(libc, "mmap", mmap(NULL, 4096, allowed, kind, -1, 0) != MAP_FAILED);
    show(libc, "mmap at an address", mmap(page, 4096, allowed, kind | MAP_FIXED, -1, 0) != MAP_FAILED);
    show(libc, "syscall", syscall(SYS_mmap, NULL, 4096L, (long)allowed, (long)kind, -1L, 0L) != -1);
    show(libc, "mprotect", mprotect(page, 4096, allowed) == 0);
    return 0;
}
END
for target in gnu musl; do
    "$folder/venv/bin/python" -m ziglang cc -target x86_64-linux-$target -O2 "$folder/map.c" -o "$folder/$target"
done
{
    "$folder/gnu" glibc
    "$folder/musl" musl
} >"$folder/got"
sed -n 's/^#   //p' "$0" | diff - "$folder/got"
echo 'as seen'
