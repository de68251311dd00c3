/* Prefixes of names are stripped and added, and names are replaced: in state dicts of the corpus, whose
 * models had many kinds of wrappers, and in value graphs of other forms. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "core/plan.h"
#include "op/prefix.h"
#include "pickled.h"
#include "small_files.h"

/* metadata_renames - returns the renamed module paths of _metadata as "from>to", separated by commas. */
static const char *metadata_renames(const ckpt_plan *p)
{
    static char text[8192];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < p->renames.n; i++) {
        const ckpt_rename *r = ckpt_plan_rename_at(p, i);
        if (r && r->metadata)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s>%s", len ? "," : "", r->from.ptr,
                                    r->to.ptr);
    }
    return text;
}

static bool has_notice(const ckpt_plan *p, const char *words)
{
    for (size_t i = 0; i < p->report.notices.n; i++)
        if (strstr(p->report.notices.text[i], words))
            return true;
    return false;
}

/* open_keys - opens a safetensors file of N tensors of one byte with the names KEYS. The arguments of
 * OPEN_KEYS are these names. */
static ckpt_file *open_keys(size_t n, const char *const *keys)
{
    buf b;
    buf_init(&b, 1 << 20);
    buf_put_cstr(&b, "{");
    for (size_t i = 0; i < n; i++)
        buf_printf(&b, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
                   keys[i], i, i + 1);
    buf_put_cstr(&b, "}");
    buf_byte(&b, 0);
    unsigned char zero[64] = {0};
    ckpt_file *f = open_safetensors((const char *)b.data, zero, n);
    buf_free(&b);
    return f;
}
#define OPEN_KEYS(...)                                                                                       \
    open_keys(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

/* ---- prefixes */

static ckpt_str strip_prefix(arena *a, const char *s, const char *prefix, bool anywhere)
{
    return prefix_strip(a, str_c(s), str_c(prefix), anywhere);
}

static void prefixes_are_found_at_boundaries(void)
{
    arena *a = arena_new(1 << 20);
    CU_ASSERT(str_is(strip_prefix(a, "module.fc.w", "module.", false), "fc.w"));
    CU_ASSERT(str_is(strip_prefix(a, "a.module.w", "module.", false), "a.module.w"));
    CU_ASSERT(str_is(strip_prefix(a, "a.module.w", "module.", true), "a.w"));
    CU_ASSERT(str_is(strip_prefix(a, "amodule.w", "module.", true), "amodule.w"));
    CU_ASSERT(str_is(strip_prefix(a, "module.module.w", "module.", true), "w"));
    CU_ASSERT(str_is(strip_prefix(a, "a.a.b.b.x", "a.b.", true), "x")); /* the inner a.b. is stripped first */
    CU_ASSERT(str_is(strip_prefix(a, "x_w.y.x_v", "x_", true), "w.y.v"));
    CU_ASSERT(str_is(strip_prefix(a, "a.module", "module.", true), "a.module"));
    CU_ASSERT(str_is(prefix_strip_certain(a, STR_LIT("f._orig_mod.0._fsdp_wrapped_module._fpw_module.w")),
                     "f.0.w"));
    CU_ASSERT(str_is(prefix_strip_certain(a, STR_LIT("my_orig_mod.w")), "my_orig_mod.w"));
    CU_ASSERT(str_is(prefix_strip_certain(a, STR_LIT("a._orig_mod")), "a._orig_mod"));
    for (size_t i = 0; i < WRAPPER_NAMES; i++) {
        ckpt_str inside = ARENA_CONCAT(a, STR_LIT("m."), wrapper_names[i].prefix, STR_LIT("w"));
        CU_ASSERT(contains_wrapper(inside, false) &&
                  contains_wrapper(inside, true) == wrapper_names[i].certain);
        CU_ASSERT(!contains_wrapper(ARENA_CONCAT(a, STR_LIT("m"), wrapper_names[i].prefix), false));
    }
    CU_ASSERT(contains_prefix(STR_LIT("a.module.w"), STR_LIT("module.")) &&
              !contains_prefix(STR_LIT("a.module"), STR_LIT("module.")));
    arena_free(a);
}

/* The name is 2^19 times "a." and then 2^19 times "b.". It contains "a.b." once, and again each time that
 * "a.b." is stripped, so that a search from its beginning each time would take minutes. */
static void stripping_takes_linear_time(void)
{
    size_t n = 1 << 20;
    char *s = malloc(2 * n);
    for (size_t i = 0; i < n; i++)
        memcpy(s + 2 * i, i < n / 2 ? "a." : "b.", 2);
    arena *a = arena_new(1 << 26);
    CU_ASSERT_EQUAL(prefix_strip(a, str_of(s, 2 * n), STR_LIT("a.b."), true).len, 0);
    arena_free(a);
    free(s);
}

/* ---- strip */

static void names_and_metadata_are_stripped(void)
{
    ckpt_plan *p = plan_of(open_corpus_file("torch/t26/dp_state_dict.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p),
                           "conv.weight,conv.bias,bn.weight,bn.bias,bn.running_mean,bn.running_var,"
                           "bn.num_batches_tracked,fc.weight,fc.bias");
    CU_ASSERT_STRING_EQUAL(metadata_renames(p), "module>,module.conv>conv,module.bn>bn,module.fc>fc");
    CU_ASSERT_EQUAL(p->report.notices.n, 0);
    /* in _metadata, the wrapped module's entry "module" replaces the wrapper's entry "" */
    size_t dropped = 0;
    for (size_t i = 0; i < p->edits.n; i++)
        for (uint32_t k = 0; k < p->edits.items[i].n; k++)
            dropped += p->edits.items[i].dropped[k];
    CU_ASSERT_EQUAL(dropped, 1);
    /* stripping again fails, or renames nothing and adds a notice */
    size_t before = ckpt_plan_rename_count(p);
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_ENOTFOUND);
    ckpt_plan_allow_none(p, true);
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT(ckpt_plan_rename_count(p) == before && has_notice(p, "no key begins with \"module.\""));
    close_plan(p);
}

static void strip_undoes_add(void)
{
    ckpt_plan *p = plan_of(open_corpus_file("torch/t26/state_dict.pt"));
    char before[2048];
    snprintf(before, sizeof before, "%s", names_of(p));
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "module.", NULL), CKPT_OK);
    CU_ASSERT(strncmp(names_of(p), "module.conv.weight,module.conv.bias,", 36) == 0);
    CU_ASSERT_STRING_EQUAL(metadata_renames(p), ">module,conv>module.conv,bn>module.bn,fc>module.fc");
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), before);
    close_plan(p);
}

