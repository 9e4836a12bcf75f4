#undef _FORTIFY_SOURCE  // its longjmp takes another stack for a broken one
#include "backend/cuda/emulator/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace tokamak::cuda::emulator {

namespace {
constexpr size_t kStackBytes = 256 * 1024, kPage = 4096;
}

Fibers::Fibers(void (*body)(size_t fiber)) : body_(body), fibers_(kMost) {
  void* memory =
      mmap(nullptr, kMost * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::perror("emulator: stacks"), std::abort();
  stacks_ = static_cast<std::byte*>(memory);
  for (size_t i = 0; i < kMost; ++i) mprotect(stacks_ + i * kStackBytes, kPage, PROT_NONE);  // too deep: a fault
}
Fibers::~Fibers() { munmap(stacks_, kMost * kStackBytes); }

void Fibers::begin(unsigned high, unsigned low) {
  auto& pool = *reinterpret_cast<Fibers*>(uintptr_t{high} << 32 | low);
  for (const size_t i = pool.running_;;) {  // the same stack for one body after another
    pool.body_(i);
    pool.leave();
  }
}

void Fibers::enter(size_t i) {
  running_ = i;
  if (_setjmp(owner_) != 0) return;
  Fiber& fiber = fibers_[i];
  if (fiber.begun) _longjmp(fiber.where, 1);
  fiber.begun = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks_ + i * kStackBytes + kPage;
  context.uc_stack.ss_size = kStackBytes - kPage;
  context.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context, reinterpret_cast<void (*)()>(begin), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  setcontext(&context);
}

void Fibers::leave() {
  if (_setjmp(fibers_[running_].where) == 0) _longjmp(owner_, 1);
}

void Fibers::abandon() {
  fibers_[running_].begun = false;
  _longjmp(owner_, 1);
}

}  // namespace tokamak::cuda::emulator
