# If no name matches, the hint shows what was probably meant, or what the names are relative to.
hint() { echo "> $*"; ckpt "$@" 2>&1; [ ! -e out.pt ] || { echo 'it was written'; rm out.pt; }; }
cp data/train.pt a.pt
# What a format of weights does not hold need not be dropped.
hint convert a.pt out.safetensors --drop optimizer
hint convert a.pt out.safetensors --drop 'optimizer.*'
hint convert a.pt out.safetensors --drop epoch
hint convert a.pt out.safetensors --drop none
# A name without what is around it.
hint convert a.pt out.safetensors --drop fc
hint convert a.pt out.safetensors --keep 'fc*'
hint convert a.pt out.pt --cast 'fc*=f16'
hint convert a.pt out.pt --cast 'none*=f16'
hint diff a.pt a.pt -g optimizer
hint diff a.pt a.pt -g '!optimizer'
hint ls a.pt -g '!optimizer'
# Names begin with the state dict in ls, and without it in the commands that rename.
hint rename -s '^model.=>net.' a.pt -o out.pt
hint rename -s '^state_dict.module.=>net.' a.pt -o out.pt
hint strip state_dict. a.pt -o out.pt
# The notations of sed and of Python.
hint rename -s s/fc/head/ a.pt -o out.pt
hint rename -s 's/fc[.]/head./g' a.pt -o out.pt
hint rename -s s/fc a.pt -o out.pt
hint show a.pt 'optimizer.param_groups[0].lr'
hint show a.pt 'optimizer.param_groups[0].none'
