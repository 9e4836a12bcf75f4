#include "synth/synth.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "arch/architectures.h"
#include "base/fnv1a.h"
#include "base/nmse.h"
#include "engine/session.h"
#include "support/tiny_model.h"
#include "synth/weights.h"

namespace tokamak {
namespace {

std::vector<std::byte> bytes_of(const arch::DummyRow& dummy, const SynthOptions& options = {}) {
  const auto writer = synth(dummy, options);
  EXPECT_TRUE(writer) << writer.error().message();
  auto bytes = writer->to_bytes();
  EXPECT_TRUE(bytes) << bytes.error().message();
  return std::move(*bytes);
}

uint64_t hash_of(const std::vector<std::byte>& bytes) {
  Fnv1a hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return hash.value();
}

TEST(Dummies, EveryFamilyHasOne) {
  for (const arch::ArchitectureRow& family : arch::architectures())
    EXPECT_TRUE(arch::find_dummy(family.name, false) || arch::find_dummy(family.name, true)) << family.name;
  std::set<std::string> names;
  for (const arch::DummyRow& dummy : arch::dummies()) {
    EXPECT_NE(arch::find_architecture(dummy.arch), nullptr) << dummy.arch;
    EXPECT_TRUE(names.insert(dummy.name()).second) << dummy.name() << " twice";
  }
}

// An optional tensor of the table that no recipe asks for is a misspelling.
TEST(Dummies, EveryOptionalTensorIsUsed) {
  for (const arch::DummyRow& dummy : arch::dummies()) {
    const auto tensors = synth_tensors(dummy, DType::f32);
    ASSERT_TRUE(tensors) << dummy.name() << ": " << tensors.error().message();
    std::set<std::string> used;
    for (const SynthTensor& tensor : *tensors) {
      std::string name = tensor.name;
      if (name.starts_with("blk.")) name = name.substr(name.find('.', 4) + 1);
      used.insert(name);
    }
    for (std::string_view words : dummy.tensors)
      while (!words.empty()) {
        const std::string word(words.substr(0, words.find(' ')));
        EXPECT_TRUE(used.contains(word)) << dummy.name() << " " << word;
        words.remove_prefix(std::min(words.size(), word.size() + 1));
      }
    EXPECT_EQ(used.contains("attn_q_norm.weight"), dummy.qk_norm != arch::QkNorm::none) << dummy.name();
    EXPECT_EQ(used.contains("ffn_gate_inp.weight"), dummy.has_experts) << dummy.name();
  }
}

TEST(Synth, BytesAreTheSameEverywhere) {
  EXPECT_EQ(hash_of(bytes_of(*arch::find_dummy("llama", false))), 3586732958356217119u);
  EXPECT_EQ(hash_of(bytes_of(*arch::find_dummy("qwen35moe", true), {.type = DType::f16})), 12387630932255775466u);
}

TEST(Synth, SeedsAndNamesGiveOtherWeights) {
  EXPECT_NE(hash_of(bytes_of(*arch::find_dummy("llama", false), {.seed = 2})),
            hash_of(bytes_of(*arch::find_dummy("llama", false))));
  const WeightStream a("blk.0.attn_q.weight", 1), b("blk.1.attn_q.weight", 1);
  EXPECT_NE(a(0), b(0));
  EXPECT_EQ(a(7), WeightStream("blk.0.attn_q.weight", 1)(7));
}

TEST(Synth, WeightsLieWhereTheirNamesSay) {
  struct Case {
    const char* name;
    double mean, deviation;
  };
  for (const Case& c : {Case{"blk.0.attn_q.weight", 0, 0.0255}, Case{"blk.0.ssm_alpha.weight", 0, 0.0255},
                        Case{"output_norm.weight", 1, 0.102}, Case{"blk.0.attn_q.bias", 0, 0.102},
                        Case{"blk.0.ssm_a", -1, 0.102}, Case{"blk.0.attn_norm.bias", 0, 0.102}}) {
    constexpr int kValues = 4096;
    const WeightStream values(c.name, 1);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < kValues; ++i) {
      sum += values(i);
      squares += (values(i) - c.mean) * (values(i) - c.mean);
    }
    EXPECT_NEAR(sum / kValues, c.mean, c.deviation / 10) << c.name;
    EXPECT_NEAR(std::sqrt(squares / kValues), c.deviation, c.deviation / 20) << c.name;
  }
}

TEST(Synth, TypesAndTheirFallbacks) {
  const auto type_of = [](const char* arch, DType type, std::string_view name) {
    const auto tensors = synth_tensors(*arch::find_dummy(arch, std::string_view(arch) != "llama"), type);
    EXPECT_TRUE(tensors);
    const auto found = std::ranges::find(*tensors, name, &SynthTensor::name);
    EXPECT_NE(found, tensors->end()) << name;
    return found->type;
  };
  EXPECT_EQ(type_of("llama", DType::q4_k, "blk.0.attn_q.weight"), DType::q4_k);
  EXPECT_EQ(type_of("llama", DType::q4_k, "blk.0.ffn_down.weight"), DType::q5_0);  // rows of 384
  EXPECT_EQ(type_of("llama", DType::q4_k, "blk.0.attn_norm.weight"), DType::f32);
  EXPECT_EQ(type_of("llama", DType::nvfp4, "blk.0.attn_q.scale"), DType::f32);
  EXPECT_EQ(type_of("qwen3moe", DType::nvfp4, "blk.0.ffn_up_exps.scale"), DType::f32);
}

class EveryDummy : public testing::TestWithParam<const arch::DummyRow*> {};

std::vector<float> run(const std::filesystem::path& path, const char* backend, std::span<const int32_t> prompt,
                       std::span<const int32_t> rest) {
  auto model = Model::open(path);
  EXPECT_TRUE(model) << model.error().message();
  if (!model) return {};
  auto session = Session::create(*model, {.backend = backend, .n_threads = 1});
  EXPECT_TRUE(session) << session.error().message();
  if (!session) return {};
  std::vector<float> out;
  const int32_t seq_id = (*session)->add_sequence();
  const auto step = [&](std::span<const int32_t> tokens) {
    const SequenceTokens batch{seq_id, tokens, Logits::all};
    const auto logits = (*session)->forward({&batch, 1});
    EXPECT_TRUE(logits) << logits.error().message();
    if (logits) out.insert(out.end(), logits->begin(), logits->end());
  };
  step(prompt);
  for (size_t i = 0; i < rest.size(); ++i) step(rest.subspan(i, 1));
  return out;
}

TEST_P(EveryDummy, PrefillsAndDecodesAlike) {
  const arch::DummyRow& dummy = *GetParam();
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("tokamak-synth-{}-{}.gguf", dummy.name(), getpid());
  const auto writer = synth(dummy);
  ASSERT_TRUE(writer) << writer.error().message();
  ASSERT_TRUE(writer->write(path));
  const std::vector<int32_t> tokens = test::random_tokens(24, arch::kDummyVocab, 1);
  const std::span<const int32_t> all(tokens);
  const std::vector<float> reference = run(path, "reference", all.first(20), all.subspan(20));
  const std::vector<float> cpu = run(path, "cpu", all.first(20), all.subspan(20));
  std::filesystem::remove(path);
  ASSERT_EQ(reference.size(), tokens.size() * arch::kDummyVocab);
  ASSERT_EQ(cpu.size(), reference.size());
  EXPECT_LT(nmse(cpu, reference), 1e-6);
}

std::vector<const arch::DummyRow*> every_dummy() {
  std::vector<const arch::DummyRow*> rows;
  for (const arch::DummyRow& row : arch::dummies()) rows.push_back(&row);
  return rows;
}

std::string test_name(const testing::TestParamInfo<const arch::DummyRow*>& info) {
  std::string name = info.param->name();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Synth, EveryDummy, testing::ValuesIn(every_dummy()), test_name);

}  // namespace
}  // namespace tokamak
