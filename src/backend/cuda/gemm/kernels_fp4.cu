#include "backend/cuda/gemm/launch.cuh"

namespace tokamak::cuda {

cudaError_t gemm_q4_0(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<Q4_0>(p, plan, stream);
}
cudaError_t gemm_mxfp4(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<MXFP4>(p, plan, stream);
}
cudaError_t gemm_nvfp4(const GemmParams& p, const GemmPlan& plan, cudaStream_t stream) {
  return launch_gemm_type<NVFP4>(p, plan, stream);
}

}  // namespace tokamak::cuda
