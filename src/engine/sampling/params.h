// What a request may ask of the sampler. Ranges, defaults and JSON names are the rows of base/settings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace tokamak {

enum class SamplerKind : uint8_t {
  penalties,
  dry,
  top_n_sigma,
  top_k,
  typ_p,
  top_p,
  min_p,
  xtc,
  temperature,
  infill,
  adaptive_p,
  count_
};

struct LogitBias {
  int32_t token;
  float bias;  // added to the logit; -infinity forbids the token
};

// The members up to ignore_eos bear the JSON names of their settings rows, which state range and meaning; a test
// holds the defaults equal.
struct SamplerParams {
  double temperature = 0.8;
  double dynatemp_range = 0;
  double dynatemp_exponent = 1;
  int64_t top_k = 40;
  double top_p = 0.95;
  double min_p = 0.05;
  double typical_p = 1;
  double top_n_sigma = -1;
  int64_t min_keep = 0;
  double repeat_penalty = 1;
  int64_t repeat_last_n = 64;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double dry_multiplier = 0;
  double dry_base = 1.75;
  int64_t dry_allowed_length = 2;
  int64_t dry_penalty_last_n = 64;
  double xtc_probability = 0;
  double xtc_threshold = 0.1;
  int64_t mirostat = 0;
  double mirostat_tau = 5;
  double mirostat_eta = 0.1;
  double adaptive_target = -1;
  double adaptive_decay = 0.9;
  int64_t seed = -1;
  bool ignore_eos = false;
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::vector<SamplerKind> samplers = {SamplerKind::penalties, SamplerKind::dry,   SamplerKind::top_n_sigma,
                                       SamplerKind::top_k,     SamplerKind::typ_p, SamplerKind::top_p,
                                       SamplerKind::min_p,     SamplerKind::xtc,   SamplerKind::temperature};
  std::vector<LogitBias> logit_bias;
  std::vector<int32_t> suppress_tokens;  // never chosen

  // Always the most probable token: temperature 0 without a range, and no Mirostat.
  bool greedy() const { return temperature == 0 && dynatemp_range == 0 && mirostat == 0; }
};

// The parameters themselves if all are in range. Errors: bad_argument, `where` is the JSON field.
Result<SamplerParams> validate(SamplerParams params);

// Sets the member of this JSON name (numbers and flags only); false: there is none. Ranges are left to validate().
bool set_sampler_field(SamplerParams& params, std::string_view json, double value);

// All members with a JSON name, numbers and flags, in the order of the table.
using SamplerValue = std::variant<bool, int64_t, double>;
std::vector<std::pair<std::string_view, SamplerValue>> sampler_fields(const SamplerParams& params);

// The sampling rows of the command line or environment, validated.
Result<SamplerParams> sampler_params(const SettingValues& values);

// "top_k;temperature" or the letters "kt"; empty text is the empty chain. Errors: bad_argument for unknown and repeated
// samplers, naming the nearest known one.
Result<std::vector<SamplerKind>> parse_samplers(std::string_view text);

// "15043+1", "15043-1", "15043=-inf", "15043=false" (forbids).
Result<LogitBias> parse_logit_bias(std::string_view text);

}  // namespace tokamak
