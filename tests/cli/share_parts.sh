# share_parts.sh - compares what parts find with what one process finds. Sourced; the test has defined `run`, which runs
# the command with the options that it gets.
run >text.one; echo "exit $?"
run --json >json.one
for n in 1 2 5 64; do
    for i in $(seq 0 $((n - 1)) | sort -R); do run --part $i/$n -o work -q || echo "part $i/$n: $?"; done
    run --part all -o work >text.all; echo "$n parts: exit $?"
    run --part all -o work --json >json.all
    cmp text.one text.all && cmp json.one json.all
    ckpt parts -q work --clean
done
