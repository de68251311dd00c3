/* ckpt_match: checkpoints whose names and layout were changed at random either get their names and elements
 * back by its rules, or it reports what it does not know; no rule makes a wrong tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "pseudo_random.h"
#include "unit.h"

#define CASES       500u
#define MAX_TENSORS 512
#define NAME_MAX_   160

struct named {
    char name[NAME_MAX_];
    uint32_t ndim;
    uint64_t shape[3];
    uint16_t *data;
};

struct state_dict {
    struct named list[MAX_TENSORS];
    size_t n;
};

static struct state_dict model, changed;
static unsigned nwords; /* words that were made up */
static char log_text[1024];
static ckpt_error err;

static unsigned random_below(unsigned limit) { return (unsigned)(next_random() % limit); }

static size_t count_elements(const struct named *t)
{
    size_t n = 1;
    for (uint32_t d = 0; d < t->ndim; d++)
        n *= (size_t)t->shape[d];
    return n;
}

static struct named *add(struct state_dict *dict, const char *name, uint64_t rows, uint64_t columns)
{
    CU_ASSERT_FATAL(dict->n < MAX_TENSORS);
    struct named *t = &dict->list[dict->n++];
    *t = (struct named){.ndim = columns ? 2 : 1, .shape = {rows, columns}};
    snprintf(t->name, sizeof t->name, "%s", name);
    size_t n = count_elements(t);
    t->data = malloc((n + 1) * sizeof *t->data);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t->data);
    for (size_t i = 0; i < n; i++)
        t->data[i] = (uint16_t)next_random();
    return t;
}

static void free_dict(struct state_dict *dict)
{
    while (dict->n)
        free(dict->list[--dict->n].data);
}

/* ------------------------------------------------------------------------------- models */

/* add_linear - adds WEIGHT and perhaps a bias of the module whose name FORMAT makes of LAYER. */
static void add_linear(const char *format, unsigned layer, uint64_t rows, uint64_t columns, bool bias)
{
    char module[NAME_MAX_ - 8], name[NAME_MAX_];
    snprintf(module, sizeof module, format, layer); /* NOLINT: all formats are in this file */
    snprintf(name, sizeof name, "%s.weight", module);
    add(&model, name, rows, columns);
    snprintf(name, sizeof name, "%s.bias", module);
    if (bias)
        add(&model, name, rows, 0);
}

static uint64_t random_size(void) { return 2 * (2 + random_below(4)); }

static void make_llama(void)
{
    uint64_t hidden = random_size(), wide = random_size(), keys = random_below(2) ? hidden : hidden / 2;
    unsigned nlayers = 1 + random_below(5), nexperts = random_below(3) ? 0 : 2 + random_below(3);
    add(&model, "model.embed_tokens.weight", 20, hidden);
    for (unsigned i = 0; i < nlayers; i++) {
        add_linear("model.layers.%u.self_attn.q_proj", i, hidden, hidden, false);
        add_linear("model.layers.%u.self_attn.k_proj", i, keys, hidden, false);
        add_linear("model.layers.%u.self_attn.v_proj", i, keys, hidden, false);
        add_linear("model.layers.%u.self_attn.o_proj", i, hidden, hidden, false);
        for (unsigned e = 0; e < nexperts; e++) {
            char format[NAME_MAX_];
            snprintf(format, sizeof format, "model.layers.%%u.mlp.experts.%u.up_proj", e);
            add_linear(format, i, wide, hidden, false);
            snprintf(format, sizeof format, "model.layers.%%u.mlp.experts.%u.down_proj", e);
            add_linear(format, i, hidden, wide, false);
        }
        if (!nexperts) {
            add_linear("model.layers.%u.mlp.gate_proj", i, wide, hidden, false);
            add_linear("model.layers.%u.mlp.up_proj", i, wide, hidden, false);
            add_linear("model.layers.%u.mlp.down_proj", i, hidden, wide, false);
        }
        add_linear("model.layers.%u.input_layernorm", i, hidden, 0, false);
        add_linear("model.layers.%u.post_attention_layernorm", i, hidden, 0, false);
    }
    add(&model, "model.norm.weight", hidden, 0);
    if (random_below(2))
        add(&model, "lm_head.weight", 20, hidden);
}

