#include "backend/cuda/kv.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/attention/attention.h"
#include "base/check.h"
#include "base/round_up.h"

namespace tokamak::cuda {

namespace {
constexpr uint64_t kAlignment = 256;

struct TypeRow {
  DType dtype;
  KvType type;
};
constexpr TypeRow kTypes[] = {{DType::f32, KvType::f32},
                              {DType::f16, KvType::f16},
                              {DType::bf16, KvType::bf16},
                              {DType::q8_0, KvType::q8_0},
                              {DType::f8_e4m3, KvType::f8}};

Result<KvType> type_of(DType dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.type;
  return Error{.code = ErrorCode::unsupported,
               .what = fmt::format("the cuda backend does not keep keys and values as {}", dtype_name(dtype)),
               .where = "cache type",
               .hint = "use f16"};
}

Result<void> check_layer(const KvLayerShape& layer, KvType type) {
  if (layer.n_head_kv == 0) return {};
  const int64_t widest = std::max(layer.head_dim_k, layer.head_dim_v);
  if (widest > kMaxHeadDims)
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("the cuda backend has no attention for heads of {} dimensions", widest),
                 .where = "KV cache",
                 .hint = "--allow-fallback runs such layers on the CPU"};
  if (type == KvType::q8_0 && (layer.head_dim_k % kKvScaleDims != 0 || layer.head_dim_v % kKvScaleDims != 0))
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("heads of {} and {} dimensions are no whole Q8_0 blocks", layer.head_dim_k,
                                     layer.head_dim_v),
                 .where = "cache type",
                 .hint = "use f16"};
  return {};
}
}  // namespace

Result<std::unique_ptr<CudaKv>> CudaKv::create(const KvConfig& config, Device& device) {
  auto kv = std::make_unique<CudaKv>(device);
  kv->config_ = config;
  if (std::ranges::any_of(config.layers, [](const KvLayerShape& l) { return l.n_head_kv > 0; }))
    kv->type_ = TRY(type_of(config.type));
  for (const KvLayerShape& layer : config.layers) TRY(check_layer(layer, kv->type_));
  uint64_t total = 0;
  for (const KvLayerShape& layer : config.layers)
    for (int64_t dim : {layer.head_dim_k, layer.head_dim_v}) {
      const KvHeadLayout layout = kv_head_layout(kv->type_, static_cast<int>(dim), static_cast<int>(config.page_size));
      const auto page = static_cast<uint64_t>(layer.n_head_kv * layout.head_page_bytes);
      kv->planes_.push_back({.page_bytes = page});
      kv->page_bytes_ += page;
      total += round_up(page * static_cast<uint64_t>(config.n_pages), kAlignment);
    }
  kv->cache_ = TRY(device.allocate("kv cache", total));
  std::byte* at = kv->cache_.data();
  for (Plane& plane : kv->planes_) {
    plane.data = at;
    at += round_up(plane.page_bytes * static_cast<uint64_t>(config.n_pages), kAlignment);
  }
  const auto floats = static_cast<uint64_t>(state_row_floats(config) * config.n_state_rows);
  kv->states_ = TRY(device.allocate("recurrent states", floats * sizeof(float)));
  return kv;
}

std::vector<MemoryUse> CudaKv::memory() const {
  std::vector<MemoryUse> out = {{.what = "kv cache on the GPU", .n_bytes = cache_.size(), .device = "GPU"}};
  if (states_.size() > 0)
    out.push_back({.what = "recurrent states on the GPU", .n_bytes = states_.size(), .device = "GPU"});
  out.push_back({.what = "activations on the GPU", .n_bytes = workspace_.device_bytes(), .device = "GPU"});
  out.push_back({.what = "captured graphs on the GPU", .n_bytes = workspace_.graph_bytes(), .device = "GPU"});
  out.push_back({.what = "inputs and outputs of steps, pinned", .n_bytes = workspace_.host_bytes()});
  return out;
}

float* CudaKv::states(ir::StateRole role, int32_t layer_idx) const {
  CHECK(role == ir::StateRole::conv || role == ir::StateRole::recurrent);
  auto* at = reinterpret_cast<float*>(states_.data());
  for (int32_t i = 0; i < layer_idx; ++i) {
    const RecurrentLayerShape& layer = config_.recurrent[static_cast<size_t>(i)];
    at += (layer.conv_elems + layer.recurrent_elems) * config_.n_state_rows;
  }
  if (role == ir::StateRole::recurrent)
    at += config_.recurrent[static_cast<size_t>(layer_idx)].conv_elems * config_.n_state_rows;
  return at;
}

template <class Fn>
void CudaKv::for_each_state(int64_t row, Fn fn) const {
  auto* at = reinterpret_cast<float*>(states_.data());
  for (const RecurrentLayerShape& layer : config_.recurrent)
    for (int64_t elems : {layer.conv_elems, layer.recurrent_elems}) {
      fn(at + row * elems, elems);
      at += elems * config_.n_state_rows;
    }
}

void CudaKv::read_states(int64_t row, std::span<float> out) const {
  device_.enter();
  float* to = out.data();
  for_each_state(row, [&](const float* from, int64_t n) {
    device_.note(
        cudaMemcpyAsync(to, from, static_cast<size_t>(n) * sizeof(float), cudaMemcpyDeviceToHost, device_.stream()));
    to += n;
  });
  device_.note(cudaStreamSynchronize(device_.stream()));
}

void CudaKv::write_states(int64_t row, std::span<const float> in) {
  device_.enter();
  const float* from = in.data();
  for_each_state(row, [&](float* to, int64_t n) {
    device_.note(
        cudaMemcpyAsync(to, from, static_cast<size_t>(n) * sizeof(float), cudaMemcpyHostToDevice, device_.stream()));
    from += n;
  });
  device_.note(cudaStreamSynchronize(device_.stream()));
}

void CudaKv::copy_page(int64_t from, int64_t to) {
  device_.enter();
  CHECK(from != to, from);
  for (const Plane& plane : planes_)
    device_.note(cudaMemcpyAsync(plane.data + static_cast<uint64_t>(to) * plane.page_bytes,
                                 plane.data + static_cast<uint64_t>(from) * plane.page_bytes, plane.page_bytes,
                                 cudaMemcpyDeviceToDevice, device_.stream()));
}

void CudaKv::read_page(int64_t page, std::span<std::byte> out) const {
  device_.enter();
  CHECK(out.size() == page_bytes_, out.size());
  std::byte* to = out.data();
  for (const Plane& plane : planes_) {
    device_.note(cudaMemcpyAsync(to, plane.data + static_cast<uint64_t>(page) * plane.page_bytes, plane.page_bytes,
                                 cudaMemcpyDeviceToHost, device_.stream()));
    to += plane.page_bytes;
  }
  device_.note(cudaStreamSynchronize(device_.stream()));
}

void CudaKv::write_page(int64_t page, std::span<const std::byte> in) {
  device_.enter();
  CHECK(in.size() == page_bytes_, in.size());
  const std::byte* from = in.data();
  for (const Plane& plane : planes_) {
    device_.note(cudaMemcpyAsync(plane.data + static_cast<uint64_t>(page) * plane.page_bytes, from, plane.page_bytes,
                                 cudaMemcpyHostToDevice, device_.stream()));
    from += plane.page_bytes;
  }
  device_.note(cudaStreamSynchronize(device_.stream()));
}

}  // namespace tokamak::cuda
