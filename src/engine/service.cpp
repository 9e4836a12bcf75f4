#include "engine/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "engine/service_engine.h"

namespace tokamak {

namespace {
using SteadyClock = std::chrono::steady_clock;
constexpr auto kStatusInterval = std::chrono::milliseconds(50);  // between two lists of requests for stats()
constexpr int64_t kMaxRetrySeconds = 60;

class SystemClock : public scheduler::Clock {
 public:
  double now() const override { return std::chrono::duration<double>(SteadyClock::now() - start_).count(); }

 private:
  SteadyClock::time_point start_ = SteadyClock::now();
};

// What one earlier position adds to the work of a token: attention's products beside those with the weights.
double depth_cost(const Model& model) {
  double attention = 0;
  for (const arch::LayerHparams& layer : model.hparams().layers)
    if (!layer.is_delta_net)
      attention += 2 * static_cast<double>(layer.n_head * (model.hparams().head_dim_k + model.hparams().head_dim_v));
  return attention / (2 * static_cast<double>(std::max<uint64_t>(model.n_params(), 1)));
}

Error out_of_range(std::string_view what, double value, double low, double high) {
  return {.code = ErrorCode::bad_argument,
          .what = fmt::format("{} is outside {}..{}", value, low, high),
          .where = std::string(what)};
}

Result<void> check_options(const Session& session, const ServiceOptions& options) {
  const auto n_batch = static_cast<double>(session.options().n_batch);
  if (options.n_parallel < 1 || static_cast<double>(options.n_parallel) > n_batch)
    return out_of_range("requests at once (--parallel, at most --batch)", static_cast<double>(options.n_parallel), 1,
                        n_batch);
  if (session.state_floats() > 0 && session.options().n_sequences < options.n_parallel)
    return out_of_range("requests at once (--parallel)", static_cast<double>(options.n_parallel), 1,
                        static_cast<double>(session.options().n_sequences));
  if (options.n_queue < 0) return out_of_range("queue limit", static_cast<double>(options.n_queue), 0, 1e9);
  if (options.cache_bytes < -1) return out_of_range("cache bytes", static_cast<double>(options.cache_bytes), -1, 1e18);
  if (options.max_scored_tokens < 1)
    return out_of_range("scored tokens", static_cast<double>(options.max_scored_tokens), 1, n_batch);
  return {};
}
}  // namespace

class Service::Impl {
 public:
  Impl(std::unique_ptr<Session> session, const ServiceOptions& options)
      : options_(options),
        engine_(std::move(session), options),
        scheduler_({.n_parallel = options.n_parallel,
                    .n_queue = std::numeric_limits<int32_t>::max(),  // check_open() keeps the limit
                    .n_batch = engine_.session().options().n_batch,
                    .max_gap_seconds = options.max_token_gap_ms / 1000,
                    .stall_seconds = options.stall_seconds,
                    .depth_cost = depth_cost(engine_.session().model())},
                   clock_, engine_) {}

  void start() {
    publish(true);
    thread_ = std::thread([this] { work(); });
    watchdog_ = std::thread([this] { watch(); });
  }
  ~Impl() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (watchdog_.joinable()) watchdog_.join();
  }

  Result<RequestHandle> submit(GenerationRequest request, EventSink sink);
  void cancel(RequestHandle handle) { post(handle, &Inbox::cancelled); }
  void end_reasoning(RequestHandle handle) { post(handle, &Inbox::thought_enough); }
  Result<void> between_steps(const std::function<void(ServiceEngine&)>& work);
  ServiceStats stats() const;
  int64_t retry_after_seconds() const;
  bool drain(double timeout_seconds);
  const Model& model() const { return engine_.session().model(); }
  int64_t n_ctx() const { return engine_.session().n_ctx(); }
  std::vector<MemoryUse> memory() const { return memory_; }

 private:
  struct Call {
    const std::function<void(ServiceEngine&)>& work;
    bool is_done = false;
  };
  // What other threads ask of the engine thread.
  struct Inbox {
    std::vector<std::unique_ptr<ServedRequest>> arrived;
    std::vector<uint64_t> cancelled, thought_enough;
    std::vector<Call*> calls;
    bool cancel_all = false;
    bool empty() const {
      return arrived.empty() && cancelled.empty() && thought_enough.empty() && calls.empty() && !cancel_all;
    }
  };
  void post(RequestHandle handle, std::vector<uint64_t> Inbox::*list);
  Result<void> check_open(bool continues_work);
  void work();
  bool take_inbox(bool may_wait);
  void run_calls(const std::vector<Call*>& calls);
  void publish(bool with_requests);
  void watch();

