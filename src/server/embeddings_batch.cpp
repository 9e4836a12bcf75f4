#include "server/embeddings_batch.h"

#include <optional>

namespace tokamak::server {

namespace {

std::optional<Error> reason_to_fail(const Finished& finished) {
  if (finished.reason != FinishReason::cancelled) return {};
  return Error{.code = ErrorCode::shutting_down, .what = "the work was cut off"};
}

bool is_of_input(const Error& error) {
  return error.code == ErrorCode::context_full || error.code == ErrorCode::bad_argument;
}

class EmbeddingsBatch : public std::enable_shared_from_this<EmbeddingsBatch> {
 public:
  EmbeddingsBatch(ServerContext& context, EmbeddingInputs inputs, EmbeddingsDone done)
      : service_(context.service),
        workers_(context.workers),
        n_parallel_(context.n_parallel),
        inputs_(std::move(inputs)),
        done_(std::move(done)),
        rows_(inputs_.tokens.size()) {}

  // Submits what there is room for. On worker threads.
  void fill() {
    while (const std::optional<size_t> index = claim())
      if (auto handle = service_.submit(make_request(*index), make_sink(*index)); handle)
        accepted(*handle);
      else
        leave(*index, std::move(handle.error()));
    finish_if_complete();
  }

  void cancel() {
    std::vector<RequestHandle> running;
    {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = Error{.code = ErrorCode::cancelled, .what = "the client has left"};
      running = handles_;
    }
    for (const RequestHandle handle : running) service_.cancel(handle);
  }

 private:
  std::optional<size_t> claim() {
    const std::scoped_lock lock(mutex_);
    if (error_ || next_ == inputs_.tokens.size() || n_running_ == n_parallel_) return {};
    ++n_running_;
    return next_++;
  }

  GenerationRequest make_request(size_t index) const {
    GenerationRequest request;
    request.prompt = inputs_.tokens[index];
    request.embeddings = inputs_.mode;
    request.client = inputs_.client;
    request.continues_work = index > 0;
    return request;
  }

  EventSink make_sink(size_t index) {
    return [self = shared_from_this(), index](Event event) {
      if (auto* rows = std::get_if<EmbeddingEvent>(&event)) self->rows_[index] = std::move(*rows);
      if (auto* failed = std::get_if<Failed>(&event)) self->leave(index, std::move(failed->error));
      if (const auto* finished = std::get_if<Finished>(&event)) self->leave(index, reason_to_fail(*finished));
      return true;
    };
  }

  void accepted(RequestHandle handle) {
    bool too_late = false;
    {
      const std::scoped_lock lock(mutex_);
      handles_.push_back(handle);
      too_late = error_.has_value();
    }
    if (too_late) service_.cancel(handle);
  }

  // An input is done or was not accepted. The next one is not submitted here: sinks must not call the service.
  void leave(size_t index, std::optional<Error> error) {
    std::vector<RequestHandle> running;
    {
      const std::scoped_lock lock(mutex_);
      --n_running_;
      if (error && !error_) {
        if (is_of_input(*error)) error->where = inputs_.fields[index];
        error_ = std::move(error);
        running = handles_;
      }
    }
    for (const RequestHandle handle : running) service_.cancel(handle);
    workers_.post([self = shared_from_this()] { self->fill(); });
  }

  void finish_if_complete() {
    std::optional<Error> error;
    {
      const std::scoped_lock lock(mutex_);
      if (n_running_ > 0 || is_finished_ || (!error_ && next_ < inputs_.tokens.size())) return;
      is_finished_ = true;
      error = error_;
    }
    if (error)
      done_(*std::move(error));
    else
      done_(std::move(rows_));
  }

  Service& service_;
  Workers& workers_;
  const int64_t n_parallel_;
  const EmbeddingInputs inputs_;
  const EmbeddingsDone done_;
  std::vector<EmbeddingEvent> rows_;  // each written by its own request, read when all are done

  std::mutex mutex_;
  std::vector<RequestHandle> handles_;
  size_t next_ = 0;
  int64_t n_running_ = 0;
  std::optional<Error> error_;
  bool is_finished_ = false;
};

}  // namespace

void embed(const std::shared_ptr<Exchange>& exchange, ServerContext& context, EmbeddingInputs inputs,
           EmbeddingsDone done) {
  const auto work = std::make_shared<EmbeddingsBatch>(context, std::move(inputs), std::move(done));
  exchange->on_disconnect([weak = std::weak_ptr(work)] {
    if (const auto running = weak.lock()) running->cancel();
  });
  work->fill();
}

}  // namespace tokamak::server
