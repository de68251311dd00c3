# banned.sh - no calls of unbounded string functions, and in the library none that print, end the process, read the
# environment or load code.
everywhere='strcpy strcat sprintf vsprintf gets atoi atol atoll atof strtok strtok_r sscanf vsscanf scanf alloca
tmpnam mktemp system popen'
library='printf vprintf puts putchar perror exit _exit abort assert getenv secure_getenv setenv unsetenv putenv
dlopen dlsym fork execv execve execvp execl execlp signal sigaction setlocale rand srand'

# calls WORDS FILE… - prints the lines of FILE that call one of WORDS, except in comments and strings
calls()
{
    words=$(echo $1 | tr ' ' '|')
    shift
    for file; do
        awk -f "$LINT/strip.awk" "$file" | grep -nE "(^|[^A-Za-z0-9_>.])($words)[[:space:]]*\(" |
            sed "s|^\([0-9]*\):.*|$file:\1|"
    done
}

for at in $(calls "$everywhere" $(find lib cli tests -type f -name '*.[ch]')); do echo "$at: a banned function"; done
for at in $(calls "$library" $(find lib -name '*.[ch]')); do
    # TMPDIR is where users want pipes spooled. libarchive is loaded only when needed, by a fixed list of names, because
    # linking it would slow the start of every command.
    case $at in
    lib/codec/unpack_archive.c:*) allowed='dlopen(names\[i\]\|dlsym(lib, function_table\[i\].name)' ;;
    *) allowed='getenv("TMPDIR")' ;;
    esac
    sed -n "${at##*:}p" "${at%:*}" | grep -q "$allowed" || echo "$at: the library may not do this"
done
for file in $(find lib -name '*.[ch]'); do
    awk -f "$LINT/strip.awk" "$file" | grep -nE '(^|[^A-Za-z0-9_])(stdout|stderr|environ)([^A-Za-z0-9_]|$)' |
        sed "s|^\([0-9]*\):.*|$file:\1: the library has no business with the process's streams|"
done
for file in $(find lib -name '*.c'); do
    awk -f "$LINT/strip.awk" "$file" | grep -nE '^static [^(=;]*[=;]' | grep -vE 'const|_Atomic|inline' |
        sed "s|^\([0-9]*\):.*|$file:\1: mutable state of the whole process|"
done
