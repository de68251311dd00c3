/*
 * package.c - reads the archives of torch.package: pickles with the source code of their classes.
 *
 *   <top>/.data/version          "6\n"
 *   <top>/.data/extern_modules   names of modules that the package does not carry
 *   <top>/.data/<key>.storage    storages, shared by all pickles
 *   <top>/<package>/<name>       what was saved: pickles (*.pkl), text, bytes
 *   <top>/<package>/<name>.py    source code
 *
 * Storage keys in persistent ids are ints. Source: torch/package/package_exporter.py.
 *
 * Each pickle becomes one entry of a mapping, under the name of its member.
 */
#include "format/torch/archive.h"

static bool find_package_top(const zip *archive, ckpt_str *top)
{
    for (size_t i = 0; i < archive->n; i++) {
        ckpt_str name = archive->entries[i].name;
        const ckpt_str modules = STR_LIT("/.data/extern_modules");
        if (str_ends(name, modules) && str_find(name, STR_LIT("/"), 0) == name.len - modules.len) {
            *top = str_of(name.ptr, name.len - modules.len + 1);
            return true;
        }
    }
    return false;
}

static bool probe_package(const struct probe *probe)
{
    ckpt_str top;
    return probe->zip && find_package_top(probe->zip, &top);
}

static bool is_pickle(const struct torch_archive *ta, ckpt_str name)
{
    return str_starts(name, ta->top) && str_ends(name, STR_LIT(".pkl")) &&
           !str_starts(str_skip(name, ta->top.len), STR_LIT(".data/"));
}

static ckpt_status add_pickle(struct torch_archive *ta, size_t index, ckpt_error *err)
{
    ckpt_value *root, *key = value_str(ta->f->a, str_skip(ta->z->entries[index].name, ta->top.len));
    CKPT_TRY(torch_archive_run_pickle(ta, index, &root, err));
    return key && value_put(ta->f->a, ta->f->root, key, root) ? CKPT_OK : fail_memory(err);
}

/* add_pickles - adds all pickles. In salvage, one whose headers have two names is lost: nothing shows which
 * of the names is right. */
static ckpt_status add_pickles(struct torch_archive *ta, ckpt_error *err)
{
    for (size_t i = 0; i < ta->z->n; i++) {
        const struct zip_entry *e = &ta->z->entries[i];
        if (!is_pickle(ta, e->name))
            continue;
        if (!e->other_name)
            CKPT_TRY(add_pickle(ta, i, err));
        else
            file_note_loss(ta->f, "%.*s is lost: its other header has the name \"%.*s\"", STR_ARG(e->name),
                           STR_ARG(*e->other_name));
    }
    return CKPT_OK;
}

static ckpt_status read_package(ckpt_file *f, ckpt_error *err)
{
    ckpt_str top = {0};
    struct torch_archive *ta;
    (void)find_package_top(f->opening->probe->zip, &top);
    CKPT_TRY(torch_archive_new(f, top, &ta, err));
    CKPT_TRY_ALLOC(torch_archive_set_storage_names(ta, ".data/", ".storage"), err);
    f->executes_code = true;
    f->producer = STR_LIT("torch.package");
    CKPT_TRY(torch_archive_read_byteorder(ta, err));
    f->root = value_new(f->a, CKPT_V_DICT, 0);
    CKPT_TRY_ALLOC(f->root, err);
    CKPT_TRY(add_pickles(ta, err));
    struct graph_input input = torch_archive_get_graph_input(ta);
    CKPT_TRY(graph_walk(f, f->root, &input, err));
    torch_archive_count_unused(ta);
    return CKPT_OK;
}

const struct format format_torch_package = {
    .name = "torch-package",
    .title = "torch package",
    .probe = probe_package,
    .read = read_package,
};
