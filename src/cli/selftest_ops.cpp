// selftest of the op kernels: one check per member of OpSet, in its order.
#include "cli/selftest_ops.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/ops/ops.h"
#include "base/check.h"
#include "cli/selftest.h"
#include "cli/selftest_attention.h"
#include "quant/codec.h"

namespace tokamak::cli {

namespace {
using namespace cpu;
constexpr int64_t kRows = 5, kElems = 333;
constexpr size_t kTotal = kRows * kElems;

void check_norm(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTotal, 1), w = random_numbers(kElems, 2), addend = random_numbers(kTotal, 3);
  for (const NormKind kind : {NormKind::rms, NormKind::centred}) {
    const bool centred = kind == NormKind::centred;
    Out y(kTotal);
    ops.norm({.kind = kind,
              .eps = 1e-5f,
              .row_elems = kElems,
              .x = x.data(),
              .x_stride = kElems,
              .weight = w.data(),
              .addend = addend.data(),
              .addend_stride = kElems,
              .y = y.data(),
              .y_stride = kElems},
             0, kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      const float* row = &x[static_cast<size_t>(r * kElems)];
      double mean = 0, square = 0;
      for (int64_t i = 0; i < kElems; ++i) mean += centred ? double{row[i]} / kElems : 0;
      for (int64_t i = 0; i < kElems; ++i) square += (row[i] - mean) * (row[i] - mean) / kElems;
      for (int64_t i = 0; i < kElems; ++i) {
        const auto at = static_cast<size_t>(r * kElems + i);
        const double scaled = (row[i] - mean) / std::sqrt(square + double{1e-5f}) * double{w[static_cast<size_t>(i)]};
        const double exact = scaled + double{addend[at]};
        const double bound = (kElems / 16.0 + 16) * kUnit *
                             (std::abs(scaled) + std::abs(double{w[static_cast<size_t>(i)]}) + std::abs(exact));
        meter.add(y[at], exact, bound);
      }
    }
    out.insert(out.end(), y.begin(), y.end());
  }
}

void check_binary(Kernel<BinaryArgs> kernel, double (*exact)(double a, double b), ErrorMeter& meter, Out& out) {
  const Out a = random_numbers(kTotal, 4), b = random_numbers(kTotal, 5);
  out.resize(kTotal);
  kernel({.row_elems = kElems,
          .a = a.data(),
          .a_stride = kElems,
          .b = b.data(),
          .b_stride = kElems,
          .y = out.data(),
          .y_stride = kElems},
         0, kRows);
  for (size_t i = 0; i < kTotal; ++i) {
    const double wanted = exact(double{a[i]}, double{b[i]});
    meter.add(out[i], wanted, kUnit * std::abs(wanted));
  }
}
double sum_of(double a, double b) { return a + b; }
double product_of(double a, double b) { return a * b; }
void check_add(const OpSet& ops, ErrorMeter& meter, Out& out) { check_binary(ops.add, sum_of, meter, out); }
void check_mul(const OpSet& ops, ErrorMeter& meter, Out& out) { check_binary(ops.mul, product_of, meter, out); }
void check_sub(const OpSet& ops, ErrorMeter& meter, Out& out) {
  check_binary(
      ops.sub, [](double a, double b) { return a - b; }, meter, out);
}
void check_div(const OpSet& ops, ErrorMeter& meter, Out& out) {
  check_binary(
      ops.div, [](double a, double b) { return a / b; }, meter, out);
}

// Each of the chain's operations is off by one rounding of what it makes.
void check_chain(Kernel<ChainArgs> kernel, double (*exact)(double a, double b), ErrorMeter& meter, Out& out) {
  ChainArgs args{.n_inputs = ChainArgs::kMax, .row_elems = kElems, .y_stride = kElems};
  std::vector<Out> x;
  for (uint32_t i = 0; i < ChainArgs::kMax; ++i) x.push_back(random_numbers(kTotal, 20 + i));
  for (size_t i = 0; i < ChainArgs::kMax; ++i) {
    args.x[i] = x[i].data();
    args.x_stride[i] = kElems;
  }
  out.resize(kTotal);
  args.y = out.data();
  kernel(args, 0, kRows);
  for (size_t i = 0; i < kTotal; ++i) {
    double wanted = x[0][i], magnitude = std::abs(wanted);
    for (size_t k = 1; k < x.size(); ++k) {
      wanted = exact(wanted, double{x[k][i]});
      magnitude = exact(magnitude, std::abs(double{x[k][i]}));
    }
    meter.add(out[i], wanted, ChainArgs::kMax * kUnit * magnitude);
  }
}
void check_add_chain(const OpSet& ops, ErrorMeter& meter, Out& out) { check_chain(ops.add_chain, sum_of, meter, out); }
void check_mul_chain(const OpSet& ops, ErrorMeter& meter, Out& out) {
  check_chain(ops.mul_chain, product_of, meter, out);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
constexpr double kGeluFactor = 0.7978845608028654;  // sqrt(2 / pi)

double exact_unary(UnaryKind kind, double x) {
  switch (kind) {
    case UnaryKind::silu:
      return x * sigmoid(x);
    case UnaryKind::gelu:
      return 0.5 * x * (1 + std::tanh(kGeluFactor * (x + 0.044715 * x * x * x)));
    case UnaryKind::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case UnaryKind::gelu_quick:
      return x * sigmoid(1.702 * x);
    case UnaryKind::relu:
      return std::max(x, 0.0);
    case UnaryKind::sigmoid:
      return sigmoid(x);
    case UnaryKind::tanh:
      return std::tanh(x);
    case UnaryKind::softplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case UnaryKind::exp:
      return std::exp(x);
    case UnaryKind::sqr:
      return x * x;
    case UnaryKind::sqrt:
      return std::sqrt(x);
    case UnaryKind::sin:
      return std::sin(x);
    case UnaryKind::count_:
      break;
  }
  return 0;
}
// Function values lose a few units, and one for each unit of an exponent's argument; where 1 + erf or tanh cancels,
// the error is one of x.
double function_bound(double x, double exact) {
  return kUnit * ((32 + 16 * std::abs(x) * (1 + x * x / 16)) * std::abs(exact) + 4 * std::abs(x));
}

void check_scale(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTotal, 6);
  out.resize(kTotal);
  ops.scale({.row_elems = kElems,
             .x = x.data(),
             .x_stride = kElems,
             .y = out.data(),
             .y_stride = kElems,
             .scale = 1.7f,
             .bias = 0.3f},
            0, kRows);
  for (size_t i = 0; i < kTotal; ++i) {
    const double exact = double{1.7f} * double{x[i]} + double{0.3f};
    meter.add(out[i], exact, kUnit * std::abs(exact));
  }
}

void check_softcap(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTotal, 7);
  out.resize(kTotal);
  ops.softcap({.row_elems = kElems,
               .x = x.data(),
               .x_stride = kElems,
               .y = out.data(),
               .y_stride = kElems,
               .scale = 1.5f,
               .cap = 0.5f},
              0, kRows);
  for (size_t i = 0; i < kTotal; ++i) {
    const double exact = 0.5 * std::tanh(1.5 * double{x[i]});
    meter.add(out[i], exact, 16 * kUnit * std::abs(exact));
  }
}

