/* Scanning text that loaders evaluate: expressions of torch.export, targets and tags of configurations, the
 * texts in base64 of Stable-Baselines3, the files of an index. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "pickled.h"
#include "scan/scan.h"
#include "scanned.h"

static struct scan_results scan(ckpt_str bytes) { return scan_buffer(bytes.ptr, bytes.len, 0); }
static struct scan_results scan_yaml_file(ckpt_str bytes) { return scan_buffer_as(bytes, ".yaml", NULL, 0); }

static struct scan_results scan_expression(const char *key, const char *expression)
{
    char json[512];
    int n = snprintf(json, sizeof json,
                     strcmp(key, "guards_code") == 0 ? "{\"%s\": [\"%s\"]}" : "{\"%s\": \"%s\"}", key,
                     expression);
    return scan_buffer(json, (size_t)n, 0);
}

/* Expressions as torch 2.5 to 2.15 write them. */
static void arithmetic_is_data(void)
{
    static const char *const expressions[] = {
        "s0",
        "2*s0 + 1",
        "-(s0//2)",
        "s0**2 - 3*s1 + 0.5e-3",
        "Max(1, ((s77 - 3)//2) + 1)",
        "Ne(s0, 1) & (s0 <= 9223372036854775806)",
        "Symbol('s77', positive=True, integer=True)",
        "Add(FloorDiv(Add(Symbol('s77', positive=True, integer=True), Integer(-3)), Integer(2)), Integer(1))",
        "StrictLessThan(Symbol('u0', integer=True), Integer(100))",
        "Piecewise((1, u0 > 2), (0, True))",
        "Float('1.5', precision=53)",
        "IntInfinity()",
        "not (s0 < 3) and ~u1",
    };
    static const char *const guards[] = {
        "(L['x'].size()[0] // 2) <= 3*L['x'].size()[0]",
        "(1 + (((-3) + L['x'].size()[0]) // 2)) != 1",
        "L['args'][0]['k'].stride()[1] == 3",
        "math.isnan(L['y'])",
        "L['y'] == -math.inf",
        "True",
    };
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        struct scan_results s = scan_expression("expr_str", expressions[i]);
        CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
        if (s.findings)
            printf("    %s: %s\n", expressions[i], s.first_finding.text);
    }
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        struct scan_results s = scan_expression("guards_code", guards[i]);
        CU_ASSERT(s.status == CKPT_OK && s.findings == 0);
        if (s.findings)
            printf("    %s: %s\n", guards[i], s.first_finding.text);
    }
}

static void other_expressions_are_reported(void)
{
    static const char *const expressions[] = {
        "f(s0)",
        "Add('s0')",
        "s0.is_integer",
        "s0[0]",
        "Symbol('a b')",
        "lambda",
        "x__y",
        "Symbol('s0')()",
        "[s0]",
        "{s0}",
        "s0 s1",
        "",
        "(s0",
        "s0)",
        "s0 if s1 else 2",
        "Add(*s0)",
        "Add(s0)(1)",
        "'s0'",
        "s0 = 1",
        "s0; s1",
        "print(1)",
        "Max(a=f())",
        "1.real",
        "Symbol(\\\"s0\\\" 's1')",
        "math.inf",
        "s0 +",
        "1e",
        "\\u0131",
    };
    static const char *const guards[] = {
        "L['x'].__class__", "L[f()]",       "L['x'].size(1)", "torch.load(x)",
        "L['x y']",         "math.prod(x)", "L['x']()",       "(lambda: 1)()",
    };
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        struct scan_results s = scan_expression("expr_str", expressions[i]);
        CU_ASSERT(s.findings == 1 && strcmp(s.first_finding.rule, "evaluated-text") == 0);
        if (s.findings != 1)
            printf("    %s\n", expressions[i]);
    }
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        struct scan_results s = scan_expression("guards_code", guards[i]);
        CU_ASSERT(s.findings == 1 && strcmp(s.first_finding.rule, "evaluated-text") == 0);
        if (s.findings != 1)
            printf("    %s\n", guards[i]);
    }
    CHECK_ONLY_FINDING(scan_expression("expr_str", "s0 + f(1)"), "evaluated-text", 13,
                       "(1) is not arithmetic: character 7 of s0 + f(1)");
    char deep[300];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    CU_ASSERT_EQUAL(scan_expression("expr_str", deep).findings, 1);
}

/* scan_program - scans the JSON of an exported program of torch with MEMBERS below "graph_module". */
static struct scan_results scan_program(const char *members)
{
    char json[1024];
    int n = snprintf(json, sizeof json, "{\"graph_module\": {%s}}", members);
    return scan_buffer(json, (size_t)n, 0);
}

#define IN_GRAPH(text)    "\"graph\": {\"inputs\": [" text "]}"
#define NAMED(name)       IN_GRAPH("{\"as_tensor\": {\"name\": \"" name "\"}}")
#define PARAMETER(path)   "\"signature\": {\"parameter\": {\"parameter_name\": \"" path "\"}}"
#define CALL(function)    "\"graph\": {\"nodes\": [{\"target\": \"" function "\", \"inputs\": []}]}"
#define ARGUMENT(members) "\"graph\": {\"nodes\": [{\"inputs\": [{\"name\": \"\", \"arg\": {" members "}}]}]}"
#define MODULE_STACK(s)   "\"graph\": {\"nodes\": [{\"metadata\": {\"nn_module_stack\": \"" s "\"}}]}"

