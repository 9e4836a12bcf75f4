#!/usr/bin/env bash
# Builds the fuzz targets and runs each for the given time over its corpus. Usage: scripts/fuzz.sh SECONDS [target...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:?seconds per target}
shift
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(basename -a -s .cpp fuzz/*_fuzz.cpp)
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]}" -- --quiet
for target in "${targets[@]}"; do
  work=$(mktemp -d)
  seeds=fuzz/corpus/${target%_fuzz}
  [[ -d $seeds ]] || seeds=
  words=fuzz/${target%_fuzz}.dict
  dictionary=()
  [[ -f $words ]] && dictionary=(-dict="$words")
  # shellcheck disable=SC2086
  if build/fuzz/bin/"$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -artifact_prefix="$work/" \
    "${dictionary[@]}" "$work" $seeds >"$work/log" 2>&1; then
    echo "$target: $(grep -E '^Done|stat::number_of_executed_units' "$work/log" | tail -n 1)"
    rm -rf "$work"
  else
    tail -n 40 "$work/log"
    echo "fuzz: $target found an input it cannot handle; it is in $work" >&2
    exit 1
  fi
done
