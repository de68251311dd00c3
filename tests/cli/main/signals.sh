# A signal during a write leaves no file behind, and the process ends by that signal.
mkfifo pipe
mkdir out
sh -c 'exec ckpt convert - out/a.pt <pipe' &
pid=$!
exec 3>pipe
head -c 20000 data/train.pt >&3
kill -TERM $pid
{ wait $pid; } 2>/dev/null
echo $?
exec 3>&-
ls -A out
# What an interrupted command reports: bytes that went to standard output cannot be taken back, and a reader writes nothing.
exec 3<>pipe
for command in 'convert - -o -' 'convert - -o out/b.pt' 'ls -'; do
    timeout -s INT 1 ckpt $command <&3 2>&1
    echo $?
done
exec 3>&-
ls -A out
