/* Names of tensors in torch pickles: containers, modules and objects, limits, and malformed values. The
 * pickles are written as texts in the notation of put_pickle in pickled.h. */
#include "core/file.h"
#include "format/torch/archive.h"
#include "pickled.h"

static void check_limited(const char *text, const ckpt_limits *limits, ckpt_status want, const char *words)
{
    struct test_file made = make_torch_zip_of(text, false, limits);
    CU_ASSERT_EQUAL(made.status, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(made.err.what, words));
    if (!strstr(made.err.what, words))
        printf("  found: %s: %s\n", made.err.where, made.err.what);
    close_file(&made);
}

/* -------------------------------------------------------------- containers */

static void tensors_in_containers_are_found(void)
{
    check_opens("[" FLOAT_TENSOR ",(" FLOAT_TENSOR ",{1:" FLOAT_TENSOR "})]",
                "0 dense float32[4]@0+0;1.0 dense float32[4]@0+0;1.1.1 dense float32[4]@0+0;");
    check_opens("collections.OrderedDict([['w'," FLOAT_TENSOR "],('v'," FLOAT_TENSOR ")])",
                "w" FLOAT_LISTING "v" FLOAT_LISTING);
    check_opens("collections.OrderedDict([['w'," FLOAT_TENSOR "]])+{'v':" FLOAT_TENSOR "}",
                "w" FLOAT_LISTING "v" FLOAT_LISTING);
    check_opens("collections.Counter({'w':" FLOAT_TENSOR "})", "w" FLOAT_LISTING);
    check_opens("collections.Counter([" FLOAT_TENSOR "])", "");
    check_opens("flax.core.frozen_dict.FrozenDict({'w':" FLOAT_TENSOR "})", "w" FLOAT_LISTING);
    check_opens("flax.core.frozen_dict.FrozenDict([" FLOAT_TENSOR "])", "");
    check_opens("haiku._src.data_structures.FlatMapping({'w':" FLOAT_TENSOR "})", "w" FLOAT_LISTING);
    check_opens("new my.Pair(1," FLOAT_TENSOR ")", "1" FLOAT_LISTING);
    check_opens("obj my.Pair(1," FLOAT_TENSOR ")", "1" FLOAT_LISTING);
    check_opens("my.Pair(1," FLOAT_TENSOR ")", "");
    check_opens("my.List()+[" FLOAT_TENSOR "]", "0" FLOAT_LISTING);
    check_opens("my.call|@('module',1)", "");
    check_opens("copyreg._reconstructor(my.Pair,builtins.tuple,(" FLOAT_TENSOR ",2))", "0" FLOAT_LISTING);
    check_opens("copyreg._reconstructor(my.Pair,builtins.object,None)", "");
}

static void tensors_in_attributes_are_found(void)
{
    check_opens("my.Thing()!{'w':" FLOAT_TENSOR ",1:" FLOAT_TENSOR ",'_metadata':" FLOAT_TENSOR "}",
                "w" FLOAT_LISTING "1" FLOAT_LISTING);
    check_opens("my.Thing()!(None,{'w':" FLOAT_TENSOR "})", "w" FLOAT_LISTING);
    check_opens("my.Thing()!({'w':" FLOAT_TENSOR "},{'v':" FLOAT_TENSOR "},{'never':" FLOAT_TENSOR "})",
                "w" FLOAT_LISTING "v" FLOAT_LISTING);
    check_opens("my.Thing()!5", "");
    check_opens("torch.Thing()!{'w':" FLOAT_TENSOR "}", "w" FLOAT_LISTING);
    /* the tensor of a Shard is listed with the name of the Shard, which is empty here */
    check_opens("my.Shard()!{'tensor':" FLOAT_TENSOR ",'other':1}", " dense float32[4]@0+0;");
    check_opens("my.Shard()!{'w':" FLOAT_TENSOR "}", "w" FLOAT_LISTING);
}

#define TAG(value)          "torch.jit._pickle.restore_type_tag(" value ",'Dict[str, Tensor]')"
#define TENSORDICT(entries) "tensordict._reductions._make_td(tensordict._td.TensorDict," entries ")"

