#!/bin/sh
# install.sh [--write] - tests `make install` into an empty folder: the files are those of install.files, programs build
# with the flags of pkg-config against the shared and the static library, also after the folder was moved, and `make
# uninstall` removes every file. --write makes install.files of what is installed.
set -u
B=${B:-build} CC=${CC:-cc} MAKE=${MAKE:-make}
part=install
. tests/check.sh
prefix=/usr root=$tmp/root
examples=$root$prefix/share/doc/ckpt/examples

run_make() { "$MAKE" --no-print-directory B="$B" PREFIX=$prefix DESTDIR="$root" "$1"; }

# The program for MPI is installed only where it was built.
list_files() { (cd "$root" && find . ! -type d ! -name ckpt-mpi | LC_ALL=C sort); }
has_files() { list_files | diff -u tests/install.files -; }
has_no_root() { ! grep -rlF "$tmp" "$root"; }

# pc_flags OPTION… - runs pkg-config for the library as it is installed in a folder that is not its PREFIX
moved=$tmp/moved
pc_flags() { PKG_CONFIG_PATH=$moved/lib/pkgconfig pkg-config --define-prefix "$@" libckpt; }
is_relocatable()
{
    [ "$(pc_flags --variable=libdir)" = "$moved/lib" ] && [ "$(pc_flags --variable=includedir)" = "$moved/include" ]
}

runs_shared()
{
    # shellcheck disable=SC2046
    # shellcheck disable=SC2086 # CC may have arguments
    $CC -o "$tmp/shared" "$examples/list.c" $(pc_flags --cflags --libs) &&
        LD_LIBRARY_PATH=$moved/lib "$tmp/shared" tests/data/examples/train.pt &&
        LD_LIBRARY_PATH=$moved/lib ldd "$tmp/shared" | grep -q "$moved/lib/libckpt.so.0"
}

# runs_static - links libckpt.a, but the shared libraries of its dependencies, because distributions do not have static
# libraries for all of them
runs_static()
{
    private=$(sed -n 's/^Libs.private: *//p' "$moved/lib/pkgconfig/libckpt.pc")
    # shellcheck disable=SC2046,SC2086 # CC may have arguments
    $CC -o "$tmp/static" "$examples/list.c" $(pc_flags --cflags --libs | sed 's/-lckpt/-l:libckpt.a/') \
        $(pkg-config --libs $(pc_flags --print-requires-private)) $private && ! ldd "$tmp/static" | grep libckpt &&
        "$tmp/static" tests/data/examples/train.pt
}

has_soname() { readelf -d "$root$prefix/lib/libckpt.so" | grep -q 'SONAME.*\[libckpt.so.0\]'; }
has_links() { [ -e "$root$prefix/lib/libckpt.so" ] && [ -e "$root$prefix/lib/libckpt.so.0" ]; }
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
cp -R "$root$prefix" "$moved"
if [ "${1:-}" = --write ]; then
    list_files >tests/install.files
    exit
fi
check 'the files are those of install.files' has_files
check 'no file has the name of the folder DESTDIR' has_no_root
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
    check 'pkg-config in a folder that was moved' is_relocatable
    check 'a program with the shared library' runs_shared
    check 'a program with the static library' runs_static
else
    echo 'install skipped: pkg-config is not installed, so no program was built with the installed files'
    skipped=4
fi
check uninstall run_make uninstall
check 'uninstall leaves no file' leaves_nothing
summary
