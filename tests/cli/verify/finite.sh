# --finite reports NaN and Inf for each tensor, with counts and the index of the first; otherwise they do not matter.
ckpt convert -q --root state_dict data/train.pt s.safetensors
offset=$(ckpt ls --json s.safetensors | tr '{' '\n' | grep '"module.fc.weight"' | sed 's/.*"file_offset":\([0-9]*\).*/\1/')
# NaN and Inf are elements 37 and 38 of fc.weight, -Inf is the last element of the tensor before it.
printf '\0\0\300\177\0\0\200\177' | dd of=s.safetensors bs=1 seek=$((offset + 4 * 37)) conv=notrunc 2>/dev/null
printf '\0\0\200\377' | dd of=s.safetensors bs=1 seek=$((offset - 4)) conv=notrunc 2>/dev/null
ckpt verify -q s.safetensors
ckpt verify --finite s.safetensors
ckpt verify --finite --json s.safetensors
ckpt verify --finite -q data/train.pt
