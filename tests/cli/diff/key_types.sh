# Keys that look alike, one an int and one a text: the values below them differ, and both paths are in the JSON.
printf '\200\002}(X\1\0\0\0m}K\001K\005sX\1\0\0\0n}X\1\0\0\000aK\007su.' >int.pkl
printf '\200\002}(X\1\0\0\0m}X\1\0\0\0001K\005sX\1\0\0\0n}X\1\0\0\000aK\007su.' >text.pkl
ckpt diff int.pkl text.pkl; echo $?
ckpt diff --json int.pkl text.pkl; echo $?
