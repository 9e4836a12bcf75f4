#include "backend/cpu/touch_ahead.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace tokamak::cpu {

namespace {
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr uintptr_t kSystemPage = 4096;
constexpr int kNice = 10;  // a tenth of a busy core: steps slow down by less than one huge page each would cost them

// Nothing of what is there changes, even while others write it.
bool populate(std::byte* begin, int64_t n_bytes) {
#ifdef MADV_POPULATE_WRITE
  const auto address = reinterpret_cast<uintptr_t>(begin), start = address / kSystemPage * kSystemPage;
  return madvise(reinterpret_cast<void*>(start), static_cast<size_t>(n_bytes) + (address - start),
                 MADV_POPULATE_WRITE) == 0;
#else
  return false;
#endif
}
}  // namespace

TouchAhead::TouchAhead(const KvStorage& storage) : n_pages_(storage.n_pages()) {
  for (size_t layer = 0; layer < storage.n_layers(); ++layer)
    for (const KvPlane* plane : {&storage.keys(layer), &storage.values(layer)})
      if (plane->layout.page_bytes > 0) planes_.push_back(*plane);
  if (planes_.empty() || n_pages_ == 0) return;
  n_ahead_ = std::max<int64_t>(1, static_cast<int64_t>(planes_.size()) * kHugePage / storage.bytes_per_page());
  use(-1);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::exception&) {  // no thread to be had: steps touch what they need
  }
}

TouchAhead::~TouchAhead() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TouchAhead::use(int64_t page) {
  const int64_t target = std::min(page + 1 + n_ahead_, n_pages_);
  // In strides: the thread is not woken for every page.
  if (target <= asked_ || (target < n_pages_ && target - asked_ < n_ahead_ / 4)) return;
  asked_ = target;
  {
    const std::lock_guard lock(mutex_);
    target_ = target;
  }
  changed_.notify_all();
}

void TouchAhead::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= target_ || stops_ || !thread_.joinable(); });
}

void TouchAhead::run() {
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || done_ < target_; });
    if (stops_) return;
    const int64_t first = done_, end = std::min(target_, first + n_ahead_);
    lock.unlock();
    const bool ok = touch(first, end);
    lock.lock();
    done_ = end;
    stops_ |= !ok;
    changed_.notify_all();
  }
}

bool TouchAhead::touch(int64_t first, int64_t end) {
  for (const KvPlane& plane : planes_) {
    {
      const std::lock_guard lock(mutex_);
      if (stops_) return false;
    }
    const int64_t page_bytes = plane.layout.page_bytes;
    if (!populate(plane.pages + first * page_bytes, (end - first) * page_bytes)) return false;
  }
  return true;
}

}  // namespace tokamak::cpu
