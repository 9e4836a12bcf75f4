#include "engine/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <map>
#include <thread>

#include "support/tiny_model.h"

namespace tokamak {
namespace {

using test::random_tokens;

// What a client saw of one request.
struct Client {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<PromptProgress> progress;
  std::vector<GeneratedToken> scores;
  std::vector<float> embedding;
  std::optional<Finished> finished;
  std::optional<Error> error;
  int64_t give_up_after = -1;  // tokens
  bool gave_up = false;

  EventSink sink() {
    return [this](Event event) {
      const std::scoped_lock lock(mutex);
      EXPECT_FALSE(finished || error || gave_up) << "an event after the last";
      if (auto* e = std::get_if<PromptProgress>(&event)) progress.push_back(*e);
      if (auto* e = std::get_if<PromptScores>(&event)) {
        EXPECT_EQ(e->first, static_cast<int64_t>(scores.size()) + 1);
        scores.insert(scores.end(), e->tokens.begin(), e->tokens.end());
      }
      if (auto* e = std::get_if<TokensEvent>(&event))
        for (const GeneratedToken& token : e->tokens) tokens.push_back(token.id), logprobs.push_back(token.logprob);
      if (auto* e = std::get_if<EmbeddingEvent>(&event)) embedding = e->values;
      if (auto* e = std::get_if<Finished>(&event)) finished = std::move(*e);
      if (auto* e = std::get_if<Failed>(&event)) error = std::move(e->error);
      gave_up = give_up_after >= 0 && static_cast<int64_t>(tokens.size()) >= give_up_after;
      changed.notify_all();
      return !gave_up;
    };
  }
  void wait() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(120), [this] { return finished || error || gave_up; }));
  }
  void wait_for_tokens(size_t n) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(
        changed.wait_for(lock, std::chrono::seconds(120), [&] { return tokens.size() >= n || finished || error; }));
  }
};

struct Options {
  std::filesystem::path path;
  SessionOptions session = {
      .n_threads = 1, .n_ctx = 512, .n_kv = 4096, .n_batch = 64, .page_size = 16, .n_sequences = 32};
  ServiceOptions service;
};

std::unique_ptr<Service> open_service(const Options& setup) {
  auto model = Model::open(setup.path);
  EXPECT_TRUE(model) << model.error().message();
  auto session = Session::create(*model, setup.session);
  EXPECT_TRUE(session) << session.error().message();
  auto service = Service::create(*std::move(session), setup.service);
  EXPECT_TRUE(service) << service.error().message();
  return *std::move(service);
}

GenerationRequest greedy(std::vector<int32_t> prompt, int64_t n) {
  GenerationRequest request{.prompt = std::move(prompt), .n_predict = n, .logprobs = true};
  request.sampling.temperature = 0;
  return request;
}

void submit(Service& service, Client& client, GenerationRequest request) {
  const auto handle = service.submit(std::move(request), client.sink());
  ASSERT_TRUE(handle) << handle.error().message();
}

// An attention model, and one with recurrent layers.
class ServiceTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    setup_.path = GetParam() ? std::filesystem::path(TOKAMAK_GOLDEN "/arch/qwen3next.gguf")
                             : test::write_tiny_model({.types = {DType::q8_0, DType::q4_1}});
    auto model = Model::open(setup_.path);
    ASSERT_TRUE(model) << model.error().message();
    n_vocab_ = (*model)->hparams().n_vocab;
  }
  std::vector<int32_t> tokens(size_t n, uint32_t seed) const { return random_tokens(n, n_vocab_, seed); }
  // The answer of a service of its own, without any cache.
  void alone(const std::vector<int32_t>& prompt, int64_t n, Client& client) {
    Options setup = setup_;
    setup.service.cache_bytes = 0;
    const auto service = open_service(setup);
    submit(*service, client, greedy(prompt, n));
    client.wait();
    ASSERT_TRUE(client.finished);
  }
  Options setup_;
  int64_t n_vocab_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Models, ServiceTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Hybrid" : "Attention"; });

