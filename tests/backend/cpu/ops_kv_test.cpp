// The paged cache: layouts, writes by every instruction set, fused writes, pages.
#include <algorithm>
#include <limits>

#include "backend/cpu/ops_test_util.h"
#include "base/e4m3.h"
#include "base/half.h"

namespace tokamak::cpu {
namespace {

KvStorage make_storage(std::vector<KvLayerDims> layers, int64_t n_pages, int64_t page_size, DType type) {
  auto storage = KvStorage::create(layers, n_pages, page_size, type);
  EXPECT_TRUE(storage.has_value()) << storage.error().message();
  return std::move(*storage);
}

// What a value becomes in the cache; `largest` = max |x| of the dimensions that share a scale.
float stored_value(DType type, float x, float largest) {
  if (type == DType::f32) return x;
  if (type == DType::f16) return f16_to_f32(f32_to_f16(x));
  if (type == DType::bf16) return bf16_to_f32(f32_to_bf16(x));
  if (type == DType::f8_e4m3)
    return largest / 448 * (largest == 0 ? 0 : f8_e4m3_to_f32(f32_to_f8_e4m3(x * (448 / largest))));
  const float d = largest / 127, inverse = d == 0 ? 0 : 1 / d;
  return f16_to_f32(f32_to_f16(d)) * std::nearbyint(x * inverse);
}

TEST(KvCache, RefusesImpossibleShapes) {
  const auto code = [](DType type, int64_t heads, int64_t dim, int64_t page) {
    return make_kv_layout(KvRole::keys, type, heads, dim, page).error().code;
  };
  EXPECT_EQ(code(DType::q4_0, 1, 64, 64), ErrorCode::unsupported);
  EXPECT_EQ(code(DType::f16, 0, 64, 64), ErrorCode::bad_argument);
  EXPECT_EQ(code(DType::f16, 1, 0, 64), ErrorCode::bad_argument);
  EXPECT_EQ(code(DType::f16, 1, kMaxHeadDim + 1, 64), ErrorCode::bad_argument);
  EXPECT_EQ(code(DType::f16, 1, 64, 24), ErrorCode::bad_argument);
  EXPECT_EQ(code(DType::f16, 1, 64, 0), ErrorCode::bad_argument);
  const std::vector<KvLayerDims> huge(1000, {65536, 1024, 1024});
  EXPECT_EQ(KvStorage::create(huge, INT32_MAX, 65536, DType::f32).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(KvStorage::create({}, -1, 64, DType::f16).error().code, ErrorCode::bad_argument);
}

TEST(KvCache, BytesPerPage) {
  const auto storage = make_storage({{3, 64, 64}, {1, 256, 256}}, 5, 64, DType::f16);
  EXPECT_EQ(storage.bytes_per_page(), 64 * 2 * 2 * (3 * 64 + 256));
  EXPECT_EQ(storage.n_bytes(), static_cast<size_t>(5 * storage.bytes_per_page()));
  EXPECT_EQ(storage.n_layers(), 2u);
  const auto q8 = make_storage({{1, 64, 64}}, 1, 16, DType::q8_0);
  EXPECT_EQ(q8.bytes_per_page(), 2 * 16 * (64 + 2 * 2));  // 8.5 bits
  const auto f8 = make_storage({{1, 64, 64}}, 1, 16, DType::f8_e4m3);
  EXPECT_EQ(f8.bytes_per_page(), 2 * 16 * (64 + 4));
}

struct WriteCase {
  DType type;
  int64_t head_dim, page_size;
};

TEST(KvCache, WritesReadBack) {
  const int64_t n_head_kv = 3;
  for (DType type : kCacheDTypes)
    for (int64_t head_dim : {64, 256, 16, 5, 40, 33})
      for (int64_t page_size : {16, 64}) {
        const int64_t stride = n_head_kv * head_dim + 3;
        const std::vector<int32_t> slots = {0, 1, static_cast<int32_t>(page_size) + 15,
                                            2 * static_cast<int32_t>(page_size) - 2, 7};
        auto x = random_floats(slots.size() * static_cast<size_t>(stride), 80);
        std::fill(x.begin() + head_dim, x.begin() + 2 * head_dim, 0.0f);  // token 0, head 1: a zero block
        for (KvRole role : {KvRole::keys, KvRole::values}) {
          std::vector<std::byte> first;
          for (Isa isa : usable_isas()) {
            auto storage = make_storage({{n_head_kv, head_dim, head_dim}}, 2, page_size, type);
            const KvPlane& plane = role == KvRole::keys ? storage.keys(0) : storage.values(0);
            const KvWriteArgs a{.plane = plane, .slots = slots.data(), .x = x.data(), .x_stride = stride};
            op_set(isa).kv_write(a, 4, 15);
            op_set(isa).kv_write(a, 0, 4);
            const std::vector<std::byte> bytes(plane.pages, plane.pages + 2 * plane.layout.page_bytes);
            if (first.empty()) first = bytes;
            ASSERT_TRUE(first == bytes) << isa_name(isa) << " " << dtype_name(type) << " " << head_dim;
            std::vector<float> row(static_cast<size_t>(head_dim));
            for (size_t t = 0; t < slots.size(); ++t)
              for (int64_t h = 0; h < n_head_kv; ++h) {
                read_kv_slot(plane, slots[t], h, row.data());
                const float* in = x.data() + static_cast<int64_t>(t) * stride + h * head_dim;
                for (int64_t d = 0; d < head_dim; ++d) {
                  float largest = 0;
                  const int64_t n = type == DType::f8_e4m3 ? head_dim : 32;  // dimensions that share a scale
                  for (int64_t i = d / n * n; i < std::min(head_dim, d / n * n + n); ++i)
                    largest = std::max(largest, std::fabs(in[i]));
                  ASSERT_EQ(row[static_cast<size_t>(d)], stored_value(type, in[d], largest))
                      << dtype_name(type) << " slot " << slots[t] << " head " << h << " dim " << d;
                }
              }
          }
        }
      }
}

TEST(KvCache, FusedWritesEqualTheirMembers) {
  const int64_t n_head_kv = 2, head_dim = 80, n_rot = 40, n = n_head_kv * head_dim;
  const std::vector<int32_t> slots = {3, 17, 30}, positions = {5, 900, 77};
  const auto x = random_floats(3 * n, 81), w = random_floats(head_dim, 82);
  for (RopePairing pairing : {RopePairing::norm, RopePairing::neox})
    for (bool with_norm : {false, true})
      for (Isa isa : usable_isas()) {
        const OpSet& ops = op_set(isa);
        const RopeTable table({.frequency = {.n_rot = n_rot, .theta = 10000}, .pairing = pairing}, {});
        std::vector<float> rows(3 * static_cast<size_t>(table.row_floats())), rotated(x.size());
        table.fill(positions, rows.data(), 0, 3);
        const float* weight = with_norm ? w.data() : nullptr;
        auto fused = make_storage({{n_head_kv, head_dim, head_dim}}, 2, 16, DType::f16);
        auto parts = make_storage({{n_head_kv, head_dim, head_dim}}, 2, 16, DType::f16);
        ops.kv_write({.plane = fused.keys(0),
                      .slots = slots.data(),
                      .x = x.data(),
                      .x_stride = n,
                      .rope_table = rows.data(),
                      .pairing = pairing,
                      .n_rot = n_rot,
                      .norm_weight = weight,
                      .eps = 1e-6f},
                     0, 3 * n_head_kv);
        ops.rope({.n_head = n_head_kv,
                  .head_dim = head_dim,
                  .pairing = pairing,
                  .n_rot = n_rot,
                  .table = rows.data(),
                  .norm_weight = weight,
                  .eps = 1e-6f,
                  .x = x.data(),
                  .x_stride = n,
                  .y = rotated.data(),
                  .y_stride = n},
                 0, 3 * n_head_kv);
        ops.kv_write({.plane = parts.keys(0), .slots = slots.data(), .x = rotated.data(), .x_stride = n}, 0,
                     3 * n_head_kv);
        EXPECT_EQ(std::memcmp(fused.keys(0).pages, parts.keys(0).pages,
                              2 * static_cast<size_t>(fused.keys(0).layout.page_bytes)),
                  0)
            << isa_name(isa);
      }
}

TEST(KvCache, CopyAndClearPages) {
  auto storage = make_storage({{1, 16, 8}, {2, 32, 32}}, 3, 16, DType::q8_0);
  const auto x = random_floats(16 * 64, 83);
  std::vector<int32_t> slots(16);
  for (int i = 0; i < 16; ++i) slots[static_cast<size_t>(i)] = 16 + i;  // page 1
  for (const KvPlane* plane : {&storage.keys(0), &storage.values(0), &storage.keys(1), &storage.values(1)})
    op_set(best_isa())
        .kv_write({.plane = *plane, .slots = slots.data(), .x = x.data(), .x_stride = 64}, 0,
                  16 * plane->layout.n_head_kv);
  storage.copy_page(1, 2);
  const auto same_pages = [](const KvPlane& p) {
    const auto n = static_cast<size_t>(p.layout.page_bytes);
    return std::memcmp(p.pages + n, p.pages + 2 * n, n) == 0;
  };
  EXPECT_TRUE(same_pages(storage.keys(0)) && same_pages(storage.values(1)));
  std::vector<std::byte> bytes(static_cast<size_t>(storage.bytes_per_page()));
  storage.read_page(1, bytes);
  storage.clear_page(2);
  EXPECT_FALSE(same_pages(storage.keys(0)));
  storage.write_page(2, bytes);
  for (const KvPlane* plane : {&storage.keys(0), &storage.values(0), &storage.keys(1), &storage.values(1)})
    EXPECT_TRUE(same_pages(*plane));
  storage.clear_page(1);
  EXPECT_FALSE(same_pages(storage.keys(0)) || same_pages(storage.values(0)) || same_pages(storage.keys(1)));
  std::vector<float> row(32);
  read_kv_slot(storage.keys(1), 20, 1, row.data());
  EXPECT_TRUE(std::all_of(row.begin(), row.end(), [](float v) { return v == 0; }));
  EXPECT_DEATH(storage.copy_page(1, 3), "from != to");
}

TEST(KvCache, ExtremeValues) {
  const float inf = std::numeric_limits<float>::infinity();
  for (Isa isa : usable_isas()) {
    auto storage = make_storage({{1, 8, 8}}, 1, 16, DType::f16);
    const std::vector<float> x = {65519, 65520, -1e30f, 1e-8f, -inf, 0, -0.0f, 5.9604645e-8f};
    const int32_t slot = 4;
    op_set(isa).kv_write({.plane = storage.values(0), .slots = &slot, .x = x.data(), .x_stride = 8}, 0, 1);
    std::vector<float> row(8);
    read_kv_slot(storage.values(0), slot, 0, row.data());
    EXPECT_EQ(row, (std::vector<float>{65504, inf, -inf, 0, -inf, 0, -0.0f, 5.9604645e-8f}));
    // A row of F8 with an infinity or NaN is NaN as a whole; the next one is not touched.
    auto f8 = make_storage({{1, 8, 8}}, 1, 16, DType::f8_e4m3);
    const std::vector<float> rows = {1, 2, -inf, 4, 5,   6,  7, 8,       1, NAN, 3, 4,
                                     5, 6, 7,    8, 448, -1, 0, 0x1p-6f, 0, 0,   0, 0};
    const std::vector<int32_t> slots = {4, 6, 5};
    for (const KvPlane* plane : {&f8.keys(0), &f8.values(0)}) {
      op_set(isa).kv_write({.plane = *plane, .slots = slots.data(), .x = rows.data(), .x_stride = 8}, 0, 3);
      for (int32_t broken : {4, 6}) {
        read_kv_slot(*plane, broken, 0, row.data());
        EXPECT_TRUE(std::all_of(row.begin(), row.end(), [](float v) { return std::isnan(v); }));
      }
      read_kv_slot(*plane, 5, 0, row.data());
      EXPECT_EQ(row, (std::vector<float>{448, -1, 0, 0x1p-6f, 0, 0, 0, 0}));
    }
  }
}

}  // namespace
}  // namespace tokamak::cpu
