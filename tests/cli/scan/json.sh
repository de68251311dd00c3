# The schema: every call in order, and what came of the file.
printf '\200\002ccollections\nOrderedDict\n)R(X\001\000\000\000ac__builtin__\neval\nX\003\000\000\0001\2121\205RuX\377' >a.pkl
ckpt scan --json a.pkl
echo $?
ckpt scan --json data/train.pt | tr '{' '\n' | tail -n 3
# The verdict is the one of the text: what could not be looked at is not clean.
ckpt scan --json no-such.pkl | tr ',' '\n' | grep verdict
printf 'PK\003\004 and no archive' >b.bin
ckpt scan --json b.bin | tr ',' '\n' | grep verdict
printf '\200\002N.some bytes' >c.pkl
ckpt scan --json c.pkl | tr ',' '\n' | grep verdict
