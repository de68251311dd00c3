# declared_functions.sh - prints the names of the functions that ckpt.h declares, for symbols.sh.
tr '\n' ' ' <lib/ckpt.h | grep -oE 'CKPT_API[^;]*;' | grep -oE 'ckpt_[a-z_0-9]+ *\(' | tr -d ' (' | sort -u
