/* Scanning text: it is data, except for JSON that describes a model of Keras. */
#include <stdio.h>
#include <stdlib.h>

#include "scanned.h"
#include "tarball.h"

static struct scan_results scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }

/* check_data - checks that BYTES are recognized as text and accounted for, and have no findings. */
static void check_data(ckpt_str bytes, int line)
{
    struct scan_results s = scan(bytes);
    bool is_clean = s.status == CKPT_OK && s.findings == 0 && s.result.accounted == bytes.len &&
                    s.result.in_text == bytes.len && s.result.format && strcmp(s.result.format, "text") == 0;
    if (!is_clean)
        scan_has_finding(&s, 0, "", 0, "", line);
    CU_ASSERT(is_clean);
}
#define CHECK_IS_DATA(text) check_data(TEXT(text), __LINE__)

static void text_is_data(void)
{
    CHECK_IS_DATA("just text\n");
    CHECK_IS_DATA("\t\r\n\f\x1b[0m");
    CHECK_IS_DATA("\xe2\x82\xac\n");
    CHECK_IS_DATA("   \n  {");
    CHECK_IS_DATA("{\"a\": 1} and no JSON");
    CHECK_IS_DATA("[{\"class_name\": \"Dense\"}]");
    /* deserialize_keras_object creates the objects of a list before it finds that the list is not a model */
    CHECK_ONLY_FINDING(scan(TEXT("[{\"class_name\": \"Lambda\"}]")), "keras-code", 24, "");
    CHECK_IS_DATA("{\"class_name\": 1, \"module\": null}");
    CHECK_ONLY_FINDING(scan(TEXT("text\x01\n")), "unknown-format", 0, "");
    CHECK_ONLY_FINDING(scan(TEXT("a text \xff\n")), "unknown-format", 0, "");
    CHECK_ONLY_FINDING(scan(TEXT("a text\0\n")), "unknown-format", 0, "");
}

/* The scanner checks the first 64 KiB, then the remaining bytes. Characters of one to four bytes cross the
 * end of the first 64 KiB; then invalid UTF-8 is put after that end, and then also before it. */
static void long_text_is_text(void)
{
    static const char *const letters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    buf b;
    for (size_t i = 0; i < 4; i++)
        for (size_t pad = 0; pad < 4; pad++) {
            buf_init(&b, 1 << 20);
            for (size_t k = 0; k < pad; k++)
                buf_byte(&b, 'x');
            while (b.len < 140000)
                buf_put_cstr(&b, letters[i]);
            check_data(str_of((const char *)b.data, b.len), __LINE__);
            b.data[65537] = 0x80; /* invalid UTF-8 */
            b.data[65536] = 0xff;
            CHECK_ONLY_FINDING(scan(str_of((const char *)b.data, b.len)), "unknown-format", 0, "");
            memset(b.data + 65530, 0x80, 6);
            CHECK_ONLY_FINDING(scan(str_of((const char *)b.data, b.len)), "unknown-format", 0, "");
            buf_free(&b);
        }
}

/* A finding in a layer is reported at the offset of the layer's last brace. */
#define LAYER(module, name) "{\"module\": \"" module "\", \"class_name\": \"" name "\", \"config\": {}}"

static void classes_of_keras_are_data(void)
{
    CHECK_IS_DATA(LAYER("", "Dense"));
    CHECK_IS_DATA(LAYER("keras", "Model"));
    CHECK_IS_DATA(LAYER("keras.layers", "Dense"));
    CHECK_IS_DATA(LAYER("keras_hub.models", "Bert"));
    CHECK_IS_DATA(LAYER("keras_nlp.layers", "Bert"));
    CHECK_IS_DATA(LAYER("tf_keras.layers", "Dense"));
    CHECK_IS_DATA(LAYER("keras.src.activations", "function"));
    CHECK_IS_DATA(LAYER("keras.utils", "FeatureSpace"));
    CHECK_IS_DATA(LAYER("keras", "layers.Dense"));
    CHECK_IS_DATA(LAYER("keras.src.models.functional", "Functional"));
    CHECK_IS_DATA(LAYER("keras.src.ops.numpy", "Add"));
    CHECK_IS_DATA(LAYER("keras.src.backend.torch.optimizers.torch_adam", "Adam"));
    CHECK_IS_DATA(LAYER("keras_hub.src.utils.keras_utils", "gelu_approximate"));
    CHECK_IS_DATA("{\"module\": \"keras\", \"class_name\": \"function\", \"config\": \"ops.relu\"}");
    CHECK_IS_DATA("{\"class_name\": \"StringLookup\", \"config\": {\"vocabulary\": [\"a\", \"b\"]}}");
    CHECK_IS_DATA("{\"class_name\": \"StringLookup\", \"config\": {\"vocabulary\": null, \"name\": \"x\"}}");
}