static void make_bert(void)
{
    uint64_t hidden = random_size(), wide = random_size();
    unsigned nlayers = 1 + random_below(5);
    add(&model, "embeddings.word_embeddings.weight", 20, hidden);
    add(&model, "embeddings.position_embeddings.weight", 12, hidden);
    add_linear("embeddings.LayerNorm", 0, hidden, 0, true);
    for (unsigned i = 0; i < nlayers; i++) {
        add_linear("encoder.layer.%u.attention.self.query", i, hidden, hidden, true);
        add_linear("encoder.layer.%u.attention.self.key", i, hidden, hidden, true);
        add_linear("encoder.layer.%u.attention.self.value", i, hidden, hidden, true);
        add_linear("encoder.layer.%u.attention.output.dense", i, hidden, hidden, true);
        add_linear("encoder.layer.%u.attention.output.LayerNorm", i, hidden, 0, true);
        add_linear("encoder.layer.%u.intermediate.dense", i, wide, hidden, true);
        add_linear("encoder.layer.%u.output.dense", i, hidden, wide, true);
        add_linear("encoder.layer.%u.output.LayerNorm", i, hidden, 0, true);
    }
    add_linear("pooler.dense", 0, hidden, hidden, true);
}

static void make_encoder_decoder(void)
{
    uint64_t hidden = random_size(), wide = random_size();
    unsigned nlayers = 1 + random_below(3);
    add(&model, "shared.weight", 20, hidden);
    for (unsigned i = 0; i < nlayers; i++) {
        add_linear("encoder.blocks.%u.attn.q", i, hidden, hidden, false);
        add_linear("encoder.blocks.%u.attn.k", i, hidden, hidden, false);
        add_linear("encoder.blocks.%u.fc1", i, wide, hidden, true);
        add_linear("encoder.blocks.%u.fc2", i, hidden, wide, true);
        add_linear("decoder.blocks.%u.attn.q", i, hidden, hidden, false);
        add_linear("decoder.blocks.%u.attn.k", i, hidden, hidden, false);
        add_linear("decoder.blocks.%u.cross.q", i, hidden, hidden, false);
        add_linear("decoder.blocks.%u.cross.k", i, hidden, hidden, false);
        add_linear("decoder.blocks.%u.fc1", i, wide, hidden, true);
        add_linear("decoder.blocks.%u.fc2", i, hidden, wide, true);
    }
}

static void make_network(void)
{
    unsigned nstages = 1 + random_below(3);
    add_linear("stem.conv", 0, 8, 3, true);
    for (unsigned s = 0; s < nstages; s++)
        for (unsigned b = 0; b < 2; b++) {
            char format[NAME_MAX_];
            snprintf(format, sizeof format, "stages.%u.blocks.%%u.conv1", s);
            add_linear(format, b, 8 + 2 * s, 6, false);
            snprintf(format, sizeof format, "stages.%u.blocks.%%u.norm1", s);
            add_linear(format, b, 8 + 2 * s, 0, true);
            snprintf(format, sizeof format, "stages.%u.blocks.%%u.conv2", s);
            add_linear(format, b, 6, 8 + 2 * s, false);
        }
    add_linear("head.fc", 0, 10, 8, true);
}

/* ------------------------------------------------------------------------------ changes */

/* note - adds to the description of the case. */
static void note(const char *text, const char *what)
{
    size_t n = strlen(log_text);
    snprintf(log_text + n, sizeof log_text - n, "%s %s; ", text, what);
}

static bool is_number(ckpt_str component)
{
    uint64_t ignored_number;
    return str_uint(component, &ignored_number);
}