void check_clamp(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTotal, 11);
  out.resize(kTotal);
  ops.clamp({.row_elems = kElems,
             .x = x.data(),
             .x_stride = kElems,
             .y = out.data(),
             .y_stride = kElems,
             .low = -0.25f,
             .high = 0.5f},
            0, kRows);
  for (size_t i = 0; i < kTotal; ++i) meter.add(out[i], std::clamp(double{x[i]}, -0.25, 0.5), 0);
}

void check_relu_sqr(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTotal, 12);
  out.resize(kTotal);
  ops.relu_sqr({.row_elems = kElems, .x = x.data(), .x_stride = kElems, .y = out.data(), .y_stride = kElems}, 0, kRows);
  for (size_t i = 0; i < kTotal; ++i) {
    const double positive = std::max(double{x[i]}, 0.0);
    meter.add(out[i], positive * positive, kUnit * positive * positive);
  }
}

void check_snake(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTotal, 13), a = random_numbers(kRows, 18), b = random_numbers(kRows, 19);
  out.resize(kTotal);
  ops.snake({.row_elems = kElems,
             .x = x.data(),
             .x_stride = kElems,
             .a = a.data(),
             .b = b.data(),
             .y = out.data(),
             .y_stride = kElems},
            0, kRows);
  for (size_t i = 0; i < kTotal; ++i) {
    const double wave = std::sin(double{a[i / kElems]} * double{x[i]}), square = wave * wave * double{b[i / kElems]};
    meter.add(out[i], double{x[i]} + square, kUnit * (16 * std::abs(square) + 2 * std::abs(double{x[i]})));
  }
}

