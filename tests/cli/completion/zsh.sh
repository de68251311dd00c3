# In zsh: it parses, and an option that may be repeated has no list of options that it excludes, which _arguments refuses.
ckpt completion zsh >c.zsh
grep -n "'\*(" c.zsh
grep -F -- "--glob=" c.zsh | sort -u
command -v zsh >/dev/null || { echo 'no zsh'; exit 77; }
zsh -n c.zsh && echo parsed