TEST_P(ServiceTest, AnswersAreThoseOfGenerate) {
  const auto prompt = tokens(100, 1);
  Client client;
  alone(prompt, 20, client);
  auto model = Model::open(setup_.path);
  auto session = Session::create(*model, setup_.session);
  ASSERT_TRUE(session);
  GenerateOptions options{.n_predict = 20, .n_probs = 1};
  options.sampling.temperature = 0;
  const auto result = generate(**session, (*session)->add_sequence(), {}, prompt, options, {});
  ASSERT_TRUE(result) << result.error().message();
  ASSERT_EQ(client.tokens.size(), result->tokens.size());
  for (size_t i = 0; i < client.tokens.size(); ++i) {
    EXPECT_EQ(client.tokens[i], result->tokens[i].id);
    EXPECT_EQ(client.logprobs[i], result->tokens[i].logprob);
  }
  EXPECT_EQ(client.finished->reason, result->reason);
}

TEST_P(ServiceTest, TheSameAnswerInACrowdAfterACacheHitAndWithOtherChunks) {
  const auto prompt = tokens(150, 1);
  Client expected;
  alone(prompt, 30, expected);
  const auto check = [&](const Client& client, const char* what) {
    ASSERT_TRUE(client.finished) << what;
    EXPECT_EQ(client.tokens, expected.tokens) << what;
    EXPECT_EQ(client.logprobs, expected.logprobs) << what;
  };
  for (const int64_t n_batch : {17, 64, 256}) {
    setup_.session.n_batch = n_batch;
    const auto service = open_service(setup_);
    Client first, again, crowd[12], mine;
    submit(*service, first, greedy(prompt, 30));
    first.wait();
    check(first, "first");
    submit(*service, again, greedy(prompt, 30));
    again.wait();
    check(again, "cached");
    EXPECT_GT(again.finished->timings.n_cached, 100);
    EXPECT_EQ(again.finished->timings.n_cached + again.finished->timings.n_prompt, 150);
    EXPECT_EQ(again.finished->timings.first_difference, 150);
    for (uint32_t i = 0; i < 12; ++i) {
      crowd[i].give_up_after = i % 3 == 0 ? 3 : -1;  // some leave half way
      submit(*service, crowd[i], greedy(tokens(20 + 17 * i, 100 + i), 25));
      if (i == 6) submit(*service, mine, greedy(prompt, 30));
    }
    mine.wait();
    check(mine, "in a crowd");
    for (Client& client : crowd) client.wait();
  }
}

TEST_P(ServiceTest, RequestsThatHadToGiveWayAnswerTheSame) {
  // Two of the sequences fill the cache.
  setup_.session.n_ctx = 256;
  setup_.session.n_kv = 480;
  const auto service = open_service(setup_);
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>());
    submit(*service, *clients.back(), greedy(tokens(50, i), 60));
  }
  for (auto& client : clients) client->wait();
  EXPECT_GT(service->stats().n_preempted, 0u);
  for (uint32_t i = 0; i < 8; ++i) {
    Client expected;
    alone(tokens(50, i), 60, expected);
    EXPECT_EQ(clients[i]->tokens, expected.tokens) << i;
    EXPECT_EQ(clients[i]->logprobs, expected.logprobs) << i;
  }
}

TEST_P(ServiceTest, ConversationsReuseWhatTheyHaveAndBranchesRollBack) {
  const auto service = open_service(setup_);
  std::vector<int32_t> talk;
  const auto turn = [&](const std::vector<int32_t>& more, int64_t least_cached) {
    std::vector<int64_t> boundaries = {static_cast<int64_t>(talk.size())};
    talk.insert(talk.end(), more.begin(), more.end());
    GenerationRequest request = greedy(talk, 10);
    request.boundaries = boundaries;
    Client client, expected;
    submit(*service, client, std::move(request));
    client.wait();
    alone(talk, 10, expected);
    EXPECT_EQ(client.tokens, expected.tokens);
    EXPECT_EQ(client.logprobs, expected.logprobs);
    ASSERT_TRUE(client.finished);
    EXPECT_GE(client.finished->timings.n_cached, least_cached) << talk.size();
    talk.insert(talk.end(), client.tokens.begin(), client.tokens.end());
  };
  turn(tokens(40, 1), 0);
  for (uint32_t i = 2; i < 7; ++i) turn(tokens(15, i), static_cast<int64_t>(talk.size()) - 1);
  const auto whole = talk;
  for (uint32_t i = 10; i < 13; ++i) {  // the turn before the last, edited
    talk.assign(whole.begin(), whole.begin() + 40 + 10 + 3 * 25);
    turn(tokens(12, i), GetParam() ? 40 : static_cast<int64_t>(talk.size()) - 1);
  }
}

