/* Whether torch.load(weights_only=True) accepts a pickle: pickles that keep the rules or break one, and every
 * corpus file for which the result of torch 2.15 is recorded. */
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "codec/pickle_read.h"
#include "core/file.h"
#include "op/weights_only.h"
#include "small_files.h"
#include "unit.h"

/* find_violation - returns why torch refuses the PICKLE of SIZE bytes; "" if torch loads it. */
static const char *find_violation(const void *pickle, size_t size)
{
    static char text[512];
    uint64_t next;
    struct weights_only loading;
    ckpt_file *f = NULL;
    source *src = source_mem(pickle, size, 0);
    CU_ASSERT_EQUAL(file_new("made.pt", src, NULL, &f, NULL), CKPT_OK);
    f->loading.by = "torch.load";
    struct pickle_facts *facts = file_add_pickle(f, str_of("", 0));
    CU_ASSERT_EQUAL(pickle_read(f->a, src, 0, size, facts, &f->root, &next, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(weights_only_check(f, f->a, &loading, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(loading.verdict, loading.why.len == 0);
    CU_ASSERT_EQUAL(loading.is_opcode, str_starts(loading.why, STR_LIT("opcode ")));
    snprintf(text, sizeof text, "%.*s", (int)loading.why.len, loading.why.ptr);
    file_free(f);
    return text;
}
#define VIOLATION(pickle) find_violation(pickle, sizeof(pickle) - 1)

static void pickles_are_accepted(void)
{
    CU_ASSERT_STRING_EQUAL(VIOLATION("\x80\x02}q\0X\1\0\0\0aK\1s."), "");
    CU_ASSERT_STRING_EQUAL(VIOLATION("\x80\x02"
                                     "ccollections\nOrderedDict\n)R}b."),
                           "");
    CU_ASSERT_STRING_EQUAL(VIOLATION("\x80\x02"
                                     "c__builtin__\nset\n]\x85R."),
                           "");
    CU_ASSERT_STRING_EQUAL(VIOLATION("\x80\x02"
                                     "ctorch\nnn.parameter.Parameter\n."),
                           ""); /* torch joins module and name before it compares them */
    CU_ASSERT_STRING_EQUAL(VIOLATION("\x80\x02"
                                     "cUserDict\nOrderedDict\n."),
                           ""); /* torch replaces this module of Python 2 by collections */
    CU_ASSERT_STRING_EQUAL(VIOLATION("\x80\x02"
                                     "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                                     "0X\3\0\0\0cpuK\1tQ."),
                           "");
}

static void pickles_are_refused(void)
{
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "cos\nsystem\n."),
                     "GLOBAL os.system at 0x2 ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "ccollections\nOrderedDic\n."),
                     "collections.OrderedDic ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "ccollections\nOrderedDictX\n."),
                     "collections.OrderedDictX ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "ctorc\nSize\n."),
                     "torc.Size ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "ctorch.Size\nx\n."),
                     "torch.Size.x ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x04\x95\2\0\0\0\0\0\0\0N."), "opcode 149 at 0x2 ") != NULL);
    CU_ASSERT(strstr(VIOLATION("I1\n."), "opcode 73 at 0x0 ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "ccollections\nOrderedDict\n)R)R."),
                     "REDUCE at ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "c_codecs\nencode\nX\1\0\0\0aX\6\0\0\0latin1\x86R}b."),
                     "BUILD at ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "c__builtin__\nset\n]\x85RK\1K\2s."),
                     "SETITEMS at ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "c__builtin__\nset\n]\x85RK\1a."),
                     "APPENDS at ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02X\1\0\0\0xQ."), "persistent id at ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02(X\6\0\0\0moduletQ."), "persistent id at ") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02U\1\xff."), "not UTF-8") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02"
                               "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                               "0X\5\0\0\0cpu:0K\1tQ."),
                     "\"cpu:0\"") != NULL);
}

