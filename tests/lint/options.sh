# options.sh - the options in the man page of a command are those that its --help lists.
[ -x "$CKPT" ] || { echo "cli:1: no $CKPT to ask"; exit; }

# options_of - prints the options in the standard input, one a line
options_of()
{
    grep -oE -- '(^|[^A-Za-z0-9_-])(--[a-z][a-z0-9-]*|-[a-zA-Z0-9])([^A-Za-z0-9-]|$)' |
        grep -oE -- '--?[A-Za-z0-9][a-z0-9-]*' | sort -u
}

# mdoc writes -x as "Fl x" and --long as "Fl -long"
mdoc_options()
{
    sed -n '/^\.It Fl\|^\.Fl\|^\.Op Fl\|^\.Oo Fl\|^\.It Fl/p; /Fl /p' "$1" | grep -oE 'Fl -?[A-Za-z0-9][a-z0-9-]*' |
        sed 's/^Fl \(.*\)/-\1/' | sort -u
}

for source in cli/cmd_*.c; do
    cmd=$(basename "$source" .c) cmd=${cmd#cmd_}
    page=man/ckpt-$cmd.1
    if [ ! -f "$page" ]; then
        case $cmd in
        help | completion) page=man/ckpt.1 ;;
        *) echo "$page:1: command $cmd has no page"; continue ;;
        esac
        [ -f "$page" ] || continue
    fi
    taken=$("$CKPT" "$cmd" --help 2>&1 | grep -E '^ +-' | sed 's/^\( *-[^ ]*\(,* -[^ ]*\)*\).*/\1/' | options_of)
    documented=$(mdoc_options "$page")
    for o in $taken; do
        echo "$documented" | grep -qxe "$o" || echo "$page:1: $o is not documented, but ckpt $cmd takes it"
    done
    [ "$page" = "man/ckpt-$cmd.1" ] || continue
    for o in $(grep -oE '^\.It Fl -?[A-Za-z0-9][a-z0-9-]*' "$page" | sed 's/^\.It Fl /-/'); do
        echo "$taken" | grep -qxe "$o" || echo "$page:1: $o is documented, but ckpt $cmd does not take it"
    done
done
