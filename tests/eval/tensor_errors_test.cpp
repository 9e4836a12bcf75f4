#include "eval/tensor_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>

#include "eval/eval_helpers.h"
#include "eval/tensor_plot.h"
#include "gguf/writer.h"
#include "quant/codec.h"

namespace tokamak {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct TestTensor {
  std::string name;
  DType type;
  Shape shape;
  std::vector<float> values;
};

GgufFile file_of(const std::vector<TestTensor>& tensors, std::string_view name) {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  std::deque<std::vector<std::byte>> data;
  for (const TestTensor& tensor : tensors) {
    auto& bytes = data.emplace_back(dtype_bytes(tensor.type, tensor.values.size()));
    EXPECT_TRUE(encode_row(tensor.type, tensor.values.data(), static_cast<int64_t>(tensor.values.size()), nullptr,
                           bytes.data()));
    writer.add_tensor(tensor.name, tensor.type, tensor.shape, bytes);
  }
  const auto path = test::scratch_file(name);
  EXPECT_TRUE(writer.write(path));
  auto file = GgufFile::open(path);
  EXPECT_TRUE(file) << file.error().message();
  return std::move(*file);
}

std::vector<float> wave(size_t n, float scale = 1) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = scale * std::sin(0.7f * static_cast<float>(i * i % 101));
  return out;
}

std::vector<TestTensor> tensors_of(DType type) {
  return {{"blk.10.ffn_up.weight", type, {2, 64}, wave(128)},
          {"blk.2.attn_q.weight", type, {3, 64}, wave(192, 3)},
          {"blk.2.attn_norm.weight", DType::f32, {64}, wave(64)},
          {"token_embd.weight", DType::f16, {5, 64}, wave(320)}};
}

TEST(TensorErrors, AreThoseOfTheDecodedValues) {
  const auto got = compare_tensors(file_of(tensors_of(DType::q4_0), "q.gguf"),
                                   file_of(tensors_of(DType::f32), "b.gguf"), {.n_threads = 3});
  ASSERT_TRUE(got) << got.error().message();
  ASSERT_EQ(got->size(), 3u);
  const TensorError& q = (*got)[1];
  EXPECT_EQ((*got)[0].name, "token_embd.weight");
  EXPECT_EQ((*got)[0].layer_idx, -1);
  EXPECT_EQ((*got)[0].role, "token_embd");
  EXPECT_EQ(q.name, "blk.2.attn_q.weight");
  EXPECT_EQ(q.layer_idx, 2);
  EXPECT_EQ(q.role, "attn_q");
  EXPECT_EQ((*got)[2].layer_idx, 10);
  EXPECT_EQ(q.type, DType::q4_0);
  EXPECT_EQ(q.base_type, DType::f32);
  EXPECT_EQ(q.bits_per_weight(), 4.5);
  EXPECT_FALSE(q.has_importance);

  const std::vector<float> x = wave(192, 3);
  std::vector<std::byte> bytes(dtype_bytes(DType::q4_0, x.size()));
  ASSERT_TRUE(encode_row(DType::q4_0, x.data(), 192, nullptr, bytes.data()));
  std::vector<float> y(x.size());
  decode_row(DType::q4_0, bytes.data(), 192, y.data());
  double error = 0, total = 0, highest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = double{y[i]} - double{x[i]};
    error += d * d;
    total += double{x[i]} * double{x[i]};
    highest = std::max(highest, std::abs(d));
  }
  EXPECT_NEAR(q.relative_rmse(), std::sqrt(error / total), 1e-12);
  EXPECT_EQ(q.max_error, highest);

  const TensorError sum = sum_of(*got, "all");
  EXPECT_EQ(sum.n_elements, 128u + 192 + 320);
  EXPECT_NEAR(sum.error, (*got)[0].error + q.error + (*got)[2].error, 1e-15);
}

TEST(TensorErrors, AFileEqualsItself) {
  const GgufFile file = file_of(tensors_of(DType::q8_0), "same.gguf");
  const auto got = compare_tensors(file, file, {});
  ASSERT_TRUE(got);
  for (const TensorError& tensor : *got) {
    EXPECT_EQ(tensor.relative_rmse(), 0);
    EXPECT_EQ(tensor.max_error, 0);
  }
}

TEST(TensorErrors, ImportanceWeighsColumns) {
  std::vector<float> x = wave(128), base = wave(128);
  x[3] += 0.5f;        // row 0, column 3
  x[64 + 7] += 0.25f;  // row 1, column 7
  const GgufFile file = file_of({{"blk.0.ffn_up.weight", DType::f32, {2, 64}, x}}, "x.gguf");
  const GgufFile base_file = file_of({{"blk.0.ffn_up.weight", DType::f32, {2, 64}, base}}, "base.gguf");
  ImatrixFile imatrix{.entries = {{"blk.0.ffn_up.weight", 64, std::vector<float>(64, 10), {10}}}};
  imatrix.entries[0].sums[3] = 0;
  imatrix.entries[0].sums[7] = 40;
  const auto got = compare_tensors(file, base_file, {.imatrix = &imatrix});
  ASSERT_TRUE(got) << got.error().message();
  const TensorError& tensor = got->front();
  EXPECT_TRUE(tensor.has_importance);
  double total = 0;
  for (size_t i = 0; i < 128; ++i) {
    const double weight = i % 64 == 3 ? 0 : i % 64 == 7 ? 4 : 1;
    total += weight * double{base[i]} * double{base[i]};
  }
  EXPECT_NEAR(tensor.weighted_rmse(), std::sqrt(4 * 0.0625 / total), 1e-6);
  imatrix.entries[0].sums.resize(32);
  imatrix.entries[0].row_elems = 32;
  EXPECT_FALSE(compare_tensors(file, base_file, {.imatrix = &imatrix}));
}

