# Merging that is killed is completed by merging again; the index comes last, and no part can write meanwhile.
. "$TESTS/parts_input.sh"
require_strace
make_input >in.safetensors
ckpt convert -q --no-sync in.safetensors ref --max-shard-size 9MB

# kill_merge CALL N - kills merging at its Nth CALL, then merges again
kill_merge()
{
    for i in 0 1; do ckpt convert -q --no-sync in.safetensors set --max-shard-size 9MB --part $i/2; done
    { strace -f -o trace -e trace="$1" -e inject="$1":signal=SIGKILL:when="$2" ckpt merge-parts -q set; } 2>/dev/null
    echo "$1 $2: $?"
    ls -A set | ids
    ckpt convert -q --no-sync in.safetensors set --max-shard-size 9MB --part 0/2 2>&1 | ids
    ckpt parts set --clean 2>&1 | ids
    ckpt merge-parts --verify set 2>&1 | ids
    diff -r ref set && rm -r set
}
kill_merge renameat2 1
kill_merge renameat2 2
kill_merge renameat2 3
for n in 1 2 3 4; do kill_merge unlinkat $n; done
# a file system without RENAME_NOREPLACE, on which a file has two names between two calls
for n in 1 2; do
    for i in 0 1; do ckpt convert -q --no-sync in.safetensors set --max-shard-size 9MB --part $i/2; done
    strace -f -o trace -e trace=renameat2,unlinkat -e inject=renameat2:error=EINVAL \
        -e inject=unlinkat:error=EIO:when=$n ckpt merge-parts -q set 2>&1 | ids |
        sed 's|: I/O error$|: Input/output error|' # the words of musl
    ls -A set | ids
    ckpt merge-parts set
    diff -r ref set && rm -r set
done
