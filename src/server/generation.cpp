#include "server/generation.h"

#include <fmt/format.h>

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
  const Json* stop = fields.find("stop");
  if (!stop) return {};
  output.stops = TRY(read_texts(*stop, "stop"));
  for (const std::string& text : output.stops)
    if (text.empty()) return bad_field("stop", "must not be empty");
  if (output.stops.size() > OutputMachine::kMaxStops)
    return bad_field("stop", fmt::format("more than {} texts", OutputMachine::kMaxStops));
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

Result<GenerationRequest> read_generation(const Fields& fields, Api api, const ServerContext& context) {
  GenerationRequest request;
  TRY(read_sampling(fields, context, request.sampling));
  TRY(read_stops(fields, request.output));
  const int64_t fallback = fields.integer("max_tokens", context.options.n_predict);
  request.n_predict = api == kNative ? fields.integer("n_predict", context.options.n_predict)
                                     : fields.integer("max_completion_tokens", fallback);
  if (api == kChat) {
    request.logprobs = fields.flag("logprobs", false);
    request.n_probs = static_cast<size_t>(fields.integer("top_logprobs", 0));
    if (request.n_probs > 0 && !request.logprobs) return bad_field("top_logprobs", "needs logprobs: true");
  } else {
    const std::string_view name = api == kNative ? "n_probs" : "logprobs";
    request.logprobs = fields.has(name);
    request.n_probs = static_cast<size_t>(fields.integer(name, 0));
  }
  request.max_seconds = fields.number("t_max_predict_ms", 0) / 1000;
  request.cache_prompt = fields.flag("cache_prompt", true);
  request.return_progress = fields.flag("return_progress", false);
  request.client = fields.text("user", "");
  return request;
}

Result<std::vector<int32_t>> read_prompt(const Json& json, const Tokenizer& tokenizer) {
  if (json.is_string()) return tokenizer.encode(json.get<std::string>(), {.parse_special = true});
  if (!json.is_array()) return bad_field("prompt", "must be text or a list of token ids and texts");
  std::vector<int32_t> out;
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string where = fmt::format("prompt[{}]", i);
    if (json[i].is_string()) {
      for (int32_t token : tokenizer.encode(json[i].get<std::string>(), {.add_special = i == 0, .parse_special = true}))
        out.push_back(token);
      continue;
    }
    if (!json[i].is_number_integer()) return bad_field(where, "must be a token id or a text");
    const bool fits = json[i].is_number_unsigned()
                          ? json[i].get<uint64_t>() < static_cast<uint64_t>(tokenizer.n_vocab())
                          : json[i].get<int64_t>() >= 0;
    if (!fits)
      return bad_field(where, fmt::format("token id {} is outside 0..{}", json[i].dump(), tokenizer.n_vocab() - 1));
    out.push_back(static_cast<int32_t>(json[i].get<uint64_t>()));
  }
  if (out.empty()) return bad_field("prompt", "is empty");
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

bool AnswerStream::send(const Json& chunk) {
  if (!is_open_) exchange_->begin_events();
  is_open_ = true;
  return exchange_->send_event(event(chunk));
}
void AnswerStream::fail(const Error& error) {
  if (!is_open_) return exchange_->respond(error_response(Dialect::openai, error));
  exchange_->send_event("data: " + error_data(Dialect::openai, error) + "\n\n");
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

void submit(const std::shared_ptr<Exchange>& exchange, ServerContext& context, GenerationRequest request,
            std::unique_ptr<AnswerWriter> writer, Dialect dialect) {
  const std::shared_ptr<AnswerWriter> shared = std::move(writer);
  EventSink sink = [shared](const Event& event) {
    return std::visit(
        [&](const auto& e) {
          using E = std::decay_t<decltype(e)>;
          if constexpr (std::is_same_v<E, PromptProgress>) return shared->progress(e);
          if constexpr (std::is_same_v<E, PromptScores>) return shared->scores(e);
          if constexpr (std::is_same_v<E, TokensEvent>) return shared->tokens(e);
          if constexpr (std::is_same_v<E, Finished>) shared->finished(e);
          if constexpr (std::is_same_v<E, Failed>) shared->failed(e.error);
          return true;
        },
        event);
  };
  auto handle = context.service.submit(std::move(request), std::move(sink));
  if (!handle) {
    const bool busy = handle.error().code == ErrorCode::queue_full;
    exchange->respond(error_response(dialect, handle.error(), busy ? context.service.retry_after_seconds() : 0));
    return;
  }
  exchange->on_disconnect([&service = context.service, id = *handle] { service.cancel(id); });
}

}  // namespace tokamak::server
