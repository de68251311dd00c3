# check.sh - counts passed and failed checks. Scripts of `make check` source it, with $part set to their name. It sets
# $tmp, a temporary folder that is removed at the end.
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0

# check TITLE COMMAND… - passes if COMMAND exits with 0, else prints its output
check()
{
    title=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $title"
        tail -n 60 "$tmp/log"
    fi
}

# skip REASON - counts a check that cannot run here and prints REASON
skip()
{
    echo "$part skipped: $1"
    skipped=$((skipped + 1))
}

# summary - prints the last line of the part; fails if a check has failed
summary()
{
    echo "$part: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
