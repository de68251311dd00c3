/* scan.h - takes a file apart for `ckpt scan`, down to each pickle and to bytes that can only be data.
 * Private to lib/scan. ERR may not be NULL. */
#pragma once

#include "core/findings.h"
#include "format/format.h"

enum scan_role {
    SCAN_FILE,    /* the file that the caller named */
    SCAN_MEMBER,  /* a member of an archive */
    SCAN_STORAGE, /* a record data/<key> of a torch archive: the numbers of a tensor */
    SCAN_CHUNK,   /* a chunk of a Zarr array: numbers, perhaps compressed */
    SCAN_VALUE    /* a text or bytes value of a pickle or of MessagePack, or stray bytes */
};

/* A zip archive that was found, so that it is scanned only once. Readers find an archive by its end record
 * and central directory; the offsets of both are in ROOT, see source_root. */
struct opened_zip {
    const source *root;
    uint64_t end_record; /* UINT64_MAX: there is none */
    uint64_t directory;  /* UINT64_MAX: the archive is still being scanned */
    bool is_stray;       /* found in bytes that belong to nothing else in ROOT */
};

struct scan_extent {
    uint64_t offset; /* of a member's bytes in the file; CKPT_NO_OFFSET: they are compressed there */
    uint64_t size;   /* uncompressed */
};

/* The state of the scan of one file; `x` in all of lib/scan. */
struct scanner {
    struct scan *scan;
    arena *a;          /* names, archives */
    const char *path;  /* of the file, for messages of the formats' readers */
    uint32_t depth;    /* how many archives and values the current bytes are nested in */
    uint64_t unpacked; /* bytes decompressed so far */
    uint64_t file_size;
    uint64_t member_bytes;          /* the sizes of all members of zip archives scanned so far, added up */
    const char *format;             /* of the file; NULL: not recognized yet */
    struct opened_zip *opened_zips; /* archives in sources that are still being scanned */
    size_t nopened_zips, cap_opened_zips;
    bool in_chunk;        /* the current bytes are a chunk of a Zarr array, or what one decompresses to */
    bool in_stray_bytes;  /* the current bytes belong to nothing in the file around them */
    bool has_pickle_name; /* the current file or member has a suffix of pickles, such as ".pkl" */
    bool has_text_name;   /* it has a name of text, such as README: no loader of pickles opens it */
};

/* The bytes that a function scans. */
struct scanned {
    struct scanner *x;
    source *src;    /* may be NULL if only WHERE is used */
    ckpt_str where; /* member of the archive, for findings; empty: the file itself */
};
/* SCAN_FOUND - reports a finding of RULE at offset AT of IN, a struct scanned, as scan_found() does. */
#define SCAN_FOUND(in, rule, at, ...)                                                                        \
    scan_found((in)->x->scan, (rule), (in)->where, (in)->src, (at), __VA_ARGS__)

/* scan_function - takes IN apart, reports what it finds, and adds to *KNOWN_BYTES how many of the
 * bytes have a known purpose. A status other than CKPT_OK means that scanning itself failed (memory, disk,
 * cancelled); it is not a finding. */
typedef ckpt_status scan_function(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err);
scan_function scan_pickles, scan_legacy, scan_tar, scan_npy, scan_sstable, scan_ocdbt, scan_gguf, scan_onnx,
    scan_text, scan_zip;
/* scan_bytes - scans IN as the functions above do, whatever its format. Unless ROLE is SCAN_FILE, IN is one
 * level deeper than the bytes around it. */
ckpt_status scan_bytes(const struct scanned *in, enum scan_role role, uint64_t *known_bytes, ckpt_error *err);
/* scan_msgpack - scans IN and sets *IS_MSGPACK to true if IN is MessagePack from first byte to last. */
ckpt_status scan_msgpack(const struct scanned *in, bool *is_msgpack, uint64_t *known_bytes, ckpt_error *err);
/* scan_arrays_after_line - scans IN and sets *FOUND to true if IN is a line of JSON and then arrays of
 * numpy, as Equinox writes them; the line is at most as long as a reader's window. */
