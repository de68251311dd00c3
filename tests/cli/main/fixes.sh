# The commands that ckpt proposes run unchanged, even for a file name that begins with '-', and name a suitable output.
# run_fix - prints the commands that the report on standard input proposes, and runs them
run_fix()
{
    sed -n 's/^ *//; s/.*fix: //p; s/^hint: .* alone: //p' | tee proposed
    sh -e proposed
}
ckpt convert -q --root auto data/train.pt m.pt
ckpt strip -q --auto m.pt -o small.pt
ckpt rename -q -s '^=>module.' small.pt -o ./-m.pt
ckpt info -- -m.pt | run_fix
# The output of the first fix exists now, so the second one must have a different name.
ckpt info -- -m.pt | run_fix
cp small.pt ./-s.pt
ckpt diff -- -m.pt -s.pt 2>&1 >/dev/null | run_fix
ckpt convert -q --max-shard-size 10kB ./-m.pt set/m.safetensors
ckpt convert -q --max-shard-size 10kB --to torch-zip ./-m.pt bins/b.bin
mv set/m.safetensors.index.json set/named.json
for set in set/named.json bins/b.bin.index.json bins; do
    ckpt info $set | run_fix
    ckpt doctor $set | run_fix
done
mkdir whole
cp ./-m.pt whole/pytorch_model.bin
ckpt doctor whole | run_fix
ls fixed*