static void values_in_calls_are_found(void)
{
    check_opens(TAG("{'w':" FLOAT_TENSOR "}"), "w" FLOAT_LISTING);
    check_opens("{'a':" TAG("[" FLOAT_TENSOR "]") "}", "a.0" FLOAT_LISTING);
    check_opens("torch.jit._pickle.build_tensorlist([" FLOAT_TENSOR "])", "0" FLOAT_LISTING);
    check_opens(TAG(TAG(FLOAT_TENSOR)), FLOAT_LISTING);
    check_opens("[#1=" TAG("{'w':" FLOAT_TENSOR "}") ",#1]", "0.w" FLOAT_LISTING "1.w" FLOAT_LISTING);
    check_opens("torch.jit._pickle.other({'w':" FLOAT_TENSOR "},1)", "");
    check_opens(TENSORDICT("{'_tensordict':{'w':" FLOAT_TENSOR "},'_device':None}"), "w" FLOAT_LISTING);
    check_opens(TENSORDICT("{'tensordicts':[" FLOAT_TENSOR "]}"), "0" FLOAT_LISTING);
    check_opens("new tensordict.tensordict.TensorDict()!{'_tensordict':{'w':" FLOAT_TENSOR "}}",
                "w" FLOAT_LISTING);
    check_opens(TENSORDICT("1"), "");
    check_opens(TENSORDICT("{}"), "");
}

static void calls_around_themselves_end(void)
{
    check_opens("#1~[]+[" TAG("#1") "," FLOAT_TENSOR "]", "1" FLOAT_LISTING);
    check_opens("#1~{}+{'_tensordict':" TENSORDICT("#1") "}", "");
#define FOUR(value) TAG(TAG(TAG(TAG(value))))
    check_opens(FOUR(FOUR(FOUR(TAG(TAG(TAG(FLOAT_TENSOR)))))), FLOAT_LISTING);
    check_opens(FOUR(FOUR(FOUR(FOUR(FOUR(FLOAT_TENSOR))))), ""); /* fewer than 16 calls are looked through */
}

static void malformed_pairs_are_refused(void)
{
    check_refused("^collections.OrderedDict([1])", CKPT_EFORMAT,
                  "item 0 of an OrderedDict's argument must be a pair");
    check_refused("^collections.OrderedDict([('a',1),('b',)])", CKPT_EFORMAT,
                  "item 1 of an OrderedDict's argument");
}

static void cycles_are_read_once(void)
{
    check_opens("#1~[]+[" FLOAT_TENSOR ",{'again':#1}]", "0" FLOAT_LISTING);
    struct test_file made = make_pickle("#1~[]+[#1]");
    check_tensors(&made, "");
    CU_ASSERT_EQUAL(ckpt_leaf_count(made.file), 1);
    close_file(&made);
}

/* ------------------------------------------------------------------ modules */

#define MODULE(parameters, buffers, modules, attributes)                                                     \
    "my.Net()!{'_parameters':" parameters ",'_buffers':" buffers ",'_modules':" modules attributes "}"
#define PARAMETER(t) "torch._utils._rebuild_parameter(" t ",True," ORDERED_DICT ")"

static void modules_are_listed_as_state_dicts(void)
{
    /* entries with the value None, or a key that is no text, are not listed */
    check_opens(MODULE("{'w':" PARAMETER(FLOAT_TENSOR) ",'none':None,3:" FLOAT_TENSOR "}",
                       "{'b':" FLOAT_TENSOR "}", "{}", ""),
                "w" FLOAT_LISTING "b" FLOAT_LISTING);
    check_opens(
        MODULE(ORDERED_DICT "+{'w':" FLOAT_TENSOR "}", ORDERED_DICT,
               "collections.OrderedDict([['sub'," MODULE("{'x':" FLOAT_TENSOR "}", "{}", "{}", "") "]])", ""),
        "w" FLOAT_LISTING "sub.x" FLOAT_LISTING);
    check_opens("torch._utils._rebuild_parameter_with_state(" FLOAT_TENSOR ",True," ORDERED_DICT ",{})",
                " dense float32[4]@0+0 parameter grad;");
    check_opens(MODULE("{'w':torch._utils._rebuild_parameter_with_state(" FLOAT_TENSOR ",True," ORDERED_DICT
                       ","
                       "{})}",
                       "{}", "{}", ""),
                "w" FLOAT_LISTING);
    /* state_dict() unwraps a few levels of Parameter */
    check_opens(MODULE("{'w':" PARAMETER(PARAMETER(PARAMETER(PARAMETER(PARAMETER(FLOAT_TENSOR))))) "}", "{}",
                       "{}", ""),
                "w dense float32[4]@0+0 parameter grad;");
    /* nor are submodules with a key that is no text, or a value that is no module */
    check_opens(MODULE("{}", "{}",
                       "{4:" MODULE("{'x':" FLOAT_TENSOR "}", "{}", "{}", "") ",'n':None,"
                                                                              "'o':my.Thing()}",
                       ""),
                "");
}

