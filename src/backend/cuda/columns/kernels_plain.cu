#include "backend/cuda/columns/kernel.cuh"
#include "backend/cuda/columns/launchers.h"

namespace tokamak::cuda {

cudaError_t columns_f16(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<F16>(p, parts, stream);
}
cudaError_t columns_bf16(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<BF16>(p, parts, stream);
}

}  // namespace tokamak::cuda
