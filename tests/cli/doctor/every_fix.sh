# Each command that doctor prints runs as it is printed, makes one output, and doctor does not report the same problem of
# that output.
# list_fixes FILE… - prints "CODE<tab>COMMAND" for each command of ckpt in doctor's fixes, and for those in its hints
# that are complete. Of the same code, command and suffix, only the first MAX files.
MAX=8
list_fixes()
{
    ckpt doctor --json -- "$@" 2>/dev/null | awk -v max="$MAX" '
        function text(name, from,   s) { # the JSON string after "NAME":
            if (!match(from, "\"" name "\":\"([^\"\\\\]|\\\\.)*\""))
                return ""
            s = substr(from, RSTART + length(name) + 4, RLENGTH - length(name) - 5)
            gsub(/\\"/, "\"", s)
            gsub(/\\\\/, "\\", s)
            return s
        }
        function add(code, command,   kind) {
            if (command !~ /^ckpt /)
                return
            kind = code " " command
            gsub(/[^ ]*\//, "", kind)
            sub(/ -o .*/, "", kind)
            n = split(kind, words, " ")
            kind = words[1] " " words[3] " " words[n]
            sub(/ [^ .]*\./, " .", kind)
            if (count[kind]++ < max)
                print code "\t" command
        }
        /"diagnoses":\[\{/ {
            n_parts = split($0, part, /\{"code":/)
            for (i = 2; i <= n_parts; i++) {
                one = "\"code\":" part[i]
                tail = ""
                if (match(one, /\}\],"format":/)) {
                    tail = substr(one, RSTART)
                    one = substr(one, 1, RSTART)
                }
                code = text("code", one)
                add(code, text("fix", one))
                hint = text("hint", one)
                if (match(hint, /`ckpt [a-z]+ [^`]*`/))
                    add(code, substr(hint, RSTART + 1, RLENGTH - 2))
                else if (match(hint, /: ckpt .*/))
                    add(code, substr(hint, RSTART + 2))
                if (text("fix", tail) != "")
                    add("all", text("fix", tail))
            }
        }'
}
# run_fix CODE COMMAND - runs COMMAND, and prints what is wrong with it
run_fix()
{
    sh -c "$2" >output 2>&1 </dev/null
    result=$?:$2
    case $result in
        0:* | 1:*salvage* | 1:*scan* | 2:*scan* | 1:*stat\ --fail-on*) ;;
        *) echo "$1: $2: exit ${result%%:*}: $(head -n 3 output)"; return 1 ;;
    esac
    case $2 in *fixed*) ;; *) return 0 ;; esac
    set -- "$1" "$2" fixed*
    [ $# = 3 ] && [ -e "$3" ] || { echo "$1: $2: made $3"; return 1; }
    ckpt doctor --json "$3" >report 2>&1
    grep -q '"healthy":' report || { echo "$1: $2: $(cat report)"; return 1; }
    case $result in
        1:*salvage*) grep -q '"tensors":0,' report && { echo "$1: $2: all is lost"; return 1; } ;;
    esac
    grep "\"code\":\"$1\"" report >output && { echo "$1: $2: it is still there: $(cut -c 1-300 output)"; return 1; }
    return 0
}
# run_fixes FILE… - runs each command that doctor advises for the files
run_fixes()
{
    list_fixes "$@" | sort -u >advice
    run_advice
}
# run_advice - runs each command in the file advice
run_advice()
{
    nfixes=0 nfailed=0
    while IFS='	' read -r code command; do
        nfixes=$((nfixes + 1))
        run_fix "$code" "$command" || nfailed=$((nfailed + 1))
        rm -rf fixed* OUT*
    done <advice
    echo "$nfixes commands, $nfailed failed"
}
# cut_and_run_fixes FILE - cuts copies of FILE to 0/24, 1/24, … 23/24 of its size, and calls run_fixes for them
cut_and_run_fixes()
{
    part=0 size=$(wc -c <"$1")
    while [ $part -lt 24 ]; do
        head -c $((size * part / 24)) "$1" >"cut$part.${1##*.}"
        part=$((part + 1))
    done
    run_fixes cut*."${1##*.}"
    rm -f cut*
}
# damage_and_run_fixes FILE BYTES N - overwrites the N bytes at 1/12, 2/12, … 11/12 in copies of FILE by BYTES, a format
# of printf, and calls run_fixes for them
damage_and_run_fixes()
{
    part=1 size=$(wc -c <"$1")
    while [ $part -lt 12 ]; do
        at=$((size * part / 12))
        { head -c $at "$1"; printf "$2"; tail -c +$((at + 1 + $3)) "$1"; } >"damage$part.${1##*.}"
        part=$((part + 1))
    done
    run_fixes damage*."${1##*.}"
    rm -f damage*
}
flip_and_run_fixes() { damage_and_run_fixes "$1" '\377\000' 2; }
zero_and_run_fixes() { damage_and_run_fixes "$1" "$(printf '\\0%.0s' $(seq 400))" 400; }
run_fixes $(find -L corpus ! -name '* *' | LC_ALL=C sort) | sed 's/^[1-9][0-9][0-9] /hundreds of /'
MAX=100
cp data/train.pt a.pt; cut_and_run_fixes a.pt; flip_and_run_fixes a.pt
ckpt convert -q --root state_dict a.pt b.safetensors; cut_and_run_fixes b.safetensors; flip_and_run_fixes b.safetensors
cp corpus/torch/t26/state_dict_legacy.pt c.pth; cut_and_run_fixes c.pth; flip_and_run_fixes c.pth
cp corpus/torch/t26/torchscript_script.pt d.ptl; cut_and_run_fixes d.ptl
cp corpus/keras/hdf5/filters_v110.h5 e.h5; cut_and_run_fixes e.h5; flip_and_run_fixes e.h5
cp corpus/onnx/shapes.onnx f.onnx; cut_and_run_fixes f.onnx
cp corpus/keras/hdf5/links.h5 g.h5; flip_and_run_fixes g.h5; zero_and_run_fixes g.h5
# For these files doctor reports that nothing can be salvaged.
printf '<!DOCTYPE html><html><bo' >page.pt
ckpt doctor page.pt
head -c 100 a.pt >head.pt
ckpt doctor head.pt
ckpt doctor corpus/torch/badexp/08_neg_size.pt corpus/torch/t26/generator.pt
head -c 60 corpus/torch/exp/26_bad_crc_data.pt | ckpt doctor --json -
