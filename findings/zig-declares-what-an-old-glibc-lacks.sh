#!/bin/sh
# zig cc 0.17.1, for x86_64-linux-gnu.2.17: renameat2 (of glibc 2.28) is declared and compiled without a warning, but
# statx (of 2.28) and getrandom (of 2.25) are not declared, which is an error. In a shared library, the linker leaves
# renameat2 undefined, with no version behind its name: the library claims to need GLIBC_2.17 at most, and its tags
# pass as manylinux_2_17, but no glibc before 2.28 has the function. An executable does not link. With
# -Wl,-z,defs the library does not link either.
#
# Output seen:
#   renameat2, shared: links
#   renameat2, shared, -Wl,-z,defs: does not
#   renameat2, program: does not
#   getrandom, shared: does not
#   statx, shared: does not
#   the library needs: GLIBC_2.2.5 renameat2
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: ziglang==0.17.1 pyelftools==0.32
export ZIG_GLOBAL_CACHE_DIR="$folder/cache" ZIG_LOCAL_CACHE_DIR="$folder/cache"
cat >"$folder/rename.c" <<'END'
#define _GNU_SOURCE
#include <stdio.h>
int move(void) { return renameat2(0, "a", 0, "b", 0) + puts("moved"); }
#ifdef PROGRAM
int main(void) { return move(); }
#endif
END
cat >"$folder/random.c" <<'END'
#define _GNU_SOURCE
#include <sys/random.h>
long fill(void *bytes) { return getrandom(bytes, 1, 0); }
END
cat >"$folder/statx.c" <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
int look(struct statx *found) { return statx(0, "a", 0, STATX_SIZE, found); }
END
# try TITLE ARGUMENT… - prints whether zig cc makes something
try()
{
    title=$1
    shift
    result='does not'
    "$folder/venv/bin/python" -m ziglang cc -target x86_64-linux-gnu.2.17 -O2 "$@" >/dev/null 2>&1 && result=links
    echo "$title: $result"
}
{
    try 'renameat2, shared' -shared -fPIC "$folder/rename.c" -o "$folder/rename.so"
    try 'renameat2, shared, -Wl,-z,defs' -shared -fPIC -Wl,-z,defs "$folder/rename.c" -o "$folder/defs.so"
    try 'renameat2, program' -DPROGRAM "$folder/rename.c" -o "$folder/rename"
    try 'getrandom, shared' -shared -fPIC "$folder/random.c" -o "$folder/random.so"
    try 'statx, shared' -shared -fPIC "$folder/statx.c" -o "$folder/statx.so"
    "$folder/venv/bin/python" - "$folder/rename.so" <<'END'
import sys
from elftools.elf.elffile import ELFFile

with open(sys.argv[1], "rb") as file:
    elf = ELFFile(file)
    needed = elf.get_section_by_name(".gnu.version_r")
    versions = sorted(auxiliary.name for _, all in needed.iter_versions() for auxiliary in all)
    versions_of = elf.get_section_by_name(".gnu.version")
    names = [symbol.name for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols())
             if symbol.name and symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
             and versions_of.get_symbol(number)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")]
print("the library needs:", *versions, *names)
END
} >"$folder/got"
sed -n 's/^#   //p' "$0" | diff - "$folder/got"
echo 'as seen'
