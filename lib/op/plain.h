/* plain.h - finds values that are not plain data, and converts numpy scalars and paths to plain data. Plain
 * data are what torch.load(weights_only=True) accepts: constants, lists, tuples, dicts, sets, tensors … */
#pragma once

#include "core/file.h"

/* The verdicts so far. The caller sets file, sets verdicts to map_new(0), and zeroes the other fields. */
struct plain_checker {
    const ckpt_file *file;
    map *verdicts;              /* node -> enum verdict */
    struct plain_step *waiting; /* the nodes still to be checked, as a stack */
    size_t n, cap;
    const ckpt_value **visited; /* nodes, by the current check_plain() */
    size_t nvisited, cap_visited;
    uint64_t work; /* steps of all check_plain() together, which are limited */
};

/* check_plain - sets *BAD to the first node at or below VALUE that is not plain data, or NULL. */
ckpt_status check_plain(struct plain_checker *checker, const ckpt_value *value, const ckpt_value **bad,
                        ckpt_error *err);
void plain_checker_free(struct plain_checker *checker);

/* What a class or callable makes, by plain.def. */
enum plain_kind { PLAIN_OTHER, PLAIN_VALUE, PLAIN_TENSOR, PLAIN_POSIX, PLAIN_WINDOWS, PLAIN_NAMESPACE };

enum plain_kind plain_kind_of(const ckpt_value *global); /* PLAIN_OTHER also if it is not a GLOBAL */
/* is_plain_value_call - returns true if VALUE is a call that makes plain data, but no tensor: torch.Size
 * … */
bool is_plain_value_call(const ckpt_value *value);
/* is_torch_constant - returns true if VALUE is the global name of a torch dtype, or of a quantisation
 * scheme. */
bool is_torch_constant(const ckpt_value *value);
/* plain_from_scalar - sets *OUT to the numpy scalar VALUE as a Python number or text in A; NULL: VALUE is not
 * a numpy scalar, or cannot be converted. False: out of memory. */
bool plain_from_scalar(arena *a, const ckpt_value *value, ckpt_value **out);
/* plain_from_path - sets *OUT to the pathlib path VALUE as text; NULL and false as in plain_from_scalar. */
bool plain_from_path(arena *a, const ckpt_value *value, ckpt_value **out);
