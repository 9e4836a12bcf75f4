#include "quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/codec.h"
#include "quantize/model_helpers.h"
#include "quantize/parts.h"

namespace tokamak {
namespace {
using test::leftovers;
using test::scratch;
using test::SmallModel;
using test::values_of;
using test::write_model;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<void> run(const std::filesystem::path& in, const QuantizeOptions& options, QuantizeRun run) {
  const GgufFile file = TRY(GgufFile::open(in));
  const Plan plan = TRY(make_plan(file.tensors(), TRY(read_mix_model(file)), options));
  TRY(check_plan(file.tensors(), plan, options));
  return quantize(file, plan, options, run);
}

GgufFile quantized(const std::filesystem::path& in, const QuantizeOptions& options, const std::string& name,
                   std::vector<std::string> override_kv = {}) {
  const auto out = scratch() / name;
  const auto done = run(in, options, {.out = out, .override_kv = std::move(override_kv), .n_threads = 2});
  EXPECT_TRUE(done) << done.error().message();
  auto file = GgufFile::open(out);
  EXPECT_TRUE(file) << file.error().message();
  return *std::move(file);
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, signal = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    signal += b[i] * b[i];
  }
  return std::sqrt(error / signal);
}

TEST(Quantize, EveryTensorIsItsSourceInTheNewType) {
  const auto in = write_model("in.gguf");
  const GgufFile source = *GgufFile::open(in);
  const GgufFile out = quantized(in, {.file_type = FileType::q8_0}, "out.gguf");
  ASSERT_EQ(out.tensors().size(), source.tensors().size());
  for (const GgufTensor& tensor : source.tensors()) {
    const GgufTensor* made = out.find_tensor(tensor.name);
    ASSERT_NE(made, nullptr) << tensor.name;
    EXPECT_EQ(made->type, tensor.shape.rank() == 1 ? DType::f32 : DType::q8_0);
    EXPECT_LT(relative_error(values_of(out, tensor.name), values_of(source, tensor.name)), 0.01) << tensor.name;
  }
}

TEST(Quantize, MetadataSaysWhatWasDone) {
  const auto in = write_model("meta.gguf");
  ImatrixFile imatrix;
  imatrix.path = "calibration.gguf";
  imatrix.datasets = {"wiki.txt"};
  imatrix.n_chunks = 12;
  imatrix.entries = {{"blk.0.attn_q.weight", 256, std::vector<float>(256, 2), {1}}};
  const GgufFile out = quantized(
      in, {.file_type = FileType::q4_0, .imatrix = &imatrix}, "meta_out.gguf",
      {"llama.context_length=int:4096", "general.name=str:small one", "my.flag=bool:true", "my.number=float:0.5"});
  EXPECT_EQ(*out.get_u64("general.file_type"), 2u);
  EXPECT_EQ(*out.get_u64("general.quantization_version"), 2u);
  EXPECT_EQ(*out.get_string("quantize.imatrix.file"), "calibration.gguf");
  EXPECT_EQ(*out.get_string("quantize.imatrix.dataset"), "wiki.txt");
  EXPECT_EQ(*out.get_u64("quantize.imatrix.entries_count"), 1u);
  EXPECT_EQ(*out.get_u64("quantize.imatrix.chunks_count"), 12u);
  EXPECT_EQ(*out.get_u64("llama.context_length"), 4096u);
  EXPECT_EQ(out.find("llama.context_length")->element_type(), GgufType::u32);
  EXPECT_EQ(*out.get_string("general.name"), "small one");
  EXPECT_TRUE(*out.get_bool("my.flag"));
  EXPECT_EQ(*out.get_f64("my.number"), 0.5);
  EXPECT_EQ(*out.get_u64("llama.block_count"), 2u);
}

TEST(Quantize, BadOverridesAreNamedAndNothingIsWritten) {
  const auto in = write_model("over.gguf"), out = scratch() / "over_out.gguf";
  for (const char* text : {"x", "=int:1", "x=int", "x=int:1.5", "x=float:abc", "x=bool:maybe", "x=list:1",
                           "general.alignment=int:64", "split.count=int:2"}) {
    const auto done = run(in, {.file_type = FileType::q8_0}, {.out = out, .override_kv = {text}});
    ASSERT_FALSE(done) << text;
    EXPECT_EQ(done.error().code, ErrorCode::bad_argument);
    EXPECT_THAT(done.error().message(), HasSubstr(std::string("--override-kv ") + text));
  }
  EXPECT_THAT(leftovers(out), IsEmpty());
}

TEST(Quantize, PruningUpdatesCountsAndPerLayerArrays) {
  QuantizeOptions options;
  options.prune_layers = {1};
  const GgufFile out = quantized(write_model("prune.gguf", {.n_layer = 3}), options, "pruned.gguf");
  EXPECT_EQ(*out.get_u64("llama.block_count"), 2u);
  EXPECT_THAT(*out.get_ints("llama.per_layer"), ElementsAre(10, 12));
  EXPECT_EQ(out.find_tensor("blk.2.attn_q.weight"), nullptr);
  const GgufFile in = *GgufFile::open(scratch() / "prune.gguf");
  EXPECT_EQ(values_of(out, "blk.1.attn_q.weight"), values_of(in, "blk.2.attn_q.weight"));
  EXPECT_EQ(*out.get_u64("general.file_type"), 1u);  // a copy
}

TEST(Quantize, Nvfp4HasAScaleThatMakesItAccurateAtAnyMagnitude) {
  for (float magnitude : {1e-4f, 1.0f, 1e4f}) {
    SmallModel model{.type = DType::f32};
    model.edit = [magnitude](const std::string&, std::vector<float>& values) {
      for (float& x : values) x *= magnitude;
    };
    const auto in = write_model("fp4.gguf", model);
    const GgufFile source = *GgufFile::open(in);
    const GgufFile out = quantized(in, {.file_type = FileType::nvfp4}, "fp4_out.gguf");
    EXPECT_EQ(out.find_tensor("blk.0.attn_q.weight")->type, DType::nvfp4);
    const std::vector<float> scale = values_of(out, "blk.0.attn_q.scale");
    ASSERT_EQ(scale.size(), 1u);
    std::vector<float> values = values_of(out, "blk.0.attn_q.weight");
    for (float& x : values) x *= scale[0];
    EXPECT_LT(relative_error(values, values_of(source, "blk.0.attn_q.weight")), 0.13) << magnitude;

    // And back: the scale is multiplied in and gone.
    QuantizeOptions back{.file_type = FileType::f32};
    back.allow_requantize = true;
    const GgufFile plain = quantized(scratch() / "fp4_out.gguf", back, "fp4_back.gguf");
    EXPECT_EQ(plain.find_tensor("blk.0.attn_q.scale"), nullptr);
    EXPECT_EQ(values_of(plain, "blk.0.attn_q.weight"), values);
  }
}

TEST(Quantize, Nvfp4ScalesExpertsOneByOne) {
  SmallModel model{.n_expert = 3, .type = DType::f32};
  model.edit = [](const std::string& name, std::vector<float>& values) {
    for (size_t i = 0; name.find("_exps") != name.npos && i < values.size(); ++i)
      values[i] *= std::pow(100.0f, static_cast<float>(i / (values.size() / 3)));
  };
  const auto in = write_model("fp4_experts.gguf", model);
  const GgufFile source = *GgufFile::open(in);
  const GgufFile out = quantized(in, {.file_type = FileType::nvfp4}, "fp4_experts_out.gguf");
  const std::vector<float> scales = values_of(out, "blk.0.ffn_down_exps.scale");
  ASSERT_EQ(scales.size(), 3u);
  EXPECT_NEAR(scales[2] / scales[0], 1e4, 2e3);
  std::vector<float> values = values_of(out, "blk.0.ffn_down_exps.weight");
  for (size_t i = 0; i < values.size(); ++i) values[i] *= scales[i / (values.size() / 3)];
  const std::vector<float> wanted = values_of(source, "blk.0.ffn_down_exps.weight");
  const size_t n = values.size() / 3;
  for (size_t e = 0; e < 3; ++e)
    EXPECT_LT(relative_error({values.begin() + e * n, values.begin() + (e + 1) * n},
                             {wanted.begin() + e * n, wanted.begin() + (e + 1) * n}),
              0.13);
}

TEST(Quantize, NanWeightsAreRefusedWithTensorAndRow) {
  for (const char* bad_name : {"blk.1.ffn_down.weight", "blk.1.attn_norm.weight"}) {
    SmallModel model;
    model.edit = [bad_name](const std::string& name, std::vector<float>& values) {
      if (name == bad_name) values[values.size() == 256 ? 3 : 5 * 512 + 3] = NAN;
    };
    const auto in = write_model("nan.gguf", model), out = scratch() / "nan_out.gguf";
    for (FileType type : {FileType::q8_0, FileType::q4_k_m, FileType::nvfp4}) {
      const auto done = run(in, {.file_type = type}, {.out = out, .n_threads = 2});
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ErrorCode::bad_tensor);
      EXPECT_THAT(done.error().message(), HasSubstr(bad_name));
      EXPECT_THAT(done.error().message(),
                  HasSubstr("row " + std::string(std::string(bad_name).find("norm") == std::string::npos ? "5" : "0")));
    }
    EXPECT_THAT(leftovers(out), IsEmpty());
  }
}