ckpt_status scan_arrays_after_line(const struct scanned *in, bool *found, uint64_t *known_bytes,
                                   ckpt_error *err);
/* scan_sentencepiece - sets *FOUND to true if SRC is a model of sentencepiece, which is data. */
ckpt_status scan_sentencepiece(struct scanner *scanner, source *src, bool *found, uint64_t *known_bytes,
                               ckpt_error *err);
/* scan_hdf5 - scans the attributes of IN, an HDF5 file; sets *ALL_READ if all of its objects were read. */
ckpt_status scan_hdf5(const struct scanned *in, bool *all_read, ckpt_error *err);
/* scan_path_leaves_folder - returns true if PATH leads out of the folder of the file that holds it, or is an
 * address, such as s3://…, which many libraries open. */
bool scan_path_leaves_folder(ckpt_str path);
/* scan_byte_patterns - searches IN, which is not taken apart, for the bytes of dangerous features. */
ckpt_status scan_byte_patterns(const struct scanned *in, bool is_hdf5, ckpt_error *err);
/* scan_compressed - unpacks and scans IN. KIND: "gzip", "zlib", "bzip2" … */
ckpt_status scan_compressed(const struct scanned *in, const char *kind, uint64_t *known_bytes,
                            ckpt_error *err);
/* scan_is_compressed - returns true if SRC begins with data that decompress as KIND. */
bool scan_is_compressed(struct scanner *scanner, source *src, const char *kind);
/* scan_max_unpacked - returns how many bytes SIZE compressed bytes may still unpack to. */
uint64_t scan_max_unpacked(const struct scanner *scanner, uint64_t size);
/* scan_is_zlib - returns true if SRC, whose first two bytes may be a zlib header, is zlib data. If TEXT, SRC
 * could be text as well: then it must unpack to a pickle. */
bool scan_is_zlib(struct scanner *scanner, source *src, bool text);
/* scan_find_packed_file - returns the compression of SRC, "zlib" or "lzma", which have no magic number, if it
 * unpacks to a pickle or another recognized file; else NULL. */
const char *scan_find_packed_file(struct scanner *scanner, source *src);
/* scan_one_pickle - scans the pickle at *POS as each kind of loader reads it, and moves *POS past its end.
 * Sets *STOPPED if it ended with STOP. */
ckpt_status scan_one_pickle(const struct scanned *in, uint64_t *pos, bool *stopped, ckpt_error *err);
/* scan_archive_at_end - scans the zip archive, if any, that readers of zip would open in IN because they
 * search for an end record at the end. The caller scans IN as something else. */
ckpt_status scan_archive_at_end(const struct scanned *in, ckpt_error *err);

/* How many opcodes of bytes that are not a pickle could be followed, and why the next could not. */
struct scan_trial {
    uint64_t opcodes;
    uint64_t failed_at;  /* offset */
    bool imports_module; /* a loader imports a module before it fails */
    ckpt_error why;
};

/* scan_is_pickle - returns true if the bytes from POS up to END run as a pickle, and not merely by chance.
 * HEAD: PROTO and a protocol number at POS are enough, because the bytes are not likely to be numbers. */
bool scan_is_pickle(const struct scanner *scanner, source *src, uint64_t pos, uint64_t end, bool head);
/* scan_try_pickle - does what scan_is_pickle does. If it returns false, it sets *TRIAL for the first pickle,
 * or a later one that imports and fails; trial->opcodes is 0 if there is none, or that one reached STOP. */
bool scan_try_pickle(const struct scanner *scanner, source *src, uint64_t pos, uint64_t end, bool head,
                     struct scan_trial *trial);
/* scan_is_pickle_name - returns true if PATH ends in a suffix of pickles, such as ".pkl"; scan_is_text_name -
 * returns true if its last component is a name of text, such as "README" or "a.csv". */
