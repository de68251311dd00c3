# Without LAPACK, or with one that computes wrong numbers, there is an error and no output.
. "$TESTS/lora_input.sh"
make_pair_of_models
ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -o a 2>&1 | grep 'Dynamic loading not supported' && {
    echo 'a static program loads no library'
    exit 77
}
rm -rf a
names='liblapack.so.3 libopenblas.so.0 libflexiblas.so.3'
mkdir bad
for name in $names; do echo x >bad/"$name"; done
# extract - extracts with the libraries in the folder bad
extract()
{
    LD_LIBRARY_PATH=$PWD/bad ckpt lora --extract base.safetensors tuned.safetensors --rank 1 -o a "$@" 2>err
    echo "exit $?"
    sed -E 's/(loaded: )[^"]*/\1REASON/; s/("found":")\/[^"]*/\1REASON/' err >&2
    [ ! -e a ] || echo 'a was written'
}
extract
extract --json
# wrong KIND - makes a LAPACK in which KIND is wrong
cat >lapack.c <<'END'
#include <stdint.h>
#include <string.h>
#ifndef INTEGER
#define INTEGER int32_t
#endif
/* of matrices [2, 3], [2, 2] and [2, 1] and their transposes; all 0 but for what a kind has */
void ilaver_(INTEGER *major, INTEGER *minor, INTEGER *patch) { *major = 3, *minor = 11, *patch = 0; }
void dsyrk_(const char *u, const char *t, const int *n, const int *k, const double *alpha, const double *a,
            const int *lda, const double *beta, double *c, const int *ldc)
{
    for (int i = 0; i < *n; i++)
        for (int j = 0; j < *n; j++)
            for (int l = 0; l < *k; l++)
                c[j * *ldc + i] += *t == 'N' ? a[l * *lda + i] * a[l * *lda + j] : a[i * *lda + l] * a[j * *lda + l];
}
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha,
            const double *a, const int *lda, const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc)
{
    for (int i = 0; i < *m; i++)
        for (int j = 0; j < *n; j++)
            for (int l = 0; l < *k; l++)
                c[j * *ldc + i] += (*ta == 'N' ? a[l * *lda + i] : a[i * *lda + l]) * b[j * *ldb + l] * GEMM;
}
void dsyevr_(const char *j, const char *r, const char *u, const int *n, double *a, const int *lda, const double *vl,
             const double *vu, const int *il, const int *iu, const double *tol, int *m, double *w, double *z,
             const int *ldz, int *isuppz, double *work, const int *lwork, int *iwork, const int *liwork, int *info)
{
    *info = 0;
    *work = *iwork = 1;
    *m = FOUND;
    if (*lwork < 0)
        return;
    double vector[2] = {VECTOR};
    memcpy(z, vector, *n * sizeof *z);
    if (*n == 1)
        *z = 1;
}
END
cc --version >/dev/null 2>&1 || { echo 'no compiler'; exit 77; }
wrong()
{
    echo "# $1" >&2
    cc -w -shared -fPIC $2 -o bad/liblapack.so.3 lapack.c || exit 77
    extract --only square.weight --only embed_tokens.weight
}
wrong 'vectors of another length' '-DGEMM=1 -DFOUND=1 -DVECTOR=1,1'
wrong 'no vectors of the matrix' '-DGEMM=1 -DFOUND=1 -DVECTOR=0.6,0.8'
wrong 'a product' '-DGEMM=2 -DFOUND=1 -DVECTOR=1,0'
wrong 'not the largest' '-DGEMM=1 -DFOUND=1 -DVECTOR=0,1'
wrong 'too few' '-DGEMM=1 -DFOUND=0 -DVECTOR=1,0'
wrong 'integers of 64 bits' '-DGEMM=1 -DFOUND=1 -DVECTOR=1,0 -DINTEGER=int64_t'
# the case would be empty if all results were refused
wrong 'nothing' '-DGEMM=1 -DFOUND=1 -DVECTOR=1,0'