/* scan_spec - scans a treespec under KEY: of a mapping with ARGUMENT_KEY, and of a KEYWORD. */
static struct scan_results scan_spec(const char *key, const char *argument_key, const char *keyword)
{
    static const char format[] =
        "\"module_call_graph\": [{\"signature\": {\"%s\": "
        "\"[1, {\\\"context\\\": \\\"null\\\", \\\"children_spec\\\": ["
        "{\\\"children_spec\\\": [{\\\"context\\\": \\\"[\\\\\\\"%s\\\\\\\"]\\\"}]}, "
        "{\\\"context\\\": \\\"[\\\\\\\"%s\\\\\\\"]\\\"}]}]\"}}]";
    char members[512];
    (void)snprintf(members, sizeof members, format, key, argument_key, keyword);
    return scan_program(members);
}

static void check_rule(struct scan_results s, const char *rule, const char *what)
{
    bool is_right = s.status == CKPT_OK && s.findings == (rule[0] ? 1 : 0) &&
                    (!rule[0] || strcmp(s.first_finding.rule, rule) == 0);
    CU_ASSERT(is_right);
    if (!is_right)
        printf("    %s: %s\n", what, s.first_finding.text);
}

/* Names as torch 2.15 writes them for modules in lists and mappings, arguments in letters beyond ASCII, texts
 * that are inputs, functions of many kinds. */
