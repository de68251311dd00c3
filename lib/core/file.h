/* file.h - a checkpoint that was read: its value graph, its table, facts for reports. */
#pragma once

#include <pthread.h>

#include "base/notice.h"
#include "core/table.h"

struct check;
struct ckpt_file;
struct format;
struct probe;
struct stat;

/* The arguments of format_open (format/registry.h), and what it keeps while it opens the file. */
struct opening {
    const char *path; /* a folder, or the name of SRC in messages */
    /* format_open takes over the reference; NULL: PATH is a folder; an archive (members.h): PATH is a folder
     * in it */
    source *src;
    const ckpt_limits *limits;  /* or NULL */
    const struct format *only;  /* the format that the file must have; NULL: any */
    struct check *check;        /* receives the faults; NULL: a fault is an error */
    struct source_watch *watch; /* progress and cancellation of the reading, or NULL */
    const char *const *wanted;  /* as in ckpt_open_options */
    size_t nwanted;
    const struct format **recognized; /* is set to the format even if reading fails, or NULL; NULL: not set */
    /* OPEN_SALVAGE: a tensor with missing bytes becomes a row without data and is listed as lost.
     * OPEN_SALVAGE_PART: the same for a shard or embedded file of a file that is opened with OPEN_SALVAGE. */
    enum { OPEN_WHOLE, OPEN_SALVAGE, OPEN_SALVAGE_PART } how;
    /* The set that the file is a shard of, or in a shard of; NULL: none. FIND_NAME returns NAME as SET lists
     * it, in a text that lives as long as the set; .ptr NULL: SET does not list it. */
    const void *set;
    ckpt_str (*find_name)(const void *set, ckpt_str name);
    struct probe *probe;          /* set by format_open: what the format was recognized by */
    struct ckpt_file *taken_from; /* set by file_take_over; NULL: none */
};

/* What a pickle stream did, for verdicts: opcodes and names in order. */
struct pickle_facts {
    ckpt_str record;         /* "archive/data.pkl"; empty: the file itself */
    int protocol;            /* of its PROTO opcode, -1: none */
    uint64_t first_use[256]; /* offset of each opcode's first use, UINT64_MAX: not used */
    ckpt_value **globals;    /* GLOBAL nodes in order of execution; for each name at least its first */
    ckpt_value **calls;      /* CALL nodes in order of execution */
    ckpt_value **persids;    /* PERSID nodes in order of execution */
    /* BUILD, APPEND(S) … in order of execution; none on a list, dict or set of the builtin type */
    struct pickle_mutation *mutations;
    size_t nglobals, ncalls, npersids, nmutations;
    size_t cap_globals, cap_calls, cap_persids, cap_mutations;
};

struct pickle_mutation {
    uint64_t offset;
    uint8_t opcode;
    const ckpt_value *target;
};

/* The nodes that cannot be written as they are (objects such as modules), and what is written instead: their
 * state dicts, as OrderedDicts. */
struct replacements {
    map *index_of; /* node -> index into items */
    struct replacement {
        const ckpt_value *of;
        ckpt_value *by;
    } *items;
    size_t n, cap;
};

/* What the last ckpt_inspect found. */
struct inspection {
    arena *a; /* holds the rest */
    const ckpt_weights *weights;
    size_t nweights;
    const ckpt_wrapper *wrappers;
    size_t nwrappers;
    const ckpt_quantized *quantized; /* schemes of quantized weights */
    size_t nquantized;
    ckpt_adapter adapter;
};

/* A file that is a list of names, as programs print them. */
struct name_list {
    bool is_one;           /* only the names of its tensors are known, and perhaps the shapes */
    bool is_load_error;    /* the names are those by which a model differs from the checkpoint it refused */
    uint32_t first_absent; /* if so, the rows from this one on are not in the model */
    bool is_incomplete;    /* a printed model, which may have parameters that are not shown */
};

/* A tensor that is no weight, but describes what the others belong to. Other formats have no place for it. */
struct description {
    uint32_t row;                 /* CKPT_NO_TENSOR: none */
    const char *name, *full_name; /* what it is: "the object graph", and of what class's object */
};

