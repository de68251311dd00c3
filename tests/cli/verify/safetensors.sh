# verify names each entry of a safetensors header that breaks a rule, and reports nothing twice.
# write_file HEADER DATA FILE - writes a safetensors file
write_file()
{
    length=$(printf %s "$1" | wc -c)
    { printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\0\0\0\0\0\0"; printf %s "$1"; printf %s "$2"; } >"$3"
}
write_file '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"c":{"dtype":"F32","shape":[3],"data_offsets":[12,20]},"d":{"dtype":"U8","shape":[4],"data_offsets":[24,28]},"d":{"dtype":"U8","shape":[4],"data_offsets":[24,28]},"e":{"dtype":"U8","shape":[9],"data_offsets":[28,37]}}' 0123456789012345678901234567890 bad.safetensors
ckpt verify bad.safetensors
write_file '{"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[-2],"data_offsets":[8,16]},"c":7,"d":{"dtype":"U8","shape":[4]},"e":{"dtype":"U8","shape":[4],"data_offsets":[16,20]}}' 01234567890123456789 fields.safetensors
ckpt verify fields.safetensors
write_file '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 0123 more.safetensors
ckpt verify more.safetensors
write_file '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}' 01 cut.safetensors
ckpt verify cut.safetensors
