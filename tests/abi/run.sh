#!/bin/sh
# abi/run.sh - tests that a later version may add fields to structs: a program built with this ckpt.h must print the
# same with a library whose structs are 64 bytes longer, and a program built with the longer structs must print the
# same with this library. Then abidiff compares libckpt.so with its description, libckpt.abi, which `make abi`
# writes.
set -u
B=${B:-build} CC=${CC:-cc} MAKE=${MAKE:-make}
part=abi
. tests/check.sh
sample=tests/data/examples/train.pt

# The ckpt.h of a later version: each struct has one more field at its end, but for those that keep their size as
# ckpt.h says; one of these, ckpt_error, has the new field in its reserved bytes.
mkdir "$tmp/later"
fixed='ckpt_(str|pair|path_elem|error|mem_(amount|segment|group))'
sed -E "/^} $fixed;/!s/^} (ckpt_[a-z_]*);/    unsigned char grown[64];\n} \1;/" lib/ckpt.h |
    awk '/^typedef enum/ {in_enum = 1} in_enum && /grown/ {next} /^}/ {in_enum = 0}
         /^    char reserved\[428\];/ {print "    char grown[64];\n    char reserved[364];"; next} {print}' \
        >"$tmp/later/ckpt.h"
nlonger=$(grep -c 'grown\[64\]' "$tmp/later/ckpt.h")

# build_later_library - builds the library with the longer structs, unoptimized to save time
build_later_library()
{
    "$MAKE" --no-print-directory -j2 B="$tmp/later" CC="$CC" CFLAGS=-O0 CPPFLAGS= SAN= ON_DEMAND= \
        DEFINES="-I$tmp/later -Ilib -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64" "$tmp/later/libckpt.so"
}

# run_program NAME HEADERS LIBRARY [FLAG] - builds program.c with the header in HEADERS and runs it with the library
# in LIBRARY; its output is in $tmp/NAME.out
run_program()
{
    # shellcheck disable=SC2086 # CC may have arguments
    $CC -std=c11 -Wall -Wextra -Werror -O1 -fstack-protector-strong ${4:+"$4"} -I"$2" -o "$tmp/program.$1" \
        tests/abi/program.c "$3/libckpt.so" &&
        ln -sf libckpt.so "$3/libckpt.so.0" &&
        LD_LIBRARY_PATH=$3 "$tmp/program.$1" "$sample" "$tmp/out.safetensors" >"$tmp/$1.out"
}
check_same_version() { run_program now lib "$tmp/now" && [ "$(wc -l <"$tmp/now.out")" -gt 40 ]; }
check_later_library() { run_program older lib "$tmp/later" && cmp "$tmp/now.out" "$tmp/older.out"; }
check_later_program() { run_program newer "$tmp/later" "$tmp/now" -DGROWN && cmp "$tmp/now.out" "$tmp/newer.out"; }
compare_description()
{
    abidiff --no-added-syms tests/abi/libckpt.abi "$B/libckpt.so" ||
        { echo 'if this change is intended, run: make abi (see CONTRIBUTING.md)'; return 1; }
}

mkdir "$tmp/now" && cp "$B/libckpt.so" "$tmp/now"
check "the later header has $nlonger longer structs" [ "$nlonger" -ge 30 ]
check 'program and library of this version' check_same_version
check 'the later library is built' build_later_library
check 'program of this version, later library' check_later_library
check 'later program, library of this version' check_later_program
if ! command -v abidiff >/dev/null 2>&1; then
    skip 'libckpt.so is not compared with its description: abidiff (abigail-tools) is not installed'
elif [ "$(uname -m)" != x86_64 ] || ! readelf -S "$B/libckpt.so" | grep -q '\.debug_info'; then
    skip 'libckpt.so is not compared with its description: that requires x86-64 and debugging information'
else
    check 'the interface is the one in libckpt.abi' compare_description
fi
summary