static void names_in_exported_programs_are_data(void)
{
    static const char *const members[] = {
        NAMED("x"),
        NAMED("gr\xc3\xb6\xc3\x9f"
              "e_1"),
        NAMED("_0"),
        PARAMETER("l.0.weight"),
        PARAMETER("md.a-b.c/d e.q'x"),
        PARAMETER("pd.k(1)"),
        "\"module_call_graph\": [{\"fqn\": \"\"}, {\"fqn\": \"l@1.0\"}]",
        "\"module_call_graph\": [{\"signature\": {\"forward_arg_names\": [\"d\", \"args_0\"]}}]",
        IN_GRAPH("{\"as_string\": \"nearest-exact (1/2) [a] {b} #\"}, {\"as_int\": 3}"),
        ARGUMENT("\"as_string\": \"it's \\\"quoted\\\"\\n\""),
        ARGUMENT("\"as_strings\": [\"it's \\\"quoted\\\"\"]"),
        ARGUMENT("\"as_float\": \"Infinity\""),
        MODULE_STACK("L__self__,,__main__.f.<locals>.Net;L__self___l,L['self'].l,torch.nn.Linear"),
        "\"graph\": {\"nodes\": [{\"metadata\": {\"stack_trace\": \"File \\\"a.py\\\", line 1\\n\"}}]}",
        CALL("torch.ops.aten.add.Tensor"),
        CALL("torch.ops.higher_order.cond"),
        CALL("torch.ops.mylib.foo.default"),
        CALL("_operator.floordiv"),
        CALL("math.trunc"),
        CALL("torch.sym_max"),
        CALL("torch._functorch.predispatch._add_batch_dim"),
        CALL("#extension:op.x"),
        CALL("mylib.foo"),
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        check_rule(scan_program(members[i]), "", members[i]);
    check_rule(scan_spec("in_spec", "x.y (0)", "input_ids"), "", "in_spec");
    check_rule(scan_spec("out_spec", "it's", "x.y"), "", "out_spec");
    CU_ASSERT_EQUAL(scan(TEXT("{\"model\": {\"name\": \"a b\", \"target\": \"x()\"}}")).findings, 0);
}

static void code_in_exported_programs_is_reported(void)
{
    static const char *const members[] = {
        NAMED("x=f()"),
        NAMED("x:f()"),
        NAMED("x.y"),
        NAMED("*x"),
        NAMED("0"),
        NAMED("x\\n"),
        IN_GRAPH("{\"as_sym_int\": {\"as_name\": \"x=f()\"}}"),
        IN_GRAPH("{\"as_string\": \"a'+f()+'\"}"),
        IN_GRAPH("{\"as_string\": \"a\\\"+f()+\\\"\"}"),
        IN_GRAPH("{\"as_string\": \"a\\n\"}"),
        IN_GRAPH("{\"as_int\": 1}, {\"as_string\": \"a\\n\"}"),
        IN_GRAPH("{\"as_float\": \"a'+f()+'\"}"),
        IN_GRAPH("{\"as_int\": \"a\"}"),
        ARGUMENT("\"as_ints\": [\"a\"]"),
        "\"graph\": {\"nodes\": [{\"inputs\": [{\"name\": \"a=f(),b\", \"kind\": 2}]}]}",
        "\"graph\": {\"nodes\": [{\"name\": \"a=f();b\"}]}",
        ARGUMENT("\"as_graph\": {\"name\": \"a b\"}"),
        "\"module_call_graph\": [{\"signature\": {\"forward_arg_names\": [\"d=f()\"]}}]",
        "\"module_call_graph\": [{\"signature\": {\"forward_arg_names\": [\"x\", \"d=f()\"]}}]",
        "\"module_call_graph\": [{\"fqn\": \"a\\\")+f()+(\\\"\"}]",
        PARAMETER("l.a\\\")+f()+(\\\""),
        PARAMETER("l.a\\n"),
        PARAMETER("l.a\\\\"),
        "\"signature\": {\"buffer\": {\"buffer_name\": \"\\\"\"}}",
        MODULE_STACK("a,b\\\")+f()+(\\\",c"),
        CALL("torch.ops.aten.add(f())"),
        CALL("#a b:c"),
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        check_rule(scan_program(members[i]), "evaluated-text", members[i]);
    check_rule(scan_spec("in_spec", "a'", "x"), "evaluated-text", "a key");
    check_rule(scan_spec("in_spec", "x", "d=f()"), "evaluated-text", "a keyword");
    CHECK_ONLY_FINDING(scan_program(NAMED("x=f()")), "evaluated-text", 62,
                       "the \"name\" x=f() is not an identifier, and torch writes it into Python code");
    CHECK_ONLY_FINDING(scan_spec("in_spec", "x", "x y"), "evaluated-text", 66,
                       "the key x y of an \"in_spec\" is not an identifier");
}

static void functions_of_exported_programs_are_reported(void)
{
    static const char *const functions[] = {
        CALL("torch.load"),
        CALL("torch.os.system"),
        CALL("torch.ops.load_library"),
        CALL("mathx.y"),
        CALL("_operator.methodcaller"),
        CALL("torch"),
        CALL("torch.ops.a.b.c.d"),
        CALL("torch.sym_x"),
        CALL("math.__loader__.load_module"),
        CALL("torch.sym_max.__x__"),
        ARGUMENT("\"as_operator\": \"torch.hub.load\""),
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        check_rule(scan_program(functions[i]), "config-target", functions[i]);
    CHECK_ONLY_FINDING(scan_program(CALL("torch.load")), "config-target", 49, "a graph calls torch.load");
    CHECK_ONLY_FINDING(scan_program(CALL("torch.ops.aten.from_file.default")), "graph-code", 49,
                       "the operation torch.ops.aten.from_file.default reads or writes a file");
    check_rule(scan_program(CALL("torch.ops.aten.save")), "graph-code", "save");
}

#define HARMLESS_TARGET "torch.optim.AdamW"

static void harmless_configurations_are_data(void)
{
    static const ckpt_str texts[] = {
        CONSTANT("a: 1\nb: [x, 'y']\n"),
        CONSTANT("optim:\n  _target_: " HARMLESS_TARGET "\n  lr: 0.1\n"),
        CONSTANT("{optim: {\"_target_\": '" HARMLESS_TARGET "'}}\n"),
        CONSTANT("target: &t " HARMLESS_TARGET "\n"),
        CONSTANT("target: labels.csv\nclass_path: model.pt\n"),
        CONSTANT("target: 5\nclass_path: x\nname: target\n"),
        CONSTANT("a: !!str b\nc: !!python/tuple [1, 2]\nd: ! e\n"),
        CONSTANT("a: |\n  _target_: os.system\n"),
        CONSTANT("_target_: |-\n  " HARMLESS_TARGET "\n"),
        CONSTANT("# _target_: os.system\n"),
        CONSTANT("name: my.thing\n"),
        CONSTANT("pipeline:\n  name: pyannote.audio.pipelines.SpeakerDiarization\n  params: {x: my.thing}\n"),
        CONSTANT("pipeline: {name: SpeakerDiarization}\n"),
        CONSTANT(""),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts - 1; i++) {
        struct scan_results s = scan_yaml_file(texts[i]);
        CU_ASSERT(s.status == CKPT_OK && s.findings == 0 && s.result.accounted == s.result.bytes);
        if (s.findings)
            scan_has_finding(&s, 0, "", 0, "", (int)i);
        CU_ASSERT_EQUAL(scan(texts[i]).findings, 0);
    }
    CU_ASSERT_EQUAL(scan(TEXT("{\"_target_\": \"" HARMLESS_TARGET "\"}")).findings, 0);
    /* prose about targets, which is no YAML */
    CU_ASSERT_EQUAL(scan(TEXT("The key `_target_: x: y` of hydra\n")).findings, 0);
}

static void targets_of_configurations_are_reported(void)
{
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_target_: my.thing\n")), "config-target", 10,
                       "it names my.thing");
    CHECK_ONLY_FINDING(scan(TEXT("a:\n  _target_: my.thing\n")), "config-target", 15, "it names my.thing");
    CHECK_ONLY_FINDING(scan(TEXT("{\"_target_\": \"my.thing\"}")), "config-target", 13, "it names my.thing");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("target: my.thing\n")), "config-target", 8, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("- class_path: my.thing\n")), "config-target", 14, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("\"\\x5ftarget_\": my.thing\n")), "config-target", 15, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("? _target_\n: my.thing\n")), "config-target", 13, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("? |-\n  _target_\n: my.thing\n")), "config-target", 18, "");
    CHECK_ONLY_FINDING(scan(TEXT("a:\n  ? >-\n    _target_\n  : my.thing\n")), "config-target", 27, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("- ? |-2\n    _target_\n  : my.thing\n")), "config-target", 25,
                       "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("? |-\n  target\n: my.thing\n")), "config-target", 16, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("? |-\n  class_path\n: >-\n  my.thing\n")), "config-target", 20,
                       "it names my.thing");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("target: |-\n  my.thing\n")), "config-target", 8, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_target_: !!str my.thing\n")), "config-target", 16, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_target_: ${a.b}\n")), "config-target", 10, "it names ${a.b}");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_target_: AdamW\n")), "config-target", 10, "it names AdamW");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: &x b\n_target_: *x\n")), "config-target", 18,
                       "computed while loading");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("&x target: b\n*x : my.thing\n")), "config-target", 3,
                       "computed while loading");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: _target_\nb: c\n")), "config-target", 12,
                       "computed while loading");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_target_: [a]\n")), "config-target", 10,
                       "computed while loading");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_target_: torch.nn.Linear.x\n")), "config-target", 10, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_component_: my.thing\n")), "config-target", 13,
                       "it names my.thing");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: b\n...\n---\n_target_:\n  my.thing\n")), "config-target", 25,
                       "");
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("_target_: a.b\n"), ".yml", NULL, 1).status, CKPT_ECANCELLED);
}

