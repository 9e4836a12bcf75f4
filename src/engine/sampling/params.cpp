#include "engine/sampling/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/sampling/sampler_table.h"

namespace tokamak {

namespace {

// A member and the settings row that rules it.
struct Field {
  std::string_view json;
  std::variant<double SamplerParams::*, int64_t SamplerParams::*, bool SamplerParams::*> member;
};

constexpr auto kFields = std::to_array<Field>({
    {"temperature", &SamplerParams::temperature},
    {"dynatemp_range", &SamplerParams::dynatemp_range},
    {"dynatemp_exponent", &SamplerParams::dynatemp_exponent},
    {"top_k", &SamplerParams::top_k},
    {"top_p", &SamplerParams::top_p},
    {"min_p", &SamplerParams::min_p},
    {"typical_p", &SamplerParams::typical_p},
    {"top_n_sigma", &SamplerParams::top_n_sigma},
    {"min_keep", &SamplerParams::min_keep},
    {"repeat_penalty", &SamplerParams::repeat_penalty},
    {"repeat_last_n", &SamplerParams::repeat_last_n},
    {"presence_penalty", &SamplerParams::presence_penalty},
    {"frequency_penalty", &SamplerParams::frequency_penalty},
    {"dry_multiplier", &SamplerParams::dry_multiplier},
    {"dry_base", &SamplerParams::dry_base},
    {"dry_allowed_length", &SamplerParams::dry_allowed_length},
    {"dry_penalty_last_n", &SamplerParams::dry_penalty_last_n},
    {"xtc_probability", &SamplerParams::xtc_probability},
    {"xtc_threshold", &SamplerParams::xtc_threshold},
    {"mirostat", &SamplerParams::mirostat},
    {"mirostat_tau", &SamplerParams::mirostat_tau},
    {"mirostat_eta", &SamplerParams::mirostat_eta},
    {"adaptive_target", &SamplerParams::adaptive_target},
    {"adaptive_decay", &SamplerParams::adaptive_decay},
    {"seed", &SamplerParams::seed},
    {"ignore_eos", &SamplerParams::ignore_eos},
});

constexpr size_t kMaxBreakers = 64, kMaxBreakerBytes = 256;

const Setting& setting_of(std::string_view json) {
  const Setting* setting = find_setting_by_json(json);
  CHECK(setting != nullptr, json);
  return *setting;
}

Error bad_field(std::string_view field, std::string what, std::string hint) {
  return Error{ErrorCode::bad_argument, std::move(what), std::string(field), std::move(hint)};
}

Result<void> check_breakers(const std::vector<std::string>& breakers) {
  if (breakers.size() > kMaxBreakers)
    return bad_field("dry_sequence_breakers", fmt::format("{} breakers", breakers.size()),
                     fmt::format("at most {} are allowed", kMaxBreakers));
  for (const std::string& breaker : breakers)
    if (breaker.empty() || breaker.size() > kMaxBreakerBytes)
      return bad_field("dry_sequence_breakers", fmt::format("a breaker has {} bytes", breaker.size()),
                       fmt::format("1 to {} are allowed", kMaxBreakerBytes));
  return {};
}

Result<void> check_samplers(const std::vector<SamplerKind>& samplers) {
  for (size_t i = 0; i < samplers.size(); ++i) {
    CHECK(samplers[i] < SamplerKind::count_, static_cast<int>(samplers[i]));
    if (std::find(samplers.begin(), samplers.begin() + static_cast<ptrdiff_t>(i), samplers[i]) !=
        samplers.begin() + static_cast<ptrdiff_t>(i))
      return bad_field("samplers", fmt::format("'{}' comes twice", sampler_row(samplers[i]).name), "name each once");
  }
  return {};
}

Error unknown_sampler(std::string_view name) {
  std::vector<std::string_view> names;
  std::string all;
  for (const SamplerRow& row : sampler_rows()) {
    names.push_back(row.name);
    all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", row.name, row.letter);
  }
  const std::string_view near = nearest_name(name, names);
  return bad_field("samplers", fmt::format("'{}' is no sampler", name),
                   near.empty() ? "known: " + all : fmt::format("did you mean {}?", near));
}

const SamplerRow* find_sampler(std::string_view name) {
  for (const SamplerRow& row : sampler_rows())
    if (name == row.name || (!row.alias.empty() && name == row.alias)) return &row;
  return nullptr;
}

}  // namespace

Result<SamplerParams> validate(SamplerParams params) {
  for (const Field& field : kFields) {
    const double value = std::visit([&](auto member) { return static_cast<double>(params.*member); }, field.member);
    if (!std::holds_alternative<bool SamplerParams::*>(field.member))
      TRY(check_setting_range(setting_of(field.json), value, field.json));
  }
  TRY(check_breakers(params.dry_sequence_breakers));
  TRY(check_samplers(params.samplers));
  for (const LogitBias& bias : params.logit_bias)
    if (std::isnan(bias.bias) || bias.bias == std::numeric_limits<float>::infinity())
      return bad_field("logit_bias", fmt::format("{} for token {}", bias.bias, bias.token),
                       "give a finite number, or -inf to forbid the token");
  return params;
}

bool set_sampler_field(SamplerParams& params, std::string_view json, double value) {
  for (const Field& field : kFields) {
    if (field.json != json) continue;
    std::visit(
        [&](auto member) {
          using Member = std::remove_reference_t<decltype(params.*member)>;
          if constexpr (std::is_same_v<Member, bool>)
            params.*member = value != 0;
          else
            params.*member = static_cast<Member>(value);
        },
        field.member);
    return true;
  }
  return false;
}

std::vector<std::pair<std::string_view, SamplerValue>> sampler_fields(const SamplerParams& params) {
  std::vector<std::pair<std::string_view, SamplerValue>> out;
  for (const Field& field : kFields)
    std::visit([&](auto member) { out.emplace_back(field.json, params.*member); }, field.member);
  return out;
}

Result<SamplerParams> sampler_params(const SettingValues& values) {
  SamplerParams params;
  for (const Field& field : kFields)
    std::visit(
        [&]<class T>(T SamplerParams::*member) { params.*member = std::get<T>(values.value(setting_of(field.json))); },
        field.member);
  params.dry_sequence_breakers = values.list("--dry-sequence-breaker");
  if (params.dry_sequence_breakers == std::vector<std::string>{"none"}) params.dry_sequence_breakers.clear();
  params.samplers = TRY(parse_samplers(values.text("--samplers")));
  for (const std::string& text : values.list("--logit-bias")) params.logit_bias.push_back(TRY(parse_logit_bias(text)));
  return validate(std::move(params));
}

Result<std::vector<SamplerKind>> parse_samplers(std::string_view text) {
  std::vector<SamplerKind> kinds;
  if (text.find(';') != std::string_view::npos || find_sampler(text) != nullptr ||
      text.size() > sampler_rows().size()) {
    while (!text.empty()) {
      const size_t end = std::min(text.find(';'), text.size());
      const std::string_view name = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      const SamplerRow* row = find_sampler(name);
      if (row == nullptr) return unknown_sampler(name);
      kinds.push_back(row->kind);
    }
  } else {
    for (char letter : text) {
      const auto rows = sampler_rows();
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const SamplerRow& r) { return r.letter == letter; });
      if (row == rows.end()) return unknown_sampler(std::string_view(&letter, 1));
      kinds.push_back(row->kind);
    }
  }
  TRY(check_samplers(kinds));
  return kinds;
}

Result<LogitBias> parse_logit_bias(std::string_view text) {
  const Error bad = bad_field("logit_bias", fmt::format("'{}' is not a bias", text),
                              "write TOKEN_ID+BIAS, TOKEN_ID-BIAS, TOKEN_ID=BIAS or TOKEN_ID=-inf");
  LogitBias bias{0, 0};
  const char* const last = text.data() + text.size();
  const auto [sign, errc] = std::from_chars(text.data(), last, bias.token);
  if (errc != std::errc() || sign == last || bias.token < 0) return bad;
  if (*sign != '+' && *sign != '-' && *sign != '=') return bad;
  if (*sign == '=' && std::string_view(sign + 1, last) == "false") {
    bias.bias = -std::numeric_limits<float>::infinity();
    return bias;
  }
  const char* const number = *sign == '-' ? sign : sign + 1;
  if (*sign == '+' && number != last && *number == '-') return bad;
  const auto [end, number_errc] = std::from_chars(number, last, bias.bias);
  if (number_errc != std::errc() || end != last || std::isnan(bias.bias) || (std::isinf(bias.bias) && bias.bias > 0))
    return bad;
  return bias;
}

}  // namespace tokamak
