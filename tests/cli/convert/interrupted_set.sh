# A signal while the files of a set appear waits until all are there: a part of them is no set.
strace -o trace true 2>/dev/null || { echo 'no strace, or it may not trace'; exit 77; }
ckpt convert -q --max-shard-size 2kB --root auto data/train.pt set/
ckpt convert -q --max-shard-size 5kB --root auto data/train.pt old/

# interrupt CALL N - converts the set, with a signal at the Nth CALL
interrupt()
{
    { strace -f -o trace -e trace="$1" -e inject="$1":signal=SIGTERM:when="$2" ckpt convert -qfj1 set -o new/; } 2>/dev/null
    echo $?
    diff -r set new && echo 'all are there'
}
for n in 1 2 3; do
    rm -rf new
    interrupt linkat $n
    rm -rf new
    cp -r old new
    interrupt renameat $n
done
