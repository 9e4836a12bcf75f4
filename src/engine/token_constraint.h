// What a structured output asks of the next token. Implemented over an automaton outside this folder; one per answer.
#pragma once

#include <cstdint>
#include <span>

namespace tokamak {

// The engine asks in this order, step by step: prepare(), mask(), accept(). One thread at a time, not always the same.
// No function throws.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Computes what mask() will need. Runs while the device works on the step that mask() is asked for.
  virtual void prepare() {}
  // Sets the logits (f32 [n_vocab]) of tokens that may not come next to -infinity. End-of-generation tokens are the
  // engine's affair: it forbids them unless can_end(), and ends the answer when can_end() and nothing else is left.
  virtual void mask(std::span<float> logits) = 0;
  // `token` was chosen. False: it does not fit, which fails the request (it may only happen to forced tokens).
  virtual bool accept(int32_t token) = 0;
  // What has been accepted so far is complete.
  virtual bool can_end() const = 0;
};

}  // namespace tokamak
