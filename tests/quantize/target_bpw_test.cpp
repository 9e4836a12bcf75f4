#include "quantize/target_bpw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quantize/encode_tensor.h"
#include "quantize/model_helpers.h"
#include "quantize/quantize.h"

namespace tokamak {
namespace {
using test::scratch;
using test::write_model;
using testing::HasSubstr;

struct Chosen {
  Plan plan;
  double bits = 0, error = 0;
};

Result<Chosen> choose(const GgufFile& file, QuantizeOptions options, int n_threads = 2) {
  Chosen chosen{.plan = TRY(make_plan(file.tensors(), TRY(read_mix_model(file)), options))};
  TRY(choose_types(file, options, n_threads, {}, chosen.plan));
  TRY(check_plan(file.tensors(), chosen.plan, options));
  chosen.error = TRY(measure_plan(file, options, n_threads, chosen.plan));
  chosen.bits = 8.0 * static_cast<double>(chosen.plan.n_bytes(file.tensors())) /
                static_cast<double>(chosen.plan.n_elements(file.tensors()));
  return chosen;
}

std::vector<DType> types_of(const Plan& plan) {
  std::vector<DType> types;
  for (const PlannedTensor& planned : plan.tensors) types.push_back(planned.type);
  return types;
}

TEST(TargetBpw, MoreBitsLessErrorAndNeverAboveTheTarget) {
  const GgufFile file = *GgufFile::open(write_model("bpw.gguf"));
  double last = 1e9;
  for (double target : {4.3, 5.0, 6.0, 8.0, 12.0}) {
    const auto chosen = choose(file, {.target_bpw = target});
    ASSERT_TRUE(chosen) << chosen.error().message();
    EXPECT_LE(chosen->bits, target);
    EXPECT_GT(chosen->bits, target - 1.0) << "the budget is used";
    EXPECT_LT(chosen->error, last);
    last = chosen->error;
  }
}

TEST(TargetBpw, BeatsOneTypeForAllAtTheSameSize) {
  const GgufFile file = *GgufFile::open(write_model("uniform.gguf"));
  for (DType type : {DType::q4_0, DType::q4_1, DType::q5_0}) {
    // The same measurement of the uniform plan: only this type is left to choose.
    QuantizeOptions uniform{.file_type = FileType::f16};
    Plan plan = *make_plan(file.tensors(), *read_mix_model(file), uniform);
    for (PlannedTensor& planned : plan.tensors)
      if (planned.is_quantizable) planned.type = type;
    const double bits =
        8.0 * static_cast<double>(plan.n_bytes(file.tensors())) / static_cast<double>(plan.n_elements(file.tensors()));
    const auto chosen = choose(file, {.target_bpw = bits});
    ASSERT_TRUE(chosen);
    EXPECT_LE(chosen->bits, bits);
    const auto error = measure_plan(file, uniform, 2, plan);
    ASSERT_TRUE(error);
    EXPECT_GT(*error, 0);
    EXPECT_LE(chosen->error, *error) << dtype_name(type);
  }
}

TEST(TargetBpw, GivesBitsWhereTheyRemoveMostError) {
  // Tensors of whole numbers from -8 to 6 are exact in few bits: the others get the bits.
  test::SmallModel model{.type = DType::f32};
  model.edit = [](const std::string& name, std::vector<float>& values) {
    if (name.find("attn_q") == name.npos) return;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i * 7 % 15)) - 8;
  };
  const GgufFile file = *GgufFile::open(write_model("exact.gguf", model));
  const auto chosen = choose(file, {.target_bpw = 7});
  ASSERT_TRUE(chosen);
  for (const PlannedTensor& planned : chosen->plan.tensors) {
    if (planned.name.find("attn_q") != planned.name.npos) {
      EXPECT_LT(bits_per_weight(dtype_row(planned.type)), 5.01) << planned.name;
      EXPECT_LT(planned.error, 1e-6);
    } else if (planned.is_quantizable) {
      EXPECT_GT(bits_per_weight(dtype_row(planned.type)), 6) << planned.name;
    }
  }
}

TEST(TargetBpw, TheOutputMatrixGetsTheBits) {
  const GgufFile file = *GgufFile::open(write_model("tied.gguf", {.n_layer = 6, .has_output = false}));
  const auto chosen = choose(file, {.target_bpw = 5.5});
  ASSERT_TRUE(chosen);
  double embedding_bits = 0;
  for (const PlannedTensor& planned : chosen->plan.tensors)
    if (planned.name == "token_embd.weight") embedding_bits = bits_per_weight(dtype_row(planned.type));
  EXPECT_GT(embedding_bits, 6);
  MixModel model{.n_layer = 6, .has_output = true};
  EXPECT_EQ(sensitivity(TensorRole::output, -1, model), 12);
  EXPECT_LT(sensitivity(TensorRole::token_embd, -1, model), 12);
  model.has_output = false;
  EXPECT_EQ(sensitivity(TensorRole::token_embd, -1, model), 12);
  EXPECT_GT(sensitivity(TensorRole::attn_v, 5, model), sensitivity(TensorRole::attn_v, 4, model));
}

