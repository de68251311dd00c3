/*
 * mem.c - compares the estimates of ckpt_mem with what torch measured in training runs (tests/corpus/mem):
 *
 *   mem [-v] FOLDER
 *
 * FOLDER/<model>.json has the config of a model, and the names, shapes and dtypes of its tensors.
 * FOLDER/truth.jsonl has a line for each case. In a line with `kind: optimizer`, the optimizer states and the
 * temporary memory of step() must equal torch's to the byte. In any other line, parameters, gradients and
 * kept activations must equal torch's to the byte; the peak must be within 3 %, for ResNets within 5 %.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tensor.h"

static const char *folder;
static bool verbose;
static int passed, failed;

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) {
        perror(path);
        exit(2);
    }
    long size = ftell(f);
    char *text = calloc(1, (size_t)size + 1);
    rewind(f);
    if (!text || fread(text, 1, (size_t)size, f) != (size_t)size)
        exit(2);
    fclose(f);
    return text;
}

static const cJSON *get_item(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}
/* get_text, get_number - return the item NAME, or "" or 0 if there is no such item. */
static const char *get_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(get_item(object, name));
    return text ? text : "";
}
static uint64_t get_number(const cJSON *object, const char *name)
{
    const cJSON *number = get_item(object, name);
    return cJSON_IsNumber(number) ? (uint64_t)number->valuedouble : 0;
}

/* ---- models */

static void exit_on_error(ckpt_status st, const ckpt_error *err, const char *what)
{
    char line[2048];
    if (st == CKPT_OK)
        return;
    fprintf(stderr, "mem: %s: %s\n", what, ckpt_error_text(err, line, sizeof line));
    exit(2);
}

