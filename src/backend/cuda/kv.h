// The paged keys and values (attention/layout.h has their layout), recurrent states and workspace of one session on a
// device.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention/chunks.h"
#include "backend/cuda/device.h"
#include "backend/cuda/workspace.h"

namespace tokamak::cuda {

class CudaKv : public KvCache {
 public:
  // Errors: unsupported (cache type, heads that are too wide), out_of_memory.
  static Result<std::unique_ptr<CudaKv>> create(const KvConfig& config, Device& device);
  explicit CudaKv(Device& device) : device_(device), workspace_(device) {}

  const KvConfig& config() const override { return config_; }
  std::vector<MemoryUse> memory() const override;
  void read_states(int64_t row, std::span<float> out) const override;
  void write_states(int64_t row, std::span<const float> in) override;
  uint64_t page_bytes() const override { return page_bytes_; }
  void copy_page(int64_t from, int64_t to) override;
  void read_page(int64_t page, std::span<std::byte> out) const override;
  void write_page(int64_t page, std::span<const std::byte> in) override;
  std::string page_layout() const override { return "GPU"; }

  std::byte* keys(int32_t layer_idx) const { return planes_[2 * static_cast<size_t>(layer_idx)].data; }
  std::byte* values(int32_t layer_idx) const { return planes_[2 * static_cast<size_t>(layer_idx) + 1].data; }
  // f32 [n_state_rows, elems of the layer's state of this role].
  float* states(ir::StateRole role, int32_t layer_idx) const;
  KvType type() const { return type_; }
  Workspace& workspace() { return workspace_; }
  Device& device() const { return device_; }

 private:
  struct Plane {
    std::byte* data = nullptr;
    uint64_t page_bytes = 0;
  };
  // fn(device address, floats) for every state of a row, in the order of read_states.
  template <class Fn>
  void for_each_state(int64_t row, Fn fn) const;

  Device& device_;
  KvConfig config_;
  KvType type_ = KvType::f16;
  DeviceBuffer cache_, states_;
  std::vector<Plane> planes_;  // keys, values, keys, ...
  uint64_t page_bytes_ = 0;
  Workspace workspace_;
};

}  // namespace tokamak::cuda
