#include "backend/cuda/columns/kernel.cuh"
#include "backend/cuda/columns/launchers.h"

namespace tokamak::cuda {

cudaError_t columns_q4_1(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q4_1>(p, parts, stream);
}
cudaError_t columns_q5_0(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q5_0>(p, parts, stream);
}
cudaError_t columns_q5_1(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q5_1>(p, parts, stream);
}
cudaError_t columns_q8_0(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q8_0>(p, parts, stream);
}
cudaError_t columns_iq4_nl(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ4_NL>(p, parts, stream);
}
cudaError_t columns_iq4_xs(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<IQ4_XS>(p, parts, stream);
}

}  // namespace tokamak::cuda
