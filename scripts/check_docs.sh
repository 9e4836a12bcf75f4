#!/usr/bin/env bash
# The committed reference pages equal what the program prints. Usage: scripts/check_docs.sh BUILD_FOLDER
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
echo "reference pages: up to date"
