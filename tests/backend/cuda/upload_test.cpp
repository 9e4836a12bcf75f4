// Pieces of an image on their way to the device.
#include "backend/cuda/upload.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/matvec/device_memory.h"

namespace tokamak::cuda {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// One is larger than what is made at once otherwise; gaps become zero.
TEST(Uploader, PiecesOfAnySizeArrive) {
  REQUIRE_DEVICE();
  const auto device = std::move(*Device::open(0));
  const std::vector<uint64_t> sizes = {3, kMiB, 66 * kMiB + 5, 256, 2 * kMiB};
  uint64_t total = 0;
  for (const uint64_t n : sizes) total += n + 256;
  const DeviceBuffer image = std::move(*device->allocate("weights", total));
  std::vector<uint8_t> expected(total), got(total);
  {
    const auto uploader = std::move(*Uploader::create(*device, image.data(), total));
    uint64_t offset = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto value = static_cast<uint8_t>(i + 1);
      std::memset(expected.data() + offset, value, sizes[i]);
      ASSERT_TRUE(uploader->add(
          {.offset = offset, .n_bytes = sizes[i], .make = [=](std::byte* out) { std::memset(out, value, sizes[i]); }}));
      offset += sizes[i] + 256;
    }
    ASSERT_TRUE(uploader->finish());
  }
  ASSERT_EQ(cudaMemcpy(got.data(), image.data(), total, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), total), 0);
}

}  // namespace
}  // namespace tokamak::cuda
