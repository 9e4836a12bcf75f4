#!/usr/bin/env bash
# The committed reference pages equal what the program prints, and links between pages lead to files.
# Usage: scripts/check_docs.sh BUILD_FOLDER
# To refresh them: BUILD_FOLDER/bin/tokamak docs
set -euo pipefail
build=$(cd "${1:?build folder}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
"$build/bin/tokamak" docs --out "$fresh" 2>/dev/null
# The kernel page is printed by x86-64 builds only.
[[ -f $fresh/kernels.md ]] || cp docs/reference/kernels.md "$fresh/"
if ! diff -ru docs/reference "$fresh"; then
  echo "check_docs: docs/reference is stale; run: $build/bin/tokamak docs" >&2
  exit 1
fi

status=0
while IFS= read -r page; do
  while IFS= read -r target; do
    [[ -e $(dirname "$page")/$target ]] || { echo "check_docs: $page links to $target, which does not exist" >&2; status=1; }
  done < <(grep -oE '\]\([A-Za-z0-9_./-]+\)' "$page" | sed 's/^](//; s/)$//')
done < <(find . -name '*.md' -not -path './build/*')
((status == 0)) || exit 1
echo "reference pages: up to date; links: ok"
