# manual.sh - libckpt.3 names every function of ckpt.h.
[ -f man/libckpt.3 ] || { echo "man/libckpt.3:1: is missing"; exit; }
for name in $(sh "$LINT/declared.sh"); do
    grep -qw "$name" man/libckpt.3 || echo "man/libckpt.3:1: says nothing of $name"
done
