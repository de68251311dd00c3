/* For each readable format: whatever is cut, zeroed, overwritten or flipped, a tensor that salvage keeps
 * equals the original, and one that it does not keep is named, or a part of the file is. In a file without
 * checksums, changed bytes cannot be noticed, so it is only cut. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "small_files.h"
#include "unit.h"

#define FILE_MAX (128u * 1024u)

/* A checkpoint of the corpus. OPERAND is opened; DAMAGED is the file of it that is damaged, COMPANION
 * another. */
static const struct sample {
    const char *folder, *operand, *damaged, *companion;
    bool has_checksums;
    bool has_no_count; /* if the file ends between two tensors, nothing shows it */
} samples[] = {
    {"torch/t26", "state_dict.pt", "state_dict.pt", NULL, true, false},
    {"torch/t215", "tuple_nested.pt", "tuple_nested.pt", NULL, true, false},
    {"torch/exp", "06_deflate_all.pt", "06_deflate_all.pt", NULL, true, false},
    {"torch/t215", "nocrc.pt", "nocrc.pt", NULL, false, false},
    {"torch/t26", "state_dict_legacy.pt", "state_dict_legacy.pt", NULL, false, false},
    {"torch/legexp", "t_tar.pt", "t_tar.pt", NULL, false, false},
    {"torch/t26", "torchscript_script.pt", "torchscript_script.pt", NULL, true, false},
    {"torch/t26", "torch_package.pt", "torch_package.pt", NULL, true, false},
    {"torch/libtorch215", "save_adam.pt", "save_adam.pt", NULL, true, false},
    {"containers", "sb3.zip", "sb3.zip", NULL, true, false},
    {"numpy/np2", "deflate.npz", "deflate.npz", NULL, true, false},
    {"numpy/np2", "stored.npz", "stored.npz", NULL, true, false},
    {"numpy/np2", "names.npz", "names.npz", NULL, true, false},
    {"tensorflow/v2", "slices.index", "slices.index", "slices.data-00000-of-00001", true, false},
    {"tensorflow/v2", "slices.index", "slices.data-00000-of-00001", "slices.index", true, false},
    {"tensorflow/v2", "dtypes.index", "dtypes.data-00000-of-00001", "dtypes.index", true, false},
    {"tensorflow/v1", "part.ckpt", "part.ckpt", NULL, true, false},
    {"tensorflow/v1", "dtypes.ckpt", "dtypes.ckpt", NULL, true, false},
    {"keras/k3", "seq.keras", "seq.keras", NULL, true, false},
    {"keras/hdf5", "track_order.h5", "track_order.h5", NULL, false, false},
    {"keras/hdf5", "filters.h5", "filters.h5", NULL, false, false},
    {"gguf", "plain_types.gguf", "plain_types.gguf", NULL, false, false},
    {"compressed", "tiny.safetensors.gz", "tiny.safetensors.gz", NULL, false, false},
    {"compressed", "tiny.safetensors.xz", "tiny.safetensors.xz", NULL, true, false},
    {"mindspore", "crc.ckpt", "crc.ckpt", NULL, false, true},
    {"flax", "params.msgpack", "params.msgpack", NULL, false, false},
    {"mxnet", "named.params", "named.params", NULL, false, false},
    {"onnx", "dtypes_raw.onnx", "dtypes_raw.onnx", NULL, false, false},
    {"onnx", "dtypes_typed.onnx", "dtypes_typed.onnx", NULL, false, false},
};

static char folder[64]; /* in which the damaged files are */
static const char *current_damage;
static size_t current_at, nruns, nkept, nlost;

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* read_sample - sets *BYTES to the file NAME of S, on the heap, and returns its size; 0: it cannot be
 * read. */
static size_t read_sample(const struct sample *s, const char *name, unsigned char **bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    FILE *in = fopen(unit_corpus_path(path), "rb");
    *bytes = calloc(1, FILE_MAX);
    size_t n = in && *bytes ? fread(*bytes, 1, FILE_MAX, in) : 0;
    if (in)
        fclose(in);
    return n;
}

static void write_file(const char *name, const unsigned char *bytes, size_t n)
{
    FILE *out = fopen(path_of(name), "wb");
    CU_ASSERT_FATAL(out != NULL);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, out), n);
    CU_ASSERT_EQUAL(fclose(out), 0);
}

/* An undamaged checkpoint: its file, and the digests of its tensors. */
struct original {
    ckpt_file *file;
    uint8_t *digests;
};

static bool is_lost(const ckpt_file *f, uint32_t row)
{
    for (size_t i = 0; i < ckpt_lost_count(f); i++)
        if (ckpt_lost_at(f, i)->row == row)
            return true;
    return false;
}

/* is_same - returns true if tensor ROW of F equals tensor I of O. */
static bool is_same(const struct original *o, uint32_t i, ckpt_file *f, uint32_t row)
{
    uint8_t digest[CKPT_DIGEST_MAX];
    const ckpt_tensor a = tensor_at(o->file, i), b = tensor_at(f, row);
    bool same_shape = a.ndim == b.ndim && memcmp(a.shape, b.shape, a.ndim * sizeof *a.shape) == 0;
    if (!a.has_data || !b.has_data)
        return a.has_data == b.has_data;
    return same_shape && a.dtype == b.dtype &&
           ckpt_digest_tensor(f, row, CKPT_XXH3, digest, NULL) == CKPT_OK &&
           memcmp(digest, o->digests + (size_t)i * CKPT_DIGEST_MAX, 16) == 0;
}

