# scan follows .metadata of a distributed checkpoint to its values, wherever they are: in the numbers of a tensor, in
# another file, outside of the folder.
C=ctorch.distributed.checkpoint
# text LENGTH TEXT - prints TEXT as BINUNICODE; LENGTH is octal
text() { printf "X\\$1\\0\\0\\0$2"; }
# metadata KIND PATH OFFSET LENGTH - prints .metadata whose entry "v" is a KIND, at OFFSET (octal) of PATH
metadata()
{
    printf '\200\002%s.metadata\nMetadata\n)\201}(' $C
    text 023 state_dict_metadata
    printf '}'
    text 001 v
    printf '%s.metadata\n%s\n)\201}bs' $C "$1"
    text 014 storage_data
    printf '}%s.metadata\nMetadataIndex\n)\201}(' $C
    text 003 fqn
    text 001 v
    text 006 offset
    printf 'Nub%s.filesystem\n_StorageInfo\n)\201}(' $C
    text 015 relative_path
    text "$(printf %03o ${#2})" "$2"
    text 006 offset
    printf "K\\$3"
    text 006 length
    printf "K\\$4ubsub."
}
# numbers: 100 bytes, the pickle of a call (20 bytes), 100 bytes
mkdir d
head -c 100 /dev/zero >numbers
printf '\200\002cos\nsystem\nU\002id\205R.' >>numbers
head -c 100 /dev/zero >>numbers
{
    printf '\030\0\0\0\0\0\0\0{"a":{"dtype":"U8","shape":[220],"data_offsets":[0,220]}}' | sed 's/^\x18/\x39/'
    cat numbers
} >d/__0_0.distcp
ckpt scan d
echo $?
at=$((8 + 57 + 100))
metadata BytesStorageMetadata __0_0.distcp "$(printf %03o $at)" 024 >d/.metadata
ckpt scan d
echo $?
tar -cf d.tar ./d
gzip -c d.tar >d.tar.gz
ckpt scan d.tar d.tar.gz
echo $?
tar -rf d.tar d/__0_0.distcp # which of the two is loaded depends on who unpacks them
ckpt scan d.tar
echo $?
tar -cf d.tar d
tar -rf d.tar ./d/.metadata
ckpt scan d.tar
echo $?
metadata TensorStorageMetadata __0_0.distcp "$(printf %03o $at)" 024 >d/.metadata
tar -cf d.tar d
ckpt scan -q d.tar
echo $?
ckpt scan -q d/.metadata
echo $?
metadata BytesStorageMetadata ../numbers 144 024 >d/.metadata
ckpt scan d/.metadata
echo $?
metadata BytesStorageMetadata other.distcp 000 024 >d/.metadata
ckpt scan d/.metadata
echo $?
metadata BytesStorageMetadata __0_0.distcp 377 377 >d/.metadata
ckpt scan --sandbox=off d/.metadata
echo $?
sed 's/X\(.\)\x00\x00\x00/U\1/g' d/.metadata >d/bytes.metadata # SHORT_BINSTRING, which no torch writes
ckpt scan d/bytes.metadata
echo $?
for folder in corpus/torch/t215/dist/dcp_*; do
    ckpt scan -q "$folder"
    echo $?
done
