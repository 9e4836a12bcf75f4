#include "engine/scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tokamak::scheduler {

Scheduler::Scheduler(const Config& config, const Clock& clock, Device& device)
    : config_(config), clock_(clock), device_(device), costs_(config.depth_cost) {
  CHECK(config.n_parallel >= 1 && config.n_batch >= config.n_parallel, config.n_parallel, config.n_batch);
}

Result<void> Scheduler::submit(RequestInfo info) {
  // Places among the running are taken by the next step, so they count.
  if (static_cast<int64_t>(requests_.size()) >= config_.n_parallel + config_.n_queue)
    return Error{.code = ErrorCode::queue_full,
                 .what = fmt::format("{} requests are waiting already", n_queued()),
                 .hint = "come back later, or raise --queue-limit"};
  const double now = clock_.now();
  shares_.join(info.client);
  Request request{.order = ++n_arrived_, .n_tokens = info.n_tokens, .submitted = now, .last_progress = now};
  request.info = std::move(info);
  const RequestId id = request.info.id;
  const bool is_new = requests_.emplace(id, std::move(request)).second;
  CHECK(is_new, id);
  return {};
}

void Scheduler::cancel(RequestId id) {
  if (const auto it = requests_.find(id); it != requests_.end()) it->second.cancelled = true;
}

Progress Scheduler::progress(RequestId id) const {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return {};
  const Request& r = it->second;
  return {.state = !r.running  ? "queued"
                   : r.decodes ? "decode"
                               : "prefill",
          .n_tokens = r.n_tokens,
          .n_done = r.n_done,
          .submitted = r.submitted};
}

void Scheduler::remove(RequestId id) {
  Request& request = requests_.at(id);
  std::erase(running_, &request);
  shares_.leave(request.info.client);
  requests_.erase(id);
  blocked_ = false;
  const double now = clock_.now();
  if (last_end_ > 0) {
    const double seconds = now - last_end_;
    seconds_per_request_ = seconds_per_request_ == 0 ? seconds : 0.9 * seconds_per_request_ + 0.1 * seconds;
  }
  last_end_ = now;
}

void Scheduler::let_leave() {
  const double now = clock_.now();
  std::vector<std::pair<RequestId, Leaving>> leaving;
  for (const auto& [id, request] : requests_) {
    if (request.cancelled)
      leaving.emplace_back(id, Leaving::cancelled);
    else if (request.running && now - request.last_progress > config_.stall_seconds)
      leaving.emplace_back(id, Leaving::stalled);
  }
  for (const auto& [id, why] : leaving) {
    device_.leave(id, why);
    remove(id);
  }
}

int64_t Scheduler::priority(const Request& request) const {
  if (request.started > 0) return request.info.priority;
  return request.info.priority + static_cast<int64_t>((clock_.now() - request.submitted) / kAgingSeconds);
}

// Of two in the queue: those that had to give way first, in the order they first ran.
bool Scheduler::before(const Request& a, const Request& b) const {
  if ((a.started > 0) != (b.started > 0)) return a.started > 0;
  if (a.started > 0) return a.started < b.started;
  if (priority(a) != priority(b)) return priority(a) > priority(b);
  const int64_t served_a = shares_.served(a.info.client), served_b = shares_.served(b.info.client);
  return served_a != served_b ? served_a < served_b : a.order < b.order;
}

Scheduler::Request* Scheduler::next_in_queue() {
  Request* best = nullptr;
  for (auto& [id, request] : requests_)
    if (!request.running && (best == nullptr || before(request, *best))) best = &request;
  return best;
}

// Pages for all known tokens of it and of those who run, and one more for everyone.
bool Scheduler::has_room(const Request& request) const {
  int64_t wanted = device_.pages_needed(request.info.id, request.n_tokens - request.n_done) + 1;
  for (const Request* other : running_)
    wanted += device_.pages_needed(other->info.id, other->n_tokens - other->n_done) + 1;
  return wanted <= device_.n_free_pages() + device_.n_reclaimable_pages();
}

void Scheduler::admit() {
  while (!blocked_ && n_running() < config_.n_parallel) {
    Request* request = next_in_queue();
    if (request == nullptr) return;
    const auto n_done = device_.start(request->info.id);
    if (!n_done) {
      remove(request->info.id);
      continue;
    }
    request->n_done = *n_done;
    CHECK(request->n_done < request->n_tokens, request->n_done, request->n_tokens);
    if (!running_.empty() && !has_room(*request)) {
      device_.pause(request->info.id);
      blocked_ = true;  // smaller ones behind it wait too: it would starve otherwise
      return;
    }
    request->running = true;
    request->decodes = false;
    request->last_progress = clock_.now();
    if (request->started == 0) request->started = ++n_started_;
    const auto at = std::ranges::find_if(running_, [&](const Request* r) { return r->started > request->started; });
    running_.insert(at, request);
  }
}

