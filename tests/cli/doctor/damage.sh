# doctor reports where a file is cut off, which bytes are damaged and, with --finite, NaN.
for n in 700 5500 20000 50600; do
    head -c $n data/train.pt >cut.pt
    ckpt doctor cut.pt
done
ckpt convert -q --root state_dict data/train.pt w.safetensors
head -c 9000 w.safetensors >cut.safetensors
ckpt doctor cut.safetensors
ckpt doctor corpus/torch/legexp/e_truncated.pt
ckpt doctor corpus/torch/t215/failed_save_leftover.pt
ckpt doctor corpus/torch/exp/26_bad_crc_data.pt
ckpt doctor --quick corpus/torch/exp/26_bad_crc_data.pt
ckpt doctor corpus/torch/exp/49_dup_record.pt
ckpt doctor corpus/torch/exp/20_storage_short.pt
printf '\001\341\365\005\0\0\0\0{' >big.safetensors
ckpt doctor big.safetensors
truncate -s 100000100 big.safetensors
ckpt doctor big.safetensors
ckpt strip -q --auto w.safetensors -o nan.safetensors
printf '\377\377\377\377' | dd of=nan.safetensors bs=1 seek=22000 conv=notrunc 2>/dev/null
ckpt doctor nan.safetensors
ckpt doctor --finite nan.safetensors
