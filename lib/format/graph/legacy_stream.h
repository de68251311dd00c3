/* legacy_stream.h - the stream of pickles and storages that torch.save wrote before 1.6: a file, or a bytes
 * object in a bare pickle. */
#pragma once

#include "base/map.h"
#include "format/graph/persistent_id.h"

struct legacy_storage {
    uint64_t off, nbytes;
    bool is_present;      /* its bytes were found in the stream */
    struct torch_pid pid; /* the first persistent id that names it */
};

/* A stream that is read. The caller sets f, src, err, embedded, and FACTS if it is embedded; it frees
 * storage_of_key. */
struct legacy_stream {
    ckpt_file *f;
    source *src;
    struct pickle_facts *facts; /* of the main pickle */
    bool embedded;              /* the stream is a bytes object in a pickle: F does not get its facts */
    ckpt_value *root;
    map *storage_of_key; /* key -> index into storages */
    struct legacy_storage *storages;
    size_t nstorages, cap_storages;
    ckpt_error *err;
};

/* legacy_stream_read - reads the pickles of LEGACY_STREAM, and locates its storages. */
ckpt_status legacy_stream_read(struct legacy_stream *legacy_stream);
/* legacy_stream_find_storage - sets *STORAGE to the storage PID of the struct legacy_stream USER; for
 * graph_input.find_storage. */
ckpt_status legacy_stream_find_storage(void *user, const struct torch_pid *pid, struct storage *storage,
                                       ckpt_error *err);
/* legacy_stream_read_storage - reads BYTES, the argument of torch.storage._load_from_bytes: a stream whose
 * main pickle is one storage. Sets src (takes a reference), off, dtype, numel, nbytes and location of
 * STORAGE. */
ckpt_status legacy_stream_read_storage(ckpt_file *f, source *bytes, struct storage *storage, ckpt_error *err);
