/*
 * mkset.c - writes a checkpoint of many files, as many ranks write it, without data: all tensors are holes,
 * so that terabytes take no space.
 *
 *   mkset safetensors|dcp TENSORS FILES FOLDER
 *
 *   safetensors   TENSORS of 10 MiB in FILES shards, each of which has every FILES-th, and their index
 *   dcp           a Distributed Checkpoint as torch writes it after it has gathered the plans of FILES ranks:
 *                 TENSORS of 10 MiB, each in CHUNKS along dimension 0
 *
 * Prints the size of the metadata: of the index and the headers of all shards, or of .metadata.
 */
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"

#define ROWS         2560u
#define COLUMNS      1024u
#define TENSOR_BYTES (4ull * ROWS * COLUMNS)
#define CHUNKS       4u
#define CHUNK_BYTES  (TENSOR_BYTES / CHUNKS)
#define ITEM_BYTES   (CHUNK_BYTES + 1280) /* an archive of torch.save with a chunk */

static uint64_t ntensors, nfiles;
static const char *folder;

static void format_tensor_name(uint64_t i, char name[128])
{
    static const char *const weights[] = {"gate_proj", "up_proj", "down_proj"};
    (void)snprintf(name, 128, "model.layers.%" PRIu64 ".mlp.experts.%" PRIu64 ".%s.weight", i / 768,
                   i / 3 % 256, weights[i % 3]);
}

/* write_file - writes TEXT, and after it a hole of HOLE bytes, to the file NAME of the folder. */
static void write_file(const char *name, const struct text *text, uint64_t hole)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(text->bytes, 1, text->len, out) != text->len || fflush(out) != 0 ||
        ftruncate(fileno(out), (off_t)(text->len + hole)) != 0 || fclose(out) != 0)
        die(path);
}

/* ------------------------------------------------------------ safetensors */

/* write_shard - writes shard NUMBER and returns the size of its header. */
static uint64_t write_shard(uint64_t number, const char *file)
{
    struct text header = {0}, file_text = {0};
    char name[128], line[512];
    uint64_t n = 0;
    append_str(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint64_t i = number; i < ntensors; i += nfiles, n++) {
        format_tensor_name(i, name);
        (void)snprintf(line, sizeof line,
                       ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%u,%u],\"data_offsets\":[%llu,%llu]}", name,
                       ROWS, COLUMNS, n * TENSOR_BYTES, (n + 1) * TENSOR_BYTES);
        append_str(&header, line);
    }
    append_str(&header, "}");
    while (header.len % 8)
        append_str(&header, " ");
    append_le(&file_text, header.len, 8);
    append(&file_text, header.bytes, header.len);
    write_file(file, &file_text, n * TENSOR_BYTES);
    uint64_t written = file_text.len;
    free(header.bytes);
    free(file_text.bytes);
    return written;
}

static void format_shard_name(uint64_t number, char name[64])
{
    (void)snprintf(name, 64, "model-%05" PRIu64 "-of-%05" PRIu64 ".safetensors", number + 1, nfiles);
}

