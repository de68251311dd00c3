/* Prefix work and renames: on real state dicts of many wrappers, and on graphs
 * made by hand for what the corpus lacks. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "core/plan.h"
#include "flat.h"
#include "op/prefix.h"
#include "op/rename.h"
#include "pickled.h"

static ckpt_plan *plan_of(ckpt_file *f)
{
    ckpt_plan *p = NULL;
    CU_ASSERT_EQUAL(ckpt_plan_new(f, &p, NULL), CKPT_OK);
    return p;
}

/* The names a plan would write, parts left out, with commas. */
static const char *names(ckpt_plan *p)
{
    static char text[8192];
    size_t len = 0;
    CU_ASSERT_EQUAL(plan_update_entries(p, NULL), CKPT_OK);
    text[0] = '\0';
    for (size_t i = 0; i < p->nentries; i++)
        if (p->file->table.rows[p->entries[i].row].t.part_of == CKPT_NO_TENSOR)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", len ? "," : "",
                                    (int)p->entries[i].name.len, p->entries[i].name.ptr);
    return text;
}

/* The renames of _metadata as "from>to", with commas. */
static const char *moves(const ckpt_plan *p)
{
    static char text[8192];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < p->nrenames; i++) {
        const ckpt_rename *r = ckpt_plan_rename_at(p, i);
        if (r && r->metadata)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s>%s", len ? "," : "", r->from.ptr,
                                    r->to.ptr);
    }
    return text;
}

static int count_notices_with(const ckpt_plan *p, const char *part)
{
    for (size_t i = 0; i < p->notices.n; i++)
        if (strstr(p->notices.text[i], part))
            return 1;
    return 0;
}

static void done(ckpt_plan *p)
{
    ckpt_plan_free(p);
    flat_close();
}

/* Names of a flat file whose keys are N one-byte tensors. */
static ckpt_file *keys(size_t n, const char *const *key)
{
    buf b;
    buf_init(&b, 1 << 20);
    buf_text(&b, "{");
    for (size_t i = 0; i < n; i++)
        buf_printf(&b, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
                   key[i], i, i + 1);
    buf_text(&b, "}");
    buf_byte(&b, 0);
    unsigned char zero[64] = {0};
    ckpt_file *f = flat_open((const char *)b.data, zero, n);
    buf_free(&b);
    return f;
}
#define KEYS(...) keys(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

/* ---- the text of it */

static ckpt_str strip1(arena *a, const char *s, const char *prefix, bool anywhere)
{
    return prefix_strip(a, str_c(s), str_c(prefix), anywhere);
}

static void prefixes_are_found_at_boundaries(void)
{
    arena *a = arena_new(1 << 20);
    CU_ASSERT(str_is(strip1(a, "module.fc.w", "module.", false), "fc.w"));
    CU_ASSERT(str_is(strip1(a, "a.module.w", "module.", false), "a.module.w"));
    CU_ASSERT(str_is(strip1(a, "a.module.w", "module.", true), "a.w"));
    CU_ASSERT(str_is(strip1(a, "amodule.w", "module.", true), "amodule.w"));
    CU_ASSERT(str_is(strip1(a, "module.module.w", "module.", true), "w"));
    CU_ASSERT(str_is(strip1(a, "a.a.b.b.x", "a.b.", true), "x")); /* closes up, goes too */
    CU_ASSERT(str_is(strip1(a, "x_w.y.x_v", "x_", true), "w.y.v"));
    CU_ASSERT(str_is(strip1(a, "a.module", "module.", true), "a.module"));
    CU_ASSERT(str_is(prefix_strip_certain(a, STR_LIT("f._orig_mod.0._fsdp_wrapped_module._fpw_module.w")),
                     "f.0.w"));
    CU_ASSERT(str_is(prefix_strip_certain(a, STR_LIT("my_orig_mod.w")), "my_orig_mod.w"));
    CU_ASSERT(str_is(prefix_strip_certain(a, STR_LIT("a._orig_mod")), "a._orig_mod"));
    CU_ASSERT(prefix_inside(STR_LIT("a.module.w"), STR_LIT("module.")) &&
              !prefix_inside(STR_LIT("a.module"), STR_LIT("module.")));
    arena_free(a);
}

