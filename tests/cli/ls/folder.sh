# A folder with several checkpoints is refused with a list of them; -r reads all; files that go with a model are ignored.
mkdir -p d/sub model
for i in a b epoch10 epoch9 model; do cp corpus/torch/t26/zero_dim.pt d/$i.pt; done
ckpt convert -q corpus/torch/t26/zero_dim.pt d/model.safetensors
for c in ls info doctor verify hash stat show; do ckpt $c d 2>&1; echo "$c: $?"; done
ckpt ls d/ 2>&1
rm d/model.safetensors d/b.pt
ckpt ls d 2>&1
cp d/a.pt d/sub/no_suffix; echo text >d/notes.txt; ln -s a.pt d/link.pt; echo '<!DOCTYPE html>' >d/page.pt
for c in ls info doctor verify hash 'stat --tsv'; do ckpt $c -r d 2>&1; echo "$c: $?"; done
ckpt ls -r --json d 2>/dev/null | cut -c 1-50
mkdir mixed; for i in 1 2 3; do cp d/a.pt mixed/step$i.pt; : >mixed/$i.safetensors; done; ln -s nowhere mixed/dangling.ckpt
ckpt ls mixed 2>&1; (cd mixed && ckpt ls . 2>&1); rm mixed/[1-3]* mixed/d* mixed/step[23].pt; ckpt ls mixed 2>&1
mkdir none; ckpt ls -r none 2>&1; echo $?
i=0; while [ $i -lt 40 ]; do : >none/$i.ckpt; i=$((i + 1)); done
ckpt ls none 2>&1
ckpt convert -q corpus/torch/t26/zero_dim.pt model/model.safetensors
for f in optimizer.pt training_args.bin rng_state_0.pth model.fp16.safetensors consolidated.00.pth x-00001-of-00002.bin; do cp d/a.pt model/$f; done
ckpt ls model
mkdir set; ckpt convert -q --max-shard-size 1KB --root state_dict data/train.pt set/model.safetensors >/dev/null
ckpt ls set 2>&1 | wc -l
cp d/a.pt set/other.pt; ckpt info set 2>&1 | head -n 1
mkdir lone; cp corpus/flax/params.msgpack lone; ckpt ls lone 2>&1 || :
