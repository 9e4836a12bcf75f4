// bench: prefill and decode speed of a model on this machine.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "backend/cpu/isa.h"
#include "base/check.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "chat/message.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/loading.h"

namespace tokamak::cli {

namespace {
using Clock = std::chrono::steady_clock;
constexpr uint64_t kSeed = 1;

struct Test {
  std::string_view name;  // prefill or decode
  int64_t n_tokens;
  std::vector<double> seconds;  // of each measured run
};

struct Speed {
  double median, min, max;  // tokens per second
};

Speed speed_of(const Test& test) {
  std::vector<double> rates;
  for (double s : test.seconds) rates.push_back(static_cast<double>(test.n_tokens) / s);
  return {median(rates), *std::ranges::min_element(rates), *std::ranges::max_element(rates)};
}

uint64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

std::vector<int32_t> random_tokens(int64_t n, int64_t n_vocab) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<int32_t>(uniform(kSeed, static_cast<uint64_t>(i)) * static_cast<double>(n_vocab)));
  return tokens;
}

class Bench {
 public:
  Bench(Session& session, int64_t depth) : session_(session), depth_(depth), seq_id_(session.add_sequence()) {}

  // Puts `depth` tokens in front.
  Result<void> fill() {
    if (depth_ > 0) TRY(session_.prefill(seq_id_, random_tokens(depth_, session_.model().hparams().n_vocab)));
    return {};
  }

  // One warm-up, then `n_runs` measured runs. Prefill: all tokens at once, logits of the last. Decode: one by one,
  // logits of each (the best of them where the device selects); sampling is not part of it. Errors: cancelled after
  // Ctrl-C, those of the session.
  Result<Test> measure(std::string_view name, int64_t n_tokens, int64_t n_runs, bool one_by_one) {
    const std::vector<int32_t> tokens = random_tokens(n_tokens, session_.model().hparams().n_vocab);
    Test test{.name = name, .n_tokens = n_tokens, .seconds = {}};
    for (int64_t i = 0; i <= n_runs; ++i) {
      CHECK(session_.truncate(seq_id_, depth_) == depth_, depth_);  // fill() left a state there
      const auto start = Clock::now();
      TRY(one_by_one ? decode(tokens) : prefill(tokens));
      if (i > 0) test.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    return test;
  }

 private:
  static Result<void> go_on() {
    if (interrupted()) return Error{.code = ErrorCode::cancelled, .what = "the measurement was cancelled"};
    return {};
  }
  Result<void> prefill(std::span<const int32_t> tokens) {
    TRY(session_.prefill(seq_id_, tokens, [](double) { return !interrupted(); }));
    return {};
  }
  Result<void> decode(std::span<const int32_t> tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const SequenceTokens one{seq_id_, tokens.subspan(i, 1), Logits::last, true};
      TRY(session_.step({&one, 1}));
      TRY(go_on());
    }
    return {};
  }

  Session& session_;
  int64_t depth_;
  int32_t seq_id_;
};

Json to_json(const Session& session, const std::vector<Test>& tests, const SettingValues& values) {
  const SessionOptions& options = session.options();
  const bool is_cpu = options.backend == "cpu";
  Json json = {{"model", session.model().name()},
               {"file", session.model().path().filename().string()},
               {"n_bytes", session.model().file().n_bytes()},
               {"n_params", session.model().n_params()},
               {"backend", options.backend}};
  if (is_cpu) {
    json["isa"] = options.isa == "auto" ? std::string(cpu::isa_name(cpu::best_isa())) : options.isa;
    json["threads"] = options.n_threads == 0 ? usable_cpus() : options.n_threads;
  }
  json["batch"] = options.n_batch;
  json["cache_type"] = dtype_name(options.kv_type);
  json["fusion"] = options.compile.fusion;
  json["depth"] = values.integer("--depth");
  json["peak_memory_bytes"] = peak_memory_bytes();
  for (const Test& test : tests) {
    const Speed speed = speed_of(test);
    json["tests"].push_back({{"name", test.name},
                             {"n_tokens", test.n_tokens},
                             {"tokens_per_second", {{"median", speed.median}, {"min", speed.min}, {"max", speed.max}}},
                             {"seconds", test.seconds}});
  }
  return json;
}

void print_text(Session& session, const std::vector<Test>& tests, const SettingValues& values) {
  print(fmt::format("{}, {} parameters, {}\n{}\n", session.model().name(), human_count(session.model().n_params()),
                    human_bytes(session.model().file().n_bytes()), session.backend().description()));
  std::vector<std::vector<std::string>> rows = {{"test", "tok/s", "min", "max", "runs"}};
  for (const Test& test : tests) {
    const Speed speed = speed_of(test);
    const int64_t depth = values.integer("--depth");
    rows.push_back({fmt::format("{} {}{}", test.name, test.n_tokens, depth > 0 ? fmt::format(" at {}", depth) : ""),
                    fmt::format("{:.1f}", speed.median), fmt::format("{:.1f}", speed.min),
                    fmt::format("{:.1f}", speed.max), std::to_string(test.seconds.size())});
  }
  print(text_table(rows, "<>>>>"));
  print(fmt::format("peak memory {} (the model file's pages included)\n", human_bytes(peak_memory_bytes())));
}
}  // namespace

Result<int> bench_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  TRY(check_no_more_words(arguments));
  catch_interrupts();
  const int64_t n_prompt = values.integer("--n-prompt"), n_gen = values.integer("--n-gen"),
                depth = values.integer("--depth"), n_runs = values.integer("--repetitions");
  if (n_prompt == 0 && n_gen == 0)
    return Error{.code = ErrorCode::bad_argument, .what = "there is nothing to measure", .hint = "give -p or -n"};
  const std::shared_ptr<const Model> model = TRY(open_model(arguments));
  const int64_t n_needed = depth + std::max(n_prompt, n_gen);
  SessionOptions options = TRY(session_options(values, *model));
  if (!values.is_set("--ctx-size")) options.n_ctx = n_needed;
  if (n_needed > options.n_ctx)  // before that many tokens are made up
    return Error{.code = ErrorCode::context_full,
                 .what = fmt::format("{} tokens do not fit into the context of {}", n_needed, options.n_ctx),
                 .hint = "raise --ctx-size or leave it out"};
  const std::unique_ptr<Session> session = TRY(open_session(model, std::move(options), values));
  Bench bench(*session, depth);
  TRY(bench.fill());
  std::vector<Test> tests;
  if (n_prompt > 0) tests.push_back(TRY(bench.measure("prefill", n_prompt, n_runs, false)));
  if (n_gen > 0) tests.push_back(TRY(bench.measure("decode", n_gen, n_runs, true)));
  if (values.flag("--json"))
    print(to_json(*session, tests, values).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  else
    print_text(*session, tests, values);
  return 0;
}

}  // namespace tokamak::cli
