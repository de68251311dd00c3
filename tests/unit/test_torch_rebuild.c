/* Calls that rebuild tensors: each form that torch has ever written, and malformed calls. The pickles are
 * written as texts in the notation of put_pickle in pickled.h. */
#include <stdio.h>

#include "pickled.h"

#define LONG_STORAGE    STORAGE("Long", "1", 2)
#define LONG_TENSOR     TENSOR_V2(LONG_STORAGE, 0, "(2,)", "(1,)")
#define UNTYPED_STORAGE "@('storage',torch.storage.UntypedStorage,'0','cpu',16)"
#define TENSOR_V2_WITH_META(storage, meta)                                                                   \
    "torch._utils._rebuild_tensor_v2(" storage ",0,(2,),(1,),True," ORDERED_DICT "," meta ")"
#define TENSOR_V3(storage, dtype)                                                                            \
    "torch._utils._rebuild_tensor_v3(" storage ",0,(2,),(1,),False," ORDERED_DICT "," dtype ")"

static void dense_tensors_are_read_and_checked(void)
{
    check_opens("torch._utils._rebuild_tensor(" FLOAT_STORAGE ",1,(3,),(1,))", " dense float32[3]@0+1;");
    check_opens("torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE ",0,(),(),1," ORDERED_DICT ")",
                " dense float32[]@0+0;");
    check_opens(TENSOR_V3(UNTYPED_STORAGE, "torch.int64"), " dense int64[2]@0+0;");
    check_refused("^" TENSOR_V3(UNTYPED_STORAGE, "torch.int65"), CKPT_EFORMAT,
                  "the dtype is torch.int65, it must be one of torch's");
    check_refused("^" TENSOR_V3(UNTYPED_STORAGE, "my.int64"), CKPT_EFORMAT,
                  "the dtype is my.int64, it must be");
    check_refused("^" TENSOR_V3(UNTYPED_STORAGE, "'int64'"), CKPT_EFORMAT,
                  "the dtype is 'int64', it must be");
    check_refused("^" TENSOR_V2(FLOAT_STORAGE, -1, "(4,)", "(1,)"), CKPT_EFORMAT,
                  "the storage offset is -1, it must be an integer >= 0");
    check_refused("^" TENSOR_V2(FLOAT_STORAGE, 0.5, "(4,)", "(1,)"), CKPT_EFORMAT,
                  "the storage offset is 0.5, it must be");
    check_refused("^" TENSOR_V2(FLOAT_STORAGE, 0, "(2,2)", "(1,)"), CKPT_EFORMAT, "2 sizes but 1 strides");
    check_refused("^torch._utils._rebuild_tensor_v2(" FLOAT_STORAGE ",0,(4,),(1,))", CKPT_EFORMAT,
                  "torch._utils._rebuild_tensor_v2 is given 4 arguments, it takes at least 5");
}

static void conj_and_neg_bits_are_read_and_checked(void)
{
    static const char complex[] = TENSOR_V2_WITH_META(STORAGE("ComplexFloat", "0", 2),
                                                      "{'conj':True,'neg':False}");
    check_opens(complex, " dense complex64[2]@0+0 grad conj;");
    check_opens(TENSOR_V2_WITH_META(FLOAT_STORAGE, "{'neg':True,'conj':5}"),
                " dense float32[2]@0+0 grad neg;");
    check_opens(TENSOR_V2_WITH_META(FLOAT_STORAGE, "{'neg':1}"), " dense float32[2]@0+0 grad;");
    check_opens(TENSOR_V2_WITH_META(FLOAT_STORAGE, "None"), " dense float32[2]@0+0 grad;");
    check_refused("^" TENSOR_V2_WITH_META(FLOAT_STORAGE, "{'conj':True}"), CKPT_EFORMAT,
                  "the conj bit is set on a tensor of float32, which is not complex");
}

/* ------------------------------------------------------------- big-endian */

