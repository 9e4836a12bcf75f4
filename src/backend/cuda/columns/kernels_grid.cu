#include "backend/cuda/columns/kernel.cuh"
#include "backend/cuda/columns/launchers.h"

namespace tokamak::cuda {

cudaError_t columns_iq2_xxs(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ2_XXS>(p, parts, stream);
}
cudaError_t columns_iq2_xs(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ2_XS>(p, parts, stream);
}
cudaError_t columns_iq2_s(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ2_S>(p, parts, stream);
}
cudaError_t columns_iq3_xxs(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ3_XXS>(p, parts, stream);
}
cudaError_t columns_iq3_s(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ3_S>(p, parts, stream);
}
cudaError_t columns_iq1_s(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ1_S>(p, parts, stream);
}
cudaError_t columns_iq1_m(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ1_M>(p, parts, stream);
}

}  // namespace tokamak::cuda
