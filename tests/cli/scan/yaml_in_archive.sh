# YAML in an archive is read as a file of its own is: names to call, and tags of Python
printf 'model:\n  _target_: inert_probe.touch\n' >model_config.yaml
printf 'a: !!python/object/apply:inert_probe.touch []\n' >tagged.yaml
printf 'a: 1\n' >plain.yaml
archive() { tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 "$@"; }
archive -cf model.nemo model_config.yaml
archive -cf tagged.tar tagged.yaml plain.yaml
gzip -nc tagged.tar >tagged.tar.gz
archive -cf plain.nemo plain.yaml
for f in model.nemo tagged.tar tagged.tar.gz plain.nemo; do
    ckpt scan $f
    echo "exit $?"
done
