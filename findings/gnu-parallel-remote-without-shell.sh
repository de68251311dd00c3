#!/bin/sh
# GNU parallel 20221122 (Debian 12): a job for a remote machine whose environment has no SHELL does not run, prints
# nothing, and counts as done: parallel exits with 0, and --joblog records the exit value 0. sshd sets SHELL; commands
# that may stand in for ssh in --sshlogin, such as `docker exec`, need not. With SHELL set, or PARALLEL_SHELL on the
# side of the caller, the same job runs. So a script that distributes work this way cannot trust the status alone.
#
# Output seen:
#   with SHELL: status 0, exit value 0, the job ran
#   without SHELL: status 0, exit value 0, the job did not run
#   without SHELL, PARALLEL_SHELL=/bin/sh: status 0, exit value 0, the job ran
set -eu
script=$(realpath "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q parallel=20221122+ds-2 >/dev/null 2>&1
dpkg-deb -x parallel_*.deb .
cat >remote <<'END_OF_REMOTE'
#!/bin/sh
# runs what parallel sends, here, as a container or another machine would: remote HOST COMMAND
shift
[ "$1" != -- ] || shift
exec sh -c "$*"
END_OF_REMOTE
chmod +x remote
export HOME="$folder"
mkdir .parallel
: >.parallel/will-cite

# run TITLE ENV... - runs one job on the remote machine in this environment, and prints what came of it
run()
{
    title=$1
    shift
    rm -f ran log
    status=0
    env "$@" perl usr/bin/parallel --sshlogin "$folder/remote host" --joblog log touch "$folder/{}" ::: ran \
        </dev/null >output 2>&1 || status=$?
    [ ! -s output ] || cat output
    value=$(awk 'NR == 2 {print $7}' log)
    [ -e ran ] && ran='ran' || ran='did not run'
    echo "$title: status $status, exit value $value, the job $ran"
}

{
    run 'with SHELL' SHELL=/bin/sh
    run 'without SHELL' -u SHELL
    run 'without SHELL, PARALLEL_SHELL=/bin/sh' -u SHELL PARALLEL_SHELL=/bin/sh
} >got
sed -n 's/^#   //p' "$script" | diff - got
echo 'as seen'
