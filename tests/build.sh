#!/bin/sh
# build.sh - tests the Makefile with the flags of packagers, of cross builds and of builds in another folder. The cases
# build a library of two functions and a small program, which takes a second; hardening is checked in ckpt itself.
set -u
B=${B:-build} CC=${CC:-cc} MAKE=${MAKE:-make}
top=$PWD
part=build
. tests/check.sh
# The flags of the calling make do not apply here, and a compiler cache would hide whether make compiles.
export CCACHE_DISABLE=1
unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CPPFLAGS LDFLAGS DESTDIR PREFIX LIBDIR OBJCOPY AR || :

# make_tree DIR - makes a small source tree with the project's layout, in which the next calls of make_it run
make_tree()
{
    dir=$1
    mkdir -p "$dir/lib/base" "$dir/cli" "$dir/man/schema"
    cp -R "$top/Makefile" "$top/libckpt.pc.in" "$top/completion" "$dir"
    cp "$top/lib/libckpt.map" "$dir/lib"
    cat >"$dir/lib/ckpt.h" <<'EOF'
#define CKPT_VERSION "1.2.3"
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
    # The program may use internal names of the library, too.
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

make_it() { (cd "$dir" && "$MAKE" --no-print-directory CC="$CC" "$@"); }
runs_program() { [ "$("$dir/${1:-build}/ckpt")" -gt 0 ]; }
# exports_only_ckpt - returns whether the library exports ckpt_answer only
exports_only_ckpt() { [ "$(nm -g --defined-only "$dir/build/libckpt.a" | sed -n 's/.* [A-Z] //p')" = ckpt_answer ]; }
builds()
{
    rm -rf "$dir/build"
    make_it "$@" >"$tmp/made" 2>&1 && ! grep -i warning "$tmp/made" && runs_program && exports_only_ckpt
    status=$?
    [ $status = 0 ] || cat "$tmp/made"
    return $status
}

compiled() { make_it "$@" >"$tmp/made" 2>&1 && grep -c '^  CC' "$tmp/made"; }
linked() { make_it "$@" >"$tmp/made" 2>&1 && grep -q '^  LD.*/ckpt$' "$tmp/made"; }
rebuilt()
{
    compiled >/dev/null
    [ "$(compiled CFLAGS=-O1)" = 4 ] && [ "$(compiled CFLAGS=-O1)" = 0 ] &&
        [ "$(compiled CFLAGS=-O1 CPPFLAGS='-DTEXT="a b"')" = 4 ] && [ "$(compiled)" = 4 ]
}
relinked()
{
    make_it && linked LDFLAGS=-Wl,-z,nodlopen && [ "$(compiled LDFLAGS=-Wl,-z,nodlopen)" = 0 ] &&
        rm "$dir/lib/base/base.c" && linked LDFLAGS=-Wl,-z,nodlopen
}

failed_tool()
{
    make_it clean && ! make_it OBJCOPY=false && make_it && runs_program && exports_only_ckpt
}
own_tools()
{
    for tool in objcopy ar; do printf '#!/bin/sh\n: >"$0.ran"\nexec %s "$@"\n' $tool >"$tmp/$tool"; done
    chmod +x "$tmp/objcopy" "$tmp/ar"
    make_it clean && make_it OBJCOPY="$tmp/objcopy" AR="$tmp/ar" && [ -e "$tmp/objcopy.ran" ] && [ -e "$tmp/ar.ran" ]
}

files() { (cd "$1" && find . ! -type d | sort); }
room=
installed()
{
    room="$tmp/an empty root"
    make_it install DESTDIR="$room" PREFIX=/usr LIBDIR=/usr/lib/some-machine && files "$room" >"$tmp/files" &&
        grep -q '^./usr/lib/some-machine/libckpt.so.1.2.3$' "$tmp/files" && ! grep -q '^./usr/lib/lib' "$tmp/files" &&
        [ "$(wc -l <"$tmp/files")" = 14 ] && [ ! -e "$tmp/an" ] && [ ! -e "$dir/empty" ]
}
pkg_config()
{
    pc=$room/usr/lib/some-machine/pkgconfig/libckpt.pc
    grep -qF 'libdir=${prefix}/lib/some-machine' "$pc" && grep -q '^Requires.private:.*libzip.*zlib.*libcrypto' "$pc"
}
uninstalled()
{
    make_it uninstall DESTDIR="$room" PREFIX=/usr LIBDIR=/usr/lib/some-machine && [ -z "$(files "$room")" ]
}
# In a cross build, the program cannot be run during installation.
foreign()
{
    make_it && printf 'not for this processor' >"$dir/build/ckpt" && make_it install DESTDIR="$tmp/foreign" &&
        [ -s "$tmp/foreign/usr/local/share/bash-completion/completions/ckpt" ]
}

same_bytes()
{
    make_tree "$tmp/one" && make_it && make_tree "$tmp/two/folders/down" && make_it || return 1
    for f in ckpt libckpt.a libckpt.so; do cmp "$tmp/one/build/$f" "$dir/build/$f" || return 1; done
}

cleaned()
{
    make_it && make_it B=other/build && make_it clean B=other/build && [ ! -e "$dir/other/build" ] &&
        [ -x "$dir/build/ckpt" ] && ! make_it clean B=. && [ -e "$dir/lib/api.c" ] && make_it clean &&
        [ ! -e "$dir/build" ]
}

# ----------------------------------------------------------------- ckpt itself

accepts() { echo | "$CC" -Werror "$1" -S -o /dev/null -x c - 2>/dev/null; }
position_independent() { readelf -hW "$B/ckpt" | grep -q 'Type: *DYN'; }
bound_at_start() { readelf -dW "$1" | grep -q BIND_NOW && readelf -lW "$1" | grep -q GNU_RELRO; }
stack_not_code() { readelf -lW "$1" | grep -q 'GNU_STACK.* RW '; }
guarded() { readelf -sW "$B/ckpt" | grep -q __stack_chk_fail; }
fortified() { [ "$(readelf -sW "$B/ckpt" | grep -c '__[a-z]*_chk')" -ge 3 ]; }
branches_marked() { readelf -nW "$B/obj/lib/api.o" | grep -Eq 'IBT|BTI'; }

make_tree "$tmp/tree"
check 'CPPFLAGS of the caller' builds CPPFLAGS=-DSOME=1
check 'CPPFLAGS that fortify' builds CPPFLAGS=-D_FORTIFY_SOURCE=2
check 'CFLAGS without an optimizer' builds CFLAGS='-O0 -g'
check 'LTO' builds CFLAGS='-O2 -g -flto' LDFLAGS=-flto
check 'LTO, fat objects' builds CFLAGS='-O2 -g -flto=auto -ffat-lto-objects' LDFLAGS='-flto=auto -Wl,-z,relro'
check 'after objcopy has failed, the next make links again' failed_tool
check 'OBJCOPY and AR of the caller are used' own_tools
check 'different flags compile everything again, the same flags nothing' rebuilt
check 'DESTDIR with a space, LIBDIR' installed
check 'the .pc file: libdir below prefix, Requires.private' pkg_config
check 'uninstall from there' uninstalled
check 'install does not run the program' foreign
check 'builds in two folders have the same bytes' same_bytes
check 'clean removes B, but never the sources' cleaned
check 'different LDFLAGS link again and compile nothing; so does a removed source file' relinked
if command -v clang >/dev/null 2>&1; then
    make_tree "$tmp/clang"
    check 'clang' builds CC=clang
else
    skip 'no clang'
fi

check 'ckpt is position-independent' position_independent
for f in ckpt libckpt.so; do
    check "$f: full RELRO" bound_at_start "$B/$f"
    check "$f: stack without code" stack_not_code "$B/$f"
done
if accepts -fstack-protector-strong; then check 'stack protector' guarded; else skip 'no stack protector'; fi
if accepts -fcf-protection=full || accepts -mbranch-protection=standard; then
    check 'branch targets are marked' branches_marked
else
    skip 'no protection of branches'
fi
if getconf GNU_LIBC_VERSION >/dev/null 2>&1 && ! grep -q -- ' -O0 ' "$B/compile.flags"; then
    check 'FORTIFY' fortified
else
    skip 'this C library or -O0 does not fortify'
fi
summary
