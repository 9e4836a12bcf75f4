#include "backend/cuda/columns/kernel.cuh"
#include "backend/cuda/columns/launchers.h"

namespace tokamak::cuda {

cudaError_t columns_q4_0(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q4_0>(p, parts, stream);
}
cudaError_t columns_mxfp4(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<MXFP4>(p, parts, stream);
}
cudaError_t columns_nvfp4(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<NVFP4>(p, parts, stream);
}

}  // namespace tokamak::cuda