TEST_P(ServiceTest, TenantsDoNotShare) {
  const auto service = open_service(setup_);
  for (const auto& [tenant, cached] :
       std::vector<std::pair<std::string, bool>>{{"a", false}, {"b", false}, {"a", true}}) {
    Client client;
    GenerationRequest request = greedy(tokens(100, 1), 2);
    request.tenant = tenant;
    submit(*service, client, std::move(request));
    client.wait();
    EXPECT_EQ(client.finished->timings.n_cached > 0, cached) << tenant;
  }
}

TEST_P(ServiceTest, PromptScoresAreThoseOfOneForward) {
  const auto prompt = tokens(150, 3);
  const auto service = open_service(setup_);
  Client client;
  GenerationRequest request = greedy(prompt, 0);
  request.prompt_logprobs = true;
  request.n_probs = 2;
  submit(*service, client, std::move(request));
  client.wait();
  ASSERT_TRUE(client.finished);
  EXPECT_TRUE(client.tokens.empty());
  ASSERT_EQ(client.scores.size(), 149u);
  auto model = Model::open(setup_.path);
  auto session = Session::create(*model, {.n_ctx = 512, .n_batch = 256});
  const SequenceTokens all{(*session)->add_sequence(), prompt, Logits::all};
  const auto logits = (*session)->forward({&all, 1});
  ASSERT_TRUE(logits);
  for (size_t i = 0; i < 149; ++i) {
    const auto row = logits->subspan(i * static_cast<size_t>(n_vocab_), static_cast<size_t>(n_vocab_));
    EXPECT_EQ(client.scores[i].id, prompt[i + 1]);
    EXPECT_EQ(client.scores[i].logprob, top_logprobs(row, 0, prompt[i + 1]).chosen);
    EXPECT_EQ(client.scores[i].top.size(), 2u);
  }
}

TEST_P(ServiceTest, EmbeddingsDoNotDependOnTheCrowd) {
  const auto service = open_service(setup_);
  for (const EmbeddingMode mode : {EmbeddingMode::all, EmbeddingMode::mean, EmbeddingMode::cls, EmbeddingMode::last}) {
    Client one, others[5];
    const auto ask = [&](Client& client, const std::vector<int32_t>& prompt) {
      GenerationRequest request{.prompt = prompt};
      request.embeddings = mode;
      submit(*service, client, std::move(request));
    };
    ask(one, tokens(90, 1));
    one.wait();
    ASSERT_TRUE(one.finished) << one.error->message();
    const auto n_embd = static_cast<size_t>(service->model().hparams().n_embd);
    EXPECT_EQ(one.embedding.size(), mode == EmbeddingMode::all ? 90 * n_embd : n_embd);
    for (uint32_t i = 0; i < 5; ++i) ask(others[i], i == 3 ? tokens(90, 1) : tokens(i * 30 + 1, i));
    for (Client& client : others) client.wait();
    EXPECT_EQ(others[3].embedding, one.embedding);
    EXPECT_EQ(others[0].embedding.size(), n_embd);
  }
}

TEST_P(ServiceTest, ProgressIsToldInOrder) {
  const auto service = open_service(setup_);
  for (int round = 0; round < 2; ++round) {
    Client client;
    GenerationRequest request = greedy(tokens(200, 5), 3);
    request.return_progress = true;
    submit(*service, client, std::move(request));
    client.wait();
    ASSERT_GE(client.progress.size(), 2u);
    EXPECT_EQ(client.progress.front().processed, client.progress.front().cache);
    EXPECT_EQ(client.progress.back().processed, 200);
    for (size_t i = 1; i < client.progress.size(); ++i)
      EXPECT_GT(client.progress[i].processed, client.progress[i - 1].processed);
    EXPECT_EQ(client.progress.front().cache > 0, round == 1);
  }
}

