#!/bin/sh
# static.sh ARCH - builds the static program for ARCH (x86_64, aarch64) in B/dist/ARCH/out, from the sources that fetch.sh
# put in SOURCES (B/dist/sources). Needs zig, pip, cargo and dpkg-source for this, but neither root nor a C compiler.
set -eu
B=${B:-build} MAKE=${MAKE:-make} arch=$1
SOURCES=${SOURCES:-$PWD/$B/dist/sources}
top=$PWD dir=$B/dist/$arch
unset MAKEFLAGS MFLAGS MAKELEVEL CC CFLAGS CPPFLAGS LDFLAGS || :
mkdir -p "$dir"
sh packaging/fetch.sh "$SOURCES"
. packaging/zig.sh
use_zig "$arch-linux-musl" "$top/$dir/root"

# The libraries are built again after a change of what they are made by.
made_by=$(cat packaging/sources.txt packaging/libraries.sh packaging/tools/* | sha256sum)
[ "$(cat "$dir/made-by" 2>/dev/null)" = "$made_by" ] || {
    rm -f "$dir/made-by"
    sh packaging/libraries.sh "$SOURCES" "$top/$dir/root"
    echo "$made_by" >"$dir/made-by"
}

objcopy=objcopy
[ "$arch" = "$(uname -m)" ] || objcopy=$arch-linux-gnu-objcopy
command -v "$objcopy" >/dev/null || { echo "ckpt: there is no command $objcopy" >&2; exit 1; }
# The lists of certificates of Debian and Alpine, Fedora and RHEL, openSUSE, and OpenSSL.
certificates='/etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem'
# The stack is that of threads which libcurl starts; musl's default is 128 KiB.
"$MAKE" --no-print-directory -j"${JOBS:-$(nproc)}" B="$dir/out" CC=ckpt-cc AR=ckpt-ar OBJCOPY="$objcopy" ON_DEMAND= LIBCURL=yes \
    LIBARCHIVE=linked CA_FILES="$certificates" CFLAGS='-O2 -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables' \
    LDFLAGS='-static -pie -s -Wl,--gc-sections -Wl,-z,stack-size=1048576 -lmbedtls -lbz2 -llzma -lzstd -llz4' "$dir/out/ckpt"
