/* recognize.c - finds the family of a network by the names and shapes of its tensors, and the sizes that
 * follow from them. Each name must be in the table of the family, with the shape that it has there; the
 * blocks must have equal tensors and be numbered from 0 without a gap. Activations of any other network are
 * refused and never guessed. */
#include <stdio.h>

#include "core/glob.h"
#include "mem/model.h"

#define TIE_KEY "tie_word_embeddings"

/* refuse - records why the activations of MEM cannot be estimated; later reasons are ignored. Returns
 * false. */
CKPT_PRINTF(2, 3)
static bool refuse(ckpt_mem *mem, const char *fmt, ...)
{
    char text[512];
    va_list args;
    if (mem->refusal.len)
        return false;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mem->refusal = arena_str(mem->a, str_c(text));
    if (!mem->refusal.ptr)
        mem->refusal = STR_LIT("out of memory");
    return false;
}

/* ---- names */

/* find_recognizing_tensor - finds the tensor by which networks of FAMILY are recognized. Sets *PREFIX to what
 * precedes the names of FAMILY, and *BARE if the names lack the base of FAMILY. */
static const struct mem_tensor *find_recognizing_tensor(const ckpt_mem *mem, const struct mem_family *family,
                                                        ckpt_str *prefix, bool *bare)
{
    for (size_t i = 0; i < mem->ntensors; i++) {
        ckpt_str name = mem->tensors[i].name, suffix = str_c(family->recognized_by),
                 base = str_c(family->base_prefix);
        if (!str_ends(name, suffix))
            continue;
        ckpt_str before = str_of(name.ptr, name.len - suffix.len);
        if (before.len && !str_ends(before, STR_LIT(".")))
            continue;
        *bare = !str_ends(before, base);
        *prefix = *bare ? before : str_of(before.ptr, before.len - base.len);
        return &mem->tensors[i];
    }
    return NULL;
}

/* make_table_name - returns NAME without PREFIX and with the base, as in FAMILY's table, or NULL in .ptr. */
static ckpt_str make_table_name(const ckpt_mem *mem, const struct mem_family *family, ckpt_str name,
                                ckpt_str prefix, bool bare)
{
    ckpt_str rest = str_skip(name, prefix.len);
    if (!bare)
        return rest;
    return ARENA_CONCAT(mem->a, str_c(family->base_prefix), rest);
}

/* ---- shapes */

/* match_shape - returns true if TENSOR has the shape of its rule. Sets letters that are not known yet. */
static bool match_shape(struct letters *dims, const struct mem_tensor *tensor)
{
    ckpt_str text = str_c(tensor->rule->shape); /* "V,3h" */
    uint64_t expected;
    if (!text.len)
        return true;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        ckpt_str size = str_take_until(&text, ',');
        if (!size.len)
            return false;
        bool is_letter = size.len == 1 && size.ptr[0] > '9';
        if (is_letter && !letter_known(dims, size.ptr[0]))
            letter_set(dims, size.ptr[0], tensor->shape[i]);
        if (!product_value(size, dims, &expected) || expected != tensor->shape[i])
            return false;
    }
    return !text.len;
}

/* ---- the tensors by the table of a family */

/* assign_rules - sets the rule of each tensor. Returns false, with a refusal, if a tensor has none. */
static bool assign_rules(ckpt_mem *mem, const struct mem_family *family, ckpt_str prefix, bool bare)
{
    for (size_t i = 0; i < mem->ntensors; i++) {
        struct mem_tensor *t = &mem->tensors[i];
        uint32_t numbers[2];
        ckpt_str name = str_starts(t->name, prefix) ? make_table_name(mem, family, t->name, prefix, bare)
                                                    : STR_LIT("");
        for (const struct mem_tensor_rule *r = family->tensors; r->name && !t->rule; r++) {
            /* a head such as lm_head is next to the base, not below it: its name lacks the base prefix */
            bool is_outside_base = r->part == HEAD && bare &&
                                   !str_starts(str_c(r->name), str_c(family->base_prefix));
            if (glob_match_numbers(str_c(r->name), is_outside_base ? str_skip(t->name, prefix.len) : name,
                                   numbers)) {
                t->rule = r;
                t->stage = numbers[0];
                t->block = numbers[1];
            }
        }
        if (!t->rule)
            return refuse(mem, "%.*s is not part of the %s that is estimated", STR_ARG(t->name),
                          family->title);
        t->is_buffer = t->is_buffer || t->rule->kind == BUFFER;
    }
    return true;
}

