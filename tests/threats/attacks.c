/* attacks.c - attacks DIR: writes files that make a loader call functions, each by one technique, and
 * harmless files that look similar. Prints a line TECHNIQUE NAME EXIT RULE LOADER for each file:
 *   TECHNIQUE  how the file tries to evade the scan; "control": the file is harmless
 *   EXIT       the exit status of `ckpt scan` that is expected
 *   RULE       the rule whose finding scan must report, or "-"
 *   LOADER     "pickle": oracle.py also reads the file by Python's unpicklers; "text": by PyYAML and sympy;
 *              or "-"
 * No test calls any of the functions that these files name. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the rules of `ckpt scan`; see ckpt-scan(1) */
#define UNKNOWN_CALLABLE    "PKL001"
#define KNOWN_EXEC          "PKL002" /* a function known to run code, such as os.system */
#define UNRESOLVED_CALLABLE "PKL003"
#define IMPORT_CHANGED      "PKL004"
#define UNUSUAL_ARGUMENTS   "PKL005"
#define FRAME_CROSSED       "PKL007"
#define PICKLE_NOT_FOLLOWED "PKL013"
#define NUMPY_OBJECTS       "PKL014"
#define KERAS_CODE          "SRC002"
#define EVALUATED_TEXT      "SRC004"
#define CONFIG_TARGET       "SRC005"
#define YAML_TAG            "SRC006"
#define EXTERNAL_PATH       "EXT001"
#define NO_FINDING          "-"

/* Pickles that call os.system('id'), in protocols 0, 1 and 2. */
#define OS_SYSTEM_0 "cos\nsystem\n(S'id'\ntR."
#define OS_SYSTEM_1 "cos\nsystem\n(U\x02idtR."
#define OS_SYSTEM_2 "\x80\x02" OS_SYSTEM_1
/* GLOBAL of a function that loads the pickle in its argument */
#define LOAD_FROM_BYTES "ctorch.storage\n_load_from_bytes\n"
/* types.SimpleNamespace(): an object whose attributes a pickle can set to any values */
#define SIMPLE_NAMESPACE "ctypes\nSimpleNamespace\n)R"
/* the pickle with which a file of torch.save before 1.6 begins */
#define TORCH_MAGIC "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."

struct attack {
    const char *technique, *name, *rule; /* as printed */
    const char *bytes;
    size_t nbytes;
};

#define ATTACK(technique, name, rule, bytes) {technique, name, rule, bytes, sizeof(bytes) - 1}
#define HARMLESS(name, bytes)                ATTACK("control", name, NO_FINDING, bytes)

/* numpy.dtype(NAME, False, True); LENGTH is the length of NAME; the opcode BUILD sets STATE */
#define DTYPE(length, name, state)  "cnumpy\ndtype\n(U" length name "\x89\x88tR(" state "tb"
#define STATE(version, size, flags) "K" version "U\x01|NNNJ" size "\0\0\0J\x01\0\0\0K" flags
#define NDARRAY                     "cnumpy\nndarray\n"
#define MADE_ARRAY(class, dtype, data)                                                                       \
    "\x80\x02"                                                                                               \
    "cnumpy.core.multiarray\n_reconstruct\n(" class "K\0\x85U\x01"                                           \
    "btR(K\x01K\x01\x85" dtype "\x89" data "tb."
#define ARRAY(dtype, data) MADE_ARRAY(NDARRAY, dtype, data)
#define EIGHT_BYTES                                                                                          \
    "U\x08"                                                                                                  \
    "AAAAAAAA"

