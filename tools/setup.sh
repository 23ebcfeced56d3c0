#!/usr/bin/env bash
# Installs what building (build) and testing (test) need, with apt-get, when something is missing and it may.
# Asks apt for nothing when everything is there, whoever installed it.
set -euo pipefail

declare -A packages # by what is looked for: a command, or pc:NAME for pkg-config
build_needs=(gcc meson ninja pkg-config pc:liburing pc:jansson pc:libpcre2-8 pc:libutf8proc pc:libxxhash pc:libmicrohttpd pc:libedit)
test_needs=(python3 python3-venv pc:cmocka)
packages=(
    [gcc]="gcc libc6-dev" [meson]=meson [ninja]=ninja-build [pkg-config]=pkg-config
    [pc:liburing]=liburing-dev [pc:jansson]=libjansson-dev [pc:libpcre2-8]=libpcre2-dev
    [pc:libutf8proc]=libutf8proc-dev [pc:libxxhash]=libxxhash-dev [pc:libmicrohttpd]=libmicrohttpd-dev [pc:libedit]=libedit-dev
    [python3]=python3 [python3-venv]=python3-venv [pc:cmocka]=libcmocka-dev
)

is_there() {
    case $1 in
        gcc) command -v "${CC:-cc}" >/dev/null ;;
        python3-venv) python3 -c 'import venv, ensurepip' 2>/dev/null ;;
        pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

missing=()
for group in "${@:-build}"; do
    case $group in
        build) needs=("${build_needs[@]}") ;;
        test) needs=("${test_needs[@]}") ;;
        *) echo "setup.sh: unknown group '$group': build or test" >&2; exit 2 ;;
    esac
    for need in "${needs[@]}"; do
        # shellcheck disable=SC2206 # a need may stand for two packages
        is_there "$need" || missing+=(${packages[$need]})
    done
done
[ ${#missing[@]} -gt 0 ] || exit 0

command="apt-get install -y --no-install-recommends ${missing[*]}"
root=()
if [ "$(id -u)" != 0 ]; then
    root=(sudo)
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
        printf 'Missing packages. Please run this, then try again:\n    sudo %s\n' "$command" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null; then
    printf 'Missing, and there is no apt-get here. On Debian the packages are called:\n    %s\n' "${missing[*]}" >&2
    exit 1
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${root[@]}" apt-get update -qq
"${root[@]}" $command -qq >/dev/null
