#!/bin/sh
# static.sh ARCH - builds the static program for ARCH (x86_64, aarch64) in B/dist/ARCH/out, from the sources that fetch.sh
# put in SOURCES (B/dist/sources). Needs zig, pip, cargo and dpkg-source for this, but neither root nor a C compiler.
set -eu
B=${B:-build} arch=$1
SOURCES=${SOURCES:-$PWD/$B/dist/sources}
dir=$B/dist/$arch
unset MAKEFLAGS MFLAGS MAKELEVEL CC CFLAGS CPPFLAGS LDFLAGS || :
sh packaging/fetch.sh "$SOURCES"
. packaging/zig.sh
use_zig "$arch-linux-musl" "$PWD/$dir/root"
build_libraries "$PWD/$dir/root"
# The stack is that of threads which libcurl starts; musl's default is 128 KiB.
build_ckpt "$arch" "$dir/out" ckpt -static -pie -Wl,-z,stack-size=1048576
