#include "backend/cuda/matvec/kernel.cuh"
#include "backend/cuda/matvec/launchers.h"
#include "backend/cuda/matvec/types_grid.h"

namespace tokamak::cuda {

cudaError_t launch_iq2_xxs(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ2_XXS>(p, parts, stream);
}
cudaError_t launch_iq2_xs(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ2_XS>(p, parts, stream);
}
cudaError_t launch_iq2_s(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ2_S>(p, parts, stream);
}
cudaError_t launch_iq3_xxs(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ3_XXS>(p, parts, stream);
}
cudaError_t launch_iq3_s(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ3_S>(p, parts, stream);
}
cudaError_t launch_iq1_s(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ1_S>(p, parts, stream);
}
cudaError_t launch_iq1_m(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ1_M>(p, parts, stream);
}

}  // namespace tokamak::cuda
