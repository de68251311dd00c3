# commands.sh - each command of cmds.def has the same one-line description in --help, its page and ckpt.1. Each format
# has a paragraph in ckpt-formats.7, except tf-folder, whose files are reported as tf-v1 or tf-v2.
for cmd in $(sed -n 's/^CMD(\(.*\))$/\1/p' cli/cmds.def | tr _ -); do
    description=$(LC_ALL=C.UTF-8 "$CKPT" --help | sed -n "s/^  $cmd  *//p")
    [ "$(sed -n 's/^\.Nd //p' "man/ckpt-$cmd.1")" = "$description" ] ||
        echo "man/ckpt-$cmd.1:1: .Nd is not \"$description\""
    [ "$(sed -n "/^\.It Xr ckpt-$cmd 1\$/{n;p;}" man/ckpt.1)" = "$description" ] ||
        echo "man/ckpt.1:1: the description of ckpt-$cmd is not \"$description\""
done
awk '/^const struct format format_/ {inside = 1}
    inside && match($0, /\.name = "[^"]*"/) {print FILENAME, substr($0, RSTART + 9, RLENGTH - 10); inside = 0}' \
    lib/format/*/*.c | while read -r file name; do
    [ "$name" = tf-folder ] || grep -qE "^\.It (.* , )?$name( ,.*)?\$" man/ckpt-formats.7 ||
        echo "$file:1: $name is not in man/ckpt-formats.7"
done