/* pick_component - returns a component of a name that is no number, and sets *BEFORE to the one before it. */
static ckpt_str pick_component(ckpt_str *before)
{
    for (;;) {
        ckpt_str rest = str_c(changed.list[random_below((unsigned)changed.n)].name), last = str_of("", 0);
        while (rest.len) {
            ckpt_str component = str_take_until(&rest, '.');
            *before = last;
            if (!is_number(component) && !random_below(4))
                return component;
            last = component;
        }
    }
}

/* replace - puts WORD in place of the components OLD, those after BEFORE only if that is not empty. */
static void replace(ckpt_str old, ckpt_str before, const char *word)
{
    for (size_t i = 0; i < changed.n; i++) {
        char made[2 * NAME_MAX_] = "";
        size_t n = 0;
        ckpt_str last = str_of("", 0);
        for (ckpt_str rest = str_c(changed.list[i].name); rest.len;) {
            ckpt_str component = str_take_until(&rest, '.');
            bool is_old = str_eq(component, old) && (!before.len || str_eq(before, last));
            n += (size_t)snprintf(made + n, sizeof made - n, "%s%.*s", n ? "." : "",
                                  is_old ? (int)strlen(word) : (int)component.len,
                                  is_old ? word : component.ptr);
            last = component;
        }
        CU_ASSERT_FATAL(n < NAME_MAX_);
        memcpy(changed.list[i].name, made, n + 1);
    }
}

static void change_word(bool in_context, bool adds_level)
{
    ckpt_str before, picked = pick_component(&before);
    char old[NAME_MAX_], context[NAME_MAX_] = "", word[2 * NAME_MAX_];
    snprintf(old, sizeof old, "%.*s", (int)picked.len, picked.ptr);
    if (in_context)
        snprintf(context, sizeof context, "%.*s", (int)before.len, before.ptr);
    if (adds_level)
        snprintf(word, sizeof word, "%s.made%u", old, nwords++);
    else
        snprintf(word, sizeof word, "made%u", nwords++);
    replace(str_c(old), str_c(context), word);
    note(old, word);
}

static void add_prefix(void)
{
    char prefix[16];
    snprintf(prefix, sizeof prefix, "made%u.", nwords++);
    for (size_t i = 0; i < changed.n; i++) {
        char made[2 * NAME_MAX_];
        snprintf(made, sizeof made, "%s%s", prefix, changed.list[i].name);
        memcpy(changed.list[i].name, made, NAME_MAX_ - 1);
    }
    note("prefix", prefix);
}

/* number_in - returns the first number in NAME, and sets *AT to where it is; NULL: there is none. */
static const char *number_in(const char *name, uint64_t *number)
{
    for (const char *at = name; at; at = strchr(at, '.') ? strchr(at, '.') + 1 : NULL)
        if (str_uint(str_before(str_c(at), '.'), number))
            return at;
    return NULL;
}

static void move_numbers(void)
{
    unsigned amount = 1 + random_below(3);
    for (size_t i = 0; i < changed.n; i++) {
        char made[2 * NAME_MAX_];
        uint64_t number;
        const char *at = number_in(changed.list[i].name, &number);
        if (!at)
            continue;
        const char *rest = strchr(at, '.');
        snprintf(made, sizeof made, "%.*s%" PRIu64 "%s", (int)(at - changed.list[i].name),
                 changed.list[i].name, number + amount, rest ? rest : "");
        memcpy(changed.list[i].name, made, NAME_MAX_ - 1);
    }
    note("numbers", "moved");
}

/* is_kind - returns true if both names differ only in numbers. */
static bool is_kind(const char *left, const char *right)
{
    ckpt_str a = str_c(left), b = str_c(right);
    while (a.len && b.len) {
        ckpt_str x = str_take_until(&a, '.'), y = str_take_until(&b, '.');
        if (!str_eq(x, y) && !(is_number(x) && is_number(y)))
            return false;
    }
    return !a.len && !b.len;
}

