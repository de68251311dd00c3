#compdef ckpt
# zsh completion of ckpt: its rules come from the program, so they are those of the version that runs.
local rules
rules=$(ckpt completion zsh 2>/dev/null) || return 1
# In a function of another name, where the rules define _ckpt and do not call it yet.
() { eval "$1" } "$rules"
_ckpt "$@"
