/*
 * pickle.c - reads files that are one pickle of tensors or numpy arrays: `pickle.dump(state_dict)`,
 * detectron2's .pkl, dumps of scikit-learn and joblib, what paddle.save writes. They have no container and no
 * persistent ids: a storage is a call of torch.storage._load_from_bytes with a complete legacy stream.
 * torch.load refuses these files; pickle.load would run them.
 *
 * Protocols 2-5 begin with 80 02..05. Protocols 0 and 1 have no signature, so a file of these is accepted
 * only if all of it parses as one pickle.
 */
#include "codec/pickle_read.h"
#include "format/graph/persistent_id.h"
#include "format/graph/walk.h"
#include "format/pickle/paddle.h"
#include "format/pickle/pickle.h"
#include "format/recognize.h"

/* may_hold_tensors - returns true if ROOT is a container or object, and not a number or text. */
static bool may_hold_tensors(const ckpt_value *root)
{
    return root->type == CKPT_V_DICT || root->type == CKPT_V_LIST || root->type == CKPT_V_TUPLE ||
           root->type == CKPT_V_CALL;
}

static bool is_single_pickle(source *src)
{
    ckpt_error ignored;
    arena *a = arena_new(UINT64_C(1) << 28);
    ckpt_value *root;
    uint64_t next = 0;
    bool ok = a && pickle_read(a, src, 0, src->size, NULL, &root, &next, &ignored) == CKPT_OK &&
              next == src->size && may_hold_tensors(root);
    arena_free(a);
    return ok;
}

static bool probe_pickle(const struct probe *probe)
{
    ckpt_error ignored;
    unsigned char last;
    if (probe->is_folder || probe->nhead < 2)
        return false;
    const struct signature *s = recognize(probe);
    if (s && s->kind == SIGN_JOBLIB)
        return false;
    if (recognize_pickle(probe))
        return true;
    bool may_be_protocol_0 = strchr("(]}cli", probe->head[0]) != NULL; /* these opcodes may be the first */
    return may_be_protocol_0 && source_read(probe->src, probe->size - 1, &last, 1, &ignored) == CKPT_OK &&
           last == '.' && is_single_pickle(probe->src);
}

static ckpt_status fail_no_storage(void *user, const struct torch_pid *pid, struct storage *storage,
                                   ckpt_error *err)
{
    (void)user;
    (void)storage;
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                "{=storage \"%.*s\"} is {not in this file}, which is the data.pkl of an unpacked archive\n"
                "zip the whole folder again, data/ included: `zip -0r model.pt FOLDER`",
                STR_ARG(pid->key));
}

/* fail_no_magic - fails because the file begins with a pickle of a single value and more bytes follow:
 * it may be a legacy stream of torch whose magic number is damaged. */
static ckpt_status fail_no_magic(ckpt_file *f, uint64_t next, ckpt_error *err)
{
    char type[64];
    ckpt_status st = fail(
        err, CKPT_EFORMAT, source_pos(f->src, 0),
        "the file is a pickle of {one %s} and %llu more bytes; a torch stream begins with {=the int "
        "0x1950a86a20f9469cfc6c}\nif torch wrote it, it is damaged: get the file again",
        ckpt_value_type_name(f->root, type, sizeof type), (unsigned long long)(f->src->size - next));
    return prefix_where_if_failed(st, STR_LIT("magic number"), err);
}

/* is_joblib - returns true if FACTS list a class of joblib. */
static bool is_joblib(const struct pickle_facts *facts)
{
    for (size_t i = 0; i < facts->nglobals; i++)
        if (str_starts(facts->globals[i]->u.global.module_name[0], STR_LIT("joblib.numpy_pickle")))
            return true;
    return false;
}

ckpt_status pickle_read_bare(ckpt_file *f, source *src, ckpt_error *err)
{
    uint64_t next;
    struct paddle_pickle paddle;
    struct graph_input input = {.user = &paddle,
                                .find_storage = fail_no_storage,
                                .describe_tensor = paddle_describe,
                                .pickle = src,
                                .pickle_name = STR_LIT("pickle")};
    struct pickle_facts *facts = file_add_pickle(f, str_of("", 0));
    file_raise_budget(f, src->size);
    CKPT_TRY_ALLOC(facts, err);
    ckpt_status status = pickle_read_joblib(f->a, src, facts, &f->root, &next, err);
    if (status != CKPT_OK)
        error_add_position(err, 0, input.pickle_name);
    CKPT_TRY(status);
    if (next != src->size && !may_hold_tensors(f->root))
        return fail_no_magic(f, next, err);
    if (next != src->size)
        file_notice(f, "%llu bytes after the end of the pickle are ignored",
                    (unsigned long long)(src->size - next));
    status = paddle_make_tensors(&paddle, f, facts, src, err);
    if (status != CKPT_OK)
        error_add_position(err, 0, input.pickle_name);
    CKPT_TRY(status);
    f->producer = paddle.is_paddle   ? STR_LIT("paddle.save")
                  : is_joblib(facts) ? STR_LIT("joblib.dump")
                                     : STR_LIT("pickle.dump");
    return graph_walk(f, f->root, &input, err);
}

static ckpt_status read_file(ckpt_file *f, ckpt_error *err) { return pickle_read_bare(f, f->src, err); }

const struct format format_pickle = {
    .name = "pickle", .title = "plain pickle", .probe = probe_pickle, .read = read_file};
