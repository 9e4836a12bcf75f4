#!/usr/bin/env bash
# Builds and runs everything that proves the build. Usage: ./test.sh [quick|full|nightly]
#   quick    unit tests of the release build (the inner loop, below 2 minutes after a build)
#   full     default, and what CI runs: quick, source checks, sanitizers (fuzz corpora too), scalar and AVX2 kernels,
#            the CUDA build for one architecture with the tests that need no GPU
#            (sanitizers skip the numeric sweeps over model families, which the release build runs: nightly has them)
#   nightly  full with those sweeps, clang-tidy, the Python oracles, the web page in a browser, ARM tests under the
#            emulator, and 10 minutes of fuzzing per target
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mode=${1:-full}
case $mode in quick | full | nightly) ;; *)
  echo "test.sh: unknown mode '$mode' (quick, full or nightly)" >&2
  exit 2
  ;;
esac

say() { printf '\n== %s\n' "$*"; }

say "packages"
scripts/setup.sh build models test
if [[ $mode != quick ]]; then scripts/setup.sh lint; fi
if [[ $mode == nightly ]]; then scripts/setup.sh cross tidy page; fi

say "release build"
cmake --preset release -DTOKAMAK_TESTS=ON >/dev/null
cmake --build --preset release -- --quiet

if [[ $mode != quick ]]; then
  say "source checks"
  scripts/lint.sh format
  scripts/check_includes.sh
  scripts/check_symbols.sh build/release
  scripts/check_docs.sh build/release

  say "demo models"
  scripts/fetch_model.sh smollm2 gemma3 >/dev/null

  say "unit tests under AddressSanitizer and UndefinedBehaviorSanitizer"
  cmake --preset asan -DTOKAMAK_SANITIZE_KERNELS="$([[ $mode == nightly ]] && echo ON || echo OFF)" >/dev/null
  cmake --build --preset asan -- --quiet
  # The same code on one model family after another: a third of the time under sanitizers.
  sweeps='^(engine/Families/|engine/Models/|backend_split/All/|arch/Models/|quantize/TargetBpw|check/Isas/|synth/Synth/)'
  ctest --preset asan -LE model -j"$(nproc)" --progress $([[ $mode == nightly ]] || echo "-E $sweeps")
fi

if [[ $mode != quick ]]; then
  say "the CUDA build, and its tests that need no GPU"
  scripts/setup.sh cuda
  cmake --preset cuda -DTOKAMAK_TESTS=ON >/dev/null
  cmake --build --preset cuda --target tokamak cuda_tests -- --quiet
  scripts/check_symbols.sh build/cuda
  ctest --preset cuda -R '^(backend_)?cuda' -j"$(nproc)" | grep -vE ' (Start|Passed) |Skipped'
fi

if [[ $mode == nightly ]]; then
  say "clang-tidy"
  scripts/lint.sh tidy build/release
  say "oracles"
  scripts/oracles.sh --check
  say "the web page in a browser"
  tools/page_test.py "$(scripts/fetch_model.sh smollm2)"
  say "ARM kernels under the emulator"
  scripts/test_arm.sh
  say "fuzz targets, ${TOKAMAK_FUZZ_SECONDS:=600} s each"
  scripts/fuzz.sh "$TOKAMAK_FUZZ_SECONDS"
fi

say "unit tests"
ctest --preset release -j"$(nproc)" $([[ $mode == quick ]] && echo "-LE model")
