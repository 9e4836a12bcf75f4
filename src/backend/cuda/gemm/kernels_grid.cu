#include "backend/cuda/gemm/launch.cuh"

namespace tokamak::cuda {

cudaError_t gemm_iq2_xxs(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ2_XXS>(p, plan, stream);
}
cudaError_t gemm_iq2_xs(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ2_XS>(p, plan, stream);
}
cudaError_t gemm_iq2_s(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ2_S>(p, plan, stream);
}
cudaError_t gemm_iq3_xxs(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ3_XXS>(p, plan, stream);
}
cudaError_t gemm_iq3_s(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ3_S>(p, plan, stream);
}
cudaError_t gemm_iq1_s(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ1_S>(p, plan, stream);
}
cudaError_t gemm_iq1_m(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<IQ1_M>(p, plan, stream);
}

}  // namespace tokamak::cuda
