#include "engine/service_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace tokamak {

namespace {
// -1: all pages of the KV cache, and a few states per running request where they are kept on the host.
uint64_t cache_limit(const Session& session, const ServiceOptions& options) {
  if (options.cache_bytes >= 0) return static_cast<uint64_t>(options.cache_bytes);
  const auto n_pages = static_cast<uint64_t>(KvPages::n_pages(session.options().n_kv, session.options().page_size));
  const auto page_size = static_cast<uint64_t>(session.options().page_size);
  const uint64_t page_bytes = session.page_bytes() + page_size * sizeof(int32_t);
  constexpr uint64_t kStatesPerRequest = 4;
  return n_pages * page_bytes +
         static_cast<uint64_t>(session.state_floats() * options.n_parallel) * sizeof(float) * kStatesPerRequest;
}

PrefixCacheOptions cache_options(const Session& session, const ServiceOptions& options) {
  return {.max_bytes = cache_limit(session, options),
          .max_tokens = options.cache_tokens,
          .page_bytes = session.page_bytes(),
          .state_floats = session.state_floats()};
}

Error stuck_error(double seconds) {
  return {.code = ErrorCode::time_out,
          .what = fmt::format("the device has not answered for {:.0f} seconds", seconds),
          .hint = "the machine may be overloaded; other requests go on when it answers"};
}
}  // namespace

std::vector<MemoryUse> service_memory(const Session& session, const ServiceOptions& options) {
  std::vector<MemoryUse> out = session.memory();
  out.push_back({.what = "compiled shapes, at most", .n_bytes = session.compiled_bytes()});
  if (session.state_floats() > 0)
    out.push_back({.what = "prefix cache, states and pages", .n_bytes = cache_limit(session, options)});
  return out;
}

ServiceEngine::ServiceEngine(std::unique_ptr<Session> session, const ServiceOptions& options)
    : session_(std::move(session)),
      cache_(session_->pages(), cache_options(*session_, options)),
      slots_(static_cast<size_t>(options.n_parallel)),
      max_scored_tokens_(options.max_scored_tokens),
      stall_seconds_(options.stall_seconds) {
  totals_.cache_bytes_max = cache_.max_bytes();
}

PrefixKey ServiceEngine::key_of(const ServedRequest& request) const {
  return {.adapter = request.request().adapter, .tenant = request.request().tenant};
}

scheduler::RequestInfo ServiceEngine::add(std::unique_ptr<ServedRequest> request) {
  const GenerationRequest& asked = request->request();
  scheduler::RequestInfo info{
      .id = request->id(), .client = asked.client, .priority = asked.priority, .n_tokens = request->n_prompt()};
  if (session_->state_floats() > 0 && asked.cache_prompt && !request->reads_prompt()) {
    // The last token is always computed, so the state before it serves who asks the same again.
    for (const int64_t boundary : asked.boundaries)
      if (boundary > 0 && boundary < request->n_prompt()) info.stops.push_back(boundary);
    if (request->n_prompt() > 1) info.stops.push_back(request->n_prompt() - 1);
    std::ranges::sort(info.stops);
  }
  if (asked.prompt_logprobs) info.max_chunk = max_scored_tokens_;
  requests_[info.id].request = std::move(request);
  return info;
}

void ServiceEngine::close_thought(uint64_t id) {
  if (const auto it = requests_.find(id); it != requests_.end()) it->second.request->close_thought();
}

Result<int64_t> ServiceEngine::start(scheduler::RequestId id) {
  Seat& seat = this->seat(id);
  ServedRequest& request = *seat.request;
  seat.seq_id = session_->add_sequence();
  request.set_slot(request.request().slot >= 0 ? request.request().slot : seat.seq_id);
  const std::span<const int32_t> tokens = request.tokens();
  PrefixCache::Match match;
  if (request.request().cache_prompt && !request.reads_prompt())
    match = cache_.find(key_of(request), tokens, static_cast<int64_t>(tokens.size()) - 1);
  if (match.n_tokens > 0) {
    const auto n = static_cast<size_t>(match.n_tokens);
    const auto attached = session_->attach(seat.seq_id, tokens.first(n), match.pages, match.state);
    CHECK(attached.has_value(), "there are as many recurrent states as running requests", id);
  }
  seat.first_difference = match.first_difference;
  return match.n_tokens;
}

