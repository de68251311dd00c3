# mem gives the reason if it cannot estimate, and asks for what is missing.
ckpt mem data/train.pt -b 1; echo "exit $?"
ckpt mem data/gpt2.json -b 1; echo "exit $?"
ckpt mem data/gpt2.json -b 1 -s 2000; echo "exit $?"
ckpt mem data/gpt2.json -b 1 -s 8 --heads 7; echo "exit $?"
ckpt mem data/gpt2.json -b 1 -s 8 --checkpoint k=13; echo "exit $?"
ckpt mem data/gpt2.json -s 8; echo "exit $?"
ckpt mem data/gpt2.json --image 8y8; echo "exit $?"
ckpt mem data/gpt2.json --optimizer lion; echo "exit $?"
ckpt mem data/gpt2.json --checkpoint half; echo "exit $?"
ckpt mem data/gpt2.json --zero 4; echo "exit $?"
ckpt mem data/train.pt --frozen 'nothing*'; echo "exit $?"
ckpt mem missing.pt; echo "exit $?"
ckpt mem corpus/torch/t215/quant_per_channel.pt; echo "exit $?"
sed 's/gpt2"/t5"/' data/gpt2.json >t5.json
ckpt mem t5.json; echo "exit $?"
sed 's/"n_layer": 12/"n_layer": 12, "num_local_experts": 8/' data/gpt2.json >experts.json
ckpt mem experts.json; echo "exit $?"
sed 's/12,/"12",/' data/gpt2.json >text.json
ckpt mem text.json; echo "exit $?"
head -c 50 data/gpt2.json >cut.json
ckpt mem cut.json; echo "exit $?"
ckpt mem corpus/gguf/quantised.gguf; echo "exit $?"
ckpt mem; echo "exit $?"
ckpt mem --optimizer list | head -n 1
