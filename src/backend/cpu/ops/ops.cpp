#include "backend/cpu/ops/ops.h"

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

constexpr Labels<6> kNorm = {"RMS_NORM", "RMS_NORM+MUL", "RMS_NORM+MUL+ADD", "NORM", "NORM+MUL", "NORM+MUL+ADD"};
constexpr Labels<1> kAdd = {"ADD"}, kMul = {"MUL"}, kScale = {"SCALE"}, kSoftcap = {"SCALE+UNARY+SCALE"};
constexpr Labels<1> kUnary = {"UNARY"}, kGlu = {"GLU"}, kGetRows = {"GET_ROWS"}, kCopy = {"CPY"};
constexpr Labels<1> kAttention = {"FLASH_ATTN_EXT"};
constexpr Labels<6> kAddChain = {"ADD+ADD",
                                 "ADD+ADD+ADD",
                                 "ADD+ADD+ADD+ADD",
                                 "ADD+ADD+ADD+ADD+ADD",
                                 "ADD+ADD+ADD+ADD+ADD+ADD",
                                 "ADD+ADD+ADD+ADD+ADD+ADD+ADD"};
constexpr Labels<2> kRope = {"ROPE", "RMS_NORM+MUL+ROPE"};
constexpr Labels<3> kKvWrite = {"SET_ROWS", "ROPE+VIEW+SET_ROWS", "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS"};

// In the order of OpSet's members.
constexpr auto kKernels = std::to_array<KernelRow>({
    {"norm_f32", kNorm},
    {"add_f32", kAdd},
    {"mul_f32", kMul},
    {"add_chain_f32", kAddChain},
    {"scale_f32", kScale},
    {"softcap_f32", kSoftcap},
    {"unary_f32", kUnary},
    {"glu_f32", kGlu},
    {"rope_f32", kRope},
    {"kv_write", kKvWrite},
    {"get_rows", kGetRows},
    {"copy_rows", kCopy},
    {"flash_attn", kAttention},
    {"flash_attn_merge", kAttention},
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
  const auto row_bytes = static_cast<int64_t>(dtype_bytes(a.type, static_cast<uint64_t>(a.row_elems)));
  for (int64_t r = begin; r < end; ++r)
    decode_row(a.type, a.table + a.ids[r] * row_bytes, a.row_elems, a.y + r * a.y_stride);
}

}  // namespace tokamak::cpu
