#include "backend/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tokamak::cuda {
namespace {

using testing::HasSubstr;
constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(ShortageError, SaysWhatIsNeededAndWhoHasTheRest) {
  const Error error =
      shortage_error("weights", 20 * kGiB, 12 * kGiB, 24 * kGiB, {{"kv cache", 2 * kGiB}, {"step inputs", 0}});
  EXPECT_EQ(error.code, ErrorCode::out_of_memory);
  EXPECT_EQ(error.where, "weights on the GPU");
  EXPECT_EQ(
      error.what,
      "20.00 GiB are needed, 12.00 of 24.00 GiB are free: 8.00 GiB too few; in use: kv cache 2.00 GiB, driver and "
      "other programs 10.00 GiB");
  EXPECT_THAT(error.hint, HasSubstr("--n-gpu-layers"));
}

TEST(ShortageError, OfOtherMemoryAsksForLess) {
  const Error error = shortage_error("activations", 2 * kGiB, 3 * kGiB, 24 * kGiB, {{"weights", 21 * kGiB}});
  EXPECT_THAT(error.what, HasSubstr("not in one piece; in use: weights 21.00 GiB, driver and other programs 0.00 GiB"));
  EXPECT_THAT(error.hint, HasSubstr("--batch"));
}

}  // namespace
}  // namespace tokamak::cuda