/* A long run of one component costs time in proportion. */
static void long_names_are_no_trouble(void)
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

static void strip_like_torch(void)
{
    ckpt_plan *p = plan_of(corpus_open("torch/t26/dp_state_dict.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), "conv.weight,conv.bias,bn.weight,bn.bias,bn.running_mean,bn.running_var,"
                                     "bn.num_batches_tracked,fc.weight,fc.bias");
    CU_ASSERT_STRING_EQUAL(moves(p), "module>,module.conv>conv,module.bn>bn,module.fc>fc");
    CU_ASSERT_EQUAL(p->notices.n, 0);
    /* "" of the wrapper gives way to the wrapped module's entry */
    size_t dropped = 0;
    for (size_t i = 0; i < p->nedits; i++)
        for (uint32_t k = 0; k < p->edits[i].n; k++)
            dropped += p->edits[i].dropped[k];
    CU_ASSERT_EQUAL(dropped, 1);
    /* again: nothing to do, and it says so */
    size_t before = ckpt_plan_rename_count(p);
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT(ckpt_plan_rename_count(p) == before && count_notices_with(p, "no key begins with \"module.\""));
    done(p);
}

static void strip_and_add_undo_each_other(void)
{
    ckpt_plan *p = plan_of(corpus_open("torch/t26/state_dict.pt"));
    char before[2048];
    snprintf(before, sizeof before, "%s", names(p));
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "module.", NULL), CKPT_OK);
    CU_ASSERT(strncmp(names(p), "module.conv.weight,module.conv.bias,", 36) == 0);
    CU_ASSERT_STRING_EQUAL(moves(p), ">module,conv>module.conv,bn>module.bn,fc>module.fc");
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), before);
    done(p);
}