  ServiceOptions options_;
  SystemClock clock_;
  ServiceEngine engine_;            // engine thread only, from start() on
  scheduler::Scheduler scheduler_;  // engine thread only
  std::vector<MemoryUse> memory_ = service_memory(engine_.session(), options_);

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // inbox_, stopping_, n_live_
  Inbox inbox_;
  ServiceStats stats_;
  int64_t n_live_ = 0;  // accepted and not over
  uint64_t last_id_ = 0, n_refused_ = 0;
  double seconds_per_request_ = 0;
  bool draining_ = false, stopping_ = false;
  std::atomic<bool> stuck_ = false;
  std::thread thread_, watchdog_;
};

Result<void> Service::Impl::check_open(bool continues_work) {
  if (stopping_ || (draining_ && !continues_work))
    return Error{.code = ErrorCode::shutting_down, .what = "the server is finishing its work", .hint = "try another"};
  if (stuck_)
    return Error{.code = ErrorCode::device_failed,
                 .what = "the device does not answer",
                 .hint = "come back later; see the log of the server"};
  if (stats_.lost) return *stats_.lost;
  if (!continues_work && n_live_ >= options_.n_parallel + options_.n_queue)
    return Error{.code = ErrorCode::queue_full,
                 .what = fmt::format("{} requests are waiting already", n_live_ - options_.n_parallel),
                 .hint = "come back later, or raise --queue-limit"};
  return {};
}

Result<RequestHandle> Service::Impl::submit(GenerationRequest request, EventSink sink) {
  const auto refuse = [this](Error error) {
    ++n_refused_;
    return error;
  };
  const bool continues_work = request.continues_work;
  uint64_t id = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (auto open = check_open(continues_work); !open) return refuse(std::move(open.error()));
    id = ++last_id_;
  }
  auto made = ServedRequest::create(id, model(), n_ctx(), std::move(request), std::move(sink));
  const std::scoped_lock lock(mutex_);
  if (!made) return refuse(std::move(made.error()));
  if (auto open = check_open(continues_work); !open) return refuse(std::move(open.error()));
  inbox_.arrived.push_back(*std::move(made));
  ++n_live_;
  changed_.notify_all();
  return RequestHandle{id};
}

void Service::Impl::post(RequestHandle handle, std::vector<uint64_t> Inbox::*list) {
  const std::scoped_lock lock(mutex_);
  (inbox_.*list).push_back(handle.id);
  changed_.notify_all();
}

Result<void> Service::Impl::between_steps(const std::function<void(ServiceEngine&)>& work) {
  std::unique_lock lock(mutex_);
  if (stopping_) return Error{.code = ErrorCode::shutting_down, .what = "the server is finishing its work"};
  Call call{.work = work};
  inbox_.calls.push_back(&call);
  changed_.notify_all();
  changed_.wait(lock, [&call] { return call.is_done; });
  return {};
}

void Service::Impl::run_calls(const std::vector<Call*>& calls) {
  if (calls.empty()) return;
  for (const Call* call : calls) call->work(engine_);
  const std::scoped_lock lock(mutex_);
  for (Call* call : calls) call->is_done = true;
  changed_.notify_all();
}

// False when it is time to stop.
bool Service::Impl::take_inbox(bool may_wait) {
  Inbox inbox;
  bool is_last = false;
  {
    std::unique_lock lock(mutex_);
    if (may_wait) changed_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
    std::swap(inbox, inbox_);
    inbox.cancel_all = inbox.cancel_all || stopping_;
    is_last = stopping_ && inbox.arrived.empty() && scheduler_.idle();
  }
  run_calls(inbox.calls);
  if (is_last) return false;
  for (auto& request : inbox.arrived) {
    const uint64_t id = request->id();
    const auto accepted = scheduler_.submit(engine_.add(std::move(request)));
    CHECK(accepted.has_value(), id);
  }
  for (const uint64_t id : inbox.cancelled) scheduler_.cancel(id);
  for (const uint64_t id : inbox.thought_enough) engine_.close_thought(id);
  if (inbox.cancel_all)
    for (const uint64_t id : engine_.ids()) scheduler_.cancel(id);
  return true;
}