static void dangerous_classes_are_reported(void)
{
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras.layers", "Lambda"))), "keras-code", 63,
                       "which carries bytecode");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("", "TorchModuleWrapper"))), "keras-code", 63, "a pickle in base64");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("os", "system"))), "keras-code", 53,
                       "the class system of the module os");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras.utils", "function"))), "keras-code", 64,
                       "a function of keras.utils");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras.saving", "type"))), "keras-code", 61,
                       "which may act outside the model");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras.config", "__typespec__"))), "keras-code", 69,
                       "which may act outside the model");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("utils", "function"))), "keras-code", 58,
                       "the class function of the module utils");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras.myutils", "function"))), "keras-code", 66, "");
    struct scan_results s = scan(
        TEXT("{\"layers\": [" LAYER("os", "a") ", " LAYER("keras", "B") ", " LAYER("", "Lambda") "]}"));
    CHECK_FINDING(s, 2, "keras-code", 60, "the class a of the module os");
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_UNKNOWN_CALLABLE);
    CU_ASSERT_STRING_EQUAL(scan_buffer("{\"class_name\":\"Lambda\"}", 23, 1).first_finding.rule,
                           "keras-code");
}

/* Keras puts "module" and "class_name" together, and looks the result up among its public names. */
static void aliases_of_keras_are_resolved(void)
{
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras", "layers.Lambda"))), "keras-code", 63,
                       "which carries bytecode");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("", "keras.layers.Lambda"))), "keras-code", 64,
                       "which carries bytecode");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras.layers", "TFSMLayer"))), "keras-code", 66, "a SavedModel");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras", "callbacks.CSVLogger"))), "keras-code", 69,
                       "a class of keras (callbacks.CSVLogger), which may act outside the model");
    CHECK_ONLY_FINDING(scan(TEXT(LAYER("keras.export", "ExportArchive"))), "keras-code", 70, "a class of");
    CHECK_ONLY_FINDING(
        scan(TEXT("{\"module\": \"keras\", \"class_name\": \"function\", \"config\": \"utils.get_file\"}")),
        "keras-code", 72, "a function of keras (utils.get_file)");
    CHECK_ONLY_FINDING(scan(TEXT("{\"config\": \"load_model\", \"module\": \"keras.models\", "
                                 "\"class_name\": \"function\"}")),
                       "keras-code", 75, "a function of keras.models (load_model)");
}

static void classes_that_read_files_are_reported(void)
{
    CHECK_ONLY_FINDING(scan(TEXT("{\"module\": \"keras.layers\", \"class_name\": \"StringLookup\", "
                                 "\"config\": {\"vocabulary\": \"/x\"}}")),
                       "keras-code", 87, "StringLookup, which reads the file that its \"vocabulary\" names");
    CHECK_ONLY_FINDING(scan(TEXT("{\"config\": {\"vocabulary\": \"/x\"}, "
                                 "\"class_name\": \"layers.TextVectorization\", "
                                 "\"module\": \"keras\"}")),
                       "keras-code", 92, "layers.TextVectorization");
}

/* JSON that is too deep or too long is reported as not scanned. */
static void too_much_json_is_reported(void)
{
    buf b;
    buf_init(&b, 1 << 20);
    buf_put_cstr(&b, "{\"a\": ");
    for (int i = 0; i < 3000; i++)
        buf_put_cstr(&b, "[");
    CHECK_ONLY_FINDING(scan(str_of((const char *)b.data, b.len)), "not-opened", 133,
                       "JSON is nested deeper than 128 levels");
    buf_free(&b);
    size_t n = ((size_t)64 << 20) + 1;
    char *large = malloc(n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    memset(large, ' ', n);
    memcpy(large, "{\"class_name\":\"Lambda\"", 22);
    large[n - 1] = '}';
    struct scan_results s = scan(str_of(large, n));
    CHECK_ONLY_FINDING(s, "not-opened", 0, "JSON of 67108865 bytes; up to 64 MiB are read");
    CU_ASSERT_EQUAL(s.result.accounted, 0);
    large[0] = '[';
    CHECK_ONLY_FINDING(scan(str_of(large, n)), "not-opened", 0,
                       "JSON of 67108865 bytes; up to 64 MiB are read");
    large[0] = 'x';
    CU_ASSERT_EQUAL(scan(str_of(large, n)).findings, 0);
    CHECK_ONLY_FINDING(scan(str_of(large + 1, 0)), "unknown-format", CKPT_NO_OFFSET, "an empty file");
    free(large);
}

void suite_scan_text(void)
{
    UNIT(text_is_data);
    UNIT(long_text_is_text);
    UNIT(classes_of_keras_are_data);
    UNIT(dangerous_classes_are_reported);
    UNIT(aliases_of_keras_are_resolved);
    UNIT(classes_that_read_files_are_reported);
    UNIT(too_much_json_is_reported);
}
