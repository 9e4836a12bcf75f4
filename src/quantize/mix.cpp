#include "quantize/mix.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace tokamak {

namespace {

// --- names ---

struct RoleRow {
  std::string_view suffix;
  TensorRole role;
};
// A name's role is that of the first suffix it ends in; `output.weight` counts only as a whole name.
constexpr auto kRoles = std::to_array<RoleRow>({
    {"token_embd.weight", TensorRole::token_embd},
    {"attn_v.weight", TensorRole::attn_v},
    {"attn_kv_b.weight", TensorRole::attn_v},
    {"attn_k.weight", TensorRole::attn_k},
    {"attn_q.weight", TensorRole::attn_q},
    {"attn_qkv.weight", TensorRole::attn_v},
    {"attn_output.weight", TensorRole::attn_output},
    {"ffn_down.weight", TensorRole::ffn_down},
    {"ffn_down_exps.weight", TensorRole::ffn_down},
    {"ffn_down_shexp.weight", TensorRole::ffn_down},
    {"ffn_gate.weight", TensorRole::ffn_gate},
    {"ffn_gate_exps.weight", TensorRole::ffn_gate},
    {"ffn_gate_shexp.weight", TensorRole::ffn_gate},
    {"ffn_up.weight", TensorRole::ffn_up},
    {"ffn_up_exps.weight", TensorRole::ffn_up},
    {"ffn_up_shexp.weight", TensorRole::ffn_up},
});

// Parts of names of matrices that stay as they are: routers, small projections, convolutions, tables.
constexpr auto kNeverQuantized = std::to_array<std::string_view>({
    "_norm.weight",
    "ffn_gate_inp",
    "ffn_gate_tid2eid",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "position_embd",
    "token_types",
    "ssm_conv1d",
    "shortconv.conv",
    "attn_rel_b",
    "time_mix_first",
    "time_mix_w0",
    "time_mix_w1",
    "time_mix_w2",
    "time_mix_v0",
    "time_mix_v1",
    "time_mix_v2",
    "time_mix_a0",
    "time_mix_a1",
    "time_mix_a2",
    "time_mix_g0",
    "time_mix_g1",
    "time_mix_g2",
    "time_mix_decay_w1",
    "time_mix_decay_w2",
    "time_mix_lerp",
    // vision and audio
    "patch_embd",
    "patch_embedding",
    ".position_embd",
    "quantizer",
    "codebook",
});

// --- rules ---

constexpr uint64_t bit(FileType type) { return uint64_t{1} << static_cast<int>(type); }
template <class... Types>
constexpr uint64_t any_of(Types... types) {
  return (bit(types) | ...);
}

// What must hold for a rule, as a bit set; all of it.
enum When : uint16_t {
  kAlways = 0,
  kGqa4 = 1,        // at least 4 query heads per key/value head
  kGqa4OrMoe4 = 2,  // ... or at least 4 experts
  kNoImatrix = 4,
  kImatrix = 8,
  kFalcon = 16,
  kNotFalcon = 32,
  kExperts8 = 64,  // exactly 8 experts: Mixtral
  kNotExperts8 = 128,
};

enum class Layers : uint8_t {
  all,
  first_2,
  first_4,
  first_16th,
  first_8th,
  first_8th_counted,  // as first_8th, but experts and shared experts of a layer count one by one
  more_bits,          // first and last eighth and every third between
  middle,             // all but the first and last eighth
};

struct MixRule {
  TensorRole role;
  uint64_t file_types;
  uint16_t when;
  Layers layers;
  DType type;
};

using enum FileType;
constexpr uint64_t kTiny = any_of(iq1_s, iq1_m, iq2_xxs, iq2_xs), kSmall = any_of(iq2_s, iq2_m);

// The first row that fits a tensor names its type; without one it gets the file type's own.
constexpr auto kRules = std::to_array<MixRule>({
    {TensorRole::attn_v, kTiny | kSmall, kGqa4OrMoe4, Layers::all, DType::q4_k},
    {TensorRole::attn_v, kTiny, kAlways, Layers::all, DType::q2_k},
    {TensorRole::attn_v, kSmall, kAlways, Layers::all, DType::iq3_s},
    {TensorRole::attn_v, any_of(q2_k, q2_k_s, iq3_xxs, iq3_xs, iq3_s), kGqa4, Layers::all, DType::q4_k},
    {TensorRole::attn_v, any_of(q2_k), kAlways, Layers::all, DType::q3_k},
    {TensorRole::attn_v, any_of(iq3_xxs), kNoImatrix, Layers::all, DType::iq3_s},
    {TensorRole::attn_v, any_of(iq3_m), kAlways, Layers::all, DType::q4_k},
    {TensorRole::attn_v, any_of(q3_k_m), kAlways, Layers::first_2, DType::q5_k},
    {TensorRole::attn_v, any_of(q3_k_m), kAlways, Layers::all, DType::q4_k},
    {TensorRole::attn_v, any_of(q3_k_l), kAlways, Layers::all, DType::q5_k},
    {TensorRole::attn_v, any_of(iq4_nl, iq4_xs), kGqa4, Layers::all, DType::q5_k},
    {TensorRole::attn_v, any_of(q4_k_m, q5_k_m), kAlways, Layers::more_bits, DType::q6_k},
    {TensorRole::attn_v, any_of(q4_k_s), kAlways, Layers::first_4, DType::q5_k},

    {TensorRole::attn_k, kTiny | kSmall, kExperts8, Layers::all, DType::q4_k},
    {TensorRole::attn_k, any_of(iq3_xs), kAlways, Layers::all, DType::iq3_xxs},
    {TensorRole::attn_k, any_of(iq3_xxs), kAlways, Layers::all, DType::iq2_s},
    {TensorRole::attn_q, any_of(iq3_xs), kAlways, Layers::all, DType::iq3_xxs},
    {TensorRole::attn_q, any_of(iq3_xxs), kAlways, Layers::all, DType::iq2_s},

    {TensorRole::attn_output, kTiny | kSmall, kExperts8, Layers::all, DType::q5_k},
    {TensorRole::attn_output, any_of(iq1_s, iq1_m), kAlways, Layers::all, DType::iq2_xxs},
    {TensorRole::attn_output, kSmall, kAlways, Layers::all, DType::iq3_s},
    {TensorRole::attn_output,
     any_of(q2_k, iq3_xs, iq3_xxs, q3_k_s, q3_k_m, iq4_nl, q4_k_s, q4_k_m, iq3_s, iq3_m, iq4_xs),
     kExperts8 | kNotFalcon, Layers::all, DType::q5_k},
    {TensorRole::attn_output, any_of(q2_k), kNotFalcon, Layers::all, DType::q3_k},
    {TensorRole::attn_output, any_of(iq3_xxs), kNotFalcon, Layers::all, DType::iq3_s},
    {TensorRole::attn_output, any_of(q3_k_m, iq3_m), kNotFalcon, Layers::all, DType::q4_k},
    {TensorRole::attn_output, any_of(q3_k_l), kNotFalcon | kNotExperts8, Layers::all, DType::q5_k},
    {TensorRole::attn_output, any_of(q3_k_l), kFalcon, Layers::all, DType::q4_k},

    {TensorRole::ffn_down, kTiny, kAlways, Layers::first_8th_counted, DType::q2_k},
    {TensorRole::ffn_down, kSmall, kAlways, Layers::first_8th_counted, DType::iq3_s},
    {TensorRole::ffn_down, any_of(q2_k), kAlways, Layers::all, DType::q3_k},
    {TensorRole::ffn_down, any_of(q2_k_s), kAlways, Layers::first_8th, DType::q4_k},
    {TensorRole::ffn_down, any_of(iq3_xxs), kNoImatrix, Layers::first_8th, DType::q4_k},
    {TensorRole::ffn_down, any_of(iq3_xxs), kNoImatrix, Layers::all, DType::q3_k},
    {TensorRole::ffn_down, any_of(q3_k_m), kAlways, Layers::first_16th, DType::q5_k},
    {TensorRole::ffn_down, any_of(q3_k_m), kNotFalcon, Layers::all, DType::q4_k},
    {TensorRole::ffn_down, any_of(q3_k_m), kFalcon, Layers::more_bits, DType::q4_k},
    {TensorRole::ffn_down, any_of(iq3_m), kAlways, Layers::first_8th, DType::q4_k},
    {TensorRole::ffn_down, any_of(iq3_m), kExperts8, Layers::more_bits, DType::q4_k},
    {TensorRole::ffn_down, any_of(q3_k_l), kNotFalcon, Layers::all, DType::q5_k},
    {TensorRole::ffn_down, any_of(q3_k_l), kFalcon, Layers::all, DType::q4_k},
    {TensorRole::ffn_down, any_of(q4_k_m), kFalcon, Layers::first_16th, DType::q6_k},
    {TensorRole::ffn_down, any_of(q4_k_m), kFalcon, Layers::more_bits, DType::q5_k},
    {TensorRole::ffn_down, any_of(q4_k_m), kNotFalcon, Layers::more_bits, DType::q6_k},
    {TensorRole::ffn_down, any_of(q5_k_m), kAlways, Layers::more_bits, DType::q6_k},
    {TensorRole::ffn_down, any_of(iq4_nl, iq4_xs), kNoImatrix, Layers::first_8th, DType::q5_k},
    {TensorRole::ffn_down, any_of(q4_k_s), kNotFalcon, Layers::first_8th, DType::q5_k},
    {TensorRole::ffn_down, any_of(q4_0), kImatrix, Layers::first_8th, DType::q4_1},
    {TensorRole::ffn_down, any_of(q5_0), kImatrix, Layers::first_8th, DType::q5_1},

    {TensorRole::ffn_gate, any_of(iq3_xs), kAlways, Layers::middle, DType::iq3_xxs},
    {TensorRole::ffn_up, any_of(iq3_xs), kAlways, Layers::middle, DType::iq3_xxs},
});

bool holds(uint16_t when, const MixModel& model) {
  const bool is_gqa4 = model.n_head_kv > 0 && model.n_head / model.n_head_kv >= 4;
  const auto need = [when](When condition, bool is_so) { return (when & condition) == 0 || is_so; };
  return need(kGqa4, is_gqa4) && need(kGqa4OrMoe4, is_gqa4 || model.n_expert >= 4) &&
         need(kNoImatrix, !model.has_imatrix) && need(kImatrix, model.has_imatrix) && need(kFalcon, model.is_falcon) &&
         need(kNotFalcon, !model.is_falcon) && need(kExperts8, model.n_expert == 8) &&
         need(kNotExperts8, model.n_expert != 8);
}

bool is_among(Layers layers, const MixModel& model, const MixPlace& place) {
  const bool is_counted =
      place.role == TensorRole::attn_v || layers == Layers::first_8th_counted || model.n_expert <= 1;
  const int64_t idx = is_counted ? place.idx : place.layer;
  const int64_t n = place.role == TensorRole::attn_v ? model.n_attn_v : model.n_layer;
  const int64_t eighth = n / 8, last_eighth = 7 * n / 8;
  switch (layers) {
    case Layers::all:
      return true;
    case Layers::first_2:
      return idx < 2;
    case Layers::first_4:
      return idx < 4;
    case Layers::first_16th:
      return idx < n / 16;
    case Layers::first_8th:
    case Layers::first_8th_counted:
      return idx < eighth;
    case Layers::more_bits:
      return idx < eighth || idx >= last_eighth || (idx - eighth) % 3 == 2;
    case Layers::middle:
      return idx >= eighth && idx < last_eighth;
  }
  return false;
}

// The output matrix, or the embedding that serves as one.
DType output_type(const FileTypeRow& row, const MixModel& model, int64_t row_elems) {
  const bool is_quantizing = is_quantized(row.type);
  if (is_quantizing && (model.is_falcon || row_elems % dtype_row(row.output).block_elems != 0)) return DType::q8_0;
  return row.output;
}

// Rules across file types: a shared attn_v costs little in models whose experts or query heads are many.
DType raised(DType type, FileType file_type, const MixModel& model, TensorRole role) {
  if ((bit(file_type) & (kTiny | kSmall)) != 0) return type;
  if (role == TensorRole::attn_v && model.n_layer == 80 && model.n_head != model.n_head_kv &&
      (type == DType::q3_k || type == DType::q4_k))
    type = DType::q5_k;
  if ((role == TensorRole::attn_v || role == TensorRole::attn_k) && model.n_expert == 8) type = DType::q8_0;
  return type;
}
}  // namespace

