#include "backend/cuda/attention/prefill_wgmma_launch.cuh"

#include <array>

namespace tokamak::cuda::prefill {

std::span<const Kernel> wide_decoding_kernels() {
  static constexpr auto kRows = std::to_array<Kernel>({
      wide_kernel_row<64, 64, true>(),
      wide_kernel_row<128, 128, true>(),
      wide_kernel_row<192, 128, true>(),
      wide_kernel_row<256, 256, true>(),
  });
  return kRows;
}

}  // namespace tokamak::cuda::prefill