static void keys_without_it_stay(void)
{
    ckpt_plan *p = plan_of(corpus_open("torch/t215/prefix_mixed.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), "fc1.weight,fc1.bias,fc2.weight,fc2.bias,extra.weight");
    done(p);
}

static void anywhere_reaches_inner_wrappers(void)
{
    ckpt_plan *p = plan_of(corpus_open("torch/t26/midkey_dataparallel.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_rename_count(p), 0);
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", true, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), "features.0.weight,features.0.bias,classifier.weight,classifier.bias");
    CU_ASSERT(strstr(moves(p), "features.module>features") &&
              strstr(moves(p), "features.module.0>features.0"));
    done(p);
}

static void collisions_change_nothing(void)
{
    ckpt_error err;
    ckpt_plan *p = plan_of(corpus_open("torch/t215/prefix_collision.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, &err), CKPT_EEXIST);
    CU_ASSERT(strstr(err.what, "\"module.w\"") && strstr(err.what, "\"w\""));
    CU_ASSERT_STRING_EQUAL(names(p), "module.w,w");
    CU_ASSERT(ckpt_plan_rename_count(p) == 0 && p->nedits == 0);
    done(p);
    p = plan_of(KEYS("a.x", "b.x"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^[ab]=>c", &err), CKPT_EEXIST);
    CU_ASSERT(strstr(err.what, "\"a.x\"") && strstr(err.what, "\"b.x\"") && strstr(err.what, "\"c.x\""));
    done(p);
}

static void a_prefix_without_its_dot_is_a_component(void)
{
    ckpt_plan *p = plan_of(KEYS("module.w", "module.b", "modules.w"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module", false, NULL), CKPT_OK);
    CU_ASSERT(strstr(ckpt_plan_notice_at(p, 0), "\"module.\"") != NULL);
    CU_ASSERT_STRING_EQUAL(names(p), "w,b,modules.w");
    done(p);
}

static void meaningless_prefixes_are_refused(void)
{
    ckpt_plan *p = plan_of(KEYS("module.w", "module.b"));
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.w", false, NULL), CKPT_EUSAGE); /* no name left */
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "", false, NULL), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "\xff.", NULL), CKPT_EUSAGE);
    CU_ASSERT_STRING_EQUAL(names(p), "module.w,module.b");
    done(p);
}

/* ---- strip --auto */

static void automatically(const char *file, const char *want, const char *notice)
{
    ckpt_plan *p = plan_of(corpus_open(file));
    CU_ASSERT_EQUAL(ckpt_plan_strip_auto(p, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), want);
    CU_ASSERT(notice ? count_notices_with(p, notice) : p->notices.n == 0);
    size_t count = ckpt_plan_rename_count(p);
    CU_ASSERT_EQUAL(ckpt_plan_strip_auto(p, NULL), CKPT_OK); /* idempotent */
    CU_ASSERT_EQUAL(ckpt_plan_rename_count(p), count);
    done(p);
}

static void auto_takes_what_is_certain(void)
{
    automatically("torch/t215/dp_twice.pt", "fc1.weight,fc1.bias,fc2.weight,fc2.bias", NULL);
    automatically("torch/t215/compiled_in_dp.pt", "fc1.weight,fc1.bias,fc2.weight,fc2.bias", NULL);
    automatically("torch/t215/dist/compiled_of_ddp.pt", "fc1.weight,fc1.bias,fc2.weight,fc2.bias", NULL);
    automatically("torch/t26/swa.pt",
                  "n_averaged,conv.weight,conv.bias,bn.weight,bn.bias,bn.running_mean,bn.running_var,"
                  "bn.num_batches_tracked,fc.weight,fc.bias",
                  "n_averaged");
    automatically("torch/t215/act_ckpt_named_parameters.pt",
                  "state_dict.fc1.weight,state_dict.fc1.bias,state_dict.fc2.weight,state_dict.fc2.bias,"
                  "named.fc1.weight,named.fc1.bias,named.fc2.weight,named.fc2.bias",
                  NULL);
}

static void auto_leaves_what_is_not(void)
{
    automatically("torch/t215/module_is_a_real_name.pt", "net.module.weight,net.module.bias",
                  "ckpt strip --anywhere module.");
    automatically("torch/t26/midkey_dataparallel.pt",
                  "features.module.0.weight,features.module.0.bias,classifier.weight,classifier.bias",
                  "2 keys still contain");
    automatically("torch/t215/prefix_mixed.pt",
                  "module.fc1.weight,module.fc1.bias,module.fc2.weight,module.fc2.bias,extra.weight",
                  "4 keys still contain");
}

static void auto_fixes_metadata_of_all_wrappers(void)
{
    ckpt_plan *p = plan_of(corpus_open("torch/t215/compiled_in_dp.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_strip_auto(p, NULL), CKPT_OK);
    CU_ASSERT(strstr(moves(p), "module._orig_mod>,") && strstr(moves(p), "module._orig_mod.fc1>fc1"));
    done(p);
}

/* ---- rename */

static void regex_replaces_every_match(void)
{
    ckpt_plan *p = plan_of(KEYS("enc.layer.0.w", "enc.layer.10.w", "head.b"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "layer\\.([0-9]+)=>blk\\1", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), "enc.blk0.w,enc.blk10.w,head.b");
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^enc\\.=>", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), "blk0.w,blk10.w,head.b");
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "[a-z]=><\\0>", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), "<b><l><k>0.<w>,<b><l><k>10.<w>,<h><e><a><d>.<b>");
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "zzz=>y", NULL), CKPT_OK);
    CU_ASSERT(count_notices_with(p, "no key matches \"zzz\""));
    done(p);
    p = plan_of(KEYS("abc"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "x*=>-", NULL), CKPT_OK); /* empty matches move on */
    CU_ASSERT_STRING_EQUAL(names(p), "-a-b-c-");
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^(-)a=>\\1\\\\", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), "-\\-b-c-");
    done(p);
}

static void bad_rules_are_refused(void)
{
    static const char *const rules[] = {"no arrow", "=>x",   "(=>x",    "a=>\\1",
                                        "a=>\\q",   "a=>\\", "a=>\xff", "(a{1,200}){1,200}=>b",
                                        "w.=>w",    ".*=>"};
    ckpt_plan *p = plan_of(KEYS("wü"));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        ckpt_error err = {0};
        CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, rules[i], &err), CKPT_EUSAGE);
        CU_ASSERT(err.what[0] != '\0');
    }
    char *big = malloc(3000);
    memset(big, 'a', 2999);
    memcpy(big + 2990, "=>b", 4);
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, big, NULL), CKPT_EUSAGE);
    free(big);
    CU_ASSERT_STRING_EQUAL(names(p), "wü");
    done(p);
}

