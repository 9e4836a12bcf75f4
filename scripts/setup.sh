#!/usr/bin/env bash
# Installs the Debian packages of the named groups (see packages.txt) that are missing, saying what and why.
# Group cuda: also the CUDA compiler and libraries, as wheels of PyPI (cuda_toolkit.txt), into build/cuda-toolkit.
# Usage: scripts/setup.sh build models test cuda ...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

install_cuda_toolkit() {
  local folder=$here/../build/cuda-toolkit stamp=$here/../build/cuda-toolkit/installed.txt
  cmp -s "$here/cuda_toolkit.txt" "$stamp" && return
  echo "setup: will fetch the CUDA toolkit (130 MB from PyPI) into build/cuda-toolkit" >&2
  rm -rf "$folder"
  if ! python3 -m pip install -q --no-deps --no-compile --only-binary=:all: --require-hashes \
    --root-user-action=ignore --target "$folder" -r "$here/cuda_toolkit.txt"; then
    echo "setup: could not fetch the CUDA toolkit (is PyPI or a mirror reachable?)" >&2
    exit 1
  fi
  cp "$here/cuda_toolkit.txt" "$stamp"
}

missing=()
while read -r group name reason; do
  [[ $group == \#* || -z $group ]] && continue
  for wanted in "$@"; do
    if [[ $group == "$wanted" ]] && ! dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed'; then
      missing+=("$name")
      echo "setup: will install $name: $reason" >&2
    fi
  done
done <"$here/packages.txt"
finish() {
  for wanted in "$@"; do [[ $wanted != cuda ]] || install_cuda_toolkit; done
}
((${#missing[@]})) || {
  finish "$@"
  exit 0
}

root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null || {
    echo "setup: cannot install without root: run 'apt-get install ${missing[*]}' as root, then try again" >&2
    exit 1
  }
  root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${root[@]}" apt-get update -qq && "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 5 "$log" >&2
  echo "setup: could not install: ${missing[*]} (is the network or the package mirror reachable?)" >&2
  exit 1
fi
finish "$@"