void Service::Impl::work() {
  bool busy = false;
  auto last_status = SteadyClock::now();
  while (take_inbox(!busy)) {
    busy = scheduler_.step();
    const bool with_requests = !busy || SteadyClock::now() - last_status >= kStatusInterval;
    if (with_requests) last_status = SteadyClock::now();
    publish(with_requests);
  }
}

void Service::Impl::publish(bool with_requests) {
  ServiceStats stats = engine_.stats();
  stats.n_running = scheduler_.n_running();
  stats.n_queued = scheduler_.n_queued();
  stats.n_preempted = scheduler_.n_preempted();
  stats.max_gap_ms = scheduler_.max_gap_seconds() * 1000;
  if (with_requests) {
    const double now = clock_.now();
    stats.requests = engine_.statuses();
    for (RequestStatus& status : stats.requests) {
      const scheduler::Progress progress = scheduler_.progress(status.id);
      status.state = progress.state;
      status.n_processed = progress.n_done;
      status.age_seconds = now - progress.submitted;
    }
  }
  const auto n_known = static_cast<int64_t>(engine_.n_requests());
  const std::scoped_lock lock(mutex_);
  if (!with_requests) stats.requests = std::move(stats_.requests);
  stats_ = std::move(stats);
  n_live_ = n_known + static_cast<int64_t>(inbox_.arrived.size());
  seconds_per_request_ = scheduler_.seconds_per_request();
  changed_.notify_all();
}

void Service::Impl::watch() {
  const auto interval = std::chrono::duration<double>(std::min(options_.stall_seconds / 4, 1.0));
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return stopping_; })) {
    lock.unlock();
    stuck_ = engine_.fail_stuck_step(options_.stall_seconds);
    lock.lock();
  }
}

ServiceStats Service::Impl::stats() const {
  const std::scoped_lock lock(mutex_);
  ServiceStats out = stats_;
  out.n_submitted = last_id_;
  out.n_refused = n_refused_;
  out.draining = draining_;
  out.stuck = stuck_;
  return out;
}

int64_t Service::Impl::retry_after_seconds() const {
  const std::scoped_lock lock(mutex_);
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(seconds_per_request_)), 1, kMaxRetrySeconds);
}

bool Service::Impl::drain(double timeout_seconds) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto done = [this] { return n_live_ == 0; };
  if (changed_.wait_for(lock, std::chrono::duration<double>(timeout_seconds), done)) return true;
  inbox_.cancel_all = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::duration<double>(options_.stall_seconds), done);
  return false;
}

Service::Service(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Service::~Service() = default;

namespace {
Result<ServiceOptions> reserve(Session& session, ServiceOptions options) {
  TRY(check_options(session, options));
  options.max_scored_tokens = std::min(options.max_scored_tokens, session.options().n_batch);
  TRY(session.reserve(std::max(options.n_parallel, options.max_scored_tokens), options.n_parallel));
  return options;
}
}  // namespace

Result<std::vector<MemoryUse>> Service::ledger(Session& session, ServiceOptions options) {
  options = TRY(reserve(session, options));
  return service_memory(session, options);
}

Result<std::unique_ptr<Service>> Service::create(std::unique_ptr<Session> session, ServiceOptions options) {
  options = TRY(reserve(*session, options));
  auto impl = std::make_unique<Impl>(std::move(session), options);
  impl->start();
  return std::unique_ptr<Service>(new Service(std::move(impl)));
}

Result<RequestHandle> Service::submit(GenerationRequest request, EventSink sink) {
  return impl_->submit(std::move(request), std::move(sink));
}
void Service::cancel(RequestHandle handle) { impl_->cancel(handle); }
void Service::end_reasoning(RequestHandle handle) { impl_->end_reasoning(handle); }
Result<void> Service::between_steps(const std::function<void(ServiceEngine& engine)>& work) {
  return impl_->between_steps(work);
}
ServiceStats Service::stats() const { return impl_->stats(); }
int64_t Service::retry_after_seconds() const { return impl_->retry_after_seconds(); }
bool Service::drain(double timeout_seconds) { return impl_->drain(timeout_seconds); }
const Model& Service::model() const { return impl_->model(); }
int64_t Service::n_ctx() const { return impl_->n_ctx(); }
std::vector<MemoryUse> Service::memory() const { return impl_->memory(); }

}  // namespace tokamak
