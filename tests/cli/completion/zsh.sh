# zsh accepts its rules; an option that may be repeated excludes no others, because _arguments would refuse such a rule.
command -v zsh >/dev/null || { echo 'no zsh'; exit 77; }
ckpt completion zsh >c.zsh
grep -n "'\*(" c.zsh
grep -F -- "--glob=" c.zsh | sort -u
zsh -n c.zsh && echo parsed
