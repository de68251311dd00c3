# check.sh - counts passed and failed checks for the scripts of `make check`, which source it with $part set to their
# name. It sets $tmp, a folder removed at the end.
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0

# check WHAT COMMAND… - passes if COMMAND exits with 0, else prints its output
check()
{
    what=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        tail -n 60 "$tmp/log"
    fi
}

# skip WHY - counts a check that cannot run here and prints WHY
skip()
{
    echo "$part skipped: $1"
    skipped=$((skipped + 1))
}

# summary - prints the last line of the part and returns its status
summary()
{
    echo "$part: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
