#!/bin/sh
# embed.sh FILE.rules... - prints the C source of the recipes that are built into ckpt (lib/op/rule_recipes.h).
set -eu
echo '#include "op/rule_recipes.h"'
for file; do
    name=$(basename "$file" .rules)
    printf 'static const unsigned char text_of_%s[] = {\n' "$(printf %s "$name" | tr -c 'a-z0-9' _)"
    od -An -v -tu1 "$file" | sed 's/[0-9][0-9]*/&,/g'
    echo '};'
done
echo 'const struct rule_recipe rule_recipes[] = {'
for file; do
    name=$(basename "$file" .rules)
    text=text_of_$(printf %s "$name" | tr -c 'a-z0-9' _)
    printf '    {"%s", %s, sizeof %s},\n' "$name" "$text" "$text"
done
echo '};'
echo 'const size_t rule_recipe_count = sizeof rule_recipes / sizeof *rule_recipes;'
