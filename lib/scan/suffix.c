/*
 * suffix.c - compares the suffix of a file with its content, for `ckpt scan`. The content alone decides how a
 * file is scanned. But a pickle whose suffix is that of mere data hides from scanners that select files by
 * name (CVE-2025-1889, CVE-2025-10155), so the difference is reported.
 */
#include "scan/scan.h"

static bool path_has_suffix(ckpt_str path, const char *suffix)
{
    return path.len > strlen(suffix) && str_ends_any_case(path, str_c(suffix));
}

bool scan_is_pickle_name(ckpt_str path)
{
    static const char *const suffixes[] = {".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".joblib"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (path_has_suffix(path, suffixes[i]))
            return true;
    return false;
}

static bool is_word_any_case(ckpt_str text, ckpt_str word)
{
    return text.len == word.len && str_ends_any_case(text, word);
}

bool scan_is_text_name(ckpt_str path)
{
    static const char suffixes[] =
        "bib c cc cfg cff conf cpp css csv cu cxx diff editorconfig gitattributes gitignore gitmodules go h "
        "hpp html htm ini ipynb java jinja jinja2 js json jsonl json5 labels log lst map md mk names py pyi "
        "r rst rs sh sql svg tex tmpl toml tsv ts txt vocab xml yaml yml";
    static const char names[] = "authors changelog changes contributing copying dockerfile install licence "
                                "latest license makefile news notice readme version";
    ckpt_str name = str_after_last(str_after_last(path, '!'), '/');
    ckpt_str suffix = str_after_last(name, '.');
    return suffix.len < name.len ? str_matches_word(suffix, suffixes, is_word_any_case)
                                 : str_matches_word(name, names, is_word_any_case);
}

ckpt_status scan_check_suffix(struct scanner *scanner)
{
#define TORCH "torch-zip torch-legacy torch-tar pickle joblib zip torchscript torch-package torch-export"
    static const struct {
        const char *suffix, *formats;
        bool only_data; /* nothing in such files runs */
    } known[] = {
        {".safetensors", "safetensors", true},
        {".gguf", "gguf", true},
        {".msgpack", "msgpack", true},
        {".onnx", "onnx", true},
        {".json", "text", true},
        {".txt", "text", true},
        {".md", "text", true},
        {".csv", "text", true},
        {".npy", "npy", false},
        {".npz", "npz zip", false},
        {".pt", TORCH, false},
        {".pth", TORCH, false},
        {".ckpt", TORCH, false},
        {".pkl", TORCH " gzip bzip2 xz lzma zlib lz4", false},
        {".pickle", TORCH " gzip bzip2 xz lzma zlib lz4", false},
        {".joblib", "joblib pickle gzip bzip2 xz lzma zlib lz4", false},
        {".zip", TORCH " npz", false},
        {".tar", "tar " TORCH, false}, /* model.pth.tar is a common name for torch.save without a tar */
        {".gz", "gzip", false},
        {".tgz", "gzip", false},
        {".bz2", "bzip2", false},
        {".xz", "xz", false},
        {".zst", "zstd", false},
        {".7z", "7-Zip", false},
    };
#undef TORCH
    ckpt_str path = str_c(scanner->path);
    for (size_t i = 0; scanner->format && i < sizeof known / sizeof *known; i++) {
        if (!path_has_suffix(path, known[i].suffix) ||
            str_matches_word(str_c(scanner->format), known[i].formats, str_eq))
            continue;
        bool hides_pickle = known[i].only_data && scanner->scan->result->pickles;
        return scan_found(scanner->scan, hides_pickle ? SCAN_HIDDEN_PICKLE : SCAN_NAME_MISMATCH,
                          str_of("", 0), NULL, CKPT_NO_OFFSET, "the name ends in {=%s}, the content is {%s}",
                          known[i].suffix, scanner->format);
    }
    return CKPT_OK;
}
