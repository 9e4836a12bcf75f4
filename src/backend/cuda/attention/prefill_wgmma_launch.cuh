// How the kernel of prefill_wgmma.cuh is launched.
#pragma once

#include <algorithm>

#include "backend/cuda/attention/prefill_kernels.h"
#include "backend/cuda/attention/prefill_wgmma.cuh"
#include "backend/cuda/device_attribute.h"
#include "backend/cuda/overlap.h"

namespace tokamak::cuda::prefill {

// Rows of 64 dimensions as a tensor map has them. The plane's end is not known here: rows are taken from its pages
// only.
inline cudaError_t map_plane(CUtensorMap* map, const void* plane, int dims, int box_rows) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static void* const encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? found : nullptr;
  }();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[3] = {kPanelDims, cuuint64_t{1} << 31, static_cast<cuuint64_t>(dims / kPanelDims)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(dims) * 2, kPanelRowBytes};  // bytes
  const cuuint32_t box[3] = {kPanelDims, static_cast<cuuint32_t>(box_rows), 1}, steps[3] = {1, 1, 1};
  const CUresult result =
      reinterpret_cast<Encode>(encode)(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, const_cast<void*>(plane), sizes,
                                       strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                       CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Where bytes lie before they are decoded; returns the size of shared memory.
template <int kDk, int kDv>
int place_raw(WideParams& p) {
  using S = WideShape<kDk, kDv>;
  for (const KvHeadLayout& l : {p.key_layout, p.value_layout})
    p.raw_bytes = std::max(p.raw_bytes, (S::kKeys * (l.row_bytes + l.n_scales * l.scale_bytes) + 127) / 128 * 128);
  p.n_raw = std::min(kMostRaw, (kMostShared - S::kRawAt) / p.raw_bytes);
  return S::kRawAt + p.n_raw * p.raw_bytes;
}

template <int kDk, int kDv, bool kDecodes>
cudaError_t launch_wide(const PrefillAttentionArgs& a, cudaStream_t stream) {
  WideParams p{};
  p.a = a;
  p.key_layout = kv_head_layout(a.type, kDk, static_cast<int>(a.page_size));
  p.value_layout = kv_head_layout(a.type, kDv, static_cast<int>(a.page_size));
  p.box_rows = a.page_size % 64 == 0 ? 64 : 16;
  const int n_bytes = kDecodes ? place_raw<kDk, kDv>(p) : WideShape<kDk, kDv>::kRawAt;
  const auto kernel = prefill_wide_kernel<kDk, kDv, kDecodes>;
  cudaError_t error = kDecodes ? cudaSuccess : map_plane(&p.keys, a.keys, kDk, p.box_rows);
  if (error == cudaSuccess && !kDecodes) error = map_plane(&p.values, a.values, kDv, p.box_rows);
  if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
  if (error != cudaSuccess) return error;
  const int64_t n_items = a.n_tokens * a.n_head_kv * (a.partials ? a.n_parts : 1),
                n_sms = device_attribute(cudaDevAttrMultiProcessorCount, 1);
  const auto grid = static_cast<unsigned>(std::min(n_items, n_sms));
  return launch_in_turn(kernel, grid, kGroupThreads + kWorkers, n_bytes, stream, p);
}

template <int kDk, int kDv, bool kDecodes>
constexpr Kernel wide_kernel_row() {
  return {kDk, kDv, 2 * kGroupRows, true, launch_wide<kDk, kDv, kDecodes>};
}

}  // namespace tokamak::cuda::prefill
