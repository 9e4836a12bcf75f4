// POST /v1/completions.
#include "server/endpoints.h"
#include "server/generation.h"
#include "server/infill_prompt.h"

namespace tokamak::server {

namespace {

struct TextOptions {
  bool stream = false, usage = false, timings = false, logprobs = false, echo = false;
};

// One choice so far.
struct TextChoice {
  std::vector<int32_t> prompt;
  std::string text;  // not sent yet
  TextLogprobs scores;
  size_t offset = 0;  // bytes of the text before the next token
  Json finish_reason = nullptr, stop_reason = nullptr;
};

class TextAnswer : public AnswerWriter {
 public:
  TextAnswer(AnswerStream stream, const ServerContext& context, std::string model, std::vector<TextChoice> choices,
             TextOptions options)
      : stream_(std::move(stream)),
        context_(context),
        model_(std::move(model)),
        choices_(std::move(choices)),
        options_(options) {
    if (!options_.echo) return;
    for (TextChoice& choice : choices_) {
      choice.text = context_.tokenizer().decode(choice.prompt, {.keep_special = true});
      add_score(choice, {.id = choice.prompt.front()}, true);
    }
  }

  bool progress(size_t choice, const PromptProgress& progress) override {
    if (!options_.stream) return true;
    Json chunk = make_json(choice, "");
    chunk["prompt_progress"] = progress_json(progress);
    return stream_.send(chunk);
  }
  bool scores(size_t choice, const PromptScores& scores) override {
    for (const GeneratedToken& token : scores.tokens) add_score(choices_[choice], token, false);
    return true;
  }
  bool tokens(size_t index, const TokensEvent& event) override {
    TextChoice& choice = choices_[index];
    for (const OutputEvent& e : event.text) choice.text += e.text;
    for (const GeneratedToken& token : event.tokens) add_score(choice, token, false);
    if (!options_.stream) return true;
    Json chunk = make_json(index, std::exchange(choice.text, {}));
    if (options_.timings) chunk["timings"] = timings_json(event.timings);
    return stream_.send(chunk);
  }
  void finished(size_t index, const Finished& finished) override {
    TextChoice& choice = choices_[index];
    choice.finish_reason = openai_finish_reason(finished.reason);
    if (finished.matched_stop) choice.stop_reason = *finished.matched_stop;
    if (!options_.stream) return;
    Json chunk = make_json(index, std::exchange(choice.text, {}));
    chunk["timings"] = timings_json(finished.timings);
    stream_.send(chunk);
  }
  void all_finished(const RequestTimings& total) override {
    if (options_.stream) {
      if (options_.usage) stream_.send(usage_chunk(make_json(0, ""), total));
      return stream_.end(true);
    }
    Json json = make_json(0, std::exchange(choices_[0].text, {}));
    for (size_t i = 1; i < choices_.size(); ++i)
      json["choices"].push_back(choice_json(i, std::exchange(choices_[i].text, {})));
    json["usage"] = usage_json(total);
    json["timings"] = timings_json(total);
    stream_.respond(json);
  }
  void failed(const Error& error) override { stream_.fail(error); }

 private:
  void add_score(TextChoice& choice, const GeneratedToken& token, bool is_first_of_prompt) const {
    if (!options_.logprobs) return;
    choice.scores.add(token, choice.offset, context_.tokenizer(), is_first_of_prompt);
    choice.offset += context_.tokenizer().token_bytes(token.id).size();
  }
  Json choice_json(size_t index, std::string text) {
    TextChoice& choice = choices_[index];
    Json json = {{"index", index}, {"text", std::move(text)}, {"logprobs", nullptr}};
    if (options_.logprobs) json["logprobs"] = std::exchange(choice.scores, {}).json();
    json["finish_reason"] = choice.finish_reason;
    if (!choice.stop_reason.is_null()) json["stop_reason"] = choice.stop_reason;
    return json;
  }
  Json make_json(size_t index, std::string text) {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", model_},
            {"choices", Json::array({choice_json(index, std::move(text))})}};
  }

  AnswerStream stream_;
  const ServerContext& context_;
  std::string model_;
  std::vector<TextChoice> choices_;
  TextOptions options_;
  std::string id_ = new_id("cmpl-");
  int64_t created_ = unix_seconds();
};

// With a suffix: one text, whose gap is filled.
Result<std::vector<std::vector<int32_t>>> read_text_prompts(const Fields& fields, const Tokenizer& tokenizer) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) return bad_field("prompt", "is missing");
  const std::string suffix = fields.text("suffix", "");
  if (suffix.empty()) return read_prompts(*prompt, tokenizer);
  if (!prompt->is_string()) return bad_field("prompt", "must be one text where there is a suffix");
  if (fields.flag("echo", false)) return bad_field("echo", "does not go with a suffix");
  std::vector<int32_t> tokens = TRY(infill_prompt({.prefix = prompt->get<std::string>(), .suffix = suffix}, tokenizer));
  return std::vector<std::vector<int32_t>>{std::move(tokens)};
}

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  constexpr int64_t kDefaultTokens = 16;  // the API's
  const Fields fields = TRY(Fields::parse(exchange->request().body, kCompletions));
  std::vector<std::vector<int32_t>> prompts = TRY(read_text_prompts(fields, context.tokenizer()));
  GenerationRequest request = TRY(read_generation(fields, kCompletions, context));
  if (!fields.has("max_tokens")) request.n_predict = kDefaultTokens;
  const TextOptions options{.stream = fields.flag("stream", false),
                            .usage = wants_usage(fields),
                            .timings = fields.flag("timings_per_token", false),
                            .logprobs = request.logprobs,
                            .echo = fields.flag("echo", false)};
  request.prompt_logprobs = options.echo && options.logprobs;
  if (!options.stream) request.return_progress = false;
  const OutputGrammar grammar = TRY(read_output_grammar(fields, context.grammar));
  const auto n = static_cast<size_t>(fields.integer("n", 1));
  TRY(check_answers(prompts, n, context));
  std::vector<GenerationRequest> requests;
  std::vector<TextChoice> choices;
  for (std::vector<int32_t>& tokens : prompts) {
    request.prompt = std::move(tokens);
    for (GenerationRequest& one : repeat(request, n, {&grammar, 1}, context)) {
      choices.push_back({.prompt = one.prompt});
      requests.push_back(std::move(one));
    }
  }
  auto writer = std::make_unique<TextAnswer>(AnswerStream(exchange, note_headers(grammar.grammar.get())), context,
                                             fields.text("model", context.model_name), std::move(choices), options);
  submit(exchange, context, std::move(requests), n, std::move(writer), Dialect::openai);
  return {};
}

}  // namespace

void completions(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context); !ok) exchange->respond(error_response(Dialect::openai, ok.error()));
}

}  // namespace tokamak::server
