# manual.sh - libckpt.3 names every function of ckpt.h.
[ -f man/libckpt.3 ] || { echo "man/libckpt.3:1: is missing"; exit; }
for name in $(tr '\n' ' ' <lib/ckpt.h | grep -oE 'CKPT_API[^;]*;' | grep -oE 'ckpt_[a-z_0-9]+ *\(' | tr -d ' (' | sort -u); do
    grep -qw "$name" man/libckpt.3 || echo "man/libckpt.3:1: says nothing of $name"
done
