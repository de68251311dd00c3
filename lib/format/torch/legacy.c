/* legacy.c - reads files that torch.save wrote before 1.6: a stream (graph/legacy_stream.c). */
#include "format/graph/legacy_stream.h"
#include "format/graph/walk.h"
#include "format/recognize.h"

struct legacy {
    struct legacy_stream stream;
    zip *archive_inside; /* the zip that the probe found in the stream, or NULL; closed with the file */
};

static bool probe_legacy(const struct probe *probe)
{
    const struct signature *s = recognize(probe);
    return s && s->kind == SIGN_LEGACY;
}

static bool has_module_ids(const struct pickle_facts *facts)
{
    for (size_t i = 0; i < facts->npersids; i++) {
        ckpt_str tag;
        const ckpt_value *first = value_item(facts->persids[i]->u.pid, 0);
        if (first && value_text(first, &tag) && str_is(tag, "module"))
            return true;
    }
    return false;
}

static struct graph_input get_graph_input(struct legacy_stream *legacy_stream)
{
    return (struct graph_input){.user = legacy_stream,
                                .find_storage = legacy_stream_find_storage,
                                .pickle = legacy_stream->src,
                                .pickle_name = STR_LIT("main pickle")};
}

static ckpt_status add_opaque_legacy_storages(ckpt_file *f, ckpt_error *err)
{
    struct legacy_stream *l = &((struct legacy *)f->container)->stream;
    l->f = f; /* may differ from the file that was opened: a folder can take over its content */
    l->err = err;
    struct graph_input input = get_graph_input(l);
    return graph_add_unreferenced_storages(f, &input, err);
}

static void free_legacy(void *container)
{
    struct legacy *legacy = container;
    map_free(legacy->stream.storage_of_key);
    zip_close(legacy->archive_inside);
}

static ckpt_status read_legacy(ckpt_file *f, ckpt_error *err)
{
    struct legacy *legacy = ARENA_NEW(f->a, struct legacy);
    file_raise_budget(f, f->src->size);
    CKPT_TRY_ALLOC(legacy, err);
    *legacy = (struct legacy){.stream = {.f = f, .src = f->src, .err = err},
                              .archive_inside = f->opening->probe->zip};
    f->container = legacy;
    f->container_free = free_legacy;
    struct legacy_stream *l = &legacy->stream;
    CKPT_TRY(legacy_stream_read(l));
    f->root = l->root;
    f->loading.by = "torch.load";
    f->producer = STR_LIT("torch 0.1.10 to 1.5, or a later one asked for the legacy format");
    f->add_opaque_storages = add_opaque_legacy_storages;
    if (has_module_ids(l->facts))
        file_notice(f, "it holds a whole model and the source text of its classes, which ckpt does not run");
    struct graph_input input = get_graph_input(l);
    return graph_walk(f, f->root, &input, err);
}

const struct format format_torch_legacy = {
    .name = "torch-legacy",
    .title = "torch legacy stream",
    .probe = probe_legacy,
    .read = read_legacy,
};
