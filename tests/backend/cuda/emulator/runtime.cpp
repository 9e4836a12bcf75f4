// The part of the CUDA runtime that the project uses, for a GPU that is the emulator. Everything is done when the call
// returns; a stream that captures keeps what it is given for the graph's launches.
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/cuda/emulator/block.h"
#include "backend/cuda/emulator/copy.h"
#include "backend/cuda/emulator/faults.h"
#include "backend/cuda/emulator/launch.h"

struct CUstream_st {
  bool captures = false;
  std::vector<std::function<cudaError_t()>> kept;
};
struct CUgraph_st {
  std::vector<std::function<cudaError_t()>> nodes;
};
struct CUgraphExec_st {
  std::vector<std::function<cudaError_t()>> nodes;
};
struct CUevent_st {};

namespace tokamak::cuda::emulator {
namespace {

constexpr size_t kPage = 4096, kAlign = 16;
constexpr size_t kSharedUnasked = 48 * 1024;
constexpr int kMultiprocessors = 3;  // few: kernels that go over their work in rounds do so
constexpr size_t kMemory = size_t{4} << 30, kNodeBytes = 1024;

struct Allocation {
  std::byte* mapped;
  size_t mapped_bytes, n_bytes;
};
std::map<void*, Allocation> allocations;
std::map<const void*, int> shared_limits;
cudaError_t lost = cudaSuccess;  // after a kernel that failed
int64_t alive = 0;
int64_t nodes_alive = 0, nodes_kept = 0;  // of graphs that can be launched: now, and memory that was taken for them
Fault fault;
int64_t until_fault = -1;  // -1: none is ordered
size_t most_shared = kMostShared;

// What a call answers that can fail.
cudaError_t answer(Calls kind = Calls::all) {
  if (lost != cudaSuccess || until_fault < 0 || (fault.calls == Calls::taking_memory && kind == Calls::all))
    return lost;
  if (until_fault-- > 0) return cudaSuccess;
  if (fault.stays) lost = fault.error;
  return fault.error;
}
template <class T, class... Args>
cudaError_t make(T** object, Args&&... args) {
  ++alive;
  *object = new T{std::forward<Args>(args)...};
  return cudaSuccess;
}
template <class T>
cudaError_t destroy(T* object) {
  --alive;
  delete object;
  return answer();
}

cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work) {
  if (stream == nullptr || !stream->captures) return work();
  stream->kept.push_back(std::move(work));
  return cudaSuccess;
}
cudaError_t run_all(const std::vector<std::function<cudaError_t()>>& nodes) {
  for (const auto& node : nodes)
    if (const cudaError_t error = node(); error != cudaSuccess) return error;
  return cudaSuccess;
}

// The contents of all memory of the device.
using Contents = std::vector<std::vector<std::byte>>;
Contents contents() {
  Contents all;
  for (const auto& [p, a] : allocations)
    all.emplace_back(static_cast<std::byte*>(p), static_cast<std::byte*>(p) + a.n_bytes);
  return all;
}
void restore(const Contents& all) {
  size_t i = 0;
  for (const auto& [p, a] : allocations) std::memcpy(p, all[i++].data(), a.n_bytes);
}

const char* error_text(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "error of the emulator";
  }
}

cudaError_t report(const std::string& what) {
  std::fprintf(stderr, "emulator: %s\n", what.c_str());
  return lost = cudaErrorLaunchFailure;
}

cudaError_t run_both(const Grid& grid) {
  const Contents before = contents();
  if (const std::string error = run(grid, Order::descending); !error.empty()) return report(error);
  const Contents after = contents();
  restore(before);
  if (const std::string error = run(grid, Order::ascending); !error.empty()) return report(error);
  size_t i = 0;
  for (const auto& [p, a] : allocations) {
    const std::vector<std::byte>& other = after[i++];
    const auto* now = static_cast<const std::byte*>(p);
    for (size_t at = 0; at < a.n_bytes; ++at)
      if (now[at] != other[at])
        return report("the order of threads matters: byte " + std::to_string(at) + " of an array of " +
                      std::to_string(a.n_bytes));
  }
  return cudaSuccess;
}
}  // namespace

void order(const Fault& ordered) {
  fault = ordered;
  until_fault = ordered.n_before;
}
void limit_shared(size_t n_bytes) { most_shared = n_bytes; }
bool mend() {
  const bool came = until_fault < 0;
  most_shared = kMostShared;
  lost = cudaSuccess;
  until_fault = -1;
  nodes_kept = nodes_alive;
  return came;
}
int64_t n_alive() { return alive; }

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || static_cast<size_t>(value) > most_shared)
    return cudaErrorInvalidValue;
  shared_limits[kernel] = value;
  return cudaSuccess;
}

