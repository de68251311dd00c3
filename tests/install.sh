#!/bin/sh
# install.sh - tests `make install` into an empty folder: every file is installed where systems expect it, programs
# build with pkg-config's flags against the shared and the static library, and `make uninstall` removes every file.
set -u
B=${B:-build} CC=${CC:-cc} MAKE=${MAKE:-make}
part=install
. tests/check.sh
prefix=/usr root=$tmp/root
examples=$root$prefix/share/doc/ckpt/examples

run_make() { "$MAKE" --no-print-directory B="$B" PREFIX=$prefix DESTDIR="$root" "$1"; }

# pc_flags OPTION… - runs pkg-config for the installed library
pc_flags() { PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$root$prefix/lib/pkgconfig pkg-config "$@" libckpt; }

runs_shared()
{
    # shellcheck disable=SC2046
    # shellcheck disable=SC2086 # CC may have arguments
    $CC -o "$tmp/shared" "$examples/list.c" -I"$root$prefix/include" \
        -L"$root$prefix/lib" $(pc_flags --cflags --libs) &&
        LD_LIBRARY_PATH=$root$prefix/lib "$tmp/shared" tests/data/examples/train.pt &&
        LD_LIBRARY_PATH=$root$prefix/lib ldd "$tmp/shared" | grep -q "$root$prefix/lib/libckpt.so.0"
}

# runs_static - links libckpt.a, but the shared libraries of its dependencies, because distributions do not have static
# libraries for all of them
runs_static()
{
    private=$(sed -n 's/^Libs.private: *//p' "$root$prefix/lib/pkgconfig/libckpt.pc")
    # shellcheck disable=SC2046,SC2086
    # shellcheck disable=SC2086 # CC may have arguments
    $CC -o "$tmp/static" "$examples/list.c" -I"$root$prefix/include" "$root$prefix/lib/libckpt.a" \
        $(pkg-config --libs $(pc_flags --print-requires-private)) $private && "$tmp/static" tests/data/examples/train.pt
}

has_soname() { readelf -d "$root$prefix/lib/libckpt.so" | grep -q 'SONAME.*\[libckpt.so.0\]'; }
has_links() { [ -e "$root$prefix/lib/libckpt.so.0" ] && [ -f "$root$prefix/lib/libckpt.so.$VERSION" ]; }
has_version() { [ "$(pc_flags --modversion)" = "$VERSION" ]; }
runs() { "$root$prefix/bin/ckpt" --version | grep -q "$VERSION"; }
has_pages()
{
    for page in man/*.[1-9]; do
        [ -f "$root$prefix/share/man/man${page##*.}/${page##*/}" ] || return 1
    done
}
has_schemas()
{
    for schema in man/schema/*.json; do
        [ -f "$root$prefix/share/ckpt/schema/${schema##*/}" ] || return 1
    done
}
has_recipes()
{
    for recipe in share/ckpt/rules/*.rules; do
        cmp "$recipe" "$root$prefix/share/ckpt/rules/${recipe##*/}" || return 1
    done
}
has_examples()
{
    for example in examples/*.c examples/scale/*; do
        cmp "$example" "$examples/${example#examples/}" || return 1
    done
}
has_completions()
{
    [ -s "$root$prefix/share/zsh/site-functions/_ckpt" ] &&
        [ -s "$root$prefix/share/fish/vendor_completions.d/ckpt.fish" ] &&
        PATH=$root$prefix/bin:$PATH bash -c '. "$1"; COMP_WORDS=(ckpt stri); COMP_CWORD=1; _ckpt
            [ "${COMPREPLY[*]}" = strip ]' - "$root$prefix/share/bash-completion/completions/ckpt"
}
leaves_nothing() { [ -z "$(find "$root" ! -type d)" ]; }

check install run_make install
check 'bin/ckpt runs' runs
check 'soname' has_soname
check 'symlinks to the shared library' has_links
check 'man pages' has_pages
check 'schemas' has_schemas
check 'recipes' has_recipes
check 'examples' has_examples
check 'completions' has_completions
if command -v pkg-config >/dev/null 2>&1; then
    check 'pkg-config version' has_version
    check 'a program with the shared library' runs_shared
    check 'a program with the static library' runs_static
else
    echo 'install skipped: pkg-config is not installed, so no program was built with the installed files'
    skipped=3
fi
check uninstall run_make uninstall
check 'uninstall leaves no file' leaves_nothing
summary
