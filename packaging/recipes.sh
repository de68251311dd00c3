#!/bin/sh
# recipes.sh URL HOMEPAGE - writes conda's recipe.yaml and Homebrew's ckpt.rb for a release to B/dist/recipes. URL is the
# folder from which the archives of B/dist/release are published; their sum is read there.
set -eu
B=${B:-build}
[ $# = 2 ] || { echo 'usage: make recipes URL=FOLDER-OF-THE-ARCHIVES HOMEPAGE=URL' >&2; exit 2; }
archive=ckpt-$VERSION-source.tar.xz
sum=$(sed -n "s/^\([0-9a-f]*\)  $archive$/\1/p" "$B/dist/release/SHA256SUMS" 2>/dev/null) || :
[ -n "$sum" ] || { echo "ckpt: $B/dist/release/SHA256SUMS has no sum of $archive: run make dist" >&2; exit 1; }
mkdir -p "$B/dist/recipes"
for file in conda/recipe.yaml homebrew/ckpt.rb; do
    sed "s|@VERSION@|$VERSION|; s|@SHA256@|$sum|; s|@URL@|$1|; s|@HOMEPAGE@|$2|" "packaging/$file" \
        >"$B/dist/recipes/${file#*/}"
done
