// POST /v1/completions and the native POST /completion.
#include "server/endpoints.h"
#include "server/generation.h"

namespace tokamak::server {

namespace {

std::string text_of(const std::vector<OutputEvent>& events) {
  std::string text;
  for (const OutputEvent& e : events) text += e.text;
  return text;
}

struct TextOptions {
  bool stream = false, usage = false, timings = false, logprobs = false, echo = false, return_tokens = false;
};

// --- OpenAI ---

class TextAnswer : public AnswerWriter {
 public:
  TextAnswer(std::shared_ptr<Exchange> exchange, const ServerContext& context, std::string model,
             std::vector<int32_t> prompt, TextOptions options)
      : stream_(std::move(exchange)),
        context_(context),
        model_(std::move(model)),
        prompt_(std::move(prompt)),
        options_(options) {
    if (!options_.echo) return;
    text_ = context_.tokenizer().decode(prompt_, {.keep_special = true});
    add_scores({.id = prompt_.front()}, true);
  }

  bool progress(const PromptProgress& progress) override {
    if (!options_.stream) return true;
    Json chunk = make_json("", nullptr);
    chunk["prompt_progress"] = progress_json(progress);
    return stream_.send(chunk);
  }
  bool scores(const PromptScores& scores) override {
    for (const GeneratedToken& token : scores.tokens) add_scores(token, false);
    return true;
  }
  bool tokens(const TokensEvent& event) override {
    const std::string text = text_of(event.text);
    for (const GeneratedToken& token : event.tokens) add_scores(token, false);
    if (!options_.stream) return text_ += text, true;
    Json chunk = make_json(std::exchange(text_, {}) + text, nullptr);
    if (options_.timings) chunk["timings"] = timings_json(event.timings);
    return stream_.send(chunk);
  }
  void finished(const Finished& finished) override {
    if (finished.reason == FinishReason::cancelled) return;
    Json json = make_json(std::exchange(text_, {}), Json(openai_finish_reason(finished.reason)));
    if (finished.matched_stop) json["choices"][0]["stop_reason"] = *finished.matched_stop;
    json["timings"] = timings_json(finished.timings);
    if (!options_.stream) {
      json["usage"] = usage_json(finished.timings);
      return stream_.respond(json);
    }
    stream_.send(json);
    if (options_.usage) stream_.send(usage_chunk(make_json("", nullptr), finished.timings));
    stream_.end(true);
  }
  void failed(const Error& error) override { stream_.fail(error); }

 private:
  void add_scores(const GeneratedToken& token, bool is_first_of_prompt) {
    if (!options_.logprobs) return;
    scores_.add(token, offset_, context_.tokenizer(), is_first_of_prompt);
    offset_ += context_.tokenizer().token_bytes(token.id).size();
  }
  Json make_json(std::string text, Json finish_reason) {
    Json choice = {{"index", 0}, {"text", std::move(text)}, {"logprobs", nullptr}};
    if (options_.logprobs) choice["logprobs"] = std::exchange(scores_, {}).json();
    choice["finish_reason"] = std::move(finish_reason);
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", model_},
            {"choices", Json::array({std::move(choice)})}};
  }

  AnswerStream stream_;
  const ServerContext& context_;
  std::string model_;
  std::vector<int32_t> prompt_;
  TextOptions options_;
  std::string id_ = new_id("cmpl-");
  int64_t created_ = unix_seconds();
  std::string text_;
  TextLogprobs scores_;
  size_t offset_ = 0;  // bytes of the text before the next token
};

Result<void> run_completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kCompletions));
  const Json* prompt = fields.find("prompt");
  if (!prompt) return bad_field("prompt", "is missing");
  GenerationRequest request = TRY(read_generation(fields, kCompletions, context));
  if (!fields.has("max_tokens")) request.n_predict = 16;  // the API's default
  request.prompt = TRY(read_prompt(*prompt, context.tokenizer()));
  const TextOptions options{.stream = fields.flag("stream", false),
                            .usage = wants_usage(fields),
                            .timings = fields.flag("timings_per_token", false),
                            .logprobs = request.logprobs,
                            .echo = fields.flag("echo", false)};
  request.prompt_logprobs = options.echo && options.logprobs;
  if (!options.stream) request.return_progress = false;
  auto writer = std::make_unique<TextAnswer>(exchange, context, fields.text("model", context.model_name),
                                             request.prompt, options);
  submit(exchange, context, std::move(request), std::move(writer), Dialect::openai);
  return {};
}

