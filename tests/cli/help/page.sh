# If man does not find a page, `ckpt help` finds it by the path of the program, installed or built, and shows it with
# man, mandoc or nroff, whichever exists.
# not ASCII: this script shortens paths with …
[ "${EMULATED:-}" ] && { echo 'the test copies the program, but $CKPT is a script that starts an emulator'; exit 77; }
mkdir -p prefix/bin prefix/share/man/man1 prefix/share/man/man7 tools alone/bin
cp "$CKPT" prefix/bin/ckpt; cp "$CKPT" alone/bin/ckpt
for p in "$TESTS"/../../man/*.1; do cp "$p" prefix/share/man/man1; done
cp "$TESTS"/../../man/*.7 prefix/share/man/man7
# make_tool NAME - makes a tool that prints its name and arguments, with the paths shortened. With -w it fails, as
# man -w does if it finds no page.
make_tool()
{
    printf '#!/bin/sh\n[ "$1" != -w ] || exit 1\necho "%s" "$@" | sed "s,/.*/\\(prefix\\|build[^/]*\\|bin\\)/,…/,"\n' \
        "$1" >tools/"$1"
    chmod +x tools/"$1"
}
# the folder basic has only the programs that the tools call, so that no other pager is found
mkdir basic
for t in sed sh; do ln -s "$(command -v $t)" basic/$t; done
run() { PATH=$PWD/tools:/nonexistent:$PWD/basic "$@" 2>&1; }
make_tool man; run "$PWD/prefix/bin/ckpt" help ls; run "$PWD/prefix/bin/ckpt" help json; run "$CKPT" help stat | sed 's,.*/\.\./,…/../,'
gzip -q prefix/share/man/man1/ckpt-ls.1; run "$PWD/prefix/bin/ckpt" help ls
rm tools/man; make_tool mandoc; run "$PWD/prefix/bin/ckpt" help info
rm tools/mandoc; make_tool nroff; run "$PWD/prefix/bin/ckpt" help info
rm tools/nroff; run "$PWD/prefix/bin/ckpt" help info | sed -n '1p; s,/.*/prefix,…,p'
run "$PWD/alone/bin/ckpt" help info | head -n 1
run "$PWD/alone/bin/ckpt" help formats
