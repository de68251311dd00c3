# Each command that doctor advises for a damaged file runs without an error.
every()
{
    advised=0 vain=0
    ckpt doctor --json "$@" | grep -o '"fix":"ckpt [^"]*"' | sed 's/"fix":"//; s/"$//' | sort -u >advice
    while read -r command; do
        advised=$((advised + 1))
        (eval "$command") >said 2>&1 </dev/null
        [ $? -le 1 ] || { vain=$((vain + 1)); echo "$command: $(cat said)"; }
        rm -f fixed*
    done <advice
    echo "$# files, $advised commands, $vain in vain"
}
cut()
{
    i=0 size=$(wc -c <"$1")
    while [ $i -lt 24 ]; do
        head -c $((size * i / 24)) "$1" >"cut$i.${1##*.}"
        i=$((i + 1))
    done
    every cut*."${1##*.}"
    rm -f cut*
}
every corpus/torch/badexp/*
every corpus/torch/legexp/*
every corpus/torch/exp/*.pt
every corpus/torch/t26/*
every corpus/vectors/safetensors/*
cp data/train.pt a.pt; cut a.pt
ckpt convert -q --root state_dict a.pt b.safetensors; cut b.safetensors
cp corpus/torch/t26/state_dict_legacy.pt c.pth; cut c.pth
cp corpus/torch/t26/torchscript_script.pt d.ptl; cut d.ptl
# doctor reports that nothing can be salvaged
printf '<!DOCTYPE html><html><bo' >page.pt
ckpt doctor page.pt
head -c 100 a.pt >head.pt
ckpt doctor head.pt
ckpt doctor corpus/torch/badexp/08_neg_size.pt corpus/torch/t26/generator.pt
head -c 60 corpus/torch/exp/26_bad_crc_data.pt | ckpt doctor --json -
