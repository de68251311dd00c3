/* New names in an archive that stays where it is: what is made of it, and what is refused. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/zip_patch.h"
#include "core/plan.h"
#include "format/torch/archive.h"
#include "format/torch/zip.h"
#include "pickled.h"

struct edited {
    struct test_file m;
    ckpt_plan *p;
    struct patches list;
    ckpt_status st;
    ckpt_error err;
};

/* plan - of M, its keys without what begins with FROM, then below TO. */
static struct edited plan(struct test_file m, const char *from, const char *to)
{
    struct edited e = {.m = m};
    CU_ASSERT_PTR_NOT_NULL_FATAL(m.f);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(m.f, &e.p, &e.err), CKPT_OK);
    CU_ASSERT(!from || ckpt_plan_strip(e.p, from, false, &e.err) == CKPT_OK);
    CU_ASSERT(!to || ckpt_plan_add(e.p, to, &e.err) == CKPT_OK);
    return e;
}

static void edit(struct edited *e)
{
    e->list = (struct patches){0};
    CU_ASSERT_EQUAL(plan_update_entries(e->p, &e->err), CKPT_OK);
    e->st = torch_zip_in_place(e->p, &e->list, &e->err);
}

static struct edit *edit_of(struct edited *e, const ckpt_value *node, uint32_t n)
{
    struct edit *one = plan_get_edit(e->p, node, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(one);
    return one;
}

static void edited_close(struct edited *e)
{
    ckpt_plan_free(e->p);
    close_file(&e->m);
}

/* patched - the file of E with its patches, opened. */
static struct test_file patched(struct edited *e)
{
    char bytes[65536];
    source *after = source_patched(e->m.f->src, &e->list);
    CU_ASSERT_FATAL(after && after->size <= sizeof bytes);
    CU_ASSERT_EQUAL(source_read(after, 0, bytes, (size_t)after->size, NULL), CKPT_OK);
    struct test_file now = open_bytes(bytes, (size_t)after->size, NULL);
    source_unref(after);
    return now;
}

/* is_edited - the file of E is WANT afterwards, GROWN or not. */
static void is_edited(struct edited *e, const char *want, bool grown)
{
    edit(e);
    CU_ASSERT_EQUAL_FATAL(e->st, CKPT_OK);
    CU_ASSERT_EQUAL(e->list.new_size > e->list.old_size, grown);
    struct test_file now = patched(e);
    check_rows(&now, want);
    close_file(&now);
    edited_close(e);
}

static void refuses(struct edited *e, const char *why)
{
    edit(e);
    CU_ASSERT(e->st == CKPT_EUNSUPPORTED && strstr(e->err.what, why));
    if (!strstr(e->err.what, why))
        printf("  said: %s instead of %s\n", e->err.what, why);
}

#define LONG "a.very.long.prefix.of.everything.that.is.in.this.model."
#define F4   " dense float32[4]@0+0;"

static void shorter_names_take_the_place_of_the_old_ones(void)
{
    struct edited e = plan(make_torch_zip("{'m.w':" W ",'m.v':" W "}"), "m.", NULL);
    is_edited(&e, "w" F4 "v" F4, false);
    e = plan(make_torch_zip("collections.OrderedDict()+{'m.w':" W ",'m.b':[" W ",{3:" W "}]}"), "m.", NULL);
    is_edited(&e, "w" F4 "b.0" F4 "b.1.3" F4, false);
    e = plan(make_torch_zip("{'m.w':" W "}"), "m.", "mm"); /* as long */
    is_edited(&e, "mmw" F4, false);
}

static void longer_ones_go_behind_the_storages(void)
{
    struct edited e = plan(make_torch_zip("{'w':" W "}"), NULL, LONG);
    is_edited(&e, LONG "w" F4, true);
}

/* A key that is a value, too; a pair that goes; a key that was a number. */
static void an_edit_changes_its_own_entries_alone(void)
{
    struct edited e = plan(make_torch_zip("{#1='m.w':" W ",'k':#1}"), NULL, NULL);
    edit_of(&e, e.m.f->root, 2)->names[0] = STR_LIT("w");
    is_edited(&e, "w" F4, false);
    e = plan(make_torch_zip("{'w':" W ",'gone':" W "}"), NULL, NULL);
    edit_of(&e, e.m.f->root, 2)->dropped[1] = true;
    is_edited(&e, "w" F4, false);
    e = plan(make_torch_zip("{1:" W "}"), NULL, NULL);
    edit_of(&e, e.m.f->root, 1)->names[0] = STR_LIT("one"); /* of a number */
    is_edited(&e, "one" F4, false);
}

/* Items that are texts, of a list and of an object; more edits than there are items. */
static void texts_of_lists_are_names_too(void)
{
    static const char *const made[] = {"{'w':" W ",'l':['m.w','m.x']}",
                                       "{'w':" W ",'l':my.List()+['m.w','m.x']}"};
    for (size_t i = 0; i < 2; i++)
        for (uint32_t n = 2; n < 4; n++) {
            struct edited e = plan(make_torch_zip(made[i]), NULL, NULL);
            edit_of(&e, value_get(e.m.f->root, "l"), n)->names[n - 1] = STR_LIT("z");
            is_edited(&e, "w" F4, false);
        }
}

/* metadata_is - the keys of _metadata in the patched file of E, each with a comma after it, are WANT. */
static void metadata_is(struct edited *e, const char *want)
{
    char got[256] = "";
    uint32_t n = 0;
    edit(e);
    CU_ASSERT_EQUAL_FATAL(e->st, CKPT_OK);
    CU_ASSERT_EQUAL(e->list.new_size, e->list.old_size);
    struct test_file now = patched(e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(now.f);
    const value_pair *pairs = value_pairs(value_get(value_state(now.f->root), "_metadata"), &n);
    for (uint32_t i = 0; i < n; i++) {
        ckpt_str key = {0};
        int64_t version = -1;
        CU_ASSERT(value_text(pairs[i].key, &key));
        CU_ASSERT(value_integer(value_get(pairs[i].val, "version"), &version));
        size_t at = strlen(got);
        snprintf(got + at, sizeof got - at, "%.*s=%d,", STR_ARG(key), (int)version);
    }
    CU_ASSERT_STRING_EQUAL(got, want);
    check_rows(&now, "w" F4 "b" F4);
    close_file(&now);
    edited_close(e);
}

#define STATE_DICT(metadata)                                                                                 \
    "collections.OrderedDict()+{'module.w':" W ",'module.b':" W "}!{'_metadata':"                            \
    "collections.OrderedDict()+{" metadata "}}"

/* The wrapper's entry of _metadata goes where its module's takes its name. */
static void of_two_entries_that_become_one_the_last_stays(void)
{
    static const struct {
        const char *from, *want;
    } rows[] = {
        {STATE_DICT("'':<#1='version':%1>,'module':<#1:%1>,'module.a':<#1:%2>"), "=1,a=2,"},
        {STATE_DICT("#2='':#3=<#1='version':%1>,#4='module':<#1:%1>"), "=1,"},
        {STATE_DICT("'a':<#1='version':%3>,'':<#1:%1>,'module':<#1:%1>"), "a=3,=1,"},
        /* another version; not next to each other, or the other way round */
        {STATE_DICT("'':<#1='version':%1>,'module':<#1:%2>,'module.a':<#1:%2>"), "=2,a=2,"},
        {STATE_DICT("'':<#1='version':%1>,'module.a':<#1:%2>,'module':<#1:%1>"), "a=2,=1,"},
        {STATE_DICT("'module':<#1='version':%1>,'':<#1:%1>,'module.a':<#1:%2>"), "=1,a=2,"},
        /* more than a number, or no number; a text that was not there before; what is elsewhere, too */
        {STATE_DICT("'':<#1='version':%1,#2='x':%1>,'module':<#1:%1,#2:%1>"), "=1,"},
        {STATE_DICT("'':<#1='version':True>,'module':<#1:True>"), "=1,"},
        {STATE_DICT("'':<'version':%1>,'module':<'version':%1>"), "=1,"},
        {STATE_DICT("'':#2=<'version':%1>,'module':#2"), "=1,"},
        {STATE_DICT("'':<#1='version':%1>,'module':#2=<#1:%1>,'a':#2"), "=1,a=1,"},
        {STATE_DICT("'':<#1='version':%1>,#2='module':<#1:%1>") "+{'k':#2}", "=1,"},
        /* not as torch.save writes it: no OrderedDict, one that is memoized */
        {STATE_DICT("'':<#1='version':%1>,'module':{#1:%1}"), "=1,"},
        {STATE_DICT("'':<#1='version':%1>,'module':#2=<#1:%1>"), "=1,"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct edited e = plan(make_torch_zip(rows[i].from), "module.", NULL);
        metadata_is(&e, rows[i].want);
    }
}

static void what_the_ordinary_writer_changes_is_refused(void)
{
    struct edited e = plan(make_torch_zip("{'m.w':" W "}"), "m.", NULL);
    ckpt_file *f = e.m.f;
    struct torch_archive *ta = f->container;
    struct zip_entry *x = &ta->z->entries[torch_archive_find(ta, "data.pkl")];
    ckpt_value *root = f->root;
    f->nreplaced++;
    refuses(&e, "a whole module");
    f->nreplaced--;
    f->nparts++;
    refuses(&e, "more than one pickle");
    f->nparts--;
    f->npickles++;
    refuses(&e, "more than one pickle");
    f->npickles--;
    f->root = NULL;
    e.st = torch_zip_in_place(e.p, &e.list, &e.err);
    CU_ASSERT(e.st == CKPT_EUNSUPPORTED && strstr(e.err.what, "more than one pickle"));
    f->root = root;
    x->method = 8;
    refuses(&e, "its pickle is compressed");
    x->method = 0;
    x->flags |= 0x20;
    refuses(&e, "its pickle is compressed");
    x->flags &= (uint16_t)~0x20u;
    x->duplicate = true;
    refuses(&e, "two records are called data.pkl");
    x->duplicate = false;
    is_edited(&e, "w" F4, false);
}

/* The old pickle takes a name that is free; when a hundred are taken, that is enough. */
static void old_pickles_are_put_aside(void)
{
    static const float four[] = {1, 2, 3, 4};
    char names[100][16];
    struct record r[103];
    buf b;
    buf_init(&b, 1 << 16);
    put_pickle(&b, "{'w':" W "}");
    r[0] = (struct record){"data.pkl", (char *)b.data, b.len};
    r[1] = (struct record){"data/0", (const char *)four, 16};
    for (unsigned k = 0; k < 100; k++) {
        snprintf(names[k], sizeof names[k], k ? "data.o%02u" : "data.old", k);
        r[2 + k] = (struct record){names[k], "old", 3};
    }
    for (size_t n = 0; n <= 100; n += 25) {
        struct edited e = plan(make_archive(r, n + 2, NULL), NULL, LONG);
        edit(&e);
        CU_ASSERT_EQUAL(e.st, n < 100 ? CKPT_OK : CKPT_EUNSUPPORTED);
        if (n < 100) {
            char want[32];
            snprintf(want, sizeof want, n ? "archive/data.o%02zu" : "archive/data.old", n);
            CU_ASSERT(e.list.at[0].at == 30 && str_is(e.list.at[0].bytes, want));
        }
        edited_close(&e);
    }
    buf_free(&b);
}

void suite_torch_in_place(void)
{
    UNIT(shorter_names_take_the_place_of_the_old_ones);
    UNIT(longer_ones_go_behind_the_storages);
    UNIT(an_edit_changes_its_own_entries_alone);
    UNIT(texts_of_lists_are_names_too);
    UNIT(of_two_entries_that_become_one_the_last_stays);
    UNIT(what_the_ordinary_writer_changes_is_refused);
    UNIT(old_pickles_are_put_aside);
}
