// A thread that does one thing at a time beside its owner.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tokamak {

class BackgroundTask {
 public:
  BackgroundTask() = default;
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  // Begins `work`, which must not throw; the thread is made by the first call. Not while another one runs.
  void start(std::function<void()> work);
  // Until the last work is done; what it wrote is visible then.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace tokamak