static void keys_without_the_prefix_stay(void)
{
    ckpt_plan *p = plan_of(open_corpus_file("torch/t215/prefix_mixed.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "fc1.weight,fc1.bias,fc2.weight,fc2.bias,extra.weight");
    close_plan(p);
}

static void inner_prefixes_are_stripped_with_anywhere(void)
{
    ckpt_plan *p = plan_of(open_corpus_file("torch/t26/midkey_dataparallel.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_plan_rename_count(p), 0);
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", true, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p),
                           "features.0.weight,features.0.bias,classifier.weight,classifier.bias");
    CU_ASSERT(strstr(metadata_renames(p), "features.module>features") &&
              strstr(metadata_renames(p), "features.module.0>features.0"));
    close_plan(p);
}

static void collisions_are_refused(void)
{
    ckpt_error err;
    ckpt_plan *p = plan_of(open_corpus_file("torch/t215/prefix_collision.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, &err), CKPT_EEXIST);
    CU_ASSERT(strstr(err.what, "\"module.w\"") && strstr(err.what, "\"w\""));
    CU_ASSERT_STRING_EQUAL(names_of(p), "module.w,w");
    CU_ASSERT(ckpt_plan_rename_count(p) == 0 && p->edits.n == 0);
    close_plan(p);
    p = plan_of(OPEN_KEYS("a.x", "b.x"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^[ab]=>c", &err), CKPT_EEXIST);
    CU_ASSERT(strstr(err.what, "\"a.x\"") && strstr(err.what, "\"b.x\"") && strstr(err.what, "\"c.x\""));
    close_plan(p);
    p = plan_of(OPEN_KEYS("a.x", "a.y", "b.y"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^a=>b", &err), CKPT_EEXIST);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^a.x=>b.y", &err), CKPT_EEXIST);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "x$=>y", &err), CKPT_EEXIST);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^a=>b.a", &err), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "b.a.x,b.a.y,b.y");
    close_plan(p);
}

static void a_prefix_may_be_given_without_its_dot(void)
{
    ckpt_plan *p = plan_of(OPEN_KEYS("module.w", "module.b", "modules.w"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module", false, NULL), CKPT_OK);
    CU_ASSERT(strstr(ckpt_plan_notice_at(p, 0), "\"module.\"") != NULL);
    CU_ASSERT_STRING_EQUAL(names_of(p), "w,b,modules.w");
    close_plan(p);
}

static void meaningless_prefixes_are_refused(void)
{
    ckpt_plan *p = plan_of(OPEN_KEYS("module.w", "module.b"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.w", false, NULL), CKPT_EUSAGE); /* the name would be empty */
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "", false, NULL), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "\xff.", NULL), CKPT_EUSAGE);
    CU_ASSERT_STRING_EQUAL(names_of(p), "module.w,module.b");
    close_plan(p);
}

/* ---- strip --auto */

/* check_strip_auto - checks that `strip --auto` gives FILE the names WANT and adds the notice NOTICE (NULL:
 * no notice). A second call must rename nothing. */
static void check_strip_auto(const char *file, const char *want, const char *notice)
{
    ckpt_plan *p = plan_of(open_corpus_file(file));
    CU_ASSERT_EQUAL(ckpt_plan_strip_auto(p, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), want);
    CU_ASSERT(notice ? has_notice(p, notice) : p->report.notices.n == 0);
    size_t count = ckpt_plan_rename_count(p);
    CU_ASSERT_EQUAL(ckpt_plan_strip_auto(p, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_rename_count(p), count);
    close_plan(p);
}

static void strip_auto_removes_prefixes_of_known_wrappers(void)
{
    check_strip_auto("torch/t215/dp_twice.pt", "fc1.weight,fc1.bias,fc2.weight,fc2.bias", NULL);
    check_strip_auto("torch/t215/compiled_in_dp.pt", "fc1.weight,fc1.bias,fc2.weight,fc2.bias", NULL);
    check_strip_auto("torch/t215/dist/compiled_of_ddp.pt", "fc1.weight,fc1.bias,fc2.weight,fc2.bias", NULL);
    check_strip_auto("torch/t26/swa.pt",
                     "n_averaged,conv.weight,conv.bias,bn.weight,bn.bias,bn.running_mean,bn.running_var,"
                     "bn.num_batches_tracked,fc.weight,fc.bias",
                     "n_averaged");
    check_strip_auto("torch/t215/act_ckpt_named_parameters.pt",
                     "state_dict.fc1.weight,state_dict.fc1.bias,state_dict.fc2.weight,state_dict.fc2.bias,"
                     "named.fc1.weight,named.fc1.bias,named.fc2.weight,named.fc2.bias",
                     NULL);
}

static void strip_auto_keeps_ambiguous_prefixes(void)
{
    check_strip_auto("torch/t215/module_is_a_real_name.pt", "net.module.weight,net.module.bias",
                     "ckpt strip --anywhere module.");
    check_strip_auto("torch/t26/midkey_dataparallel.pt",
                     "features.module.0.weight,features.module.0.bias,classifier.weight,classifier.bias",
                     "2 keys still contain");
    check_strip_auto("torch/t215/prefix_mixed.pt",
                     "module.fc1.weight,module.fc1.bias,module.fc2.weight,module.fc2.bias,extra.weight",
                     "4 keys still contain");
}

static void strip_auto_renames_metadata_of_all_wrappers(void)
{
    ckpt_plan *p = plan_of(open_corpus_file("torch/t215/compiled_in_dp.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip_auto(p, NULL), CKPT_OK);
    CU_ASSERT(strstr(metadata_renames(p), "module._orig_mod>,") &&
              strstr(metadata_renames(p), "module._orig_mod.fc1>fc1"));
    close_plan(p);
}

/* ---- rename */

static void regex_replaces_every_match(void)
{
    ckpt_plan *p = plan_of(OPEN_KEYS("enc.layer.0.w", "enc.layer.10.w", "head.b"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "layer\\.([0-9]+)=>blk\\1", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "enc.blk0.w,enc.blk10.w,head.b");
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^enc\\.=>", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "blk0.w,blk10.w,head.b");
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "[a-z]=><\\0>", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "<b><l><k>0.<w>,<b><l><k>10.<w>,<h><e><a><d>.<b>");
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "zzz=>y", NULL), CKPT_ENOTFOUND);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "k=>k", NULL), CKPT_OK); /* matches, but changes nothing */
    ckpt_plan_allow_none(p, true);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "zzz=>y", NULL), CKPT_OK);
    CU_ASSERT(has_notice(p, "no key matches \"zzz\""));
    close_plan(p);
    p = plan_of(OPEN_KEYS("abc"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "x*=>-", NULL), CKPT_OK); /* replaces empty matches, too */
    CU_ASSERT_STRING_EQUAL(names_of(p), "-a-b-c-");
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^(-)a=>\\1\\\\", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "-\\-b-c-");
    close_plan(p);
}

/* What Python's expressions have and POSIX's lack; groups without a number do not shift the numbers. */
static void expressions_of_python_are_understood(void)
{
    static const struct {
        const char *rule, *name;
    } cases[] = {
        {"layer_\\d+=>L", "Enc.L.w (x]"},
        {"(?:Enc|Dec)\\.(\\w+)=>\\1", "layer_10.w (x]"},
        {"(E)(?:n)(?:c)(.)=>\\2\\1", ".Elayer_10.w (x]"},
        {"(?i)enc\\.LAYER=>b", "b_10.w (x]"},
        {"\\s\\S=>-", "Enc.layer_10.w-x]"},
        {"[\\d_]+=>#", "Enc.layer#.w (x]"},
        {"[^\\w.]=>", "Enc.layer_10.wx"},
        {"\\D+$=>", "Enc.layer_10"},
        {"[]x]+$=>", "Enc.layer_10.w ("},
        {"[[:digit:]]+=>7", "Enc.layer_7.w (x]"},
        {"\\(=>[", "Enc.layer_10.w [x]"},
        {"(?:(1)0|(2))=>\\1\\2", "Enc.layer_1.w (x]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ckpt_plan *p = plan_of(OPEN_KEYS("Enc.layer_10.w (x]"));
        CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, cases[i].rule, NULL), CKPT_OK);
        CU_ASSERT_STRING_EQUAL(names_of(p), cases[i].name);
        close_plan(p);
    }
}

static void malformed_rules_are_refused(void)
{
    static const char *const rules[] = {
        "no arrow",
        "=>x",                  /* an empty pattern */
        "(=>x",                 /* no ')' */
        "(?=w)=>x",             /* a group of Python that is not understood */
        "w(?i)=>x",             /* not at the start */
        "(?:w)=>\\1",           /* the group has no number */
        "a=>\\1",               /* the pattern has no group 1 */
        "a=>\\q",               /* an unknown escape */
        "a=>\\",                /* a backslash at the end */
        "a=>\xff",              /* not UTF-8 */
        "(a{1,200}){1,200}=>b", /* too many states */
        "(w)\\1=>x",            /* a reference in the expression */
        ".*=>",                 /* the new name is empty */
    };
    ckpt_plan *p = plan_of(OPEN_KEYS("wü"));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        ckpt_error err = {0};
        CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, rules[i], &err), CKPT_EUSAGE);
        CU_ASSERT(err.what[0] != '\0');
    }
    char *long_rule = malloc(3000); /* a pattern has at most 1000 bytes */
    memset(long_rule, 'a', 2999);
    memcpy(long_rule + 2990, "=>b", 4);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, long_rule, NULL), CKPT_EUSAGE);
    free(long_rule);
    CU_ASSERT_STRING_EQUAL(names_of(p), "wü");
    close_plan(p);
}

