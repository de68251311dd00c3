# What a scanning process is refused; that each report says the same with and without; that a lost process is told.
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
exec 9>pipe # when it was opened on the other side, the process is there
for stat in /proc/[0-9]*/stat; do
    read -r pid name state parent rest 2>/dev/null <"$stat" && [ "$parent" = $! ] && kill -SEGV "$pid"
done
wait $!
echo $?
exec 9>&-
cat lost.out lost.err
