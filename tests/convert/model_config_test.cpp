// config.json in its old and new spellings: the same keys.
#include "convert/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

namespace tokamak::test {
namespace {

using convert::ModelConfig;
using convert::read_model_config;

Json config(const std::string& hf_class, const Json& more = Json::object()) {
  Json json = {
      {"architectures", {hf_class}}, {"hidden_size", 64},        {"num_hidden_layers", 2}, {"intermediate_size", 96},
      {"num_attention_heads", 4},    {"num_key_value_heads", 2}, {"vocab_size", 100}};
  json.update(more);
  return json;
}

ModelConfig read(const Json& json) {
  auto model = read_model_config(json, "config.json");
  EXPECT_TRUE(model.has_value()) << model.error().message();
  return model ? *std::move(model) : ModelConfig{};
}

// The value as text, or "none".
std::string key(const ModelConfig& model, const std::string& name) {
  for (const convert::MetadataKey& key : model.keys)
    if (key.name == name) return convert::key_text(key.value);
  return "none";
}

TEST(ModelConfig, SizesAndDefaults) {
  const ModelConfig llama =
      read(config("LlamaForCausalLM", {{"num_key_value_heads", nullptr}, {"rms_norm_eps", 1e-5}}));
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_EQ(llama.n_head_kv, 4);
  EXPECT_EQ(key(llama, "llama.context_length"), "2048");
  EXPECT_EQ(key(llama, "llama.attention.head_count_kv"), "4");
  EXPECT_EQ(key(llama, "llama.rope.freq_base"), "10000");
  EXPECT_EQ(key(llama, "llama.attention.layer_norm_rms_epsilon"), "1e-05");
  EXPECT_FALSE(llama.tied);
  const ModelConfig qwen = read(config("Qwen3ForCausalLM"));
  EXPECT_EQ(qwen.head_dim, 128);  // of the class, not 64 / 4
  // The text part of gemma-3-4b's config.json names few numbers.
  const ModelConfig gemma = read({{"architectures", {"Gemma3ForConditionalGeneration"}},
                                  {"text_config",
                                   {{"hidden_size", 2560},
                                    {"intermediate_size", 10240},
                                    {"num_hidden_layers", 34},
                                    {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                                    {"sliding_window", 1024}}}});
  EXPECT_EQ(key(gemma, "gemma3.attention.head_count"), "8");
  EXPECT_EQ(key(gemma, "gemma3.attention.key_length"), "256");
  EXPECT_EQ(key(gemma, "gemma3.vocab_size"), "262208");
  EXPECT_EQ(key(gemma, "gemma3.rope.scaling.factor"), "8");
  EXPECT_EQ(key(gemma, "gemma3.rope.freq_base"), "1000000");
  EXPECT_EQ(key(gemma, "gemma3.rope.freq_base_swa"), "10000");
  EXPECT_EQ(key(gemma, "gemma3.attention.sliding_window"), "1024");
  EXPECT_EQ(key(gemma, "gemma3.attention.sliding_window_pattern").substr(0, 12), "111110111110");
  EXPECT_EQ(key(gemma, "gemma3.attention.scale"), "none");
  EXPECT_TRUE(gemma.tied);
}

TEST(ModelConfig, OldAndNewRopeSpellingsAgree) {
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.5}};
  Json with_theta = linear;
  with_theta["rope_theta"] = 5e5;
  const ModelConfig old_form =
      read(config("LlamaForCausalLM", {{"rope_theta", 5e5}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}}));
  const ModelConfig new_form = read(config("LlamaForCausalLM", {{"rope_parameters", with_theta}}));
  for (const char* name : {"llama.rope.freq_base", "llama.rope.scaling.type", "llama.rope.scaling.factor"}) {
    EXPECT_EQ(key(old_form, name), key(new_form, name));
    EXPECT_NE(key(old_form, name), "none");
  }
}

