#!/bin/sh
# build.sh - tests the Makefile with the flags of packagers, of cross builds and of builds in another folder. The
# cases build a library of two functions and a small program, which takes a second; hardening is checked in ckpt
# itself.
set -u
B=${B:-build} CC=${CC:-cc} MAKE=${MAKE:-make}
top=$PWD
part=build
. tests/check.sh
# The flags of the calling make do not apply here, and a compiler cache would hide whether make compiles.
export CCACHE_DISABLE=1
unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CPPFLAGS LDFLAGS DESTDIR PREFIX LIBDIR OBJCOPY AR || :

# make_tree DIR - makes a small source tree with the project's layout; the functions below work in the tree made last
make_tree()
{
    dir=$1
    mkdir -p "$dir/lib/base" "$dir/cli" "$dir/man/schema"
    cp -R "$top/Makefile" "$top/libckpt.pc.in" "$top/completion" "$dir"
    cp "$top/lib/libckpt.map" "$dir/lib"
    cat >"$dir/lib/ckpt.h" <<'EOF'
#define CKPT_VERSION       "1.2.3"
#define CKPT_VERSION_MAJOR 1
__attribute__((visibility("default"))) int ckpt_answer(int n);
EOF
    cat >"$dir/lib/api.c" <<'EOF'
#include "base/base.h"
#include "ckpt.h"
int ckpt_answer(int n) { return base_answer(n); }
EOF
    printf 'int base_answer(int n);\n' >"$dir/lib/base/base.h"
    cat >"$dir/lib/base/base.c" <<'EOF'
#include <string.h>
#include "base/base.h"
int base_answer(int n)
{
    char text[64];
    memset(text, n, sizeof text);
    return (int)strlen(memcpy(text, __FILE__, sizeof __FILE__));
}
EOF
    # A function of the program may have the name of an internal function of the library.
    printf 'int base_answer(void);\nint base_answer(void) { return 1; }\n' >"$dir/cli/base.c"
    cat >"$dir/cli/main.c" <<'EOF'
#include <stdio.h>
#include "ckpt.h"
int main(int n, char **v) { return v[0] && printf("%d\n", ckpt_answer(n)) < 0; }
EOF
    for page in ckpt.1 libckpt.3 ckpt-formats.7 schema/ckpt.json; do
        echo "$page" >"$dir/man/$page"
    done
}

run_make() { (cd "$dir" && "$MAKE" --no-print-directory CC="$CC" "$@"); }
check_program() { [ "$("$dir/${1:-build}/ckpt")" -gt 0 ]; }
# exports_only_ckpt - succeeds if the library exports ckpt_answer only
exports_only_ckpt() { [ "$(nm -g --defined-only "$dir/build/libckpt.a" | sed -n 's/.* [A-Z] //p')" = ckpt_answer ]; }
# check_build ARGUMENT… - builds the tree with these arguments of make; a warning is a failure
check_build()
{
    rm -rf "$dir/build"
    run_make "$@" >"$tmp/made" 2>&1 && ! grep -i warning "$tmp/made" && check_program && exports_only_ckpt
    status=$?
    [ $status = 0 ] || cat "$tmp/made"
    return $status
}

# count_compiled ARGUMENT… - runs make and prints how many files it compiled
count_compiled() { run_make "$@" >"$tmp/made" 2>&1 && grep -c '^  CC' "$tmp/made"; }
links_program() { run_make "$@" >"$tmp/made" 2>&1 && grep -q '^  LD.*/ckpt$' "$tmp/made"; }
check_recompiling()
{
    count_compiled >/dev/null
    [ "$(count_compiled CFLAGS=-O1)" = 4 ] && [ "$(count_compiled CFLAGS=-O1)" = 0 ] &&
        [ "$(count_compiled CFLAGS=-O1 CPPFLAGS='-DTEXT="a b"')" = 4 ] && [ "$(count_compiled)" = 4 ]
}
check_relinking()
{
    run_make && links_program LDFLAGS=-Wl,-z,nodlopen && [ "$(count_compiled LDFLAGS=-Wl,-z,nodlopen)" = 0 ] &&
        rm "$dir/lib/base/base.c" && links_program LDFLAGS=-Wl,-z,nodlopen
}