static void check_big_endian(const char *text, const char *want, const char *notice)
{
    struct test_file made = make_torch_zip_of(text, true, NULL);
    check_tensors(&made, want);
    bool found = false;
    for (size_t i = 0; made.file && ckpt_notice_at(made.file, i); i++)
        found |= notice && strstr(ckpt_notice_at(made.file, i), notice);
    CU_ASSERT_EQUAL(found, notice != NULL);
    close_file(&made);
}

static void untyped_storages_are_swapped_by_the_dtype_of_their_first_tensor(void)
{
    static const char notice[] = "big-endian untyped storage \"0\" is swapped by its tensor's dtype";
    unsigned char first[8];
    check_big_endian(TENSOR_V3(UNTYPED_STORAGE, "torch.float32"), " dense float32[2]@0+0;", notice);
    check_big_endian(
        "[" TENSOR_V3(UNTYPED_STORAGE, "torch.float32") "," TENSOR_V3(UNTYPED_STORAGE, "torch.int32") "]",
        "0 dense float32[2]@0+0;1 dense int32[2]@0+0;", notice);
    check_big_endian(TENSOR_V3(UNTYPED_STORAGE, "torch.uint8"), " dense uint8[2]@0+0;", NULL);
    check_big_endian(TENSOR_V2(STORAGE("Char", "0", 16), 0, "(2,)", "(1,)"), " dense int8[2]@0+0;", NULL);
    /* data/0 has little-endian floats, but `byteorder` is "big", so that reading swaps their bytes */
    struct test_file made = make_torch_zip_of(TENSOR_V3(UNTYPED_STORAGE, "torch.float32"), true, NULL);
    CU_ASSERT_EQUAL_FATAL(made.status, CKPT_OK);
    CU_ASSERT_EQUAL(ckpt_tensor_read(made.file, 0, 0, 2, first, NULL), CKPT_OK);
    CU_ASSERT_EQUAL(memcmp(first, "\x3f\x80\0\0\x40\0\0\0", 8), 0);
    close_file(&made);
}

static void an_untyped_storage_of_two_widths_is_refused(void)
{
    struct test_file made = make_torch_zip_of(
        "[" TENSOR_V3(UNTYPED_STORAGE, "torch.float32") ",^" TENSOR_V3(UNTYPED_STORAGE, "torch.float64") "]",
        true, NULL);
    CU_ASSERT_EQUAL(made.status, CKPT_EFORMAT);
    CU_ASSERT_STRING_EQUAL(made.err.what,
                           "big-endian storage \"0\" is viewed in elements of two widths, one is possible");
    CU_ASSERT_STRING_EQUAL(made.err.where, "1");
    CU_ASSERT_EQUAL(made.err.offset, PICKLE_OFFSET + caret_offset);
    close_file(&made);
}

/* ------------------------------------------------------------- parameters */

static void parameters_are_read_and_checked(void)
{
    check_opens("torch._utils._rebuild_parameter(" FLOAT_TENSOR ",True," ORDERED_DICT ")",
                " dense float32[4]@0+0 parameter grad;");
    check_refused("^torch._utils._rebuild_parameter([1],True," ORDERED_DICT ")", CKPT_EFORMAT,
                  "a Parameter holds a list, it must hold a tensor");
    check_refused("torch._utils._rebuild_parameter(^" TENSOR_V2(FLOAT_STORAGE, 0, "(4,)",
                                                                "()") ",True," ORDERED_DICT ")",
                  CKPT_EFORMAT, "1 sizes but 0 strides");
}