/* count_rule_tensors - returns how many tensors have RULE. Raises *BLOCKS to their last block number + 1. */
static size_t count_rule_tensors(const ckpt_mem *mem, const struct mem_tensor_rule *rule, uint32_t *blocks)
{
    size_t n = 0;
    for (size_t i = 0; i < mem->ntensors; i++)
        if (mem->tensors[i].rule == rule) {
            n++;
            *blocks = mem->tensors[i].block + 1 > *blocks ? mem->tensors[i].block + 1 : *blocks;
        }
    return n;
}

/* is_in_blocks - returns true if RULE is a tensor of each block. */
static bool is_in_blocks(const struct mem_tensor_rule *rule) { return strchr(rule->name, '#') != NULL; }

static bool refuse_count(ckpt_mem *mem, const struct mem_tensor_rule *rule, size_t count, size_t expected)
{
    if (count || expected != 1)
        return refuse(mem, "%s is there %zu times, not %zu", rule->name, count, expected);
    return refuse(mem, "%s is missing", rule->name);
}

/* check_blocks - returns true if the network has all blocks from 0 on, with equal tensors. Sets the
 * conditions of the tensors that only some networks have. */
static bool check_blocks(ckpt_mem *mem, const struct mem_family *family)
{
    uint32_t blocks = 0;
    for (const struct mem_tensor_rule *r = family->tensors; r->name; r++)
        if (is_in_blocks(r))
            count_rule_tensors(mem, r, &blocks);
    mem->nblocks = blocks;
    if (blocks > BLOCKS_MAX)
        return refuse(mem, "%u blocks, at most %u are counted", blocks, BLOCKS_MAX);
    for (const struct mem_tensor_rule *r = family->tensors; r->name; r++) {
        uint32_t ignored = 0;
        size_t n = count_rule_tensors(mem, r, &ignored), expected = is_in_blocks(r) ? blocks : 1;
        uint32_t optional = r->conditions & OPTIONAL_TENSORS;
        if (n == expected)
            mem->conditions |= optional;
        else if (n || !r->conditions)
            return refuse_count(mem, r, n, expected);
    }
    return true;
}

/* check_layers - returns true if each convolution has the tensors that belong to it. */
static bool check_layers(ckpt_mem *mem, const struct mem_family *family)
{
    uint32_t ignored = 0;
    size_t expected = 0, blocks = 0;
    for (const struct mem_tensor_rule *r = family->tensors; r->name; r++) {
        size_t n = count_rule_tensors(mem, r, &ignored);
        if (r->kind == MATRIX) {
            blocks = is_in_blocks(r) && !blocks ? n : blocks;
            expected = r->conditions ? n : is_in_blocks(r) ? blocks : 1;
        }
        if (n != expected && !(r->kind == BUFFER && !n && r->conditions))
            return refuse_count(mem, r, n, expected);
    }
    return true;
}

/* set_opposite_conditions - sets the second of two opposite conditions if the first does not hold. */
static void set_opposite_conditions(ckpt_mem *mem)
{
    static const uint32_t pairs[][2] = {{QK_NORM, NO_QK_NORM},
                                        {QKV_BIAS, NO_QKV_BIAS},
                                        {OUT_BIAS, NO_OUT_BIAS},
                                        {MLP_BIAS, NO_MLP_BIAS},
                                        {UNTIED, TIED}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!(mem->conditions & pairs[i][0]))
            mem->conditions |= pairs[i][1];
        else
            mem->conditions &= ~pairs[i][1];
}

