/* pickled.h - makes small torch files from pickles that are written as text, and checks their tensors. */
#ifndef PICKLED_H
#define PICKLED_H

#include "base/buf.h"
#include "unit.h"

/* put_pickle - appends to B the pickle of TEXT:
 *   None True False 12 -3 1.5 [a,b] (a,b) {k:v}
 *   'text' s'Python 2' b'bytes'   in which \ and two hexadecimal digits are one byte
 *   %12 <k:v>       a number and a dict as torch.save writes them
 *   module.name     a global
 *   f(a,b)          a call (REDUCE)
 *   f|x             a call of f whose arguments x are not a tuple
 *   new C(a,b)      NEWOBJ
 *   obj C(a,b)      OBJ
 *   x+[a,b] x+{k:v} items added to x
 *   x!state         BUILD
 *   @pid            a persistent id
 *   #3=x            x, which is put into slot 3 of the memo
 *   #3              what slot 3 of the memo holds
 *   #3~[]+[#3]      a list that is put into slot 3 while it is empty, and so can be added to itself
 *   ^x              x; sets caret_offset to the offset in this pickle of the opcode that makes x
 */
void put_pickle(buf *b, const char *text);
extern size_t caret_offset;
#define PICKLE_OFFSET 64u /* offset of the bytes of data.pkl in an archive that begins with it */

/* Texts for put_pickle. STORAGE - the persistent id of a storage of NUMEL elements. TENSOR_V2 - a view of
 * STORAGE as a tensor. FLOAT_TENSOR - the tensor of the numbers 1 2 3 4, which FLOAT_STORAGE (data/0) holds.
 * FLOAT_LISTING - FLOAT_TENSOR, without its name, in the form that check_tensors compares. */
#define ORDERED_DICT               "collections.OrderedDict()"
#define STORAGE(class, key, numel) "@('storage',torch." class "Storage,'" key "','cpu'," #numel ")"
#define FLOAT_STORAGE              STORAGE("Float", "0", 4)
#define TENSOR_V2(storage, offset, size, stride)                                                             \
    "torch._utils._rebuild_tensor_v2(" storage "," #offset "," size "," stride ",False," ORDERED_DICT ")"
#define FLOAT_TENSOR  TENSOR_V2(FLOAT_STORAGE, 0, "(4,)", "(1,)")
#define FLOAT_LISTING " dense float32[4]@0+0;"

/* A file in memory, and the result of opening it. close_file() frees both. */
struct test_file {
    ckpt_file *file; /* NULL if the file was refused with STATUS */
    char *bytes;
    size_t size;
    ckpt_status status;
    ckpt_error err;
};

/* A member of a torch.save archive: its name in the folder archive/, and its bytes. */
struct record {
    const char *name, *bytes;
    size_t size;
};

/* make_archive - makes a zip archive of the N records R and opens it. The caller passes each file that these
 * functions return to close_file. */
struct test_file make_archive(const struct record *r, size_t n, const ckpt_limits *limits);
/* replace_in_file - replaces each FROM in the bytes of MADE with TO, which has the same length, and opens
 * MADE again. */
void replace_in_file(struct test_file *made, const char *from, const char *to);
/* make_torch_zip - makes a file as torch.save writes it, of the pickle TEXT and three storages of 16 bytes,
 * and opens it. make_torch_zip_of - does the same with LIMITS; if BIG_ENDIAN, the record `byteorder` is
 * "big", but the bytes of the storages are not swapped. */
struct test_file make_torch_zip(const char *text);
struct test_file make_torch_zip_of(const char *text, bool big_endian, const ckpt_limits *limits);
/* make_torch_legacy - makes a file in torch's legacy format, of the pickles TEXT and KEYS and the N bytes
 * at STORAGES, and opens it. */
struct test_file make_torch_legacy(const char *text, const char *keys, const void *storages, size_t n);
/* make_pickle - makes a file that is only the pickle TEXT, and opens it. */
struct test_file make_pickle(const char *text);
/* open_bytes - opens a copy of the N bytes. */
struct test_file open_bytes(const void *bytes, size_t n, const ckpt_limits *limits);
void close_file(struct test_file *made);

/* check_tensors - checks that MADE has the tensors WANT, each in the form
 * "name kind dtype[shape]@storage+offset flags <class> (note);". */
void check_tensors(struct test_file *made, const char *want);
/* check_numbers - checks that the tensor NAME of F, of at most 16 float32 numbers, holds WANT: the numbers,
 * each with a blank after it. */
void check_numbers(ckpt_file *f, const char *name, const char *want);
/* check_opens - checks that the file make_torch_zip(TEXT) has the tensors WANT. check_refused - checks that
 * the file is refused with the status WANT and a message that contains WORDS, at the offset of ^ in TEXT. */
void check_opens(const char *text, const char *want);
void check_refused(const char *text, ckpt_status want, const char *words);
/* check_damaged_json - damages JSON, of SIZE bytes, and opens the file that MAKE builds from it. Wherever
 * JSON is cut, the file must be refused as truncated. If one byte is changed, the file must be opened, or
 * refused as malformed or truncated. */
void check_damaged_json(const char *json, size_t size,
                        struct test_file (*make)(const char *text, const ckpt_limits *limits));

#endif
