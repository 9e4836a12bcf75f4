#!/usr/bin/env bash
# Formatting and static checks. Installs nothing: scripts/setup.sh lint tidy does.
#   scripts/lint.sh format                      every C++ file stands as clang-format would write it
#   scripts/lint.sh tidy BUILD_FOLDER [FILE...] clang-tidy with the repository's .clang-tidy over these .cpp files, or
#                                               over all of src/ (an hour on two cores)
#   scripts/lint.sh tidy BUILD_FOLDER --since COMMIT   over the .cpp files of src/ changed since that commit
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() { sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
need() { command -v "$1" >/dev/null || { echo "lint: $1 is missing: run scripts/setup.sh $2" >&2; exit 3; }; }

case ${1:-} in
format)
  (($# == 1)) || usage
  need clang-format lint
  mapfile -t files < <(comm -23 <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | sort) <(git ls-files -d | sort))
  if ! problems=$(clang-format --dry-run -Werror "${files[@]}" 2>&1); then
    grep -E '^[^ ]+:[0-9]+:[0-9]+: error: ' <<<"$problems" | cut -d: -f1 | sort -u | sed 's/^/lint: not formatted: /' >&2 ||
      echo "$problems" >&2
    echo "lint: clang-format -i FILE formats a file" >&2
    exit 1
  fi
  echo "format: ${#files[@]} files ok"
  ;;
tidy)
  (($# >= 2)) || usage
  need clang-tidy tidy
  build=$2
  [[ -f $build/compile_commands.json ]] || { echo "lint: $build has no compile_commands.json: configure it first" >&2; exit 3; }
  files=("${@:3}")
  if [[ ${files[0]:-} == --since ]]; then
    (($# == 4)) || usage
    mapfile -t files < <(git diff --name-only --diff-filter=d "$4" -- 'src/*.cpp')
  elif ((${#files[@]} == 0)); then
    mapfile -t files < <(git ls-files 'src/*.cpp' ':!:*_neon.cpp')
  fi
  ((${#files[@]})) || { echo "tidy: no file to check"; exit 0; }
  # An exit status of its own per file; xargs reports any failure.
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p "$build" --quiet --warnings-as-errors='*'
  echo "tidy: ${#files[@]} files ok"
  ;;
*) usage ;;
esac
