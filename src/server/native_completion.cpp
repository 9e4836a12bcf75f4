#include "server/native_completion.h"

#include <fmt/format.h>

#include <cmath>

#include "server/endpoints.h"

namespace tokamak::server {

namespace {

struct NativeOptions {
  bool stream = false, timings = false, logprobs = false, post_sampling = false, return_tokens = false;
  std::vector<std::string> kept_fields;  // empty: all
  Json settings;                         // of the sampler, as they are in force
};

struct NativeChoice {
  std::string text;
  std::vector<GeneratedToken> tokens;
  Json result;
};

Json ids(const std::vector<GeneratedToken>& tokens) {
  Json out = Json::array();
  for (const GeneratedToken& token : tokens) out.push_back(token.id);
  return out;
}

// An entry of chat_logprobs() as this endpoint has it: with the id, and after sampling with probabilities.
Json native_entry(Json entry, int32_t id, bool post_sampling) {
  Json out = {{"id", id}};
  for (auto& [name, value] : entry.items()) {
    if (!post_sampling || (name != "logprob" && name != "top_logprobs"))
      out[name] = std::move(value);
    else if (name == "logprob")
      out["prob"] = std::exp(value.get<double>());
    else
      out["top_probs"] = std::move(value);
  }
  return out;
}

std::string_view stop_type(FinishReason reason) {
  if (reason == FinishReason::end_of_text) return "eos";
  return reason == FinishReason::stop_string ? "word" : "limit";
}

// One choice: an object; several: a list of them, streamed with their index.
class NativeAnswer : public AnswerWriter {
 public:
  NativeAnswer(AnswerStream stream, const ServerContext& context, size_t n_choices, NativeOptions options)
      : stream_(std::move(stream)), context_(context), choices_(n_choices), options_(std::move(options)) {}

  bool progress(size_t choice, const PromptProgress& progress) override {
    if (!options_.stream) return true;
    return stream_.send(
        {{"index", choice}, {"content", ""}, {"stop", false}, {"prompt_progress", progress_json(progress)}});
  }
  bool tokens(size_t index, const TokensEvent& event) override {
    std::string text;
    for (const OutputEvent& e : event.text) text += e.text;
    if (!options_.stream) {
      NativeChoice& choice = choices_[index];
      choice.text += text;
      choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
      return true;
    }
    Json chunk = {{"index", index}, {"content", text}, {"tokens", ids(event.tokens)}, {"stop", false}};
    if (options_.logprobs) chunk["completion_probabilities"] = probabilities(event.tokens);
    if (options_.timings) chunk["timings"] = timings_json(event.timings);
    return stream_.send(chunk);
  }
  void finished(size_t index, const Finished& finished) override {
    const RequestTimings& t = finished.timings;
    NativeChoice& choice = choices_[index];
    Json json = {{"index", index},
                 {"content", choice.text},
                 {"tokens", options_.return_tokens ? ids(choice.tokens) : Json::array()},
                 {"id_slot", finished.slot},
                 {"stop", true},
                 {"model", context_.model_name},
                 {"stop_type", stop_type(finished.reason)},
                 {"stopping_word", finished.matched_stop.value_or("")},
                 {"tokens_predicted", t.n_generated},
                 {"tokens_evaluated", t.n_prompt + t.n_cached},
                 {"tokens_cached", t.n_cached},
                 {"tokens_recomputed", t.n_recomputed},
                 {"first_difference", t.first_difference},
                 {"truncated", false},
                 {"seed", finished.seed},
                 {"generation_settings", options_.settings},
                 {"timings", timings_json(t)}};
    if (options_.logprobs && !options_.stream) json["completion_probabilities"] = probabilities(choice.tokens);
    keep_wanted(json);
    if (options_.stream)
      stream_.send(json);
    else
      choice.result = std::move(json);
  }
  void all_finished(const RequestTimings&) override {
    if (options_.stream) return stream_.end(false);
    if (choices_.size() == 1) return stream_.respond(choices_[0].result);
    Json list = Json::array();
    for (NativeChoice& choice : choices_) list.push_back(std::move(choice.result));
    stream_.respond(list);
  }
  void failed(const Error& error) override { stream_.fail(error); }

 private:
  Json probabilities(const std::vector<GeneratedToken>& tokens) const {
    Json out = chat_logprobs(tokens, context_.tokenizer())["content"];
    for (size_t i = 0; i < tokens.size(); ++i) {
      out[i] = native_entry(std::move(out[i]), tokens[i].id, options_.post_sampling);
      Json& top = out[i][options_.post_sampling ? "top_probs" : "top_logprobs"];
      for (size_t k = 0; k < top.size(); ++k)
        top[k] = native_entry(std::move(top[k]), tokens[i].top[k].id, options_.post_sampling);
    }
    return out;
  }
  void keep_wanted(Json& json) const {
    if (options_.kept_fields.empty()) return;
    Json kept = Json::object();
    for (const std::string& name : options_.kept_fields)
      if (json.contains(name)) kept[name] = json[name];
    json = std::move(kept);
  }

  AnswerStream stream_;
  const ServerContext& context_;
  std::vector<NativeChoice> choices_;
  NativeOptions options_;
};

Result<std::vector<std::string>> read_names(const Fields& fields, std::string_view name) {
  std::vector<std::string> out;
  const Json* list = fields.find(name);
  if (!list) return out;
  for (size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_string()) return bad_field(fmt::format("{}[{}]", name, i), "must be text");
    out.push_back((*list)[i].get<std::string>());
  }
  return out;
}

Result<void> run(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange->request().body, kNative));
  const Json* prompt = fields.find("prompt");
  if (!prompt) return bad_field("prompt", "is missing");
  return complete_natively(exchange, context, fields, kNative, TRY(read_prompts(*prompt, context.tokenizer())));
}

}  // namespace

Result<void> complete_natively(const std::shared_ptr<Exchange>& exchange, ServerContext& context, const Fields& fields,
                               Api api, std::vector<std::vector<int32_t>> prompts) {
  GenerationRequest request = TRY(read_generation(fields, api, context));
  request.slot = fields.integer("id_slot", -1);
  if (request.slot >= context.n_parallel)
    return bad_field("id_slot", fmt::format("{} is outside 0..{}", request.slot, context.n_parallel - 1));
  NativeOptions options{.stream = fields.flag("stream", false),
                        .timings = fields.flag("timings_per_token", false),
                        .logprobs = request.logprobs,
                        .post_sampling = request.post_sampling,
                        .return_tokens = fields.flag("return_tokens", false),
                        .kept_fields = TRY(read_names(fields, "response_fields")),
                        .settings = sampling_json(request.sampling)};
  options.settings["n_predict"] = request.n_predict;
  if (!options.stream) request.return_progress = false;
  const OutputGrammar grammar = TRY(read_output_grammar(fields, context.grammar));
  const auto n = static_cast<size_t>(fields.integer("n_cmpl", 1));
  TRY(check_answers(prompts, n, context));
  std::vector<GenerationRequest> requests;
  for (std::vector<int32_t>& prompt : prompts) {
    request.prompt = std::move(prompt);
    for (GenerationRequest& one : repeat(request, n, {&grammar, 1}, context)) requests.push_back(std::move(one));
  }
  auto writer = std::make_unique<NativeAnswer>(AnswerStream(exchange, note_headers(grammar.grammar.get())), context,
                                               requests.size(), std::move(options));
  submit(exchange, context, std::move(requests), n, std::move(writer), Dialect::openai);
  return {};
}

void native_completion(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(exchange, context); !ok) exchange->respond(error_response(Dialect::openai, ok.error()));
}

}  // namespace tokamak::server