static void metadata_are_renamed_with_their_keys(void)
{
    ckpt_plan *p = plan_of(open_corpus_file("torch/t26/dp_state_dict.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^module\\.=>", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(metadata_renames(p), "module>,module.conv>conv,module.bn>bn,module.fc>fc");
    close_plan(p);
    p = plan_of(open_corpus_file("torch/t26/dp_state_dict.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "\\.bn\\.=>.norm.", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(metadata_renames(p), "module.bn>module.norm");
    close_plan(p);
    p = plan_of(open_corpus_file("torch/t26/dp_state_dict.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "weight$=>w", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(metadata_renames(p), "");
    close_plan(p);
}

#define PAIR(from, to) ((ckpt_pair){STR_LIT(from), STR_LIT(to)})

static void pairs_rename_by_key_or_full_name(void)
{
    ckpt_pair pairs[] = {PAIR("a", "b"), PAIR("b", "a")};
    ckpt_error err;
    ckpt_plan *p = plan_of(OPEN_KEYS("a", "b", "c"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 2, NULL), CKPT_OK); /* a swap is no collision */
    CU_ASSERT_STRING_EQUAL(names_of(p), "b,a,c");
    pairs[1].key = STR_LIT("nobody");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 2, &err), CKPT_ENOTFOUND);
    CU_ASSERT(strstr(err.what, "\"nobody\"") != NULL);
    CU_ASSERT_STRING_EQUAL(names_of(p), "b,a,c"); /* "a" was not renamed */
    pairs[1].key = pairs[0].key;
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 2, NULL), CKPT_EUSAGE);
    pairs[0] = PAIR("c", "a");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 1, NULL), CKPT_EEXIST);
    CU_ASSERT_STRING_EQUAL(names_of(p), "b,a,c");
    close_plan(p);
    p = plan_of(open_corpus_file("torch/t26/general_checkpoint.tar"));
    pairs[0] = PAIR("model_state_dict.fc.bias", "model_state_dict.head.bias");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 1, NULL), CKPT_OK);
    CU_ASSERT(strstr(names_of(p), "model_state_dict.fc.weight,model_state_dict.head.bias,optimizer") != NULL);
    pairs[0] = PAIR("model_state_dict.fc.weight", "elsewhere");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 1, NULL), CKPT_EUSAGE);
    close_plan(p);
}