static void parameters_of_old_versions_are_read_and_checked(void)
{
    check_opens("torch.nn.parameter.Parameter(" FLOAT_TENSOR ")", " dense float32[4]@0+0 parameter;");
    check_opens("torch.nn.parameter.Parameter()!(" FLOAT_TENSOR ",True,{})",
                " dense float32[4]@0+0 parameter;");
    check_opens("torch.autograd.variable.Variable(" FLOAT_TENSOR ")", " dense float32[4]@0+0;");
    check_opens("torch.nn.parameter.Parameter(7)", "");
    check_opens("torch.nn.parameter.Parameter()", "");
    check_opens("torch.nn.parameter.Parameter()!()", "");
    check_opens("torch.nn.parameter.Parameter()!{'data':1}", "");
    check_refused("torch.nn.parameter.Buffer(^" TENSOR_V2(FLOAT_STORAGE, 0, "(4,)", "()") ")", CKPT_EFORMAT,
                  "1 sizes but 0 strides");
}

static void tensors_built_from_a_state_are_read(void)
{
    check_opens("torch.FloatTensor()!(" FLOAT_STORAGE ",0,(4,),(1,))", " dense float32[4]@0+0;");
    check_opens("torch.cuda.FloatTensor()!(" FLOAT_STORAGE ",2,(2,),(1,))", " dense float32[2]@0+2;");
    check_opens("torch.FloatTensor()", "");
    check_opens("torch.FloatTensor()!{'a':1}", "");
    check_opens("torch.FloatTensor()!(" FLOAT_STORAGE ",0,(4,))", "");
    check_opens("torch.FloatTensor()!(1,0,(4,),(1,))", "");
    check_opens("my.FloatTensor()!(" FLOAT_STORAGE ",0,(4,),(1,))", "");
    check_opens("torch.FloatTensors()!(" FLOAT_STORAGE ",0,(4,),(1,))", "");
}

static void bare_storages_are_read(void)
{
    check_opens("[" FLOAT_STORAGE ",@('storage',torch.QUInt4x2Storage,'1','cpu',16)]",
                "0 storage float32[4]@0+0;1 storage uint8[16]@1+0;");
    check_opens("my.called()(1)", "");
}

/* -------------------------------------------------------------- quantized */

#define QUANTIZED(q)                                                                                         \
    "torch._utils._rebuild_qtensor(" STORAGE("QInt8", "0", 4) ",0,(4,),(1,)," q ",False," ORDERED_DICT ")"

static void quantized_tensors_are_read_and_checked(void)
{
    static const char words[] = "a quantizer must be (scheme, scale, zero_point) or";
    check_opens(QUANTIZED("(torch.per_tensor_affine,0.5,3)"),
                " quantized qint8[4]@0+0 (per_tensor_affine, scale 0.5, zero_point 3);");
    check_opens(QUANTIZED("(torch.per_channel_affine,[0.5,1.5],[3,4],0)"),
                " quantized qint8[4]@0+0 (per_channel_affine, axis 0);scales dense float64[2]@1+0;"
                "zero_points dense int64[2]@2+0;");
    check_opens(QUANTIZED("(torch.per_channel_affine,[],[3,'4'],0)"),
                " quantized qint8[4]@0+0 (per_channel_affine, axis 0);");
    check_opens(QUANTIZED("(torch.per_channel_affine,[0.5,1],[True],0)"),
                " quantized qint8[4]@0+0 (per_channel_affine, axis 0);");
    check_opens(QUANTIZED("(torch.per_channel_affine,[0.5,1],[True],1)"),
                " quantized qint8[4]@0+0 (per_channel_affine, axis 1);");
    check_opens(QUANTIZED("(torch.per_channel_affine,[0.5,1],[True])"),
                " quantized qint8[4]@0+0 (per_channel_affine, axis none);");
    check_refused("^" QUANTIZED("torch.per_tensor_affine"), CKPT_EFORMAT, words);
    check_refused("^" QUANTIZED("(torch.per_tensor_affine,0.5)"), CKPT_EFORMAT, words);
    check_refused("^" QUANTIZED("('per_tensor_affine',0.5,3)"), CKPT_EFORMAT, words);
    check_refused(
        "torch._utils._rebuild_qtensor(^" STORAGE("Quint", "0", 4) ",0,(4,),(1,),(),False," ORDERED_DICT ")",
        CKPT_EFORMAT, "storage class \"QuintStorage\" is none of torch's");
}

