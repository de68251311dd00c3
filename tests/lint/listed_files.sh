# listed_files.sh - lib/README.md has a line for each file of lib/, and for no other; `x` stands for x.c and x.h. At
# the top of the tree are only known files.
[ -f lib/README.md ] || { echo "lib/README.md:1: is missing"; exit; }
for file in $(find lib -name '*.[ch]' -o -name '*.def' | sed 's|^lib/||' | sort); do
    grep -q "^| \`$file\` \|^| \`${file%.[ch]}\` " lib/README.md || echo "lib/README.md:1: no line for $file"
done
sed -n 's/^| `\([^`]*\)` .*/\1/p' lib/README.md | while read -r file; do
    [ -f "lib/$file" ] || [ -f "lib/$file.c" ] || [ -f "lib/$file.h" ] || echo "lib/README.md:1: there is no $file"
done

known='.ci .clang-format .editorconfig .git-blame-ignore-revs .gitattributes .github .gitignore .gitlab-ci.yml
       .pre-commit-hooks.yaml
       CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md SECURITY.md cli completion examples findings lib
       libckpt.pc.in man packaging pyproject.toml python share tests'
git ls-files 2>/dev/null | sed 's/^"//; s|/.*||' | sort -u | while read -r name; do
    case " $(echo $known) " in
    *" $name "*) ;;
    *) echo "$name:1: is not one of the files known at the top of the tree" ;;
    esac
done
