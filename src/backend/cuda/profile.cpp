#include "backend/cuda/profile.h"

#include <algorithm>
#include <vector>

#include "backend/cuda/ops/probe.h"

namespace tokamak::cuda {

namespace {
constexpr double kSecondsPerLaunch = 8e-6;  // of the host, with a mark behind each
constexpr double kMaxHold = 0.1;

class Events {
 public:
  static Result<Events> make(size_t n) {
    Events out;
    for (size_t i = 0; i < n; ++i) {
      cudaEvent_t event = nullptr;
      TRY(check_cuda(cudaEventCreate(&event), "making an event"));
      out.events_.push_back(event);
    }
    return out;
  }
  Events() = default;
  Events(Events&& other) noexcept { std::swap(events_, other.events_); }
  Events& operator=(Events&&) = delete;
  ~Events() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  Result<void> record(size_t i, cudaStream_t stream) {
    return check_cuda(cudaEventRecord(events_[i], stream), "profiling");
  }
  // Between mark i and the one behind it.
  Result<double> seconds_after(size_t i) const {
    float ms = 0;
    TRY(check_cuda(cudaEventElapsedTime(&ms, events_[i], events_[i + 1]), "profiling"));
    return double{ms} * 1e-3;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

// Seconds of one of n reads of `bytes`, back to back, that walk over `memory`.
Result<double> time_reads(Device& device, const DeviceBuffer& memory, uint64_t bytes, int n) {
  Events events = TRY(Events::make(2));
  const uint64_t n_places = memory.size() / bytes;
  TRY(check_cuda(launch_hold(static_cast<uint64_t>(n * kSecondsPerLaunch * 1e9), device.stream()), "measuring"));
  TRY(events.record(0, device.stream()));
  for (int i = 0; i < n; ++i)
    TRY(check_cuda(launch_read(memory.data() + static_cast<uint64_t>(i) % n_places * bytes, bytes, device.stream()),
                   "measuring"));
  TRY(events.record(1, device.stream()));
  TRY(device.finish("measuring"));
  return TRY(events.seconds_after(0)) / n;
}

// Multiplies and adds per clock and multiprocessor of dense f16 products. Source: NVIDIA's architecture papers.
struct TensorRow {
  int major, minor;
  double ops_per_clock;
};
constexpr TensorRow kTensorRows[] = {{8, 0, 2048}, {8, 6, 512},   {8, 9, 1024},
                                     {9, 0, 4096}, {10, 0, 8192}, {12, 0, 1024}};

Result<double> tensor_ops_per_second(const Device& device) {
  const cudaDeviceProp& gpu = device.properties();
  int khz = 0;
  TRY(check_cuda(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device.index()), "asking for the GPU's clock"));
  double ops_per_clock = 1024;
  for (const TensorRow& row : kTensorRows)
    if (row.major == gpu.major && row.minor == gpu.minor) ops_per_clock = row.ops_per_clock;
  return ops_per_clock * gpu.multiProcessorCount * khz * 1e3;
}
}  // namespace

Result<void> profile_steps(std::span<const Step> steps, const RunContext& context, Device& device,
                           std::span<double> seconds) {
  const size_t n = steps.size();
  Events events = TRY(Events::make(n + 2));
  const double hold = std::min(kMaxHold, static_cast<double>(n) * kSecondsPerLaunch);
  TRY(check_cuda(launch_hold(static_cast<uint64_t>(hold * 1e9), context.stream), "profiling"));
  TRY(events.record(0, context.stream));
  for (size_t i = 0; i < n; ++i) {
    TRY(check_cuda(steps[i].launch(context), steps[i].report.what));
    TRY(events.record(i + 1, context.stream));
  }
  TRY(events.record(n + 1, context.stream));
  TRY(device.finish("profiling"));
  const double mark = TRY(events.seconds_after(n));
  for (size_t i = 0; i < n; ++i) seconds[i] += std::max(0.0, TRY(events.seconds_after(i)) - mark);
  return {};
}

Result<DeviceLimits> measure_device_limits(Device& device) {
  TRY(device.use());
  constexpr uint64_t kSmall = uint64_t{1} << 20;
  // Beside a model that fills the memory: half of what is left.
  const uint64_t n_large = std::clamp(device.free_bytes() / 8 / kSmall * kSmall, kSmall, uint64_t{256} << 20);
  const DeviceBuffer memory = TRY(device.allocate("speed test", 4 * n_large));
  TRY(time_reads(device, memory, n_large, 4));  // the first one finds cold clocks
  const double large = TRY(time_reads(device, memory, n_large, 16));
  const double small = TRY(time_reads(device, memory, kSmall, 512));
  const double rate = static_cast<double>(n_large) / large;
  const double tensor_ops = TRY(tensor_ops_per_second(device));
  return DeviceLimits{.read_bytes_per_second = rate,
                      .int8_ops_per_second = tensor_ops,  // codes are multiplied as halves
                      .f32_ops_per_second = tensor_ops,
                      .step_seconds = std::max(0.0, small - static_cast<double>(kSmall) / rate)};
}

}  // namespace tokamak::cuda
