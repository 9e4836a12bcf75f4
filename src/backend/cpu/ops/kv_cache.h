// Paged storage of keys and values, laid out for the attention kernels.
//
// A page holds `page_size` slots of one layer; a slot is one token position: slot number = page * page_size + offset.
// Inside a page: [n_head_kv][page_size / 16] groups of 16 slots. One group is
//   keys    elements [head_dim][16]: one vector load gives one dimension of 16 keys
//   values  elements [16][dim_stride], dim_stride = head_dim rounded up to 16; the padding is 0
// q8_0 and f8_e4m3 store codes of a byte in that order, followed by scales: f16 for 32 dimensions of a slot each, or
// one f32 for the whole slot:
//   keys    scales [n_scales][16] behind the group's codes
//   values  scales [n_scales] behind each slot's codes
// Goals: no allocation after creation; pages behave alike wherever they lie. Non-goals: which page belongs to whom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "ir/limits.h"
#include "tensor/dtypes.h"

namespace tokamak::cpu {

enum class KvRole : uint8_t { keys, values };

inline constexpr int64_t kSlotGroup = 16;  // slots that share vectors
using ir::kMaxHeadDim;
inline constexpr int64_t kKvScaleDims = 32;  // dimensions per q8_0 scale

// Where everything lies; bytes unless said otherwise. Plain data, made by make_kv_layout.
struct KvLayout {
  KvRole role;
  DType type;  // of kCacheDTypes
  int64_t n_head_kv, head_dim, page_size;
  int64_t dim_stride;   // elements from one slot to the next in a value group
  int64_t n_scales;     // per slot; 0 where elements are numbers of their own
  int64_t scale_bytes;  // of one
  int64_t slot_bytes;   // of a value slot
  int64_t group_bytes;  // 16 slots of one head
  int64_t page_bytes;   // multiple of 64

  int64_t group_offset(int64_t page, int64_t head, int64_t group) const {
    return page * page_bytes + (head * (page_size / kSlotGroup) + group) * group_bytes;
  }
};

// Errors: bad_argument (page size no multiple of 16, empty or too wide heads), unsupported (type).
Result<KvLayout> make_kv_layout(KvRole role, DType type, int64_t n_head_kv, int64_t head_dim, int64_t page_size);

// The keys or the values of one layer, all pages; does not own them.
struct KvPlane {
  KvLayout layout = {};
  std::byte* pages = nullptr;  // 64-byte aligned
};

struct KvLayerDims {  // n_head_kv 0: nothing is stored for the layer
  int64_t n_head_kv, head_dim_k, head_dim_v;
};

// Owns the pages of all layers in one buffer. Not synchronised: distinct slots may be written by distinct threads.
class KvStorage {
 public:
  KvStorage() = default;
  // Errors: those of make_kv_layout, bad_argument (sizes overflow), out_of_memory. All pages start as zeros.
  static Result<KvStorage> create(std::span<const KvLayerDims> layers, int64_t n_pages, int64_t page_size, DType type,
                                  Backing backing = Backing::memory);

  const KvPlane& keys(size_t layer) const { return planes_[2 * layer]; }
  const KvPlane& values(size_t layer) const { return planes_[2 * layer + 1]; }
  size_t n_layers() const { return planes_.size() / 2; }
  int64_t n_pages() const { return n_pages_; }
  int64_t bytes_per_page() const;  // over all layers
  size_t n_bytes() const { return buffer_.size(); }

  // All layers; source and destination must differ (CHECKed), both below n_pages.
  void copy_page(int64_t from, int64_t to);
  void clear_page(int64_t page);
  // bytes_per_page() bytes (CHECKed), layer by layer, keys before values.
  void read_page(int64_t page, std::span<std::byte> out) const;
  void write_page(int64_t page, std::span<const std::byte> in);

 private:
  Buffer buffer_;
  std::vector<KvPlane> planes_;  // keys, values, keys, ...
  int64_t n_pages_ = 0;
};

// Values of one slot as f32, for tests and tools; out[head_dim].
void read_kv_slot(const KvPlane& plane, int64_t slot, int64_t head, float* out);

}  // namespace tokamak::cpu