// --- native ---

Json native_probabilities(const std::vector<GeneratedToken>& tokens, const Tokenizer& tokenizer) {
  return chat_logprobs(tokens, tokenizer)["content"];
}

std::string_view stop_type(FinishReason reason) {
  if (reason == FinishReason::end_of_text) return "eos";
  return reason == FinishReason::stop_string ? "word" : "limit";
}

class NativeAnswer : public AnswerWriter {
 public:
  NativeAnswer(std::shared_ptr<Exchange> exchange, const ServerContext& context, TextOptions options)
      : stream_(std::move(exchange)), context_(context), options_(options) {}

  bool progress(const PromptProgress& progress) override {
    if (!options_.stream) return true;
    return stream_.send({{"content", ""}, {"stop", false}, {"prompt_progress", progress_json(progress)}});
  }
  bool tokens(const TokensEvent& event) override {
    const std::string text = text_of(event.text);
    if (!options_.stream) {
      text_ += text;
      tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
      return true;
    }
    Json chunk = {{"content", text}, {"tokens", ids(event.tokens)}, {"stop", false}};
    if (options_.logprobs) chunk["completion_probabilities"] = native_probabilities(event.tokens, context_.tokenizer());
    if (options_.timings) chunk["timings"] = timings_json(event.timings);
    return stream_.send(chunk);
  }
  void finished(const Finished& finished) override {
    if (finished.reason == FinishReason::cancelled) return;
    const RequestTimings& t = finished.timings;
    Json json = {{"content", text_},
                 {"tokens", options_.return_tokens ? ids(tokens_) : Json::array()},
                 {"stop", true},
                 {"model", context_.model_name},
                 {"stop_type", stop_type(finished.reason)},
                 {"stopping_word", finished.matched_stop.value_or("")},
                 {"tokens_predicted", t.n_generated},
                 {"tokens_evaluated", t.n_prompt + t.n_cached},
                 {"tokens_cached", t.n_cached},
                 {"truncated", false},
                 {"seed", finished.seed},
                 {"timings", timings_json(t)}};
    if (options_.logprobs && !options_.stream)
      json["completion_probabilities"] = native_probabilities(tokens_, context_.tokenizer());
    if (!options_.stream) return stream_.respond(json);
    stream_.send(json);
    stream_.end(false);
  }
  void failed(const Error& error) override { stream_.fail(error); }

 private:
  static Json ids(const std::vector<GeneratedToken>& tokens) {
    Json out = Json::array();
    for (const GeneratedToken& token : tokens) out.push_back(token.id);
    return out;
  }

  AnswerStream stream_;
  const ServerContext& context_;
  TextOptions options_;
  std::string text_;
  std::vector<GeneratedToken> tokens_;
};

Result<void> run_native(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kNative));
  const Json* prompt = fields.find("prompt");
  if (!prompt) return bad_field("prompt", "is missing");
  GenerationRequest request = TRY(read_generation(fields, kNative, context));
  request.prompt = TRY(read_prompt(*prompt, context.tokenizer()));
  const TextOptions options{.stream = fields.flag("stream", false),
                            .timings = fields.flag("timings_per_token", false),
                            .logprobs = request.logprobs,
                            .return_tokens = fields.flag("return_tokens", false)};
  if (!options.stream) request.return_progress = false;
  auto writer = std::make_unique<NativeAnswer>(exchange, context, options);
  submit(exchange, context, std::move(request), std::move(writer), Dialect::openai);
  return {};
}

}  // namespace

void completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run_completions(exchange, context); !ok) exchange->respond(error_response(Dialect::openai, ok.error()));
}
void native_completion(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run_native(exchange, context); !ok) exchange->respond(error_response(Dialect::openai, ok.error()));
}

}  // namespace tokamak::server
