#include <array>

#include "backend/cuda/attention/prefill_kernel.cuh"

namespace tokamak::cuda::prefill {

std::span<const Kernel> decoding_kernels() {
  static constexpr auto kRows = std::to_array<Kernel>({
      kernel_row<64, 64, false>(),
      kernel_row<80, 80, false>(),
      kernel_row<96, 96, false>(),
      kernel_row<128, 128, false>(),
      kernel_row<192, 128, false>(),
      kernel_row<192, 192, false>(),
      kernel_row<256, 256, false>(),
  });
  return kRows;
}

}  // namespace tokamak::cuda::prefill
