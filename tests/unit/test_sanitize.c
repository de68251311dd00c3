/* Sanitizing: only allowed calls remain, even if the pickle has cycles or is deeply nested, and the tensors
 * do not change. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "core/plan.h"
#include "op/weights_only.h"
#include "small_files.h"
#include "unit.h"

/* sanitize_file - sanitizes F and writes it to PATH as torch-zip. Returns the number of lost values, or -1 if
 * the file is not written. If STRICT, it is not written if a value is lost. */
static int sanitize_file(ckpt_file *f, char *path, bool strict)
{
    ckpt_plan *p = NULL;
    ckpt_write_options o = {
        .struct_size = sizeof o, .force = true, .no_sync = true, .strict = strict, .format = "torch-zip"};
    int lost = 0;
    CU_ASSERT_EQUAL(ckpt_plan_new(f, &p, NULL), CKPT_OK);
    ckpt_status st = ckpt_plan_sanitize(p, NULL, NULL);
    for (size_t i = 0; i < ckpt_plan_sanitized_count(p); i++)
        lost += ckpt_plan_sanitized_at(p, i)->lost != 0;
    CU_ASSERT_PTR_NULL(ckpt_plan_sanitized_at(p, ckpt_plan_sanitized_count(p)));
    if (st == CKPT_OK)
        st = ckpt_plan_write(p, path, &o, NULL, NULL);
    ckpt_plan_free(p);
    return st == CKPT_OK ? lost : -1;
}

static void make_temp_file(char path[32])
{
    memcpy(path, "/tmp/ckpt-unit-XXXXXX", 22);
    int fd = mkstemp(path);
    CU_ASSERT(fd >= 0);
    close(fd);
}

/* loads_with_weights_only - returns whether torch would load PATH with weights_only; if PATH can be opened,
 * sets *LEAVES to the number of its values that are not tensors. */
static bool loads_with_weights_only(const char *path, size_t *leaves)
{
    ckpt_file *f = NULL;
    struct weights_only loading;
    if (ckpt_open(path, NULL, &f, NULL) != CKPT_OK)
        return false;
    CU_ASSERT_EQUAL(weights_only_check(f, f->a, &loading, NULL), CKPT_OK);
    *leaves = ckpt_leaf_count(f);
    ckpt_close(f);
    return loading.verdict == 1;
}

/* sanitize_pickle - sanitizes the pickle of SIZE bytes as sanitize_file does. Returns the number of lost
 * values, -1 if no output is written, -2 if torch would not load the output, -3 if the pickle cannot be
 * opened. Sets *LEAVES to the number of values in the output that are not tensors. LOST_VALUES calls it for a
 * literal. */
static int sanitize_pickle(const void *bytes, size_t size, size_t *leaves)
{
    char path[32];
    ckpt_file *f = NULL;
    *leaves = 0;
    if (ckpt_open_memory(bytes, size, "made.pkl", NULL, &f, NULL) != CKPT_OK)
        return -3;
    make_temp_file(path);
    int lost = sanitize_file(f, path, false);
    if (lost >= 0 && !loads_with_weights_only(path, leaves))
        lost = -2;
    ckpt_close(f);
    unlink(path);
    return lost;
}
#define LOST_VALUES(p, leaves) sanitize_pickle(p, sizeof(p) - 1, leaves)

/* Opcodes that call os.system("id"). */
#define CALL_SYSTEM "cos\nsystem\nX\2\0\0\0id\x85R"

static void calls_are_lost(void)
{
    size_t leaves;
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}(X\1\0\0\0aK\1X\1\0\0\0b" CALL_SYSTEM "u.", &leaves), 1);
    CU_ASSERT_EQUAL(leaves, 1);
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2" CALL_SYSTEM "0}X\1\0\0\0aK\1s.", &leaves),
                    1); /* POP drops the result of the call */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2" CALL_SYSTEM ".", &leaves), -1);     /* no other value is left */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}" CALL_SYSTEM "K\1s.", &leaves), 1); /* the call is a key */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}(" CALL_SYSTEM "K\1\x86K\1X\1\0\0\0aK\1u.", &leaves),
                    1); /* a tuple with the call is a key */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2]" CALL_SYSTEM "a.", &leaves), 1);
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}X\1\0\0\0a" CALL_SYSTEM "\x85s.", &leaves), 1);
    /* the call is the argument of an allowed call */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}X\1\0\0\0a"
                                "ctorch\nSize\n" CALL_SYSTEM "\x85Rs.",
                                &leaves),
                    1);
    /* the callable is an attribute of an allowed class, Size.x */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\4}\x8c\1a\x8c\5torch\x8c\6Size.x\x93)Rs.", &leaves), 1);
    /* the result of an allowed call is called */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}X\1\0\0\0a"
                                "ccollections\nOrderedDict\n)R)Rs.",
                                &leaves),
                    1);
    /* a function of torch is lost, too, if it is not called but is a value of the dict */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}X\1\0\0\0a"
                                "ctorch._utils\n_rebuild_tensor_v2\ns.",
                                &leaves),
                    1);
}

