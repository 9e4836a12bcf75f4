#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/utf8.h"

namespace tokamak::server {

namespace {

// Sampling settings by their JSON names; the table has checked types and ranges.
void read_numbers(const Fields& fields, SamplerParams& params) {
  for (const auto& [name, value] : fields.json().items()) {
    if (value.is_number()) set_sampler_field(params, name, value.get<double>());
    if (value.is_boolean()) set_sampler_field(params, name, value.get<bool>() ? 1 : 0);
  }
}

Result<float> read_bias(const Json& value, const std::string& where) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
  if (!value.is_number()) return bad_field(where, "a bias is a number, or false to forbid the token");
  return static_cast<float>(value.get<double>());
}

// {"15043": 1} or [[15043, 1], ["text", false]]: a text biases all its tokens.
Result<void> read_logit_bias(const Json& json, const Tokenizer& tokenizer, SamplerParams& params) {
  const auto add = [&](int64_t token, float bias, const std::string& where) -> Result<void> {
    if (params.logit_bias.size() >= static_cast<size_t>(tokenizer.n_vocab()))
      return bad_field(where, fmt::format("more biases than the {} tokens of the vocabulary", tokenizer.n_vocab()));
    if (token < 0 || token >= static_cast<int64_t>(tokenizer.n_vocab()))
      return bad_field(where, fmt::format("token id {} is outside 0..{}", token, tokenizer.n_vocab() - 1));
    params.logit_bias.push_back({static_cast<int32_t>(token), bias});
    return {};
  };
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      const std::string where = "logit_bias." + key;
      int64_t token = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
      if (error != std::errc() || end != key.data() + key.size()) return bad_field(where, "is no token id");
      TRY(add(token, TRY(read_bias(value, where)), where));
    }
    return {};
  }
  if (!json.is_array()) return bad_field("logit_bias", "must be an object or a list of pairs");
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string where = fmt::format("logit_bias[{}]", i);
    const Json& pair = json[i];
    if (!pair.is_array() || pair.size() != 2) return bad_field(where, "must be a pair of a token and a bias");
    const float bias = TRY(read_bias(pair[1], where));
    if (pair[0].is_number_integer()) {
      TRY(add(pair[0].get<int64_t>(), bias, where));
    } else if (pair[0].is_string()) {
      for (int32_t token : tokenizer.encode(pair[0].get<std::string>(), {.add_special = false}))
        TRY(add(token, bias, where));
    } else {
      return bad_field(where, "must name a token id or a text");
    }
  }
  return {};
}

Result<std::vector<std::string>> read_texts(const Json& json, std::string_view name) {
  std::vector<std::string> out;
  if (json.is_string()) return std::vector<std::string>{json.get<std::string>()};
  if (!json.is_array()) return bad_field(name, "must be a text or a list of texts");
  for (size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_string()) return bad_field(fmt::format("{}[{}]", name, i), "must be a text");
    out.push_back(json[i].get<std::string>());
  }
  return out;
}

Result<void> read_stops(const Fields& fields, OutputOptions& output) {
  const std::string_view name = fields.has("stop_sequences") ? "stop_sequences" : "stop";
  const Json* stop = fields.find(name);
  if (!stop) return {};
  output.stops = TRY(read_texts(*stop, name));
  for (const std::string& text : output.stops)
    if (text.empty()) return bad_field(name, "must not be empty");
  if (output.stops.size() > OutputMachine::kMaxStops)
    return bad_field(name, fmt::format("more than {} texts", OutputMachine::kMaxStops));
  return {};
}

Result<void> read_sampling(const Fields& fields, const ServerContext& context, SamplerParams& params) {
  params = context.options.sampling;
  read_numbers(fields, params);
  if (const Json* bias = fields.find("logit_bias")) TRY(read_logit_bias(*bias, context.tokenizer(), params));
  if (const Json* breakers = fields.find("dry_sequence_breakers"))
    params.dry_sequence_breakers = TRY(read_texts(*breakers, "dry_sequence_breakers"));
  if (const Json* samplers = fields.find("samplers")) {
    std::string names;
    for (const std::string& name : TRY(read_texts(*samplers, "samplers"))) names += (names.empty() ? "" : ";") + name;
    params.samplers = TRY(parse_samplers(names));
  }
  params = TRY(validate(std::move(params)));
  return {};
}

}  // namespace

