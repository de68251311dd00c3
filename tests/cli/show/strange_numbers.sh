# show prints NaN, infinities, empty and 0-dim tensors, in text and JSON.
ckpt show corpus/torch/t26/empty.pt
ckpt show corpus/torch/t26/zero_dim.pt
printf "\130\000\000\000\000\000\000\000%-88s" "{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}" >x.safetensors
printf "\000\000\300\177\000\000\200\177\000\000\200\377\000\000\200\000" >>x.safetensors
ckpt show x.safetensors x
ckpt show --exact x.safetensors x
ckpt show --json x.safetensors x
