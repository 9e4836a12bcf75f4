// Many requests at once on one session: an engine thread of its own runs what the scheduler decides.
//
// Terms: a request is queued, then running (it has a sequence), then done. A step is one pass of the device over tokens
// of several running requests. Goals: the same request gives the same answer alone and in a crowd; no request fails or
// waits for ever because of another. Non-goals: text to tokens, chat templates, HTTP, JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/generate.h"
#include "engine/output/output_machine.h"
#include "engine/sampling/sampler.h"
#include "engine/session.h"
#include "engine/token_constraint.h"

namespace tokamak {

struct ServiceOptions {
  int64_t n_parallel = 16;         // requests running at once; more wait
  int64_t n_queue = 256;           // requests waiting; more are refused with queue_full
  double max_token_gap_ms = 250;   // between two tokens of a stream, while others' prompts are processed
  double stall_seconds = 60;       // a step, or a request without progress, that takes longer fails
  int64_t cache_bytes = -1;        // prefix cache: most bytes that all entries hold; 0: off, -1: what is free of the KV
  int64_t cache_tokens = 0;        // prefix cache: most tokens; 0: no limit of its own
  int64_t max_scored_tokens = 64;  // rows of logits that one step makes for prompt_logprobs
};

enum class EmbeddingMode : uint8_t { none, all, mean, cls, last };

struct GenerationRequest {
  std::vector<int32_t> prompt;  // not empty, ids of the vocabulary
  SamplerParams sampling;
  int64_t n_predict = -1;  // most tokens to generate; 0: only the prompt is processed; -1: until end or context
  OutputOptions output;
  bool keep_special = false;         // print control tokens as text
  std::vector<int32_t> kept_tokens;  // these are printed in any case; sorted
  size_t n_probs = 0;                // log-probabilities of this many best tokens with every generated one
  bool logprobs = false;             // of the chosen token; implied by n_probs > 0
  bool post_sampling = false;        // both after the samplers instead of the model's own; tokens put in have 1
  bool prompt_logprobs = false;      // PromptScores events: every prompt token but the first, with n_probs best each
  // Binds all that is generated, but for thoughts (OutputKind::reasoning) unless constrain_reasoning.
  std::shared_ptr<TokenConstraint> constraint;  // of this answer alone
  bool constrain_reasoning = false;

  // A thought ends after this many tokens: these are put in then. -1: no limit.
  int64_t reasoning_budget = -1;
  std::vector<int32_t> reasoning_close;

  // Hidden rows after the output norm, before the output matrix, instead of an answer: an Embedding event. n_predict
  // is then 0 and nothing is sampled. all: one row per token; the others: one row.
  EmbeddingMode embeddings = EmbeddingMode::none;

  double max_seconds = 0;        // from the first generated token; then FinishReason::time_limit. 0: no limit
  int priority = 0;              // higher goes first into the crowd
  std::string client;            // requests of one client share its turn
  bool continues_work = false;   // a further part of work that was accepted: the queue limit does not refuse it
  bool return_progress = false;  // PromptProgress events
  int64_t slot = -1;             // becomes this slot's last request; -1: the slot of the sequence it runs on