/* Pickles: TECHNIQUE, NAME, RULE and the content of each. */
static const struct attack attacks[] = {
    /* objects that hold torch.storage._load_from_bytes, which the program may call later */
    ATTACK("held-loader", "held_result.pkl", KNOWN_EXEC, LOAD_FROM_BYTES "."),
    ATTACK("held-loader", "held_list.pkl", KNOWN_EXEC, "](" LOAD_FROM_BYTES "e."),
    ATTACK("held-loader", "held_dict.pkl", KNOWN_EXEC, "}(S'f'\n" LOAD_FROM_BYTES "u."),
    ATTACK("held-loader", "held_tuple.pkl", KNOWN_EXEC, "(" LOAD_FROM_BYTES "t."),
    ATTACK("held-loader", "held_factory.pkl", KNOWN_EXEC,
           "ccollections\ndefaultdict\n(" LOAD_FROM_BYTES "tR."),
    ATTACK("held-loader", "held_append.pkl", KNOWN_EXEC,
           SIMPLE_NAMESPACE "}S'append'\n" LOAD_FROM_BYTES "sbC\x17" OS_SYSTEM_2 "a."),
    ATTACK("held-loader", "held_extend.pkl", KNOWN_EXEC,
           SIMPLE_NAMESPACE "}S'extend'\n" LOAD_FROM_BYTES "sb(C\x17" OS_SYSTEM_2 "e."),
    ATTACK("held-loader", "held_add.pkl", KNOWN_EXEC,
           SIMPLE_NAMESPACE "}S'add'\n" LOAD_FROM_BYTES "sb(C\x17" OS_SYSTEM_2 "\x90."),
    ATTACK("held-loader", "held_setstate.pkl", KNOWN_EXEC,
           SIMPLE_NAMESPACE "}S'__setstate__'\n" LOAD_FROM_BYTES "sbC\x17" OS_SYSTEM_2 "b."),
    ATTACK("held-loader", "held_memo.pkl", KNOWN_EXEC, LOAD_FROM_BYTES "p7\n0](g7\ne."),
    ATTACK("held-loader", "held_bytes.pkl", KNOWN_EXEC, LOAD_FROM_BYTES "(C\x17" OS_SYSTEM_2 "tR."),

    /* opcodes that call a method, such as append, that the object's state has replaced by a function */
    ATTACK("state-called", "state_append.pkl", UNRESOLVED_CALLABLE,
           SIMPLE_NAMESPACE "}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    ATTACK("state-called", "state_appends.pkl", UNRESOLVED_CALLABLE,
           SIMPLE_NAMESPACE "}S'extend'\nc_codecs\nencode\nsb(S'a'\ne."),
    ATTACK("state-called", "state_empty.pkl", UNRESOLVED_CALLABLE,
           SIMPLE_NAMESPACE "}S'extend'\nc_codecs\nencode\nsb(e."),
    ATTACK("state-called", "state_additems.pkl", UNRESOLVED_CALLABLE,
           SIMPLE_NAMESPACE "}S'add'\nc_codecs\nencode\nsb(S'a'\n\x90."),
    ATTACK("state-called", "state_build.pkl", UNRESOLVED_CALLABLE,
           SIMPLE_NAMESPACE "}S'__setstate__'\nc_codecs\nencode\nsb}b."),
    ATTACK("state-called", "state_ordered.pkl", UNRESOLVED_CALLABLE,
           "ccollections\nOrderedDict\n)R}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    ATTACK("state-called", "state_namespace.pkl", UNRESOLVED_CALLABLE,
           "cargparse\nNamespace\n)R}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    ATTACK("state-called", "state_argument.pkl", UNRESOLVED_CALLABLE,
           "ctypes\nSimpleNamespace\n(}S'__setstate__'\nc_codecs\nencode\nstR}b."),

    /* a line without a newline: the file ends in it */
    ATTACK("cut-line", "cut_inst", KNOWN_EXEC, "(S'id'\niposix\nsystemX"),
    ATTACK("cut-line", "cut_inst.txt", KNOWN_EXEC, "(S'id'\niposix\nsystemX"),
    ATTACK("cut-line", "cut_inst.pkl", KNOWN_EXEC, "(S'id'\niposix\nsystemX"),
    ATTACK("cut-line", "cut_inst.json", KNOWN_EXEC, "(S'id'\niposix\nsystemX"),
    ATTACK("cut-line", "cut_global", KNOWN_EXEC, "cos\nsystemX"),
    ATTACK("cut-line", "cut_module", KNOWN_EXEC, "cantigravity\n"),

    /* memo indices that a parser of 64-bit numbers may misread */
    ATTACK("memo-number", "memo_2_64.pkl", KNOWN_EXEC,
           "cos\nsystem\np18446744073709551616\n0g18446744073709551616\n(S'id'\ntR."),
    ATTACK("memo-number", "memo_2_64_two.pkl", KNOWN_EXEC,
           "cos\nsystem\np18446744073709551616\n0ccollections\nOrderedDict\np18446744073709551617\n"
           "0g18446744073709551616\n(S'id'\ntR."),
    ATTACK("memo-number", "memo_signs.pkl", KNOWN_EXEC, "cos\nsystem\np +1_0 \n0g10\n(S'id'\ntR."),
    ATTACK("memo-number", "memo_text.txt", KNOWN_EXEC, "I1\np99999999999999999999999\n0" OS_SYSTEM_0),
    ATTACK("memo-replaced", "memo_replaced.pkl", KNOWN_EXEC,
           "ccollections\nOrderedDict\np0\n0cos\nsystem\np0\n0g0\n(S'id'\ntR."),

    /* texts and bytes that are pickles of protocols 0 and 1, which have no PROTO opcode; in the last file, a
     * pickle of protocol 2 after torch's magic number */
    ATTACK("old-payload", "payload_p0.pkl", KNOWN_EXEC,
           "\x80\x03"
           "C\x15" OS_SYSTEM_0 "."),
    ATTACK("old-payload", "payload_p1.pkl", KNOWN_EXEC,
           "\x80\x03"
           "C\x13" OS_SYSTEM_1 "."),
    ATTACK("old-payload", "payload_text.pkl", KNOWN_EXEC, "\x80\x02X\x13\0\0\0" OS_SYSTEM_1 "."),
    ATTACK("old-payload", "payload_unicode_line.pkl", KNOWN_EXEC,
           "Vcos\\u000asystem\\u000a(S'id'\\u000atR.\n."),
    ATTACK("old-payload", "payload_string_line.pkl", KNOWN_EXEC, "S'cos\\nsystem\\n(S\"id\"\\ntR.'\n."),
    ATTACK("old-payload", "payload_octal_line.pkl", KNOWN_EXEC,
           "S'\\200\\002cos\\nsystem\\n(S\"id\"\\ntR.'\n."),
    ATTACK("old-payload", "payload_in_stream.pkl", KNOWN_EXEC,
           "\x80\x03" LOAD_FROM_BYTES "C\x24" TORCH_MAGIC OS_SYSTEM_2 "\x85R."),

    /* dtypes that contradict their flags, or hide objects in fields */
    ATTACK("numpy-flags", "numpy_object_flags.pkl", NUMPY_OBJECTS,
           ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\0")), EIGHT_BYTES)),
    ATTACK("numpy-flags", "numpy_object_partly.pkl", NUMPY_OBJECTS,
           ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x01")), EIGHT_BYTES)),
    ATTACK("numpy-flags", "numpy_object_bytes.pkl", NUMPY_OBJECTS,
           ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")), EIGHT_BYTES)),
    ATTACK("numpy-flags", "numpy_number_flags.pkl", NUMPY_OBJECTS,
           ARRAY(DTYPE("\x02", "f8", STATE("\x03", "\x08", "\x3f")), EIGHT_BYTES)),
    ATTACK("numpy-flags", "numpy_old_state.pkl", NUMPY_OBJECTS,
           ARRAY(DTYPE("\x02", "V8", STATE("\x02", "\x08", "\x10")), EIGHT_BYTES)),
    ATTACK("numpy-flags", "numpy_fields.pkl", NUMPY_OBJECTS,
           ARRAY(DTYPE("\x02", "V8",
                       "K\x03U\x01|NU\x01"
                       "a\x85}U\x01"
                       "acnumpy\ndtype\nU\x02O8\x89\x88\x87RK\0\x86sJ\x08\0\0\0J\1\0\0\0K\0"),
                 EIGHT_BYTES)),
    ATTACK("numpy-flags", "numpy_spelled.pkl", NUMPY_OBJECTS,
           ARRAY(DTYPE("\x05", "O,f4,", STATE("\x03", "\x08", "\0")), EIGHT_BYTES)),
    ATTACK("numpy-flags", "numpy_scalar.pkl", NUMPY_OBJECTS,
           "\x80\x02"
           "cnumpy.core.multiarray\nscalar\n" DTYPE("\x02", "O8", STATE("\x03", "\x08", "\0")) EIGHT_BYTES
           "\x86R."),
    ATTACK("numpy-flags", "numpy_frombuffer.pkl", NUMPY_OBJECTS,
           "\x80\x02"
           "cnumpy._core.numeric\n_frombuffer\n(" EIGHT_BYTES DTYPE(
               "\x02", "O8", STATE("\x03", "\x08", "\0")) "K\x01\x85U\x01"
                                                          "CtR."),

    /* arrays of objects that other calls make from bytes */
    ATTACK("numpy-bytes", "numpy_ndarray.pkl", NUMPY_OBJECTS,
           "\x80\x02" NDARRAY "(K\x01\x85" DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")) EIGHT_BYTES
           "tR."),
    ATTACK("numpy-bytes", "numpy_newobj.pkl", NUMPY_OBJECTS,
           "\x80\x02" NDARRAY "(K\x01\x85" DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")) EIGHT_BYTES
           "t\x81."),
    ATTACK("numpy-bytes", "numpy_dtype_text.pkl", NUMPY_OBJECTS,
           "\x80\x02" NDARRAY "(K\x01\x85U\x01O" EIGHT_BYTES "tR."),
    ATTACK("numpy-bytes", "numpy_keywords.pkl", NUMPY_OBJECTS,
           "\x80\x04" NDARRAY "K\x01\x85\x85}(U\x05"
           "dtypeU\x01OU\x06"
           "buffer" EIGHT_BYTES "u\x92."),
    ATTACK("numpy-bytes", "numpy_state.pkl", NUMPY_OBJECTS,
           "\x80\x02"
           "cnumpy._core.numeric\n_frombuffer\n(" EIGHT_BYTES DTYPE(
               "\x02", "f8",
               STATE("\x03", "\x08", "\0")) "K\x01\x85U\x01"
                                            "CtR(K\x01K\x01\x85" DTYPE(
                                                "\x02", "O8",
                                                STATE("\x03", "\x08", "\x3f")) "\x89" EIGHT_BYTES "tb."),
    ATTACK("numpy-bytes", "numpy_from_type.pkl", UNUSUAL_ARGUMENTS,
           "\x80\x02"
           "ctorch._tensor\n_rebuild_from_type_v2\n(" NDARRAY NDARRAY
           "(K\x01\x85" DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")) EIGHT_BYTES "t}tR."),
    ATTACK("numpy-made", "record_array.pkl", NUMPY_OBJECTS,
           "\x80\x02"
           "cnumpy\nrecarray\n(K\x01\x85U\x01O" EIGHT_BYTES "tR."),
    ATTACK("numpy-made", "record_objects.pkl", NUMPY_OBJECTS,
           ARRAY("cnumpy\ndtype\n(cnumpy\nrecord\n\x89\x88tR(K\x03U\x01|NU\x01"
                 "a\x85}U\x01"
                 "acnumpy\ndtype\nU\x02O8\x89\x88\x87RK\0\x86sJ\x08\0\0\0J\1\0\0\0K\0tb",
                 EIGHT_BYTES)),
    ATTACK("numpy-made", "masked_type.pkl", NUMPY_OBJECTS,
           "\x80\x02"
           "cnumpy.ma.core\n_mareconstruct\n(" SIMPLE_NAMESPACE NDARRAY "K\0\x85U\x01"
           "btR."),
    ATTACK("numpy-made", "masked_objects.pkl", NUMPY_OBJECTS,
           "\x80\x02"
           "cnumpy.ma.core\n_mareconstruct\n(cnumpy.ma\nMaskedArray\n" NDARRAY "K\0\x85U\x01"
           "btR(K\x01K\x01\x85" DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")) "\x89" EIGHT_BYTES
                                                                                   "U\x01xNtb."),
    /* the attribute __array_interface__ gives numpy an address */
    ATTACK("numpy-address", "scalar_interface.pkl", NUMPY_OBJECTS,
           "cnumpy\nfloat64\n(" SIMPLE_NAMESPACE "}S'__array_interface__'\n}sbtR."),
    ATTACK("numpy-address", "subarray_interface.pkl", NUMPY_OBJECTS,
           ARRAY("cnumpy\ndtype\n(U\x03"
                 "V24\x89\x88tR(K\x03U\x01|NU\x01"
                 "aU\x01"
                 "b\x86}(U\x01"
                 "acnumpy\ndtype\nU\x02O8\x89\x88\x87RK\0\x86U\x01"
                 "bcnumpy\ndtype\nU\x03"
                 "V16\x89\x88\x87R(K\x03U\x01|cnumpy\ndtype\nU\x02O8\x89\x88\x87RK\x02\x85\x86NNJ\x10\0\0\0J"
                 "\x01\0\0\0K\x3ftbK\x08\x86uJ\x18\0\0\0J\1\0\0\0K\x3ftb",
                 "](N" SIMPLE_NAMESPACE "}S'__array_interface__'\n}sb\x86"
                 "e")),
    ATTACK("numpy-flags", "numpy_class_dtype.pkl", NUMPY_OBJECTS,
           ARRAY("cnumpy\ndtype\n(" NDARRAY "\x89\x88tR(" STATE("\x03", "\x08", "\0") "tb", EIGHT_BYTES)),
    /* names that are harmless only as values */
    ATTACK("called-value", "module_call.pkl", UNUSUAL_ARGUMENTS, "ctorch.nn.modules.activation\nReLU\n)R."),
    ATTACK("called-value", "module_arguments.pkl", UNUSUAL_ARGUMENTS,
           "\x80\x02"
           "ctransformers.training_args\nTrainingArguments\n(S'/tmp'\nt\x81."),
    ATTACK(
        "called-value", "module_from_type.pkl", UNUSUAL_ARGUMENTS,
        "\x80\x02"
        "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch.nn.modules.activation\nReLU\nctorch\nTensor\n)}tR."),
    ATTACK("called-value", "member_arguments.pkl", UNUSUAL_ARGUMENTS,
           "ctransformers.trainer_utils\nSchedulerType\n(S'a'\nS'b'\ntR."),
    ATTACK("called-value", "module_append.pkl", UNRESOLVED_CALLABLE,
           "\x80\x02"
           "ctorch.nn.modules.activation\nReLU\n)\x81}S'append'\nc_codecs\nencode\nsbS'a'\na."),
    HARMLESS("module.pkl", "\x80\x02"
                           "ctorch.nn.modules.activation\nReLU\n)\x81}S'inplace'\n\x89sb."),
    HARMLESS("training_args.pkl",
             "\x80\x02"
             "ctransformers.training_args\nTrainingArguments\n)\x81}S'lr_scheduler_type'\n"
             "ctransformers.trainer_utils\nSchedulerType\nS'linear'\n\x85Rsb."),
    ATTACK("called-value", "memmap_call.pkl", UNUSUAL_ARGUMENTS, "cnumpy\nmemmap\n(S'/dev/null'\ntR."),
    ATTACK("called-value", "ufunc_call.pkl", UNUSUAL_ARGUMENTS, "cnumpy\nsin\n(I1\ntR."),
    ATTACK("called-value", "type_call.pkl", UNUSUAL_ARGUMENTS,
           "cbuiltins\ntype\n(S'a'\n(cbuiltins\nobject\nt}tR."),
    ATTACK("called-value", "value_from_type.pkl", UNUSUAL_ARGUMENTS,
           "\x80\x02"
           "ctorch._tensor\n_rebuild_from_type_v2\n(cnumpy\nmemmap\nctorch\nTensor\n(S'/dev/null'\nt}tR."),
    HARMLESS("values.pkl", "(cnumpy\nsin\ncnumpy.dtypes\nFloat32DType\ncbuiltins\nobject\n"
                           "cbuiltins\ntype\n(NtRt."),
    HARMLESS("memmap.pkl",
             MADE_ARRAY("cnumpy\nmemmap\n", DTYPE("\x02", "f8", STATE("\x03", "\x08", "\0")), EIGHT_BYTES)),
    HARMLESS("masked_constant.pkl", "cnumpy.ma.core\nMaskedConstant\n(tR."),
    HARMLESS("masked_item.pkl",
             "\x80\x02"
             "cnumpy.ma.core\n_mareconstruct\n(cnumpy.ma.core\nmvoid\n" NDARRAY "K\0\x85U\x01"
             "btR(K\x01)" DTYPE("\x02", "V8",
                                "K\x03U\x01|NU\x01"
                                "a\x85}U\x01"
                                "acnumpy\ndtype\nU\x02"
                                "f8\x89\x88\x87RK\0\x86sJ\x08\0\0\0J\1\0\0\0K\0") "\x89" EIGHT_BYTES
                                                                                  "U\x01xNtb."),
    HARMLESS("texts.pkl", ARRAY("cnumpy._core._internal\n_convert_to_stringdtype_kwargs\n(K\x01tR", "]U\x01"
                                                                                                    "aa")),
    HARMLESS("polynomial.pkl", "\x80\x02"
                               "cnumpy\npoly1d\n)\x81}U\x09_variableU\x01xsb."),
    ATTACK("numpy-made", "polynomial_call.pkl", NUMPY_OBJECTS, "cnumpy\npoly1d\n(" SIMPLE_NAMESPACE "tR."),
    ATTACK("numpy-made", "texts_bytes.pkl", NUMPY_OBJECTS,
           ARRAY("cnumpy._core._internal\n_convert_to_stringdtype_kwargs\n(K\x01tR", EIGHT_BYTES)),
    ATTACK("numpy-made", "bit_generator.pkl", NUMPY_OBJECTS,
           "cnumpy.random._pickle\n__bit_generator_ctor\n(ccollections\nOrderedDict\ntR."),
    ATTACK("numpy-made", "generator_calls.pkl", NUMPY_OBJECTS,
           "cnumpy.random._pickle\n__generator_ctor\n(S'x'\nc_codecs\nencode\ntR."),
    HARMLESS("generator.pkl", "cnumpy.random._pickle\n__generator_ctor\n(S'PCG64'\ntR}S'state'\nI1\nsb."),
    HARMLESS("constants.pkl", "(cbuiltins\nEllipsis\ncbuiltins\nNotImplemented\nt."),
    HARMLESS("masked.pkl", "\x80\x02"
                           "cnumpy.ma.core\n_mareconstruct\n(cnumpy.ma\nMaskedArray\n" NDARRAY "K\0\x85U\x01"
                           "btR(K\x01K\x01\x85" DTYPE(
                               "\x02", "f8", STATE("\x03", "\x08", "\0")) "\x89" EIGHT_BYTES "U\x01xNtb."),
    HARMLESS("record.pkl", ARRAY("cnumpy\ndtype\n(cnumpy\nrecord\n\x89\x88tR(K\x03U\x01|NU\x01"
                                 "a\x85}U\x01"
                                 "acnumpy\ndtype\nU\x02"
                                 "f8\x89\x88\x87RK\0\x86sJ\x08\0\0\0J\1\0\0\0K\0tb",
                                 EIGHT_BYTES)),
    HARMLESS("numpy_ndarray_numbers.pkl", "\x80\x02" NDARRAY "(K\x01\x85" DTYPE(
                                              "\x02", "f8", STATE("\x03", "\x08", "\0")) EIGHT_BYTES "tR."),

    /* the opcodes that call */
    ATTACK("opcode", "call_reduce.pkl", KNOWN_EXEC, OS_SYSTEM_2),
    ATTACK("opcode", "call_inst.pkl", KNOWN_EXEC, "(S'id'\nios\nsystem\n."),
    ATTACK("opcode", "call_obj.pkl", KNOWN_EXEC, "(cos\nsystem\nS'id'\no."),
    ATTACK("opcode", "call_newobj.pkl", KNOWN_EXEC,
           "\x80\x02"
           "cos\nsystem\n(U\x02idt\x81."),
    ATTACK("opcode", "call_newobj_ex.pkl", KNOWN_EXEC,
           "\x80\x04"
           "cos\nsystem\n(U\x02idt}\x92."),
    ATTACK("opcode", "call_list.pkl", KNOWN_EXEC, "cos\nsystem\n(S'id'\nlR."),
    ATTACK("opcode", "call_build.pkl", IMPORT_CHANGED, "ccollections\nOrderedDict\n}S'a'\nI1\nsb."),
    ATTACK("opcode", "call_extension.pkl", UNRESOLVED_CALLABLE, "\x80\x02\x82\x01)R."),
    ATTACK("opcode", "call_dup.pkl", KNOWN_EXEC, "cos\nsystem\n20(S'id'\ntR."),

    /* the opcodes that name a function */
    ATTACK("name", "name_stack.pkl", KNOWN_EXEC, "\x80\x04\x8c\x02os\x8c\x06system\x93(\x8c\x02idtR."),
    ATTACK("name", "name_lines.pkl", KNOWN_EXEC, "Vos\nVsys\\u0074em\n\x93(S'id'\ntR."),
    ATTACK("name", "name_python2.pkl", KNOWN_EXEC,
           "\x80\x02"
           "c__builtin__\neval\n(U\x01"
           "1tR."),
    ATTACK("name", "name_dotted.pkl", UNKNOWN_CALLABLE,
           "\x80\x04\x8c\x0b"
           "collections\x8c\x0f"
           "abc.sys.modules\x93."),
    ATTACK("name", "name_computed.pkl", UNRESOLVED_CALLABLE,
           "\x80\x04\x8c\x02os"
           "c__builtin__\nstr\n\x8c\x06system\x85R\x93(\x8c\x02idtR."),
    ATTACK("name", "name_unlisted.pkl", UNKNOWN_CALLABLE, "cmy_module\nmy_class\n)R."),
    ATTACK("name", "name_result.pkl", UNRESOLVED_CALLABLE, "c__builtin__\nstr\n)R)R."),

    /* malformed pickles, whose calls precede the error */
    ATTACK("broken", "broken_after.pkl", KNOWN_EXEC,
           "\x80\x02"
           "cos\nsystem\n(U\x02idtRX\xff\0\0\0"),
    ATTACK("broken", "broken_protocol.pkl", KNOWN_EXEC, "cos\nsystem\n(S'id'\ntR\x80\x09."),
    ATTACK("broken", "broken_opcode.pkl", KNOWN_EXEC, "cos\nsystem\n(S'id'\ntR\xff"),

    /* frames of which Python's two unpicklers read different bytes */
    ATTACK("frame", "frame_text.pkl", FRAME_CROSSED,
           "\x80\x04\x95\x03\0\0\0\0\0\0\0X\x02\0\0\0ab0" OS_SYSTEM_1),
    ATTACK("frame", "frame_hides.pkl", FRAME_CROSSED,
           "\x80\x04\x95\x07\0\0\0\0\0\0\0X\x08\0\0\0abPPPPPPU\x14"
           "cos\nsystem\n\x8c\x02id\x85R.0."),

    /* harmless functions with harmful arguments */
    ATTACK("argument", "argument_codec.pkl", UNUSUAL_ARGUMENTS, "c_codecs\nencode\n(S'x'\nS'rot13'\ntR."),
    ATTACK("argument", "argument_type.pkl", UNUSUAL_ARGUMENTS,
           "ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nctorch\nTensor\n(S'id'\nt}tR."),

    /* pickles with the suffix of another format, and pickles that are text */
    ATTACK("disguise", "disguise.txt", KNOWN_EXEC, OS_SYSTEM_0),
    ATTACK("disguise", "disguise.json", KNOWN_EXEC, OS_SYSTEM_0),
    ATTACK("disguise", "disguise.safetensors", KNOWN_EXEC, OS_SYSTEM_2),
    ATTACK("disguise", "disguise_odd_name.pkl", KNOWN_EXEC, "ctorch.ops\na-b\n0" OS_SYSTEM_0),

    /* two pickles in one file, of which the second calls the function */
    ATTACK("concatenated", "after_stop.pkl", KNOWN_EXEC, "\x80\x02N." OS_SYSTEM_2),
    ATTACK("concatenated", "after_text.pkl", KNOWN_EXEC, "N." OS_SYSTEM_0),

    HARMLESS("torch_version.pkl", "ctorch.torch_version\nTorchVersion\n(S'2.1.0'\nt\x81."),
    HARMLESS("numpy_types.pkl", "(cnumpy\nfloat64\ncnumpy\nint32\ncnumpy\nuint8\nt."),
    HARMLESS("numpy_array.pkl", ARRAY(DTYPE("\x02", "f8", STATE("\x03", "\x08", "\0")), EIGHT_BYTES)),
    HARMLESS("numpy_objects.pkl", ARRAY(DTYPE("\x02", "O8", STATE("\x03", "\x08", "\x3f")), "]K\x01"
                                                                                            "a")),
    HARMLESS("namespace.pkl", SIMPLE_NAMESPACE "}S'lr'\nF0.1\nsb."),
    HARMLESS("deque.pkl", "ccollections\ndeque\n)R(I1\nI2\ne."),
    HARMLESS("ordered.pkl", "ccollections\nOrderedDict\n)R(S'a'\nI1\nS'b'\nI2\nu}S'_metadata'\nNsb."),
    HARMLESS("factory.pkl", "ccollections\ndefaultdict\n(c__builtin__\nlist\ntR(S'a'\n(lu."),
    HARMLESS("memo.pkl", "(lp0\nI1\nag0\n0."),
    HARMLESS("numbers.pkl", "(I1\nL2L\nF0.5\nNt."),
    HARMLESS("words.txt", "a list of words,\nthree of them\n"),
    HARMLESS("text_value.pkl", "S'a text of two lines\\nby hand'\n."),
};

/* Texts that loaders evaluate, or whose names they import. */
static const struct attack texts[] = {
    ATTACK("evaluated-text", "expression.json", EVALUATED_TEXT, "{\"expr_str\": \"recorder(1)\"}"),
    ATTACK("evaluated-text", "expression_text.json", EVALUATED_TEXT,
           "{\"expr_str\": \"Add('recorder(1)')\"}"),
    ATTACK("evaluated-text", "guard.json", EVALUATED_TEXT, "{\"guards_code\": [\"True\", \"recorder(1)\"]}"),
    ATTACK("config-target", "target.yaml", CONFIG_TARGET, "a:\n- _target_: recorder.record\n"),
    ATTACK("config-target", "target.txt", CONFIG_TARGET, "{a: {\"\\x5ftarget_\": recorder.record}}\n"),
    ATTACK("config-target", "target_alias.yaml", CONFIG_TARGET, "a: &b _target_\n*b : recorder.record\n"),
    ATTACK("config-target", "target_folded.yaml", CONFIG_TARGET, "a: |\n_target_: recorder.record\n"),
    ATTACK("config-target", "target_block.yaml", CONFIG_TARGET,
           "a:\n  - ? |-\n      _target_\n    : recorder.record\n"),
    ATTACK("config-target", "treespec.json", CONFIG_TARGET,
           "{\"in_spec\": \"[1, {\\\"type\\\": \\\"collections.defaultdict\\\", \\\"context\\\": "
           "{\\\"default_factory_module\\\": \\\"recorder\\\"}}]\"}"),
    ATTACK("yaml-tag", "tag.yaml", YAML_TAG, "a: !!python/name:recorder.record ''\n"),
    ATTACK("yaml-tag", "tag_escaped.yaml", YAML_TAG, "a: !!python%2fname:recorder.record ''\n"),
    ATTACK("yaml-tag", "tag_handle.yaml", YAML_TAG,
           "%TAG !p! tag:yaml.org,2002:python/\n---\n!p!name:recorder.record ''\n"),
    HARMLESS("harmless.yaml", "a: 'text: more'\nb: |\n  _target_: recorder.record\nc: [1, 2]\n"),
    HARMLESS("expression_harmless.json", "{\"expr_str\": \"2*Symbol('s0', integer=True) + 1\"}"),
    ATTACK("keras-alias", "alias.json", KERAS_CODE,
           "{\"module\": \"keras\", \"class_name\": \"layers.Lambda\"}"),
    ATTACK("keras-alias", "alias_function.json", KERAS_CODE,
           "{\"module\": \"keras\", \"class_name\": \"function\", \"config\": \"utils.get_file\"}"),
    ATTACK("keras-alias", "vocabulary.json", KERAS_CODE,
           "{\"module\": \"keras.layers\", \"class_name\": \"StringLookup\", "
           "\"config\": {\"vocabulary\": \"x\"}}"),
    ATTACK("base64", "serialized.json", KNOWN_EXEC, "{\":serialized:\": \"gAJjb3MKc3lzdGVtClUCaWSFUi4=\"}"),
    ATTACK("base64", "skipped.json", KNOWN_EXEC, "{\":serialized:\": \"--g!AJjb3MK c3lzdGVtClUCaWSFUi4=!\"}"),
    ATTACK("index", "snapshot.json", EXTERNAL_PATH,
           "{\"version\": \"0.1.0\", \"manifest\": {\"0/w\": {\"type\": \"ChunkedTensor\", \"chunks\": "
           "[{\"tensor\": {\"location\": \"../other/w\"}}]}}}"),
    HARMLESS("snapshot_inside.json",
             "{\"manifest\": {\"0/w\": {\"location\": \"0/w\"}}, \"location\": \"/home\"}"),
    ATTACK("keras-alias", "tfjs.json", KERAS_CODE,
           "{\"format\": \"layers-model\", \"modelTopology\": {\"model_config\": {\"config\": {\"layers\": ["
           "{\"class_name\": \"Lambda\", \"config\": {}}]}}}, \"weightsManifest\": []}"),
    ATTACK("index", "shard.index.json", EXTERNAL_PATH, "{\"weight_map\": {\"a\": \"../b.safetensors\"}}"),
};

/* ------------------------------------------------- files that functions write */

/* the file that is being made, until write_attack() */
static unsigned char content[1 << 20];
static size_t size;

static void put_bytes(const void *bytes, size_t n)
{
    if (n > sizeof content - size)
        abort();
    memcpy(content + size, bytes, n);
    size += n;
}
static void put_text(const char *s) { put_bytes(s, strlen(s)); }
static void put_repeated(size_t n, const char *s)
{
    while (n-- > 0)
        put_text(s);
}

static const char *folder;
static int failed;

#define LOADER_PICKLE "pickle"
#define LOADER_TEXT   "text" /* oracle.py also reads the file by PyYAML and sympy, if they are installed */
#define NO_LOADER     "-"

/* write_attack - writes `content` to the file NAME, prints its line, and empties `content`. */
static void write_attack(const char *technique, const char *name, const char *rule, const char *loader)
{
    const int expected_exit = strcmp(rule, NO_FINDING) != 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(content, 1, size, f) != size)
        failed = 1;
    if (f && fclose(f) != 0)
        failed = 1;
    printf("%s\t%s\t%d\t%s\t%s\n", technique, name, expected_exit, rule, loader);
    size = 0;
}

static void write_harmless(const char *name, const char *loader)
{
    write_attack("control", name, NO_FINDING, loader);
}

/* make_long_lines - writes pickles with lines longer than a reader's buffer may be. */
static void make_long_lines(void)
{
    put_text("cos\nsystem\np25\n0ccollections\nOrderedDict\np0\n0g");
    put_repeated(4095, "0");
    put_text("25\n(S'id'\ntR.");
    write_attack("long-line", "long_get.pkl", KNOWN_EXEC, LOADER_PICKLE);
    put_text("ccollections\nOrderedDict\np0\n0cos\nsystem\np");
    put_repeated(4095, "0");
    put_text("25\n0g25\n(S'id'\ntR.");
    write_attack("long-line", "long_put.pkl", KNOWN_EXEC, LOADER_PICKLE);
    put_text("cos\nsystem\np");
    put_repeated(9000, " ");
    put_text("7\n0g7\n(S'id'\ntR.");
    write_attack("long-line", "long_blank.pkl", KNOWN_EXEC, LOADER_PICKLE);
    put_text("c");
    put_repeated(5000, "m");
    put_text("\nname\n0" OS_SYSTEM_0);
    write_attack("long-line", "long_global.pkl", KNOWN_EXEC, LOADER_PICKLE);
    put_text("(S'id'\ni");
    put_repeated(4094, "m");
    put_text("\xc3\xa9\xc3\xa9\nname\n0" OS_SYSTEM_0);
    write_attack("long-line", "long_inst", KNOWN_EXEC, LOADER_PICKLE);
}

/* make_long_series - writes files of many pickles, of which only the last calls a function. */
static void make_long_series(void)
{
    static const size_t counts[] = {15, 16, 17, 100, 4000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char name[64];
        put_repeated(counts[i], "N.");
        put_text(OS_SYSTEM_0);
        snprintf(name, sizeof name, "series_%zu", counts[i]);
        write_attack("series", name, KNOWN_EXEC, LOADER_PICKLE);
    }
    put_repeated(20, "(lp0\n.");
    put_text(OS_SYSTEM_0);
    write_attack("series", "series_lists.txt", KNOWN_EXEC, LOADER_PICKLE);
}

/* ------------------------------------------------------------ containers */

/* put_number - writes NUMBER as N bytes, little-endian. */
static void put_number(uint64_t number, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)(number >> 8 * i);
        put_bytes(&byte, 1);
    }
}

