#!/usr/bin/env bash
# Builds the kernels for 64-bit ARM and tests them in the emulator, with every extension and without dot product.
# Installs nothing: scripts/setup.sh build cross does. Usage: scripts/test_arm.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$tool" >/dev/null || { echo "test_arm: $tool is missing: run scripts/setup.sh build cross" >&2; exit 1; }
done

cmake --preset arm >/dev/null
cmake --build --preset arm -- --quiet

# on CPU PROGRAM [FLAG...]: runs a program of the build on an emulated processor.
on() { QEMU_CPU=$1 qemu-aarch64 -L /usr/aarch64-linux-gnu "build/arm/bin/$2" "${@:3}"; }
# Tests of NEON kernels that the emulated processor can run.
neon_tests() { on "$1" backend_cpu_test --gtest_list_tests | grep -c '^  .*_neon' || true; }

echo "== processor 'max': NEON with dot product"
(($(neon_tests max) > 0)) || { echo "test_arm: the emulated processor 'max' offers no NEON kernel" >&2; exit 1; }
QEMU_CPU=max ctest --preset arm -j"$(nproc)" | grep -vE ' (Start|Passed) '

# Not through ctest: it knows the tests of NEON kernels by name, and here they must not exist.
echo "== processor 'cortex-a57': no dot product, everything is scalar"
n=$(neon_tests cortex-a57)
((n == 0)) || { echo "test_arm: $n tests of NEON kernels on a processor without dot product" >&2; exit 1; }
for program in base_test tensor_test quant_test backend_reference_test backend_cpu_test check_test; do
  on cortex-a57 "$program" --gtest_brief=1 2>/dev/null | grep -v '^skipped'
done
