/* checkpoint_names.c - finds the checkpoint in a folder by the file names of Hugging Face (transformers
 * modeling_utils.py, diffusers, peft).
 *
 * The checkpoint is an index of shards, or a single file: model.safetensors, pytorch_model.bin, … Shards
 * (*-00001-of-00005.*) and variants of the same weights (model.fp16.safetensors, consolidated.00.pth) are
 * ignored, and so is what trainers write for themselves (optimizer.pt, … of transformers, Accelerate,
 * torchtune, verl). Without an index, any other checkpoint makes the folder ambiguous; without an index and a
 * single file, so does the folder of a step.
 *
 * Without both, shards are one checkpoint if there is nothing else, and so are .safetensors whose names
 * differ only in numbers (weights.00.safetensors … of MLX), unless a tensor is in two of them: then they
 * are several checkpoints. */
#include "format/files/checkpoint_names.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/checked.h"

/* The names of a checkpoint in a single file, the preferred ones first. */
static const char *const single_files[] = {
    "model.safetensors",
    "pytorch_model.bin",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
    "tf_model.h5",
};

#define NSINGLE (sizeof single_files / sizeof *single_files)
#define DIGITS  5u /* of a number in the name of a shard */

bool folder_is_index(ckpt_str name)
{
    return str_ends(name, STR_LIT(".weights.json")) ||
           (str_ends(name, STR_LIT(".json")) &&
            (str_find(name, STR_LIT(".safetensors.index."), 0) != SIZE_MAX ||
             str_find(name, STR_LIT(".bin.index."), 0) != SIZE_MAX ||
             str_find(name, STR_LIT(".h5.index."), 0) != SIZE_MAX));
}

static void consider_index(struct folder *folder, ckpt_str name)
{
    bool is_safetensors = str_find(name, STR_LIT(".safetensors."), 0) != SIZE_MAX;
    folder->nindexes++;
    folder->safetensors_indexes += is_safetensors;
    bool is_preferred = folder->nindexes == 1 || (is_safetensors && folder->safetensors_indexes == 1);
    if (is_preferred && name.len < sizeof folder->index_file)
        memcpy(folder->index_file, name.ptr, name.len + 1);
}

/* consider_single_file - counts NAME if it is in single_files, and sets *BEST to the smaller of *BEST and the
 * position of NAME there. False: NAME is not in single_files. */
static bool consider_single_file(struct folder *folder, ckpt_str name, size_t *best)
{
    for (size_t i = 0; i < NSINGLE; i++)
        if (str_is(name, single_files[i])) {
            folder->nsingle++;
            *best = i < *best ? i : *best;
            return true;
        }
    return false;
}

static bool has_checkpoint_suffix(ckpt_str name)
{
    return str_matches_word(name, ".pt .pth .bin .ckpt .safetensors", str_ends);
}

/* is_of_trainer - returns true for files that trainers write for themselves, and copies of the weights. */
static bool is_of_trainer(ckpt_str name)
{
    static const char begins[] = "optimizer. optimizer_ scheduler. scheduler_ training_args. rng_state "
                                 "random_states sampler scaler. dl_state_dict consolidated. recipe_state. "
                                 "optim_world_size_ extra_state_world_size_";
    return str_matches_word(name, begins, str_starts);
}

bool folder_is_companion(ckpt_str name)
{
    bool safetensors = str_ends(name, STR_LIT(".safetensors")), bin = str_ends(name, STR_LIT(".bin"));
    return (safetensors && str_starts(name, STR_LIT("model."))) ||
           (bin && str_starts(name, STR_LIT("pytorch_model."))) || is_of_trainer(name) ||
           str_find(name, STR_LIT("-of-"), 0) != SIZE_MAX;
}

/* is_step_folder - returns true for names that trainers give to the folder of a step or epoch, such as
 * "checkpoint-500" and "epoch_2". */
static bool is_step_folder(ckpt_str name)
{
    static const char *const words[] = {"checkpoint", "epoch", "step", "global_step", "iter"};
    uint64_t number;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        ckpt_str rest = str_skip(name, strlen(words[i]));
        if (str_starts(name, str_c(words[i])) && rest.len > 1 && (rest.ptr[0] == '-' || rest.ptr[0] == '_') &&
            str_uint(str_skip(rest, 1), &number))
            return true;
    }
    return false;
}

/* consider_other - counts NAME, and keeps the smallest of these names (str_compare), so that the result does
 * not depend on the order of the calls. */
static void consider_other(struct folder *folder, ckpt_str name)
{
    folder->nothers++;
    if (name.len < sizeof folder->other && (!folder->other[0] || str_compare(name, str_c(folder->other)) < 0))
        memcpy(folder->other, name.ptr, name.len + 1);
}

void folder_scan(const ckpt_str *names, size_t count, struct folder *out)
{
    size_t best = NSINGLE;
    *out = (struct folder){.nindexes = 0};
    for (size_t i = 0; i < count; i++) {
        out->nlisted += folder_is_checkpoint(names[i]);
        if (folder_is_index(names[i]))
            consider_index(out, names[i]);
        else if (!consider_single_file(out, names[i], &best) && has_checkpoint_suffix(names[i]) &&
                 !folder_is_companion(names[i]))
            consider_other(out, names[i]);
        else
            out->nsteps += is_step_folder(names[i]);
    }
    if (best < NSINGLE)
        memcpy(out->single_file, single_files[best], strlen(single_files[best]) + 1);
}

