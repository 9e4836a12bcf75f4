#include "server/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/settings.h"

namespace tokamak::server {

namespace {
using enum FieldType;
constexpr auto honoured = Treatment::honoured, ignored = Treatment::ignored, only = Treatment::refused_unless;
constexpr double kInt = 2147483647;

constexpr auto kFields = std::to_array<FieldRow>({
    {"model", kAnyGeneration, text, 0, 0, honoured, {}, "echoed; the one loaded model answers whatever it says"},
    {"messages", kChat, list, 0, 0, honoured, {}, "the conversation"},
    {"prompt", kCompletions | kNative, any, 0, 0, honoured, {}, "text, token ids, or a list mixing both"},
    {"stream", kAnyGeneration, boolean, 0, 0, honoured, {}, "answer as server-sent events"},
    {"stream_options", kChat | kCompletions, object, 0, 0, honoured, {}, "include_usage: a last event with the usage"},
    {"max_tokens",
     kChat | kCompletions,
     integer,
     -1,
     kInt,
     honoured,
     {},
     "most tokens to generate; -1: no limit of its own"},
    {"max_completion_tokens", kChat, integer, -1, kInt, honoured, {}, "the newer name of max_tokens"},
    {"n_predict", kNative, integer, -1, kInt, honoured, {}, "most tokens to generate; -1: no limit of its own"},
    {"n", kChat | kCompletions, integer, 1, 1, honoured, {}, "answers to one prompt"},
    {"best_of", kCompletions, any, 0, 0, only, "1", "more than one answer to choose from is not built"},
    {"stop", kAnyGeneration, any, 0, 0, honoured, {}, "text or list of texts that end the answer"},
    {"logprobs", kChat, boolean, 0, 0, honoured, {}, "log-probabilities of the generated tokens"},
    {"logprobs", kCompletions, integer, 0, 20, honoured, {}, "log-probabilities of so many best tokens"},
    {"top_logprobs", kChat, integer, 0, 20, honoured, {}, "log-probabilities of so many best tokens"},
    {"n_probs", kNative, integer, 0, 1000, honoured, {}, "log-probabilities of so many best tokens"},
    {"echo", kCompletions, boolean, 0, 0, honoured, {}, "the prompt in front of the answer"},
    {"suffix", kCompletions, any, 0, 0, only, "\"\"", "filling in the middle is not built"},
    {"frequency_penalty", kChat | kCompletions, number, -2, 2, honoured, {}, "as the setting"},
    {"presence_penalty", kChat | kCompletions, number, -2, 2, honoured, {}, "as the setting"},
    {"logit_bias", kAnyGeneration, any, 0, 0, honoured, {}, "object of token ids and biases, or list of pairs"},
    {"samplers", kAnyGeneration, any, 0, 0, honoured, {}, "names of the samplers in order"},
    {"dry_sequence_breakers", kAnyGeneration, list, 0, 0, honoured, {}, "texts that end a repetition"},
    {"ignore_eos", kAnyGeneration, boolean, 0, 0, honoured, {}, "never end by itself"},
    {"tools", kChat, list, 0, 0, honoured, {}, "shown to the model through its template"},
    {"tool_choice", kChat, any, 0, 0, only, "\"auto\"", "calls cannot be forced yet"},
    {"parallel_tool_calls", kChat, boolean, 0, 0, ignored, {}, "the model decides"},
    {"functions", kChat, any, 0, 0, only, "[]", "use tools"},
    {"response_format", kChat | kCompletions, any, 0, 0, only, R"({"type":"text"})",
     "structured output is not built yet"},
    {"json_schema", kAnyGeneration, any, 0, 0, only, "{}", "structured output is not built yet"},
    {"grammar", kAnyGeneration, any, 0, 0, only, "\"\"", "structured output is not built yet"},
    {"chat_template_kwargs", kChat, object, 0, 0, honoured, {}, "handed to the template, enable_thinking and the like"},
    {"add_generation_prompt", kChat, boolean, 0, 0, honoured, {}, "off: the prompt ends with the last message"},
    {"continue_final_message", kChat, boolean, 0, 0, honoured, {}, "the last message is an unfinished answer"},
    {"cache_prompt", kAnyGeneration, boolean, 0, 0, honoured, {}, "reuse and keep the prompt's computed tokens"},
    {"return_progress", kAnyGeneration, boolean, 0, 0, honoured, {}, "events while the prompt is processed"},
    {"timings_per_token", kAnyGeneration, boolean, 0, 0, honoured, {}, "timings with every event"},
    {"return_tokens", kNative, boolean, 0, 0, honoured, {}, "ids of the generated tokens"},
    {"t_max_predict_ms", kNative, number, 0, 1e9, honoured, {}, "time from the first generated token on; 0: no limit"},
    {"user", kChat | kCompletions, text, 0, 0, honoured, {}, "requests of one user share a turn"},
    {"metadata", kChat | kCompletions, any, 0, 0, ignored, {}, "nothing is stored"},
    {"store", kChat, any, 0, 0, ignored, {}, "nothing is stored"},
    {"service_tier", kChat, any, 0, 0, ignored, {}, "there is one"},
    {"prompt_cache_key", kChat | kCompletions, text, 0, 0, ignored, {}, "prefixes are found by their tokens"},
    {"content", kTokens, any, 0, 0, honoured, {}, "text to be tokenized"},
    {"tokens", kTokens, list, 0, 0, honoured, {}, "ids to be turned into text"},
    {"add_special", kTokens, boolean, 0, 0, honoured, {}, "put the model's special tokens around the text"},
    {"parse_special", kTokens, boolean, 0, 0, honoured, {}, "special tokens may be written in the text"},
    {"with_pieces", kTokens, boolean, 0, 0, honoured, {}, "each token's text, or its bytes where that is no UTF-8"},
});

const FieldRow* find_row(std::string_view name, Api api) {
  for (const FieldRow& row : kFields)
    if (row.name == name && (row.apis & api) != 0) return &row;
  return nullptr;
}

constexpr std::string_view type_name(FieldType type) {
  constexpr std::string_view kNames[] = {"true or false", "an integer", "a number", "text",
                                         "a list",        "an object",  "any"};
  return kNames[static_cast<size_t>(type)];
}

// 3.0 counts as an integer, as clients of dynamic languages send it.
bool is_integer(const Json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number_float() && std::nearbyint(value.get<double>()) == value.get<double>() &&
         std::abs(value.get<double>()) < 9e15;
}

bool has_type(const Json& value, FieldType type) {
  switch (type) {
    case boolean:
      return value.is_boolean();
    case integer:
      return is_integer(value);
    case number:
      return value.is_number();
    case text:
      return value.is_string();
    case list:
      return value.is_array();
    case object:
      return value.is_object();
    case any:
      break;
  }
  return true;
}

Result<void> check_row(const FieldRow& row, const Json& value) {
  if (row.treatment == Treatment::ignored) return {};
  if (row.treatment == Treatment::refused_unless) {
    if (value == Json::parse(row.only)) return {};
    return bad_field(row.name, fmt::format("only {} is accepted: {}", row.only, row.meaning));
  }
  if (!has_type(value, row.type)) return bad_field(row.name, fmt::format("must be {}", type_name(row.type)));
  if (row.min == row.max && row.type != integer) return {};
  if (!value.is_number() || (value.get<double>() >= row.min && value.get<double>() <= row.max)) return {};
  return bad_field(row.name, fmt::format("{} is outside {} to {}", value.dump(), row.min, row.max));
}

// A field that is a setting: its row says type and range.
Result<void> check_setting(const Setting& setting, const Json& value) {
  switch (setting.type) {
    case SettingType::flag:
      if (value.is_boolean()) return {};
      return bad_field(setting.json, "must be true or false");
    case SettingType::integer:
      if (!is_integer(value)) return bad_field(setting.json, "must be an integer");
      return check_setting_range(setting, value.get<double>(), setting.json);
    case SettingType::number:
      if (!value.is_number()) return bad_field(setting.json, "must be a number");
      return check_setting_range(setting, value.get<double>(), setting.json);
    case SettingType::choice:
    case SettingType::text:
    case SettingType::list:
      break;
  }
  return {};
}

bool is_of(const Setting& setting) { return (setting.scopes & kScopeServe) != 0; }
}  // namespace

Error bad_field(std::string_view name, std::string what) {
  return Error{.code = ErrorCode::bad_argument, .what = std::move(what), .where = std::string(name)};
}

std::span<const FieldRow> field_table() { return kFields; }

std::string fields_markdown() {
  std::string out =
      "# Request fields\n\nPrinted by the program from `src/server/fields.cpp`. Null counts as absent. Sampling fields "
      "are\n"
      "those of [settings](settings.md) with a JSON name. A field that is in no table is ignored.\n\n"
      "| field | endpoints | value | treatment | meaning |\n|---|---|---|---|---|\n";
  constexpr std::pair<Api, std::string_view> kApis[] = {
      {kChat, "chat"}, {kCompletions, "completions"}, {kNative, "completion"}, {kTokens, "tokenize"}};
  for (const FieldRow& row : kFields) {
    std::string apis;
    for (const auto& [api, name] : kApis)
      if ((row.apis & api) != 0) apis += (apis.empty() ? "" : ", ") + std::string(name);
    const std::string treatment = row.treatment == honoured  ? "honoured"
                                  : row.treatment == ignored ? "ignored"
                                                             : fmt::format("only `{}`", row.only);
    std::string value(type_name(row.type));
    if (row.min != row.max) value += fmt::format(", {} to {}", row.min, row.max);
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, apis, value, treatment, row.meaning);
  }
  return out;
}