TensorRole tensor_role(std::string_view name) {
  if (name == "output.weight") return TensorRole::output;
  for (const RoleRow& row : kRoles)
    if (name.ends_with(row.suffix)) return row.role;
  return TensorRole::other;
}

std::optional<int64_t> layer_of(std::string_view name) {
  for (std::string_view prefix : {"enc.", "dec."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  if (!name.starts_with("blk.")) return std::nullopt;
  name.remove_prefix(4);
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.' || layer < 0) return std::nullopt;
  return layer;
}

bool is_quantizable(std::string_view name, const Shape& shape) {
  if (shape.rank() < 2 || !name.ends_with("weight")) return false;
  return std::ranges::none_of(kNeverQuantized, [name](std::string_view part) { return name.find(part) != name.npos; });
}

DType mixed_type(FileType file_type, const MixModel& model, const MixPlace& place) {
  const FileTypeRow& row = file_type_row(file_type);
  if (!is_quantized(row.type)) return row.type;
  const bool is_output = place.role == TensorRole::output;
  if (is_output || (place.role == TensorRole::token_embd && !model.has_output))
    return output_type(row, model, place.row_elems);
  if (place.role == TensorRole::token_embd) return row.embedding;
  if (file_type == FileType::mxfp4_moe) return place.is_stack ? DType::mxfp4 : DType::q8_0;
  for (const MixRule& rule : kRules)
    if (rule.role == place.role && (rule.file_types & bit(file_type)) != 0 && holds(rule.when, model) &&
        is_among(rule.layers, model, place))
      return raised(rule.type, file_type, model, place.role);
  return raised(row.type, file_type, model, place.role);
}

std::optional<DType> fitting_type(DType type, int64_t row_elems) {
  const auto fits = [row_elems](DType t) { return row_elems % dtype_row(t).block_elems == 0; };
  if (fits(type)) return type;
  DType next = type;
  switch (type) {
    case DType::iq1_s:
    case DType::iq1_m:
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
    case DType::iq3_xxs:
    case DType::iq3_s:
    case DType::iq4_xs:
      next = DType::iq4_nl;
      break;
    case DType::q2_0:
    case DType::q2_k:
    case DType::q3_k:
    case DType::tq1_0:
    case DType::tq2_0:
      next = DType::q4_0;
      break;
    case DType::q4_k:
      next = DType::q5_0;
      break;
    case DType::q5_k:
      next = DType::q5_1;
      break;
    case DType::q6_k:
      next = DType::q8_0;
      break;
    case DType::q1_0:
    case DType::mxfp4:
    case DType::nvfp4:
      return std::nullopt;
    default:
      break;
  }
  return fits(next) ? next : DType::f16;
}

}  // namespace tokamak
