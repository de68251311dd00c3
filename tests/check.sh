# check.sh - counting what holds, for the scripts that are a part of `make check`. Sourced, with $part set to its name;
# gives $tmp, removed at the end.
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0

# check WHAT COMMAND… - passes if COMMAND does; what it prints is shown if not
check()
{
    what=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        tail -n 20 "$tmp/log"
    fi
}

# skip WHY - counts what cannot run here, and says so
skip()
{
    echo "$part skipped: $1"
    skipped=$((skipped + 1))
}

# summary - the last line, and the status, of the part
summary()
{
    echo "$part: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