TEST_P(ServiceTest, CancellingAtAnyMomentFreesEverything) {
  setup_.service.n_parallel = 4;
  setup_.service.cache_bytes = 0;
  setup_.session.n_ctx = setup_.session.n_kv = 100000;
  const auto service = open_service(setup_);
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<RequestHandle> handles;
  for (uint32_t i = 0; i < 24; ++i) {  // queued, in the prompt, decoding
    clients.push_back(std::make_unique<Client>());
    const auto handle = service->submit(greedy(tokens(300, i), -1), clients.back()->sink());
    ASSERT_TRUE(handle);
    handles.push_back(*handle);
    if (i % 5 == 4) service->cancel(handles[i - 3]);
    if (i == 6) clients[0]->wait_for_tokens(2);
  }
  for (const RequestHandle handle : handles) service->cancel(handle);
  for (auto& client : clients) {
    client->wait();
    ASSERT_TRUE(client->finished);
    EXPECT_EQ(client->finished->reason, FinishReason::cancelled);
  }
  Client last;
  submit(*service, last, greedy(tokens(50, 1), 5));
  last.wait();
  EXPECT_EQ(last.finished->reason, FinishReason::length);
  EXPECT_TRUE(service->drain(60));
  EXPECT_EQ(service->stats().kv_tokens_free, service->stats().kv_tokens);
  EXPECT_EQ(service->stats().n_cancelled, 24u);
}

TEST(ServiceLimitsTest, QueueContextAndVocabularyAreChecked) {
  Options setup{.path = test::write_tiny_model({})};
  setup.service.n_parallel = 1;
  setup.service.n_queue = 2;
  const auto service = open_service(setup);
  const auto refused = [&](GenerationRequest request) {
    Client client;
    const auto handle = service->submit(std::move(request), client.sink());
    EXPECT_FALSE(handle);
    return handle ? ErrorCode::count_ : handle.error().code;
  };
  EXPECT_EQ(refused(greedy(random_tokens(513, 96, 1), 1)), ErrorCode::context_full);
  EXPECT_EQ(refused(greedy({}, 1)), ErrorCode::bad_argument);
  EXPECT_EQ(refused(greedy({96}, 1)), ErrorCode::bad_argument);
  EXPECT_EQ(refused(greedy({-1}, 1)), ErrorCode::bad_argument);
  GenerationRequest bad = greedy({1}, 1);
  bad.sampling.top_p = 2;
  EXPECT_EQ(refused(std::move(bad)), ErrorCode::bad_argument);
  Client clients[3];
  for (Client& client : clients) submit(*service, client, greedy(random_tokens(400, 96, 1), 100));
  EXPECT_EQ(refused(greedy({1}, 1)), ErrorCode::queue_full);
  EXPECT_GE(service->retry_after_seconds(), 1);
  for (Client& client : clients) client.wait();
  Client full;
  submit(*service, full, greedy(random_tokens(512, 96, 1), 100));
  full.wait();
  EXPECT_EQ(full.finished->reason, FinishReason::context_full);
  EXPECT_EQ(full.tokens.size(), 1u);
}

TEST(ServiceLimitsTest, DrainRefusesNewWorkAndCancelsWhatTakesTooLong) {
  Options setup{.path = test::write_tiny_model({})};
  const auto service = open_service(setup);
  Client slow;
  GenerationRequest request = greedy(random_tokens(10, 96, 1), -1);
  submit(*service, slow, std::move(request));
  slow.wait_for_tokens(1);
  EXPECT_FALSE(service->drain(0.001));
  slow.wait();
  EXPECT_TRUE(slow.finished->reason == FinishReason::cancelled || slow.finished->reason == FinishReason::context_full);
  const auto handle = service->submit(greedy({1}, 1), slow.sink());
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, ErrorCode::shutting_down);
  Client further;  // of an answer that had been accepted before
  GenerationRequest part = greedy({1}, 1);
  part.continues_work = true;
  submit(*service, further, std::move(part));
  further.wait();
  EXPECT_TRUE(further.finished.has_value());
}