static void pairs_are_copied_and_checked(void)
{
    char from[] = "a", to[] = "x", bad[] = "\xff";
    const ckpt_pair pair = {{from, 1}, {to, 1}}, not_utf8 = {{"c", 1}, {bad, 1}},
                    no_text = {{"c", 1}, {NULL, 1}};
    ckpt_plan *p = plan_of(OPEN_KEYS("a", "b", "c"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, &pair, 1, NULL), CKPT_OK);
    from[0] = to[0] = 'z';
    CU_ASSERT_STRING_EQUAL(names_of(p), "x,b,c");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, &not_utf8, 1, NULL), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, &no_text, 1, NULL), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, NULL, 0, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), "x,b,c");
    close_plan(p);
}

/* ---- value graphs */

static ckpt_value *new_text(arena *a, const char *s) { return value_str(a, str_c(s)); }
static ckpt_value *new_dict(arena *a) { return value_new(a, CKPT_V_DICT, 0); }
static ckpt_value *new_tensor(arena *a) { return value_new(a, CKPT_V_TENSOR, 0); }

static ckpt_file *open_graph(ckpt_value *(*make)(arena *a))
{
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL(file_new("made.pt", NULL, NULL, &f, NULL), CKPT_OK);
    f->root = make(f->a);
    return f;
}

