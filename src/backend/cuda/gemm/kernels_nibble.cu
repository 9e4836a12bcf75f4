#include "backend/cuda/gemm/launch.cuh"

namespace tokamak::cuda {

cudaError_t gemm_q4_1(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q4_1>(p, plan, stream);
}
cudaError_t gemm_q5_0(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q5_0>(p, plan, stream);
}
cudaError_t gemm_q5_1(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q5_1>(p, plan, stream);
}
cudaError_t gemm_q8_0(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q8_0>(p, plan, stream);
}
cudaError_t gemm_iq4_nl(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ4_NL>(p, plan, stream);
}
cudaError_t gemm_iq4_xs(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ4_XS>(p, plan, stream);
}

}  // namespace tokamak::cuda