namespace {
int64_t token_limit(const Fields& fields, int64_t fallback) {
  for (const std::string_view name : {"max_completion_tokens", "max_output_tokens", "max_tokens", "n_predict"})
    if (fields.has(name)) return fields.integer(name, fallback);
  return fallback;
}

Result<void> read_logprobs(const Fields& fields, Api api, GenerationRequest& request) {
  if ((api & kAnyChat) != 0) {
    request.logprobs = api == kChat && fields.flag("logprobs", false);
    request.n_probs = static_cast<size_t>(fields.integer("top_logprobs", 0));
    if (request.n_probs > 0 && !request.logprobs && api == kChat)
      return bad_field("top_logprobs", "needs logprobs: true");
    return {};
  }
  const std::string_view name = api == kCompletions ? "logprobs" : "n_probs";
  request.logprobs = fields.has(name);
  request.post_sampling = fields.flag("post_sampling_probs", false);
  request.n_probs = static_cast<size_t>(fields.integer(name, 0));
  return {};
}
}  // namespace

Result<GenerationRequest> read_generation(const Fields& fields, Api api, const ServerContext& context) {
  GenerationRequest request;
  TRY(read_sampling(fields, context, request.sampling));
  TRY(read_stops(fields, request.output));
  TRY(read_logprobs(fields, api, request));
  request.n_predict = token_limit(fields, context.options.n_predict);
  request.max_seconds = fields.number("t_max_predict_ms", 0) / 1000;
  request.cache_prompt = fields.flag("cache_prompt", true);
  request.return_progress = fields.flag("return_progress", false);
  request.client = fields.text("user", "");
  request.priority = static_cast<int>(fields.integer("priority", 0));
  request.tenant = fields.text("cache_tenant", "");
  return request;
}

Json sampling_json(const SamplerParams& params) {
  Json out = Json::object();
  for (const auto& [name, value] : sampler_fields(params))
    std::visit([&](auto v) { out[std::string(name)] = v; }, value);
  return out;
}

namespace {
Result<void> append_piece(const Json& piece, const std::string& where, const Tokenizer& tokenizer,
                          std::vector<int32_t>& out) {
  if (piece.is_string()) {
    const std::vector<int32_t> tokens =
        tokenizer.encode(piece.get<std::string>(), {.add_special = out.empty(), .parse_special = true});
    out.insert(out.end(), tokens.begin(), tokens.end());
    return {};
  }
  if (!piece.is_number_integer()) return bad_field(where, "must be a token id or a text");
  const bool fits = piece.is_number_unsigned() ? piece.get<uint64_t>() < static_cast<uint64_t>(tokenizer.n_vocab())
                                               : piece.get<int64_t>() >= 0;
  if (!fits)
    return bad_field(where, fmt::format("token id {} is outside 0..{}", piece.dump(), tokenizer.n_vocab() - 1));
  out.push_back(static_cast<int32_t>(piece.get<uint64_t>()));
  return {};
}

}  // namespace

Result<std::vector<int32_t>> read_one_prompt(const Json& json, const std::string& where, const Tokenizer& tokenizer) {
  std::vector<int32_t> out;
  if (!json.is_array()) {
    TRY(append_piece(json, where, tokenizer, out));
  } else {
    for (size_t i = 0; i < json.size(); ++i)
      TRY(append_piece(json[i], fmt::format("{}[{}]", where, i), tokenizer, out));
  }
  if (out.empty()) return bad_field(where, "is empty");
  return out;
}

Result<std::vector<std::vector<int32_t>>> read_prompts(const Json& json, const Tokenizer& tokenizer) {
  if (!json.is_string() && !json.is_array()) return bad_field("prompt", "must be text or a list");
  std::vector<std::vector<int32_t>> out;
  const auto is_text = [](const Json& item) { return item.is_string(); };
  const auto is_list = [](const Json& item) { return item.is_array(); };
  const bool is_several =
      json.is_array() && !json.empty() && (std::ranges::all_of(json, is_text) || std::ranges::any_of(json, is_list));
  if (!is_several) {
    out.push_back(TRY(read_one_prompt(json, "prompt", tokenizer)));
    return out;
  }
  if (json.size() > kMaxPrompts) return bad_field("prompt", fmt::format("holds more than {} prompts", kMaxPrompts));
  for (size_t i = 0; i < json.size(); ++i)
    out.push_back(TRY(read_one_prompt(json[i], fmt::format("prompt[{}]", i), tokenizer)));
  return out;
}

std::vector<GenerationRequest> repeat(const GenerationRequest& request, size_t n,
                                      std::span<const OutputGrammar> grammars, const ServerContext& context,
                                      int32_t thought_token) {
  std::vector<GenerationRequest> out(n, request);
  for (size_t i = 0; i < n; ++i) {
    if (request.sampling.seed >= 0) out[i].sampling.seed = request.sampling.seed + static_cast<int64_t>(i);
    out[i].constraint = make_constraint(grammars, context.grammar, thought_token);
  }
  return out;
}

