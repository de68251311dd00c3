/* Renaming tensors of a torch archive in place: the patched file, and edits that are refused. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/zip_patch.h"
#include "core/plan.h"
#include "format/torch/archive.h"
#include "format/torch/zip.h"
#include "pickled.h"

/* A file, a plan that renames its tensors, and the patches that edit the file. */
struct edited_file {
    struct test_file made;
    ckpt_plan *plan;
    struct patches patches;
    ckpt_status status;
    ckpt_error err;
};

/* plan_rename - returns the file MADE with a plan that strips the prefix STRIPPED from the keys and then adds
 * the prefix ADDED. Either may be NULL. */
static struct edited_file plan_rename(struct test_file made, const char *stripped, const char *added)
{
    struct edited_file e = {.made = made};
    CU_ASSERT_PTR_NOT_NULL_FATAL(made.file);
    CU_ASSERT_EQUAL_FATAL(ckpt_plan_new(made.file, &e.plan, &e.err), CKPT_OK);
    CU_ASSERT(!stripped || ckpt_plan_strip(e.plan, stripped, false, &e.err) == CKPT_OK);
    CU_ASSERT(!added || ckpt_plan_add(e.plan, added, &e.err) == CKPT_OK);
    return e;
}

/* compute_patches - computes the patches of E, and sets its status. */
static void compute_patches(struct edited_file *e)
{
    e->patches = (struct patches){0};
    CU_ASSERT_EQUAL(plan_update_entries(e->plan, &e->err), CKPT_OK);
    e->status = torch_zip_in_place(e->plan, &e->patches, &e->err);
}

/* find_or_add_edit - returns the edit of the first N entries of NODE in the plan of E. If there is none, adds
 * one that changes nothing. */
