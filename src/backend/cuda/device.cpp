#include "backend/cuda/device.h"

#include <fmt/format.h>

#include <utility>

#include "backend/cuda/ops/rows.h"
#include "base/round_up.h"

namespace tokamak::cuda {

namespace {
constexpr double kMiB = 1024.0 * 1024.0, kGiB = 1024.0 * kMiB;
constexpr uint64_t kAlignment = 256;
constexpr uint64_t kFirstPlannedAddress = uint64_t{1} << 46;  // never read or written

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Error no_device(std::string what, std::string hint) {
  return Error{.code = ErrorCode::device_failed, .what = std::move(what), .where = "CUDA", .hint = std::move(hint)};
}

// Whether this answer to a question about a kernel means that there is none for the GPU.
bool lacks_code(cudaError_t status) {
  return status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction ||
         status == cudaErrorInvalidKernelImage;
}

// Why there is no list of devices.
Error probe_error(cudaError_t status) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return no_device("this machine has no NVIDIA driver", "install one, or use --backend cpu");
  if (status == cudaErrorInsufficientDriver)
    return no_device(fmt::format("the NVIDIA driver supports CUDA {} only, this build needs {}", version_text(driver),
                                 version_text(runtime / 1000 * 1000)),
                     "update the driver, or use --backend cpu");
  if (status == cudaErrorNoDevice)
    return no_device("the driver sees no GPU", "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --backend cpu");
  return no_device(fmt::format("the driver failed: {}", cudaGetErrorString(status)), "use --backend cpu");
}
}  // namespace

Error shortage_error(std::string_view what, uint64_t n_bytes, uint64_t n_free, uint64_t n_total, const Ledger& ledger) {
  const auto gib = [](uint64_t n) { return static_cast<double>(n) / kGiB; };
  std::string in_use;
  uint64_t n_used = n_free;  // what is accounted for
  for (const auto& [name, n] : ledger) {
    n_used += n;
    if (n > 0) in_use += fmt::format("{} {:.2f} GiB, ", name, gib(n));
  }
  const uint64_t n_others = n_total > n_used ? n_total - n_used : 0;
  const uint64_t n_missing = n_bytes > n_free ? n_bytes - n_free : 0;  // 0: it is free, but not in one piece
  const std::string_view hint =
      what == "weights" ? "keep layers or experts on the CPU (--n-gpu-layers, --n-cpu-moe; auto: as few as needed), or "
                          "use a smaller type"
                        : "lower --ctx-size, --parallel or --batch, or keep more layers on the CPU (--n-gpu-layers)";
  return Error{
      .code = ErrorCode::out_of_memory,
      .what = fmt::format("{:.2f} GiB are needed, {:.2f} of {:.2f} GiB are free: {}; in use: {}driver and other "
                          "programs {:.2f} GiB",
                          gib(n_bytes), gib(n_free), gib(n_total),
                          n_missing > 0 ? fmt::format("{:.2f} GiB too few", gib(n_missing)) : "not in one piece",
                          in_use, gib(n_others)),
      .where = std::string(what) + " on the GPU",
      .hint = std::string(hint)};
}

Result<void> check_cuda(cudaError_t status, std::string_view doing) {
  if (status == cudaSuccess) return {};
  return Error{.code = ErrorCode::device_failed,
               .what = fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status)),
               .where = std::string(doing),
               .hint = "a failure of the device ends the process's use of it: restart, or use --backend cpu"};
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
  std::swap(what_, other.what_);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_) device_->give_back(data_, n_bytes_, what_);
}

void PinnedBuffer::swap(PinnedBuffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_) cudaFreeHost(data_);
}

Result<PinnedBuffer> PinnedBuffer::allocate(uint64_t n_bytes, bool only_plan) {
  PinnedBuffer out;
  if (only_plan) out.n_bytes_ = n_bytes;
  if (n_bytes == 0 || only_plan) return out;
  void* data = nullptr;
  const cudaError_t status = cudaMallocHost(&data, n_bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return Error{.code = ErrorCode::out_of_memory,
                 .what = fmt::format("cannot pin {:.1f} MiB of the host's memory", static_cast<double>(n_bytes) / kMiB),
                 .where = "CUDA",
                 .hint = "end other programs, or lower --batch or --ctx-size"};
  }
  TRY(check_cuda(status, "pinning memory of the host"));
  out.data_ = static_cast<std::byte*>(data);
  out.n_bytes_ = n_bytes;
  return out;
}

Result<std::unique_ptr<Device>> Device::open(int index, bool only_plan) {
  std::unique_ptr<Device> device(new Device);
  device->index_ = index;
  const cudaError_t chosen = cudaSetDevice(index);
  if (chosen == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return Error{.code = ErrorCode::out_of_memory,
                 .what = "other programs have left no memory to start with",
                 .where = fmt::format("GPU {}", index),
                 .hint =
                     "end some (nvidia-smi lists them), name another GPU in CUDA_VISIBLE_DEVICES, or use "
                     "--backend cpu"};
  }
  TRY(check_cuda(chosen, "choosing the GPU"));
  TRY(check_cuda(cudaGetDeviceProperties(&device->properties_, index), "reading the properties of the GPU"));
  const cudaError_t image = check_kernel_image();
  if (!lacks_code(image)) {
    TRY(check_cuda(image, "loading kernels"));
  } else {
    cudaGetLastError();
    return no_device(fmt::format("this build has no code for {} (compute capability {}.{})", device->properties_.name,
                                 device->properties_.major, device->properties_.minor),
                     "build with -DTOKAMAK_CUDA_ARCHITECTURES for it, or use --backend cpu");
  }
  if (only_plan)
    device->plan_ = {device->free_bytes(), device->properties_.totalGlobalMem, kFirstPlannedAddress};
  else
    TRY(check_cuda(cudaStreamCreateWithFlags(&device->stream_, cudaStreamNonBlocking), "making a stream"));
  return device;
}