/* new_named_optimizer - returns a dict: "model" and "again" are one state dict, "optim" is an optimizer whose
 * state and param_groups have names of parameters, not numbers, and "self" is the dict itself. */
static ckpt_value *new_named_optimizer(arena *a)
{
    ckpt_value *root = new_dict(a), *optimizer = new_dict(a), *state = new_dict(a), *state_of_w = new_dict(a),
               *groups = value_new(a, CKPT_V_LIST, 0);
    ckpt_value *group = new_dict(a), *params = value_new(a, CKPT_V_LIST, 0), *model = new_dict(a);
    value_put(a, model, new_text(a, "module.w"), new_tensor(a));
    value_put(a, root, new_text(a, "model"), model);
    value_put(a, root, new_text(a, "again"), model);
    value_put(a, state_of_w, new_text(a, "exp_avg"), new_tensor(a));
    value_put(a, state, new_text(a, "module.w"), state_of_w);
    value_append(a, params, new_text(a, "module.w"));
    value_put(a, group, new_text(a, "params"), params);
    value_append(a, groups, group);
    value_put(a, optimizer, new_text(a, "state"), state);
    value_put(a, optimizer, new_text(a, "param_groups"), groups);
    value_put(a, root, new_text(a, "optim"), optimizer);
    value_put(a, root, new_text(a, "self"), root);
    return root;
}

