// One answer made of several generations: submitting, sharing a prompt, ending together.
#include <fmt/format.h>

#include <set>

#include "server/generation.h"

namespace tokamak::server {

namespace {

// Generations of one prompt start with one of them; the others follow once the prompt is computed, and find it in the
// cache. Events come on the engine thread, submitting is done on workers: the lock is never held while the service is
// called, but for cancel().
class AnswerGroup : public std::enable_shared_from_this<AnswerGroup> {
 public:
  AnswerGroup(std::shared_ptr<Exchange> exchange, ServerContext& context, std::vector<GenerationRequest> requests,
              size_t n_per_prompt, std::unique_ptr<AnswerWriter> writer, Dialect dialect, std::string id)
      : exchange_(std::move(exchange)),
        context_(context),
        requests_(std::move(requests)),
        n_per_prompt_(n_per_prompt),
        writer_(std::move(writer)),
        dialect_(dialect),
        id_(std::move(id)),
        n_open_(requests_.size()) {}
  ~AnswerGroup() {
    if (!id_.empty()) context_.running->remove(id_);
  }

  void start() {
    exchange_->on_disconnect([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->give_up();
    });
    if (!id_.empty()) {
      context_.running->add(id_, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->end_reasoning();
      });
    }
    for (size_t i = 0; i < requests_.size(); i += n_per_prompt_)
      if (!submit_one(i)) return;
  }

 private:
  bool submit_one(size_t choice) {
    auto handle = context_.service.submit(
        std::move(requests_[choice]),
        [self = shared_from_this(), choice](const Event& event) { return self->take(choice, event); });
    if (!handle) return refuse(handle.error()), false;
    const std::lock_guard lock(mutex_);
    handles_.push_back(*handle);
    if (is_over_) context_.service.cancel(*handle);
    return !is_over_;
  }

  void submit_rest(size_t first) {
    for (size_t i = first + 1; i < first + n_per_prompt_; ++i) {
      requests_[i].continues_work = true;
      if (!submit_one(i)) return;
    }
  }

  // The service does not take it: nothing of the answer may have been sent yet, or some of it.
  void refuse(const Error& error) {
    const bool busy = error.code == ErrorCode::queue_full;
    exchange_->respond(error_response(dialect_, error, busy ? context_.service.retry_after_seconds() : 0));
    const std::lock_guard lock(mutex_);
    if (!is_over_) end_with(error);
  }

  void give_up() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    for (const RequestHandle handle : handles_) context_.service.cancel(handle);
  }

  void end_reasoning() {
    std::vector<RequestHandle> handles;
    {
      const std::lock_guard lock(mutex_);
      handles = handles_;
    }
    for (const RequestHandle handle : handles) context_.service.end_reasoning(handle);
  }

  // With the lock held.
  void end_with(const Error& error) {
    is_over_ = true;
    writer_->failed(error);
    for (const RequestHandle handle : handles_) context_.service.cancel(handle);
  }

  bool take(size_t choice, const Event& event) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return false;
    if (choice % n_per_prompt_ == 0 && n_per_prompt_ > 1 && is_past_prompt(event) && followed_.insert(choice).second)
      context_.workers.post([self = shared_from_this(), choice] { self->submit_rest(choice); });
    return std::visit([&](const auto& e) { return take_one(choice, e); }, event);
  }
  static bool is_past_prompt(const Event& event) {
    if (const auto* end = std::get_if<Finished>(&event)) return end->reason != FinishReason::cancelled;
    return std::holds_alternative<TokensEvent>(event);
  }

  bool take_one(size_t choice, const PromptProgress& e) { return writer_->progress(choice, e); }
  bool take_one(size_t choice, const PromptScores& e) { return writer_->scores(choice, e); }
  bool take_one(size_t choice, const TokensEvent& e) { return writer_->tokens(choice, e); }
  bool take_one(size_t, const EmbeddingEvent&) { return true; }
  bool take_one(size_t, const Failed& e) { return end_with(e.error), false; }
  bool take_one(size_t choice, const Finished& e) {
    if (e.reason == FinishReason::cancelled)
      return end_with({.code = ErrorCode::shutting_down, .what = "the server ended before the answer did"}), false;
    writer_->finished(choice, e);
    add(choice, e.timings);
    if (--n_open_ == 0) {
      is_over_ = true;
      writer_->all_finished(total_);
    }
    return true;
  }

  void add(size_t choice, const RequestTimings& timings) {
    total_.n_generated += timings.n_generated;
    total_.n_recomputed += timings.n_recomputed;
    total_.decode_ms = std::max(total_.decode_ms, timings.decode_ms);
    if (choice == 0) total_.first_difference = timings.first_difference;  // of several prompts, the first one's
    if (choice % n_per_prompt_ != 0) return;
    total_.n_prompt += timings.n_prompt;
    total_.n_cached += timings.n_cached;
    total_.prompt_ms += timings.prompt_ms;
    total_.queue_ms = std::max(total_.queue_ms, timings.queue_ms);
  }

  const std::shared_ptr<Exchange> exchange_;
  ServerContext& context_;
  std::vector<GenerationRequest> requests_;
  const size_t n_per_prompt_;
  std::mutex mutex_;
  const std::unique_ptr<AnswerWriter> writer_;
  const Dialect dialect_;
  const std::string id_;
  size_t n_open_;
  bool is_over_ = false;
  std::set<size_t> followed_;  // choices whose neighbours have been submitted
  std::vector<RequestHandle> handles_;
  RequestTimings total_;
};

}  // namespace

Result<void> check_answers(std::span<const std::vector<int32_t>> prompts, size_t n, const ServerContext& context) {
  if (prompts.size() * n > kMaxAnswers)
    return bad_field("prompt", fmt::format("{} prompts with {} answers each, at most {} answers are given at once",
                                           prompts.size(), n, kMaxAnswers));
  const auto n_ctx = static_cast<size_t>(context.service.n_ctx());
  for (const std::vector<int32_t>& prompt : prompts)
    if (prompt.size() > n_ctx)
      return Error{.code = ErrorCode::context_full,
                   .what = fmt::format("the prompt has {} tokens, the context holds {}", prompt.size(), n_ctx),
                   .hint = "shorten the prompt or raise --ctx-size"};
  return {};
}

void submit(const std::shared_ptr<Exchange>& exchange, ServerContext& context, std::vector<GenerationRequest> requests,
            size_t n_per_prompt, std::unique_ptr<AnswerWriter> writer, Dialect dialect, std::string id) {
  std::make_shared<AnswerGroup>(exchange, context, std::move(requests), n_per_prompt, std::move(writer), dialect,
                                std::move(id))
      ->start();
}

}  // namespace tokamak::server
