#include "quantize/target_bpw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  for (const PlannedTensor& planned : chosen.plan.tensors) chosen.error += planned.error;
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
  // Tensors of whole numbers from -7 to 7 are exact in few bits: the others get the bits.
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
}

TEST(TargetBpw, NamesTheFileAfterTheMostCommonType) {
  const GgufFile file = *GgufFile::open(write_model("named.gguf"));
  Plan plan = *make_plan(file.tensors(), *read_mix_model(file), {.file_type = FileType::q5_0, .pure = true});
  EXPECT_EQ(dominant_file_type(file.tensors(), plan), FileType::q5_0);
}

}  // namespace
}  // namespace tokamak