void ServiceEngine::pause(scheduler::RequestId id) {
  Seat& seat = this->seat(id);
  if (seat.has_run) save(seat, session_->n_tokens(seat.seq_id));
  free_sequence(seat);
}

void ServiceEngine::leave(scheduler::RequestId id, scheduler::Leaving why) {
  Seat& seat = this->seat(id);
  if (why == scheduler::Leaving::cancelled)
    seat.request->finish(FinishReason::cancelled);
  else
    seat.request->fail(stuck_error(stall_seconds_));
  forget(id);
}

int64_t ServiceEngine::pages_needed(scheduler::RequestId id, int64_t n_tokens) const {
  return session_->pages().n_missing(seat(id).seq_id, n_tokens);
}

void ServiceEngine::free_sequence(Seat& seat) {
  if (seat.seq_id >= 0) session_->free_sequence(seat.seq_id);
  seat.seq_id = -1;
  seat.has_run = false;
}

void ServiceEngine::forget(uint64_t id) {
  Seat& seat = this->seat(id);
  const ServedRequest& request = *seat.request;
  if (seat.seq_id >= 0 && seat.has_run && !request.failed()) {
    save(seat, session_->n_tokens(seat.seq_id));
    note_slot(request, session_->n_tokens(seat.seq_id));
  }
  free_sequence(seat);
  if (session_->selects_top() && !request.wants_hidden() && !request.why_all().empty())
    log_line(LogLevel::debug, fmt::format("request {}: all logits left the device, for {}", id, request.why_all()));
  const RequestTimings& timings = request.timings();
  if (request.failed())
    ++totals_.n_failed;
  else if (!request.reason() || *request.reason() == FinishReason::cancelled)
    ++totals_.n_cancelled;
  else
    ++totals_.n_finished;
  totals_.prompt_seconds += timings.prompt_ms / 1000;
  totals_.decode_seconds += timings.decode_ms / 1000;
  requests_.erase(id);
}

// Keeps the first n_tokens of the sequence for later requests.
void ServiceEngine::save(const Seat& seat, int64_t n_tokens) {
  const ServedRequest& request = *seat.request;
  if (!request.request().cache_prompt || request.wants_hidden() || n_tokens < 1) return;
  const auto n_pages = static_cast<size_t>(KvPages::n_pages(n_tokens, session_->options().page_size));
  cache_.insert(key_of(request), request.tokens().first(static_cast<size_t>(n_tokens)),
                session_->pages().pages(seat.seq_id).first(n_pages),
                [&](std::span<float> out) { session_->read_state(seat.seq_id, out); });
}

void ServiceEngine::note_slot(const ServedRequest& request, int64_t n_tokens) {
  const auto index = static_cast<size_t>(request.slot());
  if (request.wants_hidden() || index >= slots_.size()) return;
  if (!request.request().cache_prompt) n_tokens = 0;
  const auto tokens = request.tokens().first(static_cast<size_t>(n_tokens));
  slots_[index] = {.key = key_of(request), .tokens = {tokens.begin(), tokens.end()}};
}

// What others can use while this request goes on: whole pages of the prompt, or its states at ends of messages.
void ServiceEngine::save_prompt(const Job& job) {
  const ServedRequest& request = *job.seat->request;
  const int64_t n_done = session_->n_tokens(job.seat->seq_id), page_size = session_->options().page_size;
  if (n_done > request.n_prompt()) return;
  if (session_->state_floats() > 0) {
    const std::vector<int64_t>& boundaries = request.request().boundaries;
    const bool at_boundary = std::ranges::find(boundaries, n_done) != boundaries.end();
    if (!request.reads_prompt() && (at_boundary || n_done == request.n_prompt() - 1)) save(*job.seat, n_done);
  } else if (n_done == request.n_prompt()) {
    save(*job.seat, n_done / page_size * page_size);
  }
}

