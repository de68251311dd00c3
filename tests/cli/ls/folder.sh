# A folder with several checkpoints is refused with a list of them; -r reads all; files that go with a model are ignored.
mkdir -p d/sub model
for name in a b epoch10 epoch9 model; do cp corpus/torch/t26/zero_dim.pt d/$name.pt; done
ckpt convert -q corpus/torch/t26/zero_dim.pt d/model.safetensors
for command in ls info doctor verify hash stat show; do ckpt $command d 2>&1; echo "$command: $?"; done
ckpt ls d/ 2>&1
rm d/model.safetensors d/b.pt
ckpt ls d 2>&1
# -r reads a checkpoint without a suffix, too, and reports a web page called .pt.
cp d/a.pt d/sub/no_suffix
echo text >d/notes.txt
ln -s a.pt d/link.pt
echo '<!DOCTYPE html>' >d/page.pt
for command in ls info doctor verify hash 'stat --tsv'; do ckpt $command -r d 2>&1; echo "$command: $?"; done
ckpt ls -r --json d 2>/dev/null | cut -c 1-50
# Empty files and a dangling link count as checkpoints by their suffixes.
mkdir mixed
for i in 1 2 3; do cp d/a.pt mixed/step$i.pt; : >mixed/$i.safetensors; done
ln -s nowhere mixed/dangling.ckpt
ckpt ls mixed 2>&1
(cd mixed && ckpt ls . 2>&1)
# A single checkpoint whose name is not model.SUFFIX is refused, too.
rm mixed/[1-3].safetensors mixed/dangling.ckpt mixed/step[23].pt
ckpt ls mixed 2>&1
mkdir none; ckpt ls -r none 2>&1; echo $?
# Of 40 files not all are listed.
i=0; while [ $i -lt 40 ]; do : >none/$i.ckpt; i=$((i + 1)); done
ckpt ls none 2>&1
# Files that go with model.safetensors are ignored.
ckpt convert -q corpus/torch/t26/zero_dim.pt model/model.safetensors
for name in optimizer.pt training_args.bin rng_state_0.pth model.fp16.safetensors consolidated.00.pth x-00001-of-00002.bin; do
    cp d/a.pt model/$name
done
ckpt ls model
# A set of shards is read; another checkpoint next to it is reported.
mkdir set; ckpt convert -q --max-shard-size 1KB --root state_dict data/train.pt set/model.safetensors >/dev/null
ckpt ls set 2>&1 | wc -l
cp d/a.pt set/other.pt; ckpt info set 2>&1 | head -n 1
mkdir lone; cp corpus/flax/params.msgpack lone; ckpt ls lone 2>&1 || :
# The error counts the names that its hint lists.
mkdir five two
for name in five/a.pt five/b.pt five/1.npz five/2.npz five/3.npz two/a.pt two/b.gguf; do : >$name; done
for folder in five two; do ckpt ls $folder 2>&1; echo $?; done
