#include <fmt/format.h>

#include <charconv>
#include <unordered_map>

#include "ir/text.h"
#include "ir/text_lexer.h"
#include "ir/verify.h"

namespace tokamak::ir {

namespace {

using Kind = Token::Kind;

constexpr size_t kMaxTextBytes = size_t{64} << 20;

// A line as written; references are resolved when all lines are known.
struct Reference {
  Place place;
  std::string_view id;  // digits, or empty for a name
  std::string name;
};
struct ParsedNode {
  Reference result;
  Place op_place, type_place;
  Node node;
  std::vector<Reference> inputs;
  DType dtype = DType::f32;
  Shape shape;
};
struct ParsedLeaf {
  Reference result;
  Place place;
  Value value;
};
struct ParsedGroup {
  Place place;
  uint16_t rule = UINT16_MAX;
  std::string members;
  size_t first_node = 0, end_node = 0;
};

template <class Integer>
bool read_integer(std::string_view text, Integer& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Result<Graph> run() {
    TRY(lexer_.advance());
    TRY(parse_header());
    while (lexer_.peek().kind == Kind::value_id || is_word("group")) {
      if (is_word("group"))
        TRY(parse_group());
      else
        TRY(parse_line());
    }
    TRY(parse_footer());
    return resolve();
  }

 private:
  bool is_word(std::string_view word) const { return lexer_.peek().kind == Kind::word && lexer_.peek().text == word; }
  bool is_mark(char c) const { return lexer_.peek().kind == Kind::punctuation && lexer_.peek().text[0] == c; }
  Error unexpected(std::string_view wanted) const {
    const Token& token = lexer_.peek();
    const std::string_view sign = token.kind == Kind::value_id ? "%" : "";
    const std::string found = token.kind == Kind::end ? "the end" : fmt::format("'{}{}'", sign, token.text);
    return error_at(token.place, fmt::format("expected {}, found {}", wanted, found));
  }
  Result<void> expect_mark(char c) {
    if (!is_mark(c)) return unexpected(fmt::format("'{}'", c));
    return lexer_.advance();
  }
  Result<void> expect_word(std::string_view word) {
    if (!is_word(word)) return unexpected(fmt::format("'{}'", word));
    return lexer_.advance();
  }
  Result<std::string> parse_name() {
    const Kind kind = lexer_.peek().kind;
    if (kind != Kind::word && kind != Kind::string) return unexpected("a name");
    Token token = TRY(lexer_.next());
    return kind == Kind::string ? std::move(token.string) : std::string(token.text);
  }

  Result<void> parse_header() {
    TRY(expect_word("graph"));
    if (lexer_.peek().kind != Kind::string) return unexpected("the graph's name in quotes");
    graph_.name = TRY(parse_name());
    is_grouped_ = is_word("grouped");
    if (is_grouped_) TRY(lexer_.advance());
    return expect_mark('{');
  }

  Result<void> parse_footer() {
    TRY(expect_word("return"));
    while (lexer_.peek().kind == Kind::value_id) {
      outputs_.push_back(TRY(parse_reference()));
      if (!is_mark(',')) break;
      TRY(lexer_.advance());
    }
    TRY(expect_mark('}'));
    if (lexer_.peek().kind != Kind::end) return unexpected("the end");
    return {};
  }

  Result<Reference> parse_reference() {
    Reference reference{.place = lexer_.peek().place};
    if (lexer_.peek().kind == Kind::value_id)
      reference.id = TRY(lexer_.next()).text;
    else
      reference.name = TRY(parse_name());
    return reference;
  }

  Result<void> parse_group() {
    ParsedGroup group{.place = lexer_.peek().place, .first_node = nodes_.size()};
    if (!is_grouped_) return unexpected("a value; only a graph marked 'grouped' has groups");
    TRY(lexer_.advance());
    if (lexer_.peek().kind != Kind::number || !read_integer(lexer_.peek().text, group.rule) || group.rule == UINT16_MAX)
      return unexpected("the row of a fusion rule, 0 to 65534");
    TRY(lexer_.advance());
    group.members = TRY(parse_name());
    while (is_mark('+')) {
      TRY(lexer_.advance());
      group.members += "+" + TRY(parse_name());
    }
    TRY(expect_mark('{'));
    while (lexer_.peek().kind == Kind::value_id) TRY(parse_line());
    TRY(expect_mark('}'));
    group.end_node = nodes_.size();
    groups_.push_back(std::move(group));
    return {};
  }

  // "%3 = weight ..." or "%3 = ADD ..."
  Result<void> parse_line() {
    Reference result = TRY(parse_reference());
    TRY(expect_mark('='));
    const Token head = lexer_.peek();
    if (head.kind != Kind::word) return unexpected("an op, 'weight', 'state' or 'input'");
    TRY(lexer_.advance());
    if (head.text == "weight") return parse_leaf(std::move(result), ValueKind::weight);
    if (head.text == "state") return parse_leaf(std::move(result), ValueKind::state);
    if (head.text == "input") return parse_leaf(std::move(result), ValueKind::input);
    const OpRow* row = find_op(head.text);
    if (!row) return error_at(head.place, fmt::format("there is no op '{}'", head.text));
    return parse_node(std::move(result), *row, head.place);
  }

  Result<void> parse_leaf(Reference result, ValueKind kind) {
    if (!nodes_.empty()) return error_at(result.place, "leaves stand before the first op");
    ParsedLeaf leaf{.result = std::move(result), .place = lexer_.peek().place, .value = {.kind = kind}};
    leaf.value.name = TRY(parse_name());
    TRY(expect_mark(':'));
    TRY(parse_type(leaf.value.dtype, leaf.value.shape));
    leaf.value.row_stride_elems = leaf.value.shape.row_elems();
    if (kind == ValueKind::input) leaf.value.input_role = TRY(parse_role<InputRole>(kInputRoles));
    if (leaf.value.input_role == InputRole::boundary) leaf.value.boundary_idx = TRY(parse_index("index", "an index"));
    if (kind == ValueKind::state) {
      leaf.value.state_role = TRY(parse_role<StateRole>(kStateRoles));
      leaf.value.layer_idx = TRY(parse_index("layer", "the number of a layer"));
    }
    leaves_.push_back(std::move(leaf));
    return {};
  }

  // "layer=3"
  Result<int32_t> parse_index(std::string_view word, std::string_view wanted) {
    TRY(expect_word(word));
    TRY(expect_mark('='));
    int32_t index = 0;
    if (lexer_.peek().kind != Kind::number || !read_integer(lexer_.peek().text, index)) return unexpected(wanted);
    TRY(lexer_.advance());
    return index;
  }

  template <class Role, size_t n>
  Result<Role> parse_role(const std::array<std::string_view, n>& names) {
    TRY(expect_word("role"));
    TRY(expect_mark('='));
    for (size_t i = 1; i < n; ++i) {
      if (!is_word(names[i])) continue;
      TRY(lexer_.advance());
      return static_cast<Role>(i);
    }
    return unexpected("a role");
  }

  Result<void> parse_type(DType& dtype, Shape& shape) {
    const Place place = lexer_.peek().place;
    const DTypeRow* row = nullptr;
    if (lexer_.peek().kind == Kind::word) row = find_dtype(lexer_.peek().text);
    if (lexer_.peek().kind == Kind::word && !row) row = find_cache_dtype(lexer_.peek().text);
    if (!row) return unexpected("a tensor type");
    dtype = row->id;
    TRY(lexer_.advance());
    shape = TRY(parse_shape());
    if (auto ok = check_type(dtype, shape); !ok) return error_at(place, ok.error().message());
    return {};
  }

  Result<Shape> parse_shape() {
    Shape shape;
    TRY(expect_mark('['));
    while (lexer_.peek().kind == Kind::number) {
      int64_t dim = 0;
      if (!read_integer(lexer_.peek().text, dim)) return unexpected("a dimension");
      if (shape.rank() == kMaxDims) return unexpected(fmt::format("at most {} dimensions", kMaxDims));
      shape.push_inner(dim);
      TRY(lexer_.advance());
      if (!is_mark(',')) break;
      TRY(lexer_.advance());
    }
    TRY(expect_mark(']'));
    return shape;
  }

  Result<void> parse_node(Reference result, const OpRow& row, Place op_place) {
    ParsedNode parsed{.result = std::move(result), .op_place = op_place};
    parsed.node.op = row.op;
    parsed.inputs.push_back(TRY(parse_reference()));
    while (is_mark(',')) {
      TRY(lexer_.advance());
      parsed.inputs.push_back(TRY(parse_reference()));
    }
    TRY(expect_mark(':'));
    parsed.type_place = lexer_.peek().place;
    TRY(parse_type(parsed.dtype, parsed.shape));
    while (lexer_.peek().kind == Kind::word && !is_word("return") && !is_word("group")) TRY(parse_attr(parsed.node));
    nodes_.push_back(std::move(parsed));
    return {};
  }

  Result<void> parse_attr(Node& node) {
    const Token key = TRY(lexer_.next());
    TRY(expect_mark('='));
    if (key.text == "name") {
      if (!node.name.empty()) return error_at(key.place, "a second name");
      node.name = TRY(parse_name());
      return {};
    }
    for (const AttrRow& row : kAttrs) {
      if (row.name != key.text) continue;
      if (node.attrs.has(row.id)) return error_at(key.place, fmt::format("{} is given twice", row.name));
      node.attrs.set(row.id, TRY(parse_attr_value(row)));
      return {};
    }
    return error_at(key.place, fmt::format("there is no attribute '{}'", key.text));
  }

  Result<AttrValue> parse_attr_value(const AttrRow& row) {
    if (row.kind == AttrKind::shape) return AttrValue(TRY(parse_shape()));
    const std::string_view text = lexer_.peek().text;
    if (row.kind == AttrKind::keyword) {
      for (size_t i = 0; i < row.keywords.size(); ++i) {
        if (!is_word(row.keywords[i])) continue;
        TRY(lexer_.advance());
        return AttrValue(static_cast<int64_t>(i));
      }
      return unexpected(fmt::format("a keyword of {}", row.name));
    }
    if (lexer_.peek().kind != Kind::number) return unexpected("a number");
    AttrValue value;
    if (row.kind == AttrKind::integer) {
      int64_t integer = 0;
      if (!read_integer(text, integer)) return unexpected("an integer");
      value = integer;
    } else {
      double number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) return unexpected("a number");
      value = number;
    }
    TRY(lexer_.advance());
    return value;
  }

