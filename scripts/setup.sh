#!/usr/bin/env bash
# Installs the Debian packages of the named groups (see packages.txt) that are missing, saying what and why.
# Usage: scripts/setup.sh build models test ...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

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
((${#missing[@]})) || exit 0

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