/* Of several violations, the first in the stream is reported. */
static void the_first_violation_is_reported(void)
{
    CU_ASSERT(strstr(VIOLATION("\x80\x02(cos\nsystem\nI1\nt."), "os.system") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02(I1\ncos\nsystem\nt."), "opcode 73") != NULL);
    CU_ASSERT(strstr(VIOLATION("\x80\x02(cos\nsystem\ncnt\nsystem\nt."), "os.system") != NULL);
}

/* ---- the corpus */

/* copy_field - copies the text value of KEY in the JSON LINE to OUT, up to the first quotation mark, even an
 * escaped one. Returns 0 if there is no KEY. */
static int copy_field(const char *line, const char *key, char *out, size_t cap)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
    const char *at = strstr(line, pattern);
    if (!at)
        return 0;
    at += strlen(pattern);
    size_t n = strcspn(at, "\"");
    snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap - 1), at);
    return 1;
}

struct score {
    unsigned agree, differ; /* files for which our result is that of torch, or is not */
    unsigned missed;        /* files for which we have no result */
};

/* is_pickle_verdict - returns whether RESULT is torch's verdict on the pickle: it loaded the file or refused
 * the pickle. Otherwise it refused the archive. */
static int is_pickle_verdict(const char *result)
{
    return strcmp(result, "ok") == 0 || strncmp(result, "UnpicklingError", 15) == 0;
}

static void compare_with_torch(const char *line, struct score *s)
{
    char file[512], result[512], kind[64], path[1024];
    ckpt_file *f = NULL;
    ckpt_info info = CKPT_INIT(ckpt_info);
    if (!copy_field(line, "file", file, sizeof file) ||
        !copy_field(line, "weights_only", result, sizeof result) ||
        !copy_field(line, "kind", kind, sizeof kind))
        return;
    bool is_torch_save = strcmp(kind, "zip") == 0 || strcmp(kind, "legacy") == 0;
    if (!is_torch_save || !is_pickle_verdict(result))
        return;
    snprintf(path, sizeof path, "%s", unit_corpus_path(file));
    if (ckpt_open(path, NULL, &f, NULL) != CKPT_OK)
        return;
    if (ckpt_inspect(f, &info, NULL) != CKPT_OK) {
        s->missed++;
    } else {
        char why[512];
        snprintf(why, sizeof why, "%.*s", (int)info.weights_only_why.len, info.weights_only_why.ptr);
        /* when torch's result was recorded, torch.distributed.tensor was imported */
        int depends_on_import = strstr(why, "to be imported first") != NULL;
        int same = (info.weights_only == 1) == (strcmp(result, "ok") == 0) || depends_on_import;
        /* "GLOBAL <name> was not an allowed global": our reason must contain the name */
        char *global = strstr(result, "GLOBAL "), *end = global ? strstr(global, " was not") : NULL;
        if (same && end && strcmp(kind, "zip") == 0) {
            *end = '\0';
            same = strstr(why, global + strlen("GLOBAL ")) != NULL;
        }
        *(same ? &s->agree : &s->differ) += 1;
        if (!same)
            fprintf(stderr, "%s: torch: %.100s; we: %.100s\n", file, result, why);
    }
    ckpt_close(f);
}

static void results_for_the_corpus_are_those_of_torch(void)
{
    static const char *const producers[] = {
        "t10", "t14", "t14py2", "t15", "t16", "t17", "t18",  "t19",    "t110", "t111",   "t112",   "t113",
        "t20", "t21", "t23",    "t26", "t27", "t28", "t215", "dist26", "exp",  "legexp", "badexp", "misc2"};
    struct score s = {0};
    for (size_t i = 0; i < sizeof producers / sizeof *producers; i++) {
        char path[64], *line = NULL;
        size_t cap = 0;
        snprintf(path, sizeof path, "truth/torch-%s.jsonl", producers[i]);
        FILE *in = fopen(unit_corpus_path(path), "r");
        while (in && getline(&line, &cap, in) > 0)
            compare_with_torch(line, &s);
        free(line);
        if (in)
            fclose(in);
    }
    CU_ASSERT_EQUAL(s.differ, 0);
    CU_ASSERT_EQUAL(s.missed, 0);
    CU_ASSERT(s.agree > 800);
}

void suite_weights_only(void)
{
    UNIT(pickles_are_accepted);
    UNIT(pickles_are_refused);
    UNIT(the_first_violation_is_reported);
    UNIT(results_for_the_corpus_are_those_of_torch);
}
