// Endpoints that do not generate: tokens, templates, the server's own state.
#include <fmt/format.h>

#include "base/utf8.h"
#include "server/chat_fields.h"
#include "server/endpoints.h"
#include "server/generation.h"

namespace tokamak::server {

namespace {
void answer(const std::shared_ptr<Exchange>& exchange, Result<Json> json) {
  if (json)
    exchange->respond({.body = dump(*json)});
  else
    exchange->respond(error_response(Dialect::openai, json.error()));
}

Json piece_json(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return Json(std::string(bytes));
  Json list = Json::array();
  for (char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

Result<Json> tokenize_json(const Fields& fields, const Tokenizer& tokenizer) {
  const Json* content = fields.find("content");
  if (!content || !content->is_string()) return bad_field("content", content ? "must be text" : "is missing");
  const auto ids = tokenizer.encode(content->get<std::string>(), {.add_special = fields.flag("add_special", false),
                                                                  .parse_special = fields.flag("parse_special", true)});
  Json tokens = Json::array();
  for (int32_t id : ids)
    tokens.push_back(fields.flag("with_pieces", false)
                         ? Json{{"id", id}, {"piece", piece_json(tokenizer.token_bytes(id))}}
                         : Json(id));
  return Json{{"tokens", std::move(tokens)}};
}

Result<Json> detokenize_json(const Fields& fields, const Tokenizer& tokenizer) {
  const Json* tokens = fields.find("tokens");
  if (!tokens) return bad_field("tokens", "is missing");
  std::vector<int32_t> ids;
  for (size_t i = 0; i < tokens->size(); ++i) {
    const Json& id = (*tokens)[i];
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(tokenizer.n_vocab()))
      return bad_field(fmt::format("tokens[{}]", i),
                       fmt::format("must be a token id of 0..{}", tokenizer.n_vocab() - 1));
    ids.push_back(id.get<int32_t>());
  }
  return Json{{"content", replace_invalid_utf8(tokenizer.decode(ids, {.keep_special = true}))}};
}
}  // namespace

Json model_meta(const ServerContext& context) {
  const arch::Hparams& hp = context.model.hparams();
  return {{"n_vocab", hp.n_vocab}, {"n_ctx", context.service.n_ctx()},     {"n_ctx_train", hp.n_ctx_train},
          {"n_embd", hp.n_embd},   {"n_params", context.model.n_params()}, {"size", context.model.file().n_bytes()}};
}

void tokenize(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  auto fields = Fields::parse(exchange->request().body, kTokens);
  answer(exchange, fields ? tokenize_json(*fields, context.tokenizer()) : Result<Json>(fields.error()));
}

void detokenize(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  auto fields = Fields::parse(exchange->request().body, kTokens);
  answer(exchange, fields ? detokenize_json(*fields, context.tokenizer()) : Result<Json>(fields.error()));
}

void apply_template(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const auto render = [&]() -> Result<Json> {
    const Fields fields = TRY(Fields::parse(exchange->request().body, kChat));
    const ChatPrompt prompt = TRY(make_chat_prompt(TRY(read_chat(fields, context)), context));
    return Json{{"prompt", prompt.text}};
  };
  answer(exchange, render());
}

void health(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const ServiceStats stats = context.service.stats();
  if (stats.stuck) return exchange->respond(error_response(Dialect::openai, 503, "the device does not answer"));
  if (stats.lost) return exchange->respond(error_response(Dialect::openai, 503, stats.lost->message()));
  if (stats.draining) return exchange->respond(error_response(Dialect::openai, 503, "the server is shutting down"));
  exchange->respond({.body = R"({"status":"ok"})"});
}

void models(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  Json model = {{"id", context.model_name},
                {"object", "model"},
                {"created", context.created},
                {"owned_by", "tokamak"},
                {"meta", model_meta(context)}};
  exchange->respond({.body = dump({{"object", "list"}, {"data", Json::array({std::move(model)})}})});
}

// Prometheus' text form. Source: prometheus.io, exposition formats.
void metrics(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const ServiceStats s = context.service.stats();
  struct Row {
    std::string_view name, type, help;
    double value;
  };
  const auto n = [](auto value) { return static_cast<double>(value); };
  const Row rows[] = {
      {"requests_total", "counter", "Requests accepted.", n(s.n_submitted)},
      {"requests_refused_total", "counter", "Requests refused because the queue was full.", n(s.n_refused)},
      {"requests_failed_total", "counter", "Requests that ended with an error.", n(s.n_failed)},
      {"requests_cancelled_total", "counter", "Requests whose client left.", n(s.n_cancelled)},
      {"prompt_tokens_total", "counter", "Prompt tokens computed.", n(s.n_prompt_tokens)},
      {"prompt_tokens_cached_total", "counter", "Prompt tokens found in the prefix cache.", n(s.n_cached_tokens)},
      {"tokens_predicted_total", "counter", "Tokens generated.", n(s.n_generated_tokens)},
      {"prompt_seconds_total", "counter", "Time spent on prompts.", s.prompt_seconds},
      {"tokens_predicted_seconds_total", "counter", "Time spent on generating.", s.decode_seconds},
      {"steps_total", "counter", "Passes of the model.", n(s.n_steps)},
      {"step_sequences_total", "counter", "Sequences in them.", n(s.n_step_sequences)},
      {"requests_processing", "gauge", "Requests that run.", n(s.n_running)},
      {"requests_deferred", "gauge", "Requests that wait.", n(s.n_queued)},
      {"kv_tokens", "gauge", "Tokens that the KV cache holds.", n(s.kv_tokens)},
      {"cache_bytes", "gauge", "Bytes of the prefix cache.", n(s.cache_bytes)},
      {"token_gap_max_milliseconds", "gauge", "Longest time between two tokens of a stream.", s.max_gap_ms},
  };
  std::string text;
  for (const Row& row : rows)
    text += fmt::format("# HELP tokamak_{0} {1}\n# TYPE tokamak_{0} {2}\ntokamak_{0} {3}\n", row.name, row.help,
                        row.type, row.value);
  exchange->respond({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(text)});
}

}  // namespace tokamak::server
