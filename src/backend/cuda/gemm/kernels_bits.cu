#include "backend/cuda/gemm/launch.cuh"

namespace tokamak::cuda {

cudaError_t gemm_q1_0(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q1_0>(p, plan, stream);
}
cudaError_t gemm_q2_0(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q2_0>(p, plan, stream);
}
cudaError_t gemm_tq2_0(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<TQ2_0>(p, plan, stream);
}

}  // namespace tokamak::cuda
