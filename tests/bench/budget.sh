#!/bin/sh
# bench/budget.sh - checks that each command takes much less than a second for each 100 kB of hostile input: at most 300
# million steps. build/steps/tests/bench/ckpt-steps counts them (steps.c), so they are the same on every machine; a
# processor of 2020 takes two billion in a second. BUDGET_SHOW=1 prints them.
set -u
B=${B:-build}
ckpt=$PWD/$B/steps/tests/bench/ckpt-steps
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
steps_per_100_kb=300000000

if [ ! -x "$ckpt" ]; then
    echo 'budget skipped: the compiler has no -fsanitize-coverage=trace-pc'
    echo 'budget: 0 passed, 0 failed, 1 skipped'
    exit 0
fi

# check_command FILE COMMAND… - checks the steps of ckpt COMMAND, whose input is FILE. It may fail, but not crash
check_command()
{
    file=$1
    shift
    rm -rf out*
    (ulimit -t 60 && STEPS=steps exec "$ckpt" "$@" >/dev/null 2>messages </dev/null) # if it never ends
    code=$?
    steps=
    [ ! -e steps ] || read -r steps <steps
    limit=$((($(wc -c <"$file") / 100000 + 1) * steps_per_100_kb))
    [ "$2" != --values ] || limit=$((5 * limit)) # it prints a line of 700 bytes for each value of two bytes
    [ -z "${BUDGET_SHOW:-}" ] || echo "$*: $steps steps, exit $code"
    if [ $code -le 2 ] && [ "${steps:-$((limit + 1))}" -le $limit ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $*: exit $code, ${steps:-no} steps, at most $limit: $(head -n 1 messages | cut -c 1-200)"
    fi
    rm -f steps
}

# check_file FILE - checks all commands
check_file()
{
    for command in ls 'ls --json' 'ls --values' 'ls --tree' tree info show mem stat hash verify 'verify --finite' \
        doctor 'scan --sandbox=off' meta; do
        # shellcheck disable=SC2086
        check_command "$1" $command "$1"
    done
    check_command "$1" diff "$1" "$1"
    check_command "$1" strip -n --auto "$1"
    check_command "$1" add -n x. "$1"
    check_command "$1" rename -n --allow-none -s '(a+)+(b|a)*$=>x' "$1"
    check_command "$1" rename -n --allow-none -s '(.*)(.*)(.*)x=>\1' "$1"
    check_command "$1" ls --allow-none -g '*a*a*a*a*a*a*a*b' "$1"
    check_command "$1" sanitize --no-sync "$1" -o out.pt
    check_command "$1" salvage --no-sync "$1" -o out.safetensors
    check_command "$1" convert --no-sync "$1" out.pt
}

# repeat N TEXT - prints TEXT N times; printf replaces escapes in it
repeat()
{
    # shellcheck disable=SC2046,SC2059
    printf "$2%.0s" $(seq 1 "$1")
}

# print_number N - prints N in 4 bytes, little-endian
print_number()
{
    # shellcheck disable=SC2059
    printf "$(printf '\\%o\\%o\\%o\\%o' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24)))"
}

# print_doublings N - prints a pickle of a list that has the list before it twice, and so on: 2^N empty lists
print_doublings()
{
    printf '\200\002]r\000\000\000\000'
    i=0
    while [ $i -lt "$1" ]; do
        printf '](j'; print_number $i; printf j; print_number $i; printf er; print_number $((i += 1))
    done
    printf .
}

# print_safetensors HEADER BYTES - prints a file with the header in the file HEADER, then BYTES zeros
print_safetensors()
{
    print_number "$(wc -c <"$1")"
    printf '\0\0\0\0'
    cat "$1"
    head -c "$2" /dev/zero
}

cd "$tmp" || exit 2
{ printf '\200\002}(X\001\000\000\000a]q\000'; repeat 20000 '(h\000l'; repeat 20000 a; printf 'u.'; } >cycles.pkl
{ printf '\200\002]q\000('; repeat 20000 'h\000'; printf 'e.'; } >itself.pkl
{ printf '\200\002'; repeat 50000 ']'; repeat 49999 a; printf .; } >deep.pkl
{ printf '\200\002'; repeat 30000 '(}u'; } >unfinished.pkl
# 24,000 different keys
{
    printf '\200\002}('
    # shellcheck disable=SC2059
    printf "$(awk 'BEGIN { while (i++ < 24000) printf "M\\%o\\%oN", i % 256, int(i / 256) }')"
    printf 'u.'
} >keys.pkl
print_doublings 200 >doublings.pkl
print_doublings 2000 >many_doublings.pkl
repeat 100000 '\221' >deep.msgpack
{ printf '\201\241a'; repeat 50000 '\201\241a'; printf '\300'; } >maps.msgpack
repeat 100000 '[' >deep.json
{ printf '{"a":'; repeat 20000 '{"a":'; } >objects.json
{ printf 'a0: &a0 [x]\n'; for i in $(seq 1 3000); do echo "a$i: &a$i [*a$((i - 1)), *a$((i - 1))]"; done; } \
    >doublings.yaml
{ printf '<?xml version="1.0"?>\n<net name="n" version="11"><layers>'; repeat 12000 '<layer>'; } >deep.xml
{ printf '{"'; repeat 90000 a; printf '":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'; } >header
print_safetensors header 1 >long_name.safetensors
{
    printf '{"__metadata__":{"k":"v"}'
    for i in $(seq 1 1500); do printf ',"%s.aaaaaaaaaa":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' "$i"; done
    printf '}'
} >header
print_safetensors header 0 >empty_tensors.safetensors
{
    printf '{"a":{"dtype":"U8","shape":['
    repeat 40000 '1,'
    printf '1],"data_offsets":[0,1]}}'
} >header
print_safetensors header 1 >many_sizes.safetensors
{ printf '{"__metadata__":{"a":"'; repeat 15000 '\\\\u0061'; printf '"}}'; } >header
print_safetensors header 0 >escapes.safetensors
for file in *.pkl *.msgpack *.json *.yaml *.xml *.safetensors; do
    check_file "$file"
done
echo "budget: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
