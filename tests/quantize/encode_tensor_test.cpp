#include "quantize/encode_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "quant/codec.h"
#include "quantize/model_helpers.h"

namespace tokamak {
namespace {
using test::random_floats;
using testing::HasSubstr;

struct F32Tensor {
  F32Tensor(const Shape& shape, uint32_t seed) : values(random_floats(static_cast<size_t>(shape.n_elements()), seed)) {
    tensor = {.name = "w", .type = DType::f32, .shape = shape, .n_bytes = values.size() * 4};
    tensor.data = std::as_bytes(std::span(values));
  }
  std::vector<float> values;
  GgufTensor tensor;
};

struct Collected {
  std::vector<std::byte> bytes;
  GgufWriter::Sink sink() {
    return [this](std::span<const std::byte> piece) -> Result<void> {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return {};
    };
  }
};

TEST(EncodeTensor, EqualsEncodingRowByRowForAnyNumberOfThreads) {
  const F32Tensor w(Shape{2, 3000, 1024}, 1);  // two chunks, experts
  const std::vector<float> importance = [] {
    std::vector<float> x = random_floats(2 * 1024, 2);
    for (float& v : x) v = std::fabs(v);
    return x;
  }();
  std::vector<std::byte> expected(dtype_bytes(DType::q4_0, w.values.size()));
  for (int64_t row = 0; row < 6000; ++row)
    ASSERT_TRUE(encode_row(DType::q4_0, w.values.data() + row * 1024, 1024, importance.data() + row / 3000 * 1024,
                           expected.data() + row * 576));
  for (int n_threads : {1, 3}) {
    const auto pool = *ThreadPool::create(n_threads);
    TensorEncoder encoder(*pool);
    Collected out;
    int64_t n_done = 0;
    ASSERT_TRUE(encoder.encode({&w.tensor, DType::q4_0, importance, {}}, out.sink(), [&](int64_t n) {
      n_done += n;
      return true;
    }));
    EXPECT_EQ(out.bytes, expected) << n_threads;
    EXPECT_EQ(n_done, w.tensor.shape.n_elements());
  }
}

TEST(EncodeTensor, FactorsScaleEachMatrix) {
  const F32Tensor w(Shape{2, 4, 32}, 3);
  const std::vector<float> factors = {2, -0.5};
  const auto pool = *ThreadPool::create(2);
  TensorEncoder encoder(*pool);
  Collected out;
  ASSERT_TRUE(encoder.encode({&w.tensor, DType::f32, {}, factors}, out.sink(), {}));
  std::vector<float> got(w.values.size());
  std::memcpy(got.data(), out.bytes.data(), out.bytes.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], w.values[i] * (i < 128 ? 2.0f : -0.5f));
}

TEST(EncodeTensor, NamesTensorAndRowOfANan) {
  F32Tensor w(Shape{5000, 64}, 4);
  w.values[4321 * 64 + 7] = NAN;
  w.values[4700 * 64] = INFINITY;
  const auto pool = *ThreadPool::create(3);
  TensorEncoder encoder(*pool);
  Collected out;
  const auto encoded = encoder.encode({&w.tensor, DType::q8_0, {}, {}}, out.sink(), {});
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code, ErrorCode::bad_tensor);
  EXPECT_THAT(encoded.error().message(), HasSubstr("tensor w, row 4321: element 7 is nan"));
  const auto copied = encoder.copy(w.tensor, out.sink(), {});
  ASSERT_FALSE(copied);
  EXPECT_THAT(copied.error().message(), HasSubstr("tensor w (F32), row 4321"));
  const auto largest = encoder.largest(w.tensor, {});
  EXPECT_THAT(largest.error().message(), HasSubstr("tensor w, row 4321"));
}

TEST(EncodeTensor, LargestIsPerMatrix) {
  F32Tensor w(Shape{2, 300, 64}, 5);
  w.values[10] = -9;
  w.values[300 * 64 + 77] = 11;
  const auto pool = *ThreadPool::create(2);
  TensorEncoder encoder(*pool);
  EXPECT_THAT(*encoder.largest(w.tensor, {}), testing::ElementsAre(9, 11));
}

TEST(EncodeTensor, StopsWhenTold) {
  const F32Tensor w(Shape{5000, 1024}, 6);
  const auto pool = *ThreadPool::create(2);
  TensorEncoder encoder(*pool);
  Collected out;
  const auto stopped = encoder.encode({&w.tensor, DType::q8_0, {}, {}}, out.sink(), [](int64_t) { return false; });
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  const auto full = encoder.encode({&w.tensor, DType::q8_0, {}, {}},
                                   [](std::span<const std::byte>) -> Result<void> {
                                     return Error{.code = ErrorCode::no_space, .what = "full", .where = "disk"};
                                   },
                                   {});
  EXPECT_EQ(full.error().code, ErrorCode::no_space);
}

}  // namespace
}  // namespace tokamak
