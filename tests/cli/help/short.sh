# Each command has --help, which `ckpt help` prints, too, if there is no manual page to show.
# not ASCII: this script shortens paths with …
for c in ls tree info show hash diff strip add rename convert parts merge-parts sanitize salvage help completion; do
    ckpt $c --help
done
ckpt=$(command -v ckpt)
PATH=/nonexistent "$ckpt" help ls >short 2>messages; head -n 2 short; sed 's,: .*/man/,: …/man/,' messages
PATH=/nonexistent "$ckpt" help formats 2>messages; echo $?; sed 's,: /.*/man/,: …/man/,' messages
ckpt help lss; echo $?
