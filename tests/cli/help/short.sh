# Every command has its help; help without a manual is that help.
for c in ls info show hash diff strip add rename convert sanitize salvage help completion; do
    ckpt $c --help
done
ckpt=$(command -v ckpt)
PATH=/nonexistent "$ckpt" help ls >short; head -n 2 short
PATH=/nonexistent "$ckpt" help formats; echo $?
ckpt help lss; echo $?
