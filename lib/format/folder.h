/* folder.h - lists the files in a folder and finds the checkpoint in it. */
#ifndef FORMAT_FOLDER_H
#define FORMAT_FOLDER_H

#include "format/format.h"

struct folder {
    unsigned nindexes, nsingle;             /* how many indexes and single files there are */
    char index_file[256], single_file[256]; /* the preferred index and single file; empty: none */
    unsigned safetensors_indexes;
    unsigned nothers; /* other checkpoints; companions (folder_is_companion) do not count */
    char other[256];  /* the first other checkpoint by name; empty: none */
    unsigned nsteps;  /* how many names are those of a trainer's folder of a step or epoch */
    unsigned nlisted; /* how many names folder_is_checkpoint accepts */
};

/* ---- files and folders on disk or, if ARCHIVE is not NULL, in that archive (members.h) */

/* path_exists - returns true if there is a file or folder PATH; path_is_folder - if PATH is a folder. */
bool path_exists(const source *archive, const char *path);
bool path_is_folder(const source *archive, const char *path);
/* has_folder - returns true if F is a file of a folder, so that other files may be next to it: on disk or in
 * an archive, but not standard input. */
bool has_folder(const ckpt_file *f);
/* folder_of - returns the start of the path of the file F up to its name: empty, or with '/' at the end, or
 * with '!' if the file is at the top of an archive. */
ckpt_str folder_of(const ckpt_file *f);
/* name_of - returns the rest of that path. */
ckpt_str name_of(const ckpt_file *f);
/* folder_list - lists the names in the folder PATH of F, in the same archive or on disk as F, that MATCH
 * accepts, in natural order. Allocates from F's arena. */
ckpt_status folder_list(const ckpt_file *f, const char *path, bool (*match)(ckpt_str name), ckpt_str **out,
                        size_t *n, ckpt_error *err);
/* folder_list_all - lists all names except "." and "..". */
ckpt_status folder_list_all(const ckpt_file *f, const char *path, ckpt_str **out, size_t *n, ckpt_error *err);
/* folder_list_on_disk - does folder_list for a folder on disk; NULL for MATCH: folder_list_all. Allocates
 * from A. */
ckpt_status folder_list_on_disk(arena *a, const char *path, bool (*match)(ckpt_str name), ckpt_str **out,
                                size_t *n, ckpt_error *err);
/* folder_scan - finds the checkpoints among the N NAMES of a folder. */
void folder_scan(const ckpt_str *names, size_t n, struct folder *out);
/* folder_shows_model - returns true if a folder with the file NAME is opened as one checkpoint: by an index,
 * a single file such as model.safetensors, or a shard. */
bool folder_shows_model(ckpt_str name);
/* folder_is_companion - returns true for files next to the weights of a model, such as optimizer.pt, and for
 * shards of the weights. */
bool folder_is_companion(ckpt_str name);
/* folder_is_later_part - returns true for all files of a split GGUF but the first, by which all are read. */
bool folder_is_later_part(ckpt_str name);
/* folder_is_data_file - returns true if NAME is that of a data file of a Distributed Checkpoint. */
static inline bool folder_is_data_file(ckpt_str name) { return str_ends(name, STR_LIT(".distcp")); }
/* folder_has - returns true if the folder PATH has a file that matches NAME, which may have a `*`. */
bool folder_has(const source *archive, const char *path, const char *name);
/* folder_file_has - returns true if TEXT is in the first or last 64 KiB of the file NAME of the folder
 * PATH. */
bool folder_file_has(source *archive, const char *path, const char *name, const char *text);
/* probe_has - returns true if NAME is in the folder P. */
bool probe_has(const struct probe *p, const char *name);
/* probe_matches - returns true if MATCH is true for a name in the folder P. */
bool probe_matches(const struct probe *p, bool (*match)(ckpt_str name));
/* probe_open - opens the file NAME of the folder P. NULL: there is no such file, or it cannot be read. */
source *probe_open(const struct probe *p, const char *name);
/* probe_read_head - reads at most SIZE bytes from the beginning of the file NAME of the folder P into HEAD,
 * and returns them. Empty: there is no such file, or it cannot be read. */
ckpt_str probe_read_head(const struct probe *p, const char *name, char *head, size_t size);
/* folder_is_checkpoint - returns true if NAME has the suffix of a checkpoint, or is the name of an index or
 * of a step's folder. */
bool folder_is_checkpoint(ckpt_str name);
/* folder_fail_ambiguous - fails with CKPT_EUSAGE because the folder PATH has N checkpoints and any could be
 * meant. The hint is that of folder_hint. */
ckpt_status folder_fail_ambiguous(const source *archive, const char *path, unsigned n,
                                  bool (*match)(ckpt_str name), ckpt_error *err);
/* folder_hint - sets the hint of ERR to the names in PATH that MATCH accepts, as many as fit. */
void folder_hint(const source *archive, const char *path, bool (*match)(ckpt_str name), ckpt_error *err);
/* folder_find_prefix - returns the file that PATH, which does not exist, stands for: PATH.index if PATH is
 * the prefix of a TensorFlow checkpoint, or the first shard if PATH is a pattern NAME-?????-of-00003. The
 * caller frees it. NULL: there is no such file. */
char *folder_find_prefix(const source *archive, const char *path);

/* The file name of a shard, STEM-00001-of-00003EXT. */
struct shard_name {
    ckpt_str stem, ext; /* EXT begins with a dot, or is empty */
    uint64_t number, count;
};

/* names_differ_in_numbers - returns true if A and B are equal except for the decimal numbers in them. */
bool names_differ_in_numbers(ckpt_str a, ckpt_str b);
/* The files of a folder that are one checkpoint although no index says so. */
struct folder_set {
    ckpt_str first;   /* the first of their names; empty: there is no such set */
    bool is_numbered; /* they are called STEM-00001-of-00003EXT, so that missing ones are known */
    size_t n;         /* how many there are */
};
/* folder_find_set - finds among the N NAMES of a folder without an index and without a single file the shards
 * that are there: those of one set STEM-00001-of-00003.safetensors (or .bin), or several .safetensors whose
 * names differ only in numbers. False: there are none, or there are other checkpoints, too. */
bool folder_find_set(const ckpt_str *names, size_t n, struct folder_set *out);
/* folder_set_has - returns true if NAME is one of the files of SET. */
bool folder_set_has(const struct folder_set *set, ckpt_str name);
/* shard_name_parse - sets *OUT to the parts of NAME. False: NAME has a different form. The number "?????" is
 * read as 0. */
bool shard_name_parse(ckpt_str name, struct shard_name *out);
/* shard_name_make - returns the name S with the number NUMBER, allocated from A. .ptr NULL: no memory. */
ckpt_str shard_name_make(arena *a, const struct shard_name *s, uint64_t number);

#endif