static bool match_shapes(ckpt_mem *mem, const struct mem_family *family)
{
    for (const struct mem_tensor_rule *r = family->tensors; r->name; r++)
        for (size_t i = 0; i < mem->ntensors; i++)
            if (mem->tensors[i].rule == r && !match_shape(&mem->dims, &mem->tensors[i]))
                return refuse(mem, "%.*s does not have the shape that %s gives it (%s)",
                              STR_ARG(mem->tensors[i].name), family->title, r->shape);
    return true;
}

/* find_embedding - returns the embedding, a table of the shape of HEAD, or NULL. */
static struct mem_tensor *find_embedding(const ckpt_mem *mem, const struct mem_tensor *head)
{
    for (size_t i = 0; i < mem->ntensors; i++)
        if (mem->tensors[i].rule->kind == TABLE &&
            strcmp(mem->tensors[i].rule->shape, head->rule->shape) == 0)
            return &mem->tensors[i];
    return NULL;
}

/* tie_second_names - ties each tensor that is a parameter under its second name to that parameter. */
static void tie_second_names(ckpt_mem *mem)
{
    for (size_t i = 0; i < mem->ntensors; i++) {
        const struct mem_tensor_rule *rule = mem->tensors[i].rule;
        if ((rule->conditions & SECOND_NAME) != SECOND_NAME || mem->tensors[i].tied_to)
            continue;
        for (size_t k = 0; k < mem->ntensors && !mem->tensors[i].tied_to; k++)
            if (mem->tensors[k].rule == rule - 1 && mem->tensors[k].tied_to != &mem->tensors[i])
                mem->tensors[i].tied_to = &mem->tensors[k];
    }
}

/* config_ties_head - returns true if the config of MEM ties its head to its embedding, as transformers do by
 * default for these models. */
static bool config_ties_head(const ckpt_mem *mem)
{
    const struct model_config_entry *tie = config_get(&mem->config, TIE_KEY);
    const struct model_config_entry *type = config_get(&mem->config, "model_type");
    if (!mem->family->head_may_be_tied)
        return false;
    if (tie)
        return tie->type == CONFIG_TRUE;
    return type && type->type == CONFIG_TEXT && word_is("bert|gpt2", type->text);
}

/* find_tie - clears UNTIED if the head has no weight of its own: it shares memory with the embedding, or the
 * config ties the two (some formats cannot record that they share memory). */
static void find_tie(ckpt_mem *mem)
{
    for (size_t i = 0; i < mem->ntensors; i++) {
        struct mem_tensor *t = &mem->tensors[i];
        struct mem_tensor *embedding = t->rule->conditions & UNTIED ? find_embedding(mem, t) : NULL;
        if (!embedding)
            continue;
        if (embedding->tied_to == t) { /* the head is before the embedding in the file */
            embedding->tied_to = NULL;
            t->tied_to = embedding;
        }
        if (!t->tied_to && config_ties_head(mem)) {
            t->tied_to = embedding;
            mem->tied_by_config = true;
        }
        if (t->tied_to == embedding)
            mem->conditions &= ~(uint32_t)UNTIED;
    }
}

/* ---- config.json */

/* refuse_entry - fails because ENTRY is not of the type that its key takes. */
static ckpt_status refuse_entry(const ckpt_mem *mem, const struct model_config_entry *entry,
                                const char *expected, ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "%.*s must be %s", STR_ARG(entry->key),
                          expected);
    error_add_file(err, mem->config.path);
    if (!mem->config_only)
        error_add_hint(err, MEM_CONFIG_HINT);
    return st;
}

/* apply_size - sets the size of rule RULE to ENTRY of the config. Refuses ENTRY if the shapes give another
 * size. */
