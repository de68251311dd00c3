# symbols.sh - libckpt.a and libckpt.so export only ckpt_ names, and all functions that ckpt.h declares.
archive=$(nm -g --defined-only "$B/libckpt.a" | awk 'NF == 3 {print $3}' | sort -u)
shared=$(nm -D --defined-only "$B/libckpt.so" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort -u)
unversioned=$(nm -D --defined-only "$B/libckpt.so" | awk '$2 != "A" && $3 !~ /@@CKPT_0$/ {print $3}')
declared=$(sh "$LINT/declared_functions.sh")

for symbol in $archive; do case $symbol in ckpt_*) ;; *) echo "$B/libckpt.a:1: exports $symbol" ;; esac; done
for symbol in $shared; do case $symbol in ckpt_*) ;; *) echo "$B/libckpt.so:1: exports $symbol" ;; esac; done
for symbol in $unversioned; do echo "$B/libckpt.so:1: $symbol does not have the version CKPT_0"; done
for symbol in $declared; do
    echo "$archive" | grep -qx "$symbol" || echo "lib/ckpt.h:1: $symbol is not in libckpt.a"
    echo "$shared" | grep -qx "$symbol" || echo "lib/ckpt.h:1: $symbol is not in libckpt.so"
done
for symbol in $shared; do
    echo "$declared" | grep -qx "$symbol" || echo "lib/ckpt.h:1: libckpt.so exports $symbol, which is not declared"
done
