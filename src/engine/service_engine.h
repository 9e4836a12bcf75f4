// The engine thread's side of the service: requests on the session, as the scheduler asks for. One thread, but for
// the watchdog, which may fail the requests of a step that hangs.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/background_task.h"
#include "engine/prefix_cache.h"
#include "engine/scheduler/scheduler.h"
#include "engine/served_request.h"
#include "engine/service.h"

namespace tokamak {

// Everything a service reserves, after Session::reserve(). The prefix cache keeps its pages in the KV cache; with
// recurrent layers up to its whole limit may be states on the host.
std::vector<MemoryUse> service_memory(const Session& session, const ServiceOptions& options);

class ServiceEngine : public scheduler::Device {
 public:
  ServiceEngine(std::unique_ptr<Session> session, const ServiceOptions& options);

  Session& session() { return *session_; }
  const Session& session() const { return *session_; }
  PrefixCache& cache() { return cache_; }

  // A name for what the last request of a sequence, or the last that asked for the slot, left in the prefix cache.
  struct Slot {
    PrefixKey key;
    std::vector<int32_t> tokens;  // empty: nothing was kept
  };
  // As many as requests may run at once.
  std::vector<Slot>& slots() { return slots_; }

  // The scheduler may ask for it from now on.
  scheduler::RequestInfo add(std::unique_ptr<ServedRequest> request);
  void close_thought(uint64_t id);
  // Counters of requests that are over, of tokens and steps, and what memory is in use.
  ServiceStats stats() const;
  // Without what only the scheduler knows.
  std::vector<RequestStatus> statuses() const;
  std::vector<uint64_t> ids() const;
  size_t n_requests() const { return requests_.size(); }
  // Called by the watchdog: when a step has been running for more than `seconds`, its requests fail now. True while a
  // step hangs. Thread-safe.
  bool fail_stuck_step(double seconds);

  // scheduler::Device
  Result<int64_t> start(scheduler::RequestId id) override;
  void pause(scheduler::RequestId id) override;
  void leave(scheduler::RequestId id, scheduler::Leaving why) override;
  int64_t pages_needed(scheduler::RequestId id, int64_t n_tokens) const override;
  int64_t n_free_pages() const override { return session_->pages().n_free_pages(); }
  int64_t n_reclaimable_pages() const override { return cache_.n_reclaimable_pages(); }
  void reclaim(int64_t n_pages) override { cache_.reclaim(n_pages); }
  void run(std::span<const scheduler::Entry> entries, std::span<scheduler::Outcome> outcomes) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Seat {
    std::unique_ptr<ServedRequest> request;
    int32_t seq_id = -1;   // -1: not running
    bool has_run = false;  // a step, since it got the sequence
    int64_t first_difference = 0;
  };
  // An entry of a step on its way through the device.
  struct Job {
    scheduler::Entry entry;
    Seat* seat = nullptr;
    Logits rows = Logits::none;
    scheduler::Outcome* outcome = nullptr;
  };

  Seat& seat(uint64_t id) { return requests_.at(id); }
  const Seat& seat(uint64_t id) const { return requests_.at(id); }
  void run_jobs(std::span<const Job> jobs, OutputRows rows);
  struct StepRows {
    std::span<const LogitRow> logits;
    std::span<const float> hidden;  // [n_rows, n_embd]
  };
  Result<StepRows> forward(std::span<const Job> jobs, OutputRows rows);
  void take_rows(const Job& job, OutputRows kind, const StepRows& rows);
  void prepare_constraints(std::span<const Job> jobs);
  void save_prompt(const Job& job);
  void save(const Seat& seat, int64_t n_tokens);
  void note_slot(const ServedRequest& request, int64_t n_tokens);
  void free_sequence(Seat& seat);
  void forget(uint64_t id);
  PrefixKey key_of(const ServedRequest& request) const;

  std::unique_ptr<Session> session_;
  PrefixCache cache_;
  std::vector<Slot> slots_;
  int64_t max_scored_tokens_;
  double stall_seconds_;
  std::map<uint64_t, Seat> requests_;
  ServiceStats totals_;
  BackgroundTask constraints_;  // masks of the next tokens, while the device works
  // Of the step under way, for the watchdog.
  std::mutex step_mutex_;
  std::vector<ServedRequest*> in_step_;  // empty between steps
  Clock::time_point step_start_{};
  bool step_was_failed_ = false;
  std::optional<Error> lost_;  // why the device can no longer be used
};

}  // namespace tokamak
