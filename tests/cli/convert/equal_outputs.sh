# Of the outputs that go into one folder, none may have the path of another, or of an input that is still to be read:
# nothing is written then. The suffix is that of the format, for every command.
. "$TESTS/safetensors.sh"
print_safetensors '{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' x >x.safetensors
print_safetensors '{"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' y >y.safetensors
ckpt convert -q x.safetensors a.pt
cp a.pt a.bin
cp a.pt b.bin
cp y.safetensors a.safetensors
mkdir o up
cp a.pt up/A.PT
inputs() { sha256sum ./*.pt ./*.bin ./*.safetensors | sha256sum; }
before=$(inputs)
# refuse COMMAND… - runs the command, and checks that the inputs are as they were, and o is empty
refuse()
{
    "$@"; echo "exit $?"
    [ "$(inputs)" = "$before" ] || echo 'an input changed'
    ls -A o
}

echo '# the output of one is the next input'
refuse ckpt convert a.pt a.safetensors -o . -f --to safetensors
refuse ckpt strip -f --allow-none q. a.safetensors ./a.pt -o . --to torch-zip
echo '# the outputs have one name'
refuse ckpt convert a.pt a.bin -o o -f --to safetensors
refuse ckpt add q. a.pt a.bin -o o/ --to safetensors
refuse ckpt rename -s 'x=>z' a.pt a.bin -o o/ --to safetensors
refuse ckpt convert a.pt up/A.PT -o o
refuse ckpt add q. a.pt ././a.pt -o o
gzip -k a.pt
refuse ckpt convert a.pt a.pt.gz -o o
echo '# or lead to one file'
ln -s b.safetensors o/a.safetensors
ckpt convert a.pt b.bin -fo o --to safetensors; echo $?
cp x.safetensors o/b.safetensors
ckpt convert a.pt b.bin -fo o --to safetensors; echo $?
rm o/*
ln -s ../y.safetensors o/b.safetensors
refuse ckpt convert b.bin y.safetensors -fo o --to safetensors
rm o/*

echo '# an output is a file of a set that is read later'
cp -R corpus/deepspeed/zero2_bf16 corpus/torch/dist26/dcp_multi .
mkdir elsewhere
tag=$(cat zero2_bf16/latest)
cp a.pt elsewhere/mp_rank_00_model_states.pt
refuse ckpt convert elsewhere/mp_rank_00_model_states.pt zero2_bf16 -fo "zero2_bf16/$tag"
cmp "zero2_bf16/$tag/mp_rank_00_model_states.pt" "corpus/deepspeed/zero2_bf16/$tag/mp_rank_00_model_states.pt"
echo '# folders and sets of shards need one for each'
cp -R corpus/torch/t215/eco/hf_gpt2_sharded s1
cp -R s1 s2
refuse ckpt convert s1 s2 -fo o
refuse ckpt strip --auto x.safetensors s2/model.safetensors.index.json -fo o/
refuse ckpt add q. a.pt b.bin --to dcp -o o
refuse ckpt add q. dcp_multi dcp_multi -o o
echo '# standard input'
refuse ckpt convert - a.pt -o o <b.bin
ckpt convert - a.pt --to npz -o o <b.bin
rm o/*

echo '# the suffix is that of the format; a single input may be replaced'
for c in 'strip --allow-none q.' 'add q.' 'rename -s [xy]=>z' convert; do
    ckpt $c -q a.pt y.safetensors -o o/ --to safetensors
    ls o
    rm o/*
done
ckpt add -q q. a.pt a.pt.gz -o o; echo $?
ckpt add -q q. a.pt.gz -o o; ls o
ckpt add -q r. a.bin b.bin -fo .; ckpt ls a.bin
