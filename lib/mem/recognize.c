/* recognize.c - finds the family of a network by the names and shapes of its tensors, and the sizes that
 * follow from them. Each name must be in the table of the family, with the shape that it has there; the
 * blocks must have equal tensors and be numbered from 0 without a gap. Activations of any other network are
 * refused and never guessed. */
#include <stdarg.h>
#include <stdio.h>

#include "core/glob.h"
#include "mem/model.h"

#define TIE_KEY "tie_word_embeddings"

/* refuse - records why the activations of M cannot be estimated; later reasons are ignored. Returns false. */
CKPT_PRINTF(2, 3)
static bool refuse(ckpt_mem *m, const char *fmt, ...)
{
    char text[512];
    va_list args;
    if (m->refusal.len)
        return false;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    m->refusal = arena_str(m->a, str_c(text));
    if (!m->refusal.ptr)
        m->refusal = STR_LIT("out of memory");
    return false;
}

/* ---- names */

/* find_recognizing_tensor - finds the tensor by which networks of F are recognized. Sets *PREFIX to what
 * precedes the names of F, and *BARE if the names lack the base of F. */
static const struct mem_tensor *find_recognizing_tensor(const ckpt_mem *m, const struct mem_family *f,
                                                        ckpt_str *prefix, bool *bare)
{
    for (size_t i = 0; i < m->ntensors; i++) {
        ckpt_str name = m->tensors[i].name, suffix = str_c(f->recognized_by), base = str_c(f->base_prefix);
        if (!str_ends(name, suffix))
            continue;
        ckpt_str before = str_of(name.ptr, name.len - suffix.len);
        if (before.len && !str_ends(before, STR_LIT(".")))
            continue;
        *bare = !str_ends(before, base);
        *prefix = *bare ? before : str_of(before.ptr, before.len - base.len);
        return &m->tensors[i];
    }
    return NULL;
}

/* make_table_name - returns NAME without PREFIX and with the base, as in F's table, or NULL in .ptr. */
static ckpt_str make_table_name(const ckpt_mem *m, const struct mem_family *f, ckpt_str name, ckpt_str prefix,
                                bool bare)
{
    ckpt_str rest = str_skip(name, prefix.len);
    if (!bare)
        return rest;
    return ARENA_CONCAT(m->a, str_c(f->base_prefix), rest);
}

/* ---- shapes */

/* match_shape - returns true if T has the shape of its rule. Sets letters that are not known yet. */
static bool match_shape(struct letters *dims, const struct mem_tensor *t)
{
    ckpt_str text = str_c(t->rule->shape); /* "V,3h" */
    uint64_t expected;
    if (!text.len)
        return true;
    for (uint32_t i = 0; i < t->ndim; i++) {
        ckpt_str size = str_take_until(&text, ',');
        if (!size.len)
            return false;
        bool is_letter = size.len == 1 && size.ptr[0] > '9';
        if (is_letter && !letter_known(dims, size.ptr[0]))
            letter_set(dims, size.ptr[0], t->shape[i]);
        if (!product_value(size, dims, &expected) || expected != t->shape[i])
            return false;
    }
    return !text.len;
}

/* ---- the tensors by the table of a family */

/* assign_rules - sets the rule of each tensor. Returns false, with a refusal, if a tensor has none. */
static bool assign_rules(ckpt_mem *m, const struct mem_family *f, ckpt_str prefix, bool bare)
{
    for (size_t i = 0; i < m->ntensors; i++) {
        struct mem_tensor *t = &m->tensors[i];
        uint32_t numbers[2];
        ckpt_str name = str_starts(t->name, prefix) ? make_table_name(m, f, t->name, prefix, bare)
                                                    : STR_LIT("");
        for (const struct mem_tensor_rule *r = f->tensors; r->name && !t->rule; r++) {
            /* a head such as lm_head is next to the base, not below it: its name lacks the base prefix */
            bool is_outside_base = r->part == HEAD && bare &&
                                   !str_starts(str_c(r->name), str_c(f->base_prefix));
            if (glob_match_numbers(str_c(r->name), is_outside_base ? str_skip(t->name, prefix.len) : name,
                                   numbers)) {
                t->rule = r;
                t->stage = numbers[0];
                t->block = numbers[1];
            }
        }
        if (!t->rule)
            return refuse(m, "%.*s is not part of the %s that is estimated", STR_ARG(t->name), f->title);
        t->is_buffer = t->is_buffer || t->rule->kind == BUFFER;
    }
    return true;
}

