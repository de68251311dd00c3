#!/bin/sh
# install.sh - tests `make install` into an empty folder: every file is installed where systems expect it, a program
# builds with pkg-config alone, shared and static, and `make uninstall` removes every file.
set -u
B=${B:-build} CC=${CC:-cc} MAKE=${MAKE:-make}
part=install
. tests/check.sh
prefix=/usr root=$tmp/root
examples=$root$prefix/share/doc/ckpt/examples

make_it() { "$MAKE" --no-print-directory B="$B" PREFIX=$prefix DESTDIR="$root" "$1"; }

# The folder of header and library that pkg-config reports.
flags() { PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$root$prefix/lib/pkgconfig pkg-config "$@" libckpt; }

shared()
{
    # shellcheck disable=SC2046
    "$CC" -o "$tmp/shared" "$examples/list.c" -I"$root$prefix/include" -L"$root$prefix/lib" $(flags --cflags --libs) &&
        LD_LIBRARY_PATH=$root$prefix/lib "$tmp/shared" tests/data/examples/train.pt &&
        LD_LIBRARY_PATH=$root$prefix/lib ldd "$tmp/shared" | grep -q "$root$prefix/lib/libckpt.so.0"
}

# The static library with its dependencies as shared libraries, because distributions do not have all as archives.
static()
{
    private=$(sed -n 's/^Libs.private: *//p' "$root$prefix/lib/pkgconfig/libckpt.pc")
    # shellcheck disable=SC2046,SC2086
    "$CC" -o "$tmp/static" "$examples/list.c" -I"$root$prefix/include" "$root$prefix/lib/libckpt.a" \
        $(pkg-config --libs $(flags --print-requires-private)) $private && "$tmp/static" tests/data/examples/train.pt
}

# An installed program must be linked with the library of the header's version.
soname() { readelf -d "$root$prefix/lib/libckpt.so" | grep -q 'SONAME.*\[libckpt.so.0\]'; }
links() { [ -e "$root$prefix/lib/libckpt.so.0" ] && [ -f "$root$prefix/lib/libckpt.so.$VERSION" ]; }
version() { [ "$(flags --modversion)" = "$VERSION" ]; }
runs() { "$root$prefix/bin/ckpt" --version | grep -q "$VERSION"; }
pages() { for p in man/*.[1-9]; do [ -f "$root$prefix/share/man/man${p##*.}/${p##*/}" ] || return 1; done; }
schemas() { for s in man/schema/*.json; do [ -f "$root$prefix/share/ckpt/schema/${s##*/}" ] || return 1; done; }
examples() { for e in examples/*.c; do cmp "$e" "$examples/${e##*/}" || return 1; done; }
completions()
{
    [ -s "$root$prefix/share/zsh/site-functions/_ckpt" ] &&
        [ -s "$root$prefix/share/fish/vendor_completions.d/ckpt.fish" ] &&
        PATH=$root$prefix/bin:$PATH bash -c '. "$1"; COMP_WORDS=(ckpt stri); COMP_CWORD=1; _ckpt
            [ "${COMPREPLY[*]}" = strip ]' - "$root$prefix/share/bash-completion/completions/ckpt"
}
nothing_left() { [ -z "$(find "$root" ! -type d)" ]; }

check install make_it install
check 'bin/ckpt runs' runs
check 'soname' soname
check 'links to the shared library' links
check 'man pages' pages
check 'schemas' schemas
check 'examples' examples
check 'completions' completions
if command -v pkg-config >/dev/null 2>&1; then
    check 'pkg-config version' version
    check 'a program with the shared library' shared
    check 'a program with the static library' static
else
    echo 'install skipped: no pkg-config, so no program was built against what was installed'
    skipped=3
fi
check uninstall make_it uninstall
check 'nothing left behind' nothing_left
summary
