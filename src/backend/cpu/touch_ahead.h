// Has the system find memory for the KV cache before a step needs it. Pages of one number lie far apart, layer by
// layer: the first step that comes to fresh ones would wait for a zeroed huge page per layer, for keys and for values.
// Goal: no step pays for many of them. Non-goal: all of the cache at once; memory still grows with use.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/cpu/ops/kv_cache.h"

namespace tokamak::cpu {

class TouchAhead {
 public:
  // The storage must outlive this. Begins with the first pages at once, on a thread of its own that gives way to
  // others. Where the system cannot do it, nothing happens.
  explicit TouchAhead(const KvStorage& storage);
  ~TouchAhead();
  TouchAhead(const TouchAhead&) = delete;
  TouchAhead& operator=(const TouchAhead&) = delete;

  // Pages up to this one are in use: those behind it are next, a huge page per plane. Cheap. Always the same thread.
  void use(int64_t page);
  // Waits until everything asked for is there. For tests.
  void wait();

 private:
  void run();
  // False: the system refuses, or the end has come.
  bool touch(int64_t first, int64_t end);

  std::vector<KvPlane> planes_;
  int64_t n_pages_, n_ahead_ = 1;
  int64_t asked_ = 0;  // of the caller: pages below it have been asked for
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t target_ = 0, done_ = 0;  // guarded by mutex_
  bool stops_ = false;             // guarded by mutex_
  std::thread thread_;             // last: it uses all the others
};

}  // namespace tokamak::cpu
