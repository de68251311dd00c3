# The keys 1 and "1" are different: values below them differ, and --json prints both paths.
printf '\200\002}(X\1\0\0\0m}K\001K\005sX\1\0\0\0n}X\1\0\0\000aK\007su.' >int.pkl
printf '\200\002}(X\1\0\0\0m}X\1\0\0\0001K\005sX\1\0\0\0n}X\1\0\0\000aK\007su.' >text.pkl
ckpt diff int.pkl text.pkl; echo $?
ckpt diff --json int.pkl text.pkl; echo $?
