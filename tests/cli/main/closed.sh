# If a standard stream is closed, no opened file gets its number, and output that should go there is an error.
# run_closed COMMAND… - runs COMMAND with standard output closed
run_closed()
{
    "$@" >&- 2>err
    echo "$* $?"
    cat err
}
for report in '' --json --sarif --quiet; do
    run_closed ckpt scan $report data/train.pt
done
run_closed ckpt ls --json data/train.pt
run_closed ckpt verify data/train.pt
run_closed ckpt convert data/train.pt - --to safetensors
run_closed ckpt convert -q data/train.pt quiet.pt
ckpt verify -q quiet.pt && echo whole
ckpt scan - <&-; echo $?
ckpt convert data/train.pt a.pt 2>&- && ckpt verify -q a.pt && echo whole
ckpt convert data/train.pt b.pt <&- >&- 2>&-; echo $?
ckpt verify -q b.pt && echo whole
ls
