#!/bin/sh
# dist/ways.sh - runs what the section "Install" of README.md has people type, as far as it needs no published release:
# what a line unpacks or installs is taken from B/dist and B/deb, if it is there.
set -u
B=${B:-build} MAKE=${MAKE:-make} part=ways
. tests/check.sh
top=$PWD
sed -n '/^## Install/,/^## What to type/p' README.md >"$tmp/section"
# typed WAY - prints the commands in the row that begins with WAY, one a line
typed() { grep "^| $1 " "$tmp/section" | grep -o '`[^`]*`' | tr -d '\`'; }

# is_typed WAY COMMAND - succeeds if the row of WAY has COMMAND, which is run here or by another part
is_typed() { typed "$1" | grep -qxF -- "$2"; }
has_targets()
{
    for target in $(grep -o '`make [a-z-]*`' "$tmp/section" | sed 's/`make \(.*\)`/\1/' | sort -u); do
        "$MAKE" -n --no-print-directory "$target" >/dev/null || return 1
    done
}
check 'the targets of make exist' has_targets

archive=$(typed 'any Linux' | sed -n 's/^tar -xf //p')
unpacks() # in a shell of its own, because it changes the folder
(
    mkdir "$tmp/unpacked" && cd "$tmp/unpacked" && ln -s "$top/$B/dist/release/$archive" . &&
        eval "$(typed 'any Linux' | head -n 1)" && "./${archive%.tar.xz}/bin/ckpt" --version
)
if [ -s "$B/dist/release/$archive" ]; then
    check 'any Linux' unpacks
else
    skip "any Linux: there is no $B/dist/release/$archive: run make dist"
fi
check 'Python: the name is that of the wheel' is_typed Python 'pip install libckpt'
check 'Debian: what tests/dist/deb.sh runs' is_typed 'Debian, Ubuntu' 'sudo apt install ./build/deb/*.deb'

build_image=$(typed containers | grep '^podman')
names_files()
{
    # shellcheck disable=SC2086
    set -- $build_image
    [ "$*" = "podman build -t ckpt -f $6 $7" ] && [ -s "$6" ] && [ "$7" = build/dist/x86_64/out ]
}
check 'containers: the command names the files' names_files
if ! command -v podman >/dev/null 2>&1; then
    skip 'containers: there is no podman; tests/dist/container.sh runs the program in an empty root'
elif [ ! -x build/dist/x86_64/out/ckpt ]; then
    skip 'containers: there is no build/dist/x86_64/out/ckpt: run make dist'
else
    check 'containers' sh -c "$build_image && podman run --rm ckpt --version"
fi
source_works()
{
    is_typed 'from source' 'sudo make install' && "$MAKE" B="$B" install DESTDIR="$tmp/installed" &&
        PATH=$tmp/installed/usr/local/bin:$PATH ckpt doctor --install
}
check 'from source' source_works
summary
