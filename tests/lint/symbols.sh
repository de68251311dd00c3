# symbols.sh - only ckpt_ names leave the archive and the shared library, and both offer what ckpt.h declares.
archive=$(nm -g --defined-only "$B/libckpt.a" | awk 'NF == 3 {print $3}' | sort -u)
shared=$(nm -D --defined-only "$B/libckpt.so" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort -u)
unversioned=$(nm -D --defined-only "$B/libckpt.so" | awk '$2 != "A" && $3 !~ /@@CKPT_0$/ {print $3}')
declared=$(sh "$LINT/declared.sh")

for s in $archive; do case $s in ckpt_*) ;; *) echo "$B/libckpt.a:1: exports $s" ;; esac; done
for s in $shared; do case $s in ckpt_*) ;; *) echo "$B/libckpt.so:1: exports $s" ;; esac; done
for s in $unversioned; do echo "$B/libckpt.so:1: $s has not the version CKPT_0"; done
for s in $declared; do
    echo "$archive" | grep -qx "$s" || echo "lib/ckpt.h:1: $s is declared and not in libckpt.a"
    echo "$shared" | grep -qx "$s" || echo "lib/ckpt.h:1: $s is declared and not in libckpt.so"
done
for s in $shared; do
    echo "$declared" | grep -qx "$s" || echo "lib/ckpt.h:1: $s leaves the library undeclared"
done