/* find_tie - returns the name of an earlier tensor that the tensor NAME of MODEL is tied to, or NULL. */
static const char *find_tie(const cJSON *model, const char *name)
{
    static const char *const ties[][2] = {
        /* tied tensor, earlier tensor */
        {"lm_head.weight", "transformer.wte.weight"},
        {"lm_head.weight", "model.embed_tokens.weight"},
        {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
        {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
    const cJSON *config = get_item(model, "config"), *tensor;
    if (!cJSON_IsTrue(get_item(config, "tie_word_embeddings")))
        return NULL;
    for (size_t i = 0; i < sizeof ties / sizeof *ties; i++) {
        if (strcmp(name, ties[i][0]) != 0)
            continue;
        cJSON_ArrayForEach(tensor, get_item(model, "tensors"))
        {
            if (strcmp(cJSON_GetStringValue(cJSON_GetArrayItem(tensor, 0)), ties[i][1]) == 0)
                return ties[i][1];
        }
    }
    return NULL;
}

/* add_tensor - adds ROW, a tensor [name, shape, dtype] of MODEL, without data. If it is tied, adds a tie
 * instead. */
static void add_tensor(ckpt_builder *b, const cJSON *model, const cJSON *row)
{
    ckpt_error err;
    uint64_t shape[8], elements = 1;
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(row, 0));
    const char *dtype = cJSON_GetStringValue(cJSON_GetArrayItem(row, 2)), *tied_to = find_tie(model, name);
    const cJSON *size;
    ckpt_builder_tensor t = CKPT_INIT(ckpt_builder_tensor);
    ckpt_callbacks no_bytes = {.struct_size = sizeof no_bytes, .read_at = tensor_read_nothing};
    cJSON_ArrayForEach(size, cJSON_GetArrayItem(row, 1))
        elements *= shape[t.ndim++] = (uint64_t)size->valuedouble;
    t.shape = shape;
    t.dtype = ckpt_dtype_parse((ckpt_str){dtype, strlen(dtype)});
    no_bytes.size = elements * ckpt_dtype_bits((ckpt_dtype)t.dtype) / 8;
    t.callbacks = &no_bytes;
    ckpt_status st = tied_to ? ckpt_builder_add_tie(b, name, tied_to, &err)
                             : ckpt_builder_add_tensor(b, name, &t, &err);
    exit_on_error(st, &err, name);
}

/* new_model - builds the model NAME of the folder, without data, and returns its estimator. */
static ckpt_mem *new_model(const char *name)
{
    char path[1024], config[] = "/tmp/ckpt-mem-XXXXXX";
    ckpt_error err;
    ckpt_builder *b;
    ckpt_file *f;
    ckpt_mem *m;
    ckpt_mem_options o = CKPT_INIT(ckpt_mem_options);
    const cJSON *row;
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    char *text = read_all(path);
    cJSON *model = cJSON_Parse(text);
    exit_on_error(ckpt_builder_new(name, &b, &err), &err, name);
    cJSON_ArrayForEach(row, get_item(model, "tensors")) add_tensor(b, model, row);
    exit_on_error(ckpt_builder_finish(b, &f, &err), &err, name);
    if (cJSON_IsObject(get_item(model, "config"))) {
        int fd = mkstemp(config);
        char *printed = cJSON_PrintUnformatted(get_item(model, "config"));
        FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
        if (!out || fputs(printed, out) < 0 || fclose(out))
            exit(2);
        free(printed);
        o.config = config;
    }
    exit_on_error(ckpt_mem_new(f, &o, &m, &err), &err, name);
    if (o.config)
        unlink(config);
    ckpt_close(f);
    cJSON_Delete(model);
    free(text);
    return m;
}

/* ---- cases */

/* check - counts a check of WHAT in the case LABEL, and prints it if it failed. TRUTH is what torch
 * measured. */
static void check(bool ok, const char *label, const char *what, uint64_t found, uint64_t truth)
{
    passed += ok;
    failed += !ok;
    if (!ok || verbose)
        printf("%s %s: %s is %" PRIu64 ", torch has %" PRIu64 " (%+.2f %%)\n", ok ? "ok" : "FAIL", label,
               what, found, truth, truth ? 100 * ((double)found / (double)truth - 1) : 0);
}

static void check_exact(const char *label, const char *what, ckpt_mem_amount found, uint64_t truth)
{
    check(found.known && found.bytes == truth, label, what, found.bytes, truth);
}

static void check_near(const char *label, const char *what, ckpt_mem_amount found, uint64_t truth,
                       double within)
{
    bool ok = found.known && fabs((double)found.bytes / (double)truth - 1) <= within;
    check(ok, label, what, found.bytes, truth);
}

static uint32_t parse_precision(const char *dtype)
{
    return strcmp(dtype, "fp32") == 0   ? CKPT_MEM_FP32
           : strcmp(dtype, "bf16") == 0 ? CKPT_MEM_BF16
                                        : CKPT_MEM_BF16_MIXED;
}

/* set_checkpoint - sets the kind of activation checkpointing that MODE names, which may end in
 * "=SEGMENTS". */
static void set_checkpoint(ckpt_mem_run *run, const char *mode)
{
    run->segments = strchr(mode, '=') ? (uint32_t)strtoul(strchr(mode, '=') + 1, NULL, 10) : 0;
    run->checkpoint = strcmp(mode, "none") == 0              ? CKPT_MEM_KEEP_ALL
                      : strcmp(mode, "block") == 0           ? CKPT_MEM_BLOCK
                      : strcmp(mode, "block-reentrant") == 0 ? CKPT_MEM_BLOCK_REENTRANT
                      : strcmp(mode, "selective") == 0       ? CKPT_MEM_SELECTIVE
                      : mode[0] == 'k'                       ? CKPT_MEM_SEGMENTS
                                                             : CKPT_MEM_SEQUENTIAL;
}

/* check_case - compares the estimates for the training run C, a line of truth.jsonl. */
static void check_case(ckpt_mem *m, const cJSON *c)
{
    char label[256];
    ckpt_error err;
    const char *mode = get_text(c, "checkpoint"), *attn = get_text(c, "attn");
    const cJSON *image = get_item(c, "image");
    ckpt_mem_run run = CKPT_INIT(ckpt_mem_run);
    ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
    run.batch = get_number(c, "batch");
    run.seq = get_number(c, "seq");
    run.precision = parse_precision(get_text(c, "dtype"));
    run.attention = strcmp(attn, "eager") == 0 ? CKPT_MEM_EAGER : CKPT_MEM_SDPA;
    if (image) {
        run.height = (uint64_t)cJSON_GetArrayItem(image, 0)->valuedouble;
        run.width = (uint64_t)cJSON_GetArrayItem(image, 1)->valuedouble;
    }
    set_checkpoint(&run, mode);
    snprintf(label, sizeof label, "%s %d x %d %s %s %s", get_text(c, "model"), (int)run.batch,
             (int)(run.seq ? run.seq : run.height), get_text(c, "dtype"), attn, mode);
    ckpt_status st = ckpt_mem_estimate(m, &run, &r, &err);
    if (st != CKPT_OK) {
        failed++;
        printf("FAIL %s: %s\n", label, err.what);
        return;
    }
    bool keeps_all = run.checkpoint == CKPT_MEM_KEEP_ALL;
    bool is_resnet = strcmp(get_text(c, "family"), "resnet") == 0;
    uint64_t kept = get_number(c, keeps_all ? "saved_bytes" : "retained_bytes");
    check_exact(label, "parameters", r.parameters, get_number(c, "param_bytes"));
    check_exact(label, "gradients", r.gradients, get_number(c, "grads_bytes"));
    if (verbose)
        printf("%s: %s\n", label, r.peak_place);
    check_exact(label, "kept", r.activations_kept, kept);
    check_near(label, "peak", r.peak, get_number(c, "peak_with_grads_bytes"), is_resnet ? 0.05 : 0.03);
}

/* check_optimizer - compares, for each optimizer in C, a line of truth.jsonl, the bytes of its states and of
 * the temporary memory of its step(). */
static void check_optimizer(ckpt_mem *m, const cJSON *c)
{
    const cJSON *by_dtype, *optimizer; /* by_dtype: {name of an optimizer: bytes of its states} */
    cJSON_ArrayForEach(by_dtype, get_item(c, "optimizer")) cJSON_ArrayForEach(optimizer, by_dtype)
    {
        char label[256];
        ckpt_error err;
        ckpt_mem_run run = {.struct_size = sizeof run, .optimizer = optimizer->string};
        ckpt_mem_result r = CKPT_INIT(ckpt_mem_result);
        const cJSON *step = get_item(get_item(get_item(c, "step_transient"), by_dtype->string),
                                     optimizer->string);
        run.precision = parse_precision(by_dtype->string);
        snprintf(label, sizeof label, "%s %s %s", get_text(c, "model"), by_dtype->string, optimizer->string);
        exit_on_error(ckpt_mem_estimate(m, &run, &r, &err), &err, label);
        check_exact(label, "optimizer", r.optimizer_states, (uint64_t)optimizer->valuedouble);
        if (step)
            check_exact(label, "step transient", r.step_transient, (uint64_t)step->valuedouble);
    }
}

int main(int argc, char **argv)
{
    char path[1024], current[128] = "";
    ckpt_mem *m = NULL;
    verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    folder = argv[argc - 1];
    snprintf(path, sizeof path, "%s/truth.jsonl", folder);
    char *text = read_all(path), *line, *rest = text;
    while ((line = strsep(&rest, "\n")) != NULL) {
        cJSON *c = *line ? cJSON_Parse(line) : NULL;
        if (!c)
            continue;
        if (strcmp(current, get_text(c, "model")) != 0) {
            ckpt_mem_free(m);
            snprintf(current, sizeof current, "%s", get_text(c, "model"));
            m = new_model(current);
        }
        if (strcmp(get_text(c, "kind"), "optimizer") == 0)
            check_optimizer(m, c);
        else
            check_case(m, c);
        cJSON_Delete(c);
    }
    ckpt_mem_free(m);
    free(text);
    printf("mem: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
