#!/bin/sh
# dist/archives.sh [ARCH] - checks what packaging/archives.sh has made: the sums, what is in the archives, that the
# program works from where they are unpacked, and the bill of materials, by spdx-tools if it is there.
set -u
B=${B:-build} VERSION=${VERSION:-0.1.0} part=archives
arch=${1:-$(uname -m)}
release=$PWD/$B/dist/release name=ckpt-$VERSION-linux-$arch
. tests/check.sh
[ -s "$release/$name.tar.xz" ] || {
    skip "there is no $release/$name.tar.xz: run make dist"
    summary
    exit
}
has_sums() { (cd "$release" && sha256sum -c SHA256SUMS && [ "$(ls | wc -l)" = $(($(wc -l <SHA256SUMS) + 1)) ]); }
check 'each file has its sum' has_sums
tar -xf "$release/$name.tar.xz" -C "$tmp"
works() { "$tmp/$name/bin/ckpt" --version && "$tmp/$name/bin/ckpt" ls tests/data/examples/train.pt; }
[ "$arch" != "$(uname -m)" ] || check 'the program works' works
# has_all DIR FILE… - succeeds if each FILE is not empty in DIR
has_all()
{
    dir=$1
    shift
    for file; do [ -s "$dir/$file" ] || { echo "there is no $file"; return 1; }; done
}
check 'manual, completions, rules, module, licences are there' has_all "$tmp/$name/share" \
    man/man1/ckpt.1 man/man5/ckpt-rules.5 man/man7/ckpt-formats.7 bash-completion/completions/ckpt \
    zsh/site-functions/_ckpt fish/vendor_completions.d/ckpt.fish ckpt/rules/gpt2-conv1d-to-linear.rules \
    ckpt/schema/ckpt.ls.v1.json "modulefiles/ckpt/$VERSION" doc/ckpt/LICENSE doc/ckpt/sbom.spdx.json
# lists_all - reads names of sources; each must have a licence and be a linked package of the bill of materials
lists_all()
{
    while read -r source; do
        has_all "$tmp/$name/share/doc/ckpt/licences" "$source" || return 1
        grep -A 1 '"relationshipType": "STATIC_LINK"' "$tmp/$name/share/doc/ckpt/sbom.spdx.json" |
            grep -q "\"SPDXRef-$source\"" || { echo "no $source"; return 1; }
    done
}
lists_sources() { sed -n 's/^\([a-z0-9]*\) .*/\1/p' packaging/sources.txt | lists_all; }
check 'each source has a licence and is in the bill of materials' lists_sources
# linked_sources - prints the sources of the archives that the linker's map of the program names
linked_sources()
{
    grep -o '/lib[a-z0-9_]*\.a(' "$B/dist/$arch/out/ckpt.map" | sort -u | sed 's|/lib||; s|\.a($||' |
        sed 's/^z$/zlib/; s/^bz2$/bzip2/; s/^lzma$/xz/; s/^crypto$/openssl/; s/^zip$/libzip/; s/^archive$/libarchive/
            s/^c$/musl/; s/^zigc$/zig/; s/^compiler_rt$/zig/; /^ckpt$/d'
}
lists_linked() { linked_sources >"$tmp/linked" && [ "$(wc -l <"$tmp/linked")" -gt 10 ] && lists_all <"$tmp/linked"; }
check 'so has each library that the map of the linker shows' lists_linked
has_no_user() { ! tar -tvf "$release/$name.tar.xz" | awk '$2 != "0/0" {print; bad = 1} END {exit !bad}'; }
check 'no user is seen in the archive' has_no_user
if python3 -c 'import spdx_tools' 2>/dev/null; then
    check 'the bill of materials is valid' python3 -m spdx_tools.spdx.clitools.pyspdxtools -i "$release/$name.spdx.json"
else
    skip 'there is no spdx-tools for Python, so that the bill of materials was not checked'
fi
source=ckpt-$VERSION
[ ! -s "$release/$source-source.tar.xz" ] || {
    check 'the small archive of the sources has no corpus' sh -c \
        "! tar -tf '$release/$source-source.tar.xz' | grep '^$source/tests/corpus/'"
    check 'the large one has it' sh -c \
        "tar -tf '$release/$source-source-with-corpus.tar.xz' | grep '^$source/tests/corpus/'"
    check 'the sources have their Makefile' sh -c "tar -tf '$release/$source-source.tar.xz' | grep '^$source/Makefile$'"
}
summary