/* count_rule_tensors - returns how many tensors have R. Raises *BLOCKS to their last block number + 1. */
static size_t count_rule_tensors(const ckpt_mem *m, const struct mem_tensor_rule *r, uint32_t *blocks)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ntensors; i++)
        if (m->tensors[i].rule == r) {
            n++;
            *blocks = m->tensors[i].block + 1 > *blocks ? m->tensors[i].block + 1 : *blocks;
        }
    return n;
}

/* is_in_blocks - returns true if R is a tensor of each block. */
static bool is_in_blocks(const struct mem_tensor_rule *r) { return strchr(r->name, '#') != NULL; }

static bool refuse_count(ckpt_mem *m, const struct mem_tensor_rule *r, size_t n, size_t expected)
{
    if (n || expected != 1)
        return refuse(m, "%s is there %zu times, not %zu", r->name, n, expected);
    return refuse(m, "%s is missing", r->name);
}

/* check_blocks - returns true if the network has all blocks from 0 on, with equal tensors. Sets the
 * conditions of the tensors that only some networks have. */
static bool check_blocks(ckpt_mem *m, const struct mem_family *f)
{
    uint32_t blocks = 0;
    for (const struct mem_tensor_rule *r = f->tensors; r->name; r++)
        if (is_in_blocks(r))
            count_rule_tensors(m, r, &blocks);
    m->nblocks = blocks;
    if (blocks > BLOCKS_MAX)
        return refuse(m, "%u blocks, at most %u are counted", blocks, BLOCKS_MAX);
    for (const struct mem_tensor_rule *r = f->tensors; r->name; r++) {
        uint32_t ignored = 0;
        size_t n = count_rule_tensors(m, r, &ignored), expected = is_in_blocks(r) ? blocks : 1;
        uint32_t optional = r->conditions & OPTIONAL_TENSORS;
        if (n == expected)
            m->conditions |= optional;
        else if (n || !r->conditions)
            return refuse_count(m, r, n, expected);
    }
    return true;
}

/* check_layers - returns true if each convolution has the tensors that belong to it. */
static bool check_layers(ckpt_mem *m, const struct mem_family *f)
{
    uint32_t ignored = 0;
    size_t expected = 0, blocks = 0;
    for (const struct mem_tensor_rule *r = f->tensors; r->name; r++) {
        size_t n = count_rule_tensors(m, r, &ignored);
        if (r->kind == MATRIX) {
            blocks = is_in_blocks(r) && !blocks ? n : blocks;
            expected = r->conditions ? n : is_in_blocks(r) ? blocks : 1;
        }
        if (n != expected && !(r->kind == BUFFER && !n && r->conditions))
            return refuse_count(m, r, n, expected);
    }
    return true;
}

/* set_opposite_conditions - sets the second of two opposite conditions if the first does not hold. */
static void set_opposite_conditions(ckpt_mem *m)
{
    static const uint32_t pairs[][2] = {{QK_NORM, NO_QK_NORM},
                                        {QKV_BIAS, NO_QKV_BIAS},
                                        {OUT_BIAS, NO_OUT_BIAS},
                                        {MLP_BIAS, NO_MLP_BIAS},
                                        {UNTIED, TIED}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!(m->conditions & pairs[i][0]))
            m->conditions |= pairs[i][1];
        else
            m->conditions &= ~pairs[i][1];
}

static bool match_shapes(ckpt_mem *m, const struct mem_family *f)
{
    for (const struct mem_tensor_rule *r = f->tensors; r->name; r++)
        for (size_t i = 0; i < m->ntensors; i++)
            if (m->tensors[i].rule == r && !match_shape(&m->dims, &m->tensors[i]))
                return refuse(m, "%.*s does not have the shape that %s gives it (%s)",
                              STR_ARG(m->tensors[i].name), f->title, r->shape);
    return true;
}

