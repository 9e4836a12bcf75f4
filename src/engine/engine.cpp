#include "tokamak/engine.h"

#include <new>
#include <optional>

#include "chat/chat_template.h"
#include "engine/generate.h"

namespace tokamak {

namespace {
Error no_memory() {
  return {.code = ErrorCode::out_of_memory, .what = "out of memory", .hint = "use a smaller context or model"};
}
}  // namespace

struct Engine::Impl {
  std::shared_ptr<const Model> model;
  std::unique_ptr<Session> session;
  std::optional<ChatTemplate> chat_template;
  int32_t seq_id = 0;
  std::vector<int32_t> held;  // tokens of the sequence

  // The result of work(); when the standard library gets no memory, an Error, and the sequence starts anew.
  template <class Work>
  auto guarded(Work work) -> decltype(work()) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      static_cast<void>(session->truncate(seq_id, 0));
      held.clear();
      return no_memory();
    }
  }
};

namespace {
std::string text_of(const Tokenizer& tokenizer, int32_t id) { return id == kNoToken ? "" : tokenizer.token_text(id); }

Result<std::optional<ChatTemplate>> parse_template(const Model& model, const EngineOptions& options) {
  const std::string& source = options.chat_template.empty() ? model.chat_template() : options.chat_template;
  if (source.empty()) return std::optional<ChatTemplate>();
  const Tokenizer& tokenizer = model.tokenizer();
  return std::optional(TRY(ChatTemplate::parse(source, text_of(tokenizer, tokenizer.roles().bos),
                                               text_of(tokenizer, tokenizer.roles().eos))));
}

GenerateOptions generate_options(const Request& request) {
  GenerateOptions options{.n_predict = request.n_predict};
  options.sampling.temperature = request.temperature;
  options.sampling.top_k = request.top_k;
  options.sampling.top_p = request.top_p;
  options.sampling.min_p = request.min_p;
  options.sampling.repeat_penalty = request.repeat_penalty;
  options.sampling.seed = request.seed;
  options.output.stops = request.stops;
  return options;
}

Result<Answer> answer(Session& session, int32_t seq_id, std::vector<int32_t>& held, const std::vector<int32_t>& prompt,
                      const Request& request, const TextCallback& on_text) {
  Answer out;
  const auto keep = [&](const OutputEvent& event) {
    out.text += event.text;
    return !on_text || on_text(event.text);
  };
  const GenerateResult result =
      TRY(generate_reusing(session, seq_id, held, prompt, generate_options(request), {.output = keep}));
  for (const GeneratedToken& token : result.tokens) out.tokens.push_back(token.id);
  out.finish_reason = finish_reason_name(result.reason);
  out.n_prompt = result.n_prompt;
  out.n_cached = result.n_cached;
  out.prefill_seconds = result.prefill_seconds;
  out.decode_seconds = result.decode_seconds;
  out.seed = result.seed;
  return out;
}
}  // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::open(const std::filesystem::path& path, const EngineOptions& options) try {
  auto impl = std::make_unique<Impl>();
  impl->model = TRY(Model::open(path));
  impl->chat_template = TRY(parse_template(*impl->model, options));
  impl->session = TRY(
      Session::create(impl->model, {.backend = options.backend, .n_threads = options.n_threads, .n_ctx = options.n_ctx},
                      options.progress));
  impl->seq_id = impl->session->add_sequence();
  return Engine(std::move(impl));
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<Answer> Engine::complete(std::string_view prompt, const Request& request, const TextCallback& on_text) {
  return impl_->guarded([&]() -> Result<Answer> {
    const std::vector<int32_t> tokens = impl_->model->tokenizer().encode(prompt, {.parse_special = true});
    return answer(*impl_->session, impl_->seq_id, impl_->held, tokens, request, on_text);
  });
}

Result<Answer> Engine::chat(std::span<const Message> messages, const Request& request, const TextCallback& on_text) {
  if (!impl_->chat_template)
    return Error{.code = ErrorCode::bad_template,
                 .what = "the model has no chat template",
                 .where = impl_->model->path().string(),
                 .hint = "set EngineOptions::chat_template, or use complete()"};
  return impl_->guarded([&]() -> Result<Answer> {
    ChatRequest chat;
    for (const Message& message : messages) chat.messages.push_back({.role = message.role, .content = message.content});
    const std::string prompt = TRY(impl_->chat_template->render(chat));
    const auto tokens = impl_->model->tokenizer().encode(prompt, {.add_special = false, .parse_special = true});
    return answer(*impl_->session, impl_->seq_id, impl_->held, tokens, request, on_text);
  });
}

std::vector<int32_t> Engine::tokenize(std::string_view text) const {
  return impl_->model->tokenizer().encode(text, {.parse_special = true});
}

std::string Engine::detokenize(std::span<const int32_t> tokens) const {
  return impl_->model->tokenizer().decode(tokens, {.keep_special = true});
}

Result<std::vector<float>> Engine::logits(std::span<const int32_t> tokens) {
  Session& session = *impl_->session;
  static_cast<void>(session.truncate(impl_->seq_id, 0));
  impl_->held.clear();
  return impl_->guarded([&]() -> Result<std::vector<float>> {
    std::vector<float> out;
    for (size_t begin = 0; begin < tokens.size();) {
      const size_t n = std::min(static_cast<size_t>(session.options().n_batch), tokens.size() - begin);
      const SequenceTokens chunk{impl_->seq_id, tokens.subspan(begin, n), Logits::all};
      const std::span<const float> part = TRY(session.forward({&chunk, 1}));
      out.insert(out.end(), part.begin(), part.end());
      begin += n;
    }
    static_cast<void>(session.truncate(impl_->seq_id, 0));
    return out;
  });
}

void Engine::set_fusion(bool on) {
  impl_->session->backend().fusion_stats().set_enabled(on);
  impl_->session->forget_programs();
}

bool Engine::fusion() const { return impl_->session->backend().fusion_stats().enabled(); }

void Engine::set_fusion_statistics(bool on) {
  impl_->session->backend().fusion_stats().set_collecting(on);
  impl_->session->forget_programs();
}

std::vector<FusionCount> Engine::fusion_counts() const {
  std::vector<FusionCount> out;
  for (fuse::StatsRow& row : impl_->session->backend().fusion_stats().rows())
    out.push_back({std::move(row.graph), std::move(row.label), row.count, row.n_graphs});
  return out;
}

void Engine::reset_fusion_counts() {
  impl_->session->backend().fusion_stats().reset();
  impl_->session->forget_programs();
}

std::string Engine::model_name() const { return impl_->model->name(); }
int64_t Engine::n_vocab() const { return impl_->model->hparams().n_vocab; }
int64_t Engine::n_ctx() const { return impl_->session->n_ctx(); }

}  // namespace tokamak