static ckpt_status apply_size(ckpt_mem *mem, const struct mem_config_rule *rule,
                              const struct model_config_entry *entry, ckpt_error *err)
{
    uint64_t n;
    if (entry->type != CONFIG_NUMBER || !str_uint(entry->text, &n) || !n || n > UINT32_MAX)
        return refuse_entry(mem, entry, "a whole number from 1 on", err);
    if (letter_known(&mem->dims, rule->letter) && letter_get(&mem->dims, rule->letter) != n)
        refuse(mem, "%s: %.*s is %llu, the tensors have %llu", mem->config.path, STR_ARG(entry->key),
               (unsigned long long)n, (unsigned long long)letter_get(&mem->dims, rule->letter));
    else
        letter_set(&mem->dims, rule->letter, n);
    return CKPT_OK;
}

/* apply_activation - sets the conditions of the activation function in the config. */
static void apply_activation(ckpt_mem *mem, const struct mem_family *family,
                             const struct model_config_entry *entry)
{
    for (const struct mem_config_rule *r = family->config; r->keys; r++)
        if (r->kind == CONFIG_ACTIVATION && word_is(r->keys, entry->key) && entry->type == CONFIG_TEXT &&
            str_is(entry->text, r->value)) {
            mem->conditions |= r->conditions;
            return;
        }
    refuse(mem, "%s is not estimated with %.*s %.*s", family->title, STR_ARG(entry->key),
           STR_ARG(entry->text));
}

/* apply_probability - sets condition ON if the probability ENTRY is above 0, else ON << 1, its opposite. */
static ckpt_status apply_probability(ckpt_mem *mem, const struct model_config_entry *entry, uint32_t on,
                                     ckpt_error *err)
{
    if (entry->type != CONFIG_NUMBER || entry->text.ptr[0] == '-')
        return refuse_entry(mem, entry, "a number from 0 to 1", err);
    mem->conditions &= ~(on | on << 1);
    mem->conditions |= config_is_zero(entry) ? on << 1 : on;
    return CKPT_OK;
}

/* apply_flag - sets the conditions of RULE if there is no file; in a file, they follow from the tensors. */
static ckpt_status apply_flag(ckpt_mem *mem, const struct mem_config_rule *rule,
                              const struct model_config_entry *entry, ckpt_error *err)
{
    if (!rule->value && entry->type != CONFIG_TRUE && entry->type != CONFIG_FALSE)
        return refuse_entry(mem, entry, "true or false", err);
    bool is_set = rule->value ? entry->type == CONFIG_TEXT && str_is(entry->text, rule->value)
                              : entry->type == CONFIG_TRUE;
    if (mem->config_only && is_set)
        mem->conditions |= rule->conditions;
    return CKPT_OK;
}

static ckpt_status apply_entry(ckpt_mem *mem, const struct mem_config_rule *rule,
                               const struct model_config_entry *entry, ckpt_error *err)
{
    uint64_t window;
    switch (rule->kind) {
    case CONFIG_SIZE: return apply_size(mem, rule, entry, err);
    case CONFIG_ATTENTION_DROPOUT: return apply_probability(mem, entry, ATTENTION_DROPOUT, err);
    case CONFIG_RESIDUAL_DROPOUT: return apply_probability(mem, entry, RESIDUAL_DROPOUT, err);
    case CONFIG_EMBEDDING_DROPOUT: return apply_probability(mem, entry, EMBEDDING_DROPOUT, err);
    case CONFIG_ACTIVATION: apply_activation(mem, mem->family, entry); break;
    case CONFIG_BIT: return apply_flag(mem, rule, entry, err);
    case CONFIG_NONE:
        if (entry->type != CONFIG_FALSE && !config_is_zero(entry))
            refuse(mem, "%s is not estimated with %.*s", mem->family->title, STR_ARG(entry->key));
        break;
    default: /* CONFIG_WINDOW, which mem.c compares with the length of the sequence */
        if (entry->type != CONFIG_NUMBER || !str_uint(entry->text, &window))
            return refuse_entry(mem, entry, "a whole number or null", err);
    }
    return CKPT_OK;
}

