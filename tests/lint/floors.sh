# floors.sh - which folder may include and call which (see lib/README.md). Every include between floors is written
# "floor/file.h", so that the lines give that graph; calls are found by the symbols of the objects.
may() # may FROM-FLOOR TO-FLOOR
{
    case $1:$2 in
    "$1:$1" | *:public) return 0 ;;
    io:base | core:io | core:base | codec:core | codec:io | codec:base) return 0 ;;
    format:codec | format:core | format:io | format:base | op:codec | op:core | op:io | op:base | api:*) return 0 ;;
    scan:format | scan:op | scan:codec | scan:core | scan:io | scan:base) return 0 ;;
    doctor:format | doctor:op | doctor:codec | doctor:core | doctor:io | doctor:base) return 0 ;;
    esac
    return 1
}

floor_of_file()
{
    case $1 in
    lib/*/*) floor=${1#lib/} floor=${floor%%/*} ;;
    lib/ckpt.h) floor=public ;;
    lib/*) floor=api ;;
    cli/*) floor=cli ;;
    esac
}

grep -rn '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.[chd]' --include='*.def' lib cli |
    sed 's/^\([^:]*\):\([0-9]*\):.*include *"\([^"]*\)".*/\1 \2 \3/' |
    while read -r file line name; do
        floor_of_file "$file"
        case $name in
        ckpt.h) to=public ;;
        base/* | io/* | core/* | codec/* | format/* | op/* | scan/* | doctor/*) to=${name%%/*} ;;
        *.def) to=$floor ;;
        */*) to=unknown ;;
        *) [ "$floor" = cli ] && to=cli || to=unknown ;;
        esac
        [ "$to" = unknown ] && echo "$file:$line: write it \"floor/$name\""
        [ "$to" = unknown ] || may "$floor" "$to" || echo "$file:$line: $floor may not include $to ($name)"
    done

# Prints one call for each pair of objects of the library: CALLER CALLEE SYMBOL, without "lib/" and ".o".
find lib -name '*.c' | sed "s|\(.*\)\.c$|$B/obj/\1.o|" | xargs ${NM:-nm} -A -g |
    awk -v prefix="$B/obj/lib/" '{ sub("^" prefix, ""); at = index($0, ".o:"); object = substr($0, 1, at - 1) }
        $(NF - 1) == "U" { used[object, $NF]; next }
        { defined_in[$NF] = object }
        END {
            for (pair in used) {
                split(pair, p, SUBSEP)
                if (p[2] in defined_in && !((p[1], defined_in[p[2]]) in seen)) {
                    seen[p[1], defined_in[p[2]]]
                    print p[1], defined_in[p[2]], p[2]
                }
            }
        }' | sort |
    while read -r caller callee symbol; do
        floor_of_file "lib/$caller"
        from=$floor
        floor_of_file "lib/$callee"
        may "$from" "$floor" || echo "lib/$caller.c:1: $from may not call $floor ($symbol of lib/$callee.c)"
    done
