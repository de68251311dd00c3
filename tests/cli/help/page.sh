# `ckpt help` shows a page that man does not find from next to the program, installed or built, with any pager that exists.
[ "${EMULATED:-}" ] && { echo 'what is copied here must be the program, and is what begins an emulator'; exit 77; }
mkdir -p prefix/bin prefix/share/man/man1 prefix/share/man/man7 tools alone/bin
cp "$CKPT" prefix/bin/ckpt; cp "$CKPT" alone/bin/ckpt
for p in "$TESTS"/../../man/*.1; do cp "$p" prefix/share/man/man1; done
cp "$TESTS"/../../man/*.7 prefix/share/man/man7
tool() { printf '#!/bin/sh\n[ "$1" != -w ] || exit 1\necho "%s" "$@" | sed "s,/.*/\\(prefix\\|build[^/]*\\|bin\\)/,…/,"\n' "$1" >tools/$1; chmod +x tools/$1; }
old=$PATH
try() { PATH=$PWD/tools:/nonexistent:$sed "$@" 2>&1; }
sed=$(dirname "$(command -v sed)")
mkdir only; for t in sed sh; do ln -s "$(command -v $t)" only/$t; done; sed=$PWD/only
tool man; try "$PWD/prefix/bin/ckpt" help ls; try "$PWD/prefix/bin/ckpt" help json; try "$CKPT" help stat | sed 's,.*/\.\./,…/../,'
gzip -q prefix/share/man/man1/ckpt-ls.1; try "$PWD/prefix/bin/ckpt" help ls
rm tools/man; tool mandoc; try "$PWD/prefix/bin/ckpt" help info
rm tools/mandoc; tool nroff; try "$PWD/prefix/bin/ckpt" help info
rm tools/nroff; try "$PWD/prefix/bin/ckpt" help info | sed -n '1p; s,/.*/prefix,…,p'
try "$PWD/alone/bin/ckpt" help info | head -n 1
try "$PWD/alone/bin/ckpt" help formats