  // --- references -> ids ------------------------------------------------------------------------------------------

  Result<Graph> resolve() {
    graph_.values.resize(leaves_.size() + nodes_.size());
    is_defined_.resize(graph_.values.size());
    for (ParsedLeaf& leaf : leaves_) {
      const ValueId id = TRY(define(leaf.result));
      if (!leaf_ids_.try_emplace(leaf.value.name, id).second)
        return error_at(leaf.place, fmt::format("a second leaf named '{}'", leaf.value.name));
      graph_.values[id] = std::move(leaf.value);
    }
    for (ParsedNode& parsed : nodes_) TRY(resolve_node(parsed));
    for (const Reference& output : outputs_) graph_.outputs.push_back(TRY(find(output)));
    TRY(resolve_groups());
    TRY(verify(graph_));
    return std::move(graph_);
  }

  // The number of a definition: every value has one, so numbers are below their count.
  Result<ValueId> define(const Reference& reference) {
    ValueId id = 0;
    if (!read_integer(reference.id, id) || id >= graph_.values.size())
      return error_at(reference.place,
                      fmt::format("%{}: values are numbered from 0 to {}", reference.id, graph_.values.size() - 1));
    if (is_defined_[id]) return error_at(reference.place, fmt::format("%{} is defined twice", id));
    is_defined_[id] = true;
    return id;
  }

