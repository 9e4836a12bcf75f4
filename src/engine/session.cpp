#include "engine/session.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/backends.h"

namespace tokamak {

namespace {
constexpr uint64_t kProgramBytesPerNode = 2100;  // measured: graph, plan and steps on the heap (CUDA: 1300)

Error out_of_range(std::string_view what, int64_t value, int64_t low, int64_t high) {
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("{} is outside {}..{}", value, low, high),
               .where = std::string(what)};
}

// For a cache that finds no room: what it is for, and what makes it smaller.
Result<std::unique_ptr<KvCache>> make_kv(Backend& backend, const KvConfig& config, const SessionOptions& options) {
  Result<std::unique_ptr<KvCache>> kv = Error{.code = ErrorCode::out_of_memory, .what = "cannot be reserved"};
  try {
    kv = backend.make_kv(config);
  } catch (const std::exception&) {  // bad_alloc, length_error
  }
  if (kv || kv.error().code != ErrorCode::out_of_memory) return kv;
  kv.error().where = fmt::format("KV cache for {} tokens", options.n_kv);
  kv.error().hint = options.n_kv > options.n_ctx ? "lower --kv-tokens, --parallel or --ctx-size" : "lower --ctx-size";
  if (options.kv_type != DType::q8_0 && options.kv_type != DType::f8_e4m3)
    kv.error().hint += ", or use --cache-type q8_0 or f8_e4m3";
  return kv;
}

Result<SessionOptions> complete(const Model& model, SessionOptions options) {
  const int64_t n_ctx_train = model.hparams().n_ctx_train;
  if (options.n_ctx == 0) options.n_ctx = std::min(n_ctx_train, kDefaultContext);
  if (options.n_ctx < 1 || options.n_ctx > arch::kMaxContext)
    return out_of_range("context size (--ctx-size)", options.n_ctx, 1, arch::kMaxContext);
  if (options.n_kv == 0) options.n_kv = options.n_ctx;
  if (options.n_kv < options.n_ctx || options.n_kv > arch::kMaxContext)
    return out_of_range("tokens of the KV cache (--kv-tokens)", options.n_kv, options.n_ctx, arch::kMaxContext);
  if (options.n_programs < 1 || options.n_programs > 4096)
    return out_of_range("n_programs", options.n_programs, 1, 4096);
  if (options.n_batch < 1 || options.n_batch > 65536)
    return out_of_range("batch size (--batch)", options.n_batch, 1, 65536);
  if (options.page_size < 16 || options.page_size > 4096 || options.page_size % 16 != 0)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("{} is not a multiple of 16 in 16..4096", options.page_size),
                 .where = "page size (--page-size)"};
  if (std::ranges::find(kCacheDTypes, options.kv_type) == std::end(kCacheDTypes))
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("{} is not a KV cache type", dtype_name(options.kv_type)),
                 .where = "cache type",
                 .hint = "use f16, f32, bf16, q8_0 or f8_e4m3"};
  if (options.n_sequences < 1 || options.n_sequences > 4096)
    return out_of_range("n_sequences", options.n_sequences, 1, 4096);
  if (options.n_snapshots < 1 || options.n_snapshots > 64)
    return out_of_range("n_snapshots", options.n_snapshots, 1, 64);
  if (options.n_checkpoints < 0 || options.n_checkpoints > 4096)
    return out_of_range("n_checkpoints", options.n_checkpoints, 0, 4096);
  const arch::Hparams& hp = model.hparams();
  const int64_t block_elems = dtype_row(options.kv_type).block_elems;
  if (hp.head_dim_k % block_elems != 0 || hp.head_dim_v % block_elems != 0)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("heads of {} and {} dimensions are not whole blocks of {}", hp.head_dim_k,
                                     hp.head_dim_v, block_elems),
                 .where = "cache type " + std::string(dtype_name(options.kv_type)),
                 .hint = "use f16, bf16 or f8_e4m3"};
  return options;
}

