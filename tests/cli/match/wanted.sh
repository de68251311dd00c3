# What is wanted may be a list of names, an error of load_state_dict, or a model as torch prints it.
. "$TESTS/match_input.sh"
ckpt convert -q --root state_dict.module data/train.pt fixed.safetensors
ckpt ls fixed.safetensors | sed 's/^/net./' >names.txt
ckpt match --rules -q names.txt fixed.safetensors
cat >error.txt <<'END'
Traceback (most recent call last):
RuntimeError: Error(s) in loading state_dict for Net:
	Missing key(s) in state_dict: "head.weight", "head.bias".
	Unexpected key(s) in state_dict: "fc.weight", "fc.bias".
	size mismatch for conv1.weight: copying a param with shape torch.Size([16, 3, 3, 3]) from checkpoint, the shape in current model is torch.Size([16, 1, 3, 3]).
END
ckpt match - fixed.safetensors <error.txt
ckpt ls error.txt
echo '--- a printed model'
cat >model.txt <<'END'
Net(
  (embed): Embedding(10, 16, padding_idx=0)
  (layers): ModuleList(
    (0-1): 2 x Block(
      (attn): MultiheadAttention(
        (out_proj): NonDynamicallyQuantizableLinear(in_features=16, out_features=16, bias=True)
      )
      (ln): LayerNorm((4, 16), eps=1e-05, elementwise_affine=True)
      (rms): LlamaRMSNorm((16,), eps=1e-06)
      (fc): Linear(in_features=16, out_features=32, bias=False)
      (act): GELU(approximate='none')
      (nest): ModuleList(
        (0-2): 3 x Linear(in_features=2, out_features=3, bias=True)
      )
    )
  )
  (convs): Sequential(
    (0): Conv1d(3, 6, kernel_size=(5,), stride=(1,))
    (1): Conv2d(4, 8, kernel_size=(3, 1), stride=(1, 1), groups=2, bias=False)
    (2): ConvTranspose2d(6, 4, kernel_size=(2, 3), stride=(1, 1), groups=2)
    (3): BatchNorm2d(7, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
    (4): InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False)
    (5): GroupNorm(2, 8, eps=1e-05, affine=True)
    (6): PReLU(num_parameters=3)
  )
  (lstm): LSTM(4, 5, num_layers=2, bidirectional=True)
  (proj): LSTM(4, 5, proj_size=3)
  (cell): GRUCell(3, 4, bias=False)
  (gpt): Conv1D(nf=24, nx=8)
  (old): Conv1D()
  (bil): Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)
  (pl): ParameterList(
      (0): Parameter containing: [torch.float32 of size 2x3]
      (1): Parameter containing: [torch.float32 of size ]
  )
  (pd): ParameterDict(  (k): Parameter containing: [torch.FloatTensor of size 4])
  (mystery): FancyGate(dim=3)
)
END
printf 'x.weight\n' >x.txt
ckpt diff --keys-only model.txt x.txt
ckpt match model.txt fixed.safetensors | head -n 5
printf 'Linear(in_features=3, out_features=4, bias=True)\n' >linear.txt
printf '%s\n' 'weight 4 3' 'bias 4' | write_model linear.safetensors
ckpt match linear.txt linear.safetensors
printf '%s\n' 'model.weight 4 3' 'model.bias 4' 'model.scale 7' | write_model wrapped.safetensors
ckpt match --rules -q linear.txt wrapped.safetensors
printf 'Net(\n  (fc): Linear(in_features=3, out_features=4, bias=True)\n)\n' >net.txt
printf '%s\n' 'fc.weight 4 3' 'fc.bias 4' 'cls_token 7' | write_model net.safetensors
ckpt match --rules -q net.txt net.safetensors
echo '--- neither'
for text in 'Net(\n  (fc): Linear(3, 4)\n' 'Net(\n)\nmore\n' 'Net(\n  (fc) Linear(3, 4)\n)\n' '(fc): Linear(3, 4)\n' 'Net(\n  (0-9): 3 x Linear(3, 4)\n)\n'; do
    # shellcheck disable=SC2059
    printf "$text" >bad.txt
    ckpt match bad.txt net.safetensors
done
ckpt match net.safetensors net.txt
ckpt match - - </dev/null
ckpt match --rules --json net.txt net.safetensors
ckpt match net.txt
ckpt match --root nothing net.txt net.safetensors
ckpt match --wanted-root nothing net.txt net.safetensors
