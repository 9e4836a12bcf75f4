#include "backend/cpu/ops/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/e4m3.h"
#include "base/half.h"
#include "base/round_up.h"

namespace tokamak::cpu {

namespace {
constexpr int64_t kAlign = 64;

int64_t element_bytes(DType type) { return type == DType::q8_0 ? 1 : dtype_row(type).block_bytes; }

template <class T>
T read_as(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
}  // namespace

Result<KvLayout> make_kv_layout(KvRole role, DType type, int64_t n_head_kv, int64_t head_dim, int64_t page_size) {
  if (std::ranges::find(kCacheDTypes, type) == std::end(kCacheDTypes))
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("cannot hold {}", dtype_name(type)),
                 .where = "KV cache",
                 .hint = "use f16"};
  if (n_head_kv < 1 || n_head_kv > 65536 || head_dim < 1 || head_dim > kMaxHeadDim || page_size < kSlotGroup ||
      page_size > 65536 || page_size % kSlotGroup != 0)
    return Error{
        .code = ErrorCode::bad_argument,
        .what = fmt::format("{} KV heads of {} dimensions in pages of {} slots", n_head_kv, head_dim, page_size),
        .where = "KV cache",
        .hint = fmt::format("heads have 1 to {} dimensions, pages a multiple of 16 slots", kMaxHeadDim)};
  KvLayout l{.role = role, .type = type, .n_head_kv = n_head_kv, .head_dim = head_dim, .page_size = page_size};
  l.dim_stride = round_up(head_dim, kSlotGroup);
  l.n_scales = type == DType::q8_0 ? div_round_up(head_dim, kKvScaleDims) : type == DType::f8_e4m3 ? 1 : 0;
  l.scale_bytes = type == DType::f8_e4m3 ? sizeof(float) : sizeof(uint16_t);
  const int64_t scales = l.n_scales * l.scale_bytes;
  l.slot_bytes = l.dim_stride * element_bytes(type) + scales;
  l.group_bytes = kSlotGroup * (role == KvRole::keys ? head_dim * element_bytes(type) + scales : l.slot_bytes);
  l.page_bytes = round_up(n_head_kv * (page_size / kSlotGroup) * l.group_bytes, kAlign);
  return l;
}

Result<KvStorage> KvStorage::create(std::span<const KvLayerDims> layers, int64_t n_pages, int64_t page_size, DType type,
                                    Backing backing) {
  KvStorage storage;
  storage.n_pages_ = n_pages;
  if (n_pages < 0 || n_pages > INT32_MAX)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("{} pages asked for", n_pages),
                 .where = "KV cache",
                 .hint = "use a smaller context"};
  for (const KvLayerDims& dims : layers) {
    if (dims.n_head_kv == 0) {  // a layer without attention
      storage.planes_.resize(storage.planes_.size() + 2);
      continue;
    }
    storage.planes_.push_back({TRY(make_kv_layout(KvRole::keys, type, dims.n_head_kv, dims.head_dim_k, page_size))});
    storage.planes_.push_back({TRY(make_kv_layout(KvRole::values, type, dims.n_head_kv, dims.head_dim_v, page_size))});
  }
  uint64_t n_bytes = 0;
  for (const KvPlane& plane : storage.planes_) {
    uint64_t plane_bytes = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(plane.layout.page_bytes), static_cast<uint64_t>(n_pages),
                               &plane_bytes) ||
        __builtin_add_overflow(n_bytes, plane_bytes, &n_bytes))
      return Error{.code = ErrorCode::bad_argument,
                   .what = "the size in bytes does not fit 64 bits",
                   .where = "KV cache",
                   .hint = "use a smaller context"};
  }
  storage.buffer_ = TRY(Buffer::allocate(n_bytes, backing));
  std::byte* at = storage.buffer_.data();
  for (KvPlane& plane : storage.planes_) {
    plane.pages = at;
    at += plane.layout.page_bytes * n_pages;
  }
  return storage;
}

int64_t KvStorage::bytes_per_page() const {
  int64_t n_bytes = 0;
  for (const KvPlane& plane : planes_) n_bytes += plane.layout.page_bytes;
  return n_bytes;
}

void KvStorage::copy_page(int64_t from, int64_t to) {
  CHECK(from != to && from >= 0 && to >= 0 && from < n_pages_ && to < n_pages_, from, to, n_pages_);
  for (const KvPlane& plane : planes_) {
    const int64_t n = plane.layout.page_bytes;
    if (n > 0) std::memcpy(plane.pages + to * n, plane.pages + from * n, static_cast<size_t>(n));
  }
}

void KvStorage::clear_page(int64_t page) {
  CHECK(page >= 0 && page < n_pages_, page, n_pages_);
  for (const KvPlane& plane : planes_) {
    const int64_t n = plane.layout.page_bytes;
    if (n > 0) std::memset(plane.pages + page * n, 0, static_cast<size_t>(n));
  }
}

void KvStorage::read_page(int64_t page, std::span<std::byte> out) const {
  CHECK(page >= 0 && page < n_pages_ && std::ssize(out) == bytes_per_page(), page, n_pages_, out.size());
  std::byte* to = out.data();
  for (const KvPlane& plane : planes_) {
    const int64_t n = plane.layout.page_bytes;
    if (n > 0) std::memcpy(to, plane.pages + page * n, static_cast<size_t>(n));
    to += n;
  }
}

void KvStorage::write_page(int64_t page, std::span<const std::byte> in) {
  CHECK(page >= 0 && page < n_pages_ && std::ssize(in) == bytes_per_page(), page, n_pages_, in.size());
  const std::byte* from = in.data();
  for (const KvPlane& plane : planes_) {
    const int64_t n = plane.layout.page_bytes;
    if (n > 0) std::memcpy(plane.pages + page * n, from, static_cast<size_t>(n));
    from += n;
  }
}

void read_kv_slot(const KvPlane& plane, int64_t slot, int64_t head, float* out) {
  const KvLayout& l = plane.layout;
  const int64_t offset = slot % l.page_size, lane = offset % kSlotGroup;
  const std::byte* group = plane.pages + l.group_offset(slot / l.page_size, head, offset / kSlotGroup);
  const int64_t size = element_bytes(l.type);
  const bool keys = l.role == KvRole::keys;
  for (int64_t d = 0; d < l.head_dim; ++d) {
    const std::byte* p = group + (keys ? (d * kSlotGroup + lane) * size : lane * l.slot_bytes + d * size);
    if (l.type == DType::f32) {
      out[d] = read_as<float>(p);
    } else if (l.type == DType::f16) {
      out[d] = f16_to_f32(read_as<uint16_t>(p));
    } else if (l.type == DType::bf16) {
      out[d] = bf16_to_f32(read_as<uint16_t>(p));
    } else {
      const int64_t block = l.n_scales == 1 ? 0 : d / kKvScaleDims;
      const std::byte* scale = keys ? group + l.head_dim * kSlotGroup + l.scale_bytes * (block * kSlotGroup + lane)
                                    : group + lane * l.slot_bytes + l.dim_stride + l.scale_bytes * block;
      out[d] = l.type == DType::q8_0 ? f16_to_f32(read_as<uint16_t>(scale)) * static_cast<float>(read_as<int8_t>(p))
                                     : read_as<float>(scale) * f8_e4m3_to_f32(read_as<uint8_t>(p));
    }
  }
}

}  // namespace tokamak::cpu
