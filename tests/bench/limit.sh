# bench/limit.sh - read by the scripts of this folder that check limits: counts in $passed and $failed.

passed=0 failed=0

# check_limit TITLE VALUE LIMIT - checks that VALUE is at most LIMIT. SHOW=1 prints it.
check_limit()
{
    [ -z "${SHOW:-}" ] || echo "$1: $2, at most $3"
    if [ "$2" -le "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1: $2, at most $3"
    fi
}

# fail TITLE - counts a command that failed, whose messages are in the file $tmp/messages
fail()
{
    failed=$((failed + 1))
    echo "FAIL $1: $(head -n 2 "$tmp/messages")"
}