Result<Fields> Fields::parse(std::string_view body, Api api) {
  Fields fields;
  fields.api_ = api;
  fields.json_ = TRY(parse_json(body, "body"));
  if (!fields.json_.is_object()) return bad_field("body", "must be a JSON object");
  TRY(fields.check());
  return fields;
}

Result<void> Fields::check() {
  for (const auto& [name, value] : json_.items()) {
    if (value.is_null()) continue;
    if (const FieldRow* row = find_row(name, api_)) {
      TRY(check_row(*row, value));
    } else if (const Setting* setting = find_setting_by_json(name); setting && is_of(*setting)) {
      TRY(check_setting(*setting, value));
    } else {
      unknown_.push_back(name);
    }
  }
  return {};
}

const Json* Fields::find(std::string_view name) const {
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}
bool Fields::flag(std::string_view name, bool fallback) const {
  const Json* value = find(name);
  return value ? value->get<bool>() : fallback;
}
int64_t Fields::integer(std::string_view name, int64_t fallback) const {
  const Json* value = find(name);
  if (!value) return fallback;
  return value->is_number_float() ? static_cast<int64_t>(value->get<double>()) : value->get<int64_t>();
}
double Fields::number(std::string_view name, double fallback) const {
  const Json* value = find(name);
  return value ? value->get<double>() : fallback;
}
std::string Fields::text(std::string_view name, std::string_view fallback) const {
  const Json* value = find(name);
  return value ? value->get<std::string>() : std::string(fallback);
}

}  // namespace tokamak::server
