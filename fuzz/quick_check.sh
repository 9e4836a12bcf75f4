#!/usr/bin/env bash
# Builds every fuzz target (preset "fuzz") and runs each for SECONDS (default 60). Fails on the first finding, whose input
# is left in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
cmake --preset fuzz >/dev/null
mkdir -p build/fuzz/findings
for source in fuzz/*_fuzz.cpp; do
  target=$(basename "$source" .cpp)
  name=${target%_fuzz}
  cmake --build build/fuzz --target "$target" >/dev/null
  mkdir -p "build/fuzz/corpus/$name"  # inputs found on the way
  dict=()
  [ -f "fuzz/$name.dict" ] && dict=("-dict=fuzz/$name.dict")
  echo "$target: $seconds s"
  "build/fuzz/bin/$target" -max_total_time="$seconds" -timeout=10 -malloc_limit_mb=256 -print_final_stats=1 -verbosity=0 \
    "${dict[@]}" -artifact_prefix="build/fuzz/findings/$target-" "build/fuzz/corpus/$name" "fuzz/corpus/$name"
done
