// Dummy models: the configurations of arch/dummy.h as GGUF files with random weights.
//
// Goals: every family, small, the same bytes on every platform (types F32 and F16; others as far as their encoder is).
// Non-goals: models that say something sensible, tokenizers (the files know ids only).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/dummy.h"
#include "base/result.h"
#include "gguf/writer.h"

namespace tokamak {

struct SynthOptions {
  // Of the matrices that quantize would quantize; rows that do not fit a block fall back as there. A type for weights
  // (find_target_type).
  DType type = DType::f32;
  uint64_t seed = 1;
};

struct SynthTensor {
  std::string name;
  Shape shape;
  DType type = DType::f32;
};

// The tensors that the family's recipe asks for, in its order. Errors: unsupported (a configuration that the family
// cannot read).
Result<std::vector<SynthTensor>> synth_tensors(const arch::DummyRow& dummy, DType type);

// The whole model, ready to be written; the weights are made while it is.
Result<GgufWriter> synth(const arch::DummyRow& dummy, const SynthOptions& options = {});

}  // namespace tokamak
