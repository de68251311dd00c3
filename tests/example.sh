#!/bin/sh
# example.sh - checks that the programs of examples/ build with only ckpt.h and the library, and do what their first
# lines describe. Checks that each function shown in a page of section 3 is in one of these programs, line for line.
set -u
B=${B:-build} CC=${CC:-cc}
part=example
. tests/check.sh
train=tests/data/examples/train.pt

build_example()
{
    # shellcheck disable=SC2086 # CC may have arguments
    $CC -std=c11 -Wall -Wextra -Wpedantic -Werror -Ilib -o "$tmp/$1" "examples/$1.c" "$B/libckpt.a" \
        -lzip -lz -lcrypto -lm -ldl -pthread
}
run() { program=$1; shift; "$tmp/$program" "$@" 2>"$tmp/stderr"; }
# prints TEXT PROGRAM ARGUMENT… - checks that PROGRAM succeeds and prints a line with TEXT
prints() { text=$1; shift; run "$@" >"$tmp/out" && grep -qF -e "$text" "$tmp/out"; }
# refuses PROGRAM ARGUMENT… - checks that PROGRAM fails with a message
refuses() { ! run "$@" >"$tmp/out" && [ -s "$tmp/stderr" ]; }
# fails_with TEXT PROGRAM ARGUMENT… - checks that PROGRAM fails and prints a line with TEXT
fails_with() { text=$1; shift; ! run "$@" >"$tmp/out" && grep -qF -e "$text" "$tmp/out"; }

for source in examples/*.c; do
    name=${source##*/} name=${name%.c}
    check "$name builds" build_example "$name"
    check "$name without arguments" refuses "$name"
done
cut=$tmp/cut.pt
head -c 3000 "$train" >"$cut"

check 'list' prints 'module.fc.weight' list "$train"
check 'list of a file that is not a checkpoint' refuses list tests/demo.sh
check 'read' prints 'module.fc.weight[3] = ' read "$train" state_dict.module.fc.weight
check 'values' prints 'epoch' values "$train"
check 'info' prints 'wrapped: keys begin with "module."' info "$train"
printf '%s\n' fc.weight fc.bias >"$tmp/names"
check 'match' prints 'rename ' match "$tmp/names" "$train"
check 'digest' prints '(all)' digest "$train"
check 'mem' prints 'parameters 21864, gradients 21864, optimizer 43728 bytes' mem "$train"
check 'scan' prints ', 0 pickles' scan tests/demo.sh
check 'verify' prints '0 findings' verify "$train"
check 'verify of half a file' fails_with 'truncated' verify "$cut"
check 'strip' prints 'module.fc.weight -> fc.weight' strip "$train" "$tmp/weights.safetensors"
"$B/ckpt" edit -q "$tmp/weights.safetensors" -e 'set fc.weight = 0.5' -o "$tmp/tuned.safetensors"
run extract "$tmp/weights.safetensors" "$tmp/tuned.safetensors" "$tmp/adapter"
if grep -q 'cannot be loaded' "$tmp/stderr"; then
    echo 'example of extract skipped: no LAPACK (apt install liblapack3)'
else
    check 'extract' prints 'fc.weight: rank' extract "$tmp/weights.safetensors" "$tmp/tuned.safetensors" "$tmp/adapter2"
fi
check 'parts' prints 'parts.safetensors' parts "$train" "$tmp/parts.safetensors"
check 'diff of what parts wrote' run diff "$tmp/parts.safetensors" "$tmp/weights.safetensors"
check 'diff of what strip wrote' run diff "$train" "$tmp/weights.safetensors"
check 'create, torch' prints '3 tensors as torch-zip, 1 entries left out' create "$tmp/new.pt"
check 'create, safetensors' prints '3 tensors as safetensors, 3 entries left out' create "$tmp/new.safetensors"
check 'strip of what create wrote' prints '3 tensors' strip "$tmp/new.pt" "$tmp/new-weights.safetensors"
check 'diff of what create wrote' run diff "$tmp/new.pt" "$tmp/new-weights.safetensors"
check 'diff of two models' fails_with '- ' diff "$train" "$tmp/new.pt"
check 'cancel, not interrupted' run cancel "$train" "$tmp/whole.safetensors"

# check_cancel - interrupts `cancel` while it waits for its input: the first progress callback must stop the
# conversion
check_cancel()
{
    mkfifo "$tmp/pipe"
    "$tmp/cancel" - "$tmp/stopped.safetensors" <"$tmp/pipe" 2>"$tmp/stderr" &
    program=$!
    exec 4>"$tmp/pipe"
    sleep 1
    kill -INT $program
    cat "$train" >&4
    exec 4>&-
    ! wait $program && grep -q 'nothing was written' "$tmp/stderr" && [ ! -e "$tmp/stopped.safetensors" ]
}
check 'cancel, interrupted' check_cancel

# check_page PAGE - checks that each function shown in PAGE is, line for line, in the program that PAGE names (.Pa)
check_page()
{
    program=$(sed -n 's/^\.Pa \(examples\/[a-z]*\.c\) ,$/\1/p' "$1")
    [ -f "$program" ] || { echo "$1 names no program"; return 1; }
    awk '/^\.Bd -literal/ {in_display = 1; next} /^\.Ed/ {in_display = 0} in_display' "$1" |
        sed 's/^\\&//; s/\\e/\\/g; s/\\-/-/g' |
        awk -v file="$program" '
            BEGIN {while ((getline line <file) > 0) source = source line "\n"}
            text != "" || $0 != "" {text = text $0 "\n"}
            /^}/ {functions++; if (!index(source, text)) {print "not in " file ":\n" text; missing = 1} text = ""}
            END {exit missing || !functions || text != ""}'
}
for page in man/ckpt_*.3; do
    check "the example of $page" check_page "$page"
done
summary