/* pyannote imports and calls the names in "pipeline" and "preprocessors". */
static void names_of_pipelines_are_reported(void)
{
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("pipeline:\n  name: my.thing\n  params: {x: 1}\n")),
                       "config-target", 18, "it names my.thing");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("preprocessors: {audio: {name: my.thing}}\n")), "config-target",
                       30, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: &a {name: my.thing}\npipeline: *a\n")), "config-target", 13,
                       "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: &a my.thing\npipeline: {name: *a}\n")), "config-target", 32,
                       "computed while loading");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("? \"\\x70ipeline\"\n: name: my.thing\n")), "config-target", 24,
                       "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("pipeline: {name: pyannote.audio.core.model.os}\n")),
                       "config-target", 17, "");
    CHECK_FINDING(scan_yaml_file(TEXT("pipeline: {name: my.thing}\nx: 'y\n")), 2, "config-target", 17, "");
}

/* A file that is called YAML may be JSON, which is YAML, too: each text is reported once. */
static void json_in_yaml_is_scanned_as_both(void)
{
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("{\"pipeline\": {\"name\": \"my.thing\"}}\n")), "config-target",
                       22, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("{\"class_path\": \"my.thing\"}\n")), "config-target", 15, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("{\"_target_\": \"my.thing\"}\n")), "config-target", 13, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("{\"a\": \"gAJjb3MKc3lzdGVtClUCaWSFUi4=\"}\n")), "known-exec",
                       REDUCE_OFFSET, "");
}

static void tags_are_reported(void)
{
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: !!python/name:my.thing ''\n")), "yaml-tag", 3,
                       "the tag !!python/name:my.thing");
    CHECK_ONLY_FINDING(scan(TEXT("a: !!python/object:my.thing {}\n")), "yaml-tag", 3, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: !<tag:yaml.org,2002:python/module:my> ''\n")), "yaml-tag", 3,
                       "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: !!python%2Fname:my.thing ''\n")), "yaml-tag", 3,
                       "!!python/name:my.thing");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("a: !new:my.thing\n")), "yaml-tag", 3, "the tag !new:my.thing");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("{!thing a: b}\n")), "yaml-tag", 1, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("%TAG ! tag:yaml.org,2002:python/\n--- a\n")), "yaml-tag", 0,
                       "%TAG");
}

static void yaml_that_cannot_be_read_is_not_scanned(void)
{
    struct scan_results s = scan_yaml_file(TEXT("a: 'b\n"));
    CHECK_ONLY_FINDING(s, "not-opened", 3, "YAML: line 2: quotes without an end");
    CU_ASSERT_EQUAL(s.result.accounted, 0);
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("{\"a\": \"b\", c: @}")), "not-opened", 14, "");
    size_t n = ((size_t)64 << 20) + 1;
    char *large = malloc(n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    memset(large, 'a', n);
    CHECK_ONLY_FINDING(scan_yaml_file(str_of(large, n)), "not-opened", 0,
                       "YAML of 67108865 bytes; up to 64 MiB are read");
    free(large);
}

/* Pickles in base64: of os.system("id"), and of an empty list. */
static void base64_in_json_is_scanned(void)
{
    struct scan_results s = scan(TEXT("{\"a\": {\":serialized:\": \"gAJjb3MKc3lzdGVtClUCaWSFUi4=\"}}"));
    CHECK_ONLY_FINDING(s, "known-exec", REDUCE_OFFSET, "");
    s = scan(TEXT("[\"gAJjb3MKc3lzdGVtClUCaWSFUi4\"]"));
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_EQUAL(
        scan(TEXT("[\"gAJdcQAoSwFLAksDZS4=\", \"abcdefghijklmnopqrstuvwx\", \"not base64, is it?\"]"))
            .findings,
        0);
}

