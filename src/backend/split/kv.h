// The caches of the children as one: each holds its own layers only.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/buffer.h"

namespace tokamak::split {

class SplitKv : public KvCache {
 public:
  // state_children: by layer. Errors: those of the children.
  static Result<std::unique_ptr<SplitKv>> create(const KvConfig& config, std::span<const size_t> state_children,
                                                 std::span<const std::unique_ptr<Backend>> children,
                                                 std::span<const std::string> devices);

  const KvConfig& config() const override { return config_; }
  std::vector<MemoryUse> memory() const override;
  void read_states(int64_t row, std::span<float> out) const override;
  void write_states(int64_t row, std::span<const float> in) override;
  uint64_t page_bytes() const override;
  void copy_page(int64_t from, int64_t to) override;
  // The children's pages one behind the other.
  void read_page(int64_t page, std::span<std::byte> out) const override;
  void write_page(int64_t page, std::span<const std::byte> in) override;
  std::string page_layout() const override;

  KvCache& child(size_t child_idx) { return *parts_[child_idx]; }
  // Grows the host memory that all programs pass values through, one program at a time; they keep offsets.
  Result<void> reserve_boundary(uint64_t n_bytes);
  std::byte* boundary() { return boundary_.data(); }

 private:
  // fn(layer's child, its first float in the child's row, its first float in the whole row, floats).
  template <class Fn>
  void for_each_layer(Fn fn) const;

  KvConfig config_;
  std::vector<size_t> state_children_;
  std::vector<std::string> devices_;             // by child
  std::vector<std::unique_ptr<KvCache>> parts_;  // by child
  Buffer boundary_;
};

// "weights, packed (CPU)": the same ledger line of several devices. Lines of a device's own memory become those of
// `device`.
void append_named(std::vector<MemoryUse>& out, std::vector<MemoryUse> part, std::string_view device);

}  // namespace tokamak::split
