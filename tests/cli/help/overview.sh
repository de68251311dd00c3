# Each command has one line, which its manual page and its --help have, too.
ckpt help