/* ----------------------------------------------------------------- sparse */

#define LAYOUT(name)         "torch.serialization._get_layout('torch." name "')"
#define SPARSE(layout, data) "torch._utils._rebuild_sparse_tensor(" layout "," data ")"

static void sparse_tensors_are_read_and_checked(void)
{
    check_opens(SPARSE(LAYOUT("sparse_coo"), "(" LONG_TENSOR "," FLOAT_TENSOR ",(9,),True)"),
                " sparse_coo float32[9] (coalesced);indices dense int64[2]@1+0;values dense float32[4]@0+0;");
    check_opens(SPARSE(LAYOUT("sparse_coo"), "(" LONG_TENSOR "," FLOAT_TENSOR ",(9,))"),
                " sparse_coo float32[9];indices dense int64[2]@1+0;values dense float32[4]@0+0;");
    check_opens(
        SPARSE(LAYOUT("sparse_bsc"), "(" LONG_TENSOR "," LONG_TENSOR "," FLOAT_TENSOR ",(9,3))"),
        " sparse_bsc float32[9,3];compressed_indices dense int64[2]@1+0;plain_indices dense int64[2]@1+0;"
        "values dense float32[4]@0+0;");
    check_refused("^" SPARSE(LAYOUT("sparse_coo"), "(" LONG_TENSOR "," FLOAT_TENSOR ")"), CKPT_EFORMAT,
                  "a sparse tensor must have (indices, values, size)");
    check_refused(SPARSE(LAYOUT("sparse_coo"), "(" LONG_TENSOR "," FLOAT_TENSOR ",^9)"), CKPT_EFORMAT,
                  "size is a int, it must be a tuple");
    check_refused("^" SPARSE(LAYOUT("sparse_csr"), "(" LONG_TENSOR "," LONG_TENSOR "," FLOAT_TENSOR ")"),
                  CKPT_EFORMAT, "a compressed sparse tensor must have (compressed, plain, values, size)");
    check_refused(SPARSE(LAYOUT("sparse_csr"), "(" LONG_TENSOR "," LONG_TENSOR "," FLOAT_TENSOR ",^9)"),
                  CKPT_EFORMAT, "size is a int, it must be a tuple");
    check_refused("^" SPARSE(LAYOUT("strided"), "(" LONG_TENSOR "," FLOAT_TENSOR ",(9,))"), CKPT_EFORMAT,
                  "and a tuple, it must have a sparse layout and a tuple");
    check_refused("^" SPARSE("torch.serialization._get_layout(1)", "(" LONG_TENSOR "," FLOAT_TENSOR ",(9,))"),
                  CKPT_EFORMAT, "it must have a sparse layout and a tuple");
    check_refused("^" SPARSE("'torch.sparse_coo'", "(" LONG_TENSOR "," FLOAT_TENSOR ",(9,"
                                                   "))"),
                  CKPT_EFORMAT, "it must have a sparse layout and a tuple");
    check_refused("^" SPARSE(LAYOUT("sparse_coo"), "[" LONG_TENSOR "," FLOAT_TENSOR ",(9,)]"), CKPT_EFORMAT,
                  "and a list, it must have a sparse layout and a tuple");
    check_refused(
        SPARSE(LAYOUT("sparse_coo"), "(" LONG_TENSOR ",^" TENSOR_V2(FLOAT_STORAGE, 0, "(4,)", "()") ",(9,))"),
        CKPT_EFORMAT, "1 sizes but 0 strides");
}

static void nested_tensors_are_read(void)
{
    check_opens(
        "torch._utils._rebuild_nested_tensor(" FLOAT_TENSOR "," LONG_TENSOR "," LONG_TENSOR "," LONG_TENSOR
        ")",
        " nested float32;buffer dense float32[4]@0+0;sizes dense int64[2]@1+0;strides dense int64[2]@1+0;"
        "offsets dense int64[2]@1+0;");
    check_opens("torch.nested._internal.nested_tensor._rebuild_njt({'values':" FLOAT_TENSOR
                ",'offsets':" LONG_TENSOR ",'lengths':None})",
                " nested_jagged float32;values dense float32[4]@0+0;offsets dense int64[2]@1+0;");
    check_opens("torch.nested._internal.nested_tensor._rebuild_njt({})", " nested_jagged ;");
}