static void values_of_builtin_types_are_kept(void)
{
    size_t leaves;
    CU_ASSERT_EQUAL(
        LOST_VALUES("\x80\2}(X\1\0\0\0aK\1X\1\0\0\0b]K\2aX\1\0\0\0cG\0\0\0\0\0\0\0\0X\1\0\0\0dNu.", &leaves),
        0);
    CU_ASSERT_EQUAL(leaves, 4);
    CU_ASSERT_EQUAL(LOST_VALUES("}q\0(U\1aI140663869898912\nu.", &leaves), 0); /* written by Python 2 */
    CU_ASSERT_EQUAL(leaves, 1);
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}q\0X\1\0\0\0ah\0s.", &leaves), 0); /* a dict that contains itself */
    /* a bytearray */
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\5}\x94\x8c\1a\x96\2\0\0\0\0\0\0\0hi\x94s.", &leaves), 0);
    CU_ASSERT_EQUAL(LOST_VALUES("}S'\\xff\\xfe'\nI1\ns.", &leaves), 0); /* a str that is not UTF-8 */
}

/* {'a': Counter({'k': 1})}, in which BUILD gives the counter the attribute x: it keeps its items only. */
static void attributes_of_a_counter_are_lost(void)
{
    size_t leaves;
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}X\1\0\0\0a"
                                "ccollections\nCounter\n}X\1\0\0\0kK\1s\x85R}X\1\0\0\0xK\2sbs.",
                                &leaves),
                    1);
    CU_ASSERT_EQUAL(leaves, 1);
}

/* {'a': 'x', 'b': 'x'}: BUILD of None does nothing to the second 'x', which is not rewritten, however. The
 * first is another object, whether PUT or MEMOIZE follows, and is kept. */
static void an_equal_text_is_not_lost_with_another(void)
{
    size_t leaves;
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\2}q\0(X\1\0\0\0aX\1\0\0\0xq\1X\1\0\0\0bX\1\0\0\0xq\2Nbu.", &leaves), 1);
    CU_ASSERT_EQUAL(leaves, 1);
    CU_ASSERT_EQUAL(LOST_VALUES("\x80\4}\x94(\x8c\1a\x8c\1x\x94\x8c\1b\x8c\1x\x94Nbu.", &leaves), 1);
    CU_ASSERT_EQUAL(leaves, 1);
}

/* In the first pickle, lists are nested 900 deep. In the second, the keys of a dict share one large tuple
 * with a call in it, so that all 50000 keys are lost. */
static void deep_and_shared_values_are_fast(void)
{
    buf b;
    size_t leaves;
    buf_init(&b, SIZE_MAX);
    buf_put(&b, "\x80\2}X\1\0\0\0a", 9);
    for (int i = 0; i < 900; i++)
        buf_byte(&b, ']');
    for (int i = 1; i < 900; i++)
        buf_byte(&b, 'a');
    buf_put(&b, "s.", 2);
    CU_ASSERT_EQUAL(sanitize_pickle(b.data, b.len, &leaves), 0);
    buf_free(&b);
    buf_put(&b, "\x80\2}(", 4);
    for (unsigned i = 0; i < 50000; i++) {
        if (i == 0) { /* the tuple, which is put into the memo */
            buf_byte(&b, '(');
            for (unsigned k = 0; k < 20000; k++)
                buf_put(&b, "K\1", 2);
            buf_put(&b, CALL_SYSTEM "tq\0", sizeof(CALL_SYSTEM "tq\0") - 1);
        } else {
            buf_put(&b, "h\0", 2);
        }
        buf_put(&b, "M", 1);
        buf_u16le(&b, (uint16_t)i);
        buf_put(&b, "\x86K\1", 3);
    }
    buf_put(&b, "u.", 2);
    CU_ASSERT_EQUAL(sanitize_pickle(b.data, b.len, &leaves), 50000);
    buf_free(&b);
}

