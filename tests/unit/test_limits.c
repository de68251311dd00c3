/* With any ckpt_limits, a file is read, or refused because of the limit. */
#include "core/file.h"
#include "unit.h"

static const char *const files[] = {
    "torch/exp/01_pyzip_stored.pt",
    "torch/t215/eco/hf_gpt2_sharded/model.safetensors.index.json",
    "torch/t215/eco/hf_gpt2_sharded/model-00003-of-00004.safetensors",
    "torch/t10/state_dict.pt",
};

static ckpt_status open_with_limits(const char *corpus_file, ckpt_limits limits, ckpt_error *err)
{
    ckpt_file *f;
    ckpt_status st = ckpt_open(unit_corpus_path(corpus_file), &limits, &f, err);
    if (st == CKPT_OK)
        ckpt_close(f);
    return st;
}

static void memory_for_metadata_is_limited(void)
{
    ckpt_error err;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bool was_read = false;
        CU_ASSERT(open_with_limits(files[i],
                                   (ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_metadata = 256},
                                   &err) == CKPT_ELIMIT);
        for (uint64_t max = 256; max <= 1u << 20; max = max * 5 / 4) {
            ckpt_status st = open_with_limits(
                files[i], (ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_metadata = max}, &err);
            CU_ASSERT(st == CKPT_OK || (st == CKPT_ELIMIT && strstr(err.what, "memory") && err.hint[0]));
            CU_ASSERT(!was_read || st == CKPT_OK); /* a higher limit never refuses more */
            was_read = st == CKPT_OK;
        }
        CU_ASSERT(was_read);
    }
}

static void the_number_of_tensors_is_limited(void)
{
    ckpt_error err;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ckpt_file *f;
        CU_ASSERT_FATAL(ckpt_open(unit_corpus_path(files[i]), NULL, &f, &err) == CKPT_OK);
        uint32_t n = ckpt_tensor_count(f);
        ckpt_close(f);
        CU_ASSERT(open_with_limits(files[i],
                                   (ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_tensors = n - 1},
                                   &err) == CKPT_ELIMIT);
    }
}

/* put_nested_lists - writes a pickle of N nested lists to OUT, and returns its size. */
static size_t put_nested_lists(unsigned n, unsigned char *out)
{
    size_t at = 0;
    out[at++] = 0x80;
    out[at++] = 2;
    for (unsigned i = 0; i < n; i++)
        out[at++] = ']';
    for (unsigned i = 1; i < n; i++)
        out[at++] = 'a';
    out[at++] = '.';
    return at;
}

static void depth_is_limited(void)
{
    static unsigned char bytes[8192];
    ckpt_error err;
    for (unsigned max = 1; max <= 2000; max = max < 20 ? max + 1 : max * 2) {
        ckpt_limits limits = {.struct_size = sizeof limits, .max_depth = max};
        for (unsigned n = max; n <= max + 2; n++) { /* the path of the innermost list has n - 1 elements */
            ckpt_file *f = NULL;
            ckpt_status st = ckpt_open_memory(bytes, put_nested_lists(n, bytes), "nested", &limits, &f, &err);
            CU_ASSERT(st == (n - 1 <= max ? CKPT_OK : CKPT_ELIMIT));
            if (st == CKPT_OK)
                ckpt_close(f);
        }
    }
}

static int count_bytes(void *user, const void *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)user += n;
    return 0;
}

/* The file has two expanded views: x of 48 bytes on a storage of 4, and y of 16 bytes on a storage of 12. */
static void bytes_of_views_are_limited(void)
{
    static const uint64_t limit[] = {1, 63, 64, 0}; /* 0: the default, which allows more */
    for (size_t i = 0; i < 4; i++) {
        ckpt_limits limits = {.struct_size = sizeof limits, .max_expanded = limit[i]};
        ckpt_file *f = NULL;
        ckpt_error err;
        size_t got = 0;
        char one[4];
        CU_ASSERT_FATAL(ckpt_open(unit_corpus_path("torch/t215/expanded.pt"), &limits, &f, &err) == CKPT_OK);
        ckpt_status st = ckpt_tensor_stream(f, 0, count_bytes, &got, &err);
        CU_ASSERT(st == (i < 2 ? CKPT_ELIMIT : CKPT_OK) && got == (i < 2 ? 0 : 48));
        CU_ASSERT(st == CKPT_OK || (strstr(err.what, "48 bytes") && strstr(err.what, "show 64")));
        /* only reading all of a view is limited */
        CU_ASSERT(ckpt_tensor_read(f, 0, 11, 1, one, &err) == CKPT_OK);
        ckpt_close(f);
    }
}

/* By default, views may have 64 MiB, or 8 times the bytes of the file if that is more. */
static void the_default_limit_of_views_depends_on_the_file(void)
{
    static const struct {
        uint64_t max_expanded, nbytes; /* the limit of the caller (0: none), and the size of the file */
        uint64_t want;                 /* the limit to be used */
    } cases[] = {
        {0, 637, 64 << 20},    {0, 8 << 20, 64 << 20},      {0, (8 << 20) + 1, (64 << 20) + 8},
        {5, (8 << 20) + 1, 5}, {0, UINT64_MAX, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ckpt_file f = {.limits.max_expanded = cases[i].max_expanded, .nbytes = cases[i].nbytes};
        file_set_view_limit(&f);
        CU_ASSERT_EQUAL(f.table.max_expanded, cases[i].want);
    }
}

void suite_limits(void)
{
    UNIT(memory_for_metadata_is_limited);
    UNIT(the_number_of_tensors_is_limited);
    UNIT(depth_is_limited);
    UNIT(bytes_of_views_are_limited);
    UNIT(the_default_limit_of_views_depends_on_the_file);
}
