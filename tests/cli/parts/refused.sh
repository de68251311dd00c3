# What a part refuses: other numbers of parts, another plan, an output that exists, what cannot be cut.
. "$TESTS/parts_input.sh"
make_input >in.safetensors
ckpt convert -q --no-sync in.safetensors out.safetensors --part 0/2
for part in 0/3 1/2x 2/2 0/0 x /2 0 -1/2 0/65537; do
    ckpt convert -q in.safetensors out.safetensors --part=$part 2>&1 | ids
done
ckpt convert -q in.safetensors out.safetensors --part 1/2 --part-unit file 2>&1 | ids
ckpt convert -q in.safetensors out.safetensors --part 1/2 --cast bf16 2>&1 | ids
ckpt convert -q in.safetensors out.safetensors --part 1/2 --strict 2>&1 | ids
touch -d 2020-01-01 in.safetensors
ckpt convert -q in.safetensors out.safetensors --part 1/2 2>&1 | ids
ckpt parts -q out.safetensors
ckpt parts out.safetensors --clean
# another output in the same folder is no conflict, but a folder must then be named by its files
ckpt convert -q --no-sync in.safetensors one.safetensors --part 0/2
ckpt convert -q --no-sync in.safetensors two.safetensors --part 0/2
ckpt parts .
ckpt merge-parts . 2>&1 | ids
ckpt parts one.safetensors --clean
ckpt parts . --clean
ckpt convert in.safetensors out.safetensors --part 0/2 -f
ckpt convert in.safetensors - --part 0/2 --to safetensors
ckpt convert - out.safetensors --part 0/2 <in.safetensors
ckpt convert in.safetensors out.pt --part 0/2
ckpt convert in.safetensors out.gguf --part 0/2 --architecture llama
ckpt convert in.safetensors set --to torch-zip --max-shard-size 9MB --part 0/2
ckpt convert in.safetensors out --to dcp --part 0/2
ckpt convert in.safetensors out.safetensors --part-unit=file
ckpt convert in.safetensors in.safetensors -o . --part 0/2
ckpt add x. in.safetensors -i --part 0/2
ckpt add x. in.safetensors in.safetensors -o ./ --part 0/2
echo old >out.safetensors
ckpt convert in.safetensors out.safetensors --part 0/2
ckpt convert in.safetensors missing/out.safetensors --part 0/2
ls -A