static void names_in_optimizers_are_renamed(void)
{
    ckpt_file *f = open_graph(new_named_optimizer);
    ckpt_plan *p = plan_of(f);
    CU_ASSERT_EQUAL(ckpt_plan_strip_auto(p, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(p->edits.n, 3); /* one each for the shared state dict, state and params */
    for (size_t i = 0; i < p->edits.n; i++)
        CU_ASSERT(p->edits.items[i].n == 1 && str_is(p->edits.items[i].names[0], "w"));
    /* only the name in params counts: the keys would count by their rows, and F has none */
    CU_ASSERT_FATAL(ckpt_plan_rename_count(p) == 1);
    CU_ASSERT(ckpt_plan_rename_at(p, 0)->value != 0);
    CU_ASSERT_STRING_EQUAL(ckpt_plan_rename_at(p, 0)->from.ptr, "optim.module.w");
    CU_ASSERT_STRING_EQUAL(ckpt_plan_rename_at(p, 0)->to.ptr, "optim.w");
    ckpt_plan_free(p);
    file_free(f);
}

/* new_python2_state_dict - returns a state dict as Python 2 writes it: its keys are str, and its _metadata is
 * an OrderedDict constructed from a list of pairs. */
static ckpt_value *new_python2_state_dict(arena *a)
{
    ckpt_value *root = value_ordered_dict(a), *key = new_text(a, "module.w"),
               *list = value_new(a, CKPT_V_LIST, 0);
    ckpt_value *klass = value_global(a, STR_LIT("collections"), STR_LIT("OrderedDict"), 0),
               *state = new_dict(a);
    key->type = CKPT_V_STR8;
    for (int i = 0; i < 2; i++) {
        ckpt_value *pair = value_new(a, CKPT_V_LIST, 0);
        value_append(a, pair, new_text(a, i ? "module" : ""));
        value_append(a, pair, new_dict(a));
        value_append(a, list, pair);
    }
    value_put(a, root, key, new_tensor(a));
    value_put(a, state, new_text(a, "_metadata"),
              value_call(a, CALL_REDUCE, klass, value_tuple(a, 1, &list), 0));
    value_add_state(a, root, state);
    return root;
}

static void python2_metadata_are_renamed(void)
{
    ckpt_file *f = open_graph(new_python2_state_dict);
    ckpt_plan *p = plan_of(f);
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(metadata_renames(p), "module>");
    size_t dropped_pairs = 0; /* pairs whose key and value are dropped */
    for (size_t i = 0; i < p->edits.n; i++)
        dropped_pairs += p->edits.items[i].n == 2 && p->edits.items[i].dropped[0] &&
                         value_item(p->edits.items[i].node, 0)->type == CKPT_V_LIST;
    CU_ASSERT_EQUAL(dropped_pairs, 1);
    CU_ASSERT(p->edits.n == 3 && str_is(p->edits.items[0].names[0], "w"));
    ckpt_plan_free(p);
    file_free(f);
}

/* new_unusual_keys - returns a dict with the keys "module.w", 7, "w" as a str of Python 2, "twice" and
 * "twice". */
static ckpt_value *new_unusual_keys(arena *a)
{
    ckpt_value *root = new_dict(a), *python2_key = new_text(a, "w");
    python2_key->type = CKPT_V_STR8;
    value_put(a, root, new_text(a, "module.w"), new_tensor(a));
    value_put(a, root, value_int(a, 7), new_tensor(a));
    value_put(a, root, python2_key, new_tensor(a));
    value_put(a, root, new_text(a, "twice"), new_tensor(a));
    value_put(a, root, new_text(a, "twice"), new_tensor(a));
    return root;
}

static void unusual_keys_are_neither_lost_nor_joined(void)
{
    ckpt_file *f = open_graph(new_unusual_keys);
    ckpt_plan *p = plan_of(f);
    /* "module.w" would become "w", which is a key already */
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_EEXIST);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "x.", NULL), CKPT_OK); /* two equal keys of the file are no collision */
    size_t renamed = 0;
    for (uint32_t i = 0; i < p->edits.items[0].n; i++)
        renamed += p->edits.items[0].names[i].ptr != NULL;
    CU_ASSERT(p->edits.n == 1 && renamed == 4);
    ckpt_plan_free(p);
    file_free(f);
}

/* ---- state dicts and other values */

#define FLOAT_SCALAR TENSOR_V2(FLOAT_STORAGE, 0, "()", "()")
#define OPTIMIZER                                                                                            \
    "{'state':{0:{'step':" FLOAT_SCALAR ",'exp_avg':" FLOAT_TENSOR                                           \
    "}},'param_groups':[{'lr':1.5,'params':[0]}]}"

/* mappings_text - returns the mappings of P, each as "model: 1 of 2, 3 paths, 4 keys": in the mapping called
 * model, 1 of 2 tensors was renamed, as well as 3 module paths of _metadata and 4 keys of other values. */
static const char *mappings_text(const ckpt_plan *p)
{
    static char line[1024];
    size_t len = 0;
    line[0] = '\0';
    for (size_t i = 0; i < ckpt_plan_mapping_count(p); i++) {
        const ckpt_mapping *m = ckpt_plan_mapping_at(p, i);
        len += (size_t)snprintf(line + len, sizeof line - len, "%s%s: %d of %d, %d paths, %d keys",
                                i ? "; " : "", m->name.ptr, (int)m->renamed, (int)m->tensors,
                                (int)m->metadata, (int)m->values);
    }
    return line;
}

