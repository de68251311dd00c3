#!/bin/sh
# abi/run.sh - tests that structs may grow: a program built with this ckpt.h must print the same with a library whose
# structs are 64 bytes longer, and one built with the longer structs must print the same with this library. Then abidiff
# compares libckpt.so with its description, libckpt.abi, which `make abi` writes.
set -u
B=${B:-build} CC=${CC:-cc} MAKE=${MAKE:-make}
part=abi
. tests/check.sh
sample=tests/data/examples/train.pt

# The header of a later version: each struct has one more field at its end, except four of fixed size, of which
# ckpt_error has the new field in its reserved bytes.
mkdir "$tmp/later"
sed -e '/^} ckpt_\(str\|pair\|path_elem\|error\);/!s/^} \(ckpt_[a-z_]*\);/    unsigned char grown[64];\n} \1;/' \
    lib/ckpt.h |
    awk '/^typedef enum/ {in_enum = 1} in_enum && /grown/ {next} /^}/ {in_enum = 0}
         /^    char reserved\[428\];/ {print "    char grown[64];\n    char reserved[364];"; next} {print}' \
        >"$tmp/later/ckpt.h"
grown=$(grep -c 'grown\[64\]' "$tmp/later/ckpt.h")

library()
{
    # The same sources with the longer structs, unoptimized, which is quicker to build.
    "$MAKE" --no-print-directory -j2 B="$tmp/lib" CC="$CC" CFLAGS=-O0 CPPFLAGS= SAN= \
        DEFINES="-I$tmp/later -Ilib -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64" "$tmp/lib/libckpt.so"
}

# program NAME HEADERS LIBRARY [FLAG] - builds the program with HEADERS, runs it with LIBRARY and prints its output
program()
{
    "$CC" -std=c11 -Wall -Wextra -Werror -O1 -fstack-protector-strong ${4:+"$4"} -I"$2" -o "$tmp/$1" \
        tests/abi/program.c "$3/libckpt.so" &&
        ln -sf libckpt.so "$3/libckpt.so.0" &&
        LD_LIBRARY_PATH=$3 "$tmp/$1" "$sample" "$tmp/out.safetensors" >"$tmp/$1.out"
}
runs_as_built() { program now lib "$here" && [ "$(wc -l <"$tmp/now.out")" -gt 40 ]; }
older_program() { program older lib "$tmp/lib" && cmp "$tmp/now.out" "$tmp/older.out"; }
newer_program() { program newer "$tmp/later" "$here" -DGROWN && cmp "$tmp/now.out" "$tmp/newer.out"; }
as_described()
{
    abidiff --no-added-syms tests/abi/libckpt.abi "$B/libckpt.so" ||
        { echo 'if that is meant: make abi (CONTRIBUTING.md)'; return 1; }
}

here=$tmp/here
mkdir "$here" && cp "$B/libckpt.so" "$here"
check "a header with $grown longer structs" [ "$grown" -ge 30 ]
check 'a program as it was built' runs_as_built
check 'a library with longer structs' library
check 'an older program with a newer library' older_program
check 'a newer program with an older library' newer_program
if ! command -v abidiff >/dev/null 2>&1; then
    skip 'no abidiff (abigail-tools), so libckpt.so was not compared with its description'
elif [ "$(uname -m)" != x86_64 ] || ! readelf -S "$B/libckpt.so" | grep -q '\.debug_info'; then
    skip 'tests/abi/libckpt.abi describes an x86-64 library, and abidiff needs one with debugging information'
else
    check 'the interface that was described' as_described
fi
summary
