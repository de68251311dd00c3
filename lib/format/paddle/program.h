/* program.h - the parameter names of a Paddle program. */
#pragma once

#include "core/file.h"

/* The names of the parameters of a program, in sorted order. */
struct paddle_program {
    ckpt_str *names;
    size_t nnames, cap;
};

/* paddle_read_program - adds the parameter names in the program SRC to *OUT; they live as long as F. */
ckpt_status paddle_read_program(ckpt_file *f, source *src, struct paddle_program *out, ckpt_error *err);