bool folder_is_later_part(ckpt_str name)
{
    struct shard_name s;
    return shard_name_parse(name, &s) && str_is(s.ext, ".gguf") && s.number != 1;
}

bool folder_is_checkpoint(ckpt_str name)
{
    if (folder_is_later_part(name))
        return false;
    return has_checkpoint_suffix(name) || folder_is_index(name) || is_step_folder(name) ||
           str_matches_word(
               name, ".gguf .h5 .index .keras .msgpack .npy .npz .onnx .params .pdiparams .pdparams .ptl",
               str_ends);
}

/* ------------------------------------------------------------------- shard names */

bool shard_name_parse(ckpt_str name, struct shard_name *out)
{
    static const char unknown[DIGITS] = {'?', '?', '?', '?', '?'};
    const size_t n = strlen("-00000-of-00000");
    for (size_t at = name.len; COUNT_DOWN(at);) {
        ckpt_str rest = str_skip(name, at);
        if (rest.len < n || rest.ptr[0] != '-' || (rest.len > n && rest.ptr[n] != '.'))
            continue;
        ckpt_str number = str_of(rest.ptr + 1, DIGITS), count = str_of(rest.ptr + n - DIGITS, DIGITS);
        *out = (struct shard_name){.stem = str_of(name.ptr, at), .ext = str_skip(rest, n)};
        if (str_eq(str_of(rest.ptr + 1 + DIGITS, 4), STR_LIT("-of-")) && str_uint(count, &out->count) &&
            (str_uint(number, &out->number) || memcmp(number.ptr, unknown, DIGITS) == 0))
            return true;
    }
    return false;
}

ckpt_str shard_name_make(arena *a, const struct shard_name *name, uint64_t number)
{
    char numbers[64];
    (void)snprintf(numbers, sizeof numbers, "-%05" PRIu64 "-of-%05" PRIu64, number, name->count);
    return ARENA_CONCAT(a, name->stem, str_c(numbers), name->ext);
}

/* --------------------------------------------------------------- sets without an index */

static bool is_digit(char character) { return character >= '0' && character <= '9'; }

static ckpt_str skip_number(ckpt_str text)
{
    while (text.len && is_digit(text.ptr[0]))
        text = str_skip(text, 1);
    return text;
}

bool names_differ_in_numbers(ckpt_str left, ckpt_str right)
{
    while (left.len && right.len) {
        bool number = is_digit(left.ptr[0]);
        if (number != is_digit(right.ptr[0]) || (!number && left.ptr[0] != right.ptr[0]))
            return false;
        left = number ? skip_number(left) : str_skip(left, 1);
        right = number ? skip_number(right) : str_skip(right, 1);
    }
    return !left.len && !right.len;
}

/* may_be_part - returns true if a file called NAME may be a part of a set without an index. Sets *NUMBERED if
 * it has the name of a shard. */
static bool may_be_part(ckpt_str name, bool *numbered)
{
    struct shard_name s;
    bool is_safetensors = str_ends(name, STR_LIT(".safetensors"));
    *numbered = shard_name_parse(name, &s) && s.count && (is_safetensors || str_is(s.ext, ".bin"));
    return *numbered || (is_safetensors && !is_of_trainer(name));
}

bool folder_shows_model(ckpt_str name)
{
    bool is_single = false, is_shard;
    for (size_t i = 0; i < NSINGLE; i++)
        is_single |= str_is(name, single_files[i]);
    (void)may_be_part(name, &is_shard);
    return is_single || is_shard || folder_is_index(name);
}

bool folder_set_has(const struct folder_set *set, ckpt_str name)
{
    struct shard_name first, s;
    bool numbered;
    if (!may_be_part(name, &numbered) || numbered != set->is_numbered)
        return false;
    return set->is_numbered
               ? shard_name_parse(set->first, &first) && shard_name_parse(name, &s) &&
                     first.count == s.count && str_eq(first.stem, s.stem) && str_eq(first.ext, s.ext)
               : names_differ_in_numbers(set->first, name);
}

bool folder_find_set(const ckpt_str *names, size_t count, struct folder_set *out)
{
    struct folder d;
    bool numbered, has_others = false;
    *out = (struct folder_set){.first = STR_LIT("")};
    folder_scan(names, count, &d);
    for (size_t i = 0; i < count; i++) {
        if (may_be_part(names[i], &numbered) && !out->n)
            *out = (struct folder_set){.first = names[i], .is_numbered = numbered};
        bool is_part = out->first.len && folder_set_has(out, names[i]);
        out->n += is_part;
        has_others |= !is_part && (may_be_part(names[i], &numbered) ||
                                   (has_checkpoint_suffix(names[i]) && !folder_is_companion(names[i])));
    }
    return !d.nindexes && !d.nsingle && !has_others && out->n >= (out->is_numbered ? 1 : 2);
}