TEST(ModelConfig, Llama3FactorsKeepHighAndDivideLowFrequencies) {
  const Json rope = {{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  const ModelConfig model =
      read(config("LlamaForCausalLM", {{"head_dim", 128}, {"rope_theta", 5e5}, {"rope_scaling", rope}}));
  ASSERT_EQ(model.rope_factors.size(), 1u);
  EXPECT_EQ(model.rope_factors[0].tensor, "rope_freqs.weight");
  const std::vector<float>& factors = model.rope_factors[0].values;
  ASSERT_EQ(factors.size(), 64u);
  EXPECT_EQ(factors.front(), 1.0f);
  EXPECT_EQ(factors.back(), 8.0f);
  for (size_t i = 1; i < 64; ++i) EXPECT_GE(factors[i], factors[i - 1]);
  EXPECT_EQ(key(model, "llama.rope.scaling.type"), "none");
}

TEST(ModelConfig, YarnMagnitude) {
  const auto factor_key = [](const Json& more) {
    Json rope = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
    rope.update(more);
    return key(read(config("Qwen2ForCausalLM", {{"rope_scaling", rope}})), "qwen2.rope.scaling.attn_factor");
  };
  EXPECT_EQ(factor_key(Json::object()), "none");
  const double usual = 0.1 * std::log(4.0) + 1;
  EXPECT_FLOAT_EQ(std::stof(factor_key({{"attention_factor", 1.0}})), static_cast<float>(1 / usual));
  const double mscale = (0.1 * 2 * std::log(4.0) + 1) / usual;
  EXPECT_FLOAT_EQ(std::stof(factor_key({{"mscale", 2.0}, {"mscale_all_dim", 1.0}})),
                  static_cast<float>(mscale / usual));
}

TEST(ModelConfig, Windows) {
  const auto pattern = [](const Json& json, const std::string& arch) {
    return key(read(json), arch + ".attention.sliding_window_pattern");
  };
  EXPECT_EQ(pattern(config("MistralForCausalLM", {{"sliding_window", 4096}}), "llama"), "11");
  EXPECT_EQ(pattern(config("MistralForCausalLM", {{"sliding_window", nullptr}}), "llama"), "none");
  EXPECT_EQ(pattern(config("Qwen2ForCausalLM", {{"sliding_window", 8}}), "qwen2"), "none");
  const Json in_use = {{"sliding_window", 8}, {"use_sliding_window", true}, {"max_window_layers", 1}};
  EXPECT_EQ(pattern(config("Qwen2ForCausalLM", in_use), "qwen2"), "01");
  Json one_layer = in_use;
  one_layer.update({{"max_window_layers", 0}, {"num_hidden_layers", 1}});
  EXPECT_EQ(pattern(config("Qwen2ForCausalLM", one_layer), "qwen2"), "2");
  const Json types = {{"layer_types", {"full_attention", "sliding_attention"}}};
  EXPECT_EQ(pattern(config("Gemma3ForCausalLM", types), "gemma3"), "01");
  const Json smol = {{"sliding_window", 8}, {"use_sliding_window", true}, {"num_hidden_layers", 8}};
  EXPECT_EQ(pattern(config("SmolLM3ForCausalLM", smol), "smollm3"), "00010001");
}

// transformers 5.24: 4096 when the field is absent, no window when it is null.
TEST(ModelConfig, AnAbsentWindowIsTheClasssDefault) {
  const auto window = [](const Json& json, const std::string& arch) {
    return key(read(json), arch + ".attention.sliding_window");
  };
  EXPECT_EQ(window(config("MistralForCausalLM"), "llama"), "4096");
  EXPECT_EQ(window(config("MistralForCausalLM", {{"sliding_window", nullptr}}), "llama"), "none");
  Json in_use = {{"use_sliding_window", true}, {"max_window_layers", 1}};
  for (const char* name : {"qwen2", "qwen3"}) {
    const std::string hf_class = name == std::string("qwen2") ? "Qwen2ForCausalLM" : "Qwen3ForCausalLM";
    EXPECT_EQ(window(config(hf_class, in_use), name), "4096");
    EXPECT_EQ(window(config(hf_class), name), "none");
    Json no_window = in_use;
    no_window["sliding_window"] = nullptr;
    EXPECT_EQ(window(config(hf_class, no_window), name), "none");
  }
  EXPECT_EQ(window(config("SmolLM3ForCausalLM", in_use), "smollm3"), "none");
  EXPECT_EQ(window(config("Gemma3ForCausalLM"), "gemma3"), "4096");
  EXPECT_FALSE(read_model_config(config("Gemma3ForCausalLM", {{"sliding_window", nullptr}}), "x").has_value());
}

TEST(ModelConfig, LayersWithoutRopeMustBeTheRecipes) {
  EXPECT_TRUE(read_model_config(config("SmolLM3ForCausalLM"), "x").has_value());
  EXPECT_TRUE(read_model_config(config("SmolLM3ForCausalLM", {{"no_rope_layers", {1, 1}}}), "x").has_value());
  const auto other = read_model_config(config("SmolLM3ForCausalLM", {{"no_rope_layers", {1, 0}}}), "x");
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::unsupported);
  EXPECT_FALSE(read_model_config(config("SmolLM3ForCausalLM", {{"no_rope_layer_interval", 2}}), "x").has_value());
}

TEST(ModelConfig, FieldsGoByManyNames) {
  // A list of equal numbers is a number per layer; the width of experts stands in the field of dense models.
  const ModelConfig hunyuan = read(config("HunYuanMoEV1ForCausalLM", {{"num_experts", 4}, {"moe_topk", {2, 2}}}));
  EXPECT_EQ(key(hunyuan, "hunyuan-moe.expert_used_count"), "2");
  EXPECT_EQ(key(hunyuan, "hunyuan-moe.expert_feed_forward_length"), "96");
  EXPECT_EQ(key(hunyuan, "hunyuan-moe.expert_shared_feed_forward_length"), "96");
  const auto other =
      read_model_config(config("HunYuanMoEV1ForCausalLM", {{"num_experts", 4}, {"moe_topk", {2, 1}}}), "x");
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message(), testing::HasSubstr("x: moe_topk"));  // as the file spells it
  const ModelConfig gpt2 =
      read({{"architectures", {"GPT2LMHeadModel"}}, {"n_embd", 64}, {"n_layer", 2}, {"n_head", 4}});
  EXPECT_EQ(key(gpt2, "gpt2.feed_forward_length"), "256");
  EXPECT_EQ(key(gpt2, "gpt2.context_length"), "1024");
  EXPECT_EQ(key(gpt2, "gpt2.rope.freq_base"), "none");
  const ModelConfig neox = read(config("GPTNeoXForCausalLM", {{"rotary_pct", 0.5}, {"rotary_emb_base", 5000}}));
  EXPECT_EQ(neox.n_head_kv, 4);
  EXPECT_EQ(key(neox, "gptneox.rope.dimension_count"), "8");
  EXPECT_EQ(key(neox, "gptneox.rope.freq_base"), "5000");
  const ModelConfig minimax = read(config("MiniMaxM2ForCausalLM", {{"rotary_dim", 64}}));
  EXPECT_EQ(key(minimax, "minimax-m2.rope.dimension_count"), "64");
}

