/* archive.h - the archives of torch.save, TorchScript and torch.package: records in one folder of a zip,
 * among them pickles and storages. */
#pragma once

#include "format/format.h"
#include "format/graph/walk.h"
#include "format/kit.h"

struct torch_archive {
    ckpt_file *f;
    zip *z;
    ckpt_str top;               /* "archive/", the prefix of every record; may be empty */
    const char *storage_folder; /* "data/": the record of storage "0" is <top>data/0<storage_suffix> */
    ckpt_str storage_prefix;    /* TOP and STORAGE_FOLDER, one after the other */
    ckpt_str storage_suffix;    /* "" or ".storage" */
    bool big_endian;
    bool no_storage_crcs;    /* no storage record has a CRC-32 */
    bool *used_entries;      /* [i]: entry i was read */
    size_t next_entry;       /* 1 + index of the last storage that was found: probably the next storage */
    buf record_name;         /* buffer for the name of a record */
    source **pickle_sources; /* the pickles that were read: spans of nodes refer to them */
    size_t npickle_sources, cap_pickle_sources;
    const struct zip_entry *last_pickle; /* the last pickle that was read */
};

/* torch_has_folder - returns true if ARCHIVE has an entry whose name begins with TOP and FOLDER ("data/"). */
bool torch_has_folder(const zip *archive, ckpt_str top, const char *folder);
/* torch_archive_find_top - finds the folder whose data.pkl is the checkpoint: the folder of the first entry,
 * which torch uses, or, if that has no data.pkl, the first folder that has one. In the latter case,
 * *AMBIGUOUS is true if another folder has one, too. False: no folder has one. */
bool torch_archive_find_top(const zip *archive, ckpt_str *top, bool *ambiguous);
/* torch_archive_lacks_pickle - returns true if ARCHIVE has the storages or the program text of an archive of
 * torch in one folder, but no data.pkl. Sets *TOP to that folder. Another pickle in it is no substitute. */
bool torch_archive_lacks_pickle(const zip *archive, ckpt_str *top);
/* torch_archive_new - makes an archive of the zip that F's probe opened. F frees it. TOP must live as long as
 * the zip. */
ckpt_status torch_archive_new(ckpt_file *f, ckpt_str top, struct torch_archive **out, ckpt_error *err);
/* torch_archive_set_storage_names - sets storage_folder and storage_suffix; false: no memory. */
bool torch_archive_set_storage_names(struct torch_archive *ta, const char *folder, const char *suffix);
/* torch_archive_find - returns the index of record NAME (without top) in z->entries, or -1. Ignores case. */
int64_t torch_archive_find(struct torch_archive *ta, const char *name);
/* torch_archive_require - sets *INDEX to the index of record NAME; CKPT_ETRUNCATED if it is missing. */
ckpt_status torch_archive_require(struct torch_archive *ta, const char *name, size_t *index, ckpt_error *err);
/* torch_archive_note_refusal - records WHY torch.load refuses this file; the first reason counts. */
void torch_archive_note_refusal(struct torch_archive *ta, ckpt_str why);
bool torch_archive_has(struct torch_archive *ta, const char *name);
/* torch_archive_open_record - opens entry INDEX; refuses it if a second entry has the same name. */
ckpt_status torch_archive_open_record(struct torch_archive *ta, size_t index, source **out, ckpt_error *err);
/* torch_archive_payload_offset - returns the file offset of the bytes of entry INDEX. CKPT_NO_OFFSET: they
 * are compressed, or the entry is not located yet. */
uint64_t torch_archive_payload_offset(const struct torch_archive *ta, size_t index);
/* torch_archive_add_context - adds the name of entry INDEX to *ERR, and its offset if *ERR has none. */
void torch_archive_add_context(const struct torch_archive *ta, size_t index, ckpt_error *err);
/* torch_archive_read_text - reads record NAME. OUT->ptr is NULL if the record is missing, is longer than MAX
 * bytes, or has a fault that salvage found. */
ckpt_status torch_archive_read_text(struct torch_archive *ta, const char *name, uint64_t max, ckpt_str *out,
                                    ckpt_error *err);
/* torch_archive_read_byteorder - sets big_endian from the record "byteorder", if there is one. */
ckpt_status torch_archive_read_byteorder(struct torch_archive *ta, ckpt_error *err);
/* torch_archive_run_pickle - reads the pickle in entry INDEX and sets *ROOT to its value. */
ckpt_status torch_archive_run_pickle(struct torch_archive *ta, size_t index, ckpt_value **root,
                                     ckpt_error *err);
/* torch_archive_add_tensor - adds the tensor NAME, which TENSOR describes (dtype, shape, stride …). Its
 * storage is all of the record RECORD (without top). */
ckpt_status torch_archive_add_tensor(struct torch_archive *ta, struct kit *kit, ckpt_str name,
                                     const char *record, const ckpt_tensor *tensor);
struct graph_input torch_archive_get_graph_input(struct torch_archive *ta);
/* torch_archive_count_unused - adds the bytes of the unused storage records to f->unaccounted. Sets
 * f->add_opaque_storages. */
void torch_archive_count_unused(struct torch_archive *ta);

/* torch_embed_archive - opens the record <top>/RECORD, a torch.save archive, and puts its root into MAPPING
 * as the value of KEY. PREFIX and STEPS, NPREFIX long, are the path of MAPPING. */
ckpt_status torch_embed_archive(struct torch_archive *ta, const char *record, ckpt_value *mapping,
                                const ckpt_path_elem *prefix, const struct step *steps, uint32_t nprefix,
                                ckpt_str key, ckpt_error *err);

/* script_json_find_top - returns true if ARCHIVE is TorchScript of torch 1.0 to 1.3. Sets *TOP to the folder
 * of its model.json. */
bool script_json_find_top(const zip *archive, ckpt_str *top);
/* script_json_read - fills F from the zip of its probe: TorchScript of torch 1.0 to 1.3, its model.json in
 * TOP. */
ckpt_status script_json_read(ckpt_file *f, ckpt_str top, ckpt_error *err);