static struct edit *find_or_add_edit(struct edited_file *e, const ckpt_value *node, uint32_t n)
{
    struct edit *edit = plan_find_or_add_edit(e->plan, node, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(edit);
    return edit;
}

static void close_edited_file(struct edited_file *e)
{
    ckpt_plan_free(e->plan);
    close_file(&e->made);
}

/* open_patched - opens the file of E with its patches. */
static struct test_file open_patched(struct edited_file *e)
{
    char bytes[65536];
    source *patched_source = source_patched(e->made.file->src, &e->patches);
    CU_ASSERT_FATAL(patched_source && patched_source->size <= sizeof bytes);
    CU_ASSERT_EQUAL(source_read(patched_source, 0, bytes, (size_t)patched_source->size, NULL), CKPT_OK);
    struct test_file patched = open_bytes(bytes, (size_t)patched_source->size, NULL);
    source_unref(patched_source);
    return patched;
}

/* check_edited - edits the file of E and closes E. The edited file must have the tensors WANT. It must be
 * longer than before if GROWS, else as long as before. */
static void check_edited(struct edited_file *e, const char *want, bool grows)
{
    compute_patches(e);
    CU_ASSERT_EQUAL_FATAL(e->status, CKPT_OK);
    CU_ASSERT_EQUAL(e->patches.new_size > e->patches.old_size, grows);
    struct test_file patched = open_patched(e);
    check_tensors(&patched, want);
    close_file(&patched);
    close_edited_file(e);
}

static void check_edit_refused(struct edited_file *e, const char *why)
{
    compute_patches(e);
    CU_ASSERT(e->status == CKPT_EUNSUPPORTED && strstr(e->err.what, why));
    if (!strstr(e->err.what, why))
        printf("  found: %s instead of %s\n", e->err.what, why);
}

#define LONG_PREFIX "a.very.long.prefix.of.everything.that.is.in.this.model."

static void shorter_names_are_written_over_the_old_ones(void)
{
    struct edited_file e = plan_rename(make_torch_zip("{'m.w':" FLOAT_TENSOR ",'m.v':" FLOAT_TENSOR "}"),
                                       "m.", NULL);
    check_edited(&e, "w" FLOAT_LISTING "v" FLOAT_LISTING, false);
    e = plan_rename(make_torch_zip("collections.OrderedDict()+{'m.w':" FLOAT_TENSOR ",'m.b':[" FLOAT_TENSOR
                                   ",{3:" FLOAT_TENSOR "}]}"),
                    "m.", NULL);
    check_edited(&e, "w" FLOAT_LISTING "b.0" FLOAT_LISTING "b.1.3" FLOAT_LISTING, false);
    /* "mm" is as long as "m." */
    e = plan_rename(make_torch_zip("{'m.w':" FLOAT_TENSOR "}"), "m.", "mm");
    check_edited(&e, "mmw" FLOAT_LISTING, false);
}

static void longer_names_are_written_after_the_storages(void)
{
    struct edited_file e = plan_rename(make_torch_zip("{'w':" FLOAT_TENSOR "}"), NULL, LONG_PREFIX);
    check_edited(&e, LONG_PREFIX "w" FLOAT_LISTING, true);
}

static void an_edit_changes_only_its_own_entries(void)
{
    /* the key 'm.w' is also a value, which must not change */
    struct edited_file e = plan_rename(make_torch_zip("{#1='m.w':" FLOAT_TENSOR ",'k':#1}"), NULL, NULL);
    find_or_add_edit(&e, e.made.file->root, 2)->names[0] = STR_LIT("w");
    check_edited(&e, "w" FLOAT_LISTING, false);
    /* the edit drops one of two pairs */
    e = plan_rename(make_torch_zip("{'w':" FLOAT_TENSOR ",'dropped':" FLOAT_TENSOR "}"), NULL, NULL);
    find_or_add_edit(&e, e.made.file->root, 2)->dropped[1] = true;
    check_edited(&e, "w" FLOAT_LISTING, false);
    /* the edit replaces a key that is a number by a text */
    e = plan_rename(make_torch_zip("{1:" FLOAT_TENSOR "}"), NULL, NULL);
    find_or_add_edit(&e, e.made.file->root, 1)->names[0] = STR_LIT("one");
    check_edited(&e, "one" FLOAT_LISTING, false);
}

/* The list, or the object with items, has two items. The edit renames item 2, or item 3, which does not
 * exist. */
static void names_in_lists_are_edited(void)
{
    static const char *const pickles[] = {"{'w':" FLOAT_TENSOR ",'l':['m.w','m.x']}",
                                          "{'w':" FLOAT_TENSOR ",'l':my.List()+['m.w','m.x']}"};
    for (size_t i = 0; i < 2; i++)
        for (uint32_t n = 2; n < 4; n++) {
            struct edited_file e = plan_rename(make_torch_zip(pickles[i]), NULL, NULL);
            find_or_add_edit(&e, value_get(e.made.file->root, "l"), n)->names[n - 1] = STR_LIT("z");
            check_edited(&e, "w" FLOAT_LISTING, false);
        }
}

/* check_metadata - edits the file of E and closes E. The entries of _metadata in the edited file must be
 * WANT, each as "key=version,". */
static void check_metadata(struct edited_file *e, const char *want)
{
    char got[256] = "";
    uint32_t npairs = 0;
    compute_patches(e);
    CU_ASSERT_EQUAL_FATAL(e->status, CKPT_OK);
    CU_ASSERT_EQUAL(e->patches.new_size, e->patches.old_size);
    struct test_file patched = open_patched(e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(patched.file);
    const value_pair *pairs = value_pairs(value_get(value_state(patched.file->root), "_metadata"), &npairs);
    for (uint32_t i = 0; i < npairs; i++) {
        ckpt_str key = {0};
        int64_t version = -1;
        CU_ASSERT(value_text(pairs[i].key, &key));
        CU_ASSERT(value_integer(value_get(pairs[i].val, "version"), &version));
        size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%.*s=%d,", STR_ARG(key), (int)version);
    }
    CU_ASSERT_STRING_EQUAL(got, want);
    check_tensors(&patched, "w" FLOAT_LISTING "b" FLOAT_LISTING);
    close_file(&patched);
    close_edited_file(e);
}

#define STATE_DICT(metadata)                                                                                 \
    "collections.OrderedDict()+{'module.w':" FLOAT_TENSOR ",'module.b':" FLOAT_TENSOR "}!{'_metadata':"      \
    "collections.OrderedDict()+{" metadata "}}"

/* In _metadata, the entry of a wrapper (DataParallel) is called "", and that of its module "module". Without
 * the prefix, both are called "". See put_pickle in pickled.h for the notation of the pickles. */
static void of_two_entries_with_one_name_the_last_is_kept(void)
{
    static const struct {
        const char *pickle, *want;
    } cases[] = {
        {STATE_DICT("'':<#1='version':%1>,'module':<#1:%1>,'module.a':<#1:%2>"), "=1,a=2,"},
        {STATE_DICT("#2='':#3=<#1='version':%1>,#4='module':<#1:%1>"), "=1,"},
        {STATE_DICT("'a':<#1='version':%3>,'':<#1:%1>,'module':<#1:%1>"), "a=3,=1,"},
        /* the two entries have different versions, are not adjacent, or are in reverse order */
        {STATE_DICT("'':<#1='version':%1>,'module':<#1:%2>,'module.a':<#1:%2>"), "=2,a=2,"},
        {STATE_DICT("'':<#1='version':%1>,'module.a':<#1:%2>,'module':<#1:%1>"), "a=2,=1,"},
        {STATE_DICT("'module':<#1='version':%1>,'':<#1:%1>,'module.a':<#1:%2>"), "=1,a=2,"},
        /* the entries have one more key, "x" */
        {STATE_DICT("'':<#1='version':%1,#2='x':%1>,'module':<#1:%1,#2:%1>"), "=1,"},
        /* the version is not a number */
        {STATE_DICT("'':<#1='version':True>,'module':<#1:True>"), "=1,"},
        /* the text "version" is not in the memo */
        {STATE_DICT("'':<'version':%1>,'module':<'version':%1>"), "=1,"},
        /* the two entries share their dict; a third entry shares it; another dict shares the key */
        {STATE_DICT("'':#2=<'version':%1>,'module':#2"), "=1,"},
        {STATE_DICT("'':<#1='version':%1>,'module':#2=<#1:%1>,'a':#2"), "=1,a=1,"},
        {STATE_DICT("'':<#1='version':%1>,#2='module':<#1:%1>") "+{'k':#2}", "=1,"},
        /* torch.save writes neither the opcode DICT nor BINPUT after the items of a dict */
        {STATE_DICT("'':<#1='version':%1>,'module':{#1:%1}"), "=1,"},
        {STATE_DICT("'':<#1='version':%1>,'module':#2=<#1:%1>"), "=1,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct edited_file e = plan_rename(make_torch_zip(cases[i].pickle), "module.", NULL);
        check_metadata(&e, cases[i].want);
    }
}

static void files_that_need_a_rewrite_are_refused(void)
{
    struct edited_file e = plan_rename(make_torch_zip("{'m.w':" FLOAT_TENSOR "}"), "m.", NULL);
    ckpt_file *file = e.made.file;
    struct torch_archive *archive = file->container;
    struct zip_entry *pickle = &archive->z->entries[torch_archive_find(archive, "data.pkl")];
    ckpt_value *root = file->root;
    file->replacements.n++;
    check_edit_refused(&e, "a whole module");
    file->replacements.n--;
    file->nparts++;
    check_edit_refused(&e, "it holds more than one pickle");
    file->nparts--;
    file->npickles++;
    check_edit_refused(&e, "it holds more than one pickle");
    file->npickles--;
    file->root = NULL;
    e.status = torch_zip_in_place(e.plan, &e.patches, &e.err);
    CU_ASSERT(e.status == CKPT_EUNSUPPORTED && strstr(e.err.what, "it holds more than one pickle"));
    file->root = root;
    pickle->method = ZIP_DEFLATED;
    check_edit_refused(&e, "its pickle is compressed");
    pickle->method = ZIP_STORED;
    pickle->flags |= 0x20; /* the flag of compressed patched data */
    check_edit_refused(&e, "its pickle is compressed");
    pickle->flags &= (uint16_t)~0x20u;
    pickle->duplicate = true;
    check_edit_refused(&e, "it holds two records called data.pkl");
    pickle->duplicate = false;
    check_edited(&e, "w" FLOAT_LISTING, false);
}

/* The old data.pkl is renamed to data.old, or to one of data.o01 to data.o99. If all of these names are used,
 * the edit is refused. */
static void the_old_pickle_gets_an_unused_name(void)
{
    static const float four[] = {1, 2, 3, 4};
    char names[100][16];
    struct record records[103];
    buf pickle;
    buf_init(&pickle, 1 << 16);
    put_pickle(&pickle, "{'w':" FLOAT_TENSOR "}");
    records[0] = (struct record){"data.pkl", (char *)pickle.data, pickle.len};
    records[1] = (struct record){"data/0", (const char *)four, 16};
    for (unsigned k = 0; k < 100; k++) {
        snprintf(names[k], sizeof names[k], k ? "data.o%02u" : "data.old", k);
        records[2 + k] = (struct record){names[k], "old", 3};
    }
    for (size_t used = 0; used <= 100; used += 25) {
        struct edited_file e = plan_rename(make_archive(records, 2 + used, NULL), NULL, LONG_PREFIX);
        compute_patches(&e);
        CU_ASSERT_EQUAL(e.status, used < 100 ? CKPT_OK : CKPT_EUNSUPPORTED);
        if (used < 100) {
            char want[32];
            snprintf(want, sizeof want, used ? "archive/data.o%02zu" : "archive/data.old", used);
            /* the first patch replaces the name in the first local header: 30 is the offset of the name */
            CU_ASSERT(e.patches.patch[0].offset == 30 && str_is(e.patches.patch[0].bytes, want));
        }
        close_edited_file(&e);
    }
    buf_free(&pickle);
}

void suite_torch_in_place(void)
{
    UNIT(shorter_names_are_written_over_the_old_ones);
    UNIT(longer_names_are_written_after_the_storages);
    UNIT(an_edit_changes_only_its_own_entries);
    UNIT(names_in_lists_are_edited);
    UNIT(of_two_entries_with_one_name_the_last_is_kept);
    UNIT(files_that_need_a_rewrite_are_refused);
    UNIT(the_old_pickle_gets_an_unused_name);
}
