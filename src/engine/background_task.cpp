#include "engine/background_task.h"

#include <system_error>
#include <utility>

#include "base/check.h"

namespace tokamak {

BackgroundTask::~BackgroundTask() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundTask::start(std::function<void()> work) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // no thread to be had: then here and now
      work();
      return;
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    CHECK(!busy_);
    work_ = std::move(work);
    busy_ = true;
  }
  changed_.notify_all();
}

void BackgroundTask::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void BackgroundTask::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || stopping_; });
    if (!busy_) return;
    lock.unlock();
    work_();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace tokamak
