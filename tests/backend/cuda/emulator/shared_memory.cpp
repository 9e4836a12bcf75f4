#include "backend/cuda/emulator/shared_memory.h"

#include <link.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tokamak::cuda::emulator {

namespace {
constexpr size_t kPage = 4096, kSlack = 1024;  // alignment of dynamic()

// The calling thread's variables of the program itself.
std::span<std::byte> thread_variables() {
  std::span<std::byte> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data)
            *static_cast<std::span<std::byte>*>(out) = {static_cast<std::byte*>(info->dlpi_tls_data),
                                                        info->dlpi_phdr[i].p_memsz};
        return 1;  // the program comes first
      },
      &found);
  return found;
}
}  // namespace

SharedMemory::SharedMemory(size_t dynamic_bytes)
    : size_((dynamic_bytes + kSlack + kPage - 1) / kPage * kPage), dynamic_bytes_(dynamic_bytes) {
  void* memory = mmap(nullptr, size_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::perror("emulator: shared memory"), std::abort();
  base_ = static_cast<uint8_t*>(memory);
  mprotect(base_ + size_, kPage, PROT_NONE);
}
SharedMemory::~SharedMemory() { munmap(base_, size_ + kPage); }

void SharedMemory::clear() {
  std::memset(base_, 0xFF, size_);
  const std::span<std::byte> own = thread_variables();
  std::memset(own.data(), 0xFF, own.size());
}

uint8_t* SharedMemory::dynamic(size_t align) const {
  const auto last = reinterpret_cast<uintptr_t>(base_ + size_ - dynamic_bytes_);
  return reinterpret_cast<uint8_t*>(last / align * align);
}

}  // namespace tokamak::cuda::emulator