/* find_embedding - returns the embedding, a table of the shape of HEAD, or NULL. */
static struct mem_tensor *find_embedding(const ckpt_mem *m, const struct mem_tensor *head)
{
    for (size_t i = 0; i < m->ntensors; i++)
        if (m->tensors[i].rule->kind == TABLE && strcmp(m->tensors[i].rule->shape, head->rule->shape) == 0)
            return &m->tensors[i];
    return NULL;
}

/* tie_second_names - ties each tensor that is a parameter under its second name to that parameter. */
static void tie_second_names(ckpt_mem *m)
{
    for (size_t i = 0; i < m->ntensors; i++) {
        const struct mem_tensor_rule *rule = m->tensors[i].rule;
        if ((rule->conditions & SECOND_NAME) != SECOND_NAME || m->tensors[i].tied_to)
            continue;
        for (size_t k = 0; k < m->ntensors && !m->tensors[i].tied_to; k++)
            if (m->tensors[k].rule == rule - 1 && m->tensors[k].tied_to != &m->tensors[i])
                m->tensors[i].tied_to = &m->tensors[k];
    }
}

/* config_ties_head - returns true if the config of M ties its head to its embedding, as transformers do by
 * default for these models. */
static bool config_ties_head(const ckpt_mem *m)
{
    const struct mem_config_entry *tie = config_get(&m->config, TIE_KEY);
    const struct mem_config_entry *type = config_get(&m->config, "model_type");
    if (!m->family->head_may_be_tied)
        return false;
    if (tie)
        return tie->type == CONFIG_TRUE;
    return type && type->type == CONFIG_TEXT && word_is("bert|gpt2", type->text);
}

/* find_tie - clears UNTIED if the head has no weight of its own: it shares memory with the embedding, or the
 * config ties the two (some formats cannot record that they share memory). */
static void find_tie(ckpt_mem *m)
{
    for (size_t i = 0; i < m->ntensors; i++) {
        struct mem_tensor *t = &m->tensors[i];
        struct mem_tensor *embedding = t->rule->conditions & UNTIED ? find_embedding(m, t) : NULL;
        if (!embedding)
            continue;
        if (embedding->tied_to == t) { /* the head is before the embedding in the file */
            embedding->tied_to = NULL;
            t->tied_to = embedding;
        }
        if (!t->tied_to && config_ties_head(m)) {
            t->tied_to = embedding;
            m->tied_by_config = true;
        }
        if (t->tied_to == embedding)
            m->conditions &= ~(uint32_t)UNTIED;
    }
}

/* ---- config.json */

/* refuse_entry - fails because E is not of the type that its key takes. */
static ckpt_status refuse_entry(const ckpt_mem *m, const struct mem_config_entry *e, const char *expected,
                                ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "%.*s must be %s", STR_ARG(e->key), expected);
    error_add_file(err, m->config.path);
    if (!m->config_only)
        error_add_hint(err, MEM_CONFIG_HINT);
    return st;
}

/* apply_size - sets the size of rule R to E of the config. Refuses E if the shapes give another size. */
static ckpt_status apply_size(ckpt_mem *m, const struct mem_config_rule *r, const struct mem_config_entry *e,
                              ckpt_error *err)
{
    uint64_t n;
    if (e->type != CONFIG_NUMBER || !str_uint(e->text, &n) || !n || n > UINT32_MAX)
        return refuse_entry(m, e, "a whole number from 1 on", err);
    if (letter_known(&m->dims, r->letter) && letter_get(&m->dims, r->letter) != n)
        refuse(m, "%s: %.*s is %llu, the tensors have %llu", m->config.path, STR_ARG(e->key),
               (unsigned long long)n, (unsigned long long)letter_get(&m->dims, r->letter));
    else
        letter_set(&m->dims, r->letter, n);
    return CKPT_OK;
}

/* apply_activation - sets the conditions of the activation function in the config. */
static void apply_activation(ckpt_mem *m, const struct mem_family *f, const struct mem_config_entry *e)
{
    for (const struct mem_config_rule *r = f->config; r->keys; r++)
        if (r->kind == CONFIG_ACTIVATION && word_is(r->keys, e->key) && e->type == CONFIG_TEXT &&
            str_is(e->text, r->value)) {
            m->conditions |= r->conditions;
            return;
        }
    refuse(m, "%s is not estimated with %.*s %.*s", f->title, STR_ARG(e->key), STR_ARG(e->text));
}

