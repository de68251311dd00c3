/*
 * suffix.c - does the name of a file say what it is? What a file is, its content tells; but some names
 * promise that nothing in it runs, and whoever goes by the name hands a pickle to a loader, or keeps
 * one from a scanner that chooses by names (CVE-2025-1889, -10155).
 */
#include "scan/scan.h"

#include "base/cursor.h"

static bool ends(ckpt_str path, const char *suffix)
{
    return path.len > strlen(suffix) && str_ends_any_case(path, str_c(suffix));
}

/* within - is FORMAT one of the words of LIST? */
static bool within(const char *format, const char *list)
{
    ckpt_str rest = str_c(list);
    for (ckpt_str one = str_take_word(&rest); one.len; one = str_take_word(&rest))
        if (str_is(one, format))
            return true;
    return false;
}

bool scan_promised(ckpt_str path)
{
    static const char *const suffixes[] = {".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".joblib"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends(path, suffixes[i]))
            return true;
    return false;
}

bool scan_suffix(struct scanner *x)
{
#define TORCH "torch-zip torch-legacy torch-tar pickle joblib zip torchscript torch-package torch-export"
    static const struct {
        const char *suffix, *formats;
        bool data; /* nothing in such files runs */
    } known[] = {
        {".safetensors", "safetensors", true},
        {".gguf", "gguf", true},
        {".msgpack", "msgpack", true},
        {".json", "text", true},
        {".txt", "text", true},
        {".md", "text", true},
        {".csv", "text", true},
        {".npy", "npy", false},
        {".npz", "zip", false},
        {".pt", TORCH, false},
        {".pth", TORCH, false},
        {".ckpt", TORCH, false},
        {".pkl", TORCH " gzip bzip2 xz lzma zlib lz4", false},
        {".pickle", TORCH " gzip bzip2 xz lzma zlib lz4", false},
        {".joblib", "joblib pickle gzip bzip2 xz lzma zlib lz4", false},
        {".zip", TORCH, false},
        {".tar", "tar " TORCH, false}, /* model.pth.tar is what many call a plain torch.save */
        {".gz", "gzip", false},
        {".tgz", "gzip", false},
        {".bz2", "bzip2", false},
        {".xz", "xz", false},
        {".zst", "zstd", false},
        {".7z", "7-Zip", false},
    };
#undef TORCH
    ckpt_str path = str_c(x->path);
    for (size_t i = 0; x->format && i < sizeof known / sizeof *known; i++) {
        if (!ends(path, known[i].suffix) || within(x->format, known[i].formats))
            continue;
        bool hides = known[i].data && x->s->result->pickles;
        return scan_found(x->s, hides ? SCAN_FMT005 : SCAN_FMT006, str_of("", 0), NULL, CKPT_NO_OFFSET,
                          "the name ends in {=%s}, the content is {%s}", known[i].suffix, x->format);
    }
    return true;
}
