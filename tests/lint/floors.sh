# floors.sh - which folder ("floor") may include and call which, as in lib/README.md. An include of another floor is
# written "floor/file.h", by which it is found here; calls are found by the symbols of the objects. The same for the
# folders of lib/format: rooms, which all formats share, and families of formats, which do not use each other.

# may_use FLOOR OTHER - succeeds if FLOOR may include headers of OTHER and call its functions
may_use()
{
    case $1:$2 in
    "$1:$1" | *:public) return 0 ;;
    io:base | core:io | core:base | codec:core | codec:io | codec:base) return 0 ;;
    format:codec | format:core | format:io | format:base | op:codec | op:core | op:io | op:base | api:*) return 0 ;;
    scan:format | scan:op | scan:codec | scan:core | scan:io | scan:base) return 0 ;;
    doctor:format | doctor:op | doctor:codec | doctor:core | doctor:io | doctor:base) return 0 ;;
    mem:op | mem:codec | mem:core | mem:io | mem:base) return 0 ;;
    esac
    return 1
}

# may_use_folder FOLDER OTHER - succeeds if FOLDER of lib/format may use OTHER; empty: lib/format itself
may_use_folder()
{
    case $1:$2 in
    "$1:$1" | *: | :* | parts:files | parts:graph) return 0 ;;
    files:* | graph:* | parts:*) return 1 ;;
    *:files | *:graph | *:parts) return 0 ;;
    esac
    return 1
}

# set_folder FILE - sets $folder to the folder of FILE in lib/format; empty: none
set_folder()
{
    case $1 in
    lib/format/*/*) folder=${1#lib/format/} folder=${folder%%/*} ;;
    *) folder= ;;
    esac
}

# set_floor FILE - sets $floor to the floor of FILE
set_floor()
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
        set_floor "$file"
        case $name in
        ckpt.h) included=public ;;
        base/* | io/* | core/* | codec/* | format/* | op/* | scan/* | doctor/* | mem/*) included=${name%%/*} ;;
        *.def) included=$floor ;;
        */*) included=unknown ;;
        *) [ "$floor" = cli ] && included=cli || included=unknown ;;
        esac
        if [ "$included" = unknown ]; then
            echo "$file:$line: an include of the library is written \"floor/$name\""
        elif ! may_use "$floor" "$included"; then
            echo "$file:$line: $floor may not include $included ($name)"
        fi
        set_folder "$file"
        including=$folder
        set_folder "lib/$name"
        may_use_folder "$including" "$folder" ||
            echo "$file:$line: format/$including may not include format/$folder ($name)"
    done

# The awk program prints CALLER CALLEE SYMBOL, one call for each pair of objects; lib/base/buf.o is written base/buf.
# That a format names another (const struct format format_NAME) is no call.
find lib -name '*.c' | sed "s|\(.*\)\.c$|$B/obj/\1.o|" | xargs ${NM:-nm} -A -g |
    awk -v prefix="$B/obj/lib/" '{ sub("^" prefix, ""); object = substr($0, 1, index($0, ".o:") - 1) }
        $(NF - 1) == "U" { used[object, $NF]; next }
        { defined_in[$NF] = object; is_format[$NF] = $NF ~ /^format_/ && $(NF - 1) != "T" }
        END {
            for (pair in used) {
                split(pair, parts, SUBSEP)
                caller = parts[1]; symbol = parts[2]
                if (is_format[symbol] && caller ~ /^format\//)
                    continue
                if (symbol in defined_in && !((caller, defined_in[symbol]) in seen)) {
                    seen[caller, defined_in[symbol]]
                    print caller, defined_in[symbol], symbol
                }
            }
        }' | sort |
    while read -r caller callee symbol; do
        set_floor "lib/$caller"
        caller_floor=$floor
        set_floor "lib/$callee"
        may_use "$caller_floor" "$floor" ||
            echo "lib/$caller.c:1: $caller_floor may not call $floor ($symbol of lib/$callee.c)"
        set_folder "lib/$caller.c"
        caller_folder=$folder
        set_folder "lib/$callee.c"
        may_use_folder "$caller_folder" "$folder" ||
            echo "lib/$caller.c:1: format/$caller_folder may not call format/$folder ($symbol of lib/$callee.c)"
    done
