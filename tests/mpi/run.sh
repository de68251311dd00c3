#!/bin/sh
# mpi/run.sh - tests ckpt-mpi with 1 to 4 ranks on this machine: outputs, exit codes, what a failed or killed rank
# leaves; and that ckpt itself has nothing to do with MPI. Skipped if mpirun or mpicc is not installed.
set -u
unit=
B=${B:-build}
case $B in /*) ;; *) B=$PWD/$B ;; esac
ckpt=$B/ckpt ckpt_mpi=$B/ckpt-mpi top=$PWD
part=mpi
. tests/check.sh
export LC_ALL=C.UTF-8 TMPDIR="$tmp"
unset TZ

no_mpi() { ! ldd "$ckpt" | grep -i 'mpi\|pmix' && ! nm -D "$ckpt" | grep 'MPI_'; }
check 'ckpt is not linked with an MPI' no_mpi
if ! command -v mpirun >/dev/null 2>&1 || [ ! -x "$ckpt_mpi" ]; then
    skip 'no mpirun, or no mpicc (apt-get install libopenmpi-dev openmpi-bin)'
    summary
    exit
fi

# Open MPI refuses to run as root, and more ranks than processors, without these; the network is not needed. hwloc
# reports on standard error that /sys is not mounted.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader HWLOC_HIDE_ERRORS=2
# try_start COMMAND - runs COMMAND in one rank, with what it prints in a file; 124: it does not end
try_start() { timeout 20 mpirun -n 1 "$@" >"$tmp/started" 2>&1 </dev/null; }
# A rank connects to mpirun by an address of this machine, and waits for ever if the loopback interface is down.
reason=
try_start true || reason=$(head -n 1 "$tmp/started")
try_start "$ckpt_mpi" --version
[ $? != 124 ] || reason='a rank gets no reply from mpirun within 20 s; is the loopback interface up?'
if [ "$reason" ]; then
    skip "mpirun does not work here: $reason"
    summary
    exit
fi
# ranks N COMMAND… - runs COMMAND in N ranks, which a hanging rank does not delay for ever
ranks()
{
    count=$1
    shift
    timeout 120 mpirun -n "$count" "$@"
}

# ------------------------------------------------------------------- inputs

mkdir "$tmp/work"
cd "$tmp/work" || exit 2
"$B/tests/bench/mkckpt" -n 40 -b 40M big.pt >/dev/null
"$ckpt" convert -q --no-sync big.pt big.safetensors
"$ckpt" convert -q --no-sync big.safetensors set --max-shard-size 9MB
"$ckpt" convert -q --no-sync big.pt dcp --to=dcp --shards 3
{
    printf '\220\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2500000],"data_offsets":[0,10000000]},'
    printf '"b":{"dtype":"U8","shape":[10000000],"data_offsets":[10000000,20000000]}}%4s' ''
    seq 1 3000000 | head -c 20000000
} >two.safetensors
{
    printf '\110\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}}%17s' ''
    printf '\303\365\110\177\0\0\200\077\303\365\110\177\0\0\0\0\0\0\0\0'
} >over.safetensors

# ----------------------------------------------------------------- identity

# same_as_ckpt N COMMAND… - compares outputs and report of N ranks with those of ckpt; the output is called out or
# out.safetensors
same_as_ckpt()
{
    count=$1
    shift
    rm -rf out out.safetensors ref ref.safetensors
    "$ckpt" "$@" --no-sync >ref.report 2>ref.notices || return
    if [ -e out ]; then mv out ref; else mv out.safetensors ref; fi
    ranks "$count" "$ckpt_mpi" "$@" --no-sync ${unit:+--part-unit=$unit} >report 2>notices || { cat notices; return 1; }
    if [ ! -e out ]; then mv out.safetensors out; fi
    diff -r ref out && cmp ref.report report && cmp ref.notices notices && [ -z "$(find . -name '.ckpt-*')" ]
}

for count in 1 2 3 4; do
    check "$count ranks: a set of another size, cast" \
        same_as_ckpt $count convert set out --max-shard-size 7MB --cast f16 --json
done
for count in 2 3; do
    unit=file
    check "$count ranks: files of a set" same_as_ckpt $count convert set out --max-shard-size 7MB --cast f16
    unit=
    check "$count ranks: .pt to a set" same_as_ckpt $count convert big.pt out --to=safetensors --max-shard-size 7MB
    check "$count ranks: rename" same_as_ckpt $count rename -s '^=>model.' set -o out
    check "$count ranks: add" same_as_ckpt $count add x. two.safetensors -o out.safetensors --json
    check "$count ranks: strip, few bytes" \
        same_as_ckpt $count strip --auto "$top/tests/data/examples/train.pt" -o out.safetensors
    check "$count ranks: a distributed checkpoint" \
        same_as_ckpt $count convert dcp out --to=safetensors --max-shard-size 7MB
    check "$count ranks: overflows" same_as_ckpt $count convert over.safetensors out.safetensors --cast f16
done
rm -rf out ref

# shared_read N CODE COMMAND… - compares what N ranks print, and their exit code, with those of ckpt
shared_read()
{
    count=$1 code=$2
    shift 2
    "$ckpt" "$@" >ref.report 2>/dev/null
    ranks "$count" "$ckpt_mpi" "$@" >report 2>notices
    [ $? = "$code" ] && cmp ref.report report
}
"$B/tests/bench/mkckpt" -n 40 -b 40M --changed changed.pt >/dev/null
for count in 1 2 3 4; do
    check "$count ranks: hash" shared_read $count 0 hash big.safetensors two.safetensors
    check "$count ranks: hash, sha256 in JSON" shared_read $count 0 hash --json big.pt
    check "$count ranks: stat" shared_read $count 0 stat --json set
    check "$count ranks: diff" shared_read $count 1 diff --json big.safetensors changed.pt
    check "$count ranks: verify" shared_read $count 0 verify --json --finite big.pt set
done

# ------------------------------------------------- commands that are not shared

prints_once() { ranks 3 "$ckpt_mpi" "$@" >printed 2>&1 </dev/null; "$ckpt" "$@" 2>&1 </dev/null | cmp - printed; }
check 'ls: rank 0 alone' prints_once ls two.safetensors
check 'scan: its sandbox is a process of rank 0' prints_once scan big.pt two.safetensors
check '--version' prints_once --version
check 'a dry run' prints_once convert -n two.safetensors out.safetensors
# exits CODE N COMMAND… - succeeds if each of N ranks exits with CODE; keeps what was printed
exits()
{
    wanted=$1 count=$2
    shift 2
    rm -f code.*
    ranks "$count" sh -c '"$@"; echo $? >code.$OMPI_COMM_WORLD_RANK' - "$@" >printed 2>&1
    cat printed
    [ "$(cat code.* | sort | uniq -c | tr -s ' ')" = " $count $wanted" ]
}
says() { grep -q -- "$1" printed && [ "$(grep -c '^ckpt: \|"ckpt.error' printed)" = "${2:-1}" ]; }
check 'diff: all ranks exit with 1' exits 1 2 "$ckpt_mpi" diff -q two.safetensors big.safetensors
check 'a usage error' exits 2 3 "$ckpt_mpi" convert --wrong two.safetensors out
check 'is printed once' says "unknown option '--wrong'"
check '--part' exits 2 2 "$ckpt_mpi" convert two.safetensors out.safetensors --part 0/2
check 'is refused' says 'leave out --part'
check 'a manifest is written by rank 0' exits 0 2 "$ckpt_mpi" verify -q --write-manifest=manifest two.safetensors
check 'as by ckpt' sh -c '"$1" verify -q --write-manifest=- two.safetensors | cmp - manifest' - "$ckpt"
check 'a format without parts' exits 2 2 "$ckpt_mpi" convert two.safetensors out.pt
check 'is refused, too' says 'of an output in parts it must be safetensors'
echo old >out.safetensors
check 'an existing output' exits 2 2 "$ckpt_mpi" convert two.safetensors out.safetensors
check 'is not replaced' says 'already exists'
check 'one rank replaces it by -f' exits 0 1 "$ckpt_mpi" convert -q --no-sync -f two.safetensors out.safetensors
rm -f out.safetensors

# --------------------------------------------------------- ckpt in an MPI's launcher

check 'ckpt in two ranks' exits 2 2 "$ckpt" convert two.safetensors out.safetensors
check 'names ckpt-mpi' says 'hint: ckpt-mpi' 2
check 'ckpt in two ranks reads' exits 0 2 "$ckpt" ls two.safetensors
check 'and writes a part that is given' exits 0 2 sh -c \
    "'$ckpt' convert -q --no-sync two.safetensors out.safetensors --part \$OMPI_COMM_WORLD_RANK/2"
"$ckpt" merge-parts -q out.safetensors
check 'as it does at once' cmp out.safetensors two.safetensors
rm -f out.safetensors
refuses()
{
    env "$@" "$ckpt" convert -n -q two.safetensors out.safetensors || return
    ! env "$@" "$ckpt" convert two.safetensors out.safetensors
}
writes() { env "$@" "$ckpt" convert -q --no-sync two.safetensors out.safetensors && rm out.safetensors; }
check 'another launcher' refuses PMI_SIZE=16
check 'a large number' refuses MV2_COMM_WORLD_SIZE=99999999999999999999999
for value in 1 01 0 '' -2 2x x ' 2'; do check "PMI_SIZE='$value'" writes PMI_SIZE="$value"; done
check 'an allocation of Slurm' writes SLURM_NTASKS=8 SLURM_PROCID=3 SLURM_NPROCS=8

# ------------------------------------------------------------------ failures

# fails_cleanly WORDS COMMAND… - succeeds if all of three ranks exit with 2, one error that has WORDS is printed, and
# nothing is left
fails_cleanly()
{
    words=$1
    shift
    exits 2 3 "$@" && grep -q "$words" printed && [ "$(grep -c '^hint: ' printed)" -le 1 ] && ls -A && nothing_left
}
nothing_left() { [ -z "$(find . -maxdepth 2 -name '.ckpt-*' -o -maxdepth 2 -name 'out*')" ]; }
# in_rank RANK COMMAND… - prints a command that runs COMMAND in that rank, and "$@" in the others
cat >in_rank <<'END'
#!/bin/sh
# in_rank RANK PREFIX COMMAND… - runs COMMAND, in that rank by PREFIX, a shell command that ends in "$@"
rank=$1 prefix=$2
shift 2
if [ "$OMPI_COMM_WORLD_RANK" = "$rank" ]; then eval "$prefix"; else "$@"; fi
END
chmod +x in_rank
head -c 12000000 two.safetensors >cut.safetensors
check 'a truncated input' fails_cleanly 'needs bytes 10000000..20000000' \
    "$ckpt_mpi" convert cut.safetensors out --max-shard-size 8MB
mkdir other
cp cut.safetensors other/two.safetensors
# shellcheck disable=SC2016
elsewhere='cd other && ckpt_mpi=$1 && shift 4 && set -- "$ckpt_mpi" convert two.safetensors ../out "$@" && "$@"'
check 'on one rank' fails_cleanly 'rank 1 of 3' \
    ./in_rank 1 "$elsewhere" "$ckpt_mpi" convert two.safetensors out --max-shard-size 8MB
cp two.safetensors other
check 'inputs with different times' fails_cleanly 'the ranks see different inputs: the id of rank 1 is' \
    ./in_rank 1 "$elsewhere" "$ckpt_mpi" convert two.safetensors out --max-shard-size 8MB
cp -p two.safetensors other
check 'inputs with the same times' exits 0 3 \
    ./in_rank 1 "$elsewhere" "$ckpt_mpi" convert two.safetensors out --max-shard-size 8MB
rm -rf out
"$ckpt" convert -q --no-sync two.safetensors bad.pt
printf x | dd of=bad.pt bs=1 seek=19000000 conv=notrunc 2>/dev/null
check 'a wrong checksum' fails_cleanly 'have checksum' "$ckpt_mpi" convert bad.pt out.safetensors
check 'an overflow that --strict refuses' fails_cleanly 'overflow' \
    "$ckpt_mpi" convert over.safetensors out.safetensors --cast f16 --strict

if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=8m none small 2>/dev/null; then
    check 'a full disk' exits 2 3 "$ckpt_mpi" convert two.safetensors small/out --max-shard-size 6MB
    check 'is reported once' says 'No space left'
    check 'and leaves nothing' test -z "$(find small -type f)"
    umount "$PWD/small" # mount(8) resolves a path without a slash by /proc
else
    skip 'a full disk: needs root, and the right to mount a tmpfs'
fi

# --------------------------------------------------------------- system calls

strace -o trace true 2>/dev/null || { skip 'failing and killed ranks: no strace, or it may not trace'; summary; exit; }
# shellcheck disable=SC2016
inject='strace -f -o /dev/null -e trace=$call -e inject=$call:$fault "$@"'
convert="$ckpt_mpi convert -q -j1 two.safetensors out --max-shard-size 6MB --cast bf16"
export call fault
for call in pwrite64 fdatasync; do
    for rank in 0 2; do
        fault=error=EIO:when=1
        # shellcheck disable=SC2086
        check "$call fails in rank $rank" fails_cleanly 'Input/output error' ./in_rank $rank "$inject" $convert
    done
done

reads_a_part()
{
    # shellcheck disable=SC2016
    ranks 2 ./in_rank 1 'strace -f -y -o trace -e trace=pread64 "$@"' "$ckpt_mpi" "$@" || return
    bytes=$(awk '/safetensors>/ && / = [0-9]+$/ {n += $NF} END {print n + 0}' trace)
    echo "$bytes bytes"
    [ "$bytes" -gt 15000000 ] && [ "$bytes" -lt 30000000 ]
}
check 'hash: a rank reads its part of 40 MiB' reads_a_part hash -j1 big.safetensors
check 'stat: a rank reads its part' reads_a_part stat -j1 big.safetensors

# A killed rank: no output and no index; the record of a part that was done before stays as it is; run again, the ranks
# complete the output.
"$ckpt" convert -q --no-sync two.safetensors ref --max-shard-size 6MB --cast bf16
killed_rank()
{
    call=$1 fault=signal=SIGKILL:when=$2 count=$3
    "$ckpt" convert -q -j1 two.safetensors out --max-shard-size 6MB --cast bf16 --part "0/$count"
    stat -c %y out/.ckpt-*/part-0000-of-*.json >before
    # shellcheck disable=SC2086
    ranks "$count" ./in_rank 1 "$inject" $convert && return 1
    find out -maxdepth 1 -type f | grep . && return 1
    stat -c %y out/.ckpt-*/part-0000-of-*.json | cmp - before || return
    # shellcheck disable=SC2086
    ranks "$count" $convert && diff -r ref out && rm -r out
}
for count in 2 4; do
    for point in 'newfstatat 60' 'pread64 9' 'pread64 15' 'pwrite64 1' 'pwrite64 2' 'pwrite64 3' 'fdatasync 1' \
        'linkat 1' 'renameat 1' 'fsync 1'; do
        # shellcheck disable=SC2086
        check "rank 1 of $count is killed at $point" killed_rank $point $count
        rm -rf out
    done
done
summary