bool scan_is_pickle_name(ckpt_str path);
bool scan_is_text_name(ckpt_str path);
/* scan_check_suffix - compares the suffix of the file with its content. */
ckpt_status scan_check_suffix(struct scanner *scanner);
/* scan_count_bytes - adds NUMBER bytes of SRC to *COUNT if they are stored in the file uncompressed. */
void scan_count_bytes(const source *src, uint64_t *count, uint64_t number);
/* scan_hash_member - if the option sha256 of ckpt_scan is set: reports the member IN with its sha256, and
 * copies the sha256 to KEPT unless KEPT is NULL. */
ckpt_status scan_hash_member(const struct scanned *in, unsigned readers, uint8_t *kept, ckpt_error *err);
/* scan_report_member - reports a member at AT whose sha256 SUM is known. */
ckpt_status scan_report_member(struct scanner *scanner, ckpt_str where, unsigned readers,
                               struct scan_extent at, const uint8_t *sum);
/* scan_check_member_name - reports NAME, of the member IN whose data are at AT, if it may harm who
 * unpacks the archive. */
ckpt_status scan_check_member_name(const struct scanned *in, uint64_t at, ckpt_str name);
/* scan_check_tensor_name - reports NAME, of a tensor described at AT of IN, if it has control characters. */
ckpt_status scan_check_tensor_name(const struct scanned *in, uint64_t at, ckpt_str name);
/* scan_join_names - sets *OUT to "WHERE!NAME" in the arena, with the WHERE of IN; to NAME if that is empty. A
 * NAME with .ptr NULL means out of memory. scan_join_offset - does that for the NAME "KIND@0xAT". */
ckpt_status scan_join_names(const struct scanned *in, ckpt_str name, ckpt_str *out, ckpt_error *err);
ckpt_status scan_join_offset(const struct scanned *in, const char *kind, uint64_t at, ckpt_str *out,
                             ckpt_error *err);
/* scan_stray_bytes - scans bytes [FROM, TO) that belong to nothing in IN: some readers may open them. */
ckpt_status scan_stray_bytes(const struct scanned *in, uint64_t from, uint64_t to, ckpt_error *err);
/* scan_report_read_error - reports WHY, the error of a format's reader, as a finding at AT. If WHY is a
 * failure of scanning itself (memory, disk), returns it instead. */
ckpt_status scan_report_read_error(const struct scanned *in, uint64_t at, ckpt_error *why, ckpt_error *err);
/* scan_check_format - opens IN with the reader of FORMAT (NULL: any), and reports a fault as a finding. If
 * there is no error, sets *END, unless END is NULL, to the end of the last storage, to 1 if there is none;
 * to 0 if there is a fault. Also reports names of tensors with control characters. */
ckpt_status scan_check_format(const struct scanned *in, const char *format, uint64_t *end, ckpt_error *err);

/* The hyper-parameter of Lightning's checkpoints that names what its loader calls; see pickle_texts.c. */
#define LIGHTNING_INSTANTIATOR "_instantiator"
/* The record of pyannote.audio in such a checkpoint. */
#define PYANNOTE_RECORD "pyannote.audio"
/* The texts that scan_pickle_texts needs, for struct trace_options; NULL after the last. */
extern const char *const scan_sought_texts[];
struct scan_sought {
    uint64_t pos;   /* of the pickle */
    uint32_t texts; /* sought_texts of its struct trace_end */
    bool is_joblib; /* it has arrays of joblib between its opcodes */
};
/* scan_pickle_texts - reports what programs would import, call or run for texts in a pickle of IN. */
ckpt_status scan_pickle_texts(const struct scanned *in, struct scan_sought sought, ckpt_error *err);
/* scan_python_config - reports what mmengine would run for TEXT, a value at AT of IN that it takes for a
 * program of values; see python_config.c. */
ckpt_status scan_python_config(const struct scanned *in, uint64_t at, ckpt_str text);

