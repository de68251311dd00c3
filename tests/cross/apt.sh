# apt.sh - sourced: runs apt in a separate folder, so that packages for other processors change nothing on this
# machine.

# apt_begin DIR ARCH - makes later calls of apt-get work in DIR and for ARCH. Takes only the release, without its
# updates, from the package sources of this machine, because an incomplete mirror may lack the updates.
apt_begin()
{
    command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || return 1
    mkdir -p "$1/lists/partial" "$1/archives/partial" "$1/parts" || return 1
    : >"$1/status"
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
        awk -v release="$release" '$1 == "deb" {for (i = 2; i < NF; i++) if ($i == release) print}' >"$1/sources.list"
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed '/^#/d' |
        awk -v release="$release" 'BEGIN {RS = ""; FS = "\n"}
        {uri = key = components = ""; has_release = 0
         for (i = 1; i <= NF; i++) {
             n = split($i, word, " ")
             if (word[1] == "URIs:") uri = word[2]
             if (word[1] == "Signed-By:") key = "[signed-by=" word[2] "] "
             if (word[1] == "Components:") {components = $i; sub("^Components: *", "", components)}
             if (word[1] == "Suites:") for (k = 2; k <= n; k++) has_release = has_release || word[k] == release
         }
         if (has_release && uri) print "deb " key uri " " release " " components}' >>"$1/sources.list"
    sed 's/^deb /deb-src /' "$1/sources.list" >"$1/with-sources"
    cat "$1/sources.list" >>"$1/with-sources"
    mv "$1/with-sources" "$1/sources.list"
    cat >"$1/apt.conf" <<EOF
Dir::State "$1";
Dir::State::lists "$1/lists";
Dir::State::status "$1/status";
Dir::Cache "$1";
Dir::Cache::archives "$1/archives";
Dir::Etc::sourcelist "$1/sources.list";
Dir::Etc::sourceparts "$1/parts";
Dir::Etc::parts "$1/parts";
APT::Architecture "$2";
APT::Architectures { "$2"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
EOF
    export APT_CONFIG="$1/apt.conf"
    apt-get -qq update
}