KvConfig kv_config(const Model& model, const SessionOptions& options) {
  const arch::Hparams& hp = model.hparams();
  KvConfig config{.n_pages = KvPages::n_pages(options.n_kv, options.page_size),
                  .page_size = options.page_size,
                  .type = options.kv_type};
  for (const arch::LayerHparams& layer : hp.layers)
    config.layers.push_back({.n_head_kv = layer.is_delta_net ? 0 : layer.n_head_kv,
                             .head_dim_k = hp.head_dim_k,
                             .head_dim_v = hp.head_dim_v});
  if (!hp.is_recurrent()) return config;
  for (const arch::LayerHparams& layer : hp.layers)
    config.recurrent.push_back(layer.is_delta_net
                                   ? RecurrentLayerShape{hp.delta_net.conv_elems(), hp.delta_net.state_elems()}
                                   : RecurrentLayerShape{});
  config.n_state_rows = options.n_sequences * options.n_snapshots;
  return config;
}

arch::ShapeClass make_shape_class(const KvConfig& kv, const SessionOptions& options, int64_t n_tokens,
                                  int64_t n_outputs, int64_t n_seqs, OutputRows rows = OutputRows::logits) {
  arch::ShapeClass shape{.n_tokens = n_tokens,
                         .n_outputs = n_outputs,
                         .hidden = rows == OutputRows::hidden,
                         .n_slots = kv.n_pages * kv.page_size,
                         .kv_type = kv.type,
                         .n_ctx = options.n_ctx};
  if (kv.n_state_rows > 0) {
    shape.n_seqs = n_seqs;
    shape.n_snapshots = options.n_snapshots;
    shape.n_state_rows = kv.n_state_rows;
  }
  return shape;
}

// The bytes of a tensor, or of some of its rows.
Result<WeightSource> find_weight(const GgufFile& file, std::string_view name) {
  const arch::WeightRows rows = arch::parse_weight_name(name);
  const GgufTensor* tensor = file.find_tensor(rows.tensor);
  if (!tensor) return Error{.code = ErrorCode::bad_tensor, .what = "no such tensor", .where = std::string(name)};
  WeightSource source{.dtype = tensor->type, .shape = tensor->shape, .data = tensor->data, .forget = [&file, tensor] {
                        file.forget(*tensor);
                      }};
  if (rows.end < 0) return source;
  CHECK(rows.begin >= 0 && rows.end <= tensor->shape[0] && rows.begin < rows.end, name);
  const auto per_row = static_cast<uint64_t>(tensor->shape.n_elements() / tensor->shape[0]);
  const uint64_t row_bytes = dtype_bytes(tensor->type, per_row);
  source.shape.set(0, rows.end - rows.begin);
  source.data = tensor->data.subspan(static_cast<uint64_t>(rows.begin) * row_bytes,
                                     static_cast<uint64_t>(rows.end - rows.begin) * row_bytes);
  return source;
}
}  // namespace

Session::Session(std::shared_ptr<const Model> model, SessionOptions options, std::unique_ptr<Backend> backend,
                 std::unique_ptr<Weights> weights, std::unique_ptr<KvCache> kv)
    : model_(std::move(model)),
      options_(std::move(options)),
      backend_(std::move(backend)),
      weights_(std::move(weights)),
      kv_(std::move(kv)),
      pages_(options_.n_kv, options_.page_size) {
  if (kv_->config().n_state_rows > 0)
    states_.emplace(options_.n_sequences, options_.n_snapshots, static_cast<size_t>(options_.n_checkpoints));
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model, SessionOptions options,
                                                 const Progress& progress) {
  options = TRY(complete(*model, std::move(options)));
  const BackendOptions backend_options{.isa = options.isa,
                                       .n_threads = options.n_threads,
                                       .activations = options.activations,
                                       .only_plan = options.only_plan,
                                       .split = options.split};
  std::unique_ptr<Backend> backend = TRY(make_backend(options.backend, backend_options));
  if (options.wrap_backend) backend = options.wrap_backend(std::move(backend));
  const KvConfig config = kv_config(*model, options);
  const ir::Graph graph = TRY(  // the largest step: what has to fit beside the weights
      arch::build_graph(model->file(), model->hparams(), make_shape_class(config, options, options.n_batch, 1, 1)));
  const auto lookup = [&model](std::string_view name) { return find_weight(model->file(), name); };
  std::unique_ptr<Weights> weights = TRY(backend->load(graph, lookup, progress));
  std::unique_ptr<KvCache> kv = TRY(make_kv(*backend, config, options));
  return std::unique_ptr<Session>(
      new Session(std::move(model), std::move(options), std::move(backend), std::move(weights), std::move(kv)));
}