TEST(Quantize, CancellingLeavesNoFileAndKeepsTheOldOne) {
  const auto in = write_model("cancel.gguf"), out = write_model("cancel_out.gguf", {.n_layer = 1});
  const auto n_before = std::filesystem::file_size(out);
  const auto done =
      run(in, {.file_type = FileType::q8_0}, {.out = out, .progress = [](double fraction) { return fraction < 0.5; }});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::cancelled);
  EXPECT_THAT(leftovers(out), ElementsAre("cancel_out.gguf"));
  EXPECT_EQ(std::filesystem::file_size(out), n_before);
}

TEST(Quantize, OutputThatIsTheInputIsRefused) {
  const auto in = write_model("same.gguf");
  const GgufFile file = *GgufFile::open(in);
  EXPECT_TRUE(check_not_same_file(in, file, scratch() / "other.gguf"));
  EXPECT_FALSE(check_not_same_file(in, file, in));
  EXPECT_FALSE(check_not_same_file(in, file, scratch() / "." / "same.gguf"));
  std::filesystem::create_symlink(in, scratch() / "soft.gguf");
  std::filesystem::create_hard_link(in, scratch() / "hard.gguf");
  for (const char* name : {"soft.gguf", "hard.gguf"})
    EXPECT_EQ(check_not_same_file(in, file, scratch() / name).error().code, ErrorCode::bad_argument);
}

