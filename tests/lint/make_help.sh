# make_help.sh - each make target that is not a file is in .PHONY, and `make help` describes those that users run.
phony=" $(sed -n '/^\.PHONY:/,/[^\\]$/p' Makefile | sed 's/^\.PHONY://; s/\\$//' | tr '\n' ' ') "
targets=$(sed -n 's/^\([a-z][a-z -]*\):\( .*\)*$/\1/p' Makefile | grep -v '=')
for target in $targets; do
    case $phony in
    *" $target "*) ;;
    *) echo "Makefile:1: $target is not in .PHONY" ;;
    esac
done
for target in $phony; do
    case " $(echo $targets) " in
    *" $target "*) ;;
    *) echo "Makefile:1: .PHONY names $target, which is not a target" ;;
    esac
    case $target in
    setup* | *-programs | unit) continue ;;
    esac
    grep -q "^## $target: " Makefile || echo "Makefile:1: no line \"## $target: …\" for make help"
done
