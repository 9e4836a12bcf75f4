#include "backend/cuda/tables/packed_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/matvec/device_memory.h"
#include "backend/cuda/matvec/packed.h"
#include "backend/cuda/matvec/random_weights.h"
#include "backend/cuda/tables/element.h"
#include "quant/codec.h"

namespace tokamak::cuda {
namespace {

struct Table {
  int64_t n_rows, k;
  std::vector<std::byte> packed;
  std::vector<float> values;  // what the dequantizer says
};

Table make_table(DType dtype, int64_t n_rows, int64_t k) {
  const std::vector<std::byte> rows = tokamak::testing::random_rows(dtype, n_rows, k, 3);
  Table out{.n_rows = n_rows, .k = k, .packed = pack(dtype, rows, 1, n_rows, k), .values = {}};
  out.values.resize(static_cast<size_t>(n_rows * k));
  decode_row(dtype, rows.data(), n_rows * k, out.values.data());
  return out;
}

// IQ1 adds its shift of 1/8 to the code before scaling, the layout after: two roundings of numbers below 16 d against
// one. All other types do the same operations as the dequantizer.
bool is_exact(DType dtype) { return dtype != DType::iq1_s && dtype != DType::iq1_m; }

void expect_same(DType dtype, float value, float expected, int64_t row, int64_t col) {
  if (is_exact(dtype))
    ASSERT_EQ(value, expected) << dtype_name(dtype) << " row " << row << " column " << col;
  else
    ASSERT_NEAR(value, expected, 0x1p-20 * std::fabs(expected) + 1e-9)
        << dtype_name(dtype) << " row " << row << " column " << col;
}

// Rows of less than a slice, of one and a half, and row blocks that are not full.
TEST(PackedRows, ElementsAreThoseOfTheDequantizer) {
  for (const MatvecLayout& layout : matvec_layouts())
    for (const int64_t k : {512, 1536}) {
      const Table table = make_table(layout.dtype, 13, k);
      const auto compare = [&]<class P>(P) {
        const Geometry g = geometry_of<P>(table.n_rows, k);
        for (int64_t r = 0; r < table.n_rows; ++r)
          for (int64_t c = 0; c < k; ++c)
            expect_same(layout.dtype, packed_element<P>(reinterpret_cast<const uint8_t*>(table.packed.data()), g, r, c),
                        table.values[static_cast<size_t>(r * k + c)], r, c);
      };
      ASSERT_TRUE(with_packed_type(layout.dtype, compare)) << dtype_name(layout.dtype);
      ASSERT_FALSE(HasFatalFailure());
    }
}

TEST(PackedRows, GathersOnTheDevice) {
  REQUIRE_DEVICE();
  for (const MatvecLayout& layout : matvec_layouts()) {
    const int64_t k = 1536, y_stride = k + 8;
    const Table table = make_table(layout.dtype, 13, k);
    const std::vector<int32_t> ids = {12, 0, 7, -1, 7, 5, 11, -1};  // three per token, a fourth that nobody reads
    DeviceBytes packed(table.packed), device_ids(ids), y(static_cast<size_t>(6 * y_stride) * sizeof(float));
    const PackedRowsArgs args{.dtype = layout.dtype,
                              .table = packed.data(),
                              .n_table_rows = table.n_rows,
                              .ids = device_ids.as<int32_t>(),
                              .n_per_token = 3,
                              .ids_stride = 4,
                              .y = y.as<float>(),
                              .y_stride = y_stride,
                              .n_rows = 6,
                              .row_elems = k};
    ASSERT_EQ(launch_packed_rows(args, nullptr), cudaSuccess);
    const std::vector<float> out = y.read<float>();
    for (int64_t r = 0; r < 6; ++r) {
      const int64_t row = ids[static_cast<size_t>(r / 3 * 4 + r % 3)];
      for (int64_t c = 0; c < k; ++c)
        expect_same(layout.dtype, out[static_cast<size_t>(r * y_stride + c)],
                    table.values[static_cast<size_t>(row * k + c)], r, c);
      ASSERT_TRUE(std::isnan(out[static_cast<size_t>(r * y_stride + k)])) << "written behind row " << r;
    }
    ASSERT_FALSE(HasFatalFailure());
  }
}

}  // namespace
}  // namespace tokamak::cuda
