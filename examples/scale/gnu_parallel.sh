#!/bin/sh
# gnu_parallel.sh - converts a checkpoint in parts that GNU parallel starts, and merges them. Edit the four lines, then:
# sh gnu_parallel.sh
# If it was interrupted or a part failed three times, run it again: parts that are done end at once.
parts=16
hosts=: # this machine; node1,node2,node3: by ssh on machines that have ckpt and the same file system
out=/shared/model-bf16
set -- ckpt convert /shared/model "$out" --cast bfloat16 --max-shard-size 5GB

set -eu
seq 0 $((parts - 1)) |
    parallel --quote --sshlogin "$hosts" --workdir . --jobs 2 --retries 3 "$@" --part "{}/$parts"
ckpt merge-parts "$out"
