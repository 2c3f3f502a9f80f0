#!/usr/bin/env bash
# Makes sure that the system offers what a build of Terrace needs, and says plainly what is missing.
#
# On Debian and Ubuntu it installs missing packages with apt; elsewhere it names them. It never
# installs Rust: how you keep your toolchain is your choice.
#
#   tools/setup.sh          what a build needs
#   tools/setup.sh tests    what the tests need beside it: redis-server and RocksDB's library
set -euo pipefail

rust_oldest="1.91"

main() {
    require_packages "$@"
    require_rust
    require_venv
}

require_packages() {
    local missing=()
    command -v cc >/dev/null || missing+=("cc")
    # The client of Kafka is configured for C++, too.
    command -v c++ >/dev/null || missing+=("c++")
    command -v make >/dev/null || missing+=("make")
    command -v curl >/dev/null || missing+=("curl")
    command -v python3 >/dev/null || missing+=("python3")
    if command -v python3 >/dev/null; then
        python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=("venv")
        python3 -m pip --version >/dev/null 2>&1 || missing+=("pip")
    fi
    if [ "${1:-}" = tests ]; then
        command -v redis-server >/dev/null || missing+=("redis-server")
        has_rocksdb || missing+=("rocksdb")
    fi
    [ "${#missing[@]}" -eq 0 ] && return
    if ! command -v apt-get >/dev/null; then
        explain_packages "${missing[@]}"
        exit 1
    fi
    install_with_apt "${missing[@]}"
}

# Where Terrace looks for the library; a version in its name is enough.
has_rocksdb() {
    local folder
    for folder in /usr/local/lib /usr/lib64 /usr/lib /lib64 /lib /usr/lib/*-linux-gnu \
        /opt/homebrew/lib /opt/local/lib; do
        compgen -G "$folder/librocksdb.so*" >/dev/null && return
        compgen -G "$folder/librocksdb*.dylib" >/dev/null && return
    done
    return 1
}

install_with_apt() {
    local as_root=() may_install=yes
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
        command -v sudo >/dev/null || may_install=no
    fi
    if [ "$may_install" = yes ]; then
        "${as_root[@]}" apt-get update -qq
    fi
    local packages=() name
    for name in "$@"; do
        case "$name" in
            cc | c++ | make) packages+=(build-essential) ;;
            curl) packages+=(curl ca-certificates) ;;
            python3) packages+=(python3 python3-venv python3-pip) ;;
            redis-server) packages+=(redis-server) ;;
            rocksdb) packages+=("$(rocksdb_package)") ;;
            *) packages+=("python3-$name") ;;
        esac
    done
    if [ "$may_install" = no ]; then
        say "missing: $*. As root, run: apt-get install ${packages[*]}"
        exit 1
    fi
    say "installing ${packages[*]}"
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}"
    case " $* " in *" redis-server "*) disable_redis_service "${as_root[@]}" ;; esac
}

# The version is in the package's name, as in librocksdb7.8. Where lists of packages are missing,
# the package for developers, which is called the same everywhere and brings the library.
rocksdb_package() {
    local newest
    newest=$(apt-cache search --names-only '^librocksdb[0-9.]+(t64)?$' | awk '{ print $1 }' |
        sort -V | tail -n 1)
    echo "${newest:-librocksdb-dev}"
}

# Tests start servers of their own; the package would have one run from now on.
disable_redis_service() {
    [ -d /run/systemd/system ] || return 0
    "$@" systemctl disable --quiet --now redis-server
}

explain_packages() {
    say "missing: $*. Install them with your system's packages:"
    say "  Fedora   sudo dnf install gcc gcc-c++ make curl python3 python3-pip redis rocksdb"
    say "  Arch     sudo pacman -S gcc make curl python python-pip redis rocksdb"
    say "  macOS    xcode-select --install, Python 3 from https://www.python.org,"
    say "           brew install redis rocksdb"
}

require_rust() {
    if ! command -v cargo >/dev/null; then
        say "cargo is missing. Get Rust $rust_oldest or newer from https://rustup.rs, open a new"
        say "shell so that cargo is on the PATH, and run this again."
        exit 1
    fi
    local found
    found=$(cargo --version | awk '{ print $2 }')
    if [ "$(printf '%s\n' "$rust_oldest" "$found" | sort -V | head -n 1)" != "$rust_oldest" ]; then
        say "cargo $found is too old, Terrace needs $rust_oldest. Run: rustup update stable"
        exit 1
    fi
}

# Debian's system Python has no ensurepip until python3-venv is there; another python3 that comes
# first on the PATH (pyenv, conda) may lack it still, and apt cannot mend that one.
require_venv() {
    python3 -c 'import venv, ensurepip' 2>/dev/null && return
    say "$(command -v python3) cannot make virtual environments (module ensurepip is missing)."
    say "Install that Python with ensurepip, or put another python3 first on the PATH."
    exit 1
}

say() { echo "setup: $*" >&2; }

main "$@"
