// Answers under way, by the id that clients see.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tokamak::server {

// Thread-safe. Functions are called without a lock, perhaps after remove(): they must bear it.
class RunningAnswers {
 public:
  void add(const std::string& id, std::function<void()> end_reasoning) {
    const std::lock_guard lock(mutex_);
    end_reasoning_[id] = std::move(end_reasoning);
  }
  void remove(const std::string& id) {
    const std::lock_guard lock(mutex_);
    end_reasoning_.erase(id);
  }
  // Closes the thoughts that are under way. False: there is no such answer, or it is over.
  bool end_reasoning(const std::string& id) {
    std::function<void()> run;
    {
      const std::lock_guard lock(mutex_);
      const auto found = end_reasoning_.find(id);
      if (found == end_reasoning_.end()) return false;
      run = found->second;
    }
    run();
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::function<void()>> end_reasoning_;
};

}  // namespace tokamak::server
