#!/usr/bin/env bash
# Installs what building (build), testing (test) and building for 64-bit ARM (arm) need, with apt-get, when something is missing and it may.
# Asks apt for nothing when everything is there, whoever installed it.
set -euo pipefail

declare -A packages # by what is looked for: a command, pc:NAME for pkg-config, arm:NAME for pkg-config of arm64
build_needs=(gcc meson ninja pkg-config pc:liburing pc:jansson pc:libpcre2-8 pc:libutf8proc pc:libxxhash pc:libmicrohttpd pc:libedit
    pc:libcrypto)
test_needs=(python3 python3-venv pc:cmocka)
arm_needs=(aarch64-linux-gnu-gcc qemu-aarch64 arm:cmocka)
packages=(
    [gcc]="gcc libc6-dev" [meson]=meson [ninja]=ninja-build [pkg-config]=pkg-config
    [pc:liburing]=liburing-dev [pc:jansson]=libjansson-dev [pc:libpcre2-8]=libpcre2-dev
    [pc:libutf8proc]=libutf8proc-dev [pc:libxxhash]=libxxhash-dev [pc:libmicrohttpd]=libmicrohttpd-dev
    [pc:libedit]=libedit-dev [pc:libcrypto]=libssl-dev
    [python3]=python3 [python3-venv]=python3-venv [pc:cmocka]=libcmocka-dev
    [aarch64-linux-gnu-gcc]=gcc-aarch64-linux-gnu [qemu-aarch64]=qemu-user [arm:cmocka]=libcmocka-dev:arm64
)
for need in "${build_needs[@]}"; do
    case $need in
        pc:*) arm_needs+=("arm:${need#pc:}"); packages[arm:${need#pc:}]=${packages[$need]}:arm64 ;;
    esac
done

is_there() {
    case $1 in
        gcc) command -v "${CC:-cc}" >/dev/null ;;
        python3-venv) python3 -c 'import venv, ensurepip' 2>/dev/null ;;
        pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
        arm:*) PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig pkg-config --exists "${1#arm:}" 2>/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

missing=()
for group in "${@:-build}"; do
    case $group in
        build) needs=("${build_needs[@]}") ;;
        test) needs=("${test_needs[@]}") ;;
        arm) needs=("${arm_needs[@]}") ;;
        *) echo "setup.sh: unknown group '$group': build, test or arm" >&2; exit 2 ;;
    esac
    for need in "${needs[@]}"; do
        # shellcheck disable=SC2206 # a need may stand for two packages
        is_there "$need" || missing+=(${packages[$need]})
    done
done
[ ${#missing[@]} -gt 0 ] || exit 0

architecture="" # where the packages of another one are missing, apt has to know it
case ${missing[*]} in
    *:arm64*) dpkg --print-foreign-architectures 2>/dev/null | grep -qx arm64 || architecture="dpkg --add-architecture arm64" ;;
esac
command="apt-get install -y --no-install-recommends ${missing[*]}"
root=()
if [ "$(id -u)" != 0 ]; then
    root=(sudo)
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
        printf 'Missing packages. Please run this, then try again:\n%s    sudo %s\n' \
            "${architecture:+    sudo $architecture && sudo apt-get update$'\n'}" "$command" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null; then
    printf 'Missing, and there is no apt-get here. On Debian the packages are called:\n    %s\n' "${missing[*]}" >&2
    exit 1
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
[ -z "$architecture" ] || "${root[@]}" $architecture
"${root[@]}" apt-get update -qq
"${root[@]}" $command -qq >/dev/null
