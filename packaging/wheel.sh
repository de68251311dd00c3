#!/bin/sh
# wheel.sh ARCH… - writes Python wheels to B/dist/wheels: for each ARCH one for glibc, from 2.17 on, and one for musl.
# Both have the static program, and a libckpt.so that needs no library but the C library. Also writes the sources for
# pip. Needs what static.sh needs, and Python 3.11. Two runs with one SOURCE_DATE_EPOCH (default: the time of the last
# commit) write the same bytes.
set -eu
B=${B:-build}
SOURCES=${SOURCES:-$PWD/$B/dist/sources}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
unset MAKEFLAGS MFLAGS MAKELEVEL CC CFLAGS CPPFLAGS LDFLAGS || :
wheels=$B/dist/wheels
umask 022
rm -rf "$wheels"
mkdir -p "$wheels"

# make_wheel ARCH TARGET NAME ROOT PLATFORM - writes the wheel of PLATFORM, whose library is built in B/dist/ARCH/NAME
# for zig's TARGET, with the libraries in B/dist/ARCH/ROOT
make_wheel()
{
    dir=$B/dist/$1
    use_zig "$2" "$PWD/$dir/$4"
    build_libraries "$PWD/$dir/$4"
    build_ckpt "$1" "$dir/$3" libckpt.so -Wl,-z,defs
    printf '  %-5s %s\n' WHEEL "libckpt for $5"
    python3 packaging/wheel.py "$5" "$dir/$3/libckpt.so" "$dir/out/ckpt" "$dir/licences" "$dir/sbom.spdx.json" "$wheels"
}

. packaging/zig.sh
for arch; do
    sh packaging/static.sh "$arch"
    rm -rf "$B/dist/$arch/licences"
    sh packaging/licences.sh "$SOURCES" "$B/dist/$arch/licences"
    python3 packaging/sbom.py "$VERSION" "$arch" >"$B/dist/$arch/sbom.spdx.json"
    make_wheel "$arch" "$arch-linux-gnu.2.17" gnu gnu-root "manylinux_2_17_$arch"
    make_wheel "$arch" "$arch-linux-musl" musl root "musllinux_1_2_$arch"
done
[ ! -e .git ] || python3 packaging/wheel.py sdist "$wheels"
