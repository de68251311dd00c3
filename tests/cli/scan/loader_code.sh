# Configurations that make a loader import code of the file's author, and chat templates, are notes: the exit code is 0.
mkdir hub sentence mlflow
printf '{"auto_map": {"AutoConfig": "configuration_x.X", "AutoTokenizer": ["tokenization_x.T", null]}}' >hub/config.json
printf '{"auto_mapping": {"base_model_class": "X", "parent_library": "transformers_modules.x"}}' \
    >hub/adapter_config.json
printf '{"chat_template": "{{ 7*7 }}"}' >hub/tokenizer_config.json
printf '{"chat_template": [{"name": "default", "template": "{{ 7*7 }}"}]}' >hub/chat_template.json
printf '{{ 7*7 }}' >hub/chat_template.jinja
printf '[{"idx": 0, "type": "sentence_transformers.models.Transformer"}, {"idx": 1, "type": "my.Module"}]' \
    >sentence/modules.json
printf 'flavors:\n  python_function:\n    loader_module: my_loader\n    env: a\n' >mlflow/MLmodel
ckpt scan hub sentence mlflow
echo "exit $?"
# What libraries write themselves is not reported.
mkdir known
printf '{"auto_map": null, "type": "my.Module", "architectures": ["BertModel"]}' >known/config.json
printf '{"auto_mapping": {"parent_library": "transformers.models.bert.modeling_bert"}}' >known/adapter_config.json
printf '[{"idx": 0, "type": "sentence_transformers.models.Pooling"}]' >known/modules.json
printf 'flavors:\n  python_function:\n    loader_module: mlflow.sklearn\n' >known/MLmodel
ckpt scan known