TEST(TensorErrors, ScalesBesideWeightsCount) {
  std::vector<float> base = wave(128), half = base;
  for (float& x : half) x /= 2;
  const GgufFile base_file = file_of({{"blk.0.ffn_up.weight", DType::f32, {2, 64}, base}}, "base.gguf");
  const GgufFile scaled =
      file_of({{"blk.0.ffn_up.weight", DType::nvfp4, {2, 64}, half}, {"blk.0.ffn_up.scale", DType::f32, {1}, {2}}},
              "scaled.gguf");
  const auto got = compare_tensors(scaled, base_file, {});
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_LT(got->front().relative_rmse(), 0.15) << "without the scale it would be above 0.5";

  // Of any type, one per matrix of a stack.
  std::vector<float> stacked = half;
  for (size_t i = 64; i < 128; ++i) stacked[i] /= 4;
  const TestTensor scales{"blk.0.ffn_up_exps.scale", DType::f32, {2}, {2, 8}};
  const TestTensor stack{"blk.0.ffn_up_exps.weight", DType::f32, {2, 1, 64}, stacked};
  const auto experts =
      compare_tensors(file_of({stack, scales}, "stack.gguf"),
                      file_of({{"blk.0.ffn_up_exps.weight", DType::f32, {2, 1, 64}, base}}, "base_stack.gguf"), {});
  ASSERT_TRUE(experts) << experts.error().message();
  EXPECT_LT(experts->front().relative_rmse(), 1e-6);
  const TestTensor three{"blk.0.ffn_up_exps.scale", DType::f32, {3}, {1, 2, 3}};
  const auto refused = compare_tensors(file_of({stack, three}, "three.gguf"), base_file, {});
  ASSERT_FALSE(refused);
}

TEST(TensorErrors, RefusesAnotherModel) {
  const GgufFile file = file_of(tensors_of(DType::q8_0), "q.gguf");
  auto others = tensors_of(DType::f32);
  others[1].name = "blk.2.attn_k.weight";
  const auto missing = compare_tensors(file, file_of(others, "missing.gguf"), {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("the base model has no tensor blk.2.attn_q.weight"));
  others = tensors_of(DType::f32);
  others[1].shape = {2, 96};
  const auto shape = compare_tensors(file, file_of(others, "shape.gguf"), {});
  ASSERT_FALSE(shape);
  EXPECT_THAT(shape.error().message(), HasSubstr("blk.2.attn_q.weight is [2, 96] in the base model and [3, 64] here"));
}

size_t n_times(const std::string& text, std::string_view part) {
  size_t n = 0;
  for (size_t i = text.find(part); i != text.npos; i = text.find(part, i + part.size())) ++n;
  return n;
}

TEST(TensorPlot, ShowsEveryTensorAndRole) {
  std::vector<TensorError> tensors;
  for (int64_t layer_idx = -1; layer_idx < 3; ++layer_idx)
    for (const char* role : {"attn_q", "ffn_<up>"})
      tensors.push_back({.name = "blk." + std::to_string(layer_idx) + "." + role,
                         .layer_idx = layer_idx,
                         .role = role,
                         .error = 0.01,
                         .total = 4});
  const std::string svg = tensor_plot(tensors, "a & b");
  EXPECT_EQ(svg, tensor_plot(tensors, "a & b"));
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_EQ(n_times(svg, "r=\"3\""), tensors.size());
  EXPECT_EQ(n_times(svg, "<path "), 2u);
  EXPECT_THAT(svg, HasSubstr(">attn_q</text>"));
  EXPECT_THAT(svg, HasSubstr(">ffn_&lt;up&gt;</text>"));
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  EXPECT_THAT(svg, HasSubstr("blk.2.attn_q F32, 5 %"));
  for (std::string_view tag : {"svg", "text", "g", "title"})
    EXPECT_EQ(n_times(svg, "<" + std::string(tag) + ">") + n_times(svg, "<" + std::string(tag) + " "),
              n_times(svg, "</" + std::string(tag) + ">"))
        << tag;
}

TEST(TensorPlot, SurvivesNothingAndZeros) {
  EXPECT_THAT(tensor_plot({}, "nothing"), HasSubstr("</svg>"));
  const std::string zeros = tensor_plot(std::vector<TensorError>{{.name = "x", .role = "x"}}, "zeros");
  EXPECT_THAT(zeros, Not(HasSubstr("nan")));
  EXPECT_THAT(zeros, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace tokamak
