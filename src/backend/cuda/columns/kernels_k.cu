#include "backend/cuda/columns/kernel.cuh"
#include "backend/cuda/columns/launchers.h"

namespace tokamak::cuda {

cudaError_t columns_q2_k(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q2_K>(p, parts, stream);
}
cudaError_t columns_q3_k(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q3_K>(p, parts, stream);
}
cudaError_t columns_q4_k(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q4_K>(p, parts, stream);
}
cudaError_t columns_q5_k(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q5_K>(p, parts, stream);
}
cudaError_t columns_q6_k(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q6_K>(p, parts, stream);
}
cudaError_t columns_q1_0(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q1_0>(p, parts, stream);
}
cudaError_t columns_q2_0(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<Q2_0>(p, parts, stream);
}
cudaError_t columns_tq2_0(const MatvecParams& p, const MatvecParts& parts, cudaStream_t stream) {
  return launch_columns_of<TQ2_0>(p, parts, stream);
}

}  // namespace tokamak::cuda
