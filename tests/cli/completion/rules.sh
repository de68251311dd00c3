# The shells accept the rules that `ckpt completion` prints, and bash completes commands and options with them.
ckpt completion bash >c.bash && bash -n c.bash && echo ok
bash -c '. ./c.bash; COMP_WORDS=(ckpt str); COMP_CWORD=1; _ckpt; echo ${COMPREPLY[*]}; COMP_WORDS=(ckpt strip --a); COMP_CWORD=2; _ckpt; echo ${COMPREPLY[*]}; COMP_WORDS=(ckpt convert --ties ""); COMP_CWORD=3; _ckpt; echo ${COMPREPLY[*]}; COMP_WORDS=(ckpt completion ""); COMP_CWORD=2; _ckpt; echo ${COMPREPLY[*]}'
ckpt completion zsh >c.zsh
if command -v zsh >/dev/null; then zsh -n c.zsh || exit; fi
head -n 1 c.zsh
ckpt completion fish >c.fish
if command -v fish >/dev/null; then fish -n c.fish || exit; fi
grep -c . c.fish >/dev/null
ckpt completion tcsh; echo $?