Result<Program*> Session::program(int64_t n_tokens, int64_t n_outputs, int64_t n_seqs, OutputRows rows) {
  const arch::ShapeClass shape = make_shape_class(kv_->config(), options_, n_tokens, n_outputs, n_seqs, rows);
  const auto found = std::ranges::find(programs_, shape, &CachedProgram::shape);
  if (found != programs_.end()) {
    programs_.splice(programs_.begin(), programs_, found);
    return programs_.front().program.get();
  }
  ir::Graph graph = TRY(arch::build_graph(model_->file(), model_->hparams(), shape));
  auto compiled = TRY(backend_->compile(std::move(graph), *weights_, *kv_, options_.compile));
  if (static_cast<int64_t>(programs_.size()) >= options_.n_programs) programs_.pop_back();
  programs_.push_front({shape, std::move(compiled)});
  return programs_.front().program.get();
}

Result<void> Session::reserve(int64_t n_outputs, int64_t n_seqs) try {
  // Not the largest step alone: for few tokens backends cut the context into parts, up to a power of two of tokens.
  for (int64_t n = 1; n < options_.n_batch; n *= 2) TRY(program(n, std::min(n_outputs, n), std::min(n_seqs, n)));
  TRY(program(options_.n_batch, std::min(n_outputs, options_.n_batch), n_seqs));
  TRY(program(options_.n_batch, options_.n_batch, n_seqs, OutputRows::hidden));
  const arch::Hparams& hp = model_->hparams();
  rows_.reserve(static_cast<size_t>(std::max(n_outputs * hp.n_vocab, options_.n_batch * hp.n_embd)));
  return {};
} catch (const std::exception&) {  // bad_alloc, length_error
  return Error{.code = ErrorCode::out_of_memory,
               .what = "cannot be reserved",
               .where = fmt::format("{} rows of logits", n_outputs),
               .hint = "lower --parallel"};
}

Result<void> Session::check_sequence(int32_t seq_id) const {
  if (pages_.contains(seq_id)) return {};
  return Error{.code = ErrorCode::bad_argument,
               .what = "no such sequence in this session",
               .where = fmt::format("sequence {}", seq_id),
               .hint = "use an id that add_sequence() returned and that is not freed"};
}

Result<void> Session::check_batch(std::span<const SequenceTokens> batch) const {
  int64_t n_tokens = 0;
  const int64_t n_vocab = model_->hparams().n_vocab;
  std::vector<int32_t> seq_ids;
  for (const SequenceTokens& entry : batch) {
    TRY(check_sequence(entry.seq_id));
    seq_ids.push_back(entry.seq_id);
    n_tokens += static_cast<int64_t>(entry.tokens.size());
    for (size_t i = 0; i < entry.tokens.size(); ++i)
      if (entry.tokens[i] < 0 || entry.tokens[i] >= n_vocab)
        return Error{.code = ErrorCode::bad_argument,
                     .what = fmt::format("token id {} is outside 0..{}", entry.tokens[i], n_vocab - 1),
                     .where = fmt::format("token {} of the batch", i)};
  }
  std::ranges::sort(seq_ids);
  if (const auto twice = std::ranges::adjacent_find(seq_ids); twice != seq_ids.end())
    return Error{.code = ErrorCode::bad_argument,
                 .what = "stands in the batch more than once",
                 .where = fmt::format("sequence {}", *twice),
                 .hint = "join its tokens into one entry"};
  if (n_tokens < 1 || n_tokens > options_.n_batch)
    return out_of_range("tokens in one step", n_tokens, 1, options_.n_batch);
  return {};
}

Result<void> Session::fill_inputs(std::span<const SequenceTokens> batch) {
  for (auto* v : {&tokens_, &positions_, &seq_ids_, &slots_, &out_rows_, &state_src_, &state_rows_}) v->clear();
  sequences_.clear();
  for (const SequenceTokens& entry : batch) {
    if (entry.tokens.empty()) continue;
    if (states_) {
      state_rows_.push_back(TRY(states_->target_row(entry.seq_id)));
      state_src_.push_back(states_->source_row(entry.seq_id));
    }
    const int64_t first = pages_.n_tokens(entry.seq_id) - static_cast<int64_t>(entry.tokens.size());
    for (size_t i = 0; i < entry.tokens.size(); ++i) {
      const int64_t position = first + static_cast<int64_t>(i);
      const bool wanted = entry.logits == Logits::all || (entry.logits == Logits::last && i + 1 == entry.tokens.size());
      if (wanted) out_rows_.push_back(static_cast<int32_t>(tokens_.size()));
      tokens_.push_back(entry.tokens[i]);
      positions_.push_back(static_cast<int32_t>(position));
      seq_ids_.push_back(static_cast<int32_t>(sequences_.size()));
      slots_.push_back(static_cast<int32_t>(pages_.slot(entry.seq_id, position)));
    }
    sequences_.push_back({.pages = pages_.pages(entry.seq_id)});
  }
  return {};
}

