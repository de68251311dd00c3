# The scanning process ends with the process that started it, whatever signal ends that one; its processor time is
# limited.
ckpt scan --sandbox=test - >/dev/null 2>err || { cat err; exit 77; }
truncate -s 64G big || { echo 'no room for a sparse file'; exit 77; }

# child_of PID - sets CHILD to the process that PID started, when there is one
child_of()
{
    child=
    while [ -z "$child" ]; do
        kill -0 "$1" 2>/dev/null || { echo 'scan ended before its child process was found'; exit 77; }
        for stat in /proc/[0-9]*/stat; do
            read -r pid name state parent rest 2>/dev/null <"$stat" && [ "$parent" = "$1" ] && child=$pid && break
        done
    done
}

# is_gone PID - whether the process ends within two seconds
is_gone()
{
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        read -r pid name state rest 2>/dev/null <"/proc/$1/stat" || return 0
        [ "$state" = Z ] && return 0
        sleep 0.1
    done
    return 1
}

for sig in KILL TERM HUP INT; do
    # a shell makes background processes ignore SIGINT
    env --default-signal=INT,HUP,TERM ckpt scan --json --sha256 big >out 2>err &
    scan=$!
    child_of $scan
    # scan cannot pass SIGKILL on: wait until the child limits its time, before which it arranges to end with its parent
    [ $sig = KILL ] && while ! grep -q 'Max cpu time *4696 ' "/proc/$child/limits"; do kill -0 "$child" || break; done
    kill -$sig $scan
    { wait $scan; } 2>/dev/null
    code=$?
    is_gone "$child" && echo "$sig $code: its child is gone" || { echo "$sig $code: its child goes on"; kill -KILL "$child"; }
    cat out err
done
(ulimit -S -t 1 && ckpt scan --json --sha256 big >out 2>err; echo $?; cat err)
