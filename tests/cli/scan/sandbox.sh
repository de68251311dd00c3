# The sandbox forbids what scan does not need, and changes no report. The death of the scanning process is reported.
ckpt scan --sandbox=test - 2>err || { cat err; exit 77; }
mkdir d d/empty
printf 'cos\nsystem\n(S"id"\ntR.' >d/evil.pkl
gzip -nc data/train.pt >d/train.pt.gz
{ head -c 3000000 /dev/zero; cat d/evil.pkl; } | gzip -nc >d/big.gz
for report in '' --all --json --sarif --quiet; do
    ckpt scan $report --sandbox=on d missing.pt data/train.pt d/empty >on.out 2>on.err
    echo "$report $?" >>on.out
    ckpt scan $report --sandbox=off d missing.pt data/train.pt d/empty 2>off.err >off.out
    echo "$report $?" >>off.out
    cmp on.out off.out && cmp on.err off.err && echo "the same: $report" && rm -f on.??? off.???
done
mkfifo pipe
ckpt scan pipe >lost.out 2>lost.err &
exec 9>pipe # waits until the child has opened the pipe
for stat in /proc/[0-9]*/stat; do
    read -r pid name state parent rest 2>/dev/null <"$stat" && [ "$parent" = $! ] && kill -SEGV "$pid"
done
wait $!
echo $?
exec 9>&-
cat lost.out lost.err
# If a process ends during its report, here after 500,000 bytes, that report is left out, so that JSON and SARIF stay valid.
{ echo cos; yes 'system
(S"id"
tR0cos' | head -n 900000; printf 'system\n.'; } >long.pkl
for report in --json --sarif; do
    ckpt scan $report long.pkl d/evil.pkl >lost.out 2>lost.err &
    position=0 killed=
    while kill -0 $! 2>/dev/null; do
        for stat in /proc/[0-9]*/stat; do
            read -r pid name state parent rest 2>/dev/null <"$stat" && [ "$parent" = $! ] || continue
            while read -r key position && [ "$key" != pos: ]; do :; done 2>/dev/null <"/proc/$pid/fdinfo/1"
            [ "${position:-0}" -lt 500000 ] || { kill -SEGV "$pid" && killed=1 && break 2; }
        done
    done
    [ "$killed" ] || { echo 'the report was done before its process could be killed'; exit 77; }
    wait $!
    echo $?
    sed 's/.*"results"://; s/"lists":"[0-9a-f]*"/"lists":""/' lost.out
    cat lost.err
done
# Half a report is not printed either if there is no space to store it.
{ (ulimit -f 500 && ckpt scan --json long.pkl d/evil.pkl); echo $?; } | cut -c 1-200