  // Prefix cache. Entries are found only by requests of the same tenant and adapter.
  bool cache_prompt = true;
  std::string tenant, adapter;
  std::vector<int64_t>
      boundaries;  // ascending prompt positions where the next prompt may branch off (ends of messages)
};

struct RequestHandle {
  uint64_t id = 0;
  friend bool operator==(const RequestHandle&, const RequestHandle&) = default;
};

// Comes when the request starts running and after every part of its prompt. total > 0, cache <= processed <= total.
struct PromptProgress {
  int64_t total = 0, cache = 0, processed = 0;
  double time_ms = 0;  // since it started running
};

// Of prompt tokens [first, first + tokens.size()); first >= 1.
struct PromptScores {
  int64_t first = 1;
  std::vector<GeneratedToken> tokens;
};

struct RequestTimings {
  double queue_ms = 0;                                  // from submit() until it ran
  double prompt_ms = 0;                                 // until the logits of the last prompt token
  double decode_ms = 0;                                 // from there to the last token
  int64_t n_prompt = 0, n_cached = 0, n_generated = 0;  // prompt tokens computed; reused; tokens generated
  int64_t n_recomputed = 0;  // tokens computed a second time because the request had to give way in between
  // First prompt position that differs from the nearest cached entry (before any shortening to a usable position);
  // n_cached may be smaller: the rest up to here was computed again.
  int64_t first_difference = 0;
};

// One step's token. `text` is what has become certain with it, perhaps nothing. The last token's event may be followed
// by one without tokens, which brings text that was held back.
struct TokensEvent {
  std::vector<OutputEvent> text;
  std::vector<GeneratedToken> tokens;  // without the end token
  RequestTimings timings;
};

// f32 [n_rows, n_embd], not normalised.
struct EmbeddingEvent {
  std::vector<float> values;
  int64_t n_rows = 0, n_embd = 0;
};

struct Finished {
  FinishReason reason = FinishReason::end_of_text;
  std::optional<std::string> matched_stop;
  RequestTimings timings;
  uint64_t seed = 0;
  int64_t slot = -1;  // -1: it never ran
};

struct Failed {
  Error error;
};

using Event = std::variant<PromptProgress, PromptScores, TokensEvent, EmbeddingEvent, Finished, Failed>;

// Called by the engine (one call at a time per request; never from inside submit() or cancel()). Must not block, throw
// or call the service, except cancel(). Returning false cancels: no further call. Otherwise the last event of every
// accepted request is exactly one Finished or Failed; the sink is destroyed after it.
using EventSink = std::function<bool(Event event)>;

// One running or waiting request, for /slots.
struct RequestStatus {
  uint64_t id = 0;
  int64_t slot = -1;       // -1: it has not run yet
  std::string_view state;  // queued, prefill, decode
  int64_t n_prompt = 0, n_cached = 0, n_processed = 0, n_generated = 0;
  double age_seconds = 0;
};

// Counters since the start, and what is going on now.
struct ServiceStats {
  uint64_t n_submitted = 0, n_refused = 0, n_finished = 0, n_failed = 0, n_cancelled = 0, n_preempted = 0;
  uint64_t n_prompt_tokens = 0, n_cached_tokens = 0, n_generated_tokens = 0, n_recomputed_tokens = 0;
  uint64_t n_steps = 0, n_step_sequences = 0;  // sum of sequences over steps
  double prompt_seconds = 0, decode_seconds = 0, step_seconds = 0;
  double max_gap_ms = 0;  // worst gap between two tokens of one stream
  int64_t n_running = 0, n_queued = 0, n_tokens_max = 0;
  int64_t kv_tokens = 0, kv_tokens_free = 0;  // slots of the KV cache; those neither running nor cached
  uint64_t cache_bytes = 0, cache_bytes_max = 0, cache_tokens = 0, cache_entries = 0;
  bool draining = false, stuck = false;
  std::optional<Error> lost;  // the device failed for good: requests are refused with this
  std::vector<RequestStatus> requests;
  std::vector<int64_t> slot_tokens;  // by slot: of its last request
};

class ServiceEngine;

class Service {
 public:
  // Takes the session over and reserves what requests will need. Errors: bad_argument, out_of_memory.
  static Result<std::unique_ptr<Service>> create(std::unique_ptr<Session> session, ServiceOptions options);
  // Cancels what is left and stops the thread.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Checks and queues the request. Thread-safe; returns at once. Errors: bad_argument (token ids, sampling, empty
  // prompt), context_full (prompt longer than n_ctx()), queue_full (retry_after_seconds() says when to come back),
  // shutting_down, device_failed (a step hangs).
  Result<RequestHandle> submit(GenerationRequest request, EventSink sink);
  // Takes effect within one step; the sink gets Finished with FinishReason::cancelled. Unknown and finished requests
  // are ignored. Thread-safe.
  void cancel(RequestHandle handle);
  // A thought that is under way is closed as if its budget had run out. Thread-safe.
  void end_reasoning(RequestHandle handle);

  // Runs `work` on the engine thread between two steps and waits for it. It delays all streams: milliseconds at most.
  // Not from a sink. Errors: shutting_down (`work` was not run).
  Result<void> between_steps(const std::function<void(ServiceEngine& engine)>& work);

  ServiceStats stats() const;
  // Whole seconds until a place in the queue is likely free: the HTTP header Retry-After.
  int64_t retry_after_seconds() const;

  // Refuses new requests with shutting_down and waits until the others are done, at most `timeout_seconds`; what is
  // left then is cancelled. True if nothing had to be. Thread-safe.
  bool drain(double timeout_seconds);

  const Model& model() const;
  int64_t n_ctx() const;  // most tokens of one request, prompt and answer
  // Everything reserved, line by line: what ledger() says.
  std::vector<MemoryUse> memory() const;
  // What a service with these options reserves on the session, which may be one that only plans. Errors: those of
  // create().
  static Result<std::vector<MemoryUse>> ledger(Session& session, ServiceOptions options);

 private:
  class Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tokamak