static void metadata_follows_its_keys(void)
{
    ckpt_plan *p = plan_of(corpus_open("torch/t26/dp_state_dict.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "^module\\.=>", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(moves(p), "module>,module.conv>conv,module.bn>bn,module.fc>fc");
    done(p);
    p = plan_of(corpus_open("torch/t26/dp_state_dict.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "\\.bn\\.=>.norm.", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(moves(p), "module.bn>module.norm");
    done(p);
    p = plan_of(corpus_open("torch/t26/dp_state_dict.pt"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_regex(p, "weight$=>w", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(moves(p), "");
    done(p);
}

#define PAIR(from, to) ((ckpt_pair){STR_LIT(from), STR_LIT(to)})

static void pairs_rename_by_key_or_full_name(void)
{
    ckpt_pair pairs[] = {PAIR("a", "b"), PAIR("b", "a")};
    ckpt_error err;
    ckpt_plan *p = plan_of(KEYS("a", "b", "c"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 2, NULL), CKPT_OK); /* a swap is no collision */
    CU_ASSERT_STRING_EQUAL(names(p), "b,a,c");
    pairs[1].key = STR_LIT("nobody");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 2, &err), CKPT_ENOTFOUND);
    CU_ASSERT(strstr(err.what, "\"nobody\"") != NULL);
    CU_ASSERT_STRING_EQUAL(names(p), "b,a,c"); /* and "a" was not renamed either */
    pairs[1].key = pairs[0].key;
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 2, NULL), CKPT_EUSAGE);
    pairs[0] = PAIR("c", "a");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 1, NULL), CKPT_EEXIST);
    CU_ASSERT_STRING_EQUAL(names(p), "b,a,c");
    done(p);
    p = plan_of(corpus_open("torch/t26/general_checkpoint.tar"));
    pairs[0] = PAIR("model_state_dict.fc.bias", "model_state_dict.head.bias");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 1, NULL), CKPT_OK);
    CU_ASSERT(strstr(names(p), "model_state_dict.fc.weight,model_state_dict.head.bias,optimizer") != NULL);
    pairs[0] = PAIR("model_state_dict.fc.weight", "elsewhere");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, pairs, 1, NULL), CKPT_EUSAGE);
    done(p);
}

static void pairs_are_copied_and_checked(void)
{
    char from[] = "a", to[] = "x", bad[] = "\xff";
    const ckpt_pair pair = {{from, 1}, {to, 1}}, not_utf8 = {{"c", 1}, {bad, 1}},
                    no_text = {{"c", 1}, {NULL, 1}};
    ckpt_plan *p = plan_of(KEYS("a", "b", "c"));
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, &pair, 1, NULL), CKPT_OK);
    from[0] = to[0] = 'z';
    CU_ASSERT_STRING_EQUAL(names(p), "x,b,c");
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, &not_utf8, 1, NULL), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, &no_text, 1, NULL), CKPT_EUSAGE);
    CU_ASSERT_EQUAL(ckpt_plan_rename_pairs(p, NULL, 0, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), "x,b,c");
    done(p);
}

/* ---- graphs made by hand */

static ckpt_value *text(arena *a, const char *s) { return value_str(a, str_c(s)); }
static ckpt_value *dict(arena *a) { return value_new(a, CKPT_V_DICT, 0); }
static ckpt_value *tensor(arena *a) { return value_new(a, CKPT_V_TENSOR, 0); }

static ckpt_file *by_hand(ckpt_value *(*make)(arena *a))
{
    ckpt_file *f = NULL;
    CU_ASSERT_EQUAL(file_new("hand.pt", NULL, NULL, &f, NULL), CKPT_OK);
    f->root = make(f->a);
    return f;
}

/* An optimizer whose state and groups go by name, beside a state dict that two
 * keys share. */