static void non_persistent_buffers_are_not_listed(void)
{
    check_opens(MODULE("{}", "{'a':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR "}", "{}",
                       ",'_non_persistent_buffers_set':builtins.set(['b'])"),
                "a" FLOAT_LISTING);
    check_opens(MODULE("{}", "{'a':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR "}", "{}",
                       ",'_non_persistent_buffers_set':['b',7]"),
                "a" FLOAT_LISTING);
    check_opens(MODULE("{}", "{'a':" FLOAT_TENSOR "}", "{}", ",'_non_persistent_buffers_set':builtins.set()"),
                "a" FLOAT_LISTING);
}

static void objects_without_the_dicts_of_a_module_are_no_module(void)
{
    check_opens("my.Net()!{'_parameters':1,'_buffers':{},'_modules':{'w':" FLOAT_TENSOR "}}",
                "_modules.w" FLOAT_LISTING);
    check_opens("my.Net()!{'_parameters':{'w':" FLOAT_TENSOR "},'_modules':{}}",
                "_parameters.w" FLOAT_LISTING);
    check_opens("my.Net()!{'_parameters':{'w':" FLOAT_TENSOR "},'_buffers':{}}",
                "_parameters.w" FLOAT_LISTING);
    check_opens("my.Net()!{'_parameters':{'w':" FLOAT_TENSOR "},'_buffers':{},'_modules':my.Odd()}",
                "_parameters.w" FLOAT_LISTING);
}

static void a_shared_module_is_listed_twice(void)
{
    check_opens("{'a':#1=" MODULE("{'w':" FLOAT_TENSOR "}", "{}", "{}", "") ",'b':#1}",
                "a.w" FLOAT_LISTING "b.w" FLOAT_LISTING);
}

static void modules_with_malformed_pairs_are_refused(void)
{
    static const char words[] = "item 0 of an OrderedDict's argument must be a pair";
    check_refused(MODULE("^collections.OrderedDict([1])", "{}", "{}", ""), CKPT_EFORMAT, words);
    check_refused(MODULE("{}", "^collections.OrderedDict([1])", "{}", ""), CKPT_EFORMAT, words);
    check_refused(MODULE("{}", "{}", "^collections.OrderedDict([1])", ""), CKPT_EFORMAT, words);
}

/* ------------------------------------------------------------------- limits */

static void limits_are_enforced(void)
{
    /* max_tensors also limits the modules, and the values in a container */
    const ckpt_limits tensors_2 = {.struct_size = sizeof tensors_2, .max_tensors = 2};
    const ckpt_limits depth_2 = {.struct_size = sizeof depth_2, .max_depth = 2};
    const char *const many[] = {
        "[1,2,3,4]",
        "{1:1,2:2,3:3}",
        "my.List()+[1,2,3,4]",
        "new my.Pair(1,2,3,4)",
        "copyreg._reconstructor(my.Pair,builtins.tuple,(1,2,3,4))",
        "collections.Counter({1:1,2:2,3:3})",
        "collections.OrderedDict([(1,1),(2,2),(3,3)])",
        "my.Thing()!{1:1,2:2,3:3}",
        "my.Thing()!({1:1,2:2,3:3},None)",
        "[[1],[1],1,1]",
        MODULE("{'a':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR ",'c':" FLOAT_TENSOR "}", "{}", "{}", ""),
        "torch._utils._rebuild_nested_tensor(" FLOAT_TENSOR "," FLOAT_TENSOR "," FLOAT_TENSOR "," FLOAT_TENSOR
        ")",
    };
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        check_limited(many[i], &tensors_2, CKPT_ELIMIT, "the file has more than 2 values");
    check_limited("(1,((1,),),1)", &depth_2, CKPT_ELIMIT, "values are nested deeper than 2");
    check_limited("((1,2),(3,4))", &(ckpt_limits){.struct_size = sizeof(ckpt_limits), .max_tensors = 3},
                  CKPT_ELIMIT, "the file has more than 3 values");
    check_limited(MODULE("{}", "{}",
                         "{'a':" MODULE("{}", "{}", "{}", "") ",'b':" MODULE(
                             "{}", "{}", "{}", "") ",'c':" MODULE("{}", "{}", "{}", "") "}",
                         ""),
                  &tensors_2, CKPT_ELIMIT, "the model has more than 2 modules");
    check_limited(
        MODULE("{}", "{}", "{'a':" MODULE("{}", "{}", "{'a':" MODULE("{}", "{}", "{}", "") "}", "") "}", ""),
        &depth_2, CKPT_ELIMIT, "modules are nested deeper than 2");
}