/* What salvage found to be lost. */
struct losses {
    struct zip *zip; /* the archive whose members zip_salvage compared with their checksums */
    bool *of_row;    /* by row: whether it is lost; NULL: none is */
    ckpt_lost *items;
    size_t n, cap;
    uint64_t parts; /* see ckpt_lost_parts */
};

/* How files of this kind are loaded, as far as it can be predicted (op/weights_only.h). */
struct loading {
    const char *by;   /* the function that loads them; NULL: no prediction is made */
    ckpt_str refusal; /* why it refuses the file, whatever it holds; empty: no reason */
};

/* The storages of a file by what refers to them. */
struct storage_index {
    map *by_key; /* key -> storage, of the first NINDEXED storages */
    size_t nindexed;
    ckpt_str last_key;   /* the greatest key given to file_storage_add, in the order of numbers */
    uint32_t last_found; /* the storage that file_storage_find found last */
    map *by_node;        /* node that holds bytes itself (array, stream in a bytes object) -> storage */
};

struct ckpt_file {
    arena *a;
    char *path;
    const char *folder; /* if PATH is a folder: where its files are, PATH or a folder in it; if PATH is a file
                           in an archive: the folder with it */
    size_t holders;     /* calls of file_hold that had no file_release yet */
    source *src;        /* NULL for directories */
    source *archive;    /* the archive that PATH is in, see format/files/members.h; NULL: it is on disk */
    uint64_t nbytes;
    const struct format *format;
    ckpt_limits limits;            /* defaults filled in */
    ckpt_value *root;              /* NULL: the file has only tensors */
    bool root_is_table;            /* during reading: the pairs of ROOT, which has none yet, are the rows */
    bool has_unique_names;         /* no two tensors have the same name; false: unknown */
    struct lazy_pairs *root_pairs; /* they are, since the file was read; else NULL */
    struct replacements replacements;
    struct table table;
    ckpt_leaf *leaves;
    size_t nleaves, cap_leaves;
    pthread_mutex_t lock; /* protects notices and names: several threads that read may add to them */
    struct notices notices;
    ckpt_str producer; /* the program that wrote the file */
    ckpt_ranks ranks;  /* how many ranks wrote it, and how; .ranks is 0 if that is unknown */
    bool executes_code;
    bool has_typed_keys; /* the keys 1 and '1' of a mapping are different keys */
    struct loading loading;
    bool dots_are_literal; /* names are keys as they stand (safetensors): '.' does not nest */
    bool rows_changed;     /* op/row_change changed rows: the output is no copy of the file */
    bool narrowed;         /* reduced to some of its tensors by ckpt_file_narrow; it cannot be written */
    struct name_list name_list;
    uint64_t unaccounted; /* bytes in the records of storages that no tensor has */
    uint64_t data_offset; /* only tensors from here to the end of SRC; 0: the format has no such offset */
    struct pickle_facts **pickles;
    size_t npickles, cap_pickles;
    ckpt_value *metadata;        /* __metadata__ of safetensors, pairs of GGUF … as DICT of str, or NULL */
    ckpt_value *metadata_values; /* the keys of METADATA with values of their own types; NULL: all are str */
    struct description description;
    uint32_t first_tie, nties; /* the ties in METADATA: so many rows, from this one on */
    bool whole_checksum; /* checksums outside of the table cover all bytes of tensors: of the compressed file,
                            of a member with all tensors */
    bool ignore_crc;
    ckpt_dtype digest_dtype; /* as ckpt_file_digest_as set it; NONE: each tensor has its own */
    bool ignore_case;        /* ckpt_file_narrow ignores the case of ASCII letters */
    const char **read_paths; /* files of the checkpoint that are not parts, such as DeepSpeed's `latest` */
    size_t nread_paths, cap_read_paths;
    bool leaves_out;  /* a part of the files was not read, as a notice says: a strict output is refused */
    bool owns_folder; /* every file in FOLDER may belong to it, opened or not */
    uint64_t files_in_set; /* > 1: the file is one of so many shards, by its name, and was opened alone */
    /* siblings_list (format/hub), for the floors that cannot include it; NULL: the file has no folder */
    ckpt_status (*list_siblings)(const struct ckpt_file *f, arena *a, map **names, ckpt_error *err);
    /* own_files_visit (format/files), for the same floors; NULL: the file was not opened */
    ckpt_status (*visit_files)(const struct ckpt_file *f,
                               ckpt_status (*visit)(void *user, const struct stat *st, ckpt_error *err),
                               void *user, ckpt_error *err);
    ckpt_file **parts; /* shards or embedded checkpoints, which are closed with the file */
    size_t nparts, cap_parts;
    ckpt_file **others; /* files of which tensors are made (edit, average), which are closed with the file */
    size_t nothers, cap_others;
    map *names; /* joined name -> number of the tensor, made on first use */
    struct storage_index storages;
    void *container; /* what the format keeps, such as its archive */
    void (*container_free)(void *);
    /* add_opaque_storages - adds the storages that only opaque objects refer to, for a writer; NULL: none. */
    ckpt_status (*add_opaque_storages)(struct ckpt_file *f, ckpt_error *err);
    struct opening *opening; /* NULL: it is open */
    struct check *check;     /* faults are reported there and reading continues; usually NULL */
    bool salvage;            /* damaged tensors are lost, not an error */
    struct losses losses;
    struct inspection inspected;
};