static ckpt_value *named_optimizer(arena *a)
{
    ckpt_value *root = dict(a), *opt = dict(a), *state = dict(a), *one = dict(a),
               *groups = value_new(a, CKPT_V_LIST, 0);
    ckpt_value *group = dict(a), *params = value_new(a, CKPT_V_LIST, 0), *model = dict(a);
    value_put(a, model, text(a, "module.w"), tensor(a));
    value_put(a, root, text(a, "model"), model);
    value_put(a, root, text(a, "again"), model);
    value_put(a, one, text(a, "exp_avg"), tensor(a));
    value_put(a, state, text(a, "module.w"), one);
    value_append(a, params, text(a, "module.w"));
    value_put(a, group, text(a, "params"), params);
    value_append(a, groups, group);
    value_put(a, opt, text(a, "state"), state);
    value_put(a, opt, text(a, "param_groups"), groups);
    value_put(a, root, text(a, "optim"), opt);
    value_put(a, root, text(a, "self"), root); /* a loop */
    return root;
}

static void optimizers_by_name_follow(void)
{
    ckpt_file *f = by_hand(named_optimizer);
    ckpt_plan *p = plan_of(f);
    CU_ASSERT_EQUAL(ckpt_plan_strip_auto(p, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(p->nedits, 3); /* the shared dict once, state, params */
    for (size_t i = 0; i < p->nedits; i++)
        CU_ASSERT(p->edits[i].n == 1 && str_is(p->edits[i].names[0], "w"));
    CU_ASSERT_FATAL(ckpt_plan_rename_count(p) == 1);
    CU_ASSERT(ckpt_plan_rename_at(p, 0)->value != 0); /* the name in the list: no row */
    CU_ASSERT_STRING_EQUAL(ckpt_plan_rename_at(p, 0)->from.ptr, "optim.module.w");
    CU_ASSERT_STRING_EQUAL(ckpt_plan_rename_at(p, 0)->to.ptr, "optim.w");
    ckpt_plan_free(p);
    file_free(f);
}

/* Python 2: str keys, OrderedDict as a list of pairs in _metadata. */
static ckpt_value *python2(arena *a)
{
    ckpt_value *root = value_ordered_dict(a), *key = text(a, "module.w"),
               *list = value_new(a, CKPT_V_LIST, 0);
    ckpt_value *klass = value_global(a, STR_LIT("collections"), STR_LIT("OrderedDict"), 0), *state = dict(a);
    key->type = CKPT_V_STR8;
    for (int i = 0; i < 2; i++) {
        ckpt_value *pair = value_new(a, CKPT_V_LIST, 0);
        value_append(a, pair, text(a, i ? "module" : ""));
        value_append(a, pair, dict(a));
        value_append(a, list, pair);
    }
    value_put(a, root, key, tensor(a));
    value_put(a, state, text(a, "_metadata"), value_call(a, CALL_REDUCE, klass, value_tuple(a, 1, &list), 0));
    value_build(a, root, state);
    return root;
}

static void python2_metadata_too(void)
{
    ckpt_file *f = by_hand(python2);
    ckpt_plan *p = plan_of(f);
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(moves(p), "module>");
    size_t whole = 0; /* the wrapper's pair is left out, not half of it */
    for (size_t i = 0; i < p->nedits; i++)
        whole += p->edits[i].n == 2 && p->edits[i].dropped[0] &&
                 value_item(p->edits[i].node, 0)->type == CKPT_V_LIST;
    CU_ASSERT_EQUAL(whole, 1);
    CU_ASSERT(p->nedits == 3 && str_is(p->edits[0].names[0], "w"));
    ckpt_plan_free(p);
    file_free(f);
}

/* Keys that are no text, or the same text as str and bytes, stay and count. */
static ckpt_value *odd_keys(arena *a)
{
    ckpt_value *root = dict(a), *old = text(a, "w");
    old->type = CKPT_V_STR8;
    value_put(a, root, text(a, "module.w"), tensor(a));
    value_put(a, root, value_int(a, 7), tensor(a));
    value_put(a, root, old, tensor(a));
    value_put(a, root, text(a, "twice"), tensor(a));
    value_put(a, root, text(a, "twice"), tensor(a));
    return root;
}

static void odd_keys_are_kept(void)
{
    ckpt_file *f = by_hand(odd_keys);
    ckpt_plan *p = plan_of(f);
    CU_ASSERT_EQUAL(ckpt_plan_strip(p, "module.", false, NULL), CKPT_EEXIST);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "x.", NULL), CKPT_OK); /* "twice" twice is the file's own doing */
    size_t renamed = 0;
    for (uint32_t i = 0; i < p->edits[0].n; i++)
        renamed += p->edits[0].names[i].ptr != NULL;
    CU_ASSERT(p->nedits == 1 && renamed == 4);
    ckpt_plan_free(p);
    file_free(f);
}