std::unique_ptr<Device> Device::imagine(uint64_t n_bytes) {
  std::unique_ptr<Device> device(new Device);
  device->index_ = kImagined;
  device->plan_ = {n_bytes, n_bytes, kFirstPlannedAddress};
  return device;
}

Device::~Device() {
  if (!stream_) return;
  cudaSetDevice(index_);
  cudaStreamDestroy(stream_);
}

std::string Device::description() const {
  if (index_ == kImagined) return "a GPU that is not here";
  return fmt::format("{}, {} multiprocessors, {:.1f} GiB", properties_.name, properties_.multiProcessorCount,
                     static_cast<double>(properties_.totalGlobalMem) / kGiB);
}

Result<void> Device::use() const {
  if (auto error = lost()) return *std::move(error);
  if (index_ == kImagined) return {};
  return check_cuda(cudaSetDevice(index_), "choosing the GPU");
}

Result<DeviceBuffer> Device::allocate(std::string what, uint64_t n_bytes) {
  DeviceBuffer out;
  if (n_bytes == 0) return out;
  void* data = nullptr;
  if (plan_) {
    if (n_bytes > plan_->n_free) return shortage_error(what, n_bytes, plan_->n_free, plan_->n_total, ledger_);
    plan_->n_free -= n_bytes;
    data = reinterpret_cast<void*>(plan_->next_address);
    plan_->next_address += round_up(n_bytes, kAlignment);
  } else {
    data = TRY(take(what, n_bytes));
  }
  out.device_ = this;
  out.data_ = static_cast<std::byte*>(data);
  out.n_bytes_ = n_bytes;
  out.what_ = std::move(what);
  ledger_[out.what_] += n_bytes;
  if (!plan_) TRY(check_cuda(cudaMemsetAsync(data, 0, n_bytes, stream_), "clearing memory"));
  return out;
}

Result<void*> Device::take(const std::string& what, uint64_t n_bytes) {
  TRY(use());
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, n_bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t n_free = 0, n_total = 0;
    cudaMemGetInfo(&n_free, &n_total);
    return shortage_error(what, n_bytes, n_free, n_total, ledger_);
  }
  TRY(check_cuda(status, "taking memory for " + what));
  return data;
}

void Device::give_back(std::byte* data, uint64_t n_bytes, std::string_view what) {
  ledger_.find(what)->second -= n_bytes;
  if (plan_) {
    plan_->n_free += n_bytes;
    return;
  }
  cudaSetDevice(index_);
  note(cudaFree(data));
}

Result<PinnedBuffer> Device::allocate_pinned(uint64_t n_bytes) const {
  return PinnedBuffer::allocate(n_bytes, only_plans());
}

uint64_t Device::free_bytes() const {
  if (plan_) return plan_->n_free;
  enter();
  size_t n_free = 0, n_total = 0;
  if (cudaMemGetInfo(&n_free, &n_total) == cudaSuccess) return n_free;
  cudaGetLastError();
  return 0;
}

Result<void> Device::finish(std::string_view doing) {
  if (plan_) return {};
  note(cudaStreamSynchronize(stream_), doing);
  if (auto error = lost()) return *std::move(error);
  return {};
}

void Device::note(cudaError_t status, std::string_view doing) const {
  if (noted_ != cudaSuccess || status == cudaSuccess) return;
  noted_ = status;
  noted_doing_ = doing;
}

std::optional<Error> Device::lost() const {
  if (noted_ == cudaSuccess && stream_) {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status != cudaErrorNotReady) note(status);
  }
  if (noted_ == cudaSuccess) return std::nullopt;
  return Error{.code = ErrorCode::device_failed,
               .what = fmt::format("the GPU is lost: {} ({})", cudaGetErrorString(noted_), cudaGetErrorName(noted_)),
               .where = noted_doing_,
               .hint = "a process cannot use a GPU again after this: restart it, or use --backend cpu"};
}

Result<std::vector<std::unique_ptr<Device>>> open_devices(bool only_plan) {
  int n = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&n); status != cudaSuccess || n == 0)
    return probe_error(status == cudaSuccess ? cudaErrorNoDevice : status);
  std::vector<std::unique_ptr<Device>> devices;
  Error last;
  for (int i = 0; i < n; ++i) {
    auto device = Device::open(i, only_plan);
    if (device)
      devices.push_back(std::move(*device));
    else
      last = std::move(device.error());
  }
  if (devices.empty()) return last;
  return devices;
}

}  // namespace tokamak::cuda
