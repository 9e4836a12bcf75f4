// Control tokens that belong to a format are part of the answer's text, the others are not.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "cli/chat_model_helpers.h"
#include "engine/service.h"

namespace tokamak {
namespace {

// The text of three times token `id`, which nothing else can beat.
std::string text_of(Service& service, int32_t id, std::vector<int32_t> kept_tokens) {
  std::mutex mutex;
  std::condition_variable changed;
  std::string text;
  bool is_over = false;
  GenerationRequest request{.prompt = {65, 66}, .n_predict = 3, .kept_tokens = std::move(kept_tokens)};
  request.sampling.temperature = 0;
  request.sampling.logit_bias = {{id, 1e6F}};
  const auto handle = service.submit(std::move(request), [&](Event event) {
    const std::scoped_lock lock(mutex);
    if (auto* tokens = std::get_if<TokensEvent>(&event))
      for (const OutputEvent& e : tokens->text) text += e.text;
    is_over = std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event);
    changed.notify_all();
    return true;
  });
  EXPECT_TRUE(handle);
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return is_over; }));
  return text;
}

TEST(KeptTokens, ArePrinted) {
  auto model = Model::open(test::chat_model({.more_tokens = {"<tool_call>", "<other>"}}));
  ASSERT_TRUE(model) << model.error().message();
  constexpr int32_t kCall = 259, kOther = 260;
  ASSERT_TRUE((*model)->tokenizer().is_control(kCall) && (*model)->tokenizer().is_control(kOther));
  auto session = Session::create(*model, {.n_threads = 1, .n_ctx = 64, .n_kv = 256, .n_batch = 16, .n_sequences = 4});
  ASSERT_TRUE(session) << session.error().message();
  auto service = Service::create(*std::move(session), {});
  ASSERT_TRUE(service) << service.error().message();
  EXPECT_EQ(text_of(**service, kCall, {}), "");
  EXPECT_EQ(text_of(**service, kCall, {kCall}), "<tool_call><tool_call><tool_call>");
  EXPECT_EQ(text_of(**service, kOther, {kCall}), "");
}

}  // namespace
}  // namespace tokamak
