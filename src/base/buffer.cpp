#include "base/buffer.h"

#include <sys/mman.h>

#include <fmt/format.h>

namespace tokamak {

namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

void detail::UnmapBuffer::operator()(std::byte* p) const { munmap(p, n_bytes); }

Result<Buffer> Buffer::allocate(size_t n_bytes, Backing backing) {
  Buffer buffer;
  if (n_bytes == 0) return buffer;
  const bool real = backing == Backing::memory;
  void* p = mmap(nullptr, n_bytes, real ? PROT_READ | PROT_WRITE : PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | (real ? 0 : MAP_NORESERVE), -1, 0);
  if (p == MAP_FAILED)
    return Error{.code = ErrorCode::out_of_memory,
                 .what = fmt::format("cannot reserve {} MiB", n_bytes >> 20),
                 .hint = "use a smaller context or model"};
  if (real && n_bytes >= kHugePage) madvise(p, n_bytes, MADV_HUGEPAGE);  // advice: a failure changes only the speed
  buffer.data_ =
      std::unique_ptr<std::byte, detail::UnmapBuffer>(static_cast<std::byte*>(p), detail::UnmapBuffer{n_bytes});
  return buffer;
}

}  // namespace tokamak