/* An object of JSON that may describe a part of a Keras model; see keras.c. */
struct keras_object {
    ckpt_str module, class_name;
    ckpt_str function;        /* "config", if it is a text */
    ckpt_str file_key;        /* a key whose text may be the path of a file; empty: none */
    ckpt_str config_file_key; /* file_key of the object that is its "config" */
};
/* keras_describe_code - describes what CLASS_NAME holds if it is a class that holds code; else NULL.
 * keras_note_text - notes that OBJECT has the TEXT under KEY. keras_judge - reports OBJECT, which ends at AT,
 * if Keras runs code or uses files when it makes the object that OBJECT describes. */
const char *keras_describe_code(ckpt_str class_name);
void keras_note_text(struct keras_object *object, ckpt_str key, ckpt_str text);
ckpt_status keras_judge(const struct scanned *in, const struct keras_object *object, size_t at);

/* A text of JSON. */
struct scan_text_value {
    ckpt_str text;
    size_t at;          /* offset in the source */
    bool is_serialized; /* its key is ":serialized:", which Stable-Baselines3 gives to a pickle in base64 */
    bool is_in_spec;    /* its key is "in_spec", whose keys torch writes into Python code */
};
/* scan_base64 - scans VALUE, which is in IN, if it may be a file or pickle in base64. Reports one that is
 * serialized and no pickle. */
ckpt_status scan_base64(const struct scanned *in, struct scan_text_value value, ckpt_error *err);
/* A text below "graph_module" in the JSON of an exported program of torch; see exported_program.c. */
struct exported_text {
    ckpt_str text;
    ckpt_str key;  /* of the text, or of the array of texts that it is in */
    size_t at;     /* offset in the source */
    bool is_input; /* it is the value of an object in an array "inputs" */
};
/* exported_is_name - returns true if TEXT is an identifier of Python, or empty. exported_is_constant -
 * returns true if TEXT can be written between quotes of either kind. */
bool exported_is_name(ckpt_str text);
bool exported_is_constant(ckpt_str text);
/* exported_judge_text - reports TEXT if torch would run it as code, or if it names a function that does more
 * than compute. */
ckpt_status exported_judge_text(const struct scanned *in, const struct exported_text *text);
/* exported_judge_example_inputs - reports texts in IN, the example inputs of an exported program, that torch
 * would run as code. */
ckpt_status exported_judge_example_inputs(const struct scanned *in, ckpt_error *err);
/* scan_treespec - reports the modules that torch imports when it reads VALUE, a treespec, and keys of an
 * "in_spec" that torch would run as code. Allocates in A. */
ckpt_status scan_treespec(const struct scanned *in, struct scan_text_value value, arena *a, ckpt_error *err);
/* scan_accept_python_json - overwrites a byte order mark, NaN, Infinity and lone surrogates in the NBYTES
 * bytes at TEXT, which Python's json accepts although RFC 8259 does not, with valid JSON of the same
 * length. */
void scan_accept_python_json(char *text, size_t nbytes);
/* expression_is_arithmetic - returns true if TEXT, which a loader evaluates, is an expression as torch writes
 * it; IS_GUARD: a guard. If not, sets *FAILED_AT to the offset in TEXT of what is not allowed. */
bool expression_is_arithmetic(ckpt_str text, bool is_guard, size_t *failed_at);
/* Names of one module, with blanks between them. */
struct target_list {
    const char *module, *names;
};
/* target_list_has - returns true if one of COUNT LISTS has MODULE.NAME, exactly. */
bool target_list_has(const struct target_list *lists, size_t count, ckpt_str module, ckpt_str name);
/* The texts in an object of JSON by which skops may find code; their keys are in skops.c. */
enum skops_text {
    SKOPS_LOADER,
    SKOPS_MODULE,
    SKOPS_CLASS,
    SKOPS_METHOD,
    SKOPS_FUNCTION_MODULE,
    SKOPS_FUNCTION,
    SKOPS_GENERATOR, /* also JSON: the innermost "content" below "bit_generator" */
    SKOPS_TEXTS
};
/* What is noted of an object of JSON that may be a node of skops. */
struct skops_node {
    ckpt_str own[SKOPS_TEXTS];     /* .ptr NULL: there is none */
    ckpt_str content[SKOPS_TEXTS]; /* those of the object that is its "content" */
};
/* skops_note_text - notes in NODE that KEY of it is TEXT. skops_note_object - notes in NODE that KEY of it is
 * MEMBER, which has ended. */
