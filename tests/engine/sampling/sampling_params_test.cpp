#include "engine/sampling/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/sampling/sampler_table.h"

namespace tokamak {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "no error" : result.error().message();
}

std::string error_with(double SamplerParams::*member, double value) {
  SamplerParams params;
  params.*member = value;
  return error_of(validate(params));
}
std::string error_with(int64_t SamplerParams::*member, int64_t value) {
  SamplerParams params;
  params.*member = value;
  return error_of(validate(params));
}

TEST(SamplerParams, DefaultsAreThoseOfTheSettingsTable) {
  const SamplerParams a, b = sampler_params(SettingValues()).value();
  EXPECT_EQ(std::tie(a.temperature, a.dynatemp_range, a.dynatemp_exponent, a.top_k, a.top_p, a.min_p, a.typical_p),
            std::tie(b.temperature, b.dynatemp_range, b.dynatemp_exponent, b.top_k, b.top_p, b.min_p, b.typical_p));
  EXPECT_EQ(std::tie(a.top_n_sigma, a.min_keep, a.repeat_penalty, a.repeat_last_n, a.presence_penalty),
            std::tie(b.top_n_sigma, b.min_keep, b.repeat_penalty, b.repeat_last_n, b.presence_penalty));
  EXPECT_EQ(std::tie(a.frequency_penalty, a.dry_multiplier, a.dry_base, a.dry_allowed_length, a.dry_penalty_last_n),
            std::tie(b.frequency_penalty, b.dry_multiplier, b.dry_base, b.dry_allowed_length, b.dry_penalty_last_n));
  EXPECT_EQ(std::tie(a.xtc_probability, a.xtc_threshold, a.mirostat, a.mirostat_tau, a.mirostat_eta, a.seed),
            std::tie(b.xtc_probability, b.xtc_threshold, b.mirostat, b.mirostat_tau, b.mirostat_eta, b.seed));
  EXPECT_EQ(std::tie(a.adaptive_target, a.adaptive_decay), std::tie(b.adaptive_target, b.adaptive_decay));
  EXPECT_EQ(std::tie(a.ignore_eos, a.dry_sequence_breakers, a.samplers),
            std::tie(b.ignore_eos, b.dry_sequence_breakers, b.samplers));
  EXPECT_TRUE(b.logit_bias.empty());
}

// Hard case 27.
TEST(SamplerParams, OutOfRangeNamesTheField) {
  EXPECT_EQ(error_with(&SamplerParams::temperature, 1e6),
            "temperature: 1000000 is out of range (a number from 0 to 100, default 0.8)");
  EXPECT_THAT(error_with(&SamplerParams::temperature, -1), StartsWith("temperature: -1 is out of range"));
  EXPECT_THAT(error_with(&SamplerParams::temperature, std::nan("")), StartsWith("temperature: nan"));
  EXPECT_THAT(error_with(&SamplerParams::top_p, -1), StartsWith("top_p: -1"));
  EXPECT_THAT(error_with(&SamplerParams::top_p, 2), StartsWith("top_p: 2"));
  EXPECT_THAT(error_with(&SamplerParams::top_k, int64_t{1} << 31), StartsWith("top_k: 2147483648"));
  EXPECT_THAT(error_with(&SamplerParams::top_k, -2), StartsWith("top_k: -2"));
  EXPECT_THAT(error_with(&SamplerParams::min_p, 1.5), StartsWith("min_p: 1.5"));
  EXPECT_THAT(error_with(&SamplerParams::repeat_penalty, 0), StartsWith("repeat_penalty: 0"));
  EXPECT_THAT(error_with(&SamplerParams::repeat_penalty, -3), StartsWith("repeat_penalty: -3"));
  EXPECT_THAT(error_with(&SamplerParams::repeat_penalty, 1e30), StartsWith("repeat_penalty: 1e+30"));
  EXPECT_THAT(error_with(&SamplerParams::mirostat, 3), StartsWith("mirostat: 3"));
  EXPECT_THAT(error_with(&SamplerParams::adaptive_target, 1.5), StartsWith("adaptive_target: 1.5"));
  EXPECT_THAT(error_with(&SamplerParams::adaptive_decay, 1), StartsWith("adaptive_decay: 1 is out of range"));
  for (double good : {0.0, 1e-9, 100.0}) EXPECT_EQ(error_with(&SamplerParams::temperature, good), "no error");
  for (double good : {0.0, 1.0}) EXPECT_EQ(error_with(&SamplerParams::top_p, good), "no error");
  for (int64_t good : {-1, 0, 1, 2147483647}) EXPECT_EQ(error_with(&SamplerParams::top_k, good), "no error");
}

