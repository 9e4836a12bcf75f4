// Rates of MUL_MAT_ID beside a dense MUL_MAT with as many operations and as many bytes of weights.
//   experts_bench [--type NAME] [--isa NAME] [--reps N]
// One thread, its CPU time for a whole run of a program (GET_ROWS of the input, packing, sorting, products), median of
// the repetitions. 64 experts of 768 x 2048, 8 of them per token: the product of a gate projection. The dense matrix is
// 6144 x 2048; eight of them in turn, so that they come from memory as the experts do. With GLU: gate and up in one.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/backend.h"
#include "ir/builder.h"
#include "quant/codec.h"

namespace tokamak {
namespace {

constexpr int64_t kExperts = 64, kUsed = 8, kOut = 768, kIn = 2048;

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// `n_rows` rows of `type`: 16 encoded ones again and again.
std::vector<std::byte> make_rows(DType type, int64_t n_rows, int64_t k) {
  const size_t row_bytes = dtype_bytes(type, static_cast<uint64_t>(k));
  std::vector<std::byte> out(static_cast<size_t>(n_rows) * row_bytes);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> row(static_cast<size_t>(k));
  const std::vector<float> importance(static_cast<size_t>(k), 1.0f);
  for (int64_t r = 0; r < n_rows; ++r) {
    std::byte* to = out.data() + static_cast<size_t>(r) * row_bytes;
    if (r >= 16) {
      std::memcpy(to, to - 16 * row_bytes, row_bytes);
      continue;
    }
    for (float& x : row) x = normal(random);
    if (!encode_row(type, row.data(), k, importance.data(), to)) std::memset(to, 0, row_bytes);
  }
  return out;
}

struct Case {
  bool experts, glu;
  int64_t n_tokens;
  int n_products() const { return experts ? 1 : static_cast<int>(kExperts / kUsed); }  // in one run
};

// Seconds of one product.
class Bench {
 public:
  Bench(Backend& backend, DType type)
      : backend_(backend),
        type_(type),
        x_(make_rows(DType::f32, 16, kIn)),
        weights_(make_rows(type, kExperts * kOut, kIn)) {}

  double seconds(const Case& c, int reps) {
    ir::Graph graph = *build(c);
    auto weights = *backend_.load(graph, [this](std::string_view name) { return lookup(name); }, {});
    auto kv = *backend_.make_kv({.layers = {{1, 64, 64}}, .n_pages = 1, .page_size = 16});
    auto program = *backend_.compile(std::move(graph), *weights, *kv, {});
    std::vector<float> y(static_cast<size_t>(c.n_tokens * kUsed * kOut));
    const std::vector<std::span<float>> outputs(static_cast<size_t>(c.n_products()), y);
    std::vector<int32_t> rows(static_cast<size_t>(c.n_tokens)), ids(static_cast<size_t>(c.n_tokens * kUsed));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i % 16);
    std::vector<double> all;
    for (int i = 0; i < reps; ++i) {
      for (int64_t t = 0; t < c.n_tokens; ++t) choose(std::span(ids).subspan(static_cast<size_t>(t * kUsed), kUsed));
      const double begin = thread_seconds();
      if (!program->run({.tokens = ids, .out_rows = rows}, outputs)) return 0;
      all.push_back(thread_seconds() - begin);
    }
    std::ranges::sort(all);
    return all[all.size() / 2] / c.n_products();
  }

 private:
  // Distinct experts, other ones for every token and run: weights come from memory.
  void choose(std::span<int32_t> ids) {
    for (size_t i = 0; i < ids.size(); ++i) do
        ids[i] = static_cast<int32_t>(random_() % kExperts);
      while (std::find(ids.begin(), ids.begin() + static_cast<int64_t>(i), ids[i]) !=
             ids.begin() + static_cast<int64_t>(i));
  }
  Result<WeightSource> lookup(std::string_view name) {
    if (name == "x") return WeightSource{.dtype = DType::f32, .shape = {16, kIn}, .data = x_, .forget = {}};
    const size_t n_bytes = dtype_bytes(type_, static_cast<uint64_t>(shape_.n_elements()));
    return WeightSource{.dtype = type_, .shape = shape_, .data = {weights_.data(), n_bytes}, .forget = {}};
  }
  Result<ir::Graph> build(const Case& c) {
    shape_ = c.experts ? Shape{kExperts, kOut, kIn} : Shape{kUsed * kOut, kIn};
    ir::GraphBuilder b("bench");
    const auto x = b.get_rows(b.weight("x", DType::f32, {16, kIn}), b.input(ir::InputRole::out_rows, {c.n_tokens}));
    const auto product = [&](std::string_view name) {
      const auto w = b.weight(name, type_, shape_);
      if (!c.experts) return b.mul_mat(w, x);
      return b.mul_mat_id(w, b.reshape(x, {c.n_tokens, 1, kIn}), b.input(ir::InputRole::tokens, {c.n_tokens, kUsed}));
    };
    for (int i = 0; i < c.n_products(); ++i) {
      const auto gate = product(fmt::format("gate.{}", i));
      b.output(c.glu ? b.glu(gate, product(fmt::format("up.{}", i)), ir::Glu::swiglu) : gate);
    }
    return b.finish();
  }

  Backend& backend_;
  const DType type_;
  Shape shape_;
  const std::vector<std::byte> x_, weights_;
  std::mt19937 random_{7};
};

void bench_type(Backend& backend, DType type, int reps) {
  Bench bench(backend, type);
  std::string line = fmt::format("{:<9}", dtype_name(type));
  for (bool glu : {false, true}) {
    const double n_products = glu ? 2 : 1;
    const double weights = n_products * kUsed * kOut * kIn;
    const double bytes = n_products * static_cast<double>(dtype_bytes(type, static_cast<uint64_t>(kUsed * kOut * kIn)));
    const double decode = bench.seconds({true, glu, 1}, 20 * reps),
                 decode_dense = bench.seconds({false, glu, 1}, 20 * reps);
    line += fmt::format("  {:6.2f} GB/s {:4.2f}", bytes / decode * 1e-9, decode_dense / decode);
    const double prefill = bench.seconds({true, glu, 512}, reps), dense = bench.seconds({false, glu, 512}, reps);
    line += fmt::format("  {:6.0f} GFLOP/s {:4.2f}", 2 * 512 * weights / prefill * 1e-9, dense / prefill);
  }
  fmt::print("{}\n", line);
}

int bench(int argc, char** argv) {
  int reps = 7;
  std::string isa = "auto", only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--isa")
      isa = argv[i + 1];
    else if (flag == "--type")
      only = argv[i + 1];
    else if (flag == "--reps")
      reps = std::max(1, std::atoi(argv[i + 1]));
    else
      return fmt::print(stderr, "unknown flag: {}\n", flag), 2;
  }
  auto backend = make_cpu_backend({.isa = isa, .n_threads = 1});
  if (!backend) return fmt::print(stderr, "{}\n", backend.error().message()), 2;
  fmt::print("{:<9}  decode, of dense   512 tokens, of dense  with GLU: the same\n", "type");
  for (DType type :
       {DType::q8_0, DType::q4_0, DType::q4_k, DType::q6_k, DType::mxfp4, DType::iq4_nl, DType::iq2_xs, DType::bf16})
    if (only.empty() || find_dtype(only) == &dtype_row(type)) bench_type(**backend, type, reps);
  return 0;
}

}  // namespace
}  // namespace tokamak

int main(int argc, char** argv) { return tokamak::bench(argc, argv); }