static void transpose(void)
{
    char kind[NAME_MAX_];
    const struct named *picked = &changed.list[random_below((unsigned)changed.n)];
    memcpy(kind, picked->name, sizeof kind);
    for (size_t i = 0; i < changed.n; i++)
        if (is_kind(kind, changed.list[i].name) &&
            (changed.list[i].ndim != 2 || changed.list[i].shape[0] == changed.list[i].shape[1]))
            return; /* its shape would not show it */
    for (size_t i = 0; i < changed.n; i++) {
        struct named *t = &changed.list[i];
        if (!is_kind(kind, t->name))
            continue;
        uint64_t rows = t->shape[0], columns = t->shape[1];
        uint16_t *data = malloc((size_t)(rows * columns) * sizeof *data);
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < columns; c++)
                data[c * rows + r] = t->data[r * columns + c];
        free(t->data);
        t->data = data;
        t->shape[0] = columns;
        t->shape[1] = rows;
    }
    note("transposed", kind);
}

static struct named *find(struct state_dict *dict, const char *name)
{
    for (size_t i = 0; i < dict->n; i++)
        if (strcmp(dict->list[i].name, name) == 0)
            return &dict->list[i];
    return NULL;
}

static void remove_tensor(struct named *t)
{
    free(t->data);
    *t = changed.list[--changed.n];
}

/* join_parts - joins, where they are, all tensors whose module is called WORDS[0] with those of the
 * others. */
static void join_parts(const char *const *words, size_t nwords_joined, const char *joined)
{
    char suffix[32], name[3][NAME_MAX_];
    snprintf(suffix, sizeof suffix, "%s.weight", words[0]);
    for (size_t i = 0; i < changed.n; i++) {
        struct named *parts[3] = {&changed.list[i]};
        size_t len = strlen(parts[0]->name), total = 0, at = 0;
        if (len <= strlen(suffix) || strcmp(parts[0]->name + len - strlen(suffix), suffix) != 0)
            continue;
        bool fits = parts[0]->ndim == 2;
        for (size_t k = 0; fits && k < nwords_joined; k++) {
            snprintf(name[k], NAME_MAX_, "%.*s%s.weight", (int)(len - strlen(suffix)), changed.list[i].name,
                     words[k]);
            parts[k] = find(&changed, name[k]);
            fits = parts[k] && parts[k]->ndim == 2 && parts[k]->shape[1] == parts[0]->shape[1];
            total += fits ? count_elements(parts[k]) : 0;
        }
        if (!fits)
            continue;
        uint16_t *data = malloc(total * sizeof *data);
        for (size_t k = 0; k < nwords_joined; k++) {
            memcpy(data + at, parts[k]->data, count_elements(parts[k]) * sizeof *data);
            at += count_elements(parts[k]);
        }
        free(parts[0]->data);
        parts[0]->data = data;
        parts[0]->shape[0] = total / parts[0]->shape[1];
        for (size_t k = 1; k < nwords_joined; k++)
            remove_tensor(find(&changed, name[k]));
        struct named *whole = find(&changed, name[0]);
        snprintf(whole->name, NAME_MAX_, "%.*s%s.weight", (int)(len - strlen(suffix)), name[0], joined);
        note("joined", whole->name);
    }
}

static void shuffle(void)
{
    for (size_t i = changed.n; i > 1; i--) {
        size_t k = random_below((unsigned)i);
        struct named t = changed.list[k];
        changed.list[k] = changed.list[i - 1];
        changed.list[i - 1] = t;
    }
    note("shuffled", "");
}

