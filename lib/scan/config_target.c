/*
 * config_target.c - judges the names of classes and functions that configurations give to programs, which
 * import and call them. A name is a path of attributes: hydra and others look up each component in the one
 * before it, so that torch.os.system is os.system.
 *   on a list           harmless: names for pickles (op/weights_only.h) and config_targets.def
 *   reaches what runs   a component is a module that runs or loads code, followed by such a name of it, or is
 *   code                internal to Python, such as __globals__
 *   foreign             any other; of Python's own library, or no such path at all: unusual
 * A configuration on its own is there to be called by its names. The texts in a pickle are parameters of the
 * program that wrote it, which may never call them, and often classes of its own: these are only notes.
 */
#include "op/weights_only.h"
#include "scan/scan.h"

#define TARGET_MAX 512u /* bytes; longer names are unusual */

static const struct target_list harmless_targets[] = {
#define TARGETS(module, names) {module, names},
#include "scan/config_targets.def"
#undef TARGETS
};

/* The packages and modules of Python 3.8 to 3.14, but those whose names others use for their own. */
static const char python_library[] =
    "abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb "
    "binascii binhex bisect builtins bz2 cProfile calendar cgi cgitb cmath cmd codecs codeop "
    "collections colorsys compileall compression concurrent configparser contextlib contextvars copy "
    "copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest "
    "email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib "
    "functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html "
    "http idlelib imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 "
    "linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap modulefinder msilib "
    "msvcrt multiprocessing netrc nntplib nt ntpath nturl2path numbers opcode operator optparse os "
    "ossaudiodev pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath "
    "pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re "
    "readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil "
    "signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants "
    "sre_parse ssl stat statistics string stringprep struct subprocess sunau symtable sys sysconfig "
    "syslog tabnanny tarfile telnetlib tempfile termios test textwrap this threading time timeit "
    "tkinter tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types typing "
    "unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref "
    "xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

enum target_kind { TARGET_HARMLESS, TARGET_FOREIGN, TARGET_UNUSUAL, TARGET_RUNS_CODE };

static bool is_harmless(ckpt_str module, ckpt_str name)
{
    return (name_verdict(module, name) == CKPT_SCAN_ALLOW_LISTED && name_use(module, name) == NAME_ANY) ||
           target_list_has(harmless_targets, sizeof harmless_targets / sizeof *harmless_targets, module,
                           name);
}

/* has_internal_name - returns true if a component of PATH but the first begins with two underscores. */
static bool has_internal_name(ckpt_str path) { return str_has(path, STR_LIT(".__")); }

/* is_dotted_path - returns true if TEXT is identifiers of ASCII with dots between them, at least one. */
static bool is_dotted_path(ckpt_str text)
{
    bool begins = true;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_letter = c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        bool is_part = is_letter || (!begins && c >= '0' && c <= '9');
        if (!is_part && (c != '.' || begins))
            return false;
        begins = c == '.';
    }
    return !begins;
}

/* judge_dotted_path - returns what calling PATH does; .ptr NULL: it is not in the file. */
static enum target_kind judge_dotted_path(ckpt_str path)
{
    ckpt_str name = str_after_last(path, '.');
    if (!path.ptr || path.len > TARGET_MAX)
        return TARGET_UNUSUAL;
    if (name.len + 1 < path.len && is_harmless(str_of(path.ptr, path.len - name.len - 1), name))
        return TARGET_HARMLESS;
    if (has_internal_name(path) || name_path_runs_code(path, true))
        return TARGET_RUNS_CODE;
    ckpt_str package = str_before(path, '.');
    bool is_private = str_starts(package, STR_LIT("_")) && !str_is(package, "__main__");
    return !is_dotted_path(path) || is_private || str_matches_word(package, python_library, str_eq)
               ? TARGET_UNUSUAL
               : TARGET_FOREIGN;
}

ckpt_status scan_config_target(const struct scanned *in, uint64_t at, ckpt_str target)
{
    enum target_kind kind = judge_dotted_path(target);
    if (kind == TARGET_HARMLESS)
        return CKPT_OK;
    if (kind == TARGET_RUNS_CODE)
        return SCAN_FOUND(in, SCAN_CONFIG_EXEC, at, "it names %.*s", STR_ARG(target));
    return target.ptr ? SCAN_FOUND(in, SCAN_CONFIG_TARGET, at, "it names %.*s", STR_ARG(target))
                      : SCAN_FOUND(in, SCAN_CONFIG_TARGET, at, "it names what is computed while loading");
}

ckpt_status scan_stored_target(const struct scanned *in, uint64_t at, ckpt_str target)
{
    return judge_dotted_path(target) != TARGET_FOREIGN
               ? scan_config_target(in, at, target)
               : SCAN_FOUND(in, SCAN_LOADER_CODE, at, "it names %.*s, for a program to import and call",
                            STR_ARG(target));
}

enum scan_key scan_target_key(ckpt_str key)
{
    static const struct {
        const char *key;
        enum scan_key names_target; /* when its value does */
    } keys[] = {
#define TARGET_KEY(key, names_target) {key, SCAN_KEY_##names_target},
#include "scan/config_keys.def"
#undef TARGET_KEY
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (str_is(key, keys[i].key))
            return keys[i].names_target;
    return SCAN_KEY_OTHER;
}

bool scan_names_target(enum scan_key key, ckpt_str text)
{
    return key == SCAN_KEY_ALWAYS || (key == SCAN_KEY_DOTTED && scan_may_be_target(text)) ||
           (key == SCAN_KEY_WITH_PARAMS && scan_may_be_target(text) && scan_target_runs_code(text)) ||
           (key == SCAN_KEY_RUNS_CODE && scan_target_runs_code(text));
}

bool scan_target_runs_code(ckpt_str text)
{
    ckpt_str name = str_after_last(text, '.');
    return text.ptr && scan_is_dotted_name(text) &&
           !is_harmless(str_of(text.ptr, text.len - name.len - 1), name) &&
           (has_internal_name(text) || name_path_runs_code(text, false));
}

void scan_note_target(struct target_object *object, uint64_t at, ckpt_str target)
{
    object->has_target = !target.ptr || scan_may_be_target(target); /* NULL: computed while loading */
    object->target = target;
    object->target_at = at;
}

ckpt_status scan_judge_object(const struct scanned *in, const struct target_object *object)
{
    /* an object with other keys, and no params among them, is no call */
    return object->has_target && (object->has_params || object->nkeys == 1)
               ? scan_config_target(in, object->target_at, object->target)
               : CKPT_OK;
}

bool scan_is_dotted_name(ckpt_str text) { return is_dotted_path(text) && str_has(text, STR_LIT(".")); }

bool scan_may_be_target(ckpt_str text)
{
    return scan_is_dotted_name(text) &&
           !str_matches_word(str_after_last(text, '.'),
                             "ckpt csv gguf h5 hdf5 jpeg jpg json jsonl mp3 mp4 npy npz onnx parquet pdf png "
                             "pt pth safetensors tsv txt wav yaml yml",
                             str_eq);
}
