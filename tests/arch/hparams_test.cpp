#include "arch/hparams.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "arch/architectures.h"
#include "arch/dummy.h"
#include "arch/recipe.h"
#include "gguf/writer.h"

namespace tokamak::arch {
namespace {

// A complete set of keys with one changed or added by the test, and an embedding table.
struct KeySet {
  std::string arch = "llama";
  std::string skip;                             // key not written
  std::function<void(GgufWriter&)> extra = {};  // written last
};

std::vector<std::byte> file_of(const KeySet& keys) {
  GgufWriter writer;
  const auto number = [&](const std::string& suffix, uint32_t value) {
    if (suffix != keys.skip) writer.add(keys.arch + "." + suffix, value);
  };
  writer.add("general.architecture", keys.arch);
  number("context_length", 64);
  number("embedding_length", 8);
  number("block_count", 2);
  number("feed_forward_length", 16);
  number("attention.head_count", 4);
  number("attention.head_count_kv", 2);
  if (keys.skip != "attention.layer_norm_rms_epsilon")
    writer.add(keys.arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  if (keys.extra) keys.extra(writer);
  static const std::vector<std::byte> table(32 * 8 * sizeof(float));
  writer.add_tensor("token_embd.weight", DType::f32, {32, 8}, table);
  auto bytes = writer.to_bytes();
  EXPECT_TRUE(bytes) << bytes.error().message();
  return std::move(*bytes);
}

Result<Hparams> read(const KeySet& keys) {
  const auto bytes = file_of(keys);
  const auto file = GgufFile::parse(bytes);
  EXPECT_TRUE(file) << file.error().message();
  return read_hparams(*file);
}

std::string refusal(const KeySet& keys) {
  const auto hparams = read(keys);
  EXPECT_FALSE(hparams);
  return hparams ? std::string() : hparams.error().message();
}

TEST(HparamsTest, DefaultsFollowFromTheRequiredKeys) {
  const auto hp = read({});
  ASSERT_TRUE(hp) << hp.error().message();
  EXPECT_EQ(hp->n_vocab, 32);
  EXPECT_EQ(hp->head_dim_k, 2);
  EXPECT_EQ(hp->layers.size(), 2u);
  EXPECT_EQ(hp->layers[1].rope.n_rot, 2);
  EXPECT_EQ(hp->layers[1].rope.theta, 10000);
  EXPECT_DOUBLE_EQ(hp->attention_scale, 1 / std::sqrt(2.0));
}

TEST(HparamsTest, EveryMissingKeyIsNamed) {
  for (const char* key : {"context_length", "embedding_length", "block_count", "feed_forward_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon"})
    EXPECT_NE(refusal({.skip = key}).find(std::string("llama.") + key), std::string::npos) << key;
}

struct BadKey {
  const char* key;
  std::function<void(GgufWriter&, const std::string&)> write;
};

TEST(HparamsTest, WrongTypesAndImpossibleValuesAreRefusedByName) {
  const std::vector<BadKey> cases = {
      {"block_count", [](GgufWriter& w, const std::string& k) { w.add(k, "two"); }},
      {"block_count", [](GgufWriter& w, const std::string& k) { w.add(k, uint32_t{100000}); }},
      {"attention.head_count", [](GgufWriter& w, const std::string& k) { w.add(k, uint32_t{0}); }},
      {"context_length", [](GgufWriter& w, const std::string& k) { w.add(k, int32_t{-1}); }},
      {"embedding_length", [](GgufWriter& w, const std::string& k) { w.add(k, uint64_t{1} << 63); }},
      {"attention.head_count", [](GgufWriter& w, const std::string& k) {
         w.add_array(k, std::span<const uint32_t>(std::array<uint32_t, 3>{4, 4, 4}));
       }}};
  for (const BadKey& bad : cases) {
    const std::string key = std::string("llama.") + bad.key;
    const std::string message = refusal({.skip = bad.key, .extra = [&](GgufWriter& w) { bad.write(w, key); }});
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

TEST(HparamsTest, OptionalKeysAreCheckedToo) {
  const auto with = [&](const char* key, auto value) {
    return refusal({.extra = [&](GgufWriter& w) { w.add(std::string("llama.") + key, value); }});
  };
  EXPECT_NE(with("rope.dimension_count", uint32_t{1}).find("rope.dimension_count"), std::string::npos);
  EXPECT_NE(with("rope.freq_base", -1.0f).find("rope.freq_base"), std::string::npos);
  EXPECT_NE(with("rope.scaling.type", "magic").find("magic"), std::string::npos);
  EXPECT_NE(with("expert_count", uint32_t{8}).find("expert_used_count"), std::string::npos);  // is missing
}

TEST(HparamsTest, HeadsThatCannotBeSharedEvenly) {
  const std::string message = refusal({.skip = "attention.head_count_kv", .extra = [](GgufWriter& w) {
                                         w.add("llama.attention.head_count_kv", uint32_t{3});
                                       }});
  EXPECT_NE(message.find("4 query heads cannot share 3"), std::string::npos) << message;
}

TEST(HparamsTest, HeadsThatNoBackendTakes) {
  for (const char* key : {"key_length", "value_length"}) {
    const std::string name = std::string("llama.attention.") + key;
    const auto of = [&](uint32_t n) { return KeySet{.extra = [=](GgufWriter& w) { w.add(name, n); }}; };
    EXPECT_TRUE(read(of(1024)));
    EXPECT_NE(refusal(of(1026)).find(name + ": attention heads of 1026 dimensions (heads have 1 to 1024)"),
              std::string::npos);
  }
  const auto more_heads_than_dimensions = [](GgufWriter& w) { w.add("llama.attention.head_count", uint32_t{16}); };
  EXPECT_NE(
      refusal({.skip = "attention.head_count", .extra = more_heads_than_dimensions}).find("heads of 0 dimensions"),
      std::string::npos);
}

TEST(HparamsTest, UnknownFamilyNamesTheNearest) {
  EXPECT_EQ(refusal({.arch = "llama9"}),
            fmt::format("general.architecture: model family 'llama9' is not supported ({} families are, the nearest is "
                        "'llama'; all are in docs/reference/architectures.md)",
                        architectures().size()));
}

TEST(HparamsTest, YarnAndLinearScaling) {
  const auto yarn = read({.extra = [](GgufWriter& w) {
    w.add("llama.rope.scaling.type", "yarn");
    w.add("llama.rope.scaling.factor", 4.0f);
    w.add("llama.rope.scaling.original_context_length", uint32_t{16});
  }});
  ASSERT_TRUE(yarn) << yarn.error().message();
  EXPECT_DOUBLE_EQ(yarn->layers[0].rope.freq_scale, 0.25);
  EXPECT_DOUBLE_EQ(yarn->layers[0].rope.ext_factor, 1);
  EXPECT_DOUBLE_EQ(yarn->layers[0].rope.attn_factor, 1 + 0.1 * std::log(4.0));
  EXPECT_EQ(yarn->layers[0].rope.n_ctx_orig, 16);
}

TEST(HparamsTest, LayerPatterns) {
  const auto smollm3 = read({.arch = "smollm3", .skip = "block_count", .extra = [](GgufWriter& w) {
                               w.add("smollm3.block_count", uint32_t{8});
                             }});
  ASSERT_TRUE(smollm3) << smollm3.error().message();
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(smollm3->layers[i].use_rope, i != 3 && i != 7) << i;
  const auto gemma3 = read({.arch = "gemma3", .skip = "block_count", .extra = [](GgufWriter& w) {
                              w.add("gemma3.block_count", uint32_t{12});
                              w.add("gemma3.attention.sliding_window", uint32_t{32});
                              w.add("gemma3.rope.freq_base", 1e6f);
                            }});
  ASSERT_TRUE(gemma3) << gemma3.error().message();
  for (size_t i = 0; i < 12; ++i) {
    const bool global = i == 5 || i == 11;
    EXPECT_EQ(gemma3->layers[i].window, global ? 0 : 32) << i;
    EXPECT_EQ(gemma3->layers[i].rope.theta, global ? 1e6 : 1e4) << i;
  }
}

TEST(HparamsTest, QueriesThatGrowWithThePosition) {
  const auto length = [](bool has_length, bool has_original) {
    const auto hp = read({.arch = "mistral3", .extra = [=](GgufWriter& w) {
                            w.add("mistral3.attention.temperature_scale", 0.1f);
                            if (has_length) w.add("mistral3.attention.temperature_length", uint32_t{48});
                            if (has_original) w.add("mistral3.rope.scaling.original_context_length", uint32_t{16});
                          }});
    EXPECT_TRUE(hp) << hp.error().message();
    return hp ? hp->temp.length : 0;
  };
  EXPECT_EQ(length(true, true), 48);
  EXPECT_EQ(length(false, true), 16);
  EXPECT_EQ(length(false, false), 64);  // of the context
}

TEST(HparamsTest, ExpertsWithinLimits) {
  const auto with = [](uint32_t n_expert, uint32_t n_used) {
    return KeySet{.arch = "qwen3moe", .extra = [=](GgufWriter& w) {
                    w.add("qwen3moe.expert_count", n_expert);
                    w.add("qwen3moe.expert_used_count", n_used);
                  }};
  };
  EXPECT_TRUE(read(with(512, 10)));
  EXPECT_NE(refusal(with(4, 5)).find("qwen3moe.expert_used_count"), std::string::npos);
  EXPECT_NE(refusal(with(1u << 20, 8)).find("qwen3moe.expert_count"), std::string::npos);
  EXPECT_NE(refusal(with(4096, 4096)).find("qwen3moe.expert_used_count"), std::string::npos);
}

TEST(RecipeTest, MissingTensorIsNamed) {
  const auto bytes = file_of({});
  const auto file = GgufFile::parse(bytes);
  ASSERT_TRUE(file);
  const auto hparams = read_hparams(*file);
  ASSERT_TRUE(hparams);
  const auto graph = build_graph(*file, *hparams, {});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::bad_tensor);
  EXPECT_EQ(graph.error().where, "blk.0.attn_norm.weight");
}

// --- hostile metadata: every key of every dummy model, replaced by values that no converter writes -----------------

// Keys that no dummy model has.
constexpr std::string_view kRareKeys[] = {
    "attention.clamp_kqv",
    "attention.key_length",
    "attention.recurrent_layers",
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.temperature_length",
    "attention.value_length",
    "expert_gating_func",
    "expert_group_count",
    "expert_group_used_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "expert_weights_norm",
    "expert_weights_scale",
    "final_logit_softcapping",
    "logit_scale",
    "nextn_predict_layers",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.type",
    "rope.scaling.yarn_log_multiplier",
};

using Hostile = std::function<void(GgufWriter&, std::string_view key)>;

std::vector<Hostile> hostile_values() {
  std::vector<Hostile> out;
  const auto one = [&](auto value) { out.push_back([=](GgufWriter& w, std::string_view key) { w.add(key, value); }); };
  const auto array = [&](std::vector<uint32_t> values) {
    out.push_back([=](GgufWriter& w, std::string_view key) { w.add_array(key, std::span<const uint32_t>(values)); });
  };
  for (uint32_t n : {0u, 1u, 2u, 3u, 65u, 4096u, 1u << 20, UINT32_MAX}) one(n);
  one(int32_t{-1});
  one(uint64_t{1} << 63);
  for (float x : {0.0f, -1.0f, 1e-40f, 3e38f, std::numeric_limits<float>::infinity(), std::nanf("")}) one(x);
  one(std::numeric_limits<double>::denorm_min());
  one(true);
  for (const char* text : {"", "yarn", "linear", "longrope"}) one(text);
  for (const auto& values : std::vector<std::vector<uint32_t>>{{}, {0}, {1}, {0, 0}, {1, 2}, {3, 1}, {1, 1, 1}})
    array(values);
  return out;
}

// Has whatever the dummy model has, in whatever shape is asked for: bad sizes are not stopped by the file's tensors.
class AgreeableIndex : public TensorIndex {
 public:
  explicit AgreeableIndex(const DummyRow& dummy) : dummy_(dummy) {}
  bool has(std::string_view name) const override { return has_tensor(dummy_, name); }
  std::optional<Shape> shape(std::string_view) const override { return std::nullopt; }
  Result<DType> use(const std::string&, const Shape&) override { return DType::f32; }

 private:
  const DummyRow& dummy_;
};

// The dummy model's metadata with one key replaced or added.
Result<ir::Graph> graph_with(const DummyRow& dummy, std::span<const GgufValue> values, std::string_view key,
                             const Hostile& hostile) {
  GgufWriter writer;
  for (const GgufValue& value : values)
    if (value.key() != key) writer.add(value);
  hostile(writer, key);
  static const std::vector<std::byte> table(sizeof(float) * kDummyVocab * 256);
  const Shape shape{kDummyVocab, dummy.sizes.n_embd};
  writer.add_tensor("token_embd.weight", DType::f32, shape,
                    std::span(table).first(sizeof(float) * static_cast<size_t>(shape.n_elements())));
  const auto bytes = writer.to_bytes();
  EXPECT_TRUE(bytes) << bytes.error().message();
  const auto file = GgufFile::parse(*bytes);
  EXPECT_TRUE(file) << file.error().message();
  const Hparams hparams = TRY(read_hparams(*file));
  AgreeableIndex index(dummy);
  return build_graph(index, hparams, {.n_tokens = 3, .n_outputs = 1});
}

class HostileMetadata : public testing::TestWithParam<const DummyRow*> {};

TEST_P(HostileMetadata, IsRefusedInOneSentenceOrBuilds) {
  const DummyRow& dummy = *GetParam();
  GgufWriter writer;
  add_metadata(writer, dummy);
  const auto bytes = writer.to_bytes();
  ASSERT_TRUE(bytes) << bytes.error().message();
  const auto file = GgufFile::parse(*bytes);
  ASSERT_TRUE(file) << file.error().message();
  const std::string prefix = std::string(dummy.arch) + ".";
  std::set<std::string> keys;
  for (const GgufValue& value : file->values())
    if (std::string_view(value.key()).starts_with(prefix)) keys.insert(std::string(value.key()));
  for (std::string_view key : kRareKeys) keys.insert(prefix + std::string(key));
  const std::vector<Hostile> values = hostile_values();
  size_t n_refused = 0;
  for (const std::string& key : keys)
    for (size_t i = 0; i < values.size(); ++i) {
      const auto graph = graph_with(dummy, file->values(), key, values[i]);
      if (graph) continue;
      ++n_refused;
      const Error& error = graph.error();
      EXPECT_NE(error.code, ErrorCode::bad_argument) << key << ", value " << i << ": " << error.message();
      EXPECT_FALSE(error.what.empty() || error.where.empty()) << key << ", value " << i << ": " << error.message();
      EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
    }
  EXPECT_GT(n_refused, keys.size());  // the values are hostile indeed
}

TEST(HparamsTest, TheDeepestModelBuilds) {
  const DummyRow& dummy = *find_dummy("qwen35moe", true);
  GgufWriter writer;
  add_metadata(writer, dummy);
  const auto bytes = writer.to_bytes();
  ASSERT_TRUE(bytes);
  const auto file = GgufFile::parse(*bytes);
  ASSERT_TRUE(file);
  const auto with = [&](int64_t n_layer) {
    return graph_with(dummy, file->values(), "qwen35moe.block_count",
                      [=](GgufWriter& w, std::string_view key) { w.add(key, n_layer); });
  };
  const auto graph = with(kMaxLayers);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_GT(graph->nodes.size(), static_cast<size_t>(30 * kMaxLayers));
  EXPECT_FALSE(with(kMaxLayers + 1));
}

std::vector<const DummyRow*> every_dummy() {
  std::vector<const DummyRow*> rows;
  for (const DummyRow& row : dummies()) rows.push_back(&row);
  return rows;
}
std::string dummy_name(const testing::TestParamInfo<const DummyRow*>& info) {
  std::string name = info.param->name();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Hparams, HostileMetadata, testing::ValuesIn(every_dummy()), dummy_name);

}  // namespace
}  // namespace tokamak::arch
