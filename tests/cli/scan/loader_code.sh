# Configurations that make a loader import code of the file's author, and chat templates, are notes: the exit code is 0.
mkdir hub sentence mlflow
printf '{"auto_map": {"AutoConfig": "configuration_x.X", "AutoTokenizer": ["tokenization_x.T", null]}}' >hub/config.json
printf '{"auto_mapping": {"base_model_class": "X", "parent_library": "transformers_modules.x"}}' \
    >hub/adapter_config.json
printf '{"chat_template": "{{ 7*7 }}"}' >hub/tokenizer_config.json
mkdir hub/adapter hub/pipeline
printf '{"megatron_config": {}, "megatron_core": "my_core"}' >hub/adapter/adapter_config.json
printf '{"custom_pipelines": {"pairs": {"impl": "pairs.Pipeline", "pt": ["AutoModel"]}}}' >hub/pipeline/config.json
printf '{"chat_template": [{"name": "default", "template": "{{ 7*7 }}"}]}' >hub/chat_template.json
printf '{{ 7*7 }}' >hub/chat_template.jinja
printf '[{"idx": 0, "type": "sentence_transformers.models.Transformer"}, {"idx": 1, "type": "my.Module"}]' \
    >sentence/modules.json
printf 'flavors:\n  python_function:\n    loader_module: my_loader\n    env: a\n' >mlflow/MLmodel
printf '{"activation_function": "my_package.Activation"}' >sentence/dense.json
printf '{"sentence_transformers": {"activation_fn": "my_package.Activation"}}' >sentence/cross_encoder.json
mkdir mlflow/alias mlflow/data zarr diffusers
printf 'a: &a my_loader\nloader_module: *a\n&k keras_module : evil\n' >mlflow/alias/MLmodel
printf 'flavors:\n  tensorflow: {keras_module: my_keras}\n  python_function:\n    model_code_path: model.py\n' \
    >mlflow/data/MLmodel
printf 'my_keras' >mlflow/data/keras_module.txt
printf 'my_pickle\n' >mlflow/data/pickle_module_info.txt
tar -cf mlflow/data.tar -C mlflow data/pickle_module_info.txt
printf '{"chat_template": {"default": "{{ 7*7 }}", "tool_use": "{{ 1 }}"}}' >hub/special_tokens_map.json
printf '{"_class_name": ["my_pipeline", "P"], "unet": ["my_package", "C"], "vae": ["diffusers", "A"], "x": [null, "y"]}' \
    >diffusers/model_index.json
printf '{"shape": [2], "filters": [{"id": "pickle", "protocol": 5}], "compressor": {"id": "pickle"}}' >zarr/.zarray
mkdir kernels
printf '{"_attn_implementation": "user/kernel", "vision": {"attn_implementation": "kernels-community/x:f"}}' \
    >kernels/config.json
printf '{"attn_implementation": {"text_config": "user/kernel@main:f"}, "_attn_implementation_internal": "a/b"}' \
    >kernels/parts.json
mkdir trust
printf '{"tokenizer_kwargs": {"trust_remote_code": true}}' >trust/adapter_config.json
printf 'model: X\ntrust_remote_code: true\n' >trust/config.yaml
printf '{"plugins": ["my_plugin"]}' >trust/configuration.json
printf '{"types": {"query_0": "my.Module"}, "structure": {}}' >sentence/router_config.json
printf '{"tokenizer_class": "my.Tokenizer"}' >sentence/wordembedding_config.json
printf '{"custom_imports": {"imports": ["my_module"]}}' >trust/mmengine.json
ckpt scan hub sentence mlflow zarr diffusers kernels trust
echo "exit $?"
# What libraries write themselves is not reported.
mkdir known
printf '{"auto_map": null, "type": "my.Module", "architectures": ["BertModel"]}' >known/config.json
printf '{"_attn_implementation": "flash_attention_2", "attn_implementation": {"vision": "paged|sdpa"}}' >known/attn.json
printf '{"auto_mapping": {"parent_library": "transformers.models.bert.modeling_bert"}}' >known/adapter_config.json
printf '{"megatron_config": null, "megatron_core": "megatron.core", "impl": "x.Y"}' >known/lora.json
printf '[{"idx": 0, "type": "sentence_transformers.models.Pooling"}]' >known/modules.json
printf 'flavors:\n  python_function:\n    loader_module: mlflow.sklearn\n' >known/MLmodel
printf '{"activation_function": "gelu_new"}' >known/gpt2.json
printf '{"activation_function": "torch.nn.modules.linear.Identity", "filters": [{"id": "delta"}]}' >known/dense.json
printf '{"_class_name": "P", "unet": ["diffusers", "C"], "checker": ["stable_diffusion", "S"], "x": [null, null], "n": [1, 2]}' \
    >known/model_index.json
printf 'keras' >known/keras_module.txt
printf 'mlflow.pytorch.pickle_module' >known/pickle_module_info.txt
printf 'tensorflow: &a {keras_module: &b tensorflow.keras, data: *c}\nlocation: /tmp\n' >known/flavors
printf '{"trust_remote_code": false, "types": {"a": "b", "c": "sentence_transformers.models.Dense"}}' >known/router_config.json
printf 'trust_remote_code: false\n' >known/trust.yaml
ckpt scan known