/* check_digests - checks that the tensors of the file at PATH have the same digests as those of ORIGINAL. */
static void check_digests(ckpt_file *original, const char *path)
{
    ckpt_file *sanitized = NULL;
    uint8_t want[CKPT_DIGEST_MAX], got[CKPT_DIGEST_MAX];
    CU_ASSERT_EQUAL(ckpt_open(path, NULL, &sanitized, NULL), CKPT_OK);
    for (uint32_t i = 0; sanitized && i < ckpt_tensor_count(sanitized); i++) {
        const ckpt_tensor t = tensor_at(sanitized, i);
        uint32_t original_row = ckpt_tensor_find(original, t.name);
        CU_ASSERT(original_row != CKPT_NO_TENSOR);
        if (original_row == CKPT_NO_TENSOR || !t.has_data || !tensor_at(original, original_row).has_data)
            continue;
        CU_ASSERT_EQUAL(ckpt_digest_tensor(original, original_row, CKPT_XXH3, want, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_digest_tensor(sanitized, i, CKPT_XXH3, got, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(memcmp(want, got, 16), 0);
    }
    ckpt_close(sanitized);
}

static void corpus_files_can_be_loaded_afterwards(void)
{
    static const struct {
        const char *file;
        uint32_t ntensors; /* tensors in the output; 0: as many as in the file */
        int nlost;         /* values that are lost */
    } files[] = {
        {"torch/t26/whole_model.pt", 2, 0},    {"torch/t26/numpy.pt", 3, 2},
        {"torch/t26/nested_jagged.pt", 2, 0},  {"torch/t26/general_checkpoint.tar", 0, 0},
        {"torch/t26/quantmodel.pt", 4, 0},     {"torch/t14py2/general_checkpoint.pth.tar", 0, 0},
        {"torch/t215/plain_pickle.pkl", 0, 0}, {"torch/t215/torchscript_script.pt", 0, 0},
        {"torch/t215/state_dict_p4.pt", 0, 0}, {"torch/dist26/fsdp_full.pt", 0, 0},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[32];
        ckpt_file *f = open_corpus_file(files[i].file), *sanitized = NULL;
        size_t n;
        make_temp_file(path);
        CU_ASSERT_EQUAL(sanitize_file(f, path, files[i].nlost == 0), files[i].nlost);
        CU_ASSERT(loads_with_weights_only(path, &n));
        check_digests(f, path);
        CU_ASSERT_EQUAL(ckpt_open(path, NULL, &sanitized, NULL), CKPT_OK);
        CU_ASSERT_EQUAL(ckpt_tensor_count(sanitized),
                        files[i].ntensors ? files[i].ntensors : ckpt_tensor_count(f));
        ckpt_close(sanitized);
        CU_ASSERT(!files[i].nlost || sanitize_file(f, path, true) == -1);
        unlink(path);
        close_open_files();
    }
}

/* The file has a storage on "xyz:3", a device that torch does not know. */
static void output_that_torch_would_refuse_is_not_written(void)
{
    ckpt_error err;
    char path[32];
    make_temp_file(path);
    unlink(path);
    ckpt_plan *p = plan_of(open_corpus_file("torch/badexp/23_bogus_loc.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_sanitize(p, NULL, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_write(p, path, NULL, NULL, &err), CKPT_ELOSSY);
    CU_ASSERT(strstr(err.what, "xyz:3") != NULL);
    CU_ASSERT(access(path, F_OK) != 0);
    ckpt_plan_free(p);
    close_open_files();
}

void suite_sanitize(void)
{
    UNIT(calls_are_lost);
    UNIT(values_of_builtin_types_are_kept);
    UNIT(attributes_of_a_counter_are_lost);
    UNIT(an_equal_text_is_not_lost_with_another);
    UNIT(deep_and_shared_values_are_fast);
    UNIT(corpus_files_can_be_loaded_afterwards);
    UNIT(output_that_torch_would_refuse_is_not_written);
}
