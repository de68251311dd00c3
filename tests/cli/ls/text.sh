# For textconv: no alignment to shift, digests, exit 0 and a reason for anything.
ckpt ls --text corpus/torch/t26/tied.pt
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 102400000\n' 0 >p.pt
ckpt ls --text p.pt
ckpt ls --text missing.pt
