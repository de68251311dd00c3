/*
 * object_graph.c - the names of variables, which tf.train.Checkpoint stores in a tensor of its own
 * (tensorflow/core/protobuf/trackable_object_graph.proto):
 *
 *   TrackableObjectGraph  1 nodes
 *   TrackableObject       2 attributes
 *   SerializedTensor      2 full_name "dense/kernel", 3 checkpoint_key
 */
#include "codec/protobuf.h"
#include "format/tensorflow/tensorflow.h"

struct names {
    tf_name_variable *name;
    void *user;
    ckpt_error *err;
};

static ckpt_status read_attribute(const struct names *n, cursor c)
{
    struct proto_field f;
    ckpt_str variable = {NULL, 0}, key = {NULL, 0};
    while (proto_next(&c, &f)) {
        if (proto_is(&f, 2, PROTO_BYTES))
            variable = proto_text(&f);
        else if (proto_is(&f, 3, PROTO_BYTES))
            key = proto_text(&f);
    }
    if (c.bad)
        return fail(n->err, CKPT_EFORMAT, c.pos, "{malformed} {=attribute} of the object graph");
    return variable.len && key.len ? n->name(n->user, key, variable, n->err) : CKPT_OK;
}

static ckpt_status read_node(const struct names *n, cursor c)
{
    struct proto_field f;
    while (proto_next(&c, &f))
        if (proto_is(&f, 2, PROTO_BYTES))
            CKPT_TRY(read_attribute(n, f.bytes));
    return c.bad ? fail(n->err, CKPT_EFORMAT, c.pos, "{malformed} {=object} of the object graph") : CKPT_OK;
}

ckpt_status tf_read_object_graph(cursor c, tf_name_variable *name, void *user, ckpt_error *err)
{
    const struct names n = {name, user, err};
    struct proto_field f;
    while (proto_next(&c, &f))
        if (proto_is(&f, 1, PROTO_BYTES))
            CKPT_TRY(read_node(&n, f.bytes));
    return c.bad ? fail(err, CKPT_EFORMAT, c.pos, "{malformed} {=object graph}") : CKPT_OK;
}
