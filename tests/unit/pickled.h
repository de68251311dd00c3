/* pickled.h - pickles written as text, the files around them, and the tensors in those as text again. */
#ifndef PICKLED_H
#define PICKLED_H

#include "base/buf.h"
#include "unit.h"

/* pickled - appends the pickle of TEXT:
 *   None True False 12 -3 1.5 'text' s'Python 2' b'bytes' [a,b] (a,b) {k:v}; in a text \ and two
 *                   hexadecimal digits
 *   %12 <k:v>       a number and a dict as torch.save writes them
 *   module.name     a global       f(a,b)   a call         new C(a,b)   NEWOBJ    obj C(a,b)   OBJ
 *   f|x             a call of f with arguments that are no tuple
 *   x+[a,b] x+{k:v} what is put into x       x!state       BUILD
 *   @pid            a persistent id          #3=x, #3      kept in the memo, taken from it;
 *                                            #3~[]+[#3] before it is filled
 *   ^x              where x is made is caret_offset, counted from where B was before
 */
void put_pickle(buf *b, const char *text);
extern size_t caret_offset;

#define STORAGE(class, key, numel) "@('storage',torch." class "Storage,'" key "','cpu'," #numel ")"
#define FLOATS                     STORAGE("Float", "0", 4) /* of every file made here: 1 2 3 4 */
#define V2(storage, offset, size, stride)                                                                    \
    "torch._utils._rebuild_tensor_v2(" storage "," #offset "," size "," stride                               \
    ",False,collections.OrderedDict())"
#define W V2(FLOATS, 0, "(4,)", "(1,)")

/* A file that was made and opened. */
struct test_file {
    ckpt_file *f; /* NULL: refused */
    char *bytes;
    size_t size;
    ckpt_status status;
    ckpt_error err;
};

struct record {
    const char *name, *bytes;
    size_t size;
};

/* make_archive - N records below archive/, opened. Close with close_file. */
struct test_file make_archive(const struct record *r, size_t n, const ckpt_limits *limits);
/* replace_in_file - M opened once more, with TO in place of each FROM of the same length in its bytes. */
void replace_in_file(struct test_file *m, const char *from, const char *to);
/* make_torch_zip - torch.save's: data.pkl is TEXT pickled, data/0 has 16 bytes, and so have data/1, data/2. */
struct test_file make_torch_zip(const char *text);
struct test_file make_torch_zip_of(const char *text, bool big_endian, const ckpt_limits *limits);
/* make_torch_legacy - torch's older stream: the pickle of TEXT, of KEYS, and the N bytes behind them. */
struct test_file make_torch_legacy(const char *text, const char *keys, const void *behind, size_t n);
/* make_pickle - TEXT pickled and nothing else. */
struct test_file make_pickle(const char *text);
/* open_bytes - a copy of those bytes, opened. */
struct test_file open_bytes(const void *bytes, size_t n, const ckpt_limits *limits);
void close_file(struct test_file *m);

/* check_rows - the tensors of M, each "name kind dtype[shape]@storage+offset parameter grad conj neg note;". */
void check_rows(struct test_file *m, const char *want);
/* check_numbers - those of F's tensor NAME, at most 16 of them, as float32: "1 2.5 ". */
void check_numbers(ckpt_file *f, const char *name, const char *want);
/* check_opens, check_refused - the same of make_torch_zip(TEXT), closed again; where an error is: what ^ marks in TEXT. */
void check_opens(const char *text, const char *want);
void check_refused(const char *text, ckpt_status want, const char *words);
/* check_every_cut - wherever the SIZE bytes of WHOLE, a text that MAKE takes, break off or become other text
 * than JSON, that is said, or the file is read. */
void check_every_cut(const char *whole, size_t size,
                     struct test_file (*make)(const char *text, const ckpt_limits *limits));

#endif