/* -------------------------------------------------------- without a storage */

static void tensors_without_bytes_are_listed_and_checked(void)
{
    check_opens("torch._utils._rebuild_meta_tensor_no_storage(torch.float16,(2,3),(3,1),True)",
                " meta float16[2,3] grad;");
    check_refused("^torch._utils._rebuild_meta_tensor_no_storage(torch.float16,(2,3),(3,),True)",
                  CKPT_EFORMAT, "2 sizes but 1 strides");
    check_refused("torch._utils._rebuild_meta_tensor_no_storage(torch.float16,^5,(3,),True)", CKPT_EFORMAT,
                  "size is a int");
    check_refused("torch._utils._rebuild_meta_tensor_no_storage(torch.float16,(5,),^3,True)", CKPT_EFORMAT,
                  "stride is a int");
    check_opens("torch.nn.parameter.UninitializedParameter(True)", " uninitialized float32 grad;");
}

#define NUMPY_ARRAY                                                                                          \
    "numpy.core.multiarray._reconstruct(numpy.ndarray,(0,),b'b')!(1,(2,),numpy.dtype('f4',False,"            \
    "True)!(3,'<',None,None,None,-1,-1,0),False,b'\\00\\00\\80\\3f\\00\\00\\00\\40')"

static void tensors_of_other_devices_are_read_and_checked(void)
{
    check_opens("torch._utils._rebuild_device_tensor_from_numpy(" NUMPY_ARRAY ",torch.float32,'xla:0',True)",
                " dense float32[2]@0+0 grad;");
    check_refused("^torch._utils._rebuild_xla_tensor([1],torch.float32,'xla:0',True)", CKPT_EFORMAT,
                  "a device tensor must be made of a numpy array");
    check_refused("^torch._utils._rebuild_xla_tensor(my.array(),torch.float32,'xla:0',True)", CKPT_EFORMAT,
                  "must be made of a numpy array, found array()");
    check_opens("torch._utils._rebuild_device_tensor_from_cpu_tensor(" FLOAT_TENSOR
                ",torch.float32,'maia:0',True)",
                " dense float32[4]@0+0 grad;");
    check_refused("torch._utils._rebuild_device_tensor_from_cpu_tensor(^" TENSOR_V2(
                      FLOAT_STORAGE, 0, "(4,)", "()") ",torch.float32,'maia:0',"
                                                      "True)",
                  CKPT_EFORMAT, "1 sizes but 0 strides");
}

/* --------------------------------------------------------------- subclasses */

#define FROM_TYPE(func, class, args, state)                                                                  \
    "torch._tensor._rebuild_from_type_v2(" func "," class "," args "," state ")"
#define WRAPPED(class, state)                                                                                \
    FROM_TYPE("torch._utils._rebuild_wrapper_subclass", class,                                               \
              "(" class ",torch.float16,(8,4),(4,1),0,torch.strided,'cpu',True)", state)
#define TENSOR_V2_ARGS "(" FLOAT_STORAGE ",0,(4,),(1,),False," ORDERED_DICT ")"

