# scan reads the files below a folder in order of name, without links and pipes; a link that leads out of it makes the
# scan incomplete; if it scanned nothing, it does not exit 0.
mkdir -p d/b/c d/empty
cp data/train.pt d/b/t.pt
printf '\200\002N.' >d/z.bin
printf '\200\002cos\nsystem\n)R.' >d/b/c/a.txt
echo text >d/b/c/readme.md
ln -s ../z.bin d/b/link
mkfifo d/pipe
ckpt scan d
echo $?
ln -s ../../elsewhere.pt d/b/outside
ckpt scan -q d/b
echo $?
rm d/b/c/a.txt d/b/outside
ckpt scan -q d
echo $?
ln -s /dev/null d/b/null
ckpt scan -q d
echo $?
ckpt scan -q d/z.bin d/b/t.pt
echo $?
ckpt scan d/b/link
ckpt scan d/empty
echo $?
ckpt scan nowhere.pt
echo $?
