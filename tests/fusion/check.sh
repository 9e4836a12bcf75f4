#!/usr/bin/env bash
# Every dummy model on the CPU: fusion counts as recorded, results as unfused and as the reference, structure as
# published.
#   check.sh TOKAMAK                 what ctest runs
#   check.sh TOKAMAK record          writes CPU.csv and docs/reports/fused_norm_counts.md anew
set -euo pipefail
tokamak=${1:?path of tokamak}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dummies=$(mktemp -d)
trap 'rm -rf "$dummies"' EXIT

"$tokamak" synth --all "$dummies" --type F16
if [[ ${2:-} == record ]]; then
  "$tokamak" fusion --models "$dummies" --structural --check "$root/tests/fusion/norm_counts.csv" \
    >"$root/docs/reports/fused_norm_counts.md" || status=1
else
  "$tokamak" fusion --models "$dummies" --structural --check "$root/tests/fusion/norm_counts.csv" >"$dummies/page.md" || status=1
  diff "$root/docs/reports/fused_norm_counts.md" "$dummies/page.md" || status=1
fi

# Post-scales exist with NVFP4 weights only.
"$tokamak" synth llama "$dummies/llama-nvfp4.gguf" --type NVFP4
"$tokamak" synth gpt-oss "$dummies/gpt-oss-nvfp4.gguf" --type NVFP4
"$tokamak" synth qwen3moe "$dummies/qwen3moe-nvfp4.gguf" --type NVFP4
if [[ ${2:-} == record ]]; then
  "$tokamak" fusion --models "$dummies" --record "$root/tests/fusion/CPU.csv"
else
  "$tokamak" fusion --models "$dummies" --check "$root/tests/fusion/CPU.csv" || status=1
fi
exit "${status:-0}"
