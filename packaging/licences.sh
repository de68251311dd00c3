#!/bin/sh
# licences.sh SOURCES DIR - writes to DIR the licences of what is linked into the static program, from its sources
set -eu
sources=$1 dir=$2
mkdir -p "$dir"
# of_crate NAME PATTERN FILE…, of_debian NAME - write the licence in these files, or Debian's record of it
of_crate()
{
    name=$1 crate=$2
    shift 2
    for file; do tar -xOf "$sources"/$crate-*.crate --wildcards "$crate-*/$file"; done >"$dir/$name"
}
of_debian() { tar -xOf "$sources/$1"_*.debian.tar.xz debian/copyright >"$dir/$1"; }
of_crate bzip2 bzip2-sys bzip2-1.0.8/LICENSE
of_crate curl curl-sys curl/COPYING
of_crate lz4 lz4-sys liblz4/lib/LICENSE
of_crate openssl openssl-src openssl/LICENSE.txt
of_crate xz liblzma-sys xz/COPYING xz/COPYING.0BSD
of_crate zlib libz-sys src/zlib/LICENSE
of_crate zstd zstd-sys zstd/LICENSE
for name in cjson libarchive libzip mbedtls xxhash; do of_debian "$name"; done
# of_zig NAME FILE - writes the licence in this file of zig's package
of_zig()
{
    python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
        "$sources"/ziglang-*.whl "ziglang/$2" >"$dir/$1"
}
of_zig musl lib/libc/musl/COPYRIGHT
of_zig zig LICENSE # libraries that the compiler adds