std::string_view openai_finish_reason(FinishReason reason) {
  return reason == FinishReason::end_of_text || reason == FinishReason::stop_string ? "stop" : "length";
}

Json usage_json(const RequestTimings& t) {
  const int64_t prompt = t.n_prompt + t.n_cached;
  return {{"prompt_tokens", prompt},
          {"completion_tokens", t.n_generated},
          {"total_tokens", prompt + t.n_generated},
          {"prompt_tokens_details", {{"cached_tokens", t.n_cached}}}};
}

Json timings_json(const RequestTimings& t) {
  const auto rate = [](int64_t n, double ms) { return ms > 0 ? 1000 * static_cast<double>(n) / ms : 0.0; };
  return {{"cache_n", t.n_cached},
          {"recomputed_n", t.n_recomputed},
          {"first_difference", t.first_difference},
          {"prompt_n", t.n_prompt},
          {"prompt_ms", t.prompt_ms},
          {"prompt_per_second", rate(t.n_prompt, t.prompt_ms)},
          {"predicted_n", t.n_generated},
          {"predicted_ms", t.decode_ms},
          {"predicted_per_second", rate(t.n_generated, t.decode_ms)}};
}

Json progress_json(const PromptProgress& p) {
  return {{"total", p.total}, {"cache", p.cache}, {"processed", p.processed}, {"time_ms", p.time_ms}};
}

namespace {
Json byte_list(std::string_view bytes) {
  Json out = Json::array();
  for (char c : bytes) out.push_back(static_cast<unsigned char>(c));
  return out;
}
Json one_logprob(int32_t id, float logprob, const Tokenizer& tokenizer) {
  const std::string bytes(tokenizer.token_bytes(id));
  return {{"token", replace_invalid_utf8(bytes)}, {"logprob", logprob}, {"bytes", byte_list(bytes)}};
}
}  // namespace

Json chat_logprobs(const std::vector<GeneratedToken>& tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const GeneratedToken& token : tokens) {
    Json entry = one_logprob(token.id, token.logprob, tokenizer);
    entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& top : token.top)
      entry["top_logprobs"].push_back(one_logprob(top.id, top.logprob, tokenizer));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

void TextLogprobs::add(const GeneratedToken& token, size_t offset, const Tokenizer& tokenizer,
                       bool is_first_of_prompt) {
  tokens.push_back(replace_invalid_utf8(std::string(tokenizer.token_bytes(token.id))));
  text_offset.push_back(offset);
  token_logprobs.push_back(is_first_of_prompt ? Json(nullptr) : Json(token.logprob));
  Json top = Json::object();
  for (const TokenLogprob& entry : token.top)
    top[replace_invalid_utf8(std::string(tokenizer.token_bytes(entry.id)))] = entry.logprob;
  top_logprobs.push_back(is_first_of_prompt ? Json(nullptr) : std::move(top));
}

Json TextLogprobs::json() const {
  return {{"tokens", tokens},
          {"token_logprobs", token_logprobs},
          {"top_logprobs", top_logprobs},
          {"text_offset", text_offset}};
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }
std::string event(const Json& json) { return "data: " + dump(json) + "\n\n"; }

void AnswerStream::open() {
  if (!is_open_) exchange_->begin_events(headers_);
  is_open_ = true;
}
bool AnswerStream::send(const Json& chunk) {
  open();
  return exchange_->send_event(event(chunk));
}
bool AnswerStream::send(std::string_view name, const Json& chunk) {
  open();
  return exchange_->send_event(fmt::format("event: {}\n{}", name, event(chunk)));
}
void AnswerStream::fail(const Error& error, Dialect dialect) {
  if (!is_open_) return exchange_->respond(error_response(dialect, error));
  const std::string_view name = dialect == Dialect::anthropic ? "event: error\n" : "";
  exchange_->send_event(fmt::format("{}data: {}\n\n", name, error_data(dialect, error)));
  exchange_->end_events();
}
void AnswerStream::end(bool with_done_event) {
  if (with_done_event) exchange_->send_event("data: [DONE]\n\n");
  exchange_->end_events();
}

Json usage_chunk(Json chunk, const RequestTimings& timings) {
  chunk["choices"] = Json::array();
  chunk["usage"] = usage_json(timings);
  return chunk;
}

bool wants_usage(const Fields& fields) {
  const Json* options = fields.find("stream_options");
  return options && options->contains("include_usage") && (*options)["include_usage"] == true;
}

}  // namespace tokamak::server
