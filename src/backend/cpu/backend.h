// The CPU backend: packed weights, integer dot kernels for the machine's vector units, paged attention, own threads.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/buffer.h"

namespace tokamak {

struct CpuOptions {
  std::string isa = "auto";  // or a row of the instruction set table, which the machine must have
  int64_t n_threads = 0;     // 0: one per usable core
  std::string activations =
      "int16";  // int8, int16: codes that quantized weights are multiplied with (matmul/formats.h)
  Backing backing = Backing::memory;  // addresses: nothing can be run, but Weights and KvCache tell their memory
};

// Errors: bad_argument (unknown or missing instruction set, thread count out of range), out_of_memory.
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);

}  // namespace tokamak
