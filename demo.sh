#!/usr/bin/env bash
# Installs what is missing, builds a release, gets a small model and answers a prompt.
# Usage: ./demo.sh [prompt]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
prompt=${1:-"Explain in two sentences why the sky is blue."}

scripts/setup.sh build models
if [[ ! -f build/release/build.ninja ]]; then
  cmake --preset release -DTOKAMAK_TESTS=OFF >/dev/null
fi
echo "demo: building the release in build/release (the first time takes some minutes)" >&2
cmake --build --preset release --target tokamak
model=$(scripts/fetch_model.sh smollm2)

printf '\n$ tokamak run %s -p "%s"\n' "$(basename "$model")" "$prompt" >&2
build/release/bin/tokamak run "$model" -p "$prompt" --temp 0 -n 160
printf '\nTo chat: build/release/bin/tokamak run\nAll commands: build/release/bin/tokamak --help\n' >&2
