# scan reads the files below a folder in order of name, without links and pipes; if it scanned nothing, it does not exit 0.
mkdir -p d/b/c d/empty
cp data/train.pt d/b/t.pt
printf '\200\002N.' >d/z.bin
printf '\200\002cos\nsystem\n)R.' >d/b/c/a.txt
echo text >d/b/c/readme.md
ln -s ../z.bin d/b/link
mkfifo d/pipe
ckpt scan d
echo $?
ckpt scan -q d/z.bin d/b/t.pt
echo $?
ckpt scan d/b/link
ckpt scan d/empty
echo $?
ckpt scan nowhere.pt
echo $?
