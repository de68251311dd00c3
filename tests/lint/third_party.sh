# third_party.sh - each third-party header is included by exactly one file, in codec/, op/, cli/ or io/http.c.
system_headers='aio alloca arpa/inet assert complex cpuid ctype dirent dlfcn emmintrin errno fcntl fenv float immintrin
inttypes iso646 langinfo limits linux/fs locale math nmmintrin poll pthread pwd regex sched setjmp signal smmintrin
stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings sys/file sys/ioctl sys/mman
sys/param sys/prctl sys/random sys/resource sys/sendfile sys/stat sys/statvfs sys/syscall sys/time sys/types sys/uio
sys/utsname sys/wait sys/xattr tgmath threads time tmmintrin uchar unistd wchar wctype wmmintrin x86intrin arm_acle
arm_neon sys/auxv sys/socket'

third_party=$(grep -rn '^[[:space:]]*#[[:space:]]*include[[:space:]]*<' --include='*.[ch]' --include='*.def' lib cli |
    sed 's/^\([^:]*\):\([0-9]*\):.*include *<\([^>]*\)>.*/\3 \1 \2/' |
    while read -r name file line; do
        case " $(echo $system_headers) " in
        *" ${name%.h} "*) ;;
        *) echo "$name $file $line" ;;
        esac
    done | sort)

echo "$third_party" | while read -r name file line; do
    [ -n "$name" ] || continue
    case $file in
    lib/codec/* | lib/op/* | cli/* | lib/io/http.c) ;;
    *) echo "$file:$line: <$name> is included outside of codec/, op/, cli/ and io/http.c" ;;
    esac
    includers=$(echo "$third_party" | awk -v header="$name" '$1 == header {print $2}' | sort -u | wc -l)
    [ "$includers" -eq 1 ] || echo "$file:$line: <$name> is included by $includers files, not 1"
done
