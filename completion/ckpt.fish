# fish completion of ckpt: its rules come from the program, so they are those of the version that runs.
ckpt completion fish 2>/dev/null | source
