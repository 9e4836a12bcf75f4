#include "backend/cpu/ops/ops.h"

#include <cmath>

#include "backend/cpu/ops/op_sets.h"
#include "base/check.h"
#include "quant/codec.h"

namespace tokamak::cpu {

namespace {

struct OpSetRow {
  Isa isa;
  const OpSet* ops;
};
// Fastest first, scalar last.
constexpr auto kSets = std::to_array<OpSetRow>({
#if defined(__x86_64__)
  {Isa::avx512, &kOpsAvx512}, {Isa::avx2, &kOpsAvx2},
#elif defined(__aarch64__)
  {Isa::neon, &kOpsNeon},
#endif
      {Isa::scalar, &kOpsScalar},
});
static_assert(kSets.back().isa == Isa::scalar);

struct KernelRow {
  std::string_view name;
  std::span<const std::string_view> labels;
};
template <size_t n>
using Labels = std::array<std::string_view, n>;

constexpr Labels<7> kNorm = {"RMS_NORM", "RMS_NORM+MUL", "RMS_NORM+MUL+ADD", "NORM",
                             "NORM+MUL", "NORM+MUL+ADD", "L2_NORM"};
constexpr Labels<1> kAdd = {"ADD"}, kSub = {"SUB"}, kMul = {"MUL"}, kDiv = {"DIV"}, kScale = {"SCALE"};
constexpr Labels<1> kClamp = {"CLAMP"}, kSoftcap = {"SCALE+TANH+SCALE"}, kUnary = {"UNARY"}, kReluSqr = {"RELU+SQR"};
constexpr Labels<2> kGlu = {"GLU", "SILU|SIGMOID|SOFTPLUS +MUL"};
constexpr Labels<1> kSnake = {"MUL+SIN+SQR+MUL+ADD"}, kGetRows = {"GET_ROWS"}, kCopy = {"CONT"};
constexpr Labels<1> kAttention = {"FLASH_ATTN_EXT"}, kSoftMax = {"SOFT_MAX"}, kSumRows = {"SUM_ROWS"};
constexpr Labels<1> kArgsort = {"ARGSORT"}, kMaskGroups = {"MASK_GROUPS"}, kAddId = {"ADD_ID"},
                    kMoeSum = {"MUL+ADD..."};
constexpr Labels<5> kRoute = {"TOPK_MOE (SOFT_MAX)", "TOPK_MOE (SIGMOID)", "TOPK_MOE (SOFTPLUS+SQRT)",
                              "ARGSORT+GET_ROWS+SOFT_MAX", "ARGSORT+GET_ROWS+SIGMOID"};
constexpr Labels<2> kSsmConv = {"SSM_CONV", "SSM_CONV(+ADD)+SILU"};
constexpr Labels<2> kConvState = {"SSM_CONV_STATE", "SSM_CONV_STATE+CPY"};
constexpr Labels<2> kDeltaNet = {"GATED_DELTA_NET", "GATED_DELTA_NET+CPY"};
constexpr Labels<6> kAddChain = {"ADD+ADD",
                                 "ADD+ADD+ADD",
                                 "ADD+ADD+ADD+ADD",
                                 "ADD+ADD+ADD+ADD+ADD",
                                 "ADD+ADD+ADD+ADD+ADD+ADD",
                                 "ADD+ADD+ADD+ADD+ADD+ADD+ADD"};
constexpr Labels<6> kMulChain = {"MUL+MUL",
                                 "MUL+MUL+MUL",
                                 "MUL+MUL+MUL+MUL",
                                 "MUL+MUL+MUL+MUL+MUL",
                                 "MUL+MUL+MUL+MUL+MUL+MUL",
                                 "MUL+MUL+MUL+MUL+MUL+MUL+MUL"};
constexpr Labels<2> kRope = {"ROPE", "RMS_NORM+MUL+ROPE"};
constexpr Labels<3> kKvWrite = {"SET_ROWS", "ROPE+VIEW+SET_ROWS", "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS"};

// In the order of OpSet's members.
constexpr auto kKernels = std::to_array<KernelRow>({
    {"norm_f32", kNorm},
    {"add_f32", kAdd},
    {"sub_f32", kSub},
    {"mul_f32", kMul},
    {"div_f32", kDiv},
    {"add_chain_f32", kAddChain},
    {"mul_chain_f32", kMulChain},
    {"scale_f32", kScale},
    {"clamp_f32", kClamp},
    {"softcap_f32", kSoftcap},
    {"unary_f32", kUnary},
    {"relu_sqr_f32", kReluSqr},
    {"glu_f32", kGlu},
    {"snake_f32", kSnake},
    {"rope_f32", kRope},
    {"kv_write", kKvWrite},
    {"get_rows", kGetRows},
    {"copy_rows", kCopy},
    {"flash_attn", kAttention},
    {"flash_attn_merge", kAttention},
    {"soft_max_f32", kSoftMax},
    {"sum_rows_f32", kSumRows},
    {"argsort", kArgsort},
    {"mask_groups", kMaskGroups},
    {"add_id_f32", kAddId},
    {"route_f32", kRoute},
    {"weighted_sum_f32", kMoeSum},
    {"ssm_conv_f32", kSsmConv},
    {"ssm_conv_state", kConvState},
    {"gated_delta_net_f32", kDeltaNet},
});
static_assert(sizeof(OpSet) == kKernels.size() * sizeof(void (*)()));

}  // namespace

const OpSet& op_set(Isa isa) {
  CHECK(isa_available(isa), isa_name(isa));
  for (const OpSetRow& row : kSets)
    if (row.isa == isa) return *row.ops;
  return kOpsScalar;  // an instruction set without op kernels of its own
}

std::vector<KernelName> op_kernel_names() {
  std::vector<KernelName> names;
  for (const OpSetRow& row : kSets)
    for (const KernelRow& kernel : kKernels)
      names.push_back({std::string(kernel.name) + "_" + std::string(isa_name(row.isa)), kernel.labels, row.isa});
  return names;
}

void get_rows_any(const GetRowsArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) decode_row(a.type, a.row(r), a.row_elems, a.y + r * a.y_stride);
}

void sin_lanes(float* lanes) {
  for (int i = 0; i < 16; ++i) lanes[i] = static_cast<float>(std::sin(double{lanes[i]}));
}

}  // namespace tokamak::cpu
