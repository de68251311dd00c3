# For textconv: no alignment to shift, digests, exit 0 and a reason for anything.
ckpt ls --text corpus/torch/t26/tied.pt
echo "version https://git-lfs.github.com/spec/v1" >p.pt
ckpt ls --text p.pt
ckpt ls --text missing.pt
