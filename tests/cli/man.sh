#!/bin/sh
# man.sh [PAGE…] - runs the examples of the manual and compares their output with the page.
#
# In a page, a line `.\" example` comes before each .Bd -literal block that is an example. sh runs its lines `$
# command`, for all blocks of a page in one folder, which has the files of tests/data/examples. The lines after a
# command must be its standard output. `.\" example files=a.pt:torch/t26/b.pt` also copies corpus/torch/t26/b.pt there
# as a.pt, and `.\" example exit=1` gives the exit code of the last command, which is 0 otherwise.
set -u
top=$PWD
CKPT=${CKPT:-$top/${B:-build}/ckpt}
case $CKPT in /*) ;; *) CKPT=$top/$CKPT ;; esac
[ -x "$CKPT" ] || { echo "no $CKPT; run make"; echo 'man: 0 passed, 1 failed'; exit 1; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$CKPT" "$work/bin/ckpt"
PATH=$work/bin:$PATH LC_ALL=C.UTF-8
export PATH LC_ALL
unset NO_COLOR COLUMNS || :
passed=0 failed=0

# extract_examples PAGE - writes each example to $work/blocks/NNN.{txt,opts}
extract_examples()
{
    rm -rf "$work/blocks"
    mkdir "$work/blocks"
    awk -v dir="$work/blocks" '
        /^\.\\" example/ { opts = substr($0, 12); want = 1; next }
        want && /^\.Bd/ { n++; file = sprintf("%s/%03d", dir, n); print opts > (file ".opts"); want = 0; inside = 1
                          printf "" > (file ".txt"); next }
        inside && /^\.Ed/ { inside = 0; close(file ".txt"); close(file ".opts"); next }
        inside { gsub(/\\e/, "\\"); sub(/^\\&/, ""); gsub(/\\-/, "-"); print > (file ".txt") }
    ' "$1"
}

# run_example FILE - runs its commands in the folder of the page, and prints each with its output
run_example()
{
    rm -f "$work/code"
    while IFS= read -r line; do
        case $line in
        '$ '*)
            printf '%s\n' "$line"
            (cd "$work/dir" && sh -c "${line#??}" 2>>"$work/err" </dev/null)
            echo $? >"$work/code"
            ;;
        esac
    done <"$1"
}

for page in ${*:-man/*.[0-9]}; do
    extract_examples "$page"
    rm -rf "$work/dir"
    mkdir "$work/dir"
    cp tests/data/examples/*.pt tests/data/examples/*.json "$work/dir"
    for block in "$work"/blocks/*.txt; do
        [ -e "$block" ] || continue
        opts=$(cat "${block%.txt}.opts")
        want=0
        for o in $opts; do
            case $o in
            exit=*) want=${o#exit=} ;;
            files=*) f=${o#files=}; cp "tests/corpus/${f#*:}" "$work/dir/${f%%:*}" ;;
            esac
        done
        : >"$work/err"
        run_example "$block" >"$work/out"
        code=$(cat "$work/code" 2>/dev/null || echo none)
        if cmp -s "$block" "$work/out" && [ "$code" = "$want" ]; then
            passed=$((passed + 1))
            continue
        fi
        failed=$((failed + 1))
        echo "FAILED $page, example $(basename "$block" .txt)"
        [ "$code" = "$want" ] || echo "    exit $code, not $want"
        diff -u "$block" "$work/out" | sed '1,2d; s/^/    /'
        sed 's/^/    stderr: /' "$work/err"
    done
done
echo "man: $passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