/* Python's base64.b64decode skips every character that is no digit: these are pickles for a loader. */
static void foreign_characters_do_not_hide_base64(void)
{
    static const ckpt_str texts[] = {
        CONSTANT("!gAJjb3MKc3lzdGVtClUCaWSFUi4="),
        CONSTANT("----gAJjb3MKc3lzdGVtClUCaWSFUi4="),
        CONSTANT("gAJjb3MK*c3lzdGVtClUCaWSFUi4="),
        CONSTANT("g!A!J!j!b!3!M!K!c!3!l!z!d!G!V!t!C!l!U!C!a!W!S!F!U!i!4!="),
        CONSTANT("gAJjb3MK\xc2\xa0"
                 "c3lzdGVtClUCaWSFUi4="),
        CONSTANT("gAJjb3MK \\tc3lzdGVtClUCaWSFUi4="),
        CONSTANT("gAJjb3MKc3lzdGVtClUCaWSFUi4=!!"),
        CONSTANT("gAJjb3MK\\u0000c3lzdGVtClUCaWSFUi4="),
        CONSTANT("gAJj=b3MKc3lzdGVtClUCaWSFUi4="),
        CONSTANT("gAJjb3MKc3lzdGVtClUCaWSFUi4=AAAA"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char json[256];
        for (int serialized = 0; serialized < 2; serialized++) {
            int n = snprintf(json, sizeof json, serialized ? "{\":serialized:\": \"%s\"}" : "{\"a\": \"%s\"}",
                             texts[i].ptr);
            struct scan_results s = scan_buffer(json, (size_t)n, 0);
            CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
            if (s.result.verdict != CKPT_SCAN_KNOWN_EXEC)
                printf("    %s\n", json);
        }
    }
    /* a short one, "cos\nabort\n.", and one whose digits are URL-safe: BINBYTES of ff fb, POP, os.abort */
    CU_ASSERT_EQUAL(scan(TEXT("[\"Y29zCmFib3J0Ci4=\"]")).result.verdict, CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_EQUAL(scan(TEXT("[\"gARDAv_7MGNvcwphYm9ydAou\"]")).result.verdict, CKPT_SCAN_KNOWN_EXEC);
    /* prose, names and numbers are data */
    CU_ASSERT_EQUAL(scan(TEXT("[\"The quick brown fox: jumps over - the_lazy dog, 12 times.\", "
                              "\"model.layers.0.self_attn.q_proj.weight\", \"2024-01-01T00:00:00\"]"))
                        .findings,
                    0);
}

static void serialized_values_that_are_no_pickle_are_not_scanned(void)
{
    CU_ASSERT_EQUAL(scan(TEXT("{\":serialized:\": \"gARLAS4=\"}")).findings, 0);
    CHECK_ONLY_FINDING(scan(TEXT("{\":serialized:\": \"\"}")), "not-opened", 17, "not a pickle in base64");
    CHECK_ONLY_FINDING(scan(TEXT("{\":serialized:\": \"???\"}")), "not-opened", 17, "");
    CHECK_ONLY_FINDING(scan(TEXT("{\":serialized:\": \"c29tZSB0ZXh0IGhlcmU=\"}")), "not-opened", 17, "");
}

/* torch.export writes a treespec as JSON in a text; the context of most types is a text of JSON again. */
#define SPEC(text) TEXT("{\"signature\": {\"in_spec\": \"" text "\"}}")
#define NODE(type, context)                                                                                  \
    "[1, {\\\"type\\\": \\\"" type "\\\", \\\"context\\\": " context ", \\\"children_spec\\\": []}]"
#define FACTORY(module, name)                                                                                \
    "{\\\"default_factory_module\\\": \\\"" module "\\\", \\\"default_factory_name\\\": \\\"" name "\\\"}"
#define ENUM(fqn)                                                                                            \
    "\\\"[{\\\\\\\"__enum__\\\\\\\": true, \\\\\\\"fqn\\\\\\\": \\\\\\\"" fqn                                \
    "\\\\\\\", \\\\\\\"name\\\\\\\": \\\\\\\"x\\\\\\\"}]\\\""

static void modules_of_treespecs_are_reported(void)
{
    static const ckpt_str harmless[] = {
        CONSTANT("{\"in_spec\": \"\", \"out_spec\": \"[1, null]\"}"),
        CONSTANT("{\"in_spec\": \"" NODE("builtins.dict", "\\\"[\\\\\\\"a\\\\\\\"]\\\"") "\"}"),
        CONSTANT("{\"in_spec\": \"" NODE("builtins.dict", ENUM("torch.a:E")) "\"}"),
        CONSTANT("{\"in_spec\": \"" NODE("collections.defaultdict", FACTORY("builtins", "list")) "\"}"),
        CONSTANT("{\"in_spec\": \"" NODE("collections.namedtuple", "\\\"a.b\\\"") "\"}"),
    };
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        CU_ASSERT_EQUAL(scan(harmless[i]).findings, 0);
    CHECK_ONLY_FINDING(scan(SPEC(NODE("builtins.dict", ENUM("inert_mod:E")))), "config-target", 26,
                       "the \"fqn\" of a treespec names inert_mod:E");
    CHECK_ONLY_FINDING(scan(TEXT("{\"out_spec\": \"" NODE("builtins.dict", ENUM("inert_mod")) "\"}")),
                       "config-target", 13, "");
    CHECK_ONLY_FINDING(scan(SPEC(NODE("builtins.dict", ENUM("torchx:E")))), "config-target", 26, "");
    CHECK_ONLY_FINDING(scan(SPEC(NODE("collections.defaultdict", FACTORY("inert_mod", "list")))),
                       "config-target", 26, "the \"default_factory_module\" of a treespec names inert_mod");
    CHECK_ONLY_FINDING(scan(SPEC(NODE("collections.defaultdict", FACTORY("builtins", "breakpoint")))),
                       "config-target", 26, "names breakpoint");
    /* Python's json also reads NaN; what no one reads is not scanned */
    CHECK_ONLY_FINDING(scan(SPEC("[NaN, {\\\"fqn\\\": \\\"inert_mod:E\\\"}]")), "config-target", 26, "");
    CHECK_ONLY_FINDING(scan(SPEC("[1, {")), "not-opened", 26, "a treespec that is not JSON");
}

static void shards_outside_of_the_folder_are_reported(void)
{
    CU_ASSERT_EQUAL(
        scan(TEXT("{\"weight_map\": {\"a\": \"model-1.safetensors\", \"b\": \"sub/x.bin\"}}")).findings, 0);
    CHECK_ONLY_FINDING(scan(TEXT("{\"weight_map\": {\"a\": \"../x.bin\"}}")), "external-path", 21,
                       "a shard is \"../x.bin\", outside of the folder");
    CHECK_ONLY_FINDING(scan(TEXT("{\"weight_map\": {\"a\": \"/x.bin\"}}")), "external-path", 21, "");
    CU_ASSERT_EQUAL(scan(TEXT("{\"other\": {\"a\": \"../x.bin\"}}")).findings, 0);
}

static void tensor_names_with_control_characters_are_reported(void)
{
    CHECK_ONLY_FINDING(scan(TEXT("{\"weight_map\": {\"a\\u001b[2J\": \"x.bin\"}}")), "control-character", 30,
                       "the name of a tensor has U+001B");
    CHECK_ONLY_FINDING(scan(TEXT("\x60\0\0\0\0\0\0\0{\"a\\u202eb\": {\"dtype\": \"U8\", \"shape\": [1], "
                                 "\"data_offsets\": [0, 1]}, \"__metadata__\": {}         }x")),
                       "control-character", 0, "1 tensor name has control characters, the first U+202E");
    CU_ASSERT_EQUAL(scan(TEXT("{\"vocab\": {\"a\\u001b[2J\": 1}}")).findings, 0);
}

/* scan_pickle - scans the pickle that put_pickle makes of TEXT. */
static struct scan_results scan_pickle(const char *text)
{
    buf b;
    buf_init(&b, 4096);
    put_pickle(&b, text);
    struct scan_results s = scan_buffer(b.data, b.len, 0);
    buf_free(&b);
    return s;
}

#define NUMPY_TEXT(utf32)                                                                                    \
    "numpy._core.multiarray.scalar(numpy.dtype('U13',False,True)!(3,'<',None,None,None,52,4,8),b'" utf32 "')"
/* _instantiator */
#define WIDE(character) character "\\00\\00\\00"
#define NUMPY_KEY                                                                                            \
    WIDE("_")                                                                                                \
    WIDE("i")                                                                                                \
    WIDE("n")                                                                                                \
    WIDE("s") WIDE("t") WIDE("a") WIDE("n") WIDE("t") WIDE("i") WIDE("a") WIDE("t") WIDE("o") WIDE("r")

static void hyper_parameters_that_lightning_calls_are_reported(void)
{
    static const char *const harmless[] = {
        "{'hyper_parameters':{'_instantiator':'lightning.pytorch.cli.instantiate_module','lr':1}}",
        "{'hyper_parameters':{'_instantiator':'pytorch_lightning.cli.instantiate_module',"
        "'_class_path':'torch.nn.Linear'}}",
        "{'hyper_parameters':{'_instantiator':None,'class_path':'my.Net'}}",
        "{'hyper_parameters':{'class_path':'my.Net'}}",
        "{'vocabulary':['_instantiator','my.thing',['a','_instantiator']]}",
        "{'pyannote.audio':{'architecture':"
        "{'module':'pyannote.audio.models.segmentation','class':'PyanNet'}}}",
        "{'pyannote.audio':{'architecture':{'module':'my'}},'architecture':{'module':'my','class':'Net'}}",
    };
    static const char *const calling[] = {
        "{'hyper_parameters':{'lr':1,'_instantiator':'my.thing'}}",
        "{'datamodule_hyper_parameters':{'_instantiator':'my.thing'}}",
        "{'hparams':{'_instantiator':'my.thing'}}",
        "{'module_arguments':[('a',1),('_instantiator','my.thing')]}",
        "{'hyper_parameters':collections.OrderedDict([['_instantiator','my.thing']])}",
        "{'hyper_parameters':collections.OrderedDict()+{s'_instantiator':s'my.thing'}}",
        "{'hyper_parameters':{" NUMPY_TEXT(NUMPY_KEY) ":'my.thing'}}",
        "{'pyannote.audio':{'architecture':{'module':'my','class':'thing'}}}",
        "{'pyannote.audio':collections.OrderedDict([['architecture',{'class':'thing','module':'my'}]])}",
    };
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        CU_ASSERT_EQUAL(scan_pickle(harmless[i]).findings, 0);
    for (size_t i = 0; i < sizeof calling / sizeof *calling; i++) {
        struct scan_results s = scan_pickle(calling[i]);
        CU_ASSERT(s.findings == 1 && strcmp(s.first_finding.rule, "config-target") == 0 &&
                  strcmp(s.first_finding.text, "it names my.thing") == 0);
        if (s.findings != 1)
            printf("    %s: %zu\n", calling[i], s.findings);
    }
    /* protocol 0, with an escape in the key */
    CHECK_ONLY_FINDING(scan(TEXT("(dV\\u005finstantiator\nVmy.thing\ns.")), "config-target", 22,
                       "it names my.thing");
    struct scan_results s = scan_pickle("{'hyper_parameters':{'_instantiator':"
                                        "'lightning.pytorch.cli.instantiate_module','_class_path':'my.Net',"
                                        "'head':[{'class_path':'my.Head'}],'a':5}}");
    CU_ASSERT(s.findings == 2 && strcmp(s.all[0].text, "it names my.Net") == 0 &&
              strcmp(s.all[1].text, "it names my.Head") == 0);
    s = scan_pickle("{'hyper_parameters':{'_instantiator':" NUMPY_TEXT(NUMPY_KEY) "}}");
    CU_ASSERT(s.findings == 1 && strstr(s.first_finding.text, "what is computed") != NULL);
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_instantiator: my.thing\n")), "config-target", 15, "");
    CHECK_ONLY_FINDING(scan_yaml_file(TEXT("_class_path: my.thing\n")), "config-target", 13, "");
    CU_ASSERT_EQUAL(
        scan_yaml_file(TEXT("_instantiator: lightning.pytorch.cli.instantiate_module\nlr: 1\n")).findings, 0);
}

static struct scan_results scan_as(const char *suffix, ckpt_str bytes)
{
    return scan_buffer_as(bytes, suffix, NULL, 0);
}

#define METADATA(value) "{\"__metadata__\":{\"format\":\"pt\",\"config\":\"" value "\"}}"

/* scan_metadata - scans a safetensors file that is only the HEADER. */
static struct scan_results scan_metadata(const char *header)
{
    buf b;
    buf_init(&b, 4096);
    uint64_t n = strlen(header);
    for (unsigned i = 0; i < 64; i += 8)
        buf_put(&b, &(unsigned char){(unsigned char)(n >> i)}, 1);
    buf_put_cstr(&b, header);
    struct scan_results s = scan_as(".safetensors", str_of((const char *)b.data, b.len));
    buf_free(&b);
    return s;
}

/* Programs make objects of the configurations in the metadata of safetensors; LeRobot and Coqui TTS import
 * what their JSON names. */
static void classes_that_configurations_name_are_reported(void)
{
    static const char *const naming[] = {
        METADATA("{\\\"_target_\\\": \\\"my.thing\\\"}"),
        METADATA("{'a': {'_target_': 'my.thing', 'b': None, 'c': (1, 2)}}"),
        METADATA("[{'_target_': 'my.thing'}]"),
        METADATA("a:\\n  _target_: my.thing\\n"),
    };
    static const char *const harmless[] = {
        METADATA("{\\\"_target_\\\": \\\"torch.nn.Linear\\\"}"),
        METADATA("{not JSON"),
        METADATA("target: my.thing"),
        "{\"config\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
    };
    for (size_t i = 0; i < sizeof naming / sizeof *naming; i++) {
        struct scan_results s = scan_metadata(naming[i]);
        CU_ASSERT(s.findings == 1 && strcmp(s.first_finding.rule, "config-target") == 0);
        if (s.findings != 1)
            printf("    %s: %zu\n", naming[i], s.findings);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        CU_ASSERT_EQUAL(scan_metadata(harmless[i]).findings, 0);
    CHECK_ONLY_FINDING(scan_metadata(METADATA("{'\\\\x5ftarget_': 'my.thing'}")), "not-opened", 48,
                       "a mapping of Python with escapes");
    CHECK_ONLY_FINDING(scan_as(".json", TEXT("{\"steps\": [{\"class\": \"my.thing\"}]}")), "config-target",
                       21, "my.thing, what lerobot imports and calls");
    CHECK_ONLY_FINDING(scan_as(".json", TEXT("{\"a\": {\"characters_class\": \"my.thing\"}}")),
                       "config-target", 27, "my.thing, what Coqui TTS imports and calls");
    CU_ASSERT_EQUAL(scan_as(".json", TEXT("{\"steps\": [{\"class\": \"thing\"}]}")).findings, 0);
}

/* Texts that MONAI evaluates or reads, in a file that has a "_target_". */
static void expressions_of_monai_are_reported(void)
{
#define IN_JSON(value) "{\"a\": \"" value "\", \"_target_\": \"torch.nn.Linear\"}"
    static const char *const acting[] = {
        IN_JSON("$import os"),
        IN_JSON("$os.system('id')"),
        IN_JSON("\\u0024os.system('id')"),
        IN_JSON("$@a + [1]"),
        IN_JSON("${__import__('os').system('id')}"),
        IN_JSON("$\\nf()"),
        IN_JSON("%/etc/x.json::a"),
        IN_JSON("%../x.yaml"),
        "{\"_disabled_\": \"$f(1)\", \"b\": [{\"_target_\": \"torch.nn.Linear\"}]}",
        "{\"_target_\": \"torch.nn.Linear\", \"_requires_\": [1, \"$f(1)\"]}",
        "[\"$import os\"]",
    };
    static const char *const harmless[] = {
        IN_JSON("@a"),
        IN_JSON("$"),
        IN_JSON("$ f(1)"),
        IN_JSON("${a.b}/x"),
        IN_JSON("$2 * a"),
        IN_JSON("%a::b"),
        IN_JSON("%x.json::a"),
        IN_JSON("a $f(1)"),
        IN_JSON("$HOME/a"),
        "{\"a\": \"$f(1)\"}",
        "{\"_target_\": null, \"$f(1)\": 1}",
    };
    for (size_t i = 0; i < sizeof acting / sizeof *acting; i++) {
        struct scan_results s = scan_as(".json", str_c(acting[i])), y = scan_as(".yaml", str_c(acting[i]));
        CU_ASSERT(s.findings == 1 && y.findings == 1 &&
                  (s.result.verdict == CKPT_SCAN_UNRESOLVED || s.result.verdict == CKPT_SCAN_DATA_ONLY));
        if (s.findings != 1 || y.findings != 1)
            printf("    %s: %zu, %zu as YAML\n", acting[i], s.findings, y.findings);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        struct scan_results s = scan_as(".json", str_c(harmless[i]));
        CU_ASSERT_EQUAL(s.findings, 0);
        if (s.findings)
            printf("    %s: %s\n", harmless[i], s.first_finding.text);
    }
    CHECK_ONLY_FINDING(scan(TEXT(IN_JSON("$os.system('id')"))), "evaluated-text", 6,
                       "$os.system('id') is not arithmetic, and MONAI evaluates it");
    CHECK_ONLY_FINDING(scan(TEXT(IN_JSON("%/etc/x.json::a"))), "loader-code", 6,
                       "a configuration outside of the folder that MONAI reads");
}

static void configurations_of_monai_are_known_by_name(void)
{
    static const char *const names[] = {"b/configs/a.json", "a.ts!b/extra/metadata.json", "train.json",
                                        "multi_gpu_train.YML", "configs/x.yaml"};
    static const char *const others[] = {"a.json",         "configs/a.txt",    "xconfigs/a.json",
                                         "strain.json",    "configs/a/b.json", "train",
                                         "b!metadata.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CU_ASSERT(monai_is_config_path(str_c(names[i])));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CU_ASSERT(!monai_is_config_path(str_c(others[i])));
}

static void expressions_of_monai_in_yaml_are_reported(void)
{
#define IN_YAML(yaml) TEXT(yaml "\nc: $import os\n")
    CHECK_FINDING(scan_yaml_file(IN_YAML("$a(): 1\nb: $f(1)")), 2, "evaluated-text", 11, "$f(1) is");
    CHECK_FINDING(scan_yaml_file(IN_YAML("a: |-\n  $f(1)")), 2, "evaluated-text", 3, "$f(1) is");
    CHECK_FINDING(scan_yaml_file(IN_YAML("- !!str $f(1)\n- a")), 2, "evaluated-text", 8, "$f(1) is");
    CU_ASSERT_EQUAL(scan_yaml_file(TEXT("c: $f(1)\n")).findings, 0);
    char text[2000];
    memset(text, 'x', sizeof text);
    memcpy(text, "c: $import os\na: $", 18);
    CHECK_FINDING(scan_yaml_file(str_of(text, sizeof text)), 2, "evaluated-text", 17, "");
}

void suite_scan_config(void)
{
    UNIT(arithmetic_is_data);
    UNIT(other_expressions_are_reported);
    UNIT(names_in_exported_programs_are_data);
    UNIT(code_in_exported_programs_is_reported);
    UNIT(functions_of_exported_programs_are_reported);
    UNIT(harmless_configurations_are_data);
    UNIT(targets_of_configurations_are_reported);
    UNIT(names_of_pipelines_are_reported);
    UNIT(json_in_yaml_is_scanned_as_both);
    UNIT(tags_are_reported);
    UNIT(yaml_that_cannot_be_read_is_not_scanned);
    UNIT(base64_in_json_is_scanned);
    UNIT(foreign_characters_do_not_hide_base64);
    UNIT(serialized_values_that_are_no_pickle_are_not_scanned);
    UNIT(modules_of_treespecs_are_reported);
    UNIT(hyper_parameters_that_lightning_calls_are_reported);
    UNIT(classes_that_configurations_name_are_reported);
    UNIT(expressions_of_monai_are_reported);
    UNIT(configurations_of_monai_are_known_by_name);
    UNIT(expressions_of_monai_in_yaml_are_reported);
    UNIT(shards_outside_of_the_folder_are_reported);
    UNIT(tensor_names_with_control_characters_are_reported);
}