/* file_new - makes a file without tensors that reads SRC (taken over; may be NULL). */
ckpt_status file_new(const char *path, source *src, const ckpt_limits *limits, ckpt_file **out,
                     ckpt_error *err);
void file_free(ckpt_file *f);
/* file_take_over - moves all that OTHER has into F, which keeps its opening, while F is read.
 * file_move_home - when that ends, moves it back to OTHER, to which its sources may refer, frees F and
 * returns OTHER; returns F if it has taken over nothing. */
void file_take_over(ckpt_file *f, ckpt_file *other);
ckpt_file *file_move_home(ckpt_file *f);
/* file_hold, file_release - count the holders of F; the last file_release frees it. Only for ckpt_close and
 * for plans: files that the library opens for itself are freed by file_free. */
void file_hold(ckpt_file *f);
void file_release(ckpt_file *f);
/* file_or_empty - returns F or, if F is NULL, a file without tensors, storages, values and notices, for
 * getters. */
extern const ckpt_file file_none;
static inline const ckpt_file *file_or_empty(const ckpt_file *f) { return f ? f : &file_none; }
/* file_note_read - notes that PATH, which is no part of F, was read and belongs to F. False: no memory. */
bool file_note_read(ckpt_file *f, const char *path);
/* file_row_is_tie - returns true if ROW is a tie, whose name the file has only in its metadata. */
static inline bool file_row_is_tie(const ckpt_file *f, uint32_t row)
{
    return f->nties && row >= f->first_tie && row - f->first_tie < f->nties;
}
/* file_explain_full_arena - returns ST; but CKPT_ELIMIT if ST is CKPT_ENOMEM because F's arena is full. */
ckpt_status file_explain_full_arena(const ckpt_file *f, ckpt_status st, ckpt_error *err);
/* file_check_unchanged - calls source_check_unchanged for F, its shards and the other files that it needs;
 * returns the first error. */
ckpt_status file_check_unchanged(ckpt_file *f, ckpt_error *err);
/* file_status_after_read - returns ST, the status of reading from F when it was already open; but
 * CKPT_ECHANGED if F has changed since it was opened and ST is CKPT_OK or a status about F's content. */
ckpt_status file_status_after_read(ckpt_file *f, ckpt_status st, ckpt_error *err);
/* file_notice - adds a formatted notice, escaped, unless FILE has an equal one. FILE is a ckpt_file *,
 * untyped so that this function can serve as a callback. */