static uint32_t compute_crc32(const char *bytes, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* put_zip_fields - writes the fields that the local and the central header of a zip member share. */
static void put_zip_fields(const char *name, const char *bytes, size_t n)
{
    put_number(20, 2); /* version needed to extract: 2.0 */
    put_number(0, 8);  /* flags, method (stored), time, date */
    put_number(compute_crc32(bytes, n), 4);
    put_number(n, 4); /* compressed size */
    put_number(n, 4); /* uncompressed size */
    put_number(strlen(name), 2);
    put_number(0, 2); /* length of the extra field */
}

/* put_zip - writes a zip archive of one stored member; its offsets count from byte BASE of `content`. */
static void put_zip(const char *name, const char *bytes, size_t n, const char *comment, size_t base)
{
    size_t start = size, directory;
    put_text("PK\3\4");
    put_zip_fields(name, bytes, n);
    put_text(name);
    put_bytes(bytes, n);
    directory = size;
    put_text("PK\1\2");
    put_number(20, 2); /* version made by: 2.0 */
    put_zip_fields(name, bytes, n);
    put_number(0, 10); /* length of the comment, disk, attributes */
    put_number(start - base, 4);
    put_text(name);
    size_t end = size;
    put_text("PK\5\6");
    put_number(0, 4); /* disks */
    put_number(1, 2); /* members on this disk */
    put_number(1, 2); /* members */
    put_number(end - directory, 4);
    put_number(directory - base, 4);
    put_number(strlen(comment), 2);
    put_text(comment);
}
#define ZIP(name, bytes, comment, base) put_zip(name, bytes, sizeof(bytes) - 1, comment, base)

#define SAFETENSORS_HEADER "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"

static void put_safetensors(void)
{
    put_number(sizeof SAFETENSORS_HEADER - 1, 8);
    put_text(SAFETENSORS_HEADER "x");
}

/* put_short_string - writes a SHORT_BINSTRING that takes N bytes in all: the opcode, the length, the text. */
static void put_short_string(size_t n)
{
    char length = (char)(n - 2);
    put_text("U");
    put_bytes(&length, 1);
    put_repeated(n - 2, "x");
}

/* make_polyglot - writes a safetensors file that is also a pickle. Its first byte, the lowest of the header's
 * length, is 0x58, BINUNICODE. The text of that opcode ends in a string of the metadata, in which
 * SHORT_BINSTRINGs follow; the last of them extends to the tensor's data, which contain the call. */
static void make_polyglot(void)
{
    enum {
        TEXT_LENGTH = 32,                         /* length of the text of BINUNICODE */
        HEADER_LENGTH = 'X' + (TEXT_LENGTH << 8), /* the opcode BINUNICODE, then the length of its text */
        FILLER = 80,                              /* bytes of tensor data around the call */
    };
    char tail[80];
    int tail_length = snprintf(tail, sizeof tail,
                               "\"},\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                               FILLER + (int)sizeof OS_SYSTEM_0 - 1, FILLER + (int)sizeof OS_SYSTEM_0 - 1);
    put_number(HEADER_LENGTH, 8);
    put_text("{\"__metadata__\":{\"k\":\"");
    put_repeated(1 + 4 + TEXT_LENGTH - size, "x"); /* up to the end of BINUNICODE: opcode, length, text */
    size_t header_end = 8 + HEADER_LENGTH;
    size_t gap = header_end - (size_t)tail_length - 2 - size; /* bytes before the last SHORT_BINSTRING */
    for (; gap > 256; gap -= 128)
        put_short_string(128);
    put_short_string(gap / 2);
    put_short_string(gap - gap / 2);
    put_text("U~"); /* SHORT_BINSTRING of 126 bytes, which extends beyond the header */
    size_t call = size + '~';
    put_text(tail);
    size_t data = size;
    put_repeated(call - size, "x");
    put_text(OS_SYSTEM_0);
    put_repeated(data + FILLER + sizeof OS_SYSTEM_0 - 1 - size, "x");
    write_attack("polyglot", "polyglot.safetensors", KNOWN_EXEC, LOADER_PICKLE);
}

/* make_zlib_text - writes a zlib stream that is all text: a stored block of 0x4020 bytes. */
static void make_zlib_text(void)
{
    put_text("\x78\x5e"
             "a\x20\x40\xdf\xbf" OS_SYSTEM_0);
    put_repeated(0x4020 - (sizeof OS_SYSTEM_0 - 1), "x");
    put_text("abcd");
    write_attack("zlib-text", "zlib_text.joblib", KNOWN_EXEC, NO_LOADER);
}

#define NPY_HEADER_END    80 /* offset of the array's data in a .npy file: a header of 70 bytes after 10 */
#define NPY_HEADER_LENGTH "\x46\0"

/* make_zip_tails - writes files to which an archive with a pickle is appended, and a pickle before an
 * archive. */
static void make_zip_tails(void)
{
    static const char npy_start[] = "\x93NUMPY\1\0" NPY_HEADER_LENGTH
                                    "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
    put_safetensors();
    ZIP("archive/data.pkl", OS_SYSTEM_2, "", size);
    write_attack("zip-tail", "tail.safetensors", KNOWN_EXEC, NO_LOADER);
    put_safetensors();
    ZIP("archive/data.pkl", OS_SYSTEM_2, "a comment", 0);
    write_attack("zip-tail", "tail_comment.safetensors", KNOWN_EXEC, NO_LOADER);
    put_bytes(npy_start, sizeof npy_start - 1);
    put_repeated(NPY_HEADER_END - 1 - size, " ");
    put_text("\nx");
    ZIP("archive/data.pkl", OS_SYSTEM_2, "a comment", 0);
    write_attack("zip-tail", "tail.npy", KNOWN_EXEC, NO_LOADER);
    put_text("\x80\2N.");
    ZIP("data.pkl", OS_SYSTEM_2, "a comment", 0);
    write_attack("zip-tail", "tail.pkl", KNOWN_EXEC, NO_LOADER);
    put_bytes(OS_SYSTEM_2, sizeof OS_SYSTEM_2 - 1);
    ZIP("archive/readme", "text\n", "", 0);
    write_attack("zip-front", "front.pt", KNOWN_EXEC, LOADER_PICKLE);
}

/* put_gzip - writes a gzip member that has the N BYTES in a stored block. */
static void put_gzip(const char *bytes, size_t n)
{
    put_bytes("\x1f\x8b\x08\0\0\0\0\0\0\3\1", 11);
    put_number(n, 2);
    put_number(0xffff - n, 2);
    put_bytes(bytes, n);
    put_number(compute_crc32(bytes, n), 4);
    put_number(n, 4);
}

/* make_members - writes archives and other containers with a pickle in them, and harmless ones. */
static void make_members(void)
{
    ZIP("archive/data.pkl", OS_SYSTEM_2, "", 0);
    write_attack("member", "member.pt", KNOWN_EXEC, NO_LOADER);
    ZIP("readme.txt", OS_SYSTEM_0, "", 0);
    write_attack("member", "member_text.zip", KNOWN_EXEC, NO_LOADER);
    put_gzip(OS_SYSTEM_2, sizeof OS_SYSTEM_2 - 1);
    write_attack("member", "member.joblib", KNOWN_EXEC, NO_LOADER);
    put_gzip("", 0);
    put_number(0, 8); /* padding, which gzip skips */
    put_gzip(OS_SYSTEM_2, sizeof OS_SYSTEM_2 - 1);
    write_attack("member", "padded.gz", KNOWN_EXEC, NO_LOADER);
    put_bytes("\x93NUMPY\1\0", 8); /* version 1.0 */
    put_number(NPY_HEADER_END - 10, 2);
    put_text("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }");
    put_repeated(NPY_HEADER_END - 1 - size, " ");
    put_text("\n");
    put_bytes(OS_SYSTEM_2, sizeof OS_SYSTEM_2 - 1);
    write_attack("member", "member.npy", KNOWN_EXEC, NO_LOADER);
    put_safetensors();
    write_harmless("sound.safetensors", NO_LOADER);
    ZIP("readme.txt", "text\n", "", 0);
    write_harmless("sound.zip", NO_LOADER);
}

/* The storage of two numbers, as torch.save writes it inside of pickle.dumps(tensor). */
static const char storage_stream[] = TORCH_MAGIC
    "\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00protocol_versionq\x01M\xe9\x03X\x0d\x00\x00\x00l"
    "ittle_endianq\x02\x88X\n\x00\x00\x00type_sizesq\x03}q\x04(X\x05\x00\x00\x00shortq\x05K\x02X"
    "\x03\x00\x00\x00intq\x06K\x04X\x04\x00\x00\x00longq\x07K\x04uu.\x80\x02(X\x07\x00\x00\x00st"
    "orageq\x00"
    "ctorch\nFloatStorage\nq\x01X\x01\x00\x00\x00"
    "0q\x02X\x03\x00\x00\x00"
    "cpuq\x03K\x02Ntq\x04Q.\x80\x02]q\x00X\x01\x00\x00\x00"
    "0q\x01"
    "a.\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@";

/* make_tensor - writes the result of pickle.dumps for a tensor whose storage is storage_stream. The bytes of
 * that stream are a line of the UNICODE opcode in PROTOCOL 0, and the text of BINUNICODE in PROTOCOL 1. */
static void make_tensor(int protocol)
{
    put_text("ctorch._utils\n_rebuild_tensor_v2\n(" LOAD_FROM_BYTES "(c_codecs\nencode\n(");
    put_text(protocol ? "X" : "V");
    size_t length_offset = size, nbytes = 0;
    if (protocol)
        put_number(0, 4);
    for (size_t i = 0; i + 1 < sizeof storage_stream; i++) {
        unsigned char c = (unsigned char)storage_stream[i],
                      utf8[2] = {(unsigned char)(0xc0 | c >> 6), (unsigned char)(0x80 | (c & 0x3f))};
        char escape[8];
        snprintf(escape, sizeof escape, "\\u%04x", c);
        if (protocol)
            put_bytes(c < 0x80 ? &c : utf8, c < 0x80 ? 1 : 2);
        else if (c == 0 || c == '\n' || c == '\\' || c == '\r' || c == 0x1a)
            put_text(escape);
        else
            put_bytes(&c, 1);
    }
    nbytes = size - length_offset - 4;
    if (protocol)
        for (size_t i = 0; i < 4; i++)
            content[length_offset + i] = (unsigned char)(nbytes >> 8 * i);
    put_text(protocol ? "X" : "\nVlatin1\n");
    if (protocol) {
        put_number(6, 4);
        put_text("latin1");
    }
    put_text("tRtRI0\n(I2\nt(I1\ntI00\nccollections\nOrderedDict\n(tRtR.");
    write_harmless(protocol ? "tensor_1.pkl" : "tensor_0.pkl", LOADER_PICKLE);
}

/* put_bits - writes the N lowest bits of VALUE to a deflate stream; if N is 0, fills up the last byte. */
static void put_bits(unsigned value, unsigned n)
{
    static unsigned nbits, bits; /* not written yet */
    bits |= value << nbits;
    for (nbits += n; nbits >= 8; nbits -= 8, bits >>= 8)
        put_number(bits & 0xff, 1);
    if (n == 0 && nbits) {
        put_number(bits & 0xff, 1);
        nbits = bits = 0;
    }
}

/* put_huffman - writes a Huffman code of N bits, highest bit first. */
static void put_huffman(unsigned code, unsigned n)
{
    while (n-- > 0)
        put_bits(code >> n & 1, 1);
}

/* make_long_values - writes pickles with bytes or a text that is a pickle, whose import comes after more than
 * 4,096 bytes of it, and bytes that end in a zip archive. */
static void make_long_values(void)
{
    enum { FILLER = 0x1400, CALL = sizeof OS_SYSTEM_1 - 1, INNER = 1 + 4 + FILLER + 1 + CALL };
    static const char opcodes[] = "BXT";
    static const char *const names[] = {"long_bytes.pkl", "long_text.pkl", "long_string.pkl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        put_bytes("\x80\x03", 2);
        put_bytes(&opcodes[i], 1);
        put_number(INNER, 4);
        put_text("X");
        put_number(FILLER, 4);
        put_repeated(FILLER, "x");
        put_text("0");
        put_bytes(OS_SYSTEM_1, CALL);
        put_text(".");
        write_attack("long-value", names[i], KNOWN_EXEC, LOADER_PICKLE);
    }
    put_text("V");
    put_repeated(5000, "N0");
    put_text("cos\\u000asystem\\u000a(S'id'\\u000atR.\n.");
    write_attack("long-value", "long_line.pkl", KNOWN_EXEC, LOADER_PICKLE);
    static const size_t gaps[] = {10, 5000, 200000};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        char name[64];
        put_bytes("\x80\x03"
                  "B\0\0\0\0",
                  7);
        put_repeated(gaps[i], "z");
        ZIP("archive/data.pkl", OS_SYSTEM_2, "", 7);
        for (size_t k = 0; k < 4; k++)
            content[3 + k] = (unsigned char)((size - 7) >> 8 * k);
        put_bytes("0B\0\0\2\0", 6); /* POP, and 128 KiB: the file itself does not end in an archive */
        put_repeated(0x20000, "z");
        put_text(".");
        snprintf(name, sizeof name, "value_zip_%zu.pkl", gaps[i]);
        write_attack("long-value", name, KNOWN_EXEC, LOADER_PICKLE);
    }
    put_bytes("\x80\x03"
              "B\x40\x9c\0\0",
              7);
    put_repeated(10000, "N0N\n"); /* 40,000 bytes that begin like a pickle */
    put_text(".");
    write_harmless("long_value.pkl", LOADER_PICKLE);
}

/* make_many_opcodes - writes a zlib stream of more opcodes than scan follows: NONE and POP, repeated by
 * matches of DEFLATE. */
static void make_many_opcodes(void)
{
    put_bytes("\x78\x9c", 2);
    put_bits(3, 3); /* BFINAL 1, BTYPE 01: the last block, with fixed Huffman codes */
    put_huffman(0x30 + 'N', 8);
    put_huffman(0x30 + '0', 8);
    for (int i = 0; i < 300000; i++) {
        put_huffman(0xc0 + 285 - 280, 8); /* length 258 */
        put_huffman(1, 5);                /* distance 2 */
    }
    put_bits(0, 7); /* end of block */
    put_bits(0, 0);
    put_number(0, 4); /* instead of the Adler-32 */
    write_attack("cost", "opcodes.joblib", PICKLE_NOT_FOLLOWED, NO_LOADER);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: attacks DIR\n");
        return 2;
    }
    folder = argv[1];
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        const struct attack *a = &attacks[i];
        put_bytes(a->bytes, a->nbytes);
        write_attack(a->technique, a->name, a->rule, LOADER_PICKLE);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_bytes(texts[i].bytes, texts[i].nbytes);
        write_attack(texts[i].technique, texts[i].name, texts[i].rule, LOADER_TEXT);
    }
    make_long_lines();
    make_long_series();
    make_polyglot();
    make_zlib_text();
    make_zip_tails();
    make_members();
    make_tensor(0);
    make_tensor(1);
    make_long_values();
    make_many_opcodes();
    return failed || fflush(stdout) != 0;
}