/* stack_experts - stacks the tensors experts.0.NAME.weight, experts.1.NAME.weight … as experts.NAME. */
static void stack_experts(void)
{
    for (size_t i = 0; i < changed.n;) {
        char name[NAME_MAX_], lead[NAME_MAX_], tail[NAME_MAX_];
        struct named *first = &changed.list[i];
        const char *at = strstr(first->name, ".experts.0.");
        size_t n = 0, each = count_elements(first);
        if (!at || first->ndim != 2) {
            i++;
            continue;
        }
        snprintf(lead, sizeof lead, "%.*s", (int)(at - first->name), first->name);
        snprintf(tail, sizeof tail, "%s", at + strlen(".experts.0."));
        uint16_t *data = malloc(8 * each * sizeof *data);
        struct named stack = *first, *t;
        while (snprintf(name, sizeof name, "%s.experts.%zu.%s", lead, n, tail) > 0 &&
               (t = find(&changed, name))) {
            memcpy(data + n++ * each, t->data, each * sizeof *data);
            remove_tensor(t);
        }
        char *dot = strrchr(tail, '.');
        if (dot)
            *dot = '\0';
        snprintf(stack.name, sizeof stack.name, "%.100s.experts.%.40s", lead, tail);
        stack.ndim = 3;
        stack.shape[2] = stack.shape[1];
        stack.shape[1] = stack.shape[0];
        stack.shape[0] = n;
        stack.data = data;
        changed.list[changed.n++] = stack;
        note("stacked", stack.name);
        i = 0;
    }
}

static void change(void)
{
    static const char *const llama[] = {"q_proj", "k_proj", "v_proj"},
                             *const bert[] = {"query", "key", "value"},
                             *const gates[] = {"gate_proj", "up_proj"};
    switch (random_below(10)) {
    case 0: add_prefix(); break;
    case 1: change_word(false, false); break;
    case 2: change_word(true, false); break;
    case 3: change_word(false, true); break;
    case 4: move_numbers(); break;
    case 5: transpose(); break;
    case 6:
        join_parts(llama, 3, "qkv_proj");
        join_parts(bert, 3, "qkv");
        break;
    case 7: join_parts(gates, 2, "gate_up_proj"); break;
    case 8: stack_experts(); break;
    default: shuffle();
    }
}

/* ------------------------------------------------------------------------------- checks */

static ckpt_file *build(const struct state_dict *dict)
{
    ckpt_builder *b = NULL;
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL_FATAL(ckpt_builder_new("made", &b, &err), CKPT_OK);
    for (size_t i = 0; i < dict->n; i++) {
        const struct named *t = &dict->list[i];
        const ckpt_builder_tensor tensor = {.struct_size = sizeof tensor,
                                            .dtype = CKPT_DT_U16,
                                            .ndim = t->ndim,
                                            .shape = t->shape,
                                            .data = t->data,
                                            .nbytes = count_elements(t) * sizeof *t->data};
        (void)ckpt_builder_add_tensor(b, t->name, &tensor, &err);
    }
    ckpt_status st = ckpt_builder_finish(b, &f, &err);
    CU_ASSERT_EQUAL_FATAL(st, CKPT_OK);
    return f;
}

/* count_wrong - returns how many tensors of F a rule has given the name and shape of one of the model,
 * with other elements; *NRIGHT: how many are those of the model; *NSAME: how many had that name before. */
static size_t count_wrong(ckpt_file *f, size_t *nright, size_t *nsame)
{
    size_t nwrong = 0;
    *nright = *nsame = 0;
    for (uint32_t i = 0; i < ckpt_tensor_count(f); i++) {
        const ckpt_tensor t = tensor_at(f, i);
        const struct named *wanted = find(&model, t.name.ptr);
        uint16_t data[4096];
        if (!wanted || t.ndim != wanted->ndim ||
            memcmp(t.shape, wanted->shape, t.ndim * sizeof *t.shape) != 0)
            continue;
        CU_ASSERT_FATAL(t.elements <= 4096);
        CU_ASSERT_EQUAL_FATAL(ckpt_tensor_read(f, i, 0, t.elements, data, &err), CKPT_OK);
        const struct named *before = find(&changed, wanted->name);
        bool is_equal = memcmp(data, wanted->data, (size_t)t.nbytes) == 0;
        bool was_there = before && before->ndim == t.ndim && count_elements(before) == t.elements &&
                         memcmp(data, before->data, (size_t)t.nbytes) == 0; /* by its name, not by a rule */
        *nright += is_equal;
        nwrong += !is_equal && !was_there;
        *nsame += was_there && !is_equal;
        if (!is_equal && !was_there)
            fprintf(stderr, "  wrong: %s\n", wanted->name);
    }
    return nwrong;
}