/* ---- what is renamed, and what is not */

#define S   V2(FLOATS, 0, "()", "()")
#define OPT "{'state':{0:{'step':" S ",'exp_avg':" W "}},'param_groups':[{'lr':1.5,'params':[0]}]}"

/* first_notice - "renamed of tensors+metadata+values name" of each mapping, with semicolons. */
static const char *first_notice(const ckpt_plan *p)
{
    static char line[1024];
    size_t len = 0;
    line[0] = '\0';
    for (size_t i = 0; i < ckpt_plan_mapping_count(p); i++) {
        const ckpt_mapping *m = ckpt_plan_mapping_at(p, i);
        len += (size_t)snprintf(line + len, sizeof line - len, "%s%d of %d+%d+%d %s", i ? ";" : "",
                                (int)m->renamed, (int)m->tensors, (int)m->metadata, (int)m->values,
                                m->name.ptr);
    }
    return line;
}

/* adds_to - what `add x.` makes of the file TEXT: its names, and the report. */
static void adds_to(const char *content, const char *root, const char *want, const char *report)
{
    struct test_file m = make_torch_zip(content);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m.f);
    ckpt_plan *p = plan_of(m.f);
    uint64_t rows = 0;
    if (root)
        CU_ASSERT_EQUAL(ckpt_plan_root(p, root, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_plan_add(p, "x.", NULL), CKPT_OK);
    CU_ASSERT_STRING_EQUAL(names(p), want);
    CU_ASSERT_STRING_EQUAL(first_notice(p), report);
    for (size_t i = 0; i < ckpt_plan_rename_count(p); i++)
        rows += !ckpt_plan_rename_at(p, i)->metadata && !ckpt_plan_rename_at(p, i)->value;
    CU_ASSERT(rows <= ckpt_plan_tensor_count(p));
    ckpt_plan_free(p);
    close_file(&m);
}

static void values_of_state_dicts_stay(void)
{
    adds_to("{'a.w':" W ",'b.w':" W ",'_extra_state':{'s':" W ",'t':" W "}}", NULL,
            "x.a.w,x.b.w,x._extra_state.s,x._extra_state.t", "2 of 2+0+0 ");
    adds_to("{'fc.weight':" W ",'optimizer':" OPT ",'epoch':3,'lr':1.5,'args':None}", NULL,
            "x.fc.weight,optimizer.state.0.step,optimizer.state.0.exp_avg",
            "1 of 1+0+0 ;0 of 2+0+0 optimizer");
    adds_to("{'state_dict':{'fc.weight':" W ",'fc._extra_state':None},'metrics':{'loss':" S ",'acc':" S "},"
            "'scaler':{'scale':" W ",'growth':" W "},'hyper_parameters':{'mean':" W "}}",
            NULL,
            "state_dict.x.fc.weight,metrics.loss,metrics.acc,scaler.scale,scaler.growth,"
            "hyper_parameters.mean",
            "1 of 1+0+1 state_dict");
    adds_to("{'model':{'w':" W "},'ema':{'module':{'w':" W "}},'metrics':{'w':" W "}}", NULL,
            "model.x.w,ema.module.x.w,metrics.w", "1 of 1+0+0 model;1 of 1+0+0 ema.module");
    adds_to("{'netG':{'a.w':" W "},'netD':{'w':" W "},'opts':[" OPT "]}", NULL,
            "netG.x.a.w,netD.x.w,opts.0.state.0.step,opts.0.state.0.exp_avg",
            "1 of 1+0+0 netG;1 of 1+0+0 netD;0 of 2+0+0 opts.0");
}

static void a_root_is_renamed_whatever_it_is(void)
{
    static const char content[] = "{'model':{'w':" W "},'metrics':{'loss':" S ",'acc':" S "}}";
    adds_to(content, "metrics", "x.loss,x.acc", "2 of 2+0+0 ");
    adds_to(content, "model", "x.w", "1 of 1+0+0 ");
}

