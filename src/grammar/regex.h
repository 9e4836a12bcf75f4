// Regular expressions, the part of ECMAScript's syntax that is regular.
#pragma once

#include <string_view>

#include "grammar/rules.h"

namespace tokamak::grammar {

// A pattern as one expression. Anchors are resolved: ^ and $ may stand at the ends of the pattern or of its
// alternatives (also inside groups there); `contains`: other ends may be preceded or followed by any text.
// `json`: characters are spelled as inside a JSON string.
// Errors: bad_argument, `where` naming `place` and the offset, for what is malformed, and for what a pattern over
// finitely many states cannot do or this one does not: look-around, back-references, \b and \B, anchors elsewhere,
// \p classes and inline flags. The refusal never depends on the text to match.
Result<ExprId> parse_regex(Rules& rules, std::string_view pattern, bool contains, bool json, std::string_view place);

}  // namespace tokamak::grammar
