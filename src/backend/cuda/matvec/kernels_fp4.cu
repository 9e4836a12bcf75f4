#include "backend/cuda/matvec/kernel.cuh"
#include "backend/cuda/matvec/launchers.h"
#include "backend/cuda/matvec/types_nibble.h"

namespace tokamak::cuda {

cudaError_t launch_q4_0(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q4_0>(p, parts, stream);
}
cudaError_t launch_mxfp4(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<MXFP4>(p, parts, stream);
}
cudaError_t launch_nvfp4(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<NVFP4>(p, parts, stream);
}

}  // namespace tokamak::cuda
