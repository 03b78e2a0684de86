# Sourced by quickstart, check and ci: packages of a fresh Debian 12.
# shellcheck shell=bash

# What the build needs.
BUILD_PACKAGES="build-essential autoconf automake pkg-config liblua5.4-dev
librdkafka-dev liblmdb-dev libev-dev libjemalloc-dev libcmocka-dev
libsimdjson-dev libck-dev libxxhash-dev"

# What the tests need beside: the second compiler with its sanitizer and
# fuzzer runtimes, the formatter, Python for whole-job tests, Java and Maven
# for a real Apache Kafka; LuaSQL and PostgreSQL for the jobs on databases
# (their tests start a server of their own).
CHECK_PACKAGES="clang libclang-rt-14-dev clang-format python3 lua5.4 git
openjdk-17-jre-headless maven lua-sql-sqlite3 lua-sql-postgres postgresql"

say() { printf '\n== %s\n' "$*"; }

# install_packages NAME...: those that are not there yet.
install_packages() {
    local missing=() p sudo=()
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null |
            grep -q '^install ok installed' || missing+=("$p")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || {
            echo "run as root, or install sudo, or: apt-get install ${missing[*]}" >&2
            return 1
        }
        sudo=(sudo)
    fi
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends "${missing[@]}" >/dev/null
}

jobs_at_once() { nproc 2>/dev/null || echo 1; }
