// Builds graphs op by op with shape inference. The first error is kept and later calls become no-ops, so a recipe is
// written without checks; finish() returns the graph or that error.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "ir/graph.h"

namespace tokamak::ir {

struct RopeParams {
  int64_t n_rot = 0;
  RopePairing pairing = RopePairing::norm;
  double theta = 10000, freq_scale = 1, ext_factor = 0, attn_factor = 1, beta_fast = 32, beta_slow = 1;
  int64_t n_ctx_orig = 0;
  bool round_range = true;
};

struct AttentionParams {
  double scale = 1, softcap = 0;
  int64_t window = 0, chunk = 0;
  bool causal = true;
};

struct TempParams {
  double scale = 0;
  int64_t length = 1, offset = 0;
};

struct GluParams {
  Glu kind = Glu::swiglu;
  double alpha = 0, limit = 0;  // of swiglu_oai
};

// Where the sequences of a step find and leave their recurrent state.
struct RecurrentInputs {
  ValueId seq_ids = kNone, state_src = kNone, state_rows = kNone;
  int64_t n_snapshots = 1;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);

  // A leaf (weight, input, state) is one value however often it is asked for; dtype and shape must agree. Inputs are
  // named by their role, those of a boundary "boundary.INDEX", states "cache_ROLE.LAYER".
  ValueId weight(std::string_view name, DType dtype, const Shape& shape);
  ValueId input(InputRole role, const Shape& shape);                        // i32
  ValueId boundary(int32_t boundary_idx, DType dtype, const Shape& shape);  // f32 or i32
  ValueId state(StateRole role, int32_t layer_idx, DType dtype, const Shape& shape);

  // Generic: infers the result's type. `name` says what is computed and is unique in the graph, or empty.
  ValueId node(Op op, std::initializer_list<ValueId> inputs, Attrs attrs = {}, std::string_view name = {});

  ValueId get_rows(ValueId table, ValueId ids, std::string_view name = {});
  ValueId add(ValueId a, ValueId b, std::string_view name = {});
  ValueId sub(ValueId a, ValueId b, std::string_view name = {});
  ValueId mul(ValueId a, ValueId b, std::string_view name = {});
  ValueId div(ValueId a, ValueId b, std::string_view name = {});
  ValueId scale(ValueId x, double factor, double bias = 0, std::string_view name = {});
  ValueId unary(ValueId x, Unary function, std::string_view name = {});
  ValueId clamp(ValueId x, double min, double max, std::string_view name = {});
  ValueId glu(ValueId gate, ValueId up, const GluParams& params, std::string_view name = {});
  ValueId glu(ValueId gate, ValueId up, Glu kind, std::string_view name = {}) {
    return glu(gate, up, GluParams{.kind = kind}, name);
  }
  ValueId glu_halves(ValueId gate_up, const GluParams& params, std::string_view name = {});
  ValueId norm(ValueId x, double eps, std::string_view name = {});
  ValueId rms_norm(ValueId x, double eps, std::string_view name = {});
  ValueId l2_norm(ValueId x, double eps, std::string_view name = {});
  ValueId soft_max(ValueId x, std::string_view name = {});
  ValueId sum_rows(ValueId x, std::string_view name = {});
  ValueId argsort(ValueId x, std::string_view name = {});
  ValueId mask_groups(ValueId scores, int64_t n_group, int64_t n_group_used, int64_t n_best,
                      std::string_view name = {});
  ValueId concat(ValueId a, ValueId b, std::string_view name = {});
  ValueId cont(ValueId x, std::string_view name = {});
  ValueId mul_mat(ValueId weight, ValueId x, std::string_view name = {});
  ValueId mul_mat_id(ValueId weights, ValueId x, ValueId ids, std::string_view name = {});
  ValueId add_id(ValueId a, ValueId b, ValueId ids, std::string_view name = {});
  ValueId rope(ValueId x, ValueId positions, const RopeParams& params, std::optional<ValueId> freq_factors = {},
               std::string_view name = {});
  ValueId set_rows(ValueId cache, ValueId x, ValueId slots, std::string_view name = {});
  ValueId flash_attn_ext(ValueId q, ValueId k, ValueId v, ValueId positions, ValueId seq_ids,
                         const AttentionParams& params, std::optional<ValueId> sinks = {}, std::string_view name = {});
  ValueId attn_temp(ValueId x, ValueId positions, const TempParams& params, std::string_view name = {});
  ValueId ssm_conv(ValueId x, ValueId weight, ValueId state, const RecurrentInputs& in, std::string_view name = {});
  ValueId ssm_conv_state(ValueId x, ValueId state, const RecurrentInputs& in, std::string_view name = {});
  // y and states in one: take them apart with VIEW and RESHAPE.
  ValueId gated_delta_net(ValueId q, ValueId k, ValueId v, ValueId g, ValueId beta, ValueId state,
                          const RecurrentInputs& in, double scale, HeadMap head_map, std::string_view name = {});
  ValueId cpy(ValueId state, ValueId x, ValueId rows, std::string_view name = {});
  ValueId reshape(ValueId x, const Shape& shape, std::string_view name = {});
  ValueId view(ValueId x, int64_t offset, const Shape& shape, std::string_view name = {});

  void output(ValueId value);

  // After an error: a shape of ones, so that a recipe may go on computing with it.
  Shape shape_of(ValueId value) const;
  bool failed() const { return error_.has_value(); }
  // The verified graph or the first error. Leaves the builder empty.
  Result<Graph> finish();

 private:
  ValueId fail(Error error);
  ValueId add_leaf(Value value);

  Graph graph_;
  std::optional<Error> error_;
  std::unordered_map<std::string, ValueId> names_;  // of all values that have one
};

}  // namespace tokamak::ir
