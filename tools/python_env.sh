#!/usr/bin/env bash
# python_env.sh DIRECTORY REQUIREMENTS: a Python environment of its own with the packages of a requirements file, for tests that use other
# people's clients. Does nothing when the directory has been made from the same file.
set -euo pipefail

directory=$1 requirements=$2
if [ -f "$directory/made-from" ] && cmp -s "$directory/made-from" "$requirements"; then
    exit 0
fi
rm -rf "$directory"
python3 -m venv "$directory" || { echo "python_env.sh: python3 -m venv fails; tools/setup.sh test installs what it needs" >&2; exit 1; }
"$directory/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
cp "$requirements" "$directory/made-from"
