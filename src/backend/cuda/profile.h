// Times of single steps, and of what a device can do at most.
#pragma once

#include <span>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/program.h"

namespace tokamak::cuda {

// Runs the steps once and adds the time of each to seconds[i]. The stream is held back until all launches are queued,
// so that no step waits for the host; the time of an empty pair of marks is taken off. Errors: device_failed.
Result<void> profile_steps(std::span<const Step> steps, const RunContext& context, Device& device,
                           std::span<double> seconds);

// Errors: device_failed, out_of_memory.
Result<DeviceLimits> measure_device_limits(Device& device);

}  // namespace tokamak::cuda
