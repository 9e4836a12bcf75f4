// Stacks of their own within one thread of the host.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <memory>
#include <vector>

namespace tokamak::cuda::emulator {

// Functions that can be left in the middle and gone on with. A pool is used from one thread of the host; fibers that
// never end are forgotten with it, their destructors do not run.
class Fibers {
 public:
  explicit Fibers(void (*body)(size_t fiber));
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Runs fiber i, from its beginning or where it left, until it ends or leaves.
  void enter(size_t i);
  // Out of the running fiber, back to enter().
  void leave();
  // The same, for good: fiber i begins anew when it is entered next.
  [[noreturn]] void abandon();

  static constexpr size_t kMost = 1024;

 private:
  struct Fiber {
    std::jmp_buf where;
    bool begun = false;
  };
  static void begin(unsigned high, unsigned low);

  void (*body_)(size_t);
  std::vector<Fiber> fibers_;
  std::jmp_buf owner_;
  size_t running_ = 0;
  std::byte* stacks_ = nullptr;
};

}  // namespace tokamak::cuda::emulator