void Session::free_sequence(int32_t seq_id) {
  pages_.free_sequence(seq_id);
  if (states_) states_->free_sequence(seq_id);
}

int64_t Session::truncate(int32_t seq_id, int64_t n) {
  if (states_ && n < pages_.n_tokens(seq_id)) {
    const RecurrentStates::Rollback rollback = states_->roll_back(seq_id, n);
    if (rollback.checkpoint != nullptr) kv_->write_states(rollback.row, *rollback.checkpoint);
    n = rollback.n_tokens;
  }
  pages_.truncate(seq_id, n);
  return n;
}

void Session::read_state(int32_t seq_id, std::span<float> out) const {
  CHECK(states_.has_value() && states_->source_row(seq_id) >= 0, seq_id);
  kv_->read_states(states_->source_row(seq_id), out);
}

Result<void> Session::attach(int32_t seq_id, std::span<const int32_t> tokens, std::span<const int32_t> pages,
                             std::span<const float> state) {
  CHECK(static_cast<int64_t>(state.size()) == state_floats(), state.size());
  if (states_) kv_->write_states(TRY(states_->restore(seq_id, tokens)), state);
  pages_.attach(seq_id, pages, static_cast<int64_t>(tokens.size()));
  return {};
}

// Room for the tokens of all entries, in pages that nobody else reads; or nothing is changed.
Result<void> Session::extend(std::span<const SequenceTokens> batch) {
  const auto extend_one = [this](const SequenceTokens& entry) -> Result<void> {
    if (entry.tokens.empty()) return {};
    if (const auto copy = TRY(pages_.own_tail(entry.seq_id))) kv_->copy_page(copy->from, copy->to);
    return pages_.extend(entry.seq_id, static_cast<int64_t>(entry.tokens.size()));
  };
  for (size_t i = 0; i < batch.size(); ++i) {
    auto extended = extend_one(batch[i]);
    if (extended) continue;
    for (size_t j = 0; j < i; ++j)
      pages_.truncate(batch[j].seq_id, n_tokens(batch[j].seq_id) - static_cast<int64_t>(batch[j].tokens.size()));
    return extended;
  }
  return {};
}

Result<void> Session::run_step(std::span<const SequenceTokens> batch, OutputRows rows, const Run& run) {
  CHECK(!options_.only_plan);
  TRY(check_batch(batch));
  TRY(extend(batch));
  const auto restore = [&] {
    for (const SequenceTokens& entry : batch)
      pages_.truncate(entry.seq_id, n_tokens(entry.seq_id) - static_cast<int64_t>(entry.tokens.size()));
  };
  if (auto filled = fill_inputs(batch); !filled) {
    restore();
    return filled;
  }
  auto compiled = program(static_cast<int64_t>(tokens_.size()), static_cast<int64_t>(out_rows_.size()),
                          static_cast<int64_t>(sequences_.size()), rows);
  if (!compiled) {
    restore();
    return std::move(compiled.error());
  }
  const StepInputs inputs{.tokens = tokens_,
                          .positions = positions_,
                          .seq_ids = seq_ids_,
                          .slots = slots_,
                          .out_rows = out_rows_,
                          .sequences = sequences_,
                          .state_src = state_src_,
                          .state_rows = state_rows_};
  if (auto ran = run(**compiled, inputs); !ran) {
    restore();
    for (const SequenceTokens& entry : batch) {
      if (!states_ || entry.tokens.empty()) continue;
      states_->invalidate(entry.seq_id);
      pages_.truncate(entry.seq_id, 0);
    }
    return ran;
  }
  if (states_)
    for (const SequenceTokens& entry : batch)
      if (!entry.tokens.empty()) states_->advance(entry.seq_id, entry.tokens);
  return {};
}

