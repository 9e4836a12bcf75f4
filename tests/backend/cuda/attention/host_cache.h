// A cache plane on the host, as layout.h has it, with random contents.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "backend/cuda/attention/layout.h"
#include "base/half.h"

namespace tokamak::cuda {

class HostRandom {
 public:
  explicit HostRandom(uint64_t seed) : engine_(seed) {}
  float next(float largest) { return std::uniform_real_distribution<float>(-largest, largest)(engine_); }
  uint8_t byte() { return static_cast<uint8_t>(engine_() >> 20); }
  std::vector<float> floats(size_t n, float largest) {
    std::vector<float> out(n);
    for (float& x : out) x = next(largest);
    return out;
  }

 private:
  std::mt19937_64 engine_;
};

inline double decode_e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double size = exponent == 0 ? mantissa * 0x1p-9 : (8 + mantissa) * static_cast<double>(1 << exponent) * 0x1p-10;
  return code & 0x80 ? -size : size;
}

struct HostCache {
  KvHeadLayout layout;
  int64_t n_head_kv;
  std::vector<uint8_t> bytes;

  HostCache(KvType type, int64_t head_dim, int page_size, int64_t heads)
      : layout(kv_head_layout(type, static_cast<int>(head_dim), page_size)), n_head_kv(heads) {}
  // Everything NaN.
  void resize(int n_pages) { bytes.assign(static_cast<size_t>(n_pages * n_head_kv * layout.head_page_bytes), 0xFF); }

  void fill(int page, int head, int slot, HostRandom& random, float largest) {
    uint8_t* at = bytes.data() + layout.head_page_offset(page, head, n_head_kv);
    for (int i = 0; i < layout.n_scales; ++i) {
      if (layout.type == KvType::q8_0)
        put(at + layout.scale_offset(slot, i), f32_to_f16(std::abs(random.next(largest)) / 127));
      else
        put(at + layout.scale_offset(slot, i), std::abs(random.next(largest)) / kF8Largest);
    }
    for (int d = 0; d < layout.head_dim; ++d) {
      uint8_t* to = at + layout.elem_offset(slot, d);
      const float x = random.next(largest);
      if (layout.type == KvType::f32) put(to, x);
      if (layout.type == KvType::f16) put(to, f32_to_f16(x));
      if (layout.type == KvType::bf16) put(to, f32_to_bf16(x));
      if (layout.type == KvType::q8_0) put(to, random.byte());
      if (layout.type == KvType::f8) {
        const uint8_t code = random.byte();
        put(to, static_cast<uint8_t>((code & 0x7F) == 0x7F ? 0 : code));  // not NaN
      }
    }
  }

  std::vector<double> row(int page, int head, int slot) const {
    const uint8_t* at = bytes.data() + layout.head_page_offset(page, head, n_head_kv);
    std::vector<double> out;
    for (int d = 0; d < layout.head_dim; ++d) {
      const uint8_t* from = at + layout.elem_offset(slot, d);
      if (layout.type == KvType::f32) out.push_back(get<float>(from));
      if (layout.type == KvType::f16) out.push_back(f16_to_f32(get<uint16_t>(from)));
      if (layout.type == KvType::bf16) out.push_back(bf16_to_f32(get<uint16_t>(from)));
      if (layout.type == KvType::q8_0)
        out.push_back((*from - kQ8Bias) *
                      double{f16_to_f32(get<uint16_t>(at + layout.scale_offset(slot, d / kKvScaleDims)))});
      if (layout.type == KvType::f8) out.push_back(decode_e4m3(*from) * get<float>(at + layout.scale_offset(slot, 0)));
    }
    return out;
  }

 private:
  template <class T>
  static void put(uint8_t* to, T x) {
    std::memcpy(to, &x, sizeof(T));
  }
  template <class T>
  static T get(const uint8_t* from) {
    T x;
    std::memcpy(&x, from, sizeof(T));
    return x;
  }
};

}  // namespace tokamak::cuda