cudaError_t launch_grid(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread) {
  if (const cudaError_t error = answer(); error != cudaSuccess) return error;
  const dim3 g = config.gridDim, b = config.blockDim;
  const auto limit = shared_limits.find(kernel);
  const size_t most = limit == shared_limits.end() ? kSharedUnasked : static_cast<size_t>(limit->second);
  const uint64_t n_threads = uint64_t{b.x} * b.y * b.z;
  if (n_threads == 0 || n_threads > 1024 || b.z > 64 || g.x == 0 || g.y == 0 || g.z == 0 || g.x > 0x7FFFFFFF ||
      g.y > 65535 || g.z > 65535 || config.dynamicSmemBytes > std::max(most, kSharedUnasked))
    return cudaErrorInvalidValue;
  return enqueue(config.stream,
                 [grid = Grid{g, b, config.dynamicSmemBytes, std::move(thread)}] { return run_both(grid); });
}

}  // namespace tokamak::cuda::emulator

using namespace tokamak::cuda::emulator;

// --- memory. What is allocated is all 0xFF and ends at a page that cannot be accessed.
cudaError_t cudaMalloc(void** p, size_t n_bytes) {
  if (const cudaError_t error = answer(Calls::taking_memory); error != cudaSuccess) return error;
  if (n_bytes == 0) return *p = nullptr, cudaSuccess;
  const size_t room = (n_bytes + kAlign - 1) / kAlign * kAlign, mapped = (room + kPage - 1) / kPage * kPage;
  void* memory =
      mmap(nullptr, mapped + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return cudaErrorMemoryAllocation;
  auto* bytes = static_cast<std::byte*>(memory);
  mprotect(bytes + mapped, kPage, PROT_NONE);
  *p = bytes + mapped - room;
  std::memset(*p, 0xFF, room);
  allocations[*p] = {bytes, mapped + kPage, n_bytes};
  ++alive;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  const auto found = allocations.find(p);
  if (found == allocations.end()) return p ? cudaErrorInvalidValue : cudaSuccess;
  munmap(found->second.mapped, found->second.mapped_bytes);
  allocations.erase(found);
  --alive;
  return answer();
}
cudaError_t cudaMallocHost(void** p, size_t n_bytes) {
  if (const cudaError_t error = answer(Calls::taking_memory); error != cudaSuccess) return error;
  *p = std::aligned_alloc(kPage, (n_bytes + kPage) / kPage * kPage);
  alive += *p != nullptr;
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* p) {
  alive -= p != nullptr;
  std::free(p);
  return answer();
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n_bytes, cudaMemcpyKind) {
  const cudaError_t error = answer();
  if (error == cudaSuccess && n_bytes > 0) std::memcpy(to, from, n_bytes);
  return error;
}
cudaError_t cudaMemset(void* to, int value, size_t n_bytes) {
  const cudaError_t error = answer();
  if (error == cudaSuccess) std::memset(to, value, n_bytes);
  return error;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n_bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return enqueue(stream, [=] { return cudaMemcpy(to, from, n_bytes, kind); });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t n_bytes, cudaStream_t stream) {
  return enqueue(stream, [=] { return cudaMemset(to, value, n_bytes); });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  size_t n_taken = static_cast<size_t>(nodes_kept) * kNodeBytes;
  for (const auto& [p, a] : allocations) n_taken += a.n_bytes;
  *total = kMemory;
  *free = kMemory - std::min(n_taken, kMemory);
  return answer();
}

// --- streams, events, graphs.
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const cudaError_t error = answer();
  return error == cudaSuccess ? make(stream) : error;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return destroy(stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return answer(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return answer(); }
cudaError_t cudaDeviceSynchronize() { return answer(); }
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const cudaError_t error = answer();
  stream->captures = error == cudaSuccess;
  return error;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  make(graph, std::move(stream->kept));
  stream->kept.clear();
  stream->captures = false;
  return answer();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = answer(Calls::taking_memory); error != cudaSuccess) return error;
  nodes_alive += static_cast<int64_t>(graph->nodes.size());
  nodes_kept = std::max(nodes_kept, nodes_alive);
  return make(exec, graph->nodes);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return answer(Calls::taking_memory); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const cudaError_t error = answer();
  if (error != cudaSuccess) return error;
  return enqueue(stream, [nodes = exec->nodes] { return run_all(nodes); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  nodes_alive -= static_cast<int64_t>(exec->nodes.size());
  return destroy(exec);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  const cudaError_t error = answer();
  return error == cudaSuccess ? make(event) : error;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return destroy(event); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return answer(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return answer(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { return *ms = 0.0f, answer(); }

// --- the device.
cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, answer(); }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? answer() : cudaErrorInvalidDevice; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      return *value = kMultiprocessors, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      return *value = 9, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = 0, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return *value = static_cast<int>(most_shared), cudaSuccess;
    case cudaDevAttrClockRate:
      return *value = 1000, cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulator");
  properties->major = 9;
  properties->multiProcessorCount = kMultiprocessors;
  properties->totalGlobalMem = kMemory;
  properties->sharedMemPerBlockOptin = most_shared;
  return answer();
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool known = std::string(name) == "cuTensorMapEncodeTiled";
  *found = known ? reinterpret_cast<void*>(encode_map) : nullptr;
  *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return lost; }
const char* cudaGetErrorString(cudaError_t error) { return error_text(error); }
const char* cudaGetErrorName(cudaError_t error) { return error_text(error); }