void ServiceEngine::run(std::span<const scheduler::Entry> entries, std::span<scheduler::Outcome> outcomes) {
  const auto start = Clock::now();
  std::vector<Job> with_logits, with_hidden;
  for (size_t i = 0; i < entries.size(); ++i) {
    Seat& seat = this->seat(entries[i].id);
    if (!seat.has_run) {
      seat.has_run = true;
      seat.request->started(entries[i].first, seat.first_difference);
      totals_.n_cached_tokens += static_cast<uint64_t>(entries[i].first);
    }
    const Job job{.entry = entries[i],
                  .seat = &seat,
                  .rows = seat.request->rows_of(entries[i].first, entries[i].last),
                  .outcome = &outcomes[i]};
    (seat.request->wants_hidden() ? with_hidden : with_logits).push_back(job);
  }
  // Those that read every row of their prompt run by themselves: that bounds the rows of a step.
  const auto scored =
      std::ranges::stable_partition(with_logits, [](const Job& job) { return job.rows != Logits::all; });
  run_jobs({with_logits.begin(), scored.begin()}, OutputRows::logits);
  for (const Job& job : scored) run_jobs({&job, 1}, OutputRows::logits);
  run_jobs(with_hidden, OutputRows::hidden);
  ++totals_.n_steps;
  totals_.n_step_sequences += entries.size();
  totals_.step_seconds += std::chrono::duration<double>(Clock::now() - start).count();
  for (size_t i = 0; i < entries.size(); ++i) {
    totals_.n_tokens_max =
        std::max(totals_.n_tokens_max, static_cast<int64_t>(seat(entries[i].id).request->tokens().size()));
    if (outcomes[i].is_over) forget(entries[i].id);
  }
}

void ServiceEngine::run_jobs(std::span<const Job> jobs, OutputRows kind) {
  if (jobs.empty()) return;
  auto rows = forward(jobs, kind);
  if (!rows && jobs.size() > 1) {  // one of them may be the cause: each for itself
    for (const Job& job : jobs) {
      *job.outcome = {.n_done = session_->n_tokens(job.seat->seq_id)};
      if (job.outcome->n_done == job.entry.first) run_jobs({&job, 1}, kind);  // else its recurrent state is lost
    }
    return;
  }
  size_t begin = 0;
  const auto n_embd = static_cast<size_t>(session_->model().hparams().n_embd);
  for (const Job& job : jobs) {
    ServedRequest& request = *job.seat->request;
    if (!rows) request.fail(rows.error());
    if (request.over()) {
      job.outcome->is_over = true;
      if (!rows) return;
    }
    const size_t n_rows = job.rows == Logits::all    ? static_cast<size_t>(job.entry.n_tokens)
                          : job.rows == Logits::last ? 1
                                                     : 0;
    if (kind == OutputRows::logits)
      take_rows(job, kind, {.logits = rows->logits.subspan(begin, n_rows), .hidden = {}});
    else
      take_rows(job, kind, {.logits = {}, .hidden = rows->hidden.subspan(begin * n_embd, n_rows * n_embd)});
    begin += n_rows;
  }
}

void ServiceEngine::take_rows(const Job& job, OutputRows kind, const StepRows& rows) {
  ServedRequest& request = *job.seat->request;
  const int64_t n_done = job.entry.first + job.entry.n_tokens, n_before = request.n_generated();
  if (n_before == 0) totals_.n_prompt_tokens += static_cast<uint64_t>(job.entry.n_tokens);
  save_prompt(job);
  const bool goes_on = kind == OutputRows::logits
                           ? request.take_logits(job.entry.first, n_done, job.entry.last, rows.logits)
                           : request.take_hidden(job.entry.first, n_done, job.entry.last, rows.hidden);
  totals_.n_generated_tokens += static_cast<uint64_t>(request.n_generated() - n_before);
  *job.outcome = {.n_done = n_done, .is_over = !goes_on};
}

