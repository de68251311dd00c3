# The totals are those of ls and info, ties and components included; each module has the sums of the tensors below it, as
# awk adds them up from the list of ls; the lines of one level and the tensors above it add up to the total.
total() { ckpt "$@" --json | sed 's/.*"total":{\([^}]*\)}.*/\1/; s/,"shown".*//'; }
check_totals()
{
    [ "$(total tree "$1")" = "$(total ls "$1")" ] || echo "$1: tree $(total tree "$1"), ls $(total ls "$1")"
    case $(total info "$1") in *"$(total ls "$1")"*) ;; *) echo "$1: info $(total info "$1"), ls $(total ls "$1")" ;; esac
    [ "$(ckpt tree --tsv --depth 1 "$1" | awk -F '\t' '$2 == 1 {t += $4; e += $5; b += $6} END {print t + 0, e + 0, b + 0}')" = \
        "$(ckpt tree --tsv "$1" | awk -F '\t' '$2 == 0 {print $4, $5, $6}')" ] || echo "$1: level 1 is not the total"
}
# sum_modules - prints "NAME TENSORS BYTES" for each prefix of the names in a list of ls that ends at a dot, or name
sum_modules()
{
    awk -F '\t' '{ n = split($1, part, "."); name = ""
        for (i = 1; i <= n; i++) { name = name (i > 1 ? "." : "") part[i]; tensors[name]++; bytes[name] += $3 } }
        END { for (name in tensors) print name, tensors[name], bytes[name] }'
}
n=0
for file in corpus/torch/t215/*.pt corpus/torch/t215/eco/hf_gpt2_safetensors corpus/megatron/tp2_pp2 corpus/deepspeed/zero3_fp32 data/train.pt; do
    ckpt ls -q "$file" >list 2>/dev/null && [ -s list ] || continue
    check_totals "$file" 2>/dev/null
    n=$((n + 1))
done
[ $n -gt 50 ] || echo "only $n files"
for file in data/train.pt corpus/torch/t215/eco/hf_gpt2_safetensors; do
    ckpt ls --tsv "$file" | sum_modules | LC_ALL=C sort >expected
    ckpt tree --no-fold --tsv "$file" | awk -F '\t' '$2 {print $1, $4, $6}' | LC_ALL=C sort >modules
    wc -l <modules
    LC_ALL=C comm -13 expected modules
    # folded, too: a name in which a number stands for all
    ckpt ls --tsv "$file" | sed 's/^transformer[.]h[.][01]/transformer.h.{0-1}/; s/[.]ln_[12]/.ln_{1-2}/' | sum_modules |
        LC_ALL=C sort >expected
    ckpt tree --tsv "$file" | awk -F '\t' '$2 && !/buffer/ {print $1, $4, $6}' | LC_ALL=C sort | LC_ALL=C comm -13 expected -
done