check_failing_objcopy()
{
    run_make clean && ! run_make OBJCOPY=false && run_make && check_program && exports_only_ckpt
}
check_tools_of_caller()
{
    for tool in objcopy ar; do printf '#!/bin/sh\n: >"$0.ran"\nexec %s "$@"\n' $tool >"$tmp/$tool"; done
    chmod +x "$tmp/objcopy" "$tmp/ar"
    run_make clean && run_make OBJCOPY="$tmp/objcopy" AR="$tmp/ar" && [ -e "$tmp/objcopy.ran" ] && [ -e "$tmp/ar.ran" ]
}

# list_files DIR - prints the paths of all files below DIR
list_files() { (cd "$1" && find . ! -type d | sort); }
root="$tmp/an empty root"
check_install()
{
    run_make install DESTDIR="$root" PREFIX=/usr LIBDIR=/usr/lib/some-machine && list_files "$root" >"$tmp/files" &&
        grep -q '^./usr/lib/some-machine/libckpt.so.1.2.3$' "$tmp/files" && ! grep -q '^./usr/lib/lib' "$tmp/files" &&
        [ "$(wc -l <"$tmp/files")" = 14 ] && [ ! -e "$tmp/an" ] && [ ! -e "$dir/empty" ]
}
check_pc_file()
{
    pc=$root/usr/lib/some-machine/pkgconfig/libckpt.pc
    grep -qF 'libdir=${prefix}/lib/some-machine' "$pc" && grep -q '^Requires.private:.*libzip.*zlib.*libcrypto' "$pc"
}
check_uninstall()
{
    run_make uninstall DESTDIR="$root" PREFIX=/usr LIBDIR=/usr/lib/some-machine && [ -z "$(list_files "$root")" ]
}
# In a cross build, the program cannot be run during installation.
check_foreign_install()
{
    run_make && printf 'not for this processor' >"$dir/build/ckpt" && run_make install DESTDIR="$tmp/foreign" &&
        [ -s "$tmp/foreign/usr/local/share/bash-completion/completions/ckpt" ]
}

check_same_bytes()
{
    make_tree "$tmp/one" && run_make && make_tree "$tmp/two/folders/down" && run_make || return 1
    for f in ckpt libckpt.a libckpt.so; do cmp "$tmp/one/build/$f" "$dir/build/$f" || return 1; done
}

check_clean()
{
    run_make && run_make B=other/build && run_make clean B=other/build && [ ! -e "$dir/other/build" ] &&
        [ -x "$dir/build/ckpt" ] && ! run_make clean B=. && [ -e "$dir/lib/api.c" ] && run_make clean &&
        [ ! -e "$dir/build" ]
}

# ----------------------------------------------------------------- ckpt itself

# shellcheck disable=SC2086 # CC may have arguments
accepts_flag() { echo | $CC -Werror "$1" -S -o /dev/null -x c - 2>/dev/null; }
is_position_independent() { readelf -hW "$B/ckpt" | grep -q 'Type: *DYN'; }
has_full_relro() { readelf -dW "$1" | grep -q BIND_NOW && readelf -lW "$1" | grep -q GNU_RELRO; }
has_stack_without_code() { readelf -lW "$1" | grep -q 'GNU_STACK.* RW '; }
# has_packed_relocations FILE - succeeds if FILE has them and says that it needs a C library that knows them
has_packed_relocations() { readelf -dW "$1" | grep -q '(RELR)' && readelf -VW "$1" | grep -q GLIBC_ABI_DT_RELR; }
has_stack_protector() { readelf -sW "$B/ckpt" | grep -q __stack_chk_fail; }
has_fortify() { [ "$(readelf -sW "$B/ckpt" | grep -c '__[a-z]*_chk')" -ge 3 ]; }
has_branch_protection() { readelf -nW "$B/obj/lib/api.o" | grep -Eq 'IBT|BTI'; }

