#!/usr/bin/env bash
# Every dummy model on the CPU: fusion counts as recorded, results as unfused and as the reference, structure as
# published.
#   check.sh TOKAMAK           what ctest runs
#   check.sh TOKAMAK record    writes CPU.csv, docs/reports/fused_norm_counts.md and the parts of architectures.md anew
set -euo pipefail
tokamak=${1:?path of tokamak} mode=${2:-check}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/fusion reports=$root/docs/reports
dummies=$(mktemp -d)
trap 'rm -rf "$dummies"' EXIT
status=0

# replace_part NAME: what stands between the two lines of NAME in architectures.md becomes standard input.
replace_part() {
  cat >"$dummies/part"
  awk -v name="$1" -v part="$dummies/part" '
    $0 == "<!-- end: " name " -->" { inside = 0 }
    !inside { print }
    $0 == "<!-- begin: " name " -->" { inside = 1; while ((getline line < part) > 0) print line }
  ' "$reports/architectures.md" >"$dummies/new"
  cp "$dummies/new" "$reports/architectures.md"
}
# largest COLUMN: the largest error of the models with F16 weights, from the lines that name it.
largest() { sed -nE "/nvfp4/d; s/.*NMSE ([^ ]+) to unfused, ([^ ]+) to the reference/\\$1/p" "$dummies/fusion.txt" | sort -g | tail -1; }

"$tokamak" synth --all "$dummies" --type F16
"$tokamak" fusion --models "$dummies" --structural --check "$here/norm_counts.csv" >"$dummies/page.md" || status=1

# Post-scales exist with NVFP4 weights only.
for family in llama gpt-oss qwen3moe; do "$tokamak" synth "$family" "$dummies/$family-nvfp4.gguf" --type NVFP4; done
if [[ $mode == record ]]; then
  cp "$dummies/page.md" "$reports/fused_norm_counts.md"
  "$tokamak" fusion --models "$dummies" --record "$here/CPU.csv" >"$dummies/fusion.txt" || status=1
  { echo && sed -n '/^| model/,$p' "$dummies/page.md"; } | replace_part "fused-norm counts"
  printf '\n`tests/fusion/check.sh`, which ctest runs, on the CPU: %s.\nLargest NMSE of a model with F16 weights: %s to unfused, %s to the reference. How it turns red: [fusion.md](fusion.md).\n\n' \
    "$(tail -1 "$dummies/fusion.txt")" "$(largest 1)" "$(largest 2)" | replace_part "fusion check"
else
  diff "$reports/fused_norm_counts.md" "$dummies/page.md" || status=1
  "$tokamak" fusion --models "$dummies" --check "$here/CPU.csv" || status=1
fi
exit $status