Result<std::span<float>> Session::forward(std::span<const SequenceTokens> batch, OutputRows rows) {
  const arch::Hparams& hp = model_->hparams();
  TRY(run_step(batch, rows, [&](Program& program, const StepInputs& inputs) {
    const size_t n_rows = inputs.out_rows.size();
    rows_.resize(n_rows * static_cast<size_t>(rows == OutputRows::logits ? hp.n_vocab : hp.n_embd));
    const std::span<float> output = rows_;
    return program.run(inputs, {&output, n_rows > 0 ? size_t{1} : size_t{0}});
  }));
  return std::span<float>(rows_);
}

Result<std::span<const LogitRow>> Session::step(std::span<const SequenceTokens> batch) {
  const auto n_vocab = static_cast<size_t>(model_->hparams().n_vocab);
  whole_.clear();
  for (const SequenceTokens& entry : batch)
    if (entry.logits != Logits::none && !entry.tokens.empty())
      whole_.insert(whole_.end(), entry.logits == Logits::all ? entry.tokens.size() : 1, entry.only_top ? 0 : 1);
  TRY(run_step(batch, OutputRows::logits, [&](Program& program, const StepInputs& inputs) {
    selects_top_ = program.selects_top();
    if (!selects_top_) std::ranges::fill(whole_, 1);
    const auto n_whole = static_cast<size_t>(std::ranges::count(whole_, 1));
    rows_.resize(n_whole * n_vocab);
    top_.resize(whole_.size() * kTopLogits);
    const std::span<float> output = rows_;
    if (n_whole == whole_.size()) return program.run(inputs, {&output, n_whole > 0 ? size_t{1} : size_t{0}});
    return program.run_top(inputs, top_, whole_, rows_);
  }));
  logit_rows_.clear();
  size_t n_whole = 0;
  for (size_t r = 0; r < whole_.size(); ++r)
    if (whole_[r])
      logit_rows_.push_back({.all = std::span(rows_).subspan(n_whole++ * n_vocab, n_vocab), .top = {}});
    else
      logit_rows_.push_back({.all = {}, .top = std::span(top_).subspan(r * kTopLogits, kTopLogits)});
  return std::span<const LogitRow>(logit_rows_);
}

Result<std::span<const float>> Session::prefill(int32_t seq_id, std::span<const int32_t> tokens,
                                                const Progress& progress) {
  if (tokens.empty())
    return Error{.code = ErrorCode::bad_argument, .what = "the prompt is empty", .hint = "give at least one token"};
  TRY(check_sequence(seq_id));
  // Fails before any work is done when the prompt cannot fit.
  TRY(pages_.extend(seq_id, static_cast<int64_t>(tokens.size())));
  pages_.truncate(seq_id, n_tokens(seq_id) - static_cast<int64_t>(tokens.size()));
  std::span<const float> logits;
  for (size_t begin = 0; begin < tokens.size();) {
    const size_t n = std::min(static_cast<size_t>(options_.n_batch), tokens.size() - begin);
    const bool last = begin + n == tokens.size();
    const SequenceTokens chunk{seq_id, tokens.subspan(begin, n), last ? Logits::last : Logits::none};
    logits = TRY(forward({&chunk, 1}));
    begin += n;
    if (progress && !progress(static_cast<double>(begin) / static_cast<double>(tokens.size())))
      return Error{.code = ErrorCode::cancelled, .what = "the prompt was cancelled"};
  }
  if (states_)  // the next prompt often begins with this one
    states_->add_checkpoint(seq_id, static_cast<size_t>(state_row_floats(kv_->config())),
                            [this](int32_t row, std::span<float> out) { kv_->read_states(row, out); });
  return logits;
}

uint64_t Session::compiled_bytes() const {
  size_t n_nodes = 0;
  for (const CachedProgram& cached : programs_) n_nodes = std::max(n_nodes, cached.program->graph().nodes.size());
  return static_cast<uint64_t>(options_.n_programs) * n_nodes * kProgramBytesPerNode;
}

std::vector<MemoryUse> Session::memory() const {
  std::vector<MemoryUse> out = weights_->memory();
  for (MemoryUse& use : kv_->memory()) out.push_back(std::move(use));
  if (states_) out.push_back({.what = "state checkpoints", .n_bytes = states_->checkpoint_bytes()});
  out.push_back({.what = "logits", .n_bytes = rows_.capacity() * sizeof(float)});
  return out;
}

}  // namespace tokamak