TEST(TargetBpw, LeavesWhatFlagsFixAndIsTheSameForAnyThreads) {
  const GgufFile file = *GgufFile::open(write_model("fixed.gguf"));
  QuantizeOptions options{.target_bpw = 6};
  options.tensor_types = {"attn_v=Q8_0"};
  options.output_type = DType::f16;
  const auto one = choose(file, options, 1), three = choose(file, options, 3);
  ASSERT_TRUE(one && three);
  EXPECT_EQ(types_of(one->plan), types_of(three->plan));
  for (const PlannedTensor& planned : one->plan.tensors) {
    if (planned.name.find("attn_v") != planned.name.npos) {
      EXPECT_EQ(planned.type, DType::q8_0);
    } else if (planned.name == "output.weight") {
      EXPECT_EQ(planned.type, DType::f16);
    }
  }
}

TEST(TargetBpw, UsesTypesThatNeedAnImatrixOnlyWithOne) {
  const GgufFile file = *GgufFile::open(write_model("tiny_types.gguf"));
  const auto refused = choose(file, {.target_bpw = 1.9});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::bad_argument);
  EXPECT_THAT(refused.error().message(), HasSubstr("the smallest types that can be used here need"));

  ImatrixFile imatrix;
  for (const GgufTensor& tensor : file.tensors())
    if (tensor.shape.rank() == 2) {
      const auto n = static_cast<size_t>(tensor.shape.row_elems());
      imatrix.entries.push_back({tensor.name, tensor.shape.row_elems(), std::vector<float>(n, 2), {1}});
    }
  ASSERT_TRUE(imatrix.finish());
  const auto chosen = choose(file, {.imatrix = &imatrix, .target_bpw = 1.9});
  ASSERT_TRUE(chosen) << chosen.error().message();
  EXPECT_LE(chosen->bits, 1.9);
  size_t n_small = 0;
  for (const PlannedTensor& planned : chosen->plan.tensors)
    if (dtype_row(planned.type).imatrix == Imatrix::required) {
      EXPECT_NE(planned.importance, nullptr) << planned.name;
      ++n_small;
    }
  EXPECT_GT(n_small, 0u);
}

// Values as the engine sees them: with the scale beside the weight.
std::vector<float> scaled_values(const GgufFile& file, const std::string& name) {
  std::vector<float> values = test::values_of(file, name);
  const auto scales = weight_scales(file, *file.find_tensor(name));
  EXPECT_TRUE(scales) << scales.error().message();
  if (!scales->empty())
    for (float& x : values) x *= scales->front();
  return values;
}

TEST(TargetBpw, ScalesOfTheSourceAreAppliedOnce) {
  const auto in = write_model("plain.gguf", {.type = DType::f32}), fp4 = scratch() / "scaled.gguf";
  const auto write = [](const GgufFile& file, const Plan& plan, const QuantizeOptions& options,
                        const std::filesystem::path& path) {
    const auto done = quantize(file, plan, options, {.out = path, .n_threads = 2});
    ASSERT_TRUE(done) << done.error().message();
  };
  const GgufFile plain = *GgufFile::open(in);
  const QuantizeOptions to_fp4{.file_type = FileType::nvfp4};
  write(plain, *make_plan(plain.tensors(), *read_mix_model(plain), to_fp4), to_fp4, fp4);
  const GgufFile source = *GgufFile::open(fp4);
  ASSERT_NE(source.find_tensor("blk.0.attn_q.scale"), nullptr);

  size_t n_kept = 0, n_replaced = 0;
  for (const std::optional<FileType> type : {std::optional<FileType>(), std::optional(FileType::q4_k_s)})
    for (const double target : {4.0, 4.55}) {
      const QuantizeOptions options{.file_type = type, .allow_requantize = true, .target_bpw = target};
      const auto chosen = choose(source, options);
      ASSERT_TRUE(chosen) << chosen.error().message();
      const auto path = scratch() / "rescaled.gguf";
      write(source, chosen->plan, options, path);
      const GgufFile out = *GgufFile::open(path);
      for (const char* name : {"blk.0.attn_q.weight", "blk.0.ffn_down.weight", "blk.1.attn_v.weight"}) {
        const bool is_kept = out.find_tensor(name)->type == DType::nvfp4;
        (is_kept ? n_kept : n_replaced) += 1;
        EXPECT_EQ(out.find_tensor(scale_name_of(name)) != nullptr, is_kept) << name;
        const std::vector<float> got = scaled_values(out, name), wanted = scaled_values(source, name);
        double error = 0, total = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          error += std::pow(got[i] - wanted[i], 2);
          total += std::pow(wanted[i], 2);
        }
        EXPECT_LT(error, 0.1 * total) << name << " " << target;
      }
    }
  EXPECT_GT(n_kept, 0u);
  EXPECT_GT(n_replaced, 0u);
}

TEST(TargetBpw, NamesTheFileAfterTheMostCommonType) {
  const GgufFile file = *GgufFile::open(write_model("named.gguf"));
  Plan plan = *make_plan(file.tensors(), *read_mix_model(file), {.file_type = FileType::q5_0, .pure = true});
  EXPECT_EQ(dominant_file_type(file.tensors(), plan), FileType::q5_0);
  for (const FileTypeRow& row : kFileTypes) {  // a row of that name wins over mixes of that type
    if (row.name != dtype_name(row.type)) continue;
    for (PlannedTensor& planned : plan.tensors)
      if (planned.is_quantizable) planned.type = row.type;
    EXPECT_EQ(dominant_file_type(file.tensors(), plan), row.id) << row.name;
  }
}

}  // namespace
}  // namespace tokamak