TEST(ServiceLimitsTest, AStepThatHangsFailsItsRequestsAndOthersGoOn) {
  Options setup{.path = test::write_tiny_model({})};
  std::atomic<int> n_seconds = 0;
  setup.session.compile.matmul_observer = [&](const MatmulInput&) {
    if (n_seconds.exchange(0) > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  };
  setup.service.n_parallel = 1;
  setup.service.stall_seconds = 0.4;
  const auto service = open_service(setup);
  Client stuck, waiting;
  submit(*service, stuck, greedy(random_tokens(30, 96, 1), 400));
  submit(*service, waiting, greedy(random_tokens(30, 96, 2), 5));
  stuck.wait_for_tokens(2);
  n_seconds = 2;
  stuck.wait();
  ASSERT_TRUE(stuck.error);
  EXPECT_EQ(stuck.error->code, ErrorCode::time_out);
  waiting.wait();
  ASSERT_TRUE(waiting.finished);
  EXPECT_EQ(waiting.tokens.size(), 5u);
  EXPECT_EQ(service->stats().n_failed, 1u);
}

// Allows the tokens of a list, one after another; the answer may end after the last.
class Recitation : public TokenConstraint {
 public:
  explicit Recitation(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
  void prepare() override { ++n_prepared; }
  void mask(std::span<float> logits) override {
    EXPECT_EQ(n_prepared, static_cast<int>(at_) + 1);
    for (size_t i = 0; i < logits.size(); ++i)
      if (can_end() || static_cast<int32_t>(i) != tokens_[at_]) logits[i] = kForbidden;
  }
  bool accept(int32_t token) override { return token == tokens_[at_++]; }
  bool can_end() const override { return at_ == tokens_.size(); }
  int n_prepared = 0;

 private:
  std::vector<int32_t> tokens_;
  size_t at_ = 0;
};

TEST(ServiceConstraintTest, OnlyWhatTheConstraintAllowsIsChosen) {
  const auto service = open_service({.path = test::write_tiny_model({})});
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>());
    GenerationRequest request = greedy(random_tokens(20, 96, i), 12);
    request.sampling.temperature = 1.5;
    request.constraint = std::make_unique<Recitation>(random_tokens(30, 96, 50 + i));
    submit(*service, *clients.back(), std::move(request));
  }
  for (uint32_t i = 0; i < 4; ++i) {
    clients[i]->wait();
    ASSERT_TRUE(clients[i]->finished);
    auto expected = random_tokens(30, 96, 50 + i);
    expected.resize(12);
    EXPECT_EQ(clients[i]->tokens, expected);
    for (const float logprob : clients[i]->logprobs) EXPECT_TRUE(std::isfinite(logprob)) << "of the model, unmasked";
  }
}

TEST(ServiceThoughtTest, ABudgetIsExactInTokensAndClosesOnce) {
  const auto service = open_service({.path = test::write_tiny_model({})});
  const std::vector<int32_t> prompt = random_tokens(20, 96, 1), close = {7, 8, 9};
  Client free;
  submit(*service, free, greedy(prompt, 20));
  free.wait();
  for (const int64_t budget : {0, 1, 7, -1}) {
    Client client;
    GenerationRequest request = greedy(prompt, 20);
    request.output.reasoning_start = "<think>";
    request.output.reasoning_end = "</think>";
    request.output.starts_in_reasoning = true;
    request.reasoning_budget = budget;
    request.reasoning_close = close;
    submit(*service, client, std::move(request));
    client.wait();
    ASSERT_EQ(client.tokens.size(), 20u);
    const auto n = static_cast<std::ptrdiff_t>(budget < 0 ? 20 : budget);
    EXPECT_TRUE(std::equal(client.tokens.begin(), client.tokens.begin() + n, free.tokens.begin())) << budget;
    if (budget < 0) continue;
    // The tokens of a model without a vocabulary have no text, so the thought goes on; it is not closed again.
    EXPECT_TRUE(std::equal(close.begin(), close.end(), client.tokens.begin() + n)) << budget;
  }
}

}  // namespace
}  // namespace tokamak
