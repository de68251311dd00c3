# banned.sh - functions that may not be called. Those of banned_everywhere write or parse without bounds, have a race or
# start a shell. Those of banned_in_library print, end or change the process, read its environment or load code. Nor may
# the library use stdout, stderr, environ or variable static data.
banned_everywhere='strcpy strcat sprintf vsprintf gets atoi atol atoll atof strtok strtok_r sscanf vsscanf scanf
alloca tmpnam mktemp system popen'
banned_in_library='printf vprintf puts putchar perror exit _exit abort assert getenv secure_getenv setenv unsetenv
putenv dlopen dlsym fork execv execve execvp execl execlp signal sigaction setlocale rand srand'

# find_calls NAMES FILE… - prints FILE:LINE for each call of one of the functions NAMES, but not in comments and
# strings
find_calls()
{
    names=$(echo $1 | tr ' ' '|')
    shift
    for file; do
        awk -f "$LINT/strip.awk" "$file" | grep -nE "(^|[^A-Za-z0-9_>.])($names)[[:space:]]*\(" |
            sed "s|^\([0-9]*\):.*|$file:\1|"
    done
}

for call in $(find_calls "$banned_everywhere" $(find lib cli tests -type f -name '*.[ch]')); do
    echo "$call: calls a function that is banned"
done
for call in $(find_calls "$banned_in_library" $(find lib -name '*.[ch]')); do
    # Two exceptions. TMPDIR is the folder for copies of pipes. libarchive is loaded when it is needed, by the names in
    # an array, because linking it would slow the start of every command.
    case $call in
    lib/codec/unpack_archive.c:*) allowed='dlopen(names\[i\]\|dlsym(lib, function_table\[i\].name)' ;;
    *) allowed='getenv("TMPDIR")' ;;
    esac
    sed -n "${call##*:}p" "${call%:*}" | grep -q "$allowed" ||
        echo "$call: calls a function that is banned in the library"
done
for file in $(find lib -name '*.[ch]'); do
    awk -f "$LINT/strip.awk" "$file" | grep -nE '(^|[^A-Za-z0-9_])(stdout|stderr|environ)([^A-Za-z0-9_]|$)' |
        sed "s|^\([0-9]*\):.*|$file:\1: the library may not use stdout, stderr or environ|"
done
for file in $(find lib -name '*.c'); do
    awk -f "$LINT/strip.awk" "$file" | grep -nE '^static [^(=;]*[=;]' | grep -vE 'const|_Atomic|inline' |
        sed "s|^\([0-9]*\):.*|$file:\1: the library may not have a static variable that can change|"
done
