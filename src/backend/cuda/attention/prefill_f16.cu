#include <array>

#include "backend/cuda/attention/prefill_kernel.cuh"

namespace tokamak::cuda::prefill {

std::span<const Kernel> f16_kernels() {
  static constexpr auto kRows = std::to_array<Kernel>({
      kernel_row<64, 64, true>(),
      kernel_row<80, 80, true>(),
      kernel_row<96, 96, true>(),
      kernel_row<128, 128, true>(),
      kernel_row<192, 128, true>(),
      kernel_row<192, 192, true>(),
      kernel_row<256, 256, true>(),
  });
  return kRows;
}

}  // namespace tokamak::cuda::prefill