// Each constraint's next mask, beside the device.
void ServiceEngine::prepare_constraints(std::span<const Job> jobs) {
  std::vector<TokenConstraint*> waiting;
  for (const Job& job : jobs)
    if (job.entry.last && job.seat->request->constraint() != nullptr)
      waiting.push_back(job.seat->request->constraint());
  if (waiting.empty()) return;
  constraints_.start([waiting] {
    for (TokenConstraint* constraint : waiting) constraint->prepare();
  });
}

Result<ServiceEngine::StepRows> ServiceEngine::forward(std::span<const Job> jobs, OutputRows rows) {
  std::vector<SequenceTokens> batch;
  {
    const std::scoped_lock lock(step_mutex_);
    for (const Job& job : jobs) in_step_.push_back(job.seat->request.get());
    step_start_ = Clock::now();
    step_was_failed_ = false;
  }
  for (const Job& job : jobs)
    batch.push_back({.seq_id = job.seat->seq_id,
                     .tokens = job.seat->request->tokens().subspan(static_cast<size_t>(job.entry.first),
                                                                   static_cast<size_t>(job.entry.n_tokens)),
                     .logits = job.rows,
                     .only_top = job.seat->request->takes_top()});
  prepare_constraints(jobs);
  const auto run = [&]() -> Result<StepRows> {
    if (rows == OutputRows::hidden) return StepRows{.logits = {}, .hidden = TRY(session_->forward(batch, rows))};
    return StepRows{.logits = TRY(session_->step(batch)), .hidden = {}};
  };
  auto out = run();
  if (!out && out.error().code == ErrorCode::device_failed) lost_ = session_->backend().lost();
  constraints_.wait();
  const std::scoped_lock lock(step_mutex_);
  in_step_.clear();
  return out;
}

ServiceStats ServiceEngine::stats() const {
  ServiceStats out = totals_;
  const int64_t page_size = session_->options().page_size;
  out.kv_tokens = KvPages::n_pages(session_->options().n_kv, page_size) * page_size;
  out.kv_tokens_free = n_free_pages() * page_size;
  out.lost = lost_;
  out.cache_bytes = cache_.n_bytes();
  out.cache_tokens = static_cast<uint64_t>(cache_.n_tokens());
  out.cache_entries = cache_.n_entries();
  for (const Slot& slot : slots_) out.slot_tokens.push_back(static_cast<int64_t>(slot.tokens.size()));
  return out;
}

std::vector<RequestStatus> ServiceEngine::statuses() const {
  std::vector<RequestStatus> out;
  for (const auto& [id, seat] : requests_)
    out.push_back({.id = id,
                   .slot = seat.request->slot(),
                   .n_prompt = seat.request->n_prompt(),
                   .n_cached = seat.request->timings().n_cached,
                   .n_generated = seat.request->n_generated()});
  return out;
}

std::vector<uint64_t> ServiceEngine::ids() const {
  std::vector<uint64_t> out;
  for (const auto& [id, seat] : requests_) out.push_back(id);
  return out;
}

bool ServiceEngine::fail_stuck_step(double seconds) {
  const std::scoped_lock lock(step_mutex_);
  if (in_step_.empty() || std::chrono::duration<double>(Clock::now() - step_start_).count() < seconds) return false;
  // The engine thread is inside the device, and does not touch the requests before it gets the lock.
  if (!step_was_failed_)
    for (ServedRequest* request : in_step_) request->fail(stuck_error(seconds));
  step_was_failed_ = true;
  return true;
}

}  // namespace tokamak
