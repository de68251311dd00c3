# commands.sh - each command of cmds.def has one line of description, the same in --help, its page and ckpt.1, and each
# format of formats.def a paragraph in ckpt-formats.7; a tf-folder is reported as the tf-v1 or tf-v2 in it.
for cmd in $(sed -n 's/^CMD(\(.*\))$/\1/p' cli/cmds.def); do
    about=$("$CKPT" --help | sed -n "s/^  $cmd  *//p")
    [ "$(sed -n 's/^\.Nd //p' "man/ckpt-$cmd.1")" = "$about" ] || echo "man/ckpt-$cmd.1:1: .Nd is not: $about"
    [ "$(sed -n "/^\.It Xr ckpt-$cmd 1\$/{n;p;}" man/ckpt.1)" = "$about" ] ||
        echo "man/ckpt.1:1: no ckpt-$cmd 1: $about"
done
awk '/^const struct format format_/ {inside = 1}
    inside && match($0, /\.name = "[^"]*"/) {print FILENAME, substr($0, RSTART + 9, RLENGTH - 10); inside = 0}' \
    lib/format/*/*.c | while read -r file name; do
    [ "$name" = tf-folder ] || grep -qE "^\.It (.* , )?$name( ,.*)?\$" man/ckpt-formats.7 ||
        echo "$file:1: $name is not in man/ckpt-formats.7"
done
