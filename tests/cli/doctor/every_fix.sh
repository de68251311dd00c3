# Each command that doctor advises for a damaged file runs without an error.
# run_fixes FILE… - runs each command that doctor advises for the files
run_fixes()
{
    nfixes=0 nfailed=0
    ckpt doctor --json "$@" | grep -o '"fix":"ckpt [^"]*"' | sed 's/"fix":"//; s/"$//' | sort -u >advice
    while read -r command; do
        nfixes=$((nfixes + 1))
        (eval "$command") >output 2>&1 </dev/null
        [ $? -le 1 ] || { nfailed=$((nfailed + 1)); echo "$command: $(cat output)"; }
        rm -f fixed*
    done <advice
    echo "$# files, $nfixes commands, $nfailed failed"
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
run_fixes corpus/torch/badexp/*
run_fixes corpus/torch/legexp/*
run_fixes corpus/torch/exp/*.pt
run_fixes corpus/torch/t26/*
run_fixes corpus/vectors/safetensors/*
cp data/train.pt a.pt; cut_and_run_fixes a.pt
ckpt convert -q --root state_dict a.pt b.safetensors; cut_and_run_fixes b.safetensors
cp corpus/torch/t26/state_dict_legacy.pt c.pth; cut_and_run_fixes c.pth
cp corpus/torch/t26/torchscript_script.pt d.ptl; cut_and_run_fixes d.ptl
# For these files doctor reports that nothing can be salvaged.
printf '<!DOCTYPE html><html><bo' >page.pt
ckpt doctor page.pt
head -c 100 a.pt >head.pt
ckpt doctor head.pt
ckpt doctor corpus/torch/badexp/08_neg_size.pt corpus/torch/t26/generator.pt
head -c 60 corpus/torch/exp/26_bad_crc_data.pt | ckpt doctor --json -
