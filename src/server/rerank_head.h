// The head that turns a hidden row into a document's score: the tensors `cls` (optional) and `cls.output` of the file.
#pragma once

#include <span>
#include <vector>

#include "engine/model.h"

namespace tokamak::server {

class RerankHead {
 public:
  // Decodes the tensors. Errors: unsupported when the model has no `cls.output.weight`; bad_tensor (shapes).
  static Result<RerankHead> read(const Model& model);
  static bool exists(const Model& model);

  // With one output the score is that output; with several it is the first one's share by softmax ("yes" against "no").
  // row: f32 [n_embd], after the model's last norm.
  float score(std::span<const float> row) const;

 private:
  // y = w x + b
  struct Linear {
    int64_t n_in = 0, n_out = 0;
    std::vector<float> weight, bias;  // [n_out, n_in]; [n_out] or empty
    std::vector<double> apply(std::span<const float> x) const;
  };
  static Result<Linear> read_linear(const Model& model, const std::string& name, int64_t n_in);

  Linear dense_;  // with tanh behind it; n_out 0: none
  Linear output_;
};

}  // namespace tokamak::server