void file_notice(void *file, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* file_note_loss - adds a notice as file_notice does: a part of F, of which it is not known which tensors
 * it had, is lost. For salvage. */
void file_note_loss(ckpt_file *f, const char *fmt, ...) CKPT_PRINTF(2, 3);
/* file_add_leaf - adds VALUE under PATH, which F keeps; fails if F has max_tensors values already. */
ckpt_status file_add_leaf(ckpt_file *f, const ckpt_path_elem *path, uint32_t count, const ckpt_value *value,
                          ckpt_error *err);
struct pickle_facts *file_add_pickle(ckpt_file *f, ckpt_str record); /* NULL: no memory */
/* file_add_pickles_of - adds to F the facts of the pickles of FROM, which must live as long as F. */
ckpt_status file_add_pickles_of(ckpt_file *f, const ckpt_file *from, ckpt_error *err);
/* file_needs_protocol_3 - returns true if a pickle of F, of protocol 3 or later, has a name that Python 3
 * would translate to a different name in a pickle of an earlier protocol. */
bool file_needs_protocol_3(const ckpt_file *f);
/* file_find_replacement - does file_replacement_of for the values that may have one. */
const ckpt_value *file_find_replacement(const ckpt_file *f, const ckpt_value *value);
/* file_replacement_of - returns the node that VALUE is read as; usually VALUE itself. A writer writes it
 * instead of VALUE, unless VALUE has the flag VALUE_WRAPS: then VALUE can be written. */
static inline const ckpt_value *file_replacement_of(const ckpt_file *f, const ckpt_value *value)
{
    bool is_usual = !(value->flags & VALUE_WRAPS) && !f->replacements.n;
    return is_usual ? value : file_find_replacement(f, value);
}
/* file_set_replacement - makes file_replacement_of return BY for VALUE. False: no memory. */
bool file_set_replacement(ckpt_file *f, const ckpt_value *value, ckpt_value *by);
/* file_add_replacements_of - adds to F the replacements of PART, so that a node is looked up in F alone,
 * however many parts it has. False: no memory. */
bool file_add_replacements_of(ckpt_file *f, const ckpt_file *part);
/* file_index_storage_keys - returns F->storages.by_key with all storages of the table; NULL: no memory. */
map *file_index_storage_keys(ckpt_file *f);
/* file_storage_find - sets *INDEX to the storage that file_storage_add added as KEY, or CKPT_NO_STORAGE. */
ckpt_status file_storage_find(ckpt_file *f, ckpt_str key, uint32_t *index, ckpt_error *err);
/* file_storage_add - adds a storage as table_add_storage does; file_storage_find finds it by its key. */
ckpt_status file_storage_add(ckpt_file *f, struct storage *storage, uint32_t *index, ckpt_error *err);
/* file_storage_held_by - returns the storage in F's own table whose bytes VALUE itself holds, or
 * CKPT_NO_STORAGE. */
uint32_t file_storage_held_by(const ckpt_file *f, const ckpt_value *value);
/* file_index_names - makes the name index; false: no memory. */
bool file_index_names(ckpt_file *f);
/* file_find_tensor - returns the number of the tensor with the joined name NAME, or CKPT_NO_TENSOR. If there
 * is no memory for the index of names, f->names stays NULL. */
uint32_t file_find_tensor(ckpt_file *f, ckpt_str name);
/* file_count_common - returns how many components of NAME are components of OTHER, too. */
size_t file_count_common(ckpt_str name, ckpt_str other);
/* file_find_nearest - returns that of the names of F's tensors which has the most components in common with
 * NAME; empty: none has any. */
ckpt_str file_find_nearest(const ckpt_file *f, ckpt_str name);
/* file_set_view_limit - sets the table's max_expanded to the caller's limit, or the default for the file. */
void file_set_view_limit(ckpt_file *f);
/* file_max_unpacked - returns how many bytes PACKED compressed bytes of F may unpack to: max_expanded of its
 * limits, else 1 GiB or 100 times PACKED, whichever is more. */
uint64_t file_max_unpacked(const ckpt_file *f, uint64_t packed);
/* file_raise_budget - raises the maximum of F's arena to 16 * METADATA_BYTES + 64 MiB for parsing metadata of
 * this size, unless the caller set a maximum. Bytes beyond max_header do not count. */
void file_raise_budget(ckpt_file *f, uint64_t metadata_bytes);
