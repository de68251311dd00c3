#!/bin/sh
# outputs.sh CKPT TMP - prints what CKPT prints for each file and folder of the corpus, and the digests of the files
# that it converts them to. All machines must print the same.
set -u
ckpt=$1 out=$2/outputs every=${CROSS_EVERY:-10}
mkdir -p "$out"
export LC_ALL=C TZ=UTC0
find tests/corpus -mindepth 2 ! -path 'tests/corpus/truth/*' | sort >"$out/files"

# Each command runs for 100 files at once, because an emulator starts slowly.
for command in 'ls --json' 'hash --json' 'stat --json' info verify 'scan --json'; do
    echo "== $command"
    # shellcheck disable=SC2086
    tr '\n' '\0' <"$out/files" | xargs -0 -n 100 "$ckpt" $command -- 2>&1
done

line=0
while read -r file; do
    line=$((line + 1))
    [ $((line % every)) = 0 ] || continue
    rm -rf "$out/made"
    mkdir "$out/made"
    echo "== $file"
    "$ckpt" strip --auto "$file" -o "$out/made/stripped" 2>&1
    { "$ckpt" convert "$file" "$out/made/a.safetensors" || # safetensors cannot hold quantized blocks
        "$ckpt" convert --cast '*=f32' "$file" "$out/made/a.safetensors"; } 2>&1 &&
        "$ckpt" diff "$file" "$out/made/a.safetensors" 2>&1
    (cd "$out/made" && find . -type f | sort | xargs -r sha256sum)
done <"$out/files" | sed "s|$out|OUT|g"
rm -rf "$out"
