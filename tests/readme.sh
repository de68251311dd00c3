#!/bin/sh
# readme.sh [--write] - the console blocks of README.md are run in a folder that holds train.pt, and must print what
# the page shows. --write replaces that by what they print.
set -u
B=${B:-build}
top=$PWD
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/here"
cp tests/data/examples/train.pt "$tmp/here"
PATH=$top/$B:$PATH

# The page again, with what the commands print instead of the old output.
in_block=no
while IFS= read -r line; do
    case $in_block:$line in
    'no:```console') in_block=yes ;;
    'yes:```') in_block=no ;;
    'yes:$ '*)
        printf '%s\n' "$line"
        (cd "$tmp/here" && eval "${line#??}" 2>&1 </dev/null)
        continue
        ;;
    yes:*) continue ;;
    esac
    printf '%s\n' "$line"
done <README.md >"$tmp/page"

if [ "${1:-}" = --write ]; then
    cp "$tmp/page" README.md
elif diff -u README.md "$tmp/page"; then
    echo 'readme: 1 passed, 0 failed'
else
    echo 'readme: 0 passed, 1 failed'
    exit 1
fi