# loads_on_demand FILE - succeeds if FILE links none of the libraries that it loads, and has notes that name them
loads_on_demand()
{
    for soname in $(grep -o '_SONAME=[^ ]*' "$B/compile.flags" | tr -d "'\"" | cut -d = -f 2); do
        readelf -p .note.dlopen "$1" | grep -qF "\"soname\":[\"$soname\"]" || return 1
        ! readelf -dW "$1" | grep -F "[$soname]" || return 1
    done
}
check_linking()
{
    links='-lzip -lz -lcrypto'
    run_make && ! grep -q -e "$links" "$dir/build/link.flags" && grep -q LIBZIP_SONAME "$dir/build/compile.flags" &&
        run_make ON_DEMAND= && grep -q -e "$links" "$dir/build/link.flags" &&
        ! grep -q SONAME "$dir/build/compile.flags"
}

make_tree "$tmp/tree"
check 'CPPFLAGS of the caller' check_build CPPFLAGS=-DSOME=1
check 'CPPFLAGS that fortify' check_build CPPFLAGS=-D_FORTIFY_SOURCE=2
check 'CFLAGS without an optimizer' check_build CFLAGS='-O0 -g'
check 'LTO' check_build CFLAGS='-O2 -g -flto' LDFLAGS=-flto
check 'LTO, fat objects' check_build CFLAGS='-O2 -g -flto=auto -ffat-lto-objects' LDFLAGS='-flto=auto -Wl,-z,relro'
check 'after objcopy has failed, the next make links again' check_failing_objcopy
check 'OBJCOPY and AR of the caller are used' check_tools_of_caller
check 'different flags compile everything again, the same flags nothing' check_recompiling
check 'DESTDIR with a space, LIBDIR' check_install
check 'the .pc file: libdir below prefix, Requires.private' check_pc_file
check 'uninstall with DESTDIR and LIBDIR' check_uninstall
check 'install does not run the program' check_foreign_install
check 'builds in two folders have the same bytes' check_same_bytes
check 'clean removes B, but never the sources' check_clean
check 'different LDFLAGS link again and compile nothing; so does a removed source file' check_relinking
check 'libraries are loaded on demand, or linked by make ON_DEMAND=' check_linking
if command -v clang >/dev/null 2>&1; then
    make_tree "$tmp/clang"
    check 'clang' check_build CC=clang
else
    skip 'clang is not installed'
fi

check 'ckpt is position-independent' is_position_independent
for f in ckpt libckpt.so; do
    check "$f: full RELRO" has_full_relro "$B/$f"
    check "$f: stack without code" has_stack_without_code "$B/$f"
    check "$f: libzip and libcrypto are loaded on demand, which notes declare" loads_on_demand "$B/$f"
    if grep -q pack-relative-relocs "$B/link.flags"; then
        check "$f: relative relocations are packed" has_packed_relocations "$B/$f"
    else
        skip "$f: this linker or C library has no packed relocations"
    fi
done
if accepts_flag -fstack-protector-strong; then
    check 'stack protector' has_stack_protector
else
    skip 'this compiler has no -fstack-protector-strong'
fi
if accepts_flag -fcf-protection=full || accepts_flag -mbranch-protection=standard; then
    check 'branch targets are marked' has_branch_protection
else
    skip 'this compiler does not protect branches'
fi
if getconf GNU_LIBC_VERSION >/dev/null 2>&1 && ! grep -q -- ' -O0 ' "$B/compile.flags"; then
    check 'FORTIFY' has_fortify
else
    skip 'this C library or -O0 does not fortify'
fi
summary