/* maps_to - the names that the file CONTENT has after N PAIRS, or part of the error. */
static void maps_to(const char *content, const char *root, const ckpt_pair *pairs, size_t n, const char *want)
{
    ckpt_error err;
    struct test_file m = make_torch_zip(content);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m.f);
    ckpt_plan *p = plan_of(m.f);
    if (root)
        CU_ASSERT_EQUAL(ckpt_plan_root(p, root, NULL), CKPT_OK);
    ckpt_status st = ckpt_plan_rename_pairs(p, pairs, n, &err);
    if (st == CKPT_OK)
        CU_ASSERT_STRING_EQUAL(names(p), want);
    if (st != CKPT_OK && !strstr(err.what, want))
        CU_ASSERT_STRING_EQUAL(err.what, want);
    ckpt_plan_free(p);
    close_file(&m);
}
#define MAPS_TO(content, root, want, ...)                                                                    \
    maps_to(content, root, (ckpt_pair[]){__VA_ARGS__},                                                       \
            sizeof((ckpt_pair[]){__VA_ARGS__}) / sizeof(ckpt_pair), want)

/* A mapping that is shared has several names, and each of them finds its keys. */
static void pairs_know_all_names_of_a_mapping(void)
{
    static const char shared[] = "{'a':#1={'x':" W ",'y':" W "},'b':#1}",
                      outer[] = "{'a':#1={'state_dict':{'x':" W "}},'b':#1,'c':{'d.e':#1}}",
                      literal[] = "{'model':#1={'x':" W ",'b.x':" W "},'b':#1}";
    MAPS_TO(shared, NULL, "a.z,a.y,b.z,b.y", PAIR("a.x", "a.z"));
    MAPS_TO(shared, NULL, "a.z,a.y,b.z,b.y", PAIR("b.x", "b.z"));
    MAPS_TO(shared, NULL, "a.z,a.y,b.z,b.y", PAIR("a.x", "a.z"), PAIR("b.x", "b.z"));
    MAPS_TO(shared, NULL, "a.y,a.x,b.y,b.x", PAIR("b.y", "b.x"), PAIR("a.x", "a.y"));
    MAPS_TO(shared, NULL, "are one key of a shared mapping", PAIR("a.x", "a.z"), PAIR("b.x", "b.w"));
    MAPS_TO(shared, NULL, "\"b.x\" would leave its mapping: the new name must begin with \"b.\"",
            PAIR("b.x", "a.z"));
    MAPS_TO(shared, NULL, "no key is called \"b.z\"", PAIR("b.z", "b.w"));
    MAPS_TO(outer, NULL, "a.state_dict.z,b.state_dict.z,c.d.e.state_dict.z",
            PAIR("c.d.e.state_dict.x", "c.d.e.state_dict.z"));
    MAPS_TO("{'top':{'a':#1={'x':" W "},'b':#1}}", "top", "a.z,b.z", PAIR("b.x", "b.z"));
    MAPS_TO(literal, NULL, "model.x,model.z,b.x,b.z", PAIR("b.x", "z"));
}

void suite_rename(void)
{
    UNIT(prefixes_are_found_at_boundaries);
    UNIT(long_names_are_no_trouble);
    UNIT(strip_like_torch);
    UNIT(strip_and_add_undo_each_other);
    UNIT(keys_without_it_stay);
    UNIT(anywhere_reaches_inner_wrappers);
    UNIT(collisions_change_nothing);
    UNIT(a_prefix_without_its_dot_is_a_component);
    UNIT(meaningless_prefixes_are_refused);
    UNIT(auto_takes_what_is_certain);
    UNIT(auto_leaves_what_is_not);
    UNIT(auto_fixes_metadata_of_all_wrappers);
    UNIT(regex_replaces_every_match);
    UNIT(bad_rules_are_refused);
    UNIT(metadata_follows_its_keys);
    UNIT(pairs_rename_by_key_or_full_name);
    UNIT(pairs_are_copied_and_checked);
    UNIT(pairs_know_all_names_of_a_mapping);
    UNIT(optimizers_by_name_follow);
    UNIT(python2_metadata_too);
    UNIT(odd_keys_are_kept);
    UNIT(values_of_state_dicts_stay);
    UNIT(a_root_is_renamed_whatever_it_is);
}