TEST(Quantize, KeepsTheSplitOfTheSource) {
  const auto in = write_model("whole.gguf");
  const GgufFile whole = *GgufFile::open(in);
  ASSERT_TRUE(split_model(whole, divide(whole.tensors(), {.max_tensors = 4}), (scratch() / "parts").string(), {}));
  const auto first = scratch() / "parts-00001-of-00003.gguf";
  QuantizeRun to{.out = scratch() / "qparts.gguf", .keep_split = true, .n_threads = 1};
  for (FileType type : {FileType::q8_0, FileType::nvfp4}) {  // NVFP4 adds tensors
    const auto done = run(first, {.file_type = type}, to);
    ASSERT_TRUE(done) << done.error().message();
    const auto out = GgufFile::open(scratch() / "qparts-00002-of-00003.gguf");
    ASSERT_TRUE(out) << out.error().message();
    EXPECT_EQ(out->n_parts(), 3u);
    EXPECT_EQ(out->find_tensor("output.weight")->part, 2u);
    EXPECT_EQ(*out->get_u64("general.file_type"), file_type_id(type));
  }
  to.keep_split = false;
  ASSERT_TRUE(run(first, {.file_type = FileType::q8_0}, to));
  EXPECT_EQ(GgufFile::open(to.out)->n_parts(), 1u);
  EXPECT_FALSE(GgufFile::open(to.out)->has("split.count"));
  const GgufFile split = *GgufFile::open(first);
  EXPECT_EQ(output_paths(split, {.out = scratch() / "parts.gguf", .keep_split = true})[1],
            scratch() / "parts-00002-of-00003.gguf");
  EXPECT_THAT(output_paths(whole, {.out = "x.gguf", .keep_split = true}), ElementsAre("x.gguf"));
  EXPECT_FALSE(check_not_same_file(first, split, scratch() / "parts-00003-of-00003.gguf"));
}

}  // namespace
}  // namespace tokamak
