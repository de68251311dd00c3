/*
 * yolo.c - judges the texts that YOLO evaluates in its YAML: "activation", and in the lists of layers under
 * "backbone" and "head", [from, number, module, [argument, …]], each module and argument that is a text
 * (parse_model of YOLOv5). YOLO calls the module with the arguments.
 */
#include "op/weights_only.h"
#include "scan/scan.h"

bool yolo_is_activation(ckpt_str text)
{
    size_t open = str_find(text, STR_LIT("("), 0);
    text = str_skip(text, str_starts(text, STR_LIT("torch.")) ? 6 : 0);
    if (open == SIZE_MAX)
        return true;
    if (!str_starts(text, STR_LIT("nn.")) || !str_ends(text, STR_LIT(")")))
        return false;
    for (size_t i = 3, nopen = 0; i + 1 < text.len; i++) {
        char c = text.ptr[i];
        nopen += c == '(';
        bool is_argument = nopen == 1 && c && strchr("_=., -('\"", c);
        if (!is_ascii_alnum(c) && !is_argument)
            return false;
    }
    return true;
}

/* is_name_or_number - returns true if TEXT has only characters of names with dots and of numbers, and is not
 * internal to Python. */
static bool is_name_or_number(ckpt_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_ascii_alnum(text.ptr[i]) && !(text.ptr[i] && strchr("_.+-~", text.ptr[i])))
            return false;
    return !str_starts(text, STR_LIT("__")) && !str_has(text, STR_LIT(".__"));
}

bool yolo_is_layer(ckpt_str text)
{
    return str_has(text, STR_LIT("(")) ? yolo_is_activation(text)
                                       : is_name_or_number(text) && !scan_target_runs_code(text) &&
                                             name_verdict(STR_LIT("builtins"), text) != CKPT_SCAN_KNOWN_EXEC;
}
