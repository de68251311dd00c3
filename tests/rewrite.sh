#!/bin/sh
# rewrite.sh - converts every checkpoint of the corpus to a torch zip archive, safetensors, GGUF, Flax's .msgpack and
# shards, by one thread or by four. The output must have the tensors of the input, and its values if the format holds
# values. Refused conversions (exit status 2) are counted separately. TensorFlow's object graph is not compared,
# because these formats do not store it.
set -uf # no file names for the globs of names
file_step=${EACH:-1} # converts every EACH-th file; if negative, the others
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 refused=0

# fail TEXT - counts a failure and prints TEXT
fail()
{
    failed=$((failed + 1))
    echo "$*"
}

# check_same IN OUT [OPTION…] - checks that OUT has the tensors of IN
check_same()
{
    in=$1 out=$2
    shift 2
    case $in in
    */header_only.index) ;; # this file has no tensors
    *.index) set -- -g '!_CHECKPOINTABLE_OBJECT_GRAPH' "$@" ;;
    esac
    "$CKPT" diff --equal-nan --allow-none "$@" "$in" "$out" >"$tmp/differences" 2>"$tmp/messages"
    status=$?
    # 2: some tensors have no bytes to compare (meta, uninitialized, hidden in an object). Nothing else may differ.
    if [ $status -eq 2 ] && grep -q 'cannot be compared' "$tmp/messages" && ! grep -q '^[-+~]' "$tmp/differences"; then
        status=0
    fi
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
    else
        fail "$in: $(basename "$out") differs: $(head -n 1 "$tmp/messages")"
    fi
}

# convert OUT IN [OPTION…] - converts IN to OUT, or counts a refusal and returns 1
convert()
{
    out=$1 in=$2
    shift 2
    rm -rf "$out"
    status=0
    "$CKPT" convert -q --no-sync "$@" "$in" "$out" 2>"$tmp/messages" || status=$?
    case $status in
    0) return 0 ;;
    2) refused=$((refused + 1)) ;;
    *) fail "$in: convert to $(basename "$out") exits with $status" ;;
    esac
    return 1
}

# state_globs - prints options that exclude the tensors that only their names tell from weights: formats of tensors do
# not get them
state_globs()
{
    sed -n 's,^PATH([A-Z]*\, "\(.*\)").*,-g !\1/* -g !*/\1/* -g !\1.*,p
        s,^OWNER([A-Z]*\, "\(.*\)").*,-g !\1/*/vars/* -g !*/\1/*/vars/*,p
        s/^START([A-Z]*, "\(.*\)").*/-g !\1*/p; s/^END([A-Z]*, "\(.*\)").*/-g !*\1/p
        s/^NAME([A-Z]*, "\(.*\)").*/-g !\1/p' lib/op/tensor_states.def
}

# check_file IN - converts IN to a torch zip archive, safetensors, shards and GGUF
check_file()
{
    convert "$tmp/out.pt" "$1" -j1 || return
    check_same "$1" "$tmp/out.pt"
    convert "$tmp/out.safetensors" "$1" -j4 --ties=copy || return
    globs=
    case $1 in
    */keras/* | */tensorflow/* | */tfjs/* | */paddle/* | */torch_dist.nemo)
        "$CKPT" diff -q --equal-nan --root auto "$1" "$tmp/out.safetensors" >"$tmp/messages" 2>&1 ||
            globs=$(state_globs)
        # Keras' optimizer may be the only place of the weights
        # shellcheck disable=SC2086
        [ -z "$globs" ] || "$CKPT" ls --allow-none $globs "$tmp/out.safetensors" 2>/dev/null | grep -q . ||
            globs='-g */_trainable_variables/*'
        ;;
    esac
    # shellcheck disable=SC2086
    check_same "$1" "$tmp/out.safetensors" --root auto $globs
    convert "$tmp/set" "$tmp/out.safetensors" --max-shard-size 20KB --to safetensors || return
    check_same "$tmp/out.safetensors" "$tmp/set"
    convert "$tmp/out.pt" "$tmp/set" -j4 || return
    check_same "$tmp/out.safetensors" "$tmp/out.pt"
    convert "$tmp/out.gguf" "$tmp/set" -j4 --architecture=net || return
    check_same "$tmp/out.safetensors" "$tmp/out.gguf"
}

# check_flax IN - converts IN to Flax's .msgpack, and this .msgpack to .msgpack, which must give the same bytes
check_flax()
{
    convert "$tmp/out.msgpack" "$1" -j4 || return
    check_same "$1" "$tmp/out.msgpack" --tensors-only
    convert "$tmp/again.msgpack" "$tmp/out.msgpack" -j1 && cmp -s "$tmp/out.msgpack" "$tmp/again.msgpack" && return
    fail "$1: its .msgpack, converted to .msgpack again, has different bytes"
}

# check_gguf IN - converts IN to GGUF, the GGUF to split GGUF, and the split GGUF to one file again
check_gguf()
{
    convert "$tmp/out.gguf" "$1" -j4 || return
    check_same "$1" "$tmp/out.gguf"
    rm -rf "$tmp/split"
    convert "$tmp/split" "$tmp/out.gguf" --max-shard-size 2KB || return
    first_shard=$(find "$tmp/split" -name 'model-00001-of-*.gguf')
    [ -f "$first_shard" ] || return # all tensors fit into one file
    check_same "$tmp/out.gguf" "$first_shard"
    convert "$tmp/again.gguf" "$first_shard" -j1 || return
    check_same "$tmp/out.gguf" "$tmp/again.gguf"
}

find tests/corpus tests/data -type f -size -2000k ! -name '*.pack' ! -path '*truth*' | sort |
    awk -v n="$file_step" '(NR % n == 0) == (n > 0)' >"$tmp/list"
while read -r file; do
    "$CKPT" ls -q "$file" >/dev/null 2>&1 || continue
    check_file "$file"
    check_flax "$file"
    case $file in *.gguf) check_gguf "$file" ;; esac
done <"$tmp/list"
[ "$passed" -gt "$(wc -l <"$tmp/list")" ] || fail "only $passed comparisons"
echo "rewrite: $passed passed, $failed failed ($refused refused by the target)"
[ "$failed" -eq 0 ]