static void fail_sample(const struct sample *s, ckpt_str name, const char *what)
{
    printf("\n    %s/%s %s at %zu: %s %s", s->folder, s->damaged, current_damage, current_at, name.ptr, what);
    CU_FAIL("salvage keeps what is not intact, or loses it without a word");
}

/* check_salvaged - compares what salvage keeps of the damaged checkpoint S with the original O. */
static void check_salvaged(const struct sample *s, const struct original *o)
{
    ckpt_file *f = NULL;
    nruns++;
    if (ckpt_salvage(path_of(s->operand), NULL, &f, NULL) != CKPT_OK)
        return; /* nothing is kept */
    bool loses = s->has_no_count || ckpt_lost_count(f) || ckpt_lost_parts(f);
    for (uint32_t i = 0; i < ckpt_tensor_count(o->file); i++) {
        uint32_t row = ckpt_tensor_find(f, ckpt_tensor_name(o->file, i));
        if (row == CKPT_NO_TENSOR && !loses)
            fail_sample(s, ckpt_tensor_name(o->file, i), "is missing, and nothing is lost");
        else if (row != CKPT_NO_TENSOR && !is_lost(f, row) && !is_same(o, i, f, row))
            fail_sample(s, ckpt_tensor_name(o->file, i), "is kept, but differs");
        nkept += row != CKPT_NO_TENSOR && !is_lost(f, row);
        nlost += row == CKPT_NO_TENSOR || is_lost(f, row);
    }
    for (uint32_t row = 0; row < ckpt_tensor_count(f); row++)
        if (ckpt_tensor_find(o->file, ckpt_tensor_name(f, row)) == CKPT_NO_TENSOR && !is_lost(f, row))
            fail_sample(s, ckpt_tensor_name(f, row), "is made up");
    ckpt_close(f);
}

static void damage_range(unsigned char *bytes, size_t from, size_t to, bool zero)
{
    for (size_t i = from; i < to; i++)
        bytes[i] = zero ? 0 : (unsigned char)(i * 2654435761u >> 11);
}

/* try_change - writes BYTES with [FROM, TO) zeroed, or else overwritten, and checks what is salvaged. */
static void try_change(const struct sample *s, const struct original *o, const unsigned char *bytes,
                       size_t size, const size_t range[2], bool zero)
{
    unsigned char *copy = malloc(size);
    CU_ASSERT_FATAL(copy != NULL);
    memcpy(copy, bytes, size);
    damage_range(copy, range[0], range[1], zero);
    current_damage = zero ? "zeroed" : "overwritten";
    current_at = range[0];
    if (memcmp(copy, bytes, size) != 0) {
        write_file(s->damaged, copy, size);
        check_salvaged(s, o);
    }
    free(copy);
}

static void try_all_damage(const struct sample *s, const struct original *o, const unsigned char *bytes,
                           size_t size)
{
    enum { CUTS = 60, PLACES = 40 };
    current_damage = "cut";
    for (size_t i = 0; i < CUTS; i++) {
        current_at = size * i / CUTS;
        write_file(s->damaged, bytes, current_at);
        check_salvaged(s, o);
    }
    for (size_t i = 0; s->has_checksums && i < PLACES; i++) {
        size_t at = size * i / PLACES, next = size * (i + 1) / PLACES;
        const size_t tail[2] = {at, size}, head[2] = {0, next}, middle[2] = {at, next},
                     byte[2] = {at, at + 1};
        for (int zero = 0; zero < 2; zero++) {
            try_change(s, o, bytes, size, tail, zero);
            try_change(s, o, bytes, size, head, zero);
            try_change(s, o, bytes, size, middle, zero);
            try_change(s, o, bytes, size, byte, zero);
        }
    }
}

static void check_sample(const struct sample *s)
{
    struct original o = {0};
    unsigned char *bytes, *others = NULL;
    size_t size = read_sample(s, s->damaged, &bytes),
           nothers = s->companion ? read_sample(s, s->companion, &others) : 0;
    write_file(s->damaged, bytes, size);
    if (others)
        write_file(s->companion, others, nothers);
    CU_ASSERT_EQUAL_FATAL(ckpt_open(path_of(s->operand), NULL, &o.file, NULL), CKPT_OK);
    o.digests = calloc(ckpt_tensor_count(o.file) + 1, CKPT_DIGEST_MAX);
    for (uint32_t i = 0; i < ckpt_tensor_count(o.file); i++)
        if (tensor_at(o.file, i).has_data)
            CU_ASSERT_EQUAL(
                ckpt_digest_tensor(o.file, i, CKPT_XXH3, o.digests + (size_t)i * CKPT_DIGEST_MAX, NULL),
                CKPT_OK);
    unlink(path_of(s->damaged)); /* the original stays readable */
    try_all_damage(s, &o, bytes, size);
    ckpt_close(o.file);
    free(o.digests);
    free(bytes);
    free(others);
    unlink(path_of(s->damaged));
    if (s->companion)
        unlink(path_of(s->companion));
}

static void what_is_kept_is_intact_and_what_is_lost_is_named(void)
{
    snprintf(folder, sizeof folder, "/tmp/unit-damage-XXXXXX");
    CU_ASSERT_FATAL(mkdtemp(folder) != NULL);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        check_sample(&samples[i]);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
    printf("[%zu runs, %zu kept, %zu lost] ", nruns, nkept, nlost);
    CU_ASSERT(nkept > 1000 && nlost > 1000);
}

void suite_salvage_damage(void) { UNIT(what_is_kept_is_intact_and_what_is_lost_is_named); }