  Result<ValueId> find(const Reference& reference) const {
    if (reference.id.empty()) {
      const auto it = leaf_ids_.find(reference.name);
      if (it == leaf_ids_.end())
        return error_at(reference.place, fmt::format("there is no weight, state or input '{}'", reference.name));
      return it->second;
    }
    ValueId id = 0;
    if (!read_integer(reference.id, id) || id >= graph_.values.size() || !is_defined_[id])
      return error_at(reference.place, fmt::format("%{} is not defined above", reference.id));
    return id;
  }

  Result<void> resolve_node(ParsedNode& parsed) {
    Node& node = parsed.node;
    for (const Reference& input : parsed.inputs) node.inputs.push_back(TRY(find(input)));
    auto value = infer_value(graph_, node.op, node.inputs, node.attrs);
    if (!value) return error_at(parsed.op_place, value.error().message());
    if (value->dtype != parsed.dtype || value->shape != parsed.shape)
      return error_at(parsed.type_place,
                      fmt::format("the result is {} {}", dtype_name(value->dtype), value->shape.to_string()));
    node.output = TRY(define(parsed.result));
    value->name = node.name;
    value->producer = static_cast<NodeId>(graph_.nodes.size());
    graph_.values[node.output] = std::move(*value);
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  Result<void> resolve_groups() {
    if (!is_grouped_) return {};
    const auto add_singles = [&](size_t begin, size_t end) {
      for (size_t id = begin; id < end; ++id) graph_.groups.push_back({.nodes = {static_cast<NodeId>(id)}});
    };
    size_t next = 0;
    for (const ParsedGroup& parsed : groups_) {
      add_singles(next, parsed.first_node);
      Group group{.rule = parsed.rule};
      for (size_t id = parsed.first_node; id < parsed.end_node; ++id) group.nodes.push_back(static_cast<NodeId>(id));
      const std::string members = member_ops(graph_, group);
      if (members != parsed.members)
        return error_at(parsed.place, fmt::format("the group's ops are {}, not {}", members, parsed.members));
      graph_.groups.push_back(std::move(group));
      next = parsed.end_node;
    }
    add_singles(next, graph_.nodes.size());
    return {};
  }

  Lexer lexer_;
  Graph graph_;
  bool is_grouped_ = false;
  std::vector<ParsedLeaf> leaves_;
  std::vector<ParsedNode> nodes_;
  std::vector<ParsedGroup> groups_;
  std::vector<Reference> outputs_;
  std::vector<bool> is_defined_;
  std::unordered_map<std::string, ValueId> leaf_ids_;
};

}  // namespace

Result<Graph> parse_text(std::string_view text) {
  if (text.size() > kMaxTextBytes)
    return Error{.what = fmt::format("{} bytes of text, at most {} are read", text.size(), kMaxTextBytes),
                 .where = "graph text"};
  return Parser(text).run();
}

}  // namespace tokamak::ir