/* refuse_config - refuses a config of a kind of network that no table describes. */
static void refuse_config(ckpt_mem *mem)
{
    static const struct {
        const char *keys, *what;
    } refused[] = {
        {"num_local_experts|num_experts|n_routed_experts", "a mixture of experts"},
        {"is_encoder_decoder", "an encoder and a decoder"},
        {"quantization_config", "quantized weights"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const struct model_config_entry *e = config_get(&mem->config, refused[i].keys);
        if (e && e->type != CONFIG_FALSE && !config_is_zero(e) &&
            !(e->type == CONFIG_NUMBER && str_is(e->text, "1")))
            refuse(mem, "config.json describes %s (%.*s)", refused[i].what, STR_ARG(e->key));
    }
}

/* set_default_size - computes a size that is missing in the config from others: "4h". */
static void set_default_size(ckpt_mem *mem, const struct mem_config_rule *rule)
{
    uint64_t n;
    if (rule->value && !letter_known(&mem->dims, rule->letter) && mem->config_only &&
        product_value(str_c(rule->value), &mem->dims, &n))
        letter_set(&mem->dims, rule->letter, n);
}

/* apply_config - sets the sizes and conditions that the config gives, if there is one. */
static ckpt_status apply_config(ckpt_mem *mem, ckpt_error *err)
{
    const struct model_config_entry *type = config_get(&mem->config, "model_type");
    const struct model_config_entry *tie = config_get(&mem->config, TIE_KEY);
    refuse_config(mem);
    mem->has_model_type = type != NULL;
    if (tie && tie->type != CONFIG_TRUE && tie->type != CONFIG_FALSE)
        return refuse_entry(mem, tie, "true or false", err);
    if (type && !(type->type == CONFIG_TEXT && word_is(mem->family->model_types, type->text))) {
        refuse(mem, "config.json is of model_type %.*s, the names are those of %s", STR_ARG(type->text),
               mem->family->title);
        return CKPT_OK;
    }
    for (const struct mem_config_rule *r = mem->family->config; r && r->keys; r++) {
        const struct model_config_entry *e = config_get(&mem->config, r->keys);
        if (e)
            CKPT_TRY(apply_entry(mem, r, e, err));
        else if (r->kind == CONFIG_SIZE)
            set_default_size(mem, r);
    }
    return CKPT_OK;
}

static void set_family_conditions(ckpt_mem *mem, const struct mem_family *family)
{
    uint32_t on = ATTENTION_DROPOUT | RESIDUAL_DROPOUT | EMBEDDING_DROPOUT;
    mem->conditions = family->conditions;
    if (!(mem->conditions & (NO_RESIDUAL_DROPOUT | RESIDUAL_DROPOUT)))
        mem->conditions |= family->has_dropout ? on : on << 1; /* NO_…_DROPOUT is the next bit */
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
static void derive_head_widths(ckpt_mem *mem)
{
    struct letters *letters = &mem->dims;
    letter_set(letters, 'L', mem->nblocks);
    if (mem->config_only)
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
        refuse(mem, "%llu heads cannot share the keys and values of %llu", (unsigned long long)a,
               (unsigned long long)k);
    if (size_mul(a, d) != letter_get(letters, 'A') || size_mul(k, d) != letter_get(letters, 'K'))
        refuse(mem, "heads of width %llu do not make queries of width %llu and keys of width %llu",
               (unsigned long long)d, (unsigned long long)letter_get(letters, 'A'),
               (unsigned long long)letter_get(letters, 'K'));
}

/* ---- refusals, and the choice of the family */

/* has_adapted_weight - returns true if MEM has the weight that ADAPTER adapts, maybe in a base_layer. */
static bool has_adapted_weight(const ckpt_mem *mem, ckpt_str adapter)
{
    size_t n = str_find(adapter, STR_LIT("lora_"), 0); /* ADAPTER matches a glob with lora_ */
    ckpt_str module = str_of(adapter.ptr, n);
    for (size_t i = 0; i < mem->ntensors; i++) {
        ckpt_str name = mem->tensors[i].name;
        if (str_starts(name, module) &&
            (str_is(str_skip(name, n), "weight") || str_is(str_skip(name, n), "base_layer.weight")))
            return true;
    }
    return false;
}

/* refuse_names - refuses the names that refusals.def lists. Returns CKPT_EUNSUPPORTED for those whose
 * parameters cannot even be counted. */
static ckpt_status refuse_names(ckpt_mem *mem, ckpt_error *err)
{
    const struct mem_tensor *adapter = NULL;
    size_t adapters = 0;
    for (size_t i = 0; i < mem->ntensors; i++) {
        adapters += str_has(mem->tensors[i].name, STR_LIT("lora_"));
        for (const struct mem_refusal *r = mem_refusals; r->glob; r++) {
            if (!ckpt_glob_match(str_c(r->glob), mem->tensors[i].name))
                continue;
            if (r->refuses_all)
                return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "{%.*s}: %s",
                            STR_ARG(mem->tensors[i].name), r->why);
            if (strstr(r->glob, "lora") && !adapter)
                adapter = &mem->tensors[i];
            if (strcmp(r->why, ENCODER_DECODER) == 0 && !mem->other_title) {
                mem->other_title = r->why;
                mem->recognized_by = mem->tensors[i].name;
            }
            refuse(mem, "%.*s: %s", STR_ARG(mem->tensors[i].name), r->why);
        }
    }
    if (adapter && adapters * 2 > mem->ntensors && !has_adapted_weight(mem, adapter->name))
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "adapters alone: the model that they are added to is missing");
    return CKPT_OK;
}

