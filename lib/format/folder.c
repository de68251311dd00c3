/*
 * folder.c - Hugging Face's names for the weights of a folder (transformers
 * modeling_utils.py, diffusers, peft), and what else is in it.
 *
 * model.safetensors, pytorch_model.bin, … or one index of shards is what the
 * folder stands for. What trainers put next to it (optimizer.pt, scheduler.pt,
 * training_args.bin, …), shards (*-00001-of-00005.*) and variants of the same
 * weights (model.fp16.safetensors, consolidated.00.pth) do not make that
 * unclear; any other checkpoint does.
 */
#include "format/folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

/* What a folder without an index may hold its weights in, by preference. */
static const char *const whole_files[] = {
    "model.safetensors",           "pytorch_model.bin",         "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin",
};

#define NWHOLE (sizeof whole_files / sizeof *whole_files)

/* model.safetensors.index.json, model.safetensors.index.fp16.json */
static bool is_index_name(ckpt_str name)
{
    return str_ends(name, STR_LIT(".json")) &&
           (str_find(name, STR_LIT(".safetensors.index."), 0) != SIZE_MAX ||
            str_find(name, STR_LIT(".bin.index."), 0) != SIZE_MAX);
}

static void consider_index(struct folder *d, ckpt_str name)
{
    bool safe = str_find(name, STR_LIT(".safetensors."), 0) != SIZE_MAX;
    d->nindex++;
    d->safetensors_indexes += safe;
    if (name.len < sizeof d->index && (d->nindex == 1 || (safe && d->safetensors_indexes == 1)))
        memcpy(d->index, name.ptr, name.len + 1); /* bounded: it fits */
}

/* consider_whole - is NAME one of whole_files? *BEST is the place of the most preferred so far. */
static bool consider_whole(struct folder *d, ckpt_str name, size_t *best)
{
    for (size_t i = 0; i < NWHOLE; i++)
        if (str_is(name, whole_files[i])) {
            d->nwhole++;
            *best = i < *best ? i : *best;
            return true;
        }
    return false;
}

static bool has_checkpoint_suffix(ckpt_str name)
{
    static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt", ".safetensors"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (str_ends(name, str_c(suffixes[i])))
            return true;
    return false;
}

/* comes_along - does NAME belong to a model's folder without being what the folder stands for? */
static bool comes_along(ckpt_str name)
{
    static const char *const begins[] = {
        "optimizer.", "scheduler.",    "training_args.", "rng_state",
        "scaler.",    "consolidated.", "random_states",  "sampler",
    };
    bool safe = str_ends(name, STR_LIT(".safetensors")), bin = str_ends(name, STR_LIT(".bin"));
    if ((safe && str_starts(name, STR_LIT("model."))) || (bin && str_starts(name, STR_LIT("pytorch_model."))))
        return true;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (str_starts(name, str_c(begins[i])))
            return true;
    return str_find(name, STR_LIT("-of-"), 0) != SIZE_MAX;
}

/* consider_other - whatever the order of the folder, the same one is kept. */
static void consider_other(struct folder *d, ckpt_str name)
{
    d->nothers++;
    if (name.len < sizeof d->other && (!d->other[0] || str_compare(name, str_c(d->other)) < 0))
        memcpy(d->other, name.ptr, name.len + 1); /* bounded: it fits */
}

void folder_scan(const char *path, struct folder *out)
{
    size_t best = NWHOLE;
    DIR *dir = opendir(path);
    *out = (struct folder){.nindex = 0};
    for (struct dirent *e; dir && (e = readdir(dir));) {
        ckpt_str name = str_c(e->d_name);
        if (is_index_name(name))
            consider_index(out, name);
        else if (!consider_whole(out, name, &best) && has_checkpoint_suffix(name) && !comes_along(name))
            consider_other(out, name);
    }
    if (dir)
        (void)closedir(dir);
    if (best < NWHOLE)
        memcpy(out->whole, whole_files[best], strlen(whole_files[best]) + 1);
}

/* ---------------------------------------------------------------------- listing */

struct names {
    char (*at)[256];
    size_t n, cap;
};

/* add_name - without memory the list is shorter. */
static void add_name(struct names *list, const char *name)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 32;
        char(*grown)[256] = cap <= 1u << 16 ? realloc(list->at, cap * sizeof *grown) : NULL;
        if (!grown)
            return;
        list->at = grown;
        list->cap = cap;
    }
    memcpy(list->at[list->n++], name, strlen(name) + 1); /* bounded: its length was looked at */
}

static int by_name(const void *a, const void *b) { return ckpt_natural_compare(str_c(a), str_c(b)); }

static void list_checkpoints(const char *path, struct names *out)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strlen(e->d_name) < sizeof *out->at &&
            (has_checkpoint_suffix(str_c(e->d_name)) || is_index_name(str_c(e->d_name))))
            add_name(out, e->d_name);
    if (dir)
        (void)closedir(dir);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_name);
}

void folder_hint(const char *path, ckpt_error *err)
{
    struct names list = {0};
    char text[sizeof err->hint - 40], word[SHELL_MOST], joined[4096];
    size_t used = 0, shown = 0;
    list_checkpoints(path, &list);
    for (; shown < list.n; shown++) {
        size_t n = strlen(path);
        int made = snprintf(joined, sizeof joined, "%s%s%s", path, n && path[n - 1] == '/' ? "" : "/",
                            list.at[shown]);
        const char *name = (size_t)made < sizeof joined ? shell_path(joined, word) : "FILE";
        if (used + strlen(name) + 3 > sizeof text)
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", shown ? ", " : "", name);
    }
    if (!list.n)
        fail_hint(err, "name a file in it, or a folder with an *.index.json or one model.safetensors");
    else if (shown < list.n)
        fail_hint(err, "name one: %s and %zu more", text, list.n - shown);
    else
        fail_hint(err, "name %s%s", list.n > 1 ? "one: " : "", text);
    free(list.at);
}

void folder_fail_unclear(const char *path, const struct folder *d, ckpt_error *err)
{
    unsigned n = d->nothers + d->nwhole;
    (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "folder with %u checkpoint%s: it is not clear %s", n,
               n == 1 ? "" : "s", n == 1 ? "whether it is meant" : "which of them is meant");
    folder_hint(path, err);
}
