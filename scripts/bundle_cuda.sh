#!/usr/bin/env bash
# Makes a folder that runs on a machine with an NVIDIA driver and nothing else: programs of the CUDA build in bin/,
# stripped, and the libraries they need beside them in lib/ (all but glibc, which must not be older there).
# Usage: scripts/bundle_cuda.sh FOLDER [PROGRAM...]     default: tokamak; others: cuda_matvec_test, backend_cuda_test ...
#   TOKAMAK_BUILD=DIR    a configured build (default: build/cuda, configured from the preset where missing)
#   TOKAMAK_JOBS=N       compiler processes (default: all cores)
set -euo pipefail
if (($# == 0)); then
  sed -n '2,6s/^# \?//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
# A bundle carries a mark; nothing is emptied that does not.
mark=.tokamak-bundle
if [[ -L $out/bin || -L $out/lib || -n $(find "$out" -mindepth 1 -maxdepth 1 -print -quit) && ! -e $out/$mark ||
  -n $(find "$out" -mindepth 1 -maxdepth 1 ! -name bin ! -name lib ! -name $mark -print -quit) ]]; then
  echo "bundle: $out: holds other things than a bundle, whose bin and lib are made anew (name an empty folder)" >&2
  exit 2
fi
shift
programs=("${@:-tokamak}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${TOKAMAK_BUILD:-build/cuda}
max_bytes=$((60 * 1000 * 1000))

if [[ ! -f $build/CMakeCache.txt ]]; then
  scripts/setup.sh build cuda
  cmake --preset cuda -B "$build" >/dev/null
fi
if ! grep -q '^TOKAMAK_CUDA:[A-Z]*=\(ON\|1\|TRUE\|YES\)$' "$build/CMakeCache.txt"; then
  echo "bundle: $build: a build without CUDA (configure it with cmake --preset cuda, or leave out TOKAMAK_BUILD)" >&2
  exit 2
fi
cmake --build "$build" -j "${TOKAMAK_JOBS:-$(nproc)}" --target "${programs[@]}"

rm -rf "${out:?}/bin" "${out:?}/lib"
touch "$out/$mark"
mkdir -p "$out/bin" "$out/lib"
for program in "${programs[@]}"; do
  strip -o "$out/bin/$program" "$build/bin/$program"
  ldd "$build/bin/$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | while read -r library; do
  case ${library##*/} in
    ld-linux* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so*) ;;
    *) strip -o "$out/lib/${library##*/}" "$library" ;;
  esac
done

n_bytes=$(du -sb "$out/bin" "$out/lib" | awk '{ n += $1 } END { print n }')
glibc=$(objdump -T "$out"/bin/* "$out"/lib/* | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
echo "bundle: $out, $((n_bytes / 1000000)) MB, needs ${glibc/_/ } and an NVIDIA driver" >&2
if ((n_bytes > max_bytes)); then
  echo "bundle: larger than $((max_bytes / 1000000)) MB: name fewer programs or architectures" >&2
  exit 1
fi
