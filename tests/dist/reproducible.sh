#!/bin/sh
# dist/reproducible.sh ARCH… - runs `make dist` a second time, in a clone whose path is longer and has a blank, later,
# with another locale, time zone and umask, and one job: what is published and the libraries must have the bytes of
# those in B/dist.
set -u
B=${B:-build} part=reproducible
top=$PWD
sources=${SOURCES:-$top/$B/dist/sources}
. tests/check.sh
changed=$(git status --porcelain 2>&1) && [ -z "$changed" ] || {
    skip 'what is not committed would not be in the clone'
    summary
    exit
}
clone="$tmp/a folder/ckpt"
build_again() # in a shell of its own, because it changes the folder and the umask
(
    git clone -q "$top" "$clone" && cd "$clone" && umask 077 &&
        env -u SOURCE_DATE_EPOCH -u MAKEFLAGS -u MFLAGS -u MAKELEVEL LC_ALL=C.UTF-8 TZ=Asia/Kolkata JOBS=1 B=build \
            SOURCES="$sources" "${MAKE:-make}" dist ARCHS="$*"
)
check 'it builds in another folder' build_again "$@"

# sums DIR… - prints the sums of all files in DIR
sums() { find "$@" -type f | sort | tr '\n' '\0' | xargs -0 sha256sum; }
same_release()
{
    (cd "$B/dist/release" && sums .) >"$tmp/a" && (cd "$clone/build/dist/release" && sums .) >"$tmp/b" &&
        [ -s "$tmp/a" ] && diff "$tmp/a" "$tmp/b"
}
check 'what is published is the same' same_release
same_libraries()
{
    (cd "$B/dist/$1" && sums root/lib/*.a out/ckpt) >"$tmp/a" &&
        (cd "$clone/build/dist/$1" && sums root/lib/*.a out/ckpt) >"$tmp/b" && diff "$tmp/a" "$tmp/b"
}
for arch; do check "program and libraries of $arch are the same" same_libraries "$arch"; done
summary
