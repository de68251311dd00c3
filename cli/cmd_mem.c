#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "json.h"
#include "cmd.h"
#include "remote.h"

static struct {
    const char *optimizer, *image, *config, *checkpoint_as;
    struct list frozen;
    uint64_t batch, seq, heads, zero, ranks, fits;
    int precision, attention, dropout;
    bool as_table, as_code;
} opts;

static const struct opt options[] = {
    {'b', "batch", "N", OPT_COUNT, &opts.batch, "also count the activations of N samples"},
    {'s', "seq", "N", OPT_COUNT, &opts.seq, "… with sequences of N tokens"},
    {0, "image", "HxW", OPT_TEXT, &opts.image, "… with images of that size"},
    {0, "optimizer", "NAME", OPT_TEXT, &opts.optimizer,
     "default: the file's own, or adamw-foreach; 'list' prints the names"},
    {0, "precision", "stored|fp32|bf16|bf16-mixed|fp16-master", OPT_CHOICE, &opts.precision,
     "of parameters and computation"},
    {0, "attn", "sdpa|eager", OPT_CHOICE, &opts.attention, "fused attention, or probabilities in memory"},
    {0, "heads", "N", OPT_COUNT, &opts.heads, "attention heads, if no file has their number"},
    {0, "dropout", "config|on|off", OPT_CHOICE, &opts.dropout, "is any dropout's probability above 0?"},
    {0, "checkpoint", "HOW", OPT_TEXT, &opts.checkpoint_as,
     "none, block, block-reentrant, sqrt, k=N, seq=N, selective"},
    {0, "frozen", "GLOB", OPT_LIST, &opts.frozen, "parameters that are not trained; repeatable"},
    {0, "zero", "STAGE", OPT_COUNT, &opts.zero, "states are divided as ZeRO stage 1, 2 or 3 does …"},
    {0, "ranks", "N", OPT_COUNT, &opts.ranks, "… over N devices"},
    {0, "fits", "SIZE", OPT_SIZE, &opts.fits,
     "show the plan of least work that fits SIZE; exit with 1 if none does"},
    {0, "table", NULL, OPT_FLAG, &opts.as_table, "totals by batch and by what is checkpointed"},
    {0, "code", NULL, OPT_FLAG, &opts.as_code, "the plan as lines of Python"},
    {0, "config", "FILE", OPT_TEXT, &opts.config,
     "config.json of the network (default: next to the file); '' for none"},
    UI_ROOT_OPTION,
    UI_REMOTE_OPTIONS,
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_mem = {
    "mem",   "FILE", "estimate the memory that training takes, and what to recompute so that it fits",
    options, 0,      1,
    run_mem};

#define RESERVE ((uint64_t)1 << 30) /* bytes of the SIZE of --fits that tensors may not take */

/* tensor_limit - returns how many bytes tensors may take for --fits: SIZE without RESERVE, less a tenth
 * of the number returned; at least 1, because 0 would mean no limit. */
static uint64_t tensor_limit(void) { return opts.fits > RESERVE ? (opts.fits - RESERVE) / 11 * 10 : 1; }

struct job {
    const char *path;
    ckpt_file *f; /* NULL: PATH is a config.json */
    ckpt_mem *mem;
    ckpt_mem_run run;
    ckpt_mem_result result, plan; /* the memory that the options need, and that the plan needs */
    bool has_plan, plan_fits;
    uint64_t largest_batch; /* the largest batch that fits; set only if no plan makes --batch fit */
    char peak_place[128];   /* text of result.peak_place: ckpt_mem_plan() frees the original */
};

/* ------------------------------------------------------------------ options */

/* parse_number - returns the number from 1 to UINT32_MAX at TEXT, or 0; *END is set to what follows it. */
static uint32_t parse_number(const char *text, char **end)
{
    unsigned long long n = strtoull(text, end, 10);
    return *text >= '1' && *text <= '9' && n <= UINT32_MAX ? (uint32_t)n : 0;
}

/* parse_image - parses --image, "224x224" or "224" for a square; false if it is neither. */
static bool parse_image(ckpt_mem_run *run)
{
    char *end;
    run->height = run->width = parse_number(opts.image, &end);
    if (*end == 'x')
        run->width = parse_number(end + 1, &end);
    return !*end && run->height && run->width;
}

/* parse_checkpoint - parses --checkpoint, the kind of activation checkpointing; false if it is not known. */
static bool parse_checkpoint(ckpt_mem_run *run)
{
    const char *checkpoint = opts.checkpoint_as;
    static const char *const words[] = {
        /* indexed by ckpt_mem_checkpoint */
        "none", "block", "block-reentrant", "k=", "seq=", "sqrt", "selective"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        bool takes_number = words[i][n - 1] == '=';
        if (takes_number ? strncmp(checkpoint, words[i], n) != 0 : strcmp(checkpoint, words[i]) != 0)
            continue;
        char *end = "";
        run->checkpoint = i;
        run->segments = takes_number ? parse_number(opts.checkpoint_as + n, &end) : 1;
        return run->segments && !*end;
    }
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* is_config - returns true if PATH is a config.json, not a checkpoint. */
static bool is_config(const char *path)
{
    return ends_with(path, ".json") && !ends_with(path, ".index.json");
}

/* find_optimizer - returns the name of the optimizer that --optimizer selects, in any case; NULL: none. */
static const char *find_optimizer(void)
{
    const char *given = opts.optimizer, *name;
    if (given && strcasecmp(given, "momentum") == 0)
        return "sgd-momentum";
    for (size_t i = 0; given && (name = ckpt_mem_optimizer_at(i)); i++)
        if (strcasecmp(name, given) == 0)
            return name;
    return NULL;
}

/* parse_run - fills RUN from the options, for PATH. Returns OPT_PARSED, or the exit code after an error. */
static int parse_run(const char *path, ckpt_mem_run *run)
{
    *run = (ckpt_mem_run){.struct_size = sizeof *run};
    run->batch = opts.batch;
    run->seq = opts.seq;
    run->precision = (uint32_t)opts.precision;
    run->attention = (uint32_t)opts.attention;
    run->dropout = (uint32_t)opts.dropout;
    run->heads = opts.heads;
    run->zero = (uint32_t)opts.zero;
    run->ranks = (uint32_t)opts.ranks;
    run->optimizer = find_optimizer();
    if (opts.batch > UINT32_MAX || opts.seq > UINT32_MAX || opts.heads > UINT32_MAX)
        return usage_error("mem", "--%s is at most %" PRIu32,
                           opts.batch > UINT32_MAX ? "batch"
                           : opts.seq > UINT32_MAX ? "seq"
                                                   : "heads",
                           UINT32_MAX);
    if (opts.image && !parse_image(run))
        return usage_error("mem", "--image takes HEIGHTxWIDTH, not '%s'", escape_name(str_c(opts.image)));
    if (opts.checkpoint_as && !parse_checkpoint(run))
        return usage_error(
            "mem", "--checkpoint takes none, block, block-reentrant, sqrt, k=N, seq=N or selective; not '%s'",
            escape_name(str_c(opts.checkpoint_as)));
    if (opts.optimizer && !run->optimizer)
        return opt_bad_value("optimizer", opts.optimizer, "a name that --optimizer list prints");
    bool has_both_or_none = (opts.zero != 0) == (opts.ranks != 0);
    if (opts.zero > 3 || opts.ranks > UINT32_MAX || !has_both_or_none)
        return usage_error("mem", "--zero takes 1, 2 or 3, and --ranks the number of devices: both or none");
    if (opts.as_code && (opts.as_table || ui.json))
        return usage_error("mem", "--code goes with neither --json nor --table");
    if (opts.config && is_config(path))
        return usage_error("mem", "--config is for a checkpoint: %s is a config itself",
                           escape_name(str_c(path)));
    const char *dependent_option = opts.seq             ? "seq"
                                   : opts.image         ? "image"
                                   : opts.fits          ? "fits"
                                   : opts.as_code       ? "code"
                                   : opts.checkpoint_as ? "checkpoint"
                                                        : NULL;
    if (!opts.batch && !opts.as_table && dependent_option)
        return usage_error("mem", "--%s needs --batch, from 1 on", dependent_option);
    if (opts.as_table && opts.checkpoint_as)
        return usage_error("mem",
                           "--table has a column for each kind of checkpointing: leave --checkpoint out");
    return OPT_PARSED;
}

/* ------------------------------------------------------------------- inputs */

/* find_config - sets OUT to the config.json in the folder PATH, or next to the file PATH; false: none. */
static bool find_config(const char *path, struct text *out)
{
    const char *slash = strrchr(path, '/');
    text_addf(out, "%s/config.json", path);
    if (access(out->ptr, R_OK) == 0)
        return true;
    text_clear(out);
    text_addf(out, "%.*sconfig.json", slash ? (int)(slash - path + 1) : 0, path);
    return access(out->ptr, R_OK) == 0;
}

/* open_network - reads the network at job->path. Returns EXIT_OK, or the exit code after an error. */
static int open_network(struct job *job)
{
    struct text config_path = {0};
    ckpt_error err;
    ckpt_mem_options o = {.struct_size = sizeof o, .frozen = opts.frozen.items, .nfrozen = opts.frozen.n};
    if (is_config(job->path))
        o.config = job->path;
    else if (opts.config)
        o.config = *opts.config ? opts.config : NULL;
    else if (strcmp(job->path, "-") != 0 && !remote_is_url(job->path) && find_config(job->path, &config_path))
        o.config = config_path.ptr;
    if (!is_config(job->path)) {
        job->f = open_input(job->path, false);
        if (!job->f) {
            text_free(&config_path);
            return EXIT_TROUBLE;
        }
    }
    ckpt_status st = ckpt_mem_new(job->f, &o, &job->mem, &err);
    text_free(&config_path);
    return st == CKPT_OK ? EXIT_OK : report_error(&err, job->path);
}

/* --------------------------------------------------------------------- text */

/* add_bar - adds a bar for PART: 24 columns if PART is ALL, and at least one column if PART is not 0. */
static void add_bar(struct text *text, uint64_t part, uint64_t all)
{
    unsigned n = all ? (unsigned)((double)part / (double)all * 24 + 0.5) : 0;
    if (!n && part)
        n = 1;
    while (n--)
        text_add(text, "#");
}

/* add_amount_row - adds a row to the table: LABEL, size, "exact" or "estimate", and WHERE (NULL: a bar). */
static void add_amount_row(struct table *table, const char *label, const ckpt_mem_amount *amount,
                           uint64_t all, const char *where)
{
    if (!amount->known)
        return;
    table_row(table, strcmp(label, "total") == 0 ? BOLD : PLAIN);
    table_cellf(table, "%s", label);
    table_cellf(table, "%s", show_size(amount->bytes));
    table_cellf(table, "%s", amount->exact ? "exact" : "estimate");
    if (where)
        text_add(&table->text, where);
    else
        add_bar(&table->text, amount->bytes, all);
    table_cell(table);
}

static void print_amounts(const ckpt_mem_result *result)
{
    struct table table = {.columns = 4, .right = {[1] = true}};
    static const char *const titles[] = {"PART", "SIZE", "HOW SURE", ""};
    uint64_t all = result->total.bytes;
    table_header(&table, titles);
    add_amount_row(&table, "parameters", &result->parameters, all, NULL);
    if (result->buffers.bytes)
        add_amount_row(&table, "buffers", &result->buffers, all, NULL);
    add_amount_row(&table, "gradients", &result->gradients, all, NULL);
    add_amount_row(&table, "optimizer", &result->optimizer_states, all, NULL);
    add_amount_row(&table, "step transient", &result->step_transient, all, NULL);
    add_amount_row(&table, "activations kept", &result->activations_kept, all, NULL);
    add_amount_row(&table, "peak", &result->peak, all, result->peak_place);
    add_amount_row(&table, "total", &result->total, all, NULL);
    table_print(&table, stdout, ui.tty);
    table_free(&table);
}

static void print_heading(const struct job *job)
{
    const ckpt_mem_result *result = &job->result;
    const char *by = result->recognized_by;
    line_printf("%s   %s%s%s", escape_name(str_c(job->path)),
                result->family_title ? result->family_title : "unknown architecture", by ? ", by " : "",
                by ? escape_name(str_c(by)) : "");
    line_printf("%s in %s%s%s%s · %s · %s", show_noun(result->trained, "parameter", "parameters"),
                show_noun(result->tensors, "tensor", "tensors"), result->frozen ? ", " : "",
                result->frozen ? show_count(result->frozen) : "", result->frozen ? " frozen" : "",
                result->precision, result->optimizer);
}

static uint32_t count_recomputed(const ckpt_mem_result *result)
{
    uint32_t n = 0;
    for (size_t i = 0; i < result->nsegments; i++)
        n += result->segment[i].recomputed ? result->segment[i].blocks : 0;
    return n;
}

/* print_segments - prints the plan; neighbouring recomputed segments of equally many blocks share a line. */
static void print_segments(const struct job *job)
{
    struct text t = {0};
    const ckpt_mem_result *plan = &job->plan;
    for (size_t i = 0; i < plan->nsegments; i++) {
        ckpt_mem_segment s = plan->segment[i];
        uint32_t segment_blocks = s.blocks, n = 1; /* n: how many segments s spans */
        while (i + 1 < plan->nsegments && s.recomputed && plan->segment[i + 1].recomputed &&
               plan->segment[i + 1].blocks == segment_blocks) {
            s.blocks += segment_blocks;
            i++;
            n++;
        }
        text_addf(&t, "  %s  ", s.recomputed ? "recompute" : "keep     ");
        text_add(&t, ckpt_mem_block_name(job->mem, s.first));
        if (s.blocks > 1)
            text_addf(&t, " … %s", ckpt_mem_block_name(job->mem, s.first + s.blocks - 1));
        if (s.recomputed && n > 1 && segment_blocks > 1)
            text_addf(&t, ", %u segments of %u", n, segment_blocks);
        else if (s.recomputed)
            text_add(&t, n > 1 ? ", each by itself" : segment_blocks > 1 ? ", as one segment" : "");
        line_put(&t);
        text_clear(&t);
    }
    text_free(&t);
}

static void print_plan(const struct job *job)
{
    struct text t = {0};
    const ckpt_mem_result *plan = &job->plan;
    text_add(&t, "plan: ");
    text_add(&t, opts.fits && job->plan_fits ? "the least work that fits; " : "the lowest peak; ");
    if (!plan->plan_proven)
        text_add(&t, "not proven to be the best (too many ways to cut these blocks); ");
    if (!count_recomputed(plan))
        text_add(&t, opts.fits ? "nothing has to be checkpointed" : "no checkpointing lowers the peak");
    else
        text_addf(&t, "%.0f %% of a forward pass is recomputed", 100 * plan->extra_forward);
    line_put(&t);
    text_free(&t);
    if (count_recomputed(plan))
        print_segments(job);
    line_printf("  kept %s, peak %s (%s), total %s", show_size(plan->activations_kept.bytes),
                show_size(plan->peak.bytes), plan->peak_place, show_size(plan->total.bytes));
}

static void print_notes(const struct job *job)
{
    const char *note;
    ckpt_mem_group group; /* a parameter group of the file's own optimizer */
    for (size_t i = 0; !opts.optimizer && ckpt_mem_group_at(job->mem, i, &group); i++)
        line_printf("group %zu: %s, state of %s", i, show_noun(group.parameters, "parameter", "parameters"),
                    show_size(group.bytes));
    for (size_t i = 0; (note = ckpt_mem_assumed_at(job->mem, i)) != NULL; i++)
        print_text(stdout, "assumed: %s\n", note);
    for (size_t i = 0; (note = ckpt_mem_unknown_at(job->mem, i)) != NULL; i++)
        print_text(stdout, "unknown: %s\n", note);
}

static void print_fit(const struct job *job)
{
    struct text t = {0};
    text_addf(&t, "fits %s with a tenth and 1 GiB to spare: %s", show_size(opts.fits),
              job->plan_fits ? "yes" : "no");
    if (!job->plan_fits && job->largest_batch)
        text_addf(&t, "; batch %" PRIu64 " is the largest that does, with a plan of its own",
                  job->largest_batch);
    else if (!job->plan_fits)
        text_add(&t, ", not even a batch of 1");
    line_put(&t);
    text_free(&t);
}

/* --------------------------------------------------------------------- code */

static bool has_only_single_blocks(const ckpt_mem_result *result)
{
    for (size_t i = 0; i < result->nsegments; i++)
        if (result->segment[i].recomputed && result->segment[i].blocks > 1)
            return false;
    return true;
}

static void print_wrapped_blocks(const struct job *job)
{
    const ckpt_mem_result *plan = &job->plan;
    bool all_recomputed = count_recomputed(plan) == plan->blocks,
         is_transformer = strcmp(plan->family, "resnet") != 0;
    put_line("from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (\n"
             "    apply_activation_checkpointing)\n");
    if (all_recomputed && is_transformer)
        put_line("# models of transformers: model.gradient_checkpointing_enable({\"use_reentrant\": False})");
    put_line("# in a forward of your own: x = checkpoint(block, x, use_reentrant=False)\nblocks = [");
    for (size_t i = 0; i < plan->nsegments; i++)
        if (plan->segment[i].recomputed)
            print_text(stdout, "    model.%s,\n", ckpt_mem_block_name(job->mem, plan->segment[i].first));
    put_line("]\napply_activation_checkpointing(model, check_fn=lambda m: any(m is b for b in blocks))");
}

static void print_joined_blocks(const struct job *job)
{
    const ckpt_mem_result *plan = &job->plan;
    put_line(
        "import torch\nfrom torch.utils.checkpoint import checkpoint\n\n\nclass Segment(torch.nn.Module):\n"
        "    def __init__(self, *blocks):\n        super().__init__()\n"
        "        self.blocks = torch.nn.ModuleList(blocks)\n\n    def run(self, x, *args, **kwargs):\n"
        "        for block in self.blocks:\n            x = block(x, *args, **kwargs)\n        return x\n\n"
        "    def forward(self, x, *args, **kwargs):\n"
        "        return checkpoint(self.run, x, *args, use_reentrant=False, **kwargs)\n\n\n"
        "class Joined(torch.nn.Module):  # replaces a block that a Segment runs\n"
        "    def forward(self, x, *args, **kwargs):\n        return x\n\n");
    for (size_t i = 0; i < plan->nsegments; i++) {
        const ckpt_mem_segment *s = &plan->segment[i];
        if (!s->recomputed)
            continue;
        print_text(stdout, "model.%s = Segment(", ckpt_mem_block_name(job->mem, s->first));
        for (uint32_t b = s->first; b < s->first + s->blocks; b++)
            print_text(stdout, "%smodel.%s", b > s->first ? ", " : "", ckpt_mem_block_name(job->mem, b));
        put_line(")");
        for (uint32_t b = s->first + 1; b < s->first + s->blocks; b++)
            print_text(stdout, "model.%s = Joined()\n", ckpt_mem_block_name(job->mem, b));
    }
}

static void print_code(const struct job *job)
{
    print.for_programs = true;
    if (job->plan.setup)
        put_line(job->plan.setup);
    if (!count_recomputed(&job->plan))
        put_line("# nothing has to be checkpointed");
    else if (has_only_single_blocks(&job->plan))
        print_wrapped_blocks(job);
    else
        print_joined_blocks(job);
}

static void amount_json(json *parent, const char *key, const ckpt_mem_amount *mem_amount)
{
    if (!mem_amount->known)
        return;
    json *amount = json_add_object(parent, key);
    json_u64(amount, "bytes", mem_amount->bytes);
    json_bool(amount, "exact", mem_amount->exact);
}

static void amounts_json(json *parent, const ckpt_mem_result *result)
{
    amount_json(parent, "parameters", &result->parameters);
    amount_json(parent, "buffers", &result->buffers);
    amount_json(parent, "gradients", &result->gradients);
    amount_json(parent, "optimizer", &result->optimizer_states);
    amount_json(parent, "step_transient", &result->step_transient);
    amount_json(parent, "activations_kept", &result->activations_kept);
    amount_json(parent, "peak", &result->peak);
    if (result->peak.known)
        json_text(parent, "peak_place", result->peak_place);
    amount_json(parent, "total", &result->total);
}

static void plan_json(json *parent, const struct job *job)
{
    json *object = json_add_object(parent, "plan"), *list;
    const ckpt_mem_result *plan = &job->plan;
    if (opts.fits)
        json_bool(object, "fits", job->plan_fits);
    json_bool(object, "proven", plan->plan_proven);
    json_real(object, "extra_forward", plan->extra_forward);
    amount_json(object, "activations_kept", &plan->activations_kept);
    amount_json(object, "peak", &plan->peak);
    json_text(object, "peak_place", plan->peak_place);
    amount_json(object, "total", &plan->total);
    list = json_add_array(object, "segments");
    for (size_t i = 0; i < plan->nsegments; i++) {
        json *s = json_add_object(list, NULL);
        json *blocks = json_add_array(s, "blocks");
        json_bool(s, "recomputed", plan->segment[i].recomputed);
        for (uint32_t b = 0; b < plan->segment[i].blocks; b++)
            json_text(blocks, NULL, ckpt_mem_block_name(job->mem, plan->segment[i].first + b));
    }
}

static void notes_json(json *parent, const char *key, const ckpt_mem *mem,
                       const char *(*note_at)(const ckpt_mem *mem, size_t i))
{
    json *list = json_add_array(parent, key);
    for (size_t i = 0; note_at(mem, i); i++)
        json_text(list, NULL, note_at(mem, i));
}

static void print_json(const struct job *job)
{
    json *document = json_schema("ckpt.mem.v1");
    const ckpt_mem_result *result = &job->result;
    ckpt_mem_group group;
    json_text(document, "file", job->path);
    json_format(document, job->f ? ckpt_file_format(job->f) : NULL);
    if (result->family) {
        json_text(document, "family", result->family);
        json_text(document, "recognized_by", result->recognized_by);
    } else {
        json_null(document, "family");
    }
    json_text(document, "optimizer_name", result->optimizer);
    json_text(document, "precision", result->precision);
    json_u64(document, "trained_elements", result->trained);
    json_u64(document, "frozen_elements", result->frozen);
    amounts_json(document, result);
    json *groups = json_add_array(document, "groups");
    for (size_t i = 0; ckpt_mem_group_at(job->mem, i, &group); i++) {
        json *g = json_add_object(groups, NULL);
        json_u64(g, "parameters", group.parameters);
        json_u64(g, "bytes", group.bytes);
    }
    if (job->has_plan)
        plan_json(document, job);
    if (opts.fits && !job->plan_fits)
        json_u64(document, "largest_batch", job->largest_batch);
    notes_json(document, "assumed", job->mem, ckpt_mem_assumed_at);
    notes_json(document, "unknown", job->mem, ckpt_mem_unknown_at);
    json_line(document, stdout);
}

/* -------------------------------------------------------------------- table */

static const struct {
    const char *name;
    uint32_t checkpoint;
} columns[] = {{"none", CKPT_MEM_KEEP_ALL},
               {"selective", CKPT_MEM_SELECTIVE},
               {"sqrt", CKPT_MEM_SQRT},
               {"block", CKPT_MEM_BLOCK},
               {"plan", CKPT_MEM_PLAN}};
#define NCOLUMNS (sizeof columns / sizeof *columns)

/* table_total - sets *TOTAL to the memory for batch COUNT in column INDEX. Returns the exit code. */
static int table_total(const struct job *job, uint64_t count, size_t index, uint64_t *total)
{
    ckpt_error err;
    ckpt_mem_result result = {.struct_size = sizeof result};
    ckpt_mem_run run = job->run;
    run.batch = count;
    run.checkpoint = columns[index].checkpoint;
    ckpt_status st = run.checkpoint == CKPT_MEM_PLAN ? ckpt_mem_plan(job->mem, &run, 0, &result, &err)
                                                     : ckpt_mem_estimate(job->mem, &run, &result, &err);
    *total = result.total.bytes;
    return st == CKPT_OK ? EXIT_OK : report_error(&err, job->path);
}

#define MAX_ROWS 32 /* each doubles the batch, which is at most UINT32_MAX */

static void print_table_json(const struct job *job, uint64_t totals[][NCOLUMNS], size_t rows)
{
    json *head = json_schema("ckpt.mem.v1");
    json_text(head, "file", job->path);
    json_begin_rows(head, "table", stdout);
    for (size_t i = 0; i < rows; i++) {
        json *row = json_object();
        json_u64(row, "batch", (uint64_t)1 << i);
        for (size_t k = 0; k < NCOLUMNS; k++)
            json_u64(row, columns[k].name, totals[i][k]);
        json_row(row, stdout);
    }
    json_end_rows(NULL, stdout);
}

static void print_table_text(uint64_t totals[][NCOLUMNS], size_t rows)
{
    struct table table = {.columns = NCOLUMNS + 1, .right = {true}};
    table_row(&table, BOLD);
    table_cellf(&table, "BATCH");
    for (size_t k = 0; k < NCOLUMNS; k++) {
        table.right[k + 1] = true;
        table_cellf(&table, "%s", columns[k].name);
    }
    for (size_t i = 0; i < rows; i++) {
        table_row(&table, PLAIN);
        table_cellf(&table, "%" PRIu64, (uint64_t)1 << i);
        for (size_t k = 0; k < NCOLUMNS; k++)
            table_cellf(&table, "%s%s", show_size(totals[i][k]),
                        !opts.fits                       ? ""
                        : totals[i][k] <= tensor_limit() ? " +"
                                                         : " -");
    }
    table_print(&table, stdout, true);
    table_free(&table);
}

/* print_table - prints --table. Returns EXIT_NO if --fits is given and not even one sample fits. */
static int print_table(struct job *job)
{
    uint64_t totals[MAX_ROWS][NCOLUMNS], max_batch = opts.batch > 64 ? opts.batch : 64;
    size_t rows = 0;
    for (; max_batch >> rows; rows++)
        for (size_t k = 0; k < NCOLUMNS; k++) {
            int status = table_total(job, (uint64_t)1 << rows, k, &totals[rows][k]);
            if (status != EXIT_OK)
                return status;
        }
    if (ui.json)
        print_table_json(job, totals, rows);
    else
        print_table_text(totals, rows);
    return opts.fits && totals[0][NCOLUMNS - 1] > tensor_limit() ? EXIT_NO : EXIT_OK;
}

/* make_plan - finds the plan for job->run, and whether it fits. Returns the exit code. */
static int make_plan(struct job *job)
{
    ckpt_error err;
    ckpt_mem_run run = job->run;
    job->plan.struct_size = sizeof job->plan;
    ckpt_status st = ckpt_mem_plan(job->mem, &run, opts.fits ? tensor_limit() : 0, &job->plan, &err);
    job->plan_fits = st == CKPT_OK;
    if (st != CKPT_OK && st != CKPT_ENOTFOUND)
        return report_error(&err, job->path);
    job->has_plan = true;
    return EXIT_OK;
}

/* find_largest_batch - sets job->largest_batch to the largest batch that fits with some plan. */
static int find_largest_batch(struct job *job)
{
    ckpt_error err;
    ckpt_mem_run run = job->run;
    run.checkpoint = CKPT_MEM_PLAN;
    if (ckpt_mem_largest_batch(job->mem, &run, tensor_limit(), &job->largest_batch, &err) != CKPT_OK)
        return report_error(&err, job->path);
    return EXIT_OK;
}

static int estimate_and_plan(struct job *job)
{
    ckpt_error err;
    int status = EXIT_OK;
    if (opts.batch && opts.fits) {
        status = make_plan(job);
        if (status == EXIT_OK && !job->plan_fits)
            status = find_largest_batch(job);
    }
    job->result.struct_size = sizeof job->result;
    if (status == EXIT_OK && ckpt_mem_estimate(job->mem, &job->run, &job->result, &err) != CKPT_OK)
        return report_error(&err, job->path);
    snprintf(job->peak_place, sizeof job->peak_place, "%s",
             job->result.peak_place ? job->result.peak_place : "");
    job->result.peak_place = job->peak_place;
    /* --fits has made the plan already, but every ckpt_mem call frees what earlier results point to */
    return status == EXIT_OK && opts.batch ? make_plan(job) : status;
}

static int compute_and_print(struct job *job)
{
    int status = opts.as_table ? print_table(job) : estimate_and_plan(job);
    if (status != EXIT_OK || opts.as_table)
        return status;
    if (opts.as_code) {
        print_code(job);
    } else if (ui.json) {
        print_json(job);
    } else {
        print_heading(job);
        print_amounts(&job->result);
        if (job->has_plan)
            print_plan(job);
        if (opts.fits)
            print_fit(job);
        print_notes(job);
    }
    return opts.fits && !job->plan_fits ? EXIT_NO : EXIT_OK;
}

int run_mem(int count, char **operand)
{
    if (opts.optimizer && strcmp(opts.optimizer, "list") == 0) {
        for (size_t i = 0; ckpt_mem_optimizer_at(i); i++)
            put_line(ckpt_mem_optimizer_at(i));
        return EXIT_OK;
    }
    if (!count)
        return usage_error("mem", "mem needs FILE");
    struct job job = {.path = operand[0]};
    int status = parse_run(job.path, &job.run);
    if (status != OPT_PARSED)
        return status;
    status = open_network(&job);
    if (status == EXIT_OK)
        status = compute_and_print(&job);
    ckpt_mem_free(job.mem);
    close_input(job.f);
    return status;
}
