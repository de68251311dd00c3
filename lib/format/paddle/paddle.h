/* paddle.h - what paddle.save makes of tensors in a pickle, for torch/pickle.c; and the names in programs. */
#ifndef FORMAT_PADDLE_PADDLE_H
#define FORMAT_PADDLE_PADDLE_H

#include "format/torch/graph.h"

/* The tensors of a pickle that paddle.save wrote. */
struct paddle_pickle {
    ckpt_file *f;
    bool is_paddle;
    struct paddle_tensor *tensor; /* by u.i of its node, which is a TENSOR */
    size_t n, cap;
};

/* paddle_find - sets P->is_paddle; if it is, the calls in the graph of F that paddle.load makes tensors of
 * become TENSOR nodes, big parameters are put together, and the table of parameter names leaves the graph. */
ckpt_status paddle_find(struct paddle_pickle *p, ckpt_file *f, struct pickle_facts *facts, source *src,
                        ckpt_error *err);
/* paddle_describe - for torch_graph: USER is a paddle_pickle. */
ckpt_status paddle_describe(void *user, struct graph *g, const ckpt_value *v, struct tensor_description *m);

/* The names of the parameters of a program, sorted. */
struct paddle_program {
    ckpt_str *name;
    size_t n, cap;
};

/* paddle_program_read - adds the names in the program SRC to *OUT; they live as long as F. */
ckpt_status paddle_program_read(ckpt_file *f, source *src, struct paddle_program *out, ckpt_error *err);

#endif
