// The public C++ API: a model file in, text out.
//
//   auto engine = tokamak::Engine::open("model.gguf");
//   if (!engine) return fail(engine.error().message());
//   auto answer = engine->chat(messages, {}, [](std::string_view text) {
//     std::cout << text << std::flush;
//     return true;
//   });
//
// Goals: few types, no exceptions, nothing printed; the same request gives the same answer for any number of threads.
// Non-goals: serving many users at once (the server), building graphs. An Engine is used by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokamak/fusion.h"
#include "tokamak/result.h"

namespace tokamak {

struct EngineOptions {
  std::string backend = "cpu";                    // or "reference": slow, f64; "cuda": a build with it, a GPU
  int64_t n_threads = 0;                          // 0: one per usable core
  int64_t n_ctx = 0;                              // tokens; 0: the model's, at most 8192
  std::string chat_template;                      // Jinja source; empty: the model's own
  std::function<bool(double fraction)> progress;  // of loading; false cancels
};

struct Message {
  std::string role;  // "system", "user", "assistant", or what the model's template knows
  std::string content;
};

struct Request {
  int64_t n_predict = -1;    // most tokens to generate; -1: until the model ends or the context is full
  double temperature = 0.8;  // 0: always the most probable token
  int64_t top_k = 40;        // 0: off
  double top_p = 0.95, min_p = 0.05;
  double repeat_penalty = 1;
  int64_t seed = -1;               // -1: a random one, returned in the answer
  std::vector<std::string> stops;  // the answer ends before the first of these
};

struct Answer {
  std::string text;             // valid UTF-8, without the stop string
  std::vector<int32_t> tokens;  // generated ids
  std::string finish_reason;    // end_of_text, stop_string, length, context_full, cancelled
  int64_t n_prompt = 0;         // prompt tokens computed now
  int64_t n_cached = 0;         // prompt tokens kept from the request before
  double prefill_seconds = 0, decode_seconds = 0;
  uint64_t seed = 0;
};

// Receives the text as it is made; returning false cancels.
using TextCallback = std::function<bool(std::string_view text)>;

class Engine {
 public:
  // Errors: what reading the file says (not_found, bad_file, bad_metadata, bad_tensor, bad_vocab, unsupported),
  // bad_template, bad_argument, out_of_memory (every call may say so), cancelled.
  static Result<Engine> open(const std::filesystem::path& path, const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Continues a text as it stands.
  Result<Answer> complete(std::string_view prompt, const Request& request = {}, const TextCallback& on_text = {});
  // Answers a conversation through the chat template. What it shares with the request before is not computed again.
  // Errors: template_refused, bad_template (none there), context_full, bad_argument.
  Result<Answer> chat(std::span<const Message> messages, const Request& request = {}, const TextCallback& on_text = {});

  // Token ids, with the special tokens the model puts around a text.
  std::vector<int32_t> tokenize(std::string_view text) const;
  std::string detokenize(std::span<const int32_t> tokens) const;
  // Logits f32 [tokens, n_vocab] of every token, from an empty context. Errors: bad_argument, context_full.
  Result<std::vector<float>> logits(std::span<const int32_t> tokens);

  // Fusion on the engine's device, of any backend; all of it is on at first. Graphs are fused and counted when they are
  // compiled, so each of the setters makes the next step compile its graph anew.
  void set_fusion(bool on);
  bool fusion() const;
  void set_fusion_statistics(bool on);
  // Of all graphs compiled since the last reset, sorted by graph, then label.
  std::vector<FusionCount> fusion_counts() const;
  void reset_fusion_counts();

  std::string model_name() const;
  int64_t n_vocab() const;
  int64_t n_ctx() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tokamak
