# Inputs of many formats are written in parts as they are at once: with checksums, in several files, quantized, merged.
n=0
# compare INPUT OPTION… - compares two parts of INPUT with the output that is written at once
compare()
{
    n=$((n + 1))
    ckpt convert -q --no-sync "$@" -o ref$n.safetensors 2>/dev/null || echo "cannot convert $1"
    for i in 1 2 0; do ckpt convert -q --no-sync "$@" -o out$n.safetensors --part $i/3 2>/dev/null || echo "$1 part $i"; done
    ckpt merge-parts -q --verify out$n.safetensors
    cmp ref$n.safetensors out$n.safetensors && echo "$1 same"
}
compare data/train.pt
compare data/train.pt --cast f16
compare corpus/torch/t215/dp_state_dict.pt
compare corpus/torch/t26/tied.pt
compare corpus/torch/t26/tied.pt --ties copy
compare corpus/deepspeed/zero3_fp32
compare corpus/megatron/tp2_pp2
ckpt convert -q --root auto data/train.pt a.safetensors --keep '*conv*'
ckpt convert -q --root auto data/train.pt b.safetensors --drop '*conv*'
compare a.safetensors b.safetensors
# A tensor with a checksum that a cut divides: merging joins the checksums of its pieces.
{
    printf '\110\0\0\0\0\0\0\0{"w":{"dtype":"U8","shape":[20000001],"data_offsets":[0,20000001]}}     '
    seq 1 3000000 | head -c 20000001
} >w.safetensors
ckpt convert -q --no-sync w.safetensors w.pt
compare w.pt
printf x | dd of=w.pt bs=1 seek=9000000 conv=notrunc 2>/dev/null
for i in 0 1 2; do ckpt convert -q --no-sync w.pt bad.safetensors --part $i/3; done
cat .ckpt-*/part-*.json | grep -c crc32
ckpt merge-parts bad.safetensors; echo $?
ls bad.safetensors
ckpt parts bad.safetensors --clean
for i in 0 1 2; do ckpt convert -q --no-sync w.pt bad.safetensors --part $i/3 --ignore-crc; done
ckpt merge-parts bad.safetensors
