# During long work SIGUSR1 prints the progress, on a terminal or not; a fatal signal leaves no file behind; on a
# terminal the progress appears after half a second, at most ten times a second, and is erased at the end. The time left
# is estimated when enough was read.
# not ASCII: this script shortens lines with …
script -qec true /dev/null >/dev/null 2>&1 || { echo 'no pseudo-terminal to be had'; exit 77; }

# make_sparse FILE MIB - makes a safetensors FILE of 8 tensors, with MIB MiB of data that are all holes
make_sparse()
{
    size=$(($2 * 1024 * 1024 / 8)) # of one tensor, in bytes
    for i in 0 1 2 3 4 5 6 7; do
        printf '%s"t%d":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' \
            "$([ $i = 0 ] && echo '{' || echo ,)" $i $size $((i * size)) $((i * size + size))
    done >header
    # the length of the header (1000), and the header padded to it
    { printf '\350\003\0\0\0\0\0\0'; printf '%-1000s' "$(cat header)}"; } >"$1"
    truncate -s $((1008 + 8 * size)) "$1"
}

# wait_for_progress PID - sends SIGUSR1 until the progress is printed; fails if the process ends before
wait_for_progress()
{
    while ! grep -q ' of ' err; do
        kill -USR1 "$1" 2>/dev/null || return 1
        sleep 0.02
    done
}

make_sparse hash.safetensors "$([ "${EMULATED:-}" ] && echo 128 || echo 2048)"
make_sparse write.safetensors 256
mkdir out
trap '' USR1 # so that SIGUSR1 does not end a command that has no handler yet

# interrupt SIGNAL COMMAND… - prints the progress that COMMAND reports, and its messages when SIGNAL ends it
interrupt()
{
    sig=$1
    shift
    : >err
    # a shell makes background processes ignore SIGINT, and nohup makes all of its processes ignore SIGHUP
    env --default-signal=INT,HUP,TERM "$@" >report 2>err &
    pid=$!
    wait_for_progress $pid || { echo "$1 $2 was done before it was asked"; exit 77; }
    kill -"$sig" $pid
    { wait $pid; } 2>/dev/null
    echo "$1 $2 $sig: $?"
    sed 's/\([a-z]\)  .* of [0-9.]* [KMG]iB.*/\1  … of …/' err | uniq
    ls -A out
}
interrupt INT ckpt hash hash.safetensors
interrupt INT ckpt convert write.safetensors out/w.pt
interrupt TERM ckpt convert write.safetensors out/w.pt
interrupt TERM ckpt convert --max-shard-size 100MiB write.safetensors out/set/
interrupt HUP ckpt strip --auto write.safetensors -o out/w.safetensors

# The log of the pseudo-terminal: how often the line was drawn, and what was left at the end. The command has only
# one processor, so that it takes long enough.
cpu=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
before=$(date +%s)
TERM=xterm script -qec "taskset -c $cpu ckpt hash -t hash.safetensors" /dev/null >log
after=$(date +%s)
drawn=$(tr '\r' '\n' <log | grep -c hashing)
[ "$drawn" -le $((10 * (after - before + 1))) ] && echo 'at most ten times a second'
tr '\r' '\n' <log | grep 'hashing' | head -n 1 | sed "s/$(printf '\033')\[K/wiped: /; s/  .* of [0-9.]* [MG]iB  .*/  … of …/"
tr '\r' '\n' <log | grep -v '^$' | tail -n 1 | sed "s/$(printf '\033')\[K/wiped: /; s/[0-9a-f]\{64\}/DIGEST/"
tr '\r' '\n' <log | grep -q 'hashing.* left' && echo 'with the time left'

# Of a file of 1 TiB, the first second reads too little to estimate how long it takes.
make_sparse large.safetensors $((1 << 20))
TERM=xterm script -qec 'timeout -s INT 2 ckpt hash large.safetensors' /dev/null >log
tr '\r' '\n' <log | grep 'hashing' | head -n 1 | sed 's/.*hashing  .* of 1\.00* TiB  [0-9.]* .iB.s/hashing … of 1 TiB  …/'
