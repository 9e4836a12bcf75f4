#include "backend/cuda/matvec/kernel.cuh"
#include "backend/cuda/matvec/launchers.h"
#include "backend/cuda/matvec/types_nibble.h"

namespace tokamak::cuda {

cudaError_t launch_q4_1(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q4_1>(p, parts, stream);
}
cudaError_t launch_q5_0(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q5_0>(p, parts, stream);
}
cudaError_t launch_q5_1(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q5_1>(p, parts, stream);
}
cudaError_t launch_q8_0(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q8_0>(p, parts, stream);
}
cudaError_t launch_iq4_nl(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ4_NL>(p, parts, stream);
}
cudaError_t launch_iq4_xs(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<IQ4_XS>(p, parts, stream);
}

}  // namespace tokamak::cuda