TEST(SamplerParams, ListsAreChecked) {
  SamplerParams params;
  params.logit_bias = {{3, std::nanf("")}};
  EXPECT_THAT(error_of(validate(params)), StartsWith("logit_bias: nan for token 3"));
  params.logit_bias = {{3, std::numeric_limits<float>::infinity()}};
  EXPECT_THAT(error_of(validate(params)), StartsWith("logit_bias: inf for token 3"));
  params = {};
  params.samplers = {SamplerKind::top_k, SamplerKind::top_k};
  EXPECT_EQ(error_of(validate(params)), "samplers: 'top_k' comes twice (name each once)");
  params = {};
  params.dry_sequence_breakers = {""};
  EXPECT_THAT(error_of(validate(params)), StartsWith("dry_sequence_breakers: a breaker has 0 bytes"));
  params.dry_sequence_breakers.assign(65, "x");
  EXPECT_THAT(error_of(validate(params)), StartsWith("dry_sequence_breakers: 65 breakers"));
}

TEST(ParseSamplers, NamesAndLetters) {
  EXPECT_THAT(parse_samplers("top_k;temperature").value(), ElementsAre(SamplerKind::top_k, SamplerKind::temperature));
  EXPECT_THAT(parse_samplers("kt").value(), ElementsAre(SamplerKind::top_k, SamplerKind::temperature));
  EXPECT_THAT(parse_samplers("typical_p").value(), ElementsAre(SamplerKind::typ_p));
  EXPECT_THAT(parse_samplers("temp;").value(), ElementsAre(SamplerKind::temperature));
  EXPECT_TRUE(parse_samplers("").value().empty());
  EXPECT_EQ(parse_samplers("edskypmxt").value(), SamplerParams().samplers);
  EXPECT_EQ(error_of(parse_samplers("top_k;top_q")), "samplers: 'top_q' is no sampler (did you mean top_k?)");
  EXPECT_THAT(error_of(parse_samplers("kz")), HasSubstr("'z' is no sampler (known: penalties (e), dry (d)"));
  EXPECT_THAT(error_of(parse_samplers("kk")), HasSubstr("'top_k' comes twice"));
  EXPECT_THAT(error_of(parse_samplers("top_k;;temp")), HasSubstr("'' is no sampler"));
}

TEST(ParseLogitBias, Forms) {
  const auto bias = [](std::string_view text) {
    const LogitBias b = parse_logit_bias(text).value();
    return std::pair(b.token, b.bias);
  };
  EXPECT_EQ(bias("15043+1"), std::pair(15043, 1.0f));
  EXPECT_EQ(bias("15043-1.5"), std::pair(15043, -1.5f));
  EXPECT_EQ(bias("7=2"), std::pair(7, 2.0f));
  EXPECT_EQ(bias("7=-2"), std::pair(7, -2.0f));
  EXPECT_EQ(bias("7=-inf"), std::pair(7, -std::numeric_limits<float>::infinity()));
  EXPECT_EQ(bias("7-inf"), std::pair(7, -std::numeric_limits<float>::infinity()));
  EXPECT_EQ(bias("7=false"), std::pair(7, -std::numeric_limits<float>::infinity()));
  for (std::string_view bad : {"", "7", "7=", "x+1", "7+inf", "7=nan", "7+1x", "-7+1", "7+-1", "7*2", "99999999999+1"})
    EXPECT_THAT(error_of(parse_logit_bias(bad)), StartsWith("logit_bias: '")) << bad;
}

TEST(SamplerParams, FromFlags) {
  SettingValues values;
  const std::vector<std::string_view> words = {
      "--temp", "0",  "--top-k", "7",           "--samplers", "kt", "-l", "5=-inf", "--dry-sequence-breaker",
      "none",   "-s", "9",       "--ignore-eos"};
  ASSERT_TRUE(values.read_arguments(kScopeRun, words).has_value());
  const SamplerParams params = sampler_params(values).value();
  EXPECT_TRUE(params.greedy());
  EXPECT_EQ(params.top_k, 7);
  EXPECT_EQ(params.seed, 9);
  EXPECT_TRUE(params.ignore_eos);
  EXPECT_TRUE(params.dry_sequence_breakers.empty());
  ASSERT_EQ(params.logit_bias.size(), 1u);
  EXPECT_EQ(params.logit_bias[0].token, 5);
  EXPECT_EQ(params.samplers.size(), 2u);
}

TEST(SamplerTable, LettersAndNamesAreUnique) {
  std::string letters;
  for (const SamplerRow& row : sampler_rows()) {
    EXPECT_EQ(letters.find(row.letter), std::string::npos) << row.name;
    letters += row.letter;
    EXPECT_EQ(parse_samplers(row.name).value(), parse_samplers(std::string_view(&row.letter, 1)).value());
  }
  EXPECT_EQ(letters, "edskypmxtia");
}

}  // namespace
}  // namespace tokamak
