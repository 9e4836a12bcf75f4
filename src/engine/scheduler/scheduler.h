// What runs next: a state machine over a clock and a device. It knows requests by their lengths, no tokens, no threads.
//
// Terms. A request is queued, then running (it has a sequence with pages of the KV cache), then gone. Its known tokens
// are the prompt and what was generated; the device has processed a beginning of them. Once all are processed the
// device chooses the next one: the request decodes when exactly one is left, otherwise its prompt is being processed.
//
// Rules
// - Every step takes one token of every request that decodes, and as much of the prompts as keeps the step within
//   max_gap_seconds (kIdleFactor times that while nobody decodes) by what earlier steps cost; never fewer than
//   kMinChunk tokens, so that prompts do not starve.
// - Who comes first into the crowd, and whose prompt goes on: higher priority, which grows by one for every
//   kAgingSeconds of waiting; then the client that was served fewer tokens; then who came first.
// - A request is admitted when its known tokens fit beside one more page for everyone running. When pages run out the
//   cache of old prompts gives way first, then the youngest running request: its pages are freed, and it waits before
//   all that have not run yet and computes again what it had. The oldest is never interrupted, and any request alone
//   fits, so everyone gets through; nobody fails because of another.
// - Cancelled and stuck requests leave before the next step. Stuck is who takes part in steps and gets no further, not
//   who waits for its turn.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/scheduler/cost_model.h"
#include "engine/scheduler/fair_queue.h"

namespace tokamak::scheduler {

using RequestId = uint64_t;

inline constexpr int64_t kMinChunk = 16;      // tokens
inline constexpr int64_t kStepMultiple = 16;  // tokens of a step, where a prompt is cut: few shapes to compile
inline constexpr double kIdleFactor = 4;      // a step may be longer by this while nobody waits for a token
inline constexpr double kAgingSeconds = 10;   // of waiting, per step of priority
inline constexpr double kSafety = 0.8;        // of the allowed gap that a step is planned for

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now() const = 0;  // seconds, never going back
};

// Tokens [first, first + n_tokens) of a request. `last`: they are the last known ones, so the next one is wanted.
struct Entry {
  RequestId id = 0;
  int64_t first = 0, n_tokens = 0;
  bool last = false;
};

struct Outcome {
  int64_t n_done = 0;    // tokens the sequence holds now
  bool is_over = false;  // the device has finished with the request and freed what it had
};

enum class Leaving : uint8_t { cancelled, stalled };

class Device {
 public:
  virtual ~Device() = default;
  // Gives the request a sequence. Returns how many of its known tokens are processed already, fewer than all. On an
  // error the device has told the client, and the request is gone.
  virtual Result<int64_t> start(RequestId id) = 0;
  // Takes its sequence away; start() comes again later.
  virtual void pause(RequestId id) = 0;
  // The request is gone; running or queued before.
  virtual void leave(RequestId id, Leaving why) = 0;

  // New pages that n more tokens of a running request need.
  virtual int64_t pages_needed(RequestId id, int64_t n_tokens) const = 0;
  virtual int64_t n_free_pages() const = 0;
  // Pages that reclaim() could free.
  virtual int64_t n_reclaimable_pages() const = 0;
  // Frees pages that only the cache of old prompts holds, until n are free or none is left.
  virtual void reclaim(int64_t n_pages) = 0;

  // Runs a step; one outcome per entry. It fails by entry.
  virtual void run(std::span<const Entry> entries, std::span<Outcome> outcomes) = 0;
};

struct Config {
  int64_t n_parallel = 16, n_queue = 256;
  int64_t n_batch = 512;  // tokens in a step, at least n_parallel
  double max_gap_seconds = 0.25;
  double stall_seconds = 60;
  double depth_cost = 0;  // see CostModel
};

struct RequestInfo {
  RequestId id = 0;
  std::string client;
  int priority = 0;
  int64_t n_tokens = 1;        // of the prompt
  int64_t max_chunk = 0;       // most tokens of its prompt in a step; 0: no limit
  std::vector<int64_t> stops;  // ascending positions at which a part of the prompt is to end
};

struct Progress {
  std::string_view state = "queued";  // queued, prefill, decode
  int64_t n_tokens = 0, n_done = 0;
  double submitted = 0;
};

class Scheduler {
 public:
  Scheduler(const Config& config, const Clock& clock, Device& device);

  // Errors: queue_full.
  Result<void> submit(RequestInfo info);
  // Takes effect before the next step. Unknown ids are ignored.
  void cancel(RequestId id);

  // Lets requests leave and come in, then runs one step. False when there is nothing to do.
  bool step();

  bool idle() const { return requests_.empty(); }
  int64_t n_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t n_queued() const { return static_cast<int64_t>(requests_.size() - running_.size()); }
  uint64_t n_preempted() const { return n_preempted_; }
  double max_gap_seconds() const { return max_gap_; }  // the worst between two tokens of a stream so far
  double seconds_per_request() const { return seconds_per_request_; }  // between two that end; 0: unknown
  Progress progress(RequestId id) const;

 private:
  struct Request {
    RequestInfo info;
    uint64_t order = 0;    // of arrival
    uint64_t started = 0;  // order of the first start; 0: has not run yet
    bool running = false, decodes = false, cancelled = false, in_step = false;
    int64_t n_tokens = 0, n_done = 0;
    double submitted = 0, last_progress = 0, last_token = 0;
  };

  void let_leave();
  void admit();
  Request* next_in_queue();
  bool has_room(const Request& request) const;
  bool before(const Request& a, const Request& b) const;
  int64_t priority(const Request& request) const;
  void plan();
  void plan_prefill(StepWork& work);
  int64_t chunk_of(const Request& request, int64_t most) const;
  void make_room();
  int64_t pages_of_step() const;
  void preempt(Request& request);
  void forgive_waiting();
  void take_outcome(const Entry& entry, const Outcome& outcome);
  void remove(RequestId id);

  Config config_;
  const Clock& clock_;
  Device& device_;
  CostModel costs_;
  ClientShares shares_;
  std::map<RequestId, Request> requests_;
  std::vector<Request*> running_;  // oldest first
  std::vector<Entry> entries_;     // of the step being planned: first those that decode
  std::vector<Outcome> outcomes_;
  StepWork work_;
  uint64_t n_arrived_ = 0, n_started_ = 0, n_preempted_ = 0;
  bool blocked_ = false;  // nothing has become free since the first of the queue found no room
  double max_gap_ = 0, last_end_ = 0, seconds_per_request_ = 0;
};

}  // namespace tokamak::scheduler