static void tensor_subclasses_are_read_and_checked(void)
{
    check_opens(FROM_TYPE("torch._utils._rebuild_tensor_v2", "torch.Tensor", TENSOR_V2_ARGS, "{'tag':1}"),
                " dense float32[4]@0+0;");
    check_opens(
        FROM_TYPE("torch._utils._rebuild_tensor_v2", "torch.nn.parameter.Parameter", TENSOR_V2_ARGS, "{}"),
        " dense float32[4]@0+0 parameter;");
    check_opens(
        FROM_TYPE("torch._utils._rebuild_tensor_v2", "torch.nn.parameter.Buffer", TENSOR_V2_ARGS, "{}"),
        " dense float32[4]@0+0;");
    check_opens(FROM_TYPE("torch._utils._rebuild_tensor_v2", "my.Tensor", TENSOR_V2_ARGS, "{}"),
                " dense float32[4]@0+0 <my.Tensor>;");
    check_opens(FROM_TYPE("torch._utils._rebuild_tensor_v2", "'my.Tensor'", TENSOR_V2_ARGS, "{}"),
                " dense float32[4]@0+0;");
    check_opens(FROM_TYPE("my.func", "my.Tensor", TENSOR_V2_ARGS, "{}"), "");
    check_refused("^" FROM_TYPE("'torch._utils._rebuild_tensor_v2'", "my.Tensor", TENSOR_V2_ARGS, "{}"),
                  CKPT_EFORMAT, "the function of _rebuild_from_type_v2 must be a name");
    check_refused("^" FROM_TYPE("torch._utils._rebuild_tensor_v2", "my.Tensor", "()", "{}"), CKPT_EFORMAT,
                  "is given 0 arguments");
}

/* check_values - checks that the pickle TEXT has the tensors ROWS and the values WANT, each "name=value;". */
static void check_values(const char *text, const char *rows, const char *want)
{
    struct test_file made = make_torch_zip(text);
    char got[512] = "", value[64];
    for (size_t i = 0; made.file && ckpt_leaf_at(made.file, i); i++) {
        const ckpt_leaf *leaf = ckpt_leaf_at(made.file, i);
        (void)ckpt_value_text(leaf->value, 32, value, sizeof value);
        (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s=%s;", (int)leaf->name.len,
                       leaf->name.ptr, value);
    }
    CU_ASSERT_STRING_EQUAL(got, want);
    check_tensors(&made, rows);
    close_file(&made);
}

/* Attributes that Python code set on a tensor are listed below its name. */
static void attributes_of_tensors_are_listed(void)
{
#define WITH_STATE(class, state)                                                                             \
    "{'q':" FROM_TYPE("torch._utils._rebuild_tensor_v2", class, TENSOR_V2_ARGS, state) "}"
#define TENSOR_WITH_ATTRIBUTE                                                                                \
    FROM_TYPE("torch._utils._rebuild_tensor_v2", "torch.Tensor", TENSOR_V2_ARGS, "{'in':1}")
    check_values(
        WITH_STATE("torch.Tensor", "{'tag':{'a':1,'b':[2]},'empty':{},'n':None,'t':" FLOAT_TENSOR "}"),
        "q dense float32[4]@0+0;q.t dense float32[4]@0+0;", "q.tag.a=1;q.tag.b.0=2;q.empty={};q.n=None;");
    check_values(WITH_STATE("my.Sub", "({'a':1},{'slot':2})"), "q dense float32[4]@0+0 <my.Sub>;",
                 "q.a=1;q.slot=2;");
    check_values(WITH_STATE("my.Sub", "(None,{'slot':2})"), "q dense float32[4]@0+0 <my.Sub>;", "q.slot=2;");
    check_values(WITH_STATE("my.Sub", "5"), "q dense float32[4]@0+0 <my.Sub>;", "q.__setstate__=5;");
    check_values("{'p':torch._utils._rebuild_parameter_with_state(" TENSOR_WITH_ATTRIBUTE
                 ",True," ORDERED_DICT ",{'dim':0})}",
                 "p dense float32[4]@0+0 parameter grad;", "p.dim=0;p.in=1;");
    check_values("{'p':torch._utils._rebuild_parameter(" TENSOR_WITH_ATTRIBUTE ",True," ORDERED_DICT ")}",
                 "p dense float32[4]@0+0 parameter grad;", "p.in=1;");
    check_values("{'p':" FROM_TYPE("torch._utils._rebuild_parameter", "my.P",
                                   "(" TENSOR_WITH_ATTRIBUTE ",True," ORDERED_DICT ")", "{'out':2}") "}",
                 "p dense float32[4]@0+0 parameter grad <my.P>;", "p.out=2;p.in=1;");
    check_values("{'q':#1=" TENSOR_WITH_ATTRIBUTE ",'r':#1}",
                 "q dense float32[4]@0+0;r dense float32[4]@0+0;", "q.in=1;r.in=1;");
}