/* apply_probability - sets condition ON if the probability E is above 0, else ON << 1, its opposite. */
static ckpt_status apply_probability(ckpt_mem *m, const struct mem_config_entry *e, uint32_t on,
                                     ckpt_error *err)
{
    if (e->type != CONFIG_NUMBER || e->text.ptr[0] == '-')
        return refuse_entry(m, e, "a number from 0 to 1", err);
    m->conditions &= ~(on | on << 1);
    m->conditions |= config_is_zero(e) ? on << 1 : on;
    return CKPT_OK;
}

/* apply_flag - sets the conditions of R if there is no file; in a file, they follow from the tensors. */
static ckpt_status apply_flag(ckpt_mem *m, const struct mem_config_rule *r, const struct mem_config_entry *e,
                              ckpt_error *err)
{
    if (!r->value && e->type != CONFIG_TRUE && e->type != CONFIG_FALSE)
        return refuse_entry(m, e, "true or false", err);
    bool is_set = r->value ? e->type == CONFIG_TEXT && str_is(e->text, r->value) : e->type == CONFIG_TRUE;
    if (m->config_only && is_set)
        m->conditions |= r->conditions;
    return CKPT_OK;
}

static ckpt_status apply_entry(ckpt_mem *m, const struct mem_config_rule *r, const struct mem_config_entry *e,
                               ckpt_error *err)
{
    uint64_t window;
    switch (r->kind) {
    case CONFIG_SIZE: return apply_size(m, r, e, err);
    case CONFIG_ATTENTION_DROPOUT: return apply_probability(m, e, ATTENTION_DROPOUT, err);
    case CONFIG_RESIDUAL_DROPOUT: return apply_probability(m, e, RESIDUAL_DROPOUT, err);
    case CONFIG_EMBEDDING_DROPOUT: return apply_probability(m, e, EMBEDDING_DROPOUT, err);
    case CONFIG_ACTIVATION: apply_activation(m, m->family, e); break;
    case CONFIG_BIT: return apply_flag(m, r, e, err);
    case CONFIG_NONE:
        if (e->type != CONFIG_FALSE && !config_is_zero(e))
            refuse(m, "%s is not estimated with %.*s", m->family->title, STR_ARG(e->key));
        break;
    default: /* CONFIG_WINDOW, which mem.c compares with the length of the sequence */
        if (e->type != CONFIG_NUMBER || !str_uint(e->text, &window))
            return refuse_entry(m, e, "a whole number or null", err);
    }
    return CKPT_OK;
}

