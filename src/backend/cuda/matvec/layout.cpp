#include "backend/cuda/matvec/layout.h"

#include <bit>
#include <cmath>
#include <vector>

#include "backend/cuda/matvec/pack_types.h"
#include "base/check.h"

namespace tokamak::cuda {

namespace {

// A unit of 16 elements, of which n remain in the row.
template <class P, class Element, int n_parts>
struct PackPlain {
  using Type = P;
  using Block = Element;
  static constexpr int kBlockElems = 1;
  static void unit(const std::byte* in, int64_t n, const UnitOut<P>& out) {
    uint32_t w[4 * n_parts] = {};
    std::memcpy(w, in, static_cast<size_t>(n < P::kUnit ? n : P::kUnit) * sizeof(Element));
    for (int i = 0; i < 4 * n_parts; ++i) out.template put_row_word<0, 4>(i % 4, w[i], i / 4, n_parts);
  }
};

std::vector<MatvecLayout> make_layouts() {
  std::vector<MatvecLayout> layouts;
  add_plain_layouts(layouts);
  add_nibble_layouts(layouts);
  add_k_layouts(layouts);
  add_grid_layouts(layouts);
  return layouts;
}

}  // namespace

void add_plain_layouts(std::vector<MatvecLayout>& layouts) {
  layouts.push_back(layout_of<PackPlain<F32, float, 4>>(DType::f32, "matvec_f32"));
  layouts.push_back(layout_of<PackPlain<F16, uint16_t, 2>>(DType::f16, "matvec_f16"));
  layouts.push_back(layout_of<PackPlain<BF16, uint16_t, 2>>(DType::bf16, "matvec_bf16"));
}

std::span<const MatvecLayout> matvec_layouts() {
  static const std::vector<MatvecLayout> layouts = make_layouts();
  return layouts;
}

const MatvecLayout* find_matvec_layout(DType dtype) {
  for (const MatvecLayout& layout : matvec_layouts())
    if (layout.dtype == dtype) return &layout;
  return nullptr;
}

uint64_t packed_bytes(DType dtype, int64_t n_matrices, int64_t n_rows, int64_t k) {
  const MatvecLayout* layout = find_matvec_layout(dtype);
  CHECK(layout && k % dtype_row(dtype).block_elems == 0, static_cast<int>(dtype), k);
  return layout->packed_bytes(n_matrices, n_rows, k);
}

void pack_matrices(DType dtype, const PackMatricesTask& task) {
  const MatvecLayout* layout = find_matvec_layout(dtype);
  CHECK(layout && task.k % dtype_row(dtype).block_elems == 0, static_cast<int>(dtype), task.k);
  layout->pack(task);
}

ActivationForm activation_of(DType dtype) {
  const MatvecLayout* layout = find_matvec_layout(dtype);
  CHECK(layout, static_cast<int>(dtype));
  return layout->activations;
}

void quantize_q8_column(const float* x, int64_t k, std::byte* out, bool low) {
  std::byte* rest = out + q8_low_offset(k);
  const auto add_to = [](int16_t& sum, int code) { sum = static_cast<int16_t>(sum + code); };
  for (int64_t first = 0; first < k; first += 32) {
    uint32_t largest = 0;  // bits of max |x|: infinities and NaN win
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[first + i]) & 0x7FFFFFFFu);
    const Q8Scale scale = q8_scale(std::bit_cast<float>(largest));
    GroupQ8 group{scale.d, 0, 0};
    GroupLow low_group{0, 0};
    for (int i = 0; i < 32; ++i) {
      const float value = scale.inverse == 0.0f ? 0.0f : x[first + i];
      const float code = std::nearbyint(value * scale.inverse);
      const float low_code = std::nearbyint(q8_low(value, scale.inverse, code));
      out[first + i] = static_cast<std::byte>(static_cast<int8_t>(code));
      add_to(i < 16 ? group.s0 : group.s1, static_cast<int>(code));
      if (!low) continue;
      rest[first + i] = static_cast<std::byte>(static_cast<int8_t>(low_code));
      add_to(i < 16 ? low_group.s0 : low_group.s1, static_cast<int>(low_code));
    }
    std::memcpy(out + k + first / 32 * static_cast<int64_t>(sizeof group), &group, sizeof group);
    if (low) std::memcpy(rest + k + first / 32 * static_cast<int64_t>(sizeof low_group), &low_group, sizeof low_group);
  }
}

}  // namespace tokamak::cuda
