# banned.sh - functions that may not be called. Those of banned_everywhere write or parse without bounds, have a race or
# start a shell. Those of banned_in_library print, end or change the process, read its environment or load code. Nor may
# the library use stdout, stderr, environ or variable static data.
banned_everywhere='strcpy strcat sprintf vsprintf gets atoi atol atoll atof strtok strtok_r sscanf vsscanf scanf
alloca tmpnam mktemp system popen'
banned_in_library='printf vprintf puts putchar perror exit _exit abort assert getenv secure_getenv setenv unsetenv
putenv dlopen dlsym fork execv execve execvp execl execlp signal sigaction setlocale rand srand'

# strip FILE… - prints the lines of FILE… as "FILE:LINE:TEXT", without comments and what is in strings
strip() { awk -v named=1 -f "$LINT/strip.awk" "$@"; }

# find_calls NAMES - prints FILE:LINE for each call of one of the functions NAMES in the lines that strip() printed
find_calls()
{
    grep -E "^[^:]*:[0-9]*:(.*[^A-Za-z0-9_>.])?($(echo $1 | tr ' ' '|'))[[:space:]]*\(" | cut -d : -f 1,2
}

# without_text MESSAGE - replaces the text of lines as strip() prints them by MESSAGE
without_text() { sed "s/^\([^:]*:[0-9]*\):.*/\1: $1/"; }

for call in $(strip $(find lib cli tests -type f -name '*.[ch]') | find_calls "$banned_everywhere"); do
    echo "$call: calls a function that is banned"
done
for call in $(strip $(find lib -name '*.[ch]') | find_calls "$banned_in_library"); do
    # Two exceptions. TMPDIR is the folder for copies of pipes. Libraries are loaded when they are needed, by constant
    # names, because linking them would slow the start of every command.
    case $call in
    lib/base/library.c:*) allowed='dlopen(lib->sonames\[[0i]\]\|dlsym(opened, lib->names\[i\])' ;;
    *) allowed='getenv("TMPDIR")' ;;
    esac
    sed -n "${call##*:}p" "${call%:*}" | grep -q "$allowed" ||
        echo "$call: calls a function that is banned in the library"
done
strip $(find lib -name '*.[ch]') | grep -E '^[^:]*:[0-9]*:(.*[^A-Za-z0-9_])?(stdout|stderr|environ)([^A-Za-z0-9_]|$)' |
    without_text 'the library may not use stdout, stderr or environ'
strip $(find lib -name '*.c') | grep -E '^[^:]*:[0-9]*:static [^(=;]*[=;]' | grep -vE 'const|_Atomic|inline' |
    without_text 'the library may not have a static variable that can change'