/* refuse_config - refuses a config of a kind of network that no table describes. */
static void refuse_config(ckpt_mem *m)
{
    static const struct {
        const char *keys, *what;
    } refused[] = {
        {"num_local_experts|num_experts|n_routed_experts", "a mixture of experts"},
        {"is_encoder_decoder", "an encoder and a decoder"},
        {"quantization_config", "quantized weights"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const struct mem_config_entry *e = config_get(&m->config, refused[i].keys);
        if (e && e->type != CONFIG_FALSE && !config_is_zero(e) &&
            !(e->type == CONFIG_NUMBER && str_is(e->text, "1")))
            refuse(m, "config.json describes %s (%.*s)", refused[i].what, STR_ARG(e->key));
    }
}

/* set_default_size - computes a size that is missing in the config from others: "4h". */
static void set_default_size(ckpt_mem *m, const struct mem_config_rule *r)
{
    uint64_t n;
    if (r->value && !letter_known(&m->dims, r->letter) && m->config_only &&
        product_value(str_c(r->value), &m->dims, &n))
        letter_set(&m->dims, r->letter, n);
}

/* apply_config - sets the sizes and conditions that the config gives, if there is one. */
static ckpt_status apply_config(ckpt_mem *m, ckpt_error *err)
{
    const struct mem_config_entry *type = config_get(&m->config, "model_type");
    const struct mem_config_entry *tie = config_get(&m->config, TIE_KEY);
    refuse_config(m);
    m->has_model_type = type != NULL;
    if (tie && tie->type != CONFIG_TRUE && tie->type != CONFIG_FALSE)
        return refuse_entry(m, tie, "true or false", err);
    if (type && !(type->type == CONFIG_TEXT && word_is(m->family->model_types, type->text))) {
        refuse(m, "config.json is of model_type %.*s, the names are those of %s", STR_ARG(type->text),
               m->family->title);
        return CKPT_OK;
    }
    for (const struct mem_config_rule *r = m->family->config; r && r->keys; r++) {
        const struct mem_config_entry *e = config_get(&m->config, r->keys);
        if (e)
            CKPT_TRY(apply_entry(m, r, e, err));
        else if (r->kind == CONFIG_SIZE)
            set_default_size(m, r);
    }
    return CKPT_OK;
}

static void set_family_conditions(ckpt_mem *m, const struct mem_family *f)
{
    uint32_t on = ATTENTION_DROPOUT | RESIDUAL_DROPOUT | EMBEDDING_DROPOUT;
    m->conditions = f->conditions;
    if (!(m->conditions & (NO_RESIDUAL_DROPOUT | RESIDUAL_DROPOUT)))
        m->conditions |= f->has_dropout ? on : on << 1; /* NO_…_DROPOUT is the next bit */
}

static void set_if_unknown(struct letters *letters, char name, uint64_t value)
{
    if (!letter_known(letters, name))
        letter_set(letters, name, value);
}

/* set_query_widths - sets the widths of queries and keys. A head is h / a wide unless the config differs. */
static void set_query_widths(struct letters *letters)
{
    uint64_t a = letter_get(letters, 'a');
    if (a && letter_get(letters, 'h') % a == 0)
        set_if_unknown(letters, 'd', letter_get(letters, 'h') / a);
    if (!letter_known(letters, 'd') || !a)
        return;
    letter_set(letters, 'A', size_mul(a, letter_get(letters, 'd')));
    letter_set(letters, 'K',
               size_mul(letter_known(letters, 'k') ? letter_get(letters, 'k') : a, letter_get(letters, 'd')));
}

/* derive_head_widths - sets the widths of heads; in a family without grouped queries A = K = h. */
static void derive_head_widths(ckpt_mem *m)
{
    struct letters *letters = &m->dims;
    letter_set(letters, 'L', m->nblocks);
    if (m->config_only)
        set_query_widths(letters);
    if (letter_known(letters, 'h'))
        set_if_unknown(letters, 'A', letter_get(letters, 'h'));
    if (letter_known(letters, 'A'))
        set_if_unknown(letters, 'K', letter_get(letters, 'A'));
    if (letter_known(letters, 'i'))
        set_if_unknown(letters, 'd', size_mul(2, letter_get(letters, 'i')));
    if (letter_get(letters, 'a'))
        set_if_unknown(letters, 'd', letter_get(letters, 'A') / letter_get(letters, 'a'));
    uint64_t d = letter_get(letters, 'd');
    if (!d)
        return;
    set_if_unknown(letters, 'a', letter_get(letters, 'A') / d);
    set_if_unknown(letters, 'k', letter_get(letters, 'K') / d);
    uint64_t a = letter_get(letters, 'a'), k = letter_get(letters, 'k');
    if (!k || a % k)
        refuse(m, "%llu heads cannot share the keys and values of %llu", (unsigned long long)a,
               (unsigned long long)k);
    if (size_mul(a, d) != letter_get(letters, 'A') || size_mul(k, d) != letter_get(letters, 'K'))
        refuse(m, "heads of width %llu do not make queries of width %llu and keys of width %llu",
               (unsigned long long)d, (unsigned long long)letter_get(letters, 'A'),
               (unsigned long long)letter_get(letters, 'K'));
}

/* ---- refusals, and the choice of the family */

/* has_adapted_weight - returns true if M has the weight that ADAPTER adapts, maybe in a base_layer. */
static bool has_adapted_weight(const ckpt_mem *m, ckpt_str adapter)
{
    size_t n = str_find(adapter, STR_LIT("lora_"), 0); /* ADAPTER matches a glob with lora_ */
    ckpt_str module = str_of(adapter.ptr, n);
    for (size_t i = 0; i < m->ntensors; i++) {
        ckpt_str name = m->tensors[i].name;
        if (str_starts(name, module) &&
            (str_is(str_skip(name, n), "weight") || str_is(str_skip(name, n), "base_layer.weight")))
            return true;
    }
    return false;
}

/* refuse_names - refuses the names that refusals.def lists. Returns CKPT_EUNSUPPORTED for those whose
 * parameters cannot even be counted. */
static ckpt_status refuse_names(ckpt_mem *m, ckpt_error *err)
{
    const struct mem_tensor *adapter = NULL;
    size_t adapters = 0;
    for (size_t i = 0; i < m->ntensors; i++) {
        adapters += str_has(m->tensors[i].name, STR_LIT("lora_"));
        for (const struct mem_refusal *r = mem_refusals; r->glob; r++) {
            if (!ckpt_glob_match(str_c(r->glob), m->tensors[i].name))
                continue;
            if (r->refuses_all)
                return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "{%.*s}: %s", STR_ARG(m->tensors[i].name),
                            r->why);
            if (strstr(r->glob, "lora") && !adapter)
                adapter = &m->tensors[i];
            if (strcmp(r->why, ENCODER_DECODER) == 0 && !m->other_title) {
                m->other_title = r->why;
                m->recognized_by = m->tensors[i].name;
            }
            refuse(m, "%.*s: %s", STR_ARG(m->tensors[i].name), r->why);
        }
    }
    if (adapter && adapters * 2 > m->ntensors && !has_adapted_weight(m, adapter->name))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "adapters alone: the model that they are added to is missing");
    return CKPT_OK;
}

