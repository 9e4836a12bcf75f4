// The text form of a graph: one value per line, leaves first, parses back to an equal graph.
//
//   graph "llama prefill 9" {
//     %0 = weight token_embd.weight : q4_1 [49152, 576]
//     %1 = input tokens : i32 [9] role=tokens          (of a boundary: role=boundary index=0)
//     %5 = state cache_k.0 : f16 [64, 3, 64] role=k layer=0
//     %2 = GET_ROWS token_embd.weight, tokens : f32 [9, 576] name=embd
//     group 2 RMS_NORM+MUL {
//       %4 = RMS_NORM %2 : f32 [9, 576] eps=1e-05 name=blk.0.attn_norm
//       ...
//     }
//     return %9
//   }
//
// Operands are %ids, or names for leaves. Names that are no plain words are quoted: "a b", with \" \\ \xNN. A number
// after `group` is a row of the fusion table. A grouped graph says `grouped` after its name, single nodes stand alone.
// `#` starts a comment.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace tokamak::ir {

// Any graph prints; a verified one parses back.
std::string to_text(const Graph& graph);

// A verified graph. Total: hostile text gives an error, bad_argument with line and column; memory stays proportional to
// the text's size (at most 64 MiB).
Result<Graph> parse_text(std::string_view text);

}  // namespace tokamak::ir