/* check_add_prefix - adds the prefix "x." below ROOT (NULL: in the whole file) in a file with the pickle
 * CONTENT. Checks that the names are then WANT, and that mappings_text() returns REPORT. */
static void check_add_prefix(const char *content, const char *root, const char *want, const char *report)
{
    struct test_file made = make_torch_zip(content);
    CU_ASSERT_PTR_NOT_NULL_FATAL(made.file);
    ckpt_plan *p = plan_of(made.file);
    uint64_t renamed_tensors = 0;
    if (root)
        CU_ASSERT_EQUAL(ckpt_plan_root(p, root, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "x.", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names_of(p), want);
    CU_ASSERT_STRING_EQUAL(mappings_text(p), report);
    for (size_t i = 0; i < ckpt_plan_rename_count(p); i++)
        renamed_tensors += !ckpt_plan_rename_at(p, i)->metadata && !ckpt_plan_rename_at(p, i)->value;
    CU_ASSERT(renamed_tensors <= ckpt_plan_tensor_count(p));
    ckpt_plan_free(p);
    close_file(&made);
}

static void only_state_dicts_are_renamed(void)
{
    check_add_prefix("{'a.w':" FLOAT_TENSOR ",'b.w':" FLOAT_TENSOR ",'_extra_state':{'s':" FLOAT_TENSOR
                     ",'t':" FLOAT_TENSOR "}}",
                     NULL, "x.a.w,x.b.w,x._extra_state.s,x._extra_state.t", ": 2 of 2, 0 paths, 0 keys");
    check_add_prefix("{'fc.weight':" FLOAT_TENSOR ",'optimizer':" OPTIMIZER
                     ",'epoch':3,'lr':1.5,'args':None}",
                     NULL, "x.fc.weight,optimizer.state.0.step,optimizer.state.0.exp_avg",
                     ": 1 of 1, 0 paths, 0 keys; optimizer: 0 of 2, 0 paths, 0 keys");
    check_add_prefix("{'state_dict':{'fc.weight':" FLOAT_TENSOR
                     ",'fc._extra_state':None},'metrics':{'loss':" FLOAT_SCALAR ",'acc':" FLOAT_SCALAR "},"
                     "'scaler':{'scale':" FLOAT_TENSOR ",'growth':" FLOAT_TENSOR
                     "},'hyper_parameters':{'mean':" FLOAT_TENSOR "}}",
                     NULL,
                     "state_dict.x.fc.weight,metrics.loss,metrics.acc,scaler.scale,scaler.growth,"
                     "hyper_parameters.mean",
                     "state_dict: 1 of 1, 0 paths, 1 keys");
    check_add_prefix("{'model':{'w':" FLOAT_TENSOR "},'ema':{'module':{'w':" FLOAT_TENSOR
                     "}},'metrics':{'w':" FLOAT_TENSOR "}}",
                     NULL, "model.x.w,ema.module.x.w,metrics.w",
                     "model: 1 of 1, 0 paths, 0 keys; ema.module: 1 of 1, 0 paths, 0 keys");
    check_add_prefix("{'netG':{'a.w':" FLOAT_TENSOR "},'netD':{'w':" FLOAT_TENSOR "},'opts':[" OPTIMIZER "]}",
                     NULL, "netG.x.a.w,netD.x.w,opts.0.state.0.step,opts.0.state.0.exp_avg",
                     "netG: 1 of 1, 0 paths, 0 keys; netD: 1 of 1, 0 paths, 0 keys; "
                     "opts.0: 0 of 2, 0 paths, 0 keys");
}

static void the_root_is_always_renamed(void)
{
    static const char content[] = "{'model':{'w':" FLOAT_TENSOR "},'metrics':{'loss':" FLOAT_SCALAR
                                  ",'acc':" FLOAT_SCALAR "}}";
    check_add_prefix(content, "metrics", "x.loss,x.acc", ": 2 of 2, 0 paths, 0 keys");
    check_add_prefix(content, "model", "x.w", ": 1 of 1, 0 paths, 0 keys");
}

/* check_pairs - renames the N PAIRS below ROOT (NULL: in the whole file) in a file with the pickle CONTENT.
 * Checks that the names are then WANT, or that the error message contains WANT. */
static void check_pairs(const char *content, const char *root, const ckpt_pair *pairs, size_t n,
                        const char *want)
{
    ckpt_error err;
    struct test_file made = make_torch_zip(content);
    CU_ASSERT_PTR_NOT_NULL_FATAL(made.file);
    ckpt_plan *p = plan_of(made.file);
    if (root)
        CU_ASSERT_EQUAL(ckpt_plan_root(p, root, NULL), CKPT_OK);
    ckpt_status st = ckpt_plan_rename_pairs(p, pairs, n, &err);
    if (st == CKPT_OK)
        CU_ASSERT_STRING_EQUAL(names_of(p), want);
    if (st != CKPT_OK && !strstr(err.what, want))
        CU_ASSERT_STRING_EQUAL(err.what, want);
    ckpt_plan_free(p);
    close_file(&made);
}
#define CHECK_PAIRS(content, root, want, ...)                                                                \
    check_pairs(content, root, (ckpt_pair[]){__VA_ARGS__},                                                   \
                sizeof((ckpt_pair[]){__VA_ARGS__}) / sizeof(ckpt_pair), want)

/* In the pickles, #1={…} is a dict, and #1 the same dict again. */
static void pairs_may_use_any_name_of_a_shared_mapping(void)
{
    static const char shared[] = "{'a':#1={'x':" FLOAT_TENSOR ",'y':" FLOAT_TENSOR "},'b':#1}",
                      outer[] = "{'a':#1={'state_dict':{'x':" FLOAT_TENSOR "}},'b':#1,'c':{'d.e':#1}}",
                      dotted_key[] = "{'model':#1={'x':" FLOAT_TENSOR ",'b.x':" FLOAT_TENSOR "},'b':#1}";
    CHECK_PAIRS(shared, NULL, "a.z,a.y,b.z,b.y", PAIR("a.x", "a.z"));
    CHECK_PAIRS(shared, NULL, "a.z,a.y,b.z,b.y", PAIR("b.x", "b.z"));
    CHECK_PAIRS(shared, NULL, "a.z,a.y,b.z,b.y", PAIR("a.x", "a.z"), PAIR("b.x", "b.z"));
    CHECK_PAIRS(shared, NULL, "a.y,a.x,b.y,b.x", PAIR("b.y", "b.x"), PAIR("a.x", "a.y"));
    CHECK_PAIRS(shared, NULL, "are one key of a shared mapping", PAIR("a.x", "a.z"), PAIR("b.x", "b.w"));
    CHECK_PAIRS(shared, NULL, "\"b.x\" would leave its mapping: the new name must begin with \"b.\"",
                PAIR("b.x", "a.z"));
    CHECK_PAIRS(shared, NULL, "no key is called \"b.z\"", PAIR("b.z", "b.w"));
    CHECK_PAIRS(outer, NULL, "a.state_dict.z,b.state_dict.z,c.d.e.state_dict.z",
                PAIR("c.d.e.state_dict.x", "c.d.e.state_dict.z"));
    CHECK_PAIRS("{'top':{'a':#1={'x':" FLOAT_TENSOR "},'b':#1}}", "top", "a.z,b.z", PAIR("b.x", "b.z"));
    CHECK_PAIRS(dotted_key, NULL, "model.x,model.z,b.x,b.z", PAIR("b.x", "z"));
}

void suite_rename(void)
{
    UNIT(prefixes_are_found_at_boundaries);
    UNIT(stripping_takes_linear_time);
    UNIT(names_and_metadata_are_stripped);
    UNIT(strip_undoes_add);
    UNIT(keys_without_the_prefix_stay);
    UNIT(inner_prefixes_are_stripped_with_anywhere);
    UNIT(collisions_are_refused);
    UNIT(a_prefix_may_be_given_without_its_dot);
    UNIT(meaningless_prefixes_are_refused);
    UNIT(strip_auto_removes_prefixes_of_known_wrappers);
    UNIT(strip_auto_keeps_ambiguous_prefixes);
    UNIT(strip_auto_renames_metadata_of_all_wrappers);
    UNIT(regex_replaces_every_match);
    UNIT(expressions_of_python_are_understood);
    UNIT(malformed_rules_are_refused);
    UNIT(metadata_are_renamed_with_their_keys);
    UNIT(pairs_rename_by_key_or_full_name);
    UNIT(pairs_are_copied_and_checked);
    UNIT(pairs_may_use_any_name_of_a_shared_mapping);
    UNIT(names_in_optimizers_are_renamed);
    UNIT(python2_metadata_are_renamed);
    UNIT(unusual_keys_are_neither_lost_nor_joined);
    UNIT(only_state_dicts_are_renamed);
    UNIT(the_root_is_always_renamed);
}
