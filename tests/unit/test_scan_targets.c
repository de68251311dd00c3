/* Scanning texts by which programs import and call functions: targets in pickles, JSON and YAML, and the
 * configurations that mmengine runs as Python. */
#include <stdio.h>

#include "base/buf.h"
#include "pickled.h"
#include "scanned.h"

/* What a scan of the text of a case has to report. */
struct expected {
    const char *text;
    const char *rule;    /* of the only finding; NULL: there is none */
    const char *message; /* is in its text */
};

static void check(struct scan_results s, const struct expected *e)
{
    bool is_right = s.status == CKPT_OK && s.findings == (e->rule ? 1 : 0) &&
                    (!e->rule || (strcmp(s.first_finding.rule, e->rule) == 0 &&
                                  strstr(s.first_finding.text, e->message)));
    CU_ASSERT(is_right);
    if (!is_right)
        printf("    %s: %zu, %s %s\n", e->text, s.findings, s.first_finding.rule, s.first_finding.text);
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

static struct scan_results scan_json(const char *text)
{
    return scan_buffer_as(str_c(text), ".json", NULL, 0);
}

static struct scan_results scan_yaml(const char *text)
{
    return scan_buffer_as(str_c(text), ".yaml", NULL, 0);
}

#define TARGET(name) "{'hyper_parameters':{'net':{'_target_':'" name "','a':1}}}"
/* UTF-32 of _target_ */
#define WIDE(character) character "\\00\\00\\00"
#define NUMPY_KEY                                                                                            \
    "numpy._core.multiarray.scalar(numpy.dtype('U8',False,True)!(3,'<',None,None,None,32,4,8),b'" WIDE("_")  \
        WIDE("t") WIDE("a") WIDE("r") WIDE("g") WIDE("e") WIDE("t") WIDE("_") "')"

static void targets_in_pickles_are_judged(void)
{
    static const struct expected cases[] = {
        {TARGET("torch.nn.Linear"), NULL, ""},
        {TARGET("collections.OrderedDict"), NULL, ""},
        {TARGET("os.path.join"), NULL, ""},
        {TARGET("my.Net"), "loader-code", "it names my.Net, for a program to import and call"},
        {TARGET("src.utils.logging.Logger"), "loader-code", ""},
        {TARGET("src.code.Net"), "loader-code", ""},
        {TARGET("__main__.Net"), "loader-code", ""},
        {TARGET("Net"), "loader-code", ""},
        {TARGET("os.system"), "config-exec", "it names os.system"},
        {TARGET("subprocess.Popen"), "config-exec", ""},
        {TARGET("builtins.eval"), "config-exec", ""},
        {TARGET("functools.partial"), "config-exec", ""},
        {TARGET("hydra.utils.get_method"), "config-exec", ""},
        {TARGET("torch.hub.load"), "config-exec", ""},
        {TARGET("torch.os.system"), "config-exec", ""},
        {TARGET("logging.os.system"), "config-exec", ""},
        {TARGET("my.net.subprocess.Popen"), "config-exec", ""},
        {TARGET("torch.nn.Linear.__init__.__globals__.get"), "config-exec", ""},
        {TARGET("glob.glob"), "config-target", "it names glob.glob"},
        {TARGET("_private.f"), "config-target", ""},
        {TARGET("my net"), "config-target", ""},
        {"{'a':{'_target_':5}}", "config-target", "computed while loading"},
        {"{'a':{'_target_':None}}", NULL, ""},
        {"{'a':{'_component_':'my.Net'}}", "loader-code", ""},
        {"{'a':{" NUMPY_KEY ":'os.system'}}", "config-exec", ""},
        {"{'a':[[('_target_','os.system')]]}", "config-exec", ""},
        {"[collections.OrderedDict()+{s'_target_':s'os.system'}]", "config-exec", ""},
        {"{'net':{'target':'my.Net','params':{'a':1}}}", "loader-code", ""},
        {"{'net':{'target':'os.system','params':{'a':1}}}", "config-exec", ""},
        {"{'net':{'target':'glob.glob','params':{'a':1}}}", "config-target", ""},
        {"{'net':{'target':'labels.csv','params':{'a':1}}}", NULL, ""},
        {"{'net':{'target':5,'params':{'a':1}}}", NULL, ""},
        {"{'net':{'target':'my.Net'},'params':{'a':1}}", NULL, ""},
        {"['_target_','os.system']", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(scan_pickle(cases[i].text), &cases[i]);
    CU_ASSERT_EQUAL(scan_pickle(TARGET("os.system")).result.verdict, CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_EQUAL(scan_pickle(TARGET("my.Net")).result.verdict, CKPT_SCAN_DATA_ONLY);
    /* protocol 0, with an escape in the key; a name too long to be one */
    CHECK_ONLY_FINDING(scan_buffer(TEXT("(dV\\u005ftarget_\nVos.system\ns.").ptr, 30, 0), "config-exec", 17,
                       "");
    char name[600] = "{'_target_':'";
    memset(name + 13, 'a', 550);
    memcpy(name + 563, ".b'}", 5);
    CU_ASSERT_STRING_EQUAL(scan_pickle(name).first_finding.rule, "config-target");
}

/* Nodes of omegaconf keep a value in their state. Its classes are on no list. */
static void targets_in_nodes_of_omegaconf_are_judged(void)
{
    struct scan_results s = scan_pickle("new omegaconf.dictconfig.DictConfig()!{'_content':{'_target_':"
                                        "new omegaconf.nodes.AnyNode()!{'_val':'os.system'}}}");
    CU_ASSERT_EQUAL(s.result.verdict, CKPT_SCAN_KNOWN_EXEC);
    CU_ASSERT_STRING_EQUAL(s.all[s.findings - 1].text, "it names os.system");
}

#define RUNTIME(text) "{'message_hub':{'runtime_info':{'cfg':'" text "','iter':1}}}"
#define META(text)    "{'meta':{'cfg':'" text "'}}"

static void configurations_of_values_are_data(void)
{
    static const char *const texts[] = {
        META("model = dict(type=\\27ResNet\\27, depth=50, norm=dict(grad=True))\\0a"),
        META("a = [1, -2.5e-05, 1e+20, 0x1F, .5, None, inf]\\0ab = (1, )\\0ac = {}\\0a"),
        META("data = {\\27a\\27: dict(b=1), 2: [\\22it\\5c\\27s\\5c\\5c\\5cn\\22]}  # comment\\0a"),
        META("a = r\\27x\\27\\0ab = \\27\\27\\27c\\0ad\\27\\27\\27\\0ae = (1+2j)\\0a"),
        META("a = dict(list=[], set=1)\\0ab = set([1])\\0a"),
        META("a = \\27{{:d}} {x}\\27\\0a"),
        META("custom_imports = dict(imports=[\\27mmdet.x\\27], allow_failed_imports=False)\\0a"),
        META("custom_imports = None\\0aa = dict(type=\\27mmdet.models.X\\27, path=\\27my.thing\\27)\\0a"),
        META("a = \\27os.system(1)\\27\\0a"),
        META(""),
        "{'meta':{'cfg':None},'runtime_info':{'cfg':5}}",
        "{'cfg':'import os','meta':{'config':'import os'},'runtime_info':{}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check(scan_pickle(texts[i]), &(struct expected){texts[i], NULL, ""});
}

static void configurations_with_code_are_reported(void)
{
    static const char *const codes[] = {
        "import os",
        "a = f(1)",
        "a = dict\\0ab = 1",
        "dict = eval\\0aa = dict(\\271\\27)",
        "a = [dict] = [eval]",
        "a = (list := eval)",
        "a = dict()(1)",
        "a = b[0](1)",
        "a = \\27x\\27.join(b)",
        "a = 1.0.__class__(1)",
        "a = f\\27{x()}\\27",
        "a = lambda: 1",
        "a = [b for c in d]",
        "a = __builtins__",
        "_base_ = [\\27x.py\\27]",
        "a = \\27{{$X:y}}\\27",
        "a = \\27{{ _base_.x }}\\27",
        "# -*- coding: utf-7 -*-\\0aa = 1",
        "a = \\27x",
        "a = \\27x\\0a\\27",
        "a = b;c",
        "@a",
        "a = dict(type=\\27os\\27 \\27.system\\27)",
        "a = dict(type=\\27os\\27 + \\27.system\\27)",
        "a = dict(type=\\27\\5cx6fs.system\\27)",
        "a = \\c3\\a9(1)",
    };
    char text[512];
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        (void)snprintf(text, sizeof text, META("%s"), codes[i]);
        check(scan_pickle(text), &(struct expected){codes[i], "evaluated-text", "mmengine runs as Python"});
        (void)snprintf(text, sizeof text, RUNTIME("%s"), codes[i]);
        check(scan_pickle(text), &(struct expected){codes[i], "evaluated-text", ""});
    }
    static const struct expected names[] = {
        {META("custom_imports = dict(imports=[\\27my.mod\\27], allow_failed_imports=False)"), "loader-code",
         "my.mod, what mmengine imports"},
        {META("custom_imports = {\\27imports\\27: \\27my_mod\\27}"), "loader-code", ""},
        {META("a = dict(type=\\27my.Net\\27)"), "loader-code", "it names my.Net"},
        {META("a = dict(type=\\27os.system\\27, command=\\27id\\27)"), "config-exec", "it names os.system"},
        {META("a = \\27os.system\\27\\0ab = dict(type=a)"), "config-exec", ""},
        {META("a = {\\27type\\27: \\27mmdet.x.os.system\\27}"), "config-exec", ""},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check(scan_pickle(names[i].text), &names[i]);
}

static void targets_in_json_and_yaml_are_judged(void)
{
    static const struct expected cases[] = {
        {"{\"a\": {\"_target_\": \"os.system\"}}", "config-exec", "it names os.system"},
        {"{\"a\": {\"\\u005ftarget_\": \"torch.os.system\"}}", "config-exec", ""},
        {"{\"a\": {\"_component_\": \"my.thing\"}}", "config-target", ""},
        {"{\"a\": {\"class_path\": \"my.thing\", \"init_args\": {}}}", "config-target", ""},
        {"{\"a\": {\"class_path\": \"torch.nn.Linear\", \"init_args\": {}}}", NULL, ""},
        {"{\"a\": {\"target\": \"my.thing\", \"params\": {}}}", "config-target", ""},
        {"{\"a\": {\"params\": {\"b\": 1}, \"target\": \"my.thing\"}}", "config-target", ""},
        {"{\"a\": {\"target\": \"my.thing\"}}", "config-target", ""},
        {"{\"a\": {\"py/object\": \"my.thing\"}}", "config-target", ""},
        {"{\"a\": {\"py/reduce\": [{\"py/function\": \"os.system\"}, 1]}}", "config-exec", ""},
        {"{\"a\": {\"py/type\": \"builtins.dict\"}}", NULL, ""},
        {"{\"model\": {\"type\": \"os.system\", \"command\": \"id\"}}", "config-exec", ""},
        {"{\"model\": {\"type\": \"my.os.system\"}}", "config-exec", ""},
        {"{\"a\": {\"target\": \"os.system\", \"b\": 1}}", "config-exec", ""},
        {"{\"nodes\": {\"a\": {\"uses\": \"subprocess.Popen\", \"fn\": \"load\"}}}", "config-exec", ""},
    };
    static const struct expected harmless[] = {
        {"{\"a\": {\"target\": \"my.thing\", \"b\": 1}, \"c\": {\"type\": \"my.thing\"}}", NULL, ""},
        {"{\"a\": {\"target\": \"es2020\"}, \"type\": \"code.block\", \"class_path\": \"x/y.py\"}", NULL, ""},
        {"{\"h\": {\"class\": \"logging.StreamHandler\", \"target\": \"sys.stdout\"}}", NULL, ""},
        {"{\"a\": {\"build\": {\"context\": 1, \"target\": \"prod.stage\"}}, \"params\": 1}", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(scan_json(cases[i].text), &cases[i]);
        check(scan_yaml(cases[i].text), &cases[i]);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        check(scan_json(harmless[i].text), &harmless[i]);
        check(scan_yaml(harmless[i].text), &harmless[i]);
    }
    check(scan_yaml("a: {type: torch.os.system, command: id}\n"),
          &(struct expected){"YAML", "config-exec", ""});
    check(scan_yaml("custom_imports:\n  imports: [my.thing]\n  allow_failed_imports: false\n"),
          &(struct expected){"YAML", "loader-code", "custom_imports, by which mmengine imports modules"});
    check(scan_yaml("custom_imports: null\ntype: my.thing\n"), &(struct expected){"YAML", NULL, ""});
}

/* In YAML the keys of a mapping may also be aliases, or come from another mapping. */
static void targets_in_yaml_need_params(void)
{
    static const struct expected cases[] = {
        {"a: {_target_: hydra._internal.core_plugins.basic_sweeper.BasicSweeper}\n", NULL, ""},
        {"a: {_target_: hydra._internal.utils.x}\n", "config-exec", ""},
        {"a: {_target_: pytorch_lightning.Trainer, max_epochs: 3}\n", NULL, ""},
        {"a: {_target_: lightning.pytorch.callbacks.ModelCheckpoint, dirpath: x}\n", NULL, ""},
        {"a: {_target_: lightning.pytorch.os.system}\n", "config-exec", ""},
        {"proxy: {target: api.example.com, type: http}\n", NULL, ""},
        {"build:\n  context: .\n  target: prod.stage\nparams: {a: 1}\n", NULL, ""},
        {"- target: a.b\n  c: 1\n- params: 1\n  c: 1\n", NULL, ""},
        {"a: {target: *x, b: 1}\n", NULL, ""},
        {"a:\n  target: my.thing\n  params:\n    b: 1\n", "config-target", "it names my.thing"},
        {"a:\n  params:\n    b: {c: 1}\n  target: my.thing\n", "config-target", ""},
        {"? target\n: my.thing\n? params\n: 1\n", "config-target", ""},
        {"a: {<<: *x, target: my.thing}\n", "config-target", ""},
        {"a: {*x : 1, target: my.thing}\n", "config-target", ""},
        {"a: {target: *x, params: 1}\n", "config-target", "computed while loading"},
        {"a: {b: 1, target: torch.os.system}\n", "config-exec", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(scan_yaml(cases[i].text), &cases[i]);
}

static void activations_in_yaml_are_judged(void)
{
    static const struct expected cases[] = {
        {"activation: gelu\n", NULL, ""},
        {"activation: nn.SiLU()\n", NULL, ""},
        {"activation: torch.nn.LeakyReLU(0.1, inplace=True)\n", NULL, ""},
        {"activation: [relu, f(1)]\n", NULL, ""},
        {"activation: nn.GELU(approximate='tanh')\n", NULL, ""},
        {"activation: nn.GELU(approximate='a(1)')\n", "evaluated-text", ""},
        {"activation: __import__('os').getpid()\n", "evaluated-text", "YOLO evaluates it"},
        {"activation: nn.modules.os.getpid()\n", "evaluated-text", ""},
        {"activation: nn.SiLU(f())\n", "evaluated-text", ""},
        {"activation: nn.SiLU() or f()\n", "evaluated-text", ""},
        {"a: &x f()\nactivation: *x\n", "evaluated-text", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(scan_yaml(cases[i].text), &cases[i]);
}

static void layers_in_yaml_are_judged(void)
{
    static const struct expected cases[] = {
        {"nc: 80\nbackbone:\n  - [-1, 1, Conv, [64, 6, 2, 2]]\n  - [-1, 3, C3, [1e-3, False, None]]\n"
         "head:\n  - [-1, 1, nn.Upsample, [None, 2, 'nearest']]\n  - [[-1, 6], 1, Concat, [1]]\n"
         "  - [-1, 1, SPPF, [1024, 5, nn.LeakyReLU(0.1), \"nearest\"]]\n"
         "  - [[17, 20, 23], 1, Detect, [nc, anchors]]\nnotes: [[f(1)]]\n",
         NULL, ""},
        {"backbone: {type: ResNet, init: {x: [[a b, 'f(1)']]}}\nhead: [a b, 'f(1)']\n", NULL, ""},
        {"head:\n  - type: a b\n    x: [[a b]]\nneck: *x\n", NULL, ""},
        {"backbone: *x\n", NULL, ""},
        {"head:\n- [-1, 1, \"__import__('os').getpid()\", []]\n", "evaluated-text", "YOLO evaluates it"},
        {"a: {backbone: [[-1, 1, Conv, [64, f(1)]]]}\n", "evaluated-text", "f(1) is not the name"},
        {"head:\n- - -1\n  - 1\n  - f(1)\n  - - 3\n", "evaluated-text", ""},
        {"head:\n  -\n    - -1\n    - 1\n    - Conv\n    - - f(1)\n", "evaluated-text", ""},
        {"head: [{-1: 1, 1: 1, f(1): 1, [1]: 1}]\n", "evaluated-text", ""},
        {"head: [[-1, 1, Conv, [{a: b c}, f(1)]]]\n", "evaluated-text", ""},
        {"head: [[-1: 1, 1, Conv, [f(1)]]]\n", "evaluated-text", ""},
        {"? head\n: [[-1, 1, f(1), []]]\n", "evaluated-text", ""},
        {"head: [[-1, 1, torch.os.system, [ls]]]\n", "config-exec", "it names torch.os.system"},
        {"head: [[-1, 1, eval, [ls]]]\n", "evaluated-text", ""},
        {"head: [[-1, 1, __import__, [ls]]]\n", "evaluated-text", ""},
        {"head: [[-1, 1, Conv.__init__, [ls]]]\n", "config-exec", ""},
        {"head: [*x]\n", "evaluated-text", "an anchor or alias"},
        {"nc: 1\nhead: *x\n", "evaluated-text", "an anchor or alias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(scan_yaml(cases[i].text), &cases[i]);
}

/* scan_metadata - scans a safetensors file with a value in its metadata, escaped as in JSON. */
static struct scan_results scan_metadata(const char *value)
{
    buf b;
    char header[512];
    uint64_t n = (uint64_t)snprintf(header, sizeof header, "{\"__metadata__\": {\"a\": \"%s\"}}", value);
    buf_init(&b, 4096);
    for (unsigned i = 0; i < 64; i += 8)
        buf_put(&b, &(unsigned char){(unsigned char)(n >> i)}, 1);
    buf_put(&b, header, (size_t)n);
    struct scan_results s = scan_buffer(b.data, b.len, 0);
    buf_free(&b);
    return s;
}

static void texts_in_metadata_are_judged(void)
{
    static const struct expected cases[] = {
        {"gAJjb3MKc3lzdGVtClUCaWSFUi4=", "known-exec", ""},
        {" {\\\"\\\\u005ftarget_\\\": \\\"os.system\\\"}", "config-exec", ""},
        {"a:\\n  \\\"\\\\x5ftarget_\\\": os.system", "config-exec", ""},
        {"a: !!python/name:os.system x", "yaml-tag", ""},
        {" {'\\\\x5ftarget_': 'os.system'}", "not-opened", ""},
        {"class_path: os.system", "config-exec", ""},
        {"a:\\n  class_path: my.thing", "config-target", ""},
        {"target: os.system", "config-exec", ""},
        {"{target: my.thing, params: {}}", "config-target", ""},
        {"type: os.system", "config-exec", ""},
        {"py/object: os.system", "config-exec", ""},
        {"target: api.example.com", NULL, ""},
        {"3.10.0+cu121, a: b", NULL, ""},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(scan_metadata(cases[i].text), &cases[i]);
}

static void texts_in_json_are_judged(void)
{
    static const struct expected cases[] = {
        {"{\"a\": \"{\\\"_target_\\\": \\\"os.system\\\"}\"}", "config-exec", ""},
        {"{\"a\": \" [NaN, {\\\"_target_\\\": \\\"os.system\\\"}]\"}", "config-exec", ""},
        {"{\"json://{\\\"py/type\\\": \\\"os.system\\\"}\": 1}", "config-exec", ""},
        {"{\"py/repr\": \"os/os.getpid()\"}", "evaluated-text", "os/os.getpid(), which jsonpickle"},
        {"{\"a\": \"base64:gAJjb3MKc3lzdGVtClUCaWSFUi4=\"}", "known-exec", ""},
        {"{\"a\": \"data:x/y;base64,gAJjb3MKc3lzdGVtClUCaWSFUi4=\"}", "known-exec", ""},
        {"{\"a\": \"{x\", \"b\": \"[UNK]\", \"c\": \"base64\", \"d\": \"[\\\"\"}", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(scan_json(cases[i].text), &cases[i]);
}

#define REFS(template) "{\"version\": 1, \"refs\": {\"a/0\": [\"" template "\", 0, 1]}}"

static void templates_of_kerchunk_are_judged(void)
{
    static const struct expected cases[] = {
        {REFS("{{u}}/x"), NULL, ""},
        {REFS("{{ f(c='x') }}{{i * 2 + 0.5}}"), NULL, ""},
        {REFS("s3://x/{y}.z[0]"), NULL, ""},
        {REFS("{{u}}{{cycler.__init__}}"), "evaluated-text", "cycler.__init__ is more than names"},
        {REFS("{\\u007bu['x']}}"), "evaluated-text", ""},
        {REFS("{{u|attr('x')}}"), "evaluated-text", ""},
        {REFS("{% set x = u %}"), "evaluated-text", ""},
        {REFS("{{u.x"), "evaluated-text", ""},
        {"{\"gen\": [{\"key\": \"{{u.x}}\"}], \"version\": 1, \"refs\": {}}", "evaluated-text", ""},
        {"{\"gen\": [{\"key\": \"{{u.x}}\"}], \"version\": 1}", "evaluated-text", ""},
        {"{\"gen\": [{\"key\": \"{{u}}\"}], \"version\": 1}", NULL, ""},
        {"{\"templates\": {\"key\": \"{{u.x}}\"}, \"version\": 1}", NULL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(scan_json(cases[i].text), &cases[i]);
}

static void configurations_of_gin_are_judged(void)
{
    static const struct expected cases[] = {
        {"import t5x.models\nfrom flax import linen as nn\na.b = @nn.relu\n# a@b.c\n", NULL, ""},
        {"import my.module\n", "loader-code", "my.module, what gin imports"},
        {"import \\\n my_module", "loader-code", ""},
        {"from my import module\na.b = @module.f()\n", "loader-code", "my.module"},
        {"import jax as j\na.b = @x/j.os.system()\n", "config-exec", "it names jax.os.system"},
        {"a.b = [1, @torch.hub.load]\n", "config-exec", ""},
        {"include '../x.gin'\n", "external-path", "\"../x.gin\", outside"},
        {"include 'x.gin'\n", NULL, ""},
        {"include 'x.gin'  # /y.gin\n", NULL, ""},
        {"include \"https://x/y.gin\"\n", "external-path", "\"https://x/y.gin\", outside"},
        {"include 's3://x/y.gin'  # z\n", "external-path", "\"s3://x/y.gin\", outside"},
        {"include 'gs://x/y.gin'\n", "external-path", ""},
        {"include \\\n  'file:///x/y.gin'", "external-path", ""},
        {"# @os.system()\na.b = 1  # import os, @os.system()\n", NULL, ""},
        {"a.b = 'a@os.system'\na.c = \"\\\"@os.system()\"\n", NULL, ""},
        {"a.b = '''\nimport os\n'@os.system()'''\n", NULL, ""},
        {"a.b = '#'\na.c = @os.system()\n", "config-exec", ""},
        {"a.b = '\\\\'\na.c = @os.system()  # '\n", "config-exec", ""},
        {"# '''\na.b = @os.system()\n# '''\n", "config-exec", ""},
        {"a.b = '''\n@os.system()\n", "config-exec", ""},
        {"a.b = 'x\na.c = [@os.system, '']\n", "config-exec", ""},
        {"# \\\nimport os\n", "loader-code", ""},
        {"# x\rimport os\r", "loader-code", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(scan_buffer_as(str_c(cases[i].text), ".gin", NULL, 0), &cases[i]);
    struct scan_results s = scan_buffer_as(TEXT("import os as x\na.b = @x.system()\n"), ".gin", NULL, 0);
    CU_ASSERT(s.findings == 2 && strcmp(s.all[1].text, "it names os.system") == 0);
    CU_ASSERT_EQUAL(scan_buffer_as(TEXT("import my.module\n"), ".txt", NULL, 0).findings, 0);
}

void suite_scan_targets(void)
{
    UNIT(targets_in_pickles_are_judged);
    UNIT(targets_in_nodes_of_omegaconf_are_judged);
    UNIT(configurations_of_values_are_data);
    UNIT(configurations_with_code_are_reported);
    UNIT(targets_in_json_and_yaml_are_judged);
    UNIT(targets_in_yaml_need_params);
    UNIT(activations_in_yaml_are_judged);
    UNIT(layers_in_yaml_are_judged);
    UNIT(texts_in_metadata_are_judged);
    UNIT(texts_in_json_are_judged);
    UNIT(templates_of_kerchunk_are_judged);
    UNIT(configurations_of_gin_are_judged);
}
