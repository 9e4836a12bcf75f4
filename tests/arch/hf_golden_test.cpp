// Tiny models of every family row against logits that transformers computed in float64 (tools/arch_oracle.py).
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "arch/architectures.h"
#include "backend/cpu/isa.h"
#include "base/nmse.h"
#include "engine/session.h"

namespace tokamak {
namespace {

struct Golden {
  std::vector<int32_t> ids;
  std::vector<float> logits;  // [n_tokens, n_vocab]
};

std::filesystem::path golden_folder() { return std::filesystem::path(TOKAMAK_GOLDEN) / "arch"; }

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder()))
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

Golden read_golden(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  uint32_t sizes[2] = {};  // n_tokens, n_vocab
  EXPECT_GE(bytes.size(), sizeof sizes) << path;
  if (bytes.size() < sizeof sizes) return {};
  std::memcpy(sizes, bytes.data(), sizeof sizes);
  Golden golden{.ids = std::vector<int32_t>(sizes[0]), .logits = std::vector<float>(size_t{sizes[0]} * sizes[1])};
  const size_t ids_bytes = golden.ids.size() * sizeof(int32_t), logits_bytes = golden.logits.size() * sizeof(float);
  EXPECT_EQ(bytes.size(), sizeof sizes + ids_bytes + logits_bytes) << path;
  if (bytes.size() != sizeof sizes + ids_bytes + logits_bytes) return {};
  std::memcpy(golden.ids.data(), bytes.data() + sizeof sizes, ids_bytes);
  std::memcpy(golden.logits.data(), bytes.data() + sizeof sizes + ids_bytes, logits_bytes);
  return golden;
}

class HfGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto model = Model::open(golden_folder() / (GetParam() + ".gguf"));
    ASSERT_TRUE(model) << model.error().message();
    model_ = *model;
    golden_ = read_golden(golden_folder() / (GetParam() + ".logits"));
    ASSERT_FALSE(golden_.ids.empty());
    ASSERT_EQ(golden_.logits.size(), golden_.ids.size() * static_cast<size_t>(model_->hparams().n_vocab));
  }

  // Logits of all positions: `prompt` tokens in one step, the others one by one.
  std::vector<float> run(SessionOptions options, size_t prompt) {
    const std::span<const int32_t> ids = golden_.ids;
    options.n_ctx = options.n_batch = static_cast<int64_t>(ids.size());
    auto session = Session::create(model_, options);
    EXPECT_TRUE(session) << session.error().message();
    std::vector<float> out;
    if (!session) return out;
    const int32_t seq_id = (*session)->add_sequence();
    for (size_t begin = 0; begin < ids.size();) {
      const size_t n = begin == 0 ? prompt : 1;
      const SequenceTokens step{seq_id, ids.subspan(begin, n), Logits::all};
      const auto logits = (*session)->forward({&step, 1});
      EXPECT_TRUE(logits) << logits.error().message();
      if (!logits) break;
      out.insert(out.end(), logits->begin(), logits->end());
      begin += n;
    }
    return out;
  }

  void expect_close(const SessionOptions& options, double largest_nmse) {
    const size_t n = golden_.ids.size();
    for (const size_t prompt : {n, 2 * n / 3}) {
      const std::vector<float> logits = run(options, prompt);
      ASSERT_EQ(logits.size(), golden_.logits.size());
      EXPECT_LE(nmse(logits, golden_.logits), largest_nmse)
          << options.backend << " " << options.isa << ", cache " << dtype_name(options.kv_type) << ", fusion "
          << options.compile.fusion << ", prompt of " << prompt << " of " << n << " tokens";
    }
  }

  // Matrices whose kernels round activations to integer codes.
  bool is_quantized() const {
    return std::ranges::any_of(model_->file().tensors(), [](const GgufTensor& tensor) {
      return tensor.type != DType::f32 && tensor.type != DType::f16 && tensor.type != DType::bf16;
    });
  }

  std::shared_ptr<const Model> model_;
  Golden golden_;
};

TEST_P(HfGolden, ReferenceBackendIsExact) {
  // f32 rounds each of some 20 values between a layer's input and output by 6e-8: far below 1e-9 squared and summed.
  expect_close({.backend = "reference", .kv_type = DType::f32}, 1e-9);
}

TEST_P(HfGolden, CpuBackendWithAndWithoutFusion) {
  // Codes of 15 bits round 128 times finer than int8, whose 8e-4 (below) this divides by 128^2.
  const double bar = is_quantized() ? 1e-6 : 1e-9;
  SessionOptions options{.backend = "cpu", .n_threads = 1, .kv_type = DType::f32};
  expect_close(options, bar);
  options.compile.fusion = false;
  expect_close(options, bar);
}

// Few models hold every kind of kernel: the others repeat them in another order.
class HfGoldenKernels : public HfGolden {};

TEST_P(HfGoldenKernels, EveryInstructionSetAndCacheType) {
  for (const cpu::IsaRow& row : cpu::kIsas) {
    if (!cpu::isa_available(row.isa)) {
      GTEST_LOG_(INFO) << row.name << " is not on this machine";
      continue;
    }
    for (const bool fusion : {true, false}) {
      SessionOptions options{.backend = "cpu", .isa = std::string(row.name), .n_threads = 1, .kv_type = DType::f32};
      options.compile.fusion = fusion;
      expect_close(options, is_quantized() ? 1e-6 : 1e-9);
      options.kv_type = DType::f16;  // 2^-12 relative on keys and values
      expect_close(options, 1e-5);
      // Rounding to int8 costs up to 8e-4 on these models in exact arithmetic too.
      options.activations = "int8";
      if (is_quantized()) expect_close(options, 1e-3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HfGolden, testing::ValuesIn(golden_names()),
                         [](const auto& name) { return name.param; });
INSTANTIATE_TEST_SUITE_P(Models, HfGoldenKernels,
                         testing::Values("llama_gqa", "llama_q8", "qwen3_yarn_q8", "qwen3moe_q8", "gemma3", "gpt2",
                                         "gpt_oss_mxfp4", "deepseek2_v3", "qwen35moe", "llama4"),
                         [](const auto& name) { return name.param; });

TEST(HfGoldenFiles, CoverEveryFamily) {
  std::set<std::string_view> covered;
  for (const std::string& name : golden_names()) {
    const auto model = Model::open(golden_folder() / (name + ".gguf"));
    ASSERT_TRUE(model) << model.error().message();
    covered.insert((*model)->hparams().family->name);
  }
  for (const arch::ArchitectureRow& row : arch::architectures())
    EXPECT_TRUE(covered.contains(row.name))
        << "no golden file of " << row.name << ": add a case to tools/arch_cases.py";
}

}  // namespace
}  // namespace tokamak
