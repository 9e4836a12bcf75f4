#include "backend/cuda/gemm/launch.cuh"

namespace tokamak::cuda {

cudaError_t gemm_q2_k(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q2_K>(p, plan, stream);
}
cudaError_t gemm_q3_k(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q3_K>(p, plan, stream);
}
cudaError_t gemm_q4_k(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q4_K>(p, plan, stream);
}
cudaError_t gemm_q5_k(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q5_K>(p, plan, stream);
}
cudaError_t gemm_q6_k(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q6_K>(p, plan, stream);
}

}  // namespace tokamak::cuda