static ckpt_status try_family(ckpt_mem *mem, const struct mem_family *family, ckpt_error *err)
{
    ckpt_str prefix = STR_LIT("");
    bool bare = false;
    const struct mem_tensor *recognized = find_recognizing_tensor(mem, family, &prefix, &bare);
    if (!recognized)
        return CKPT_OK;
    mem->family = family;
    mem->recognized_by = recognized->name;
    set_family_conditions(mem, family);
    if (!assign_rules(mem, family, prefix, bare) ||
        !(family->is_convnet ? check_layers(mem, family) : check_blocks(mem, family)) ||
        !match_shapes(mem, family))
        return CKPT_OK;
    letter_set(&mem->dims, 'L', mem->nblocks);
    CKPT_TRY(apply_config(mem, err));
    mem->refused_by_config = mem->refusal.len != 0;
    find_tie(mem);
    tie_second_names(mem);
    set_opposite_conditions(mem);
    if (!family->head_may_be_tied && (mem->conditions & TIED))
        refuse(mem, "%s without a weight of its head", family->title);
    if (!family->is_convnet)
        derive_head_widths(mem);
    return CKPT_OK;
}

ckpt_status mem_recognize(ckpt_mem *mem, ckpt_error *err)
{
    const struct mem_family *f;
    CKPT_TRY(refuse_names(mem, err));
    for (size_t i = 0; !mem->other_title && !mem->family && (f = mem_family_at(i)) != NULL; i++)
        CKPT_TRY(try_family(mem, f, err));
    if (!mem->family)
        refuse(mem, "the names are those of no network that this version recognizes");
    return CKPT_OK;
}

/* ---- a config alone */

/* read_dtype - sets *ITEM_BYTES to the bytes of an element of a parameter by the dtype in the config. */
static ckpt_status read_dtype(ckpt_mem *mem, uint32_t *item_bytes, ckpt_error *err)
{
    const struct model_config_entry *e = config_get(&mem->config, "torch_dtype|dtype");
    mem->fp32_by_default = !e;
    *item_bytes = e && e->type == CONFIG_TEXT && word_is("bfloat16|float16", e->text) ? 2 : 4;
    if (e && *item_bytes == 4 && !(e->type == CONFIG_TEXT && str_is(e->text, "float32")))
        return refuse_entry(mem, e, "float32, float16 or bfloat16", err);
    return CKPT_OK;
}