static ckpt_status try_family(ckpt_mem *m, const struct mem_family *f, ckpt_error *err)
{
    ckpt_str prefix = STR_LIT("");
    bool bare = false;
    const struct mem_tensor *recognized = find_recognizing_tensor(m, f, &prefix, &bare);
    if (!recognized)
        return CKPT_OK;
    m->family = f;
    m->recognized_by = recognized->name;
    set_family_conditions(m, f);
    if (!assign_rules(m, f, prefix, bare) || !(f->is_convnet ? check_layers(m, f) : check_blocks(m, f)) ||
        !match_shapes(m, f))
        return CKPT_OK;
    letter_set(&m->dims, 'L', m->nblocks);
    CKPT_TRY(apply_config(m, err));
    m->refused_by_config = m->refusal.len != 0;
    find_tie(m);
    tie_second_names(m);
    set_opposite_conditions(m);
    if (!f->head_may_be_tied && (m->conditions & TIED))
        refuse(m, "%s without a weight of its head", f->title);
    if (!f->is_convnet)
        derive_head_widths(m);
    return CKPT_OK;
}

ckpt_status mem_recognize(ckpt_mem *m, ckpt_error *err)
{
    const struct mem_family *f;
    CKPT_TRY(refuse_names(m, err));
    for (size_t i = 0; !m->other_title && !m->family && (f = mem_family_at(i)) != NULL; i++)
        CKPT_TRY(try_family(m, f, err));
    if (!m->family)
        refuse(m, "the names are those of no network that this version recognizes");
    return CKPT_OK;
}

/* ---- a config alone */

/* read_dtype - sets *ITEM_BYTES to the bytes of an element of a parameter by the dtype in the config. */
static ckpt_status read_dtype(ckpt_mem *m, uint32_t *item_bytes, ckpt_error *err)
{
    const struct mem_config_entry *e = config_get(&m->config, "torch_dtype|dtype");
    m->fp32_by_default = !e;
    *item_bytes = e && e->type == CONFIG_TEXT && word_is("bfloat16|float16", e->text) ? 2 : 4;
    if (e && *item_bytes == 4 && !(e->type == CONFIG_TEXT && str_is(e->text, "float32")))
        return refuse_entry(m, e, "float32, float16 or bfloat16", err);
    return CKPT_OK;
}

