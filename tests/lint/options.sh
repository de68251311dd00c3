# options.sh - the manual page of a command describes the options that its --help lists, and no others.
[ -x "$CKPT" ] || { echo "cli:1: no program $CKPT"; exit; }

# find_options - prints the options in the standard input, one a line
find_options()
{
    grep -oE -- '(^|[^A-Za-z0-9_-])(--[a-z][a-z0-9-]*|-[a-zA-Z0-9])([^A-Za-z0-9-]|$)' |
        grep -oE -- '--?[A-Za-z0-9][a-z0-9-]*' | sort -u
}

# find_mdoc_options - prints the options in the standard input, source of a page: "Fl x" is -x, "Fl -long" is --long
find_mdoc_options()
{
    grep -oE 'Fl -?[A-Za-z0-9][a-z0-9-]*' | sed 's/^Fl \(.*\)/-\1/' | sort -u
}

for source in cli/cmd_*.c; do
    cmd=$(basename "$source" .c | tr _ -) cmd=${cmd#cmd-}
    page=man/ckpt-$cmd.1
    if [ ! -f "$page" ]; then
        case $cmd in
        help | completion) page=man/ckpt.1 ;;
        *) echo "$page:1: command $cmd has no page"; continue ;;
        esac
        [ -f "$page" ] || continue
    fi
    accepted=$("$CKPT" "$cmd" --help 2>&1 | grep -E '^ +-' | sed 's/^\( *-[^ ]*\(,* -[^ ]*\)*\).*/\1/' | find_options)
    if [ "$page" = "man/ckpt-$cmd.1" ]; then
        documented=$(grep '^\.It ' "$page" | find_mdoc_options) # the synopsis describes none
    else
        documented=$(find_mdoc_options <"$page")
    fi
    for option in $accepted; do
        echo "$documented" | grep -qxe "$option" || echo "$page:1: $option of ckpt $cmd is not documented"
    done
    [ "$page" = "man/ckpt-$cmd.1" ] || continue
    for option in $(grep -oE '^\.It Fl -?[A-Za-z0-9][a-z0-9-]*' "$page" | sed 's/^\.It Fl /-/'); do
        echo "$accepted" | grep -qxe "$option" || echo "$page:1: ckpt $cmd has no option $option"
    done
done