/* The tensors in the state of a wrapper subclass are its components. */
static void wrapper_subclasses_are_read_and_checked(void)
{
    check_opens(WRAPPED("my.Two", "{'a':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR
                                  ",'c':1,'d':my.Odd(),5:" FLOAT_TENSOR ",'e':my.called()(1)}"),
                " wrapper float16[8,4] grad <my.Two>;a dense float32[4]@0+0;b dense float32[4]@0+0;");
    check_opens(WRAPPED("my.Two", "({'a':" FLOAT_TENSOR "},{'b':" FLOAT_TENSOR "})"),
                " wrapper float16[8,4] grad <my.Two>;a dense float32[4]@0+0;b dense float32[4]@0+0;");
    check_opens(WRAPPED("my.Two", "None"), " wrapper float16[8,4] grad <my.Two>;");
    check_opens(WRAPPED("my.Two", "{'a':" FLOAT_TENSOR ",'b':" FLOAT_TENSOR ",'c':" FLOAT_TENSOR
                                  ",'d':" FLOAT_TENSOR ",'e':" FLOAT_TENSOR ",'f':" FLOAT_TENSOR "}"),
                " wrapper float16[8,4] grad <my.Two>;a dense float32[4]@0+0;b dense float32[4]@0+0;"
                "c dense float32[4]@0+0;"
                "d dense float32[4]@0+0;e dense float32[4]@0+0;");
    check_refused(FROM_TYPE("torch._utils._rebuild_wrapper_subclass", "my.Two",
                            "(my.Two,torch.float16,^8,(4,1),0,torch.strided,'cpu')", "{}"),
                  CKPT_EFORMAT, "size is a int");
}

static void dtensors_are_read(void)
{
    check_opens(WRAPPED("my.DTensor",
                        "{'_local_tensor':" FLOAT_TENSOR
                        ",'_spec':my.Spec()!{'placements':(my.Shard()!{'dim':1},my.Replicate(),3)}}"),
                " dtensor float16[8,4] grad <my.DTensor> (local part of [8, 4], Shard(1), Replicate, ?);"
                "_local_tensor dense float32[4]@0+0;");
    check_opens(WRAPPED("my.DTensor", "{'_local_tensor':" FLOAT_TENSOR "}"),
                " dtensor float16[8,4] grad <my.DTensor> (local part of [8, 4]);"
                "_local_tensor dense float32[4]@0+0;");
    check_opens(
        WRAPPED("my.DTensor", "{'_local_tensor':" FLOAT_TENSOR ",'_spec':my.Spec()!{'placements':{1:2}}}"),
        " dtensor float16[8,4] grad <my.DTensor> (local part of [8, 4], ?);"
        "_local_tensor dense float32[4]@0+0;");
    check_opens(
        WRAPPED("my.DTensor",
                "{'_local_tensor':" FLOAT_TENSOR
                ",'_spec':my.Spec()!{'placements':(my.R(),my.R(),my.R(),my.R(),my.R(),my.R(),my.R(),my.R(),"
                "my.R())}}"),
        " dtensor float16[8,4] grad <my.DTensor> (local part of [8, 4], R, R, R, R, R, R, R, R);"
        "_local_tensor dense float32[4]@0+0;");
    check_opens(WRAPPED("my.DTensor", "{'other':" FLOAT_TENSOR "}"),
                " wrapper float16[8,4] grad <my.DTensor>;other dense float32[4]@0+0;");
}

