# ls --text, meant for git's textconv, prints digests without alignment, and for any unreadable file a reason and exit 0.
ckpt ls --text corpus/torch/t26/tied.pt
# a pointer file of Git LFS
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 102400000\n' 0 >lfs.pt
ckpt ls --text lfs.pt
ckpt ls --text missing.pt
