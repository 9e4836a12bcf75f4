#include "backend/cuda/matvec/kernel.cuh"
#include "backend/cuda/matvec/launchers.h"
#include "backend/cuda/matvec/types_k.h"

namespace tokamak::cuda {

cudaError_t launch_q2_k(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q2_K>(p, parts, stream);
}
cudaError_t launch_q3_k(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q3_K>(p, parts, stream);
}
cudaError_t launch_q4_k(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q4_K>(p, parts, stream);
}
cudaError_t launch_q5_k(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q5_K>(p, parts, stream);
}
cudaError_t launch_q6_k(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q6_K>(p, parts, stream);
}
cudaError_t launch_q1_0(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q1_0>(p, parts, stream);
}
cudaError_t launch_q2_0(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<Q2_0>(p, parts, stream);
}
cudaError_t launch_tq2_0(const MatvecParams& p, const MatvecParts* parts, cudaStream_t stream) {
  return launch<TQ2_0>(p, parts, stream);
}

}  // namespace tokamak::cuda
