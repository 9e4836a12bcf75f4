// A device without a model: pages are counted, steps take what a cost model says, and time is virtual.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/scheduler/scheduler.h"

namespace tokamak::scheduler {

struct SimulatedRequest {
  double arrives = 0;
  std::string client;
  int priority = 0;
  int64_t n_prompt = 1, n_generate = 1, n_cached = 0;  // n_cached: found in the cache of old prompts
  double cancelled_at = -1;                            // -1: never
};

// What became of a request. Times in seconds; -1: never.
struct Fate {
  double submitted = 0, first_started = -1, first_token = -1, ended = -1;
  std::vector<double> tokens;  // when each came
  bool refused = false, cancelled = false, stalled = false;
  int64_t n_generated = 0, n_paused = 0, n_processed = 0;
};

struct DeviceModel {
  int64_t page_size = 16, n_pages = 1024;
  int64_t n_cache_pages = 0;  // held by the cache of old prompts at the start
  double step_seconds = 0.005, decode_seconds = 0.001, prefill_seconds = 0.002;  // per step, sequence, token
  double depth_cost = 0;
  double noise = 0;  // up to this share more
  uint64_t seed = 1;
  std::function<bool(RequestId)> hangs;  // requests whose tokens never count
};

class Simulator : public Clock, public Device {
 public:
  Simulator(const DeviceModel& model, const Config& config);

  // Feeds the requests (in order of arrival) until all are gone. Checks the device's own rules all the way.
  void run(const std::vector<SimulatedRequest>& requests);

  const std::vector<Fate>& fates() const { return fates_; }
  const std::string& schedule() const { return schedule_; }  // every step, as text
  const Scheduler& scheduler() const { return scheduler_; }
  int64_t most_pages_used() const { return most_pages_; }
  int64_t n_pages_used() const;

  double now() const override { return now_; }
  Result<int64_t> start(RequestId id) override;
  void pause(RequestId id) override;
  void leave(RequestId id, Leaving why) override;
  int64_t pages_needed(RequestId id, int64_t n_tokens) const override;
  int64_t n_free_pages() const override { return model_.n_pages - n_pages_used(); }
  int64_t n_reclaimable_pages() const override { return n_cache_pages_; }
  void reclaim(int64_t n_pages) override;
  void run(std::span<const Entry> entries, std::span<Outcome> outcomes) override;

 private:
  struct Sequence {
    int64_t n_tokens = 0;  // held now
    bool running = false;
  };
  void arrive(size_t index);
  int64_t pages_of(int64_t n_tokens) const;
  void end(RequestId id);

  DeviceModel model_;
  double now_ = 0;
  uint64_t n_random_ = 0;
  int64_t n_cache_pages_, most_pages_ = 0;
  std::vector<SimulatedRequest> requests_;
  std::vector<Fate> fates_;
  std::map<RequestId, Sequence> sequences_;
  std::string schedule_;
  Scheduler scheduler_;
};

}  // namespace tokamak::scheduler
