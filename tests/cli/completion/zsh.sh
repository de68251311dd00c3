# zsh accepts its rules; after the '*' of an option that may be repeated comes no list of excluded options, which _arguments would refuse there.
command -v zsh >/dev/null || { echo 'no zsh'; exit 77; }
ckpt completion zsh >c.zsh
grep -n "'\*(" c.zsh
grep -F -- "--glob=" c.zsh | sort -u
zsh -n c.zsh && echo parsed
