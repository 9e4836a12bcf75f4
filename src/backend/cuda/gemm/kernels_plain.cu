#include "backend/cuda/gemm/launch.cuh"

namespace tokamak::cuda {

cudaError_t gemm_f32_high(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<F32High>(p, plan, stream);
}
cudaError_t gemm_f32_low(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<F32Low>(p, plan, stream);
}
cudaError_t gemm_f16(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<F16>(p, plan, stream);
}
cudaError_t gemm_bf16(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<BF16>(p, plan, stream);
}

}  // namespace tokamak::cuda
