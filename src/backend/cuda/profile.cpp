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

// Multiplies and adds per clock and multiprocessor: of dense f16 products on tensor cores (source: NVIDIA's
// architecture papers), of dot products of four bytes and of f32 (source: CUDA Programming Guide, "Arithmetic
// Instructions").
struct ComputeRow {
  int major, minor;
  double f16, int8, f32;
};
constexpr ComputeRow kComputeRows[] = {{8, 0, 2048, 512, 128}, {8, 6, 512, 512, 256},   {8, 9, 1024, 512, 256},
                                       {9, 0, 4096, 512, 256}, {10, 0, 8192, 512, 256}, {12, 0, 1024, 512, 256}};

const ComputeRow& compute_row(const Device& device) {
  const cudaDeviceProp& gpu = device.properties();
  const auto found = std::ranges::find_if(
      kComputeRows, [&](const ComputeRow& row) { return row.major == gpu.major && row.minor == gpu.minor; });
  return found == std::end(kComputeRows) ? kComputeRows[2] : *found;
}
// Clocks of all multiprocessors together.
Result<double> clocks_per_second(const Device& device) {
  int khz = 0;
  TRY(check_cuda(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device.index()), "asking for the GPU's clock"));
  return 1e3 * khz * device.properties().multiProcessorCount;
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
  const double clocks = TRY(clocks_per_second(device));
  const ComputeRow& compute = compute_row(device);
  return DeviceLimits{.read_bytes_per_second = rate,
                      .int8_ops_per_second = compute.int8 * clocks,
                      .f32_ops_per_second = compute.f32 * clocks,
                      .f16_ops_per_second = compute.f16 * clocks,
                      .step_seconds = std::max(0.0, small - static_cast<double>(kSmall) / rate)};
}

}  // namespace tokamak::cuda