// Tokens of the request's prompt for a step, at most `most`.
int64_t Scheduler::chunk_of(const Request& request, int64_t most) const {
  int64_t n = std::min(request.n_tokens - request.n_done, most);
  if (request.info.max_chunk > 0) n = std::min(n, request.info.max_chunk);
  const auto stop = std::ranges::upper_bound(request.info.stops, request.n_done);
  return stop == request.info.stops.end() ? n : std::min(n, *stop - request.n_done);
}

void Scheduler::plan_prefill(StepWork& work) {
  std::vector<Request*> prompts;
  for (Request* request : running_)
    if (!request->decodes) prompts.push_back(request);
  std::ranges::stable_sort(prompts, [this](const Request* a, const Request* b) {
    if (a->info.priority != b->info.priority) return a->info.priority > b->info.priority;
    return shares_.served(a->info.client) < shares_.served(b->info.client);
  });
  const double allowed = config_.max_gap_seconds * kSafety * (work.n_decode > 0 ? 1 : kIdleFactor);
  const double seconds = allowed - costs_.decode_seconds(work.n_decode);
  int64_t n_step = work.n_decode;
  for (Request* request : prompts) {
    const double left = seconds - costs_.prefill_seconds(work.prefill);
    const int64_t least = work.prefill == 0 ? kMinChunk : 0;
    const int64_t most =
        std::min(config_.n_batch - n_step, std::max(costs_.tokens_within(left, request->n_done), least));
    int64_t n = chunk_of(*request, most);
    if (n == most && n > (n_step + n) % kStepMultiple) n -= (n_step + n) % kStepMultiple;
    if (n < 1) return;
    entries_.push_back({request->info.id, request->n_done, n, request->n_done + n == request->n_tokens});
    work.prefill += costs_.prefill_work(n, request->n_done);
    n_step += n;
  }
}

void Scheduler::plan() {
  entries_.clear();
  work_ = {};
  for (const Request* request : running_) {
    if (!request->decodes) continue;
    entries_.push_back({request->info.id, request->n_done, 1, true});
    ++work_.n_decode;
  }
  plan_prefill(work_);
}

int64_t Scheduler::pages_of_step() const {
  int64_t n = 0;
  for (const Entry& entry : entries_) n += device_.pages_needed(entry.id, entry.n_tokens);
  return n;
}

void Scheduler::preempt(Request& request) {
  device_.pause(request.info.id);
  request.running = false;
  request.n_done = 0;
  std::erase(running_, &request);
  ++n_preempted_;
}

// Pages for the whole step: from the cache of old prompts, else from the youngest requests.
void Scheduler::make_room() {
  plan();
  while (pages_of_step() > device_.n_free_pages()) {
    device_.reclaim(pages_of_step());
    if (pages_of_step() <= device_.n_free_pages()) return;
    CHECK(running_.size() > 1, "a single request fits", pages_of_step(), device_.n_free_pages());
    preempt(*running_.back());
    blocked_ = true;  // it comes back when somebody ends
    plan();
  }
}

void Scheduler::take_outcome(const Entry& entry, const Outcome& outcome) {
  Request& request = requests_.at(entry.id);
  const double now = clock_.now();
  shares_.charge(request.info.client, entry.n_tokens);
  if (outcome.n_done > request.n_done) request.last_progress = now;
  if (entry.last && outcome.n_done == request.n_tokens) {
    if (request.decodes) max_gap_ = std::max(max_gap_, now - request.last_token);
    request.last_token = now;
  }
  if (outcome.is_over) {
    remove(entry.id);
    return;
  }
  request.n_done = outcome.n_done;
  if (entry.last && request.n_done == request.n_tokens) ++request.n_tokens;  // the next one was chosen
  request.decodes = request.n_tokens - request.n_done == 1 && request.n_tokens > request.info.n_tokens;
}

// Who waited for its turn is not stuck.
void Scheduler::forgive_waiting() {
  for (Request* request : running_) request->in_step = false;
  for (const Entry& entry : entries_) requests_.at(entry.id).in_step = true;
  for (Request* request : running_)
    if (!request->in_step) request->last_progress = clock_.now();
}

bool Scheduler::step() {
  let_leave();
  admit();
  if (running_.empty()) return false;
  make_room();
  outcomes_.assign(entries_.size(), {});
  const double start = clock_.now();
  device_.run(entries_, outcomes_);
  costs_.learn(work_, clock_.now() - start);
  forgive_waiting();
  for (size_t i = 0; i < entries_.size(); ++i) take_outcome(entries_[i], outcomes_[i]);
  return true;
}

}  // namespace tokamak::scheduler