/* find_missing_key - returns the first key that SHAPE needs and that the config lacks. */
static const char *find_missing_key(const ckpt_mem *mem, const char *shape)
{
    for (const struct mem_config_rule *r = mem->family->config; r->keys; r++)
        if (r->kind == CONFIG_SIZE && strchr(shape, r->letter) && !letter_known(&mem->dims, r->letter))
            return r->keys;
    return "number of heads";
}

/* add_tensor - adds the tensor of block INDEX that rule RULE describes, with ITEM_BYTES bytes for each
 * element. */
static ckpt_status add_tensor(ckpt_mem *mem, const struct mem_tensor_rule *rule, uint32_t index,
                              uint32_t item_bytes, ckpt_error *err)
{
    ckpt_str text = str_c(rule->shape);
    struct mem_tensor *t = &mem->tensors[mem->ntensors];
    uint64_t *shape = arena_array(mem->a, 8 /* more than any rule has */, sizeof *shape);
    const char *number = strchr(rule->name, '#');
    char text_of_i[STR_NUMBER_MAX];
    *t = (struct mem_tensor){
        .rule = rule, .shape = shape, .item_bytes = item_bytes, .elements = 1, .block = index};
    t->name = number ? ARENA_CONCAT(mem->a, str_of(rule->name, (size_t)(number - rule->name)),
                                    format_number(index, text_of_i), str_c(number + 1))
                     : arena_str(mem->a, str_c(rule->name));
    CKPT_TRY_ALLOC(shape && t->name.ptr, err);
    while (text.len && t->ndim < 8) {
        if (!product_value(str_take_until(&text, ','), &mem->dims, &shape[t->ndim]))
            return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "has no %s, which %s takes",
                        find_missing_key(mem, rule->shape), rule->name);
        t->elements = size_mul(t->elements, shape[t->ndim++]);
    }
    mem->ntensors++;
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

ckpt_status mem_from_config(ckpt_mem *mem, ckpt_error *err)
{
    const struct model_config_entry *type = config_get(&mem->config, "model_type");
    const struct mem_family *f = type && type->type == CONFIG_TEXT ? family_of_type(type->text) : NULL;
    size_t rules = 0;
    mem->config_only = true;
    if (!type)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                    "has no model_type: not the config.json of a model of transformers");
    refuse_config(mem);
    if (mem->refusal.len)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%.*s", STR_ARG(mem->refusal));
    if (!f || f->takes_images)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                    "model_type {%.*s}: only {=bert, gpt2, llama, mistral, "
                    "qwen2 and qwen3} are described by a config alone",
                    STR_ARG(type->text));
    mem->family = f;
    mem->recognized_by = str_c("model_type");
    set_family_conditions(mem, f);
    CKPT_TRY(apply_config(mem, err));
    uint32_t item_bytes;
    CKPT_TRY(read_dtype(mem, &item_bytes, err));
    uint64_t blocks = letter_get(&mem->dims, 'L');
    if (!blocks)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "has no %s", find_missing_key(mem, "L"));
    if (blocks > BLOCKS_MAX)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{%llu} blocks, at most {=%u} are counted",
                    (unsigned long long)blocks, BLOCKS_MAX);
    mem->nblocks = (uint32_t)blocks;
    derive_head_widths(mem);
    if (mem->refusal.len)
        return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET, "%.*s", STR_ARG(mem->refusal));
    if (!config_ties_head(mem))
        mem->conditions |= UNTIED;
    set_opposite_conditions(mem);
    while (f->tensors[rules].name)
        rules++;
    mem->tensors = arena_array(mem->a, size_mul(rules, blocks), sizeof *mem->tensors);
    CKPT_TRY_ALLOC(mem->tensors, err);
    for (const struct mem_tensor_rule *r = f->tensors; r->name; r++)
        for (uint32_t i = 0; i < (is_in_blocks(r) ? mem->nblocks : 1); i++)
            if (!(r->conditions & MAY_BE_MISSING) && conditions_hold(r->conditions, mem->conditions))
                CKPT_TRY(add_tensor(mem, r, i, item_bytes, err));
    return CKPT_OK;
}