TEST(ModelConfig, FalconCountsKeyValueHeadsInTwoWays) {
  const auto n_kv = [](const Json& more) {
    Json json = {{"architectures", {"FalconForCausalLM"}},
                 {"hidden_size", 64},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_kv_heads", 2}};
    json.update(more);
    return read(json).n_head_kv;
  };
  EXPECT_EQ(n_kv({{"multi_query", true}, {"new_decoder_architecture", true}}), 2);
  EXPECT_EQ(n_kv({{"multi_query", true}, {"new_decoder_architecture", false}}), 1);
  EXPECT_EQ(n_kv({{"multi_query", false}}), 4);
}

// What cos and sin are multiplied with is attn_factor times what the engine assumes (arch/architectures.h, Yarn).
TEST(ModelConfig, YarnMagnitudeBesideTheLogMultiplier) {
  const auto keys = [](const std::string& hf_class, double mscale, double mscale_all) {
    Json json = config(hf_class, {{"n_group", 1}, {"num_experts_per_tok", 2}});
    json["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 4.0},
                            {"original_max_position_embeddings", 16},
                            {"mscale", mscale},
                            {"mscale_all_dim", mscale_all}};
    const ModelConfig model = read(json);
    const std::string arch(model.family->architecture);
    return std::pair(key(model, arch + ".rope.scaling.yarn_log_multiplier"),
                     key(model, arch + ".rope.scaling.attn_factor"));
  };
  using testing::Pair;
  EXPECT_THAT(keys("DeepseekV3ForCausalLM", 1, 1), Pair("0.1", "none"));
  EXPECT_THAT(keys("Ministral3ForCausalLM", 1, 1), Pair("1", "none"));
  EXPECT_THAT(keys("Ministral3ForCausalLM", 1, 0.5), Pair("0.5", "none"));
  EXPECT_THAT(keys("LlamaForCausalLM", 0, 0), Pair("none", "none"));
  const auto m = [](double mscale) { return 0.1 * mscale * std::log(4.0) + 1; };
  EXPECT_FLOAT_EQ(std::stof(keys("DeepseekV3ForCausalLM", 0.5, 1).second), static_cast<float>(m(0.5) / m(1)));
  EXPECT_FLOAT_EQ(std::stof(keys("Ministral3ForCausalLM", 2, 0.5).second), static_cast<float>(m(2) / m(1)));
}

TEST(ModelConfig, ExaoneSpellsItsWindowsInLetters) {
  const ModelConfig exaone =
      read(config("Exaone4ForCausalLM", {{"sliding_window", 8}, {"sliding_window_pattern", "LG"}}));
  EXPECT_EQ(key(exaone, "exaone4.attention.sliding_window_pattern"), "10");
}

TEST(ModelConfig, TextModelsOfMultimodalClasses) {
  for (const auto& [hf_class, arch] : {std::pair("Mistral3ForConditionalGeneration", "mistral3"),
                                       {"Llama4ForConditionalGeneration", "llama4"},
                                       {"Qwen3_5ForConditionalGeneration", "qwen35"},
                                       {"Qwen3_5MoeForConditionalGeneration", "qwen35moe"}}) {
    Json text = config("");
    text.erase("architectures");
    const ModelConfig model =
        read({{"architectures", {hf_class}}, {"text_config", text}, {"tie_word_embeddings", true}});
    EXPECT_EQ(model.family->architecture, arch);
    EXPECT_EQ(model.n_embd, 64);
    EXPECT_TRUE(model.tied);
  }
  Json text = config("");
  text["rope_parameters"] = {
      {"rope_type", "default"}, {"mrope_section", {11, 11, 10}}, {"partial_rotary_factor", 0.25}};
  const ModelConfig qwen = read({{"architectures", {"Qwen3_5ForConditionalGeneration"}}, {"text_config", text}});
  EXPECT_EQ(key(qwen, "qwen35.rope.dimension_sections"), "11 11 10 0");
  EXPECT_EQ(key(qwen, "qwen35.rope.dimension_count"), "64");
}

}  // namespace
}  // namespace tokamak::test