#define SHARDED(state) WRAPPED("my.ShardedTensor", state)
#define SHARD          "my.Shard()!{'tensor':" FLOAT_TENSOR "}"

static void sharded_tensors_are_read_and_checked(void)
{
    check_opens(SHARDED("([" SHARD
                        "],my.Meta()!{'size':(16,4),'tensor_properties':my.Props()!{'dtype':torch.int8}})"),
                " sharded int8[16,4] grad <my.ShardedTensor> (local part of [16, 4]);"
                "local_shards.0 dense float32[4]@0+0;");
    check_opens(SHARDED("([],my.Meta()!{'tensor_properties':my.Props()!(torch.int8,1)})"),
                " sharded int8[8,4] grad <my.ShardedTensor> (local part of [8, 4]);");
    check_opens(SHARDED("()"), " sharded float16[8,4] grad <my.ShardedTensor> (local part of [8, 4]);");
    check_opens(SHARDED("([],my.Meta()!{'tensor_properties':my.Props()})"),
                " sharded float16[8,4] grad <my.ShardedTensor> (local part of [8, 4]);");
    check_opens(SHARDED("{'x':" FLOAT_TENSOR "}"), " wrapper float16[8,4] grad <my.ShardedTensor>;"
                                                   "x dense float32[4]@0+0;");
    check_refused(SHARDED("([],my.Meta()!{'size':^5})"), CKPT_EFORMAT,
                  "size is a int, it must be a tuple of integers");
    check_opens(FROM_TYPE("torch._utils._rebuild_tensor_v2", "my.ShardedTensor", TENSOR_V2_ARGS,
                          "([" SHARD "],None)"),
                " sharded float32[4]@0+0 <my.ShardedTensor> (local part of [4]);"
                "local_shards.0 dense float32[4]@0+0;");
}

/* -------------------------------------------------------------------- depth */

#define PARAMETER(t)       "torch._utils._rebuild_parameter(" t ",True," ORDERED_DICT ")"
#define FOUR_PARAMETERS(t) PARAMETER(PARAMETER(PARAMETER(PARAMETER(t))))

/* The tensor itself is one more constructor: it is inside 15 parameters, then inside 16. */
static void constructors_nest_at_most_16_deep(void)
{
    check_opens(
        FOUR_PARAMETERS(FOUR_PARAMETERS(FOUR_PARAMETERS(PARAMETER(PARAMETER(PARAMETER(FLOAT_TENSOR)))))),
        " dense float32[4]@0+0 parameter grad;");
    check_refused(FOUR_PARAMETERS(FOUR_PARAMETERS(FOUR_PARAMETERS(FOUR_PARAMETERS("^" FLOAT_TENSOR)))),
                  CKPT_EFORMAT, "tensor constructors are nested deeper than 16");
}

void suite_torch_rebuild(void)
{
    UNIT(dense_tensors_are_read_and_checked);
    UNIT(conj_and_neg_bits_are_read_and_checked);
    UNIT(untyped_storages_are_swapped_by_the_dtype_of_their_first_tensor);
    UNIT(an_untyped_storage_of_two_widths_is_refused);
    UNIT(parameters_are_read_and_checked);
    UNIT(parameters_of_old_versions_are_read_and_checked);
    UNIT(tensors_built_from_a_state_are_read);
    UNIT(bare_storages_are_read);
    UNIT(quantized_tensors_are_read_and_checked);
    UNIT(sparse_tensors_are_read_and_checked);
    UNIT(nested_tensors_are_read);
    UNIT(tensors_without_bytes_are_listed_and_checked);
    UNIT(tensors_of_other_devices_are_read_and_checked);
    UNIT(tensor_subclasses_are_read_and_checked);
    UNIT(attributes_of_tensors_are_listed);
    UNIT(wrapper_subclasses_are_read_and_checked);
    UNIT(dtensors_are_read);
    UNIT(sharded_tensors_are_read_and_checked);
    UNIT(constructors_nest_at_most_16_deep);
}
