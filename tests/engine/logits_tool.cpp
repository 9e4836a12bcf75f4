// Helper of tools/logits_oracle.py and tools/arch_oracle.py: logits of every position of one sequence.
//   logits_tool MODEL BACKEND ISA IDS_FILE OUT.bin [--prompt N] [--chunk N] [--kv f32|f16|q8_0] [--no-fusion]
//               [--threads N] [--activations int16|int8]
// IDS_FILE: token ids as text. OUT.bin: f32 [n_tokens, n_vocab]. --prompt: tokens of the first step. --chunk: tokens of
// each step after it (default for both: all).
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/session.h"

namespace tokamak {
namespace {

struct Arguments {
  std::string model, ids_file, out_file;
  size_t prompt = 0, chunk = 0;  // 0: all
  SessionOptions session;
};

Error usage(std::string what) {
  return Error{.code = ErrorCode::bad_argument,
               .what = std::move(what),
               .where = "command line",
               .hint =
                   "logits_tool MODEL BACKEND ISA IDS_FILE OUT.bin [--prompt N] [--chunk N] "
                   "[--kv f32|f16|q8_0] [--no-fusion] [--threads N] [--activations int16|int8]"};
}

Result<Arguments> parse(int argc, char** argv) {
  if (argc < 6) return usage("too few arguments");
  Arguments args{.model = argv[1], .ids_file = argv[4], .out_file = argv[5]};
  args.session.backend = argv[2];
  args.session.isa = argv[3];
  for (int i = 6; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--no-fusion") {
      args.session.compile.fusion = false;
      continue;
    }
    if (i + 1 == argc) return usage(flag + " needs a value");
    const std::string value = argv[++i];
    if (flag == "--prompt") {
      args.prompt = std::stoul(value);
    } else if (flag == "--chunk") {
      args.chunk = std::stoul(value);
    } else if (flag == "--threads") {
      args.session.n_threads = std::stol(value);
    } else if (flag == "--activations") {
      args.session.activations = value;
    } else if (flag == "--kv" && (value == "f32" || value == "f16" || value == "q8_0")) {
      args.session.kv_type = value == "f32" ? DType::f32 : value == "f16" ? DType::f16 : DType::q8_0;
    } else {
      return usage("unknown flag or value: " + flag + " " + value);
    }
  }
  return args;
}

Result<void> write_logits(Arguments args) {
  std::ifstream ids_stream(args.ids_file);
  const std::vector<int32_t> ids{std::istream_iterator<int32_t>(ids_stream), {}};
  if (ids.empty()) return usage("no token ids in " + args.ids_file);
  const size_t chunk = args.chunk ? args.chunk : ids.size();
  const size_t prompt = args.prompt ? args.prompt : chunk;
  args.session.n_ctx = static_cast<int64_t>(ids.size());
  args.session.n_batch = static_cast<int64_t>(std::max(prompt, chunk));
  const auto model = TRY(Model::open(args.model));
  const auto session = TRY(Session::create(model, args.session));
  const int32_t seq_id = session->add_sequence();
  std::ofstream out(args.out_file, std::ios::binary);
  for (size_t begin = 0, n = 0; begin < ids.size(); begin += n) {
    n = std::min(begin == 0 ? prompt : chunk, ids.size() - begin);
    const SequenceTokens step{seq_id, std::span(ids).subspan(begin, n), Logits::all};
    const std::span<const float> logits = TRY(session->forward({&step, 1}));
    out.write(reinterpret_cast<const char*>(logits.data()), static_cast<std::streamsize>(logits.size_bytes()));
  }
  if (!out.flush())
    return Error{.code = ErrorCode::io_failed, .what = "cannot write the logits", .where = args.out_file};
  return {};
}

}  // namespace
}  // namespace tokamak

int main(int argc, char** argv) {
  auto args = tokamak::parse(argc, argv);
  const auto done = args ? tokamak::write_logits(*std::move(args)) : tokamak::Result<void>(args.error());
  if (done) return 0;
  fmt::print(stderr, "logits_tool: {}\n", done.error().message());
  return 1;
}