/* With any memory limit, the file is opened with all of its tensors, or refused. */
static void too_little_memory_is_an_error(void)
{
    static const char text[] =
        "{'m':" MODULE("{'w':" PARAMETER(FLOAT_TENSOR) "}", "{'b':" FLOAT_TENSOR "}",
                       "{'s':" MODULE(ORDERED_DICT, ORDERED_DICT, ORDERED_DICT, "") "}",
                       "") ",'o':collections.OrderedDict([['a'," FLOAT_TENSOR "]])"
                           ",'n':torch._utils._rebuild_nested_tensor(" FLOAT_TENSOR "," FLOAT_TENSOR
                           "," FLOAT_TENSOR "," FLOAT_TENSOR ")}";
    ckpt_status st = CKPT_ENOMEM;
    unsigned tries = 0;
    for (ckpt_limits l = {.struct_size = sizeof l, .max_metadata = 64}; st != CKPT_OK && tries < 4000;
         l.max_metadata += 16, tries++) {
        struct test_file made = make_torch_zip_of(text, false, &l);
        st = made.status;
        if (st == CKPT_OK)
            CU_ASSERT_EQUAL(ckpt_tensor_count(made.file), 8);
        if (st != CKPT_OK)
            CU_ASSERT(st == CKPT_ENOMEM || st == CKPT_ELIMIT);
        close_file(&made);
    }
    CU_ASSERT_EQUAL(st, CKPT_OK);
}

/* -------------------------------------------------------------------- sizes */

static void sizes_are_tuples_of_integers(void)
{
    /* a list or a torch.Size of a tuple is accepted, too */
    check_opens(TENSOR_V2(FLOAT_STORAGE, 0, "[2,2]", "torch.Size((2,1))"), " dense float32[2,2]@0+0;");
    check_refused(TENSOR_V2(FLOAT_STORAGE, 0, "^torch.Size()", "(1,)"), CKPT_EFORMAT,
                  "size is a torch.Size, it must be a tuple");
    check_refused(TENSOR_V2(FLOAT_STORAGE, 0, "(4,)", "^'one'"), CKPT_EFORMAT,
                  "stride is a str, it must be a tuple of integers");
    check_refused(TENSOR_V2(FLOAT_STORAGE, 0, "^(-4,)", "(1,)"), CKPT_EFORMAT,
                  "size[0] is -4, it must be an integer >= 0");
    check_refused(TENSOR_V2(FLOAT_STORAGE, 0, "(4,)", "^(1.5,)"), CKPT_EFORMAT,
                  "stride[0] is 1.5,"
                  " it must be an integer >= 0");
}

void suite_torch_graph(void)
{
    UNIT(tensors_in_containers_are_found);
    UNIT(tensors_in_attributes_are_found);
    UNIT(values_in_calls_are_found);
    UNIT(calls_around_themselves_end);
    UNIT(malformed_pairs_are_refused);
    UNIT(cycles_are_read_once);
    UNIT(modules_are_listed_as_state_dicts);
    UNIT(non_persistent_buffers_are_not_listed);
    UNIT(objects_without_the_dicts_of_a_module_are_no_module);
    UNIT(a_shared_module_is_listed_twice);
    UNIT(modules_with_malformed_pairs_are_refused);
    UNIT(limits_are_enforced);
    UNIT(too_little_memory_is_an_error);
    UNIT(sizes_are_tuples_of_integers);
}