void check_unary(const OpSet& ops, ErrorMeter& meter, Out& out) {
  Out x = random_numbers(kTotal, 8);
  for (float& v : x) v *= 4;
  Out magnitudes = x;
  for (float& v : magnitudes) v = std::abs(v);
  for (size_t kind = 0; kind < static_cast<size_t>(UnaryKind::count_); ++kind) {
    const bool root = static_cast<UnaryKind>(kind) == UnaryKind::sqrt;
    Out y(kTotal);
    ops.unary({.row_elems = kElems,
               .x = root ? magnitudes.data() : x.data(),
               .x_stride = kElems,
               .y = y.data(),
               .y_stride = kElems,
               .unary = static_cast<UnaryKind>(kind)},
              0, kRows);
    for (size_t i = 0; i < kTotal; ++i) {
      const double at = root ? double{magnitudes[i]} : double{x[i]};
      const double exact = exact_unary(static_cast<UnaryKind>(kind), at);
      meter.add(y[i], exact, function_bound(double{x[i]}, exact));
    }
    out.insert(out.end(), y.begin(), y.end());
  }
}

void check_glu(const OpSet& ops, ErrorMeter& meter, Out& out) {
  constexpr UnaryKind kActivations[] = {UnaryKind::relu,     UnaryKind::gelu,       UnaryKind::silu,
                                        UnaryKind::gelu_erf, UnaryKind::gelu_quick, UnaryKind::silu,
                                        UnaryKind::sigmoid,  UnaryKind::softplus};  // in the order of GluKind
  const Out gate = random_numbers(kTotal, 9), up = random_numbers(kTotal, 10);
  for (size_t kind = 0; kind < static_cast<size_t>(GluKind::count_); ++kind) {
    Out y(kTotal);
    ops.glu({.kind = static_cast<GluKind>(kind),
             .row_elems = kElems,
             .gate = gate.data(),
             .gate_stride = kElems,
             .up = up.data(),
             .up_stride = kElems,
             .y = y.data(),
             .y_stride = kElems,
             .alpha = 1,
             .limit = 0.75f},
            0, kRows);
    const bool oai = static_cast<GluKind>(kind) == GluKind::swiglu_oai;
    for (size_t i = 0; i < kTotal; ++i) {
      const double g = oai ? std::min(double{gate[i]}, 0.75) : double{gate[i]};
      const double lane = oai ? std::clamp(double{up[i]}, -0.75, 0.75) + 1 : double{up[i]};
      const double activation = exact_unary(kActivations[kind], g);
      const double bound = function_bound(g, activation) * std::abs(lane);
      meter.add(y[i], activation * lane, bound + 3 * kUnit * std::abs(activation * lane));
    }
    out.insert(out.end(), y.begin(), y.end());
  }
}

