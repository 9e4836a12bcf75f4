#include "engine/slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <thread>

#include "engine/service_engine.h"
#include "engine/wrapped_backend.h"
#include "support/tiny_model.h"

namespace tokamak {
namespace {

namespace fs = std::filesystem;
using test::random_tokens;

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  Finished finished;
  std::optional<Error> error;
};

// An attention model, and one with recurrent layers.
class SlotsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tokamak-store-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = GetParam() ? fs::path(TOKAMAK_GOLDEN "/arch/qwen3next.gguf") : test::write_tiny_model({});
  }
  void TearDown() override {
    store_.reset();
    service_.reset();
    fs::remove_all(folder_);
  }
  // A new service over the model, as after a restart.
  void open() {
    store_.reset();
    service_.reset();
    auto model = Model::open(path_);
    ASSERT_TRUE(model) << model.error().message();
    n_vocab_ = (*model)->hparams().n_vocab;
    auto session = Session::create(*model, session_);
    ASSERT_TRUE(session) << session.error().message();
    auto service = Service::create(*std::move(session), options_);
    ASSERT_TRUE(service) << service.error().message();
    service_ = *std::move(service);
    store_.emplace(*service_, folder_, options_.n_parallel);
  }
  Answer ask(const std::vector<int32_t>& prompt, int64_t n = 8, int64_t slot = -1, std::string tenant = "") {
    Answer answer;
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    GenerationRequest request{.prompt = prompt, .n_predict = n, .logprobs = true, .slot = slot, .tenant = tenant};
    request.sampling.temperature = 0;
    const auto handle = service_->submit(std::move(request), [&](Event event) {
      const std::scoped_lock lock(mutex);
      if (auto* e = std::get_if<TokensEvent>(&event))
        for (const GeneratedToken& token : e->tokens)
          answer.tokens.push_back(token.id), answer.logprobs.push_back(token.logprob);
      if (auto* e = std::get_if<Finished>(&event)) answer.finished = *e;
      if (auto* e = std::get_if<Failed>(&event)) answer.error = e->error;
      done = std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event);
      changed.notify_all();
      return true;
    });
    EXPECT_TRUE(handle) << handle.error().message();
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(120), [&] { return done; }));
    lock.unlock();
    // The slot is noted after the last event, before the next call.
    EXPECT_TRUE(service_->between_steps([](ServiceEngine&) {}));
    return answer;
  }
  template <class T>
  static void expect_error(const Result<T>& result, ErrorCode code, std::string_view part) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << result.error().message();
    EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
  }

  fs::path folder_, path_;
  SessionOptions session_ = {
      .n_threads = 1, .n_ctx = 512, .n_kv = 1024, .n_batch = 64, .page_size = 16, .n_sequences = 8};
  ServiceOptions options_ = {.n_parallel = 4};
  int64_t n_vocab_ = 0;
  std::unique_ptr<Service> service_;
  std::optional<SlotStore> store_;
};
INSTANTIATE_TEST_SUITE_P(Models, SlotsTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Hybrid" : "Attention"; });

TEST_P(SlotsTest, ARestoredSlotGivesTheSameAnswerFromTheCache) {
  open();
  const auto prompt = random_tokens(100, n_vocab_, 1);
  const Answer first = ask(prompt);
  EXPECT_EQ(first.finished.slot, 0);
  const Answer again = ask(prompt);
  const auto saved = store_->save(0, "talk.slot", "");
  ASSERT_TRUE(saved) << saved.error().message();
  EXPECT_GE(saved->n_tokens, 100);
  EXPECT_EQ(saved->n_bytes, fs::file_size(folder_ / "talk.slot"));

  open();
  const auto restored = store_->restore(2, "talk.slot", "");
  ASSERT_TRUE(restored) << restored.error().message();
  EXPECT_EQ(restored->n_tokens, saved->n_tokens);
  EXPECT_EQ(restored->n_bytes, saved->n_bytes);
  const Answer after = ask(prompt);
  EXPECT_EQ(after.tokens, first.tokens);
  EXPECT_EQ(after.logprobs, first.logprobs);
  EXPECT_EQ(after.finished.timings.n_cached, again.finished.timings.n_cached);
  EXPECT_EQ(after.finished.timings.n_cached, 99);
  // And it can be saved again from where it was put.
  open();
  ASSERT_TRUE(store_->restore(2, "talk.slot", ""));
  const auto copy = store_->save(2, "copy.slot", "");
  ASSERT_TRUE(copy) << copy.error().message();
  std::ifstream a(folder_ / "talk.slot", std::ios::binary), b(folder_ / "copy.slot", std::ios::binary);
  EXPECT_TRUE(std::equal(std::istreambuf_iterator<char>(a), {}, std::istreambuf_iterator<char>(b), {}));
}

TEST_P(SlotsTest, RequestsMayNameTheirSlotAndErasedSlotsAreEmpty) {
  open();
  const auto prompt = random_tokens(60, n_vocab_, 1);
  EXPECT_EQ(ask(prompt, 4, 3).finished.slot, 3);
  expect_error(store_->save(0, "a", ""), ErrorCode::bad_argument, "holds nothing");
  EXPECT_TRUE(store_->save(3, "a", ""));
  const auto erased = store_->erase(3, "");
  ASSERT_TRUE(erased);
  EXPECT_GE(*erased, 60);
  EXPECT_EQ(ask(prompt, 4).finished.timings.n_cached, 0);
  ASSERT_TRUE(store_->erase(0, ""));
  expect_error(store_->save(3, "a", ""), ErrorCode::bad_argument, "holds nothing");
  expect_error(store_->save(4, "a", ""), ErrorCode::bad_argument, "0..3");
  expect_error(store_->erase(-1, ""), ErrorCode::bad_argument, "0..3");
}

TEST_P(SlotsTest, TenantsDoNotSeeEachOther) {
  open();
  const auto prompt = random_tokens(60, n_vocab_, 1);
  ask(prompt, 4, 0, "one");
  expect_error(store_->save(0, "a", "two"), ErrorCode::bad_argument, "holds nothing");
  ASSERT_TRUE(store_->save(0, "a", "one"));
  open();
  expect_error(store_->restore(0, "a", "two"), ErrorCode::bad_argument, "tenant");
  ASSERT_TRUE(store_->restore(0, "a", "one"));
  EXPECT_EQ(ask(prompt, 4, 1, "two").finished.timings.n_cached, 0);
  EXPECT_GT(ask(prompt, 4, 1, "one").finished.timings.n_cached, 0);
}

TEST_P(SlotsTest, EveryCacheTypeIsRestoredAsItWas) {
  for (DType type : kCacheDTypes) {
    if (type == DType::q8_0 && GetParam()) continue;  // its heads are no whole blocks
    session_.kv_type = type;
    open();
    const auto prompt = random_tokens(100, n_vocab_, 1);
    const Answer first = ask(prompt);
    ASSERT_TRUE(store_->save(0, "talk.slot", ""));
    open();
    const auto restored = store_->restore(2, "talk.slot", "");
    ASSERT_TRUE(restored) << restored.error().message();
    const Answer after = ask(prompt);
    EXPECT_EQ(after.tokens, first.tokens) << dtype_name(type);
    EXPECT_EQ(after.logprobs, first.logprobs) << dtype_name(type);
    EXPECT_EQ(after.finished.timings.n_cached, 99) << dtype_name(type);
  }
}

TEST_P(SlotsTest, FilesThatDoNotFitChangeNothing) {
  open();
  const auto prompt = random_tokens(200, n_vocab_, 1);
  ask(prompt);
  ASSERT_TRUE(store_->save(0, "a", ""));
  const auto refused = [&](ErrorCode code, std::string_view part) {
    expect_error(store_->restore(1, "a", ""), code, part);
    const ServiceStats stats = service_->stats();
    EXPECT_EQ(stats.cache_bytes, 0u);
    EXPECT_EQ(stats.slot_tokens[1], 0);
  };
  session_.page_size = 32;
  open();
  refused(ErrorCode::bad_argument, "page size 16");
  session_.page_size = 16;
  session_.kv_type = DType::f32;
  open();
  refused(ErrorCode::bad_argument, "cache type");
  session_.kv_type = DType::f16;
  session_.n_ctx = 128;
  open();
  refused(ErrorCode::context_full, "128");
  session_.n_ctx = 512;
  options_.cache_bytes = 5000;
  open();
  refused(ErrorCode::bad_argument, "--cache-ram");
  options_.cache_bytes = -1;
  const fs::path old = path_;
  path_ = test::write_tiny_model({.seed = 2});
  open();
  refused(ErrorCode::bad_argument, "another model");
  path_ = old;
  open();
  fs::resize_file(folder_ / "a", fs::file_size(folder_ / "a") - 1);
  refused(ErrorCode::bad_argument, "damaged");
  expect_error(store_->restore(1, "b", ""), ErrorCode::not_found, "filename");
}

TEST_P(SlotsTest, OnlyPlainNames) {
  open();
  ask(random_tokens(40, n_vocab_, 1));
  using namespace std::string_view_literals;
  for (const std::string_view name : {""sv, "."sv, ".."sv, ".hidden"sv, "a/b"sv, "/etc/passwd"sv, "../x"sv, "a\\b"sv,
                                      "a\0b"sv, "a\nb"sv, "C:x"sv, "x.partial-1-2"sv, "\xFF"sv}) {
    expect_error(store_->save(0, name, ""), ErrorCode::bad_argument, "plain");
    expect_error(store_->restore(0, name, ""), ErrorCode::bad_argument, "plain");
  }
  expect_error(store_->save(0, std::string(201, 'x'), ""), ErrorCode::bad_argument, "plain");
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_TRUE(store_->save(0, "gr\u00fc\u00dfe 1.slot", ""));
  fs::create_symlink("/tmp/elsewhere", folder_ / "link");
  expect_error(store_->save(0, "link", ""), ErrorCode::bad_argument, "link");
  SlotStore none(*service_, {}, 4);
  expect_error(none.save(0, "a", ""), ErrorCode::unsupported, "--slot-save-path");
}

// Saves and restores beside requests that push each other out of the cache: nothing may be lost, held or wrong.
TEST_P(SlotsTest, UnderLoad) {
  session_.n_kv = 512;
  open();
  const auto prompt = random_tokens(150, n_vocab_, 1);
  const Answer expected = ask(prompt, 8, 3);
  ASSERT_TRUE(store_->save(3, "a", ""));
  std::atomic<bool> stop = false;
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < 3; ++i)
    clients.emplace_back([&, i] {
      for (uint32_t n = 0; !stop; ++n) {
        const Answer answer = ask(random_tokens(100 + 30 * i, n_vocab_, 10 + i + 100 * (n % 5)), 6);
        EXPECT_FALSE(answer.error) << answer.error->message();
      }
    });
  int n_restored = 0;
  for (int i = 0; i < 20 || (n_restored == 0 && i < 2000); ++i) {  // the crowd may hold all the room for a while
    const auto restored = store_->restore(3, "a", "");
    if (!restored) {
      EXPECT_EQ(restored.error().code, ErrorCode::queue_full) << restored.error().message();
      continue;
    }
    ++n_restored;
    const auto saved = store_->save(3, "b", "");
    EXPECT_TRUE(saved || saved.error().code == ErrorCode::queue_full || saved.error().code == ErrorCode::bad_argument)
        << saved.error().message();
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GT(n_restored, 0);
  const Answer after = ask(prompt);
  EXPECT_EQ(after.tokens, expected.tokens);
  EXPECT_EQ(after.logprobs, expected.logprobs);
  EXPECT_TRUE(service_->between_steps([&](ServiceEngine& engine) {
    engine.cache().clear();
    EXPECT_EQ(engine.session().pages().n_free_pages(), 512 / 16) << "a page is lost";
  }));
}

// What a device that is lost answers is no cache: the file of before stays.
TEST_P(SlotsTest, ALostDeviceSavesAndRestoresNothing) {
  test::DeviceScript script;
  session_.wrap_backend = test::wrap_with(script);
  open();
  ask(random_tokens(100, n_vocab_, 1));
  const auto saved = store_->save(0, "talk.slot", "");
  ASSERT_TRUE(saved) << saved.error().message();
  const auto written = fs::last_write_time(folder_ / "talk.slot");
  script.stays_lost = true;
  script.fails_after = 0;
  expect_error(store_->save(0, "talk.slot", ""), ErrorCode::device_failed, "the device is lost for good");
  expect_error(store_->restore(1, "talk.slot", ""), ErrorCode::device_failed, "the device is lost for good");
  EXPECT_EQ(fs::last_write_time(folder_ / "talk.slot"), written);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "no part of a file";
  TearDown();  // before the script
}

}  // namespace
}  // namespace tokamak
