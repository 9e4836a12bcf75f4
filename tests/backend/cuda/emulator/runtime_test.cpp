// The emulator's runtime: what launches refuse and what they find by running both orders.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/emulator/launch.h"

namespace tokamak::cuda::emulator {
namespace {

void write_own(int* out) { out[threadIdx.x] = static_cast<int>(threadIdx.x); }
void write_same(int* out) { *out = static_cast<int>(threadIdx.x); }
void write_beyond(int* out) { out[blockDim.x] = 1; }

cudaError_t launch_on(void (*kernel)(int*), int* out, dim3 block = 32, size_t shared_bytes = 0) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  return cudaLaunchKernelEx(&config, kernel, out);
}
int* allocate() {
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 32 * sizeof(int)), cudaSuccess);
  return static_cast<int*>(p);
}

TEST(EmulatorRuntime, RunsKernels) {
  int* out = allocate();
  EXPECT_EQ(out[7], -1);  // not zero: nobody has written it
  EXPECT_EQ(launch_on(write_own, out), cudaSuccess);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], i);
  cudaFree(out);
}
TEST(EmulatorRuntime, RefusesWhatAGpuRefuses) {
  int* out = allocate();
  EXPECT_EQ(launch_on(write_own, out, 1025), cudaErrorInvalidValue);
  EXPECT_EQ(launch_on(write_own, out, dim3(1, 1, 65)), cudaErrorInvalidValue);
  EXPECT_EQ(launch_on(write_own, out, 32, 48 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(write_own, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024), cudaSuccess);
  EXPECT_EQ(launch_on(write_own, out, 32, 48 * 1024 + 1), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(write_own, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024),
            cudaErrorInvalidValue);
  cudaFree(out);
}
TEST(EmulatorRuntime, GraphsReplay) {
  int* out = allocate();
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(out, 0, 8, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(out[0], -1);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(out[2], -1);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaFree(out);
}

// A fault is for good, as on a GPU: in a process of its own.
int fault_of(void (*kernel)(int*)) {
  int* out = allocate();
  const bool failed = launch_on(kernel, out) == cudaErrorLaunchFailure && cudaDeviceSynchronize() != cudaSuccess &&
                      launch_on(write_own, out) != cudaSuccess;
  return failed ? 3 : 0;
}
TEST(EmulatorRuntimeDeathTest, FaultsAreNamedAndStay) {
  EXPECT_EXIT(std::_Exit(fault_of(write_beyond)), ::testing::ExitedWithCode(3),
              "signal 11 .*thread \\(0, 0, 0\\)|signal 11");
  EXPECT_EXIT(std::_Exit(fault_of(write_same)), ::testing::ExitedWithCode(3), "order of threads matters: byte 0");
}

}  // namespace
}  // namespace tokamak::cuda::emulator