static uint64_t write_safetensors(void)
{
    struct text index = {0};
    char name[128], file[64], line[512];
    uint64_t written = 0;
    (void)snprintf(line, sizeof line, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{",
                   ntensors * TENSOR_BYTES);
    append_str(&index, line);
    for (uint64_t i = 0; i < ntensors; i++) {
        format_tensor_name(i, name);
        format_shard_name(i % nfiles, file);
        (void)snprintf(line, sizeof line, "%s\"%s\":\"%s\"", i ? "," : "", name, file);
        append_str(&index, line);
    }
    append_str(&index, "}}");
    for (uint64_t i = 0; i < nfiles; i++) {
        format_shard_name(i, file);
        written += write_shard(i, file);
    }
    write_file("model.safetensors.index.json", &index, 0);
    return written + index.len;
}

/* ---------------------------------------------------- Distributed Checkpoint */

#define METADATA   "torch.distributed.checkpoint.metadata\n"
#define FILESYSTEM "torch.distributed.checkpoint.filesystem\n"

static void begin_object(struct text *p, const char *class)
{
    append_pickle_shared(p, class, true);
    append_str(p, ")\x81"); /* EMPTY_TUPLE, NEWOBJ */
    append_pickle_put(p);
    append_str(p, "}"); /* its attributes */
    append_pickle_put(p);
    append_str(p, "(");
}

static void end_object(struct text *p) { append_str(p, "ub"); /* SETITEMS, BUILD */ }

/* append_size - appends torch.Size((ROW, COLUMN)). */
static void append_size(struct text *p, uint64_t row, uint64_t column)
{
    append_pickle_shared(p, "torch\nSize\n", true);
    append_pickle_int(p, row);
    append_pickle_int(p, column);
    append_str(p, "\x86"); /* TUPLE2 */
    append_pickle_put(p);
    append_str(p, "\x85R"); /* TUPLE1, REDUCE */
    append_pickle_put(p);
}

/* append_properties - appends the TensorProperties of a contiguous tensor of float32. */
static void append_properties(struct text *p)
{
    append_pickle_shared(p, METADATA "TensorProperties\n", true);
    append_str(p, ")\x81");
    append_pickle_put(p);
    append_str(p, "(");
    append_pickle_shared(p, "torch\nfloat32\n", true);
    append_pickle_shared(p, "torch.serialization\n_get_layout\n", true);
    append_pickle_shared(p, "torch.strided", false);
    append_str(p, "\x85R\x89"); /* not requires_grad */
    append_pickle_shared(p, METADATA "_MEM_FORMAT_ENCODING\n", true);
    append_str(p, "K");
    append_le(p, 0, 1);
    append_str(p, "\x85R\x89tb"); /* contiguous; not in pinned memory */
}

static void append_tensor(struct text *p)
{
    begin_object(p, METADATA "TensorStorageMetadata\n");
    append_pickle_shared(p, "properties", false);
    append_properties(p);
    append_pickle_shared(p, "size", false);
    append_size(p, ROWS, COLUMNS);
    append_pickle_shared(p, "chunks", false);
    append_str(p, "]");
    append_pickle_put(p);
    append_str(p, "(");
    for (uint64_t i = 0; i < CHUNKS; i++) {
        begin_object(p, METADATA "ChunkStorageMetadata\n");
        append_pickle_shared(p, "offsets", false);
        append_size(p, i * (ROWS / CHUNKS), 0);
        append_pickle_shared(p, "sizes", false);
        append_size(p, ROWS / CHUNKS, COLUMNS);
        end_object(p);
    }
    append_str(p, "e"); /* APPENDS */
    end_object(p);
}

/* begin_batch - after each 1000 pairs of a dict begins the next SETITEMS, as CPython's pickler does. */
static void begin_batch(struct text *p, uint64_t pair)
{
    if (pair % 1000 == 0)
        append_str(p, pair ? "u(" : "(");
}

/* append_item - appends the MetadataIndex and the _StorageInfo of chunk NUMBER, item ITEM of the file whose
 * name has the index FILE in the memo. */
static void append_item(struct text *p, uint64_t number, uint64_t item, uint32_t file)
{
    char name[128];
    format_tensor_name(number / CHUNKS, name);
    begin_object(p, METADATA "MetadataIndex\n");
    append_pickle_shared(p, "fqn", false);
    append_pickle_str(p, name);
    append_pickle_shared(p, "offset", false);
    append_size(p, number % CHUNKS * (ROWS / CHUNKS), 0);
    append_pickle_shared(p, "index", false);
    append_pickle_int(p, number % CHUNKS);
    end_object(p);
    begin_object(p, FILESYSTEM "_StorageInfo\n");
    append_pickle_shared(p, "relative_path", false);
    append_pickle_get(p, file);
    append_pickle_shared(p, "offset", false);
    append_pickle_int(p, item * ITEM_BYTES);
    append_pickle_shared(p, "length", false);
    append_pickle_int(p, ITEM_BYTES);
    end_object(p);
}

/* append_file_names - puts the names of the files into the memo. Returns the index of the first. */
static uint32_t append_file_names(struct text *p)
{
    char name[64];
    uint32_t first = next_memo;
    for (uint64_t i = 0; i < nfiles; i++) {
        (void)snprintf(name, sizeof name, "__%" PRIu64 "_0.distcp", i);
        append_pickle_str(p, name);
        append_str(p, "0"); /* POP */
    }
    return first;
}

static void append_storage_data(struct text *p)
{
    uint32_t first_name = append_file_names(p);
    uint64_t n = 0;
    append_str(p, "}");
    append_pickle_put(p);
    for (uint64_t file = 0; file < nfiles; file++)
        for (uint64_t i = file, item = 0; i < ntensors * CHUNKS; i += nfiles, item++) {
            begin_batch(p, n++);
            append_item(p, i, item, first_name + (uint32_t)file);
        }
    append_str(p, "u");
}

/* append_path - appends the path of the tensor NAME in the state dict: it has no containers. */
static void append_path(struct text *p, const char *name)
{
    append_pickle_str(p, name);
    append_str(p, "\x85");
    append_pickle_put(p);
}

/* append_tensors - appends state_dict_metadata or, if PATHS, planner_data. */
static void append_tensors(struct text *p, bool paths)
{
    char name[128];
    append_str(p, "}");
    append_pickle_put(p);
    for (uint64_t i = 0; i < ntensors; i++) {
        begin_batch(p, i);
        format_tensor_name(i, name);
        append_pickle_str(p, name);
        if (paths)
            append_path(p, name);
        else
            append_tensor(p);
    }
    append_str(p, "u");
}

static uint64_t write_dcp(void)
{
    struct text p = {0};
    const struct text nothing = {.bytes = ""};
    char name[128];
    append_str(&p, "\x80\x02");
    begin_object(&p, METADATA "Metadata\n");
    append_pickle_shared(&p, "state_dict_metadata", false);
    append_tensors(&p, false);
    append_pickle_shared(&p, "planner_data", false);
    append_tensors(&p, true);
    append_pickle_shared(&p, "storage_data", false);
    append_storage_data(&p);
    end_object(&p);
    append_str(&p, ".");
    for (uint64_t file = 0; file < nfiles; file++) {
        (void)snprintf(name, sizeof name, "__%" PRIu64 "_0.distcp", file);
        write_file(name, &nothing, (ntensors * CHUNKS + nfiles - 1 - file) / nfiles * ITEM_BYTES);
    }
    write_file(".metadata", &p, 0);
    return p.len;
}

int main(int argc, char **argv)
{
    if (argc == 5) {
        ntensors = strtoull(argv[2], NULL, 10);
        nfiles = strtoull(argv[3], NULL, 10);
        folder = argv[4];
    }
    if (!ntensors || !nfiles || (strcmp(argv[1], "safetensors") != 0 && strcmp(argv[1], "dcp") != 0)) {
        fprintf(stderr, "usage: mkset safetensors|dcp TENSORS FILES FOLDER\n");
        return 2;
    }
    if (mkdir(folder, 0777) != 0)
        die(folder);
    printf("%" PRIu64 "\n", strcmp(argv[1], "dcp") == 0 ? write_dcp() : write_safetensors());
    return 0;
}
