#include "backend/cuda/matvec/kernel.cuh"
#include "backend/cuda/matvec/launchers.h"

namespace tokamak::cuda {

cudaError_t launch_f32(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<F32>(p, parts, stream);
}
cudaError_t launch_f16(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<F16>(p, parts, stream);
}
cudaError_t launch_bf16(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<BF16>(p, parts, stream);
}

}  // namespace tokamak::cuda
