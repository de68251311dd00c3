# convert avoids mistakes that other tools make: bytes from outside a view (transposed, sliced, expanded,
# channels_last), loss of parameters, of ties and of integer keys, widening of half types. Each tensor written is
# compared with what torch reads from the input.
# check_digests INPUT OUTPUT - checks that each tensor of OUTPUT has the digest of a tensor that torch reads from INPUT
check_digests()
{
    line=$(grep -h "\"file\": *\"torch/$1\"" corpus/truth/torch-*.jsonl)
    ckpt hash -q $2 | sed '$d' | while read -r digest name; do
        case $line in *"$digest"*) ;; *) echo "$1: $name differs from every tensor that torch reads" ;; esac
    done
    echo "$1: $(ckpt hash -q $2 | sed '$d' | wc -l | tr -d ' ') tensors"
}
for f in channels_last expanded view_of_big parameter keys_nonstring tied tied_embedding from_buffer dtype_float16 \
    dtype_bfloat16 dtype_float8_e4m3fn dtype_float8_e5m2 dtype_complex64 dtype_uint16 dtype_bool ints zero_dim nested conj neg \
    zero_size_storages; do
    ckpt convert -f --ties=copy corpus/torch/t215/$f.pt a.safetensors >/dev/null 2>messages && check_digests t215/$f.pt a.safetensors ||
        { echo "$f: refused"; cat messages >&2; }
    rm -f a.safetensors
done
# no name of a tie is lost without a notice
ckpt convert corpus/torch/t215/tied.pt b.safetensors
# ls lists each tensor, and if there is none gives the reason
for f in nested ints keys_nonstring dtype_bool dtype_int8 dtype_complex64; do ckpt ls corpus/torch/t215/$f.pt | wc -l | tr -d ' '; done
# a truncated file, or one with a flipped bit, is never reported as intact
head -c 3000 corpus/torch/t215/state_dict.pt >half.pt
ckpt hash half.pt
ckpt hash corpus/torch/exp/26_bad_crc_data.pt
ckpt convert corpus/torch/exp/26_bad_crc_data.pt c.safetensors
# a pointer of Git LFS is no checkpoint, and two of them are not equal
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12345\n' 7 >lfs.pt
ckpt info lfs.pt
ckpt diff lfs.pt lfs.pt
# a diff whose glob matches nothing does not report equal files
ckpt diff -g 'no.such*' corpus/torch/t215/tied.pt corpus/torch/t215/tied.pt
# an existing output is not overwritten
echo mine >d.pt
ckpt convert corpus/torch/t215/tied.pt d.pt
cat d.pt
