#!/bin/sh
# outputs.sh CKPT TMP - prints a line for each file and folder of the corpus and each output of CKPT for it: text, JSON
# and digests of written files. All machines must print the same.
set -u
ckpt=$1 out=$2/outputs every=${CROSS_EVERY:-10}
mkdir -p "$out"
export LC_ALL=C TZ=UTC0
find tests/corpus -mindepth 2 ! -path 'tests/corpus/truth/*' | sort >"$out/files"

# Each command runs for 100 files at once, because an emulator starts slowly.
for command in 'ls --json' 'hash --json' 'stat --json'; do
    echo "== $command"
    # shellcheck disable=SC2086
    xargs -n 100 "$ckpt" $command -- <"$out/files" 2>&1
done

n=0
while read -r file; do
    n=$((n + 1))
    [ $((n % every)) = 0 ] || continue
    rm -rf "$out/made"
    mkdir "$out/made"
    echo "== $file"
    "$ckpt" strip --auto "$file" -o "$out/made/stripped" 2>&1
    { "$ckpt" convert "$file" "$out/made/a.safetensors" || # fails for quantized blocks
        "$ckpt" convert --cast '*=f32' "$file" "$out/made/a.safetensors"; } 2>&1 &&
        "$ckpt" diff "$file" "$out/made/a.safetensors" 2>&1
    (cd "$out/made" && find . -type f | sort | xargs -r sha256sum)
done <"$out/files" | sed "s|$out|OUT|g"
rm -rf "$out"