/* find_missing_key - returns the first key that SHAPE needs and that the config lacks. */
static const char *find_missing_key(const ckpt_mem *m, const char *shape)
{
    for (const struct mem_config_rule *r = m->family->config; r->keys; r++)
        if (r->kind == CONFIG_SIZE && strchr(shape, r->letter) && !letter_known(&m->dims, r->letter))
            return r->keys;
    return "number of heads";
}

/* add_tensor - adds the tensor of block I that rule R describes, with ITEM_BYTES bytes for each element. */
static ckpt_status add_tensor(ckpt_mem *m, const struct mem_tensor_rule *r, uint32_t i, uint32_t item_bytes,
                              ckpt_error *err)
{
    ckpt_str text = str_c(r->shape);
    struct mem_tensor *t = &m->tensors[m->ntensors];
    uint64_t *shape = arena_array(m->a, 8 /* more than any rule has */, sizeof *shape);
    const char *number = strchr(r->name, '#');
    char text_of_i[STR_NUMBER_MAX];
    *t = (struct mem_tensor){.rule = r, .shape = shape, .item_bytes = item_bytes, .elements = 1, .block = i};
    t->name = number ? ARENA_CONCAT(m->a, str_of(r->name, (size_t)(number - r->name)),
                                    format_number(i, text_of_i), str_c(number + 1))
                     : arena_str(m->a, str_c(r->name));
    CKPT_TRY_ALLOC(shape && t->name.ptr, err);
    while (text.len && t->ndim < 8) {
        if (!product_value(str_take_until(&text, ','), &m->dims, &shape[t->ndim]))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "has no %s, which %s takes",
                        find_missing_key(m, r->shape), r->name);
        t->elements = size_mul(t->elements, shape[t->ndim++]);
    }
    m->ntensors++;
    return CKPT_OK;
}

static const struct mem_family *family_of_type(ckpt_str type)
{
    const struct mem_family *f;
    for (size_t i = 0; (f = mem_family_at(i)) != NULL; i++)
        if (word_is(f->model_types, type))
            return f;
    return NULL;
}

ckpt_status mem_from_config(ckpt_mem *m, ckpt_error *err)
{
    const struct mem_config_entry *type = config_get(&m->config, "model_type");
    const struct mem_family *f = type && type->type == CONFIG_TEXT ? family_of_type(type->text) : NULL;
    size_t rules = 0;
    m->config_only = true;
    if (!type)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "has no model_type: not the config.json of a model of transformers");
    refuse_config(m);
    if (m->refusal.len)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%.*s", STR_ARG(m->refusal));
    if (!f || f->takes_images)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "model_type {%.*s}: only {=bert, gpt2, llama, mistral, "
                    "qwen2 and qwen3} are described by a config alone",
                    STR_ARG(type->text));
    m->family = f;
    m->recognized_by = str_c("model_type");
    set_family_conditions(m, f);
    CKPT_TRY(apply_config(m, err));
    uint32_t item_bytes;
    CKPT_TRY(read_dtype(m, &item_bytes, err));
    uint64_t blocks = letter_get(&m->dims, 'L');
    if (!blocks)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "has no %s", find_missing_key(m, "L"));
    if (blocks > BLOCKS_MAX)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{%llu} blocks, at most {=%u} are counted",
                    (unsigned long long)blocks, BLOCKS_MAX);
    m->nblocks = (uint32_t)blocks;
    derive_head_widths(m);
    if (m->refusal.len)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%.*s", STR_ARG(m->refusal));
    if (!config_ties_head(m))
        m->conditions |= UNTIED;
    set_opposite_conditions(m);
    while (f->tensors[rules].name)
        rules++;
    m->tensors = arena_array(m->a, size_mul(rules, blocks), sizeof *m->tensors);
    CKPT_TRY_ALLOC(m->tensors, err);
    for (const struct mem_tensor_rule *r = f->tensors; r->name; r++)
        for (uint32_t i = 0; i < (is_in_blocks(r) ? m->nblocks : 1); i++)
            if (!(r->conditions & MAY_BE_MISSING) && conditions_hold(r->conditions, m->conditions))
                CKPT_TRY(add_tensor(m, r, i, item_bytes, err));
    return CKPT_OK;
}
