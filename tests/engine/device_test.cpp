// What the engine makes of a device that selects logits, and of one that is lost.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/generate.h"
#include "engine/service.h"
#include "engine/wrapped_backend.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

using test::DeviceScript;
using test::random_tokens;

constexpr int64_t kVocab = 1000;

std::unique_ptr<Session> open_session(DeviceScript& script) {
  static const auto path = test::write_tiny_model({.n_vocab = kVocab});
  auto model = Model::open(path);
  EXPECT_TRUE(model) << model.error().message();
  SessionOptions options{.n_threads = 1, .n_ctx = 256, .n_kv = 2048, .n_batch = 64, .page_size = 16, .n_sequences = 8};
  options.wrap_backend = test::wrap_with(script);
  auto session = Session::create(*model, std::move(options));
  EXPECT_TRUE(session) << session.error().message();
  return *std::move(session);
}

std::vector<int32_t> generated(DeviceScript& script, const SamplerParams& sampling, size_t n_probs = 0) {
  const auto session = open_session(script);
  GenerateOptions options{.sampling = sampling, .n_predict = 40};
  options.n_probs = n_probs;
  const auto result = generate(*session, session->add_sequence(), {}, random_tokens(20, kVocab, 3), options, {});
  EXPECT_TRUE(result) << result.error().message();
  std::vector<int32_t> ids;
  for (const GeneratedToken& token : result->tokens) ids.push_back(token.id);
  return ids;
}

TEST(SelectingDevice, GeneratesTheSameTokensWithoutTheirLogits) {
  for (const double temperature : {0.0, 0.9}) {
    DeviceScript plain, selecting;
    selecting.selects = true;
    SamplerParams sampling;
    sampling.temperature = temperature;
    sampling.seed = 5;
    EXPECT_EQ(generated(selecting, sampling), generated(plain, sampling));
    EXPECT_GE(selecting.n_rows, 10);
    EXPECT_EQ(selecting.n_whole_rows, 0);
    EXPECT_EQ(plain.n_rows, 0);
  }
}

TEST(SelectingDevice, GivesAllLogitsToSamplersThatNeedThem) {
  DeviceScript plain, selecting;
  selecting.selects = true;
  SamplerParams sampling;
  sampling.seed = 5;
  EXPECT_EQ(generated(selecting, sampling, 3), generated(plain, sampling, 3)) << "log-probabilities";
  sampling.repeat_penalty = 1.3;
  EXPECT_EQ(generated(selecting, sampling), generated(plain, sampling));
  EXPECT_EQ(selecting.n_rows, 0);
}

// A request of a service and what became of it.
struct Client {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  bool finished = false;
  std::optional<Error> error;

  void submit(Service& service, GenerationRequest request) {
    const auto handle = service.submit(std::move(request), [this](Event event) {
      const std::scoped_lock lock(mutex);
      if (auto* e = std::get_if<TokensEvent>(&event))
        for (const GeneratedToken& token : e->tokens) tokens.push_back(token.id), logprobs.push_back(token.logprob);
      if (std::holds_alternative<Finished>(event)) finished = true;
      if (auto* e = std::get_if<Failed>(&event)) error = std::move(e->error);
      changed.notify_all();
      return true;
    });
    if (handle) return;
    const std::scoped_lock lock(mutex);
    error = handle.error();
  }
  void wait() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [this] { return finished || error; }));
  }
};

std::unique_ptr<Service> open_service(DeviceScript& script) {
  auto service = Service::create(open_session(script), {.n_parallel = 4});
  EXPECT_TRUE(service) << service.error().message();
  return *std::move(service);
}

GenerationRequest request_of(uint32_t seed, bool logprobs, int64_t n = 24) {
  GenerationRequest request{.prompt = random_tokens(12 + seed, kVocab, seed), .n_predict = n, .logprobs = logprobs};
  request.sampling.seed = seed;
  request.sampling.ignore_eos = true;
  return request;
}

// Requests of both kinds in the same steps: rows of those that score tokens leave the device whole.
TEST(SelectingDevice, ServesRequestsOfBothKindsTogether) {
  DeviceScript plain, selecting;
  selecting.selects = true;
  const auto service = open_service(selecting), expected = open_service(plain);
  Client mixed[4], alone[4];
  for (uint32_t i = 0; i < 4; ++i) mixed[i].submit(*service, request_of(i + 1, i % 2 == 1));
  for (uint32_t i = 0; i < 4; ++i) {
    alone[i].submit(*expected, request_of(i + 1, i % 2 == 1));
    alone[i].wait();
    mixed[i].wait();
    ASSERT_TRUE(alone[i].finished && mixed[i].finished);
    EXPECT_EQ(mixed[i].tokens, alone[i].tokens) << i;
    EXPECT_EQ(mixed[i].logprobs, alone[i].logprobs) << i;
  }
  EXPECT_GE(selecting.n_rows - selecting.n_whole_rows, 2 * 24 - 4);
}

// Requests fail with the device's reason, those that come later too; the service stays and can be asked.
TEST(LostDevice, FailsRequestsWithItsReasonAndLeavesTheServiceAlive) {
  DeviceScript script;
  script.selects = true;
  const auto service = open_service(script);
  script.fails_after = script.n_runs + 6;
  Client running[3];
  for (uint32_t i = 0; i < 3; ++i) running[i].submit(*service, request_of(i + 1, false, 200));
  for (Client& client : running) {
    client.wait();
    ASSERT_TRUE(client.error);
    EXPECT_EQ(client.error->code, ErrorCode::device_failed);
    EXPECT_EQ(client.error->what, "the device is lost");
  }
  for (uint32_t i = 0; i < 2; ++i) {
    Client later;
    later.submit(*service, request_of(i + 9, false));
    later.wait();
    ASSERT_TRUE(later.error);
    EXPECT_EQ(later.error->what, "the device is lost");
    EXPECT_TRUE(later.tokens.empty());
  }
  EXPECT_GE(service->stats().n_failed, 4u);  // the last one may not be counted yet
  script.fails_after = -1;                   // it was a passing failure after all
  Client after;
  after.submit(*service, request_of(20, false));
  after.wait();
  EXPECT_TRUE(after.finished);
  EXPECT_EQ(after.tokens.size(), 24u);
}

TEST(LostDevice, RefusesLaterRequestsAtOnceWhenItStaysLost) {
  DeviceScript script;
  script.stays_lost = true;
  const auto service = open_service(script);
  script.fails_after = script.n_runs + 6;
  Client running;
  running.submit(*service, request_of(1, false, 200));
  running.wait();
  ASSERT_TRUE(running.error);
  while (!service->stats().lost) std::this_thread::yield();
  const int64_t n_runs = script.n_runs;
  Client later;
  later.submit(*service, request_of(2, false));
  ASSERT_TRUE(later.error);
  EXPECT_EQ(later.error->what, "the device is lost for good");
  EXPECT_EQ(script.n_runs, n_runs);
}

}  // namespace
}  // namespace tokamak