void skops_note_text(struct skops_node *node, ckpt_str key, ckpt_str text);
void skops_note_object(struct skops_node *node, ckpt_str key, const struct skops_node *member);
/* skops_judge - reports NODE, which ends at AT of IN, if it is a node of skops and names what skops does not
 * trust by default. */
ckpt_status skops_judge(const struct scanned *in, const struct skops_node *node, size_t at);
/* scan_config_target - reports the TARGET that a configuration names at AT, unless it is known to be
 * harmless; .ptr NULL: it is not in the file. scan_stored_target - does that for a text in a pickle, which a
 * program may call: what is neither known to run code nor unusual is only noted. */
ckpt_status scan_config_target(const struct scanned *in, uint64_t at, ckpt_str target);
ckpt_status scan_stored_target(const struct scanned *in, uint64_t at, ckpt_str target);
/* How the value of a key of JSON or YAML names a target; see config_keys.def. */
enum scan_key { SCAN_KEY_OTHER, SCAN_KEY_ALWAYS, SCAN_KEY_DOTTED, SCAN_KEY_WITH_PARAMS, SCAN_KEY_RUNS_CODE };
enum scan_key scan_target_key(ckpt_str key);
/* scan_names_target - returns true if TEXT, under a KEY of that kind, names a target. scan_target_runs_code -
 * if TEXT, which may be something else, is the name of a function that is known to run code. */
bool scan_names_target(enum scan_key key, ckpt_str text);
bool scan_target_runs_code(ckpt_str text);
/* scan_is_dotted_name - returns true if TEXT is identifiers with dots between them, at least two.
 * scan_may_be_target - does that if it does not end in a suffix of data files, either. */
bool scan_is_dotted_name(ckpt_str text);
bool scan_may_be_target(ckpt_str text);
/* An object of JSON or a mapping of YAML, whose value of a key that counts WITH_PARAMS may name a target. */
struct target_object {
    bool has_target;    /* there is such a key, and its value may be a target */
    ckpt_str target;    /* its value; .ptr NULL: it is not known */
    uint64_t target_at; /* the offset of the value */
    size_t nkeys;
    bool has_params;
};
/* scan_note_target - notes that OBJECT has TARGET, a value at AT of a key that counts WITH_PARAMS.
 * scan_judge_object - reports the target of OBJECT, which has ended, if the other keys make it one. */
void scan_note_target(struct target_object *object, uint64_t at, ckpt_str target);
ckpt_status scan_judge_object(const struct scanned *in, const struct target_object *object);
/* What "trust_remote_code" means in a configuration. */
#define TRUSTS_CODE "by which the author allows code of a repository"
/* yolo_is_activation - returns true if TEXT, an activation that YOLO evaluates, calls nothing, or only a
 * class of torch.nn with words and numbers. yolo_is_layer - returns true if TEXT, a module or argument in a
 * list of layers, is a name that runs no code, a number, or such a call. */
bool yolo_is_activation(ckpt_str text);
bool yolo_is_layer(ckpt_str text);
/* A text that may be YAML or JSON. */
struct yaml_file {
    const struct scanned *in;
    ckpt_str name;     /* without folders */
    ckpt_str text;     /* all of IN */
    bool is_yaml_name; /* by its name, it is YAML */
};
/* scan_yaml - scans FILE if it is YAML. Sets *ALL_READ to false if FILE is called YAML and cannot be read. */
ckpt_status scan_yaml(const struct yaml_file *file, bool *all_read, ckpt_error *err);

/* kerchunk_scan_json - reports templates in FILE, which is JSON, that fsspec renders. gin_scan - reports what
 * gin imports, reads and calls for FILE, one of its configurations. */
ckpt_status kerchunk_scan_json(const struct yaml_file *file, ckpt_error *err);
ckpt_status gin_scan(const struct yaml_file *file, ckpt_error *err);