void check_rope(const OpSet& ops, ErrorMeter& meter, Out& out) {
  constexpr int64_t kTokens = 3, kHeads = 2, kHeadDim = 80, kRot = 64;
  const std::vector<int32_t> positions = {0, 17, 5000};
  const Out x = random_numbers(kTokens * kHeads * kHeadDim, 14);
  for (const RopePairing pairing : {RopePairing::norm, RopePairing::neox}) {
    const RopeTable table({.frequency = {.n_rot = kRot, .theta = 10000}, .pairing = pairing}, {});
    Out rows(static_cast<size_t>(kTokens * table.row_floats())), y(x.size());
    table.fill(positions, rows.data(), 0, kTokens);
    ops.rope({.n_head = kHeads,
              .head_dim = kHeadDim,
              .pairing = pairing,
              .n_rot = kRot,
              .table = rows.data(),
              .x = x.data(),
              .x_stride = kHeads * kHeadDim,
              .y = y.data(),
              .y_stride = kHeads * kHeadDim},
             0, kTokens * kHeads);
    for (int64_t item = 0; item < kTokens * kHeads; ++item)
      for (int64_t pair = 0; pair < kRot / 2; ++pair) {
        const bool is_norm = pairing == RopePairing::norm;
        const auto first = static_cast<size_t>(item * kHeadDim + (is_norm ? 2 * pair : pair));
        const size_t second = first + (is_norm ? 1 : kRot / 2);
        const double angle = positions[static_cast<size_t>(item / kHeads)] *
                             std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(kRot));
        const double a = double{x[first]}, b = double{x[second]}, bound = 4 * kUnit * (std::abs(a) + std::abs(b));
        meter.add(y[first], a * std::cos(angle) - b * std::sin(angle), bound);
        meter.add(y[second], a * std::sin(angle) + b * std::cos(angle), bound);
      }
    out.insert(out.end(), y.begin(), y.end());
  }
}

// How far |x| <= 2 may be from what a cache holds: half a unit of 11, 8 or 4 bits, or half a step of at most 2 / 127;
// of types with scales also the scale's own rounding.
double storing_error(DType type, double x) {
  switch (type) {
    case DType::f16:
      return 0x1p-11 * x + 0x1p-25;
    case DType::bf16:
      return 0x1p-8 * x;
    case DType::q8_0:
      return 2.0 / 127 * 0.51 + 0x1p-10;
    case DType::f8_e4m3:
      return (0x1p-4 * x + 2.0 / 448 * 0x1p-10) * 1.01;
    default:
      return 0;
  }
}

void check_kv_write(const OpSet& ops, ErrorMeter& meter, Out& out) {
  constexpr int64_t kTokens = 5, kHeads = 2, kHeadDim = 64;
  const std::vector<int32_t> slots = {3, 16, 0, 31, 7};
  const Out x = random_numbers(kTokens * kHeads * kHeadDim, 15);
  for (const DType type : kCacheDTypes) {
    const std::vector<KvLayerDims> dims = {{kHeads, kHeadDim, kHeadDim}};
    auto storage = KvStorage::create(dims, 2, 16, type);
    CHECK(storage.has_value());
    for (const KvPlane* plane : {&storage->keys(0), &storage->values(0)}) {
      ops.kv_write({.plane = *plane, .slots = slots.data(), .x = x.data(), .x_stride = kHeads * kHeadDim}, 0,
                   kTokens * kHeads);
      for (int64_t item = 0; item < kTokens * kHeads; ++item) {
        Out stored(kHeadDim);
        read_kv_slot(*plane, slots[static_cast<size_t>(item / kHeads)], item % kHeads, stored.data());
        for (int64_t i = 0; i < kHeadDim; ++i) {
          const double exact = double{x[static_cast<size_t>(item * kHeadDim + i)]};
          meter.add(stored[static_cast<size_t>(i)], exact, storing_error(type, std::abs(exact)));
        }
        out.insert(out.end(), stored.begin(), stored.end());
      }
    }
  }
}

