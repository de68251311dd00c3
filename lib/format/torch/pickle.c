/*
 * pickle.c - plain pickles of tensors or numpy arrays: `pickle.dump(state_dict)`,
 * detectron2's .pkl, scikit-learn-like dumps. No container, no persistent ids:
 * a storage is a call of torch.storage._load_from_bytes on a whole legacy
 * stream. torch.load refuses these files; pickle.load would run them.
 *
 * Protocols 2-5 begin with 80 02..05. Protocols 0 and 1 have no mark of their
 * own, so those are taken only if the whole file runs as one pickle.
 */
#include "codec/pickle_read.h"
#include "format/recognize.h"
#include "format/torch/graph.h"

/* may_hold - a single number or text has no tensors. */
static bool may_hold(const ckpt_value *root)
{
    return root->type == CKPT_V_DICT || root->type == CKPT_V_LIST || root->type == CKPT_V_TUPLE ||
           root->type == CKPT_V_CALL;
}

/* runs - does SRC hold one whole pickle and nothing else? */
static bool runs(source *src)
{
    arena *a = arena_new(UINT64_C(1) << 28);
    ckpt_value *root;
    uint64_t next = 0;
    bool ok = a && pickle_read(a, src, 0, src->size, NULL, &root, &next, NULL) == CKPT_OK &&
              next == src->size && may_hold(root);
    arena_free(a);
    return ok;
}

static bool probe(const struct probe *p)
{
    unsigned char last;
    if (p->directory || p->nhead < 2)
        return false;
    const struct signature *s = recognize(p);
    if (s && s->kind == SIGN_JOBLIB)
        return false;
    if (recognize_pickle(p))
        return true;
    return strchr("(]}cli", p->head[0]) && source_read(p->src, p->size - 1, &last, 1, NULL) == CKPT_OK &&
           last == '.' && runs(p->src);
}

static ckpt_status no_storage(void *user, const struct torch_pid *pid, struct storage *s, ckpt_error *err)
{
    (void)user;
    (void)s;
    (void)fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
               "{=storage \"%.*s\"} is {not in this file}: it is the data.pkl of an unpacked archive",
               STR_ARG(pid->key));
    fail_hint(err, "zip the whole folder again, data/ included: `zip -0r model.pt FOLDER`");
    return CKPT_EFORMAT;
}

/* not_alone - a first pickle without tensors, and more behind it: a torch stream that lost its mark. */
static ckpt_status not_alone(ckpt_file *f, uint64_t next, ckpt_error *err)
{
    char type[64];
    (void)fail(err, CKPT_EFORMAT, source_pos(f->src, 0),
               "a pickle of {one %s}, and %llu bytes after it; a torch stream begins with {=the int "
               "0x1950a86a20f9469cfc6c}",
               ckpt_value_type_name(f->root, type, sizeof type), (unsigned long long)(f->src->size - next));
    fail_hint(err, "if torch wrote it, it is damaged: get the file again");
    fail_where(err, "magic number");
    return CKPT_EFORMAT;
}

/* by_joblib - what was read imports the class whose arrays are no opcodes. */
static bool by_joblib(const struct pickle_facts *facts)
{
    for (size_t i = 0; i < facts->nglobals; i++)
        if (str_starts(facts->globals[i]->u.global.module_name[0], STR_LIT("joblib.numpy_pickle")))
            return true;
    return false;
}

static ckpt_status read(ckpt_file *f, ckpt_error *err)
{
    uint64_t next;
    struct torch_storages st = {.find = no_storage, .stream = f->src, .part = STR_LIT("pickle")};
    struct pickle_facts *facts = file_pickle(f, str_of("", 0));
    file_budget(f, f->src->size);
    if (!facts)
        return fail_memory(err);
    ckpt_status status = pickle_read(f->a, f->src, 0, f->src->size, facts, &f->root, &next, err);
    if (status != CKPT_ENOMEM && status != CKPT_EIO && by_joblib(facts))
        return recognize_refuse(recognize_joblib(), err);
    if (status != CKPT_OK)
        fail_default_place(err, 0, st.part);
    CKPT_TRY(status);
    if (next != f->src->size && !may_hold(f->root))
        return not_alone(f, next, err);
    if (next != f->src->size)
        file_notice(f, "%llu bytes after the end of the pickle are ignored",
                    (unsigned long long)(f->src->size - next));
    f->producer = STR_LIT("pickle.dump");
    return torch_graph(f, f->root, &st, err);
}

const struct format format_pickle = {
    .name = "pickle",
    .title = "plain pickle",
    .probe = probe,
    .read = read,
};
