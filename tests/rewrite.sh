#!/bin/sh
# rewrite.sh - converts every checkpoint of the corpus to a torch zip archive, safetensors, GGUF, Flax's .msgpack and
# shards, by one thread and by four, and compares the tensors, and the values if the format holds them, with the input.
# Refused conversions (exit 2) are counted separately. TensorFlow's object graph is not compared, as it is not written.
set -u
each=${EACH:-1} # takes each EACH-th file
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 refused=0

bad()
{
    failed=$((failed + 1))
    echo "$*"
}

# same IN OUT [OPTION…] - checks that OUT has the tensors of IN
same()
{
    in=$1 out=$2
    shift 2
    case $in in
    */header_only.index) ;; # has no tensor
    *.index) set -- -g '!_CHECKPOINTABLE_OBJECT_GRAPH' "$@" ;;
    esac
    if "$CKPT" diff -q --equal-nan "$@" "$in" "$out" 2>"$tmp/said"; then
        passed=$((passed + 1))
    else
        bad "$in: written as $(basename "$out"), it differs: $(head -n 1 "$tmp/said")"
    fi
}

# as OUT IN [OPTION…] - converts IN to OUT; false: refused
as()
{
    out=$1 in=$2
    shift 2
    rm -rf "$out"
    if "$CKPT" convert -q --no-sync "$@" "$in" "$out" 2>"$tmp/said"; then
        return 0
    fi
    refused=$((refused + 1))
    return 1
}

one()
{
    as "$tmp/o.pt" "$1" -j1 || return
    same "$1" "$tmp/o.pt"
    as "$tmp/o.safetensors" "$1" -j4 --ties=copy || return
    same "$1" "$tmp/o.safetensors" --root auto
    as "$tmp/set" "$tmp/o.safetensors" --max-shard-size 20KB --to safetensors || return
    same "$tmp/o.safetensors" "$tmp/set"
    as "$tmp/o.pt" "$tmp/set" -j4 || return
    same "$tmp/o.safetensors" "$tmp/o.pt"
    as "$tmp/o.gguf" "$tmp/set" -j4 --architecture=net || return
    same "$tmp/o.safetensors" "$tmp/o.gguf"
}

# one_flax IN - converts IN to Flax's .msgpack, and that again, which must give the same bytes
one_flax()
{
    as "$tmp/o.msgpack" "$1" -j4 || return
    same "$1" "$tmp/o.msgpack" --tensors-only
    as "$tmp/p.msgpack" "$tmp/o.msgpack" -j1 && cmp -s "$tmp/o.msgpack" "$tmp/p.msgpack" && return
    bad "$1: its .msgpack is not written again to the byte"
}

# one_gguf IN - converts IN to GGUF, to split GGUF and that to one file again
one_gguf()
{
    as "$tmp/o.gguf" "$1" -j4 || return
    same "$1" "$tmp/o.gguf"
    rm -rf "$tmp/parts"
    as "$tmp/parts" "$tmp/o.gguf" --max-shard-size 2KB || return
    set -- "$tmp"/parts/model-00001-of-*.gguf
    [ -f "$1" ] || return
    same "$tmp/o.gguf" "$1"
    as "$tmp/p.gguf" "$1" -j1 || return
    same "$tmp/o.gguf" "$tmp/p.gguf"
}

find tests/corpus tests/data -type f -size -2000k ! -name '*.pack' ! -path '*truth*' | sort |
    awk -v n="$each" 'NR % n == 0' >"$tmp/list"
while read -r file; do
    "$CKPT" ls -q "$file" >/dev/null 2>&1 || continue
    one "$file"
    one_flax "$file"
    case $file in *.gguf) one_gguf "$file" ;; esac
done <"$tmp/list"
[ "$passed" -gt $((1000 / each)) ] || bad "only $passed comparisons"
echo "rewrite: $passed passed, $failed failed ($refused refused by the target)"
[ "$failed" -eq 0 ]