void check_get_rows(const OpSet& ops, ErrorMeter& meter, Out& out) {
  constexpr int64_t kTableRows = 7, kRowElems = 256;
  const std::vector<int32_t> ids = {6, 0, 3, 3};
  const Out x = random_numbers(kTableRows * kRowElems, 16);
  for (const DTypeRow& row : kDTypes) {
    if (!can_encode(row.id)) continue;
    std::vector<std::byte> table(dtype_bytes(row.id, x.size()));
    CHECK(encode_row(row.id, x.data(), kTableRows * kRowElems, nullptr, table.data()).has_value(), row.name);
    Out decoded(x.size()), y(ids.size() * kRowElems);
    decode_row(row.id, table.data(), kTableRows * kRowElems, decoded.data());
    ops.get_rows({.type = row.id,
                  .table = table.data(),
                  .row_elems = kRowElems,
                  .row_bytes = static_cast<int64_t>(dtype_bytes(row.id, kRowElems)),
                  .ids = ids.data(),
                  .y = y.data(),
                  .y_stride = kRowElems},
                 0, static_cast<int64_t>(ids.size()));
    for (size_t i = 0; i < y.size(); ++i)
      meter.add(y[i], double{decoded[static_cast<size_t>(ids[i / kRowElems]) * kRowElems + i % kRowElems]}, 0);
    out.insert(out.end(), y.begin(), y.end());
  }
}

void check_copy(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTotal, 17);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<std::byte> stored(kTotal * sizeof(float));
    Out y(kTotal);
    ops.copy({.row_elems = kElems,
              .y_type = type,
              .x = x.data(),
              .x_stride = kElems,
              .y = stored.data(),
              .y_stride = kElems},
             0, kRows);
    ops.copy({.row_elems = kElems,
              .x_type = type,
              .x = stored.data(),
              .x_stride = kElems,
              .y = y.data(),
              .y_stride = kElems},
             0, kRows);
    const double unit = type == DType::f32 ? 0 : type == DType::f16 ? 0x1p-11 : 0x1p-8;
    for (size_t i = 0; i < kTotal; ++i)
      meter.add(y[i], double{x[i]}, unit * std::abs(double{x[i]}) + (unit > 0 ? 0x1p-25 : 0));
    out.insert(out.end(), y.begin(), y.end());
  }
}

using OpCheck = void (*)(const OpSet& ops, ErrorMeter& meter, Out& out);
constexpr OpCheck kChecks[] = {
    check_norm,      check_add,          check_sub,      check_mul,         check_div,
    check_add_chain, check_mul_chain,    check_scale,    check_clamp,       check_softcap,
    check_unary,     check_relu_sqr,     check_glu,      check_snake,       check_rope,
    check_kv_write,  check_get_rows,     check_copy,     check_attention,   check_attention_merge,
    check_soft_max,  check_sum_rows,     check_argsort,  check_mask_groups, check_add_id,
    check_route,     check_weighted_sum, check_ssm_conv, check_conv_state,  check_delta_net};
static_assert(sizeof(OpSet) == std::size(kChecks) * sizeof(void (*)()));
}  // namespace

std::vector<CheckResult> check_op_kernels(const std::vector<Isa>& isas) {
  std::vector<CheckResult> results;
  std::vector<Out> bits(std::size(kChecks));  // of the scalar kernels, which come first
  for (Isa isa : isas) {
    size_t i = 0;
    for (const KernelName& kernel : op_kernel_names()) {
      if (kernel.isa != isa) continue;
      CheckResult result{.name = kernel.name, .isa = std::string(isa_name(isa))};
      Out out;
      kChecks[i](op_set(isa), result.meter, out);
      if (bits[i].empty()) bits[i] = out;
      result.same_bits =
          bits[i].size() == out.size() && std::memcmp(bits[i].data(), out.data(), out.size() * sizeof(float)) == 0;
      results.push_back(std::move(result));
      ++i;
    }
  }
  return results;
}

}  // namespace tokamak::cli