/* monai_is_config_path - returns true if MONAI takes a file at PATH for a configuration of a bundle;
 * monai_is_import - if TEXT, a value in a file, is one only in such a configuration. monai_acts_on -
 * returns true if TEXT, a value in a configuration, is an expression that MONAI evaluates and more than
 * arithmetic, or takes its value from a file outside of the folder; monai_report - reports such a TEXT at AT.
 * monai_scan_json - does all that for FILE, which is JSON. */
bool monai_is_config_path(ckpt_str path);
bool monai_is_import(ckpt_str text);
bool monai_acts_on(ckpt_str text);
ckpt_status monai_report(const struct scanned *in, uint64_t at, ckpt_str text);
ckpt_status monai_scan_json(const struct yaml_file *file, ckpt_error *err);

/* The files in the folder of the .metadata of a distributed checkpoint; those on disk are opened before the
 * scan, which may be without the right to open files. */
struct scan_siblings {
    ckpt_str *names;
    source **files; /* NULL: not opened */
    size_t n;
    ckpt_str folder; /* of the files in an archive, for findings: "OUTER!FOLDER/"; else empty */
    uint64_t *left;  /* bytes of an archive that may still be scanned as values; NULL: 16 times the files */
};
/* scan_has_siblings - returns true if the file PATH lists bytes of other files in its folder. */
bool scan_has_siblings(ckpt_str path);
#define SCAN_SIBLINGS_MAX 512u /* on disk, open at the same time */
/* scan_siblings_open - opens at most MAX_FILES files in FOLDER, in ARCHIVE (files/members.h) or, if that is
 * NULL, on disk. Those that cannot be opened are NULL. Allocates from A; the caller closes *OUT, also after a
 * failure. */
ckpt_status scan_siblings_open(arena *a, source *archive, const char *folder, uint64_t max_files,
                               struct scan_siblings *out, ckpt_error *err);
void scan_siblings_close(struct scan_siblings *siblings);
/* scan_open_sibling - opens PATH, in ARCHIVE or, if that is NULL, on disk; NULL: it is no regular file, or
 * cannot be opened. */
source *scan_open_sibling(source *archive, const char *path);
/* scan_dcp_values - scans the values that IN, a .metadata, lists, in SIBLINGS. */
ckpt_status scan_dcp_values(const struct scanned *in, const struct scan_siblings *siblings, ckpt_error *err);
/* scan_dcp_in_archive - does that for each .metadata in IN, an archive that was scanned. */
ckpt_status scan_dcp_in_archive(const struct scanned *in, ckpt_error *err);

/* The Zarr arrays among the files of an archive or folder. */
struct scan_chunks;
/* scan_is_array_metadata - returns true if PATH has a name of the metadata of an array. */
bool scan_is_array_metadata(ckpt_str path);
/* scan_chunks_open - sets *OUT to the arrays of the archive SRC; NULL: SRC cannot be opened.
 * scan_chunks_new - sets *OUT to those of ARCHIVE, which CHUNKS borrows, or, if that is NULL, on disk. Both
 * are closed by scan_chunks_close, the first with the same SCANNER, the second with NULL; CHUNKS may be
 * NULL. */
ckpt_status scan_chunks_open(struct scanner *scanner, source *src, struct scan_chunks **out, ckpt_error *err);
ckpt_status scan_chunks_new(source *archive, struct scan_chunks **out, ckpt_error *err);
void scan_chunks_close(struct scan_chunks *chunks, struct scanner *scanner);
/* scan_is_chunk - sets *IS_CHUNK to whether PATH, the name of a file in an archive that scan_chunks_open
 * opened, else its path, is a chunk of an array. */
ckpt_status scan_is_chunk(struct scan_chunks *chunks, ckpt_str path, bool *is_chunk, ckpt_error *err);

/* scan_source - does what ckpt_scan does, for SRC, whose name is PATH. SIBLINGS: see there; NULL: none. */
ckpt_status scan_source(const char *path, source *src, const struct scan_siblings *siblings,
                        struct scan *scan, ckpt_error *err);