/* edit - writes FILE with the certain rules of MATCH, and opens the result. */
static ckpt_file *edit(ckpt_file *file, const ckpt_match *match, void **bytes)
{
    static char rules[1 << 16];
    const ckpt_write_options o = {.struct_size = sizeof o, .format = "safetensors"};
    const ckpt_match_rule *rule;
    size_t n = 0, nbytes;
    ckpt_plan *p = NULL;
    ckpt_file *f = NULL;
    rules[0] = '\0';
    for (size_t i = 0; (rule = ckpt_match_rule_at(match, i)); i++)
        if (rule->certain)
            n += (size_t)snprintf(rules + n, sizeof rules - n, "%s\n", rule->text.ptr);
    CU_ASSERT_FATAL(n < sizeof rules);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(file, &p, &err), CKPT_OK);
    ckpt_status st = ckpt_plan_edit(p, rules, NULL, &err);
    if (st != CKPT_OK)
        fprintf(stderr, "%s\n%s%s\n", log_text, rules, err.what);
    CU_ASSERT_EQUAL_FATAL(st, CKPT_OK);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_write_memory(p, &o, bytes, &nbytes, NULL, &err), CKPT_OK);
    ckpt_plan_free(p);
    CU_ASSERT_EQUAL_FATAL(ckpt_open_memory(*bytes, nbytes, "edited", NULL, &f, &err), CKPT_OK);
    return f;
}

/* check_case - returns true if the rules give back all names and elements. */
static bool check_case(void)
{
    ckpt_match *match = NULL;
    ckpt_file *wanted = build(&model), *file = build(&changed), *again = build(&changed), *edited;
    void *bytes = NULL;
    size_t nright, nsame;
    CU_ASSERT_EQUAL_FATAL(ckpt_match_new(wanted, file, NULL, &match, &err), CKPT_OK);
    edited = edit(again, match, &bytes);
    size_t nwrong = count_wrong(edited, &nright, &nsame);
    CU_ASSERT_EQUAL(nwrong, 0);
    const ckpt_match_rule *rule;
    for (size_t i = 0; nwrong && (rule = ckpt_match_rule_at(match, i)); i++)
        fprintf(stderr, "%s%s   # %s\n", rule->certain ? "" : "# ", rule->text.ptr, rule->evidence.ptr);
    if (nwrong)
        fprintf(stderr, "%s\n", log_text);
    CU_ASSERT_EQUAL_FATAL(ckpt_match_apply(match, &err), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_match_count(match)->same, nright + nsame + nwrong);
    CU_ASSERT_EQUAL(ckpt_match_count(match)->missing + ckpt_match_count(match)->reshaped,
                    model.n - nright - nsame - nwrong);
    ckpt_close(edited);
    ckpt_free(bytes);
    ckpt_match_free(match);
    ckpt_close(file);
    ckpt_close(again);
    ckpt_close(wanted);
    return nright == model.n;
}

static void random_changes_are_undone_or_reported(void)
{
    static void (*const make[])(void) = {make_llama, make_bert, make_encoder_decoder, make_network};
    size_t nundone = 0;
    for (unsigned i = 0; i < CASES; i++) {
        log_text[0] = '\0';
        make[i % 4]();
        for (size_t k = 0; k < model.n; k++) {
            struct named copy = model.list[k];
            copy.data = malloc((count_elements(&copy) + 1) * sizeof *copy.data);
            memcpy(copy.data, model.list[k].data, count_elements(&copy) * sizeof *copy.data);
            changed.list[changed.n++] = copy;
        }
        for (unsigned n = 1 + random_below(4); n; n--)
            change();
        nundone += check_case();
        free_dict(&model);
        free_dict(&changed);
    }
    CU_ASSERT(nundone >= CASES * 4 / 5); /* of the others, some names are reported as not known */
}

void suite_match(void) { UNIT(random_changes_are_undone_or_reported); }
