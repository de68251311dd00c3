# a named pipe is read as soon as a program writes to it; one that nobody writes to is not waited for without end
mkfifo pipe
cat data/train.pt >pipe &
ckpt ls pipe | tail -1
{ sleep 1; cat data/train.pt; } >pipe &
ckpt ls pipe | tail -1
: >pipe &
ckpt ls pipe; echo $?
ckpt ls pipe; echo $?
